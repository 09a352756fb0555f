"""How many rows would show a difference: a table with a line for each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, fields

from tailmetrics.report.document import Document, Records, Section, today
from tailmetrics.report.formatting import count, number, sentences
from tailmetrics.report.pages import Shown
from tailmetrics.significance.planning import Plan

COLUMNS = ("key", "rows", "least", "needed", "more")


@dataclass(frozen=True)
class PlanReport(Shown):
    """The rows that would show a difference, ready to be shown.

    Attributes:
        plans: The result of :func:`tailmetrics.significance.plan`.
        difference: The true difference.
        power: The probability that the test finds it.
        level: The level of the test.
        agreement: The assumed correlation of two models in a row; None if two runs tell it.
        title: The title.
        date: The day of the plan, in UTC.
    """

    plans: Sequence[Plan]
    difference: float
    power: float
    level: float
    agreement: float | None = None
    title: str = "Plan"
    date: str = field(default_factory=today)

    stem = "plan"
    in_json = "title date difference power level agreement plans"

    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return the content that every renderer shows."""
        agreement = "" if self.agreement is None else f"{self.agreement:g}"
        caption = sentences(
            "least: the smallest true difference that the rows at hand show",
            f"needed: rows that count, to find {self.difference:g} in {self.power:.0%} of samples, at the level "
            f"{self.level:g} of one comparison",
            "more: rows of the whole test set, if the share of rows that count stays",
            f"assumed: the values of a row correlate by {agreement} between the two models" if agreement else "",
        )
        lines = [
            [one.key, count(one.rows), number(one.least_difference), count(one.rows_needed), count(one.more_rows)]
            for one in self.plans
        ]
        most = max((one.more_rows for one in self.plans if one.more_rows is not None), default=None)
        verdict = f"{count(most)} more rows show a difference of {self.difference:g} in every line that has a number."
        if most is None:
            verdict = "No number of rows follows: fewer than 10 rows count in each line, or their rows agree."
        table = Section("plan", "Rows that show a difference", caption, header=COLUMNS, lines=lines)
        versions = {"planned on": self.date}
        return Document(self.title, "How many rows would show it", [], [table], verdict, versions=versions)

    def records(self) -> dict[str, Records]:
        """Return the content of the CSV file: a line for each key."""
        return {"": ([one.name for one in fields(Plan)], map(astuple, self.plans))}
