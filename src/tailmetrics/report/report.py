"""What an evaluation found, as plain data; the renderers beside this file turn it into text, figures and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tailmetrics.report.examples import Example
from tailmetrics.report.keys import Key, nested
from tailmetrics.report.labels import LabelTable
from tailmetrics.report.rows import BucketRow as BucketRow
from tailmetrics.report.rows import GroupRow as GroupRow

if TYPE_CHECKING:
    from tailmetrics.significance.interval import Interval

MANY_TIES = 0.01
"""Share of rows cut inside a tie from which a report warns."""


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
        row_groups: Groups of rows, such as languages. A key with "/" and one of their names behind the metric is of
            the rows of that group.
        over_all: For each metric by bucket the key of its value over all labels.
        captions: For each metric by bucket what its values are of: scope and cut-off, in words.
        places: Metrics whose values are places in a list.
        shares: Metrics whose values are the buckets' shares of what is shown.
        summaries: Gap and spread of each metric by bucket, as ``TopKCollection.summaries()`` has them.
        labels: Values of single labels, if any were asked for.
        intervals: Confidence intervals by key.
        examples: A few rows, for each bucket one that misses a label of it.
        history: Epoch, step and values by key of the validations of a fit, oldest first.
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
    row_groups: list[GroupRow] = field(default_factory=list)
    over_all: Mapping[str, str] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    summaries: Mapping[str, float] = field(default_factory=dict)
    labels: LabelTable | None = field(default=None, repr=False)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    examples: Sequence[Example] = field(default=(), repr=False)
    history: Sequence[Mapping[str, Any]] = field(default=(), repr=False)

    @cached_property
    def parts(self) -> dict[Key, float]:
        """Values by metric, group of rows and bucket."""
        return nested(self.scalars, (group.name for group in self.row_groups), (row.name for row in self.buckets))

    @property
    def overall(self) -> dict[str, float]:
        """Values over all rows and labels."""
        return {key.metric: value for key, value in self.parts.items() if not (key.group or key.bucket)}

    @property
    def by_bucket(self) -> dict[str, dict[str, float]]:
        """Values over all rows by metric and bucket."""
        return self.of_group("")

    def of_group(self, group: str) -> dict[str, dict[str, float]]:
        """Return the values of the rows of a group, "" for all rows, by metric and bucket."""
        found: dict[str, dict[str, float]] = {}
        for key, value in self.parts.items():
            if key.bucket and key.group == group:
                found.setdefault(key.metric, {})[key.bucket] = value
        return found

    @property
    def by_group(self) -> dict[str, dict[str, float]]:
        """Values over all labels by metric and group of rows."""
        found: dict[str, dict[str, float]] = {}
        for key, value in self.parts.items():
            if key.group and not key.bucket:
                found.setdefault(key.metric, {})[key.group] = value
        return found

    def value_over_all(self, metric: str, group: str = "") -> float | None:
        """Return the value over all labels of a metric by bucket; None where it has none."""
        return self.parts.get(Key(self.over_all.get(metric, metric), group, ""))

    def interval_over_all(self, metric: str) -> Interval | None:
        """Return the interval of :meth:`value_over_all`; None where there is none."""
        return self.intervals.get(self.over_all.get(metric, metric))

    def less_is_better(self, metric: str) -> bool:
        """Whether less of ``metric``, overall or by bucket, is better."""
        return any(key == metric or key.startswith(f"{metric}/") for key in self.lower_is_better)

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
        from tailmetrics.report.plain import plain_report

        return plain_report(self)

    def write(self, folder: Path | str, stem: str = "report") -> list[Path]:
        """Write the report into ``folder`` as JSON, Markdown, LaTeX, CSV, a page and a plot; return their paths.

        Each file is there as a whole or not at all, whenever the process is interrupted. ``report.png`` is left out
        where there is nothing by bucket to show. Values of single labels go to ``labels.csv``, or ``labels_val.csv``
        for ``stem="report_val"``.
        """
        from tailmetrics.report.files import write_files

        if not stem or Path(stem).name != stem:
            raise ValueError(f"Report.write: stem={stem!r} is no name of a file; pass such as 'report_val'.")
        return write_files(self, Path(folder), stem)

    def __str__(self) -> str:
        """Return what :func:`print_report` prints, 80 columns wide."""
        from io import StringIO

        from rich.console import Console

        from tailmetrics.report.terminal import print_report

        text = StringIO()
        print_report(self, Console(width=80, file=text))
        return text.getvalue()

    def _repr_html_(self) -> str:
        from tailmetrics.report.page import fragment

        return fragment(self)
