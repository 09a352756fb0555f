"""The roles of the columns of a table: by known names, by the user's names, and one error that asks for the rest.

A file, a frame or a list of objects gives the names of its columns and, where its format declares them, their types.
From these and the user's :class:`Columns`, :func:`assign_roles` makes a :class:`Reading`. It reads no cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from shlex import quote
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from tailmetrics.io.files import DataFileError, FilePath

Role: TypeAlias = Literal["preds", "target", "train", "pairs"]
"""What a file holds: predictions, targets, training targets, or the pairs of a filter."""

NONE = "none"
"""The value of ``Columns.gain`` and ``Columns.query`` for "no column"."""
ORDER = "order"
"""The value of ``Columns.rank`` for "the lines of a query stand in the order of their ranks"."""
IN_MEMORY = "in memory"
"""The name of the format of tables, objects and dicts."""

ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "query": ("query", "query_id", "qid", "user", "user_id", "uid", "session", "session_id"),
        "item": ("item", "item_id", "doc", "doc_id", "docno", "corpus_id", "passage_id", "movie_id"),
        "score": ("score", "prediction", "probability", "similarity", "logit"),
        "rank": ("rank", "position"),
        "distance": ("distance", "dist"),
        "gain": ("gain", "grade", "relevance", "rel", "rating", "label"),
        "ids": ("ids", "recommendations", "predictions"),
        "labels": ("labels", "targets"),
    }
)
"""Role -> the names of columns with this role. Case, ``-``, ``_``, blanks and what follows a colon do not count."""
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
OPTIONS: Mapping[Role, str] = MappingProxyType(
    {"preds": "preds-columns", "target": "target-columns", "train": "train-columns", "pairs": "columns"}
)
"""Role of a file -> the option with names for this file alone."""
FORMATS_WITHOUT_NAMES: Mapping[tuple[Role, int], str] = MappingProxyType(
    {("preds", 3): "msmarco", ("preds", 6): "trec", ("target", 4): "trec", ("train", 4): "trec"}
)
"""Role and number of columns -> the format of such text without a line of names, for hints."""
UNQUOTED_SEPARATORS: Mapping[str, str] = MappingProxyType({"tsv": "\t"})
"""Format of text tables without quotes -> what separates their fields."""
TEXT_TABLES = ("csv", *UNQUOTED_SEPARATORS)
"""The formats of text tables, whose first line names the columns."""
SCORE_ROLES = ("score", "rank", "distance")
LIST_DELIMITER = "list-delimiter"
"""The option with the separator of the entries of lists in text, which a :class:`Question` has as its role."""


@dataclass(frozen=True)
class Columns:
    """The user's names of columns, for files whose names are unknown or ambiguous. A file must have these columns.

    Attributes:
        query: The query, user or row of a line or of a list. ``head,relation`` is one key of two columns, ``none`` says
            that row i of one file belongs to row i of the other. Files without this column keep their known name.
        item: The item, document or label of a line, or inside of objects. Files without it keep their known name.
        ids: Predictions: the lists of items.
        labels: Targets: the lists of labels.
        score: Predictions: the score of an item, the highest is best.
        rank: Predictions: the rank of an item, 1 is best; ``order`` says that lines and lists are the best first.
        distance: Predictions: any number, the least is best.
        gain: Targets: the gain of an item; ``none`` says that every item is relevant.
    """

    query: str | None = None
    item: str | None = None
    ids: str | None = None
    labels: str | None = None
    score: str | None = None
    rank: str | None = None
    distance: str | None = None
    gain: str | None = None

    def names(self) -> dict[str, str]:
        """Return the user's names, by role."""
        values = {role.name: getattr(self, role.name) for role in fields(self)}
        return {role: name for role, name in values.items() if name is not None}

    def with_names(self, other: Columns | None) -> Columns:
        """Return a copy with the names of ``other`` added; if both name a role, ``other`` wins."""
        if other is None:
            return self
        return Columns(**{**self.names(), **other.names()})

    @property
    def by_place(self) -> bool:
        """Whether the names are places of columns, from 0, because the file has no line of names."""
        parts = []
        for name in self.names().values():
            if name not in (NONE, ORDER):
                parts += name.split(",")
        return bool(parts) and all(part.strip().isdecimal() for part in parts)


class Kind(Enum):
    """The type of the cells of a column, as far as the format declares it."""

    ANY = "text without a type"
    STRING = "text"
    WHOLE = "whole numbers"
    NUMBER = "numbers"
    LIST = "lists"
    OBJECTS = "lists of objects"
    OTHER = "another type"


NUMBERS = (Kind.WHOLE, Kind.NUMBER)


@dataclass(frozen=True)
class Column:
    """A column of a table, or a field of the objects in one.

    Attributes:
        name: The name.
        kind: The type of the cells.
        entries: The type of the entries of lists; None for a column without lists.
        fields: The fields of the objects in lists.
        type: The type in words of the format, for errors.
        separators: In text, the characters that may separate the entries of the first cell, for hints.
        is_bracketed: Whether the first cell of text is a list that pandas or JSON wrote, such as "['a', 'b']".
    """

    name: str
    kind: Kind = Kind.ANY
    entries: Kind | None = None
    fields: tuple[Column, ...] = ()
    type: str = ""
    separators: tuple[str, ...] = ()
    is_bracketed: bool = False

    @property
    def is_list(self) -> bool:
        """Whether the format declares that a cell is a list."""
        return self.kind in (Kind.LIST, Kind.OBJECTS)


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A file or a table in memory to be opened, with all that the user says about its form.

    Attributes:
        path: The file, or the name of the argument.
        role: What it holds.
        form: Name of the format.
        columns: The user's names of columns for this file.
        shared_roles: The roles whose columns the user names for all files at once, so that this file may lack them.
        delimiter: Separator of the fields of text.
        list_delimiter: Separator of the entries of a list in text.
        extra_columns: Columns that have none of the roles, such as groups of rows.
        part: Subset and split of predictions of MTEB.
        memory: Memory limit of DuckDB.
        needs_query: Whether lines need a query.
        has_train_target: Whether training targets are read, too, so that a hint on the gain must say for which targets.
        judged_only: Whether a negative grade of qrels is no judgement.
        target_paths: The files of the targets, for predictions in LETOR.
    """

    path: FilePath
    role: Role
    form: str = ""
    columns: Columns = field(default_factory=Columns)
    shared_roles: frozenset[str] = frozenset()
    delimiter: str | None = None
    list_delimiter: str | None = None
    extra_columns: tuple[str, ...] = ()
    part: str | None = None
    memory: str = "1GB"
    needs_query: bool = True
    has_train_target: bool = False
    judged_only: bool = False
    target_paths: tuple[FilePath, ...] = ()

    @property
    def in_memory(self) -> bool:
        """Whether this is a table in memory; hints then name no options of the command line."""
        return self.form == IN_MEMORY

    @property
    def list_role(self) -> str:
        """The role of a column of lists in this file."""
        if self.role == "preds":
            return "ids"
        return "labels"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a file or a table is read.

    Attributes:
        path: The file, as messages name it.
        role: What the file holds.
        form: The name of the format.
        query: Columns of the query; empty if row i of one file belongs to row i of the other.
        item: Column of the item, or of the lists; inside of objects the field of the item. Empty without columns.
        value: Column of the score, rank, distance or gain; None without such a column.
        value_role: ``score``, ``rank``, ``distance``, ``gain``, or ``order`` for the order of lines or of lists.
        second_order: Another column with a rank or distance, which must not contradict the value; None without one.
        is_listed: Whether each row holds a list.
        within: Column of the lists whose objects hold the item; empty without objects.
        unread: The columns without a role.
        possible_queries: The unread columns of text or whole numbers, which may hold queries.
        named_roles: The roles of the columns that the user named.
        has_names: Whether the file names its columns.
        delimiter: Separator of fields; None if the user does not give it.
        list_delimiter: Separator of the entries of lists in text.
        content: The content of a file whose format has no columns, in words.
    """

    path: str = ""
    role: Role = "preds"
    form: str = ""
    query: tuple[str, ...] = ()
    item: str = ""
    value: str | None = None
    value_role: str = ""
    second_order: str | None = None
    is_listed: bool = False
    within: str = ""
    unread: tuple[str, ...] = ()
    possible_queries: tuple[str, ...] = ()
    named_roles: frozenset[str] = frozenset()
    has_names: bool = True
    delimiter: str | None = None
    list_delimiter: str | None = None
    content: str = ""

    @property
    def least_first(self) -> bool:
        """Whether the least value is the best."""
        return self.value_role in ("rank", "distance")

    @property
    def sign(self) -> str:
        """The sign that makes the highest value the best: a minus for ranks and distances."""
        if self.least_first:
            return "-"
        return ""

    def orders_hint(self) -> str:
        """Return the remedy for a second column that contradicts the value."""
        if self.form == IN_MEMORY:
            return f"drop {self.value!r} or {self.second_order!r}"
        second_role = "rank"
        if is_known(str(self.second_order), ALIASES["distance"], with_plurals=True):
            second_role = "distance"
        value, second_order = quote(str(self.value)), quote(str(self.second_order))
        return f"--columns.{self.value_role} {value} or --columns.{second_role} {second_order}"

    def rising_hint(self, role: str) -> str:
        """Return the remedy for scores that look like values of another role."""
        if self.form == IN_MEMORY:
            return f"rename {self.value!r} to {role!r}; of scores the highest comes first"
        name = quote(str(self.value))
        return f"--columns.{role} {name} or --columns.score {name}"

    @property
    def key(self) -> str | None:
        """The name of the query column, or the names of several, with commas; None without one."""
        return ",".join(self.query) or None

    def column_and_field(self, name: str) -> tuple[str, str | None]:
        """Return the column that holds a name of this reading, and the field of its objects; None without objects."""
        if self.within:
            return self.within, name
        return name, None

    def __str__(self) -> str:
        if not self.item:
            return f"{self.form}: {self.content}"
        parts = []
        if self.query:
            parts.append(f"{self.key!r} is the query")
        if self.is_listed:
            parts.append(f"{'.'.join(filter(None, (self.within, self.item)))!r} are the items of a row")
        else:
            parts.append(f"{self.item!r} is the item")
        parts.append(self._value_text())

        text = f"{self.form}: {', '.join(parts)}"
        if not self.has_names:
            text = f"{self.form} without a line of names: {', '.join(parts)}"
        if self.unread:
            text += f"; not read: {names_in_words(self.unread)}"
        return text

    def _value_text(self) -> str:
        if self.value is not None:
            name = ".".join(filter(None, (self.within, self.value)))
            text = f"{name!r} is the {self.value_role}"
            if self.least_first:
                text += ", least first"
            return text
        if self.value_role == ORDER:
            return "best first"
        if self.role == "pairs":
            return "pairs"
        return "each is relevant"

    @property
    def options(self) -> str:
        """The options of the command line with which a file is read like this, whatever its names are."""
        prefix = {"preds": "preds-", "target": "target-", "train": "train-", "pairs": ""}[self.role]
        words = [f"--{prefix}format {self.form}"]
        if self.delimiter is not None:
            words.append(f"--delimiter {quote(self.delimiter)}")
        if self.list_delimiter is not None:
            words.append(f"--list-delimiter {quote(self.list_delimiter)}")
        for role, name in self._names().items():
            words.append(f"--{prefix}columns.{role} {quote(name)}")
        return " ".join(words)

    def _names(self) -> dict[str, str]:
        names: dict[str, str] = {}
        if not self.item:
            return names
        if self.query:
            names["query"] = str(self.key)
        list_role = "ids" if self.role == "preds" else "labels"
        if self.within:
            names[list_role] = self.within
            names["item"] = self.item
        elif self.is_listed:
            names[list_role] = self.item
        else:
            names["item"] = self.item
        if self.value is not None:
            names[self.value_role] = self.value
        elif self.value_role == ORDER:
            names["rank"] = ORDER
        elif self.role in ("target", "train"):
            names["gain"] = NONE
        return names

    @property
    def sentence(self) -> str:
        """The file, and how it is read."""
        return f"{self.path}: {self}"


# -- what is open -----------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """A question to the user about the role of a column.

    Attributes:
        role: The role that no column has for certain.
        problem: The problem, in words.
        answers: The possible answers: a role and the name of a column.
        further_answers: Further answers, in words; empty for none.
    """

    role: str
    problem: str
    answers: Sequence[tuple[str, str]]
    further_answers: str = ""


class ColumnError(DataFileError):
    """The roles of the columns of a file are not certain.

    Attributes:
        columns: The columns of this file.
        questions: All questions about this file.
    """

    def __init__(
        self, opening: Opening, columns: Sequence[str], questions: Sequence[Question], is_alone: bool = True
    ) -> None:
        self._arguments = opening, columns, questions
        self.columns = columns
        self.questions = questions
        problem = f"{_problems(questions)}; its columns are {names_in_words(columns)}"
        hint = _hint_with_options(opening, questions, is_alone, len(columns))
        if opening.in_memory:
            hint = _remedies(questions)
        super().__init__(opening.path, problem, "", hint)

    def __reduce__(self) -> tuple[type[ColumnError], tuple[object, ...]]:
        return ColumnError, self._arguments

    def with_options_of_this_file(self) -> ColumnError:
        """Return this error with the options for its file alone, because options for all files would touch others."""
        return ColumnError(*self._arguments, is_alone=False)


def bracket_error(path: FilePath, name: str) -> DataFileError:
    """Return the error about a column of text whose cells are lists in brackets."""
    problem = f"column {name!r} holds the text of lists in brackets, '[…]'"
    return DataFileError(path, problem, hint="write JSON Lines or Parquet, or strip the brackets and quotes.")


def _problems(questions: Sequence[Question]) -> str:
    """Return the problems in a sentence; the second "no column is the …" is "none is the …"."""
    texts: list[str] = []
    for question in questions:
        text = question.problem
        if any(other.startswith(("no column is", "none is")) for other in texts):
            text = text.replace("no column is", "none is", 1)
        texts.append(text)
    return ", ".join(texts)


def _hint_with_options(opening: Opening, questions: Sequence[Question], is_alone: bool, num_columns: int) -> str:
    """Return the options of the command line that answer the questions."""
    hints = [_options_of_answers(opening, question, is_alone) for question in questions]
    separator = " "
    if any(len(question.answers) > 1 for question in questions):
        separator = ", and "
    text = separator.join(hints)

    roles = {question.role for question in questions if question.answers[0][1] == "NAME"}
    is_text = opening.form in TEXT_TABLES
    if is_text and {"query", "item"} <= roles and not opening.columns.by_place:
        text += f"; without a line of names: {_options_without_names(opening, num_columns)}"
        if opening.delimiter is None and num_columns == 1:
            text = f"--delimiter C, what separates its fields; {text}"
    return text


def _options_of_answers(opening: Opening, question: Question, is_alone: bool) -> str:
    """Return the options that answer a question."""
    if question.role == LIST_DELIMITER:
        return " or ".join(f"--{role} {value}" for role, value in question.answers)
    is_for_one = opening.role == "train" or question.role in opening.shared_roles
    if question.role in ("query", "item"):
        is_for_one = is_for_one or not is_alone
    if question.role == "gain":
        is_for_one = is_for_one or opening.has_train_target
    prefix = "columns"
    if is_for_one:
        prefix = OPTIONS[opening.role]

    hint = " or ".join(f"--{prefix}.{role} {quote(name)}" for role, name in question.answers)
    further_answers = question.further_answers
    if question.role != "query":  # rows without a query are rows of all files
        further_answers = further_answers.replace("--columns", f"--{prefix}")
    if further_answers:
        hint += f" ({further_answers})"
    return hint


def _options_without_names(opening: Opening, num_columns: int) -> str:
    """Return the options for a file whose first line holds no names."""
    prefix = OPTIONS[opening.role]
    places = f"places, such as --{prefix}.query 0 --{prefix}.item 1"
    option = f"--{prefix.replace('columns', 'format')}"
    if (opening.role, num_columns) in FORMATS_WITHOUT_NAMES:
        return f"{option} {FORMATS_WITHOUT_NAMES[opening.role, num_columns]}, or {places}"
    if opening.role == "pairs":
        return places
    return f"{places}, or {option}"


def _remedies(questions: Sequence[Question]) -> str:
    """Return the remedies for a table in memory, which has no options."""
    return "; ".join(map(_remedy, questions))


def _remedy(question: Question) -> str:
    """Return the remedy for one question about a table in memory: which columns to rename, drop or add."""
    names = [name for _, name in question.answers if name not in (NONE, ORDER, "NAME")]
    if len(names) == len(question.answers):  # each has a known name
        return f"drop all but one of {_joined_by_and(names)}"
    choices = [f"rename {name!r} to {question.role!r}" for name in names]
    changes = {
        NONE: f"drop {_joined_by_and(names)}",
        ORDER: "add a column 'rank' of 1, 2, 3 in each query",
        "NAME": f"rename a column to {question.role!r}",
    }
    choices += [changes[name] for _, name in question.answers if name in changes]
    hint = ", or ".join(choices)
    if question.role == "score" and not names:
        hint += ", 'rank' or 'distance'"
    if question.role == "query" and question.further_answers:
        hint += ", or keep none for row i with row i"
    return hint


def names_in_words(names: Iterable[str]) -> str:
    """Return the names of columns, the first few of many.

    >>> names_in_words(["a", "b"])
    "'a', 'b'"
    """
    every = list(names)
    text = ", ".join(map(repr, every[:SHOWN_COLUMNS])) or "none"
    if len(every) > SHOWN_COLUMNS:
        text += f" and {len(every) - SHOWN_COLUMNS:,} more"
    return text


# -- names ------------------------------------------------------------------------------------------------------------


def normalised(name: str) -> str:
    """Return a name in the spelling in which names are compared.

    >>> normalised("User-ID:token")
    'userid'
    """
    return re.sub(r"[-_ ]", "", name.partition(":")[0].lower())


def is_known(name: str, names: Iterable[str], with_plurals: bool = False) -> bool:
    """Whether a name is among ``names``; with plurals, also if it is one of them with an ``s`` at its end."""
    spelling = normalised(name)
    known = {normalised(other) for other in names}
    return spelling in known or (with_plurals and spelling.removesuffix("s") in known)


def names_among(names: Iterable[str], aliases: Iterable[str], with_plurals: bool = False) -> list[str]:
    """Return the names that are among ``aliases``."""
    matches = []
    for name in names:
        if is_known(name, aliases, with_plurals):
            matches.append(name)
    return matches


def has_known_names(names: Iterable[str]) -> bool:
    """Whether any of the names has a role."""
    spellings: set[str] = set()
    for aliases in ALIASES.values():
        spellings.update(map(normalised, aliases))
    return any(normalised(name) in spellings for name in names)


# -- roles ------------------------------------------------------------------------------------------------------------


def assign_roles(opening: Opening, table: Sequence[Column], has_names: bool = True) -> Reading:
    """Return the reading of a table: which column has which role.

    Args:
        opening: The file, its role and the user's names of columns.
        table: The columns of the table.
        has_names: Whether the file names its columns; else their names are their places.

    Raises:
        ColumnError: If the user names a column that is not there, or a role has no column, or several.
    """
    roles = _Roles(opening, table)
    if roles.holds_lists():
        reading = roles.reading_of_lists()
    else:
        reading = roles.reading_of_lines()
    if roles.questions:
        raise ColumnError(opening, [column.name for column in table], roles.questions)
    chosen = {*reading.query, reading.item, reading.value, reading.within}
    unread = [column for column in table if column.name not in chosen]
    possible_queries = filter(roles.may_be_query, unread)
    list_delimiter = None
    if reading.is_listed:
        list_delimiter = opening.list_delimiter
    return replace(
        reading,
        path=str(opening.path),
        role=opening.role,
        form=opening.form,
        second_order=roles.second_order,
        unread=tuple(column.name for column in unread),
        possible_queries=tuple(column.name for column in possible_queries),
        named_roles=frozenset(roles.named_roles),
        has_names=has_names,
        delimiter=opening.delimiter,
        list_delimiter=list_delimiter,
    )


class _Roles:
    """The search for the columns of one table by role.

    Attributes:
        questions: The questions that the names leave.
        named_roles: The roles of the columns that the user named.
        second_order: Another column with a rank or distance, which must not contradict the value.
    """

    def __init__(self, opening: Opening, table: Sequence[Column]) -> None:
        self.questions: list[Question] = []
        self.named_roles: set[str] = set()
        self.second_order: str | None = None
        self._opening = opening
        self._user_names = opening.columns
        self._table = table
        self._names = [column.name for column in table]
        self._scalars = [column for column in table if not column.is_list]
        self._lists = [column for column in table if column.is_list]
        self._items = _columns_named(self._scalars, ALIASES["item"])
        self._is_typed = all(column.kind is not Kind.ANY for column in table)

    def holds_lists(self) -> bool:
        """Whether rows hold lists: by the user's names, else by type and name."""
        if self._opening.role == "pairs":
            return False
        if getattr(self._user_names, self._opening.list_role) is not None:
            return True
        item = self._user_names.item
        if item is not None and any(column.name == item for column in self._scalars):
            return False
        if self._known_lists() or not self._is_typed:
            return bool(self._known_lists())
        return bool(self._lists) and not self._items

    def reading_of_lines(self) -> Reading:
        """Return the reading of a table with an item in each line."""
        query = self._query_columns()
        item = self._column_of_role("item", self._items, self._table)
        taken = {*query, item}
        candidates = [column for column in self._scalars if column.name not in taken]
        value, value_role = None, ""
        if self._opening.role == "preds":
            value, value_role = self._score_column(candidates, with_plurals=False)
        elif self._opening.role in ("target", "train"):
            aliases = (*ALIASES["gain"], *GAINS_IN_LINES)
            value, value_role = self._gain_column(candidates, aliases, strays=self._strays(self._table, taken))
        return Reading(query=query, item=item, value=value, value_role=value_role)

    def reading_of_lists(self) -> Reading:
        """Return the reading of a table with lists."""
        query = self._query_columns()
        column = self._list_column()
        if column is not None and column.kind is Kind.OBJECTS:
            return self._reading_of_objects(query, column)

        name = "" if column is None else column.name
        taken = {*query, name}
        candidates = [other for other in self._possible_value_lists() if other.name not in taken]
        if self._opening.role == "preds":
            strays = self._strays([other for other in candidates if other.entries in (None, *NUMBERS)], taken)
            pool = self._strays(candidates, taken)
            value, value_role = self._score_column(candidates, with_plurals=True, strays=strays, pool=pool)
        else:
            strays = self._strays(candidates, taken)
            value, value_role = self._gain_column(candidates, ALIASES["gain"], strays, with_plurals=True)
        if column is not None and not self._is_typed and self._opening.list_delimiter is None:
            if column.is_bracketed:
                raise bracket_error(self._opening.path, name)
            problem = f"{name!r} holds lists, and nothing says what separates them"
            answers = [(LIST_DELIMITER, f"'{separator}'") for separator in column.separators or (" ",)]
            self.questions.append(Question(LIST_DELIMITER, problem, answers))
        self._ask_for_query_beside_lists(query)
        return Reading(query=query, item=name, value=value, value_role=value_role, is_listed=True)

    def _reading_of_objects(self, query: tuple[str, ...], column: Column) -> Reading:
        """Return the reading of a table with lists of objects, such as ``{"item": 7, "score": 0.5}``."""
        items = _columns_named(column.fields, (*ALIASES["item"], *ITEMS_IN_OBJECTS))
        item = self._column_of_role("item", items, column.fields)
        candidates = [part for part in column.fields if part.name != item]
        if self._opening.role == "preds":
            strays = [part.name for part in candidates if part.kind in NUMBERS]
            value, value_role = self._score_column(candidates, with_plurals=False, strays=strays)
        else:
            aliases = list(ALIASES["gain"])
            if item == "label":
                aliases.remove("label")
            strays = [part.name for part in candidates]
            value, value_role = self._gain_column(candidates, aliases, strays)
        self._ask_for_query_beside_lists(query)
        return Reading(query=query, item=item, value=value, value_role=value_role, is_listed=True, within=column.name)

    def may_be_query(self, column: Column) -> bool:
        """Whether a column may hold queries, which are text or whole numbers."""
        if column.name in self._opening.extra_columns or INDEX_NAMES.fullmatch(column.name):
            return False
        return column.kind in (Kind.ANY, Kind.STRING, Kind.WHOLE)

    def _possible_value_lists(self) -> list[Column]:
        """Return the columns that can hold lists of scores, ranks, distances or gains."""
        if not self._is_typed:
            return [column for column in self._table if column.name not in self._opening.extra_columns]
        return [column for column in self._lists if column.kind is Kind.LIST]

    def _known_lists(self) -> list[Column]:
        """Return the lists with a known name."""
        role = self._opening.list_role
        if not self._is_typed:
            return _columns_named(self._table, (role,))
        return _columns_named(self._lists, (*ALIASES[role], *ALIASES["item"]), with_plurals=True)

    def _strays(self, columns: Iterable[Column], taken: Iterable[str]) -> list[str]:
        """Return the columns that may hold a value.

        These are the columns without a role, except the user's extra columns, the index of a DataFrame, the lists of
        the other kind of file, and queries that the user does not want to be read.
        """
        explained = {*taken, *self._opening.extra_columns}
        other_role = "labels" if self._opening.role == "preds" else "ids"
        strays = []
        for column in columns:
            if column.name in explained or INDEX_NAMES.fullmatch(column.name):
                continue
            if column.is_list and is_known(column.name, ALIASES[other_role]):
                continue
            if self._user_names.query == NONE and is_known(column.name, ALIASES["query"]):
                continue
            strays.append(column.name)
        return strays

    def _query_columns(self) -> tuple[str, ...]:
        """Return the columns of the query; none if rows are numbered."""
        is_needed = self._opening.needs_query and not self.holds_lists()
        name = self._user_names.query
        if name == NONE and not is_needed:
            self.named_roles.add("query")
            return ()
        if name is not None and name != NONE:
            parts = self._parts_of_key(name)
            if parts:
                self.named_roles.add("query")
                return parts
            if "query" not in self._opening.shared_roles:
                self._ask_for_missing("query", name)
                return ()
        scalars = [column.name for column in self._scalars if column.name not in self._opening.extra_columns]
        matches = names_among(scalars, ALIASES["query"])
        query = self._only_name("query", matches, is_needed)
        if not query:
            return ()
        return (query,)

    def _parts_of_key(self, name: str) -> tuple[str, ...]:
        """Return the columns of the user's query, such as ``head,relation``; none if one of them is not there."""
        if name in self._names:
            return (name,)
        parts = tuple(part.strip() for part in name.split(","))
        if all(part in self._names for part in parts):
            return parts
        return ()

    def _list_column(self) -> Column | None:
        """Return the column of lists."""
        role = self._opening.list_role
        name = getattr(self._user_names, role)
        if name is not None:
            for column in self._table:
                if column.name == name:
                    self.named_roles.add(role)
                    return column
            self._ask_for_missing(role, name)
            return None

        matches = self._known_lists()
        if len(matches) == 1 and not self._items:
            return matches[0]
        if not matches:
            self._ask_for(role)
            return None
        answers = [(role, column.name) for column in matches] + [("item", column.name) for column in self._items]
        noun = "item"
        if len(matches) > 1:
            noun = "items"
        problem = f"{_joined_by_and([name for _, name in answers])} could each be the {noun}"
        self.questions.append(Question(role, problem, answers[:SHOWN_ANSWERS]))
        return None

    def _column_of_role(self, role: str, matches: Sequence[Column], columns: Sequence[Column]) -> str:
        """Return the name of the column of a role: the user's name, else the only known name among ``matches``."""
        name = getattr(self._user_names, role)
        if name is not None and any(column.name == name for column in columns):
            self.named_roles.add(role)
            return str(name)
        if name is not None and role not in self._opening.shared_roles:
            self._ask_for_missing(role, name)
            return ""
        return self._only_name(role, [column.name for column in matches])

    def _only_name(self, role: str, names: Sequence[str], is_needed: bool = True) -> str:
        """Return the only name. Ask if there are several, or if there is none but one is needed."""
        if len(names) == 1:
            return names[0]
        if names:
            self._ask_which(role, names)
        elif is_needed:
            self._ask_for(role)
        return ""

    def _score_column(
        self,
        candidates: Sequence[Column],
        with_plurals: bool,
        strays: Sequence[str] | None = None,
        pool: Sequence[str] = (),
    ) -> tuple[str | None, str]:
        """Return the column of the score, rank or distance, and which of them it is.

        Args:
            candidates: The columns whose names are compared.
            with_plurals: Whether plurals of known names count, too.
            strays: The lists that may hold scores; None for lines, which need a score.
            pool: The lists that may hold scores or items.
        """
        names = [column.name for column in candidates]
        for role in SCORE_ROLES:
            name = getattr(self._user_names, role)
            if name is not None:
                return self._score_named_by_user(role, name, names)

        for role in SCORE_ROLES:
            aliases = list(ALIASES[role])
            if with_plurals and role == "score" and self._user_names.ids is None:
                aliases.remove("prediction")  # lists of predictions are items
            matches = names_among(names, aliases, with_plurals)
            if len(matches) > 1:
                self._ask_which(role, matches)
                return None, ""
            if matches:
                self._find_second_order(candidates, matches[0], with_plurals)
                return matches[0], role

        if strays is None:
            problem = "no column is the score, rank or distance"
            further_answers = "or .rank, .distance, --columns.rank order"
            self.questions.append(Question("score", problem, [("score", "NAME")], further_answers))
        else:
            problem = f"{_joined_by_and(strays)} may be the score of each item, or nothing that counts"
            question = Question("score", problem, [("rank", ORDER)], "or .rank, .distance of it")
            self._ask_about(strays, question, pool or strays)
        return None, ORDER

    def _score_named_by_user(self, role: str, name: str, names: Sequence[str]) -> tuple[str | None, str]:
        """Return the score, rank or distance that the user names."""
        self.named_roles.add(role)
        if role == "rank" and name == ORDER:
            return None, ORDER
        if name not in names:
            self._ask_for_missing(role, name)
        return name, role

    def _find_second_order(self, candidates: Sequence[Column], value: str, with_plurals: bool) -> None:
        """Set ``second_order`` to the first rank or distance other than the value."""
        known = (*ALIASES["rank"], *ALIASES["distance"])
        for column in candidates:
            kind = column.entries or column.kind
            is_number = kind in (Kind.ANY, *NUMBERS)
            if column.name != value and is_number and is_known(column.name, known, with_plurals):
                self.second_order = column.name
                return

    def _gain_column(
        self,
        candidates: Sequence[Column],
        aliases: Sequence[str],
        strays: Sequence[str],
        with_plurals: bool = False,
    ) -> tuple[str | None, str]:
        """Return the column of the gain, and its role; ask if there is none but ``strays`` may hold gains."""
        names = [column.name for column in candidates]
        name = self._user_names.gain
        if name is not None:
            self.named_roles.add("gain")
            if name == NONE:
                return None, ""
            if name not in names:
                self._ask_for_missing("gain", name)
            return name, "gain"
        matches = names_among(names, aliases, with_plurals)
        if len(matches) == 1:
            return matches[0], "gain"
        if matches:
            self._ask_which("gain", matches)
        else:
            problem = f"{_joined_by_and(strays)} may be the gain of each item, or nothing that counts"
            self._ask_about(strays, Question("gain", problem, [("gain", NONE)]), strays)
        return None, ""

    def _ask_about(self, strays: Sequence[str], question: Question, pool: Sequence[str]) -> None:
        """Ask whether one of the strays has a role.

        Args:
            strays: The columns that may have the role of the question.
            question: The question, with the answer for "none of them".
            pool: The columns that may have this role or a role that lacks a column.
        """
        ((role, nothing),) = question.answers
        lacking = sum(1 for other in self.questions if other.answers[0][1] == "NAME")
        if not strays or (lacking and len(pool) <= lacking):
            return
        if lacking:  # a stray may be the column of one of these roles
            further_answers = f"or --columns.{role} {nothing}"
            if question.further_answers:
                further_answers = f"or .rank, .distance, --columns.{role} {nothing}"
            problem, answers = f"no column is the {question.role}", [(question.role, "NAME")]
            self.questions.append(Question(question.role, problem, answers, further_answers))
            return
        answers = [(question.role, name) for name in strays[:SHOWN_ANSWERS]]
        if nothing == NONE and not any(_suggests_gain(name) for name in strays):
            answers.insert(0, (role, nothing))
        else:
            answers.append((role, nothing))
        self.questions.append(question._replace(answers=answers))

    def _ask_for(self, role: str) -> None:
        """Ask for the column of a role."""
        further_answers = ""
        if role == "item" and not self._is_typed and self._opening.role != "pairs":
            further_answers = f"of lists --columns.{self._opening.list_role} NAME"
            if self._opening.list_delimiter is None:
                further_answers += f" --{LIST_DELIMITER} C"
        self.questions.append(Question(role, f"no column is the {role}", [(role, "NAME")], further_answers))

    def _ask_for_query_beside_lists(self, query: Sequence[str]) -> None:
        """Ask for the query of lists if there are other questions, too, and a column may be the query.

        Lists need no query: row i of one file can belong to row i of the other.
        """
        if not self.questions or query or self._user_names.query == NONE or self._opening.role == "train":
            return
        if any(question.role == "query" for question in self.questions):
            return
        for column in self._scalars:
            if self.may_be_query(column) and normalised(column.name) != self._opening.list_role:
                further_answers = "or --columns.query none, row i with row i"
                self.questions.append(Question("query", "no column is the query", [("query", "NAME")], further_answers))
                return

    def _ask_which(self, role: str, names: Sequence[str]) -> None:
        """Ask which of several columns has a role."""
        answers = [(role, name) for name in names[:SHOWN_ANSWERS]]
        self.questions.append(Question(role, f"{_joined_by_and(names)} could each be the {role}", answers))

    def _ask_for_missing(self, role: str, name: str) -> None:
        """Ask for the column of a role for which the user names a column that is not there."""
        further_answers = ""
        if role == "gain":
            further_answers = "or --columns.gain none"
        self.questions.append(Question(role, f"there is no column {name!r}", [(role, "NAME")], further_answers))


def _columns_named(columns: Iterable[Column], aliases: Iterable[str], with_plurals: bool = False) -> list[Column]:
    """Return the columns whose names are among ``aliases``."""
    matches = []
    for column in columns:
        if is_known(column.name, aliases, with_plurals):
            matches.append(column)
    return matches


def _suggests_gain(name: str) -> bool:
    """Whether a name holds a known name of the gain, as ``star_rating`` does."""
    return any(alias in normalised(name) for alias in ALIASES["gain"])


def _joined_by_and(names: Sequence[str]) -> str:
    """Return the names joined by "and", the first few of many."""
    shown = [repr(name) for name in names[:SHOWN_ANSWERS]]
    if len(names) > SHOWN_ANSWERS:
        shown.append(f"{len(names) - SHOWN_ANSWERS} more")
    return " and ".join(shown)
