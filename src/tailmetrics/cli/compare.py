"""`tailmetrics compare`: runs are compared row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, fields, replace
from itertools import takewhile
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from tailmetrics.cli.evaluate import (
    answerable,
    bind,
    chosen_metrics,
    notes_on_sequences,
    report_of,
    stream,
)
from tailmetrics.cli.inputs import (
    groups_of_rows,
    local_files,
    names_a_file,
    open_inputs,
    paths_of,
    read_labels,
    read_row_groups,
)
from tailmetrics.cli.messages import CommandError, did_you_mean, in_options, tell
from tailmetrics.cli.options import CompareOptions, DataOptions
from tailmetrics.cli.outputs import Outputs, finish
from tailmetrics.cli.parser import Request
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.comparing import compared, warnings_of
from tailmetrics.evaluation.evaluating import ALIKE
from tailmetrics.evaluation.row_tables import CLUSTER, RowTable, RowTableWriter, table_in
from tailmetrics.evaluation.row_values import NOTHING
from tailmetrics.io import DataFileError
from tailmetrics.report import ComparisonReport
from tailmetrics.report.pages import FORMS
from tailmetrics.significance.rows import check_identities

COMPARE_FILES = [*(f"compare.{suffix}" for suffix in FORMS), "compare_curve.csv"]


def compare_runs(request: Request, said: dict[str, bool]) -> None:
    """Compare runs, then write and print the result; ``said`` holds the warnings printed so far."""
    options, output, data = request.comparison, request.output, request.data
    tables, preds = request.tables, options.preds or []
    # commas separate the runs of one model, such as its seeds, unless the whole text names a file
    models = [[Path(one)] if Path(one).exists() else [Path(part) for part in one.split(",") if part] for one in tables]
    names = _names(options, models or [[Path(one)] for one in preds])
    models = [[table_in(one, tell) for one in some] for some in models]
    if tables and preds:
        raise CommandError("compare takes either tables or --preds", "leave one of them out.")
    if tables:
        _check_told_nothing_else(request)
    read = [one for some in models for one in some]
    read += [Path(options.clusters)] if options.clusters is not None and names_a_file(options.clusters) else []
    paths = paths_of(preds, data)
    read += [*map(Path, paths), *local_files(paths), *map(Path, request.configs)]
    with Outputs(read, output.overwrite) as outputs:
        folder = None if output.out is None else outputs.claim(output.out, COMPARE_FILES)
        models = models or [[path] for path in _tables(request, preds, names, outputs.scratch())]
        opened = {name: [RowTable.open(one) for one in some] for name, some in zip(names, models, strict=True)}
        report = _compared(opened, request)
        alike = in_options(ALIKE) if report.num_clusters else None
        notes = {name: [note for one in some for note in one.notes if note != alike] for name, some in opened.items()}
        of_runs = {note for some in notes.values() for note in some}
        # notes on how files were read are printed, but no part of the report, as in an evaluation
        more = [one for one, of_file in said.items() if not of_file and one not in of_runs]
        report = replace(report, warnings=[*warnings_of(notes), *more])
        finish(report, folder, outputs, output, said)


def _check_told_nothing_else(request: Request) -> None:
    """Raise if an option of the evaluation is given beside tables: they hold computed values."""
    data = request.data
    heeded: set[str] = set()
    if request.comparison.clusters:  # the file of clusters needs these options
        heeded = {"target", "format", "columns"}
    given = [one.name for one in fields(data) if getattr(data, one.name) != getattr(DataOptions(), one.name)]
    given += [name for name in ("metrics", "without") if getattr(request, name)]
    if unheeded := [f"--{name.replace('_', '-')}" for name in given if name not in heeded]:
        problem = f"{' and '.join(unheeded)} would change nothing: tables hold computed values"
        raise CommandError(problem, "leave them out, or give them to evaluate --per-row, which writes the tables.")


def _names(options: CompareOptions, models: Sequence[Sequence[Path]]) -> list[str]:
    """Return the name of each model: the given name, or its file's name, with the folder if file names are equal."""
    if len(models) < 2:
        raise CommandError(f"there are {len(models)} runs to compare", "name at least two.")
    files = [first.absolute() for first, *_ in models]
    candidates = [options.names] if options.names else [
        [file.name if file.is_dir() else file.stem for file in files],
        [f"{file.parent.name}/{file.stem}" for file in files],
        _where_paths_differ(files),
    ]  # fmt: skip
    names = next((names for names in candidates if len(set(names)) == len(names)), candidates[-1])
    if len(set(names)) != len(models):
        problem = f"the names {', '.join(names)} are not one for each of {len(models)} runs"
        raise CommandError(problem, "give --names.")
    return names


def _where_paths_differ(files: Sequence[Path]) -> list[str]:
    """Return the parts of paths between those with which all begin, and those with which all end."""
    parts = [file.parts for file in files]
    first, last = (
        sum(1 for _ in takewhile(lambda some: len({*some}) == 1, zip(*(one[::step] for one in parts), strict=False)))
        for step in (1, -1)
    )
    return ["/".join(one[first : len(one) - last]) for one in parts]


def _tables(request: Request, preds: Sequence[str], names: Sequence[str], scratch: Path) -> list[Path]:
    """Evaluate each run, and return the paths of the tables of values per row; messages name runs by ``names``."""
    data = request.data
    inputs = open_inputs(preds, data)
    first, *others = (range(run.num_rows) if run.row_names is None else run.row_names for run in inputs.runs)
    for name, other in zip(names[1:], others, strict=True):  # before they are evaluated, which takes longer
        check_same_names(names[0], first, name, other)
    metrics = chosen_metrics(request)
    for dataset in inputs.runs:
        metrics = answerable(metrics, dataset, request)
    groups = [read_row_groups(inputs.files, dataset) for dataset in inputs.runs]
    row_groups = None if groups[0] is None else groups[0].names
    labels = read_labels(inputs)
    evaluation = Evaluation(metrics, row_groups=row_groups, headline=request.headline(metrics))
    bind(evaluation.collection, inputs, labels)
    paths = [scratch / f"{number}.parquet" for number in range(len(preds))]
    for given, path, dataset, of_rows in zip(preds, paths, inputs.runs, groups, strict=True):
        one = deepcopy(evaluation)
        one.start()
        with RowTableWriter(path, one, dataset) as writer:
            stream(dataset, one, of_rows, data, write=writer.write)
            report = report_of(one, given, dataset, data, of_rows)
            # a comparison shows no values of other orders of equal scores
            writer.notes = [*replace(report, tie_bounds=None).warnings, *notes_on_sequences(dataset)]
            writer.scalars = report.scalars
    return paths


def clusters_in(tables: Iterable[RowTable]) -> list[Any] | None:
    """Return the clusters that tables keep, whose rows are in one order; None if no table keeps any.

    Raises:
        CommandError: If two tables keep different clusters.
    """
    kept = [table.column(CLUSTER) for table in tables if CLUSTER in table.columns]
    if any(one != kept[0] for one in kept):
        raise CommandError("the tables have different clusters", "evaluate all with the same --clusters.")
    return kept[0] if kept else None


def _compared(models: dict[str, list[RowTable]], request: Request) -> ComparisonReport:
    options, output, data = request.comparison, request.output, request.data
    names = next(iter(models.values()))[0].names
    models = {name: [one.joined(names) for one in some] for name, some in models.items()}
    first = next(iter(models.values()))[0]
    facts, groups, clusters = first.facts, first.groups(), None
    if options.clusters is not None and (names_a_file(options.clusters) or data.target is not None):
        queries = None if pa.types.is_integer(names.type) else names.to_pylist()
        clusters = groups_of_rows("--clusters", options.clusters, data, queries, len(names), first.tokens)
    elif options.clusters is not None:
        clusters = first.column(options.clusters)
    else:
        clusters = clusters_in([table for some in models.values() for table in some])
    keys = [key for key in chosen(first, options.only) if key != options.clusters]
    if options.only is not None:
        stem, *_ = [key.rpartition("/")[0] for key in keys if key.rpartition("/")[2] in facts.buckets] or keys
        facts = replace(facts, headline=stem)
    stems = {key.rpartition("/")[0] for key in keys}
    parts = (of for name, of in facts.gaps.items() if name.rpartition("/")[0] in stems and {*of} & {*facts.parts})
    keys += [key for of in parts for key in of]
    for name, some in models.items():
        for table in some:
            if not first.names.equals(table.names):
                rows = first.names.to_pylist(), name, table.names.to_pylist()
                check_same_names(next(iter(models)), *rows, zero="evaluate --missing zero --per-row")
            if groups is not None and table.facts.row_groups and not groups.equals(table.groups()):
                problem = f"{name} has other groups of rows than {next(iter(models))}"
                raise CommandError(problem, "evaluate both with the same --row-groups.")
            missing = [key for key in keys if table.pairs.get(key) != first.pairs[key]]
            if missing:
                hint = "evaluate both with the same config and training labels, or choose others with --only."
                raise DataFileError(table.path, f"lacks {missing[0]!r}, which {first.path} has", hint=hint)
        digests = {str(table.path): table.identity for table in some}
        check_identities("compare", digests, list(digests), keys)
    scalars = {
        name: {key: fmean(one.scalars.get(key, nan) for one in some) for key in some[0].scalars}
        for name, some in models.items()
        if options.only is None
    }
    return compared(
        {name: [table.values(keys, NOTHING) for table in some] for name, some in models.items()},
        facts,
        values=scalars,
        list_lengths={name: some[0].list_lengths for name, some in models.items()},
        warnings={name: [note for one in some for note in one.notes] for name, some in models.items()},
        title=output.title,
        headline=request.headline(),
        correction=options.correction,
        baseline=options.baseline,
        **asdict(request.resampling),
        clusters=clusters,
        shown={"clusters": options.clusters or ""},
        identities={name: some[0].identity for name, some in models.items()},
    )


def chosen(table: RowTable, only: list[str] | None) -> list[str]:
    """Return the keys of a table that are compared, in the order of ``only``: the first one is the headline.

    A metric over all labels takes along its values by bucket, also those of the one list that a row shows.
    """
    keys = [key for key in table.pairs if key not in table.facts.parts]
    if only is None:
        return keys
    kept: list[str] = []
    for name in only:
        found = [key for key in keys if key == name or key.startswith(f"{name}/")]
        if not found:
            known = dict.fromkeys(key.partition("/")[0] for key in keys)
            problem = f"--only {name}: no metric of rows is called that"
            reason = "values of all lists together, such as Gini and coverage, have none for a row and are not compared"
            hint = f"{did_you_mean([name], known)}choose from {', '.join(known)}; {reason}."
            raise CommandError(problem, hint)
        kept += found if found != [name] else [name, *(key for key in keys if key.startswith(f"global_{name}/"))]
    return list(dict.fromkeys(kept))


def check_same_names(
    first_name: str, first: Sequence[Any], name: str, other: Sequence[Any], zero: str = "--missing zero"
) -> None:
    """Raise unless two runs have rows of the same names in the same order.

    The hint names the option ``zero``, which counts queries that a run lacks as 0.
    """
    if first == other:
        return
    named = {run: rows[0] for run, rows in ((first_name, first), (name, other)) if isinstance(rows[0], str)}
    if len(named) == 1:
        problem = "; ".join(
            f"rows of {run} {f'are queries, such as {named[run]!r}' if run in named else 'have no names'}"
            for run in (first_name, name)
        )
        hint = "evaluate both from files that name the query of a line, or both as rows in the order of the targets: "
        raise CommandError(problem, f"{hint}lists can be a .npy array of label ids, best first, padded by -1.")
    queries = {*first, *other}
    lacks = {run: len(queries.difference(rows)) for run, rows in ((first_name, first), (name, other))}
    if any(lacks.values()) and any(isinstance(query, str) for query in queries):
        problem = " and ".join(f"{run} lacks {count:,}" for run, count in lacks.items() if count)
        problem += f" of the {len(queries):,} queries"
    elif len(first) != len(other):
        problem = f"{name} holds {len(other):,} rows, but {first_name} holds {len(first):,}"
    else:
        here, there = next(pair for pair in zip(first, other, strict=True) if pair[0] != pair[1])
        problem = f"{name} holds the row {there!r} where {first_name} holds {here!r}"
    hint = f"evaluate both against the same targets; {zero} counts queries that a run lacks as 0. "
    hint += "Values of other rows differ by chance, and averages over labels also by the number of rows."
    raise CommandError(problem, hint)
