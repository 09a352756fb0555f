"""Batches that a thread adds beside the program: the same bits, nothing lost, and no number of a batch that changed."""

import copy
import gc
import pickle
import random
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from cases import BUCKETS, NUM_LABELS, data
from exactness.bits import bits_of
from tailmetrics import LabelAUC, NDCGAtK, PrecisionAtK, RecallAtK, TopKCollection, rank

BATCHES = [data(seed=seed, num_rows=7, graded=True) for seed in range(6)]
NAN = torch.full((2, NUM_LABELS), torch.nan)


def made(background: bool = True) -> TopKCollection:
    """Metrics of each kind of state."""
    members = [
        NDCGAtK(k=[1, 5], buckets=BUCKETS),
        RecallAtK(k=3, average="macro", num_labels=NUM_LABELS),
        PrecisionAtK(k=3),
        LabelAUC(num_labels=NUM_LABELS),
    ]
    return TopKCollection(members, background=background)


def bits(collection: TopKCollection) -> dict[str, Any]:
    """The bits of each value."""
    return {key: bits_of(value) for key, value in collection.compute().items()}


@pytest.mark.parametrize("seed", range(40))
def test_random_lives_end_in_the_same_bits(seed: int) -> None:
    """Updates, errors, resets, checkpoints, copies, merges and values in any order, held against batches added at once."""
    chance = random.Random(seed)
    one, other = made(), made(background=False)
    for _ in range(12):
        step = chance.choice(["add", "add", "add", "add", "wrong", "reset", "checkpoint", "copy", "merge", "value"])
        batch = chance.choice(BATCHES)
        if step == "add":
            given = chance.choice([(batch.scores, batch.target), (rank(batch.scores, batch.target),)])
            one.update(*given)
            other.update(*given)
        elif step == "wrong":
            one.update(NAN, torch.tensor([0, 1]))
            with pytest.raises(ValueError, match=r"preds holds NaN in row 0; .*\(This is batch \d+ since the last res"):
                one.compute()
        elif step == "reset":
            one.reset()
            other.reset()
        elif step == "checkpoint":
            data_of_one, one = one.state_bytes(), made()
            one.load_state_bytes(data_of_one)
        elif step == "copy":
            one = chance.choice([one.clone, lambda one=one: pickle.loads(pickle.dumps(one))])()
        elif step == "merge":
            more = made()
            more.update(batch.scores, batch.target)
            one.merge_state(more)
            other.update(batch.scores, batch.target)
        elif len(other.members()) and next(iter(other.members().values())).update_count:
            assert bits(one) == bits(other)
    one.update(BATCHES[0].scores, BATCHES[0].target)
    other.update(BATCHES[0].scores, BATCHES[0].target)
    assert bits(one) == bits(other)


class Held:
    """A collection whose thread is held up until it is let go."""

    def __init__(self) -> None:
        self.collection, self.go = made(), threading.Event()
        self.collection._state_lock.submit(lambda: self.go.wait(60) and None)  # type: ignore[union-attr]


def test_an_update_returns_before_the_batch_is_added() -> None:
    """As many as may wait; then whatever reads states waits: members too, by themselves."""
    held, plain = Held(), made(background=False)
    for batch in BATCHES[:2]:
        held.collection.update(batch.scores, batch.target)  # would never return if it added them
        plain.update(batch.scores, batch.target)
    held.go.set()
    member = held.collection._modules["precision_3"]
    assert bits_of(member.compute()) == bits_of(plain["precision_3"].compute())
    assert bits(held.collection) == bits(plain)


@pytest.mark.parametrize(
    "read",
    [
        lambda one: one.compute(), lambda one: one.members(), lambda one: one.state_bytes(), lambda one: one.per_label(),
        lambda one: one.clone(), lambda one: one.state_dict(), lambda one: one["precision_3"], lambda one: one.to("cpu"),
        lambda one: pickle.dumps(one), lambda one: copy.deepcopy(one), lambda one: list(one.items()),
        lambda one: one.merge_state(made()), lambda one: one.metric_state, lambda one: one(*pair(1)),
        lambda one: one._modules["precision_3"].metric_state, lambda one: one._modules["precision_3"].clone(),
        lambda one: one._modules["precision_3"].reset(), lambda one: one._modules["precision_3"].update(*pair(1)),
    ],
    ids=range(18),
)  # fmt: skip
def test_what_reads_or_changes_states_waits(read: Any) -> None:
    """The thread is let go by another one; what is then read has the batch."""
    held = Held()
    held.collection.update(*pair(0))
    waits = threading.Event()
    background = held.collection._state_lock
    join = background._join  # type: ignore[union-attr]

    def noted() -> None:
        waits.set()
        held.go.set()
        join()

    background._join = noted  # type: ignore[method-assign, union-attr]
    read(held.collection)
    assert waits.is_set()


def pair(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The scores and targets of a batch, as tensors of their own."""
    return BATCHES[number].scores.clone(), BATCHES[number].target.clone()


def test_a_batch_that_changed_is_refused_until_a_reset() -> None:
    """Whether its turn had come or not: in place, through a view, and where it had not been added yet."""
    for change in (
        lambda scores: scores.sigmoid_(),
        lambda scores: scores[:, 1:].zero_(),
        lambda scores: scores.add_(1),
    ):
        held = Held()
        scores, target = pair(0)
        held.collection.update(scores, target)
        change(scores)
        with pytest.raises(ValueError, match=r"a tensor of batch 2 was changed in place after update\(\)"):
            held.collection.update(*pair(1))
        held.go.set()
        for _ in range(2):
            with pytest.raises(ValueError, match=r"call reset\(\)"):
                held.collection.compute()
        held.collection.reset()
        held.collection.update(*pair(1))
        plain = made(background=False)
        plain.update(*pair(1))
        assert bits(held.collection) == bits(plain)


def test_what_cannot_be_watched_is_copied() -> None:
    """Arrays and tensors of inference mode may be used again at once."""
    scores, target = pair(0)
    plain = made(background=False)
    plain.update(scores, target)
    with torch.inference_mode():
        of_inference = scores.clone()
    for given in (scores.numpy().copy(), of_inference):
        held = Held()
        held.collection.update(given, target)
        with torch.inference_mode():
            given[:] = 0
        held.go.set()
        assert bits(held.collection) == bits(plain)
    ids = np.argsort(-scores.numpy(), axis=1)
    listed, wanted = [TopKCollection([PrecisionAtK(k=3)], background=choice) for choice in (True, False)]
    labels = target.argmax(dim=1).numpy()
    wanted.update(ids, labels)
    listed.update(ids, labels)
    labels[:] = 0
    assert bits(listed) == bits(wanted)


def test_each_error_is_told_once_with_its_batch() -> None:
    """In the next calls, one in each, which do nothing else; what came between counts."""
    collection, plain = made(), made(background=False)
    collection.update(*pair(0))
    collection.update(NAN, torch.tensor([0, 1]))
    collection._state_lock._join()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=r"TopKCollection: preds holds NaN in row 0.*batch 2 since the last reset"):
        collection.update(*pair(1))
    collection.update(*pair(2))
    for number in (0, 2):
        plain.update(*pair(number))
    assert bits(collection) == bits(plain)
    collection.update(NAN, torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="batch 4 since the last reset"):
        collection.reset()
    assert bits(collection) == bits(plain)
    collection.reset()
    collection.update(NAN, torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="batch 1 since the last reset"):
        collection.compute()


def test_the_thread_ends_with_the_collection() -> None:
    """And holds no batch, and not the collection, once all is added."""
    collection = made()
    scores, target = pair(0)
    collection.update(scores, target)
    collection.compute()
    thread: Any = collection._state_lock._thread  # type: ignore[union-attr]
    seen = weakref.ref(collection), weakref.ref(scores)
    del collection, scores
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
    assert [one() for one in seen] == [None, None]
