"""A test collection that every scientific Python installation holds: docstrings.

A document is the docstring of a public function or class, without its "See Also"; a
query the name and first paragraph of one; relevant are the functions that its authors
named in its "See Also". The sources are those of installed packages that tailmetrics'
`dev` extra draws in; they are parsed, never run. A fixed fifth of the queries is held
out; the links of the others are what is known of how often a document is asked for.
"""

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

PACKAGES = ("networkx", "numpy", "pandas", "scipy", "sklearn")
SEE_ALSO = re.compile(
    r"^See Also\n-{3,}\n(.*?)(?=\n\n[^\n]+\n-{3,}|\Z)", re.DOTALL | re.MULTILINE
)


class Collection(NamedTuple):
    """Documents, queries and links, by names such as `numpy/asarray`.

    Attributes:
        documents: The text of each document.
        queries: The text of each query with links; its own document is left out.
        links: The documents that a query's authors point to.
    """

    documents: dict[str, str]
    queries: dict[str, str]
    links: dict[str, list[str]]

    @property
    def test(self) -> list[str]:
        """Names of the held-out queries."""
        return [name for name in self.queries if crc32(name.encode()) % 5 == 4]

    @property
    def train(self) -> list[str]:
        """Names of the other queries."""
        return [name for name in self.queries if crc32(name.encode()) % 5 != 4]


def read_collection(packages: tuple[str, ...] = PACKAGES) -> Collection:
    """Return the docstrings of names that stand for one thing in their package.

    Other names would be ambiguous.
    """
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    links: dict[str, list[str]] = {}
    texts_by_name: dict[str, list[str]] = {}
    for package in packages:
        for name, text in _docstrings(package):
            texts_by_name.setdefault(f"{package}/{name}", []).append(text)
    single = {
        name: texts[0] for name, texts in texts_by_name.items() if len(texts) == 1
    }
    for name, text in single.items():
        documents[name] = f"{name.rpartition('/')[2]} {SEE_ALSO.sub('', text)}"
        named = [
            other for other in _named(name, text) if other in single and other != name
        ]
        if named:
            queries[name] = f"{name.rpartition('/')[2]} {_summary(text)}"
            links[name] = list(dict.fromkeys(named))
    return Collection(documents, queries, links)


def _docstrings(package: str) -> Iterator[tuple[str, str]]:
    """Yield public functions, classes and methods with docstrings of several lines."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{package} is not installed; make test draws it in.")
    root = Path(spec.origin).parent
    for path in sorted(
        path for path in root.rglob("*.py") if "tests" not in path.parts
    ):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(
                node, (ast.FunctionDef, ast.ClassDef)
            ) and not node.name.startswith("_"):
                text = ast.get_docstring(node) or ""
                if "\n" in text:
                    yield node.name, text


def _summary(text: str) -> str:
    return text.partition("\n\n")[0]


def _named(name: str, text: str) -> Iterator[str]:
    """Yield the names in the "See Also" of a docstring.

    Its lines read `first, module.second : What they do`.
    """
    section = SEE_ALSO.search(text)
    for line in section[1].splitlines() if section else ():
        if line and not line[0].isspace():
            for word in re.split(r"\s:", line.rstrip(" :"))[0].split(","):
                yield f"{name.partition('/')[0]}/{word.strip(' `').rpartition('.')[2]}"
