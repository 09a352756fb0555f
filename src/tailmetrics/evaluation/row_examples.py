"""Example rows for a report: for each bucket, a row that misses a label of the bucket.

A row is chosen by a hash of its list and its relevant labels. So batches, processes and the order of rows make no
difference to the examples, and memory does not grow with the number of rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from operator import index
from typing import NamedTuple

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.evaluation.row_values import from_all
from tailmetrics.ranking import Ranking
from tailmetrics.report.report import Example, ExampleLabel
from tailmetrics.significance.labels import mixed

FEW = 5
"""Number of examples if there is one bucket, or none."""
RELEVANT = 12
"""Largest number of relevant labels that an example shows; the example also has their total number."""
NOT_RANKED = 2**62
"""Sort key of labels without a rank, larger than every rank."""


class Kept(NamedTuple):
    """An example row. Rows are ordered by hash, then by the other fields."""

    hash: int
    number: int | None
    num_relevant: int
    missed: int
    shown: Sequence[int]
    relevant: Sequence[int]
    ranks: Sequence[int]


class RowExamples:
    """Keeps one row for each bucket: among the rows that miss a label of the bucket, the row with the smallest hash.

    Args:
        k: Number of labels of each list that are shown; other relevant labels of the row are missed.
        buckets: The buckets; None, or a single bucket, keeps a few rows that miss any label.
    """

    def __init__(self, k: int, buckets: LabelBuckets | None = None) -> None:
        self.k, self.buckets = k, buckets
        self._is_whole = buckets is None or len(buckets) == 1
        self.slots = FEW if buckets is None or self._is_whole else len(buckets)
        self.kept: dict[int, Kept] = {}

    def update(self, ranking: Ranking, rows: Tensor | None = None) -> None:
        """Choose examples from a batch. On a device, the call waits for results.

        Args:
            ranking: The batch.
            rows: Shape (N,), int64: the number of each row, which the example shows.
        """
        targets = ranking.targets.without_void()
        entries, ids = targets.entries, ranking.ids[:, : self.k]
        shown = torch.nn.functional.pad(ids, (0, self.k - ids.shape[1]), value=-1)
        if entries.ids.numel():
            missed = ~(shown[entries.rows] == entries.ids[:, None]).any(dim=1)
            hashes = _hashes(shown, entries.rows, entries.ids)
            for slot, row, label, key in self._chosen(hashes, entries.rows[missed], entries.ids[missed], rows):
                labels, ranks = _with_ranks(ranking, row, entries.ids[entries.rows == row])
                order = torch.argsort(torch.where(ranks > 0, ranks, NOT_RANKED), stable=True)
                kept = order[:RELEVANT]
                if not bool((labels[kept] == label).any()):
                    kept = torch.cat([kept[:-1], (labels == label).nonzero()[0]])
                number = None if rows is None else int(rows[row])
                listed = (shown[row].tolist(), labels[kept].tolist(), ranks[kept].tolist())
                self.merge_state({slot: Kept(key, number, len(labels), label, *listed)})

    def merge_state(self, other: RowExamples | dict[int, Kept]) -> None:
        """Merge the examples of other rows: each bucket keeps the row with the smallest hash."""
        for slot, row in (other if isinstance(other, dict) else other.kept).items():
            self.kept[slot] = min(row, self.kept.get(slot, row))

    def state_bytes(self) -> bytes:
        """Return the kept rows as bytes."""
        return json.dumps(self.kept).encode()

    def load_state_bytes(self, data: bytes) -> None:
        """Replace the kept rows by rows from :meth:`state_bytes`.

        Raises:
            ValueError: If a number is none of a row. Nothing is changed.
        """
        kept = {int(slot): Kept(*row) for slot, row in json.loads(data).items()}
        for slot, row in kept.items():
            counts = (slot, row.hash, row.number or 0, row.num_relevant, row.missed, *row.relevant, *row.ranks)
            numbers = [*map(index, counts), *(index(label) + 1 for label in row.shown)]  # -1 pads what is shown
            if slot >= self.slots or not all(0 <= number < 2**63 for number in numbers):
                raise ValueError("an example row holds a number that is out of range")
        self.kept = kept

    def _chosen(
        self, hashes: Tensor, rows: Tensor, labels: Tensor, numbers: Tensor | None
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield for each slot: the slot, the row with the smallest hash, the lowest label that it misses, its hash."""
        slots = _mixed(hashes[rows]) % FEW if self.buckets is None or self._is_whole else self.buckets.of(labels)
        keys = _mixed(hashes[rows] + slots)
        least = torch.full((self.slots,), torch.iinfo(torch.int64).max, device=keys.device)
        least = least.scatter_reduce(0, slots, keys, "amin")
        (best,) = torch.nonzero(keys == least[slots], as_tuple=True)
        shown_as = best if numbers is None else numbers.to(rows.device)[rows[best]]
        columns = (part.tolist() for part in (slots[best], shown_as, labels[best], rows[best], keys[best]))
        first: dict[int, tuple[int, int, int]] = {}
        for slot, _, label, row, key in sorted(zip(*columns, strict=True)):
            first.setdefault(slot, (row, label, key))
        yield from ((slot, *one) for slot, one in first.items())

    def examples(
        self, label_names: Sequence[str] | None = None, row_names: Sequence[str] | None = None
    ) -> list[Example]:
        """Return the examples over all processes, the head bucket first; call it in every process."""
        whole = RowExamples(self.k, self.buckets)
        for kept in from_all(self.kept):
            whole.merge_state(kept)
        in_order = sorted(whole.kept.values()) if self._is_whole else [row for _, row in sorted(whole.kept.items())]
        return [self._example(row, label_names, row_names) for row in in_order]

    def _example(self, row: Kept, label_names: Sequence[str] | None, row_names: Sequence[str] | None) -> Example:
        def entry(label: int, rank: int | None, hit: bool) -> ExampleLabel:
            bucket = "" if self.buckets is None else self.buckets.names[int(self.buckets.assignment[label])]
            return ExampleLabel(label, "" if label_names is None else label_names[label], bucket, rank, hit)

        known = list(zip(row.relevant, row.ranks, strict=True))
        hits = {label for label, rank in known if 0 < rank <= self.k}
        has_name = row.number is not None and row_names is not None and row.number < len(row_names)
        return Example(
            bucket="" if self._is_whole else entry(row.missed, None, hit=False).bucket,
            row=row.number,
            name=str(row_names[row.number]) if has_name else "",  # type: ignore[index] # neither is None
            missed=row.missed,
            relevant=[entry(label, rank or None, label in hits) for label, rank in known],
            num_relevant=row.num_relevant,
            shown=[entry(label, place, label in hits) for place, label in enumerate(row.shown, start=1) if label >= 0],
        )


def content_hashes(ranking: Ranking, k: int) -> Tensor:
    """Return a hash >= 0 of the first ``k`` places of each row's list and of its relevant labels, shape (N,), int64."""
    entries = ranking.targets.without_void().entries
    return _mixed(_hashes(ranking.ids[:, :k], entries.rows, entries.ids))


def _hashes(shown: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
    """Return a hash of each row's list and of the set of its relevant labels, shape (N,), int64."""
    places = torch.arange(1, 1 + shown.shape[1], device=shown.device)
    found = torch.where(shown >= 0, _mixed(shown * 1_000_003 + places), 0).sum(dim=1)
    return found.scatter_add(0, rows, _mixed(_mixed(labels + 1)))


def _mixed(values: Tensor) -> Tensor:
    """Return hashes >= 0, of which every bit depends on every bit of the given number."""
    return torch.from_numpy(mixed(values.cpu().numpy())).to(values.device) & torch.iinfo(torch.int64).max


def _with_ranks(ranking: Ranking, row: int, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the relevant labels of a row, ascending, and their ranks; 0 for a label not retrieved or cut off."""
    labels = labels.sort().values
    if ranking.scores is None:
        places = ranking.ids[row] == labels[:, None]
        return labels, torch.where(places.any(dim=1), places.to(torch.int64).argmax(dim=1) + 1, 0)
    scores = ranking.scores[row]
    own, ids = scores[labels], torch.arange(len(scores), device=scores.device)
    pairs = zip(own, labels, strict=True)
    ranks = [1 + ((scores > one) | ((scores == one) & (ids < label))).sum() for one, label in pairs]
    return labels, torch.where(own > -torch.inf, torch.stack(ranks), 0)
