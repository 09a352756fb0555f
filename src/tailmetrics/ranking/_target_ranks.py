"""The ranks of the relevant labels, which the formula of every metric reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import (
    EVERYTHING,
    NOT_RANKED,
    Hits,
    LabelWeights,
    LazyHits,
)
from tailmetrics.ranking._kernels import RelevantLabels
from tailmetrics.ranking._once import made_once, once, whole_numbers
from tailmetrics.ranking._orders import looked_up
from tailmetrics.ranking._sums import ordered_prefix_sums

Cutoff: TypeAlias = int | tuple[int, ...]
"""A cut-off, or several. Values for several have an axis of cut-offs in front."""

Value = TypeVar("Value")


def by_cutoff(make: Callable[[Any, Cutoff], Tensor]) -> Callable[[Any, Cutoff], Tensor]:
    """Decorate a method of a cut-off, so that each cut-off is computed once.

    Values are kept in the object, as ``once`` keeps them.
    """
    name = make.__name__

    @wraps(make)
    def value(self: TargetRanks, k: Cutoff) -> Tensor:
        memo = self._memo
        if (name, k) not in memo:
            memo[name, k] = make(self, k)
        tensor: Tensor = memo[name, k]
        return tensor

    return value


class TargetRanks:
    """The ranks of the relevant labels of each row, or of each row and bucket.

    Shape (N,) or (N, G).

    A formula reads only these ranks, so the same formula works for whole rows and for
    the labels of a bucket. A relevant label that is not in the list has the rank
    ``NOT_RANKED``, or is left out.

    Example: a row lists the labels ``7 2 5 0 9``, and the labels 5, 7 and 3 are
    relevant. Then ``target_ranks`` are 1 and 3, ``target_ids`` are 7 and 5,
    ``n_relevant`` is 3, ``length`` is 5, and ``hits_at(2)`` is 1.

    Args:
        hits: The relevant labels in the list.
        relevant: All relevant labels, found or not.
        length: Shape (...), int64: number of labels in the list.
        num_labels: L; None if unknown.
        max_k: The largest cut-off that the list can answer: its depth if it was cut,
            else ``EVERYTHING``.
        deepest: An upper bound of all ranks but ``NOT_RANKED``.
        documents: Shape (N,), int64: the number of documents of each row, for flat
            queries without ids; else None.
        listed: Returns what :func:`listed_ids` returns; None for unknown lists.

    Attributes:
        target_ranks: Shape (..., W), int64: the ranks, from 1, of the relevant labels
            found, ascending, ``NOT_RANKED`` behind the last. The j-th place belongs to
            the j-th hit; the order of additions depends on this. W is at least the
            number of labels found; labels that are not found need no place. Formulas
            that depend on all relevant labels read ``n_relevant`` and :meth:`best`.
        target_ids: Shape (..., W), int64: the labels at ``target_ranks``; any number
            where the rank is ``NOT_RANKED``.
        target_gains: Shape (..., W), float64: the gains at ``target_ranks``.
        n_relevant: Shape (...), int64: number of relevant labels, found or not.
        binary: Whether every gain is 1.
    """

    documents: Tensor | None = None
    listed: Callable[[int], Tensor] | None = None

    def __init__(
        self,
        hits: Hits,
        relevant: RelevantLabels,
        length: Tensor,
        *,
        num_labels: int | None,
        max_k: int,
        deepest: int,
        documents: Tensor | None = None,
        listed: Callable[[int], Tensor] | None = None,
    ) -> None:
        self.hits = hits
        self.relevant = relevant
        self.length = length
        self.num_labels = num_labels
        self.max_k = max_k
        self.deepest = deepest
        self.documents = documents
        self.listed = listed
        self._memo: dict[object, Any] = {}

    @once
    def target_ranks(self) -> Tensor:
        """Ranks from 1 of the hits, shape (..., W), int64."""
        return self.hits.ranks

    @once
    def target_ids(self) -> Tensor:
        """The labels at ``target_ranks``, shape (..., W), int64."""
        return self.hits.ids

    @once
    def target_gains(self) -> Tensor:
        """The gains at ``target_ranks``, shape (..., W), float64."""
        ranks, gains = self.hits.ranks, self.hits.gains
        if gains is None:
            return _one(ranks.device).expand(ranks.shape)
        return gains

    @once
    def binary(self) -> bool:
        """Whether every gain is 1."""
        return self.hits.gains is None

    @once
    def n_relevant(self) -> Tensor:
        """Number of relevant labels, found or not, shape (...), int64."""
        return self.relevant.n

    def remembered(self, key: object, make: Callable[[], Value]) -> Value:
        """Return the result of ``make()``, which is called once for each key."""
        memo = self._memo
        if key not in memo:
            memo[key] = make()
        value: Value = memo[key]
        return value

    @property
    def exact(self) -> TargetRanks:
        """The ranks for metrics without a cut-off.

        They are these ranks, or exact ranks among all scores if the list was cut.
        """
        return self

    def first(self, depth: int) -> TargetRanks:
        """Return the ranks that a list of this ``depth`` would give.

        Larger ranks become ``NOT_RANKED``.
        """

        def ranks_of_first() -> TargetRanks:
            ranks, gains = self.hits.ranks, self.hits.gains
            is_inside = ranks <= depth
            if gains is not None:
                gains = gains * is_inside
            ranks = torch.where(is_inside, ranks, NOT_RANKED)
            return self.with_other_hits(
                Hits(ranks, self.hits.ids, gains),
                max_k=self.max_k,
                deepest=min(depth, self.deepest),
            )

        return self.remembered(("first", depth), ranks_of_first)

    def with_other_hits(self, hits: Hits, max_k: int, deepest: int) -> TargetRanks:
        """Return the ranks of the same lists and relevant labels with other hits."""
        return TargetRanks(
            hits,
            self.relevant,
            self.length,
            num_labels=self.num_labels,
            max_k=max_k,
            deepest=deepest,
            documents=self.documents,
            listed=self.listed,
        )

    @once
    def with_hits(self) -> TargetRanks | None:
        """The target ranks of the rows with a hit, or None if many rows have one.

        Formulas are 0 for other rows.
        """
        rows = self.relevant.rows_with_hits(self.hits)
        if rows is None:
            return None
        return RanksOfRows(self, rows)

    # methods for one cut-off, or for several cut-offs along an axis in front

    def cutoffs(self, k: Cutoff, axes: int = 0) -> int | Tensor:
        """Return ``k`` in a form that broadcasts with values of shape (...).

        The form is a number, or a tensor of shape (len(k), 1, ...).

        The values may have further ``axes``, such as one of ``target_ranks``.
        """
        if isinstance(k, int):
            return k
        return _numbers(k, self.n_relevant.device).view(
            -1, *[1] * (self.n_relevant.ndim + axes)
        )

    @by_cutoff
    def within(self, k: Cutoff) -> Tensor:
        """Return which ``target_ranks`` are in the top ``k``, shape (..., W), bool.

        Raises:
            ValueError: If the list was cut above ``k``. Labels behind the cut would
                wrongly count as not found.
        """
        if (k if isinstance(k, int) else max(k)) > self.max_k:
            check_deep_enough(k, self.max_k)
        return self.hits.ranks <= (k if isinstance(k, int) else self.cutoffs(k, 1))

    @by_cutoff
    def first_within(self, k: Cutoff) -> Tensor:
        """Return whether the first hit is in the top ``k``, shape (...), bool.

        Raise ValueError like :meth:`within`.
        """
        if (k if isinstance(k, int) else max(k)) > self.max_k:
            check_deep_enough(k, self.max_k)
        return self.first_rank <= (k if isinstance(k, int) else self.cutoffs(k))

    def at(self, k: Cutoff) -> Tensor:
        """Return which ``target_ranks`` equal ``k``, shape (..., W), bool."""
        return self.within(k) & (self.target_ranks == self.cutoffs(k, 1))

    @by_cutoff
    def hits_at(self, k: Cutoff) -> Tensor:
        """Return h_k, the number of hits in the top ``k``, shape (...), int64."""
        return self.real_hits_at(k).to(torch.int64)

    @by_cutoff
    def real_hits_at(self, k: Cutoff) -> Tensor:
        """Return :meth:`hits_at` as float64."""
        return self.real_within(k).sum(dim=-1)

    @by_cutoff
    def real_within(self, k: Cutoff) -> Tensor:
        """Return :meth:`within` as float64.

        A product with float64 takes a third of the time of a product with bools.
        """
        within = self.within(k)
        return within.to(real_dtype(within.device))

    @by_cutoff
    def length_at(self, k: Cutoff) -> Tensor:
        """Return m_k, the number of labels in the top ``k``, shape (...), int64."""
        return self.length.clamp(max=k if isinstance(k, int) else self.cutoffs(k))

    @by_cutoff
    def attainable_at(self, k: Cutoff) -> Tensor:
        """Return min(k, n), the most hits in the top ``k``, shape (...), int64."""
        return self.n_relevant.clamp(max=k if isinstance(k, int) else self.cutoffs(k))

    @once
    def first_rank(self) -> Tensor:
        """Rank of the first hit, ``NOT_RANKED`` without one, shape (...), int64."""
        return self.hits.ranks[..., 0]

    @once
    def discounts(self) -> Tensor:
        """1 / log2(rank + 1) for ``target_ranks``, shape (..., W), float64.

        The discount of ``NOT_RANKED`` is 0.
        """
        ranks, size = self.hits.ranks, 1 << self.deepest.bit_length()
        return looked_up(_by_rank(size, ranks.device), ranks.clamp(max=size))

    def ideal_discount(self, k: Cutoff) -> Tensor:
        """Return the ideal DCG for binary relevance, shape (...), float64.

        This is the sum of the first min(k, n) discounts.
        """
        most = min(k if isinstance(k, int) else max(k), self.relevant.most)
        attainable = self.attainable_at(k)
        return looked_up(_sums(1 << most.bit_length(), attainable.device), attainable)

    def best(self, k: Cutoff, weights: LabelWeights | None = None) -> Tensor:
        """Return the ``k`` largest gains of relevant labels, descending, then zeros.

        The labels of each row count whether they were found or not.

        Args:
            k: The number of gains, or several numbers.
            weights: Weights by label, which replace the gains; None for gains.

        Returns:
            Shape (..., W), W <= k, float64.
        """
        if isinstance(k, int):
            return self.relevant.best(k, weights)
        best = self.relevant.best(max(k), weights)
        place = whole_numbers(best.shape[-1], best.device)
        return best * (place < self.cutoffs(k, 1))


def check_deep_enough(k: Cutoff, max_k: int) -> None:
    """Raise if the list was cut at ``max_k``, above a cut-off."""
    largest = k if isinstance(k, int) else max(k)
    if largest > max_k:
        cutoff = "everything (k=None)" if largest >= EVERYTHING else f"k={largest}"
        raise ValueError(
            f"Ranking: {cutoff} is deeper than the ranking ({max_k} ids per row); rank "
            "again with a greater depth, or read ranking.exact, which has exact ranks "
            "among all scores."
        )


def listed_ids(ranks: TargetRanks, k: int) -> Tensor:
    """Return the first ``k`` labels of each list, -1 behind its end, int64.

    The shape is (..., k) or less.

    The axis of buckets is 1 if each row has one list, with ``scope="global"``.

    Raises:
        ValueError: If the list was cut above ``k``, or the ranks are those of other
            orders of equal scores.
    """
    if k > ranks.max_k:
        check_deep_enough(k, ranks.max_k)
    if ranks.listed is None:
        raise ValueError(
            "Ranking: there are no lists of other orders of equal scores; "
            "use ties='id'."
        )
    return ranks.remembered(("listed", k), partial(ranks.listed, k))


def n_or_one(ranks: TargetRanks) -> Tensor:
    """Return ``n_relevant``, but 1 for 0.

    This is the denominator of shares of the relevant labels.
    """
    return ranks.remembered("n or one", lambda: ranks.n_relevant.clamp(min=1))


def weights_at_targets(ranks: TargetRanks, weights: LabelWeights) -> Tensor:
    """Return the weights of the labels at ``target_ids``, shape (..., W)."""
    ids = ranks.target_ids
    if not weights.digest:
        return looked_up(weights.on(ids.device), ids.clamp(min=0))
    key = ("at targets", weights.digest)
    return ranks.remembered(
        key, lambda: looked_up(weights.on(ids.device), ids.clamp(min=0))
    )


class RanksOfRows(TargetRanks):
    """The target ranks of chosen rows.

    Args:
        whole: The target ranks of all rows.
        rows: Shape (R,), int64, the chosen rows.
    """

    def __init__(self, whole: TargetRanks, rows: Tensor) -> None:
        # its columns are contiguous, as formulas read columns
        def chosen(values: Tensor, _: float) -> Tensor:
            return values.movedim(-1, 0).index_select(1, rows).movedim(0, -1)

        hits = LazyHits(chosen(whole.hits.ranks, NOT_RANKED), whole.hits, chosen)
        documents = None if whole.documents is None else whole.documents[rows]
        length = whole.length[rows]
        super().__init__(
            hits,
            whole.relevant,
            length,
            num_labels=whole.num_labels,
            max_k=whole.max_k,
            deepest=whole.deepest,
            documents=documents,
        )
        self._rows, self.n_relevant = rows, whole.n_relevant[rows]

    def best(self, k: Cutoff, weights: LabelWeights | None = None) -> Tensor:
        """Return the largest gains of the relevant labels of each chosen row."""
        return (
            super().best(k, weights).index_select(-1 - self.n_relevant.ndim, self._rows)
        )


@made_once
def _numbers(ks: tuple[int, ...]) -> Tensor:
    return torch.tensor(ks, device="cpu")


@made_once
def _one() -> Tensor:
    return torch.ones((), dtype=torch.float64, device="cpu")


# The discount of each rank, from tables made on the CPU: log2 of a device may differ in
# the last bit.


def discounts(width: int, device: torch.device) -> Tensor:
    """Return 1 / log2(rank + 1) for the ranks 1 to ``width``, float64."""
    return _by_rank(_size(width), device)[1 : width + 1]


def _size(width: int) -> int:
    """Return a power of two above ``width``, so that few tables serve all widths."""
    return 1 << width.bit_length()


@made_once
def _by_rank(size: int) -> Tensor:
    """Return the discounts of the ranks 0 to ``size``; the first and the last are 0."""
    table = torch.zeros(size + 1, dtype=torch.float64, device="cpu")
    table[1:size] = (
        1 / torch.arange(2, size + 1, dtype=torch.float64, device="cpu").log2()
    )
    return table


@made_once
def _sums(size: int) -> Tensor:
    """Return the sums of the first 0 to ``size`` - 1 discounts.

    They are added in the same order as the discounts of hits.
    """
    return ordered_prefix_sums(_by_rank(size, torch.device("cpu"))[1:size])
