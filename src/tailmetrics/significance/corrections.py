"""Corrections of p-values for the number of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from tailmetrics._checks import check_choice
from tailmetrics.significance._statistics import Array

Correction: TypeAlias = Literal["holm", "bonferroni", "bh", "none"]
CORRECTIONS: tuple[Correction, ...] = ("holm", "bonferroni", "bh", "none")


def correct(p_values: Sequence[float], correction: Correction = "holm") -> list[float]:
    """Return p-values that may be held against one level together.

    In [0, 1], never below the p-value itself; NaN stays NaN and is not counted as a comparison.

    Args:
        p_values: Of all comparisons made.
        correction: ``"holm"`` and ``"bonferroni"`` bound the chance of any false discovery under any dependence;
            ``"bh"`` (Benjamini-Hochberg) bounds the expected share of false ones among the discoveries.

    >>> correct([0.5, 0.25, 0.0625])
    [0.5, 0.5, 0.1875]

    Source: Holm, Scandinavian Journal of Statistics 6 (1979); Benjamini and Hochberg, JRSS B 57 (1995).
    """
    check_choice("correct", "correction", correction, CORRECTIONS)
    try:
        corrected = np.array(p_values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("correct: p_values holds other things than numbers; pass a list of p-values.") from None
    tested = ~np.isnan(corrected)
    p = corrected[tested]
    if p.size and correction == "bonferroni":
        p = np.minimum(1, p * p.size)
    elif p.size and correction == "holm":
        p = _holm(p)
    elif p.size and correction == "bh":
        from scipy.stats import false_discovery_control  # tailmetrics.significance is imported without the extras

        p = false_discovery_control(p, method="bh")
    corrected[tested] = p
    return [float(value) for value in corrected]


def _holm(p: Array) -> Array:
    order = np.argsort(p)
    steps = p[order] * np.arange(p.size, 0, -1)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1, np.maximum.accumulate(steps))
    return corrected
