"""From a command line to the command that it names."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tailmetrics.cli.comparison import compare_runs
from tailmetrics.cli.errors import CommandWarning
from tailmetrics.cli.evaluation import evaluate
from tailmetrics.cli.parser import parse
from tailmetrics.cli.ranks import launched
from tailmetrics.cli.wording import in_options
from tailmetrics.io import DataFileNote
from tailmetrics.report.formatting import printable


def run(argv: Sequence[str] | None) -> None:
    """Parse and carry out."""
    with _plain_warnings():
        request = parse(argv)
        {"evaluate": evaluate, "compare": compare_runs}[request.command](request)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print each warning once, on the first rank, as one line without the line of code that gave it."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        kind = "note" if issubclass(category, DataFileNote) else "warning"
        line = f"{kind}: {printable(in_options(str(message)))}"
        if line not in said and launched()[0] == 0:
            sys.stderr.write(f"{line}\n")
        said.add(line)

    with warnings.catch_warnings():
        for ours in (DataFileNote, CommandWarning):
            warnings.simplefilter("always", ours)
        warnings.showwarning = show
        yield
