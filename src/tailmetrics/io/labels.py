"""Labels of several files: the check that their names agree, the label ids of names, and files of label counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.columns import ALIASES, Columns, Opening, names_among, names_in_words
from tailmetrics.io.database import Database, Names, arrow_names
from tailmetrics.io.files import DataFileError, FilePath, Plain, check_file, file_errors, suffix_of
from tailmetrics.io.lines import LineFiles
from tailmetrics.io.lists import NUMBERS_HINT
from tailmetrics.io.rows import UNKNOWN_HINT, Array, Source
from tailmetrics.io.text import LARGEST, TextTable, numbered_lines, parse_int64

WHOLE = "0|[1-9][0-9]{0,17}"
"""A whole number in its shortest spelling (7, not 07 or +7), small enough for 64 bits."""
WRITTEN_ALIKE = r"regexp_replace(trim(name), '^0*([0-9]+)(\.0*)?$', '\1')"
"""SQL of a name with whole numbers in one spelling: 7 for 007, for 7.0 and for 7 with blanks around it."""
LABEL_NAMES = "label_names"
"""The argument that stands beside files in messages on names."""
SHOWN_NAMES = 2
"""Names of each file that an error shows."""


def numbers_hint(numbered: Source) -> str:
    """Return what to do where a file has numbers for labels, and another file has names."""
    if numbered.num_labels is not None:
        return NUMBERS_HINT
    return "if both mean the same labels, --string-ids true takes numbers for names, too."


def check_agreement(
    database: Database, table: str, word: str, paths: Sequence[FilePath], as_written: bool, in_memory: bool = False
) -> None:
    """Raise if a file has no name in common with the others, or another spelling of the same number.

    Args:
        database: The database.
        table: Its table (name, file) that holds each name of each file once.
        word: ``label`` or ``query``, for the message.
        paths: The files, by their numbers in the table.
        as_written: Whether two spellings of a number, such as 7 and 007, are different names.
        in_memory: Whether tables in memory are read, which have no options.

    Raises:
        DataFileError: Naming the later file.
    """
    if not as_written:
        _check_written_alike(database, table, word, paths, in_memory)
    error = disagreement(database, table, word, paths, in_memory)
    if error is not None:
        raise error


def disagreement(
    database: Database, table: str, word: str, paths: Sequence[FilePath], in_memory: bool = False
) -> DataFileError | None:
    """Return the error about a file that has no name in common with the others; None if each has one."""
    counted = f"SELECT file, count(*) OVER (PARTITION BY name) AS files FROM {table}"
    alone = database.row(
        f"SELECT file FROM ({counted}) GROUP BY file HAVING max(files) = 1 ORDER BY file = 0, file LIMIT 1"
    )
    if alone is None:
        return None
    (file,) = alone
    facts = f"file, min(name, {SHOWN_NAMES}), bool_and(regexp_full_match(name, '{WHOLE}'))"
    rows = database.rows(f"SELECT {facts} FROM {table} GROUP BY file ORDER BY file <> {file}, file LIMIT 2")
    if len(rows) < 2:
        return None
    (_, names, is_whole), (other_file, other_names, is_other_whole) = rows
    there, here = names_in_words(other_names), names_in_words(names)
    problem = f"has no {word} in common with {paths[other_file].name}: {there} there, {here} here"
    hint = "check that the two files belong together."
    if word == "label" and is_whole and is_other_whole and not in_memory:
        hint += " If they do and no prediction is right, --string-ids false reads labels as whole numbers."
    elif str(paths[file]) == LABEL_NAMES and is_other_whole and not in_memory:
        hint = "if the numbers are places among the names, from 0, --string-ids false says so."
    return DataFileError(paths[file], problem, hint=hint)


def _check_written_alike(database: Database, table: str, word: str, paths: Sequence[FilePath], in_memory: bool) -> None:
    """Raise if files have different spellings of one number, such as 7 and 007, and no file has both."""
    # most files hold no name with another spelling, and this query finds that out far faster than grouping all names
    unusual = "starts_with(name, '0') OR starts_with(name, ' ') OR ends_with(name, ' ') OR contains(name, '.')"
    if database.row(f"SELECT 1 FROM {table} WHERE ({unusual}) AND name <> {WRITTEN_ALIKE} LIMIT 1") is None:
        return
    spellings = database.row(
        f"SELECT arg_min(name, file), min(file), arg_max(name, file), max(file) FROM {table} "
        f"GROUP BY {WRITTEN_ALIKE} HAVING count(DISTINCT name) > 1 AND count(*) = count(DISTINCT file) "
        "ORDER BY 1 LIMIT 1"
    )
    if spellings is not None:
        there, first, here, last = spellings
        words = "queries"
        if word == "label":
            words = "labels"
        hint = "write both alike."
        if not in_memory:
            hint = f"write both alike; with --string-ids true they are two {words}."
        raise DataFileError(paths[last], f"has the {word} {here!r} where {paths[first]} has {there!r}", hint=hint)


class NumberSource(NamedTuple):
    """What states the number of labels, for errors.

    Attributes:
        argument: The argument that is the number, or that holds an entry or a column for each label.
        file: The file of the argument; None for the number itself.
    """

    argument: str = "num_labels"
    file: str | None = None

    def clause(self, number: int) -> str:
        """Return what the option or the file states. A whole path would leave no room for the rest of the error."""
        if self.file is None:
            return f"--num-labels says {number}"
        return f"{PurePath(self.file).name} has {number}"


NUM_LABELS = NumberSource()
"""The argument ``num_labels`` itself."""


@dataclass(frozen=True)
class LabelRule:
    """The rule by which items become label ids.

    By default, items are names, which get consecutive ids. With ``num_labels`` or ``strings=False``, items are whole
    numbers, which are the label ids. The default avoids unused labels if ids have gaps, such as the ids of a part of a
    catalogue.

    Attributes:
        names: Names of all labels, in the order of their ids; None to find them in the files.
        strings: Whether items are names even if they look like numbers; None for the default above.
        num_labels: Number of labels; None to find it in the files.
        descending: Whether the last name wins ties, as in trec_eval; items are then names despite ``num_labels``.
        number_source: What states ``num_labels``.
    """

    names: Sequence[str] | None
    strings: bool | None
    num_labels: int | None
    descending: bool
    number_source: NumberSource = NUM_LABELS

    @property
    def by_number(self) -> bool:
        """Whether items are whole numbers and are themselves the label ids."""
        if self.names is not None or self.strings:
            return False
        return self.strings is False or (self.num_labels is not None and not self.descending)

    def number(self, database: Database, path: FilePath) -> Labels:
        """Make the table ``labels`` (item, id) from the table ``met``, which holds each item once.

        Ids follow the ascending order of names (by their UTF-8 bytes; if all names are whole numbers, by value). If the
        last name wins ties, ids follow the descending order of the bytes.

        Raises:
            DataFileError: If an item must be a whole number but is not, or if there are more names than labels.
        """
        if self.names is not None:
            load_names(database, self.names)
            return self._named(path, self.names)
        is_whole = f"regexp_full_match(item, '{WHOLE}')"
        numbers = f"try_cast(CASE WHEN {is_whole} THEN item END AS BIGINT)"
        facts = f"coalesce(bool_and({is_whole}), true), count(*), min({numbers}), max({numbers})"
        are_whole, count, least, last = database.row(f"SELECT {facts} FROM met")
        if self.by_number:
            self._check_whole(database, path, is_whole)
            database.run("CREATE TABLE labels AS SELECT item, item::BIGINT AS id FROM met")
            width = self.num_labels or 0
            if count:
                width = max(width, last + 1)
            return Labels(None, self.num_labels, width)

        order = "item"
        if self.descending:
            order = "item DESC"
        elif are_whole:
            order = "length(item), item"
        database.run(f"CREATE TABLE named AS SELECT item FROM met ORDER BY {order}", "numbering labels", in_order=True)
        database.run("CREATE VIEW labels AS SELECT item, rowid AS id FROM named")
        notes: tuple[str, ...] = ()
        if self.strings is None and not self.descending and are_whole and count and last != count - 1:
            content = f"the items of all files are {count:,} whole numbers from {least} to {last}"
            rule = "each a label of its own, as --string-ids true says"
            notes = (f"{path}: {content}, {rule}; --num-labels L alone makes them label ids from 0 to L - 1.",)
        if self.descending and self.num_labels is not None and are_whole and count:
            hint = "--string-ids false takes whole numbers as label ids."
            notes = (f"{path}: items of TREC are names, also with --num-labels; {hint}",)
        names = database.names("SELECT item FROM named ORDER BY rowid", self.descending)
        return self._named(path, names, notes)

    def _check_whole(self, database: Database, path: FilePath, is_whole: str) -> None:
        wrong = database.row(f"SELECT item FROM met WHERE NOT {is_whole} ORDER BY item LIMIT 1")
        if wrong is None:
            return
        hint = "leave --string-ids out, so that items are numbered as names."
        if self.strings is None:
            hint = "leave --num-labels out, so that items are numbered as names, or say --string-ids true."
        if self.number_source.argument == "label_counts":
            file = self.number_source.file
            hint = f"{file} has counts by label id; write them as CSV with the columns label and count."
        raise DataFileError(path, f"the item {wrong[0]!r} in it or beside it is not a whole number", hint=hint)

    def _named(self, path: FilePath, names: Sequence[str], notes: tuple[str, ...] = ()) -> Labels:
        if self.num_labels is not None and self.num_labels < len(names):
            hint = f"give --num-labels {len(names)} or more, or leave it out."
            raise DataFileError(path, f"there are {len(names)} names for {self.num_labels} labels", hint=hint)
        num_labels = self.num_labels or len(names)
        return Labels(names, num_labels, num_labels, notes)


@dataclass(frozen=True, eq=False)
class Labels:
    """The label ids of all files.

    Attributes:
        names: Names in the order of the ids; None if items are numbers.
        declared: Number of labels; None if only the largest id in the files is known.
        width: Number of columns that is enough for every id in the files.
        notes: What a reader of the numbers should know.
    """

    names: Sequence[str] | None
    declared: int | None
    width: int
    notes: tuple[str, ...] = ()


def load_names(database: Database, names: Sequence[str]) -> None:
    """Write names into the table ``labels`` (item, id), with the position of a name as its id.

    Raises:
        ValueError: If a name is repeated.
    """
    import pyarrow as pa

    table = pa.table({"item": arrow_names(names), "id": np.arange(len(names))})
    database.run("CREATE TABLE labels AS SELECT item, id FROM given", given=table)
    (repeated,) = database.row("SELECT count(*) - count(DISTINCT item) FROM labels")
    if repeated:
        raise ValueError(f"label_names: {repeated} names are repeated; pass each once.")


def order_of_names(names: Sequence[str], num_labels: int) -> Tensor | None:
    """Return label ids sorted by ascending name, shape (L,), int64; None unless ids follow descending names.

    If all names are whole numbers, they are sorted by value, otherwise by their UTF-8 bytes, like the ids of formats
    in which the lower id wins ties. Labels without a name come last.
    """
    if not isinstance(names, Names) or not names.descending:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    column = names.column
    if pc.all(pc.match_substring_regex(column, f"^({WHOLE})$")).as_py():
        column = column.cast(pa.int64())
    order = pc.sort_indices(column).to_numpy()
    return torch.from_numpy(np.append(order.astype(np.int64), np.arange(len(names), num_labels)))


class NameGathering:
    """Collects the label names of several files, to number them together.

    Args:
        memory: As for :func:`read`.
    """

    def __init__(self, memory: str) -> None:
        self._database = Database(memory)
        self._database.run("CREATE TABLE held (name VARCHAR, file BIGINT)")
        self._paths: list[FilePath] = []

    def add(self, files: Source | LineFiles) -> None:
        """Add the items of lines, or the string ids of rows."""
        if isinstance(files, LineFiles):
            self._paths.append(files.name)
            files.load(self._database, "lines")
            self._add("item", "lines WHERE item IS NOT NULL")
            self._database.run("DROP TABLE lines")
            return
        self._paths.append(files.path)
        for source in files.files:
            for names in source.distinct_names():
                self._add_names(names)

    def add_names(self, names: Iterable[str], path: FilePath) -> None:
        """Add names from elsewhere, such as those of label counts."""
        self._paths.append(path)
        self._add_names(arrow_names(names))

    def _add_names(self, names: Any) -> None:
        import pyarrow as pa

        self._add("name", "given", given=pa.table({"name": names}))

    def _add(self, column: str, source: str, **arrow: Any) -> None:
        self._database.run(f"INSERT INTO held SELECT DISTINCT {column}, {len(self._paths) - 1} FROM {source}", **arrow)

    def ordered(self, rule: LabelRule, as_written: bool, in_memory: bool = False) -> Labels:
        """Return the names in the order of their label ids.

        Args:
            rule: The rule by which names become label ids.
            as_written: Whether two spellings of a number, such as 7 and 007, are different names.
            in_memory: Whether tables in memory are read, which have no options.
        """
        self._database.run("CREATE TABLE each AS SELECT DISTINCT name, file FROM held")
        check_agreement(self._database, "each", "label", self._paths, as_written, in_memory)
        self._database.run("CREATE TABLE met AS SELECT DISTINCT name AS item FROM each")
        return rule.number(self._database, self._paths[0])


def read_alike(sources: Sequence[Source], strings: bool | None) -> None:
    """Read the labels of all files as names, or else as numbers where files can be read so.

    Args:
        sources: The files.
        strings: Whether whole numbers are names, too; False if text is whole numbers; None if the files say it.
    """
    are_named = all(source.string_ids for source in sources)
    for source in sources:
        if strings and not source.string_ids:
            source.read_as_names()
        elif strings is False or not (strings or are_named):
            source.read_as_numbers()


def set_label_names(
    sources: Sequence[Source], label_names: Sequence[str] | None, strings: bool | None, memory: str
) -> Sequence[str] | None:
    """Return the names of the labels, and set them in each file whose label ids are strings.

    Args:
        sources: The files.
        label_names: Names of the labels in the order of their ids; None to collect them from the files.
        strings: As for :func:`read_alike`.
        memory: As for :func:`read`.

    Raises:
        DataFileError: If one file has names and another has numbers.
        ValueError: If ``label_names`` repeats a name.
    """
    if strings or label_names is None:
        read_alike(sources, strings)
    named = [source for source in sources if source.string_ids]
    if not named:
        return label_names
    if label_names is None:
        label_names = _names_in(sources, bool(strings), memory)

    numbering = {name: place for place, name in enumerate(label_names)}
    if len(numbering) < len(label_names):
        raise ValueError(f"label_names: {len(label_names) - len(numbering)} names are repeated; pass each once.")
    for source in named:
        for file in (source, *source.files):
            file.numbering, file.label_names = numbering, label_names
    return label_names


def _names_in(sources: Sequence[Source], strings: bool, memory: str) -> Sequence[str]:
    """Return the names of the labels in all files, in the order of their ids; raise if one file has numbers."""
    named = [source for source in sources if source.string_ids]
    numbered = [source for source in sources if not source.string_ids]
    if numbered:
        problem = f"has strings for label ids, but {numbered[0].path} has numbers"
        raise DataFileError(named[0].path, problem, hint=numbers_hint(numbered[0]))

    gathering = NameGathering(memory)
    for source in named:
        gathering.add(source)
    return gathering.ordered(LabelRule(None, True, None, False), strings).names or ()


# -- counts ---------------------------------------------------------------------------------------------------------

COUNTS = ("count", "counts", "frequency", "freq", "n")
"""Known names of a column of counts."""
Entries: TypeAlias = list[tuple[int, str | None, str]]
"""Number, label and count of each line; the label is None in a file of counts alone."""
HINT = "counts are whole numbers of at least 0, one per label in the order of the label ids."


def read_label_counts(
    path: str | FilePath,
    *,
    num_labels: int | None = None,
    label_names: Sequence[str] | None = None,
    columns: Columns | None = None,
) -> Tensor:
    """Read how often each label occurs in training: a tensor of shape (L,), int64.

    Args:
        path: ``.npy`` or ``.pt`` with one whole number per label; ``.txt`` with one number per line; ``.csv`` or
            ``.tsv`` with the columns ``label`` and ``count`` (a missing label has the count 0), or with counts alone.
            Of two columns one needs a known name. The file can be compressed (``.gz``, ``.bz2``, ``.zst``).
        num_labels: Number of labels, if known.
        label_names: Names of the labels in the order of their ids, if a CSV or TSV file names its labels.
        columns: ``item`` and ``gain`` are the names of the columns of labels and of counts, if the file has them.

    Raises:
        DataFileError: If the file is missing, damaged, or its counts do not fit.
    """
    path = check_file(path)
    if num_labels is None and label_names is not None:
        num_labels = len(label_names)
    suffix = suffix_of(path)
    if suffix in ("npy", "pt", "pth"):
        counts = _array(path, suffix)
    elif suffix in ("txt", "csv", "tsv"):
        with file_errors(path, "text"):
            counts = _in_order(path, _entries(path, columns or Columns()), num_labels, label_names)
    else:
        raise DataFileError(path, "is of no format for label counts", hint="use .npy, .pt, .txt, .csv or .tsv.")
    wrong = (counts < 0) | (counts > LARGEST)
    if wrong.any():
        label = int(wrong.argmax())
        raise DataFileError(path, f"holds the count {counts[label]}", f"label {label}", HINT)
    if num_labels is not None and len(counts) != num_labels:
        problem = f"holds the counts of {len(counts)} labels, but there are {num_labels}"
        raise DataFileError(path, problem, hint="counts and data must number the same labels.")
    return torch.from_numpy(counts.astype(np.int64))


def counted_names(path: str | FilePath, columns: Columns) -> set[str] | None:
    """Return the labels named in a file of counts; None if it holds counts alone, in the order of the label ids."""
    path = check_file(path)
    if suffix_of(path) not in ("csv", "tsv"):
        return None
    with file_errors(path, "text"):
        entries = _entries(path, columns)
    return {name for _, name, _ in entries if name is not None} or None


def _array(path: FilePath, suffix: str) -> Array:
    plain = Plain(path)
    with file_errors(path, f"a .{suffix} array"):
        if suffix == "npy":
            counts = np.load(plain.path, allow_pickle=False)
        else:
            counts = torch.load(plain.path, "cpu", weights_only=True)
    if isinstance(counts, Tensor):
        counts = counts.numpy()
    if not isinstance(counts, np.ndarray):
        raise DataFileError(path, f"holds {type(counts).__name__}", hint=HINT)
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise DataFileError(path, f"holds {counts.dtype} {list(counts.shape)}", hint=HINT)
    return counts


def _entries(path: FilePath, columns: Columns) -> Entries:
    """Return the lines of a text file."""
    suffix = suffix_of(path)
    if suffix == "txt":
        return [(number, None, text) for number, text in numbered_lines(path)]
    own = Columns(item=columns.item, gain=columns.gain)
    table = TextTable(Opening(path=path, role="train", form=suffix, columns=own))
    label, count = _label_and_count([column.name for column in table.columns], path, columns)
    cells = f"NULL, coalesce({table.place(count)}, '')"
    if label is not None:
        cells = f"coalesce({table.place(label)}, ''), coalesce({table.place(count)}, '')"
    rows = Database().rows(f"SELECT {cells} FROM {table.source}")
    return [(number, *row) for number, row in enumerate(rows, 1 + table.has_names)]


def _label_and_count(names: Sequence[str], path: FilePath, columns: Columns) -> tuple[str | None, str]:
    """Return the columns of the labels, None without one, and of the counts."""
    if len(names) == 1:
        return None, names[0]
    labels = _matching(names, columns.item, (*ALIASES["item"], "label", "id"))
    counts = _matching(names, columns.gain, COUNTS)
    if len(names) == 2:
        others = [name for name in names if name not in (*labels, *counts)]
        labels, counts = labels or others, counts or others
    if len(set(labels)) != 1 or len(set(counts)) != 1 or labels == counts:
        problem = f"no columns are the label and its count; its columns are {names_in_words(names)}"
        raise DataFileError(path, problem, hint="--columns.item NAME --columns.gain NAME, or call them label and count")
    return labels[0], counts[0]


def _matching(names: Sequence[str], name: str | None, aliases: Sequence[str]) -> list[str]:
    """Return the column with the name that the user gives, else those with a known name."""
    if name in names:
        return [str(name)]
    return names_among(names, aliases)


def _in_order(path: FilePath, entries: Entries, num_labels: int | None, names: Sequence[str] | None) -> Array:
    """Return counts in the order of the label ids; a label that the file leaves out has the count 0."""
    if all(name is None for _, name, _ in entries):
        return np.array([parse_int64(path, "count", text, line) for line, _, text in entries], np.int64)

    ids = None
    if names is not None:
        ids = {name: place for place, name in enumerate(names)}
    counts: dict[int, int] = {}
    for line, name, text in entries:
        label = _label_id(path, str(name), line, ids, num_labels)
        if label in counts:
            raise DataFileError(path, f"counts the label {label} twice", f"line {line}", "add its counts up.")
        counts[label] = parse_int64(path, "count", text, line)
    ordered = np.zeros(num_labels or max(counts) + 1, dtype=np.int64)
    ordered[list(counts)] = list(counts.values())
    return ordered


def _label_id(path: FilePath, name: str, line: int, ids: dict[str, int] | None, num_labels: int | None) -> int:
    """Return the label id of a name, or of a number as text."""
    if ids is not None:
        if name not in ids:
            raise DataFileError(path, f"unknown label {name!r}", f"line {line}", UNKNOWN_HINT)
        return ids[name]
    label = parse_int64(path, "label", name, line)
    if label < 0 or (num_labels is not None and label >= num_labels):
        hint = "label ids start at 0."
        if num_labels is not None:
            hint = f"label ids run from 0 to {num_labels - 1}."
        raise DataFileError(path, f"counts the label {label}", f"line {line}", hint)
    return label


# -- trees of labels --------------------------------------------------------------------------------------------------

EDGE_COLUMNS = ("child", "parent")
"""The columns of the file. Without their names nothing would tell which is which."""


def read_edges(path: str | FilePath) -> list[tuple[str, str]]:
    """Return the pairs of child and parent of a .csv or .tsv file; an empty parent makes the child a root.

    Raises:
        DataFileError: If the file is missing or damaged, or its first line does not name the columns.
    """
    file = check_file(path)
    form = suffix_of(file)
    if form != "tsv":
        form = "csv"
    table = TextTable(Opening(path=file, role="train", form=form))
    names = {column.name.lower(): column.name for column in table.columns}
    if sorted(names) != sorted(EDGE_COLUMNS):
        hint = "write a line 'child,parent', and under it the name or id of each label and of its parent."
        raise DataFileError(file, f"has the columns {names_in_words(names)}", hint=hint)
    child, parent = (table.place(names[name]) for name in EDGE_COLUMNS)
    with file_errors(file, "text"):
        return Database().rows(f"SELECT coalesce({child}, ''), coalesce({parent}, '') FROM {table.source}")
