"""Values of single labels: labels that a model misses or wrongly predicts, and values by training count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tailmetrics.report.charts import Chart, Mark, Scale, Tick, band_marks, run_look, scale_from_zero
from tailmetrics.report.document import Records, Section
from tailmetrics.report.formatting import number, sentences, short_name
from tailmetrics.report.text import csv_text

if TYPE_CHECKING:
    from tailmetrics.significance.blind_spots import BlindSpots

COUNTS = ("count", "support", "predicted", "hits")
"""The columns of ``TopKCollection.per_label`` that hold counts; the other columns hold values."""
POINTS = 60
"""Points of a curve: neighbours are 11 pixels apart on a page 660 pixels wide, so that the curve looks smooth."""
FEWEST = 3
"""The smallest effective number of labels of a mean with a band: with 2.4 labels, a band of 95 % held 88 %."""
NORMAL = 1.959964
"""The 97.5 % quantile of the normal distribution, for a band of 95 %."""


TESTED = ("expected", "q")
"""The columns of the tests for blind spots."""


@dataclass(frozen=True)
class BlindSpot:
    """A label that is found significantly less often than the other labels of its bucket.

    Attributes:
        label: The id of the label.
        support: The number of rows in which it is relevant.
        hits: The number of these rows that list it.
        expected: The hits if it were found as often as the other labels of its bucket.
        q: The p-value, corrected for the number of labels.
        name: The name of the label; empty where labels are numbers.
        bucket: The bucket of the label; empty without buckets.
        instead: At most three labels that are most often listed in its place: label, name, and number of rows.
    """

    label: int
    support: int
    hits: int
    expected: float
    q: float
    name: str = ""
    bucket: str = ""
    instead: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, eq=False)
class LabelTable:
    """A table with the counts and values of each label, as ``TopKCollection.per_label()`` returns it.

    Attributes:
        columns: Vectors (L,): ``count`` in training; ``support``, ``predicted`` and ``hits`` in the evaluation (the
            last two end in ``@k`` if there are several cut-offs); and the values by key.
        names: Name of each label; None where labels are numbers.
        buckets: Shape (L,): the bucket of each label, an index into ``bucket_names``; None without buckets.
        bucket_names: Names of the buckets, head first.
        instead: Blind spot -> labels most often listed in its place, with the number of rows.
        crowded_support: Shape (L,): how often each label is relevant in rows with more than k relevant labels, of which
            no list finds all. The test for blind spots leaves these rows out. None if they were not counted.
        crowded_hits: Shape (L,): how often each label is found in these rows.
        crowded_rows: The number of these rows.
        clustered: Whether rows are drawn in clusters. The test for blind spots takes rows as independent, and is not
            made then.
    """

    columns: Mapping[str, Tensor]
    names: Sequence[str] | None = None
    buckets: Tensor | None = None
    bucket_names: Sequence[str] = ()
    instead: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    clustered: bool = False
    crowded_support: Tensor | None = None
    crowded_hits: Tensor | None = None
    crowded_rows: int = 0

    @cached_property
    def cuts(self) -> list[str]:
        """The endings of the columns ``hits``: "", or for several cut-offs ``@5`` and so on, the deepest last."""
        cuts = [name.removeprefix("hits") for name in self.columns if _stem(name) == "hits" and " (" not in name]
        return [cut for cut in cuts if f"predicted{cut}" in self.columns]

    @cached_property
    def k(self) -> str:
        """The cut-off of the last of :attr:`cuts`, as in names of values; empty where they have none, or several."""
        found = {name.partition("@")[2] for name in self.columns if _stem(name) not in COUNTS and " (" not in name}
        return self.cuts[-1].removeprefix("@") or (found.pop() if len(found) == 1 else "")

    @cached_property
    def whole(self) -> dict[str, Tensor]:
        """The columns in the order of the table, with ``missed``, support - hits, and ``wrong``, predicted - hits."""
        found = {name: self.columns[name] for name in ("count", "support") if name in self.columns}
        for cut in self.cuts:
            predicted, hits = self.columns[f"predicted{cut}"], self.columns[f"hits{cut}"]
            found |= {f"predicted{cut}": predicted, f"hits{cut}": hits}
            found |= {f"missed{cut}": self.columns["support"] - hits, f"wrong{cut}": predicted - hits}
        found |= {name: column for name, column in self.columns.items() if _stem(name) not in COUNTS}
        tests = self.tests
        return found if tests is None else found | {name: torch.from_numpy(getattr(tests, name)) for name in TESTED}

    @cached_property
    def tests(self) -> BlindSpots | None:
        """The tests for blind spots, at the deepest cut-off; None without counts of hits, or without SciPy."""
        support, hits = self.columns.get("support"), self.columns.get(f"hits{self.cuts[-1]}") if self.cuts else None
        if support is None or hits is None or hits.is_floating_point() or self.clustered:
            return None  # weighted rows, and rows that are alike, are no trials
        if find_spec("scipy") is None:
            return None
        from tailmetrics.significance.blind_spots import blind_spots

        return blind_spots(*self._trials(support, hits), self.buckets)

    def _trials(self, support: Tensor, hits: Tensor) -> tuple[Tensor, Tensor]:
        """Return hits and support of each label in the rows of which a list can find all labels."""
        if self.crowded_support is None or self.crowded_hits is None:
            return hits, support
        return hits - self.crowded_hits, support - self.crowded_support

    @cached_property
    def blind_spots(self) -> list[BlindSpot]:
        """The labels that are found significantly less often than the others of their bucket, the least q first."""
        listed = [] if self.tests is None else self.tests.listed.tolist()
        return [self._blind_spot(label) for label in listed]

    def _blind_spot(self, label: int) -> BlindSpot:
        hits, support = (
            column[label].item() for column in self._trials(self.whole["support"], self.whole[f"hits{self.cuts[-1]}"])
        )
        expected, q = (self.whole[name][label].item() for name in TESTED)
        bucket = "" if self.buckets is None else self.bucket_names[int(self.buckets[label])]
        instead = ({"label": one, "name": self._name(one), "rows": rows} for one, rows in self.instead.get(label, ()))
        return BlindSpot(label, int(support), int(hits), expected, q, self._name(label), bucket, list(instead))

    def _name(self, label: int) -> str:
        return "" if self.names is None else self.names[label]

    def rows_left_out(self) -> str:
        """Return in words how many rows the tests for blind spots leave out; empty if none."""
        if not self.crowded_rows:
            return ""
        return (
            f"{self.crowded_rows:,} rows with more than {self.k} relevant labels are left out, because no list of "
            f"{self.k} holds them all"
        )

    def too_few_rows(self) -> str:
        """Return in words how many labels of each bucket have too few rows to be blind spots."""
        if self.tests is None:
            return ""
        few, names = self.tests.too_few_rows & ~np.isnan(self.tests.expected), self.bucket_names or ("all",)
        bucket = np.zeros(len(few), np.int64) if self.buckets is None else self.buckets.numpy()
        counts = (np.bincount(of, minlength=len(names)).tolist() for of in (bucket[few], bucket))
        said = [f"{some:,} of {of:,} labels in {name}" for some, of, name in zip(*counts, names, strict=True) if some]
        return f"too few rows to tell: {', '.join(said)}" if said else ""

    @cached_property
    def by_misses(self) -> list[int]:
        """The labels that were relevant or predicted: the most often missed first; of equals, the lower id first."""
        met = torch.stack([self.columns["support"], *(self.columns[f"predicted{cut}"] for cut in self.cuts)]).any(0)
        order = self.whole[f"missed{self.cuts[-1]}"].sort(descending=True, stable=True).indices
        found: list[int] = order[met[order]].tolist()
        return found

    def most(self, what: str, number: int, of_each: bool = False) -> list[int]:
        """Return the ``number`` labels most often ``"missed"`` or ``"wrong"``, of all labels or of each bucket."""
        column, found = self.whole[f"{what}{self.cuts[-1]}"], dict[int, list[int]]()
        order = column.sort(descending=True, stable=True).indices
        for label in order[column[order] > 0].tolist():
            of_label = int(self.buckets[label]) if of_each and self.buckets is not None else 0
            found.setdefault(of_label, []).append(label)
        return [label for bucket in sorted(found) for label in found[bucket][:number]]

    def cells(self, labels: Sequence[int]) -> dict[str, list[Any]]:
        """Return the columns of the table for some labels."""
        at = torch.tensor(labels, dtype=torch.int64)
        found: dict[str, list[Any]] = {"label": list(labels)}
        if self.names is not None:
            found["name"] = [self.names[label] for label in labels]
        if self.buckets is not None:
            found["bucket"] = [self.bucket_names[bucket] for bucket in self.buckets[at].tolist()]
        return found | {name: column[at].tolist() for name, column in self.whole.items()}

    def records(self) -> Records:
        """Return a line for each label that was relevant or predicted, the most often missed first."""
        cells = self.cells(self.by_misses)
        return list(cells), zip(*cells.values(), strict=True)

    def csv(self) -> str:
        """Return :meth:`records` as CSV."""
        return csv_text(self.records())

    def curves(self, counts: Tensor | None = None) -> dict[str, list[CurvePoint]]:
        """Return each value as a function of the training count, averaged locally and weighted by the positives.

        Args:
            counts: Training counts, shape (L,), for a table without counts. Without any counts there are no curves.
        """
        counts = self.columns.get("count", counts)
        if counts is None:
            return {}
        names = [name for name in self.columns if _stem(name) not in COUNTS]
        found = {name: local_means(counts, self.columns[name], self.columns["support"]) for name in names}
        return {name: points for name, points in found.items() if points}


def _stem(name: str) -> str:
    """Return a column's name without cut-off and metric: ``hits`` of ``hits@5`` or ``hits (recall_min_gain2@5)``."""
    return name.partition("@")[0].partition(" (")[0]


class CurvePoint(NamedTuple):
    """The local mean at one training count; at count 0, the mean over the labels never seen in training.

    ``low`` and ``high`` are the ends of the band, NaN with fewer than three effective labels. ``effective_labels`` is
    the effective number of labels of the mean; ``positives`` is its number of positives, weighted by the kernel.
    """

    training_count: float
    value: float
    low: float
    high: float
    effective_labels: float
    positives: float


def local_means(counts: Tensor, values: Tensor, weights: Tensor) -> list[CurvePoint]:
    r"""Return the mean of values of labels as a function of the training count, with a band of 95 %.

    With x the logarithm (base 10) of the count, w the weight (positives) and y the value of a label, the mean at x is

        m(x) = sum_l a_l(x) y_l,    a_l(x) = w_l K((x - x_l) / h) / sum_j w_j K((x - x_j) / h)

    with the normal kernel K (Nadaraya 1964; Watson 1964), and its variance, with labels as the units that vary,

        sum_l a_l(x)^2 (y_l - m(x_l))^2 / (1 - a_l(x_l))^2

    which also holds where labels vary unequally (HC3 of MacKinnon and White 1985). The band comes from Student's t; its
    degrees of freedom are the effective number of labels, (sum a)^2 / sum a^2 (Kish 1965), minus 1. The band is for the
    local mean of the true values, which is flatter than the true values where these bend. The bandwidth h is
    .9 min(deviation, interquartile range / 1.34) n^(-1/5) (Silverman 1986, eq. 3.31), both weighted, with
    n = (sum w)^2 / sum w^2 labels. The bandwidth depends on counts and positives alone, so that two runs on the same
    targets are smoothed alike.

    Args:
        counts: Training counts, shape (L,).
        values: Shape (L,); NaN is left out.
        weights: Positives, shape (L,).

    Returns:
        Points from the most frequent label to the rarest, then the point of the unseen labels; no points with fewer
        than three different counts.
    """
    count, y, w = (np.asarray(one.cpu(), dtype=np.float64) for one in (counts, values, weights))
    known = (w > 0) & np.isfinite(y)
    seen = known & (count > 0)
    x = np.log10(count[seen])
    if len(np.unique(x)) < 3:
        return []
    grid = np.linspace(x.max(), x.min(), POINTS)
    inside = _means_at(grid, x, y[seen], w[seen], max(_bandwidth(x, w[seen]), 2 * (grid[0] - grid[1])))
    found = [CurvePoint(10**at, *rest) for at, rest in zip(grid.tolist(), inside, strict=True)]
    never = known & (count == 0)
    if never.any():
        zeros = np.zeros(int(never.sum()))
        found += [CurvePoint(0.0, *rest) for rest in _means_at(np.zeros(1), zeros, y[never], w[never], 1.0)]
    return found


def _bandwidth(x: Any, w: Any) -> float:
    order = np.argsort(x)
    share = np.cumsum(w[order]) / w.sum()
    quarters = x[order][np.searchsorted(share, (0.25, 0.75))]
    deviation = math.sqrt(np.average((x - np.average(x, weights=w)) ** 2, weights=w))
    width = float(quarters[1] - quarters[0]) / 1.34
    labels = float(w.sum() ** 2 / (w**2).sum())
    return 0.9 * min(deviation, width or deviation) * math.pow(labels, -0.2)


def _means_at(grid: Any, x: Any, y: Any, w: Any, h: float) -> list[tuple[float, ...]]:
    """Return mean, ends of the band, effective labels and positives at each point of a descending grid."""
    places, of = np.unique(x, return_inverse=True)  # labels with equal counts share a kernel
    kernel = np.exp(-0.5 * ((grid[:, None] - places) / h) ** 2)

    def summed(terms: Any) -> Any:
        return np.bincount(of, weights=terms, minlength=len(places))

    total = kernel @ summed(w)
    mean = kernel @ summed(w * y) / total
    up = slice(None, None, -1)
    leverage = np.clip(w / np.interp(x, grid[up], total[up]), 0.0, 0.999)
    residual = (y - np.interp(x, grid[up], mean[up])) / (1 - leverage)
    error = np.sqrt(kernel**2 @ summed((w * residual) ** 2)) / total
    labels = total**2 / (kernel**2 @ summed(w**2))
    freedom = np.maximum(labels - 1, 1)
    # three terms of Student's t (Abramowitz and Stegun 1964, 26.7.5): 2 % too little with 5 labels, 10 % with 3
    z = NORMAL
    quantile = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    reach = np.where(labels >= FEWEST, quantile * error, np.nan)
    ends = mean - reach, mean + reach
    if y.min() >= 0 and y.max() <= 1:  # the values are shares, so their mean is one
        ends = np.maximum(ends[0], 0.0), np.minimum(ends[1], 1.0)
    return [tuple(point) for point in np.stack([mean, *ends, labels, total], axis=1).tolist()]


UNSEEN_AT, CURVE_END = 0.97, 0.87
"""The place of the mean of the unseen labels, and the right end of a curve, so that names do not overlap."""


def curve_section(
    title: str,
    curves: Mapping[str, Mapping[str, Sequence[CurvePoint]]],
    edges: Sequence[tuple[float, str]],
    legend: Sequence[str] = (),
) -> Section:
    """Return the section of values by training count: a drawing for each metric, with a curve for each run.

    Args:
        title: The heading.
        curves: Points by metric and run.
        edges: The training count at the end of each bucket, NaN for the last bucket; and the bucket's name.
        legend: The runs.
    """
    said = sentences(
        "mean over the labels that occur about as often in training, weighted by their positives, with a band of 95 %",
        "vertical lines: the edges of the buckets" if edges else "",
        "a curve does not jump where an edge moves",
    )
    charts = [_curve(metric, of_runs, edges) for metric, of_runs in curves.items()]
    return Section("curve", title, said, charts=charts, legend=legend)


def _curve(metric: str, curves: Mapping[str, Sequence[CurvePoint]], edges: Sequence[tuple[float, str]]) -> Chart:
    """Return the drawing of one metric: a curve for each run, frequent labels on the left, unseen labels last."""
    points = [point for of_run in curves.values() for point in of_run]
    seen = [point.training_count for point in points if point.training_count]
    unseen = len(seen) < len(points)
    end = CURVE_END if unseen else 1.0
    counts = Scale(min(seen), max(seen), "log")
    up = scale_from_zero([level for point in points for level in point[1:4]], [])

    def across(training_count: float) -> float:
        return end * (1 - counts.share(training_count)) if training_count else UNSEEN_AT

    marks, left = [], 0.0
    for at, name in edges:
        right = end if math.isnan(at) else min(end, max(0.0, across(at)))
        if right < end:
            marks.append(Mark("line", [(right, 0.0), (right, 1.0)], style="thin"))
        if right - left > 0.02 + 0.018 * len(short_name(name)):
            marks.append(Mark("text", [((left + right) / 2, 1.0)], style="above", text=short_name(name)))
        left = right
    parts = []
    for place, (run, of_run) in enumerate(curves.items()):
        colour = run_look(place)[0]
        drawn = [(across(one.training_count), *one[1:4]) for one in of_run if one.training_count]
        marks += band_marks(drawn, up, colour)
        for one in of_run:
            if not one.training_count:
                if math.isfinite(one.low):
                    ends = [(UNSEEN_AT, up.share(one.low)), (UNSEEN_AT, up.share(one.high))]
                    marks.append(Mark("line", ends, colour))
                marks.append(Mark("dot", [(UNSEEN_AT, up.share(one.value))], colour, "circle"))
        first_and_last = of_run[0], of_run[-1]
        said = (f"{number(one.value)} at {one.training_count:,.0f} occurrences" for one in first_and_last)
        parts.append(f"{run}{': ' if run else ''}{', '.join(said)}")
    ticks = [Tick(end * (1 - tick.at), tick.texts) for tick in counts.ticks()]
    return Chart(
        metric,
        marks,
        f"{metric} by training count: {'; '.join(parts)}",
        across=[*ticks, *([Tick(UNSEEN_AT, ("unseen",))] if unseen else [])],
        up=up.ticks(),
        names=("occurrences in training", ""),
        height=170,
        gutter=34,
    )
