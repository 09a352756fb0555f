"""Count what updates cost on a device, and write the table of benchmarks/README.md."""

from __future__ import annotations

from benchmarks import tables
from benchmarks.costs.lines import LINES, Line


def table() -> str:
    """Return the costs of each line; what they may be is in lines.py."""
    return tables.table(
        ("update", "launches", "GB moved", "peak MB"), map(_cells, LINES)
    )


def _cells(line: Line) -> tuple[str, ...]:
    costs, _, _ = line.count()
    return (
        str(line),
        str(costs.launches),
        f"{costs.gigabytes:.3g}",
        f"{costs.megabytes:.3g}",
    )


def main() -> None:
    """Write the table."""
    text = table()
    print(text)
    tables.replace_table(tables.PAGE, "benchmarks.costs", text)


if __name__ == "__main__":
    main()
