"""Paths of files, here or in a store: ``file://``, ``s3://``, ``gs://``, ``hdfs://`` and what fsspec knows.

Addresses, their options and credentials are those of ``pyarrow.fs``: the environment, the files of the vendor's own
tools, or the address itself, such as ``s3://bucket/key?endpoint_override=localhost:9000&scheme=http``. A scheme that
pyarrow does not know is left to fsspec, with its own conventions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeAlias

from tailmetrics.io.errors import UNREADABLE, DataFileError

EMPTY_HINT = "the program that wrote it may have failed: write it again."
STORE_HINT = "check the address, the credentials and the network; pyarrow.fs.FileSystem.from_uri says what it may hold."

HINTS = {
    "gs": (
        "set GOOGLE_APPLICATION_CREDENTIALS to the file of a key, or run gcloud auth application-default login; "
        "gs://anonymous@bucket/… opens a public bucket."
    ),
    "hdfs": (
        "install Java and a client of Hadoop, and set JAVA_HOME, HADOOP_HOME, ARROW_LIBHDFS_DIR (the folder of "
        "libhdfs.so) and CLASSPATH (what hadoop classpath --glob prints)."
    ),
}
"""What is missing most often, by the scheme."""
HINTS["gcs"], HINTS["viewfs"] = HINTS["gs"], HINTS["hdfs"]
PATIENCE = "retry_limit_seconds=10"
"""Option of Google's store: without it nobody hears for a quarter of an hour that there are no credentials."""

_ADDRESS = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+)://([^/?]*)(.*?)(\?\w+=[^?*]*)?$", re.DOTALL)
"""Scheme, authority, path and options."""


@dataclass(frozen=True)
class StoredFile:
    """A file or folder in a store, with what readers use of :class:`pathlib.Path`.

    Attributes:
        address: How messages show it, without credentials and options.
        key: Its path in the store.
        system: A file system of ``pyarrow.fs``.
        listed: What a listing of its folder said of it.
    """

    address: str
    key: str
    system: Any
    listed: Any = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        """The last part of its path."""
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        """Its name without the suffix."""
        return PurePosixPath(self.key).stem

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its path."""
        return PurePosixPath(self.key.lstrip("/")).parts

    def open(self, mode: str = "rb") -> Any:
        """Open it, to be read anywhere."""
        return self.system.open_input_file(self.key)

    def above(self, depth: int) -> StoredFile:
        """Return the folder of the first parts of its path."""
        key = "/" * self.key.startswith("/") + "/".join(self.parts[:depth])
        return StoredFile(self._addressed(key), key, self.system)

    def files(self) -> list[StoredFile]:
        """Return the files below a folder."""
        from pyarrow import fs

        with asking(self.address):
            found = self.system.get_file_info(fs.FileSelector(self.key, recursive=True))
        files = [one for one in found if one.type.name == "File"]
        return [StoredFile(self._addressed(one.path), one.path, self.system, one) for one in files]

    @cached_property
    def facts(self) -> Any:
        """Type, size and time of the last change, as ``pyarrow.fs`` has them."""
        with asking(self.address):
            return self.listed or self.system.get_file_info(self.key)

    def _addressed(self, key: str) -> str:
        """Return the address of a file of the same store; what stands before the first folder is the host or bucket."""
        host = self.address[: len(self.address) - len(self.key.lstrip("/"))]
        return host + key.lstrip("/")


FilePath: TypeAlias = Path | StoredFile


def is_address(path: Any) -> bool:
    """Whether a path opens with a scheme."""
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def path_of(path: str | PurePath | StoredFile) -> FilePath:
    """Return the file or folder of a path or an address; that of ``file://`` is a path.

    Raises:
        DataFileError: If nothing knows the scheme, or the address is wrong.
    """
    match = _ADDRESS.match(path) if isinstance(path, str) else None
    if match is None:
        return path if isinstance(path, StoredFile) else Path(path)
    scheme, authority, inside, options = match.groups()
    if scheme == "file":
        return Path(authority + inside)
    bare = f"{scheme}://{authority.rpartition('@')[2]}{inside.rstrip('/')}"
    with asking(bare):
        system, base = _system(f"{scheme}://{authority}/", options or "")
        return StoredFile(bare, base.rstrip("/") + inside.rstrip("/"), system)


@lru_cache(maxsize=64)
def _system(root: str, options: str) -> tuple[Any, str]:
    """Return the file system of an address without its path, and what its paths begin with."""
    import pyarrow as pa
    from pyarrow import fs

    if root.startswith(("gs:", "gcs:")) and "retry_limit_seconds" not in options:
        options += f"&{PATIENCE}" if options else f"?{PATIENCE}"
    try:
        return fs.FileSystem.from_uri(root + options)  # type: ignore[no-any-return]
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem type" not in str(error):
            raise
    import fsspec

    system, key = fsspec.core.url_to_fs(root)
    return fs.PyFileSystem(fs.FSSpecHandler(system)), key


@contextmanager
def asking(address: str) -> Iterator[None]:
    """Raise what a store refuses as a :class:`DataFileError` of its address."""
    try:
        yield
    except DataFileError:
        raise
    except ModuleNotFoundError as error:
        hint = f"install {error.name}: pip install 'tailmetrics[cli]' has pyarrow, which opens s3, gs and hdfs."
        raise DataFileError(address, f"its scheme needs the package {error.name}", hint=hint) from error
    except (*UNREADABLE, ImportError) as error:
        raise _refused(address, error) from error
    except Exception as error:
        if not type(error).__module__.startswith("pyarrow"):
            raise
        raise _refused(address, error) from error


def _refused(address: str, error: Exception) -> DataFileError:
    """Return the error of a store, without the details that some write behind it, and what to do."""
    said = str(error).partition(" error_info=")[0].strip() or type(error).__name__
    hint = HINTS.get(address.partition(":")[0], STORE_HINT)
    return DataFileError(address, f"cannot be opened: {said}", hint=hint)


def size_of(path: FilePath) -> int:
    """Return the bytes of a file."""
    return path.stat().st_size if isinstance(path, Path) else int(path.facts.size)


def check_file(path: str | PurePath | StoredFile) -> FilePath:
    """Return the path of a file if it holds anything."""
    path = path_of(path)
    exists, is_file = _kind(path)
    if not exists:
        raise DataFileError(path, "there is no such file", hint="check the path.")
    if not is_file:
        raise DataFileError(path, "is not a file", hint="pass the path of one file.")
    if size_of(path) == 0:
        raise DataFileError(path, "is empty", hint=EMPTY_HINT)
    return path


def _kind(path: FilePath) -> tuple[bool, bool]:
    """Return whether there is anything, and whether it is a file."""
    if isinstance(path, Path):
        return path.exists(), path.is_file()
    kind = path.facts.type.name
    return kind != "NotFound", kind == "File"
