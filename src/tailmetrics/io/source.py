"""What a row-by-row reader offers, and how the rows of files are shared out over the ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tailmetrics.io.errors import DataFileError
from tailmetrics.io.names import Numbering
from tailmetrics.io.paths import FilePath
from tailmetrics.io.rows import Ints, Rows

if TYPE_CHECKING:
    from tailmetrics.io.keyed import Triples

KEY_HINT = "a column query says which row is which, columns=Columns(query=NAME) that it has another name."


class Source(ABC):
    """One file of rows, opened; no row has been read yet unless the class says so.

    Attributes:
        path: The file.
        num_rows: Rows in the whole file.
        num_labels: Number of labels the file declares; None when it does not say.
        cells_per_row: About how many numbers a row holds; large rows are read in smaller batches.
        dense: Whether rows are a matrix with a column for every label.
        string_ids: Whether label ids are strings, to be numbered by ``numbering`` before rows are read.
        numbering: Label ids of strings.
        layout: How a row is laid out, in words; parts of one data set have the same.
        ends: Row numbers at which a file is best cut (ends of row groups), ascending; None when anywhere is as good.
        key: Name of the column that says which query a row is; None where a row is known by its number alone.
    """

    path: FilePath
    num_rows: int
    num_labels: int | None = None
    cells_per_row: float = 1.0
    dense: bool = False
    string_ids: bool = False
    numbering: Numbering | None = None
    layout: str = ""
    ends: Ints | None = None
    key: str | None = None

    @abstractmethod
    def batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield the rows from ``start`` up to ``stop`` in order, ``size`` at a time, the last batch possibly shorter.

        Called once per pass over the data; a source can be read any number of times.
        """

    def distinct_names(self) -> Iterator[list[str]]:
        """Yield the string ids; a name may come more than once."""
        return iter(())

    def queries(self) -> Iterator[Any]:
        """Yield the queries of the rows, arrow string arrays; nothing without a column of them."""
        return iter(())

    def lines(self) -> Iterator[Triples]:
        """Yield the entries of all rows, each with the query of its row.

        Raises:
            DataFileError: If there is no column of queries.
        """
        raise DataFileError(self.path, "does not name the query of its rows", hint=KEY_HINT)

    def read_as_names(self) -> None:
        """Take whole numbers for names, to be numbered over all files; a file of columns cannot.

        Raises:
            DataFileError: If label ids are places in this file.
        """
        hint = "leave string_ids out: here a label id is the number of a column."
        raise DataFileError(self.path, "numbers its labels itself, so that they cannot be names", hint=hint)

    def number_by(self, numbering: Numbering) -> None:
        """Let label ids that are strings be numbered."""
        self.numbering = numbering

    def read_as_multi_hot(self, num_labels: int | None) -> None:
        """Take whole numbers of shape [N, L] for a matrix; only files that can hold either have anything to decide."""
        return

    def place(self, row: int) -> str:
        """Return how an error names a row of this file."""
        return f"row {row}"

    def label(self, label_id: int) -> str:
        """Return how an error names a label."""
        return str(label_id)

    def error(self, row: int, problem: str, hint: str = "") -> DataFileError:
        """Return the error that a row of this file causes."""
        return DataFileError(self.path, problem, self.place(row), hint)


def share(rank: int, world_size: int, num_rows: int, *sources: Source) -> tuple[int, int]:
    """Return the first row of a rank and the one after its last.

    Shares are contiguous and cover every row once. They are cut where row groups end in all files, else where they
    end in one, else anywhere, taking the first way under which every share is less than twice the average one.
    """
    ideal = np.arange(world_size + 1, dtype=np.int64) * num_rows // world_size
    for candidates in _candidates(num_rows, sources):
        cuts = _nearest(candidates, ideal)
        if int(np.diff(cuts).max()) * world_size < 2 * num_rows:
            return int(cuts[rank]), int(cuts[rank + 1])
    return int(ideal[rank]), int(ideal[rank + 1])


def _candidates(num_rows: int, sources: tuple[Source, ...]) -> Iterator[Ints]:
    bounds = np.array([0, num_rows], dtype=np.int64)
    groups = [np.union1d(bounds, source.ends) for source in sources if source.ends is not None]
    if len(groups) > 1:
        common = groups[0]
        for group in groups[1:]:
            common = np.intersect1d(common, group)
        yield common
    yield from groups


def _nearest(candidates: Ints, ideal: Ints) -> Any:
    above = np.searchsorted(candidates, ideal).clip(max=len(candidates) - 1)
    below = (above - 1).clip(min=0)
    nearer_below = ideal - candidates[below] <= candidates[above] - ideal
    return np.where(nearer_below, candidates[below], candidates[above])
