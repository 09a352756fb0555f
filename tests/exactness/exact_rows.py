"""Sums over rows without any rounding, from the values per row."""

from __future__ import annotations

from fractions import Fraction
from math import isnan
from typing import Any

from tailmetrics import Ranking
from tailmetrics.metrics import TopKMetric


def exact_terms(metric: TopKMetric, ranking: Ranking) -> dict[str, tuple[Fraction, Fraction]]:
    """Numerator and denominator of each key: for a mean the sum of the rows that count and their number."""
    terms: dict[str, tuple[Fraction, Fraction]] = {}
    values: dict[str, Any] = metric.row_values(ranking)  # type: ignore[attr-defined]
    for key, of_rows in values.items():
        if isinstance(of_rows, tuple):
            top, bottom = (sum(map(Fraction, part.tolist()), Fraction(0)) for part in of_rows)
        else:
            counted = [Fraction(value) for value in of_rows.tolist() if not isnan(value)]
            top, bottom = sum(counted, Fraction(0)), Fraction(len(counted))
        terms[key] = top, bottom
    return terms
