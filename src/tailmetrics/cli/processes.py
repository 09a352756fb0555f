"""The processes that share an evaluation: one process, the processes of torchrun, or tasks of Ray, Spark or Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib import import_module
from os import environ
from socket import gethostname
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import distributed

from tailmetrics._arguments import check_count
from tailmetrics.cli.messages import REPORTED, CommandError
from tailmetrics.cli.options import DataOptions, EvaluateOptions
from tailmetrics.engines.cluster import Work
from tailmetrics.evaluation.row_values import from_all
from tailmetrics.io.files import find
from tailmetrics.io.formats import format_of_parts
from tailmetrics.io.reading import Opening

PATIENCE = timedelta(days=1)
"""The time that a rank waits for the others, which may have longer rows; torchrun notices a rank that dies."""

SAID = 300
"""The most characters shown of an engine's error."""
SHARES_PER_CORE = 2
"""With two shares per core, a share that is repeated delays the result half as much as with one."""


@dataclass(frozen=True)
class Ranks:
    """One of the processes that share an evaluation.

    Attributes:
        rank: Number of this process.
        world_size: Number of processes.
        device: The device on which this process computes.
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
        """Raise an error of any rank on all ranks, so that no rank waits for a rank that has stopped.

        Every rank must enter this context, and no rank may wait for others inside it.
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

    def check_same(self, facts: Mapping[str, Any]) -> None:
        """Raise on all ranks if the facts of a rank differ from the facts of the first; call this on every rank.

        Args:
            facts: The facts of this rank, by name.

        Raises:
            CommandError: If a fact differs; the error names the fact and the rank.
        """
        first, *others = self.all((gethostname(), dict(facts)))
        for rank, (host, found) in enumerate(others, start=1):
            for name in {**first[1], **found}:
                here, there = first[1].get(name), found.get(name)
                if here != there:
                    problem = f"{name}: process {rank} on {host} has {there}, but process 0 on {first[0]} has {here}"
                    raise CommandError(problem, "all machines must see the same files: copy them again.")

    def all(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks; every rank gets the same list."""
        return [value] if self.world_size == 1 else from_all(value)


def launched() -> tuple[int, int]:
    """Return the rank of this process and the number of processes, as torchrun sets them; 0 and 1 without torchrun."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= environ.keys():
        return 0, 1
    return int(environ["RANK"]), int(environ["WORLD_SIZE"])


@contextmanager
def joined_processes(device: str) -> Iterator[Ranks]:
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


@contextmanager
def progress(what: str, total: float, ranks: Ranks) -> Iterator[Callable[..., None]]:
    """Show progress on the terminal of the first rank. Yields a function that takes the part of ``total`` done."""
    console = Console(stderr=True)
    hidden = not (ranks.is_first and console.is_terminal)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, doing=what: bar.update(task, completed=done, description=doing)


class Engine:
    """The cluster of Ray, Spark or Dask: its tasks evaluate shares of the rows, and each task opens the files itself.

    Args:
        options: The options that name the engine and the number of shares.
        data: The options that name the files.
        ranks: This process, which must be the only one.

    Raises:
        CommandError: If the engine is not installed, or if options ask for results that an engine cannot give.
    """

    def __init__(self, options: EvaluateOptions, data: DataOptions, ranks: Ranks) -> None:
        self._name, self._shares = str(options.engine), options.shares
        if ranks.world_size > 1:
            raise CommandError("--engine runs in one process, but torchrun started several", "leave torchrun out.")
        kept = {
            "--per-row": options.per_row,
            "--intervals": options.intervals,
            "--clusters": options.clusters,
            "--device cuda": options.device != "cpu",
        }
        asked = next((name for name, value in kept.items() if value), None)
        if asked is not None:
            problem = f"--engine returns sums, no values per row, and computes on CPUs: {asked} is not possible"
            raise CommandError(problem, f"leave {asked} out, or run it under torchrun.")
        path = str(options.preds)
        parts = find(path).parts
        opening = Opening(parts[0].path, None, data.columns)
        if format_of_parts("--engine", parts, data.preds_format or data.format, opening).has_queries:
            problem = f"{path}: lines name their query, so that no share of them can be evaluated alone"
            raise CommandError(problem, "leave --engine out, or write one row per query with list columns.")
        if options.shares is not None:
            check_count("--shares", "shares", options.shares)
        try:
            import_module({"spark": "pyspark", "dask": "distributed"}.get(self._name, self._name))
        except ModuleNotFoundError as error:
            problem = f"--engine {self._name}: the package {error.name} is not installed"
            raise CommandError(problem, f"pip install 'tailmetrics[{self._name}]'.") from error
        self._cluster = import_module(f"tailmetrics.engines.{self._name}").CLUSTER

    def total(self, counter: Any, add: Callable[[Any, Ranks], None]) -> Any:
        """Return the counter with the sums of all tasks.

        Args:
            counter: An evaluation or label counts, which have counted nothing.
            add: Function that adds the share of one process to a counter; it must be picklable.
        """
        try:
            cores = self._cluster.connect()
            shares = self._shares or SHARES_PER_CORE * cores
            work = Work(counter, ("id",), partial(_add_shares, add=add, shares=shares), (*Work.refuses, CommandError))
            result = self._cluster.total(self._cluster.numbers(shares), work)
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            problem = f"--engine {self._name}: {type(error).__name__}: {' '.join(lines[:2])[:SAID]}"
            raise CommandError(problem, f"see the log of {self._name}, or leave --engine out.") from error
        return work.counted(result)


def _add_shares(counter: Any, batch: Any, *, add: Callable[[Any, Ranks], None], shares: int) -> None:
    for number in batch["id"].to_pylist():
        add(counter, Ranks(number, shares, torch.device("cpu")))
