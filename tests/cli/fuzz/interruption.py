"""Command lines that are interrupted, or killed, at a place drawn at random; the next one sets everything right."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from cli.fuzz.cases import Case
from cli.fuzz.running import Ended, FoundError, check, run, snapshot
from tailmetrics.cli.outputs import Outputs
from tailmetrics.cli.row_tables import RowTableWriter
from tailmetrics.evaluation import Evaluation
from tailmetrics.report import Report

PLACES: list[tuple[Any, str]] = [
    (Evaluation, "update"),
    (Evaluation, "report"),
    (RowTableWriter, "write"),
    (Report, "write"),
    (Outputs, "claim"),
    (Outputs, "place"),
    (Path, "replace"),
]
"""What is under way when the signal comes: before it or behind it."""


@contextmanager
def interrupted_in(source: Random, signals: list[int]) -> Iterator[list[str]]:
    """Send a signal to this process the n-th time that something is done; yields where, once it has been sent."""
    owner, name = source.choice(PLACES)
    before, number, wanted = source.random() < 0.5, source.choice(signals), source.randrange(1, 4)
    original: Callable[..., Any] = getattr(owner, name)
    calls, sent = [0], []

    def interrupted(*arguments: Any, **more: Any) -> Any:
        calls[0] += 1
        now = calls[0] == wanted
        if now and before:
            sent.append(name)
            os.kill(os.getpid(), number)
        result = original(*arguments, **more)
        if now and not before:
            sent.append(name)
            os.kill(os.getpid(), number)
        return result

    setattr(owner, name, interrupted)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield sent
    finally:
        setattr(owner, name, original)
        signal.signal(signal.SIGINT, handler)


def check_interrupted(case: Case, place: Path, source: Random, killed: bool) -> str:
    """Interrupt or kill a run that replaces an earlier one; raise unless all files are of one run, and the next is right."""
    out, table = place / "out", place / "rows.parquet"
    if source.random() < 0.7:
        check(case, out, table, damaged="any")
    known, inputs = snapshot(place), snapshot(case.folder)
    words = [
        "evaluate",
        *case.words,
        "--overwrite",
        "--out",
        str(out),
        "--per-row",
        str(table),
        "--quiet",
        "--title",
        "another",
    ]
    if killed:
        _killed(words, source)
    else:
        _check_status(*_interrupted(words, source))
        now = snapshot(place)
        if any("/.tailmetrics-" in f"/{name}" for name in now):
            raise FoundError(f"left behind: {sorted(now)}")
        if now != known and not _is_whole(now, known):
            raise FoundError(f"neither the old files nor the new ones: {sorted(now)} for {sorted(known)}")
    if snapshot(case.folder) != inputs:
        raise FoundError("an input has changed")
    ended = check(case, out, table, damaged="any")
    if ended == "numbers" and any("/.tailmetrics-" in f"/{name}" for name in snapshot(place)):
        raise FoundError("what a killed run left is still there")
    return ended


def _is_whole(now: dict[str, bytes | None], known: dict[str, bytes | None]) -> bool:
    """Whether every file of a report and its table is new."""
    texts = [name for name in now if name.startswith("out/report.") and not name.endswith(".png")]
    return (
        bool(texts)
        and "rows.parquet" in now
        and all(now[name] != known.get(name) for name in texts if name.endswith(".json"))
    )


def _interrupted(words: list[str], source: Random) -> tuple[Ended | int, list[str]]:
    with interrupted_in(source, [signal.SIGINT, signal.SIGTERM]) as sent:
        try:
            return run(words), sent
        except SystemExit as error:
            return int(str(error.code)), sent


def _check_status(ended: Ended | int, sent: list[str]) -> None:
    if isinstance(ended, int):
        if ended != 128 + signal.SIGTERM:
            raise FoundError(f"status {ended}")
    elif sent and ended.status not in (0, 2, 130):
        raise FoundError(f"status {ended.status} behind a signal in {sent}")
    elif ended.status == 130 and "interrupted: what is not complete is not written" not in ended.err:
        raise FoundError(f"not said: {ended.err!r}")


def _killed(words: list[str], source: Random) -> None:
    """Run the words in a process of its own, which is killed on the way."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        with interrupted_in(source, [signal.SIGKILL]):
            run(words)
    finally:
        os._exit(0)
