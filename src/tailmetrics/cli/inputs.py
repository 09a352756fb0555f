"""Opens the files that the options name, with the same label ids and number of labels for all files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tailmetrics.cli.messages import CommandError, in_options
from tailmetrics.cli.options import DataOptions
from tailmetrics.cli.progress import progress
from tailmetrics.io import (
    FORMATS,
    Columns,
    DataFileError,
    Dataset,
    TargetDataset,
    read,
    read_label_counts,
    read_label_names,
    read_target,
)
from tailmetrics.io.database import WATCHER, Database, KeyedFile
from tailmetrics.io.files import (
    Part,
    Plain,
    check_file,
    find,
    is_address,
    path_of,
    reading,
    stream,
    suffix_of,
)
from tailmetrics.io.formats import Format, format_of_parts
from tailmetrics.io.labels import counted_names, load_names, read_edges
from tailmetrics.io.loading import Given, deciding, first_rows
from tailmetrics.io.reading import Head, Opening, in_words
from tailmetrics.io.text import every_line
from tailmetrics.ranking._warnings import with_value
from tailmetrics.tree import LabelTree

# -- predictions, targets, training labels ------------------------------------------------------------------------


class Share(NamedTuple):
    """One of several equal parts of the rows, which a task of a cluster reads; by default all rows."""

    number: int = 0
    num_shares: int = 1


ALL_ROWS = Share()


@dataclass(frozen=True)
class Files:
    """The facts with which any machine that sees the files can open a share of the rows.

    Attributes:
        options: The options that name the files, except the predictions.
        names: Names of all labels; None if labels are numbers, or if opening the predictions finds the names.
        num_labels: Number of labels; None if it is unknown.
        others: Names of columns of the targets that options give another meaning, such as groups.
    """

    options: DataOptions
    names: Sequence[str] | None
    num_labels: int | None
    others: tuple[str, ...] = ()

    def run(self, preds: str, share: Share = ALL_ROWS) -> Dataset:
        """Open predictions with their targets."""
        options = self.options
        more = {name: getattr(options, name) for name in ("filter", "missing", "duplicates", "part")}
        more["format"] = (options.preds_format or options.format, options.format)
        more["columns"] = (options.preds_columns or options.columns, options.columns)
        more["others"] = self.others
        return read(preds, str(options.target), **more, **self._alike(share))

    def train(self, share: Share = ALL_ROWS) -> TargetDataset | None:
        """Open training targets, if there are any. They are only counted, so that their rows need no names."""
        options = self.options
        if options.train_target is None:
            return None
        more: dict[str, Any] = {"format": options.format, "columns": options.columns}
        more |= {"min_gain": options.train_min_gain, "one_label": options.ignore_index is not None}
        more["counts_alone"] = True
        return read_target(options.train_target, **more, **self._alike(share))

    def _alike(self, share: Share) -> dict[str, Any]:
        same = {name: getattr(self.options, name) for name in ("batch_rows", "string_ids", "delimiter", "memory")}
        same |= {"rank": share.number, "world_size": share.num_shares}
        return {**same, "label_names": self.names, "num_labels": self.num_labels}

    def everywhere(self) -> Files:
        """Return a copy with absolute paths."""
        options: DataOptions = self.options
        found: dict[str, Any] = {}
        for name in ("target", "train_target", "filter", "row_groups"):
            path = getattr(options, name)
            if path is not None and (name != "row_groups" or names_a_file(path)):
                found[name] = everywhere(path)
        return replace(self, options=replace(options, **found))


def everywhere(path: str) -> str:
    """Return the absolute path of a file; return an address on the network unchanged."""
    return path if is_address(path) else str(Path(path).absolute())


def show_readings(preds: str, options: DataOptions) -> list[str]:
    """Return the first two rows of each file as they are understood; how the file is read is printed on the way."""
    if options.target is None:
        raise CommandError("there are no targets", "add --target FILE.")
    files, of_train = _given([preds], [options.target], options), options.train_target
    train = None if of_train is None else _given([], [of_train], options)[0]
    return first_rows(files, train, options.delimiter)


def _given(preds: Sequence[str], targets: Sequence[str | None], options: DataOptions) -> list[Given]:
    """Return files of predictions and of targets, each with its role, its format and the names of its columns."""
    of_preds = options.preds_format or options.format, options.preds_columns or options.columns
    found: list[Given] = [(path, "preds", *of_preds) for path in preds]
    return found + [(path, "target", options.format, options.columns) for path in targets]


@dataclass(frozen=True)
class Inputs:
    """The open files of an evaluation.

    Attributes:
        files: The object that opened the files.
        runs: The predictions of each run with their targets.
        train: The training targets.
        counts: Training counts, if a file gives them.
    """

    files: Files
    runs: list[Dataset]
    train: TargetDataset | None
    counts: Tensor | None


def open_inputs(preds: Sequence[str], options: DataOptions, clusters: str | None = None) -> Inputs:
    """Open all files."""
    others = tuple(one for one in (options.row_groups, clusters) if one is not None)
    if options.target is None:
        raise CommandError("there are no targets", "add --target FILE.")
    if options.train_target is not None and options.label_counts is not None:
        hint = "give the training targets to count them, or the counts."
        raise CommandError("both --train-target and --label-counts are given", hint)
    if options.num_train is not None and options.label_counts is None:
        hint = "leave --num-train out; it goes with --label-counts alone, because training targets are counted."
        raise CommandError("--num-train is given without --label-counts", hint)
    with progress("opening files", 1.0) as show, with_value(WATCHER, lambda doing, share: show(share, doing)):
        try:
            with deciding(_given(preds[:1], [options.target], options), options.delimiter, others):
                counts, names = _counts_and_names(preds, options)
            files = Files(options, names, options.num_labels if counts is None else len(counts), others)
            train = files.train()
            files = files if train is None else replace(files, num_labels=train.num_labels)
            runs = [files.run(path) for path in preds]
            if files.num_labels is None:
                files = replace(files, num_labels=runs[0].num_labels)
                train = files.train()
        except DataFileError as error:
            if options.preds_columns is not None and Path(error.path) in map(Path, preds) and "columns=C" in error.hint:
                hint = "--preds-columns takes the place of all of --columns for predictions: "
                hint += error.hint.replace("columns=", "preds_columns=")
                raise DataFileError(error.path, error.problem, error.where, hint) from error
            told_by = options.label_counts or options.train_target
            if options.num_labels is not None or told_by is None:
                raise
            problem, hint = error.problem.replace("num_labels says", f"{told_by} has"), error.hint
            if problem != error.problem and options.label_counts is not None:
                hint = "label_counts has one count per label; training labels that nobody has counted are train_target."
            raise DataFileError(error.path, problem, error.where, hint) from error
    if train is not None and train.num_labels is None:
        hint = "add --num-labels, which counting training labels needs; or, where ids have gaps, --string-ids true."
        raise CommandError("the number of labels is not known: no file declares it", hint)
    return Inputs(files, runs, train, counts)


def _counts_and_names(preds: Sequence[str], options: DataOptions) -> tuple[Tensor | None, Sequence[str] | None]:
    """Return the training counts, if a file gives them, and the names of all labels, if labels are names.

    Names are gathered first if there are more files with labels than one run and its targets.

    Raises:
        CommandError: If labels are names, but the counts are in the order of label ids.
    """
    path, columns, num_labels = options.label_counts, options.columns, options.num_labels
    counts, counted = None, None
    names: Sequence[str] | None = None
    if path is not None:
        counted = counted_names(path, columns)
        counts = read_label_counts(path, num_labels=num_labels, columns=columns) if counted is None else None
        num_labels = num_labels if counts is None else len(counts)
    targets = [one for one in (options.target, options.train_target) if one is not None]
    of_columns = options.label_names is not None and all(_has_columns(one, options) for one in preds)
    if of_columns:
        names = _lines(str(options.label_names))
        if counted is not None and counted.isdisjoint(names) and all(map(str.isdecimal, counted)):
            return read_label_counts(str(path), num_labels=num_labels or len(names), columns=columns), names
    elif len(preds) + len(targets) > 2 or path is not None:
        paths, _, forms, of_files = zip(*_given(preds, targets, options), strict=True)
        names = read_label_names(
            *paths,
            format=forms,
            columns=of_files,
            string_ids=options.string_ids,
            num_labels=num_labels,
            more=counted or (),
            delimiter=options.delimiter,
            part=options.part,
            memory=options.memory,
        )
    if path is not None and counted is not None:
        counts = read_label_counts(path, num_labels=num_labels, label_names=names, columns=columns)
    elif path is not None and names is not None and not of_columns:
        problem = f"{path}: holds counts in the order of label ids, but the labels are names, such as {names[0]!r}"
        raise CommandError(problem, "write the counts as CSV with the columns label and count, or give --train-target.")
    return counts, names


def _has_columns(path: str, options: DataOptions) -> bool:
    """Whether predictions have a column for each label."""
    parts, columns = find(path).parts, options.preds_columns or options.columns
    form = format_of_parts("read", parts, options.preds_format or options.format, Opening(parts[0].path, None, columns))
    return not form.has_queries and form.open(parts[0].path, "preds", columns).num_labels is not None


# -- the files that are read ----------------------------------------------------------------------------------------


def paths_of(preds: Sequence[str], options: DataOptions) -> list[str]:
    """Return the paths of all files that will be read."""
    groups = options.row_groups if options.row_groups is not None and names_a_file(options.row_groups) else None
    named = (options.target, options.train_target, options.label_counts, options.label_names, options.filter)
    return [*preds, *(path for path in (*named, options.label_tree, groups) if path is not None)]


def local_files(paths: Iterable[str]) -> list[Path]:
    """Return the files of this machine that paths, folders and patterns name; the path itself where none is found."""
    found: list[Path] = []
    for path in paths:
        try:
            found += [part.path for part in find(path).parts if isinstance(part.path, Path)]
        except DataFileError:
            found += [] if is_address(path) else [Path(path)]  # the error is raised when it is read
    return found


def options_of_values(options: DataOptions) -> Mapping[str, Any]:
    """Return the options on which the values of rows depend, and which are no arguments of metrics.

    Two tables of values per row can be compared only if these options are equal. ``--missing`` is left out: it changes
    which rows a table has, and changes nothing for a run that answers all queries.
    """
    content = None
    if options.filter is not None:
        digest = sha256()
        for part in find(options.filter).parts:
            with stream(part.path) as file:
                digest.update(file.read())
        content = digest.hexdigest()
    return {"filter": content}


# -- names of labels and groups of rows -----------------------------------------------------------------------------


def label_names(path: str | None, in_files: Sequence[str] | None, num_labels: int | None) -> Sequence[str] | None:
    """Return the name of each label: the names in the files, or the lines of the text file of ``--label-names``.

    If ``--num-labels`` is larger than the number of names in the files, the names of further labels are empty.

    Raises:
        CommandError: If both exist and differ, or if the number of lines is not the number of labels.
    """
    if path is None:
        missing = 0 if in_files is None or num_labels is None else num_labels - len(in_files)
        return in_files if missing <= 0 else [*(in_files or ()), *[""] * missing]
    names = _lines(path)
    if in_files is not None and list(in_files) != names:
        problem = "--label-names: the labels of these files are names already"
        hint = "leave --label-names out. If it is a catalogue of more items than the files name, its size is enough: "
        raise CommandError(problem, f"{hint}--string-ids true --num-labels {len(names)}.")
    if in_files is None and num_labels is not None and len(names) != num_labels:
        hint = "give one name per line, label 0 first."
        raise CommandError(f"{path}: holds {len(names):,} names for {num_labels:,} labels", hint)
    return names if in_files is None else in_files


class Labels(NamedTuple):
    """The labels of a report.

    Attributes:
        names: The name of each label; None without names.
        tree: Their parents; None if no file tells.
    """

    names: Sequence[str] | None
    tree: LabelTree | None = None


def read_labels(inputs: Inputs) -> Labels:
    """Return the labels that the options and the files tell of.

    Raises:
        CommandError: If the file of the tree does not fit; or if ``--ignore-index`` is given for labels that have
            names: it would leave out one of them by its place.
    """
    options, num_labels = inputs.files.options, inputs.files.num_labels
    if options.ignore_index is not None and options.ignore_index >= 0 and inputs.runs[0].label_names is not None:
        problem = f"--ignore-index {options.ignore_index} is a label id, but the labels of these files have names"
        hint = "take the lines of padding out of the files, or give label ids, --string-ids false."
        raise CommandError(problem, hint)
    names = label_names(options.label_names, inputs.runs[0].label_names, num_labels)
    if options.label_tree is None:
        return Labels(names)
    if names is None and num_labels is None:
        raise CommandError("--label-tree needs the number of labels, which no file tells", "add --num-labels.")
    try:
        tree = LabelTree.from_edges(read_edges(options.label_tree), names or [*map(str, range(num_labels or 0))])
    except ValueError as error:
        problem, _, hint = str(error).partition(": ")[2].rpartition("; ")
        raise CommandError(f"{options.label_tree}: {problem}", hint) from error
    return Labels(names, tree)


def _lines(path: str, axes: int = 1) -> list[str]:
    """Return the stripped lines of a text file, or the entries of an array with at most ``axes`` axes."""
    file = check_file(path)
    if suffix_of(file) == "npy":
        with reading(file, "a .npy array"):
            array = np.load(Plain(file).path, allow_pickle=False)
        if array.ndim not in range(1, axes + 1) or array.dtype.kind not in "biuU":
            raise CommandError(f"{path}: holds {array.dtype} {list(array.shape)}", "give whole numbers or names, [N].")
        return list(map(str, array.ravel().tolist()))
    with reading(file, "text"):
        return [line.strip() for _, line in every_line(file)]


COLUMN = "group"
"""The column of a file of groups."""
BY_QUERY, BY_ROW = ("csv", "tsv", "jsonl", "long"), ("parquet", "arrow")
"""Formats that can hold the group of a row: formats whose lines name their query, and formats of rows."""
TABLES = tuple(suffix for name in BY_ROW for suffix in FORMATS[name].suffixes)
MOST = 1000
"""The most groups of rows: each group has states of its own."""


class RowGroups(NamedTuple):
    """The groups of all rows.

    Attributes:
        names: Names of the groups, sorted.
        numbers: Shape (N,), int16: the group of each row, an index into ``names``; -1 for no group.
    """

    names: tuple[str, ...]
    numbers: Tensor


def names_a_file(said: str) -> bool:
    """Whether the value of ``--row-groups`` or ``--clusters`` names a file, not a column."""
    return is_address(said) or Path(said).is_file()


def read_row_groups(files: Files, dataset: Dataset) -> RowGroups | None:
    """Return the groups that ``--row-groups`` asks for; None without it.

    Raises:
        CommandError: If the option names neither a file nor a column of the targets, or if a row has two groups.
    """
    options = files.options
    said = options.row_groups
    if said is None:
        return None
    groups = groups_of_rows("--row-groups", said, options, dataset.row_names, dataset.num_rows, dataset.tokens)
    known = sorted({name for name in groups if name})
    if not known or len(known) > MOST:
        problem = f"--row-groups {said}: names {len(known):,} groups"
        raise CommandError(problem, f"choose a column with 1 to {MOST:,} different values, such as a language.")
    places = {name: place for place, name in enumerate(known)}
    return RowGroups(tuple(known), torch.tensor([places.get(name or "", -1) for name in groups], dtype=torch.int16))


def groups_of_rows(
    option: str, said: str, options: DataOptions, queries: Sequence[str] | None, num_rows: int, tokens: int
) -> list[str | None]:
    """Return the group or cluster of each row that an option names: by a file, or by a column of the targets.

    Args:
        option: Name of the option, with which error messages begin.
        said: The value of the option.
        options: The options that name the files.
        queries: The query of each row; None where rows are numbered.
        num_rows: N.
        tokens: T if rows are the tokens of sequences, else 1. The file may have one group for each sequence.
    """
    groups = _read_groups(option, said, options, queries)
    if len(groups) * tokens == num_rows:
        groups = [one for one in groups for _ in range(tokens)]
    if len(groups) != num_rows:
        hint = "these rows have no names: give a text file with one line for each row, and no header."
        if tokens > 1:
            sequences = f"{num_rows // tokens:,} sequences"
            hint = f"give one line for each of the {sequences}, or for each token, padding included."
        raise CommandError(f"{option} {said}: holds {len(groups):,} rows, but there are {num_rows:,}", hint)
    return groups


def _read_groups(option: str, said: str, options: DataOptions, queries: Sequence[str] | None) -> list[str | None]:
    """Return the groups in the order of the file, or of the queries."""
    own = names_a_file(said)
    path, column = (said, COLUMN) if own else (str(options.target), said)
    if own and queries is None and suffix_of(path_of(path)) not in TABLES:
        return [line or None for line in _lines(path, axes=2)]  # groups of tokens: shape (B, T)
    columns = Columns() if own else options.columns
    first = next(iter(Head(Opening(path_of(path))).lines), "") if own else ""
    if options.columns.query in re.split(r'[,;\t{}:"]+\s*', first):  # the name in the other files
        columns = Columns(query=options.columns.query)
    if queries is not None:
        columns = replace(columns, item=column) if column != "item" else Columns(query=columns.query)
    parts = find(path).parts
    suffix = suffix_of(path_of(path)).removeprefix(".")
    own_format = suffix if suffix in ("csv", "tsv") else None  # two columns under other names would be taken for lists
    wanted = own_format or (None if own else options.format)
    form = format_of_parts(option, parts, wanted, Opening(parts[0].path, None, columns))
    if form.name not in (BY_ROW if queries is None else BY_QUERY):
        hint = f"give a text file with the {option.rpartition('-')[2].removesuffix('s')} of each row, one per line."
        if queries is not None:
            hint = f"give a CSV file with the columns {columns.query or 'query'} and {COLUMN}."
        absent = "" if own else "there is no such file, and "
        raise CommandError(f"{option} {said}: {absent}{path} is {form.name}, which has no columns for it", hint)
    unknown = f"{option} {said}: there is no such file, and {path} has no such column"
    unknown = f"{option} {said}: there is no column {COLUMN!r}" if own else unknown
    if queries is None:
        return [name for part in parts for name in _column(part, column, unknown)]
    return _of_queries(path, [(part, form) for part in parts], columns, queries, unknown)


def _column(part: Part, column: str, unknown: str) -> list[str | None]:
    """Return the group of each row of a file of columns."""
    import pyarrow as pa

    from tailmetrics.io.tables import open_table

    table = open_table(part.path)
    known = table.schema.names
    if column not in known:
        if column in part.partition:
            return [part.partition[column]] * table.num_rows
        raise CommandError(unknown, f"its columns are {in_words(known)}.")
    with reading(part.path, table.form):
        batches = table.batches([column], 0, table.num_rows, 2**16)
        return [name for _, batch in batches for name in batch.column(column).cast(pa.string()).to_pylist()]


def _of_queries(
    path: str, parts: Sequence[tuple[Part, Format]], columns: Columns, queries: Sequence[str], unknown: str
) -> list[str | None]:
    """Return the group of each query, from files whose lines name a query; groups are read as if they were items."""

    def opened(part: Part, form: Format) -> Any:
        try:
            return form.open(part.path, None, columns, part.partition)
        except DataFileError as error:
            if columns.item not in error.problem:
                raise
            known = in_options(error.hint).partition("; ")[0].rstrip(".")  # the rest is about other files
            hint = f"{known or 'name a column of the targets, or a file of groups'}."
            raise CommandError(unknown, hint) from error

    database = Database()
    files = [(part.path, partial(opened, part, form)) for part, form in parts]
    KeyedFile(path_of(path), files, may_lack_items=True).load(database, "grouped")
    load_names(database, queries)
    joined = "FROM labels l LEFT JOIN grouped g ON g.query = l.item GROUP BY l.item, l.id"
    twice = database.row(
        f"SELECT l.item, arg_min(g.item, g.rowid), arg_max(g.item, g.rowid) {joined} "
        "HAVING count(DISTINCT g.item) > 1 ORDER BY l.id LIMIT 1"
    )
    if twice is not None:
        problem = f"{path}: query {twice[0]!r} has the groups {twice[1]!r} and {twice[2]!r}"
        raise CommandError(problem, "a row belongs to one group: choose another column.")
    return list(database.names(f"SELECT min(g.item) {joined} ORDER BY l.id"))
