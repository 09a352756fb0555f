"""Counting the labels of the training data, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from tailmetrics.frequency import LabelFrequency
from tailmetrics.lightning._loaders import Place, at_place, named
from tailmetrics.lightning._packages import same_random_numbers, say
from tailmetrics.lightning._shown import Share, share_of
from tailmetrics.lightning._steps import outline

TargetPlace: TypeAlias = str | int | Callable[[Any], Any]
"""Where the target is in a training batch."""
AVOIDED = "label_counts= spares it"


def count_labels(
    loaders: dict[Place, Any], train_target: Any, num_labels: int, source: str, trainer: Any, device: torch.device
) -> tuple[LabelFrequency, list[str]]:
    """Return the frequency of the labels in what the loaders show, over all processes, and what there is to say of it.

    Args:
        loaders: The training loaders by place.
        train_target: Where the target is: for every loader, or in a dict or list of the loaders' shape.
        num_labels: L.
        source: What says so, for messages.
        trainer: The trainer.
        device: Where to count.
    """
    frequency, notes = LabelFrequency(num_labels).to(device), []
    with same_random_numbers():
        for place, loader in loaders.items():
            where = at_place(train_target, place)
            if where is None:
                continue
            share = share_of(loader, trainer, device)
            notes += [f"{share.note}." if share.note else ""]
            for batch in _shown(share, trainer):
                target = _read(batch, where, place)
                try:
                    frequency.update(target.to(device) if isinstance(target, Tensor) else target)
                except (TypeError, ValueError) as error:
                    raise ValueError(
                        f"HeadToTailReport: counting training labels{_of(place)}, with {num_labels} labels by "
                        f"{source}: {error}"
                    ) from error
    return frequency, list(dict.fromkeys(filter(None, notes)))


def _read(batch: Any, where: TargetPlace, place: Place) -> Any:
    """Return the target of a training batch."""
    held = f"a training batch{_of(place)} ({outline(batch)})"
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


def _of(place: Place) -> str:
    return f" of the loader {named(place)}" if place else ""


def _shown(share: Share, trainer: Any) -> Iterator[Any]:
    """Yield the batches; say at the start what is done, and show on a terminal how far it is."""
    number = "" if share.number is None else f" in {share.number:,} batches"
    say(f"HeadToTailReport: counting the training labels{number}; {AVOIDED}.")
    console = Console(stderr=True)
    hidden = not (trainer.is_global_zero and trainer.progress_bar_callback is not None and console.is_terminal)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(f"Counting training labels ({AVOIDED})", total=share.number)
        yield from _advancing(share.batches, lambda: bar.advance(task))


def _advancing(batches: Iterable[Any], done: Callable[[], None]) -> Iterator[Any]:
    for batch in batches:
        yield batch
        done()
