"""Which metrics of a config or preset are computed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import torch

from tailmetrics.cli.errors import CommandError, CommandWarning
from tailmetrics.cli.parser import Request
from tailmetrics.io import Dataset
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking import Ranking


def chosen_metrics(request: Request) -> list[TopKMetric]:
    """Return the metrics of the config without those that ``--without`` names.

    Raises:
        CommandError: If there are none, or one is named that there is not.
    """
    metrics: list[TopKMetric] | None = request.options.metrics
    if not metrics:
        raise CommandError("there are no metrics", "add --preset xmc, or --config FILE with a list of metrics.")
    kept = list(metrics)
    for name in request.options.without or []:
        others = [metric for metric in kept if not _is_called(metric, name)]
        if len(others) == len(kept):
            known = dict.fromkeys(stem for metric in metrics for stem in _stems(metric))
            raise CommandError(f"--without {name}: there is no such metric", f"choose from {', '.join(known)}.")
        kept = others
    if not kept:
        raise CommandError("--without leaves no metric", "leave one of them in.")
    return kept


def answerable(metrics: Sequence[TopKMetric], dataset: Dataset, request: Request) -> list[TopKMetric]:
    """Return the metrics of a preset that the predictions can answer, and warn of the others.

    A preset is made for a field, not for one form of its data. What a config of one's own asks for is not left out.

    Raises:
        CommandError: If none can be answered.
    """
    if request.options.preset is None:
        return list(metrics)
    refused = {id(metric): problem for metric in metrics if (problem := _refusal(metric, dataset)) is not None}
    for metric in metrics:
        if id(metric) in refused:
            said = f"{type(metric).__name__} is left out: {refused[id(metric)]}"
            warnings.warn(said, CommandWarning, stacklevel=2)
    kept = [metric for metric in metrics if id(metric) not in refused]
    if not kept:
        raise CommandError("the predictions answer no metric of the preset", "write dense scores [N, L].")
    return kept


def _refusal(metric: TopKMetric, dataset: Dataset) -> str | None:
    """Return why a metric cannot read predictions of the form that the file has; None if it can."""
    target = torch.zeros(1, dtype=torch.int64)
    if dataset.preds.dense:
        num_labels = metric.num_labels or 1
        ranking = Ranking.from_scores(torch.zeros(1, num_labels), depth=num_labels, target_ids=target)
    else:
        ranking = Ranking.from_ids(torch.zeros(1, 1, dtype=torch.int64), target_ids=target)
    try:
        metric._check(ranking)
    except ValueError as error:
        return str(error).removeprefix(f"{type(metric).__name__}: ").partition("; ")[0]
    return None


def _is_called(metric: TopKMetric, name: str) -> bool:
    return name.lower() in (type(metric).__name__.lower(), *_stems(metric))


def _stems(metric: TopKMetric) -> Iterable[str]:
    """Return what a metric's keys are called, without cut-off and bucket, and with its cut-off where it has but one."""
    keys = dict.fromkeys(key.partition("/")[0] for key in list(metric.keys()))
    return dict.fromkeys([*(key.partition("@")[0] for key in keys), *(keys if len(keys) == 1 else ())])
