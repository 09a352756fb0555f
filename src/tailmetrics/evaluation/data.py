"""Reads the data that ``evaluate`` takes into batches: tensors, lists of ids or names, tables, dicts of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, permutations
from math import prod
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, cut, shape_of
from tailmetrics._number_of_labels import number_of_labels
from tailmetrics.evaluation.likely_mistakes import notes_on_likely_mistakes, notes_on_queries
from tailmetrics.evaluation.options import CALLER, Options, check_distinct
from tailmetrics.evaluation.row_groups import group_names
from tailmetrics.frequency import LabelFrequency
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._inputs import (
    Batch,
    Context,
    ExplicitTarget,
    as_tensor,
    as_tensors,
    check_indexes,
    labels_without,
    per_row,
)
from tailmetrics.ranking._reading import wrong_axes
from tailmetrics.ranking._warnings import warn_outside
from tailmetrics.report.report import Report

if TYPE_CHECKING:
    from tailmetrics.io import Dataset

Part = tuple[slice, Any, Any]


@dataclass(frozen=True, kw_only=True)
class Data:
    """Predictions and targets that can be read in batches.

    Attributes:
        num_rows: Number of rows N.
        num_labels: Number of labels L, by :func:`tailmetrics._number_of_labels.number_of_labels`; None if unknown.
        device: Device of the tensors.
        batches: Takes the largest number of rows per batch, and yields the rows, predictions and targets of each batch.
        row_mask: Shape (N,), bool; False drops a row.
        row_groups: The name or number of the group of each row; None without groups.
        group_names: The names of the groups; None if groups have no names.
        clusters: The cluster of each row; None if rows are drawn singly.
        label_names: The name of each label; None if labels are given as ids.
        label_order: Label ids by ascending name, shape (L,), int64; None if ids follow this order already.
        may_have_gaps: Whether some ids may be no labels: nothing has a column or a name for each label.
        tie_winner: As for :class:`Report`.
        row_names: The query of each row; None if rows have no names.
        tokens: Number of rows per sequence, T, if scores are (B, T, L); 1 otherwise.
        train: Label counts of the training targets; None without training targets.
        notes: Notes on the rows, for the report.
        readings: For each table, the sentence that says how it was read.
    """

    num_rows: int
    num_labels: int | None
    device: torch.device
    batches: Callable[[int], Iterator[Part]]
    row_mask: Tensor | None = None
    row_groups: Any = None
    group_names: Sequence[str] | None = None
    clusters: Any = None
    label_names: Sequence[str] | None = None
    label_order: Tensor | None = None
    may_have_gaps: bool = False
    tie_winner: str = Report.tie_winner
    row_names: Sequence[str] | None = None
    tokens: int = 1
    train: LabelFrequency | None = None
    notes: tuple[str, ...] = ()
    readings: tuple[str, ...] = ()


def read_data(preds: Any, target: Any, options: Options) -> Data:
    """Return predictions, targets and arguments with a value per row, in any form, as data in the order of the rows."""
    _check_rows(preds, target, options)
    inputs = {"preds": preds, "target": target}
    train_target = _rows_of_names(_as_lists(options.train_target))
    if isinstance(preds, Ranking):
        data = _data_of_ranking(preds, train_target, options)
    else:
        preds = _as_lists(preds)
        target = _rows_of_names(_as_lists(target))
        if options.label_names is not None and hasattr(preds, "shape") and not is_table(preds):
            target = _numbered("target", target, options.label_names)
            train_target = _numbered("train_target", train_target, options.label_names)
        if any(is_table(value) or _holds_names(value) for value in (preds, target)):
            data = _data_of_tables(preds, target, train_target, options)
        else:
            data = _data_of_tensors(_padded(preds), _padded(target), train_target, options)

    row_groups = _values_by_row(options.row_groups, "row_groups", data, inputs)
    clusters = _values_by_row(options.clusters, "clusters", data, inputs)
    names = None
    if row_groups is not None:
        names = group_names(row_groups) or None
    notes = (*data.notes, *_notes_on_groups(options.row_groups, data))
    return replace(data, row_groups=row_groups, group_names=names, clusters=clusters, notes=notes)


def is_table(value: Any) -> bool:
    """Whether a value is a table with columns, such as a DataFrame, a list of objects, or a dict by query."""
    if isinstance(value, list) and value:
        first = next((entry for row in value if isinstance(row, (list, tuple)) for entry in row), value[0])
        return isinstance(first, Mapping)
    return isinstance(value, Mapping) or (hasattr(value, "columns") and not isinstance(value, Tensor))


def _is_frame(value: Any) -> bool:
    """Whether a value is a pandas DataFrame."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


# -- checks of rows -------------------------------------------------------------------------------------------------


def _check_rows(preds: Any, target: Any, options: Options) -> None:
    """Raise if data are not in memory, if the target is missing or given twice, or if rows are in different orders."""
    _check_in_memory({"preds": preds, "target": target, "train_target": options.train_target})
    if isinstance(preds, Ranking):
        own = {"target": target, "row_mask": options.row_mask}
        if preds.rows.groups is not None:
            own["row_groups"] = options.row_groups
        for argument, value in own.items():
            if value is not None:
                raise TypeError(
                    f"{CALLER}: {argument} is given beside a Ranking, which holds it already; leave it out."
                )
        return

    if target is None:
        raise TypeError(f"{CALLER}: target is missing; pass the relevant labels, or a Ranking, which holds them.")
    check_indexes(CALLER, {"preds": preds, "target": target, "row_mask": options.row_mask})
    for (table, frame), (name, series) in permutations({"preds": preds, "target": target}.items()):
        is_pair = _is_frame(frame) and hasattr(series, "iloc") and not _is_frame(series)
        if is_pair and not series.index.equals(frame.index):  # the index of the Series may name queries
            raise ValueError(
                f"{CALLER}: {name} is a Series whose index is not that of {table}; pass {name}.reset_index() if it "
                f"names the queries, or {name}.tolist() if row i of both belong together."
            )


def _check_in_memory(values: Mapping[str, Any]) -> None:
    """Raise if a value is the path of a file, or a data set of files."""
    for argument, value in values.items():
        if isinstance(value, (str, PurePath)):
            content = f"the path {cut(str(value), 60)!r}"
        elif type(value).__module__ == "tailmetrics.io.dataset":
            content = "files that tailmetrics.io.read opened"
        else:
            continue
        raise TypeError(
            f"{CALLER}: {argument} is {content}, not data in memory; pass json.load(file) or "
            "pandas.read_parquet(path), run tailmetrics evaluate --preds FILE --target FILE, or update metrics in "
            "batches: for batch in tailmetrics.io.read(preds, target): metrics.update(batch.preds, batch.target)."
        )


# -- rankings and tensors -------------------------------------------------------------------------------------------


def _data_of_ranking(ranking: Ranking, train_target: Any, options: Options) -> Data:
    """Return a ranking as data of a single batch."""
    train_labels = _training_labels(train_target)
    widths = _widths({"train_target": train_labels})
    if ranking.num_labels is not None:
        widths = {"preds": ranking.num_labels, **widths}
    num_labels = number_of_labels(CALLER, widths, options.stated_numbers())
    train = None
    if train_labels is not None:
        num_counted = num_labels or 1 + _largest_id(ranking.ids, ranking.targets.entries.ids, train_labels)
        train = _training_counts(train_labels, num_counted, options.ignore_index)
    batch = slice(0, ranking.num_rows), ranking, None
    return Data(
        num_rows=ranking.num_rows,
        num_labels=num_labels,
        device=ranking.ids.device,
        batches=lambda _: iter([batch]),
        may_have_gaps=num_labels is None,
        train=train,
    )


def _data_of_tensors(preds: Any, target: Any, train_target: Any, options: Options) -> Data:
    """Return scores, ids, candidates or CSR and their targets as data."""
    batch = Batch(preds, target, options.row_mask)
    token_axes = getattr(_tensors_of(preds)[0], "shape", ())[1:-1]
    has_tokens = len(token_axes) > 0 and getattr(target, "ndim", 0) == len(token_axes) + 1  # (B, T, L) beside (B, T)
    as_tensors(Context(CALLER), batch)
    tensors, relevant = _tensors_of(batch.preds), batch.target
    scores, ids = tensors[0], tensors[-1]
    if scores.ndim == 1:
        raise wrong_axes(CALLER, scores, relevant)
    if relevant.ndim == 0 or len(scores) != len(relevant):
        raise ValueError(
            f"{CALLER}: preds is {shape_of(scores)} and target {shape_of(relevant)}; pass preds [N, L] or [N, K] and "
            "one row of target per row of preds."
        )

    train_labels = _training_labels(train_target)
    widths = _widths({"preds": batch.preds, "target": relevant, "train_target": train_labels})
    num_labels = number_of_labels(CALLER, widths, options.stated_numbers())
    if not widths and options.label_names is not None:
        _check_has_names(len(options.label_names), ids, batch, options.ignore_index)

    train = None
    if train_labels is not None:
        num_labels = num_labels or 1 + _largest_id(ids, relevant, train_labels)
        train = _training_counts(train_labels, num_labels, options.ignore_index, has_tokens)
    return Data(
        num_rows=len(scores),
        num_labels=num_labels,
        device=scores.device,
        batches=partial(_batches_of_tensors, batch),
        row_mask=batch.row_mask,
        may_have_gaps=not widths and options.label_names is None,
        tokens=prod(token_axes),
        train=train,
    )


def _tensors_of(preds: Any) -> tuple[Any, ...]:
    """Return the scores and ids of candidates, or the single tensor of other predictions."""
    if isinstance(preds, tuple):
        return preds
    return (preds,)


def _batches_of_tensors(batch: Batch, size: int) -> Iterator[Part]:
    """Yield ``size`` rows at a time; without rows one empty batch, for which arguments are checked."""
    num_rows = len(batch.target)
    for start in range(0, max(1, num_rows), size):
        rows = slice(start, min(start + size, num_rows))
        preds: Any = tuple(_cut(tensor, rows) for tensor in _tensors_of(batch.preds))
        if not isinstance(batch.preds, tuple):
            (preds,) = preds
        target: Any = _cut(batch.target, rows)
        if batch.form != "target":
            target = ExplicitTarget(ids=target)
        yield rows, preds, target


def _training_labels(train_target: Any) -> Tensor | None:
    """Return training targets as a tensor; None without training targets."""
    if train_target is None:
        return None
    return as_tensor(CALLER, "train_target", _padded(train_target))


def _widths(tensors: Mapping[str, Any]) -> dict[str, int]:
    """Return by argument the number of columns of each tensor that has a column per label; ids have none."""
    widths = {}
    for argument, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.ndim < 2:
            continue
        if tensor.is_floating_point() or tensor.is_sparse_csr or tensor.dtype == torch.bool:
            widths[argument] = tensor.shape[-1]
    return widths


def _training_counts(
    labels: Tensor, num_labels: int, ignore_index: int | None = None, has_tokens: bool = False
) -> LabelFrequency:
    """Return the counts of training targets, in which ``ignore_index`` is no label.

    Args:
        labels: The training targets in any form.
        num_labels: Number of labels L.
        ignore_index: An id that is no label.
        has_tokens: Whether the targets of the evaluation are one id per token.
    """
    train = LabelFrequency(num_labels)
    try:
        holds_ids = labels.dtype in INTEGERS and not labels.is_sparse_csr
        if has_tokens and ignore_index is None:
            train.update(labels, ignore_index=-1)
        elif has_tokens or ignore_index is None or not holds_ids:
            train.update(labels, ignore_index=ignore_index)
        else:
            train.update(*labels_without(labels, ignore_index))
    except ValueError as error:
        raise ValueError(f"{CALLER}: train_target: {error}") from error
    return train


def _check_has_names(num_names: int, ids: Tensor, batch: Batch, ignore_index: int | None) -> None:
    """Raise unless there is a name for each label id of the rows that count."""
    rows: Any = slice(None)
    if batch.row_mask is not None:
        rows = batch.row_mask
    labels = torch.cat([ids[rows].flatten(), batch.target[rows].flatten()])
    highest = _largest_id(labels[labels != ignore_index])
    if highest >= num_names:
        raise ValueError(
            f"{CALLER}: label_names holds {num_names:,} names, for the label ids 0 to {num_names - 1:,}, but preds or "
            f"target holds the id {highest:,}. If these numbers are names, pass them as lists of strings, or a table."
        )


def _largest_id(*tensors: Tensor) -> int:
    """Return the largest label id, 0 without ids."""
    largest = 0
    for tensor in tensors:
        if tensor.numel():
            largest = max(largest, int(tensor.max()))
    return largest


def _cut(value: Tensor, rows: slice) -> Tensor:
    """Return some rows of a dense or CSR tensor."""
    if not value.is_sparse_csr:
        return value[rows]
    crow = value.crow_indices()[rows.start : rows.stop + 1]
    stored = slice(int(crow[0]), int(crow[-1]))
    return torch.sparse_csr_tensor(
        crow - crow[0],
        value.col_indices()[stored],
        value.values()[stored],
        size=(rows.stop - rows.start, value.shape[1]),
        check_invariants=False,  # the whole tensor was checked
    )


# -- conversions of lists -------------------------------------------------------------------------------------------


def _as_lists(value: Any) -> Any:
    """Convert arrays of names, and lists of arrays of ids or names, to lists; return any other value unchanged."""
    if isinstance(value, list):
        return [_as_list(row) for row in value]
    if getattr(getattr(value, "dtype", None), "kind", "") not in ("O", "U", "T"):
        return value
    rows = _as_lists(value.tolist())
    if _holds_names(rows) or _are_names(rows):
        return rows
    return value


def _as_list(row: Any) -> Any:
    """Convert an array of ids or names to a list; an empty array may have any type."""
    if getattr(row, "ndim", 0) == 1 and (not len(row) or "float" not in str(row.dtype)):
        return row.tolist()
    return row


def _padded(value: Any) -> Any:
    """Convert lists of label ids to a matrix padded with -1, and lists of bools to a matrix.

    Return any other value unchanged.
    """
    if isinstance(value, list) and not value:
        return torch.empty(0, 1, dtype=torch.int64)  # no rows
    if not _is_lists(value):
        return value
    kinds = set(map(type, chain.from_iterable(value)))
    lengths = set(map(len, value))
    if kinds in ({bool}, {np.bool_}):
        return torch.tensor(value) if len(lengths) == 1 else value
    if not all(issubclass(kind, (int, np.integer)) for kind in kinds):
        return value
    width = max(1, *lengths)
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in value], dtype=torch.int64)


def _is_lists(value: Any) -> bool:
    """Whether a value is a list of at least one list."""
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(row, (list, tuple)) for row in value)


def _holds_names(value: Any) -> bool:
    """Whether a value is a list of lists with a text among them."""
    return _is_lists(value) and any(isinstance(entry, str) for entry in chain.from_iterable(value))


def _are_names(value: Any) -> bool:
    """Whether a value is a list of texts alone."""
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(name, str) for name in value)


def _rows_of_names(value: Any) -> Any:
    """Convert a list with one name per row to lists of one name; return any other value unchanged."""
    if _are_names(value):
        return [[name] for name in value]
    return value


def _numbered(argument: str, value: Any, label_names: Sequence[str]) -> Any:
    """Convert lists of names to lists of label ids; return any other value unchanged."""
    if not _holds_names(value):
        return value
    names = list(map(str, label_names))
    check_distinct(names)
    numbers = {name: number for number, name in enumerate(names)}
    try:
        return [[numbers[name] for name in row] for row in value]
    except KeyError as error:
        raise ValueError(
            f"{CALLER}: {argument} holds {error.args[0]!r}, which is none of label_names; add it there and to preds "
            "as a column of the lowest score, -inf, so that it counts as missed: without its rows, values are too high."
        ) from None


# -- tables ---------------------------------------------------------------------------------------------------------


def _data_of_tables(preds: Any, target: Any, train_target: Any, options: Options) -> Data:
    """Return tables, dicts by query or lists of names as data."""
    from tailmetrics.io import read
    from tailmetrics.io.labels import order_of_names

    _check_tables(preds, target, train_target)
    if options.ignore_index is not None and options.ignore_index >= 0:
        raise ValueError(
            f"{CALLER}: ignore_index={options.ignore_index} is a label id, but the labels of tables and dicts have "
            "names; take the lines of padding out."
        )

    names = _label_names(preds, target, train_target, options)
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

    def batches(size: int) -> Iterator[Part]:
        for batch in replace(dataset, batch_rows=min(size, dataset.batch_rows)):
            yield slice(int(batch.rows[0]), int(batch.rows[-1]) + 1), batch.preds, batch.target

    train, train_readings = _training_counts_of_table(train_target, names)
    cpu = torch.device("cpu")
    row_mask = _values_by_row(options.row_mask, "row_mask", dataset, {"preds": preds, "target": target})
    if row_mask is not None:
        row_mask = per_row(CALLER, "row_mask", as_tensor(CALLER, "row_mask", row_mask), dataset.num_rows, cpu)

    likely_mistakes = notes_on_likely_mistakes(dataset)
    for note in likely_mistakes:
        warn_outside(f"{CALLER}: {note}")
    return Data(
        num_rows=dataset.num_rows,
        num_labels=len(names),
        device=cpu,
        batches=batches,
        row_mask=row_mask,
        label_names=names,
        label_order=label_order,
        tie_winner=dataset.tie_winner,
        row_names=dataset.row_names,
        train=train,
        notes=(*dataset.notes, *likely_mistakes, *notes_on_queries(dataset, options.missing)),
        readings=tuple(reading.sentence for reading in (*dataset.readings, *train_readings)),
    )


def _label_names(preds: Any, target: Any, train_target: Any, options: Options) -> Sequence[str]:
    """Return the names of all labels in the order of their ids, also of those that only other arguments name."""
    from tailmetrics.io import read_label_names

    other_names: dict[str, list[str]] = {}
    if options.counts_have_names:
        other_names["label_counts"] = list(options.label_counts)
    if options.label_names is not None:
        other_names["label_names"] = list(map(str, options.label_names))
    return read_label_names([preds], target, train_target, string_ids=True, other_names=other_names) or ()


def _training_counts_of_table(train_target: Any, names: Sequence[str]) -> tuple[LabelFrequency | None, Sequence[Any]]:
    """Return the label counts of a table of training targets, and how it was read; None and () without a table."""
    if train_target is None:
        return None, ()
    from tailmetrics.io import read_target

    train = LabelFrequency(len(names))
    dataset = read_target(train_target, label_names=names, string_ids=True)
    for batch in dataset:
        train.update(batch.target)
    return train, dataset.readings


def _check_tables(preds: Any, target: Any, train_target: Any) -> None:
    """Raise if a value is neither a table nor rows of names, or if rows of names do not fit each other."""
    _check_lists({"preds": preds, "target": target})
    tables = {"preds": preds, "target": target, "train_target": train_target}
    for argument, table in tables.items():
        _check_has_roles(argument, table)
    for argument, table in tables.items():
        if not (table is None or is_table(table) or _is_lists(table)):
            raise TypeError(
                f"{CALLER}: {argument} is {shape_of(table)}, but other arguments hold names of labels; pass a table "
                "with the columns query and item, a dict from query to a dict of items, or a list of names for each "
                "row; beside a matrix of scores label_names=, the name of each column."
            )


def _check_lists(lists: Mapping[str, Any]) -> None:
    """Raise if lists of names are of different numbers of rows, or if a list holds numbers beside names."""
    num_rows = {}
    for argument, rows in lists.items():
        if not _is_lists(rows):
            continue
        num_rows[argument] = len(rows)
        for row in rows:
            if {str, float} <= set(map(type, row)):
                raise TypeError(
                    f"{CALLER}: {argument} holds {cut(str(tuple(row)), 60)}, numbers beside names; a row is a list of "
                    "names. Pass lines of query, item and score as a DataFrame, or as a dict from query to "
                    "{item: score}."
                )
    if len(set(num_rows.values())) > 1:
        raise ValueError(
            f"{CALLER}: preds holds {num_rows['preds']:,} rows and target holds {num_rows['target']:,} rows; pass a "
            "list of names for each row of both."
        )


def _check_has_roles(argument: str, value: Any) -> None:
    """Raise if a frame holds only numbers under names without a role, as a table with one column per label."""
    if not (is_table(value) and hasattr(value, "to_numpy") and hasattr(value, "columns")):
        return
    from tailmetrics.io.columns import has_known_names

    names = [str(name) for name in value.columns]
    if not has_known_names(names) and value.to_numpy().dtype.kind in "biuf":
        raise TypeError(
            f"{CALLER}: {argument} has the columns {cut(', '.join(names), 60)}, none of queries; if each column is a "
            "label, pass table.to_numpy() and label_names=list(table), otherwise a table with the columns query and "
            "item."
        )


def _check_indexes_of_tables(preds: Any, target: Any) -> None:
    """Raise if two DataFrames without a column of queries have different indexes."""
    if _is_frame(preds) and _is_frame(target) and not preds.index.equals(target.index):
        raise ValueError(
            f"{CALLER}: the indexes of preds and target differ; pass target.loc[preds.index], or both after "
            ".reset_index(drop=True) if row i of both belong together."
        )


# -- arguments with a value per row ---------------------------------------------------------------------------------


def _values_by_row(values: Any, argument: str, data: Data | Dataset, inputs: Mapping[str, Any]) -> Any:
    """Return the values of an argument in the order of the rows.

    Args:
        values: A dict by query, a Series whose index names the queries, or values that are in the order of the rows;
            None is returned unchanged.
        argument: Name of the argument, for messages.
        data: The evaluated data: a :class:`Data`, or the data set of tables.
        inputs: Predictions and targets by argument name. If neither is a table, queries have no names: a Series is then
            in the order of the rows, and its index has to be the index of the rows.

    Raises:
        TypeError: If ``values`` is a table.
        ValueError: If a query has two values, or none, which ``row_groups`` as a dict may lack for some queries; or if
            shape or index do not fit the rows.
    """
    if values is None:
        return None
    is_dict = isinstance(values, Mapping)
    if is_table(values) and not is_dict:
        raise TypeError(f"{CALLER}: {argument} is a table; pass one column of it, as a list by row or a dict by query.")
    if hasattr(values, "to_pylist"):  # a column of Arrow, whose entries are no texts of Python
        values = values.to_pylist()
    if not is_dict and (data.tokens > 1 or getattr(values, "ndim", 1) > 1):
        return _values_by_token(values, argument, data)

    has_queries = any(map(is_table, inputs.values()))
    is_series = hasattr(values, "index") and hasattr(values, "items")
    if is_dict or (has_queries and is_series):
        return _values_by_query(values, argument, data)
    check_indexes(CALLER, {**inputs, argument: values})
    if has_queries and _order_differs(_query_names(data), inputs):
        raise ValueError(
            f"{CALLER}: {argument} is in the order of the rows, but preds and target name their queries in different "
            "orders; pass a dict by query, or a Series whose index names the queries."
        )
    return values


def _order_differs(queries: Sequence[str], inputs: Mapping[str, Any]) -> bool:
    """Whether the queries that count stand in another order in one of the inputs."""
    for table in inputs.values():
        places = {query: place for place, query in enumerate(_named_queries(table))}
        order = [places[query] for query in queries if query in places]
        if order != sorted(order):
            return True
    return False


def _named_queries(table: Any) -> list[str]:
    """Return the distinct queries of a table or dict, in the order in which it names them; none without queries."""
    from tailmetrics.io.columns import ALIASES, names_among

    if isinstance(table, Mapping):
        return list(map(str, table))
    names: list[Any] = []
    if isinstance(table, list):
        if table and isinstance(table[0], Mapping):  # objects
            for column in names_among(list(table[0]), ALIASES["query"]):
                names += [row.get(column) for row in table]
    elif is_table(table):
        for column in names_among(list(getattr(table, "column_names", table.columns)), ALIASES["query"]):
            names += list(table[column])
    return list(dict.fromkeys(map(str, names)))


def _values_by_token(values: Any, argument: str, data: Data | Dataset) -> Any:
    """Return values (B, T) of each token, or (B,) of each sequence, as a value of each row, shape (B * T,)."""
    if isinstance(values, Tensor):
        values = values.cpu()
    flat = np.asarray(values).reshape(-1)
    num_sequences = data.num_rows // data.tokens
    if data.tokens > 1 and len(flat) not in (data.num_rows, num_sequences):
        raise ValueError(
            f"{CALLER}: {argument} is of shape {list(np.shape(values))} for {num_sequences:,} sequences of "
            f"{data.tokens:,} tokens; pass one for each sequence, or for each token, padding included."
        )
    if len(flat) == data.num_rows:
        return flat
    return flat.repeat(data.tokens)


def _values_by_query(values: Any, argument: str, data: Data | Dataset) -> list[Any]:
    """Return the value of the query of each row, of a dict by query or a Series; None for a query without a group."""
    value_of_query: dict[str, Any] = {}
    for query, value in values.items():
        if str(value_of_query.setdefault(str(query), value)) != str(value):
            raise ValueError(f"{CALLER}: {argument} has two values for the query {str(query)!r}; pass one for each.")

    names = _query_names(data)
    lacking = [name for name in names if name not in value_of_query]
    may_lack = isinstance(values, Mapping) and argument == "row_groups" and len(lacking) < len(names)
    if lacking and not may_lack:
        raise ValueError(
            f"{CALLER}: {argument} has no value for {len(lacking):,} of {len(names):,} queries, such as "
            f"{lacking[0]!r}; pass a dict by query, a Series whose index names the queries, or a list by row."
        )
    return list(map(value_of_query.get, names))


def _query_names(data: Data | Dataset) -> list[str]:
    """Return the name of the query of each row; row numbers if queries have no names."""
    return list(data.row_names or map(str, range(data.num_rows)))


def _notes_on_groups(row_groups: Any, data: Data | Dataset) -> list[str]:
    """Return a note on queries that a dict of groups lacks: their names may be spelled in another way."""
    if not isinstance(row_groups, Mapping):
        return []
    names = _query_names(data)
    lacking = set(names) - set(map(str, row_groups))
    if not lacking:
        return []
    problem = f"row_groups lacks {len(lacking):,} of {len(names):,} queries, such as {min(lacking)!r}"
    return [f"{problem}: they count only overall."]
