"""Layer 2: the metrics, one file per family.

The ``__all__`` of a file names the metrics that come with the library.
"""

from collections.abc import Mapping
from typing import Final

from tailmetrics.metrics._metric import TopKMetric as TopKMetric
from tailmetrics.metrics._own import (
    RatioMetric as RatioMetric,
    RowMeanMetric as RowMeanMetric,
)
from tailmetrics.metrics._states import (
    COUNT as COUNT,
    REAL as REAL,
    UNIT as UNIT,
    divide as divide,
)
from tailmetrics.metrics.areas import *
from tailmetrics.metrics.catalogue import *
from tailmetrics.metrics.decisions import *
from tailmetrics.metrics.gains import *
from tailmetrics.metrics.hits import *
from tailmetrics.metrics.judgments import *
from tailmetrics.metrics.probabilities import *
from tailmetrics.metrics.propensity import *
from tailmetrics.metrics.ranks import *
from tailmetrics.metrics.tree import *
from tailmetrics.ranking._sums import ordered_sum as ordered_sum


def _metrics_among(names: Mapping[str, object]) -> dict[str, type[TopKMetric]]:
    """Return the classes of metrics, without their bases.

    Bases are in modules whose names begin with an underscore.
    """
    metrics = {}
    for name, value in names.items():
        if not isinstance(value, type) or not issubclass(value, TopKMetric):
            continue
        module = value.__module__.rpartition(".")[2]
        if not module.startswith("_"):
            metrics[name] = value
    return metrics


REGISTRY: Final[dict[str, type[TopKMetric]]] = _metrics_among(globals())
"""Every metric by name.

A class has ``stem`` (the key without its cut-off), ``higher_is_better`` and ``bounds``.
"""
