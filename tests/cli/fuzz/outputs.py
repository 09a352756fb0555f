"""Outputs in places where something is already: inputs, files of others, folders."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

from cli.fuzz.cases import Case
from cli.fuzz.running import FoundError, check, check_error, run, snapshot


def check_places(case: Case, place: Path, source: Random) -> str:
    """Raise unless an output that must not be written is refused, with everything as before."""
    out, table = place / "out", place / "rows.parquet"
    tries = [_is_an_input, _is_linked, _holds_an_input, _is_of_others, _is_a_folder, _replaces_its_own]
    return source.choice(tries)(case, out, table, source)


def _refused(case: Case, words: list[str]) -> str:
    everything = case.folder.parent
    before = snapshot(everything)
    ended = run(["evaluate", *case.words, *words, "--quiet"])
    if snapshot(everything) != before:
        raise FoundError(f"something has changed: {ended.err!r}")
    if ended.status != 2:
        raise FoundError(f"was written: {words}")
    check_error(ended)
    return "error"


def _is_an_input(case: Case, out: Path, table: Path, source: Random) -> str:
    path = source.choice([*(path for path, _ in case.files), case.folder / "config.yaml"])
    spelled = source.choice([str(path), os.path.relpath(path), f"{path.parent}/../{path.parent.name}/{path.name}"])
    return _refused(case, ["--per-row", spelled])


def _is_linked(case: Case, out: Path, table: Path, source: Random) -> str:
    path = source.choice(case.files)[0]
    if source.random() < 0.5:
        table.symlink_to(path)
    else:
        os.link(path, table)
    return _refused(case, ["--per-row", str(table)])


def _holds_an_input(case: Case, out: Path, table: Path, source: Random) -> str:
    """The target lies in the folder of the report, under the name of one of its files."""
    target = case.paths["target"]
    if not target.is_file():  # the parts of a folder keep their names
        return _is_an_input(case, out, table, source)
    out.mkdir()
    name = out / source.choice(["report.csv", "report.json", "curve.csv", "report.png"])
    shutil.copy(target, name)
    words = [str(name) if word == str(target) else word for word in case.words]
    return _refused(replace(case, words=words), ["--out", str(out)])


def _is_of_others(case: Case, out: Path, table: Path, source: Random) -> str:
    out.mkdir()
    name = source.choice(["report.csv", "report.json", "report.html", "labels.csv", "rows.parquet"])
    (out / name).write_bytes(source.choice([b"", b"theirs", b'{"metrics": 1}', b"[]", b"PAR1"]))
    return _refused(case, ["--out", str(out), "--per-row", str(out / "rows.parquet")])


def _is_a_folder(case: Case, out: Path, table: Path, source: Random) -> str:
    name = source.choice(["report.csv", "report.html", "rows.parquet"])
    (out / name).mkdir(parents=True)
    return _refused(case, ["--out", str(out), "--per-row", str(out / "rows.parquet")])


def _replaces_its_own(case: Case, out: Path, table: Path, source: Random) -> str:
    check(case, out, table, damaged="any")
    return check(case, out, table, damaged="any")
