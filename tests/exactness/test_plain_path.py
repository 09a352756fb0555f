"""On a device, an update waits for nothing and has the bits of the CPU.

No device is needed: ``force_plain`` runs the operations of a device on the CPU, where
those that would wait for it are detected; and torch's meta device refuses to mix
devices, as any other does.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import tailmetrics
from cases import Case, Data, data, padded_ids
from contract.forms import (
    Feed,
    candidates,
    csr_scores,
    csr_target,
)
from exactness.bits import CASES_OF_A_KIND, ONE_OF_EACH, compute_all
from exactness.shared_metrics import metrics_by_case
from exactness.test_forms import feeds, is_enough
from tailmetrics import TopKCollection
from tailmetrics.ranking._device import force_plain

WAITING = {
    "_local_scalar_dense", "nonzero", "nonzero_numpy", "bincount", "masked_select", "unique_consecutive", "_unique", "_unique2",
    "unique_dim", "equal", "is_nonzero", "argwhere", "allclose", "lift_fresh",
}  # fmt: skip
"""Operations whose result, or its size, the program needs from the device; and copies
from Python lists to it.
"""

READING = {
    "tolist",
    "numpy",
    "item",
    "cpu",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "__array__",
    "__contains__",
}


class NoWaiting(TorchDispatchMode):
    """Refuses operations that make a program wait for a device."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        assert name not in WAITING, f"{name} waits for the device"
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            masks = [
                index
                for index in args[1]
                if index is not None and index.dtype in (torch.bool, torch.uint8)
            ]
            assert not masks, f"{name} with a bool mask waits for the device"
        if name == "repeat_interleave":
            assert (kwargs or {}).get("output_size") is not None, (
                "repeat_interleave of unknown size waits"
            )
        return func(*args, **(kwargs or {}))


class NoReading(TorchFunctionMode):
    """Refuses methods that hand values to Python."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        assert getattr(func, "__name__", "") not in READING, (
            f"{func.__name__} waits for the device"
        )
        return func(*args, **(kwargs or {}))


FEEDS: dict[str, Callable[[Data], Feed]] = {
    "scores, multi-hot": lambda batch: (batch.scores, batch.target > 0),
    "scores, gains": lambda batch: (batch.scores, batch.target),
    "scores, ids": lambda batch: (batch.scores, padded_ids(batch.target)),
    "scores, one label": lambda batch: (
        batch.scores.bfloat16(),
        torch.arange(len(batch.scores)) - 1,
    ),
    "ids, ids": lambda batch: (batch.ids, padded_ids(batch.target)),
    "candidates, CSR": lambda batch: (candidates(batch), csr_target(batch.target)),
    "CSR, gains": lambda batch: (csr_scores(batch), batch.target),
}
BATCH = data(seed=41, num_rows=17, graded=True)
OTHER = data(seed=42, num_rows=17, graded=True)


every_feed = pytest.mark.parametrize(
    "name",
    [
        name if name == "scores, gains" else pytest.param(name, marks=pytest.mark.slow)
        for name in FEEDS
    ],
)


def cases_of(name: str) -> list[Case]:
    """Return every argument of every metric for one form of input, and a third of the
    metrics by turns for others.
    """
    cases = (
        CASES_OF_A_KIND
        if name == "scores, gains"
        else ONE_OF_EACH[[*FEEDS].index(name) % 3 :: 3]
    )
    return [
        case
        for case in cases
        if name.startswith("scores") or case.name != "CrossEntropy"
    ]


def test_waiting_operations_are_detected() -> None:
    """Each way to wait for a device is detected."""
    values, mask = torch.arange(3), torch.tensor([True, False, True])
    for call in (
        lambda: values[mask],
        lambda: int(values.max()),
        lambda: bool(mask.any()),
        lambda: values.nonzero(),
        lambda: values.tolist(),
        lambda: torch.tensor([1, 2]),
        lambda: values.new_tensor(1),
        lambda: values.unique(),
        lambda: torch.bincount(values),
        lambda: values.repeat_interleave(values),
        lambda: values.masked_select(mask),
        lambda: torch.equal(values, values),
    ):
        with pytest.raises(AssertionError, match="wait"), NoReading(), NoWaiting():
            call()


@every_feed
def test_update_does_not_wait_for_a_device(name: str) -> None:
    """With validate_args=False no update waits for a device, for every metric, after
    the first batch, which makes the tables of the device.
    """
    first, second = FEEDS[name](OTHER), FEEDS[name](BATCH)
    waiting = []
    for case in cases_of(name):
        metric = case.metric(validate_args=False)
        with force_plain():
            metric.update(*first)
            try:
                with NoReading(), NoWaiting():
                    metric.update(*second, torch.arange(17) % 4 > 0)
            except AssertionError as error:
                waiting.append(f"{case}: {error}")
    assert not waiting, waiting


@every_feed
@pytest.mark.slow
def test_update_stays_on_the_device(name: str) -> None:
    """An update on torch's meta device, which has shapes and no values, reads no value
    and mixes in no tensor of the CPU.
    """
    preds, target = (on_meta(part) for part in FEEDS[name](BATCH))
    for case in cases_of(name):
        metric = case.metric(validate_args=False).to("meta")
        metric.update(preds, target, torch.ones(17, dtype=torch.bool, device="meta"))
        assert {state.device.type for state in metric.metric_state.values()} == {"meta"}


def on_meta(value: Any) -> Any:
    """Return tensors without their values."""
    return tuple(map(on_meta, value)) if isinstance(value, tuple) else value.to("meta")


def test_a_collection_does_not_wait_for_a_device() -> None:
    """An update of a collection, with one ranking for many members and shared tables of
    buckets, does not wait for a device.
    """
    members = {
        str(number): case.metric(validate_args=False)
        for number, case in enumerate(CASES_OF_A_KIND[::4])
    }
    collection = TopKCollection(members)
    with force_plain():
        collection.update(OTHER.scores, OTHER.target)
        with NoReading(), NoWaiting():
            collection.update(BATCH.scores, BATCH.target)


@pytest.mark.parametrize("graded", [False, True], ids=["binary", "graded"])
def test_both_paths_give_the_same_bits(graded: bool) -> None:
    """The forms of a device and of the CPU give the same bits, for every metric, and
    for a third of them by turns in every form of input.
    """
    batch = data(seed=43, num_rows=30, graded=graded)
    expected = values(CASES_OF_A_KIND, tailmetrics.rank(batch.scores, batch.target))
    with force_plain():
        assert (
            values(CASES_OF_A_KIND, tailmetrics.rank(batch.scores, batch.target))
            == expected
        )
        for number, (name, (kind, feed)) in enumerate(feeds(batch).items()):
            if len(feed) == 1:
                continue  # a ranking that was made in the other form
            usable = [
                case for case in ONE_OF_EACH[number % 3 :: 3] if is_enough(case, kind)
            ]
            bits_by_case = values(usable, tailmetrics.rank(*feed, num_labels=40))
            assert [
                case for case, value in bits_by_case.items() if value != expected[case]
            ] == [], name


def values(cases: list[Case], ranking: tailmetrics.Ranking) -> dict[str, object]:
    """Return the bits of each metric after one ranking."""
    return dict(
        zip(
            map(str, cases),
            compute_all([metrics_by_case()[str(case)] for case in cases], [ranking]),
            strict=True,
        )
    )


@pytest.mark.parametrize("depth", [3, 12])
def test_both_paths_give_the_same_bits_for_cut_lists(depth: int) -> None:
    """The forms of a device and of the CPU give the same bits for cut lists wider than
    one block of the selection, with exact ranks beyond the cut and rows full of gains.
    """
    generator = torch.Generator().manual_seed(7)
    scores = (torch.randn(9, 3000, generator=generator) * 8).round() / 8
    target = (torch.rand(9, 3000, generator=generator) < 0.01) * torch.rand(
        9, 3000, generator=generator
    )
    metrics: list[Any] = [
        tailmetrics.MRR(),
        tailmetrics.MAP(),
        tailmetrics.NDCGAtK(k=None),
        tailmetrics.RPrecision(),
    ]
    metrics += [
        tailmetrics.TieRateAtK(k=[1, 2, 3]),
        tailmetrics.CrossEntropy(),
        tailmetrics.NDCGAtK(k=[1, 3]),
    ]
    expected = compute_all(metrics, [tailmetrics.rank(scores, target, depth=depth)])
    with force_plain():
        assert (
            compute_all(metrics, [tailmetrics.rank(scores, target, depth=depth)])
            == expected
        )
