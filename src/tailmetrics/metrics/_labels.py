"""Averages over labels: micro, macro and weighted, from true positives, predictions and support of each label."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tailmetrics._checks import check_choice
from tailmetrics.metrics._base import Cutoffs, Increments, PerLabel, State
from tailmetrics.metrics._fixed_point import REAL, UNIT, FixedPoint, ratios
from tailmetrics.metrics._rows import Average, RowMeanMetric, divide
from tailmetrics.ranking import Ranking, TargetRanks
from tailmetrics.ranking._counters import BucketCounters

Denominator = Literal["predicted", "k"]
Labels = Literal["present", "union", "all"]

BLOCK_LABELS = 2**20
"""Labels averaged at once, to bound the memory at millions of labels."""


class LabelAveragedMetric(RowMeanMetric):
    """A metric that is a ratio of counts, of a row (``average="samples"``), of all rows, or of each label.

    Args:
        k: Cut-off, or several.
        denominator: What a precision divides by: ``"predicted"``, the labels there are among the top k; ``"k"``, k
            even where a list is shorter.
        labels: Over which labels ``average="macro"`` is a mean: ``"present"`` in the targets, ``"union"`` of those
            and the predicted ones, ``"all"``.
        kwargs: See :class:`RelevanceMetric`.
    """

    averages: ClassVar[tuple[Average, ...]] = ("samples", "micro", "macro", "weighted")

    def __init__(
        self,
        k: Cutoffs,
        *,
        average: Average = "samples",
        denominator: Denominator = "predicted",
        labels: Labels = "present",
        empty_target_action: Any = None,
        **kwargs: Any,
    ) -> None:
        caller = self._caller
        self.denominator: Denominator = check_choice(caller, "denominator", denominator, ("predicted", "k"))
        self.labels: Labels = check_choice(caller, "labels", labels, ("present", "union", "all"))
        if average in ("macro", "weighted") and denominator == "k":
            raise ValueError(f"{caller}: denominator='k' means nothing per label; use average='samples' or 'micro'.")
        if labels != "present" and average != "macro":
            raise ValueError(f"{caller}: labels={labels!r} says what average='macro' is over; average is {average!r}.")
        if average != "samples" and empty_target_action == "pos":
            raise ValueError(
                f"{caller}: empty_target_action='pos' means nothing for average={average!r}, which adds up counts; "
                "choose 'neg', 'skip' or 'error'."
            )
        convention = ("_k" if denominator == "k" else "") + ("" if labels == "present" else f"_{labels}")
        super().__init__(k, average=average, empty_target_action=empty_target_action, convention=convention, **kwargs)

    @abstractmethod
    def _label_ratio(self, hits: Tensor, predicted: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        """Return numerator and denominator of the metric in terms of true positives, predictions and support."""

    def _missing(self) -> list[str]:
        missing = super()._missing()
        per_label = self.average in ("macro", "weighted") and self.num_labels is None
        return missing + (["num_labels"] if per_label and not isinstance(self.buckets, str) else [])

    def _label_state(self, what: str) -> str:
        """Return a name that precision, recall and F1 of the same arguments share."""
        buckets = self._bound_buckets
        by = "" if buckets is None else f"_{self.scope}{self.depth}_{buckets.digest}"
        return f"labels_{what}_{self.empty_target_action}{by}"

    def _states(self) -> dict[str, State]:
        if self.average == "samples":
            return super()._states()
        if self.average == "micro":
            return {"counts": State((len(self.cutoffs), self._groups, 3)), "counted": State((self._groups,))}
        assert self.num_labels is not None
        per_label = State((self.num_labels,))
        names = [self._label_state(f"{what}_at_{k}") for k in self.ks for what in ("hits", "predicted")]
        per_group = {self._label_state("counted"): State((self._groups,))}
        return dict.fromkeys([*names, self._label_state("support")], per_label) | per_group

    def _prepare(self, ranking: Ranking) -> Increments:
        if self.average == "samples":
            return super()._prepare(ranking)
        ranks = self._ranks_of(ranking)
        counted = self._counted(ranking, ranks)
        if self.average == "micro":
            counts = self._micro_counts(ranking, ranks, counted)
            return {"counts": counts, "counted": counted.sum(dim=0).view(-1)}
        increments: dict[str, Tensor | PerLabel] = {}
        for k in self.ks:
            hits = ranks.within(k) & counted.unsqueeze(-1)
            increments[self._label_state(f"hits_at_{k}")] = _per_label(ranks.target_ids, hits)
            ids, shown = self._shown(ranking, k, counted)
            increments[self._label_state(f"predicted_at_{k}")] = _per_label(ids, shown)
        entries = ranking.targets.entries
        increments[self._label_state("support")] = _per_label(entries.ids, entries.ids >= 0)
        increments[self._label_state("counted")] = counted.sum(dim=0).view(-1)
        return increments

    def _counted(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Whether a row counts, shape (N,) or (N, G), bool."""
        if self.empty_target_action == "skip":
            return ranks.n_relevant > 0
        row_mask = (
            torch.ones_like(ranking.n_relevant, dtype=torch.bool) if ranking.row_mask is None else ranking.row_mask
        )
        return row_mask if ranks.n_relevant.ndim == 1 else row_mask[:, None].expand_as(ranks.n_relevant)

    def _shown(self, ranking: Ranking, k: int, counted: Tensor) -> tuple[Tensor, Tensor]:
        """Return the listed ids, and whether each is among the top k of its list in a row that counts."""
        ranks = ranking.listed_ranks(self._bound_buckets, self.scope, self.depth)
        ids = ranking.ids[:, : ranks.shape[1]]
        shown = (ranks <= k) & (ids >= 0)
        if self._bound_buckets is None:
            return ids, shown & counted[:, None]
        bucket = self._bound_buckets.of(ids).clamp(max=self._groups - 1)
        return ids, shown & counted.gather(1, bucket)

    def _micro_counts(self, ranking: Ranking, ranks: TargetRanks, counted: Tensor) -> Tensor:
        support = (ranks.n_relevant * counted).sum(dim=0)
        counts = []
        for k in self.ks:
            hits = (ranks.hits_at(k) * counted).sum(dim=0)
            predicted = (self._predicted(ranking, ranks, k) * counted).sum(dim=0)
            counts.append(torch.stack([hits, predicted, support], dim=-1).view(self._groups, 3))
        return torch.stack(counts)

    def _predicted(self, ranking: Ranking, ranks: TargetRanks, k: int) -> Tensor:
        """Return the number of predictions, of the bucket's labels, that a row makes among its top k."""
        if self.denominator == "k":
            return torch.full_like(ranks.n_relevant, k)
        if self._bound_buckets is not None and self.scope == "global":
            return BucketCounters(self._bound_buckets.of(ranking.ids[:, :k]), self._groups).totals()
        return ranks.length.clamp(max=k)

    def _values(self) -> list[list[float]]:
        if self.average == "samples":
            return super()._values()
        if self.average == "micro":
            top, bottom = self._label_ratio(*self._state("counts").unbind(-1))
            # rows without a single prediction make precision 0; no row at all makes it NaN
            bottom = torch.where((bottom == 0) & (self._state("counted") > 0), 1, bottom)
            return [ratios(*pair) for pair in zip(top.tolist(), bottom.tolist(), strict=True)]
        return [self._mean_over_labels(k) for k in self.ks]

    def _mean_over_labels(self, k: int) -> list[float]:
        counts = [self._state(self._label_state(what)) for what in (f"hits_at_{k}", f"predicted_at_{k}", "support")]
        fixed_point = REAL if self.average == "weighted" else UNIT
        buckets = self._bound_buckets
        sums = torch.zeros(self._groups, fixed_point.columns, dtype=torch.int64)
        weights = torch.zeros(self._groups, dtype=torch.int64)
        for start in range(0, len(counts[0]), BLOCK_LABELS):
            part = slice(start, start + BLOCK_LABELS)
            hits, predicted, support = (count[part].cpu() for count in counts)
            group = torch.zeros_like(hits) if buckets is None else buckets.assignment[part]
            weight = self._label_weight(predicted, support)
            value = divide(*self._label_ratio(hits, predicted, support)) * weight
            _add_groups(sums, group, value, fixed_point)
            weights.index_add_(0, group, weight)
        # rows that count but no label to average over make 0; no row at all makes NaN
        counted = self._state(self._label_state("counted")).cpu()
        weights = torch.where(counted > 0, weights.clamp(min=1), 0)
        return ratios(fixed_point.totals(sums), [weight * fixed_point.unit for weight in weights.tolist()])

    def _label_weight(self, predicted: Tensor, support: Tensor) -> Tensor:
        if self.average == "weighted":
            return support
        if self.labels == "all":
            return torch.ones_like(support)
        counts = support if self.labels == "present" else support + predicted
        return (counts > 0).to(torch.int64)

    def row_values(self, ranking: Ranking) -> dict[str, Any]:
        """Return the value of each row, or with ``average="micro"`` what it adds to numerator and denominator.

        Raises:
            ValueError: With ``average="macro"`` or ``"weighted"``, which are no sums over rows.
        """
        if self.average == "samples":
            return super().row_values(ranking)
        if self.average != "micro":
            raise ValueError(f"{self._caller}: average={self.average!r} is over labels; a row has no value of its own.")
        self._check(ranking)
        ranks = self._ranks_of(ranking)
        counted = self._counted(ranking, ranks)
        pairs = []
        for k in self.ks:
            counts = ranks.hits_at(k), self._predicted(ranking, ranks, k), ranks.n_relevant
            pair = self._label_ratio(*(count * counted for count in counts))
            pairs.append([term.to(torch.float64).view(ranking.num_rows, self._groups) for term in pair])
        tops, bottoms = (torch.cat([pair[side] for pair in pairs], dim=1).unbind(1) for side in (0, 1))
        return dict(zip(self.keys(), zip(tops, bottoms, strict=True), strict=True))


def _per_label(ids: Tensor, mask: Tensor) -> PerLabel:
    """Return one for every id where ``mask`` is true, and none elsewhere, without leaving anything out."""
    return PerLabel(torch.where(mask, ids, 0).reshape(-1), mask.reshape(-1))


def _add_groups(sums: Tensor, group: Tensor, value: Tensor, fixed_point: FixedPoint) -> None:
    sums.index_add_(0, group, fixed_point.digits(value))
