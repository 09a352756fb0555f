"""Lightning comes in two packages; the callback works with whichever are installed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

PACKAGES = ("pytorch_lightning", "lightning.pytorch")


def callback_bases() -> tuple[type, ...]:
    """Return the class ``Callback`` of every package that is installed."""
    return tuple(import_module(name).Callback for name in _installed())


def same_random_numbers() -> AbstractContextManager[None]:
    """Return a context that leaves the random numbers of torch, numpy and Python as they were before it."""
    context: AbstractContextManager[None] = import_module(f"{_installed()[0]}.utilities.seed").isolate_rng()
    return context


def say(text: str) -> None:
    """Log a line as Lightning logs its own: shown by default, once for all processes."""
    import_module(f"{_installed()[0]}.utilities").rank_zero_info(text)


def lightning_class_of(owner: Any, method: str) -> type:
    """Return the class of Lightning that ``owner`` has ``method`` from, unless it has one of its own."""
    bases = (base for base in type(owner).__mro__ if base.__module__.startswith(PACKAGES))
    return next(base for base in bases if method in dir(base))


def _installed() -> list[str]:
    found = [name for name in PACKAGES if _is_there(name)]
    if not found:
        raise ImportError(
            "tailmetrics.lightning needs Lightning; install it with: pip install 'tailmetrics[lightning]'"
        )
    return found


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # any folder called "lightning" is found as a package
        return False
