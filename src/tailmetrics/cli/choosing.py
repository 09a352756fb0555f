"""Which metrics of a config or preset are computed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch

from tailmetrics.cli.inputs import Inputs
from tailmetrics.cli.messages import CommandError, Messages, did_you_mean
from tailmetrics.cli.parser import Request
from tailmetrics.evaluation.labels import metrics_by_id
from tailmetrics.io import Dataset
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._checks import check_batch
from tailmetrics.ranking import Ranking, rank

NEEDS_OF_COUNTS = frozenset({"buckets", "label_counts"})
"""What a metric lacks as long as training counts are unknown."""


def chosen_metrics(request: Request) -> list[TopKMetric]:
    """Return the metrics of the config, except those that ``--without`` names.

    ``--without`` names metrics by class or key.

    Raises:
        CommandError: If there are no metrics, or if ``--without`` names an unknown
            metric.
    """
    if not request.metrics:
        raise CommandError(
            "there are no metrics",
            "add --preset xmc, or --config FILE with a list of metrics.",
        )
    metrics = list(request.metrics)
    for name in request.data.without or []:
        remaining = []
        for metric in metrics:
            if name.lower() not in _names_of(metric):
                remaining.append(metric)
        if len(remaining) == len(metrics):
            stems = _stems(metrics)
            hint = f"{did_you_mean([name], stems)}choose from {', '.join(stems)}."
            raise CommandError(f"--without {name}: there is no such metric", hint)
        metrics = remaining
    if not metrics:
        raise CommandError("--without leaves no metric", "leave one of them in.")
    return metrics


def _names_of(metric: TopKMetric) -> list[str]:
    """Return the names by which ``--without`` names a metric: class and stems."""
    return [type(metric).__name__.lower(), *_stems([metric])]


def _stems(metrics: Sequence[TopKMetric]) -> list[str]:
    """Return the keys of metrics without cut-off and bucket.

    A metric with a single key is also listed with its cut-off.
    """
    stems: dict[str, None] = {}
    for metric in metrics:
        keys = dict.fromkeys(key.partition("/")[0] for key in list(metric.keys()))
        stems.update(dict.fromkeys(key.partition("@")[0] for key in keys))
        if len(keys) == 1:
            stems.update(keys)
    return list(stems)


def metrics_for(
    metrics: Sequence[TopKMetric], inputs: Inputs, request: Request, messages: Messages
) -> Sequence[TopKMetric]:
    """Return the metrics for which all runs have values.

    Values by label, such as thresholds, are put in the order of label ids.

    Raises:
        ValueError: If a metric has values by label, but labels are names, which no file
            puts in order.
        CommandError: If the files answer no metric of a preset.
    """
    names = inputs.runs[0].label_names
    if names is not None:
        metrics = metrics_by_id(metrics, names, inputs.label_names, inputs.places)
    if request.preset is not None:
        for dataset in inputs.runs:
            metrics = _answered(metrics, dataset, request, messages)
    return metrics


def _answered(
    metrics: Sequence[TopKMetric],
    dataset: Dataset,
    request: Request,
    messages: Messages,
) -> list[TopKMetric]:
    """Return the metrics of a preset that the files answer, and warn of the others.

    A preset is made for a field, not for one form of its data. No metric of the user's
    own config is left out.
    """
    if request.data.train_target is None and request.data.label_counts is None:
        metrics = _without_counts(metrics, messages)
    answered = []
    for metric in metrics:
        problem = _problem_with(metric, dataset)
        if problem is None:
            answered.append(metric)
        else:
            messages.warn(f"{type(metric).__name__} is left out: {problem}")
    if not answered:
        raise CommandError(
            "the predictions answer no metric of the preset",
            "write dense scores [N, L].",
        )
    return answered


def _without_counts(
    metrics: Sequence[TopKMetric], messages: Messages
) -> list[TopKMetric]:
    """Return the metrics that need no training counts, and warn of the others.

    If all metrics need training counts, return all.
    """
    others = []
    overall = []
    by_bucket = []
    for metric in metrics:
        name = type(metric).__name__
        if NEEDS_OF_COUNTS.isdisjoint(metric.missing()):
            others.append(metric)
        elif metric.buckets is None:
            overall.append(name)
        else:
            by_bucket.append(f"{name} by bucket")
    if not others or len(others) == len(metrics):
        return list(metrics)
    names = ", ".join(dict.fromkeys([*overall, *by_bucket]))
    messages.warn(
        "No file says how often labels occur in training. So these are left out: "
        f"{names}. Add --train-target FILE or --label-counts FILE."
    )
    return others


def _problem_with(metric: TopKMetric, dataset: Dataset) -> str | None:
    """Return why a metric cannot be computed from the predictions; None if it can."""
    target = torch.zeros(1, dtype=torch.int64)
    num_labels = metric.num_labels or 1
    if dataset.preds.dense:
        ranking = Ranking.from_scores(
            torch.zeros(1, num_labels), depth=num_labels, target_ids=target
        )
    else:
        ids = torch.zeros(1, 1, dtype=torch.int64)
        preds: Any = ids
        if _have_scores(dataset):
            preds = (ids.float(), ids)
        ranking = rank(preds, target, num_labels=num_labels)
    try:
        # a metric may warn of its first batch, which is artificial here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_batch(deepcopy(metric), ranking)
    except ValueError as error:
        return str(error).removeprefix(f"{type(metric).__name__}: ").partition("; ")[0]
    return None


def _have_scores(dataset: Dataset) -> bool:
    """Whether lists hold scores.

    Ranks, which are read as whole numbers below 0, are no scores.
    """
    values = dataset.preds.first_values()
    return bool(((values >= 0) | (values != values.round())).any())
