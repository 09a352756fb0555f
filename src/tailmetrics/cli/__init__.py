"""Floor 5: the command line, ``tailmetrics evaluate`` and ``tailmetrics compare``."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tailmetrics.cli.front import answer, answers

INTERRUPTED = 130
FAILED = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Words behind the program's name; None takes them from the process.

    Returns:
        Exit status: 0, 2 after an error, 130 after Ctrl-C.
    """
    words = sys.argv[1:] if argv is None else argv
    if answers(words):
        answer(words)
    try:
        from tailmetrics.cli.errors import REPORTED, print_error
        from tailmetrics.cli.ranks import launched
        from tailmetrics.cli.run import run

        with _terminable(), _own_classes():
            run(argv)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what is not complete is not written\n")
        return INTERRUPTED
    except ModuleNotFoundError as error:
        problem = f"error: the command line needs the package {error.name}"
        sys.stderr.write(f"{problem}\nhint: pip install 'tailmetrics[cli]'\n")
        return FAILED
    except REPORTED as error:
        rank, _ = launched()
        if rank == 0:  # all ranks agree on an error
            print_error(error)
        return FAILED
    return 0


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM, which torchrun sends to the other ranks when one fails, clean up as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _own_classes() -> Iterator[None]:
    """Let a config name classes of the current folder, as ``python -m`` does, but behind everything installed."""
    folder = str(Path.cwd())
    sys.path.append(folder)
    try:
        yield
    finally:
        ours = max(place for place, other in enumerate(sys.path) if other == folder)
        del sys.path[ours]
