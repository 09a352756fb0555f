"""Shares and counts of hits among the top k: precision, recall, F1, F-beta, hit rate, fall-out, R-precision."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import check_number
from tailmetrics.metrics._arguments_of_metrics import Cutoffs
from tailmetrics.metrics._labels import Denominator, LabelArguments, LabelAveragedMetric, f_terms
from tailmetrics.metrics._references import ReferenceRanking
from tailmetrics.metrics._rows import RelevanceArguments, RowMeanMetric, TieAwareMetric, formula, row_value
from tailmetrics.metrics._states import COUNT, UNIT, FixedPoint, divide
from tailmetrics.metrics._ties import ExpectedRanks
from tailmetrics.ranking import EVERYTHING, Cutoff, Ranking, TargetRanks
from tailmetrics.ranking._device import once, ordered_sum, real_dtype


@formula
def precision_at_k(ranks: TargetRanks, k: Cutoff, denominator: Denominator = "predicted") -> Tensor:
    """Share of the top k that is relevant: h_k / m_k, or h_k / k.

    Higher is better, in [0, 1]; 0 for an empty list.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis with one entry per cut-off.
        denominator: What the hits are divided by: ``"predicted"``, m_k, the number of labels in the top k of the list;
            ``"k"``, always k, also if the list is shorter.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> precision_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [0.5]

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """
    return divide(ranks.real_hits_at(k), ranks.length_at(k) if denominator == "predicted" else ranks.cutoffs(k))


@final
class PrecisionAtK(LabelAveragedMetric):
    """Share of the top k that is relevant.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when users see all k places, and a wrong label costs the same in each place.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        denominator: What the hits are divided by: ``"predicted"``, the number of labels in the top k; ``"k"``, always
            k, also if the list is shorter.
        kwargs: See :class:`LabelAveragedMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = PrecisionAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """

    ratio_reads = ("predicted",)
    withheld = ("macro",)

    @once
    def fixed_point(self) -> FixedPoint:
        """How the state stores a value: as the whole number h_k if k is the denominator, else as h_k / m_k."""
        return COUNT if self._counts_hits else UNIT

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return ranks.hits_at(k) if self._counts_hits else precision_at_k(ranks, k, self.denominator)

    def _per_one(self, k: int) -> int:
        return k if self._counts_hits else 1

    @once
    def _counts_hits(self) -> bool:
        return self.denominator == "k" and self.ties != "expected"


@formula
def recall_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Share of the relevant labels that is among the top k: h_k / n.

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis with one entry per cut-off.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> recall_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [0.5]

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.3.
    """
    return ranks.real_hits_at(k) / ranks.n_or_one


@formula
def normalized_recall_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Hits among the top k, divided by the largest possible number of hits: h_k / min(k, n).

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis with one entry per cut-off.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> normalized_recall_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=1).tolist()
    [1.0]

    Source: NIST trec_eval, "relative_P".
    """
    return divide(ranks.real_hits_at(k), ranks.attainable_at(k))


@final
class RecallAtK(LabelAveragedMetric):
    """Share of the relevant labels that is among the top k.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when a missed label is costly, and a second stage or a patient reader reads the whole list.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`LabelAveragedMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = RecallAtK(k=[1, 2])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor([0.5000, 1.0000], dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.3.
    """

    ratio_reads = ("support",)
    withheld = ("macro",)

    _row_value = row_value(recall_at_k)


@final
class NormalizedRecallAtK(TieAwareMetric):
    """Hits among the top k, divided by the largest possible number of hits: min(k, n).

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when rows may have more than k relevant labels, so that their recall could not reach 1.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = NormalizedRecallAtK(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: NIST trec_eval, "relative_P".
    """

    _row_value = row_value(normalized_recall_at_k)


@formula
def f1_at_k(ranks: TargetRanks, k: Cutoff, denominator: Denominator = "predicted") -> Tensor:
    """Harmonic mean of precision and recall at k: 2 h_k / (m_k + n), or 2 h_k / (k + n).

    Higher is better, in [0, 1]; 0 when both are 0.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis with one entry per cut-off.
        denominator: What precision divides by, as in :func:`precision_at_k`.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> f1_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [0.5]

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.3.
    """
    listed = ranks.length_at(k) if denominator == "predicted" else ranks.cutoffs(k)
    return divide(2 * ranks.real_hits_at(k), listed + ranks.n_relevant)


@final
class F1AtK(LabelAveragedMetric):
    """Harmonic mean of precision and recall at k.

    Higher is better, in [0, 1]; NaN before the first row. ``F1AtK(k=1, average="weighted")`` on class-index targets
    is the weighted F1 of classification.

    Use it when you want one number in which missed labels and wrong labels weigh the same.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`LabelAveragedMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = F1AtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.3;
    scikit-learn, ``f1_score``.
    """

    _row_value = row_value(f1_at_k, "denominator")


@formula
def f_beta_at_k(ranks: TargetRanks, k: Cutoff, beta: float = 2.0, denominator: Denominator = "predicted") -> Tensor:
    """Harmonic mean of precision and recall, in which recall has weight beta^2: (1 + beta^2) h_k / (m_k + beta^2 n).

    Higher is better, in [0, 1]; 0 when both are 0.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis with one entry per cut-off.
        beta: How many times more important recall is than precision, above 0.
        denominator: What precision divides by: ``"predicted"``, m_k; ``"k"``, always k, also if the list is shorter.

    Returns:
        Shape (...), float64.

    >>> from torch import tensor
    >>> float(f_beta_at_k(tensor([[0, 1]]), tensor([[0, 2]]), k=2, beta=1.0))
    0.5

    Source: van Rijsbergen, Information Retrieval (1979); scikit-learn's ``fbeta_score``.
    """
    listed = ranks.length_at(k) if denominator == "predicted" else ranks.cutoffs(k)
    return divide(*f_terms(ranks.hits_at(k), listed, ranks.n_relevant, beta))


@final
class FBetaAtK(LabelAveragedMetric):
    """Harmonic mean of precision and recall at k in which recall has weight beta^2.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when a missed label costs more than a wrong one (beta above 1), or less (beta below 1).

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        beta: How many times more important recall is than precision, above 0; 1 is F1.
        kwargs: See :class:`LabelAveragedMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = FBetaAtK(k=1, beta=2.0)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5556, dtype=torch.float64)

    Source: van Rijsbergen, Information Retrieval (1979); scikit-learn's ``fbeta_score``.
    """

    def __init__(self, k: Cutoffs, *, beta: float = 2.0, **kwargs: Unpack[LabelArguments]) -> None:
        self.beta = check_number(self._caller, "beta", beta, 0.0, math.inf, inside=True)
        super().__init__(k, **kwargs)

    _row_value = row_value(f_beta_at_k, "beta", "denominator")


@formula
def hit_rate_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Whether a relevant label is among the top k: 1 if h_k > 0.

    Higher is better, 0 or 1.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis with one entry per cut-off.

    Returns:
        Shape (...), bool.

    >>> import torch
    >>> hit_rate_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=1).tolist()
    [True]

    Source: scikit-learn, ``top_k_accuracy_score``, where a row has one target.
    """
    return ranks.first_within(k)


@formula
def relevance_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Whether the label at rank k is relevant.

    Higher is better, 0 or 1.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Rank, or a tuple of ranks. With a tuple, the value has a first axis with one entry per rank.

    Returns:
        Shape (...), bool.

    >>> import torch
    >>> relevance_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [False]

    Source: the relevance at one rank of average precision;
    Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """
    at = ranks.at(k)
    return ordered_sum(at) if at.is_floating_point() else at.any(dim=-1)


@final
class HitRateAtK(TieAwareMetric):
    """Share of rows with a relevant label among the top k.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when one good suggestion is enough, such as the next location or the next item.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = HitRateAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([1, 2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``top_k_accuracy_score``.
    """

    fixed_point = COUNT

    _row_value = row_value(hit_rate_at_k)


@final
class AccuracyAtK(TieAwareMetric):
    """Share of rows with a relevant label among the top k: :class:`HitRateAtK` under its name in classification.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when each row has one class, as in classification: with k=1 the value is the usual accuracy.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = AccuracyAtK(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([0, 2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``top_k_accuracy_score``.
    """

    fixed_point = COUNT

    _row_value = row_value(hit_rate_at_k)


@final
class RelevanceAtK(TieAwareMetric):
    """Share of rows whose label at rank k is relevant.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when one place in the list matters most, such as the place that is shown largest.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Rank, or a sequence of ranks.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = RelevanceAtK(k=[1, 2])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor([0., 1.], dtype=torch.float64)

    Source: the relevance at one rank of average precision;
    Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """

    of_one_rank = True
    fixed_point = COUNT

    _row_value = row_value(relevance_at_k)

    def _row_values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        if isinstance(ranking, ReferenceRanking) and ranking.reference == "attainable":
            # one relevant label is at rank k: to rank all of them first would leave rank k to other labels
            deepest = self.depth if self._uses_depth else EVERYTHING
            sizes = ranking.sizes(self.bound_buckets, self.scope).clamp(max=deepest)
            best = torch.stack([(ranks.n_relevant > 0) & (sizes >= k) for k in self.ks])
            return best.to(real_dtype(best.device))
        if isinstance(ranks, ExpectedRanks) and (self.ties == "worst" or self.ties == "best"):
            return torch.stack([ranks.always_or_ever_at(k, self.ties) for k in self.ks])
        return super()._row_values(ranking, ranks)


@formula
def fall_out_at_k(ranks: TargetRanks, k: Cutoff, num_labels: Tensor | int | None = None) -> Tensor:
    """Share of the irrelevant labels that the top k shows: (m_k - h_k) / (L - n).

    Lower is better, in [0, 1]; 0 where every label is relevant.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis with one entry per cut-off.
        num_labels: Number of labels L, or that of each bucket, shape (G,); None reads it from the scores.

    Returns:
        Shape (...), float64.

    Raises:
        ValueError: If neither ``num_labels`` nor the scores give the number of labels.

    >>> import torch
    >>> float(fall_out_at_k(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0]]), k=2))
    0.5

    Source: TorchMetrics, ``retrieval_fall_out``.
    """
    num_labels = ranks.num_labels if num_labels is None else num_labels
    if num_labels is None:
        num_labels = ranks.documents  # those of a flat query are all there are
    if num_labels is None:
        raise ValueError("fall_out_at_k: ids do not tell the number of labels; pass num_labels.")
    return divide(ranks.length_at(k) - ranks.hits_at(k), num_labels - ranks.n_relevant)


@final
class FallOutAtK(RowMeanMetric):
    """Share of the irrelevant labels that is among the top k.

    Lower is better, in [0, 1]; NaN before the first row. ``empty_target_action`` sets the value of a row in which every
    label (of the bucket) is relevant. The default is ``"pos"``, which is 1, as in TorchMetrics; within buckets it is
    ``"skip"``. A row without a relevant label counts with its fall-out. A list that shows a label twice raises an
    error.

    Use it when showing a wrong label has a cost of its own, as in screening.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = FallOutAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([0]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: TorchMetrics, ``RetrievalFallOut``.
    """

    higher_is_better = False
    reads_counts_alone = False  # also the size of the bucket
    only_hits_count = False
    tie_rules = TieAwareMetric.tie_rules
    lacking = "no irrelevant label"
    empty_defaults = ("pos", "skip")

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        if ranking.repeated is not None and bool(ranking.repeated.any()):
            raise ValueError(
                f"{self._caller}: preds list a label twice in one row, so that it would count as two labels; "
                "take repeated ids out of preds."
            )

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


@formula
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
    return divide((ranks.within(EVERYTHING) & (ranks.target_ranks <= n.unsqueeze(-1))).sum(dim=-1), n)


@final
class RPrecision(TieAwareMetric):
    """Precision at the cut-off n, the row's number of relevant labels.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when rows have very different numbers of relevant labels, and no k fits all of them.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = RPrecision()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: NIST trec_eval, "Rprec".
    """

    optional_k = True
    withheld = ("k",)

    def __init__(self, **kwargs: Unpack[RelevanceArguments]) -> None:
        super().__init__(None, **kwargs)

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return r_precision(ranks)
