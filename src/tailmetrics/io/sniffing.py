"""What the first bytes of a file say of its format, where its name does not tell."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tailmetrics.io.columns import Columns, is_usual
from tailmetrics.io.compression import HEAD_BYTES, head
from tailmetrics.io.errors import reading
from tailmetrics.io.paths import FilePath
from tailmetrics.io.signatures import ARROW, FEATHER_1, PARQUET, STREAM

EARLIEST = 10**8
"""A whole number from here on is a time, such as the seconds since 1970 of files of ratings, and no grade."""


class Head:
    """The first 64 kB of a file, decompressed.

    Attributes:
        data: The bytes.
        columns: Names of columns that were given.
    """

    def __init__(self, path: FilePath, columns: Columns | None = None) -> None:
        self.data = head(path)
        self._path = path
        self.columns = columns or Columns()

    @cached_property
    def lines(self) -> list[str]:
        """The whole lines that hold anything."""
        cut = len(self.data) == HEAD_BYTES
        whole = self.data[: self.data.rfind(b"\n") + 1] if cut else self.data
        text = whole.decode("utf-8-sig", errors="replace")
        return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of each line, comments left out."""
        return [line.split() for line in self.lines if not line.startswith("#")]

    @cached_property
    def schema(self) -> Any:
        """The columns of a file of columns; None of another one."""
        if not self.data.startswith((PARQUET, ARROW, STREAM)):
            return None
        with reading(self._path, "a table"):
            from tailmetrics.io.tables import open_table

            return open_table(self._path).schema

    def fields(self, delimiter: str) -> list[list[str]]:
        """Return the fields of each line."""
        if delimiter == "\t":
            return [line.split(delimiter) for line in self.lines]
        return [_fields(line, delimiter) for line in self.lines]


def _fields(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line; the line itself where its quotes or line ends are wrong."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return [line]


def is_parquet(head: Head) -> bool:
    """Whether a file opens as Parquet does, and is no long table."""
    return head.data.startswith(PARQUET) and not is_long(head)


def is_arrow(head: Head) -> bool:
    """Whether a file opens as Arrow and Feather do, and is no long table."""
    return head.data.startswith((ARROW, STREAM, FEATHER_1)) and not is_long(head)


def is_long(head: Head) -> bool:
    """Whether a file of columns holds a query or an item in each row, not lists; its folders may give the other."""
    if head.schema is None or any("list" in str(field.type) for field in head.schema):
        return False
    names = head.schema.names
    return any(
        getattr(head.columns, field) in names or any(is_usual(name, field) for name in names)
        for field in ("query", "item")
    )


def is_safetensors(head: Head) -> bool:
    """Whether a file opens with the length of a header, and with the header, of safetensors."""
    return head.data[8:10] == b'{"' and int.from_bytes(head.data[:8], "little") < 10**8


def is_npy(head: Head) -> bool:
    """Whether a file opens as an array of numpy does."""
    return head.data.startswith(b"\x93NUMPY")


def is_zip_of_arrays(head: Head) -> bool:
    """Whether a file is an archive whose first member is an array."""
    return head.data.startswith(b"PK\x03\x04") and b".npy" in head.data[:100]


def is_torch(head: Head) -> bool:
    """Whether a file opens as those of ``torch.save`` do."""
    return head.data.startswith(b"PK\x03\x04") and b"/data.pkl" in head.data[:300]


def is_run(head: Head) -> bool:
    """Whether the first line is one of a TREC run: query, a word, document, rank, score, tag."""
    first = next(iter(head.words), [])
    return len(first) >= 6 and _is_whole(first[3]) and _is_number(first[4])


def is_qrels(head: Head) -> bool:
    """Whether the first line is one of qrels: query, a word, document, grade; a time is no grade."""
    first = next(iter(head.words), [])
    return len(first) == 4 and _is_whole(first[3]) and float(first[3]) < EARLIEST


def is_trec(head: Head) -> bool:
    """Whether a file is a TREC run or qrels."""
    return is_run(head) or is_qrels(head)


def is_msmarco(head: Head) -> bool:
    """Whether lines hold query, passage and rank, ranks counting from 1 within each query."""
    before = ("", 0)
    for words in head.words:
        if len(words) != 3 or not words[2].isdigit():
            return False
        expected = before[1] + 1 if words[0] == before[0] else 1
        if int(words[2]) != expected:
            return False
        before = words[0], expected
    return bool(head.words)


def is_xmc(head: Head) -> bool:
    """Whether the first line is the header of a file of the Extreme Classification Repository, or lines hold pairs."""
    pairs = any(":" in word for words in head.words for word in words)
    header = next(iter(head.words), [])
    return pairs or (len(header) in (2, 3) and all(word.isdigit() for word in header) and not is_msmarco(head))


def is_jsonl(head: Head) -> bool:
    """Whether the first line is a JSON object."""
    try:
        return bool(head.lines) and isinstance(json.loads(head.lines[0]), dict)
    except ValueError:
        return False


def is_csv(head: Head) -> bool:
    """Whether the first line has names separated by commas."""
    return _is_table(head.fields(","))


def is_tsv(head: Head) -> bool:
    """Whether the first line has names separated by tabs."""
    return _is_table(head.fields("\t"))


def is_lists(head: Head) -> bool:
    """Whether lines hold a query and its labels, separated by blanks, as submissions of Kaggle do.

    A column that is known to hold one item per line says otherwise, unless blanks stand in it between what looks like
    ids; and so does a query in the place of the list.
    """
    for rows in (head.fields(","), head.fields("\t")):
        if _is_lists(rows):
            one_number = ("score", "rating", "probability", "similarity")  # what holds one number holds no list
            known = any(is_usual(name, "item") or name.lower() in one_number for name in rows[0])
            single = (known or head.columns.item in rows[0]) and not _holds_ids([row[1] for row in rows[1:]])
            return not single and not is_usual(rows[0][1], "query")
    return False


def _holds_ids(fields: Sequence[str]) -> bool:
    """Whether some fields hold several words, and every word has a digit, as ids do and titles do not."""
    words = [field.split() for field in fields]
    return any(len(some) > 1 for some in words) and all(re.search(r"\d", word) for some in words for word in some)


def _is_lists(rows: Sequence[Sequence[str]]) -> bool:
    """Whether two columns are named, and each line below has a query of its own."""
    if len(rows) < 2 or any(len(row) != 2 for row in rows) or not names_lists(rows[0]):
        return False
    queries = [row[0] for row in rows[1:]]
    return len(set(queries)) == len(queries)


def names_lists(header: Sequence[str]) -> bool:
    """Whether two words can be the names of columns: not a query and its list already, such as ``7`` and ``a b``."""
    return not any(_is_number(name) or len(name.split()) != 1 for name in header)


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    return bool(rows) and len(rows[0]) > 1 and not any(_is_number(name) for name in rows[0])


def _is_whole(word: str) -> bool:
    return word.lstrip("+-").isdigit()


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
