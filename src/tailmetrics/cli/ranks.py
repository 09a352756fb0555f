"""The processes that share an evaluation: one, or those that torchrun started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from os import environ
from socket import gethostname
from typing import Any

import torch
from torch import distributed

from tailmetrics.cli.errors import REPORTED, CommandError

PATIENCE = timedelta(days=1)
"""How long a rank waits for the others, which may have longer rows; a rank that dies is torchrun's to notice."""


@dataclass(frozen=True)
class Ranks:
    """One process among those that share an evaluation.

    Attributes:
        rank: Number of this process.
        world_size: Number of processes.
        device: Where this process computes.
    """

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is the process that prints and writes the report."""
        return self.rank == 0

    @contextmanager
    def agreement(self) -> Iterator[None]:
        """Raise an error of any rank on all of them, so that none waits for one that has stopped.

        Every rank has to come by, and none may wait for others inside.
        """
        error: Exception | None = None
        try:
            yield
        except REPORTED as raised:
            error = raised
        found = self.all(error)
        first = next((one for one in found if one is not None), None)
        if first is not None:
            raise first

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks on the first one, and nothing on the others."""
        if self.world_size == 1:
            return [value]
        found: list[Any] | None = [None] * self.world_size if self.is_first else None
        distributed.gather_object(value, found)
        return found or []

    def check_same(self, facts: Mapping[str, Any]) -> None:
        """Raise on all ranks if one of them has found anything else than the first; call it on every rank.

        Args:
            facts: What was found, by what it is called.

        Raises:
            CommandError: Naming what differs, and on which rank.
        """
        first, *others = self.all((gethostname(), dict(facts)))
        for rank, (host, found) in enumerate(others, start=1):
            for name in {**first[1], **found}:
                here, there = first[1].get(name), found.get(name)
                if here != there:
                    problem = f"{name}: process {rank} on {host} has {there}, but process 0 on {first[0]} has {here}"
                    raise CommandError(problem, "all machines must see the same files: copy them again.")

    def all(self, value: Any) -> list[Any]:
        """Return the values of all ranks on each of them."""
        if self.world_size == 1:
            return [value]
        found: list[Any] = [None] * self.world_size
        distributed.all_gather_object(found, value)
        return found


def launched() -> tuple[int, int]:
    """Return the rank of this process and the number of processes, as torchrun says; 0 and 1 without it."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= environ.keys():
        return 0, 1
    return int(environ["RANK"]), int(environ["WORLD_SIZE"])


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """Join the other processes, if torchrun started any, and leave them at the end."""
    if device == "cuda" and not torch.cuda.is_available():
        raise CommandError("--device cuda: torch sees no GPU", "leave --device out to compute on the CPU.")
    place = torch.device(device, int(environ.get("LOCAL_RANK", "0"))) if device == "cuda" else torch.device(device)
    rank, world_size = launched()
    if world_size == 1:
        yield Ranks(rank, world_size, place)
        return
    if device == "cuda":
        torch.cuda.set_device(place)
    distributed.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Ranks(rank, world_size, place)
    finally:
        distributed.destroy_process_group()
