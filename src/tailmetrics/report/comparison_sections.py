"""What a comparison shows, section by section: every renderer shows the same ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tailmetrics.report.charts import (
    Chart,
    Mark,
    Scale,
    Tick,
    axis_of,
    bar_ticks,
    clipped,
    run_shade,
    run_shape,
    scale_from_zero,
)
from tailmetrics.report.document import Document, Section
from tailmetrics.report.formatting import LETTERS, RAISED, number, sentences, short_name, signed
from tailmetrics.report.report_sections import HEAD_TO_TAIL, curve_chart, of_curves

if TYPE_CHECKING:
    from tailmetrics.report.comparison import ComparisonReport
    from tailmetrics.significance.comparing import Comparison

COLUMNS = (
    "metric", "run", "baseline", "difference", "interval", "p", "corrected", "least", "win/tie/loss", "effect", "",
)  # fmt: skip
BY_NEED = (0, 3, 4, 6, 10, 1, 2, 5, 7, 8, 9)
"""The columns in the order in which they come where one table has no room for all."""
SUPERSCRIPTS = str.maketrans(LETTERS, RAISED)
LINE = 22
"""Pixels of a line of differences."""


def comparison_document(report: ComparisonReport, brief: bool) -> Document:
    """Return what renderers show of a comparison; a terminal has no room for the tables by bucket."""
    by_bucket = [] if brief else [*_runs_by_bucket(report), *_run_curves(report), _scatters(report)]
    over_all = [] if brief else [_over_all_differences(report)]
    sections = [_runs(report), *by_bucket, *over_all, *_pairs(report)]
    rows = max((one.n for one in report.comparisons), default=0)
    return Document(
        title=report.title,
        kind="Runs compared from head to tail",
        facts=[f"{len(report.runs)} runs", f"{rows:,} rows", f"{len(report.comparisons):,} comparisons"],
        sections=[section for section in sections if section is not None and (section.lines or section.charts)],
        verdict=report.verdict,
        below=f"Differences with {report.confidence:.0%} intervals; filled: significant at {report.level:g}, corrected "
        f"({report.correction}).",
        settings=report.settings,
        versions={"compared on": report.date, **report.versions},
    )


def _runs(report: ComparisonReport) -> Section | None:
    """Return one row per run: its values over all labels, with the letters of the runs that it is better than."""
    caption = (
        f"A letter behind a value names a run that is significantly worse, at {report.level:g}, corrected for "
        f"{report.corrected_for} comparisons. Bold: the best value. Differences are from {report.baseline}."
    )
    if all(one.baseline == report.baseline for one in report.comparisons) and len(report.runs) > 2:
        caption += f" Runs were compared with {report.baseline} alone."
    if not report.overall:
        return None
    return _run_section(report, "The runs over all labels", caption, {key: key for key in report.overall}, [])


def _run_section(
    report: ComparisonReport, title: str, caption: str, keys: Mapping[str, str], charts: Sequence[Chart]
) -> Section:
    lines, bold = [], set()
    for line, run in enumerate(report.runs):
        beaten = (report.beaten(key, run).translate(SUPERSCRIPTS) for key in keys.values())
        values = [report.value(key, run) for key in keys.values()]
        cells = [f"{number(value)}{letters}" for value, letters in zip(values, beaten, strict=True)]
        lines.append([report.letter(run), run, *cells])
        for column, (key, value) in enumerate(zip(keys.values(), values, strict=True)):
            known = [one for one in report.values[key].values() if not math.isnan(one)]
            if known and value == (min if key in report.lower_is_better else max)(known):
                bold.add((line, column + 2))
    header, legend = ["", "run", *keys], report.runs if charts else []
    return Section(
        "runs", title, caption, header=header, lines=lines, fixed=2, texts=2, bold=frozenset(bold), charts=charts,
        legend=legend,
    )  # fmt: skip


def _runs_by_bucket(report: ComparisonReport) -> Iterator[Section]:
    """Yield for each metric by bucket one row per run, with all runs and their differences drawn."""
    for metric, keys in report.by_bucket.items():
        caption = sentences(report.captions.get(metric, ""), report.what_buckets_are)
        short = {short_name(name): key for name, key in keys.items()}
        charts = [_run_lines(report, metric, keys), *_differences(report, short, metric, 46)]
        yield _run_section(report, f"{metric} {HEAD_TO_TAIL.lower()}", caption, keys, charts)


def _run_lines(report: ComparisonReport, metric: str, keys: Mapping[str, str]) -> Chart:
    """Return the drawing of the values of all runs of one metric."""
    values = [report.value(key, run) for key in keys.values() for run in report.runs]
    scale = scale_from_zero(values, values) if any(map(math.isfinite, values)) else Scale(0.0, 1.0)
    marks, told = [], []
    for place, run in enumerate(report.runs):
        of_run = [report.value(key, run) for key in keys.values()]
        at = [(place + 0.5) / len(keys) for place in range(len(keys))]
        found = [(x, value, name) for x, value, name in zip(at, of_run, keys, strict=True) if math.isfinite(value)]
        colour = run_shade(place)
        marks.append(Mark("line", [(x, scale.share(value)) for x, value, _ in found], colour))
        marks += [
            Mark("dot", [(x, scale.share(value))], colour, run_shape(place), text=f"{run}: {name} {number(value)}")
            for x, value, name in found
        ]
        told.append(f"{run}: " + "; ".join(f"{name} {number(value)}" for _, value, name in found))
    return Chart(
        metric,
        marks,
        f"{metric} from head to tail: {'. '.join(told)}",
        caption=report.captions.get(metric, ""),
        across=bar_ticks([(short_name(name),) for name in keys]),
        up=scale.ticks(),
        names=("bucket, head to tail", ""),
        height=150,
        gutter=46,
    )


def _differences(report: ComparisonReport, keys: Mapping[str, str], what: str, gutter: int) -> Iterator[Chart]:
    """Yield a drawing of the differences from the baseline for each other run.

    Intervals of runs that agree in every row leave room for what was never seen; they are cut off, for they would hide
    the others.
    """
    for run in report.runs[1:]:
        found = {name: report.against(key, run) for name, key in keys.items()}
        known = {name: one for name, one in found.items() if one is not None and not math.isnan(one.difference)}
        if not any(found.values()):
            continue
        ends = [end for one in known.values() for end in _reach(one) if math.isfinite(end)]
        low, high = min(ends, default=0.0), max(ends, default=0.0)
        margin = 0.04 * (high - low or 1.0)
        scale, colour = Scale(low - margin, high + margin), run_shade(report.runs.index(run))
        zero = scale.share(0.0)
        marks, told = [Mark("line", [(zero, 0.0), (zero, 1.0)], style="thin")], []
        up = [Tick(1 - (line + 0.5) / len(found), (name,)) for line, name in enumerate(found)]
        for (name, one), tick in zip(found.items(), up, strict=True):
            if name not in known or one is None:
                told.append(f"{name} no value")
                continue
            at, lower, upper = (clipped(scale.share(end)) for end in _ends(one))
            has_ends = not math.isnan(one.interval.low)
            said = f" ({signed(one.interval.low)} to {signed(one.interval.high)})" if has_ends else ""
            least = "" if math.isnan(one.least_difference) else f", {number(one.least_difference)} would be shown"
            text = f"{name} {signed(one.difference)}{said}{', significant' if one.significant else least}"
            marks += [Mark("line", [(lower, tick.at), (upper, tick.at)], colour)] if has_ends else []
            marks.append(Mark("dot", [(at, tick.at)], colour, "circle", filled=one.significant, text=text))
            told.append(text)
        yield Chart(
            f"{run} minus {report.baseline}",
            marks,
            f"{what}, {run} minus {report.baseline}: {'; '.join(told)}",
            caption=f"{what} · filled: significant; lines: confidence intervals of each difference alone",
            across=scale.ticks("{:+g}"),
            up=up,
            grid=False,
            height=LINE * len(found),
            gutter=gutter,
        )


def _ends(one: Comparison) -> tuple[float, float, float]:
    return one.difference, one.interval.low, one.interval.high


def _reach(one: Comparison) -> tuple[float, ...]:
    return (0.0, one.difference) if "agree" in one.interval.method else (0.0, *_ends(one))


def _run_curves(report: ComparisonReport) -> Iterator[Section]:
    """Yield the values of all runs as functions of the training count."""
    if report.curves:
        shades = [run_shade(place) for place in range(len(report.runs))]
        charts = [
            curve_chart(metric, {run: of_runs[run] for run in report.runs}, [], shades)
            for metric, of_runs in report.curves.items()
        ]
        title = "As functions of the training count"
        yield Section("curve", title, of_curves(False), charts=charts, legend=report.runs)


def _scatters(report: ComparisonReport) -> Section:
    """Return accuracy against the tail: a dot per run, the value over all labels across, the rarest measured up."""
    charts: list[Chart] = []
    for metric, keys in report.by_bucket.items():
        whole, seen = report.over_all.get(metric), [key for name, key in keys.items() if name != "unseen"]
        measured = [key for key in seen if any(map(math.isfinite, report.values[key].values()))]
        if whole in report.values and measured:
            charts += _scatter(report, whole, measured[-1])
    return Section("scatter", "Accuracy against the tail", charts=charts, legend=report.runs)


def _scatter(report: ComparisonReport, across: str, up: str) -> Iterator[Chart]:
    pairs = {run: (report.value(across, run), report.value(up, run)) for run in report.runs}
    known = {run: pair for run, pair in pairs.items() if all(map(math.isfinite, pair))}
    if not known:
        return
    x_axis, y_axis = (axis_of([pair[side] for pair in known.values()]) for side in (0, 1))
    marks, told, outside = [], [], []
    for run, (x, y) in known.items():
        shares, place = (x_axis.share(x), y_axis.share(y)), report.runs.index(run)
        at, text = (clipped(shares[0]), clipped(shares[1])), f"{run}: {number(x)} over all labels, {number(y)} in {up}"
        outside += [] if at == shares else [text]
        marks.append(Mark("dot", [at], run_shade(place), run_shape(place), filled=at == shares, text=text))
        side = "left" if at[0] > 0.6 else "right"
        near = [mark.places[0] for mark in marks if mark.kind == "text"]
        blanks = sum(abs(at[0] - one[0]) < 0.04 and abs(at[1] - one[1]) < 0.055 for one in near)
        aside = "\N{NO-BREAK SPACE}" * 3 * blanks
        letter = report.letter(run)
        said = letter + aside if side == "left" else aside + letter
        marks.append(Mark("text", [at], run_shade(place), style=side, text=said))
        told.append(text)
    caption = f"against {across}: up and to the right is better in head and tail, unless less is better"
    far = f" · hollow, at the edge: far outside, {'; '.join(outside)}" if outside else ""
    yield Chart(
        up,
        marks,
        "; ".join(told),
        caption=caption + far,
        across=x_axis.ticks(),
        up=y_axis.ticks(),
        names=(across, ""),
        height=220,
        gutter=46,
        in_picture=False,
    )


def _over_all_differences(report: ComparisonReport) -> Section:
    """Return the differences over all labels: shares in one drawing, what is larger than 1 in another."""
    shares = {key for key in report.overall if all(not abs(value) > 1 for value in report.values[key].values())}
    charts: list[Chart] = []
    for wanted in (True, False):
        keys = {key: key for key in report.overall if (key in shares) is wanted}
        charts += _differences(report, keys, "over all labels", 190) if keys else []
    return Section("differences", "Differences over all labels", charts=charts)


def _pairs(report: ComparisonReport) -> Iterator[Section]:
    """Yield every comparison of each two runs, in numbers."""
    pairs = dict.fromkeys((one.run, one.baseline) for one in report.comparisons)
    for number_of_pair, (run, baseline) in enumerate(pairs):
        part = [one for one in report.comparisons if (one.run, one.baseline) == (run, baseline)]
        lines = [cells(one) for one in part]
        stand_out = [line for line, one in enumerate(part) if one.significant]
        bold = frozenset((line, column) for line in stand_out for column in range(len(COLUMNS)))
        yield Section(
            "comparisons",
            f"{run} against {baseline}",
            "" if number_of_pair else legend(report),
            header=COLUMNS,
            lines=lines,
            bold=bold,
            order=BY_NEED,
            folded=True,
        )


def legend(report: ComparisonReport) -> str:
    """Return what the columns of comparisons mean."""
    tested = report.corrected_for
    by_total = any(not math.isnan(one.p.total) for one in report.comparisons)
    swapped = "randomisation test, rows swapped between the runs"
    test = "Student's t, with what varies between runs of a model or between labels" if by_total else swapped
    return (
        f"p: {test}; corrected: {report.correction}, of {tested} comparison{'' if tested == 1 else 's'}; interval: "
        f"{report.confidence:.3g} of this comparison alone, so that it may leave out 0 where the corrected p is large; "
        "least: the smallest true difference that so many rows show in 8 of 10 samples; effect: Cohen's d of the row "
        f"differences; *: significant at {report.level:.3g}."
    )


def cells(comparison: Comparison) -> list[str]:
    """Return what is known of a comparison, in the order of the columns."""
    interval = comparison.interval
    return [
        comparison.key,
        number(comparison.value),
        number(comparison.baseline_value),
        signed(comparison.difference),
        "–" if math.isnan(interval.low) else f"{signed(interval.low)} … {signed(interval.high)}",
        _p(comparison.p.decisive),
        _p(comparison.p_corrected.decisive),
        number(comparison.least_difference),
        f"{comparison.wins}/{comparison.ties}/{comparison.losses}",
        "–" if math.isnan(comparison.cohens_dz) else f"{comparison.cohens_dz:+.2f}",
        "*" if comparison.significant else "",
    ]


def _p(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}" if value >= 0.0001 else "<0.0001"
