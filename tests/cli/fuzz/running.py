"""A case run by the command line in this process, and held against the metrics of the rows that were written."""

from __future__ import annotations

import io
import json
import math
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

import tailmetrics
from cli.fuzz import expected
from cli.fuzz.cases import Case
from cli.fuzz.content import RefusedError
from tailmetrics import LabelFrequency, TopKCollection
from tailmetrics.cli import main

OF_WHAT_IS_SHOWN = ("CatalogCoverageAtK", "PopularityAtK", "PredictionProportionAtK")
"""Metrics without a level of relevance."""


class FoundError(AssertionError):
    """Something that must not be."""


@dataclass
class Ended:
    """How a command line ended."""

    status: int
    out: str
    err: str


def run(words: list[str]) -> Ended:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.resetwarnings()
        status = main(words)
    return Ended(status, out.getvalue(), err.getvalue())


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Return every file below a folder with its bytes, and every empty folder."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() or not any(path.iterdir())
    }


def check(case: Case, out: Path, table: Path, damaged: str = "") -> str:
    """Run a case, whose files may be damaged, and raise FoundError unless it ends as it must; return how."""
    before, known = snapshot(case.folder), snapshot(out.parent)
    ended = run(["evaluate", *case.words, "--overwrite", "--out", str(out), "--per-row", str(table), "--quiet"])
    if snapshot(case.folder) != before:
        raise FoundError("an input has changed")
    try:
        found = expected.evaluated(case.data, case.asked)
    except RefusedError:
        found = None
    if ended.status == 2:
        check_error(ended)
        cleaned = any(".tailmetrics-" in name for name in known)  # what a killed run left goes with the next one
        if snapshot(out.parent) != known and not cleaned:
            raise FoundError("files were left behind an error")
        if found is not None and damaged in ("", "alike"):
            raise FoundError(f"refused: {ended.err!r}")
        if found is not None and damaged == "wrong" and not re.search("line |tell its format", ended.err):
            raise FoundError(f"no line is named: {ended.err!r}")
        return "error"
    if ended.status != 0 or any(not line.startswith(("note: ", "warning: ")) for line in ended.err.splitlines()):
        raise FoundError(f"status {ended.status}: {ended.err!r}")
    names = {path.name for path in out.iterdir()}
    if not {f"report.{suffix}" for suffix in ("json", "md", "csv", "tex", "html")} <= names or not table.is_file():
        raise FoundError(f"files are missing: {names}")
    if list(out.parent.rglob(".*")):
        raise FoundError("something hidden was left behind")
    if damaged == "any":
        return "numbers"
    if damaged == "wrong" or found is None:
        raise FoundError("was taken for data")
    rows = pq.read_table(table).to_pydict()
    if sorted(map(str, rows.get("query") or rows["row"])) != sorted(map(str, found.rows)):
        raise FoundError(f"the table has other rows than {found.rows}")
    wanted, reported = by_api(found, case.asked), values_of(out)
    if {key: _bits(value) for key, value in wanted.items()} != {key: _bits(value) for key, value in reported.items()}:
        raise FoundError(f"the rows have {wanted}, the report {reported}")
    return "numbers"


def check_error(ended: Ended) -> None:
    """Raise unless stderr holds one error and one hint behind whatever was noted, and stdout nothing."""
    lines = ended.err.splitlines()
    while lines and lines[0].startswith(("note: ", "warning: ")):
        del lines[0]
    if len(lines) != 2 or not lines[0].startswith("error: ") or not lines[1].startswith("hint: ") or ended.out:
        raise FoundError(f"no clear error: {ended.err!r} {ended.out!r}")
    if not all(char.isprintable() for line in lines for char in line) or ".tailmetrics-" in ended.err:
        raise FoundError(f"an error that shows what it should not: {ended.err!r}")
    if re.search(r"\b(num_labels|string_ids|label_names|batch_rows|min_gain)\b|Columns\(|Traceback", ended.err):
        raise FoundError(f"an error in the words of the API: {ended.err!r}")


def values_of(out: Path) -> dict[str, float]:
    """Return the values of a report by key, without the level of relevance, NaN for None."""
    report = json.loads((out / "report.json").read_text())
    found = dict(report["metrics"])
    for key, by_bucket in report["by_bucket"].items():
        found |= {f"{key}/{bucket}": value for bucket, value in by_bucket.items()}
    return {re.sub(r"_min\d+", "", key): math.nan if value is None else float(value) for key, value in found.items()}


def _bits(value: float) -> str:
    return "nan" if math.isnan(value) else value.hex()


def by_api(found: expected.Evaluated, asked: expected.Asked) -> dict[str, float]:
    """Return what the metrics compute of tensors made of the same rows."""
    more: dict[str, Any] = {} if asked.min_gain is None else {"min_gain": asked.min_gain}
    if asked.duplicates != "error":
        more["duplicates"] = asked.duplicates
    metrics = {}
    for name, arguments in [*asked.metrics, *_twins(asked)]:
        taken = {key: value for key, value in more.items() if key == "duplicates" or name not in OF_WHAT_IS_SHOWN}
        kind = {"buckets": asked.buckets} if "buckets" in arguments else {}
        metric = getattr(tailmetrics, name)(**{**arguments, **kind, **taken})
        metrics.setdefault(repr(metric), metric)
    names = found.group_names if asked.grouped else None
    collection = TopKCollection(list(metrics.values()), row_groups=names)
    if found.counts is not None:
        collection.bind(
            LabelFrequency.from_counts(torch.tensor(found.counts), max([found.num_train or 1000, *found.counts]))
        )
    elif found.num_labels is not None:
        zeros = torch.zeros(found.num_labels, dtype=torch.int64)
        collection.bind(tailmetrics.LabelBuckets.from_assignment(zeros, ["all"]))
    groups = None if names is None else torch.tensor([-1 if one is None else names.index(one) for one in found.groups])
    collection.update(_preds(found, asked), _gains(found), row_groups=groups)
    return {re.sub(r"_min\d+", "", key): float(value) for key, value in collection.compute().items()}


def _twins(asked: expected.Asked) -> list[tuple[str, dict[str, object]]]:
    """Return the metrics over all labels that a report has beside those by bucket."""
    return [
        (name, {key: value for key, value in arguments.items() if key not in ("buckets", "scope")})
        for name, arguments in asked.metrics
        if "buckets" in arguments and name != "PredictionProportionAtK"
    ]


def _preds(found: expected.Evaluated, asked: expected.Asked) -> Any:
    """Return the lists as ranked ids; of those with repeated labels, as they were written."""
    lists = found.lists
    if asked.duplicates == "first":
        lists = [_with_repeats(listed) for listed in lists]
    width = max(1, max(map(len, lists)))
    return torch.tensor([listed + [-1] * (width - len(listed)) for listed in lists])


def _with_repeats(listed: list[int]) -> list[int]:
    """Return a list with every label where it stands again."""
    return [~label if label < 0 else label for label in listed]


def _gains(found: expected.Evaluated) -> torch.Tensor:
    num_labels = found.num_labels or 1 + max(
        [0, *(label for listed in found.lists for label in listed), *(label for row in found.gains for label in row)]
    )
    gains = torch.zeros(len(found.gains), num_labels, dtype=torch.float64)
    for row, some in enumerate(found.gains):
        for label, gain in some.items():
            gains[row, label] = gain
    return gains
