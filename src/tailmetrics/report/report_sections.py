"""What a report shows, section by section: every renderer shows the same ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tailmetrics.report.charts import (
    Chart,
    Mark,
    Scale,
    Shade,
    Tick,
    band_marks,
    bar_ticks,
    free_above,
    needed_width,
    run_shade,
    scale_from_zero,
    shade,
)
from tailmetrics.report.document import Document, Section
from tailmetrics.report.formatting import (
    between,
    brief,
    count,
    cut,
    number,
    rounded,
    sentences,
    short_name,
    what_buckets_are,
    with_interval,
    without_zero,
)

if TYPE_CHECKING:
    from tailmetrics.report.labels import CurvePoint
    from tailmetrics.report.report import BucketRow, Example, ExampleLabel, Report

ALL_LABELS, ALL_ROWS = "all", "all rows"
HEAD_TO_TAIL = "From the most frequent labels to the rarest"
SUMMARIES = {
    "gap": "",
    "spread": "spread: standard deviation over mean of the buckets seen in training, 0 where all are equal",
    "adjusted_gap": "adjusted gap: of the share of the way from chance to what is attainable",
}
"""What sums up the buckets of a metric, and what it is."""
VALIDATIONS = 20
"""The last validations of a fit that are shown; ``history.csv`` has all."""
MISSED, WRONG = 3, 10
"""How many labels of each bucket are shown of the most often missed, and how many of the most often wrong."""
BRIEF_COLUMNS = {
    "missed": ("label", "name", "bucket", "count", "support", "missed"),
    "wrong": ("label", "name", "bucket", "count", "predicted", "wrong"),
}
"""What a terminal shows of labels; files and pages have every column."""
BRIEF = 2
"""How many example rows a terminal shows."""
NAME_LETTERS, BRIEF_LETTERS = 44, 24
"""Letters of a name in an example; fewer in a terminal."""
BRIEF_PLACES = 5
"""How many labels of a list a terminal shows."""
HIT = "✓"
CURVE_POINTS = 200
"""Most points that are drawn of the frequencies of any number of labels."""
FLOOR = 0.7
"""The count at the lower edge of the frequencies: labels that occur once stand a little above it."""
BOUNDS = ("worst", "expected", "best")
BESIDE = {
    "chance": "dotted line: chance",
    "popularity": "hollow mark: popularity",
    "attainable": "cap: the most that is attainable",
    "worst": "bracket: from the worst to the best order of equal scores",
}
"""What stands beside a bar, as its caption says it."""
UNSEEN_AT, CURVE_END = 0.97, 0.93
"""Where a curve shows the mean of the unseen labels, and where the others end if there are any."""


def report_document(report: Report, brief: bool, references: bool) -> Document:
    """Return what renderers show of a report."""
    counted = {
        "rows": report.rows,
        "positives": report.positives,
        "labels": sum(row.labels for row in report.buckets) if report.label_counts is not None else None,
    }
    sections = [_overall(report), _buckets(report), _references(report) if references else None, _ties(report)]
    sections += [] if brief else [_curves_of_labels(report), _frequencies(report)]
    sections += [_tail(report), _groups(report), *_tinted(report, not brief)]
    sections += [*_labels(report, brief), _examples(report, brief)]
    return Document(
        title=report.title,
        kind="From head to tail",
        facts=[f"{value:,} {name}" for name, value in counted.items() if value is not None],
        sections=[section for section in sections if section is not None and (section.lines or section.charts)],
        warnings=report.warnings,
        below=what_buckets_are(report.buckets),
        settings=report.settings,
        versions={"evaluated on": report.date, **report.versions},
    )


def _rows_of(report: Report) -> str:
    return "" if report.rows is None else f"{report.rows:,} rows"


def _of_intervals(report: Report) -> str:
    """Return what ± and [low, high] mean where intervals are known."""
    first = next(iter(report.intervals.values()), None)
    if first is None:
        return ""
    said = f"the {first.confidence:.0%} confidence interval, for independent rows"
    return f"± is half the width of {said}; [low, high] are its ends where it is not symmetric"


def _without_intervals(report: Report) -> str:
    """Return which metrics have no interval where others have one, and why."""
    lacking = dict.fromkeys(report.split(key).metric for key in report.scalars if key not in report.intervals)
    if not lacking or not report.intervals:
        return ""
    return f"no interval: {', '.join(lacking)}, as no row or label has a value of which they are the mean"


def _scopes(report: Report, metrics: Sequence[str]) -> str:
    """Return what a table of several metrics shows: each scope once, with its metrics."""
    found: dict[str, list[str]] = {}
    for metric in metrics:
        if metric in report.captions:
            found.setdefault(report.captions[metric], []).append(metric)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{', '.join(of)}: {text}" for text, of in found.items())


def _overall(report: Report) -> Section:
    lines = [[key, report.text(key)] for key in report.overall]
    caption = sentences(_rows_of(report), _of_intervals(report), _without_intervals(report))
    asides = ["lower is better" if report.less_is_better(key) else "" for key in report.overall]
    return Section("overall", "Over all labels", caption, header=["metric", "value"], lines=lines, asides=asides)


def _lines_of_buckets(report: Report) -> list[str]:
    """Return what the lines of a table by bucket are called: all labels, where a metric has a value of them, first."""
    metrics = report.by_bucket
    whole = any(report.value_over_all(metric) is not None for metric in metrics)
    named = [row.name for row in report.buckets if any(row.name in values for values in metrics.values())]
    return [*([ALL_LABELS] if whole else []), *named]


def _key_of(report: Report, metric: str, line: str) -> str:
    return report.over_all.get(metric, metric) if line == ALL_LABELS else report.key(metric, line)


def _buckets(report: Report) -> Section | None:
    metrics = list(report.by_bucket)
    if not metrics:
        return None
    names, known = _lines_of_buckets(report), {row.name: row for row in report.buckets}
    columns = {"bucket": names}
    for what in ("labels", "positives"):
        total = sum(getattr(row, what) for row in report.buckets)
        columns[what] = [count(getattr(known[name], what) if name in known else total) for name in names]
    said = []
    for number_of, (rows, of) in enumerate(_denominators(report, names), 1):
        column = "rows" if number_of == 1 else f"rows ({number_of})"
        columns[column] = [count(rows.get(name)) for name in names]
        said.append(f"{column}: those that count in {', '.join(of)}" if len(of) < len(metrics) else "")
    fixed = len(columns)
    columns |= {metric: [report.text(_key_of(report, metric, name)) for name in names] for metric in metrics}
    buckets = what_buckets_are(report.buckets)
    caption = sentences(_rows_of(report), _scopes(report, metrics), buckets)
    charts = [_bars(report, metric) for metric in metrics]
    below = (
        "Under each bar: the bucket, the number of its labels, and how often they are relevant in what was evaluated"
    )
    lead, header = sentences(buckets, below), list(columns)
    lines = [list(cells) for cells in zip(*columns.values(), strict=True)]
    return Section(
        "buckets",
        HEAD_TO_TAIL,
        caption,
        lead=lead,
        columns=sentences(*said, _of_intervals(report)),
        header=header,
        lines=lines,
        fixed=fixed,
        charts=charts,
    )


def _denominators(report: Report, names: Sequence[str]) -> list[tuple[dict[str, int], list[str]]]:
    """Return how many rows count by line, each with the metrics that divide by so many; those with intervals know."""
    found: list[tuple[dict[str, int], list[str]]] = []
    for metric in report.by_bucket:
        known = {name: report.intervals.get(_key_of(report, metric, name)) for name in names}
        rows = {name: one.n for name, one in known.items() if one is not None}
        same = next((of for other, of in found if all(other.get(name, n) == n for name, n in rows.items())), None)
        if same is not None and rows:
            same.append(metric)
        elif rows:
            found.append((rows, [metric]))
    return found


def _bars(report: Report, metric: str) -> Chart:
    """Return the bars of one metric from head to tail, with intervals, references and what equal scores hide."""
    rows = [row for row in report.buckets if row.name in report.by_bucket[metric]]
    keys = [report.key(metric, row.name) for row in rows]
    whole, less, is_place = report.value_over_all(metric), report.less_is_better(metric), metric in report.places
    fair = [row.positives / report.positives for row in rows] if metric in report.shares and report.positives else []
    beside = {**(report.references or {}), **(report.tie_bounds or {})}
    known = [one for one in map(report.intervals.get, keys) if one is not None]
    levels = [of[key] for of in (report.scalars, *beside.values()) for key in keys if key in of]
    levels += [end for one in known for end in (one.low, one.high)] + fair + ([] if whole is None else [whole])
    scale = scale_from_zero(levels, [report.scalars[key] for key in keys])
    at, marks, told, texts = scale.share, list[Mark](), list[str](), list[tuple[str, ...]]()
    if whole is not None and math.isfinite(whole):
        marks.append(Mark("line", [(0, at(whole)), (1, at(whole))], style="dashed"))
    for place, (row, key) in enumerate(zip(rows, keys, strict=True)):
        value, colour = report.scalars[key], shade(place, len(rows), row.name)
        left, middle, right = ((place + part) / len(rows) for part in (0.12, 0.5, 0.88))
        end = at(value) if math.isfinite(value) else at(0.0)
        found, said = _beside_a_bar(report, key, at, (left, middle, right))
        found += [Mark("line", [(left, at(fair[place])), (right, at(fair[place]))])] if fair else []
        told.append(f"{row.name} {'no value' if math.isnan(value) else number(value, is_place)}{said}")
        text = f"{told[-1]}, {row.labels:,} labels, {row.positives:,} positives"
        counts = rounded(row.labels), rounded(row.positives)
        texts.append((without_zero(brief(value, is_place)), *counts, short_name(row.name)))
        top = free_above(max(at(0.0), end), found)
        marks += [Mark("bar", [(left, at(0.0)), (right, end)], colour, text=text), *found]
        marks.append(Mark("text", [(middle, top)], colour, style="above", text=texts[-1][0]))
    marks.append(Mark("line", [(0, at(0.0)), (1, at(0.0))], style="thin"))
    drawn = [
        report.captions.get(metric, ""),
        "" if whole is None else f"dashed line, all labels: {number(whole, is_place)}",
        _rows_of(report),
        *(text for name, text in BESIDE.items() if any(key in beside.get(name, {}) for key in keys)),
        "marks: the bucket's share of the positives" if fair else "",
        "logarithmic heights" if scale.kind != "linear" else "",
    ]
    of_whole = "" if whole is None else f"; all labels {'no value' if math.isnan(whole) else number(whole, is_place)}"
    return Chart(
        metric,
        marks,
        f"{metric}{', lower is better,' if less else ''} from head to tail: {'; '.join(told)}{of_whole}",
        aside="lower is better" if less else "",
        caption=" · ".join(part for part in drawn if part),
        across=bar_ticks([(name, *counts) for _, *counts, name in texts]),
        names=("bucket, head to tail · labels · positives", ""),
        min_width=needed_width(texts),
    )


def _beside_a_bar(
    report: Report, key: str, at: Callable[[float], float], across: tuple[float, float, float]
) -> tuple[list[Mark], str]:
    """Return what stands at a bar, and the same in words: its interval, references, and the reach of equal scores."""
    (left, middle, right), marks, told = across, list[Mark](), ""
    interval, is_place = report.intervals.get(key), report.split(key).metric in report.places
    if interval is not None and not math.isnan(interval.low):
        marks.append(Mark("line", [(middle, at(interval.low)), (middle, at(interval.high))]))
        told += f" ({number(interval.low, is_place)} to {number(interval.high, is_place)})"
    for name, values in (report.references or {}).items():
        if math.isfinite(value := values.get(key, math.nan)):
            up, told = at(value), f"{told}, {name} {number(value, is_place)}"
            if name == "popularity":
                marks.append(Mark("dot", [(middle, up)], style="diamond", filled=False))
            elif name == "chance":
                marks.append(Mark("line", [(left, up), (right, up)], style="dotted"))
            else:  # a cap
                marks.append(
                    Mark("line", [(left, up - 0.03), (left, up), (right, up), (right, up - 0.03)], style="thin")
                )
    low, mean, high = ((report.tie_bounds or {}).get(name, {}).get(key, math.nan) for name in BOUNDS)
    if low < high:
        place, reach = left + (right - left) / 6, (right - left) / 15
        ends = [(place + side * reach, at(end)) for end in (low, high) for side in (-1, 1, 0)]
        marks.append(Mark("line", [*ends[:3], ends[5], *ends[3:5]], style="thin"))
        marks += [Mark("dot", [(place, at(mean))], style="circle", filled=False)] if math.isfinite(mean) else []
        told += f", between {number(low, is_place)} and {number(high, is_place)} by the order of equal scores"
    return marks, told


def _ties(report: Report) -> Section:
    """Return what equal scores hide: the listed value, its mean and its ends over their orders."""
    caption = sentences(
        "the value of the list as it is shown, its mean over all orders of equal scores, and its ends",
        "where they differ, the listed value depends on how labels are numbered",
    )
    bounds = report.tie_bounds or {}
    header = {"expected": ("expected",), "[worst, best]": ("worst", "best")}
    return _beside("ties", "What equal scores hide", caption, report, bounds, header, folded=False)


def _references(report: Report) -> Section:
    """Return each value beside those of the models that need no run."""
    caption = sentences(
        "chance: all scores equal", "popularity: training counts as scores", "attainable: the targets as scores"
    )
    found, title = report.references or {}, "Beside chance, popularity and the attainable"
    return _beside("references", title, caption, report, found, {name: (name,) for name in found}, folded=True)


def _beside(
    name: str,
    title: str,
    caption: str,
    report: Report,
    values: Mapping[str, Mapping[str, float]],
    columns: Mapping[str, Sequence[str]],
    folded: bool,
) -> Section:
    """Return a table by bucket of each metric that has such values, with columns of one value or of a range."""
    names, found = _lines_of_buckets(report), {}
    if not report.by_bucket:  # the metrics one below the other
        keys = [key for key in report.overall if any(key in of_name for of_name in values.values())]
        lines = [
            [key, report.text(key), *(_cell(values, of, key, key in report.places) for of in columns.values())]
            for key in keys
        ]
        return Section(name, title, caption, header=["metric", "value", *columns], lines=lines, folded=folded)
    for metric in report.by_bucket:
        keys, place = [_key_of(report, metric, line) for line in names], metric in report.places
        if any(key in of_name for of_name in values.values() for key in keys):
            found[metric, ""] = [report.text(key) for key in keys]
            for column, of in columns.items():
                found[column, metric] = [_cell(values, of, key, place) for key in keys]
    lines = [list(cells) for cells in zip(names, *found.values(), strict=True)] if found else []
    header = ["bucket", *(column for column, _ in found)]
    return Section(name, title, caption, header=header, lines=lines, folded=folded)


def _cell(values: Mapping[str, Mapping[str, float]], of: Sequence[str], key: str, place: bool) -> str:
    """Return the value of a key, or the range between two of them."""
    first, *last = (values[one].get(key, math.nan) for one in of)
    return between(first, last[0], place) if last and not math.isnan(first) else number(first, place)


def _tail(report: Report) -> Section | None:
    """Return head against tail: the most frequent and the rarest bucket measured, their gap, the spread of all."""
    ends: dict[str, tuple[str, str] | None] = {}
    for metric, values in report.by_bucket.items():
        if report.key(metric, "gap") in report.summaries:
            known = [name for name, value in values.items() if name != "unseen" and not math.isnan(value)]
            ends[metric] = (known[0], known[-1]) if len(known) > 1 else None
    measured = {pair for pair in ends.values() if pair is not None}
    (same,) = measured if len(measured) == 1 else (None,)
    sums = [what for what in SUMMARIES if any(report.key(metric, what) in report.summaries for metric in ends)]
    lines = []
    for metric, pair in ends.items():
        place, whole = metric in report.places, report.value_over_all(metric)
        names = [f" ({short_name(end)})" if not same else "" for end in pair or ()]
        texts = [number(report.by_bucket[metric][end], place) for end in pair or ()]
        cells = [f"{text}{name}" for text, name in zip(texts, names, strict=True)] or ["–", "–"]
        found = {what: report.summaries.get(report.key(metric, what), math.nan) for what in sums}
        gap = report.intervals.get(report.key(metric, "gap"))
        of_all = number(math.nan if whole is None else whole, place)
        lines.append(
            [
                metric,
                of_all,
                *cells,
                *(
                    with_interval(value, gap if what == "gap" else None, place and what == "gap")
                    for what, value in found.items()
                ),
            ]
        )
    head, tail = same or ("head", "tail")
    rarest = "" if same else ", the most frequent and the rarest bucket that was measured, in brackets"
    caption = sentences(
        _rows_of(report), f"gap: {head} minus {tail}{rarest}; {'; '.join(SUMMARIES[what] for what in sums[1:])}"
    )
    header = ["metric", ALL_LABELS, head, tail, *(what.replace("_", " ") for what in sums)]
    return Section("tail", "Head against tail", caption, header=header, lines=lines)


def _groups(report: Report) -> Section | None:
    """Return the values over all labels of each group of rows."""
    metrics = report.by_group
    lines = [
        [name, count(rows), *(report.text(report.key(metric, "", group), alone=True) for metric in metrics)]
        for name, group, rows in _all_groups(report)
    ]
    header = ["group", "rows", *metrics]
    return (
        Section("groups", "By group of rows", "Over all labels.", header=header, lines=lines, fixed=2)
        if metrics
        else None
    )


def _all_groups(report: Report) -> list[tuple[str, str, int | None]]:
    """Return what all rows and each group are called, what they are in keys, and how many rows they have."""
    return [(ALL_ROWS, "", report.rows), *((group.name, group.name, group.rows) for group in report.row_groups)]


def _tinted(report: Report, with_history: bool) -> Iterator[Section]:
    """Yield for each metric by bucket a grid of groups and buckets, then the validations of a fit."""
    history = list(report.history)[-VALIDATIONS:] if with_history else []
    for metric, of_bucket in report.by_bucket.items():
        whole = report.over_all.get(metric, metric)
        keys = {bucket: (metric, bucket) for bucket in of_bucket}
        keys = {**({} if report.value_over_all(metric) is None else {ALL_LABELS: (whole, "")}), **keys}
        groups = [
            ([name, count(rows)], {line: report.key(*of, group) for line, of in keys.items()}, report.scalars)
            for name, group, rows in _all_groups(report)
        ]
        if len(groups) > 1 and any(key in report.scalars for key in groups[1][1].values()):
            yield _tinted_table(report, "grid", metric, "by group of rows and bucket", ["group", "rows"], groups)
        epochs = [([str(row["epoch"]), f"{row['step']:,}"], groups[0][1], row) for row in history]
        if len(epochs) > 1:
            yield _tinted_table(report, "history", metric, "over epochs", ["epoch", "step"], epochs)


def _tinted_table(
    report: Report,
    name: str,
    metric: str,
    what: str,
    starts: list[str],
    parts: Sequence[tuple[list[str], Mapping[str, str], Mapping[str, Any]]],
) -> Section:
    """Return a table of values of one metric, tinted by their height; a part has its first cells, keys and values."""
    values = [[of.get(key, math.nan) for key in keys.values()] for _, keys, of in parts]
    known = [value for line in values for value in line if math.isfinite(value)]
    low, width = min(known, default=0.0), (max(known, default=1.0) - min(known, default=0.0)) or 1.0
    heat = [[(value - low) / width if math.isfinite(value) else None for value in line] for line in values]
    lines = [
        [*start, *(number(value, metric in report.places) for value in line)]
        for (start, _, _), line in zip(parts, values, strict=True)
    ]
    caption = sentences(_scopes(report, [metric]), what_buckets_are(report.buckets))
    return Section(name, f"{metric} {what}", caption, header=[*starts, *parts[0][1]], lines=lines, fixed=2, heat=heat)


def _contiguous(report: Report) -> tuple[Tensor, list[BucketRow]]:
    """Return the counts of the labels seen in training, falling, and the buckets if each is a stretch of them."""
    assert report.label_counts is not None
    counts = report.label_counts.cpu().sort(descending=True).values
    seen = counts[counts > 0]
    rows = [row for row in report.buckets if row.occurrences]
    sizes = [row.labels for row in rows]
    if not rows or sum(sizes) != len(seen) or len(rows) > CURVE_POINTS // 4:
        return seen, []
    parts = zip(torch.split(seen, sizes), rows, strict=True)
    return seen, rows if all(int(part.sum()) == row.occurrences for part, row in parts) else []


def _frequencies(report: Report) -> Section | None:
    """Return the training count by rank of frequency, both logarithmic, in the colours of the buckets."""
    if report.label_counts is None or not bool((report.label_counts > 0).any()):
        return None
    seen, buckets = _contiguous(report)
    edges = [1, *(1 + end for end in accumulate(row.labels for row in buckets))] if buckets else [1, len(seen) + 1]
    across, up = Scale(1, len(seen) + 1, "log"), Scale(FLOOR, int(seen[0]) * 1.2, "log")
    most = CURVE_POINTS - 2 * (len(edges) - 1)
    ranks = sorted({round(len(seen) ** (step / (most - 1))) for step in range(most)})
    marks: list[Mark] = []
    for place, (start, end) in enumerate(pairwise(edges)):
        drawn = [start, *(rank for rank in ranks if start < rank < end), end]
        points = [(across.share(rank), up.share(int(seen[min(rank, len(seen)) - 1]))) for rank in drawn]
        name = buckets[place].name if buckets else ""
        colour = shade(place, len(report.buckets), name)
        left, right = points[0][0], points[-1][0]
        marks += [Mark("area", [(left, 0.0), *points, (right, 0.0)], colour), Mark("line", points, colour)]
        if name and right - left > 0.02 + 0.018 * len(short_name(name)):
            middle = min(points, key=lambda one: abs(one[0] - (left + right) / 2))
            marks.append(Mark("text", [((left + right) / 2, middle[1])], style="above", text=short_name(name)))
    told = _frequencies_in_words(seen, len(report.label_counts))
    axes = "Training occurrences of each label by rank, both axes logarithmic."
    chart = Chart(
        "",
        marks,
        f"{axes} {told}",
        across=across.ticks(),
        up=up.ticks(),
        names=("labels, most frequent first", "occurrences in training"),
        height=190,
        gutter=34,
        in_picture=False,
    )
    coloured = "Coloured by bucket, as the bars are." if len(buckets) > 1 else ""
    return Section("frequency", "How often labels occur in training", sentences(told, coloured), charts=[chart])


def _frequencies_in_words(seen: Tensor, labels: int) -> str:
    half = int(torch.searchsorted(seen.cumsum(0), (int(seen.sum()) + 1) // 2)) + 1
    once, never = int((seen == 1).sum()), labels - len(seen)
    parts = [
        f"{len(seen):,} labels occur {int(seen.sum()):,} times in training, the most frequent {int(seen[0]):,} times",
        f"the {half:,} most frequent make up half of that" if half > 1 else "it alone makes up half of that",
        f"{once:,} occur once" if once else "",
        f"{never:,} never" if never else "",
    ]
    return "; ".join(part for part in parts if part) + "."


def _curves_of_labels(report: Report) -> Section | None:
    """Return each value of single labels as a function of the training count."""
    if not report.curves:
        return None
    edges: list[tuple[float, str]] = []
    if report.label_counts is not None:
        seen, buckets = _contiguous(report)
        ends = list(accumulate(row.labels for row in buckets))
        edges = [
            (math.sqrt(int(seen[end - 1]) * int(seen[end])) if end < len(seen) else math.nan, row.name)
            for end, row in zip(ends, buckets, strict=True)
        ]
    charts = [curve_chart(metric, {"": points}, edges, [run_shade(0)]) for metric, points in report.curves.items()]
    return Section("curve", "As a function of the training count", of_curves(bool(edges)), charts=charts)


def of_curves(has_edges: bool) -> str:
    """Return what the curves of a section are."""
    return sentences(
        "mean over the labels that occur about as often in training, weighted by their positives, with a band of 95 %",
        "vertical lines: the edges of the buckets" if has_edges else "",
        "a curve does not jump where an edge moves",
    )


def curve_chart(
    metric: str,
    curves: Mapping[str, Sequence[CurvePoint]],
    edges: Sequence[tuple[float, str]],
    shades: Sequence[Shade],
) -> Chart:
    """Return the curves of some runs, the most frequent labels on the left as in all drawings, unseen ones last."""
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
    told = []
    for (run, of_run), colour in zip(curves.items(), shades, strict=True):
        drawn = [(across(one.training_count), *one[1:4]) for one in of_run if one.training_count]
        marks += band_marks(drawn, up, colour)
        for one in of_run:
            if not one.training_count:
                if math.isfinite(one.low):
                    ends = [(UNSEEN_AT, up.share(one.low)), (UNSEEN_AT, up.share(one.high))]
                    marks.append(Mark("line", ends, colour))
                marks.append(Mark("dot", [(UNSEEN_AT, up.share(one.value))], colour, "circle", text="unseen"))
        ends_of_run = of_run[0], of_run[-1]
        told.append(
            f"{run}{': ' if run else ''}"
            + ", ".join(f"{number(one.value)} at {one.training_count:,.0f} occurrences" for one in ends_of_run)
        )
    ticks = [Tick(end * (1 - tick.at), tick.texts) for tick in counts.ticks()]
    return Chart(
        metric,
        marks,
        f"{metric} by training count: {'; '.join(told)}",
        across=[*ticks, *([Tick(UNSEEN_AT, ("unseen",))] if unseen else [])],
        up=up.ticks(),
        names=("occurrences in training", ""),
        height=170,
        gutter=34,
    )


def _labels(report: Report, brief: bool) -> Iterator[Section]:
    """Yield the labels that are missed most often, and those that are suggested wrongly most often."""
    table = report.labels
    if table is None:
        return
    at, each = table.deepest, 1 if brief else MISSED
    of_cut = f" at k = {at.removeprefix('@')}" if at else ""
    by_bucket = table.buckets is not None
    limit = f"at most {each} of each bucket" if by_bucket else f"the first {WRONG}"
    for name, often, said, labels in (
        ("missed", "missed", f"relevant and not predicted; {limit}", table.most_missed(each if by_bucket else WRONG)),
        ("wrong", "suggested wrongly", f"predicted and not relevant; the first {WRONG}", table.most_wrong(WRONG)),
    ):
        stems = {column: column.partition("@")[0] for column in table.header()}
        header = [
            column
            for column, stem in stems.items()
            if (stem in BRIEF_COLUMNS[name] if brief else stem == name or stem not in BRIEF_COLUMNS)
        ]
        texts = sum(column in ("label", "name", "bucket") for column in header)
        cells = table.cells(labels)
        columns = ([str(cell) if column == "label" else _text(cell) for cell in cells[column]] for column in header)
        lines, caption = (
            [list(line) for line in zip(*columns, strict=True)],
            sentences(_rows_of(report), f"{name}: {said}"),
        )
        title = f"Labels most often {often}{of_cut}"
        yield Section(name, title, caption, header=header, lines=lines, fixed=texts, texts=texts)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _examples(report: Report, brief: bool) -> Section | None:
    """Return the example rows; those of the rarest buckets where there is little room."""
    if not report.examples:
        return None
    letters, places = (BRIEF_LETTERS, BRIEF_PLACES) if brief else (NAME_LETTERS, None)
    first = report.examples[0]
    header = [*(["bucket"] if first.bucket else []), "row", "relevant labels, with their ranks", "the list, best first"]
    lines = []
    for one in report.examples[-BRIEF if brief else 0 :]:
        shown = [f"{HIT} {_called(label, letters)}" if label.hit else _called(label, letters) for label in one.shown]
        kept = [*shown[:places], *(["…"] if places is not None and places < len(shown) else [])]
        cells = [one.bucket or "–", cut(one.told, letters) or "–", "\n".join(_relevant(one, letters)), "\n".join(kept)]
        lines.append(cells[-len(header) :])
    each = "For each bucket one row that misses a label of it" if first.bucket else "Rows that miss a label"
    caption = (
        f"{each} in its list of {max(len(one.shown) for one in report.examples)}. Rows are chosen by a hash of their "
        f"content. {HIT}: a hit. –: not retrieved, or below what was ranked."
    )
    texts = len(header)
    return Section(
        "examples", "Example rows", caption, header=header, lines=lines, fixed=texts - 2, texts=texts, long=2
    )


def _relevant(example: Example, letters: int) -> list[str]:
    """Return each relevant label with its rank, and how many more there are."""
    found = []
    for one in example.relevant:
        rank = "–" if one.rank is None else f"{one.rank:,}."
        of = f" ({short_name(one.bucket)})" if one.bucket else ""
        found.append(f"{rank} {HIT + ' ' if one.hit else ''}{_called(one, letters)}{of}")
    more = example.num_relevant - len(example.relevant)
    return [*found, f"and {more:,} more"] if more else found


def _called(label: ExampleLabel, letters: int) -> str:
    """Return the name of a label, cut where it is long; its number where it has none."""
    return cut(label.name or str(label.label), letters)
