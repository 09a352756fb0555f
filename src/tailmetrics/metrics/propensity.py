"""Propensity-scored precision, recall and nDCG: rare labels weigh more, because they are missing more often."""

from __future__ import annotations

from math import log
from typing import Any, Literal, final
from zlib import crc32

import torch
from torch import Tensor

from tailmetrics._checks import check_choice, check_count, check_counts, check_number
from tailmetrics.metrics._base import Cutoffs, Training
from tailmetrics.metrics._fixed_point import WEIGHT
from tailmetrics.metrics._rows import RatioMetric, divide, ordered_sum
from tailmetrics.ranking import Ranking, TargetRanks, discounts
from tailmetrics.ranking._device import real_dtype

Normalization = Literal["normalized", "sum"]

PRESETS = {"default": (0.55, 1.5), "wikipedia": (0.5, 0.4), "amazon": (0.6, 2.6)}
"""A and B of the propensity model, by the data sets for which its authors fitted them."""


def inverse_propensities(label_counts: Any, num_train: int, a: float = 0.55, b: float = 1.5) -> Tensor:
    """Inverse propensity of each label: 1 / p_l = 1 + C (N_l + B)^-A with C = (ln N - 1) (B + 1)^A.

    Larger for rarer labels, in [1, inf).

    Args:
        label_counts: Shape (L,), training counts N_l.
        num_train: Number of training rows N, at least 3: below, ln N - 1 is negative.
        a: A.
        b: B.

    Returns:
        Shape (L,), float64.

    Source: Jain, Prabhu and Varma, KDD 2016.
    """
    c = (log(num_train) - 1) * (b + 1) ** a
    inverse: Tensor = 1 + c * (torch.as_tensor(label_counts).double() + b).pow(-a)
    return inverse


def _weighted_hits(ranks: TargetRanks, k: int, weights: Tensor) -> Tensor:
    """Inverse propensity of each hit within the top k, 0 elsewhere, shape (..., W)."""
    return torch.where(ranks.within(k), ranks.weights_at_targets(weights), 0.0)


def propensity_scored_precision_at_k(ranks: TargetRanks, k: int, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of inverse propensities of the hits over k, and the best value attainable.

    Higher is better; 0 without a relevant label.

    Args:
        ranks: Leading axes (...).
        k: Cut-off.
        weights: Shape (L,), :func:`inverse_propensities`.

    Returns:
        Two of shape (...), float64; the metric is the ratio of their sums over rows.

    Source: Jain, Prabhu and Varma, KDD 2016.
    """
    return ordered_sum(_weighted_hits(ranks, k, weights)) / k, ordered_sum(ranks.best(k, weights)) / k


def propensity_scored_recall_at_k(ranks: TargetRanks, k: int, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of inverse propensities of the hits, and of all relevant labels.

    Higher is better; 0 without a relevant label.

    Args:
        ranks: Leading axes (...).
        k: Cut-off.
        weights: Shape (L,), :func:`inverse_propensities`.

    Returns:
        Two of shape (...), float64; the metric is the ratio of their sums over rows.

    Source: Jain, Prabhu and Varma, KDD 2016.
    """
    everything = ranks.best(max(1, ranks.most_relevant), weights)
    return ordered_sum(_weighted_hits(ranks, k, weights)), ordered_sum(everything)


def propensity_scored_ndcg_at_k(
    ranks: TargetRanks, k: int, weights: Tensor, normalization: Normalization = "normalized"
) -> tuple[Tensor, Tensor]:
    """Discounted sum of inverse propensities of the hits, and the best value attainable.

    Higher is better; 0 without a relevant label.

    Args:
        ranks: Leading axes (...).
        k: Cut-off.
        weights: Shape (L,), :func:`inverse_propensities`.
        normalization: ``"normalized"`` divides both by the row's unweighted ideal DCG; ``"sum"`` leaves them.

    Returns:
        Two of shape (...), float64; the metric is the ratio of their sums over rows.

    Source: Jain, Prabhu and Varma, KDD 2016; both conventions are in use.
    """
    best = ranks.best(k, weights)
    scored = ordered_sum(_weighted_hits(ranks, k, weights) * ranks.discounts)
    ideal = ordered_sum(best * discounts(best.shape[-1], best.device))
    if normalization == "sum":
        return scored, ideal
    plain = ranks.ideal_discount(k)
    return divide(scored, plain), divide(ideal, plain)


class _PropensityMetric(RatioMetric):
    """A ratio of sums weighted by inverse propensities.

    Args:
        k: Cut-off, or several.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        num_train: Number of training rows, at least 3; left to ``bind`` if not given.
        a: A of the propensity model.
        b: B of the propensity model.
        preset: ``"default"`` (.55, 1.5), ``"wikipedia"`` (.5, .4) or ``"amazon"`` (.6, 2.6) instead of a and b.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.
    """

    fixed_point = WEIGHT

    def __init__(
        self,
        k: Cutoffs,
        *,
        label_counts: Any = None,
        num_train: int | None = None,
        a: float | None = None,
        b: float | None = None,
        preset: Literal["default", "wikipedia", "amazon"] = "default",
        convention: str = "",
        **kwargs: Any,
    ) -> None:
        caller = self._caller
        preset_a, preset_b = PRESETS[check_choice(caller, "preset", preset, tuple(PRESETS))]
        if preset != "default" and (a is not None or b is not None):
            raise ValueError(f"{caller}: preset={preset!r} sets a and b; pass either the preset or a and b.")
        self.a = check_number(caller, "a", preset_a if a is None else a, 0.0, 10.0)
        self.b = check_number(caller, "b", preset_b if b is None else b, 1e-6, 1e6)
        self._left_open_training = (label_counts is None, num_train is None)
        self.label_counts = None if label_counts is None else check_counts(caller, "label_counts", label_counts)
        self.num_train = None if num_train is None else check_count(caller, "num_train", num_train, minimum=3)
        self._weights: dict[torch.device, Tensor] = {}
        if self.label_counts is not None:
            kwargs.setdefault("num_labels", len(self.label_counts))
        if (self.a, self.b) != PRESETS["default"]:
            convention += f"_a{self.a:g}_b{self.b:g}"
        super().__init__(k, convention=convention, **kwargs)

    def _is_default(self, name: str, value: Any, default: Any) -> bool:
        if name in ("a", "b"):
            return (self.a, self.b) == PRESETS["default"]
        return super()._is_default(name, value, default)

    def _adopt_num_labels(self) -> None:
        super()._adopt_num_labels()
        if self.label_counts is None and self._bound_buckets is not None:
            self.label_counts = self._bound_buckets.counts
        if self.label_counts is not None and self.num_labels not in (None, len(self.label_counts)):
            raise ValueError(
                f"{self._caller}: label_counts holds {len(self.label_counts)} counts, but there are {self.num_labels} "
                "labels; pass one count per label."
            )

    def _bind(self, training: Training) -> _PropensityMetric:
        counts_open, rows_open = self._left_open_training
        if counts_open:
            self.label_counts = training.counts
        if rows_open and training.num_rows is not None:
            self.num_train = check_count(self._caller, "num_train", training.num_rows, minimum=3)
        self._weights = {}
        super()._bind(training)
        return self

    def _missing(self) -> list[str]:
        training = {"label_counts": self.label_counts, "num_train": self.num_train}
        return super()._missing() + [name for name, value in training.items() if value is None]

    @property
    def _identity_more(self) -> str:
        assert self.label_counts is not None
        counts = f"{crc32(self.label_counts.numpy().tobytes()):08x}"
        return f"{super()._identity_more}_{counts}_{self.num_train}_{self.a!r}_{self.b!r}"

    def _weights_on(self, device: torch.device) -> Tensor:
        if device not in self._weights:
            assert self.num_train is not None
            weights = inverse_propensities(self.label_counts, self.num_train, self.a, self.b)
            if weights.numel() and not float(weights.max()) < 2**32:
                raise ValueError(
                    f"{self._caller}: a={self.a}, b={self.b} give a label the weight {float(weights.max()):g}; choose "
                    "them so that inverse propensities stay below 2^32."
                )
            self._weights[device] = weights.to(device, real_dtype(device))
        return self._weights[device]


@final
class PropensityScoredPrecisionAtK(_PropensityMetric):
    """Precision at k with hits weighted by inverse propensity, divided by the best attainable: a ratio of means.

    Higher is better, in [0, 1]; NaN without a relevant label.

    Args:
        k: Cut-off, or several.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        num_train: Number of training rows, at least 3; left to ``bind`` if not given.
        kwargs: See :class:`_PropensityMetric` for a, b and preset; :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = PropensityScoredPrecisionAtK(k=1, label_counts=[90, 9, 1], num_train=100)
    >>> metric.update(torch.tensor([[0], [1]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: Jain, Prabhu and Varma, KDD 2016.
    """

    higher_is_better = True
    stem = "psp"

    def _row_terms(self, ranking: Ranking, k: int) -> tuple[Tensor, Tensor]:
        return propensity_scored_precision_at_k(self._ranks_of(ranking), k, self._weights_on(ranking.ids.device))


@final
class PropensityScoredRecallAtK(_PropensityMetric):
    """Recall at k with labels weighted by inverse propensity: a ratio of means.

    Higher is better, in [0, 1]; NaN without a relevant label.

    Args:
        k: Cut-off, or several.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        num_train: Number of training rows, at least 3; left to ``bind`` if not given.
        kwargs: See :class:`_PropensityMetric` for a, b and preset; :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = PropensityScoredRecallAtK(k=1, label_counts=[9, 9, 9], num_train=100)
    >>> metric.update(torch.tensor([[0]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Jain, Prabhu and Varma, KDD 2016.
    """

    higher_is_better = True
    stem = "psr"

    def _row_terms(self, ranking: Ranking, k: int) -> tuple[Tensor, Tensor]:
        return propensity_scored_recall_at_k(self._ranks_of(ranking), k, self._weights_on(ranking.ids.device))


@final
class PropensityScoredNDCGAtK(_PropensityMetric):
    """nDCG at k with hits weighted by inverse propensity, divided by the best attainable: a ratio of means.

    Higher is better, in [0, 1]; NaN without a relevant label.

    Args:
        k: Cut-off, or several.
        normalization: ``"normalized"`` divides each row by its unweighted ideal DCG first; ``"sum"`` does not.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        num_train: Number of training rows, at least 3; left to ``bind`` if not given.
        kwargs: See :class:`_PropensityMetric` for a, b and preset; :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = PropensityScoredNDCGAtK(k=1, label_counts=[9, 9, 9], num_train=100)
    >>> metric.update(torch.tensor([[0], [1]]), torch.tensor([0, 2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Jain, Prabhu and Varma, KDD 2016.
    """

    higher_is_better = True
    stem = "psndcg"

    def __init__(self, k: Cutoffs, *, normalization: Normalization = "normalized", **kwargs: Any) -> None:
        self.normalization: Normalization = check_choice(
            self._caller, "normalization", normalization, ("normalized", "sum")
        )
        super().__init__(k, convention="" if normalization == "normalized" else f"_{normalization}", **kwargs)

    def _row_terms(self, ranking: Ranking, k: int) -> tuple[Tensor, Tensor]:
        weights = self._weights_on(ranking.ids.device)
        return propensity_scored_ndcg_at_k(self._ranks_of(ranking), k, weights, self.normalization)
