"""How common in training what is shown is: popularity and novelty."""

from __future__ import annotations

from math import fsum
from typing import Any, final

from torch import Tensor

from tailmetrics._checks import check_count, check_counts
from tailmetrics.metrics._base import Cutoffs, Training
from tailmetrics.metrics._shown import ExposureMetric, total


def popularity(shown: Tensor, label_counts: Tensor) -> float:
    """Mean training count of the labels shown.

    Higher is more popular, in [0, inf); NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown.
        label_counts: Shape (L,), int64, how often each label occurs in training.

    Source: Yin et al., PVLDB 5 (2012), average recommendation popularity.
    """
    seen = total(shown)
    return total(shown * label_counts) / seen if seen else float("nan")


def novelty(shown: Tensor, label_counts: Tensor, num_train: int) -> float:
    """Mean of -log2(training count / training rows) of the labels shown, labels never seen counted once.

    Higher is more novel, in [0, inf); NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown.
        label_counts: Shape (L,), int64, how often each label occurs in training.
        num_train: Number of training rows.

    Source: Zhou et al., PNAS 107 (2010), self-information of what is recommended.
    """
    seen = shown > 0
    bits = -(label_counts[seen].clamp(min=1).double() / num_train).log2()
    return fsum((bits * shown[seen]).tolist()) / total(shown) if bool(seen.any()) else float("nan")


class _TrainingMetric(ExposureMetric):
    """A metric that knows the training counts.

    Args:
        k: Cut-off, or several.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        kwargs: See :class:`TopKMetric`.
    """

    def __init__(self, k: Cutoffs, *, label_counts: Any = None, **kwargs: Any) -> None:
        self._counts_open = label_counts is None
        self.label_counts = None if label_counts is None else check_counts(self._caller, "label_counts", label_counts)
        if self.label_counts is not None:
            kwargs.setdefault("num_labels", len(self.label_counts))
        super().__init__(k, **kwargs)

    def _adopt_num_labels(self) -> None:
        super()._adopt_num_labels()
        if self.label_counts is None and self._bound_buckets is not None:
            self.label_counts = self._bound_buckets.counts
        if self.label_counts is not None and self.num_labels not in (None, len(self.label_counts)):
            raise ValueError(
                f"{self._caller}: label_counts holds {len(self.label_counts)} counts, but there are {self.num_labels} "
                "labels; pass one count per label."
            )

    def _bind(self, training: Training) -> _TrainingMetric:
        if self._counts_open:
            self.label_counts = training.counts
        super()._bind(training)
        return self

    def _missing(self) -> list[str]:
        return super()._missing() + (["label_counts"] if self.label_counts is None else [])

    def _counts_of(self, inside: Tensor | None) -> Tensor:
        assert self.label_counts is not None
        return self.label_counts if inside is None else self.label_counts[inside]


@final
class PopularityAtK(_TrainingMetric):
    """Mean training count of the labels shown among the top k.

    Higher is more popular, in [0, inf); NaN when nothing is shown.

    Args:
        k: Cut-off, or several.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PopularityAtK(k=1, label_counts=[5, 3, 1])
    >>> metric.update(torch.tensor([[0], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(3., dtype=torch.float64)

    Source: Yin et al., PVLDB 5 (2012).
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))
    stem = "popularity"

    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        return popularity(shown, self._counts_of(inside))


@final
class NoveltyAtK(_TrainingMetric):
    """Mean of -log2 of the share of training rows that have a label, over the labels shown among the top k.

    Higher is more novel, in [0, inf); NaN when nothing is shown.

    Args:
        k: Cut-off, or several.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        num_train: Number of training rows; left to ``bind`` if not given.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = NoveltyAtK(k=1, label_counts=[4, 2, 1], num_train=4)
    >>> metric.update(torch.tensor([[0], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: Zhou et al., PNAS 107 (2010).
    """

    higher_is_better = True
    bounds = (0.0, float("inf"))
    stem = "novelty"

    def __init__(self, k: Cutoffs, *, label_counts: Any = None, num_train: int | None = None, **kwargs: Any) -> None:
        self._rows_open = num_train is None
        self.num_train = None if num_train is None else check_count(self._caller, "num_train", num_train)
        super().__init__(k, label_counts=label_counts, **kwargs)

    def _bind(self, training: Training) -> NoveltyAtK:
        if self._rows_open:
            self.num_train = training.num_rows or None
        super()._bind(training)
        return self

    def _missing(self) -> list[str]:
        return super()._missing() + (["num_train"] if self.num_train is None else [])

    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        assert self.num_train is not None
        return novelty(shown, self._counts_of(inside), self.num_train)
