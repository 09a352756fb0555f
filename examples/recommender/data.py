"""Implicit feedback that every scientific Python installation holds: imports.

A "user" is a source file, an "item" a module that it imports. Files are those of
installed packages that tailmetrics' `dev` extra draws in; they are parsed, never run. A
fixed fifth of each file's imports is hidden, and is what has to be recommended.
"""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tailmetrics import LabelTree

PACKAGES = ("matplotlib", "networkx", "numpy", "pandas", "scipy", "sklearn")


class Interactions(NamedTuple):
    """Imports as a matrix to learn from and ids to recommend.

    Attributes:
        shown: Shape (N, L), float32: 1 where a file is known to import a module.
        hidden: Shape (N, M), int64: each file's hidden module ids, padded with -1.
        modules: L names.
    """

    shown: Tensor
    hidden: Tensor
    modules: list[str]

    def tree(self) -> LabelTree:
        """Return the tree of the modules: `numpy.linalg` stands under `numpy`.

        The parent stands there even if no file imports it.
        """
        parts = (module.split(".") for module in self.modules)
        names = {
            ".".join(module_parts[:end])
            for module_parts in parts
            for end in range(1, len(module_parts) + 1)
        }
        return LabelTree.from_edges(
            [(name, name.rpartition(".")[0]) for name in sorted(names)], self.modules
        )


def read_interactions(packages: tuple[str, ...] = PACKAGES) -> Interactions:
    """Return imports of files with at least two shown modules and a hidden one."""
    files = [
        (path, sorted(modules))
        for package in packages
        for path, modules in _imports(package)
    ]
    split = [
        ([m for m in modules if not _hides(p, m)], [m for m in modules if _hides(p, m)])
        for p, modules in files
    ]
    split = [(shown, hidden) for shown, hidden in split if len(shown) >= 2 and hidden]
    names = sorted({module for parts in split for part in parts for module in part})
    number = {name: place for place, name in enumerate(names)}
    matrix = torch.zeros(len(split), len(names))
    for row, (shown, _) in zip(matrix, split, strict=True):
        row[[number[module] for module in shown]] = 1
    hidden = [
        torch.tensor([number[module] for module in hidden]) for _, hidden in split
    ]
    return Interactions(
        matrix, pad_sequence(hidden, batch_first=True, padding_value=-1), names
    )


def _imports(package: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each file of a package with the full names of modules that it imports."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{package} is not installed; make test draws it in.")
    root = Path(spec.origin).parent
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root.parent)
        modules: set[str] = set()
        for node in _statements(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                modules.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = (
                    place.parts[:-1][: len(place.parts) - node.level]
                    if node.level
                    else ()
                )
                modules.add(".".join((*above, *filter(None, [node.module]))))
        yield place.as_posix(), modules


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node.

    `ast.walk` visits every expression too, and takes as long as parsing.
    """
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, part, ()):
            yield child
            yield from _statements(child)


def _hides(path: str, module: str) -> bool:
    return crc32(f"{path} {module}".encode()) % 5 == 4
