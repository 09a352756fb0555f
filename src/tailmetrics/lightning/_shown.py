"""Which rows a loader shows in training, and this process's share of them: each row once over all processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from tailmetrics.lightning._index_batches import each_once, one_pass


@dataclass(frozen=True)
class Share:
    """What one process reads to count labels.

    Attributes:
        batches: The batches.
        number: How many there are, None if that is not known.
        note: Where what is counted is not simply what is shown; empty if there is nothing to say.
    """

    batches: Iterable[Any]
    number: int | None
    note: str = ""


@dataclass(frozen=True)
class _Rows:
    """Rows that are known without running a sampler, the same on all processes."""

    rows: Sequence[int]
    note: str = ""


def share_of(loader: Any, trainer: Any, device: torch.device | str) -> Share:
    """Return this process's share of the rows that ``loader`` shows, read by the loader's own workers.

    A sampler that draws from a data set, by chance or in order, shows the data set. ``SubsetRandomSampler`` shows its
    indices. Any other sampler or batch sampler shows what one pass over it gives. What is no ``DataLoader`` over a
    data set with numbered rows is read as it is, on every process.
    """
    limit, note = _limit(loader, trainer)
    if not _has_numbered_rows(loader):
        return _as_it_is(loader, limit, note)
    sampler = _sampler_of(loader)
    known = None if trainer.fast_dev_run else _rows_of(sampler, limit, loader)
    if known is not None:
        mine = known.rows[trainer.global_rank :: trainer.world_size]
        size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
        batches: Any = BatchSampler(mine, size if isinstance(size, int) else 256, drop_last=False)
        return Share(_reader(loader, batches), len(batches), "; ".join(filter(None, (known.note, note))))
    honoured = limit if trainer.fast_dev_run or _is_in_order(sampler) else None
    passed = one_pass(loader.batch_sampler, honoured, sampler)
    if passed is None:
        return _as_it_is(loader, limit, note)
    batches = each_once(passed, len(loader.dataset), trainer, device)
    return Share(_reader(loader, batches), len(batches), "" if honoured == limit else note)


def _as_it_is(loader: Any, limit: int | None, note: str) -> Share:
    return Share(islice(loader, limit), _length(loader, limit), note if limit is None else "")


def _limit(loader: Any, trainer: Any) -> tuple[int | None, str]:
    """Return how many batches of the loader are shown, None for all, and what to say where that is not honoured."""
    limit, batches = trainer.limit_train_batches, _length(loader, None)
    if isinstance(limit, float):
        limit = None if limit == 1.0 or batches is None else int(batches * limit)
    if limit is None or (batches is not None and limit >= batches):
        return None, ""
    if trainer.fast_dev_run:
        return limit, ""
    in_fit = trainer.train_dataloader is not None and limit > 0
    return (limit if in_fit else None), (
        f"limit_train_batches={trainer.limit_train_batches} shows fewer training rows; labels are counted over all "
        "that the loader draws from"
    )


def _length(loader: Any, limit: int | None) -> int | None:
    try:
        return len(loader) if limit is None else min(len(loader), limit)
    except TypeError:
        return limit


def _has_numbered_rows(loader: Any) -> bool:
    """Whether rows can be read by number, as the loader itself would read them."""
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and not isinstance(loader.dataset, IterableDataset)
        and loader.batch_sampler is not None
    )


def _sampler_of(loader: DataLoader[Any]) -> Any:
    """Return the sampler behind the batches; that within Lightning's wrapper; a batch sampler of another kind."""
    sampler: Any = loader.batch_sampler
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    if isinstance(sampler, DistributedSampler) and type(sampler) is not DistributedSampler:
        return getattr(sampler.dataset, "_sampler", sampler)
    return sampler


def _rows_of(sampler: Any, limit: int | None, loader: DataLoader[Any]) -> _Rows | None:
    """Return the rows that a sampler of torch draws from; None where only a pass over it tells."""
    if _is(sampler, WeightedRandomSampler):
        rows = len(sampler.weights)
        note = f"WeightedRandomSampler shows some rows more often; labels are counted over its {rows:,} rows, each once"
        return _Rows(range(rows), note)
    if _is(sampler, SubsetRandomSampler):
        return _Rows(sorted({int(row) for row in sampler.indices}))
    if _is(sampler, RandomSampler):
        return _Rows(range(len(sampler.data_source)))
    whole = limit is None and not getattr(loader.batch_sampler, "drop_last", False)
    if _is(sampler, DistributedSampler) and (sampler.shuffle or whole):
        return _Rows(range(len(sampler.dataset)))
    if _is(sampler, SequentialSampler) and whole:
        return _Rows(range(len(sampler.data_source)))
    if _has_no_length(sampler):
        rows = len(loader.dataset)  # type: ignore[arg-type] # rows are numbered
        note = f"{type(sampler).__name__} has no length; labels are counted over the {rows:,} rows of the data set"
        return _Rows(range(rows), note)
    return None


def _is(sampler: Any, kind: type) -> bool:
    """Whether a sampler is of a kind, and draws as that kind does."""
    return isinstance(sampler, kind) and type(sampler).__iter__ is kind.__iter__  # type: ignore[attr-defined]


def _is_in_order(sampler: Any) -> bool:
    """Whether every pass over a sampler shows the same rows first."""
    return _is(sampler, SequentialSampler) or (_is(sampler, DistributedSampler) and not sampler.shuffle)


def _has_no_length(sampler: Any) -> bool:
    try:
        return len(sampler) < 0
    except (TypeError, NotImplementedError):
        return True


def _reader(loader: DataLoader[Any], batches: Iterable[Sequence[int]]) -> DataLoader[Any]:
    """Return a loader of other batches of the same rows, with the same workers."""
    return DataLoader(
        loader.dataset,
        batch_sampler=batches,  # type: ignore[arg-type] # any iterable of batches
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        timeout=loader.timeout,
        generator=torch.Generator(),  # the seed of the workers: not out of the random numbers of the run
    )
