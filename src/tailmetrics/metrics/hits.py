"""Shares and counts of hits among the top k.

The metrics are precision, recall, F1, F-beta, hit rate, fall-out and R-precision.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Final, Literal, TypeAlias, final

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import NumberRange, check_choice
from tailmetrics.metrics._arguments_of_metrics import (
    Cutoffs,
    LabelArguments,
    MacroOf,
    RankArguments,
)
from tailmetrics.metrics._formulas import Formula, hit_formula, takes_arrays
from tailmetrics.metrics._labels import PRECISION, RECALL, ByAverage, f_beta
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._states import COUNT, divide
from tailmetrics.metrics._ties import ExpectedRanks
from tailmetrics.ranking import EVERYTHING, Cutoff, Ranking, TargetRanks
from tailmetrics.ranking._sums import ordered_sum
from tailmetrics.ranking._target_ranks import n_or_one

__all__ = [
    "AccuracyAtK",
    "F1AtK",
    "FBetaAtK",
    "FallOutAtK",
    "HitRateAtK",
    "NormalizedRecallAtK",
    "PrecisionAtK",
    "RPrecision",
    "RecallAtK",
    "RelevanceAtK",
]

Denominator: TypeAlias = Literal["predicted", "k"]


@takes_arrays
def precision_at_k(
    ranks: TargetRanks, k: Cutoff, denominator: Denominator = "predicted"
) -> Tensor:
    """Share of the top k that is relevant: h_k / m_k, or h_k / k.

    Higher is better, in [0, 1]; 0 for an empty list.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        denominator: What the hits are divided by: ``"predicted"``, m_k, the number of
            labels in the top k of the list; ``"k"``, always k, even in a shorter list.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> precision_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [0.5]

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008),
    8.4.
    """
    return divide(ranks.real_hits_at(k), _number_predicted(ranks, k, denominator))


def _number_predicted(
    ranks: TargetRanks, k: Cutoff, denominator: Denominator
) -> Tensor | int:
    """Return the number of labels in the top k, or k itself."""
    if denominator == "predicted":
        return ranks.length_at(k)
    return ranks.cutoffs(k)


def _hits_of_k(ranks: TargetRanks, k: Cutoff, **_: str) -> Tensor:
    """Return h_k, of which k make a precision of 1."""
    return ranks.hits_at(k)


@final
class PrecisionAtK(TopKMetric):
    """Share of the top k that is relevant.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when users see all k places, and a wrong label costs the same in each place.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        denominator: What the hits are divided by: ``"predicted"``, the number of labels
            in the top k; ``"k"``, always k, also if the list is shorter.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PrecisionAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008),
    8.4.
    """

    higher_is_better = True

    def __init__(
        self,
        k: Cutoffs,
        *,
        denominator: Denominator = "predicted",
        **kwargs: Unpack[LabelArguments],
    ) -> None:
        self.denominator: Denominator = check_choice(
            self._caller, "denominator", denominator, Denominator
        )
        formula = hit_formula(
            precision_at_k,
            {"denominator": denominator},
            is_additive=denominator == "k",
            ignores_order=True,
        )
        if denominator == "k":  # whole numbers need one column of a state
            formula = replace(
                formula, function=_hits_of_k, value_format=COUNT, per_one=int
            )
        super().__init__(k, formula, aggregation=ByAverage(PRECISION), **kwargs)


@takes_arrays
def recall_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Share of the relevant labels that is among the top k: h_k / n.

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> recall_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [0.5]

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008),
    8.3.
    """
    return ranks.real_hits_at(k) / n_or_one(ranks)


@takes_arrays
def normalized_recall_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Hits among the top k, divided by the largest possible number: h_k / min(k, n).

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> normalized_recall_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=1).tolist()
    [1.0]

    Source: NIST trec_eval, "relative_P".
    """
    return divide(ranks.real_hits_at(k), ranks.attainable_at(k))


@final
class RecallAtK(TopKMetric):
    """Share of the relevant labels that is among the top k.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when a missed label is costly, and a second stage or a patient reader reads
    the whole list.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = RecallAtK(k=[1, 2])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor([0.5000, 1.0000], dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008),
    8.3.
    """

    higher_is_better = True

    def __init__(self, k: Cutoffs, **kwargs: Unpack[LabelArguments]) -> None:
        super().__init__(
            k,
            hit_formula(recall_at_k, ignores_order=True),
            aggregation=ByAverage(RECALL),
            **kwargs,
        )


@final
class NormalizedRecallAtK(TopKMetric):
    """Hits among the top k, divided by the largest possible number of hits: min(k, n).

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when rows may have more than k relevant labels, so that their recall could
    not reach 1.

    With ``average="micro"`` it is the sum of hits divided by the sum of min(k, n): rows
    with more labels weigh more.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = NormalizedRecallAtK(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: NIST trec_eval, "relative_P".
    """

    higher_is_better = True

    def __init__(self, k: Cutoffs, **kwargs: Unpack[RankArguments]) -> None:
        pooled = ByAverage(RECALL, ("samples", "micro"), up_to_k=True)
        super().__init__(
            k,
            hit_formula(normalized_recall_at_k, ignores_order=True),
            aggregation=pooled,
            **kwargs,
        )


@takes_arrays
def f1_at_k(
    ranks: TargetRanks, k: Cutoff, denominator: Denominator = "predicted"
) -> Tensor:
    """Harmonic mean of precision and recall: 2 h_k / (m_k + n), or 2 h_k / (k + n).

    Higher is better, in [0, 1]; 0 when both are 0.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        denominator: What precision divides by, as in :func:`precision_at_k`.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> f1_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [0.5]

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008),
    8.3.
    """
    return divide(
        2 * ranks.real_hits_at(k),
        _number_predicted(ranks, k, denominator) + ranks.n_relevant,
    )


@final
class F1AtK(TopKMetric):
    """Harmonic mean of precision and recall at k.

    Higher is better, in [0, 1]; NaN before the first row.
    ``F1AtK(k=1, average="weighted")`` on class-index targets is the weighted F1 of
    classification.

    Use it when you want one number in which missed labels and wrong labels weigh the
    same.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        denominator: What precision divides by, as in :class:`PrecisionAtK`.
        macro: How ``average="macro"`` is computed: None, the mean of the labels'
            F-scores; ``"of_averages"``, the F-score of their mean precision and mean
            recall, as medical coding reports it.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = F1AtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008),
    8.3; scikit-learn, ``f1_score``.
    """

    higher_is_better = True

    def __init__(
        self,
        k: Cutoffs,
        *,
        denominator: Denominator = "predicted",
        macro: MacroOf | None = None,
        **kwargs: Unpack[LabelArguments],
    ) -> None:
        self.denominator: Denominator = check_choice(
            self._caller, "denominator", denominator, Denominator
        )
        formula = hit_formula(f1_at_k, {"denominator": denominator}, ignores_order=True)
        super().__init__(
            k, formula, aggregation=ByAverage(f_beta(1.0)), macro=macro, **kwargs
        )


BETA: Final = NumberRange("beta", 0.0, math.inf, inside=True)


@partial(takes_arrays, check=BETA.check)
def f_beta_at_k(
    ranks: TargetRanks,
    k: Cutoff,
    beta: float = 2.0,
    denominator: Denominator = "predicted",
) -> Tensor:
    """Harmonic mean of precision and recall, in which recall has weight beta^2.

    (1 + beta^2) h_k / (m_k + beta^2 n), or with k in place of m_k.

    Higher is better, in [0, 1]; 0 when both are 0.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        beta: How many times more important recall is than precision, above 0.
        denominator: What precision divides by: ``"predicted"``, m_k; ``"k"``, always k,
            also if the list is shorter.

    Returns:
        Shape (...), float64.

    >>> from torch import tensor
    >>> float(f_beta_at_k(tensor([[0, 1]]), tensor([[0, 2]]), k=2, beta=1.0))
    0.5

    Source: van Rijsbergen, Information Retrieval (1979); scikit-learn's
    ``fbeta_score``.
    """
    predicted = _number_predicted(ranks, k, denominator)
    return divide(*f_beta(beta)(ranks.hits_at(k), predicted, ranks.n_relevant))


@final
class FBetaAtK(TopKMetric):
    """Harmonic mean of precision and recall at k in which recall has weight beta^2.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when a missed label costs more than a wrong one (beta above 1), or less (beta
    below 1).

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        beta: How many times more important recall is than precision, above 0; 1 is F1.
        denominator: What precision divides by, as in :class:`PrecisionAtK`.
        macro: How ``average="macro"`` is computed: None, the mean of the labels'
            F-scores; ``"of_averages"``, the F-score of their mean precision and mean
            recall, as medical coding reports it.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = FBetaAtK(k=1, beta=2.0)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5556, dtype=torch.float64)

    Source: van Rijsbergen, Information Retrieval (1979); scikit-learn's
    ``fbeta_score``.
    """

    higher_is_better = True

    def __init__(
        self,
        k: Cutoffs,
        *,
        beta: float = 2.0,
        denominator: Denominator = "predicted",
        macro: MacroOf | None = None,
        **kwargs: Unpack[LabelArguments],
    ) -> None:
        self.beta = BETA.checked(self._caller, beta)
        self.denominator: Denominator = check_choice(
            self._caller, "denominator", denominator, Denominator
        )
        arguments = {"beta": self.beta, "denominator": denominator}
        formula = hit_formula(f_beta_at_k, arguments, ignores_order=True)
        super().__init__(
            k, formula, aggregation=ByAverage(f_beta(self.beta)), macro=macro, **kwargs
        )


@takes_arrays
def hit_rate_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Whether a relevant label is among the top k: 1 if h_k > 0.

    Higher is better, 0 or 1.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.

    Returns:
        Shape (...), bool.

    >>> import torch
    >>> hit_rate_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=1).tolist()
    [True]

    Source: scikit-learn, ``top_k_accuracy_score``, where a row has one target.
    """
    return ranks.first_within(k)


@takes_arrays
def relevance_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Whether the label at rank k is relevant.

    Higher is better, 0 or 1.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Rank, or a tuple of ranks. With a tuple, the value has a first axis with one
            entry per rank.

    Returns:
        Shape (...), bool.

    >>> import torch
    >>> relevance_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [False]

    Source: the relevance at one rank of average precision;
    Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """
    at = ranks.at(k)
    if at.is_floating_point():
        return ordered_sum(at)
    return at.any(dim=-1)


class _HitRateMetric(TopKMetric):
    """The share of rows with a hit: the base of two metrics that differ in name."""

    higher_is_better = True

    def __init__(self, k: Cutoffs, **kwargs: Unpack[RankArguments]) -> None:
        super().__init__(
            k,
            hit_formula(hit_rate_at_k, value_format=COUNT, ignores_order=True),
            **kwargs,
        )


@final
class HitRateAtK(_HitRateMetric):
    """Share of rows with a relevant label among the top k.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when one good suggestion is enough, such as the next location or the next
    item.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = HitRateAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([1, 2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``top_k_accuracy_score``.
    """


@final
class AccuracyAtK(_HitRateMetric):
    """Share of rows with a relevant label among the top k.

    This is :class:`HitRateAtK` under its name in classification.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when each row has one class, as in classification: with k=1 the value is the
    usual accuracy.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = AccuracyAtK(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([0, 2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``top_k_accuracy_score``.
    """


@final
class RelevanceAtK(TopKMetric):
    """Share of rows whose label at rank k is relevant.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when one place in the list matters most, such as the place that is shown
    largest.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Rank, or a sequence of ranks.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = RelevanceAtK(k=[1, 2])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor([0., 1.], dtype=torch.float64)

    Source: the relevance at one rank of average precision;
    Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """

    higher_is_better = True

    def __init__(self, k: Cutoffs, **kwargs: Unpack[RankArguments]) -> None:
        formula = hit_formula(
            relevance_at_k, value_format=COUNT, reads_one_rank=True, is_additive=True
        )
        super().__init__(k, formula, **kwargs)


@takes_arrays
def fall_out_at_k(
    ranks: TargetRanks, k: Cutoff, num_labels: Tensor | int | None = None
) -> Tensor:
    """Share of the irrelevant labels that the top k shows: (m_k - h_k) / (L - n).

    Lower is better, in [0, 1]; 0 where every label is relevant.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        num_labels: Number of labels L, or that of each bucket, shape (G,); None reads
            it from the scores.

    Returns:
        Shape (...), float64.

    Raises:
        ValueError: If neither ``num_labels`` nor the scores give the number of labels.

    >>> import torch
    >>> float(fall_out_at_k(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0]]), k=2))
    0.5

    Source: TorchMetrics, ``retrieval_fall_out``.
    """
    size = _number_of_labels(ranks, num_labels)
    if size is None:
        raise ValueError(
            "fall_out_at_k: ids do not tell the number of labels; pass num_labels."
        )
    return divide(ranks.length_at(k) - ranks.hits_at(k), size - ranks.n_relevant)


def _number_of_labels(
    ranks: TargetRanks, num_labels: Tensor | int | None
) -> Tensor | int | None:
    """Return the number of labels that a list, or each bucket, ranks.

    None if nothing tells it. The documents of a flat query are all that there are.
    """
    for number in (num_labels, ranks.num_labels, ranks.documents):
        if isinstance(number, Tensor):
            return number.to(ranks.n_relevant.device)
        if number is not None:
            return number
    return None


def _check_repeated(caller: str, ranking: Ranking) -> None:
    """Raise if a list shows a label twice."""
    if ranking.repeated is not None and bool(ranking.repeated.any()):
        raise ValueError(
            f"{caller}: preds list a label twice in one row, so that it would count as "
            "two labels; take repeated ids out of preds."
        )


def _has_irrelevant_labels(
    ranking: Ranking, ranks: TargetRanks, num_labels: Tensor | int | None = None
) -> Tensor:
    """Return whether a row has an irrelevant label."""
    size = _number_of_labels(ranking, num_labels)
    if size is None:
        size = EVERYTHING  # the formula raises
    return (size - ranks.n_relevant) > 0


@final
class FallOutAtK(TopKMetric):
    """Share of the irrelevant labels that is among the top k.

    Lower is better, in [0, 1]; NaN before the first row. A row without a relevant label
    counts with its fall-out; one in which every label is relevant counts as 1, as in
    TorchMetrics. With ``scope="global"`` every label of another bucket is irrelevant to
    a bucket, also one that is relevant to the row. A list that shows a label twice
    raises an error.

    Use it when showing a wrong label has a cost of its own, as in screening.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        empty_target_action: Value of a row in which every label (of the bucket) is
            relevant: ``"pos"`` is 1, ``"neg"`` is 0; with ``"skip"`` the row does not
            count; ``"error"`` raises an error. None means ``"pos"`` overall, and
            ``"skip"`` within buckets.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = FallOutAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([0]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: TorchMetrics, ``RetrievalFallOut``.
    """

    higher_is_better = False

    def __init__(self, k: Cutoffs, **kwargs: Unpack[RankArguments]) -> None:
        formula = Formula(
            fall_out_at_k,
            is_averaged=True,
            ignores_order=True,
            depends_on_catalogue=True,
            check=_check_repeated,
            answered=_has_irrelevant_labels,
            lacking="no irrelevant label",
            usual_action="pos",
        )
        super().__init__(k, formula, **kwargs)

    def _reconcile_facts(self) -> None:
        super()._reconcile_facts()
        # the labels that a list ranks
        num_ranked: Tensor | int | None = self.num_labels
        if self.bound_buckets is not None and self.reading.scope == "bucket":
            num_ranked = self.bound_buckets.label_counts
        self.formula = self.formula.with_arguments(num_labels=num_ranked)


@takes_arrays
def r_precision(ranks: TargetRanks) -> Tensor:
    """Precision at the cut-off n, the number of relevant labels: h_n / n.

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> r_precision(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]])).tolist()
    [0.5]

    Source: NIST trec_eval, "Rprec".
    """
    ranks = ranks.exact
    n = ranks.n_relevant
    if isinstance(ranks, ExpectedRanks):
        return divide(ordered_sum(ranks.share(ranks.places_within(ranks.limit(n)))), n)
    return divide(
        (ranks.within(EVERYTHING) & (ranks.target_ranks <= n.unsqueeze(-1))).sum(
            dim=-1
        ),
        n,
    )


@final
class RPrecision(TopKMetric):
    """Precision at the cut-off n, the row's number of relevant labels.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when rows have very different numbers of relevant labels, and no k fits all
    of them.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = RPrecision()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: NIST trec_eval, "Rprec".
    """

    higher_is_better = True

    def __init__(self, **kwargs: Unpack[RankArguments]) -> None:
        super().__init__(
            None,
            hit_formula(r_precision, reads_cutoff=False, optional_k=True),
            **kwargs,
        )
