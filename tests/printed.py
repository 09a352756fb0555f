"""The text that a terminal shows of a report or a comparison."""

from io import StringIO
from typing import Any

from rich.console import Console

from tailmetrics.report import print_report


def in_full(shown: Any, width: int = 80, verbose: bool = True, **options: Any) -> str:
    """Return what is printed: all tables and notes, or without ``verbose`` the first
    look.
    """
    console = Console(width=width, file=StringIO(), record=True, legacy_windows=False)
    print_report(shown, console, verbose=verbose, **options)
    return console.export_text()
