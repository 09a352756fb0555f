"""``Data``: the predictions and targets of an evaluation, read in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tailmetrics.frequency import LabelFrequency
from tailmetrics.ranking._batch import Batch
from tailmetrics.report.report import Report

DataBatch: TypeAlias = tuple[slice, Batch]
"""The rows of a batch, and its predictions and targets."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """Predictions and targets that can be read in batches.

    Attributes:
        num_rows: Number of rows N.
        num_labels: Number of labels L, by
            :func:`tailmetrics._number_of_labels.number_of_labels`; None if unknown.
        device: Device of the tensors.
        batches: Takes the largest number of rows per batch, and yields the rows,
            predictions and targets of each batch.
        row_mask: Shape (N,), bool; False drops a row.
        row_groups: The name or number of the group of each row; None without groups.
        group_names: The names of the groups; None if groups have no names.
        clusters: The cluster of each row; None if rows are drawn singly.
        label_names: The name of each label; None if labels are given as ids.
        label_order: Label ids by ascending name, shape (L,), int64; None if ids follow
            this order already.
        may_have_gaps: Whether some ids may be no labels: nothing has a column or a name
            for each label.
        tie_winner: As for :class:`Report`.
        row_names: The query of each row; None if rows have no names.
        has_one_order: Whether predictions name their queries in the order of the
            targets, which is that of the rows.
        tokens: Number of rows per sequence, T, if scores are (B, T, L); 1 otherwise.
        train: Label counts of the training targets; None without training targets.
        notes: Notes on the rows, for the report.
        readings: For each table, the sentence that says how it was read.
    """

    num_rows: int
    num_labels: int | None
    device: torch.device
    batches: Callable[[int], Iterator[DataBatch]]
    row_mask: Tensor | None = None
    row_groups: Any = None
    group_names: Sequence[str] | None = None
    clusters: Any = None
    label_names: Sequence[str] | None = None
    label_order: Tensor | None = None
    may_have_gaps: bool = False
    tie_winner: str = Report.tie_winner
    row_names: Sequence[str] | None = None
    has_one_order: bool = True
    tokens: int = 1
    train: LabelFrequency | None = None
    notes: tuple[str, ...] = ()
    readings: tuple[str, ...] = ()
