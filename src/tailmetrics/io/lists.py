"""Rows with a list of items, and perhaps of scores or gains, from typed tables."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailmetrics.io.columns import (
    TEXT_TABLES,
    Kind,
    TableReading,
    check_keys,
    check_value,
)
from tailmetrics.io.files import DataFileError, file_errors
from tailmetrics.io.lines import contradicting_row, contradiction
from tailmetrics.io.rows import FIRST_CELLS, Array, Ints, Ragged, Source, row_of, starts
from tailmetrics.io.tables import Table, columns_of, is_list

LINED_ROWS = 2**12
"""Rows whose entries become lines at a time: 4 million lines at 1,000 entries each."""
NUMBERS_HINT = (
    "--label-names NAMES says the name of each label of the other file, in its order; "
    "or write numbers for names, from 0: a column of label ids as an array, "
    "numpy.save('labels.npy', column)."
)
CHECKED_ROWS = 2**9
"""First rows whose scores are compared with their places and an unread order."""
FEWEST_RISES = 2
"""Upward steps of scores from which on lists may rise for a reason.

One list of three items has two such steps, and so have two lists of two.
"""
NEARLY_ALL = 0.9
"""Share of the lists that rise."""


class ListSource(Source):
    """A table with a list of label ids, and perhaps of scores or gains, in each row.

    Args:
        table: The table.
        reading: How it is read.
        is_empty: Whether all lists are empty, so that they are neither names nor
            numbers.
    """

    is_table = True

    def __init__(
        self, table: Table, reading: TableReading, is_empty: bool = False
    ) -> None:
        self.path = table.path
        self.reading = reading
        self._table = table
        self._columns = [reading.within or reading.item]
        if reading.value is not None and not reading.within:
            self._columns.append(reading.value)
        columns = columns_of(table.schema)
        kind = check_keys(table.path, reading, columns)
        # text says no type, nor do lists that are all empty
        self._may_be_numbers = (
            is_empty or reading.opening.form in TEXT_TABLES or kind is Kind.NULL
        )
        self.string_ids = kind in (Kind.STRING, Kind.NULL)
        check_value(table.path, reading, columns)
        self.has_single_precision = reading.has_single_precision(columns)
        self.num_rows = table.num_rows
        mean = table.entries(self._columns[0]) / max(self.num_rows, 1)
        self.cells_per_row = max(mean, table.cells_per_row)
        self.widest = "the longest row", int(mean)
        self.layout = "lists of whole numbers"
        if self.string_ids:
            self.layout = "lists of strings"
        if reading.value is not None:
            self.layout += f" with a {reading.value_role}"
        if (
            reading.opening.role == "preds"
            and reading.value is not None
            and not reading.is_named(reading.value_role)
        ):
            self._check_orders()

    def _check_orders(self) -> None:
        """Raise if the scores of the first rows rise, or contradict an unread order.

        Raises:
            DataFileError: Naming the columns that may be the score.
        """
        second_order = self.reading.second_order
        columns = list(self._columns)
        if second_order is not None and not self.reading.within:
            columns.append(second_order)
        number = min(
            self.num_rows,
            CHECKED_ROWS,
            max(1, int(FIRST_CELLS / max(1.0, self.cells_per_row))),
        )
        for first, batch in self._batches(columns, 0, number, number):
            _, lengths = self._flat(self.reading.item, batch, first)
            values = self._numbers(batch, lengths, first)
            assert values is not None
            rows = np.repeat(np.arange(len(lengths)), lengths)
            if self.reading.value_role == "score":
                self._check_rises(values, rows)
            if second_order is not None:
                numbers, second_lengths = self._flat(second_order, batch, first)
                if (second_lengths == lengths).all():
                    second = np.from_dlpack(pc.cast(numbers, pa.float64()))
                    row = contradicting_row(rows, values.astype(np.float64), second)
                    if row is not None:
                        raise contradiction(
                            self.path, self.reading, self.describe_row(first + row)
                        )

    def _check_rises(self, values: Array, rows: Ints) -> None:
        """Raise if nearly all lists of scores rise to their end, as distances do."""
        is_inside = np.diff(rows) == 0
        steps = np.diff(values.astype(np.float64))[is_inside]
        row_of_step = rows[1:][is_inside]
        rising = np.setdiff1d(row_of_step[steps > 0], row_of_step[steps < 0])
        uneven = np.unique(row_of_step[steps != 0])
        if (steps > 0).sum() >= FEWEST_RISES and len(rising) > NEARLY_ALL * len(uneven):
            problem = (
                f"{self.reading.value!r} rises from the first item of each list to "
                "the last, as distances do"
            )
            raise DataFileError(
                self.path, problem, hint=self.reading.rising_hint("distance")
            )

    def read_as_names(self) -> None:
        """Treat label ids as names, which are then numbered over all files."""
        self.string_ids = True

    def read_as_numbers(self) -> None:
        """Treat list entries as label ids, unless they are text of a typed format."""
        if self._may_be_numbers:
            self.string_ids = False
            self.layout = self.layout.replace("strings", "whole numbers")

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows, in one batch for each record batch that is decoded."""
        for first, batch in self._batches(self._columns, start, stop, size):
            ids, lengths = self._flat(self.reading.item, batch, first)
            numbers: Any
            if self.string_ids:
                numbers = self.label_ids(pc.cast(ids, pa.string()), lengths, first)
            elif self._may_be_numbers:
                numbers = np.from_dlpack(self._whole(ids))
            else:
                # to_numpy would import pandas, which takes .2 s
                numbers = np.from_dlpack(ids)
            yield Ragged.from_lengths(
                lengths, numbers, self._numbers(batch, lengths, first)
            )

    def _whole(self, words: Any) -> Any:
        try:
            return pc.cast(words, pa.int64())
        except pa.ArrowInvalid as error:
            problem = "holds names of labels, but the other file has numbers"
            raise DataFileError(self.path, problem, hint=NUMBERS_HINT) from error

    def _batches(
        self, columns: Sequence[str], start: int, stop: int, size: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of the first row and a record batch with these columns."""
        with file_errors(self.path, self._table.form):
            yield from self._table.batches(
                list(dict.fromkeys(columns)), start, stop, size
            )

    def key_blocks(self) -> Iterator[Any]:
        """Yield the queries as Arrow string arrays.

        Raises:
            DataFileError: If a row has no query.
        """
        if self.reading.query:
            for first, batch in self._batches(
                self.reading.query, 0, self.num_rows, 2**16
            ):
                yield self._keys(batch, first)

    def _keys(self, batch: Any, first: int) -> Any:
        columns = [batch.column(name) for name in self.reading.query]
        for column in columns:
            if (row := _first_null(column)) is not None:
                problem = f"has no value in column {self.reading.key!r}"
                raise self.error(first + row, problem, "every row needs a query.")
        return _joined([pc.cast(column, pa.string()) for column in columns])

    def entries(self) -> Iterator[Any]:
        """Yield the entries of all rows; an empty list yields one without an item.

        Raises:
            DataFileError: If a query has a second list.
        """
        seen: set[str] = set()
        columns = [*self.reading.query, *self._columns]
        for first, batch in self._batches(columns, 0, self.num_rows, LINED_ROWS):
            keys = self._keys(batch, first)
            for row, key in enumerate(keys.to_pylist()):
                if key in seen:
                    hint = "each query stands once in a table of lists."
                    raise self.error(first + row, f"has a second list of {key!r}", hint)
                seen.add(key)
            yield self._lines(batch, keys, first)

    def _lines(self, batch: Any, keys: Any, first: int) -> Any:
        """Return a line for each entry; an empty list has one line without an item."""
        ids, lengths = self._flat(self.reading.item, batch, first)
        values = self._numbers(batch, lengths, first)
        if values is not None:
            values = values.astype(
                np.float32 if self.has_single_precision else np.float64, copy=False
            )
        items = pc.cast(ids, pa.string())
        rows = np.repeat(np.arange(len(lengths)), np.maximum(lengths, 1))
        if not lengths.all():
            entry = np.full(len(rows), -1)
            entry[np.repeat(lengths > 0, np.maximum(lengths, 1))] = np.arange(len(ids))
            items = items.take(pa.array(entry, mask=entry < 0))
            if values is not None:
                values = np.append(values, values.dtype.type(0))[entry]
        columns = {"query": keys.take(arrow_numbers(rows)), "item": items}
        if values is not None:
            columns["value"] = arrow_numbers(values)
        return pa.table(columns)

    def first_rows(self) -> list[str]:
        """Return the first two rows in words, as they stand in the columns read."""
        texts = []
        for first, batch in self._batches(self._columns, 0, min(2, self.num_rows), 2):
            for row, cells in enumerate(batch.to_pylist(), first):
                texts.append(f"row {row}: {reprlib.repr(cells)}")
        return texts

    def distinct_names(self) -> Iterator[Any]:
        """Yield the distinct names of each record batch.

        This decodes the whole column.
        """
        if self.string_ids:
            for first, batch in self._batches(
                self._columns[:1], 0, self.num_rows, 2**16
            ):
                yield pc.unique(
                    pc.cast(self._flat(self.reading.item, batch, first)[0], pa.string())
                )

    def _numbers(self, batch: Any, lengths: Array, first: int) -> Array | None:
        """Return the scores or gains of all entries; None for a table without values.

        Ranks and distances are negated.
        """
        if self.reading.value is None:
            return None
        values, value_lengths = self._flat(self.reading.value, batch, first)
        if pa.types.is_boolean(values.type):
            values = pc.cast(values, pa.int8())
        if pa.types.is_decimal(values.type) or pa.types.is_null(values.type):
            values = pc.cast(values, pa.float64())
        if (value_lengths != lengths).any():
            row = int((value_lengths != lengths).argmax())
            problem = (
                f"holds {lengths[row]} {self.reading.item} but {value_lengths[row]} "
                f"{self.reading.value}"
            )
            raise self.error(
                first + row, problem, "both lists of a row must have the same length."
            )
        numbers = np.from_dlpack(values)
        if not self.reading.least_first:
            return numbers
        ranks = numbers.astype(np.float64)
        if self.reading.value_role == "rank":
            self.check_ranks(ranks, lengths, first)
        return -ranks

    def _flat(self, name: str, batch: Any, first: int) -> tuple[Any, Array]:
        """Return the entries of all lists of a column, and the lengths of the lists.

        Objects in lists give their field ``name``. The length of a null is 0.
        """
        lists = batch.column(self.reading.within or name)
        if not is_list(lists.type):
            lists = pa.ListArray.from_arrays(
                np.arange(len(lists) + 1, dtype=np.int32), lists
            )
        flat = pc.list_flatten(lists)
        lengths = pc.list_value_length(lists)
        # tested first: fill_null takes as long as reading the lists
        if lists.null_count:
            lengths = pc.fill_null(lengths, 0)
        lengths = np.from_dlpack(lengths).astype(np.int64)
        if self.reading.within:
            flat = pc.struct_field(flat, name)
        if (entry := _first_null(flat)) is not None:
            row = first + row_of(entry, starts(lengths))
            raise self.error(
                row, "holds a null inside a list", "leave the entry out of both lists."
            )
        return flat, lengths


def arrow_numbers(numbers: Array) -> Any:
    """Return a numpy array as an Arrow array.

    ``pa.array`` would import pandas, which takes 0.4 s.
    """
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(
        kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    )


def _first_null(array: Any) -> int | None:
    """Return the place of the first null; None without one."""
    if not array.null_count:
        return None
    return int(pc.index(pc.is_null(array), True).as_py())


def _joined(parts: Sequence[Any]) -> Any:
    """Return the names of queries of one or several columns as one array.

    The spelling is that of :func:`tailmetrics.io.database.joined_text`.
    """
    if len(parts) == 1:
        return parts[0]
    escaped = []
    for part in parts:
        escaped.append(
            pc.replace_substring(pc.replace_substring(part, "\\", "\\\\"), ",", "\\,")
        )
    return pc.binary_join_element_wise(*escaped, ",")
