"""``ComparisonData``: comparisons of runs, found by key, run, bucket and group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from tailmetrics.report.curves import CurvePoint
from tailmetrics.report.document import today
from tailmetrics.report.formatting import (
    LETTERS,
    RAISED,
    counted,
    ends_with_signs,
    number,
    signed,
    split,
)
from tailmetrics.report.records import (
    GAPS,
    Breakdown,
    breakdown_of,
    interval_columns,
    to_frame,
)
from tailmetrics.report.words import USUAL_WORDS, Words
from tailmetrics.significance.interval import decimals_that_hold

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Comparison

UNCORRECTED = "none"
"""The correction of p-values that leaves them as they are."""
UNEQUAL = "†"
"""The mark after values of runs whose lists have unequal lengths."""
DIFFERENCE_COLUMNS = ("value", "baseline", "baseline_value", "statistic", "difference")
"""The fields of a comparison that stand before its interval in a table."""
RESULT_COLUMNS = (
    "significant",
    "wins",
    "ties",
    "losses",
    "cohens_dz",
    "relative_difference",
    "least_difference",
    "bin_error",
    "swaps",
    "lower_is_better",
    "tested",
)
"""The fields of a comparison that stand behind its p-values in a table."""
SUPERSCRIPTS = str.maketrans(LETTERS, RAISED)


class Place(NamedTuple):
    """Where a value stands: its metric, bucket, group of rows and gap of buckets."""

    metric: str
    bucket: str = ""
    row_group: str = ""
    summary: str = ""

    @property
    def breakdown(self) -> Breakdown:
        """Which values of the metric this one stands among."""
        return breakdown_of(self.bucket, self.row_group, self.summary)


@dataclass(frozen=True)
class ComparisonData:
    """Runs compared row by row, and what the sections of a comparison read of them.

    Attributes:
        comparisons: The result of :func:`tailmetrics.significance.compare`.
        title: The title.
        correction: The correction of p-values for the number of comparisons.
        buckets: Names of the buckets, head first. A key that ends in "/" and a bucket's
            name belongs to this bucket.
        row_groups: Names of the groups of rows.
        captions: The scope and cut-off in words of each metric by bucket.
        over_all: For each metric by bucket, the key of its value over all labels.
        headline: The metric that the comparison is about, as a key without bucket.
        lower_is_better: Keys for which a lower value is better.
        without_direction: Keys for which neither a higher nor a lower value is better.
        not_compared: Values by key and run that no comparison reads.
        not_compared_because: Sentences that say why values are not compared.
        unequal_lists: Keys that read longer lists of one run than of another -> the
            median lengths by run, in words.
        what_buckets_are: The meaning of the buckets, in one or two sentences.
        verdict: The main result in words, shown first.
        warnings: Facts that a reader should know before trusting the numbers.
        curves: Values as functions of the training count, by metric and run, as
            ``LabelTable.curves`` returns them.
        settings: Class and arguments of every metric.
        versions: Versions of the libraries.
        postfix: The postfix of the collection, which ends every key, buckets included.
        date: The day of the comparison, in UTC.
        num_runs: Name of a model -> of how many runs its values are the mean; empty if
            each is one run.
        clusters: The name of the clusters, such as ``"user"``; if "", only the number
            of clusters is shown.
        words: What rows and labels are in this field, such as ``("users", "items")``.
    """

    comparisons: Sequence[Comparison]
    title: str = "Comparison"
    correction: str = "max-t"
    buckets: Sequence[str] = ()
    row_groups: Sequence[str] = ()
    captions: Mapping[str, str] = field(default_factory=dict)
    over_all: Mapping[str, str] = field(default_factory=dict)
    headline: str = ""
    lower_is_better: Sequence[str] = ()
    without_direction: Sequence[str] = ()
    not_compared: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    not_compared_because: Sequence[str] = ()
    unequal_lists: Mapping[str, str] = field(default_factory=dict)
    what_buckets_are: str = ""
    verdict: str = ""
    warnings: Sequence[str] = ()
    curves: Mapping[str, Mapping[str, Sequence[CurvePoint]]] = field(
        default_factory=dict, repr=False
    )
    settings: Sequence[Mapping[str, Any]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    postfix: str = ""
    date: str = field(default_factory=today)
    num_runs: Mapping[str, int] = field(default_factory=dict)
    clusters: str = ""
    words: Words = USUAL_WORDS

    # -- values and comparisons by key -------------------------------------------------

    @cached_property
    def runs(self) -> list[str]:
        """The names of the runs; the first is the baseline of pictures."""
        names = [comparison.baseline for comparison in self.comparisons]
        names += [comparison.run for comparison in self.comparisons]
        return list(dict.fromkeys(names))

    @cached_property
    def values(self) -> dict[str, dict[str, float]]:
        """Values by key and run."""
        values: dict[str, dict[str, float]] = {}
        for comparison in self.comparisons:
            run_values = values.setdefault(comparison.key, {})
            run_values[comparison.run] = comparison.value
            run_values[comparison.baseline] = comparison.baseline_value
        return values

    def value(self, key: str, run: str) -> float:
        """Return the value of a run; NaN where there is none."""
        return self.values[key].get(run, math.nan)

    @cached_property
    def _by_runs(self) -> dict[tuple[str, str, str], Comparison]:
        return {
            (comparison.key, comparison.run, comparison.baseline): comparison
            for comparison in self.comparisons
        }

    def against(self, key: str, run: str) -> Comparison | None:
        """Return the comparison of a run with the baseline by one key, or None."""
        return self._by_runs.get((key, run, self.runs[0]))

    def differences(self, keys: Mapping[str, str], run: str) -> dict[str, Comparison]:
        """Return the comparisons of a run with the baseline by name.

        Args:
            keys: The key of each name.
            run: The name of the run.
        """
        comparisons = {}
        for name, key in keys.items():
            comparison = self.against(key, run)
            if comparison is not None:
                comparisons[name] = comparison
        return comparisons

    # -- keys by place -----------------------------------------------------------------

    @cached_property
    def places(self) -> dict[str, Place]:
        """The place of each key, compared or not."""
        places = {}
        for key in (*self.values, *self.not_compared):
            metric, group, name = split(
                key, self.row_groups, (*self.buckets, *GAPS), self.postfix
            )
            if name in self.buckets:
                places[key] = Place(metric, bucket=name, row_group=group)
            else:
                places[key] = Place(metric, row_group=group, summary=name)
        return places

    @cached_property
    def overall(self) -> list[str]:
        """Keys of values over all rows and labels."""
        return [
            key for key in self.values if self.places[key].breakdown is Breakdown.WHOLE
        ]

    @cached_property
    def gaps(self) -> list[str]:
        """Keys of gaps between buckets, over all rows."""
        keys = []
        for key in self.values:
            place = self.places[key]
            if place.summary and not place.row_group:
                keys.append(key)
        return keys

    @cached_property
    def by_bucket(self) -> dict[str, dict[str, str]]:
        """Keys of values over all rows by metric and bucket, head first."""
        return self._keys_by_metric(Breakdown.BUCKETS)

    @cached_property
    def by_group(self) -> dict[str, dict[str, str]]:
        """Keys of values over all labels by metric and group of rows."""
        return self._keys_by_metric(Breakdown.GROUPS)

    def _keys_by_metric(self, breakdown: Breakdown) -> dict[str, dict[str, str]]:
        keys: dict[str, dict[str, str]] = {}
        for key in self.values:
            place = self.places[key]
            if place.breakdown is breakdown:
                keys.setdefault(place.metric, {})[place.bucket or place.row_group] = key
        return keys

    # -- texts -------------------------------------------------------------------------

    def beaten(self, key: str, run: str) -> str:
        """Return the letters of the runs that are significantly worse by one key."""
        if key in self.without_direction:
            return ""
        worse_runs = set()
        for comparison in self.comparisons:
            if (
                comparison.key != key
                or not comparison.significant
                or comparison.statistic == "gap"
            ):
                continue
            better, worse = comparison.run, comparison.baseline
            if (comparison.difference < 0) != (key in self.lower_is_better):
                better, worse = worse, better
            if better == run:
                worse_runs.add(worse)
        return "".join(map(self.letter, sorted(worse_runs, key=self.runs.index)))

    def letter(self, run: str) -> str:
        """Return the letter that names a run in superscripts."""
        place = self.runs.index(run)
        if place >= len(LETTERS):
            return f"({place + 1})"
        return LETTERS[place]

    def cell(self, key: str, run: str) -> str:
        """Return a value with the marks behind it, as a table shows it."""
        return f"{number(self.value(key, run), decimals=self.decimals(key))}{self.marked(key, run)}"

    def decimals(self, key: str) -> int:
        """Return the number of decimals of a key that hold in all comparisons.

        With so many decimals, runs that differ significantly do not look alike.
        """
        comparisons = [
            comparison for comparison in self.comparisons if comparison.key == key
        ]
        decimals = [
            decimals_that_hold(
                max((comparison.bin_error for comparison in comparisons), default=0.0)
            )
        ]
        decimals += [
            comparison.decimals for comparison in comparisons if comparison.significant
        ]
        return max(decimals)

    def marked(self, key: str, run: str) -> str:
        """Return the marks behind a value: letters of worse runs, unequal lists.

        The letters are raised.
        """
        return self.beaten(key, run).translate(SUPERSCRIPTS) + self.unequal_mark(key)

    def unequal_mark(self, key: str) -> str:
        """Return the mark of values that read lists of unequal lengths, or ""."""
        return UNEQUAL if key in self.unequal_lists else ""

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        return self.comparisons[0].interval.confidence if self.comparisons else math.nan

    @property
    def corrected_for(self) -> int:
        """The number of comparisons with a p-value, which count in the correction."""
        return sum(
            not math.isnan(comparison.p_corrected.decisive)
            for comparison in self.comparisons
        )

    @property
    def num_clusters(self) -> int:
        """The number of row clusters drawn and swapped; 0 if rows are independent."""
        return max(
            (comparison.interval.clusters or 0 for comparison in self.comparisons),
            default=0,
        )

    # -- lines -------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """Return the values and differences of all runs as a pandas DataFrame."""
        return to_frame(self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """Return the values of all runs as lines of one table.

        JSON, CSV and :meth:`to_frame` hold these lines. There is a line for each
        comparison, with the value of the run and its difference from the ``baseline``.
        A value that is compared with no baseline has a line of its own, whose
        ``baseline`` is None.
        """
        lines = []
        for comparison in self.comparisons:
            lines.append(
                {
                    **self._place_columns(comparison.key, comparison.run),
                    **_comparison_columns(comparison),
                }
            )

        columns = dict.fromkeys(chain.from_iterable(lines))
        compared = {(comparison.key, comparison.run) for comparison in self.comparisons}
        for key, run_values in {**self.values, **self.not_compared}.items():
            for run, value in run_values.items():
                if (key, run) not in compared:
                    lines.append(
                        {**columns, **self._place_columns(key, run), "value": value}
                    )
        return lines

    def _place_columns(self, key: str, run: str) -> dict[str, str]:
        return {"run": run, "key": key, **self.places[key]._asdict()}


def _comparison_columns(comparison: Comparison) -> dict[str, Any]:
    """Return the fields of a comparison as columns of a table."""
    columns: dict[str, Any] = {
        name: getattr(comparison, name) for name in DIFFERENCE_COLUMNS
    }
    columns |= interval_columns(comparison.interval)
    for test, value in asdict(comparison.p).items():
        columns[f"p_{test}"] = value
    for test, value in asdict(comparison.p_corrected).items():
        columns[f"p_{test}_corrected"] = value
    for name in RESULT_COLUMNS:
        columns[name] = getattr(comparison, name)
    return columns


def in_numbers(comparison: Comparison) -> tuple[str, str, str, str]:
    """Return value, baseline value, difference and interval as a table shows them."""
    decimals = comparison.decimals
    return (
        number(comparison.value, decimals=decimals),
        number(comparison.baseline_value, decimals=decimals),
        signed(comparison.difference, decimals),
        ends_with_signs(comparison.interval.ends, decimals),
    )


def correction_in_words(report: ComparisonData) -> str:
    """Return in words whether p-values are corrected, and for how many comparisons."""
    if report.correction == UNCORRECTED:
        return "not corrected for the number of comparisons"
    return f"corrected for {counted(report.corrected_for, 'comparison')}"
