"""A report or a comparison as a page, as what a notebook shows, without scripts or anything to fetch, and as files."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from tailmetrics.report import pictures, text
from tailmetrics.report.charts import run_look
from tailmetrics.report.document import Document, Records, plain
from tailmetrics.report.formatting import printable

if TYPE_CHECKING:
    from jinja2 import Environment

LONGEST = 20
"""Most values of an argument that a page lists, about a line of them; JSON has all."""
FORMS = ("json", "md", "tex", "csv", "html", "png")
"""What a report and a comparison are written as, by suffix."""
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
        files: Names of files beside the page that hold its numbers, to be linked.
    """
    return _render("page.html.j2", shown, files)


def fragment(shown: Shown) -> str:
    """Return a report or a comparison as HTML for a notebook, with styles that touch nothing else there."""
    return _render("fragment.html.j2", shown, ())


def _render(template: str, shown: Shown, files: Sequence[str]) -> str:
    document = shown.document(references=True)
    looks = {run: run_look(place) for place, run in enumerate(document.runs)}
    chips = {run: (colour, OUTLINES[shape]) for run, (colour, shape) in looks.items()}
    return _environment().get_template(template).render(shown=document, files=files, chips=chips)


@cache
def _environment() -> Environment:
    """Return what reads the templates beside this file; it escapes every name that it writes."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup, escape
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Report: a page needs jinja2; install it with: pip install 'tailmetrics[report]'"
        ) from None
    found = Environment(
        loader=PackageLoader("tailmetrics", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {
        "short": lambda value: f"{len(value):,} values" if isinstance(value, list) and len(value) > LONGEST else value,
        "across": lambda share: f"{100 * share:.5g}%",
        "down": lambda share: f"{100 * (1 - share):.5g}%",
        # the places of a mark in a square of 1000 by 1000, which a page stretches
        # where a key may be broken into lines
        "breakable": lambda text: Markup(re.sub(r"(?<=[_/])(?=.)|(?=@)", "<wbr>", str(escape(printable(text))))),
        "points": lambda mark: " ".join(f"{1000 * x:.5g},{1000 * (1 - y):.5g}" for x, y in mark.places),
    }
    found.globals["outlines"] = OUTLINES
    return found


def _visible(value: Any) -> Any:
    """Return what a template writes, without characters that act upon a terminal that shows the file."""
    return printable(value) if type(value) is str and not value.isprintable() else value


class Shown(ABC):
    """A report or a comparison: what renderers show, what is written, printed and shown in a notebook."""

    stem: ClassVar[str]
    in_json: ClassVar[str]
    """What JSON holds: names of attributes, in order."""

    @abstractmethod
    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return what every renderer shows."""

    @abstractmethod
    def records(self) -> dict[str, Records]:
        """Return what CSV holds, by the name of the file behind the stem."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, NaN as None."""
        return {name: plain(getattr(self, name, None)) for name in self.in_json.split()}

    def write(self, folder: Path | str, stem: str | None = None) -> list[Path]:
        """Write JSON, Markdown, LaTeX, CSV, a page and a picture into ``folder``; return their paths.

        Each file is there as a whole or not at all, whenever the process is interrupted. The picture is left out where
        there is nothing to draw. Values of single labels go to ``labels.csv`` and ``curve.csv``, or ``labels_val.csv``
        and so on for ``stem="report_val"``.
        """
        stem = self.stem if stem is None else stem
        if not stem or Path(stem).name != stem:
            raise ValueError(
                f"{type(self).__name__}.write: stem={stem!r} is no name of a file; pass such as '{self.stem}_val'."
            )
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # beside the goal, so that a replacement is a renaming within one file system
        with TemporaryDirectory(prefix=f".{stem}-", dir=folder) as unfinished:
            has_picture = bool(self.document().charts)
            if has_picture:
                pictures.picture(self).savefig(Path(unfinished) / f"{stem}.png", dpi=120)
            tables = {self._file(name, stem): text.csv_text(records) for name, records in self.records().items()}
            texts = {
                f"{stem}.json": json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n",
                f"{stem}.md": text.markdown(self, picture=f"{stem}.png" if has_picture else None),
                f"{stem}.tex": text.latex(self),
                **tables,
                f"{stem}.html": page(self, files=[f"{stem}.json", *tables]),
            }
            for name, content in texts.items():
                Path(unfinished, name).write_text(content, encoding="utf-8", newline="")
            names = [*texts, *([f"{stem}.png"] if has_picture else [])]
            for name in names:
                os.replace(Path(unfinished, name), folder / name)
        return [folder / name for name in names]

    @staticmethod
    def _file(name: str, stem: str) -> str:
        """Return what a table is called beside ``report.html``, ``report_val.html`` or ``mine.html``."""
        if not name:
            return f"{stem}.csv"
        return f"{name}{stem.removeprefix('report')}.csv" if stem.startswith("report") else f"{stem}_{name}.csv"

    def __str__(self) -> str:
        """Return what the terminal shows, 80 columns wide; Markdown where rich is not installed."""
        try:
            from rich.console import Console
        except ModuleNotFoundError:
            return text.markdown(self)
        found = StringIO()
        text.print_report(self, Console(width=80, file=found))
        return found.getvalue()

    def _repr_html_(self) -> str:
        return fragment(self)
