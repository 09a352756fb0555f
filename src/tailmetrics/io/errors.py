"""The error of all readers, the note of their decisions, and the conversion of other libraries' errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from tailmetrics._arguments import LONGEST_VALUE, cut, fitted, short_values
from tailmetrics.ranking._warnings import warn_outside

LONGEST_PATH = 100
"""Characters of a path at most; its end tells files apart."""


class DataFileError(ValueError):
    """A data file cannot be read, or its content does not fit.

    Attributes:
        path: The file; its address if it is in a store.
        problem: What is wrong.
        where: Row, line or query inside the file; empty if the problem concerns the whole file.
        hint: What the user can do; may be empty.
    """

    def __init__(self, path: object, problem: str, where: str = "", hint: str = "") -> None:
        where = cut(short_values(where), LONGEST_PATH)
        place = f"{cut(str(path), LONGEST_PATH, from_end=True)}{', ' * bool(where)}{where}: "
        problem, hint = fitted(problem, hint, len(place))
        said = f"{place}{problem}"
        super().__init__(f"{said}; {hint}" if hint else said)
        self.path = str(path) if "://" in str(path) else Path(str(path))
        self.problem = problem
        self.where = where
        self.hint = hint

    def __reduce__(self) -> tuple[type[DataFileError], tuple[str | Path, str, str, str]]:
        return DataFileError, (self.path, self.problem, self.where, self.hint)


def shown(value: object) -> str:
    """Return a value as Python writes it, cut to 80 characters."""
    return cut(repr(value), LONGEST_VALUE)


class DataFileNote(UserWarning):
    """A warning about a decision of a reader, such as which column is the query; the command line prints a note."""


SAID: ContextVar[set[str] | None] = ContextVar("said", default=None)
"""The decisions already reported for the parts of one data set; None outside of :func:`said_once`."""


@contextmanager
def said_once(said: set[str]) -> Iterator[None]:
    """Report each decision only once within the block, even if several parts of a data set lead to it."""
    token = SAID.set(said)
    try:
        yield
    finally:
        SAID.reset(token)


def note(path: object, decision: str) -> None:
    """Warn with a :class:`DataFileNote` about a decision made while a file was read."""
    if is_new(decision):
        warn_outside(f"{path}: {decision}", DataFileNote)


def is_new(decision: str) -> bool:
    """Whether a decision has not been reported yet for another part of the data set."""
    said = SAID.get()
    if said is None:
        return True
    before = len(said)
    said.add(decision)
    return len(said) > before


@contextmanager
def reading(path: object, form: str) -> Iterator[None]:
    """Turn an exception in the block into a :class:`DataFileError` of this file; ``form`` is the format in its text."""
    try:
        yield
    except (DataFileError, Warning, AssertionError):  # a program can turn warnings into exceptions
        raise
    except ModuleNotFoundError as error:
        hint = "install it with pip install 'tailmetrics[cli]'."
        raise DataFileError(path, f"reading {form} needs the package {error.name}", hint=hint) from error
    except Exception as error:  # numpy, torch, zipfile and pyarrow raise a dozen classes on damaged files
        cause = str(error).strip().split("\n")[0] or type(error).__name__
        hint = "the file may be truncated or corrupt, or of another format: write it again, or name its format."
        raise DataFileError(path, f"cannot be read as {form}: {cause}", hint=hint) from error
