"""Errors of the command line: one line that says what is wrong, one that says what to do, and no traceback."""

from __future__ import annotations

import sys
from argparse import ArgumentError

from tailmetrics.cli.wording import in_options, visible
from tailmetrics.io import DataFileError
from tailmetrics.report.formatting import printable


class CommandError(Exception):
    """What was asked for cannot be done.

    Args:
        problem: What is wrong.
        hint: What to do about it.
    """

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint


class CommandWarning(UserWarning):
    """What the command line has decided, or what a reader of its numbers should know."""


REPORTED = (CommandError, ArgumentError, ValueError, OSError)
"""Errors that the user can do something about; anything else is a defect and keeps its traceback."""

HELP = "tailmetrics evaluate --help lists the options, --metrics.help CLASS those of a metric."


def describe(error: Exception) -> tuple[str, str]:
    """Return what is wrong and what to do about it, one line each, in the words of the command line.

    >>> describe(ValueError("RecallAtK: k=0 is too small; pass an int of at least 1."))
    ('RecallAtK: k=0 is too small', 'pass an int of at least 1.')
    """
    problem, hint = _parts(error)
    return printable(_one_line(visible(problem))), printable(_one_line(hint))


def _parts(error: Exception) -> tuple[str, str]:
    if isinstance(error, CommandError):
        return error.problem, error.hint
    if isinstance(error, DataFileError):
        place = f"{error.path}, {error.where}" if error.where else str(error.path)
        return f"{place}: {in_options(error.problem)}", in_options(error.hint) or "check what wrote the file."
    if isinstance(error, ArgumentError):
        return _shortened(error.message), HELP
    if isinstance(error, OSError):
        problem = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return problem, "check the path, its permissions and the space that is left."
    problem, _, hint = in_options(str(error)).partition("; ")
    return problem, hint or "check the arguments and the files."


def _shortened(message: str) -> str:
    """Return jsonargparse's message without what it says of None, which every option may be."""
    lines = message.splitlines()
    if "  Does not validate against any of the Union subtypes" not in lines:
        return message
    expected = next(line for line in lines if line.strip().startswith("- ")).strip().removeprefix("- ")
    given = lines[-1].strip()
    return f"{lines[0]} {expected}" + ("" if "Got value" in expected else f". {given}")


def _one_line(text: str) -> str:
    """Return the lines, of which one that ends in a colon announces the next, as one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(line + (" " if line.endswith(":") else "; ") for line in lines).removesuffix("; ").strip()


def print_error(error: Exception) -> None:
    """Print an error to stderr."""
    problem, hint = describe(error)
    sys.stderr.write(f"error: {problem}\nhint: {hint}\n")
