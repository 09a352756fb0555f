"""Aggregations, which turn rows into a number: the base, and those of values of rows.

The latter are means, ratios of sums and medians over rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import Self

from tailmetrics._arguments import check_choice
from tailmetrics.metrics._arguments_of_metrics import Average, EmptyTargetAction
from tailmetrics.metrics._mistakes import warn_once
from tailmetrics.metrics._readings import Ranks, Reading
from tailmetrics.metrics._states import (
    COUNT,
    SUMS_OF_WEIGHTS,
    UNIT,
    AtCells,
    EqualRows,
    FixedPoint,
    Increments,
    LabelCells,
    PerRow,
    State,
    States,
    divide,
    ratios,
    weighted,
)
from tailmetrics.metrics._ties import Ties
from tailmetrics.ranking import Ranking, TargetRanks
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._orders import along_rows
from tailmetrics.ranking._reading import PLAIN_ROWS

Values: TypeAlias = "list[list[float]] | Tensor"
"""Values by cut-off and bucket, (K, G), or by cut-off and label, (K, L)."""

Denominators: TypeAlias = "tuple[str, Sequence[Sequence[float]]]"
"""What values are divided by, and how many: ``("rows", [[60.0, 12.0]])``.

The numbers are by cut-off and bucket.
"""

RowTerms: TypeAlias = Literal["mean", "ratio", "median"]
"""How a value is made of the terms of rows: their mean, ratio of sums, or median."""

MANY_ROWS = 2**13
"""From this number of rows times buckets, a formula skips rows without a hit.

Finding the rows with a hit takes some 40 us.
"""


@dataclass(frozen=True, kw_only=True)
class ValueFacts:
    """What states tell beside the values of a metric; None where it does not apply.

    Attributes:
        answered: Number of rows to which ``empty_target_action`` does not apply (in the
            first bucket).
        miss: What a row counts as whose list ends too early, and the share of such rows
            in each bucket.
        labels_with_rows: Number of labels of each bucket that are relevant in some row.
        calibration: For each cut-off, by bucket: number of predictions, their mean
            probability, the share of hits.
    """

    answered: int | None = None
    miss: tuple[int, Sequence[float]] | None = None
    labels_with_rows: Sequence[int] | None = None
    calibration: Sequence[Sequence[Sequence[Any]]] | None = None


class Aggregation(ABC):
    """How the rows of all batches become one number for each cut-off and bucket.

    It is made with the arguments of its metric; ``with_reading`` gives it the reading
    with the facts of training.

    Args:
        caller: Name of the metric, for errors.
        reading: What the formula reads.
        weighted: Whether rows have weights.
        average: The average, one of ``averages``.
        empty_target_action: What happens to a row without a relevant label, one of
            ``actions``; None for the usual.
    """

    takes: tuple[str, ...] = ("average", "empty_target_action")
    """Arguments of a metric that its aggregation takes; attributes of both."""
    averages: tuple[Average, ...] = ("samples",)
    actions: tuple[EmptyTargetAction, ...] = ("neg", "pos", "skip", "error")
    tie_rules: tuple[Ties, ...] = ()
    """The values of ``ties`` that the aggregation takes; () for the reading's."""
    needs: tuple[str, ...] = ()
    """The facts of training that must be known before an update."""
    can_be_weighted = True
    row_terms: RowTerms | None = None
    """How a value is made of the terms of its rows; None if rows have no term."""
    usual_action: str = ""
    """The default of ``empty_target_action``, or "" for that of the formula.

    The default of the formula is replaced by ``"skip"`` within buckets.
    """
    has_value_per_label = False
    """Whether a value is a vector with an entry for each label, which has no key."""
    is_quality = True
    """Whether a value says how good a ranking is, as comparisons of runs require."""
    is_additive = False
    """Whether the values of all buckets add up to the value over all labels."""
    has_value_over_all = True
    """Whether a value over all labels has a meaning; a share of all places has none."""
    keeps_labels = False
    """Whether the states hold single labels, which :meth:`per_label` returns."""
    keeps_all_counts = False
    """Whether the states hold hits, predictions and support of each label."""
    not_in_key: tuple[str, ...] = ()
    """Arguments that no key shows."""

    def __init__(
        self,
        caller: str,
        reading: Reading,
        weighted: bool,
        *,
        average: Average = "samples",
        empty_target_action: EmptyTargetAction | None = None,
    ) -> None:
        self.caller, self.reading, self.weighted = caller, reading, weighted
        if empty_target_action is not None:
            check_choice(
                caller,
                "empty_target_action",
                empty_target_action,
                self.actions,
                " to this metric",
            )
        advice = " to this metric"
        if caller == "AccuracyAtK":
            advice += " (accuracy by class is RecallAtK(k=1, average='macro'))"
        self.average: Average = check_choice(
            caller, "average", average, self.averages, advice
        )
        self.tie_rules = self.tie_rules or reading.tie_rules
        check_choice(
            caller,
            "ties",
            reading.ties,
            self.tie_rules,
            f" to this metric with average={average!r}",
        )
        if not self.usual_action:
            self.usual_action = reading.formula.usual_action
            if reading.by_bucket:
                self.usual_action = "skip"
        self.empty_target_action = empty_target_action or self.usual_action
        self.row_format: FixedPoint = SUMS_OF_WEIGHTS if weighted else COUNT
        """The format of numbers of rows, or of sums of row weights, in a state."""
        self.is_own = not type(self).__module__.startswith("tailmetrics.")
        """Whether a user wrote the aggregation.

        Its states are then shared with no other metric, and its cells are checked.
        """

    def with_reading(self, reading: Reading) -> Self:
        """Return the aggregation of a reading with the facts of training."""
        aggregation = copy(self)
        aggregation.reading = reading
        return aggregation

    def warn_of(self, metric: Any, ranking: Ranking) -> None:
        """Warn if the first batch of a metric is accepted but looks like a mistake."""
        self.reading.warn_of(metric, ranking)

    # states and values

    @abstractmethod
    def states(self) -> dict[str, State]:
        """Return the states by short name; called once all facts are known."""

    @abstractmethod
    def increments(self, ranking: Ranking) -> Increments:
        """Return what a batch adds to each state, by short name."""

    @abstractmethod
    def values(self, states: States) -> Values:
        """Return the values by cut-off and bucket (one bucket if there are none)."""

    def facts(self, states: States) -> ValueFacts:
        """Return what the states tell beside the values."""
        return ValueFacts()

    def errors(self, states: States) -> Sequence[float]:
        """Return the largest error by bucket of binned scores; empty if exact."""
        return ()

    def not_measured(self, states: States) -> Sequence[Sequence[bool]] | None:
        """Return by cut-off and bucket whether a value is 0 because it is over nothing.

        None if no value is 0 by convention: a mean over rows without a row is NaN.

        None where no value is: a mean over rows without a row is NaN.
        """
        return None

    def denominators(self, states: States) -> Denominators | None:
        """Return what values are divided by; None without a mean, share or ratio."""
        return None

    # rows without a value

    def answered(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Return whether each row has a value, (N,) or (N, G), bool.

        ``empty_target_action`` applies to the other rows.
        """
        formula = self.reading.formula
        if formula.answered is None:
            return ranks.n_relevant > 0
        answered: Tensor = formula.answered(ranking, ranks, **formula.arguments)
        return answered

    # what intervals, comparisons and captions ask

    def row_values(self, ranking: Ranking) -> Tensor:
        """Return the value of each row by cut-off and bucket, (K * G, N).

        Of a ratio, both terms: (2, K * G, N).
        """
        raise ValueError(f"{self.caller}: no row has a value of its own")

    def label_terms(self) -> dict[str, Any] | None:
        """Return as plain data how labels of rows make a value; None if they do not."""
        return None

    def label_cells(self, ranking: Ranking) -> list[LabelCells]:
        """Return for each cut-off the label cells that rows hit, predict and hold."""
        return []

    def per_label(
        self,
        states: States,
        names: Sequence[str],
        with_cutoffs: bool,
        zero_division: float,
    ) -> dict[str, Tensor]:
        """Return counts and values of each label, shape (L,) each.

        Args:
            states: The states by short name.
            names: The name of the values at each cut-off.
            with_cutoffs: Whether the names of counts include the cut-off even if there
                is only one.
            zero_division: The value that divides by 0.
        """
        raise ValueError(
            f"{self.caller}: average={self.average!r} keeps no counts per label; use "
            "average='none'."
        )

    @property
    def depends_on_catalogue(self) -> bool:
        """Whether a value depends on the number of labels, seen in the data or not."""
        return self.reading.depends_on_catalogue

    @property
    def prefix(self) -> str:
        """What stands in front of the stem in a key."""
        return ""

    def cut_name(self, k: Any) -> str:
        """Return a cut-off as it is written in keys, behind @."""
        return self.reading.cut_name(k)

    def mean_over(self) -> str:
        """Return in words the labels that a macro average is over, or ""."""
        return ""

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket is of."""
        caption = self.reading.caption(k)
        if "empty_target_action" in self.takes and self.empty_target_action == "skip":
            return f"{caption}; {self.rows_with_value()} there"
        return caption

    def rows_with_value(self) -> str:
        """Return in words the rows that count if ``empty_target_action`` is "skip"."""
        formula = self.reading.formula
        if formula.answered is not None:
            return "rows with a value"
        if formula.reads_gains and self.reading.min_gain is not None:
            # not those whose gain reaches min_gain, as beside other metrics
            return "rows with any gain"
        return "rows with a relevant label"

    def increments_without_ties(self, increments: Increments) -> Increments:
        """Return the increments of a batch without equal scores.

        ``increments`` are those of the same metric with other ``ties``.
        """
        return {name: increments[name] for name in self.states()}

    # for derived classes

    @property
    def num_buckets(self) -> int:
        """G, or 1 without buckets."""
        return self.reading.num_buckets

    def by_cutoff(self, flat: Sequence[Any]) -> list[list[Any]]:
        """Return a list for each cut-off of values ordered by cut-off, then bucket."""
        size = self.num_buckets
        return [list(flat[first : first + size]) for first in range(0, len(flat), size)]


def by_weight(what: str, weighted: bool) -> str:
    """Return in words what is counted, with a note if rows count by weight."""
    if weighted:
        return f"{what}, by weight"
    return what


def with_bucket_axis(values: Tensor) -> Tensor:
    """Return values of rows, (N,) or (N, G), as (N, G); G is 1 without buckets."""
    if values.ndim == 1:
        return values[:, None]
    return values


class _RowAggregation(Aggregation):
    """An aggregation of a value, or two terms, of each row."""

    value_format: FixedPoint
    """The format of the values of rows."""
    is_mean_of_counts: bool
    """Whether values are means of whole numbers over orders of equal scores."""

    def with_reading(self, reading: Reading) -> Self:
        """Return the aggregation of a reading with the facts of training."""
        aggregation = super().with_reading(reading)
        aggregation.value_format = reading.formula.value_format
        aggregation.is_mean_of_counts = False
        if reading.ties == "expected" and aggregation.value_format == COUNT:
            aggregation.is_mean_of_counts = True
            aggregation.value_format = UNIT  # a mean of whole numbers is a fraction
        return aggregation

    def _counts_per_one(self) -> list[int]:
        """Return for each cut-off the sum that one row of value 1 adds."""
        if self.is_mean_of_counts:
            return [1] * len(self.reading.ks)
        return [self.reading.formula.counts_per_one(k) for k in self.reading.ks]

    def _fractions(self, counts: Tensor) -> Tensor:
        """Return mean counts (K, ...) divided by the count that makes a value of 1."""
        fractions = []
        for k, row_counts in zip(self.reading.ks, counts, strict=True):
            fractions.append(divide(row_counts, self.reading.formula.counts_per_one(k)))
        return torch.stack(fractions)

    @property
    def sum_format(self) -> FixedPoint:
        """The format of sums over rows."""
        if self.weighted:
            return weighted(self.value_format)
        return self.value_format


class MeanOfRows(_RowAggregation):
    """The mean over rows of one value per row."""

    row_terms = "mean"

    @property
    def is_additive(self) -> bool:  # type: ignore[override] # decided by arguments here
        """Whether the values of buckets add up to the value over all labels.

        They do if each row counts in each bucket.
        """
        reading = self.reading
        return (
            reading.formula.is_additive
            and reading.scope == "global"
            and self.empty_target_action == "neg"
        )

    def states(self) -> dict[str, State]:
        """Return the sum of values, the number of rows and of rows with a value."""
        size = self.num_buckets
        return {
            "sum": State((len(self.reading.cutoffs), size, self.sum_format.columns)),
            "rows": State((1 + size, self.row_format.columns)),
        }

    def increments(self, ranking: Ranking) -> Increments:
        """Return the values of the rows of a batch, and which rows count."""
        reading = self.reading
        ranks = ranks_read = reading.read(ranking)
        only_hits = reading.formula.zero_without_hits
        if (
            only_hits
            and ranking.rows is PLAIN_ROWS
            and ranking.num_rows * reading.num_buckets >= MANY_ROWS
        ):
            ranks_of_hits = ranks.with_hits
            if ranks_of_hits is not None:
                ranks_read = ranks_of_hits
        values = reading.values(ranking, ranks_read)
        if self.is_mean_of_counts:
            values = self._fractions(values)
        # a reference ranks all labels in dropped rows
        if ranking.row_mask is not None and not only_hits:
            values = torch.where(
                along_rows(ranking.row_mask, values.ndim - 1), values, 0.0
            )
        if self.value_format.limbs and values.dtype == torch.bool:
            values = values.to(real_dtype(values.device))
        return {
            "sum": PerRow(values, self.value_format, row_axis=1),
            "rows": self.rows_counted(ranking, ranks),
        }

    def rows_counted(self, ranking: Ranking, ranks: TargetRanks) -> PerRow:
        """Return whether each row counts, and whether it has a value in each bucket.

        Shape (N, 1 + G), bool.
        """
        by_labels = self.reading.formula.answered is None
        memo: dict[object, PerRow] = ranks._memo if by_labels else {}
        if "rows counted" in memo:
            return memo["rows counted"]

        # every row has a label, as with class indices
        if by_labels and ranks is ranking and ranking.targets.filled:
            counted: PerRow = EqualRows((1, 1), ranking.num_rows, ranking.ids.device)
        else:
            answered = with_bucket_axis(self.answered(ranking, ranks))
            flags = F.pad(answered, (1, 0), value=True)
            if ranking.row_mask is not None:
                flags = flags & ranking.row_mask[:, None]
            counted = PerRow(flags)
        memo["rows counted"] = counted
        return counted

    def values(self, states: States) -> Values:
        """Return the sum of values divided by the number of rows that count."""
        rows, answered, counted = self._rows(states)
        unit, values = self.row_format.unit, []
        sums = self.by_cutoff(self.sum_format.totals(states["sum"]))
        for counts_per_one, bucket_sums in zip(
            self._counts_per_one(), sums, strict=True
        ):
            sum_of_one = self.sum_format.unit * counts_per_one
            if self.empty_target_action == "pos":
                missing = [rows - bucket_rows for bucket_rows in answered]
                bucket_sums = [
                    total + number * sum_of_one // unit
                    for total, number in zip(bucket_sums, missing, strict=True)
                ]
            values.append(
                ratios(
                    [total * unit for total in bucket_sums],
                    [count * sum_of_one for count in counted],
                )
            )
        return values

    def _rows(self, states: States) -> tuple[int, list[int], list[int]]:
        """Return the numbers of all rows and, by bucket, of answered and counted rows.

        They are in the format of numbers of rows.
        """
        rows, *answered = (
            int(total) for total in self.row_format.totals(states["rows"])
        )
        if self.empty_target_action == "skip":
            return rows, answered, answered
        return rows, answered, [rows] * len(answered)

    def denominators(self, states: States) -> Denominators:
        """Return the rows that count: all rows, or those with a value."""
        counted = [count / self.row_format.unit for count in self._rows(states)[2]]
        rows = "rows"
        if self.empty_target_action == "skip":
            rows = self.rows_with_value()
        return by_weight(rows, self.weighted), [counted] * len(self.reading.ks)

    def facts(self, states: States) -> ValueFacts:
        """Return the number of rows that are answered."""
        _, answered, _ = self._rows(states)
        return ValueFacts(answered=answered[0] // self.row_format.unit)

    def row_values(self, ranking: Ranking) -> Tensor:
        """Return the value of each row by cut-off and bucket, (K * G, N)."""
        reading = self.reading
        ranks = reading.read(ranking)
        values = self._fractions(reading.values(ranking, ranks).to(torch.float64))
        if self.empty_target_action == "pos":
            values = torch.where(self.answered(ranking, ranks), values, 1.0)
        elif self.empty_target_action != "neg":
            values = torch.where(self.answered(ranking, ranks), values, torch.nan)
        return values.movedim(1, -1).flatten(0, -2)

    def increments_without_ties(self, increments: Increments) -> Increments:
        """Return the increments of a batch without equal scores.

        ``increments`` are those of the same metric with other ``ties``.
        """
        own = super().increments_without_ties(increments)
        total = own["sum"]
        assert isinstance(total, PerRow)
        if total.fixed_point == self.value_format:
            return own
        return {
            **own,
            "sum": PerRow(
                self._fractions(total.values), self.value_format, total.row_axis
            ),
        }


class RatioOfSums(_RowAggregation):
    """One sum over rows divided by another: a ratio of means, not a mean of ratios."""

    actions = ("neg", "skip", "error")
    row_terms = "ratio"
    divided_by = "sum of the denominators of rows"
    """What the second term adds up, in words."""

    def states(self) -> dict[str, State]:
        """Return the sums of both terms."""
        return {
            "sums": State(
                (
                    2,
                    len(self.reading.cutoffs),
                    self.num_buckets,
                    self.sum_format.columns,
                )
            )
        }

    def increments(self, ranking: Ranking) -> Increments:
        """Return both terms of the rows of a batch."""
        terms = self.reading.values(ranking, self.reading.read(ranking))
        return {"sums": PerRow(terms, self.value_format, row_axis=2)}

    def values(self, states: States) -> Values:
        """Return the ratios of the sums; NaN where the denominator is 0."""
        top, bottom = (self.sum_format.totals(sums) for sums in states["sums"])
        return self.by_cutoff(ratios(top, [int(total) for total in bottom]))

    def denominators(self, states: States) -> Denominators:
        """Return the sums over rows of the second term."""
        sums = [
            int(total) / self.sum_format.unit
            for total in self.sum_format.totals(states["sums"][1])
        ]
        return by_weight(self.divided_by, self.weighted), self.by_cutoff(sums)

    def row_values(self, ranking: Ranking) -> Tensor:
        """Return both terms of each row by cut-off and bucket, (2, K * G, N)."""
        terms = self.reading.values(ranking, self.reading.read(ranking)).to(
            torch.float64
        )
        return terms.movedim(2, -1).flatten(1, -2)


RowStatistic: TypeAlias = Literal["median", "mean"]


class MedianOfRows(Aggregation):
    """The median or mean over rows of a rank; ranks beyond ``depth`` count as misses.

    Args:
        statistic: The median, the mean of the two middle values of an even number of
            rows, or the mean.
        miss_value: What a row counts as that misses; None is half the number of labels.
        name: What stands behind @ in a key.
        other_arguments: See :class:`Aggregation`.
    """

    takes = ("average", "empty_target_action", "statistic", "miss_value")
    actions = ("skip", "error")
    reading: Ranks

    def __init__(
        self,
        *arguments: Any,
        statistic: RowStatistic,
        miss_value: int | None,
        name: str,
        **other_arguments: Any,
    ) -> None:
        super().__init__(*arguments, **other_arguments)
        self.statistic, self.miss_value, self._name = statistic, miss_value, name
        self.row_terms = statistic

    def warn_of(self, metric: Any, ranking: Ranking) -> None:
        """Warn if rows have one label each: ``min_recall`` then makes no difference.

        Rows without a label are left out; a report notes how many lists end too early.
        """
        padded, share = ranking.targets.padded, metric.min_recall
        if padded is not None and padded.shape[1] == 1 and share < 1:
            warn_once(
                ranking,
                "one label per row",
                f"{self.caller}: each row of a batch has one relevant label. If all "
                f"rows do, min_recall={self._name} makes no difference: the value is "
                "the median or mean rank of this label. How long a list must be to "
                f"find {share:.0%} of the labels, AccuracyAtK(k=[10, 20, 50, 100]) "
                "tells: the first k that reaches this share.",
            )

    @property
    def depends_on_catalogue(self) -> bool:
        """Whether a miss counts as half the number of labels."""
        return self.miss_value is None

    @property
    def prefix(self) -> str:
        """What stands in front of the stem in a key."""
        return f"{self.statistic}_"

    def cut_name(self, k: Any) -> str:
        """Return what stands behind @ in a key."""
        return self._name

    def states(self) -> dict[str, State]:
        """Return the rows of each rank, misses last, and the number of labels."""
        return {
            "histogram": State(
                (self.num_buckets, self.reading.depth + 1, self.row_format.columns)
            ),
            "num_labels": State((1,), reduction="max"),
        }

    def _ranks(self, ranking: Ranking) -> tuple[Tensor, Tensor]:
        """Return the rank, and whether there is a relevant label, by row and bucket.

        Shape (N, G) each.
        """
        ranks = self.reading.read(ranking)
        shape = ranking.num_rows, self.num_buckets
        # the formula reads no cut-off: one stands for the whole list
        k = self.reading.formula.at(ranks, (1,))
        return k.view(shape), (ranks.n_relevant > 0).view(shape)

    def _num_labels_of(self, ranking: Ranking) -> int:
        return self.reading.num_labels or ranking.num_labels or 0

    def increments(self, ranking: Ranking) -> Increments:
        """Return the rank of each row of a batch as a cell of the histogram."""
        num_labels = self._num_labels_of(ranking)
        if self.miss_value is None and not num_labels:
            raise ValueError(
                f"{self.caller}: a miss counts half the number of labels, which ids do "
                "not tell; pass num_labels= or miss_value=."
            )
        k, answered = self._ranks(ranking)
        depth = self.reading.depth
        column = torch.where(k <= depth, k - 1, depth)  # the last one counts misses
        cells = torch.arange(self.num_buckets, device=k.device) * (depth + 1) + column
        rows = torch.arange(ranking.num_rows, device=k.device)
        return {
            "histogram": AtCells(
                cells.view(-1),
                answered.view(-1),
                rows.repeat_interleave(self.num_buckets),
            ),
            "num_labels": AtCells(
                torch.zeros_like(rows), torch.full_like(rows, num_labels), rows
            ),
        }

    def _miss_of(self, states: States) -> int:
        """Return what a row counts as that misses."""
        if self.miss_value is not None:
            return self.miss_value
        return int(states["num_labels"]) // 2

    def _histograms(self, states: States) -> list[list[int]]:
        """Return for each bucket the rows by rank, the misses last."""
        totals = [int(count) for count in self.row_format.totals(states["histogram"])]
        width = self.reading.depth + 1
        return [totals[first : first + width] for first in range(0, len(totals), width)]

    def values(self, states: States) -> Values:
        """Return the median or the mean of each bucket."""
        miss_value = self._miss_of(states)
        values = []
        for *counts, misses in self._histograms(states):
            ascending = sorted([*enumerate(counts, start=1), (miss_value, misses)])
            values.append(_statistic(ascending, self.statistic))
        return [values]

    def denominators(self, states: States) -> Denominators:
        """Return the rows with a relevant label."""
        counted = [
            sum(histogram) / self.row_format.unit
            for histogram in self._histograms(states)
        ]
        return by_weight(self.rows_with_value(), self.weighted), [counted]

    def facts(self, states: States) -> ValueFacts:
        """Return the number of rows that count, the value of misses and their shares.

        The shares are by bucket.
        """
        histograms = self._histograms(states)
        shares = []
        for histogram in histograms:
            shares.append(histogram[-1] / max(1, sum(histogram)))
        return ValueFacts(
            answered=sum(histograms[0]) // self.row_format.unit,
            miss=(self._miss_of(states), shares),
        )

    def row_values(self, ranking: Ranking) -> Tensor:
        """Return the rank of each row by bucket, (G, N); NaN without relevant label."""
        k, answered = self._ranks(ranking)
        miss_value = self.miss_value
        if miss_value is None:
            miss_value = self._num_labels_of(ranking) // 2
        value = torch.where(k <= self.reading.depth, k, miss_value).to(torch.float64)
        return torch.where(answered, value, torch.nan).T


def _statistic(histogram: Sequence[tuple[int, int]], statistic: RowStatistic) -> float:
    """Return the mean or median of ascending (value, number of rows); NaN of no row."""
    rows_up_to = list(accumulate(count for _, count in histogram))
    num_rows = rows_up_to[-1]
    if not num_rows:
        return float("nan")
    if statistic == "mean":
        return sum(value * count for value, count in histogram) / num_rows
    # the lower and the upper middle are the same of an odd number of rows
    lower, _ = histogram[bisect_right(rows_up_to, (num_rows - 1) // 2)]
    upper, _ = histogram[bisect_right(rows_up_to, num_rows // 2)]
    return (lower + upper) / 2
