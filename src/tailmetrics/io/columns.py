"""The columns of a file: names to look for, and the choice of the columns of query, item and value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from tailmetrics.io.errors import DataFileError, note
from tailmetrics.io.files import FilePath

Role: TypeAlias = Literal["preds", "target"]
"""What a file holds: predictions or targets. Functions also take None, to read only the names of its labels."""


NO_GAIN = "none"
"""The value of ``Columns.gain`` for "read no gains"."""


@dataclass(frozen=True)
class Columns:
    """Names of columns.

    If one of the last five names is left at its default and the file has no such column, the reader tries the usual
    names, such as ``user_id`` or ``qid`` for the query, and a note says which column it took. If the reader takes a
    column called ``rank`` or ``position`` as the score, its numbers are ranks, and 1 is the best.

    Attributes:
        ids: Parquet, predictions: lists of label ids.
        scores: Parquet, predictions: lists of the scores of these labels.
        labels: Parquet, targets: lists of label ids.
        gains: Parquet, targets: lists of the gains of these labels.
        query: The query, user or row of a line or of a list.
        item: CSV, TSV, JSON Lines: the item, document or label.
        score: CSV, TSV, JSON Lines, predictions: the score.
        gain: CSV, TSV, JSON Lines, targets: the gain or grade; with ``none`` it is not read, and each line is relevant.
        rank: CSV, TSV, JSON Lines, predictions without a score: the rank, 1 for the best.
    """

    ids: str = "ids"
    scores: str = "scores"
    labels: str = "labels"
    gains: str = "gains"
    query: str = "query"
    item: str = "item"
    score: str = "score"
    gain: str = "gain"
    rank: str = "rank"

    def is_given(self, field: str) -> bool:
        """Whether the name of a field differs from its default; the file must then have this column."""
        return bool(getattr(self, field) != _DEFAULTS[field])

    @property
    def without_gain(self) -> bool:
        """Whether no gains are read, whatever columns the targets have."""
        return self.gain == NO_GAIN

    @property
    def by_place(self) -> bool:
        """Whether columns are given by number, from 0, as for a file without a header line."""
        given = [getattr(self, one.name) for one in fields(self) if self.is_given(one.name)]
        given = [name for name in given if name != NO_GAIN]
        return bool(given) and all(name.isdecimal() for name in given)

    def by_names(self, header: Sequence[str]) -> Columns:
        """Return a copy in which column numbers are replaced by the names in the header."""
        names = {str(place): name for place, name in enumerate(header) if str(place) not in header}
        return replace(self, **{field: names.get(name, name) for field, name in vars(self).items()})


_DEFAULTS = {one.name: one.default for one in fields(Columns)}

USUAL = {
    "query": "query queryid qid topic topicid user userid uid session sessionid customerid visitorid reviewerid "
    "hadmid noteid",
    "item": "item itemid iid doc docid docno document documentid corpusid passage passageid pid product productid "
    "movie movieid article articleid asin track trackid song songid book bookid poi location locationid icdcode",
    "score": "score rating prediction predicted pred probability prob similarity",
    "gain": "gain score rating relevance rel grade label",
    "rank": "rank ranking position pos",
}
"""Field -> its usual column names, in lower case and without dashes, blanks and underscores."""
LISTED = {
    "preds": "items itemids prediction predictions preds recommendations recommended retrieved ranking topk",
    "target": "items itemids target targets relevant articles articleid groundtruth positives codes labels class",
}
"""Role -> usual names of a column of lists, in the same spelling."""
MANY_COLUMNS = 30
"""Errors list up to this many columns (one or two lines of a terminal), and of more columns only three."""
IDS = {"id", "label", "labelid", "index"}
"""Names of the label field in a struct, in addition to the usual names of an item."""
TYPED = re.compile(r":(token|float)(_seq)?$")
"""The type that RecBole writes after the name of a column, as in ``user_id:token``."""


def plain(name: str) -> str:
    """Return a column's name in the spelling of USUAL: lower case, without dashes, blanks and underscores."""
    return re.sub(r"[\s_-]", "", name).lower()


def is_usual(name: str, field: str) -> bool:
    """Whether the name of a column is one of the usual names of a field."""
    return plain(name) in USUAL[field].split()


@dataclass(frozen=True)
class Chosen:
    """The names of the columns of one file that hold query, item and value.

    Attributes:
        query: Column of the query.
        item: Column of the item.
        value: Column of the score, rank or gain; None without such a column.
        is_rank: Whether the value is a rank, so that a lower value is better.
    """

    query: str
    item: str
    value: str | None
    is_rank: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the chosen columns."""
        return [name for name in (self.query, self.item, self.value) if name is not None]


def choose(path: FilePath, header: Sequence[str], role: Role | None, columns: Columns, where: str) -> Chosen:
    """Return the columns of a file: by the given names, or by usual names, and then a note says which.

    Args:
        path: The file.
        header: Names of its columns.
        role: Predictions or targets; None to read only the items.
        columns: The given names.
        where: The place of the header in the text of an error.

    Raises:
        DataFileError: If a column is missing, a name is repeated, or two columns could be the same field.
    """
    value = None if role is None else "score" if role == "preds" else "gain"
    if value == "gain" and columns.without_gain and NO_GAIN not in header:
        value = None
    if value == "score" and _is_ranked(header, columns):
        value = "rank"
    wanted = {field: field != "gain" for field in ("query", "item", *([value] if value else []))}
    found: dict[str, str | None] = {}
    for field, needed in wanted.items():  # a column that already holds one field is not guessed to hold another field
        others = [found.get(one, getattr(columns, one)) for one in wanted if one in found or columns.is_given(one)]
        usual = [name for name in header if is_usual(name, field) and name not in others]
        found[field] = _find(path, header, field, columns, list(dict.fromkeys(usual)), needed, where)
    both = [field for field, name in found.items() if name is not None and list(found.values()).count(name) > 1]
    if both:
        hint = "name another column for one of them."
        raise DataFileError(path, f"the column {found[both[0]]!r} is named as {' and as '.join(both)}", where, hint)
    if value == "score" and is_usual(str(found["score"]), "rank"):
        found["rank"], value = found.pop("score"), "rank"
    guessed = {field: name for field, name in found.items() if name not in (None, getattr(columns, field))}
    if guessed and role is not None:
        said = ", ".join(f"column {name!r} is the {field}" for field, name in guessed.items())
        said += ", least first" if "rank" in guessed else ""
        first, unread = next(iter(guessed)), [repr(name) for name in header if name not in found.values()]
        said += f"; not read: {', '.join(unread[:3])}{' …' * (len(unread) > 3)}" if unread else ""
        note(path, f"{said}; columns=Columns({first}=NAME) chooses another one.")
    query, item = found["query"], found["item"]
    assert query is not None
    assert item is not None
    return Chosen(query, item, found[value] if value else None, value == "rank")


def _is_ranked(header: Sequence[str], columns: Columns) -> bool:
    """Whether predictions have a column of ranks but no column of scores."""
    if columns.is_given("score"):
        return False
    if columns.is_given("rank"):
        return True
    return not any(is_usual(name, "score") for name in header) and any(is_usual(name, "rank") for name in header)


def _find(
    path: FilePath,
    header: Sequence[str],
    field: str,
    columns: Columns,
    usual: Sequence[str],
    needed: bool,
    where: str,
) -> str | None:
    name = getattr(columns, field)
    candidates = [name] if name in header or columns.is_given(field) else usual
    if len(candidates) > 1:
        listed = " and ".join(map(repr, candidates))
        hint = f"say which one it is: columns=Columns({field}={candidates[0]!r})."
        raise DataFileError(path, f"the columns {listed} could both be the {field}", where, hint)
    if not candidates and not needed:
        return None
    if not candidates or candidates[0] not in header:
        also = ", columns=Columns(rank=NAME) which one is the rank" if field == "score" else ""
        hint = f"its columns are {in_words(header)}; columns=Columns({field}=NAME) says which one is the {field}{also}."
        raise DataFileError(path, f"there is no column {name!r}", where, hint)
    if list(header).count(candidates[0]) > 1:
        hint = "give every column a name of its own."
        raise DataFileError(path, f"there are several columns {candidates[0]!r}", where, hint)
    return candidates[0]


def in_words(names: Sequence[str]) -> str:
    """Return the column names as text for an error; of many columns, which may be labels, only the first three."""
    if len(names) <= MANY_COLUMNS:
        return ", ".join(names)
    said = f"{', '.join(names[:3])} and {len(names) - 3:,} more"
    return f"{said} (where each column is a label, write their numbers as an array, numpy.save)"


class Opening(NamedTuple):
    """The arguments with which a format opens a file.

    Attributes:
        path: The file.
        role: Whether it holds predictions or targets; None to read only the names of its labels.
        columns: Names of columns.
        partition: Name and value of the columns that folders in the path give as ``key=value``.
    """

    path: FilePath
    role: Role | None
    columns: Columns
    partition: Mapping[str, str] = MappingProxyType({})
