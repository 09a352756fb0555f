"""How many places of lists show labels that training holds for the same row, such as items that a user has bought."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tailmetrics.evaluation.row_values import from_all
from tailmetrics.ranking import Ranking

if TYPE_CHECKING:
    from tailmetrics.io import Dataset, TargetDataset

SAMPLED = 1000
"""At most this many rows of each process are looked at: a share of 10,000 places is known to a percent."""
PLACES = 10
"""The places of a list that are looked at, as many as users commonly see."""
MANY = 0.01
"""From this share of the places on, a report has a note."""


class SeenLabels:
    """Counts the places of lists that show a label which training holds for the same row.

    Args:
        rows: Shape (P,), int64: row numbers.
        labels: Shape (P,), int64: labels that training holds for these rows.
        hint: How labels of training are left out, in words.
    """

    def __init__(self, rows: Tensor, labels: Tensor, hint: str) -> None:
        self._rows, self._pairs, self._hint = torch.unique(rows), torch.stack([rows, labels], dim=1), hint
        self._places = self._seen = 0

    @classmethod
    def of(cls, dataset: Dataset, train: TargetDataset | None, hint: str) -> SeenLabels | None:
        """Return the labels that training holds for rows of a data set; call it in every process.

        It is None if rows have no names in one of the files, if labels are filtered, or if no name is in both files.
        """
        if train is None or train.row_names is None or dataset.row_names is None or dataset.ignored is not None:
            return None
        import pyarrow as pa
        import pyarrow.compute as pc

        from tailmetrics.io.database import arrow_names

        stop = min(train.stop, train.start + SAMPLED)
        names = arrow_names(train.row_names[train.start : stop]), arrow_names(dataset.row_names)
        place = pc.index_in(names[0].cast(pa.large_string()), value_set=names[1].cast(pa.large_string()))
        row = torch.tensor(place.fill_null(-1).to_pylist(), dtype=torch.int64)
        parts = [(torch.empty(0, dtype=torch.int64),) * 2]
        if bool((row >= 0).any()):
            for batch in replace(train, stop=stop):
                which, labels = _entries(batch.target)
                rows = row[batch.rows[which] - train.start]
                parts.append((rows[rows >= 0], labels[rows >= 0]))
        rows, labels = (
            torch.cat(side) for side in zip(*[one for part in from_all(parts) for one in part], strict=True)
        )
        return cls(rows, labels, hint) if len(rows) else None

    def update(self, ranking: Ranking, rows: Tensor) -> None:
        """Count the places of a batch; ``rows`` are the row numbers."""
        known = torch.isin(rows, self._rows)
        if not bool(known.any()):
            return
        ids = ranking.ids[known.to(ranking.ids.device), :PLACES].cpu()
        mine = self._pairs[torch.isin(self._pairs[:, 0], rows)]
        width = 1 + int(max(ids.max(), mine[:, 1].max()))
        shown = (rows[known][:, None] * width + ids)[ids >= 0]
        self._places += len(shown)
        self._seen += int(torch.isin(shown, mine[:, 0] * width + mine[:, 1]).sum())

    def note(self) -> tuple[str, ...]:
        """Return a note if many places show such labels, over all processes; call it in every process."""
        places, seen = map(sum, zip(*from_all((self._places, self._seen)), strict=True))
        if seen <= MANY * places:
            return ()
        return (
            f"{seen / places:.0%} of the first {PLACES} places show what training holds for the same row. If that is "
            f"not to be shown again, {self._hint}.",
        )


def _entries(target: Any) -> tuple[Tensor, Tensor]:
    """Return the row in the batch, and the label, of each label of training targets."""
    if target.is_sparse_csr:
        rows = torch.arange(len(target)).repeat_interleave(target.crow_indices().diff())
        return rows, target.col_indices()
    ids = target if target.ndim == 2 else target[:, None]
    rows, place = (ids >= 0).nonzero(as_tuple=True)
    return rows, ids[rows, place]
