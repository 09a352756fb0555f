"""Files of arrays, mapped: numpy's ``.npy``, torch's ``.pt``, safetensors, and the ``.npz`` of searches of FAISS."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tailmetrics.io.arrays import ArraySource
from tailmetrics.io.compression import Plain
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.formats import Opening
from tailmetrics.io.npz import FORM, NpzSource
from tailmetrics.io.paths import check_file
from tailmetrics.io.scratch import folder_for
from tailmetrics.io.source import Source

FAISS_IDS = "I.npy"


class NumpySource(ArraySource):
    """An array of numpy."""

    form = ".npy array"

    def _mapped(self) -> Any:
        return np.asarray(np.load(self._plain.path, mmap_mode="r", allow_pickle=False))


class TorchSource(ArraySource):
    """A tensor or a pair of tensors, read with ``weights_only=True``."""

    form = ".pt array"

    def _mapped(self) -> Any:
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


class FaissSource(ArraySource):
    """The ids ``I`` of a search, best first and -1 where nothing was found; ``D``, near or similar, is not needed."""

    form = ".npz of FAISS"
    _folder: Path | None = None

    def _mapped(self) -> Any:
        if self._folder is None:  # an archive cannot be mapped
            self._folder = folder_for(self)
            with zipfile.ZipFile(self._plain.path) as archive:
                archive.extract(FAISS_IDS, self._folder)
        return np.asarray(np.load(self._folder / FAISS_IDS, mmap_mode="r", allow_pickle=False))


def open_npy(asked: Opening) -> ArraySource:
    """Open an array of numpy."""
    return NumpySource(asked)


def open_pt(asked: Opening) -> ArraySource:
    """Open a file of torch."""
    return TorchSource(asked)


def open_safetensors(asked: Opening) -> ArraySource:
    """Open a file of tensors."""
    return SafetensorsSource(asked)


def open_npz(asked: Opening) -> Source:
    """Open a matrix of scipy, or the result of a search."""
    path = check_file(asked.path)
    plain = Plain(path)
    with reading(path, FORM), zipfile.ZipFile(plain.path) as archive:
        names = archive.namelist()
    return FaissSource(asked) if FAISS_IDS in names and "format.npy" not in names else NpzSource(path)
