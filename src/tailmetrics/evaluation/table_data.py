"""Reads tables, dicts by query and lists of names as data of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tailmetrics._arguments import cut, shape_of
from tailmetrics._number_of_labels import number_of_labels
from tailmetrics.evaluation.data import Data, DataBatch
from tailmetrics.evaluation.likely_mistakes import (
    notes_on_likely_mistakes,
    notes_on_queries,
)
from tailmetrics.evaluation.list_forms import is_frame, is_lists, is_table
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
    """Return the row mask as a tensor, after a check of its shape and type; None
    without a mask.
    """
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
    """Return the names of all labels in the order of their ids, also of those that only
    other arguments name.
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
    """Return the label counts of a table of training targets, and how it was read; None
    and () without a table.
    """
    if train_target is None:
        return None, ()
    from tailmetrics.io import read_target

    train = LabelFrequency(len(names), sync_on_compute=False)
    dataset = read_target(train_target, label_names=names, string_ids=True)
    for batch in dataset:
        train.update(batch.target)
    return train, dataset.readings


def check_tables(preds: Any, target: Any, train_target: Any) -> None:
    """Raise if a value is neither a table nor rows of names, or if rows of names do not
    fit each other.
    """
    _check_lists({"preds": preds, "target": target})
    tables = {"preds": preds, "target": target, "train_target": train_target}
    for argument, table in tables.items():
        _check_has_roles(argument, table)
    for argument, table in tables.items():
        if hasattr(table, "__next__"):
            raise TypeError(
                f"{CALLER}: {argument} is {shape_of(table)}, which can be read only "
                f"once; pass list({argument}), or "
                f"{argument}.read_all() of a reader of Arrow."
            )
        if not (table is None or is_table(table) or is_lists(table)):
            raise TypeError(
                f"{CALLER}: {argument} is {shape_of(table)}, but other arguments hold "
                "names of labels; pass a table with the columns query and item, a "
                "dict from query to a dict of items, or a list of names for each row; "
                "beside a matrix of scores label_names=, the name of each column."
            )


def _check_lists(lists: Mapping[str, Any]) -> None:
    """Raise if lists of names are of different numbers of rows, or if a list holds
    numbers beside names.
    """
    num_rows = {}
    for argument, rows in lists.items():
        if not is_lists(rows):
            continue
        num_rows[argument] = len(rows)
        for row in rows:
            if {str, float} <= set(map(type, row)):
                raise TypeError(
                    f"{CALLER}: {argument} holds {cut(str(tuple(row)), 60)}, numbers "
                    "beside names; a row is a list of names. Pass lines of query, "
                    "item and score as a DataFrame, or as a dict from query to "
                    "{item: score}."
                )
    if len(set(num_rows.values())) > 1:
        raise ValueError(
            f"{CALLER}: preds holds {num_rows['preds']:,} rows and target holds "
            f"{num_rows['target']:,} rows; pass a list of names for each row of both."
        )


def _check_has_roles(argument: str, value: Any) -> None:
    """Raise if a frame holds only numbers under names without a role, as a table with
    one column per label.
    """
    if not (
        is_table(value) and hasattr(value, "to_numpy") and hasattr(value, "columns")
    ):
        return
    from tailmetrics.io.columns import has_known_names

    names = [str(name) for name in value.columns]
    if not has_known_names(names) and value.to_numpy().dtype.kind in "biuf":
        raise TypeError(
            f"{CALLER}: {argument} has the columns {cut(', '.join(names), 60)}, none "
            "of queries; if each column is a label, pass table.to_numpy() and "
            "label_names=list(table), otherwise a table with the columns query and "
            "item."
        )


def _check_indexes_of_tables(preds: Any, target: Any) -> None:
    """Raise if two DataFrames without a column of queries have different indexes."""
    if is_frame(preds) and is_frame(target) and not preds.index.equals(target.index):
        raise ValueError(
            f"{CALLER}: the indexes of preds and target differ; pass "
            "target.loc[preds.index], or both after .reset_index(drop=True) if row i "
            "of both belong together."
        )
