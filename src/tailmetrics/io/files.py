"""Data files: paths and addresses, folders, patterns, compression, temporary copies.

``pyarrow.fs`` opens addresses (``s3://``, ``gs://``, ``hdfs://``). It takes options and
credentials from the environment, from the files of the vendor's own tools, or from the
address itself, such as
``s3://bucket/key?endpoint_override=localhost:9000&scheme=http``. fsspec opens a scheme
that pyarrow does not know.

Parts are sorted by path, numbers in a path by value: ``part-2`` comes before
``part-10``. Files and folders whose names begin with ``_`` or ``.`` are left out, as in
Spark and Arrow.
"""

from __future__ import annotations

import atexit
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path, PurePath, PurePosixPath
from secrets import token_hex
from tempfile import gettempdir
from typing import Any, TypeAlias
from weakref import finalize

from tailmetrics._arguments import (
    LEAST_PROBLEM,
    LONGEST_ERROR,
    cut,
    fitted,
    short_values,
)

LONGEST_PATH = 100
"""Characters of a path at most; its end tells files apart."""
SHORTEST_PATH = 30
"""Characters of a path that an error always shows, if it has so many."""


class DataFileError(ValueError):
    """A data file cannot be read, or its content does not fit.

    Attributes:
        path: The file; its address if it is in a store.
        problem: What is wrong.
        where: Row, line or query inside the file; empty if the problem concerns the
            whole file.
        hint: What the user can do, as on the command line: ``--columns.gain hit`` is
            ``columns=Columns(gain="hit")`` in Python. It may be empty.
        others: The errors of other files that were opened with this one.
    """

    others: tuple[DataFileError, ...] = ()

    def __init__(
        self, path: object, problem: str, where: str = "", hint: str = ""
    ) -> None:
        where = cut(short_values(where), LONGEST_PATH)
        where_text = f", {where}: " if where else ": "
        # a hint is to be followed to the letter: a long path makes room for it
        room = LONGEST_ERROR - LEAST_PROBLEM - len(hint) - len(where_text)
        longest_path = max(SHORTEST_PATH, min(LONGEST_PATH, room))
        place = cut(str(path), longest_path, from_end=True) + where_text
        problem, hint = fitted(problem, hint, len(place))
        text = f"{place}{problem}"
        if hint:
            text += f"; {hint}"
        super().__init__(text)
        self.path = str(path) if "://" in str(path) else Path(str(path))
        self.problem = problem
        self.where = where
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            DataFileError,
            (self.path, self.problem, self.where, self.hint),
            {"others": self.others},
        )

    def __str__(self) -> str:
        return "\n".join([str(self.args[0]), *map(str, self.others)])


DAMAGED_HINT = (
    "the file may be truncated or corrupt, or of another format: write it again, or "
    "name its format."
)


@contextmanager
def file_errors(
    path: object,
    form: str,
    problem: str = "cannot be read as {form}",
    hint: str = DAMAGED_HINT,
) -> Iterator[None]:
    """Turn an exception in the block into a :class:`DataFileError` of this file.

    Args:
        path: The file.
        form: The format, in the text of the error.
        problem: The problem, in which ``{form}`` stands for the format.
        hint: What the user can do.
    """
    try:
        yield
    except (DataFileError, Warning, AssertionError):
        # a program can turn warnings into exceptions
        raise
    except ModuleNotFoundError as error:
        problem = f"reading {form} needs the package {error.name}"
        raise DataFileError(
            path, problem, hint="install it with pip install 'tailmetrics[cli]'."
        ) from error
    except Exception as error:
        # numpy, torch, zipfile, pyarrow and stores raise a dozen classes on what is
        # damaged some stores append details
        cause = str(error).partition(" error_info=")[0].strip().split("\n")[0]
        cause = cause or type(error).__name__
        raise DataFileError(
            path, f"{problem.format(form=form)}: {cause}", hint=hint
        ) from error


# -- files -----------------------------------------------------------------------------


ALIKE_HINT = (
    "all parts need the same form; a pattern such as 'folder/*.parquet' chooses "
    "some of them."
)
EMPTY_HINT = "the program that wrote it may have failed: write it again."
STORE_HINT = (
    "check the address, the credentials and the network; "
    "pyarrow.fs.FileSystem.from_uri says what it may hold."
)

GOOGLE_HINT = (
    "set GOOGLE_APPLICATION_CREDENTIALS to the file of a key, or run gcloud auth "
    "application-default login; gs://anonymous@bucket/… opens a public bucket."
)
SCRATCH = ".tailmetrics-"
"""Start of the names of temporary folders."""
PATIENCE = "retry_limit_seconds=10"
"""Option for Google's store.

Without this option, missing credentials become an error only after 15 minutes.
"""

_ADDRESS = re.compile(
    r"^([a-zA-Z][a-zA-Z0-9+.-]+)://([^/?]*)(.*?)(\?\w+=[^?*]*)?$", re.DOTALL
)
"""An address: its groups are scheme, authority, path and options."""
CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
"""Suffix of a compressed file -> its codec in pyarrow."""
MAGIC = {
    (0, b"\x1f\x8b"): "gzip",
    (4, b"1AY&SY"): "bz2",
    (0, b"\x28\xb5\x2f\xfd"): "zstd",
    (0, b"\x04\x22\x4d\x18"): "lz4",
}
"""(Position, value) of the bytes that identify a codec -> the codec in pyarrow."""
HEAD_BYTES = 2**16
LONGEST_FIRST_LINE = 2**27
"""Bytes of a first line at most (128 MB), for long lists.

A binary file seldom has 64 kB without a line-end byte.
"""
GLOB = re.compile(r"[*?\[]")
DATASET_STATE = "state.json"
"""The file that ``datasets`` writes beside its data files."""


@dataclass(frozen=True)
class StoredFile:
    """A file or folder in a store.

    The class has the methods of :class:`pathlib.Path` that readers use.

    Attributes:
        address: The address without credentials and options, for messages.
        key: The path in the store.
        system: A file system of fsspec, which may wrap a file system of ``pyarrow.fs``.
    """

    address: str
    key: str
    system: Any

    def __str__(self) -> str:
        return self.address

    def __getattr__(self, name: str) -> Any:
        if name in ("name", "stem", "parts"):
            return getattr(PurePosixPath(self.key.lstrip("/")), name)
        raise AttributeError(name)

    def open(self, mode: str = "rb") -> Any:
        """Open the file for reading, with random access."""
        return self.system.open(self.key, mode)

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Type and size from fsspec; a missing file has the type ``nothing``."""
        with asking(self.address), suppress(FileNotFoundError):
            return self.system.info(self.key)  # type: ignore[no-any-return]
        return {"type": "nothing"}

    def exists(self) -> bool:
        """Whether the file or folder exists."""
        return bool(self.facts["type"] != "nothing")

    def is_file(self) -> bool:
        """Whether the key is a file."""
        return bool(self.facts["type"] == "file")

    def is_dir(self) -> bool:
        """Whether the key is a folder."""
        return bool(self.facts["type"] == "directory")

    def glob(self) -> list[StoredFile]:
        """Return the files that match this pattern, or the files below this folder."""
        with asking(self.address):
            if GLOB.search(self.key):
                facts_by_key = self.system.glob(self.key, detail=True)
            else:
                facts_by_key = self.system.find(self.key, detail=True)
        # or the bucket
        host = self.address[: len(self.address) - len(self.key.lstrip("/"))]
        files = [
            StoredFile(host + key.lstrip("/"), key, self.system) for key in facts_by_key
        ]
        for file, facts in zip(files, facts_by_key.values(), strict=True):
            vars(file)["facts"] = facts  # so that the store is not asked again
        return files


FilePath: TypeAlias = Path | StoredFile
PathLike: TypeAlias = str | PurePath | StoredFile


def is_address(path: Any) -> bool:
    """Whether a path is an address, which begins with a scheme."""
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def path_of(path: str | PurePath | StoredFile) -> FilePath:
    """Return the file or folder of a path or an address.

    ``file://`` gives a local path.

    Raises:
        DataFileError: If the scheme is unknown or the address is wrong.
    """
    if isinstance(path, StoredFile):
        return path
    match = _ADDRESS.match(str(path))
    if match is None:
        return Path(path)
    scheme, authority, inside, options = match.groups()
    if scheme == "file":
        return Path(authority + inside)
    bare = f"{scheme}://{authority.rpartition('@')[2]}{inside.rstrip('/')}"
    with asking(bare):
        system, base = _system(f"{scheme}://{authority}/", options or "")
        return StoredFile(bare, base.rstrip("/") + inside.rstrip("/"), system)


@lru_cache(maxsize=64)
def _system(root: str, options: str) -> tuple[Any, str]:
    """Return the file system of an address without a path, and its path prefix."""
    import fsspec
    import pyarrow as pa
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow import fs

    if root.startswith(("gs:", "gcs:")) and "retry_limit_seconds" not in options:
        options += f"&{PATIENCE}" if options else f"?{PATIENCE}"
    try:
        system, key = fs.FileSystem.from_uri(root + options)
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem type" not in str(error):
            raise
        system, key = fsspec.core.url_to_fs(root)
        return system, key
    return ArrowFSWrapper(system), key


def asking(address: str) -> AbstractContextManager[None]:
    """Turn an error of a store into a :class:`DataFileError` of the address."""
    hint = STORE_HINT
    if address.startswith(("gs:", "gcs:")):
        hint = GOOGLE_HINT
    return file_errors(address, "its scheme", "cannot be opened", hint)


def size_of(path: FilePath) -> int:
    """Return the size of a file in bytes."""
    if isinstance(path, Path):
        return path.stat().st_size
    return int(path.facts["size"])


def check_file(path: str | PurePath | StoredFile) -> FilePath:
    """Return the path of a file that exists and is not empty.

    Raises:
        DataFileError: If there is no such file, it is not a file, or it is empty.
    """
    path = path_of(path)
    if not path.exists():
        raise DataFileError(path, "there is no such file", hint="check the path.")
    if not path.is_file():
        raise DataFileError(path, "is not a file", hint="pass the path of one file.")
    if size_of(path) == 0:
        raise DataFileError(path, "is empty", hint=EMPTY_HINT)
    return path


@dataclass(frozen=True)
class FileSet:
    """The files of predictions or of targets.

    Attributes:
        name: One name for all files, in errors.
        parts: The files, in the order of their rows.
    """

    name: FilePath
    parts: tuple[FilePath, ...]


def is_path(value: Any) -> bool:
    """Whether a value is a path, or a list of paths."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(path, (str, PurePath)) for path in value)
    return isinstance(value, (str, PurePath, StoredFile))


def find(value: PathLike | Sequence[PathLike]) -> FileSet:
    """Return the files of a path, a folder, a glob, an address, or a list of these.

    Raises:
        DataFileError: If there is no file, or one is empty.
        ValueError: If a list is empty.
    """
    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError("read: a list of paths is empty; pass at least one path.")
        sets = [find(path) for path in value]
        return FileSet(
            sets[0].name, tuple(part for files in sets for part in files.parts)
        )
    path = path_of(value)  # type: ignore[arg-type]
    return FileSet(path, tuple(_parts(path)))


def _parts(path: FilePath) -> Iterator[FilePath]:
    """Yield the files of a path, a folder or a pattern."""
    if _is_pattern(path):
        yield from _matching(path, _num_plain_parts(path), "no file matches")
    elif not path.is_dir():
        if isinstance(path, Path) and path.is_fifo():
            path = _spooled(path)
        yield check_file(path)
    elif isinstance(path, Path) and (path / DATASET_STATE).is_file():
        yield from _dataset(path)
    elif isinstance(path, Path) and (path / "dataset_dict.json").is_file():
        splits = sorted(state.parent.name for state in path.glob(f"*/{DATASET_STATE}"))
        problem = f"holds the splits {', '.join(splits)}"
        raise DataFileError(path, problem, hint="name the folder of one of them.")
    else:
        yield from _matching(path, len(path.parts), "holds no files of data")


def _matching(path: FilePath, depth: int, problem: str) -> Iterator[FilePath]:
    """Yield the files of a pattern or of a folder, in their order.

    The first ``depth`` parts of a pattern are plain.

    Raises:
        DataFileError: With this problem, if there are none.
    """
    files = []
    for file in _listed(path, depth):
        if not any(part.startswith((".", "_")) for part in file.parts[depth:]):
            files.append(file)
    if not files:
        hint = (
            "check the path; put quotes around a pattern in a shell, and name a "
            "folder of parts, or one file."
        )
        raise DataFileError(path, problem, hint=hint)
    for file in sorted(files, key=lambda file: list(map(_natural, file.parts))):
        if file.is_dir():
            yield from _parts(file)
        else:
            yield check_file(file)


def _is_pattern(path: FilePath) -> bool:
    if isinstance(path, StoredFile):
        return GLOB.search(path.key) is not None
    return not path.exists() and GLOB.search(str(path)) is not None


def _num_plain_parts(path: FilePath) -> int:
    """Return the number of parts before the first part with a wildcard."""
    for number, part in enumerate(path.parts):
        if GLOB.search(part):
            return number
    return len(path.parts)


def _listed(path: FilePath, depth: int) -> Iterable[Any]:
    """Return the files that match a pattern, or the files below a folder.

    The first ``depth`` parts of a pattern are plain.
    """
    if not isinstance(path, Path):
        return path.glob()
    if depth < len(path.parts):
        return Path(*path.parts[:depth]).glob("/".join(path.parts[depth:]))
    return filter(Path.is_file, path.rglob("*"))


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key of a name, in which numbers are compared by value."""
    key = []
    for word in re.split(r"(\d+)", name):
        if word.isdecimal():
            key.append((1, int(word), word))
        elif word:
            key.append((0, 0, word))
    return key


@cache
def _spooled(pipe: Path) -> Path:
    """Return a copy of a pipe, which can be read only once.

    The copy lasts until the process ends.
    """
    copy = temporary_folder(_spooled) / (pipe.name or "pipe")
    with (
        file_errors(pipe, "a pipe"),
        pipe.open("rb") as source,
        copy.open("wb") as goal,
    ):
        shutil.copyfileobj(source, goal, 2**20)
    return copy


def _dataset(folder: Path) -> Iterator[FilePath]:
    """Yield the files of a data set saved by ``datasets``, in their stated order."""
    with file_errors(folder / DATASET_STATE, "the state of a data set"):
        state = json.loads((folder / DATASET_STATE).read_text(encoding="utf-8"))
        names = [file["filename"] for file in state["_data_files"]]
    for name in names:
        if PurePath(name).name != name or name in ("", ".."):
            hint = (
                "a saved data set names files of its own folder; save it again with "
                "dataset.save_to_disk(path)."
            )
            raise DataFileError(
                folder / DATASET_STATE,
                f"names the file {name!r} outside of its folder",
                hint=hint,
            )
    if state.get("_indices_files"):
        hint = "call dataset.flatten_indices() before dataset.save_to_disk(path)."
        raise DataFileError(folder, "keeps its order in a file of indices", hint=hint)
    for name in names:
        yield check_file(folder / name)


def suffix_of(path: FilePath) -> str:
    """Return the suffix of the format: ``run`` for ``a.run.gz``.

    The suffix is in lower case and has no dot.
    """
    name = PurePath(path.name)
    suffix = name.suffix.lower().removeprefix(".")
    if suffix in CODECS:
        suffix = name.with_suffix("").suffix.lower().removeprefix(".")
    return suffix


def codec_of(path: FilePath) -> str | None:
    """Return the codec of a file, from its first bytes; None if not compressed."""
    with path.open("rb") as file:
        start = file.read(10)
    for (place, magic), codec in MAGIC.items():
        if start.startswith(magic, place):
            return codec
    return None


def stream(path: FilePath) -> Any:
    """Open a file for one pass from start to end, decompressed."""
    codec = codec_of(path)
    if codec is None:
        return path.open("rb")
    import pyarrow as pa

    return pa.input_stream(
        path if isinstance(path, Path) else path.open("rb"), compression=codec
    )


def head(path: FilePath) -> bytes:
    """Return the first 64 kB, decompressed, and at least the whole first line.

    A first line longer than 128 MB is cut.
    """
    with file_errors(path, "text"), stream(path) as file:
        data = bytearray(file.read(HEAD_BYTES))
        block: bytes | bytearray = data
        while (
            not re.search(rb"[\r\n]", block)
            and HEAD_BYTES <= len(data) < LONGEST_FIRST_LINE
        ):
            # the end of the file ends its line
            block = bytes(file.read(HEAD_BYTES)) or b"\n"
            data += block
        return bytes(data)


class Plain:
    """A local file without compression: the given file, or else a copy.

    A copy is deleted together with this object.

    Attributes:
        path: The local file without compression.
    """

    def __init__(self, path: FilePath) -> None:
        with file_errors(
            path,
            "a compressed file" if isinstance(path, Path) else ("a file of a store"),
        ):
            if isinstance(path, Path) and codec_of(path) is None:
                self.path = path
                return
            self.path = temporary_folder(self) / (path.stem or "file")
            with stream(path) as source, self.path.open("wb") as copy:
                shutil.copyfileobj(source, copy, 2**20)


def temporary_folder(owner: Any, above: Path | None = None) -> Path:
    """Return a new folder in ``above``, or in ``TMPDIR``.

    The folder is deleted with ``owner``, at the latest when the process ends.
    """
    folder = Path(above or gettempdir()) / f"{SCRATCH}files-{token_hex(8)}"
    # first: a signal may end the program in between
    deletion = finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    # weakref registers itself with atexit once a process; a worker of multiprocessing
    # clears this from Python 3.13 on
    atexit.register(deletion)
    folder.mkdir(0o700)
    return folder
