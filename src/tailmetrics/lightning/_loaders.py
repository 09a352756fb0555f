"""Loaders of a Trainer: where the training data are, and each loader of a list or dict by its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from tailmetrics.lightning._packages import lightning_class_of

Place: TypeAlias = tuple[Any, ...]
"""Keys and indices that lead to a loader; empty for a loader that stands alone."""


def training_loaders(trainer: Any, pl_module: Any) -> dict[Place, Any]:
    """Return the loaders of a fit under way, or those that the data module or the model would train on."""
    if trainer.train_dataloader is not None:
        return by_place(trainer.train_dataloader)
    datamodule: Any = getattr(trainer, "datamodule", None)
    for owner in (datamodule, pl_module):
        if owner is None or type(owner).train_dataloader is _inherited(owner):
            continue
        if datamodule is not None and owner is datamodule:
            datamodule.setup("fit")
        return by_place(owner.train_dataloader())
    raise ValueError(
        "HeadToTailReport: there is no training data to count labels in; pass label_counts= to the callback, or a "
        "data module that has a train_dataloader."
    )


def evaluated_loaders(trainer: Any) -> list[Any]:
    """Return the loaders of the validation or test under way; ``[None]`` where their batches come together.

    Not ``trainer.val_dataloaders``: those are the loaders of the fit, also in a later ``trainer.validate``.
    """
    loop = trainer._evaluation_loop
    return list(loop._combined_loader.flattened) if loop._is_sequential else [None]


def by_place(loaders: Any) -> dict[Place, Any]:
    """Return every loader of a loader, a list, a dict or a ``CombinedLoader`` of them, in the order of Lightning."""
    return dict(_places(loaders, ()))


def _places(loaders: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    if hasattr(loaders, "iterables") and hasattr(loaders, "flattened"):  # a CombinedLoader, of either package
        loaders = loaders.iterables
    if isinstance(loaders, Mapping):
        for key, inner in loaders.items():
            yield from _places(inner, (*place, key))
    elif isinstance(loaders, (list, tuple)):
        for number, inner in enumerate(loaders):
            yield from _places(inner, (*place, number))
    else:
        yield place, loaders


def at_place(values: Any, place: Place) -> Any:
    """Return what ``values`` has for a loader: itself, or the entry of a dict or list that has the loaders' shape."""
    for key in place:
        if not isinstance(values, (Mapping, list, tuple)):
            break
        try:
            values = values[key]
        except (KeyError, IndexError):
            raise ValueError(
                f"HeadToTailReport: train_target has nothing for the training loader {named(place)}; give it a key, an "
                "index or a function for each loader, None for one without labels."
            ) from None
    return values


def named(place: Place) -> str:
    """Return a place as it is written in Python: ``['a'][0]``."""
    return "".join(f"[{key!r}]" for key in place)


def _inherited(owner: Any) -> Any:
    return getattr(lightning_class_of(owner, "train_dataloader"), "train_dataloader")  # noqa: B009 - of either package
