"""A report as CSV: one line per value, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import math
from io import StringIO
from typing import TYPE_CHECKING

from tailmetrics.report.inert import in_cell

if TYPE_CHECKING:
    from tailmetrics.report.report import Report


COLUMNS = ("metric", "bucket", "value", "labels", "occurrences", "positives", "group", "low", "high")


def table(report: Report) -> str:
    """Return the report as CSV, values to the last bit, NaN as an empty cell.

    Lines without a bucket are the values over all labels, those without a group are over all rows; ``occurrences`` are
    those in training, ``low`` and ``high`` the ends of the confidence interval. Gap and spread come last.
    """
    known = {row.name: (row.labels, row.occurrences, row.positives) for row in report.buckets}
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for (name, value), key in zip(report.scalars.items(), report.parts, strict=True):
        interval = report.intervals.get(name)
        ends = ("", "") if interval is None else (_cell(interval.low), _cell(interval.high))
        counts = known.get(key.bucket, ("", "", ""))
        names = in_cell(key.metric), in_cell(key.bucket)
        writer.writerow((*names, _cell(value), *counts, in_cell(key.group), *ends))
    for name, value in report.summaries.items():
        writer.writerow((in_cell(name), "", _cell(value), *[""] * (len(COLUMNS) - 3)))
    return text.getvalue()


def _cell(value: float) -> str:
    return "" if math.isnan(value) else repr(value)
