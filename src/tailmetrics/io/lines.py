"""Text files as blocks of lines: found and cut by arrow and numpy, not one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailmetrics.io.compression import stream
from tailmetrics.io.errors import DataFileError
from tailmetrics.io.paths import FilePath
from tailmetrics.io.rows import Array, starts

BLOCK_BYTES = 2**21
LARGEST = 2**63 - 1
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, eq=False)
class Lines:
    """Consecutive lines of a file.

    Attributes:
        path: The file.
        first: Number of the first line, from 1.
        text: The lines, an arrow string array; line ends are still on them.
    """

    path: FilePath
    first: int
    text: Any

    def place(self, index: int) -> str:
        """Return how an error names a line of this block."""
        return f"line {self.first + index}"

    def written(self) -> tuple[Any, Callable[[int], str]]:
        """Return the lines that hold anything, and how an error names one of them."""
        blank = pc.equal(pc.ascii_trim_whitespace(self.text), "").to_numpy(zero_copy_only=False)
        kept = np.flatnonzero(~blank)
        return self.text.take(pa.array(kept)) if blank.any() else self.text, lambda index: self.place(int(kept[index]))

    def words(self, comment: str | None = None) -> tuple[Array, Any]:
        """Return the number of words on every line, and all words, an arrow string array.

        A line that begins with ``comment`` has none.
        """
        text = pc.ascii_trim_whitespace(self.text)
        if comment is not None:
            text = pc.if_else(pc.starts_with(text, comment), "", text)
        words = pc.ascii_split_whitespace(text)
        blank = pc.equal(text, "").to_numpy(zero_copy_only=False)
        counts = np.where(blank, 0, pc.list_value_length(words).to_numpy())
        flat = words.flatten()
        return counts, flat.filter(pc.not_equal(flat, "")) if blank.any() else flat


def read_lines(path: FilePath, skip: int = 0) -> Iterator[Lines]:
    """Yield the lines of a UTF-8 file in blocks of about 2 MB; the first ``skip`` lines are only counted."""
    number, rest = 1, b""
    with stream(path) as file:
        while block := file.read(BLOCK_BYTES):
            block = rest + block
            if number == 1 and not rest:
                block = block.removeprefix(BYTE_ORDER_MARK)
            end = block.rfind(b"\n") + 1
            rest, block = block[end:], block[:end]
            count = block.count(b"\n")
            if count and number + count - 1 > skip:
                yield from _from(_lines(path, number, block), skip)
            number += count
    if rest and number > skip:
        yield _lines(path, number, rest)


def _from(lines: Lines, skip: int) -> Iterator[Lines]:
    dropped = max(0, skip + 1 - lines.first)
    yield Lines(lines.path, lines.first + dropped, lines.text.slice(dropped))


def _lines(path: FilePath, first: int, block: bytes) -> Lines:
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    text = pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(block))
    try:
        text.validate(full=True)
    except pa.ArrowInvalid as error:
        index = next(index for index, line in enumerate(block.split(b"\n")) if not _decodes(line))
        hint = "text files are read as UTF-8: convert the file, or name its format."
        raise DataFileError(path, "is not UTF-8 text", f"line {first + index}", hint) from error
    return Lines(path, first, text)


def _decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def raw(text: Any) -> Any:
    """Return the bytes of lines that lie one behind the other in memory."""
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    return data.slice(int(ends[0]), int(ends[-1] - ends[0]))


def parse_numbers(
    text: Any, kind: type[int] | type[float], path: FilePath, word: str, place: Callable[[int], str]
) -> Array:
    """Return an arrow string array as int64 or float64 numbers.

    Args:
        text: Arrow string array.
        kind: ``int`` or ``float``.
        path: The file, for the message.
        word: What the numbers are, for the message.
        place: From the index of an entry to its place in the file, for the message.
    """
    try:
        return np.asarray(pc.cast(text, pa.int64() if kind is int else pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:  # either wrong, or a spelling that only Python accepts, such as +1
        numbers = [_number(entry, kind) for entry in text.to_pylist()]
    if None in numbers:
        index = numbers.index(None)
        needed = f"a whole number of at most {LARGEST}" if kind is int else "a number"
        hint = f"every {word} must be {needed}."
        raise DataFileError(path, f"{word} {text[index].as_py()!r} is not {needed}", place(index), hint)
    return np.array(numbers, dtype=np.int64 if kind is int else np.float64)


def _number(text: str, kind: type[int] | type[float]) -> float | None:
    """Return the number that a text spells, None if it spells none that 64 bits hold.

    1_000 is not taken for one, nor are digits and blanks beyond ASCII, which Python takes.
    """
    try:
        number = kind(text)
    except ValueError:
        return None
    return None if "_" in text or not text.isascii() or (kind is int and abs(number) > LARGEST) else number


def place_of_word(lines: Lines, counts: Array) -> Callable[[int], str]:
    """Return how an error names the line that the i-th word of a block lies on."""
    bounds = starts(counts)
    return lambda index: lines.place(int(np.searchsorted(bounds, index, side="right")) - 1)
