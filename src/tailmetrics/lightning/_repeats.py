"""Rows that a distributed sampler repeats to fill its last round."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DistributedSampler


class Repeats:
    """Tells repeated rows of a loader, batch by batch.

    Of ``n`` rows over ``w`` processes, process ``r`` gets the places r, r + w, r + 2w, …; places from n on are
    repeats, shuffled or not.

    Args:
        loader: What gives the batches; None where that is not one loader.
    """

    def __init__(self, loader: Any) -> None:
        batches = getattr(loader, "batch_sampler", None)
        samplers = (getattr(loader, "sampler", None), getattr(batches, "sampler", None))
        self._sampler = next((one for one in samplers if isinstance(one, DistributedSampler)), None)
        size = batches.batch_size if type(batches) is BatchSampler else None
        self._batch_size = size if isinstance(size, int) else None
        self._before = 0

    def once(self, rows: int, step: str, masked: bool) -> Tensor | None:
        """Return a mask of the rows of the next batch that are no repeats, None where that is all of them.

        Args:
            rows: Number of rows that the step returned.
            step: Its name, for the message.
            masked: Whether it returned a row mask, too.

        Raises:
            ValueError: If a batch holds repeats, and the step returned another number of rows than it got.
        """
        if self._sampler is None:
            return None
        drawn = rows if self._batch_size is None else min(self._batch_size, self._sampler.num_samples - self._before)
        places = (self._before + torch.arange(drawn)) * self._sampler.num_replicas + self._sampler.rank
        self._before += drawn
        once: Tensor = places < len(self._sampler.dataset)  # type: ignore[arg-type] # a sampler needs a length
        if bool(once.all()) or (rows != drawn and masked):
            return None
        if rows != drawn:
            raise ValueError(
                f"HeadToTailReport: {step} returned {rows} rows for a batch of {drawn}, of which the distributed "
                f"sampler repeats {int((~once).sum())}; return one row for each, or a row mask that is False where a "
                "repeated row went in (row_mask= is the name of its key)."
            )
        return once
