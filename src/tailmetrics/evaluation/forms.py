"""What `evaluate` takes beside tensors: tables, dicts of runs, lists of lists; all as batches of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import torch
from torch import Tensor

from tailmetrics._checks import shape_of
from tailmetrics.frequency import LabelFrequency
from tailmetrics.ranking._inputs import as_tensor, is_csr

CALLER = "evaluate"
Batch = tuple[slice, Any, Tensor]


class Data(NamedTuple):
    """Predictions and targets that can be read in batches.

    Attributes:
        num_rows: N.
        columns: L, where predictions are scores of all labels or the labels have names.
        device: Where the tensors are.
        batches: Yields rows, predictions and targets of each batch of at most so many rows.
        label_names: The name of each label; None where labels are numbers.
        row_names: The query of each row; None where rows are numbered.
        train: Counts of training targets; None without any.
        notes: What to know of the rows.
    """

    num_rows: int
    columns: int | None
    device: torch.device
    batches: Callable[[int], Iterator[Batch]]
    label_names: Sequence[str] | None = None
    row_names: Sequence[str] | None = None
    train: LabelFrequency | None = None
    notes: tuple[str, ...] = ()


def read_data(preds: Any, target: Any, train_target: Any) -> Data:
    """Return predictions and targets of any form as batches of tensors."""
    target, train_target = _rows_of_names(target), _rows_of_names(train_target)
    tables = [is_table(value) or _holds_names(value) for value in (preds, target)]
    if any(tables):
        return _of_tables(preds, target, train_target)
    return _of_tensors(_padded(preds), _padded(target), _padded(train_target))


def is_table(value: Any) -> bool:
    """Whether a value is a table with columns, such as a DataFrame, or a dict from query to a dict of items."""
    return isinstance(value, Mapping) or (hasattr(value, "columns") and not isinstance(value, Tensor))


# -- tensors --------------------------------------------------------------------------------------------------------


def _of_tensors(preds: Any, target: Any, train_target: Any) -> Data:
    pair = isinstance(preds, (tuple, list)) and len(preds) == 2
    given = tuple(as_tensor(CALLER, f"preds[{place}]", part) for place, part in enumerate(preds)) if pair else None
    first = given[0] if given is not None else as_tensor(CALLER, "preds", preds)
    relevant = as_tensor(CALLER, "target", target)
    if first.ndim != 2 or relevant.ndim == 0 or len(first) != len(relevant):
        raise ValueError(
            f"{CALLER}: preds is {shape_of(first)} and target {shape_of(relevant)}; pass preds [N, L] or [N, K] and "
            "one row of target per row of preds."
        )
    scored = given is None and (first.is_floating_point() or is_csr(first))
    columns = first.shape[1] if scored else None

    def batches(size: int) -> Iterator[Batch]:
        for rows in _slices(len(first), size):
            part = _cut(first, rows) if given is None else tuple(_cut(one, rows) for one in given)
            yield rows, part, _cut(relevant, rows)

    train = None
    if train_target is not None:
        labels = as_tensor(CALLER, "train_target", train_target)
        known = columns or 1 + _largest_id(first if given is None else given[1], relevant, labels)
        train = LabelFrequency(known)
        train.update(labels)
    return Data(len(first), columns, first.device, batches, train=train)


def _largest_id(*ids: Tensor) -> int:
    whole = [int(one.max()) for one in ids if one.numel() and not (one.is_floating_point() or is_csr(one))]
    return max(whole, default=0)


def _padded(value: Any) -> Any:
    """Return lists of label ids as a matrix padded with -1; any other value as it is."""
    if not _is_lists(value) or not all(isinstance(one, int) for row in value for one in row):
        return value
    width = max(1, *map(len, value))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in value], dtype=torch.int64)


def _is_lists(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(row, (list, tuple)) for row in value)


def _holds_names(value: Any) -> bool:
    return _is_lists(value) and any(isinstance(one, str) for row in value for one in row)


def _rows_of_names(value: Any) -> Any:
    """Return a list of names, the relevant label of each row, as a list for each row; any other value as it is."""
    is_names = isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, str) for one in value)
    return [[one] for one in value] if is_names else value


def _slices(num_rows: int, size: int) -> Iterator[slice]:
    """Yield the rows of each batch; one empty batch where there are none, so that its arguments are checked."""
    for start in range(0, max(1, num_rows), size):
        yield slice(start, min(start + size, num_rows))


def _cut(value: Tensor, rows: slice) -> Tensor:
    """Return some rows."""
    if not is_csr(value):
        return value[rows]
    crow = value.crow_indices()[rows.start : rows.stop + 1]
    stored = slice(int(crow[0]), int(crow[-1]))
    return torch.sparse_csr_tensor(
        crow - crow[0],
        value.col_indices()[stored],
        value.values()[stored],
        size=(rows.stop - rows.start, value.shape[1]),
        check_invariants=False,  # the whole was checked
    )


# -- tables ---------------------------------------------------------------------------------------------------------


def _of_tables(preds: Any, target: Any, train_target: Any) -> Data:
    from tailmetrics.io import DataFileNote, read, read_target
    from tailmetrics.io.loading import names_in_memory

    given = {"preds": preds, "target": target, "train_target": train_target}
    tables = {name: _as_table(name, value) for name, value in given.items() if value is not None}
    names = names_in_memory(CALLER, tables)
    with catch_warnings(record=True) as guesses:
        simplefilter("always", DataFileNote)
        dataset = read(tables["preds"], tables["target"], label_names=names)

    def batches(size: int) -> Iterator[Batch]:
        for batch in replace(dataset, batch_rows=min(size, dataset.batch_rows)):
            yield slice(int(batch.rows[0]), int(batch.rows[-1]) + 1), batch.preds, batch.target

    train = None
    if train_target is not None:
        train = LabelFrequency(len(names))
        with catch_warnings():
            simplefilter("ignore", DataFileNote)
            for part in read_target(tables["train_target"], label_names=names):
                train.update(part.target)
    notes = tuple(f"{str(guess.message).partition(';')[0]}; rename columns to choose others." for guess in guesses)
    if dataset.missing_queries:
        notes += (f"{dataset.missing_queries:,} queries of target have no predictions and are left out.",)
    cpu = torch.device("cpu")
    return Data(dataset.num_rows, len(names), cpu, batches, names, dataset.row_names, train, notes)


def _as_table(argument: str, value: Any) -> Any:
    """Return a value as a table or a dict of dicts: rows of lists are numbered, their first label is the best one."""
    if is_table(value):
        return value
    if not _is_lists(value):
        raise TypeError(
            f"{CALLER}: {argument} is {shape_of(value)}, but other arguments hold names of labels; pass a table with "
            "the columns query and item, a dict from query to a dict of items, or a list of names for each row."
        )
    return {
        str(row): {str(name): float(len(labels) - place) for place, name in enumerate(labels)}
        if argument == "preds"
        else {str(name): 1.0 for name in labels}
        for row, labels in enumerate(value)
    }
