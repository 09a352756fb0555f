"""Slow readers of every format, line by line and value by value, that refuse what is not plainly what it should be."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import torch

from cli.fuzz.content import Keyed, RefusedError, Rows

BLANKS = re.compile(r"[ \t\n\v\f\r]+")
USUAL = {
    "query": [
        "query",
        "queryid",
        "qid",
        "topic",
        "topicid",
        "user",
        "userid",
        "uid",
        "session",
        "sessionid",
        "customerid",
        "visitorid",
        "reviewerid",
    ],
    "item": [
        "item",
        "itemid",
        "iid",
        "doc",
        "docid",
        "docno",
        "document",
        "documentid",
        "corpusid",
        "passage",
        "passageid",
        "pid",
        "product",
        "productid",
        "movie",
        "movieid",
        "article",
        "articleid",
        "asin",
        "track",
        "trackid",
        "song",
        "songid",
        "book",
        "bookid",
        "poi",
        "location",
        "locationid",
    ],
    "score": ["score", "rating", "prediction", "predicted", "pred", "probability", "prob", "similarity"],
    "gain": ["gain", "score", "rating", "relevance", "rel", "grade", "label"],
}


def lines_of(content: bytes) -> list[str]:
    """Return the lines of a text that hold anything, without their ends."""
    try:
        text = content.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        raise RefusedError("not UTF-8") from error
    return [line for line in re.split("\r\n|\r|\n", text) if line.strip(" \t\v\f")]


def real(text: str) -> float:
    """Return the number that a text spells."""
    try:
        value = float(text)
    except ValueError as error:
        raise RefusedError(f"no number: {text!r}") from error
    if "_" in text:
        raise RefusedError(f"no number: {text!r}")
    return value


def whole(text: str) -> int:
    """Return the whole number that a text spells, if 64 bits hold it."""
    try:
        value = int(text)
    except ValueError as error:
        raise RefusedError(f"no whole number: {text!r}") from error
    if "_" in text or abs(value) > 2**63 - 1:
        raise RefusedError(f"no whole number: {text!r}")
    return value


def read_trec(content: bytes, role: str) -> Keyed:
    """Return the lines of a run or of qrels."""
    found = []
    for line in lines_of(content):
        words = [word for word in BLANKS.split(line) if word]
        if words[0].startswith("#"):
            continue
        if (role == "preds" and len(words) < 6) or (role != "preds" and len(words) != 4):
            raise RefusedError("number of fields")
        if role == "preds":
            with np.errstate(over="ignore"):
                found.append((words[0], words[2], float(np.float32(real(words[4])))))
        else:
            found.append((words[0], words[2], float(max(0, whole(words[3])))))
    return Keyed(found)


def read_msmarco(content: bytes, role: str) -> Keyed:
    """Return query, passage and minus rank."""
    if role != "preds":
        return read_trec(content, role)
    found = []
    for line in lines_of(content):
        words = [word for word in BLANKS.split(line) if word]
        if words[0].startswith("#"):
            continue
        if len(words) != 3 or whole(words[2]) < 1:
            raise RefusedError("no rank")
        found.append((words[0], words[1], -float(whole(words[2]))))
    return Keyed(found)


def fields(line: str, delimiter: str) -> list[str]:
    """Return the fields of one line; quotes open and close within it."""
    line = line.rstrip("\r") if delimiter == "\t" else line.removesuffix("\r")
    if delimiter == "\t":
        return line.split("\t")
    try:
        found = list(csv.reader([line], strict=True))
    except csv.Error as error:
        raise RefusedError("quotes") from error
    if len(found) != 1:
        raise RefusedError("quotes")
    return found[0]


def choose(header: list[str], field: str, columns: dict[str, str], needed: bool) -> int | None:
    """Return the place of a column: by its name, or the only usual one."""
    name = columns.get(field, field)
    names = [name] if name in header or field in columns else [
        one for one in dict.fromkeys(header) if re.sub(r"[\s_-]", "", one).lower() in USUAL[field]
    ]  # fmt: skip
    if not names and not needed:
        return None
    if len(names) != 1 or header.count(names[0]) != 1:
        raise RefusedError(f"column of {field}")
    return header.index(names[0])


def read_table(content: bytes, role: str, columns: dict[str, str], delimiter: str) -> Keyed:
    """Return the records of CSV or TSV."""
    lines = lines_of(content)
    if not lines:
        raise RefusedError("nothing")
    header = fields(lines[0], delimiter)
    query, item = (choose(header, name, columns, True) for name in ("query", "item"))
    value = choose(header, "score" if role == "preds" else "gain", columns, role == "preds")
    found = []
    for line in lines[1:]:
        record = fields(line, delimiter)
        if len(record) != len(header):
            raise RefusedError("number of fields")
        found.append((record[query], record[item], None if value is None else real(record[value])))
    return Keyed(found)


def read_jsonl(content: bytes, role: str, columns: dict[str, str]) -> Keyed:
    """Return the objects of JSON Lines."""
    records: list[dict[str, Any]] = []
    for line in lines_of(content):
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise RefusedError("JSON") from error
    if not all(isinstance(record, dict) for record in records) or not records:
        raise RefusedError("no objects")
    header = list(dict.fromkeys(name for record in records for name in record))
    places = [choose(header, name, columns, True) for name in ("query", "item")]
    place = choose(header, "score" if role == "preds" else "gain", columns, role == "preds")
    found = []
    for record in records:
        query, item = (record.get(header[one]) for one in places)
        value = None if place is None else record.get(header[place])
        if type(query) not in (str, int) or type(item) not in (str, int):
            raise RefusedError("query or item")
        if place is not None and type(value) not in (int, float):
            raise RefusedError("value")
        found.append((str(query), str(item), None if place is None else float(value)))
    return Keyed(found)


def read_long(content: bytes, role: str, columns: dict[str, str]) -> Keyed:
    """Return the rows of a table of Parquet or Arrow, each of them a line."""
    table = _table(content)
    header = table.column_names
    query, item = (choose(header, name, columns, True) for name in ("query", "item"))
    value = choose(header, "score" if role == "preds" else "gain", columns, role == "preds")
    found: list[tuple[str, str | None, float | None]] = []
    for row in zip(*(table.column(place).to_pylist() for place in range(len(header))), strict=True):
        record = [row[place] for place in (query, item, value) if place is not None]
        if None in record or not all(type(one) in (str, int) for one in record[:2]):
            raise RefusedError("query, item or value")
        number = None if value is None else float(record[2])
        found.append((str(record[0]), str(record[1]), number))
    return Keyed(found)


def _table(content: bytes) -> Any:
    try:
        if content.startswith(b"PAR1"):
            return pq.read_table(pa.BufferReader(content))
        return pa.ipc.open_file(pa.BufferReader(content)).read_all()
    except Exception as error:  # whatever pyarrow says of a damaged file
        raise RefusedError(f"{type(error).__name__}: {error}") from error


def read_groups_of_queries(path: Path, form: str, column: str, columns: dict[str, str]) -> Keyed:
    """Return query and group of each line of a table."""
    content, names = plain(path), {name: value for name, value in columns.items() if name == "query"}
    if form == "long":
        table = _table(content)
        header, records = table.column_names, [list(row.values()) for row in table.to_pylist()]
    elif form == "jsonl":
        read = [json.loads(line) for line in lines_of(content)]
        header = list(dict.fromkeys(name for record in read for name in record))
        records = [[record.get(name) for name in header] for record in read]
    else:
        delimiter = "," if form == "csv" else "\t"
        header, *records = [fields(line, delimiter) for line in lines_of(content)] or [[]]
    query = choose(header, "query", names, True)
    if header.count(column) != 1:
        raise RefusedError("no column of groups")
    place = header.index(column)
    if any(len(record) != len(header) for record in records):
        raise RefusedError("number of fields")
    return Keyed([(str(record[query]), str(record[place]), None) for record in records])


def text_lines(path: Path) -> list[str]:
    """Return every line of a text, blank ones included, without blanks around it."""
    try:
        text = plain(path).removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        raise RefusedError("not UTF-8") from error
    lines = text.split("\n")
    return [line.strip() for line in (lines[:-1] if lines[-1] == "" else lines)]


def read_lists(content: bytes, role: str) -> Keyed:
    """Return the lists of a file with one per line."""
    lines = lines_of(content)
    delimiter = "\t" if lines and "\t" in lines[0] else ","
    table = [fields(line, delimiter) for line in lines]
    if not table or any(len(record) != 2 for record in table):
        raise RefusedError("two columns")
    found: list[tuple[str, str | None, float | None]] = []
    seen = set()
    for query, listed in table[1:]:
        if query in seen:
            raise RefusedError("a second list")
        seen.add(query)
        items = [word for word in BLANKS.split(listed) if word]
        values = [-float(place) if role == "preds" else None for place in range(len(items))]
        found += zip([query] * len(items), items, values, strict=True) if items else [(query, None, None)]
    return Keyed(found)


def read_keyed(path: Path, form: str, role: str, columns: dict[str, str]) -> Keyed:
    """Return what a file of lines holds."""
    content = plain(path)
    if form == "long":
        return checked(read_long(content, role, columns))
    if form == "trec":
        return checked(read_trec(content, role))
    if form == "msmarco":
        return checked(read_msmarco(content, role))
    if form == "jsonl":
        return checked(read_jsonl(content, role, columns))
    if form == "lists":
        return checked(read_lists(content, role))
    return checked(read_table(content, role, columns, "," if form == "csv" else "\t"))


def checked(data: Keyed) -> Keyed:
    """Return lines that all name a query and an item."""
    if not data.lines or any(query == "" or item == "" for query, item, _ in data.lines):
        raise RefusedError("an empty query or item, or no lines")
    return data


def plain(path: Path) -> bytes:
    """Return the bytes of a file, decompressed as its first bytes say."""
    if not path.is_file() or not path.stat().st_size:
        raise RefusedError("no file")
    content = path.read_bytes()
    try:
        if content.startswith(b"\x1f\x8b"):
            return gzip.decompress(content)
        if content.startswith(b"\x28\xb5\x2f\xfd"):
            return bytes(pa.input_stream(pa.BufferReader(content), compression="zstd").read())
        return bz2.decompress(content) if content[4:10] == b"1AY&SY" else content
    except (OSError, EOFError, ValueError) as error:
        raise RefusedError("compression") from error


def files_of(path: Path) -> list[Path]:
    """Return the files of a folder or a pattern in the order of their numbers, or the file itself."""
    if "*" in path.name:
        found = list(path.parent.glob(path.name))
        if any(one.is_dir() for one in found):
            raise RefusedError("a folder among the parts")
    elif path.is_dir():
        found = [one for one in path.rglob("*") if one.is_file()]
    else:
        return [path]
    if not found:
        raise RefusedError("no parts")
    return sorted(found, key=lambda one: int(re.findall(r"part-(\d+)", one.name)[0]))


def read_rows(path: Path, form: str, role: str, num_labels: int | None) -> Rows:
    """Return what a file of rows holds."""
    if not path.is_file() or not path.stat().st_size:
        raise RefusedError("no file")
    if form == "xmc":
        return read_xmc(plain(path))
    try:
        return {"parquet": _parquet, "npy": _numpy, "pt": _torch, "npz": _npz}[form](path, role, num_labels)
    except RefusedError:
        raise
    except Exception as error:  # whatever a library says of a damaged file
        raise RefusedError(f"{type(error).__name__}: {error}") from error


def read_xmc(content: bytes) -> Rows:
    """Return the rows of a score or label file."""
    try:
        lines = content.removeprefix(b"\xef\xbb\xbf").decode().split("\n")
    except UnicodeDecodeError as error:
        raise RefusedError("not UTF-8") from error
    header = lines[0].split()
    if len(header) != 2 or not all(re.fullmatch("[0-9]+", word) for word in header):
        raise RefusedError("header")
    num_rows, num_labels = map(int, header)
    if len(lines) - 1 < num_rows or any(line.strip() for line in lines[1 + num_rows :]):
        raise RefusedError("number of rows")
    made = []
    for line in lines[1 : 1 + num_rows]:
        pairs = [word.split(":") for word in BLANKS.split(line) if word]
        if any(len(pair) != 2 for pair in pairs):
            raise RefusedError("label:value")
        made.append([(str(whole(label)), real(value)) for label, value in pairs])
    return Rows(made, num_labels, graded=True)


def _parquet(path: Path, role: str, num_labels: int | None) -> Rows:
    table = pq.read_table(path)
    ids, values = ("ids", "scores") if role == "preds" else ("labels", "gains")
    lists = table[ids].to_pylist()
    of = table[values].to_pylist() if values in table.column_names else [None] * len(lists)
    if not pa.types.is_list(table[ids].type):
        raise RefusedError("no lists")
    made = []
    for row, numbers in zip(lists, of, strict=True):
        row, numbers = row or [], ([None] * len(row or []) if values not in table.column_names else numbers or [])
        if len(row) != len(numbers) or None in row or (values in table.column_names and None in numbers):
            raise RefusedError("lists")
        made.append(
            [(str(label), None if value is None else float(value)) for label, value in zip(row, numbers, strict=True)]
        )
    return Rows(made, graded=values in table.column_names)


def column(path: Path, name: str) -> list[str | None]:
    """Return a column of a file of rows as text."""
    try:
        table = pq.read_table(path)
    except Exception as error:  # whatever pyarrow says of a damaged file
        raise RefusedError(f"{type(error).__name__}: {error}") from error
    if name not in table.column_names:
        raise RefusedError("no column of groups")
    return [None if one is None else str(one) for one in table[name].to_pylist()]


def _numpy(path: Path, role: str, num_labels: int | None) -> Rows:
    return _array(np.load(path, allow_pickle=False), role, num_labels)


def _torch(path: Path, role: str, num_labels: int | None) -> Rows:
    content = torch.load(path, weights_only=True)
    if isinstance(content, tuple):
        scores, ids = (part.numpy() for part in content)
        made = [
            [(str(label), float(score)) for label, score in zip(*row, strict=True) if label != -1]
            for row in zip(ids.tolist(), scores.tolist(), strict=True)
        ]
        return Rows(made)
    return _array(content.numpy(), role, num_labels)


def _array(array: np.ndarray, role: str, num_labels: int | None) -> Rows:
    if array.dtype.kind == "i" and array.ndim == 1 and role != "preds":
        return Rows([[(str(one), None)] if one != -1 else [] for one in array.tolist()])
    if array.ndim != 2:
        raise RefusedError("shape")
    if array.dtype.kind == "i":
        if role != "preds" and array.shape[1] == num_labels:
            array = array.astype(float)
        else:
            listed = array.tolist()
            if role == "preds" and any(-1 in row and any(one != -1 for one in row[row.index(-1) :]) for row in listed):
                raise RefusedError("padding")
            return Rows([[(str(one), None) for one in row if one != -1] for row in listed])
    if array.dtype.kind != "f":
        raise RefusedError("dtype")
    made = [[(str(label), value) for label, value in enumerate(row)] for row in array.astype(float).tolist()]
    return Rows(made, array.shape[1], graded=True)


def _npz(path: Path, role: str, num_labels: int | None) -> Rows:
    matrix = sp.load_npz(path)
    if matrix.format != "csr":
        raise RefusedError("format")
    made = []
    for row in range(matrix.shape[0]):
        part = slice(matrix.indptr[row], matrix.indptr[row + 1])
        made.append(
            list(zip(map(str, matrix.indices[part].tolist()), map(float, matrix.data[part].tolist()), strict=True))
        )
    return Rows(made, matrix.shape[1], graded=True)
