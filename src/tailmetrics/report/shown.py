"""``Shown``: what renderers read, a report or a comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tailmetrics.report.document import CsvTable, Document


class Shown(ABC):
    """The content of a report or a comparison, which every renderer reads."""

    @abstractmethod
    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return the content that every renderer shows."""

    @abstractmethod
    def translate(self, text: str) -> str:
        """Return a sentence in the words of the field."""

    @abstractmethod
    def csv_tables(self) -> dict[str, CsvTable]:
        """Return the content of the CSV files by name.

        The name of the main file is "", and others have names such as ``"labels"``.
        """

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the content as plain data, NaN as None and infinity as ``"inf"``."""
