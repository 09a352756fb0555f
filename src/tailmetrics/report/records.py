"""The values of a report as records.

There is one record for each value, with its place, interval and references.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tailmetrics.report.formatting import (
    between,
    brief,
    number,
    with_interval,
    without_zero,
)
from tailmetrics.significance.interval import (
    DECIMALS,
    LARGEST_ERROR,
    Interval,
    decimals_that_hold,
)

REFERENCES = ("chance", "popularity", "attainable")
"""Simple models beside each value: equal scores, training counts, targets as scores."""
ORDERS = ("worst", "expected", "best")
"""Values of other orders of equal scores: the worst, the mean over all, the best."""
SUMMARIES = ("gap", "spread", "adjusted_gap")
"""Summaries of the values of all buckets of a metric."""
GAPS = ("gap", "adjusted_gap")
"""Summaries that are compared between runs."""
PLURAL_NOUN = re.compile(r"^((?:relevant )?[a-z]+)s\b")
"""The noun of what is counted, such as ``rows with a relevant label``."""
VALUE_COLUMNS = ("key", "metric", "k", "bucket", "row_group", "summary", "value")
FURTHER_COLUMNS = (
    "count",
    "count_of",
    *REFERENCES,
    *ORDERS,
    "at_half_the_rows",
    "error_bound",
)
"""The fields of a record before and after the interval in a table of values."""
INTERVAL_COLUMNS = (
    "low",
    "high",
    "n",
    "confidence",
    "interval_method",
    "interval_reason",
    "clusters",
)
"""The parts of an interval in a table of values."""


class Breakdown(Enum):
    """A breakdown of a metric, with one value for each bucket, group or summary.

    A record belongs to one breakdown.
    """

    WHOLE = "over all rows and labels"
    BUCKETS = "by bucket, over all rows"
    GROUPS = "by group of rows, over all labels"
    BUCKETS_OF_GROUPS = "by bucket and group of rows"
    SUMMARIES = "summaries of buckets"


BREAKDOWNS = {
    (False, False): Breakdown.WHOLE,
    (True, False): Breakdown.BUCKETS,
    (False, True): Breakdown.GROUPS,
    (True, True): Breakdown.BUCKETS_OF_GROUPS,
}
"""Whether a value has a bucket, and whether it has a group of rows -> its breakdown."""


def breakdown_of(bucket: str, row_group: str, summary: str) -> Breakdown:
    """Return the breakdown to which a value belongs.

    An empty bucket or row group stands for all labels or rows.
    """
    if summary:
        return Breakdown.SUMMARIES
    return BREAKDOWNS[bool(bucket), bool(row_group)]


@dataclass(frozen=True)
class MetricFacts:
    """The properties that all values of one metric at one cut-off share.

    Attributes:
        metric: The key without group and bucket, as in :class:`Record`.
        k: The cut-off, as in :class:`Record`.
        higher_is_better: Whether a higher value is better; None if neither is.
        is_place: Whether the values are places in a list.
        is_additive: Whether the values of all buckets add up: to the value over all
            labels, or to 1 if there is none.
        caption: The scope and cut-off of values by bucket, in words, or "".
        meaning: A note on the value over all labels, such as the labels that a macro
            average averages; empty for none.
        overall_key: The key of the value over all labels; empty without one.
        is_fraction: Whether all values lie between 0 and 1, and can be percentages.
        is_share_of_labels: Whether the value is the mean share of a row's relevant
            labels that its list holds.
        is_among_themselves: Whether the labels of each bucket are ranked among
            themselves for the values by bucket.
        empty_rows: The number of rows that hold nothing that the metric measures, such
            as no relevant label.
        empty_rows_treatment: How these rows count, in words:
            ``"without a relevant label count as 0"``.
        rows_left_out: The number of these rows that do not count.
        counts_rows: Whether the denominator of a value, ``Record.count``, is a number
            of rows.
    """

    metric: str
    k: int | None = None
    higher_is_better: bool | None = None
    is_place: bool = False
    is_additive: bool = False
    caption: str = ""
    meaning: str = ""
    overall_key: str = ""
    is_fraction: bool = False
    is_share_of_labels: bool = False
    is_among_themselves: bool = False
    empty_rows: int = 0
    empty_rows_treatment: str = ""
    rows_left_out: int = 0
    counts_rows: bool = False

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value is better."""
        return self.higher_is_better is False


NO_FACTS = MetricFacts("")


@dataclass(frozen=True)
class Record:
    """One value of a report.

    Attributes:
        key: The key of the value, as a collection names it: ``recall@10/en/decile_1``.
        metric: The key without group and bucket: ``recall@10``.
        k: The cut-off; None for a metric without a whole number as cut-off.
        bucket: The bucket of labels; empty for all labels.
        row_group: The group of rows; empty for all rows.
        summary: ``"gap"``, ``"spread"`` or ``"adjusted_gap"`` for a summary of all
            buckets; empty for a value.
        value: The value; NaN where nothing was measured.
        interval: The confidence interval; None without intervals.
        count: The denominator of the value, a number of ``count_of``; None for a value
            that is no mean, share or ratio.
        count_of: What is counted, such as ``"rows with a relevant label"``; empty
            without ``count``.
        chance: The value if all labels have equal scores; None if not computed.
        popularity: The value where training counts are the scores.
        attainable: The value where the targets are the scores.
        worst: The value of the worst order of equal scores; None without such scores.
        expected: The mean value over all orders of equal scores.
        best: The value of the best order of equal scores.
        at_half_the_rows: The value at half of the rows, for an average over labels.
        error_bound: The largest possible error of a value that was computed from bins
            of scores; None if it is exact.
        facts: The properties that all values of the metric share.
    """

    key: str
    metric: str
    value: float
    k: int | None = None
    bucket: str = ""
    row_group: str = ""
    summary: str = ""
    interval: Interval | None = field(default=None, repr=False)
    count: float | None = None
    count_of: str = ""
    chance: float | None = None
    popularity: float | None = None
    attainable: float | None = None
    worst: float | None = None
    expected: float | None = None
    best: float | None = None
    at_half_the_rows: float | None = None
    error_bound: float | None = None
    facts: MetricFacts = field(default=NO_FACTS, repr=False)

    @property
    def breakdown(self) -> Breakdown:
        """The breakdown of the metric to which this record belongs."""
        return breakdown_of(self.bucket, self.row_group, self.summary)

    @property
    def decimals(self) -> int:
        """The number of decimals that are certain in spite of the error bound.

        At least one decimal is certain.
        """
        return decimals_that_hold(self.error_bound or 0.0)

    @property
    def is_measured(self) -> bool:
        """Whether there is a value."""
        return not math.isnan(self.value)

    @property
    def is_place(self) -> bool:
        """Whether the value is shown as a place in a list.

        The value is a place, or a gap between two places.
        """
        return self.facts.is_place and self.summary in ("", "gap")

    @property
    def ends(self) -> tuple[float, ...]:
        """Both ends of the interval; empty without them."""
        if self.interval is None:
            return ()
        return self.interval.ends

    @property
    def shown_ends(self) -> tuple[float, ...]:
        """The ends of the interval, rounded outwards if the value has an error bound.

        They have the decimals of the value.
        """
        if self.decimals == DECIMALS or not self.ends:
            return self.ends
        low, high = self.ends
        unit = 10.0**-self.decimals
        return math.floor(low / unit) * unit, math.ceil(high / unit) * unit

    @property
    def number(self) -> str:
        """The value as a table shows it; its bounds if no decimal is certain."""
        error = self.error_bound or 0.0
        if error > LARGEST_ERROR:
            return between(self.value - error, self.value + error, decimals=2)
        return number(self.value, self.is_place, self.decimals)

    @property
    def text(self) -> str:
        """The value with its interval, as a table shows it."""
        if not self.ends:
            return self.number
        return with_interval(self.value, self.shown_ends, self.is_place, self.decimals)

    @property
    def short(self) -> str:
        """The value as sentences and labels of bars show it."""
        return without_zero(brief(self.value, self.is_place, self.decimals))

    @property
    def count_text(self) -> str:
        """The denominator as a table shows it; – if there is none."""
        if self.count is None:
            return "–"
        return f"{self.count:,.10g}"

    @property
    def count_in_words(self) -> str:
        """The denominator and what it counts, such as ``"60 rows"``, or ""."""
        if self.count is None:
            return ""
        counted_things = self.count_of
        if self.count == 1:
            counted_things = PLURAL_NOUN.sub(r"\1", counted_things)
        return f"{self.count_text} {counted_things}"

    def reference(self, name: str) -> float:
        """Return a value of :data:`REFERENCES` or :data:`ORDERS` by name.

        Return NaN if the value was not computed.
        """
        value = getattr(self, name)
        if value is None:
            return math.nan
        return float(value)

    @property
    def depends_on_ties(self) -> bool:
        """Whether the order of equal scores changes the value."""
        return self.reference("worst") < self.reference("best")

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a line of a table, with columns of interval parts."""
        columns: dict[str, Any] = {name: getattr(self, name) for name in VALUE_COLUMNS}
        columns |= interval_columns(self.interval)
        for name in FURTHER_COLUMNS:
            columns[name] = getattr(self, name)
        return columns


NO_RECORD = Record("", "", math.nan)
"""The record of a missing value; tables show a dash."""


def interval_columns(interval: Interval | None) -> dict[str, Any]:
    """Return the parts of an interval by :data:`INTERVAL_COLUMNS`.

    Each part is None without an interval.
    """
    if interval is None:
        return dict.fromkeys(INTERVAL_COLUMNS)
    parts = (
        interval.low,
        interval.high,
        interval.n,
        interval.confidence,
        str(interval.method),
        interval.reason,
        interval.clusters,
    )
    return dict(zip(INTERVAL_COLUMNS, parts, strict=True))


def values_by_key(records: Iterable[Record], name: str) -> dict[str, float]:
    """Return the values of one field, such as ``"chance"``, by the keys of the records.

    Values that are None are left out.
    """
    values = {}
    for record in records:
        value = getattr(record, name)
        if value is not None:
            values[record.key] = value
    return values


def to_frame(lines: Iterable[Mapping[str, Any]]) -> Any:
    """Return lines as a pandas DataFrame.

    Raises:
        ModuleNotFoundError: If pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Report.to_frame: pandas is not installed; install it with: pip "
            "install pandas"
        ) from None
    return pd.DataFrame(list(lines))
