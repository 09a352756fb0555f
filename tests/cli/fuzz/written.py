"""What a run writes beside its report: values of rows, intervals and labels, held against plain loops."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cli.fuzz import measures
from cli.fuzz.expected import Asked, Evaluated

TOLERANCE = 1e-9


class FoundError(AssertionError):
    """Something that must not be."""


def same(found: float | None, value: float | None) -> bool:
    """Whether a value is what plain loops have; None and NaN are no value."""
    if found is None or math.isnan(found):
        return value is None or math.isnan(value)
    return value is not None and abs(found - value) <= TOLERANCE


def check_table(path: Path, found: Evaluated, asked: Asked) -> None:
    """Raise unless the table has the value of every metric in every row, each row once."""
    table = pq.read_table(path).to_pydict()
    rows = table.pop("query", None) or table.pop("row", None)
    groups = table.pop("row_group", None)
    if sorted(map(str, rows or [])) != sorted(map(str, found.rows)):
        raise FoundError(f"the table has the rows {rows}, not {found.rows}")
    place = {str(name): number for number, name in enumerate(found.rows)}
    order = [place[str(name)] for name in rows]
    if asked.grouped and groups != [found.groups[number] for number in order]:
        raise FoundError(f"the table has the groups {groups}")
    wanted = {key: [cells[number] for number in order] for key, cells in _columns(found, asked).items()}
    table = {re.sub(r"_min\d+", "", key): cells for key, cells in table.items()}
    if table.keys() != wanted.keys():
        raise FoundError(f"columns of the table alone, or of plain loops alone: {sorted(table.keys() ^ wanted.keys())}")
    for key, cells in wanted.items():
        if not all(map(same, table[key], cells)):
            raise FoundError(f"{key} is {cells} by plain loops, {table[key]} in the table")


def _columns(found: Evaluated, asked: Asked) -> dict[str, list[float | None]]:
    columns: dict[str, list[float | None]] = {}
    for measure in measures.measures(found, asked):
        if measure.cells is None:
            continue
        if "micro_" in measure.stem:
            for side, name in enumerate(("numerator", "denominator")):
                columns[f"{measure.key()}.{name}"] = [cell[side] for cell in measure.cells]  # type: ignore[index]
        else:
            columns[measure.key()] = measure.cells  # type: ignore[assignment]
    return columns


def check_intervals(out: Path, found: Evaluated, asked: Asked) -> None:
    """Raise unless every value of rows has an interval around it, of as many rows as count; none without the option."""
    if not asked.intervals:
        return
    read = json.loads((out / "report.json").read_text())["intervals"]
    read = {re.sub(r"_min\d+", "", key): one for key, one in read.items()}
    wanted = measures.values(found, asked, with_rows_alone=True)
    if read.keys() != wanted.keys():
        raise FoundError(f"intervals alone, or plain loops alone: {sorted(read.keys() ^ wanted.keys())}")
    counted = _rows_that_count(found, asked)
    for key, value in wanted.items():
        one = read[key]
        of_nothing = one["value"] is None and not value  # a ratio in which nothing is relevant is reported as 0
        if not same(one["value"], value) and not of_nothing:
            raise FoundError(f"the interval of {key} is of {one['value']}, plain loops have {value}")
        if one["n"] != counted[key]:
            raise FoundError(f"the interval of {key} counts {one['n']} rows, plain loops {counted[key]}")
        if one["low"] is not None and not one["low"] - TOLERANCE <= one["value"] <= one["high"] + TOLERANCE:
            raise FoundError(f"the interval of {key} does not hold its value: {one}")


def _rows_that_count(found: Evaluated, asked: Asked) -> dict[str, int]:
    """Return how many rows each value is made of; of a ratio of sums all, also those that add 0 to both."""
    counted = {}
    for measure in measures.measures(found, asked):
        for group in (None, *found.group_names):
            cells = [(measure.cells or [])[row] for row in measures.rows_of(found, group)] if measure.cells else []
            counted[measure.key(group)] = sum(cell is not None for cell in cells)
    return counted


def check_labels(out: Path, found: Evaluated, asked: Asked) -> None:
    """Raise unless ``labels.csv`` has a line for each label that was met, in its order; none without the option."""
    file = out / "labels.csv"
    if not asked.labels:
        if file.exists():
            raise FoundError("labels that nobody asked for")
        return
    lines: list[dict[str, Any]] = list(csv.DictReader(file.open(newline="")))
    lines = [{re.sub(r"_min\d+", "", key): cell for key, cell in line.items()} for line in lines]
    wanted = measures.label_lines(found, asked)
    if [line["label"] for line in lines] != [str(line["label"]) for line in wanted]:
        raise FoundError(f"labels are {[line['label'] for line in lines]}, not {[line['label'] for line in wanted]}")
    for line, of in zip(lines, wanted, strict=True):
        for name, value in of.items():
            held = line.get(name)
            right = same(float(held or "nan"), value) if isinstance(value, float) else str(value) == held
            if not right:
                raise FoundError(f"{name} of label {of['label']} is {value} by plain loops, {held} in labels.csv")
