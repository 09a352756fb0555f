"""Formulas that take a ranking, or arrays, which they rank first."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from tailmetrics._checks import check_count
from tailmetrics.ranking import TargetRanks
from tailmetrics.ranking._context import Context
from tailmetrics.ranking._ranking import rank_batch
from tailmetrics.ranking._reading import Depth
from tailmetrics.ranking._sequences import Batch

P = ParamSpec("P")
Value_co = TypeVar("Value_co", covariant=True)
Ranks = TypeVar("Ranks", bound=TargetRanks)


class Formula(Protocol[P, Value_co]):
    """A function of a ranking that takes arrays too."""

    __name__: str

    @overload
    def __call__(self, ranking: TargetRanks, /, *args: P.args, **kwargs: P.kwargs) -> Value_co: ...

    @overload
    def __call__(self, preds: Any, target: Any, /, *args: P.args, **kwargs: P.kwargs) -> Value_co: ...

    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Value_co: ...


def formula(function: Callable[Concatenate[Ranks, P], Value_co], reads: Depth | None = None) -> Formula[P, Value_co]:
    """Let a formula of a ranking take ``preds, target`` in its place, by position or keyword.

    Args:
        function: Takes a ranking first, and may take a cut-off named ``k``.
        reads: How much of arrays is ranked; None for the first k, or, where k is None or there is no k, for what
            ``ranking.exact`` needs.

    Returns:
        The function of a ranking or of arrays.
    """
    shape = signature(function)
    first = next(iter(shape.parameters))

    @wraps(function)
    def either(*args: Any, **kwargs: Any) -> Value_co:
        if "ranking" in kwargs:
            kwargs[first] = kwargs.pop("ranking")
        if first in kwargs or (args and isinstance(args[0], TargetRanks)):
            return function(*args, **kwargs)
        preds, args = (kwargs.pop("preds"), args) if "preds" in kwargs else _first_of(either.__name__, args)
        target, args = (kwargs.pop("target"), args) if "target" in kwargs else _first_of(either.__name__, args)
        k = shape.bind(None, *args, **kwargs).arguments.get("k")
        for one in k if isinstance(k, tuple) else () if k is None else (k,):
            check_count(either.__name__, "k", one)
        deepest = max(k) if isinstance(k, tuple) else k
        depth = reads or (Depth(0) if deepest is None else Depth(deepest, deepest))
        return function(rank_batch(Context(either.__name__, doubts=True), Batch(preds, target), depth), *args, **kwargs)  # type: ignore[arg-type]

    return either


def _first_of(caller: str, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    if not args:
        raise TypeError(f"{caller}: pass a ranking, or preds and target: {caller}(preds, target, …).")
    return args[0], args[1:]
