"""`tailmetrics compare`: runs are compared row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import asdict, replace
from itertools import chain
from math import nan
from os.path import expanduser
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import pyarrow as pa

from tailmetrics.cli.choosing import chosen_metrics, metrics_for
from tailmetrics.cli.evaluate import Run, notes_for_comparisons, report_of
from tailmetrics.cli.inputs import input_files, names_a_file, open_inputs
from tailmetrics.cli.messages import CommandError, Messages
from tailmetrics.cli.options import CompareOptions, DataOptions
from tailmetrics.cli.outputs import Outputs, write_and_print
from tailmetrics.cli.parser import COMMAND_LINE, Request
from tailmetrics.cli.row_groups import groups_of_rows, read_row_groups
from tailmetrics.cli.rows import accumulate
from tailmetrics.cli.training import prepare_from_files
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.comparing import Model, compare_models, warnings_of
from tailmetrics.evaluation.notes import ON_SEQUENCES
from tailmetrics.evaluation.row_facts import RowFacts
from tailmetrics.evaluation.row_tables import (
    CLUSTER,
    RowTable,
    RowTableWriter,
    table_in,
)
from tailmetrics.evaluation.row_values import EMPTY_DENOMINATOR
from tailmetrics.io import DataFileError, Dataset
from tailmetrics.report import ComparisonReport
from tailmetrics.report.files import file_names
from tailmetrics.significance.comparing import matches_pattern
from tailmetrics.significance.identities import check_identities

SAME_CONFIG = (
    "evaluate both with the same config and training labels, or choose others "
    "with --only."
)
Tables: TypeAlias = Mapping[str, Sequence[RowTable]]
"""Name of a model -> the tables of values per row of its runs, such as seeds."""


def compare_runs(request: Request, messages: Messages) -> None:
    """Compare runs, then write and print the result.

    Args:
        request: The command line.
        messages: Where warnings go.

    Raises:
        CommandError: If options contradict each other, or tables do not fit.
    """
    options, output_options = request.comparison, request.output
    preds = options.preds or []
    if request.tables and preds:
        raise CommandError(
            "compare takes either tables or --preds", "leave one of them out."
        )
    request.check_needs()
    files_of_models = _files_of_models(request.tables) or [
        [Path(path)] for path in preds
    ]
    names = _names(options.names, files_of_models)
    tables_of_models = []
    for files in files_of_models:
        tables_of_models.append([table_in(path, messages.warn) for path in files])
    if request.tables:
        _check_only_tables(request)

    inputs = input_files(preds, request.data, options.clusters, request.configs)
    with Outputs(chain(inputs, *tables_of_models), output_options.overwrite) as outputs:
        folder = None
        if output_options.out is not None:
            folder = outputs.claim(
                output_options.out, file_names("compare", ComparisonReport.tables)
            )
        if preds:
            tables_of_models = [
                [path]
                for path in _written_tables(request, names, outputs.scratch(), messages)
            ]
        models = {}
        for name, paths in zip(names, tables_of_models, strict=True):
            models[name] = [RowTable.open(path) for path in paths]
        _check_reports(models, chain.from_iterable(files_of_models))
        report = _with_warnings(_compared(models, request), models, messages)
        write_and_print(report, folder, outputs, output_options, messages)


def _check_reports(models: Tables, paths: Iterable[Path]) -> None:
    """Raise if a compared folder holds a report and rows of two evaluations."""
    folders = {path for path in paths if path.is_dir()}
    for table in _all_tables(models):
        if table.path.parent in folders:
            table.check_report()


def _with_warnings(
    report: ComparisonReport, models: Tables, messages: Messages
) -> ComparisonReport:
    """Return the report with the warnings of the runs and of the command."""
    notes = {}
    for name, tables in models.items():
        notes[name] = _notes_of(tables)
        if report.num_clusters:
            notes[name] = [note for note in notes[name] if note != ON_SEQUENCES]
    noted = {*chain.from_iterable(notes.values())}
    others = [warning for warning in messages.warnings if warning not in noted]
    return replace(report, warnings=[*warnings_of(notes), *others])


def _notes_of(tables: Sequence[RowTable]) -> list[str]:
    """Return the notes of the tables of a model."""
    return list(chain.from_iterable(table.notes for table in tables))


# -- models and their names ------------------------------------------------------------


def _files_of_models(words: Sequence[str]) -> list[list[Path]]:
    """Return the files of each model; commas separate the runs of one model.

    A word that names a file is not split at its commas.
    """
    models = []
    for word in words:
        files = [Path(expanduser(word))]
        if not files[0].exists() and word.strip(","):
            files = [Path(expanduser(part)) for part in word.split(",") if part]
        models.append(files)
    return models


def _names(names: Sequence[str] | None, models: Sequence[Sequence[Path]]) -> list[str]:
    """Return the name of each model: the given name, or the name of its file.

    The folder is added to equal file names.
    """
    if len(models) < 2:
        raise CommandError(
            f"there are {len(models)} runs to compare", "name at least two."
        )
    if not names:
        return _names_of_files([first.absolute() for first, *_ in models])
    if not all(map(str.strip, names)):
        raise CommandError(
            "a run has a blank name", "give --names, a text for each run."
        )
    if not len(set(names)) == len(names) == len(models):
        problem = (
            f"the names {', '.join(names)} are not one for each of {len(models)} runs"
        )
        raise CommandError(problem, "give --names, one for each run, no two alike.")
    return list(names)


def _names_of_files(files: Sequence[Path]) -> list[str]:
    """Return the names of files, or else the parts in which their paths differ."""
    for file in files:
        if files.count(file) > 1:
            raise CommandError(f"the run {file} stands twice", "give each run once.")
    short_names = [_short_name(file) for file in files]
    with_folders = [f"{file.parent.name}/{file.stem}" for file in files]
    for names in (short_names, with_folders, _where_paths_differ(files)):
        if len(set(names)) == len(files) and all(names):
            return names
    return list(map(str, files))


def _short_name(path: Path) -> str:
    """Return the name of a folder, or the name of a file without its suffix."""
    if path.is_dir():
        return path.name
    return path.stem


def _where_paths_differ(files: Sequence[Path]) -> list[str]:
    """Return the parts of paths between their common beginning and common end."""
    parts = [file.parts for file in files]
    start = _num_equal(parts)
    end = _num_equal([path[::-1] for path in parts])
    return ["/".join(path[start : len(path) - end]) for path in parts]


def _num_equal(paths: Sequence[Sequence[str]]) -> int:
    """Return the number of parts with which all paths begin."""
    number = 0
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        number += 1
    return number


def _check_only_tables(request: Request) -> None:
    """Raise if an option of the evaluation is given beside tables.

    Tables hold computed values.
    """
    default = DataOptions()
    needed_by_clusters = ("target", "format", "columns")
    without_effect = []
    for name, value in vars(request.data).items():
        is_needed = (
            request.comparison.clusters is not None and name in needed_by_clusters
        )
        if value != getattr(default, name) and not is_needed:
            without_effect.append(name)
    if request.metrics:
        without_effect.append("metrics")
    if without_effect:
        names = " and ".join(_names_of_options(request, without_effect))
        hint = (
            "leave them out, or give them to evaluate --per-row, which writes "
            "the tables."
        )
        raise CommandError(
            f"{names} would change nothing: tables hold computed values", hint
        )


def _names_of_options(request: Request, options: Sequence[str]) -> list[str]:
    """Return options as they are given: by command line, config or preset.

    A preset is named once.
    """
    names: list[str] = []
    for option in options:
        source = request.sources.get(option, COMMAND_LINE)
        if source == COMMAND_LINE:
            name = f"--{option.replace('_', '-')}"
        elif source.startswith("--config "):
            name = f"{option} of {source}"
        else:
            name = source
        if name not in names:
            names.append(name)
    return names


# -- predictions -----------------------------------------------------------------------


def _written_tables(
    request: Request, names: Sequence[str], scratch: Path, messages: Messages
) -> list[Path]:
    """Evaluate each run of ``--preds``, and return the paths of the row tables."""
    preds = request.comparison.preds or []
    inputs = open_inputs(preds, request.data, messages, request.comparison.clusters)
    first_rows = _rows_of(inputs.runs[0])
    # before they are evaluated, which takes longer
    for name, dataset in zip(names[1:], inputs.runs[1:], strict=True):
        check_same_names(names[0], first_rows, name, _rows_of(dataset))
    metrics = metrics_for(chosen_metrics(request), inputs, request, messages)
    runs = []
    for path, dataset in zip(preds, inputs.runs, strict=True):
        runs.append(Run(path, dataset, read_row_groups(inputs.files, dataset)))
    evaluation = prepare_from_files(request, metrics, inputs, runs[0].groups, messages)
    tables = []
    for number, run in enumerate(runs):
        table = scratch / f"{number}.parquet"
        _write_table(table, deepcopy(evaluation), run, request.data, messages)
        tables.append(table)
    return tables


def _rows_of(dataset: Dataset) -> Sequence[Any]:
    """Return the names of the rows, or their numbers."""
    if dataset.row_names is None:
        return range(dataset.num_rows)
    return dataset.row_names


def _write_table(
    path: Path, evaluation: Evaluation, run: Run, data: DataOptions, messages: Messages
) -> None:
    """Evaluate a run, and write its table of values per row."""
    evaluation.start()
    with closing(RowTableWriter(path, evaluation, run.dataset)) as writer:
        accumulate(evaluation, run.dataset, run.groups, data, write=writer.write)
        report = report_of(evaluation, run, data, messages)
        writer.complete(report.scalars, notes_for_comparisons(report, run))


# -- comparison ------------------------------------------------------------------------


def _compared(models: Tables, request: Request) -> ComparisonReport:
    """Return the comparison of models."""
    options = request.comparison
    names = _first_table(models).names
    models = {
        name: [table.joined(names) for table in tables]
        for name, tables in models.items()
    }
    first = _first_table(models)
    clusters = _clusters(models, request)
    keys = _compared_keys(models, options)
    facts = first.facts
    if options.only is not None:
        facts = replace(facts, headline=_headline(options.only, keys, facts))
    keys += _parts_of_gaps(keys, facts)
    for name in models:
        _check_tables(models, name, keys)

    compared_models = {}
    for name, tables in models.items():
        runs = [table.values(keys, EMPTY_DENOMINATOR) for table in tables]
        scalars = {}
        for key in tables[0].scalars:
            scalars[key] = fmean(table.scalars.get(key, nan) for table in tables)
        compared_models[name] = Model(
            runs, scalars, tables[0].list_lengths, _notes_of(tables)
        )

    comparison = compare_models(
        compared_models,
        facts,
        title=request.output.title,
        only=options.only,
        headline=request.headline(),
        correction=options.correction,
        baseline=options.baseline,
        **asdict(request.resampling),
        clusters=clusters,
        identities={name: tables[0].identity for name, tables in models.items()},
    )
    return replace(
        comparison,
        clusters=options.clusters or "",
        words=request.words((first.words[0], first.words[1])),
    )


def _all_tables(models: Tables) -> list[RowTable]:
    """Return the tables of all models."""
    return list(chain.from_iterable(models.values()))


def _first_table(models: Tables) -> RowTable:
    """Return the table that the others have to fit."""
    return _all_tables(models)[0]


def _compared_keys(models: Tables, options: CompareOptions) -> list[str]:
    """Return the keys of the values that are compared.

    With ``--only``, these are the keys that all tables have alike.
    """
    first = _first_table(models)
    keys = []
    for key in first.pairs:
        if not first.facts.keys[key].is_part:
            keys.append(key)
    if options.only is None:
        _check_keys(models, keys)
        return keys
    common_pairs = set(first.pairs.items())
    for table in _all_tables(models):
        common_pairs &= table.pairs.items()
    return [key for key in keys if (key, first.pairs[key]) in common_pairs]


def _check_keys(models: Tables, keys: Sequence[str]) -> None:
    """Raise if a table has a value that the first table lacks.

    Such a value would be left out silently.
    """
    for table in _all_tables(models):
        for key in table.pairs:
            if key not in keys and not table.facts.keys[key].is_part:
                problem = f"lacks {key!r}, which {table.path} has"
                raise DataFileError(
                    _first_table(models).path, problem, hint=SAME_CONFIG
                )


def _clusters(models: Tables, request: Request) -> list[Any] | None:
    """Return the cluster of each row; None without clusters."""
    column = request.comparison.clusters
    if column is None:
        return _clusters_in(_all_tables(models))
    first = _first_table(models)
    if names_a_file(column) or request.data.target is not None:
        queries = None
        if not pa.types.is_integer(first.names.type):
            queries = first.names.to_pylist()
        return groups_of_rows(
            "--clusters", column, request.data, queries, len(first.names), first.tokens
        )
    return first.column(column)


def _clusters_in(tables: Iterable[RowTable]) -> list[Any] | None:
    """Return the clusters that tables keep; None if no table keeps any.

    The rows of the tables are in one order.

    Raises:
        CommandError: If two tables keep different clusters.
    """
    clusters = []
    for table in tables:
        if CLUSTER in table.columns:
            clusters.append(table.column(CLUSTER))
    if not clusters:
        return None
    if any(other != clusters[0] for other in clusters):
        raise CommandError(
            "the tables have different clusters",
            "evaluate all with the same --clusters.",
        )
    return clusters[0]


def _headline(only: Sequence[str], keys: Sequence[str], facts: RowFacts) -> str:
    """Return the metric of the first question by bucket, else of the first question."""
    questions = []
    for pattern in only:
        for key in keys:
            if matches_pattern(key, pattern):
                questions.append(key)
    for key in questions:
        stem, _, bucket = key.rpartition("/")
        if bucket in facts.buckets:
            return stem
    return next(iter(questions), facts.headline)


def _parts_of_gaps(keys: Sequence[str], facts: RowFacts) -> list[str]:
    """Return the keys used only for gaps between buckets of compared metrics."""
    stems = {key.rpartition("/")[0] for key in keys}
    needed = []
    for gap, bucket_keys in facts.gaps.items():
        if gap.rpartition("/")[0] in stems and any(
            facts.keys[key].is_part for key in bucket_keys
        ):
            needed += bucket_keys
    return needed


def _check_tables(models: Tables, name: str, keys: Sequence[str]) -> None:
    """Raise if a table of a model does not fit the first table.

    Rows, groups, keys, targets and options must fit.
    """
    first = _first_table(models)
    first_name = next(iter(models))
    groups = first.groups()
    for table in models[name]:
        if not first.names.equals(table.names):
            rows = first.names.to_pylist(), name, table.names.to_pylist()
            check_same_names(
                first_name, *rows, zero="evaluate --missing zero --per-row"
            )
        if (
            groups is not None
            and table.facts.row_groups
            and not groups.equals(table.groups())
        ):
            problem = f"{name} has other groups of rows than {first_name}"
            raise CommandError(problem, "evaluate both with the same --row-groups.")
        for key in keys:
            if table.pairs.get(key) != first.pairs[key]:
                raise DataFileError(
                    table.path,
                    f"lacks {key!r}, which {first.path} has",
                    hint=SAME_CONFIG,
                )
    identities = {str(table.path): table.identity for table in models[name]}
    check_identities("compare", identities, list(identities), keys)


def check_same_names(
    first_name: str,
    first: Sequence[Any],
    name: str,
    other: Sequence[Any],
    zero: str = "--missing zero",
) -> None:
    """Raise unless two runs have rows of the same names in the same order.

    The hint names the option ``zero``, which counts queries that a run lacks as 0.
    """
    if first == other:
        return
    rows_of_runs = {first_name: first, name: other}
    _check_both_have_names(rows_of_runs)

    problem = _missing_queries(rows_of_runs)
    if not problem and len(first) != len(other):
        problem = (
            f"{name} holds {len(other):,} rows, but {first_name} holds {len(first):,}"
        )
    if not problem:
        here, there = next(
            pair for pair in zip(first, other, strict=True) if pair[0] != pair[1]
        )
        problem = f"{name} holds the row {there!r} where {first_name} holds {here!r}"
    hint = (
        f"evaluate both against the same targets; {zero} counts queries that a run "
        "lacks as 0. "
    )
    hint += (
        "Values of other rows differ by chance, and averages over labels also by the "
        "number of rows."
    )
    raise CommandError(problem, hint)


def _check_both_have_names(rows_of_runs: Mapping[str, Sequence[Any]]) -> None:
    """Raise if the rows of one run are queries, and those of the other are numbers."""
    descriptions = []
    num_named = 0
    for run, rows in rows_of_runs.items():
        if isinstance(rows[0], str):
            num_named += 1
            descriptions.append(f"rows of {run} are queries, such as {rows[0]!r}")
        else:
            descriptions.append(f"rows of {run} have no names")
    if num_named == 1:
        hint = (
            "evaluate both from files that name the query of a line, or both as rows "
            "in the order of the targets: lists can be a .npy array of label ids, best "
            "first, padded by -1."
        )
        raise CommandError("; ".join(descriptions), hint)


def _missing_queries(rows_of_runs: Mapping[str, Sequence[Any]]) -> str:
    """Return how many queries each run lacks; empty if none lacks any."""
    queries: set[Any] = set().union(*rows_of_runs.values())
    if not any(isinstance(query, str) for query in queries):
        return ""
    parts = []
    for run, rows in rows_of_runs.items():
        num_missing = len(queries.difference(rows))
        if num_missing:
            parts.append(f"{run} lacks {num_missing:,}")
    if not parts:
        return ""
    return f"{' and '.join(parts)} of the {len(queries):,} queries"
