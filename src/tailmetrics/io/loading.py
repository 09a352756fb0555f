"""From paths to open files: formats, label ids, shares of the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tailmetrics._checks import check_choice, check_count
from tailmetrics.io.checks import Role
from tailmetrics.io.dataset import Dataset, TargetDataset
from tailmetrics.io.errors import DataFileError, check_file
from tailmetrics.io.filter import read_filter, read_keyed_filter
from tailmetrics.io.formats import KEYED_FORMATS, Columns, format_of, open_rows, open_triples
from tailmetrics.io.join import Joined, KeyedFile, LabelRule, join
from tailmetrics.io.label_names import number_strings
from tailmetrics.io.source import Source, share

PathLike: TypeAlias = str | Path

ROLES: tuple[Role, Role] = ("preds", "target")
BATCH_ROWS = 8192
BATCH_CELLS = 2**24
"""Numbers in a batch at most (but one row at least): 128 MB of int64, however wide the rows are."""


def read(
    preds: PathLike,
    target: PathLike,
    *,
    num_labels: int | None = None,
    batch_rows: int = BATCH_ROWS,
    filter: PathLike | None = None,
    missing: Literal["skip", "zero"] = "skip",
    rank: int = 0,
    world_size: int = 1,
    format: str | tuple[str | None, str | None] | None = None,
    columns: Columns | None = None,
    label_names: Sequence[str] | None = None,
    string_ids: bool | None = None,
) -> Dataset:
    """Open predictions and targets, to be read in batches with bounded memory.

    Row i of one file belongs to row i of the other (npz, npy, pt, Parquet, XMC text), or lines name their query (TREC,
    JSON Lines, CSV; read whole, see :mod:`tailmetrics.io.keyed`).

    Args:
        preds: File of predictions.
        target: File of targets.
        num_labels: Number of labels, where no file declares it; ids are checked against it.
        batch_rows: Rows per batch at most; wide rows come in smaller batches.
        filter: File of (row, label) or (query, item) pairs that do not count: the label leaves the row's predictions
            before they are ranked, and its targets.
        missing: What becomes of a query without predictions: ``"skip"`` leaves it out, as trec_eval does, ``"zero"``
            gives it an empty list, as ``trec_eval -c`` does. ``dataset.missing_queries`` counts them either way.
        rank: Which share of the rows to read.
        world_size: Number of shares; together they hold every row once.
        format: Format of both files, or a pair; None tells it from the name. One of
            npz, npy, pt, parquet, xmc, trec, jsonl, csv, tsv.
        columns: Names of columns.
        label_names: Names of the labels in the order of their ids; needed for string ids when other files, such as
            training targets, have to agree (see :func:`read_label_names`).
        string_ids: Whether items of JSON Lines and CSV are names: None takes them for names unless all are whole
            numbers.

    Raises:
        DataFileError: If a file is missing, empty, damaged or does not fit the other one; while iterating, too.
    """
    forms = format if isinstance(format, tuple) else (format, format)
    paths = check_file(preds), check_file(target)
    kinds = [format_of("read", path, form) for path, form in zip(paths, forms, strict=True)]
    check_choice("read", "missing", missing, ("skip", "zero"))
    _check_share("read", rank, world_size, batch_rows)
    _check_alike(paths, kinds)
    columns = columns or Columns()
    if kinds[0] in KEYED_FORMATS:
        rule = LabelRule(label_names, string_ids, num_labels, "trec" in kinds)
        files = [_keyed(path, kind, role, columns) for path, kind, role in zip(paths, kinds, ROLES, strict=True)]
        joined = join(files[0], files[1], rule, missing == "skip", rank, world_size)
        return _dataset_of_join(joined, filter, batch_rows)
    sources = [open_rows(path, kind, role, columns) for path, kind, role in zip(paths, kinds, ROLES, strict=True)]
    known = _of_rows(sources, num_labels, label_names, batch_rows, rank, world_size)
    ignored = None if filter is None else read_filter(filter, known["num_rows"], known["num_labels"])
    return Dataset(preds=sources[0], target=sources[1], ignored=ignored, **known)


def read_target(
    path: PathLike,
    *,
    num_labels: int | None = None,
    batch_rows: int = BATCH_ROWS,
    rank: int = 0,
    world_size: int = 1,
    format: str | None = None,
    columns: Columns | None = None,
    label_names: Sequence[str] | None = None,
    string_ids: bool | None = None,
) -> TargetDataset:
    """Open targets alone, such as the training targets that ``LabelFrequency`` counts.

    Pass ``num_labels`` whenever it is known: whole numbers of that width are multi-hot, as for ``LabelFrequency``.

    Args:
        path: File of targets.
        num_labels: Number of labels, where the file does not declare it.
        batch_rows: Rows per batch at most.
        rank: Which share of the rows to read.
        world_size: Number of shares.
        format: Format; None tells it from the name.
        columns: Names of columns.
        label_names: Names of the labels in the order of their ids.
        string_ids: Whether items of JSON Lines and CSV are names.

    Raises:
        DataFileError: If the file is missing, empty or damaged; while iterating, too.
    """
    path = check_file(path)
    kind = format_of("read_target", path, format)
    _check_share("read_target", rank, world_size, batch_rows)
    columns = columns or Columns()
    if kind in KEYED_FORMATS:
        rule = LabelRule(label_names, string_ids, num_labels, kind == "trec")
        joined = join(None, _keyed(path, kind, "target", columns), rule, False, rank, world_size)
        return TargetDataset(target=joined.target, **_of_join(joined, batch_rows))
    source = open_rows(path, kind, "target", columns)
    source.read_as_multi_hot(num_labels)
    return TargetDataset(target=source, **_of_rows([source], num_labels, label_names, batch_rows, rank, world_size))


def _check_share(caller: str, rank: int, world_size: int, batch_rows: int) -> None:
    check_count(caller, "batch_rows", batch_rows)
    check_count(caller, "world_size", world_size)
    check_count(caller, "rank", rank, minimum=0)
    if rank >= world_size:
        raise ValueError(
            f"{caller}: rank={rank} is too large; of world_size={world_size} ranks the last is {world_size - 1}."
        )


def _keyed(path: Path, kind: str, role: Role, columns: Columns) -> KeyedFile:
    return path, open_triples(path, kind, role, columns)


def _check_alike(paths: Sequence[Path], kinds: Sequence[str]) -> None:
    if len({kind in KEYED_FORMATS for kind in kinds}) > 1:
        problem = f"is {kinds[1]}, which cannot be matched with {paths[0]} ({kinds[0]})"
        hint = f"{', '.join(KEYED_FORMATS)} name the query of every line; in other formats row i belongs to row i."
        raise DataFileError(paths[1], problem, hint=hint)


def _dataset_of_join(joined: Joined, filter_path: PathLike | None, batch_rows: int) -> Dataset:
    assert joined.preds is not None
    ignored = None
    if filter_path is not None:
        rows = {name: row for row, name in enumerate(joined.row_names)}
        ignored = read_keyed_filter(filter_path, rows, joined.label_lookup())
    return Dataset(preds=joined.preds, target=joined.target, ignored=ignored, **_of_join(joined, batch_rows))


def _of_join(joined: Joined, batch_rows: int) -> dict[str, Any]:
    sources = [source for source in (joined.preds, joined.target) if source is not None]
    return {
        "num_rows": len(joined.row_names),
        "num_labels": joined.labels.declared,
        "label_names": joined.labels.names,
        "row_names": joined.row_names,
        "missing_queries": joined.missing,
        "unmatched_queries": joined.unmatched,
        "start": joined.start,
        "stop": joined.stop,
        "batch_rows": _rows_per_batch(batch_rows, sources),
        "columns": joined.labels.width,
    }


def _of_rows(
    sources: Sequence[Source],
    num_labels: int | None,
    label_names: Sequence[str] | None,
    batch_rows: int,
    rank: int,
    world_size: int,
) -> dict[str, Any]:
    num_rows = _common_rows(sources)
    names = number_strings(sources, label_names)
    if len(sources) == 2:
        sources[1].read_as_multi_hot(sources[0].num_labels)
    labels = _common_labels(sources, num_labels, names)
    start, stop = share(rank, world_size, num_rows, *sources)
    return {
        "num_rows": num_rows,
        "num_labels": labels,
        "label_names": names,
        "start": start,
        "stop": stop,
        "batch_rows": _rows_per_batch(batch_rows, sources),
        "columns": labels,
    }


def _common_rows(sources: Sequence[Source]) -> int:
    first, last = sources[0], sources[-1]
    for source in sources:
        if source.num_rows == 0:
            raise DataFileError(source.path, "holds no rows", hint="the program that wrote it may have failed.")
    if first.num_rows != last.num_rows:
        problem = f"holds {last.num_rows} rows, but {first.path} holds {first.num_rows}"
        raise DataFileError(last.path, problem, hint="row i of both files must be the same example.")
    return first.num_rows


def _common_labels(sources: Sequence[Source], num_labels: int | None, names: Sequence[str] | None) -> int | None:
    """Return the number of labels that the argument, the names and the files agree on."""
    known, said = num_labels, "num_labels says"
    if known is None and names is not None:
        known, said = len(names), "label_names names"
    for source in sources:
        if source.num_labels is None:
            continue
        if known is not None and source.num_labels != known:
            hint = "all files must number the same labels."
            raise DataFileError(source.path, f"has {source.num_labels} labels, but {said} {known}", hint=hint)
        known, said = source.num_labels, f"{source.path} has"
    return known


def _rows_per_batch(batch_rows: int, sources: Sequence[Source]) -> int:
    cells = max(source.cells_per_row for source in sources)
    return min(batch_rows, max(1, int(BATCH_CELLS / max(cells, 1))))
