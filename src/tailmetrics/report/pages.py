"""A report or a comparison as a page or for a notebook, in HTML without scripts or links to load, and as files."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from errno import EEXIST
from functools import cache
from io import StringIO
from pathlib import Path
from stat import S_ISREG
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from tailmetrics._arguments import check_choice
from tailmetrics._extras import names_missing_extra
from tailmetrics.report import pictures
from tailmetrics.report.charts import run_look
from tailmetrics.report.document import CsvTable, Document, value_and_interval
from tailmetrics.report.formatting import printable
from tailmetrics.report.latex import latex
from tailmetrics.report.terminal import print_report
from tailmetrics.report.text import csv_text, markdown

if TYPE_CHECKING:
    from jinja2 import Environment

LONGEST = 20
"""The most values of an argument that a page lists, about one line; JSON has all values."""
Figures: TypeAlias = Literal["svg", "pdf"]
FORMS = ("json", "md", "tex", "csv", "html", "png")
"""The suffixes of the files of a report or a comparison."""
TABLES = ("labels", "curve")
"""The tables beside the main one that a report may have."""
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
        files: Names of files beside the page that hold its numbers; the page links to them.
    """
    return _render("page.html.j2", shown, files)


def fragment(shown: Shown) -> str:
    """Return a report or a comparison as HTML for a notebook; its styles change nothing else in the notebook."""
    return _render("fragment.html.j2", shown, ())


def _render(template: str, shown: Shown, files: Sequence[str]) -> str:
    document = shown.document(references=True)
    looks = {run: run_look(place) for place, run in enumerate(document.runs)}
    chips = {run: (colour, OUTLINES[shape]) for run, (colour, shape) in looks.items()}
    return _environment().get_template(template).render(shown=document, files=files, chips=chips)


@cache
def _environment() -> Environment:
    """Return the Jinja environment of the templates beside this file; it escapes every text that it writes."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup, escape
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Report: a page needs jinja2; install it with: pip install 'tailmetrics[report]'"
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
        "breakable": lambda text: Markup(re.sub(r"(?<=[_/])(?=.)|(?=@)", "<wbr>", str(escape(printable(text))))),
        # the places of a mark in a square of 1000 by 1000, which a page stretches
        "points": lambda mark: " ".join(f"{1000 * x:.5g},{1000 * (1 - y):.5g}" for x, y in mark.places),
    }
    environment.filters["parts"] = value_and_interval
    environment.globals["outlines"] = OUTLINES
    return environment


def _visible(value: Any) -> Any:
    """Return a value of a template; a text has no characters upon which a terminal that shows the file would act."""
    if type(value) is str and not value.isprintable():
        return printable(value)
    return value


def _shortened(value: Any) -> Any:
    """Return the number of values of a long list in place of the list."""
    if isinstance(value, list) and len(value) > LONGEST:
        return f"{len(value):,} values"
    return value


def check_replaceable(goal: Path) -> None:
    """Raise unless a path holds nothing, or a regular file: a folder, link, device, pipe or socket is not replaced."""
    if os.path.lexists(goal) and not S_ISREG(os.lstat(goal).st_mode):
        kind = "a folder" if goal.is_dir() else "a link, device, pipe or socket"
        raise FileExistsError(EEXIST, f"is {kind}, where a file is to be written", str(goal))


class Shown(ABC):
    """A report or a comparison, which can be rendered, written to files, printed, and shown in a notebook."""

    stem: ClassVar[str]
    """The name of the files, without their suffix."""

    @abstractmethod
    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return the content that every renderer shows."""

    @abstractmethod
    def translate(self, text: str) -> str:
        """Return a sentence in the words of the field."""

    @abstractmethod
    def csv_tables(self) -> dict[str, CsvTable]:
        """Return the content of the CSV files by name: "" for the main file, such as ``"labels"`` for the others."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the report or comparison as plain data, NaN as None."""

    @names_missing_extra
    def write(self, folder: Path | str, stem: str | None = None, figures: Figures | None = None) -> list[Path]:
        """Write JSON, Markdown, LaTeX, CSV, a page and a picture into ``folder``; return their paths.

        If the process is interrupted, no file is incomplete. If there is nothing to draw, there is no picture. Values
        of single labels go to ``labels.csv`` and ``curve.csv``, or for ``stem="report_val"`` to ``labels_val.csv`` and
        so on. ``figures="svg"`` or ``"pdf"`` also writes each drawing alone, for a paper. An earlier report with this
        stem is replaced as a whole, its tables and its picture included.

        Raises:
            FileExistsError: If ``labels.csv`` or ``curve.csv`` is there without a report beside it.
        """
        if figures is not None:
            check_choice(f"{type(self).__name__}.write", "figures", figures, Figures)
        stem = self.stem if stem is None else stem
        if not stem or Path(stem).name != stem:
            raise ValueError(
                f"{type(self).__name__}.write: stem={stem!r} is no file name; pass a name such as '{self.stem}_val'."
            )
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # inside the folder, so that os.replace stays within one file system
        with TemporaryDirectory(prefix=f".{stem}-", dir=folder) as unfinished:
            names = [*self._write_texts(Path(unfinished), stem), *self._write_pictures(Path(unfinished), stem, figures)]
            earlier_names = self._earlier_names(folder, stem)
            for name in names:
                self._check_goal(folder / name, stem)
            for name in names:
                os.replace(Path(unfinished, name), folder / name)
            for name in set(earlier_names) - set(names):
                (folder / name).unlink()
        return [folder / name for name in names]

    def _earlier_names(self, folder: Path, stem: str) -> list[str]:
        """Return the names of the picture and tables of an earlier report; none if its JSON file is not there."""
        if not (folder / f"{stem}.json").exists():
            return []
        names = [f"{stem}.png", *(self._file(name, stem) for name in TABLES)]
        return [name for name in names if (folder / name).is_file()]

    def _check_goal(self, goal: Path, stem: str) -> None:
        """Raise if a file must not be replaced: ``report.csv`` is ours by its name, ``labels.csv`` is not."""
        check_replaceable(goal)
        tables = [self._file(name, stem) for name in TABLES]
        if goal.name in tables and goal.exists() and not goal.with_name(f"{stem}.json").exists():
            text = f"is there without {stem}.json beside it, so that it may be of another program; move it"
            raise FileExistsError(EEXIST, text, str(goal))

    def _write_texts(self, folder: Path, stem: str) -> list[str]:
        """Write the files that are texts, and return their names."""
        picture = None
        if self.document().charts:
            picture = f"{stem}.png"
        tables = {self._file(name, stem): csv_text(table) for name, table in self.csv_tables().items()}
        texts = {
            f"{stem}.json": json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n",
            f"{stem}.md": markdown(self, picture=picture),
            f"{stem}.tex": latex(self),
            **tables,
            f"{stem}.html": page(self, files=[f"{stem}.json", *tables]),
        }
        for name, content in texts.items():
            Path(folder, name).write_text(content, encoding="utf-8", newline="")
        return list(texts)

    def _write_pictures(self, folder: Path, stem: str, figures: Figures | None) -> list[str]:
        """Write the picture, if there is something to draw, and each drawing alone; return the names of the files."""
        names = []
        if self.document().charts:
            names.append(f"{stem}.png")
            pictures.picture(self).savefig(folder / names[-1], dpi=120)
        if figures is not None:
            for name, figure in pictures.figures(self):
                names.append(f"{stem}_{name}.{figures}")
                pictures.save(figure, folder / names[-1])
        return names

    @staticmethod
    def _file(name: str, stem: str) -> str:
        """Return the file name of a table: ``labels_val.csv`` for ``report_val``, ``mine_labels.csv`` for ``mine``."""
        if not name:
            return f"{stem}.csv"
        if stem.startswith("report"):
            return f"{name}{stem.removeprefix('report')}.csv"
        return f"{stem}_{name}.csv"

    @names_missing_extra
    def __str__(self) -> str:
        """Return the text that a terminal shows, 80 columns wide; Markdown if rich is not installed."""
        try:
            from rich.console import Console
        except ModuleNotFoundError:
            return markdown(self)
        text = StringIO()
        print_report(self, Console(width=80, file=text))
        return text.getvalue()

    def _repr_html_(self) -> str:
        return fragment(self)
