"""Several runs side by side: what comparisons found, as plain data that pages and pictures read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tailmetrics.report.document import Document, Records, Shown
from tailmetrics.report.formatting import LETTERS, Key, split
from tailmetrics.report.labels import CurvePoint
from tailmetrics.report.report import plain, today

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Comparison


@dataclass(frozen=True)
class ComparisonReport(Shown):
    """Runs compared row by row, ready to be shown.

    Attributes:
        comparisons: What :func:`tailmetrics.significance.compare` returned.
        title: What was compared.
        correction: How p-values were corrected for the number of comparisons.
        buckets: Names of the buckets, head first; a key that ends in "/" and one of them is of that bucket.
        row_groups: Names of the groups of rows.
        captions: For each metric by bucket what its values are of.
        over_all: For each metric by bucket the key of its value over all labels.
        lower_is_better: Keys of which less is better.
        what_buckets_are: One or two sentences that say it.
        verdict: What was found, in one sentence that stands first.
        curves: Values as functions of the training count by metric and run, as ``LabelTable.curves`` has them.
        settings: Class and arguments of every metric.
        versions: Of the libraries.
        postfix: What stands behind every key, buckets included.
        date: The day of the comparison, in UTC.
    """

    comparisons: Sequence[Comparison]
    title: str = "Comparison"
    correction: str = "holm"
    buckets: Sequence[str] = ()
    row_groups: Sequence[str] = ()
    captions: Mapping[str, str] = field(default_factory=dict)
    over_all: Mapping[str, str] = field(default_factory=dict)
    lower_is_better: Sequence[str] = ()
    what_buckets_are: str = ""
    verdict: str | None = None
    curves: Mapping[str, Mapping[str, Sequence[CurvePoint]]] = field(default_factory=dict, repr=False)
    settings: Sequence[Mapping[str, Any]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    postfix: str = ""
    date: str = field(default_factory=today)

    stem = "compare"

    @cached_property
    def runs(self) -> list[str]:
        """The names of the runs, the baseline first."""
        pairs = [(one.baseline, one.run) for one in self.comparisons]
        return list(dict.fromkeys([*(baseline for baseline, _ in pairs), *(run for _, run in pairs)]))

    @property
    def baseline(self) -> str:
        """The run that pictures hold the others against."""
        return self.runs[0]

    @cached_property
    def values(self) -> dict[str, dict[str, float]]:
        """Values by key and run."""
        found: dict[str, dict[str, float]] = {}
        for one in self.comparisons:
            found.setdefault(one.key, {}).update({one.run: one.value, one.baseline: one.baseline_value})
        return found

    @cached_property
    def parts(self) -> dict[str, Key]:
        """The parts of each key."""
        return {key: split(key, self.row_groups, self.buckets, self.postfix) for key in self.values}

    @property
    def overall(self) -> list[str]:
        """Keys of values over all rows and labels; all keys where there are but those of groups."""
        found = [key for key, part in self.parts.items() if not (part.group or part.bucket)]
        return found or ([] if self.by_bucket else list(self.parts))

    @property
    def by_bucket(self) -> dict[str, dict[str, str]]:
        """Keys of values over all rows by metric and bucket, head first."""
        found: dict[str, dict[str, str]] = {}
        for key, part in self.parts.items():
            if part.bucket and not part.group:
                found.setdefault(part.metric, {})[part.bucket] = key
        return found

    def value(self, key: str, run: str) -> float:
        """Return the value of a run; NaN where it has none."""
        return self.values[key].get(run, math.nan)

    def against(self, key: str, run: str) -> Comparison | None:
        """Return the comparison of a run with the baseline; None where there is none."""
        fits = (one for one in self.comparisons if (one.key, one.run, one.baseline) == (key, run, self.baseline))
        return next(fits, None)

    def beaten(self, key: str, run: str) -> str:
        """Return the letters of the runs that a run is significantly better than, as superscripts of its value."""
        less, found = key in self.lower_is_better, set()
        for one in self.comparisons:
            if one.key == key and one.significant and not math.isnan(one.difference):
                run_is_better = (one.difference < 0) == less
                better, worse = (one.run, one.baseline) if run_is_better else (one.baseline, one.run)
                found |= {worse} if better == run else set()
        return "".join(self.letter(other) for other in self.runs if other in found)

    def letter(self, run: str) -> str:
        """Return what a run is called in superscripts."""
        place = self.runs.index(run)
        return LETTERS[place] if place < len(LETTERS) else f"({place + 1})"

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        return self.comparisons[0].interval.confidence if self.comparisons else math.nan

    @property
    def level(self) -> float:
        """The significance level."""
        return round(1 - self.confidence, 6)

    @property
    def corrected_for(self) -> int:
        """How many comparisons have a p-value, so that they count in the correction."""
        return sum(not math.isnan(one.p_corrected.decisive) for one in self.comparisons)

    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return what every renderer shows; ``brief`` is for a terminal. References are those of reports."""
        from tailmetrics.report.comparison_sections import comparison_document

        return comparison_document(self, brief)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, NaN as None."""
        header, lines = self.records()[""]
        return {
            "title": self.title,
            "date": self.date,
            "verdict": self.verdict,
            "correction": self.correction,
            "corrected_for": self.corrected_for,
            "comparisons": [
                {name: plain(one) if isinstance(one, float) else one for name, one in zip(header, line, strict=True)}
                for line in lines
            ],
            "settings": list(self.settings),
            "versions": dict(self.versions),
        }

    def records(self) -> dict[str, Records]:
        """Return what CSV holds: a line per comparison, and the points of the curves."""
        flat = [_flat(one) for one in self.comparisons]
        found: dict[str, Records] = {"": (list(flat[0]) if flat else (), (list(one.values()) for one in flat))}
        if self.curves:
            found["curve"] = (("metric", "run", *CurvePoint._fields), self._points())
        return found

    def _points(self) -> Iterator[Sequence[object]]:
        for metric, of_runs in self.curves.items():
            yield from ((metric, run, *point) for run, points in of_runs.items() for point in points)


def _flat(comparison: Comparison) -> dict[str, Any]:
    whole = asdict(comparison)
    interval, p, corrected = (whole.pop(name) for name in ("interval", "p", "p_corrected"))
    return {
        **{name: whole.pop(name) for name in ("key", "run", "baseline", "statistic", "value", "baseline_value")},
        "difference": interval.pop("value"),
        **interval,
        **{f"p_{test}": value for test, value in p.items()},
        **{f"p_{test}_corrected": value for test, value in corrected.items()},
        "significant": comparison.significant,
        **whole,
    }
