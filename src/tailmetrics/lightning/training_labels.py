"""How often each label occurs in training: given, taken from a checkpoint, or counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias
from warnings import warn

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from tailmetrics._checks import check_count, check_counts
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.frequency import LabelFrequency, frequency_of
from tailmetrics.lightning.trainer import Place, SamplerPadding, same_random_numbers, say, training_loaders
from tailmetrics.lightning.validation import outline

TargetPlace: TypeAlias = str | int | Callable[[Any], Any]
"""Where the target is in a training batch."""
SPARED = "pass label_counts= to leave this out"
OF_ALL_ROWS = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
"""Samplers of torch that know no processes: each process draws from all rows."""
EACH_ROW_ONCE = (SequentialSampler, RandomSampler, SubsetRandomSampler, DistributedSampler)
"""Samplers of torch that show a row once in an epoch, unless they draw with replacement."""


class TrainingLabels:
    """The training counts of a callback, and what they come from.

    Args:
        collection: Metrics that the counts complete.
        num_labels: L, if the user says so.
        label_counts: Counts, if the user gives them, or the path of a file of them.
        num_train: Number of training rows that go with them.
        train_target: Where the target is in a training batch.

    Attributes:
        frequency: The counts; None until they are known.
        notes: What is to be said of counts that were counted.
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
        self._source, self._counted = "", False
        self._saved: dict[str, Any] = {}
        if label_counts is not None:
            counts = _read(label_counts) if isinstance(label_counts, str) else label_counts
            counts = check_counts("HeadToTailReport", "label_counts", counts)
            if num_labels not in (None, len(counts)):
                raise ValueError(
                    f"HeadToTailReport: num_labels={num_labels}, but label_counts holds {len(counts)} counts; "
                    "pass one per label, and leave num_labels out."
                )
            self._adopt(counts, num_train, "label_counts")

    def ensure(self, trainer: Any, pl_module: Any, starts_fit: bool = False) -> bool:
        """Make sure that the metrics are bound; return whether they were bound anew.

        What was counted is counted again when a fit starts: it may have other data.
        """
        again = starts_fit and self._counted
        if not again and (self.frequency is not None or (self.collection.is_bound and not self._saved)):
            return False
        if self._saved and not again:
            counts, num_train = self._saved["label_counts"], self._saved["num_train"]
            number, source = next(self._stated(trainer, pl_module), (len(counts), ""))
            if number != len(counts):
                raise ValueError(_other_labels(len(counts), f"{source} is {number}"))
            self._saved = {}
            self._adopt(counts, num_train, "the checkpoint")
            return True
        stated = next(self._stated(trainer, pl_module), None)
        if stated is None:
            raise ValueError(
                "HeadToTailReport: the number of labels is not known; pass num_labels=, or give the data module or "
                "the model an attribute num_labels."
            )
        num_labels, source = stated
        loaders = training_loaders(trainer, pl_module)
        ignored = next(iter(self.collection.members().values())).ignore_index  # all members have the same
        counter, notes = count_labels(
            loaders, self.train_target, num_labels, source, ignored, trainer, pl_module.device
        )
        self._adopt(counter.compute().reshape(-1).cpu(), counter.num_rows, source, again)
        self.notes, self._counted = tuple(notes), True
        for note in notes if trainer.is_global_zero else ():
            warn(f"HeadToTailReport: {note} label_counts= replaces what is counted.", stacklevel=2)
        return True

    def _adopt(self, counts: Tensor, num_rows: int | None, source: str, again: bool = False) -> None:
        frequency = frequency_of(counts.to(torch.int64).reshape(-1), num_rows or 0)
        self.frequency, self._source = frequency, source
        if again or not self.collection.is_bound:
            # counts that were given without num_train: buckets know no number of rows, rather than none
            only_counts = not int(frequency.rows) and bool(frequency.counts.any())
            self.collection.bind(LabelBuckets.deciles(frequency.counts) if only_counts else frequency)

    # -- the number of labels -----------------------------------------------------------------------------------

    def _stated(self, trainer: Any, pl_module: Any) -> Iterator[tuple[int, str]]:
        """Yield every number of labels that is stated, with its source, the one that counts first."""
        stated = [(self.num_labels, "num_labels")]
        members = self.collection.members().values()
        stated += [(metric.num_labels, f"num_labels of {type(metric).__name__}") for metric in members]
        owners = {"data module": getattr(trainer, "datamodule", None), "model": pl_module}
        owners["model's hparams"] = getattr(pl_module, "hparams", None)
        stated += [(getattr(owner, "num_labels", None), f"num_labels of the {name}") for name, owner in owners.items()]
        for number, source in stated:
            if number is not None:
                yield check_count("HeadToTailReport", source, number), source

    def check_width(self, preds: Tensor) -> None:
        """Name what the number of labels came from where scores have another."""
        known = None if self.frequency is None else self.frequency.num_labels
        if known is not None and preds.ndim == 2 and preds.is_floating_point() and preds.shape[1] != known:
            raise ValueError(
                f"HeadToTailReport: preds has {preds.shape[1]} columns, but there are {known} labels by "
                f"{self._source}; pass scores of all labels, or the number that there is."
            )

    # -- checkpoints --------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, so that a resumed run does not count again."""
        if self.frequency is None:
            return self._saved
        return {"label_counts": self.frequency.counts.cpu(), "num_train": int(self.frequency.rows)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Keep the counts of a checkpoint until it is known who else states the number of labels.

        Where there are counts already, these stay: those of the checkpoint are compared with them.
        """
        if "label_counts" not in state:
            return
        if self.frequency is None:
            self._saved = {name: state[name] for name in ("label_counts", "num_train")}
            return
        saved, known = state["label_counts"], self.frequency.counts.cpu()
        if len(saved) != len(known):
            raise ValueError(_other_labels(len(saved), f"there are {len(known)} by {self._source}"))
        if not torch.equal(saved.cpu(), known):
            warn(
                "HeadToTailReport: the training counts of the checkpoint are not those that the callback has; it keeps "
                "its own, so that buckets may differ from those of the run that made the checkpoint.",
                stacklevel=2,
            )


def _read(path: str) -> Any:
    """Return the counts of a file."""
    try:
        return torch.load(path, weights_only=True)
    except Exception as error:  # whatever torch says of a file that is missing, or holds something else
        raise ValueError(
            f"HeadToTailReport: label_counts={path!r} cannot be read ({' '.join(str(error).split())[:100]}); save the "
            "counts with torch.save(counts, path), or pass the counts."
        ) from error


def _other_labels(saved: int, found: str) -> str:
    return (
        f"HeadToTailReport: the checkpoint holds training counts of {saved} labels, but {found}; load the checkpoint "
        "with the model and data that it was made with, or start without it."
    )


# -- counting -----------------------------------------------------------------------------------------------------


def count_labels(
    loaders: dict[Place, Any],
    train_target: Any,
    num_labels: int,
    source: str,
    ignored: int | None,
    trainer: Any,
    device: torch.device,
) -> tuple[LabelFrequency, list[str]]:
    """Return how often each label is in one epoch of the loaders, over all processes, and what there is to say of it.

    Each process counts what its loader yields, without the rows that a distributed sampler repeats. A loader that
    yields all rows in every process is counted by the first process alone.

    Args:
        loaders: The training loaders by place.
        train_target: Where the target is: for every loader, or in a dict or list of the loaders' shape.
        num_labels: L.
        source: What says so, for messages.
        ignored: The label of rows that do not count; None for no such label.
        trainer: The trainer.
        device: Where to count.
    """
    counter, notes = LabelFrequency(num_labels).to(device), []
    for place, loader in loaders.items():
        where = _at_place(train_target, place)
        if where is None:
            continue
        limit, note = _limit(loader, trainer)
        padding, of_all_rows = SamplerPadding(loader), _shows_all_rows(loader)
        notes += [note, _drawn(loader)]
        if trainer.world_size > 1 and padding.sampler is None:
            if not of_all_rows:
                notes.append(
                    f"each of the {trainer.world_size} processes counted what its training loader yields; rows that "
                    "several of them yield are counted several times."
                )
            elif trainer.global_rank > 0:
                continue
        with same_random_numbers(loader):
            if trainer.world_size > 1:  # a sampler that draws by chance draws alike in each process
                torch.manual_seed(0)
            for batch in _shown(loader, limit, trainer):
                target = _target(batch, where, place)
                try:
                    if padding.sampler is not None:
                        kept = padding.first_seen(len(target), "train_target", masked=False)
                        target = target if kept is None else target[kept.to(target.device)]
                    counter.update(*_labels(target, num_labels, ignored, device))
                except (TypeError, ValueError) as error:
                    what = f"{_named(place)}, with {num_labels} labels by {source}"
                    raise ValueError(f"HeadToTailReport: counting training labels{what}: {error}") from error
    return counter, list(dict.fromkeys(filter(None, notes)))


def _labels(target: Any, num_labels: int, ignored: int | None, device: torch.device) -> tuple[Any, Tensor | None]:
    """Return a training target as it is counted, and which of its rows count.

    Metrics with an ``ignore_index`` have one label in each row, so that each label of a training text is a row, too.
    """
    if not isinstance(target, Tensor):
        return target, None
    target = target.to(device)
    if target.is_floating_point():
        shares = target.values() if target.is_sparse_csr else target
        if bool(((shares > 0) & (shares < 1)).any()):
            raise ValueError(
                "the target holds numbers between 0 and 1, such as those of Mixup, CutMix and label smoothing, which "
                "do not say how often a label occurs; pass label_counts=, or train_target=, a function of the batch "
                "that returns the labels before they are mixed. Where each number above 0 is a label, it returns "
                "target > 0."
            )
    elif ignored is not None and target.dtype != torch.bool and (target.ndim < 2 or target.shape[1] != num_labels):
        target = target.reshape(-1)
        return target, target != ignored
    return target, None


def _drawn(loader: Any) -> str:
    """Return what to say of rows that an epoch may show more than once or not at all."""
    batches, data = getattr(loader, "batch_sampler", None), getattr(loader, "dataset", None)
    sampler = batches.sampler if type(batches) is BatchSampler else batches
    sampler = getattr(getattr(sampler, "dataset", None), "_sampler", sampler)  # Lightning shares it over processes
    if batches is None or isinstance(data, IterableDataset):  # no row has a number
        return ""
    doubtful = []
    if type(sampler) not in EACH_ROW_ONCE or getattr(sampler, "replacement", False):
        doubtful.append(sampler)
    while isinstance(data, Subset):
        if len(set(data.indices)) < len(data.indices):
            doubtful.append(data)
        data = data.dataset
    if not doubtful:
        return ""
    return (
        f"labels are counted over the rows that {type(doubtful[0]).__name__} shows: where it repeats some rows, or "
        "leaves some out, the label counts are not those of the data set."
    )


def _limit(loader: Any, trainer: Any) -> tuple[int | None, str]:
    """Return how many batches of a loader an epoch shows, None for all, and what to say of it."""
    limit: Any = trainer.limit_train_batches
    length = _length(loader)
    if isinstance(limit, float):
        limit = None if limit == 1.0 or length is None else int(length * limit)
    if not limit or (length is not None and limit >= length):
        return None, ""
    note = (
        f"labels are counted over the first {limit} batches, because limit_train_batches={trainer.limit_train_batches}."
    )
    return limit, "" if trainer.fast_dev_run else note


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None


def _shows_all_rows(loader: Any) -> bool:
    """Whether a loader yields the same rows in every process, in whatever order."""
    batches = getattr(loader, "batch_sampler", None)
    return isinstance(loader, DataLoader) and type(batches) is BatchSampler and type(batches.sampler) in OF_ALL_ROWS


def _shown(loader: Any, limit: int | None, trainer: Any) -> Iterator[Any]:
    """Yield the batches; say at the start what is done, and show on a terminal how far it is."""
    total = _length(loader) if limit is None else limit
    number = "" if total is None else f" in {total:,} batches"
    say(f"HeadToTailReport: counting the training labels{number}; {SPARED}.")
    console = Console(stderr=True)
    hidden = not (trainer.is_global_zero and trainer.progress_bar_callback is not None and console.is_terminal)
    batches, what = islice(loader, limit), f"Counting training labels ({SPARED})"
    yield from track(batches, what, total=total, console=console, transient=True, disable=hidden)


def _target(batch: Any, where: TargetPlace, place: Place) -> Any:
    """Return the target of a training batch."""
    held = f"a training batch{_named(place)} ({outline(batch)})"
    if callable(where):
        try:
            return where(batch)
        except Exception as error:
            raise ValueError(
                f"HeadToTailReport: the function train_target failed on {held}: {type(error).__name__}: {error}; it "
                "takes a batch of one loader and returns the target."
            ) from error
    try:
        pair = isinstance(where, str) and isinstance(batch, (tuple, list)) and len(batch) == 2
        return batch[1] if pair else batch[where]
    except (KeyError, IndexError, TypeError):
        raise ValueError(
            f"HeadToTailReport: train_target={where!r} is not in {held}; pass the key, the index or a function of the "
            "batch that gives the target, a dict or list of them for a dict or list of loaders, or label_counts=."
        ) from None


def _at_place(values: Any, place: Place) -> Any:
    """Return what ``values`` has for a loader: itself, or the entry of a dict or list that has the loaders' shape."""
    for key in place:
        if not isinstance(values, (Mapping, list, tuple)):
            break
        try:
            values = values[key]
        except (KeyError, IndexError):
            raise ValueError(
                f"HeadToTailReport: train_target has no target{_named(place)}; give it a key, "
                "an index or a function for each loader, None for one without labels."
            ) from None
    return values


def _named(place: Place) -> str:
    """Return which loader it is, such as `` of the loader ['a'][0]``; nothing where there is only one."""
    return f" of the loader {''.join(f'[{key!r}]' for key in place)}" if place else ""
