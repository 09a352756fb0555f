"""Two runs compared: values and differences of every key, held against plain loops."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random

from cli.fuzz import expected, measures
from cli.fuzz.cases import Case
from cli.fuzz.content import RefusedError
from cli.fuzz.reading import files_of
from cli.fuzz.running import check_error, run, snapshot
from cli.fuzz.written import FoundError, same


def check_compared(case: Case, place: Path, source: Random) -> str:
    """Compare a run with one in which lines have changed places; raise unless the differences are those of plain loops."""
    other = replace(case, paths={**case.paths, "preds": _changed(case, source)})
    words = list(case.words)
    at = words.index("--preds")
    words[at + 1 : at + 2] = [str(case.paths["preds"]), str(other.paths["preds"])]
    words += ["--names", "a", "b", "--out", str(place / "out"), "--resamples", "300", "--quiet"]
    before, known = snapshot(case.folder), snapshot(place)
    ended = run(["compare", *words])
    if snapshot(case.folder) != before:
        raise FoundError("an input has changed")
    if ended.status == 2:
        check_error(ended)
        if snapshot(place) != known:
            raise FoundError("files were left behind an error")
        return "error"
    wanted = [_values(one) for one in (case, other)]
    found = json.loads((place / "out" / "compare.json").read_text())["comparisons"]
    # a gap is made of two values that are compared by themselves
    keys = {re.sub(r"_min\d+", "", one["key"]): one for one in found if not one["key"].endswith("/gap")}
    if set(keys) != set(wanted[0]):
        raise FoundError(f"compared are {sorted(keys)}, not {sorted(wanted[0])}")
    for key, one in keys.items():
        for mine, value in ((one["value"], wanted[1][key]), (one["baseline_value"], wanted[0][key])):
            of_nothing = mine is None and not value and "micro_" in key  # the report has 0 where nothing is relevant
            if not same(mine, value) and not of_nothing:
                raise FoundError(f"{key} is {value} by plain loops, {mine} compared")
    return "numbers"


def _values(case: Case) -> dict[str, float]:
    try:
        return measures.values(expected.evaluated(case.read(), case.asked), case.asked, with_rows_alone=True)
    except RefusedError as error:
        raise FoundError(f"was taken for data, but {error}") from error


def _changed(case: Case, source: Random) -> Path:
    """Write predictions in which the items of some lines have changed places, in the same format."""
    path = case.paths["preds"]
    inside = path.parent if "*" in path.name else path
    other = inside.with_name(f"other-{inside.name}")
    if inside.is_file():
        other.write_bytes(_shuffled(case, inside, source))
        return other
    other.mkdir()
    for part in files_of(path):
        (other / part.name).write_bytes(_shuffled(case, part, source))
    return other if inside == path else other / path.name


def _shuffled(case: Case, path: Path, source: Random) -> bytes:
    content = path.read_bytes()
    if case.forms["preds"] in ("trec", "csv", "tsv") and path.suffix not in (".gz", ".bz2", ".zst"):
        head, *lines = content.split(b"\n")
        source.shuffle(lines)
        content = b"\n".join([head, *lines]).replace(b"1.5", b"0.25").replace(b"2.0", b"-3.0")
    return content
