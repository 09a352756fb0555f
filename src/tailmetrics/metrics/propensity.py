"""Propensity-scored precision, recall and nDCG.

Rare labels weigh more, because they are missing more often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import log
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import NumberRange, check_choice, check_count, check_counts
from tailmetrics.metrics._aggregations import RatioOfSums
from tailmetrics.metrics._arguments_of_metrics import Cutoffs, RankArguments
from tailmetrics.metrics._formulas import Formula, takes_arrays
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._states import WEIGHT, divide
from tailmetrics.metrics._ties import discounts_within
from tailmetrics.ranking import Cutoff, LabelWeights, TargetRanks, discounts
from tailmetrics.ranking._sums import ordered_sum
from tailmetrics.ranking._target_ranks import weights_at_targets

__all__ = [
    "PropensityScoredNDCGAtK",
    "PropensityScoredPrecisionAtK",
    "PropensityScoredRecallAtK",
]

Normalization: TypeAlias = Literal["normalized", "sum"]

Preset: TypeAlias = Literal["default", "wikipedia", "amazon"]

PRESETS = {"default": (0.55, 1.5), "wikipedia": (0.5, 0.4), "amazon": (0.6, 2.6)}
"""A and B of the propensity model, by the data sets for which its authors fitted them.
"""

FEWEST_ROWS = 3
"""With fewer training rows N, ln N - 1 is negative."""
A: Final = NumberRange("a", 0.0, 10.0)
B: Final = NumberRange("b", 1e-6, 1e6)
GAMMA: Final = NumberRange("gamma", 0.0, 10.0)


def inverse_propensities(
    label_counts: Any, num_train: int, a: float = 0.55, b: float = 1.5
) -> Tensor:
    """Inverse propensity of each label: 1 / p_l = 1 + C (N_l + B)^-A.

    The constant C is (ln N - 1) (B + 1)^A.

    Larger for rarer labels, in [1, inf).

    Args:
        label_counts: Shape (L,), training counts N_l.
        num_train: Number of training rows N, at least 3; with fewer, ln N - 1 < 0.
        a: The constant A of the formula.
        b: The constant B of the formula.

    Returns:
        Shape (L,), float64.

    >>> [round(weight, 4) for weight in inverse_propensities([100, 0], num_train=1000).tolist()]
    [1.7704, 8.8242]

    Source: Jain, Prabhu and Varma, KDD 2016.
    """
    caller = "inverse_propensities"
    counts = check_counts(caller, "label_counts", label_counts)
    num_train = check_count(caller, "num_train", num_train, minimum=FEWEST_ROWS)
    a, b = A.checked(caller, a), B.checked(caller, b)
    c = (log(num_train) - 1) * (b + 1) ** a
    inverse: Tensor = 1 + c * (counts.double() + b).pow(-a)
    return inverse


def inverse_popularity(label_counts: Any, gamma: float = 1.5) -> Tensor:
    """Inverse of a propensity that is a power of popularity.

    (N_max / N_l)^((γ + 1) / 2), with N_l at least 1.

    Larger for rarer labels, in [1, inf).

    Args:
        label_counts: Shape (L,), training counts N_l.
        gamma: The exponent γ with which users see popular items more often; 1.5 to 2.5
            in published logs.

    Returns:
        Shape (L,), float64.

    >>> inverse_popularity([16, 4, 0], gamma=1).tolist()
    [1.0, 4.0, 16.0]

    Source: Yang, Cui, Xuan, Wang, Belongie and Estrin, RecSys 2018.
    """
    caller = "inverse_popularity"
    counts = check_counts(caller, "label_counts", label_counts).double().clamp(min=1)
    gamma = GAMMA.checked(caller, gamma)
    return (counts.max() / counts).pow((gamma + 1) / 2)


def _check_weights(caller: str, source: str, weights: Tensor) -> None:
    """Raise unless states can hold sums of the weights, which ``source`` gave."""
    if not bool(((weights >= 0) & (weights < 2**32)).all()):
        raise ValueError(
            f"{caller}: {source} {float(weights.min()):g} to {float(weights.max()):g}; "
            "inverse propensities are at least 0 and below 2^32: choose others."
        )


def _check_given_weights(
    caller: str, _: TargetRanks, arguments: Mapping[str, Any]
) -> None:
    weights = arguments["weights"]
    if isinstance(weights, Tensor):
        _check_weights(caller, "weights holds", weights)


def _sum_of_hits(ranks: TargetRanks, k: Cutoff, weights: LabelWeights) -> Tensor:
    """Return the sum of the inverse propensities of the hits in the top k, (...).

    The largest is added first, in the order of the best attainable sum: no rounding
    makes it larger than that sum, and a list without an error has the same bits.
    """
    worth = weights_at_targets(ranks, weights) * ranks.real_within(k)
    return ordered_sum(worth.sort(dim=-1, descending=True).values)


@partial(takes_arrays, check=_check_given_weights)
def propensity_scored_precision_at_k(
    ranks: TargetRanks, k: Cutoff, weights: LabelWeights | Tensor
) -> tuple[Tensor, Tensor]:
    """Sum of the inverse propensities of the hits, divided by k, and its maximum.

    The maximum is the largest attainable value of this sum, divided by k, too.

    Higher is better; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        weights: Shape (L,), as :func:`inverse_propensities` returns them.

    Returns:
        Two tensors of shape (...), float64; the metric is the sum of the first over the
        rows, divided by that of the second.

    >>> import torch
    >>> weights = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    >>> ids, target = torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]])
    >>> [value.tolist() for value in propensity_scored_precision_at_k(ids, target, k=2, weights=weights)]
    [[0.5], [2.5]]

    Source: Jain, Prabhu and Varma, KDD 2016.
    """
    weights = LabelWeights.of(weights)
    shown = ranks.cutoffs(k)
    best = ordered_sum(ranks.best(k, weights))
    # means over orders of equal scores are rounded
    hits = torch.minimum(_sum_of_hits(ranks, k, weights), best)
    return hits / shown, best / shown


@partial(takes_arrays, check=_check_given_weights)
def propensity_scored_recall_at_k(
    ranks: TargetRanks, k: Cutoff, weights: LabelWeights | Tensor
) -> tuple[Tensor, Tensor]:
    """Sum of the inverse propensities of the hits, and of all relevant labels.

    Higher is better; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        weights: Shape (L,), as :func:`inverse_propensities` returns them.

    Returns:
        Two tensors of shape (...), float64; the metric is the sum of the first over the
        rows, divided by that of the second.

    >>> import torch
    >>> weights = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    >>> ids, target = torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]])
    >>> [value.tolist() for value in propensity_scored_recall_at_k(ids, target, k=2, weights=weights)]
    [[1.0], [5.0]]

    Source: Jain, Prabhu and Varma, KDD 2016.
    """
    weights = LabelWeights.of(weights)
    hits = _sum_of_hits(ranks, k, weights)
    everything = ordered_sum(
        ranks.best(max(1, ranks.relevant.most), weights)
    ).expand_as(hits)
    return torch.minimum(hits, everything), everything


@partial(takes_arrays, check=_check_given_weights)
def propensity_scored_ndcg_at_k(
    ranks: TargetRanks,
    k: Cutoff,
    weights: LabelWeights | Tensor,
    normalization: Normalization = "normalized",
) -> tuple[Tensor, Tensor]:
    """Discounted sum of the inverse propensities of the hits, and its maximum.

    The maximum is the largest attainable value of this sum.

    Higher is better; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        weights: Shape (L,), as :func:`inverse_propensities` returns them.
        normalization: ``"normalized"`` divides both by the row's unweighted ideal DCG;
            ``"sum"`` leaves both unchanged.

    Returns:
        Two tensors of shape (...), float64; the metric is the sum of the first over the
        rows, divided by that of the second.

    >>> import torch
    >>> weights = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    >>> ids, target = torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]])
    >>> found, best = propensity_scored_ndcg_at_k(ids, target, k=2, weights=weights, normalization="sum")
    >>> float(found), round(float(best), 4)
    (1.0, 4.6309)

    Source: Jain, Prabhu and Varma, KDD 2016; both conventions are in use.
    """
    weights = LabelWeights.of(weights)
    best = ranks.best(k, weights)
    scored = ordered_sum(
        weights_at_targets(ranks, weights) * discounts_within(ranks, k)
    )
    ideal = ordered_sum(best * discounts(best.shape[-1], best.device))
    # weights that differ in the last bit round to more
    scored = torch.minimum(scored, ideal)
    if normalization == "sum":
        return scored, ideal
    plain = ranks.ideal_discount(k)
    return divide(scored, plain), divide(ideal, plain)


class PropensityArguments(RankArguments, total=False):
    """Keyword arguments of propensity-scored metrics."""

    label_counts: Any
    num_train: int | None
    a: float | None
    b: float | None
    preset: Preset
    weights: Any


class _PropensityMetric(TopKMetric):
    """A ratio of sums weighted by inverse propensities.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets
            or from ``bind``.
        num_train: Number of training rows, at least 3; if not given, taken from
            ``bind``.
        a: A of the propensity model.
        b: B of the propensity model.
        weights: Shape (L,), the inverse propensities themselves, in [0, 2^32); training
            counts are then not read.
        preset: ``"default"`` (.55, 1.5), ``"wikipedia"`` (.5, .4) or ``"amazon"`` (.6,
            2.6) instead of a and b.
        kwargs: See :class:`TopKMetric`.
    """

    usual_settings = MappingProxyType(dict(zip("ab", PRESETS["default"], strict=True)))

    def __init__(
        self,
        k: Cutoffs,
        function: Callable[..., tuple[Tensor, Tensor]],
        arguments: Mapping[str, Any],
        *,
        label_counts: Any = None,
        num_train: int | None = None,
        a: float | None = None,
        b: float | None = None,
        preset: Preset = "default",
        weights: Any = None,
        **kwargs: Unpack[RankArguments],
    ) -> None:
        caller = self._caller
        preset_a, preset_b = PRESETS[
            check_choice(caller, "preset", preset, tuple(PRESETS))
        ]
        if preset != "default" and (a is not None or b is not None):
            raise ValueError(
                f"{caller}: preset={preset!r} sets a and b; pass either the preset "
                "or a and b."
            )
        if weights is not None and (
            preset != "default" or a is not None or b is not None
        ):
            raise ValueError(
                f"{caller}: weights= holds the inverse propensities, which preset=, "
                "a= and b= make of training counts; "
                "pass the weights alone, or leave them out."
            )
        self.a = A.checked(caller, preset_a if a is None else a)
        self.b = B.checked(caller, preset_b if b is None else b)
        self.label_counts = label_counts
        self.num_train = num_train
        self.preset: Preset = "default"  # a and b say all that it says
        self.weights: Tensor | None = None
        needs: tuple[str, ...] = ("label_counts", "num_train")
        if weights is not None:
            self.weights = _vector_of_weights(caller, weights)
            needs = ()
        ignores_order = function is not propensity_scored_ndcg_at_k
        formula = Formula(
            function,
            arguments,
            value_format=WEIGHT,
            is_averaged=True,
            ignores_order=ignores_order,
        )
        super().__init__(k, formula, aggregation=RatioOfSums, needs=needs, **kwargs)

    def _reconcile_facts(self) -> None:
        if self.weights is not None:
            self.label_counts = self.num_train = None  # no value depends on them
        super()._reconcile_facts()
        if self.num_train is not None:
            self.num_train = check_count(
                self._caller, "num_train", self.num_train, minimum=FEWEST_ROWS
            )
        if self.weights is not None:
            self._take_num_labels("weights", len(self.weights))
            self._set_weights(self.weights, "weights holds")
        elif self.label_counts is not None and self.num_train is not None:
            weights = inverse_propensities(
                self.label_counts, self.num_train, self.a, self.b
            )
            self._set_weights(weights, f"a={self.a}, b={self.b} give")

    def _set_weights(self, weights: Tensor, source: str) -> None:
        """Set the inverse propensities; raise unless states can hold their sums."""
        _check_weights(self._caller, source, weights)
        self.formula = self.formula.with_arguments(weights=LabelWeights(weights))


def _vector_of_weights(caller: str, weights: Any) -> Tensor:
    """Return inverse propensities as a float64 vector on the CPU."""
    try:
        vector: Tensor = torch.as_tensor(
            weights, device=getattr(weights, "device", "cpu")
        )
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{caller}: weights is a {type(weights).__name__}; pass a tensor or list "
            "of numbers, one per label."
        ) from None
    return vector.detach().cpu().double().reshape(-1)


@final
class PropensityScoredPrecisionAtK(_PropensityMetric):
    """Precision at k with hits weighted by inverse propensity, over its maximum.

    The maximum is the largest attainable value. The value is a ratio of means.

    Higher is better, in [0, 1]; NaN without a relevant label.

    Use it when targets miss rare labels more often than frequent labels, as in extreme
    classification.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets
            or from ``bind``.
        num_train: Number of training rows, at least 3; if not given, taken from
            ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PropensityScoredPrecisionAtK(k=1, label_counts=[90, 9, 1], num_train=100)
    >>> metric.update(torch.tensor([[0], [1]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: Jain, Prabhu and Varma, KDD 2016.
    """

    higher_is_better = True
    stem = "psp"

    def __init__(self, k: Cutoffs, **kwargs: Unpack[PropensityArguments]) -> None:
        super().__init__(k, propensity_scored_precision_at_k, {}, **kwargs)


@final
class PropensityScoredRecallAtK(_PropensityMetric):
    """Recall at k with labels weighted by inverse propensity: a ratio of means.

    Higher is better, in [0, 1]; NaN without a relevant label.

    Use it when targets miss rare labels more often than frequent labels, and a missed
    label is costly.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets
            or from ``bind``.
        num_train: Number of training rows, at least 3; if not given, taken from
            ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PropensityScoredRecallAtK(k=1, label_counts=[9, 9, 9], num_train=100)
    >>> metric.update(torch.tensor([[0]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Jain, Prabhu and Varma, KDD 2016.
    """

    higher_is_better = True
    stem = "psr"

    def __init__(self, k: Cutoffs, **kwargs: Unpack[PropensityArguments]) -> None:
        super().__init__(k, propensity_scored_recall_at_k, {}, **kwargs)


@final
class PropensityScoredNDCGAtK(_PropensityMetric):
    """nDCG at k with hits weighted by inverse propensity, over its maximum.

    The maximum is the largest attainable value. The value is a ratio of means.

    Higher is better, in [0, 1]; NaN without a relevant label.

    Use it when targets miss rare labels more often than frequent labels, and early
    ranks count more.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        normalization: ``"normalized"`` divides each row by its unweighted ideal DCG
            first; ``"sum"`` does not.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets
            or from ``bind``.
        num_train: Number of training rows, at least 3; if not given, taken from
            ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PropensityScoredNDCGAtK(k=1, label_counts=[9, 9, 9], num_train=100)
    >>> metric.update(torch.tensor([[0], [1]]), torch.tensor([0, 2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Jain, Prabhu and Varma, KDD 2016.
    """

    higher_is_better = True
    stem = "psndcg"

    def __init__(
        self,
        k: Cutoffs,
        *,
        normalization: Normalization = "normalized",
        **kwargs: Unpack[PropensityArguments],
    ) -> None:
        self.normalization: Normalization = check_choice(
            self._caller, "normalization", normalization, Normalization
        )
        super().__init__(
            k, propensity_scored_ndcg_at_k, {"normalization": normalization}, **kwargs
        )
