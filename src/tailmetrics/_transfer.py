"""Layer 0: combine the states of several metrics over processes.

States are sent in one call for each kind of reduction. Before that, processes compare
their metrics in a call of fixed size. If metrics differ, every process raises an error;
no states are added up, and no process waits for another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import sha256
from struct import unpack
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, distributed
from torchmetrics.utilities.data import dim_zero_max, dim_zero_sum

from tailmetrics._arguments import shape_of

# facts that two metrics must have in common


def identity(value: Any) -> str:
    """Return a text that differs if values differ, the same in every process.

    For unknown objects it tells only their type and digest.
    """
    if isinstance(value, (str, int, float, type(None))):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(identity, value))})"
    if isinstance(value, Mapping):
        items = [
            f"{identity(name)}:{identity(item)}" for name, item in sorted(value.items())
        ]
        return f"({','.join(items)})"
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    return f"{type(value).__qualname__} {getattr(value, 'digest', '')}"


def digest_of(value: Any) -> str:
    """Return 16 hexadecimal digits of :func:`identity`, for a name."""
    return sha256(identity(value).encode()).hexdigest()[:16]


class Fingerprint(NamedTuple):
    """The facts that two metrics must share before their states may be added up.

    Attributes:
        metric: The name of the class.
        arguments: The value of each argument that numbers depend on, as
            :func:`identity` writes it. A SHA-256 stands for buckets and counts.
        states: What each state is, in their order: type, shape and reduction, by name.
    """

    metric: str
    arguments: Mapping[str, str]
    states: Mapping[str, str]


def difference(
    first: Sequence[Fingerprint],
    second: Sequence[Fingerprint],
    first_place: str,
    second_place: str,
    names: Sequence[str] = (),
) -> str | None:
    """Return how the members of two collections differ; None if they do not differ.

    Args:
        first: The fingerprint of each member.
        second: The fingerprint of each member of the other collection.
        first_place: Where ``first`` is: ``"here"``, ``"on process 0"``.
        second_place: Where ``second`` is.
        names: What the members of ``first`` are called, where they have names.
    """
    if len(first) == len(second) == 1:
        return _difference(first[0], second[0], first_place, second_place)
    for number, (member, other_member) in enumerate(zip(first, second, strict=False)):
        text = _difference(member, other_member, first_place, second_place)
        if text is None:
            continue
        name = f"member {number + 1}"
        if names:
            name += f" ({names[number]!r})"
        if member.metric == other_member.metric:
            name += f", {member.metric}"
        return f"{name}: {text}"
    if len(first) != len(second):
        return (
            f"there are {_class_names(first)} {first_place} and "
            f"{_class_names(second)} {second_place}"
        )
    return None


def _class_names(members: Sequence[Fingerprint]) -> str:
    return ", ".join(member.metric for member in members) or "no metric"


def _difference(
    member: Fingerprint, other: Fingerprint, place: str, other_place: str
) -> str | None:
    """Return a text that says how two metrics differ; None if they do not differ."""
    if member.metric != other.metric:
        return f"it is {member.metric} {place} and {other.metric} {other_place}"
    text = _different_values("", member.arguments, other.arguments, place, other_place)
    if not text:
        text = _different_values(
            "the state ", member.states, other.states, place, other_place
        )
    if text:
        return text
    if list(member.states) != list(other.states):
        return f"the states stand in another order {other_place}"
    return None


def _different_values(
    kind: str,
    values: Mapping[str, str],
    others: Mapping[str, str],
    place: str,
    other_place: str,
) -> str:
    """Return a text that names the values that differ; empty if all are equal."""
    texts = []
    for name in {**values, **others}:
        value, other = values.get(name), others.get(name)
        if value != other:
            texts.append(
                f"{kind}{name} is {_short(value)} {place} and {_short(other)} "
                f"{other_place}"
            )
    return ", ".join(texts)


def _short(value: str | None) -> str:
    """Return a value for a message; digests are cut to their first digits."""
    if value is None:
        return "missing"
    return re.sub(r"\b([0-9a-f]{8})[0-9a-f]{56}\b", r"\1…", value)


# states and their sizes

Reduction: TypeAlias = Literal["sum", "max"]

REDUCTIONS: Final[dict[Any, Reduction]] = {dim_zero_sum: "sum", dim_zero_max: "max"}
"""The name of each reduction, by the function that TorchMetrics stores for it."""

COMBINE: Final[dict[Reduction, Callable[[Tensor, Tensor], Tensor]]] = {
    "sum": torch.add,
    "max": torch.maximum,
}
"""What makes one state of two, by reduction."""


@dataclass(frozen=True, eq=False)
class MetricStates:
    """The states of one metric on one process.

    Attributes:
        fingerprint: What its numbers depend on.
        states: Its states by name. Metrics that share a state hold one tensor, which is
            sent once.
        reductions: How processes are put together, for each state.
    """

    fingerprint: Fingerprint
    states: Mapping[str, Tensor]
    reductions: Mapping[str, Reduction]


LARGEST: Final = 2**62
"""The largest number that a state may hold: half of the largest int64.

The rows of a batch then still fit.
"""

UNIT: Final = 2**20
"""The unit in which processes add up their largest numbers, rounded up.

The sum of states itself could wrap.
"""


def largest_of(state: Tensor, reduction: Reduction) -> int:
    """Return the largest absolute value in a sum; 0 for ``max``, which cannot grow."""
    if reduction != "sum" or not state.numel():
        return 0
    lowest, highest = torch.aminmax(state)
    return max(abs(int(lowest)), abs(int(highest)))


def check_fits(caller: str, largest: int) -> None:
    """Raise ValueError if a number is too large for a state.

    A sum beyond int64 would become negative.
    """
    if largest > LARGEST:
        raise ValueError(
            f"{caller}: a state would hold a number of up to {largest:,}; it has room "
            f"for {LARGEST:,}, which is enough for 7·10^10 rows. Nothing was changed: "
            "compute the values of fewer rows at once."
        )


def problem_with_states(metric: MetricStates, others: Mapping[str, Any]) -> str | None:
    """Return why ``others`` cannot be states of a metric; None if they can."""
    for name, state in metric.states.items():
        if name not in others:
            return f"{name} is missing"
        other = others[name]
        if not isinstance(other, Tensor) or shape_of(other) != shape_of(state):
            return f"{name} is {shape_of(other)}, but {shape_of(state)} is needed"
        largest = largest_of(other, metric.reductions[name])
        if largest > LARGEST:
            return f"{name} holds {largest:,}, more than a state has room for"
    return None


def merged(
    caller: str, metric: MetricStates, others: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the states of a metric combined with states of the same shapes.

    Raises:
        ValueError: If a sum does not fit into a state.
    """
    states = {}
    for name, state in metric.states.items():
        reduction = metric.reductions[name]
        other = others[name].to(state.device)
        check_fits(caller, largest_of(state, reduction) + largest_of(other, reduction))
        states[name] = COMBINE[reduction](state, other)
    return states


# over processes


def num_processes() -> int:
    """Return the number of processes of the default process group; 1 without one."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return distributed.get_world_size()


def over_processes(
    caller: str, metrics: Sequence[MetricStates], group: Any, device: torch.device
) -> list[dict[str, Tensor]]:
    """Return the states of each metric over all processes of a group.

    Call the function in each process of the group. It takes two collectives, three
    where there are states under ``max``. The memory does not depend on how many
    processes there are.

    Args:
        caller: The name that errors begin with.
        metrics: What each metric holds here, the same metrics in the same order on
            every process.
        group: The process group.
        device: Where the metrics are.

    Raises:
        ValueError: On every process, if the metrics of two processes differ.
    """
    if distributed.get_rank(group) < 0:
        raise ValueError(
            f"{caller}: process {distributed.get_rank()} is not in process_group; "
            "compute in the processes of the group only, or pass "
            "sync_on_compute=False here."
        )
    if not _share_alike(caller, metrics, group, device):
        metrics = [_with_own_states(metric) for metric in metrics]
    states_by_kind = _states_by_kind(metrics)
    total_of_state: dict[int, Tensor] = {}
    # all processes send in the same order
    for reduction, dtype in sorted(states_by_kind, key=str):
        states = states_by_kind[reduction, dtype]
        totals = _reduced(caller, states, reduction, dtype, group)
        for state, total in zip(states, totals, strict=True):
            total_of_state[id(state)] = total

    states_over_processes = []
    for metric in metrics:
        states_over_processes.append(
            {name: total_of_state[id(state)] for name, state in metric.states.items()}
        )
    return states_over_processes


def _states_by_kind(
    metrics: Sequence[MetricStates],
) -> dict[tuple[Reduction, torch.dtype], list[Tensor]]:
    """Return the states that are sent together, by reduction and type, each once."""
    states_by_kind: dict[tuple[Reduction, torch.dtype], list[Tensor]] = {}
    seen_states = set()
    for metric in metrics:
        for name, state in metric.states.items():
            if id(state) in seen_states:
                continue
            seen_states.add(id(state))
            dtype = state.dtype
            if dtype == torch.bool:
                # gloo and nccl reduce uint8 and int64, but not bool
                dtype = torch.uint8
            states_by_kind.setdefault((metric.reductions[name], dtype), []).append(
                state
            )
    return states_by_kind


def _reduced(
    caller: str,
    states: Sequence[Tensor],
    reduction: Reduction,
    dtype: torch.dtype,
    group: Any,
) -> list[Tensor]:
    """Return states over all processes, sent as one vector of one type.

    Sums are sent with their largest number.
    """
    flat_states = [state.detach().reshape(-1).to(dtype) for state in states]
    packed = torch.cat(flat_states)
    if not packed.numel():
        return list(states)
    if reduction == "sum":
        largest_in_units = packed.abs().amax().reshape(1) // UNIT + 1
        packed = torch.cat([packed, largest_in_units])
        distributed.all_reduce(packed, op=distributed.ReduceOp.SUM, group=group)
        check_fits(caller, int(packed[-1]) * UNIT)
        packed = packed[:-1]
    else:
        distributed.all_reduce(packed, op=distributed.ReduceOp.MAX, group=group)

    reduced_states = []
    sizes = [state.numel() for state in states]
    for state, flat_state in zip(states, torch.split(packed, sizes), strict=True):
        reduced_states.append(flat_state.view(state.shape).to(state.dtype))
    return reduced_states


def _with_own_states(metric: MetricStates) -> MetricStates:
    """Return copies of states, so that each is sent on its own."""
    states = {name: state.clone() for name, state in metric.states.items()}
    return replace(metric, states=states)


def _share_alike(
    caller: str, metrics: Sequence[MetricStates], group: Any, device: torch.device
) -> bool:
    """Return whether the same states are shared on every process.

    They are not if a member of a collection was used alone on one process. Digests are
    the same if the largest is the smallest.

    Raises:
        ValueError: On every process, unless all have the same fingerprints.
    """
    text = json.dumps([metric.fingerprint for metric in metrics]).encode()
    places: dict[int, int] = {}
    first_places: list[int] = []
    for metric in metrics:
        for state in metric.states.values():
            first_places.append(places.setdefault(id(state), len(first_places)))

    digests = [sha256(text), sha256(json.dumps(first_places).encode())]
    words = [word for digest in digests for word in unpack(">8I", digest.digest())]
    negative_words = [-word for word in words]
    ends = torch.tensor([*words, *negative_words], device=device)
    distributed.all_reduce(ends, op=distributed.ReduceOp.MAX, group=group)
    are_equal = (ends[: len(words)] == -ends[len(words) :]).tolist()
    if all(are_equal[:8]):
        return all(are_equal[8:])

    num_processes = distributed.get_world_size(group)
    texts: list[Any] = [None] * num_processes
    current_device = device if device.type == "cuda" else -1
    with torch.cuda.device(current_device):  # NCCL sends from the current device
        distributed.all_gather_object(texts, text, group=group)
    ranks = [
        distributed.get_global_rank(group, place) for place in range(num_processes)
    ]
    raise _disagreement(caller, texts, ranks)


def _disagreement(
    caller: str, texts: Sequence[bytes], ranks: Sequence[int]
) -> ValueError:
    """Return the error of processes of these ranks with these fingerprints as text."""
    place = next(place for place, text in enumerate(texts) if text != texts[0])
    first = [Fingerprint(*fields) for fields in json.loads(texts[0])]
    second = [Fingerprint(*fields) for fields in json.loads(texts[place])]
    text = difference(
        first, second, f"on process {ranks[0]}", f"on process {ranks[place]}"
    )
    return ValueError(
        f"{caller}: processes do not hold the same metrics, so nothing was added up: "
        f"{text}. Make the same metrics, with the same arguments, buckets and counts, "
        "in the same order on every process."
    )


def gathered(
    caller: str, metric: MetricStates, gather: Callable[..., Any], group: Any
) -> dict[str, Tensor]:
    """Return the states of a metric over all processes, gathered by ``gather``.

    ``gather``, a ``dist_sync_fn``, returns the tensor of each process.

    Raises:
        ValueError: On every process, if the metrics of two processes differ.
    """
    text = json.dumps([metric.fingerprint]).encode()
    device = next(iter(metric.states.values())).device
    length_and_digest = torch.tensor([len(text), *sha256(text).digest()], device=device)
    lengths_and_digests = gather(length_and_digest, group=group)
    first = lengths_and_digests[0]
    if not all(torch.equal(other, first) for other in lengths_and_digests):
        longest = max(int(other[0]) for other in lengths_and_digests)
        padded_text = text.ljust(longest)  # blanks behind JSON change nothing
        gathered_texts = gather(
            torch.tensor([*padded_text], device=device), group=group
        )
        texts = [bytes(letters.tolist()) for letters in gathered_texts]
        raise _disagreement(caller, texts, range(len(texts)))

    states = {}
    for name, state in metric.states.items():
        reduction = metric.reductions[name]
        process_states = gather(state, group=group)
        check_fits(
            caller,
            sum(
                largest_of(process_state, reduction) for process_state in process_states
            ),
        )
        states[name] = reduce(COMBINE[reduction], process_states)
    return states


def order_of(group: Any) -> tuple[Any, ...]:
    """Return a sort key by which all processes use groups in one order.

    So no process waits for another group.
    """
    if distributed.get_rank(group) < 0:
        return ([], "")
    return (
        distributed.get_process_group_ranks(group),
        str(getattr(group, "group_name", "")),
    )
