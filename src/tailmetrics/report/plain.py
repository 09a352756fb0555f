"""Values as plain data that strict JSON can hold."""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor


def plain(value: float) -> float | str | None:
    """Return a value that strict JSON can hold."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)


def summary_of_counts(counts: Tensor) -> dict[str, Any]:
    """Return what tells training counts apart, at any number of labels."""
    digest = sha256(counts.cpu().to(torch.int64).numpy().tobytes()).hexdigest()
    return {"labels": counts.numel(), "occurrences": int(counts.sum()), "sha256": digest}
