"""Layer 0: the states of several metrics, put together over processes or written as bytes.

Over processes, states are sent in one call for each kind of reduction. Processes agree first, in a call of fixed size,
that they hold the same metrics; only then do they send states, so that what differs raises everywhere instead of being
added up, and no process waits for one that sends something else.

As bytes, states can be read by any machine. No table of buckets or counts is among them, only what tells whether the
reader has the same ones, and nothing in them is executed. Layout: ``MAGIC``, SHA-256 of the rest (32 bytes), and a zlib
stream of a line of JSON and the states one behind the other, little-endian.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from struct import unpack
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, distributed
from torchmetrics.utilities.data import dim_zero_max, dim_zero_sum


def identity(value: Any) -> str:
    """Return a text that differs where values differ, the same in every process; of unknown objects, their type."""
    if isinstance(value, (str, int, float, type(None))):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(identity, value))})"
    if isinstance(value, Mapping):
        return f"({','.join(f'{identity(name)}:{identity(one)}' for name, one in sorted(value.items()))})"
    if isinstance(value, (Tensor, np.ndarray)):
        array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        return f"{array.dtype}{array.shape}{sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}"
    return f"{type(value).__qualname__} {getattr(value, 'digest', '')}"


def digest_of(value: Any) -> str:
    """Return 16 hexadecimal digits of :func:`identity`, for a name."""
    return sha256(identity(value).encode()).hexdigest()[:16]


class Fingerprint(NamedTuple):
    """What two metrics must have in common before their states may be put together.

    Attributes:
        metric: The name of the class.
        arguments: The value of each argument that numbers depend on, as :func:`identity` writes it. A
            SHA-256 stands for buckets and counts.
        states: What each state is, in their order: type, shape and reduction, by name.
    """

    metric: str
    arguments: Mapping[str, str]
    states: Mapping[str, str]


def difference(
    first: Sequence[Fingerprint],
    second: Sequence[Fingerprint],
    of_first: str,
    of_second: str,
    names: Sequence[str] = (),
) -> str | None:
    """Return in words in what the members of two collections differ; None where they do not.

    Args:
        first: The fingerprint of each member.
        second: The fingerprint of each member of the other collection.
        of_first: Where ``first`` was found: ``"here"``, ``"on process 0"``.
        of_second: Where ``second`` was found.
        names: What the members of ``first`` are called, where they have names.
    """
    if len(first) == len(second) == 1:
        return _difference(first[0], second[0], of_first, of_second)
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        found = _difference(one, other, of_first, of_second)
        if found is not None:
            name = f" ({names[number]!r})" if names else ""
            kind = f", {one.metric}" if one.metric == other.metric else ""
            return f"member {number + 1}{name}{kind}: {found}"
    if len(first) != len(second):
        listed = (", ".join(one.metric for one in some) or "no metric" for some in (first, second))
        return f"there are {next(listed)} {of_first} and {next(listed)} {of_second}"
    return None


def _difference(one: Fingerprint, other: Fingerprint, of_one: str, of_other: str) -> str | None:
    if one.metric != other.metric:
        return f"it is {one.metric} {of_one} and {other.metric} {of_other}"
    kinds = (("", one.arguments, other.arguments), ("the state ", one.states, other.states))
    for what, ours, theirs in kinds:
        different = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        if different:
            parts = (
                f"{what}{name} is {_short(ours.get(name))} {of_one} and {_short(theirs.get(name))} {of_other}"
                for name in different
            )
            return ", ".join(parts)
    if list(one.states) != list(other.states):
        return f"the states stand in another order {of_other}"
    return None


def _short(value: str | None) -> str:
    """Return a value for a message; of a digest the beginning."""
    return "missing" if value is None else re.sub(r"\b([0-9a-f]{8})[0-9a-f]{56}\b", r"\1…", value)


Reduction: TypeAlias = Literal["sum", "max"]

REDUCTIONS: Final[dict[Any, Reduction]] = {dim_zero_sum: "sum", dim_zero_max: "max"}
"""What TorchMetrics made of the name of a reduction."""


@dataclass(frozen=True, eq=False)
class MetricStates:
    """The states of one metric on one process.

    Attributes:
        fingerprint: What its numbers depend on.
        states: Its states by name. Metrics that share a state hold one tensor, which is sent once.
        reductions: How processes are put together, for each state.
    """

    fingerprint: Fingerprint
    states: Mapping[str, Tensor]
    reductions: Mapping[str, Reduction]


LARGEST: Final = 2**62
"""The largest number that a state may hold, half of what int64 does: an update finds room for the rows of its batch."""
UNIT: Final = 2**20
"""Processes add up their largest numbers in this unit, rounded up: this sum cannot wrap as that of states might."""


def largest_of(state: Tensor, reduction: Reduction = "sum") -> int:
    """Return the largest absolute value in a sum; 0 for a state under ``max``, which does not grow."""
    return max(abs(int(end)) for end in torch.aminmax(state)) if reduction == "sum" and state.numel() else 0


def check_fits(caller: str, largest: int) -> None:
    """Raise if a state may hold a number of this size: int64 would soon make a number below 0 of it."""
    if largest > LARGEST:
        raise ValueError(
            f"{caller}: a state would hold a number of up to {largest:,}; it has room for {LARGEST:,}, which is enough "
            "for 7·10^10 rows. Nothing was changed: compute the values of fewer rows at once."
        )


def merged(caller: str, held: MetricStates, others: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the states of a metric put together with states of the same shapes.

    Raises:
        ValueError: If a sum does not fit into a state.
    """
    found = {}
    for name, state in held.states.items():
        other = others[name].to(state.device)
        reduction = held.reductions[name]
        check_fits(caller, largest_of(state, reduction) + largest_of(other, reduction))
        found[name] = state + other if reduction == "sum" else torch.maximum(state, other)
    return found


def over_processes(
    caller: str, held: Sequence[MetricStates], group: Any, device: torch.device
) -> list[dict[str, Tensor]]:
    """Return the states of each metric over all processes of a group; call it in each of them.

    Two collectives, three where there are states under ``max``. The memory does not depend on the number of processes.

    Args:
        caller: The name that errors begin with.
        held: What each metric holds here, the same metrics in the same order on every process.
        group: The process group.
        device: Where the metrics are.

    Raises:
        ValueError: On every process, if the metrics of one process differ from those of another.
    """
    if distributed.get_rank(group) < 0:
        raise ValueError(
            f"{caller}: process {distributed.get_rank()} is not in process_group; compute in the processes of the "
            "group only, or pass sync_on_compute=False here."
        )
    _check_agreement(caller, [one.fingerprint for one in held], group, device)
    totals: dict[int, Tensor] = {}
    for (reduction, dtype), states in sorted(_by_kind(held).items(), key=lambda item: str(item[0])):
        packed, is_sum = torch.cat([state.detach().reshape(-1).to(dtype) for state in states]), reduction == "sum"
        sizes = [state.numel() for state in states]
        if packed.numel():
            if is_sum:
                packed = torch.cat([packed, packed.abs().amax().reshape(1) // UNIT + 1])
            operation = distributed.ReduceOp.SUM if is_sum else distributed.ReduceOp.MAX
            distributed.all_reduce(packed, op=operation, group=group)
            if is_sum:
                check_fits(caller, int(packed[-1]) * UNIT)
        parts = zip(states, torch.split(packed[: sum(sizes)], sizes), strict=True)
        totals |= {id(state): part.view(state.shape).to(state.dtype) for state, part in parts}
    return [{name: totals[id(state)] for name, state in one.states.items()} for one in held]


def _by_kind(held: Sequence[MetricStates]) -> dict[tuple[Reduction, torch.dtype], list[Tensor]]:
    """Return the states that travel together, each tensor once."""
    kinds: dict[tuple[Reduction, torch.dtype], dict[int, Tensor]] = {}
    for one in held:
        for name, state in one.states.items():
            reduction = one.reductions[name]
            flags = reduction == "max" and state.dtype in (torch.bool, torch.uint8)
            travels = torch.uint8 if flags else torch.int64  # which gloo and nccl both reduce
            kinds.setdefault((reduction, travels), {})[id(state)] = state
    return {kind: list(states.values()) for kind, states in kinds.items()}


def _check_agreement(caller: str, fingerprints: Sequence[Fingerprint], group: Any, device: torch.device) -> None:
    """Raise on every process unless all have the same fingerprints: the largest and the smallest digest are one."""
    text = json.dumps(fingerprints).encode()
    words = unpack(">8I", sha256(text).digest())
    sent = torch.tensor([*words, *(-word for word in words)], device=device)
    distributed.all_reduce(sent, op=distributed.ReduceOp.MAX, group=group)
    found = sent.tolist()
    if found[:8] == [-word for word in found[8:]]:
        return
    texts: list[Any] = [None] * distributed.get_world_size(group)
    with torch.cuda.device(device if device.type == "cuda" else -1):  # NCCL sends from the current one; -1 is none
        distributed.all_gather_object(texts, text, group=group)
    raise _disagreement(caller, texts, [distributed.get_global_rank(group, place) for place in range(len(texts))])


def _disagreement(caller: str, texts: Sequence[bytes], ranks: Sequence[int]) -> ValueError:
    """Return the error of processes of these ranks, given the fingerprints of each as text."""
    other = next(place for place, one in enumerate(texts) if one != texts[0])
    here, there = ([Fingerprint(*one) for one in json.loads(texts[place])] for place in (0, other))
    differs = difference(here, there, f"on process {ranks[0]}", f"on process {ranks[other]}")
    return ValueError(
        f"{caller}: processes do not hold the same metrics, so nothing was added up: {differs}. Make the same metrics, "
        "with the same arguments, buckets and counts, in the same order on every process."
    )


def gathered(caller: str, held: MetricStates, gather: Callable[..., Any], group: Any) -> dict[str, Tensor]:
    """Return the states of a metric over all processes by a function that returns the tensor of each, ``dist_sync_fn``.

    Raises:
        ValueError: On every process, if the metric of one process differs from that of another.
    """
    text = json.dumps([held.fingerprint]).encode()
    device = next(iter(held.states.values())).device
    digests = gather(torch.tensor([len(text), *sha256(text).digest()], device=device), group=group)
    if any(not torch.equal(one, digests[0]) for one in digests):
        padded = text.ljust(max(int(one[0]) for one in digests))  # JSON ends in blanks as well as without
        texts = gather(torch.tensor([*padded], device=device), group=group)
        raise _disagreement(caller, [bytes(one.tolist()) for one in texts], range(len(texts)))
    found = {}
    for name, state in held.states.items():
        parts, reduction = gather(state, group=group), held.reductions[name]
        check_fits(caller, sum(largest_of(part, reduction) for part in parts))
        found[name] = torch.stack(parts).sum(dim=0) if reduction == "sum" else torch.stack(parts).amax(dim=0)
    return found


def order_of(group: Any) -> tuple[Any, ...]:
    """Return a key by which all processes put their groups into one order, so that none waits for another's group."""
    if distributed.get_rank(group) < 0:
        return ([], "")
    return (distributed.get_process_group_ranks(group), str(getattr(group, "group_name", "")))
