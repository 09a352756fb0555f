"""Contents as files, each in one of the spellings that a format allows."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import torch

from cli.fuzz.content import Keyed, Rows

USUAL = {
    "query": ("query", "user_id", "qid", "query-id", "userId"),
    "item": ("item", "item_id", "docid", "corpus-id", "movieId"),
    "score": ("score", "rating", "prediction"),
    "gain": ("gain", "rating", "relevance", "score"),
}


GROUP = "lang"
"""The column of targets that holds the group of each query or row."""


@dataclass
class Style:
    """How files of one case are spelled.

    Attributes:
        source: Draws what is left open.
        columns: Names of columns that options say; others have a usual name.
    """

    source: Random
    columns: dict[str, str] = field(default_factory=dict)

    def name(self, field_name: str) -> str:
        """Return what a column is called."""
        return self.columns.get(field_name) or self.source.choice(USUAL[field_name])

    def end(self) -> str:
        """Return an end of line."""
        return self.source.choice(["\n", "\n", "\r\n"])

    def join(self, lines: list[str]) -> bytes:
        """Return lines as bytes, with blank ones, a byte order mark or no end of line at the end now and then."""
        end = self.end()
        text = end.join(lines) + (end if self.source.random() < 0.8 else "")
        mark = b"\xef\xbb\xbf" if self.source.random() < 0.1 else b""
        return mark + text.encode()

    def with_blanks(self, lines: list[str]) -> list[str]:
        """Return the same lines with blank ones among them now and then."""
        if self.source.random() < 0.8:
            return lines
        place = self.source.randrange(len(lines) + 1)
        return [*lines[:place], self.source.choice(["", "  "]), *lines[place:]]


def number(value: float, source: Random) -> str:
    """Return a number as text, in one of its spellings."""
    whole = str(int(value)) if value == int(value) and abs(value) < 1e9 else repr(value)
    return source.choice([repr(value), f"{value:e}" if abs(value) < 1e9 else repr(value), whole])


def write_trec(data: Keyed, role: str, style: Style) -> bytes:
    """Return a run or qrels."""
    source, lines = style.source, []
    for query, item, value in data.lines:
        if item is None:
            continue
        gap = source.choice([" ", " ", "\t", "  "])
        if role == "preds":
            words = [
                query,
                "Q0",
                item,
                "0",
                number(value or 0.0, source),
                "me",
                *(["more"] if source.random() < 0.1 else []),
            ]
        else:
            words = [query, "0", item, str(int(1 if value is None else value))]
        lines.append(gap.join(words))
    if source.random() < 0.2:
        lines.insert(source.randrange(len(lines) + 1), "# a comment")
    return style.join(style.with_blanks(lines))


def write_table(data: Keyed, role: str, style: Style, delimiter: str) -> bytes:
    """Return CSV or TSV with its columns in any order and others among them."""
    source = style.source
    names = [style.name("query"), style.name("item")]
    value = "score" if role == "preds" else "gain"
    valued = any(one is not None for _, _, one in data.lines)
    names += [style.name(value)] if valued else []
    records = [
        [query, item or "", *([number(0.0 if one is None else one, source)] if valued else [])]
        for query, item, one in data.lines
    ]
    if data.groups:
        names.append(GROUP)
        for record, (query, _, _) in zip(records, data.lines, strict=True):
            record.append(data.groups.get(query, ""))
    if source.random() < 0.4:
        place = source.randrange(len(names) + 1)
        names.insert(place, "title")
        titles = (
            ["x", "a b", "", "O'Neill"] + ([] if delimiter == "\t" else ["a, b"]) + (['"'] if delimiter == "\t" else [])
        )
        for record in records:
            record.insert(place, source.choice(titles))
    order = source.sample(range(len(names)), len(names))
    table = [[names[place] for place in order], *([record[place] for place in order] for record in records)]
    if delimiter == "\t":
        return style.join(["\t".join(record) for record in table])
    quoting = source.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    return style.join(style.with_blanks([_csv_line(record, quoting) for record in table]))


def _csv_line(record: list[str], quoting: int) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator="").writerow(record)
    return text.getvalue()


def write_jsonl(data: Keyed, role: str, style: Style) -> bytes:
    """Return JSON Lines; whole numbers are numbers or text."""
    source = style.source
    names = [style.name("query"), style.name("item"), style.name("score" if role == "preds" else "gain")]
    as_numbers = source.random() < 0.5
    lines = []
    for query, item, value in data.lines:
        record = {names[0]: _plain(query, as_numbers), names[1]: _plain(item or "", as_numbers)}
        if data.groups:
            record[GROUP] = data.groups.get(query, "")
        if value is not None:
            record[names[2]] = int(value) if value == int(value) and source.random() < 0.3 else value
        lines.append(json.dumps(record, ensure_ascii=source.random() < 0.5))
    return style.join(style.with_blanks(lines))


def _plain(text: str, as_number: bool) -> str | int:
    return int(text) if as_number and text.isascii() and text.isdigit() and str(int(text)) == text else text


def write_lists(data: Keyed, role: str, style: Style, delimiter: str) -> bytes:
    """Return a query and its list per line."""
    lines = [
        delimiter.join([style.source.choice(["id", "customer_id", "Id"]), style.source.choice(["predicted", "labels"])])
    ]
    for query in data.queries:
        items = [item for item, _ in sorted(data.of(query), key=lambda pair: -(pair[1] or 0))]
        lines.append(delimiter.join([query, " ".join(items)]))
    return style.join(lines)


def write_msmarco(data: Keyed, role: str, style: Style) -> bytes:
    """Return query, passage and rank."""
    if role != "preds":
        return write_trec(data, role, style)
    return style.join(
        [f"{query}\t{item}\t{int(-(value or 0))}" for query, item, value in data.lines if item is not None]
    )


def write_long(data: Keyed, role: str, style: Style) -> bytes:
    """Return a table of Parquet or Arrow with a line in each row."""
    source, value = style.source, "score" if role == "preds" else "gain"
    lines = [line for line in data.lines if line[1] is not None]
    columns = {style.name("query"): _ids([query for query, _, _ in lines], source)}
    columns[style.name("item")] = _ids([item or "" for _, item, _ in lines], source)
    if any(one is not None for _, _, one in lines):
        numbers = [0.0 if one is None else one for _, _, one in lines]
        columns[style.name(value)] = pa.array(numbers, source.choice([pa.float32(), pa.float64()]))
    if data.groups:
        columns[GROUP] = pa.array([data.groups.get(query, "") for query, _, _ in lines], pa.string())
    table, sink = pa.table(columns), pa.BufferOutputStream()
    if source.random() < 0.5:
        pq.write_table(table, sink, row_group_size=source.choice([3, 100]))
    else:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=source.choice([3, 100]))
    return bytes(sink.getvalue().to_pybytes())


def _ids(texts: list[str], source: Random) -> pa.Array:
    """Return queries or items as strings or, where they spell them, as whole numbers."""
    if all(isinstance(_plain(text, True), int) for text in texts) and source.random() < 0.5:
        return pa.array(list(map(int, texts)), pa.int64())
    return pa.array(texts, source.choice([pa.string(), pa.large_string()]))


def write_keyed(data: Keyed, form: str, role: str, style: Style) -> bytes:
    """Return a file of lines in a format."""
    if form in ("csv", "tsv"):
        return write_table(data, role, style, "," if form == "csv" else "\t")
    if form == "lists":
        return write_lists(data, role, style, ",")
    writers = {"trec": write_trec, "jsonl": write_jsonl, "msmarco": write_msmarco, "long": write_long}
    return writers[form](data, role, style)


def write_rows(
    data: Rows,
    form: str,
    role: str,
    path: Path,
    num_labels: int,
    source: Random,
    layout: str,
    groups: list[str] | None,
    valued: bool,
) -> None:
    """Write rows in a format; ``layout`` says how arrays hold them: dense, ids or pairs."""
    ids = [[int(label) for label, _ in row] for row in data.rows]
    values = [[0.0 if value is None else value for _, value in row] for row in data.rows]
    if form == "parquet":
        names = ("ids", "scores") if role == "preds" else ("labels", "gains")
        kind = pa.string() if layout == "names" else source.choice([pa.int32(), pa.int64()])
        listed = [[str(one) for one in row] for row in ids] if layout == "names" else ids
        columns = {names[0]: pa.array(listed, pa.list_(kind))}
        if valued:
            columns[names[1]] = pa.array(values, pa.list_(source.choice([pa.float32(), pa.float64()])))
        if groups is not None:
            columns[GROUP] = pa.array([name or None for name in groups], pa.string())
        pq.write_table(pa.table(columns), path, row_group_size=source.choice([3, 100]))
    elif form in ("npy", "pt"):
        _write_arrays(_arrays(ids, values, num_labels, role, layout), form, path)
    elif form == "npz":
        offsets = np.cumsum([0, *map(len, ids)])
        flat = np.array([one for row in values for one in row]) if valued or role == "preds" else np.ones(offsets[-1])
        sp.save_npz(path, sp.csr_matrix((flat, [one for row in ids for one in row], offsets), (len(ids), num_labels)))
    else:
        lines = [
            " ".join(f"{one}:{number(v if valued else 1.0, source)}" for one, v in zip(*pair, strict=True))
            for pair in zip(ids, values, strict=True)
        ]
        path.write_text("\n".join([f"{len(ids)} {num_labels}", *lines, ""]))


def _arrays(
    ids: list[list[int]], values: list[list[float]], num_labels: int, role: str, layout: str
) -> tuple[np.ndarray, ...]:
    width = max(1, max(map(len, ids)))
    width += width == num_labels and role != "preds"  # whole numbers of width L are multi-hot
    if layout == "dense":
        matrix = np.full((len(ids), num_labels), -np.inf if role == "preds" else 0.0)
        for row, (some, of) in enumerate(zip(ids, values, strict=True)):
            matrix[row, some] = of
        return (matrix,)
    listed = np.full((len(ids), width), -1, dtype=np.int64)
    scores = np.zeros((len(ids), width))
    for row, (some, of) in enumerate(zip(ids, values, strict=True)):
        listed[row, : len(some)], scores[row, : len(some)] = some, of
    return (listed,) if layout == "ids" else (scores, listed)


def _write_arrays(arrays: tuple[np.ndarray, ...], form: str, path: Path) -> None:
    if form == "npy":
        np.save(path, arrays[0])
    else:
        tensors = tuple(map(torch.from_numpy, arrays))
        torch.save(tensors if len(tensors) == 2 else tensors[0], path)


def compressed(content: bytes, codec: str | None) -> bytes:
    """Return bytes, compressed if asked."""
    if codec == "zst":
        return bytes(pa.compress(content, codec="zstd", asbytes=True))
    return {"gz": gzip.compress, "bz2": bz2.compress}.get(codec or "", bytes)(content)
