"""The functions that open files.

They match rows or queries, number the labels, and cut this process's share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from tailmetrics._arguments import check_choice, check_count
from tailmetrics._number_of_labels import number_of_labels
from tailmetrics.io.columns import names_in_words
from tailmetrics.io.database import MEMORY, Names, Progress, bytes_of
from tailmetrics.io.dataset import Dataset, EntryBound, TargetDataset
from tailmetrics.io.files import EMPTY_HINT, DataFileError, PathLike, find, suffix_of
from tailmetrics.io.filters import read_named_filter, read_numbered_filter
from tailmetrics.io.forms import IN_MEMORY, Columns, Forms, Opening, option_for
from tailmetrics.io.join import join
from tailmetrics.io.labels import (
    NUM_LABELS,
    LabelRule,
    Labels,
    NameGathering,
    NumberSource,
    check_named,
    read_alike,
    set_label_names,
)
from tailmetrics.io.lines import LineFiles
from tailmetrics.io.opening import ROWS_HINT, Input, open_input, open_inputs
from tailmetrics.io.rows import FileFacts, Source, share

BATCH_ROWS = 8192
"""Rows per batch at most.

With 100 labels per row, a million numbers are far more work than a Python call.
"""
BATCH_CELLS = 2**24
"""Numbers per batch at most (128 MB of int64), but a batch has at least one row."""
FORMS_BY_NAME = Forms()
"""Suffixes and known names say everything."""
NUMBERED = Labels(None, None, 0)
"""Labels that are numbers, which need not be gathered."""
ENTRY_BYTES = 240
"""Measured memory for an entry of a long list that is sorted, checked and ranked."""


def read(
    preds: PathLike | Sequence[PathLike] | Any,
    target: PathLike | Sequence[PathLike] | Any,
    *,
    format: str | None = None,
    preds_format: str | None = None,
    target_format: str | None = None,
    columns: Columns | None = None,
    preds_columns: Columns | None = None,
    target_columns: Columns | None = None,
    delimiter: str | None = None,
    preds_delimiter: str | None = None,
    target_delimiter: str | None = None,
    list_delimiter: str | None = None,
    preds_list_delimiter: str | None = None,
    target_list_delimiter: str | None = None,
    part: str | None = None,
    extra_columns: Sequence[str] = (),
    num_labels: int | None = None,
    label_names: Sequence[str] | None = None,
    string_ids: bool | None = None,
    filter: PathLike | None = None,
    train_target: PathLike | Any = None,
    train_format: str | None = None,
    train_columns: Columns | None = None,
    train_delimiter: str | None = None,
    train_list_delimiter: str | None = None,
    missing: Literal["skip", "zero"] = "skip",
    duplicates: Literal["error", "first"] = "error",
    ignore_index: int | None = None,
    judged_only: bool = False,
    batch_rows: int = BATCH_ROWS,
    rank: int = 0,
    world_size: int = 1,
    memory: str = MEMORY,
    on_progress: Progress | None = None,
    number_source: NumberSource = NUM_LABELS,
) -> Dataset:
    """Open predictions and targets, to read them in batches with bounded memory.

    If both name their queries, DuckDB joins them by query in a temporary folder. If
    neither does, or one is an array, row i of one belongs to row i of the other.
    Compressed files (``.gz``, ``.bz2``, ``.zst``, ``.lz4``) are decompressed.
    ``dataset.readings`` says how each file is read, ``dataset.notes`` what else a
    reader of the numbers should know.

    Args:
        preds: Predictions: a path, a folder of parts, a glob, an address (``s3://``,
            ``gs://``, ``hdfs://``), or a list of these; or a table such as a DataFrame,
            a list of objects, or a dict from query to a dict from item to score. Parts
            are sorted by name, numbers in names by value.
        target: Targets, in the same forms.
        format: Format of all files, a name in :data:`FORMATS`; with None, the suffix of
            a file names it.
        preds_format: Format of the predictions.
        target_format: Format of the targets.
        columns: Names of columns of all files.
        preds_columns: Names of columns of the predictions, added to ``columns``.
        target_columns: Names of columns of the targets, added to ``columns``.
        delimiter: Separator of the fields of text, such as ``";"``; by default a comma,
            or what the line of names holds.
        preds_delimiter: Separator of the fields of the predictions.
        target_delimiter: Separator of the fields of the targets.
        list_delimiter: Separator of the entries of lists in text.
        preds_list_delimiter: Separator of the entries of lists of the predictions.
        target_list_delimiter: Separator of the entries of lists of the targets.
        part: Subset and split of predictions of MTEB, such as ``"default/test"``.
        extra_columns: Columns of the targets that are no gains, such as groups of rows.
        num_labels: Number of labels, if no file declares it; label ids are checked
            against it. In lines, except TREC, items must then be whole numbers, which
            are the label ids; without it, each item in the files is a label, and ids
            follow the ascending order of the items.
        label_names: Names of the labels in the order of their ids; needed for string
            ids if other files, such as training targets, must have the same label ids
            (see :func:`read_label_names`).
        string_ids: True treats whole numbers as names of labels, in every format except
            matrices. False treats whole numbers of lines as label ids even without
            ``num_labels``.
        filter: File of (row, label) or (query, item) pairs that do not count: the label
            is removed from the row's predictions before ranking, and from its targets.
            A ``.txt`` file holds two words on each line, other files have the columns
            query and item, such as the training interactions.
        train_target: Training targets. If they name the same queries, a note says which
            share of the predictions they hold; nothing else is read from them.
        train_format: Format of the training targets.
        train_columns: Names of columns of the training targets, added to ``columns``.
        train_delimiter: Separator of the fields of the training targets.
        train_list_delimiter: Separator of the entries of lists of the training targets.
        missing: Treatment of a query without predictions: ``"skip"`` leaves it out, as
            trec_eval does; ``"zero"`` gives it an empty list, as ``trec_eval -c`` does.
            In both cases ``dataset.missing_queries`` counts it.
        duplicates: Treatment of a label that a row repeats: ``"error"`` raises an
            error. ``"first"`` keeps a repeated prediction in its place, and metrics
            made with ``duplicates="first"`` count it as a miss; of a repeated target it
            keeps the first, with its gain.
        ignore_index: A label id that pads lists of targets, which metrics with this
            ``ignore_index`` leave out.
        judged_only: Whether predictions are left out whose item has no line in the
            targets of their query, as ``trec_eval -J`` does.
        batch_rows: Rows per batch at most; batches of wide rows are smaller.
        rank: Number of the share of rows to read, from 0.
        world_size: Number of shares; together the shares hold every row once.
        memory: Memory limit of DuckDB, such as ``"2GB"``; more data goes to a folder in
            ``TMPDIR``. A row that alone would take three times as much is an error.
        on_progress: Receives the current step and the share of it that is done, from
            another thread.
        number_source: What states ``num_labels``, for errors.

    Raises:
        DataFileError: If a file is missing, empty, damaged or does not fit the other
            file; also during iteration.
    """
    check_choice("read", "missing", missing, ("skip", "zero"))
    check_choice("read", "duplicates", duplicates, ("error", "first"))
    _check_share("read", rank, world_size, batch_rows)
    forms = Forms(
        formats={
            "": format,
            "preds": preds_format,
            "target": target_format,
            "train": train_format,
        },
        columns={
            "": columns,
            "preds": preds_columns,
            "target": target_columns,
            "train": train_columns,
        },
        delimiters={
            "": delimiter,
            "preds": preds_delimiter,
            "target": target_delimiter,
            "train": train_delimiter,
        },
        list_delimiters={
            "": list_delimiter,
            "preds": preds_list_delimiter,
            "target": target_list_delimiter,
            "train": train_list_delimiter,
        },
        part=part,
        extra_columns=tuple(extra_columns),
        memory=memory,
        has_train_target=train_target is not None,
        judged_only=judged_only,
    )
    rule = LabelRule(label_names, string_ids, num_labels, number_source=number_source)
    inputs = open_inputs("read", [("preds", preds), ("target", target)], forms)
    pairs = None
    if filter is not None:
        pairs = _open_pairs(filter, forms)
    ignored = None
    sources: list[Source] = []
    if _needs_join(inputs, is_forced=filter is not None or judged_only):
        train_lines = None
        if train_target is not None and filter is None:
            train_lines = _open_training_lines(train_target, forms)
        joined = join(
            inputs[0].as_lines(),
            inputs[1].as_lines(),
            _rule_of_lines(rule, inputs),
            rank=rank,
            world_size=world_size,
            memory=memory,
            skip=missing == "skip",
            judged_only=judged_only,
            train_lines=train_lines,
            on_progress=on_progress,
        )
        assert joined.preds is not None
        sources = [joined.preds, joined.target]
        facts = joined.facts
        if pairs is not None:
            ignored = read_named_filter(pairs, joined.database)
    else:
        if judged_only:
            hint = "leave --judged-only out, or name the queries of both files."
            raise DataFileError(
                inputs[0].name, "names no query, so that no item is judged", hint=hint
            )
        sources = [files.rows for files in inputs if files.rows is not None]
        facts = _row_facts(sources, rule, memory, rank, world_size)
        facts = replace(facts, notes=_note_on_rows(inputs))
        if pairs is not None:
            ignored = read_numbered_filter(
                pairs, facts.num_rows, facts.num_labels, memory
            )
    return Dataset(
        preds=sources[0],
        target=sources[1],
        ignored=ignored,
        duplicates=duplicates,
        ignore_index=ignore_index,
        readings=tuple(files.reading for files in inputs),
        batch_rows=_batch_rows(batch_rows, sources, memory),
        bound=_entry_bound(sources, memory),
        **vars(facts),
    )


def read_target(
    path: PathLike | Sequence[PathLike] | Any,
    *,
    format: str | None = None,
    columns: Columns | None = None,
    train_columns: Columns | None = None,
    delimiter: str | None = None,
    list_delimiter: str | None = None,
    extra_columns: Sequence[str] = (),
    num_labels: int | None = None,
    label_names: Sequence[str] | None = None,
    string_ids: bool | None = None,
    min_gain: float | None = None,
    one_label: bool = False,
    ignore_index: int | None = None,
    batch_rows: int = BATCH_ROWS,
    rank: int = 0,
    world_size: int = 1,
    memory: str = MEMORY,
    on_progress: Progress | None = None,
    number_source: NumberSource = NUM_LABELS,
) -> TargetDataset:
    """Open targets without predictions, such as training targets.

    Lines need no query here. Pass ``num_labels`` if it is known: an array of
    ``num_labels`` whole numbers per row is then multi-hot, as for ``LabelFrequency``.

    Args:
        path: File of targets, a table or a dict, as for :func:`read`.
        format: Format, a name in :data:`FORMATS`; with None, the suffix names it.
        columns: Names of columns of several files, as for :func:`read`.
        train_columns: Names of columns of this file, added to ``columns``.
        delimiter: As for :func:`read`.
        list_delimiter: As for :func:`read`.
        extra_columns: As for :func:`read`.
        num_labels: Number of labels, if the file does not declare it.
        label_names: Names of the labels in the order of their ids.
        string_ids: As for :func:`read`.
        min_gain: The lowest gain that counts as relevant, if the file has gains. A
            lower gain becomes 0, as in metrics made with ``min_gain``.
        one_label: Whether each whole number of an array is a row of its own, such as a
            token of (B, T); any negative number then means "no label".
        ignore_index: As for :func:`read`.
        batch_rows: Rows per batch at most.
        rank: Number of the share of rows to read, from 0.
        world_size: Number of shares.
        memory: As for :func:`read`.
        on_progress: As for :func:`read`.
        number_source: As for :func:`read`.

    Raises:
        DataFileError: If the file is missing, empty or damaged; also during iteration.
        ValueError: If ``min_gain`` is not a number above 0.
    """
    _check_share("read_target", rank, world_size, batch_rows)
    if min_gain is not None and not (
        isinstance(min_gain, (int, float)) and 0 < min_gain < math.inf
    ):
        raise ValueError(
            f"read_target: min_gain={min_gain!r} is not a gain; pass a number above 0."
        )
    forms = Forms(
        formats={"train": format},
        columns={"": columns, "train": train_columns},
        # TSV, which tabs separate, refuses another delimiter for this file alone
        delimiters={"": delimiter},
        list_delimiters={"train": list_delimiter},
        extra_columns=tuple(extra_columns),
        memory=memory,
    )
    rule = LabelRule(label_names, string_ids, num_labels, number_source=number_source)
    files = open_input("read_target", "train", path, forms)
    if files.lines is not None:
        rule = _rule_of_lines(rule, [files])
        joined = join(
            None,
            files.lines,
            rule,
            rank=rank,
            world_size=world_size,
            memory=memory,
            on_progress=on_progress,
        )
        source: Source = joined.target
        facts = joined.facts
        if not files.reading.query and files.reading.item:
            facts = replace(facts, row_names=None)
    else:
        assert files.rows is not None
        source = files.rows
        source.read_beside(num_labels, (-1,) if one_label else ())
        facts = _row_facts([source], rule, memory, rank, world_size)
    return TargetDataset(
        target=source,
        min_gain=min_gain,
        one_label=one_label,
        ignore_index=ignore_index,
        readings=(files.reading,),
        batch_rows=_batch_rows(batch_rows, [source], memory),
        bound=_entry_bound([source], memory),
        **vars(facts),
    )


def read_label_names(
    runs: Sequence[PathLike | Any],
    target: PathLike | Sequence[PathLike] | Any,
    train_target: PathLike | Sequence[PathLike] | Any = None,
    *,
    forms: Forms = FORMS_BY_NAME,
    string_ids: bool | None = None,
    num_labels: int | None = None,
    other_names: Mapping[str, Iterable[str]] | None = None,
) -> Sequence[str] | None:
    """Return the label names of all files in the order of ids; None if ids are numbers.

    Names are in ascending order (whole numbers by value). If one of the files is TREC
    or JSON, where the last name wins ties, names are in descending order. Pass the
    result as ``label_names`` to each call that reads one of these files, so that a
    label has the same id in all of them. This function reads every file to its end.

    Args:
        runs: The predictions of each run.
        target: The targets.
        train_target: The training targets.
        forms: What is said about the forms of the files.
        string_ids: As for :func:`read`.
        num_labels: As for :func:`read`: with it, whole numbers are label ids.
        other_names: Names to add by the argument that holds them, such as labels that
            only label counts name.

    Raises:
        DataFileError: If a file cannot be read, or one file has names of labels and
            another has numbers.
    """
    return gathered_labels(
        runs, target, train_target, forms, string_ids, num_labels, other_names or {}
    ).names


def gathered_labels(
    runs: Sequence[PathLike | Any],
    target: Any,
    train_target: Any,
    forms: Forms,
    string_ids: bool | None,
    num_labels: int | None,
    other_names: Mapping[str, Iterable[str]],
) -> Labels:
    """Return the labels of all files, with notes; without names if ids are numbers."""
    values: list[tuple[Any, Any]] = [("preds", run) for run in runs]
    values += [("target", target), ("train", train_target)]
    inputs = open_inputs(
        "read_label_names", [pair for pair in values if pair[1] is not None], forms
    )
    rule = _rule_of_lines(LabelRule(None, string_ids, num_labels), inputs)
    sources = [files.rows for files in inputs if files.rows is not None]
    if rule.by_number and not sources:
        return NUMBERED
    hold_names_and_ids = len({source.string_ids for source in sources}) > 1
    # ids are places in label_names
    if "label_names" in other_names and string_ids is None and hold_names_and_ids:
        label_names = list(other_names["label_names"])
        return Labels(label_names, len(label_names), len(label_names))

    named_inputs = _named_inputs(inputs, sources, string_ids, num_labels)
    if not named_inputs:
        return NUMBERED
    gathering = NameGathering(forms.memory)
    for files in named_inputs:
        gathering.add(files.content)
    for argument, names in other_names.items():
        gathering.add_names(names, Path(argument))
    in_memory = all(files.form == IN_MEMORY for files in inputs)
    return gathering.ordered(rule, bool(string_ids) and not in_memory, in_memory)


def _named_inputs(
    inputs: Sequence[Input],
    sources: Sequence[Source],
    string_ids: bool | None,
    num_labels: int | None,
) -> list[Input]:
    """Return the files that hold names of labels; none if label ids are numbers.

    Raises:
        DataFileError: If one file has names of labels and another has numbers.
    """
    read_alike(sources, string_ids)
    numbered = [source for source in sources if not source.string_ids]
    if numbered and num_labels is not None and string_ids is None:
        return []
    named_inputs = [files for files in inputs if files.content not in numbered]
    if named_inputs:
        check_named(named_inputs[0].name, numbered)
    return named_inputs


def first_rows(
    values: Sequence[tuple[Any, Any]], forms: Forms
) -> tuple[list[str], list[str]]:
    """Return how each file is read, and its first two rows, in words."""
    inputs = open_inputs("read", values, forms)
    readings = [
        f"{files.reading.sentence}; said outright: {files.reading.options}"
        for files in inputs
    ]
    rows = []
    for files in inputs:
        rows += files.first_rows()
    return readings, rows


# -- rows or queries -------------------------------------------------------------------


def _check_share(caller: str, rank: int, world_size: int, batch_rows: int) -> None:
    check_count(caller, "batch_rows", batch_rows)
    check_count(caller, "world_size", world_size)
    check_count(caller, "rank", rank, minimum=0, maximum=world_size - 1)


def _open_pairs(path: PathLike, forms: Forms) -> LineFiles:
    """Open a filter of pairs of query and item.

    A ``.txt`` file has two words on each line, others have the columns query and item.
    """
    files = find(path)
    if suffix_of(files.parts[0]) == "txt":
        from tailmetrics.io.text import open_pairs

        openings = [
            Opening(path=part, role="pairs", form="pairs") for part in files.parts
        ]
        return LineFiles(files.name, list(map(open_pairs, openings)))
    columns = Columns(query=forms.shared_columns.query, item=forms.shared_columns.item)
    own = replace(forms, formats={}, columns={"": columns}, extra_columns=())
    return open_input("read", "pairs", path, own).as_lines()


def _open_training_lines(value: Any, forms: Forms) -> LineFiles | None:
    """Open training targets; None if they name no queries."""
    files = open_input("read", "train", value, forms)
    if not files.has_queries or (files.reading.item and not files.reading.query):
        return None
    return files.as_lines()


def _needs_join(inputs: Sequence[Input], is_forced: bool) -> bool:
    """Whether rows must be matched by query.

    They must if both files name their queries, unless both are lists in the same order.
    ``is_forced`` matches such lists, too.

    Raises:
        DataFileError: If one table names its queries and the other does not, or if two
            that do not have a column in common.
    """
    preds, target = inputs
    if preds.has_queries and target.has_queries:
        if preds.rows is None or target.rows is None or is_forced:
            return True
        return not _same_keys(preds.rows, target.rows)
    if preds.has_queries:
        _check_beside_rows(preds, target)
    elif target.has_queries:
        _check_beside_rows(target, preds)
    else:
        _check_shared_columns(preds, target)
    return False


def _check_beside_rows(keyed: Input, other: Input) -> None:
    """Raise unless rows without queries are those of an array, beside lists."""
    assert other.rows is not None
    if keyed.lines is None and not other.rows.is_table:
        return
    problem = f"names no query, but {keyed.name.name} does"
    if keyed.form == IN_MEMORY:
        hint = "give both a column 'query', or neither."
    elif not other.rows.is_table:
        hint = (
            f"write {keyed.name.name} as lists or as an array in the same order, or "
            "this file as lines with a query."
        )
    else:
        hint = f"--{option_for(other.role, 'columns')}.query NAME joins by it"
        if keyed.lines is None:
            hint += f", {ROWS_HINT}"
    raise DataFileError(other.name, problem, hint=hint)


def _check_shared_columns(preds: Input, target: Input) -> None:
    """Raise if two tables without queries have unread columns that may be the query.

    Such columns are shared by both tables, or there is at least one in each.
    """
    is_same = preds.name == target.name and preds.form != IN_MEMORY
    is_decided = preds.reading.is_named("query") or target.reading.is_named("query")
    if is_same or is_decided:
        return
    shared = [name for name in target.reading.unread if name in preds.reading.unread]
    keys = preds.reading.possible_queries, target.reading.possible_queries
    hint = f"--preds-columns.query NAME --target-columns.query NAME joins, {ROWS_HINT}"
    if shared:
        problem = f"has {names_in_words(shared)} in common with {preds.name.name}"
        hint = f"--columns.query {quote(shared[0])} joins by it, {ROWS_HINT}"
    elif all(keys):
        problem = (
            f"{names_in_words(keys[1])} may be the query, and "
            f"{names_in_words(keys[0])} that of {preds.name.name}"
        )
    else:
        return
    if preds.form == IN_MEMORY:
        hint = (
            "rename a column of both to 'query' to join by it, or drop them to take "
            "row i with row i"
        )
    raise DataFileError(target.name, problem, hint=hint)


def _same_keys(first: Source, second: Source) -> bool:
    """Whether two files of rows name the same queries in the same order."""
    return first.num_rows == second.num_rows and bool(
        _keys(first).equals(_keys(second))
    )


def _keys(source: Source) -> Any:
    """Return the queries of rows as an Arrow array."""
    import pyarrow as pa

    return pa.chunked_array(source.key_blocks(), pa.string())


def _note_on_rows(inputs: Sequence[Input]) -> tuple[str, ...]:
    """Return a note if one file names its queries, and the other is an array."""
    preds, target = inputs
    if preds.has_queries == target.has_queries:
        return ()
    keyed, other = (preds, target) if preds.has_queries else (target, preds)
    whatever = f"whatever its {keyed.reading.key!r} says"
    return (
        f"{other.name}: names no query, so that row i belongs to row i of "
        f"{keyed.name.name}, {whatever}.",
    )


def _rule_of_lines(rule: LabelRule, inputs: Sequence[Input]) -> LabelRule:
    """Return the rule by which the items of lines become label ids.

    The last name wins ties for TREC always, for dicts and JSON only if ``num_labels``
    is not known. Beside lists of whole numbers, which are label ids, items are numbers,
    too.
    """
    is_unknown = rule.num_labels is None
    # training targets have no part in the order of predictions
    ranked = [files for files in inputs if files.role != "train"] or inputs
    last_wins = any(
        files.last_name_wins and (is_unknown or files.form == "trec")
        for files in ranked
    )
    strings = rule.strings
    if strings is None and any(
        files.rows is not None and not files.rows.string_ids for files in inputs
    ):
        strings = False
    return replace(rule, strings=strings, descending=last_wins)


def _row_facts(
    sources: Sequence[Source], rule: LabelRule, memory: str, rank: int, world_size: int
) -> FileFacts:
    """Check that files of rows fit together, and return facts on rows and labels."""
    first, last = sources[0], sources[-1]
    for source in sources:
        if source.num_rows == 0:
            raise DataFileError(source.path, "holds no rows", hint=EMPTY_HINT)
    if last is not first:
        sequences: tuple[int, ...] = ()
        if first.num_rows != last.num_rows:
            sequences = first.sequences
        last.read_beside(first.num_labels, sequences)
    if last.num_rows != first.num_rows:
        problem = f"holds {last.num_rows} rows, but {first.path} holds {first.num_rows}"
        raise DataFileError(
            last.path, problem, hint="row i of both files must be the same example."
        )

    names = set_label_names(sources, rule, memory)
    columns = _common_labels(sources, rule, names)
    if last is not first and last.is_ambiguous(columns):
        hint = (
            "write a matrix [N, L] as bool or float, and label ids with one more "
            "column of -1."
        )
        raise DataFileError(
            last.path,
            "holds whole numbers that may be label ids or a matrix [N, L]",
            hint=hint,
        )

    row_names = None
    for source in sources:
        if source.reading.query:
            row_names = Names(_keys(source))
    own_rows = share(rank, world_size, first.num_rows)
    return FileFacts(
        num_rows=first.num_rows,
        num_labels=columns,
        label_names=names,
        row_names=row_names,
        start=own_rows.start,
        stop=own_rows.stop,
        columns=columns,
    )


def _common_labels(
    sources: Sequence[Source], rule: LabelRule, names: Sequence[str] | None
) -> int | None:
    """Return the number of labels; None if unknown.

    The number comes from the columns of files, from ``num_labels`` or from names.
    ``num_labels`` may be larger than the number of names.

    Raises:
        DataFileError: If two of them differ.
    """
    arguments = ["preds", "target"]
    if len(sources) == 1:
        arguments = ["train_target"]
    columns, path = {}, sources[0].path
    for argument, source in zip(arguments, sources, strict=True):
        if source.num_labels is not None:
            columns[argument], path = source.num_labels, source.path
    stated = {}
    argument = rule.number_source.argument
    if rule.num_labels is not None and argument in ("preds", "train_target"):
        columns[argument] = rule.num_labels
    elif rule.num_labels is not None:
        stated[argument] = rule.num_labels
    elif names is not None:
        stated["label_names"] = len(names)
    try:
        return number_of_labels("read", columns, stated)
    except ValueError as error:
        problem, _, hint = str(error).removeprefix("read: ").partition("; ")
        raise DataFileError(path, problem, hint=hint) from error


def _batch_rows(most: int, sources: Sequence[Source], memory: str) -> int:
    """Return the number of rows per batch, fewer for wide rows and little memory."""
    cells_per_row = max(1.0, *(source.cells_per_row for source in sources))
    cells = BATCH_CELLS * min(1.0, bytes_of(memory) / bytes_of(MEMORY))
    return min(most, max(1, int(cells / cells_per_row)))


def _entry_bound(sources: Sequence[Source], memory: str) -> EntryBound:
    """Return how many entries a row may hold.

    Raises:
        DataFileError: If a row is already known to hold more.
    """
    bound = EntryBound(memory, 3 * bytes_of(memory) // ENTRY_BYTES)
    for source in sources:
        if source.widest is not None:
            bound.check(source.path, *source.widest)
    return bound
