"""Layer 0: which extra of the package brings a module that is not installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, TypeVar

from typing_extensions import ParamSpec

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

EXTRA_OF_MODULE: Final = {
    "scipy": "report",
    "rich": "report",
    "matplotlib": "report",
    "jinja2": "report",
    "pyarrow": "cli",
    "duckdb": "cli",
}
"""The smallest extra that brings a module."""


def extra_hint(error: ModuleNotFoundError, extra: str | None = None) -> str | None:
    """Return which module is missing and how to install it.

    The result is None for a module that no extra brings.

    Args:
        error: The error of the import.
        extra: The extra that brings all that is needed; None takes the smallest that
            brings the module.
    """
    module = (error.name or "").partition(".")[0]
    if module not in EXTRA_OF_MODULE:
        return None
    return (
        f"{module}, which is not installed; pip install "
        f"'tailmetrics[{extra or EXTRA_OF_MODULE[module]}]'"
    )


def names_missing_extra(
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Return a function that names the extra to install where a module is missing."""

    @wraps(function)
    def named(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except ModuleNotFoundError as error:
            hint = extra_hint(error)
            if hint is None:
                raise
            name = function.__qualname__.rpartition("<locals>.")[2]
            raise ImportError(f"{name} needs {hint}") from error

    return named
