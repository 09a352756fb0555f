"""Reports and comparisons as tables, pictures and pages. The package root does not import this package.

>>> from tailmetrics.report import BucketRow, GroupRow, LabelTable, Record, Report, print_report
"""

from tailmetrics.report.breakdowns import BucketRow, GroupRow
from tailmetrics.report.comparison import ComparisonReport
from tailmetrics.report.labels import LabelTable
from tailmetrics.report.pages import page
from tailmetrics.report.pictures import picture
from tailmetrics.report.records import MetricFacts, Record
from tailmetrics.report.report import Report
from tailmetrics.report.text import latex, markdown, print_report

__all__ = [
    "BucketRow",
    "ComparisonReport",
    "GroupRow",
    "LabelTable",
    "MetricFacts",
    "Record",
    "Report",
    "latex",
    "markdown",
    "page",
    "picture",
    "print_report",
]
