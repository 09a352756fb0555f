"""Whether a difference is more than chance: comparisons of runs and confidence intervals, from values per row.

>>> from tailmetrics.significance import compare, correct, intervals
"""

from tailmetrics.significance._row_values import RowValues as RowValues
from tailmetrics.significance.comparing import compare as compare
from tailmetrics.significance.comparison import Comparison as Comparison
from tailmetrics.significance.comparison import PValues as PValues
from tailmetrics.significance.corrections import correct as correct
from tailmetrics.significance.estimating import intervals as intervals
from tailmetrics.significance.interval import Interval as Interval

__all__ = ["Comparison", "Interval", "PValues", "RowValues", "compare", "correct", "intervals"]
