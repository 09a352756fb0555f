"""Floor 5: the command line, ``tailmetrics evaluate`` and ``tailmetrics compare``."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
    interrupts: list[int] = []
    with _signals(interrupts, alone=argv is None):
        try:
            return _outcome(argv, interrupts)
        except BaseException:
            # libraries turn an interrupt into errors of their own: whatever comes behind the signal is one
            if not interrupts:
                raise
        sys.stderr.write("interrupted: what is not complete is not written\n")
        return INTERRUPTED


def _outcome(argv: Sequence[str] | None, interrupts: Sequence[int]) -> int:
    try:
        from tailmetrics.cli.errors import REPORTED, print_error
        from tailmetrics.cli.ranks import launched
        from tailmetrics.cli.run import run

        with _own_classes():
            run(argv)
    except ModuleNotFoundError as error:
        problem = f"error: the command line needs the package {error.name}"
        sys.stderr.write(f"{problem}\nhint: pip install 'tailmetrics[cli]'\n")
        return FAILED
    except REPORTED as error:
        if interrupts:
            raise
        rank, _ = launched()
        if rank == 0:  # all ranks agree on an error
            print_error(error)
        return FAILED
    return 0


@contextmanager
def _signals(interrupts: list[int], alone: bool) -> Iterator[None]:
    """Note SIGINT, and let SIGTERM, which torchrun sends to the other ranks when one fails, clean up as it does.

    Args:
        interrupts: Where a SIGINT is noted.
        alone: Whether the process ends behind this; a SIGINT then has nothing left to interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    handlers: dict[int, Any] = {signal.SIGTERM: lambda number, _: sys.exit(128 + number)}
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # it is ignored in what a shell runs behind itself
        handlers[signal.SIGINT] = interrupt
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if alone and number == signal.SIGINT else handler)


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
