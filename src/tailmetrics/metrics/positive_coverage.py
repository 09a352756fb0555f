"""Which part of the labels is predicted correctly at least once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._checks import check_choice
from tailmetrics.metrics._arguments_of_metrics import Cutoffs, TopKArguments
from tailmetrics.metrics._fixed_point import ratios
from tailmetrics.metrics._shown import ShownMetric, rows_of
from tailmetrics.metrics._states import AtCells, Increments, State, at_labels
from tailmetrics.ranking import Ranking

LabelDenominator: TypeAlias = Literal["observed", "known"]


@final
class PositiveCoverageAtK(ShownMetric):
    """Share of the labels that are among the top k of a row in which they are relevant, at least once.

    Higher is better, in [0, 1]; NaN for a bucket without such labels.

    Use it when every label is to be found at least once, as in coding with many rare classes.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

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

    Source: napkinXC, ``coverage_at_k``.
    """

    higher_is_better = True
    stem = "positive_coverage"
    needs = ("num_labels",)

    def __init__(
        self, k: Cutoffs, *, denominator: LabelDenominator = "observed", **kwargs: Unpack[TopKArguments]
    ) -> None:
        choices: tuple[LabelDenominator, ...] = ("observed", "known")
        self.denominator: LabelDenominator = check_choice(self._caller, "denominator", denominator, choices)
        super().__init__(k, **kwargs)

    def _states(self) -> dict[str, State]:
        assert self.num_labels is not None
        flags = State((self.num_labels,), reduce="max", dtype=torch.uint8, shared=self.min_gain is None)
        names = [*(f"hit_at_{k}" for k in self.ks), "observed"]
        return {**dict.fromkeys(names, flags), "rows": State((1,), shared=True)}

    def _prepare(self, ranking: Ranking) -> Increments:
        ranking = self._relevant(ranking)
        hits = {f"hit_at_{k}": at_labels(ranking.target_ids, ranking.within(k)) for k in self.ks}
        entries = ranking.targets.entries
        observed = AtCells(entries.ids.clamp(min=0), entries.ids >= 0, entries.rows)
        return {**hits, "observed": observed, "rows": rows_of(ranking)}

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        if not int(states["rows"].sum()):
            return self._no_value()
        observed = states["observed"].cpu()
        known = self._by_bucket(observed if self.denominator == "observed" else torch.ones_like(observed))
        return [ratios(self._by_bucket(states[f"hit_at_{k}"].cpu()), known) for k in self.ks]

    def _by_bucket(self, flags: Tensor) -> list[int]:
        if self.bound_buckets is None:
            return [int(flags.sum(dtype=torch.int64))]
        counts = torch.zeros(self._num_buckets, dtype=torch.int64)
        return counts.index_add_(0, self.bound_buckets.assignment, flags.to(torch.int64)).tolist()
