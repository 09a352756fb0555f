"""Collections from several workers: ``merge_state``, ``state_bytes`` and ``load_state_bytes`` give the bits of one.

Readings of the contract where it leaves a choice:

- ``merge_state(other)`` adds the other collection's rows to this one and leaves the other as it is.
- ``load_state_bytes(data)`` replaces what the collection has counted. Data of other members, options or buckets, and
  data that is cut, changed or made by something else, is refused with a ValueError, and nothing changes.
- The bytes hold states and digests, no tables of labels: their number does not depend on the number of labels where
  no member counts per label.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

import tailmetrics
from wishes.rows import COUNTS, DECILES, NUM_LABELS, THREE, bits, fed, graded, halves

BATCHES = [part for half in halves(graded(1, num_rows=60), 25) for part in halves(half, 11)]
FREQUENCY = tailmetrics.LabelFrequency.from_counts(COUNTS, int(COUNTS.sum()))


def collection(buckets: Any = DECILES, k: Any = (1, 5), **more: Any) -> Any:
    """Means, medians, averages over labels, propensities and coverage, overall and by bucket."""
    ks = list(k)
    members = [
        tailmetrics.RecallAtK(k=ks),
        tailmetrics.NDCGAtK(k=ks, buckets=buckets),
        tailmetrics.F1AtK(k=ks, average="macro", num_labels=NUM_LABELS),
        tailmetrics.KForRecall(min_recall=0.5, num_labels=NUM_LABELS),
        tailmetrics.PropensityScoredPrecisionAtK(k=ks, label_counts=COUNTS, num_train=int(COUNTS.sum())),
        tailmetrics.CatalogCoverageAtK(k=1, num_labels=NUM_LABELS),
        tailmetrics.GiniAtK(k=5, buckets=buckets),
    ]
    return tailmetrics.TopKCollection(members, **more)


def of(parts: list[Any]) -> Any:
    """A collection that has seen these batches."""
    made = collection()
    for part in parts:
        made.update(*part)
    return made


def values(made: Any) -> dict[str, Any]:
    return {key: bits(value) for key, value in made.compute().items()}


WANTED = values(of(BATCHES))


def test_merged_collections_have_the_bits_of_one() -> None:
    """In any order and grouping; the merged one stays as it is."""
    first, second, third = of(BATCHES[:1]), of(BATCHES[1:3]), of(BATCHES[3:])
    third_alone = values(third)
    first.merge_state(second)
    first.merge_state(third)
    assert values(first) == WANTED
    assert values(third) == third_alone
    third.merge_state(of(BATCHES[2:3]))
    third.merge_state(of(BATCHES[:2]))
    assert values(third) == WANTED


def test_merging_a_collection_that_has_seen_nothing() -> None:
    """Nothing is added; nothing is lost either way round."""
    seen, unseen = of(BATCHES), collection()
    seen.merge_state(unseen)
    assert values(seen) == WANTED
    unseen.merge_state(of(BATCHES))
    assert values(unseen) == WANTED


def test_merging_after_compute_is_not_cached() -> None:
    """A value computed before the merge is not given again."""
    first = of(BATCHES[:2])
    first.compute()
    first.merge_state(of(BATCHES[2:]))
    assert values(first) == WANTED
    first.update(*BATCHES[0])
    assert values(first) != WANTED


OTHERS: dict[str, Any] = {
    "other cut-offs": lambda: collection(k=(1, 3)),
    "other buckets": lambda: collection(buckets=THREE),
    "other members": lambda: tailmetrics.TopKCollection([tailmetrics.MRR()]),
    "other options": lambda: tailmetrics.TopKCollection(
        [
            metric.clone() if place else tailmetrics.RecallAtK(k=[1, 5], empty_target_action="skip", name="recall")
            for place, metric in enumerate(collection().values())
        ]
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_collections_that_differ_are_not_merged(other: str) -> None:
    """They count other things: a ValueError, and neither has changed."""
    seen = of(BATCHES)
    with pytest.raises((TypeError, ValueError), match="merge_state"):
        seen.merge_state(fed(OTHERS[other](), *BATCHES[0]))
    assert values(seen) == WANTED


def test_states_travel_as_bytes() -> None:
    """Bytes of two workers, loaded into collections of the same make and merged: the bits of one."""
    first, second = of(BATCHES[:2]).state_bytes(), of(BATCHES[2:]).state_bytes()
    assert isinstance(first, bytes)
    here, there = collection(), collection()
    here.load_state_bytes(first)
    there.load_state_bytes(second)
    here.merge_state(there)
    assert values(here) == WANTED


def test_loading_replaces_and_updates_go_on() -> None:
    """What was counted before is gone; what comes later is added."""
    made = of(BATCHES[3:])
    made.load_state_bytes(of(BATCHES[:3]).state_bytes())
    made.update(*BATCHES[3])
    assert values(made) == WANTED
    made.reset()
    for part in BATCHES:
        made.update(*part)
    assert values(made) == WANTED


def test_a_collection_that_was_bound_later_travels_too() -> None:
    """Buckets named by a string and bound on each worker."""

    def bound() -> Any:
        return tailmetrics.TopKCollection([tailmetrics.RecallAtK(k=5, buckets="deciles")]).bind(FREQUENCY)

    seen, loaded = fed(bound(), *BATCHES[0]), bound()
    loaded.load_state_bytes(seen.state_bytes())
    assert values(loaded) == values(seen)


def test_bytes_hold_no_tables_of_labels() -> None:
    """A million labels in deciles, and a few hundred bytes per value all the same."""
    counts = torch.arange(1_000_000).flip(0)
    buckets = tailmetrics.LabelBuckets.deciles(counts)
    made = tailmetrics.TopKCollection([tailmetrics.RecallAtK(k=5, buckets=buckets), tailmetrics.MRR(buckets=buckets)])
    made.update(torch.tensor([[3, 7, 999_999]]), torch.tensor([7]))
    data = made.state_bytes()
    assert len(data) < 20_000
    again = tailmetrics.TopKCollection([tailmetrics.RecallAtK(k=5, buckets=buckets), tailmetrics.MRR(buckets=buckets)])
    again.load_state_bytes(data)
    assert values(again) == values(made)


@pytest.mark.parametrize("other", OTHERS)
def test_bytes_of_another_collection_are_refused(other: str) -> None:
    """The digest of what a number depends on travels with the state; nothing changes."""
    seen = of(BATCHES)
    with pytest.raises(ValueError, match="load_state_bytes"):
        seen.load_state_bytes(fed(OTHERS[other](), *BATCHES[0]).state_bytes())
    assert values(seen) == WANTED


class Exploding:
    """A pickle that would run code when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize("kind", ["empty", "cut", "a bit flipped", "text", "pickle", "twice"])
def test_broken_bytes_are_refused(kind: str) -> None:
    """Cut, changed or foreign data is no state; a pickle is not run; nothing changes."""
    data = of(BATCHES[:2]).state_bytes()
    middle = len(data) // 2
    broken = {
        "empty": b"",
        "cut": data[:-7],
        "a bit flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "text": b"recall@5: .3",
        "pickle": pickle.dumps(Exploding()),
        "twice": data + data,
    }[kind]
    seen = of(BATCHES)
    with pytest.raises(ValueError, match="load_state_bytes"):
        seen.load_state_bytes(broken)
    assert values(seen) == WANTED
