"""`--label-names`: what labels are called where files number them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tailmetrics.cli.errors import CommandError
from tailmetrics.io import DataFileError
from tailmetrics.io.compression import stream
from tailmetrics.io.paths import check_file


def named_labels(path: str | None, in_files: Sequence[str] | None, num_labels: int | None) -> Sequence[str] | None:
    """Return the name of each label: those that the files hold, or the lines of a text file.

    Raises:
        CommandError: If both are there, or the lines are not one for each label.
    """
    if path is None:
        return in_files
    if in_files is not None:
        raise CommandError("--label-names: the labels of these files are names already", "leave --label-names out.")
    file = check_file(path)
    try:
        with stream(file) as opened:
            names = tuple(line.strip() for line in bytes(opened.read()).decode("utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise DataFileError(Path(path), "is no text", hint="give one name per line, label 0 first.") from error
    if num_labels is not None and len(names) != num_labels:
        problem = f"{path}: holds {len(names):,} names for {num_labels:,} labels"
        raise CommandError(problem, "give one name per line, label 0 first.")
    return names
