"""Find the labels of a batch with equal scores: the span of places that each relevant label shares with others."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._ties import CutSpan, Spans
from tailmetrics.ranking import EVERYTHING, NOT_RANKED, Ranking, TargetRanks
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import Hits
from tailmetrics.ranking._ranking import Scope

SCORES_TOGETHER = 2**22
"""Number of scores compared at once in rows whose list ends among equal scores: 64 MB if all scores are equal."""


def spans_of(
    ranking: Ranking, buckets: LabelBuckets | None, scope: Scope, depth: int, everything: bool = True
) -> Spans:
    """Return the span of each relevant label: for each the numbers of labels with a higher and with its score.

    With buckets, the axis after the rows is the buckets. In scope ``"bucket"`` only labels of the bucket are counted,
    including labels below ``depth`` that tie with the last listed label: :func:`cut_span` says how many are listed.
    Scores are read again only in rows in which a relevant label ties, or whose list ends among equal scores; in other
    rows the number of labels above is the rank - 1.

    Args:
        ranking: Made from scores, or from whole lists of ids or scored candidates.
        buckets: G buckets, or None.
        scope: As in :meth:`Ranking.by_bucket`.
        depth: As in :meth:`Ranking.by_bucket`.
        everything: Whether ranks below the list are needed, too.
    """
    cut = None
    end = ranking.depth
    if buckets is not None and scope == "bucket":
        cut = cut_span(ranking, buckets, depth)
        end = min(depth, ranking.depth)
    rows = _rows_of_ties(ranking, end, everything)
    scores = ranking.scores
    if rows is None or (len(rows) and scores is None):
        ranks, above, equal = _counted(ranking, buckets, scope, depth)
        return Spans(ranks, above, equal, cut)

    ranks = ranking
    if buckets is not None:
        ranks = ranking.by_bucket(buckets, scope, min(depth, ranking.depth))
    above, equal = ranks.hits.ranks - 1, torch.ones_like(ranks.hits.ranks)
    if not len(rows):
        return Spans(ranks, above, equal, cut)

    assert scores is not None
    tied_ranks, tied_above, tied_equal = _counted(_ranking_of(ranking, scores, rows), buckets, scope, depth)
    above = _with_rows(above, tied_above, rows, NOT_RANKED)
    equal = _with_rows(equal, tied_equal, rows, 1)
    gains = None
    if not ranks.binary:
        gains = _with_rows(ranks.target_gains, tied_ranks.target_gains, rows, 0.0)
    target_ranks = _with_rows(ranks.hits.ranks, tied_ranks.hits.ranks, rows, NOT_RANKED)
    hits = Hits(target_ranks, _with_rows(ranks.hits.ids, tied_ranks.hits.ids, rows, -1), gains)
    ranks = TargetRanks(hits, ranks.relevant, ranks.length, ranks.num_labels, EVERYTHING, tied_ranks.deepest)
    return Spans(ranks, above, equal, cut)


def cut_span(ranking: Ranking, buckets: LabelBuckets, depth: int) -> CutSpan | None:
    """Return the equal scores among which lists of ``depth`` labels end; None if no list does.

    Scores are read again only for rows whose list does.
    """
    values, end = ranking.values, min(depth, ranking.depth)
    if values is None or not 0 < end < values.shape[1] or ranking.distinct:
        return None
    last = values[:, end - 1]
    rows = ((last == values[:, end]) & (last > -torch.inf)).nonzero().squeeze(1)
    if not len(rows):
        return None

    ids, last_scores = ranking.ids[rows], last[rows, None]
    above = buckets.totals(ranking.ids[:, :end])
    above[rows] = buckets.totals(ids[:, :end].masked_fill(values[rows, :end] == last_scores, -1))
    equal = torch.zeros_like(above)
    if ranking.scores is None:
        equal[rows] = buckets.totals(ids.masked_fill(values[rows, : ranking.depth] != last_scores, -1))
    else:
        _count_equal(equal, buckets, ranking.scores, rows, last_scores)
    all_equal = equal.sum(dim=1, keepdim=True)
    listed = (end - above.sum(dim=1, keepdim=True)).clamp(min=0).minimum(all_equal)
    return CutSpan(above, equal, all_equal, listed)


def _count_equal(counts: Tensor, buckets: LabelBuckets, scores: Tensor, rows: Tensor, last_scores: Tensor) -> None:
    """Add to ``counts`` (N, G) the labels of each bucket that have the last score (R, 1) of their row, in R rows."""
    height = max(1, SCORES_TOGETHER // max(1, scores.shape[1]))
    blocks = zip(torch.split(rows, height), torch.split(last_scores, height), strict=True)
    for block, block_scores in blocks:
        row, label = (scores[block] == block_scores).nonzero(as_tuple=True)
        cell = block[row] * len(buckets) + buckets.of(label)
        counts.view(-1).scatter_add_(0, cell, torch.ones_like(cell))


def has_no_ties(ranking: Ranking, end: int, everything: bool) -> bool:
    """Whether it is known that equal scores change no value.

    They change none if no relevant label has the score of another label, and no list ends between equal scores.

    Args:
        ranking: The batch.
        end: How many places of each list are read.
        everything: Whether ranks below the list are read, too.
    """
    rows = _rows_of_ties(ranking, min(end, ranking.depth), everything)
    return rows is not None and not len(rows)


def _rows_of_ties(ranking: Ranking, end: int, everything: bool) -> Tensor | None:
    """Return the rows in which equal scores may change a value; None if the list is not enough to know."""
    values, scores = ranking.values, ranking.scores
    if scores is not None and (everything or values is None):
        return None
    if values is None or ranking.distinct:  # ids have one order
        return ranking.ids.new_empty(0)
    return ranking.remembered(("rows of ties", end), lambda: _tied_rows(ranking, values, end))


def _tied_rows(ranking: Ranking, values: Tensor, end: int) -> Tensor:
    """Return the rows with a hit that ties with a neighbour, or with equal scores on both sides of ``end``."""
    rows = ranking.targets.kernels.rows_not_falling(values)
    candidates, ranks = values[rows], ranking.hits.ranks[rows]
    as_next = (candidates[:, 1:] == candidates[:, :-1]) & (candidates[:, 1:] > -torch.inf)
    as_neighbour = F.pad(as_next, (1, 0)) | F.pad(as_next, (0, 1))
    place = (ranks - 1).clamp(max=as_neighbour.shape[1] - 1)
    tied = (as_neighbour.gather(1, place) & (ranks < NOT_RANKED)).any(dim=1)
    if 0 < end <= as_next.shape[1]:
        tied = tied | as_next[:, end - 1]
    if ranking.row_mask is not None:
        tied = tied & ranking.row_mask[rows]
    return rows[tied]


def _ranking_of(ranking: Ranking, scores: Tensor, rows: Tensor) -> Ranking:
    """Return a new ranking of these rows of dense scores."""
    entries = ranking.targets.entries
    place = torch.full((ranking.num_rows,), -1, device=rows.device)
    place[rows] = torch.arange(len(rows), device=rows.device)
    inside = (place[entries.rows] >= 0) & (entries.ids >= 0)
    scores = scores[rows]
    gains = torch.zeros(scores.shape, dtype=real_dtype(scores.device), device=scores.device)
    gains[place[entries.rows[inside]], entries.ids[inside]] = 1.0 if entries.gains is None else entries.gains[inside]
    return Ranking.from_scores(scores, target_gains=gains, depth=max(1, ranking.depth), validate_args=False)


def _with_rows(values: Tensor, row_values: Tensor, rows: Tensor, fill: float) -> Tensor:
    """Return values (N, …, W) with R rows replaced by values (R, …, V); the width is the larger of W and V."""
    width = max(values.shape[-1], row_values.shape[-1])
    values = F.pad(values, (0, width - values.shape[-1]), value=fill)
    row_values = F.pad(row_values, (0, width - row_values.shape[-1]), value=fill)
    return values.index_copy(0, rows, row_values.to(values.dtype))


def _counted(
    ranking: Ranking, buckets: LabelBuckets | None, scope: Scope, depth: int
) -> tuple[TargetRanks, Tensor, Tensor]:
    """Return the ranks of all relevant labels that are retrieved, and the labels above and with the score of each.

    They are counted in all rows, with or without ties.
    """
    ranks = ranking.exact
    hits = ranks.hits
    above, equal, _ = _counts(ranking, hits)
    if buckets is None:
        return ranks, above, equal

    by_bucket = ranking.by_bucket(buckets, scope, min(depth, ranking.depth))
    split = ranking.targets.kernels.split(hits, buckets)
    place = torch.searchsorted(hits.ranks.contiguous(), split.ranks.flatten(1)).clamp(max=hits.ranks.shape[1] - 1)
    above = above.gather(1, place).view(split.ranks.shape)
    equal = equal.gather(1, place).view(split.ranks.shape)
    if scope == "bucket":
        listed_ranks = torch.where(above < depth, split.ranks, NOT_RANKED)
        counts = []
        for number in range(len(buckets)):
            bucket_hits = Hits(listed_ranks[:, number], split.ids[:, number], None)
            counts.append(_counts(ranking, bucket_hits, buckets, number))
        above, equal, before = torch.stack(counts, dim=2)
        bucket_ranks = torch.where(listed_ranks < NOT_RANKED, above + before + 1, NOT_RANKED)
        split = Hits(bucket_ranks, split.ids, split.gains)
    bucket_target_ranks = TargetRanks(
        split, by_bucket.relevant, by_bucket.length, ranking.num_labels, EVERYTHING, ranks.deepest
    )
    return bucket_target_ranks, above, equal


def _counts(ranking: Ranking, hits: Hits, buckets: LabelBuckets | None = None, number: int = 0) -> Tensor:
    """Return how many labels (of a bucket) score above each hit, tie with it, or tie at a lower id, shape (3, N, W)."""
    counts = torch.zeros(3, *hits.ranks.shape, dtype=torch.int64, device=hits.ranks.device)
    counts[1] = 1
    valid = hits.ranks < NOT_RANKED
    rows, place = valid.nonzero(as_tuple=True)
    if not len(rows):
        return counts

    scores = ranking.scores
    if scores is None:
        return torch.where(valid, _counts_in_list(ranking, hits, buckets, number), counts)
    ids = hits.ids[rows, place]
    own_scores, columns = scores[rows, ids], ids
    if buckets is not None:
        labels = (buckets.assignment.to(ids.device) == number).nonzero().squeeze(1)
        scores, columns = scores[:, labels], torch.searchsorted(labels, ids)
    counts[:, rows, place] = ranking.targets.kernels.counts_above(scores, rows, own_scores, columns)
    return counts


def _counts_in_list(ranking: Ranking, hits: Hits, buckets: LabelBuckets | None, number: int) -> Tensor:
    """Return :func:`_counts` of lists, whose scores descend: labels with equal scores are next to each other."""
    assert ranking.values is not None
    values = (-ranking.values[:, : ranking.depth]).contiguous()
    place = torch.where(hits.ranks < NOT_RANKED, hits.ranks - 1, 0)
    scores = values.gather(1, place)
    first = torch.searchsorted(values, scores)
    end = torch.searchsorted(values, scores, right=True)
    if buckets is not None:  # count only labels of the bucket before each place
        in_front = F.pad((buckets.of(ranking.ids) == number).cumsum(dim=1), (1, 0))
        first, end, place = in_front.gather(1, first), in_front.gather(1, end), in_front.gather(1, place)
    return torch.stack([first, end - first, place - first])
