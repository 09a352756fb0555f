"""How good a top-k model is from its most frequent labels to its rarest: stateful metrics for TorchMetrics.

``from tailmetrics import *`` brings every metric, what ranks and what groups labels, ``functional`` and ``evaluate``.
"""

import typing as _typing
from importlib import import_module as _import_module

from tailmetrics import functional as functional
from tailmetrics.buckets import LabelBuckets as LabelBuckets
from tailmetrics.collection import TopKCollection as TopKCollection
from tailmetrics.frequency import LabelFrequency as LabelFrequency
from tailmetrics.metrics import *  # noqa: F403 - one line per metric, in one place
from tailmetrics.metrics import REGISTRY as REGISTRY
from tailmetrics.metrics import RatioMetric as RatioMetric
from tailmetrics.metrics import RowMeanMetric as RowMeanMetric
from tailmetrics.metrics import TopKMetric as TopKMetric
from tailmetrics.ranking import Ranking as Ranking
from tailmetrics.ranking import rank as rank
from tailmetrics.ranking import rank_chunks as rank_chunks
from tailmetrics.ranking import rank_shards as rank_shards

__version__ = "0.1.0"

if _typing.TYPE_CHECKING:
    from tailmetrics.evaluation import evaluate as evaluate
else:
    __all__ = [
        "LabelBuckets",
        "LabelFrequency",
        "Ranking",
        "RatioMetric",
        "RowMeanMetric",
        "TopKCollection",
        "TopKMetric",
        "evaluate",
        "functional",
        "rank",
        "rank_chunks",
        "rank_shards",
    ]
    __all__.extend(REGISTRY)

    def __getattr__(name: str) -> object:
        """Import what makes reports, which needs more than the core, when it is asked for."""
        if name == "evaluate":
            return _import_module("tailmetrics.evaluation").evaluate
        raise AttributeError(f"module 'tailmetrics' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*globals(), "evaluate"]
