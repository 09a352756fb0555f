"""Areas under curves: of each label over the rows, or of each row over its labels.

The areas of labels are computed from histograms of their scores.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from operator import mul
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import check_choice, check_count
from tailmetrics.buckets import LabelBuckets, digest_of_buckets, number_of_buckets
from tailmetrics.metrics._aggregations import Aggregation, Denominators, Values
from tailmetrics.metrics._arguments_of_metrics import (
    Average,
    LevelArguments,
    RelevanceArguments,
)
from tailmetrics.metrics._dense_scores import dense_blocks
from tailmetrics.metrics._formulas import NO_FORMULA
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._mistakes import warn_of_partial_lists, warn_of_ranks
from tailmetrics.metrics._readings import Reading
from tailmetrics.metrics._references import counts_above_and_tied
from tailmetrics.metrics._states import (
    COUNT,
    AtCells,
    InBlocks,
    Increments,
    State,
    States,
    divide,
)
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._all_scores import counts_by_bucket
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._orders import row_of_each, rows_at_once
from tailmetrics.ranking._ranking import Scope
from tailmetrics.ranking._reading import Depth
from tailmetrics.ranking._sums import ordered_sum
from tailmetrics.ranking._warnings import warn_outside

__all__ = ["CoverageError", "LabelAP", "LabelAUC", "RankingLoss", "RowAUC"]

AreaAverage: TypeAlias = Literal["macro", "micro", "weighted", "none"]

NotRetrieved: TypeAlias = Literal["last", "absent"]
"""What becomes of a label that a row does not retrieve.

``"last"``: it is behind all others. ``"absent"``: it is not known and left out.
"""

BLOCK_SCORES = 2**18
"""Scores put into bins together (some ten tensors of 2 MB), or bins read together."""

FINEST = 4096
"""The largest number of bins of a label.

64 bins for each octave from 2^-8 to 2^8 of either sign, 4 for each other octave, two
for infinities.
"""

UNSTORED = 67
"""The bin among ``FINEST`` of -inf and unstored labels only, so no score is rounded."""

WIDE = 0.01
"""Error of a value above which ``compute`` warns: 0.01, as papers report areas."""


def _bin_of(scores: Tensor) -> Tensor:
    """Return the bin of each score among ``FINEST``; bins ascend with the scores.

    This holds for any score there is.

    The bits of a float32 are ordered like the number: sign, exponent, then the leading
    bits of the fraction, more of them where scores and probabilities mostly lie.
    """
    # + 0.0 makes both zeros one
    bits = (scores.to(torch.float32) + 0.0).view(torch.int32)
    bits_of_size = bits & 0x7FFFFFFF
    exponent = bits_of_size >> 23
    fraction = bits_of_size & 0x7FFFFF
    quarter, sixty_fourth = fraction >> 21, fraction >> 17

    # 4 bins for each octave below 2^-8, then 64 for each of 16 octaves, then 4 for each
    # octave from 2^8 on
    fine_octave = exponent - 119
    below = exponent * 4 + quarter
    fine = 119 * 4 + fine_octave * 64 + sixty_fourth
    above = 119 * 4 + 16 * 64 + (exponent - 135) * 4 + quarter
    place = torch.where(
        fine_octave < 0, below, torch.where(fine_octave < 16, fine, above)
    )
    middle = FINEST // 2
    return torch.where(bits < 0, middle - 1 - place, middle + place).to(torch.int64)


def _scores_of_targets(ranking: Ranking, num_labels: int) -> Tensor:
    """Return the scores of the relevant labels; -inf for one that is not listed."""
    if ranking.scores is not None:
        return ranking.scores_of_targets
    entries = ranking.targets.entries
    scores = torch.full(
        entries.ids.shape, -torch.inf, dtype=torch.float32, device=entries.ids.device
    )
    for first_row, block in dense_blocks(ranking, num_labels):
        is_in_block = (entries.rows >= first_row) & (
            entries.rows < first_row + len(block)
        )
        places = (is_in_block & (entries.ids >= 0)).nonzero().squeeze(1)
        block_rows = entries.rows[places] - first_row
        scores[places] = block[block_rows, entries.ids[places]].to(scores.dtype)
    return scores


def _sum_of_products(factors: Tensor, other_factors: Tensor) -> Tensor:
    """Return the sums over the last axis of the products of whole numbers (L, B).

    Shape (L,), float64, rounded once.

    int64 holds the pairs of 4 billion rows; all cells of Amazon-3M have 10^19 of them,
    and are added up in Python.
    """
    sums = (factors * other_factors).sum(dim=1).double()
    upper_bounds = factors.sum(dim=1).double() * other_factors.amax(dim=1).double()
    is_too_large = upper_bounds >= 2**62
    for label in is_too_large.nonzero().squeeze(1).tolist():
        products = map(mul, factors[label].tolist(), other_factors[label].tolist())
        sums[label] = float(sum(products))
    return sums


def _roc_areas(relevant: Tensor, irrelevant: Tensor, all_equal: Tensor) -> Tensor:
    """Return areas under ROC curves: lower bound, area of binned scores, upper bound.

    The area is the share of pairs of a relevant and an irrelevant row in which the
    relevant row has the higher score; a pair of equal scores counts half. In a bin of
    different scores, none or all of the pairs may be in order.

    Args:
        relevant: Shape (L, B), int64: how many relevant scores of each label lie in
            each bin, bins ascending.
        irrelevant: Shape (L, B), int64: how many other scores lie there.
        all_equal: Shape (B,) or (L, B), bool: bins whose scores are all equal, so that
            rounding loses nothing.

    Returns:
        Shape (3, L), float64; NaN for a label that has no area.
    """
    pairs = _sum_of_products(
        relevant.sum(dim=1, keepdim=True), irrelevant.sum(dim=1, keepdim=True)
    )
    irrelevant_below = irrelevant.cumsum(dim=1) - irrelevant
    in_order = _sum_of_products(relevant, irrelevant_below)
    in_one_bin = _sum_of_products(relevant, irrelevant)
    equal = _sum_of_products(relevant, irrelevant * all_equal)
    low = in_order + equal / 2
    middle = in_order + in_one_bin * 0.5
    high = in_order + in_one_bin - equal / 2
    return torch.stack([low / pairs, middle / pairs, high / pairs]).clamp(max=1.0)


def _precision_areas(relevant: Tensor, irrelevant: Tensor, all_equal: Tensor) -> Tensor:
    """Return average precisions as :func:`_roc_areas` returns areas."""
    label, place = relevant.nonzero(as_tuple=True)
    num_relevant = relevant.sum(dim=1)
    relevant_above = num_relevant[:, None] - relevant.cumsum(dim=1)
    irrelevant_above = irrelevant.sum(dim=1, keepdim=True) - irrelevant.cumsum(dim=1)
    hits, hits_above = relevant[label, place], relevant_above[label, place]
    others, others_above = irrelevant[label, place], irrelevant_above[label, place]

    # P of a relevant row in a bin is TP / (TP + FP) with TP from hits_above + 1 to
    # hits_above + hits. Least: the others of the bin come first, and its relevant rows
    # one by one. Most: they come first, and tie with one another.
    true_positives = (hits_above + hits).double()
    middle = hits * (true_positives / (true_positives + others_above + others))
    high = hits * (true_positives / (true_positives + others_above))
    low = torch.minimum(
        _sum_of_precisions(hits_above, hits, others_above + others), middle
    )
    is_equal = all_equal.expand(relevant.shape)[label, place]
    low = torch.where(is_equal, middle, low)
    high = torch.where(is_equal, middle, high)

    sums = torch.zeros(3, *relevant.shape, dtype=torch.float64, device="cpu")
    sums[:, label, place] = torch.stack([low, middle, high])
    return (ordered_sum(sums) / num_relevant).clamp(max=1.0)


def _sum_of_precisions(above: Tensor, hits: Tensor, wrong: Tensor) -> Tensor:
    """Return the sum of (above + i) / (above + i + wrong), i = 1 ... hits, float64.

    It is hits - wrong (H(x + hits) - H(x)), with x = above + wrong and harmonic numbers
    H: their first terms are added one by one, the others by Euler's and Maclaurin's
    formula around x + 1/2, exact to float64 from there on.
    """
    start, num_left = (above + wrong).double(), hits.double()
    first_terms = torch.zeros_like(start)
    # behind 24 the first term that is left out, 127 / 30720 x^-8, is below 2^-46 of 1 /
    # x
    for _ in range(24):
        is_left = num_left >= 1
        first_terms += torch.where(is_left, 1 / (start + 1), 0.0)
        start = start + is_left
        num_left = (num_left - 1).clamp(min=0)

    low, high = start + 0.5, start + num_left + 0.5
    other_terms = torch.log1p(num_left / low)
    for factor, power in (
        (1 / 24, 2),
        (-7 / 960, 4),
        (31 / 8064, 6),
        (-127 / 30720, 8),
    ):
        other_terms += factor * (high**-power - low**-power)
    return hits - wrong * (first_terms + other_terms)


Area: TypeAlias = Literal["roc", "precision"]
AREAS: Final[dict[Area, Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
    "roc": _roc_areas,
    "precision": _precision_areas,
}

WHOLE = replace(NO_FORMULA, optional_k=True)
"""The formula of aggregations that read the scores of all labels themselves.

Formulas of pairs replace its function.
"""


class AllScores(Reading):
    """The scores of all labels, and which labels are relevant.

    Args:
        not_retrieved: What becomes of labels with the score -inf, and of labels that
            are not stored.
        other_arguments: See :class:`Reading`.
    """

    takes: tuple[str, ...] = ("min_gain", "not_retrieved")
    needs_scores = True

    def __init__(
        self,
        *arguments: Any,
        not_retrieved: NotRetrieved = "last",
        **other_arguments: Any,
    ) -> None:
        super().__init__(*arguments, **other_arguments)
        self.not_retrieved: NotRetrieved = check_choice(
            self.caller, "not_retrieved", not_retrieved, NotRetrieved
        )
        self.leaves_out = self.not_retrieved == "absent"
        """Whether labels that a row does not retrieve are left out."""

    @property
    def required_depth(self) -> Depth:
        """How deep a batch has to be ranked."""
        return Depth(0)

    def warn_of(self, metric: Any, ranking: Ranking) -> None:
        """Warn of lists that lack labels."""
        if not self.leaves_out:
            warn_of_partial_lists(self.caller, ranking, self.num_labels or 0)

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket looks at."""
        rows = "its rows against all others"
        if self.leaves_out:
            rows = "its rows against all others, but those that do not retrieve it"
        return (
            f"for each label of the bucket, {rows}; labels without a relevant row are "
            "left out; from"
        )


class LabelAreas(Aggregation):
    """Areas under curves over the rows, with bounds of their errors.

    Scores are counted in histograms. The bits of a score give its bin, so no range has
    to be known. Labels that are not stored tie with each other below all others.

    Args:
        area: Under which curve.
        peer: The function of scikit-learn.
        bins: Number of bins for each label. The states take 16 bytes per bin and label.
        other_arguments: See :class:`Aggregation`.
    """

    takes = ("average",)
    not_in_key = ("bins",)
    needs = ("num_labels",)
    reading: AllScores
    can_be_weighted = False

    def __init__(
        self, *arguments: Any, area: Area, peer: str, bins: int, **other_arguments: Any
    ) -> None:
        super().__init__(*arguments, **other_arguments)
        self.area: Area = area
        self.bins = bins
        self._peer = peer
        self._warns_of_bins = True

    def states(self) -> dict[str, State]:
        """Return the histogram of the scores of each label.

        One state counts all rows, the other one those where the label is relevant.
        """
        shape = (self.reading.known_num_labels, self.bins)
        is_usual = self.reading.min_gain is None and not self.reading.leaves_out
        histogram = State(shape, shared=is_usual, key=f"_in_{self.bins}")
        return {"scores": histogram, "relevant": histogram}

    def increments(self, ranking: Ranking) -> Increments:
        """Return the cells of the scores of a batch."""
        ranking = self.reading.relevant(ranking)
        entries = ranking.targets.entries
        scores = _scores_of_targets(ranking, self.reading.known_num_labels)
        is_counted = entries.ids >= 0
        if self.reading.leaves_out:
            is_counted = is_counted & (scores > -torch.inf)
        cells = self._cells(entries.ids.clamp(min=0), scores)
        return {
            "scores": InBlocks(lambda: self._blocks(ranking)),
            "relevant": AtCells(cells, is_counted, entries.rows),
        }

    def _blocks(self, ranking: Ranking) -> Iterator[AtCells]:
        """Yield the cells of the scores of a few rows at a time."""
        num_labels = self.reading.known_num_labels
        labels = torch.arange(num_labels, device=ranking.ids.device)
        height = rows_at_once(BLOCK_SCORES, num_labels)
        for first_row, dense_block in dense_blocks(ranking, num_labels):
            start = first_row
            for scores in torch.split(dense_block, height):
                rows = start + row_of_each(scores)
                is_counted = torch.ones_like(rows, dtype=torch.bool)
                if ranking.row_mask is not None:
                    is_counted = ranking.row_mask[rows]
                if self.reading.leaves_out:
                    is_counted = is_counted & (scores > -torch.inf)
                cells = self._cells(labels, scores)
                yield AtCells(
                    cells.reshape(-1), is_counted.reshape(-1), rows.reshape(-1)
                )
                start += len(scores)

    def _cells(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Return the cell of scores of labels in a state (L, bins)."""
        finest_per_bin = FINEST // self.bins
        return labels * self.bins + _bin_of(scores) // finest_per_bin

    def values(self, states: States) -> Values:
        """Return the area of binned scores; warn once where its error may be large."""
        areas = self._areas(states)
        self._warn_of_bins(areas)
        return areas[1:2]

    def _warn_of_bins(self, areas: Tensor) -> None:
        """Warn once where bins leave much open."""
        errors = (areas - areas[1]).abs().amax(dim=0)
        largest = self._error(errors)
        if not self._warns_of_bins or largest <= WIDE:
            return

        self._warns_of_bins = False
        finer_bins = f", or bins={FINEST}"
        if self.bins == FINEST:
            finer_bins = ""
        warn_outside(
            f"{self.caller}: the value may be off by up to {largest:.2g}: scores of a "
            f"label that lie in one of {self.bins} bins count as equal, as "
            f"probabilities in a narrow range or near 1 do. Pass logits{finer_bins}; "
            f"or, where memory holds all scores, use scikit-learn's {self._peer}. "
            "Equal scores lose nothing."
        )

    @abstractmethod
    def _areas(self, states: States) -> Tensor:
        """Return the least, middle and largest area, shape (3, G).

        G is the number of buckets, 1 without buckets, or L for a value per label.
        """

    def _error(self, errors: Tensor) -> float:
        """Return the error to report, given the errors (G,), or (L,) of labels."""
        return float(errors.nan_to_num().max())

    def _assignment(self, num_labels: int) -> Tensor:
        """Return the bucket of each label, shape (L,); 0 without buckets."""
        buckets = self.reading.buckets
        if buckets is None:
            return torch.zeros(num_labels, dtype=torch.int64, device="cpu")
        return buckets.assignment.cpu()

    @property
    def _all_equal(self) -> Tensor:
        """Which bins hold only equal scores, (B,): the bin of -inf, if it has one."""
        bins = torch.arange(self.bins, device="cpu")
        if self.bins != FINEST:
            return torch.zeros_like(bins, dtype=torch.bool)
        return bins == UNSTORED

    def _areas_of_labels(self, states: States) -> Tensor:
        """Return the areas of each label, (3, L)."""
        scores, relevant = states["scores"], states["relevant"]
        num_labels = len(scores)
        height = rows_at_once(BLOCK_SCORES, self.bins)
        # made first: small tensors between large ones cost memory
        areas = torch.empty(3, num_labels, dtype=torch.float64, device="cpu")
        for start in range(0, num_labels, height):
            labels = slice(start, start + height)
            block_relevant = relevant[labels].cpu()
            block_irrelevant = scores[labels].cpu() - block_relevant
            areas[:, labels] = AREAS[self.area](
                block_relevant, block_irrelevant, self._all_equal
            )
        return areas

    def bounds(self, states: States) -> tuple[Tensor, Tensor]:
        """Return the least and largest value of binned scores: (1, G) or (1, L)."""
        areas = self._areas(states)
        return areas[0:1], areas[2:3]

    def errors(self, states: States) -> Sequence[float]:
        """Return the largest possible error of the value of each bucket.

        Binned scores leave the exact value open.
        """
        least, value, largest = self._areas(states).reshape(3, -1)
        return torch.maximum(largest - value, value - least).tolist()

    def label_terms(self) -> dict[str, Any] | None:
        """Return the area, and its average over labels."""
        if self.reading.leaves_out:
            return None
        return {"area": self.area, "average": self.average}

    def bins_of_rows(self, ranking: Ranking) -> tuple[Tensor, Tensor, Tensor]:
        """Return the bin, relevance and score of each row and label, (N, L) each."""
        num_labels = self.reading.known_num_labels
        entries = self.reading.relevant(ranking).targets.entries
        entries = entries.at(entries.ids >= 0)
        is_relevant = torch.zeros(
            ranking.num_rows, num_labels, dtype=torch.bool, device="cpu"
        )
        is_relevant[entries.rows.cpu(), entries.ids.cpu()] = True

        blocks = [block.cpu() for _, block in dense_blocks(ranking, num_labels)]
        scores = torch.cat([torch.empty(0, num_labels, device="cpu"), *blocks])
        label_zero = torch.tensor(0, device="cpu")
        return self._cells(label_zero, scores), is_relevant, scores

    @property
    def prefix(self) -> str:
        """What stands in front of the stem in a key."""
        return f"{self.average}_"

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket is of."""
        return f"{self.reading.caption(k)} {self.bins} bins of its scores"


class MeanOfAreas(LabelAreas):
    """The mean over labels of the area of each label: ``average="macro"``."""

    averages: tuple[Average, ...] = ("macro",)

    def _areas(self, states: States) -> Tensor:
        """Return the mean of the areas of the labels of each bucket, (3, G)."""
        areas = self._areas_of_labels(states)
        weights = self._weights(states["relevant"])
        has_area = ~areas[0].isnan()
        assignment = self._assignment(len(has_area))
        means = []
        for bucket in range(self.num_buckets):
            is_averaged = has_area & (assignment == bucket)
            means.append(_means(areas[:, is_averaged], weights[is_averaged]))
        return torch.tensor(means, dtype=torch.float64, device="cpu").T

    def _weights(self, relevant: Tensor) -> Tensor:
        """Return the weight of each label, from relevant rows in its bins (L, B)."""
        return torch.ones(len(relevant), dtype=torch.float64, device="cpu")

    def denominators(self, states: States) -> Denominators | None:
        """Return the number of labels that are averaged: those that have an area."""
        num_relevant = states["relevant"].sum(dim=1).cpu()
        has_area = num_relevant > 0
        if self.area == "roc":
            has_area &= num_relevant < states["scores"].sum(dim=1).cpu()
        assignment = self._assignment(len(num_relevant))
        num_averaged = torch.bincount(assignment[has_area], minlength=self.num_buckets)
        return "labels with an area", [num_averaged.tolist()]


class MeanOfAreasBySupport(MeanOfAreas):
    """The mean over labels, weighted by relevant rows: ``average="weighted"``."""

    averages = ("weighted",)

    def _weights(self, relevant: Tensor) -> Tensor:
        """Return the number of relevant rows of each label."""
        return relevant.sum(dim=1).double().cpu()

    def denominators(self, states: States) -> None:
        """Return nothing: no label counts as much as another."""


class AreaOfAllCells(LabelAreas):
    """The area of the summed histograms of a bucket's labels: ``average="micro"``."""

    averages = ("micro",)

    @property
    def depends_on_catalogue(self) -> bool:
        """Whether cells count that no row retrieves."""
        return not self.reading.leaves_out

    def _areas(self, states: States) -> Tensor:
        """Return the areas of the summed histograms of each bucket's labels, (3, G)."""
        relevant = self._totals(states["relevant"])
        scores = self._totals(states["scores"])
        return AREAS[self.area](relevant, scores - relevant, self._all_equal)

    def _totals(self, histograms: Tensor) -> Tensor:
        """Return the summed histograms of each bucket's labels, (G, B), on the CPU."""
        totals = histograms.new_zeros(self.num_buckets, self.bins)
        assignment = self._assignment(len(histograms)).to(histograms.device)
        return totals.index_add_(0, assignment, histograms).cpu()


class AreaOfEachLabel(LabelAreas):
    """The area of each label: ``average="none"``."""

    averages = ("none",)
    has_value_per_label = True
    keeps_labels = True

    def _areas(self, states: States) -> Tensor:
        return self._areas_of_labels(states)

    def _error(self, errors: Tensor) -> float:
        return float(errors.nanmean().nan_to_num())

    def errors(self, states: States) -> Sequence[float]:
        """Return nothing: errors are shown for one number."""
        return ()

    def per_label(
        self,
        states: States,
        names: Sequence[str],
        with_cutoffs: bool,
        zero_division: float,
    ) -> dict[str, Tensor]:
        """Return the area of each label over all rows, NaN where it has none.

        The name is the key without the average.
        """
        return {names[0]: self._areas(states)[1]}

    def label_terms(self) -> None:
        """Return nothing: there is no average."""


AREA_AVERAGES: Final[dict[AreaAverage, type[LabelAreas]]] = {
    "macro": MeanOfAreas,
    "micro": AreaOfAllCells,
    "weighted": MeanOfAreasBySupport,
    "none": AreaOfEachLabel,
}


@dataclass(frozen=True)
class AreasByAverage:
    """Makes the aggregation of areas by ``average``; arguments as in ``LabelAreas``."""

    area: Area
    peer: str
    bins: int
    takes: tuple[str, ...] = ("average",)

    def __call__(
        self, caller: str, reading: Reading, weighted: bool, *, average: AreaAverage
    ) -> LabelAreas:
        """Return the aggregation."""
        check_choice(caller, "average", average, AREA_AVERAGES, " to this metric")
        aggregation = AREA_AVERAGES[average]
        return aggregation(
            caller,
            reading,
            weighted,
            average=average,
            area=self.area,
            peer=self.peer,
            bins=self.bins,
        )


def _means(areas: Tensor, weights: Tensor) -> list[float]:
    """Return the means over labels of areas (3, L), at most 1; NaN without a label."""
    total = fsum(weights.tolist())
    if not total:
        return [float("nan")] * len(areas)
    means = []
    for values in areas:
        mean = fsum((values * weights).tolist()) / total
        means.append(min(1.0, mean))
    return means


def _checked_bins(caller: str, bins: int) -> int:
    """Return a number of bins if it is a power of two that there can be."""
    bins = check_count(caller, "bins", bins, minimum=2)
    if bins > FINEST or FINEST % bins:
        raise ValueError(
            f"{caller}: bins={bins} must be a power of two from 2 to {FINEST}."
        )
    return bins


class _LabelAreaMetric(TopKMetric):
    """A metric of the area under a curve of each label.

    Attributes:
        _area: The curve.
        _peer: The function of scikit-learn that has the same value.
    """

    higher_is_better = True

    _area: ClassVar[Area]
    _peer: ClassVar[str]

    def __init__(
        self,
        *,
        average: AreaAverage = "macro",
        bins: int = FINEST,
        not_retrieved: NotRetrieved = "last",
        **kwargs: Unpack[LevelArguments],
    ) -> None:
        self.bins = _checked_bins(self._caller, bins)
        super().__init__(
            None,
            WHOLE,
            reading=AllScores,
            aggregation=AreasByAverage(self._area, self._peer, self.bins),
            average=average,
            not_retrieved=not_retrieved,
            **kwargs,
        )

    def error_bounds(self) -> tuple[Tensor, Tensor]:
        """Return bounds that hold the exact value over all batches and processes.

        Their shape is that of :meth:`compute`.
        """
        aggregation = cast("LabelAreas", self.aggregation)
        with self.over_all_processes():
            bounds = [aggregation.bounds(states) for states in self.states_of_groups()]
        low = self.shaped([least for least, _ in bounds])
        high = self.shaped([largest for _, largest in bounds])
        return low, high


@final
class LabelAUC(_LabelAreaMetric):
    """Area under the ROC curve of each label over the rows, with error bounds.

    The default is the mean over the labels.

    Higher is better, in [0, 1]; random scores have 0.5. Labels without a relevant row
    or without an irrelevant row are left out; NaN if no label remains.

    Use it when you report macro or micro AUC, as in medical coding, and the scores of
    all rows do not fit in memory.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L); labels that are not
    stored share one score, below all stored scores. A relevant and an irrelevant row in
    one bin count one half. The exact value lies within ``error_bounds()``.

    Args:
        average: ``"macro"``, ``"weighted"``, ``"micro"`` or ``"none"``, the value of
            each label.
        bins: Number of bins for each label, a power of two up to 4096. The states take
            16 bytes per bin and label.
        not_retrieved: What becomes of a label that a row does not retrieve (score -inf,
            or not stored): ``"last"``, it ties with others behind all retrieved labels;
            ``"absent"``, it is left out, as a cell that is not known.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = LabelAUC(num_labels=1)
    >>> metric.update(torch.tensor([[0.1], [0.8], [0.6]]), torch.tensor([[True], [True], [False]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``roc_auc_score``.
    """

    stem = "auc"
    _area: ClassVar[Area] = "roc"
    _peer: ClassVar[str] = "roc_auc_score"


@final
class LabelAP(_LabelAreaMetric):
    """Average precision of each label over the rows (mAP), with error bounds.

    The default is the mean over the labels.

    Higher is better, in [0, 1]; random scores reach the share of relevant rows. Labels
    without a relevant row are left out; NaN if no label remains.

    Use it when labels are rare and people look at the rows with the highest scores, as
    in tagging or drug effects.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L); labels that are not
    stored share one score, below all stored scores. Scores in one bin count as equal,
    so the value is exact if every distinct score of a label has a bin of its own. The
    exact value lies within ``error_bounds()``.

    Args:
        average: ``"macro"``, ``"weighted"``, ``"micro"`` or ``"none"``, the value of
            each label.
        bins: Number of bins for each label, a power of two up to 4096. The states take
            16 bytes per bin and label.
        not_retrieved: What becomes of a label that a row does not retrieve (score -inf,
            or not stored): ``"last"``, it ties with others behind all retrieved labels;
            ``"absent"``, it is left out, as a cell that is not known.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = LabelAP(num_labels=1)
    >>> metric.update(torch.tensor([[0.1], [0.8], [0.6]]), torch.tensor([[True], [True], [False]]))
    >>> metric.compute()
    tensor(0.8333, dtype=torch.float64)

    Source: scikit-learn, ``average_precision_score``: the sum of (R_i - R_(i-1)) P_i
    over distinct scores.
    """

    stem = "ap"
    _area: ClassVar[Area] = "precision"
    _peer: ClassVar[str] = "average_precision_score"


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Numbers of (relevant, irrelevant) label pairs of each row, or row and bucket.

    Attributes:
        n_relevant: Shape (N, G), or (N,) without buckets, int64, as are the others.
        n_irrelevant: Number of irrelevant labels.
        wrong: Pairs in which the irrelevant label has the higher score.
        tied: Pairs of equal scores.
        depth: Labels whose score is at least that of the worst relevant label; 0
            without a relevant label.
    """

    n_relevant: Tensor
    n_irrelevant: Tensor
    wrong: Tensor
    tied: Tensor
    depth: Tensor
    _memo: dict[object, Any] = field(default_factory=dict)


def _count_pairs(
    ranking: Ranking,
    num_labels: int,
    buckets: LabelBuckets | None,
    scope: Scope,
    leaves_out: bool,
) -> PairCounts:
    """Count the pairs of every row.

    Args:
        ranking: Of dense scores, or of complete lists with scores; labels that are not
            listed tie below all others.
        num_labels: L.
        buckets: G buckets; None for none.
        scope: ``"bucket"``: pairs within the bucket; ``"global"``: its relevant labels
            against all irrelevant ones.
        leaves_out: Whether labels that are not retrieved are in no pair.
    """
    targets = ranking.targets.without_void()
    entries, keys = targets.entries, targets.keys(buckets)
    compared_within, compared_keys = buckets, keys
    if scope == "global":
        compared_within, compared_keys = None, entries.rows

    # of each relevant label: its score, how many labels of all score higher or the
    # same, and how many relevant ones
    own, above, tied = _scores_and_counts_above(
        ranking, entries, num_labels, compared_within
    )
    relevant_above, relevant_tied = counts_above_and_tied(own, compared_keys)
    is_in_pairs = torch.ones_like(own, dtype=torch.bool)
    if leaves_out:
        is_in_pairs = own > -torch.inf

    shape = (ranking.num_rows, number_of_buckets(buckets))
    zeros = torch.zeros(shape[0] * shape[1], dtype=torch.int64, device=keys.device)
    wrong_of_label = torch.where(is_in_pairs, above - relevant_above, 0)
    tied_of_label = torch.where(is_in_pairs, tied - relevant_tied, 0)
    depth_of_label = torch.where(is_in_pairs, above + tied + 1, 0)
    n = zeros.index_add(0, keys, is_in_pairs.to(torch.int64)).view(shape)
    wrong = zeros.index_add(0, keys, wrong_of_label).view(shape)
    same = zeros.index_add(0, keys, tied_of_label).view(shape)
    depth = zeros.scatter_reduce(0, keys, depth_of_label, reduce="amax").view(shape)

    if leaves_out:
        sizes = _retrieved_counts(ranking, num_labels, compared_within)
    elif compared_within is not None:
        sizes = compared_within.label_counts.to(n.device)
    elif ranking.documents is not None:
        sizes = ranking.documents[:, None]
    else:
        sizes = torch.full_like(n[:, :1], num_labels)

    if compared_within is not None:
        m = sizes - n
    else:
        m = (sizes - n.sum(dim=1, keepdim=True)).expand(shape)

    if buckets is None:
        n, m, wrong, same, depth = (
            counts[:, 0] for counts in (n, m, wrong, same, depth)
        )
    return PairCounts(n, m, wrong, same, depth)


def _retrieved_counts(
    ranking: Ranking, num_labels: int, buckets: LabelBuckets | None
) -> Tensor:
    """Return how many labels each row retrieves, (N, 1) or, by bucket, (N, G)."""
    counts = [
        torch.zeros(
            0, number_of_buckets(buckets), dtype=torch.int64, device=ranking.ids.device
        )
    ]
    for _, block in dense_blocks(ranking, num_labels):
        is_retrieved = (block > -torch.inf).to(torch.int64)
        if buckets is None:
            counts.append(is_retrieved.sum(dim=1, keepdim=True))
        else:
            bucket_counts = is_retrieved.new_zeros(len(block), len(buckets))
            bucket_counts.index_add_(
                1, buckets.assignment.to(block.device), is_retrieved
            )
            counts.append(bucket_counts)
    return torch.cat(counts)


def _scores_and_counts_above(
    ranking: Ranking, entries: Entries, num_labels: int, buckets: LabelBuckets | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return each relevant label's score, and how many others score more and the same.

    Args:
        ranking: See :func:`_count_pairs`.
        entries: T relevant labels, none of them void.
        num_labels: L.
        buckets: Where given, a relevant label is compared only within its bucket.

    Returns:
        Shape (T,) each.
    """
    nothing = entries.ids[:0]
    parts = [(nothing.to(torch.float32), nothing, nothing)]
    for first_row, block in dense_blocks(ranking, num_labels):
        is_in_block = (entries.rows >= first_row) & (
            entries.rows < first_row + len(block)
        )
        rows, ids = entries.rows[is_in_block] - first_row, entries.ids[is_in_block]
        own = block[rows, ids]
        if buckets is None:
            above, same, _ = ranking.targets.kernels.counts_above(block, rows, own, ids)
        else:
            above, same, _ = counts_by_bucket(block, rows, own, ids, buckets)
        # a row with fewer documents than columns ends in columns without a label
        if ranking.documents is not None:
            missing = num_labels - ranking.documents[rows + first_row]
            same = torch.where(own > -torch.inf, same, same - missing)
        parts.append((own, above, same - 1))
    own, above, tied = (torch.cat(part) for part in zip(*parts, strict=True))
    return own, above, tied


class Pairs(AllScores):
    """The scores of all labels of each row, as counts of (relevant, irrelevant) pairs.

    Labels that are not stored share one score, below all stored scores. With buckets,
    ``scope="bucket"`` reads only the bucket's labels; ``scope="global"`` reads all
    labels, of which only the bucket's labels can be relevant.
    """

    takes = ("min_gain", "not_retrieved", "scope")

    @property
    def depends_on_catalogue(self) -> bool:
        """Whether pairs count of labels that a row does not retrieve."""
        return not self.leaves_out

    def check(self, ranking: Ranking, validate: bool) -> None:
        """Raise if nothing tells the number of labels."""
        if self._num_labels_of(ranking) is None:
            raise ValueError(
                f"{self.caller}: candidates do not tell the number of labels; pass "
                "num_labels."
            )

    def warn_of(self, metric: Any, ranking: Ranking) -> None:
        """Warn of rows without a class, and of lists that lack labels."""
        warn_of_ranks(metric, ranking)
        if not self.leaves_out:
            warn_of_partial_lists(
                self.caller, ranking, self._num_labels_of(ranking) or 0
            )

    def _num_labels_of(self, ranking: Ranking) -> int | None:
        if ranking.documents is not None:
            if ranking.num_rows:
                return int(ranking.documents.max())
            return 0
        if self.num_labels is None:
            return ranking.num_labels
        return self.num_labels

    def read(self, ranking: Ranking) -> Any:
        """Return the counts of pairs, which all such metrics share."""
        ranking, num_labels, buckets = (
            self.relevant(ranking),
            self._num_labels_of(ranking),
            self.buckets,
        )
        assert num_labels is not None
        key = (
            "pairs",
            num_labels,
            digest_of_buckets(buckets),
            self.scope,
            self.leaves_out,
        )
        return ranking.remembered(
            key,
            lambda: _count_pairs(
                ranking, num_labels, buckets, self.scope, self.leaves_out
            ),
        )

    def values(self, ranking: Ranking, ranks: Any) -> Tensor:
        """Return the formula's value of each row, shape (1, N) or (1, N, G)."""
        row_values: Tensor = self.formula.function(ranks)
        return row_values.unsqueeze(0)

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket looks at."""
        labels = "the irrelevant labels of the bucket"
        if self.scope == "global":
            labels = "all irrelevant labels"
        left_out = ""
        if self.leaves_out:
            left_out = "; labels that a row does not retrieve are left out"
        return (
            f"relevant labels of the bucket against {labels} (scope "
            f"{self.scope}){left_out}"
        )


def _area_of_pairs(pairs: PairCounts) -> Tensor:
    """Return the share of pairs in the right order; a tied pair counts one half."""
    twice_all = 2 * (pairs.n_relevant * pairs.n_irrelevant)
    return divide(twice_all - 2 * pairs.wrong - pairs.tied, twice_all)


def _has_pairs(_: Ranking, pairs: PairCounts) -> Tensor:
    """Whether a row has a pair of a relevant and an irrelevant label."""
    return (pairs.n_relevant > 0) & (pairs.n_irrelevant > 0)


def _depth_of_pairs(pairs: PairCounts) -> Tensor:
    """Return how many labels one has to read until all relevant labels are found."""
    return pairs.depth


def _wrong_pairs(pairs: PairCounts) -> Tensor:
    """Return the share of pairs in the wrong order; equal scores count as wrong."""
    return divide(pairs.wrong + pairs.tied, pairs.n_relevant * pairs.n_irrelevant)


@final
class RowAUC(TopKMetric):
    """Area under the ROC curve of a row: the share of label pairs in the right order.

    A pair is a relevant and an irrelevant label.

    Higher is better, in [0, 1]; random scores have 0.5. A pair of equal scores counts
    one half. A row without a relevant or without an irrelevant label has no area, and
    does not count by default.

    Use it when the whole order matters and no cut-off is natural; for recommenders this
    metric is called GAUC.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L); ``target`` is (N,),
    (N, M) or (N, L).

    Args:
        not_retrieved: What becomes of a label that a row does not retrieve (score -inf,
            or not stored): ``"last"``, it ties with others behind all retrieved labels;
            ``"absent"``, it is left out, as a cell that is not known.
        empty_target_action: Value of a row without a pair of a relevant and an
            irrelevant label: ``"neg"`` is 0, ``"pos"`` is 1; with ``"skip"`` the row
            does not count; ``"error"`` raises an error. None means ``"skip"``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = RowAUC()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``roc_auc_score(average="samples")``; Zhu et al., KDD 2017
    (GAUC).
    """

    higher_is_better = True

    def __init__(
        self,
        *,
        not_retrieved: NotRetrieved = "last",
        **kwargs: Unpack[RelevanceArguments],
    ) -> None:
        formula = replace(
            WHOLE,
            function=_area_of_pairs,
            answered=_has_pairs,
            lacking="no pair of a relevant and an irrelevant label",
            usual_action="skip",
        )
        super().__init__(
            None, formula, reading=Pairs, not_retrieved=not_retrieved, **kwargs
        )


@final
class CoverageError(TopKMetric):
    """Number of labels to read, best first, until all relevant labels are found.

    Lower is better, in [0, inf); of equal scores, relevant labels are read last; 0 for
    a row without a relevant label.

    Use it when every relevant label has to be found, and reading one more label costs
    the same at any rank.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L); ``target`` is (N,),
    (N, M) or (N, L).

    Args:
        not_retrieved: What becomes of a label that a row does not retrieve (score -inf,
            or not stored): ``"last"``, it ties with others behind all retrieved labels;
            ``"absent"``, it is left out, as a cell that is not known.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = CoverageError()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor(2., dtype=torch.float64)

    Source: scikit-learn, ``coverage_error``.
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))

    def __init__(
        self,
        *,
        not_retrieved: NotRetrieved = "last",
        **kwargs: Unpack[RelevanceArguments],
    ) -> None:
        formula = replace(
            WHOLE, function=_depth_of_pairs, value_format=COUNT, unit="places"
        )
        super().__init__(
            None, formula, reading=Pairs, not_retrieved=not_retrieved, **kwargs
        )


@final
class RankingLoss(TopKMetric):
    """Share of label pairs in the wrong order; equal scores count as wrong.

    A pair is a relevant and an irrelevant label.

    Lower is better, in [0, 1]; 0 for a row without a pair.

    Use it when the order of all labels matters and a tie is a mistake; ``RowAUC``
    counts a tie as one half.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L); ``target`` is (N,),
    (N, M) or (N, L).

    Args:
        not_retrieved: What becomes of a label that a row does not retrieve (score -inf,
            or not stored): ``"last"``, it ties with others behind all retrieved labels;
            ``"absent"``, it is left out, as a cell that is not known.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = RankingLoss()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``label_ranking_loss``.
    """

    higher_is_better = False

    def __init__(
        self,
        *,
        not_retrieved: NotRetrieved = "last",
        **kwargs: Unpack[RelevanceArguments],
    ) -> None:
        formula = replace(WHOLE, function=_wrong_pairs)
        super().__init__(
            None, formula, reading=Pairs, not_retrieved=not_retrieved, **kwargs
        )
