"""`tailmetrics evaluate`: from files to a report, in bounded memory, on one process or many."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor

from tailmetrics.cli.engine import OnEngine
from tailmetrics.cli.errors import CommandError
from tailmetrics.cli.identity import facts_of, options_of_values
from tailmetrics.cli.inputs import local_files, open_inputs, paths_of
from tailmetrics.cli.interval_files import INTERVAL_FILES, print_intervals, shared_intervals, write_intervals
from tailmetrics.cli.label_names import named_labels
from tailmetrics.cli.options import DataOptions, EvaluateOptions, ResamplingOptions
from tailmetrics.cli.outputs import Outputs
from tailmetrics.cli.parser import Request
from tailmetrics.cli.ranks import Ranks, joined
from tailmetrics.cli.row_groups import RowGroups, read_row_groups
from tailmetrics.cli.row_table import other_parts, part_path
from tailmetrics.cli.row_writer import RowTableWriter
from tailmetrics.cli.selection import answerable, chosen_metrics
from tailmetrics.cli.streaming import stream
from tailmetrics.cli.training import bind
from tailmetrics.evaluation import Evaluation
from tailmetrics.io import Dataset
from tailmetrics.io.files import folder_for
from tailmetrics.ranking import Ranking
from tailmetrics.report import Report, print_report
from tailmetrics.report.formatting import printable
from tailmetrics.significance import Interval

REPORT_FILES = [f"report.{suffix}" for suffix in ("json", "md", "tex", "csv", "html", "png")] + [
    "labels.csv",
    "curve.csv",
]


def evaluate(request: Request) -> None:
    """Evaluate, then write and print what the options ask for; nothing is written unless everything has gone well."""
    options = request.get(EvaluateOptions)
    if options.preds is None:
        raise CommandError("there are no predictions", "add --preds FILE.")
    data = request.get(DataOptions)
    metrics = chosen_metrics(request)
    paths = [*paths_of([options.preds], data), *([] if options.label_names is None else [options.label_names])]
    read: list[str | Path] = [*local_files(paths), *request.configs]
    with joined(options.device) as ranks, Outputs(read, options.overwrite) as outputs:
        engine = None if options.engine is None else OnEngine(options, data, ranks)
        with ranks.agreement():
            folder = _folder(options, ranks, outputs)
            table = _table(options, ranks, outputs)
            facts = facts_of(paths, data) if ranks.world_size > 1 else {}
        outputs.made = list(dict.fromkeys(folder for made in ranks.all(outputs.made) for folder in made))
        ranks.check_same(facts)
        with ranks.agreement():
            inputs = open_inputs([options.preds], data, ranks)
        ranks.check_same(inputs.facts)
        (dataset,) = inputs.runs
        with ranks.agreement():
            groups = read_row_groups(data, dataset)
            evaluation = Evaluation(
                answerable(metrics, dataset, request),
                row_groups=None if groups is None else groups.names,
                labels=options.labels,
                label_names=named_labels(options.label_names, dataset.label_names, inputs.num_labels),
                examples=options.examples,
                row_names=dataset.row_names,
                intervals=_confidence(request),
            )
        bind(evaluation.collection, inputs, ranks, None if engine is None else partial(engine.count, inputs))
        evaluation.start(ranks.device)
        with ranks.agreement():
            if engine is None:
                options_of_rows = None if options.per_row is None else options_of_values(data, dataset)
                _stream(evaluation, dataset, ranks, table, groups, options_of_rows)
            else:
                evaluation = engine.evaluate(evaluation, inputs)
        report = _report(evaluation, dataset, request)
        found: dict[str, Interval] = {}
        if options.intervals and table is not None:
            resampling = request.get(ResamplingOptions)
            found = shared_intervals(table, evaluation.members, dataset.num_rows, ranks, resampling)
            report = replace(report, intervals=found)
        written = _write(report, found, folder, ranks, outputs)
        if ranks.is_first:
            _print(report, found, written, options)


def _confidence(request: Request) -> float | None:
    """Return the confidence of intervals from sums over rows; None where they are resampled or left out."""
    options = request.get(EvaluateOptions)
    if options.intervals and options.no_intervals:
        raise CommandError("--intervals and --no-intervals are both there", "leave one of them out.")
    return None if options.intervals or options.no_intervals else request.get(ResamplingOptions).confidence


def _folder(options: EvaluateOptions, ranks: Ranks, outputs: Outputs) -> Path | None:
    """Return where the first rank writes the report until all is done."""
    if options.out is None or not ranks.is_first:
        return None
    return outputs.claim(options.out, [*REPORT_FILES, *INTERVAL_FILES])


def _table(options: EvaluateOptions, ranks: Ranks, outputs: Outputs) -> Path | None:
    """Return where this rank writes the values of its rows until all is done."""
    if options.per_row is None:
        return folder_for(outputs) / "rows.parquet" if options.intervals else None
    table = Path(options.per_row)
    final = part_path(table, ranks.rank, ranks.world_size)
    if not ranks.is_first:
        return outputs.claim(final.parent, [final.name]) / final.name
    others = [path.name for path in other_parts(table, ranks.world_size)]
    return outputs.claim(final.parent, [final.name, *others]) / final.name


def _stream(
    evaluation: Evaluation,
    dataset: Dataset,
    ranks: Ranks,
    table: Path | None,
    groups: RowGroups | None,
    options: Mapping[str, Any] | None,
) -> None:
    with ExitStack() as stack:
        writer = None
        if table is not None:
            opened = RowTableWriter(table, evaluation.members, dataset, evaluation.over_all, options)
            writer = stack.enter_context(opened)

        def use(rows: Tensor, ranking: Ranking) -> None:
            evaluation.update(ranking, rows=rows)
            if writer is not None:
                writer.write(rows, ranking)

        stream(dataset, evaluation.collection, ranks, use, "evaluating", groups)


def _report(evaluation: Evaluation, dataset: Dataset, request: Request) -> Report:
    options, data = request.get(EvaluateOptions), request.get(DataOptions)
    preds, target = (Path(str(path)).name for path in (options.preds, data.target))
    with warnings.catch_warnings():
        # a rank may have no rows; a metric over all ranks has
        warnings.filterwarnings("ignore", ".*was called before the ``update`` method.*")
        report = evaluation.report(options.title or f"{preds} against {target}")
    notes = []
    if dataset.missing_queries:
        outcome = "left out" if data.missing == "skip" else "counted as empty lists"
        notes.append(f"{dataset.missing_queries:,} queries of {target} have no predictions and are {outcome}.")
    if dataset.unmatched_queries:
        notes.append(f"{dataset.unmatched_queries:,} queries of {preds} have no targets and are left out.")
    return replace(report, rows=dataset.num_rows, tie_winner=dataset.tie_winner, notes=(*report.notes, *notes))


def _write(
    report: Report, found: dict[str, Interval], folder: Path | None, ranks: Ranks, outputs: Outputs
) -> list[Path]:
    """Write everything, then let it appear, on all ranks or on none; return the paths."""
    with ranks.agreement():
        if folder is not None:
            report.write(folder)
            write_intervals(found, report.title, folder)
    with ranks.agreement():
        return outputs.place()


def _print(report: Report, found: dict[str, Interval], paths: list[Path], options: EvaluateOptions) -> None:
    console = Console()
    if not options.quiet:
        print_report(report, console)
        print_intervals(found, console)
    for path in paths:
        console.print(f"wrote {printable(str(path))}", soft_wrap=True, highlight=False, markup=False)
