"""Comparisons of runs and confidence intervals, computed from the values of rows.

>>> from tailmetrics.significance import compare, correct, intervals
"""

from tailmetrics.significance.comparing import Comparison, PValues, alike, compare, correct, verdict
from tailmetrics.significance.estimating import Interval, intervals
from tailmetrics.significance.labels import AreaRows, LabelRows, ShownRows
from tailmetrics.significance.rows import RowValues

__all__ = [
    "AreaRows",
    "Comparison",
    "Interval",
    "LabelRows",
    "PValues",
    "RowValues",
    "ShownRows",
    "alike",
    "compare",
    "correct",
    "intervals",
    "verdict",
]
