"""How items become label ids: one rule for all files of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailmetrics.io.errors import DataFileError, note
from tailmetrics.io.names import ordered, places, whole_numbers
from tailmetrics.io.rows import Array, Ints


@dataclass(frozen=True)
class LabelRule:
    """How items become label ids.

    Items are names, of which each gets the next id, unless whole numbers are asked for: by ``num_labels`` or by
    ``strings=False``. So ids with gaps, such as those of a catalogue of which a part was taken, make no labels that
    nobody has.

    Attributes:
        names: Names of all labels, in the order of their ids; None to find them in the files.
        strings: Whether items are names even where they look like numbers; None for the rule above.
        num_labels: Number of labels; None to find it in the files.
        descending: Whether the last name wins ties, as in trec_eval; such items are names, numbers or not.
    """

    names: Sequence[str] | None
    strings: bool | None
    num_labels: int | None
    descending: bool

    @property
    def by_number(self) -> bool:
        """Whether whole numbers are label ids as they are."""
        if self.names is not None or self.strings:
            return False
        return self.strings is False or (self.num_labels is not None and not self.descending)

    def number(self, met: Sequence[str], path: Path) -> Labels:
        """Return the label id of every item that was met.

        Raises:
            DataFileError: If items are not the whole numbers that they have to be, or are more than there are labels.
        """
        if self.names is not None:
            return self._named(path, self.names, np.arange(len(self.names), dtype=np.int64))
        if self.by_number:
            numbers = self._numbers(met, path)
            return Labels(numbers, None, self.num_labels, max(self.num_labels or 0, int(numbers.max(initial=-1)) + 1))
        names = self.order(met)
        self._say(path, names)
        return self._named(path, names, places(met, names))

    def order(self, met: Sequence[str]) -> list[str]:
        """Return distinct names in the order of their ids."""
        return ordered(met, self.descending)

    def _numbers(self, met: Sequence[str], path: Path) -> Ints:
        numbers = whole_numbers(met)
        if numbers is None:
            wrong = next(name for name in met if whole_numbers([name]) is None)
            hint = (
                "leave num_labels out, so that items are numbered as names, or say string_ids=True."
                if self.strings is None
                else "leave string_ids out, so that items are numbered as names."
            )
            raise DataFileError(path, f"the item {wrong!r} in it or beside it is not a whole number", hint=hint)
        return numbers

    def _say(self, path: Path, names: Sequence[str]) -> None:
        """Say so where whole numbers do not stay what they are."""
        if self.strings is not None or self.descending or not names or whole_numbers(names[-1:]) is None:
            return
        numbers = whole_numbers(names)
        if numbers is not None and not np.array_equal(numbers, np.arange(len(names))):
            what = f"the items of all files are {len(names):,} whole numbers from {names[0]} to {names[-1]}"
            note(path, f"{what}, each a label of its own; with num_labels=L they are label ids from 0 to L - 1.")

    def _named(self, path: Path, names: Sequence[str], ids: Array) -> Labels:
        if self.num_labels is not None and self.num_labels < len(names):
            hint = "give as many labels as there are names, or leave num_labels out."
            raise DataFileError(path, f"there are {len(names)} names for {self.num_labels} labels", hint=hint)
        num_labels = self.num_labels or len(names)
        return Labels(ids, tuple(names), num_labels, num_labels)


@dataclass(frozen=True, eq=False)
class Labels:
    """The label ids of all files.

    Attributes:
        ids: Label id of every item, by its code.
        names: Names in the order of the ids; None when items are numbers.
        declared: Number of labels, None when only the largest id met is known.
        width: Number of columns that holds every id met.
    """

    ids: Ints
    names: tuple[str, ...] | None
    declared: int | None
    width: int
