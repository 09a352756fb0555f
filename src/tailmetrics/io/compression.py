"""Bytes of a file, decompressed on the way where its first bytes say so."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePath
from typing import Any

from tailmetrics.io.errors import reading
from tailmetrics.io.paths import FilePath
from tailmetrics.io.scratch import folder_for

CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
"""Suffix of a compressed file -> its codec in pyarrow."""
MAGIC = {(0, b"\x1f\x8b"): "gzip", (4, b"1AY&SY"): "bz2", (0, b"\x28\xb5\x2f\xfd"): "zstd"}
"""Place and value of the bytes that tell a codec."""
HEAD_BYTES = 2**16


def suffix_of(path: FilePath) -> str:
    """Return the suffix that tells the format, in lower case and without its dot: ``run`` for ``a.run.gz``."""
    name = PurePath(path.name)
    inner = name.with_suffix("") if name.suffix.lower().removeprefix(".") in CODECS else name
    return inner.suffix.lower().removeprefix(".")


def codec_of(path: FilePath) -> str | None:
    """Return how a file is compressed, told from its first bytes; None when it is not."""
    with path.open("rb") as file:
        start = file.read(10)
    return next((codec for (place, magic), codec in MAGIC.items() if start.startswith(magic, place)), None)


def stream(path: FilePath) -> Any:
    """Open a file to be read once from front to back, decompressed."""
    codec = codec_of(path)
    if codec is None:
        return path.open("rb")
    import pyarrow as pa

    return pa.input_stream(path if isinstance(path, Path) else path.open("rb"), compression=codec)


def head(path: FilePath) -> bytes:
    """Return the first 64 kB, decompressed."""
    with reading(path, "text"), stream(path) as file:
        return bytes(file.read(HEAD_BYTES))


class Plain:
    """A file that can be read anywhere: itself or, where it is compressed or in a store, a copy that ends with this.

    Attributes:
        path: The file without compression.
    """

    def __init__(self, path: FilePath) -> None:
        with reading(path, "a compressed file" if isinstance(path, Path) else "a file of a store"):
            if isinstance(path, Path) and codec_of(path) is None:
                self.path = path
                return
            self.path = folder_for(self) / (path.stem or "file")
            with stream(path) as source, self.path.open("wb") as copy:
                shutil.copyfileobj(source, copy, 2**20)
