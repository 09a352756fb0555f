"""Which files tailmetrics has written and may therefore replace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tailmetrics.cli.row_table import METADATA

SIGNS = {
    "report": {"metrics", "by_bucket", "versions"},
    "compare": {"correction", "comparisons"},
    "intervals": {"title", "intervals"},
}
"""Stem of a JSON file -> keys that show that it is ours."""
SUFFIXES = (".json", ".md", ".tex", ".csv", ".html", ".png")
JSON_BYTES = 2**28


def is_ours(path: Path) -> bool:
    """Whether a file was written by tailmetrics: a table of values per row, or one of the files of a report.

    What is neither Parquet nor JSON is known by the JSON file of the same stem beside it.
    """
    if not path.is_file():
        return False
    if path.name in ("labels.csv", "curve.csv"):
        path = path.with_name("report.csv")
    if path.suffix in SUFFIXES and path.stem in SIGNS:
        return _is_signed(path.with_suffix(".json"), SIGNS[path.stem])
    return _is_row_table(path)


def _is_row_table(path: Path) -> bool:
    try:
        return METADATA in (pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def _is_signed(path: Path, keys: set[str]) -> bool:
    try:
        if path.stat().st_size > JSON_BYTES:
            return False
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and keys <= content.keys()
