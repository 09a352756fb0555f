"""What a formula is given, a ranking, or arrays that are ranked first; how it divides; and what it may return."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from math import log
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_choice, check_cutoffs, shape_of
from tailmetrics.metrics._states import REAL, FixedPoint
from tailmetrics.ranking import TargetRanks
from tailmetrics.ranking._device import made_once, real_dtype
from tailmetrics.ranking._device import ordered_sum as ordered_sum
from tailmetrics.ranking._inputs import Batch, Context
from tailmetrics.ranking._ranking import rank_batch
from tailmetrics.ranking._reading import Depth

LARGEST_EXPONENT = 1024
"""The first power of two that float64 does not hold."""


def divide(top: Tensor, bottom: Tensor | int) -> Tensor:
    """Return ``top / bottom`` in float64; 0 where ``bottom`` is 0, for what is counted there is 0 too.

    Raises:
        TypeError: If either is floating but not float64: digits are lost already.
    """
    for part in (top, bottom):
        if not isinstance(part, Tensor) or part.dtype == torch.float64 or not part.is_floating_point():
            continue
        if part.dtype != real_dtype(part.device):
            raise TypeError(
                f"divide: a part is {shape_of(part)}, which has lost digits; keep whole numbers or float64: "
                "hits.double() * 0.5 instead of hits * 0.5."
            )
    top = top if top.dtype == torch.float64 else top.to(real_dtype(top.device))
    if isinstance(bottom, int):
        return top / max(bottom, 1)
    return top / bottom.clamp(min=torch.finfo(bottom.dtype).tiny if bottom.is_floating_point() else 1)


def exponential_gain(gains: Tensor) -> Tensor:
    """Return 2^gain - 1."""
    # exact for whole grades; of others torch's exp2 depends on their place in memory, and loses digits of small ones
    powers = _powers_of_two(gains.device)[gains.to(torch.int64).clamp(0, LARGEST_EXPONENT)]
    return torch.where(gains == gains.floor(), powers - 1, (gains * log(2)).expm1())


@made_once
def _powers_of_two() -> Tensor:
    """Return 2^e for each exponent from 0; a device's own ``exp2`` may be off by a bit."""
    powers = [*(2.0**exponent for exponent in range(LARGEST_EXPONENT)), torch.inf]
    return torch.tensor(powers, dtype=torch.float64, device="cpu")


Value = TypeVar("Value")


def formula(function: Callable[..., Value], reads: Depth | None = None) -> Callable[..., Value]:
    """Let a formula of a ranking take ``preds, target`` in its place, by position or keyword.

    Args:
        function: Takes a ranking first, and may take a cut-off named ``k``.
        reads: How much of arrays is ranked; None for the first k, or, where k is None or there is no k, for what
            ``ranking.exact`` needs.

    Returns:
        The function of a ranking or of arrays, which refuses by name what its arguments cannot be.
    """
    shape = signature(function)
    first, *others = shape.parameters.values()
    ranking_name = first.name
    arrays = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("preds", "target")]
    of_arrays = shape.replace(parameters=[*arrays, *others])
    names = list(of_arrays.parameters)
    choices = {name: get_args(kind) for name, kind in get_type_hints(function).items() if get_origin(kind) is Literal}

    @wraps(function)
    def either(*args: Any, **kwargs: Any) -> Value:
        for name, known in choices.items():
            if name in kwargs and kwargs[name] not in known:  # only then: formulas are called often
                check_choice(either.__name__, name, kwargs[name], known)
        if "ranking" in kwargs:
            kwargs[ranking_name] = kwargs.pop("ranking")
        if ranking_name in kwargs or (args and isinstance(args[0], TargetRanks)):
            return function(*args, **kwargs)
        try:
            rest = of_arrays.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{either.__name__}: {error}; pass {either.__name__}({', '.join(names)}).") from None
        preds, target, k = rest.pop("preds"), rest.pop("target"), rest.get("k")
        if "k" in shape.parameters:
            check_cutoffs(either.__name__, k, optional=shape.parameters["k"].default is None)
        deepest = max(k) if isinstance(k, tuple) else k
        depth = reads or (Depth(0) if deepest is None else Depth(deepest, deepest))
        ranking = rank_batch(Context(either.__name__, warns=True), Batch(preds, target), depth)
        return function(ranking, **rest)

    return either


def check_returned_values(
    caller: str, method: str, values: Any, ranks: TargetRanks, fixed_point: FixedPoint, validate: bool
) -> None:
    """Raise unless the values per row that a formula returned can be added up without loss."""
    rows = ranks.n_relevant
    if not isinstance(values, Tensor) or values.shape != rows.shape:
        raise TypeError(
            f"{caller}: {method} returned {shape_of(values)}; return one number per row: a tensor of the shape of "
            f"n_relevant, {list(rows.shape)}."
        )
    whole = values.dtype in (torch.bool, *INTEGERS)
    if whole != (fixed_point.limbs == 0) or (not whole and values.dtype != real_dtype(values.device)):
        raise TypeError(
            f"{caller}: {method} returned {shape_of(values)}; return float64, such as divide(hits, n) or "
            "hits.double(), so that no digit is lost, or bools or whole numbers with fixed_point = COUNT."
        )
    if not validate or not values.numel():
        return
    low, high = (float(bound) for bound in torch.aminmax(values.to(real_dtype(values.device))))
    # a quotient of sums may be rounded to a little more than 1
    if not whole and not 0 <= low <= high <= fixed_point.largest * (1 + 1e-9):
        most = "" if fixed_point is REAL else f" and at most {fixed_point.largest:g}, or larger with fixed_point = REAL"
        raise ValueError(
            f"{caller}: {method} returned {high if low >= 0 else low}; values are numbers of at least 0{most}."
        )
    if bool((values[rows == 0] != 0).any()):
        raise ValueError(
            f"{caller}: {method} returned other than 0 for a row without a relevant label; return 0 there."
        )
