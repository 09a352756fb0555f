"""Values into Lightning's log, without a collective and without a read of the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tailmetrics.collection import TopKCollection


class _Name(str):
    """A name that Lightning logs as it is.

    Lightning before 2.6 refuses names that hold "/dataloader_idx_", also where it is told to add none itself.
    """

    __slots__ = ()

    def __contains__(self, part: str) -> bool:  # type: ignore[override] # as str has it
        return part != "/dataloader_idx_" and super().__contains__(part)


def log_values(pl_module: Any, values: Mapping[str, float]) -> None:
    """Log values that all processes have alike.

    They are tensors on the CPU, where reading them makes no device wait. ``sync_dist`` with ``rank_zero_only`` is how
    Lightning is told that there is nothing to reduce, and nothing to warn of; the maximum of one value is that value,
    where a mean would divide.
    """
    numbers = torch.tensor(list(values.values()), dtype=torch.float32)
    logged = {_Name(name): number for name, number in zip(values, numbers, strict=True)}
    pl_module.log_dict(logged, sync_dist=True, rank_zero_only=True, reduce_fx="max", add_dataloader_idx=False)


def apart(values: Mapping[str, float], loggers: Sequence[Any]) -> Mapping[str, float]:
    """Return values under names of which none is a folder of another, where a logger keeps a file for each name.

    MLflow's file store does: ``val/recall@10`` beside ``val/recall@10/decile_1`` is then ``val/recall@10/all``.
    """
    if not any(map(_keeps_a_file_for_each_name, loggers)):
        return values
    folders = {name[:end] for name in values for end in range(len(name)) if name[end] == "/"}
    return {f"{name}/all" if name in folders else name: value for name, value in values.items()}


def _keeps_a_file_for_each_name(logger: Any) -> bool:
    """Whether this is MLflow with a file store: its logger has a run and a local folder."""
    return hasattr(logger, "run_id") and getattr(logger, "save_dir", None) is not None


def alike(collection: TopKCollection, scalars: Mapping[str, float], trainer: Any) -> Mapping[str, float]:
    """Return the scalars that all processes log: those of the first one where metrics do not synchronise over all."""
    partly = any(
        metric.process_group is not None or not metric.sync_on_compute for metric in collection.members().values()
    )
    if trainer.world_size == 1 or not partly:
        return scalars
    found: Mapping[str, float] = trainer.strategy.broadcast(dict(scalars))
    return found
