"""Processes of their own for tests: torch and TorchMetrics are loaded once, by a server that forks; nothing of ours is."""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import BaseContext
from typing import Any


def context() -> BaseContext:
    """How a process is started: forked from the server, or where a system cannot do that, anew."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["torchmetrics"])
    return found


def found_by(code: str, source: str | None = None) -> Any:
    """Run code in a process that has not imported the library, which is taken from the folder ``source`` if given.

    Returns what the code names ``found``; what it raises is raised here.
    """
    with ProcessPoolExecutor(1, mp_context=context()) as process:
        return process.submit(_run, code, source).result()


def _run(code: str, source: str | None) -> Any:
    if source is not None:
        sys.path.insert(0, source)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(code, names)
    return names["found"]
