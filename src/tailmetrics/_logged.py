"""Layer 0: scalars as Lightning logs metrics: one metric each, found among the modules of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from typing_extensions import Self

Place: TypeAlias = tuple[str, int]
"""Name of a member, and place among its keys."""


class LoggedScalar(Metric):
    """One scalar of a collection.

    It has no state. It computes and resets the collection, together with the other scalars of it.

    Args:
        of: The scalars of the collection.
        place: The metric that has it, and where it is among that metric's keys.
    """

    full_state_update = False

    def __init__(self, of: LoggedScalars, place: Place) -> None:
        super().__init__()
        self._of, self._place = of, place

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Refuse: batches go to the collection."""
        raise TypeError("TopKCollection: a logged scalar takes no batches; update the collection.")

    def compute(self) -> Tensor:
        """Return the value over all batches and processes."""
        return self._of.value(self._place)

    def reset(self) -> None:
        """Reset the collection, unless that was done through another of its scalars."""
        self._of.reset()

    @property
    def device(self) -> torch.device:
        """Where the metric is."""
        where: torch.device = self._of.member(self._place).device
        return where

    @property  # type: ignore[override] # of the metric: what its ``forward`` returned last
    def _forward_cache(self) -> Tensor | None:
        batch = vars(self._of.member(self._place)).get("_forward_cache")
        return None if batch is None else batch.reshape(-1)[self._place[1]]

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
        self._scalars: dict[Place, LoggedScalar] = {}
        self._values: dict[Place, Tensor] = {}
        self._computed_of: list[tuple[int, Any]] = []
        self.were_computed = False

    def member(self, place: Place) -> Any:
        """Return the metric of the collection that has a scalar."""
        return self._collection.members()[place[0]]

    def items(self) -> Iterator[tuple[str, LoggedScalar]]:
        """Yield key and metric of each scalar, as the keys of ``compute()``."""
        for place, key in self._keys().items():
            if place not in self._scalars:
                self._scalars[place] = LoggedScalar(self, place)
            yield key, self._scalars[place]

    def named_modules(self, memo: set[Any], prefix: str) -> Iterator[tuple[str, Metric]]:
        """Yield the scalars that are not in ``memo`` yet, as ``torch.nn.Module.named_modules`` does."""
        if not self._scalars:
            list(self.items())
        for number, scalar in enumerate(self._scalars.values()):
            if scalar not in memo:
                memo.add(scalar)
                yield f"{prefix}{'.' if prefix else ''}logged_{number}", scalar

    def value(self, place: Place) -> Tensor:
        """Return a scalar; the first that is asked for computes all."""
        before, now = self._computed_of, self._signs()
        same = len(before) == len(now) and all(a == c and b is d for (a, b), (c, d) in zip(before, now, strict=True))
        if not (self._values and same):
            found = self._collection.compute()
            self._values = {one: found[key] for one, key in self._keys().items()}
            self._computed_of = self._signs()
        self.were_computed = True
        return self._values[place]

    def reset(self) -> None:
        """Reset the collection where there is something to reset."""
        if any(metric._update_count for metric in self._collection.members().values()):
            self._collection.reset()
        self.forget()

    def forget(self) -> None:
        """Compute anew when a scalar is asked for: the collection was reset."""
        self._values, self.were_computed = {}, False

    def _keys(self) -> dict[Place, str]:
        """Return the key of each scalar, prefix and postfix included."""
        members = self._collection.members().items()
        keys = {(name, place): key for name, metric in members for place, key in enumerate(metric.keys())}
        return {place: self._collection._set_name(key) for place, key in keys.items()}

    def _signs(self) -> list[tuple[int, Any]]:
        """Return what changes with every update and reset: the number of updates, and the value that was computed."""
        return [(metric._update_count, metric._computed) for metric in self._collection.members().values()]

    def __getstate__(self) -> dict[str, Any]:
        return {"_collection": self._collection}

    def __setstate__(self, state: dict[str, Any]) -> None:
        LoggedScalars.__init__(self, state["_collection"])


class LoggedCollection(MetricCollection):
    """A collection of which ``self.log_dict(collection)`` logs every scalar of every member under its key."""

    @property
    def _logged(self) -> LoggedScalars:
        if "_logged_scalars" not in vars(self):
            self._logged_scalars = LoggedScalars(self)
        return self._logged_scalars

    def _before_adding(self) -> None:
        """Start from nothing where Lightning has read the scalars: what comes is of another loader, or another epoch.

        Lightning resets at the end of the epoch only, not between the loaders of one.
        """
        logged: LoggedScalars | None = vars(self).get("_logged_scalars")
        if logged is not None and logged.were_computed:
            logged.reset()

    def reset(self) -> None:
        """Reset all members."""
        super().reset()
        if "_logged_scalars" in vars(self):
            self._logged.forget()

    def clone(self, prefix: str | None = None, postfix: str | None = None) -> Self:
        """Return a copy with states of its own.

        Args:
            prefix: Put in front of every key in place of what was.
            postfix: Put behind every key in place of what was.
        """
        copy: Self = super().clone(prefix, postfix)  # type: ignore[assignment] # TorchMetrics returns a base class
        return copy

    def items(self, keep_base: bool = False, copy_state: bool = True) -> Iterable[tuple[str, Any]]:  # type: ignore[override] # as TorchMetrics has it
        """Return names and members, as ``keep_base=True`` asks.

        Otherwise what has the value of each key of ``compute()``: its metric, as TorchMetrics' wrappers read it, or
        without ``copy_state``, as Lightning asks, its scalar.
        """
        if not keep_base and not copy_state:
            return self._logged.items()
        members = super().items(keep_base=True, copy_state=copy_state)
        if keep_base:
            return members
        keys = ((self._set_name(key), metric) for name, metric in members for key in metric.keys() or [name])  # type: ignore[operator]
        return dict(keys).items()

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield the modules, and the scalars that Lightning logs: it looks them up here."""
        memo = set() if memo is None else memo
        yield from super().named_modules(memo, prefix, remove_duplicate)
        yield from self._logged.named_modules(memo, prefix)

    @property
    def metric_state(self) -> dict[str, dict[str, Any]]:
        """The states of every member, by name."""
        return {name: member.metric_state for name, member in super().items(copy_state=False)}
