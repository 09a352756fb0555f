"""Files about labels: how often each occurs in training, and its parent in a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.columns import ALIASES, names_among, names_in_words
from tailmetrics.io.files import (
    EMPTY_HINT,
    DataFileError,
    FilePath,
    Plain,
    check_file,
    file_errors,
    suffix_of,
)
from tailmetrics.io.forms import Columns, Forms, Opening
from tailmetrics.io.rows import UNKNOWN_HINT, Array, Ints
from tailmetrics.io.text import LARGEST, TextTable, numbered_lines, parse_int64

COUNTS = ("count", "counts", "frequency", "freq", "n")
"""Known names of a column of counts."""
HINT = (
    "counts are whole numbers of at least 0, one per label in the order of the "
    "label ids."
)
EDGE_COLUMNS = ("child", "parent")
"""The columns of a file with a tree, which must have these names."""


# -- counts ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """A file of training counts.

    Attributes:
        path: The file.
        counts: Shape (n,), whole numbers.
        labels: The label of each count; None if counts are in the order of the label
            ids.
        first_line: The number of the line with the first count.
    """

    path: FilePath
    counts: Array
    labels: Sequence[str] | None = None
    first_line: int = 1

    def by_id(
        self, num_labels: int | None, label_names: Sequence[str] | None
    ) -> Tensor:
        """Return the counts in the order of the label ids, shape (L,), int64.

        A label that the file leaves out has the count 0.

        Raises:
            DataFileError: If the counts do not fit the labels.
        """
        if num_labels is None and label_names is not None:
            num_labels = len(label_names)
        counts = self.counts
        if self.labels is not None:
            ids = self._label_ids(self.labels, num_labels, label_names)
            counts = np.zeros(num_labels or ids.max(initial=-1) + 1, np.int64)
            counts[ids] = self.counts
        wrong = (counts < 0) | (counts > LARGEST)
        if wrong.any():
            label = int(wrong.argmax())
            raise DataFileError(
                self.path, f"holds the count {counts[label]}", f"label {label}", HINT
            )
        if num_labels is not None and len(counts) != num_labels:
            problem = (
                f"holds the counts of {len(counts)} labels, but there are {num_labels}"
            )
            raise DataFileError(
                self.path, problem, hint="counts and data must number the same labels."
            )
        return torch.from_numpy(counts.astype(np.int64))

    def _label_ids(
        self, labels: Sequence[str], num_labels: int | None, names: Sequence[str] | None
    ) -> Ints:
        """Return the label id of each count; without ``names``, labels are the ids."""
        places = {name: place for place, name in enumerate(names or ())}
        ids: dict[int, None] = {}
        for line, label in enumerate(labels, self.first_line):
            if names is None:
                label_id = parse_int64(self.path, "label", label, line)
                self._check_id(label_id, line, num_labels)
            elif label in places:
                label_id = places[label]
            else:
                raise DataFileError(
                    self.path, f"unknown label {label!r}", f"line {line}", UNKNOWN_HINT
                )
            if label_id in ids:
                raise DataFileError(
                    self.path,
                    f"counts the label {label} twice",
                    f"line {line}",
                    "add its counts up.",
                )
            ids[label_id] = None
        return np.array(list(ids), np.int64)

    def _check_id(self, label_id: int, line: int, num_labels: int | None) -> None:
        """Raise if a label id is out of range."""
        if label_id < 0 or (num_labels is not None and label_id >= num_labels):
            hint = "label ids start at 0."
            if num_labels is not None:
                hint += f" There are {num_labels} labels."
            raise DataFileError(
                self.path, f"counts the label {label_id}", f"line {line}", hint
            )


def read_label_counts(
    path: str | FilePath,
    *,
    num_labels: int | None = None,
    label_names: Sequence[str] | None = None,
    columns: Columns | None = None,
) -> Tensor:
    """Read how often each label occurs in training: a tensor of shape (L,), int64.

    Args:
        path: ``.npy`` or ``.pt`` with one whole number per label; ``.txt`` with one
            number per line; ``.csv`` or ``.tsv`` with the columns ``label`` and
            ``count`` (a missing label has the count 0), or with counts alone. Of two
            columns one needs a known name. The file can be compressed (``.gz``,
            ``.bz2``, ``.zst``).
        num_labels: Number of labels, if known.
        label_names: Names of the labels in the order of their ids, if a CSV or TSV file
            names its labels.
        columns: ``item`` and ``gain`` are the names of the columns of labels and of
            counts, if the file has them.

    Raises:
        DataFileError: If the file is missing, damaged, or its counts do not fit.
    """
    return counts_in(path, columns or Columns()).by_id(num_labels, label_names)


def counts_in(path: str | FilePath, columns: Columns) -> LabelCounts:
    """Return the counts of a file as they stand there.

    Raises:
        DataFileError: If the file is missing or damaged.
    """
    path = check_file(path)
    suffix = suffix_of(path)
    if suffix in ("npy", "pt", "pth"):
        counts = load_array(path)
        if counts.ndim != 1 or counts.dtype.kind not in "iu":
            raise DataFileError(
                path, f"holds {counts.dtype} {list(counts.shape)}", hint=HINT
            )
        return LabelCounts(path, counts)
    if suffix not in ("txt", "csv", "tsv"):
        raise DataFileError(
            path,
            "is of no format for label counts",
            hint="use .npy, .pt, .txt, .csv or .tsv.",
        )
    with file_errors(path, "text"):
        if suffix == "txt":
            numbers = [
                parse_int64(path, "count", text, line)
                for line, text in numbered_lines(path)
            ]
            return LabelCounts(path, np.array(numbers, np.int64))
        return _counts_in_columns(path, suffix, columns)


def load_array(path: FilePath, hint: str = HINT) -> Array:
    """Return the numpy array or the tensor of a file.

    ``hint`` is the hint of the error about other content.

    Raises:
        DataFileError: If the file is damaged, or holds something else.
    """
    suffix = suffix_of(path)
    plain = Plain(path)
    with file_errors(path, f"a .{suffix} array"):
        if suffix == "npy":
            array = np.load(plain.path, allow_pickle=False)
        else:
            array = torch.load(plain.path, "cpu", weights_only=True)
        if isinstance(array, Tensor):
            array = array.detach().numpy()
    if not isinstance(array, np.ndarray):
        raise DataFileError(path, f"holds {type(array).__name__}", hint=hint)
    return array


def _counts_in_columns(path: FilePath, form: str, columns: Columns) -> LabelCounts:
    """Return the counts of a CSV or TSV file."""
    forms = Forms(columns={"": Columns(item=columns.item, gain=columns.gain)})
    table = TextTable(Opening(path=path, role="train", form=form, forms=forms))
    label, count = _label_and_count(
        [column.name for column in table.columns], path, columns
    )
    first_line = 1 + table.has_names
    labels = []
    counts = []
    for line, (label_text, count_text) in enumerate(
        table.rows(label or count, count), first_line
    ):
        labels.append(label_text)
        counts.append(parse_int64(path, "count", count_text, line))
    if not counts:
        raise DataFileError(path, "holds no rows", hint=EMPTY_HINT)
    array = np.array(counts, np.int64)
    if label is None:
        return LabelCounts(path, array)
    return LabelCounts(path, array, labels, first_line)


def _label_and_count(
    names: Sequence[str], path: FilePath, columns: Columns
) -> tuple[str | None, str]:
    """Return the columns of the labels, None without one, and of the counts."""
    if len(names) == 1:
        return None, names[0]
    labels = _matching(names, columns.item, (*ALIASES["item"], "label", "id"))
    counts = _matching(names, columns.gain, COUNTS)
    if len(names) == 2:
        others = [name for name in names if name not in (*labels, *counts)]
        labels, counts = labels or others, counts or others
    if len(set(labels)) != 1 or len(set(counts)) != 1 or labels == counts:
        problem = (
            "no columns are the label and its count; its columns are "
            f"{names_in_words(names)}"
        )
        raise DataFileError(
            path,
            problem,
            hint=(
                "--columns.item NAME --columns.gain NAME, or call them label and count"
            ),
        )
    return labels[0], counts[0]


def _matching(
    names: Sequence[str], name: str | None, aliases: Sequence[str]
) -> list[str]:
    """Return the column that the user names, or else those with a known name."""
    if name in names:
        return [str(name)]
    return names_among(names, aliases)


# -- trees -----------------------------------------------------------------------------


def read_edges(path: str | FilePath) -> list[tuple[str, str]]:
    """Return the pairs of child and parent of a .csv or .tsv file.

    A child with an empty parent is a root.

    Raises:
        DataFileError: If the file is missing or damaged, or its first line does not
            name the columns.
    """
    file = check_file(path)
    form = "csv"
    if suffix_of(file) == "tsv":
        form = "tsv"
    with file_errors(file, "text"):
        table = TextTable(Opening(path=file, role="train", form=form))
    names = {column.name.lower(): column.name for column in table.columns}
    if sorted(names) != sorted(EDGE_COLUMNS):
        hint = (
            "write a line 'child,parent', and under it the name or id of each label "
            "and of its parent."
        )
        raise DataFileError(file, f"has the columns {names_in_words(names)}", hint=hint)
    with file_errors(file, "text"):
        return table.rows(names["child"], names["parent"])
