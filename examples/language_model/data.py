"""Text that every scientific Python installation holds: docstrings, word by word.

The sources are those of packages that tailmetrics' `dev` extra draws in; they are
parsed, never run. A fixed fifth of the files is held out whole.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import torch
from torch import Tensor

PACKAGES = ("networkx",)
MOST = 120_000
"""The number of words to learn from, four times the number of words to guess.

This is enough to learn from in seconds.
"""
WORD = re.compile(r"[a-z_]+|[0-9]+|[^\sa-z_0-9]")
OTHER = "<other>"
"""Stands for words that training holds once or not at all; it is never a target."""
END = "<end>"
"""Stands behind a docstring."""


class Text(NamedTuple):
    """Words as numbers, one docstring behind the other.

    Attributes:
        train: Shape (n,), int64.
        test: Shape (m,), int64: the words of held-out files.
        words: The vocabulary; ``OTHER`` is number 0.
    """

    train: Tensor
    test: Tensor
    words: list[str]


def read_text(packages: tuple[str, ...] = PACKAGES) -> Text:
    """Return the docstrings of all files of the packages but their tests."""
    splits: tuple[list[str], list[str]] = ([], [])
    for package in packages:
        for path, docstring in _docstrings(package):
            splits[crc32(path.encode()) % 5 == 4].extend(
                [*WORD.findall(docstring.lower()), END]
            )
    del splits[0][MOST:], splits[1][MOST // 4 :]
    counts = Counter(splits[0])
    words = [OTHER, *(word for word in sorted(counts) if counts[word] > 1)]
    number = {word: place for place, word in enumerate(words)}
    train, test = (
        torch.tensor([number.get(word, 0) for word in split]) for split in splits
    )
    return Text(train, test, words)


def _docstrings(package: str) -> Iterator[tuple[str, str]]:
    """Yield file and docstring of each module, class and function."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{package} is not installed; make test draws it in.")
    root = Path(spec.origin).parent
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for path in sorted(
        path for path in root.rglob("*.py") if "tests" not in path.parts
    ):
        for node in ast.walk(ast.parse(path.read_bytes())):
            docstring = (
                ast.get_docstring(node) if isinstance(node, documented) else None
            )
            if docstring:
                yield path.relative_to(root.parent).as_posix(), docstring
