"""From a command line to the command that it names."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tailmetrics.cli.comparison import compare_runs
from tailmetrics.cli.evaluation import evaluate
from tailmetrics.cli.parser import parse


def run(argv: Sequence[str] | None) -> None:
    """Parse and carry out."""
    with _plain_warnings():
        request = parse(argv)
        {"evaluate": evaluate, "compare": compare_runs}[request.command](request)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print warnings as one line each, without the line of code that gave them."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        sys.stderr.write(f"warning: {message}\n")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
