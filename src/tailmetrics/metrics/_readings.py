"""Readings: which part of a ranking a formula looks at.

Here are the base class, the top k of each list, and the ranks of relevant labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from tailmetrics._arguments import (
    LARGEST_CUTOFF,
    check_choice,
    check_count,
    check_cutoffs,
    check_number,
)
from tailmetrics.buckets import LabelBuckets, number_of_buckets
from tailmetrics.metrics._formulas import Formula
from tailmetrics.metrics._mistakes import warn_of_ranks, warn_of_whole_lists
from tailmetrics.metrics._spans import View, has_no_ties, spans_of
from tailmetrics.metrics._states import Increment, at_labels
from tailmetrics.metrics._ties import AnyOrder, ExpectedRanks, Ties, in_order
from tailmetrics.ranking import DEFAULT_DEPTH, EVERYTHING, Ranking, TargetRanks
from tailmetrics.ranking._once import once
from tailmetrics.ranking._ranking import Scope
from tailmetrics.ranking._reading import Depth
from tailmetrics.ranking._target_ranks import weights_at_targets


class Reading(ABC):
    """The part of a ranking that a metric looks at, and its name in keys and captions.

    A reading is made with the arguments of its metric; ``with_facts`` gives it the
    buckets once they are known.

    Args:
        caller: Name of the metric, for errors.
        k: Cut-off, or cut-offs, as the metric was given them.
        formula: The formula that reads.
        by_bucket: Whether the metric has buckets, known or not.
        min_gain: Smallest gain of a relevant label; None for any gain above 0.
        scope: Whether the labels of a bucket are read among themselves, or in the one
            list of the row; of readings that take it.
    """

    takes: tuple[str, ...] = ("min_gain",)
    """The arguments of a metric that are arguments and attributes of its reading."""
    tie_rules: tuple[Ties, ...] = ("id",)
    """The values of ``ties`` that the reading knows; an aggregation may take fewer."""
    reads_targets = True
    """Whether it looks at relevant labels."""
    needs_scores = False
    """Whether ids without scores are refused."""
    uses_depth = False
    """Whether lists are read only up to ``depth``."""
    scope: Scope = "global"
    ties: Ties = "id"
    buckets: LabelBuckets | None = None
    num_buckets = 1
    """G, or 1 without buckets."""
    num_labels: int | None = None

    def __init__(
        self,
        caller: str,
        k: Any,
        formula: Formula,
        by_bucket: bool,
        *,
        min_gain: float | None = None,
        scope: Scope = "bucket",
    ) -> None:
        self.caller, self.formula, self.by_bucket = caller, formula, by_bucket
        self.min_gain = min_gain
        if min_gain is not None:
            self.min_gain = check_number(caller, "min_gain", min_gain, 1e-30, 1e30)
        self.cutoffs = self._checked_cutoffs(k)
        # an array is several cut-offs, or a single cut-off if the metric takes an array
        # of thresholds per label
        self.has_several_cutoffs = isinstance(k, Sequence)
        if getattr(k, "ndim", 0):
            self.has_several_cutoffs = len(self.cutoffs) == len(k)
        if "scope" in self.takes:
            self.scope = check_choice(caller, "scope", scope, Scope)

    def with_facts(
        self, formula: Formula, buckets: LabelBuckets | None, num_labels: int | None
    ) -> Self:
        """Return the reading with the facts of training."""
        reading = copy(self)
        reading.formula = formula
        reading.buckets = buckets
        reading.num_labels = num_labels
        reading.num_buckets = number_of_buckets(buckets)
        vars(reading).pop("required_depth", None)
        return reading

    @property
    def known_num_labels(self) -> int:
        """L, which an aggregation needs before it has states."""
        assert self.num_labels is not None
        return self.num_labels

    def _checked_cutoffs(self, k: Any) -> tuple[Any, ...]:
        return check_cutoffs(self.caller, k, self.formula.optional_k)

    @property
    @abstractmethod
    def required_depth(self) -> Depth:
        """How deep a batch has to be ranked."""

    @abstractmethod
    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket looks at."""

    @once
    def ks(self) -> tuple[int, ...]:
        """The cut-offs; None becomes a number larger than any rank."""
        cutoffs = []
        for k in self.cutoffs:
            if k is None:
                k = EVERYTHING
            cutoffs.append(k)
        return tuple(cutoffs)

    def relevant(self, ranking: Ranking) -> Ranking:
        """Return the ranking with the relevant labels of at least ``min_gain``."""
        if self.min_gain is None:
            return ranking
        return ranking.at_least(self.min_gain)

    @property
    def key_of_level(self) -> str:
        """The part of the name of a state for ``min_gain``; empty without it."""
        if self.min_gain is None:
            return ""
        return f"_min{self.min_gain!r}".replace(".", "_")

    def read(self, ranking: Ranking) -> TargetRanks:
        """Return what the formula reads.

        Its ``n_relevant`` has the shape (N,), or (N, G) with buckets.
        """
        ranking = self.relevant(ranking)
        if self.buckets is None:
            return ranking
        return ranking.by_bucket(self.buckets, "global")

    def values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Return the value of each row, (K, ...), or two terms, (2, K, ...)."""
        return self.formula.at(ranks, self.ks)

    def warn_of(self, metric: Any, ranking: Ranking) -> None:  # noqa: B027 - most have nothing to warn of
        """Warn if the first batch of a metric is accepted but looks like a mistake."""

    check: Callable[[Ranking, bool], None] | None = None
    """Raises unless the reading can read a ranking: ``check(ranking, validate)``.

    None if it can read any ranking. Without ``validate`` it looks at no value.
    """

    @property
    def ignores_order(self) -> bool:
        """Whether a value depends only on which labels are in the top k."""
        return self.formula.ignores_order

    @property
    def depends_on_catalogue(self) -> bool:
        """Whether a value depends on the number of labels, seen or not."""
        return self.formula.depends_on_catalogue

    @property
    def prefix(self) -> str:
        """What stands in front of a key."""
        if self.by_bucket and "scope" in self.takes and self.scope == "global":
            return "global_"
        return ""

    def cut_name(self, k: Any) -> str:
        """Return a cut-off as it is written in keys, behind @; empty for None."""
        if k is None:
            return ""
        return str(k)

    def cut_text(self, k: Any) -> str:
        """Return a cut-off as text for digests of arguments."""
        return f"k={k}"

    def places(self, k: Any) -> int:
        """Return how many places of a list a value at a cut-off reads, 0 for all."""
        return k or 0


class TopKLists(Reading):
    """The top k of each list, whatever is relevant."""

    takes: tuple[str, ...] = ()
    reads_targets = False
    ignores_order = True

    @property
    def required_depth(self) -> Depth:
        """How deep a batch has to be ranked."""
        return Depth(max(self.ks), max(self.ks))

    def warn_of(self, metric: Any, ranking: Ranking) -> None:
        """Warn of lists that show all labels."""
        warn_of_whole_lists(metric, ranking)

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket looks at."""
        return "of the list that a row shows"


class TopKHits(TopKLists):
    """The top k of each list, and which of its labels are relevant."""

    takes = ("min_gain",)
    reads_targets = True


class Ranks(Reading):
    """The ranks of the relevant labels of each row, or of each row and bucket.

    Args:
        depth: Number of labels of a list that are ranked among themselves.
        ties: The order of equal scores.
        to_depth: Whether all lists end at ``depth``, also without buckets.
        other_arguments: See :class:`Reading`.
    """

    takes: tuple[str, ...] = ("min_gain", "scope", "depth", "ties")

    def __init__(
        self,
        *arguments: Any,
        depth: int = DEFAULT_DEPTH,
        ties: Ties = "id",
        to_depth: bool = False,
        **other_arguments: Any,
    ) -> None:
        super().__init__(*arguments, **other_arguments)
        self.ties: Ties = ties
        if "ties" in self.takes:
            mean: tuple[Ties, ...] = ("expected",) if self.formula.is_averaged else ()
            self.tie_rules = ("id", *mean, "worst", "best")
        self.depth = check_count(self.caller, "depth", depth, maximum=LARGEST_CUTOFF)
        self.uses_depth = to_depth or (self.by_bucket and self.scope == "bucket")
        # a cut-off of None reads a whole list: then equal scores anywhere in it matter,
        # unless it ends at depth
        self.reads_everything = None in self.cutoffs and not self.uses_depth
        self._to_depth, self._deepest = (
            to_depth,
            self.depth if to_depth else max(self.ks),
        )
        # ... and the ranks of all relevant labels are read, not only of those among the
        # first places
        self._whole = None in self.cutoffs and not to_depth

    def with_ties(self, ties: Ties) -> Self:
        """Return the reading with another order of equal scores."""
        reading = copy(self)
        reading.ties = ties
        vars(reading).pop("required_depth", None)
        return reading

    @once
    def required_depth(self) -> Depth:
        """How deep a batch has to be ranked."""
        deepest = self.depth
        if not self.uses_depth:
            deepest = max((k for k in self.cutoffs if k is not None), default=0)
        # the list must hold all labels that tie with its last label
        if self.ties != "id" or self.reads_everything:
            return Depth(deepest, EVERYTHING)
        return Depth(deepest, deepest)

    def relevant(self, ranking: Ranking) -> Ranking:
        """Return the ranking with the relevant labels of at least ``min_gain``.

        A formula that reads gains gets the ranking unchanged.
        """
        if self.formula.reads_gains:
            return ranking
        return super().relevant(ranking)

    def read(self, ranking: Ranking) -> TargetRanks:
        """Return the ranks of the relevant labels, by bucket if there are buckets.

        Without buckets this is often the ranking itself.
        """
        if self.min_gain is not None:
            ranking = self.relevant(ranking)
        buckets = self.buckets
        if self.ties != "id":
            ranks = self._tied(ranking)
            if self._to_depth:
                return ranks.first(self.depth)
            return ranks
        if buckets is None:
            if self._whole:
                return ranking.exact
            return ranking.up_to(self._deepest)
        return ranking.by_bucket(
            buckets,
            self.scope,
            self.depth,
            self._whole and self.scope == "global",
            self._deepest,
        )

    @property
    def view(self) -> View:
        """What is read of the list of each row."""
        return View(self.buckets, self.scope, self.depth)

    def _tied(self, ranking: Ranking) -> TargetRanks:
        """Return the ranks in the order of equal scores that ``ties`` names."""
        ties, formula, view = self.ties, self.formula, self.view
        key = (self.reads_everything, *view.key)
        spans = ranking.remembered(
            ("spans", key), lambda: spans_of(ranking, view, self.reads_everything)
        )
        if ties == "expected":
            return ranking.remembered(("expected", key), lambda: ExpectedRanks(spans))
        if formula.reads_one_rank:
            return ranking.remembered(
                (ties, key), lambda: AnyOrder(spans, every=ties == "worst")
            )
        worth = spans.ranks.target_gains
        if formula.weights is not None:
            worth = weights_at_targets(spans.ranks, formula.weights)
        return in_order(spans, worth, ties)

    def values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Return the formula's value of each row.

        For expected ranks this is the mean over all orders of equal scores.
        """
        formula, ks = self.formula, self.ks
        if isinstance(ranks, ExpectedRanks):
            return ranks.mean_of(lambda ranks: formula.at(ranks, ks), max(ks))
        return formula.at(ranks, ks)

    def warn_of(self, metric: Any, ranking: Ranking) -> None:
        """Warn if the first batch of a metric is accepted but looks like a mistake."""
        warn_of_ranks(metric, ranking)

    def has_no_ties(self, ranking: Ranking) -> bool:
        """Whether it is known that no equal scores in a batch change a value."""
        return has_no_ties(
            ranking,
            self.depth if self.uses_depth else ranking.depth,
            self.reads_everything,
        )

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket looks at."""
        if self.scope == "global":
            return "in the one list that a row shows (scope global)"
        return (
            "the labels of a bucket ranked among themselves, k places for each bucket "
            "(scope bucket)"
        )

    def places(self, k: Any) -> int:
        """Return how many places of a list a value at a cut-off reads, 0 for all."""
        if self.uses_depth:
            return self.depth
        return k or 0

    # lists of single labels, for averages over labels

    def counts(self, ranking: Ranking, ranks: TargetRanks) -> tuple[Tensor, Tensor]:
        """Return the numbers of hits and of predictions, each of shape (N, K, G)."""
        shape = ranking.num_rows, len(self.ks), self.num_buckets
        hits = torch.stack([ranks.hits_at(k) for k in self.ks], dim=1)
        predicted = torch.stack(
            [self._predicted(ranking, ranks, k) for k in self.ks], dim=1
        )
        return hits.view(shape), predicted.view(shape)

    def _predicted(self, ranking: Ranking, ranks: TargetRanks, k: int) -> Tensor:
        """Return the number of predictions in each top k, by row, or row and bucket."""
        if self.formula.arguments.get("denominator") == "k":
            return torch.full_like(ranks.n_relevant, k)
        if self.buckets is not None and self.scope == "global":
            return self.buckets.totals(ranking.ids[:, :k])
        return ranks.length.clamp(max=k)

    def hit_labels(
        self, ranking: Ranking, ranks: TargetRanks, k: int, counted: Tensor
    ) -> Increment:
        """Return an amount for each label that is a hit, in rows that count."""
        return at_labels(ranks.target_ids, ranks.within(k) & counted.unsqueeze(-1))

    def predicted_labels(self, ranking: Ranking, k: int, counted: Tensor) -> Increment:
        """Return an amount for each predicted label, in rows that count."""
        ranks = ranking.listed_ranks(self.buckets, self.scope, self.depth)
        ids = ranking.ids[:, : ranks.shape[1]]
        shown = (ranks <= k) & (ids >= 0)
        if self.buckets is None:
            return at_labels(ids, shown & counted[:, None])
        bucket = self.buckets.of(ids).clamp(max=self.num_buckets - 1)
        return at_labels(ids, shown & counted.gather(1, bucket))

    def key_of_counts(self, by_bucket: bool) -> str:
        """Return the suffix for the name of a state of counts.

        Readings whose counts are equal have the same suffix.
        """
        if self.buckets is None or not (by_bucket or self.uses_depth):
            return self.key_of_level
        return (
            f"{self.key_of_level}_{self.scope}{self.depth}_{self.buckets.digest[:16]}"
        )
