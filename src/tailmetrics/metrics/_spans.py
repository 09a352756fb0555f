"""Find the labels of a batch with equal scores.

A relevant label shares a span of places with the labels of the same score.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._ties import CutSpan, Spans
from tailmetrics.ranking import EVERYTHING, NOT_RANKED, Ranking, TargetRanks
from tailmetrics.ranking._all_scores import counts_by_bucket
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import Hits
from tailmetrics.ranking._orders import in_blocks, rows_at_once
from tailmetrics.ranking._ranking import Scope

SCORES_TOGETHER = 2**22
"""Scores compared at once where lists end among equal scores: at most 64 MB."""


@dataclass(frozen=True)
class View:
    """What is read of each row's list: the whole list, or the labels of each bucket.

    Attributes:
        buckets: G buckets, or None.
        scope: As in :meth:`Ranking.by_bucket`.
        depth: As in :meth:`Ranking.by_bucket`.
    """

    buckets: LabelBuckets | None
    scope: Scope
    depth: int

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for views that read the same."""
        if self.buckets is None:
            return ()
        return self.buckets.digest, self.scope, self.depth

    @property
    def buckets_with_lists(self) -> LabelBuckets | None:
        """The buckets if the labels of each are ranked among themselves, else None."""
        if self.scope == "bucket":
            return self.buckets
        return None


def spans_of(ranking: Ranking, view: View, everything: bool = True) -> Spans:
    """Return the span of each relevant label.

    A span tells how many labels have a higher score, and how many have the same.

    With buckets, the axis after the rows is the buckets. In scope ``"bucket"`` only
    labels of the bucket are counted, including labels below ``depth`` that tie with the
    last listed label: :func:`cut_span` says how many are listed. Scores are read again
    only in rows in which a relevant label ties, or whose list ends among equal scores;
    in other rows the number of labels above is the rank - 1.

    Args:
        ranking: Made from scores, or from whole lists of ids or scored candidates.
        view: What is read.
        everything: Whether ranks below the list are needed, too.
    """
    cut = None
    end = ranking.depth
    if view.buckets_with_lists is not None:
        cut = cut_span(ranking, view.buckets_with_lists, view.depth)
        end = min(view.depth, ranking.depth)

    rows = _rows_of_ties(ranking, end, everything)
    if rows is None or (len(rows) and ranking.scores is None):
        spans = _spans_by_counting(ranking, view)
    else:
        spans = _spans_without_ties(ranking, view)
        if len(rows):
            row_spans = _spans_by_counting(_ranking_of_rows(ranking, rows), view)
            spans = _with_spans_of_rows(spans, row_spans, rows)
    spans.cut = cut
    return spans


def _spans_without_ties(ranking: Ranking, view: View) -> Spans:
    """Return spans of one place each, as if all scores were different."""
    ranks: TargetRanks = ranking
    if view.buckets is not None:
        ranks = ranking.by_bucket(
            view.buckets, view.scope, min(view.depth, ranking.depth)
        )
    return Spans(
        ranks, above=ranks.hits.ranks - 1, equal=torch.ones_like(ranks.hits.ranks)
    )


def _with_spans_of_rows(spans: Spans, row_spans: Spans, rows: Tensor) -> Spans:
    """Return the spans of N rows, with R ``rows`` replaced by ``row_spans``."""
    ranks, row_ranks = spans.ranks, row_spans.ranks
    gains = None
    if not ranks.binary:
        gains = _with_rows(ranks.target_gains, row_ranks.target_gains, rows, 0.0)
    hits = Hits(
        ranks=_with_rows(ranks.hits.ranks, row_ranks.hits.ranks, rows, NOT_RANKED),
        ids=_with_rows(ranks.hits.ids, row_ranks.hits.ids, rows, -1),
        gains=gains,
    )
    return Spans(
        ranks=TargetRanks(
            hits,
            ranks.relevant,
            ranks.length,
            num_labels=ranks.num_labels,
            max_k=EVERYTHING,
            deepest=row_ranks.deepest,
        ),
        above=_with_rows(spans.above, row_spans.above, rows, NOT_RANKED),
        equal=_with_rows(spans.equal, row_spans.equal, rows, 1),
    )


def cut_span(ranking: Ranking, buckets: LabelBuckets, depth: int) -> CutSpan | None:
    """Return the equal scores among which lists of ``depth`` labels end.

    None if no list does. Scores are read again only for rows whose list does.
    """
    values = ranking.values
    end = min(depth, ranking.depth)
    if values is None or ranking.distinct or not 0 < end < values.shape[1]:
        return None
    last = values[:, end - 1]
    is_cut = (last == values[:, end]) & (last > -torch.inf)
    rows = is_cut.nonzero().squeeze(1)
    if not len(rows):
        return None

    row_ids, last_scores = ranking.ids[rows], last[rows, None]
    is_last = values[rows, :end] == last_scores
    above = buckets.totals(ranking.ids[:, :end])
    above[rows] = buckets.totals(row_ids[:, :end].masked_fill(is_last, -1))

    equal = torch.zeros_like(above)
    if ranking.scores is None:
        is_other = values[rows, : ranking.depth] != last_scores
        equal[rows] = buckets.totals(row_ids.masked_fill(is_other, -1))
    else:
        _count_equal(equal, buckets, ranking.scores, rows, last_scores)

    all_above = above.sum(dim=1, keepdim=True)
    all_equal = equal.sum(dim=1, keepdim=True)
    listed = (end - all_above).clamp(min=0).minimum(all_equal)
    return CutSpan(above, equal, all_equal, listed)


def _count_equal(
    counts: Tensor,
    buckets: LabelBuckets,
    scores: Tensor,
    rows: Tensor,
    last_scores: Tensor,
) -> None:
    """Add to ``counts`` the labels of each bucket with the last score of their row.

    ``counts`` is (N, G). Only R rows are looked at, with last scores (R, 1).
    """
    height = rows_at_once(SCORES_TOGETHER, scores.shape[1])
    for block_rows, block_last_scores in in_blocks(height, rows, last_scores):
        row, label = (scores[block_rows] == block_last_scores).nonzero(as_tuple=True)
        cell = block_rows[row] * len(buckets) + buckets.of(label)
        counts.view(-1).scatter_add_(0, cell, torch.ones_like(cell))


def has_no_ties(ranking: Ranking, end: int, everything: bool) -> bool:
    """Whether it is known that equal scores change no value.

    They change none if no relevant label has the score of another label, and no list
    ends between equal scores.

    Args:
        ranking: The batch.
        end: How many places of each list are read.
        everything: Whether ranks below the list are read, too.
    """
    rows = _rows_of_ties(ranking, min(end, ranking.depth), everything)
    return rows is not None and not len(rows)


def _rows_of_ties(ranking: Ranking, end: int, everything: bool) -> Tensor | None:
    """Return the rows in which equal scores may change a value.

    None if the list is not enough to know.
    """
    values, scores = ranking.values, ranking.scores
    if scores is not None and (everything or values is None):
        return None
    if values is None or ranking.distinct:  # ids have one order
        return ranking.ids.new_empty(0)
    return ranking.remembered(
        ("rows of ties", end), lambda: _tied_rows(ranking, values, end)
    )


def _tied_rows(ranking: Ranking, values: Tensor, end: int) -> Tensor:
    """Return the rows with a tied hit, or with equal scores on both sides of ``end``.

    A hit is tied if a neighbour in the list has its score.
    """
    rows = ranking.targets.kernels.rows_not_falling(values)
    row_values, ranks = values[rows], ranking.hits.ranks[rows]
    is_tied_hit = tied_with_neighbour(row_values, ranks) & (ranks < NOT_RANKED)
    is_tied = is_tied_hit.any(dim=1)
    if 0 < end < values.shape[1]:
        last, following = row_values[:, end - 1], row_values[:, end]
        is_tied = is_tied | ((last == following) & (following > -torch.inf))
    if ranking.row_mask is not None:
        is_tied = is_tied & ranking.row_mask[rows]
    return rows[is_tied]


def tied_with_neighbour(values: Tensor, ranks: Tensor) -> Tensor:
    """Return whether the label at each rank ties with a neighbour, shape (N, W).

    Neighbours are the labels directly before and behind it.
    """
    end = values.shape[1] - 1
    place = (ranks - 1).clamp(max=end)
    scores = values.gather(1, place.clamp(0, end))
    before = values.gather(1, (place - 1).clamp(0, end))
    behind = values.gather(1, (place + 1).clamp(0, end))
    tied = ((before == scores) & (place > 0)) | ((behind == scores) & (place < end))
    return tied & (scores > -torch.inf)


def _ranking_of_rows(ranking: Ranking, rows: Tensor) -> Ranking:
    """Return a new ranking of these rows of dense scores."""
    assert ranking.scores is not None
    scores = ranking.scores[rows]
    new_row = torch.full((ranking.num_rows,), -1, device=rows.device)
    new_row[rows] = torch.arange(len(rows), device=rows.device)

    entries = ranking.targets.entries
    is_in_rows = new_row[entries.rows] >= 0
    entries = entries.at(is_in_rows & (entries.ids >= 0))
    gains = torch.zeros(
        scores.shape, dtype=real_dtype(scores.device), device=scores.device
    )
    if entries.gains is None:
        gains[new_row[entries.rows], entries.ids] = 1.0
    else:
        gains[new_row[entries.rows], entries.ids] = entries.gains
    return Ranking.from_scores(
        scores, target_gains=gains, depth=max(1, ranking.depth), validate_args=False
    )


def _with_rows(values: Tensor, row_values: Tensor, rows: Tensor, fill: float) -> Tensor:
    """Return values (N, …, W) with R rows replaced by values (R, …, V).

    The width is the larger of W and V.
    """
    width = max(values.shape[-1], row_values.shape[-1])
    values = F.pad(values, (0, width - values.shape[-1]), value=fill)
    row_values = F.pad(row_values, (0, width - row_values.shape[-1]), value=fill)
    return values.index_copy(0, rows, row_values.to(values.dtype))


def _spans_by_counting(ranking: Ranking, view: View) -> Spans:
    """Return the spans of the retrieved relevant labels, by counting scores."""
    ranks, buckets = ranking.exact, view.buckets
    hits = ranks.hits
    above, equal, _ = _counts(ranking, hits, None)
    if buckets is None:
        return Spans(ranks, above, equal)

    # within a row, hits have different ranks: the rank of a hit of a bucket shows its
    # place among the hits of the row
    bucket_hits = ranking.targets.kernels.split(hits, buckets)
    place = torch.searchsorted(hits.ranks.contiguous(), bucket_hits.ranks.flatten(1))
    place = place.clamp(max=hits.ranks.shape[1] - 1)
    above = above.gather(1, place).view(bucket_hits.ranks.shape)
    equal = equal.gather(1, place).view(bucket_hits.ranks.shape)
    if view.scope == "bucket":
        listed_ranks = torch.where(above < view.depth, bucket_hits.ranks, NOT_RANKED)
        above, equal, before = _counts(
            ranking, Hits(listed_ranks, bucket_hits.ids, None), buckets
        )
        bucket_ranks = torch.where(
            listed_ranks < NOT_RANKED, above + before + 1, NOT_RANKED
        )
        bucket_hits = Hits(bucket_ranks, bucket_hits.ids, bucket_hits.gains)

    by_bucket = ranking.by_bucket(buckets, view.scope, min(view.depth, ranking.depth))
    bucket_target_ranks = TargetRanks(
        bucket_hits,
        by_bucket.relevant,
        by_bucket.length,
        num_labels=ranking.num_labels,
        max_k=EVERYTHING,
        deepest=ranks.deepest,
    )
    return Spans(bucket_target_ranks, above, equal)


def _counts(ranking: Ranking, hits: Hits, buckets: LabelBuckets | None) -> Tensor:
    """Return how many labels score above each hit, tie with it, or tie at a lower id.

    The shape is (3, N, W). With ``buckets``, hits are (N, G, W), and only the labels of
    the bucket of a hit are counted.
    """
    is_hit = hits.ranks < NOT_RANKED
    counts = torch.zeros(
        3, *hits.ranks.shape, dtype=torch.int64, device=hits.ranks.device
    )
    counts[1] = 1  # a place without a hit has a span of one place
    places = is_hit.flatten().nonzero()[:, 0]
    if not len(places):
        return counts

    scores = ranking.scores
    if scores is None:
        return torch.where(
            is_hit, _counts_in_lists(ranking, hits.ranks, buckets), counts
        )
    rows = places // is_hit[0].numel()
    ids = hits.ids.flatten()[places]
    own_scores = scores[rows, ids]
    if buckets is None:
        counts_of_hits = ranking.targets.kernels.counts_above(
            scores, rows, own_scores, ids
        )
    else:
        counts_of_hits = counts_by_bucket(scores, rows, own_scores, ids, buckets)
    counts.view(3, -1)[:, places] = counts_of_hits
    return counts


def _counts_in_lists(
    ranking: Ranking, ranks: Tensor, buckets: LabelBuckets | None
) -> Tensor:
    """Return :func:`_counts` of lists, whose scores descend.

    Labels with equal scores are next to each other.
    """
    assert ranking.values is not None
    # a binary search needs ascending numbers
    negated = (-ranking.values[:, : ranking.depth]).contiguous()
    place = torch.where(ranks < NOT_RANKED, ranks - 1, 0).flatten(1)
    own = negated.gather(1, place)
    first = torch.searchsorted(negated, own)
    end = torch.searchsorted(negated, own, right=True)
    places = torch.stack([first, end, place], dim=1).view(
        len(ranks), 3, *ranks.shape[1:]
    )
    # count only the labels of the bucket in front of each place
    if buckets is not None:
        bucket_of_place = buckets.of(ranking.ids)
        for bucket in range(len(buckets)):
            num_in_front = F.pad((bucket_of_place == bucket).cumsum(dim=1), (1, 0))
            bucket_places = places[:, :, bucket]
            places[:, :, bucket] = num_in_front.gather(
                1, bucket_places.flatten(1)
            ).view(bucket_places.shape)
    first, end, place = places.unbind(1)
    return torch.stack([first, end - first, place - first])
