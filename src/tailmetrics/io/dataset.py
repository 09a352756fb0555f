"""Open files as batches that ``metric.update`` takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.checks import check_rows
from tailmetrics.io.errors import DataFileError
from tailmetrics.io.filter import Filter
from tailmetrics.io.roles import Role
from tailmetrics.io.rows import Rows
from tailmetrics.io.source import Source
from tailmetrics.io.tensors import preds_tensors, target_tensor
from tailmetrics.io.trimming import cut, drop_low_gains


class Batch(NamedTuple):
    """Consecutive rows.

    Attributes:
        preds: Scores (N, L), ranked ids (N, K), a pair (scores, ids) of candidates, or CSR (N, L).
        target: Label ids (N, M), multi-hot or gains (N, L), or CSR (N, L).
        rows: Shape (N,), int64, numbers of the rows in the files.
    """

    preds: Tensor | tuple[Tensor, Tensor]
    target: Tensor
    rows: Tensor


class TargetBatch(NamedTuple):
    """Consecutive rows of targets alone.

    Attributes:
        target: Label ids (N, M), multi-hot or gains (N, L), or CSR (N, L).
        rows: Shape (N,), int64, numbers of the rows in the file.
    """

    target: Tensor
    rows: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Files:
    """What is known of files that are open.

    Attributes:
        num_rows: Rows over all ranks.
        num_labels: Number of labels, given or declared by a file; None when neither.
        label_names: String ids in the order of the label ids; None when label ids are numbers.
        row_names: Queries in the order of the rows; None when rows are numbers.
        missing_queries: Queries of the target without predictions, over all ranks: left out, or zero, as asked.
        unmatched_queries: Queries of the predictions without targets, over all ranks: left out.
        start: First row of this rank.
        stop: Row behind its last.
        batch_rows: Rows per batch.
        columns: Number of columns that holds every label id; None when not known.
        last_name_wins: Whether labels are numbered so that the last name wins ties, as in trec_eval.
    """

    num_rows: int
    num_labels: int | None
    label_names: Sequence[str] | None = None
    row_names: Sequence[str] | None = None
    missing_queries: int = 0
    unmatched_queries: int = 0
    start: int
    stop: int
    batch_rows: int
    columns: int | None
    last_name_wins: bool = False

    @property
    def tie_winner(self) -> str:
        """Which of two labels with equal scores is ranked first."""
        if self.label_names is None:
            return "the lower label id"
        return f"the label that comes {'last' if self.last_name_wins else 'first'} by name"

    def _numbers(self) -> Iterator[Tensor]:
        for first in range(self.start, self.stop, self.batch_rows):
            yield torch.arange(first, min(first + self.batch_rows, self.stop))

    def _checked(self, source: Source, role: Role, repeats: bool = False) -> Iterator[Rows]:
        first = self.start
        for rows in source.batches(self.start, self.stop, self.batch_rows):
            if len(rows) < min(self.batch_rows, self.stop - first):
                raise _ends_early(source, first + len(rows))
            check_rows(rows, role, source, first, self.columns, repeats)
            yield rows
            first += len(rows)
        if first < self.stop:
            raise _ends_early(source, first)

    def _target_tensor(self, source: Source, target: Rows) -> Tensor:
        try:
            return target_tensor(target, self.columns)
        except ValueError as error:
            hint = "pass num_labels, or leave the gains out if all are 1."
            raise DataFileError(source.path, "holds gains, but the number of labels is not known", hint=hint) from error


def _ends_early(source: Source, row: int) -> DataFileError:
    hint = "the file may be truncated or corrupt: write it again."
    return DataFileError(source.path, f"ends after {row} rows, but declares {source.num_rows}", hint=hint)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(Files):
    """Predictions and targets in batches; iterate as often as needed.

    Every value has been checked when a batch comes out, so metrics need not (``validate_args=False``).

    Attributes:
        preds: The file of predictions.
        target: The file of targets.
        ignored: Pairs of row and label that do not count.
        duplicates: ``"first"`` if rows of predictions may hold a label twice, as :func:`tailmetrics.rank` takes it.
        cut: How many labels of each list count; None for all.
    """

    preds: Source
    target: Source
    ignored: Filter | None = None
    duplicates: Literal["error", "first"] = "error"
    cut: int | None = None

    def __iter__(self) -> Iterator[Batch]:
        repeats = self.duplicates == "first"
        pairs = zip(self._checked(self.preds, "preds", repeats), self._checked(self.target, "target"), strict=True)
        for (preds, target), rows in zip(pairs, self._numbers(), strict=True):
            if self.ignored is not None:
                preds = self.ignored.apply(preds, int(rows[0]), -np.inf)
                target = self.ignored.apply(target, int(rows[0]), 0)
            preds = preds if self.cut is None else cut(preds, self.cut)
            scored = preds_tensors(preds, None if repeats else self.columns)
            yield Batch(scored, self._target_tensor(self.target, target), rows)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TargetDataset(Files):
    """Targets in batches; iterate as often as needed.

    Attributes:
        target: The file.
        min_gain: The least gain that counts as relevant; None for any above 0.
    """

    target: Source
    min_gain: float | None = None

    def __iter__(self) -> Iterator[TargetBatch]:
        for target, rows in zip(self._checked(self.target, "target"), self._numbers(), strict=True):
            if self.min_gain is not None:
                target = drop_low_gains(target, self.min_gain)
            yield TargetBatch(self._target_tensor(self.target, target), rows)
