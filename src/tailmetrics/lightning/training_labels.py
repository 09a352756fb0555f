"""Training counts of the labels for the callback: given, loaded from a checkpoint, or counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from operator import length_hint
from pickle import UnpicklingError
from typing import Any, TypeAlias
from warnings import warn

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor
from torch.utils import data

from tailmetrics._arguments import INTEGERS, check_count, check_counts, shape_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.frequency import LabelFrequency
from tailmetrics.lightning.trainer import SamplerPadding, installed, outline, same_random_numbers, training_loaders

TargetPlace: TypeAlias = str | int | Callable[[Any], Any]
"""The place of the target in a training batch: a key, an index, or a function of the batch."""
SPARED = "pass label_counts= to leave this out"
EACH_ROW_ONCE = (data.SequentialSampler, data.RandomSampler, data.SubsetRandomSampler, data.DistributedSampler)
"""Samplers of torch that draw each row at most once per epoch, unless they draw with replacement."""
OF_ALL_ROWS = (data.SequentialSampler, data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
"""Samplers of torch that do not split the rows over processes: each process draws from all rows."""


FEW_DROPPED = 0.01
"""Largest share of rows that ``drop_last`` may leave out without a note: a decile then loses 1 % of its occurrences."""


class TrainingLabels:
    """The training counts of a callback: given by the user, loaded from a checkpoint, or counted.

    Args:
        collection: The metrics, which get their buckets and counts from the training counts.
        num_labels: L; None if the user does not give it.
        label_counts: Training counts, or the path of their file; None if the user gives none.
        num_train: Number of training rows behind ``label_counts``.
        train_target: The place of the target in a training batch.

    Attributes:
        frequency: The training counts; None until they are known.
        notes: Warnings about the counting, for the report.
    """

    def __init__(
        self,
        collection: TopKCollection,
        num_labels: int | None,
        label_counts: Any,
        num_train: int | None,
        train_target: Any,
    ) -> None:
        self.collection, self.num_labels, self.train_target = collection, num_labels, train_target
        self.frequency: LabelFrequency | None = None
        self.notes: tuple[str, ...] = ()
        self._counted = False
        self._saved: dict[str, Any] = {}
        for kind, number in {"num_labels": num_labels, "num_train": num_train}.items():
            if number is not None:
                check_count("HeadToTailReport", kind, number, minimum=0)
        if label_counts is not None:
            counts = _read(label_counts) if isinstance(label_counts, str) else label_counts
            counts = check_counts("HeadToTailReport", "label_counts", counts)
            if num_labels not in (None, len(counts)):
                raise ValueError(
                    f"HeadToTailReport: num_labels={num_labels}, but label_counts holds {len(counts)} counts; "
                    "pass one per label, and leave num_labels out."
                )
            self._adopt(counts, num_train)

    def ensure(self, trainer: Any, pl_module: Any, starts_fit: bool = False) -> bool:
        """Make sure that the metrics have their buckets and counts; return whether this call set the training counts.

        If the callback counted the labels before, it counts again when a fit starts: the fit may have other data.
        """
        again = starts_fit and self._counted
        if self._saved and self.frequency is None:
            counts = self._saved["label_counts"]
            number, source = next(self._stated(trainer, pl_module), (len(counts), ""))
            if number != len(counts):
                raise ValueError(
                    f"HeadToTailReport: the checkpoint holds training counts of {len(counts)} labels, but there are "
                    f"{number} by {source}; load the checkpoint with the model and data that it was made with, or "
                    "start without it."
                )
            self._adopt(counts, self._saved["num_train"])
            return True
        if not again and (self.frequency is not None or self.collection.is_bound):
            return False
        num_labels, source = next(self._stated(trainer, pl_module), (0, ""))
        if not source:
            raise ValueError(
                "HeadToTailReport: the number of labels is not known; pass num_labels=, or give the data module or "
                "the model an attribute num_labels."
            )
        counter, self.notes = self._count(trainer, pl_module, num_labels, source)
        self._adopt(counter.compute().reshape(-1).cpu(), counter.num_rows, again)
        self._counted = True
        for note in self.notes if trainer.is_global_zero else ():
            warn(f"HeadToTailReport: {note} label_counts= replaces what is counted.", stacklevel=2)
        return True

    def _adopt(self, counts: Tensor, num_rows: int | None, again: bool = False) -> None:
        self.frequency = frequency = LabelFrequency.from_counts(counts, num_rows or 0)
        if again or not self.collection.is_bound:
            # counts without num_train: deciles leave the number of rows open, while a LabelFrequency would say 0
            only_counts = not int(frequency.rows) and bool(frequency.counts.any())
            self.collection.bind(LabelBuckets.deciles(frequency.counts) if only_counts else frequency)

    # -- the number of labels -----------------------------------------------------------------------------------

    def _stated(self, trainer: Any, pl_module: Any) -> Iterator[tuple[int, str]]:
        """Yield each known number of labels with its source; the first one has precedence."""
        stated = [(self.num_labels, "num_labels")]
        members = self.collection.members().values()
        stated += [(metric.num_labels, f"num_labels of {type(metric).__name__}") for metric in members]
        owners = {"data module": getattr(trainer, "datamodule", None), "model": pl_module}
        owners["model's hparams"] = getattr(pl_module, "hparams", None)
        stated += [(getattr(owner, "num_labels", None), f"num_labels of the {name}") for name, owner in owners.items()]
        for number, source in stated:
            if number is not None:
                yield check_count("HeadToTailReport", source, number), source

    # -- checkpoints --------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, so that a resumed run does not count again."""
        if self.frequency is None:
            return self._saved
        return {"label_counts": self.frequency.counts.cpu(), "num_train": int(self.frequency.rows)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Store the counts of a checkpoint. :meth:`ensure` checks and uses them, unless counts are known already."""
        self._saved = {name: state[name] for name in ("label_counts", "num_train") if name in state}

    # -- counting -----------------------------------------------------------------------------------------------

    def _count(
        self, trainer: Any, pl_module: Any, num_labels: int, source: str
    ) -> tuple[LabelFrequency, tuple[str, ...]]:
        """Return how often each label occurs in one epoch of the training loaders, and warnings about the counting.

        Each process counts the rows of its loader, without the rows that a distributed sampler repeats. If a loader
        yields all rows in every process, only the first process counts them.
        """
        counter, notes = LabelFrequency(num_labels).to(pl_module.device), []
        members = self.collection.members().values()
        ignored = next(iter(members)).ignore_index  # equal in all members
        counts_rows = any("num_train" in metric.needs for metric in members)
        for loader in training_loaders(trainer, pl_module):
            padding, sampler = SamplerPadding(loader), _sampler(loader)
            length, limit = length_hint(loader, -1), trainer.limit_train_batches
            limit = int(max(length, 0) * limit) if isinstance(limit, float) else limit
            limited = bool(limit) and (length < 0 or limit < length)
            shown_by = [f"limit_train_batches={trainer.limit_train_batches}"] * (limited and not trainer.fast_dev_run)
            notes += [
                f"labels are counted over the rows that {one} shows: where it repeats some rows, or leaves some out, "
                "the label counts are not those of the data set."
                for one in [*shown_by, *_uneven_sampling(loader, sampler)]
            ]
            if trainer.world_size > 1 and padding.sampler is None:
                if type(sampler) not in OF_ALL_ROWS:
                    notes.append(
                        f"each of the {trainer.world_size} processes counted what its training loader yields; rows "
                        "that several of them yield are counted several times."
                    )
                elif trainer.global_rank > 0:
                    continue
            with same_random_numbers(loader):
                if trainer.world_size > 1:  # a random sampler then draws the same rows in each process
                    torch.manual_seed(0)
                for batch in _shown(loader, limit if limited else length, trainer):
                    target = _target(batch, self.train_target)
                    if target is None:
                        continue
                    try:
                        if padding.sampler is not None:
                            kept = padding.first_seen(len(target), "train_target", masked=False)
                            target = target if kept is None else target[kept.to(target.device)]
                        labels = _labels(target, counter.device)
                        if counts_rows and ignored is not None and labels.ndim == 2 and labels.dtype in INTEGERS:
                            raise ValueError(
                                f"the target {shape_of(labels)} may hold tokens, of which each is a row, or lists of "
                                "labels of one row, and metrics read the number of rows. Pass train_target=, a "
                                "function of the batch that returns tokens flattened, or lists padded with -1."
                            )
                        counter.update(labels, ignore_index=ignored)
                    except (TypeError, ValueError) as error:
                        what = f"counting training labels, with {num_labels} labels by {source}"
                        raise ValueError(f"HeadToTailReport: {what}: {error}") from error
        if not int(counter.rows) and trainer.world_size == 1:
            notes.append(
                "no training label was counted, so that every label is unseen: train_target returned None for each "
                "batch, or no batch has a target."
            )
        return counter, tuple(dict.fromkeys(notes))


def _read(path: str) -> Any:
    """Read a file that ``numpy.save`` or ``torch.save`` wrote."""
    try:
        return np.load(path) if path.endswith(".npy") else torch.load(path, weights_only=True)
    except (EOFError, RuntimeError, ValueError, UnpicklingError) as error:
        raise ValueError(
            f"HeadToTailReport: label_counts={path!r} is no file of an array or a tensor; pass the counts, or the path "
            "of a file that numpy.save (.npy) or torch.save wrote."
        ) from error


def _labels(target: Any, device: torch.device) -> Any:
    """Move a training target to the device; raise if it holds numbers between 0 and 1 (shares of labels)."""
    if not isinstance(target, Tensor):
        return target
    target = target.to(device)
    shares = target.values() if target.is_sparse_csr else target
    if target.is_floating_point() and bool(((shares > 0) & (shares < 1)).any()):
        raise ValueError(
            "the target holds numbers between 0 and 1, such as those of Mixup, CutMix and label smoothing, which "
            "do not say how often a label occurs; pass label_counts=, or train_target=, a function of the batch "
            "that returns the labels before they are mixed. Where each number above 0 is a label, it returns "
            "target > 0."
        )
    return target


def _sampler(loader: Any) -> Any:
    """Return the sampler or batch sampler of a loader; None for an iterable data set."""
    if isinstance(getattr(loader, "dataset", None), data.IterableDataset):
        return None
    batches = getattr(loader, "batch_sampler", None)
    sampler = batches.sampler if type(batches) is data.BatchSampler else batches
    return getattr(getattr(sampler, "dataset", None), "_sampler", sampler)  # inside Lightning's wrapper


def _uneven_sampling(loader: Any, sampler: Any) -> list[str]:
    """Return the names of samplers and settings by which an epoch of a loader may repeat rows or leave rows out."""
    known = sampler is None or (type(sampler) in EACH_ROW_ONCE and not getattr(sampler, "replacement", False))
    found, rows = [] if known else [type(sampler).__name__], getattr(loader, "dataset", None)
    while isinstance(rows, data.Subset):
        found += ["Subset"] * (len(set(rows.indices)) < len(rows.indices))
        rows = rows.dataset
    size, rows_shown = getattr(loader, "batch_size", None), length_hint(sampler, 0)
    dropped = rows_shown % size if size and getattr(loader, "drop_last", False) else 0
    return found + ["drop_last=True"] * (dropped > FEW_DROPPED * rows_shown)


def _shown(loader: Any, total: int, trainer: Any) -> Iterator[Any]:
    """Yield the first ``total`` batches, or all if ``total`` < 0; log the start, and show a progress bar."""
    number = "" if total < 0 else f" in {total:,} batches"
    import_module(f"{installed()[0]}.utilities").rank_zero_info(
        f"HeadToTailReport: counting the training labels{number}; {SPARED}."
    )
    console = Console(stderr=True)
    hidden = not (trainer.is_global_zero and trainer.progress_bar_callback is not None and console.is_terminal)
    limit, what = None if total < 0 else total, f"Counting training labels ({SPARED})"
    yield from track(islice(loader, limit), what, total=limit, console=console, transient=True, disable=hidden)


def _target(batch: Any, where: TargetPlace) -> Any:
    """Return the target of a training batch; None if ``where`` is a function that returns None."""
    if callable(where):
        return where(batch)
    try:
        pair = isinstance(where, str) and isinstance(batch, (tuple, list)) and len(batch) == 2
        return batch[1] if pair else batch[where]
    except (KeyError, IndexError, TypeError):
        raise ValueError(
            f"HeadToTailReport: train_target={where!r} is not in a training batch ({outline(batch)}); pass the key, "
            "the index or a function of the batch that gives the target, None for a batch without labels, or "
            "label_counts=."
        ) from None
