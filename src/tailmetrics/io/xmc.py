"""XMC, the format of the Extreme Classification Repository.

Row i of one file belongs to row i of the other file.

Score and label files begin with ``rows labels`` and hold ``label:value label:value``
per line; an empty line is an empty row. napkinXC writes these files without the first
line. Data files begin with ``rows features labels`` and hold
``label,label feature:value``; they can only be targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import numpy as np

from tailmetrics.io.columns import TableReading
from tailmetrics.io.files import DataFileError, file_errors, head, size_of
from tailmetrics.io.forms import Opening
from tailmetrics.io.rows import Ragged, Source
from tailmetrics.io.text import BLANK, every_line, parse_int64

LONGEST_ROW = 2**27
"""Bytes of a row at most; a million labels with scores take a tenth of this."""
BLANKS = re.compile(f"[{BLANK}]+")

PARSED_ROWS = 2**10
"""Number of rows parsed at a time: a megabyte of text at 100 pairs per row."""
HEADER_HINT = (
    "the first line is 'rows labels' above lines of label:value. Lines 'label,label "
    "feature:value', as svmlight and LIBSVM have them, need a line 'rows features "
    "labels' above them; with qid:query behind a grade they are LETOR."
)
SCORES_HINT = (
    "predictions are lines of label:score: leave out what stands before the first "
    "of them."
)
FEATURE = re.compile(r"[0-9]+:")
PAIR_HINT = "entries are label:value, separated by blanks."


class XmcSource(Source):
    """An XMC score, label or data file.

    Only score and label files may lack the header line.
    """

    layout = "label:value"

    def __init__(self, opening: Opening) -> None:
        self.path = opening.path
        self.reading = TableReading(
            opening=opening, content="'label:value' in a line for each row"
        )
        words = self._first_words()
        self._has_features = len(words) == 3
        self._header_lines = 1
        if words:
            self.num_rows, self.num_labels = int(words[0]), int(words[-1])
        else:
            self._header_lines = 0
            self.num_rows = sum(1 for _ in every_line(self.path, LONGEST_ROW))
        if self._has_features and opening.role == "preds":
            hint = "predictions are label:value lines under the header 'rows labels'."
            raise DataFileError(
                self.path,
                "is a data file with features, not predictions",
                "line 1",
                hint,
            )
        if not self._has_features:
            # a pair is two numbers in about 10 bytes, or more if scores have all their
            # digits
            self.cells_per_row = size_of(self.path) / max(self.num_rows, 1) / 8

    def _first_words(self) -> list[bytes]:
        """Return the numbers of the header; none if the file begins with pairs.

        Raises:
            DataFileError: If the first words are neither.
        """
        first, *lines = head(self.path).removeprefix(b"\xef\xbb\xbf").splitlines() or [
            b""
        ]
        words = first.split()
        if not words:  # without a header, the first rows may be empty
            for line in lines:
                if b":" in line:
                    words = line.split()
                    break
        if words and b":" in words[0]:
            return []
        if len(words) not in (2, 3) or not all(word.isdigit() for word in words):
            hint = HEADER_HINT
            if self.reading.opening.role == "preds":
                hint = SCORES_HINT
            raise DataFileError(
                self.path,
                "has no header that tells the number of labels",
                "line 1",
                hint,
            )
        return words

    def describe_row(self, row: int) -> str:
        """Return the line and the row in words.

        Row r is on line r + 2, or on line r + 1 without a header.
        """
        return f"line {row + 1 + self._header_lines} (row {row})"

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows; only lines from ``start`` up to ``stop`` are parsed."""
        parse = self._pairs
        if self._has_features:
            parse = self._labels
        with file_errors(self.path, "XMC text"):
            lines = islice(
                every_line(self.path, LONGEST_ROW), start + self._header_lines, None
            )
            row = start
            while block := list(islice(lines, min(size, PARSED_ROWS, stop - row))):
                yield parse(block)
                row += len(block)
            if row < stop:
                problem = f"holds {row} rows, but its header says {self.num_rows}"
                raise DataFileError(
                    self.path,
                    problem,
                    hint="the file may be truncated, or its header wrong.",
                )
            if stop == self.num_rows:
                self._check_all_blank(lines)

    def _check_all_blank(self, lines: Iterable[tuple[int, str]]) -> None:
        """Raise if a line behind the last row is not blank."""
        for line, text in lines:
            if text.strip(BLANK):
                hint = "correct the header, or write the file again."
                problem = f"there are more rows than the {self.num_rows} of the header"
                raise DataFileError(self.path, problem, f"line {line}", hint)

    def _pairs(self, lines: list[tuple[int, str]]) -> Ragged:
        rows = [text.encode().split() for _, text in lines]
        try:
            if any("_" in text for _, text in lines):  # Python reads 1_0 as 10
                raise ValueError
            pairs = [word.split(b":") for word in chain.from_iterable(rows)]
            words = [label for label, _ in pairs]
            if b"+" in b"".join(words):
                raise ValueError
            labels = np.array(list(map(int, words)), np.int64)
            values = np.array([float(value) for _, value in pairs])
        except (ValueError, OverflowError):
            for line, text in lines:
                for word in text.split():
                    self._check_pair(word, line)
            raise
        return Ragged.from_lengths(np.array([len(row) for row in rows]), labels, values)

    def _check_pair(self, word: str, line: int) -> None:
        """Raise if a word is no label and value."""
        label, colon, value = word.partition(":")
        if not colon or ":" in value:
            raise DataFileError(
                self.path, f"{word!r} is not label:value", f"line {line}", PAIR_HINT
            )
        parse_int64(self.path, "label", label, line)
        try:
            float(value.replace("_", "no number"))
        except ValueError:
            hint = "every value must be a number."
            raise DataFileError(
                self.path, f"value {value!r} is not a number", f"line {line}", hint
            ) from None

    def _labels(self, lines: list[tuple[int, str]]) -> Ragged:
        """Parse the labels, which end at the first blank.

        A line without labels begins with a blank or a feature.
        """
        labels = []
        lengths = []
        for line, text in lines:
            first = BLANKS.split(text)[0]
            words: list[str] = []
            if first and not FEATURE.match(first):
                words = first.split(",")
            lengths.append(len(words))
            labels += [parse_int64(self.path, "label", word, line) for word in words]
        return Ragged.from_lengths(np.array(lengths), np.array(labels, np.int64))
