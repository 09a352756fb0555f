"""Labels of several files: the check that their names agree, the label ids of names, and files of label counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.database import Database, KeyedFile, Names, arrow_names
from tailmetrics.io.files import DataFileError, FilePath, Plain, check_file, note, reading, suffix_of
from tailmetrics.io.reading import Columns, Opening, choose_counts, records
from tailmetrics.io.rows import UNKNOWN_HINT, Array, Source
from tailmetrics.io.text import LARGEST, Table, every_line, in_quotes, numbered_lines, parse_int64

WHOLE = "0|[1-9][0-9]{0,17}"
"""A whole number in its shortest spelling (7, not 07 or +7), small enough for 64 bits."""
WRITTEN_ALIKE = r"regexp_replace(trim(name), '^0*([0-9]+)(\.0*)?$', '\1')"
"""SQL of a name with whole numbers in one spelling: 7 for 007, for 7.0 and for 7 with blanks around it."""


COLUMNS_HINT = (
    "label_names=NAMES says the name of each label of {}, in its order; or write numbers for names, from 0: a column "
    "of label ids as an array, numpy.save('labels.npy', column)."
)


def numbers_hint(source: Source) -> str:
    """Return the hint of an error: ``source`` has numbers for labels, but another file has names."""
    if source.num_labels is not None:
        return COLUMNS_HINT.format(source.path)
    return "if both mean the same labels, string_ids=True takes numbers for names, too."


def check_agreement(
    database: Database,
    met: str,
    word: str,
    paths: Sequence[FilePath],
    as_written: bool,
    may_differ: bool = False,
) -> None:
    """Raise if a file has no name in common with the others, or another spelling of the same number.

    Args:
        database: The database.
        met: Its table (name, file) that holds each name of each file once.
        word: ``label`` or ``query``, for the message.
        paths: The files, by their numbers in the table.
        as_written: Whether two spellings of a number, such as 7 and 007, are different names.
        may_differ: Whether files without a common name only cause a note, because names have only one spelling.

    Raises:
        DataFileError: Naming the later file.
    """
    if not as_written:
        _check_written_alike(database, met, word, paths)
    found = database.arrays(
        "SELECT file, max(files) > 1 AS shared, min(name) AS name FROM "
        f"(SELECT name, file, count(*) OVER (PARTITION BY name) AS files FROM {met}) GROUP BY file ORDER BY file"
    )
    files, names = found["file"].tolist(), found["name"].tolist()
    alone = [place for place in range(len(files)) if not found["shared"][place]]
    lonely = min(alone, key=lambda place: (files[place] == 0, place), default=None)
    if lonely is None or len(files) < 2:
        return
    other = int(lonely == 0)
    problem = f"has no {word} in common with {paths[files[other]]}: {names[other]!r} there, {names[lonely]!r} here"
    if may_differ:
        note(paths[files[lonely]], problem)
        return
    hint = "check that the two files belong together."
    if word == "label":
        hint += " If they do and no prediction is right, pass string_ids=False, which reads labels as whole numbers."
    raise DataFileError(paths[files[lonely]], problem, hint=hint)


def _check_written_alike(database: Database, met: str, word: str, paths: Sequence[FilePath]) -> None:
    """Raise if files have different spellings of one number, such as 7 and 007, and no file has both."""
    # most files hold no name with another spelling, and this query finds that out far faster than grouping all names
    unusual = f"SELECT 1 FROM {met} WHERE (name < ':' OR ends_with(name, ' ')) AND name <> {WRITTEN_ALIKE} LIMIT 1"
    if database.row(unusual) is None:
        return
    found = database.row(
        f"SELECT arg_min(name, file), min(file), arg_max(name, file), max(file) FROM {met} "
        f"GROUP BY {WRITTEN_ALIKE} HAVING count(DISTINCT name) > 1 AND count(*) = count(DISTINCT file) "
        "ORDER BY 1 LIMIT 1"
    )
    if found is not None:
        there, first, here, last = found
        hint = f"write both alike; with string_ids=True they are two {'labels' if word == 'label' else 'queries'}."
        raise DataFileError(paths[last], f"has the {word} {here!r} where {paths[first]} has {there!r}", hint=hint)


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
        matrix: The file whose columns are the labels; None without such a file.
    """

    names: Sequence[str] | None
    strings: bool | None
    num_labels: int | None
    descending: bool
    matrix: FilePath | None = None

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
        asked = f"coalesce(bool_and({is_whole}), true), count(*), min({numbers}), max({numbers})"
        whole, count, least, last = database.row(f"SELECT {asked} FROM met")
        if self.by_number:
            self._check_whole(database, path, is_whole)
            database.run("CREATE TABLE labels AS SELECT item, item::BIGINT AS id FROM met")
            return Labels(None, self.num_labels, max(self.num_labels or 0, (-1 if last is None else last) + 1))
        order = "item DESC" if self.descending else "length(item), item" if whole else "item"
        database.run(f"CREATE TABLE named AS SELECT item FROM met ORDER BY {order}", "numbering labels", in_order=True)
        database.run("CREATE VIEW labels AS SELECT item, rowid AS id FROM named")
        if self.strings is None and not self.descending and whole and count and last != count - 1:
            what = f"the items of all files are {count:,} whole numbers from {least} to {last}"
            rule = "each a label of its own, as string_ids=True says"
            note(path, f"{what}, {rule}; num_labels=L alone makes them label ids from 0 to L - 1.")
        if self.descending and self.num_labels is not None and whole and count:
            hint = "string_ids=False takes whole numbers as label ids."
            note(path, f"items of TREC are names, also with num_labels; {hint}")
        return self._named(path, database.names("SELECT item FROM named ORDER BY rowid", self.descending))

    def _check_whole(self, database: Database, path: FilePath, is_whole: str) -> None:
        wrong = database.row(f"SELECT item FROM met WHERE NOT {is_whole} ORDER BY item LIMIT 1")
        if wrong is not None:
            hint = (
                "leave num_labels out, so that items are numbered as names, or say string_ids=True."
                if self.strings is None
                else "leave string_ids out, so that items are numbered as names."
            )
            if self.matrix is not None:
                hint = COLUMNS_HINT.format(self.matrix)
            raise DataFileError(path, f"the item {wrong[0]!r} in it or beside it is not a whole number", hint=hint)

    def _named(self, path: FilePath, names: Sequence[str]) -> Labels:
        if self.num_labels is not None and self.num_labels < len(names):
            hint = f"pass num_labels={len(names)} or more, or leave num_labels out."
            raise DataFileError(path, f"there are {len(names)} names for {self.num_labels} labels", hint=hint)
        num_labels = self.num_labels or len(names)
        return Labels(names, num_labels, num_labels)


@dataclass(frozen=True, eq=False)
class Labels:
    """The label ids of all files.

    Attributes:
        names: Names in the order of the ids; None if items are numbers.
        declared: Number of labels; None if only the largest id in the files is known.
        width: Number of columns that is enough for every id in the files.
    """

    names: Sequence[str] | None
    declared: int | None
    width: int


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

    whole = pc.all(pc.match_substring_regex(names.column, f"^({WHOLE})$")).as_py()
    order = pc.sort_indices(names.column.cast(pa.int64()) if whole else names.column).to_numpy()
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

    def add(self, files: Source | KeyedFile) -> None:
        """Add the items of lines, or the string ids of rows."""
        if isinstance(files, KeyedFile):
            self._paths.append(files.name)
            files.load(self._database, "lines")
            self._add("item", "lines WHERE item IS NOT NULL")
            self._database.run("DROP TABLE lines")
            return
        for names in (names for one in files.files for names in one.distinct_names()):
            self.add_more(names, files.path)

    def add_more(self, names: Any, source: FilePath) -> None:
        """Add names from a file or from another source of names, such as label counts."""
        import pyarrow as pa

        if source not in self._paths[-1:]:
            self._paths.append(source)
        self._add("name", "given", given=pa.table({"name": names}))

    def _add(self, column: str, source: str, **arrow: Any) -> None:
        self._database.run(f"INSERT INTO held SELECT DISTINCT {column}, {len(self._paths) - 1} FROM {source}", **arrow)

    def ordered(self, rule: LabelRule, as_written: bool) -> Sequence[str] | None:
        """Return the names in the order of their label ids; None if there are no names.

        Args:
            rule: The rule by which names become label ids.
            as_written: Whether two spellings of a number, such as 7 and 007, are different names.
        """
        self._database.run("CREATE TABLE each AS SELECT DISTINCT name, file FROM held")
        check_agreement(self._database, "each", "label", self._paths, as_written)
        self._database.run("CREATE TABLE met AS SELECT DISTINCT name AS item FROM each")
        return rule.number(self._database, self._paths[0]).names or None


def number_strings(
    sources: Sequence[Source], label_names: Sequence[str] | None, as_names: bool, memory: str
) -> Sequence[str] | None:
    """Return the label names, and set in each file with string ids the numbering of the names.

    Args:
        sources: The files.
        label_names: Names of the labels in the order of their ids; None to collect them from the files.
        as_names: Whether whole numbers are names, too.
        memory: As for :func:`read`.

    Raises:
        DataFileError: If one file has names and another has numbers.
        ValueError: If ``label_names`` repeats a name.
    """
    for source in sources if as_names else ():
        if not source.string_ids:
            source.read_as_names()
    written = [source for source in sources if source.string_ids]
    if not written:
        return label_names
    if label_names is None:
        if len(written) < len(sources):
            other = next(source for source in sources if not source.string_ids)
            problem = f"has strings for label ids, but {other.path} has numbers"
            raise DataFileError(written[0].path, problem, hint=numbers_hint(other))
        gathered = NameGathering(memory)
        for source in written:
            gathered.add(source)
        label_names = gathered.ordered(LabelRule(None, True, None, False), as_names) or ()
    numbering = {name: place for place, name in enumerate(label_names)}
    if len(numbering) < len(label_names):
        raise ValueError(f"label_names: {len(label_names) - len(numbering)} names are repeated; pass each once.")
    for source in written:
        for file in (source, *source.files):
            file.numbering, file.label_names = numbering, label_names
    return label_names


# -- counts ---------------------------------------------------------------------------------------------------------


FORMS_OF_TABLES = ("csv", "tsv")
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
            ``.tsv`` with the columns ``label`` and ``count`` (a missing label has the count 0), or ``count`` alone. If
            two columns have other names, the column of whole numbers is the count. The file can be compressed
            (``.gz``, ``.bz2``, ``.zst``).
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
    elif suffix in ("txt", *FORMS_OF_TABLES):
        with reading(path, "text"):
            counts = _counted(path, num_labels, label_names, columns or Columns())
    else:
        raise DataFileError(path, "is of no format for label counts", hint="use .npy, .pt, .txt, .csv or .tsv.")
    wrong = (counts < 0) | (counts > LARGEST)
    if wrong.any():
        index = int(wrong.argmax())
        raise DataFileError(path, f"holds the count {counts[index]}", f"label {index}", HINT)
    if num_labels is not None and len(counts) != num_labels:
        problem = f"holds the counts of {len(counts)} labels, but there are {num_labels}"
        raise DataFileError(path, problem, hint="counts and data must number the same labels.")
    return torch.from_numpy(counts.astype(np.int64))


def counted_names(path: str | FilePath, columns: Columns) -> set[str] | None:
    """Return the labels named in a file of counts; None if it holds counts alone, in the order of the label ids."""
    path = check_file(path)
    if suffix_of(path) not in FORMS_OF_TABLES:
        return None
    with reading(path, "text"):
        names = {name for _, name, _ in _entries(path, columns)}
    return None if names <= {None} else {str(name) for name in names}


def _array(path: FilePath, suffix: str) -> Array:
    plain = Plain(path)
    with reading(path, f"a .{suffix} array"):
        if suffix == "npy":
            counts = np.load(plain.path, allow_pickle=False)
        else:
            counts = torch.load(plain.path, "cpu", weights_only=True)
        counts = counts.numpy() if isinstance(counts, Tensor) else counts
    held = f"{counts.dtype} {list(counts.shape)}" if isinstance(counts, np.ndarray) else type(counts).__name__
    if not isinstance(counts, np.ndarray) or counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise DataFileError(path, f"holds {held}", hint=HINT)
    return counts


def _entries(path: FilePath, columns: Columns) -> Iterator[tuple[int, str | None, str]]:
    """Yield line number, label and count of each line; the label is None in a file that holds counts alone."""
    suffix = suffix_of(path)
    if suffix == "txt":
        yield from ((number, None, text) for number, text in numbered_lines(path))
        return
    table = Table.of(Opening(path, None, columns), suffix)
    label, count = choose_counts(table.look, columns, bool(table.skipped))
    for number, fields in table.records():
        found = dict(zip(table.look.names, fields, strict=True))
        yield number, found.get(label), found[count]


def _counted(path: FilePath, num_labels: int | None, names: Sequence[str] | None, columns: Columns) -> Array:
    """Return counts in the order of the label ids; a label that the file leaves out has the count 0."""
    ids = None if names is None else {name: place for place, name in enumerate(names)}
    counts: dict[int, int] = {}
    are_named = False
    for line, name, text in _entries(path, columns):
        label, where = len(counts), f"line {line}"
        if name is not None:
            are_named = True
            if ids is not None and name not in ids:
                raise DataFileError(path, f"unknown label {name!r}", where, UNKNOWN_HINT)
            label = parse_int64(path, "label", name, line) if ids is None else ids[name]
            if label in counts:
                raise DataFileError(path, f"counts the label {label} twice", where, "add its counts up.")
            if label < 0 or (num_labels is not None and label >= num_labels):
                last = "" if num_labels is None else num_labels - 1
                raise DataFileError(path, f"counts the label {label}", where, f"label ids run from 0 to {last}.")
        counts[label] = parse_int64(path, "count", text, line)
    size = num_labels if are_named and num_labels is not None else max(counts, default=-1) + 1
    ordered = np.zeros(size, dtype=np.int64)
    ordered[list(counts)] = list(counts.values())
    return ordered


# -- trees of labels --------------------------------------------------------------------------------------------------


COLUMNS = ("child", "parent")
"""The columns of the file. Without their names nothing would tell which is which."""


def read_edges(path: str | FilePath) -> list[tuple[str, str]]:
    """Return the pairs of child and parent of a .csv or .tsv file; an empty parent makes the child a root.

    Raises:
        DataFileError: If the file is missing or damaged, or its first line does not name the columns.
    """
    file = check_file(path)
    hint = "write a line 'child,parent', and under it the name or id of each label and of its parent."
    with reading(file, "text"):
        delimiter, quoted = ("\t", in_quotes(file)) if suffix_of(file) == "tsv" else (",", True)
        (_, names), *rows = records(every_line(file), delimiter, quoted)
    header = [name.lower() for name in names]
    if sorted(header) != sorted(COLUMNS):
        raise DataFileError(file, f"has the columns {', '.join(header) or 'of an empty file'}", hint=hint)
    child, parent = (header.index(name) for name in COLUMNS)
    for number, row in rows:
        if len(row) != len(COLUMNS):
            raise DataFileError(file, f"holds {len(row)} fields, not a child and its parent", f"line {number}", hint)
    return [(row[child], row[parent]) for _, row in rows]
