"""Example rows as a table of text, and in the words that a page shows beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailmetrics.report.formatting import short_name

if TYPE_CHECKING:
    from tailmetrics.report.examples import Example, ExampleLabel
    from tailmetrics.report.report import Report

HEADER = ["bucket", "row", "relevant labels, with their ranks", "the list, best first"]
HIT = "✓"
LETTERS, BRIEF_LETTERS = 44, 24
"""Letters of a name in a cell of text."""
BRIEF_PLACES = 5
"""How many labels of a list a terminal shows."""


def caption_of(report: Report) -> str:
    """Return how the examples were chosen, and how they are read."""
    first = report.examples[0]
    each = "For each bucket one row that misses a label of it" if first.bucket else "Rows that miss a label"
    return (
        f"{each} in its list of {max(len(one.shown) for one in report.examples)}. A hash of what the row holds chooses "
        f"it, not its place. {HIT}: a hit. –: not retrieved, or below what was ranked."
    )


def lines_of(report: Report, brief: bool = False) -> list[list[str]]:
    """Return a line of cells for each example; ``brief`` cuts names and lists short."""
    letters, places = (BRIEF_LETTERS, BRIEF_PLACES) if brief else (LETTERS, None)
    lines = []
    for one in report.examples:
        shown = [_shown(label, letters) for label in one.shown[:places]]
        shown += ["…"] if len(shown) < len(one.shown) else []
        lines.append(
            [one.bucket or "–", _cut(one.told, letters) or "–", "; ".join(_relevant(one, letters)), "; ".join(shown)]
        )
    return lines


def _relevant(example: Example, letters: int) -> list[str]:
    """Return each relevant label with its rank, and how many more there are."""
    found = [f"{_rank(one)} {_called(one, letters)}{_bucket(one)}" for one in example.relevant]
    more = example.num_relevant - len(example.relevant)
    return [*found, f"and {more:,} more"] if more else found


def _called(label: ExampleLabel, letters: int) -> str:
    """Return the name of a label, cut where it is long; its number where it has none."""
    return _cut(label.name or str(label.label), letters)


def _cut(name: str, letters: int) -> str:
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def _rank(label: ExampleLabel) -> str:
    rank = "–" if label.rank is None else f"{label.rank:,}."
    return f"{rank} {HIT}" if label.hit else rank


def _bucket(label: ExampleLabel) -> str:
    return f" ({short_name(label.bucket)})" if label.bucket else ""


def _shown(label: ExampleLabel, letters: int) -> str:
    return f"{HIT} {_called(label, letters)}" if label.hit else _called(label, letters)
