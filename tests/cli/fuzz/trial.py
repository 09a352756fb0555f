"""One numbered trial: a case, as it is, damaged, interrupted, or with outputs where they must not be."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from random import Random

from cli.fuzz import cases, damage, interruption, outputs
from cli.fuzz.running import FoundError, check
from tailmetrics.report import Report, pictures

KINDS = ["sound", "damaged", "interrupted", "killed", "outputs"]


@dataclass
class Tried:
    """How a trial ended.

    Attributes:
        kind: What was tried and how it ended.
        problem: What it found that must not be; empty if nothing.
        words: The command line.
    """

    kind: str
    problem: str
    words: list[str]


def _drawn(report: Report, path: Path) -> bool:
    """Write something in the place of a picture, where there would be one."""
    if report.by_bucket:
        path.write_bytes(b"a picture")
    return bool(report.by_bucket)


def tried(number: int, folder: Path) -> Tried:
    """Run the trial of this number in an empty folder."""
    source = Random(number)
    inputs, place = folder / "inputs", folder / "outputs"
    inputs.mkdir()
    place.mkdir()
    case = cases.made(source, inputs)
    what = source.choices(KINDS, [40, 40, 8, 4, 8])[0]
    pictures.write_picture = _drawn  # drawing takes longer than all the rest
    try:
        how = damage.damage(*source.choice(case.files), source) if what == "damaged" else ""
        if what in ("interrupted", "killed"):
            ended = interruption.check_interrupted(case, place, source, killed=what == "killed")
        elif what == "outputs":
            ended = outputs.check_places(case, place, source)
        else:
            ended = check(case, place / "out", place / "rows.parquet", how)
    except FoundError as error:
        return Tried(what, str(error), case.words)
    except BaseException:
        return Tried(what, traceback.format_exc(limit=-6), case.words)
    return Tried(f"{what}: {ended}", "", case.words)
