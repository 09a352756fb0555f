"""What is made of results: tables, figures, pages; never imported by the package root.

>>> from tailmetrics.report import BucketRow, GroupRow, LabelTable, Report, print_report
"""

import typing as _typing
from importlib import import_module as _import_module

from tailmetrics.report.examples import Example as Example
from tailmetrics.report.examples import ExampleLabel as ExampleLabel
from tailmetrics.report.labels import LabelTable as LabelTable
from tailmetrics.report.report import BucketRow as BucketRow
from tailmetrics.report.report import GroupRow as GroupRow
from tailmetrics.report.report import Report as Report

if _typing.TYPE_CHECKING:
    from tailmetrics.report.terminal import print_report as print_report
else:

    def __getattr__(name: str) -> object:
        """Import what prints, which needs more than a report itself, when it is asked for."""
        if name == "print_report":
            return _import_module("tailmetrics.report.terminal").print_report
        raise AttributeError(f"module 'tailmetrics.report' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*globals(), "print_report"]


__all__ = ["BucketRow", "Example", "ExampleLabel", "GroupRow", "LabelTable", "Report", "print_report"]
