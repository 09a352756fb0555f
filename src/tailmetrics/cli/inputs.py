"""Opens the files that the options name.

All files get the same label ids and number of labels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from tailmetrics._number_of_labels import number_of_labels
from tailmetrics.cli.messages import CommandError, Messages
from tailmetrics.cli.options import DataOptions
from tailmetrics.cli.progress import progress
from tailmetrics.evaluation.labels import places_of_names, vector_by_id
from tailmetrics.evaluation.options import check_distinct
from tailmetrics.io import (
    DataFileError,
    Dataset,
    TargetDataset,
    read,
    read_target,
)
from tailmetrics.io.columns import TableReading
from tailmetrics.io.files import (
    check_file,
    file_errors,
    find,
    is_address,
    stream,
    suffix_of,
)
from tailmetrics.io.forms import Forms
from tailmetrics.io.label_files import LabelCounts, counts_in, load_array, read_edges
from tailmetrics.io.labels import Labels, NumberSource
from tailmetrics.io.lists import NUMBERS_HINT
from tailmetrics.io.loading import first_rows, gathered_labels
from tailmetrics.io.text import every_line
from tailmetrics.tree import LabelTree

# -- predictions, targets, training labels ---------------------------------------------


class Share(NamedTuple):
    """One of several equal parts of the rows; by default all rows.

    A task of a cluster reads one share.
    """

    number: int = 0
    num_shares: int = 1


ALL_ROWS = Share()

SHARED_OPTIONS = ("columns", "string_ids", "batch_rows", "memory")
"""Options that read all files alike: arguments of ``read`` and ``read_target``."""
RUN_OPTIONS = (
    *(
        "format",
        "preds_format",
        "target_format",
        "preds_columns",
        "target_columns",
        "train_columns",
    ),
    *("delimiter", "preds_delimiter", "target_delimiter", "train_delimiter"),
    *(
        "list_delimiter",
        "preds_list_delimiter",
        "target_list_delimiter",
        "train_list_delimiter",
    ),
    *("part", "filter", "missing", "duplicates", "ignore_index", "judged_only"),
)
"""Options that read predictions with their targets."""


@dataclass(frozen=True)
class Files:
    """The facts to open a share of the rows on any machine that sees the files.

    Attributes:
        options: The options that name the files, except the predictions.
        names: Names of all labels; None if labels are numbers, or if opening the
            predictions finds the names.
        num_labels: Number of labels; None if it is unknown.
        number_source: What states the number of labels.
        extra_columns: Names of columns of the targets that options read, such as
            groups, so that they are no gains.
        has_tokens: Whether the targets are one label id per token, so that those of
            training are, too.
    """

    options: DataOptions
    names: Sequence[str] | None
    num_labels: int | None
    number_source: NumberSource
    extra_columns: tuple[str, ...] = ()
    has_tokens: bool = False

    def open_run(
        self, preds: str, share: Share = ALL_ROWS, on_progress: Any = None
    ) -> Dataset:
        """Open predictions with their targets."""
        arguments = self._arguments(RUN_OPTIONS, share)
        if share == ALL_ROWS:  # a share would count the same pairs again
            arguments["train_target"] = self.options.train_target
            arguments["train_format"] = self.options.train_format
        return read(
            preds, str(self.options.target), on_progress=on_progress, **arguments
        )

    def open_train(self, share: Share = ALL_ROWS) -> TargetDataset | None:
        """Open training targets; None without any.

        The targets are only counted, so that their rows need no names.
        """
        options = self.options
        if options.train_target is None:
            return None
        return read_target(
            options.train_target,
            format=options.train_format or options.format,
            delimiter=options.train_delimiter or options.delimiter,
            list_delimiter=options.train_list_delimiter or options.list_delimiter,
            min_gain=options.train_min_gain,
            one_label=self.has_tokens,
            ignore_index=options.ignore_index,
            **self._arguments(("train_columns",), share),
        )

    def _arguments(self, names: Sequence[str], share: Share) -> dict[str, Any]:
        """Return the arguments that both functions share, and the named options."""
        arguments: dict[str, Any] = {
            "extra_columns": self.extra_columns,
            "label_names": self.names,
            "num_labels": self.num_labels,
            "number_source": self.number_source,
            "rank": share.number,
            "world_size": share.num_shares,
        }
        for name in (*SHARED_OPTIONS, *names):
            arguments[name] = getattr(self.options, name)
        return arguments

    def with_absolute_paths(self) -> Files:
        """Return a copy with absolute paths."""
        paths: dict[str, Any] = {}
        for name in ("target", "train_target", "filter", "row_groups"):
            path = getattr(self.options, name)
            if path is not None and (name != "row_groups" or names_a_file(path)):
                paths[name] = absolute_path(path)
        return replace(self, options=replace(self.options, **paths))


def absolute_path(path: str) -> str:
    """Return the absolute path of a file, or a network address unchanged."""
    if is_address(path):
        return path
    return str(Path(path).absolute())


def show_readings(preds: str, options: DataOptions) -> list[str]:
    """Return how each file is read, and its first two rows as they are understood."""
    if options.target is None:
        raise CommandError("there are no targets", "add --target FILE.")
    files: list[tuple[str, str]] = [("preds", preds), ("target", options.target)]
    if options.train_target is not None:
        files.append(("train", options.train_target))
    sentences, rows = first_rows(files, forms_of(options, _extra_columns(options)))
    return [*(f"read: {sentence}" for sentence in sentences), *rows]


def _by_role(options: DataOptions, name: str) -> dict[str, Any]:
    """Return the values of an option for all files (``""``) and for each kind."""
    values = {"": getattr(options, name)}
    for role in ("preds", "target", "train"):
        values[role] = getattr(options, f"{role}_{name}")
    return values


def forms_of(options: DataOptions, extra_columns: tuple[str, ...] = ()) -> Forms:
    """Return what the options say about the forms of files."""
    return Forms(
        formats=_by_role(options, "format"),
        columns=_by_role(options, "columns"),
        delimiters=_by_role(options, "delimiter"),
        list_delimiters=_by_role(options, "list_delimiter"),
        part=options.part,
        extra_columns=extra_columns,
        memory=options.memory,
        has_train_target=options.train_target is not None,
    )


def _extra_columns(
    options: DataOptions, clusters: str | None = None
) -> tuple[str, ...]:
    """Return the columns of the targets that options read as groups or clusters.

    These columns are no gains.
    """
    return tuple(name for name in (options.row_groups, clusters) if name is not None)


@dataclass(frozen=True)
class Inputs:
    """The open files of an evaluation.

    Attributes:
        files: The object that opened the files.
        runs: The predictions of each run with their targets.
        train: The training targets.
        counts: Training counts, if a file gives them.
        label_notes: Notes on the names of labels.
        label_names: The lines of ``--label-names``; None without it.
        places: Shape (L,), int64: the label id of each of ``label_names``; None if
            label ids are numbers.
    """

    files: Files
    runs: list[Dataset]
    train: TargetDataset | None
    counts: Tensor | None
    label_notes: tuple[str, ...] = ()
    label_names: Sequence[str] | None = None
    places: Tensor | None = None

    @property
    def readings(self) -> list[TableReading]:
        """How each file is read."""
        datasets: list[Any] = [*self.runs]
        if self.train is not None:
            datasets.append(self.train)
        return list(
            dict.fromkeys(chain.from_iterable(dataset.readings for dataset in datasets))
        )

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers should know about how the files were read."""
        notes = chain.from_iterable(run.notes for run in self.runs)
        return list(dict.fromkeys([*self.label_notes, *notes]))


class LabelFacts(NamedTuple):
    """What is known of the labels before the runs are opened.

    Attributes:
        counts: Training counts, if a file gives them.
        labels: The labels of all files, which are gathered; None if opening the run
            tells them.
        places: As for :class:`Inputs`.
    """

    counts: Tensor | None = None
    labels: Labels | None = None
    places: Tensor | None = None


def open_inputs(
    preds: Sequence[str],
    options: DataOptions,
    messages: Messages,
    clusters: str | None = None,
    with_options: bool = False,
) -> Inputs:
    """Open all files, and print how they are read.

    Args:
        preds: The predictions of each run.
        options: The options that name the other files.
        messages: Where it is printed.
        clusters: The value of ``--clusters``.
        with_options: Whether to print the options that say it outright, too.
    """
    _check_options(options)
    extra_columns = _extra_columns(options, clusters)
    with progress("opening files", 1.0) as show:
        inputs = _opened(
            preds, options, extra_columns, lambda doing, share: show(share, doing)
        )
    if inputs.train is not None and inputs.train.num_labels is None:
        hint = (
            "add --num-labels, which counting training labels needs; or, where ids "
            "have gaps, --string-ids true."
        )
        raise CommandError(
            "the number of labels is not known: no file declares it", hint
        )
    for file in inputs.readings:
        sentence = file.sentence
        if with_options:
            sentence += f"; said outright: {file.options}"
        messages.reading(sentence)
    for note in inputs.notes:
        messages.note(note)
    return inputs


def _check_options(options: DataOptions) -> None:
    """Raise if there are no targets, or if options of training counts conflict."""
    if options.target is None:
        raise CommandError("there are no targets", "add --target FILE.")
    if options.train_target is not None and options.label_counts is not None:
        hint = "give the training targets to count them, or the counts."
        raise CommandError("both --train-target and --label-counts are given", hint)
    if options.num_train is not None and options.label_counts is None:
        hint = (
            "leave --num-train out; it goes with --label-counts alone, because "
            "training targets are counted."
        )
        raise CommandError("--num-train is given without --label-counts", hint)


def _opened(
    preds: Sequence[str],
    options: DataOptions,
    extra_columns: tuple[str, ...],
    on_progress: Any,
) -> Inputs:
    """Open all files; the first ones tell the number of labels for the others."""
    label_names = None
    if options.label_names is not None:
        label_names = read_lines(options.label_names)
    facts = _label_facts(preds, options, extra_columns, label_names)
    names: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    if facts.labels is not None:
        names, notes = facts.labels.names, facts.labels.notes
        if names is None and options.string_ids is None:
            options = replace(options, string_ids=False)

    num_labels, source = _stated_number(options, label_names, facts.counts)
    files = Files(options, names, num_labels, source, extra_columns)
    train = files.open_train()
    if train is not None and num_labels is None:
        files = replace(
            files,
            num_labels=train.num_labels,
            number_source=NumberSource("train_target", options.train_target),
        )
    runs = [files.open_run(path, on_progress=on_progress) for path in preds]
    files_of_training = files
    if files.num_labels is None:
        files = replace(
            files,
            num_labels=runs[0].num_labels,
            number_source=NumberSource("preds", preds[0]),
        )
    if runs[0].target.one_label and len(runs[0].preds.sequences) > 1:
        files = replace(files, has_tokens=True)
    if files is not files_of_training:
        train = files.open_train()
    return Inputs(files, runs, train, facts.counts, notes, label_names, facts.places)


def _stated_number(
    options: DataOptions, label_names: Sequence[str] | None, counts: Tensor | None
) -> tuple[int | None, NumberSource]:
    """Return the number of labels that options state, and the first such option."""
    numbers = {}
    if label_names is not None:
        numbers["label_names"] = len(label_names)
    if options.num_labels is not None:
        numbers["num_labels"] = options.num_labels
    if counts is not None:
        numbers["label_counts"] = len(counts)
    argument = next(iter(numbers), "num_labels")
    file = None
    if argument != "num_labels":
        file = getattr(options, argument)
    return number_of_labels("evaluate", {}, numbers), NumberSource(argument, file)


def _label_facts(
    preds: Sequence[str],
    options: DataOptions,
    extra_columns: tuple[str, ...],
    label_names: Sequence[str] | None,
) -> LabelFacts:
    """Return what files tell of training counts and labels before runs are opened.

    Labels are gathered only if more files name some than a run and targets.

    Raises:
        CommandError: If labels are names, but nothing puts counts or names in the order
            of label ids.
    """
    path = options.label_counts
    if (
        len(preds) == 1
        and options.train_target is None
        and path is None
        and label_names is None
    ):
        return LabelFacts()

    num_labels = options.num_labels
    names_of_options: dict[str, Collection[str]] = {}
    if label_names is not None:
        names_of_options["label_names"] = label_names
    counted = None
    if path is not None:
        counted = counts_in(path, options.columns.with_names(options.train_columns))
        if counted.labels is not None:
            names_of_options["label_counts"] = set(counted.labels)
        elif label_names is None:
            num_labels = num_labels or len(counted.counts)

    forms = forms_of(options, extra_columns)
    labels = gathered_labels(
        preds,
        options.target,
        options.train_target,
        forms,
        options.string_ids,
        num_labels,
        names_of_options,
    )
    places = None
    if label_names is not None and labels.names is not None:
        places = places_of_names(list(label_names), labels.names)
    counts = None
    if counted is not None and counted.labels is not None:
        counts = _counts_of_names(
            counted, counted.labels, labels.names, label_names, options.num_labels
        )
    elif counted is not None:
        counts = _counts_by_id(counted, labels.names, places, options.num_labels)
    return LabelFacts(counts, labels, places)


def _counts_by_id(
    counted: LabelCounts,
    names: Sequence[str] | None,
    places: Tensor | None,
    num_labels: int | None,
) -> Tensor:
    """Return counts without names in the order of label ids.

    Counts of named labels follow the order of ``--label-names``.
    """
    counts = counted.by_id(num_labels, None)
    if places is not None:
        return vector_by_id(counts, places)
    if names is None:
        return counts
    problem = (
        f"{counted.path}: holds counts in the order of label ids, but the labels are "
        f"names, such as {names[0]!r}"
    )
    hint = (
        "give --label-names in this order, or --train-target, or counts as CSV with "
        "the columns label and count."
    )
    raise CommandError(problem, hint)


def _counts_of_names(
    counted: LabelCounts,
    counted_labels: Sequence[str],
    names: Sequence[str] | None,
    label_names: Sequence[str] | None,
    num_labels: int | None,
) -> Tensor:
    """Return the counts of a file with names or ids, in the order of label ids."""
    if names is None and label_names is not None:  # of label ids, in their order
        check_distinct(label_names)
        names = label_names
    hold_ids = all(map(str.isdecimal, counted_labels))
    if names is None and not hold_ids:
        raise DataFileError(
            counted.path,
            "names labels, but the other files have numbers",
            hint=NUMBERS_HINT,
        )
    # the names are those of --label-names
    if names is not None and hold_ids and set(counted_labels).isdisjoint(names):
        num_labels = num_labels or len(names)
        names = None
    return counted.by_id(num_labels, names)


# -- the files that are read -----------------------------------------------------------


def input_files(
    preds: Sequence[str],
    options: DataOptions,
    clusters: str | None,
    configs: Iterable[Path],
) -> list[Path]:
    """Return all files that a command reads, which outputs may not replace."""
    paths = [
        *preds,
        options.target,
        options.train_target,
        options.label_counts,
        options.label_names,
    ]
    paths += [options.filter, options.label_tree]
    paths += [
        value
        for value in (options.row_groups, clusters)
        if value is not None and names_a_file(value)
    ]
    named = list(filter(None, paths))
    return [*map(Path, named), *_local_files(named), *configs]


def _local_files(paths: Iterable[str]) -> list[Path]:
    """Return the local files that paths, folders and patterns name.

    A path for which no file is found is returned unchanged.
    """
    files: list[Path] = []
    for path in paths:
        try:
            parts = find(path).parts
        except DataFileError:  # it is raised again when the file is read
            if not is_address(path):
                files.append(Path(path))
            continue
        for part in parts:
            if isinstance(part, Path):
                files.append(part)
    return files


def options_of_values(options: DataOptions) -> Mapping[str, Any]:
    """Return the options, beside metric arguments, on which values of rows depend.

    Two tables of values per row can be compared only if these options are equal.
    ``--missing`` is left out: it changes which rows a table has, and changes nothing
    for a run that answers all queries.
    """
    content = None
    if options.filter is not None:
        digest = sha256()
        for part in find(options.filter).parts:
            with stream(part) as file:
                digest.update(file.read())
        content = digest.hexdigest()
    values: dict[str, Any] = {"filter": content}
    if options.judged_only:
        values["judged_only"] = True
    return values


# -- names of labels -------------------------------------------------------------------


class ReportLabels(NamedTuple):
    """The labels of a report.

    Attributes:
        names: The name of each label; None without names.
        tree: Their parents; None if no file tells.
    """

    names: Sequence[str] | None
    tree: LabelTree | None = None


def read_labels(inputs: Inputs) -> ReportLabels:
    """Return the labels that the options and the files tell of.

    Raises:
        CommandError: If the file of the tree does not fit; or if ``--ignore-index`` is
            given for labels that have names: it would leave out one of them by its
            place.
    """
    options, num_labels = inputs.files.options, inputs.files.num_labels
    if (
        options.ignore_index is not None
        and options.ignore_index >= 0
        and inputs.runs[0].label_names is not None
    ):
        problem = (
            f"--ignore-index {options.ignore_index} is a label id, but the labels of "
            "these files have names"
        )
        hint = (
            "take the lines of padding out of the files, or give label ids, "
            "--string-ids false."
        )
        raise CommandError(problem, hint)
    names = _all_names(inputs)
    if options.label_tree is None:
        return ReportLabels(names)
    if names is None and num_labels is None:
        raise CommandError(
            "--label-tree needs the number of labels, which no file tells",
            "add --num-labels.",
        )
    edges = read_edges(options.label_tree)
    try:
        tree = LabelTree.from_edges(edges, names or [*map(str, range(num_labels or 0))])
    except ValueError as error:
        raise ValueError(f"{options.label_tree}: {error}") from error
    return ReportLabels(names, tree)


def _all_names(inputs: Inputs) -> Sequence[str] | None:
    """Return the name of each label id, or an empty name; None without names.

    Labels beyond the names in the files have empty names.
    """
    names, num_labels = inputs.runs[0].label_names, inputs.files.num_labels
    if names is None:
        return inputs.label_names
    if num_labels is None or num_labels <= len(names):
        return names
    return [*names, *[""] * (num_labels - len(names))]


def read_lines(path: str, axes: int = 1) -> list[str]:
    """Return the stripped lines of a text file, or the entries of an array.

    The array has at most ``axes`` axes.
    """
    file = check_file(path)
    if suffix_of(file) == "npy":
        array = load_array(file, "give whole numbers or names, [N].")
        if array.ndim not in range(1, axes + 1) or array.dtype.kind not in "biuU":
            raise CommandError(
                f"{path}: holds {array.dtype} {list(array.shape)}",
                "give whole numbers or names, [N].",
            )
        return list(map(str, array.ravel().tolist()))
    with file_errors(file, "text"):
        return [line.strip() for _, line in every_line(file)]


def names_a_file(value: str) -> bool:
    """Whether ``--row-groups`` or ``--clusters`` names a file, not a column."""
    return is_address(value) or Path(value).is_file()
