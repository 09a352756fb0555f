"""Whether a difference is more than chance: comparisons of runs and confidence intervals, from values per row.

>>> from tailmetrics.significance import compare, correct, intervals
"""

from tailmetrics.significance.comparing import Comparison as Comparison
from tailmetrics.significance.comparing import PValues as PValues
from tailmetrics.significance.comparing import alike as alike
from tailmetrics.significance.comparing import compare as compare
from tailmetrics.significance.comparing import correct as correct
from tailmetrics.significance.comparing import verdict as verdict
from tailmetrics.significance.estimating import Interval as Interval
from tailmetrics.significance.estimating import intervals as intervals
from tailmetrics.significance.labels import AreaRows as AreaRows
from tailmetrics.significance.labels import LabelRows as LabelRows
from tailmetrics.significance.labels import ShownRows as ShownRows
from tailmetrics.significance.rows import RowValues as RowValues

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
