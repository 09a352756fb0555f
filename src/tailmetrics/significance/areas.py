"""Areas over labels from bins of scores: influences, and shares in differences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tailmetrics._arguments import check_choice
from tailmetrics.metrics.areas import AREAS, Area
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
from tailmetrics.significance.interval import FEW, unit_names

BLOCK = 2**22
"""How many cells of labels and bins are in memory at a time: 32 MB."""
FEW_CELLS = 50
"""The fewest relevant cells for intervals of the micro-averaged average precision.

With fewer cells these intervals hold the truth in .79 to .84.
"""


@dataclass(frozen=True, eq=False)
class LabelBlock:
    """The histograms of some labels.

    Attributes:
        labels: The labels.
        columns: The index of their scores in an array of shape (rows, L).
        cells: The place of each score in the flat histograms, (rows, labels).
        relevant: How many relevant rows each bin of a label holds, (labels, bins).
        others: How many other rows each bin of a label holds, (labels, bins).
    """

    labels: slice
    columns: Any
    cells: Ints
    relevant: Ints
    others: Ints


@dataclass(frozen=True, eq=False)
class AreaRows:
    """Bins of the scores of all labels, from which the area of each label is computed.

    Args:
        bins: Shape (N, L), the bin of each score, the lowest scores in bin 0.
        relevant: Shape (N, L), bool: whether the label is relevant in the row.
        inside: Shape (N,), the rows that count.
        area: ``"roc"``, or ``"precision"`` for average precision.
        average: How labels are averaged.
        marks: Shape (N, L), a number for each score; equal scores have equal numbers.
            Where a bin of a label holds different numbers, only bounds of the area are
            known. None where all scores of a bin are equal.
    """

    bins: NDArray[np.integer]
    relevant: Flags
    inside: Flags
    area: Area = "roc"
    average: Literal["macro", "weighted", "micro"] = "macro"
    marks: NDArray[np.integer] | None = None

    def __post_init__(self) -> None:
        check_array("AreaRows", "bins", self.bins, "iu", (None, None))
        check_array("AreaRows", "relevant", self.relevant, "b", self.bins.shape)
        check_array("AreaRows", "inside", self.inside, "b", self.bins.shape[:1])
        check_choice("AreaRows", "area", self.area, Area)
        check_choice(
            "AreaRows", "average", self.average, ("macro", "weighted", "micro")
        )

    def among(self, rows: Flags) -> AreaRows:
        """Return the bins of some of the rows, given as shape (N,), bool."""
        return replace(self, inside=self.inside & rows)

    def content(self) -> tuple[Ints, Ints]:
        """Return the row of each cell and a number for what it adds, (N * L,) each."""
        num_rows, num_labels = self.bins.shape
        bins, labels = np.asarray(self.bins, np.int64), np.arange(num_labels)
        rows = np.repeat(np.arange(num_rows), num_labels)
        numbers = 2 * (bins * num_labels + labels) + self.relevant
        return rows, numbers.ravel()

    def value(self) -> float:
        """Return the average."""
        areas, support = np.zeros(self.num_averaged), np.zeros(self.num_averaged)
        for block in self.blocks(self.num_bins):
            _, areas[block.labels], _ = self._areas(block)
            support[block.labels] = block.relevant.sum(axis=1)
        return self._average(areas, self._weights(areas, support))

    @property
    def is_micro(self) -> bool:
        """Whether the area is that of all cells together."""
        return self.average == "micro"

    @property
    def num_averaged(self) -> int:
        """The number of averaged labels; 1 for ``"micro"``, one label of all cells."""
        if self.is_micro:
            return 1
        return int(self.bins.shape[1])

    @property
    def num_bins(self) -> int:
        """The number of bins, of the rows that count."""
        return int(np.asarray(self.bins)[self.inside].max(initial=0)) + 1

    def blocks(self, num_bins: int) -> Iterator[LabelBlock]:
        """Yield the histograms of some labels at a time, of ``num_bins`` bins each."""
        bins, relevant = np.asarray(self.bins)[self.inside], self.relevant[self.inside]
        step = max(1, BLOCK // num_bins)
        for start in range(0, self.num_averaged, step):
            end = min(start + step, self.num_averaged)
            labels = slice(start, end)
            columns = slice(None), labels
            if self.is_micro:
                columns = slice(None), slice(None)

            shape = end - start, num_bins
            num_cells = shape[0] * num_bins
            first_cells = num_bins * np.arange(shape[0])
            cells: Any = bins[columns] + first_cells
            is_relevant = relevant[columns]
            relevant_counts = np.bincount(cells[is_relevant], minlength=num_cells)
            other_counts = np.bincount(cells[~is_relevant], minlength=num_cells)
            yield LabelBlock(
                labels,
                columns,
                cells,
                relevant_counts.reshape(shape),
                other_counts.reshape(shape),
            )

    def influence(self, clusters: Ints | None = None) -> Influence:
        """Return the average and the influences on it.

        Args:
            clusters: Shape (N,), the cluster of each row, from 0; None where rows are
                drawn alone.
        """
        relevant, label_of_column = self.relevant[self.inside], self._label_of_column()
        areas, errors, changes = self._areas_and_changes(relevant)

        # the cells of units: a row has one of each label
        unit_of_row = units_of_rows(self.inside.size, clusters)
        units, (num_relevant, num_others) = _sums_of_units(
            unit_of_row[self.inside], relevant, ~relevant
        )
        is_relevant = num_relevant > 0
        relevant_units = self._sums_of_labels(is_relevant)[label_of_column]
        other_units = self._sums_of_labels(num_others > 0)[label_of_column]
        factors = other_factors = _factors(relevant_units)
        if self.area == "roc":
            other_factors = _factors(other_units)
        changes *= np.where(relevant, factors, other_factors)
        _, (unit_changes,) = _sums_of_units(unit_of_row[self.inside], changes)

        support = self._sums_of_labels(num_relevant)
        weights = self._weights(areas, support)
        value, total = self._average(areas, weights), max(weights.sum(), 1)
        is_defined = ~np.isnan(areas)
        distances = np.where(is_defined, areas - value, 0.0)

        # the label leaves the average with its only unit
        leaves = is_relevant & (relevant_units == 1)
        lost_weights = leaves.astype(np.float64)
        if self.average == "weighted":
            lost_weights = num_relevant
        column_weights = np.where(is_defined, weights, 0.0)[label_of_column]
        cell_influences = (
            np.where(leaves | (column_weights == 0), 0.0, unit_changes)
            * column_weights
            / total
        )
        cell_influences += lost_weights * distances[label_of_column] / total

        label_weights = weights
        if self.is_micro:
            label_weights = np.zeros(weights.shape)
        influence = influence_of_cells(
            value,
            cell_influences.ravel(),
            np.repeat(units, label_of_column.size),
            np.tile(label_of_column, units.size),
            unit_of_row,
            self.inside,
            label_influences=weights * distances / total,
            label_values=areas,
            label_weights=label_weights,
            weights=np.where(
                is_relevant, 1 / np.maximum(relevant_units, 1), 0.0
            ).ravel(),
        )
        weakness = None
        if self.is_micro and self.area == "precision" and is_relevant.sum() < FEW_CELLS:
            weakness = (
                f"fewer than {FEW_CELLS} relevant labels in all {unit_names(clusters)}"
            )
        sum_of_errors = (weights * np.where(is_defined, errors, 0)).sum()
        return replace(
            influence, bin_error=float(sum_of_errors / total), weakness=weakness
        )

    def _areas_and_changes(self, relevant: Flags) -> tuple[Array, Array, Array]:
        """Return areas, their largest errors, and the change of areas by each cell.

        Areas and errors are of averaged labels; changes have the shape (rows, L). A
        change is the slope of the area in the number of rows with the bin and relevance
        of the cell.
        """
        areas, errors = np.full(self.num_averaged, np.nan), np.zeros(self.num_averaged)
        changes = np.zeros(relevant.shape)
        for block in self.blocks(self.num_bins):
            least, area, largest = self._areas(block)
            areas[block.labels] = area
            errors[block.labels] = np.maximum(largest - area, area - least)
            slopes = self._slopes(block.relevant, block.others, area[:, None])
            changes[block.columns] = _at_cells(
                slopes, block.cells, relevant[block.columns]
            )
        return areas, errors, changes

    def moves_with_rows(self, clusters: Ints | None = None) -> bool:
        """Whether the expected value changes with more rows, or clusters.

        Labels may come, or have few rows. The ROC area of a label, and the average
        precision of all cells together, have about the same expectation for any number
        of rows.
        """
        unit_of_row = units_of_rows(self.inside.size, clusters)
        _, (num_relevant,) = _sums_of_units(
            unit_of_row[self.inside], self.relevant[self.inside]
        )
        units_of_label = (num_relevant > 0).sum(axis=0)
        if self.average == "macro":
            return labels_may_come(units_of_label, units_of_label.size)
        has_few_units = (units_of_label > 0) & (units_of_label < FEW)
        return (
            self.average == "weighted"
            and self.area == "precision"
            and bool(has_few_units.any())
        )

    @property
    def trend(self) -> int:
        """0: more rows may raise or lower the value; see :attr:`LabelRows.trend`."""
        return 0

    def shares_of_difference(self, other: AreaRows) -> Array:
        """Return u, shape (N,): swapping a row changes the difference of areas by -2 u.

        The difference of ROC areas of two models, after some rows are swapped, is
        exactly linear in the swaps. With z = 1 for a row, and -1 if it is swapped, T(z)
        = sum of z * u. For a label that is relevant in m of its rows, and not in n, a
        relevant row adds [G(a) - G(b)] / m to u. Here a and b are its bins in both
        models, and G(x) is the share of other rows below x, in the mean histogram of
        both models; equal ones count half. A row where the label is not relevant adds
        [H(a) - H(b)] / n, where H(x) is the share of relevant rows above x. Average
        precision is not linear; its slopes at the mean histogram take the place of G
        and H.

        Args:
            other: The bins of the other model, for the same rows and labels.
        """
        relevant, label_of_column = self.relevant[self.inside], self._label_of_column()
        num_bins = max(self.num_bins, other.num_bins)
        changes = np.zeros(relevant.shape)
        for block, other_block in zip(
            self.blocks(num_bins), other.blocks(num_bins), strict=True
        ):
            mean_relevant = (block.relevant + other_block.relevant) / 2
            mean_others = (block.others + other_block.others) / 2
            slopes = self._slopes(mean_relevant, mean_others)
            is_relevant = relevant[block.columns]
            own_changes = _at_cells(slopes, block.cells, is_relevant)
            other_changes = _at_cells(slopes, other_block.cells, is_relevant)
            changes[block.columns] = own_changes - other_changes

        support = self._sums_of_labels(relevant)
        num_cells = self._sums_of_labels(np.ones_like(relevant))
        has_area = (support > 0) & (support < num_cells)
        weights = self._weights(np.where(has_area, 0.0, np.nan), support)
        column_weights = weights[label_of_column]
        cells = (
            np.where(column_weights > 0, changes, 0.0)
            * column_weights
            / max(weights.sum(), 1)
        )
        shares = np.zeros(self.inside.size)
        shares[self.inside] = cells.sum(axis=1)
        return shares

    def _label_of_column(self) -> Ints:
        """Return the averaged label of each column, shape (L,)."""
        num_labels = self.bins.shape[1]
        if self.is_micro:
            return np.zeros(num_labels, np.int64)
        return np.arange(num_labels)

    def _sums_of_labels(self, table: Array | Flags) -> Array:
        """Return the sum of a table of shape (rows or units, L) by averaged label."""
        column_sums = table.sum(axis=0)
        sums = np.bincount(
            self._label_of_column(), weights=column_sums, minlength=self.num_averaged
        )
        return sums.astype(np.float64)

    def _weights(self, areas: Array, support: Counts) -> Array:
        """Return the weights of the labels, shape (L,); 0 without an area."""
        weights = np.ones(areas.shape)
        if self.average == "weighted":
            weights = np.asarray(support, dtype=np.float64)
        return np.where(np.isnan(areas), 0.0, weights)

    def _average(self, areas: Array, weights: Array) -> float:
        """Return the weighted average of areas; NaN if no label has an area."""
        total = weights.sum()
        if not total:
            return float("nan")
        return float((weights * np.nan_to_num(areas)).sum() / total)

    def _areas(self, block: LabelBlock) -> Any:
        """Return the least, computed and largest area of each label of a block."""
        num_cells = block.relevant.size
        marks = np.zeros(block.cells.shape, np.int64)
        if self.marks is not None:
            marks = np.asarray(self.marks)[self.inside][block.columns]
        last_mark = np.zeros(num_cells, np.int64)
        last_mark[block.cells] = marks
        is_different = marks != last_mark[block.cells]
        num_different = np.bincount(block.cells[is_different], minlength=num_cells)
        all_equal = (num_different == 0).reshape(block.relevant.shape)
        areas = AREAS[self.area](
            torch.from_numpy(block.relevant),
            torch.from_numpy(block.others),
            torch.from_numpy(all_equal),
        )
        return areas.numpy()

    def _slopes(
        self, relevant: Counts, others: Counts, areas: Array | float = 0.0
    ) -> tuple[Array, Array]:
        """Return the slopes of areas in the numbers of relevant and other rows of bins.

        One more row also makes the number of rows larger by which the area is divided.
        With ``areas`` of shape (labels, 1), the slopes are the changes of the areas;
        without, this number is fixed.
        """
        m, n = relevant.sum(axis=1, keepdims=True), others.sum(axis=1, keepdims=True)
        relevant_slopes, other_slopes = SLOPES[self.area](relevant, others)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.area == "precision":
                return (relevant_slopes - areas) / m, other_slopes / m
            return (relevant_slopes - areas) / m, (other_slopes - areas) / n


def _factors(num_units: Array) -> Array:
    """Return the factors sqrt(m / (m - 1)) of changes by m units.

    With them the variance of an area is unbiased.
    """
    return np.sqrt(num_units / np.maximum(num_units - 1, 1))


def _sums_of_units(
    unit_of_row: Ints, *tables: Array | Flags
) -> tuple[Ints, list[Array]]:
    """Return the units, ascending, and the sums of tables over the rows of each unit.

    Tables have the shape (rows, L).
    """
    order = np.argsort(unit_of_row, kind="stable")
    units, starts = np.unique(unit_of_row[order], return_index=True)
    if not units.size:
        return units, [np.zeros(table.shape) for table in tables]
    sums = [
        np.add.reduceat(table[order], starts, axis=0, dtype=np.float64)
        for table in tables
    ]
    return units, sums


def _at_cells(slopes: tuple[Array, Array], cells: Ints, is_relevant: Flags) -> Array:
    """Return the slope of each cell, shape (rows, labels).

    For relevant cells it is the slope in relevant rows of the bin, else in other rows.
    """
    relevant_slopes, other_slopes = slopes
    return np.where(
        is_relevant, relevant_slopes.ravel()[cells], other_slopes.ravel()[cells]
    )


def _roc_slopes(relevant: Counts, others: Counts) -> tuple[Array, Array]:
    """Return the shares of other rows below each bin, and of relevant rows above it.

    Rows in the bin count half.

    A = sum_b R_b (O_<b + O_b / 2) / (m n), with R_b relevant rows and O_b other rows in
    bin b, m and n in all bins. So the shares are m and n times the slopes of A in R_b
    and O_b. Counts and shares have shape (labels, bins).
    """
    m, n = relevant.sum(axis=1, keepdims=True), others.sum(axis=1, keepdims=True)
    others_below = others.cumsum(axis=1) - others / 2
    relevant_above = m - relevant.cumsum(axis=1) + relevant / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return others_below / n, relevant_above / m


def _precision_slopes(relevant: Counts, others: Counts) -> tuple[Array, Array]:
    """Return the slopes of average precision, times m, in the rows of each bin.

    The first slopes are in relevant rows, the second in other rows.

    AP = sum_b R_b / m * T_b / (T_b + F_b), with T_b and F_b the relevant and other rows
    in bin b or above. Counts and slopes have shape (labels, bins). In slopes
    m is fixed.
    """
    relevant_above = _sums_from_above(relevant)
    others_above = _sums_from_above(others)
    # counts are whole numbers, or halves in the mean of two histograms; without rows
    # all numerators are 0
    rows_above = np.maximum(relevant_above + others_above, 0.5)
    precision = relevant_above / rows_above
    # a row in bin b also counts in T and F of every lower bin
    gains = relevant * others_above / rows_above**2
    costs = relevant * relevant_above / rows_above**2
    return precision + gains.cumsum(axis=1), -costs.cumsum(axis=1)


def _sums_from_above(counts: Counts) -> Counts:
    """Return the number of rows in each bin or above, shape (labels, bins)."""
    from_highest = np.flip(counts, axis=1).cumsum(axis=1)
    return np.flip(from_highest, axis=1)


SLOPES = {"roc": _roc_slopes, "precision": _precision_slopes}
"""The function of the slopes of each area.

It takes the relevant and other rows of bins, and returns slopes times numbers of rows.
"""
