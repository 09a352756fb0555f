"""From what was passed as predictions or targets to files: one, a folder of parts, a glob, several of these.

Parts follow one another by their paths, numbers in them by value: ``part-2`` comes before ``part-10``. Names that begin
with ``_`` or ``.`` are no data, as in Spark and Arrow. Folders ``key=value`` are a partition: each part has the column
``key``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, TypeAlias
from urllib.parse import unquote

from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.paths import FilePath, StoredFile, check_file, path_of

PathLike: TypeAlias = str | PurePath | StoredFile
GLOB = re.compile(r"[*?\[]")
DATASET_STATE = "state.json"
"""What ``datasets`` writes beside its files."""


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
        yield Part(check_file(path), {})
    else:
        yield from _matching(path)


def _in_folder(folder: Path) -> Iterator[Part]:
    if (folder / DATASET_STATE).is_file():
        yield from _dataset(folder)
        return
    if (folder / "dataset_dict.json").is_file():
        splits = ", ".join(sorted(one.name for one in folder.iterdir() if (one / DATASET_STATE).is_file()))
        raise DataFileError(folder, f"holds the splits {splits}", hint="name the folder of one of them.")
    files = [one for one in folder.rglob("*") if one.is_file() and _is_data(one.relative_to(folder).parts)]
    yield from _checked(folder, files, len(folder.parts))


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
            yield from _checked(path, _data(path), len(path.parts))
        else:
            yield Part(check_file(path), {})
        return
    parts = path.parts
    fixed = next(index for index, part in enumerate(parts) if GLOB.search(part))
    fits = re.compile(_expression("/".join(parts)))
    files = [one for one in _data(path.above(fixed)) if fits.fullmatch("/".join(one.parts))]
    yield from _checked(path, files, fixed)


def _data(folder: StoredFile) -> list[StoredFile]:
    depth = len(folder.parts)
    return [one for one in folder.files() if _is_data(one.parts[depth:])]


def _checked(root: FilePath, files: Iterable[Any], depth: int) -> Iterator[Part]:
    ordered = _ordered(files)
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
    return sorted(files, key=lambda file: [_natural(part) for part in file.parts])


def _natural(name: str) -> list[tuple[int, int, str]]:
    words = re.split(r"(\d+)", name)
    return [(1, int(word), word) if word.isdecimal() else (0, 0, word) for word in words if word]


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
