"""The values of each row of a loader, in a table that ``tailmetrics compare`` reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Any

import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, shape_of
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.row_tables import RowTableWriter
from tailmetrics.io.files import temporary_folder
from tailmetrics.ranking import Ranking
from tailmetrics.report import Report
from tailmetrics.report.files import check_replaceable

MANY = 2**62
"""The number of rows of a loader of unknown length.

Areas need memory for each row, and are then left out.
"""


class LoaderRows:
    """The table of one loader; it is written into a temporary folder, batch by batch.

    Args:
        evaluation: The evaluation of the loader, started.
        loader: The loader; the number of its rows bounds the memory.
        row_names: The name of each row by its number.

    Attributes:
        num_rows: The number of rows of the loader.
        tokens: The number of rows of a sequence, as in a data set of files.
    """

    tokens = 1

    def __init__(
        self,
        evaluation: Evaluation,
        loader: Any,
        row_names: Sequence[str] | None = None,
    ) -> None:
        self.label_names, self.row_names = evaluation.label_names, row_names
        data: Any = getattr(loader, "dataset", None)
        self.num_rows = len(data) if hasattr(data, "__len__") else MANY
        self._evaluation, self._count = evaluation, 0
        self._folder = temporary_folder(self)
        self._path = self._folder / "rows.parquet"
        self._writer: RowTableWriter | None = None

    def add(self, ranking: Ranking, rows: Any) -> None:
        """Add a batch; without ``rows``, number the rows in their order."""
        if rows is None:
            self.row_names = None  # no number says which row has which name
            rows = torch.arange(self._count, self._count + ranking.num_rows)
        numbers = _row_numbers(rows, ranking.num_rows)
        if self.row_names is not None:
            _check_names(numbers, len(self.row_names))
        if self._writer is None:
            self._writer = RowTableWriter(self._path, self._evaluation, self, {})
        self._count += ranking.num_rows
        self._writer.write(numbers, ranking)

    def close(self, report: Report) -> None:
        """Complete the table with the values and the notes of a report."""
        if self._writer is not None:
            self._writer.complete(report.scalars, report.warnings_of_rows)

    def discard(self) -> None:
        """Delete the table."""
        if self._writer is not None:
            self._writer.close()
        rmtree(self._folder, ignore_errors=True)

    def write(self, path: Path) -> None:
        """Copy the table to a path, where a whole file replaces an older one."""
        if self._path.exists():
            check_replaceable(path)
            unfinished = path.with_name(f".{path.name}-{os.getpid()}")
            copyfile(self._path, unfinished)
            os.replace(unfinished, path)


def _row_numbers(row_ids: Any, num_rows: int) -> Tensor:
    """Return the row numbers as int64 on the CPU.

    Raise ValueError unless there is a whole number of at least 0 for each row.
    """
    try:
        numbers = torch.as_tensor(row_ids).cpu()
    except (TypeError, ValueError, RuntimeError):  # texts
        numbers = torch.empty(0)
    if (
        numbers.dtype not in INTEGERS
        or numbers.shape != (num_rows,)
        or bool((numbers < 0).any())
    ):
        raise ValueError(
            f"HeadToTailReport: row_ids is {shape_of(row_ids)} for {num_rows} rows; "
            "return the number of each row, a whole number of at least 0, and the "
            "names of all rows as row_names=."
        )
    return numbers.to(torch.int64)


def _check_names(numbers: Tensor, num_names: int) -> None:
    """Raise ValueError unless each row number has a name."""
    if bool((numbers >= num_names).any()):
        raise ValueError(
            f"HeadToTailReport: row_ids holds {int(numbers.max())}, but row_names has "
            f"{num_names} names; pass the name of row 0, of row 1 and so on, up to the "
            "last row."
        )
