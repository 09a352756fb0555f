"""Metrics for models that rank labels, from the most frequent labels to the rarest.

Each is a ``torchmetrics.Metric``.

``from tailmetrics import *`` brings every metric, what ranks and what groups labels,
``functional`` and ``evaluate``.
"""

import typing as _typing
from importlib import import_module as _import_module

__version__ = "0.1.0"

if _typing.TYPE_CHECKING:
    from tailmetrics import functional as functional
    from tailmetrics.buckets import LabelBuckets as LabelBuckets
    from tailmetrics.collection import TopKCollection as TopKCollection
    from tailmetrics.evaluation import evaluate as evaluate
    from tailmetrics.frequency import LabelFrequency as LabelFrequency
    from tailmetrics.metrics import *  # noqa: F403 - one line per metric, in one place
    from tailmetrics.metrics import (
        REGISTRY as REGISTRY,
        RatioMetric as RatioMetric,
        RowMeanMetric as RowMeanMetric,
        TopKMetric as TopKMetric,
    )
    from tailmetrics.ranking import Ranking as Ranking, rank as rank
    from tailmetrics.tree import LabelTree as LabelTree
else:
    _HOMES = {
        "Ranking": "ranking",
        "rank": "ranking",
        "LabelBuckets": "buckets",
        "LabelFrequency": "frequency",
        "TopKCollection": "collection",
        "LabelTree": "tree",
        "evaluate": "evaluation",
    }
    """The module of each name; all other names are in the module of the metrics."""

    def __getattr__(name: str) -> object:
        """Import a module at the first use of a name.

        torch takes seconds to import, and ``tailmetrics --version`` needs none of it.
        """
        if name in {*_HOMES.values(), "functional", "metrics"}:
            return _import_module(f"tailmetrics.{name}")
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module 'tailmetrics' has no attribute {name!r}")
        metrics = _import_module("tailmetrics.metrics")
        if name == "__all__":
            value = [
                *_HOMES,
                "RatioMetric",
                "RowMeanMetric",
                "TopKMetric",
                "functional",
                *metrics.REGISTRY,
            ]
        else:
            home = metrics
            if name in _HOMES:
                home = _import_module(f"tailmetrics.{_HOMES[name]}")
            if not hasattr(home, name):
                raise AttributeError(f"module 'tailmetrics' has no attribute {name!r}")
            value = getattr(home, name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
