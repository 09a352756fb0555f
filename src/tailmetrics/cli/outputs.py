"""Output files: they are written into hidden folders, and move to their places after everything has succeeded."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from errno import EBADF
from fnmatch import fnmatch
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from rich.console import Console

from tailmetrics.cli.messages import CommandError
from tailmetrics.cli.options import OutputOptions
from tailmetrics.io.files import GLOB, temporary_folder
from tailmetrics.report import print_report
from tailmetrics.report.formatting import printable
from tailmetrics.report.pages import check_replaceable

ENDING = [one for one in signal.Signals if one.name in ("SIGINT", "SIGTERM", "SIGHUP")]
"""Signals that end the program; Windows has no SIGHUP."""


class Outputs(ExitStack):
    """Hidden folders for output files until everything has succeeded; they are on the file system of the final folders.

    Leaving the context removes the files that were not placed.

    Args:
        inputs: Files that are read; no output may replace one of them.
        overwrite: Whether existing files may be replaced.
    """

    def __init__(self, inputs: Iterable[str | Path] = (), overwrite: bool = False) -> None:
        super().__init__()
        self._inputs = [Path(path) for path in inputs]
        self._overwrite = overwrite
        self._claimed: list[tuple[Path, Path, list[str]]] = []

    def scratch(self, above: Path | None = None) -> Path:
        """Return a new folder in ``above``, or in ``TMPDIR``. It is deleted at the end."""
        folder = temporary_folder(self, above)
        self.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def claim(self, folder: str | Path, names: Iterable[str]) -> Path:
        """Return a hidden folder; :meth:`place` moves its files to ``folder``.

        Args:
            folder: The final folder, which is made if it does not exist.
            names: Names of all files that this run may write. If the folder holds the JSON file of an earlier run,
                files with these names that this run does not write are of that run, and are removed.

        Raises:
            CommandError: If a file with one of these names must not be replaced.
        """
        folder, names = Path(folder).absolute(), list(names)
        for name in names:
            self._check(folder / name)
        for name in () if _holds_report(folder, names) else names:  # report.csv is ours by its name, labels.csv is not
            if name.endswith(".csv") and Path(name).stem != Path(names[0]).stem and (folder / name).exists():
                problem = "is there without a report beside it, so that it may be of another program"
                raise CommandError(f"{folder / name}: {problem}", "move it, or name another place to write to.")
        above = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
        if not above.is_dir():
            raise CommandError(f"{above}: is not a folder", "name a folder to write to.")
        scratch = self.scratch(above)
        self._claimed.append((scratch, folder, names))
        return scratch

    def _check(self, goal: Path) -> None:
        hint = "name another place to write to."
        if any(_is_same(goal, path) for path in self._inputs):
            raise CommandError(f"{goal}: is one of the files that are read, and would be replaced", hint)
        if any(_would_be_read(goal, path) for path in self._inputs):
            raise CommandError(f"{goal}: would be read as one of the parts of what is read now", hint)
        try:
            check_replaceable(goal)
        except FileExistsError as error:
            raise CommandError(f"{goal}: {error.strerror}", hint) from None
        if os.path.lexists(goal) and not self._overwrite:
            raise CommandError(f"{goal}: is there already", "add --overwrite to replace it, or name another place.")

    def place(self) -> list[Path]:
        """Move all files to their folders, and return the paths.

        Raises:
            CommandError: If a file must not be replaced, which may have appeared meanwhile.
        """
        found = []
        for waiting, folder, names in self._claimed:
            folder.mkdir(parents=True, exist_ok=True)
            for name in {*names, *(path.name for path in waiting.iterdir())}:  # pictures have names of metrics
                self._check(folder / name)
        with _later_signals():
            for waiting, folder, names in self._claimed:
                of_earlier = _holds_report(folder, names)
                written = sorted(path.name for path in waiting.iterdir())
                for name in written:
                    os.replace(waiting / name, folder / name)
                    found.append(folder / name)
                for name in set(names) - set(written) if of_earlier else ():
                    (folder / name).unlink(missing_ok=True)
        return found


def _holds_report(folder: Path, names: Iterable[str]) -> bool:
    """Whether a folder holds the JSON file of an earlier report."""
    return any((folder / name).exists() for name in names if name.endswith(".json"))


@contextmanager
def _later_signals() -> Iterator[None]:
    """Let signals that end the program wait, so that all files are placed, or none."""
    came: list[int] = []
    handled = ENDING if current_thread() is main_thread() else []
    handled = [one for one in handled if callable(signal.getsignal(one))]
    before = {one: signal.signal(one, lambda number, _: came.append(number)) for one in handled}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        for number in came:
            signal.raise_signal(number)


def _would_be_read(goal: Path, path: Path) -> bool:
    """Whether a new file is one of those that a folder or a pattern of the inputs names."""
    if path.is_dir():
        return path.resolve() in goal.resolve().parents
    above, recursive, _ = str(path.absolute()).partition("**")
    if recursive:
        return Path(above) in goal.parents and fnmatch(goal.name, path.name)
    return bool(GLOB.search(str(path))) and goal.match(str(path.absolute()))


def _is_same(goal: Path, path: Path) -> bool:
    if goal.exists() and path.exists():
        return goal.samefile(path)
    return goal.resolve() == path.resolve()


def _by_folder(paths: Sequence[Path]) -> Iterator[str]:
    """Yield for each folder the names of the files in it."""
    for folder in dict.fromkeys(path.parent for path in paths):
        yield f"{', '.join(path.name for path in paths if path.parent == folder)} in {folder}"


def finish(report: Any, folder: Path | None, outputs: Outputs, output: OutputOptions, said: Container[str]) -> None:
    """Write a report to its claimed folder, if there is one, put all files in their places, and print the report.

    Without ``--verbose`` this is one look: what else there is, is said in one line, and files in a line per folder.
    ``said`` holds the warnings printed.

    Raises:
        CommandError: If stdout is closed or cannot be written.
    """
    if folder is not None:
        report.write(folder, figures=output.figures)
    paths = outputs.place()
    try:
        if sys.stdout is None and not output.quiet:
            raise OSError(EBADF, "it is closed")
        console = Console()
        if not output.quiet:
            known = said if sys.stdout.isatty() and sys.stderr.isatty() else ()
            page = next((f"open {path}" for path in paths if path.suffix == ".html"), "add --out FOLDER for a page")
            rest = f"All tables and notes: {page}, or add --verbose."
            print_report(report, console, said=known, verbose=output.verbose, rest=rest)
        lines = [str(path) for path in paths] if output.quiet or output.verbose else [*_by_folder(paths)]
        for line in lines:
            console.print(f"wrote {printable(line)}", soft_wrap=True, highlight=False, markup=False)
    except OSError as error:
        hint = "send what is printed to a place that can be written"
        hint += f"; written and complete: {', '.join(map(str, paths))}." if paths else ", or add --out FOLDER."
        raise CommandError(f"stdout cannot be written: {error.strerror}", hint) from error
