"""``compare_runs``: evaluates and compares several runs in one call, for data in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from tailmetrics._arguments import grouped, names_unknown_keywords
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.data import Missing
from tailmetrics.evaluation.description import listed, versions
from tailmetrics.evaluation.digest import RunDigest
from tailmetrics.evaluation.evaluating import evaluate_run
from tailmetrics.evaluation.preparing import Options
from tailmetrics.evaluation.row_values import NOTHING, RowFacts, adjusted_key
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics.probabilities import AS_PROBABILITIES
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._inputs import Duplicates, check_indexes
from tailmetrics.report.comparison import ComparisonReport, unequal_in_words
from tailmetrics.tree import LabelTree

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Correction
    from tailmetrics.significance.estimating import Resample


@names_unknown_keywords
def compare_runs(
    runs: Mapping[str, Any],
    target: Any = None,
    *,
    metrics: TopKCollection | TopKMetric | Iterable[TopKMetric] | None = None,
    buckets: LabelBuckets | str | None = None,
    label_counts: Any = None,
    train_target: Any = None,
    row_mask: Any = None,
    row_groups: Any = None,
    labels: bool = False,
    label_names: Sequence[str] | None = None,
    label_tree: LabelTree | None = None,
    missing: Missing = "skip",
    batch_rows: int = 4096,
    baseline: str | None = None,
    title: str | None = None,
    correction: Correction = "holm",
    confidence: float = 0.95,
    resamples: int = 10_000,
    resample: Resample = "rows",
    seed: int = 0,
    clusters: Any = None,
    headline: str | None = None,
    duplicates: Duplicates = "error",
    ignore_index: int | None = None,
) -> ComparisonReport:
    """Evaluate several runs on the same targets, and return a report that says which differences are more than chance.

    Args:
        runs: Predictions by the name of the run, in any form that :func:`evaluate` takes; or a ranking for each run.
        target: The relevant labels, as for :func:`evaluate`. None if the runs are rankings, which hold their targets.
        metrics: As for :func:`evaluate`, and so are all arguments up to ``batch_rows``.
        buckets: Label buckets; values by bucket are computed from the one list of the row (``scope="global"``).
        label_counts: Training counts.
        train_target: Training targets, to be counted.
        row_mask: Shape (N,), bool; False drops a row.
        row_groups: The group of each row.
        labels: Whether the report also draws metrics as functions of the training count.
        label_names: The name of each label; for tables and dicts, the names of all labels of the catalogue.
        label_tree: The parents of the labels, as for :func:`tailmetrics.evaluate`.
        missing: Treatment of queries without predictions. If runs answer different queries, pass ``"zero"``.
        batch_rows: Number of rows that are ranked at a time.
        baseline: The run with which all others are compared; None compares all pairs.
        title: Title of the comparison; None takes the names of the runs.
        correction: As for :func:`tailmetrics.significance.compare`.
        confidence: Confidence of the intervals; 1 - confidence is the level of the tests.
        resamples: As for :func:`tailmetrics.significance.compare`.
        resample: ``"rows"``, or ``"rows,labels"`` if the labels are a random sample, too.
        seed: Seed of the random numbers; the same seed gives the same results.
        clusters: The cluster of each row, such as its user, in the forms of ``row_groups``: the rows of a cluster are
            drawn together. None draws single rows.
        headline: The metric that the comparison is about, as for :func:`evaluate`.
        duplicates: What happens if an id stands twice in a row of ``preds``: ``"error"`` raises an error; ``"first"``
            counts the first place, and the later places are misses.
        ignore_index: An id in ``target`` that is no label, such as padding, or the -100 of language models. A row
            that holds nothing else does not count. In a list of ``preds`` such an id, from 0 on, is a miss.

    >>> import torch
    >>> target = torch.arange(20) % 4
    >>> runs = {"right": torch.eye(4)[target], "wrong": -torch.eye(4)[target]}
    >>> compared = compare_runs(runs, target, resamples=200)
    >>> compared.values["precision@1"]
    {'wrong': 0.0, 'right': 1.0}
    """
    if not isinstance(runs, Mapping) or len(runs) < 2:
        raise ValueError("compare_runs: runs must be a dict of at least two; pass the predictions by name.")
    check_indexes("compare_runs", runs)
    _check_rankings(runs)
    options = Options(
        metrics=listed(metrics),
        buckets=buckets,
        label_counts=label_counts,
        train_target=train_target,
        row_mask=row_mask,
        row_groups=row_groups,
        labels=labels,
        label_names=label_names,
        label_tree=label_tree,
        missing=missing,
        batch_rows=batch_rows,
        clusters=clusters,
        headline=headline,
        duplicates=duplicates,
        ignore_index=ignore_index,
    )
    found = {name: evaluate_run(preds, target, options, keeps_rows=True) for name, preds in runs.items()}
    report, rows, data = next(iter(found.values()))
    for name, (_, _, other) in found.items():
        if other.row_names != data.row_names:
            raise ValueError(
                f"compare_runs: {name} answers other queries than {next(iter(found))}; pass runs that answer the same "
                "queries, or missing='zero', which counts a query without predictions as an empty list."
            )
    return compared(
        {name: values.columns(one.scalars, NOTHING) for name, (one, values, _) in found.items()},
        rows.facts,
        values={name: one.scalars for name, (one, *_) in found.items()},
        list_lengths={name: values.list_lengths for name, (_, values, _) in found.items()},
        warnings={name: one.warnings for name, (one, *_) in found.items()},
        title=title,
        correction=correction,
        shown={
            "curves": {
                metric: {run: one.curves[metric] for run, (one, *_) in found.items()} for metric in report.curves
            },
            "settings": report.settings,
            "postfix": report.postfix,
            "warnings": warnings_of(
                # the warning on ties would point to a table of tie bounds, which a comparison does not have
                {name: replace(one, tie_bounds=None).warnings for name, (one, *_) in found.items()}
            ),
        },
        baseline=baseline,
        confidence=confidence,
        resamples=resamples,
        resample=resample,
        seed=seed,
        clusters=data.clusters,
    )


def _check_rankings(runs: Mapping[str, Any]) -> None:
    """Raise if rankings stand beside other predictions, or have different targets."""
    rankings = {name: preds for name, preds in runs.items() if isinstance(preds, Ranking)}
    if not rankings:
        return
    others = [name for name in runs if name not in rankings]
    if others:
        raise TypeError(
            f"compare_runs: {next(iter(rankings))} is a Ranking and {others[0]} is not; pass a Ranking for each run, "
            "or the predictions of each run and their target."
        )
    digests = {}
    for name, ranking in rankings.items():
        targets = RunDigest([])
        targets.update(range(ranking.num_rows), ranking)
        digests[name] = targets.entries()["targets"]
    first, *rest = digests
    for name in rest:
        if digests[name] != digests[first]:
            raise ValueError(
                f"compare_runs: the rankings {first} and {name} have different targets or row masks; rank all runs "
                "with the same target and row_mask."
            )


def warnings_of(runs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return each distinct warning once; if only some runs have it, the names of these runs precede it."""
    said = grouped((one, name) for name, sentences in runs.items() for one in dict.fromkeys(sentences))
    return [one if len(names) == len(runs) else f"{', '.join(names)}: {one}" for one, names in said.items()]


def _unequal_lists(facts: RowFacts, lengths: Mapping[str, Any], keys: Sequence[str]) -> dict[str, str]:
    """Return the keys that read different numbers of places from the lists of the runs, with the number of each run.

    The number of a run is the median over its rows, because some rows have few candidates in every run.
    """
    found: dict[str, str] = {}
    for key in (key for key in keys if key in facts.reaches):
        cut = facts.reaches[key] or inf
        reads = {name: cut if of is None else float(np.median(np.minimum(of, cut))) for name, of in lengths.items()}
        if len({*reads.values()}) > 1:
            found[key] = ", ".join(
                f"{name} {'all labels' if size == inf else f'{size:,.0f}'}" for name, size in reads.items()
            )
    firsts = {key: of[0].removeprefix(adjusted_key("")) for key, of in facts.gaps.items() if key in keys}
    return found | {key: found[first] for key, first in firsts.items() if first in found}


def _headline(facts: RowFacts, keys: Sequence[str], wanted: str | None, postfix: str) -> str:
    """Return the metric that a comparison is about, as a key without bucket; empty if the runs' own is not compared.

    Raises:
        ValueError: If ``wanted`` was asked for, and is not compared.
    """
    parts = (key.removesuffix(postfix).rpartition("/") for key in keys)
    by_bucket = [f"{stem}{postfix}" for stem, _, bucket in parts if bucket in facts.buckets]
    stems = list(dict.fromkeys([*by_bucket, *keys]))
    name = facts.headline if wanted is None else wanted
    found = [stem for stem in stems if name in (stem, facts.over_all.get(stem))]
    if wanted is not None and not found:
        known = dict.fromkeys(stem.partition("/")[0] for stem in stems)
        raise ValueError(f"compare: headline={wanted!r} is not compared; choose one of {', '.join(map(repr, known))}.")
    return found[0] if found else ""


def _title(names: list[str], baseline: str | None) -> str:
    """Return a title with the names of the runs: the other runs against the baseline, or a list of all runs."""
    if baseline is None and len(names) > 2:
        return ", ".join(names)
    baseline = baseline or names[0]
    return f"{', '.join(name for name in names if name != baseline)} against {baseline}"


def compared(
    runs: Mapping[str, Any],
    facts: RowFacts,
    *,
    title: str | None = None,
    correction: Any = "holm",
    headline: str | None = None,
    values: Mapping[str, Mapping[str, float]] | None = None,
    list_lengths: Mapping[str, Any] | None = None,
    warnings: Mapping[str, Sequence[str]] | None = None,
    shown: Mapping[str, Any] | None = None,
    **more: Any,
) -> ComparisonReport:
    """Compare values per row, and return a report with the comparisons and the facts about the metrics.

    Args:
        runs: Name of a model -> its values per row by key, or a list with such a dict for each of its runs.
        facts: Facts about the keys that the values per row do not hold.
        title: Title of the comparison; None takes the names of the models.
        correction: As for :func:`tailmetrics.significance.compare`.
        headline: The metric that the comparison is about; None takes that of ``facts``.
        values: Name of a model -> its values by key, including keys that are not compared.
        list_lengths: Name of a model -> number of labels in the list of each row, shape (N,); None if each list holds
            all labels.
        warnings: Name of a model -> the warnings of its runs.
        shown: Further arguments of :class:`ComparisonReport`.
        more: Further arguments of :func:`tailmetrics.significance.compare`.
    """
    from tailmetrics.significance import compare, verdict

    models = {name: [some] if isinstance(some, Mapping) else some for name, some in runs.items()}
    reasons: dict[str, Sequence[str]] = {}
    if any(len(some) > 1 for some in models.values()):
        reasons["a model has several runs, which have no median together"] = facts.medians
    warned = [name for name, texts in (warnings or {}).items() if any(AS_PROBABILITIES in one for one in texts)]
    mixed = ""
    if 0 < len(warned) < len(models):
        mixed = (
            f"scores of {', '.join(warned)} lie between 0 and 1, as probabilities do, those of the others do not. Pass "
            "the logarithms of probabilities, or evaluate these runs with --probabilities and compare the tables"
        )
        reasons[mixed] = facts.of_softmax
    left_out = {key for keys in reasons.values() for key in keys}
    if left_out:
        runs = models = {
            name: [{key: rows for key, rows in one.items() if key not in left_out} for one in some]
            for name, some in models.items()
        }
    keys = [*next(iter(models.values()))[0]]
    values, others = values or {}, dict[str, dict[str, float]]()
    for key in (key for key in next(iter(values.values()), {}) if key not in keys):
        others[key] = {name: of.get(key, nan) for name, of in values.items()}
    reasons["rows have no values of them"] = [key for key in others if key not in left_out]
    why = [(reason, dict.fromkeys(key.partition("/")[0] for key in of)) for reason, of in reasons.items() if of]
    because = {reason: f"Not compared: {', '.join(stems)}, because {reason}." for reason, stems in why}
    if not keys:
        said = " ".join(because.values()).removesuffix(".")
        raise ValueError(f"compare: nothing is left to compare. {said}; add a metric of rows, such as RecallAtK.")
    postfix = (shown or {}).get("postfix", "")
    headline = _headline(facts, keys, headline, postfix)
    lower_is_better = [key for key in facts.lower_is_better if key in keys]
    found = compare(runs, correction=correction, lower_is_better=lower_is_better, **facts.among(keys), **more)
    unequal = _unequal_lists(facts, list_lengths or {}, [one.key for one in found])
    plain = [replace(one, key=one.key.removesuffix(postfix)) for one in found]
    over_all = {key.removesuffix(postfix): whole.removesuffix(postfix) for key, whole in facts.over_all.items()}
    said = verdict(plain, facts.buckets, headline=headline.removesuffix(postfix), over_all=over_all)
    alike = ("buckets", "row_groups", "captions", "over_all", "lower_is_better", "what_buckets_are")
    return ComparisonReport(
        found,
        title=title or _title(list(runs), more.get("baseline")),
        correction=correction,
        unequal_lists=unequal,
        verdict=" ".join([said, *([because[mixed]] if mixed in because else []), *unequal_in_words(unequal)]),
        headline=headline,
        not_compared=others,
        not_compared_because=list(because.values()),
        versions=versions(),
        **{name: getattr(facts, name) for name in alike},
        **(shown or {}),
    )
