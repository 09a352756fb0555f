"""What ``--help`` says, written for who types it."""

from __future__ import annotations

from argparse import SUPPRESS, Action, RawDescriptionHelpFormatter

from jsonargparse import DefaultHelpFormatter

from tailmetrics.io import FORMATS

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


def formats() -> str:
    """Return the formats with what a file of each holds."""
    width = max(map(len, FORMATS))
    lines = [f"  {form.name.ljust(width)}  {form.holds}" for form in FORMATS.values()]
    return "\n".join(["formats (--format), told from the name or the first lines of a file:", *lines])


class UserHelp(RawDescriptionHelpFormatter, DefaultHelpFormatter):
    """Help that says what an option does and its default where it has one, not how Python calls its type."""

    def _get_help_string(self, action: Action) -> str:
        said = action.help or ""
        if action.default in (None, False, SUPPRESS) or not action.option_strings:
            return said
        return f"{said} (default: %(default)s)"
