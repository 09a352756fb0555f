"""Precision, recall and F1 of the labels above a threshold."""

from __future__ import annotations

from typing import final

from torch import Tensor

from tailmetrics.metrics._thresholds import ThresholdMetric


@final
class PrecisionAtThreshold(ThresholdMetric):
    """Share of the suggested labels that is relevant; a label is suggested where its score is above the threshold.

    Higher is better, in [0, 1]; 0 where nothing is suggested, NaN before any row.

    Use it when a model decides for each label by itself, as in medical coding or tagging.

    ``preds`` are scores or bool (N, L), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        threshold: A number, several, or a tensor (L,) with a threshold for each label.
        kwargs: See :class:`ThresholdMetric`.

    >>> import torch
    >>> metric = PrecisionAtThreshold(0.4)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``precision_score``.
    """

    higher_is_better = True
    stem = "precision"
    ratio_reads = ("predicted",)
    withheld = (*ThresholdMetric.withheld, "macro")

    def _label_ratio(self, hits: Tensor, predicted: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        return hits, predicted


@final
class RecallAtThreshold(ThresholdMetric):
    """Share of the relevant labels that is suggested; a label is suggested where its score is above the threshold.

    Higher is better, in [0, 1]; 0 where nothing is relevant, NaN before any row.

    Use it when a model decides for each label by itself, and a missed label is what costs.

    ``preds`` are scores or bool (N, L), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        threshold: A number, several, or a tensor (L,) with a threshold for each label.
        kwargs: See :class:`ThresholdMetric`.

    >>> import torch
    >>> metric = RecallAtThreshold([0.05, 0.4])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor([1.0000, 0.5000], dtype=torch.float64)

    Source: scikit-learn, ``recall_score``.
    """

    higher_is_better = True
    stem = "recall"
    ratio_reads = ("support",)
    withheld = (*ThresholdMetric.withheld, "macro")

    def _label_ratio(self, hits: Tensor, predicted: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        return hits, support


@final
class F1AtThreshold(ThresholdMetric):
    """Harmonic mean of precision and recall of the labels whose score is above the threshold.

    Higher is better, in [0, 1]; 0 where nothing is suggested or relevant, NaN before any row.

    Use it when papers of medical coding or product tagging report micro and macro F1.

    ``preds`` are scores or bool (N, L), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        threshold: A number, several, or a tensor (L,) with a threshold for each label.
        kwargs: See :class:`ThresholdMetric`.

    >>> import torch
    >>> metric = F1AtThreshold(0.4)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``f1_score``.
    """

    higher_is_better = True
    stem = "f1"

    def _label_ratio(self, hits: Tensor, predicted: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        return 2 * hits, predicted + support
