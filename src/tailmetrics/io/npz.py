"""scipy's CSR matrices in ``.npz``, read from the archive as a stream.

The row boundaries (``indptr``, 8 bytes a row) are read whole, columns and values batch by batch. A rank whose rows lie
further back reads over what comes before: an uncompressed archive is skipped through, a compressed one decompressed.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from tailmetrics.io.compression import Plain
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.paths import FilePath, check_file
from tailmetrics.io.rows import Array, Ints, Ragged
from tailmetrics.io.source import Source

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
