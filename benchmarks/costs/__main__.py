"""Count what updates cost on a device, and write the table of docs/performance.md."""

from __future__ import annotations

from benchmarks import tables
from benchmarks.costs.lines import LINES, Line


def table() -> str:
    """Return the costs of each line beside what they may be."""
    heads = ["update", "launches", "may be", "GB moved", "may be", "peak MB", "may be"]
    return tables.table(heads, map(_cells, LINES))


def _cells(line: Line) -> list[str]:
    costs, _, _ = line.count()
    most = line.most
    launches = [str(costs.launches), str(most.launches)]
    return [
        str(line),
        *launches,
        *(f"{number:.3g}" for number in (costs.gigabytes, most.gigabytes)),
        *(f"{number:.3g}" for number in (costs.megabytes, most.megabytes)),
    ]


def main() -> None:
    """Write the table."""
    found = table()
    print(found)
    tables.replace_table(tables.PAGE, "benchmarks.costs", found)


if __name__ == "__main__":
    main()
