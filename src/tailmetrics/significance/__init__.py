"""Comparisons of runs and confidence intervals, computed from the values of rows.

>>> from tailmetrics.significance import compare, correct, intervals
"""

from tailmetrics.significance.areas import AreaRows
from tailmetrics.significance.blind_spots import BlindSpots, blind_spots
from tailmetrics.significance.comparing import (
    Comparison,
    PValues,
    alike,
    compare,
    correct,
)
from tailmetrics.significance.estimating import intervals
from tailmetrics.significance.interval import Interval, Method
from tailmetrics.significance.labels import LabelRows, ShownRows
from tailmetrics.significance.planning import rows_needed
from tailmetrics.significance.rows import RowValues
from tailmetrics.significance.verdict import verdict

__all__ = [
    "AreaRows",
    "BlindSpots",
    "Comparison",
    "Interval",
    "LabelRows",
    "Method",
    "PValues",
    "RowValues",
    "ShownRows",
    "alike",
    "blind_spots",
    "compare",
    "correct",
    "intervals",
    "rows_needed",
    "verdict",
]
