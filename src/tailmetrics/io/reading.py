"""How a file, a table or a frame is read: its columns, and the sentence that says so.

Every guess about columns is made here, from names, types and the first rows. Two readings that would give different
numbers are refused, unless the user named one.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from tailmetrics.io.files import HEAD_BYTES, DataFileError, DataFileNote, FilePath, head, is_new, note, shown, suffix_of
from tailmetrics.ranking._warnings import warn_outside, with_value

Role: TypeAlias = Literal["preds", "target"]
"""What a file holds: predictions or targets. Functions also take None, to read only the names of its labels."""


NO_GAIN = "none"
"""The value of ``Columns.gain`` for "read no gains"."""
IN_MEMORY = "in memory"
"""The name of the format of tables and dicts."""
ORDER = "order"
"""The value of ``Columns.rank`` for "the lines of a query are in the order of their ranks"."""


class _Default(str):
    """A name that the user did not give, even if the given name is the same."""

    __slots__ = ()


@dataclass(frozen=True)
class Columns:
    """Names of columns.

    If one of the last five names is left at its default and the file has no such column, the reader tries the usual
    names, such as ``user_id`` or ``qid`` for the query, and a note says which column it took. If the reader takes a
    column called ``rank`` or ``position`` as the score, its numbers are ranks, and 1 is the best.

    Attributes:
        ids: Predictions: lists of label ids.
        scores: Predictions: lists of the scores of these labels.
        labels: Targets: lists of label ids.
        gains: Targets: lists of the gains of these labels.
        query: The query, user or row of a line or of a list; several columns are one query: ``"head,relation"``.
        item: The item, document or label of a line: one label, whatever it holds. A list is named by ids or labels.
        score: Predictions: the score of a line.
        gain: Targets: the gain or grade of a line; with ``none`` it is not read, and each line is relevant.
        rank: Predictions without a score: the rank, 1 for the best, or a distance, the lowest for the best; with
            ``order`` the lines of a query stand in the order of their ranks, and lists are the best first, whatever
            numbers stand beside their labels.
    """

    ids: str = _Default("ids")
    scores: str = _Default("scores")
    labels: str = _Default("labels")
    gains: str = _Default("gains")
    query: str = _Default("query")
    item: str = _Default("item")
    score: str = _Default("score")
    gain: str = _Default("gain")
    rank: str = _Default("rank")

    def is_given(self, field: str) -> bool:
        """Whether the user gave the name of a field; the file must then have this column."""
        return not isinstance(getattr(self, field), _Default)

    @property
    def without_gain(self) -> bool:
        """Whether no gains are read, whatever columns the targets have."""
        return self.gain == NO_GAIN

    def names_lists(self, header: Sequence[str]) -> bool:
        """Whether the user named a column of lists that is among these."""
        return any(self.is_given(one) and getattr(self, one) in header for one in ("ids", "labels"))

    @property
    def by_place(self) -> bool:
        """Whether columns are given by number, from 0, as for a file without a header line."""
        return bool(self.parts) and all(map(str.isdecimal, self.parts))

    @property
    def parts(self) -> list[str]:
        """The names of all columns that the user gave."""
        names = (name for name in given(self).values() if name not in (NO_GAIN, ORDER))
        return [part.strip() for name in names for part in name.split(",")]

    def by_names(self, header: Sequence[str]) -> Columns:
        """Return a copy in which column numbers are replaced by the names in the header."""
        names = {str(place): name for place, name in enumerate(header) if str(place) not in header}
        parts = {field: name.split(",") for field, name in given(self).items()}
        renamed = {field: [names.get(part.strip(), part) for part in some] for field, some in parts.items()}
        return replace(self, **{field: ",".join(some) for field, some in renamed.items()})


def given(columns: Columns) -> dict[str, str]:
    """Return the names that the user gave, by their fields."""
    return {field: name for field, name in vars(columns).items() if columns.is_given(field)}


def only_given(config: Any) -> Any:
    """Return nested dicts without the names of columns that the user did not give."""
    if not isinstance(config, dict):
        return config
    return {name: only_given(value) for name, value in config.items() if not isinstance(value, _Default)}


USUAL = {
    "query": "query queryid qid topic topicid user userid uid session sessionid customerid visitorid "
    "reviewerid memberid basketid patientid hadmid stayid noteid",
    "item": "item itemid iid doc docid docno document documentid corpusid passage passageid pid product productid "
    "movie movieid article articleid asin isbn track trackid song songid book bookid artist artistid video videoid "
    "news newsid course courseid poi poiid venue venueid location locationid icdcode",
    "score": "score scores rating prediction predicted pred probability proba prob similarity estimate est confidence "
    "logit logits yscore predscore modelscore predictedrating bm25 cosine",
    "gain": "gain score rating relevance rel grade label relevant isrelevant clicked click purchased hit judgment "
    "judgement relevancelabel relevancegrade",
    "rank": "rank ranks ranking position pos rnk itemrank rankposition",
}
"""Field -> its usual column names, in lower case and without dashes, blanks and underscores."""
FAMILIAR = {
    "query": "note id filename file image",
    "item": "code label class category tag genre topic",
}
"""The same for columns of text of both files, or of tables that hold no other column."""
LISTED = {
    "preds": "items itemids prediction predictions preds recommendations recommended retrieved ranking topk suggestion "
    "suggestions",
    "target": "items itemids target targets relevant articles articleid groundtruth groundtruths truth positives codes "
    "label labels class ytrue answers actual gold annotation annotations accept",
}
"""Role -> usual names of a column of lists, in the same spelling."""
MANY_COLUMNS = 30
"""Errors list up to this many columns (one or two lines of a terminal), and of more columns only three."""
DISTANCE = re.compile("dist|loss$|error$|cost$|perplexity")
"""Names of numbers whose lowest may be the best, in the same spelling."""
IDS = {"id", "label", "labelid", "index"}
"""Names of the label field in a struct, in addition to the usual names of an item."""
TYPED = re.compile(r":(token|float)(_seq)?$")
"""The type that RecBole writes after the name of a column, as in ``user_id:token``."""


def plain(name: str) -> str:
    """Return a column's name in the spelling of USUAL: lower case, without dashes, blanks and underscores."""
    return re.sub(r"[\s_-]", "", name).lower()


def is_usual(name: str, *fields: str) -> bool:
    """Whether the name of a column is one of the usual names of a field, or of some."""
    return any(plain(name) in USUAL.get(field, "").split() for field in fields)


class Opening(NamedTuple):
    """The arguments with which a format opens a file.

    Attributes:
        path: The file.
        role: Whether it holds predictions or targets; None to read only the names of its labels.
        columns: Names of columns.
        partition: Name and value of the columns that folders in the path give as ``key=value``.
        beside: Names of columns that both files have, as :func:`plain` spells them.
        delimiter: Separator of fields, as the user named it.
        others: Names of columns to which the user gave another meaning, such as groups of rows.
        counts_alone: Whether labels are only counted or named, so that a file needs no query.
        labels: A function that returns the labels of the other files' first rows, None if they cannot be read yet.
    """

    path: FilePath
    role: Role | None = None
    columns: Columns = Columns()
    partition: Mapping[str, str] = MappingProxyType({})
    beside: Sequence[str] = ()
    delimiter: str | None = None
    others: Sequence[str] = ()
    counts_alone: bool = False
    labels: Callable[[], Collection[str] | None] | None = None


# -- what a column holds --------------------------------------------------------------------------------------------

FEW = 11
"""Different values of a column at most that may be gains: grades from 0 to 10 are eleven."""
LARGEST_GRADE = 100
"""Whole numbers above it are taken for counts, years or ids, not for grades."""
FLAGS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
"""Words for 1 and 0, as pandas, JSON and people write them."""
GRADES_IN_WORDS = re.compile(
    "(ir|not[ _-]?|non[ _-]?|partially[ _-]?|highly[ _-]?)?relevant|exact|substitute|complement|partial|perfect"
    "|excellent|good|fair|bad|poor|positive|negative|correct|incorrect|wrong|hit|miss"
)
"""Grades in words; a column of few other words, such as a language, is no gain."""


class Held(NamedTuple):
    """A column, and what its first rows hold.

    Attributes:
        name: The column.
        kind: ``flags``, ``grades``, ``fractions``, ``letters``, ``numbers``, ``whole``, ``times``, ``text``, ``lists``,
            ``constant`` or ``nothing``.
        words: The same in words.
        may_grade: Whether the words, or one number beside empty cells, may say which lines are relevant.
        has_empty: Whether cells are empty.
    """

    name: str
    kind: str
    words: str
    may_grade: bool = False
    has_empty: bool = False

    def __str__(self) -> str:
        return f"{self.name!r} ({self.words}{', or empty' * (self.has_empty and self.may_be_gain)})"

    @property
    def may_be_gain(self) -> bool:
        """Whether the column may say which lines are relevant, or how relevant."""
        return self.may_grade or self.kind in ("flags", "grades", "fractions", "letters")

    @property
    def holds_numbers(self) -> bool:
        """Whether the column holds different numbers, and no times."""
        return self.kind in ("flags", "grades", "fractions", "numbers", "whole")

    @property
    def may_be_score(self) -> bool:
        """Whether the column may order predictions."""
        return self.kind in ("fractions", "numbers")


def held(name: str, cells: Sequence[Any]) -> Held:
    """Return what a column holds, from its cells in the first rows: text, or values of Python."""
    known = [cell for cell in cells if cell is not None and cell == cell and not (isinstance(cell, str) and not cell)]
    has_empty = len(known) < len(cells)
    if any(isinstance(cell, (list, tuple, dict)) for cell in known):
        return Held(name, "lists", "lists")
    texts = {str(cell).strip() for cell in known}
    if not texts:
        return Held(name, "nothing", "nothing in the first rows")
    if all(map(is_number, texts)):
        numbers = {float(text) for text in texts}
        kind, said = _kind_of_numbers(numbers, {type(cell) for cell in known} == {float})
        may_grade = has_empty and kind == "constant"
        return Held(name, kind, f"{numbers.pop():g}" if may_grade else said, may_grade, has_empty)
    words = {text.lower() for text in texts}
    listed = " and ".join(sorted(texts)) if len(texts) < 3 else ", ".join(sorted(texts)[:FEW])
    if words <= set(FLAGS) or any(isinstance(cell, bool) for cell in known):
        return Held(name, "flags", listed, has_empty=has_empty)
    if 1 < len(texts) <= FEW and all(len(text) == 1 for text in texts):
        return Held(name, "letters", f"letters {listed}", has_empty=has_empty)
    several = 1 < len(texts) + has_empty <= len(cells) - 1
    if several and len(texts) <= FEW and any(map(GRADES_IN_WORDS.fullmatch, words)):
        return Held(name, "text", listed, may_grade=True, has_empty=has_empty)
    return Held(name, "text", "text")


def _kind_of_numbers(numbers: set[float], are_floats: bool) -> tuple[str, str]:
    low, high = min(numbers), max(numbers)
    whole = all(number == number // 1 for number in numbers if abs(number) != float("inf"))
    said = f"{low:g} and {high:g}" if len(numbers) == 2 else f"from {low:g} to {high:g}"
    if low >= EARLIEST:
        return "times", "large numbers"
    if len(numbers) == 1 and high > 0:
        return "constant", f"{low:g} in each row"
    if whole and low > -3 and high <= LARGEST_GRADE and len(numbers) <= FEW:  # TREC's grade of spam is -2
        return ("flags" if numbers <= {0, 1} else "grades"), (said if len(numbers) < 3 else f"whole numbers {said}")
    if whole and not are_floats:
        return "whole", f"whole numbers {said}"
    return ("fractions" if low >= 0 and high <= LARGEST_GRADE else "numbers"), f"numbers {said}"


# -- the reading ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """The first rows of a file or table.

    Attributes:
        path: The file.
        names: Names of its columns.
        rows: The cells of the first rows.
        where: The place of the names in the text of an error.
        types: The types of all columns, in words, where columns of lists are not among the names.
        lists: Column of lists -> what its entries are: ``text``, ``whole``, ``number`` or another; of structs by field.
    """

    path: FilePath
    names: Sequence[str]
    rows: Sequence[Sequence[Any]] = ()
    where: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, Any] = field(default_factory=dict)

    def cells(self, name: str) -> list[Any]:
        """Return the cells of a column."""
        place = list(self.names).index(name)
        return [row[place] for row in self.rows if place < len(row)]

    def held(self, name: str) -> Held:
        """Return what a column holds; one that is not among the names holds lists."""
        return held(name, self.cells(name)) if name in self.names else Held(name, "lists", "lists")


@dataclass(frozen=True)
class Reading:
    """How a file, a table or a frame is read.

    Attributes:
        path: The file, as messages name it.
        role: Predictions, targets, or None for the names of labels alone.
        query: Columns of the query; empty if row i of one file belongs to row i of the other.
        item: Column of the item, or of the lists; empty for an array.
        value: Column of the score, rank or gain; None without such a column.
        value_is: What the value is: ``score``, ``rank``, ``distance`` or ``gain``; ``order`` if lines are in the order
            of their ranks.
        listed: Whether each row holds a list.
        within: Column of the lists whose objects have the item and the value; empty without objects.
        unread: The columns that are not read.
        delimiter: Separator of fields; None for formats without one.
        between: Separator of labels in a cell; None for blanks, or if cells hold one label.
        has_names: Whether the file names its columns.
        guessed: Whether the user named less than what is read.
        flags: Whether gains are written as words for 1 and 0.
        form: The name of the format.
        holds: For formats without columns, what a file holds.
    """

    path: str = ""
    role: Role | None = None
    query: tuple[str, ...] = ()
    item: str = ""
    value: str | None = None
    value_is: str = ""
    listed: bool = False
    within: str = ""
    unread: tuple[Held, ...] = ()
    delimiter: str | None = None
    between: str | None = None
    has_names: bool = True
    guessed: bool = False
    flags: bool = False
    form: str = ""
    holds: str = ""

    @property
    def is_rank(self) -> bool:
        """Whether a lower value is better: a rank, or a distance."""
        return self.value_is in ("rank", "distance")

    @property
    def ranks(self) -> bool:
        """Whether the values are whole numbers from 1, each once in a query."""
        return self.value_is == "rank"

    def place(self, name: str) -> tuple[str, str | None]:
        """Return the column, and the field of its objects or None, that hold the items or their values."""
        return (self.within, name) if self.within else (name, None)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns whose values make lines a row: the query; the item where labels are only counted."""
        return self.query or (self.item,)

    @property
    def names(self) -> list[str]:
        """The names of the columns that are read."""
        return list(dict.fromkeys([*self.keys, self.item, *([] if self.value is None else [self.value])]))

    def __str__(self) -> str:
        if not self.item:
            return f"{self.form}: {self.holds}"
        column = "column {!r}" if self.has_names else "column {}"
        parts = [f"{column.format(', '.join(self.query))} is the query"] if self.query else []
        listed = "is the list of its labels" if self.query else "holds the lists"
        item = f"{self.within}.{self.item}" if self.within else self.item
        parts += [f"{column.format(item)} {listed if self.listed else 'is the item'}"]
        parts[-1] += f", separated by {self.between!r}" if self.listed and self.between is not None else ""
        parts[1:] = [self.holds] if self.holds else parts[1:]
        if self.value is not None:
            value = f"{self.within}.{self.value}" if self.within else self.value
            parts.append(f"{column.format(value)} is the {self.value_is}{', least first' * self.is_rank}")
        elif self.value_is:
            order = "best first" if self.listed else "the order of lines is the rank"
            parts.append(
                {"order": order, "gain": f"each {'label' if self.listed else 'line'} is relevant"}[self.value_is]
            )
        said = ", ".join(parts)
        said = said if self.has_names else f"has no line of names: {said}"
        if self.unread:
            said += f"; not read: {', '.join(map(str, self.unread[:3]))}"
            said += f" and {len(self.unread) - 3:,} more" if len(self.unread) > 3 else ""
        return said

    @property
    def columns(self) -> dict[str, str]:
        """The names of columns that say this reading outright, by their fields of :class:`Columns`."""
        if not self.item:
            return {}
        named = {"query": ",".join(self.query)} if self.query else {}
        listed = "labels" if self.role == "target" else "ids"
        if self.within:
            named |= {listed: self.within, "item": self.item}
        elif self.has_names or not self.holds:  # else all fields behind the query
            named[listed if self.listed else "item"] = self.item
        if self.value is not None:
            several = "s" * (self.listed and not self.within)
            named["rank" if self.is_rank else self.value_is + several] = self.value
        elif self.value_is and (not self.listed or self.unread):  # numbers that are not read are said
            named |= {"order": {"rank": ORDER}, "gain": {"gain": NO_GAIN}}[self.value_is]
        return named

    @property
    def sentence(self) -> str:
        """The file, how it is read, and the arguments that say so."""
        return f"{self.path}: {self}; said outright: {self.options}" if self.options else f"{self.path}: {self}"

    @property
    def options(self) -> str:
        """The arguments that say this reading outright, as they are written in Python."""
        said = [f"format={self.form!r}"] if self.form != IN_MEMORY else []
        said += [f"delimiter={self.delimiter!r}"] if self.delimiter not in (None, ",", "\t") else []
        named = ", ".join(f"{name}={column!r}" for name, column in self.columns.items())
        return ", ".join([*said, *([f"columns=Columns({named})"] if named else [])])


LACKING = "there is no column "
"""How the problem of a column that is not found begins."""


class Decision(NamedTuple):
    """What only the user can say about the columns of a file.

    Attributes:
        problem: What is open; empty if another decision of the file says it.
        hint: What the user can do, where nothing else is open.
        answers: Possible answers: fields of :class:`Columns`, and their values as they are written.
    """

    problem: str
    hint: str
    answers: Sequence[tuple[str, str]]


class UndecidedError(DataFileError):
    """Columns of a file, or of two files, can be read in several ways; the error names all decisions that are open.

    Args:
        look: The first rows of the file.
        asked: The arguments with which it is opened.
        decisions: The decisions.
        other: The error of the other file, if decisions are open there, too.
    """

    def __init__(
        self, look: Look, asked: Opening, decisions: Sequence[Decision], other: UndecidedError | None = None
    ) -> None:
        problem, hint = decisions[0].problem, decisions[0].hint
        self.look, self.asked, self.decisions = look, asked, decisions
        lacking = [one.problem.removeprefix(LACKING) for one in decisions if one.problem.startswith(LACKING)]
        problems = [one.problem for one in decisions if one.problem and not one.problem.startswith(LACKING)]
        problems[:0] = [LACKING + ", ".join(lacking)] if lacking else []
        self.problems = "; ".join(problems)
        if len(lacking) + len(problems) > 1 + bool(lacking) or other is not None:
            problem = f"{self.problems}; its columns are {in_words(look.names, few=6)}"
            hint = f"columns={self.answer} says it."
        if other is not None:
            problem += f"; {str(other.path).rpartition('/')[2]}: {other.problems}"
            mine, its = (self, other) if asked.role == "preds" else (other, self)
            hint = f"columns=({mine.answer}, {its.answer}) says it."
        super().__init__(look.path, problem, look.where, hint)

    @property
    def answer(self) -> str:
        """The names of columns as they are written in Python: those given, and the answers that are possible."""
        answers = {one.answers[0][0]: one.answers for one in self.decisions}
        foreign = ("labels", "gains", "gain") if self.asked.role == "preds" else ("ids", "scores", "score", "rank")
        names = given(self.asked.columns).items()
        said = [f"{field}={name!r}" for field, name in names if field not in (*answers, *foreign)]
        said += [" or ".join(f"{field}={value}" for field, value in some) for some in answers.values()]
        return f"Columns({', '.join(said)})"


def choose(look: Look, asked: Opening) -> Reading:
    """Return the reading of a table with a query, an item and perhaps a score, rank or gain in each row.

    Names given by the user come first, then names that both files have, then the usual names.

    Raises:
        UndecidedError: If a column is missing, or if two readings would give different numbers.
        DataFileError: If a column is repeated.
    """
    columns, role = asked.columns, asked.role
    value_is = _value_is(look, columns, role)
    in_order = value_is == "rank" and columns.rank == ORDER and ORDER not in look.names
    wanted = ["query", "item", *([value_is] if value_is and not in_order else [])]
    found: dict[str, str | Decision | None] = {}
    for kind in wanted:  # a column that already holds one field is not guessed to hold another field
        others = [found.get(one, getattr(columns, one)) for one in wanted if one in found or columns.is_given(one)]
        found[kind] = _find(look, kind, asked, [str(one) for one in others])
    if asked.counts_alone and isinstance(found["query"], Decision):
        found["query"] = None
    decisions = [one for one in found.values() if isinstance(one, Decision)]
    names = {field: name for field, name in found.items() if isinstance(name, str)}
    both = [field for field, name in names.items() if list(names.values()).count(name) > 1]
    if both:
        problem = f"the column {names[both[0]]!r} is named as {' and as '.join(both)}"
        raise DataFileError(look.path, problem, look.where, "name another column for one of them.")
    if value_is == "score" and is_usual(names.get("score", ""), "rank"):
        value_is = "rank"
        names["rank"] = names.pop("score")
    query = parts_of_query(names["query"], look.names) if "query" in names else ()
    value, item = names.get(value_is), names.get("item", "")
    if value_is == "rank" and value is not None and not is_usual(value, "rank"):
        is_distance = look.held(value).may_be_score or DISTANCE.search(plain(value))
        value_is = "distance" if is_distance else "rank"
    read = {*query, item, value}
    reading = Reading(
        role=role,
        query=query,
        item=item,
        value=value,
        value_is="order" if value_is == "rank" and value is None else value_is,
        guessed=any(not columns.is_given(field) and name != field for field, name in names.items()),
        unread=tuple(look.held(name) for name in look.names if name not in read),
        flags=value is not None and value_is == "gain" and _has_words(look.cells(value)),
    )
    if role is not None:
        decisions += _of_unread(asked, reading)
    if any(isinstance(found[one], Decision) for one in ("query", "item")) or look.held(item).kind == "lists":
        check_pairs(look, item)
        check_matrix(look.path, look.names, look.rows, look.where)
        check_nested(look, asked)
        others = [one for one in reading.unread if not one.may_be_score and not is_usual(one.name, "gain", "score")]
        if query and value is not None and not others:
            hint = (
                "where each line is an item, table.assign(item=range(len(table))) numbers them, for both files alike."
            )
            raise DataFileError(look.path, "no column can be the item", look.where, hint)
    spread = list(dict.fromkeys(tuple(siblings(name, look.names)) for name in ([item] if item else look.names)))
    spread = [some for some in spread if some and not any(look.held(name).may_be_score for name in some)]
    if spread and role is not None:
        field = "ids" if role == "preds" else "labels"
        said = " and ".join(f"{some[0]!r} to {some[-1]!r}" for some in spread)
        problem = f"columns {said} may be a list over columns"
        hint = " or ".join(f"columns=Columns(query=NAME, {field}={some[0]!r})" for some in spread)
        hint += " reads all of them from CSV or TSV, the best first; write a column of lists elsewhere."
        raise DataFileError(look.path, problem, look.where, hint)
    if decisions:
        raise UndecidedError(look, asked, decisions)
    _compare_with_ranks(look, reading)
    return reading


def check_nested(look: Look, asked: Opening, within: str = "") -> None:
    """Raise if labels lie deeper in objects, or in those of one column, than they are read.

    Raises:
        DataFileError: Saying where, and the dict of them that is read.
    """
    paths, deep = list[str](), list[str]()
    for name in look.names:
        cells, column = look.cells(name), f"row[{name!r}]"
        found = next(filter(None, (list(_labels_within(cell, column)) for cell in cells)), [])
        deep += [path for path in found if path != column or isinstance(cells[0], Mapping) if within in ("", name)]
        is_mixed = any(isinstance(cell, str) for cell in cells)  # a tool may write one label without a list
        paths += [f"{path} if isinstance({column}, dict) else [{column}]" if is_mixed else path for path in found]
    usual = {asked.columns.query, *f"{USUAL['query']} {FAMILIAR['query']}".split()}
    known = [name for name in look.names if {name, plain(name)} & usual and look.held(name).kind in ("text", "whole")]
    query = next((name for name in known if len(set(look.cells(name))) == len(look.rows)), None)
    each = "n: PATH for n, row in enumerate(rows)" if query is None else f"row[{query!r}]: PATH for row in rows"
    hint = f"give both as {{{each}}}, with one of these as PATH; in a file as JSON, which json.dump writes."
    if deep:
        raise DataFileError(look.path, f"its labels may lie deeper, at {', '.join(paths[:5])}", look.where, hint)


def _labels_within(value: Any, path: str) -> Iterator[str]:
    """Yield where lists of labels, and dicts from label to number, lie within the cell of a column."""
    if isinstance(value, Mapping):
        numbers = [one for one in value.values() if one is not None]
        if len(numbers) > 1 and not path.endswith("[0]") and all(isinstance(one, (int, float)) for one in numbers):
            yield path
        for name, one in value.items():
            yield from _labels_within(one, f"{path}[{name!r}]")
    elif isinstance(value, list) and value:
        yield from [path] if isinstance(value[0], str) else _labels_within(value[0], f"{path}[0]")


def _value_is(look: Look, columns: Columns, role: Role | None) -> str:
    """Return the kind of value to look for: a gain, a score, or a rank where predictions have no score."""
    if role is None:
        return ""
    if role == "target":
        return "gain"
    if columns.is_given("score") or columns.is_given("rank"):
        return "score" if columns.is_given("score") else "rank"
    scored = any(is_usual(name, "score") for name in look.names)
    return "rank" if not scored and any(is_usual(name, "rank") for name in look.names) else "score"


def parts_of_query(name: str, header: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a query: one, or several whose names are separated by commas."""
    return (name,) if name in header else tuple(part.strip() for part in name.split(","))


def _find(look: Look, field: str, asked: Opening, others: Sequence[str]) -> str | Decision | None:
    """Return the column of a field, or the decision that it needs; None for gains without a column."""
    columns, header = asked.columns, list(look.names)
    name = getattr(columns, field)
    if field == "gain" and columns.without_gain and NO_GAIN not in header:
        return None
    usual = [one for one in dict.fromkeys(header) if is_usual(one, field) and one not in others]
    if field in FAMILIAR and not usual and name not in header:
        values = sum(is_usual(one, _value_is(look, columns, asked.role)) for one in header if one not in others)
        kinds = ("text", "whole") if field == "query" else ("text",)
        known = [one for one in header if plain(one) in FAMILIAR[field].split() and one not in others]
        usual = [one for one in known if plain(one) in asked.beside or len(header) == 2 + values]
        usual = [one for one in usual if look.held(one).kind in kinds]
    candidates = [one for one in [name] if one in header] or usual
    if columns.is_given(field):
        candidates = list(parts_of_query(name, header)) if field == "query" else [name]
    elif field in ("query", "item"):
        both = [one for one in dict.fromkeys([*candidates, *usual]) if plain(one) in asked.beside]
        candidates = both if len(both) == 1 else candidates
    elif field == "score" and len(candidates) == 1:
        rivals = [look.held(one) for one in dict.fromkeys(header) if one not in (*candidates, *others)]
        candidates += [
            one.name
            for one in rivals
            if (one.name in usual and one.holds_numbers) or ("score" in plain(one.name) and one.may_be_score)
        ]
    if len(candidates) > 1 and not columns.is_given(field):
        listed = " and ".join(map(shown, candidates))
        answers = [(field, repr(one)) for one in candidates[:3]]
        hint = f"say which one it is: {' or '.join(f'columns=Columns({field}={one})' for _, one in answers)}."
        return Decision(f"the columns {listed} could both be the {field}", hint, answers)
    if field == "gain" and not candidates:
        return None
    lacking = next((one for one in candidates if one not in header), None if candidates else name)
    if lacking is not None:
        more = ", columns=Columns(rank=NAME) which one is the rank, columns=Columns(rank='order') that lines are in it"
        more = more if field == "score" else ""
        far = [one for one in header if DISTANCE.search(plain(one)) and one not in others and field == "score"]
        if far:
            either = "a distance, the lowest is best, or a score, the highest is best"
            problem = f"column {look.held(far[0])} may be {either}"
            answers = [("rank", repr(far[0])), ("score", repr(far[0]))]
            hint = " or ".join(f"columns=Columns({one}={name})" for one, name in answers)
            return Decision(problem, f"{hint} decides.", answers)
        lists = "ids" if asked.role == "preds" else "labels"
        more = f", columns=Columns({lists}=NAME) which one holds lists" if field == "item" and asked.role else more
        hint = f"its columns are {in_words(header)}; columns=Columns({field}=NAME) says which one is the {field}{more}."
        answers = [(field, "NAME"), *([("rank", "NAME"), ("rank", repr(ORDER))] if field == "score" else [])]
        answers += [(lists, "NAME")] if field == "item" and asked.role else []
        return Decision(f"{LACKING}{lacking!r}", hint, answers)
    twice = next((one for one in candidates if header.count(one) > 1), None)
    if twice is not None:
        hint = "give every column a name of its own."
        raise DataFileError(look.path, f"there are several columns {twice!r}", look.where, hint)
    return name if columns.is_given(field) else candidates[0]


def _of_unread(asked: Opening, reading: Reading) -> list[Decision]:
    """Return the decision about columns that are not read and could be the value, if nothing that was said decides."""
    columns = asked.columns
    if reading.role == "target":
        if columns.without_gain or reading.value is not None:
            return []
        several = [one for one in reading.unread if one.may_be_gain and one.name not in asked.others]
        return [may_be_gain(several)] if several else []
    if columns.is_given("score") or columns.is_given("rank") or reading.value in ("score", None):
        return []
    found = next((one for one in reading.unread if one.may_be_score and not DISTANCE.search(plain(one.name))), None)
    if found is None:
        return []
    problem = f"column {found} may be the score, or {reading.value!r} the {reading.value_is}"
    answers = [("score", repr(found.name)), (reading.value_is, repr(reading.value))]
    said = " or ".join(f"columns=Columns({field}={name})" for field, name in answers)
    return [Decision(problem, f"{said} decides.", answers)]


def may_be_gain(found: Sequence[Held]) -> Decision:
    """Return the decision about columns that may say which lines of the targets are relevant."""
    problem = f"column {' or '.join(map(str, found[:3]))} may be the gain of each line, or nothing that counts"
    numbered = [one for one in found[:3] if one.kind not in ("letters", "text")]
    answers = [("gain", repr(one.name)) for one in numbered if not one.has_empty]
    numbers = " or ".join(f"columns=Columns(gain={one.name!r})" for one in numbered)
    reads = f"{numbers} reads it" if numbers else "numbers for its letters or words make it the gain"
    reads = "with 0 in empty cells, " * any(one.has_empty for one in numbered) + reads
    hint = f"{reads}; columns=Columns(gain='none') takes each line as relevant."
    return Decision(problem, hint, [*answers, ("gain", repr(NO_GAIN))])


def varied(path: FilePath, name: str, numbers: Sequence[Any]) -> DataFileError:
    """Return the error about a column that holds one number in the first rows, and others later."""
    problem, hint, _ = may_be_gain([held(name, numbers)])
    return DataFileError(path, problem, hint=hint)


def constants(reading: Reading, columns: Columns) -> list[str]:
    """Return the columns of targets that hold one number in the first rows: they are gains if others come later."""
    if reading.role != "target" or reading.value is not None or columns.without_gain:
        return []
    return [one.name for one in reading.unread if one.kind == "constant"]


def _compare_with_ranks(look: Look, reading: Reading) -> None:
    """Warn if a column of ranks says the contrary of the scores in each query of the first rows."""
    if reading.role != "preds" or reading.value_is != "score":
        return
    keys = list(zip(*(look.cells(name) for name in reading.query), strict=True))
    scores = look.cells(str(reading.value))
    for name in (one.name for one in reading.unread if is_usual(one.name, "rank")):
        if contradicts(keys, scores, look.cells(name)):
            warn_of_ranks(look.path, str(reading.value), name)
        elif len({*zip(keys, scores, strict=True)}) < len(keys) == len({*zip(keys, look.cells(name), strict=True)}):
            said = f"{look.path}: equal values of {str(reading.value)!r} in a query have an order in {name!r}"
            warn_outside(f"{said}, which is not read; columns=Columns(rank={name!r}) reads it.")


def contradicts(queries: Sequence[Any], scores: Sequence[Any], ranks: Sequence[Any]) -> bool:
    """Whether in each query the scores rise from the first rank to the last; a query of one line says nothing."""
    found: dict[Any, list[tuple[float, float]]] = {}
    for query, score, rank in zip(queries, scores, ranks, strict=True):
        if not (is_number(str(score)) and is_number(str(rank))):
            return False
        found.setdefault(query, []).append((float(rank), float(score)))
    several = [pairs for pairs in found.values() if len(pairs) > 1]
    if any(len({rank for rank, _ in pairs}) < len(pairs) for pairs in several):
        return False  # no ranks, which stand once each
    ordered = [[score for _, score in sorted(pairs)] for pairs in several]
    return bool(ordered) and all(some == sorted(some) and some[0] < some[-1] for some in ordered)


def warn_of_ranks(path: FilePath, score: str, rank: str) -> None:
    """Warn that scores are read whose order is the reverse of the ranks."""
    said = f"{path}: {score!r} is read as the score, the highest is best, but {rank!r} says the contrary in each query"
    warn_outside(f"{said}; columns=Columns(rank={rank!r}) reads ranks. If {score!r} is a distance, they are right.")


def _has_words(cells: Sequence[Any]) -> bool:
    """Whether cells are words for 1 and 0, not numbers."""
    words = {str(cell).strip().lower() for cell in cells if isinstance(cell, (str, bool)) and cell != ""}
    return bool(words) and words <= set(FLAGS)


def in_words(names: Sequence[str], few: int = MANY_COLUMNS) -> str:
    """Return the column names as text for an error; of many columns, which may be labels, only the first three."""
    if len(names) <= few:
        return ", ".join(names)
    if few < MANY_COLUMNS:
        return f"{', '.join(names[:few])} …"
    said = f"{', '.join(names[:3])} and {len(names) - 3:,} more"
    return f"{said} (where each column is a label, write their numbers as an array, numpy.save)"


LISTENER: ContextVar[Callable[[Reading], None] | None] = ContextVar("listener", default=None)
"""A function that receives each reading; None to warn of the readings that hold a guess."""
COLLECTED: ContextVar[list[Reading] | None] = ContextVar("collected", default=None)
"""The readings of the files of one data set; None outside of :func:`collected`."""


@contextmanager
def collected() -> Iterator[list[Reading]]:
    """Collect the readings of all files that are opened within the block."""
    found: list[Reading] = []
    with with_value(COLLECTED, found):
        yield found


def say(reading: Reading) -> None:
    """Say in one sentence how a file is read; a guess is a warning where nothing listens."""
    if not is_new(str(reading)):
        return
    if reading.value_is == "score" and DISTANCE.search(plain(str(reading.value))):
        said = f"{reading.path}: {reading.value!r} is read as the score, the highest is best; if it is a distance, the "
        warn_outside(f"{said}lowest is best: columns=Columns(rank={reading.value!r}) reads it so.")
    found, listener = COLLECTED.get(), LISTENER.get()
    if found is not None:
        found.append(reading)
    if listener is not None:
        listener(reading)
    elif reading.guessed:
        warn_outside(reading.sentence, DataFileNote)


def holds_lists(whole: Sequence[str], lists: Sequence[str], columns: Columns) -> bool:
    """Whether each row of a table is a list of items, and not one item: by the given names, or the usual ones.

    Args:
        whole: Names of the columns whose cells are single values.
        lists: Names of the columns whose cells are lists.
        columns: The names given by the user.
    """
    if not lists or columns.names_lists(lists):
        return bool(lists)
    if columns.is_given("item"):
        return columns.item in lists
    items = [name for name in whole if name == columns.item or is_usual(name, "item")]
    others = [name for name in (*whole, *lists) if name not in items]
    return not (items and any(name == columns.query or is_usual(name, "query") for name in others))


FOREIGN_LISTS = {
    "preds": set(LISTED["target"].split()) - set(LISTED["preds"].split()) - {"articles", "articleid"},
    "target": set(LISTED["preds"].split()) - set(LISTED["target"].split()),
}
"""Role -> usual names of lists that only the other role has."""
GRADES = {*USUAL["gain"].split()} - {"label", "score"}
"""Usual names of a gain, without those that lists of predictions have, too."""
MANY_SCORES = 3
"""Columns of fractions from which a table is taken for scores of labels, one column for each label."""


def check_lists(look: Look, asked: Opening, name: str, role: Role) -> None:
    """Raise if a list of one role may be that of the other, or may stand beside scores, a column for each label.

    Raises:
        DataFileError: Naming the column and how scores are given.
    """
    scores = [one for one in look.names if one != name and look.held(one).may_be_score]
    fields = look.lists[name] if isinstance(look.lists.get(name), Mapping) else ()
    graded = role == "target" and any(plain(one) in GRADES for one in fields)  # which only targets are
    if graded or (plain(name) not in FOREIGN_LISTS[role] and (role == "target" or len(scores) < MANY_SCORES)):
        return
    field, own, other = ("ids", "predictions", "targets") if role == "preds" else ("labels", "targets", "predictions")
    problem = f"column {name!r} may be the {other}, not the lists of {own}"
    hint = f"columns=Columns({field}={name!r}) reads it as {own}."
    matrices = [one for one, kind in look.lists.items() if kind == "number"] if role == "preds" else []
    if role == "target" or not (scores or matrices):
        raise UndecidedError(look, asked, [Decision(problem, hint, [(field, repr(name))])])
    if matrices:
        scores_saved, target_saved = _saved("preds", repr(matrices[0])), _saved("target", repr(name), " > 0")
        saved = f"{scores_saved} if these are scores, {target_saved} if 0 and 1 stand there for each label. "
        raise DataFileError(look.path, problem, look.where, f"{saved}Or {hint}")
    problem += f"; {in_words(scores[:3])}{' …' * (len(scores) > 3)} may be scores, a column for each label"
    hint = f"write the scores alone, numpy.save('preds.npy', table[labels]), and give label_names=NAMES. Or {hint}"
    raise DataFileError(look.path, problem, look.where, hint)


def _saved(array: str, column: str, as_bool: str = "") -> str:
    """Return the call that saves a column, whose lists have one length, as the array that is read."""
    return f"numpy.save('{array}.npy', numpy.stack(table[{column}]){as_bool})"


LIST_HINT = (
    "columns=Columns(ids=NAME), and so on for scores, labels and gains, names columns of lists; "
    "columns=Columns(query=NAME), and so on for item and score, those of a line for each item."
)


def choose_lists(look: Look, asked: Opening) -> Reading:
    """Return the reading of a table in which each row holds a list of labels, perhaps beside one of their values.

    Without a role, lists are predictions if a column has a usual name of these, otherwise targets.

    Raises:
        DataFileError: If the columns cannot be told, or if lists of predictions may be targets.
    """
    columns = asked.columns
    listed = any(plain(name) in LISTED["preds"].split() for name in look.types) and columns.labels not in look.types
    role = asked.role or ("preds" if columns.ids in look.types or listed else "target")
    label, value_is = ("ids", "score") if role == "preds" else ("labels", "gain")
    fields = [f"{value_is}s", value_is, *(["rank"] if role == "preds" else [])]
    said = [one for one in fields if columns.is_given(one) and getattr(columns, one) not in (ORDER, NO_GAIN)]
    named = getattr(columns, said[0]) if said else None
    item, number = _columns_of_lists(look, asked, role, label, named)
    within = ""
    if isinstance(look.lists.get(item), Mapping):
        within, (item, number) = item, _fields_of_structs(look, item, value_is, columns.item, named)
    else:
        _check_list(look, item, ("whole", "text"), "whole numbers or strings")
    if named is None and _says_none(columns, role):
        number = None
    kind = None if number is None else (look.lists[within] if within else look.lists).get(number)
    if within and number is not None and kind not in NUMBERS:
        hint = f"numbers make it the {value_is}; columns=Columns({WITHOUT[role]}) reads none."
        raise DataFileError(look.path, f"the field {number!r} of column {within!r} is {kind}", hint=hint)
    if number is not None and not within:
        _check_list(look, number, NUMBERS, "numbers")
    found = _find(look, "query", asked, ())
    if isinstance(found, Decision) and columns.is_given("query"):
        raise _lacks(look, next(one for one in parts_of_query(columns.query, look.names) if one not in look.names))
    query = parts_of_query(found, look.names) if isinstance(found, str) else ()
    read = {within or item, *query, None if within else number}
    unread = [look.held(name) for name in look.types if name not in read]
    inside = look.lists[within] if within else {}
    unread += [Held(f"{within}.{name}", "lists", "lists") for name in inside if name not in (item, number)]
    is_low = said[:1] == ["rank"] or (named is None and role == "preds" and is_usual(str(number), "rank"))
    if number is not None and is_low:
        is_rank = (within and is_usual(number, "rank")) or (kind == "whole" and not DISTANCE.search(plain(number)))
        value_is = "rank" if is_rank else "distance"
    return Reading(
        role=role,
        query=query,
        item=item,
        within=within,
        value=number,
        value_is=value_is if number is not None else _said_of_none(columns, role),
        listed=True,
        unread=tuple(unread),
        guessed=(within or item) not in (label, getattr(columns, label)) or bool(query and found != columns.query),
    )


def _columns_of_lists(look: Look, asked: Opening, role: Role, label: str, named: str | None) -> tuple[str, str | None]:
    """Return the columns of labels and of their values, None without values: by given names, or by usual ones."""
    columns = asked.columns
    item, number = getattr(columns, label), named or (columns.scores if role == "preds" else columns.gains)
    if not columns.is_given(label) and columns.is_given("item") and columns.item in look.lists:
        item = columns.item
    elif not columns.is_given(label) and item not in look.types:
        structs = [name for name, kind in look.lists.items() if isinstance(kind, Mapping)]
        labels = [name for name, kind in look.lists.items() if kind in ("text", "whole") and name != named]
        usual = [name for name in (*structs, *labels) if plain(name) in LISTED[role].split()]
        own = [name for name in structs if plain(name) not in FOREIGN_LISTS["target"]]
        order = (structs, usual, labels) if role == "preds" else (usual, own, labels or structs)
        item = next((some[0] for some in order if len(some) == 1), item)
        if asked.role == "target" or (role == "preds" and item in labels and not usual and not structs):
            check_lists(look, asked, item, role)
    if number in look.types:
        return item, number
    if named is not None and not isinstance(look.lists.get(item), Mapping):
        raise _lacks(look, named)
    numbers = [one for one, kind in look.lists.items() if one != item and kind in NUMBERS]
    labels = LISTED[role].split()
    numbers = [one for one in numbers if look.lists[one] == "number" or plain(one) not in labels]
    several = [[one for one in numbers if _is_usual_list(one, kind)] for kind in VALUES[role]]
    return item, next((some[0] for some in several if len(some) == 1), None)


VALUES = {"preds": ("score", "rank"), "target": ("gain",)}
"""Role -> the kinds of numbers that its labels may have."""
WITHOUT = {"preds": f"rank={ORDER!r}", "target": f"gain={NO_GAIN!r}"}
"""Role -> what says that labels have no numbers."""
NUMBERS = ("whole", "number", "bool")
"""What the entries of lists of scores, ranks or gains are."""


def _is_usual_list(name: str, field: str) -> bool:
    """Whether a name, or its singular, is a usual one of a field; of a gain, if no score has it."""
    singular = plain(name).removesuffix("s")
    return singular in GRADES if field == "gain" else is_usual(name, field) or is_usual(singular, field)


def _says_none(columns: Columns, role: Role | None) -> bool:
    """Whether the user said that the labels of lists have no numbers."""
    return columns.without_gain if role == "target" else columns.rank == ORDER


def _said_of_none(columns: Columns, role: Role | None) -> str:
    """Return what orders lists without numbers, or makes their labels relevant, if the user said so."""
    return ("gain" if role == "target" else "order") if role and _says_none(columns, role) else ""


def numbers_beside(look: Look, asked: Opening, found: Reading) -> list[str]:
    """Return the columns of lists, or the fields of objects, that may be the numbers of labels and are not read."""
    role = asked.role
    if role is None or found.value is not None or _says_none(asked.columns, role):
        return []
    if found.within:
        return [name for name, kind in look.lists[found.within].items() if name != found.item and kind in NUMBERS]
    numbers = [name for name, kind in look.lists.items() if name != found.item and kind in NUMBERS]
    known = [one for one in numbers if any(_is_usual_list(one, kind) for kind in VALUES[role])]
    known += [one for one in numbers if DISTANCE.search(plain(one)) and role == "preds"]
    theirs = VALUES["target" if role == "preds" else "preds"]  # in a table of both roles
    foreign = [one for one in numbers if len(look.lists) > 2 and any(_is_usual_list(one, kind) for kind in theirs)]
    return [one for one in numbers if one in known or (look.lists[one] == "number" and one not in foreign)]


def check_beside(look: Look, asked: Opening, found: Reading, beside: Sequence[str]) -> None:
    """Raise if numbers beside the labels of lists are open: nothing that was said decides what they are.

    Args:
        look: The first rows of the columns of lists.
        asked: The arguments with which the file is opened.
        found: How it would be read.
        beside: The columns of numbers, or the fields of objects; a number belongs to a label if lists are as long.

    Raises:
        UndecidedError: Naming the first of them, and what it may be.
    """
    lengths = [len(cell or ()) for cell in look.cells(found.within or found.item)]
    for name in beside:
        cells = look.cells(found.within or name)
        entries = [one for cell in cells for one in cell or ()]
        entries = [(one or {}).get(name) for one in entries] if found.within else entries
        numbers = held(f"{found.within}.{name}" if found.within else name, entries)
        may_be = numbers.may_be_gain if asked.role == "target" else numbers.kind not in ("nothing", "flags")
        if may_be and [len(cell or ()) for cell in cells] == lengths:
            raise UndecidedError(look, asked, [_of_lists(numbers, name, "" if found.within else "s", asked.role)])


def _of_lists(numbers: Held, name: str, several: str, role: Role | None) -> Decision:
    """Return the decision about numbers beside the labels of lists."""
    may_be = "the gain of each label, or nothing that counts"
    answers = [(f"gain{several}", repr(name)), ("gain", repr(NO_GAIN))]
    if role == "preds":
        may_be = "the score (highest best), a rank or distance (lowest best), or neither (lists are best first)"
        answers = [(f"score{several}", repr(name)), ("rank", repr(name)), ("rank", repr(ORDER))]
    hint = " or ".join(f"columns=Columns({field}={value})" for field, value in answers)
    return Decision(f"column {numbers} may be {may_be}", f"{hint} decides.", answers)


def _fields_of_structs(look: Look, name: str, value_is: str, item: str, named: str | None) -> tuple[str, str | None]:
    """Return two fields of a column of structs: the label, and its score, rank or gain (None without such a field)."""
    fields = dict(look.lists[name])
    ids = [one for one in fields if one == item or is_usual(one, "item") or plain(one) in IDS if one != named]
    ids = [item] if item in ids else ids
    kinds = ("score", "rank") if value_is == "score" else ("gain",)
    usual = [[one for one in fields if one not in ids and (one == kind or is_usual(one, kind))] for kind in kinds]
    values = [one for one in fields if one == named] if named else next(filter(None, usual), [])
    several = value_is == "score" and sum(fields[one] in NUMBERS for one in values) > 1  # such as bm25 beside score
    values = [value_is] if value_is in values and not several else values
    wrong = len(ids) != 1 or len(values) > 1 or (named is not None and not values)
    if wrong or fields[ids[0]] not in ("text", "whole"):
        kind = look.types[name].partition("<")[2]
        said = f"{'ids' if value_is == 'score' else 'labels'}={name!r}, item=NAME, {value_is}=NAME"
        hint = f"columns=Columns({said}) says which field is the label, and which its {value_is}."
        raise DataFileError(look.path, f"column {name!r} is a list of {kind.partition(': ')[2][:-1]}", hint=hint)
    return ids[0], next(iter(values), None)


def _check_list(look: Look, name: str, kinds: Sequence[str], needed: str) -> None:
    if name not in look.types:
        raise _lacks(look, name)
    if look.lists.get(name) not in kinds:
        problem = f"column {name!r} is {look.types[name]}"
        raise DataFileError(look.path, problem, hint=_stacked(look) or f"it needs one list of {needed} per row.")


def _stacked(look: Look) -> str:
    """Return the hint for a table whose only lists are numbers; empty for another."""
    numbers = list(look.lists) if all(kind == "number" for kind in look.lists.values()) else []
    name = repr(numbers[0]) if len(numbers) == 1 else "NAME"
    saved = f"if {name} holds a score for each label, {_saved('preds', name)} writes the array that is read."
    return saved if numbers else ""


def _lacks(look: Look, name: str) -> DataFileError:
    check_matrix(look.path, look.names, look.rows)
    stacked = _stacked(look)
    more = "" if stacked else f"; its columns are {in_words(list(look.types))}"
    return DataFileError(look.path, f"has no column {name!r}{more}", hint=stacked or LIST_HINT)


NAMED = ["label", "labelid", "name", "code", "codes", "class", "category", "tag"]
"""Usual names of the column of labels beside their counts, in addition to the usual names of items."""


def choose_counts(look: Look, columns: Columns, has_names: bool) -> tuple[str, str]:
    """Return the names of the columns of labels and of counts.

    Names given by the user come first, then usual names; of two columns, the one of whole numbers is the count. The
    name of the label column is "" in a file that holds counts alone.

    Raises:
        DataFileError: If more than one choice is possible.
    """
    header = list(look.names)
    known = header if has_names else []
    label, count = (given(columns).get(field, "") for field in ("item", "gain"))
    usual = [name for name in known if is_usual(name, "item") or plain(name) in NAMED]
    usual = ["label"] if "label" in known else usual
    label = label if label in header else usual[0] if len(usual) == 1 else ""
    count = count if count in header else "count" if "count" in known else ""
    if len(header) == 1 and not label:
        count = header[0]
    elif len(header) == 2 and not count:
        others = [name for name in header if name != label]
        whole = [name for name in others if all(re.fullmatch("[0-9]+", cell) for cell in look.cells(name))]
        count = whole[0] if len(whole) == 1 else ""
        if count:
            note(look.path, f"column {count!r} is the count; columns=Columns(item=NAME, gain=NAME) chooses others.")
    if len(header) == 2 and count:
        label = label or next((name for name in header if name != count), "")
    if not count or (len(header) > 1 and not label) or len(set(header)) < len(header):
        hint = "columns=Columns(item=NAME, gain=NAME) says which column holds the labels, and which their counts."
        problem = f"nothing tells labels from counts in its columns {', '.join(header)}"
        raise DataFileError(look.path, problem, look.where, hint)
    return label, count


def own_columns(columns: Columns, own: Sequence[str], other: Collection[str]) -> Columns:
    """Return the given names without those that only the other file has: they were meant for it alone."""
    if not own:
        return columns
    lacking = {
        field: _Default(field)
        for field, name in given(columns).items()
        if all(part not in own and part in other for part in parts_of_query(name, own))
    }
    return replace(columns, **lacking) if lacking else columns


# -- first lines -----------------------------------------------------------------------------------------------------

PARQUET, ARROW, FEATHER_1, STREAM = b"PAR1", b"ARROW1", b"FEA1", b"\xff\xff\xff\xff"
"""First bytes of Parquet, Arrow, Feather 1 and an Arrow stream, which ``datasets`` saves."""
QUOTED = (",", ";", "|")
"""Delimiters of formats in which a field can be quoted."""
BETWEEN = re.compile(r"[\s;|,]+")
BETWEEN_LABELS = (";", "|", ",")
"""Separators of the labels in a cell, apart from blanks; codes, ids and words hold none of them."""
BLANK = " \t\v\f\r"
EARLIEST = 10**8
"""Whole numbers from here on are times, such as seconds since 1970 in files of ratings; lower numbers are grades."""


class Head:
    """The first 64 kB of a file, decompressed; more if the first line is longer.

    Attributes:
        data: The bytes.
        path: The file.
        columns: The column names given by the user.
        role: What the file holds; None if it may hold either.
        given: The delimiter given by the user.
        quoted: Whether a field may stand in quotes, whatever the delimiter; None to find out from the lines.
    """

    def __init__(self, asked: Opening, quoted: bool | None = None) -> None:
        self.quoted = quoted
        self.path, self.role, self.columns = asked.path, asked.role, asked.columns
        self.data = head(asked.path)
        self.given = None if asked.delimiter is None else asked.delimiter.replace("\\t", "\t")
        self._fields: dict[str, list[list[str]]] = {}

    @cached_property
    def _whole(self) -> list[str]:
        cut = len(self.data) >= HEAD_BYTES and not self.data.endswith(b"\n")
        whole = self.data.removeprefix(b"\xef\xbb\xbf").splitlines()
        return [line.decode(errors="replace") for line in (whole[:-1] if cut else whole)]

    @cached_property
    def lines(self) -> list[str]:
        """The lines that are not blank; a last line that the 64 kB cut off is left out."""
        return [line for line in self._whole if line.strip()]

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of each line, without comment lines."""
        return [line.split() for line in self.lines if not line.startswith("#")]

    def fields(self, delimiter: str) -> list[list[str]]:
        """Return the fields of each record; of a record that the 64 kB cut off, none."""
        if delimiter not in self._fields:
            found = [fields for _, fields in records(enumerate(self._whole, 1), delimiter, self.is_quoted(delimiter))]
            is_cut = len(found) > 1 and not found[-1] and len(self.data) >= HEAD_BYTES
            self._fields[delimiter] = found[:-1] if is_cut else found
        return self._fields[delimiter]

    def is_quoted(self, delimiter: str) -> bool:
        """Whether a field may stand in quotes: with some delimiters always, with tabs where the lines show it."""
        if delimiter in QUOTED or self.quoted is not None:
            return delimiter in QUOTED or (self.quoted is True and len(delimiter) == 1)
        return delimiter == "\t" and are_quoted(self._whole, delimiter, len(self.data) >= HEAD_BYTES)

    def delimiter(self, first: str, form: str) -> str:
        """Return the delimiter of a table's fields, from its first line; for lists, from all its first lines.

        Raises:
            DataFileError: If two delimiters divide all lines alike, and no name of a column decides.
        """
        if self.given is not None and self.given in ("\n".join(self.lines) if form == "lists" else first):
            return self.given
        if form == "tsv":
            return "\t"
        possible = ["::", ",", ";", "\t"] if form == "csv" else [",", "\t", ";"]
        possible += ["|"] if suffix_of(self.path) == "psv" or self.knows(first.split("|")) else []
        lines = [first, *(self.lines if form == "lists" and not any(one in first for one in possible) else ())]
        counts = {one: max(len(split(line, one) or line.split(one)) for line in lines) for one in possible}
        alike = [one for one in possible if form == "lists" and {*map(len, self.fields(one))} == {counts[one]} != {1}]
        alike = [one for one in alike if self.comes_first(one)] or alike
        return "::" if counts.get("::", 0) > 2 else max(alike or possible, key=lambda one: counts[one])

    def comes_first(self, delimiter: str) -> bool:
        """Whether no other separator of labels stands before the delimiter in each of the lines."""
        firsts = [row[0] for row in self.fields(delimiter) if row]
        return not any(all(one in first for first in firsts) for one in BETWEEN_LABELS if one != delimiter)

    def knows(self, fields: Sequence[str]) -> bool:
        """Whether any of the fields is a column name that the user gave, or a usual column name."""
        given = {value for value in vars(self.columns).values() if not value.isdecimal()}
        known = IDS.union(*(usual.split() for usual in (*USUAL.values(), *LISTED.values())))
        if {plain(name) for name in fields} <= known.union(*(some.split() for some in FAMILIAR.values())):
            return True
        return any(name in given or plain(TYPED.sub("", name)) in known for name in fields)

    def has_names(self, fields: Sequence[str]) -> bool:
        """Whether the first line names the columns: it holds a known name, or it holds no number and no list."""
        return self.knows(fields) or not any(is_number(name) or re.search("[;|]", name) for name in fields)

    def check_names(self, delimiter: str, fields: Sequence[str], where: str, asked: Opening) -> None:
        """Raise if the first line may be names or data: it has no known name, and below it no column is all numbers."""
        rows = [row for row in self.fields(delimiter)[1:] if len(row) == len(fields)]
        if self.knows(fields) or (rows and any(all(map(is_number, column)) for column in zip(*rows, strict=True))):
            return
        *query, item = map(str, range(len(fields)))
        key = ",".join(query if len(fields) == 3 else ["0"])
        problem = f"{' and '.join(map(repr, fields))} may be names of columns, or data without names"
        hint = f"if names, columns=Columns(query=NAME, item=NAME); if not, columns=Columns(query={key!r}, "
        hint += f"item={item if len(fields) == 3 else '1'!r})."
        answers = [[(field, "NAME"), (field, repr(place))] for field, place in (("query", key), ("item", item))]
        decisions = [Decision(problem, hint, answers[0]), Decision("", hint, answers[1])]
        raise UndecidedError(Look(self.path, fields, rows, where), asked, decisions)

    def check_unnamed(self, delimiter: str) -> None:
        """Raise unless lines have the form of ratings (:meth:`is_unnamed`), whose columns are told by their places.

        Raises:
            DataFileError: Saying how places are given.
        """
        if not self.is_unnamed(delimiter):
            rows = self.fields(delimiter)
            behind = [*zip(*rows, strict=False)][2:]
            score = 2 + next((place for place, cells in enumerate(behind) if held("", cells).may_be_score), 0)
            hint = f"columns=Columns(query='0', item='1', score='{score}') names columns by their places, from 0; "
            hint += "format='lists' takes all fields behind the first one as the list of its labels."
            check_matrix(self.path, (), rows[1:], "line 1")
            raise DataFileError(self.path, "does not name its columns, and they do not tell", "line 1", hint)

    def is_unnamed(self, delimiter: str) -> bool:
        """Whether each line holds a query, an item, and perhaps a number and then a time, as in files of ratings."""
        rows = self.fields(delimiter)
        if not rows or {len(row) for row in rows} not in ({2}, {3}, {4}):
            return False
        if any(is_number(name) and not _is_whole(name) for row in rows for name in row[:2]):
            return False  # a matrix of numbers
        numbered = all(is_number(number) for row in rows for number in row[2:])
        return numbered and all(float(time) >= EARLIEST for row in rows for time in row[3:])


def are_quoted(lines: Iterable[str], delimiter: str, is_cut: bool = False) -> bool:
    """Whether all fields with quotes stand in quotes as in CSV, those inside them doubled, and there is such a field.

    CSV has no other quotes: where one stands elsewhere, quotes are characters. ``is_cut`` says that lines may lack.
    """
    tab = re.escape(delimiter)
    field = f'(?:"[^"]*(?:""[^"]*)*"|[^"{tab}]*)'
    record, taken, found = re.compile(f"{field}(?:{tab}{field})*"), "", False
    for line in lines:
        if not taken and '"' not in line:
            continue
        taken += line + "\n"
        if taken.count('"') % 2 and len(taken) < HEAD_BYTES:  # the quote may close in a line below
            continue
        texts = enumerate(taken[:-1].split("\n"))
        if not record.fullmatch(taken[:-1]) or not next(records(texts, delimiter, quoted=True))[1]:
            return False
        taken, found = "", True
    return found and (is_cut or not taken)


def split(line: str, delimiter: str, quoted: bool | None = None) -> list[str]:
    """Return the fields of a record, stripped of blanks; an empty list if its quotes are wrong."""
    quoted = delimiter in QUOTED if quoted is None else quoted
    try:
        fields = next(csv.reader([line], delimiter=delimiter, strict=True), []) if quoted else None
    except csv.Error:
        return []
    return [field.strip(" \t\r") for field in (line.split(delimiter) if fields is None else fields)]


def records(lines: Iterable[tuple[int, str]], delimiter: str, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of each record, and its fields: none if its quotes are wrong.

    A field in quotes may hold ends of lines. A record whose lines have all as many fields as it has itself may as well
    be several records with quotes inside: its quotes are wrong.
    """
    if not quoted:
        yield from ((number, split(text, delimiter, quoted)) for number, text in lines if text.strip(BLANK))
        return
    taken: list[tuple[int, str]] = []

    def texts() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line[1] + "\n"

    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    fields: list[str] | None = []
    while fields is not None:
        taken.clear()
        try:
            fields = next(reader, None)
        except csv.Error:
            fields = []
        if fields is None or (len(taken) == 1 and not taken[0][1].strip(BLANK)):
            continue
        if len(taken) > 1 and all(text.count(delimiter) == len(fields) - 1 for _, text in taken):
            fields = []
        yield taken[0][0], [field.strip(" \t\r") for field in fields]


def check_matrix(path: FilePath, names: Sequence[str], rows: Sequence[Sequence[Any]], where: str = "") -> None:
    """Raise if rows are numbers behind the first column, four or more, and no name is usual for an item or a value.

    Raises:
        DataFileError: Saying how the numbers, and the names of the labels, are given.
    """
    cells = [[str(cell).strip().lower() for cell in row[1:]] for row in rows]
    if len(cells) < 2 or not 4 <= len(cells[0]) == min(map(len, cells)) == max(map(len, cells)):
        return
    if not all(is_number(cell) or cell in FLAGS for row in cells for cell in row):
        return
    if not any(is_usual(name, "item", "score", "rank") for name in names[1:]):
        saved = "numpy.save('array.npy', table[labels].to_numpy()) writes their numbers"
        hint = f"{saved} (of text without names those that numpy.loadtxt reads); label_names=FILE names the labels."
        first = [str(row[0]) for row in rows]
        # names of rows: distinct, no fractions, and no numbers of the lines
        is_key = len({*first}) == len(first) > 2 and "." not in first[0] and first != [*map(str, range(len(first)))]
        if names and is_key:
            hint = f"table.rename({{{names[0] or 'Unnamed: 0'!r}: 'query'}}, axis=1).melt('query', var_name='item', "
            hint += f"value_name='score').to_csv(FILE, index=False) joins by {names[0]!r}; beside an array, {saved}."
        raise DataFileError(path, "looks like a table with a column for each label", where, hint)


def siblings(name: str, header: Sequence[str]) -> list[str]:
    """Return the columns whose names differ from a name by their number alone, in its order: a list over columns."""
    stem = name.rstrip("0123456789")
    found = {int(one[len(stem) :]): one for one in header if re.fullmatch(re.escape(stem) + "[0-9]{1,4}", one)}
    numbers = sorted(found)
    is_one = len(numbers) > 2 and stem and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return [found[one] for one in numbers] if is_one and name in header else []


def check_pairs(look: Look, item: str = "") -> None:
    """Raise if columns with the same numbers stand side by side, such as item_1, score_1, item_2, score_2.

    Raises:
        DataFileError: Saying how to write a line for each item.
    """
    found: dict[str, list[str]] = {}
    for name in look.names:
        stem = name.rstrip("0123456789")
        found.setdefault(stem if stem != name else "", []).append(name.removeprefix(stem))
    stems = [stem for stem, numbers in found.items() if stem and len(numbers) > 1]
    alike = [stem for stem in stems if found[stem] == found[stems[0]]]
    others = [name for name in look.names if name.rstrip("0123456789") not in alike]
    if len(alike) < 2 or (item and item not in others and item.rstrip("0123456789") not in alike):
        return
    numbers = [stem for stem in alike if all(map(is_number, map(str, look.cells(stem + found[stem][0]))))]
    if numbers and (len(numbers) < len(alike) or any(is_usual(stem, "item") for stem in alike)):
        said = ", ".join(repr(stem + found[stem][0]) for stem in alike[:3])
        problem = f"columns {said} and those of the next numbers may hold an item and its number each"
        key = repr(others[0]) if len(others) == 1 else "NAME"
        hint = f"pandas.wide_to_long(table, {alike[:3]}, i={key}, j='place').reset_index() makes a line for each item."
        raise DataFileError(look.path, problem, look.where, hint)


def is_run(head: Head) -> bool:
    """Whether the first line is a line of a TREC run: query, a word, document, rank, score, tag."""
    first = next(iter(head.words), [])
    return len(first) >= 6 and _is_whole(first[3]) and is_number(first[4])


def is_qrels(head: Head) -> bool:
    """Whether the first line is a line of qrels: query, a word, document, grade; a time is not a grade."""
    first = next(iter(head.words), [])
    return len(first) == 4 and _is_whole(first[3]) and float(first[3]) < EARLIEST


def is_trec(head: Head) -> bool:
    """Whether a file is a TREC run or qrels."""
    return is_run(head) or is_qrels(head)


def is_lists(head: Head) -> bool:
    """Whether lines hold a query and the list of its labels, as in Kaggle submissions."""
    return any(_are_lists(head, one) for one in ([head.given] if head.given else (",", "\t", ";")))


def _are_lists(head: Head, delimiter: str) -> bool:
    """Whether fields with this delimiter are a query and the list of its labels.

    The user may have named the column; otherwise lines have two fields, and the second holds several words in one line
    at least. Words of titles mostly have no digit, and a column of items holds one of them per line.
    """
    header, *rows = head.fields(delimiter) or [[]]
    rows = [row for row in rows if row]  # wrong quotes are an error when the file is read
    if head.columns.names_lists(header[1:]):
        return True
    if len(header) < 2 or any(len(row) != len(header) for row in rows) or not head.comes_first(delimiter):
        return False
    columns, has_names = head.columns, are_names(header)
    if columns.by_place:
        has_names = head.knows(header)
        columns = columns.by_names(header) if has_names else columns
    if not has_names:
        header, rows = [str(place) for place in range(len(header))], [header, *rows]
    if columns.names_lists(header):
        return True
    look, spread = Look(head.path, header, rows), siblings(header[-1], header)
    if len(spread) == len(header) - 1 and look.held(header[-1]).kind in ("text", "whole"):
        return not columns.is_given("item")
    if columns.is_given("item") and columns.item in header:
        others = [name for name in header if name != columns.item]
        return head.role != "preds" and not columns.is_given("query") and len(others) == 1 and has_names
    query = columns.query if columns.query in header else header[0]
    if len(header) > 2 or not rows or query == header[1] or is_usual(header[1], "query"):
        return False
    single = ("score", "rating", "probability", "similarity")  # such columns hold one number, not a list
    known = not has_names or columns.item in header
    known = known or any(is_usual(name, "item") or name.lower() in single for name in header)
    words = [labels_in(cell, None, BETWEEN.pattern) for cell in look.cells(header[1])]
    several = max(map(len, words), default=0) > 1
    if len(set(look.cells(query))) < len(rows):  # lists, although a query comes twice
        return several and not known
    return not known or (several and all(re.search(r"\d", word) for some in words for word in some))


def _are_several(look: Look, column: str, asked: Opening) -> bool:
    """Whether the cells of a column are lists, and not one label each, such as a name with a blank.

    Names that the user gave decide, then the labels of the other files; else codes are lists, and words that come in
    several cells, as labels do.

    Raises:
        DataFileError: If nothing decides.
    """
    columns, cells = asked.columns, look.cells(column)
    if asked.role == "preds" or columns.names_lists(look.names):
        return True
    if columns.is_given("item") and columns.item == column:
        return False
    split = {cell: labels_in(cell, None, BETWEEN.pattern) for cell in cells}
    several = {cell: words for cell, words in split.items() if len(words) > 1}
    labels = asked.labels() if several and asked.labels is not None else None
    if labels is None:
        return True
    are_whole = any(cell in labels for cell in several)
    are_split = any(word in labels for cell, words in several.items() if cell not in labels for word in words)
    if are_whole != are_split:
        return are_split
    rows = Counter(word for cell in cells for word in set(split[cell]))
    found = {word for words in several.values() for word in words}
    if not are_whole and (
        any(re.search(r"[\d;|,]", cell) for cell in several) or 2 * sum(rows[word] > 1 for word in found) >= len(found)
    ):
        return True
    raise one_or_several(look.path, column, next(iter(several)), look.where)


def one_or_several(path: FilePath, column: str, cell: str, where: str) -> DataFileError:
    """Return the error about a cell that may be a list, or one label that holds a blank."""
    problem = f"column {column!r} may hold lists, or one label in each line, such as {cell[:80]!r}"
    hint = f"columns=Columns(labels={column!r}) reads lists; columns=Columns(item={column!r}) reads one label."
    return DataFileError(path, problem, where, hint)


def understand_lists(look: Look, asked: Opening, has_names: bool, all_fields: bool) -> Reading:
    """Return the reading of lines with a query and a list of its labels.

    Raises:
        DataFileError: If the columns cannot be told.
    """
    header, columns = list(look.names), asked.columns
    wanted = ["ids", "item", "labels"] if asked.role == "preds" else ["labels", "item", "ids"]
    column = next((getattr(columns, one) for one in wanted if getattr(columns, one) in header), None)
    if column is None and has_names and not are_names(header):
        problem = f"{' and '.join(map(shown, header[:3]))} are no names of columns"
        raise DataFileError(look.path, problem, look.where, "the first line names the two columns: id,predicted.")
    column = next((one[0] for one in (siblings(header[-1], header),) if len(one) == len(header) - 1), column)
    if column is None and len(header) != 2 and not all_fields:
        hint = f"columns=Columns(query=NAME, {wanted[0]}=NAME) names the column of the query and that of the lists."
        raise DataFileError(look.path, f"has {len(header)} columns, not 2", look.where, hint)
    if all_fields or column is None:
        column = header[int(all_fields or columns.query != header[1])]
    spread = header[1:] if all_fields else siblings(column, header)
    query = tuple(name for name in header if name not in (column, *spread))
    if len(query) > 1:
        query = choose(look, asked._replace(role=None, columns=replace(columns, item=column))).query
    cells = [cell for cell in look.cells(column) if isinstance(cell, str)]
    between = next((one for one in BETWEEN_LABELS if any(one in cell for cell in cells)), None)
    if not (spread and _says_none(columns, asked.role)) and not all_fields:
        check_pairs(look, column)
    read = {*query, column, *spread}
    said = f"columns {spread[0]!r} to {spread[-1]!r} are its list" if spread else ""
    said = "all fields behind the query are its list" if all_fields else said
    listed = bool(spread) or _are_several(look, column, asked)
    _check_text_beside(look, asked, column, [name for name in header if name not in read])
    return Reading(
        role=asked.role,
        query=query,
        item=column,
        listed=listed,
        value_is="order" if asked.role == "preds" else _said_of_none(columns, asked.role) if listed else "gain",
        unread=tuple(look.held(name) for name in header if name not in read),
        between=between if listed and not spread else None,
        guessed=column not in map(given(columns).get, wanted),
        holds=said,
    )


def _check_text_beside(look: Look, asked: Opening, column: str, others: Sequence[str]) -> None:
    """Raise if a column beside lists in text is named as their numbers, or holds as many numbers as they have labels.

    Raises:
        DataFileError: Saying how lists with numbers are given.
    """
    columns, role = asked.columns, asked.role
    fields = ("gains", "gain") if role == "target" else ("scores", "score", "rank")
    named = [name for name in others if name in (getattr(columns, one) for one in fields if columns.is_given(one))]
    if not named and (role is None or _says_none(columns, role)):
        return
    lengths = [len(BETWEEN.split(cell.strip())) for cell in look.cells(column)]
    for name in named or others:
        numbers = [re.split(r"[\s;|,]+", cell.strip("[] ")) for cell in look.cells(name)]
        if named or (
            max(lengths, default=0) > 1
            and [len(some) for some in numbers] == lengths
            and all(is_number(one) for some in numbers for one in some)
        ):
            problem = f"column {name!r} may hold the {fields[0]} of the labels in {column!r}; lists in text have none"
            listed = "labels" if role == "target" else "ids"
            hint = (
                f'write JSON Lines, {{"query": "q", "{listed}": ["a", "b"], "{fields[0]}": [0.5, 0.25]}} in each line; '
                f"columns=Columns({listed}={column!r}, {WITHOUT[role or 'preds']}) reads no {fields[0]}."
            )
            raise DataFileError(look.path, problem, look.where, hint)


FRACTION = re.compile(r"-?\d*\.\d+(e[+-]?\d+)?|-?\d+e-\d+")
"""A number that is no whole number, as scores are written."""


def check_labels_alone(look: Look, found: Reading, all_fields: bool) -> None:
    """Raise if each label of the lists may have its score behind it, and the user did not name their column.

    Raises:
        DataFileError: Saying how the words are read as labels, and how scores are given.
    """
    place = look.names.index(found.item)
    rows = [row[1:] if all_fields else labels_in(row[place], found.between) for row in look.rows]
    numbers = [[FRACTION.fullmatch(word) is not None for word in row] for row in rows]
    in_turn = any(numbers) and all(some == [False, True] * (len(some) // 2) for some in numbers)
    if in_turn and found.listed and found.guessed:
        said = f"query={','.join(found.query)!r}, {'ids' if found.role == 'preds' else 'labels'}={found.item!r}"
        hint = f"columns=Columns({said}) reads words as labels; with scores write {{query: {{label: score}}}} as JSON."
        raise DataFileError(look.path, "labels and numbers stand in turn, as scores behind labels do", look.where, hint)


def is_all_behind(columns: Columns) -> bool:
    """Whether the user named the first column as the query, and the one behind it or none as the list."""
    named = {field: name for field, name in given(columns).items() if field in ("query", "item", "ids", "labels")}
    return named.pop("query", "0") == "0" and set(named.values()) <= {"1"}


def labels_in(cell: str, between: str | None, blanks: str = "[ \t\v\f\r]+") -> list[str]:
    """Return the labels of a cell that are separated by a character, or by blanks."""
    found = re.split(blanks, cell) if between is None else cell.split(between)
    return [label for label in (one.strip(" \t\v\f\r") for one in found) if label]


def joined(parts: Sequence[str]) -> str:
    """Return one name for a query of several columns; parts that differ never give the same name."""
    if len(parts) == 1:
        return parts[0]
    return "" if "" in parts else ",".join(part.replace("\\", "\\\\").replace(",", "\\,") for part in parts)


def sql_joined(parts: Sequence[str]) -> str:
    """Return the SQL of :func:`joined`; null if a part is null."""
    if len(parts) == 1:
        return parts[0]
    return " || ',' || ".join(f"replace(replace({part}, '\\', '\\\\'), ',', '\\,')" for part in parts)


def are_names(header: Sequence[str]) -> bool:
    """Whether words can be column names, and not data such as the query ``7`` and its list ``a b``."""
    return not any(is_number(name) or len(re.split(r"[\s;|]", name)) != 1 for name in header)


def _is_whole(word: str) -> bool:
    return word.lstrip("+-").isdigit()


def is_number(word: str) -> bool:
    """Whether a word is a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True
