"""A report as CSV: one line per value, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import math
from io import StringIO
from typing import TYPE_CHECKING

from tailmetrics.report.inert import in_cell

if TYPE_CHECKING:
    from tailmetrics.report.report import Report


COLUMNS = ("metric", "bucket", "value", "labels", "occurrences", "positives")


def table(report: Report) -> str:
    """Return the report as CSV, values to the last bit, NaN as an empty cell.

    Lines without a bucket are the values over all labels; ``occurrences`` are those in training.
    """
    known = {row.name: (row.labels, row.occurrences, row.positives) for row in report.buckets}
    lines: list[tuple[object, ...]] = [(in_cell(metric), "", _cell(value)) for metric, value in report.overall.items()]
    for metric, values in report.by_bucket.items():
        lines += [(in_cell(metric), in_cell(bucket), _cell(value), *known[bucket]) for bucket, value in values.items()]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(line + ("",) * (len(COLUMNS) - len(line)) for line in lines)
    return text.getvalue()


def _cell(value: float) -> str:
    return "" if math.isnan(value) else repr(value)
