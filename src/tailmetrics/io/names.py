"""String ids and the numbers they get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from tailmetrics.io.rows import Ints

UNKNOWN_HINT = "number the labels over all files at once: label_names=read_label_names(preds, target, train)."

WHOLE = "0|[1-9][0-9]{0,17}"
"""A whole number as a computer writes it (7, not 07 or +7), small enough for 64 bits."""


class Names(Sequence[str]):
    """Names in their order, kept by Arrow: millions of them take the memory of their text.

    Args:
        column: Arrow string array.
    """

    def __init__(self, column: Any) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...

    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return list(self)[place] if place.step not in (None, 1) else Names(self.column[place])
        return str(self.column[place].as_py())

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 2**16):
            yield from self.column[start : start + 2**16].to_pylist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"Names({shown}{f', … {len(self):,} in all' if len(self) > 3 else ''})"


class Numbering:
    """Numbers for strings: their place among the names given.

    Args:
        names: The only names there are.
    """

    def __init__(self, names: Sequence[str]) -> None:
        check_distinct(names)
        self._codes: dict[str, int] = {name: code for code, name in enumerate(names)}

    def encode(self, strings: Any) -> Ints:
        """Return the number of every string of an arrow array; -1 where it is not among the names."""
        encoded = strings.dictionary_encode()
        return self._coded(encoded.dictionary.to_pylist(), encoded.indices.to_numpy())

    def encode_whole(self, numbers: Ints) -> Ints:
        """Return the number of the text of every whole number; -1 where it is not among the names."""
        distinct, places = np.unique(numbers, return_inverse=True)
        return self._coded(list(map(str, distinct.tolist())), places)

    def _coded(self, names: list[str], places: Ints) -> Ints:
        table = [self._codes.get(name, -1) for name in names]
        return np.asarray(np.array(table, dtype=np.int64)[places])


def check_distinct(names: Sequence[str]) -> None:
    """Raise if a name is given twice."""
    repeated = len(names) - len(set(names)) if not isinstance(names, Names) else 0
    if repeated:
        raise ValueError(f"label_names: {repeated} names are repeated; pass each once.")
