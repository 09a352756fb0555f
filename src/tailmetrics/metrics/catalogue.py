"""Metrics of what is shown, whatever is relevant.

They are coverage, evenness, popularity, novelty, overlap of lists, and ties at the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import fsum, log
from operator import mul
from typing import Any, ClassVar, Literal, TypeAlias, final

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import check_choice, check_count
from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._aggregations import (
    Aggregation,
    Denominators,
    RowTerms,
    Values,
    by_weight,
)
from tailmetrics.metrics._arguments_of_metrics import (
    Cutoffs,
    LevelArguments,
    TopKArguments,
    UnbucketedArguments,
)
from tailmetrics.metrics._formulas import NO_FORMULA, Formula
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._readings import TopKHits, TopKLists
from tailmetrics.metrics._states import (
    COUNT,
    Increment,
    Increments,
    LabelCells,
    PerRow,
    State,
    States,
    at_labels,
    at_targets,
    ratios,
)
from tailmetrics.ranking import Ranking

__all__ = [
    "CatalogCoverageAtK",
    "EntropyAtK",
    "GiniAtK",
    "NoveltyAtK",
    "PersonalizationAtK",
    "PopularityAtK",
    "PopularityLiftAtK",
    "PositiveCoverageAtK",
    "PredictionProportionAtK",
    "TieRateAtK",
]

LabelDenominator: TypeAlias = Literal["observed", "known"]


class _ListAggregation(Aggregation):
    """An aggregation of the lists that rows show."""

    takes = ()
    is_quality = False

    def no_value(self) -> list[list[float]]:
        """Return NaN for every cut-off and bucket."""
        return [[float("nan")] * self.num_buckets for _ in self.reading.ks]

    def by_bucket(
        self, function: Callable[..., float], *counts: Tensor, **arguments: Any
    ) -> list[float]:
        """Return the value of a function of counts of labels, (L,), by bucket.

        Without buckets, return the value over all labels.
        """
        buckets = self.reading.buckets
        if buckets is None:
            return [function(*counts, **arguments)]
        values = []
        for labels in buckets.labels:
            bucket_counts = [label_counts[labels] for label_counts in counts]
            values.append(function(*bucket_counts, **arguments))
        return values


class Exposure(_ListAggregation):
    """A function of how often each label is shown among the top k.

    Args:
        measure: How the value is made of what rows show, as
            :class:`tailmetrics.significance.labels.ShownRows` names it; ``"lift"``
            divides the value of the labels shown by that of the relevant labels.
        can_be_weighted: Whether rows may have weights.
        other_arguments: See :class:`Aggregation`.
    """

    needs = ("num_labels",)

    def __init__(
        self,
        *arguments: Any,
        measure: str,
        can_be_weighted: bool = False,
        **other_arguments: Any,
    ) -> None:
        super().__init__(*arguments, **other_arguments)
        self.measure = measure
        self.can_be_weighted = can_be_weighted

    @property
    def depends_on_catalogue(self) -> bool:
        """Whether labels count that no row shows."""
        return self.measure in ("coverage", "gini")

    def states(self) -> dict[str, State]:
        """Return how often each label is shown and, for a lift, how often relevant."""
        num_labels = self.reading.known_num_labels
        columns = (self.row_format.columns,) if self.weighted else ()

        states = {}
        for k in self.reading.ks:
            states[f"shown_at_{k}"] = State((num_labels, *columns), shared=not columns)
        states["rows"] = State((1, self.row_format.columns), shared=not columns)
        if self.measure == "lift":
            states["relevant"] = State(
                (num_labels,), shared=self.reading.min_gain is None
            )
        return states

    def increments(self, ranking: Ranking) -> Increments:
        """Return the labels that rows show and, for a lift, their relevant labels."""
        shown_ids = self._shown_ids(ranking)

        increments: dict[str, Increment] = {}
        for k in self.reading.ks:
            ids = shown_ids[:, :k]
            increments[f"shown_at_{k}"] = at_labels(ids, ids >= 0)
        increments["rows"] = _counted_rows(ranking)
        if self.measure == "lift":
            increments["relevant"] = at_targets(self.reading.relevant(ranking))
        return increments

    def _shown_ids(self, ranking: Ranking) -> Tensor:
        """Return the label that each place shows, -1 where a place does not count."""
        return ranking.ids

    def values(self, states: States) -> Values:
        """Return the value of each bucket; NaN before the first row."""
        if not self.row_format.totals(states["rows"])[0]:
            return self.no_value()

        values = [
            self._values_by_bucket(shown) for shown in self._shown_at_cutoffs(states)
        ]
        if self.measure != "lift":
            return values

        relevant = self._values_by_bucket(states["relevant"].cpu())
        return [ratios(shown, relevant) for shown in values]

    def denominators(self, states: States) -> Denominators | None:
        """Return how many labels could be shown.

        For a mean over places, return how many are shown; for a lift or overlap, None.
        """
        shown_at_cutoffs = self._shown_at_cutoffs(states)
        if self.measure == "mean":
            places = [
                self.by_bucket(lambda counts: float(counts.sum()), shown)
                for shown in shown_at_cutoffs
            ]
            return by_weight("labels shown", self.weighted), places
        if self.measure in ("coverage", "gini", "entropy"):
            return "labels", [self.by_bucket(len, shown) for shown in shown_at_cutoffs]
        return None

    def _shown_at_cutoffs(self, states: States) -> list[Tensor]:
        """Return, for each cut-off, how often lists show each label.

        If rows have weights, return the sum of the weights of these rows.
        """
        counts = [states[f"shown_at_{k}"].cpu() for k in self.reading.ks]
        if not self.weighted:
            return counts
        return [self.row_format.floats(weights) for weights in counts]

    def _values_by_bucket(self, counts: Tensor) -> list[float]:
        """Return the value of each bucket from counts of labels.

        The function may also take the training counts of these labels.
        """
        formula = self.reading.formula
        facts = dict(formula.arguments)
        if "label_counts" not in facts:
            return self.by_bucket(formula.function, counts)
        return self.by_bucket(
            formula.function, counts, facts.pop("label_counts"), **facts
        )

    def label_terms(self) -> dict[str, Any] | None:
        """Return the measure and, for a mean over labels shown, each label's weight."""
        if self.weighted:
            return None
        facts = self.reading.formula.arguments
        counts, num_train = facts.get("label_counts"), facts.get("num_train")
        if counts is None:
            weights = np.zeros(self.reading.known_num_labels)
        else:
            weights = counts.cpu().numpy().astype(np.float64)
        if num_train is not None:
            weights = -np.log2(np.clip(weights, 1, num_train) / num_train)
        return {"exposure": self.measure, "weights": weights}

    def label_cells(self, ranking: Ranking) -> list[LabelCells]:
        """Return, for each cut-off, the cells of labels that each row shows.

        For a lift, return the cells of its relevant labels, too.
        """
        increments = self.increments(ranking)
        relevant = increments.get("relevant")
        return [
            LabelCells(predicted=increments[f"shown_at_{k}"], relevant=relevant)
            for k in self.reading.ks
        ]


class Overlap(Exposure):
    """One minus the mean overlap of the top k of two rows."""

    def __init__(self, *arguments: Any, **other_arguments: Any) -> None:
        super().__init__(*arguments, measure="personalization", **other_arguments)

    def states(self) -> dict[str, State]:
        """Return how many lists show each label.

        Because this class defines them, the states have names other than those of
        :class:`Exposure`, which counts places, and are not shared with them.
        """
        return super().states()

    def _shown_ids(self, ranking: Ranking) -> Tensor:
        """Return each label once per list: two lists share a label, not its places."""
        return ranking.ids_once

    def values(self, states: States) -> Values:
        """Return one minus the mean overlap, of counts, rows and k."""
        rows = int(states["rows"].sum())
        return [
            [personalization(states[f"shown_at_{k}"].cpu(), rows, k)]
            for k in self.reading.ks
        ]


class LabelsFound(_ListAggregation):
    """The share of the labels that are a hit at least once.

    Args:
        denominator: Which labels there are to be found.
        other_arguments: See :class:`Aggregation`.
    """

    needs = ("num_labels",)
    is_quality = True
    can_be_weighted = False

    def __init__(
        self, *arguments: Any, denominator: LabelDenominator, **other_arguments: Any
    ) -> None:
        super().__init__(*arguments, **other_arguments)
        self._denominator = denominator

    def states(self) -> dict[str, State]:
        """Return which labels were a hit, and which were relevant."""
        shared = self.reading.min_gain is None
        flags = State(
            (self.reading.known_num_labels,),
            reduction="max",
            dtype=torch.uint8,
            shared=shared,
        )
        names = [*(f"hit_at_{k}" for k in self.reading.ks), "observed"]
        return {**dict.fromkeys(names, flags), "rows": State((1,), shared=True)}

    def increments(self, ranking: Ranking) -> Increments:
        """Return the labels that the rows of a batch hit and hold."""
        rows = _counted_rows(ranking)
        ranking = self.reading.relevant(ranking)

        increments: dict[str, Increment] = {}
        for k in self.reading.ks:
            increments[f"hit_at_{k}"] = at_labels(ranking.target_ids, ranking.within(k))
        increments["observed"] = at_targets(ranking)
        increments["rows"] = rows
        return increments

    def values(self, states: States) -> Values:
        """Return the share of labels; NaN before the first row."""
        if not int(states["rows"].sum()):
            return self.no_value()
        num_labels = self._labels_to_find(states)
        return [
            ratios(self.by_bucket(_total, states[f"hit_at_{k}"].cpu()), num_labels)
            for k in self.reading.ks
        ]

    def _labels_to_find(self, states: States) -> list[float]:
        """Return the number of labels that could be found, by bucket."""
        observed = states["observed"].cpu()
        if self._denominator == "known":
            return self.by_bucket(len, observed)
        return self.by_bucket(_total, observed)

    def denominators(self, states: States) -> Denominators:
        """Return the labels that could be found."""
        unit = "labels with rows" if self._denominator == "observed" else "labels"
        return unit, [self._labels_to_find(states)] * len(self.reading.ks)

    @property
    def depends_on_catalogue(self) -> bool:
        """Whether labels count that the data do not hold."""
        return self._denominator == "known"

    def label_terms(self) -> dict[str, Any] | None:
        """Return over which labels the share is taken."""
        return {
            "top": 0.0,
            "over": "present" if self._denominator == "observed" else "all",
        }

    def label_cells(self, ranking: Ranking) -> list[LabelCells]:
        """Return for each cut-off the cells of labels that each row hits and holds."""
        increments = self.increments(ranking)
        relevant = increments["observed"]
        return [
            LabelCells(hits=increments[f"hit_at_{k}"], relevant=relevant)
            for k in self.reading.ks
        ]


class MeanOfLists(_ListAggregation):
    """The mean over rows of a count that is made of each list."""

    row_terms: RowTerms = "mean"

    @property
    def is_additive(self) -> bool:  # type: ignore[override] # decided by the formula here
        """Whether the values of all buckets add up to the value over all labels."""
        return self.reading.formula.is_additive

    @property
    def has_value_over_all(self) -> bool:  # type: ignore[override] # decided by the formula here
        """Whether a value over all labels says something.

        Shares that add up to 1 over all buckets say nothing.
        """
        return not self.is_additive

    def states(self) -> dict[str, State]:
        """Return the sum of the counts, and the number of rows."""
        columns = self.row_format.columns
        return {
            "sum": State((len(self.reading.cutoffs), self.num_buckets, columns)),
            "rows": State((1, columns)),
        }

    def _counts(self, ranking: Ranking) -> Tensor:
        """Return the count of each row, shape (K, N, G)."""
        function, buckets = self.reading.formula.function, self.reading.buckets
        return torch.stack([function(ranking, k, buckets) for k in self.reading.ks])

    def _has_value(self, ranking: Ranking) -> bool:
        """Return whether the rows of a batch have a value."""
        has_value = self.reading.formula.answered
        return has_value is None or bool(has_value(ranking))

    def increments(self, ranking: Ranking) -> Increments:
        """Return the counts of the rows of a batch."""
        rows = _counted_rows(ranking)
        if not self._has_value(ranking):
            rows = PerRow(torch.zeros_like(rows.values))
        return {"sum": PerRow(self._counts(ranking), row_axis=1), "rows": rows}

    def values(self, states: States) -> Values:
        """Return the sum divided by the number of rows."""
        (rows,) = self.row_format.totals(states["rows"])
        sums = self.by_cutoff(self.row_format.totals(states["sum"]))

        values = []
        for k, sums_at_k in zip(self.reading.ks, sums, strict=True):
            largest = self.reading.formula.counts_per_one(k) * int(rows)
            values.append(ratios(sums_at_k, [largest] * self.num_buckets))
        return values

    def denominators(self, states: States) -> Denominators:
        """Return the rows."""
        rows = float(self.row_format.totals(states["rows"])[0]) / self.row_format.unit
        return by_weight("rows", self.weighted), [[rows] * self.num_buckets] * len(
            self.reading.ks
        )

    def row_values(self, ranking: Ranking) -> Tensor:
        """Return the value of each row by cut-off and bucket, (K * G, N)."""
        values = []
        for k, counts in zip(
            self.reading.ks, self._counts(ranking).to(torch.float64), strict=True
        ):
            values.append(counts.T / self.reading.formula.counts_per_one(k))
        row_values = torch.cat(values)
        if not self._has_value(ranking):
            return torch.full_like(row_values, torch.nan)
        return row_values


def _counted_rows(ranking: Ranking) -> PerRow:
    """Return, for each row, whether it counts, shape (N, 1)."""
    rows = torch.ones(ranking.num_rows, 1, dtype=torch.bool, device=ranking.ids.device)
    return ranking.remembered("rows", lambda: PerRow(ranking.in_counted_rows(rows)))


def _total(counts: Tensor) -> int:
    """Return the sum of whole numbers."""
    return int(counts.sum(dtype=torch.int64))


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
    if not len(shown):
        return float("nan")
    return _total(shown > 0) / len(shown)


def gini(shown: Tensor) -> float:
    """Gini index of exposure, from how often each label is shown.

    The sum of (2i - L - 1) c_(i), over L times the sum of c, with c ascending.

    Lower is more even, in [0, 1); NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown, zeros included.

    >>> import torch
    >>> gini(torch.tensor([0, 4]))
    0.5

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011), "Gini index".
    """
    counts: list[int] = shown[shown > 0].sort().values.tolist()
    num_labels = len(shown)
    unseen = num_labels - len(counts)
    if not counts:
        return float("nan")
    weighted: int = sum(
        (2 * i - num_labels - 1) * count
        for i, count in enumerate(counts, start=unseen + 1)
    )
    return weighted / (num_labels * sum(counts))


def entropy(shown: Tensor) -> float:
    """Entropy of exposure, -sum of p ln p, in nats.

    Higher is more even, in [0, ln L]; NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown.

    >>> import torch
    >>> round(entropy(torch.tensor([2, 2])), 4)
    0.6931

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011), "Shannon
    entropy".
    """
    counts = shown[shown > 0].double()
    if not len(counts):
        return float("nan")
    p = counts / _total(shown)
    # logarithms are rounded: equal shares of L labels would have a little more than ln
    # L
    return min(max(0.0, -fsum((p * p.log()).tolist())), log(len(counts)))


class _ExposureMetric(TopKMetric):
    """A function of how often each label is shown.

    Attributes:
        _function: The function.
        _measure: Its name, as :class:`Exposure` takes it.
    """

    _function: ClassVar[Callable[..., float]]
    _measure: ClassVar[str]

    def __init__(self, k: Cutoffs, **kwargs: Unpack[TopKArguments]) -> None:
        exposure = partial(Exposure, measure=self._measure)
        super().__init__(
            k,
            Formula(type(self)._function),
            reading=TopKLists,
            aggregation=exposure,
            **kwargs,
        )


@final
class CatalogCoverageAtK(_ExposureMetric):
    """Share of the labels that at least one row shows among its top k.

    Higher is better, in [0, 1]; NaN before the first row, and for a bucket without
    labels.

    Use it when a label that is never shown is a loss, such as an item of a shop.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        num_labels: Number of labels L; if not given, taken from the buckets or from
            ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = CatalogCoverageAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)

    Source: Ge, Delgado-Battenfeld and Jannach, RecSys 2010.
    """

    higher_is_better = True
    _function = staticmethod(catalog_coverage)
    _measure = "coverage"


@final
class GiniAtK(_ExposureMetric):
    """Gini index of how often each label is shown among the top k.

    Labels that are never shown are included.

    Lower is more even, in [0, 1); NaN when nothing is shown.

    Use it when a few labels must not take all the exposure.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        num_labels: Number of labels L; if not given, taken from the buckets or from
            ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = GiniAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011).
    """

    higher_is_better = False
    _function = staticmethod(gini)
    _measure = "gini"


@final
class EntropyAtK(_ExposureMetric):
    """Entropy, in nats, of how often each label is shown among the top k.

    Higher is more even, in [0, ln L]; NaN when nothing is shown.

    Use it when exposure should be spread over many labels. exp(entropy) is the
    effective number of labels shown.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        num_labels: Number of labels L; if not given, taken from the buckets or from
            ``bind``.
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
    _function = staticmethod(entropy)
    _measure = "entropy"


def popularity(shown: Tensor, label_counts: Tensor) -> float:
    """Mean training count of the labels shown.

    Higher is more popular, in [0, inf); NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown; with row weights
            float64, the sum of the weights of the rows that show it.
        label_counts: Shape (L,), int64, how often each label occurs in training.

    >>> import torch
    >>> popularity(torch.tensor([1, 1]), torch.tensor([6, 3]))
    4.5

    Source: Yin et al., PVLDB 5 (2012), average recommendation popularity.
    """
    if shown.is_floating_point():
        weight = fsum(shown.tolist())
        if not weight:
            return float("nan")
        return fsum((shown * label_counts).tolist()) / weight

    times = _total(shown)
    if not times:
        return float("nan")
    is_shown = shown > 0
    # exact, however large it is
    total: int = sum(
        map(mul, shown[is_shown].tolist(), label_counts[is_shown].tolist())
    )
    return total / times


def novelty(shown: Tensor, label_counts: Tensor, num_train: int) -> float:
    """Mean of -log2(training count / training rows) of the labels shown.

    An unseen label has training count 1.

    Higher is more novel, in [0, inf); NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown.
        label_counts: Shape (L,), int64, how often each label occurs in training.
        num_train: Number of training rows.

    >>> import torch
    >>> novelty(torch.tensor([1, 1]), torch.tensor([4, 2]), num_train=8)
    1.5

    Source: Zhou et al., PNAS 107 (2010), self-information of what is recommended.
    """
    num_train = check_count("novelty", "num_train", num_train)
    is_shown = shown > 0
    if not bool(is_shown.any()):
        return float("nan")
    bits = -(
        label_counts[is_shown].clamp(min=1, max=num_train).double() / num_train
    ).log2()
    return fsum((bits * shown[is_shown]).tolist()) / _total(shown)


class _TrainingMetric(TopKMetric):
    """A metric that knows the training counts.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets
            or from ``bind``.
        kwargs: See :class:`TopKMetric`.
    """

    def __init__(
        self,
        k: Cutoffs,
        function: Callable[..., float],
        exposure: Any,
        *,
        label_counts: Any,
        needs: Sequence[str] = ("label_counts",),
        reading: type[TopKLists] = TopKLists,
        **kwargs: Unpack[LevelArguments],
    ) -> None:
        self.label_counts = label_counts
        super().__init__(
            k,
            Formula(function),
            reading=reading,
            aggregation=exposure,
            needs=needs,
            **kwargs,
        )

    def _reconcile_facts(self) -> None:
        super()._reconcile_facts()
        facts = {"label_counts": self.label_counts}
        num_train = vars(self).get("num_train")
        if num_train is not None:
            facts["num_train"] = num_train
        self.formula = self.formula.with_arguments(**facts)


@final
class PopularityAtK(_TrainingMetric):
    """Mean training count of the labels shown among the top k.

    Higher is more popular, in [0, inf); NaN when nothing is shown.

    Use it when the question is how much a model leans on frequent labels.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets
            or from ``bind``.
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

    def __init__(
        self, k: Cutoffs, *, label_counts: Any = None, **kwargs: Unpack[TopKArguments]
    ) -> None:
        exposure = partial(Exposure, measure="mean", can_be_weighted=True)
        super().__init__(k, popularity, exposure, label_counts=label_counts, **kwargs)


@final
class PopularityLiftAtK(_TrainingMetric):
    """Mean training count of the labels shown, divided by the relevant labels' mean.

    In [0, inf). Above 1, the labels shown are more frequent in training than the
    relevant labels; below 1, they are rarer. NaN when nothing is shown, or when no
    relevant label occurs in training.

    Use it when you want the popularity bias of a model as one number.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets
            or from ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PopularityLiftAtK(k=1, label_counts=[6, 3, 1])
    >>> metric.update(torch.tensor([[0], [0]]), torch.tensor([0, 1]))
    >>> round(float(metric.compute()), 4)
    1.3333

    Source: Abdollahpouri et al., FLAIRS 2019, with the relevant labels in place of the
    users' profiles.
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))

    def __init__(
        self, k: Cutoffs, *, label_counts: Any = None, **kwargs: Unpack[LevelArguments]
    ) -> None:
        exposure = partial(Exposure, measure="lift")
        super().__init__(
            k,
            popularity,
            exposure,
            reading=TopKHits,
            label_counts=label_counts,
            **kwargs,
        )


@final
class NoveltyAtK(_TrainingMetric):
    """Mean -log2(share of training rows with the label) over the labels in the top k.

    Higher is more novel, in [0, inf); NaN when nothing is shown.

    Use it when users already know the frequent labels, so that rare labels tell them
    more.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets
            or from ``bind``.
        num_train: Number of training rows; if not given, taken from ``bind``.
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

    def __init__(
        self,
        k: Cutoffs,
        *,
        label_counts: Any = None,
        num_train: int | None = None,
        **kwargs: Unpack[TopKArguments],
    ) -> None:
        self.num_train: int | None = None
        if num_train is not None:
            self.num_train = check_count(self._caller, "num_train", num_train)
        exposure = partial(Exposure, measure="mean")
        super().__init__(
            k,
            novelty,
            exposure,
            needs=("label_counts", "num_train"),
            label_counts=label_counts,
            **kwargs,
        )

    def _reconcile_facts(self) -> None:
        self.num_train = self.num_train or None  # counts of no row tell nothing
        super()._reconcile_facts()


def personalization(shown: Tensor, num_rows: int, k: int) -> float:
    """One minus the mean overlap of two lists: 1 - sum of c (c - 1) / (k R (R - 1)).

    Higher is more personal, in [0, 1]; NaN with fewer than two rows.

    Args:
        shown: Shape (L,), int64, c: how often each label is shown.
        num_rows: R, number of rows.
        k: Length of the lists. The overlap of two lists is the number of labels that
            they share, divided by k.

    >>> import torch
    >>> personalization(torch.tensor([2, 1, 1]), num_rows=2, k=2)
    0.5

    Source: the recommender library recmetrics, "personalization", with overlap in place
    of cosine similarity.
    """
    k = check_count("personalization", "k", k)
    pairs = num_rows * (num_rows - 1)
    if not pairs:
        return float("nan")
    shared: int = sum(count * (count - 1) for count in shown[shown > 1].tolist())
    return (k * pairs - shared) / (k * pairs)


@final
class PersonalizationAtK(TopKMetric):
    """One minus the mean overlap of the top k of two rows.

    Higher is more personal, in [0, 1]; NaN with fewer than two rows.

    Use it when you ask whether a recommender shows different labels to different users.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        num_labels: Number of labels L; needed only if ``preds`` do not show it, as with
            ids.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PersonalizationAtK(k=2, num_labels=4)
    >>> metric.update(torch.tensor([[0, 1], [0, 2]]), torch.tensor([0, 0]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: the recommender library recmetrics, "personalization".
    """

    higher_is_better = True

    def __init__(self, k: Cutoffs, **kwargs: Unpack[UnbucketedArguments]) -> None:
        super().__init__(
            k, NO_FORMULA, reading=TopKLists, aggregation=Overlap, **kwargs
        )


@final
class PositiveCoverageAtK(TopKMetric):
    """Share of the labels that are a hit at least once.

    A hit is relevant in a row, and among the top k of that row.

    Higher is better, in [0, 1]; NaN before the first row, and if the denominator is
    0.

    Use it when every label should be found at least once, as in coding with many rare
    classes.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        denominator: Labels that are counted: ``"observed"``, those in the targets;
            ``"known"``, all labels (of the bucket).
        num_labels: Number of labels L; if not given, taken from the buckets or from
            ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PositiveCoverageAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [2]]), torch.tensor([2, 1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: napkinXC, ``coverage_at_k``.
    """

    higher_is_better = True

    def __init__(
        self,
        k: Cutoffs,
        *,
        denominator: LabelDenominator = "observed",
        **kwargs: Unpack[LevelArguments],
    ) -> None:
        self.denominator: LabelDenominator = check_choice(
            self._caller, "denominator", denominator, LabelDenominator
        )
        covered = partial(LabelsFound, denominator=denominator)
        super().__init__(k, NO_FORMULA, reading=TopKHits, aggregation=covered, **kwargs)


def _places_of_buckets(
    ranking: Ranking, k: int, buckets: LabelBuckets | None
) -> Tensor:
    """Return how many labels of each bucket each top k shows, shape (N, G)."""
    ids = ranking.ids[:, :k]
    if buckets is None:
        return (ids >= 0).sum(dim=1, keepdim=True)
    return buckets.totals(ids)


@final
class PredictionProportionAtK(TopKMetric):
    """Share of places in all top k lists (k per row) that show a label of the bucket.

    Neither direction is better, in [0, 1]; NaN before the first row. Without buckets:
    the share of places that show any label.

    Use it with buckets when the question is how many places head labels and tail labels
    take.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> from tailmetrics import LabelBuckets
    >>> buckets = LabelBuckets.from_assignment([0, 0, 1], ["head", "tail"])
    >>> metric = PredictionProportionAtK(k=2, buckets=buckets)
    >>> metric.update(torch.tensor([[0, 1], [0, 2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor([0.7500, 0.2500], dtype=torch.float64)

    Source: Abdollahpouri, Burke and Mobasher, FLAIRS 2019, "APLT", for each bucket.
    """

    higher_is_better = None

    def __init__(self, k: Cutoffs, **kwargs: Unpack[TopKArguments]) -> None:
        formula = Formula(
            _places_of_buckets, value_format=COUNT, per_one=int, is_additive=True
        )
        super().__init__(
            k, formula, reading=TopKLists, aggregation=MeanOfLists, **kwargs
        )


def _tied_at_k(ranking: Ranking, k: int, _: LabelBuckets | None) -> Tensor:
    """Return whether the k-th label has the score of the next one, (N, 1), bool."""
    return ranking.tied_at(k)[:, None]


def _has_scores(ranking: Ranking) -> bool:
    """Whether there are scores that can be equal."""
    return ranking.values is not None


@final
class TieRateAtK(TopKMetric):
    """Share of rows in which the k-th label has the same score as the next label.

    Lower is better, in [0, 1]; NaN without a row that has scores. Of equal scores, the
    label with the lower id is shown. If ids are sorted by frequency, a model that gives
    every label the same score therefore looks good on head labels.

    Use it when scores may be equal, as in a model of low precision or a model that has
    learnt little.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L), but not ids, which
    have no scores; ``target`` is (N,), (N, M) or (N, L), and is not read.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = TieRateAtK(k=1)
    >>> metric.update(torch.tensor([[0.5, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([0, 0]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: defined by this library: in other libraries, a model with constant scores
    looks good on head labels.
    """

    higher_is_better = False

    def __init__(self, k: Cutoffs, **kwargs: Unpack[UnbucketedArguments]) -> None:
        formula = Formula(_tied_at_k, value_format=COUNT, answered=_has_scores)
        super().__init__(
            k, formula, reading=TopKLists, aggregation=MeanOfLists, **kwargs
        )
