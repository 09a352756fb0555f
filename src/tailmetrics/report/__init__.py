"""What is made of results: tables, figures, pages; never imported by the package root.

>>> from tailmetrics.report import BucketRow, GroupRow, LabelTable, Report, print_report
"""

from tailmetrics.report.comparison import ComparisonReport as ComparisonReport
from tailmetrics.report.labels import LabelTable as LabelTable
from tailmetrics.report.pages import page as page
from tailmetrics.report.pictures import picture as picture
from tailmetrics.report.report import BucketRow as BucketRow
from tailmetrics.report.report import Example as Example
from tailmetrics.report.report import ExampleLabel as ExampleLabel
from tailmetrics.report.report import GroupRow as GroupRow
from tailmetrics.report.report import Report as Report
from tailmetrics.report.text import latex as latex
from tailmetrics.report.text import markdown as markdown
from tailmetrics.report.text import print_report as print_report

__all__ = [
    "BucketRow",
    "ComparisonReport",
    "Example",
    "ExampleLabel",
    "GroupRow",
    "LabelTable",
    "Report",
    "latex",
    "markdown",
    "page",
    "picture",
    "print_report",
]
