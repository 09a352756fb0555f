"""A ``torchmetrics.Metric`` that keeps whole numbers, and keeps them whatever happens to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import wraps
from inspect import get_annotations
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self, Unpack

from tailmetrics._arguments import (
    KEYWORDS,
    ClassSignature,
    TorchMetricsArguments,
    described,
    given,
    settled_arguments,
    unknown_arguments,
)
from tailmetrics._travelling_metric import TravellingMetric, properties_of

SET_AT_EACH_CALL = frozenset(("_update_count", "_computed", "_forward_cache", "_cache", "_is_synced"))
"""Attributes that TorchMetrics sets in ``update``, ``compute`` and ``reset``."""


class ExactMetric(TravellingMetric):
    """What TorchMetrics would lose or change, kept: see each method. States are integer tensors, 0 at first."""

    __signature__ = ClassSignature()
    _described: ClassVar[dict[str, str]] = {}
    """What docstrings say of each argument."""
    _is_made = False
    full_state_update = False
    is_differentiable = False
    withheld: ClassVar[tuple[str, ...]] = ()
    """Arguments of a base class that a class sets itself and does not take."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep TorchScript away from properties and annotations: a scripted module keeps metrics, and runs none."""
        super().__init_subclass__(**kwargs)
        cls.__doc__, cls._described = described(cls)
        annotated = {name for base in cls.__mro__ for name in get_annotations(base)}
        cls.__jit_unused_properties__ = properties_of(cls)
        cls.__jit_ignored_attributes__ = sorted({"device"} | annotated)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Name an unknown argument before Python names the one that is missing in its place."""
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

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, unless it is an argument that a metric is made with. What is set at each call, directly.

        ``torch.nn.Module`` looks whether a value is a parameter, a buffer or a module, which takes three microseconds.
        TorchMetrics sets up to seven values for a batch. The whole update of a small batch takes 250 microseconds.

        Raises:
            AttributeError: If states, keys or values would not follow what is set.
        """
        if name in SET_AT_EACH_CALL:
            object.__setattr__(self, name, value)
        elif self._is_made and name in vars(self) and name in settled_arguments(type(self)):
            raise AttributeError(
                f"{type(self).__name__}: {name} is settled when the metric is made; make another one with {name}=."
            )
        else:
            super().__setattr__(name, value)

    def clone(self) -> Self:
        """Return a copy with states of its own."""
        return deepcopy(self)

    def _wrap_update(self, update: Callable[..., None]) -> Callable[..., None]:
        """Take back the count of an update that failed, also one that was called with the wrong arguments."""
        wrapped = super()._wrap_update(update)

        @wraps(update)
        def guarded(*args: Any, **kwargs: Any) -> None:
            if self._is_synced:
                raise self._is_of_all_processes("update")
            count = self._update_count
            try:
                wrapped(*args, **kwargs)
            except BaseException:
                self._update_count = count
                raise

        return guarded

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Put the states of this process back after a compute that failed while it held those of all processes.

        A value over processes is computed anew each time: a process that was given no batch since cannot know whether
        another one was.
        """
        wrapped = super()._wrap_compute(compute)

        @wraps(compute)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            was_synced = self._is_synced
            if self._to_sync and not was_synced and self.distributed_available_fn():
                self._computed = None
            try:
                return wrapped(*args, **kwargs)
            except BaseException:
                if self._is_synced and not was_synced:
                    self.unsync()
                raise

        return guarded

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return its own value; after an error the metric is as before."""
        before = dict(self.__dict__)
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            self.__dict__.update(before)
            raise

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

    def _apply(  # type: ignore[override]  # TorchMetrics has exclude_state where torch has recurse
        self, fn: Any, exclude_state: Sequence[str] = "", recurse: bool = True
    ) -> Self:
        """Move the states; a value computed before is dropped rather than rounded to the precision of a model.

        States that were made without memory, on ``meta``, have counted nothing: they are 0 once they have memory.
        """
        self._computed = None
        self._forward_cache = None
        without_memory = [name for name, state in self._tensors().items() if state.is_meta]
        super()._apply(fn, exclude_state)
        for name in without_memory:
            default: Any = self._defaults[name]
            for state in (default, self._tensors()[name]):
                state.zero_()
        return self

    def __hash__(self) -> int:
        """Return the identity of the object: TorchMetrics' hash changes whenever a state does."""
        return id(self)


def writable(state: Tensor) -> Tensor:
    """Return a state that may be added to in place: a reset under ``inference_mode`` leaves one that may not."""
    return state.clone() if state.is_inference() else state
