"""Drawings as marks in a unit square.

Pages draw them as SVG, and pictures draw them with matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

LIGHT = ("#217491", "#44805f", "#857a2c", "#b65c1e")
DARK = ("#5fb6d2", "#7cc49a", "#cdb75e", "#ec9f58")
UNSEEN = ("#767b80", "#8b9196")
RUNS = (
    ("#217491", "#5fb6d2"),
    ("#b65c1e", "#ec9f58"),
    ("#6a4c9c", "#b9a4e0"),
    ("#3f7a4d", "#7cc49a"),
    ("#a63a50", "#f08ca0"),
    ("#5b6470", "#a9b3bd"),
)
"""Colours of runs, on a light and a dark page; the seventh run has the first again."""
SHAPES = ("circle", "square", "triangle", "diamond")
"""Shapes of runs: a reader who does not see the colours can tell runs apart by them."""
FAR_APART = 50
"""Heights are logarithmic if the largest is more than this many times the median.

A linear height of the median would be 2 of 112 pixels.
"""
CHARACTER, GAP = 6.2, 4.5
"""Pixels of a digit in a number, with some reserve, and pixels between two numbers."""
LEAST_LOGARITHMIC = 10
"""Largest value from which heights may be logarithmic.

For smaller values, log(1 + x) is close to a proportion of x.
"""
Place = tuple[float, float]
"""The place of a mark: its distances from the left and the lower edge, 0 to 1."""


class Shade(NamedTuple):
    """One colour, as ``#rrggbb``, on a light page and on a dark one."""

    light: str
    dark: str


def shade(place: int, count: int, name: str) -> Shade:
    """Return the colour of bucket ``place`` of ``count``; grey for unseen labels."""
    if name == "unseen":
        return Shade(*UNSEEN)
    share = place / max(1, count - 1)
    return Shade(_colour_at(share, LIGHT), _colour_at(share, DARK))


def _colour_at(share: float, colours: Sequence[str]) -> str:
    """Return the colour at a share of the way from the first colour to the last."""
    way = share * (len(colours) - 1)
    step = min(int(way), len(colours) - 2)
    return mixed(colours[step], colours[step + 1], way - step)


def mixed(first: str, last: str, part: float) -> str:
    """Return the colour at a part of the way from the first colour to the last."""
    left, right = (bytes.fromhex(colour[1:]) for colour in (first, last))
    return (
        "#"
        + bytes(
            round((1 - part) * a + part * b) for a, b in zip(left, right, strict=True)
        ).hex()
    )


def run_look(place: int) -> tuple[Shade, str]:
    """Return the colour and the shape of the run at a place."""
    return Shade(*RUNS[place % len(RUNS)]), SHAPES[place % len(SHAPES)]


@dataclass(frozen=True)
class Mark:
    """One mark of a drawing.

    Attributes:
        kind: ``"bar"`` between two opposite corners, ``"line"``, ``"area"``, ``"dot"``
            or ``"text"``.
        places: One place for a dot or text, two for a bar, more for a line or area.
        shade: The colour; None for the colour of the text.
        style: For a line ``"solid"``, ``"thin"``, ``"dashed"`` or ``"dotted"``; for a
            dot one of :data:`SHAPES`.
        filled: Whether a dot is filled.
        text: The words of a text, which stands above its place; for other marks, the
            words that a page shows under the pointer.
    """

    kind: str
    places: Sequence[Place]
    shade: Shade | None = None
    style: str = "solid"
    filled: bool = True
    text: str = ""


class Tick(NamedTuple):
    """The texts at a place of an axis, one below the other."""

    at: float
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Chart:
    """One drawing.

    Attributes:
        title: The title, such as the key of a metric.
        aside: Text after the title, in brackets in a picture.
        caption: Text that says what the values are.
        marks: The marks, in the order in which they are drawn.
        opening: What the drawing shows, in words without values: it names the file of
            the drawing.
        values: Values of the drawing in words, if its marks have no texts.
        across: Ticks of the horizontal axis, below the drawing.
        up: Ticks of the vertical axis, left of the drawing.
        names: Names of the horizontal and vertical axis; empty if ticks say enough.
        grid: Whether lines go through the ticks of the vertical axis.
        height: Height of the square on a page, in pixels.
        gutter: Space for ticks to the left of the square, in pixels.
        min_width: Pixels that the texts need side by side; a narrower page scrolls.
        in_picture: Whether the picture of the report shows this drawing, as pages do.
    """

    title: str
    marks: Sequence[Mark]
    opening: str
    values: str = ""
    aside: str = ""
    caption: str = ""
    across: Sequence[Tick] = ()
    up: Sequence[Tick] = ()
    names: tuple[str, str] = ("", "")
    grid: bool = True
    height: int = 130
    gutter: int = 0
    min_width: int = 0
    in_picture: bool = True

    @property
    def margin(self) -> int:
        """Pixels to the right of the square for the text of the last tick."""
        if not self.across:
            return 0
        last = self.across[-1]
        # a phone of 360 pixels shows 328, and 6 beyond the edge
        room = 6 + (328 - self.gutter) * (1 - last.at)
        return max(0, math.ceil(CHARACTER * max(map(len, last.texts)) / 2 - room))

    def outside_the_picture(self) -> Chart:
        """Return the drawing for pages alone."""
        return replace(self, in_picture=False)

    def translated(self, translate: Callable[[str], str]) -> Chart:
        """Return the drawing in the words of a field."""
        marks = []
        for mark in self.marks:
            if mark.kind != "text":
                mark = replace(mark, text=translate(mark.text))
            marks.append(mark)
        return replace(
            self,
            marks=marks,
            opening=translate(self.opening),
            values=translate(self.values),
            caption=translate(self.caption),
            names=(translate(self.names[0]), translate(self.names[1])),
        )

    @property
    def in_words(self) -> str:
        """A description of the drawing in words."""
        texts = list(filter(None, [self.values]))
        for mark in self.marks:
            if mark.text and mark.kind != "text":
                texts.append(mark.text)
        if not texts:
            return self.opening
        return f"{self.opening}: {'; '.join(texts)}"


@dataclass(frozen=True)
class Scale:
    """The scale of an axis.

    Attributes:
        low: The value at the lower end.
        high: The value at the upper end.
        kind: ``"linear"``, ``"log"`` or ``"log1p"``, the logarithm of value plus one.
    """

    low: float
    high: float
    kind: str = "linear"

    def share(self, value: float) -> float:
        """Return where a value is between the lower end (0) and the upper end (1)."""
        low, high, here = map(self._height, (self.low, self.high, value))
        return (here - low) / (high - low or 1.0)

    def _height(self, value: float) -> float:
        if self.kind == "linear":
            return value
        if self.kind == "log":
            return math.log(value)
        return math.log1p(value)

    def ticks(self, text: str = "{:g}") -> list[Tick]:
        """Return ticks at a few round numbers.

        They are at powers of ten if a logarithmic axis has at least two of them.
        """
        if self.kind != "linear":
            ticks = self._ticks_at_powers()
            if ticks:
                return ticks

        step = self._step()
        first, last = (
            math.ceil(self.low / step - 1e-9),
            math.floor(self.high / step + 1e-9),
        )
        ticks = []
        for place in range(first, last + 1):
            value = float(f"{place * step:.12g}")
            label = "0"
            if value:
                label = text.format(value)
            ticks.append(Tick(self.share(value), (label,)))
        return ticks

    def _ticks_at_powers(self) -> list[Tick]:
        """Return ticks at 0 and at powers of ten; none with fewer than two powers."""
        lowest, highest = math.log10(max(self.low, 1)), math.log10(max(self.high, 1))
        powers = range(math.ceil(lowest - 1e-9), math.floor(highest + 1e-9) + 1)
        if len(powers) < 2:
            return []
        ticks = [Tick(self.share(10.0**power), (_power(power),)) for power in powers]
        if self.low <= 0:
            ticks.insert(0, Tick(self.share(0.0), ("0",)))
        return ticks

    def _step(self) -> float:
        """Return the distance of ticks: 1, 2 or 5 times a power of ten.

        The axis then has 3 to 7 steps.
        """
        third = (self.high - self.low or 1.0) / 3
        power = 10.0 ** math.floor(math.log10(third))
        step = max(
            power * factor
            for factor in (1, 2, 5)
            if power * factor <= third * (1 + 1e-9)
        )
        if self.kind == "linear":
            return step
        return max(step, 1.0)  # logarithmic axes are of counts


def _power(power: int) -> str:
    """Return a power of ten as a tick, such as ``10k``."""
    return f"{10 ** (power % 3)}{' kMGTPE'[power // 3].strip()}"


def scale_from_zero(values: Iterable[float], drawn: Sequence[float]) -> Scale:
    """Return the scale that shows 0 and all values.

    It is logarithmic if the largest of ``drawn`` hides the others.
    """
    ends = [0.0, *filter(math.isfinite, values)]
    ordered = sorted(filter(math.isfinite, drawn))
    kind = "linear"
    if ordered and ordered[0] >= 0 and min(ends) > -1:
        median = ordered[len(ordered) // 2]
        if median > 0 and ordered[-1] > max(FAR_APART * median, LEAST_LOGARITHMIC):
            kind = "log1p"
    return Scale(min(ends), max(ends), kind)


HEIGHT = 112
"""Pixels that the highest bar fills."""
TALL = 15 / HEIGHT
"""The height of a number above a bar, as a share of :data:`HEIGHT`."""


def free_above(top: float, marks: Iterable[Mark]) -> float:
    """Return the height of a number: ``top``, or above marks that it would cross."""
    reaches = []
    for mark in marks:
        heights = [up for _, up in mark.places]
        reaches.append((max(heights), min(heights)))
    for high, low in sorted(reaches):
        if high > top and low < top + TALL:
            top = high
    return top


def needed_width(bars: Sequence[tuple[str, ...]]) -> int:
    """Return the width in pixels at which texts of neighbouring bars do not touch."""
    widest = 0.0
    for line in zip(*bars, strict=True):
        for text, next_text in pairwise(line):
            widest = max(widest, CHARACTER * (len(text) + len(next_text)) / 2 + GAP)
    return math.ceil(widest * len(bars))


def bar_ticks(texts: Sequence[tuple[str, ...]]) -> list[Tick]:
    """Return the ticks in the middle of bars."""
    return [
        Tick((place + 0.5) / len(texts), bar_texts)
        for place, bar_texts in enumerate(texts)
    ]
