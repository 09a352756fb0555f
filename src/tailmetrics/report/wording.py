"""The sentences that tell a reader what a figure or a table shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailmetrics.report.formatting import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tailmetrics.report.report import Report
    from tailmetrics.report.rows import BucketRow

NUMERALS = {3: "third", 4: "quarter", 5: "fifth", 10: "tenth", 20: "twentieth", 100: "hundredth"}


def what_buckets_are(rows: Sequence[BucketRow]) -> str:
    """Return what the buckets of a report are, as one or two sentences.

    >>> from tailmetrics.report import BucketRow
    >>> what_buckets_are([BucketRow("10+", 1, 60, 0), BucketRow("1-9", 5, 5, 0)])
    'A bucket holds the labels that occur in training as often as its name says.'
    """
    seen = [row for row in rows if row.name != "unseen"]
    parts = [_of_seen(seen)] if seen else []
    if len(seen) < len(rows):
        parts.append("unseen holds the labels that never occur in training.")
    return " ".join(parts)


def _of_seen(rows: Sequence[BucketRow]) -> str:
    head, tail, count = rows[0].name, rows[-1].name, len(rows)
    if head == f"decile_{count}" or head == f"quantile_{count}":
        sizes = [row.labels for row in rows if row.labels]
        # one label or two in each bucket may be either
        of_labels = len(sizes) == count and min(sizes) > 1 and max(sizes) - min(sizes) <= 1
        of = "labels" if of_labels else "label occurrences in training"
        share = "half" if count == 2 else NUMERALS.get(count, f"share of 1/{count}")
        return f"{head} holds the most frequent labels, {tail} the rarest; each has about a {share} of all {of}."
    if all(row.name[:1].isdigit() for row in rows):
        return "A bucket holds the labels that occur in training as often as its name says."
    return f"Buckets of labels, in the order given, from {head} to {tail}." if count > 1 else f"One bucket: {head}."


def caption(report: Report, metric: str) -> str:
    """Return what a figure of one metric shows: scope, cut-off, value over all labels, rows."""
    whole = report.value_over_all(metric)
    parts = [
        report.captions.get(metric, ""),
        "" if whole is None else f"dashed line, all labels: {number(whole, metric in report.places)}",
        rows_of(report),
    ]
    return " · ".join(part for part in parts if part)


def scopes(report: Report, metrics: Iterable[str]) -> str:
    """Return what a table of several metrics shows: each scope once, with its metrics."""
    found: dict[str, list[str]] = {}
    for metric in metrics:
        if metric in report.captions:
            found.setdefault(report.captions[metric], []).append(metric)
    if len(found) == 1:
        return f"{next(iter(found))}."
    return "; ".join(f"{', '.join(of)}: {text}" for text, of in found.items()) + ("." if found else "")


def rows_of(report: Report) -> str:
    """Return how many rows were evaluated."""
    return "" if report.rows is None else f"{report.rows:,} rows"


def plus_minus(report: Report) -> str:
    """Return what ± and [low, high] mean where intervals are known."""
    first = next(iter(report.intervals.values()), None)
    if first is None:
        return ""
    said = f"the {first.confidence:.0%} confidence interval, for independent rows"
    return f"± is half the width of {said}; [low, high] are its ends where it is not symmetric."
