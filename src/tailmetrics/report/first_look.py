"""What a reader sees first: the answer in words, and the two tables of a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from tailmetrics._arguments import cut
from tailmetrics.report.document import Section
from tailmetrics.report.formatting import brief, number, short_name, signed, without_zero

Report: TypeAlias = Any
"""A report or a comparison. Their modules import this one, so that it does not import their classes."""
NAMED = 3
"""How many of the labels most often missed an answer names."""
LETTERS = 40
"""The most letters of a label's name in an answer."""
BLOCKS = " ▏▎▍▌▋▊▉█"
"""An eighth of a letter more each."""
WIDE = 20
"""Letters of the longest bar: beside names, counts, value and interval it fits into 80 columns."""
HALF = 5
"""Letters of the longest bar of a difference, to each side."""
AMONG_THEMSELVES = "(scope bucket)"
"""The words of a caption of values for which the labels of each bucket are ranked among themselves."""
METRICS = 12
"""Metrics over all labels that a terminal shows of more than two runs, one in each line."""

# -- the answer -----------------------------------------------------------------------------------------------------


def answer(report: Report) -> str:
    """Return what a report says, in one to three sentences; empty if it has no value over all labels.

    The sentences are about one metric, the headline: over all labels, in the first and the last bucket that was
    measured, and for labels that training never showed. The last one names the labels that are most often missed.
    """
    metric = headline(report)
    whole = report.value_over_all(metric)
    if report.rows == 0:
        return f"No {report.words[0].removesuffix('s')} was evaluated: there is none, or all are left out."
    if whole is None or math.isnan(whole):
        return ""
    holds = _places_of_recall(report, metric)
    rows, labels = report.words
    of_rows = "" if report.rows is None else f" over {report.rows:,} {rows}"
    if holds:
        first = f"On average{of_rows}, {holds} {share(whole)} of the relevant {labels}"
    else:
        less = ", where lower is better," if report.less_is_better(metric) else ""
        first = f"{metric}{less} is {_value(whole)}{of_rows}"
    return " ".join(
        [f"{first}{_ends(report, metric, bool(holds))}.", *_unseen(report, metric), *_most_missed(report, metric)]
    )


def key_over_all(report: Report, metric: str) -> str:
    """Return the key of the value over all labels of a metric by bucket."""
    return str(report.over_all.get(metric, metric))


def headline(report: Report) -> str:
    """Return the metric that a report is about: its headline, or else the first metric by bucket, or the first one."""
    return report.headline or next(iter(report.by_bucket), next(iter(report.overall), ""))


def share(value: float) -> str:
    """Return a share in percent; no share but 0 and 1 is rounded to 0 % or 100 %.

    >>> share(0.5874), share(0.0001), share(0.99999), share(1.0)
    ('58.7 %', 'less than 0.1 %', 'more than 99.9 %', '100 %')
    """
    if 0 < value < 0.0005:
        return "less than 0.1 %"
    if 0.9995 <= value < 1:
        return "more than 99.9 %"
    return f"{100 * value:.1f}".removesuffix(".0") + " %"


def _places_of_recall(report: Report, metric: str) -> str:
    """Return the words for the list that the headline reads, if it is the recall of the one list of a row; or ""."""
    stem, _, k = metric.removesuffix(report.postfix).rpartition("/")[2].partition("@")
    wanted = {"class": "RecallAtK", "scope": "global", "average": "samples", "ties": "id", "weighted": False}
    read = (of for of in report.settings if all(of.get(name) == value for name, value in wanted.items()))
    if stem in ("recall", "global_recall") and any(k in map(str, _listed(of["k"])) for of in read):
        return "the first place holds" if k == "1" else f"the first {k} places hold"
    return ""


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else [value]


def _value(value: float) -> str:
    return without_zero(brief(value))


def _ends(report: Report, metric: str, in_percent: bool) -> str:
    """Return the values of the first and the last bucket that was measured, in words."""
    found = report.by_bucket.get(metric, {})
    rows = [row for row in report.buckets if row.name != "unseen" and not math.isnan(found.get(row.name, math.nan))]
    ends = [rows[0], rows[-1]] if len(rows) > 1 else rows
    held = [row.name for row in report.buckets if row.labels and row.name in found and row.name != "unseen"]
    said = []
    for row in ends:
        rank = "most frequent" if row.name == held[0] else "rarest" if row.name == held[-1] else ""
        value, of = found[row.name], _of_bucket(report, row, rank)
        said.append(f"{share(value)} of those among {of}" if in_percent else f"{_value(value)} for {of}")
    if not said:
        return ""
    if metric in report.additive:
        return f". Of it, {' and '.join(said).replace(' for ', ' come from ')}"
    if AMONG_THEMSELVES in report.captions.get(metric, ""):
        return f". If the labels of each bucket are ranked among themselves, it is {' and '.join(said)}"
    return f": {', '.join(said)}"


def _of_bucket(report: Report, row: Any, rank: str) -> str:
    """Return a bucket in words, such as ``the 66 most frequent labels (decile 10)``; ``rank`` may be empty."""
    labels, name = report.words[1], row.name.replace("_", " ")
    if rank and row.name.startswith(("decile_", "quantile_")):
        return f"the {row.labels:,} {rank} {labels} ({name})" if row.labels > 1 else f"the {rank} label ({name})"
    return f"the {row.labels:,} {labels} of {row.name!r}"


def _unseen(report: Report, metric: str) -> Iterator[str]:
    """Yield the sentence on the labels that training never showed, if any is relevant."""
    positives = sum(row.positives for row in report.buckets if row.name == "unseen")
    if positives and report.positives:
        value = report.by_bucket.get(metric, {}).get("unseen", math.nan)
        of = report.words[1]
        said = f"{share(positives / report.positives)} of the relevant {of} never occur in training"
        holds = _places_of_recall(report, metric)
        held = f"{holds} {share(value)} of these" if holds else f"for these {metric} is {_value(value)}"
        yield f"{said}{'' if math.isnan(value) else f'; {held}'}."


def _most_missed(report: Report, metric: str) -> Iterator[str]:
    """Yield the sentence on the labels most often missed; it names k where that is not the one of ``metric``."""
    if report.labels is not None and report.labels.cuts:
        table = report.labels
        cells = table.cells(table.most("missed", NAMED))
        names, missed = cells.get("name", cells["label"]), cells[f"missed{table.cuts[-1]}"]
        some = (
            f"{cut(str(name), LETTERS)} ({often:,} of {support:,})"
            for name, often, support in zip(names, missed, cells["support"], strict=True)
        )
        if said := "; ".join(some):
            is_same = table.k in ("", metric.removesuffix(report.postfix).partition("@")[2])
            yield f"Most often missed{'' if is_same else f' at k = {table.k}'}: {said}."


# -- the tables of a terminal ---------------------------------------------------------------------------------------


def tables_of_report(report: Report, overall: Section) -> list[Section]:
    """Return the table of the headline by bucket, with bars, and the table over all labels."""
    metric = headline(report)
    found = report.by_bucket.get(metric, {})
    rows = [row for row in report.buckets if row.name in found]
    lines = [
        [row.name, f"{row.labels:,}", f"{row.positives:,}", report.text(report.key(metric, row.name))] for row in rows
    ]
    values = [found[row.name] for row in rows]
    whole = report.value_over_all(metric)
    if whole is not None and lines:
        total = (f"{sum(getattr(row, what) for row in rows):,}" for what in ("labels", "positives"))
        key = key_over_all(report, metric)
        lines, values = [["all", *total, report.text(key)], *lines], [whole, *values]
    most = max([1.0 if all(not abs(one) > 1 for one in values) else 0.0, *filter(math.isfinite, values)])
    lines = [[*cells, bar(value / (most or 1.0))] for cells, value in zip(lines, values, strict=True)]
    known = next(iter(report.intervals.values()), None)
    said = [report.captions.get(metric, "")] + ([] if known is None else [f"{known.confidence:.0%} intervals"])
    by_bucket = Section(
        "first", f"{metric} by bucket", "; ".join(filter(None, reversed(said))),
        header=["bucket", "labels", "positives", "value", ""], lines=lines,
    )  # fmt: skip
    return [one for one in (by_bucket, replace(overall, caption="")) if one.lines]


def bar(part: float, width: int = WIDE) -> str:
    """Return a bar of blocks for a part from 0 to 1.

    >>> bar(0.5, 4), bar(0.125, 1), bar(0.0)
    ('██', '▏', '')
    """
    eighths = round(8 * width * min(1.0, max(0.0, part))) if math.isfinite(part) else 0
    return BLOCKS[8] * (eighths // 8) + BLOCKS[eighths % 8].strip()


def _from_zero(part: float) -> str:
    """Return a bar for a part from -1 to 1: to the left of a line at 0, or to the right; more is 1.

    >>> _from_zero(-0.5), _from_zero(1.0)
    ('  ▐██│', '     │█████')
    """
    part = max(-1.0, min(part, 1.0))
    if not part < 0:
        return f"{' ' * HALF}│{bar(part, HALF)}"
    halves = round(-2 * HALF * part)  # a letter has eighths from its left edge, and only a half from its right one
    return f"{'▐' * (halves % 2)}{BLOCKS[8] * (halves // 2)}".rjust(HALF) + "│"


def tables_of_comparison(report: Report) -> list[Section]:
    """Return the table of the headline by bucket, and the table over all labels; two runs have their difference."""
    metric = report.headline or next(iter(report.by_bucket), "")
    keys = {key_over_all(report, metric): "all"}
    keys |= {key: name for name, key in report.by_bucket.get(metric, {}).items()}
    keys = {key: name for key, name in keys.items() if key in report.values}
    first = _differences if len(report.runs) == 2 else _runs
    by_bucket = first(report, keys, f"{metric} by bucket" if metric in report.by_bucket else metric)
    others = [key for key in report.overall if report.parts[key].bucket not in ("gap", "adjusted_gap")]
    overall = _overall(report, others)
    return [one for one in (by_bucket, overall) if one.lines]


def _differences(report: Report, keys: Mapping[str, str], title: str) -> Section:
    """Return the table of two runs, with a line for each bucket."""
    baseline, run = report.runs
    found = {name: one for key, name in keys.items() if (one := report.against(key, run)) is not None}
    most = max((abs(one.difference) for one in found.values() if math.isfinite(one.difference)), default=0.0) or 1.0
    lines = []
    for name, one in found.items():
        low, high = one.interval.low, one.interval.high
        ends = "–" if math.isnan(low) else f"{signed(low)} … {signed(high)}"
        values = number(one.baseline_value), number(one.value), signed(one.difference), ends
        lines.append([name, *values, f"{'*' if one.significant else ' '} {_from_zero(one.difference / most)}"])
    header = ["bucket", baseline, run, "difference", f"{report.confidence:.0%} interval", ""]
    caption = f"*: significant, corrected for {report.corrected_for} comparisons"
    return Section("first", title, caption, header=header, lines=lines)


def _runs(report: Report, keys: Mapping[str, str], title: str) -> Section:
    """Return the table of several runs, with a line for each run."""
    lines = []
    for run in report.runs:
        cells = [f"{_value(report.values[key].get(run, math.nan))}{report.marked(key, run)}" for key in keys]
        lines.append([f"{report.letter(run)} {run}", *cells])
    caption = "A letter behind a value names a run that is significantly worse"
    return Section("first", title, caption, header=["run", *map(short_name, keys.values())], lines=lines)


def _overall(report: Report, keys: Sequence[str]) -> Section:
    title = "Over all labels"
    if len(report.runs) > 2:
        lines = [[key, *(report.cell(key, run) for run in report.runs)] for key in keys[:METRICS]]
        return Section("first", title, header=["metric", *report.runs], lines=lines)
    lines = []
    for key in keys:
        one = report.against(key, report.runs[1])
        if one is not None:
            lines.append([key, f"{number(one.baseline_value)} → {number(one.value)} {'*' if one.significant else ' '}"])
    return Section("overall", title, header=["metric", "values"], lines=lines)
