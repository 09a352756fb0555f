"""Rows that samplers repeat, and loaders that are not split over the processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
)

from tailmetrics.ranking import NOT_RANKED, Ranking

UNSPLIT = (
    "several processes ranked the same rows of a loader: each row counts several "
    "times, intervals are too narrow, and metrics over the catalogue are wrong. Let "
    "Lightning split the loader (use_distributed_sampler=True), split a stream by "
    "trainer.global_rank, or return a row mask."
)
"""Note of a report on a loader whose rows are not split over the processes."""


class SamplerPadding:
    """Finds the rows that a distributed sampler repeats to fill its last round.

    With n rows and w processes, process r gets the places r, r + w, r + 2w, …. Places
    from n on hold repeated rows, whether or not the sampler shuffles.

    Args:
        loader: The loader; None if a step gets batches of several loaders.

    Attributes:
        sampler: The distributed sampler; None, and no repeated row, if there is none.
    """

    def __init__(self, loader: Any) -> None:
        batch_sampler = getattr(loader, "batch_sampler", None)
        self.sampler: DistributedSampler[Any] | None = None
        for sampler in (
            getattr(loader, "sampler", None),
            getattr(batch_sampler, "sampler", None),
        ):
            if self.sampler is None and isinstance(sampler, DistributedSampler):
                self.sampler = sampler
        self._batch_size: int | None = None
        if type(batch_sampler) is BatchSampler and isinstance(
            batch_sampler.batch_size, int
        ):
            self._batch_size = batch_sampler.batch_size
        self._rows_before = 0

    def first_seen(self, rows: int, step: str, masked: bool) -> Tensor | None:
        """Return a mask of the next batch that is False for repeated rows, or None.

        None means that no row is repeated, or that the step changed the number of rows
        and masks them itself.

        Args:
            rows: Number of rows that the step returned.
            step: Name of the step, for the error message.
            masked: Whether the step returned a row mask. If it also changed the number
                of rows, its mask has to drop repeated rows.

        Raises:
            ValueError: If the batch holds repeated rows, and the step changed the
                number of rows without a row mask.
        """
        if self.sampler is None:
            return None
        drawn = rows
        if self._batch_size is not None:
            drawn = min(self._batch_size, self.sampler.num_samples - self._rows_before)
        places = (
            self._rows_before + torch.arange(drawn)
        ) * self.sampler.num_replicas + self.sampler.rank
        self._rows_before += drawn

        is_first: Tensor = places < len(self.sampler.dataset)  # type: ignore[arg-type] # a sampler needs a length
        if bool(is_first.all()) or (rows != drawn and masked):
            return None
        if rows != drawn:
            raise ValueError(
                f"HeadToTailReport: {step} returned {rows} rows for a batch of "
                f"{drawn}, of which the distributed sampler repeats "
                f"{int((~is_first).sum())}; return one row for each row of the batch, "
                "or also a row mask that is False for rows made from repeated ones "
                "(row_mask= of the callback names its key)."
            )
        return is_first

    def skip(self, step: str) -> None:
        """Move on by a batch for which the step returned None.

        Raises:
            ValueError: If a batch sampler of the user's own decides how many rows the
                batch has.
        """
        if self.sampler is None:
            return
        if self._batch_size is None:
            raise ValueError(
                f"HeadToTailReport: {step} returned None, and the batch sampler does "
                "not say how many rows the batch has, which is needed to find the "
                "rows that the distributed sampler repeats; return the batch with a "
                "row mask that is False for all of its rows."
            )
        self._rows_before += min(
            self._batch_size, self.sampler.num_samples - self._rows_before
        )


class UnsplitCheck:
    """Finds out once whether several processes rank the same rows of a loader.

    Such rows count several times.

    A distributed sampler splits the rows. Without one, the processes compare a number
    of the rows that they ranked, which does not depend on the order of the rows.

    Args:
        loader: The loader; None if a step gets batches of several loaders.
        num_processes: The number of processes.

    Attributes:
        is_open: Whether the processes have still to compare what they ranked.
        number: The number of the rows of this process, shape (), int64; None before the
            first row.
    """

    def __init__(self, loader: Any, num_processes: int) -> None:
        self.is_open = num_processes > 1 and SamplerPadding(loader).sampler is None
        self.number: Tensor | None = None
        sampler = getattr(loader, "sampler", None)
        self._in_random_order = isinstance(
            sampler, (RandomSampler, SubsetRandomSampler)
        )

    def read_batch(self, ranking: Ranking) -> None:
        """Add the rows of a batch; no value leaves its device."""
        if not self.is_open or not ranking.num_rows:
            return
        numbers = _numbers_of_rows(ranking)
        if (
            not self._in_random_order
            and ranking.scores is not None
            and ranking.scores.layout == torch.strided
        ):
            # in other batches, the last bits of the scores may differ
            sums = ranking.scores.detach().sum(dim=1, dtype=torch.float32)
            numbers = numbers + sums.view(torch.int32)
        numbers = _scattered(numbers)
        if ranking.row_mask is not None:
            numbers = numbers * ranking.row_mask

        labels, counts = ranking.targets.kernels.occurrences(ranking.targets)
        number = numbers.sum() + (_scattered(labels) * counts).sum()
        self.number = number if self.number is None else self.number + number


def _numbers_of_rows(ranking: Ranking) -> Tensor:
    """Return a hash of the list and the hits of each row, shape (N,), int64."""
    places = torch.arange(1, ranking.depth + 1, device=ranking.ids.device)
    hits = ranking.hits
    hit_numbers = _scattered(_scattered(hits.ranks) + hits.ids)
    hit_numbers = hit_numbers.masked_fill(hits.ranks == NOT_RANKED, 0)
    list_numbers = _scattered(_scattered(places) + ranking.ids)
    return list_numbers.sum(dim=1) + hit_numbers.sum(dim=1) + ranking.n_relevant


def _scattered(numbers: Tensor) -> Tensor:
    """Return int64 numbers of which half of the bits differ where the inputs differ.

    Source: the mixing function of SplitMix64 (Steele, Lea and Flood 2014), with shifts
    that keep the sign.
    """
    numbers = (numbers ^ (numbers >> 30)) * -4658895280553007687
    numbers = (numbers ^ (numbers >> 27)) * -7723592293110705685
    return numbers ^ (numbers >> 31)
