"""Arrays of rows: ``.npy``, ``.pt`` and the CSR matrices of scipy in ``.npz``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.columns import TableReading
from tailmetrics.io.files import DataFileError, Plain, file_errors
from tailmetrics.io.forms import Opening
from tailmetrics.io.rows import Array, Ragged, Rows, Source, csr_of

NUMPY = b"\x93NUMPY"
NAMED_ROWS = 2**16
HINTS = {
    "preds": (
        "predictions are float scores [N, L], integer ids [N, K], or (.pt) a pair "
        "(scores, ids) or a CSR tensor, of at most 64 bits"
    ),
    "target": (
        "targets are integer ids [N] or [N, M], bool or float [N, L], or (.pt) a CSR "
        "tensor, of at most 64 bits"
    ),
}


class ArraySource(Source):
    """One array of rows in a file that is mapped into memory.

    Each batch maps the file anew, so pages of earlier batches do not stay in memory.
    """

    def __init__(self, opening: Opening) -> None:
        self.path = opening.path
        self.role = "preds" if opening.role == "preds" else "target"
        self._plain = Plain(self.path)
        parts = self._mapped()
        self._check(parts)
        first = parts[0]
        self._shape = tuple(first.shape)
        self._axes = max(1, first.ndim - 1)
        self.sequences = self._shape[: self._axes]
        self.num_rows = prod(self.sequences)
        self.one_label = first.ndim == 1
        self.width = 1
        whole_numbers = "one whole number"
        if not self.one_label:
            self.width = int(self._shape[-1])
            whole_numbers = "whole numbers"
        self.cells_per_row = self.width

        if _is_csr(first):
            self.num_labels = self.width
            self.cells_per_row = first.values().numel() / max(self.num_rows, 1)
        elif len(parts) == 1 and _kind(first) != "i":
            self.dense = True
            self.num_labels = self.width
        self._may_be_multi_hot = (
            len(parts) == 1 and self.num_labels is None and not self.one_label
        )
        kinds = {"b": "flags", "i": whole_numbers, "f": "numbers"}
        self.layout = " and ".join(kinds[_kind(part)] for part in parts)
        content = f"{self.layout} in each row"
        if self.dense:
            content += f", one for each of {self.width:,} labels"
        self.reading = TableReading(opening=opening, content=content)

    @abstractmethod
    def _mapped(self) -> tuple[Any, ...]:
        """Return the array alone, or scores and ids, without reading them."""

    def _arrays(self) -> list[Any]:
        """Return the arrays with the rows as the first axis; nothing is copied."""
        arrays = []
        for array in self._mapped():
            if self._axes > 1:
                array = array.reshape(-1, *array.shape[self._axes :])
            arrays.append(array)
        return arrays

    def read_as_names(self) -> None:
        """Treat label ids as names, which are then numbered over all files.

        Raises:
            DataFileError: If label ids are the columns of a matrix.
        """
        if self.num_labels is not None:
            super().read_as_names()
        self.string_ids = True
        self.one_label = self._may_be_multi_hot = False

    def distinct_names(self) -> Iterator[Any]:
        """Yield the label ids as text."""
        import pyarrow as pa

        for first in range(0, self.num_rows, NAMED_ROWS):
            rows = self._rows(first, first + NAMED_ROWS)
            assert isinstance(rows, Ragged)
            yield pa.array(map(str, np.unique(rows.ids).tolist()), pa.string())

    def read_beside(self, num_labels: int | None, sequences: tuple[int, ...]) -> None:
        """Read whole numbers as dense rows or as single labels where shapes say so.

        Whole numbers [N, L] become multi-hot rows or gains if L is ``num_labels``. If
        ``sequences``, the (B, T) of the predictions beside these targets, matches the
        shape, each number is the label of one place. With (-1,), each number of an
        array of any shape is one label.
        """
        one_label = sequences == (-1,) or (
            len(sequences) > 1 and self._shape[1:] == sequences[1:]
        )
        if one_label and self.num_labels is None:
            self._axes, self.num_rows, self.width = (
                len(self._shape),
                prod(self._shape),
                1,
            )
            self.one_label, self._may_be_multi_hot = not self.string_ids, False
        if self._may_be_multi_hot and self.width == num_labels:
            self.dense, self.num_labels = True, num_labels

    def is_ambiguous(self, num_labels: int | None) -> bool:
        """Whether whole numbers may be multi-hot rows or ids.

        They may be either if each is at least 0 and below the number of columns.
        """
        if (
            self.dense
            or not self._may_be_multi_hot
            or self.width < 2
            or num_labels not in (None, self.width)
        ):
            return False
        (array,) = self._arrays()
        for first in range(0, self.num_rows, NAMED_ROWS):
            block = _numpy(array[first : first + NAMED_ROWS])
            if block.min() < 0 or block.max() >= self.width:
                return False
        return True

    def batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield batches of copied rows; the file is mapped anew for each batch."""
        for first in range(start, stop, size):
            with file_errors(self.path, self.reading.opening.form):
                yield self._numbered(self._rows(first, min(first + size, stop)), first)

    def _numbered(self, rows: Rows, first: int) -> Rows:
        if self.numbering is None or not isinstance(rows, Ragged):
            return rows
        import pyarrow as pa

        names = pa.array(map(str, rows.ids.tolist()), pa.string())
        return Ragged(
            rows.offsets, self.label_ids(names, rows.lengths, first), rows.values
        )

    def _rows(self, start: int, stop: int) -> Rows:
        arrays = self._arrays()
        array = arrays[0]
        if len(arrays) == 2:
            scores, ids = (_numpy(part[start:stop]) for part in arrays)
            present = ids != -1
            return Ragged.from_lengths(
                present.sum(axis=1), ids[present], scores[present]
            )
        if _is_csr(array):
            offsets = _numpy(array.crow_indices()[start : stop + 1]).astype(np.int64)
            entries = slice(int(offsets[0]), int(offsets[-1]))
            ids, values = (
                _numpy(array.col_indices()[entries]),
                _numpy(array.values()[entries]),
            )
            return Ragged(offsets - offsets[0], ids, values)
        part = _numpy(array[start:stop])
        if self.dense:
            return part
        if self.one_label:  # -1, and the ignore_index of metrics, stay as they are
            return Ragged.from_lengths(np.ones(len(part), np.int64), part)
        part = part.reshape(len(part), -1)
        present = part != -1
        gap = (present[:, 1:] > present[:, :-1]).any(axis=1)
        if self.role == "preds" and gap.any():
            hint = "-1 pads the end of a row of ranked ids, best first."
            raise self.error(
                start + int(gap.argmax()), "holds -1 before a label id", hint
            )
        return Ragged.from_lengths(present.sum(axis=1), part[present])

    def _check(self, parts: tuple[Any, ...]) -> None:
        """Raise if the parts are no arrays, or cannot be predictions or targets."""
        hint = HINTS[self.role]
        if not all(isinstance(part, (Tensor, np.ndarray)) for part in parts):
            types = ", ".join(type(part).__name__ for part in parts)
            if "dict" in types:
                hint += "; save each tensor in a file of its own"
            raise DataFileError(
                self.path, f"holds {types}, not an array", hint=f"{hint}."
            )
        if self._fits(parts):
            return
        content = " and ".join(map(_content, parts))
        if any(
            isinstance(part, Tensor) and part.layout is torch.sparse_coo
            for part in parts
        ):
            hint = "a sparse tensor becomes CSR by tensor.to_sparse_csr()"
        elif parts[0].ndim == 1:
            hint += "; scores of lines of LETOR are text: numpy.savetxt"
        elif self.role == "preds" and _kind(parts[0]) == "b":
            hint += "; decisions are floats 0 and 1"
        words = "predictions" if self.role == "preds" else "targets"
        raise DataFileError(
            self.path, f"holds {content}, which cannot be {words}", hint=f"{hint}."
        )

    def _fits(self, parts: tuple[Any, ...]) -> bool:
        """Whether arrays of these types and shapes are predictions or targets."""
        first = parts[0]
        kinds = "".join(map(_kind, parts))
        if len(parts) > 1:
            return (
                self.role == "preds"
                and kinds == "fi"
                and first.ndim > 1
                and first.shape == parts[1].shape
            )
        if _is_csr(first):
            return kinds in "bif"
        if self.role == "preds":
            return kinds in "if" and first.ndim > 1
        return kinds in "bif" and (first.ndim > 1 or (kinds == "i" and first.ndim == 1))


def _content(array: Any) -> str:
    """Return the type and the shape of an array in words."""
    content = f"{array.dtype} {list(array.shape)}"
    if isinstance(array, Tensor) and array.layout is not torch.strided:
        return f"{content} in the layout {array.layout}"
    return content


def _is_csr(array: Any) -> bool:
    return isinstance(array, Tensor) and array.layout == torch.sparse_csr


def _kind(array: Any) -> str:
    """Return ``b`` for bools, ``i`` for whole numbers, ``f`` for reals, else ``?``."""
    if not isinstance(array, Tensor):
        if array.dtype.itemsize > 8:  # torch has no numbers of more than 64 bits
            return "?"
        return {"b": "b", "i": "i", "u": "i", "f": "f"}.get(array.dtype.kind, "?")
    if array.layout not in (torch.strided, torch.sparse_csr) or array.is_complex():
        return "?"
    if array.dtype == torch.bool:
        return "b"
    if array.is_floating_point():
        return "f"
    return "i"


def _numpy(part: Any) -> Array:
    """Return a copy in memory, in the machine's byte order.

    bfloat16, which numpy lacks, becomes float32.
    """
    if isinstance(part, Tensor):
        if part.is_floating_point() and part.dtype not in (
            torch.float16,
            torch.float32,
            torch.float64,
        ):
            part = part.float()
        return np.array(part.detach().numpy())
    return np.array(part, dtype=part.dtype.newbyteorder("="))


class NumpySource(ArraySource):
    """A numpy array in a ``.npy`` file."""

    def _mapped(self) -> tuple[Any, ...]:
        with self._plain.path.open("rb") as file:
            if file.read(len(NUMPY)) != NUMPY:  # numpy would ask to load it as a pickle
                raise ValueError("it does not begin as arrays of numpy do")
        try:
            return (
                np.asarray(
                    np.load(self._plain.path, mmap_mode="r", allow_pickle=False)
                ),
            )
        except ValueError as error:
            if "Object arrays" not in str(
                error
            ) and "Array can't be memory-mapped" not in str(error):
                raise
            hint = (
                "write lists as Parquet: pandas.DataFrame({'labels': "
                "list(array)}).to_parquet('labels.parquet')."
            )
            raise DataFileError(
                self.path, "holds an array of Python objects", hint=hint
            ) from error


class TorchSource(ArraySource):
    """A tensor or a pair in a ``.pt`` file, read with ``weights_only=True``."""

    def _mapped(self) -> tuple[Any, ...]:
        # a named tuple of tensors
        with torch.serialization.safe_globals([torch.return_types.topk]):
            try:
                content = torch.load(
                    self._plain.path, map_location="cpu", weights_only=True, mmap=True
                )
            except RuntimeError:  # written in the old format, which cannot be mapped
                content = torch.load(
                    self._plain.path, map_location="cpu", weights_only=True
                )
        if not isinstance(content, (list, tuple)):
            return (content,)
        if len(content) != 2:  # a pair is scores and ids
            hint = "join the batches of a list: torch.save(torch.cat(batches), path)."
            raise DataFileError(
                self.path,
                f"holds a sequence of {len(content)}, not a tensor",
                hint=hint,
            )
        return tuple(content)


class NpzSource(ArraySource):
    """A CSR matrix [N, L] of scipy.

    Each stored entry, also a stored zero, is a scored candidate or a gain.
    """

    _matrix: Tensor | None = None

    def _mapped(self) -> tuple[Any, ...]:
        from scipy.sparse import load_npz

        if self._matrix is None:
            # numpy does not close a file that is not an archive
            with self._plain.path.open("rb") as file:
                arrays = np.load(file, allow_pickle=False).files
                if "format" not in arrays:
                    problem = (
                        f"holds the arrays {', '.join(arrays)}, and no matrix of scipy"
                    )
                    raise DataFileError(
                        self.path,
                        problem,
                        hint="numpy.save writes one, such as the ids, best first.",
                    )
                file.seek(0)
                matrix = load_npz(file)
            hint = "write it with scipy.sparse.save_npz(path, matrix.tocsr())."
            if matrix.format != "csr":
                raise DataFileError(
                    self.path, f"is in the format {matrix.format}, not csr", hint=hint
                )
            if (np.diff(matrix.indptr) < 0).any():
                raise DataFileError(
                    self.path,
                    f"indptr does not describe {matrix.shape[0]} rows",
                    hint=hint,
                )
            offsets, ids, values = map(
                torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data)
            )
            self._matrix = csr_of(offsets, ids, values, matrix.shape)
        return (self._matrix,)
