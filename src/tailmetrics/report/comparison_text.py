"""A comparison as Markdown and as LaTeX: one row per run, over all labels and by bucket, then every comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tailmetrics.report.comparison_tables import COLUMNS, bucket_tables, cells, legend, run_table
from tailmetrics.report.inert import in_markdown
from tailmetrics.report.latex import latex_table
from tailmetrics.report.markdown import pipes, section

if TYPE_CHECKING:
    from tailmetrics.report.comparison import ComparisonReport
    from tailmetrics.report.tables import Table
    from tailmetrics.significance.comparison import Comparison


def comparison_markdown(report: ComparisonReport, picture: str | None = None) -> str:
    """Return the comparison as Markdown; ``picture`` is the file name of the picture, to be shown above the tables."""
    parts = [f"# {in_markdown(report.title)}\n"]
    if picture:
        parts.append(f"![All runs from the most frequent labels to the rarest]({picture})\n")
    parts += map(section, _tables(report))
    for (run, baseline), part in by_pair(report.comparisons):
        align = ["---", *("---:" for _ in COLUMNS[1:])]
        lines = [list(COLUMNS), align, *(cells(comparison) for comparison in part)]
        parts.append(f"## {in_markdown(run)} against {in_markdown(baseline)}\n")
        parts.append(pipes(lines))
    return "\n".join([*parts, legend(report.comparisons, report.correction), ""])


def comparison_latex(report: ComparisonReport) -> str:
    r"""Return a table of the runs over all labels, and one for each metric by bucket, for ``\input`` into a paper."""
    said = r"% needs \usepackage{booktabs}" + "\n"
    return "\n".join([said, *(latex_table(report.title, table) for table in _tables(report))])


def _tables(report: ComparisonReport) -> list[Table]:
    return [*([run_table(report)] if report.overall else []), *bucket_tables(report)]


def by_pair(found: Sequence[Comparison]) -> Iterator[tuple[tuple[str, str], list[Comparison]]]:
    """Yield the comparisons of each two runs."""
    for run, baseline in dict.fromkeys((comparison.run, comparison.baseline) for comparison in found):
        yield (run, baseline), [one for one in found if (one.run, one.baseline) == (run, baseline)]
