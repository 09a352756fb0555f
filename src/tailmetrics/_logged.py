"""Layer 0: scalars as Lightning logs them, each one metric among a model's modules."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType, MappingProxyType
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from typing_extensions import Self

Place: TypeAlias = tuple[str, int]
"""Name of a member, and place among its keys."""


def asked_by_lightning() -> bool:
    """Whether the caller's caller is Lightning's record of a logged metric.

    The metric was passed to ``self.log`` directly, or as a part of a sum or a wrapper
    of TorchMetrics.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith("torchmetrics."):
            return module.endswith("logger_connector.result")
        frame = frame.f_back
    return False


def _last_value(metric: Any) -> Any:
    """Return the value of the last batch, which Lightning reads in ``self.log``.

    Raise ValueError there unless the metric has exactly one value.
    """
    keys: Any = getattr(metric, "keys", None)
    if keys is not None and asked_by_lightning() and len(keys()) != 1:
        name, number = type(metric).__name__, len(keys()) or "one for each label"
        raise ValueError(
            f"{name}: self.log takes one value, and this metric has {number}; use "
            f"self.log_dict(metrics) with metrics = TopKCollection([{name}(…)])."
        )
    return vars(metric).get("_forward_cache")


def _keep(metric: Any, value: Any) -> None:
    vars(metric)["_forward_cache"] = value


LAST_VALUE = property(_last_value, _keep)
"""The value of a metric's last batch.

Reading it raises ValueError where Lightning would log one of several values.
"""


class LoggedScalar(Metric):
    """One scalar of a collection.

    It has no state. Together with other scalars it computes and resets the collection.

    Args:
        collection: A ``TopKCollection``.
        place: The name of its metric, and its place among the keys of the metric.
    """

    full_state_update = False
    _collection: Any
    _place: Place

    def __init__(self, collection: Any, place: Place) -> None:
        super().__init__()
        # no part of this one, as a module set by name would be
        object.__setattr__(self, "_collection", collection)
        self._place = place

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Refuse: batches go to the collection."""
        raise TypeError(
            "TopKCollection: a single value of it takes no batches; update the "
            "collection, or a metric of collection.members(). A MetricCollection would "
            "add each batch several times to a member with several keys: put the "
            "TopKCollection beside it."
        )

    # the one of TorchMetrics would reset the collection before it fails
    forward = update

    def merge_state(self, incoming_state: Any) -> None:
        """Refuse: a value has no state of its own."""
        raise TypeError(
            "TopKCollection: a single value of it has no state to merge; "
            "collection.merge_state(other) merges all metrics, and "
            "collection.members() are the metrics with their states."
        )

    def compute(self) -> Tensor:
        """Return the value over all batches and processes."""
        value: Tensor = self._collection.logged_value(self._place)
        return value

    def reset(self) -> None:
        """Reset the collection, unless that was done through another of its scalars."""
        if any(metric.update_count for metric in self._collection.members().values()):
            self._collection.reset()

    @property
    def _metric(self) -> Any:
        return self._collection.members()[self._place[0]]

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override] # a constant of other metrics
        """Whether a higher value of the metric is better."""
        return cast("bool | None", self._metric.higher_is_better)

    @property
    def device(self) -> torch.device:
        """Where the metric is."""
        device: torch.device = self._metric.device
        return device

    @property  # type: ignore[override] # of the metric: what its ``forward`` returned last
    def _forward_cache(self) -> Tensor | None:
        batch = vars(self._metric).get("_forward_cache")
        if batch is None:
            return None
        return cast("Tensor", batch.reshape(-1)[self._place[1]])

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


class LoggedCollection(MetricCollection):
    """A collection of which ``self.log_dict(collection)`` logs every scalar by its key.

    All scalars are computed together and reset together.
    """

    _scalars: Mapping[Place, LoggedScalar] = MappingProxyType({})
    _values_logged: Mapping[Place, Tensor] = MappingProxyType({})
    _values_of: Sequence[tuple[int, Any]] = ()
    """The result of :meth:`_versions` at the time when the scalars were computed."""
    _were_logged = False

    def logged_value(self, place: Place) -> Tensor:
        """Return the scalar at a place; the first call computes those of all places."""
        versions = self._versions()
        is_current = bool(self._values_logged) and len(versions) == len(self._values_of)
        for (updates, computed), (updates_now, computed_now) in zip(
            self._values_of, versions, strict=False
        ):
            is_current = (
                is_current and updates == updates_now and computed is computed_now
            )
        if not is_current:
            values = self.compute()
            self._values_logged = {
                logged_place: values[key]
                for logged_place, key in self._keys_logged().items()
            }
            self._values_of = self._versions()
        self._were_logged = True
        return self._values_logged[place]

    def _versions(self: Any) -> list[tuple[int, Any]]:
        """Return the number of updates and the computed value of each member.

        They change with update and reset.
        """
        return [
            (metric.update_count, metric._computed)
            for metric in self.members().values()
        ]

    def _keys_logged(self: Any) -> dict[Place, str]:
        """Return the key of each scalar, prefix and postfix included."""
        keys: dict[Place, str] = {}
        for name, metric in self.members().items():
            for number, key in enumerate(metric.keys()):
                keys[name, number] = self._set_name(key)
        return keys

    def _before_adding(self) -> None:
        """Reset if Lightning has read the scalars: another loader or epoch begins.

        Lightning itself resets only at the end of an epoch, not between its loaders.
        """
        if self._were_logged:
            self.reset()

    def reset(self) -> None:
        """Reset all members."""
        super().reset()
        self._values_logged, self._were_logged = {}, False

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied; a copy makes scalars of its own."""
        state = dict(vars(self))
        for name in ("_scalars", "_values_logged", "_values_of", "_were_logged"):
            state.pop(name, None)
        return state

    def clone(self, prefix: str | None = None, postfix: str | None = None) -> Self:
        """Return a copy with states of its own.

        Args:
            prefix: Replaces the prefix of every key.
            postfix: Replaces the postfix of every key.
        """
        copy: Self = super().clone(prefix, postfix)  # type: ignore[assignment] # TorchMetrics returns a base class
        return copy

    def items(  # type: ignore[override] # as TorchMetrics has it
        self, keep_base: bool = False, copy_state: bool = True
    ) -> Iterable[tuple[str, Any]]:
        """Return each key of ``compute()`` with its object; members with ``keep_base``.

        The object is the scalar of the key. With ``copy_state``, which TorchMetrics'
        wrappers pass, it is a copy of the metric if the metric has this key alone.
        """
        if keep_base:
            return super().items(keep_base=True, copy_state=copy_state)
        if copy_state:
            return self._metrics_by_key().items()
        return self._scalars_by_key().items()

    def _scalars_by_key(self) -> dict[str, Any]:
        """Return the scalar of each key, the same object each time."""
        keys_logged = self._keys_logged()
        scalars = dict(self._scalars)
        for place in keys_logged:
            if place not in scalars:
                scalars[place] = LoggedScalar(self, place)
        self._scalars = scalars
        return {key: scalars[place] for place, key in keys_logged.items()}

    def _metrics_by_key(self) -> dict[str, Any]:
        """Return a copy of each metric with one key, and a scalar per other key."""
        metrics: dict[str, Any] = {}
        for name, metric in cast(
            "Iterable[tuple[str, Any]]", super().items(keep_base=True)
        ):
            keys = metric.keys()
            if len(keys) == 1:
                metrics[self._set_name(keys[0])] = metric
                continue
            for number, key in enumerate(keys):
                metrics[self._set_name(key)] = LoggedScalar(self, (name, number))
        return metrics

    def named_modules(
        self,
        memo: set[Any] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Yield the modules and the scalars; Lightning looks up the scalars here."""
        if memo is None:
            memo = set()
        yield from super().named_modules(memo, prefix, remove_duplicate)
        if not self._scalars:
            self.items(copy_state=False)
        for number, scalar in enumerate(self._scalars.values()):
            if scalar not in memo:
                memo.add(scalar)
                name = f"logged_{number}"
                yield f"{prefix}.{name}" if prefix else name, scalar

    @property
    def metric_state(self) -> dict[str, dict[str, Any]]:
        """The states of every member, by name."""
        return {
            name: member.metric_state
            for name, member in super().items(copy_state=False)
        }
