"""A report or a comparison in HTML, as a page or for a notebook.

The HTML has no scripts and no links to load.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tailmetrics.report.charts import run_look
from tailmetrics.report.document import value_and_interval
from tailmetrics.report.formatting import printable
from tailmetrics.report.shown import Shown

if TYPE_CHECKING:
    from jinja2 import Environment

LONGEST = 20
"""The most values of an argument that a page lists, in about a line; JSON has all."""
OUTLINES = {
    "circle": "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0",
    "square": "M-3.6,-3.6h7.2v7.2h-7.2z",
    "triangle": "M0,-4.6L4.4,3.4H-4.4z",
    "diamond": "M0,-5L5,0L0,5L-5,0z",
}


def page(shown: Shown, files: Sequence[str] = ()) -> str:
    """Return a report or a comparison as an HTML document.

    Args:
        shown: The report or comparison.
        files: Names of files with the numbers of the page, to which the page links.
    """
    return _render("page.html.j2", shown, files)


def fragment(shown: Shown) -> str:
    """Return a report or a comparison as HTML for a notebook.

    The styles change nothing else in the notebook.
    """
    return _render("fragment.html.j2", shown, ())


def _render(template: str, shown: Shown, files: Sequence[str]) -> str:
    document = shown.document(references=True)
    looks = {run: run_look(place) for place, run in enumerate(document.runs)}
    chips = {run: (colour, OUTLINES[shape]) for run, (colour, shape) in looks.items()}
    return (
        _environment()
        .get_template(template)
        .render(document=document, files=files, chips=chips)
    )


@cache
def _environment() -> Environment:
    """Return the Jinja environment of the templates here; it escapes every text."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup, escape
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Report: a page needs jinja2; install it with: pip install "
            "'tailmetrics[report]'"
        ) from None
    environment = Environment(
        loader=PackageLoader("tailmetrics", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "short": _shortened,
        "across": lambda share: f"{100 * share:.5g}%",
        "down": lambda share: f"{100 * (1 - share):.5g}%",
        # a key may be broken into lines after "_" and "/", and before "@"
        "breakable": lambda text: Markup(
            re.sub(r"(?<=[_/])(?=.)|(?=@)", "<wbr>", str(escape(printable(text))))
        ),
        # the places of a mark in a square of 1000 by 1000, which a page stretches
        "points": lambda mark: " ".join(
            f"{1000 * x:.5g},{1000 * (1 - y):.5g}" for x, y in mark.places
        ),
    }
    environment.filters["parts"] = value_and_interval
    environment.globals["outlines"] = OUTLINES
    return environment


def _visible(value: Any) -> Any:
    """Return a value of a template, with unprintable characters of a text as escapes.

    A terminal that shows the file would act upon such characters.
    """
    if type(value) is str and not value.isprintable():
        return printable(value)
    return value


def _shortened(value: Any) -> Any:
    """Return the number of values of a long list in place of the list."""
    if isinstance(value, list) and len(value) > LONGEST:
        return f"{len(value):,} values"
    return value
