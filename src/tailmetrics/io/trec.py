"""TREC run and qrels files, with the conventions of NIST's trec_eval, and the ranked lists of MS MARCO.

The rank column of a run is not looked at: lines are ordered by score, which trec_eval holds in single precision. A
grade of 0 or less is not relevant. Fields are separated by blanks, what stands behind the tag of a run is not read, and
a line that begins with ``#`` is a comment; the file is read whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.formats import Opening
from tailmetrics.io.keyed import Triples
from tailmetrics.io.lines import Lines, parse_numbers, read_lines
from tailmetrics.io.paths import check_file
from tailmetrics.io.rows import starts
from tailmetrics.io.sniffing import Head, is_qrels, is_run

RUN = ("query", "Q0", "document", "rank", "score", "tag")
QRELS = ("query", "iteration", "document", "grade")
MSMARCO = ("query", "passage", "rank")


def read_trec(asked: Opening) -> Iterator[Triples]:
    """Yield (query, document, score) of a run, or (query, document, grade) of qrels, a block of lines at a time."""
    path = check_file(asked.path)
    run = is_run(Head(path)) if asked.role is None else asked.role == "preds"
    with reading(path, f"a TREC {'run' if run else 'qrels'} file"):
        for lines in read_lines(path):
            fields = _Fields(lines, RUN if run else QRELS, open_ended=run)
            yield fields.run() if run else fields.qrels()


def read_msmarco(asked: Opening) -> Iterator[Triples]:
    """Yield (query, passage, minus rank) of a ranked list; its targets are TREC qrels."""
    path = check_file(asked.path)
    if asked.role == "target" or (asked.role is None and is_qrels(Head(path))):
        yield from read_trec(asked)
        return
    with reading(path, "a ranked list of MS MARCO"):
        for lines in read_lines(path):
            yield _Fields(lines, MSMARCO).ranked()


class _Fields:
    """The fields of some lines, by column."""

    def __init__(self, lines: Lines, names: tuple[str, ...], open_ended: bool = False) -> None:
        counts, words = lines.words(comment="#")
        wrong = counts < len(names) if open_ended else counts != len(names)
        wrong &= counts != 0
        if wrong.any():
            index = int(wrong.argmax())
            problem = f"there are {counts[index]} fields, not {len(names)}"
            raise DataFileError(lines.path, problem, lines.place(index), f"a line is: {' '.join(names)}.")
        self._lines = lines
        self._words = words
        self._names = names
        self._written = np.flatnonzero(counts)
        self._first = starts(counts)[:-1][self._written]

    def _place(self, index: int) -> str:
        return self._lines.place(int(self._written[index]))

    def _column(self, name: str) -> Any:
        return self._words.take(pa.array(self._first + self._names.index(name)))

    def _numbers(self, name: str, kind: type[int] | type[float]) -> Any:
        return parse_numbers(self._column(name), kind, self._lines.path, name, self._place)

    def run(self) -> Triples:
        scores = self._numbers("score", float)
        with np.errstate(over="ignore"):
            return Triples(self._column("query"), self._column("document"), scores.astype(np.float32), self._place)

    def qrels(self) -> Triples:
        grades = self._numbers("grade", int).clip(min=0)
        return Triples(self._column("query"), self._column("document"), grades.astype(np.float64), self._place)

    def ranked(self) -> Triples:
        ranks = self._numbers("rank", int)
        if (ranks < 1).any():
            index = int((ranks < 1).argmax())
            hint = "ranks count from 1, the best."
            raise DataFileError(self._lines.path, f"holds the rank {ranks[index]}", self._place(index), hint)
        return Triples(self._column("query"), self._column("passage"), -ranks.astype(np.float64), self._place)
