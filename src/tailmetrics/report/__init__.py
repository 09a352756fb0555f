"""Reports and comparisons as tables, pictures and pages.

The package root does not import this package.

>>> from tailmetrics.report import BucketRow, GroupRow, LabelTable, Record, Report, print_report
"""

from tailmetrics.report.breakdowns import BucketRow, GroupRow
from tailmetrics.report.comparison import ComparisonReport
from tailmetrics.report.labels import LabelTable
from tailmetrics.report.latex import latex, paper_table
from tailmetrics.report.pages import page
from tailmetrics.report.pictures import picture
from tailmetrics.report.records import MetricFacts, Record
from tailmetrics.report.report import Report
from tailmetrics.report.terminal import print_report
from tailmetrics.report.text import markdown

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
    "paper_table",
    "picture",
    "print_report",
]
