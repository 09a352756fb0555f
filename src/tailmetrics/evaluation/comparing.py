"""Several runs evaluated and compared in one call, for tensors that are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailmetrics.evaluation.evaluating import evaluated
from tailmetrics.evaluation.row_values import present
from tailmetrics.report.comparison import ComparisonReport
from tailmetrics.report.formatting import what_buckets_are


def compare_runs(
    runs: Mapping[str, Any],
    target: Any,
    *,
    baseline: str | None = None,
    title: str | None = None,
    correction: Any = "holm",
    confidence: float = 0.95,
    resamples: int = 10_000,
    resample: Any = "rows",
    seed: int = 0,
    **more: Any,
) -> ComparisonReport:
    """Evaluate several runs against the same targets, and return which differences are more than chance.

    Args:
        runs: Predictions by the name of the run, in any form that :func:`evaluate` takes.
        target: What is relevant, as for :func:`evaluate`.
        baseline: The run that others are held against; None compares all pairs.
        title: Heads the comparison; None takes the names.
        correction: As for :func:`tailmetrics.significance.compare`.
        confidence: Of the intervals; 1 - confidence is the level of the tests.
        resamples: Bootstrap resamples and random swaps.
        resample: ``"rows"``, or ``"rows,labels"`` where other labels could have been drawn, too.
        seed: Same seed, same numbers.
        more: What :func:`evaluate` takes: ``metrics``, ``buckets``, ``label_counts``, ``row_groups`` and so on.

    >>> import torch
    >>> target = torch.arange(20) % 4
    >>> runs = {"right": torch.eye(4)[target], "wrong": -torch.eye(4)[target]}
    >>> compared = compare_runs(runs, target, resamples=200)
    >>> compared.values["precision@1"]
    {'wrong': 0.0, 'right': 1.0}
    """
    from tailmetrics.significance import compare, verdict

    if not isinstance(runs, Mapping) or len(runs) < 2:
        raise ValueError("compare_runs: runs must be a dict of at least two; pass the predictions by name.")
    found = {name: evaluated(preds, target, rows=True, **more) for name, preds in runs.items()}
    tables = {name: one.rows.columns() for name, one in found.items() if one.rows is not None}
    first = next(iter(found.values()))
    assert first.rows is not None
    reports = {name: one.evaluation.report("") for name, one in found.items()}
    columns, report = next(iter(tables.values())), next(iter(reports.values()))
    compared = compare(
        tables,
        baseline,
        medians=present(first.rows.medians, columns),
        gaps=first.rows.gaps,
        resample=resample,
        lower_is_better=present(first.rows.lower_is_better, columns),
        correction=correction,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    return ComparisonReport(
        compared,
        title=title or " against ".join(runs),
        correction=correction,
        buckets=[row.name for row in report.buckets],
        row_groups=[group.name for group in report.row_groups],
        captions=report.captions,
        over_all=report.over_all,
        postfix=report.postfix,
        verdict=verdict(compared, [row.name for row in report.buckets], first.rows.lower_is_better),
        lower_is_better=first.rows.lower_is_better,
        what_buckets_are=what_buckets_are(report.buckets),
        curves={metric: {run: one.curves[metric] for run, one in reports.items()} for metric in report.curves},
        settings=report.settings,
        versions=report.versions,
    )
