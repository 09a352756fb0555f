"""The roles of the columns of a table.

Known names and the user's names decide; one error asks for the roles that are left.

A file, a frame or a list of objects gives the names of its columns and, where its
format declares them, their types. From these and the user's :class:`Columns`,
:func:`assign_roles` makes a :class:`TableReading`. It reads no cells.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from shlex import quote
from types import MappingProxyType
from typing import NamedTuple

from tailmetrics.io.files import DataFileError, FilePath
from tailmetrics.io.forms import COLUMN_ROLES, NONE, ORDER, SCORE_ROLES, Opening

ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "query": (
            "query",
            "query_id",
            "qid",
            "user",
            "user_id",
            "uid",
            "session",
            "session_id",
        ),
        "item": (
            "item",
            "item_id",
            "doc",
            "doc_id",
            "docno",
            "corpus_id",
            "passage_id",
            "movie_id",
        ),
        "score": ("score", "prediction", "probability", "similarity", "logit"),
        "rank": ("rank", "position"),
        "distance": ("distance", "dist"),
        "gain": ("gain", "grade", "relevance", "rel", "rating", "label"),
        "ids": ("ids", "recommendations", "predictions"),
        "labels": ("labels", "targets"),
    }
)
"""Role -> the names of columns with this role.

Case, ``-``, ``_``, blanks and what follows a colon do not count.
"""
ITEMS_IN_OBJECTS = ("label", "id")
"""Further names of the item inside of objects."""
GAINS_IN_LINES = ("score",)
"""Further names of the gain of a line, as BEIR has it; beside lists it is no gain."""
INDEX_NAMES = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
"""The names that columns with the index of a DataFrame have in files."""
SHOWN_COLUMNS = 8
"""Columns that an error names at most."""
SHOWN_ANSWERS = 4
"""Columns that a hint proposes at most for a role."""
UNQUOTED_SEPARATORS: Mapping[str, str] = MappingProxyType({"tsv": "\t"})
"""Format of text tables without quotes -> what separates their fields."""
TEXT_TABLES = ("csv", *UNQUOTED_SEPARATORS)
"""The formats of text tables, whose first line names the columns."""
CLAUSES: Mapping[str, str] = MappingProxyType(
    {
        "ids": "{!r} are the items of a row",
        "labels": "{!r} are the items of a row",
        "rank": "{!r} is the rank, least first",
        "distance": "{!r} is the distance, least first",
    }
)
"""Role -> what a reading says about its column, if not the name of the role."""
CLAUSES_WITHOUT_COLUMN = MappingProxyType(
    {("rank", ORDER): "best first", ("gain", NONE): "each is relevant"}
)
"""Role and what stands for its column -> what a reading says."""
LIST_DELIMITER = "list-delimiter"
"""The option with the separator of the entries of lists in text."""
NAME = "NAME"
"""What stands for the name of a column in a hint."""
LACK = "no column is"
"""The beginning of the problem of a role without a column."""
ALTERNATIVES: Mapping[str, str] = MappingProxyType(
    {
        "score": "(or .rank, .distance, --{columns}.rank order)",
        "gain": "(or --{columns}.gain none)",
    }
)
"""Role -> further options that answer a question about it."""
NAMES_IN_MEMORY = {"score": "score, rank or distance"}
"""Role -> the names that a hint proposes in memory, if not the name of the role."""


class Kind(Enum):
    """The type of the cells of a column, as far as the format declares it."""

    ANY = "text without a type"
    STRING = "text"
    WHOLE = "whole numbers"
    SINGLE = "numbers in single or half precision"
    DECIMAL = "decimal numbers"
    NUMBER = "other numbers"
    TIME = "times"
    TIME_IN_TEXT = "text, and each is a time"
    NULL = "nothing"
    LIST = "lists"
    OBJECTS = "lists of objects"
    OTHER = "another type"


NUMBERS = (Kind.WHOLE, Kind.SINGLE, Kind.DECIMAL, Kind.NUMBER)
TIMES = (Kind.TIME, Kind.TIME_IN_TEXT)
"""They are no gains."""
KEYS = (Kind.WHOLE, Kind.STRING, Kind.TIME_IN_TEXT)
"""What queries and items are."""


@dataclass(frozen=True)
class Column:
    """A column of a table, or a field of the objects in one.

    Attributes:
        name: The name.
        kind: The type of the cells.
        entries: The type of the entries of lists; None for a column without lists.
        fields: The fields of the objects in lists.
        type: The type in words of the format, for errors alone.
    """

    name: str
    kind: Kind = Kind.ANY
    entries: Kind | None = None
    fields: tuple[Column, ...] = ()
    type: str = ""

    @property
    def is_list(self) -> bool:
        """Whether the format declares that a cell is a list."""
        return self.kind in (Kind.LIST, Kind.OBJECTS)

    @property
    def content(self) -> Kind:
        """The type of the entries of lists, or else of the cells."""
        return self.entries or self.kind

    @property
    def is_numeric(self) -> bool:
        """Whether the cells, or the entries of lists, may be numbers."""
        return self.content in (Kind.ANY, *NUMBERS)


@dataclass(frozen=True, kw_only=True)
class TableReading:
    """How a file or a table is read.

    Attributes:
        opening: The file, and what the user says about it.
        query: Columns of the query; empty if row i of one file belongs to row i of the
            other.
        item: Column of the item, or of the lists; inside of objects the field of the
            item. Empty without columns.
        value: Column of the score, rank, distance or gain; None without such a column.
        value_role: ``score``, ``rank``, ``distance``, ``gain``, or ``order`` for the
            order of lines or of lists.
        second_order: Another column with a rank or distance, which must not contradict
            the value; None without one.
        is_listed: Whether each row holds a list.
        within: Column of the lists whose objects hold the item; empty without objects.
        unread: The columns without a role.
        possible_queries: The unread columns of text or whole numbers, which may hold
            queries.
        content: The content of a file whose format has no columns, in words.
    """

    opening: Opening
    query: tuple[str, ...] = ()
    item: str = ""
    value: str | None = None
    value_role: str = ""
    second_order: str | None = None
    is_listed: bool = False
    within: str = ""
    unread: tuple[str, ...] = ()
    possible_queries: tuple[str, ...] = ()
    content: str = ""

    @property
    def least_first(self) -> bool:
        """Whether the least value is the best."""
        return self.value_role in ("rank", "distance")

    @property
    def sign(self) -> str:
        """The sign that makes the highest value best: ``-`` for ranks and distances."""
        if self.least_first:
            return "-"
        return ""

    @property
    def key(self) -> str | None:
        """The names of the query columns, joined by commas; None without one."""
        return ",".join(self.query) or None

    @property
    def columns(self) -> list[str]:
        """The columns that are read, each once."""
        names = (*self.query, self.item, self.value, self.second_order)
        return list(dict.fromkeys(name for name in names if name is not None))

    def cell(self, columns: Sequence[Column], name: str) -> Column:
        """Return the column of an item or a value, or the field of objects in lists."""
        if self.within:
            columns = _named(columns, self.within).fields
        return _named(columns, name)

    def has_single_precision(self, columns: Sequence[Column]) -> bool:
        """Whether the value is a number in single or half precision.

        If so, thresholds are rounded to single precision, too.
        """
        return (
            self.value is not None
            and self.cell(columns, self.value).content is Kind.SINGLE
        )

    def is_named(self, role: str) -> bool:
        """Whether the user names the column of a role, or says that there is none."""
        return bool(
            getattr(self.opening.columns, role) == self._names().get(role, NONE)
        )

    def check_names(self) -> None:
        """Raise if the user names columns of a file whose format has none.

        A query or an item that is named for all files may be in other files alone.

        Raises:
            DataFileError: Naming the option.
        """
        if self.item or self.opening.role == "pairs":
            return
        roles = COLUMN_ROLES[self.opening.role]
        accepted = {"query": NONE, **self._names()}
        if not self.value_role:
            accepted |= {"rank": ORDER, "gain": NONE}
        for role, name in self.opening.columns.names().items():
            if (
                role not in roles
                or role in self.opening.shared_roles
                or accepted.get(role) == name
            ):
                continue
            problem = f"is {self}, which has no column {name!r}"
            option = self.opening.option_of(role)
            hint = f"leave {option} out"
            if option == "--columns.gain":
                hint += ", or name it for the other files alone"
            if self.opening.role == "preds" and self.value_role in SCORE_ROLES:
                hint += f"; its number is called {self.opening.number_name!r}"
            raise DataFileError(self.opening.path, problem, hint=f"{hint}.")

    def contradiction_hint(self) -> str:
        """Return the remedy for a second column that contradicts the value."""
        if self.opening.in_memory:
            return f"drop {self.value!r} or {self.second_order!r}"
        second_role = "rank"
        if is_known(str(self.second_order), ALIASES["distance"], with_plurals=True):
            second_role = "distance"
        return _options(
            "columns",
            {self.value_role: str(self.value), second_role: str(self.second_order)},
        )

    def rising_hint(self, role: str) -> str:
        """Return the remedy for scores that look like values of another role."""
        if self.opening.in_memory:
            return (
                f"rename {self.value!r} to {role!r}; of scores the highest comes first"
            )
        return _options("columns", {role: str(self.value), "score": str(self.value)})

    def run_hint(self) -> str:
        """Return the remedy for a run without columns whose scores are ranks."""
        if self.opening.in_memory:
            return "pass their negative"
        return (
            f"--{self.opening.own_option('columns')}.rank "
            f"{self.opening.number_name} says so"
        )

    def __str__(self) -> str:
        form = self.opening.form
        if not self.item:
            return f"{form}: {self.content}"
        if form in TEXT_TABLES and self.opening.columns.by_place:
            form += " without a line of names"

        clauses = []
        for role, name in self._names().items():
            clause = CLAUSES.get(role, f"{{!r}} is the {role}").format(name)
            clauses.append(CLAUSES_WITHOUT_COLUMN.get((role, name), clause))
        text = f"{form}: {', '.join(clauses)}"
        unread = [
            name for name in self.unread if name not in self.opening.forms.extra_columns
        ]
        if unread:
            text += f"; not read: {names_in_words(unread)}"
        return text

    @property
    def options(self) -> str:
        """The options that read a file like this, whatever its column names."""
        opening = self.opening
        words = [f"--{opening.own_option('format')} {opening.form}"]
        if opening.delimiter is not None:
            words.append(
                f"--{opening.own_option('delimiter')} {quote(opening.delimiter)}"
            )
        if self.is_listed and opening.list_delimiter is not None:
            words.append(
                f"--{opening.own_option(LIST_DELIMITER)} "
                f"{quote(opening.list_delimiter)}"
            )
        for role, name in self._names().items():
            words.append(_options(opening.own_option("columns"), {role: name}))
        return " ".join(words)

    def _names(self) -> dict[str, str]:
        """Return the names of the columns by role, as the user could give them."""
        names: dict[str, str] = {}
        if not self.item:
            if self.value_role in SCORE_ROLES:
                names[self.value_role] = self.opening.number_name
            return names
        if self.key is not None:
            names["query"] = self.key
        if self.is_listed:
            names[self.opening.list_role] = self.within or self.item
        if self.within or not self.is_listed:
            names["item"] = self.item

        if self.value is not None:
            names[self.value_role] = self.value
        elif self.value_role == ORDER:
            names["rank"] = ORDER
        elif self.opening.role != "pairs":
            names["gain"] = NONE
        return names

    @property
    def sentence(self) -> str:
        """The file, and how it is read."""
        return f"{self.opening.path}: {self}"


def check_keys(
    path: FilePath, reading: TableReading, columns: Sequence[Column]
) -> Kind:
    """Return the type of the items, and check the types of queries and items.

    Queries and items must be whole numbers or text.

    Raises:
        DataFileError: Naming the column and its type.
    """
    queries = [_named(columns, name) for name in reading.query]
    item = reading.cell(columns, reading.item)
    for column in (*queries, item):
        is_listed = reading.is_listed and column is item
        kind = column.kind
        if is_listed:
            kind = column.content
        if kind in (*KEYS, Kind.NULL) or (not is_listed and kind is Kind.DECIMAL):
            continue
        hint = f"queries and items are whole numbers or text: {_conversion(column)}."
        if column.is_list and not is_listed:
            hint = "a list of items is named by --columns.ids or --columns.labels."
        raise DataFileError(
            path, f"its column {column.name!r} is {column.type}", hint=hint
        )
    return kind


def _conversion(column: Column) -> str:
    """Return the remedy for a column of neither whole numbers nor text."""
    if column.content not in (*NUMBERS, *TIMES):
        return "nested lists and objects need a conversion"
    cast, entry_type = "str", "str"
    if column.content in NUMBERS and "bool" not in column.type:
        cast, entry_type = "int64", "int"
    if column.is_list:
        return (
            f"table[{column.name!r}].map(lambda items: list(map({entry_type}, items)))"
        )
    return f"table.astype({{{column.name!r}: {cast!r}}})"


def _named(columns: Iterable[Column], name: str) -> Column:
    """Return the column with a name."""
    return next(column for column in columns if column.name == name)


def check_value(
    path: FilePath, reading: TableReading, columns: Sequence[Column]
) -> None:
    """Raise if scores, ranks, distances or gains are no numbers.

    Raises:
        DataFileError: Naming the column and its type.
    """
    if reading.value is None:
        return
    column = reading.cell(columns, reading.value)
    if column.content not in (*NUMBERS, Kind.NULL):
        hint = (
            "scores, ranks and gains are numbers, one for each item; grades in words "
            "need them: "
        )
        hint += "table[NAME].map({'no': 0, 'yes': 1})."
        raise DataFileError(
            path, f"its column {column.name!r} is {column.type}", hint=hint
        )


def _options(option: str, names: Mapping[str, str]) -> str:
    """Return the options that give columns their roles, joined by "or"."""
    return " or ".join(
        f"--{option}.{role} {quote(name)}" for role, name in names.items()
    )


# -- what is open ----------------------------------------------------------------------


class Question(NamedTuple):
    """A question to the user about the role of a column.

    Attributes:
        role: The role that no column has for certain.
        problem: The problem, in words.
        names: The columns that may have the role.
        alternative: Further options that answer the question, with ``{columns}`` for
            the option of the file.
    """

    role: str
    problem: str
    names: Sequence[str]
    alternative: str = ""

    def options(self, option: str) -> str:
        """Return the options of the command line that answer the question."""
        alternative = self.alternative.format(columns=option)
        answers = " or ".join(
            _options(option, {self.role: name}) for name in self.names
        )
        return f"{answers} {alternative}".strip()


class ColumnError(DataFileError):
    """The roles of the columns of a file are not certain.

    Attributes:
        opening: The file.
        columns: The columns of this file.
        questions: All questions about this file.
    """

    def __init__(
        self,
        opening: Opening,
        columns: Sequence[str],
        questions: Sequence[Question],
        is_alone: bool = True,
    ) -> None:
        self.opening = opening
        self.columns = columns
        self.questions = questions
        problem = f"{_problems(questions)}; its columns are {names_in_words(columns)}"
        if opening.in_memory:
            names = [
                NAMES_IN_MEMORY.get(question.role, question.role)
                for question in questions
            ]
            hint = (
                f"name one column {', one '.join(names)}, and drop the other columns "
                "that may be it"
            )
        else:
            hint = _hint(opening, questions, is_alone, len(columns))
        super().__init__(opening.path, problem, "", hint)

    def with_options_of_this_file(self) -> ColumnError:
        """Return this error with options for its file alone.

        Options for all files would also affect files that need none.
        """
        return ColumnError(self.opening, self.columns, self.questions, is_alone=False)


def _problems(questions: Sequence[Question]) -> str:
    """Return the problems in a sentence.

    After the first role without a column, "no column is" becomes "none is".
    """
    texts: list[str] = []
    beginning = LACK
    for question in questions:
        text = question.problem
        if text.startswith(LACK):
            text = beginning + text.removeprefix(LACK)
            beginning = "none is"
        texts.append(text)
    return ", ".join(texts)


def _hint(
    opening: Opening, questions: Sequence[Question], is_alone: bool, num_columns: int
) -> str:
    """Return the options of the command line that answer all questions about a file."""
    roles = {question.role for question in questions}
    lacking = {question.role for question in questions if NAME in question.names}
    is_one_column = num_columns == 1
    may_lack_names = (
        opening.form in TEXT_TABLES
        and not is_one_column
        and lacking >= {"query", "item"}
        and not opening.columns.by_place
    )
    option = "columns"
    if (
        not is_alone
        or may_lack_names  # the places of one file are not those of another
        or opening.role == "train"
        or opening.forms.has_train_target
        or opening.shared_roles & roles
    ):
        option = opening.own_option("columns")
    separator = " "
    if any(len(question.names) > 1 for question in questions):
        separator = ", and "
    hint = separator.join(question.options(option) for question in questions)

    if opening.form in TEXT_TABLES and is_one_column:
        return (
            f"--{opening.own_option('delimiter')} C, what separates its fields; {hint}"
        )
    if may_lack_names:
        formats = f"--{opening.own_option('format')} trec, msmarco or xmc"
        hint += f"; without a line of names: places from 0 for {NAME}, or {formats}"
    return hint


def names_in_words(names: Iterable[str], separator: str = ", ") -> str:
    """Return the names of columns, the first few of many.

    >>> names_in_words(["a", "b"])
    "'a', 'b'"
    """
    texts = [repr(name) for name in names]
    text = separator.join(texts[:SHOWN_COLUMNS]) or "none"
    if len(texts) > SHOWN_COLUMNS:
        text += f" and {len(texts) - SHOWN_COLUMNS:,} more"
    return text


# -- names -----------------------------------------------------------------------------


def normalised(name: str) -> str:
    """Return a name in the spelling in which names are compared.

    >>> normalised("User-ID:token")
    'userid'
    """
    return re.sub(r"[-_ ]", "", name.partition(":")[0].lower())


def is_known(name: str, aliases: Iterable[str], with_plurals: bool = False) -> bool:
    """Whether a name is among ``aliases``, or, with plurals, one of them plus ``s``."""
    return bool(names_among([name], aliases, with_plurals))


def names_among(
    names: Iterable[str], aliases: Iterable[str], with_plurals: bool = False
) -> list[str]:
    """Return the names that are among ``aliases``, or among their plurals."""
    spellings = set(map(normalised, aliases))
    if with_plurals:
        spellings |= {f"{spelling}s" for spelling in spellings}
    return [name for name in names if normalised(name) in spellings]


def has_known_names(names: Iterable[str]) -> bool:
    """Whether any of the names has a role."""
    return bool(names_among(names, chain.from_iterable(ALIASES.values())))


# -- roles -----------------------------------------------------------------------------


def assign_roles(opening: Opening, table: Sequence[Column]) -> TableReading:
    """Return the reading of a table: which column has which role.

    Args:
        opening: The file, its role and the user's names of columns.
        table: The columns of the table.

    Raises:
        ColumnError: If the user names a column that is not there, or a role has no
            column, or several.
    """
    search = _Search(opening, table)
    if search.holds_lists():
        reading = search.reading_of_lists()
    else:
        reading = search.reading_of_lines()

    names = {*reading.query, reading.item, reading.value, reading.within}
    unread = _without(table, names)
    possible_queries = tuple(
        column.name for column in unread if search.may_be_query(column)
    )
    if search.questions and reading.is_listed and possible_queries:
        search.ask_for_query_of_lists(reading.query)
    if search.questions:
        raise ColumnError(opening, [column.name for column in table], search.questions)
    return replace(
        reading,
        unread=tuple(column.name for column in unread),
        possible_queries=possible_queries,
    )


class _Search:
    """The search for the columns of one table by role.

    Attributes:
        questions: The questions that the names leave.
    """

    def __init__(self, opening: Opening, table: Sequence[Column]) -> None:
        self.questions: list[Question] = []
        self._opening = opening
        self._user_names = opening.columns
        self._table = table
        self._names = [column.name for column in table]
        self._scalars = [column for column in table if not column.is_list]
        self._lists = [column for column in table if column.is_list]
        self._items = self._known_keys("item")
        self._is_text = opening.form in TEXT_TABLES

    def holds_lists(self) -> bool:
        """Whether rows hold lists: by the user's names, else by type and name."""
        if self._opening.role == "pairs":
            return False
        if getattr(self._user_names, self._opening.list_role) is not None:
            return True
        if any(column.name == self._user_names.item for column in self._scalars):
            return False
        return bool(self._known_lists()) or (bool(self._lists) and not self._items)

    def reading_of_lines(self) -> TableReading:
        """Return the reading of a table with an item in each line."""
        query = self._query_columns(
            self._opening.role != "train" and not self._opening.forms.is_numbered
        )
        item = self._column("item", self._names, self._items)
        reading = TableReading(opening=self._opening, query=query, item=item)
        candidates = _without(self._scalars, {*query, item})
        if self._opening.role == "preds":
            return self._with_score(reading, candidates)
        if self._opening.role == "pairs":
            return reading
        aliases = (*ALIASES["gain"], *GAINS_IN_LINES)
        return self._with_gain(
            reading, candidates, _without(self._table, {*query, item}), aliases
        )

    def reading_of_lists(self) -> TableReading:
        """Return the reading of a table with lists."""
        query = self._query_columns(is_needed=False)
        name = self._list_column()
        for column in self._lists:
            if column.name == name and column.kind is Kind.OBJECTS:
                return self._reading_of_objects(query, column)

        reading = TableReading(
            opening=self._opening, query=query, item=name, is_listed=True
        )
        lists = [
            column
            for column in self._table
            if self._is_text or column.kind is Kind.LIST
        ]
        candidates = _without(lists, {*query, name})
        if self._opening.role == "preds":
            reading = self._with_score(reading, candidates)
        else:
            reading = self._with_gain(reading, candidates, candidates, ALIASES["gain"])
        if name and self._is_text and self._opening.list_delimiter is None:
            problem = f"{name!r} holds lists, and nothing says what separates them"
            option = self._opening.own_option(LIST_DELIMITER)
            self.questions.append(Question("", problem, (), f"--{option} C"))
        return reading

    def _reading_of_objects(
        self, query: tuple[str, ...], column: Column
    ) -> TableReading:
        """Return the reading of lists of objects like ``{"item": 7, "score": 0.5}``."""
        names = [part.name for part in column.fields]
        item = self._column(
            "item",
            names,
            self._known(column.fields, (*ALIASES["item"], *ITEMS_IN_OBJECTS)),
        )
        reading = TableReading(
            opening=self._opening,
            query=query,
            item=item,
            is_listed=True,
            within=column.name,
        )
        candidates = _without(column.fields, {item})
        if self._opening.role == "preds":
            return self._with_score(reading, candidates)
        return self._with_gain(reading, candidates, candidates, ALIASES["gain"])

    def may_be_query(self, column: Column) -> bool:
        """Whether a column may hold queries, which are text or whole numbers."""
        return column.kind in (Kind.ANY, *KEYS) and not self._is_explained(column)

    def ask_for_query_of_lists(self, query: Sequence[str]) -> None:
        """Ask for the query of lists, too, if there are other questions.

        Lists may go without a query: row i then belongs to row i.
        """
        is_asked = any(question.role == "query" for question in self.questions)
        if (
            query
            or is_asked
            or self._user_names.query == NONE
            or self._opening.role == "train"
        ):
            return
        alternative = "(or --columns.query none, row i with row i)"
        self.questions.append(
            Question("query", f"{LACK} the query", (NAME,), alternative)
        )

    def _is_explained(self, column: Column) -> bool:
        """Whether a column has another use, or is the index of a DataFrame."""
        return (
            column.name in self._opening.forms.extra_columns
            or INDEX_NAMES.fullmatch(column.name) is not None
        )

    def _known(
        self,
        columns: Iterable[Column],
        aliases: Sequence[str],
        with_plurals: bool = False,
    ) -> list[str]:
        """Return the names among ``aliases``, of the columns without another use."""
        names = [column.name for column in columns if not self._is_explained(column)]
        return names_among(names, aliases, with_plurals)

    def _known_keys(self, role: str) -> list[str]:
        """Return the columns that may be the query or the item.

        Columns with another use count only if there is no other column.
        """
        known_names = self._known(self._scalars, ALIASES[role])
        if known_names:
            return known_names
        extra_columns = [
            name for name in self._opening.forms.extra_columns if name in self._names
        ]
        return names_among(extra_columns, ALIASES[role])

    def _known_lists(self) -> list[str]:
        """Return the lists with a known name."""
        role = self._opening.list_role
        if self._is_text:
            return self._known(self._table, (role,))
        return self._known(
            self._lists, (*ALIASES[role], *ALIASES["item"]), with_plurals=True
        )

    def _strays(self, columns: Iterable[Column]) -> list[str]:
        """Return the columns that may hold a value.

        No value are columns with another use, lists of the other kind of file, and
        queries that are not to be read.
        """
        other_lists = ALIASES["labels"]
        if self._opening.role != "preds":
            other_lists = ALIASES["ids"]
        strays = []
        for column in columns:
            is_other_list = column.is_list and is_known(column.name, other_lists)
            is_query = self._user_names.query == NONE and is_known(
                column.name, ALIASES["query"]
            )
            if not (self._is_explained(column) or is_other_list or is_query):
                strays.append(column.name)
        return strays

    def _query_columns(self, is_needed: bool) -> tuple[str, ...]:
        """Return the columns of the query; none if rows are numbered."""
        name = self._user_names.query
        if name == NONE and not is_needed:
            return ()
        if name is not None and name not in self._names:
            parts = tuple(part.strip() for part in name.split(","))
            if all(part in self._names for part in parts):
                return parts
        query = self._column("query", self._names, self._known_keys("query"), is_needed)
        if not query:
            return ()
        return (query,)

    def _list_column(self) -> str:
        """Return the name of the column of lists."""
        role = self._opening.list_role
        matches = self._known_lists()
        if not (matches and self._items) or getattr(self._user_names, role) is not None:
            return self._column(role, self._names, matches)
        columns = names_in_words([*matches, *self._items], " and ")
        problem = f"{columns} could each be the item"
        self.questions.append(
            Question(role, problem, matches, "(or --{columns}.item NAME)")
        )
        return ""

    def _column(
        self,
        role: str,
        names: Sequence[str],
        matches: Sequence[str],
        is_needed: bool = True,
    ) -> str:
        """Return the name of the column of a role; empty if none or several may be it.

        Args:
            role: The role.
            names: The names among which the user's must be.
            matches: The known names among them.
            is_needed: Whether the role needs a column.
        """
        name = getattr(self._user_names, role)
        if name in names:
            return str(name)
        if name not in (None, NONE) and role not in self._opening.shared_roles:
            self._ask_for(role, f"there is no column {name!r}")
        elif matches:
            return self._only(role, matches)
        elif is_needed:
            self._ask_for(role, f"{LACK} the {role}")
        return ""

    def _only(self, role: str, matches: Sequence[str]) -> str:
        """Return the only column that may have a role; ask which of several has it."""
        if len(matches) == 1:
            return matches[0]
        if len(set(matches)) == 1:
            hint = "give every column a name of its own."
            raise DataFileError(
                self._opening.path,
                f"has {len(matches)} columns {matches[0]!r}",
                hint=hint,
            )
        problem = f"{names_in_words(matches, ' and ')} could each be the {role}"
        self.questions.append(Question(role, problem, matches[:SHOWN_ANSWERS]))
        return ""

    def _with_score(
        self, reading: TableReading, candidates: Sequence[Column]
    ) -> TableReading:
        """Return a reading with the candidate that is the score, rank or distance."""
        names = [column.name for column in candidates]
        for role in SCORE_ROLES:
            name = getattr(self._user_names, role)
            if (role, name) == ("rank", ORDER):
                return replace(reading, value_role=ORDER)
            if name is not None:
                return replace(
                    reading, value=self._column(role, names, ()), value_role=role
                )

        with_plurals = reading.is_listed and not reading.within
        for role in SCORE_ROLES:
            matches = self._known(candidates, ALIASES[role], with_plurals)
            if matches:
                value = self._only(role, matches)
                others = [
                    column
                    for column in _without(candidates, {value})
                    if column.is_numeric
                ]
                orders = self._known(
                    others, (*ALIASES["rank"], *ALIASES["distance"]), with_plurals
                )
                return replace(
                    reading,
                    value=value,
                    value_role=role,
                    second_order=next(iter(orders), None),
                )

        if reading.is_listed:
            self._ask_about("score", candidates)
        else:
            self._ask_for("score", f"{LACK} the score, rank or distance")
        return replace(reading, value_role=ORDER)

    def _with_gain(
        self,
        reading: TableReading,
        candidates: Sequence[Column],
        others: Sequence[Column],
        aliases: Sequence[str],
    ) -> TableReading:
        """Return a reading with the candidate that is the gain.

        Without such a candidate, ask about the other columns.
        """
        if self._user_names.gain == NONE:
            return reading
        names = [column.name for column in candidates]
        matches = self._known(
            candidates, aliases, with_plurals=reading.is_listed and not reading.within
        )
        if matches or self._user_names.gain is not None:
            return replace(
                reading, value=self._column("gain", names, matches), value_role="gain"
            )
        self._ask_about("gain", others)
        return reading

    def _ask_about(self, role: str, columns: Sequence[Column]) -> None:
        """Ask whether a column has a role, or counts for nothing."""
        strays = self._strays(columns)
        names = self._strays(
            column for column in columns if role == "gain" or column.is_numeric
        )
        lacking = sum(NAME in question.names for question in self.questions)
        if not names or len(strays) <= lacking:
            return
        if lacking:  # a stray may be what is lacking
            self._ask_for(role, f"{LACK} the {role}")
            return
        problem = (
            f"{names_in_words(names, ' and ')} may be the {role} of each item, or "
            "nothing that counts"
        )
        alternative = ALTERNATIVES[role]
        if role == "gain":
            times = [column.name for column in columns if column.content in TIMES]
            names, alternative = (
                [NONE, *(name for name in names if name not in times)],
                "",
            )
        self.questions.append(
            Question(role, problem, names[:SHOWN_ANSWERS], alternative)
        )

    def _ask_for(self, role: str, problem: str) -> None:
        """Ask for the column of a role that has none."""
        alternative = ALTERNATIVES.get(role, "")
        if role == "item" and self._is_text and self._opening.role != "pairs":
            delimiter = self._opening.own_option(LIST_DELIMITER)
            alternative = (
                f"(of lists --{{columns}}.{self._opening.list_role} NAME "
                f"--{delimiter} C)"
            )
        self.questions.append(Question(role, problem, (NAME,), alternative))


def _without(columns: Iterable[Column], names: Collection[str | None]) -> list[Column]:
    """Return the columns whose names are not among ``names``."""
    return [column for column in columns if column.name not in names]
