"""Several threads with one collection, processes that are forked or started beside it, and a program that ends."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import processes
import tailmetrics as tm
from cases import NUM_LABELS, data
from tailmetrics.metrics._states import Addition

THREADS = 8
UPDATES = int(os.environ.get("TAILMETRICS_FUZZ_CASES", "200"))
"""In all threads together; 10,000 of them take two minutes."""
BATCHES = [data(seed=seed, num_rows=7, graded=True) for seed in range(20)]


def made(background: bool = False) -> tm.TopKCollection:
    """Metrics of each kind of state, two of which share theirs."""
    by_label: dict[str, Any] = {"k": 3, "average": "macro", "num_labels": NUM_LABELS}
    coverage = tm.CatalogCoverageAtK(3, num_labels=NUM_LABELS)
    members = [tm.NDCGAtK(k=[1, 5]), tm.F1AtK(**by_label), tm.RecallAtK(**by_label), coverage]
    return tm.TopKCollection(members, background=background)


def fed(collection: Any, numbers: Any) -> Any:
    """The collection after the batches of these numbers."""
    for number in numbers:
        batch = BATCHES[number % len(BATCHES)]
        collection.update(batch.scores, batch.target)
    return collection


@pytest.fixture
def hasty() -> Iterator[None]:
    """Python changes threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], None]) -> None:
    """Run a function of a number in threads, each of which gives torch four; raise what one of them raises."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        torch.set_num_threads(4)
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    for error in errors:
        raise error


@pytest.mark.parametrize("background", [False, True])
def test_threads_that_update_one_collection_lose_no_batch(background: bool, hasty: None) -> None:
    """The states are those of the same batches in order, whoever reads values meanwhile."""
    many = made(background)

    def some(number: int) -> None:
        fed(many, range(number, UPDATES, THREADS))
        many.compute()

    in_threads(some)
    assert many.state_bytes() == fed(made(), range(UPDATES)).state_bytes()


KINDS = {
    "collection": (made, lambda one: fed(one, range(1))),
    "metric": (lambda: tm.NDCGAtK(k=3), lambda one: fed(one, range(1))),
    "forward": (lambda: tm.NDCGAtK(k=3), lambda one: one(BATCHES[0].scores, BATCHES[0].target)),
    "merge": (lambda: tm.NDCGAtK(k=3), lambda one: (fed(one, range(1)), one.merge_state(tm.NDCGAtK(k=3)))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_thread_at_a_time_adds(kind: str, hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other is between what is read of the states and what is written."""
    make, add = KINDS[kind]
    one, inside, most = make(), [0], [0]
    whole = Addition.carry_out

    def noted(addition: Addition) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0)  # let another thread run, if one can
        whole(addition)
        inside[0] -= 1

    monkeypatch.setattr(Addition, "carry_out", noted)
    in_threads(lambda number: [add(one) for _ in range(12)] and None)
    assert most == [1]
    assert one.state_bytes() != make().state_bytes()
    counts = [part.update_count for part in one._parts().values()]
    assert set(counts) == {THREADS * 12}


def test_metrics_that_are_merged_into_each_other_do_not_wait_without_end() -> None:
    """Two threads, each of which adds the metric of the other: both locks are taken in one order."""
    pair = [fed(tm.NDCGAtK(k=3), range(1)) for _ in range(2)]
    in_threads(lambda number: [pair[number % 2].merge_state(pair[1 - number % 2]) for _ in range(3)] and None)


@pytest.mark.parametrize("background", [False, True])
def test_a_copy_has_one_lock_of_its_own_for_all_members(background: bool) -> None:
    """However it is copied; a copy of one member has another."""
    first = fed(made(background), range(2))
    locks = [first._state_lock, next(iter(first.members().values())).clone()._state_lock]
    for other in (first.clone(), copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert {*(id(metric._state_lock) for metric in other.members().values())} == {id(other._state_lock)}
        assert fed(other, [2]).state_bytes() == fed(made(), range(3)).state_bytes()
        locks.append(other._state_lock)
    assert len({*map(id, locks)}) == 5


# processes


def goes_on(collections: list[tm.TopKCollection], path: str, answer: Any) -> None:
    """What another process does: it adds batches 2 and 3 to each collection, and says what that then holds.

    Then the last batch fails in a collection that lives as long as the process.
    """
    answer.put([fed(one, (2, 3)).state_bytes() for one in collections])
    sys.stderr = open(path, "w")  # noqa: SIM115 # it is printed to at the end
    globals()["kept"] = kept = tm.TopKCollection([tm.RecallAtK(k=1)], background=True)
    for score in (0.1, float("nan")):
        kept.update(torch.tensor([[0.9, score, 0.5]]), torch.tensor([2]))


STARTS = [
    pytest.param(start, marks=[pytest.mark.slow] if start != "fork" else [])
    for start in multiprocessing.get_all_start_methods()
]
TOLD = (
    "TopKCollection: batch 2 was not added: TopKCollection: preds holds NaN in row 0; a score must be a number (-inf "
    "for a label that is not retrieved).\n"
)


@pytest.mark.parametrize("start", STARTS)
def test_another_process_goes_on_with_what_it_is_given(start: str, tmp_path: Path) -> None:
    """Forked after use, or sent: it adds its batches to its own states, and this process keeps its own.

    It ends without what ``atexit`` knows, and still waits for its last batches, and says which batch failed.
    """
    context: Any = processes.context() if start == "forkserver" else multiprocessing.get_context(start)
    collections, answer = [fed(made(background), range(2)) for background in (False, True)], context.SimpleQueue()
    for one in collections:
        one.compute()
    process = context.Process(target=goes_on, args=(collections, f"{tmp_path}/said", answer))
    process.start()
    found = answer.get()
    process.join()
    assert (process.exitcode, (tmp_path / "said").read_text()) == (0, TOLD)
    assert found == [fed(made(), range(4)).state_bytes()] * 2
    for one in collections:
        assert one.state_bytes() == fed(made(), range(2)).state_bytes()
        fed(one, range(2, 6))
        assert one.state_bytes() == fed(made(), range(6)).state_bytes()


PROGRAM = """
import gc, os, sys, threading, torch
import tailmetrics as tm

def run():
    collection = tm.TopKCollection([tm.RecallAtK(k=1)], background=True)
    collection.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([2]))
    collection.update(torch.tensor([[0.9, float("nan"), 0.5]]), torch.tensor([2]))
    return collection

tm.RecallAtK, tm.TopKCollection  # loaded here, and not in each child
gc.freeze()  # no child looks for garbage in what was loaded
for number, end in enumerate(sys.argv[1:]):
    if not os.fork():
        for stream in (1, 2):
            os.dup2(os.open(f"{number}.{stream}", os.O_CREAT | os.O_WRONLY), stream)
        exec(end)
        sys.exit()
    assert os.wait()[1] == 0

batch = torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([2])
found = []

def answer(one):
    "What a forked process says to update, compute and bytes, and after a reset; sent as text over a pipe."
    said = []
    for call in (lambda: one.update(*batch), one.compute, one.state_bytes, one.clone):
        try:
            call()
            said.append("accepted")
        except ValueError as error:
            said.append(str(error))
    one.reset()
    one.update(*batch)
    return [*said, str(one.compute())]

def in_child(work):
    reads, writes = os.pipe()
    if not os.fork():
        os.close(reads)
        with os.fdopen(writes, "w") as out:
            out.write(repr(work()))
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as read:
        return eval(read.read())

for background in (False, True):
    collection = tm.TopKCollection([tm.RecallAtK(k=1), tm.PrecisionAtK(k=2)], background=background)
    collection.update(*batch)
    entered, go = threading.Event(), threading.Event()
    carry_out = tm.metrics._states.Addition.carry_out

    def held_up(addition):
        entered.set()
        go.wait(60)
        carry_out(addition)

    tm.metrics._states.Addition.carry_out = held_up
    thread = threading.Thread(target=lambda: collection.update(*batch))
    thread.start()
    entered.wait(60)
    tm.metrics._states.Addition.carry_out = carry_out
    found.append(in_child(lambda: answer(collection)))
    go.set()
    thread.join()
    found.append(str(collection.compute()))

print(found)
"""
"""A program of which some copies end, and some are forked in the middle of a batch."""
ENDS = {
    "kept = run()": ("", TOLD),
    "run()": ("", TOLD),
    "try: run().compute()\nexcept ValueError: print(1)": ("1\n", ""),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[tuple[str, ...]]]:
    """What the program printed, and what each of its copies that ended printed, and said on stderr."""
    folder = tmp_path_factory.mktemp("ended")
    words = [sys.executable, "-c", PROGRAM, *ENDS]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    said = [tuple((folder / f"{number}.{stream}").read_text() for stream in (1, 2)) for number in range(len(ENDS))]
    return ran.stdout, said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_process_that_was_forked_in_the_middle_of_a_batch_says_so(ended: Any) -> None:
    """By another thread, or with batches in the queue of the background: an error until the reset, and no hang."""
    of_child, of_parent, of_background, of_its_parent = eval(ended[0].splitlines()[-1])
    value = "{'recall@1': tensor(0., dtype=torch.float64), 'precision@2': tensor(0.5000, dtype=torch.float64)}"
    for said in (of_child, of_background):
        assert len(said) == 5 and said[-1] == value
        for one in said[:-1]:
            assert one.startswith(
                "The states are not whole: this process was forked while another thread added a batch."
            )
    assert of_parent == of_its_parent == value


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_program_that_ends_says_which_batch_failed(ended: Any) -> None:
    """Of a collection that is there or is not; unless a call has raised the error."""
    assert ended[1] == [*ENDS.values()]
