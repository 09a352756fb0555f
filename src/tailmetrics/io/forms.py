"""What the user says about files: formats, names of columns, and separators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Literal, TypeAlias

from tailmetrics.io.database import MEMORY
from tailmetrics.io.files import DataFileError, FilePath

Role: TypeAlias = Literal["preds", "target", "train", "pairs"]
"""The content of a file: predictions, targets, training targets, or filter pairs."""

NONE = "none"
"""The value of ``Columns.gain`` and ``Columns.query`` for "no column"."""
ORDER = "order"
"""The value of ``Columns.rank`` if the lines of a query stand in rank order."""
IN_MEMORY = "in memory"
"""The name of the format of tables, objects and dicts."""

SCORE_ROLES = ("score", "rank", "distance")
COLUMN_ROLES: Mapping[Role, tuple[str, ...]] = MappingProxyType(
    {
        "preds": ("query", "item", "ids", *SCORE_ROLES),
        "target": ("query", "item", "labels", "gain"),
        "train": ("query", "item", "labels", "gain"),
        "pairs": ("query", "item"),
    }
)
"""Role of a file -> the roles that its columns may have."""


def option_for(role: Role, name: str) -> str:
    """Return the name of an option for one kind of file alone.

    >>> option_for("preds", "columns"), option_for("pairs", "columns")
    ('preds-columns', 'columns')
    """
    if role == "pairs":
        return name
    return f"{role}-{name}"


@dataclass(frozen=True)
class Columns:
    """The user's names of columns, for files whose names are unknown or ambiguous.

    A file must have these columns.

    Attributes:
        query: The query, user or row of a line or of a list. ``head,relation`` is one
            key of two columns, ``none`` says that row i of one file belongs to row i of
            the other. Files without this column keep their known name.
        item: The item, document or label of a line, or inside of objects. Files without
            it keep their known name.
        ids: Predictions: the lists of items.
        labels: Targets: the lists of labels.
        score: Predictions: the score of an item, the highest is best.
        rank: Predictions: the rank of an item, 1 is best; ``order`` says that lines and
            lists are the best first.
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
        """Return a copy with the names of ``other``, which win over the own names."""
        if other is None:
            return self
        return Columns(**{**self.names(), **other.names()})

    @property
    def by_place(self) -> bool:
        """Whether the names are places from 0, in a file without a line of names."""
        parts = []
        for name in self.names().values():
            if name not in (NONE, ORDER):
                parts += name.split(",")
        return bool(parts) and all(part.strip().isdecimal() for part in parts)


@dataclass(frozen=True, kw_only=True)
class Forms:
    """What the user says about the forms of all files.

    Attributes:
        formats: Role -> name of the format; under ``""`` that of all files.
        columns: Role -> names of columns, which are added to those under ``""``.
        delimiters: Role -> separator of the fields of text; under ``""`` that of all
            files.
        list_delimiters: Role -> separator of the entries of lists in text; under ``""``
            that of all files.
        part: Subset and split of predictions of MTEB.
        extra_columns: Columns of the targets that are no gains, such as groups of rows.
        memory: Memory limit of DuckDB.
        judged_only: Whether a negative grade of qrels is no judgement.
        is_numbered: Whether rows have numbers, so that lines need no query.
        has_train_target: Whether training targets are read, too, so that the name of a
            gain is for one kind of target.
    """

    formats: Mapping[str, str | None] = field(default_factory=dict)
    columns: Mapping[str, Columns | None] = field(default_factory=dict)
    delimiters: Mapping[str, str | None] = field(default_factory=dict)
    list_delimiters: Mapping[str, str | None] = field(default_factory=dict)
    part: str | None = None
    extra_columns: tuple[str, ...] = ()
    memory: str = MEMORY
    has_train_target: bool = False
    is_numbered: bool = False
    judged_only: bool = False

    def format(self, role: Role) -> str | None:
        """Return the name of the format of a file; None if its suffix says it."""
        return self.formats.get(role) or self.formats.get("")

    @property
    def shared_columns(self) -> Columns:
        """The names for all files."""
        return self.columns.get("") or Columns()


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A file or a table in memory to be opened.

    Attributes:
        path: The file, or the name of the argument.
        role: What it holds.
        form: Name of the format.
        forms: What the user says about all files.
        target_paths: The files of the targets, for predictions in LETOR.
    """

    path: FilePath
    role: Role
    form: str
    forms: Forms = field(default_factory=Forms, compare=False)
    target_paths: tuple[FilePath, ...] = ()

    @cached_property
    def columns(self) -> Columns:
        """The user's names of columns for this file."""
        return self.forms.shared_columns.with_names(self.own_columns)

    @property
    def own_columns(self) -> Columns:
        """The user's names of columns for this kind of file alone."""
        return self.forms.columns.get(self.role) or Columns()

    @property
    def shared_roles(self) -> set[str]:
        """The roles named for all files at once, whose columns this file may lack."""
        return {"query", "item"} & set(self.forms.shared_columns.names()) - set(
            self.own_columns.names()
        )

    @property
    def delimiter(self) -> str | None:
        """The separator of the fields of text."""
        own_delimiter = self.forms.delimiters.get(self.role)
        if own_delimiter is not None:
            return own_delimiter
        return self.forms.delimiters.get("")

    @property
    def own_list_delimiter(self) -> str | None:
        """The separator of list entries in text, for this kind of file alone."""
        return self.forms.list_delimiters.get(self.role)

    @property
    def list_delimiter(self) -> str | None:
        """The separator of the entries of a list in text."""
        if self.own_list_delimiter is not None:
            return self.own_list_delimiter
        return self.forms.list_delimiters.get("")

    @property
    def in_memory(self) -> bool:
        """Whether this is a table in memory, for which hints name no options."""
        return self.form == IN_MEMORY

    def own_option(self, name: str) -> str:
        """Return the name of this kind's own option, such as ``preds-columns``."""
        return option_for(self.role, name)

    def option_of(self, role: str) -> str:
        """Return the option with which the user names the column of a role."""
        if getattr(self.own_columns, role) is None:
            return f"--columns.{role}"
        return f"--{self.own_option('columns')}.{role}"

    def check_columns(self) -> None:
        """Raise if the user names a column that this kind of file cannot have.

        Only one column may order the items of predictions.

        Raises:
            DataFileError: Naming the options.
        """
        roles = COLUMN_ROLES[self.role]
        for role, name in self.own_columns.names().items():
            if role not in roles:
                argument = f"{role}={name!r}"
                if not self.in_memory:
                    argument = f"--{self.own_option('columns')}.{role}"
                words = "predictions" if self.role == "preds" else "targets"
                problem = f"{name!r} is named as its {role}, but {words} have no {role}"
                raise DataFileError(
                    self.path,
                    problem,
                    hint=f"leave {argument} out; its roles are {', '.join(roles)}.",
                )

        names = self.columns.names()
        orders = [role for role in SCORE_ROLES if role in names]
        if self.role == "preds" and len(orders) > 1:
            columns = " and ".join(f"the {role} {names[role]!r}" for role in orders)
            options = ", ".join(self.option_of(role) for role in orders)
            problem = f"{columns} are named, but only one column can order the items"
            raise DataFileError(
                self.path, problem, hint=f"leave all but one of {options} out."
            )

    @property
    def number_name(self) -> str:
        """The name of the number that predictions hold in a format without columns."""
        if self.form == "msmarco":
            return "rank"
        return "score"

    @property
    def run_role(self) -> str:
        """The role of a run's scores without columns: score, rank or distance."""
        for role in ("rank", "distance"):
            if getattr(self.columns, role) == self.number_name:
                return role
        return "score"

    @property
    def list_role(self) -> str:
        """The role of a column of lists in this file."""
        if self.role == "preds":
            return "ids"
        return "labels"
