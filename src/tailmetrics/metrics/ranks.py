"""Metrics of the ranks of hits: reciprocal rank, average precision, and how many predictions a recall takes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import ClassVar, Literal, TypeAlias, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import check_choice, check_count, check_number, number_text
from tailmetrics.metrics._arguments_of_metrics import Cutoffs
from tailmetrics.metrics._rows import RelevanceArguments, RelevanceMetric, TieAwareMetric, formula, row_value, warn_once
from tailmetrics.metrics._states import AtCells, Increments, State, divide
from tailmetrics.metrics._ties import ExpectedRanks
from tailmetrics.ranking import EVERYTHING, NOT_RANKED, Cutoff, Ranking, TargetRanks
from tailmetrics.ranking._device import made_once, ordered_sum, real_dtype
from tailmetrics.ranking._reading import Depth


@formula
def reciprocal_rank(ranks: TargetRanks, k: Cutoff | None = None) -> Tensor:
    """One divided by the rank of the first relevant label.

    Higher is better, in [0, 1]; 0 if there is none within the top k.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis with one entry per cut-off. None
            reads everything retrieved: with dense scores all labels, whatever the depth of the ranking.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> reciprocal_rank(torch.tensor([[0, 1, 2]]), torch.tensor([1])).tolist()
    [0.5]

    Source: Voorhees, The TREC-8 question answering track report (1999).
    """
    ranks, k = (ranks.exact, EVERYTHING) if k is None else (ranks, k)
    if isinstance(ranks, ExpectedRanks):
        return ranks.reciprocal_of_first(k)
    return ranks.first_within(k) / ranks.first_rank.to(real_dtype(ranks.first_rank.device))


@final
class MRR(TieAwareMetric):
    """Mean over rows of one divided by the rank of the first relevant label.

    Higher is better, in [0, 1]; NaN before the first row. 1 / MRR is a harmonic mean of ranks, not an average rank.

    Use it when users stop at the first relevant label, as in question answering.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs. None reads the whole ranking: with dense scores, all labels.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = MRR()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Voorhees, The TREC-8 question answering track report (1999).
    """

    optional_k = True
    reads_first = True

    def __init__(self, k: Cutoffs | None = None, **kwargs: Unpack[RelevanceArguments]) -> None:
        super().__init__(k, **kwargs)

    _row_value = row_value(reciprocal_rank)


HitsDenominator: TypeAlias = Literal["relevant", "attainable"]


@formula
def average_precision(ranks: TargetRanks, k: Cutoff | None = None, denominator: HitsDenominator = "relevant") -> Tensor:
    """Sum of h_j / j over the ranks j of the hits within the top k, divided by n or by min(k, n).

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis with one entry per cut-off. None
            reads everything retrieved: with dense scores all labels, whatever the depth of the ranking.
        denominator: ``"relevant"``, n; ``"attainable"``, min(k, n), the largest possible number of hits within the top
            k.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> round(float(average_precision(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]))), 4)
    0.8333

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4;
    Kaggle, ``ml_metrics.apk``, which divides by min(k, n).
    """
    ranks, k = (ranks.exact, EVERYTHING) if k is None else (ranks, k)
    if isinstance(ranks, ExpectedRanks):
        total = ranks.sum_of_precisions(k)
    else:
        found = ranks.real_within(k)
        hits = _numbers(found.shape[-1], found.device)  # up to each, as nothing but hits stands before
        total = ordered_sum(hits / ranks.target_ranks * found)
    return total / ranks.n_or_one if denominator == "relevant" else divide(total, ranks.attainable_at(k))


@made_once
def _numbers(size: int) -> Tensor:
    """Return 1, 2, 3 … as floats."""
    return torch.arange(1, size + 1, dtype=torch.float64, device="cpu")


@final
class MAP(TieAwareMetric):
    """Mean over rows of average precision, which is the mean precision at the ranks of the relevant labels.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when all relevant labels should stand early, and each label is either relevant or not.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs. None reads the whole ranking: with dense scores, all labels.
        denominator: What the sum of precisions is divided by: ``"relevant"``, the number of relevant labels n;
            ``"attainable"``, min(k, n).
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = MAP()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """

    optional_k = True

    def __init__(
        self,
        k: Cutoffs | None = None,
        *,
        denominator: HitsDenominator = "relevant",
        **kwargs: Unpack[RelevanceArguments],
    ) -> None:
        self.denominator: HitsDenominator = check_choice(self._caller, "denominator", denominator, HitsDenominator)
        super().__init__(k, **kwargs)

    _row_value = row_value(average_precision, "denominator")


whole_list = partial(formula, reads=Depth(None))
RowStatistic: TypeAlias = Literal["median", "mean"]


@whole_list
def k_for_recall(ranks: TargetRanks, min_recall: float) -> Tensor:
    """Smallest k with h_k / n >= min_recall.

    Lower is better, from 1; ``NOT_RANKED`` if the list ends before the recall is reached, and for a row without a
    relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        min_recall: Recall to reach, in (0, 1].

    Returns:
        Shape (...), int64.

    >>> import torch
    >>> k_for_recall(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), min_recall=1.0).tolist()
    [3]

    Source: Cooper, Expected search length, American Documentation 19 (1968), up to a recall.
    """
    found = ranks.target_ranks < NOT_RANKED
    enough = found.cumsum(dim=-1) >= _needed_hits(ranks.n_relevant, min_recall).unsqueeze(-1)
    return torch.where(found & enough, ranks.target_ranks, NOT_RANKED).amin(dim=-1)


def _needed_hits(n: Tensor, min_recall: float) -> Tensor:
    """Return the smallest c with c / n >= min_recall, at least 1.

    ceil(min_recall * n) is one too many for .07, .14, .28, .55 and others, whose product with n rounds up.
    """
    c = (n.to(real_dtype(n.device)) * min_recall).ceil().to(torch.int64)
    c = torch.where(divide(c - 1, n) >= min_recall, c - 1, c)
    return torch.where(divide(c, n) < min_recall, c + 1, c).clamp(min=1)


@final
class KForRecall(RelevanceMetric):
    """Number of predictions needed to find the share ``min_recall`` of the relevant labels; median or mean over rows.

    Lower is better, in [1, inf), or 0 with ``miss_value=0``; NaN if no row has a relevant label. Rows without a
    relevant label are always skipped.

    Use it when you choose the length of a list: the value is a number of suggestions.
    A median of 9 says that half of the rows need 9 or fewer.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        min_recall: Recall to reach in a row, in (0, 1]. With one relevant label per row, every choice gives the same
            value.
        statistic: ``"median"``, the value of the middle row (or the mean of the two middle rows), or ``"mean"``.
        miss_value: Value of a row whose list of ``depth`` labels ends before the recall is reached; None is half the
            number of all labels, also within buckets. A miss can thus cost less than a late hit.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = KForRecall(min_recall=0.5)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 2]]))
    >>> metric.compute()
    tensor(2., dtype=torch.float64)

    Source: Cooper, Expected search length, American Documentation 19 (1968), up to a recall.
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))
    optional_k = True
    withheld = ("k",)
    empty_actions = ("skip", "error")
    empty_defaults = ("skip", "skip")
    key_words: ClassVar = {**RelevanceMetric.key_words, "min_recall": "", "statistic": "", "miss_value": "miss"}
    _missed: tuple[int, Sequence[float]] = (0, ())
    """What a miss counts as, and the share of such rows in each bucket, as the last ``compute`` found."""

    def __init__(
        self,
        min_recall: float,
        *,
        statistic: RowStatistic = "median",
        miss_value: int | None = None,
        **kwargs: Unpack[RelevanceArguments],
    ) -> None:
        caller = self._caller
        self.min_recall = check_number(caller, "min_recall", min_recall, 1e-30, 1.0)  # 0 takes no prediction
        self.statistic: RowStatistic = check_choice(caller, "statistic", statistic, RowStatistic)
        self.miss_value = None if miss_value is None else check_count(caller, "miss_value", miss_value, minimum=0)
        super().__init__(None, **kwargs)

    @property
    def _uses_depth(self) -> bool:
        return True

    @property
    def _prefix(self) -> str:
        return f"{super()._prefix}{self.statistic}_"

    def _key(self, k: int | None) -> str:
        return self.name or f"{super()._key(None)}@{number_text(self.min_recall)}"

    def _ranks_of(self, ranking: Ranking) -> TargetRanks:
        """Return the ranks within the list: what stands below ``depth`` is a miss, wherever it stands."""
        ranking, buckets = self._relevant(ranking), self.bound_buckets
        if self.ties != "id":
            return self._tied_ranks_of(ranking).first(self.depth)
        if buckets is None:
            return ranking.up_to(self.depth)
        return ranking.by_bucket(buckets, self.scope, self.depth, up_to=self.depth)

    def _warn_of(self, ranking: Ranking) -> None:
        """Warn where rows have one label each, so that half of the rows stand for a share of labels.

        Rows without a label are left out, and ``compute`` notes how many lists end too early.
        """
        padded = ranking.targets.padded
        if padded is not None and padded.shape[1] == 1 and self.min_recall < 1:
            warn_once(
                ranking,
                "one label per row",
                f"{self._caller}: each row has one relevant label, so that min_recall={number_text(self.min_recall)} "
                "makes no difference: the value is the median or mean rank of this label. How long a list must be to "
                f"find {self.min_recall:.0%} of the labels, AccuracyAtK(k=[10, 20, 50, 100]) tells: the first k that "
                "reaches this share.",
            )

    def _states(self) -> dict[str, State]:
        return {
            "histogram": State((self._num_buckets, self.depth + 1, self._counts.columns)),
            "num_labels": State((1,), reduce="max"),
        }

    def _prepare(self, ranking: Ranking) -> Increments:
        num_labels = self._num_labels_of(ranking)
        if self.miss_value is None and not num_labels:
            raise ValueError(
                f"{self._caller}: a miss counts half the number of labels, which ids do not tell; pass num_labels= or "
                "miss_value=."
            )
        ranks = self._ranks_of(ranking)
        k = k_for_recall(ranks, self.min_recall).view(ranking.num_rows, self._num_buckets)
        answered = (ranks.n_relevant > 0).view(k.shape)
        column = torch.where(k <= self.depth, k - 1, self.depth)  # the last one counts misses
        cells = torch.arange(self._num_buckets, device=k.device) * (self.depth + 1) + column
        rows = torch.arange(ranking.num_rows, device=k.device)
        return {
            "histogram": AtCells(cells.view(-1), answered.view(-1), rows.repeat_interleave(self._num_buckets)),
            "num_labels": AtCells(torch.zeros_like(rows), torch.full_like(rows, num_labels), rows),
        }

    def _num_labels_of(self, ranking: Ranking) -> int:
        return self.num_labels or ranking.num_labels or 0

    def compute(self) -> Tensor:
        """Return the value over all batches and processes, and note which share of rows does not reach the recall."""
        found = super().compute()
        states = {name: self._state(name)[0] for name in self._names}
        vars(self)["_missed"] = (
            self._miss_of(states),
            [misses / (sum(counts) + misses) if misses else 0.0 for *counts, misses in self._histograms(states)],
        )
        return found

    def _miss_of(self, states: Mapping[str, Tensor]) -> int:
        return self.miss_value if self.miss_value is not None else int(states["num_labels"]) // 2

    def _histograms(self, states: Mapping[str, Tensor]) -> list[list[int]]:
        """Return for each bucket the rows by rank, the misses last."""
        totals = [int(count) for count in self._counts.totals(states["histogram"])]
        width = self.depth + 1
        return [totals[first : first + width] for first in range(0, len(totals), width)]

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        miss_value = self._miss_of(states)
        found = []
        for *counts, misses in self._histograms(states):
            ascending = sorted([*enumerate(counts, start=1), (miss_value, misses)])
            found.append(_statistic(ascending, self.statistic))
        return [found]

    def _of_rows(self, ranking: Ranking) -> Tensor:
        ranks = self._ranks_of(ranking)
        k = k_for_recall(ranks, self.min_recall)
        miss_value = self.miss_value if self.miss_value is not None else self._num_labels_of(ranking) // 2
        value = torch.where(k <= self.depth, k, miss_value).to(torch.float64)
        return torch.where(ranks.n_relevant > 0, value, torch.nan).view(ranking.num_rows, self._num_buckets).T


def _statistic(histogram: Sequence[tuple[int, int]], statistic: RowStatistic) -> float:
    """Return mean or median of ascending values, each with the number of rows that have it; NaN of no row."""
    up_to = list(accumulate(count for _, count in histogram))
    total = up_to[-1]
    if not total:
        return float("nan")
    if statistic == "mean":
        return sum(value * count for value, count in histogram) / total
    # the lower and the upper middle, which are one and the same of an odd number of rows
    lower, upper = (histogram[bisect_right(up_to, place)][0] for place in ((total - 1) // 2, total // 2))
    return (lower + upper) / 2
