"""``compare_runs``: evaluates and compares several runs in one call, in memory."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf, isclose, isnan, nan
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tailmetrics._extras import names_missing_extra
from tailmetrics._signatures import names_unknown_keywords
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.description import versions
from tailmetrics.evaluation.digest import RunDigest
from tailmetrics.evaluation.evaluating import Run, evaluate_run
from tailmetrics.evaluation.inputs import labels_of_runs
from tailmetrics.evaluation.options import Missing, Options
from tailmetrics.evaluation.row_facts import RowFacts
from tailmetrics.evaluation.row_values import EMPTY_DENOMINATOR
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics.probabilities import AS_PROBABILITIES
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._batch import Duplicates
from tailmetrics.ranking._tensors import check_indexes
from tailmetrics.report.comparison import ComparisonReport
from tailmetrics.report.comparison_tables import unequal_in_words
from tailmetrics.report.report import Report
from tailmetrics.significance.comparing import Comparison, matches_pattern
from tailmetrics.significance.moments import ROUNDING
from tailmetrics.tree import LabelTree

NUMBER = re.compile(r"(?<![\w@])\d[\d,]*(?:\.\d+)?")
"""A number in a sentence that is not part of a name or cut-off."""

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Correction
    from tailmetrics.significance.estimating import Resample

EMPTY: Mapping[str, Any] = MappingProxyType({})
OF_ONE_LIST = "global_"
"""The prefix of values by bucket that are computed from the one list of a row."""


@names_unknown_keywords
@names_missing_extra
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
    only: Sequence[str] | None = None,
    title: str | None = None,
    correction: Correction = "max-t",
    confidence: float = 0.95,
    resamples: int = 10_000,
    resample: Resample = "rows",
    seed: int = 0,
    clusters: Any = None,
    headline: str | None = None,
    duplicates: Duplicates = "error",
    ignore_index: int | None = None,
) -> ComparisonReport:
    """Evaluate several runs on the same targets, and test their differences.

    The report says which differences are more than chance.

    Args:
        runs: Predictions by the name of the run, in any form that :func:`evaluate`
            takes; or a ranking for each run, without row weights, which no test reads.
        target: The relevant labels, as for :func:`evaluate`. None if the runs are
            rankings, which hold their targets.
        metrics: As for :func:`evaluate`, and so are all arguments up to ``batch_rows``.
        buckets: Label buckets; values by bucket are computed from the one list of the
            row (``scope="global"``).
        label_counts: Training counts.
        train_target: Training targets, to be counted.
        row_mask: Shape (N,), bool; False drops a row.
        row_groups: The group of each row.
        labels: Whether the report also draws metrics over the training count.
        label_names: The name of each label; for tables and dicts, the names of all
            labels of the catalogue.
        label_tree: The parents of the labels, as for :func:`tailmetrics.evaluate`.
        missing: Treatment of queries without predictions. If runs answer different
            queries, pass ``"zero"``.
        batch_rows: Number of rows that are ranked at a time.
        baseline: The run with which all others are compared; None compares all pairs.
        only: The questions that are tested, as keys or patterns: ``"precision@5"`` over
            all labels alone, ``"recall@10/tail"``, ``"ndcg@5/*"``. Other values stand
            in the tables with their intervals, untested. None tests all values and
            gaps, but no adjusted gaps, which ask the same question.
        title: Title of the comparison; None takes the names of the runs.
        correction: As for :func:`tailmetrics.significance.compare`.
        confidence: Confidence of the intervals; tests have the level 1 - confidence.
        resamples: As for :func:`tailmetrics.significance.compare`.
        resample: ``"rows"``, or ``"rows,labels"`` if labels are a random sample, too.
        seed: Seed of the random numbers; the same seed gives the same results.
        clusters: The cluster of each row, such as its user, in the forms of
            ``row_groups``: its rows are drawn together. None draws single rows.
        headline: The metric that the comparison is about, as for :func:`evaluate`.
        duplicates: What happens if an id stands twice in a row of ``preds``:
            ``"error"`` raises an error; ``"first"`` counts the first place, and the
            later places are misses.
        ignore_index: An id in ``target`` that is no label, such as padding, or the -100
            of language models. A row that holds nothing else does not count. In a list
            of ``preds`` such an id, from 0 on, is a miss.

    >>> import torch
    >>> target = torch.arange(20) % 4
    >>> runs = {"right": torch.eye(4)[target], "wrong": -torch.eye(4)[target]}
    >>> compared = compare_runs(runs, target, resamples=200)
    >>> compared.values["precision@1"]
    {'wrong': 0.0, 'right': 1.0}
    """
    if not isinstance(runs, Mapping) or len(runs) < 2:
        raise ValueError(
            "compare_runs: runs must be a dict of at least two; pass the "
            "predictions by name."
        )
    for name in runs:
        if not isinstance(name, str) or not name.strip():
            raise TypeError(
                f"compare_runs: runs names a run {name!r}; pass a text, such as "
                "'baseline'."
            )
    check_indexes("compare_runs", runs)
    _check_rankings(runs)
    options = Options(
        metrics=metrics,
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
    _check_unweighted(options.members)
    options = replace(
        options, catalogue=labels_of_runs(runs.values(), target, options.checked())
    )

    reports: dict[str, Report] = {}
    models: dict[str, Model] = {}
    first_run: Run | None = None
    for name, preds in runs.items():
        run = evaluate_run(preds, target, options, keeps_rows=True)
        if first_run is None:
            first_run = run
        if run.data.row_names != first_run.data.row_names:
            raise ValueError(
                f"compare_runs: {name} answers other queries than {next(iter(runs))}; "
                "pass runs that answer the same queries, or missing='zero', which "
                "counts a query without predictions as an empty list."
            )
        _check_numbers_of_labels(name, run, next(iter(runs)), first_run)
        report, rows = run.report, run.rows
        assert rows is not None  # they are kept
        reports[name] = report
        models[name] = Model(
            [rows.values(report.scalars, EMPTY_DENOMINATOR)],
            report.scalars,
            rows.list_lengths,
            report.warnings,
        )

    assert first_run is not None
    assert first_run.rows is not None
    first_report = first_run.report
    curves: dict[str, Any] = {}
    for metric in first_report.curves:
        if all(metric in report.curves for report in reports.values()):
            curves[metric] = {
                name: report.curves[metric] for name, report in reports.items()
            }
    comparison = compare_models(
        models,
        first_run.rows.facts,
        title=title,
        only=only,
        postfix=first_report.postfix,
        correction=correction,
        baseline=baseline,
        confidence=confidence,
        resamples=resamples,
        resample=resample,
        seed=seed,
        clusters=first_run.data.clusters,
    )
    # the warning on ties would point to a table of tie bounds, which a comparison does
    # not have
    warnings = {name: report.warnings_of_rows for name, report in reports.items()}
    return replace(
        comparison,
        curves=curves,
        settings=first_report.settings,
        warnings=warnings_of(warnings),
    )


def _check_numbers_of_labels(
    name: str, run: Run, first_name: str, first_run: Run
) -> None:
    """Raise ValueError if runs differ in a number of labels that values depend on."""
    for key, number in run.labels_by_key.items():
        first_number = first_run.labels_by_key.get(key, number)
        if number != first_number:
            raise ValueError(
                f"compare_runs: {key} depends on the number of labels, which is "
                f"{first_number:,} in {first_name} and {number:,} in {name}; pass "
                "num_labels= to the metric, or label_names=, the name of each label "
                "id. Rankings take one num_labels= when they are made."
            )


def _check_rankings(runs: Mapping[str, Any]) -> None:
    """Raise an error if rankings do not fit each other, or stand beside predictions.

    Raises:
        TypeError: If only some runs are rankings.
        ValueError: If rankings have different targets, row masks or row groups.
    """
    digests = {}
    groups = {}
    others = []
    for name, preds in runs.items():
        if isinstance(preds, Ranking):
            targets = RunDigest([])
            targets.update(range(preds.num_rows), preds)
            digests[name] = targets.entries()["targets"]
            groups[name] = (
                None if preds.rows.groups is None else preds.rows.groups.tolist()
            )
        else:
            others.append(name)
    if digests and others:
        raise TypeError(
            f"compare_runs: {next(iter(digests))} is a Ranking and {others[0]} is "
            "not; pass a Ranking for each run, or "
            "the predictions of each run and their target."
        )
    first = next(iter(digests), "")
    for name, digest in digests.items():
        if digest != digests[first]:
            raise ValueError(
                f"compare_runs: the rankings {first} and {name} have different targets "
                "or row masks; rank all runs with the same target and row_mask."
            )
        if groups[name] != groups[first]:
            raise ValueError(
                f"compare_runs: the rankings {first} and {name} have different "
                "row_groups; rank all runs with the same row_groups."
            )


def _check_unweighted(metrics: Iterable[TopKMetric]) -> None:
    """Raise ValueError if a metric takes weights of rows, which tests do not read."""
    for metric in metrics:
        if metric.weighted:
            raise ValueError(
                f"compare_runs: {type(metric).__name__} has weighted=True, but tests "
                "count all rows alike; leave weighted= and the weights of the "
                "rankings out, or call evaluate() for each run."
            )


def warnings_of(runs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return each distinct warning once.

    If only some runs have a warning, their names precede it. Warnings that differ in
    their numbers alone are one warning, with the numbers of the first run.
    """
    sentences_by_form: dict[str, dict[str, str]] = defaultdict(dict)
    for name, sentences in runs.items():
        for sentence in sentences:
            sentences_by_form[NUMBER.sub("#", sentence)].setdefault(name, sentence)

    texts = []
    for sentence_of_run in sentences_by_form.values():
        names = list(sentence_of_run)
        text = sentence_of_run[names[0]]
        if len(set(sentence_of_run.values())) > 1:
            text = (
                f"{text} These are the numbers of {names[0]}; those of the other "
                "runs differ."
            )
        if len(names) < len(runs):
            text = f"{', '.join(names)}: {text}"
        texts.append(text)
    return texts


class Model(NamedTuple):
    """A model that is compared.

    Attributes:
        runs: For each of its runs, such as its seeds, the values per row by key.
        scalars: Its values by key, including keys that are not compared.
        list_lengths: Number of labels in the list of each row, shape (N,); None if each
            list holds all labels.
        warnings: The warnings of its runs.
    """

    runs: Sequence[Mapping[str, Any]]
    scalars: Mapping[str, float] = EMPTY
    list_lengths: Any = None
    warnings: Sequence[str] = ()


def compare_models(
    models: Mapping[str, Model],
    facts: RowFacts,
    *,
    title: str | None = None,
    headline: str | None = None,
    postfix: str = "",
    only: Sequence[str] | None = None,
    baseline: str | None = None,
    clusters: Any = None,
    identities: Mapping[str, Mapping[str, Any]] | None = None,
    correction: Correction = "max-t",
    confidence: float = 0.95,
    resamples: int = 10_000,
    resample: Resample = "rows",
    seed: int = 0,
) -> ComparisonReport:
    """Compare models by their values per row, and return a report.

    Args:
        models: The models by name.
        facts: Facts about the keys that the values per row do not hold.
        title: Title of the comparison; None takes the names of the models.
        headline: The metric that the comparison is about; None takes that of ``facts``.
        postfix: The end of each key, which the collection of the metrics adds.
        only: As for :func:`compare_runs`.
        baseline: The model to compare the others with; None compares all pairs.
        clusters: The cluster of each row; None if rows are independent.
        identities: The entries of :mod:`tailmetrics.evaluation.digest` of each model.
        correction: The correction of p-values for the number of comparisons.
        confidence: Confidence of the intervals.
        resamples: Number of resamples and swaps.
        resample: What is drawn.
        seed: Seed of the draws.
    """
    from tailmetrics.significance import compare, verdict

    mixed_scores = _mixed_scores(models)
    left_out: dict[str, Sequence[str]] = {}
    num_runs = {}
    if any(len(model.runs) > 1 for model in models.values()):
        num_runs = {name: len(model.runs) for name, model in models.items()}
        left_out["a model has several runs, which have no median together"] = (
            facts.keys_with("is_median")
        )
    if mixed_scores:
        left_out[mixed_scores] = facts.keys_with("is_of_softmax")
    runs = {}
    for name, model in models.items():
        runs[name] = [
            _without(run, set(chain(*left_out.values()))) for run in model.runs
        ]
    keys = list(next(iter(runs.values()))[0])

    not_compared = _values_not_compared(models, keys)
    reasons = _reasons(left_out, not_compared)
    if not keys:
        text = (
            " ".join(reasons.values())
            or "The metrics have values of single labels alone"
        ).removesuffix(".")
        raise ValueError(
            f"compare: nothing is left to compare. {text}; add a metric of rows, such "
            "as RecallAtK."
        )

    lower_is_better = facts.keys_with("lower_is_better")
    without_direction = facts.keys_with("has_no_direction")
    headline = _headline(facts, keys, headline, postfix)
    questions = [key for key in keys if not facts.keys[key].is_part]
    comparisons = compare(
        runs,
        baseline,
        only=_patterns(only, [*questions, *facts.gaps], postfix),
        lower_is_better=[key for key in lower_is_better if key in keys],
        clusters=clusters,
        identities=identities,
        correction=correction,
        confidence=confidence,
        resamples=resamples,
        resample=resample,
        seed=seed,
        **facts.interval_arguments(keys),
    )
    comparisons = [
        _with_reported_values(comparison, models) for comparison in comparisons
    ]
    unequal_lists = _unequal_lists(
        facts, models, [comparison.key for comparison in comparisons]
    )
    sentences = [
        _verdict_without_postfix(verdict, comparisons, facts, headline, postfix),
        _tested_in_words(comparisons, only),
        reasons.get(mixed_scores, ""),
        *unequal_in_words(unequal_lists),
    ]
    return ComparisonReport(
        comparisons,
        title=title or _title(list(models), baseline),
        correction=_correction_in_use(correction, comparisons),
        unequal_lists=unequal_lists,
        verdict=" ".join(filter(None, sentences)),
        headline=headline,
        not_compared=not_compared,
        not_compared_because=list(reasons.values()),
        versions=versions(),
        buckets=facts.buckets,
        row_groups=facts.row_groups,
        captions=facts.captions,
        over_all=facts.over_all,
        lower_is_better=lower_is_better,
        without_direction=without_direction,
        what_buckets_are=facts.what_buckets_are,
        num_runs=num_runs,
        postfix=postfix,
    )


def _with_reported_values(
    comparison: Comparison, models: Mapping[str, Model]
) -> Comparison:
    """Return a comparison with the values of the reports, where only rounding differs.

    The values of reports do not depend on the order of rows. A comparison uses only the
    rows that count in both models, so some of its values may differ from the reports by
    more; these values stay.
    """
    values = []
    for name, value in (
        (comparison.run, comparison.value),
        (comparison.baseline, comparison.baseline_value),
    ):
        reported = models[name].scalars.get(comparison.key, nan)
        if isclose(value, reported, rel_tol=ROUNDING):
            value = reported
        values.append(value)
    return replace(comparison, value=values[0], baseline_value=values[1])


def _correction_in_use(correction: str, comparisons: Sequence[Comparison]) -> str:
    """Return the correction in use: Holm in place of max-T if runs or labels vary.

    There are no swaps then.
    """
    if correction == "max-t" and any(
        not isnan(comparison.p.total) for comparison in comparisons
    ):
        return "holm"
    return correction


def _mixed_scores(models: Mapping[str, Model]) -> str:
    """Return why losses are not compared, as text without a full stop.

    Losses are not compared if only some models have scores that look like
    probabilities. The text is empty otherwise.
    """
    names = []
    for name, model in models.items():
        if any(AS_PROBABILITIES in warning for warning in model.warnings):
            names.append(name)
    if not 0 < len(names) < len(models):
        return ""
    return (
        f"scores of {', '.join(names)} lie between 0 and 1, as probabilities do, those "
        "of the others do not. Pass the logarithms of probabilities, or evaluate "
        "these runs with --probabilities and compare the tables"
    )


def _without(values: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return values by key without some keys."""
    return {key: rows for key, rows in values.items() if key not in keys}


def _values_not_compared(
    models: Mapping[str, Model], keys: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return the values of the keys that are not compared, by key and model."""
    first = next(iter(models.values()))
    values: dict[str, dict[str, float]] = {}
    for key in _without(first.scalars, keys):
        values[key] = {
            name: model.scalars.get(key, nan) for name, model in models.items()
        }
    return values


def _reasons(
    left_out: Mapping[str, Sequence[str]], not_compared: Iterable[str]
) -> dict[str, str]:
    """Return for each reason a sentence that names the metrics not compared for it."""
    explained = {key for keys in left_out.values() for key in keys}
    keys_by_reason = dict(left_out)
    keys_by_reason["rows have no values of them"] = [
        key for key in not_compared if key not in explained
    ]
    sentences = {}
    for reason, keys in keys_by_reason.items():
        if keys:
            sentences[reason] = (
                f"Not compared: {', '.join(_stems(keys))}, because {reason}."
            )
    return sentences


def _stems(keys: Iterable[str]) -> list[str]:
    """Return the distinct keys without group and bucket."""
    return list(dict.fromkeys(key.partition("/")[0] for key in keys))


def _patterns(
    only: Sequence[str] | None, keys: Sequence[str], postfix: str
) -> list[str] | None:
    """Return patterns with the prefix and postfix that the keys need.

    The prefix is that of values from the one list of a row, the postfix that of all
    keys. None stands for all keys, and is returned unchanged.

    Raises:
        ValueError: If a pattern matches no key.
    """
    if only is None:
        return None
    if isinstance(only, str):
        raise TypeError(
            f"compare: only={only!r} is one string; pass a list of keys or patterns, "
            f"such as [{only!r}]."
        )
    patterns: list[str] = []
    for pattern in only:
        candidates = [
            pattern,
            f"{pattern}{postfix}",
            f"{OF_ONE_LIST}{pattern}",
            f"{OF_ONE_LIST}{pattern}{postfix}",
        ]
        matching = [
            name
            for name in candidates
            if any(matches_pattern(key, name) for key in keys)
        ]
        if not matching:
            raise ValueError(
                f"compare: only={pattern!r} matches no value of rows; choose a key or "
                f"pattern such as {', '.join(_choices(keys, postfix))}. Values of all "
                "lists together, such as Gini and coverage, have none for a row and "
                "are not compared."
            )
        patterns += dict.fromkeys(matching)
    return patterns


def _choices(keys: Sequence[str], postfix: str) -> list[str]:
    """Return keys and patterns that ``only`` may hold.

    These are each key over all rows and labels, and for other metrics the pattern of
    their buckets and groups.
    """
    plain_keys = [key.removesuffix(postfix) for key in keys]
    choices = []
    for stem in _stems(plain_keys):
        if stem in plain_keys:
            choices.append(stem)
        if any(key.startswith(f"{stem}/") for key in plain_keys):
            choices.append(f"{stem}/*")
    return choices


def _tested_in_words(
    comparisons: Sequence[Comparison], only: Sequence[str] | None
) -> str:
    """Return a sentence on what was tested; "" if ``only`` left nothing untested."""
    if only is None or all(comparison.tested for comparison in comparisons):
        return ""
    return (
        f"Tested: {', '.join(only)}; other values stand in the tables with their "
        "intervals, untested."
    )


def _verdict_without_postfix(
    verdict: Any,
    comparisons: Sequence[Comparison],
    facts: RowFacts,
    headline: str,
    postfix: str,
) -> str:
    """Return the verdict without the postfix of the collection in keys and buckets."""
    plain = [
        replace(comparison, key=comparison.key.removesuffix(postfix))
        for comparison in comparisons
    ]
    over_all = {
        key.removesuffix(postfix): whole.removesuffix(postfix)
        for key, whole in facts.over_all.items()
    }
    keys = {comparison.key for comparison in comparisons}
    without_direction = [
        key for key in facts.keys_with("has_no_direction") if key in keys
    ]
    return str(
        verdict(
            plain,
            facts.buckets,
            without_direction=[key.removesuffix(postfix) for key in without_direction],
            headline=headline.removesuffix(postfix),
            over_all=over_all,
        )
    )


def _unequal_lists(
    facts: RowFacts, models: Mapping[str, Model], keys: Sequence[str]
) -> dict[str, str]:
    """Return the keys that read unequal numbers of places, with the numbers in words.

    The number of a model is the median over its rows, because some rows have few
    candidates in every run. A gap reads the same places as its buckets.
    """
    texts: dict[str, str] = {}
    for key in keys:
        first_key, *_ = facts.gaps.get(key, [key])
        cutoff = facts.keys[first_key].places
        if cutoff is None:
            continue
        places = {
            name: _places_read(model.list_lengths, cutoff or inf)
            for name, model in models.items()
        }
        if len(set(places.values())) > 1:
            texts[key] = ", ".join(f"{name} {text}" for name, text in places.items())
    return texts


def _places_read(list_lengths: Any, cutoff: float) -> str:
    """Return in words the median number of places that a key reads from the lists."""
    number = cutoff
    if list_lengths is not None:
        number = np.median(np.minimum(list_lengths, cutoff))
    if number == inf:
        return "all labels"
    return f"{number:,.0f}"


def _headline(
    facts: RowFacts, keys: Sequence[str], headline: str | None, postfix: str
) -> str:
    """Return the metric that a comparison is about, as a key without bucket.

    The key is empty if ``headline`` is None and ``facts.headline`` is not compared.

    Raises:
        ValueError: If ``headline`` was asked for, and is not compared.
    """
    by_bucket: dict[str, None] = {}
    for key in keys:
        stem, _, bucket = key.removesuffix(postfix).rpartition("/")
        if bucket in facts.buckets:
            by_bucket[f"{stem}{postfix}"] = None
    name = facts.headline if headline is None else headline
    if name in by_bucket:
        return name
    stems = dict.fromkeys([*by_bucket, *keys])
    for stem in stems:
        if name in (stem, facts.over_all.get(stem)):
            return stem
    if headline is None:
        return ""
    choices = ", ".join(map(repr, _stems(stems)))
    raise ValueError(
        f"compare: headline={headline!r} is not compared; choose one of {choices}."
    )


def _title(names: Sequence[str], baseline: str | None) -> str:
    """Return a title: the other runs against the baseline, or all runs in a list."""
    if baseline is None and len(names) > 2:
        return ", ".join(names)
    baseline = baseline or names[0]
    return f"{', '.join(name for name in names if name != baseline)} against {baseline}"
