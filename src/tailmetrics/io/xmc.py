"""The text formats of the Extreme Classification Repository.

Score and label files open with ``rows labels`` and hold ``label:value label:value`` per line; an empty line is an empty
row. Data files open with ``rows features labels`` and hold ``label,label feature:value feature:value``: targets only.
A rank looks for line ends up to its last row and parses its own lines.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailmetrics.io.compression import head
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.formats import Opening
from tailmetrics.io.lines import BYTE_ORDER_MARK, Lines, parse_numbers, place_of_word, read_lines
from tailmetrics.io.paths import FilePath, check_file, size_of
from tailmetrics.io.roles import Role
from tailmetrics.io.rows import Ragged, rebatch
from tailmetrics.io.source import Source

FORM = "XMC text"
HEADER_HINT = "the first line is 'rows labels' (label:value lines) or 'rows features labels' (label,label lines)."
PAIR_HINT = "entries are label:value, separated by blanks."


class XmcSource(Source):
    """A score, label or data file in text; line 1 is the header, row r stands on line r + 2."""

    def __init__(self, path: str | FilePath, role: Role | None) -> None:
        self.path = check_file(path)
        words = head(self.path).removeprefix(BYTE_ORDER_MARK).split(b"\n")[0].split()
        if len(words) not in (2, 3) or not all(word.isdigit() for word in words):
            raise DataFileError(self.path, "has no header", "line 1", HEADER_HINT)
        self.num_rows, self.num_labels = int(words[0]), int(words[-1])
        self._has_features = len(words) == 3
        if self._has_features and role == "preds":
            hint = "predictions are label:value lines under the header 'rows labels'."
            raise DataFileError(self.path, "is a data file with features, not predictions", "line 1", hint)
        if not self._has_features:
            self.cells_per_row = size_of(self.path) / max(self.num_rows, 1) / 8

    def place(self, row: int) -> str:
        """Return line and row: row r stands on line r + 2."""
        return f"line {row + 2} (row {row})"

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows, parsing only their own lines."""
        with reading(self.path, FORM):
            yield from rebatch(self._parsed(start, stop), size)

    def _parsed(self, start: int, stop: int) -> Iterator[Ragged]:
        parse = _labels_before_features if self._has_features else _pairs
        row = start
        for lines in read_lines(self.path, skip=start + 1):
            own = min(stop - row, len(lines.text))
            if own:
                yield parse(Lines(lines.path, lines.first, lines.text.slice(0, own)))
            row += own
            if row == stop and stop < self.num_rows:
                return
            self._check_end(Lines(lines.path, lines.first + own, lines.text.slice(own)))
        if row < stop:
            hint = "the file may be truncated, or its header wrong."
            raise DataFileError(self.path, f"holds {row} rows, but its header says {self.num_rows}", hint=hint)

    def _check_end(self, lines: Lines) -> None:
        counts, _ = lines.words()
        if counts.any():
            hint = "correct the header, or write the file again."
            problem = f"there are more rows than the {self.num_rows} of the header"
            raise DataFileError(self.path, problem, lines.place(int(counts.argmax())), hint)


def open_xmc(asked: Opening) -> XmcSource:
    """Open a file of text."""
    return XmcSource(asked.path, asked.role)


def _pairs(lines: Lines) -> Ragged:
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


def _labels_before_features(lines: Lines) -> Ragged:
    """Read the labels, which end at the first blank; a line without labels opens with a blank or with a feature."""
    first = pc.struct_field(pc.extract_regex(lines.text, r"^(?P<labels>[^\s]*)"), "labels")
    first = pc.if_else(pc.match_substring_regex(first, r"^\d+:"), "", first)
    labels = pc.split_pattern(first, ",")
    listed = pc.list_value_length(labels).to_numpy()
    counts = np.where(pc.equal(first, "").to_numpy(zero_copy_only=False), 0, listed)
    flat = labels.flatten().filter(pa.array(np.repeat(counts > 0, listed)))
    return Ragged.from_lengths(counts, parse_numbers(flat, int, lines.path, "label", place_of_word(lines, counts)))
