"""Text whose row i is row i of the other file: XMC, and the words of filters and counts, cut by arrow and numpy.

Score and label files of the Extreme Classification Repository open with ``rows labels`` and hold
``label:value label:value`` per line; an empty line is an empty row. napkinXC writes the same without the first line.
Data files open with ``rows features labels`` and hold ``label,label feature:value feature:value``: targets only. A
process looks for line ends up to its last row and parses its own lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.files import FilePath, check_file, head, size_of, stream
from tailmetrics.io.formats import Opening, Role
from tailmetrics.io.rows import Array, Ragged, Source, rebatch, starts

BLOCK_BYTES = 2**21
LONGEST = 2**27
"""Bytes of a line at most: a row of a million labels and their scores takes a tenth."""
LARGEST = 2**63 - 1
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, eq=False)
class Block:
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


def read_blocks(path: FilePath, skip: int = 0) -> Iterator[Block]:
    """Yield the lines of a UTF-8 file in blocks of about 2 MB; the first ``skip`` lines are only counted.

    Raises:
        DataFileError: If a line is longer than any row is, as in a file that is no text.
    """
    number, rest, begun = 1, [b""], False
    with stream(path) as file:
        while block := bytes(file.read(BLOCK_BYTES)):
            block = block if begun else block.removeprefix(BYTE_ORDER_MARK)
            begun = True
            end = block.rfind(b"\n") + 1
            rest.append(block[:end] if end else block)
            if not end:
                if sum(map(len, rest)) > LONGEST:
                    problem = f"is longer than {LONGEST:,} bytes"
                    raise DataFileError(path, problem, f"line {number}", "is it a text file, with ends of lines?")
                continue
            whole, rest = b"".join(rest), [block[end:]]
            count = whole.count(b"\n")
            if number + count - 1 > skip:
                yield from _from(_block(path, number, whole), skip)
            number += count
    last = b"".join(rest)
    if last and number > skip:
        yield _block(path, number, last)


def _from(lines: Block, skip: int) -> Iterator[Block]:
    dropped = max(0, skip + 1 - lines.first)
    yield Block(lines.path, lines.first + dropped, lines.text.slice(dropped))


def _block(path: FilePath, first: int, block: bytes) -> Block:
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
    return Block(path, first, text)


def _decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


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


def place_of_word(lines: Block, counts: Array) -> Callable[[int], str]:
    """Return how an error names the line that the i-th word of a block lies on."""
    bounds = starts(counts)
    return lambda index: lines.place(int(np.searchsorted(bounds, index, side="right")) - 1)


FORM = "XMC text"
HEADER_HINT = "the first line is 'rows labels' (label:value lines) or 'rows features labels' (label,label lines)."
PAIR_HINT = "entries are label:value, separated by blanks."


class XmcSource(Source):
    """A score, label or data file in text; line 1 is the header, row r stands on line r + 2."""

    def __init__(self, path: str | FilePath, role: Role | None) -> None:
        self.path = check_file(path)
        words = head(self.path).removeprefix(BYTE_ORDER_MARK).split(b"\n")[0].split()
        self._header = int(not words or b":" not in words[0])
        if self._header and (len(words) not in (2, 3) or not all(word.isdigit() for word in words)):
            raise DataFileError(self.path, "has no header", "line 1", HEADER_HINT)
        if self._header:
            self.num_rows, self.num_labels = int(words[0]), int(words[-1])
        else:
            with reading(self.path, FORM):
                self.num_rows = sum(len(block.text) for block in read_blocks(self.path))
        self._has_features = self._header == 1 and len(words) == 3
        if self._has_features and role == "preds":
            hint = "predictions are label:value lines under the header 'rows labels'."
            raise DataFileError(self.path, "is a data file with features, not predictions", "line 1", hint)
        if not self._has_features:
            self.cells_per_row = size_of(self.path) / max(self.num_rows, 1) / 8

    def place(self, row: int) -> str:
        """Return line and row: row r stands on line r + 2, or r + 1 without a header."""
        return f"line {row + 1 + self._header} (row {row})"

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows, parsing only their own lines."""
        with reading(self.path, FORM):
            yield from rebatch(self._parsed(start, stop), size)

    def _parsed(self, start: int, stop: int) -> Iterator[Ragged]:
        parse = _labels_before_features if self._has_features else _pairs
        row = start
        for lines in read_blocks(self.path, skip=start + self._header):
            own = min(stop - row, len(lines.text))
            if own:
                yield parse(Block(lines.path, lines.first, lines.text.slice(0, own)))
            row += own
            if row == stop and stop < self.num_rows:
                return
            self._check_end(Block(lines.path, lines.first + own, lines.text.slice(own)))
        if row < stop:
            hint = "the file may be truncated, or its header wrong."
            raise DataFileError(self.path, f"holds {row} rows, but its header says {self.num_rows}", hint=hint)

    def _check_end(self, lines: Block) -> None:
        counts, _ = lines.words()
        if counts.any():
            hint = "correct the header, or write the file again."
            problem = f"there are more rows than the {self.num_rows} of the header"
            raise DataFileError(self.path, problem, lines.place(int(counts.argmax())), hint)


def open_xmc(asked: Opening) -> XmcSource:
    """Open a file of text."""
    return XmcSource(asked.path, asked.role)


def _pairs(lines: Block) -> Ragged:
    counts, words = lines.words()
    parts = pc.split_pattern(words, ":")
    wrong = pc.list_value_length(parts).to_numpy() != 2
    place = place_of_word(lines, counts)
    if wrong.any():
        index = int(wrong.argmax())
        raise DataFileError(lines.path, f"{words[index].as_py()!r} is not label:value", place(index), PAIR_HINT)
    cells = parts.flatten()
    even = pa.array(np.arange(0, len(cells), 2))
    labels = parse_numbers(cells.take(even), int, lines.path, "label", place)
    values = parse_numbers(cells.take(pc.add(even, 1)), float, lines.path, "value", place)
    return Ragged.from_lengths(counts, labels, values)


def _labels_before_features(lines: Block) -> Ragged:
    """Read the labels, which end at the first blank; a line without labels opens with a blank or with a feature."""
    first = pc.struct_field(pc.extract_regex(lines.text, r"^(?P<labels>[^\s]*)"), "labels")
    first = pc.if_else(pc.match_substring_regex(first, r"^\d+:"), "", first)
    labels = pc.split_pattern(first, ",")
    listed = pc.list_value_length(labels).to_numpy()
    counts = np.where(pc.equal(first, "").to_numpy(zero_copy_only=False), 0, listed)
    flat = labels.flatten().filter(pa.array(np.repeat(counts > 0, listed)))
    return Ragged.from_lengths(counts, parse_numbers(flat, int, lines.path, "label", place_of_word(lines, counts)))
