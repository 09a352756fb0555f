"""What a terminal shows of a report with ``--verbose``."""

from io import StringIO
from typing import Any

from rich.console import Console

from tailmetrics.report import print_report


def in_full(report: Any) -> str:
    """Return all tables and notes of a report or a comparison, 80 columns wide."""
    found = StringIO()
    print_report(report, Console(width=80, file=found), verbose=True)
    return found.getvalue()
