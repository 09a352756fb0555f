"""Count the rows with equal scores on both sides of a cut-off, and warn of them."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics._transfer import digest_of
from tailmetrics.metrics._readings import Ranks
from tailmetrics.metrics._spans import tied_with_neighbour
from tailmetrics.metrics._states import EqualRows, PerRow
from tailmetrics.metrics._ties import Ties
from tailmetrics.ranking import EVERYTHING, Ranking
from tailmetrics.ranking._once import made_once
from tailmetrics.ranking._ranking import ExactRanks

MANY_TIED = 0.01
"""``compute`` warns above this share of tied rows: ids may decide 0.01 of a value."""


class TieCount:
    """Counts the rows with equal scores on both sides of a cut-off, for a warning.

    Attributes:
        cuts: The cut-offs; None: each relevant label is looked at.
        name: Short name of the state.
    """

    def __init__(self, reading: Ranks, weighted: bool) -> None:
        self._reading = reading
        cutoffs = {k for k in reading.cutoffs if k is not None}
        if reading.uses_depth:
            cutoffs.add(reading.depth)
        self.cuts: tuple[int | None, ...] = tuple(sorted(cutoffs))
        self._first_alone = reading.formula.reads_first and not reading.by_bucket
        identity: tuple[Any, ...] = ()
        if None in reading.cutoffs:
            self.cuts += (None,)
            identity = (reading.min_gain, self._first_alone, reading.uses_depth)
        self.name = f"tied_{digest_of((self.cuts, weighted, *identity))}"

    def increment(self, ranking: Ranking) -> PerRow | None:
        """Return for each row 1, and whether each cut-off is tied, (N, 1 + C).

        None if that is unknown.
        """
        memo = ranking._memo
        if self.name not in memo:
            if None in self.cuts:
                memo[self.name] = self._tied_labels(ranking)
            else:
                memo[self.name] = tied_across(ranking, cast("Any", self.cuts))
        tied: PerRow | None = memo[self.name]
        return tied

    def _tied_labels(self, ranking: Ranking) -> PerRow | None:
        """Return the counts of a batch if a cut-off is None."""
        reading = self._reading
        relevant = reading.relevant(ranking)
        if not reading.uses_depth:
            return tied_hits(relevant, None, self._first_alone)
        hits, across = (
            tied_hits(relevant, reading.depth, self._first_alone),
            tied_across(ranking, (reading.depth,)),
        )
        if hits is None or across is None:
            return hits
        return PerRow(torch.cat([across.values, hits.values[:, 1:]], dim=1))


def tied_across(ranking: Ranking, cuts: tuple[int, ...]) -> PerRow | None:
    """Return whether each row lists a label, and which cut-offs are tied, (N, 1 + C).

    A cut-off is tied if equal scores stand on both sides of it. Only the scores of the
    list and the next score are read. None for lists of ids, which have no ties.

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
    before, behind = values.index_select(1, _sides(inside, values.device)).chunk(
        2, dim=1
    )
    # -inf is not retrieved, and ties with nothing
    tied = behind >= before.clamp(min=torch.finfo(values.dtype).min)
    if len(inside) < len(cuts):
        tied = F.pad(tied, (0, len(cuts) - len(inside)))
    return PerRow(ranking.in_counted_rows(tied))


def tied_hits(ranking: Ranking, depth: int | None, first: bool) -> PerRow | None:
    """Return True for each row, and whether a relevant label ties in it, (N, 2), bool.

    A label ties if another label has its score. None for lists of ids, which have no
    ties, and where the rows cannot be looked at.

    Args:
        ranking: A ranking of any kind.
        depth: How many places of the list are read; None for all labels.
        first: Whether only the best relevant label of a row matters.
    """
    if depth is None and isinstance(ranking.exact, ExactRanks):
        tied = ranking.exact.tied(first)
        if tied is None:
            return None
        return PerRow(ranking.in_counted_rows(tied))
    values = ranking.values
    if values is None or not values.shape[1]:
        return None
    if ranking.distinct:
        return EqualRows((1, 0), ranking.num_rows, values.device)

    ranks = ranking.hits.ranks
    if first:
        ranks = ranks[:, :1]
    tied = (tied_with_neighbour(values, ranks) & (ranks <= (depth or EVERYTHING))).any(
        dim=1
    )
    flags = torch.stack([torch.ones_like(tied), tied], dim=1)
    return PerRow(ranking.in_counted_rows(flags))


@made_once
def _sides(cuts: tuple[int, ...]) -> Tensor:
    """Return the places on both sides of each cut-off.

    These are the first place and the last place within each cut-off, then the first
    place and the next after each.
    """
    return torch.tensor([0, *(cut - 1 for cut in cuts), 0, *cuts], device="cpu")


def ties_in_words(
    caller: str, share: float, cut: int | None, tie_rules: tuple[Ties, ...]
) -> str:
    """Return the text of the warning of equal scores.

    It proposes the other values of ``ties`` that a metric takes.
    """
    place = "on both sides of a cut-off"
    if cut is None:
        place = "for a relevant label and another label"
    remedies = []
    if "expected" in tie_rules:
        remedies.append("ties='expected', the mean over all orders of equal scores")
    if "worst" in tie_rules:
        remedies.append("ties='worst' and ties='best' for bounds")
    else:
        remedies.append("scores of more digits, such as float32")
    return (
        f"{caller}: {share:.1%} of the rows have equal scores {place}. The list has "
        "the lower label id first there: if labels are numbered by frequency, that "
        f"favours the head. Pass {', or '.join(remedies)}."
    )
