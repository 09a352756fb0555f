"""Errors and warnings of the command line: each message names the problem and a remedy, without a traceback."""

from __future__ import annotations

import re
import sys
import warnings
from argparse import ArgumentError
from ast import literal_eval
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from pydoc import locate
from shlex import quote
from typing import Any

from tailmetrics._arguments import LONGEST_ERROR, arguments, fitted
from tailmetrics.cli.options import KINDS
from tailmetrics.io import DataFileError, DataFileNote
from tailmetrics.io.files import SCRATCH
from tailmetrics.io.reading import LISTENER, Reading
from tailmetrics.metrics import REGISTRY
from tailmetrics.ranking._warnings import SpeedWarning, with_value
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


class CommandWarning(UserWarning):
    """A decision of the command line, or a fact that a reader of its numbers should know."""


def tell(said: str) -> None:
    """Warn of a decision of the command line."""
    warnings.warn(said, CommandWarning, stacklevel=3)


REPORTED = (CommandError, ValueError, OSError)
"""Errors that the user can do something about; anything else is a defect and keeps its traceback."""
HELP = "evaluate or compare --help lists the options, --metrics.help CLASS the arguments of a metric."

# -- errors -------------------------------------------------------------------------------------------------------


def print_error(error: Exception) -> None:
    """Print an error to stderr."""
    problem, hint = describe(error)
    sys.stderr.write(f"error: {problem}\nhint: {hint}\n")


def describe(error: Exception) -> tuple[str, str]:
    """Return the problem and the remedy, one line each, with options of the command line in place of arguments.

    Together they have at most 400 letters.

    Output files are named by their final paths, not by their paths in hidden folders.

    >>> describe(ValueError("RecallAtK: k=0 is too small; pass an int of at least 1."))
    ('RecallAtK: k=0 is too small', 'pass an int of at least 1.')
    >>> describe(OSError("reports/.tailmetrics-x1/report.csv: No space left on device"))[0]
    'reports/report.csv: No space left on device'
    """
    if isinstance(error, CommandError):
        problem, hint = error.problem, error.hint
    elif isinstance(error, DataFileError):
        place = f"{error.path}, {error.where}" if error.where else str(error.path)
        problem = f"{place}: {in_options(error.problem)}"
        hint = in_options(error.hint) or "check what wrote the file."
    elif isinstance(error, OSError):
        problem = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        hint = "check the path, its permissions and the space that is left."
    else:
        problem, _, hint = in_options(str(error)).partition("; ")
    if choices := _CHOICES.search(hint):
        hint = did_you_mean(_GIVEN_WORD.findall(problem), re.split(r",? +", choices[1].replace("'", ""))) + hint
    shown = re.sub(rf"{re.escape(SCRATCH)}[^/\\]+[/\\]", "", problem)
    whole = printable(_one_line(shown)), printable(_one_line(hint or "check the arguments and the files."))
    return whole if sum(map(len, whole)) + len("; ") <= LONGEST_ERROR else fitted(*whole)


def did_you_mean(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Return a question that names the closest of the known words, or no text if none is close.

    >>> did_you_mean(["--pred", "--foo"], ["--preds", "--format"])
    'did you mean --preds? '
    """
    words = {word.lstrip("-").casefold(): word for word in known}
    close = [words[one] for word in unknown for one in get_close_matches(word.lstrip("-").casefold(), words, n=1)]
    return f"did you mean {' and '.join(dict.fromkeys(close))}? " if close else ""


def usage_error(error: ArgumentError, options: Iterable[str]) -> CommandError:
    """Return an error of jsonargparse in words of the command line.

    Args:
        error: The error.
        options: The options of the command.
    """
    problem, hint = _shortened(error.message), HELP
    if lacking := _LACKING.search(problem):
        name, argument = lacking.groups()
        problem, hint = f"--metrics+={name}: lacks {argument}", f"add --metrics.{argument}=VALUE behind it. {HELP}"
    elif unknown := _UNKNOWN_ARGUMENT.search(problem):
        path, argument = unknown.groups()
        name, known = path.rpartition(".")[2], arguments(locate(path))
        problem = f"{name} takes no argument {argument}"
        hint = f"{did_you_mean([argument], known)}--metrics.help {name} lists its arguments."
    elif wrong := _WRONG_ARGUMENT.search(error.message):
        name, argument, kinds, value = wrong.groups()
        needed = (
            re.sub(r"<class '(\w+)'>|(?:\w+\.)+(\w+)", r"\1\2", kinds).replace(", ", " or ").replace(" or NoneType", "")
        )
        needed = re.sub(r"\bint\b", "whole number", needed.replace("Sequence[int]", "list of whole numbers"))
        problem, hint = f"{name}: {argument}={value} is no {needed}", f"--metrics.help {name} lists its arguments."
    elif unknown := _UNKNOWN_CLASS.search(problem):
        name = ".".join(part for part in unknown.groups() if part)
        problem, hint = f"there is no class {name}", did_you_mean([unknown[2]], REGISTRY) + HELP
    elif unknown := _UNKNOWN_OPTION.search(problem):
        words = unknown.groups() if unknown[1] else re.findall(r"(?<!\S)--?[A-Za-z][\w.-]*", unknown[0])
        problem, hint = f"{' and '.join(words)}: there is no such option", did_you_mean(words, options) + HELP
        if not words:
            problem = f"{unknown[0]}: belongs to no option"
            hint = f"name files by their options, such as --preds FILE --target FILE. {HELP}"
    return CommandError(problem, hint)


def _shortened(message: str) -> str:
    """Return jsonargparse's message without its words about None and types of Python; None fits every option."""
    lines = message.splitlines()
    if "  Does not validate against any of the Union subtypes" in lines:
        expected = next(line for line in lines if line.strip().startswith("- ")).strip().removeprefix("- ")
        given = lines[-1].strip()
        message = f"{lines[0]} {expected}" + ("" if "Got value" in expected else f". {given}")
    message = re.sub(r'^Parser key "(\w+)"', lambda key: f"--{key[1].replace('_', '-')}", message)
    message = _OF_ARGUMENT.sub(r"\1: \2: ", message)
    return re.sub(r"Expected a (?:<class '(\w+)'>|typing\.Literal\[(.*?)\])", r"expected \1\2", message)


def _one_line(text: str) -> str:
    """Return the lines as one line, joined by semicolons; after a colon there is no semicolon."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(line + (" " if line.endswith(":") else "; ") for line in lines).removesuffix("; ").strip()


# -- the words of the library -------------------------------------------------------------------------------------

NAMES = [one.name for kind in KINDS for one in fields(kind)]
"""Names of arguments of functions that are also options of the command line."""
_OF_METRIC = re.compile(r"^(?!TopKCollection)[A-Z]\w*: ")
_CALLER = re.compile(r"^(read|read_target|read_label_names|read_label_counts|rank|compare|intervals|TopKCollection): ")
_PAIR = re.compile(r"columns=\((Columns\([^)]*\)), (Columns\([^)]*\))\)")
_GIVEN = re.compile(rf"(preds_)?columns=Columns\(([^)]*)\)|\b({'|'.join(NAMES)})=('[^']*'|[\w.+-]*\w)?")
_INSTEAD = re.compile(r"write its logit: (\w+)\((.*)\)(?=\.$)")
_MASKED = re.compile(
    r"(?:make the metrics with|leave them out with(?: row_mask=\S+ != \S+ or)?) ignore_index=(-?\d+)"
    r"(?:, which metrics, [^;]*? take)?"
)
_LACKING = re.compile(r"class_path '(?:\w+\.)*(\w+)':\s+the following arguments are required: (\w+)")
_UNKNOWN_ARGUMENT = re.compile(r"class_path '([\w.]+)':\s+Option '([\w.]+)' is not accepted")
_WRONG_ARGUMENT = re.compile(
    r"class_path '(?:\w+\.)*(\w+)':\s+Parser key \"(\w+)\":\s+Does not .*\s+"
    r"Subtypes: \[(.*)\]\n[^$]*\n\s*Given value: (.*)"
)
_OF_ARGUMENT = re.compile(r"^--metrics:\s+Problem with given class_path '(?:\w+\.)*(\w+)':\s+Parser key \"(\w+)\":\s+")
_UNKNOWN_CLASS = re.compile(r"(?:Expected a dot import path string: |module '([\w.]+)' has no attribute ')(\w+)")
_UNKNOWN_OPTION = re.compile(r"(?<=unrecognized arguments: ).*|(?<=does not accept option ')([\w.]+)")
_CHOICES = re.compile(r"\bchoose (?:one of|from) (.*?)[.;](?: |$)")
_ANSWER = re.compile(r"(\w+)=('[^']*'|\"[^\"]*\"|\w+)")
_GIVEN_WORD = re.compile(r"^--[\w-]+ '?([^\s':]+)'?")
_NAMED = re.compile(rf"(?<![\w-])({'|'.join(name for name in NAMES if '_' in name)})\b")


def in_options(text: str) -> str:
    """Return a message of the library with options in the place of arguments.

    >>> in_options("read: batch_rows=0 is too small; or leave num_labels out, or pass columns=Columns(item='doc').")
    '--batch-rows 0 is too small; or leave --num-labels out, or pass --columns.item doc.'
    >>> in_options("columns=Columns(query='0', item='1') chooses others.")
    '--columns.query 0 --columns.item 1 chooses others.'
    >>> in_options("columns=Columns(item=NAME, gain='hit' or gain='none') says it.")
    '--columns.item NAME --columns.gain hit or --columns.gain none says it.'
    >>> in_options("columns=(Columns(query='member'), Columns(query='user')) joins by it.")
    '--preds-columns.query member --columns.query user joins by it.'
    """
    text = text.replace("pass preds.log()", "add --probabilities").replace("pass preds.sigmoid(), or", "write")
    text = text.replace(
        "empty_target_action='skip' leaves", "--metrics.empty_target_action skip behind --metrics+=CLASS leaves"
    )
    text = _MASKED.sub(r"add --ignore-index \1", text)
    text = _INSTEAD.sub(r"write its logit: --metrics+ \1 --metrics.threshold \2", text)
    if _OF_METRIC.match(text):  # the arguments of a metric are in a config
        return text

    def option(match: re.Match[str]) -> str:
        if match[2]:
            which = "--preds-columns" if match[1] else "--columns"
            said = _ANSWER.sub(lambda one: f"{which}.{one[1]} {quote(_bare(one[2]))}", match[2])
            return said.replace(", --", " --")
        name, value = match[3].replace("_", "-"), _bare(match[4] or "")
        return f"--{name} {value.lower() if value in ('True', 'False') else quote(value) if value else ''}".rstrip()

    text = _GIVEN.sub(option, _PAIR.sub(r"preds_columns=\1 columns=\2", _CALLER.sub("", text)))
    return _NAMED.sub(lambda match: f"--{match[1].replace('_', '-')}", text)


def _bare(value: str) -> str:
    """Return a value as it is written in Python without its quotes."""
    return str(literal_eval(value)) if value[:1] in ("'", '"') else value


@contextmanager
def plain_warnings() -> Iterator[dict[str, bool]]:
    """Print each warning once, as one line without the line of code that gave it.

    Yields a dict of the texts so far: text -> whether it is a note, of files or of speed. Reports repeat the others.
    """
    said: dict[str, bool] = {}

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text, is_note = in_options(str(message)), issubclass(category, (DataFileNote, SpeedWarning))
        if text not in said:
            sys.stderr.write(f"{'note' if is_note else 'warning'}: {printable(text)}\n")
        said[text] = is_note

    def listen(reading: Reading) -> None:
        text = sentence(reading)
        if text not in said:
            sys.stderr.write(f"read: {printable(text)}\n")
        said[text] = True

    with with_value(LISTENER, listen), warnings.catch_warnings():
        for ours in (DataFileNote, CommandWarning):
            warnings.simplefilter("always", ours)
        warnings.showwarning = show
        yield said


def sentence(reading: Reading) -> str:
    """Return how a file was read, and the options that say it outright, ready to be pasted."""
    which = "preds-" if reading.role == "preds" else ""
    said = [f"--{which}format {reading.form}"]
    said += [f"--delimiter {quote(str(reading.delimiter))}"] if reading.delimiter not in (None, ",", "\t") else []
    said += [f"--{which}columns.{name} {quote(column)}" for name, column in reading.columns.items()]
    return f"{reading.path}: {reading}; said outright: {' '.join(said)}"
