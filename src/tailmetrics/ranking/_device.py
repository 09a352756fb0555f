"""Which of two forms runs: the fast one, which may look at values, or the plain one, which never waits for a device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_plain = ContextVar("plain", default=False)


def may_look(device: torch.device) -> bool:
    """Whether reading a value costs nothing: on the CPU. Elsewhere it would make the program wait for the device."""
    return device.type == "cpu" and not _plain.get()


@contextmanager
def force_plain() -> Iterator[None]:
    """Run the plain forms on the CPU too, for tests that both give the same bits."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def real_dtype(device: torch.device) -> torch.dtype:
    """Return float64, or float32 where a device has no such type."""
    return torch.float32 if device.type == "mps" else torch.float64
