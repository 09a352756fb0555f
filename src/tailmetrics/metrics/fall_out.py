"""Fall-out at k."""

from __future__ import annotations

from typing import final

from torch import Tensor

from tailmetrics.metrics._arithmetic import divide
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._relevance import EmptyTargetAction
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.metrics._ties import EVERY_RULE
from tailmetrics.ranking import EVERYTHING, Cutoff, Ranking, TargetRanks


@formula
def fall_out_at_k(ranks: TargetRanks, k: Cutoff, num_labels: Tensor | int | None = None) -> Tensor:
    """Share of the irrelevant labels that the top k shows: (m_k - h_k) / (L - n).

    Lower is better, in [0, 1]; 0 where every label is relevant.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.
        num_labels: L, or the number of labels of each bucket, (G,); None where scores tell.

    Returns:
        Shape (...), float64.

    Raises:
        ValueError: If nothing tells the number of labels.

    >>> import torch
    >>> float(fall_out_at_k(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0]]), k=2))
    0.5

    Source: TorchMetrics, ``retrieval_fall_out``.
    """
    num_labels = ranks.num_labels if num_labels is None else num_labels
    if num_labels is None:
        num_labels = ranks.documents  # those of a flat query are all there are
    if num_labels is None:
        raise ValueError("fall_out_at_k: ids do not tell the number of labels; pass num_labels=.")
    return divide(ranks.length_at(k) - ranks.hits_at(k), num_labels - ranks.n_relevant)


@final
class FallOutAtK(RowMeanMetric):
    """Share of the irrelevant labels that is among the top k.

    Lower is better, in [0, 1]; NaN before any row. What may be missing here are irrelevant labels:
    ``empty_target_action`` says what a row counts in which every label (of the bucket) is relevant. As in TorchMetrics
    the default is ``"pos"``, which is 1; within buckets it is ``"skip"``. A row without a relevant label counts its own
    fall-out. A list that shows a label twice is refused.

    Use it when showing a wrong label has a cost of its own, as in screening.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = FallOutAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([0]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: TorchMetrics, ``RetrievalFallOut``.
    """

    higher_is_better = False
    stem = "fall_out"
    tie_rules = EVERY_RULE
    lacking = "no irrelevant label"

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        if ranking.repeated is not None and bool(ranking.repeated.any()):
            raise ValueError(
                f"{self._caller}: preds show a label twice in a row of the list, which would be two irrelevant labels "
                "and could make more than there are; take repeated ids out of preds."
            )

    def _empty_default(self, by_bucket: bool) -> EmptyTargetAction:
        return "skip" if by_bucket else "pos"

    def _answered(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        sizes = (self._size_of(ranks), ranking.num_labels, ranking.documents)
        size = next((one for one in sizes if one is not None), EVERYTHING)  # the formula asks where nothing tells
        return (size - ranks.n_relevant) > 0

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return fall_out_at_k(ranks, k, self._size_of(ranks))

    def _size_of(self, ranks: TargetRanks) -> Tensor | int | None:
        """Return L where the whole list is looked at, else the number of labels of each bucket, (G,)."""
        if self.bound_buckets is None or self.scope == "global":
            return self.num_labels
        return self.bound_buckets.label_counts.to(ranks.n_relevant.device)
