"""Training counts of the labels from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.errors import DataFileError, check_file, reading
from tailmetrics.io.rows import Array

HINT = "counts are whole numbers of at least 0, one per label in the order of the label ids."


def read_label_counts(
    path: str | Path,
    *,
    num_labels: int | None = None,
    label_names: Sequence[str] | None = None,
    label: str = "label",
    count: str = "count",
) -> Tensor:
    """Return how often each label occurs in training, shape (L,), int64.

    Args:
        path: ``.npy`` or ``.pt``, one whole number per label; ``.txt``, one per line; ``.csv`` or ``.tsv``, columns
            ``label`` and ``count`` in any order, labels that are left out having 0, or ``count`` alone.
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
    suffix = path.suffix.lower()
    if suffix in (".npy", ".pt", ".pth"):
        counts = _array(path, suffix)
    elif suffix == ".txt":
        counts = _text(path)
    elif suffix in (".csv", ".tsv"):
        counts = _csv(path, "," if suffix == ".csv" else "\t", (label, count), num_labels, label_names)
    else:
        raise DataFileError(path, "is of no format for label counts", hint="use .npy, .pt, .txt, .csv or .tsv.")
    if (counts < 0).any():
        index = int((counts < 0).argmax())
        raise DataFileError(path, f"holds the count {counts[index]}", f"label {index}", HINT)
    if num_labels is not None and len(counts) != num_labels:
        problem = f"holds the counts of {len(counts)} labels, but there are {num_labels}"
        raise DataFileError(path, problem, hint="counts and data must number the same labels.")
    return torch.from_numpy(counts.astype(np.int64))


def _array(path: Path, suffix: str) -> Array:
    with reading(path, f"a {suffix} array"):
        if suffix == ".npy":
            counts = np.load(path, allow_pickle=False)
        else:
            counts = torch.load(path, map_location="cpu", weights_only=True)
            counts = counts.numpy() if isinstance(counts, Tensor) else counts
    if not isinstance(counts, np.ndarray) or counts.ndim != 1 or counts.dtype.kind not in "iu":
        is_array = isinstance(counts, np.ndarray)
        held = f"{counts.dtype} {list(counts.shape)}" if is_array else type(counts).__name__
        raise DataFileError(path, f"holds {held}", hint=HINT)
    return counts


def _text(path: Path) -> Array:
    with reading(path, "text"):
        from tailmetrics.io.lines import parse_numbers, place_of_word, read_lines

        parts = []
        for lines in read_lines(path):
            per_line, words = lines.words()
            if (per_line > 1).any():
                index = int((per_line > 1).argmax())
                raise DataFileError(path, f"there are {per_line[index]} words", lines.place(index), HINT)
            parts.append(parse_numbers(words, int, path, "count", place_of_word(lines, per_line)))
    return np.concatenate(parts)


def _csv(
    path: Path, delimiter: str, names: tuple[str, str], num_labels: int | None, label_names: Sequence[str] | None
) -> Array:
    with reading(path, "CSV"):
        from tailmetrics.io.csv_file import CsvFile
        from tailmetrics.io.lines import parse_numbers
        from tailmetrics.io.names import Numbering

        file = CsvFile(path, delimiter)
        named = names[0] in file.header
        numbering = None if label_names is None else Numbering(label_names)
        labels: list[Array] = [np.empty(0, dtype=np.int64)]
        counts: list[Array] = [np.empty(0, dtype=np.int64)]
        for place, columns in file.blocks(names if named else names[1:]):
            counts.append(parse_numbers(columns[-1], int, path, names[1], place))
            if named and numbering is None:
                labels.append(parse_numbers(columns[0], int, path, names[0], place))
            elif named and numbering is not None:
                labels.append(numbering.encode(columns[0]))
                if (labels[-1] < 0).any():
                    index = int((labels[-1] < 0).argmax())
                    problem = f"unknown label {columns[0][index].as_py()!r}"
                    raise DataFileError(path, problem, place(index), "label_names holds the name of every label.")
    joined = np.concatenate(counts)
    return _by_label(path, np.concatenate(labels), joined, num_labels) if named else joined


def _by_label(path: Path, labels: Array, counts: Array, num_labels: int | None) -> Array:
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
