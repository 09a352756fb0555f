"""`tailmetrics plan`: how many rows would show a difference."""

from __future__ import annotations

from pathlib import Path

from tailmetrics.cli.compare import check_same_names, chosen, clusters_in
from tailmetrics.cli.messages import CommandError, tell
from tailmetrics.cli.options import OutputOptions, PlanOptions
from tailmetrics.cli.outputs import Outputs, finish
from tailmetrics.cli.parser import Request
from tailmetrics.evaluation.row_tables import RowTable, table_in
from tailmetrics.report.pages import FORMS
from tailmetrics.report.planning import PlanReport
from tailmetrics.significance.planning import AGREEMENT, plan
from tailmetrics.significance.rows import check_identities


def plan_rows(request: Request, said: dict[str, bool]) -> None:
    """Plan, then write and print the result; ``said`` holds the warnings printed so far."""
    options, output = request.get(PlanOptions), request.get(OutputOptions)
    paths = [table_in(Path(one), tell) for one in request.options.tables]
    if len(paths) not in (1, 2) or options.difference is None:
        hint = "name the table of one run, or of the two that are compared, and --difference, such as 0.02."
        raise CommandError(f"plan has {len(paths)} tables, and --difference {options.difference}", hint)
    with Outputs(paths, output.overwrite) as outputs:
        folder = None if output.out is None else outputs.claim(output.out, [f"plan.{suffix}" for suffix in FORMS])
        first, *others = map(RowTable.open, paths)
        if others and first.path.samefile(others[0].path):
            hint = "name the tables of two runs; or one table alone, and --agreement, how much runs would agree."
            raise CommandError(f"plan has the table {first.path} twice", hint)
        tables = {str(one.path): one.joined(first.names) for one in (first, *others)}
        keys = chosen(first, options.only)
        for name, one in tables.items():
            check_same_names(str(first.path), first.names.to_pylist(), name, one.names.to_pylist())
        check_identities("plan", {name: one.identity for name, one in tables.items()}, list(tables), keys)
        clusters = first.column(options.clusters) if options.clusters else clusters_in(tables.values())
        assumed = AGREEMENT if not others and options.agreement is None else options.agreement
        found = plan(
            {name: one.values(keys) for name, one in tables.items()},
            options.difference,
            power=options.power,
            level=options.level,
            agreement=assumed,
            clusters=clusters,
            medians=first.facts.among(keys)["medians"],
        )
        title = output.title or "Plan"
        report = PlanReport(found, options.difference, options.power, options.level, assumed, title)
        finish(report, folder, outputs, output, said)
