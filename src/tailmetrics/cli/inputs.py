"""From the options to open files: label ids and the number of labels that all of them agree on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tailmetrics.cli.errors import CommandError
from tailmetrics.cli.options import DataOptions
from tailmetrics.cli.progress import watched
from tailmetrics.cli.ranks import Ranks
from tailmetrics.cli.row_groups import names_a_file
from tailmetrics.io import DataFileError, Dataset, TargetDataset, read, read_label_counts, read_label_names, read_target
from tailmetrics.io.counts import counted_names
from tailmetrics.io.files import find, is_address


@dataclass(frozen=True)
class Inputs:
    """The files of an evaluation, open.

    Attributes:
        runs: This rank's share of the predictions of each run with their targets.
        train: This rank's share of the training targets.
        counts: Training counts, if a file gives them.
        num_train: Number of training rows, if given.
        num_labels: Number of labels; None when nothing tells.
    """

    runs: list[Dataset]
    train: TargetDataset | None
    counts: Tensor | None
    num_train: int | None
    num_labels: int | None

    @property
    def facts(self) -> dict[str, Any]:
        """What every rank has to have found, by what it is called."""
        rows = {f"rows of {run.preds.path}": run.num_rows for run in self.runs}
        train = {} if self.train is None else {f"rows of {self.train.target.path}": self.train.num_rows}
        return {**rows, **train, "number of labels": self.num_labels}


def paths_of(preds: Sequence[str], options: DataOptions) -> list[str]:
    """Return every file that is going to be read."""
    more = (options.target, options.train_target, options.label_counts, options.filter)
    groups = options.row_groups
    files = [groups] if groups is not None and names_a_file(groups) else []
    return [*preds, *(path for path in more if path is not None), *files]


def local_files(paths: Iterable[str]) -> list[Path]:
    """Return the files of this machine that paths, folders and patterns name; the path itself where none is found."""
    found: list[Path] = []
    for path in paths:
        try:
            found += [part.path for part in find(path).parts if isinstance(part.path, Path)]
        except DataFileError:
            found += [] if is_address(path) else [Path(path)]  # what is wrong with it is said when it is read
    return found


def open_inputs(preds: Sequence[str], options: DataOptions, ranks: Ranks) -> Inputs:
    """Open everything; every rank finds the same label ids, the same number of labels and the same errors."""
    if options.target is None:
        raise CommandError("there are no targets", "add --target FILE.")
    if options.train_target is not None and options.label_counts is not None:
        hint = "give the training targets to count them, or the counts."
        raise CommandError("both --train-target and --label-counts are given", hint)
    with watched(ranks):
        return _opened(preds, options, options.target, ranks)


def _opened(preds: Sequence[str], options: DataOptions, target: str, ranks: Ranks) -> Inputs:
    counts, names = _counts_and_names(preds, options)
    files = _Files(options, target, names, ranks)
    num_labels = options.num_labels if counts is None else len(counts)
    train = files.train(num_labels)
    num_labels = num_labels if train is None else train.num_labels
    runs = [files.run(path, num_labels) for path in preds]
    num_labels = num_labels or runs[0].num_labels
    if train is not None and train.num_labels is None:
        train = files.train(_known(num_labels))
    return Inputs(runs, train, counts, options.num_train, num_labels)


@dataclass(frozen=True)
class Share:
    """What opens one share of the rows where it is evaluated, on any machine that sees the files.

    Attributes:
        preds: Predictions.
        options: The other files.
        names: Names of all labels, if they are names.
        num_labels: Number of labels; None when nothing tells.
    """

    preds: str
    options: DataOptions
    names: Sequence[str] | None
    num_labels: int | None

    def rows(self, ranks: Ranks) -> Dataset:
        """Open predictions with their targets."""
        return self._files(ranks).run(self.preds, self.num_labels)

    def train(self, ranks: Ranks) -> TargetDataset:
        """Open training targets."""
        opened = self._files(ranks).train(self.num_labels)
        assert opened is not None
        return opened

    def _files(self, ranks: Ranks) -> _Files:
        return _Files(self.options, str(self.options.target), self.names, ranks)


class _Files:
    """The files of the options, to be opened alike."""

    def __init__(self, options: DataOptions, target: str, names: Sequence[str] | None, ranks: Ranks) -> None:
        self._options = options
        self._target = target
        self._alike: dict[str, Any] = {
            "rank": ranks.rank,
            "world_size": ranks.world_size,
            "batch_rows": options.batch_rows,
            "format": options.format,
            "columns": options.columns,
            "string_ids": options.string_ids,
            "label_names": names,
            "memory": options.memory,
        }

    def train(self, num_labels: int | None) -> TargetDataset | None:
        path = self._options.train_target
        if path is None:
            return None
        return read_target(path, num_labels=num_labels, min_gain=self._options.train_min_gain, **self._alike)

    def run(self, preds: str, num_labels: int | None) -> Dataset:
        options = self._options
        more = {name: getattr(options, name) for name in ("filter", "missing", "duplicates", "cut")}
        alike = self._alike | {
            "format": (options.preds_format or options.format, options.format),
            "columns": (options.preds_columns or options.columns, options.columns),
        }
        return read(preds, self._target, num_labels=num_labels, **more, **alike)


def _known(num_labels: int | None) -> int:
    if num_labels is None:
        hint = "add --num-labels, which counting training labels needs."
        raise CommandError("the number of labels is not known: no file declares it", hint)
    return num_labels


def _counts_and_names(preds: Sequence[str], options: DataOptions) -> tuple[Tensor | None, Sequence[str] | None]:
    """Return the training counts, if a file gives them, and the names of all labels, if they are names.

    Raises:
        CommandError: If labels are names, but the counts stand in the order of label ids that nobody has seen.
    """
    path = options.label_counts
    counted = None if path is None else counted_names(path)
    counts = None if path is None or counted is not None else read_label_counts(path, num_labels=options.num_labels)
    num_labels = options.num_labels if counts is None else len(counts)
    names = _label_names(preds, options, num_labels, counted)
    if path is None:
        return None, names
    if counts is None:
        return read_label_counts(path, num_labels=num_labels, label_names=names), names
    if names is not None:
        problem = f"{path}: holds counts in the order of label ids, but the labels are names, such as {names[0]!r}"
        raise CommandError(problem, "write the counts as CSV with the columns label and count, or give --train-target.")
    return counts, None


def _label_names(
    preds: Sequence[str], options: DataOptions, num_labels: int | None, counted: set[str] | None
) -> Sequence[str] | None:
    """Return the names of all labels, if they are names and more files than one run and its targets hold them."""
    paths = [*preds, options.target, *([] if options.train_target is None else [options.train_target])]
    if len(paths) == 2 and options.label_counts is None:
        return None
    more = len(paths) - len(preds)
    return read_label_names(
        *(path for path in paths if path is not None),
        format=[*[options.preds_format or options.format] * len(preds), *[options.format] * more],
        columns=[*[options.preds_columns or options.columns] * len(preds), *[options.columns] * more],
        string_ids=options.string_ids,
        num_labels=num_labels,
        more=counted or (),
        memory=options.memory,
    )
