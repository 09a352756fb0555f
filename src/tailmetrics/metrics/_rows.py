"""Metrics that are a mean over rows, or a ratio of two sums over rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics._arguments import is_outside
from tailmetrics._checks import check_choice, check_count, shape_of
from tailmetrics.metrics._base import Buckets, Cutoffs, Increments, State, TopKMetric
from tailmetrics.metrics._fixed_point import REAL, UNIT, FixedPoint, ratios
from tailmetrics.metrics._own import check_own_values
from tailmetrics.ranking import DEFAULT_DEPTH, Ranking, TargetRanks
from tailmetrics.ranking._device import real_dtype

EmptyTargetAction = Literal["neg", "pos", "skip", "error"]
Scope = Literal["bucket", "global"]
Average = Literal["samples", "micro", "macro", "weighted"]


class RelevanceMetric(TopKMetric):
    """A metric that compares what is ranked with what is relevant: it has a scope, and rows without anything relevant.

    Args:
        k: Cut-off, or several.
        buckets: Label buckets; ``"deciles"`` leaves them to :meth:`bind`.
        scope: ``"bucket"``: the row's top ``depth`` list is cut to the bucket's labels, then the top k of that.
            ``"global"``: the row's overall top k, in which only the bucket's labels count as relevant.
        average: ``"samples"``, the mean over rows. Precision, recall and F1 also take ``"micro"``, ``"macro"`` and
            ``"weighted"``.
        depth: How much of a list ``scope="bucket"`` reads.
        empty_target_action: What a row without a relevant label counts: ``"neg"`` 0, ``"pos"`` 1, ``"skip"`` nothing;
            ``"error"`` refuses it. None is ``"neg"`` overall and ``"skip"`` within buckets.
        kwargs: See :class:`TopKMetric`.
    """

    averages: ClassVar[tuple[Average, ...]] = ("samples",)
    empty_actions: ClassVar[tuple[EmptyTargetAction, ...]] = ("neg", "pos", "skip", "error")

    def __init__(
        self,
        k: Cutoffs | None,
        *,
        buckets: Buckets | None = None,
        scope: Scope = "bucket",
        average: Average = "samples",
        depth: int = DEFAULT_DEPTH,
        empty_target_action: EmptyTargetAction | None = None,
        convention: str = "",
        **kwargs: Any,
    ) -> None:
        caller = self._caller
        default: EmptyTargetAction = "neg" if buckets is None else "skip"
        if empty_target_action is not None:
            check_choice(caller, "empty_target_action", empty_target_action, ("neg", "pos", "skip", "error"))
            if empty_target_action not in self.empty_actions:
                raise ValueError(
                    f"{caller}: empty_target_action={empty_target_action!r} means nothing for a ratio of sums; choose "
                    f"one of {', '.join(map(repr, self.empty_actions))}."
                )
        self.scope: Scope = check_choice(caller, "scope", scope, ("bucket", "global"))
        self.average: Average = check_choice(caller, "average", average, ("samples", "micro", "macro", "weighted"))
        if average not in self.averages:
            raise ValueError(f"{caller}: average={average!r} means nothing here; only average='samples' does.")
        self.depth = check_count(caller, "depth", depth)
        self.empty_target_action: EmptyTargetAction = empty_target_action or default
        convention += f"_depth{depth}" if depth != DEFAULT_DEPTH and self._uses_depth(buckets is not None) else ""
        convention += f"_{empty_target_action}" if self.empty_target_action not in (default, "error") else ""
        super().__init__(k, buckets=buckets, convention=convention, **kwargs)
        self._complete()

    def _is_default(self, name: str, value: Any, default: Any) -> bool:
        if name == "empty_target_action":
            return bool(value == ("neg" if self.buckets is None else "skip"))
        return super()._is_default(name, value, default)

    @property
    def _identity_more(self) -> str:
        return "_error" if self.empty_target_action == "error" else ""

    def _uses_depth(self, by_bucket: bool) -> bool:
        return by_bucket and self.scope == "bucket"

    @property
    def _prefix(self) -> str:
        scope = "global_" if self.scope == "global" and self.buckets is not None else ""
        return scope + ("" if self.average == "samples" else f"{self.average}_")

    @property
    def reads(self) -> tuple[int, bool]:
        """How much of a ranking is read: the first so many labels, and whether anything beyond them too."""
        if self._uses_depth(self.buckets is not None):
            return self.depth, False
        return max((k for k in self.cutoffs if k is not None), default=1), None in self.cutoffs

    @property
    def _depth_name(self) -> str:
        return "depth" if self._uses_depth(self.buckets is not None) else "k"

    def _ranks_of(self, ranking: Ranking) -> TargetRanks:
        exact = None in self.cutoffs
        if self._bound_buckets is None:
            return ranking.exact if exact else ranking
        return ranking.by_bucket(self._bound_buckets, self.scope, self.depth, exact and self.scope == "global")

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        if self.empty_target_action == "error":
            empty = self._ranks_of(ranking).n_relevant == 0
            if ranking.row_mask is not None:
                empty &= ranking.row_mask if empty.ndim == 1 else ranking.row_mask[:, None]
            if bool(empty.any()):
                row = int(empty.nonzero()[0, 0])
                raise ValueError(
                    f"{self._caller}: row {row} has no relevant label{' in some bucket' if empty.ndim > 1 else ''}; "
                    "drop such rows with row_mask, or choose another empty_target_action."
                )


def rows_counted(ranking: Ranking, ranks: TargetRanks) -> Tensor:
    """Return the number of rows and, behind it, of those with something relevant, shape (1 + G,), int64."""
    answered = ranks.num_answered.view(-1)
    if ranking.row_mask is None:
        return F.pad(answered, (1, 0), value=ranking.num_rows)
    return torch.cat([ranking.row_mask.sum().view(1), answered])


class RowMeanMetric(RelevanceMetric):
    """The mean over rows of a value per row; a new metric states the formula of that value."""

    fixed_point: FixedPoint = UNIT

    @abstractmethod
    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        """Return the value of each row, shape (...), called for every batch and cut-off.

        0 for a row without a relevant label. float64 within ``bounds``; or, with ``fixed_point = COUNT``, whole
        numbers (or bools), of which ``_per_one(k)`` make 1.
        """

    def _per_one(self, k: int) -> int:
        return 1

    def _states(self) -> dict[str, State]:
        return {
            "sum": State((len(self.cutoffs), self._groups, self.fixed_point.columns)),
            "rows": State((1 + self._groups,)),
        }

    def _prepare(self, ranking: Ranking) -> Increments:
        ranks = self._ranks_of(ranking)
        sums = self.fixed_point.add_up(torch.stack(self._row_values(ranking)), dim=1)
        return {"sum": sums.view(len(self.cutoffs), self._groups, -1), "rows": rows_counted(ranking, ranks)}

    def _row_values(self, ranking: Ranking) -> list[Tensor]:
        ranks = self._ranks_of(ranking)
        values = [self._row_value(ranks, k) for k in self.ks]
        if is_outside(type(self)):
            for value in values:
                check_own_values(self._caller, "_row_value", value, ranks, self.fixed_point, self.validate_args)
        return values

    def _values(self) -> list[list[float]]:
        totals = self.fixed_point.totals(self._state("sum"))
        rows, *answered = self._state("rows").tolist()
        groups = len(answered)
        values = []
        for number, k in enumerate(self.ks):
            one = self.fixed_point.unit * self._per_one(k)
            of_k = totals[number * groups : (number + 1) * groups]
            if self.empty_target_action == "pos":
                of_k = [total + (rows - some) * one for total, some in zip(of_k, answered, strict=True)]
            counted = answered if self.empty_target_action == "skip" else [rows] * groups
            values.append(ratios(of_k, [count * one for count in counted]))
        return values

    def row_values(self, ranking: Ranking) -> dict[str, Tensor]:
        """Return the value of each row under the keys of :meth:`scalars`, shape (N,), float64; NaN: does not count."""
        self._check(ranking)
        empty = self._ranks_of(ranking).n_relevant == 0
        values = []
        for k, of_k in zip(self.ks, self._row_values(ranking), strict=True):
            value = of_k.to(torch.float64) / self._per_one(k)
            if self.empty_target_action != "neg":
                value = torch.where(empty, 1.0 if self.empty_target_action == "pos" else torch.nan, value)
            if ranking.row_mask is not None:
                value = torch.where(
                    ranking.row_mask if value.ndim == 1 else ranking.row_mask[:, None], value, torch.nan
                )
            values.append(value.view(ranking.num_rows, self._groups))
        return dict(zip(self.keys(), torch.cat(values, dim=1).unbind(1), strict=True))


class RatioMetric(RelevanceMetric):
    """A sum over rows divided by another: the ratio of means, not the mean of ratios."""

    empty_actions: ClassVar[tuple[EmptyTargetAction, ...]] = ("neg", "skip", "error")
    fixed_point: FixedPoint = REAL

    @abstractmethod
    def _row_terms(self, ranking: Ranking, k: int) -> tuple[Tensor, Tensor]:
        """Return what each row adds to the numerator and the denominator, shape (...), called per batch and cut-off.

        0 for rows that do not count.
        """

    def _states(self) -> dict[str, State]:
        return {"sums": State((2, len(self.cutoffs), self._groups, self.fixed_point.columns))}

    def _prepare(self, ranking: Ranking) -> Increments:
        pairs = [self._row_terms(ranking, k) for k in self.ks]
        if is_outside(type(self)):
            ranks = self._ranks_of(ranking)
            for term in (term for pair in pairs for term in pair):
                check_own_values(self._caller, "_row_terms", term, ranks, self.fixed_point, self.validate_args)
        sums = [self.fixed_point.add_up(torch.stack(terms), dim=1) for terms in zip(*pairs, strict=True)]
        return {"sums": torch.stack(sums).view(2, len(self.cutoffs), self._groups, -1)}

    def _values(self) -> list[list[float]]:
        top, bottom = (self.fixed_point.totals(sums) for sums in self._state("sums"))
        flat = ratios(top, [int(total) for total in bottom])
        groups = len(flat) // len(self.cutoffs)
        return [flat[start : start + groups] for start in range(0, len(flat), groups)]

    def row_values(self, ranking: Ranking) -> dict[str, tuple[Tensor, Tensor]]:
        """Return what each row adds to numerator and denominator, shape (N,) each, by the keys of :meth:`scalars`."""
        self._check(ranking)
        pairs = [
            tuple(term.to(torch.float64).view(ranking.num_rows, self._groups) for term in self._row_terms(ranking, k))
            for k in self.ks
        ]
        tops = torch.cat([top for top, _ in pairs], dim=1).unbind(1)
        bottoms = torch.cat([bottom for _, bottom in pairs], dim=1).unbind(1)
        return dict(zip(self.keys(), zip(tops, bottoms, strict=True), strict=True))


def divide(top: Tensor, bottom: Tensor) -> Tensor:
    """Return ``top / bottom`` in float64; 0 where ``bottom`` is 0, for what is counted there is 0 too.

    Raises:
        TypeError: If either is floating but not float64: digits are lost already.
    """
    for part in (top, bottom):
        if part.is_floating_point() and part.dtype != real_dtype(part.device):
            raise TypeError(
                f"divide: a part is {shape_of(part)}, which has lost digits; keep whole numbers or float64: "
                "hits.double() * 0.5 instead of hits * 0.5."
            )
    least = torch.finfo(bottom.dtype).tiny if bottom.is_floating_point() else 1
    return top.to(real_dtype(top.device)) / bottom.clamp(min=least)


def ordered_sum(terms: Tensor) -> Tensor:
    """Return the sum over the last axis, added from left to right: the same bits for any batch size and layout."""
    return terms.cumsum(dim=-1)[..., -1]
