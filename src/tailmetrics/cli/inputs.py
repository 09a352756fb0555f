"""From the options to open files: label ids and the number of labels that all of them agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tailmetrics.cli.errors import CommandError
from tailmetrics.cli.options import DataOptions
from tailmetrics.cli.ranks import Ranks
from tailmetrics.io import Dataset, TargetDataset, read, read_label_counts, read_label_names, read_target
from tailmetrics.io.csv_file import CsvFile
from tailmetrics.io.formats import format_of
from tailmetrics.io.names import ordered


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


def open_inputs(preds: Sequence[str], options: DataOptions, ranks: Ranks) -> Inputs:
    """Open everything; every rank finds the same label ids, the same number of labels and the same errors."""
    if options.target is None:
        raise CommandError("there are no targets", "add --target FILE.")
    if options.train_target is not None and options.label_counts is not None:
        hint = "give the training targets to count them, or the counts."
        raise CommandError("both --train-target and --label-counts are given", hint)
    files = _Files(options, options.target, _label_names(preds, options), ranks)
    counts = files.counts()
    num_labels = options.num_labels if counts is None else len(counts)
    train = files.train(num_labels)
    num_labels = num_labels if train is None else train.num_labels
    runs = [files.run(path, num_labels) for path in preds]
    num_labels = num_labels or runs[0].num_labels
    if train is not None and train.num_labels is None:
        train = files.train(_known(num_labels))
    return Inputs(runs, train, counts, options.num_train, num_labels)


class _Files:
    """The files of the options, to be opened alike."""

    def __init__(self, options: DataOptions, target: str, names: Sequence[str] | None, ranks: Ranks) -> None:
        self._options = options
        self._target = target
        self._names = names
        self._alike: dict[str, Any] = {
            "rank": ranks.rank,
            "world_size": ranks.world_size,
            "batch_rows": options.batch_rows,
            "format": options.format,
            "columns": options.columns,
            "string_ids": options.string_ids,
            "label_names": names,
        }

    def counts(self) -> Tensor | None:
        options = self._options
        if options.label_counts is None:
            return None
        return read_label_counts(options.label_counts, num_labels=options.num_labels, label_names=self._names)

    def train(self, num_labels: int | None) -> TargetDataset | None:
        path = self._options.train_target
        return None if path is None else read_target(path, num_labels=num_labels, **self._alike)

    def run(self, preds: str, num_labels: int | None) -> Dataset:
        options = self._options
        more = {"filter": options.filter, "missing": options.missing, "num_labels": num_labels}
        return read(preds, self._target, **more, **self._alike)  # type: ignore[arg-type] # checked by the parser


def _known(num_labels: int | None) -> int:
    if num_labels is None:
        hint = "add --num-labels, which counting training labels needs."
        raise CommandError("the number of labels is not known: no file declares it", hint)
    return num_labels


def _label_names(preds: Sequence[str], options: DataOptions) -> tuple[str, ...] | None:
    """Return the names of all labels, if they are names and more files than one run and its targets hold them."""
    paths = [*preds, options.target, *([options.train_target] if options.train_target is not None else [])]
    if len(paths) == 2 and options.label_counts is None:
        return None
    files = [path for path in paths if path is not None]
    names = read_label_names(*files, format=options.format, columns=options.columns)
    if names is None or options.label_counts is None:
        return names
    forms = {format_of("evaluate", path, options.format) for path in files}
    return tuple(ordered({*names, *_counted_names(options.label_counts)}, descending="trec" in forms))


def _counted_names(path: str) -> set[str]:
    """Return the labels that a CSV file of training counts names: most of them may occur nowhere else."""
    delimiter = {".csv": ",", ".tsv": "\t"}.get(Path(path).suffix.lower())
    if delimiter is None or not Path(path).is_file():
        return set()
    file = CsvFile(Path(path), delimiter)
    if "label" not in file.header:
        return set()
    return {name for _, columns in file.blocks(["label"]) for name in columns[0].unique().to_pylist()}
