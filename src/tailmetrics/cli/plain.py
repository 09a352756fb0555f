"""Records as JSON and CSV can hold them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from tailmetrics.report.formatting import in_cell


def plain_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record in which what is not finite, which strict JSON cannot say, is None."""
    return {key: None if isinstance(value, float) and not isfinite(value) else value for key, value in record.items()}


def write_csv(records: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write records with the same keys, one per line below a line of the keys."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        for record in records:
            writer.writerow({key: in_cell(one) for key, one in record.items()})
