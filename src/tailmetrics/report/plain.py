"""Values as plain data that strict JSON can hold."""

from __future__ import annotations

import math
from typing import Any
from zlib import crc32

import torch
from torch import Tensor


def plain(value: float) -> float | str | None:
    """Return a value that strict JSON can hold."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)


def summary_of_counts(counts: Tensor) -> dict[str, Any]:
    """Return what tells training counts apart, at any number of labels."""
    digest = f"{crc32(counts.cpu().to(torch.int64).numpy().tobytes()):08x}"
    return {"labels": counts.numel(), "occurrences": int(counts.sum()), "crc32": digest}
