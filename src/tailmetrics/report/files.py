"""``Rendered``: a report or a comparison as files, as text, and in a notebook."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from errno import EEXIST
from io import StringIO
from pathlib import Path
from stat import S_ISREG
from tempfile import TemporaryDirectory
from typing import ClassVar, Literal, TypeAlias

from tailmetrics._arguments import check_choice
from tailmetrics._extras import names_missing_extra
from tailmetrics.report import pictures
from tailmetrics.report.latex import latex
from tailmetrics.report.pages import fragment, page
from tailmetrics.report.shown import Shown
from tailmetrics.report.terminal import print_report
from tailmetrics.report.text import csv_text, markdown

Figures: TypeAlias = Literal["svg", "pdf"]
FORMS = ("json", "md", "tex", "csv", "html", "png")
"""The suffixes of the files of a report or a comparison."""
TABLES = ("labels", "curve")
"""The tables beside the main one that a report may have."""


def check_replaceable(goal: Path) -> None:
    """Raise FileExistsError unless a path holds nothing, or a regular file.

    A folder, link, device, pipe or socket is not replaced.
    """
    if os.path.lexists(goal) and not S_ISREG(os.lstat(goal).st_mode):
        kind = "a folder" if goal.is_dir() else "a link, device, pipe or socket"
        raise FileExistsError(
            EEXIST, f"is {kind}, where a file is to be written", str(goal)
        )


def file_names(stem: str, tables: Sequence[str]) -> list[str]:
    """Return the names of the files that a report may write, except separate drawings.

    They are the same for a comparison.
    """
    return [
        *(f"{stem}.{form}" for form in FORMS),
        *(_table_file(name, stem) for name in tables),
    ]


def check_goal(goal: Path, stem: str) -> None:
    """Raise FileExistsError if a file of a report must not be replaced.

    The name of ``report.csv`` says that it is a report's, but ``labels.csv`` may be of
    another program.
    """
    check_replaceable(goal)
    is_table = goal.name in [_table_file(name, stem) for name in TABLES]
    if is_table and goal.exists() and not goal.with_name(f"{stem}.json").exists():
        text = (
            f"is there without {stem}.json beside it, so that it may be of "
            "another program"
        )
        raise FileExistsError(EEXIST, text, str(goal))


def _table_file(name: str, stem: str) -> str:
    """Return the file name of a table, such as ``labels_val.csv`` for ``report_val``.

    For the stem ``mine``, the name is ``mine_labels.csv``.
    """
    if not name:
        return f"{stem}.csv"
    if stem.startswith("report"):
        return f"{name}{stem.removeprefix('report')}.csv"
    return f"{stem}_{name}.csv"


class Rendered(Shown):
    """A report or a comparison to write to files, print, or show in a notebook."""

    stem: ClassVar[str]
    """The name of the files, without their suffix."""
    tables: ClassVar[Sequence[str]] = TABLES
    """The tables beside the main one."""

    @names_missing_extra
    def write(
        self,
        folder: Path | str,
        stem: str | None = None,
        figures: Figures | None = None,
    ) -> list[Path]:
        """Write JSON, Markdown, LaTeX, CSV, a page and a picture; return their paths.

        If the process is interrupted, no file is incomplete. If there is nothing to
        draw, there is no picture. Values of single labels go to ``labels.csv`` and
        ``curve.csv``, or for ``stem="report_val"`` to ``labels_val.csv`` and so on.
        ``figures="svg"`` or ``"pdf"`` also writes each drawing alone, for a paper. An
        earlier report with this stem is replaced, with its tables and picture.

        Raises:
            FileExistsError: If ``labels.csv`` or ``curve.csv`` is there without a
                report beside it.
        """
        if figures is not None:
            check_choice(f"{type(self).__name__}.write", "figures", figures, Figures)
        stem = self.stem if stem is None else stem
        if not stem or Path(stem).name != stem:
            raise ValueError(
                f"{type(self).__name__}.write: stem={stem!r} is no file name; pass a "
                f"name such as '{self.stem}_val'."
            )
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # inside the folder, so that os.replace stays within one file system
        with TemporaryDirectory(prefix=f".{stem}-", dir=folder) as unfinished:
            names = self._write_files(Path(unfinished), stem, figures)
            has_earlier_report = (folder / f"{stem}.json").exists()
            for name in names:
                check_goal(folder / name, stem)
            for name in names:
                os.replace(Path(unfinished, name), folder / name)
            if has_earlier_report:
                for name in set(file_names(stem, self.tables)) - set(names):
                    if (folder / name).is_file():
                        (folder / name).unlink()
        return [folder / name for name in names]

    def _write_files(
        self, folder: Path, stem: str, figures: Figures | None
    ) -> list[str]:
        """Write all files, and return their names."""
        picture = None
        if self.document().charts:
            picture = f"{stem}.png"
        tables = {
            _table_file(name, stem): csv_text(table)
            for name, table in self.csv_tables().items()
        }
        texts = {
            f"{stem}.json": json.dumps(self.as_dict(), indent=2, allow_nan=False)
            + "\n",
            f"{stem}.md": markdown(self, picture=picture),
            f"{stem}.tex": latex(self),
            **tables,
            f"{stem}.html": page(self, files=[f"{stem}.json", *tables]),
        }
        for name, content in texts.items():
            Path(folder, name).write_text(content, encoding="utf-8", newline="")

        names = list(texts)
        if picture is not None:
            pictures.picture(self).savefig(folder / picture, dpi=120)
            names.append(picture)
        if figures is not None:
            for name, figure in pictures.figures(self):
                names.append(f"{stem}_{name}.{figures}")
                pictures.save(figure, folder / names[-1])
        return names

    @names_missing_extra
    def __str__(self) -> str:
        """Return the text that a terminal shows, 80 columns wide.

        Return Markdown if rich is not installed.
        """
        try:
            from rich.console import Console
        except ModuleNotFoundError:
            return markdown(self)
        text = StringIO()
        print_report(self, Console(width=80, file=text))
        return text.getvalue()

    def _repr_html_(self) -> str:
        return fragment(self)
