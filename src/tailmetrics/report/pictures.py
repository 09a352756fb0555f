"""A report or a comparison as a picture: the drawings of its page, by matplotlib."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from tailmetrics.report.charts import Chart, Mark, run_look
from tailmetrics.report.formatting import printable
from tailmetrics.report.shown import Shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


HEIGHT, WIDTH = 3.4, 7.5
"""Height and width of a panel, in inches."""
LETTER = 0.062
"""Width of a letter of a caption, in inches."""
PIXELS = 84
"""Pixels of a page per inch of the picture.

Panels are wider if a drawing needs more pixels than a panel has.
"""
NAME = 180
"""The most bytes of a drawing's name in the name of its file.

File systems take 255 bytes in all.
"""
SHAPES = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D"}
LINES = {"solid": "-", "thin": "-", "dashed": (0, (5, 4)), "dotted": (0, (1, 1.5))}
INK = "0.25"
WIDTHS = {"thin": (0.8, 0.6)}
"""Width and opacity of lines of a style, if they differ from those of the others."""


def picture(shown: Shown) -> Figure:
    """Return the drawings of a report or a comparison as a figure, two in a line."""
    document = shown.document()
    # a comparison has two drawings of each metric: lines of the runs, and their
    # differences
    figure, letters = _figure(
        document.charts, document.runs, min(2, len(document.charts)), above=0.6
    )
    figure.suptitle(_literal(document.title), x=0.01, ha="left", fontweight="bold")
    below = fill(_literal(f"{document.verdict} {document.below}"), letters)
    figure.supxlabel(below, x=0.01, ha="left", fontsize=7)
    return figure


def figures(shown: Shown) -> Iterator[tuple[str, Figure]]:
    """Yield each drawing alone, for a paper, with a unique name for its file."""
    document = shown.document()
    names: set[str] = set()
    for chart in document.charts:
        opening = re.sub(r"[^\w@.+-]+", "_", chart.opening).strip("_")
        name = opening = opening.encode()[:NAME].decode(errors="ignore")
        number = 1
        while name in names:
            number += 1
            name = f"{opening}_{number}"
        names.add(name)
        yield name, _figure([chart], document.runs, 1)[0]


def _figure(
    charts: Sequence[Chart], runs: Sequence[str], columns: int, above: float = 0.0
) -> tuple[Figure, int]:
    """Return drawings side by side, and the number of letters that the width holds.

    ``above`` is the inches for a title above the drawings.
    """
    # Figure without pyplot: no window system, and no figure kept alive
    from matplotlib.figure import Figure

    lines = math.ceil(len(charts) / columns)
    wide = min(max(WIDTH, *(chart.min_width / PIXELS for chart in charts)), 40)
    high = [
        max(map(_height, charts[columns * line : columns * (line + 1)]))
        for line in range(lines)
    ]
    figure = Figure(figsize=(wide * columns, sum(high) + above), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, height_ratios=high)
    for place, chart in zip(axes.flat, charts, strict=False):
        _draw(place, chart, int(wide / LETTER))
    for place in axes.flat[len(charts) :]:
        place.set_visible(False)
    _add_legend(figure, axes.flat[0], runs)
    return figure, int(wide * columns / LETTER)


def _height(chart: Chart) -> float:
    """Return the height of a panel in inches.

    It is the height of all panels, or what many lines need.
    """
    return max(HEIGHT, chart.height / PIXELS + 0.8)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG or PDF: the same numbers make the same bytes."""
    from matplotlib import rc_context

    when = {"Date" if path.suffix == ".svg" else "CreationDate": None}
    with rc_context({"svg.hashsalt": "tailmetrics"}):
        figure.savefig(path, metadata=when)


def _add_legend(figure: Figure, axes: Axes, runs: Sequence[str]) -> None:
    for place, run in enumerate(runs):  # empty plots, for the legend alone
        colour, shape = run_look(place)
        axes.plot([], [], marker=SHAPES[shape], color=colour.light, label=_literal(run))
    if runs:
        figure.legend(loc="outside upper right", ncols=4, fontsize=8, frameon=False)


def _draw(axes: Axes, chart: Chart, letters: int) -> None:
    for mark in chart.marks:
        DRAWN[mark.kind](axes, mark)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.12)
    for set_ticks, ticks in (
        (axes.set_xticks, chart.across),
        (axes.set_yticks, chart.up),
    ):
        set_ticks(
            [tick.at for tick in ticks],
            [_literal("\n".join(tick.texts)) for tick in ticks],
        )
    axes.set_xlabel(_literal(chart.names[0]), fontsize=7)
    axes.set_ylabel(_literal(chart.names[1]), fontsize=7)
    axes.tick_params(labelsize=7, length=2)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    if chart.grid:
        axes.grid(axis="y", color="0.9", linewidth=0.7)
        axes.set_axisbelow(True)
    caption = fill(_literal(chart.caption), letters)
    aside = f" ({chart.aside})" if chart.aside else ""
    axes.set_title(
        _literal(chart.title + aside),
        fontsize=9,
        loc="left",
        pad=8 + 9 * (caption.count("\n") + 1),
    )
    text = axes.annotate(
        caption, (0, 1), (0, 5), "axes fraction", textcoords="offset points", fontsize=7
    )
    # a caption that is wider than its drawing does not squeeze it
    text.set_in_layout(False)


def _draw_bar(axes: Axes, mark: Mark) -> None:
    (left, start), (right, end) = mark.places
    axes.bar((left + right) / 2, end - start, right - left, start, color=_colour(mark))


def _draw_area(axes: Axes, mark: Mark) -> None:
    axes.fill(
        *zip(*mark.places, strict=True), color=_colour(mark), alpha=0.22, linewidth=0
    )


def _draw_line(axes: Axes, mark: Mark) -> None:
    width, alpha = WIDTHS.get(mark.style, (1.3, 1.0))
    across, up = zip(*mark.places, strict=True)
    axes.plot(
        across,
        up,
        color=_colour(mark),
        linestyle=LINES[mark.style],
        linewidth=width,
        alpha=alpha,
        clip_on=False,
    )


def _draw_dot(axes: Axes, mark: Mark) -> None:
    (place,) = mark.places
    colour = _colour(mark)
    face = colour if mark.filled else "white"
    axes.plot(
        *place,
        SHAPES[mark.style],
        color=colour,
        markerfacecolor=face,
        markersize=5,
        clip_on=False,
    )


def _draw_text(axes: Axes, mark: Mark) -> None:
    (place,) = mark.places
    text = axes.annotate(
        _literal(mark.text),
        place,
        (0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=7,
    )
    text.set_zorder(5)
    text.set_bbox(
        {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4}
    )


def _colour(mark: Mark) -> str:
    return INK if mark.shade is None else mark.shade.light


DRAWN = {
    "bar": _draw_bar,
    "area": _draw_area,
    "line": _draw_line,
    "dot": _draw_dot,
    "text": _draw_text,
}
"""How each kind of mark is drawn."""


def _literal(text: str) -> str:
    r"""Return a text in which matplotlib finds no formula.

    It has ``\$`` in place of ``$``. Line breaks stay.
    """
    return "\n".join(map(printable, text.split("\n"))).replace("$", r"\$")
