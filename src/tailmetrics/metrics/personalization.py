"""How different the lists of different rows are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics.metrics._arguments_of_metrics import Cutoffs, TopKArguments
from tailmetrics.metrics._shown import ExposureMetric


def personalization(shown: Tensor, num_rows: int, k: int) -> float:
    """One minus the mean overlap of the top k of two rows: 1 - sum of c (c - 1) / (k R (R - 1)).

    Higher is more personal, in [0, 1]; NaN with fewer than two rows.

    Args:
        shown: Shape (L,), int64, c: how often each label is shown.
        num_rows: R, number of rows.
        k: Length of the lists; two lists overlap by the labels that they share, divided by k.

    >>> import torch
    >>> personalization(torch.tensor([2, 1, 1]), num_rows=2, k=2)
    0.5

    Source: the recommender library recmetrics, "personalization", with overlap in place of cosine similarity.
    """
    shared = sum(count * (count - 1) for count in shown[shown > 1].tolist())
    pairs = num_rows * (num_rows - 1)
    return (k * pairs - shared) / (k * pairs) if pairs else float("nan")


@final
class PersonalizationAtK(ExposureMetric):
    """One minus the mean overlap of the top k of two rows.

    Higher is more personal, in [0, 1]; NaN with fewer than two rows.

    Use it when a recommender that shows everybody the same must be told from one that does not.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        num_labels: L, where scores do not tell.
        kwargs: See :class:`TopKMetric`; an overlap is of whole lists, so buckets are refused.

    >>> import torch
    >>> metric = PersonalizationAtK(k=2, num_labels=4)
    >>> metric.update(torch.tensor([[0, 1], [0, 2]]), torch.tensor([0, 0]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: the recommender library recmetrics, "personalization".
    """

    higher_is_better = True
    stem = "personalization"

    def __init__(self, k: Cutoffs, **kwargs: Unpack[TopKArguments]) -> None:
        if kwargs.get("buckets") is not None:
            raise ValueError(f"{self._caller}: an overlap is of whole lists, not of a bucket; leave buckets out.")
        super().__init__(k, **kwargs)

    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        raise NotImplementedError("personalization depends on the number of rows and on k too")

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        rows = int(states["rows"].sum())
        return [[personalization(states[f"shown_at_{k}"].cpu(), rows, k)] for k in self.ks]
