"""Values of single labels: which labels a model misses, which it suggests wrongly, and how values follow the count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tailmetrics.report.text import csv_text

COUNTS = ("count", "support", "predicted", "hits")
"""What ``TopKCollection.per_label`` counts; the other columns are values."""
POINTS = 60
"""Places of a curve: neighbours are 11 pixels apart on a page 660 pixels wide, so that it looks smooth."""
FEWEST = 3
"""Labels that must carry a mean, as counted by their weights, for a band: with 2.4, one of 95 % held 88 %."""
NORMAL = 1.959964
"""The normal quantile of 97.5 %: a band of 95 %."""


@dataclass(frozen=True, eq=False)
class LabelTable:
    """What is known of each label, as ``TopKCollection.per_label()`` returns it.

    Attributes:
        columns: Vectors (L,): ``count`` in training, ``support``, ``predicted`` and ``hits`` in what was evaluated
            (behind the last two ``@k`` where there are several cut-offs), and the values by key.
        names: Name of each label; None where labels are numbers.
        buckets: Shape (L,): the bucket of each label, an index into ``bucket_names``; None without buckets.
        bucket_names: Head first.
    """

    columns: Mapping[str, Tensor]
    names: Sequence[str] | None = None
    buckets: Tensor | None = None
    bucket_names: Sequence[str] = ()

    @property
    def cuts(self) -> list[str]:
        """What stands behind ``hits``: nothing, or ``@5`` and so on for several cut-offs."""
        return [name.removeprefix("hits") for name in self.columns if _stem(name) == "hits" and " (" not in name]

    @property
    def values(self) -> list[str]:
        """Keys of the values, such as ``recall@10``."""
        return [name for name in self.columns if _stem(name) not in COUNTS]

    def missed(self, cut: str) -> Tensor:
        """Return how often each label was relevant and not predicted, shape (L,)."""
        return self.columns["support"] - self.columns[f"hits{cut}"]

    def wrong(self, cut: str) -> Tensor:
        """Return how often each label was predicted and not relevant, shape (L,)."""
        return self.columns[f"predicted{cut}"] - self.columns[f"hits{cut}"]

    @property
    def deepest(self) -> str:
        """The cut-off by which labels are ordered: the last one."""
        return self.cuts[-1]

    @cached_property
    def by_misses(self) -> list[int]:
        """The labels that were relevant or predicted, the most often missed first, then the lower id."""
        met = self.columns["support"] > 0
        for cut in self.cuts:
            met = met | (self.columns[f"predicted{cut}"] > 0)
        order = self.missed(self.deepest).sort(descending=True, stable=True).indices
        found: list[int] = order[met[order]].tolist()
        return found

    def most_missed(self, number: int) -> list[int]:
        """Return the labels that were missed most often: at most ``number`` of each bucket, or of all without one."""
        missed = self.missed(self.deepest)
        found: dict[int, list[int]] = {}
        for label in self.by_misses:
            if missed[label] > 0:
                found.setdefault(self._bucket(label), []).append(label)
        return [label for bucket in sorted(found) for label in found[bucket][:number]]

    def most_wrong(self, number: int) -> list[int]:
        """Return the labels that were suggested most often where they are not relevant."""
        wrong = self.wrong(self.deepest)
        order = wrong.sort(descending=True, stable=True).indices[:number]
        found: list[int] = order[wrong[order] > 0].tolist()
        return found

    def header(self) -> list[str]:
        """Return the names of the cells of a line."""
        counts = [f"{what}{cut}" for cut in self.cuts for what in ("predicted", "hits", "missed", "wrong")]
        name = ["name"] if self.names is not None else []
        bucket = ["bucket"] if self.buckets is not None else []
        count = ["count"] if "count" in self.columns else []
        return ["label", *name, *bucket, *count, "support", *counts, *self.values]

    def record(self, label: int) -> dict[str, Any]:
        """Return what is known of a label, by the names of the columns."""
        return {name: cells[0] for name, cells in self.cells([label]).items()}

    def cells(self, labels: Sequence[int]) -> dict[str, list[Any]]:
        """Return the columns of the table for some labels."""
        at = torch.tensor(labels, dtype=torch.int64)
        found: dict[str, list[Any]] = {"label": list(labels)}
        if self.names is not None:
            found["name"] = [self.names[label] for label in labels]
        if self.buckets is not None:
            found["bucket"] = [self.bucket_names[bucket] for bucket in self.buckets[at].tolist()]
        for cut in self.cuts:
            found |= {f"missed{cut}": self.missed(cut)[at].tolist(), f"wrong{cut}": self.wrong(cut)[at].tolist()}
        found |= {name: column[at].tolist() for name, column in self.columns.items()}
        return {name: found[name] for name in self.header()}

    def csv(self) -> str:
        """Return a line for each label that was relevant or predicted, the most often missed first."""
        return csv_text((self.header(), self.lines()))

    def lines(self) -> Iterator[Sequence[object]]:
        """Yield the cells of each label that was relevant or predicted, the most often missed first."""
        return zip(*self.cells(self.by_misses).values(), strict=True)

    def curves(self, counts: Tensor | None = None) -> dict[str, list[CurvePoint]]:
        """Return each value as a function of the training count, averaged locally and weighted by the positives.

        Args:
            counts: Training counts, shape (L,), where the table has none. Without any there are no curves.
        """
        counts = self.columns.get("count", counts)
        if counts is None:
            return {}
        found = {name: local_means(counts, self.columns[name], self.columns["support"]) for name in self.values}
        return {name: points for name, points in found.items() if points}

    def _bucket(self, label: int) -> int:
        return 0 if self.buckets is None else int(self.buckets[label])


def _stem(name: str) -> str:
    """Return what a column holds: ``hits`` of ``hits@5`` and of ``hits (recall_min_gain2@5)``, as two kinds have it."""
    return name.partition("@")[0].partition(" (")[0]


class CurvePoint(NamedTuple):
    """The local mean at one training count; count 0 is the mean over the labels that training never showed.

    ``low`` and ``high`` are NaN where fewer than three labels carry the mean. ``effective_labels`` is how many do,
    ``positives`` how many relevant labels stand behind it, each counted by its kernel.
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

    which also holds where labels vary unequally (HC3 of MacKinnon and White 1985). Student's t with one degree of
    freedom less than the labels that carry the mean, (sum a)^2 / sum a^2 (Kish 1965), makes it a band. It is one of the
    local mean of the true values, which is flatter than they are where they bend. The bandwidth h is
    .9 min(deviation, interquartile range / 1.34) n^(-1/5) (Silverman 1986, eq. 3.31), both weighted, with
    n = (sum w)^2 / sum w^2 labels: it depends on counts and positives alone, so that two runs on the same
    targets are smoothed alike.

    Args:
        counts: Training counts, shape (L,).
        values: Shape (L,); NaN is left out.
        weights: Positives, shape (L,).

    Returns:
        Points from the most frequent label to the rarest, then that of the unseen labels; none with fewer than three
        different counts.
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
    """Return value, ends of the band, labels and positives behind each place of a falling grid."""
    places, of = np.unique(x, return_inverse=True)  # labels of one count have one kernel
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
    if y.min() >= 0 and y.max() <= 1:  # shares: so is their mean
        ends = np.maximum(ends[0], 0.0), np.minimum(ends[1], 1.0)
    return [tuple(point) for point in np.stack([mean, *ends, labels, total], axis=1).tolist()]
