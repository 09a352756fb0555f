"""Reads a file of a tree of labels: lines of a child and its parent."""

from __future__ import annotations

import csv

from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.files import FilePath, check_file, suffix_of
from tailmetrics.io.text import every_line

COLUMNS = ("child", "parent")
"""The columns of the file. Without their names nothing would tell which is which."""


def read_edges(path: str | FilePath) -> list[tuple[str, str]]:
    """Return the pairs of child and parent of a .csv or .tsv file; an empty parent makes the child a root.

    Raises:
        DataFileError: If the file is missing or damaged, or its first line does not name the columns.
    """
    file = check_file(path)
    hint = "write a line 'child,parent', and under it the name or id of each label and of its parent."
    with reading(file, "text"):
        lines = [(number, line) for number, line in every_line(file) if line.strip()]
    rows = list(csv.reader((line for _, line in lines), delimiter="\t" if suffix_of(file) == "tsv" else ","))
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if sorted(header) != sorted(COLUMNS):
        raise DataFileError(file, f"has the columns {', '.join(header) or 'of an empty file'}", hint=hint)
    child, parent = (header.index(name) for name in COLUMNS)
    for (number, _), row in zip(lines, rows, strict=False):
        if len(row) != len(COLUMNS):
            raise DataFileError(file, f"holds {len(row)} fields, not a child and its parent", f"line {number}", hint)
    return [(row[child].strip(), row[parent].strip()) for row in rows[1:]]
