"""Files that wait beside their goals until all is done, and then take their places."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any
from weakref import finalize

from rich.console import Console

from tailmetrics.cli.messages import CommandError
from tailmetrics.io.files import folder_for
from tailmetrics.report import print_report
from tailmetrics.report.formatting import printable

HELD = (signal.SIGINT, signal.SIGTERM)


class Outputs:
    """Places to write files into until all is done: hidden folders beside their goals, on the same file system.

    Leaving the context removes what has not been placed.

    Args:
        inputs: Files that are read; no goal may be one of them.
        overwrite: Whether files that are there already may be replaced.

    Attributes:
        made: Folders that were made, the outer one first; they go again with the last rank that has written nothing.
    """

    def __init__(self, inputs: Iterable[str | Path] = (), overwrite: bool = False) -> None:
        self._inputs = [Path(path) for path in inputs]
        self._overwrite = overwrite
        self._claimed: list[tuple[Path, Path, list[str]]] = []
        self.made: list[Path] = []
        self._close = finalize(self, _remove, self._claimed, self.made)  # at the latest when the process ends

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, *_: object) -> None:
        with _uninterrupted():
            self._close()

    def claim(self, folder: str | Path, names: Iterable[str]) -> Path:
        """Return a folder whose files go to ``folder``, which is made if need be.

        Args:
            folder: Where the files are for.
            names: Files that are this run's: those of an earlier run that it does not write again disappear.

        Raises:
            CommandError: If one of them must not be replaced.
        """
        folder, names = Path(folder).absolute(), list(names)
        for name in names:
            self._check(folder / name)
        above = next(one for one in (folder, *folder.parents) if one.exists())
        if not above.is_dir():
            raise CommandError(f"{above}: is not a folder", "name a folder to write to.")
        for one in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            one.mkdir(exist_ok=True)
            self.made.append(one)
        waiting = folder_for(self, folder)
        self._claimed.append((waiting, folder, names))
        return waiting

    def _check(self, goal: Path) -> None:
        hint = "name another place to write to."
        if any(_is_same(goal, path) for path in self._inputs):
            raise CommandError(f"{goal}: is one of the files that are read, and would be replaced", hint)
        if goal.is_dir():
            raise CommandError(f"{goal}: is a folder, where a file is to be written", hint)
        if os.path.lexists(goal) and not self._overwrite:
            raise CommandError(f"{goal}: is there already", "add --overwrite to replace it, or name another place.")

    def place(self) -> list[Path]:
        """Move all files to their folders, and return the paths.

        Raises:
            CommandError: If a file cannot be moved.
        """
        found = []
        with _uninterrupted():
            self.made.clear()
            for waiting, folder, names in self._claimed:
                written = sorted(path.name for path in waiting.iterdir())
                for name in written:
                    self._move(waiting / name, folder / name)
                    found.append(folder / name)
                for name in set(names) - set(written):
                    (folder / name).unlink(missing_ok=True)
        return found

    def _move(self, path: Path, goal: Path) -> None:
        self._check(goal)  # it may have come meanwhile
        try:
            os.replace(path, goal)
        except OSError as error:
            hint = "check its permissions, or name another place to write to."
            raise CommandError(f"{goal}: cannot be written: {error.strerror}", hint) from error


def _remove(claimed: Sequence[tuple[Path, Path, list[str]]], made: Sequence[Path]) -> None:
    for waiting, _, _ in claimed:
        rmtree(waiting, ignore_errors=True)
    for folder in reversed(made):
        with suppress(OSError):  # another run has written into it
            folder.rmdir()


def _is_same(goal: Path, path: Path) -> bool:
    if goal.exists() and path.exists():
        return goal.samefile(path)
    return goal.resolve() == path.resolve()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread only
        return
    held: list[int] = []
    before = {number: signal.signal(number, lambda caught, _: held.append(caught)) for number in HELD}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for caught in held:
            signal.raise_signal(caught)


def show(report: Any, paths: Iterable[Path], quiet: bool) -> None:
    """Print a report or a comparison, and which files were written."""
    console = Console()
    if not quiet:
        print_report(report, console)
    for path in paths:
        console.print(f"wrote {printable(str(path))}", soft_wrap=True, highlight=False, markup=False)
