"""String ids and the numbers they get."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tailmetrics.io.rows import Array, Ints

UNKNOWN_HINT = "number the labels over all files at once: label_names=read_label_names(preds, target, train)."

_WHOLE = re.compile(r"0|[1-9][0-9]{0,17}")
"""A whole number as a computer writes it, small enough for 64 bits."""


class Numbering:
    """Numbers for strings: their place among the names given, or else the order in which they are first met.

    Args:
        names: The only names there are; without them every new string gets the next number.
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self._fixed = names is not None
        self.codes: dict[str, int] = {name: code for code, name in enumerate(names or ())}
        if len(self.codes) < len(names or ()):
            raise ValueError(f"label_names: {len(names or ()) - len(self.codes)} names are repeated; pass each once.")

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def names(self) -> list[str]:
        """The strings in the order of their numbers."""
        return list(self.codes)

    def encode(self, strings: Any) -> Ints:
        """Return the number of every string of an arrow array; -1 where it is not among the names given."""
        encoded = strings.dictionary_encode()
        return self._coded(encoded.dictionary.to_pylist(), encoded.indices.to_numpy())

    def encode_whole(self, numbers: Ints) -> Ints:
        """Return the number of the text of every whole number; -1 where it is not among the names given."""
        distinct, places = np.unique(numbers, return_inverse=True)
        return self._coded(list(map(str, distinct.tolist())), places)

    def _coded(self, names: list[str], places: Ints) -> Ints:
        codes = self.codes
        if self._fixed:
            table = [codes.get(name, -1) for name in names]
        else:
            table = [codes.setdefault(name, len(codes)) for name in names]
        return np.asarray(np.array(table, dtype=np.int64)[places])


def ordered(names: Iterable[str], descending: bool) -> list[str]:
    """Return distinct names in the order that breaks ties, the first winning.

    Ascending, whole numbers by their value, but descending by text for TREC files, as trec_eval has it. Code points
    order as the bytes of UTF-8 do.
    """
    distinct = set(names)
    if not descending and all(map(_WHOLE.fullmatch, distinct)):
        return sorted(distinct, key=int)
    return sorted(distinct, reverse=descending)


def whole_numbers(names: Sequence[str]) -> Ints | None:
    """Return the names as numbers if every one is a whole number as a computer writes it (7, not 07 or +7)."""
    if all(map(_WHOLE.fullmatch, names)):
        return np.array(list(map(int, names)), dtype=np.int64)
    return None


def places(names: Sequence[str], order: Sequence[str]) -> Array:
    """Return where each name stands in ``order``."""
    position = {name: place for place, name in enumerate(order)}
    return np.array([position[name] for name in names], dtype=np.int64)
