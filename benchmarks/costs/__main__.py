"""Count what updates cost on a device, and write the table of docs/performance.md."""

from __future__ import annotations

from pathlib import Path

from benchmarks.costs.lines import LINES, Line
from benchmarks.tables import replace_table

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "benchmarks" / "page.md", ROOT / "docs" / "performance.md"


def table() -> str:
    """Return the costs of each line beside what they may be."""
    heads = ["update", "launches", "may be", "GB moved", "may be", "peak MB", "may be"]
    rows = [heads, ["---", *["---:"] * 6], *map(_cells, LINES)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


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
    for page in PAGES:
        replace_table(page, "benchmarks.costs", found)


if __name__ == "__main__":
    main()
