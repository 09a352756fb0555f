"""Reports and comparisons as tables, pictures and pages. The package root does not import this package.

>>> from tailmetrics.report import BucketRow, GroupRow, LabelTable, Report, print_report
"""

from tailmetrics.report.comparison import ComparisonReport
from tailmetrics.report.labels import LabelTable
from tailmetrics.report.pages import page
from tailmetrics.report.pictures import picture
from tailmetrics.report.report import BucketRow, GroupRow, Report, Value
from tailmetrics.report.text import latex, markdown, print_report

__all__ = [
    "BucketRow",
    "ComparisonReport",
    "GroupRow",
    "LabelTable",
    "Report",
    "Value",
    "latex",
    "markdown",
    "page",
    "picture",
    "print_report",
]
