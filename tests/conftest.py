"""Paths that the tests share, the order in which they run, and settings that keep them
undisturbed.
"""

import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from zlib import crc32

# read by torch when it is loaded, here and in processes that tests start
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault(
    "OMP_WAIT_POLICY", "passive"
)  # threads without work sleep, where several test runs share the cores

import pytest

import processes
from pictures import blank_pictures as blank_pictures

sys.path.insert(0, str(Path(__file__).parent / "lightning"))
processes.context()  # before any test starts the server: what it loads, it loads once

MANY_CASES = 20
"""From this number of cases on, `make quick` runs about a fifth of them."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while ten thousand tests are collected: all of them stay, and
    each pass would visit all.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with slow tests first, so that of several workers none is left with a
    long file at the end.

    A test of many cases, such as one with a parameter named ``case`` that goes through
    a table of metrics, keeps its first case and about a fifth of the others for
    `make quick`. Which ones, differs from test to test, so that `make quick` tries each
    metric by some tests and `make test` by all.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    cases: dict[str, list[pytest.Function]] = {}
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and hasattr(item, "callspec")
            and not item.get_closest_marker("slow")
        ):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test_cases in cases.values():
        if len(test_cases) >= MANY_CASES or "case" in test_cases[0].callspec.params:
            for item in test_cases[1:]:
                if crc32(item.nodeid.encode()) % 5:
                    item.add_marker("slow")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Use one thread: small tensors gain nothing from several, and lose much if several
    test runs share the cores.
    """
    # not above: beside the workers of pytest-xdist their master reads this file, and
    # needs no torch
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
