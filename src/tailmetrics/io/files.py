"""Files of data: paths and addresses, folders and patterns, compression, and copies that last as long as needed.

Addresses (``s3://``, ``gs://``, ``hdfs://``), their options and credentials are those of ``pyarrow.fs``: the
environment, the files of the vendor's own tools, or the address itself, such as
``s3://bucket/key?endpoint_override=localhost:9000&scheme=http``. A scheme that pyarrow does not know is left to fsspec.

Parts follow one another by their paths, numbers in them by value: ``part-2`` comes before ``part-10``. Names that begin
with ``_`` or ``.`` are no data, as in Spark and Arrow. Folders ``key=value`` are a partition: each part has the column
``key``.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path, PurePath, PurePosixPath
from tempfile import gettempdir, mkdtemp
from typing import IO, Any, TypeAlias
from urllib.parse import unquote
from weakref import finalize

from tailmetrics.io.errors import DataFileError, reading

ALIKE_HINT = "all parts must be written alike; a pattern such as 'folder/*.parquet' chooses some of them."
EMPTY_HINT = "the program that wrote it may have failed: write it again."
STORE_HINT = "check the address, the credentials and the network; pyarrow.fs.FileSystem.from_uri says what it may hold."

GOOGLE_HINT = (
    "set GOOGLE_APPLICATION_CREDENTIALS to the file of a key, or run gcloud auth application-default login; "
    "gs://anonymous@bucket/… opens a public bucket."
)
SCRATCH, LOCK = ".tailmetrics-", "lock"
"""What the names of folders that go with their process begin with, and the file in each that tells whether it lives."""
PATIENCE = "retry_limit_seconds=10"
"""Option of Google's store: without it nobody hears for a quarter of an hour that there are no credentials."""

_ADDRESS = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+)://([^/?]*)(.*?)(\?\w+=[^?*]*)?$", re.DOTALL)
"""Scheme, authority, path and options."""
CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
"""Suffix of a compressed file -> its codec in pyarrow."""
MAGIC = {
    (0, b"\x1f\x8b"): "gzip",
    (4, b"1AY&SY"): "bz2",
    (0, b"\x28\xb5\x2f\xfd"): "zstd",
    (0, b"\x04\x22\x4d\x18"): "lz4",
}
"""Place and value of the bytes that tell a codec."""
HEAD_BYTES = 2**16
LONGEST_FIRST_LINE = 2**27
"""128 MB, as the longest line of a list: what is no text seldom has 64 kB without the byte of a line end."""
GLOB = re.compile(r"[*?\[]")
DATASET_STATE = "state.json"
"""What ``datasets`` writes beside its files."""


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
PathLike: TypeAlias = str | PurePath | StoredFile


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
    except (DataFileError, Warning, AssertionError):
        raise
    except ModuleNotFoundError as error:
        hint = f"install {error.name}: pip install 'tailmetrics[cli]' has pyarrow, which opens s3 and gs."
        raise DataFileError(address, f"its scheme needs the package {error.name}", hint=hint) from error
    except Exception as error:
        said = str(error).partition(" error_info=")[0].strip() or type(error).__name__  # some write details behind it
        hint = GOOGLE_HINT if address.startswith(("gs:", "gcs:")) else STORE_HINT
        raise DataFileError(address, f"cannot be opened: {said}", hint=hint) from error


def size_of(path: FilePath) -> int:
    """Return the bytes of a file."""
    return path.stat().st_size if isinstance(path, Path) else int(path.facts.size)


def check_file(path: str | PurePath | StoredFile) -> FilePath:
    """Return the path of a file if it holds anything."""
    path = path_of(path)
    kind = "" if isinstance(path, Path) else path.facts.type.name
    if not (path.exists() if isinstance(path, Path) else kind != "NotFound"):
        raise DataFileError(path, "there is no such file", hint="check the path.")
    if not (path.is_file() if isinstance(path, Path) else kind == "File"):
        raise DataFileError(path, "is not a file", hint="pass the path of one file.")
    if size_of(path) == 0:
        raise DataFileError(path, "is empty", hint=EMPTY_HINT)
    return path


@dataclass(frozen=True)
class Part:
    """One file.

    Attributes:
        path: The file.
        partition: Columns that its folders give, by ``key=value``.
    """

    path: FilePath
    partition: dict[str, str]


@dataclass(frozen=True)
class Found:
    """The files of predictions or of targets.

    Attributes:
        name: How an error calls all of them.
        parts: The files, in their order.
    """

    name: FilePath
    parts: tuple[Part, ...]


def is_path(value: Any) -> bool:
    """Whether a value is a path, or a list of paths."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(one, (str, PurePath)) for one in value)
    return isinstance(value, (str, PurePath, StoredFile))


def find(value: PathLike | Sequence[PathLike]) -> Found:
    """Return the files of a path, a folder, a glob, an address, or of several of these.

    Raises:
        DataFileError: If there is none, or one is empty.
    """
    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError("read: a list of paths is empty; pass at least one path.")
        every = [find(one) for one in value]
        return Found(every[0].name, tuple(part for found in every for part in found.parts))
    path = path_of(value if isinstance(value, StoredFile) else str(value))
    return Found(path, tuple(_parts(path)))


def _parts(path: FilePath) -> Iterator[Part]:
    if isinstance(path, StoredFile):
        yield from _in_store(path)
    elif path.is_dir():
        yield from _in_folder(path)
    elif path.exists() or not GLOB.search(str(path)):
        yield Part(check_file(_spooled(path) if path.is_fifo() else path), {})
    else:
        yield from _matching(path)


@cache
def _spooled(pipe: Path) -> Path:
    """Return a copy of what comes out of a pipe, which can be read once; it lasts as long as the process."""
    copy = folder_for(_spooled) / (pipe.name or "pipe")
    with reading(pipe, "a pipe"), pipe.open("rb") as source, copy.open("wb") as goal:
        shutil.copyfileobj(source, goal, 2**20)
    return copy


def _in_folder(folder: Path) -> Iterator[Part]:
    if (folder / DATASET_STATE).is_file():
        yield from _dataset(folder)
        return
    if (folder / "dataset_dict.json").is_file():
        splits = ", ".join(sorted(one.name for one in folder.iterdir() if (one / DATASET_STATE).is_file()))
        raise DataFileError(folder, f"holds the splits {splits}", hint="name the folder of one of them.")
    yield from _checked(folder, filter(Path.is_file, folder.rglob("*")), len(folder.parts))


def _matching(pattern: Path) -> Iterator[Part]:
    parts = pattern.parts
    fixed = next(index for index, part in enumerate(parts) if GLOB.search(part))
    root = Path(*parts[:fixed])
    for one in _ordered(root.glob("/".join(parts[fixed:]))) or [None]:
        if one is None:
            raise DataFileError(pattern, "no file matches", hint="check the path; put quotes around it in a shell.")
        if one.is_dir():
            yield from _in_folder(one)
        elif _is_data([one.name]):
            yield Part(check_file(one), _partition(one.parts[fixed:-1]))


def _in_store(path: StoredFile) -> Iterator[Part]:
    if not GLOB.search(path.key):
        if path.facts.type.name == "Directory":
            yield from _checked(path, path.files(), len(path.parts))
        else:
            yield Part(check_file(path), {})
        return
    parts = path.parts
    fixed = next(index for index, part in enumerate(parts) if GLOB.search(part))
    fits = re.compile(_expression("/".join(parts)))
    files = [one for one in path.above(fixed).files() if fits.fullmatch("/".join(one.parts))]
    yield from _checked(path, files, fixed)


def _checked(root: FilePath, files: Iterable[Any], depth: int) -> Iterator[Part]:
    ordered = _ordered(one for one in files if _is_data(one.parts[depth:]))
    if not ordered:
        raise DataFileError(root, "holds no files of data", hint="name a folder of parts, or one file.")
    for one in ordered:
        yield Part(check_file(one), _partition(one.parts[depth:-1]))


def _dataset(folder: Path) -> Iterator[Part]:
    """Yield the files of a data set that ``datasets`` saved, in the order that it says."""
    with reading(folder / DATASET_STATE, "the state of a data set"):
        state = json.loads((folder / DATASET_STATE).read_text(encoding="utf-8"))
        names = [one["filename"] for one in state["_data_files"]]
    if state.get("_indices_files"):
        hint = "call dataset.flatten_indices() before dataset.save_to_disk(path)."
        raise DataFileError(folder, "keeps its order in a file of indices", hint=hint)
    for name in names:
        yield Part(check_file(folder / name), {})


def _is_data(parts: Sequence[str]) -> bool:
    return not any(part.startswith((".", "_")) for part in parts)


def _ordered(files: Iterable[Any]) -> list[Any]:
    """Return files by their paths, numbers in them by value."""

    def natural(name: str) -> list[tuple[int, int, str]]:
        words = re.split(r"(\d+)", name)
        return [(1, int(word), word) if word.isdecimal() else (0, 0, word) for word in words if word]

    return sorted(files, key=lambda file: list(map(natural, file.parts)))


def _partition(folders: Sequence[str]) -> dict[str, str]:
    """Return the columns that folders ``key=value`` give."""
    pairs = (folder.partition("=") for folder in folders)
    return {key: unquote(value) for key, equals, value in pairs if key and equals}


def _expression(pattern: str) -> str:
    """Return a glob as a regular expression: ``**`` goes through folders, ``*`` and ``?`` stay within one."""
    words = re.split(r"(\*\*/|\*|\?|\[[^]]+\])", pattern)
    meanings = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        meanings.get(word) or (word.replace("[!", "[^") if GLOB.match(word) else re.escape(word)) for word in words
    )


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
    """Return the first 64 kB, decompressed, and the rest of the first line where that is longer."""
    with reading(path, "text"), stream(path) as file:
        data = bytearray(file.read(HEAD_BYTES))
        block: bytes | bytearray = data
        while not re.search(rb"[\r\n]", block) and HEAD_BYTES <= len(data) < LONGEST_FIRST_LINE:
            block = bytes(file.read(HEAD_BYTES)) or b"\n"  # the end of the file ends its line
            data += block
        return bytes(data)


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


def folder_for(owner: Any, above: Path | None = None) -> Path:
    """Return a new folder that goes with its owner, with the process, or with the next one that makes one there.

    A process that is killed leaves its folders behind. A lock, which ends with the process that holds it, tells them.

    Args:
        owner: When nobody knows it any more, the folder goes.
        above: Where it lies; beneath ``TMPDIR`` if left out.
    """
    above = above or Path(gettempdir())
    for left in above.glob(f"{SCRATCH}????????"):  # as mkdtemp calls them
        with suppress(ImportError, OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)
    while True:
        folder = Path(mkdtemp(prefix=SCRATCH, dir=above))
        lock = None
        try:
            lock = _locked(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # another process saw it before the lock, and took it for what a killed one left
        except (ImportError, OSError):
            pass  # a system without such locks: nobody clears what a killed process leaves
        finalize(owner, _remove, folder, lock)
        return folder


def _locked(folder: Path) -> IO[str]:
    """Return the file of a folder that this process has locked now.

    Raises:
        BlockingIOError: If a process holds the lock.
        FileNotFoundError: If the folder is gone.
        OSError, ImportError: If there are no such locks here.
    """
    import fcntl

    lock = (folder / LOCK).open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / LOCK).stat()  # one that waited for the lock may have removed it
    except OSError:
        lock.close()
        raise
    return lock


def _remove(folder: Path, lock: IO[str] | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        lock.close()
