"""Comparisons of runs and confidence intervals, computed from the values of rows.

>>> from tailmetrics.significance import compare, correct, intervals
"""

from tailmetrics.significance.blind_spots import BlindSpots, blind_spots
from tailmetrics.significance.comparing import Comparison, PValues, alike, compare, correct, verdict
from tailmetrics.significance.estimating import Interval, Method, intervals
from tailmetrics.significance.labels import AreaRows, LabelRows, ShownRows
from tailmetrics.significance.planning import rows_needed
from tailmetrics.significance.rows import RowValues

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
