"""Row groups: a group's values are those of its rows alone, to the last bit.

Readings of the contract where it leaves a choice:

- ``row_groups=`` is given to the metric (or to the collection, for all its members) when it is made; ``update`` then
  needs ``row_groups=`` too. Ids outside [-1, groups) are refused, as is an update that passes ids to a metric without
  groups or none to one with groups.
- The shape of ``compute()`` with groups is not tested: ``scalars()`` and the collection's dict are.
- ``scalars()`` first lists the keys of all rows, exactly as without groups; how those of the groups are ordered is free.
- A group without a row has the values of a metric without an update: NaN where that has no value.
- A name twice, an empty list, and a name that is a bucket's are refused, the latter when the buckets are known.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes.rows import COUNTS, DECILES, NUM_LABELS, bits, fed, graded, halves

NAMES = ["en", "de", "fr"]
COUNTED = {"label_counts": COUNTS, "num_train": int(COUNTS.sum())}
RELEVANCE: list[tuple[str, dict[str, Any]]] = [
    ("PrecisionAtK", {"k": [1, 5]}),
    ("RecallAtK", {"k": [1, 5]}),
    ("F1AtK", {"k": 5}),
    ("F1AtK", {"k": 5, "average": "micro"}),
    ("F1AtK", {"k": 5, "average": "macro"}),
    ("RecallAtK", {"k": 5, "average": "weighted"}),
    ("NormalizedRecallAtK", {"k": 5}),
    ("HitRateAtK", {"k": 5}),
    ("AccuracyAtK", {"k": 1}),
    ("RelevanceAtK", {"k": 2}),
    ("RPrecision", {}),
    ("CGAtK", {"k": 5}),
    ("DCGAtK", {"k": 5}),
    ("NDCGAtK", {"k": [3, 5]}),
    ("MRR", {}),
    ("MAP", {"k": 5}),
    ("KForRecall", {"min_recall": 0.5}),
    ("KForRecall", {"min_recall": 0.5, "statistic": "mean"}),
    ("PropensityScoredPrecisionAtK", {"k": 3, **COUNTED}),
    ("PropensityScoredRecallAtK", {"k": 3, **COUNTED}),
    ("PropensityScoredNDCGAtK", {"k": 3, **COUNTED}),
    ("CrossEntropy", {}),
]
SHOWN: list[tuple[str, dict[str, Any]]] = [
    ("PredictionProportionAtK", {"k": 5}),
    ("PositiveCoverageAtK", {"k": 5}),
    ("CatalogCoverageAtK", {"k": 2}),
    ("GiniAtK", {"k": 5}),
    ("EntropyAtK", {"k": 5}),
    ("PopularityAtK", {"k": 5, "label_counts": COUNTS}),
    ("NoveltyAtK", {"k": 5, **COUNTED}),
]
NEW: list[tuple[str, dict[str, Any]]] = [
    ("F1AtThreshold", {"threshold": [0.2, 0.5]}),
    ("F1AtThreshold", {"threshold": 0.5, "average": "macro"}),
    ("RowAUC", {}),
    ("LabelAUC", {}),
    ("CoverageError", {}),
    ("RankingLoss", {}),
    ("RBPAtK", {"k": 5}),
    ("FBetaAtK", {"k": 5}),
    ("ERRAtK", {"k": 5, "max_gain": 4}),
    ("FallOutAtK", {"k": 5}),
    ("PopularityLiftAtK", {"k": 5, "label_counts": COUNTS}),
    ("CalibrationErrorAtK", {"k": 1}),
    ("PersonalizationAtK", {"k": 5}),
]
WAYS: list[dict[str, Any]] = [{}, {"buckets": DECILES}, {"buckets": DECILES, "scope": "global"}]
CASES = [
    *((name, {**given, **way}) for name, given in RELEVANCE for way in WAYS),
    *((name, {**given, **way}) for name, given in SHOWN for way in WAYS[:2]),
    *((name, {**given, **way}) for name, given in NEW for way in WAYS[: 1 if name.startswith("Personal") else 2]),
    ("TieRateAtK", {"k": 5}),
]


def describe(case: tuple[str, dict[str, Any]]) -> str:
    name, given = case
    shown = {key: value for key, value in given.items() if key not in ("label_counts", "num_train", "buckets")}
    return f"{name}-{shown}{'-deciles' if 'buckets' in given else ''}"


def made(case: tuple[str, dict[str, Any]], **more: Any) -> Any:
    return getattr(tailmetrics, case[0])(num_labels=NUM_LABELS, **case[1], **more)


def batch(seed: int = 1, groups: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Graded rows in groups of uneven size; some rows in none."""
    scores, gains = graded(seed, num_rows=60)
    generator = torch.Generator().manual_seed(seed)
    ids = (torch.rand(60, generator=generator) ** 2 * (groups + 1)).long() - 1
    return scores, gains, ids


def keyed(key: str, group: str) -> str:
    """recall@10 -> recall@10/en, recall@10/decile_1 -> recall@10/en/decile_1."""
    stem, slash, bucket = key.partition("/")
    return f"{stem}/{group}{slash}{bucket}"


def assert_groups_are_rows_alone(grouped: Any, alone: Any, rows: tuple[Tensor, Tensor, Tensor]) -> None:
    """Every key over all rows as ever, and every group's key with the bits of its rows."""
    scores, gains, ids = rows
    found = grouped.scalars()
    wanted = dict(fed(alone.clone(), scores, gains).scalars())
    assert list(found)[: len(wanted)] == list(wanted)
    for number, name in enumerate(NAMES):
        own = ids == number
        assert own.any()
        part = fed(alone.clone(), scores[own], gains[own]).scalars()
        wanted |= {keyed(key, name): value for key, value in part.items()}
    assert set(found) == set(wanted)
    wrong = [key for key, value in wanted.items() if bits(found[key]) != bits(value)]
    assert not wrong, {key: (float(found[key]), float(wanted[key])) for key in wrong}


@pytest.mark.parametrize("case", CASES, ids=describe)
def test_a_group_has_the_bits_of_its_rows_alone(case: tuple[str, dict[str, Any]]) -> None:
    """Overall and by bucket, for every metric, over two batches; -1 counts only overall."""
    rows = batch()
    grouped = made(case, row_groups=NAMES)
    for scores, gains, ids in halves(rows, 25):
        grouped.update(scores, gains, row_groups=ids)
    assert_groups_are_rows_alone(grouped, made(case), rows)


def test_keys() -> None:
    """recall@10, recall@10/decile_1, recall@10/en and recall@10/en/decile_1."""
    scores, gains, ids = batch(4)
    metric = fed(tailmetrics.RecallAtK(k=10, row_groups=NAMES), scores, gains, row_groups=ids)
    assert sorted(metric.scalars()) == sorted(["recall@10", "recall@10/en", "recall@10/de", "recall@10/fr"])
    by_bucket = tailmetrics.RecallAtK(k=10, buckets=DECILES, row_groups=NAMES)
    by_bucket.update(scores, gains, row_groups=ids)
    names = DECILES.names
    wanted = [f"recall@10/{name}" for name in names]
    wanted += [f"recall@10/{group}/{name}" for group, name in itertools.product(NAMES, names)]
    assert sorted(by_bucket.scalars()) == sorted(wanted)


def test_a_collection_gives_groups_to_all_its_members() -> None:
    """One ``row_groups=`` for the collection; its dict holds every member's grid, with the prefix in front."""
    scores, gains, ids = batch(5)
    cases = [("RecallAtK", {"k": [1, 5], "buckets": DECILES}), ("MRR", {}), ("GiniAtK", {"k": 5})]
    members = [made(case) for case in cases]
    whole = tailmetrics.TopKCollection(members, prefix="val/", row_groups=NAMES)
    whole.update(scores, gains, row_groups=ids)
    found = whole.compute()
    wanted: dict[str, Tensor] = {}
    for case in cases:
        wanted |= fed(made(case, row_groups=NAMES), scores, gains, row_groups=ids).scalars()
    assert set(found) == {f"val/{key}" for key in wanted}
    assert all(bits(found[f"val/{key}"]) == bits(value) for key, value in wanted.items())


def test_a_member_may_have_groups_of_its_own() -> None:
    """A collection passes the ids to the member that has groups; the other one is as ever."""
    scores, gains, ids = batch(6)
    members = [tailmetrics.RecallAtK(k=5, row_groups=NAMES), tailmetrics.MRR()]
    found = fed(tailmetrics.TopKCollection(members), scores, gains, row_groups=ids).compute()
    assert sorted(found) == sorted(["recall@5", "recall@5/en", "recall@5/de", "recall@5/fr", "mrr"])


def test_rows_of_no_group_count_only_overall() -> None:
    """All ids -1: the values over all rows are there, those of the groups are those of no row."""
    scores, gains, ids = batch(7)
    case = ("RecallAtK", {"k": 5})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fed(made(case, row_groups=NAMES), scores, gains, row_groups=torch.full_like(ids, -1)).scalars()
    assert bits(found["recall@5"]) == bits(fed(made(case), scores, gains).compute())
    assert all(bool(found[f"recall@5/{name}"].isnan()) for name in NAMES)


@pytest.mark.parametrize("case", [("RecallAtK", {"k": 5, "buckets": DECILES}), ("MRR", {}), ("GiniAtK", {"k": 5})])
def test_merging_moving_and_resetting(case: tuple[str, dict[str, Any]]) -> None:
    """Merged states, a state dict, forward and reset keep the groups apart."""
    rows = batch(8)
    (first, second), alone = halves(rows, 30), made(case)
    merged, other, by_forward = (made(case, row_groups=NAMES) for _ in range(3))
    merged.update(first[0], first[1], row_groups=first[2])
    other.update(second[0], second[1], row_groups=second[2])
    merged.merge_state(other)
    assert_groups_are_rows_alone(merged, alone, rows)
    for scores, gains, ids in (first, second):
        by_forward(scores, gains, row_groups=ids)
    assert_groups_are_rows_alone(by_forward, alone, rows)
    merged.reset()
    merged.update(rows[0], rows[1], row_groups=rows[2])
    assert_groups_are_rows_alone(merged, alone, rows)
    assert not any(state.is_floating_point() for state in merged.metric_state.values())


@pytest.mark.parametrize("names", [["en", "decile_1"], ["unseen"], ["en", "en"], [], [""], "en", ["en", 3]], ids=repr)
def test_refused_names(names: Any) -> None:
    """A bucket's name would make one key mean two things; a name twice, none, an empty one, and a bare string too."""
    with pytest.raises((TypeError, ValueError), match="row_groups"):
        tailmetrics.RecallAtK(k=5, buckets=DECILES, row_groups=names)


def test_a_bucket_name_is_refused_when_the_buckets_are_bound() -> None:
    """A config that says "deciles" learns its names only then."""

    def made_and_bound() -> Any:
        metric = tailmetrics.RecallAtK(k=5, buckets="deciles", row_groups=["decile_1"])
        return metric.bind(tailmetrics.LabelFrequency.from_counts(COUNTS, int(COUNTS.sum())))

    with pytest.raises(ValueError, match=r"row_groups.*decile_1"):
        made_and_bound()


@pytest.mark.parametrize("wrong", ["missing", "too large", "below -1", "short", "float", "two axes"])
def test_wrong_ids_are_refused_and_count_nothing(wrong: str) -> None:
    """The error names row_groups; the metric is as before."""
    scores, gains, ids = batch(9)
    metric = fed(made(("RecallAtK", {"k": 5}), row_groups=NAMES), scores, gains, row_groups=ids)
    before = {key: bits(value) for key, value in metric.scalars().items()}
    given: dict[str, Any] = {
        "missing": None,
        "too large": ids.clone().index_fill(0, torch.tensor([4]), 3),
        "below -1": ids.clone().index_fill(0, torch.tensor([4]), -2),
        "short": ids[1:],
        "float": ids.float(),
        "two axes": ids[:, None],
    }
    with pytest.raises((TypeError, ValueError), match="row_groups"):
        metric.update(scores, gains, row_groups=given[wrong])
    assert {key: bits(value) for key, value in metric.scalars().items()} == before
