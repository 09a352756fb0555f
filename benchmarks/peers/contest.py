"""A task that several libraries do on the same data, timed beside each other.

Values that should agree must.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import Any

import torch

from benchmarks.measure import Call, Settings, beside_torch, compare, numbers_of_threads
from benchmarks.ours import Values

OURS = "tailmetrics"


@dataclass(frozen=True)
class Peer:
    """Another library's way to do the task.

    Attributes:
        name: Library and function.
        run: What is timed; returns values by the keys of this library, those of other
            conventions left out.
        rows: How many rows it is given where all would take minutes; its time is
            multiplied up. None: all.
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
        references: Hardware limits to show beside, the first one being what ratios are
            to; or none.
    """

    workload: str
    task: str
    rows: int
    ours: Callable[[int], Values]
    peers: Sequence[Peer]
    references: Mapping[str, Callable[[], object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """One competitor's line in the table of peers.

    Attributes:
        workload: Its sizes.
        task: What is computed.
        who: The competitor.
        seconds: Per run over all rows, on all threads of an idle machine.
        to_ours: Its time relative to this library's, by where both ran.
        note: What its time leaves out, or how it differs.
    """

    workload: str
    task: str
    who: str
    seconds: float
    to_ours: dict[str, float]
    note: str = ""


def hold(contest: Contest, settings: Settings) -> list[Line]:
    """Check that all compute the same, then time them.

    They run on 1, 2 and all threads, and beside another program.
    """
    notes = {peer.name: _checked(peer, contest) for peer in contest.peers}
    calls: dict[str, Any] = {
        name: Call(run) for name, run in contest.references.items()
    }
    calls[OURS] = Call(lambda: contest.ours(contest.rows))
    calls |= {
        peer.name: Call(peer.run, contest.rows / (peer.rows or contest.rows))
        for peer in contest.peers
    }
    times = {}
    for threads in (
        numbers_of_threads() if settings.device == "cpu" else [torch.get_num_threads()]
    ):
        torch.set_num_threads(threads)
        times[f"{threads} thread{'s' if threads > 1 else ''}"] = timings = compare(
            calls, OURS, settings
        )
    if settings.device == "cpu":
        with beside_torch():
            times["beside torch"] = compare(calls, OURS, settings)
    work = contest.workload, contest.task
    ratios = {}
    for name in calls:
        ratios[name] = {
            where: timings_at[name].ratio for where, timings_at in times.items()
        }
    return [
        Line(*work, name, timings[name].seconds, ratios[name], notes.get(name, ""))
        for name in calls
    ]


def _checked(peer: Peer, contest: Contest) -> str:
    """Run a peer, hold its values against ours, and return what its line is to say."""
    ours = contest.ours(peer.rows or contest.rows)
    for key, value in peer.run().items():
        if not isclose(value, ours[key], rel_tol=2e-5, abs_tol=2e-6):
            raise ValueError(
                f"{contest.task} on {contest.workload}: {peer.name} gives {key} = "
                f"{value}, here it is {ours[key]}; "
                "times of different values say nothing."
            )
    rows_given = (
        f"given {peer.rows} of {contest.rows} rows"
        if peer.rows and peer.rows < contest.rows
        else ""
    )
    return "; ".join(part for part in (rows_given, peer.note) if part)
