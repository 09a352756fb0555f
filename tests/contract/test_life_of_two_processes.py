"""Random sequences of calls on a metric and a collection in two gloo processes agree
with plain lists of batches.
"""

import os
import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torchmetrics.utilities.exceptions import TorchMetricsUserError

import processes
import tailmetrics as tm
from cases import BUCKETS, NUM_LABELS, data
from exactness.bits import bits_of

LIVES = int(os.environ.get("TAILMETRICS_FUZZ_CASES", "24"))
"""Each takes a quarter of a second on two processes."""
STEPS = 14
BATCHES = [data(seed=seed, num_rows=1 + seed % 4, graded=True) for seed in range(7)]
NAN = torch.full((2, NUM_LABELS), torch.nan), torch.tensor([0, 1])


def make_holder(is_metric: bool) -> Any:
    """Return a metric, or a collection of each kind of state, two members of which
    share theirs.
    """
    by_label: dict[str, Any] = {"k": 3, "average": "macro", "num_labels": NUM_LABELS}
    if is_metric:
        return tm.NDCGAtK(k=[1, 5], buckets=BUCKETS)
    coverage = tm.CatalogCoverageAtK(3, num_labels=NUM_LABELS)
    return tm.TopKCollection(
        [tm.NDCGAtK(k=[1, 5]), tm.F1AtK(**by_label), tm.RecallAtK(**by_label), coverage]
    )


def parts_of(metric: Any) -> list[Any]:
    """Return the metric as a list, or the members of a collection."""
    return (
        [metric] if isinstance(metric, tm.NDCGAtK) else list(metric._modules.values())
    )


def fed(metric: Any, numbers: Any) -> Any:
    """Return the metric or collection after the batches of these numbers."""
    for number in numbers:
        metric.update(BATCHES[number].scores, BATCHES[number].target)
    return metric


def bits(value: Any) -> Any:
    """Return the bits of a value, or of each value of a dict."""
    return (
        {key: bits_of(scalar) for key, scalar in value.items()}
        if isinstance(value, dict)
        else bits_of(value)
    )


class Life:
    """A metric or collection of this process, and the batches that each process has
    added to its own.
    """

    def __init__(self, seed: int, rank: int) -> None:
        self.chance, self.rank = random.Random(seed), rank
        self.is_metric = bool(seed % 2)
        self.holder = make_holder(self.is_metric)
        self.holder.persistent(True)
        self.lists: list[list[int]] = [[], []]
        self.saved: list[tuple[Any, list[list[int]]]] = []
        self.synced: set[int] = set()
        self.cache: dict[Any, Any] = {}
        self.calls: list[str] = []

    def plain(self, numbers: Any) -> Any:
        """Return a new one after these batches."""
        key = tuple(sorted(numbers))
        if key not in self.cache:
            self.cache[key] = fed(make_holder(self.is_metric), key)
            for part in parts_of(self.cache[key]):
                part.sync_on_compute = False  # the value of these batches alone
        return self.cache[key]

    def batches_of(self, part: int) -> list[int]:
        """Return the batches that a part holds here."""
        return (
            self.lists[0] + self.lists[1]
            if part in self.synced
            else self.lists[self.rank]
        )

    def check(self) -> None:
        """Assert that each part has the states of its batches, and the right flag for
        states of all processes.
        """
        for number, part in enumerate(parts_of(self.holder)):
            expected = parts_of(self.plain(self.batches_of(number)))[number]
            assert bits(part.metric_state) == bits(expected.metric_state), (
                number,
                self.calls,
            )
            assert part._is_synced == (number in self.synced), (number, self.calls)

    @contextmanager
    def refused_if_synced(self) -> Iterator[None]:
        """Expect an error if states of all processes are loaded."""
        if not self.synced:
            yield
            return
        with pytest.raises(
            ValueError, match=r"are those of all processes; call unsync\(\) first"
        ):
            yield

    def step(self) -> None:
        """Make one call, the same on both processes, with their own batches."""
        steps = {
            name: getattr(self, name) for name in vars(Life) if name.startswith("do_")
        }
        name = self.chance.choice(
            [*steps, "do_update", "do_update", "do_sync", "do_unsync"]
        )
        self.calls.append(name)
        number = self.chance.randrange(len(BATCHES))
        numbers = [number, (number + 3) % len(BATCHES)]
        steps[name](numbers, numbers[self.rank])
        self.check()

    def add(self, numbers: list[int]) -> None:
        """Add one batch to the list of each process, unless the call was refused."""
        for numbers_of_rank, number in zip(self.lists, numbers, strict=True):
            numbers_of_rank += [] if self.synced else [number]

    def do_update(self, numbers: list[int], own_number: int) -> None:
        with self.refused_if_synced():
            fed(self.holder, [own_number])
        self.add(numbers)

    def do_forward(self, numbers: list[int], own_number: int) -> None:
        with self.refused_if_synced():
            value = self.holder(BATCHES[own_number].scores, BATCHES[own_number].target)
            assert bits(value) == bits(self.plain([own_number]).compute())
        self.add(numbers)

    def do_wrong(self, numbers: list[int], own_number: int) -> None:
        for call in (self.holder.update, self.holder):
            with pytest.raises(ValueError, match="NaN|call unsync"):
                call(*NAN)

    def do_compute(self, numbers: list[int], own_number: int) -> None:
        value, every = (
            self.holder.compute(),
            self.plain(self.lists[0] + self.lists[1]).compute(),
        )
        assert bits(value) == bits(every), self.calls

    def do_sync(self, numbers: list[int], own_number: int) -> None:
        numbers_to_sync = [
            number
            for number, _ in enumerate(parts_of(self.holder))
            if self.chance.random() < 0.5
        ]
        for number in numbers_to_sync:
            if number in self.synced:
                with pytest.raises(TorchMetricsUserError):
                    parts_of(self.holder)[number].sync()
            else:
                parts_of(self.holder)[number].sync()
                self.synced.add(number)

    def do_unsync(self, numbers: list[int], own_number: int) -> None:
        for number in sorted(self.synced):
            parts_of(self.holder)[number].unsync()
        self.synced.clear()

    def do_save(self, numbers: list[int], own_number: int) -> None:
        if not self.synced:  # a state_dict of all processes differs from that of one
            self.saved.append(
                (self.holder.state_dict(), [list(numbers) for numbers in self.lists])
            )

    def do_load(self, numbers: list[int], own_number: int) -> None:
        if self.saved:
            data, lists = self.chance.choice(self.saved)
            with self.refused_if_synced():
                self.holder.load_state_dict(dict(data))
            if not self.synced:
                self.lists = [list(numbers) for numbers in lists]

    def do_load_wrong(self, numbers: list[int], own_number: int) -> None:
        with pytest.raises(ValueError, match="holds no state|call unsync"):
            self.holder.load_state_dict({})
        cut = self.holder.state_dict()
        cut[list(cut)[-1]] = torch.zeros(1)
        with pytest.raises((ValueError, RuntimeError), match="is needed|call unsync"):
            self.holder.load_state_dict(cut)

    def do_merge(self, numbers: list[int], own_number: int) -> None:
        with self.refused_if_synced():
            self.holder.merge_state(fed(make_holder(self.is_metric), [own_number]))
        self.add(numbers)

    def do_merge_into_another(self, numbers: list[int], own_number: int) -> None:
        other = fed(make_holder(self.is_metric), [own_number])
        with self.refused_if_synced():
            other.merge_state(self.holder)
            assert other.update_count if self.is_metric else True
        expected = [own_number] if self.synced else [own_number, *self.lists[self.rank]]
        for part, plain in zip(
            parts_of(other), parts_of(self.plain(expected)), strict=True
        ):
            assert bits(part.metric_state) == bits(plain.metric_state)

    def do_reset(self, numbers: list[int], own_number: int) -> None:
        self.holder.reset()
        self.lists, self.synced = [[], []], set()

    def do_copy(self, numbers: list[int], own_number: int) -> None:
        self.holder = self.chance.choice(
            [self.holder.clone, lambda: pickle.loads(pickle.dumps(self.holder))]
        )()

    def do_error_in_compute(self, numbers: list[int], own_number: int) -> None:
        part = self.chance.choice(parts_of(self.holder))
        vars(part).update(shaped=lambda values: 1 // 0, _computed=None)
        with pytest.raises(ZeroDivisionError):
            self.holder.compute()
        with pytest.raises((ZeroDivisionError, ValueError)):
            self.holder(BATCHES[own_number].scores, BATCHES[own_number].target)
        del vars(part)["shaped"]

    def do_error_while_added(self, numbers: list[int], own_number: int) -> None:
        part = self.chance.choice(parts_of(self.holder))
        vars(part)["prepare"] = lambda ranking: 1 // 0
        is_leader = (
            self.is_metric or part is not self.holder.members()["macro_recall_3"]
        )
        for call in (self.holder.update, self.holder) if is_leader else ():
            with pytest.raises((ZeroDivisionError, ValueError)):
                call(BATCHES[own_number].scores, BATCHES[own_number].target)
        del vars(part)["prepare"]

    def do_error_in_sync_context(self, numbers: list[int], own_number: int) -> None:
        def read(part: Any) -> None:
            with part.sync_context():
                raise ArithmeticError

        for part in parts_of(self.holder):
            with pytest.raises(ArithmeticError):
                read(part)


def lives(rank: int, world: int) -> int:
    """Run many sequences, and return their number."""
    for seed in range(LIVES):
        life = Life(seed, rank)
        try:
            for _ in range(STEPS):
                life.step()
        except BaseException as error:
            raise AssertionError(
                f"life {seed} of process {rank}: {life.calls}: {type(error).__name__}: {error}"
            ) from error
    return LIVES


@pytest.mark.slow
def test_accepted_calls_count_once_and_refused_calls_change_nothing(
    tmp_path: Path,
) -> None:
    """Update, forward, compute, sync, unsync, save, load, merge, reset, copy and errors
    in any order: an accepted batch counts once, and a refused call changes nothing.
    """
    assert processes.run_on_ranks(lives, 2, tmp_path) == [LIVES, LIVES]
