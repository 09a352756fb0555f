"""Warnings that point at the caller's code, and notes of a batch that a report repeats."""

from __future__ import annotations

import sys
from functools import cache
from warnings import warn

from tailmetrics.ranking import native

INSIDE = ("tailmetrics.", "torch", "functools")
"""How the names of modules begin whose frames a warning passes over."""


class SpeedWarning(UserWarning):
    """Batches are read more slowly than they could be. The values are the same, so reports do not repeat it."""


def warn_outside(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the first caller outside of the library, torch and functools."""
    frame, levels = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, levels = frame.f_back, levels + 1
    warn(text, category, stacklevel=levels)


def warn_of_batch(notes: list[str], text: str) -> None:
    """Issue a warning about a batch, and add it to the ``notes`` of the batch, which a report shows."""
    notes.append(text)
    warn_outside(text)


@cache
def warn_of_speed() -> None:
    """Warn, once in a process, if torch reads batches on the CPU although nobody asked for it."""
    if native.is_missing():
        warn_outside(
            f"tailmetrics: batches on the CPU are read in {native.description()}. The C file of the library gives the "
            "same values up to 8 times as fast. Install a C compiler (on Windows: gcc of MinGW), then tailmetrics "
            "again: pip install --force-reinstall --no-deps --no-binary tailmetrics tailmetrics, or in a clone make "
            "native. To stay with torch, set TAILMETRICS_NATIVE=0 in the environment.",
            SpeedWarning,
        )
