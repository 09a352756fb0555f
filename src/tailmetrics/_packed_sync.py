"""Floor 0: the states of several metrics put together over processes, in one call for each kind of reduction.

Processes agree first, in a call of fixed size, that they hold the same metrics; only then do they send states, so that
what differs raises everywhere instead of being added up, and no process waits for one that sends something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from struct import unpack
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import Tensor, distributed
from torchmetrics.utilities.data import dim_zero_max, dim_zero_sum

from tailmetrics._meaning import Meaning, as_text, difference, from_text

Reduction: TypeAlias = Literal["sum", "max"]

REDUCTIONS: Final[dict[Any, Reduction]] = {dim_zero_sum: "sum", dim_zero_max: "max"}
"""What TorchMetrics made of the name of a reduction."""


@dataclass(frozen=True, eq=False)
class Share:
    """What one metric holds on one process.

    Attributes:
        meaning: What its numbers depend on.
        states: Its states by name. Metrics that share a state hold one tensor, which is sent once.
        reductions: How processes are put together, for each state.
    """

    meaning: Meaning
    states: Mapping[str, Tensor]
    reductions: Mapping[str, Reduction]


def over_processes(caller: str, shares: Sequence[Share], group: Any, device: torch.device) -> list[dict[str, Tensor]]:
    """Return the states of each metric over all processes of a group; call it in each of them.

    Two collectives, three where there are states under ``max``. The memory does not depend on the number of processes.

    Args:
        caller: The name that errors begin with.
        shares: What each metric holds here, the same metrics in the same order on every process.
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
    _check_agreement(caller, [share.meaning for share in shares], group, device)
    totals: dict[int, Tensor] = {}
    for (reduction, dtype), states in sorted(_by_kind(shares).items(), key=lambda item: str(item[0])):
        totals |= _reduced(states, reduction, dtype, group)
    return [{name: totals[id(state)] for name, state in share.states.items()} for share in shares]


def _by_kind(shares: Sequence[Share]) -> dict[tuple[Reduction, torch.dtype], list[Tensor]]:
    """Return the states that travel together, each tensor once."""
    kinds: dict[tuple[Reduction, torch.dtype], dict[int, Tensor]] = {}
    for share in shares:
        for name, state in share.states.items():
            reduction = share.reductions[name]
            flags = reduction == "max" and state.dtype in (torch.bool, torch.uint8)
            travels = torch.uint8 if flags else torch.int64  # which gloo and nccl both reduce
            kinds.setdefault((reduction, travels), {})[id(state)] = state
    return {kind: list(states.values()) for kind, states in kinds.items()}


def _reduced(states: Sequence[Tensor], reduction: Reduction, dtype: torch.dtype, group: Any) -> dict[int, Tensor]:
    packed = torch.cat([state.detach().reshape(-1).to(dtype) for state in states])
    if packed.numel():
        operation = distributed.ReduceOp.SUM if reduction == "sum" else distributed.ReduceOp.MAX
        distributed.all_reduce(packed, op=operation, group=group)
    parts = torch.split(packed, [state.numel() for state in states])
    return {id(state): part.view(state.shape).to(state.dtype) for state, part in zip(states, parts, strict=True)}


def _check_agreement(caller: str, meanings: Sequence[Meaning], group: Any, device: torch.device) -> None:
    """Raise on every process unless all have the same meanings: the largest and the smallest digest are one."""
    text = as_text(meanings).encode()
    words = unpack(">8I", sha256(text).digest())
    sent = torch.tensor([*words, *(-word for word in words), len(text)], device=device)
    distributed.all_reduce(sent, op=distributed.ReduceOp.MAX, group=group)
    *found, longest = sent.tolist()
    if found[:8] == [-word for word in found[8:]]:
        return
    texts = _texts_of_all(text, longest, group, device)
    other = next(place for place, one in enumerate(texts) if one != texts[0])
    first, second = (f"on process {distributed.get_global_rank(group, place)}" for place in (0, other))
    differs = difference(from_text(texts[0]), from_text(texts[other]), first, second)
    raise ValueError(
        f"{caller}: processes do not hold the same metrics, so nothing was added up: {differs}. Make the same metrics, "
        "with the same arguments, buckets and counts, in the same order on every process."
    )


def _texts_of_all(text: bytes, longest: int, group: Any, device: torch.device) -> list[str]:
    """Return the text of each process, in a call that only processes make which know already that they differ."""
    sent = torch.zeros(longest, dtype=torch.uint8)
    sent[: len(text)] = torch.tensor(list(text), dtype=torch.uint8)
    sent = sent.to(device)
    received = [torch.empty_like(sent) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(received, sent, group=group)
    return [bytes(one.tolist()).rstrip(b"\0").decode() for one in received]


def order_of(group: Any) -> tuple[Any, ...]:
    """Return a key by which all processes put their groups into one order, so that none waits for another's group."""
    if distributed.get_rank(group) < 0:
        return ([], "")
    return (distributed.get_process_group_ranks(group), str(getattr(group, "group_name", "")))
