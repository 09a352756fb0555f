"""Sequences that every scientific Python installation holds: calls in functions.

A "session" is a function or method, an "item" the name of what it calls, in the order
of the source: `np.asarray(x).sum()` gives asarray, sum. The sources are those of
installed packages that tailmetrics' `dev` extra draws in; they are parsed, never run. A
fixed fifth of the files is held out whole, and of each held-out session the last call
is to be named.
"""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

PACKAGES = ("networkx", "numpy", "scipy", "sklearn")


class Sessions(NamedTuple):
    """Sessions as ids of names; at least two calls each.

    Attributes:
        train: Sessions to learn from.
        test: Sessions of held-out files, whose last call is the target.
        names: Names called in either split: they are known, their frequency is not.
    """

    train: list[list[int]]
    test: list[list[int]]
    names: list[str]


def read_sessions(packages: tuple[str, ...] = PACKAGES) -> Sessions:
    """Return the sessions of all functions in the packages' files, except tests."""
    splits: tuple[list[list[str]], list[list[str]]] = ([], [])
    for package in packages:
        for path, session in _calls(package):
            splits[crc32(path.encode()) % 5 == 4].append(session)
    names = sorted(
        {name for sessions in splits for session in sessions for name in session}
    )
    number = {name: place for place, name in enumerate(names)}
    train, test = (
        [[number[name] for name in session] for session in sessions]
        for sessions in splits
    )
    return Sessions(train, test, names)


def _calls(package: str) -> Iterator[tuple[str, list[str]]]:
    """Yield file and calls of each function that calls at least twice.

    The function stands in a module or a class.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{package} is not installed; make test draws it in.")
    root = Path(spec.origin).parent
    for path in sorted(
        path for path in root.rglob("*.py") if "tests" not in path.parts
    ):
        module = ast.parse(path.read_bytes())
        blocks = [
            module.body,
            *(node.body for node in module.body if isinstance(node, ast.ClassDef)),
        ]
        for function in (
            node
            for block in blocks
            for node in block
            if isinstance(node, ast.FunctionDef)
        ):
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            calls.sort(key=lambda call: (call.end_lineno, call.end_col_offset))
            names = [name for call in calls if (name := _name(call.func))]
            if len(names) >= 2:
                yield path.relative_to(root.parent).as_posix(), names


def _name(called: ast.expr) -> str | None:
    """Return the last name of what is called, or None where it has none."""
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else None
