"""``duplicates="first"``: the first of repeated ids counts, later ones stay in place as misses; refusing is the default.

Readings of the contract where it leaves a choice:

- ``duplicates=`` is an argument of metrics, of ``rank``, ``Ranking.from_ids`` and ``Ranking.from_scores``.
- A miss in place fills a place: later hits keep their ranks, precision divides by it, and in a bucket's own list it
  stands where its label would.
- Of candidates the entry with the best score is the first one. Repeated ids of *targets* stay an error.
- How often a repeated id counts as shown (coverage, Gini, popularity) is not tested.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes.reference import ROWS, Seen
from wishes.rows import DECILES, NUM_LABELS, THREE, bits, fed, floats, graded, members

LATER = 10_000
"""What is added to an id each time that it is repeated: an id that nothing asks for, whose bucket is still known."""

CASES: list[tuple[str, dict[str, Any]]] = [
    *(
        (name, {"k": k})
        for name in ("PrecisionAtK", "RecallAtK", "F1AtK", "HitRateAtK", "RelevanceAtK")
        for k in (2, 5)
    ),
    ("PrecisionAtK", {"k": 5, "denominator": "k"}),
    *((name, {"k": 5}) for name in ("NDCGAtK", "DCGAtK", "CGAtK", "MAP", "MRR", "NormalizedRecallAtK")),
    ("MRR", {}),
    ("MAP", {}),
    ("RPrecision", {}),
]
every_case = pytest.mark.parametrize(("name", "options"), CASES)


def repeated(seed: int, num_rows: int = 40, width: int = 9) -> tuple[Tensor, Tensor]:
    """Lists with ids drawn with repetition, -1 behind the end of some; graded targets."""
    generator = torch.Generator().manual_seed(seed)
    ids = (torch.rand(num_rows, width, generator=generator) ** 2 * NUM_LABELS).long()
    lengths = torch.randint(0, width + 1, (num_rows, 1), generator=generator)
    lengths[::2] = width
    return ids.masked_fill(torch.arange(width) >= lengths, -1), graded(seed, num_rows)[1]


def marked(shown: list[int]) -> list[int]:
    """The list with every later copy turned into an id that nobody asks for."""
    return [label + LATER * shown[:place].count(label) for place, label in enumerate(shown)]


def oracle(
    name: str, options: dict[str, Any], lists: list[list[int]], gains: Tensor, inside: set[int] | None, scope: str
) -> float:
    values = []
    for shown, row in zip(lists, gains.tolist(), strict=True):
        own = set(range(NUM_LABELS)) if inside is None else inside
        relevant = {label: gain for label, gain in enumerate(row) if gain > 0 and label in own}
        places = marked(shown)
        if inside is not None and scope == "bucket":
            places = [place for place in places if place % LATER in own]
        if relevant:
            values.append(float(ROWS[name](Seen(places, relevant), options, options.get("k"))))
        elif inside is None:
            values.append(0.0)
    return math.fsum(values) / len(values) if values else math.nan


def listed(ids: Tensor) -> list[list[int]]:
    return [[label for label in row if label >= 0] for row in ids.tolist()]


@every_case
def test_ranked_ids_equal_the_plain_loop(name: str, options: dict[str, Any]) -> None:
    """Overall: a later copy is a miss at its rank."""
    ids, gains = repeated(1)
    metric = getattr(tailmetrics, name)(duplicates="first", num_labels=NUM_LABELS, **options)
    wanted = oracle(name, options, listed(ids), gains, None, "bucket")
    assert float(fed(metric, ids, gains).compute()) == pytest.approx(wanted, rel=1e-12)


@every_case
@pytest.mark.parametrize("scope", ["bucket", "global"])
@pytest.mark.parametrize("buckets", [THREE, DECILES], ids=["three", "deciles"])
def test_by_bucket_equals_the_plain_loop(name: str, options: dict[str, Any], buckets: Any, scope: str) -> None:
    """In the bucket's own list a later copy stands where it stood among the bucket's ids."""
    ids, gains = repeated(2)
    metric = getattr(tailmetrics, name)(duplicates="first", buckets=buckets, scope=scope, **options)
    wanted = [oracle(name, options, listed(ids), gains, inside, scope) for inside in members(buckets)]
    assert floats(fed(metric, ids, gains).compute()) == pytest.approx(wanted, rel=1e-12, nan_ok=True)


def test_a_worked_example() -> None:
    """3 3 5 for {3, 5}: hits at ranks 1 and 3, P@3 = 2/3, AP = (1 + 2/3) / 2, recall never above 1."""
    ids, target = torch.tensor([[3, 3, 5]]), torch.tensor([[3, 5]])
    for metric, wanted in (
        (tailmetrics.PrecisionAtK(k=3, duplicates="first"), 2 / 3),
        (tailmetrics.RecallAtK(k=3, duplicates="first"), 1),
        (tailmetrics.RecallAtK(k=2, duplicates="first"), 1 / 2),
        (tailmetrics.MAP(duplicates="first"), (1 + 2 / 3) / 2),
        (tailmetrics.NDCGAtK(k=3, duplicates="first"), (1 + 1 / 2) / (1 + 1 / math.log2(3))),
    ):
        assert float(fed(metric, ids, target).compute()) == pytest.approx(wanted, rel=1e-12)


@every_case
def test_candidates_count_the_best_copy(name: str, options: dict[str, Any]) -> None:
    """Sorted by score the list is the same one, in whatever order its entries come."""
    ids, gains = repeated(3)
    scores = -torch.arange(ids.shape[1], dtype=torch.float64).expand_as(ids)
    order = torch.rand(ids.shape, generator=torch.Generator().manual_seed(4)).argsort(dim=1)
    shuffled = scores.gather(1, order), ids.gather(1, order)
    make = {"duplicates": "first", "num_labels": NUM_LABELS, **options}
    wanted = bits(fed(getattr(tailmetrics, name)(**make), ids, gains).compute())
    assert bits(fed(getattr(tailmetrics, name)(**make), shuffled, gains).compute()) == wanted


def test_repeated_ids_are_refused_by_default() -> None:
    """The message names the row and the way out; the metric is as before."""
    ids, target = torch.tensor([[1, 2], [3, 3]]), torch.tensor([1, 3])
    for metric in (tailmetrics.RecallAtK(k=2), tailmetrics.RecallAtK(k=2, duplicates="error")):
        with pytest.raises(ValueError, match=r"label 3 twice in row 1.*duplicates='first'"):
            metric.update(ids, target)
        assert metric.update_count == 0
    with pytest.raises(ValueError, match="duplicates"):
        tailmetrics.RecallAtK(k=2, duplicates="last")
