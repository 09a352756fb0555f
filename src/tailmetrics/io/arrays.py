"""Rows of arrays: integers are label ids, floats scores or gains, bool multi-hot targets.

An array may also be a sparse CSR tensor or a pair (scores, ids), as from ``torch.topk``. The files that hold arrays are
in :mod:`tailmetrics.io.array_files`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.compression import Plain
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.formats import Opening
from tailmetrics.io.names import UNKNOWN_HINT
from tailmetrics.io.paths import check_file
from tailmetrics.io.rows import Array, Ragged, Rows
from tailmetrics.io.source import Source

NAMED_ROWS = 2**16
PREDS_HINT = "preds are float scores [N, L], integer ids [N, K], or (.pt) a pair (scores, ids) or a CSR tensor."
TARGET_HINT = "targets are integer ids [N] or [N, M], bool or float [N, L], or (.pt) a CSR tensor."


class ArraySource(Source):
    """One array of rows, mapped anew for every batch so that pages read before do not count as memory in use."""

    form: str

    def __init__(self, asked: Opening) -> None:
        self.path = check_file(asked.path)
        self.role = asked.role
        self._plain = Plain(self.path)
        self._columns = asked.columns
        with reading(self.path, self.form):
            array = self._mapped()
        self._check(array)
        first: Any = array[0] if isinstance(array, tuple) else array
        self.num_rows = int(first.shape[0])
        self.width = int(first.shape[1]) if first.ndim > 1 else 1
        self.cells_per_row = first.values().numel() / max(self.num_rows, 1) if _is_csr(first) else self.width
        self.dense = not isinstance(array, tuple) and not _is_csr(first) and _kind(first) != "i"
        self.num_labels = self.width if self.dense or _is_csr(first) else None
        self._may_be_multi_hot = array is first and first.ndim == 2 and self.num_labels is None
        kinds = {"b": "flags", "i": "whole numbers", "f": "numbers"}
        self.layout = " and ".join(kinds[_kind(part)] for part in (array if isinstance(array, tuple) else (array,)))

    @abstractmethod
    def _mapped(self) -> Any:
        """Return the array, or a pair (scores, ids), without reading it."""

    def read_as_names(self) -> None:
        """Take label ids for names, to be numbered over all files."""
        if self.num_labels is not None:
            super().read_as_names()
        self.string_ids = True
        self._may_be_multi_hot = False

    def distinct_names(self) -> Iterator[list[str]]:
        """Yield the label ids as text."""
        numbering, self.numbering = self.numbering, None
        for rows in self.batches(0, self.num_rows, NAMED_ROWS):
            yield list(map(str, np.unique(rows.ids).tolist())) if isinstance(rows, Ragged) else []
        self.numbering = numbering

    def read_as_multi_hot(self, num_labels: int | None) -> None:
        """Take integers of shape [N, L] for multi-hot rows or gains, as ``metric.update`` does beside scores [N, L]."""
        if self._may_be_multi_hot and self.width == num_labels:
            self.dense, self.num_labels = True, num_labels

    def batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield the rows as copies: each batch has a mapping of its own, which ends with it."""
        for first in range(start, stop, size):
            with reading(self.path, self.form):
                array = self._mapped()
                yield self._numbered(self._rows(array, first, min(first + size, stop)), first)

    def _numbered(self, rows: Rows, first: int) -> Rows:
        if self.numbering is None or not isinstance(rows, Ragged):
            return rows
        ids = self.numbering.encode_whole(rows.ids)
        if ids.size and ids.min() < 0:
            entry = int(ids.argmin())
            problem = f"holds the unknown label {str(rows.ids[entry])!r}"
            raise self.error(first + rows.row_of(entry), problem, UNKNOWN_HINT)
        return Ragged(rows.offsets, ids, rows.values)

    def _rows(self, array: Any, start: int, stop: int) -> Rows:
        if isinstance(array, tuple):
            scores, ids = (_numpy(part[start:stop]) for part in array)
            return _candidates(scores, ids)
        if _is_csr(array):
            return _csr_rows(array, start, stop)
        part = _numpy(array[start:stop])
        if self.dense:
            return part
        part = part.reshape(len(part), -1)
        present = part != -1
        if self.role == "preds":
            self._check_padding(present, start)
        return Ragged.from_lengths(present.sum(axis=1), part[present])

    def _check_padding(self, present: Array, start: int) -> None:
        gap = (present[:, 1:] > present[:, :-1]).any(axis=1)
        if gap.any():
            hint = "-1 pads the end of a row of ranked ids, best first."
            raise self.error(start + int(gap.argmax()), "holds -1 before a label id", hint)

    def _check(self, array: Any) -> None:
        hint = TARGET_HINT if self.role == "target" else PREDS_HINT
        parts = array if isinstance(array, tuple) else (array,)
        if not all(isinstance(part, (Tensor, np.ndarray)) for part in parts):
            held = ", ".join(type(part).__name__ for part in parts)
            raise DataFileError(self.path, f"holds {held}, not an array", hint=hint)
        if not self._fits(parts):
            held = " and ".join(f"{part.dtype} {list(part.shape)}" for part in parts)
            raise DataFileError(self.path, f"holds {held}, which cannot be {self.role}", hint=hint)

    def _fits(self, parts: tuple[Any, ...]) -> bool:
        kinds = "".join(_kind(part) for part in parts)
        if self.role != "target" and len(parts) == 2:
            return kinds == "fi" and parts[0].ndim == 2 and parts[0].shape == parts[1].shape
        if len(parts) != 1:
            return False
        if _is_csr(parts[0]):
            return kinds in "bif"
        if kinds not in ("if" if self.role == "preds" else "bif"):
            return False
        if self.role == "preds":
            return bool(parts[0].ndim == 2)
        return parts[0].ndim == 2 or (kinds == "i" and parts[0].ndim == 1)


def _is_csr(array: Any) -> bool:
    return isinstance(array, Tensor) and array.layout == torch.sparse_csr


def _kind(array: Any) -> str:
    """Return b, i or f for bool, whole and real numbers, ? for anything else."""
    if isinstance(array, Tensor):
        if array.layout not in (torch.strided, torch.sparse_csr) or array.is_complex():
            return "?"
        return "b" if array.dtype == torch.bool else "f" if array.is_floating_point() else "i"
    return {"b": "b", "i": "i", "u": "i", "f": "f"}.get(array.dtype.kind, "?")


def _numpy(part: Any) -> Array:
    """Return a copy in memory, in the machine's byte order; numpy has no bfloat16, so that becomes float32."""
    if isinstance(part, Tensor):
        half = part.is_floating_point() and part.dtype not in (torch.float16, torch.float32, torch.float64)
        return np.array((part.float() if half else part).numpy())
    return np.array(part, dtype=part.dtype.newbyteorder("="))


def _candidates(scores: Array, ids: Array) -> Ragged:
    present = ids != -1
    return Ragged.from_lengths(present.sum(axis=1), ids[present], scores[present])


def _csr_rows(matrix: Tensor, start: int, stop: int) -> Ragged:
    offsets = _numpy(matrix.crow_indices()[start : stop + 1]).astype(np.int64)
    entries = slice(int(offsets[0]), int(offsets[-1]))
    return Ragged(offsets - offsets[0], _numpy(matrix.col_indices()[entries]), _numpy(matrix.values()[entries]))
