"""One pass over the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tailmetrics import TopKCollection
from tailmetrics.cli.errors import CommandError, describe
from tailmetrics.cli.progress import progress
from tailmetrics.cli.ranks import Ranks
from tailmetrics.io import Batch, DataFileError, Dataset
from tailmetrics.ranking import Ranking


def stream(
    dataset: Dataset, collection: TopKCollection, ranks: Ranks, use: Callable[[Tensor, Ranking], None], what: str
) -> None:
    """Rank this rank's rows a batch at a time, and hand on the numbers of the rows and their ranking.

    Raises:
        CommandError: If a metric refuses a batch.
    """
    with progress(what, dataset.stop - dataset.start, ranks) as advance:
        for batch in dataset:
            try:
                use(batch.rows, _ranked(batch, dataset, collection, ranks.device))
            except DataFileError:
                raise
            except ValueError as error:
                problem, hint = describe(error)
                rows = f"rows {int(batch.rows[0])} to {int(batch.rows[-1])}"
                raise CommandError(f"{dataset.preds.path}, {rows}: {problem}", hint) from error
            advance(len(batch.rows))


def _ranked(batch: Batch, dataset: Dataset, collection: TopKCollection, device: torch.device) -> Ranking:
    preds, target = batch.preds, batch.target
    moved = tuple(part.to(device) for part in preds) if isinstance(preds, tuple) else preds.to(device)
    repeats: dict[str, Any] = {} if dataset.duplicates == "error" else {"duplicates": dataset.duplicates}
    return collection.rank(moved, target.to(device), **repeats)
