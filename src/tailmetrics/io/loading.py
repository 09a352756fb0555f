"""The functions that open files: they find the formats, the label ids and the rows of this rank."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, islice, product
from operator import eq
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias
from warnings import catch_warnings, simplefilter

from tailmetrics._arguments import check_choice, check_count
from tailmetrics.io.database import MEMORY, KeyedFile, Names, Opened, SqlLines, Triples, arrow_names, bytes_of
from tailmetrics.io.dataset import Dataset, EntryBound, TargetDataset, read_filter, read_keyed_filter
from tailmetrics.io.files import DataFileError, FilePath, Found, Part, PathLike, find, is_path, note, said_once
from tailmetrics.io.formats import FORMATS, Format, format_of_parts, in_memory, is_scores, names_of
from tailmetrics.io.join import join
from tailmetrics.io.labels import LabelRule, NameGathering, number_strings, numbers_hint
from tailmetrics.io.reading import LISTENER, Columns, Head, Opening, Role, UndecidedError, collected, own_columns, plain
from tailmetrics.io.rows import Parts, Source, share
from tailmetrics.ranking._warnings import warn_outside, with_value

Given: TypeAlias = tuple[Any, Role | None, str | None, Columns | None]
"""A file, a table or a dict as the user passed it, its role, its format and the names of its columns."""
ROLES: tuple[Role, Role] = ("preds", "target")
BATCH_ROWS = 8192
"""Rows per batch at most. With 100 labels per row, a batch has a million numbers: far more work than a Python call."""
BATCH_CELLS = 2**24
"""Numbers per batch at most, but at least one row: 128 MB of int64, however wide the rows are."""
ENTRY_BYTES = 240
"""Memory for an entry of a long list while it is sorted, checked and ranked in several orders, as measured."""


def read(
    preds: PathLike | Sequence[PathLike] | Any,
    target: PathLike | Sequence[PathLike] | Any,
    *,
    num_labels: int | None = None,
    batch_rows: int = BATCH_ROWS,
    filter: PathLike | None = None,
    missing: Literal["skip", "zero"] = "skip",
    rank: int = 0,
    world_size: int = 1,
    format: str | tuple[str | None, str | None] | None = None,
    columns: Columns | tuple[Columns | None, Columns | None] | None = None,
    label_names: Sequence[str] | None = None,
    string_ids: bool | None = None,
    duplicates: Literal["error", "first"] = "error",
    delimiter: str | None = None,
    part: str | None = None,
    others: Sequence[str] = (),
    memory: str = MEMORY,
) -> Dataset:
    """Open predictions and targets, to read them in batches with bounded memory.

    If both files name the query of each line (TREC, CSV, long tables, …) or of each list (a column ``user_id`` beside
    the lists), DuckDB joins them by query in a temporary folder. Otherwise row i of one file belongs to row i of the
    other. Compressed files (``.gz``, ``.bz2``, ``.zst``) are decompressed. If a reader makes a decision, such as which
    column is the query, a warning (:class:`DataFileNote`) tells it.

    Args:
        preds: File of predictions: a path, a folder of parts, a glob, an address (``s3://``, ``gs://``, ``hdfs://``),
            or a list of these; or a table, such as a DataFrame, with the columns query, item and score or with lists
            as in Parquet; or a dict from query to a dict from item to score. Parts are sorted by name, numbers in names
            by value.
        target: Targets: files as for ``preds``; or a table with the columns query, item and perhaps gain; or a dict
            from query to a dict from item to gain.
        num_labels: Number of labels, if no file declares it; label ids are checked against it. In lines that name
            their query, except TREC, items must then be whole numbers, which are the label ids; without it, each item
            in the files is a label, and ids follow the ascending order of the items.
        batch_rows: Rows per batch at most; batches of wide rows are smaller.
        filter: File of (row, label) or (query, item) pairs that do not count: the label is removed from the row's
            predictions before ranking, and from its targets. Each line holds two words. If the files name their
            queries, the filter can also be a table whose first line names the columns of query and item, such as the
            training interactions.
        missing: Treatment of a query without predictions: ``"skip"`` leaves it out, as trec_eval does; ``"zero"``
            gives it an empty list, as ``trec_eval -c`` does. In both cases ``dataset.missing_queries`` counts it.
        rank: Number of the share of rows to read, from 0.
        world_size: Number of shares; together the shares hold every row once.
        format: Format of both files, or a pair of formats, each a name in :data:`FORMATS`. With None, the suffix of a
            file tells its format or, if several formats have this suffix, its first lines do.
        columns: Names of columns of both files, or a pair.
        label_names: Names of the labels in the order of their ids; needed for string ids if other files, such as
            training targets, must have the same label ids (see :func:`read_label_names`).
        string_ids: True treats whole numbers as names of labels, in every format except matrices. False treats whole
            numbers of lines as label ids even without ``num_labels``.
        duplicates: Treatment of a label that a row repeats: ``"error"`` raises an error. ``"first"`` keeps a repeated
            prediction in its place, and metrics made with ``duplicates="first"`` count it as a miss; of a repeated
            target it keeps the first, with its gain.
        delimiter: Separator of fields of the text files that hold it, such as ``";"``; with None, the files tell it.
        part: Subset and split of predictions of MTEB, such as ``"default/test"``.
        others: Names of columns of the targets that have another meaning, such as groups of rows, so that they are no
            gains.
        memory: Memory limit of DuckDB for the join of files whose lines name their query, such as ``"2GB"``; more
            data goes to a folder in ``TMPDIR``. A row that alone would take three times as much is an error.

    Raises:
        DataFileError: If a file is missing, empty, damaged or does not fit the other file; also during iteration.
    """
    forms = format if isinstance(format, tuple) else (format, format)
    named = columns if isinstance(columns, tuple) else (columns, columns)
    check_choice("read", "missing", missing, ("skip", "zero"))
    check_choice("read", "duplicates", duplicates, ("error", "first"))
    _check_share("read", rank, world_size, batch_rows)
    asked = [*zip((preds, target), ROLES, forms, named, strict=True)]
    with collected() as readings, deciding(asked, delimiter, others):
        inputs = _inputs("read", asked, delimiter, others, labels=label_names)
        inputs[0] = inputs[0].of_part(part)
        if inputs[0].form.name == inputs[1].form.name == "letor":
            inputs[0] = inputs[0].opened_with(beside=[one.path for one in inputs[1].found.parts])
        opened = [None if one.form.has_queries else one.rows() for one in inputs]
        first, last = opened
        ignored, database, preds_rows, target_rows = None, None, first, last
        if first is not None and first.num_labels is not None and inputs[1].form.name == "lists":
            found = inputs[1].found.name
            if string_ids:
                first.read_as_names()
            _common_labels([first], num_labels, label_names)
            rule = LabelRule(label_names, False, first.num_labels, False, first.path)
            _, target_rows, _, known = join(None, inputs[1].keyed_file(), rule, False, rank, world_size, memory)
            _check_rows(first, found, known["num_rows"])
            note(first.path, f"names no query, so that row i belongs to list i of {found}.")
        elif _needs_join(inputs, opened):
            files = [
                one.keyed_file()
                if rows is None
                else KeyedFile(rows.path, [(file.path, file.entries) for file in rows.files])
                for one, rows in zip(inputs, opened, strict=True)
            ]
            if string_ids is None and any(rows is not None and not rows.string_ids for rows in opened):
                string_ids = False  # lists of whole numbers are label ids
            rule = LabelRule(label_names, string_ids, num_labels, _last_name_wins(inputs, num_labels))
            skip = missing == "skip"
            preds_rows, target_rows, database, known = join(files[0], files[1], rule, skip, rank, world_size, memory)
        else:
            sources = [source for source in opened if source is not None]
            names = number_strings(sources, label_names, bool(string_ids), memory)
            known = _dataset_arguments(sources, num_labels, names, rank, world_size)
            if all(source.key is not None for source in sources):
                known["row_names"] = Names(_column(sources[1], str(sources[1].key)))
        if filter is not None and database is not None:
            ignored = read_keyed_filter(filter, database, named[1] or Columns())
        elif filter is not None:
            ignored = read_filter(filter, known["num_rows"], known["num_labels"])
        assert preds_rows is not None
        assert target_rows is not None
        known |= _bounds(batch_rows, [preds_rows, target_rows], memory)
    known["readings"] = tuple(readings)
    return Dataset(preds=preds_rows, target=target_rows, ignored=ignored, duplicates=duplicates, **known)


def read_target(
    path: PathLike | Sequence[PathLike] | Any,
    *,
    num_labels: int | None = None,
    batch_rows: int = BATCH_ROWS,
    rank: int = 0,
    world_size: int = 1,
    format: str | None = None,
    columns: Columns | None = None,
    label_names: Sequence[str] | None = None,
    string_ids: bool | None = None,
    min_gain: float | None = None,
    one_label: bool = False,
    counts_alone: bool = False,
    delimiter: str | None = None,
    memory: str = MEMORY,
) -> TargetDataset:
    """Open targets without predictions, such as the training targets that ``LabelFrequency`` counts.

    Pass ``num_labels`` if it is known: an array of ``num_labels`` whole numbers per row is then multi-hot, as for
    ``LabelFrequency``.

    Args:
        path: File of targets, a table or a dict, as for :func:`read`.
        num_labels: Number of labels, if the file does not declare it.
        batch_rows: Rows per batch at most.
        rank: Number of the share of rows to read, from 0.
        world_size: Number of shares.
        format: Format, a name in :data:`FORMATS`; with None, the file tells it, as for :func:`read`.
        columns: Names of columns.
        label_names: Names of the labels in the order of their ids.
        string_ids: As for :func:`read`.
        min_gain: The lowest gain that counts as relevant, if the file has gains. A lower gain becomes 0, as in metrics
            made with ``min_gain``.
        one_label: Whether each whole number of an array is a row of its own, such as a token of (B, T); any negative
            number then means "no label".
        counts_alone: Whether the labels are only counted: lines then need no query, and ``columns`` may hold names for
            other files, which this file lacks.
        delimiter: As for :func:`read`.
        memory: As for :func:`read`.

    Raises:
        DataFileError: If the file is missing, empty or damaged; also during iteration.
        ValueError: If ``min_gain`` is not a number above 0.
    """
    _check_share("read_target", rank, world_size, batch_rows)
    if min_gain is not None and not (isinstance(min_gain, (int, float)) and 0 < min_gain < math.inf):
        raise ValueError(f"read_target: min_gain={min_gain!r} is not a gain; pass a number above 0.")
    with collected() as readings:
        (given,) = _inputs("read_target", [(path, "target", format, columns)], delimiter, labels=label_names)
        given = given.counted() if counts_alone else given
        source: Source
        if given.form.has_queries:
            rule = LabelRule(label_names, string_ids, num_labels, _last_name_wins([given], num_labels))
            _, source, _, known = join(None, given.keyed_file(), rule, False, rank, world_size, memory)
        else:
            source = given.rows()
            source.read_beside(num_labels, (-1,) if one_label else ())
            names = number_strings([source], label_names, bool(string_ids), memory)
            known = _dataset_arguments([source], num_labels, names, rank, world_size)
    if source.reading is not None and not source.reading.query:
        known["row_names"] = None
    known |= _bounds(batch_rows, [source], memory)
    return TargetDataset(target=source, min_gain=min_gain, one_label=one_label, readings=tuple(readings), **known)


def read_label_names(
    *paths: PathLike | Sequence[PathLike],
    format: str | Sequence[str | None] | None = None,
    columns: Columns | Sequence[Columns | None] | None = None,
    string_ids: bool | None = None,
    num_labels: int | None = None,
    more: Iterable[str] = (),
    delimiter: str | None = None,
    part: str | None = None,
    memory: str = MEMORY,
) -> Sequence[str] | None:
    """Return the names of the labels of all files in the order of their ids; None if label ids are numbers.

    Names are in ascending order (whole numbers by value). If one of the files is TREC or JSON, where the last name wins
    ties, names are in descending order. Pass the result as ``label_names`` to each call that reads one of these files,
    so that a label has the same id in all of them. This function reads every file to its end.

    Args:
        paths: Files of predictions and targets, as for :func:`read`.
        format: Format of all files, or one for each file; with None, the file tells it.
        columns: Names of columns of all files, or one :class:`Columns` for each file.
        string_ids: As for :func:`read`.
        num_labels: As for :func:`read`: with it, whole numbers are label ids.
        more: Names to add, such as labels that only the training data has.
        delimiter: As for :func:`read`.
        part: As for :func:`read`.
        memory: As for :func:`read`.

    Raises:
        DataFileError: If a file cannot be read, or one file has names of labels and another has numbers.
    """
    forms = [format] * len(paths) if format is None or isinstance(format, str) else format
    named = [columns] * len(paths) if columns is None or isinstance(columns, Columns) else columns
    roles = [None] * len(paths)
    inputs = _inputs("read_label_names", [*zip(paths, roles, forms, named, strict=True)], delimiter)
    # scores beside targets in LETOR name no label that the targets do not name
    inputs = [one.of_part(part, needed=False).counted() for one in inputs if not one.is_scores_alone]
    rule = LabelRule(None, string_ids, num_labels, _last_name_wins(inputs, num_labels))
    if rule.by_number and all(one.form.has_queries for one in inputs):
        return None
    gathered = NameGathering(memory)
    numbered = _gather(gathered, inputs, bool(string_ids))
    paths_of_numbers = [source.path for source in numbered]
    # compared by path, because the user may pass one path twice
    with_names = [one.found.name for one in inputs if one.found.name not in paths_of_numbers]
    if not with_names or (numbered and num_labels is not None and string_ids is None):
        return None
    if numbered:
        problem = f"has names of labels, but {numbered[0].path} has their numbers"
        raise DataFileError(with_names[0], problem, hint=numbers_hint(numbered[0]))
    gathered.add_more(arrow_names(more), Path("label counts"))
    return gathered.ordered(rule, bool(string_ids))


def _gather(gathered: NameGathering, inputs: Sequence[_Input], as_names: bool) -> list[Source]:
    """Gather the names of labels of all files, and return the files whose labels are numbers."""
    numbered = []
    for one in inputs:
        source = None if one.form.has_queries else one.rows()
        if source is not None and as_names:
            source.read_as_names()
        if source is None or source.string_ids:
            gathered.add(one.keyed_file() if source is None else source)
        else:
            numbered.append(source)
    return numbered


def names_in_memory(
    caller: str, tables: Mapping[str, Any], more: Mapping[str, Iterable[str]], last_wins: bool
) -> Sequence[str]:
    """Return the distinct items of several tables or dicts, in the order of their label ids.

    Args:
        caller: Name of the calling function, for errors.
        tables: Name of an argument -> the table or dict passed as this argument.
        more: Name of an argument -> names to add.
        last_wins: Whether the last name wins ties.
    """
    gathered = NameGathering(MEMORY)
    asked: dict[str, Given] = {
        name: (value, "preds" if name == "preds" else "target", None, None) for name, value in tables.items()
    }
    with catch_warnings(), deciding([asked[role] for role in ROLES]):
        simplefilter("ignore")  # read says it again
        _gather(gathered, _inputs(caller, [*asked.values()], names=[*asked]), as_names=True)
    for argument, names in more.items():
        gathered.add_more(arrow_names(names), Path(argument))
    return gathered.ordered(LabelRule(None, True, None, last_wins), as_written=False) or ()


SHOWN_ENTRIES = 5
"""Entries of a row that are shown, so that a row fits on a line."""


def first_rows(files: Sequence[Given], train: Given | None, delimiter: str | None) -> list[str]:
    """Return the first two rows of each file as they are understood, in words; the readings are said.

    Args:
        files: Predictions and targets.
        train: Training targets; None without them.
        delimiter: As for :func:`read`.
    """
    with deciding(files, delimiter):
        inputs = _inputs("read", files, delimiter)
        inputs += [] if train is None else [_inputs("read", [train], delimiter)[0].counted()]
        return [f"{one.found.name}, {row}" for one in inputs for row in one.first_rows()]


def _in_words(block: Triples | None) -> list[str]:
    """Return the lines of the first two queries of a block in words."""
    if block is None:
        return []
    values = [None] * len(block.query) if block.value is None else block.value.tolist()
    rows: dict[str, list[str]] = {}
    for query, item, value in zip(block.query.to_pylist(), block.item.to_pylist(), values, strict=True):
        if len(rows) == 2 and query not in rows:
            break
        number = "" if value is None or item is None else f" {-value if block.ranks else value:g}"
        rows.setdefault(query, []).append("nothing" if item is None else f"{item!r}{number}")
    more = {query: " …" * (len(some) > SHOWN_ENTRIES) for query, some in rows.items()}
    return [f"{query!r}: {', '.join(some[:SHOWN_ENTRIES])}{more[query]}" for query, some in rows.items()]


@contextmanager
def deciding(files: Sequence[Given], delimiter: str | None = None, others: Sequence[str] = ()) -> Iterator[None]:
    """Name in one error what is open in any of the files, where the block finds what is open in one.

    Args:
        files: Predictions and targets.
        delimiter: As for :func:`read`.
        others: As for :func:`read`.
    """
    try:
        yield
    except UndecidedError as error:
        inputs = _inputs("read", files, delimiter, others)
        found = [one for one in (each.refusal(UndecidedError) for each in inputs) if isinstance(one, UndecidedError)]
        if len(found) < 2:
            raise (found or [error])[0] from error
        first, other = found
        raise UndecidedError(first.look, first.asked, first.decisions, other) from error


def _inputs(
    caller: str,
    files: Sequence[Given],
    delimiter: str | None = None,
    others: Sequence[str] = (),
    names: Sequence[str] = (),
    labels: Sequence[str] | None = None,
) -> list[_Input]:
    """Return inputs that know which names of columns all files with names have; a given name is for files that have it.

    A name that only other files have is left out, and the format is told again without it, and with the labels of the
    other files, or ``labels``, the names of all. Tables in memory may have ``names`` in errors.
    """
    inputs = []
    for (value, role, form, columns), name in zip(files, names or [""] * len(files), strict=True):
        path = Path(name or f"{role or 'labels'} ({type(value).__name__})")
        asked = Opening(path, role, columns or Columns(), delimiter=delimiter, others=others)
        inputs.append(_Input.of(caller, value, form, asked))
    own = [one.names for one in inputs]
    with_names = [set(found) for found in own if found]
    spelled = [set(map(plain, found)) for found in with_names]
    shared = sorted(set.intersection(*spelled)) if len(spelled) > 1 else []
    every = set().union(*with_names)
    inputs = [one.for_own(mine, every)._with(beside=shared) for one, mine in zip(inputs, own, strict=True)]
    return [one.told_by([other for other in inputs if other is not one], labels) for one in inputs]


def _last_name_wins(inputs: Sequence[_Input], num_labels: int | None) -> bool:
    """Whether the last name wins ties: for TREC always, for dicts and JSON only if ``num_labels`` is not given."""
    return any(one.form.ties == "last name" and (num_labels is None or one.form.name == "trec") for one in inputs)


class _Input(NamedTuple):
    """Predictions or targets as passed by the user, with their format.

    Attributes:
        caller: The function that the user called.
        value: The path, the table or the dict.
        named: The format, as the user named it.
        found: The files; for a table in memory, its name in errors.
        form: The format.
        asked: The arguments with which each of the files is opened.
    """

    caller: str
    value: Any
    named: str | None
    found: Found
    form: Format
    asked: Opening

    @classmethod
    def of(cls, caller: str, value: Any, named: str | None, asked: Opening) -> _Input:
        if is_path(value):
            found = find(value)
            asked = asked._replace(path=found.parts[0].path)
            form = format_of_parts(caller, found.parts, named, asked)
        else:
            found = Found(asked.path, (Part(asked.path, {}),))
            form = in_memory(caller, asked.role or "labels", value, asked.path, asked.columns)
        return cls(caller, value, named, found, form, asked)

    @property
    def names(self) -> Sequence[str]:
        """Names of the columns of the first file, and of its folders."""
        return [*names_of(self.form, self.asked), *self.found.parts[0].partition]

    def for_own(self, own: Sequence[str], other: Collection[str]) -> _Input:
        """Return this input without the given names that only other files have, which may tell another format."""
        columns = own_columns(self.asked.columns, own, other)
        if columns == self.asked.columns:
            return self
        return _Input.of(self.caller, self.value, self.named, self.asked._replace(columns=columns))

    def told_by(self, others: Sequence[_Input], labels: Sequence[str] | None) -> _Input:
        """Return this input with the labels of the others, which tell lists from names that hold blanks."""

        def known() -> set[str] | None:
            found = [set(labels or ()), *(one.some_labels() for one in others if not one.may_be_lists)]
            return None if None in found else set().union(*filter(None, found))

        return self._with(labels=known)

    @property
    def may_be_lists(self) -> bool:
        """Whether lists were guessed, which may as well be one label in each line."""
        given = self.named is not None or self.asked.columns.names_lists(self.names)
        return self.form.name == "lists" and self.asked.role != "preds" and not given

    def some_labels(self) -> set[str] | None:
        """Return the labels of the first rows that have names; None where the columns are not told."""
        with _quietly():
            try:
                opened = self._open(self.found.parts[0])
                if isinstance(opened, Source):
                    blocks = islice(opened.distinct_names() if opened.string_ids else (), 1)
                    return {name for block in blocks for name in block.to_pylist()}
                block = _first_block(opened)
                return set() if block is None else set(block.item.to_pylist())
            except (ValueError, OSError):
                return None

    def counted(self) -> _Input:
        """Return this input without the names that its file lacks; its lines need no query."""
        return self.for_own(self.names, self.asked.columns.parts)._with(counts_alone=True)

    def _with(self, **facts: Any) -> _Input:
        return self._replace(asked=self.asked._replace(**facts))

    def first_rows(self) -> list[str]:
        """Return the first two rows as they are understood, in words."""
        opened = self._open(self.found.parts[0])
        if isinstance(opened, Source) and opened.key is None:
            return opened.first_rows(SHOWN_ENTRIES)
        return _in_words(_first_block(opened))

    def opened_with(self, **facts: Any) -> _Input:
        """Return a copy whose files are opened with further arguments of the opener of their format."""
        assert not isinstance(self.form.opener, str)
        return self._replace(form=replace(self.form, opener=partial(self.form.opener, **facts)))

    def of_part(self, part: str | None, needed: bool = True) -> _Input:
        """Return a copy that reads one part of predictions of MTEB; other formats have none.

        Raises:
            DataFileError: If a part is named and ``needed``, and the format has none.
        """
        if part is None or (self.form.name != "mteb" and not needed):
            return self
        if self.form.name != "mteb":
            hint = "leave part out: only predictions of MTEB have parts."
            raise DataFileError(self.found.name, f"is {self.form.name}, which has no parts", hint=hint)
        return self.opened_with(part=part)

    @property
    def is_scores_alone(self) -> bool:
        """Whether the files are scores for the lines of targets in LETOR."""
        return self.form.name == "letor" and is_scores(Head(self.asked))

    def rows(self) -> Source:
        """Open the files in a format of rows (``has_queries`` is false)."""
        with said_once(set()):
            sources = list(map(self._open, self.found.parts))
        return sources[0] if len(sources) == 1 else Parts(self.found.name, sources)

    def keyed_file(self) -> KeyedFile:
        """Return the files in a format of lines that name their query; each file is opened when it is read."""
        is_target = self.asked.role == "target"
        without = is_target and self.asked.columns.without_gain
        # qrels and LETOR also list irrelevant items
        tells_zeros = is_target and self.form.ties != "last name" and self.form.name != "letor"
        parts = [(part.path, partial(self._open, part)) for part in self.found.parts]
        return KeyedFile(self.found.name, parts, without_values=without, tells_zeros=tells_zeros)

    def refusal(self, kind: type[DataFileError]) -> DataFileError | None:
        """Return the error of just this kind about the first file; None if it is read, or another error comes first."""
        with _quietly():
            try:
                self._open(self.found.parts[0])
            except (ValueError, OSError) as error:
                return error if type(error) is kind else None
        return None

    def _open(self, part: Part) -> Any:
        return self.form.open_as(self.asked._replace(path=part.path, partition=part.partition))


def _first_block(opened: Source | Opened) -> Triples | None:
    """Return the first lines of a file that names its queries; None if it holds none."""
    blocks = opened.entries() if isinstance(opened, Source) else opened
    return next(iter(blocks.exact() if isinstance(blocks, SqlLines) else blocks), None)


@contextmanager
def _quietly() -> Iterator[None]:
    """Say nothing of the files that are opened within the block: they are not read yet."""
    with with_value(LISTENER, lambda _: None), catch_warnings(), said_once(set()), collected():
        simplefilter("ignore")
        yield


def _check_share(caller: str, rank: int, world_size: int, batch_rows: int) -> None:
    check_count(caller, "batch_rows", batch_rows)
    check_count(caller, "world_size", world_size)
    check_count(caller, "rank", rank, minimum=0, maximum=world_size - 1)


def _needs_join(inputs: Sequence[_Input], opened: Sequence[Source | None]) -> bool:
    """Whether rows must be matched by query: both files name their queries, and are not lists in the same order.

    Raises:
        DataFileError: If the lines of one file name their query, but the other file names no query.
    """
    preds, target = inputs
    keyed_rows = [source for source in opened if source is not None and source.key is not None]
    if len(keyed_rows) == 2:
        first, last = keyed_rows
        if first.num_rows != last.num_rows or not _same_values(first, first.key, last, last.key):
            return True
    if preds.form.has_queries != target.form.has_queries and not keyed_rows:
        for error in filter(None, (one.refusal(DataFileError) for one in inputs)):
            raise error
        keyed = ", ".join(form.name for form in FORMATS.values() if form.has_queries)
        problem = f"is {target.form.name}, which cannot be matched with {preds.found.name} ({preds.form.name})"
        hint = f"write both in a format that names the query of a line ({keyed}), or both as rows in the same order."
        if opened[0] is not None and opened[0].num_labels is not None:
            hint = f"where line i is row i of {preds.found.name}, write the column of label ids as an array, "
            hint += (
                "numpy.save('target.npy', column). Targets of a matrix can be lists: a line 'id,a b c' for each row."
            )
        names = [None if source is None else next(iter(source.files[0].unread), None) for source in opened]
        if any(names):
            pair = ", ".join(f"Columns(query={'NAME' if name is None else repr(name)})" for name in names)
            hint = f"columns=({pair}) joins by the column of each file that names the query. Or {hint}"
        raise DataFileError(target.found.name, problem, hint=hint)
    if preds.form.has_queries or target.form.has_queries:
        return True
    _check_shared(*filter(None, opened))
    if len(keyed_rows) < 2:
        _check_unread(*filter(None, opened))
    if len(keyed_rows) == 1:
        (named,) = keyed_rows
        other = next(source for source in opened if source is not None and source is not named)
        said = f"names no query, so that row i belongs to row i of {named.path}, whatever its {named.key!r} says."
        warn_outside(f"{other.path}: {said}")  # not a DataFileNote: a report tells it too
    return False


def _check_unread(preds: Source, target: Source) -> None:
    """Raise if a column that is not read may be the query: it names each row, by names that the other file has.

    Where the other file does not name its query either, most names must be those of a column in another order.
    """
    is_keyed = preds.key is not None or target.key is not None
    own, others = (
        [one.key]
        if one.key is not None
        else [name for name in one.files[0].unread if (is_keyed or name in _ids(one)) and _is_distinct(one, name)]
        for one in (preds, target)
    )
    for name, other in product(own, others):
        import pyarrow.compute as pc

        known = pc.sum(pc.is_in(pc.unique(_column(preds, str(name))), value_set=_column(target, str(other)))).as_py()
        if known and (is_keyed or (2 * known > preds.num_rows and not _same_values(preds, name, target, other))):
            (path, column), (place, there) = (preds.path, name), (target.path, other)
            if preds.key is not None:
                (path, column), (place, there) = (place, there), (path, column)
            problem = f"column {column!r} may be the query: {known:,} of its values are in {there!r} of {place}"
            hint = f"columns=(Columns(query={name!r}), Columns(query={other!r})) joins by it. "
            hint += "If row i belongs to row i, leave the column out of the file."
            raise DataFileError(path, problem, hint=hint)


def _ids(source: Source) -> list[str]:
    """Return the columns that are not read and may be ids: no fractions."""
    unread = source.files[0].reading.unread if source.files[0].reading is not None else ()
    return [one.name for one in unread if not one.may_be_score]


def _check_shared(preds: Source, target: Source) -> None:
    """Raise if a column of both files differs by row, unless the keys of both name each row once.

    Row i belongs to row i here. The error names a column that names each row once, if there is one.
    """
    first, *others = ((file.key, *file.unread) for source in (preds, target) for file in source.files)
    shared = [name for name in first if name is not None and all(name in other for other in others)]
    differing = [name for name in shared if not _same_values(preds, name, target, name)]
    differing = differing or ([] if preds.num_rows == target.num_rows else shared)
    if not differing or (preds.key is not None and target.key is not None and _is_distinct(preds, preds.key)):
        return
    joining = next((name for name in differing if all(_is_distinct(source, name) for source in (preds, target))), None)
    name = joining or differing[0]
    hint = f"columns=Columns(query={repr(joining) if joining else 'NAME'}) joins by {'it' if joining else 'a column'}. "
    hint += "If row i belongs to row i, leave the column out of one file."
    raise DataFileError(target.path, f"column {name!r} differs from that of {preds.path}", hint=hint)


def _column(source: Source, name: str) -> Any:
    """Return the values of a column as an Arrow array of strings; parts without the column have none."""
    import pyarrow as pa

    files = [file for file in source.files if name in (file.key, *file.unread)]
    return pa.chunked_array((block for file in files for block in file.values(name)), pa.string())


def _is_distinct(source: Source, name: str) -> bool:
    """Whether each row has a value of its own in a column."""
    import pyarrow.compute as pc

    return bool(pc.count_distinct(_column(source, name), mode="only_valid").as_py() == source.num_rows)


def _same_values(first: Source, name: str | None, last: Source, other: str | None) -> bool:
    """Whether a column of each file holds the same values in the same order, up to the end of the shorter file."""

    def values(source: Source, column: str | None) -> Iterator[Any]:
        return chain.from_iterable(block.to_pylist() for file in source.files for block in file.values(column))

    return all(map(eq, values(first, name), values(last, other)))


def _dataset_arguments(
    sources: Sequence[Source],
    num_labels: int | None,
    names: Sequence[str] | None,
    rank: int,
    world_size: int,
) -> dict[str, Any]:
    """Check that files of rows fit together, and return the arguments of :class:`Dataset` or :class:`TargetDataset`."""
    first, last = sources[0], sources[-1]
    for source in sources:
        if source.num_rows == 0:
            raise DataFileError(source.path, "holds no rows", hint="the program that wrote it may have failed.")
    if len(sources) == 2:
        last.read_beside(first.num_labels, first.sequences if first.num_rows != last.num_rows else ())
    num_rows = first.num_rows
    _check_rows(first, last.path, last.num_rows)
    labels = _common_labels(sources, num_labels, names)
    if len(sources) == 2 and last.is_ambiguous(labels):
        hint = "write a matrix [N, L] as bool or float, and label ids with one more column of -1."
        raise DataFileError(last.path, "holds whole numbers that may be label ids or a matrix [N, L]", hint=hint)
    start, stop = share(rank, world_size, num_rows, *sources)
    return {
        "num_rows": num_rows,
        "num_labels": labels,
        "label_names": names,
        "start": start,
        "stop": stop,
        "columns": labels,
    }


def _check_rows(source: Source, path: FilePath, num_rows: int) -> None:
    if num_rows != source.num_rows:
        problem = f"holds {num_rows} rows, but {source.path} holds {source.num_rows}"
        raise DataFileError(path, problem, hint="row i of both files must be the same example.")


def _common_labels(sources: Sequence[Source], num_labels: int | None, names: Sequence[str] | None) -> int | None:
    """Return the number of labels, from ``num_labels``, the names or the files; None if none of them gives it.

    Raises:
        DataFileError: If a file declares another number of labels.
    """
    known, said = num_labels, "num_labels says"
    if names is not None and known in (None, len(names)):
        known, said = len(names), "label_names names"
    for source in sources:
        if source.num_labels is None:
            continue
        if known is not None and source.num_labels != known:
            hint = "all files must number the same labels."
            raise DataFileError(source.path, f"has {source.num_labels} labels, but {said} {known}", hint=hint)
        known, said = source.num_labels, f"{source.path} has"
    return known


def _bounds(batch_rows: int, sources: Sequence[Source], memory: str) -> dict[str, Any]:
    """Return the number of rows per batch, and the number of entries that a row may hold."""
    limit = bytes_of(memory)
    bound = EntryBound(memory, 3 * limit // ENTRY_BYTES)
    for source in sources:
        if source.widest is not None:
            bound.check(source.path, *source.widest)
    cells = max(source.cells_per_row for source in sources)
    at_once = BATCH_CELLS * min(1.0, limit / bytes_of(MEMORY))
    return {"batch_rows": min(batch_rows, max(1, int(at_once / max(cells, 1)))), "bound": bound}
