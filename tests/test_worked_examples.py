"""Conventions by hand where peers differ or are missing: oracle and library give the
number in the same call.

Conventions that peers share are compared with them in tests/parity;
tests/test_metrics_by_oracle.py compares the library with the oracle.
"""

import math
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

import pytest
import torch

import oracle
from oracle import Row, Setting, deciles, rank_scores
from tailmetrics import LabelBuckets, NormalizedRecallAtK, Ranking
from tailmetrics._signatures import arguments
from tailmetrics.metrics import REGISTRY

NAN = math.nan


def evaluate(name: str, rows: Sequence[Row], setting: Setting) -> Any:
    """Return the value of the oracle, after asserting that the metric of that name has
    the same.
    """
    expected = oracle.evaluate(name, rows, setting)
    settings = {field.name: getattr(setting, field.name) for field in fields(Setting)}
    init_arguments = {
        key: value
        for key, value in settings.items()
        if key in arguments(REGISTRY[name]) and value is not None
    }
    if setting.average != "macro":
        init_arguments.pop("labels", None)
    if setting.assignment is not None:
        names = [f"bucket {number}" for number in range(setting.num_buckets)]
        init_arguments["buckets"] = LabelBuckets.from_assignment(
            setting.assignment, names
        )
    else:
        init_arguments["num_labels"] = max(
            1 + max([0, *row.ranked, *row.relevant]) for row in rows
        )
        init_arguments["num_labels"] = max(
            init_arguments["num_labels"], setting.num_labels or 0
        )
    if "label_counts" in arguments(REGISTRY[name]):
        init_arguments["label_counts"] = setting.counts
    metric = REGISTRY[name](**init_arguments)
    target = padded([[*row.relevant] for row in rows]).long()
    ranked = padded([row.ranked for row in rows]).long()
    gains = padded([[*row.relevant.values()] for row in rows]).clamp(min=0)
    if rows[0].scores:
        scores = torch.tensor([row.scores for row in rows], dtype=torch.float64)
        metric.update(
            Ranking.from_scores(scores, target_ids=target, target_gains=gains)
        )
    else:
        size = metric.num_labels
        metric.update(
            Ranking.from_ids(
                ranked, target_ids=target, target_gains=gains, num_labels=size
            )
        )
    assert metric.compute().tolist() == pytest.approx(
        expected, rel=1e-14, abs=1e-15, nan_ok=True
    )
    return expected


def padded(rows: Sequence[Sequence[float]]) -> torch.Tensor:
    """Return the rows as a tensor, padded with -1."""
    width = max(map(len, rows))
    return torch.tensor(
        [[*row, *[-1] * (width - len(row))] for row in rows], dtype=torch.float64
    ).view(len(rows), width)


def by_rank(grades: Sequence[float]) -> Row:
    """Return a row in which the label at rank j has the j-th grade; labels are numbered
    by rank from 1.
    """
    ranked = list(range(1, len(grades) + 1))
    return Row(
        ranked,
        {
            label: grade
            for label, grade in zip(ranked, grades, strict=True)
            if grade > 0
        },
    )


def value(
    name: str, rows: Sequence[Row], k: int | None = None, **conventions: Any
) -> float:
    result = evaluate(name, rows, Setting(k, **conventions))
    assert isinstance(result, float)
    return result


def curve(name: str, row: Row, upto: int, **conventions: Any) -> list[float]:
    """Return the values of one row at k = 1 … upto."""
    return [value(name, [row], k, **conventions) for k in range(1, upto + 1)]


def floats(fractions: list[Fraction]) -> list[float]:
    return [float(fraction) for fraction in fractions]


def close(expected: object, printed: bool = False) -> object:
    """Return an approximation that is equal to 1e-15, or to the four decimals of a
    printed figure.
    """
    return pytest.approx(expected, rel=0, abs=5.1e-5 if printed else 1e-15, nan_ok=True)


BINARY = by_rank([1, 0, 1, 1, 0, 1, 0, 0])


def test_attainable_average_precision() -> None:
    """Average precision with denominator="attainable" divides by min(k, n).

    Six rankings against {a b c d e}: AP@4 over min(4, 5) is 1, 1, 0.479167, 0.416667,
    0.416667, 1; the mean is 0.71875.
    """
    rankings = ["bcade", "abcde", "fbcde", "afegb", "afcgb", "dcbae"]
    rows = [
        Row(
            [ord(letter) for letter in ranking],
            {ord(letter): 1.0 for letter in "abcde"},
        )
        for ranking in rankings
    ]
    third, fourth = (
        (Fraction(1, 2) + Fraction(2, 3) + Fraction(3, 4)) / 4,
        (1 + Fraction(2, 3)) / 4,
    )
    expected = [Fraction(1), Fraction(1), third, fourth, fourth, Fraction(1)]
    attainable = Setting(4, denominator="attainable")
    assert [evaluate("MAP", [row], attainable) for row in rows] == floats(expected)
    assert floats(expected) == close(
        [1, 1, 0.479167, 0.416667, 0.416667, 1], printed=True
    )
    assert evaluate("MAP", rows, attainable) == 0.71875
    assert evaluate("MAP", rows, Setting(4)) == float(Fraction(71875, 100000) * 4 / 5)
    assert curve("PrecisionAtK", rows[4], 3)[-1] == 2 / 3
    assert curve("RelevanceAtK", rows[4], 3) == [1, 0, 1]


def test_normalized_recall_is_not_precision() -> None:
    """Normalized recall divides by min(k, n): with k = 5 and n = 2, both found,
    precision is 2/5 and normalized recall 2/2; with n > k it is hits over k.
    """
    assert curve("PrecisionAtK", by_rank([1, 1, 0, 0, 0]), 5)[-1] == 2 / 5
    assert curve("NormalizedRecallAtK", by_rank([1, 1, 0, 0, 0]), 5) == [1, 1, 1, 1, 1]
    assert curve("NormalizedRecallAtK", BINARY, 8) == [
        1,
        1 / 2,
        2 / 3,
        3 / 4,
        3 / 4,
        1,
        1,
        1,
    ]


def test_pooled_normalized_recall_adds_up_before_it_divides() -> None:
    """Micro normalized recall divides sums: hits 1 of min(2, 3), 1 of min(2, 1) and 0
    of min(2, 2) give (1 + 1 + 0) / (2 + 1 + 2), and not the mean of 1/2, 1 and 0.
    """
    metric = NormalizedRecallAtK(k=2, average="micro")
    metric.update(
        torch.tensor([[0, 1], [0, 1], [0, 1]]),
        torch.tensor([[1, 2, 3], [0, -1, -1], [4, 5, -1]]),
    )
    assert metric.scalars() == {"micro_normalized_recall@2": 2 / 5}
    values = NormalizedRecallAtK(k=2)
    values.update(
        torch.tensor([[0, 1], [0, 1], [0, 1]]),
        torch.tensor([[1, 2, 3], [0, -1, -1], [4, 5, -1]]),
    )
    assert float(values.compute()) == (1 / 2 + 1 + 0) / 3


def test_k_for_recall_counts_rows_that_never_reach_the_recall() -> None:
    """KForRecall counts a row that never reaches the recall as half of the labels, or
    as miss_value.

    Rows reach it at 1 and 3, one lists nothing of the bucket (20 // 2), and one without
    a target is skipped.
    """
    assignment = [0] * 4 + [1] * 16
    rows = [
        Row([9, 0, 1], {0: 1.0}),
        Row([0, 9, 1, 2], {0: 1.0, 1: 1.0, 2: 1.0}),
        Row([9, 10], {0: 1.0}),
        Row([0, 1], {9: 1.0}),
    ]
    median = Setting(None, assignment, num_buckets=2, min_recall=0.8)
    mean = Setting(None, assignment, num_buckets=2, min_recall=0.8, statistic="mean")
    shallow = Setting(
        None, assignment, num_buckets=2, min_recall=0.8, depth=2, miss_value=99
    )
    assert evaluate("KForRecall", rows, median) == [3, 10]
    assert evaluate("KForRecall", rows, mean) == [float(Fraction(1 + 3 + 10, 3)), 10]
    assert evaluate("KForRecall", rows[:2], median) == [
        (1 + 3) / 2,
        pytest.approx(NAN, nan_ok=True),
    ]
    assert evaluate("KForRecall", rows, shallow) == [99, 99]


@pytest.mark.parametrize("percent", [7, 14, 28, 55, 56])
def test_recall_is_compared_as_a_quotient(percent: int) -> None:
    """KForRecall compares the recall as a quotient: the first c of 100 hits reaches the
    recall c/100 at rank c, although 0.01 c times 100 rounds above c.
    """
    assert math.ceil(percent / 100 * 100) == percent + 1
    setting = Setting(None, num_labels=100, min_recall=percent / 100)
    assert evaluate("KForRecall", [by_rank([1] * 100)], setting) == percent


def test_rank_scores_breaks_ties_by_id_and_drops_minus_infinity() -> None:
    """Equal scores, with zeros of either sign, are ranked by id.

    A score of -inf is not retrieved, a negative score is.
    """
    assert rank_scores([0.0, 2.0, -0.0, -math.inf, 2.0, -1.0]) == [1, 4, 0, 2, 5]


def test_deciles_share_the_remaining_labels() -> None:
    """A label above a tenth fills a decile alone, the remaining mass is shared anew,
    and unseen labels come last.
    """
    assert deciles([1] * 20 + [0]) == [label // 2 for label in range(20)] + [10]
    assert deciles([0, 100, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]) == [10, *range(10), 10]
    assert deciles([5, 7, 5]) == [1, 0, 2]
    # After the first label the quotas are 13/9, 11/8, 9/7 and 7/6, which take two
    # labels each, then 5/5, 4/4 ….
    assert deciles([50] + [1] * 13) == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9]


ASSIGNMENT = [0, 0, 0, 1, 1, 1]
ROWS = [
    Row([3, 0, 4, 1], {0: 1.0, 4: 1.0, 5: 1.0}),
    Row([1, 2, 5, 3], {3: 2.0}),
    Row([0, 3], {0: 1.0, 1: 1.0}),
]


def bucketed(name: str, k: int | None, **conventions: Any) -> list[float]:
    result = evaluate(name, ROWS, Setting(k, ASSIGNMENT, 2, **conventions))
    assert isinstance(result, list)
    return result


def test_bucket_scope_cuts_the_list_before_k() -> None:
    """With scope="bucket" the list is cut to the bucket before k, and depth cuts before
    both.

    Bucket 0 has [0 1 | {0}] and [0 | {0 1}]; bucket 1 has [3 4 | {4 5}] and [5 3 |
    {3}].
    """
    assert bucketed("PrecisionAtK", 2) == floats(
        [(Fraction(1, 2) + 1) / 2, (Fraction(1, 2) + Fraction(1, 2)) / 2]
    )
    assert bucketed("RecallAtK", 2) == floats(
        [(1 + Fraction(1, 2)) / 2, (Fraction(1, 2) + 1) / 2]
    )
    assert bucketed("F1AtK", 2) == floats(
        [(Fraction(2, 3) + Fraction(2, 3)) / 2, (Fraction(2, 4) + Fraction(2, 3)) / 2]
    )
    assert bucketed("MRR", None) == floats(
        [(Fraction(1) + 1) / 2, (Fraction(1, 2) + Fraction(1, 2)) / 2]
    )
    assert bucketed("MRR", None, depth=3) == floats(
        [(Fraction(1) + 1) / 2, (Fraction(1, 2) + 0) / 2]
    )
    assert bucketed("RecallAtK", 2, empty_target_action="neg") == floats(
        [Fraction(3, 2) / 3, Fraction(3, 2) / 3]
    )
    assert bucketed("RecallAtK", 2, empty_target_action="pos") == floats(
        [Fraction(5, 2) / 3, Fraction(5, 2) / 3]
    )


def test_global_scope_keeps_the_whole_list() -> None:
    """With scope="global" the whole list counts: of the top 2, [3 0], [1 2] and [0 3],
    bucket 0 has hits 1, -, 1 and bucket 1 hits 0, 0, -, over 2 ids each.
    """
    assert bucketed("PrecisionAtK", 2, scope="global") == [1 / 2, 0]
    assert bucketed("F1AtK", 2, scope="global") == floats(
        [(Fraction(2, 3) + Fraction(1, 2)) / 2, Fraction(0)]
    )
    assert bucketed("MRR", None, scope="global") == floats(
        [(Fraction(1, 2) + 1) / 2, (Fraction(1, 3) + Fraction(1, 4)) / 2]
    )


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_global_precision_adds_up_over_buckets(k: int) -> None:
    """With scope="global", the denominator k and empty rows as 0, the precisions of the
    buckets add up to P@k.
    """
    parts = bucketed(
        "PrecisionAtK", k, scope="global", denominator="k", empty_target_action="neg"
    )
    assert sum(parts) == close(
        evaluate("PrecisionAtK", ROWS, Setting(k, denominator="k"))
    )


def test_cross_entropy_by_hand() -> None:
    """Cross-entropy averages over several targets of a row, and is infinite for a
    target of -inf.

    Scores ln 1, ln 2, ln 5 have the softmax 1/8, 2/8, 5/8.
    """
    scores = [math.log(1), math.log(2), math.log(5)]
    row = Row([2, 1, 0], {1: 1.0, 2: 1.0}, scores)
    assert evaluate("CrossEntropy", [row], Setting(None)) == close(
        (math.log(8 / 2) + math.log(8 / 5)) / 2
    )
    by_bucket = evaluate("CrossEntropy", [row], Setting(None, [0, 0, 1], 3))
    assert by_bucket == close([math.log(8 / 2), math.log(8 / 5), NAN])
    assert (
        evaluate("CrossEntropy", [Row([0], {1: 1.0}, [0.0, -math.inf])], Setting(None))
        == math.inf
    )


def test_metrics_of_exposure_by_hand() -> None:
    """Metrics of exposure by hand: the top 2, [3 0], [1 2] and [0 3], show labels 0 … 5
    twice, once, once, twice, never, never.
    """
    counts = [8, 4, 2, 1, 0, 0]
    assert bucketed("PredictionProportionAtK", 2) == floats(
        [Fraction(4, 2 * 3), Fraction(2, 2 * 3)]
    )
    assert bucketed("PredictionProportionAtK", 4) == floats(
        [Fraction(5, 4 * 3), Fraction(5, 4 * 3)]
    )
    assert bucketed("PositiveCoverageAtK", 2) == [1 / 2, 0]
    assert bucketed("PositiveCoverageAtK", 3, denominator="known") == floats(
        [Fraction(1, 3), Fraction(1, 3)]
    )
    assert bucketed("CatalogCoverageAtK", 2) == floats([Fraction(3, 3), Fraction(1, 3)])
    assert bucketed("GiniAtK", 2) == floats(
        [Fraction(-2 * 1 + 0 * 1 + 2 * 2, 3 * 4), Fraction(2 * 2, 3 * 2)]
    )
    assert bucketed("EntropyAtK", 2) == close(
        [math.log(2) / 2 + 2 * math.log(4) / 4, 0.0]
    )
    assert bucketed("PopularityAtK", 2, counts=counts) == [(8 + 8 + 4 + 2) / 4, 1]
    assert bucketed("NoveltyAtK", 2, counts=counts, num_train=16) == [
        (1 + 1 + 2 + 3) / 4,
        4,
    ]
    assert value("GiniAtK", [Row([1], {})], 1, num_labels=2) == 1 / 2
    whole = Setting(4, num_labels=6, counts=counts, num_train=16)
    assert evaluate("CatalogCoverageAtK", ROWS, whole) == 1
    assert evaluate("NoveltyAtK", ROWS, whole) == close(
        (1 + 1 + 2 + 2 + 3 + 4 + 4 + 4 + 4 + 4) / 10
    )


def test_rows_without_a_relevant_label_by_default_and_by_action() -> None:
    """Rows without a relevant label count as 0 overall and are skipped within buckets
    by default, and follow empty_target_action. A bucket without a row is NaN.
    """
    rows = [Row([0, 1], {0: 1.0}), Row([0, 1], {})]
    outcomes = {None: 1 / 2, "neg": 1 / 2, "pos": 1, "skip": 1}
    for action, expected in outcomes.items():
        assert (
            evaluate("RecallAtK", rows, Setting(1, empty_target_action=action))
            == expected
        )
    assert evaluate("RecallAtK", rows, Setting(1, [0, 1], 2)) == close([1, NAN])
    assert evaluate(
        "RecallAtK", rows, Setting(1, [0, 1], 2, empty_target_action="neg")
    ) == [1 / 2, 0]
    with pytest.raises(ValueError, match="without a relevant label"):
        evaluate("RecallAtK", rows, Setting(1, empty_target_action="error"))


def test_depth_cuts_buckets_and_k_for_recall_alone() -> None:
    """depth cuts the lists of buckets and of KForRecall, and no others.

    Label 0 is at rank 3, below depth 2: overall and global MRR count it, the bucket and
    KForRecall do not.
    """
    rows = [Row([2, 1, 0], {0: 1.0})]
    buckets: dict[str, Any] = {"assignment": [0, 1, 1], "num_buckets": 2, "depth": 2}
    assert value("MRR", rows, depth=2) == 1 / 3
    assert evaluate("MRR", rows, Setting(None, scope="global", **buckets)) == close(
        [1 / 3, NAN]
    )
    assert evaluate("MRR", rows, Setting(None, **buckets)) == close([0, NAN])
    assert value("KForRecall", rows, depth=2, num_labels=3, miss_value=50) == 50
    assert value("KForRecall", rows, depth=3, num_labels=3, miss_value=50) == 3
