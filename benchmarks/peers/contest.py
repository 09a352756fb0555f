"""A task that several libraries do on the same data, timed beside each other; values that should agree must."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from time import perf_counter
from typing import Any

from benchmarks.measure import Call, Settings, beside_torch, compare
from benchmarks.ours import Values

OURS = "tailmetrics"

COLD_START = 2.0
"""Seconds that a first call takes beyond which the table says so: it compiles, and that is not timed."""


@dataclass(frozen=True)
class Peer:
    """Another library's way to do the task.

    Attributes:
        name: Library and function.
        run: What is timed; returns values by the keys of this library, those of other conventions left out.
        rows: How many rows it is given where all would take minutes; its time is multiplied up. None: all.
        note: What its time leaves out, or how it differs.
    """

    name: str
    run: Callable[[], Values]
    rows: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Contest:
    """One task on one workload.

    Attributes:
        workload: Its sizes.
        task: What is computed.
        rows: How many rows it has.
        ours: This library's values of the first so many rows.
        peers: Who else does it.
        references: Hardware limits to show beside, the first one being what ratios are to; or none.
        more: Other ways of this library.
    """

    workload: str
    task: str
    rows: int
    ours: Callable[[int], Values]
    peers: Sequence[Peer]
    references: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    more: Mapping[str, Callable[[], object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """One competitor's line in the table of peers.

    Attributes:
        workload: Its sizes.
        task: What is computed.
        who: The competitor.
        seconds: Per run over all rows, wall clock.
        cpu: The same in CPU time.
        to_reference: Its time relative to the reference; None without one.
        to_ours: Its time relative to this library's.
        to_ours_beside: The same beside another program that uses all cores; None where that was not measured.
        note: What its time leaves out, or how it differs.
    """

    workload: str
    task: str
    who: str
    seconds: float
    cpu: float
    to_reference: float | None
    to_ours: float
    to_ours_beside: float | None
    note: str = ""


def hold(contest: Contest, settings: Settings) -> list[Line]:
    """Check that all compute the same, then time them on an idle machine and beside another program."""
    notes = {peer.name: _checked(peer, contest) for peer in contest.peers}
    calls: dict[str, Any] = {name: Call(run) for name, run in contest.references.items()}
    calls[OURS] = Call(lambda: contest.ours(contest.rows))
    calls |= {f"{OURS}, {name}": Call(run) for name, run in contest.more.items()}
    calls |= {peer.name: Call(peer.run, contest.rows / (peer.rows or contest.rows)) for peer in contest.peers}
    times = compare(calls, OURS, settings)
    beside = {}
    if settings.device == "cpu":
        with beside_torch():
            beside = compare(calls, OURS, settings)
    reference = times[next(iter(contest.references))].ratio if contest.references else None
    return [
        Line(
            contest.workload,
            contest.task,
            name,
            time.seconds,
            time.cpu,
            None if reference is None else time.ratio / reference,
            time.ratio,
            beside[name].ratio if beside else None,
            notes.get(name, ""),
        )
        for name, time in times.items()
    ]


def _checked(peer: Peer, contest: Contest) -> str:
    """Run a peer for the first time, hold its values against ours, and return what its line is to say."""
    ours = contest.ours(peer.rows or contest.rows)
    start = perf_counter()
    values = peer.run()
    first = perf_counter() - start
    for key, value in values.items():
        if not isclose(value, ours[key], rel_tol=2e-5, abs_tol=2e-6):
            raise ValueError(
                f"{contest.task} on {contest.workload}: {peer.name} gives {key} = {value}, here it is {ours[key]}; "
                "times of different values say nothing."
            )
    given = f"given {peer.rows} of {contest.rows} rows" if peer.rows and peer.rows < contest.rows else ""
    start = perf_counter()
    peer.run()
    cold = first > COLD_START and first > 4 * (perf_counter() - start)
    return "; ".join(part for part in (given, peer.note, f"first call {first:.0f} s" if cold else "") if part)
