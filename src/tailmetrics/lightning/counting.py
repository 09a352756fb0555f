"""Count how often each label occurs in the batches of the training loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from math import inf
from operator import length_hint
from typing import Any, TypeAlias

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor
from torch.utils import data

from tailmetrics._arguments import INTEGERS, shape_of
from tailmetrics.collection import TopKCollection
from tailmetrics.frequency import LabelFrequency
from tailmetrics.lightning.split_rows import SamplerPadding
from tailmetrics.lightning.trainer import (
    installed,
    outline,
    same_random_numbers,
    training_loaders,
)
from tailmetrics.ranking._orders import repeats_previous

TargetPlace: TypeAlias = str | int | Callable[[Any], Any]
"""Place of the target in a training batch: a key, an index or a function."""
WITHOUT_COUNTING = "pass label_counts= to leave this out"
SAMPLERS_OF_EACH_ROW_ONCE = (
    data.SequentialSampler,
    data.RandomSampler,
    data.SubsetRandomSampler,
    data.DistributedSampler,
)
"""Samplers of torch that draw each row at most once per epoch without replacement."""
SAMPLERS_OF_ALL_ROWS = (
    data.SequentialSampler,
    data.RandomSampler,
    data.SubsetRandomSampler,
    data.WeightedRandomSampler,
)
"""Samplers of torch with which each process draws from all rows."""
FEW_DROPPED = 0.01
"""Largest share of rows that ``drop_last`` may leave out without a note.

A decile then loses 1 % of its occurrences.
"""


def count_labels(
    trainer: Any,
    pl_module: Any,
    collection: TopKCollection,
    num_labels: int,
    num_labels_source: str,
    train_target: TargetPlace,
) -> tuple[LabelFrequency, tuple[str, ...]]:
    """Return how often each label occurs in one training epoch, and notes about it.

    Each process counts the rows of its loader, without the rows that a distributed
    sampler repeats. If a loader yields all rows in every process, only the first
    process counts them.

    Args:
        trainer: The Trainer.
        pl_module: The model.
        collection: The metrics; they say which label is ignored.
        num_labels: L.
        num_labels_source: Where L comes from, for errors.
        train_target: The place of the target in a training batch.

    Raises:
        ValueError: If a loader might never end, before any row is read; or if the
            target of a batch cannot be counted.
    """
    loaders = [
        CountedLoader(loader, trainer, pl_module)
        for loader in training_loaders(trainer, pl_module)
    ]
    counter = LabelFrequency(num_labels).to(pl_module.device)
    notes: list[str] = []
    for loader in loaders:
        notes += loader.notes()
        if not loader.is_counted_here:
            continue
        for batch in loader.batches():
            target = target_of(batch, train_target)
            if target is None:
                continue
            try:
                _add_target(counter, loader.without_repeated_rows(target), collection)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"HeadToTailReport: counting training labels, with {num_labels} "
                    f"labels by {num_labels_source}: {error}"
                ) from error

    if trainer.world_size == 1 and not int(counter.rows):
        notes.append(
            "no training label was counted, so that every label is unseen: "
            "train_target returned None for each batch, or no batch has a target."
        )
    return counter, tuple(dict.fromkeys(notes))


# -- how many batches of which loader --------------------------------------------------


class CountedLoader:
    """A training loader, and how many of its batches are counted.

    Args:
        loader: The loader.
        trainer: The Trainer.
        pl_module: The model.

    Attributes:
        num_batches: The number of batches to count; None for all until the loader ends.
        limited_by: What keeps training from reading the whole loader, such as
            ``limit_train_batches=2``; None if nothing does.

    Raises:
        ValueError: If the loader might never end, or can be read only once.
    """

    def __init__(self, loader: Any, trainer: Any, pl_module: Any) -> None:
        if isinstance(loader, Iterator):
            raise ValueError(
                f"HeadToTailReport: the training loader is a {type(loader).__name__}, "
                "which can be read only once, so that counting its labels would leave "
                "nothing to train on; pass label_counts=, or a loader that begins "
                "anew with each epoch."
            )
        self.loader = loader
        self.padding = SamplerPadding(loader)
        self.sampler = _sampler(loader)
        self._trainer = trainer
        self.num_batches: int | None = None
        self.limited_by: str | None = None

        length = length_hint(loader, -1)
        if length >= 0:
            self._limit_known_length(length)
        else:
            self._limit_unknown_length(pl_module)

    def _limit_known_length(self, length: int) -> None:
        self.num_batches = length
        limit = self._trainer.limit_train_batches
        batches = int(length * limit) if isinstance(limit, float) else limit
        if 0 < batches < length:
            self.num_batches = batches
            self.limited_by = f"limit_train_batches={limit}"

    def _limit_unknown_length(self, pl_module: Any) -> None:
        """Count at most as many batches as training will read."""
        trainer = self._trainer
        is_fit = trainer.state.fn == "fit"
        limits: dict[str, float] = {}
        if isinstance(trainer.limit_train_batches, int):
            limits[f"limit_train_batches={trainer.limit_train_batches}"] = (
                trainer.limit_train_batches or inf
            )
        if is_fit:
            limits["the CombinedLoader of several loaders"] = (
                trainer.num_training_batches
            )
        if is_fit and trainer.max_steps > 0 and pl_module.automatic_optimization:
            steps = max(trainer.max_steps - trainer.global_step, 0)
            limits[f"max_steps={trainer.max_steps}"] = (
                steps * trainer.accumulate_grad_batches
            )

        least = min(limits, key=limits.__getitem__, default=None)
        if least is not None and limits[least] < inf:
            self.num_batches = int(limits[least])
            self.limited_by = least
        elif not (is_fit and _reads_whole_epochs(trainer)):
            raise ValueError(
                "HeadToTailReport: the training loader has no length, and the Trainer "
                "does not say how many batches training reads of it, so that counting "
                "its labels might never end. Pass label_counts= to the callback; or "
                "limit_train_batches= (or max_steps= without max_time=) to the "
                "Trainer, which bounds what is read for the labels that train_target= "
                "names."
            )

    @property
    def is_counted_here(self) -> bool:
        """Whether this process counts the rows of the loader.

        If a loader yields all rows in every process, only the first one counts.
        """
        yields_all_rows = (
            self.padding.sampler is None and type(self.sampler) in SAMPLERS_OF_ALL_ROWS
        )
        return self._trainer.global_rank == 0 or not yields_all_rows

    def notes(self) -> list[str]:
        """Return why the counts may not be those of the data set."""
        causes = uneven_sampling(self.loader, self.sampler)
        if self.limited_by is not None and not self._trainer.fast_dev_run:
            causes.insert(0, self.limited_by)

        notes = []
        for cause in causes:
            notes.append(
                f"labels are counted over the rows that {cause} shows: where it "
                "repeats some rows, or leaves some out, the label counts are not "
                "those of the data set."
            )
        is_split = (
            self.padding.sampler is not None
            or type(self.sampler) in SAMPLERS_OF_ALL_ROWS
        )
        if self._trainer.world_size > 1 and not is_split:
            notes.append(
                f"each of the {self._trainer.world_size} processes counted what its "
                "training loader yields; rows that several of them yield are counted "
                "several times."
            )
        return notes

    def batches(self) -> Iterator[Any]:
        """Yield the batches to count, and restore random states at the end.

        The start is logged, and a progress bar is shown.
        """
        with same_random_numbers(self.loader):
            if self._trainer.world_size > 1:
                # a random sampler then draws the same rows in each process
                torch.manual_seed(0)
            yield from _with_progress(self.loader, self.num_batches, self._trainer)

    def without_repeated_rows(self, target: Any) -> Any:
        """Return the next target without rows that a distributed sampler repeats."""
        if self.padding.sampler is None:
            return target
        is_first = self.padding.first_seen(len(target), "train_target", masked=False)
        if is_first is None:
            return target
        return target[is_first.to(target.device)]


def _reads_whole_epochs(trainer: Any) -> bool:
    """Return whether training reads all of each epoch: nothing ends an epoch early."""
    if trainer.max_steps != -1 or trainer.max_epochs in (None, -1):
        return False
    timers = tuple(
        import_module(f"{package}.callbacks").Timer for package in installed()
    )
    if any(isinstance(callback, timers) for callback in trainer.callbacks):
        return False
    stops_within_epochs = (
        trainer.early_stopping_callbacks and trainer.val_check_batch != inf
    )
    return not stops_within_epochs


def _sampler(loader: Any) -> Any:
    """Return the sampler or batch sampler of a loader; None for iterable data sets."""
    if isinstance(getattr(loader, "dataset", None), data.IterableDataset):
        return None
    sampler = getattr(loader, "batch_sampler", None)
    if type(sampler) is data.BatchSampler:
        sampler = sampler.sampler
    # Lightning wraps a sampler to split it over processes
    wrapper_data = getattr(sampler, "dataset", None)
    return getattr(wrapper_data, "_sampler", sampler)


def uneven_sampling(loader: Any, sampler: Any) -> list[str]:
    """Return the names of samplers and settings that may repeat or omit rows."""
    causes = []
    draws_with_replacement = getattr(sampler, "replacement", False)
    if sampler is not None and (
        type(sampler) not in SAMPLERS_OF_EACH_ROW_ONCE or draws_with_replacement
    ):
        causes.append(type(sampler).__name__)

    rows = getattr(loader, "dataset", None)
    while isinstance(rows, data.Subset):
        if len(set(rows.indices)) < len(rows.indices):
            causes.append("Subset")
        rows = rows.dataset

    batch_size = getattr(loader, "batch_size", None)
    if batch_size and getattr(loader, "drop_last", False):
        num_rows = length_hint(sampler, 0)
        if num_rows % batch_size > FEW_DROPPED * num_rows:
            causes.append("drop_last=True")
    return causes


def _with_progress(loader: Any, num_batches: int | None, trainer: Any) -> Iterator[Any]:
    """Log the start, and yield the first batches, all if None, with a progress bar."""
    number = "" if num_batches is None else f" in {num_batches:,} batches"
    import_module(f"{installed()[0]}.utilities").rank_zero_info(
        f"HeadToTailReport: counting the training labels{number}; {WITHOUT_COUNTING}."
    )
    console = Console(stderr=True)
    is_shown = (
        trainer.is_global_zero
        and trainer.progress_bar_callback is not None
        and console.is_terminal
    )
    yield from track(
        islice(loader, num_batches),
        f"Counting training labels ({WITHOUT_COUNTING})",
        total=num_batches,
        console=console,
        transient=True,
        disable=not is_shown,
    )


# -- the labels of a batch -------------------------------------------------------------


def target_of(batch: Any, place: TargetPlace) -> Any:
    """Return the target of a training batch; None if ``place`` returns None."""
    if callable(place):
        return place(batch)
    is_pair = isinstance(batch, (tuple, list)) and len(batch) == 2
    try:
        if is_pair and isinstance(place, str):
            return batch[1]
        return batch[place]
    except (KeyError, IndexError, TypeError):
        raise ValueError(
            f"HeadToTailReport: train_target={place!r} is not in a training batch "
            f"({outline(batch)}); pass the key, the index or a function of the batch "
            "that gives the target, None for a batch without labels, or label_counts=."
        ) from None


def _add_target(
    counter: LabelFrequency, target: Any, collection: TopKCollection
) -> None:
    """Count the labels of a target as the metrics read them."""
    members = list(collection.members().values())
    ignore_index = members[0].ignore_index  # equal in all members
    counts_rows = any("num_train" in metric.needs for metric in members)
    if isinstance(target, Tensor):
        target = target.to(counter.device)
        _check_no_shares(target)

    if counts_rows and _may_be_tokens(target, counter.num_labels, ignore_index):
        raise ValueError(
            f"the target {shape_of(target)} may hold tokens, of which each is a row, "
            "or lists of labels of one row, and metrics read the number of rows. Pass "
            "train_target=, a function of the batch that returns tokens flattened, or "
            "lists padded with -1."
        )
    counter.update(target, ignore_index=ignore_index)


def _may_be_tokens(target: Any, num_labels: int, ignore_index: int | None) -> bool:
    """Whether a target of label ids may hold tokens instead of lists of labels.

    ``ignore_index`` pads both, and only tokens repeat a label in a row.
    """
    if (
        not isinstance(target, Tensor)
        or target.ndim != 2
        or target.dtype not in INTEGERS
        or target.is_sparse_csr
    ):
        return False
    if ignore_index is not None:
        return True
    if target.shape[1] == num_labels:  # a matrix, or refused by the counter
        return False
    return bool(repeats_previous(target.sort(dim=1).values).any())


def _check_no_shares(target: Tensor) -> None:
    """Raise if a target holds numbers between 0 and 1, which are shares of labels."""
    shares = target.values() if target.is_sparse_csr else target
    if shares.is_floating_point() and bool(((shares > 0) & (shares < 1)).any()):
        raise ValueError(
            "the target holds numbers between 0 and 1, such as those of Mixup, CutMix "
            "and label smoothing, which do not say how often a label occurs; pass "
            "label_counts=, or train_target=, a function of the batch that returns the "
            "labels before they are mixed. Where each number above 0 is a label, it "
            "returns target > 0."
        )
