"""Layer 5: the command line, ``tailmetrics evaluate`` and ``tailmetrics compare``."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tailmetrics

INTERRUPTED = 130
FAILED = 2
AGAIN = 0.05
"""Seconds after which an interrupt that Python has dropped comes again: the removal is over by then."""
PROGRAM = """Evaluate models that rank labels, from their most frequent labels to their rarest.

  tailmetrics evaluate   evaluates the predictions of one run
  tailmetrics compare    says which differences between runs are more than chance

tailmetrics evaluate --help and tailmetrics compare --help list the options of each."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Words behind the program's name; None takes them from the process.

    Returns:
        Exit status: 0, 2 after an error, 130 after Ctrl-C.
    """
    words = sys.argv[1:] if argv is None else argv
    if list(words) in (["--help"], ["-h"], ["--version"]):
        _answer(words)
    interrupts = _Interrupts()
    with _signals(interrupts, alone=argv is None):
        try:
            return _outcome(argv, interrupts)
        except BaseException:
            # libraries turn an interrupt into errors of their own: whatever comes behind the signal is one
            if not interrupts.noted:
                raise
    sys.stderr.write("interrupted: what is not complete is not written\n")
    if argv is None:
        # threads of libraries that were cut short can crash a Python that ends: all that is left to do is to clean up
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    return INTERRUPTED


@dataclass
class _Interrupts:
    """Whether SIGINT has come; it is held while libraries load, of which some abort where an import is cut short."""

    noted: bool = False
    held: bool = True


def _answer(words: Sequence[str]) -> None:
    """Print the help or the version at once, without torch, which takes seconds to load, and leave."""
    parser = ArgumentParser(
        prog="tailmetrics",
        usage="tailmetrics {evaluate,compare} ...",
        description=PROGRAM,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {tailmetrics.__version__}")
    parser.parse_args(words)


def _outcome(argv: Sequence[str] | None, interrupts: _Interrupts) -> int:
    try:
        from tailmetrics.cli.compare import compare_runs
        from tailmetrics.cli.evaluate import evaluate
        from tailmetrics.cli.messages import REPORTED, plain_warnings, print_error
        from tailmetrics.cli.parser import parse
        from tailmetrics.cli.processes import launched

        interrupts.held = False
        if interrupts.noted:
            raise KeyboardInterrupt
        rank, _ = launched()
        with _own_classes(), plain_warnings(rank == 0):
            request = parse(argv)
            {"evaluate": evaluate, "compare": compare_runs}[request.command](request)
    except ModuleNotFoundError as error:
        problem = f"error: the command line needs the package {error.name}"
        sys.stderr.write(f"{problem}\nhint: pip install 'tailmetrics[cli]'\n")
        return FAILED
    except REPORTED as error:
        if interrupts.noted:
            raise
        if rank == 0:  # all ranks agree on an error
            print_error(error)
        return FAILED
    return 0


@contextmanager
def _signals(interrupts: _Interrupts, alone: bool) -> Iterator[None]:
    """Note SIGINT, and let SIGTERM, which torchrun sends to the other ranks when one fails, clean up as it does.

    Args:
        interrupts: Where a SIGINT is noted.
        alone: Whether the process ends behind this; a SIGINT then has nothing left to interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        interrupts.noted = True
        if not interrupts.held:
            signal.default_int_handler(number, frame)

    handlers: dict[int, Any] = {signal.SIGTERM: lambda number, _: sys.exit(128 + number)}
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # it is ignored in what a shell runs behind itself
        handlers[signal.SIGINT] = interrupt

    def unraisable(found: Any) -> None:
        if not interrupts.noted:
            hook(found)
            return
        # it came while an object was removed, where Python drops every error: it comes again
        again = threading.Timer(AGAIN, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    hook, sys.unraisablehook = sys.unraisablehook, unraisable
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        sys.unraisablehook = hook
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
