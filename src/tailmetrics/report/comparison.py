"""The report of comparisons of several runs, as plain data and as the sections that every renderer shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tailmetrics._arguments import grouped, some_of
from tailmetrics.report.charts import (
    Chart,
    Mark,
    Scale,
    Tick,
    axis_of,
    bar_ticks,
    clipped,
    run_look,
    scale_from_zero,
)
from tailmetrics.report.document import Document, Records, Section, plain, today
from tailmetrics.report.first_look import tables_of_comparison
from tailmetrics.report.formatting import (
    AT_MOST,
    LETTERS,
    RAISED,
    Key,
    number,
    p_value,
    sentences,
    short_name,
    signed,
    split,
)
from tailmetrics.report.labels import CurvePoint, curve_section
from tailmetrics.report.pages import Shown

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Comparison
    from tailmetrics.significance.interval import Interval

COLUMNS = (
    "metric", "run", "baseline", "difference", "interval", "p", "corrected", "least", "win/tie/loss", "effect", "",
)  # fmt: skip
BY_NEED = (0, 3, 4, 6, 10, 1, 2, 5, 7, 8, 9)
"""The columns in the order in which a terminal shows them if it has no room for all."""
SUPERSCRIPTS = str.maketrans(LETTERS, RAISED)
GAPS = ("gap", "adjusted_gap")
UNEQUAL = "†"
"""The mark after values of runs whose lists have unequal lengths."""
WIDER = 2
"""An interval of rows that all agree is cut off if it makes the drawing more than this many times wider."""
LINE = 22
"""Height of a line in a drawing of differences, in pixels."""


@dataclass(frozen=True)
class ComparisonReport(Shown):
    """Runs compared row by row, ready to be shown.

    Attributes:
        comparisons: The result of :func:`tailmetrics.significance.compare`.
        title: The title.
        correction: The correction of p-values for the number of comparisons.
        buckets: Names of the buckets, head first. A key that ends in "/" and a bucket's name belongs to this bucket.
        row_groups: Names of the groups of rows.
        captions: For each metric by bucket, the scope and cut-off of its values, in words.
        over_all: For each metric by bucket, the key of its value over all labels.
        headline: The metric that the comparison is about, as a key without bucket.
        lower_is_better: Keys for which a lower value is better.
        not_compared: Values by key and run that no comparison reads.
        not_compared_because: The reasons why values are not compared, one sentence each.
        unequal_lists: Keys that read longer lists of one run than of another -> the median lengths by run, in words.
        what_buckets_are: The meaning of the buckets, in one or two sentences.
        verdict: The main result in words, shown first.
        warnings: Facts that a reader should know before trusting the numbers.
        curves: Values as functions of the training count, by metric and run, as ``LabelTable.curves`` returns them.
        settings: Class and arguments of every metric.
        versions: Versions of the libraries.
        postfix: The postfix of the collection, which ends every key, buckets included.
        date: The day of the comparison, in UTC.
        clusters: The name of the clusters, such as ``"user"``; if "", only the number of clusters is shown.
    """

    comparisons: Sequence[Comparison]
    title: str = "Comparison"
    correction: str = "max-t"
    buckets: Sequence[str] = ()
    row_groups: Sequence[str] = ()
    captions: Mapping[str, str] = field(default_factory=dict)
    over_all: Mapping[str, str] = field(default_factory=dict)
    headline: str = ""
    lower_is_better: Sequence[str] = ()
    not_compared: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    not_compared_because: Sequence[str] = ()
    unequal_lists: Mapping[str, str] = field(default_factory=dict)
    what_buckets_are: str = ""
    verdict: str | None = None
    warnings: Sequence[str] = ()
    curves: Mapping[str, Mapping[str, Sequence[CurvePoint]]] = field(default_factory=dict, repr=False)
    settings: Sequence[Mapping[str, Any]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    postfix: str = ""
    date: str = field(default_factory=today)
    clusters: str = ""

    stem = "compare"
    in_json = (
        "title date headline verdict warnings correction corrected_for comparisons not_compared unequal_lists settings "
        "versions"
    )

    @cached_property
    def runs(self) -> list[str]:
        """The names of the runs, first the baseline that pictures hold the others against."""
        pairs = [(one.baseline, one.run) for one in self.comparisons]
        return list(dict.fromkeys([*(baseline for baseline, _ in pairs), *(run for _, run in pairs)]))

    @cached_property
    def values(self) -> dict[str, dict[str, float]]:
        """Values by key and run."""
        found: dict[str, dict[str, float]] = {}
        for one in self.comparisons:
            found.setdefault(one.key, {}).update({one.run: one.value, one.baseline: one.baseline_value})
        return found

    @cached_property
    def _by_names(self) -> dict[tuple[str, str, str], Comparison]:
        return {(one.key, one.run, one.baseline): one for one in self.comparisons}

    @cached_property
    def parts(self) -> dict[str, Key]:
        """The parts of each key; for a gap, the name of the gap takes the place of the bucket."""
        names = (*self.buckets, *GAPS)
        return {key: split(key, self.row_groups, names, self.postfix) for key in self.values}

    @property
    def overall(self) -> list[str]:
        """Keys of values over all rows and labels; all keys, if all keys are of groups of rows."""
        found = [key for key, part in self.parts.items() if not part.group and part.bucket in ("", *GAPS)]
        return found or ([] if self.by_bucket else list(self.parts))

    @property
    def by_bucket(self) -> dict[str, dict[str, str]]:
        """Keys of values over all rows by metric and bucket, head first."""
        found: dict[str, dict[str, str]] = {}
        for key, part in self.parts.items():
            if part.bucket and not (part.group or part.bucket in GAPS):
                found.setdefault(part.metric, {})[part.bucket] = key
        return found

    def against(self, key: str, run: str) -> Comparison | None:
        """Return the comparison of a run with the baseline by one key; None if there is none."""
        return self._by_names.get((key, run, self.runs[0]))

    def beaten(self, key: str, run: str) -> str:
        """Return the letters of the runs that are significantly worse than this run by one key."""
        less, found = key in self.lower_is_better, set()
        for one in self.comparisons:
            if one.key == key and one.significant and one.statistic != "gap" and not math.isnan(one.difference):
                run_is_better = (one.difference < 0) == less
                better, worse = (one.run, one.baseline) if run_is_better else (one.baseline, one.run)
                found |= {worse} if better == run else set()
        return "".join(self.letter(other) for other in self.runs if other in found)

    def letter(self, run: str) -> str:
        """Return the letter that names a run in superscripts."""
        place = self.runs.index(run)
        return LETTERS[place] if place < len(LETTERS) else f"({place + 1})"

    def cell(self, key: str, run: str) -> str:
        """Return a value with the marks behind it, as a table shows it."""
        return f"{number(self.values[key].get(run, math.nan))}{self.marked(key, run)}"

    def marked(self, key: str, run: str) -> str:
        """Return the marks behind a value: the letters of worse runs, raised, and the mark of unequal lists."""
        return self.beaten(key, run).translate(SUPERSCRIPTS) + UNEQUAL * (key in self.unequal_lists)

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        return self.comparisons[0].interval.confidence if self.comparisons else math.nan

    @property
    def corrected_for(self) -> int:
        """The number of comparisons with a p-value, which count in the correction."""
        return sum(not math.isnan(one.p_corrected.decisive) for one in self.comparisons)

    @property
    def num_clusters(self) -> int:
        """The number of clusters of rows that were drawn and swapped; 0 if rows are independent."""
        return max((one.interval.clusters or 0 for one in self.comparisons), default=0)

    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return the content that every renderer shows; if ``brief``, without the tables by bucket and drawings."""
        curves = {metric: {run: of[run] for run in self.runs} for metric, of in self.curves.items()}
        of_counts = curve_section("As functions of the training count", curves, [], self.runs)
        drawn = [] if brief else [*_runs_by_bucket(self), of_counts, _scatters(self), _over_all_differences(self)]
        sections = [*_runs(self), *drawn, *_pairs(self), _not_compared(self, brief)]
        if self.headline in self.by_bucket and not brief:
            sections = [_headline(self), *sections]
        rows, tests = max((one.n for one in self.comparisons), default=0), self.corrected_for
        named = f" ({self.clusters})" if self.clusters else ""
        clusters = [f"{self.num_clusters:,} clusters{named}"] if self.num_clusters else []
        return Document(
            title=self.title,
            kind="Runs compared from head to tail",
            facts=[f"{len(self.runs)} runs", f"{rows:,} rows", *clusters, f"{tests:,} comparison{'s' * (tests != 1)}"],
            sections=[section for section in sections if section.lines or section.charts],
            verdict=self.verdict,
            first=tables_of_comparison(self),
            warnings=self.warnings,
            below=f"Differences with {self.confidence:.0%} intervals; filled: significant at "
            f"{1 - self.confidence:.3g}, corrected ({self.correction}).",
            settings=self.settings,
            versions={"compared on": self.date, **self.versions},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data, NaN as None."""
        header, lines = self.records()[""]
        found = [dict(zip(header, map(plain, line), strict=True)) for line in lines]
        return super().as_dict() | {"comparisons": found}

    def records(self) -> dict[str, Records]:
        """Return the content of the CSV files: a line per comparison, and the points of the curves."""
        flat = [_flat(one) for one in self.comparisons]
        found: dict[str, Records] = {"": (list(flat[0]) if flat else (), (list(one.values()) for one in flat))}
        if self.curves:
            of_runs = ((metric, *one) for metric, curves in self.curves.items() for one in curves.items())
            points = ((metric, run, *point) for metric, run, points in of_runs for point in points)
            found["curve"] = (("metric", "run", *CurvePoint._fields), points)
        return found


def unequal_in_words(lists: Mapping[str, str]) -> list[str]:
    """Return a sentence for each set of unequal lengths; ``lists`` has the lengths of each key in words."""
    kinds = grouped((places, key) for key, places in lists.items())
    return [
        f"{UNEQUAL} {', '.join(some_of(keys, 3))}: the median number of labels read in a list differs ({places}), "
        "which may be part of the difference. A k that the lists of all reach, if there is one, reads as much of each."
        for places, keys in kinds.items()
    ]


def _flat(comparison: Comparison) -> dict[str, Any]:
    whole = asdict(comparison)
    interval, p, corrected = (whole.pop(name) for name in ("interval", "p", "p_corrected"))
    return {
        **{name: whole.pop(name) for name in ("key", "run", "baseline", "statistic", "value", "baseline_value")},
        "difference": interval.pop("value"),
        **interval,
        **{f"p_{test}": value for test, value in p.items()},
        **{f"p_{test}_corrected": value for test, value in corrected.items()},
        "significant": comparison.significant,
        **whole,
    }


def _runs(report: ComparisonReport) -> Iterator[Section]:
    """Yield a table with a line per run: its values over all labels, with the letters of the runs that are worse."""
    caption = (
        f"A letter behind a value names a run that is significantly worse, at {1 - report.confidence:.3g}, corrected "
        f"for {report.corrected_for} comparison{'' if report.corrected_for == 1 else 's'}. "
        f"Bold: the best value. Differences are from {report.runs[0]}."
    )
    if all(one.baseline == report.runs[0] for one in report.comparisons) and len(report.runs) > 2:
        caption += f" Runs were compared with {report.runs[0]} alone."
    caption = " ".join([caption, *unequal_in_words(report.unequal_lists)])
    gaps = {key: key for key in report.overall if report.parts[key].bucket in GAPS}
    whole = {key: key for key in report.overall if key not in gaps}
    if whole:
        yield _run_section(report, "The runs over all labels", caption, whole, [])
    if gaps:
        said = "A smaller gap alone is not better: a model that misses head and tail alike has one."
        yield _run_section(report, "Gaps between head and tail", said, gaps, [])


def _run_section(
    report: ComparisonReport, title: str, caption: str, keys: Mapping[str, str], charts: Sequence[Chart]
) -> Section:
    lines = [[report.letter(run), run, *(report.cell(key, run) for key in keys.values())] for run in report.runs]
    bold = set[tuple[int, int]]()
    gaps = {one.key for one in report.comparisons if one.statistic == "gap"}
    for column, key in enumerate(keys.values(), 2):
        known = {run: value for run, value in report.values[key].items() if not math.isnan(value)}
        best = (min if key in report.lower_is_better else max)(known.values(), default=math.nan)
        bold |= {(report.runs.index(run), column) for run, value in known.items() if value == best and key not in gaps}
    header, legend = ["", "run", *keys], report.runs if charts else []
    return Section(
        "runs", title, caption, header=header, lines=lines, fixed=2, texts=2, bold=frozenset(bold), charts=charts,
        legend=legend,
    )  # fmt: skip


def _runs_by_bucket(report: ComparisonReport) -> Iterator[Section]:
    """Yield for each metric by bucket a table with a line per run, and drawings of the runs and their differences."""
    for metric, keys in report.by_bucket.items():
        caption = sentences(report.captions.get(metric, ""), report.what_buckets_are)
        short = {short_name(name): key for name, key in keys.items()}
        charts = _drawings(report, metric)
        if report.headline in report.by_bucket:  # its drawings stand first, and the picture has no others by bucket
            charts = [] if metric == report.headline else [replace(one, in_picture=False) for one in charts]
        title = f"{metric} from the most frequent labels to the rarest"
        yield _run_section(report, title, caption, short, charts)


def _headline(report: ComparisonReport) -> Section:
    """Return the drawings of the metric that the comparison is about."""
    title = f"{report.headline}, from head to tail"
    return Section("headline", title, charts=_drawings(report, report.headline), legend=report.runs)


def _drawings(report: ComparisonReport, metric: str) -> list[Chart]:
    """Return the drawings of one metric by bucket: of the values of the runs, and of their differences."""
    short = {short_name(name): key for name, key in report.by_bucket[metric].items()}
    return [_run_lines(report, metric), *_differences(report, short, metric, 46)]


def _run_lines(report: ComparisonReport, metric: str) -> Chart:
    """Return the drawing of one metric by bucket, with a line for each run."""
    keys = report.by_bucket[metric]
    values = [value for key in keys.values() for value in report.values[key].values()]
    scale = scale_from_zero(values, values) if any(map(math.isfinite, values)) else Scale(0.0, 1.0)
    marks = []
    for place, run in enumerate(report.runs):
        of_run = [(at, name, report.values[key].get(run, math.nan)) for at, (name, key) in enumerate(keys.items())]
        seen = sum(name != "unseen" and math.isfinite(value) for _, name, value in of_run)
        known = [
            ((at + 0.5) / len(keys), scale.share(value), f"{run}: {name} {number(value)}")
            for at, name, value in of_run
            if math.isfinite(value)
        ]
        colour, shape = run_look(place)
        marks.append(Mark("line", [(across, up) for across, up, _ in known[:seen]], colour))
        marks += [Mark("dot", [(across, up)], colour, shape, text=text) for across, up, text in known]
    return Chart(
        metric,
        marks,
        f"{metric} from head to tail",
        caption=report.captions.get(metric, ""),
        across=bar_ticks([(short_name(name),) for name in keys]),
        up=scale.ticks(),
        names=("bucket, head to tail", ""),
        height=150,
        gutter=46,
    )


def _differences(report: ComparisonReport, keys: Mapping[str, str], what: str, gutter: int) -> Iterator[Chart]:
    """Yield a drawing of the differences from the baseline for each other run.

    If two runs agree in every row, the interval of their difference may be so wide that it would hide the others: it
    then ends in an arrow at the edge.
    """
    for place, run in enumerate(report.runs[1:], 1):
        found = {name: report.against(key, run) for name, key in keys.items()}
        known = {name: one for name, one in found.items() if one is not None and math.isfinite(one.difference)}
        if not known:
            continue
        ends = [0.0, *(one.difference for one in known.values())]
        ends += _ends(one.interval for one in known.values() if not one.interval.agrees)
        wide, width = [*ends, *_ends(one.interval for one in known.values())], max(ends) - min(ends)
        ends = wide if max(wide) - min(wide) <= WIDER * width or not width else ends
        margin = 0.04 * (max(ends) - min(ends) or 1.0)
        scale, colour = Scale(min(ends) - margin, max(ends) + margin), run_look(place)[0]
        zero = scale.share(0.0)
        marks = [Mark("line", [(zero, 0.0), (zero, 1.0)], style="thin")]
        shown = [f"{name}{UNEQUAL * (keys[name] in report.unequal_lists)}" for name in found]
        up = [Tick(1 - (line + 0.5) / len(found), (name,)) for line, name in enumerate(shown)]
        for name, tick in zip(found, up, strict=True):
            if name not in known:
                continue
            one = known[name]
            values = (one.difference, one.interval.low, one.interval.high)
            at, lower, upper = (clipped(scale.share(end)) for end in values)
            has_ends = not math.isnan(one.interval.low)
            said = f" ({signed(one.interval.low)} to {signed(one.interval.high)})" if has_ends else ""
            least = "" if math.isnan(one.least_difference) else f", {number(one.least_difference)} would be shown"
            text = f"{name} {signed(one.difference)}{said}{', significant' if one.significant else least}"
            marks += [Mark("line", [(lower, tick.at), (upper, tick.at)], colour)] if has_ends else []
            beyond = [(0.0, "◂")] * (one.interval.low < scale.low) + [(1.0, "▸")] * (one.interval.high > scale.high)
            marks += [Mark("text", [(edge, tick.at)], colour, style="middle", text=arrow) for edge, arrow in beyond]
            marks.append(Mark("dot", [(at, tick.at)], colour, "circle", filled=one.significant, text=text))
        yield Chart(
            f"{run} minus {report.runs[0]}",
            marks,
            f"{what}, {run} minus {report.runs[0]}",
            caption=f"{what} · filled: significant; lines: confidence intervals of each difference alone",
            across=scale.ticks("{:+g}"),
            up=up,
            grid=False,
            height=LINE * len(found),
            gutter=gutter,
        )


def _ends(intervals: Iterable[Interval]) -> list[float]:
    return [end for one in intervals for end in (one.low, one.high) if math.isfinite(end)]


def _scatters(report: ComparisonReport) -> Section:
    """Return drawings with a dot per run: its value over all labels (x), and in the rarest measured bucket (y)."""
    charts = []
    for metric, keys in report.by_bucket.items():
        across, named = report.over_all.get(metric, ""), [key for name, key in keys.items() if name != "unseen"]
        measured = [key for key in named if any(map(math.isfinite, report.values[key].values()))]
        if across in report.values and measured:
            sides = [report.values[key] for key in (across, measured[-1])]
            pairs = {run: (sides[0].get(run, math.nan), sides[1].get(run, math.nan)) for run in report.runs}
            known = {run: pair for run, pair in pairs.items() if all(map(math.isfinite, pair))}
            charts += [_scatter(report, known, across, measured[-1])] if known else []
    return Section("scatter", "Accuracy against the tail", charts=charts, legend=report.runs)


def _scatter(report: ComparisonReport, known: Mapping[str, tuple[float, float]], across: str, up: str) -> Chart:
    x_axis, y_axis = (axis_of([pair[side] for pair in known.values()]) for side in (0, 1))
    dots, letters, outside = [], list[Mark](), []
    for run, (x, y) in known.items():
        shares, (colour, shape) = (x_axis.share(x), y_axis.share(y)), run_look(report.runs.index(run))
        at, text = (clipped(shares[0]), clipped(shares[1])), f"{run}: {number(x)} over all labels, {number(y)} in {up}"
        outside += [] if at == shares else [text]
        near = (mark.places[0] for mark in letters)
        aside = "\N{NO-BREAK SPACE}" * 3 * sum(abs(at[0] - x) < 0.04 and abs(at[1] - y) < 0.055 for x, y in near)
        side, letter = "left" if at[0] > 0.6 else "right", report.letter(run)
        said = letter + aside if side == "left" else aside + letter
        dots.append(Mark("dot", [at], colour, shape, filled=at == shares, text=text))
        letters.append(Mark("text", [at], colour, style=side, text=said))
    caption = f"against {across}: up and to the right is better in head and tail, unless less is better"
    far = f" · hollow, at the edge: far outside, {'; '.join(outside)}" if outside else ""
    return Chart(
        up,
        [mark for both in zip(dots, letters, strict=True) for mark in both],
        f"{up} against {across}",
        caption=caption + far,
        across=x_axis.ticks(),
        up=y_axis.ticks(),
        names=(across, ""),
        height=220,
        gutter=46,
        in_picture=False,
    )


def _over_all_differences(report: ComparisonReport) -> Section:
    """Return the differences over all labels: of values up to 1, of larger values, and of gaps, in a drawing each."""
    kinds: dict[str, dict[str, str]] = {"over all labels": {}, "above 1, over all labels": {}, "gaps": {}}
    for key in report.overall:
        above = any(abs(value) > 1 for value in report.values[key].values())
        is_gap = report.parts[key].bucket in GAPS
        kinds["gaps" if is_gap else "above 1, over all labels" if above else "over all labels"][key] = key
    charts = [one for what, keys in kinds.items() if keys for one in _differences(report, keys, what, 190)]
    return Section("differences", "Differences over all labels", charts=charts)


def _pairs(report: ComparisonReport) -> Iterator[Section]:
    """Yield a table for each pair of runs, with all their comparisons in numbers."""
    tested = report.corrected_for
    by_total = any(not math.isnan(one.p.total) for one in report.comparisons)
    together = "the rows of a cluster swapped together" if report.num_clusters else "rows swapped"
    swapped = (
        f"randomisation test, {together} between the runs, as mid-p: swaps that differ exactly as much as the runs "
        "count half (of medians: in full)"
    )
    test = "Student's t, with what varies between runs of a model or between labels" if by_total else swapped
    caption = (
        f"p: {test}; corrected: {report.correction}, of {tested} comparison{'' if tested == 1 else 's'}; interval: "
        f"{report.confidence:.3g} of this comparison alone, so that it may leave out 0 where the corrected p is large; "
        "least: the smallest true difference that so many rows show in 8 of 10 samples, "
        "if rows vary as they do here; effect: Cohen's d of the row "
        f"differences; *: significant at {1 - report.confidence:.3g}."
    )
    swaps = max((one.swaps for one in report.comparisons if one.p_is_upper_bound), default=0)
    if swaps:
        said = f"none of {swaps:,} random swaps differs as much as the runs; more resamples may give a lower p"
        caption += f" {AT_MOST}: {said}."
    if any(one.statistic == "labels" for one in report.comparisons):
        caption += " Of averages over labels, win/tie/loss are labels, not rows."
    pairs = grouped(((one.run, one.baseline), one) for one in report.comparisons)
    for number_of_pair, ((run, baseline), part) in enumerate(pairs.items()):
        without = grouped((one.interval.reason, one.key) for one in part if one.interval.reason)
        lacking = [f"no interval, {why}: {', '.join(keys)}" for why, keys in without.items()]
        open_keys = [one.key for one in part if abs(one.difference) < one.bin_error]
        if open_keys:
            lacking.append(
                f"smaller than what bins of scores leave open, so that no * stands there: {', '.join(open_keys)}; pass "
                "logits in place of probabilities, or scores of a wider range"
            )
        stand_out = [line for line, one in enumerate(part) if one.significant]
        yield Section(
            "comparisons",
            f"{run} against {baseline}",
            " ".join(filter(None, ["" if number_of_pair else caption, sentences(*lacking)])),
            header=COLUMNS,
            lines=[_cells(one, one.key in report.unequal_lists) for one in part],
            bold=frozenset((line, column) for line in stand_out for column in range(len(COLUMNS))),
            order=BY_NEED,
            folded=True,
        )


def _not_compared(report: ComparisonReport, brief: bool) -> Section:
    """Return the values over all rows that no comparison reads; in a terminal, only values over all labels."""
    parts = {key: split(key, report.row_groups, report.buckets, report.postfix) for key in report.not_compared}
    keys = [key for key, part in parts.items() if not (part.group or (brief and part.bucket))]
    lines = [[key, *(number(report.not_compared[key].get(run, math.nan)) for run in report.runs)] for key in keys]
    caption = f"{' '.join(report.not_compared_because)} Nothing tells whether a difference is chance."
    return Section("not_compared", "Not compared", caption, header=["metric", *report.runs], lines=lines)


def _cells(comparison: Comparison, unequal: bool) -> list[str]:
    """Return the cells of a comparison, in the order of :data:`COLUMNS`."""
    interval, outcomes = comparison.interval, (comparison.wins, comparison.ties, comparison.losses)
    return [
        comparison.key,
        number(comparison.value),
        number(comparison.baseline_value),
        signed(comparison.difference),
        "–" if math.isnan(interval.low) else f"{signed(interval.low)} … {signed(interval.high)}",
        *(p_value(p.decisive, comparison.p_is_upper_bound) for p in (comparison.p, comparison.p_corrected)),
        number(comparison.least_difference),
        "/".join(map(str, outcomes)) if any(outcomes) else "–",
        "–" if math.isnan(comparison.cohens_dz) else f"{comparison.cohens_dz:+.2f}",
        "*" * comparison.significant + UNEQUAL * unequal,
    ]
