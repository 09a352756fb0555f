"""What every engine offers: one call that evaluates a data set, and one that counts labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, cast

from tailmetrics._checks import check_count
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.engines.work import Counting, Evaluating, Work
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.evaluating import prepared
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import TopKMetric
from tailmetrics.report.report import Report

FAN_IN = 8
"""Results that one task adds up."""


class Cluster(ABC):
    """An engine with the machines that it has; how it is reached, and what it does when one fails, is its own affair.

    Attributes:
        name: How the command line calls it.
    """

    name: str

    @abstractmethod
    def columns_of(self, dataset: Any) -> Sequence[str]:
        """Return the names of the columns of a data set."""

    @abstractmethod
    def total(self, dataset: Any, work: Work) -> bytes:
        """Let a task do the work on each part of the data set, and return the sum of the results."""

    @abstractmethod
    def numbers(self, count: int) -> Any:
        """Return a data set with the column ``id``, which holds 0 to ``count - 1``, each in a part of its own."""

    @abstractmethod
    def connect(self) -> int:
        """Reach the machines by the engine's own conventions, and return how many tasks run at a time."""

    def evaluate(
        self,
        dataset: Any,
        metrics: TopKCollection | Iterable[TopKMetric] | None = None,
        *,
        preds: str = "ids",
        target: str = "labels",
        scores: str | None = None,
        gains: str | None = None,
        row_groups: str | None = None,
        buckets: LabelBuckets | None = None,
        label_counts: Any = None,
        labels: bool = False,
        label_names: Sequence[str] | None = None,
        num_labels: int | None = None,
        intervals: bool = True,
        title: str = "Evaluation",
    ) -> Report:
        """Return the report on the rows of a data set, with the bits of one process.

        Every part of the data set is evaluated by a task, which returns states of some kilobytes; tasks add them up.

        Args:
            dataset: ``ray.data.Dataset``, or a DataFrame of Spark or Dask.
            metrics: Metrics, which stay as they are; None takes those of :func:`tailmetrics.evaluate`.
            preds: The column with a list of label ids per row, best first, or in any order beside ``scores``; or with a
                list of scores, one per label.
            target: The column with a list of the relevant label ids per row, or with one label id.
            scores: The column with the scores of the ids.
            gains: The column with the gains of the relevant labels.
            row_groups: The column with the group of each row, such as its language; the metrics name the groups.
            buckets: As for :func:`tailmetrics.evaluate`.
            label_counts: Training counts, shape (L,), or what :func:`count_labels` returned.
            labels: As for :func:`tailmetrics.evaluate`.
            label_names: As for :func:`tailmetrics.evaluate`.
            num_labels: Number of labels, where ``labels`` are asked for and no count tells it.
            intervals: Whether values have 95 % confidence intervals, from sums over rows.
            title: Heads the report.

        Raises:
            ValueError: If a column is absent, or a metric refuses the rows; the engine does not try that again.
        """
        more: dict[str, Any] = {"buckets": buckets, "label_counts": label_counts, "num_labels": num_labels}
        evaluation = prepared(metrics, labels=labels, label_names=label_names, intervals=intervals, **more)
        work = Evaluating(evaluation, preds, target, scores, gains, row_groups)
        found = cast("Evaluation", self._counted("evaluate", dataset, work))
        return found.report(title)

    def count_labels(self, dataset: Any, num_labels: int, *, target: str = "labels") -> LabelFrequency:
        """Return how often each label occurs in a data set of training targets, for ``label_counts``.

        Args:
            dataset: ``ray.data.Dataset``, or a DataFrame of Spark or Dask.
            num_labels: Number of labels.
            target: The column with a list of label ids per row.
        """
        check_count("count_labels", "num_labels", num_labels)
        return cast("LabelFrequency", self._counted("count_labels", dataset, Counting(num_labels, target)))

    def _counted(self, caller: str, dataset: Any, work: Work) -> Any:
        columns = list(self.columns_of(dataset))
        absent = [name for name in work.columns if name not in columns]
        if absent:
            raise ValueError(
                f"{caller}: there is no column {absent[0]!r}; name one of {', '.join(map(repr, columns))}, such as "
                "preds='ids', target='labels'."
            )
        return work.counted(self.total(dataset, work))


def in_groups(results: Sequence[Any]) -> list[Sequence[Any]]:
    """Return results in groups, each for one task to add up; one empty group where there are no results."""
    return [results[start : start + FAN_IN] for start in range(0, len(results) or 1, FAN_IN)]
