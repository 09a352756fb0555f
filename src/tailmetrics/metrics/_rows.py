"""Metrics that are a mean over rows, or a ratio of two sums over rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from tailmetrics.metrics._arithmetic import divide, ordered_sum
from tailmetrics.metrics._fixed_point import REAL, UNIT, FixedPoint, ratios
from tailmetrics.metrics._relevance import EmptyTargetAction, RelevanceMetric
from tailmetrics.metrics._returned_values import check_returned_values
from tailmetrics.metrics._states import Increments, PerRow, State, weighted
from tailmetrics.ranking import Ranking, TargetRanks

__all__ = ["RatioMetric", "RowMeanMetric", "divide", "ordered_sum"]


class RowMeanMetric(RelevanceMetric):
    """The mean over rows of a value per row; a new metric states the formula of that value."""

    fixed_point: FixedPoint = UNIT

    @abstractmethod
    def _row_value(self, ranks: TargetRanks, k: Any) -> Tensor:
        """Return the value of each row, shape (...), called for every batch and cut-off.

        0 for a row without a relevant label. float64 within ``bounds``; or, with ``fixed_point = COUNT``, integers or
        bools: the row's value is then the integer divided by ``_per_one(k)``. Metrics of the registry with several
        cut-offs are called once with a tuple of them, and return an axis of them in front: a third of the calls.
        """

    def _per_one(self, k: int) -> int:
        return 1

    @property
    def _sums(self) -> FixedPoint:
        """How sums over rows are written."""
        return weighted(self.fixed_point) if self.weighted else self.fixed_point

    def _states(self) -> dict[str, State]:
        return {
            "sum": State((len(self.cutoffs), self._num_buckets, self._sums.columns)),
            "rows": State((1 + self._num_buckets, self._counts.columns)),
        }

    def _prepare(self, ranking: Ranking) -> Increments:
        ranks = self._ranks_of(ranking)
        values = self._row_values(ranking, ranks)
        return {"sum": PerRow(values, self.fixed_point, row_axis=1), "rows": self._rows_counted(ranking, ranks)}

    def _row_values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Return the value of each cut-off and row, shape (K, ...)."""
        ks = self.ks
        if self.in_registry:
            return self._row_value(ranks, ks) if len(ks) > 1 else self._row_value(ranks, ks[0]).unsqueeze(0)
        values = [self._row_value(ranks, k) for k in ks]
        for value in values:
            check_returned_values(self._caller, "_row_value", value, ranks, self.fixed_point, self.validate_args)
        return torch.stack(values)

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        totals = self._sums.totals(states["sum"])
        rows, *answered = (int(total) for total in self._counts.totals(states["rows"]))
        buckets, unit = len(answered), self._counts.unit
        values = []
        for number, k in enumerate(self.ks):
            one = self._sums.unit * self._per_one(k)
            of_k = totals[number * buckets : (number + 1) * buckets]
            if self.empty_target_action == "pos":
                pairs = zip(of_k, answered, strict=True)
                of_k = [total + (rows - some) * one // unit for total, some in pairs]
            counted = answered if self.empty_target_action == "skip" else [rows] * buckets
            values.append(ratios([total * unit for total in of_k], [count * one for count in counted]))
        return values

    def row_values(self, ranking: Ranking) -> dict[str, Tensor]:
        """Return the value of each row by key, without row groups, shape (N,), float64; NaN: does not count."""
        self._check(ranking)
        ranks, values = self._ranks_of(ranking), []
        empty = ~self._answered(ranking, ranks)
        for k, of_k in zip(self.ks, self._row_values(ranking, ranks).unbind(0), strict=True):
            value = of_k.to(torch.float64) / self._per_one(k)
            if self.empty_target_action != "neg":
                value = torch.where(empty, 1.0 if self.empty_target_action == "pos" else torch.nan, value)
            if ranking.row_mask is not None:
                row_mask = ranking.row_mask if value.ndim == 1 else ranking.row_mask[:, None]
                value = torch.where(row_mask, value, torch.nan)
            values.append(value.view(ranking.num_rows, self._num_buckets))
        return dict(zip(self.row_keys(), torch.cat(values, dim=1).unbind(1), strict=True))


class RatioMetric(RelevanceMetric):
    """A sum over rows divided by another: the ratio of means, not the mean of ratios."""

    empty_actions: ClassVar[tuple[EmptyTargetAction, ...]] = ("neg", "skip", "error")
    fixed_point: FixedPoint = REAL

    @abstractmethod
    def _row_terms(self, ranking: Ranking, k: Any) -> tuple[Tensor, Tensor]:
        """Return what each row adds to the numerator and the denominator, shape (...), called per batch and cut-off.

        0 for rows that do not count. Metrics of the registry with several cut-offs are called once with a tuple of
        them.
        """

    @property
    def _sums(self) -> FixedPoint:
        """How sums over rows are written."""
        return weighted(self.fixed_point) if self.weighted else self.fixed_point

    def _states(self) -> dict[str, State]:
        return {"sums": State((2, len(self.cutoffs), self._num_buckets, self._sums.columns))}

    def _prepare(self, ranking: Ranking) -> Increments:
        return {"sums": PerRow(self._terms_of_rows(ranking), self.fixed_point, row_axis=2)}

    def _terms_of_rows(self, ranking: Ranking) -> Tensor:
        """Return both terms of each cut-off and row, shape (2, K, ...)."""
        if self.in_registry and len(self.ks) > 1:
            return torch.stack(self._row_terms(ranking, self.ks))
        pairs, ranks = [self._row_terms(ranking, k) for k in self.ks], self._ranks_of(ranking)
        for term in () if self.in_registry else (term for pair in pairs for term in pair):
            check_returned_values(self._caller, "_row_terms", term, ranks, self.fixed_point, self.validate_args)
        return torch.stack([torch.stack(side) for side in zip(*pairs, strict=True)])

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        top, bottom = (self._sums.totals(sums) for sums in states["sums"])
        flat = ratios(top, [int(total) for total in bottom])
        buckets = len(flat) // len(self.cutoffs)
        return [flat[start : start + buckets] for start in range(0, len(flat), buckets)]

    def row_values(self, ranking: Ranking) -> dict[str, tuple[Tensor, Tensor]]:
        """Return what each row adds to numerator and denominator by key, without row groups, shape (N,) each."""
        self._check(ranking)
        terms = self._terms_of_rows(ranking).to(torch.float64).movedim(2, 1)
        tops, bottoms = (side.flatten(1).unbind(1) for side in terms)
        return dict(zip(self.row_keys(), zip(tops, bottoms, strict=True), strict=True))
