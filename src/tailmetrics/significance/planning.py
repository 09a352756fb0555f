"""How many rows would show a difference: the inverse of the least difference that so many rows show."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil, inf, isfinite, isnan, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tailmetrics._arguments import check_number
from tailmetrics.significance.estimating import FEW, Estimate
from tailmetrics.significance.rows import RowValues, read_models

CALLER = "rows_needed"
POWER = 0.8
"""The probability that a test finds a true difference of the least size: the usual choice (Cohen 1988)."""
AGREEMENT = 0.5
"""The assumed correlation of two models in a row: their difference then varies as much as one of the models."""
MOST_ROWS = 2**53
"""The largest number of rows that is looked at: every larger one is no float."""


@dataclass(frozen=True)
class Plan:
    """How many rows of one key would show a difference.

    Attributes:
        key: The key.
        rows: The number of rows that count.
        least_difference: The smallest true difference that these rows show; NaN where they are too few.
        rows_needed: The number of rows that count with which the difference is shown; None where fewer than 10 rows, or
            clusters, count, all agree, or bins of scores leave more open than the difference.
        more_rows: How many rows the whole test set lacks for that, if the share of rows that count stays; or None.
    """

    key: str
    rows: int
    least_difference: float
    rows_needed: int | None
    more_rows: int | None


def least_difference(error: float, degrees: float, level: float, power: float = POWER) -> float:
    """Return the smallest true difference that a two-sided test at this level finds with this power.

    Args:
        error: The standard error of the difference.
        degrees: Its degrees of freedom.
        level: The level of the test.
        power: The probability of finding the difference.
    """
    from scipy.special import stdtrit  # importing tailmetrics.significance needs no scipy

    return float(stdtrit(degrees, 1 - level / 2) + stdtrit(degrees, power)) * error


def rows_needed(
    runs: Mapping[str, Any],
    difference: float,
    *,
    power: float = POWER,
    level: float = 0.05,
    agreement: float | None = None,
    clusters: ArrayLike | None = None,
) -> int:
    """Return how many rows show a true difference between two models, with the given power.

    The values of one model tell how much rows vary, but not how much the difference to another model does. This is then
    an assumption, ``agreement``.

    Args:
        runs: Name of a model -> its values of rows, of one model or two: an array of shape (N,), or any other form of
            the values of a key in :func:`tailmetrics.significance.intervals`.
        difference: The true difference.
        power: The probability that the test finds it.
        level: The level of the test. Divide it by the number of comparisons that are corrected together.
        agreement: For one model, the correlation between its values of rows and those of the other model; None for 0.5.
        clusters: Shape (N,), the cluster of each row, as for :func:`tailmetrics.significance.compare`.

    Returns:
        The number of rows that count. With clusters it is the number of clusters, times the mean number of their rows.

    Raises:
        ValueError: If the rows do not tell how much rows vary, or if an argument does not fit.

    >>> hits = [0.0, 1.0] * 50
    >>> rows_needed({"model": hits}, difference=0.1), rows_needed({"model": hits}, difference=0.05, agreement=0.8)
    (201, 320)
    """
    if not isinstance(runs, Mapping):
        raise TypeError(f"{CALLER}: runs is a {type(runs).__name__}; pass a dict, such as {{'model': values}}.")
    keyed = {name: {"values": values} for name, values in runs.items()}
    (found,) = plan(keyed, difference, power=power, level=level, agreement=agreement, clusters=clusters)
    if found.rows_needed is None:
        raise ValueError(
            f"{CALLER}: {found.rows} rows count, from which no number follows: fewer than {FEW} rows or clusters, or "
            f"rows that agree, do not tell how much rows vary; or bins of scores leave more than {difference:g} open. "
            "Pass more rows."
        )
    return found.rows_needed


def plan(
    runs: Mapping[str, RowValues],
    difference: float,
    *,
    power: float = POWER,
    level: float = 0.05,
    agreement: float | None = None,
    clusters: ArrayLike | None = None,
    medians: Collection[str] = (),
) -> list[Plan]:
    """Return how many rows of each key show a true difference; ``medians`` have no plan.

    For the arguments see :func:`rows_needed`; each run is a dict from key to values of rows.
    """
    check_number(CALLER, "difference", difference, 1e-12, float("inf"))
    check_number(CALLER, "power", power, 0.5, 0.9999)
    check_number(CALLER, "level", level, 1e-12, 0.5)
    if len(runs) not in (1, 2):
        raise ValueError(f"{CALLER}: {len(runs)} runs given; pass one model, or the two that are compared.")
    if agreement is not None and len(runs) == 2:
        raise ValueError(f"{CALLER}: agreement={agreement} is for one run; the rows of two runs tell it. Leave it out.")
    check_number(CALLER, "agreement", AGREEMENT if agreement is None else agreement, -1.0, 0.9999)
    limits = list[float]()
    models, together, num_rows = read_models(CALLER, runs, clusters, medians, (), {}, ())
    # the variance of the difference of two models, in variances of one
    factor = 1.0 if len(runs) == 2 else 2 * (1 - (AGREEMENT if agreement is None else agreement))
    found = []
    for key in next(iter(models.values())):
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            one = Estimate([of[key] for of in models.values()], together, "rows")
            error = one.error()[0] * sqrt(factor)
        units, off = one.facts.units, one.bin_error * (3 - len(runs))
        limits.append((2.0 if one.kind == "gap" else 1.0) if isfinite(one.bounds[1]) else inf)
        if units < FEW or isnan(error) or error == 0 or not off < difference <= limits[-1]:
            found.append(Plan(key, one.n, float("nan"), None, None))
            continue
        fewest = max(FEW, ceil(-log2(level)))  # with fewer, no swap of rows reaches a p of `level`

        def least(number: int, spread: float = error * sqrt(units), off: float = off) -> float:
            return least_difference(spread / sqrt(number), number - 1, level, power) + off

        needed = bisect_left(range(MOST_ROWS), True, lo=fewest, key=lambda number: least(number) <= difference)
        rows = ceil(needed * one.n / units)
        shown = least(units) if units >= fewest else float("nan")
        found.append(Plan(key, one.n, shown, rows, max(0, ceil(rows * num_rows / one.n) - num_rows)))
    if difference > max(limits, default=inf):
        raise ValueError(
            f"{CALLER}: difference={difference:g} is more than values from 0 to 1 can differ; two points of a "
            "percentage are 0.02."
        )
    return found
