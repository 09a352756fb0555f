"""TREC run and qrels files, with the conventions of NIST's trec_eval, and the ranked lists of MS MARCO.

The rank column of a run is not looked at: lines are ordered by score, which trec_eval holds in single precision. A
grade of 0 or less is not relevant. Fields are separated by blanks, what stands behind the tag of a run is not read, and
a line that begins with ``#`` is a comment; the file is read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.even_lines import even_columns
from tailmetrics.io.formats import Opening
from tailmetrics.io.keyed import Triples
from tailmetrics.io.lines import Lines, parse_numbers, read_lines
from tailmetrics.io.paths import FilePath, check_file
from tailmetrics.io.rows import Array, starts
from tailmetrics.io.sniffing import EARLIEST, Head, is_qrels, is_run

COMMENT = "#"


class Layout(NamedTuple):
    """The fields of a line.

    Attributes:
        names: All of them; the first is the query.
        item: Which is the document.
        number: Which is its score, grade or rank.
        kind: What that is.
        open_ended: Whether more may stand behind them.
    """

    names: tuple[str, ...]
    item: str
    number: str
    kind: type[int] | type[float]
    open_ended: bool = False

    @property
    def types(self) -> dict[str, Any]:
        """The types of the fields that are read."""
        number = pa.int64() if self.kind is int else pa.float64()
        return {self.names[0]: pa.large_string(), self.item: pa.large_string(), self.number: number}


RUN = Layout(("query", "Q0", "document", "rank", "score", "tag"), "document", "score", float, open_ended=True)
QRELS = Layout(("query", "iteration", "document", "grade"), "document", "grade", int)
MSMARCO = Layout(("query", "passage", "rank"), "passage", "rank", int)


def read_trec(asked: Opening) -> Iterator[Triples]:
    """Yield (query, document, score) of a run, or (query, document, grade) of qrels, a block of lines at a time."""
    path = check_file(asked.path)
    run = is_run(Head(path)) if asked.role is None else asked.role == "preds"
    with reading(path, f"a TREC {'run' if run else 'qrels'} file"):
        for lines in read_lines(path):
            yield _run(_fields(lines, RUN)) if run else _qrels(_fields(lines, QRELS), path)


def read_msmarco(asked: Opening) -> Iterator[Triples]:
    """Yield (query, passage, minus rank) of a ranked list; its targets are TREC qrels."""
    path = check_file(asked.path)
    if asked.role == "target" or (asked.role is None and is_qrels(Head(path))):
        yield from read_trec(asked)
        return
    with reading(path, "a ranked list of MS MARCO"):
        for lines in read_lines(path):
            yield _ranked(_fields(lines, MSMARCO), lines.path)


class _Fields(NamedTuple):
    """What is read of some lines.

    Attributes:
        query: Arrow string array.
        item: Arrow string array.
        numbers: Scores, grades or ranks.
        place: From the index of a line to how an error names it.
    """

    query: Any
    item: Any
    numbers: Array
    place: Callable[[int], str]


def _fields(lines: Lines, layout: Layout) -> _Fields:
    """Return what is read of lines; those that are all alike are cut by Arrow's reader of CSV."""
    table = even_columns(lines, layout.names, layout.types, COMMENT)
    if table is None:
        return _words(lines, layout)
    query, item, numbers = (column.combine_chunks() for column in table.columns)
    return _Fields(query, item, np.asarray(numbers.to_numpy(zero_copy_only=False)), lines.place)


def _words(lines: Lines, layout: Layout) -> _Fields:
    """Return what is read of lines that blanks separate in any way."""
    names = layout.names
    counts, words = lines.words(comment=COMMENT)
    wrong = counts < len(names) if layout.open_ended else counts != len(names)
    wrong &= counts != 0
    if wrong.any():
        index = int(wrong.argmax())
        problem = f"there are {counts[index]} fields, not {len(names)}"
        raise DataFileError(lines.path, problem, lines.place(index), f"a line is: {' '.join(names)}.")
    written = np.flatnonzero(counts)
    first = starts(counts)[:-1][written]

    def place(index: int) -> str:
        return lines.place(int(written[index]))

    query, item, number = (words.take(pa.array(first + names.index(name))) for name in layout.types)
    return _Fields(query, item, parse_numbers(number, layout.kind, lines.path, layout.number, place), place)


def _run(fields: _Fields) -> Triples:
    with np.errstate(over="ignore"):
        return Triples(fields.query, fields.item, fields.numbers.astype(np.float32), fields.place)


def _qrels(fields: _Fields, path: FilePath) -> Triples:
    if (fields.numbers >= EARLIEST).any():
        index = int((fields.numbers >= EARLIEST).argmax())
        hint = "lines 'user item rating time' are no qrels: write a CSV file with the columns query, item and gain."
        raise DataFileError(path, f"holds the time {fields.numbers[index]} as a grade", fields.place(index), hint)
    return Triples(fields.query, fields.item, fields.numbers.clip(min=0).astype(np.float64), fields.place)


def _ranked(fields: _Fields, path: FilePath) -> Triples:
    ranks = fields.numbers
    if (ranks < 1).any():
        index = int((ranks < 1).argmax())
        raise DataFileError(
            path, f"holds the rank {ranks[index]}", fields.place(index), "ranks count from 1, the best."
        )
    return Triples(fields.query, fields.item, -ranks.astype(np.float64), fields.place)
