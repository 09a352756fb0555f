"""What an evaluation found, as plain data; the renderers beside this file turn it into text, figures and pages."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from platform import python_version
from typing import Any

import torch
import torchmetrics
from torch import Tensor

import tailmetrics
from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics import TopKMetric

MANY_TIES = 0.01
"""Share of rows cut inside a tie from which a report warns."""


@dataclass(frozen=True)
class BucketRow:
    """One bucket: its name, labels, occurrences of them in training, and positives in what was evaluated."""

    name: str
    labels: int
    occurrences: int
    positives: int


@dataclass(frozen=True)
class Report:
    """The results of one evaluation.

    Attributes:
        title: What was evaluated.
        scalars: Metric values by key, as ``scalars()`` has them: ``precision@5``, ``recall@10/decile_1``.
        lower_is_better: Keys of metrics of which less is better.
        buckets: Head first; empty without buckets.
        rows: Rows evaluated, if counted.
        ties: Share of rows cut inside a tie, by cut-off.
        label_counts: Training counts, for the frequency curve.
        settings: Class and arguments of every metric.
        versions: Of the libraries.
        notes: Further warnings.
    """

    title: str
    scalars: Mapping[str, float]
    lower_is_better: tuple[str, ...] = ()
    buckets: list[BucketRow] = field(default_factory=list)
    rows: int | None = None
    ties: Mapping[int, float] = field(default_factory=dict)
    label_counts: Tensor | None = field(default=None, repr=False)
    settings: list[dict[str, Any]] = field(default_factory=list)
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def overall(self) -> dict[str, float]:
        """Values that are not of a bucket."""
        return {key: value for key, value in self.scalars.items() if "/" not in key}

    @property
    def by_bucket(self) -> dict[str, dict[str, float]]:
        """Values by metric and bucket."""
        nested: dict[str, dict[str, float]] = {}
        for key, value in self.scalars.items():
            metric, slash, bucket = key.rpartition("/")
            if slash:
                nested.setdefault(metric, {})[bucket] = value
        return nested

    @property
    def warnings(self) -> list[str]:
        """What a reader should know before believing the numbers."""
        found = [
            f"{share:.1%} of rows are cut inside a tie at k={k}: there the lower label id is shown, whatever the model."
            for k, share in self.ties.items()
            if share >= MANY_TIES
        ]
        empty = [row.name for row in self.buckets if not row.positives and row.labels]
        if empty and self.rows:
            found.append(f"No positive in {', '.join(empty)}: metrics that need one are NaN there.")
        positives = sum(row.positives for row in self.buckets)
        unseen = sum(row.positives for row in self.buckets if row.name == "unseen")
        if unseen:
            found.append(f"{unseen / positives:.1%} of the positives are labels never seen in training.")
        return [*found, *self.notes]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data: metric keys as in ``scalars()``, NaN as None."""
        return {
            "title": self.title,
            "rows": self.rows,
            "metrics": {key: _plain(value) for key, value in self.overall.items()},
            "by_bucket": {
                metric: {bucket: _plain(value) for bucket, value in values.items()}
                for metric, values in self.by_bucket.items()
            },
            "buckets": [asdict(row) for row in self.buckets],
            "ties": {f"tie_rate@{k}": _plain(share) for k, share in self.ties.items()},
            "warnings": self.warnings,
            "settings": self.settings,
            "versions": dict(self.versions),
        }

    def write(self, folder: Path | str, stem: str = "report") -> list[Path]:
        """Write ``report.json``, ``report.md`` and the plot ``report.png`` into ``folder``; return their paths."""
        from tailmetrics.report.figures import write_figure
        from tailmetrics.report.markdown import markdown

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{stem}.{suffix}" for suffix in ("json", "md", "png")]
        paths[0].write_text(json.dumps(self.as_dict(), indent=2) + "\n")
        picture = write_figure(self, paths[2])
        paths[1].write_text(markdown(self, picture=paths[2].name if picture else None))
        return paths if picture else paths[:2]


def settings_of(metric: TopKMetric) -> dict[str, Any]:
    """Return the class of a metric, its keys' stem and the arguments that its numbers depend on."""
    named = ("scope", "average", "depth", "empty_target_action", "denominator", "labels", "gain", "normalization")
    more = ("min_recall", "statistic", "miss_value", "a", "b", "num_train", "num_labels")
    arguments = {name: getattr(metric, name) for name in (*named, *more) if hasattr(metric, name)}
    buckets = metric.buckets.digest if isinstance(metric.buckets, LabelBuckets) else metric.buckets
    return {"class": type(metric).__name__, "k": list(metric.cutoffs), "buckets": buckets, **arguments}


def versions() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    return {
        "python": python_version(),
        "tailmetrics": tailmetrics.__version__,
        "torch": torch.__version__,
        "torchmetrics": torchmetrics.__version__,
    }


def shown(value: float) -> str:
    """Return a value as a table shows it."""
    if math.isnan(value):
        return "–"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


def _plain(value: float) -> float | str | None:
    """Return a value that strict JSON can hold."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)
