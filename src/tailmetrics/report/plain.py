"""Values and reports as plain data that strict JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tailmetrics.report.report import Report

WORST = 3
"""Labels of each bucket that JSON holds of the most often missed; the table of labels holds all."""


def plain(value: float) -> float | str | None:
    """Return a value that strict JSON can hold."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)


def summary_of_counts(counts: Tensor) -> dict[str, Any]:
    """Return what tells training counts apart, at any number of labels."""
    digest = sha256(counts.cpu().to(torch.int64).numpy().tobytes()).hexdigest()
    return {"labels": counts.numel(), "occurrences": int(counts.sum()), "sha256": digest}


def plain_report(report: Report) -> dict[str, Any]:
    """Return a report as plain data."""
    return {
        "title": report.title,
        "rows": report.rows,
        "positives": report.positives,
        "metrics": _values(report.scalars),
        "by_bucket": {metric: _values(values) for metric, values in report.by_bucket.items()},
        "over_all": dict(report.over_all),
        "captions": dict(report.captions),
        "summaries": _values(report.summaries),
        "intervals": {key: _values(asdict(interval)) for key, interval in report.intervals.items()},
        "buckets": [asdict(row) for row in report.buckets],
        "row_groups": [asdict(row) for row in report.row_groups],
        "worst_labels": _worst_labels(report),
        "examples": [asdict(one) for one in report.examples],
        "label_counts": None if report.label_counts is None else summary_of_counts(report.label_counts),
        "ties": {f"tie_rate@{k}": plain(share) for k, share in report.ties.items()},
        "warnings": report.warnings,
        "settings": report.settings,
        "versions": dict(report.versions),
    }


def _worst_labels(report: Report) -> list[dict[str, Any]]:
    if report.labels is None:
        return []
    return [_values(report.labels.record(label)) for label in report.labels.most_missed(WORST)]


def _values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) if isinstance(value, float) else value for name, value in values.items()}
