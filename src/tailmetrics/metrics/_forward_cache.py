"""What Lightning reads of a metric that ``self.log`` is given: the moment to say that it takes one value."""

from __future__ import annotations

import sys
from typing import Any

RESULTS = "trainer.connectors.logger_connector.result"
"""The module of Lightning, in either package, that reads it."""


class ForwardCache:
    """The attribute ``_forward_cache`` of a metric: what ``forward`` returned last.

    Lightning reads it at each ``self.log(name, metric)``, and nobody else does from outside. Without a word here it
    fails at the end of the epoch, where a metric of several values is taken for one.
    """

    def __get__(self, metric: Any, owner: type) -> Any:
        """Return what ``forward`` returned last."""
        if metric is None:
            return self
        if sys._getframe(1).f_globals.get("__name__", "").endswith(RESULTS):
            _check_single(metric)
        return vars(metric).get("_forward_cache")

    def __set__(self, metric: Any, value: Any) -> None:
        """Keep what ``forward`` returned."""
        vars(metric)["_forward_cache"] = value


def _check_single(metric: Any) -> None:
    keys = list(metric.keys())
    if (metric.k is not None and isinstance(metric.k, tuple)) or len(keys) != 1:
        held = f"{len(keys)} ({', '.join(keys[:2])}, …)" if keys else "one for each label"
        raise ValueError(
            f"{type(metric).__name__}: self.log takes one value, but this metric has {held}; make it a member of a "
            "TopKCollection, update that, and call self.log_dict(collection)."
        )
