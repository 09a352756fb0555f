"""What a small batch costs is calls, so they are counted: into torch, and through ``torch.nn.Module``."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import tailmetrics
from tailmetrics import HitRateAtK, LabelBuckets, NDCGAtK, PrecisionAtK, RecallAtK, TopKCollection
from tailmetrics.metrics._states import Addition
from tailmetrics.ranking import native

PACKAGE = str(Path(tailmetrics.__file__).parent)
SCORES = torch.rand(32, 1000, generator=torch.Generator().manual_seed(0))
TARGET = torch.randint(0, 1000, (32,), generator=torch.Generator().manual_seed(1))


class Counted(TorchDispatchMode):
    """Counts the calls into torch that are made meanwhile."""

    calls = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count one call, and make it."""
        self.calls += 1
        return function(*args, **(kwargs or {}))


def test_an_update_of_class_indices_is_few_calls_into_torch() -> None:
    """Each takes two to three microseconds in a batch of 32 × 1000, whose ranking alone takes fifty. C takes 71 fewer.

    None looks whether equal scores are cut: ranking tells that there are none. None counts rows, which all count alike.
    """
    metric = HitRateAtK(10)
    metric.update(SCORES, TARGET)
    with Counted() as counted:
        metric.update(SCORES, TARGET)
    assert counted.calls <= (11 if native.available() else 82)


def test_what_torchmetrics_sets_at_each_call_is_not_looked_up_among_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``Module.__setattr__`` takes longer than a call into torch: only states go through it, when they are reset."""
    metric, names = HitRateAtK(10), []
    metric.update(SCORES, TARGET)
    plain = nn.Module.__setattr__

    def noted(module: nn.Module, name: str, value: Any) -> None:
        names.append(name)
        plain(module, name, value)

    monkeypatch.setattr(nn.Module, "__setattr__", noted)
    metric.update(SCORES, TARGET)
    metric.compute()
    assert names == []
    metric.reset()
    assert sorted(names) == sorted(metric.metric_state)


def own_calls(metric: Any, add: Any = None) -> int:
    """How many functions of the package run in an update, or in a call of ``add``, by Python's own profile."""
    target = torch.stack([TARGET, (TARGET + 1) % 1000], dim=1)
    add = metric.update if add is None else add
    for _ in range(3):
        add(SCORES, target)
    counted = [0]

    def seen(frame: Any, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        counted[0] += event == "call" and file.startswith(PACKAGE)

    sys.setprofile(seen)
    try:
        add(SCORES, target)
    finally:
        sys.setprofile(None)
    return counted[0]


@pytest.mark.skipif(not native.available(), reason="the forms of torch call some functions more")
def test_a_small_update_is_few_calls_of_own_functions() -> None:
    """Of a metric, of one by decile and of five together; each takes a tenth of a microsecond and hides another room."""
    deciles = LabelBuckets.deciles(torch.arange(1000, 0, -1))
    five = [PrecisionAtK([1, 3, 5]), NDCGAtK(10), RecallAtK(10)]
    five += [PrecisionAtK(1, buckets=deciles), RecallAtK(10, buckets=deciles)]
    assert own_calls(PrecisionAtK(5)) <= 65
    assert own_calls(NDCGAtK(10)) <= 80
    assert own_calls(PrecisionAtK(5, buckets=deciles)) <= 98
    assert own_calls(TopKCollection(five)) <= 255


def test_a_batch_is_added_once_and_not_by_each_member_in_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward of a collection adds a batch once, for all of its metrics: to states of 0, then to those that were."""
    added = []
    carry_out = Addition.carry_out
    monkeypatch.setattr(Addition, "carry_out", lambda addition: added.append(1) or carry_out(addition))
    collection = TopKCollection([PrecisionAtK([1, 3, 5]), NDCGAtK(10), RecallAtK(10)])
    first, second = collection(SCORES, TARGET), collection(SCORES, (TARGET + 1) % 1000)
    assert len(added) == 2
    for key, value in collection.compute().items():
        assert float(value) == pytest.approx((float(first[key]) + float(second[key])) / 2, abs=1e-12)
