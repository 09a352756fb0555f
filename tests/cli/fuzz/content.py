"""What files hold, as plain Python, made up at random."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

KEYED = ("trec", "csv", "tsv", "jsonl", "lists", "msmarco", "long")
ROWS = ("parquet", "npy", "pt", "npz", "xmc")


class RefusedError(Exception):
    """Files that do not go together; the command line has to refuse them too."""


@dataclass
class Keyed:
    """Lines of query, item and value.

    Attributes:
        lines: (query, item, value); the item is None for an empty list, the value None where there is none.
        groups: The group of each query, to be written as a column; none for targets without that column.
    """

    lines: list[tuple[str, str | None, float | None]]
    groups: dict[str, str] = field(default_factory=dict)

    @property
    def graded(self) -> bool:
        """Whether there are values."""
        return any(value is not None for _, _, value in self.lines)

    @property
    def queries(self) -> list[str]:
        """The queries in the order in which they are first met."""
        return list(dict.fromkeys(query for query, _, _ in self.lines))

    def of(self, query: str) -> list[tuple[str, float | None]]:
        """Return the items of a query with their values, in the order of the lines."""
        return [(item, value) for one, item, value in self.lines if one == query and item is not None]


@dataclass
class Rows:
    """Rows one below the other.

    Attributes:
        rows: Label and value of each entry of a row; the value is None where there is none.
        graded: Whether it has values.
    """

    rows: list[list[tuple[str, float | None]]]
    graded: bool = False


@dataclass
class Data:
    """One evaluation: predictions, targets, training targets or counts, groups of rows."""

    preds: Keyed | Rows
    target: Keyed | Rows
    train: Keyed | Rows | None = None
    counts: dict[str, int] | None = None
    num_train: int | None = None
    groups: dict[str, str] | list[str] | None = None


def items_of(source: Random, names: str, how_many: int) -> list[str]:
    """Return names of items: whole numbers with or without gaps, or text with odd characters."""
    if names == "numbers":
        return [str(number) for number in range(how_many)]
    if names == "gaps":
        return sorted(map(str, source.sample(range(1, 10**6), how_many)), key=int)
    letters = ["a", "B", "é", "模", "0", "07", "-", "x_y", "#", "d'", "%", "zz"]
    found: dict[str, None] = {}
    while len(found) < how_many:
        found["".join(source.choice(letters) for _ in range(source.randrange(1, 5)))] = None
    return list(found)


def keyed(source: Random, queries: list[str], items: list[str], graded: bool, scored: bool) -> Keyed:
    """Return lines of some of the queries, in any order; values are few, so that there are ties."""
    lines: list[tuple[str, str | None, float | None]] = []
    for query in queries:
        for item in source.sample(items, source.randrange(1, min(len(items), 8) + 1)):
            value = float(source.randrange(0, 4)) if graded else None
            lines.append((query, item, source.choice(SCORES) if scored else value))
    source.shuffle(lines)
    return Keyed(lines)


SCORES = [0.0, 0.5, 0.25, -1.0, 1.0, 1.5, 2.0, 1e-3, 3.0, 1e9]
"""Numbers that every format, single precision included, holds exactly."""


def rows(source: Random, how_many: int, num_labels: int, graded: bool, scored: bool) -> Rows:
    """Return rows of some labels each, some of them empty."""
    made = []
    for _ in range(how_many):
        labels = source.sample(range(num_labels), source.randrange(0, min(num_labels, 8) + 1))
        values = [
            source.choice(SCORES) if scored else float(source.randrange(1, 4)) if graded else None for _ in labels
        ]
        made.append([(str(label), value) for label, value in zip(labels, values, strict=True)])
    return Rows(made, graded=graded)
