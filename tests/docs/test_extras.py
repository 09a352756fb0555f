"""The core works without extras, and what needs an extra names it."""

import pytest

import processes

PREPARE = """
import sys, torch
for name in [*sys.modules, *{modules!r}]:
    if name.partition(".")[0] in {modules!r}:
        sys.modules[name] = None  # as if it were not installed
run, qrels = {{"q": {{"a": 0.9, "b": 0.1}}}}, {{"q": {{"b": 1}}}}
scores, target = torch.rand(40, 2), torch.arange(40) % 2
from tailmetrics import RecallAtK, evaluate
metrics = [RecallAtK(k=1)]
"""
CATCH = """
try:
    {statement}
    result = ""
except ImportError as error:
    result = str(error)
"""
EXTRAS = ("scipy", "rich", "matplotlib", "jinja2", "pyarrow", "duckdb")


def error_without(modules: tuple[str, ...], statement: str) -> str:
    """Return the error of a statement in a process that cannot import these modules, or
    an empty text.
    """
    code = PREPARE.format(modules=modules) + CATCH.format(statement=statement)
    result: str = processes.run_in_process(code)
    return result


@pytest.mark.parametrize(
    ("module", "extra", "statement"),
    [
        ("pyarrow", "cli", "evaluate(run, qrels, metrics=metrics)"),
        ("jinja2", "report", "evaluate(scores, target, metrics=metrics).write('.')"),
        (
            "rich",
            "report",
            "from tailmetrics.report import print_report; print_report(evaluate(scores, target))",
        ),
        ("rich", "lightning", "import tailmetrics.lightning"),
        ("pyarrow", "cli", "from tailmetrics.io import read"),
    ],
)
@pytest.mark.slow
def test_the_error_for_a_missing_extra_says_what_to_install(
    module: str, extra: str, statement: str
) -> None:
    """If the module of an extra is missing, the error names the module and the pip
    command that installs the extra.
    """
    error = error_without((module,), statement)
    assert module in error
    assert f"pip install 'tailmetrics[{extra}]'" in error


@pytest.mark.slow
def test_the_core_needs_no_extra() -> None:
    """Without any extra, a collection and a report of tensors work, and the report can
    be printed.
    """
    assert (
        error_without(
            EXTRAS, "result = str(evaluate(scores, target, metrics=metrics).scalars)"
        )
        == ""
    )
