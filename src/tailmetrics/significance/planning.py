"""How many rows would show a difference.

This is the inverse of the least difference that so many rows show.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from math import ceil, isfinite, isnan, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tailmetrics._arguments import check_number
from tailmetrics._extras import names_missing_extra
from tailmetrics.significance.estimating import Estimate
from tailmetrics.significance.interval import FEW, unit_names
from tailmetrics.significance.rows import read_models

CALLER = "rows_needed"
POWER = 0.8
"""The probability of finding a difference of the least size, as usual (Cohen 1988)."""
AGREEMENT = 0.5
"""The assumed correlation of two models in a row.

Their difference then varies as much as one of the models.
"""
MOST_ROWS = 2**53
"""The largest number of rows that is tried: not every larger number is a float."""


def least_difference(
    error: float,
    degrees: float,
    rows: float,
    change: float,
    level: float,
    power: float = POWER,
) -> float:
    """Return the smallest true difference that a two-sided test finds.

    The test has this level and this power.

    A difference d arises from rows that change. If each of them changes by at least c,
    the share of rows that change is at most d / c, and the difference varies by at
    least c * d - d^2 from row to row. The smallest difference is then at least c * q /
    (1 + q), where q = (t_level + t_power)^2 / rows.

    Args:
        error: The standard error of the difference in the rows at hand.
        degrees: Its degrees of freedom.
        rows: The number of independent rows, or of clusters.
        change: The size of one change, c; 0 if nothing is known about it.
        level: The level of the test.
        power: The probability of finding the difference.

    Source: Connor, Sample size for testing differences in proportions for the
    paired-sample design, Biometrics 43 (1987).
    """
    # importing tailmetrics.significance needs no scipy
    from scipy.special import stdtrit

    quantiles = float(stdtrit(degrees, 1 - level / 2) + stdtrit(degrees, power))
    q = quantiles**2 / rows
    return max(quantiles * error, change * q / (1 + q))


@names_missing_extra
def rows_needed(
    runs: Mapping[str, Any],
    difference: float,
    *,
    power: float = POWER,
    level: float = 0.05,
    agreement: float | None = None,
    clusters: ArrayLike | None = None,
) -> int:
    """Return how many rows show a true difference of two models, with a given power.

    The rows of two models tell how much their difference varies from row to row. The
    rows of one model do not: the correlation of the two models in a row, ``agreement``,
    is then an assumption. A larger difference than that of the two models needs more
    rows to change, so that it varies more (``least_difference``).

    Args:
        runs: Name of a model -> its values of rows, of one model or two: an array of
            shape (N,), or any other form of the values of a key in
            :func:`tailmetrics.significance.intervals`.
        difference: The true difference.
        power: The probability that the test finds it.
        level: The level of the test. Divide it by the number of comparisons that are
            corrected together.
        agreement: For one model, the correlation between its values of rows and those
            of the other model; None for 0.5.
        clusters: Shape (N,), the cluster of each row, as for
            :func:`tailmetrics.significance.compare`.

    Returns:
        The number of rows that count. With clusters it is the number of clusters, times
        the mean number of their rows.

    Raises:
        ValueError: If the rows do not tell how much rows vary, or if an argument does
            not fit.

    >>> hits = [0.0, 1.0] * 50
    >>> rows_needed({"model": hits}, difference=0.1), rows_needed({"model": hits}, difference=0.05, agreement=0.8)
    (201, 320)
    """
    _check_arguments(runs, difference, power, level, agreement)
    keyed = {name: {"values": values} for name, values in runs.items()}
    models, row_clusters, _ = read_models(CALLER, keyed, clusters)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        estimate = Estimate(
            [model["values"] for model in models.values()], row_clusters, "rows"
        )
        error, _ = estimate.error()

    if isfinite(estimate.bounds[1]) and difference > 1:
        raise ValueError(
            f"{CALLER}: difference={difference:g} is more than values from 0 to 1 can "
            "differ; two points of a percentage are 0.02."
        )
    bin_error = estimate.bin_error
    if len(runs) == 1:
        correlation = AGREEMENT
        if agreement is not None:
            correlation = agreement
        error *= sqrt(2 * (1 - correlation))
        bin_error *= 2  # of both models
    units = estimate.facts.units
    names = unit_names(row_clusters)
    if units < FEW:
        raise ValueError(
            f"{CALLER}: {units} {names} count, which do not tell how much {names} "
            f"vary; pass {FEW} or more."
        )
    if isnan(error) or error == 0:
        which, remedy = "the values are equal", f"pass other {names}"
        if len(runs) == 2:
            which = "the differences of both models are equal"
            remedy += ", or one model alone with agreement="
        raise ValueError(
            f"{CALLER}: in all {units} {names} {which} or not finite, so that nothing "
            f"tells how much they vary; {remedy}."
        )
    if difference <= bin_error:
        raise ValueError(
            f"{CALLER}: bins of scores leave {bin_error:.2g} of the value open, which "
            "no number of rows closes; pass a larger difference."
        )

    spread, change = error * sqrt(units), estimate.size_of_change

    def is_shown(number: int) -> bool:
        least = least_difference(
            spread / sqrt(number), number - 1, number, change, level, power
        )
        return least + bin_error <= difference

    # with fewer, no swap of rows reaches a p of `level`
    fewest = max(FEW, ceil(-log2(level)))
    if not is_shown(MOST_ROWS):
        raise ValueError(
            f"{CALLER}: no number of rows shows difference={difference:g}; pass a "
            "larger one."
        )
    needed = bisect_left(range(MOST_ROWS), True, lo=fewest, key=is_shown)
    return ceil(needed * estimate.n / units)


def _check_arguments(
    runs: Mapping[str, Any],
    difference: float,
    power: float,
    level: float,
    agreement: float | None,
) -> None:
    """Refuse arguments of :func:`rows_needed` that do not fit."""
    if not isinstance(runs, Mapping):
        raise TypeError(
            f"{CALLER}: runs is a {type(runs).__name__}; pass a dict, such as "
            "{'model': values}."
        )
    check_number(CALLER, "difference", difference, 1e-12, float("inf"))
    check_number(CALLER, "power", power, 0.5, 0.9999)
    check_number(CALLER, "level", level, 1e-12, 0.5)
    if len(runs) not in (1, 2):
        raise ValueError(
            f"{CALLER}: {len(runs)} runs given; pass one model, or the two that "
            "are compared."
        )
    if agreement is not None:
        if len(runs) == 2:
            raise ValueError(
                f"{CALLER}: agreement={agreement} is for one run; the rows of two "
                "runs tell it. Leave it out."
            )
        check_number(CALLER, "agreement", agreement, -1.0, 0.9999)
