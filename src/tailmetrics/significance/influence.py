"""The influence of rows and labels on an average over labels, and so its variance.

An average over labels is a smooth function of counts of labels, and these are sums over
units, which are rows, or clusters of rows that are drawn together. So the delta method
gives its variance: the sum of phi_i^2, where the influence phi_i is the change of the
value when unit i is left out. A unit changes only the labels that its rows predict or
hold, so one pass over the labels of all rows is enough. Where m units hold a label, its
part of the variance is multiplied by (m - 1) / m; the variance of a recall r over rows
becomes r(1 - r) / (m - 1), which is unbiased. A label that only one unit holds leaves
the average together with this unit; its influence is its distance from the mean of the
other labels.

Copies of a row, as one cluster, have the influences of the row alone.

Source: Efron and Stein, The jackknife estimate of variance, Annals of Statistics 9
(1981); MacKinnon and White, Journal of Econometrics 29 (1985), for the factor; DeLong,
DeLong and Clarke-Pearson, Biometrics 44 (1988), for areas, and Obuchowski,
Nonparametric analysis of clustered ROC curve data, Biometrics 53 (1997), for areas of
clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Counts: TypeAlias = "Array | Ints"
"""Whole numbers, or means and sums of weights of them."""


def effective_number(weights: Counts) -> float:
    """Return the effective number of units of weights w (Kish), 0 without weight.

    The number is (sum w)^2 / (sum w^2).
    """
    if not weights.any():
        return 0.0
    return float(weights.sum() ** 2 / (weights**2).sum())


@dataclass(frozen=True, eq=False)
class Influence:
    """An average over labels, and the influence of units, labels and cells on it.

    A unit is a row, or a cluster of rows. A cell is one label of one unit. The
    influence is the change of the average when the unit, label or cell is left out,
    with the opposite sign.

    Attributes:
        value: The average.
        rows: Shape (N,): the influence of each unit, less the mean influence of units,
            in equal parts for each of its rows that count; 0 for other rows.
        inside: Shape (N,), bool: which rows count.
        labels: Shape (L,): the influence of each label; 0 for labels that are left out
            of the average.
        cells: The number of each cell, ascending, and its influence. Label l of unit u
            has the number u * L + l.
        contributing_units: How many units the value rests on: those that hold a label,
            or show one.
        effective_units: The effective number of units.
        label_values: Shape (L,), the value of each label; NaN for labels that are left
            out of the average.
        label_weights: Shape (L,), the weight of each label in the average; 0 where the
            value is no average over labels.
        first_labels: Of a gap, the number of labels of its first end, which come first;
            else 0.
        bin_error: Upper bound of the distance from the exact value, which is lost where
            scores share bins.
        weakness: Why the influences do not tell the variance; None where they do.
    """

    value: float
    rows: Array
    inside: Flags
    labels: Array
    cells: tuple[Ints, Array]
    contributing_units: int
    effective_units: float
    label_values: Array
    label_weights: Array
    first_labels: int = 0
    bin_error: float = 0.0
    weakness: str | None = None

    def plus(
        self, other: Influence, factor: float = 1.0, other_factor: float = 1.0
    ) -> Influence:
        """Return the influences on a weighted sum of this value and the other value.

        The weights are ``factor`` and ``other_factor``.
        """
        numbers, places = np.unique(
            np.concatenate([self.cells[0], other.cells[0]]), return_inverse=True
        )
        cells = np.zeros(numbers.size)
        np.add.at(
            cells,
            places,
            np.concatenate([factor * self.cells[1], other_factor * other.cells[1]]),
        )
        return replace(
            self,
            value=factor * self.value + other_factor * other.value,
            rows=factor * self.rows + other_factor * other.rows,
            labels=factor * self.labels + other_factor * other.labels,
            cells=(numbers, cells),
            label_weights=np.maximum(self.label_weights, other.label_weights),
        )

    def minus(self, other: Influence) -> Influence:
        """Return the influences on the difference of averages over different labels.

        The averages are, for example, of two buckets.
        """
        num_labels, other_num_labels = (
            max(self.labels.size, 1),
            max(other.labels.size, 1),
        )
        units, labels = np.divmod(self.cells[0], num_labels)
        other_units, other_labels = np.divmod(other.cells[0], other_num_labels)
        size = self.labels.size + other.labels.size
        numbers = np.concatenate(
            [
                units * size + labels,
                other_units * size + self.labels.size + other_labels,
            ]
        )
        return replace(
            self,
            value=self.value - other.value,
            rows=self.rows - other.rows,
            labels=np.concatenate([self.labels, -other.labels]),
            cells=(numbers, np.concatenate([self.cells[1], -other.cells[1]])),
            contributing_units=min(self.contributing_units, other.contributing_units),
            effective_units=min(self.effective_units, other.effective_units),
            label_weights=np.concatenate([self.label_weights, other.label_weights]),
            first_labels=self.labels.size,
            weakness=self.weakness or other.weakness,
        )

    @property
    def ends(self) -> list[slice]:
        """The labels of each average: those of both ends of a gap, else all."""
        if self.first_labels:
            return [slice(self.first_labels), slice(self.first_labels, None)]
        return [slice(None)]

    @property
    def fewest_labels(self) -> int:
        """The number of averaged labels; in a gap, the smaller one of its two ends."""
        return min(int((self.label_weights[end] > 0).sum()) for end in self.ends)

    def variances_of_labels(self) -> list[tuple[float, float]]:
        """Return the variances between the labels of each average.

        Each comes with its degrees of freedom. The values of labels also differ because
        each is of few cells. So the variance between labels includes the variance
        between cells, and is no less. There are two labels or more.
        """
        between_cells = self._squares_by_label()
        variances = []
        for end in self.ends:
            weights = self.label_weights[end]
            effective_labels = effective_number(weights)
            degrees = effective_labels - 1
            between_labels = (
                float((self.labels[end] ** 2).sum()) * effective_labels / degrees
            )
            variances.append(
                (max(between_labels, float(between_cells[end].sum())), degrees)
            )
        return variances

    def variance_between_cells(self) -> float:
        """Return the variance between cells.

        The variances between units and between labels both include it.
        """
        return float(self._squares_by_label().sum())

    def _squares_by_label(self) -> Array:
        """Return the sum of squared influences of each label's cells, shape (L,)."""
        numbers, influences = self.cells
        num_labels = self.labels.size
        squares = np.bincount(
            numbers % max(num_labels, 1), weights=influences**2, minlength=num_labels
        )
        return np.asarray(squares, dtype=np.float64)


def check_array(
    caller: str, argument: str, array: object, kinds: str, shape: tuple[int | None, ...]
) -> None:
    """Refuse what is no array of one of these kinds of numbers, and of this shape.

    Args:
        caller: The name of the class with which error messages begin.
        argument: The name of the argument.
        array: Its value.
        kinds: The kinds of numbers, as letters of NumPy: ``"b"`` for bool, ``"iu"`` for
            whole numbers.
        shape: The shape; None for any size.
    """
    needed = "bool" if kinds == "b" else "whole numbers"
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"{caller}: {argument} is a {type(array).__name__}; pass an array "
            f"of {needed}."
        )
    if array.dtype.kind not in kinds:
        raise TypeError(
            f"{caller}: {argument} is of type {array.dtype}; pass an array of {needed}."
        )
    sizes = zip(array.shape, shape, strict=False)
    if array.ndim != len(shape) or any(
        size not in (None, length) for length, size in sizes
    ):
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(
            f"{caller}: {argument} is of shape {list(array.shape)}; pass shape "
            f"[{expected}]."
        )


def units_of_rows(num_rows: int, clusters: Ints | None) -> Ints:
    """Return the number of the unit of each row, shape (N,).

    The unit is the cluster of the row, or the row itself without clusters.
    """
    if clusters is None:
        return np.arange(num_rows)
    return clusters


def labels_may_come(units_of_label: Counts, num_labels: int) -> bool:
    """Whether more rows may bring labels.

    They may if some labels are in no unit, and some are in a single one.

    A new unit brings a new label about as often as a unit has a label of its own.

    Args:
        units_of_label: In how many units, rows or clusters, each label is.
        num_labels: The number of labels that could be.

    Source: Good, The population frequencies of species, Biometrika 40 (1953).
    """
    return int((units_of_label > 0).sum()) < num_labels and bool(
        (units_of_label == 1).any()
    )


def influence_of_cells(
    value: float,
    cells: Array,
    units: Ints,
    labels: Ints,
    unit_of_row: Ints,
    inside: Flags,
    label_influences: Array,
    label_values: Array,
    label_weights: Array,
    weights: Array,
) -> Influence:
    """Return an average with its influences.

    The influence of a unit is the sum over its cells.

    Args:
        value: The average.
        cells: Shape (C,), the influence of each cell, ordered by unit, then label.
        units: Shape (C,), the unit of each cell.
        labels: Shape (C,), the label of each cell.
        unit_of_row: Shape (N,), the unit of each row.
        inside: Shape (N,), bool: which rows count.
        label_influences: Shape (L,), the influence of each label.
        label_values: Shape (L,), the value of each label.
        label_weights: Shape (L,), the weight of each label in the average.
        weights: Shape (C,), the weight of each cell; the effective number of units
            follows from it.
    """
    num_units = int(unit_of_row.max(initial=-1)) + 1
    unit_influences = np.bincount(units, weights=cells, minlength=num_units)
    unit_sizes = np.bincount(unit_of_row[inside], minlength=num_units)
    mean = 0.0
    if inside.any():
        mean = unit_influences[unit_sizes > 0].mean()
    shares_of_rows = (unit_influences - mean) / np.maximum(unit_sizes, 1)

    unit_weights = np.bincount(units, weights=weights, minlength=num_units)
    return Influence(
        value=value,
        rows=np.where(inside, shares_of_rows[unit_of_row], 0.0),
        inside=inside,
        labels=label_influences,
        cells=(units * len(label_influences) + labels, cells),
        contributing_units=int((unit_weights > 0).sum()),
        effective_units=effective_number(unit_weights),
        label_values=label_values,
        label_weights=label_weights,
    )
