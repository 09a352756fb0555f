"""One weight per label, told from others by what it is made of."""

from __future__ import annotations

from hashlib import sha256

import torch
from torch import Tensor

from tailmetrics.ranking._device import real_dtype


class LabelWeights:
    """One weight per label; a ranking looks equal weights up once, whatever metrics ask for them.

    Args:
        values: Shape (L,), float64.
        remembered: Whether a ranking remembers what it looked up for equal weights.

    Attributes:
        digest: What tells these weights from others, the SHA-256 of the values; "" for weights that are not remembered.
    """

    def __init__(self, values: Tensor, remembered: bool = True) -> None:
        self._values = values
        self._on: dict[torch.device, Tensor] = {}
        self.digest = sha256(values.detach().cpu().contiguous().numpy().tobytes()).hexdigest() if remembered else ""

    @classmethod
    def of(cls, weights: LabelWeights | Tensor) -> LabelWeights:
        """Return weights given as a vector (L,) in this form; nothing is remembered of a vector, which may change."""
        return weights if isinstance(weights, LabelWeights) else cls(weights, remembered=False)

    def on(self, device: torch.device) -> Tensor:
        """Return the weights on a device, shape (L,), float64, or float32 where a device has no such type."""
        if device not in self._on:
            self._on[device] = self._values.detach().to(device, real_dtype(device))
        return self._on[device]
