"""``ComparisonData``: comparisons of several runs, found by key, run, bucket and group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tailmetrics.report.curves import CurvePoint
from tailmetrics.report.document import today
from tailmetrics.report.formatting import LETTERS, RAISED, Key, number, split
from tailmetrics.report.records import GAPS, to_frame
from tailmetrics.report.words import USUAL_WORDS, Words

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Comparison

UNEQUAL = "†"
"""The mark after values of runs whose lists have unequal lengths."""
SUPERSCRIPTS = str.maketrans(LETTERS, RAISED)


@dataclass(frozen=True)
class ComparisonData:
    """Runs compared row by row, and what the sections of a comparison read of them.

    Attributes:
        comparisons: The result of :func:`tailmetrics.significance.compare`.
        title: The title.
        correction: The correction of p-values for the number of comparisons.
        buckets: Names of the buckets, head first. A key that ends in "/" and a bucket's name belongs to this bucket.
        row_groups: Names of the groups of rows.
        captions: For each metric by bucket, the scope and cut-off of its values, in words.
        over_all: For each metric by bucket, the key of its value over all labels.
        headline: The metric that the comparison is about, as a key without bucket.
        lower_is_better: Keys for which a lower value is better.
        not_compared: Values by key and run that no comparison reads.
        not_compared_because: The reasons why values are not compared, one sentence each.
        unequal_lists: Keys that read longer lists of one run than of another -> the median lengths by run, in words.
        what_buckets_are: The meaning of the buckets, in one or two sentences.
        verdict: The main result in words, shown first.
        warnings: Facts that a reader should know before trusting the numbers.
        curves: Values as functions of the training count, by metric and run, as ``LabelTable.curves`` returns them.
        settings: Class and arguments of every metric.
        versions: Versions of the libraries.
        postfix: The postfix of the collection, which ends every key, buckets included.
        date: The day of the comparison, in UTC.
        clusters: The name of the clusters, such as ``"user"``; if "", only the number of clusters is shown.
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
    not_compared: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    not_compared_because: Sequence[str] = ()
    unequal_lists: Mapping[str, str] = field(default_factory=dict)
    what_buckets_are: str = ""
    verdict: str | None = None
    warnings: Sequence[str] = ()
    curves: Mapping[str, Mapping[str, Sequence[CurvePoint]]] = field(default_factory=dict, repr=False)
    settings: Sequence[Mapping[str, Any]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    postfix: str = ""
    date: str = field(default_factory=today)
    clusters: str = ""
    words: Words = USUAL_WORDS

    # -- values and comparisons by key --------------------------------------------------------------------------

    @cached_property
    def runs(self) -> list[str]:
        """The names of the runs, first the baseline that pictures hold the others against."""
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

    @cached_property
    def _by_runs(self) -> dict[tuple[str, str, str], Comparison]:
        return {(comparison.key, comparison.run, comparison.baseline): comparison for comparison in self.comparisons}

    def against(self, key: str, run: str) -> Comparison | None:
        """Return the comparison of a run with the baseline by one key; None if there is none."""
        return self._by_runs.get((key, run, self.runs[0]))

    @cached_property
    def parts(self) -> dict[str, Key]:
        """The parts of each key; for a gap, the name of the gap takes the place of the bucket."""
        return {key: self.parts_of(key) for key in self.values}

    def parts_of(self, key: str) -> Key:
        """Return the parts of a key."""
        return split(key, self.row_groups, (*self.buckets, *GAPS), self.postfix)

    @property
    def overall(self) -> list[str]:
        """Keys of values over all rows and labels; all keys, if all keys are of groups of rows."""
        keys = [key for key, part in self.parts.items() if not part.group and part.bucket in ("", *GAPS)]
        if keys or self.by_bucket:
            return keys
        return list(self.parts)

    @cached_property
    def by_bucket(self) -> dict[str, dict[str, str]]:
        """Keys of values over all rows by metric and bucket, head first."""
        keys: dict[str, dict[str, str]] = {}
        for key, part in self.parts.items():
            if part.bucket and part.bucket not in GAPS and not part.group:
                keys.setdefault(part.metric, {})[part.bucket] = key
        return keys

    @cached_property
    def by_group(self) -> dict[str, dict[str, str]]:
        """Keys of values over all labels by metric and group of rows."""
        keys: dict[str, dict[str, str]] = {}
        for key, part in self.parts.items():
            if part.group and not part.bucket:
                keys.setdefault(part.metric, {})[part.group] = key
        return keys

    def beaten(self, key: str, run: str) -> str:
        """Return the letters of the runs that are significantly worse than this run by one key."""
        worse_runs = set()
        for comparison in self.comparisons:
            if comparison.key != key or not comparison.significant or comparison.statistic == "gap":
                continue
            if math.isnan(comparison.difference):
                continue
            better, worse = comparison.run, comparison.baseline
            if (comparison.difference < 0) != (key in self.lower_is_better):
                better, worse = worse, better
            if better == run:
                worse_runs.add(worse)
        return "".join(self.letter(other) for other in self.runs if other in worse_runs)

    def letter(self, run: str) -> str:
        """Return the letter that names a run in superscripts."""
        place = self.runs.index(run)
        return LETTERS[place] if place < len(LETTERS) else f"({place + 1})"

    def cell(self, key: str, run: str) -> str:
        """Return a value with the marks behind it, as a table shows it."""
        return f"{number(self.values[key].get(run, math.nan))}{self.marked(key, run)}"

    def marked(self, key: str, run: str) -> str:
        """Return the marks behind a value: the letters of worse runs, raised, and the mark of unequal lists."""
        letters = self.beaten(key, run).translate(SUPERSCRIPTS)
        return letters + UNEQUAL if key in self.unequal_lists else letters

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        return self.comparisons[0].interval.confidence if self.comparisons else math.nan

    @property
    def corrected_for(self) -> int:
        """The number of comparisons with a p-value, which count in the correction."""
        return sum(not math.isnan(comparison.p_corrected.decisive) for comparison in self.comparisons)

    @property
    def num_clusters(self) -> int:
        """The number of clusters of rows that were drawn and swapped; 0 if rows are independent."""
        return max((comparison.interval.clusters or 0 for comparison in self.comparisons), default=0)

    def to_frame(self) -> Any:
        """Return the values of all runs as a pandas DataFrame, with their differences from other runs."""
        return to_frame(self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """Return the values of all runs as lines of one table, which JSON, CSV and :meth:`to_frame` hold.

        There is a line for each comparison, with the value of the run and its difference from the ``baseline``. A value
        that is compared with no baseline has a line of its own, whose ``baseline`` is None.
        """
        lines = []
        compared = set()
        for comparison in self.comparisons:
            lines.append({**self._place(comparison.key, comparison.run), **_comparison_fields(comparison)})
            compared.add((comparison.key, comparison.run))
        columns = list(lines[0]) if lines else []

        for key, values in {**self.values, **self.not_compared}.items():
            for run, value in values.items():
                if (key, run) not in compared:
                    line = dict.fromkeys(columns)
                    lines.append({**line, **self._place(key, run), "value": value})
        return lines

    def _place(self, key: str, run: str) -> dict[str, Any]:
        part = self.parts_of(key)
        is_summary = part.bucket in GAPS and part.bucket not in self.buckets
        return {
            "run": run,
            "key": key,
            "metric": part.metric,
            "bucket": "" if is_summary else part.bucket,
            "row_group": part.group,
            "summary": part.bucket if is_summary else "",
        }


def _comparison_fields(comparison: Comparison) -> dict[str, Any]:
    """Return the fields of a comparison as the cells of one line."""
    fields = asdict(comparison)
    for name in ("key", "run", "interval", "p", "p_corrected"):
        del fields[name]
    first = {name: fields.pop(name) for name in ("value", "baseline", "baseline_value", "statistic")}

    interval = comparison.interval
    tests = {}
    for test, value in asdict(comparison.p).items():
        tests[f"p_{test}"] = value
    for test, value in asdict(comparison.p_corrected).items():
        tests[f"p_{test}_corrected"] = value
    return {
        **first,
        "difference": interval.value,
        "low": interval.low,
        "high": interval.high,
        "n": interval.n,
        "confidence": interval.confidence,
        "interval_method": str(interval.method),
        "interval_reason": interval.reason,
        "clusters": interval.clusters,
        **tests,
        "significant": comparison.significant,
        **fields,
    }
