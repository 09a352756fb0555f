"""Averages over labels (micro, macro, weighted) of counts of each label.

The counts are true positives, predictions and support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tailmetrics._arguments import check_choice
from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._aggregations import (
    Aggregation,
    Denominators,
    MeanOfRows,
    ValueFacts,
    Values,
    by_weight,
    with_bucket_axis,
)
from tailmetrics.metrics._arguments_of_metrics import (
    Average,
    EmptyTargetAction,
    LabelSet,
    MacroOf,
)
from tailmetrics.metrics._readings import Reading
from tailmetrics.metrics._states import (
    COUNT,
    REAL,
    UNIT,
    FixedPoint,
    Increment,
    Increments,
    LabelCells,
    PerRow,
    State,
    States,
    at_targets,
    divide,
)
from tailmetrics.ranking import Ranking, TargetRanks
from tailmetrics.ranking._device import real_dtype

LabelRatio: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

BLOCK_LABELS = 2**18
"""Number of labels averaged at once, to bound the memory at millions of labels."""

AVERAGED = {
    "present": "labels with rows",
    "union": "labels with rows or predictions",
    "all": "labels",
}
"""The labels that a macro average counts."""
OVER = {
    "present": "the mean over the labels that are relevant in some row",
    "union": "the mean over the labels that are relevant or predicted in some row",
    "all": "the mean over all labels",
}
DECIDING_COUNTS: dict[LabelSet, tuple[str, ...]] = {
    "present": ("support",),
    "union": ("predicted", "support"),
    "all": (),
}
"""The counts of a label that tell whether it is one of these labels."""


@dataclass(frozen=True)
class CountRatio:
    """A ratio of true positives TP, predictions P and support S.

    The counts are those of a row, of all rows or of a label.

    The ratio is ``hits`` TP / (``predicted`` P + ``support`` S). Precision is 1, 1, 0;
    recall is 1, 0, 1; F-beta is 1 + beta^2, 1, beta^2. Source: van Rijsbergen,
    Information Retrieval (1979); scikit-learn's ``fbeta_score``.
    """

    hits: float
    predicted: float
    support: float

    def __call__(
        self, hits: Tensor, predicted: Any, support: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return numerator and denominator.

        They are whole numbers for precision and recall, else float64.
        """
        if not self.predicted:
            return hits, support
        if not self.support:
            return hits, predicted
        real = real_dtype(hits.device)
        if self.predicted != 1:
            predicted = self.predicted * torch.as_tensor(
                predicted, dtype=real, device=hits.device
            )
        return self.hits * hits.to(real), predicted + self.support * support.to(real)

    @property
    def counts(self) -> frozenset[str]:
        """The names of the counts that the ratio needs beside hits."""
        counts = {"predicted": self.predicted, "support": self.support}
        return frozenset(name for name, factor in counts.items() if factor)

    @property
    def divided_by(self) -> str:
        """What the ratio divides by, in words."""
        names = (("predictions", self.predicted), ("relevant labels", self.support))
        return " and ".join(name for name, factor in names if factor)


PRECISION, RECALL = CountRatio(1, 1, 0), CountRatio(1, 0, 1)

LARGEST_BETA = 2.0**27
"""For a larger beta, 1 + beta^2 is beta^2 in float64, and beta^2 may overflow."""


def f_beta(beta: float) -> CountRatio:
    """Return the ratio of counts of F-beta; for a huge beta, divided by beta^2."""
    if beta > LARGEST_BETA:
        return CountRatio(1.0, beta**-2, 1.0)
    return CountRatio(1 + beta**2, 1, beta**2)


@dataclass(frozen=True)
class ByAverage:
    """Makes the aggregation of a ratio of counts by ``average``.

    The ratio is of each row, of all rows or of each label.

    Attributes:
        ratio: The ratio.
        averages: The averages that the metric takes.
        up_to_k: Whether the support of a row is at most k, the largest possible number
            of hits.
    """

    ratio: CountRatio
    averages: tuple[str, ...] = ("samples", "micro", "macro", "weighted", "none")
    up_to_k: bool = False
    takes: tuple[str, ...] = ("average", "empty_target_action", "labels", "macro")

    def __call__(
        self,
        caller: str,
        reading: Reading,
        weighted: bool,
        *,
        average: str = "samples",
        labels: LabelSet = "present",
        macro: MacroOf | None = None,
        empty_target_action: EmptyTargetAction | None = None,
    ) -> Aggregation:
        """Return the aggregation; raise ValueError for arguments of another average.

        ``macro`` and ``labels`` are for ``average="macro"`` only.
        """
        check_choice(caller, "average", average, self.averages, " to this metric")
        check_choice(caller, "labels", labels, LabelSet)
        if macro is not None:
            check_choice(caller, "macro", macro, MacroOf)
        if average != "macro":
            _check_no_macro(caller, average, labels, macro)
        mean_over_labels = partial(
            MeanOverLabels, ratio=self.ratio, labels=labels, macro=macro
        )
        aggregations: dict[str, Callable[..., Aggregation]] = {
            "samples": MeanOfRows,
            "micro": partial(RatioOfCounts, ratio=self.ratio, up_to_k=self.up_to_k),
            "macro": mean_over_labels,
            "weighted": mean_over_labels,
            "none": partial(RatioOfEachLabel, ratio=self.ratio),
        }
        aggregation = aggregations[average]
        return aggregation(
            caller,
            reading,
            weighted,
            average=average,
            empty_target_action=empty_target_action,
        )


def _check_no_macro(
    caller: str, average: str, labels: LabelSet, macro: MacroOf | None
) -> None:
    """Raise if arguments of a macro average were passed for another average."""
    if macro is not None:
        raise ValueError(
            f"{caller}: macro={macro!r} says what average='macro' is; average is "
            f"{average!r}."
        )
    if labels != "present":
        raise ValueError(
            f"{caller}: labels={labels!r} says what average='macro' is over; average "
            f"is {average!r}."
        )


class _CountAggregation(Aggregation):
    """An aggregation of hits, predictions and support."""

    actions = ("neg", "skip", "error")
    usual_action = "neg"
    """The default of ``empty_target_action``, also within buckets.

    Averages over labels do not skip rows without a relevant label of a bucket: most
    false positives of the bucket are in such rows, so that the value of a bucket would
    look better, the rarer its labels are.
    """
    tie_rules = ("id",)  # of labels, the counts in another order are not known
    reading: Any

    def __init__(
        self,
        caller: str,
        reading: Reading,
        weighted: bool,
        *,
        ratio: CountRatio,
        **arguments: Any,
    ) -> None:
        super().__init__(caller, reading, weighted, **arguments)
        self.ratio = ratio

    @property
    def prefix(self) -> str:
        """What stands in front of the stem in a key."""
        return f"{self.average}_"

    def counted(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Return whether each row counts, shape (N,) or (N, G), bool."""
        if self.empty_target_action == "skip":
            return ranks.n_relevant > 0
        return ranking.in_counted_rows(
            torch.ones_like(ranks.n_relevant, dtype=torch.bool)
        )

    def facts(self, states: States) -> ValueFacts:
        """Return the number of rows that count, if others are skipped."""
        if self.empty_target_action != "skip":
            return ValueFacts()  # the states do not tell such rows from others
        counted = int(self.row_format.totals(states["counted"])[0])
        return ValueFacts(answered=counted // self.row_format.unit)


class RatioOfCounts(_CountAggregation):
    """The ratio of hits, predictions and support of all rows: ``average="micro"``.

    Args:
        up_to_k: Whether the support of a row is at most k.
        other_arguments: See :class:`Aggregation`.
    """

    averages = ("micro",)
    row_terms = "ratio"

    def __init__(
        self, *arguments: Any, up_to_k: bool = False, **other_arguments: Any
    ) -> None:
        super().__init__(*arguments, **other_arguments)
        self._up_to_k = up_to_k

    def states(self) -> dict[str, State]:
        """Return the three counts, and the number of rows that count."""
        size, columns = self.num_buckets, self.row_format.columns
        return {
            "counts": State((len(self.reading.cutoffs), size, 3, columns)),
            "counted": State((size, columns)),
        }

    def _row_counts(self, ranking: Ranking) -> tuple[Tensor, Tensor]:
        """Return hits, predictions and support of each row, and which rows count.

        The counts have shape (N, K, G, 3), and are 0 in rows that do not count.
        """
        reading = self.reading
        ranks, ranking = reading.read(ranking), reading.relevant(ranking)
        counted = self.counted(ranking, ranks)
        hits, predicted = reading.counts(ranking, ranks)
        support = ranks.n_relevant.view(-1, 1, self.num_buckets).expand_as(hits)
        if self._up_to_k:
            support = torch.stack(
                [support[:, place].clamp(max=k) for place, k in enumerate(reading.ks)],
                dim=1,
            )
        counts = torch.stack([hits, predicted, support], dim=-1)
        return counts * counted.view(-1, 1, self.num_buckets, 1), counted

    def increments(self, ranking: Ranking) -> Increments:
        """Return the counts of the rows of a batch."""
        counts, counted = self._row_counts(ranking)
        return {"counts": PerRow(counts), "counted": PerRow(with_bucket_axis(counted))}

    def values(self, states: States) -> Values:
        """Return the ratios: 0 if the denominator is 0, NaN if there are no rows."""
        counted = self.row_format.totals(states["counted"])
        top, bottom = self._terms(states)
        values = []
        for numerators, denominators in zip(top.tolist(), bottom.tolist(), strict=True):
            values.append(
                _ratios_of_counted(zip(numerators, denominators, strict=True), counted)
            )
        return values

    def _terms(self, states: States) -> tuple[Tensor, Tensor]:
        """Return numerator and denominator by cut-off and bucket, (K, G) each.

        They are in the format of numbers of rows.
        """
        shape = states["counts"].shape[:-1]
        counts = torch.tensor(
            self.row_format.totals(states["counts"]), dtype=torch.float64, device="cpu"
        ).view(shape)
        return self.ratio(*counts.unbind(-1))

    def denominators(self, states: States) -> Denominators:
        """Return the predictions, relevant labels, attainable hits or weighted sums.

        F-scores are divided by the weighted sum of predictions and relevant labels.
        """
        denominators: list[list[float]] = (
            self._terms(states)[1] / float(self.row_format.unit)
        ).tolist()
        what = self.ratio.divided_by
        if self._up_to_k:
            what = "attainable hits"
        return by_weight(what, self.weighted), denominators

    def not_measured(self, states: States) -> Sequence[Sequence[bool]]:
        """Return by cut-off and bucket whether no label is relevant in any row."""
        has_support = states["counts"][:, :, 2].any(dim=-1)
        empty: list[list[bool]] = has_support.logical_not().tolist()
        return empty

    def row_values(self, ranking: Ranking) -> Tensor:
        """Return both terms of each row by cut-off and bucket, (2, K * G, N)."""
        counts, _ = self._row_counts(ranking)
        return (
            torch.stack(self.ratio(*counts.to(torch.float64).unbind(-1)))
            .flatten(2)
            .movedim(1, -1)
        )


class RatioOfEachLabel(_CountAggregation):
    """The ratio of each label from its hits, predictions and support.

    It is the aggregation for ``average="none"``.

    Args:
        extra_counts: The names of the counts that are needed beside those of the ratio.
        other_arguments: See :class:`Aggregation`.
    """

    averages: tuple[Average, ...] = ("none",)
    needs = ("num_labels",)
    has_value_per_label = True
    keeps_labels = True

    def __init__(
        self,
        *arguments: Any,
        extra_counts: Sequence[str] = ("predicted", "support"),
        **other_arguments: Any,
    ) -> None:
        super().__init__(*arguments, **other_arguments)
        if self.reading.formula.arguments.get("denominator") == "k":
            raise ValueError(
                f"{self.caller}: denominator='k' means nothing per label; use "
                "average='samples' or 'micro'."
            )
        self._kept = frozenset({*self.ratio.counts, *extra_counts})
        """The counts of each label that the states hold, besides hits."""

    # states

    def states(self) -> dict[str, State]:
        """Return the counts of each label that are needed, and the number of rows."""
        reading = self.reading
        columns = (self.row_format.columns,) if self.weighted else ()
        label_counts = State(
            (reading.known_num_labels, *columns),
            shared=True,
            key=self._state_key(False),
        )
        bucket_counts = State(
            (self.num_buckets, self.row_format.columns),
            shared=True,
            key=self._state_key(True),
        )

        states = {}
        for k in reading.ks:
            states[f"hits_at_{k}"] = label_counts
            if self._predicts:
                states[f"predicted_at_{k}"] = label_counts
        if "support" in self._kept:
            states["support"] = label_counts
        states["counted"] = bucket_counts
        return states

    def _state_key(self, by_bucket: bool) -> str:
        """Return the suffix of a state's name; metrics with equal counts share it.

        Buckets change the counts of a label only if each bucket has its own list, or
        rows are skipped by bucket. ``by_bucket`` is true for counts kept by bucket.
        """
        action = self.empty_target_action
        suffix = self.reading.key_of_counts(by_bucket or action == "skip")
        if self.weighted:
            suffix = f"_weighted{suffix}"
        return f"_{action}{suffix}"

    @property
    def _predicts(self) -> bool:
        """Whether the states hold predictions of each label."""
        return "predicted" in self._kept

    def increments(self, ranking: Ranking) -> Increments:
        """Return the labels that the rows of a batch hit, predict and hold."""
        reading = self.reading
        ranks, ranking = reading.read(ranking), reading.relevant(ranking)
        counted = self.counted(ranking, ranks)
        increments: dict[str, Increment] = {}
        for k in reading.ks:
            increments[f"hits_at_{k}"] = reading.hit_labels(ranking, ranks, k, counted)
            if self._predicts:
                increments[f"predicted_at_{k}"] = reading.predicted_labels(
                    ranking, k, counted
                )
        if "support" in self._kept:
            increments["support"] = at_targets(ranking)
        increments["counted"] = PerRow(with_bucket_axis(counted))
        return increments

    def _label_counts(self, states: States, k: int) -> list[Tensor]:
        """Return true positives, predictions and support of each label.

        Shape (..., L) each; float64 if weighted.

        A count that is not kept is 0, and takes no memory.
        """
        hits = self._label_count(states[f"hits_at_{k}"])
        counts = [hits]
        for name in (f"predicted_at_{k}", "support"):
            if name in states:
                counts.append(self._label_count(states[name]))
            else:
                counts.append(hits.new_zeros(()).expand(hits.shape))
        return counts

    def _label_count(self, state: Tensor) -> Tensor:
        """Return a count of each label, shape (..., L)."""
        if not self.weighted:
            return state
        return self.row_format.floats(state)

    def values(self, states: States) -> Values:
        """Return the value of each label, (K, L)."""
        return torch.stack(
            [
                divide(*self.ratio(*self._label_counts(states, k)))
                for k in self.reading.ks
            ]
        )

    # what intervals, comparisons and captions ask

    @property
    def keeps_all_counts(self) -> bool:  # type: ignore[override] # decided by arguments here
        """Whether the states hold hits, predictions and support of each label."""
        return self._kept == {"predicted", "support"}

    def per_label(
        self,
        states: States,
        names: Sequence[str],
        with_cutoffs: bool,
        zero_division: float,
    ) -> dict[str, Tensor]:
        """Return the kept counts and the value of each label.

        The counts are support, predictions and true positives.
        """
        columns: dict[str, Tensor] = {}
        reading = self.reading
        for k, cutoff, name in zip(reading.ks, reading.cutoffs, names, strict=True):
            suffix = ""
            if with_cutoffs or len(reading.ks) > 1:
                suffix = f"@{self.cut_name(cutoff)}"
            hits, predicted, support = self._label_counts(states, k)
            if self._predicts:
                columns[f"predicted{suffix}"] = predicted
            if "support" in self._kept:
                columns["support"] = support
            columns[f"hits{suffix}"] = hits
            top, bottom = self.ratio(hits, predicted, support)
            columns[name] = divide(top, bottom).masked_fill(bottom == 0, zero_division)
        return columns

    def label_cells(self, ranking: Ranking) -> list[LabelCells]:
        """Return for each cut-off the label cells that rows hit, predict and hold."""
        increments = self.increments(ranking)
        support = increments.get("support")
        cells = []
        for k in self.reading.ks:
            cells.append(
                LabelCells(
                    increments[f"hits_at_{k}"],
                    increments.get(f"predicted_at_{k}"),
                    support,
                )
            )
        return cells

    def row_values(self, ranking: Ranking) -> Tensor:
        """Raise: only labels have values."""
        raise ValueError(
            f"{self.caller}: average={self.average!r} is over labels; a row has no "
            "value of its own."
        )


class MeanOverLabels(RatioOfEachLabel):
    """The mean over labels of the ratio of each label.

    It is the plain mean for ``average="macro"``; for ``"weighted"``, each label is
    weighted by the number of rows in which it is relevant.

    Args:
        average: The average.
        labels: The labels of the mean.
        macro: How the macro average of an F-score is computed.
        other_arguments: See :class:`Aggregation`.
    """

    takes = ("average", "empty_target_action", "labels", "macro")
    averages = ("macro", "weighted")
    has_value_per_label = False

    def __init__(
        self,
        *arguments: Any,
        average: Average,
        labels: LabelSet,
        macro: MacroOf | None,
        **other_arguments: Any,
    ) -> None:
        super().__init__(
            *arguments,
            average=average,
            extra_counts=DECIDING_COUNTS[labels],
            **other_arguments,
        )
        self.labels = labels
        self.macro = macro
        self.weighs_by_support = average == "weighted"
        self._value_format, self._weight_format = UNIT, COUNT
        if self.weighs_by_support or self.weighted:
            self._value_format = REAL
        if self.weighted:
            self._weight_format = REAL

    def _weights(self, predicted: Tensor, support: Tensor) -> Tensor:
        """Return the weight of each label, from its predictions and support."""
        if self.weighs_by_support:
            return support
        if self.labels == "all":
            return torch.ones_like(support)
        counts = support
        if self.labels == "union":
            counts = support + predicted
        return (counts > 0).to(torch.int64)

    def values(self, states: States) -> Values:
        """Return the mean over the labels of each bucket."""
        if self.macro is None:
            return [self._mean(states, k, self.ratio) for k in self.reading.ks]

        values = []
        for k in self.reading.ks:
            precisions = self._mean(states, k, PRECISION)
            recalls = self._mean(states, k, RECALL)
            values.append(
                [self._f_score(*pair) for pair in zip(precisions, recalls, strict=True)]
            )
        return values

    def _f_score(self, precision: float, recall: float) -> float:
        """Return the F-score of a precision and a recall."""
        if not (precision and recall):
            return precision * recall  # 0, or NaN without rows
        # one hit, 1 / precision predictions and a support of 1 / recall have this
        # precision and recall
        counts = torch.tensor(
            [1, 1 / precision, 1 / recall], dtype=torch.float64, device="cpu"
        )
        top, bottom = self.ratio(*counts.unbind())
        return float(top / bottom)

    def _mean(self, states: States, k: int, ratio: LabelRatio) -> list[float]:
        """Return the mean over the labels of each bucket."""
        return _ratios_of_counted(
            self._sums(states, k, ratio), self.row_format.totals(states["counted"])
        )

    def _sums(
        self, states: States, k: int, ratio: LabelRatio
    ) -> list[tuple[Fraction, Fraction]]:
        """Return the exact sums of weighted values and of weights, by bucket."""
        counts, buckets = self._label_counts(states, k), self.reading.buckets
        value_format, weight_format = self._value_format, self._weight_format
        sums = torch.zeros(
            self.num_buckets, value_format.columns, dtype=torch.int64, device="cpu"
        )
        weights = torch.zeros(
            self.num_buckets, weight_format.columns, dtype=torch.int64, device="cpu"
        )

        for start in range(0, len(counts[0]), BLOCK_LABELS):
            hits, predicted, support = (
                count[start : start + BLOCK_LABELS].cpu() for count in counts
            )
            weight = self._weights(predicted, support)
            labels = weight.nonzero().squeeze(1)
            _add_by_bucket(
                weights, weight_format, buckets, labels + start, weight[labels]
            )
            # only labels with hits are read: others have the value 0, as do most of
            # millions of labels
            labels = hits.nonzero().squeeze(1)
            values = (
                divide(*ratio(hits[labels], predicted[labels], support[labels]))
                * weight[labels]
            )
            _add_by_bucket(sums, value_format, buckets, labels + start, values)

        fractions = []
        for top, bottom in zip(
            value_format.totals(sums), weight_format.totals(weights), strict=True
        ):
            fractions.append(
                (
                    Fraction(int(top), value_format.unit),
                    Fraction(int(bottom), weight_format.unit),
                )
            )
        return fractions

    def _sums_of_weights(self, states: States) -> list[list[float]]:
        """Return by cut-off and bucket the sum of the weights of labels."""
        sums = []
        for k in self.reading.ks:
            sums.append(
                [float(weights) for _, weights in self._sums(states, k, RECALL)]
            )
        return sums

    def not_measured(self, states: States) -> Sequence[Sequence[bool]]:
        """Return by cut-off and bucket whether there is no label to average.

        Of the labels ``"present"`` there is none where nothing is relevant; of their
        ``"union"`` with the predicted ones there is none where nothing is predicted
        either; ``"all"`` are always some, and 0 / 0 is 0 for each.
        """
        unmeasured = []
        for weights in self._sums_of_weights(states):
            unmeasured.append([weight == 0 for weight in weights])
        return unmeasured

    def label_terms(self) -> dict[str, Any] | None:
        """Return the weights of counts in the ratio and of labels in the mean.

        None with row weights.
        """
        if self.weighted:
            return None
        terms = {
            "top": float(self.ratio.hits),
            "below": [float(self.ratio.predicted), float(self.ratio.support)],
            "over": self.labels,
            "weighted": self.weighs_by_support,
        }
        if self.macro is not None:
            terms["of_averages"] = True
        return terms

    def denominators(self, states: States) -> Denominators:
        """Return the number of averaged labels, or the relevant rows of all labels."""
        what = AVERAGED[self.labels]
        if self.weighs_by_support:
            what = by_weight("relevant labels", self.weighted)
        return what, self._sums_of_weights(states)

    def facts(self, states: States) -> ValueFacts:
        """Return the number of rows that count, and of averaged labels with rows."""
        facts = super().facts(states)
        if self.weighs_by_support or "support" not in self._kept:
            return facts
        support, buckets = states["support"].cpu(), self.reading.buckets
        has_rows = support.reshape(len(support), -1).any(dim=1)
        if buckets is None:
            return replace(facts, labels_with_rows=[int(has_rows.sum())])
        labels_with_rows = torch.bincount(
            buckets.assignment[has_rows], minlength=self.num_buckets
        )
        return replace(facts, labels_with_rows=labels_with_rows.tolist())

    @property
    def depends_on_catalogue(self) -> bool:
        """Whether labels count that the data do not hold."""
        return self.labels == "all"

    def mean_over(self) -> str:
        """Return in words the labels that the average is over; "" with weights."""
        if self.weighs_by_support:
            return ""
        mean = OVER[self.labels]
        if self.macro is None:
            return mean
        return f"the F-score of precision and recall, each {mean}"

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket is of."""
        caption = super().caption(k)
        if not self.weighs_by_support:
            caption += f"; {self.mean_over()} of the bucket"
        if self.labels == "all":
            caption += ", those without a relevant row with 0"
        return caption


def _ratios_of_counted(
    terms: Iterable[tuple[float | Fraction, float | Fraction]],
    counted: Sequence[int | float],
) -> list[float]:
    """Return the ratio by bucket: 0 if the denominator is 0, NaN if no row counts."""
    values = []
    for (numerator, denominator), rows in zip(terms, counted, strict=True):
        if not rows:
            values.append(float("nan"))
        elif not denominator:
            values.append(0.0)
        else:
            values.append(float(numerator / denominator))
    return values


def _add_by_bucket(
    sums: Tensor,
    fixed_point: FixedPoint,
    buckets: LabelBuckets | None,
    labels: Tensor,
    values: Tensor,
) -> None:
    """Add values of labels to the exact sums (G, columns) of their buckets."""
    if fixed_point.limbs:
        values = values.to(torch.float64)
    bucket = torch.zeros_like(labels)
    if buckets is not None:
        bucket = buckets.assignment[labels]
    sums.index_add_(0, bucket, fixed_point.digits(values))
