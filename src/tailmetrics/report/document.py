"""What every renderer shows, of a report and of a comparison alike: sections of a table, of drawings, or of both."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from tailmetrics.report.charts import Chart

Records: TypeAlias = tuple[Sequence[str], Iterable[Sequence[object]]]
"""Names of columns, and lines of values."""


@dataclass(frozen=True)
class Section:
    """A table, drawings, or both, under one title.

    Attributes:
        name: What kind of section it is, such as ``"overall"``, ``"buckets"`` or ``"examples"``.
        title: Heads it.
        caption: What its values are of: scope, cut-off, rows, and what a bucket is.
        lead: What a page says above drawings, each of which has a caption of its own.
        columns: What the columns of the table are; below the drawings on a page, behind the caption elsewhere.
        header: Names of the columns.
        lines: Cells; none where there is no table. An item of a cell of several lines stands behind a line break.
        fixed: How many columns from the left say what a line is.
        texts: How many columns from the left hold text.
        long: How many columns from the right hold texts of several lines.
        heat: For each cell behind the fixed ones its place between the lowest (0) and the highest (1) of the table;
            None for no value. Empty where cells are not comparable.
        bold: Cells that stand out, as (line, column).
        order: Columns in the order in which a narrow terminal shows them; empty for that of the header.
        asides: What a page says below each value of ``"overall"``.
        charts: Drawings, which a page shows above the table.
        legend: Name, colour and shape of each run in the drawings: places of runs by name.
        folded: Whether a page shows it where a reader asks for it; LaTeX leaves it out.
    """

    name: str
    title: str
    caption: str = ""
    lead: str = ""
    columns: str = ""
    header: Sequence[str] = ()
    lines: Sequence[Sequence[str]] = ()
    fixed: int = 1
    texts: int = 1
    long: int = 0
    heat: Sequence[Sequence[float | None]] = ()
    bold: frozenset[tuple[int, int]] = frozenset()
    order: Sequence[int] = ()
    asides: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    legend: Sequence[str] = ()
    folded: bool = False

    @property
    def said(self) -> str:
        """The caption, and what the columns are."""
        return " ".join(part for part in (self.caption, self.columns) if part)


@dataclass(frozen=True)
class Document:
    """One report or comparison, ready to be rendered.

    Attributes:
        title: Heads it.
        kind: What it is, in a few words.
        facts: How much was evaluated.
        sections: In the order in which they are read.
        verdict: What was found, in one sentence.
        warnings: What to know before believing the numbers.
        below: What stands below the picture.
        settings: Class and arguments of every metric.
        versions: Of the libraries, and the date.
    """

    title: str
    kind: str
    facts: Sequence[str]
    sections: Sequence[Section]
    verdict: str | None = None
    warnings: Sequence[str] = ()
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
        """What the picture shows."""
        return [chart for section in self.sections for chart in section.charts if chart.in_picture]


class Documented(Protocol):
    """What renderers take: a report or a comparison."""

    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return what every renderer shows."""


def today() -> str:
    """Return the date in UTC, or that of ``SOURCE_DATE_EPOCH`` where a build is to be the same twice."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.now(timezone.utc) if epoch is None else datetime.fromtimestamp(int(epoch), timezone.utc)
    return now.date().isoformat()


def plain(value: Any) -> Any:
    """Return what strict JSON can hold: dicts, lists, NaN as None, and what is infinite in words."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else str(value)
    return value
