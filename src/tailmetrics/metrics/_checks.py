"""Checks of a ranked batch.

Each check refuses a batch that a metric cannot read, before any state changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from tailmetrics._arguments import check_ids_in_range, shape_of
from tailmetrics._compiling import is_compiling
from tailmetrics.metrics._aggregations import with_bucket_axis
from tailmetrics.metrics._mistakes import warn_of_gains
from tailmetrics.ranking import EVERYTHING, Ranking

Check: TypeAlias = Callable[[Any, Ranking], None]
"""Raises ValueError if a metric cannot read a ranking."""


def check_batch(metric: Any, ranking: Ranking) -> None:
    """Raise unless a metric can read ``ranking``; warn of likely mistakes.

    Only the first batch is checked for likely mistakes.
    """
    if not isinstance(ranking, Ranking):
        raise TypeError(
            f"{_name(metric)}: ranking is {shape_of(ranking)}; pass a Ranking, such "
            "as tailmetrics.rank(preds, target)."
        )
    # every batch is checked for these here, since a call costs a small batch more than
    # the comparison
    scores = ranking.scores
    if scores is not None and scores.dtype == torch.bool:
        _check_decisions(metric)
    elif ranking.depth < metric.reading.required_depth.ranked and not ranking.complete:
        _refuse_shallow(metric, ranking)
    if metric._device != ranking.ids.device:
        raise ValueError(
            f"{_name(metric)}: the batch is on {ranking.ids.device}, the metric on "
            f"{metric._device}; move the metric with .to({str(ranking.ids.device)!r})."
        )

    for check in metric.batch_checks:
        check(metric, ranking)
    # only the first batch is checked for likely mistakes
    if metric._warns and not is_compiling():
        metric._warns = False
        if metric.validate_args:
            warn_of_gains(metric, ranking)
            metric.aggregation.warn_of(metric, ranking)


def checks_of(metric: Any) -> tuple[Check, ...]:
    """Return the checks that the arguments of a metric need, in order of errors."""
    reading = metric.reading
    is_needed: dict[Check, bool] = {
        _check_scores: reading.needs_scores or metric.ties != "id",
        _check_whole_lists: reading.required_depth.kept == EVERYTHING,
        _check_reading: reading.check is not None,
        _check_labels: depends_on_labels(metric) or metric.num_labels is not None,
        _check_weights: metric.weighted,
        _check_groups: metric.row_groups is not None,
        _check_answered: metric.empty_target_action == "error",
        _check_formula: metric.formula.check is not None,
    }
    return tuple(check for check, needed in is_needed.items() if needed)


def depends_on_labels(metric: Any) -> bool:
    """Whether the values of a metric depend on label ids, not only on ranks."""
    return (
        metric.buckets is not None
        or bool(metric.needs)
        or metric.formula.weights is not None
    )


def _name(metric: Any) -> str:
    """Return the name of a metric with which errors begin."""
    return type(metric).__name__


def _check_decisions(metric: Any) -> None:
    """Raise if ``preds`` are bool, and the metric reads an order."""
    if not metric.reading.required_depth.decisions:
        raise ValueError(
            f"{_name(metric)}: preds are decisions (bool) without an order; pass "
            "scores or ids."
        )


def _refuse_shallow(metric: Any, ranking: Ranking) -> None:
    """Raise: the list was cut above the depth that the metric reads."""
    needed = metric.reading.required_depth.ranked
    argument = "depth" if metric.reading.uses_depth else "k"
    raise ValueError(
        f"{_name(metric)}: {argument}={needed} is deeper than the ranking "
        f"({ranking.depth} ids per row); rank again with depth={needed}."
    )


def _check_scores(metric: Any, ranking: Ranking) -> None:
    """Raise if the ranking has no scores."""
    if ranking.scores is not None or ranking.values is not None:
        return
    if metric.ties == "id":
        raise ValueError(
            f"{_name(metric)}: preds are ranked ids, which have no scores; pass scores."
        )
    raise ValueError(
        f"{_name(metric)}: ties={metric.ties!r} reads the scores of all labels, and "
        "preds are ids; pass scores or scored candidates, or leave ties out."
    )


def _check_whole_lists(metric: Any, ranking: Ranking) -> None:
    """Raise if lists were cut that the metric reads as a whole."""
    if not ranking.complete and not ranking.scores_all:
        raise ValueError(
            f"{_name(metric)}: k=None reads whole lists, but the ranking was cut at "
            f"{ranking.depth}; rank the scores or whole lists."
        )


def _check_reading(metric: Any, ranking: Ranking) -> None:
    """Raise if the reading of the metric cannot read the ranking."""
    metric.reading.check(ranking, metric.validate_args)


def _check_labels(metric: Any, ranking: Ranking) -> None:
    """Raise if a ranking and a metric have different labels.

    The ranking may have documents without labels, another number of labels, or an id
    that is too large.
    """
    if ranking.documents is not None and depends_on_labels(metric):
        raise ValueError(
            f"{_name(metric)}: the documents of flat queries have no labels here, "
            "which this metric reads; pass update(Ranking.from_flat(preds, target, "
            "indexes, ids=labels))."
        )

    num_labels = metric.num_labels
    if num_labels is None or ranking.num_labels == num_labels:
        return
    if ranking.num_labels is not None:
        raise ValueError(
            f"{_name(metric)}: the ranking is of {ranking.num_labels} labels, the "
            f"metric of {num_labels}; make both for the same labels."
        )
    if ranking.documents is None and metric.validate_args:
        ranking.remembered(
            ("ids below", num_labels),
            lambda: _check_ids_below(_name(metric), ranking, num_labels),
        )


def _check_ids_below(caller: str, ranking: Ranking, num_labels: int) -> None:
    """Raise unless listed and relevant ids are below ``num_labels``."""
    check_ids_in_range(caller, "preds", ranking.ids, num_labels)
    check_ids_in_range(caller, "target", ranking.targets.entries.ids, num_labels)


def _check_weights(metric: Any, ranking: Ranking) -> None:
    """Raise if a batch has no row weights."""
    if ranking.rows.weights is None:
        raise ValueError(
            f"{_name(metric)}: row_weights is missing; the metric is weighted: pass "
            "update(…, row_weights=weights). evaluate takes rank(preds, target, "
            "row_weights=weights) in place of preds and target; the command line "
            "takes no weights."
        )


def _check_groups(metric: Any, ranking: Ranking) -> None:
    """Raise unless a batch has the row groups that the metric has."""
    names, groups = metric.row_groups, ranking.rows.groups
    if groups is None:
        raise ValueError(
            f"{_name(metric)}: row_groups is missing; the metric has the groups "
            f"{', '.join(names)}: pass update(preds, target, row_groups=ids), the "
            "group of each row from 0, -1 for none."
        )
    if not metric.validate_args or not groups.numel():
        return
    largest = int(groups.max())
    if largest >= len(names):
        raise ValueError(
            f"{_name(metric)}: row_groups holds {largest}, but there are {len(names)} "
            f"groups ({', '.join(names)}); numbers of groups start at 0."
        )


def _check_answered(metric: Any, ranking: Ranking) -> None:
    """Raise if a counted row has no value."""
    ranks = metric.reading.read(ranking)
    answered = metric.aggregation.answered(ranking, ranks)
    is_empty = ranking.in_counted_rows(with_bucket_axis(~answered))
    if bool(is_empty.any()):
        row = int(is_empty.nonzero()[0, 0])
        where = ""
        if metric.buckets is not None:
            where = " in some bucket"
        raise ValueError(
            f"{_name(metric)}: row {row} has {metric.formula.lacking}{where}; drop "
            "such rows with row_mask, or choose another empty_target_action."
        )


def _check_formula(metric: Any, ranking: Ranking) -> None:
    """Raise if the formula of the metric cannot read the values of the ranking."""
    if metric.validate_args:
        metric.formula.check(_name(metric), ranking)
