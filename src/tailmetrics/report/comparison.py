"""``ComparisonReport``: comparisons of several runs, as sections for all renderers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailmetrics.report.comparison_data import UNCORRECTED, ComparisonData
from tailmetrics.report.comparison_first import first_tables
from tailmetrics.report.comparison_tables import (
    bucket_sections,
    differences_section,
    group_sections,
    headline_section,
    not_compared_section,
    pair_sections,
    run_sections,
)
from tailmetrics.report.curves import CurvePoint, curve_section
from tailmetrics.report.document import CsvTable, Document, Section, csv_table, plain
from tailmetrics.report.files import Rendered
from tailmetrics.report.formatting import counted
from tailmetrics.report.words import in_words


@dataclass(frozen=True)
class ComparisonReport(ComparisonData, Rendered):
    """Runs compared row by row, ready to be shown, written and printed.

    The attributes are those of
    :class:`tailmetrics.report.comparison_data.ComparisonData`.
    """

    stem = "compare"
    tables = ("curve",)

    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return the content that every renderer shows.

        If ``brief``, there are no tables by bucket and no drawings.
        """
        sections = list(run_sections(self))
        if not brief:
            sections += bucket_sections(self)
        sections += group_sections(self)
        if not brief:
            sections += [self._curves(), differences_section(self)]
        sections += [*pair_sections(self), not_compared_section(self, brief)]
        if self.headline in self.by_bucket and not brief:
            sections.insert(0, headline_section(self))

        correction = f"corrected ({self.correction})"
        if self.correction == UNCORRECTED:
            correction = "not corrected"
        document = Document(
            title=self.title,
            kind="Runs compared from head to tail",
            counts=self._counts_in_words(),
            sections=[section for section in sections if not section.is_empty],
            verdict=self.verdict,
            first=first_tables(self),
            warnings=self.warnings,
            below=f"Differences with {self.confidence:.0%} intervals; filled: "
            "significant at "
            f"{1 - self.confidence:.3g}, {correction}.",
            settings=self.settings,
            versions={"compared on": self.date, **self.versions},
        )
        return document.translated(self.translate)

    def translate(self, text: str) -> str:
        """Return a sentence in the words of the field."""
        return in_words(text, self.words, (*self.buckets, *self.row_groups, *self.runs))

    def _curves(self) -> Section:
        curves = {}
        for metric, points in self.curves.items():
            curves[metric] = {run: points[run] for run in self.runs}
        return curve_section(
            "As functions of the training count", curves, [], self.runs
        )

    def _counts_in_words(self) -> list[str]:
        rows = max((comparison.n for comparison in self.comparisons), default=0)
        texts = [self._runs_in_words(), f"{counted(rows, 'row')} compared"]
        if self.num_clusters:
            name = f" ({self.clusters})" if self.clusters else ""
            texts.append(f"{counted(self.num_clusters, 'cluster')}{name}")
        return [*texts, counted(self.corrected_for, "comparison")]

    def _runs_in_words(self) -> str:
        """Return in words the number of runs, or of models and the runs of each."""
        if not self.num_runs:
            return counted(len(self.runs), "run")
        numbers = [
            f"{counted(self.num_runs[name], 'run')} of {name}" for name in self.runs
        ]
        return f"{counted(len(self.runs), 'model')} (means over {', '.join(numbers)})"

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data, NaN as None, infinity as ``"inf"``."""
        content: dict[str, Any] = plain(
            {
                "title": self.title,
                "date": self.date,
                "headline": self.headline,
                "verdict": self.verdict,
                "warnings": self.warnings,
                "correction": self.correction,
                "corrected_for": self.corrected_for,
                "records": self.lines(),
                "unequal_lists": self.unequal_lists,
                "settings": self.settings,
                "versions": self.versions,
            }
        )
        return content

    def csv_tables(self) -> dict[str, CsvTable]:
        """Return the content of the CSV files: the table and the points of curves."""
        tables = {"": csv_table(self.lines())}
        if self.curves:
            points = []
            for metric, curves in self.curves.items():
                for run, run_points in curves.items():
                    points += [(metric, run, *point) for point in run_points]
            tables["curve"] = (("metric", "run", *CurvePoint._fields), points)
        return tables
