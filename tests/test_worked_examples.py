"""The worked examples of the definitions page, formula by formula and metric by metric, as arithmetic to redo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from tailmetrics import (
    MAP,
    MRR,
    AccuracyAtK,
    CGAtK,
    DCGAtK,
    F1AtK,
    KForRecall,
    LabelBuckets,
    NDCGAtK,
    NormalizedRecallAtK,
    PrecisionAtK,
    Ranking,
    RecallAtK,
    RelevanceAtK,
    RPrecision,
    functional,
)
from tailmetrics.metrics import TopKMetric

UPTO_8 = list(range(1, 9))


def by_rank(*rows: Sequence[float]) -> Ranking:
    """Return rankings 0, 1, 2 … of which the label at each rank has the gain given."""
    ids = torch.arange(len(rows[0])).expand(len(rows), -1)
    return Ranking.from_ids(ids, target_gains=torch.tensor(rows, dtype=torch.float64))


def of_targets(ranked: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Ranking:
    """Return rankings as given, of which the labels listed are relevant."""
    width = max(map(len, targets))
    padded = [[*target, *[-1] * (width - len(target))] for target in targets]
    return Ranking.from_ids(torch.tensor([list(row) for row in ranked]), target_ids=torch.tensor(padded), num_labels=20)


def computed(metric: TopKMetric, ranking: Ranking) -> Any:
    """Return the value of a metric after one batch, as a float or a list."""
    metric.update(ranking)
    return metric.compute().tolist()


def per_row(formula: Any, ranking: Ranking, *arguments: Any) -> list[float]:
    """Return the values of a formula, row by row."""
    values: list[float] = formula(ranking, *arguments).tolist()
    return values


def curve(formula: Any, ranking: Ranking, *arguments: Any) -> list[float]:
    """Return the formula of a single row at k = 1 … 8."""
    return [value for k in UPTO_8 for value in per_row(formula, ranking, k, *arguments)]


def exactly(expected: Any) -> Any:
    """Equal up to the last digits of a float."""
    return pytest.approx(expected, rel=0, abs=1e-14)


def printed(expected: Any, digits: int = 4) -> Any:
    """Equal to what is printed with so many digits."""
    return pytest.approx(expected, rel=0, abs=0.5 * 10**-digits)


def discounted(*gains: float) -> float:
    """Return the sum of gain / log2(rank + 1)."""
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


class TestExample1:
    """Relevance by rank 1 0 1 1 0 1 0 0, n = 4."""

    ranking = by_rank([1, 0, 1, 1, 0, 1, 0, 0])

    def test_precision(self) -> None:
        """P@1 … P@8 are 1, 1/2, 2/3, 3/4, 3/5, 4/6, 4/7, 4/8."""
        expected = [1, 1 / 2, 2 / 3, 3 / 4, 3 / 5, 4 / 6, 4 / 7, 4 / 8]
        assert curve(functional.precision_at_k, self.ranking) == exactly(expected)
        assert computed(PrecisionAtK(UPTO_8), self.ranking) == exactly(expected)

    def test_recall(self) -> None:
        """R@1 … R@8 are the hits over 4: .25 .25 .5 .75 .75 1 1 1."""
        expected = [1 / 4, 1 / 4, 2 / 4, 3 / 4, 3 / 4, 4 / 4, 4 / 4, 4 / 4]
        assert curve(functional.recall_at_k, self.ranking) == exactly(expected)
        assert computed(RecallAtK(UPTO_8), self.ranking) == exactly(expected)

    def test_f1(self) -> None:
        """F1@4 is the harmonic mean of 3/4 and 3/4."""
        expected = 2 * (3 / 4) * (3 / 4) / (3 / 4 + 3 / 4)
        assert per_row(functional.f1_at_k, self.ranking, 4) == exactly([expected])
        assert computed(F1AtK(4), self.ranking) == exactly(expected) == 0.75

    def test_dcg(self) -> None:
        """DCG is 1, 1, 1.5, 1.9307, 1.9307, 2.2869, 2.2869, 2.2869."""
        second = 1 + 1 / math.log2(4)
        third = second + 1 / math.log2(5)
        fourth = third + 1 / math.log2(7)
        expected = [1, 1, second, third, third, fourth, fourth, fourth]
        assert curve(functional.dcg_at_k, self.ranking) == exactly(expected)
        assert computed(DCGAtK(k=UPTO_8), self.ranking) == exactly(expected)
        assert expected == printed([1, 1, 1.5, 1.9307, 1.9307, 2.2869, 2.2869, 2.2869])

    def test_ideal_and_ndcg(self) -> None:
        """The ideal is 1, 1.6309, 2.1309, 2.5616 …; NDCG 1, .6131, .7039, .7537, .7537, .8928, .8928, .8928."""
        ideal = [discounted(*[1.0] * min(k, 4)) for k in UPTO_8]
        expected = [top / best for top, best in zip(curve(functional.dcg_at_k, self.ranking), ideal, strict=True)]
        assert curve(functional.ideal_dcg_at_k, self.ranking) == exactly(ideal)
        assert curve(functional.ndcg_at_k, self.ranking) == exactly(expected)
        assert computed(NDCGAtK(k=UPTO_8), self.ranking) == exactly(expected)
        assert ideal[:4] == printed([1, 1.6309, 2.1309, 2.5616])
        assert expected == printed([1, 0.6131, 0.7039, 0.7537, 0.7537, 0.8928, 0.8928, 0.8928])

    def test_average_precision(self) -> None:
        """AP = (1 + 2/3 + 3/4 + 4/6) / 4 = .770833, from running sums 1, 1.67, 2.42 and 3.08."""
        sums = [1, 1 + 2 / 3, 1 + 2 / 3 + 3 / 4, 1 + 2 / 3 + 3 / 4 + 4 / 6]
        assert sums == printed([1, 1.67, 2.42, 3.08], 2)
        found = [4 * per_row(functional.average_precision, self.ranking, k)[0] for k in (1, 3, 4, 6)]
        assert found == exactly(sums)
        assert computed(MAP(), self.ranking) == exactly(sums[-1] / 4) == printed(0.770833, 6)

    def test_r_precision(self) -> None:
        """3 of the 4 relevant labels are among the first 4."""
        assert per_row(functional.r_precision, self.ranking) == [3 / 4]
        assert computed(RPrecision(), self.ranking) == 3 / 4


def test_example_2_mean_average_precision() -> None:
    """APs of 13/15 and 47/84; their mean is 599/840 = .713095."""
    ranking = by_rank([1, 1, 0, 0, 1, 0, 0], [0, 1, 1, 0, 0, 1, 1])
    first, second = (1 / 1 + 2 / 2 + 3 / 5) / 3, (1 / 2 + 2 / 3 + 3 / 6 + 4 / 7) / 4
    assert (first, second) == exactly((13 / 15, 47 / 84))
    assert per_row(functional.average_precision, ranking) == exactly([first, second])
    assert computed(MAP(), ranking) == exactly((first + second) / 2) == exactly(599 / 840) == printed(0.713095, 6)


class TestExample3:
    """The ranking 1 … 8 against [2, 4, 5, 7], [1, 4, 5, 7] and [5, 8]."""

    ranking = of_targets([UPTO_8] * 3, [[2, 4, 5, 7], [1, 4, 5, 7], [5, 8]])

    def test_recall(self) -> None:
        """Of [2, 4, 5, 7]: 0 .25 .25 .5 .75 .75 1 1."""
        expected = [0, 1 / 4, 1 / 4, 2 / 4, 3 / 4, 3 / 4, 4 / 4, 4 / 4]
        assert [per_row(functional.recall_at_k, self.ranking, k)[0] for k in UPTO_8] == expected
        assert computed(RecallAtK(UPTO_8), of_targets([UPTO_8], [[2, 4, 5, 7]])) == expected

    def test_average_precision(self) -> None:
        """AP@8 is .542857, .667857 and .225; MAP@8 is .478571."""
        expected = [
            (1 / 2 + 2 / 4 + 3 / 5 + 4 / 7) / 4,
            (1 / 1 + 2 / 4 + 3 / 5 + 4 / 7) / 4,
            (1 / 5 + 2 / 8) / 2,
        ]
        assert per_row(functional.average_precision, self.ranking, 8) == exactly(expected)
        assert expected == printed([0.542857, 0.667857, 0.225], 6)
        assert computed(MAP(8), self.ranking) == exactly(sum(expected) / 3) == printed(0.478571, 6)

    def test_reciprocal_rank(self) -> None:
        """First hits at ranks 2, 1 and 5: MRR = (1/2 + 1 + 1/5) / 3 = .566667."""
        assert per_row(functional.reciprocal_rank, self.ranking) == exactly([1 / 2, 1, 1 / 5])
        assert computed(MRR(), self.ranking) == exactly((1 / 2 + 1 + 1 / 5) / 3) == printed(0.566667, 6)


class TestExample4:
    """Graded relevance 0 4 1 3 4 1 3 2."""

    grades = (0, 4, 1, 3, 4, 1, 3, 2)
    ideal = (4, 4, 3, 3, 2, 1, 1, 0)
    ranking = by_rank(grades)

    def test_cumulative_gain(self) -> None:
        """CG@8 = 0 + 4 + 1 + 3 + 4 + 1 + 3 + 2 = 18."""
        assert curve(functional.cg_at_k, self.ranking) == [0, 4, 5, 8, 12, 13, 16, 18]
        assert computed(CGAtK(k=8), self.ranking) == 0 + 4 + 1 + 3 + 4 + 1 + 3 + 2 == 18

    def test_dcg(self) -> None:
        """Linear gain: 0, 2.5237, 3.0237, 4.3157, 5.8632, 6.2194, 7.2194, 7.8503; the ideal at 8 is 10.7790."""
        expected = [discounted(*self.grades[:k]) for k in UPTO_8]
        assert curve(functional.dcg_at_k, self.ranking) == exactly(expected)
        assert computed(DCGAtK(k=UPTO_8), self.ranking) == exactly(expected)
        assert expected == printed([0, 2.5237, 3.0237, 4.3157, 5.8632, 6.2194, 7.2194, 7.8503])
        assert per_row(functional.ideal_dcg_at_k, self.ranking, 8) == exactly([discounted(*self.ideal)])
        assert discounted(*self.ideal) == printed(10.7790)

    def test_ndcg(self) -> None:
        """0, .3869, .3768, .4633, .5811, .5954, .6698, .7283."""
        expected = [discounted(*self.grades[:k]) / discounted(*self.ideal[:k]) for k in UPTO_8]
        assert curve(functional.ndcg_at_k, self.ranking) == exactly(expected)
        assert computed(NDCGAtK(k=UPTO_8), self.ranking) == exactly(expected)
        assert expected == printed([0, 0.3869, 0.3768, 0.4633, 0.5811, 0.5954, 0.6698, 0.7283])

    def test_exponential_gain(self) -> None:
        """Grades 0 4 1 3 then gain 0 15 1 7, over the ideal 15 15 7 7."""
        expected = discounted(0, 2**4 - 1, 2**1 - 1, 2**3 - 1) / discounted(15, 15, 7, 7)
        assert per_row(functional.ndcg_at_k, self.ranking, 4, "exponential") == exactly([expected])
        assert computed(NDCGAtK(k=4, gain="exponential"), self.ranking) == exactly(expected)


class TestExample5:
    """Truth {a b c d e}; rankings bcade, abcde, fbcde, afegb, afcgb, dcbae."""

    ranking = of_targets(
        [["abcdefg".index(letter) for letter in row] for row in ["bcade", "abcde", "fbcde", "afegb", "afcgb", "dcbae"]],
        [list(range(5))] * 6,
    )

    def test_average_precision_over_what_is_attainable(self) -> None:
        """AP@4 over min(4, 5): 1, 1, .479167, .416667, .416667, 1; mean .71875."""
        third, fourth = (0 + 1 / 2 + 2 / 3 + 3 / 4) / 4, (1 / 1 + 0 + 2 / 3 + 0) / 4
        expected = [1, 1, third, fourth, fourth, 1]
        assert per_row(functional.average_precision, self.ranking, 4, "attainable") == exactly(expected)
        assert expected == printed([1, 1, 0.479167, 0.416667, 0.416667, 1], 6)
        assert computed(MAP(4, denominator="attainable"), self.ranking) == exactly(sum(expected) / 6) == 0.71875
        assert computed(MAP(4), self.ranking) == exactly(0.71875 * 4 / 5)

    def test_average_precision_at_other_cutoffs(self) -> None:
        """Of afegb at 2, (1/1 + 0) / 2; of afcgb at 3, (1/1 + 0 + 2/3) / 3."""
        assert per_row(functional.average_precision, self.ranking, 2, "attainable")[3] == (1 / 1 + 0) / 2
        assert per_row(functional.average_precision, self.ranking, 3, "attainable")[4] == exactly((1 + 0 + 2 / 3) / 3)

    def test_precision_and_relevance(self) -> None:
        """Of afcgb: P@3 = 2/3, relevance 0 at rank 2 and 1 at rank 3."""
        assert per_row(functional.precision_at_k, self.ranking, 3)[4] == 2 / 3
        assert [per_row(functional.relevance_at_k, self.ranking, k)[4] for k in (2, 3)] == [0, 1]
        # the six labels at rank 2 are c b b f f c, those at rank 3 a c c e c b
        assert computed(RelevanceAtK([2, 3]), self.ranking) == exactly([4 / 6, 6 / 6])


class TestExample6:
    """A single target at ranks 1 to 12."""

    ranks = range(1, 13)
    ranking = of_targets([range(1, 13)] * 12, [[rank] for rank in ranks])

    def test_ndcg(self) -> None:
        """NDCG@10 is 1 / log2(r + 1) up to r = 10: 1, .6309, .5, .4307, .3869 … .2891; then 0."""
        expected = [1 / math.log2(rank + 1) if rank <= 10 else 0 for rank in self.ranks]
        assert per_row(functional.ndcg_at_k, self.ranking, 10) == exactly(expected)
        assert computed(NDCGAtK(k=10), self.ranking) == exactly(math.fsum(expected) / 12)
        assert [*expected[:5], expected[9]] == printed([1, 0.6309, 0.5, 0.4307, 0.3869, 0.2891])

    def test_reciprocal_rank(self) -> None:
        """MRR is 1 / r, and 0 behind a cut-off."""
        expected = [1 / rank for rank in self.ranks]
        assert per_row(functional.reciprocal_rank, self.ranking) == exactly(expected)
        assert per_row(functional.reciprocal_rank, self.ranking, 5) == exactly(expected[:5] + [0] * 7)
        assert computed(MRR(), self.ranking) == exactly(math.fsum(expected) / 12)

    def test_accuracy(self) -> None:
        """accuracy@1 <= accuracy@5 <= accuracy@10 and accuracy@1 <= MRR, in each row and in the mean."""
        first, fifth, tenth = ([float(rank <= k) for rank in self.ranks] for k in (1, 5, 10))
        rows = [per_row(functional.hit_rate_at_k, self.ranking, k) for k in (1, 5, 10)]
        assert rows == [first, fifth, tenth]
        reciprocal = per_row(functional.reciprocal_rank, self.ranking)
        for at_1, at_5, at_10, of_rank in zip(*rows, reciprocal, strict=True):
            assert at_1 <= at_5 <= at_10
            assert at_1 <= of_rank
        assert computed(AccuracyAtK([1, 5, 10]), self.ranking) == exactly([1 / 12, 5 / 12, 10 / 12])


def test_example_7_normalized_recall_is_not_precision() -> None:
    """With k = 5, n = 2 and both found, P@5 = 2/5 and normalized recall@5 = 2 / min(5, 2)."""
    ranking = by_rank([1, 1, 0, 0, 0])
    assert per_row(functional.precision_at_k, ranking, 5) == [2 / 5]
    assert per_row(functional.normalized_recall_at_k, ranking, 5) == [2 / min(5, 2)]
    assert computed(PrecisionAtK(5), ranking) == 0.4
    assert computed(NormalizedRecallAtK(5), ranking) == 1


class TestExample8:
    """A row that never reaches the recall counts half the number of labels, and does not vanish from the median.

    20 labels, of which 0 to 3 are the head. Of its relevant head labels the first row finds 1 of 1 at rank 1 among the
    head labels it shows, the second 3 of 3 at rank 3; the third shows no head label; the fourth wants none.
    """

    buckets = LabelBuckets.from_assignment([0] * 4 + [1] * 16, ["head", "tail"])
    ranking = of_targets([[9, 0, 1, 8], [0, 9, 1, 2], [9, 10, 11, 12], [0, 1, 2, 3]], [[0], [0, 1, 2], [0], [9]])

    def test_formula(self) -> None:
        """The ranks are 1, 3, none and none."""
        head = functional.k_for_recall(self.ranking.by_bucket(self.buckets), 0.8)[:, 0].tolist()
        assert head[:2] == [1, 3]
        assert min(head[2:]) > self.ranking.depth

    def test_median_and_mean(self) -> None:
        """Head: 1, 3 and the miss 20 // 2, not 1 and 3 alone. Tail: one row, whose only target 9 it never shows."""
        assert computed(KForRecall(0.8, buckets=self.buckets), self.ranking) == [3, 20 // 2]
        mean = KForRecall(0.8, statistic="mean", buckets=self.buckets)
        assert computed(mean, self.ranking) == exactly([(1 + 3 + 10) / 3, 10])
        assert (1 + 3) / 2 == 2  # what the median would be without the row that shows no head label

    def test_miss_value(self) -> None:
        """miss_value= replaces the half: the median of 1, 3 and 99 is 3 still, the mean is not."""
        mean = KForRecall(0.8, statistic="mean", miss_value=99, buckets=self.buckets)
        assert computed(mean, self.ranking) == exactly([(1 + 3 + 99) / 3, 99])

    @pytest.mark.parametrize("percent", [7, 14, 28, 55, 56])
    def test_recall_is_reached_by_a_quotient(self, percent: int) -> None:
        """C of 100 hits are the recall c/100 at rank c, although ceil(c/100 · 100) is c + 1 in float64."""
        assert math.ceil(percent / 100 * 100) == percent + 1
        assert per_row(functional.k_for_recall, by_rank([1] * 100), percent / 100) == [percent]


def test_example_9_mrr_is_no_mean_rank() -> None:
    """First hits at ranks 1 and 4: MRR = (1 + 1/4) / 2, and 1 / MRR = 1.6 is their harmonic mean, not 2.5."""
    mrr = computed(MRR(), by_rank([1, 0, 0, 0], [0, 0, 0, 1]))
    assert mrr == (1 + 1 / 4) / 2
    assert 1 / mrr == 2 / (1 / 1 + 1 / 4) == 1.6 != (1 + 4) / 2
