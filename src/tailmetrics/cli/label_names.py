"""`--label-names`: what labels are called where files number them."""

from __future__ import annotations

from collections.abc import Sequence

from tailmetrics.cli.errors import CommandError
from tailmetrics.cli.names_by_line import read_names

HINT = "give one name per line, label 0 first."


def named_labels(path: str | None, in_files: Sequence[str] | None, num_labels: int | None) -> Sequence[str] | None:
    """Return the name of each label: those that the files hold, or the lines of a text file.

    Labels that ``--num-labels`` has beyond the names of the files have an empty name: no file holds them.

    Raises:
        CommandError: If both are there, or the lines are not one for each label.
    """
    if path is None:
        missing = 0 if in_files is None or num_labels is None else num_labels - len(in_files)
        return in_files if missing <= 0 else [*(in_files or ()), *[""] * missing]
    if in_files is not None:
        raise CommandError("--label-names: the labels of these files are names already", "leave --label-names out.")
    names = read_names(path, HINT)
    if num_labels is not None and len(names) != num_labels:
        raise CommandError(f"{path}: holds {len(names):,} names for {num_labels:,} labels", HINT)
    return names
