"""A ``torchmetrics.Metric`` that keeps whole numbers, and keeps them whatever happens to it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from torch import Tensor
from torchmetrics import Metric
from typing_extensions import Self

from tailmetrics._checks import shape_of


class ExactMetric(Metric, ABC):
    """What TorchMetrics would lose or change, kept: see each method. States are integer tensors."""

    full_state_update = False
    is_differentiable = False

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
            self._check_states(states, "merge_state")
        super().merge_state(incoming_state)
        self._computed = None
        self._update_count += incoming_state._update_count if isinstance(incoming_state, Metric) else 1

    def _check_states(self, states: Mapping[str, Any], method: str) -> None:
        caller = f"{type(self).__name__}.{method}"
        for name in self._defaults:
            own = getattr(self, name)
            if name not in states:
                raise ValueError(
                    f"{caller}: {name} is missing; the states are of a metric with other arguments or other buckets."
                )
            if not isinstance(states[name], Tensor) or shape_of(states[name]) != shape_of(own):
                raise ValueError(
                    f"{caller}: {name} is {shape_of(states[name])}, but {shape_of(own)} is needed; the states are of "
                    "a metric with other arguments."
                )

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
            try:
                self._check_states(present, "load_state_dict")
            except ValueError as error:
                error_msgs.append(str(error))
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
