"""What tells runs apart: whether all ranks see the same files, and which options the values of rows depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from tailmetrics.cli.options import DataOptions
from tailmetrics.io import Dataset
from tailmetrics.io.files import FilePath, StoredFile, check_file, find, size_of, stream

BLOCK_BYTES = 2**16
BLOCKS = 256
"""Blocks of a file that are looked at: all of one up to 16 MB, and so many spread over a larger one."""


def fingerprint(file: FilePath) -> str:
    """Return the size of a file and a digest of its content, of a large one of parts of it, both ends included.

    Of a file in a store, the time of its last change stands for the content: all processes ask the same store.
    """
    size = size_of(file)
    if isinstance(file, StoredFile):
        return f"{size:,} bytes, of {file.facts.mtime}"
    last = max(0, size - BLOCK_BYTES)
    wanted = range(0, size, BLOCK_BYTES)
    starts = wanted if len(wanted) <= BLOCKS else [last * number // (BLOCKS - 1) for number in range(BLOCKS)]
    digest = sha256()
    with file.open("rb") as opened:
        for start in starts:
            opened.seek(start)
            digest.update(opened.read(BLOCK_BYTES))
    return f"{size:,} bytes, sha256 {digest.hexdigest()[:12]}"


def facts_of(paths: Iterable[str], options: DataOptions) -> Mapping[str, Any]:
    """Return what all ranks have to agree on before they read: their files, and how these are read."""
    files = [part.path for path in paths for part in find(path).parts]
    return {**{str(file): fingerprint(file) for file in files}, "options of the command line": str(asdict(options))}


def options_of_values(options: DataOptions, dataset: Dataset) -> Mapping[str, Any]:
    """Return the options that the values of rows depend on, and that no metric has as an argument.

    Two tables of values per row are about the same thing only where these agree.
    """
    return {
        "cut": options.cut,
        "filter": None if options.filter is None else _content(options.filter),
        "missing": options.missing if dataset.missing_queries else None,
    }


def _content(path: str) -> str:
    with stream(check_file(path)) as file:
        return sha256(file.read()).hexdigest()
