"""Training counts of the labels from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.columns import Columns, is_usual, plain
from tailmetrics.io.database import Database
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.files import FilePath, Plain, check_file, suffix_of
from tailmetrics.io.formats import Opening
from tailmetrics.io.labels import Numbering
from tailmetrics.io.lines import KeyedFile
from tailmetrics.io.rows import Array
from tailmetrics.io.text import Table

FORMS_OF_TABLES = {"csv": "CSV", "tsv": "TSV"}
COUNT = "count"
LARGEST = 2**63 - 1
HINT = "counts are whole numbers of at least 0, one per label in the order of the label ids."


def read_label_counts(
    path: str | FilePath,
    *,
    num_labels: int | None = None,
    label_names: Sequence[str] | None = None,
    label: str = "label",
    count: str = COUNT,
) -> Tensor:
    """Return how often each label occurs in training, shape (L,), int64.

    Args:
        path: ``.npy`` or ``.pt``, one whole number per label; ``.txt``, one per line; ``.csv`` or ``.tsv``, columns
            ``label`` and ``count`` in any order, labels that are left out having 0, or ``count`` alone. Each can be
            compressed (``.gz``, ``.bz2``, ``.zst``).
        num_labels: Number of labels, where known.
        label_names: Names of the labels in the order of their ids, where a CSV file names them.
        label: Name of the column of labels.
        count: Name of the column of counts.

    Raises:
        DataFileError: If the file is missing, damaged, or its counts do not fit.
    """
    path = check_file(path)
    if num_labels is None and label_names is not None:
        num_labels = len(label_names)
    suffix = suffix_of(path)
    if suffix in ("npy", "pt", "pth"):
        counts = _array(path, suffix)
    elif suffix == "txt":
        counts = _text(path)
    elif suffix in FORMS_OF_TABLES:
        with reading(path, "CSV"):
            counts = _csv(path, (label, count), num_labels, label_names)
    else:
        raise DataFileError(path, "is of no format for label counts", hint="use .npy, .pt, .txt, .csv or .tsv.")
    if (counts < 0).any():
        index = int((counts < 0).argmax())
        raise DataFileError(path, f"holds the count {counts[index]}", f"label {index}", HINT)
    if num_labels is not None and len(counts) != num_labels:
        problem = f"holds the counts of {len(counts)} labels, but there are {num_labels}"
        raise DataFileError(path, problem, hint="counts and data must number the same labels.")
    return torch.from_numpy(counts.astype(np.int64))


def counted_names(path: str | FilePath, label: str = "label") -> set[str] | None:
    """Return the labels that a file of counts names; None where counts stand in the order of the label ids."""
    path = check_file(path)
    if suffix_of(path) not in FORMS_OF_TABLES:
        return None
    labels, _ = _columns(path, (label, COUNT))
    return None if labels is None else set(labels.to_pylist())


def _array(path: FilePath, suffix: str) -> Array:
    plain = Plain(path)
    with reading(path, f"a .{suffix} array"):
        if suffix == "npy":
            counts = np.load(plain.path, allow_pickle=False)
        else:
            counts = torch.load(plain.path, map_location="cpu", weights_only=True)
            counts = counts.numpy() if isinstance(counts, Tensor) else counts
    if not isinstance(counts, np.ndarray) or counts.ndim != 1 or counts.dtype.kind not in "iu":
        is_array = isinstance(counts, np.ndarray)
        held = f"{counts.dtype} {list(counts.shape)}" if is_array else type(counts).__name__
        raise DataFileError(path, f"holds {held}", hint=HINT)
    if counts.dtype == np.uint64 and counts.max(initial=0) > LARGEST:
        raise DataFileError(path, f"holds the count {counts.max()}", f"label {counts.argmax()}", HINT)
    return counts


def _text(path: FilePath) -> Array:
    from tailmetrics.io.xmc import parse_numbers, place_of_word, read_blocks

    with reading(path, "text"):
        parts = [np.empty(0, dtype=np.int64)]
        for lines in read_blocks(path):
            per_line, words = lines.words()
            if (per_line > 1).any():
                index = int((per_line > 1).argmax())
                raise DataFileError(path, f"there are {per_line[index]} words", lines.place(index), HINT)
            parts.append(parse_numbers(words, int, path, "count", place_of_word(lines, per_line)))
    return np.concatenate(parts)


def _label_column(table: Table, label: str, count: str) -> str | None:
    """Return the column of labels: as named, or a usual name; None where counts stand alone.

    Raises:
        DataFileError: If there are other columns, but none that is known to hold labels.
    """
    _check_column(table, count)
    others = [name for name in table.header if name != count]
    if label not in others and others:
        usual = [name for name in others if is_usual(name, "item") or plain(name) in ("label", "labelid", "name")]
        if len(usual) != 1:
            problem = f"there is no column {label!r} beside {count!r}, but {', '.join(map(repr, others))}"
            raise DataFileError(
                table.path, problem, table.where, "call the columns label and count, or leave count alone."
            )
        label = usual[0]
    if not others:
        return None
    _check_column(table, label)
    return label


def _check_column(table: Table, name: str) -> None:
    if table.header.count(name) != 1:
        problem = f"there {'are several columns' if name in table.header else 'is no column'} {name!r}"
        raise DataFileError(table.path, problem, table.where, "the columns are label and count.")


def _csv(path: FilePath, names: tuple[str, str], num_labels: int | None, label_names: Sequence[str] | None) -> Array:
    from tailmetrics.io.xmc import parse_numbers

    labels, counts = _columns(path, names)

    def place(index: int) -> str:
        return _table(path).place(index)

    numbers = parse_numbers(counts, int, path, names[1], place)
    if labels is None:
        return numbers
    if label_names is None:
        return _by_label(path, parse_numbers(labels, int, path, names[0], place), numbers, num_labels)
    ids = Numbering(label_names).encode(labels)
    if (ids < 0).any():
        index = int((ids < 0).argmax())
        hint = "label_names holds the name of every label."
        raise DataFileError(path, f"unknown label {labels[index].as_py()!r}", place(index), hint)
    return _by_label(path, ids, numbers, num_labels)


def _table(path: FilePath) -> Table:
    return Table.of(Opening(path, None, Columns()), FORMS_OF_TABLES[suffix_of(path)])


def _columns(path: FilePath, names: tuple[str, str]) -> tuple[Any, Any]:
    """Return the columns of labels and of counts, arrow string arrays; None for labels that are not named."""
    table = _table(path)
    label, count = _label_column(table, *names), names[1]
    fields = {"query": label or count, "item": count}
    with reading(path, "CSV"):
        database = Database()
        KeyedFile(path, [(path, lambda: table.lines(fields, None))]).load(database, "lines")
        labels, counts = (
            database.names(f"SELECT {name} FROM lines ORDER BY rowid").column for name in ("query", "item")
        )
    return None if label is None else labels.combine_chunks(), counts.combine_chunks()


def _by_label(path: FilePath, labels: Array, counts: Array, num_labels: int | None) -> Array:
    """Return counts in the order of the label ids, 0 for a label that is left out."""
    low, high = int(labels.min(initial=0)), int(labels.max(initial=-1))
    if low < 0 or (num_labels is not None and high >= num_labels):
        wrong, last = low if low < 0 else high, "" if num_labels is None else num_labels - 1
        raise DataFileError(path, f"counts the label {wrong}", hint=f"label ids run from 0 to {last}.")
    size = high + 1 if num_labels is None else num_labels
    repeated = np.flatnonzero(np.bincount(labels, minlength=size) > 1)
    if repeated.size:
        raise DataFileError(path, f"counts the label {repeated[0]} twice", hint="add its counts up.")
    ordered = np.zeros(size, dtype=np.int64)
    ordered[labels] = counts
    return ordered
