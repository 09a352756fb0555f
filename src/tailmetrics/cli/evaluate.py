"""`tailmetrics evaluate`: from files to a report, in bounded memory."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tailmetrics.cli.choosing import chosen_metrics, metrics_for
from tailmetrics.cli.cluster import Engine
from tailmetrics.cli.inputs import (
    Inputs,
    absolute_path,
    input_files,
    open_inputs,
    options_of_values,
    show_readings,
)
from tailmetrics.cli.messages import CommandError, Messages
from tailmetrics.cli.options import DataOptions, EvaluateOptions, OutputOptions
from tailmetrics.cli.outputs import Outputs, write_and_print
from tailmetrics.cli.parser import COMMAND_LINE, Request
from tailmetrics.cli.row_groups import RowGroups, groups_of_rows, read_row_groups
from tailmetrics.cli.rows import accumulate, accumulate_share
from tailmetrics.cli.training import prepare_from_files
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.likely_mistakes import (
    notes_on_likely_mistakes,
    notes_on_queries,
)
from tailmetrics.evaluation.notes import ON_SEQUENCES, on_catalogue
from tailmetrics.evaluation.reporting import with_intervals
from tailmetrics.evaluation.row_tables import ROWS_FILE, RowTable, RowTableWriter
from tailmetrics.io import FORMATS, Dataset
from tailmetrics.io.files import suffix_of
from tailmetrics.report import Report
from tailmetrics.report.files import file_names
from tailmetrics.significance import Interval, intervals

READ_VALUES = 2**25
"""The most values read at once (256 MB).

All sets of keys get the same draws, because they have the same seed.
"""


@dataclass(frozen=True)
class Run:
    """The rows of one run.

    Attributes:
        preds: The file of the predictions.
        dataset: The rows.
        groups: The groups of the rows; None without groups.
        clusters: The cluster of each row; None without clusters.
    """

    preds: str
    dataset: Dataset
    groups: RowGroups | None
    clusters: Any = None

    @property
    def note_on_sequences(self) -> list[str]:
        """The note on scores (B, T, L) without clusters; empty for other runs."""
        if self.dataset.tokens == 1 or self.clusters is not None:
            return []
        return [ON_SEQUENCES]


def evaluate(request: Request, messages: Messages) -> None:
    """Evaluate, then write and print the results that the options ask for.

    After an error nothing is written.

    Args:
        request: The command line.
        messages: Where warnings go.

    Raises:
        CommandError: If options contradict each other, or files do not fit.
    """
    options, data = request.evaluation, request.data
    output_options = request.output
    if options.preds is None:
        raise CommandError("there are no predictions", "add --preds FILE.")
    if options.show_reading:
        for line in show_readings(options.preds, data):
            print(line)
        return
    _check_options(request, options)
    device = computing_device(options.device)
    chosen = chosen_metrics(request)
    files = input_files([options.preds], data, options.clusters, request.configs)
    engine = None
    if options.engine is not None:
        engine = Engine(options, data, messages)

    with Outputs(files, output_options.overwrite) as outputs, ExitStack() as open_files:
        folder = None
        if output_options.out is not None:
            folder = outputs.claim(
                output_options.out, [*file_names("report", Report.tables), ROWS_FILE]
            )
        table = _claim_row_table(options, output_options, outputs, folder)

        inputs = open_inputs(
            [options.preds], data, messages, options.clusters, output_options.verbose
        )
        run = _run(options, inputs)
        metrics = metrics_for(chosen, inputs, request, messages)
        confidence = None
        if not options.no_intervals and options.clusters is None:
            confidence = request.resampling.confidence
        evaluation = prepare_from_files(
            request,
            metrics,
            inputs,
            run.groups,
            messages,
            engine,
            labels=options.labels,
            confidence=confidence,
        )
        evaluation.start(device)

        writer = None
        if table is not None:
            value_options = None
            if _keeps_rows(options, output_options):
                value_options = options_of_values(data)
            writer = RowTableWriter(
                table, evaluation, run.dataset, value_options, run.clusters
            )
            open_files.callback(writer.close)
        if engine is None:
            write = None if writer is None else writer.write
            accumulate(evaluation, run.dataset, run.groups, data, device, write)
        else:
            add = partial(
                accumulate_share,
                preds=absolute_path(options.preds),
                files=inputs.files.with_absolute_paths(),
            )
            evaluation = engine.count(evaluation, add)
        report = report_of(evaluation, run, data, messages)
        if writer is not None:
            writer.complete(
                report.scalars,
                notes_for_comparisons(report, run),
                request.words(report.words),
            )

        report = _with_note_on_catalogue(report, evaluation, run, data)
        report = _with_facts_of_the_command(report, request, inputs, run, messages)
        if table is not None and _draws_intervals(options):
            report = _with_drawn_intervals(report, table, request, run)
        write_and_print(report, folder, outputs, output_options, messages)


def computing_device(name: str) -> torch.device:
    """Return the device on which metrics are computed.

    Raises:
        CommandError: If torch sees no GPU.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise CommandError(
            "--device cuda: torch sees no GPU",
            "leave --device out to compute on the CPU.",
        )
    return torch.device(name)


def report_of(
    evaluation: Evaluation, run: Run, data: DataOptions, messages: Messages
) -> Report:
    """Return the report of a run, with notes on its rows.

    Warn of likely mistakes, and of queries that are left out.
    """
    dataset = run.dataset
    preds, target = Path(run.preds).name, Path(str(data.target)).name
    with warnings.catch_warnings():
        # with an engine this process never calls update, but its states hold the rows
        # of all tasks
        warnings.filterwarnings("ignore", ".*was called before the ``update`` method.*")
        report = evaluation.report(f"{preds}, on {target}")

    # the report repeats warnings, and --quiet hides none
    likely_mistakes = notes_on_likely_mistakes(dataset, preds, target)
    for text in likely_mistakes + notes_on_queries(
        dataset, data.missing, preds, target
    ):
        messages.warn(text)

    notes = list(report.notes)
    notes += dataset.notes
    notes += _notes_on_filter(dataset, data, messages)
    return replace(report, tie_winner=dataset.tie_winner, notes=tuple(notes))


def notes_for_comparisons(report: Report, run: Run) -> list[str]:
    """Return the notes that a table of rows keeps.

    A comparison shows no values of other orders of equal scores.
    """
    warnings_of_values = report.warnings_of_rows
    return list(dict.fromkeys([*warnings_of_values, *run.note_on_sequences]))


def _check_options(request: Request, options: EvaluateOptions) -> None:
    """Raise if options contradict each other."""
    is_confidence_given = request.sources.get("confidence") == COMMAND_LINE
    contradictions = {
        "--intervals and --no-intervals": options.intervals and options.no_intervals,
        "--no-rows and --per-row": options.no_rows and options.per_row is not None,
        "--confidence and --no-intervals": is_confidence_given and options.no_intervals,
    }
    for names, are_given in contradictions.items():
        if are_given:
            raise CommandError(f"{names} are both given", "leave one of them out.")
    if options.clusters and options.no_intervals and options.per_row is None:
        hint = (
            "leave one of them out, or add --per-row TABLE, which keeps the clusters "
            "for comparisons."
        )
        raise CommandError("--clusters and --no-intervals are both given", hint)
    if options.shares is not None and options.engine is None:
        raise CommandError(
            "--shares is given without --engine",
            "add --engine ray, dask or spark, or leave it out.",
        )
    if options.per_row is not None:
        _check_row_table(Path(options.per_row))

    needs = {}
    if not _draws_intervals(options):
        needs = dict.fromkeys(("resamples", "resample", "seed"), "--intervals")
    request.check_needs(**needs)


def _check_row_table(path: Path) -> None:
    """Raise if the table of rows has the suffix of another format than Parquet."""
    for form in FORMATS.values():
        if suffix_of(path) in form.suffixes and form.name != "parquet":
            raise CommandError(
                f"--per-row {path}: is written as Parquet",
                "name a file that ends in .parquet.",
            )


def _keeps_rows(options: EvaluateOptions, output_options: OutputOptions) -> bool:
    """Whether a table of rows is kept.

    By default, the folder of the report keeps one; engines send no values of rows.
    """
    if options.per_row is not None:
        return True
    return (
        output_options.out is not None
        and not options.no_rows
        and options.engine is None
    )


def _draws_intervals(options: EvaluateOptions) -> bool:
    """Whether intervals are computed from the table of rows.

    They are computed by resampling or from clusters.
    """
    if options.no_intervals:
        return False
    return options.intervals or options.clusters is not None


def _claim_row_table(
    options: EvaluateOptions,
    output_options: OutputOptions,
    outputs: Outputs,
    folder: Path | None,
) -> Path | None:
    """Return the path of the table of values per row; None if nothing needs it."""
    if options.per_row is not None:
        path = Path(options.per_row)
        folder = outputs.claim(path.parent, [path.name])
        return folder / path.name
    if folder is not None and _keeps_rows(options, output_options):
        return folder / ROWS_FILE
    if options.intervals or options.clusters:
        above = None
        if folder is not None:
            above = folder.parent
        return outputs.scratch(above) / ROWS_FILE
    return None


def _run(options: EvaluateOptions, inputs: Inputs) -> Run:
    """Return the rows with their groups and clusters."""
    (dataset,) = inputs.runs
    groups = read_row_groups(inputs.files, dataset)
    clusters = None
    if options.clusters is not None:
        clusters = groups_of_rows(
            "--clusters",
            options.clusters,
            inputs.files.options,
            dataset.row_names,
            dataset.num_rows,
            dataset.tokens,
        )
    return Run(str(options.preds), dataset, groups, clusters)


def _notes_on_filter(
    dataset: Dataset, data: DataOptions, messages: Messages
) -> list[str]:
    """Return the note on the pairs that ``--filter`` leaves out.

    Warn if positives are among the pairs.

    Such positives may be those that were held out.
    """
    if dataset.ignored is None:
        return []
    num_positives, num_removed, num_bare_rows = dataset.filtered()
    text = (
        f"--filter {Path(str(data.filter)).name} leaves "
        f"{len(dataset.ignored):,} pairs out"
    )
    if not num_removed:
        return [f"{text}, none of them a positive."]
    messages.warn(
        f"{text}, among them {num_removed:,} of the {num_positives:,} positives of "
        f"{Path(str(data.target)).name}: {num_bare_rows:,} rows keep no positive."
    )
    return []


def _with_note_on_catalogue(
    report: Report, evaluation: Evaluation, run: Run, data: DataOptions
) -> Report:
    """Return the report of one run with a note on its catalogue.

    Comparisons refuse runs of other catalogues.
    """
    names = run.dataset.label_names
    if names is None or data.num_labels is not None or data.label_names is not None:
        return report
    source = f"these files name, {Path(run.preds).name} included"
    note = on_catalogue(
        evaluation.members, len(names), source, "--string-ids true --num-labels L"
    )
    return replace(report, notes=(*report.notes, *note))


def _with_facts_of_the_command(
    report: Report, request: Request, inputs: Inputs, run: Run, messages: Messages
) -> Report:
    """Return the report with its title, words, readings and printed warnings."""
    notes = list(report.notes)
    if not request.evaluation.no_intervals:
        notes += run.note_on_sequences
    for warning in messages.warnings:
        if warning not in notes:
            notes.append(warning)
    return replace(
        report,
        title=request.output.title or report.title,
        notes=tuple(notes),
        readings=tuple(
            f"{reading.opening.path.name}: {reading}" for reading in inputs.readings
        ),
        words=request.words(report.words),
    )


def _with_drawn_intervals(
    report: Report, path: Path, request: Request, run: Run
) -> Report:
    """Return the report with intervals of all keys from a table of values per row."""
    resampling = request.resampling
    if not request.evaluation.intervals:
        resampling = replace(resampling, resamples=0)
    table = RowTable.open(path)
    keys = list(table.pairs)
    size = max(1, READ_VALUES // len(table.names))
    drawn: dict[str, Interval] = {}
    for start in range(0, len(keys), size):
        group = keys[start : start + size]
        drawn |= intervals(
            table.values(group),
            clusters=run.clusters,
            **table.facts.interval_arguments(group),
            **asdict(resampling),
        )
    averages = [key for key in keys if table.facts.keys[key].labels is not None]
    return with_intervals(report, drawn, table.values(averages), run.clusters)
