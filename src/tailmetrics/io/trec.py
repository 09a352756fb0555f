"""TREC run and qrels files, with the conventions of NIST's trec_eval.

The rank column of a run is not looked at: lines are ordered by score, which trec_eval holds in single precision. A
grade of 0 or less is not relevant. Fields are separated by blanks; the file is read whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tailmetrics.io.checks import Role
from tailmetrics.io.errors import DataFileError, check_file, reading
from tailmetrics.io.keyed import Triples
from tailmetrics.io.lines import Lines, parse_numbers, read_lines

FIELDS = {
    "preds": ("query", "Q0", "document", "rank", "score", "tag"),
    "target": ("query", "iteration", "document", "grade"),
}


def read_trec(path: str | Path, role: Role) -> Iterator[Triples]:
    """Yield (query, document, score) of a run, or (query, document, grade) of qrels, a block of lines at a time."""
    path = check_file(path)
    with reading(path, f"a TREC {'run' if role == 'preds' else 'qrels'} file"):
        for lines in read_lines(path):
            yield _triples(lines, role)


def _triples(lines: Lines, role: Role) -> Triples:
    counts, words = lines.words()
    fields = FIELDS[role]
    wrong = (counts != len(fields)) & (counts != 0)
    if wrong.any():
        index = int(wrong.argmax())
        problem = f"there are {counts[index]} fields, not {len(fields)}"
        raise DataFileError(lines.path, problem, lines.place(index), f"a line is: {' '.join(fields)}.")
    written = np.flatnonzero(counts)

    def place(index: int) -> str:
        return lines.place(int(written[index]))

    first = np.arange(0, len(words), len(fields))
    query, item, value = (words.take(pa.array(first + column)) for column in (0, 2, 4 if role == "preds" else 3))
    if role == "target":
        grades = parse_numbers(value, int, lines.path, "grade", place).clip(min=0)
        return Triples(query, item, grades.astype(np.float64), place)
    scores = parse_numbers(value, float, lines.path, "score", place)
    with np.errstate(over="ignore"):
        return Triples(query, item, scores.astype(np.float32), place)
