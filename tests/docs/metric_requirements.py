"""What CONTRIBUTING.md requires of a metric and of a formula of the library, and what
one of them lacks.
"""

import ast
import doctest
import inspect
import math
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import oracle
import tailmetrics
from cases import EVERY_CASE
from tailmetrics import functional, metrics
from tailmetrics.metrics import REGISTRY, TopKMetric

DOCS = Path(__file__).parents[2] / "docs"
ORACLES = {
    *oracle.ROW_METRICS,
    *oracle.RATIO_METRICS,
    *oracle.PREDICTION_METRICS,
    "KForRecall",  # oracle.evaluate reads it by name
    "TieRateAtK",  # oracle.tie_rate
}


def families() -> Iterator[Path]:
    """Yield the files of metrics; files that start with an underscore hold shared
    code.
    """
    yield from sorted(Path(metrics.__file__).parent.glob("[a-z]*.py"))


def classes() -> set[str]:
    """Return the names of the metrics that the files define, imported or not."""
    names = set()
    for path in families():
        module = import_module(f"tailmetrics.metrics.{path.stem}")
        local_values = (
            value
            for value in vars(module).values()
            if getattr(value, "__module__", "") == module.__name__
        )
        names |= {
            kind.__name__
            for kind in local_values
            if inspect.isclass(kind)
            and issubclass(kind, TopKMetric)
            and not _is_base(kind)
        }
    return {name for name in names if not name.startswith("_")}


def _is_base(kind: type) -> bool:
    """Whether a class of the library is derived from this class."""
    return any(
        subclass.__module__.startswith("tailmetrics.")
        for subclass in kind.__subclasses__()
    )


def formulas() -> set[str]:
    """Return the names of the public functions that the files of metrics define."""
    trees = (ast.parse(path.read_text()) for path in families())
    names = {
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    return {name for name in names if not name.startswith("_")}


def reference_entries(page: str) -> set[str]:
    """Return the names of the entries of a page of the reference."""
    return set(
        re.findall(
            r"^::: ([\w.]+)$",
            (DOCS / "reference" / f"{page}.md").read_text(),
            re.MULTILINE,
        )
    )


def missing_parts_of_metric(name: str) -> list[str]:
    """Return what is missing for a metric: in the package, in the tests, in the
    documentation and in the class itself.
    """
    metric = REGISTRY.get(name)
    if metric is None:
        return ["its name in __all__ of its file in tailmetrics/metrics"]
    definitions = (DOCS / "definitions.md").read_text()
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(metric) or "")
    low, high = metric.bounds
    parts = {
        "its name in the package": getattr(tailmetrics, name, None) is metric,
        "a case in tests/cases.py": any(case.name == name for case in EVERY_CASE),
        "a second reading in tests/oracle.py": name.replace("AtThreshold", "AtK")
        in ORACLES,
        "a line in a table of docs/definitions.md": re.search(
            rf"^\| .*`{name}`", definitions, re.MULTILINE
        ),
        "its key in docs/definitions.md": f"`{metric.stem}" in definitions
        or f"{metric.stem}@" in definitions,
        "its name in docs/reference/metrics.md": f"tailmetrics.{name}"
        in reference_entries("metrics"),
        "an example with its value": any(
            re.search(r"\d|nan", example.want) for example in examples
        ),
        "a direction": any(
            "higher_is_better" in vars(base)
            for base in metric.__mro__[: metric.__mro__.index(TopKMetric)]
        ),
        "a range": -math.inf < low < high,
    }
    return [part for part, is_present in parts.items() if not is_present]


def missing_parts_of_formula(name: str) -> list[str]:
    """Return what is missing for a formula in the package and in the documentation,
    with the command that writes it.
    """
    parts = {
        "a place in tailmetrics/functional.py": hasattr(functional, name),
        "its name in docs/reference/functional.md": f"tailmetrics.functional.{name}"
        in reference_entries("functional"),
    }
    return [
        f"{part}: python -m docs.make_functional"
        for part, is_present in parts.items()
        if not is_present
    ]
