"""Layer 5: the command line, ``tailmetrics evaluate`` and ``compare``."""

# an interrupt before the signal handlers are set ends in a traceback: other modules are imported after they are set
from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

INTERRUPTED = 130
FAILED = 2
SAID = "interrupted: what is not complete is not written\n"
CLEAR = "\r\x1b[2K\x1b[?25h"
"""Codes that clear a line of a terminal, and show the cursor."""
PROGRAM = """Evaluate models that rank labels, from their most frequent labels to their rarest.

  tailmetrics evaluate   evaluates the predictions of one run
  tailmetrics compare    says which differences between runs are more than chance

tailmetrics evaluate --help lists its options, and so does compare."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments after the program's name. None reads them from ``sys.argv``; SIGINT, SIGTERM and SIGHUP
            then end the process at once, with status 130, 143 or 129.

    Returns:
        Exit status: 0, 2 after an error, 130 after Ctrl-C.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a letter that the terminal lacks, such as ± in ASCII, ends no command
            stream.reconfigure(errors="backslashreplace")
    if argv is None:
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):  # not on Windows
            # a shell makes processes in the background ignore SIGINT
            if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
                signal.signal(number, _leave)
    try:
        return _answer(words) if words in ([], ["--help"], ["-h"], ["--version"]) else _outcome(argv)
    except KeyboardInterrupt:
        sys.stderr.write(SAID)
        return INTERRUPTED
    finally:
        if argv is None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to interrupt


def _leave(number: int, _: Any) -> None:
    """Remove incomplete files, and end the process.

    An exception might not end it: libraries turn it into errors of their own, some abort if an import is interrupted,
    and Python ignores it while an object is deleted.
    """
    signal.signal(number, signal.SIG_IGN)
    if number == signal.SIGINT:
        # sys.stderr may be in the middle of a write; the progress that rich shows hides the cursor
        os.write(2, (CLEAR * os.isatty(2) + SAID).encode())
    atexit._run_exitfuncs()
    os._exit(128 + number)


def _answer(words: Sequence[str]) -> int:
    """Print the help or the version at once, without torch, which takes seconds to load, and leave."""
    from argparse import ArgumentParser, RawDescriptionHelpFormatter

    import tailmetrics

    parser = ArgumentParser(
        prog="tailmetrics",
        usage="tailmetrics {evaluate,compare} ...",
        description=PROGRAM,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {tailmetrics.__version__}")
    parser.parse_args(words or ["--help"])
    return 0


def _outcome(argv: Sequence[str] | None) -> int:
    try:
        if argv is None:
            gc.disable()  # imports make 300,000 objects that stay; looking for garbage among them is a sixth of a start
        from tailmetrics.cli.compare import compare_runs
        from tailmetrics.cli.evaluate import evaluate
        from tailmetrics.cli.messages import CommandError, plain_warnings
        from tailmetrics.cli.parser import parse

        if argv is None:
            gc.freeze()
            gc.enable()
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # a config may name classes of this folder; installed packages come first
        with plain_warnings() as said:
            for word in sys.argv[1:] if argv is None else argv:
                if any("\ud800" <= letter <= "\udfff" for letter in word):
                    problem = f"{word}: holds bytes that are no text in the encoding {sys.getfilesystemencoding()}"
                    raise CommandError(problem, "set PYTHONUTF8=1 in the environment, or rename the file.")
            request = parse(argv)
            {"evaluate": evaluate, "compare": compare_runs}[request.command](request, said)
    except ModuleNotFoundError as error:
        problem = f"error: the command line needs the package {error.name}"
        sys.stderr.write(f"{problem}\nhint: pip install 'tailmetrics[cli]'\n")
        return FAILED
    except Exception as error:
        from tailmetrics.cli.messages import REPORTED, print_error

        if not isinstance(error, REPORTED):
            raise
        print_error(error)
        return FAILED
    return 0
