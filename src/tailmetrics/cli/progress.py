"""Shows on the terminal how far a long step is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress(description: str, total: float) -> Iterator[Callable[..., None]]:
    """Show progress if stderr is a terminal.

    Args:
        description: What the command does.
        total: The amount of work.

    Yields:
        A function that takes the amount that is done, and optionally a new description.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(description, total=total)

        def advance(completed: float, new_description: str = description) -> None:
            bar.update(task, completed=completed, description=new_description)

        yield advance
