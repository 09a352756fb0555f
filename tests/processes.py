"""Processes of their own for tests: a server that forks has loaded torch and
TorchMetrics, and nothing of ours.
"""

import gc
import io
import multiprocessing
import os
import random
import socket
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from contextlib import redirect_stdout, suppress
from datetime import timedelta
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any


def context() -> BaseContext:
    """Return the start method of processes: forked from a server, or spawned where the
    system has no such server.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    server = multiprocessing.get_context("forkserver")
    # the second is most of what Lightning loads
    server.set_forkserver_preload(["torchmetrics", "torch._dynamo"])
    return server


def pool(workers: int) -> ProcessPoolExecutor:
    """Return processes, which look for no garbage in what the server has loaded."""
    return ProcessPoolExecutor(workers, mp_context=context(), initializer=gc.freeze)


def run_in_process(code: str, source: str | None = None) -> Any:
    """Run code in a process that has not imported the library, and return its variable
    ``result``.

    The library is imported from the folder ``source`` if given. An error of the code is
    raised here.
    """
    with pool(1) as process:
        return process.submit(_run, code, source).result()


def _run(code: str, source: str | None) -> Any:
    if source is not None:
        sys.path.insert(0, source)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(code, names)
    return names["result"]


def free_port() -> int:
    """Return a free port below 32,768, which the system hands out to nobody."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_768)
        with socket.socket() as free, suppress(OSError):
            free.bind(("localhost", port))
            return port


def results(futures: list[Future[Any]]) -> list[Any]:
    """Return the results of processes. If one fails, kill all, because others may wait
    for it without end.
    """
    done, _ = wait(futures, return_when=FIRST_EXCEPTION)
    for future in done:
        if future.exception() is not None:
            for process in multiprocessing.active_children():
                process.kill()
            future.result()
    return [future.result() for future in futures]


def as_rank(rank: int, port: int) -> dict[str, str]:
    """Return the environment that torchrun gives to one of two processes."""
    place = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": 2,
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": port,
    }
    return {name: str(value) for name, value in place.items()}


def printed_by_ranks(script: str, folder: Path) -> list[str]:
    """Run a script on two processes in a folder, as torchrun does, and return what each
    prints.
    """
    port = free_port()
    with pool(2) as processes:
        futures = [
            processes.submit(_printed, script, folder, as_rank(rank, port))
            for rank in (0, 1)
        ]
        return results(futures)


def _printed(script: str, folder: Path, environment: dict[str, str]) -> str:
    os.environ.update(environment)
    os.chdir(folder)
    with redirect_stdout(io.StringIO()) as output:
        exec(compile(script, "script.py", "exec"), {"__name__": "__main__"})
    return output.getvalue()


def run_on_ranks(
    work: Callable[[int, int], Any], world: int, folder: Path
) -> list[Any]:
    """Call a function of rank and world size on several gloo processes, which meet in a
    folder; return its results.

    The function is defined in a file, and returns no tensors, whose memory would end
    with its process.
    """
    with pool(world) as ranks:
        futures = [
            ranks.submit(_in_group, work, rank, world, f"file://{folder}/meet")
            for rank in range(world)
        ]
        return results(futures)


def _in_group(work: Callable[[int, int], Any], rank: int, world: int, meet: str) -> Any:
    import torch
    from torch import distributed

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    patience = timedelta(seconds=90)
    distributed.init_process_group(
        "gloo", init_method=meet, rank=rank, world_size=world, timeout=patience
    )
    result = work(rank, world)
    distributed.destroy_process_group()
    return result
