"""Reads tables, dicts by query and lists of names as data of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tailmetrics._number_of_labels import number_of_labels
from tailmetrics.evaluation.argument_forms import check_tables, is_frame
from tailmetrics.evaluation.data import Data, DataBatch
from tailmetrics.evaluation.likely_mistakes import (
    notes_on_likely_mistakes,
    notes_on_queries,
)
from tailmetrics.evaluation.options import CALLER, Options
from tailmetrics.evaluation.values_by_row import values_by_row
from tailmetrics.frequency import LabelFrequency
from tailmetrics.ranking._batch import Batch
from tailmetrics.ranking._rows import per_row
from tailmetrics.ranking._tensors import as_tensor
from tailmetrics.ranking._warnings import warn_outside

if TYPE_CHECKING:
    from tailmetrics.io import Dataset


def data_of_tables(
    preds: Any, target: Any, train_target: Any, options: Options
) -> Data:
    """Return tables, dicts by query or lists of names as data."""
    from tailmetrics.io import read
    from tailmetrics.io.labels import order_of_names

    check_tables(preds, target, train_target)
    if options.ignore_index is not None and options.ignore_index >= 0:
        raise ValueError(
            f"{CALLER}: ignore_index={options.ignore_index} is a label id, but the "
            "labels of tables and dicts have names; take the lines of padding out."
        )

    names = label_names_of([preds], target, train_target, options)
    label_order = order_of_names(names, len(names))
    stated = replace(options, label_names=None, label_tree=None).stated_numbers()
    number_of_labels(CALLER, {"the data": len(names)}, stated)

    dataset = read(
        preds,
        target,
        train_target=train_target,
        label_names=names,
        string_ids=True,
        missing=options.missing,
        duplicates=options.duplicates,
    )
    if dataset.row_names is None:
        _check_indexes_of_tables(preds, target)

    train, train_readings = _training_counts(train_target, names)
    likely_mistakes = notes_on_likely_mistakes(dataset)
    for note in likely_mistakes:
        warn_outside(f"{CALLER}: {note}")
    data = Data(
        num_rows=dataset.num_rows,
        num_labels=len(names),
        device=torch.device("cpu"),
        batches=partial(_batches_of_tables, dataset),
        label_names=names,
        label_order=label_order,
        tie_winner=dataset.tie_winner,
        row_names=dataset.row_names,
        has_one_order=dataset.has_one_order,
        train=train,
        notes=(
            *dataset.notes,
            *likely_mistakes,
            *notes_on_queries(dataset, options.missing),
        ),
        readings=tuple(
            reading.sentence for reading in (*dataset.readings, *train_readings)
        ),
    )
    row_mask = values_by_row(
        options.row_mask, "row_mask", data, {"preds": preds, "target": target}
    )
    return replace(data, row_mask=_mask_of_rows(row_mask, data))


def _batches_of_tables(dataset: Dataset, size: int) -> Iterator[DataBatch]:
    """Yield at most ``size`` rows at a time."""
    for batch in replace(dataset, batch_rows=min(size, dataset.batch_rows)):
        rows = slice(int(batch.rows[0]), int(batch.rows[-1]) + 1)
        yield rows, Batch(batch.preds, batch.target)


def _mask_of_rows(row_mask: Any, data: Data) -> Tensor | None:
    """Return the row mask as a checked tensor; None without a mask."""
    if row_mask is None:
        return None
    return per_row(
        CALLER,
        "row_mask",
        as_tensor(CALLER, "row_mask", row_mask),
        data.num_rows,
        data.device,
    )


def label_names_of(
    runs: Sequence[Any], target: Any, train_target: Any, options: Options
) -> Sequence[str]:
    """Return the names of all labels in the order of their ids.

    Labels that only other arguments name are among them.
    """
    from tailmetrics.io import read_label_names

    other_names: dict[str, list[str]] = {}
    if options.counts_have_names:
        other_names["label_counts"] = list(options.label_counts)
    if options.label_names is not None:
        other_names["label_names"] = list(map(str, options.label_names))
    if options.catalogue:
        other_names["preds"] = list(options.catalogue)
    return (
        read_label_names(
            runs, target, train_target, string_ids=True, other_names=other_names
        )
        or ()
    )


def _training_counts(
    train_target: Any, names: Sequence[str]
) -> tuple[LabelFrequency | None, Sequence[Any]]:
    """Return the label counts of a table of training targets, and how it was read.

    Without a table they are None and ().
    """
    if train_target is None:
        return None, ()
    from tailmetrics.io import read_target

    train = LabelFrequency(len(names), sync_on_compute=False)
    dataset = read_target(train_target, label_names=names, string_ids=True)
    for batch in dataset:
        train.update(batch.target)
    return train, dataset.readings


def _check_indexes_of_tables(preds: Any, target: Any) -> None:
    """Raise if two DataFrames without a column of queries have different indexes."""
    if is_frame(preds) and is_frame(target) and not preds.index.equals(target.index):
        raise ValueError(
            f"{CALLER}: the indexes of preds and target differ; pass "
            "target.loc[preds.index], or both after .reset_index(drop=True) if row i "
            "of both belong together."
        )
