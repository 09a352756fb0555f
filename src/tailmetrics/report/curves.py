"""Values of single labels as functions of the training count, and their drawing.

The values are local means with a band.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from tailmetrics.report.charts import (
    Chart,
    Mark,
    Scale,
    Tick,
    run_look,
    scale_from_zero,
)
from tailmetrics.report.document import Section
from tailmetrics.report.formatting import number, sentences, short_name

POINTS = 60
"""Points of a curve: 11 pixels apart on a page 660 pixels wide, which looks smooth."""
FEWEST = 3
"""The smallest effective number of labels of a mean with a band.

With 2.4 labels, a band of 95 % held 88 %.
"""
NORMAL = 1.959964
"""The 97.5 % quantile of the normal distribution, for a band of 95 %."""
UNSEEN_AT, CURVE_END = 0.97, 0.87
"""The place of the unseen labels' mean, and the right end of a curve.

They are so far apart that names do not overlap.
"""


class CurvePoint(NamedTuple):
    """The local mean at one training count; at count 0, the mean over unseen labels.

    ``low`` and ``high`` are the ends of the band, NaN with fewer than three effective
    labels. ``effective_labels`` is the effective number of labels of the mean;
    ``positives`` is its number of positives, weighted by the kernel.
    """

    training_count: float
    value: float
    low: float
    high: float
    effective_labels: float
    positives: float


def local_means(counts: Tensor, values: Tensor, weights: Tensor) -> list[CurvePoint]:
    r"""Return the local mean of labels' values by training count, with a band of 95 %.

    With x the logarithm (base 10) of the count, w the weight (positives) and y the
    value of a label, the mean at x is

        m(x) = sum_l a_l(x) y_l,    a_l(x) = w_l K((x - x_l) / h) / sum_j w_j K((x - x_j) / h)

    with the normal kernel K (Nadaraya 1964; Watson 1964), and its variance, with labels
    as the units that vary,

        sum_l a_l(x)^2 (y_l - m(x_l))^2 / (1 - a_l(x_l))^2

    which also holds where labels vary unequally (HC3 of MacKinnon and White 1985). The
    band comes from Student's t; its degrees of freedom are the effective number of
    labels, (sum a)^2 / sum a^2 (Kish 1965), minus 1. The band is for the local mean of
    the true values, which is flatter than the true values where these bend. The
    bandwidth h is .9 min(deviation, interquartile range / 1.34) n^(-1/5) (Silverman
    1986, eq. 3.31), both weighted, with n = (sum w)^2 / sum w^2 labels. The bandwidth
    depends on counts and positives alone, so that two runs on the same targets are
    smoothed alike.

    Args:
        counts: Training counts, shape (L,).
        values: Shape (L,); NaN is left out.
        weights: Positives, shape (L,).

    Returns:
        Points from the most frequent label to the rarest, then the point of the unseen
        labels; no points with fewer than three different counts.
    """
    count, y, w = (
        np.asarray(column.cpu(), dtype=np.float64)
        for column in (counts, values, weights)
    )
    is_measured = (w > 0) & np.isfinite(y)

    is_seen = is_measured & (count > 0)
    x = np.log10(count[is_seen])
    if len(np.unique(x)) < 3:
        return []
    grid = np.linspace(x.max(), x.min(), POINTS)
    bandwidth = max(_bandwidth(x, w[is_seen]), 2 * (grid[0] - grid[1]))
    points = []
    for place, mean in zip(
        grid.tolist(),
        _means_at(grid, x, y[is_seen], w[is_seen], bandwidth),
        strict=True,
    ):
        points.append(CurvePoint(10**place, *mean))

    is_unseen = is_measured & (count == 0)
    if is_unseen.any():
        same_place = np.zeros(int(is_unseen.sum()))
        (mean,) = _means_at(np.zeros(1), same_place, y[is_unseen], w[is_unseen], 1.0)
        points.append(CurvePoint(0.0, *mean))
    return points


def _bandwidth(x: Any, w: Any) -> float:
    """Return h of :func:`local_means`.

    Without a distance between the quartiles, only the deviation counts.
    """
    order = np.argsort(x)
    share = np.cumsum(w[order]) / w.sum()
    lower_quartile, upper_quartile = x[order][np.searchsorted(share, (0.25, 0.75))]
    width = float(upper_quartile - lower_quartile) / 1.34
    variance = np.average((x - np.average(x, weights=w)) ** 2, weights=w)
    spread = deviation = math.sqrt(variance)
    if width:
        spread = min(deviation, width)
    num_labels = float(w.sum() ** 2 / (w**2).sum())
    return 0.9 * spread * math.pow(num_labels, -0.2)


def _means_at(grid: Any, x: Any, y: Any, w: Any, h: float) -> list[tuple[float, ...]]:
    """Return mean, band ends, effective labels and positives on a descending grid."""
    # labels with equal counts share a kernel
    places, place_of_label = np.unique(x, return_inverse=True)
    kernel = np.exp(-0.5 * ((grid[:, None] - places) / h) ** 2)

    def sums_at_places(terms: Any) -> Any:
        return np.bincount(place_of_label, weights=terms, minlength=len(places))

    positives = kernel @ sums_at_places(w)
    mean = kernel @ sums_at_places(w * y) / positives

    # the variance of :func:`local_means`; np.interp needs an ascending grid
    positives_at_label = np.interp(x, grid[::-1], positives[::-1])
    mean_at_label = np.interp(x, grid[::-1], mean[::-1])
    leverage = np.clip(w / positives_at_label, 0.0, 0.999)
    residual = (y - mean_at_label) / (1 - leverage)
    error = np.sqrt(kernel**2 @ sums_at_places((w * residual) ** 2)) / positives

    effective_labels = positives**2 / (kernel**2 @ sums_at_places(w**2))
    reach = _quantile_of_t(np.maximum(effective_labels - 1, 1)) * error
    reach = np.where(effective_labels >= FEWEST, reach, np.nan)
    low, high = mean - reach, mean + reach
    if y.min() >= 0 and y.max() <= 1:  # the values are shares, so their mean is one
        low, high = np.maximum(low, 0.0), np.minimum(high, 1.0)
    points = np.stack([mean, low, high, effective_labels, positives], axis=1)
    return [tuple(point) for point in points.tolist()]


def _quantile_of_t(freedom: Any) -> Any:
    """Return the 97.5 % quantile of Student's t, approximately.

    The quantile is 2 % too small with 4 degrees of freedom, and 10 % with 2.

    Source: Abramowitz and Stegun 1964, 26.7.5, the first three terms.
    """
    z = NORMAL
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    )


def curve_section(
    title: str,
    curves: Mapping[str, Mapping[str, Sequence[CurvePoint]]],
    edges: Sequence[tuple[float, str]],
    legend: Sequence[str] = (),
) -> Section:
    """Return the section of values by training count: a drawing for each metric.

    A drawing has a curve for each run.

    Args:
        title: The heading.
        curves: Points by metric and run.
        edges: The training count at the end of each bucket, NaN for the last bucket;
            and the bucket's name.
        legend: The runs.
    """
    caption = sentences(
        (
            "mean over the labels that occur about as often in training, weighted by "
            "their positives, with a band of 95 %"
        ),
        "vertical lines: the edges of the buckets" if edges else "",
        "a curve does not jump where an edge moves",
    )
    charts = [
        _curve(metric, points_by_run, edges) for metric, points_by_run in curves.items()
    ]
    return Section("curve", title, note=caption, charts=charts, legend=legend)


def _curve(
    metric: str,
    points_by_run: Mapping[str, Sequence[CurvePoint]],
    edges: Sequence[tuple[float, str]],
) -> Chart:
    """Return the drawing of one metric, with a curve for each run.

    Frequent labels are on the left, and unseen labels come last.
    """
    points = list(chain.from_iterable(points_by_run.values()))
    seen_counts = [point.training_count for point in points if point.training_count]
    has_unseen = len(seen_counts) < len(points)
    end = CURVE_END if has_unseen else 1.0
    counts = Scale(min(seen_counts), max(seen_counts), "log")
    heights = []
    for point in points:
        heights += [point.value, point.low, point.high]
    up = scale_from_zero(heights, [])

    marks = _edge_marks(edges, counts, end)
    descriptions = []
    for number_of_run, (run, run_points) in enumerate(points_by_run.items()):
        marks += _run_marks(run_points, number_of_run, counts, up, end)
        descriptions.append(_description(run, run_points))

    ticks = [Tick(_across(tick.at, end), tick.texts) for tick in counts.ticks()]
    if has_unseen:
        ticks.append(Tick(UNSEEN_AT, ("unseen",)))
    return Chart(
        metric,
        marks,
        f"{metric} by training count",
        values="; ".join(descriptions),
        across=ticks,
        up=up.ticks(),
        names=("occurrences in training", ""),
        height=170,
        gutter=34,
    )


def _across(share: float, end: float) -> float:
    """Return the place on the horizontal axis of a share of the scale of counts.

    The largest count has the place 0, and the smallest count has the place ``end``.
    """
    return end * (1 - share)


def _description(run: str, points: Sequence[CurvePoint]) -> str:
    """Return a text of the first and the last point of a run."""
    ends = []
    for point in (points[0], points[-1]):
        ends.append(f"{number(point.value)} at {point.training_count:,.0f} occurrences")
    text = ", ".join(ends)
    if run:
        return f"{run}: {text}"
    return text


def _edge_marks(
    edges: Sequence[tuple[float, str]], counts: Scale, end: float
) -> list[Mark]:
    """Return a vertical line at each bucket's edge, and its name if there is room."""
    marks = []
    left = 0.0
    for training_count, bucket in edges:
        right = end
        if not math.isnan(training_count):
            right = min(end, max(0.0, _across(counts.share(training_count), end)))
        if right < end:
            marks.append(Mark("line", [(right, 0.0), (right, 1.0)], style="thin"))
        name = short_name(bucket)
        width_of_name = 0.02 + 0.018 * len(name)
        if right - left > width_of_name:
            middle = (left + right) / 2
            marks.append(Mark("text", [(middle, 1.0)], text=name))
        left = right
    return marks


def _run_marks(
    points: Sequence[CurvePoint],
    number_of_run: int,
    counts: Scale,
    up: Scale,
    end: float,
) -> list[Mark]:
    """Return the curve of one run with its band, and a dot for the unseen labels.

    The dot has an interval. The band has gaps where its ends are unknown.
    """
    colour = run_look(number_of_run)[0]
    seen = [point for point in points if point.training_count]
    pairs = [
        (_across(counts.share(point.training_count), end), point) for point in seen
    ]

    marks = []
    for has_band, group in groupby(pairs, key=lambda pair: math.isfinite(pair[1].low)):
        stretch = list(group)
        if has_band and len(stretch) > 1:
            lower = [(across, up.share(point.low)) for across, point in stretch]
            upper = [(across, up.share(point.high)) for across, point in stretch]
            marks.append(Mark("area", [*lower, *reversed(upper)], colour))
    marks.append(
        Mark(
            "line", [(across, up.share(point.value)) for across, point in pairs], colour
        )
    )

    for point in points[len(seen) :]:
        if math.isfinite(point.low):
            interval = [
                (UNSEEN_AT, up.share(point.low)),
                (UNSEEN_AT, up.share(point.high)),
            ]
            marks.append(Mark("line", interval, colour))
        marks.append(
            Mark("dot", [(UNSEEN_AT, up.share(point.value))], colour, "circle")
        )
    return marks
