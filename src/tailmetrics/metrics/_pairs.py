"""Metrics of pairs of a relevant and an irrelevant label of a row, judged by their scores."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics.metrics._relevance import RelevanceArguments
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.ranking import Cutoff, Ranking, TargetRanks
from tailmetrics.ranking._pairs import PairCounts, count_pairs
from tailmetrics.ranking._reading import Depth


class PairMetric(RowMeanMetric):
    """A metric of the scores of all labels of a row, however deep; a new metric states a function of pair counts.

    ``preds`` are dense scores (N, L), CSR or scored candidates; labels that are not stored tie with each other below
    all others. By bucket, ``scope="bucket"`` looks at the bucket's labels alone, ``scope="global"`` at its relevant
    labels among all labels.

    Args:
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.
    """

    tie_rules = ("id",)
    withheld: ClassVar[tuple[str, ...]] = ("k", "depth")
    optional_k = True

    def __init__(self, **kwargs: Unpack[RelevanceArguments]) -> None:
        super().__init__(None, **kwargs)

    @property
    def _uses_depth(self) -> bool:
        return False

    @property
    def reads(self) -> Depth:
        """How much of a batch has to be ranked."""
        return Depth(0, None)

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        if ranking.scores is None and ranking.values is None:
            raise ValueError(f"{self._caller}: preds are ranked ids, which have no scores; pass scores.")
        if self._num_labels_of(ranking) is None:
            raise ValueError(f"{self._caller}: candidates do not tell the number of labels; pass num_labels=.")

    def _num_labels_of(self, ranking: Ranking) -> int | None:
        if ranking.documents is not None:
            return int(ranking.documents.max()) if ranking.num_rows else 0
        return ranking.num_labels if self.num_labels is None else self.num_labels

    def _ranks_of(self, ranking: Ranking) -> TargetRanks:
        ranking = self._relevant(ranking)
        return ranking if self.bound_buckets is None else ranking.by_bucket(self.bound_buckets, "global")

    def _pairs(self, ranking: Ranking) -> PairCounts:
        """Return the counts of pairs, which all such metrics share."""
        ranking, num_labels, buckets = self._relevant(ranking), self._num_labels_of(ranking), self.bound_buckets
        assert num_labels is not None
        key = ("pairs", num_labels, None if buckets is None else (buckets.digest, self.scope))
        return ranking.remembered(key, lambda: count_pairs(ranking, num_labels, buckets, self.scope))

    def _of_one_cutoff(self, values: Tensor) -> Tensor:
        """Return values (N, G), with G = 1 without buckets, as those of the one cut-off that there is."""
        return (values if self.bound_buckets is not None else values.squeeze(1)).unsqueeze(0)

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        raise NotImplementedError("pairs are a function of scores, not of ranks")
