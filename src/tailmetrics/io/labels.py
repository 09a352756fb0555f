"""Labels of several files: agreement of their names, and the label ids of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.columns import names_in_words
from tailmetrics.io.database import Database, Names, arrow_names
from tailmetrics.io.files import DataFileError, FilePath
from tailmetrics.io.lines import LineFiles
from tailmetrics.io.lists import NUMBERS_HINT
from tailmetrics.io.rows import Source

WHOLE = "0|[1-9][0-9]{0,17}"
"""A whole number in its shortest spelling (7, not 07 or +7), within 64 bits."""
WRITTEN_ALIKE = r"regexp_replace(trim(name), '^0*([0-9]+)(\.0*)?$', '\1')"
"""SQL of a name with whole numbers in one spelling: 7 for 007, 7.0 and " 7 "."""
LABEL_NAMES = "label_names"
"""The argument that stands beside files in messages on names."""
SHOWN_NAMES = 2
"""Names of each file that an error shows."""


def check_named(path: FilePath, numbered: Sequence[Source]) -> None:
    """Raise if some files have label numbers, and the file at ``path`` has names."""
    if not numbered:
        return
    hint = (
        "if both mean the same labels, --string-ids true takes numbers for names, too."
    )
    if numbered[0].num_labels is not None:
        hint = NUMBERS_HINT
    raise DataFileError(
        path,
        f"has names of labels, but {numbered[0].path} has their numbers",
        hint=hint,
    )


def check_agreement(
    database: Database,
    table: str,
    word: str,
    paths: Sequence[FilePath],
    as_written: bool,
    in_memory: bool = False,
) -> None:
    """Raise if a file shares no name with the others, or spells a number differently.

    Args:
        database: The database.
        table: Its table (name, file) that holds each name of each file once.
        word: ``label`` or ``query``, for the message.
        paths: The files, by their numbers in the table.
        as_written: Whether two spellings of a number, such as 7 and 007, are different
            names.
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
    database: Database,
    table: str,
    word: str,
    paths: Sequence[FilePath],
    in_memory: bool = False,
) -> DataFileError | None:
    """Return the error about a file that shares no name with the others, or None."""
    counted = f"SELECT file, count(*) OVER (PARTITION BY name) AS files FROM {table}"
    alone = database.row(
        f"SELECT file FROM ({counted}) GROUP BY file HAVING max(files) = 1 ORDER BY "
        "file = 0, file LIMIT 1"
    )
    if alone is None:
        return None
    (file,) = alone
    facts = (
        f"file, min(name, {SHOWN_NAMES}), bool_and(regexp_full_match(name, '{WHOLE}'))"
    )
    rows = database.rows(
        f"SELECT {facts} FROM {table} GROUP BY file ORDER BY file <> {file}, "
        "file LIMIT 2"
    )
    if len(rows) < 2:
        return None
    (_, names, is_whole), (other_file, other_names, is_other_whole) = rows
    there, here = names_in_words(other_names), names_in_words(names)
    problem = (
        f"has no {word} in common with {paths[other_file].name}: {there} there, "
        f"{here} here"
    )
    hint = "check that the two files belong together."
    if word == "label" and is_whole and is_other_whole and not in_memory:
        hint += (
            " If they do and no prediction is right, --string-ids false reads labels "
            "as whole numbers."
        )
    elif str(paths[file]) == LABEL_NAMES and is_other_whole and not in_memory:
        hint = (
            "if the numbers are places among the names, from 0, --string-ids "
            "false says so."
        )
    return DataFileError(paths[file], problem, hint=hint)


def _check_written_alike(
    database: Database,
    table: str,
    word: str,
    paths: Sequence[FilePath],
    in_memory: bool,
) -> None:
    """Raise if files spell one number differently, such as 7 and 007.

    Two spellings in the same file are two names.
    """
    # most files hold no name with another spelling, and this query finds that out far
    # faster than grouping all names
    unusual = (
        "starts_with(name, '0') OR starts_with(name, ' ') OR ends_with(name, ' ') OR "
        "contains(name, '.')"
    )
    if (
        database.row(
            f"SELECT 1 FROM {table} WHERE ({unusual}) AND name <> "
            f"{WRITTEN_ALIKE} LIMIT 1"
        )
        is None
    ):
        return
    spellings = database.row(
        "SELECT arg_min(name, file), min(file), arg_max(name, file), max(file) FROM "
        f"{table} GROUP BY {WRITTEN_ALIKE} HAVING count(DISTINCT name) > 1 AND "
        "count(*) = count(DISTINCT file) ORDER BY 1 LIMIT 1"
    )
    if spellings is not None:
        there, first, here, last = spellings
        words = "queries"
        if word == "label":
            words = "labels"
        hint = "write both alike."
        if not in_memory:
            hint = f"write both alike; with --string-ids true they are two {words}."
        raise DataFileError(
            paths[last],
            f"has the {word} {here!r} where {paths[first]} has {there!r}",
            hint=hint,
        )


class NumberSource(NamedTuple):
    """What states the number of labels, for errors.

    Attributes:
        argument: The argument that is the number, or that holds an entry or a column
            for each label.
        file: The file of the argument; None for the number itself.
    """

    argument: str = "num_labels"
    file: str | None = None

    def clause(self, number: int) -> str:
        """Return what the option or the file states.

        A whole path would leave no room for the rest of the error.
        """
        if self.file is None:
            return f"--num-labels says {number}"
        return f"{PurePath(self.file).name} has {number}"


NUM_LABELS = NumberSource()
"""The argument ``num_labels`` itself."""


@dataclass(frozen=True)
class LabelRule:
    """The rule by which items become label ids.

    By default, items are names, which get consecutive ids. With ``num_labels`` or
    ``strings=False``, items are whole numbers, which are the label ids. The default
    avoids unused labels if ids have gaps, such as the ids of a part of a catalogue.

    Attributes:
        names: Names of all labels, in the order of their ids; None to find them in the
            files.
        strings: Whether items are names even if they look like numbers; None for the
            default above.
        num_labels: Number of labels; None to find it in the files.
        descending: Whether the last name wins ties, as in trec_eval; items are then
            names despite ``num_labels``.
        number_source: What states ``num_labels``.
    """

    names: Sequence[str] | None = None
    strings: bool | None = None
    num_labels: int | None = None
    descending: bool = False
    number_source: NumberSource = NUM_LABELS

    @property
    def by_number(self) -> bool:
        """Whether items are whole numbers and are themselves the label ids."""
        if self.names is not None or self.strings:
            return False
        return self.strings is False or (
            self.num_labels is not None and not self.descending
        )

    def assign_ids(self, database: Database, path: FilePath) -> Labels:
        """Make the table ``labels`` (item, id) from the distinct items in ``met``.

        Ids follow the ascending order of names (by their UTF-8 bytes; if all names are
        whole numbers, by value). If the last name wins ties, ids follow the descending
        order of the bytes.

        Raises:
            DataFileError: If an item must be a whole number but is not, or if there are
                more names than labels.
        """
        if self.names is not None:
            load_names(database, self.names)
            return self._named(path, self.names)
        is_whole = f"regexp_full_match(item, '{WHOLE}')"
        numbers = f"try_cast(CASE WHEN {is_whole} THEN item END AS BIGINT)"
        facts = (
            f"coalesce(bool_and({is_whole}), true), count(*), min({numbers}), "
            f"max({numbers})"
        )
        are_whole, count, least, last = database.row(f"SELECT {facts} FROM met")
        if self.by_number:
            self._check_whole(database, path, is_whole)
            database.run(
                "CREATE TABLE labels AS SELECT item, item::BIGINT AS id FROM met"
            )
            width = self.num_labels or 0
            if count:
                width = max(width, last + 1)
            return Labels(None, self.num_labels, width)

        order = "item"
        if self.descending:
            order = "item DESC"
        elif are_whole:
            order = "length(item), item"
        database.run(
            f"CREATE TABLE named AS SELECT item FROM met ORDER BY {order}",
            "numbering labels",
            in_order=True,
        )
        database.run("CREATE VIEW labels AS SELECT item, rowid AS id FROM named")
        notes: tuple[str, ...] = ()
        if (
            self.strings is None
            and not self.descending
            and are_whole
            and count
            and last != count - 1
        ):
            content = (
                f"the items of all files are {count:,} whole numbers from {least} "
                f"to {last}"
            )
            rule = "each a label of its own, as --string-ids true says"
            notes = (
                f"{path}: {content}, {rule}; --num-labels L alone makes them label "
                "ids from 0 to L - 1.",
            )
        if self.descending and self.num_labels is not None and are_whole and count:
            hint = "--string-ids false takes whole numbers as label ids."
            notes = (
                f"{path}: items of TREC are names, also with --num-labels; {hint}",
            )
        names = database.names("SELECT item FROM named ORDER BY rowid", self.descending)
        return self._named(path, names, notes)

    def _check_whole(self, database: Database, path: FilePath, is_whole: str) -> None:
        wrong = database.row(
            f"SELECT item FROM met WHERE NOT {is_whole} ORDER BY item LIMIT 1"
        )
        if wrong is None:
            return
        hint = "--string-ids true numbers the items as names."
        if self.strings is None:
            hint = (
                "leave --num-labels out, so that items are numbered as names, or say "
                "--string-ids true."
            )
        if self.number_source.argument == "label_counts":
            file = self.number_source.file
            hint = (
                f"{file} has counts by label id; write them as CSV with the columns "
                "label and count."
            )
        problem = f"the item {wrong[0]!r} in it or beside it is not a whole number"
        if re.fullmatch("[1-9][0-9]{18,}", wrong[0]):
            problem = (
                f"the item {wrong[0]!r} in it or beside it is too large for a label id"
            )
        raise DataFileError(path, problem, hint=hint)

    def _named(
        self, path: FilePath, names: Sequence[str], notes: tuple[str, ...] = ()
    ) -> Labels:
        if self.num_labels is not None and self.num_labels < len(names):
            hint = f"give --num-labels {len(names)} or more, or leave it out."
            raise DataFileError(
                path,
                f"there are {len(names)} names for {self.num_labels} labels",
                hint=hint,
            )
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
    """Write names into the table ``labels`` (item, id); ids are their positions.

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
    """Return label ids by ascending name, shape (L,), int64, or None.

    The order differs from that of the ids only if ids follow descending names;
    otherwise the result is None.

    If all names are whole numbers, they are sorted by value, otherwise by their UTF-8
    bytes, like the ids of formats in which the lower id wins ties. Labels without a
    name come last.
    """
    if not isinstance(names, Names) or not names.descending:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    column = names.column
    if pc.all(pc.match_substring_regex(column, f"^({WHOLE})$")).as_py():
        column = column.cast(pa.int64())
    order = pc.sort_indices(column).to_numpy()
    return torch.from_numpy(
        np.append(order.astype(np.int64), np.arange(len(names), num_labels))
    )


class NameGathering:
    """The label names of several files, gathered to be numbered together.

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
        self._database.run(
            (
                f"INSERT INTO held SELECT DISTINCT {column}, {len(self._paths) - 1} "
                f"FROM {source}"
            ),
            **arrow,
        )

    def ordered(
        self, rule: LabelRule, as_written: bool, in_memory: bool = False
    ) -> Labels:
        """Return the names in the order of their label ids.

        Args:
            rule: The rule by which names become label ids.
            as_written: Whether two spellings of a number, such as 7 and 007, are
                different names.
            in_memory: Whether tables in memory are read, which have no options.
        """
        self._database.run("CREATE TABLE each AS SELECT DISTINCT name, file FROM held")
        check_agreement(
            self._database, "each", "label", self._paths, as_written, in_memory
        )
        self._database.run("CREATE TABLE met AS SELECT DISTINCT name AS item FROM each")
        return rule.assign_ids(self._database, self._paths[0])


def read_alike(sources: Sequence[Source], strings: bool | None) -> None:
    """Read the labels of all files as names, or else as numbers where possible.

    Args:
        sources: The files.
        strings: Whether whole numbers are names, too; False if text is whole numbers;
            None if the files say it.
    """
    are_named = all(source.string_ids for source in sources)
    for source in sources:
        if strings and not source.string_ids:
            source.read_as_names()
        elif strings is False or not (strings or are_named):
            source.read_as_numbers()


def set_label_names(
    sources: Sequence[Source], rule: LabelRule, memory: str
) -> Sequence[str] | None:
    """Return the names of the labels, and set them in each file with string ids.

    Raises:
        DataFileError: If one file has names and another has numbers.
        ValueError: If ``label_names`` repeats a name.
    """
    label_names, strings = rule.names, rule.strings
    if strings is None and rule.num_labels is not None and label_names is None:
        strings = False
    if strings or label_names is None:
        read_alike(sources, strings)
    named_sources = [source for source in sources if source.string_ids]
    if not named_sources:
        return label_names
    if label_names is None:
        label_names = _names_in(sources, bool(strings), memory)

    numbering = {name: place for place, name in enumerate(label_names)}
    if len(numbering) < len(label_names):
        raise ValueError(
            f"label_names: {len(label_names) - len(numbering)} names are repeated; "
            "pass each once."
        )
    for source in named_sources:
        for file in (source, *source.files):
            file.numbering, file.label_names = numbering, label_names
    return label_names


def _names_in(sources: Sequence[Source], strings: bool, memory: str) -> Sequence[str]:
    """Return the names of the labels in all files, in the order of their ids.

    Raises:
        DataFileError: If one file has numbers.
    """
    named_sources = [source for source in sources if source.string_ids]
    check_named(
        named_sources[0].path, [source for source in sources if not source.string_ids]
    )
    gathering = NameGathering(memory)
    for source in named_sources:
        gathering.add(source)
    return gathering.ordered(LabelRule(strings=True), strings).names or ()
