"""``Report``: the results of one evaluation, as sections for all renderers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tailmetrics.report.answer import answer
from tailmetrics.report.breakdowns import what_buckets_are
from tailmetrics.report.curves import CurvePoint
from tailmetrics.report.data import ReportData, summary_of_counts
from tailmetrics.report.document import CsvTable, Document, csv_table, plain
from tailmetrics.report.files import Rendered
from tailmetrics.report.first_look import first_tables
from tailmetrics.report.formatting import counted
from tailmetrics.report.groups import groups_section
from tailmetrics.report.label_sections import (
    blind_spots_section,
    curves_section,
    label_sections,
)
from tailmetrics.report.overview import (
    buckets_section,
    headline_section,
    overall_section,
)
from tailmetrics.report.references import reference_sections, tie_sections
from tailmetrics.report.report_warnings import warnings_of
from tailmetrics.report.tail import tail_section
from tailmetrics.report.words import in_words

WORST_LABELS = 3
"""The number of most often missed labels of each bucket in JSON.

The table of labels holds all labels.
"""


@dataclass(frozen=True)
class Report(ReportData, Rendered):
    """The results of one evaluation, ready to be shown, written and printed.

    The attributes are those of :class:`tailmetrics.report.data.ReportData`.
    """

    stem = "report"

    @cached_property
    def answer(self) -> str:
        """What the report says, in a few sentences."""
        return self.translate(answer(self))

    @property
    def warnings(self) -> list[str]:
        """Facts that a reader should know before trusting the numbers."""
        return warnings_of(self, with_orders=True)

    @property
    def warnings_of_rows(self) -> list[str]:
        """The warnings for a reader of the values of rows.

        Such a reader does not see the sections of this report.
        """
        return warnings_of(self, with_orders=False)

    def translate(self, text: str) -> str:
        """Return a sentence in the words of the field."""
        buckets = [bucket.name for bucket in self.buckets]
        groups = [group.name for group in self.row_groups]
        return in_words(text, self.words, [*buckets, *groups])

    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return the content that every renderer shows.

        Args:
            brief: Whether to show fewer labels and rows, for a terminal.
            references: Whether to add tables with the references beside each value.
        """
        overall = overall_section(self)
        sections = [
            headline_section(self),
            overall,
            buckets_section(self),
            groups_section(self),
        ]
        if references:
            sections += reference_sections(self)
        sections += tie_sections(self)
        if not brief:
            sections.append(curves_section(self))
        sections += [
            tail_section(self),
            blind_spots_section(self, brief),
            *label_sections(self, brief),
        ]

        document = Document(
            title=self.title,
            kind="From head to tail",
            counts=self._counts_in_words(),
            sections=[section for section in sections if not section.is_empty],
            verdict=answer(self),
            first=first_tables(self, overall),
            warnings=self.warnings,
            readings=self.readings,
            below=what_buckets_are(self.buckets),
            settings=self.settings,
            versions={"evaluated on": self.date, **self.versions},
        )
        return document.translated(self.translate)

    def _counts_in_words(self) -> list[str]:
        """Return the numbers of rows, positives and labels, such as ``"60 rows"``.

        Unknown numbers are left out.
        """
        counts = {"row": self.rows, "positive": self.positives}
        if self.label_counts is not None:
            counts["label"] = self.label_counts.numel()

        texts = []
        for noun, number in counts.items():
            if number is not None:
                texts.append(counted(number, noun))
        return texts

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data, NaN as None and infinity as ``"inf"``."""
        label_counts = None
        if self.label_counts is not None:
            label_counts = summary_of_counts(self.label_counts)
        ties = {
            f"tie_rate@{k}".removesuffix("@None"): share
            for k, share in self.ties.items()
        }
        content: dict[str, Any] = plain(
            {
                "title": self.title,
                "date": self.date,
                "answer": self.answer,
                "headline": self.headline,
                "rows": self.rows,
                "positives": self.positives,
                "records": self.lines(),
                "metrics": list(self.metrics),
                "buckets": list(self.buckets),
                "row_groups": list(self.row_groups),
                "worst_labels": self._worst_labels(),
                "blind_spots": list(self.blind_spots),
                "label_counts": label_counts,
                "ties": ties,
                "warnings": self.warnings,
                "readings": self.readings,
                "settings": self.settings,
                "versions": self.versions,
            }
        )
        return content

    def _worst_labels(self) -> list[dict[str, Any]]:
        """Return the most often missed labels of each bucket.

        There is a dict for each label, with counts and values by column.
        """
        if self.labels is None:
            return []
        columns = self.labels.cells(
            self.labels.most("missed", WORST_LABELS, from_each_bucket=True)
        )
        return [
            dict(zip(columns, cells, strict=True))
            for cells in zip(*columns.values(), strict=True)
        ]

    def csv_tables(self) -> dict[str, CsvTable]:
        """Return the content of the CSV files by name.

        The names are "" for the records, ``"labels"`` and ``"curve"``.
        """
        tables = {"": csv_table(self.lines())}
        if self.labels is not None:
            tables["labels"] = self.labels.csv_table()
        if self.curves:
            points = []
            for metric, metric_points in self.curves.items():
                points += [(metric, *point) for point in metric_points]
            tables["curve"] = (["metric", *CurvePoint._fields], points)
        return tables
