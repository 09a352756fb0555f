"""The progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tailmetrics.cli.ranks import Ranks
from tailmetrics.io.database import WATCHER


@contextmanager
def progress(what: str, rows: int, ranks: Ranks) -> Iterator[Callable[[int], None]]:
    """Show how many rows are done, on the first rank and on a terminal; yields what to call with every batch's rows."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = not (ranks.is_first and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(what, total=rows)
        yield lambda done: bar.advance(task, done)


@contextmanager
def watched(ranks: Ranks) -> Iterator[None]:
    """Show what is read, compared and joined, and how far it is, from the first second on."""
    console = Console(stderr=True)
    hidden = not (ranks.is_first and console.is_terminal)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("opening files", total=1.0)

        def show(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        token = WATCHER.set(None if hidden else show)
        try:
            yield
        finally:
            WATCHER.reset(token)
