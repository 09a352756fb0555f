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
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
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


MAGIC: Final = b"tailmetrics states \1"
"""What data begins with; the last byte is the version of the layout."""
LONGEST_JSON: Final = 2**24
"""Bytes of the fingerprints that are read: 16 MB, some thousand times those of a hundred metrics."""

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
"""The largest number that a state may hold, half of what int64 does: some 10^11 rows before a sum could wrap."""


def largest_of(state: Tensor) -> int:
    """Return the largest absolute value in a state."""
    return max(abs(int(end)) for end in torch.aminmax(state)) if state.numel() else 0


def check_fits(caller: str, largest: int) -> None:
    """Raise if a sum of states may be larger than a state can hold: it would wrap to a number below 0."""
    if largest > LARGEST:
        raise ValueError(
            f"{caller}: a state would hold up to {largest:,}, but int64 adds up without error to {LARGEST:,} only, the "
            "counts of about 7·10^10 rows; nothing was added. Compute the values of fewer rows at once."
        )


def merged(caller: str, held: MetricStates, others: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the states of a metric put together with states of the same shapes.

    Raises:
        ValueError: If a sum does not fit into a state.
    """
    found = {}
    for name, state in held.states.items():
        other = others[name].to(state.device)
        if held.reductions[name] == "max":
            found[name] = torch.maximum(state, other)
        else:
            check_fits(caller, largest_of(state) + largest_of(other))
            found[name] = state + other
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
        packed = torch.cat([state.detach().reshape(-1).to(dtype) for state in states])
        if packed.numel():
            operation = distributed.ReduceOp.SUM if reduction == "sum" else distributed.ReduceOp.MAX
            distributed.all_reduce(packed, op=operation, group=group)
        parts = zip(states, torch.split(packed, [state.numel() for state in states]), strict=True)
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
    other = next(place for place, one in enumerate(texts) if one != texts[0])
    first, second = (f"on process {distributed.get_global_rank(group, place)}" for place in (0, other))
    here, there = ([Fingerprint(*one) for one in json.loads(texts[place])] for place in (0, other))
    differs = difference(here, there, first, second)
    raise ValueError(
        f"{caller}: processes do not hold the same metrics, so nothing was added up: {differs}. Make the same metrics, "
        "with the same arguments, buckets and counts, in the same order on every process."
    )


def order_of(group: Any) -> tuple[Any, ...]:
    """Return a key by which all processes put their groups into one order, so that none waits for another's group."""
    if distributed.get_rank(group) < 0:
        return ([], "")
    return (distributed.get_process_group_ranks(group), str(getattr(group, "group_name", "")))


def to_bytes(held: Sequence[MetricStates], updates: Sequence[int]) -> bytes:
    """Return the states and the number of updates of each metric as bytes."""
    about = {"metrics": [one.fingerprint for one in held], "updates": list(updates)}
    packer = zlib.compressobj(1)
    packed = [packer.compress(json.dumps(about).encode() + b"\n")]
    for state in _once_each(held):
        array = state.detach().cpu().contiguous().numpy()
        packed.append(packer.compress(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()))
    data = b"".join([*packed, packer.flush()])
    return MAGIC + sha256(data).digest() + data


def from_bytes(
    caller: str, data: Any, held: Sequence[MetricStates], names: Sequence[str] = ()
) -> list[tuple[dict[str, Tensor], int]]:
    """Return the states of each metric, and its number of updates.

    Args:
        caller: The name that errors begin with.
        data: What :func:`to_bytes` returned.
        held: The metrics that are to have the states, in their order.
        names: What they are called, where they have names.

    Raises:
        TypeError: If ``data`` is not bytes.
        ValueError: If ``data`` is damaged, or of other metrics.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"{caller}: data is a {type(data).__name__}; pass the bytes that state_bytes() returned.")
    damaged = ValueError(
        f"{caller}: data is not what state_bytes() of this release returned; pass those bytes unchanged."
    )
    own = _once_each(held)
    sizes = [state.nbytes for state in own]
    given, start = bytes(data), len(MAGIC) + 32
    if given[:start] != MAGIC + sha256(given[start:]).digest():
        raise damaged
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(given[start:], LONGEST_JSON + sum(sizes))  # whatever it would unpack to
        start = found.index(b"\n") + 1
        about = json.loads(found[:start])
        fingerprints = [Fingerprint(*one) for one in about["metrics"]]
        updates = [int(count) for count in about["updates"]]
    except (KeyError, TypeError, ValueError, zlib.error):
        raise damaged from None
    differs = difference([one.fingerprint for one in held], fingerprints, "here", "in data", names)
    if differs is not None:
        raise ValueError(
            f"{caller}: data holds the states of other metrics: {differs}. Load them where the same metrics were made, "
            "with the same arguments, buckets and counts, in the same order."
        )
    if len(found) != start + sum(sizes) or not unpacker.eof:
        raise damaged
    ends = accumulate(sizes, initial=start)
    states = {id(state): _state(found, begin, state) for begin, state in zip(ends, own, strict=False)}
    return [
        ({name: states[id(state)] for name, state in one.states.items()}, count)
        for one, count in zip(held, updates, strict=True)
    ]


def _once_each(held: Sequence[MetricStates]) -> list[Tensor]:
    return list({id(state): state for one in held for state in one.states.values()}.values())


def _state(data: bytes, start: int, like: Tensor) -> Tensor:
    dtype = torch.empty(0, dtype=like.dtype).numpy().dtype
    array = np.frombuffer(data, dtype.newbyteorder("<"), like.numel(), start).astype(dtype)
    return torch.from_numpy(array).view(like.shape).to(like.device)
