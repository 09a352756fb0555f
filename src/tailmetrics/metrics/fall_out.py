"""Fall-out at k."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from tailmetrics.metrics._arithmetic import divide
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.ranking import Cutoff, TargetRanks


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

    Lower is better, in [0, 1]; NaN before any row. A row without a relevant label has irrelevant labels too, and
    counts its own fall-out under ``empty_target_action="neg"``.

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
    empty_actions = ("neg", "skip", "error")

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        sizes = self.num_labels if self.bound_buckets is None else self._labels_of_buckets(ranks.n_relevant.device)
        value = fall_out_at_k(ranks, k, sizes)
        return torch.where(ranks.n_relevant > 0, value, 0.0) if self.empty_target_action == "skip" else value

    def _labels_of_buckets(self, device: torch.device) -> Tensor | int | None:
        """Return L where the whole list is looked at, else the number of labels of each bucket, (G,)."""
        assert self.bound_buckets is not None
        return self.num_labels if self.scope == "global" else self.bound_buckets.label_counts.to(device)
