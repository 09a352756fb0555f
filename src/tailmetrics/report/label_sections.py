"""The sections on single labels: those missed most often, those suggested wrongly, and blind spots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from tailmetrics._arguments import cut
from tailmetrics.report.curves import curve_section
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section, Table
from tailmetrics.report.formatting import count, number, p_value, sentences
from tailmetrics.report.labels import TEST_COLUMNS, BlindSpot, LabelTable

MISSED, WRONG = 3, 10
"""The number of most often missed labels shown of each bucket, and of most often wrong labels shown in all."""
BRIEF_COLUMNS = {
    "missed": ("label", "name", "bucket", "count", "support", "missed"),
    "wrong": ("label", "name", "bucket", "count", "predicted", "wrong"),
}
"""The columns of labels that a terminal shows; files and pages have every column."""
TEXT_COLUMNS = ("label", "name", "bucket")
BRIEF_BLIND_SPOTS = 10
"""How many blind spots a terminal shows."""
MOST_BUCKETS = 50
"""The most buckets whose edges can be told apart in a drawing."""
NAME_LETTERS = 44
"""Letters of a name in a table of labels."""
BLIND_SPOT = "labels that are found significantly less often than the other labels of their bucket"
NO_BLIND_SPOT = "no label is found significantly less often than the other labels of its bucket"
BLIND_IN_CLUSTERS = (
    "blind spots are not looked for: the test takes rows as independent, and rows of a cluster are alike"
)


def label_sections(report: ReportData, brief: bool) -> Iterator[Section]:
    """Yield a table of the labels most often missed, and a table of the labels most often wrongly predicted.

    Args:
        report: The report.
        brief: Whether to show fewer labels and columns, for a terminal.
    """
    table = report.labels
    if table is None:
        return

    of_each = 1 if brief else MISSED
    is_by_bucket = table.buckets is not None
    limit = f"at most {of_each} of each bucket" if is_by_bucket else f"the first {WRONG}"
    missed = table.most("missed", of_each if is_by_bucket else WRONG, of_each_bucket=True)
    caption = sentences(
        report.rows_in_words, f"missed: relevant and not predicted; {limit}", *_why_no_blind_spots(table)
    )
    title = f"Labels most often missed{_at_k(table)}"
    yield Section("missed", title, caption).with_table(_label_table(table, missed, "missed", brief))

    wrong = table.most("wrong", WRONG)
    caption = sentences(report.rows_in_words, f"wrong: predicted and not relevant; the first {WRONG}")
    title = f"Labels most often suggested wrongly{_at_k(table)}"
    yield Section("wrong", title, caption).with_table(_label_table(table, wrong, "wrong", brief))


def _at_k(table: LabelTable) -> str:
    k = table.cuts[-1].removeprefix("@")
    return f" at k = {k}" if k else ""


def _why_no_blind_spots(table: LabelTable) -> Sequence[str]:
    if table.blind_spots:
        return ()
    if table.clustered:
        return (BLIND_IN_CLUSTERS,)
    if table.tests is None:
        return ()
    return (NO_BLIND_SPOT, table.rows_left_out(), table.too_few_rows())


def _label_table(table: LabelTable, labels: Sequence[int], what: str, brief: bool) -> Table:
    """Return the columns of some labels; a table of missed labels has no column of wrong ones, and vice versa."""
    cells = table.cells(labels)
    left_out = {*BRIEF_COLUMNS, *TEST_COLUMNS} - {what}
    columns = []
    for name in cells:
        stem = name.partition("@")[0]
        if stem not in left_out and (not brief or stem in BRIEF_COLUMNS[what]):
            columns.append(name)

    texts = sum(name in TEXT_COLUMNS for name in columns)
    lines = []
    for place in range(len(labels)):
        lines.append([_cell(cells[name][place], name) for name in columns])
    return Table(columns, lines, texts=texts)


def _cell(value: Any, column: str) -> str:
    if column in TEXT_COLUMNS:
        return str(value)
    return number(value) if isinstance(value, float) else f"{value:,}"


def blind_spots_section(report: ReportData, brief: bool) -> Section:
    """Return the table of the labels that are found significantly less often than the others of their bucket."""
    spots = report.blind_spots
    if report.labels is None or not spots:
        return Section("blind_spots", "Blind spots")
    table = _blind_spots_table(spots[:BRIEF_BLIND_SPOTS] if brief else spots, report)

    instead = ""
    if "instead" in table.header:
        instead = "instead: the labels most often listed in its place, and in how many rows"
    caption = sentences(
        f"{BLIND_SPOT}{_at_k(report.labels)}, {len(spots):,} in all",
        instead,
        "expected: the hits if it were found as often as the others, or as half of the labels, whichever is less",
        report.labels.rows_left_out(),
        "q: p of the binomial test, corrected by Benjamini and Hochberg for all labels that have rows",
        report.labels.too_few_rows(),
    )
    return Section("blind_spots", "Blind spots", caption).with_table(table)


def _blind_spots_table(spots: Sequence[BlindSpot], report: ReportData) -> Table:
    table = Table(["label"], [[str(spot.label)] for spot in spots])
    texts = {
        "name": [spot.name for spot in spots],
        "bucket": [spot.bucket for spot in spots],
        "instead": [_instead(spot) for spot in spots],
    }
    for column, cells in texts.items():
        if any(cells):
            table.add(column, [cell or "–" for cell in cells])
    table.texts = len(table.header)
    table.add("support", [count(spot.support) for spot in spots])
    table.add("hits", [count(spot.hits) for spot in spots])
    table.add("expected", [f"{spot.expected:,.1f}" for spot in spots])
    table.add("q", [p_value(spot.q) for spot in spots])
    if len(spots) > 1:
        table.orders = _orders(spots, report)
    return table


def _instead(spot: BlindSpot) -> str:
    names = []
    for label in spot.instead:
        names.append(f"{cut(str(label['name'] or label['label']), NAME_LETTERS)} ({label['rows']:,})")
    return ", ".join(names)


def _orders(spots: Sequence[BlindSpot], report: ReportData) -> dict[str, list[int]]:
    """Return the place of each blind spot by q, from head to tail, and by its numbers of rows, the largest first."""
    buckets = [bucket.name for bucket in report.buckets]
    values = {
        "q": list(range(len(spots))),
        "bucket": [buckets.index(spot.bucket) if spot.bucket in buckets else 0 for spot in spots],
        "support": [-spot.support for spot in spots],
        "expected − hits": [spot.hits - spot.expected for spot in spots],
    }
    places = torch.tensor(list(values.values()), dtype=torch.float64).argsort(stable=True).argsort() + 1
    return dict(zip(values, places.tolist(), strict=True))


def curves_section(report: ReportData) -> Section:
    """Return the section of values of single labels as functions of the training count."""
    edges = _bucket_edges(report) if report.curves else []
    curves = {metric: {"": points} for metric, points in report.curves.items()}
    return curve_section("As a function of the training count", curves, edges)


def _bucket_edges(report: ReportData) -> list[tuple[float, str]]:
    """Return the training count at the end of each bucket, NaN for the last one, and the bucket's name.

    There are no edges if buckets do not follow the order of the counts, or are too many to be told apart.
    """
    if report.label_counts is None:
        return []
    counts = report.label_counts.cpu().sort(descending=True).values
    seen = counts[counts > 0]
    buckets = [bucket for bucket in report.buckets if bucket.occurrences]
    sizes = [bucket.labels for bucket in buckets]
    if not buckets or sum(sizes) != len(seen) or len(buckets) > MOST_BUCKETS:
        return []

    edges, end = [], 0
    for part, bucket in zip(torch.split(seen, sizes), buckets, strict=True):
        if int(part.sum()) != bucket.occurrences:
            return []
        end += bucket.labels
        edge = math.nan
        if end < len(seen):  # between the counts on both sides of the edge
            edge = math.sqrt(int(seen[end - 1]) * int(seen[end]))
        edges.append((edge, bucket.name))
    return edges
