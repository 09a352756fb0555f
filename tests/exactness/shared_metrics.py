"""Metrics of every kind, for tests that reset them before they update them."""

from functools import cache

from exactness.bits import EVERY_KIND
from tailmetrics.metrics import TopKMetric


@cache
def metrics_by_case() -> dict[str, TopKMetric]:
    """Return a metric of each case, made once: making hundreds takes a second."""
    return {str(case): case.metric() for case in EVERY_KIND}
