"""Errors and warnings of the command line.

Each names the problem and a remedy, without a traceback.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import Any

from tailmetrics._arguments import LONGEST_ERROR, fitted
from tailmetrics.io import DataFileError
from tailmetrics.io.files import SCRATCH
from tailmetrics.ranking._warnings import SpeedWarning
from tailmetrics.report.formatting import printable


class CommandError(Exception):
    """The command cannot be carried out.

    Args:
        problem: The problem, in words.
        hint: The remedy, in words.
    """

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint


REPORTED = (CommandError, ValueError, OSError)
"""Errors that the user can do something about.

Any other error is a defect and keeps its traceback.
"""
HIDDEN = re.compile(rf"[/\\]{re.escape(SCRATCH)}[^/\\:\s'\"]*")
"""A hidden folder in a path; a colon and the reason of an error may follow."""
HELP = (
    "evaluate or compare --help lists the options, --metrics.help CLASS the arguments "
    "of a metric."
)


def write_to_stderr(text: str) -> None:
    """Write a text to stderr; ignore a stderr that is closed or full."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)


def print_error(error: Exception) -> None:
    """Print an error to stderr, and those of other files that were opened with it."""
    for each in (error, *getattr(error, "others", ())):
        problem, hint = describe(each)
        write_to_stderr(f"error: {problem}\nhint: {hint}\n")


def describe(error: Exception) -> tuple[str, str]:
    """Return the problem and the remedy in a line each, at most 400 letters together.

    Output files are named by their final paths, not by their paths in hidden folders.

    >>> describe(ValueError("RecallAtK: k=0 is too small; pass an int of at least 1."))
    ('RecallAtK: k=0 is too small', 'pass an int of at least 1.')
    >>> describe(OSError("reports/.tailmetrics-x1/report.csv: No space left on device"))[0]
    'reports/report.csv: No space left on device'
    >>> describe(PermissionError(13, "Permission denied", "reports/.tailmetrics-x1"))[0]
    'reports: Permission denied'
    """
    if isinstance(error, CommandError):
        problem, hint = error.problem, error.hint
    elif isinstance(error, DataFileError):
        place = str(error.path)
        if error.where:
            place = f"{place}, {error.where}"
        problem = f"{place}: {error.problem}"
        hint = error.hint or "check what wrote the file."
    elif isinstance(error, OSError):
        problem = str(error)
        if error.filename:
            problem = f"{error.filename}: {error.strerror}"
        hint = "check the path, its permissions and the space that is left."
    else:
        problem, _, hint = str(error).partition("; ")
        hint = hint or "check the arguments and the files."
    problem = printable(_one_line(HIDDEN.sub("", problem)))
    hint = printable(_one_line(hint))
    if len(problem) + len("; ") + len(hint) > LONGEST_ERROR:
        return fitted(problem, hint)
    return problem, hint


def did_you_mean(unknown_words: Iterable[str], words: Iterable[str]) -> str:
    """Return a question that names the closest words, or no text if none is close.

    >>> did_you_mean(["--pred", "--foo"], ["--preds", "--format"])
    'did you mean --preds? '
    """
    by_name = {word.lstrip("-").casefold(): word for word in words}
    close: list[str] = []
    for unknown in unknown_words:
        names = get_close_matches(unknown.lstrip("-").casefold(), by_name, n=1)
        close += [by_name[name] for name in names if by_name[name] not in close]
    if not close:
        return ""
    return f"did you mean {' and '.join(close)}? "


def _one_line(text: str) -> str:
    """Return the lines as one line, joined by semicolons, or by blanks after colons."""
    line = ""
    for part in filter(None, map(str.strip, text.splitlines())):
        if line.endswith(":"):
            line += " "
        elif line:
            line += "; "
        line += part
    return line


# -- warnings --------------------------------------------------------------------------


class Messages:
    """The printer of warnings and notes, each once, without its line of code.

    Attributes:
        warnings: The warnings so far, which reports repeat.
        printed: All texts that were printed.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.printed: set[str] = set()

    def warn(self, text: str) -> None:
        """Print a warning: a decision of the command, or a fact about the numbers."""
        if text not in self.warnings:
            self.warnings.append(text)
        self._print("warning", text)

    def note(self, text: str) -> None:
        """Print a note, such as one on speed, which no report repeats."""
        self._print("note", text)

    def reading(self, text: str) -> None:
        """Print how a file is read."""
        self._print("read", text)

    @contextmanager
    def captured(self, as_notes: bool = False) -> Iterator[None]:
        """Print the warnings of libraries, too; as notes they stay out of reports."""

        def show(
            message: Warning | str, category: type[Warning], *_: Any, **__: Any
        ) -> None:
            if as_notes or issubclass(category, SpeedWarning):
                self.note(str(message))
            else:
                self.warn(str(message))

        with warnings.catch_warnings():
            warnings.showwarning = show
            yield

    def _print(self, kind: str, text: str) -> None:
        if text not in self.printed:
            write_to_stderr(f"{kind}: {printable(text)}\n")
        self.printed.add(text)
