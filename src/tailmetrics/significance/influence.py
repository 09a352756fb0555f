"""The influence of rows and labels on an average over labels, from which its variance follows.

An average over labels is a smooth function of counts of labels, and these are sums over rows. So the delta method
gives its variance: the sum of phi_i^2, where the influence phi_i is the change of the value when row i is left out. A
row changes only the labels that it predicts or holds, so one pass over the labels of all rows is enough. Where m rows
hold a label, its part of the variance is multiplied by (m - 1) / m; the variance of a recall r becomes
r(1 - r) / (m - 1), which is unbiased. A label that only one row holds leaves the average together with this row; its
influence is its distance from the mean of the other labels.

Source: Efron and Stein, The jackknife estimate of variance, Annals of Statistics 9 (1981); MacKinnon and White, Journal
of Econometrics 29 (1985), for the factor; DeLong, DeLong and Clarke-Pearson, Biometrics 44 (1988), for areas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Influence:
    """An average over labels, and the influence of rows, labels and cells on it.

    A cell is one label of one row. The influence is the change of the average when the row, label or cell is left out,
    with the opposite sign.

    Attributes:
        value: The average.
        rows: Shape (N,): the influence of each row, less the mean influence of rows; 0 for rows that do not count.
        inside: Shape (N,), bool: which rows count.
        labels: Shape (L,): the influence of each label; 0 for labels that are left out of the average.
        cells: The number of each cell, ascending, and its influence. Label l of row n has the number n * L + l.
        contributing_rows: How many rows the value rests on: those that hold a label, or show one.
        effective_rows: The effective number of rows, (sum w)^2 / (sum w^2) of their weights w (Kish).
        label_values: Shape (L,), the value of each label; NaN for labels that are left out of the average.
        bin_error: Upper bound of the distance from the exact value, which is lost where scores share bins.
        weakness: Why the influences do not tell the variance; None where they do.
    """

    value: float
    rows: Array
    inside: Flags
    labels: Array
    cells: tuple[Ints, Array]
    contributing_rows: int
    effective_rows: float
    label_values: Array
    bin_error: float = 0.0
    weakness: str | None = None

    def plus(self, other: Influence, factor: float = 1.0, other_factor: float = 1.0) -> Influence:
        """Return the influences on ``factor`` * this value + ``other_factor`` * the other value."""
        numbers, places = np.unique(np.concatenate([self.cells[0], other.cells[0]]), return_inverse=True)
        cells = np.zeros(numbers.size)
        np.add.at(cells, places, np.concatenate([factor * self.cells[1], other_factor * other.cells[1]]))
        return replace(
            self,
            value=factor * self.value + other_factor * other.value,
            rows=factor * self.rows + other_factor * other.rows,
            labels=factor * self.labels + other_factor * other.labels,
            cells=(numbers, cells),
        )

    def minus(self, other: Influence) -> Influence:
        """Return the influences on the difference of two averages over different labels, such as of two buckets."""
        num_labels, other_num_labels = max(self.labels.size, 1), max(other.labels.size, 1)
        rows, labels = np.divmod(self.cells[0], num_labels)
        other_rows, other_labels = np.divmod(other.cells[0], other_num_labels)
        size = self.labels.size + other.labels.size
        numbers = np.concatenate([rows * size + labels, other_rows * size + self.labels.size + other_labels])
        return replace(
            self,
            value=self.value - other.value,
            rows=self.rows - other.rows,
            labels=np.concatenate([self.labels, -other.labels]),
            cells=(numbers, np.concatenate([self.cells[1], -other.cells[1]])),
            contributing_rows=min(self.contributing_rows, other.contributing_rows),
            effective_rows=min(self.effective_rows, other.effective_rows),
            weakness=self.weakness or other.weakness,
        )

    def variance_between_labels(self) -> tuple[float, int]:
        """Return the variance that a sample of labels adds to the variance between rows, and its degrees of freedom.

        It is the variance between labels minus the variance between cells, which the variance between rows includes.

        Source: Cameron, Gelbach and Miller, Robust inference with multiway clustering, JBES 29 (2011).
        """
        num_labels = int((self.labels != 0).sum())
        degrees = max(num_labels - 1, 1)
        between_labels = float((self.labels**2).sum()) * num_labels / degrees
        between_cells = float((self.cells[1] ** 2).sum())
        return max(0.0, between_labels - between_cells), degrees


def influence_of_cells(
    value: float,
    cells: Array,
    rows: Ints,
    labels: Ints,
    inside: Flags,
    label_influences: Array,
    label_values: Array,
    weights: Array,
) -> Influence:
    """Return an average with its influences; the influence of a row is the sum over its cells.

    Args:
        value: The average.
        cells: Shape (C,), the influence of each cell.
        rows: Shape (C,), the row of each cell.
        labels: Shape (C,), the label of each cell.
        inside: Shape (N,), bool: which rows count.
        label_influences: Shape (L,), the influence of each label.
        label_values: Shape (L,), the value of each label.
        weights: Shape (C,), the weight of each cell; the effective number of rows follows from it.
    """
    row_influences = np.bincount(rows, weights=cells, minlength=inside.size)
    mean = 0.0
    if inside.any():
        mean = row_influences[inside].mean()

    row_weights = np.bincount(rows, weights=weights, minlength=inside.size)
    effective_rows = 0.0
    if row_weights.any():
        effective_rows = float(row_weights.sum() ** 2 / (row_weights**2).sum())

    numbers = rows * len(label_influences) + labels
    order = np.argsort(numbers, kind="stable")
    return Influence(
        value=value,
        rows=np.where(inside, row_influences - mean, 0.0),
        inside=inside,
        labels=label_influences,
        cells=(numbers[order], cells[order]),
        contributing_rows=int((row_weights > 0).sum()),
        effective_rows=effective_rows,
        label_values=label_values,
    )
