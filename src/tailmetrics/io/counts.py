"""Training counts of the labels from a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.columns import Columns, is_usual, plain
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.files import FilePath, Plain, check_file, suffix_of
from tailmetrics.io.formats import Opening
from tailmetrics.io.rows import Array
from tailmetrics.io.text import LARGEST, Table, numbered_lines, whole

FORMS_OF_TABLES = {"csv": "CSV", "tsv": "TSV"}
COUNT = "count"
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
            counts = _csv(path, label, count, num_labels, label_names)
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
    names = {name for _, name, _ in _columns(path, label, COUNT)}
    return None if names <= {None} else {str(name) for name in names}


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
    counts = []
    for number, text in numbered_lines(path):
        words = text.split()
        if len(words) > 1:
            raise DataFileError(path, f"there are {len(words)} words", f"line {number}", HINT)
        counts.append(whole(path, "count", text, number))
    return np.array(counts, dtype=np.int64)


def _label_column(table: Table, label: str, count: str) -> str | None:
    """Return the column of labels: as named, or a usual name; None where counts stand alone.

    Raises:
        DataFileError: If there are other columns, but none that is known to hold labels, or one is there twice.
    """
    others = [name for name in table.header if name != count]
    usual = [name for name in others if is_usual(name, "item") or plain(name) in ("label", "labelid", "name")]
    if label not in others and len(usual) == 1:
        label = usual[0]
    for name in (count, label) if others else (count,):
        if table.header.count(name) != 1:
            problem = f"there {'are several columns' if name in table.header else 'is no column'} {name!r}"
            hint = f"its columns are {', '.join(table.header)}; call them label and count, or leave count alone."
            raise DataFileError(table.path, problem, table.where, hint)
    return label if others else None


def _columns(path: FilePath, label: str, count: str) -> Iterator[tuple[int, str | None, str]]:
    """Yield the number, the label and the count of each line; the label is None where counts stand alone."""
    with reading(path, "CSV"):
        table = Table.of(Opening(path, None, Columns()), FORMS_OF_TABLES[suffix_of(path)])
        name = _label_column(table, label, count)
        at, counted = None if name is None else table.header.index(name), table.header.index(count)
        for number, text in numbered_lines(path):
            fields = table.fields(number, text)
            if fields is not None:
                yield number, None if at is None else fields[at], fields[counted]


def _csv(path: FilePath, label: str, count: str, num_labels: int | None, names: Sequence[str] | None) -> Array:
    ids = None if names is None else {name: place for place, name in enumerate(names)}
    labels, counts = [], []
    for number, name, text in _columns(path, label, count):
        counts.append(whole(path, count, text, number))
        if name is not None and ids is None:
            labels.append(whole(path, label, name, number))
        elif name is not None and ids is not None:
            if name not in ids:
                hint = "label_names holds the name of every label."
                raise DataFileError(path, f"unknown label {name!r}", f"line {number}", hint)
            labels.append(ids[name])
    return _by_label(path, np.array(labels), np.array(counts), num_labels) if labels else np.array(counts, np.int64)


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
