"""Times competitors side by side.

Every round runs each of them once, so that all meet the same disturbances.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from statistics import median
from time import perf_counter, process_time, sleep

import torch

STARTED = 3.0
"""Seconds in which another program imports torch and begins to work."""

SHORTEST = 1e-2
"""Seconds that one sample lasts at least; shorter calls are repeated within it."""

WARMED = 0.2
"""Seconds below which a call runs once untimed before each sample.

What the competitor before it left behind is not to be its own: memory to be taken anew,
or threads of another library that still spin.
"""


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes:
        quick: Tiny sizes and few rounds: all runs, but the numbers say nothing.
        device: Where tensors live.
        seconds: Time given to one comparison; slow competitors may take longer.
    """

    quick: bool = False
    device: str = "cpu"
    seconds: float = 2.0

    @property
    def rounds(self) -> tuple[int, int]:
        """Fewest and most rounds of a comparison."""
        return (2, 3) if self.quick else (5, 41)


@dataclass(frozen=True)
class Call:
    """A competitor: what is timed, and by how much to multiply the time.

    The factor is above 1 if the competitor is given only a part of the rows.
    """

    run: Callable[[], object]
    scale: float = 1.0


@dataclass(frozen=True)
class Timing:
    """Medians over rounds.

    Attributes:
        seconds: Per call, by the wall clock; on an accelerator, by its own events.
        cpu: Per call, of all threads of this process.
        ratio: Of seconds, to the reference of the same round.
    """

    seconds: float
    cpu: float
    ratio: float


OTHER = "import torch; x = torch.rand(3000, 3000)\nwhile True: x @ x"


@contextmanager
def beside_torch(busy: bool = True) -> Iterator[None]:
    """Let another program multiply matrices with torch on all cores meanwhile."""
    other = subprocess.Popen([sys.executable, "-c", OTHER]) if busy else None
    try:
        if other is not None:
            sleep(STARTED)
        yield
    finally:
        if other is not None:
            other.kill()
            other.wait()


Sample = tuple[float, float]


def sample(run: Callable[[], object], times: int, device: str) -> Sample:
    """Return seconds per call, by the device's clock and by the process's CPU time."""
    return _on_cuda(run, times) if device.startswith("cuda") else _on_cpu(run, times)


def _on_cpu(run: Callable[[], object], times: int) -> Sample:
    wall, cpu = perf_counter(), process_time()
    for _ in range(times):
        run()
    return (perf_counter() - wall) / times, (process_time() - cpu) / times


def _on_cuda(run: Callable[[], object], times: int) -> Sample:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    cpu = process_time()
    start.record()
    for _ in range(times):
        run()
    end.record()
    cpu = process_time() - cpu  # read before waiting, which keeps the processor busy
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / times, cpu / times


def compare(
    calls: Mapping[str, Call], reference: str, settings: Settings
) -> dict[str, Timing]:
    """Time every competitor in turn, round after round.

    Each round begins with the next competitor.

    Args:
        calls: Competitors by name; each runs twice before anything is measured, and
            short ones before each sample.
        reference: The one that ratios are to.
        settings: How to measure.
    """
    plans = {name: _plan(call.run, settings) for name, call in calls.items()}
    fewest, most = settings.rounds
    rounds: list[dict[str, Sample]] = []
    names = list(calls)
    gc.collect()
    gc.disable()
    started = perf_counter()
    while len(rounds) < fewest or (
        len(rounds) < most and perf_counter() - started < settings.seconds
    ):
        first = len(rounds) % len(names)
        order = names[first:] + names[:first]
        rounds.append(
            {
                name: _in_turn(calls[name].run, *plans[name], settings.device)
                for name in order
            }
        )
    gc.enable()
    return {
        name: _timing(name, call.scale, rounds, reference, calls)
        for name, call in calls.items()
    }


def _plan(run: Callable[[], object], settings: Settings) -> tuple[int, bool]:
    """Return how often a sample repeats a call, and whether a warm-up comes first."""
    run()
    shortest = SHORTEST / 10 if settings.quick else SHORTEST
    once = sample(run, 1, settings.device)[0]
    return max(1, min(1000, ceil(shortest / once))), once < WARMED


def _in_turn(
    run: Callable[[], object], times: int, warmed: bool, device: str
) -> Sample:
    if warmed:
        run()
    return sample(run, times, device)


def _timing(
    name: str,
    scale: float,
    rounds: list[dict[str, Sample]],
    reference: str,
    calls: Mapping[str, Call],
) -> Timing:
    wall, cpu = (
        median(seconds[name][index] for seconds in rounds) * scale for index in (0, 1)
    )
    ratio = median(
        seconds[name][0] / max(1e-9, seconds[reference][0]) for seconds in rounds
    )
    return Timing(wall, cpu, ratio * scale / calls[reference].scale)


def numbers_of_threads() -> list[int]:
    """Return one, two and all threads of this machine, as far as there are so many."""
    cores = os.cpu_count() or 1
    return sorted({1, min(2, cores), cores})
