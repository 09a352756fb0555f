"""Without an extra the metrics work, and what needs one says which to install."""

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
    """The error of a statement in a process that cannot import these modules; empty without one."""
    code = PREPARE.format(modules=modules) + CATCH.format(statement=statement)
    result: str = processes.run_in_process(code)
    return result


@pytest.mark.parametrize(
    ("module", "extra", "statement"),
    [
        ("pyarrow", "cli", "evaluate(run, qrels, metrics=metrics)"),
        ("jinja2", "report", "evaluate(scores, target, metrics=metrics).write('.')"),
        ("rich", "report", "from tailmetrics.report import print_report; print_report(evaluate(scores, target))"),
        ("rich", "lightning", "import tailmetrics.lightning"),
    ],
)
@pytest.mark.slow
def test_what_needs_an_extra_names_it(module: str, extra: str, statement: str) -> None:
    """An error of Python alone would name a module, which is not what a user installs."""
    error = error_without((module,), statement)
    assert module in error
    assert f"pip install 'tailmetrics[{extra}]'" in error


@pytest.mark.slow
def test_the_core_needs_no_extra() -> None:
    """A collection and a report of tensors, which can be read as text, with all extras away."""
    assert error_without(EXTRAS, "result = str(evaluate(scores, target, metrics=metrics).scalars)") == ""
