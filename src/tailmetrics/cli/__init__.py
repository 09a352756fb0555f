"""Layer 5: the command line, ``tailmetrics evaluate`` and ``tailmetrics compare``."""

# an interrupt before the signal handlers are set ends in a traceback: other modules are
# imported after they are set
from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

INTERRUPTED = 130
"""The exit status after Ctrl-C."""
FAILED = 2
"""The exit status after an error."""
INTERRUPTION = "interrupted: what is not complete is not written\n"
CLEAR = "\r\x1b[2K\x1b[?25h"
"""Codes that clear a line of a terminal, and show the cursor."""
PROGRAM = """Evaluate models that rank labels, from their most frequent labels to their rarest.

  tailmetrics evaluate   evaluates the predictions of one run
  tailmetrics compare    says which differences between runs are more than chance

tailmetrics evaluate --help lists its options, and so does tailmetrics compare --help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments after the program's name. None reads them from ``sys.argv``;
            SIGINT, SIGTERM and SIGHUP then end the process at once, with status 130,
            143 or 129.

    Returns:
        Exit status: 0, 2 after an error, 130 after Ctrl-C.
    """
    is_program = argv is None
    words = sys.argv[1:]
    if argv is not None:
        words = list(argv)
    for stream in (sys.stdout, sys.stderr):
        # a letter that the terminal lacks, such as ± in ASCII, ends no command
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if is_program:
        _handle_signals()
    try:
        if words in ([], ["--help"], ["-h"], ["--version"]):
            return _print_help(words)
        return _run(words, is_program)
    except KeyboardInterrupt:
        sys.stderr.write(INTERRUPTION)
        return INTERRUPTED
    finally:
        if is_program:
            # there is nothing left to interrupt
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _handle_signals() -> None:
    """Let signals end the process at once.

    A signal that the shell ignores, as for processes in background, stays ignored.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP"):  # not on Windows
        numbers.append(signal.SIGHUP)
    for number in numbers:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _leave)


def _leave(number: int, _: Any) -> None:
    """Remove incomplete files, and end the process.

    An exception might not end it: libraries turn it into errors of their own, some
    abort if an import is interrupted, and Python ignores it while an object is deleted.
    """
    signal.signal(number, signal.SIG_IGN)
    if number == signal.SIGINT:
        text = INTERRUPTION
        if os.isatty(2):  # the progress that rich shows hides the cursor
            text = CLEAR + text
        os.write(2, text.encode())  # sys.stderr may be in the middle of a write
    atexit._run_exitfuncs()
    os._exit(128 + number)


def _print_help(words: Sequence[str]) -> int:
    """Print the help or the version, and leave.

    torch, which takes seconds to load, is not imported.
    """
    from argparse import ArgumentParser, RawDescriptionHelpFormatter

    import tailmetrics

    parser = ArgumentParser(
        prog="tailmetrics",
        usage="tailmetrics {evaluate,compare} ...",
        description=PROGRAM,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {tailmetrics.__version__}"
    )
    parser.parse_args(words or ["--help"])
    return 0


def _run(words: Sequence[str], is_program: bool) -> int:
    """Run a command, and return the exit status.

    An error that the user can do something about is printed.
    """
    request = None
    try:
        if is_program:
            # imports make 300,000 objects that stay; looking for garbage among them is
            # a sixth of a start
            gc.disable()
        from tailmetrics.cli.compare import compare_runs
        from tailmetrics.cli.evaluate import evaluate
        from tailmetrics.cli.messages import Messages
        from tailmetrics.cli.parser import parse

        if is_program:
            gc.freeze()
            gc.enable()
        if os.getcwd() not in sys.path:
            # a config may name classes of this folder; installed packages come first
            sys.path.append(os.getcwd())
        messages = Messages()
        with messages.captured():
            request = parse(words)
            if request.command == "evaluate":
                evaluate(request, messages)
            else:
                compare_runs(request, messages)
    except Exception as error:
        kinds = [] if request is None else [type(metric) for metric in request.metrics]
        if not _print_problem(error, kinds):
            raise
        return FAILED
    return 0


def _print_problem(error: Exception, kinds: Sequence[Any]) -> bool:
    """Print an error that the user can do something about; return whether it is one."""
    # the imports below may fail, too
    if isinstance(error, ModuleNotFoundError) and not kinds:
        _print_missing_package(error)
        return True

    from tailmetrics.cli.messages import REPORTED, print_error
    from tailmetrics.cli.metrics import error_of_own_metric

    if isinstance(error, REPORTED):
        print_error(error)
        return True
    own_error = error_of_own_metric(error, kinds)
    if own_error is not None:
        print_error(own_error)
        return True
    if isinstance(error, ModuleNotFoundError):
        _print_missing_package(error)
        return True
    return False


def _print_missing_package(error: ModuleNotFoundError) -> None:
    """Print which package the command line lacks."""
    problem = f"error: the command line needs the package {error.name}"
    sys.stderr.write(f"{problem}\nhint: pip install 'tailmetrics[cli]'\n")
