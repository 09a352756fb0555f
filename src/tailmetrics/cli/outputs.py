"""Output files, which appear only after everything has succeeded.

Files are written into hidden folders, and move to their places at the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from errno import EBADF
from fnmatch import fnmatch
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from rich.console import Console

from tailmetrics.cli.messages import CommandError, Messages
from tailmetrics.cli.options import OutputOptions
from tailmetrics.io.files import GLOB, temporary_folder
from tailmetrics.report import print_report
from tailmetrics.report.files import check_goal
from tailmetrics.report.formatting import printable

ENDING = [
    number
    for number in signal.Signals
    if number.name in ("SIGINT", "SIGTERM", "SIGHUP")
]
"""Signals that end the program; Windows has no SIGHUP."""


@dataclass(frozen=True)
class Claim:
    """Files that a run may write.

    Attributes:
        hidden: The hidden folder in which they are written.
        folder: Their final folder.
        names: Their names.
    """

    hidden: Path
    folder: Path
    names: list[str]

    @property
    def replaces_report(self) -> bool:
        """Whether the folder holds the JSON file of an earlier report."""
        return any(
            name.endswith(".json") and (self.folder / name).exists()
            for name in self.names
        )


class Outputs(ExitStack):
    """Hidden folders for output files until everything has succeeded.

    They are on the file system of the final folders.

    Leaving the context removes the files that were not placed.

    Args:
        inputs: Files that are read; no output may replace one of them.
        overwrite: Whether existing files may be replaced.
    """

    def __init__(
        self, inputs: Iterable[str | Path] = (), overwrite: bool = False
    ) -> None:
        super().__init__()
        self._inputs = [Path(path) for path in inputs]
        self._overwrite = overwrite
        self._claims: list[Claim] = []

    def scratch(self, above: Path | None = None) -> Path:
        """Return a new folder in ``above`` or ``TMPDIR``, deleted at the end."""
        folder = temporary_folder(self, above)
        self.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def claim(self, folder: str | Path, names: Iterable[str]) -> Path:
        """Return a hidden folder; :meth:`place` moves its files to ``folder``.

        Args:
            folder: The final folder, which is made if it does not exist.
            names: Names of all files that this run may write. If the folder holds the
                JSON file of an earlier run, files with these names that this run does
                not write are of that run, and are removed.

        Raises:
            CommandError: If a file with one of these names must not be replaced.
        """
        folder, names = Path(folder).absolute(), list(names)
        stem = Path(names[0]).stem
        for name in names:
            self._check(folder / name, stem)
        above = next(filter(os.path.lexists, (folder, *folder.parents)))
        if not above.is_dir():
            raise CommandError(
                f"{above}: is not a folder", "name a folder to write to."
            )

        hidden = self.scratch(above)
        self._claims.append(Claim(hidden, folder, names))
        return hidden

    def place(self) -> list[Path]:
        """Move all files to their folders, and return the paths.

        Raises:
            CommandError: If a file must not be replaced, which may have appeared
                meanwhile.
        """
        for claim in self._claims:
            claim.folder.mkdir(parents=True, exist_ok=True)
            # pictures have names of metrics
            written = [path.name for path in claim.hidden.iterdir()]
            for name in {*claim.names, *written}:
                self._check(claim.folder / name, Path(claim.names[0]).stem)

        paths: list[Path] = []
        with _later_signals():
            for claim in self._claims:
                paths += _placed(claim)
        return paths

    def _check(self, goal: Path, stem: str) -> None:
        """Raise if a file must not be written.

        ``stem`` is the stem of the report to which the file belongs.
        """
        hint = "name another place to write to."
        for path in self._inputs:
            if _is_same(goal, path):
                raise CommandError(
                    f"{goal}: is one of the files that are read, and would be replaced",
                    hint,
                )
            if _would_be_read(goal, path):
                raise CommandError(
                    f"{goal}: would become one of the parts that this command reads",
                    hint,
                )
        try:
            check_goal(goal, stem)
        except FileExistsError as error:
            raise CommandError(f"{goal}: {error.strerror}", hint) from None
        if os.path.lexists(goal) and not self._overwrite:
            raise CommandError(
                f"{goal}: is there already",
                "add --overwrite to replace it, or name another place.",
            )


def _placed(claim: Claim) -> list[Path]:
    """Move the files of a claim to their folder, and return the paths.

    Other files of an earlier report are removed.
    """
    replaces_report = claim.replaces_report
    written = sorted(path.name for path in claim.hidden.iterdir())
    for name in written:
        os.replace(claim.hidden / name, claim.folder / name)
    if replaces_report:
        for name in set(claim.names) - set(written):
            (claim.folder / name).unlink(missing_ok=True)
    return [claim.folder / name for name in written]


@contextmanager
def _later_signals() -> Iterator[None]:
    """Let signals that end the program wait, so that all files are placed, or none."""
    waiting: list[int] = []

    def remember(number: int, _: Any) -> None:
        waiting.append(number)

    handlers = {}
    if current_thread() is main_thread():
        for number in ENDING:
            if callable(signal.getsignal(number)):
                handlers[number] = signal.signal(number, remember)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for signal_number in waiting:
            signal.raise_signal(signal_number)


def _would_be_read(goal: Path, path: Path) -> bool:
    """Whether a new file is one that a folder or pattern of the inputs names."""
    if path.is_dir():
        return path.resolve() in goal.resolve().parents
    above, recursive, _ = str(path.absolute()).partition("**")
    if recursive:
        return Path(above) in goal.parents and fnmatch(goal.name, path.name)
    return bool(GLOB.search(str(path))) and goal.match(str(path.absolute()))


def _is_same(goal: Path, path: Path) -> bool:
    """Whether two paths name the same file."""
    if goal.exists() and path.exists():
        return goal.samefile(path)
    return goal.resolve() == path.resolve()


def write_and_print(
    report: Any,
    folder: Path | None,
    outputs: Outputs,
    options: OutputOptions,
    messages: Messages,
) -> None:
    """Write a report to its claimed folder, place all files, and print the report.

    Without ``--verbose`` the report is printed as one look, with a line on where the
    rest is, and one line names the files of a folder.

    Args:
        report: A report or a comparison.
        folder: The claimed folder; None for no files.
        outputs: The claimed files.
        options: The options of the output.
        messages: The warnings printed so far, which a terminal does not show twice.

    Raises:
        CommandError: If stdout is closed or cannot be written.
    """
    if folder is not None:
        report.write(folder, figures=options.figures)
    paths = outputs.place()
    try:
        if not options.quiet:
            _print_report(report, paths, options, messages)
        _print_paths(paths, one_a_line=options.quiet or options.verbose)
    except OSError as error:
        hint = "send what is printed to a place that can be written"
        if paths:
            hint += f"; written and complete: {', '.join(map(str, paths))}."
        else:
            hint += ", or add --out FOLDER."
        raise CommandError(
            f"stdout cannot be written: {error.strerror}", hint
        ) from error


def _print_report(
    report: Any, paths: Sequence[Path], options: OutputOptions, messages: Messages
) -> None:
    """Print a report.

    Raises:
        OSError: If stdout is closed.
    """
    if sys.stdout is None:
        raise OSError(EBADF, "it is closed")
    printed: set[str] = set()
    if sys.stdout.isatty() and sys.stderr.isatty():
        printed = messages.printed
    page = "add --out FOLDER for a page"
    for path in paths:
        if path.suffix == ".html":
            page = f"open {path}"
    rest = f"All tables and notes: {page}, or add --verbose."
    print_report(report, Console(), printed=printed, verbose=options.verbose, rest=rest)


def _print_paths(paths: Sequence[Path], one_a_line: bool) -> None:
    """Print the files that were written, each on a line or by folder."""
    lines = [str(path) for path in paths]
    if not one_a_line:
        lines = []
        for folder in dict.fromkeys(path.parent for path in paths):
            names = ", ".join(path.name for path in paths if path.parent == folder)
            lines.append(f"{names} in {folder}")
    console = Console()
    for line in lines:
        console.print(
            f"wrote {printable(line)}", soft_wrap=True, highlight=False, markup=False
        )
