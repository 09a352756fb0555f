"""Several runs evaluated and compared in one call, for tensors that are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailmetrics.evaluation.description import versions
from tailmetrics.evaluation.evaluating import evaluated, is_table, of_rows
from tailmetrics.evaluation.row_values import RowFacts
from tailmetrics.report.comparison import ComparisonReport


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
    clusters: Any = None,
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
        clusters: What rows are drawn by, such as their user: shape (N,), or by query as ``row_groups``; None draws
            single rows.
        more: What :func:`evaluate` takes: ``metrics``, ``buckets``, ``label_counts``, ``row_groups`` and so on.

    >>> import torch
    >>> target = torch.arange(20) % 4
    >>> runs = {"right": torch.eye(4)[target], "wrong": -torch.eye(4)[target]}
    >>> compared = compare_runs(runs, target, resamples=200)
    >>> compared.values["precision@1"]
    {'wrong': 0.0, 'right': 1.0}
    """
    if not isinstance(runs, Mapping) or len(runs) < 2:
        raise ValueError("compare_runs: runs must be a dict of at least two; pass the predictions by name.")
    found = {name: evaluated(preds, target, rows=True, **more) for name, preds in runs.items()}
    tables = {name: one.rows.columns() for name, one in found.items() if one.rows is not None}
    reports = {name: one.evaluation.report("") for name, one in found.items()}
    report, facts = next(iter(reports.values())), next(one.rows.facts for one in found.values() if one.rows is not None)
    data = next(iter(found.values())).data
    for name, one in found.items():
        if one.data.row_names != data.row_names:
            raise ValueError(
                f"compare_runs: {name} answers other queries than {next(iter(found))}; pass runs that answer the same "
                "queries, with an empty dict for a query without items."
            )
    return compared(
        tables,
        facts,
        title=title,
        correction=correction,
        shown={
            "curves": {metric: {run: one.curves[metric] for run, one in reports.items()} for metric in report.curves},
            "settings": report.settings,
            "postfix": report.postfix,
        },
        baseline=baseline,
        confidence=confidence,
        resamples=resamples,
        resample=resample,
        seed=seed,
        clusters=of_rows(clusters, "clusters", data, is_table(target) or is_table(next(iter(runs.values())))),
    )


def compared(
    runs: Mapping[str, Any],
    facts: RowFacts,
    *,
    title: str | None = None,
    correction: Any = "holm",
    shown: Mapping[str, Any] | None = None,
    **more: Any,
) -> ComparisonReport:
    """Compare values per row, and return what was found with what is known of the metrics.

    Args:
        runs: Name of a model -> its values per row by key, or those of each of its runs.
        facts: What the values do not tell by themselves.
        title: Heads the comparison; None takes the names.
        correction: As for :func:`tailmetrics.significance.compare`.
        shown: What else the report shows.
        more: What else :func:`tailmetrics.significance.compare` takes.
    """
    from tailmetrics.significance import compare, verdict

    first = next(iter(runs.values()))
    keys = first if isinstance(first, Mapping) else first[0]
    medians, lower_is_better = ([key for key in some if key in keys] for some in (facts.medians, facts.lower_is_better))
    gaps = {name: [key for key in of if key in keys] for name, of in facts.gaps.items()}
    of_keys: dict[str, Any] = {"medians": medians, "lower_is_better": lower_is_better, "gaps": gaps}
    found = compare(runs, correction=correction, **of_keys, **more)
    return ComparisonReport(
        found,
        title=title or " against ".join(runs),
        correction=correction,
        buckets=facts.buckets,
        row_groups=facts.row_groups,
        captions=facts.captions,
        over_all=facts.over_all,
        verdict=verdict(found, facts.buckets, facts.lower_is_better),
        lower_is_better=facts.lower_is_better,
        what_buckets_are=facts.what_buckets_are,
        versions=versions(),
        **(shown or {}),
    )
