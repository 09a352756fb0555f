"""What depends on a device: the type of real numbers, and whether kernels are plain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

FORCED = [False]


@contextmanager
def force_plain() -> Iterator[None]:
    """Use the plain kernels also on the CPU.

    Tests compare their bits with those of the CPU kernels.
    """
    before, FORCED[0] = FORCED[0], True
    try:
        yield
    finally:
        FORCED[0] = before


def real_dtype(device: torch.device) -> torch.dtype:
    """Return float64, or float32 if the device has no float64."""
    if device.type == "mps":
        return torch.float32
    return torch.float64
