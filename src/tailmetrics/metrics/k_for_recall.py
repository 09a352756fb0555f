"""How many predictions it takes to reach a recall."""

from __future__ import annotations

from typing import Any, Literal, final

import torch
from torch import Tensor

from tailmetrics._checks import check_choice, check_count, check_number
from tailmetrics.metrics._base import Increments, State
from tailmetrics.metrics._rows import RelevanceMetric, divide
from tailmetrics.ranking import DEFAULT_DEPTH, NOT_RANKED, Ranking, TargetRanks
from tailmetrics.ranking._device import real_dtype

Statistic = Literal["median", "mean"]


def k_for_recall(ranks: TargetRanks, min_recall: float) -> Tensor:
    """Smallest k with h_k / n >= min_recall.

    Lower is better, from 1; ``NOT_RANKED`` if the list ends first, and for a row without a relevant label.

    Args:
        ranks: Leading axes (...).
        min_recall: Recall to max_k, in (0, 1].

    Returns:
        Shape (...), int64.

    Source: thesis metric notes, "median_k_for_recall".
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
    """How many predictions it takes to find ``min_recall`` of the relevant labels, median or mean over rows.

    Lower is better, in [1, inf) but for ``miss_value=0``; NaN without a row that has a relevant label. Rows without one
    are skipped, always.

    Args:
        min_recall: Recall to max_k, in (0, 1].
        statistic: ``"median"``, the middle row (the mean of the two middle ones), or ``"mean"``.
        miss_value: What a row counts whose list of ``depth`` labels ends before; None for half the number of labels
            (of all labels, not of the bucket's). A miss can thus cost less than a late hit.
        depth: How much of a list is read.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = KForRecall(min_recall=0.5)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 2]]))
    >>> metric.compute()
    tensor(2., dtype=torch.float64)

    Source: thesis metric notes, "median_k_for_recall" and "mean_k_for_recall".
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))
    stem = "k_for_recall"
    optional_k = True
    withheld = ("k",)
    empty_actions = ("skip", "error")

    def __init__(
        self,
        min_recall: float,
        *,
        statistic: Statistic = "median",
        miss_value: int | None = None,
        depth: int = DEFAULT_DEPTH,
        empty_target_action: Literal["skip", "error"] | None = None,
        **kwargs: Any,
    ) -> None:
        caller = self._caller
        self.min_recall = check_number(caller, "min_recall", min_recall, 0.0, 1.0)
        if not self.min_recall:
            raise ValueError(f"{caller}: min_recall=0 is reached without a prediction; pass one above 0.")
        self.statistic: Statistic = check_choice(caller, "statistic", statistic, ("median", "mean"))
        self.miss_value = None if miss_value is None else check_count(caller, "miss_value", miss_value, minimum=0)
        convention = "" if miss_value is None else f"_miss{miss_value}"
        super().__init__(None, depth=depth, empty_target_action=empty_target_action, convention=convention, **kwargs)
        self.empty_target_action = empty_target_action or "skip"

    def _is_default(self, name: str, value: Any, default: Any) -> bool:
        if name == "empty_target_action":
            return bool(value == "skip")
        return super()._is_default(name, value, default)

    def _uses_depth(self, by_bucket: bool) -> bool:
        return True

    @property
    def _prefix(self) -> str:
        return f"{super()._prefix}{self.statistic}_"

    def _key(self, k: int | None) -> str:
        return self.name or f"{super()._key(None)}@{self.min_recall:g}"

    @property
    def _identity_more(self) -> str:
        return f"{super()._identity_more}_{self.min_recall!r}"

    def _states(self) -> dict[str, State]:
        return {
            "histogram": State((self._groups, self.depth)),
            "misses": State((self._groups,)),
            "num_labels": State((1,), reduce="max", dtype=torch.int64),
        }

    def _prepare(self, ranking: Ranking) -> Increments:
        num_labels = self.num_labels or ranking.num_labels or 0
        if self.miss_value is None and not num_labels:
            raise ValueError(
                f"{self._caller}: a miss counts half the number of labels, which ids do not tell; pass num_labels= or "
                "miss_value=."
            )
        ranks = self._ranks_of(ranking)
        k = k_for_recall(ranks, self.min_recall).view(ranking.num_rows, self._groups)
        answered = (ranks.n_relevant > 0).view(ranking.num_rows, self._groups)
        histogram = torch.zeros(k.shape[1], self.depth + 1, dtype=torch.int64, device=k.device)
        column = torch.where(k <= self.depth, k - 1, self.depth)
        histogram.scatter_add_(1, column.t(), answered.t().to(torch.int64))
        return {
            "histogram": histogram[:, :-1],
            "misses": histogram[:, -1],
            "num_labels": torch.full((1,), num_labels, device=k.device),
        }

    def _values(self) -> list[list[float]]:
        miss_value = self.miss_value if self.miss_value is not None else int(self._state("num_labels")) // 2
        statistic = _median if self.statistic == "median" else _mean
        rows = zip(self._state("histogram").tolist(), self._state("misses").tolist(), strict=True)
        return [[statistic(_with_misses(counts, misses, miss_value)) for counts, misses in rows]]

    def row_values(self, ranking: Ranking) -> dict[str, Tensor]:
        """Return k of each row under the keys of :meth:`scalars`, shape (N,), float64; NaN: does not count."""
        self._check(ranking)
        ranks = self._ranks_of(ranking)
        k = k_for_recall(ranks, self.min_recall)
        num_labels = self.num_labels or ranking.num_labels or 0
        miss_value = self.miss_value if self.miss_value is not None else num_labels // 2
        value = torch.where(k <= self.depth, k, miss_value).to(torch.float64)
        value = torch.where(ranks.n_relevant > 0, value, torch.nan).view(ranking.num_rows, self._groups)
        return dict(zip(self.keys(), value.unbind(1), strict=True))


def _with_misses(counts: list[int], misses: int, miss_value: int) -> list[tuple[int, int]]:
    """Return (k, number of rows) ascending, misses at their value."""
    return sorted([(k, count) for k, count in enumerate(counts, start=1) if count] + [(miss_value, misses)])


def _median(histogram: list[tuple[int, int]]) -> float:
    rows = sum(count for _, count in histogram)
    if not rows:
        return float("nan")
    middle = ((rows - 1) // 2, rows // 2)
    found = []
    passed = 0
    for k, count in histogram:
        found += [k for place in middle if passed <= place < passed + count]
        passed += count
    return sum(found) / 2


def _mean(histogram: list[tuple[int, int]]) -> float:
    rows = sum(count for _, count in histogram)
    return sum(k * count for k, count in histogram) / rows if rows else float("nan")
