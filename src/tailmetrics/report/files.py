"""A report as files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tailmetrics.report.figures import write_figure
from tailmetrics.report.latex import latex
from tailmetrics.report.markdown import markdown
from tailmetrics.report.page import page
from tailmetrics.report.table import table

if TYPE_CHECKING:
    from tailmetrics.report.report import Report


def write_files(report: Report, folder: Path, stem: str) -> list[Path]:
    """Write every form of the report; each file replaces an older one as a whole.

    Args:
        report: The report.
        folder: Made if it does not exist.
        stem: Name of the files without suffix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # beside the goal, so that a replacement is a renaming within one file system
    with TemporaryDirectory(prefix=f".{stem}-", dir=folder) as unfinished:
        written = _write(report, Path(unfinished), stem)
        for path in written:
            os.replace(path, folder / path.name)
    return [folder / path.name for path in written]


def _write(report: Report, folder: Path, stem: str) -> list[Path]:
    picture = folder / f"{stem}.png"
    has_picture = write_figure(report, picture)
    texts = {
        "json": json.dumps(report.as_dict(), indent=2, allow_nan=False) + "\n",
        "md": markdown(report, picture=picture.name if has_picture else None),
        "tex": latex(report),
        "csv": table(report),
        "html": page(report),
    }
    written = {folder / f"{stem}.{suffix}": text for suffix, text in texts.items()}
    if report.labels is not None:
        written[folder / f"{label_stem(stem)}.csv"] = report.labels.csv()
    for path, text in written.items():
        path.write_text(text, encoding="utf-8", newline="")
    return [*written, picture] if has_picture else [*written]


def label_stem(stem: str) -> str:
    """Return the name of the table of labels beside a report.

    >>> label_stem("report"), label_stem("report_val"), label_stem("mine")
    ('labels', 'labels_val', 'mine_labels')
    """
    return f"labels{stem.removeprefix('report')}" if stem.startswith("report") else f"{stem}_labels"
