"""Comparison of results to the last bit."""

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from cases import CASES, EVERY_CASE
from tailmetrics import Ranking
from tailmetrics.metrics import TopKMetric

CASES_OF_A_KIND = [
    case for case in CASES if "empty_target_action" not in case.arguments
]
"""Every metric with every argument except empty_target_action, which has an effect only
at compute.
"""

EVERY_KIND = [*CASES_OF_A_KIND, *(case for case in EVERY_CASE if case not in CASES)]
"""With the metrics that tests/oracle.py does not have."""

IN_THE_WHOLE_LIST = ("RecallAtK", "NDCGAtK", "MAP", "PropensityScoredPrecisionAtK")
ONE_OF_EACH = [
    *{
        (case.name, case.by, case.arguments.get("average")): case
        for case in CASES_OF_A_KIND
        if case.by != "global" or case.name in IN_THE_WHOLE_LIST
    }.values()
]
"""Every metric with every average, overall and by bucket, and one of each kind with
scope="global".
"""


def bits_of(value: Tensor) -> tuple[Any, ...]:
    """Return the type, the shape and every bit of a tensor, comparable with ==, NaN
    equal to NaN.
    """
    return (
        str(value.dtype),
        tuple(value.shape),
        value.detach().cpu().contiguous().numpy().tobytes(),
    )


def bits(metric: TopKMetric) -> tuple[Any, ...]:
    """Return the bits of ``compute()``."""
    return bits_of(metric.compute())


def states(metric: Any) -> dict[str, Any]:
    """Return the bits of every state, and the number of updates."""
    return {
        "updates": metric._update_count,
        **{name: bits_of(value) for name, value in metric.metric_state.items()},
    }


def compute_all(
    metrics: Sequence[TopKMetric], rankings: Iterable[Ranking]
) -> list[tuple[Any, ...]]:
    """Reset the metrics, feed all of them the same rankings, and return the bits of
    each.
    """
    for metric in metrics:
        metric.reset()
    for ranking in rankings:
        for metric in metrics:
            metric.update(ranking)
    return [bits(metric) for metric in metrics]


def differing(
    cases: Iterable[Any], results: Sequence[object], expected: Sequence[object]
) -> list[str]:
    """Return the cases whose result is not the expected one."""
    names = []
    for case, result, expected_result in zip(cases, results, expected, strict=True):
        if result != expected_result:
            names.append(str(case))
    return names
