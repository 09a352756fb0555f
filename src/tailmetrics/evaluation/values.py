"""The values of an evaluation by key, with intervals, counts and errors.

There are values of metrics, of references and of other orders of equal scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

import torch
from torch import Tensor

from tailmetrics.collection import TopKCollection, buckets_by_stem
from tailmetrics.evaluation.interval_values import IntervalValues
from tailmetrics.evaluation.row_facts import Named
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._results import Result
from tailmetrics.ranking import EVERYTHING
from tailmetrics.report.report_warnings import MANY_TIES
from tailmetrics.significance.interval import Interval
from tailmetrics.significance.labels import OverLabels

Results: TypeAlias = "Sequence[tuple[TopKMetric, Result]]"
"""The metrics of an evaluation, each with its values and facts about them."""


@dataclass(frozen=True)
class Values:
    """The values of an evaluation by key.

    Attributes:
        all: The values of the metrics, NaN where nothing was measured; then gaps and
            spreads of buckets.
        ties: The share of rows with a tie by cut-off, None for ties of relevant labels.
        alternatives: Values of references and of other orders of equal scores, by name.
        counts: How many a value divides by, and of what.
        intervals: The confidence intervals.
        errors: The largest error of values from bins of scores.
    """

    all: Mapping[str, float]
    ties: Mapping[int | None, float]
    alternatives: Mapping[str, Mapping[str, float]]
    counts: Mapping[str, tuple[float, str]]
    intervals: Mapping[str, Interval]
    errors: Mapping[str, float]


def values_of(
    collection: TopKCollection,
    interval_values: IntervalValues,
    results: Results,
    averages: Mapping[str, OverLabels],
) -> Values:
    """Return the values of an evaluation over all processes; call it in every process.

    Args:
        collection: The metrics.
        interval_values: What intervals are computed from.
        results: The metrics with their results.
        averages: The contributions of rows to averages over labels, by key.
    """
    computed = collection.compute()
    references = collection.references()
    values = _read(computed | collection.summaries(computed, references))
    counts = {}
    for _, result in results:
        # averages over labels are 0 by convention where nothing is relevant: a reader
        # would take it for a result
        for key in result.not_measured:
            values[collection.named(key)] = math.nan
        for key, count in result.denominators.items():
            counts[collection.named(key)] = count

    ties = _ties(results)
    alternatives = {name: _read(reference) for name, reference in references.items()}
    if max(ties.values(), default=0.0) > MANY_TIES:
        for name, order in collection.orders().items():
            alternatives[name] = _read(order)
    intervals = interval_values.intervals(values, averages)
    errors = _errors(collection.named, results, values)
    return Values(values, ties, alternatives, counts, intervals, errors)


def _errors(
    named: Named, results: Results, values: Mapping[str, float]
) -> dict[str, float]:
    """Return the largest error that bins of scores leave in each value and summary."""
    errors: dict[str, float] = {}
    for metric, result in results:
        errors |= {named(key): error for key, error in result.errors.items()}
        for stem, keys in buckets_by_stem(metric).items():
            measured = [
                key for key in keys if not math.isnan(result.errors.get(key, math.nan))
            ]
            if len(measured) < 2:
                continue
            gap, spread = named(f"{stem}/gap"), named(f"{stem}/spread")
            errors[gap] = result.errors[measured[0]] + result.errors[measured[-1]]
            # standard deviation and mean err by as much as a value, at most
            largest = max(result.errors[key] for key in measured)
            mean = fmean(values[named(key)] for key in measured)
            if largest > 0:
                errors[spread] = (
                    largest * (1 + values[spread]) / max(mean - largest, largest)
                )
    return errors


def _read(values: Mapping[str, Tensor]) -> dict[str, float]:
    """Return scalar tensors as floats, with a single read of the device."""
    if not values:
        return {}
    return dict(zip(values, torch.stack(list(values.values())).tolist(), strict=True))


def _ties(results: Results) -> dict[int | None, float]:
    """Return the share of rows with a tie by cut-off.

    None, which comes last, stands for ties of relevant labels.
    """
    shares = []
    for _, result in results:
        shares += list(result.tied_shares.items())
    return dict(sorted(shares, key=lambda pair: (pair[0] or EVERYTHING, pair[1])))
