"""Messages of the library in the words of the command line, without anything that a terminal would act upon."""

from __future__ import annotations

import re
from dataclasses import fields

from tailmetrics.cli.options import CompareOptions, DataOptions, EvaluateOptions, ResamplingOptions
from tailmetrics.io.files import SCRATCH

NAMES = [one.name for kind in (DataOptions, ResamplingOptions, EvaluateOptions, CompareOptions) for one in fields(kind)]
"""Arguments of functions that the command line has as options."""

QUOTES = "'\""

_HIDDEN = re.compile(rf"{re.escape(SCRATCH)}[^/\\]+[/\\]")
_CALLER = re.compile(r"^(read|read_target|read_label_names|read_label_counts|rank|compare|intervals|TopKCollection): ")
_OF_METRIC = re.compile(r"^(?!TopKCollection)[A-Z]\w*: ")
_COLUMNS = re.compile(r"columns=Columns\((\w+)=([^)]*)\)")
_PASSED = re.compile(rf"\b({'|'.join(NAMES)})=('[^']*'|[\w.+-]*\w)?")
_NAMED = re.compile(rf"(?<![\w-])({'|'.join(name for name in NAMES if '_' in name)})\b")


def in_options(text: str) -> str:
    """Return a message with options in the place of arguments.

    >>> in_options("read: batch_rows=0 is too small; or leave num_labels out, or pass columns=Columns(item='doc').")
    '--batch-rows 0 is too small; or leave --num-labels out, or pass --columns.item doc.'
    """
    if _OF_METRIC.match(text):  # its arguments stand in a config
        return text
    text = _CALLER.sub("", text)
    text = _COLUMNS.sub(lambda match: f"--columns.{match[1]} {match[2].strip(QUOTES)}", text)
    text = _PASSED.sub(lambda match: " ".join([_option(match[1]), *_value(match[2])]), text)
    return _NAMED.sub(lambda match: _option(match[1]), text)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _value(text: str | None) -> list[str]:
    """Return the value of an option as it is typed; a switch has none."""
    return [] if not text else [text.strip(QUOTES).lower() if text in ("True", "False") else text.strip(QUOTES)]


def visible(text: str) -> str:
    """Return a text that names files where they will be, not where they are kept until all is done.

    >>> visible("reports/.tailmetrics-x1/report.csv: No space left on device")
    'reports/report.csv: No space left on device'
    """
    return _HIDDEN.sub("", text)
