"""A ``torchmetrics.Metric`` that keeps whole numbers, and keeps them whatever happens to it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar

from torch import Tensor
from torchmetrics import Metric
from typing_extensions import Self, Unpack

from tailmetrics._arguments import (
    KEYWORDS,
    TorchMetricsArguments,
    arguments,
    could_call,
    given,
    unknown_arguments,
)
from tailmetrics._checks import shape_of


class ExactMetric(Metric, ABC):
    """What TorchMetrics would lose or change, kept: see each method. States are integer tensors."""

    full_state_update = False
    is_differentiable = False
    withheld: ClassVar[tuple[str, ...]] = ()
    """Arguments of a base class that a class sets itself and does not take."""
    _given: dict[str, Any]
    """What the metric was given by name."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Name an unknown argument before Python names the one that is missing in its place."""
        known = {*arguments(cls), *KEYWORDS} if kwargs else ()
        # a config passes every argument of the bases, those that a class withholds as None
        kept = {name for name, value in kwargs.items() if value is not None or name not in cls.withheld}
        unknown = [name for name in kwargs if name in kept and name not in known]
        if unknown and (not {*cls.withheld}.isdisjoint(unknown) or not could_call(cls, args, kwargs)):
            raise unknown_arguments(cls, unknown)
        metric = super().__new__(cls)
        object.__setattr__(metric, "_given", given(cls, args, kwargs))
        return metric

    def __init__(self, **kwargs: Unpack[TorchMetricsArguments]) -> None:
        try:
            super().__init__(**kwargs)
        except ValueError:
            unknown = [name for name in kwargs if name not in KEYWORDS]
            if not unknown:
                raise
            raise unknown_arguments(type(self), unknown) from None

    def _wrap_update(self, update: Callable[..., None]) -> Callable[..., None]:
        """Take back the count of an update that failed, also one that was called with the wrong arguments."""
        wrapped = super()._wrap_update(update)

        @wraps(update)
        def guarded(*args: Any, **kwargs: Any) -> None:
            count = self._update_count
            try:
                wrapped(*args, **kwargs)
            except BaseException:
                self._update_count = count
                raise

        return guarded

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return its own value; after an error the metric is as before."""
        before = dict(self.__dict__)
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            self.__dict__.update(before)
            raise

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the state of another metric of the same arguments, or its ``metric_state``."""
        if isinstance(incoming_state, (dict, Metric)):
            states = incoming_state.metric_state if isinstance(incoming_state, Metric) else incoming_state
            problem = self._problem_with(states)
            if problem is not None:
                other = f"those of {incoming_state!r}" if isinstance(incoming_state, Metric) else "the dict given"
                raise ValueError(
                    f"{type(self).__name__}.merge_state: {self!r} takes the states of a metric of the same arguments "
                    f"and buckets, not {other}: {problem}."
                )
        super().merge_state(incoming_state)
        self._computed = None
        self._update_count += incoming_state._update_count if isinstance(incoming_state, Metric) else 1

    def _problem_with(self, states: Mapping[str, Any]) -> str | None:
        """Say what keeps ``states`` from being those of this metric; None if nothing does."""
        for name in self._defaults:
            own = getattr(self, name)
            if name not in states:
                return f"{name} is missing"
            if not isinstance(states[name], Tensor) or shape_of(states[name]) != shape_of(own):
                return f"{name} is {shape_of(states[name])}, but {shape_of(own)} is needed"
        return None

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        present = {name: state_dict[prefix + name] for name in self._defaults if prefix + name in state_dict}
        if strict:
            wanted = (name for name, kept in self._persistent.items() if kept and name not in present)
            missing_keys.extend(prefix + name for name in wanted)
        if present:
            problem = self._problem_with(present)
            if problem is not None:
                error_msgs.append(
                    f"{type(self).__name__}.load_state_dict: {problem}; the states are of a metric with other "
                    "arguments or other buckets."
                )
                return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if present:
            for name in self._defaults:  # the checkpoint keeps its own tensors
                setattr(self, name, getattr(self, name).to(self.device, copy=True))
            self._computed = None
            self._update_count = max(1, self._update_count)

    def set_dtype(self, dst_type: Any) -> Self:
        """Return itself unchanged: states are whole numbers in any precision of the model."""
        return self

    def _apply(self, fn: Any, exclude_state: Sequence[str] = "") -> Self:
        """Move the states; a value computed before is dropped rather than rounded to the precision of a model."""
        self._computed = None
        self._forward_cache = None
        super()._apply(fn, exclude_state)
        return self

    def __hash__(self) -> int:
        """Return the identity of the object: TorchMetrics' hash changes whenever a state does."""
        return id(self)


def writable(state: Tensor) -> Tensor:
    """Return a state that may be added to in place: a reset under ``inference_mode`` leaves one that may not."""
    return state.clone() if state.is_inference() else state
