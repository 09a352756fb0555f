"""``read_data``: reads the data that ``evaluate`` takes, in the order of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import PurePath
from typing import Any

from tailmetrics._arguments import cut
from tailmetrics.evaluation.argument_forms import (
    are_tables,
    as_lists,
    check_tables,
    is_frame,
    padded,
    target_lists,
    with_ids,
)
from tailmetrics.evaluation.data import Data
from tailmetrics.evaluation.options import CALLER, Options
from tailmetrics.evaluation.row_groups import group_names
from tailmetrics.evaluation.table_data import data_of_tables, label_names_of
from tailmetrics.evaluation.tensor_data import data_of_ranking, data_of_tensors
from tailmetrics.evaluation.values_by_row import note_on_groups, values_by_row
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._tensors import check_indexes


def read_data(preds: Any, target: Any, options: Options) -> Data:
    """Read predictions, targets and arguments by row, in the order of the rows."""
    _check_in_memory(
        {"preds": preds, "target": target, "train_target": options.train_target}
    )
    train_target = target_lists(options.train_target)
    if isinstance(preds, Ranking):
        _check_beside_ranking(preds, target, options)
        data = data_of_ranking(preds, padded(train_target), options)
    else:
        _check_rows(preds, target, options)
        data = _data_in_any_form(
            as_lists(preds), target_lists(target), train_target, options
        )

    inputs = {"preds": preds, "target": target}
    row_groups = values_by_row(options.row_groups, "row_groups", data, inputs)
    names = None
    if row_groups is not None:
        names = group_names(row_groups) or None
    return replace(
        data,
        row_groups=row_groups,
        group_names=names,
        clusters=values_by_row(options.clusters, "clusters", data, inputs),
        notes=(*data.notes, *note_on_groups(options.row_groups, data)),
    )


def labels_of_runs(runs: Iterable[Any], target: Any, options: Options) -> Sequence[str]:
    """Return the names of the labels of all runs, which share one catalogue.

    The names are empty if fewer than two runs are tables.
    """
    target = target_lists(target)
    train_target = target_lists(options.train_target)
    tables = []
    for preds in map(as_lists, runs):
        if are_tables(preds, with_ids(preds, "target", target, options.label_names)):
            tables.append(preds)
    if len(tables) < 2:
        return ()
    for preds in tables:
        check_tables(preds, target, train_target)
    return label_names_of(tables, target, train_target, options)


def _data_in_any_form(
    preds: Any, target: Any, train_target: Any, options: Options
) -> Data:
    """Return predictions and targets as data, after arrays of names became lists."""
    target = with_ids(preds, "target", target, options.label_names)
    train_target = with_ids(preds, "train_target", train_target, options.label_names)
    if are_tables(preds, target):
        return data_of_tables(preds, target, train_target, options)
    return data_of_tensors(padded(preds), padded(target), padded(train_target), options)


def _check_in_memory(values: Mapping[str, Any]) -> None:
    """Raise TypeError if a value is the path of a file, or a data set of files."""
    for argument, value in values.items():
        if isinstance(value, (str, PurePath)):
            content = f"the path {cut(str(value), 60)!r}"
        elif type(value).__module__ == "tailmetrics.io.dataset":
            content = "files that tailmetrics.io.read opened"
        else:
            continue
        raise TypeError(
            f"{CALLER}: {argument} is {content}, not data in memory; pass "
            "json.load(file) or pandas.read_parquet(path), run tailmetrics evaluate "
            "--preds FILE --target FILE, or update metrics in batches: for batch in "
            "tailmetrics.io.read(preds, target): metrics.update(batch.preds, "
            "batch.target)."
        )


def _check_beside_ranking(ranking: Ranking, target: Any, options: Options) -> None:
    """Raise TypeError if an argument is given that the ranking holds already."""
    arguments = {"target": target, "row_mask": options.row_mask}
    if ranking.rows.groups is not None:
        arguments["row_groups"] = options.row_groups
    for argument, value in arguments.items():
        if value is not None:
            raise TypeError(
                f"{CALLER}: {argument} is given beside a Ranking, which holds it "
                "already; leave it out."
            )


def _check_rows(preds: Any, target: Any, options: Options) -> None:
    """Raise an error if the target is missing or rows are in different orders.

    Raises:
        TypeError: If ``target`` is None.
        ValueError: If indexes show that rows are in different orders.
    """
    if target is None:
        raise TypeError(
            f"{CALLER}: target is missing; pass the relevant labels, or a Ranking, "
            "which holds them."
        )
    check_indexes(
        CALLER, {"preds": preds, "target": target, "row_mask": options.row_mask}
    )
    for (table, frame), (name, series) in permutations(
        {"preds": preds, "target": target}.items()
    ):
        is_pair = is_frame(frame) and hasattr(series, "iloc") and not is_frame(series)
        # the index of the Series may name queries
        if is_pair and not series.index.equals(frame.index):
            raise ValueError(
                f"{CALLER}: {name} is a Series whose index is not that of {table}; "
                f"pass {name}.reset_index() if it names the queries, or "
                f"{name}.tolist() if row i of both belong together."
            )
