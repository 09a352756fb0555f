"""Floor 0: a ``torchmetrics.Metric`` whose states go to other processes, metrics, machines and copies."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from warnings import warn

from torch import Tensor, distributed
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors
from typing_extensions import Self

from tailmetrics._arguments import PRESENTATION, arguments, identity
from tailmetrics._checks import shape_of
from tailmetrics._meaning import Meaning, difference
from tailmetrics._packed_sync import REDUCTIONS, Share, order_of, over_processes
from tailmetrics._travelling_states import from_bytes, to_bytes


class TravellingMetric(Metric, ABC):
    """States that are put together over processes in two or three collectives, and refused where they differ."""

    _given: dict[str, Any]
    """What the metric was given by name."""
    _known_meaning: Meaning | None = None
    _over_processes: Mapping[str, Tensor] | None = None
    """The states over all processes, while a collection computes that has sent them for all of its members."""

    def settings(self) -> dict[str, Any]:
        """Return the value of every argument that numbers depend on, by name; what ``bind`` completed included."""
        values = {name: parameter.default for name, parameter in arguments(type(self)).items()} | self._given
        values |= {name: vars(self)[name] for name in values if name in vars(self)}
        return {name: value for name, value in values.items() if name not in PRESENTATION}

    def add_state(self, *args: Any, **kwargs: Any) -> None:
        """Add a state, as ``torchmetrics.Metric`` does."""
        self._known_meaning = None
        super().add_state(*args, **kwargs)

    def _tensors(self) -> dict[str, Tensor]:
        """Return the states by name, themselves and not copies."""
        return {name: getattr(self, name) for name in self._defaults}

    def _meaning(self) -> Meaning:
        """Return what the numbers depend on; once there are states, all arguments are settled."""
        if self._known_meaning is not None:
            return self._known_meaning
        states = {
            name: f"{shape_of(state)} under {REDUCTIONS.get(self._reductions[name], 'another reduction')}"
            for name, state in self._tensors().items()
        }
        settings = {name: identity(value) for name, value in self.settings().items()}
        meaning = Meaning(type(self).__qualname__, settings, states)
        self._known_meaning = meaning if states else None
        return meaning

    def _share(self, states: Mapping[str, Tensor] | None = None) -> Share:
        """Return what the metric has to send: its states, or ``states`` that it shares with another."""
        reductions = {name: REDUCTIONS[reduction] for name, reduction in self._reductions.items()}
        return Share(self._meaning(), self._tensors() if states is None else states, reductions)

    # over processes

    @property
    def _travels_packed(self) -> bool:
        """Whether every state is a tensor of whole numbers under a sum or a maximum, as those of this library are."""
        states = self._tensors().values()
        whole = all(isinstance(state, Tensor) and not state.is_floating_point() for state in states)
        return whole and all(reduction in REDUCTIONS for reduction in self._reductions.values())

    def _sync_dist(self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any = None) -> None:
        """Replace the states by those over all processes; TorchMetrics has kept the states of this one."""
        own = self._tensors()
        self._cache = {**own}  # no copies: states are replaced
        try:
            if dist_sync_fn is not gather_all_tensors or not self._travels_packed:
                super()._sync_dist(dist_sync_fn, process_group)
                return
            states = self._over_processes
            if states is None:
                group = process_group or self.process_group or distributed.group.WORLD
                (states,) = over_processes(type(self).__name__, [self._share()], group, self.device)
            self._replace(states)
        except BaseException:
            self._replace(own)
            self._cache = None
            raise

    def _replace(self, states: Mapping[str, Any]) -> None:
        vars(self).update(states)  # setting an attribute of a module costs twenty times as much

    @property
    def _will_send(self) -> bool:
        """Whether states that are asked for are to be put together over processes, in the way of this library."""
        asked = self._to_sync and not self._is_synced and self.dist_sync_fn is None
        return asked and self._travels_packed and bool(self.distributed_available_fn())

    @contextmanager
    def _over_all_processes(self) -> Iterator[None]:
        """Hold the states of all processes for a while, if ``compute`` would."""
        was_synced = self._is_synced
        self.sync(dist_sync_fn=self.dist_sync_fn, should_sync=self._to_sync and not was_synced)
        try:
            yield
        finally:
            if self._is_synced and not was_synced:
                self.unsync()

    # to another metric

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the state of another metric of the same arguments, or its ``metric_state``.

        Raises:
            ValueError: If it is of other arguments, buckets or counts; the metric is then as before.
        """
        self._check_mergeable(incoming_state)
        states: dict[str, Any] = incoming_state.metric_state if isinstance(incoming_state, Metric) else incoming_state
        self._reduce_states({name: states[name].to(self.device) for name in self._defaults})
        self._computed = None
        self._update_count += incoming_state._update_count if isinstance(incoming_state, Metric) else 1

    def _check_mergeable(self, incoming: Any) -> None:
        caller = f"{type(self).__name__}.merge_state"
        if not isinstance(incoming, (dict, Metric)):
            raise ValueError(f"{caller}: got a {type(incoming).__name__}; pass a metric or its metric_state.")
        if self._is_synced:
            raise self._is_of_all_processes("merge_state")
        other = "the dict given"
        if isinstance(incoming, TravellingMetric):
            problem = difference([self._meaning()], [incoming._meaning()], "here", "there")
            other = f"those of {incoming!r}"
        elif isinstance(incoming, Metric):
            problem = f"it is no {type(self).__name__}"
            other = f"those of {incoming!r}"
        else:
            problem = self._problem_with(incoming)
        if problem is not None:
            raise ValueError(
                f"{caller}: {self!r} takes the states of a metric of the same arguments and buckets, not {other}: "
                f"{problem}."
            )

    def _problem_with(self, states: Mapping[str, Any]) -> str | None:
        """Say what keeps ``states`` from being those of this metric; None if nothing does."""
        for name, own in self._tensors().items():
            if name not in states:
                return f"{name} is missing"
            if not isinstance(states[name], Tensor) or shape_of(states[name]) != shape_of(own):
                return f"{name} is {shape_of(states[name])}, but {shape_of(own)} is needed"
        return None

    # to another machine

    def state_bytes(self) -> bytes:
        """Return the states of this process as bytes, for :meth:`load_state_bytes` of a metric of the same arguments.

        Tables of buckets and counts are not among them, only digests that tell whether the reader has the same ones.

        Raises:
            ValueError: Before :meth:`bind` has completed the metric.
        """
        self._check_has_states("state_bytes")
        return to_bytes([self._share()], [self._update_count])

    def load_state_bytes(self, data: bytes) -> None:
        """Replace the states by those that :meth:`state_bytes` returned on another machine.

        Raises:
            ValueError: If they are damaged, or of other arguments, buckets or counts; the metric is then as before.
        """
        self._check_has_states("load_state_bytes")
        ((states, updates),) = from_bytes(f"{type(self).__name__}.load_state_bytes", data, [self._share()])
        self._take(states, updates)

    def _check_has_states(self, method: str) -> None:
        caller = f"{type(self).__name__}.{method}"
        if not self._defaults:
            raise ValueError(f"{caller}: the metric has no states yet; call bind(frequency) first.")
        if not self._travels_packed:
            raise ValueError(f"{caller}: the metric has states of its own kind; pickle it instead.")
        if method != "state_bytes" and self._is_synced:
            raise self._is_of_all_processes(method)

    def _is_of_all_processes(self, method: str) -> ValueError:
        """Return the error that says that what is added between ``sync`` and ``unsync`` would be lost."""
        return ValueError(
            f"{type(self).__name__}.{method}: the states are those of all processes; call unsync() first."
        )

    def _take(self, states: Mapping[str, Tensor], updates: int) -> None:
        self._replace(states)
        self._computed = self._forward_cache = None
        self._update_count = updates

    # to a copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy with states of its own, and the process group of this metric."""
        if self.process_group is not None:
            memo[id(self.process_group)] = self.process_group
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        copy.__setstate__(deepcopy(super().__getstate__(), memo))
        return copy

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return no arguments: TorchMetrics would pass each letter of the ``repr`` as one."""
        return ()

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the process group, which belongs to this process."""
        state = super().__getstate__() | {"_over_processes": None}
        if state["process_group"] is not None:
            warn(
                f"{type(self).__name__}: process_group is not pickled, since a group belongs to its process; set "
                "metric.process_group = group after loading, or the metric adds up over all processes.",
                stacklevel=2,
            )
        return state | {"process_group": None}


def properties_of(cls: type) -> list[str]:
    """Return the names of the properties of a class: TorchScript would compile them, and is told not to."""
    return sorted({name for base in cls.__mro__ for name, one in vars(base).items() if isinstance(one, property)})


@contextmanager
def sent_together(caller: str, metrics: Sequence[tuple[TravellingMetric, Share]]) -> Iterator[None]:
    """Send the states of metrics over processes at once, for those that are going to, and have them used in compute.

    Args:
        caller: The name that errors begin with.
        metrics: Each metric that is to be computed with what it has to send, in the same order on every process.
    """
    groups: dict[tuple[Any, ...], list[tuple[TravellingMetric, Share, Any]]] = {}
    for metric, share in metrics:
        group = metric.process_group or distributed.group.WORLD
        groups.setdefault((id(group), metric.device), []).append((metric, share, group))
    several = len(groups) > 1
    in_order = sorted(groups.values(), key=lambda sent: order_of(sent[0][2])) if several else groups.values()
    try:
        for sent in in_order:
            shares = [share for _, share, _ in sent]
            found = over_processes(caller, shares, sent[0][2], sent[0][0].device)
            for (metric, _, _), states in zip(sent, found, strict=True):
                vars(metric).update(_over_processes=states)  # as in _replace
        yield
    finally:
        for metric, _ in metrics:
            vars(metric).update(_over_processes=None)
