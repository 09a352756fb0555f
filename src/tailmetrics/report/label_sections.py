"""The sections on single labels: often missed, often wrong, and blind spots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from tailmetrics._arguments import cut
from tailmetrics.report.curves import curve_section
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section
from tailmetrics.report.formatting import count, number, p_value, sentences
from tailmetrics.report.labels import TEST_COLUMNS, BlindSpot, LabelTable

MISSED, WRONG = 3, 10
"""Numbers of labels in tables: most often missed by bucket, most often wrong in all."""
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
BLIND_SPOT = (
    "labels that are found significantly less often than the other labels of "
    "their bucket"
)
NO_BLIND_SPOT = (
    "no label is found significantly less often than the other labels of its bucket"
)
INSTEAD = "instead: the labels most often listed in its place, and in how many rows"
BLIND_IN_CLUSTERS = (
    "blind spots are not looked for: the test takes rows as independent, and rows of "
    "a cluster are alike"
)


def label_sections(report: ReportData, brief: bool) -> Iterator[Section]:
    """Yield a table of the most often missed labels, and one of the most often wrong.

    A wrong label is predicted where it is not relevant.

    Args:
        report: The report.
        brief: Whether to show fewer labels and columns, for a terminal.
    """
    table = report.labels
    if table is None:
        return

    number, limit = WRONG, f"the first {WRONG}"
    if table.buckets is not None:
        number = MISSED
        if brief:
            number = 1
        limit = f"at most {number} of each bucket"
    labels = table.most("missed", number, from_each_bucket=True)
    caption = sentences(
        report.rows_in_words,
        f"missed: relevant and not predicted; {limit}",
        *_why_no_blind_spots(table),
    )
    yield _label_section(
        f"Labels most often missed{_at_k(table)}",
        caption,
        table,
        labels,
        "missed",
        brief,
    )

    labels = table.most("wrong", WRONG)
    caption = sentences(
        report.rows_in_words, f"wrong: predicted and not relevant; the first {WRONG}"
    )
    yield _label_section(
        f"Labels most often suggested wrongly{_at_k(table)}",
        caption,
        table,
        labels,
        "wrong",
        brief,
    )


def _at_k(table: LabelTable) -> str:
    return table.cuts[-1].replace("@", " at k = ")


def _why_no_blind_spots(table: LabelTable) -> Sequence[str]:
    if table.blind_spots:
        return ()
    if table.clustered:
        return (BLIND_IN_CLUSTERS,)
    if table.tests is None:
        return ()
    return (NO_BLIND_SPOT, table.rows_left_out(), table.too_few_rows())


def _label_section(
    title: str,
    caption: str,
    table: LabelTable,
    labels: Sequence[int],
    what: str,
    brief: bool,
) -> Section:
    """Return the section of some labels.

    A table of missed labels has no column of wrong ones, and vice versa.
    """
    left_out = {*BRIEF_COLUMNS, *TEST_COLUMNS} - {what}
    header, columns = [], []
    for name, values in table.cells(labels).items():
        stem = name.partition("@")[0]
        if stem in left_out or (brief and stem not in BRIEF_COLUMNS[what]):
            continue
        header.append(name)
        columns.append([_cell(value, name) for value in values])
    texts = len({*header} & {*TEXT_COLUMNS})
    lines = list(map(list, zip(*columns, strict=True)))
    return Section(what, title, caption, header=header, lines=lines, texts=texts)


def _cell(value: Any, column: str) -> str:
    if column in TEXT_COLUMNS:
        return str(value)
    if isinstance(value, float):
        return number(value)
    return count(value)


def blind_spots_section(report: ReportData, brief: bool) -> Section:
    """Return the table of blind spots.

    They are labels found significantly less often than the others of their bucket.
    """
    labels, spots = report.labels, report.blind_spots
    if labels is None or not spots:
        return Section("blind_spots", "Blind spots")

    shown = spots
    if brief:
        shown = spots[:BRIEF_BLIND_SPOTS]
    columns = []
    for name, *cells in zip(SPOT_HEADER, *map(_spot_cells, shown), strict=True):
        if {*cells} != {"–"}:
            columns.append([name, *cells])
    header, *lines = map(list, zip(*columns, strict=True))
    caption = sentences(
        f"{BLIND_SPOT}{_at_k(labels)}, {len(spots):,} in all",
        INSTEAD if "instead" in header else "",
        (
            "expected: the hits if it were found as often as the others, or as half "
            "of the labels, whichever is less"
        ),
        labels.rows_left_out(),
        (
            "q: p of the binomial test, corrected by Benjamini and Hochberg for all "
            "labels that have rows"
        ),
        labels.too_few_rows(),
    )
    texts = header.index("support")
    return Section(
        "blind_spots", "Blind spots", caption, header=header, lines=lines, texts=texts
    )


def _instead(spot: BlindSpot) -> str:
    names = []
    for label in spot.instead:
        names.append(
            f"{cut(str(label['name'] or label['label']), NAME_LETTERS)} "
            f"({label['rows']:,})"
        )
    return ", ".join(names) or "–"


SPOT_HEADER = ("label", "name", "bucket", "instead", "support", "hits", "expected", "q")
"""The columns of the table of blind spots; those before the support are texts."""


def _spot_cells(spot: BlindSpot) -> list[str]:
    return [
        str(spot.label),
        spot.name or "–",
        spot.bucket or "–",
        _instead(spot),
        count(spot.support),
        count(spot.hits),
        f"{spot.expected:,.1f}",
        p_value(spot.q),
    ]


def curves_section(report: ReportData) -> Section:
    """Return the section of labels' values as functions of the training count."""
    edges = []
    if report.curves:
        edges = _bucket_edges(report)
    curves = {metric: {"": points} for metric, points in report.curves.items()}
    return curve_section("As a function of the training count", curves, edges)


def _bucket_edges(report: ReportData) -> list[tuple[float, str]]:
    """Return the training count at the end of each bucket, and the bucket's name.

    The last bucket has NaN.

    There are no edges if buckets do not follow the order of the counts, or are too many
    to be told apart.
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
