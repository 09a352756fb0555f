"""The tables of a report, as text in cells: every renderer shows the same ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailmetrics.report.example_table import HEADER, caption_of, lines_of
from tailmetrics.report.formatting import number, with_interval
from tailmetrics.report.wording import plus_minus, rows_of, scopes, what_buckets_are

if TYPE_CHECKING:
    from tailmetrics.report.labels import LabelTable
    from tailmetrics.report.report import Report

ALL_LABELS, ALL_ROWS = "all", "all rows"
VALIDATIONS = 20
"""The last validations of a fit that are shown; ``history.csv`` has all."""
MISSED, WRONG = 3, 10
"""How many labels of each bucket are shown of the most often missed, and how many of the most often wrong."""
BRIEF = 2
"""How many example rows a terminal shows."""


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        name: ``"overall"``, ``"buckets"``, ``"tail"``, ``"groups"``, ``"grid"``, ``"history"``, ``"missed"``,
            ``"wrong"`` or ``"examples"``.
        title: Heads it.
        caption: What its values are of: scope, cut-off, rows, and what a bucket is.
        header: Names of the columns.
        lines: Cells.
        fixed: How many columns from the left say what a line is; a narrow terminal repeats them.
        texts: How many columns from the left hold text.
        heat: For each cell behind the fixed ones its place between the lowest (0) and the highest (1) of the table;
            None for no value. Empty where cells are not comparable.
        long: How many columns from the right hold texts of several lines.
    """

    name: str
    title: str
    caption: str
    header: list[str]
    lines: list[list[str]]
    fixed: int = 1
    texts: int = 1
    heat: list[list[float | None]] = field(default_factory=list)
    long: int = 0


def tables(report: Report, brief: bool = False) -> list[Table]:
    """Return the tables of a report, in the order in which they are read; ``brief`` shows fewer labels and rows."""
    found = [_overall(report), _buckets(report), _tail(report), _groups(report), *_grids(report)]
    found += [] if brief else _histories(report)
    found += [*_labels(report, 1 if brief else MISSED), _examples(report, brief)]
    return [table for table in found if table is not None and table.lines]


def table_of_buckets(report: Report) -> Table | None:
    """Return the table of the values by bucket."""
    return _buckets(report)


def _overall(report: Report) -> Table | None:
    lines = [
        [key, with_interval(value, report.intervals.get(key), key in report.places)]
        for key, value in report.overall.items()
    ]
    return Table(
        "overall", "Over all labels", _sentences(rows_of(report), plus_minus(report)), ["metric", "value"], lines
    )


def _buckets(report: Report) -> Table | None:
    metrics = report.by_bucket
    if not metrics:
        return None
    lines = []
    whole = [_over_all(report, metric) for metric in metrics]
    if any(whole):
        labels, positives = (sum(getattr(row, name) for row in report.buckets) for name in ("labels", "positives"))
        rows = [_count(report.rows)] if report.intervals else []
        lines.append([ALL_LABELS, f"{labels:,}", f"{positives:,}", *rows, *(cell or "–" for cell in whole)])
    for row in report.buckets:
        if any(row.name in values for values in metrics.values()):
            cells = [_cell(report, metric, row.name, values) for metric, values in metrics.items()]
            rows = [_count(_rows_that_count(report, row.name))] if report.intervals else []
            lines.append([row.name, f"{row.labels:,}", f"{row.positives:,}", *rows, *cells])
    caption = _sentences(rows_of(report), scopes(report, metrics), what_buckets_are(report.buckets), plus_minus(report))
    title = "From the most frequent labels to the rarest"
    counts = ["labels", "positives", *(["rows"] if report.intervals else [])]
    return Table("buckets", title, caption, ["bucket", *counts, *metrics], lines, fixed=1 + len(counts))


def _rows_that_count(report: Report, bucket: str) -> int | None:
    """Return in how many rows a bucket has a value: those with a relevant label of it, unless a metric counts more."""
    known = (report.intervals.get(f"{metric}/{bucket}") for metric in report.by_bucket)
    return min((one.n for one in known if one is not None), default=None)


def _over_all(report: Report, metric: str) -> str:
    value = report.value_over_all(metric)
    return "" if value is None else with_interval(value, report.interval_over_all(metric), metric in report.places)


def _cell(report: Report, metric: str, bucket: str, values: dict[str, float]) -> str:
    interval = report.intervals.get(f"{metric}/{bucket}")
    return with_interval(values.get(bucket, math.nan), interval, metric in report.places)


def _tail(report: Report) -> Table | None:
    """Return head against tail: the first and the last bucket that training saw, their gap, and the spread of all."""
    seen = [row.name for row in report.buckets if row.name != "unseen"]
    lines = []
    for metric, values in report.by_bucket.items():
        if f"{metric}/gap" not in report.summaries:
            continue
        place = metric in report.places
        known = [values[name] for name in seen if name in values]
        whole, gap = report.value_over_all(metric), report.summaries[f"{metric}/gap"]
        ends = (math.nan if whole is None else whole, known[0], known[-1], gap)
        spread = number(report.summaries[f"{metric}/spread"])
        lines.append([metric, *(number(value, place) for value in ends), spread])
    if not lines:
        return None
    caption = (
        f"gap: {seen[0]} minus {seen[-1]}; spread: standard deviation over mean of the buckets seen in training, "
        "0 where all are equal."
    )
    header = ["metric", ALL_LABELS, seen[0], seen[-1], "gap", "spread"]
    return Table("tail", "Head against tail", _sentences(rows_of(report), caption), header, lines)


def _groups(report: Report) -> Table | None:
    """Return the values over all labels of each group of rows."""
    metrics = report.by_group
    if not metrics:
        return None
    lines = [[ALL_ROWS, _count(report.rows), *(number(report.overall[m], m in report.places) for m in metrics)]]
    for group in report.row_groups:
        cells = [number(values.get(group.name, math.nan), m in report.places) for m, values in metrics.items()]
        lines.append([group.name, _count(group.rows), *cells])
    return Table("groups", "By group of rows", "Over all labels.", ["group", "rows", *metrics], lines, fixed=2)


def _grids(report: Report) -> Iterator[Table]:
    """Yield a grid of groups and buckets for each metric by bucket."""
    for metric in report.by_bucket:
        if not all(metric in report.of_group(group.name) for group in report.row_groups) or not report.row_groups:
            continue
        place = metric in report.places
        whole = [] if report.value_over_all(metric) is None else [ALL_LABELS]
        buckets = list(report.by_bucket[metric])
        groups = {ALL_ROWS: "", **{group.name: group.name for group in report.row_groups}}
        values = [
            [*(report.value_over_all(metric, group) for _ in whole), *map(report.of_group(group)[metric].get, buckets)]
            for group in groups.values()
        ]
        counts = [report.rows, *(group.rows for group in report.row_groups)]
        lines = [
            [name, _count(count), *(number(math.nan if value is None else value, place) for value in line)]
            for name, count, line in zip(groups, counts, values, strict=True)
        ]
        yield Table(
            "grid",
            f"{metric} by group of rows and bucket",
            _sentences(scopes(report, [metric]), what_buckets_are(report.buckets)),
            ["group", "rows", *whole, *buckets],
            lines,
            fixed=2,
            heat=_heat(values),
        )


def _histories(report: Report) -> Iterator[Table]:
    """Yield the validations of a fit one below the other, for each metric by bucket."""
    known = list(report.history)[-VALIDATIONS:]
    if len(known) < 2:
        return
    for metric, of_bucket in report.by_bucket.items():
        whole = {ALL_LABELS: report.over_all[metric]} if metric in report.over_all else {}
        keys = {**whole, **{bucket: f"{metric}/{bucket}" for bucket in of_bucket}}
        values = [[row.get(key, math.nan) for key in keys.values()] for row in known]
        place = metric in report.places
        lines = [
            [str(row["epoch"]), f"{row['step']:,}", *(number(value, place) for value in line)]
            for row, line in zip(known, values, strict=True)
        ]
        caption = _sentences(rows_of(report), scopes(report, [metric]), what_buckets_are(report.buckets))
        header = ["epoch", "step", *keys]
        yield Table("history", f"{metric} over epochs", caption, header, lines, fixed=2, heat=_heat(values))


def _labels(report: Report, each: int) -> Iterator[Table]:
    """Yield the labels that are missed most often, and those that are suggested wrongly most often."""
    table = report.labels
    if table is None:
        return
    at = table.deepest
    cut = f" at k = {at.removeprefix('@')}" if at else ""
    by_bucket = table.buckets is not None
    chosen = table.most_missed(each if by_bucket else WRONG)
    limit = f"at most {each} of each bucket" if by_bucket else f"the first {WRONG}"
    yield _label_table(
        report,
        table,
        ("missed", f"Labels most often missed{cut}", f"missed: relevant and not predicted; {limit}"),
        chosen,
    )
    said = f"wrong: predicted and not relevant; the first {WRONG}"
    yield _label_table(
        report, table, ("wrong", f"Labels most often suggested wrongly{cut}", said), table.most_wrong(WRONG)
    )


def _label_table(report: Report, table: LabelTable, words: tuple[str, str, str], labels: list[int]) -> Table:
    name, title, caption = words
    other = "wrong" if name == "missed" else "missed"
    header = [column for column in table.header() if column.partition("@")[0] != other]
    texts = sum(column in ("label", "name", "bucket") for column in header)
    lines = [[_text(record[column]) for column in header] for record in map(table.record, labels)]
    lines = [[str(label), *cells[1:]] for label, cells in zip(labels, lines, strict=True)]
    return Table(name, title, _sentences(rows_of(report), caption), header, lines, fixed=texts, texts=texts)


def _examples(report: Report, brief: bool) -> Table | None:
    """Return the example rows; those of the rarest buckets where there is little room."""
    if not report.examples:
        return None
    lines = lines_of(report, brief)[-BRIEF if brief else 0 :]
    by_bucket = bool(report.examples[0].bucket)
    header = HEADER if by_bucket else HEADER[1:]
    lines = lines if by_bucket else [cells[1:] for cells in lines]
    columns = len(header)
    return Table("examples", "Example rows", caption_of(report), header, lines, columns, columns, long=2)


def _heat(values: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    known = [value for line in values for value in line if value is not None and math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    width = high - low or 1.0
    return [
        [(value - low) / width if value is not None and math.isfinite(value) else None for value in line]
        for line in values
    ]


def _count(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _sentences(*parts: str) -> str:
    """Return the parts as sentences, one behind the other; a key at their beginning stays as it is."""
    return " ".join(_sentence(part) for part in parts if part)


def _sentence(text: str) -> str:
    first = text.split()[0].rstrip(",;:")
    started = text[0].upper() + text[1:] if first.isalpha() and first != "unseen" else text
    return started.removesuffix(".") + "."
