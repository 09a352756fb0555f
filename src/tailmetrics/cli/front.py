"""What ``tailmetrics --help`` and ``--version`` say, at once: nothing here needs torch, which takes seconds to load."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence

import tailmetrics

PROGRAM = """How good a ranking model is, from its most frequent labels to its rarest.

  tailmetrics evaluate   one run: predictions against what is relevant
  tailmetrics compare    several runs: which differences are more than chance

tailmetrics evaluate --help and tailmetrics compare --help list the options of each."""

EVALUATE = """Evaluate a file of predictions against a file of targets.

Prints the metrics, overall and from the most frequent labels to the rarest, and writes a report. A first try:

  tailmetrics evaluate --preset recsys --preds scores.csv --target test.csv --train-target train.csv --out report

Row i of one file belongs to row i of the other, or every line names its query (TREC, JSON Lines, CSV). Files may be
compressed (.gz, .bz2, .zst), and be folders of parts, patterns in quotes, or addresses (s3://).
Under torchrun the rows are shared over the processes, and the numbers are the same."""

COMPARE = """Compare runs row by row.

  tailmetrics compare old.parquet new.parquet --out comparison

Takes tables written by tailmetrics evaluate --per-row, or predictions (--preds) with one target and one config."""


def answers(words: Sequence[str]) -> bool:
    """Whether these are all the words of a command line that asks for no more than this."""
    return list(words) in (["--help"], ["-h"], ["--version"])


def answer(words: Sequence[str]) -> None:
    """Print the help or the version, and leave."""
    parser = ArgumentParser(
        prog="tailmetrics",
        usage="tailmetrics {evaluate,compare} ...",
        description=PROGRAM,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {tailmetrics.__version__}")
    parser.parse_args(words)
