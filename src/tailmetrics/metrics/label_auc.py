"""Area under the ROC curve of each label, from histograms of its scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum
from operator import mul
from typing import ClassVar, Literal, TypeAlias, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._checks import check_choice, check_count
from tailmetrics.metrics._arguments_of_metrics import TopKArguments
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._states import AtCells, InBlocks, Increments, State
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._pairs import dense_blocks
from tailmetrics.ranking._reading import Depth

AreaAverage: TypeAlias = Literal["macro", "micro", "weighted"]

BLOCK_SCORES = 2**18
"""Scores that are put into bins together: some ten tensors of 2 MB."""

FINEST = 4096
"""Most bins: 64 for each octave from 2^-8 to 2^8 of either sign, 4 for each other octave, two for infinities."""


def _bin_of(scores: Tensor) -> Tensor:
    """Return the bin of each score among ``FINEST``; a higher score is never in a lower bin, for any score there is.

    The bits of a float32 are ordered like the number: sign, exponent, then the leading bits of the fraction, more of
    them where scores and probabilities mostly lie.
    """
    bits = (scores.to(torch.float32) + 0.0).view(torch.int32)  # + 0.0 makes both zeros one
    size = bits & 0x7FFFFFFF
    exponent, fraction = size >> 23, size & 0x7FFFFF
    inner = exponent - 119
    fine = 119 * 4 + inner * 64 + (fraction >> 17)
    coarse_above = 119 * 4 + 16 * 64 + (exponent - 135) * 4 + (fraction >> 21)
    place = torch.where(inner < 0, exponent * 4 + (fraction >> 21), torch.where(inner < 16, fine, coarse_above))
    return torch.where(bits < 0, FINEST // 2 - 1 - place, FINEST // 2 + place).to(torch.int64)


def _scores_of_targets(ranking: Ranking, num_labels: int) -> Tensor:
    """Return the scores of the relevant labels; -inf for one that a list does not hold."""
    if ranking.scores is not None:
        return ranking.scores_of_targets
    entries = ranking.targets.entries
    own = torch.full(entries.ids.shape, -torch.inf, dtype=torch.float32, device=entries.ids.device)
    for first, block in dense_blocks(ranking, num_labels):
        inside = (entries.rows >= first) & (entries.rows < first + len(block)) & (entries.ids >= 0)
        place = inside.nonzero().squeeze(1)
        own[place] = block[entries.rows[place] - first, entries.ids[place]].to(own.dtype)
    return own


def _sum_of_products(these: Tensor, those: Tensor) -> Tensor:
    """Return the sum over the last axis of the products of whole numbers (L, B), float64 (L,), rounded once.

    int64 holds the pairs of 4 billion rows; all cells of Amazon-3M have 10^19 of them, and are added up in Python.
    """
    found = (these * those).sum(dim=1).double()
    large = (these.sum(dim=1).double() * those.amax(dim=1).double() >= 2**62).nonzero().squeeze(1)
    for label in large.tolist():
        found[label] = float(sum(map(mul, these[label].tolist(), those[label].tolist())))
    return found


@final
class LabelAUC(TopKMetric):
    """Area under the ROC curve of each label over the rows, averaged over labels, with bounds of its error.

    Higher is better, in [0, 1], 0.5 for chance; NaN without a label that has rows of both kinds. Labels without a
    relevant or without an irrelevant row are left out.

    Use it when papers of medical coding report macro and micro AUC, on more rows than memory holds.

    ``preds`` are dense scores (N, L), CSR or scored candidates; labels that are not stored tie with each other below
    all others. Scores are counted in histograms over the order of their own bits, so that no range has to be known.
    :meth:`error_bounds` hold the exact value; pairs of scores in one bin count one half.

    Args:
        average: ``"macro"``, the mean over labels; ``"weighted"``, weighted by their number of relevant rows;
            ``"micro"``, all cells as one label.
        bins: Number of bins of each label, a power of two up to 4096; memory is 16 bytes for each bin and label.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = LabelAUC(num_labels=1)
    >>> metric.update(torch.tensor([[0.1], [0.8], [0.6]]), torch.tensor([[True], [True], [False]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``roc_auc_score``.
    """

    higher_is_better = True
    stem = "auc"
    optional_k = True
    withheld: ClassVar[tuple[str, ...]] = ("k",)
    key_words: ClassVar = {**TopKMetric.key_words, "average": "", "bins": ""}
    needs: tuple[str, ...] = ("num_labels",)

    def __init__(self, *, average: AreaAverage = "macro", bins: int = FINEST, **kwargs: Unpack[TopKArguments]) -> None:
        choices: tuple[AreaAverage, ...] = ("macro", "micro", "weighted")
        self.average: AreaAverage = check_choice(self._caller, "average", average, choices)
        self.bins = check_count(self._caller, "bins", bins, minimum=2)
        if self.bins > FINEST or self.bins & (self.bins - 1):
            raise ValueError(f"{self._caller}: bins={bins} must be a power of two from 2 to {FINEST}.")
        super().__init__(None, **kwargs)

    @property
    def _prefix(self) -> str:
        return f"{self.average}_"

    @property
    def reads(self) -> Depth:
        """How much of a batch has to be ranked."""
        return Depth(0, None)

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        if ranking.scores is None and ranking.values is None:
            raise ValueError(f"{self._caller}: preds are ranked ids, which have no scores; pass scores.")
        if ranking.beyond is not None:
            raise ValueError(
                f"{self._caller}: the labels came in pieces; make one metric for each piece, with its scores and its "
                "part of the targets."
            )

    def _states(self) -> dict[str, State]:
        assert self.num_labels is not None
        shared = self.min_gain is None
        names = f"scores_in_{self.bins}", f"relevant_in_{self.bins}"
        return dict.fromkeys(names, State((self.num_labels, self.bins), shared=shared))

    def _prepare(self, ranking: Ranking) -> Increments:
        assert self.num_labels is not None
        ranking = self._relevant(ranking)
        entries = ranking.targets.entries
        label = entries.ids.clamp(min=0)
        own = AtCells(self._cells(label, _scores_of_targets(ranking, self.num_labels)), entries.ids >= 0, entries.rows)
        return {f"scores_in_{self.bins}": InBlocks(lambda: self._blocks(ranking)), f"relevant_in_{self.bins}": own}

    def _blocks(self, ranking: Ranking) -> Iterator[AtCells]:
        """Yield the cells of the scores of a few rows at a time."""
        assert self.num_labels is not None
        label = torch.arange(self.num_labels, device=ranking.ids.device)
        height = max(1, BLOCK_SCORES // max(1, self.num_labels))
        for first, block in dense_blocks(ranking, self.num_labels):
            for number, part in enumerate(torch.split(block, height)):
                start = first + number * height
                row = torch.arange(start, start + len(part), device=part.device)
                counted = row >= 0 if ranking.row_mask is None else ranking.row_mask[row]
                rows, amounts = (one[:, None].expand(part.shape).reshape(-1) for one in (row, counted))
                yield AtCells(self._cells(label, part).reshape(-1), amounts, rows)

    def _cells(self, label: Tensor, scores: Tensor) -> Tensor:
        """Return the cell of scores of labels in a state (L, bins)."""
        return label * self.bins + _bin_of(scores) // (FINEST // self.bins)

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        return [[middle for _, middle, _ in self._areas(states)]]

    def error_bounds(self) -> tuple[Tensor, Tensor]:
        """Return bounds, of the shape of :meth:`compute`, that hold the exact value over all batches and processes."""
        self._check_bound("first")
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn, should_sync=self._to_sync, should_unsync=self._should_unsync
        ):
            states = {name: self._state(name) for name in self._names}
            groups = range(1 + len(self.row_groups or ()))
            areas = [self._areas({name: state[group] for name, state in states.items()}) for group in groups]
        sides = (
            torch.tensor([[area[side] for area in of_group] for of_group in areas], dtype=torch.float64)
            for side in (0, 2)
        )
        low, high = (side.to(self.device, real_dtype(self.device)) for side in sides)
        shaped = (side if self.row_groups else side.squeeze(0) for side in (low, high))
        low, high = (side if self.bound_buckets is not None else side.squeeze(-1) for side in shaped)
        return low, high

    def _areas(self, states: Mapping[str, Tensor]) -> list[tuple[float, float, float]]:
        """Return the least, the middle and the largest area there can be, of all labels or of each bucket."""
        relevant = states[f"relevant_in_{self.bins}"].cpu()
        irrelevant = states[f"scores_in_{self.bins}"].cpu() - relevant
        if self.bound_buckets is None:
            return [self._area(relevant, irrelevant)]
        insides = (self.bound_buckets.assignment == number for number in range(self._num_buckets))
        return [self._area(relevant[inside], irrelevant[inside]) for inside in insides]

    def _area(self, relevant: Tensor, irrelevant: Tensor) -> tuple[float, float, float]:
        if self.average == "micro":
            relevant, irrelevant = relevant.sum(dim=0, keepdim=True), irrelevant.sum(dim=0, keepdim=True)
        both = (relevant.sum(dim=1) > 0) & (irrelevant.sum(dim=1) > 0)
        relevant, irrelevant = relevant[both], irrelevant[both]
        below = irrelevant.cumsum(dim=1) - irrelevant
        pairs = _sum_of_products(relevant.sum(dim=1, keepdim=True), irrelevant.sum(dim=1, keepdim=True))
        right, unsure = (_sum_of_products(relevant, others) for others in (below, irrelevant))
        weights = relevant.sum(dim=1).double() if self.average == "weighted" else torch.ones_like(pairs)
        total = fsum(weights.tolist())
        if not total:
            return (float("nan"),) * 3
        low, middle, high = ((right + unsure * part) / pairs * weights for part in (0.0, 0.5, 1.0))
        return tuple(min(1.0, fsum(side.tolist()) / total) for side in (low, middle, high))  # type: ignore[return-value]
