"""The colours of buckets from head to tail."""

from __future__ import annotations

from typing import NamedTuple

LIGHT = ("#217491", "#44805f", "#857a2c", "#b65c1e")
DARK = ("#5fb6d2", "#7cc49a", "#cdb75e", "#ec9f58")
RUNS = (
    ("#217491", "#5fb6d2"),
    ("#b65c1e", "#ec9f58"),
    ("#6a4c9c", "#b9a4e0"),
    ("#3f7a4d", "#7cc49a"),
    ("#a63a50", "#f08ca0"),
    ("#5b6470", "#a9b3bd"),
)
"""Of runs, light and dark; a seventh run begins again."""
UNSEEN = ("#767b80", "#8b9196")


class Shade(NamedTuple):
    """One colour, as ``#rrggbb``, on a light page and on a dark one."""

    light: str
    dark: str


def shade(place: int, count: int, name: str) -> Shade:
    """Return the colour of bucket ``place`` of ``count``; labels that training never showed are grey."""
    if name == "unseen":
        return Shade(*UNSEEN)
    share = place / max(1, count - 1)
    return Shade(_between(LIGHT, share), _between(DARK, share))


def run_shade(place: int) -> Shade:
    """Return the colour of the run at a place."""
    return Shade(*RUNS[place % len(RUNS)])


def _between(colours: tuple[str, ...], share: float) -> str:
    step = min(int(share * (len(colours) - 1)), len(colours) - 2)
    part = share * (len(colours) - 1) - step
    left, right = (bytes.fromhex(colour[1:]) for colour in colours[step : step + 2])
    return "#" + bytes(round((1 - part) * a + part * b) for a, b in zip(left, right, strict=True)).hex()
