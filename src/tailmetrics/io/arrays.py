"""Files of arrays, mapped: ``.npy``, ``.pt``, safetensors, and scipy's CSR in ``.npz``.

Integers are label ids, floats scores or gains, bool multi-hot targets. An array may also be a sparse CSR tensor or a
pair (scores, ids), as from ``torch.topk``. scipy's archive is read as a stream: the row boundaries (``indptr``, 8 bytes
a row) whole, columns and values batch by batch.
"""

from __future__ import annotations

import zipfile
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.files import FilePath, Plain, check_file
from tailmetrics.io.formats import Opening
from tailmetrics.io.labels import UNKNOWN_HINT
from tailmetrics.io.rows import Array, Ints, Ragged, Rows, Source

NUMPY = b"\x93NUMPY"
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


class NumpySource(ArraySource):
    """An array of numpy."""

    form = ".npy array"

    def _mapped(self) -> Any:
        with self._plain.path.open("rb") as file:
            if file.read(len(NUMPY)) != NUMPY:  # numpy would ask to load it as a pickle
                raise ValueError("it does not begin as arrays of numpy do")
        return np.asarray(np.load(self._plain.path, mmap_mode="r", allow_pickle=False))


class TorchSource(ArraySource):
    """A tensor or a pair of tensors, read with ``weights_only=True``."""

    form = ".pt array"

    def _mapped(self) -> Any:
        with torch.serialization.safe_globals([torch.return_types.topk]):  # a named tuple of tensors
            try:
                content = torch.load(self._plain.path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError:  # written in the old format, which cannot be mapped
                content = torch.load(self._plain.path, map_location="cpu", weights_only=True)
        return tuple(content) if isinstance(content, Sequence) else content


class SafetensorsSource(ArraySource):
    """Tensors by the names of columns: ``scores`` and ``ids``, or one; ``labels`` or ``gains``; else the only one."""

    form = "safetensors"

    def _mapped(self) -> Any:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(self._plain.path), framework="pt") as file:
                found = tuple(file.get_tensor(name) for name in self._names(list(file.keys())))
        except SafetensorError as error:
            raise ValueError(str(error)) from error
        return found if len(found) == 2 else found[0]

    def _names(self, held: Sequence[str]) -> list[str]:
        """Return the tensors to be read."""
        fields = ("labels", "gains") if self.role == "target" else ("scores", "ids")
        wanted = {field: getattr(self._columns, field) for field in fields}
        names = [name for name in wanted.values() if name in held]
        lacking = [name for field, name in wanted.items() if name not in held and self._columns.is_given(field)]
        if lacking or (not names and len(held) != 1):
            problem = (
                f"holds {', '.join(map(repr, held)) or 'no tensors'}, not {' and '.join(lacking or wanted.values())}"
            )
            hint = f"columns=Columns({fields[0]}=NAME, {fields[1]}=NAME) chooses its tensors."
            raise DataFileError(self.path, problem, hint=hint)
        if len(names) == 2 and self.role == "target":
            hint = "write a matrix [N, L] of gains alone."
            raise DataFileError(self.path, f"holds both {names[0]!r} and {names[1]!r}", hint=hint)
        return names or list(held)


def open_npy(asked: Opening) -> ArraySource:
    """Open an array of numpy."""
    return NumpySource(asked)


def open_pt(asked: Opening) -> ArraySource:
    """Open a file of torch."""
    return TorchSource(asked)


def open_safetensors(asked: Opening) -> ArraySource:
    """Open a file of tensors."""
    return SafetensorsSource(asked)


# -- scipy ------------------------------------------------------------------------------------------------------------


FORM = "a scipy CSR matrix"
HINT = "write it with scipy.sparse.save_npz(path, matrix.tocsr())."


class NpzSource(Source):
    """A CSR matrix [N, L]: stored entries are scored candidates or gains, a stored zero included."""

    def __init__(self, path: str | FilePath) -> None:
        self.path = check_file(path)
        self._plain = Plain(self.path)
        with reading(self.path, FORM), zipfile.ZipFile(self._plain.path) as archive:
            self._check_members(archive)
            self.num_rows, self.num_labels = (int(size) for size in _whole(archive, "shape"))
            self._indptr: Ints = _whole(archive, "indptr").astype(np.int64)
            lengths = {name: _length(archive, name) for name in ("indices", "data")}
        self._check_structure(lengths)
        self.cells_per_row = int(self._indptr[-1]) / max(self.num_rows, 1)

    def _check_members(self, archive: zipfile.ZipFile) -> None:
        names = set(archive.namelist())
        if "format.npy" not in names:
            held = ", ".join(sorted(name.removesuffix(".npy") for name in names))
            raise DataFileError(self.path, f"is not {FORM}: it holds {held or 'nothing'}", hint=HINT)
        stored = _whole(archive, "format").item()
        stored = stored.decode() if isinstance(stored, bytes) else stored
        if stored != "csr":
            raise DataFileError(self.path, f"holds a sparse matrix in the format {stored}, not csr", hint=HINT)

    def _check_structure(self, lengths: dict[str, int]) -> None:
        indptr = self._indptr
        if len(indptr) != self.num_rows + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            raise DataFileError(self.path, f"indptr does not describe {self.num_rows} rows", hint=HINT)
        for name, length in lengths.items():
            if length != indptr[-1]:
                problem = f"{name} holds {length} entries, but indptr ends at {int(indptr[-1])}"
                raise DataFileError(self.path, problem, hint=HINT)

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows as the two arrays of the archive stream by."""
        with (
            reading(self.path, FORM),
            zipfile.ZipFile(self._plain.path) as archive,
            _Member(archive, "indices", "iu") as indices,
            _Member(archive, "data", "biuf") as data,
        ):
            indices.skip(int(self._indptr[start]))
            data.skip(int(self._indptr[start]))
            for first in range(start, stop, size):
                offsets = self._indptr[first : min(first + size, stop) + 1]
                count = int(offsets[-1] - offsets[0])
                yield Ragged(offsets - offsets[0], indices.read(count), data.read(count))


class _Member:
    """One array of the archive, read from front to back."""

    def __init__(self, archive: zipfile.ZipFile, name: str, kinds: str) -> None:
        self._file = archive.open(f"{name}.npy")
        shape, self._dtype = _header(self._file)
        if self._dtype.kind not in kinds or len(shape) != 1:
            raise ValueError(f"{name} is {self._dtype}{list(shape)}")

    def __enter__(self) -> _Member:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def skip(self, count: int) -> None:
        self._file.seek(count * self._dtype.itemsize, 1)

    def read(self, count: int) -> Array:
        content = self._file.read(count * self._dtype.itemsize)
        if len(content) < count * self._dtype.itemsize:
            raise EOFError("an array ends early")
        return np.frombuffer(content, self._dtype).astype(self._dtype.newbyteorder("="), copy=False)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype


def _length(archive: zipfile.ZipFile, name: str) -> int:
    with archive.open(f"{name}.npy") as file:
        return _header(file)[0][0]


def _whole(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(f"{name}.npy") as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def open_npz(asked: Opening) -> Source:
    """Open a matrix of scipy."""
    return NpzSource(asked.path)
