"""The values of a metric over all batches, with facts about them.

The facts are denominators, equal scores, and what is not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from torch import Tensor

from tailmetrics.metrics._aggregations import Aggregation, ValueFacts
from tailmetrics.metrics._states import States


@dataclass(frozen=True, eq=False)
class Result:
    """The values of a metric over all batches and processes, with facts about them.

    Attributes:
        values: The values, as ``compute`` returns them.
        facts: Further facts from the states, over all rows.
        not_measured: Keys whose values are 0 by convention, because they are averages
            of no label.
        tied_shares: For each cut-off (None: of relevant labels), the share of rows with
            equal scores on both sides.
        denominators: By key, the denominator of a value and what it counts, such as
            ``(60.0, "rows")``.
        errors: By key, the largest possible error of a value that was computed from
            bins of scores.
    """

    values: Tensor
    facts: ValueFacts
    not_measured: frozenset[str]
    tied_shares: Mapping[int | None, float]
    denominators: Mapping[str, tuple[float, str]]
    errors: Mapping[str, float]


def result_of(metric: Any, group_states: Sequence[States]) -> Result:
    """Return the values of the states of each row group, with facts about them.

    The first group is all rows.
    """
    aggregation = metric.aggregation
    return Result(
        values=metric.shaped([aggregation.values(states) for states in group_states]),
        facts=aggregation.facts(group_states[0]),
        not_measured=not_measured(metric, group_states),
        tied_shares=tied_shares(metric, group_states[0]),
        denominators=_by_key(
            metric, group_states, lambda states: _denominators(aggregation, states)
        ),
        errors=_by_key(
            metric, group_states, lambda states: [aggregation.errors(states)]
        ),
    )


def not_measured(metric: Any, group_states: Sequence[States]) -> frozenset[str]:
    """Return the keys of averages of no label, whose values are 0 by convention."""
    flags = _by_key(metric, group_states, metric.aggregation.not_measured)
    return frozenset(key for key, is_empty in flags.items() if is_empty)


def tied_shares(metric: Any, states: States) -> dict[int | None, float]:
    """Return by cut-off the share of rows with equal scores on both sides.

    For the cut-off None, this is the share of rows with a relevant label that ties.
    """
    tie_count = metric._tie_count
    if tie_count is None:
        return {}
    rows, *tied_rows = metric.aggregation.row_format.totals(states[tie_count.name])
    if not rows:
        return dict.fromkeys(tie_count.cuts, 0.0)
    return {
        cut: tied / rows for cut, tied in zip(tie_count.cuts, tied_rows, strict=True)
    }


def _denominators(
    aggregation: Aggregation, states: States
) -> list[list[tuple[float, str]]]:
    """Return by cut-off and bucket the denominator of a value, and what it counts.

    The list is empty for values without denominators.
    """
    counted = aggregation.denominators(states)
    if counted is None:
        return []
    what, by_cutoff = counted
    return [[(number, what) for number in numbers] for numbers in by_cutoff]


def _by_key(
    metric: Any,
    group_states: Sequence[States],
    by_cutoff: Callable[[States], Sequence[Sequence[Any]] | None],
) -> dict[str, Any]:
    """Return by key the numbers that a function of states returns.

    The function returns them by cut-off and bucket, or None for no key.
    """
    values: dict[str, Any] = {}
    for group, states in zip(metric.group_keys(), group_states, strict=True):
        flat = chain.from_iterable(by_cutoff(states) or ())
        values |= zip(metric.row_keys(group), flat, strict=False)
    return values
