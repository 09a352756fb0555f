"""Floor 0: scalars as Lightning logs metrics: one metric each, found among the modules of a model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

RESULTS = "trainer.connectors.logger_connector.result"
"""Where Lightning, in either package, asks a metric that it was given to log."""


class LoggedScalar(Metric):
    """One scalar of a collection.

    It has no state. It computes and resets the collection, together with the other scalars of it.

    Args:
        of: The scalars of the collection.
        member: Name of the metric that has it.
        place: Where it is among the keys of that metric.
    """

    full_state_update = False

    def __init__(self, of: LoggedScalars, member: str, place: int) -> None:
        super().__init__()
        self._of, self._member, self._place = of, member, place

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Refuse: batches go to the collection."""
        raise TypeError("TopKCollection: a logged scalar takes no batches; update the collection.")

    def compute(self) -> Tensor:
        """Return the value over all batches and processes."""
        return self._of.value(self._member, self._place)

    def reset(self) -> None:
        """Reset the collection, unless that was done through another of its scalars."""
        self._of.reset()

    @property
    def device(self) -> torch.device:
        """Where the metric is."""
        where: torch.device = self._of.member(self._member).device
        return where

    @property  # type: ignore[override] # of the metric: what its ``forward`` returned last
    def _forward_cache(self) -> Tensor | None:
        batch = vars(self._of.member(self._member)).get("_forward_cache")
        return None if batch is None else batch.reshape(-1)[self._place]

    @_forward_cache.setter
    def _forward_cache(self, value: Any) -> None:
        pass

    def to(self, *args: Any, **kwargs: Any) -> LoggedScalar:
        """Return itself: the metric moves with the model."""
        return self

    def _wrap_update(self, update: Any) -> Any:
        return update

    def _wrap_compute(self, compute: Any) -> Any:
        return compute


class LoggedScalars:
    """All scalars of a collection, computed together and reset together.

    Args:
        collection: A ``TopKCollection``.
    """

    def __init__(self, collection: Any) -> None:
        self._collection = collection
        self._scalars: dict[tuple[str, int], LoggedScalar] = {}
        self._values: dict[str, Tensor] = {}
        self._computed_of: list[tuple[int, Any]] = []
        self._were_computed = False

    def member(self, name: str) -> Any:
        """Return a metric of the collection."""
        return self._collection.members()[name]

    def items(self) -> Iterator[tuple[str, LoggedScalar]]:
        """Yield key and metric of each scalar, as the keys of ``compute()``."""
        for name, metric in self._collection.members().items():
            for place, key in enumerate(metric.keys()):
                yield self._collection._set_name(key), self._scalar(name, place)

    def named_modules(self, memo: set[Any], prefix: str) -> Iterator[tuple[str, Metric]]:
        """Yield the scalars that are not in ``memo`` yet, as ``torch.nn.Module.named_modules`` does."""
        for number, (_, scalar) in enumerate(self.items()):
            if scalar not in memo:
                memo.add(scalar)
                yield f"{prefix}{'.' if prefix else ''}logged_{number}", scalar

    def value(self, name: str, place: int) -> Tensor:
        """Return a scalar; the first that is asked for computes all."""
        if not self._is_current():
            self._values = self._collection.compute()
            self._computed_of = self._signs()
        self._were_computed = True
        return self._values[self._collection._set_name(list(self.member(name).keys())[place])]

    def reset(self) -> None:
        """Reset the collection where there is something to reset."""
        if any(metric._update_count for metric in self._collection.members().values()):
            self._collection.reset()
        self._were_computed = False

    def before_adding(self) -> None:
        """Start from nothing where the scalars were computed: what comes is of another loader, or another epoch.

        Lightning resets at the end of the epoch only, not between the loaders of one.
        """
        if self._were_computed:
            self.reset()

    def _scalar(self, name: str, place: int) -> LoggedScalar:
        if (name, place) not in self._scalars:
            self._scalars[name, place] = LoggedScalar(self, name, place)
        return self._scalars[name, place]

    def _is_current(self) -> bool:
        now = zip(self._signs(), self._computed_of, strict=False)
        same = all(count == before and computed is kept for (count, computed), (before, kept) in now)
        return same and len(self._computed_of) == len(self._collection.members())

    def _signs(self) -> list[tuple[int, Any]]:
        """Return what changes with every update and reset: the number of updates, and the value that was computed."""
        return [(metric._update_count, metric._computed) for metric in self._collection.members().values()]

    def __getstate__(self) -> dict[str, Any]:
        return {"_collection": self._collection}

    def __setstate__(self, state: dict[str, Any]) -> None:
        LoggedScalars.__init__(self, state["_collection"])


class ForwardCache:
    """The attribute ``_forward_cache`` of a metric; Lightning reads it when ``self.log`` is given the metric.

    That is the one moment to say that ``self.log`` takes one value: Lightning itself fails at the end of the epoch.
    """

    def __get__(self, metric: Any, owner: type) -> Any:
        """Return what ``forward`` returned last."""
        if metric is None:
            return self
        if sys._getframe(1).f_globals.get("__name__", "").endswith(RESULTS):
            _check_single(metric)
        return vars(metric).get("_forward_cache")

    def __set__(self, metric: Any, value: Any) -> None:
        """Keep what ``forward`` returned."""
        vars(metric)["_forward_cache"] = value


def _check_single(metric: Any) -> None:
    keys = list(metric.keys())
    if (metric.k is not None and isinstance(metric.k, tuple)) or len(keys) != 1:
        held = f"{len(keys)} ({', '.join(keys[:2])}, …)" if keys else "one for each label"
        raise ValueError(
            f"{type(metric).__name__}: self.log takes one value, but this metric has {held}; make it a member of a "
            "TopKCollection, update that, and call self.log_dict(collection)."
        )
