"""Relevant labels held against irrelevant ones: how many of the latter score more, and how many the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._beyond import Beyond
from tailmetrics.ranking._ranking import Ranking, Scope
from tailmetrics.ranking._slots import Slots

BLOCK_SCORES = 2**21
"""Scores that are sorted together: 8 MB."""


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Counts of pairs of a relevant and an irrelevant label of each row, or of each row and bucket.

    Attributes:
        n_relevant: Shape (N, G), int64.
        n_irrelevant: Shape (N, G), int64.
        wrong: Shape (N, G), int64: pairs in which the irrelevant label scores more.
        tied: Shape (N, G), int64: pairs of equal scores.
        depth: Shape (N, G), int64: labels that score at least as much as the worst relevant one; 0 without one.
    """

    n_relevant: Tensor
    n_irrelevant: Tensor
    wrong: Tensor
    tied: Tensor
    depth: Tensor


def count_pairs(ranking: Ranking, num_labels: int, buckets: LabelBuckets | None, scope: Scope) -> PairCounts:
    """Count the pairs of every row.

    Args:
        ranking: Of dense scores, or of complete lists with scores; labels that are not listed tie below all others.
        num_labels: L.
        buckets: G buckets; None for none.
        scope: ``"bucket"``: pairs within the bucket; ``"global"``: its relevant labels against all irrelevant ones.
    """
    if ranking.beyond is not None:
        return _pairs_of_standings(ranking, ranking.beyond, buckets, scope)
    groups = 1 if buckets is None else len(buckets)
    counts = torch.zeros(5, ranking.num_rows, groups, dtype=torch.int64, device=ranking.ids.device)
    entries = ranking.targets.entries
    there = None  # of documents of flat queries, which rows have different numbers of
    if ranking.documents is not None:
        there = torch.arange(num_labels, device=ranking.ids.device) < ranking.documents[:, None]
    for first, block in dense_blocks(ranking, num_labels):
        inside = (entries.rows >= first) & (entries.rows < first + len(block)) & (entries.ids >= 0)
        here = entries.at(inside)
        rows = here.rows - first
        part = counts[:, first : first + len(block)]
        for group in range(groups):
            of_group = torch.ones_like(rows, dtype=torch.bool) if buckets is None else buckets.of(here.ids) == group
            within = None if buckets is None or scope == "global" else buckets.assignment.to(block.device) == group
            missing = torch.zeros_like(block, dtype=torch.bool) if there is None else ~there[first : first + len(block)]
            part[:, :, group] = _count_of_group(block, rows, here.ids, of_group, within, missing)
    return PairCounts(*counts)


def _pairs_of_standings(ranking: Ranking, beyond: Beyond, buckets: LabelBuckets | None, scope: Scope) -> PairCounts:
    """Count the pairs of every row from where its relevant labels stand among all labels, or those of their bucket."""
    entries, groups = ranking.targets.entries, 1 if buckets is None else len(buckets)
    bucket = torch.zeros_like(entries.ids) if buckets is None else buckets.of(entries.ids)
    shape, keys = (ranking.num_rows, groups), entries.rows * groups + bucket
    n = torch.bincount(keys, minlength=shape[0] * groups).view(shape)
    if buckets is not None and scope == "bucket":
        standings, among, size = beyond.standings_within(entries, buckets), keys, buckets.label_counts.to(n.device)
        m = size - n
    else:
        standings, among = beyond.standings_of(entries), entries.rows
        m = (beyond.num_labels - n.sum(dim=1, keepdim=True)).expand(shape)
    above, tied = _among_relevant(standings.own, among)
    zeros = torch.zeros(n.numel(), dtype=torch.int64, device=n.device)
    wrong = zeros.index_add(0, keys, standings.above - above).view(shape)
    same = zeros.index_add(0, keys, standings.tied - tied).view(shape)
    depth = zeros.scatter_reduce(0, keys, standings.above + standings.tied + 1, reduce="amax").view(shape)
    return PairCounts(n, m, wrong, same, depth)


def _among_relevant(own: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many other relevant labels of the same key score more than each, and how many the same."""
    order = own.argsort(descending=True, stable=True)
    order = order[keys[order].argsort(stable=True)]
    score, key = own[order], keys[order]
    place = torch.arange(len(order), device=own.device)
    new_key = torch.ones_like(key, dtype=torch.bool)
    new_key[1:] = key[1:] != key[:-1]
    new_score = new_key.clone()
    new_score[1:] |= score[1:] != score[:-1]
    start_of_key, start = (torch.where(new, place, 0).cummax(0).values for new in (new_key, new_score))
    run = new_score.cumsum(0) - 1
    size = torch.bincount(run, minlength=1)
    above, tied = torch.empty_like(place), torch.empty_like(place)
    above[order], tied[order] = start - start_of_key, size[run] - 1 if len(order) else place
    return above, tied


def dense_blocks(ranking: Ranking, num_labels: int) -> Iterator[tuple[int, Tensor]]:
    """Yield the scores of all labels, float32 or float64, of a few rows at a time, and the number of the first row."""
    height = max(1, BLOCK_SCORES // max(1, num_labels))
    for first in range(0, ranking.num_rows, height):
        if ranking.scores is not None:
            block = ranking.scores[first : first + height]
            yield first, block.to(torch.promote_types(block.dtype, torch.float32))
            continue
        assert ranking.values is not None
        ids = ranking.ids[first : first + height]
        values = ranking.values[first : first + height, : ids.shape[1]]
        values = values.to(torch.promote_types(values.dtype, torch.float32))
        block = values.new_full((len(ids), num_labels + 1), -torch.inf)
        place = torch.where(ids >= 0, ids, num_labels)
        yield first, block.scatter_reduce_(1, place, values, reduce="amax")[:, :num_labels]


def _count_of_group(
    block: Tensor, rows: Tensor, ids: Tensor, of_group: Tensor, within: Tensor | None, missing: Tensor
) -> Tensor:
    """Return the five counts (5, R) of one bucket, of its relevant labels among those ``within``, not ``missing``."""
    num_rows, width = len(block), max(1, int(torch.bincount(rows[of_group], minlength=1).max()) if len(rows) else 1)
    n = torch.bincount(rows[of_group], minlength=num_rows)
    irrelevant = block.masked_fill(missing, torch.inf)
    irrelevant[rows, ids] = torch.inf  # behind all others, where the bounds below do not reach
    others = torch.bincount(rows, minlength=num_rows) if within is None else n
    irrelevant = irrelevant if within is None else irrelevant[:, within]
    m = irrelevant.shape[1] - others - missing.sum(dim=1)
    irrelevant = _sorted(irrelevant)
    slots = Slots(rows[of_group], num_rows, width)
    own = slots.place(block[rows, ids][of_group], torch.inf).contiguous()
    real = slots.place(torch.ones_like(rows[of_group]), 0)
    below = torch.searchsorted(irrelevant, own).minimum(m[:, None])
    up_to = torch.searchsorted(irrelevant, own, right=True).minimum(m[:, None])
    wrong, tied = ((m[:, None] - up_to) * real).sum(dim=1), ((up_to - below) * real).sum(dim=1)
    worst = own.amin(dim=1)
    least = torch.searchsorted(irrelevant, worst[:, None]).squeeze(1).minimum(m)
    relevant_at_least = block[rows, ids] >= worst[rows]
    counted = torch.bincount(rows[relevant_at_least & (of_group if within is not None else True)], minlength=num_rows)
    depth = torch.where(n > 0, m - least + counted, 0)
    return torch.stack([n, m, wrong, tied, depth])


def _sorted(values: Tensor) -> Tensor:
    """Return ``values`` sorted along the last axis; numpy's sort is several times faster on the CPU."""
    if values.device.type != "cpu":
        return values.sort(dim=1).values
    return torch.from_numpy(np.sort(values.numpy(), axis=1))
