"""The content that every renderer shows, of a report or a comparison.

It consists of sections with a table, drawings, or both.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from tailmetrics.report.charts import Chart

CsvTable: TypeAlias = tuple[Sequence[str], Iterable[Sequence[object]]]
"""Names of columns, and lines of values."""
Translate: TypeAlias = Callable[[str], str]
"""Returns a sentence of the library in the words of a field."""

CONSTANTS = {"NaN": None, "Infinity": "inf", "-Infinity": "-inf"}
"""What stands in strict JSON for numbers that it does not know."""
PAGE_WIDTH = 1040
"""Width of a page's content in pixels, with some reserve, on a screen of 1,280."""
_WORDS = re.compile(r"(?<=[_/])(?=.)|(?=@)|\s+")
"""Where a page breaks the name of a column into lines."""


def value_and_interval(text: str) -> tuple[str, str]:
    """Return the value and the interval of a cell, such as ``0.5`` and ``±.1``.

    Without an interval, return the text and "".

    >>> value_and_interval("0.5000 [.4000, .6500]"), value_and_interval("a name")
    (('0.5000', '[.4000, .6500]'), ('a name', ''))
    """
    value, _, interval = text.partition(" ")
    if not interval.startswith(("±", "[")):
        return text, ""
    return value, interval


def _width(text: str) -> float:
    """Return about how wide a cell of a page is, in pixels.

    An interval stands below its value.
    """
    value, interval = value_and_interval(text)
    return 8.2 * max(len(value), 0.85 * len(interval)) + 14


def _name_width(name: str) -> float:
    """Return about how wide the name of a column is, which is broken into lines."""
    return max(map(_width, _WORDS.split(name)))


def side_by_side(
    columns: Sequence[int],
    naming: Sequence[int],
    page_width: float,
    widths: Sequence[float],
) -> list[list[int]]:
    """Return the columns of each part of a table; each part begins with ``naming``.

    The first of ``columns`` are ``naming``. ``widths`` holds the width of each column.
    No part is wider than the page, unless it has one column beside ``naming``.
    """
    parts = [list[int]()]
    for column in columns:
        width = sum(widths[place] for place in (*parts[-1], column))
        if len(parts[-1]) > len(naming) and width > page_width:
            parts.append(list(naming))
        parts[-1].append(column)
    return parts


@dataclass(frozen=True)
class Section:
    """A table, drawings, or both, under one title.

    Attributes:
        name: The kind of section, such as ``"overall"`` or ``"buckets"``.
        title: The heading.
        caption: Text about the values: their scope, cut-off and rows. A page leaves it
            out beside drawings, because each drawing has its own caption.
        note: Text about the buckets and the columns; a page shows it below drawings and
            above the table.
        header: Names of the columns.
        lines: The cells of each line; empty if there is no table.
        texts: Number of columns, from the left, that hold text.
        bold: Cells in bold, as (line, column).
        charts: Drawings, which a page shows above the table.
        legend: Names of the runs in the drawings; the position of a name gives the
            colour and the shape of the run.
        folded: Whether a page hides the section until a reader opens it. LaTeX leaves
            it out, except for references.
    """

    name: str
    title: str
    caption: str = ""
    note: str = ""
    header: Sequence[str] = ()
    lines: Sequence[Sequence[str]] = ()
    texts: int = 1
    bold: frozenset[tuple[int, int]] = frozenset()
    charts: Sequence[Chart] = ()
    legend: Sequence[str] = ()
    folded: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.lines or self.charts)

    @property
    def full_caption(self) -> str:
        """The caption and the note."""
        return f"{self.caption} {self.note}".strip()

    @property
    def parts(self) -> list[Section]:
        """The table as parts that are at most as wide as a page.

        Each part begins with the columns that name the line.
        """
        return self.within(PAGE_WIDTH, self.widths(_width, _name_width))

    def widths(
        self, cell_width: Callable[[str], float], name_width: Callable[[str], float]
    ) -> list[float]:
        """Return the width of each column.

        Args:
            cell_width: Function that returns the width of a cell.
            name_width: Function that returns the width of a column's name.
        """
        widths = []
        for name, *cells in zip(self.header, *self.lines, strict=True):
            widths.append(max([name_width(name), *map(cell_width, cells)]))
        return widths

    def within(self, page_width: float, widths: Sequence[float]) -> list[Section]:
        """Return the table as tables of at most this width.

        Args:
            page_width: The largest width of a table.
            widths: The width of each column.
        """
        naming = [0]
        if self.texts <= 2:
            naming = list(range(self.texts))
        parts = side_by_side(range(len(widths)), naming, page_width, widths)
        return [self._with_columns(columns) for columns in parts]

    def _with_columns(self, columns: Sequence[int]) -> Section:
        """Return the section with some columns of its table."""
        lines = []
        for cells in self.lines:
            lines.append([cells[column] for column in columns])

        bold = set()
        for line, column in self.bold:
            if column in columns:
                bold.add((line, columns.index(column)))

        return replace(
            self,
            header=[self.header[column] for column in columns],
            lines=lines,
            texts=sum(column < self.texts for column in columns),
            bold=frozenset(bold),
        )

    def translated(self, translate: Translate) -> Section:
        """Return the section in the words of a field.

        Cells stay, unless they say what values count.
        """
        lines = self.lines
        if self.name == "overall":
            lines = [[*cells[:2], *map(translate, cells[2:])] for cells in self.lines]
        return replace(
            self,
            title=translate(self.title),
            caption=translate(self.caption),
            note=translate(self.note),
            header=list(map(translate, self.header)),
            lines=lines,
            charts=[chart.translated(translate) for chart in self.charts],
        )


@dataclass(frozen=True)
class Document:
    """One report or comparison, ready to be rendered.

    Attributes:
        title: The heading.
        kind: The kind of document, in a few words.
        counts: The amount of data, such as ``"90 rows"``.
        sections: The sections, in reading order.
        verdict: The main result in words, shown first.
        first: The tables that a terminal shows unless it is to show all; empty if there
            are few tables.
        warnings: Facts that a reader should know before trusting the numbers.
        readings: For each file, the sentence that says how it was read.
        below: Text below the picture.
        settings: Class and arguments of every metric.
        versions: Versions of the libraries, and the date.
    """

    title: str
    kind: str
    counts: Sequence[str]
    sections: Sequence[Section]
    verdict: str = ""
    first: Sequence[Section] = ()
    warnings: Sequence[str] = ()
    readings: Sequence[str] = ()
    below: str = ""
    settings: Sequence[Mapping[str, Any]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> list[Section]:
        """The sections that have a table."""
        return [section for section in self.sections if section.lines]

    @property
    def runs(self) -> Sequence[str]:
        """The runs in the drawings of a comparison."""
        return next((section.legend for section in self.sections if section.legend), ())

    @property
    def charts(self) -> list[Chart]:
        """The drawings that the picture shows."""
        charts: list[Chart] = []
        for section in self.sections:
            charts += [chart for chart in section.charts if chart.in_picture]
        return charts

    def translated(self, translate: Translate) -> Document:
        """Return the document in the words of a field.

        How files were read stays in the words of the files.
        """
        return replace(
            self,
            counts=list(map(translate, self.counts)),
            sections=[section.translated(translate) for section in self.sections],
            verdict=translate(self.verdict),
            first=[section.translated(translate) for section in self.first],
            warnings=list(map(translate, self.warnings)),
            below=translate(self.below),
        )


def today() -> str:
    """Return today's date in UTC, or the date of ``SOURCE_DATE_EPOCH``.

    This variable makes a build reproducible.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return datetime.now(timezone.utc).date().isoformat()
    return datetime.fromtimestamp(int(epoch), timezone.utc).date().isoformat()


def csv_table(lines: Sequence[Mapping[str, object]]) -> CsvTable:
    """Return lines with the same columns as a table."""
    if not lines:
        return [], []
    return list(lines[0]), [list(line.values()) for line in lines]


def plain(value: Any) -> Any:
    """Return a value for strict JSON: dicts, lists, NaN as None, infinity as text.

    >>> plain({"value": float("nan"), "places": (1, float("inf"))})
    {'value': None, 'places': [1, 'inf']}
    """
    return json.loads(json.dumps(value, default=_fields), parse_constant=CONSTANTS.get)


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    return asdict(value)
