"""Several files of rows, one behind the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from tailmetrics.io.errors import DataFileError
from tailmetrics.io.keyed import Triples
from tailmetrics.io.names import Numbering
from tailmetrics.io.paths import FilePath
from tailmetrics.io.rows import Rows, rebatch
from tailmetrics.io.source import Source

HINT = "all parts must be written alike; a pattern such as 'folder/*.parquet' chooses some of them."


class Parts(Source):
    """Files of one layout, whose rows are counted through; parts without a row are left out.

    Args:
        path: How messages call all of them.
        sources: The files, in their order.
    """

    def __init__(self, path: FilePath, sources: Sequence[Source]) -> None:
        self.path = path
        self._sources = [source for source in sources if source.num_rows] or list(sources[:1])
        self._starts = [0, *accumulate(source.num_rows for source in self._sources)]
        self.num_rows = self._starts[-1]
        self.cells_per_row = max(source.cells_per_row for source in self._sources)
        ends = [[source.num_rows] if source.ends is None else source.ends for source in self._sources]
        self.ends = np.concatenate([np.asarray(own) + start for own, start in zip(ends, self._starts, strict=False)])
        self._agree()

    def read_as_names(self) -> None:
        """Take whole numbers for names in every part."""
        for source in self._sources:
            source.read_as_names()
        self._agree()

    def read_as_multi_hot(self, num_labels: int | None) -> None:
        """Take whole numbers of shape [N, L] for a matrix in every part."""
        for source in self._sources:
            source.read_as_multi_hot(num_labels)
        self._agree()

    def queries(self) -> Iterator[Any]:
        """Yield the queries of all parts."""
        for source in self._sources:
            yield from source.queries()

    def lines(self) -> Iterator[Triples]:
        """Yield the entries of all parts."""
        for source in self._sources:
            yield from source.lines()

    def number_by(self, numbering: Numbering) -> None:
        """Let every part number its strings alike."""
        for source in self._sources:
            source.number_by(numbering)

    def distinct_names(self) -> Iterator[list[str]]:
        """Yield the string ids of all parts."""
        for source in self._sources:
            yield from source.distinct_names()

    def batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield the rows across the borders of parts."""
        yield from rebatch(self._rows(start, stop, size), size)

    def _rows(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        for source, first in zip(self._sources, self._starts, strict=False):
            begin, end = max(start - first, 0), min(stop - first, source.num_rows)
            if begin >= end:
                continue
            read = 0
            for rows in source.batches(begin, end, size):
                yield rows
                read += len(rows)
            if read < end - begin:
                hint = "the file may be truncated or corrupt: write it again."
                problem = f"ends after {begin + read} rows, but declares {source.num_rows}"
                raise DataFileError(source.path, problem, hint=hint)

    def error(self, row: int, problem: str, hint: str = "") -> DataFileError:
        """Return the error that a row of one of the parts causes."""
        part = max(0, int(np.searchsorted(self._starts, row, side="right")) - 1)
        part = min(part, len(self._sources) - 1)
        return self._sources[part].error(row - self._starts[part], problem, hint)

    def label(self, label_id: int) -> str:
        """Return how an error names a label."""
        return self._sources[0].label(label_id)

    def _agree(self) -> None:
        """Take over what the parts say of themselves, which must be the same."""
        first = self._sources[0]
        for other in self._sources[1:]:
            here, there = _layout(first), _layout(other)
            if here != there:
                raise DataFileError(other.path, f"holds {there}, but {first.path} holds {here}", hint=HINT)
        self.dense, self.string_ids, self.num_labels = first.dense, first.string_ids, first.num_labels
        self.layout, self.key = first.layout, first.key


def _layout(source: Source) -> str:
    labels = "" if source.num_labels is None else f" of {source.num_labels} labels"
    keys = "" if source.key is None else f" of each {source.key!r}"
    return (source.layout or ("a matrix" if source.dense else "rows")) + labels + keys
