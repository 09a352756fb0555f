"""The base class of the engines, and the work of a task.

An engine evaluates a data set or counts its labels.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

import torch

from tailmetrics._arguments import check_count
from tailmetrics._number_of_labels import number_of_labels
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.evaluating import CONFIDENCE
from tailmetrics.evaluation.options import Options
from tailmetrics.evaluation.preparing import prepare
from tailmetrics.evaluation.row_groups import group_numbers
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking._batch import ExplicitTarget
from tailmetrics.report.report import Report

FAN_IN = 8
"""Number of results that a task adds up: three levels of tasks hold 512 parts."""
BATCH_ROWS = 4096
"""Number of rows that are ranked at a time: lists of 500 ids then take 16 MB."""


@dataclass
class Work:
    """The work of a task: count the rows of one part, and return states as bytes.

    The engine sends it to the machines, so every attribute can be pickled. A result
    holds no code: it is a compressed ``torch.save`` of the counter's ``state_dict``,
    which is read with ``weights_only=True``.

    Attributes:
        counter: An empty evaluation or empty label counts; each task works on a copy.
        columns: The columns that ``add`` reads.
        add: Adds a batch, an Arrow table, to a copy of the counter.
        refusals: Errors caused by the rows; the engine does not repeat a task that
            raises one.
    """

    counter: Any
    columns: Sequence[str]
    add: Callable[[Any, Any], None]
    refusals: tuple[type[Exception], ...] = (TypeError, ValueError)

    def __post_init__(self) -> None:
        """Let the ``state_dict`` of label counts hold the counts.

        The ``state_dict`` of an evaluation holds all states anyway.
        """
        if isinstance(self.counter, LabelFrequency):
            self.counter.persistent(True)

    def __call__(self, batches: Iterable[Any]) -> bytes:
        """Return the states after all batches, or the error that a batch raised."""
        counter = deepcopy(self.counter)
        try:
            for batch in batches:
                self.add(counter, _as_arrow(batch))
        except self.refusals as error:
            return _compressed(self._refusal(error))
        return _compressed({"states": counter.state_dict()})

    def merged(self, results: Iterable[bytes]) -> bytes:
        """Return the sum of the results of tasks, in any order, or the first error.

        A result that is an error is returned as it is.
        """
        total, part = deepcopy(self.counter), deepcopy(self.counter)
        for result in results:
            content = _read(result)
            if "error" in content:
                return result
            part.load_state_dict(content["states"])
            total.merge_state(part)
        return _compressed({"states": total.state_dict()})

    def counter_with(self, result: bytes) -> Any:
        """Return a copy of the counter with the states of a result.

        Raises the error that the result holds, if it holds one.
        """
        content = _read(result)
        if "error" in content:
            raise self.refusals[content["error"]](*content["arguments"])
        counter = deepcopy(self.counter)
        counter.load_state_dict(content["states"])
        return counter

    def _refusal(self, error: Exception) -> dict[str, Any]:
        """Return the number of the error's class in ``refusals``, and its arguments.

        The class is made with the arguments, which are texts.
        """
        if type(error) in self.refusals:
            arguments: Any = error.__reduce__()[1]
            return {
                "error": self.refusals.index(type(error)),
                "arguments": [str(text) for text in arguments],
            }
        number = next(
            number
            for number, kind in enumerate(self.refusals)
            if isinstance(error, kind)
        )
        return {"error": number, "arguments": [str(error)]}


def _compressed(content: Mapping[str, Any]) -> bytes:
    """Return tensors, texts and numbers as compressed bytes."""
    file = BytesIO()
    torch.save(content, file)
    return zlib.compress(file.getvalue())


def _read(result: bytes) -> dict[str, Any]:
    """Return the content of :func:`_compressed`; nothing in it is executed."""
    content: dict[str, Any] = torch.load(
        BytesIO(zlib.decompress(result)), weights_only=True
    )
    return content


class ColumnNames(NamedTuple):
    """The names of the columns of a data set; None for a column that it does not have.

    Attributes:
        preds: Label ids, or scores of all labels.
        target: Relevant label ids.
        scores: Scores of the label ids.
        gains: Gains of the relevant labels.
        row_groups: The group of each row.
    """

    preds: str
    target: str
    scores: str | None
    gains: str | None
    row_groups: str | None

    @property
    def present(self) -> list[str]:
        """The names without None."""
        return [name for name in self if name is not None]


class Cluster(ABC):
    """An engine and its machines.

    The engine itself connects to the machines, and handles their failures.

    Attributes:
        name: Name of the engine on the command line.
    """

    name: str

    @abstractmethod
    def run_tasks(self, dataset: Any, work: Work) -> bytes:
        """Run a task on each part of the data set; return the sum of results."""

    @abstractmethod
    def numbers(self, count: int) -> Any:
        """Return a data set of the numbers 0 to ``count - 1``, one in each part.

        The column is named ``id``.
        """

    @abstractmethod
    def connect(self) -> int:
        """Connect to the machines; return how many tasks run at a time.

        The engine's own settings say how to connect.
        """

    def evaluate(
        self,
        dataset: Any,
        metrics: TopKCollection | TopKMetric | Iterable[TopKMetric] | None = None,
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
        """Return the report on a data set, with the values of a single process.

        They are equal bit for bit.

        One task evaluates each part of the data set and returns states of some
        kilobytes. Further tasks add the states.

        Args:
            dataset: ``ray.data.Dataset``, or a DataFrame of Spark or Dask.
            metrics: The metrics, which are copied; None takes the defaults of
                :func:`tailmetrics.evaluate`.
            preds: Name of the column with a list of label ids per row: best first, or
                in any order if ``scores`` is given. Or of the column with a list of
                scores per row, one score per label.
            target: Name of the column with a list of the relevant label ids per row, or
                with one label id per row.
            scores: Name of the column with the scores of the ids.
            gains: Name of the column with the gains of the relevant labels.
            row_groups: Name of the column with the group of each row, such as its
                language. The metrics define the names of the groups.
            buckets: As for :func:`tailmetrics.evaluate`.
            label_counts: Training counts, shape (L,), or the result of
                :func:`count_labels`.
            labels: As for :func:`tailmetrics.evaluate`.
            label_names: As for :func:`tailmetrics.evaluate`.
            num_labels: Number of labels; needed with ``labels=True`` if no other
                argument tells the number.
            intervals: Whether values have 95 % confidence intervals, computed from sums
                over rows.
            title: Title of the report.

        Raises:
            ValueError: If a column is absent, or if a metric refuses the rows; the
                engine then repeats no task.
        """
        options = Options(
            metrics=metrics,
            buckets=buckets,
            label_counts=label_counts,
            labels=labels,
            label_names=label_names,
            confidence=CONFIDENCE if intervals else None,
        ).with_default_buckets()
        columns: dict[str, int] = {}
        if num_labels is not None:
            columns["num_labels"] = num_labels
        evaluation = prepare(
            options,
            num_labels=number_of_labels("evaluate", columns, options.stated_numbers()),
        )
        evaluation.start()

        names = ColumnNames(preds, target, scores, gains, row_groups)
        work = Work(evaluation, names.present, partial(_evaluate, names=names))
        total: Evaluation = self._run("evaluate", dataset, work)
        return total.report(title)

    def count_labels(
        self, dataset: Any, num_labels: int, *, target: str = "labels"
    ) -> LabelFrequency:
        """Return how often each label occurs in training targets.

        :meth:`evaluate` takes the counts as ``label_counts``.

        Args:
            dataset: ``ray.data.Dataset``, or a DataFrame of Spark or Dask.
            num_labels: Number of labels.
            target: Name of the column with a list of label ids per row.
        """
        counter = LabelFrequency(check_count("count_labels", "num_labels", num_labels))
        work = Work(counter, [target], partial(_count, target=target))
        total: LabelFrequency = self._run("count_labels", dataset, work)
        return total

    def _run(self, caller: str, dataset: Any, work: Work) -> Any:
        """Return the counter with the states of all parts of a data set.

        Raises ValueError if the data set lacks a column of the work.
        """
        columns = dataset.columns
        if callable(columns):
            columns = columns()
        columns = [] if columns is None else list(columns)
        absent = [name for name in work.columns if name not in columns]
        if absent:
            raise ValueError(
                f"{caller}: there is no column {absent[0]!r}; name one of "
                f"{', '.join(map(repr, columns))}, such as preds='ids', "
                "target='labels'."
            )
        return work.counter_with(self.run_tasks(dataset, work))


def in_groups(results: Sequence[Any]) -> list[Sequence[Any]]:
    """Return results in groups of :data:`FAN_IN`, one group per task that adds.

    Without results, there is one empty group.
    """
    return [
        results[start : start + FAN_IN] for start in range(0, len(results) or 1, FAN_IN)
    ]


def results_in(blocks: Iterable[Any]) -> Iterator[bytes]:
    """Yield the results in Arrow tables or batches with the column ``result``."""
    for block in blocks:
        yield from block["result"].to_pylist()


def _as_arrow(batch: Any) -> Any:
    """Return a batch as an Arrow table: a pandas DataFrame is converted."""
    import pyarrow as pa

    if hasattr(batch, "iloc"):
        return pa.Table.from_pandas(batch, preserve_index=False)
    return batch


def _evaluate(evaluation: Evaluation, batch: Any, *, names: ColumnNames) -> None:
    """Add the rows of a batch to an evaluation, :data:`BATCH_ROWS` rows at a time."""
    for start in range(0, len(batch), BATCH_ROWS):
        rows = batch.slice(start, BATCH_ROWS)
        preds: Any = _lists(rows, names.preds)
        target: Any = _lists(rows, names.target)
        row_groups = None
        if names.scores is not None:
            preds = (_lists(rows, names.scores), preds)
        if names.gains is not None:
            target = ExplicitTarget(ids=target, gains=_lists(rows, names.gains))
        if names.row_groups is not None:
            row_groups = group_numbers(
                "evaluate", rows[names.row_groups].to_pylist(), evaluation.row_groups
            )
        evaluation.update(preds, target, row_groups=row_groups)


def _count(frequency: LabelFrequency, batch: Any, *, target: str) -> None:
    """Count the labels of a batch, :data:`BATCH_ROWS` rows at a time."""
    for start in range(0, len(batch), BATCH_ROWS):
        frequency.update(_lists(batch.slice(start, BATCH_ROWS), target))


def _lists(rows: Any, name: str) -> Any:
    """Return a column of lists or numbers; raise ValueError if it holds text.

    Dask converts lists to text by default.
    """
    column = rows[name]
    if str(column.type).endswith("string"):
        raise ValueError(
            f"column {name!r} holds text, such as {column[0].as_py()!r}; it needs "
            "lists of numbers. Dask turns lists into text: set "
            "dask.config.set({'dataframe.convert-string': False}) before the "
            "DataFrame is made."
        )
    return column
