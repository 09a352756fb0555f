"""What an evaluation found, as plain data; the renderers beside this file turn it into text, figures and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from tailmetrics.report.plain import plain, summary_of_counts

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
        buckets: Head first; empty without buckets. A key that ends in "/" and one of their names is of that bucket.
        rows: Rows evaluated, if counted.
        positives: Relevant labels over all rows, if counted.
        ties: Share of rows cut inside a tie, by cut-off.
        label_counts: Training counts, for the frequency curve.
        settings: Class and arguments of every metric.
        versions: Of the libraries.
        notes: Further warnings.
        tie_winner: Which of two labels with equal scores is shown.
    """

    title: str
    scalars: Mapping[str, float]
    lower_is_better: tuple[str, ...] = ()
    buckets: list[BucketRow] = field(default_factory=list)
    rows: int | None = None
    positives: int | None = None
    ties: Mapping[int, float] = field(default_factory=dict)
    label_counts: Tensor | None = field(default=None, repr=False)
    settings: list[dict[str, Any]] = field(default_factory=list)
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tie_winner: str = "the lower label id"

    @property
    def overall(self) -> dict[str, float]:
        """Values that are not of a bucket."""
        return {key: value for key, value in self.scalars.items() if self._split(key) is None}

    @property
    def by_bucket(self) -> dict[str, dict[str, float]]:
        """Values by metric and bucket."""
        nested: dict[str, dict[str, float]] = {}
        for key, value in self.scalars.items():
            parts = self._split(key)
            if parts is not None:
                nested.setdefault(parts[0], {})[parts[1]] = value
        return nested

    def less_is_better(self, metric: str) -> bool:
        """Whether less of ``metric``, overall or by bucket, is better."""
        return any(key == metric or key.startswith(f"{metric}/") for key in self.lower_is_better)

    def _split(self, key: str) -> tuple[str, str] | None:
        """Return metric and bucket; names may hold "/" themselves, so that only a bucket's name tells."""
        found = [row.name for row in self.buckets if key.endswith(f"/{row.name}")]
        name = max(found, key=len, default=None)
        return None if name is None else (key[: -len(name) - 1], name)

    @property
    def warnings(self) -> list[str]:
        """What a reader should know before believing the numbers."""
        found = []
        ties = ", ".join(f"{share:.1%} at k={k}" for k, share in self.ties.items() if share >= MANY_TIES)
        if ties:
            found.append(f"Rows are cut inside a tie ({ties}): there {self.tie_winner} is shown, whatever the model.")
        bare = [row.name for row in self.buckets if not row.labels and row.name != "unseen"]
        if bare:
            found.append(f"No label in {', '.join(bare)}: there are too few labels for so many buckets.")
        empty = [row.name for row in self.buckets if row.labels and not row.positives]
        if empty and self.rows:
            found.append(f"No positive in {', '.join(empty)}: metrics that need one are NaN there.")
        unseen = sum(row.positives for row in self.buckets if row.name == "unseen")
        if unseen and self.positives:
            found.append(f"{unseen / self.positives:.1%} of the positives are labels never seen in training.")
        return [*found, *self.notes]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data: metric keys as in ``scalars()``, NaN as None."""
        return {
            "title": self.title,
            "rows": self.rows,
            "positives": self.positives,
            "metrics": {key: plain(value) for key, value in self.scalars.items()},
            "by_bucket": {
                metric: {bucket: plain(value) for bucket, value in values.items()}
                for metric, values in self.by_bucket.items()
            },
            "buckets": [asdict(row) for row in self.buckets],
            "label_counts": None if self.label_counts is None else summary_of_counts(self.label_counts),
            "ties": {f"tie_rate@{k}": plain(share) for k, share in self.ties.items()},
            "warnings": self.warnings,
            "settings": self.settings,
            "versions": dict(self.versions),
        }

    def write(self, folder: Path | str, stem: str = "report") -> list[Path]:
        """Write the report into ``folder`` as JSON, Markdown, LaTeX, CSV, a page and a plot; return their paths.

        Each file is there as a whole or not at all, whenever the process is interrupted. ``report.png`` is left out
        where there is nothing by bucket to show.
        """
        from tailmetrics.report.files import write_files

        return write_files(self, Path(folder), stem)

    def _repr_html_(self) -> str:
        from tailmetrics.report.page import fragment

        return fragment(self)
