"""A ``torchmetrics.Metric`` whose states are whole numbers, and what guards them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import wraps
from inspect import get_annotations
from secrets import randbits
from typing import Any, ClassVar, Final, cast
from warnings import warn

import torch
from torch import Tensor, distributed
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors
from typing_extensions import Self, Unpack

from tailmetrics._arguments import grouped, shape_of
from tailmetrics._compiling import Method, eagerly, is_compiling, outside_of_graph
from tailmetrics._logged import LAST_VALUE, asked_by_lightning
from tailmetrics._signatures import (
    KEYWORDS,
    PRESENTATION,
    ClassSignature,
    TorchMetricsArguments,
    arguments,
    check_keywords,
    documentation,
    names_unknown_keywords,
    passed_arguments,
    settled_arguments,
    unknown_arguments,
)
from tailmetrics._transfer import (
    COMBINE,
    REDUCTIONS,
    Fingerprint,
    MetricStates,
    Reduction,
    check_fits,
    difference,
    gathered,
    identity,
    largest_of,
    merged,
    order_of,
    over_processes,
    problem_with_states,
)

SET_AT_EACH_CALL: Final = frozenset(
    ("_update_count", "_computed", "_forward_cache", "_cache", "_is_synced")
)
"""Attributes that TorchMetrics sets in ``update``, ``compute`` and ``reset``."""

CHECKED_AFTER: Final = frozenset(2**power for power in range(1, 63))
"""The powers of 2: after so many updates, the next one checks that states have room.

A check then costs next to nothing in the long run.
"""


def with_keywords(method: Method) -> Method:
    """Return a method of a collection that names an unknown argument.

    Compiled code calls it outside of its graph.
    """
    return outside_of_graph(names_unknown_keywords(method))


class Mergeable:
    """Base class of a metric and of a collection, whose states can be merged."""

    _is_synced: Any
    """Whether the states are those of all processes, from ``sync`` to ``unsync``.

    For a collection, whether those of any member are.
    """
    _stage: tuple[bool, bool, bool] | None = None
    """The modes of gradients, inference and training at the first batch, or None."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Hide properties and annotations from TorchScript, which compiles them.

        Scripted modules run no metric.
        """
        super().__init_subclass__(**kwargs)
        properties: set[str] = set()
        annotated = {"device"}
        for base in cls.__mro__:
            annotated |= get_annotations(base).keys()
            for name, member in vars(base).items():
                if isinstance(member, property):
                    properties.add(name)
        cls.__jit_unused_properties__ = sorted(properties)
        cls.__jit_ignored_attributes__ = sorted(annotated)

    __jit_unused_properties__: ClassVar[list[str]] = []
    __jit_ignored_attributes__: ClassVar[list[str]] = []

    def _parts(self) -> Mapping[str, ExactMetric]:
        """Return the metrics that hold the states, by name: this one."""
        return {"": cast("ExactMetric", self)}

    def _metric_states(self) -> list[MetricStates]:
        """Return the states of each part; a shared state is the same tensor in each."""
        return [states_of(part) for part in self._parts().values()]

    def merge_state(self, incoming_state: Any) -> None:
        """Add the states of another object with the same arguments.

        The other object may come from another process.

        Args:
            incoming_state: A metric, or a collection of the same metrics in the same
                order; or, for a metric, the ``metric_state`` of another one.

        Raises:
            TypeError: If ``incoming_state`` is neither.
            ValueError: If it has other arguments, buckets or counts; the message names
                the difference. Nothing is changed.
        """
        self.check_own_states("merge_state")
        caller = f"{type(self).__name__}.merge_state"
        parts = self._parts()
        others: list[Mapping[str, Any]]
        if isinstance(incoming_state, Mapping) and isinstance(self, ExactMetric):
            others, updates = [incoming_state], [1]
            problem = problem_with_states(states_of(self), incoming_state)
        elif isinstance(incoming_state, Mergeable) and isinstance(
            incoming_state, Metric
        ) == isinstance(self, Metric):
            incoming_state.check_own_states("merge_state")
            other_parts = incoming_state._parts().values()
            others = [part.metric_state for part in other_parts]
            updates = [part._update_count for part in other_parts]
            own_fingerprints = [part.fingerprint() for part in parts.values()]
            other_fingerprints = [part.fingerprint() for part in other_parts]
            problem = difference(
                own_fingerprints, other_fingerprints, "here", "there", list(parts)
            )
        else:
            raise TypeError(
                f"{caller}: got a {type(incoming_state).__name__}; pass a "
                f"{type(self).__name__} of the same arguments."
            )
        if problem is not None:
            raise ValueError(
                f"{caller}: the metric to be merged has other states: {problem}. Merge "
                "metrics that were made with the same arguments, buckets and counts."
            )

        totals = [
            merged(caller, states_of(part), states)
            for part, states in zip(parts.values(), others, strict=True)
        ]
        for part, states, number in zip(parts.values(), totals, updates, strict=True):
            vars(part).update(
                states, _computed=None, _update_count=part._update_count + number
            )
        self._share_again()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Replace the states by those of ``state_dict()`` after ``persistent(True)``.

        Raises:
            ValueError: If ``state_dict`` lacks states of a metric; with
                ``strict=False``, of every metric.
            RuntimeError: If a state is of another shape.
        """
        self.check_own_states("load_state_dict")
        parts = self._parts()
        problems = []
        for name, part in parts.items():
            prefix = f"{name}." if name else ""
            problem = problem_with_names(part, entries_under(state_dict, prefix), name)
            if problem is not None:
                problems.append(problem)
        if problems and (strict or len(problems) == len(parts)):
            raise ValueError(f"{type(self).__name__}.load_state_dict: {problems[0]}")
        return cast("Any", super()).load_state_dict(state_dict, strict, assign)

    def _note_stage(self) -> None:
        """Note the modes of gradients, inference and training if they have changed."""
        stage = (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            cast("Any", self).training,
        )
        if stage != self._stage:
            self._enter_stage(stage)

    def _enter_stage(self, stage: tuple[bool, bool, bool]) -> None:
        """Do nothing.

        A class with values that a loop logs compares each stage with its first one.
        """

    def _share_again(self) -> None:
        """Share state tensors between parts again, after their states were replaced."""

    def check_own_states(self, method: str) -> None:
        """Raise ValueError if the states are those of all processes.

        ``method`` needs the states of this process.
        """
        if self._is_synced:
            raise ValueError(
                f"{type(self).__name__}.{method}: the states are those of all "
                "processes; call unsync() first."
            )


class ExactMetric(Mergeable, Metric):
    """A metric with integer states that start at 0.

    Each method names the behaviour of TorchMetrics that it changes.
    """

    __signature__ = ClassSignature()
    _is_locked = False
    """Whether the arguments of the constructor refuse to be set."""
    full_state_update = False
    is_differentiable = False
    metric_state: dict[str, Any]
    """The states by name."""
    _given: dict[str, Any]
    """The arguments that were passed to the metric, by name."""
    _fingerprint: Fingerprint | None = None
    _was_logged = False
    """Whether Lightning has read the value: another loader or epoch then begins."""
    _forward_cache: Any = LAST_VALUE
    _over_processes: Mapping[str, Tensor] | None = None
    """The states over all processes while a collection computes.

    The collection sends the states of all members at once.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Add the descriptions of shared parameters to the docstring."""
        super().__init_subclass__(**kwargs)
        cls.__doc__ = documentation(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Name an unknown argument before Python names the missing one."""
        metric = super().__new__(cls)
        object.__setattr__(metric, "_given", passed_arguments(cls, args, kwargs))
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
        """Set an attribute, unless it is an argument of the metric.

        An attribute that changes at each call is set directly.

        ``torch.nn.Module`` looks whether a value is a parameter, a buffer or a module,
        which takes three microseconds. TorchMetrics sets up to seven values for a
        batch. The whole update of a small batch takes 250 microseconds.

        Raises:
            AttributeError: If states, keys or values would not follow what is set.
        """
        if name in SET_AT_EACH_CALL:
            object.__setattr__(self, name, value)
        elif (
            self._is_locked
            and name in vars(self)
            and name in settled_arguments(type(self))
        ):
            raise AttributeError(
                f"{type(self).__name__}: {name} is settled when the metric is made; "
                f"make another one with {name}=."
            )
        else:
            super().__setattr__(name, value)
            if name == "sync_on_compute":
                # TorchMetrics reads this attribute, and sets it only in ``forward``
                self._to_sync = value

    def clone(self) -> Self:
        """Return a copy with states of its own."""
        return deepcopy(self)

    def _wrap_update(self, update: Callable[..., None]) -> Callable[..., None]:
        """Wrap ``update`` as TorchMetrics does; a failed update does not count.

        Attributes are set directly: see :meth:`__setattr__`.
        """

        @wraps(update)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return eagerly(guarded, *args, **kwargs)
            attributes = vars(self)
            if attributes["_is_synced"]:
                self.check_own_states("update")
            before = {"_update_count": attributes["_update_count"]}
            if self._was_logged:
                before = dict(attributes)
                self.reset()
            stage = (
                torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(),
                self.training,
            )
            if stage != self._stage:
                self._enter_stage(stage)
            updates = attributes["_update_count"]
            attributes.update(_computed=None, _update_count=updates + 1)
            try:
                if updates in CHECKED_AFTER:
                    check_room(self)
                with torch.set_grad_enabled(self._enable_grad):
                    update(*args, **kwargs)
            except BaseException as error:
                attributes.update(before)
                if isinstance(error, TypeError):
                    check_keywords(
                        f"{type(self).__name__}.update", self._update_signature, kwargs
                    )
                raise
            return None

        return guarded

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap ``compute`` to compute anew over processes, and to return a copy.

        The copy may be changed in place.

        TorchMetrics keeps a value; but a process that was given no batch since cannot
        know whether another one was. Compiled code calls it outside of its graph.
        """
        wrapped = super()._wrap_compute(compute)

        @wraps(compute)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return eagerly(guarded, *args, **kwargs)
            if (
                self._to_sync
                and not self._is_synced
                and self.distributed_available_fn()
            ):
                self._computed = None
            value = wrapped(*args, **kwargs)
            if asked_by_lightning():
                vars(self)["_was_logged"] = True
            return value.clone() if isinstance(value, Tensor) else value

        return guarded

    @contextmanager
    def sync_context(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Hold the states of all processes within the context.

        After an error too, the states of this process return.

        Between ``sync`` and ``unsync`` the context changes nothing.
        """
        if self._is_synced:
            yield
            return
        try:
            with super().sync_context(*args, **kwargs):
                yield
        except BaseException:
            if self._is_synced:
                self.unsync()
            raise

    def unsync(self, should_unsync: bool = True) -> None:
        """Restore the states of this process, and drop the computed value."""
        super().unsync(should_unsync)
        if should_unsync:
            self._computed = None

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return its value; after an error nothing has changed."""
        self.check_own_states("forward")
        before = dict(self.__dict__)
        try:
            if self._was_logged:
                self.reset()
            self._note_stage()
            return super().forward(*args, **kwargs)
        except BaseException:
            self.__dict__.update(before)
            raise

    def reset(self) -> None:
        """Set all states to 0, and forget that Lightning has read the value."""
        super().reset()
        vars(self).update(_was_logged=False, _stage=None)

    # facts that other processes compare

    def settings(self) -> dict[str, Any]:
        """Return the value of each argument that values of the metric depend on.

        Arguments that ``bind`` has set are included.
        """
        attributes = vars(self)
        values = {
            name: parameter.default for name, parameter in arguments(type(self)).items()
        } | self._given
        for name in PRESENTATION:
            values.pop(name, None)
        for name in values:
            if name in attributes:
                values[name] = attributes[name]
        return values

    @property
    def reductions(self) -> dict[str, Reduction]:
        """How each state is combined with that of another process, by name."""
        return {
            name: REDUCTIONS[function] for name, function in self._reductions.items()
        }

    def fingerprint(self) -> Fingerprint:
        """Return the facts that values depend on.

        When there are states, no argument is open any more.
        """
        tensors = self.metric_state
        fingerprint = self._fingerprint
        if fingerprint is None or fingerprint.states.keys() != tensors.keys():
            states = {}
            for name, state in tensors.items():
                states[name] = f"{shape_of(state)} under {self.reductions[name]}"
            settings = {
                name: identity(value) for name, value in self.settings().items()
            }
            fingerprint = self._fingerprint = Fingerprint(
                type(self).__qualname__, settings, states
            )
        return fingerprint

    # over processes

    def _sync_dist(
        self,
        dist_sync_fn: Callable[..., Any] = gather_all_tensors,
        process_group: Any = None,
    ) -> None:
        """Replace the states by the states over all processes."""
        own = self.metric_state
        self._cache, self._computed = {**own}, None  # no copies: states are replaced
        try:
            states, group = self._over_processes, process_group or self.process_group
            if dist_sync_fn is not gather_all_tensors:
                states = gathered(
                    type(self).__name__, states_of(self), dist_sync_fn, group
                )
            elif states is None:
                whole = group or distributed.group.WORLD
                (states,) = over_processes(
                    type(self).__name__, self._metric_states(), whole, self.device
                )
            vars(self).update(states)
        except BaseException:
            vars(self).update(own)
            self._cache = None
            raise

    @property
    def will_send(self) -> bool:
        """Whether this library will add up states over processes in ``compute``.

        False where a user's ``dist_sync_fn`` does it.
        """
        if not self._to_sync or self._is_synced or self.dist_sync_fn is not None:
            return False
        return bool(self.distributed_available_fn())

    @contextmanager
    def over_all_processes(self) -> Iterator[None]:
        """Hold the states of all processes within the context, if ``compute`` would."""
        if self._to_sync and not self._is_synced and self.distributed_available_fn():
            self._computed = None  # another process may have added a batch
        with self.sync_context(self.dist_sync_fn, should_sync=self._to_sync):
            yield

    # copies and pickles

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy with states of its own and the process group of this metric."""
        if self.process_group is not None:
            memo[id(self.process_group)] = self.process_group
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        copy.__setstate__(deepcopy(super().__getstate__(), memo))
        return copy

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return no arguments.

        TorchMetrics would pass each letter of the ``repr`` as an argument.
        """
        return ()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle, without the process group."""
        state = super().__getstate__() | {"_over_processes": None}
        if state["process_group"] is not None:
            warn(
                f"{type(self).__name__}: process_group is not pickled, since a group "
                "belongs to its process; set metric.process_group = group after "
                "loading, or the metric adds up over all processes.",
                stacklevel=2,
            )
        return state | {"process_group": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the pickled attributes, with states of its own.

        Tensors that ``torch.multiprocessing`` sends share memory with the sender, and
        several processes would add to one state.
        """
        super().__setstate__(state)
        for name, state_tensor in self.metric_state.items():
            if state_tensor.untyped_storage().is_shared():
                vars(self)[name] = state_tensor.clone()

    # loading and moving

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *others: Any
    ) -> None:
        self.check_own_states("load_state_dict")
        _, strict, missing_keys, _, error_msgs = others
        entries = entries_under(state_dict, prefix)
        has_own_states = not entries.keys().isdisjoint(self._defaults)
        problem = None
        if strict and entries:
            problem = problem_with_names(self, entries, prefix.removesuffix("."))
        elif strict:
            missing_keys += [
                prefix + name
                for name, is_persistent in self._persistent.items()
                if is_persistent
            ]
        if problem is None and has_own_states:
            problem = problem_with_states(states_of(self), entries)
            if problem is not None:
                problem += (
                    "; the states are of a metric with other arguments or "
                    "other buckets."
                )
        if problem is not None:
            error_msgs.append(f"{type(self).__name__}.load_state_dict: {problem}")
            return

        super()._load_from_state_dict(state_dict, prefix, *others)
        if has_own_states:
            for name in self._defaults:  # the checkpoint keeps its own tensors
                setattr(self, name, getattr(self, name).to(self.device, copy=True))
            self._computed = None
            self._update_count = max(1, self._update_count)

    def set_dtype(self, dst_type: Any) -> Self:
        """Return itself unchanged: states are whole numbers at any precision."""
        return self

    def _apply(  # type: ignore[override]  # TorchMetrics has exclude_state where torch has recurse
        self, fn: Any, exclude_state: Sequence[str] = "", recurse: bool = True
    ) -> Self:
        """Move the states, and drop the computed value.

        A computed value would be rounded to the precision of a model.

        ``to_empty`` does not set the memory of tensors. So states get their values
        back; states on ``meta``, which had no memory, become 0.
        """
        self._computed = None
        self._forward_cache = None
        before = self.metric_state
        super()._apply(fn, exclude_state)
        if _keeps_values(fn) and not any(state.is_meta for state in before.values()):
            return self
        for name, state in self.metric_state.items():
            _restore(state, before[name])
            self._defaults[name] = state.new_zeros(()).expand(state.shape)
        return self

    __hash__ = torch.nn.Module.__hash__
    """The identity of the object: TorchMetrics' hash changes whenever a state does."""


def _keeps_values(fn: Callable[[Tensor], Tensor]) -> bool:
    """Whether a function that moves tensors keeps values, unlike ``to_empty``."""
    probe = torch.tensor([randbits(62)], dtype=torch.int64, device="cpu")
    moved = fn(probe)
    return not moved.is_meta and moved.tolist() == probe.tolist()


def _restore(state: Tensor, before: Tensor) -> None:
    """Write the values of ``before`` into a moved state; 0 if it has no memory."""
    if state.is_meta:
        return
    if before.is_meta:
        state.zero_()
    else:
        state.copy_(before)


def states_of(metric: ExactMetric) -> MetricStates:
    """Return the states, their reductions and the fingerprint of a metric."""
    return MetricStates(metric.fingerprint(), metric.metric_state, metric.reductions)


def check_room(metric: ExactMetric) -> None:
    """Raise if a sum of a metric is so large that further batches may not fit into it.

    States on a device are not looked at, because the program would wait.
    """
    reductions = metric.reductions
    for name, state in metric.metric_state.items():
        if state.is_cpu:
            largest = largest_of(state, reductions[name])
            check_fits(f"{type(metric).__name__}.update", largest)


def entries_under(state_dict: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries whose names begin with a prefix, by their names without it."""
    entries = {}
    for name, value in state_dict.items():
        if name.startswith(prefix):
            entries[name.removeprefix(prefix)] = value
    return entries


def problem_with_names(
    metric: ExactMetric, entries: Mapping[str, Any], member: str
) -> str | None:
    """Return why loaded states are not all states of a metric; None if they are.

    Args:
        metric: The metric.
        entries: The loaded states by name.
        member: The name of the metric in its collection or model; empty outside.
    """
    kind = type(metric).__name__
    if not entries:
        place = f" ({member!r})" if member else ""
        return (
            f"state_dict holds no state of {kind}{place}; call persistent(True) of the "
            "metric or collection before state_dict()."
        )
    own_names = list(metric.metric_state)
    if not own_names:
        return (
            f"{kind} is not bound yet, and has no states; call bind(frequency) before "
            "load_state_dict."
        )

    missing = [name for name in own_names if name not in entries]
    if not missing:
        return None
    others = [name for name in entries if name not in own_names]
    if not others:
        return f"{missing[0]} is missing; pass all that state_dict() returned."
    remedy = (
        "Make this metric with the same arguments, buckets, counts and number "
        "of labels."
    )
    if vars(metric).get("num_labels") is None:
        remedy += (
            " It is not bound, and knows no number of labels: call bind(frequency) "
            "first if the other one was."
        )
    return (
        "the states are of a metric with other arguments or other buckets, or of "
        f"another number of labels: {others[0]}, and not {missing[0]}. {remedy}"
    )


def start_batch(metric: ExactMetric) -> None:
    """Replace the states by 0 for a batch.

    :func:`end_batch` adds the earlier states again.
    """
    vars(metric).update(
        {name: torch.zeros_like(state) for name, state in metric.metric_state.items()}
    )


def value_of_batch(metric: ExactMetric) -> Any:
    """Return the value of the states since :func:`start_batch`.

    With ``dist_sync_on_step``, it is the value over all processes.
    """
    vars(metric).update(_to_sync=metric.dist_sync_on_step, _computed=None)
    value = vars(metric)["_forward_cache"] = metric.compute()
    return value


def end_batch(metric: ExactMetric, before: Mapping[str, Any]) -> None:
    """Add the states since :func:`start_batch` to the states before it.

    Args:
        metric: The metric.
        before: Its attributes before that call.
    """
    states = states_of(metric)
    totals = {}
    for name, state in states.states.items():
        totals[name] = COMBINE[states.reductions[name]](state, before[name])
    vars(metric).update(totals, _computed=None, _to_sync=metric.sync_on_compute)


def writable(state: Tensor) -> Tensor:
    """Return a state that can be changed in place.

    A state after a reset under ``inference_mode`` cannot be, and is copied.
    """
    if state.is_inference():
        return state.clone()
    return state


@contextmanager
def sent_together(caller: str, metrics: Sequence[ExactMetric]) -> Iterator[None]:
    """Send the states of metrics over processes at once, for ``compute`` to use.

    Args:
        caller: The name that errors begin with.
        metrics: Those that are to be computed, in the same order on every process; a
            state of several is sent once.
    """
    groups = grouped(
        ((metric.process_group or distributed.group.WORLD, metric.device), metric)
        for metric in metrics
    )
    ordered_groups = sorted(groups.items(), key=lambda item: order_of(item[0][0]))
    try:
        for (group, device), members in ordered_groups:
            totals = over_processes(
                caller, [states_of(metric) for metric in members], group, device
            )
            for metric, states in zip(members, totals, strict=True):
                # setting an attribute of a module costs twenty times as much
                vars(metric)["_over_processes"] = states
        yield
    finally:
        for metric in metrics:
            vars(metric)["_over_processes"] = None
