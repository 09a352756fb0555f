"""The number of calls for a small batch, into torch and through ``torch.nn.Module``:
calls are what it costs.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import tailmetrics
from tailmetrics import (
    HitRateAtK,
    LabelBuckets,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
    TopKCollection,
)
from tailmetrics.metrics._states import Addition
from tailmetrics.ranking import native

PACKAGE = str(Path(tailmetrics.__file__).parent)
SCORES = torch.rand(32, 1000, generator=torch.Generator().manual_seed(0))
TARGET = torch.randint(0, 1000, (32,), generator=torch.Generator().manual_seed(1))


class CallCounter(TorchDispatchMode):
    """Counts the calls into torch that are made in its context."""

    calls = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Count one call, and make it."""
        self.calls += 1
        return function(*args, **(kwargs or {}))


def test_an_update_of_class_indices_is_few_calls_into_torch() -> None:
    """An update with class indices makes at most 11 calls into torch, or 82 without the
    C code.

    No call looks for equal scores at the cut or counts rows, because the ranking knows
    both.
    """
    metric = HitRateAtK(10)
    metric.update(SCORES, TARGET)
    with CallCounter() as counter:
        metric.update(SCORES, TARGET)
    assert counter.calls <= (11 if native.available() else 82)


def test_update_and_compute_bypass_module_setattr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """update and compute set no attribute through ``Module.__setattr__``, which takes
    longer than a call into torch. reset sets the states through it.
    """
    metric, names = HitRateAtK(10), []
    metric.update(SCORES, TARGET)
    plain = nn.Module.__setattr__

    def record(module: nn.Module, name: str, value: Any) -> None:
        names.append(name)
        plain(module, name, value)

    monkeypatch.setattr(nn.Module, "__setattr__", record)
    metric.update(SCORES, TARGET)
    metric.compute()
    assert names == []
    metric.reset()
    assert sorted(names) == sorted(metric.metric_state)


def package_calls(metric: Any, add: Any = None) -> int:
    """Return how many functions of the package run in an update, or in a call of
    ``add``, by Python's own profile.
    """
    target = torch.stack([TARGET, (TARGET + 1) % 1000], dim=1)
    add = metric.update if add is None else add
    for _ in range(3):
        add(SCORES, target)
    num_calls = [0]

    def profile(frame: Any, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        num_calls[0] += event == "call" and file.startswith(PACKAGE)

    sys.setprofile(profile)
    try:
        add(SCORES, target)
    finally:
        sys.setprofile(None)
    return num_calls[0]


@pytest.mark.skipif(
    not native.available(), reason="the forms of torch call some functions more"
)
def test_small_update_calls_few_functions_of_the_package() -> None:
    """An update of a small batch calls few functions of the package: at most 65 for
    precision, 80 for nDCG, 98 by decile, and 255 for a collection of five.
    """
    deciles = LabelBuckets.deciles(torch.arange(1000, 0, -1))
    five = [PrecisionAtK([1, 3, 5]), NDCGAtK(10), RecallAtK(10)]
    five += [PrecisionAtK(1, buckets=deciles), RecallAtK(10, buckets=deciles)]
    assert package_calls(PrecisionAtK(5)) <= 65
    assert package_calls(NDCGAtK(10)) <= 80
    assert package_calls(PrecisionAtK(5, buckets=deciles)) <= 98
    assert package_calls(TopKCollection(five)) <= 255


def test_forward_of_a_collection_adds_a_batch_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """forward of a collection adds a batch once for all its metrics, and not once for
    each member. compute is then the mean of the two batch values.
    """
    added = []
    carry_out = Addition.carry_out
    monkeypatch.setattr(
        Addition, "carry_out", lambda addition: added.append(1) or carry_out(addition)
    )
    collection = TopKCollection([PrecisionAtK([1, 3, 5]), NDCGAtK(10), RecallAtK(10)])
    first, second = collection(SCORES, TARGET), collection(SCORES, (TARGET + 1) % 1000)
    assert len(added) == 2
    for key, value in collection.compute().items():
        assert float(value) == pytest.approx(
            (float(first[key]) + float(second[key])) / 2, abs=1e-12
        )
