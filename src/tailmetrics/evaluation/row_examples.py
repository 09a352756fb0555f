"""A few rows as examples: for each bucket one that misses a label of it, the same ones in any order of rows.

A row is chosen by a hash of what it shows and of what is relevant in it. So batches, processes and the order of rows
make no difference, and nothing grows with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric
from tailmetrics._transfer import MetricStates
from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking import Ranking
from tailmetrics.report.report import Example, ExampleLabel

FEW = 5
"""Examples where there is one bucket, or none."""
RELEVANT = 12
"""Relevant labels that an example shows; how many there are is told."""
HEAD = 5
"""Columns in front of the labels: filled, hash, number of the row, relevant labels, the label that is missed."""
NO_ROW = 2**62
"""The number of a row that has none."""


class RowExamples(ExactMetric):
    """Keeps one row for each bucket: of the rows that miss a label of it, the one with the least hash.

    Args:
        k: How many labels of each list are shown; what is relevant and stands below is missed.
        buckets: The buckets; None keeps a few rows that miss any label.
        kwargs: See :class:`torchmetrics.Metric`.
    """

    kept: Tensor

    def __init__(self, k: int, buckets: LabelBuckets | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.k, self.buckets = k, buckets
        slots = FEW if buckets is None or len(buckets) == 1 else len(buckets)
        self.add_state(
            "kept", torch.zeros(slots, HEAD + k + 2 * RELEVANT, dtype=torch.int64), dist_reduce_fx=_least_of_each
        )

    def update(self, ranking: Ranking, rows: Tensor | None = None) -> None:
        """Look at a batch; it waits for a device.

        Args:
            ranking: The batch.
            rows: Shape (N,), int64: the number of each row, to be told beside it.
        """
        found = torch.zeros_like(self.kept)
        targets = ranking.targets.without_void()
        entries, shown = targets.entries, _first(ranking.ids, self.k)
        if entries.ids.numel():
            missed = ~(shown[entries.rows] == entries.ids[:, None]).any(dim=1)
            hashes = _hashes(shown, entries.rows, entries.ids)
            for slot, row, label, key in self._chosen(hashes, entries.rows[missed], entries.ids[missed], rows):
                relevant = entries.ids[entries.rows == row]
                number = NO_ROW if rows is None else int(rows[row])
                found[slot] = self._packed(key, number, label, shown[row], *_with_ranks(ranking, row, relevant))
        self.kept = _least_of_each(torch.stack([self.kept, found]))

    def _chosen(
        self, hashes: Tensor, rows: Tensor, labels: Tensor, numbers: Tensor | None
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield for each slot the row with the least hash, with the label that it misses, the lowest of several."""
        slots = _mixed(hashes[rows]) % FEW if self.buckets is None or self._is_whole else self.buckets.of(labels)
        keys = _mixed(hashes[rows] + slots)
        least = torch.full((len(self.kept),), torch.iinfo(torch.int64).max, device=keys.device)
        least = least.scatter_reduce(0, slots, keys, "amin")
        (best,) = torch.nonzero(keys == least[slots], as_tuple=True)
        told = best if numbers is None else numbers.to(rows.device)[rows[best]]
        columns = (part.tolist() for part in (slots[best], told, labels[best], rows[best], keys[best]))
        first: dict[int, tuple[int, int, int]] = {}
        for slot, _, label, row, key in sorted(zip(*columns, strict=True)):
            first.setdefault(slot, (row, label, key))
        yield from ((slot, *one) for slot, one in first.items())

    @property
    def _is_whole(self) -> bool:
        return self.buckets is None or len(self.buckets) == 1

    def _packed(self, key: int, number: int, missed: int, shown: Tensor, labels: Tensor, ranks: Tensor) -> Tensor:
        """Return an example as a line of the state: relevant labels by rank, those that are not ranked behind."""
        order = torch.argsort(torch.where(ranks > 0, ranks, NO_ROW), stable=True)
        kept = order[:RELEVANT]
        if not bool((labels[kept] == missed).any()):
            kept = torch.cat([kept[:-1], (labels == missed).nonzero()[0]])
        pad = (0, RELEVANT - len(kept))
        head = torch.tensor([1, key, number, len(labels), missed], device=shown.device)
        listed = [torch.nn.functional.pad(part[kept], pad, value=-1) for part in (labels, ranks)]
        return torch.cat([head, shown, *listed])

    def compute(self) -> Tensor:
        """Return what is kept over all processes, shape (slots, columns)."""
        return self.kept.clone()

    def examples(
        self, label_names: Sequence[str] | None = None, row_names: Sequence[str] | None = None
    ) -> list[Example]:
        """Return the examples over all processes, those of the head first; call it in every process."""
        self._update_count = max(1, self._update_count)
        lines = [line for line in self.compute().tolist() if line[0]]
        chosen = sorted(lines, key=lambda line: line[1:]) if self._is_whole else lines
        return [self._example(line, label_names, row_names) for line in chosen]

    def _example(
        self, line: Sequence[int], label_names: Sequence[str] | None, row_names: Sequence[str] | None
    ) -> Example:
        number, count, missed = line[2:HEAD]
        shown, labels, ranks = line[HEAD : HEAD + self.k], line[-2 * RELEVANT : -RELEVANT], line[-RELEVANT:]

        def told(label: int, rank: int | None, hit: bool) -> ExampleLabel:
            bucket = "" if self.buckets is None else self.buckets.names[int(self.buckets.assignment[label])]
            return ExampleLabel(label, "" if label_names is None else label_names[label], bucket, rank, hit)

        known = [(label, rank) for label, rank in zip(labels, ranks, strict=True) if label >= 0]
        hits = {label for label, rank in known if 0 < rank <= self.k}
        row = None if number == NO_ROW else number
        return Example(
            bucket="" if self._is_whole else told(missed, None, hit=False).bucket,
            row=row,
            name="" if row is None or row_names is None or row >= len(row_names) else str(row_names[row]),
            missed=missed,
            relevant=[told(label, rank or None, label in hits) for label, rank in known],
            num_relevant=count,
            shown=[told(label, place, label in hits) for place, label in enumerate(shown, start=1) if label >= 0],
        )

    # to another machine: not a sum, and so not among the states that are sent over processes

    def _check_states(self, method: str) -> None:
        pass

    def _states_held(self, states: Any = None) -> MetricStates:
        return MetricStates(self.fingerprint(), self._tensors(), {})


def _first(ids: Tensor, k: int) -> Tensor:
    """Return the first k ids of each list, padded with -1."""
    ids = ids[:, :k]
    return torch.nn.functional.pad(ids, (0, k - ids.shape[1]), value=-1)


def _hashes(shown: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
    """Return a hash of what each row shows and of its relevant labels, in any order, shape (N,), int64."""
    places = torch.arange(1, 1 + shown.shape[1], device=shown.device)
    found = torch.where(shown >= 0, _mixed(shown * 1_000_003 + places), 0).sum(dim=1)
    return found.scatter_add(0, rows, _mixed(_mixed(labels + 1)))


def _mixed(values: Tensor) -> Tensor:
    """Return whole numbers >= 0 in which every bit depends on every bit of the given ones.

    Source: the finaliser of SplitMix64; Steele, Lea and Flood, Fast splittable pseudorandom number generators (2014).
    """
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        values = (values ^ _shifted(values, shift)) * factor
    return (values ^ _shifted(values, 31)) & torch.iinfo(torch.int64).max


def _shifted(values: Tensor, bits: int) -> Tensor:
    """Return values shifted right, zeros from the left also where the first bit is set."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def _with_ranks(ranking: Ranking, row: int, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return relevant labels of a row, ascending, with their ranks; 0 for what is not retrieved or cut off."""
    labels = labels.sort().values
    if ranking.scores is None:
        places = ranking.ids[row] == labels[:, None]
        return labels, torch.where(places.any(dim=1), places.to(torch.int64).argmax(dim=1) + 1, 0)
    scores = ranking.scores[row]
    own, ids = scores[labels], torch.arange(len(scores), device=scores.device)
    pairs = zip(own, labels, strict=True)
    ranks = [1 + ((scores > one) | ((scores == one) & (ids < label))).sum() for one, label in pairs]
    return labels, torch.where(own > -torch.inf, torch.stack(ranks), 0)


def _least_of_each(stacked: Tensor) -> Tensor:
    """Return of several states (P, slots, columns) for each slot the line with the least hash, then the least rest."""
    lines = stacked.movedim(1, 0).tolist()
    found = [min((line for line in of_slot if line[0]), default=of_slot[0]) for of_slot in lines]
    return torch.tensor(found, dtype=torch.int64, device=stacked.device)
