"""Facts about all values of a metric at one cut-off.

These are its caption, its meaning, and how rows count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tailmetrics.evaluation.description import WITHIN, captions_of, conventions_of
from tailmetrics.evaluation.row_facts import Named
from tailmetrics.evaluation.values import Results
from tailmetrics.metrics import RecallAtK, TopKMetric
from tailmetrics.metrics._keys import DATA
from tailmetrics.metrics._results import Result
from tailmetrics.report.formatting import number
from tailmetrics.report.records import MetricFacts

TREATMENTS = {"skip": "are left out", "pos": "count as 1"}
"""Values of ``empty_target_action`` in words; by default rows count as 0."""


def metric_facts(
    named: Named, results: Results, over_all: Mapping[str, str], rows: int
) -> dict[str, MetricFacts]:
    """Return the facts about all values of each metric, by key without bucket.

    A metric by bucket and one over all labels may share a key.

    Args:
        named: Adds prefix and postfix to a key.
        results: The values of the metrics.
        over_all: For each metric by bucket, the key of its value over all labels.
        rows: The number of rows that were evaluated.
    """
    facts: dict[str, MetricFacts] = {}
    for metric, result in results:
        captions: dict[str, str] = {}
        meanings: dict[str, str] = {}
        if metric.buckets:
            captions = _captions(metric, result)
        else:
            meanings = _meanings(metric, result)
        empty_rows = num_empty_rows(metric, result, rows)
        left_out = empty_rows if metric.empty_target_action == "skip" else 0
        for stem, cutoff in zip(metric.cutoff_keys(), metric.cutoffs, strict=True):
            key = named(stem)
            values = {
                "is_place": bool(metric.formula.unit),
                "is_additive": metric.aggregation.is_additive,
                "caption": captions.get(stem, ""),
                "meaning": meanings.get(stem, ""),
                "overall_key": over_all.get(key, ""),
                "is_fraction": metric.bounds == (0.0, 1.0),
                "is_share_of_labels": _is_share_of_labels(metric),
                "is_among_themselves": metric.buckets is not None
                and metric.reading.scope == "bucket",
                "empty_rows": empty_rows,
                "empty_rows_treatment": _empty_rows_in_words(metric),
                "rows_left_out": left_out,
                "counts_rows": metric.aggregation.row_terms in ("mean", "median")
                and not metric.weighted,
            }
            changes: dict[str, Any] = {
                name: value for name, value in values.items() if value
            }
            facts[key] = replace(
                facts.get(key, MetricFacts(key)),
                k=whole_k(cutoff),
                higher_is_better=metric.higher_is_better,
                **changes,
            )
    return facts


def _is_share_of_labels(metric: TopKMetric) -> bool:
    """Return whether a metric is the mean share of relevant labels that a list holds.

    This is recall with usual settings, over all labels or from the one list of a row.
    """
    if (
        type(metric) is not RecallAtK
        or metric.weighted
        or set(metric.unusual_settings()) - {*DATA, *WITHIN}
    ):
        return False
    return metric.buckets is None or metric.reading.scope == "global"


def treatment_of_empty_rows(metric: TopKMetric) -> str:
    """Return in words how rows count to which ``empty_target_action`` applies."""
    return TREATMENTS.get(metric.empty_target_action, "count as 0")


def _empty_rows_in_words(metric: TopKMetric) -> str:
    """Return in words which rows ``empty_target_action`` is for, and how they count."""
    missing = metric.formula.lacking.removeprefix("no ")
    article = "an" if missing[0] in "aeiou" else "a"
    return f"without {article} {missing} {treatment_of_empty_rows(metric)}"


def whole_k(cutoff: Any) -> int | None:
    """Return a cut-off in ranks; None for a threshold, or without a cut-off."""
    if isinstance(cutoff, int):
        return cutoff
    return None


def num_empty_rows(metric: TopKMetric, result: Result, rows: int) -> int:
    """Return the number of rows to which ``empty_target_action`` applies, 0 if unknown.

    Args:
        metric: The metric.
        result: Its values.
        rows: The number of rows that were evaluated.
    """
    if metric.buckets is not None or metric.weighted or result.facts.answered is None:
        return 0
    return rows - result.facts.answered


def _captions(metric: TopKMetric, result: Result) -> dict[str, str]:
    """Return a caption for each key, without bucket, of a metric by bucket.

    Captions of calibration errors hold numbers for each bucket.
    """
    captions = {}
    for place, (stem, caption) in enumerate(captions_of(metric).items()):
        if result.facts.calibration is not None:
            columns = zip(
                metric.bucket_names, *result.facts.calibration[place], strict=True
            )
            numbers = []
            for bucket, shown, mean, right in columns:
                numbers.append(f"{bucket} {shown:,} ({number(mean)}, {number(right)})")
            caption += (
                "; predictions (their mean probability, the share that is right): "
                f"{', '.join(numbers)}"
            )
        captions[stem] = caption
    return captions


def _meanings(metric: TopKMetric, result: Result) -> dict[str, str]:
    """Return the meaning of values over all labels by key, in words.

    The meaning names the labels of a macro average and unusual arguments, or the bias
    of predicted probabilities.
    """
    facts = result.facts
    if facts.calibration is not None:
        biases = {}
        for key, ((shown,), (confidence,), (accuracy,)) in zip(
            metric.row_keys(), facts.calibration, strict=True
        ):
            if shown:
                biases[key] = _bias(confidence, accuracy)
        return biases

    average = metric.aggregation.mean_over()
    if average and facts.labels_with_rows is not None:
        average += _at_most(metric, facts.labels_with_rows[0])
    text = "; ".join(filter(None, [average, conventions_of(metric)]))
    if not text:
        return {}
    return dict.fromkeys(metric.row_keys(), text)


def _bias(confidence: float, accuracy: float) -> str:
    """Return in words whether predictions are over- or underconfident."""
    bias = "neither over- nor under-"
    if confidence > accuracy:
        bias = "over-"
    elif confidence < accuracy:
        bias = "under-"
    return (
        f"{bias}confident on average: predictions have a mean probability of "
        f"{confidence:.4f}, and {accuracy:.4f} of them are right"
    )


def _at_most(metric: TopKMetric, labels_with_rows: int) -> str:
    """Return in words the largest possible mean over all labels.

    The mean stays below 1 if a label has no relevant row; the text is empty otherwise.
    """
    num_labels = metric.num_labels or 0
    if metric.settings()["labels"] != "all" or labels_with_rows == num_labels:
        return ""
    return (
        f", of which {num_labels - labels_with_rows:,} of {num_labels:,} have no "
        "relevant row and count 0, so that it can reach "
        f"{labels_with_rows / num_labels:.4f}"
    )
