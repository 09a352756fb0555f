"""What a task of an engine does: it counts the rows of its part, and returns the states as bytes."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, ClassVar, TypeVar

from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.row_groups import group_numbers
from tailmetrics.frequency import LabelFrequency
from tailmetrics.ranking._reading import ExplicitTarget

Counter = TypeVar("Counter", Evaluation, LabelFrequency)

COUNTED, REFUSED = b"+", b"-"
"""The first byte of a result: states follow, or an error that any other attempt would end with too."""
BATCH_ROWS = 4096


class Work(ABC):
    """A function of batches, and of its own results; it is sent to the machines of an engine.

    Attributes:
        columns: The columns that it reads.
        refuses: Errors of the rows, which an engine is not to try again.
    """

    columns: Sequence[str]
    refuses: ClassVar[tuple[type[Exception], ...]] = (TypeError, ValueError)

    @abstractmethod
    def counter(self) -> Any:
        """Return what counts; it has counted nothing."""

    @abstractmethod
    def add(self, counter: Any, batch: Any) -> None:
        """Count a batch: a table of Arrow or a DataFrame of pandas."""

    def __call__(self, batches: Iterable[Any]) -> bytes:
        """Count batches."""
        try:
            counter = self.counter()
            for batch in batches:
                self.add(counter, batch)
        except self.refuses as error:
            return REFUSED + pickle.dumps(error)
        return COUNTED + bytes(counter.state_bytes())

    def merged(self, results: Iterable[bytes]) -> bytes:
        """Add results up, of any number of tasks and in any order; the first error is the result where there is one."""
        total = self.counter()
        part = deepcopy(total)
        for result in results:
            if result[:1] == REFUSED:
                return result
            part.load_state_bytes(result[1:])
            total.merge_state(part)
        return COUNTED + bytes(total.state_bytes())

    def counted(self, result: bytes) -> Any:
        """Return what a result has counted, or raise its error."""
        if result[:1] == REFUSED:
            raise pickle.loads(result[1:])
        counter = self.counter()
        counter.load_state_bytes(result[1:])
        return counter


class Evaluating(Work):
    """Evaluates rows whose predictions and targets are columns.

    Args:
        evaluation: The metrics, bound.
        preds: The column of ids, best first, or in any order beside ``scores``; or of scores, one per label.
        target: The column of relevant labels.
        scores: The column of the scores of the ids.
        gains: The column of the gains of the relevant labels.
        row_groups: The column of the group of each row.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        preds: str,
        target: str,
        scores: str | None = None,
        gains: str | None = None,
        row_groups: str | None = None,
    ) -> None:
        evaluation.start()
        self._evaluation = evaluation
        self._preds, self._target = preds, target
        self._scores, self._gains, self._row_groups = scores, gains, row_groups
        self.columns = [name for name in (preds, target, scores, gains, row_groups) if name is not None]

    def counter(self) -> Evaluation:
        """Return an evaluation without rows."""
        return deepcopy(self._evaluation)

    def add(self, counter: Evaluation, batch: Any) -> None:
        """Evaluate rows, some thousand at a time."""
        for rows in slices(batch):
            ids, labels = rows[self._preds], rows[self._target]
            groups = None
            if self._row_groups is not None:
                groups = group_numbers("evaluate", list_of(rows[self._row_groups]), counter.row_groups)
            counter.update(
                ids if self._scores is None else (rows[self._scores], ids),
                labels if self._gains is None else ExplicitTarget(ids=labels, gains=rows[self._gains]),
                row_groups=groups,
            )


class Counting(Work):
    """Counts how often each label occurs.

    Args:
        num_labels: Number of labels.
        target: The column of relevant labels.
    """

    def __init__(self, num_labels: int, target: str) -> None:
        self._frequency = LabelFrequency(num_labels)
        self._target = target
        self.columns = [target]

    def counter(self) -> LabelFrequency:
        """Return counts of nothing."""
        return deepcopy(self._frequency)

    def add(self, counter: LabelFrequency, batch: Any) -> None:
        """Count the labels of rows."""
        for rows in slices(batch):
            counter.update(rows[self._target])


def slices(batch: Any) -> Iterator[Any]:
    """Yield the rows of a table of Arrow or a DataFrame of pandas, some thousand at a time."""
    for start in range(0, len(batch), BATCH_ROWS):
        if hasattr(batch, "iloc"):
            yield batch.iloc[start : start + BATCH_ROWS]
        else:
            yield batch.slice(start, BATCH_ROWS)


def list_of(column: Any) -> list[Any]:
    """Return a column of Arrow or pandas as a list, with None where nothing is."""
    if hasattr(column, "to_pylist"):
        return list(column.to_pylist())
    return list(column.astype(object).where(column.notna(), None))
