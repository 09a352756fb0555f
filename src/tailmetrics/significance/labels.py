"""Averages over labels that rows predict and hold, and functions of labels shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from typing_extensions import Self

from tailmetrics._arguments import check_choice
from tailmetrics.significance.areas import AreaRows
from tailmetrics.significance.influence import (
    Array,
    Counts,
    Flags,
    Influence,
    Ints,
    check_array,
    influence_of_cells,
    labels_may_come,
    units_of_rows,
)
from tailmetrics.significance.interval import FEW

LabelSet: TypeAlias = Literal["present", "union", "all"]
Exposure: TypeAlias = Literal[
    "coverage", "gini", "entropy", "mean", "lift", "personalization"
]

FEW_LABELS = 10
"""The fewest labels with a hit for intervals of averages that read predictions.

With fewer, among many labels without a hit, intervals hold the truth in .82 to .90.
"""


@dataclass(frozen=True, eq=False)
class UnitCells:
    """The labels of units, rows or clusters: a cell is one label of one unit.

    Attributes:
        units: Shape (C,), the unit of each cell, ascending.
        labels: Shape (C,), the label of each cell, ascending in a unit.
        counts: Shape (3, C): how often rows of the unit hit, predict, hold the label.
        sizes: Shape (C,): how many rows of the unit predict or hold the label.
        num_labels: L.
    """

    units: Ints
    labels: Ints
    counts: Array
    sizes: Ints
    num_labels: int

    def num_units(self, cells: Flags | None = None) -> Ints:
        """Return in how many units each label has a cell, shape (L,).

        With ``cells``, shape (C,), only these count.
        """
        labels = self.labels
        if cells is not None:
            labels = labels[cells]
        return np.bincount(labels, minlength=self.num_labels)


@dataclass(frozen=True, eq=False)
class Cells:
    """The labels that rows predict and hold: a cell is one label of one row.

    Args:
        rows: Shape (C,), the row of each cell: a label that a row predicts or holds.
        labels: Shape (C,), the label of each cell.
        predicted: Shape (C,), whether the row predicts the label.
        relevant: Shape (C,), whether the label is relevant in the row. A label that is
            relevant and predicted is a hit.
        inside: Shape (N,), the rows that count.
        num_labels: L.
    """

    rows: Ints
    labels: Ints
    predicted: Flags
    relevant: Flags
    inside: Flags
    num_labels: int

    def __post_init__(self) -> None:
        caller = type(self).__name__
        check_array(caller, "rows", self.rows, "iu", (None,))
        check_array(caller, "labels", self.labels, "iu", (self.rows.size,))
        check_array(caller, "predicted", self.predicted, "b", (self.rows.size,))
        check_array(caller, "relevant", self.relevant, "b", (self.rows.size,))
        check_array(caller, "inside", self.inside, "b", (None,))
        for argument, ids, number in (
            ("rows", self.rows, self.inside.size),
            ("labels", self.labels, self.num_labels),
        ):
            if ids.size and not 0 <= ids.min() <= ids.max() < number:
                raise ValueError(
                    f"{caller}: {argument} holds {ids.min()} to {ids.max()}; pass "
                    f"numbers from 0 to {number - 1}."
                )

    def among(self, rows: Flags) -> Self:
        """Return the cells of some of the rows, given as shape (N,), bool."""
        is_in_rows = rows[self.rows]
        return replace(
            self,
            rows=self.rows[is_in_rows],
            labels=self.labels[is_in_rows],
            predicted=self.predicted[is_in_rows],
            relevant=self.relevant[is_in_rows],
            inside=self.inside & rows,
        )

    def content(self) -> tuple[Ints, Ints]:
        """Return the row of each cell and a number for what it adds, (C,) each."""
        return self.rows, 4 * self.labels + 2 * self.relevant + self.predicted

    def of_units(self, unit_of_row: Ints) -> UnitCells:
        """Return the cells of units, given the unit of each row, shape (N,)."""
        numbers = unit_of_row[self.rows] * self.num_labels + self.labels
        unit_numbers, places = np.unique(numbers, return_inverse=True)
        units, labels = np.divmod(unit_numbers, max(self.num_labels, 1))
        counts = [
            np.bincount(places[flags], minlength=unit_numbers.size)
            for flags in self.flags()
        ]
        return UnitCells(
            units=units,
            labels=labels,
            counts=np.array(counts, dtype=np.float64),
            sizes=np.bincount(places, minlength=unit_numbers.size),
            num_labels=self.num_labels,
        )

    def of_clusters(self, clusters: Ints | None) -> UnitCells:
        """Return the cells of clusters, given the cluster of each row, shape (N,).

        ``clusters`` is None where rows are drawn alone.
        """
        return self.of_units(units_of_rows(self.inside.size, clusters))

    def flags(self) -> list[Flags]:
        """Return which cells are hits, predicted and relevant, shape (C,) each."""
        return [self.predicted & self.relevant, self.predicted, self.relevant]

    def counts(self) -> Array:
        """Return how often each label is hit, predicted and relevant, shape (3, L)."""
        counts = [
            np.bincount(self.labels[flags], minlength=self.num_labels)
            for flags in self.flags()
        ]
        return np.array(counts, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LabelRows(Cells):
    """The labels that rows predict and hold, for averages of labels and for coverage.

    The averages are macro and weighted precision, recall and F1.

    The value of a label is top * hits / (below[0] * predictions + below[1] * support),
    and 0 if this is 0 / 0. For coverage, the value is 1 if the label has a hit, else 0.

    Args:
        rows: Shape (C,), the row of each cell: a label that a row predicts or holds.
        labels: Shape (C,), the label of each cell.
        predicted: Shape (C,), whether the row predicts the label.
        relevant: Shape (C,), whether the label is relevant in the row. A label that is
            relevant and predicted is a hit.
        inside: Shape (N,), the rows that count.
        num_labels: L.
        top: The factor of hits in the numerator; 0 for coverage.
        below: The factors of predictions and of support in the denominator.
        over: The labels that are averaged: ``"present"``, labels that are relevant in
            some row; ``"union"``, labels that are relevant or predicted in some row;
            ``"all"``, every label.
        weighted: Whether labels are weighted by their support.
        size: The number of labels that ``over="all"`` averages; None for L.
        of_averages: Whether this is the F-score of the mean precision and the mean
            recall, not the mean of F-scores.
    """

    top: float = 1.0
    below: tuple[float, float] = (0.0, 1.0)
    over: LabelSet = "present"
    weighted: bool = False
    size: int | None = None
    of_averages: bool = False

    needs_all_labels: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("LabelRows", "over", self.over, LabelSet)

    def value(self) -> float:
        """Return the average."""
        return float(self.value_of_sums(self.sums(self.counts())))

    def sums(self, counts: Array, labels: Ints | Flags | None = None) -> Array:
        """Return the sums over labels from which the value follows, shape (..., P).

        Args:
            counts: Shape (..., 3, L): how often each label is hit, predicted, relevant.
            labels: The labels that ``counts`` are of; None for all.
        """
        if self.of_averages:
            recall, precision = self._averages()
            return np.concatenate(
                [recall.sums(counts, labels), precision.sums(counts, labels)], axis=-1
            )
        values, weights = self._values_and_weights(counts)
        top = (weights * values).sum(axis=-1)
        total = weights.sum(axis=-1)
        return np.stack([top, total], axis=-1)

    def value_of_sums(self, sums: Array) -> Array:
        """Return the average, shape (...), from sums of shape (..., P).

        NaN where no label is averaged.
        """
        if self.of_averages:
            recall, precision = self._averages()
            mean_recall = recall.value_of_sums(sums[..., :2])
            mean_precision = precision.value_of_sums(sums[..., 2:])
            return self._f_score(mean_recall, mean_precision)
        top, total = sums[..., 0], sums[..., 1]
        if self.over == "all" and not self.weighted:
            total = np.full_like(total, self._num_averaged)
        undefined = np.full_like(top, np.nan)
        return np.divide(top, total, out=undefined, where=total != 0)

    def influence(self, clusters: Ints | None = None) -> Influence:
        """Return the average and the influences on it.

        Args:
            clusters: Shape (N,), the cluster of each row, from 0; None where rows are
                drawn alone.
        """
        if self.of_averages:
            return self._influence_of_averages(clusters)
        counts = self.counts()
        values, weights = self._values_and_weights(counts)
        value, total = self.value(), max(self._total(weights), 1)
        unit_of_row = units_of_rows(self.inside.size, clusters)
        cells = self.of_units(unit_of_row)

        # the unit of a cell is left out: the counts of its label become smaller
        counts_without_unit = counts[:, cells.labels] - cells.counts
        values_without_unit, weights_without_unit = self._values_and_weights(
            counts_without_unit
        )
        top = (weights * values)[
            cells.labels
        ] - weights_without_unit * values_without_unit
        bottom = weights[cells.labels] - weights_without_unit
        cell_influences = self._factors(cells) * (top - value * bottom) / total

        # wrong predictions tell nothing about recall, and little about F-scores: the
        # units that hold a label do
        is_relevant = cells.counts[2] > 0
        is_evidence = is_relevant | (self.below[1] == 0)
        units_with_evidence = cells.num_units(is_evidence)[cells.labels]
        _, num_predicted, num_relevant = counts
        is_left_out = (weights == 0) | (num_predicted + num_relevant == 0)
        label_influences = weights * (
            values - value
        ) / total + self._influences_of_misses(cells, cell_influences)
        influence = influence_of_cells(
            value,
            cell_influences,
            cells.units,
            cells.labels,
            unit_of_row,
            self.inside,
            label_influences=np.where(is_left_out, 0.0, label_influences),
            label_values=np.where(is_left_out, np.nan, values),
            label_weights=np.where(is_left_out, 0.0, weights),
            weights=np.where(is_evidence, 1 / np.maximum(units_with_evidence, 1), 0.0),
        )
        contributes = is_relevant
        if not self.reads_support:  # rows lack relevant labels that they do not predict
            contributes = cells.counts[1] > 0
        units_with_labels = np.unique(cells.units[contributes])
        return replace(
            influence,
            contributing_units=units_with_labels.size,
            weakness=self._weakness(counts),
        )

    def _influences_of_misses(self, cells: UnitCells, cell_influences: Array) -> Array:
        """Return the influence on each label of the wrong predictions in its place.

        Rows that miss the label predict them. They lower the precision of other labels,
        so that the precisions of drawn labels depend on one another. The influences are
        those beyond what as many rows of average labels have.
        """
        hits, num_predicted, num_relevant = cells.counts
        num_units = int(cells.units.max(initial=-1)) + 1
        is_wrong = (num_predicted > 0) & (num_relevant == 0)

        def sums_by_unit(numbers: Counts) -> Array:
            return np.asarray(
                np.bincount(cells.units, weights=numbers, minlength=num_units),
                dtype=np.float64,
            )

        num_wrong = sums_by_unit(num_predicted * is_wrong)
        num_missed = sums_by_unit(num_relevant - hits)
        influence_of_miss = sums_by_unit(cell_influences * is_wrong) / np.maximum(
            np.maximum(num_wrong, num_missed), 1
        )
        of_cells = (num_relevant - hits) * influence_of_miss[cells.units]
        influences = np.bincount(
            cells.labels, weights=of_cells, minlength=self.num_labels
        )
        support = np.bincount(
            cells.labels, weights=num_relevant, minlength=self.num_labels
        )
        return np.asarray(
            influences - support * influences.sum() / max(support.sum(), 1)
        )

    def moves_with_rows(self, clusters: Ints | None = None) -> bool:
        """Whether the expected value changes with more rows, or clusters.

        Labels may come, or have few rows. The recall of a label, and weighted recall,
        have one expectation for any number of rows. Precision and F-scores of labels
        with few rows are chosen by these rows: more rows of a label give it more
        weight, and more hits.
        """
        cells = self.of_clusters(clusters)
        if self.top == 0:
            return labels_may_come(
                cells.num_units(cells.counts[0] > 0), self._num_averaged
            )
        units_of_label = cells.num_units(cells.counts[2] > 0)
        if not self.weighted:
            return labels_may_come(units_of_label, self._num_averaged)
        has_few_units = (units_of_label > 0) & (units_of_label < FEW)
        return self.below[0] > 0 and bool(has_few_units.any())

    @property
    def trend(self) -> int:
        """1 if more rows can only raise the expected value, 0 if they may lower it.

        In a mean over all labels, a label without rows is 0. Other averages rise or
        fall with what labels come.
        """
        if self.over == "all" and not self.weighted:
            return 1
        return 0

    def rests_on_single_units(self, clusters: Ints | None = None) -> bool:
        """Whether most labels are relevant in a single unit.

        False unless this is an average over relevant labels that reads predictions. The
        row or cluster that brings a label then gives it its precision. At half of the
        units the value is the same, and with many it is another.
        """
        cells = self.of_clusters(clusters)
        units_of_label = cells.num_units(cells.counts[2] > 0)
        num_in_single_unit = int((units_of_label == 1).sum())
        num_relevant = int((units_of_label > 0).sum())
        return (
            self.over == "present"
            and self.below[0] > 0
            and 2 * num_in_single_unit > num_relevant
        )

    @property
    def reads_support(self) -> bool:
        """Whether the value depends on how often labels are relevant.

        Precision over all labels does not.
        """
        return (
            self.of_averages
            or self.weighted
            or self.over != "all"
            or self.below[1] > 0
            or self.top == 0
        )

    @property
    def _num_averaged(self) -> int:
        """The number of labels that ``over="all"`` averages."""
        if self.size is None:
            return self.num_labels
        return self.size

    def _weakness(self, counts: Array) -> str | None:
        """Return why the influences do not tell the variance; None where they do."""
        if self.below[0] == 0 or self.top == 0:
            return None
        _, weights = self._values_and_weights(counts)
        num_hit = int((counts[0] > 0).sum())
        num_averaged = self._total(weights > 0)
        if num_hit < FEW_LABELS and 2 * num_hit < num_averaged:
            return f"fewer than {FEW_LABELS} labels have a hit"
        return None

    def _total(self, weights: Array | Flags) -> float:
        """Return the sum of the weights of the labels that are averaged."""
        if self.over == "all" and not self.weighted:
            return float(self._num_averaged)
        return float(weights.sum())

    def _factors(self, cells: UnitCells) -> Array:
        """Return the factors of cells' influences for an unbiased variance, (C,)."""
        num_units = cells.num_units()[cells.labels]
        factors = np.where(num_units > 1, np.sqrt((num_units - 1) / num_units), 1.0)
        if self.top == 0:
            units_with_hit = cells.num_units(cells.counts[0] > 0)
            factors = factors * np.sqrt(share_of_singles(units_with_hit))
        return factors

    def _averages(self) -> tuple[LabelRows, LabelRows]:
        """Return the mean recall and the mean precision."""
        recall = replace(self, of_averages=False, top=1.0, below=(0.0, 1.0))
        precision = replace(self, of_averages=False, top=1.0, below=(1.0, 0.0))
        return recall, precision

    def _f_score(self, recall: Array, precision: Array) -> Array:
        """Return t / (a / precision + b / recall); 0 where either is 0."""
        product = precision * recall  # NaN without rows
        precision_factor, recall_factor = self.below
        with np.errstate(divide="ignore", invalid="ignore"):
            bottom = precision_factor / precision + recall_factor / recall
            f_score = self.top / bottom
        return np.where(product > 0, f_score, product)

    def _influence_of_averages(self, clusters: Ints | None) -> Influence:
        """Return the influences on F = t / (a/p + b/r), an F-score of two means.

        Here p is the mean precision, and r the mean recall.

        dF/dp = a F^2 / (t p^2), and dF/dr = b F^2 / (t r^2).
        """
        recall, precision = (
            average.influence(clusters) for average in self._averages()
        )
        value = float(self._f_score(np.array(recall.value), np.array(precision.value)))
        if not value > 0:  # no row has an influence
            return replace(recall.plus(precision, 0.0, 0.0), value=value)
        precision_factor, recall_factor = self.below
        recall_slope = recall_factor / recall.value**2 * value**2 / self.top
        precision_slope = precision_factor / precision.value**2 * value**2 / self.top
        # recall first: fewer units contribute to it
        influence = recall.plus(precision, recall_slope, precision_slope)
        label_values = replace(self, of_averages=False).influence().label_values
        return replace(
            influence,
            value=value,
            label_values=label_values,
            weakness=precision.weakness,
        )

    def _values_and_weights(self, counts: Array) -> tuple[Array, Array]:
        """Return the value and the weight of each label, shape (..., L) each.

        ``counts`` are of shape (..., 3, L).
        """
        hits, predicted, support = (
            counts[..., 0, :],
            counts[..., 1, :],
            counts[..., 2, :],
        )
        if self.top == 0:
            values = (hits > 0).astype(np.float64)
        else:
            bottom = self.below[0] * predicted + self.below[1] * support
            zeros = np.zeros(hits.shape)
            values = np.divide(self.top * hits, bottom, out=zeros, where=bottom > 0)

        if self.weighted:
            weights: Array | Flags = support
        elif self.over == "present":
            weights = support > 0
        elif self.over == "union":
            weights = support + predicted > 0
        else:
            weights = np.ones(support.shape)
        return values, weights.astype(np.float64)


def share_of_singles(counts: Counts) -> float:
    """Return the factor that corrects the variance of coverage.

    The variance is too large if only labels seen once give it. Let the count c of a
    label be Poisson with mean x. Whether the label is seen has the variance e^-x (1 -
    e^-x) = P(c=1) - P(c=2) + P(c=3) - ... The labels seen once give x e^-x = P(c=1),
    which is larger. The factor is the first number divided by the second.

    Args:
        counts: Shape (L,), in how many rows or clusters each label is seen.

    Returns:
        Between 0.25 and 1.

    Source: Good and Toulmin, Biometrika 43 (1956), for the series.
    """
    num_singles = int((counts == 1).sum())
    seen = counts[counts > 0]
    signs = np.where(seen % 2 == 1, 1, -1)
    # the series is noisy where few labels are seen once; at x = 4 the ratio is about a
    # quarter
    return float(np.clip(signs.sum() / max(num_singles, 1), 0.25, 1.0))


@dataclass(frozen=True, eq=False)
class ShownRows(Cells):
    """The labels that rows show, for a function F of the counts c.

    A count says how often a label is shown. The influence of a cell is F(c) - F(c - x):
    the loss when its label is shown less often, because a row or cluster is left out
    that shows it x times.

    Args:
        rows: See :class:`LabelRows`.
        labels: See :class:`LabelRows`.
        predicted: Shape (C,), whether the row shows the label.
        relevant: Shape (C,), whether the label is relevant in the row. Only the lift
            reads it: the mean weight of the labels shown, divided by the mean weight of
            the relevant labels.
        inside: See :class:`LabelRows`.
        num_labels: See :class:`LabelRows`.
        measure: The name of the function F.
        size: How many labels the bucket holds; L without buckets.
        weights: Shape (L,), the weight of each label, such as its training count.
    """

    measure: Exposure
    size: int
    weights: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("ShownRows", "measure", self.measure, Exposure)

    def value(self) -> float:
        """Return the value; NaN if it is undefined, as in a bucket without labels."""
        if self._is_undefined:
            return np.nan
        return float(self.value_of_sums(self.sums(self.counts())))

    def influence(self, clusters: Ints | None = None) -> Influence:
        """Return the value and its influences; see :meth:`LabelRows.influence`."""
        unit_of_row = units_of_rows(self.inside.size, clusters)
        value, cells = self.value(), self.of_units(unit_of_row)
        losses = np.zeros(cells.labels.size)
        if not np.isnan(value):
            losses = self._losses(value, cells, unit_of_row)
        no_labels = np.zeros(self.num_labels)
        return influence_of_cells(
            value,
            losses,
            cells.units,
            cells.labels,
            unit_of_row,
            self.inside,
            label_influences=no_labels,
            label_values=no_labels,
            label_weights=no_labels,
            weights=cells.sizes.astype(np.float64),
        )

    def moves_with_rows(self, clusters: Ints | None = None) -> bool:
        """Whether the expected value changes with more rows, or clusters.

        Labels may come, or counts even out. Means of the labels shown and of pairs of
        lists have one expectation for any number of rows.
        """
        if self.measure == "coverage":
            cells = self.of_clusters(clusters)
            return labels_may_come(cells.num_units(cells.counts[1] > 0), self.size)
        return self.trend != 0

    @property
    def trend(self) -> int:
        """1 if the expected value rises with more rows, -1 if it falls, else 0.

        Chance makes few counts more unequal than the shares of which they are counts.
        """
        return {"coverage": 1, "entropy": 1, "gini": -1}.get(self.measure, 0)

    @property
    def needs_all_labels(self) -> bool:
        """Whether sums need the counts of all labels at once.

        Places in the order of counts do.
        """
        return self.measure == "gini"

    def sums(self, counts: Array, labels: Ints | Flags | None = None) -> Array:
        """Return the sums over labels from which the value follows, shape (..., P).

        See :meth:`LabelRows.sums`.
        """
        shown, relevant = counts[..., 1, :], counts[..., 2, :]
        if self.measure == "coverage":
            num_shown = (shown > 0).sum(axis=-1, keepdims=True)
            return np.asarray(num_shown, dtype=np.float64)
        weights = self.weights
        if labels is not None:
            weights = weights[labels]
        parts = [shown, self._terms(shown, weights)]
        if self.measure == "lift":
            parts += [relevant, relevant * weights]
        return np.stack([part.sum(axis=-1) for part in parts], axis=-1)

    def _terms(self, shown: Array, weights: Array) -> Array:
        """Return what each label adds to the second sum, shape (..., L).

        ``shown`` and ``weights`` are counts and weights of labels.
        """
        if self.measure == "personalization":
            return shown * (shown - 1)
        if self.measure == "entropy":
            return _count_times_log(shown)
        if self.measure == "gini":
            # labels outside the bucket have no count, and so the first places
            num_outside = self.num_labels - self.size
            places = np.arange(1, self.num_labels + 1) - num_outside
            return np.sort(shown, axis=-1) * self._weights_of_places(places)
        return shown * weights

    def value_of_sums(self, sums: Array) -> Array:
        """Return the value, shape (...), from sums of shape (..., P).

        NaN where it is undefined.
        """
        if self._is_undefined:
            return np.full(sums.shape[:-1], np.nan)
        if self.measure == "coverage":
            num_shown = sums[..., 0]
            return np.asarray(num_shown / self.size)

        total, top = sums[..., 0], sums[..., 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.measure == "personalization":
                value = 1 - top / (total * (self.inside.sum() - 1))
            elif self.measure == "entropy":
                value = np.log(total) - top / total
            elif self.measure == "lift":
                num_relevant, relevant_top = sums[..., 2], sums[..., 3]
                value = (top / total) / (relevant_top / num_relevant)
            else:
                value = top / total
        return np.where(np.isfinite(value), value, np.nan)

    @property
    def _is_undefined(self) -> bool:
        """Whether the bucket has no labels, or there is no pair of rows."""
        return self.size == 0 or (
            self.measure == "personalization" and self.inside.sum() < 2
        )

    def _losses(self, value: float, cells: UnitCells, unit_of_row: Ints) -> Array:
        """Return the loss of the value without each cell, shape (C,).

        A lift is a quotient s / r of two means, and the change of the quotient is (ds -
        s / r dr) / r.
        """
        counts = self.counts()
        _, shown_by_cell, relevant_by_cell = cells.counts
        if self.measure == "coverage":
            return self._losses_of_coverage(cells)
        if self.measure == "personalization":
            return self._losses_of_pairs(value, cells, unit_of_row)
        if self.measure == "entropy":
            return _losses_of_entropy(value, cells, counts[1])
        if self.measure == "lift":
            relevant_mean, relevant_losses = _mean_and_losses(
                cells, relevant_by_cell, counts[2], self.weights
            )
            _, losses = _mean_and_losses(cells, shown_by_cell, counts[1], self.weights)
            return (losses - value * relevant_losses) / relevant_mean
        if self.measure == "gini":
            weights, lost_weights = self._weights_in_order(counts[1])
            return _mean_and_losses(
                cells, shown_by_cell, counts[1], weights, lost_weights
            )[1]
        return _mean_and_losses(cells, shown_by_cell, counts[1], self.weights)[1]

    def _losses_of_coverage(self, cells: UnitCells) -> Array:
        """Return the loss without each cell: of labels that one unit shows."""
        is_shown = cells.counts[1] > 0
        units_of_label = cells.num_units(is_shown)
        is_only_unit = is_shown & (units_of_label[cells.labels] == 1)
        loss = share_of_singles(units_of_label) ** 0.5 / self.size
        return np.where(is_only_unit, loss, 0.0)

    def _losses_of_pairs(
        self, value: float, cells: UnitCells, unit_of_row: Ints
    ) -> Array:
        """Return the loss of personalization without each cell, shape (C,).

        Personalization is one minus the share of equal labels in pairs of rows.

        Without a unit of r rows there are fewer pairs of rows: each label that it shows
        has 2N - r - 1 in them.
        """
        num_rows = int(self.inside.sum())
        rows_of_unit = np.bincount(
            unit_of_row[self.inside], minlength=unit_of_row.max() + 1
        )
        _, counts, _ = self.counts()
        _, shown, _ = cells.counts
        pairs = counts.sum() * (num_rows - 1)  # total / rows is the length of a list
        lost_equal_pairs = shown * (2 * counts[cells.labels] - shown - 1)
        lost_pairs = shown * (2 * num_rows - rows_of_unit[cells.units] - 1)
        return np.asarray(((1 - value) * lost_pairs - lost_equal_pairs) / pairs)

    def _weights_of_places(self, places: Counts) -> Array:
        """Return the weights of places in the Gini index.

        Places in the order of counts begin with 1.
        """
        if not self.size:
            return np.zeros(places.shape)
        return np.asarray((2 * places - self.size - 1) / self.size)

    def _weights_in_order(self, counts: Array) -> tuple[Array, Array]:
        """Return the weights of labels by place and by first place of equal counts.

        Places are in the order of counts. Among labels with equal counts, the first one
        can be shown once less, and the order stays.
        """
        # importing tailmetrics.significance needs no scipy
        from scipy.stats import rankdata

        is_shown = counts > 0
        num_unseen = self.size - is_shown.sum()
        places, first_places = np.zeros(self.num_labels), np.zeros(self.num_labels)
        places[is_shown] = num_unseen + rankdata(counts[is_shown], "ordinal")
        first_places[is_shown] = num_unseen + rankdata(counts[is_shown], "min")
        return self._weights_of_places(places), self._weights_of_places(first_places)


def _losses_of_entropy(value: float, cells: UnitCells, counts: Array) -> Array:
    """Return the loss of the entropy of counts (L,) without each cell, shape (C,)."""
    _, shown, _ = cells.counts
    total, terms = counts.sum(), _count_times_log(counts)
    lost = terms[cells.labels] - _count_times_log(counts[cells.labels] - shown)
    total_without_cell = np.maximum(total - shown, 1)
    losses = (
        value - np.log(total_without_cell) + (terms.sum() - lost) / total_without_cell
    )
    return np.where(shown > 0, losses, 0.0)


def _mean_and_losses(
    cells: UnitCells,
    shown: Array,
    counts: Array,
    weights: Array,
    lost_weights: Array | None = None,
) -> tuple[float, Array]:
    """Return the mean weight of the labels shown, and its loss without each cell.

    The losses have the shape (C,).

    Args:
        cells: The cells.
        shown: Shape (C,), how often the unit of each cell shows the label.
        counts: Shape (L,), how often each label is shown.
        weights: Shape (L,), the weight of each label.
        lost_weights: Shape (L,), the weight that a label loses with a cell, else
            those in ``weights``.
    """
    if lost_weights is None:
        lost_weights = weights
    total, top = counts.sum(), (counts * weights).sum()
    mean = float(top / total)
    top_without_cell = top - shown * lost_weights[cells.labels]
    losses = mean - top_without_cell / np.maximum(total - shown, 1)
    return mean, np.where(shown > 0, losses, 0.0)


def _count_times_log(counts: Array) -> Array:
    """Return c ln c; 0 for a count of 0."""
    return np.log(np.maximum(counts, 1)) * counts


OverLabels: TypeAlias = LabelRows | AreaRows | ShownRows
"""What rows add to counts of labels, from which an average over labels is computed."""
