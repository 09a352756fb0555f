"""Averages over labels, and the influence of each row and each label on them.

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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import Self

from tailmetrics.metrics.areas import AREAS, Area

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
LabelSet: TypeAlias = Literal["present", "union", "all"]

BLOCK = 2**22
"""How many cells of labels and bins are in memory at a time: 32 MB."""


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
        of_labels: Shape (L,), the value of each label; NaN for labels that are left out of the average.
        bin_error: Upper bound of the distance from the exact value, which is lost where scores share bins.
    """

    value: float
    rows: Array
    inside: Flags
    labels: Array
    cells: tuple[Ints, Array]
    contributing_rows: int
    effective_rows: float
    of_labels: Array
    bin_error: float = 0.0

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
        numbers, added = (one.cells[0] // max(one.labels.size, 1) for one in (self, other))
        mine, its = (one.cells[0] % max(one.labels.size, 1) for one in (self, other))
        size = self.labels.size + other.labels.size
        cells = np.concatenate([numbers * size + mine, added * size + self.labels.size + its])
        return replace(
            self,
            value=self.value - other.value,
            rows=self.rows - other.rows,
            labels=np.concatenate([self.labels, -other.labels]),
            cells=(cells, np.concatenate([self.cells[1], -other.cells[1]])),
            contributing_rows=min(self.contributing_rows, other.contributing_rows),
            effective_rows=min(self.effective_rows, other.effective_rows),
        )

    def variance_between_labels(self) -> tuple[float, int]:
        """Return the variance that a sample of labels adds to the variance between rows, and its degrees of freedom.

        It is the variance between labels minus the variance between cells, which the variance between rows includes.

        Source: Cameron, Gelbach and Miller, Robust inference with multiway clustering, JBES 29 (2011).
        """
        drawn = int((self.labels != 0).sum())
        between = float((self.labels**2).sum()) * drawn / max(drawn - 1, 1)
        return max(0.0, between - float((self.cells[1] ** 2).sum())), max(drawn - 1, 1)


@dataclass(frozen=True, eq=False)
class Cells:
    """The labels that rows predict and hold: a cell is one label of one row."""

    rows: Ints
    labels: Ints
    predicted: Flags
    held: Flags
    inside: Flags
    num_labels: int

    def among(self, rows: Flags) -> Self:
        """Return the cells of some of the rows, given as shape (N,), bool."""
        kept = rows[self.rows]
        cells = {name: getattr(self, name)[kept] for name in ("rows", "labels", "predicted", "held")}
        return replace(self, **cells, inside=self.inside & rows)

    def content(self) -> tuple[Ints, Ints]:
        """Return the row of each cell, and a number that says what the cell adds, shape (C,) each."""
        return self.rows, 4 * self.labels + 2 * self.held + self.predicted


@dataclass(frozen=True, eq=False)
class LabelRows(Cells):
    """The labels that rows predict and hold, for macro and weighted precision, recall and F1, and for coverage.

    The value of a label is top * hits / (below[0] * predictions + below[1] * support), and 0 if this is 0 / 0. For
    coverage, the value is 1 if the label has a hit, else 0.

    Args:
        rows: Shape (C,), the row of each cell: a label that a row predicts or holds.
        labels: Shape (C,), the label of each cell.
        predicted: Shape (C,), whether the row predicts the label.
        held: Shape (C,), whether the label is relevant in the row. A label that is relevant and predicted is a hit.
        inside: Shape (N,), the rows that count.
        num_labels: L.
        top: The factor of hits in the numerator; 0 for coverage.
        below: The factors of predictions and of support in the denominator.
        over: The labels that are averaged: ``"present"``, labels that are relevant in some row; ``"union"``, labels
            that are relevant or predicted in some row; ``"all"``, every label.
        weighted: Whether labels are weighted by their support.
        size: The number of labels that ``over="all"`` averages; None for L.
        of_averages: Whether this is the F-score of the mean precision and the mean recall, not the mean of F-scores.
    """

    top: float = 1.0
    below: tuple[float, float] = (0.0, 1.0)
    over: LabelSet = "present"
    weighted: bool = False
    size: int | None = None
    of_averages: bool = False

    def value(self) -> float:
        """Return the average."""
        if self.of_averages:
            return self._of_averages(*(part.value() for part in self._averages()))
        values, weights = self._of(*self._counts()[1])
        total = self._total(weights)
        return float((weights * values).sum() / total) if total else float("nan")

    def rests_on_single_rows(self) -> bool:
        """Whether most labels are held by a single row, in an average over the labels held that reads predictions.

        The row that brings a label then gives it its precision. At half of these rows the value is the same, and with
        many rows it is another.
        """
        support = np.bincount(self.labels[self.held])
        return self.over == "present" and self.below[0] > 0 and 2 * int((support == 1).sum()) > int((support > 0).sum())

    def _counts(self) -> tuple[tuple[Flags, ...], list[Ints]]:
        """Return which cells are hits, predictions and support, shape (C,) each, and their counts, shape (L,) each."""
        flags = self.predicted & self.held, self.predicted, self.held
        return flags, [np.bincount(self.labels[some], minlength=self.num_labels) for some in flags]

    def _total(self, weights: Array) -> float:
        if self.over == "all" and not self.weighted:
            return float(self.num_labels if self.size is None else self.size)
        return float(weights.sum())

    def influence(self) -> Influence:
        """Return the average and the influences on it."""
        if self.of_averages:
            return self._influence_of_averages()
        flags, counts = self._counts()
        values, weights = self._of(*counts)
        value, total = self.value(), self._total(weights)
        # leaving out the row of a cell changes the counts of the cell's label; `less` holds the changed counts
        less = [count[self.labels] - some for count, some in zip(counts, flags, strict=True)]
        values_less, weights_less = self._of(*less)
        above = (weights * values)[self.labels] - weights_less * values_less
        below = weights[self.labels] - weights_less
        of_label = np.bincount(self.labels, minlength=self.num_labels)[self.labels]
        # wrong predictions tell nothing about recall, and little about F-scores: the rows that hold a label do
        tells = self.held | (self.below[1] == 0)
        telling = np.bincount(self.labels[tells], minlength=self.num_labels)[self.labels]
        factor = np.where(of_label > 1, np.sqrt((of_label - 1) / of_label), 1.0)
        factor = factor if self.top else factor * np.sqrt(share_of_singles(counts[0]))
        cells = factor * (above - value * below) / max(total, 1)
        left_out = (weights == 0) | (counts[1] + counts[2] == 0)
        found = influence_of(
            value,
            cells,
            self.rows,
            self.labels,
            self.inside,
            np.where(left_out, 0.0, weights * (values - value) / max(total, 1)),
            np.where(left_out, np.nan, values),
            np.where(tells, 1 / np.maximum(telling, 1), 0.0),
        )
        return replace(found, contributing_rows=int(np.unique(self.rows[self.held]).size))

    def _averages(self) -> list[LabelRows]:
        """Return what has the mean recall, and the mean precision."""
        return [replace(self, of_averages=False, top=1.0, below=below) for below in ((0.0, 1.0), (1.0, 0.0))]

    def _of_averages(self, recall: float, precision: float) -> float:
        both = precision * recall  # 0, or NaN without rows
        return self.top / (self.below[0] / precision + self.below[1] / recall) if both > 0 else both

    def _influence_of_averages(self) -> Influence:
        """Return the influences on F = t / (a/p + b/r) of mean precision p and mean recall r.

        dF/dp = a F^2 / (t p^2), and dF/dr = b F^2 / (t r^2).
        """
        recall, precision = (part.influence() for part in self._averages())  # recall first: fewer rows contribute to it
        value = self._of_averages(recall.value, precision.value)
        if not value > 0:  # no row has an influence
            return replace(recall.plus(precision, 0.0, 0.0), value=value)
        slopes = (self.below[1] / recall.value**2, self.below[0] / precision.value**2)
        changed = recall.plus(precision, *(slope * value**2 / self.top for slope in slopes))
        return replace(changed, value=value, of_labels=replace(self, of_averages=False).influence().of_labels)

    def _of(self, hits: Ints, predicted: Ints, support: Ints) -> tuple[Array, Array]:
        """Return the value and the weight of each label, from counts of any one shape."""
        if self.top:
            below = self.below[0] * predicted + self.below[1] * support
            values = np.divide(self.top * hits, below, out=np.zeros(hits.shape), where=below > 0)
        else:
            values = (hits > 0).astype(np.float64)
        if self.weighted:
            return values, support.astype(np.float64)
        among = {"present": support, "union": support + predicted, "all": np.ones_like(support)}[self.over]
        return values, (among > 0).astype(np.float64)


def share_of_singles(c: Ints) -> float:
    """Return the factor that corrects the variance of coverage, which is too large if only labels seen once give it.

    Let the count c of a label be Poisson with mean x. Whether the label is seen has the variance
    e^-x (1 - e^-x) = P(c=1) - P(c=2) + P(c=3) - ... The labels seen once give x e^-x = P(c=1), which is larger. The
    factor is the first number divided by the second.

    Args:
        c: Shape (L,), how often each label is seen.

    Returns:
        Between 0.25 and 1.

    Source: Good and Toulmin, Biometrika 43 (1956), for the series.
    """
    singles, parity = int((c == 1).sum()), np.where(c % 2 == 1, 1, -1)[c > 0]
    # the series is noisy where few labels are seen once; at x = 4 the ratio is about a quarter
    return float(np.clip(parity.sum() / max(singles, 1), 0.25, 1.0))


def influence_of(
    value: float,
    cells: Array,
    rows: Ints,
    labels: Ints,
    inside: Flags,
    label_influences: Array,
    of_labels: Array,
    shares: Array,
) -> Influence:
    """Return an average with its influences; the influence of a row is the sum over its cells.

    Args:
        value: The average.
        cells: Shape (C,), the influence of each cell.
        rows: Shape (C,), the row of each cell.
        labels: Shape (C,), the label of each cell.
        inside: Shape (N,), bool: which rows count.
        label_influences: Shape (L,), the influence of each label.
        of_labels: Shape (L,), the value of each label.
        shares: Shape (C,), the weight of each cell; the effective number of rows follows from it.
    """
    size = inside.size
    of_rows = np.bincount(rows, weights=cells, minlength=size)
    middle = of_rows[inside].mean() if inside.any() else 0.0
    weight = np.bincount(rows, weights=shares, minlength=size)
    numbers = rows * len(label_influences) + labels
    order = np.argsort(numbers, kind="stable")
    return Influence(
        value,
        np.where(inside, of_rows - middle, 0.0),
        inside,
        label_influences,
        (numbers[order], cells[order]),
        int((weight > 0).sum()),
        float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 0.0,
        of_labels,
    )


@dataclass(frozen=True, eq=False)
class AreaRows:
    """Bins of the scores of all labels, from which the area of each label is computed.

    Args:
        bins: Shape (N, L), the bin of each score, the lowest scores in bin 0.
        relevant: Shape (N, L), bool: whether the label is relevant in the row.
        inside: Shape (N,), the rows that count.
        area: ``"roc"``, or ``"precision"`` for average precision.
        average: How labels are averaged.
        marks: Shape (N, L), a number for each score; equal scores have equal numbers. Where a bin of a label holds
            different numbers, only bounds of the area are known. None where all scores of a bin are equal.
    """

    bins: NDArray[np.integer]
    relevant: Flags
    inside: Flags
    area: Area = "roc"
    average: Literal["macro", "weighted", "micro"] = "macro"
    marks: NDArray[np.integer] | None = None

    def among(self, rows: Flags) -> AreaRows:
        """Return the bins of some of the rows, given as shape (N,), bool."""
        return replace(self, inside=self.inside & rows)

    def content(self) -> tuple[Ints, Ints]:
        """Return the row of each cell, and a number that says what the cell adds, shape (N * L,) each."""
        size, num_labels = self.bins.shape
        numbers = 2 * (np.asarray(self.bins, np.int64) * num_labels + np.arange(num_labels)) + self.relevant
        return np.repeat(np.arange(size), num_labels), numbers.ravel()

    def value(self) -> float:
        """Return the average."""
        areas, support = np.zeros(self._num_labels), np.zeros(self._num_labels)
        for labels, _, _, (above, _), (_, found, _) in self._blocks():
            areas[labels], support[labels] = found, above.sum(axis=1)
        return self._averaged(areas, support)[1]

    @property
    def _num_labels(self) -> int:
        return 1 if self.average == "micro" else self.bins.shape[1]

    @property
    def _by_support(self) -> bool:
        return self.average == "weighted"

    def _averaged(self, areas: Array, support: Array | Ints) -> tuple[Array, float]:
        """Return the weights of the labels, and the average."""
        weights = np.where(np.isnan(areas), 0.0, support if self._by_support else 1.0)
        total = weights.sum()
        return weights, float((weights * np.nan_to_num(areas)).sum() / total) if total else float("nan")

    def _blocks(self) -> Iterator[tuple[slice, Any, Ints, Any, Any]]:
        """Yield counts and areas of some labels at a time.

        A part is: the labels; the index of their bins in rows that count; the place of each bin in the counts; the
        counts of relevant and of other rows, shape (labels, bins) each; the least, the found and the largest areas.
        """
        bins, relevant = np.asarray(self.bins)[self.inside], self.relevant[self.inside]
        marks = np.zeros_like(bins) if self.marks is None else np.asarray(self.marks)[self.inside]
        size, num_labels = int(bins.max(initial=0)) + 1, self._num_labels
        step = max(1, BLOCK // max(size, 1))
        for start in range(0, num_labels, step):
            labels = slice(start, min(start + step, num_labels))
            some = slice(None), labels if num_labels == bins.shape[1] else slice(None)  # micro: labels are one
            cell: Any = bins[some] + size * np.arange(labels.stop - start)
            shape = labels.stop - start, size
            above, below = (
                np.bincount(cell[relevant[some] == wanted], minlength=shape[0] * size).reshape(shape)
                for wanted in (True, False)
            )
            last = np.zeros(shape[0] * size, np.int64)
            last[cell] = marks[some]
            all_equal = np.bincount(cell[marks[some] != last[cell]], minlength=last.size).reshape(shape) == 0
            areas = AREAS[self.area](*map(torch.from_numpy, (above, below, all_equal))).numpy()
            yield labels, some, cell, (above, below), areas

    def influence(self) -> Influence:
        """Return the average and the influences on it."""
        relevant = self.relevant[self.inside]
        places = np.broadcast_to(np.arange(self.bins.shape[1]) if self._num_labels > 1 else 0, relevant.shape)
        areas, slopes, off = np.full(self._num_labels, np.nan), np.zeros(relevant.shape), np.zeros(self._num_labels)
        support = np.bincount(places[relevant], minlength=self._num_labels)
        influences = _roc_influences if self.area == "roc" else _precision_influences
        for labels, some, cell, (above, below), (least, found, most) in self._blocks():
            areas[labels], off[labels] = found, np.maximum(most - found, found - least)
            of_relevant, of_others = influences(above, below, found[:, None])
            slopes[some] = np.where(relevant[some], of_relevant.reshape(-1)[cell], of_others.reshape(-1)[cell])
        weights, value = self._averaged(areas, support)
        known, total = ~np.isnan(areas), weights.sum()
        beyond = np.where(known, areas - value, 0.0)
        cells = np.where(known[places], slopes, 0.0) * weights[places] / max(total, 1)
        leaves = relevant & (support[places] == 1) & known[places]  # the label leaves the average with its only row
        weighs = relevant & known[places] if self._by_support else leaves
        cells = np.where(leaves, 0.0, cells) + np.where(weighs, beyond[places] / max(total, 1), 0.0)
        rows = np.broadcast_to(np.flatnonzero(self.inside)[:, None], relevant.shape)
        shares = np.where(relevant, 1 / np.maximum(support[places], 1), 0.0)
        influence = influence_of(
            value, cells.ravel(), rows.ravel(), places.ravel().astype(np.int64), self.inside,
            weights * beyond / max(total, 1), areas, shares.ravel(),
        )  # fmt: skip
        return replace(influence, bin_error=float((weights * np.where(known, off, 0)).sum() / max(total, 1)))


Exposure: TypeAlias = Literal["coverage", "gini", "entropy", "mean", "lift", "personalization"]


@dataclass(frozen=True, eq=False)
class ShownRows(Cells):
    """The labels that rows show, for a function F of the counts c. A count says how often a label is shown.

    The influence of a cell is F(c) - F(c - 1): the loss when its label is shown once less.

    Args:
        rows: Shape (C,), the row of each cell: a label that a row shows or holds.
        labels: Shape (C,), the label of each cell.
        predicted: Shape (C,), whether the row shows the label.
        held: Shape (C,), whether the label is relevant in the row. Only the lift reads it: the mean weight of the
            labels shown, divided by the mean weight of the relevant labels.
        inside: Shape (N,), the rows that count.
        num_labels: L.
        measure: The name of the function F.
        size: How many labels the bucket holds; L without buckets.
        weights: Shape (L,), the weight of each label, such as its training count.
    """

    measure: Exposure
    size: int
    weights: Array

    def value(self) -> float:
        """Return the value."""
        return self._value_and_cells()[0]

    def influence(self) -> Influence:
        """Return the value and the influences on it."""
        value, cells = self._value_and_cells()
        none, ones = np.zeros(self.num_labels), np.ones(self.rows.size)
        return influence_of(value, cells, self.rows, self.labels, self.inside, none, none, ones)

    def _value_and_cells(self) -> tuple[float, Array]:
        """Return the value, and the influence of each cell, shape (C,)."""
        value, slopes = self._of(np.bincount(self.labels[self.predicted], minlength=self.num_labels))
        cells = np.where(self.predicted, slopes[self.labels], 0.0)
        if self.measure == "lift":
            below, its = self._of(np.bincount(self.labels[self.held], minlength=self.num_labels))
            below = below or float("nan")  # NaN, as for the metric, if no relevant label is seen in training
            cells = (cells - value / below * np.where(self.held, its[self.labels], 0.0)) / below
            value /= below
        return value, cells

    def _of(self, c: Ints) -> tuple[float, Array]:
        """Return F of the counts ``c``, shape (L,), and its loss when each label is shown once less, shape (L,)."""
        total, seen, rows = float(c.sum()), c > 0, int(self.inside.sum())
        if not self.size or (self.measure == "personalization" and rows < 2):
            return float("nan"), np.zeros(self.num_labels)
        if self.measure == "coverage":
            return float(seen.sum() / self.size), (c == 1) * (share_of_singles(c) ** 0.5 / self.size)
        if not total:
            return float("nan"), np.zeros(self.num_labels)
        if self.measure == "personalization":  # total / rows is the length of a list
            pairs = total * (rows - 1)
            return 1 - float((c * (c - 1.0)).sum()) / pairs, -2 * np.maximum(c - 1, 0) / pairs
        # the other measures are means over all labels shown: of weights, of -ln p, or of places in the order of c
        if self.measure == "entropy":
            times = np.log(np.maximum(c, 1)) * c
            top, lost, value = times.sum(), times - np.log(np.maximum(c - 1, 1)) * (c - 1), np.log(total)
            less = max(total - 1, 1)
            return float(value - top / total), np.where(
                seen, value - top / total - np.log(less) + (top - lost) / less, 0
            )
        weights = self.weights
        if self.measure == "gini":
            from scipy.stats import rankdata  # importing tailmetrics.significance needs no scipy

            # among labels with equal counts, the first one can be shown once less, and the order stays
            places, firsts = np.zeros(self.num_labels), np.zeros(self.num_labels)
            unseen = self.size - seen.sum()
            places[seen], firsts[seen] = (unseen + rankdata(c[seen], how) for how in ("ordinal", "min"))
            weights, lost = ((2 * place - self.size - 1) / self.size for place in (places, firsts))
        else:
            lost = weights
        top = (c * weights).sum()
        return float(top / total), np.where(seen, top / total - (top - lost) / max(total - 1, 1), 0)


OverLabels: TypeAlias = LabelRows | AreaRows | ShownRows
"""The contributions of rows to the counts of labels, from which an average over labels is computed."""

SPLITS = 8
"""How often the rows are split: the halves of one split differ by chance as much as an interval is wide."""


def at_half_the_rows(one: OverLabels) -> float:
    """Return the value at half of the rows: the mean over the halves of eight splits.

    Rows are taken in the order of a hash of what they add, so that their own order changes nothing; a hash of the place
    in this order tells in which half a row is.
    """
    rows, numbers = one.content()
    hashes = np.zeros(one.inside.size, np.int64)
    np.add.at(hashes, rows, mixed(numbers))
    bits = np.empty_like(hashes)
    bits[np.argsort(hashes, kind="stable")] = mixed(np.arange(hashes.size))
    found = [one.among((bits >> split & 1) == side).value() for split in range(SPLITS) for side in (0, 1)]
    known = [value for value in found if value == value]
    return fsum(known) / len(known) if known else float("nan")


def mixed(numbers: Ints) -> Ints:
    """Return int64 hashes, of which every bit depends on every bit of the given number.

    Source: the finaliser of SplitMix64; Steele, Lea and Flood, Fast splittable pseudorandom number generators (2014).
    """
    hashes = numbers.astype(np.uint64)  # a shift puts zeros in from the left
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes ^= hashes >> shift
        hashes *= factor
    hashes ^= hashes >> 31
    return hashes.view(np.int64)


def _roc_influences(relevant: Ints, others: Ints, area: Array) -> tuple[Array, Array]:
    """Return the change of each label's ROC area by one more relevant row, and by one more other row, in a bin.

    A = sum_b R_b (O_<b + O_b / 2) / (m n), with R_b relevant rows and O_b other rows in bin b, m and n in all bins.
    Counts have shape (L, B), areas (L, 1), and both results (L, B).
    """
    m, n = relevant.sum(axis=1, keepdims=True), others.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        beaten = (others.cumsum(axis=1) - others / 2) / n
        beating = (m - relevant.cumsum(axis=1) + relevant / 2) / m
        of_relevant = (beaten - area) / np.sqrt(m * np.maximum(m - 1.0, 1))
        of_others = (beating - area) / np.sqrt(n * np.maximum(n - 1.0, 1))
    return of_relevant, of_others


def _precision_influences(relevant: Ints, others: Ints, area: Array) -> tuple[Array, Array]:
    """Return the change of each label's average precision by one more relevant, and one more other, row in a bin.

    AP = sum_b R_b / m * T_b / (T_b + F_b), with T_b and F_b the relevant and other rows in bin b or above.
    """
    m = relevant.sum(axis=1, keepdims=True)
    true, false = (np.flip(np.flip(some, 1).cumsum(axis=1), 1) for some in (relevant, others))
    with np.errstate(divide="ignore", invalid="ignore"):
        both = (true + false).astype(np.float64)
        precision = np.where(both > 0, true / both, 0.0)
        # a row in bin b also counts in T and F of every lower bin
        gains = np.where(both > 0, relevant * false / both**2, 0.0).cumsum(axis=1)
        costs = np.where(both > 0, relevant * true / both**2, 0.0).cumsum(axis=1)
        factor = np.sqrt(m / np.maximum(m - 1, 1))
        return factor * (precision + gains - area) / m, -factor * costs / m
