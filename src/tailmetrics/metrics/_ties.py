"""Ranks of labels with equal scores: the mean over all orders of them, the worst order, or the best order.

A relevant label has the same score as e - 1 other labels, and ``above`` labels have a higher score. Then it has each of
the ranks above + 1 to above + e with the same probability. These e places are its span. r relevant labels of one score
share a span; all their orders are equally likely. Sources: McSherry and Najork, ECIR 2008; for one relevant label, Ali
et al., PyKEEN (optimistic, pessimistic and realistic ranks). tests/test_ties.py compares with each order, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._states import EqualRows, PerRow, divide
from tailmetrics.ranking import EVERYTHING, NOT_RANKED, Cutoff, Ranking, TargetRanks, discounts
from tailmetrics.ranking._device import made_once, ordered_prefix_sums, ordered_sum, real_dtype, whole_numbers
from tailmetrics.ranking._hits import Hits
from tailmetrics.ranking._ranking import ExactRanks, Scope
from tailmetrics.ranking._target_ranks import check_deep_enough

Ties: TypeAlias = Literal["id", "expected", "worst", "best"]

SCORES_TOGETHER = 2**22
"""Number of scores compared at once in rows whose list ends among equal scores: 64 MB if all scores are equal."""

PLACES_TOGETHER = 2**12
"""Number of places of a span over which the rank of its first relevant label is averaged at once: 32 kB per row."""
FEW_PLACES = 64
"""Up to this number of places, each row is computed: this takes less time than to find rows with equal spans."""


NEGLIGIBLE = 1e-18
"""A length of a list is left out if its probability, divided by the largest one, is lower: no digit changes."""


@dataclass(eq=False)
class CutSpan:
    """The labels with equal scores among which a list ends at its depth; by row and bucket, shape (...) or less.

    The list holds m of E labels with equal scores; every choice of m labels is equally likely. So the list holds x of
    the e labels of a bucket with the hypergeometric probability C(e, x) C(E - e, m - x) / C(E, m).

    Attributes:
        above: Number of labels of the bucket with a higher score.
        equal: e, number of labels of the bucket among the E labels; 0 if the list does not end among equal scores.
        all_equal: E, number of labels with equal scores.
        listed: m, number of these labels in the list.
    """

    above: Tensor
    equal: Tensor
    all_equal: Tensor
    listed: Tensor

    def lengths(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield x and its probability, divided by the largest one: first the most likely x, then x above and below it.

        From x to x + 1 the probability changes by the factor (e - x)(m - x) / ((x + 1)(E - e - m + x + 1)).
        """
        e, m, others = self.equal, self.listed, self.all_equal - self.equal
        low, high = (m - others).clamp(min=0), torch.minimum(m, e)
        most_likely = torch.minimum(torch.maximum((m + 1) * (e + 1) // (self.all_equal + 2), low), high)
        up = down = torch.ones_like(most_likely, dtype=real_dtype(e.device))
        x_up = x_down = most_likely
        yield most_likely, up

        while bool(((up > 0) | (down > 0)).any()):
            up = up * ((e - x_up) * (m - x_up)) / ((x_up + 1) * (others - m + x_up + 1))
            down = down * (x_down * (others - m + x_down)) / ((e - x_down + 1) * (m - x_down + 1))
            x_up, x_down = x_up + 1, x_down - 1
            up = torch.where(up > NEGLIGIBLE, up, 0.0)
            down = torch.where(down > NEGLIGIBLE, down, 0.0)
            if bool((up > 0).any()):
                yield x_up, up
            if bool((down > 0).any()):
                yield x_down, down


class ExpectedRanks(TargetRanks):
    """Target ranks with which a formula returns its mean over all orders of equal scores.

    ``within`` and ``at`` return probabilities instead of bools, and ``hits_at`` is the sum of ``within``. So a formula
    that is linear in hits needs no change. Other formulas call :meth:`worth_within`, :meth:`reciprocal_of_first` or
    :meth:`sum_of_precisions`.

    Args:
        ranks: Ranks of all relevant labels that are retrieved, not only in a list that was cut.
        above: Shape of ``target_ranks``, int64: number of labels with a higher score.
        equal: Shape of ``target_ranks``, int64: number of labels with the same score, the label itself included.
        cut: The equal scores among which lists of buckets end; the mean is then :meth:`mean_of`.
    """

    _most_shown: Tensor | None = None

    def __init__(self, ranks: TargetRanks, above: Tensor, equal: Tensor, cut: CutSpan | None = None) -> None:
        self.cut = cut
        self._by_length: list[tuple[int, Tensor]] = []
        hits = ranks.hits
        super().__init__(
            hits, ranks.relevant, ranks.length, ranks.num_labels, EVERYTHING, ranks.deepest, ranks.documents
        )
        self.n_relevant = ranks.n_relevant
        void = hits.ranks >= NOT_RANKED
        self.above = above.masked_fill(void, NOT_RANKED).contiguous()
        self.equal = equal.masked_fill(void, 1)
        self.untied = not bool((self.equal > 1).any())
        first = torch.searchsorted(self.above, self.above)
        self.hits_above = first
        self.tied_relevant = torch.searchsorted(self.above, self.above, right=True) - first
        # the lowest place that a relevant label may have
        self.most = int((above + equal).masked_fill(void, 0).max()) if above.numel() else 0

    @property
    def with_hits(self) -> TargetRanks:
        """These ranks: a mean over orders is not 0 where one order has no hit."""
        return self

    def mean_of(self, value: Callable[[ExpectedRanks], Tensor], deepest: int) -> Tensor:
        """Return the mean of a ``value`` of ranks, shape (K, ...), over the possible lengths of the lists of buckets.

        If a list of ``depth`` labels ends among equal scores, the number of a bucket's labels in it is random. Given
        this number, each of the bucket's labels with this score is equally likely at each of the last places.
        """
        if self.cut is None:
            return value(self)
        if not self._by_length:  # computed once for all metrics that read these ranks
            self._by_length.extend(_chances_of_lengths(self.cut))

        chances: dict[int, Tensor] = {}
        for length, chance in self._by_length:
            _add_at(chances, min(length, deepest), chance)  # lists longer than the deepest cut-off have equal values
        # summed in order of length: a length that only other rows have adds 0, and changes no bit
        total: Tensor | None = None
        for length, chance in chances.items():
            term = value(self._with_length(length)).to(chance.dtype) * chance
            total = term if total is None else total + term
        assert total is not None
        return total / sum(chances.values())

    def _with_length(self, most: int) -> ExpectedRanks:
        """Return the ranks in lists of length ``most``."""
        ranks = copy(self)
        ranks._memo = {}
        ranks.length = torch.full_like(self.n_relevant, most)
        ranks._most_shown = ranks.length
        return ranks

    def shown(self, places: int | Tensor) -> int | Tensor:
        """Return ``places``, or the length of the list if it is shorter."""
        most = self._most_shown
        if most is None:
            return places
        return torch.minimum(torch.as_tensor(places, device=most.device), most)

    def limit(self, places: int | Tensor) -> int | Tensor:
        """Return :meth:`shown` in a shape that broadcasts with ``target_ranks``."""
        shown = self.shown(places)
        if isinstance(shown, int):
            return shown
        return shown.unsqueeze(-1)

    def places_within(self, limit: int | Tensor) -> Tensor:
        """Return the number of places of each label's span among the first ``limit`` places, int64."""
        return (limit - self.above).clamp(min=0).minimum(self.equal)

    def within(self, k: Cutoff) -> Tensor:
        """Return the probability that each relevant label is within the top ``k``, shape (..., W), float64."""
        check_deep_enough(k, self.max_k)
        return self.remembered(("within", k), lambda: self.share(self.places_within(self.limit(self.cutoffs(k)))))

    def share(self, places: Tensor) -> Tensor:
        """Return a number of places divided by the length of each label's span, float64."""
        return divide(places, self.equal)

    def at(self, k: Cutoff) -> Tensor:
        """Return the probability that each relevant label is at rank ``k`` exactly, shape (..., W), float64."""
        place = self.cutoffs(k, 1)
        shown = (self.above < place) & (place <= self.above + self.equal) & (place <= self.limit(self.cutoffs(k)))
        return self.share(shown.to(torch.int64))

    def hits_at(self, k: Cutoff) -> Tensor:
        """Return the mean number of hits among the first ``k``, shape (...), float64."""
        return self.remembered(("hits", k), lambda: ordered_sum(self.within(k)))

    def real_hits_at(self, k: Cutoff) -> Tensor:
        """Return :meth:`hits_at`."""
        return self.hits_at(k)

    def first_within(self, k: Cutoff) -> Tensor:
        """Return the probability that some relevant label is within the top ``k``, shape (...), float64.

        The first span with relevant labels has e places, m of them within k, and r relevant labels. The probability
        that none of the r labels is within k is the product of (e - m - i) / (e - i) over i < r.
        """
        above, equal, tied = self.above[..., 0], self.equal[..., 0], self.tied_relevant[..., 0]
        outside = equal - (self.shown(self.cutoffs(k)) - above).clamp(min=0).minimum(equal)
        missed = torch.ones_like(outside, dtype=real_dtype(outside.device))
        for i in range(int(tied.max()) if tied.numel() else 0):
            factor = divide((outside - i).clamp(min=0), equal - i)
            missed = torch.where(i < tied, missed * factor, missed)
        return torch.where(above < NOT_RANKED, 1 - missed, 0.0)

    def worth_within(self, k: Cutoff, worth: Tensor, sums: Callable[[], Tensor]) -> Tensor:
        """Return for each label the mean worth of its possible ranks, shape (..., W), float64.

        Ranks beyond ``k`` are worth 0. For a label without ties, read the worth of its rank, not a difference of sums:
        the result has the same bits as with ``ties="id"``.

        Args:
            k: Cut-off.
            worth: The worth of the ranks 1, 2, …, :attr:`most` + 1.
            sums: Returns the sums of the worth of the first 0, 1, 2, … ranks, at least up to :attr:`most`.
        """
        check_deep_enough(k, self.max_k)
        start, places = self.above.clamp(max=self.most), self.places_within(self.limit(self.cutoffs(k)))
        plain = worth[start] * (places > 0)
        if self.untied:
            return plain
        table = sums()
        return torch.where(self.equal == 1, plain, (table[start + places] - table[start]) / self.equal)

    def discounts_within(self, k: Cutoff) -> Tensor:
        """Return for each label the mean of 1 / log2(rank + 1), 0 beyond ``k``, shape (..., W), float64."""
        device, most = self.above.device, self.most
        return self.worth_within(k, discounts(most + 1, device), lambda: _discount_sums(1 << most.bit_length(), device))

    def reciprocal_of_first(self, k: Cutoff) -> Tensor:
        """Return the mean of 1 / rank of the first relevant label, 0 beyond ``k``, shape (...), float64.

        The first of r relevant labels is at place 1 of a span of e places with probability r / e. From place j to place
        j + 1 the probability changes by the factor (e - j - r + 1) / (e - j).
        """
        check_deep_enough(k, self.max_k)
        cutoffs = k if isinstance(k, tuple) else (k,)
        reciprocals = [self._reciprocal_of_first(self.limit(self.cutoffs(cutoff))) for cutoff in cutoffs]
        if isinstance(k, tuple):
            return torch.stack(reciprocals)
        return reciprocals[0]

    def _reciprocal_of_first(self, k: int | Tensor) -> Tensor:
        above, equal, tied = self.above[..., :1], self.equal[..., :1], self.tied_relevant[..., :1]
        last = (k - above).clamp(min=0).minimum(equal - tied + 1)
        deepest = 0
        if last.numel():
            deepest = int(last.max())
        if deepest <= FEW_PLACES:
            return _mean_reciprocal_of_first(above, equal, tied, last, deepest)
        # with equal scores for all labels, rows with equally many relevant labels have the same span: computed once
        row_spans = torch.stack([above, equal, tied, last], dim=-1).reshape(-1, 4)
        spans, row = torch.unique(row_spans, dim=0, return_inverse=True)
        above, equal, tied, last = spans.split(1, dim=-1)
        return _mean_reciprocal_of_first(above, equal, tied, last, deepest)[row].reshape(self.above.shape[:-1])

    def sum_of_precisions(self, k: Cutoff) -> Tensor:
        """Return the mean of the sum of the precision at each hit within the top ``k``, shape (...), float64.

        Up to a relevant label at the j-th place of its span there are on average h + 1 + (r - 1)(j - 1) / (e - 1) hits,
        h of them above the span. With S the sum of 1 / (above + j) over the m places of the span within k, the label
        adds [(h + 1) S + (r - 1) / (e - 1) (m - (above + 1) S)] / e.
        """
        check_deep_enough(k, self.max_k)
        places = self.places_within(self.limit(self.cutoffs(k)))
        start = self.above.clamp(max=self.most)
        reciprocal = divide(places, start + 1)
        if self.untied:
            return ordered_sum((self.hits_above + 1) * reciprocal)
        sums = _harmonic(1 << self.most.bit_length(), self.above.device)
        reciprocal = torch.where(self.equal == 1, reciprocal, sums[start + places] - sums[start])
        others = divide(self.tied_relevant - 1, self.equal - 1)
        rising = torch.where(self.equal == 1, 0.0, others * (places - (start + 1) * reciprocal))
        return ordered_sum(((self.hits_above + 1) * reciprocal + rising) / self.equal)


class AnyOrder(ExpectedRanks):
    """Target ranks for a formula of one rank: whether a relevant label stands there in every order, or in some order.

    Args:
        ranks: As for :class:`ExpectedRanks`, as are ``above``, ``equal`` and ``cut``.
        every: Whether a label has to be relevant in every order; else some order is enough.
    """

    def __init__(self, ranks: TargetRanks, above: Tensor, equal: Tensor, cut: CutSpan | None, *, every: bool) -> None:
        super().__init__(ranks, above, equal, cut)
        self._every = every

    def mean_of(self, value: Callable[[ExpectedRanks], Tensor], deepest: int) -> Tensor:
        """Return the ``value`` of these ranks: it is 0 or 1, and no mean."""
        return value(self)

    def at(self, k: Cutoff) -> Tensor:
        """Return a mask of labels, shape (..., W), that holds one where a relevant label is at rank ``k``."""
        place, cut = self.cutoffs(k, 1), self.cut
        filled = (self.above < place) & (place <= self.above + self.equal)
        if self._every:
            filled = filled & (self.tied_relevant == self.equal)
        if cut is None:
            return filled
        # the list of the bucket holds its labels above the cut, and the fewest or the most of those at the cut
        if self._every:
            listed = (cut.listed - (cut.all_equal - cut.equal)).clamp(min=0)
        else:
            listed = torch.minimum(cut.listed, cut.equal)
        return filled & (self.cutoffs(k) <= cut.above + listed).unsqueeze(-1)


def _chances_of_lengths(cut: CutSpan) -> list[tuple[int, Tensor]]:
    """Return the lengths that lists of buckets may have, ascending, with the probability of each, not yet divided."""
    chances: dict[int, Tensor] = {}
    for listed, chance in cut.lengths():
        lengths = (cut.above + listed).clamp(min=0)
        for length in torch.unique(lengths[chance > 0]).tolist():
            _add_at(chances, length, torch.where(lengths == length, chance, 0.0))
    return sorted(chances.items())


def _add_at(sums: dict[int, Tensor], key: int, amount: Tensor) -> None:
    """Add an amount to the sum of a key."""
    sums[key] = sums[key] + amount if key in sums else amount


def _mean_reciprocal_of_first(above: Tensor, equal: Tensor, tied: Tensor, last: Tensor, deepest: int) -> Tensor:
    """Return the mean of 1 / rank of the first of ``tied`` labels, 0 beyond place ``last``; arguments are (..., 1)."""
    chance = divide(tied, equal)
    total = torch.zeros_like(chance[..., 0])
    for start in range(0, deepest, PLACES_TOGETHER):
        before = start + whole_numbers(min(PLACES_TOGETHER, deepest - start), above.device)
        steps = divide((equal - before - tied).clamp(min=0), equal - before - 1)
        chances = chance * torch.cumprod(torch.cat([torch.ones_like(chance), steps], dim=-1), dim=-1)
        terms = chances[..., :-1] / (above + before + 1)
        total = total + ordered_sum(torch.where(before < last, terms, 0.0))
        chance = chances[..., -1:]
    return total


@made_once
def _harmonic(size: int) -> Tensor:
    """Return the harmonic numbers of 0 to ``size``, computed on the CPU."""
    return ordered_prefix_sums(1 / torch.arange(1, size + 1, dtype=torch.float64, device="cpu"))


@made_once
def _discount_sums(size: int) -> Tensor:
    """Return the sums of the discounts of the first 0, 1, …, ``size`` ranks, computed on the CPU."""
    return ordered_prefix_sums(discounts(size, torch.device("cpu")))


def discounts_within(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Return 1 / log2(rank + 1) for hits within the top ``k``, 0 for other labels, shape (..., W), float64."""
    if isinstance(ranks, ExpectedRanks):
        return ranks.discounts_within(k)
    return ranks.discounts * ranks.real_within(k)


def in_order(
    ranks: TargetRanks,
    above: Tensor,
    equal: Tensor,
    worth: Tensor,
    ties: Literal["worst", "best"],
    cut: CutSpan | None = None,
) -> TargetRanks:
    """Return the ranks in the worst or the best order of equal scores; each bucket has its own worst and best order.

    In the worst order relevant labels are last in their span, and the label of greatest worth is the very last. In the
    best order they are first, by descending worth. If a list ends inside a span, the worst order of a bucket is: its
    irrelevant labels, labels of other buckets, its relevant labels. The best order is the reverse.

    Args:
        ranks: Ranks of all relevant labels that are retrieved.
        above: Number of labels with a higher score, in the shape of ``target_ranks``.
        equal: Number of labels with the same score, the label itself included, in this shape.
        worth: The worth of a label at a high rank, such as its gain, in this shape.
        ties: The order, ``"worst"`` or ``"best"``.
        cut: The equal scores among which lists of buckets end.
    """
    if cut is None and not bool((equal > 1).any()):
        return ranks
    hits = ranks.hits
    void = hits.ranks >= NOT_RANKED
    above = above.masked_fill(void, NOT_RANKED)
    order = worth.argsort(dim=-1, descending=ties == "best", stable=True)
    order = order.gather(-1, above.gather(-1, order).argsort(dim=-1, stable=True))
    above, equal, void = above.gather(-1, order), equal.gather(-1, order), void.gather(-1, order)
    first = torch.searchsorted(above, above)
    place = whole_numbers(above.shape[-1], above.device) - first
    if ties == "worst":
        place = place + equal - (torch.searchsorted(above, above, right=True) - first)
    length = ranks.length
    if cut is not None:
        inside = (above == cut.above.unsqueeze(-1)) & ~void
        relevant, others = inside.sum(dim=-1), cut.all_equal - cut.equal
        if ties == "best":
            shown = torch.minimum(cut.listed, relevant)
            length = cut.above + shown + (cut.listed - relevant - others).clamp(min=0)
        else:
            shown = (cut.listed - cut.all_equal + relevant).clamp(min=0)
            length = cut.above + torch.minimum(cut.listed, cut.equal - relevant) + shown
        number = whole_numbers(above.shape[-1], above.device) - first
        void = void | (inside & (number >= shown.unsqueeze(-1)))
    sorted_ranks = torch.where(void, NOT_RANKED, above + place + 1)
    gains = None
    if hits.gains is not None:
        gains = hits.gains.gather(-1, order)
    sorted_hits = Hits(sorted_ranks, hits.ids.gather(-1, order), gains)
    deepest = 0
    if sorted_ranks.numel():
        deepest = int(sorted_ranks.masked_fill(void, 0).max())
    return TargetRanks(sorted_hits, ranks.relevant, length, ranks.num_labels, EVERYTHING, deepest, ranks.documents)


def spans(
    ranking: Ranking, buckets: LabelBuckets | None, scope: Scope, depth: int, everything: bool = True
) -> tuple[TargetRanks, Tensor, Tensor]:
    """Return the ranks of the relevant labels, and for each the numbers of labels with a higher and with its score.

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
    listed_depth = min(depth, ranking.depth)
    end = ranking.depth if buckets is None or scope == "global" else listed_depth
    rows = _rows_of_ties(ranking, end, everything)
    if rows is None:
        return _all_spans(ranking, buckets, scope, depth)

    ranks: TargetRanks = ranking
    if buckets is not None:
        ranks = ranking.by_bucket(buckets, scope, listed_depth)
    hits, scores = ranks.hits, ranking.scores
    if not len(rows):
        return ranks, (hits.ranks - 1).clamp(max=NOT_RANKED), torch.ones_like(hits.ranks)
    if scores is None:
        return _all_spans(ranking, buckets, scope, depth)

    tied_ranks, tied_above, tied_equal = _all_spans(_ranking_of(ranking, scores, rows), buckets, scope, depth)
    target_ranks = _with_rows(hits.ranks, tied_ranks.hits.ranks, rows, NOT_RANKED)
    ids = _with_rows(hits.ids, tied_ranks.hits.ids, rows, -1)
    gains = None
    if not ranks.binary:
        gains = _with_rows(ranks.target_gains, tied_ranks.target_gains, rows, 0.0)
    above = _with_rows(hits.ranks - 1, tied_above, rows, NOT_RANKED)
    equal = _with_rows(torch.ones_like(hits.ranks), tied_equal, rows, 1)
    hits = Hits(target_ranks, ids, gains)
    all_ranks = TargetRanks(hits, ranks.relevant, ranks.length, ranks.num_labels, EVERYTHING, tied_ranks.deepest)
    return all_ranks, above, equal


def tied_across(ranking: Ranking, cuts: tuple[int, ...]) -> PerRow | None:
    """Return whether each row lists a label, and has equal scores on both sides of each cut-off, (N, 1 + C), bool.

    Only the scores of the list and the next score after it are read. None for lists of ids, which have no ties.

    Args:
        ranking: A ranking of any kind.
        cuts: C cut-offs of the whole list, ascending.
    """
    values = ranking.values
    if values is None or not values.shape[1]:
        return None
    if ranking.distinct:
        return EqualRows((1, *[0] * len(cuts)), ranking.num_rows, values.device)
    inside = cuts
    if cuts[-1] >= values.shape[1]:
        inside = tuple(cut for cut in cuts if cut < values.shape[1])
    before, behind = values.index_select(1, _sides(inside, values.device)).chunk(2, dim=1)
    tied = behind >= before.clamp(min=torch.finfo(values.dtype).min)  # -inf is not retrieved, and ties with nothing
    if len(inside) < len(cuts):
        tied = F.pad(tied, (0, len(cuts) - len(inside)))
    if ranking.row_mask is not None:
        tied = tied & ranking.row_mask[:, None]
    return PerRow(tied)


def tied_hits(ranking: Ranking, depth: int | None, first: bool) -> PerRow | None:
    """Return whether each row was looked at, and whether a relevant label has the score of another label, (N, 2), bool.

    None for lists of ids, which have no ties, and where the rows cannot be looked at.

    Args:
        ranking: A ranking of any kind.
        depth: How many places of the list are read; None for all labels.
        first: Whether only the best relevant label of a row matters.
    """
    values = ranking.values
    exact = ranking.exact if depth is None else None
    if isinstance(exact, ExactRanks):
        flags = exact.tied(first)
        if flags is None:
            return None
    elif values is None or not values.shape[1]:
        return None
    elif ranking.distinct:
        return EqualRows((1, 0), ranking.num_rows, values.device)
    else:
        ranks = ranking.hits.ranks[:, :1] if first else ranking.hits.ranks
        read = ranks <= (EVERYTHING if depth is None else depth)
        tied = (_tied_with_neighbour(values, ranks) & read).any(dim=1)
        flags = torch.stack([values[:, 0] > -torch.inf, tied], dim=1)
    if ranking.row_mask is not None:
        flags = flags & ranking.row_mask[:, None]
    return PerRow(flags)


def _tied_with_neighbour(values: Tensor, ranks: Tensor) -> Tensor:
    """Return whether the label at each rank (N, W) has the score of the label before or behind it, shape (N, W)."""
    end = values.shape[1] - 1
    place = (ranks - 1).clamp(max=end)
    scores = values.gather(1, place.clamp(0, end))
    before = values.gather(1, (place - 1).clamp(0, end))
    behind = values.gather(1, (place + 1).clamp(0, end))
    tied = ((before == scores) & (place > 0)) | ((behind == scores) & (place < end))
    return tied & (scores > -torch.inf)


@made_once
def _sides(cuts: tuple[int, ...]) -> Tensor:
    """Return the first place and the last place within each cut-off, then the first place and the next after each."""
    return torch.tensor([0, *(cut - 1 for cut in cuts), 0, *cuts], device="cpu")


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
    ids, last = ranking.ids[rows], last[rows, None]
    above_in = buckets.totals(ranking.ids[:, :end])
    above_in[rows] = buckets.totals(ids[:, :end].masked_fill(values[rows, :end] == last, -1))
    equal_in = torch.zeros_like(above_in)
    if ranking.scores is None:
        equal_in[rows] = buckets.totals(ids.masked_fill(values[rows, : ranking.depth] != last, -1))
    else:
        height = max(1, SCORES_TOGETHER // max(1, ranking.scores.shape[1]))
        for block, last_scores in zip(torch.split(rows, height), torch.split(last, height), strict=True):
            row, label = (ranking.scores[block] == last_scores).nonzero(as_tuple=True)
            cell = block[row] * len(buckets) + buckets.of(label)
            equal_in.view(-1).scatter_add_(0, cell, torch.ones_like(cell))
    all_equal = equal_in.sum(dim=1, keepdim=True)
    listed = (min(depth, ranking.depth) - above_in.sum(dim=1, keepdim=True)).clamp(min=0).minimum(all_equal)
    return CutSpan(above_in, equal_in, all_equal, listed)


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


def _all_spans(
    ranking: Ranking, buckets: LabelBuckets | None, scope: Scope, depth: int
) -> tuple[TargetRanks, Tensor, Tensor]:
    """Return :func:`spans` of all relevant labels that are retrieved, for rows with or without ties."""
    ranks = ranking.exact
    hits = ranks.hits
    values = ranking.values if ranking.scores is None else ranking.scores
    assert values is not None
    above, equal, _ = _counts(ranking, hits, values)
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
            counts.append(torch.stack(_counts(ranking, bucket_hits, values, buckets, number)))
        above, equal, before = torch.stack(counts, dim=2)
        bucket_ranks = torch.where(listed_ranks < NOT_RANKED, above + before + 1, NOT_RANKED)
        split = Hits(bucket_ranks, split.ids, split.gains)
    bucket_target_ranks = TargetRanks(
        split, by_bucket.relevant, by_bucket.length, ranking.num_labels, EVERYTHING, ranks.deepest
    )
    return bucket_target_ranks, above, equal


def _counts(
    ranking: Ranking, hits: Hits, values: Tensor, buckets: LabelBuckets | None = None, number: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return for each hit (N, W) how many labels (of a bucket) score higher, score the same, and tie at a lower id."""
    valid = hits.ranks < NOT_RANKED
    rows, place = valid.nonzero(as_tuple=True)
    if not len(rows):
        nothing = torch.zeros_like(hits.ranks)
        return nothing, nothing + 1, nothing
    if ranking.scores is None:
        return _counts_in_list(ranking, hits, valid, buckets, number)

    ids = hits.ids[rows, place]
    scores, columns = values[rows, ids], ids
    if buckets is not None:
        labels = (buckets.assignment.to(ids.device) == number).nonzero().squeeze(1)
        values, columns = values[:, labels], torch.searchsorted(labels, ids)
    counts = torch.zeros(3, *hits.ranks.shape, dtype=torch.int64, device=ids.device)
    counts[:, rows, place] = ranking.targets.kernels.counts_above(values, rows, scores, columns)
    above, equal, before = counts
    return above, equal.masked_fill(~valid, 1), before


def _counts_in_list(
    ranking: Ranking, hits: Hits, valid: Tensor, buckets: LabelBuckets | None, number: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return :func:`_counts` of lists, whose scores descend: labels with equal scores are next to each other."""
    assert ranking.values is not None
    values = (-ranking.values[:, : ranking.depth]).contiguous()
    place = torch.where(valid, hits.ranks - 1, 0)
    scores = values.gather(1, place)
    first = torch.searchsorted(values, scores)
    end = torch.searchsorted(values, scores, right=True)
    if buckets is not None:  # count only labels of the bucket before each place
        in_front = F.pad((buckets.of(ranking.ids) == number).cumsum(dim=1), (1, 0))
        first, end, place = in_front.gather(1, first), in_front.gather(1, end), in_front.gather(1, place)
    return first.masked_fill(~valid, 0), (end - first).masked_fill(~valid, 1), (place - first).masked_fill(~valid, 0)


def ties_in_words(caller: str, share: float, cut: int | None, tie_rules: tuple[Ties, ...]) -> str:
    """Return the text of the warning of equal scores; it proposes the other values of ``ties`` that a metric takes."""
    place = "for a relevant label and another label" if cut is None else "on both sides of a cut-off"
    remedies = []
    if "expected" in tie_rules:
        remedies.append("ties='expected', the mean over all orders of equal scores")
    if "worst" in tie_rules:
        remedies.append("ties='worst' and ties='best' for bounds")
    else:
        remedies.append("scores of more digits, such as float32")
    return (
        f"{caller}: {share:.1%} of the rows have equal scores {place}. The list has the lower label id first there: if "
        f"labels are numbered by frequency, that favours the head. Pass {', or '.join(remedies)}."
    )
