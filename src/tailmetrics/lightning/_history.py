"""The values of every validation of a fit, epoch by epoch."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any


class History:
    """Rows of epoch, step, number of the loader and values by key, oldest first."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, epoch: int, step: int, loader: int, values: Mapping[str, float]) -> None:
        """Add a validation; it replaces one of the same loader at the same step."""
        self.rows = [row for row in self.rows if (row["step"], row["loader"]) != (step, loader)]
        self.rows.append({"epoch": epoch, "step": step, "loader": loader, **values})

    def of(self, loader: int) -> list[dict[str, Any]]:
        """Return the validations of one loader."""
        return [dict(row) for row in self.rows if row["loader"] == loader]

    def forget_after(self, step: int) -> None:
        """Leave out what lies ahead of where training stands: all of it where training starts anew."""
        self.rows = [row for row in self.rows if row["step"] <= step]

    def write(self, path: Path) -> None:
        """Write a table with one line per validation and loader, as a whole or not at all; NaN is an empty cell."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        text = StringIO()
        table = csv.DictWriter(text, columns, lineterminator="\n")
        table.writeheader()
        for row in self.rows:
            table.writerow({name: _cell(value) for name, value in row.items()})
        unfinished = path.with_name(f".{path.name}")
        unfinished.write_text(text.getvalue(), encoding="utf-8", newline="")
        os.replace(unfinished, path)

    def state_dict(self) -> dict[str, Any]:
        """Return the history as plain values: names once, then rows."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        return {"columns": columns, "rows": [[row.get(name) for name in columns] for row in self.rows]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from the history of a checkpoint."""
        named = (zip(state["columns"], row, strict=True) for row in state["rows"])
        self.rows = [{name: cell for name, cell in row if cell is not None} for row in named]


def _cell(value: Any) -> Any:
    return "" if isinstance(value, float) and math.isnan(value) else value
