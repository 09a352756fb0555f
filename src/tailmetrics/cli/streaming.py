"""One pass over the rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tailmetrics import TopKCollection
from tailmetrics.cli.errors import CommandError, describe
from tailmetrics.cli.progress import progress
from tailmetrics.cli.ranks import Ranks
from tailmetrics.cli.row_groups import RowGroups
from tailmetrics.io import Batch, DataFileError, Dataset
from tailmetrics.ranking import Ranking


def stream(
    dataset: Dataset,
    collection: TopKCollection,
    ranks: Ranks,
    use: Callable[[Tensor, Ranking], None],
    what: str,
    groups: RowGroups | None = None,
) -> None:
    """Rank this rank's rows a batch at a time, and hand on the numbers of the rows and their ranking.

    Raises:
        CommandError: If a metric refuses a batch.
    """
    with progress(what, dataset.stop - dataset.start, ranks) as advance:
        for batch in dataset:
            try:
                _check_gains(batch.target, dataset, collection)
                of_rows = None if groups is None else groups.of(batch.rows)
                use(batch.rows, _ranked(batch, collection, ranks.device, of_rows))
            except DataFileError:
                raise
            except ValueError as error:
                problem, hint = describe(error)
                rows = f"rows {int(batch.rows[0])} to {int(batch.rows[-1])}"
                raise CommandError(f"{dataset.preds.path}, {rows}: {problem}", hint) from error
            advance(len(batch.rows))


def _check_gains(target: Tensor, dataset: Dataset, collection: TopKCollection) -> None:
    """Raise if a metric asks for gains above 1 of targets that only say what is relevant: it would find nothing."""
    least = max((getattr(metric, "min_gain", None) or 0 for metric in collection.members().values()), default=0)
    is_matrix = target.layout == torch.sparse_csr or target.shape[-1] == dataset.columns
    if least > 1 and (target.dtype == torch.bool or not (target.is_floating_point() or is_matrix)):
        problem = f"holds no gains, so that none reaches min_gain={least:g}"
        hint = "leave min_gain out: without gains every label listed is relevant."
        raise DataFileError(dataset.target.path, problem, hint=hint)


def _ranked(batch: Batch, collection: TopKCollection, device: torch.device, groups: Tensor | None) -> Ranking:
    preds, target = batch.preds, batch.target
    moved = tuple(part.to(device) for part in preds) if isinstance(preds, tuple) else preds.to(device)
    return collection.rank(moved, target.to(device), row_groups=None if groups is None else groups.to(device))
