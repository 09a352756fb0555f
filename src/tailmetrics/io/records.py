"""CSV and TSV: one (query, item, score) or (query, item[, gain]) per line, behind a line of column names."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from tailmetrics.io.columns import choose
from tailmetrics.io.csv_file import CsvFile
from tailmetrics.io.formats import Opening
from tailmetrics.io.keyed import Triples
from tailmetrics.io.lines import parse_numbers
from tailmetrics.io.paths import check_file


def read_csv(asked: Opening) -> Iterator[Triples]:
    """Yield the triples of a CSV file."""
    return _read_table(asked, ",")


def read_tsv(asked: Opening) -> Iterator[Triples]:
    """Yield the triples of a TSV file."""
    return _read_table(asked, "\t")


def _read_table(asked: Opening, delimiter: str) -> Iterator[Triples]:
    file = CsvFile(check_file(asked.path), delimiter)
    fields = choose(file.path, file.header, asked.role, asked.columns, file.where)
    for place, found in file.blocks(fields.names):
        values = None
        if fields.value is not None:
            values = fields.scores(parse_numbers(found[2], float, file.path, fields.value, place))
        query, item = map(pc.utf8_trim_whitespace, found[:2])
        yield Triples(query, item, values, place)
