"""Which part of the labels is predicted correctly at least once."""

from __future__ import annotations

from typing import Any, Literal, final

import torch
from torch import Tensor

from tailmetrics._checks import check_choice
from tailmetrics.metrics._base import Cutoffs, Increments, PerLabel, State
from tailmetrics.metrics._fixed_point import ratios
from tailmetrics.metrics._shown import ShownMetric, rows_of
from tailmetrics.ranking import Ranking

Denominator = Literal["observed", "known"]


@final
class PositiveCoverageAtK(ShownMetric):
    """Share of the labels that are among the top k of a row in which they are relevant, at least once.

    Higher is better, in [0, 1]; NaN for a bucket without such labels.

    Args:
        k: Cut-off, or several.
        denominator: ``"observed"``, the labels in the targets; ``"known"``, all labels (of the bucket).
        num_labels: L, where buckets do not tell.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PositiveCoverageAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [2]]), torch.tensor([2, 1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: thesis metric notes, "positive_coverage_at_k".
    """

    higher_is_better = True
    stem = "positive_coverage"
    needs_num_labels = True

    def __init__(self, k: Cutoffs, *, denominator: Denominator = "observed", **kwargs: Any) -> None:
        self.denominator: Denominator = check_choice(self._caller, "denominator", denominator, ("observed", "known"))
        super().__init__(k, convention="" if denominator == "observed" else f"_{denominator}", **kwargs)

    def _states(self) -> dict[str, State]:
        assert self.num_labels is not None
        flags = State((self.num_labels,), reduce="max", dtype=torch.uint8)
        names = [*(f"labels_hit_at_{k}" for k in self.ks), "labels_observed"]
        return {**dict.fromkeys(names, flags), "labels_rows": State((1,))}

    def _prepare(self, ranking: Ranking) -> Increments:
        increments: dict[str, Tensor | PerLabel] = {"labels_rows": rows_of(ranking)}
        for k in self.ks:
            hits = ranking.within(k)
            increments[f"labels_hit_at_{k}"] = PerLabel(
                torch.where(hits, ranking.target_ids, 0).reshape(-1), hits.reshape(-1)
            )
        ids = ranking.targets.entries.ids
        return {**increments, "labels_observed": PerLabel(ids.clamp(min=0), ids >= 0)}

    def _values(self) -> list[list[float]]:
        if not int(self._state("labels_rows")):
            return [[float("nan")] * self._groups for _ in self.ks]
        observed = self._state("labels_observed").cpu()
        counted = observed if self.denominator == "observed" else torch.ones_like(observed)
        known = self._by_group(counted)
        return [ratios(self._by_group(self._state(f"labels_hit_at_{k}").cpu()), known) for k in self.ks]

    def _by_group(self, flags: Tensor) -> list[int]:
        if self._bound_buckets is None:
            return [int(flags.sum(dtype=torch.int64))]
        counts = torch.zeros(len(self._bound_buckets), dtype=torch.int64)
        return counts.index_add_(0, self._bound_buckets.assignment, flags.to(torch.int64)).tolist()
