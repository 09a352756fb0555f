"""Metrics that compare ranked labels with relevant labels: means over rows, and ratios of two sums over rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import Unpack

from tailmetrics._arguments import INTEGERS, LARGEST_CUTOFF, check_choice, check_count, check_cutoffs, shape_of
from tailmetrics._transfer import digest_of
from tailmetrics.metrics._arguments_of_metrics import Cutoffs, TopKArguments
from tailmetrics.metrics._metric import TopKMetric, Values
from tailmetrics.metrics._references import RanksByCounts, ReferenceRanking, ValuesByCounts
from tailmetrics.metrics._states import (
    COUNT,
    REAL,
    UNIT,
    Alike,
    FixedPoint,
    Increments,
    PerRow,
    Prepared,
    State,
    divide,
    ratios,
    weighted,
)
from tailmetrics.metrics._ties import (
    ExpectedRanks,
    Ties,
    cut_span,
    has_no_ties,
    in_order,
    spans,
    tied_across,
    tied_hits,
)
from tailmetrics.ranking import DEFAULT_DEPTH, EVERYTHING, Ranking, TargetRanks
from tailmetrics.ranking._device import is_compiling, once, real_dtype
from tailmetrics.ranking._hits import LabelWeights
from tailmetrics.ranking._inputs import Batch, Context
from tailmetrics.ranking._ranking import Scope, rank_batch
from tailmetrics.ranking._reading import PLAIN_ROWS, Depth
from tailmetrics.ranking._warnings import warn_outside

EmptyTargetAction: TypeAlias = Literal["neg", "pos", "skip", "error"]
Average: TypeAlias = Literal["samples", "micro", "macro", "weighted", "none"]


Value = TypeVar("Value")

MANY_ROWS = 2**13
"""From this number of rows times buckets, a formula skips rows without a hit: finding the others takes some 40 us."""


def formula(
    function: Callable[..., Value], reads: Depth | None = None, warns: Callable[[Ranking], None] | None = None
) -> Callable[..., Value]:
    """Return ``function`` as one that takes a ranking, or ``preds, target`` in its place, by position or keyword.

    Args:
        function: Takes a ranking first, and may take a cut-off named ``k``.
        reads: How deep ``preds`` are ranked. None: up to k, or, if there is no k, as deep as ``ranking.exact`` needs.
        warns: Warns if ``preds`` look like a mistake, as the class of the metric does.

    Returns:
        The function. Its errors name the argument that is wrong.
    """
    shape = signature(function)
    first, *others = shape.parameters.values()
    ranking_name = first.name
    arrays = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("preds", "target")]
    of_arrays = shape.replace(parameters=[*arrays, *others])
    names = list(of_arrays.parameters)
    choices = {name: get_args(kind) for name, kind in get_type_hints(function).items() if get_origin(kind) is Literal}

    @wraps(function)
    def either(*args: Any, **kwargs: Any) -> Value:
        for name, known in choices.items():
            if name in kwargs and kwargs[name] not in known:  # only then: formulas are called often
                check_choice(either.__name__, name, kwargs[name], known)
        if "ranking" in kwargs:
            kwargs[ranking_name] = kwargs.pop("ranking")
        if ranking_name in kwargs or (args and isinstance(args[0], TargetRanks)):
            return function(*args, **kwargs)
        try:
            rest = of_arrays.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{either.__name__}: {error}; pass {either.__name__}({', '.join(names)}).") from None
        preds, target, k = rest.pop("preds"), rest.pop("target"), rest.get("k")
        if "k" in shape.parameters:
            check_cutoffs(either.__name__, k, optional=shape.parameters["k"].default is None)
        deepest = max(k) if isinstance(k, tuple) else k
        depth = reads or (Depth(0) if deepest is None else Depth(deepest, deepest))
        ranking = rank_batch(Context(either.__name__, warns=True), Batch(preds, target), depth)
        if warns is not None and not is_compiling():
            warns(ranking)
        return function(ranking, **rest)

    return either


class RelevanceArguments(TopKArguments, total=False):
    """Keyword arguments of metrics that compare ranked labels with relevant labels."""

    scope: Scope
    average: Average
    depth: int
    empty_target_action: EmptyTargetAction | None
    ties: Ties


class RelevanceMetric(TopKMetric):
    """Base of metrics that compare the ranked labels of each row with its relevant labels.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        buckets: Label buckets, or a text such as ``"deciles"``, ``"quantiles:5"`` or ``"thresholds:1,5,100"``, from
            which :meth:`bind` makes the buckets.
        scope: ``"bucket"`` reads the row's top ``depth`` list, keeps only the bucket's labels, and takes the top k of
            these. ``"global"`` takes the row's overall top k, in which only the bucket's labels count as relevant.
        average: ``"samples"``, the mean over rows. Precision, recall and F1 also take ``"micro"``, ``"macro"``,
            ``"weighted"`` and ``"none"``.
        depth: Number of labels of a list, best first, that ``scope="bucket"`` reads.
        empty_target_action: Value of a row without a relevant label: ``"neg"`` is 0, ``"pos"`` is 1; with ``"skip"``
            the row does not count; ``"error"`` raises an error. None means ``"neg"`` overall, but ``"skip"`` for
            ``CrossEntropy`` and ``KForRecall``; within buckets, None means ``"skip"`` for the mean over rows and
            ``"neg"`` for averages over labels, in which every row counts.
        ties: How labels of equal score are ranked: ``"id"``, the lower id first, as in a list; ``"expected"``, the mean
            value over all orders of these labels; ``"worst"``, relevant labels last; ``"best"``, relevant labels first
            (for ``RelevanceAtK``, any other label at rank k, or a relevant label there).
        kwargs: See :class:`TopKMetric`. ``min_gain`` says what is relevant; CG, DCG and nDCG keep all gains, as in
            trec_eval.
    """

    averages: ClassVar[tuple[Average, ...]] = ("samples",)
    empty_actions: ClassVar[tuple[EmptyTargetAction, ...]] = ("neg", "pos", "skip", "error")
    key_words: ClassVar = {"min_gain": "min", "scope": "", "average": ""}
    empty_defaults: ClassVar[tuple[EmptyTargetAction, EmptyTargetAction]] = ("neg", "skip")
    """The defaults of ``empty_target_action``: overall, and within buckets."""
    can_be_weighted = True
    fixed_point: FixedPoint
    """The format of the values of rows in a state."""
    reads_gains: ClassVar[bool] = False
    """Whether the formula reads gains; the metric then ignores ``min_gain``."""
    tie_rules: ClassVar[tuple[Ties, ...]] = ("id", "worst", "best")
    """The accepted values of ``ties``; ``"expected"`` needs a formula that can be averaged over orders."""
    reads_counts_alone: ClassVar[bool] = False
    """Whether a value without gains depends only on ranks, length of the list and number of relevant labels."""
    _formula: ClassVar[str]
    """The name of the method that holds the formula."""
    of_one_rank: ClassVar[bool] = False
    """Whether the formula reads a single rank of each list; no order is then the worst or the best of all ranks."""
    reads_first: ClassVar[bool] = False
    """Whether the formula reads the first relevant label of each list alone."""
    _tells_cutoffs = True
    """Whether the first batch warns of buckets of at most k labels; a collection or a report warns for its metrics."""
    _label_weights: LabelWeights | None = None
    """The worth of each label as a hit; None if all labels are worth the same, or their gain."""
    lacking: ClassVar[str] = "no relevant label"
    """The problem of a row for which :meth:`_answered` is false, in words of an error message."""

    def __init__(
        self,
        k: Cutoffs | None,
        *,
        scope: Scope = "bucket",
        average: Average = "samples",
        depth: int = DEFAULT_DEPTH,
        empty_target_action: EmptyTargetAction | None = None,
        ties: Ties = "id",
        **kwargs: Unpack[TopKArguments],
    ) -> None:
        caller = self._caller
        rules = self.tie_rules if average == "samples" else ("id",)
        self.ties: Ties = check_choice(caller, "ties", ties, rules, f" to this metric with average={average!r}")
        if ties == "expected":  # a value that is 0 or 1 in each order has a fraction as mean
            vars(self).update({"fixed_point": UNIT} if vars(type(self)).get("fixed_point") is COUNT else {})
        if empty_target_action is not None:
            check_choice(caller, "empty_target_action", empty_target_action, self.empty_actions, " to this metric")
        self.scope: Scope = check_choice(caller, "scope", scope, Scope)
        by_class = " (accuracy by class is RecallAtK(k=1, average='macro'))" if caller == "AccuracyAtK" else ""
        self.average: Average = check_choice(caller, "average", average, self.averages, f" to this metric{by_class}")
        self.depth = check_count(caller, "depth", depth, maximum=LARGEST_CUTOFF)
        # averages over labels do not skip rows without a relevant label of a bucket: most false positives of the bucket
        # are in such rows, so the value of a bucket would look better, the rarer its labels are
        by_bucket = kwargs.get("buckets") is not None
        usual = self.empty_defaults[by_bucket] if average == "samples" else "neg"
        self.usual_settings = {**type(self).usual_settings, "empty_target_action": usual}
        self.empty_target_action: EmptyTargetAction = empty_target_action or usual
        super().__init__(k, **kwargs)

    def _enters_key(self, name: str) -> bool:
        if name == "depth":
            return self._uses_depth
        if name == "min_gain":
            return not self.reads_gains
        return super()._enters_key(name) and not (name == "empty_target_action" and self.empty_target_action == "error")

    @property
    def _uses_depth(self) -> bool:
        return self.buckets is not None and self.scope == "bucket"

    @property
    def _prefix(self) -> str:
        scope = "global_" if self.scope == "global" and self.buckets is not None else ""
        return scope + ("" if self.average == "samples" else f"{self.average}_")

    @once
    def reads(self) -> Depth:
        """How deep a batch has to be ranked."""
        deepest = self.depth if self._uses_depth else max((k for k in self.cutoffs if k is not None), default=0)
        # the list must hold all labels that tie with its last label
        whole = self.ties != "id" or (None in self.cutoffs and not self._uses_depth)
        return Depth(deepest, None if whole else deepest)

    @property
    def _sums(self) -> FixedPoint:
        """The format of sums over rows."""
        return weighted(self.fixed_point) if self.weighted else self.fixed_point

    def _relevant(self, ranking: Ranking) -> Ranking:
        return ranking if self.min_gain is None or self.reads_gains else super()._relevant(ranking)

    # ties

    def _tie_states(self) -> dict[str, State]:
        """Return the state that counts rows, and rows with equal scores on both sides of each cut-off.

        Without a cut-off, it counts rows in which a relevant label that is read has the score of another label. Metrics
        with the same cut-offs share it. With buckets, too, the whole list is checked: at each cut-off, and at ``depth``
        if the metric reads to it.
        """
        cuts = {k for k in self.cutoffs if k is not None} | ({self.depth} if self._uses_depth else set())
        all_cuts = (*sorted(cuts), None) if None in self.cutoffs else tuple(sorted(cuts))
        self._cuts = all_cuts if self.ties == "id" and "worst" in self.tie_rules else ()
        whole = (self.min_gain, self._first_alone, self._uses_depth) if None in self._cuts else ()
        self._tie_state = f"tied_{digest_of((self._cuts, self.weighted, *whole))}" if self._cuts else ""
        shape = 1 + len(self._cuts), self._counts.columns
        return {self._tie_state: State(shape, shared=self.in_registry)} if self._cuts else {}

    def _prepared(self, ranking: Ranking) -> Prepared:
        increments, name = self._prepare(ranking), self._tie_state
        if not name:
            return Prepared(increments, ranking.rows)
        memo = ranking._memo
        if name not in memo:
            cuts = self._cuts
            memo[name] = (
                self._tied_rows(ranking) if None in cuts else tied_across(ranking, cast("tuple[int, ...]", cuts))
            )
        tied = memo[name]
        return Prepared(increments if tied is None else {**increments, name: tied}, ranking.rows)

    @property
    def _first_alone(self) -> bool:
        """Whether only the best relevant label of a row changes its value."""
        return self.reads_first and self.buckets is None

    def _tied_rows(self, ranking: Ranking) -> PerRow | None:
        """Return the numbers of a row for the state of ties if the metric has no cut-off; None if they are unknown."""
        depth = self.depth if self._uses_depth else None
        hits = tied_hits(self._relevant(ranking), depth, self._first_alone)
        across = hits if depth is None else tied_across(ranking, (depth,))
        if hits is None or across is None or depth is None:
            return hits
        return PerRow(torch.cat([across.values, hits.values[:, 1:]], dim=1))

    def _increments_without_ties(self, usual: TopKMetric, increments: Increments) -> Increments:
        """Return the amounts that a batch without ties adds to the states of this metric.

        Args:
            usual: The same metric with ``ties="id"``.
            increments: The amounts that the batch adds to ``usual``.
        """
        return {name: one for name, one in increments.items() if name in self._names}

    def _tie_remedies(self) -> tuple[str, ...]:
        return tuple(rule for rule in self.tie_rules if rule != "id" and self.average == "samples")

    def _ranks_of(self, ranking: Ranking) -> TargetRanks:
        """Return the ranks of the relevant labels, which the formula reads; by bucket if the metric has buckets."""
        exact, deepest, buckets = None in self.cutoffs, max(self.ks), self.bound_buckets
        if self.min_gain is not None:
            ranking = self._relevant(ranking)
        if self.ties != "id":
            return self._tied_ranks_of(ranking)
        if buckets is None:
            ranks = ranking.exact if exact else ranking.up_to(deepest)
        else:
            whole = exact and self.scope == "global"
            ranks = ranking.by_bucket(buckets, self.scope, self.depth, whole, deepest)
        # a user's formula must not see deeper ranks, which another metric of the collection asked for
        return ranks if self.in_registry or exact else ranks.first(deepest)

    def _tied_ranks_of(self, ranking: Ranking) -> TargetRanks:
        """Return the ranks that the formula reads if ``ties`` is ``"expected"``, ``"worst"`` or ``"best"``."""
        buckets, ties = self.bound_buckets, self.ties
        if isinstance(ranking, ReferenceRanking):
            by_counts = ranking.by_counts(buckets, self.scope) if self.reads_counts_alone else None
            if by_counts is not None:
                return by_counts
            return ranking.ranks(buckets, self.scope, self.depth, self._label_weights)
        everything = self._reads_everything
        by = (None if buckets is None else (buckets.digest, self.scope, self.depth), everything)
        ranks, above, equal = ranking.remembered(
            ("spans", by), lambda: spans(ranking, buckets, self.scope, self.depth, everything)
        )
        cut = None
        if buckets is not None and self.scope == "bucket":
            cut = ranking.remembered(("cut", by), lambda: cut_span(ranking, buckets, self.depth))
        if ties == "expected" or self.of_one_rank:
            return ranking.remembered(("expected", by), lambda: ExpectedRanks(ranks, above, equal, cut))
        assert ties != "id"
        return in_order(ranks, above, equal, self._worth_of_hits(ranks), ties, cut)

    @property
    def _reads_everything(self) -> bool:
        """Whether the formula also reads ranks below the list."""
        return None in self.cutoffs and not self._uses_depth

    def _has_no_ties(self, ranking: Ranking) -> bool:
        """Whether it is known that no equal scores in a batch change a value."""
        cut = self.depth if self._uses_depth else ranking.depth
        return has_no_ties(ranking, cut, self._reads_everything)

    def _worth_of_hits(self, ranks: TargetRanks) -> Tensor:
        """Return the worth of each hit, (..., W), by which the best and the worst order sort hits of one score."""
        return ranks.target_gains

    def _check_relevance(self, ranking: Ranking) -> None:
        unknown = (ranking.scores is None and ranking.values is None) or ranking.in_pieces is not None
        if self.ties != "id" and unknown and not isinstance(ranking, ReferenceRanking):
            raise ValueError(
                f"{self._caller}: ties={self.ties!r} reads the scores of all labels, and preds are ids or come in "
                "pieces; pass scores or scored candidates, or leave ties out."
            )
        if self.empty_target_action == "error":
            self._check_answered(ranking)

    def _warn_of(self, ranking: Ranking) -> None:
        """Warn of rows without a class, of buckets of at most k labels, and of lists that are too short or too long."""
        padded, by_default = ranking.targets.padded, "empty_target_action" not in self._given
        if padded is not None and padded.shape[1] == 1 and self.empty_target_action == "neg" and by_default:
            missing = ranking.n_relevant == 0
            if bool((missing if ranking.row_mask is None else missing & ranking.row_mask).any()):
                warn_once(ranking, "no class", f"{self._caller}: {OF_NO_CLASS}")
        if isinstance(ranking, ReferenceRanking):
            return
        if self._tells_cutoffs:
            for said in whole_buckets([self], str):
                warn_outside(f"{self._caller}: {said}")
        known = self.num_labels or ranking.num_labels or EVERYTHING
        whole = f"k=None, all {known:,} labels"
        cuts = {f"k={k}" if k else whole: k or known for k in self.cutoffs}
        cuts = {f"depth={self.depth}": self.depth} if self._uses_depth else cuts
        for name, cut in {} if self.needs_scores else cuts.items():
            if short_lists(ranking, min(cut, known)) is not None:
                warn_once(ranking, "short lists", f"{self._caller}, {name}: {OF_SHORT_LISTS}")
                break
        if self._uses_depth and is_listed(ranking) and bool((ranking.length > self.depth).any()):
            warn_once(
                ranking,
                ("long lists", self.depth),
                f"{self._caller}, depth={self.depth}: some lists are longer. A value by bucket (scope 'bucket') reads "
                f"the first {self.depth:,} places alone; a larger depth reads more.",
            )

    def _answered(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Whether a row has a relevant label, shape (N,) or (N, G), bool; if not, ``empty_target_action`` applies."""
        return ranks.n_relevant > 0

    def _rows_counted(self, ranking: Ranking, ranks: TargetRanks) -> PerRow:
        """Return whether each row counts, and whether :meth:`_answered` is true in each bucket: (N, 1 + G), bool."""
        by_labels = type(self)._answered is RelevanceMetric._answered
        memo: dict[object, PerRow] = ranks._memo if by_labels else {}
        if "rows counted" in memo:
            return memo["rows counted"]
        if by_labels and ranks is ranking and ranking.targets.filled:  # every row has a label, as with class indices
            counted: PerRow = Alike((1, 1), ranking.num_rows, ranking.ids.device)
        else:
            answered, row_mask = with_bucket_axis(self._answered(ranking, ranks)), ranking.row_mask
            sides = F.pad(answered, (1, 0), value=True)
            counted = PerRow(sides if row_mask is None else sides & row_mask[:, None])
        memo["rows counted"] = counted
        return counted

    def _check_answered(self, ranking: Ranking) -> None:
        """Raise if a counted row has no value, for example because it has no relevant label."""
        empty = ~self._answered(ranking, self._ranks_of(ranking))
        if ranking.row_mask is not None:
            empty &= ranking.row_mask if empty.ndim == 1 else ranking.row_mask[:, None]
        if bool(empty.any()):
            row = int(empty.nonzero()[0, 0])
            raise ValueError(
                f"{self._caller}: row {row} has {self.lacking}{' in some bucket' if empty.ndim > 1 else ''}; "
                "drop such rows with row_mask, or choose another empty_target_action."
            )

    def _row_values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Return the formula's value at each cut-off, shape (K, ...), or numerator and denominator, (2, K, ...)."""
        if isinstance(ranks, RanksByCounts):
            assert isinstance(ranking, ReferenceRanking)
            known = vars(self).setdefault("_values_by_counts", ValuesByCounts())
            of_buckets = self.bound_buckets, self.scope, self.depth
            return ranks.mean_by_counts(self._at_cutoffs, self.ks, known, lambda: ranking.ranks(*of_buckets))
        if isinstance(ranks, ExpectedRanks):
            return ranks.mean_of(self._at_cutoffs, max(self.ks))
        return self._at_cutoffs(ranks)

    def _at_cutoffs(self, ranks: TargetRanks) -> Tensor:
        ks, formula = self.ks, getattr(self, self._formula)
        if self.in_registry:
            found = formula(ranks, ks if len(ks) > 1 else ks[0])
            terms = isinstance(found, tuple)
            found = torch.stack(found) if terms else found
            return found if len(ks) > 1 else found.unsqueeze(int(terms))
        # a formula returns the two terms of a ratio, or one value
        values = [value if isinstance(value, tuple) else (value,) for value in (formula(ranks, k) for k in ks)]
        for term in (term for terms in values for term in terms):
            check_returned_values(self._caller, self._formula, term, ranks, self.fixed_point, self.validate_args)
        found = torch.stack([torch.stack(side) for side in zip(*values, strict=True)])
        return found if len(found) > 1 else found[0]


def with_bucket_axis(values: Tensor) -> Tensor:
    """Return values of rows (N,) or of rows and buckets (N, G) as (N, G), G = 1 without buckets."""
    return values[:, None] if values.ndim == 1 else values


def row_value(formula: Callable[..., Tensor], *reads: str) -> Any:
    """Return a method ``_row_value`` that calls a formula with ranks, cut-off and the attributes named in ``reads``."""

    def _row_value(self: Any, ranks: TargetRanks, k: Any) -> Tensor:
        return formula(ranks, k, **{name: getattr(self, name) for name in reads})

    return _row_value


class RowMeanMetric(RelevanceMetric):
    """Mean over rows of one value per row; a new metric defines the formula of that value."""

    fixed_point: FixedPoint = UNIT
    reads_counts_alone: ClassVar[bool] = True
    only_hits_count: ClassVar[bool] = True
    """Whether the value of a row without a hit is 0."""
    _formula = "_row_value"

    @abstractmethod
    def _row_value(self, ranks: TargetRanks, k: Any) -> Tensor:
        """Return the value of each row, shape (...), called for every batch and cut-off.

        0 for a row without a relevant label. float64 within ``bounds``; or, with ``fixed_point = COUNT``, integers or
        bools: the row's value is then the integer divided by ``_per_one(k)``. A metric of the registry with several
        cut-offs is called once: ``k`` is a tuple, and the cut-offs are the first axis of the result.
        """

    def _per_one(self, k: int) -> int:
        return 1

    def _states(self) -> dict[str, State]:
        return {
            "sum": State((len(self.cutoffs), self._num_buckets, self._sums.columns)),
            "rows": State((1 + self._num_buckets, self._counts.columns)),
        }

    def _prepare(self, ranking: Ranking) -> Increments:
        ranks = self._ranks_of(ranking)
        plain = not isinstance(ranks, (ExpectedRanks, RanksByCounts))
        read, usual = ranks, self.only_hits_count and self.in_registry and plain
        if usual and ranking.rows is PLAIN_ROWS and ranking.num_rows * self._num_buckets >= MANY_ROWS:
            read = ranks.with_hits
        values = self._row_values(ranking, read)
        if ranking.row_mask is not None and not self.only_hits_count:  # a reference ranks all labels in dropped rows
            values = torch.where(ranking.row_mask.view(-1, *[1] * (values.ndim - 2)), values, 0.0)
        return {"sum": PerRow(values, self.fixed_point, row_axis=1), "rows": self._rows_counted(ranking, ranks)}

    def _increments_without_ties(self, usual: TopKMetric, increments: Increments) -> Increments:
        kept = super()._increments_without_ties(usual, increments)
        total = kept.get("sum")
        if not isinstance(total, PerRow) or total.fixed_point == self.fixed_point:
            return kept
        assert isinstance(usual, RowMeanMetric)
        counts = zip(total.values, self.ks, strict=True)
        values = torch.stack([divide(of_cutoff, usual._per_one(k)) for of_cutoff, k in counts])
        return {**kept, "sum": PerRow(values, self.fixed_point, total.row_axis)}

    def _values(self, states: Mapping[str, Tensor]) -> Values:
        rows, *answered = (int(total) for total in self._counts.totals(states["rows"]))
        unit, values = self._counts.unit, []
        counted = answered if self.empty_target_action == "skip" else [rows] * len(answered)
        for k, of_k in zip(self.ks, self._by_cutoff(self._sums.totals(states["sum"])), strict=True):
            one = self._sums.unit * self._per_one(k)
            if self.empty_target_action == "pos":
                pairs = zip(of_k, answered, strict=True)
                of_k = [total + (rows - some) * one // unit for total, some in pairs]
            values.append(ratios([total * unit for total in of_k], [count * one for count in counted]))
        return values

    def _of_rows(self, ranking: Ranking) -> Tensor:
        ranks = self._ranks_of(ranking)
        values = self._row_values(ranking, ranks).to(torch.float64)
        values = torch.stack([value / self._per_one(k) for k, value in zip(self.ks, values, strict=True)])
        if self.empty_target_action != "neg":
            stand_in = 1.0 if self.empty_target_action == "pos" else torch.nan
            values = torch.where(self._answered(ranking, ranks), values, stand_in)
        return values.movedim(1, -1).flatten(0, -2)


class TieAwareMetric(RowMeanMetric):
    """A mean over rows that can also be computed as a mean over all orders of equal scores; higher is better."""

    higher_is_better = True
    tie_rules: ClassVar[tuple[Ties, ...]] = ("id", "expected", "worst", "best")


class ScoreMetric(RowMeanMetric):
    """A metric that reads scores, not ranks: ``depth`` and ``ties`` have no effect.

    With buckets, it reads the relevant labels of each bucket.
    """

    tie_rules: ClassVar[tuple[Ties, ...]] = ("id",)
    only_hits_count = False

    @property
    def _uses_depth(self) -> bool:
        return False

    def _ranks_of(self, ranking: Ranking) -> TargetRanks:
        ranking = self._relevant(ranking)
        return ranking if self.bound_buckets is None else ranking.by_bucket(self.bound_buckets, "global")

    @abstractmethod
    def _row_values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor: ...

    def _row_value(self, ranks: TargetRanks, k: Any) -> Tensor:
        raise NotImplementedError("a function of scores is no function of ranks")


class RatioMetric(RelevanceMetric):
    """One sum over rows divided by another sum over rows: the ratio of means, not the mean of ratios."""

    empty_actions: ClassVar[tuple[EmptyTargetAction, ...]] = ("neg", "skip", "error")
    fixed_point: FixedPoint = REAL
    _formula = "_row_terms"

    @abstractmethod
    def _row_terms(self, ranks: TargetRanks, k: Any) -> tuple[Tensor, Tensor]:
        """Return each row's terms of the numerator and the denominator, shape (...), called per batch and cut-off.

        0 for rows that do not count. A metric of the registry with several cut-offs is called once: ``k`` is a tuple.
        """

    def _states(self) -> dict[str, State]:
        return {"sums": State((2, len(self.cutoffs), self._num_buckets, self._sums.columns))}

    def _prepare(self, ranking: Ranking) -> Increments:
        terms = self._row_values(ranking, self._ranks_of(ranking))
        return {"sums": PerRow(terms, self.fixed_point, row_axis=2)}

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        top, bottom = (self._sums.totals(sums) for sums in states["sums"])
        return self._by_cutoff(ratios(top, [int(total) for total in bottom]))

    def _of_rows(self, ranking: Ranking) -> Tensor:
        terms = self._row_values(ranking, self._ranks_of(ranking)).to(torch.float64)
        return terms.movedim(2, -1).flatten(1, -2)


def whole_buckets(
    metrics: Iterable[TopKMetric], named: Callable[[str], str], among: Collection[str] | None = None
) -> Iterator[str]:
    """Yield a warning if buckets have at most k labels, so that a hit says nothing about the model.

    Args:
        metrics: The metrics to check.
        named: Adds prefix and postfix to a key.
        among: Names of the buckets that matter; None for all.
    """
    keys: dict[str, list[str]] = {}
    for metric in metrics:
        buckets = metric.bound_buckets
        if buckets is None or not isinstance(metric, RelevanceMetric) or metric.scope == "global" or metric.of_one_rank:
            continue
        for k in (k for k in metric.cutoffs if isinstance(k, int)):
            sizes = zip(buckets.names, buckets.sizes, strict=True)
            whole = [name for name, size in sizes if 0 < size <= k and (among is None or name in among)]
            if whole:
                keys.setdefault(", ".join(whole), []).append(named(metric._key(k)))
    if keys:
        found = "; ".join(f"{', '.join(of)} in {whole}" for whole, of in keys.items())
        yield (
            f"k reaches the number of labels for {found}: every relevant label there that is ranked within depth is a "
            "hit, whatever the model; scope='global' asks for the row's overall top k."
        )


# no numbers of a batch in these texts: the parts of a data set give the same warning
OF_NO_CLASS = (
    "some rows have -1 as target: no label, and nothing that could be found there. If -1 marks rows that do not count, "
    "such as padding, make the metrics with ignore_index=-1; if it marks labels that preds have no column for, they "
    "are misses, and without them values are too high: give the metrics empty_target_action='neg'."
)
OF_SHORT_LISTS = (
    "most lists end before that. A metric that reads beyond the end of a list, this one or another, takes the list as "
    "complete: what it leaves out is a miss, and a precision divides by what is listed. Compare models by lists of one "
    "length, or with a k that all lists reach."
)


def warn_once(ranking: Ranking, what: object, text: str) -> None:
    """Warn once for a batch, even if several metrics of a collection have the same reason ``what`` to warn."""
    ranking.remembered(("warned of", what), lambda: warn_outside(text))


def is_listed(ranking: Ranking) -> bool:
    """Whether rows are lists of ids or candidates, of any length, and not scores of all labels."""
    return ranking.scores is None and ranking.documents is None and ranking.complete


def short_lists(ranking: Ranking, cut: int) -> Tensor | None:
    """Return the lengths of the lists of counted rows if most lists end before ``cut``; else None."""
    if not is_listed(ranking) or cut >= EVERYTHING or not ranking.num_rows:
        return None
    length = ranking.length if ranking.row_mask is None else ranking.length[ranking.row_mask]
    return length if 2 * int((length < cut).sum()) > len(length) else None  # in any data some rows have few candidates


def warn_of_partial_lists(caller: str, ranking: Ranking, num_labels: int) -> None:
    """Warn once if most lists lack labels: an area counts all missing labels of a row as one tie."""
    length = short_lists(ranking, num_labels)
    if length is not None:
        warn_once(
            ranking,
            "partial lists",
            f"{caller}: rows list {int(length.median()):,} of {num_labels:,} labels (median). An area, this one or "
            "another, counts all others of a row as one tie at its end. Compare it with areas of lists of one length "
            "alone, not with areas of the scores of all labels.",
        )


SORTED_SCORES = 2**21
"""Number of scores that are sorted at once: 8 MB in float32."""


def dense_blocks(ranking: Ranking, num_labels: int) -> Iterator[tuple[int, Tensor]]:
    """Yield blocks of a few rows: the number of the first row, and the scores of all labels, float32 or float64."""
    height = max(1, SORTED_SCORES // max(1, num_labels))
    for first in range(0, ranking.num_rows, height):
        if ranking.scores is not None:
            block = ranking.scores[first : first + height]
            yield first, block.to(torch.promote_types(block.dtype, torch.float32))
            continue
        assert ranking.values is not None
        ids = ranking.ids[first : first + height]
        values = ranking.values[first : first + height, : ids.shape[1]]
        values = values.to(torch.promote_types(values.dtype, torch.float32))
        block = values.new_full((len(ids), num_labels + 1), -torch.inf)
        place = torch.where(ids >= 0, ids, num_labels)
        yield first, block.scatter_reduce_(1, place, values, reduce="amax")[:, :num_labels]


def check_returned_values(
    caller: str, method: str, values: Any, ranks: TargetRanks, fixed_point: FixedPoint, validate: bool
) -> None:
    """Raise unless a formula returned one value per row that can be added up without loss."""
    rows = ranks.n_relevant
    if not isinstance(values, Tensor) or values.shape != rows.shape:
        raise TypeError(
            f"{caller}: {method} returned {shape_of(values)}; return one number per row: a tensor of the shape of "
            f"n_relevant, {list(rows.shape)}."
        )
    whole = values.dtype in (torch.bool, *INTEGERS)
    if whole != (fixed_point.limbs == 0) or (not whole and values.dtype != real_dtype(values.device)):
        raise TypeError(
            f"{caller}: {method} returned {shape_of(values)}; return float64, such as divide(hits, n) or "
            "hits.double(), so that no digit is lost, or bools or whole numbers with fixed_point = COUNT."
        )
    if not validate or not values.numel():
        return
    low, high = (float(bound) for bound in torch.aminmax(values.to(real_dtype(values.device))))
    # a quotient of sums may be rounded to a little more than 1
    if not whole and not 0 <= low <= high <= fixed_point.largest * (1 + 1e-9):
        most = "" if fixed_point is REAL else f" and at most {fixed_point.largest:g}, or larger with fixed_point = REAL"
        raise ValueError(
            f"{caller}: {method} returned {high if low >= 0 else low}; values are numbers of at least 0{most}."
        )
    if bool((values[rows == 0] != 0).any()):
        raise ValueError(
            f"{caller}: {method} returned a value other than 0 for a row without a relevant label; return 0 there."
        )
