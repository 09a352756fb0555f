"""`tailmetrics evaluate`: from files to a report, in bounded memory."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tailmetrics import LabelBuckets, LabelFrequency, TopKCollection
from tailmetrics._arguments import INTEGERS
from tailmetrics.cli.cluster import Engine
from tailmetrics.cli.inputs import (
    Files,
    Inputs,
    Labels,
    RowGroups,
    Share,
    everywhere,
    groups_of_rows,
    local_files,
    open_inputs,
    options_of_values,
    paths_of,
    read_labels,
    read_row_groups,
    show_readings,
)
from tailmetrics.cli.messages import CommandError, describe, in_options, sentence, tell
from tailmetrics.cli.options import DataOptions, EvaluateOptions, OutputOptions
from tailmetrics.cli.outputs import Outputs, finish
from tailmetrics.cli.parser import Request
from tailmetrics.cli.progress import progress
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.data import note_on_equal, note_on_swapped, notes_on_queries
from tailmetrics.evaluation.evaluating import ALIKE, note_on_catalogue, note_on_unseen
from tailmetrics.evaluation.row_moments import with_intervals
from tailmetrics.evaluation.row_tables import ROWS_FILE, RowTable, RowTableWriter
from tailmetrics.io import DataFileError, Dataset, TargetDataset
from tailmetrics.io.database import Names
from tailmetrics.io.labels import order_of_names
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._arguments_of_metrics import Training
from tailmetrics.metrics._batches import check_batch
from tailmetrics.ranking import Ranking, rank
from tailmetrics.ranking._inputs import labels_without
from tailmetrics.report import Report
from tailmetrics.report.pages import FORMS
from tailmetrics.significance import Interval, intervals

CPU = torch.device("cpu")
REPORT_FILES = [*(f"report.{suffix}" for suffix in FORMS), "labels.csv", "curve.csv", ROWS_FILE]


def evaluate(request: Request, said: dict[str, bool]) -> None:
    """Evaluate, then write and print the results that the options ask for; after an error nothing is written.

    ``said`` holds the warnings printed so far.
    """
    options, data, output, resampling = request.evaluation, request.data, request.output, request.resampling
    if options.preds is None:
        raise CommandError("there are no predictions", "add --preds FILE.")
    if options.show_reading:
        for row in show_readings(options.preds, data):
            print(row)
        return
    if options.intervals and options.no_intervals:
        raise CommandError("--intervals and --no-intervals are both given", "leave one of them out.")
    if options.clusters and options.no_intervals and options.per_row is None:
        hint = "leave one of them out, or add --per-row TABLE, which keeps the clusters for comparisons."
        raise CommandError("--clusters and --no-intervals are both given", hint)
    if options.no_rows and options.per_row is not None:
        raise CommandError("--no-rows and --per-row are both given", "leave one of them out.")
    if options.shares is not None and options.engine is None:
        raise CommandError("--shares is given without --engine", "add --engine ray, dask or spark, or leave it out.")
    device = computing_device(options.device)
    metrics = chosen_metrics(request)
    paths = paths_of([options.preds], data)
    input_files: list[str | Path] = [*paths, *local_files(paths), *request.configs]
    with Outputs(input_files, output.overwrite) as outputs, ExitStack() as stack:
        engine = None if options.engine is None else Engine(options, data)
        folder = None if output.out is None else outputs.claim(output.out, REPORT_FILES)
        table = _claim_row_table(options, output, outputs, folder)
        inputs = open_inputs([options.preds], data, options.clusters)
        (dataset,) = inputs.runs
        groups, clusters = read_row_groups(inputs.files, dataset), None
        if options.clusters is not None:
            of_rows = dataset.row_names, dataset.num_rows, dataset.tokens
            clusters = groups_of_rows("--clusters", options.clusters, data, *of_rows)
        metrics = answerable(metrics, dataset, request)
        of_labels = read_labels(inputs)
        evaluation = Evaluation(
            metrics,
            row_groups=None if groups is None else groups.names,
            labels=options.labels,
            label_names=of_labels.names,
            intervals=None if options.no_intervals or options.clusters else resampling.confidence,
            headline=request.headline(metrics),
        )
        bind(evaluation.collection, inputs, of_labels, engine)
        evaluation.start(device)
        writer = None
        if engine is None:
            if table is not None:
                value_options = options_of_values(data) if _keeps_rows(options, output) else None
                writer = stack.enter_context(RowTableWriter(table, evaluation, dataset, value_options, clusters))
            stream(dataset, evaluation, groups, data, device, None if writer is None else writer.write)
        else:
            files = inputs.files.everywhere()
            evaluation = engine.total(evaluation, partial(_add_share, preds=everywhere(options.preds), files=files))
        report = report_of(evaluation, options.preds, dataset, data, groups)
        alike = notes_on_sequences(dataset) if clusters is None else []
        notes = [*report.notes, *([] if options.no_intervals else alike)]
        notes += [one for one, of_file in said.items() if not of_file and one not in notes]
        every = (*dataset.readings, *(() if inputs.train is None else inputs.train.readings))
        readings = tuple(sentence(replace(one, path=Path(one.path).name)) for one in every)
        words = request.words(report.words)
        report = replace(report, title=output.title or report.title, notes=tuple(notes), readings=readings, words=words)
        if writer is not None:
            writer.scalars = report.scalars
            writer.notes = list(dict.fromkeys([*replace(report, tie_bounds=None).warnings, *alike]))
        stack.close()
        if table is not None and (options.intervals or (clusters is not None and not options.no_intervals)):
            drawn = asdict(resampling) | ({} if options.intervals else {"resamples": 0})
            report = _with_intervals(report, table, {**drawn, "clusters": clusters})
        finish(report, folder, outputs, output, said)


def computing_device(name: str) -> torch.device:
    """Return the device on which metrics are computed.

    Raises:
        CommandError: If torch sees no GPU.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise CommandError("--device cuda: torch sees no GPU", "leave --device out to compute on the CPU.")
    return torch.device(name)


def _keeps_rows(options: EvaluateOptions, output: OutputOptions) -> bool:
    """Whether a table of rows is kept, by default in the folder of the report; engines send no values of rows."""
    return options.per_row is not None or not (output.out is None or options.no_rows or options.engine)


def _claim_row_table(
    options: EvaluateOptions, output: OutputOptions, outputs: Outputs, folder: Path | None
) -> Path | None:
    """Return the path of the table of values per row; None if nothing needs it."""
    if options.per_row is not None:
        path = Path(options.per_row)
        return outputs.claim(path.parent, [path.name]) / path.name
    if folder is not None and _keeps_rows(options, output):
        return folder / ROWS_FILE
    if options.intervals or options.clusters:
        return outputs.scratch(None if folder is None else folder.parent) / ROWS_FILE
    return None


def report_of(
    evaluation: Evaluation, preds: str, dataset: Dataset, data: DataOptions, groups: RowGroups | None
) -> Report:
    """Return the report of a run, with notes on its rows; warn of queries that are left out."""
    preds, target = (Path(str(path)).name for path in (preds, data.target))
    with warnings.catch_warnings():
        # with an engine this process never calls update, but its states hold the rows of all tasks
        warnings.filterwarnings("ignore", ".*was called before the ``update`` method.*")
        report = evaluation.report(f"{preds}, on {target}")
    notes = [in_options(note) for note in report.notes]
    notes_on_files = (*note_on_equal(dataset, preds, target), *note_on_swapped(dataset, preds, target))
    for said in (*notes_on_files, *notes_on_queries(dataset, data.missing, preds, target)):
        tell(in_options(said))  # the report repeats warnings, and --quiet hides none
    if dataset.ignored is not None:
        positives, removed, bare = dataset.filtered()
        said = f"--filter {Path(str(data.filter)).name} leaves {len(dataset.ignored):,} pairs out"
        if removed:  # they may be the positives that were held out
            lost = f"{removed:,} of the {positives:,} positives of {target}: {bare:,} rows keep no positive"
            tell(f"{said}, among them {lost}.")
        else:
            notes.append(f"{said}, none of them a positive.")
    if dataset.label_names is not None and data.num_labels is None and data.label_names is None:
        named, hint = f"these files name, {preds} included", "--string-ids true --num-labels L"
        notes += note_on_catalogue(evaluation.members, len(dataset.label_names), named, hint)
    lacking = 0 if groups is None else int((groups.numbers < 0).sum())
    notes += [f"{lacking:,} rows have no group and count only overall."] * (lacking > 0)
    return replace(report, tie_winner=dataset.tie_winner, notes=tuple(notes))


def notes_on_sequences(dataset: Dataset) -> list[str]:
    """Return the note on scores (B, T, L), for intervals and comparisons without clusters."""
    return [in_options(ALIKE)] if dataset.tokens > 1 else []


# -- which metrics --------------------------------------------------------------------------------------------------


def chosen_metrics(request: Request) -> list[TopKMetric]:
    """Return the metrics of the config, except the metrics that ``--without`` names by class or key.

    Raises:
        CommandError: If there are no metrics, or if ``--without`` names an unknown metric.
    """
    metrics: list[TopKMetric] = request.metrics
    if not metrics:
        raise CommandError("there are no metrics", "add --preset xmc, or --config FILE with a list of metrics.")
    stems = {id(metric): _stems(metric) for metric in metrics}
    kept = list(metrics)
    for name in request.without:
        others = [one for one in kept if name.lower() not in (type(one).__name__.lower(), *stems[id(one)])]
        if len(others) == len(kept):
            known = dict.fromkeys(stem for one in stems.values() for stem in one)
            raise CommandError(f"--without {name}: there is no such metric", f"choose from {', '.join(known)}.")
        kept = others
    if not kept:
        raise CommandError("--without leaves no metric", "leave one of them in.")
    return kept


def _stems(metric: TopKMetric) -> Iterable[str]:
    """Return a metric's keys without cut-off and bucket; if there is one key, also this key with its cut-off."""
    keys = dict.fromkeys(key.partition("/")[0] for key in list(metric.keys()))
    return dict.fromkeys([*(key.partition("@")[0] for key in keys), *(keys if len(keys) == 1 else ())])


def answerable(metrics: Sequence[TopKMetric], dataset: Dataset, request: Request) -> list[TopKMetric]:
    """Return the metrics of a preset that can be computed from the predictions, and warn of the others.

    A preset is made for a field, not for one form of its data. No metric of the user's own config is left out.

    Raises:
        CommandError: If no metric remains, or if thresholds are in the order of label ids, but labels are names.
    """
    of_labels = any(isinstance(getattr(one, "threshold", None), torch.Tensor) for one in metrics)
    if of_labels and isinstance(dataset.label_names, Names):
        problem = "--metrics.threshold holds thresholds in the order of label ids, but the labels are names"
        raise CommandError(problem, "write the scores as a matrix, and its columns as --label-names.")
    if request.preset is None:
        return list(metrics)
    kept, target, first = [], torch.zeros(1, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.int64)
    listed = first if dataset.preds.dense or not _have_scores(dataset) else (first.float(), first)
    if request.data.train_target is None and request.data.label_counts is None:
        uncounted = [metric for metric in metrics if _needs_counts(metric)]
        metrics = [metric for metric in metrics if not _needs_counts(metric)]
        if uncounted and metrics:
            uncounted.sort(key=lambda metric: metric.buckets is not None)
            names = (f"{type(one).__name__}{'' if one.buckets is None else ' by bucket'}" for one in uncounted)
            left_out = ", ".join(dict.fromkeys(names))
            said = f"No file says how often labels occur in training. So these are left out: {left_out}. "
            tell(f"{said}Add --train-target FILE or --label-counts FILE.")
    for metric in metrics:
        num_labels = metric.num_labels or 1
        if dataset.preds.dense:
            ranking = Ranking.from_scores(torch.zeros(1, num_labels), depth=num_labels, target_ids=target)
        else:
            ranking = rank(listed, target, num_labels=num_labels)
        try:
            with warnings.catch_warnings():  # a metric may warn of its first batch, which is artificial here
                warnings.simplefilter("ignore")
                check_batch(deepcopy(metric), ranking)
            kept.append(metric)
        except ValueError as error:
            name = type(metric).__name__
            problem = str(error).removeprefix(f"{name}: ").partition("; ")[0]
            tell(f"{name} is left out: {problem}")
    if not kept:
        raise CommandError("the predictions answer no metric of the preset", "write dense scores [N, L].")
    return kept


def _have_scores(dataset: Dataset) -> bool:
    """Whether lists hold scores. Ranks, which are read as whole numbers below 0, are no scores."""
    values = dataset.preds.first_values()
    return bool(((values >= 0) | (values != values.round())).any())


# -- training labels ------------------------------------------------------------------------------------------------


def bind(collection: TopKCollection, inputs: Inputs, labels: Labels, engine: Engine | None = None) -> None:
    """Bind the metrics that still lack buckets, training counts or propensities.

    Args:
        collection: The metrics.
        inputs: The open files.
        labels: The labels of the report.
        engine: The engine that counts the training labels; None if this process counts them.
    """
    num_labels, num_train = inputs.files.num_labels, inputs.files.options.num_train
    if inputs.train is not None or inputs.counts is not None:
        _note_unread(collection, "--train-target" if inputs.counts is None else "--label-counts")
    if inputs.train is not None and inputs.files.options.train_min_gain is None:
        _note_lower_gains(collection, inputs.train)
    _check_known(collection, inputs, num_train)
    counted = None
    if inputs.train is not None:
        assert num_labels is not None
        counted = LabelFrequency(num_labels)
        if engine is None:
            _count(counted, inputs.files, inputs.train)
        else:
            counted = engine.total(counted, partial(_count_share, files=inputs.files.everywhere()))
    counts = inputs.counts if counted is None else counted.compute().reshape(-1)  # TorchMetrics squeezes one label
    if counts is not None:
        hint = "add --string-ids true; --num-labels is then the size of the catalogue"
        for said in note_on_unseen(counts, hint if inputs.files.names is None else None):
            tell(said)
        num_rows = num_train if counted is None else counted.num_rows
        order = order_of_names(inputs.files.names or (), len(counts))
        collection.bind(Training(len(counts), counts, num_rows, order=order, tree=labels.tree))
    elif num_labels is not None:
        # no counts: metrics only need the number of labels, so bind a single bucket
        whole = LabelBuckets.from_assignment(torch.zeros(num_labels, dtype=torch.int64), ["all"])
        collection.bind(replace(Training.of("bind", whole), tree=labels.tree))
    of_trees = [metric for metric in collection.members().values() if "tree" in metric.needs]
    if labels.tree is None and any(metric.missing() for metric in of_trees):
        raise CommandError(f"{type(of_trees[0]).__name__}: needs the parents of the labels", "add --label-tree FILE.")
    unbound = [type(metric).__name__ for metric in collection.members().values() if not metric.is_bound]
    if unbound:
        hint = "add --num-labels; or, where ids have gaps, --string-ids true, which counts each id that is met."
        raise CommandError(f"{unbound[0]}: the number of labels is not known: no file tells it", hint)


def _note_unread(collection: TopKCollection, option: str) -> None:
    """Warn if no metric reads the training counts, which an option gives."""
    members = collection.members().values()
    if all(metric.buckets is None and not {"label_counts", "num_train"} & {*vars(metric)} for metric in members):
        said = f"No metric reads how often labels occur in training, so that {option} makes no values by bucket. "
        more = "Add --buckets deciles, which reports each metric by decile too."
        tell(said + more)


def _note_lower_gains(collection: TopKCollection, train: TargetDataset) -> None:
    """Warn if training targets have the scale of the targets, but count from a smaller gain."""
    level, gains = _largest_min_gain(collection), train.target.first_values()
    if ((gains > 0) & (gains < level)).any() and (gains >= level).any():
        said = f"Training targets count from any gain above 0, targets from {level:g}: "
        tell(f"{said}--train-min-gain {level:g} counts both alike.")


def _largest_min_gain(collection: TopKCollection) -> float:
    return max((getattr(metric, "min_gain", None) or 0 for metric in collection.members().values()), default=0)


def _check_known(collection: TopKCollection, inputs: Inputs, num_train: int | None) -> None:
    """Raise if a metric needs training counts or a number of training rows that no option gives.

    The defaults () and 0 of ``getattr`` stand for a metric without the argument.
    """
    if inputs.train is not None:
        return
    for metric in collection.members().values():
        name = type(metric).__name__
        if inputs.counts is None and _needs_counts(metric):
            hint = "add --train-target FILE, or --label-counts FILE."
            raise CommandError(f"{name}: needs to know how often labels occur in training", hint)
        if num_train is None and getattr(metric, "num_train", 0) is None:
            hint = "add --num-train N beside --label-counts, or give --train-target instead."
            raise CommandError(f"{name}: needs the number of training rows", hint)


def _needs_counts(metric: TopKMetric) -> bool:
    """Whether a metric lacks training counts, for its buckets or for its argument ``label_counts``."""
    return isinstance(metric.buckets, str) or getattr(metric, "label_counts", ()) is None


def _count(frequency: LabelFrequency, files: Files, train: TargetDataset) -> None:
    """Add training targets to the counts of ``frequency``."""
    ignored = files.options.ignore_index
    with progress("training labels", train.stop - train.start) as advance:
        for batch in train:
            target = batch.target
            if target.shape[1:] == (frequency.num_labels,) and not target.is_sparse_csr:  # files tell ids from gains
                target = target > 0
            are_ids = target.dtype in INTEGERS and not target.is_sparse_csr
            frequency.update(*(labels_without(target, ignored) if are_ids and ignored is not None else (target,)))
            advance(int(batch.rows[-1]) + 1 - train.start)


def _count_share(frequency: LabelFrequency, share: Share, *, files: Files) -> None:
    """Add one share of the training targets to the counts of ``frequency``."""
    train = files.train(share)
    assert train is not None
    _count(frequency, files, train)


# -- one pass over the rows -----------------------------------------------------------------------------------------


def stream(
    dataset: Dataset,
    evaluation: Evaluation,
    groups: RowGroups | None,
    options: DataOptions,
    device: torch.device = CPU,
    write: Callable[[Tensor, Ranking], None] | None = None,
) -> None:
    """Evaluate the rows in batches; ``write`` is called with the row numbers and ranking of each batch.

    Raises:
        CommandError: If a metric refuses a batch, or if ``--probabilities`` does not fit the predictions or a metric.
    """
    collection = evaluation.collection
    if options.probabilities and not dataset.preds.dense:
        raise CommandError("--probabilities needs dense scores [N, L]", "leave it out: lists are in order already.")
    if options.probabilities and any(metric.reading.reads.decisions for metric in evaluation.members):
        raise CommandError("--probabilities takes logarithms, and thresholds are for scores", "leave one of them out.")
    path, num_rows = dataset.preds.path, dataset.stop - dataset.start
    with progress(f"evaluating {path.name}", num_rows) as advance:
        for batch in dataset:
            try:
                _check_gains(batch.target, dataset, collection)
                preds, row_groups = batch.preds, None if groups is None else groups.numbers[batch.rows].to(device)
                target = batch.target
                if options.ignore_index is not None and target.ndim == 1:  # -1 is no label: such rows are left out, too
                    target = target.where(target != -1, options.ignore_index)
                moved = tuple(one.to(device) for one in (preds if isinstance(preds, tuple) else (preds,)))
                if options.probabilities:
                    moved = (_logarithm(moved[0]),)
                ranking = evaluation.rank(
                    moved if isinstance(preds, tuple) else moved[0],
                    target.to(device),
                    row_groups=row_groups,
                    tokens=dataset.tokens,
                    looked_through=True,
                )
                evaluation.update(ranking)
                if write is not None:
                    write(batch.rows, ranking)
            except DataFileError:
                raise
            except ValueError as error:
                problem, hint = describe(error)
                file = dataset.target if re.match(r"(\w+: )?target\b", problem) else dataset.preds
                rows = f"rows {int(batch.rows[0])} to {int(batch.rows[-1])}"
                raise CommandError(f"{file.path}, {rows}: {problem}", hint) from error
            advance(int(batch.rows[-1]) + 1 - dataset.start)


def _logarithm(probabilities: Tensor) -> Tensor:
    """Return the logarithms in double precision, in which different probabilities stay different.

    Raises:
        ValueError: If a probability lies outside [0, 1].
    """
    outside = probabilities[(probabilities < 0) | (probabilities > 1 + 2**-10)]  # 16-bit numbers are rounded
    if len(outside):
        raise ValueError(
            f"preds holds {float(outside[0]):.4g}, but probabilities lie between 0 and 1; leave --probabilities out "
            "where scores are logits."
        )
    return probabilities.to(torch.float64).log()


def _add_share(evaluation: Evaluation, share: Share, *, preds: str, files: Files) -> None:
    """Add one share of the rows to the evaluation."""
    dataset = files.run(preds, share)
    stream(dataset, evaluation, read_row_groups(files, dataset), files.options)


def _check_gains(target: Tensor, dataset: Dataset, collection: TopKCollection) -> None:
    """Raise if a metric has ``min_gain`` above 1, but targets have no gains: no label would be relevant."""
    largest_min_gain = _largest_min_gain(collection)
    is_matrix = target.layout == torch.sparse_csr or target.shape[-1] == dataset.columns
    if largest_min_gain > 1 and (target.dtype == torch.bool or not (target.is_floating_point() or is_matrix)):
        problem = f"holds no gains, so that none reaches min_gain={largest_min_gain:g}"
        hint = "leave min_gain out: without gains every label listed is relevant."
        raise DataFileError(dataset.target.path, problem, hint=hint)


# -- intervals of resampled rows ------------------------------------------------------------------------------------

READ_VALUES = 2**25
"""The most values read at once (256 MB). All sets of keys get the same draws, because they have the same seed."""


def _with_intervals(report: Report, path: Path, drawn: Mapping[str, Any]) -> Report:
    """Return the report with the interval of each key from a table of values per row."""
    table, found = RowTable.open(path), dict[str, Interval]()
    keys, size = list(table.pairs), max(1, READ_VALUES // len(table.names))
    for start in range(0, len(keys), size):
        group = keys[start : start + size]
        found |= intervals(table.values(group), **table.facts.among(group), **drawn)
    return with_intervals(report, found, table.values([key for key in keys if key in table.facts.labels]))
