"""Ranks of labels with equal scores: the mean over all orders, the worst, the best.

A relevant label has the same score as e - 1 other labels, and ``above`` labels have a
higher score. Then it has each of the ranks above + 1 to above + e with the same
probability. These e places are its span. r relevant labels of one score share a span;
all their orders are equally likely. Sources: McSherry and Najork, ECIR 2008; for one
relevant label, Ali et al., PyKEEN (optimistic, pessimistic and realistic ranks).
tests/test_ties.py compares with each order, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from tailmetrics.metrics._states import divide
from tailmetrics.ranking import EVERYTHING, NOT_RANKED, Cutoff, TargetRanks, discounts
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import Hits
from tailmetrics.ranking._once import made_once, whole_numbers
from tailmetrics.ranking._orders import order_by_key
from tailmetrics.ranking._sums import ordered_prefix_sums, ordered_sum
from tailmetrics.ranking._target_ranks import check_deep_enough

Ties: TypeAlias = Literal["id", "expected", "worst", "best"]

PLACES_TOGETHER = 2**12
"""Number of places of a span that are averaged at once: 32 kB per row."""
FEW_PLACES = 64
"""Up to this number of places, each row is computed.

This takes less time than finding rows with equal spans.
"""

NEGLIGIBLE = 1e-18
"""Lengths of a list with a lower probability, relative to the largest, are left out.

No digit of a mean changes.
"""


@dataclass(eq=False)
class CutSpan:
    """The labels with equal scores among which a list ends at its depth.

    The shape of each tensor is (...), by row and bucket, or less.

    The list holds m of E labels with equal scores; every choice of m labels is equally
    likely. So the list holds x of the e labels of a bucket with the hypergeometric
    probability C(e, x) C(E - e, m - x) / C(E, m).

    Attributes:
        above: Number of labels of the bucket with a higher score.
        equal: e, number of labels of the bucket among the E labels; 0 if the list does
            not end among equal scores.
        all_equal: E, number of labels with equal scores.
        listed: m, number of these labels in the list.
    """

    above: Tensor
    equal: Tensor
    all_equal: Tensor
    listed: Tensor

    def lengths(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield x and its probability relative to the largest, the likeliest x first.

        Then follow x above and below it.

        From x to x + 1 the probability changes by the factor up(x) / down(x + 1), with
        up(x) = (e - x)(m - x), and down(x) = x (E - e - m + x).
        """
        e, m, others = self.equal, self.listed, self.all_equal - self.equal

        def up(x: Tensor) -> Tensor:
            return (e - x) * (m - x)

        def down(x: Tensor) -> Tensor:
            return x * (others - m + x)

        smallest = (m - others).clamp(min=0)
        largest = torch.minimum(m, e)
        most_likely = (m + 1) * (e + 1) // (self.all_equal + 2)
        most_likely = torch.minimum(torch.maximum(most_likely, smallest), largest)
        chance_above = chance_below = torch.ones_like(
            most_likely, dtype=real_dtype(e.device)
        )
        above = below = most_likely
        yield most_likely, chance_above

        while bool(((chance_above > 0) | (chance_below > 0)).any()):
            chance_above = chance_above * up(above) / down(above + 1)
            chance_below = chance_below * down(below) / up(below - 1)
            chance_above = torch.where(chance_above > NEGLIGIBLE, chance_above, 0.0)
            chance_below = torch.where(chance_below > NEGLIGIBLE, chance_below, 0.0)
            above = above + 1
            below = below - 1
            if bool((chance_above > 0).any()):
                yield above, chance_above
            if bool((chance_below > 0).any()):
                yield below, chance_below


@dataclass(eq=False)
class Spans:
    """The span of places that each relevant label shares with labels of its score.

    Attributes:
        ranks: Ranks of all relevant labels that are retrieved, not only in a list that
            was cut.
        above: Shape of ``target_ranks``, int64: number of labels with a higher score;
            any number if not retrieved.
        equal: Shape of ``target_ranks``, int64: number of labels with the same score,
            the label itself included.
        cut: The equal scores among which lists of buckets end; None if no list does.
    """

    ranks: TargetRanks
    above: Tensor
    equal: Tensor
    cut: CutSpan | None = None


class ExpectedRanks(TargetRanks):
    """Target ranks for the mean of a formula over all orders of equal scores.

    ``within`` and ``at`` return probabilities instead of bools, and ``hits_at`` is the
    sum of ``within``. So a formula that is linear in hits needs no change. Other
    formulas call :meth:`worth_within`, :meth:`reciprocal_of_first` or
    :meth:`sum_of_precisions`.

    Args:
        spans: The spans of the relevant labels. If they have a cut, the mean is
            :meth:`mean_of`.
    """

    _most_shown: Tensor | None = None

    def __init__(self, spans: Spans) -> None:
        self.cut = spans.cut
        self._by_length: list[tuple[int, Tensor]] = []
        ranks, hits = spans.ranks, spans.ranks.hits
        super().__init__(
            hits,
            ranks.relevant,
            ranks.length,
            num_labels=ranks.num_labels,
            max_k=EVERYTHING,
            deepest=ranks.deepest,
            documents=ranks.documents,
        )
        self.n_relevant = ranks.n_relevant
        void = hits.ranks >= NOT_RANKED
        self.above = spans.above.masked_fill(void, NOT_RANKED).contiguous()
        self.equal = spans.equal.masked_fill(void, 1)
        self.hits_above = torch.searchsorted(self.above, self.above)
        self.tied_relevant = (
            torch.searchsorted(self.above, self.above, right=True) - self.hits_above
        )
        # the lowest place that a relevant label may have
        self.most = 0
        if void.numel():
            self.most = int((self.above + self.equal).masked_fill(void, 0).max())

    @property
    def with_hits(self) -> None:
        """None: a mean over orders is not 0 where one order has no hit."""

    def mean_of(self, value: Callable[[ExpectedRanks], Tensor], deepest: int) -> Tensor:
        """Return the mean of a ``value`` over the possible lengths of bucket lists.

        ``value`` returns a value of ranks, shape (K, ...).

        If a list of ``depth`` labels ends among equal scores, the number of a bucket's
        labels in it is random. Given this number, each of the bucket's labels with this
        score is equally likely at each of the last places.
        """
        if self.cut is None:
            return value(self)
        if not self._by_length:  # computed once for all metrics that read these ranks
            self._by_length.extend(_chances_of_lengths(self.cut))

        chances: dict[int, Tensor] = {}
        for length, chance in self._by_length:
            # lists longer than the deepest cut-off have equal values
            _add_at(chances, min(length, deepest), chance)

        # summed in order of length: a length that only other rows have adds 0, and
        # changes no bit
        total: Tensor | None = None
        for length, chance in chances.items():
            term = value(self._with_length(length)).to(chance.dtype) * chance
            if total is None:
                total = term
            else:
                total = total + term
        assert total is not None
        return total / sum(chances.values())

    def _with_length(self, most: int) -> ExpectedRanks:
        """Return the ranks in lists of length ``most``."""
        ranks = copy(self)
        ranks._memo = {}
        ranks.length = torch.full_like(self.n_relevant, most)
        ranks._most_shown = ranks.length
        return ranks

    def limit(self, places: int | Tensor) -> int | Tensor:
        """Return ``places``, or the length of the list where that is shorter.

        A tensor has an axis more, to be combined with ``target_ranks``.
        """
        if self._most_shown is not None:
            places = self._most_shown.clamp(max=places)
        if isinstance(places, int):
            return places
        return places.unsqueeze(-1)

    def places_within(self, limit: int | Tensor) -> Tensor:
        """Return how many of the first ``limit`` places are in each span, int64."""
        return (limit - self.above).clamp(min=0).minimum(self.equal)

    def within(self, k: Cutoff) -> Tensor:
        """Return the probability that each relevant label is in the top ``k``.

        Shape (..., W), float64.
        """
        check_deep_enough(k, self.max_k)
        return self.remembered(
            ("within", k),
            lambda: self.share(self.places_within(self.limit(self.cutoffs(k)))),
        )

    def share(self, places: Tensor) -> Tensor:
        """Return a number of places divided by the length of each span, float64."""
        return divide(places, self.equal)

    def at(self, k: Cutoff) -> Tensor:
        """Return the probability that each relevant label is at rank ``k`` exactly.

        Shape (..., W), float64.
        """
        place = self.cutoffs(k, 1)
        is_shown = self.has_place(place) & (place <= self.limit(self.cutoffs(k)))
        return self.share(is_shown.to(torch.int64))

    def has_place(self, place: int | Tensor) -> Tensor:
        """Return whether a place, counted from 1, is in the span of each label."""
        return (self.above < place) & (place <= self.above + self.equal)

    def hits_at(self, k: Cutoff) -> Tensor:
        """Return the mean number of hits in the top ``k``, shape (...), float64."""
        return self.remembered(("hits", k), lambda: ordered_sum(self.within(k)))

    def real_hits_at(self, k: Cutoff) -> Tensor:
        """Return :meth:`hits_at`."""
        return self.hits_at(k)

    def first_within(self, k: Cutoff) -> Tensor:
        """Return the probability that some relevant label is in the top ``k``.

        Shape (...), float64.

        The first span with relevant labels has e places, m of them within k, and r
        relevant labels. The probability that none of the r labels is within k is the
        product of (e - m - i) / (e - i) over i < r.
        """
        above, equal, tied = self._first_spans()
        inside = (self.limit(self.cutoffs(k)) - above).clamp(min=0).minimum(equal)
        outside = equal - inside
        most_tied = 0
        if tied.numel():
            most_tied = int(tied.max())

        chance_of_none = torch.ones_like(outside, dtype=real_dtype(outside.device))
        for i in range(most_tied):
            factor = divide((outside - i).clamp(min=0), equal - i)
            chance_of_none = torch.where(
                i < tied, chance_of_none * factor, chance_of_none
            )
        return torch.where(above < NOT_RANKED, 1 - chance_of_none, 0.0).squeeze(-1)

    def _first_spans(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the first span of each list, (..., 1): above, equal, tied relevant."""
        return self.above[..., :1], self.equal[..., :1], self.tied_relevant[..., :1]

    def worth_within(
        self, k: Cutoff, worth: Tensor, sums: Callable[[], Tensor]
    ) -> Tensor:
        """Return the mean worth of the possible ranks of each label.

        Shape (..., W), float64.

        Ranks beyond ``k`` are worth 0. For a label without ties, read the worth of its
        rank, not a difference of sums: the result has the same bits as with
        ``ties="id"``.

        Args:
            k: Cut-off.
            worth: The worth of the ranks 1, 2, …, :attr:`most` + 1.
            sums: Returns the sums of the worth of the first 0, 1, 2, … ranks, at least
                up to :attr:`most`.
        """
        check_deep_enough(k, self.max_k)
        start = self.above.clamp(max=self.most)
        places = self.places_within(self.limit(self.cutoffs(k)))
        worth_of_first_place = worth[start] * (places > 0)
        sum_of_worth = _sum_of_span(sums(), start, places)
        return torch.where(
            self.equal == 1, worth_of_first_place, sum_of_worth / self.equal
        )

    def discounts_within(self, k: Cutoff) -> Tensor:
        """Return for each label the mean of 1 / log2(rank + 1), 0 beyond ``k``.

        Shape (..., W), float64.
        """
        device = self.above.device
        return self.worth_within(
            k,
            discounts(self.most + 1, device),
            lambda: _discount_sums(self._table_size, device),
        )

    @property
    def _table_size(self) -> int:
        """The size of tables of sums: a power of two above :attr:`most`.

        Few tables are made this way.
        """
        return 1 << self.most.bit_length()

    def reciprocal_of_first(self, k: Cutoff) -> Tensor:
        """Return the mean of 1 / rank of the first relevant label, 0 beyond ``k``.

        Shape (...), float64.

        The first of r relevant labels is at place 1 of a span of e places with
        probability r / e. From place j to place j + 1 the probability changes by the
        factor (e - j - r + 1) / (e - j).
        """
        check_deep_enough(k, self.max_k)
        cutoffs = k if isinstance(k, tuple) else (k,)
        reciprocals = [
            self._reciprocal_of_first(self.limit(self.cutoffs(cutoff)))
            for cutoff in cutoffs
        ]
        if isinstance(k, tuple):
            return torch.stack(reciprocals)
        return reciprocals[0]

    def _reciprocal_of_first(self, limit: int | Tensor) -> Tensor:
        """Return :meth:`reciprocal_of_first` among the first ``limit`` places."""
        above, equal, tied = self._first_spans()
        last = (limit - above).clamp(min=0).minimum(equal - tied + 1)
        deepest = 0
        if last.numel():
            deepest = int(last.max())
        if deepest <= FEW_PLACES:
            return _mean_reciprocal_of_first(above, equal, tied, last, deepest)

        # with equal scores for all labels, rows with equally many relevant labels have
        # the same span: computed once
        row_spans = torch.stack([above, equal, tied, last], dim=-1).reshape(-1, 4)
        spans, span_of_row = torch.unique(row_spans, dim=0, return_inverse=True)
        above, equal, tied, last = spans.split(1, dim=-1)
        means = _mean_reciprocal_of_first(above, equal, tied, last, deepest)
        return means[span_of_row].reshape(self.above.shape[:-1])

    def sum_of_precisions(self, k: Cutoff) -> Tensor:
        """Return the mean of the sum of precisions at the hits in the top ``k``.

        Shape (...), float64.

        Up to a relevant label at the j-th place of its span there are on average h + 1
        + (r - 1)(j - 1) / (e - 1) hits, h of them above the span. With S the sum of 1 /
        (above + j) over the m places of the span within k, the label adds [(h + 1) S +
        (r - 1) / (e - 1) (m - (above + 1) S)] / e.
        """
        check_deep_enough(k, self.max_k)
        places = self.places_within(self.limit(self.cutoffs(k)))
        start = self.above.clamp(max=self.most)
        is_alone = self.equal == 1
        sum_of_reciprocals = _sum_of_span(
            _harmonic(self._table_size, start.device), start, places
        )
        sum_of_reciprocals = torch.where(
            is_alone, divide(places, start + 1), sum_of_reciprocals
        )

        first_hits = (self.hits_above + 1) * sum_of_reciprocals
        hits_per_place = divide(self.tied_relevant - 1, self.equal - 1)
        further_hits = hits_per_place * (places - (start + 1) * sum_of_reciprocals)
        further_hits = torch.where(is_alone, 0.0, further_hits)
        return ordered_sum((first_hits + further_hits) / self.equal)


class AnyOrder(ExpectedRanks):
    """Target ranks for a formula of one rank, in every order or in some order.

    They tell whether a relevant label has this rank.

    Args:
        spans: The spans of the relevant labels.
        every: Whether a label has to be relevant in every order, or in some order.
    """

    def __init__(self, spans: Spans, *, every: bool) -> None:
        super().__init__(spans)
        self._every = every

    def mean_of(self, value: Callable[[ExpectedRanks], Tensor], deepest: int) -> Tensor:
        """Return the ``value`` of these ranks: it is 0 or 1, and no mean."""
        return value(self)

    def at(self, k: Cutoff) -> Tensor:
        """Return a mask (..., W) with a True if a relevant label is at rank ``k``."""
        is_at_rank = self.has_place(self.cutoffs(k, 1))
        if self._every:
            is_at_rank = is_at_rank & (self.tied_relevant == self.equal)
        cut = self.cut
        if cut is None:
            return is_at_rank

        # the list of the bucket holds its labels above the cut, and the fewest or the
        # most of those at the cut
        if self._every:
            others = cut.all_equal - cut.equal
            listed = (cut.listed - others).clamp(min=0)
        else:
            listed = torch.minimum(cut.listed, cut.equal)
        is_in_list = self.cutoffs(k) <= cut.above + listed
        return is_at_rank & is_in_list.unsqueeze(-1)


def _chances_of_lengths(cut: CutSpan) -> list[tuple[int, Tensor]]:
    """Return the possible lengths of bucket lists, ascending, with their probabilities.

    The probabilities are not yet divided by their sum.
    """
    chances: dict[int, Tensor] = {}
    for listed, chance in cut.lengths():
        lengths = (cut.above + listed).clamp(min=0)
        for length in torch.unique(lengths[chance > 0]).tolist():
            _add_at(chances, length, torch.where(lengths == length, chance, 0.0))
    return sorted(chances.items())


def _add_at(sums: dict[int, Tensor], key: int, amount: Tensor) -> None:
    """Add an amount to the sum of a key."""
    if key in sums:
        sums[key] = sums[key] + amount
    else:
        sums[key] = amount


def _sum_of_span(sums: Tensor, start: Tensor, places: Tensor) -> Tensor:
    """Return the sum of a table over ``places`` places behind the first ``start``.

    ``sums`` are the sums of the table from its front.
    """
    return sums[start + places] - sums[start]


def _mean_reciprocal_of_first(
    above: Tensor, equal: Tensor, tied: Tensor, last: Tensor, deepest: int
) -> Tensor:
    """Return the mean of 1 / rank of the first of ``tied`` labels, 0 beyond ``last``.

    Shape of all arguments (..., 1).

    The chance of place j + 1 of the span is the chance of place j times (equal - j -
    tied + 1) / (equal - j); see :meth:`ExpectedRanks.reciprocal_of_first`. ``deepest``
    is the largest of ``last``.
    """
    chance = divide(tied, equal)
    mean = torch.zeros_like(chance[..., 0])
    for start in range(0, deepest, PLACES_TOGETHER):
        # places before each place
        before = start + whole_numbers(
            min(PLACES_TOGETHER, deepest - start), above.device
        )
        factors = divide((equal - before - tied).clamp(min=0), equal - before - 1)
        products = torch.cumprod(
            torch.cat([torch.ones_like(chance), factors], dim=-1), dim=-1
        )
        chances = chance * products
        terms = chances[..., :-1] / (above + before + 1)
        mean = mean + ordered_sum(torch.where(before < last, terms, 0.0))
        chance = chances[..., -1:]
    return mean


@made_once
def _harmonic(size: int) -> Tensor:
    """Return the harmonic numbers of 0 to ``size``, computed on the CPU."""
    return ordered_prefix_sums(
        1 / torch.arange(1, size + 1, dtype=torch.float64, device="cpu")
    )


@made_once
def _discount_sums(size: int) -> Tensor:
    """Return the sums of the discounts of the first 0, 1, …, ``size`` ranks.

    They are computed on the CPU.
    """
    return ordered_prefix_sums(discounts(size, torch.device("cpu")))


def discounts_within(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Return 1 / log2(rank + 1) of hits in the top ``k``, and 0 of other labels.

    Shape (..., W), float64.
    """
    if isinstance(ranks, ExpectedRanks):
        return ranks.discounts_within(k)
    return ranks.discounts * ranks.real_within(k)


def in_order(spans: Spans, worth: Tensor, ties: Ties) -> TargetRanks:
    """Return the ranks in the worst or the best order of equal scores of each bucket.

    In the worst order relevant labels are last in their span, and the label of greatest
    worth is the very last. In the best order they are first, by descending worth. If a
    list ends inside a span, the worst order of a bucket is: its irrelevant labels,
    labels of other buckets, its relevant labels. The best order is the reverse.

    Args:
        spans: The spans of the relevant labels.
        worth: The worth of a label at a high rank, such as its gain, in the shape of
            ``target_ranks``.
        ties: The order, ``"worst"`` or ``"best"``.
    """
    ranks, cut, is_best = spans.ranks, spans.cut, ties == "best"
    if cut is None and not bool((spans.equal > 1).any()):
        return ranks

    # the relevant labels by span, and within a span by worth
    hits = ranks.hits
    is_void = hits.ranks >= NOT_RANKED
    above = spans.above.masked_fill(is_void, NOT_RANKED)
    order = order_by_key(above, worth.argsort(dim=-1, descending=is_best, stable=True))
    above = above.gather(-1, order)
    equal = spans.equal.gather(-1, order)
    is_void = is_void.gather(-1, order)

    # the place of each label in its span, from 0
    first = torch.searchsorted(above, above)
    number = whole_numbers(above.shape[-1], above.device) - first
    place = number
    if not is_best:
        tied_relevant = torch.searchsorted(above, above, right=True) - first
        place = number + equal - tied_relevant

    length = ranks.length
    if cut is not None:
        is_at_cut = (above == cut.above.unsqueeze(-1)) & ~is_void
        length, shown = _list_ends(cut, is_at_cut.sum(dim=-1), is_best)
        is_void = is_void | (is_at_cut & (number >= shown.unsqueeze(-1)))

    sorted_ranks = torch.where(is_void, NOT_RANKED, above + place + 1)
    gains = None
    if hits.gains is not None:
        gains = hits.gains.gather(-1, order)
    sorted_hits = Hits(sorted_ranks, hits.ids.gather(-1, order), gains)
    deepest = 0
    if sorted_ranks.numel():
        deepest = int(sorted_ranks.masked_fill(is_void, 0).max())
    return TargetRanks(
        sorted_hits,
        ranks.relevant,
        length,
        num_labels=ranks.num_labels,
        max_k=EVERYTHING,
        deepest=deepest,
        documents=ranks.documents,
    )


def _list_ends(cut: CutSpan, relevant: Tensor, is_best: bool) -> tuple[Tensor, Tensor]:
    """Return the lengths of bucket lists, and the relevant labels at their ends.

    Args:
        cut: The equal scores among which the lists end.
        relevant: Number of relevant labels of each bucket with such a score.
        is_best: Whether the order is the best or the worst.
    """
    if is_best:
        others = cut.all_equal - cut.equal
        shown = torch.minimum(cut.listed, relevant)
        irrelevant = (cut.listed - relevant - others).clamp(min=0)
    else:
        hidden = cut.all_equal - cut.listed
        shown = (relevant - hidden).clamp(min=0)
        irrelevant = torch.minimum(cut.listed, cut.equal - relevant)
    return cut.above + shown + irrelevant, shown
