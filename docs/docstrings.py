"""Turns roles of docstrings into links, and doctests into blocks of code.

mkdocstrings loads this file. Each link must resolve.
"""

from __future__ import annotations

import re
from functools import cache
from inspect import cleandoc
from pathlib import Path
from pydoc import locate
from typing import Any

from griffe import Extension, Object

ROLE = re.compile(r":(?:class|meth|func):`~?([\w.]+)`")
DOCTEST = re.compile(r"^>>> .*?(?=\n[ \t]*\n|\Z)", re.DOTALL | re.MULTILINE)
RENDERED = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
MEMBERS = dict.fromkeys(
    ("bind", "compute", "scalars", "update"), "tailmetrics.TopKMetric"
)
"""Members that docstrings name without their class, also where another class has them.
"""
ELSEWHERE = ("torchmetrics.Metric", "reset")
"""Names of TorchMetrics, not linked: the documentation is built without a network."""


class Docstrings(Extension):
    """Rewrites the docstrings of the package as Markdown."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite one docstring, once it is loaded."""
        if obj.docstring is not None and obj.path.startswith("tailmetrics"):
            plain = _whole(obj).replace("``", "`")
            linked = ROLE.sub(lambda role: _link(role[1], obj), plain)
            obj.docstring.value = DOCTEST.sub(
                lambda lines: f"```pycon\n{lines[0]}\n```", linked
            )


def _whole(obj: Object) -> str:
    """Return the docstring of an object with all arguments.

    Arguments that the object passes on are added to its docstring when it is made.
    """
    known = locate(obj.path) if obj.is_class or obj.is_function else None
    return obj.docstring.value if known is None else cleandoc(known.__doc__)


@cache
def _reference() -> dict[str, str]:
    """Return the full name of everything that the reference shows, by its last part."""
    pages = (Path(__file__).parent / "reference").glob("*.md")
    names = [name for page in pages for name in RENDERED.findall(page.read_text())]
    # of two that end alike the shorter one is what users import
    names.sort(key=len, reverse=True)
    return {name.rpartition(".")[2]: name for name in names}


def _link(name: str, obj: Object) -> str:
    """Return a link to a member of the own class, or to a name of the reference."""
    owner = obj if obj.is_class else obj.parent
    if name in ELSEWHERE:
        return f"`{name}`"
    if owner is not None and owner.is_class and name in owner.members:
        return f"[`{name}`][{owner.path}.{name}]"
    if name in MEMBERS:
        return f"[`{name}`][{MEMBERS[name]}.{name}]"
    shown = name.removeprefix("tailmetrics.")
    first, dot, rest = shown.partition(".")
    home = _reference().get(first, f"tailmetrics.{first}")
    return f"[`{shown}`][{name if name != shown else home + dot + rest}]"
