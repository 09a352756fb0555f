"""Bytes of a file, decompressed on the way where its name or its first bytes say so."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from tailmetrics.io.errors import reading

CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
"""Suffix of a compressed file -> its codec in pyarrow."""
MAGIC = {(0, b"\x1f\x8b"): "gzip", (4, b"1AY&SY"): "bz2", (0, b"\x28\xb5\x2f\xfd"): "zstd"}
"""Place and value of the bytes that tell a codec."""
HEAD_BYTES = 2**16


def suffix_of(path: Path) -> str:
    """Return the suffix that tells the format, in lower case and without its dot: ``run`` for ``a.run.gz``."""
    inner = path.with_suffix("") if path.suffix.lower().removeprefix(".") in CODECS else path
    return inner.suffix.lower().removeprefix(".")


def codec_of(path: Path) -> str | None:
    """Return how a file is compressed, told from its first bytes; None when it is not."""
    with path.open("rb") as file:
        start = file.read(10)
    return next((codec for (place, magic), codec in MAGIC.items() if start.startswith(magic, place)), None)


def stream(path: Path) -> Any:
    """Open a file to be read once from front to back, decompressed."""
    codec = codec_of(path)
    if codec is None:
        return path.open("rb")
    import pyarrow as pa

    return pa.input_stream(path, compression=codec)


def head(path: Path) -> bytes:
    """Return the first 64 kB, decompressed."""
    with reading(path, "text"), stream(path) as file:
        return bytes(file.read(HEAD_BYTES))


class Plain:
    """A file that can be read anywhere: itself or, where it is compressed, a copy that ends with this object.

    Attributes:
        path: The file without compression.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder: TemporaryDirectory[str] | None = None
        with reading(path, "a compressed file"):
            if codec_of(path) is not None:
                self._folder = TemporaryDirectory(prefix="tailmetrics-")
                self.path = Path(self._folder.name) / (path.stem or "file")
                with stream(path) as source, self.path.open("wb") as copy:
                    _copy(source, copy)


def _copy(source: Any, copy: IO[bytes]) -> None:
    shutil.copyfileobj(source, copy, 2**20)
