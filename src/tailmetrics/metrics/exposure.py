"""How evenly the catalogue is shown: catalogue coverage, Gini index and entropy of exposure."""

from __future__ import annotations

from math import fsum
from typing import final

from torch import Tensor

from tailmetrics.metrics._shown import ExposureMetric, total


def catalog_coverage(shown: Tensor) -> float:
    """Share of the labels that are shown at all.

    Higher is better, in [0, 1]; NaN without labels.

    Args:
        shown: Shape (L,), int64, how often each label is shown.

    >>> import torch
    >>> catalog_coverage(torch.tensor([2, 0, 1, 0]))
    0.5

    Source: Ge, Delgado-Battenfeld and Jannach, RecSys 2010, "catalog coverage".
    """
    return total(shown > 0) / len(shown) if len(shown) else float("nan")


def gini(shown: Tensor) -> float:
    """Gini index of exposure: sum of (2i - L - 1) c_(i) over L times the sum of c, with c ascending.

    Lower is more even, in [0, 1); NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown, zeros included.

    >>> import torch
    >>> gini(torch.tensor([0, 4]))
    0.5

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011), "Gini index".
    """
    counts = shown[shown > 0].sort().values.tolist()
    num_labels = len(shown)
    unseen = num_labels - len(counts)
    weighted = sum((2 * i - num_labels - 1) * count for i, count in enumerate(counts, start=unseen + 1))
    return weighted / (num_labels * sum(counts)) if counts else float("nan")


def entropy(shown: Tensor) -> float:
    """Entropy of exposure, -sum of p ln p, in nats.

    Higher is more even, in [0, ln L]; NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown.

    >>> import torch
    >>> round(entropy(torch.tensor([2, 2])), 4)
    0.6931

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011), "Shannon entropy".
    """
    counts = shown[shown > 0].double()
    if not len(counts):
        return float("nan")
    p = counts / total(shown)
    return max(0.0, -fsum((p * p.log()).tolist()))


@final
class CatalogCoverageAtK(ExposureMetric):
    """Share of the labels that are shown to anyone among the top k.

    Higher is better, in [0, 1]; NaN for a bucket without labels.

    Use it when labels that nobody is shown are lost, such as items of a shop.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        num_labels: L, where buckets do not tell.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = CatalogCoverageAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)

    Source: Ge, Delgado-Battenfeld and Jannach, RecSys 2010.
    """

    higher_is_better = True
    stem = "catalog_coverage"

    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        return catalog_coverage(shown)


@final
class GiniAtK(ExposureMetric):
    """Gini index of how often each label is shown among the top k, labels never shown included.

    Lower is more even, in [0, 1); NaN when nothing is shown.

    Use it when a few labels must not take all the exposure.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        num_labels: L, where buckets do not tell.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = GiniAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011).
    """

    higher_is_better = False
    stem = "gini"

    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        return gini(shown)


@final
class EntropyAtK(ExposureMetric):
    """Entropy, in nats, of how often each label is shown among the top k.

    Higher is more even, in [0, ln L]; NaN when nothing is shown.

    Use it when exposure is to be spread: e to its power is the number of labels shown as if evenly.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        num_labels: L, where buckets do not tell.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = EntropyAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [3]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.6931, dtype=torch.float64)

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011).
    """

    higher_is_better = True
    bounds = (0.0, float("inf"))
    stem = "entropy"

    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        return entropy(shown)
