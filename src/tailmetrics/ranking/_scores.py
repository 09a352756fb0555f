"""What metrics read of scores beside their order: what is above a threshold, and pairs of labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._hits import NOT_RANKED, Entries
from tailmetrics.ranking._matrices import above
from tailmetrics.ranking._pieces import counts_by_bucket
from tailmetrics.ranking._ranking import Ranking, Scope


def suggestions(ranking: Ranking, thresholds: list[float | Tensor]) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield the labels of each row whose score is above each threshold, a number or one per label (L,).

    Dense scores are read once, a block of rows at a time; scores are compared in their own type. Cells
    that are not stored and candidates that are not listed are not suggested; decisions (N, L) are taken as they are.

    Yields:
        For one threshold and some of the rows: its place among ``thresholds``, and rows and ids of the suggested
        labels, both (S,), int64; id -1 where nothing is suggested.
    """
    row_mask, kernels = ranking.row_mask, ranking.targets.kernels
    if not ranking.scores_all:
        yield from _of_lists(ranking, thresholds)
        return
    pieces = [(0, ranking.scores)] if ranking.in_pieces is None else ranking.in_pieces.pieces()
    for first, scores in pieces:
        assert scores is not None
        labels = slice(first, first + scores.shape[1])
        limits = [threshold[labels] if isinstance(threshold, Tensor) else threshold for threshold in thresholds]
        for number, rows, ids in kernels.above(scores, limits):
            ids = ids if row_mask is None else torch.where(row_mask[rows], ids, -1)
            yield number, rows, ids if first == 0 else torch.where(ids >= 0, ids + first, -1)


def suggested_per_row(ranking: Ranking, thresholds: list[float | Tensor]) -> Tensor:
    """Return how many labels of each row of dense scores are above each threshold, shape (N, T), int64."""
    assert ranking.scores is not None
    kernels, scores = ranking.targets.kernels, ranking.scores
    counts = torch.stack([kernels.num_above(scores, threshold) for threshold in thresholds], dim=1)
    return counts if ranking.row_mask is None else counts * ranking.row_mask[:, None]


def targets_above(ranking: Ranking, threshold: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and ids (T,) of the relevant labels that score above a threshold; id -1 is void."""
    if ranking.scores_all:
        entries, own = ranking.targets.entries, ranking.scores_of_targets
        rows, ids, relevant = entries.rows, entries.ids, entries.ids >= 0
    else:
        assert ranking.values is not None
        ranks, ids, width = ranking.hits.ranks.reshape(-1), ranking.hits.ids.reshape(-1), ranking.hits.ranks.shape[1]
        rows = torch.arange(ranking.num_rows, device=ids.device)[:, None].expand(-1, width).reshape(-1)
        relevant = ranks < NOT_RANKED
        own = ranking.values[rows, torch.where(relevant, ranks - 1, 0)] if ranking.values.shape[1] else ids
    return rows, torch.where(_is_above(own, threshold, ids) & relevant, ids, -1)


def _is_above(scores: Tensor, threshold: float | Tensor, ids: Tensor) -> Tensor:
    """Return whether the scores of some labels are above a number or one per label (L,), shape of ``ids``."""
    return above(scores, threshold.to(scores.device)[ids.clamp(min=0)] if isinstance(threshold, Tensor) else threshold)


def _of_lists(ranking: Ranking, thresholds: list[float | Tensor]) -> Iterator[tuple[int, Tensor, Tensor]]:
    assert ranking.values is not None
    ids, values = ranking.ids, ranking.values[:, : ranking.depth]
    rows = torch.arange(len(ids), device=ids.device)[:, None].expand(ids.shape).reshape(-1)
    for number, threshold in enumerate(thresholds):
        suggested = _is_above(values, threshold, ids) & (ids >= 0)
        yield number, rows, torch.where(suggested, ids, -1).reshape(-1)


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
    targets, groups = ranking.targets.without_void(), 1 if buckets is None else len(buckets)
    entries, of_rows = targets.entries, buckets is None or scope == "global"
    shape, keys = (ranking.num_rows, groups), targets.keys(buckets)
    zeros = torch.zeros(shape[0] * groups, dtype=torch.int64, device=keys.device)
    n = zeros.scatter_add(0, keys, torch.ones_like(keys)).view(shape)
    if of_rows or buckets is None:
        size = torch.full_like(n[:, :1], num_labels) if ranking.documents is None else ranking.documents[:, None]
        m = (size - n.sum(dim=1, keepdim=True)).expand(shape)
    else:
        m = buckets.label_counts.to(n.device) - n
    own, above, tied = _standings_of(ranking, entries, num_labels, None if of_rows else buckets)
    relevant_above, relevant_tied = counts_among(own, entries.rows if of_rows else keys)
    wrong = zeros.index_add(0, keys, above - relevant_above).view(shape)
    same = zeros.index_add(0, keys, tied - relevant_tied).view(shape)
    depth = zeros.scatter_reduce(0, keys, above + tied + 1, reduce="amax").view(shape)
    return PairCounts(n, m, wrong, same, depth)


def _standings_of(
    ranking: Ranking, entries: Entries, num_labels: int, buckets: LabelBuckets | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the score of each relevant label, and how many labels score more, and how many others the same.

    Args:
        ranking: See :func:`count_pairs`.
        entries: T relevant labels, none of them void.
        num_labels: L.
        buckets: Count among the labels of its bucket instead of all.

    Returns:
        Shape (T,) each.
    """
    if ranking.in_pieces is not None:
        own, counts = ranking.in_pieces.scores_of(entries), ranking.in_pieces.counts_of(entries, buckets)
        return own, counts[0], counts[1] - 1
    parts = []
    for first, block in dense_blocks(ranking, num_labels):
        inside = (entries.rows >= first) & (entries.rows < first + len(block))
        rows, ids = entries.rows[inside] - first, entries.ids[inside]
        own = block[rows, ids]
        if buckets is None:
            above, same, _ = ranking.targets.kernels.counts_above(block, rows, own, ids)
        else:
            above, same = counts_by_bucket(block, 0, rows, own, ids, buckets)
        if ranking.documents is not None:  # places of a row behind its last document are no labels
            missing = num_labels - ranking.documents[rows + first]
            same = torch.where(own > -torch.inf, same, same - missing)
        parts.append((own, above, same - 1))
    if not parts:
        nothing = entries.ids[:0]
        return nothing.to(torch.float32), nothing, nothing
    own, above, tied = (torch.cat(part) for part in zip(*parts, strict=True))
    return own, above, tied


def counts_among(own: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many others of the same key score more than each of ``own`` (T,), and how many others the same."""
    order = own.argsort(descending=True, stable=True)
    order = order[keys[order].argsort(stable=True)]
    score, key = own[order], keys[order]
    runs = torch.zeros_like(key)  # of the same key and score
    runs[1:] = ((key[1:] != key[:-1]) | (score[1:] != score[:-1])).cumsum(0)
    first, end = torch.searchsorted(runs, runs), torch.searchsorted(runs, runs, right=True)
    above, tied = torch.empty_like(order), torch.empty_like(order)
    above[order], tied[order] = first - torch.searchsorted(key, key), end - first - 1
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
