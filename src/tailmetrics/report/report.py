"""The report of an evaluation, as plain data and as the sections that every renderer shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from tailmetrics._arguments import cut, grouped
from tailmetrics.report.charts import (
    Chart,
    Mark,
    bar_ticks,
    free_above,
    needed_width,
    scale_from_zero,
    shade,
)
from tailmetrics.report.document import Document, Records, Section, plain, today
from tailmetrics.report.first_look import answer, headline, key_over_all, tables_of_report
from tailmetrics.report.formatting import (
    Key,
    between,
    brief,
    count,
    number,
    p_value,
    rounded,
    sentences,
    short_name,
    split,
    with_interval,
    without_zero,
)
from tailmetrics.report.labels import TESTED, BlindSpot, CurvePoint, LabelTable, curve_section
from tailmetrics.report.pages import Shown

if TYPE_CHECKING:
    from tailmetrics.significance.interval import Interval

MANY_TIES = 0.01
"""If more than this share of rows is cut inside a tie, a report warns, and shows the values of other orders."""
WORST = 3
"""The number of most often missed labels of each bucket in JSON; the table of labels holds all labels."""
NUMERALS = {3: "third", 4: "quarter", 5: "fifth", 10: "tenth", 20: "twentieth", 100: "hundredth"}
COLUMNS = ("metric", "bucket", "value", "labels", "occurrences", "positives", "group", "low", "high")
ALL_LABELS, ALL_ROWS = "all", "all rows"
WHOLE = -1
"""The kind of the line of all labels, which is no bucket."""
HEAD_TO_TAIL = "From the most frequent labels to the rarest"
SUMMARIES = {
    "gap": "",
    "spread": "spread: standard deviation over mean of the buckets seen in training, 0 where all are equal",
    "adjusted_gap": "adjusted gap: the gap of (value - chance) / (attainable - chance)",
}
"""Summaries of the buckets of a metric, and their meaning in words."""
BELOW_CHANCE = "an adjusted gap is above 1 where the tail is below chance"
MISSED, WRONG = 3, 10
"""The number of most often missed labels shown of each bucket, and of most often wrong labels shown in all."""
BRIEF_COLUMNS = {
    "missed": ("label", "name", "bucket", "count", "support", "missed"),
    "wrong": ("label", "name", "bucket", "count", "predicted", "wrong"),
}
"""The columns of labels that a terminal shows; files and pages have every column."""
BLIND_SPOTS = 10
"""How many blind spots a terminal shows."""
BLIND_SPOT = "labels that are found significantly less often than the other labels of their bucket"
NO_BLIND_SPOT = "no label is found significantly less often than the other labels of its bucket"
BLIND_IN_CLUSTERS = (
    "blind spots are not looked for: the test takes rows as independent, and rows of a cluster are alike"
)
NAME_LETTERS = 44
"""Letters of a name in a table of labels."""
CURVE_POINTS = 200
"""The most points in the drawing of training counts, for any number of labels."""
FLOOR = 0.7
"""The count at the lower edge of the frequencies: labels that occur once stand a little above it."""
WHOLE_ROWS = ("rows", "rows with a relevant label", "rows with a value")
"""What is counted where a value divides by a number of rows, not by their weights."""
BOUNDS = ("worst", "expected", "best")
BESIDE = {
    "chance": "dotted line: chance",
    "popularity": "hollow mark: popularity",
    "attainable": "cap: the most that a list can reach in this bucket",
    "worst": "bracket: from the worst to the best order of equal scores",
}
"""The marks beside a bar, in the words of the caption."""
TIES = "What equal scores hide"
Beside: TypeAlias = Mapping[str, Sequence[Mapping[str, float]]]
"""Columns beside the values of a table, by name: a value by key, or the two ends of a range."""


@dataclass(frozen=True)
class BucketRow:
    """One bucket: its name, number of labels, their occurrences in training, and their positives in the evaluation.

    ``counts`` is the range of training counts of its labels, such as ``"51-310"``; empty without counted labels.
    ``kind`` numbers the sets of buckets: 0 for the first set, 1 for another set that other metrics have, and so on.
    Each set holds every label once.
    """

    name: str
    labels: int
    occurrences: int
    positives: int
    counts: str = ""
    kind: int = field(default=0, compare=False)


def what_buckets_are(rows: Sequence[BucketRow]) -> str:
    """Return a description of the buckets of a report, in one or two sentences.

    >>> from tailmetrics.report import BucketRow
    >>> what_buckets_are([BucketRow("10+", 1, 60, 0), BucketRow("1-9", 5, 5, 0)])
    'A bucket holds the labels that occur in training as often as its name says.'
    """
    seen = [row for row in rows if row.name != "unseen"]
    parts = [_what_seen_are(seen)] if seen else []
    if len(seen) < len(rows):
        parts.append("unseen holds the labels that never occur in training.")
    return " ".join(parts)


def _what_seen_are(rows: Sequence[BucketRow]) -> str:
    head, tail, count = rows[0].name, rows[-1].name, len(rows)
    if head == f"decile_{count}" or head == f"quantile_{count}":
        sizes = [row.labels for row in rows if row.labels]
        # where a bucket has one label, buckets of equal labels and of equal occurrences can have these sizes
        of_labels = len(sizes) == count and min(sizes) > 1 and max(sizes) - min(sizes) <= 1
        of = "labels" if of_labels else "label occurrences in training"
        share = "half" if count == 2 else NUMERALS.get(count, f"share of 1/{count}")
        return f"{head} holds the most frequent labels, {tail} the rarest; each has about a {share} of all {of}."
    if all(row.name[:1].isdigit() for row in rows):
        return "A bucket holds the labels that occur in training as often as its name says."
    if any(row.counts for row in rows):
        named = (f"{row.name} ({row.counts or 'no label'})" for row in rows)
        return f"Training counts: {', '.join(named)}."
    return f"Buckets of labels, in the order given, from {head} to {tail}." if count > 1 else f"One bucket: {head}."


@dataclass(frozen=True)
class Value:
    """One value of a report, how sure it is, and what it is divided by.

    Attributes:
        value: The value.
        low: The lower end of its confidence interval; None without an interval.
        high: The upper end.
        counted: How many ``of`` the value divides by; None where a value is no mean, share or ratio.
        of: What is counted, such as ``"rows with a relevant label"``; empty without ``counted``.
    """

    value: float
    low: float | None = None
    high: float | None = None
    counted: float | None = None
    of: str = ""


@dataclass(frozen=True)
class GroupRow:
    """One group of rows: its name, and its number of rows; None if the rows were not counted."""

    name: str
    rows: int | None = None


def summary_of_counts(counts: Tensor) -> dict[str, Any]:
    """Return a short summary of training counts; different counts have different summaries."""
    digest = sha256(counts.cpu().to(torch.int64).numpy().tobytes()).hexdigest()
    return {"labels": counts.numel(), "occurrences": int(counts.sum()), "sha256": digest}


@dataclass(frozen=True)
class Report(Shown):
    """The results of one evaluation.

    Attributes:
        title: The title, which names the evaluated data.
        scalars: Metric values by key, as ``scalars()`` returns them: ``precision@5``, ``recall@10/decile_1``.
        lower_is_better: Keys of metrics for which a lower value is better.
        buckets: Buckets, head first. A key that ends in "/" and a bucket's name belongs to this bucket.
        rows: Number of rows evaluated; None if not counted.
        positives: Number of relevant labels over all rows; None if not counted.
        ties: For each cut-off, the share of rows that are cut inside a tie; for None, the share of rows in which a
            relevant label has the score of another label.
        label_counts: Training counts, for the curves of labels.
        settings: Class and arguments of every metric.
        versions: Versions of the libraries.
        notes: Further warnings.
        readings: For each file or table, the sentence that says how it was read.
        tie_winner: The label that is shown if two labels have equal scores, in words.
        row_groups: Groups of rows, such as languages. A key with "/" and a group's name after the metric belongs to
            this group.
        over_all: For each metric by bucket, the key of its value over all labels.
        headline: The metric that the report is about, as a key without bucket.
        captions: For each metric by bucket, the scope and cut-off of its values, in words.
        means: For each key of a macro average over all labels, the labels that it averages, in words; for each key of
            a calibration error, whether predictions are over- or under-confident.
        denominators: By key, how many a value is divided by, and of what: ``values`` shows them beside the value.
        labels_with_rows: For each bucket, the number of labels with a relevant row, if macro averages are by bucket.
        places: Metrics whose values are places in a list.
        additive: Metrics whose values of all buckets add up: to the value over all labels, or, without one, to 1.
        summaries: Gap and spread of each metric by bucket, as ``TopKCollection.summaries()`` returns them.
        labels: Values of single labels; None if they were not asked for.
        intervals: Confidence intervals by key.
        at_half_the_rows: Averages over labels by key, at half of the rows: they depend on the number of rows.
        references: Values by key of three simple models, ``{"chance": …, "popularity": …, "attainable": …}``: equal
            scores, training counts as scores, targets as scores. None if they were not computed.
        tie_bounds: Worst, mean and best values by key over all orders of equal scores, ``{"worst": …, "expected": …,
            "best": …}``. None if they were not computed.
        postfix: The postfix of the collection, which ends every key, buckets included.
        date: The day of the evaluation, in UTC.
        words: What rows and labels are in this field, such as ``("users", "items")``.
    """

    title: str
    scalars: Mapping[str, float]
    lower_is_better: tuple[str, ...] = ()
    buckets: list[BucketRow] = field(default_factory=list)
    rows: int | None = None
    positives: int | None = None
    ties: Mapping[int | None, float] = field(default_factory=dict)
    label_counts: Tensor | None = field(default=None, repr=False)
    settings: list[dict[str, Any]] = field(default_factory=list)
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    readings: tuple[str, ...] = ()
    tie_winner: str = "the lower label id"
    row_groups: list[GroupRow] = field(default_factory=list)
    over_all: Mapping[str, str] = field(default_factory=dict)
    headline: str = ""
    captions: Mapping[str, str] = field(default_factory=dict)
    means: Mapping[str, str] = field(default_factory=dict)
    denominators: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    labels_with_rows: Mapping[str, int] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    additive: tuple[str, ...] = ()
    summaries: Mapping[str, float] = field(default_factory=dict)
    labels: LabelTable | None = field(default=None, repr=False)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    at_half_the_rows: Mapping[str, float] = field(default_factory=dict)
    references: Mapping[str, Mapping[str, float]] | None = field(default=None, repr=False)
    tie_bounds: Mapping[str, Mapping[str, float]] | None = field(default=None, repr=False)
    postfix: str = ""
    date: str = field(default_factory=today)
    words: tuple[str, str] = ("rows", "labels")

    stem = "report"
    in_json = (
        "title date answer headline rows positives metrics by_bucket over_all denominators captions summaries "
        "intervals at_half_the_rows references tie_bounds "
        "buckets row_groups worst_labels blind_spots label_counts ties warnings readings "
        "settings versions"
    )

    @cached_property
    def values(self) -> dict[str, Value]:
        """Each value by key, with its interval, what it is divided by, and how many of them."""
        found: dict[str, Value] = {}
        for key, value in self.scalars.items():
            sure, (counted, of) = self.intervals.get(key), self.denominators.get(key, (None, ""))
            low, high = (None, None) if sure is None else (sure.low, sure.high)
            found[key] = Value(value, low, high, counted, of)
        return found

    @cached_property
    def parts(self) -> dict[Key, float]:
        """Values by metric, group of rows and bucket."""
        return {self.split(key): value for key, value in self.scalars.items()}

    def split(self, key: str) -> Key:
        """Return metric, group of rows and bucket of a key."""
        groups, buckets = (group.name for group in self.row_groups), (row.name for row in self.buckets)
        return split(key, groups, buckets, self.postfix)

    def key(self, metric: str, name: str = "", group: str = "") -> str:
        """Return the key of a metric in a bucket and a group of rows, or of its gap or spread."""
        return "/".join(part for part in (metric.removesuffix(self.postfix), group, name) if part) + self.postfix

    @cached_property
    def overall(self) -> dict[str, float]:
        """Values over all rows and labels."""
        return {key.metric: value for key, value in self.parts.items() if not (key.group or key.bucket)}

    @cached_property
    def by_bucket(self) -> dict[str, dict[str, float]]:
        """Values over all rows by metric and bucket; the headline is first."""
        found: dict[str, dict[str, float]] = {self.headline: {}}
        for key, value in self.parts.items():
            if key.bucket and not key.group:
                found.setdefault(key.metric, {})[key.bucket] = value
        return {metric: values for metric, values in found.items() if values}

    @cached_property
    def curves(self) -> dict[str, list[CurvePoint]]:
        """Values of single labels as functions of the training count; empty without labels or counts."""
        return {} if self.labels is None else self.labels.curves(self.label_counts)

    @property
    def blind_spots(self) -> Sequence[BlindSpot]:
        """Labels that are found significantly less often than the others of their bucket; empty without labels."""
        return () if self.labels is None else self.labels.blind_spots

    def value_over_all(self, metric: str) -> float | None:
        """Return the value over all labels of a metric by bucket; None if the metric has none."""
        return self.parts.get(Key(key_over_all(self, metric), "", ""))

    def value(self, metric: str, bucket: str = "", group: str = "") -> float:
        """Return a value; NaN where there is none."""
        return self.scalars.get(self.key(metric, bucket, group), math.nan)

    def text(self, key: str, interval: bool = True) -> str:
        """Return a value with its interval, as a table shows it; or without."""
        found = self.intervals.get(key) if interval else None
        return with_interval(self.scalars.get(key, math.nan), found, self._is_place(key))

    def number(self, metric: str, value: float) -> str:
        """Return a value of a metric as a table shows it."""
        return number(value, metric in self.places)

    def reach(self, key: str, ends: Sequence[float]) -> str:
        """Return one value, or the range of two, as a table shows it."""
        single = len(ends) == 1 or math.isnan(ends[0])
        return number(ends[0], self._is_place(key)) if single else between(ends[0], ends[-1], self._is_place(key))

    def _is_place(self, key: str) -> bool:
        return self.split(key).metric in self.places

    @cached_property
    def answer(self) -> str:
        """What the report says, in one to three sentences."""
        return answer(self)

    @property
    def of_rows(self) -> str:
        """How many rows were evaluated, in words."""
        return "" if self.rows is None else f"{self.rows:,} {self.words[0]}"

    def less_is_better(self, metric: str) -> bool:
        """Whether a lower value of ``metric``, overall or by bucket, is better."""
        return any(self.split(key).metric == metric for key in self.lower_is_better)

    @property
    def warnings(self) -> list[str]:
        """Facts that a reader should know before trusting the numbers."""
        found = []
        many = {k: f"{share:.1%}" for k, share in self.ties.items() if share > MANY_TIES}
        cuts = ", ".join(f"{share} at rank {k}" for k, share in many.items() if k is not None)
        other = f' "{TIES}" has the values of other orders.' if self.tie_bounds else ""
        if cuts:
            found.append(
                f"Rows are cut inside a tie ({cuts}): there {self.tie_winner} is shown, whatever the model.{other}"
            )
        if None in many:
            found.append(
                f"In {many[None]} of the rows a relevant label has the score of another label: of these "
                f"{self.tie_winner} is first, whatever the model.{other}"
            )
        bare = [row.name for row in self.buckets if not row.labels and row.name != "unseen"]
        if bare:
            ranked = all(name.startswith(("decile_", "quantile_")) for name in bare)
            why = "there are too few labels for so many buckets, or one label fills several" if ranked else ""
            why = why or ("none occurs as often in training" if self.label_counts is not None else "none belongs there")
            found.append(f"No label in {', '.join(bare)}: {why}.")
        empty = [row.name for row in self.buckets if row.labels and not row.positives]
        if empty and self.rows:
            found.append(f"No positive in {', '.join(empty)}: metrics that need one are NaN there.")
        unseen = sum(row.positives for row in self.buckets if row.name == "unseen")
        if unseen and self.positives:
            share = f"{100 * unseen / self.positives:.3g}"
            found.append(
                f"{unseen:,} of {self.positives:,} positives ({share} %) are of labels that training never showed."
            )
        return [*found, *self.notes]

    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return the content that every renderer shows.

        Args:
            brief: Whether to show fewer labels and rows, for a terminal.
            references: Whether to add tables with the references beside each value.
        """
        rows, labels = self.words
        counted = {
            rows: self.rows,
            "positives": self.positives,
            labels: sum(row.labels for row in self.buckets if row.kind == 0) if self.label_counts is not None else None,
        }
        overall = _overall(self)
        sections = [_headline(self), overall, _buckets(self), *_beside(self, references)]
        sections += [] if brief else [_curves_of_labels(self)]
        sections += [_tail(self), *_groups(self)]
        sections += [*_blind_spots(self, brief), *_labels(self, brief)]
        return Document(
            title=self.title,
            kind="From head to tail",
            facts=[f"{value:,} {name}" for name, value in counted.items() if value is not None],
            sections=[section for section in sections if section.lines or section.charts or section.hero],
            verdict=self.answer,
            first=tables_of_report(self, overall),
            warnings=self.warnings,
            readings=self.readings,
            below=what_buckets_are(self.buckets),
            settings=self.settings,
            versions={"evaluated on": self.date, **self.versions},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data, with metric keys as in ``scalars()``, and NaN as None."""
        worst = {} if self.labels is None else self.labels.cells(self.labels.most("missed", WORST, of_each=True))
        return super().as_dict() | {
            "metrics": plain(self.scalars),
            "worst_labels": [dict(zip(worst, plain(line), strict=True)) for line in zip(*worst.values(), strict=True)],
            "label_counts": None if self.label_counts is None else summary_of_counts(self.label_counts),
            "ties": {f"tie_rate@{k}" if k else "tie_rate": share for k, share in self.ties.items()},
        }

    def records(self) -> dict[str, Records]:
        """Return the content of the CSV files by name: "" for the main file, ``"labels"`` and ``"curve"``.

        The main file has a line per value. Lines without a bucket hold values over all labels; lines without a group
        hold values over all rows. ``occurrences`` are counted in training; ``low`` and ``high`` are the ends of the
        confidence interval. Known references and bounds of ties are further columns. Gap and spread are the last lines.
        """
        halves = {"at_half_the_rows": self.at_half_the_rows} if self.at_half_the_rows else {}
        more = {**(self.references or {}), **(self.tie_bounds or {}), **halves}
        known = {row.name: (row.labels, row.occurrences, row.positives) for row in self.buckets}
        lines: list[Sequence[object]] = []
        for name, value in {**self.scalars, **self.summaries}.items():
            key, interval = self.split(name) if name in self.scalars else Key(name, "", ""), self.intervals.get(name)
            ends = (None, None) if interval is None else (interval.low, interval.high)
            counts = known.get(key.bucket, (None, None, None))
            beside = (values.get(name) for values in more.values())
            lines.append((key.metric, key.bucket, value, *counts, key.group, *ends, *beside))
        found: dict[str, Records] = {"": ([*COLUMNS, *more], lines)}
        if self.labels is not None:
            found["labels"] = self.labels.records()
        if self.curves:
            points = ((name, *point) for name, points in self.curves.items() for point in points)
            found["curve"] = (["metric", *CurvePoint._fields], points)
        return found


def _of_intervals(report: Report) -> str:
    """Return the meaning of ± and [low, high] in words; empty if there are no intervals."""
    first = next(iter(report.intervals.values()), None)
    if first is None:
        return ""
    clusters = max(one.clusters or 0 for one in report.intervals.values())
    of = f"{clusters:,} independent clusters of rows" if clusters else "independent rows"
    said = f"the {first.confidence:.0%} confidence interval, for {of}"
    more = "; of an average over labels, for its value at this number of rows" if report.at_half_the_rows else ""
    return f"± is half the width of {said}; [low, high] are its ends where it is not symmetric{more}"


def _scopes(report: Report, metrics: Iterable[str]) -> str:
    """Return the captions of several metrics as one text: each caption once, with its metrics."""
    found = grouped((report.captions[metric], metric) for metric in metrics if metric in report.captions)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{', '.join(of)}: {text}" for text, of in found.items())


def _overall(report: Report) -> Section:
    lines = [[key, report.text(key)] for key in report.overall]
    lacking = dict.fromkeys(report.split(key).metric for key in report.scalars if key not in report.intervals)
    has_none = bool(lacking) and bool(report.intervals)
    why = f"no interval: {', '.join(lacking)}; only a mean over rows or labels has one"
    means = "; ".join(f"{key}: {text}" for key, text in report.means.items())
    perplexities = dict(_perplexities(report))
    exps = (f"exp({key}): {text}" for key, text in perplexities.items())
    skips = "_skip: without rows that have no relevant label" if any("_skip" in key for key in report.overall) else ""
    caption = sentences(report.of_rows, skips, means, *exps, _of_intervals(report), why if has_none else "")
    asides = [
        ", ".join(filter(None, [perplexities.get(key, ""), "lower is better" * report.less_is_better(key)]))
        for key in report.overall
    ]
    return Section("overall", "Over all labels", caption, header=["metric", "value"], lines=lines, asides=asides)


def _perplexities(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the key of each cross-entropy with its perplexity in words, if each row has one relevant label."""
    for key, value in report.overall.items():
        if "cross_entropy" in key and (report.positives is None or report.positives == report.rows):
            ends = report.intervals[key].ends if key in report.intervals else ()
            found, *reach = torch.tensor([value, *ends], dtype=torch.float64).exp().tolist()
            yield key, " ".join(["perplexity", number(found), *([between(*reach)] if reach else [])])


def _lines_of_buckets(report: Report) -> tuple[list[BucketRow], dict[str, list[str]]]:
    """Return the lines of a table by bucket, and the keys of each metric in these lines.

    The first line is of all labels, if a metric has a value over them. A bucket may be called "all", too.
    """
    metrics = report.by_bucket
    rows = [row for row in report.buckets if any(row.name in values for values in metrics.values())]
    keys = {metric: [report.key(metric, row.name) for row in rows] for metric in metrics}
    if all(report.value_over_all(metric) is None for metric in metrics):
        return rows, keys
    one_kind = [row for row in report.buckets if row.kind == 0]
    labels, positives = sum(row.labels for row in one_kind), sum(row.positives for row in one_kind)
    whole = BucketRow(ALL_LABELS, labels, 0, positives, kind=WHOLE)
    return [whole, *rows], {metric: [key_over_all(report, metric), *of] for metric, of in keys.items()}


def _headline(report: Report) -> Section:
    """Return the drawing of the metric that the report is about, by bucket."""
    metric, whole = headline(report), report.value_over_all(headline(report))
    words = f"{metric} over all {report.words[1]}"
    hero = () if whole is None or math.isnan(whole) else (report.number(metric, whole), words)
    charts = [_bars(report, metric)] if metric in report.by_bucket else []
    return Section("headline", f"{metric}, from head to tail", charts=charts, hero=hero)


def _buckets(report: Report) -> Section:
    """Return a table of the metrics by bucket, the headline first, and a drawing of each metric but the headline."""
    lines, keys = _lines_of_buckets(report)
    fixed = {"bucket": [row.name for row in lines]}
    fixed |= {what: [count(getattr(row, what)) for row in lines] for what in ("labels", "positives")}
    if some := report.labels_with_rows:
        fixed["labels with rows"] = [
            count(sum(some.values()) if row.kind == WHOLE else some.get(row.name)) for row in lines
        ]
    rows, of_rows = _denominators(report, keys)
    fixed |= {"rows": rows} if rows else {}
    buckets = what_buckets_are(report.buckets)
    below = (
        "Under each bar: the bucket, the number of its labels, and how often they are relevant in what was evaluated"
    )
    of_labels = "labels with rows: those that are relevant in some row" if report.labels_with_rows else ""
    section = Section(
        "buckets",
        HEAD_TO_TAIL,
        sentences(report.of_rows, _scopes(report, keys), buckets),
        lead=sentences(buckets, below),
        columns=sentences(of_labels, of_rows, _of_intervals(report)),
        charts=[_bars(report, metric) for metric in keys if metric != headline(report)],
    )
    return _with_table(section, report, fixed, keys)


def _with_table(
    section: Section,
    report: Report,
    fixed: Mapping[str, Sequence[str]],
    keys: Mapping[str, Sequence[str]],
    beside: Beside = MappingProxyType({}),
) -> Section:
    """Return a section with a table: the ``fixed`` columns, then each metric with the columns of ``beside``.

    A column beside a metric names the metric, too, since a narrow page may show it in another table.
    """
    header, columns = [*fixed], [*fixed.values()]
    for metric, of_metric in keys.items():
        header += [metric, *(name if "metric" in fixed else f"{metric} {name}" for name in beside)]
        columns.append([report.text(key) for key in of_metric])
        for values in beside.values():
            columns.append([report.reach(key, [of.get(key, math.nan) for of in values]) for key in of_metric])
    lines = [list(cells) for cells in zip(*columns, strict=True)]
    return replace(section, header=header, lines=lines, fixed=len(fixed))


def _denominators(report: Report, keys: Mapping[str, Sequence[str]]) -> tuple[list[str], str]:
    """Return the number of rows that count by line, and which metrics leave rows out; empty if they differ."""
    fewer: dict[tuple[int | None, ...], list[str]] = {}
    for metric, of_metric in keys.items():
        known = map(report.values.get, of_metric)
        of_rows = [one if one is not None and one.of in WHOLE_ROWS else None for one in known]
        if any(one is not None and one.counted != report.rows and not math.isnan(one.value) for one in of_rows):
            numbers = (None if one is None else int(one.counted or 0) for one in of_rows)
            fewer.setdefault(tuple(numbers), []).append(metric)
    if len(fewer) != 1:
        return [], ""
    ((rows, metrics),) = fewer.items()
    whose = "the metrics" if len(metrics) == len(report.by_bucket) else ", ".join(metrics)
    return [count(n) for n in rows], f"rows: those that count in {whose}"


def _bars(report: Report, metric: str) -> Chart:
    """Return the bars of one metric from head to tail, with intervals, references and the bounds of ties."""
    rows = [row for row in report.buckets if row.name in report.by_bucket[metric]]
    keys = [report.key(metric, row.name) for row in rows]
    less, is_place, additive = report.less_is_better(metric), metric in report.places, metric in report.additive
    whole = report.value_over_all(metric)
    fair = [row.positives / report.positives for row in rows] if additive and whole is None and report.positives else []
    whole = None if additive else whole  # a line at the sum of all bars, far above each, would say nothing of one
    beside = {**(report.references or {}), **(report.tie_bounds or {})}
    known = [one for one in map(report.intervals.get, keys) if one is not None]
    levels = [of[key] for of in (report.scalars, *beside.values()) for key in keys if key in of]
    levels += [end for one in known for end in (one.low, one.high)] + fair + ([] if whole is None else [whole])
    scale = scale_from_zero(levels, [report.scalars[key] for key in keys])
    at, marks, texts = scale.share, list[Mark](), list[tuple[str, ...]]()
    across: list[Mark] = []
    if whole is not None and math.isfinite(whole):
        all_labels = f"all labels {number(whole, is_place)}"
        across.append(Mark("line", [(0, at(whole)), (1, at(whole))], style="dashed", text=all_labels))
        marks += across
    for place, (row, key) in enumerate(zip(rows, keys, strict=True)):
        value, colour = report.scalars[key], shade(place, len(rows), row.name)
        left, middle, right = ((place + part) / len(rows) for part in (0.12, 0.5, 0.88))
        end = at(value) if math.isfinite(value) else at(0.0)
        found, said = _beside_a_bar(report, key, at, (left, middle, right))
        found += [Mark("line", [(left, at(fair[place])), (right, at(fair[place]))])] if fair else []
        text = f"{row.name} {'no value' if math.isnan(value) else number(value, is_place)}{said}"
        text += f", {row.labels:,} labels, {row.positives:,} positives"
        counts = rounded(row.labels), rounded(row.positives)
        texts.append((without_zero(brief(value, is_place)), *counts, short_name(row.name)))
        top = free_above(max(at(0.0), end), [*found, *across])
        marks += [Mark("bar", [(left, at(0.0)), (right, end)], colour, text=text), *found]
        marks.append(Mark("text", [(middle, top)], colour, style="above", text=texts[-1][0]))
    marks.append(Mark("line", [(0, at(0.0)), (1, at(0.0))], style="thin"))
    drawn = [
        report.captions.get(metric, ""),
        "" if whole is None else f"dashed line, all labels: {number(whole, is_place)}",
        report.of_rows,
        *(text for name, text in BESIDE.items() if any(key in beside.get(name, {}) for key in keys)),
        "marks: the bucket's share of the positives" if fair else "",
        "logarithmic heights" if scale.kind != "linear" else "",
    ]
    return Chart(
        metric,
        marks,
        f"{metric}{', lower is better,' if less else ''} from head to tail",
        aside="lower is better" if less else "",
        caption=" · ".join(part for part in drawn if part),
        across=bar_ticks([(name, *counts) for _, *counts, name in texts]),
        names=("bucket, head to tail · labels · positives", ""),
        min_width=needed_width(texts),
    )


def _beside_a_bar(
    report: Report, key: str, at: Callable[[float], float], across: tuple[float, float, float]
) -> tuple[list[Mark], str]:
    """Return the marks at a bar, and their values in words: its interval, references, and bounds of ties."""
    (left, middle, right), marks, words = across, list[Mark](), ""
    interval, is_place = report.intervals.get(key), report.split(key).metric in report.places
    if interval is not None and not math.isnan(interval.low):
        marks.append(Mark("line", [(middle, at(interval.low)), (middle, at(interval.high))]))
        words += f" ({number(interval.low, is_place)} to {number(interval.high, is_place)})"
    for name, values in (report.references or {}).items():
        if math.isfinite(value := values.get(key, math.nan)):
            up, words = at(value), f"{words}, {name} {number(value, is_place)}"
            if name == "popularity":
                marks.append(Mark("dot", [(middle, up)], style="diamond", filled=False))
            elif name == "chance":
                marks.append(Mark("line", [(left, up), (right, up)], style="dotted"))
            else:  # a cap
                marks.append(
                    Mark("line", [(left, up - 0.03), (left, up), (right, up), (right, up - 0.03)], style="thin")
                )
    low, mean, high = ((report.tie_bounds or {}).get(name, {}).get(key, math.nan) for name in BOUNDS)
    if low < high:
        place, reach = left + (right - left) / 6, (right - left) / 15
        ends = [(place + side * reach, at(end)) for end in (low, high) for side in (-1, 1, 0)]
        marks.append(Mark("line", [*ends[:3], ends[5], *ends[3:5]], style="thin"))
        marks += [Mark("dot", [(place, at(mean))], style="circle", filled=False)] if math.isfinite(mean) else []
        words += f", between {number(low, is_place)} and {number(high, is_place)} by the order of equal scores"
    return marks, words


def _beside(report: Report, with_references: bool) -> Iterator[Section]:
    """Yield tables of values beside their references, if asked for, and beside the bounds of ties."""
    references, bounds = report.references if with_references else None, report.tie_bounds
    if references:
        caption = (
            "Chance: all scores equal. Popularity: training counts as scores, one list for all rows, with items that "
            "a row leaves out. Attainable: a list as long as that of the row, which begins with the relevant labels of "
            "the bucket."
        )
        section = Section("references", "Beside chance, popularity and the attainable", caption, folded=True)
        each = {name: (values,) for name, values in references.items()}
        yield from _tables_beside(report, section, each, ", over all labels")
    if bounds:
        caption = (
            "The value of the list as it is shown, its mean over all orders of equal scores, and its ends. Where they "
            "differ, the listed value depends on how labels are numbered."
        )
        both = {"expected": (bounds["expected"],), "[worst, best]": (bounds["worst"], bounds["best"])}
        yield from _tables_beside(report, Section("ties", TIES, caption), both, "")


def _tables_beside(report: Report, section: Section, beside: Beside, of_whole: str) -> Iterator[Section]:
    """Yield the section with a table of the metrics that are not by bucket, and with one of the metrics by bucket.

    Args:
        report: The report.
        section: Title and caption.
        beside: The columns beside each value.
        of_whole: The end of the title of the table of metrics that are not by bucket.
    """
    known = {key for values in beside.values() for of in values for key in of}
    lines, of_metrics = _lines_of_buckets(report)
    keys = [key for key in report.overall if key in known.difference(*of_metrics.values())]
    if keys:
        overall = replace(section, title=f"{section.title}{of_whole}")
        yield _with_table(overall, report, {"metric": keys}, {"value": keys}, beside)
    of_metrics = {metric: of for metric, of in of_metrics.items() if known & {*of}}
    if of_metrics:
        by_bucket = replace(section, title=f"{section.title}, by bucket")
        yield _with_table(by_bucket, report, {"bucket": [row.name for row in lines]}, of_metrics, beside)


def _tail(report: Report) -> Section:
    """Return a table of head against tail: the most frequent and the rarest measured bucket, the gap, the spread."""
    ends: dict[str, tuple[str, ...]] = {}
    for metric, values in report.by_bucket.items():
        if report.key(metric, "gap") in report.summaries:
            known = [name for name, value in values.items() if name != "unseen" and not math.isnan(value)]
            ends[metric] = (known[0], known[-1]) if len(known) > 1 else ()
    measured = {pair for pair in ends.values() if pair}
    same = len(measured) == 1
    sums = [what for what in SUMMARIES if any(report.key(metric, what) in report.summaries for metric in ends)]
    lines = []
    for metric, pair in ends.items():
        whole = report.text(key_over_all(report, metric), False)
        cells = [
            report.text(report.key(metric, end), False) + ("" if same else f" ({short_name(end)})") for end in pair
        ]
        summed = (_summary(report, metric, what) for what in sums)
        lines.append([metric, whole, *(cells or ("–", "–")), *summed])
    head, tail = measured.pop() if same else ("head", "tail")
    rarest = "" if same else ", the most frequent and the rarest bucket that was measured, in brackets"
    beyond = any(report.summaries.get(report.key(metric, "adjusted_gap"), 0) > 1 for metric in ends)
    caption = sentences(
        report.of_rows,
        f"gap: {head} minus {tail}{rarest}; {'; '.join(SUMMARIES[what] for what in sums[1:])}",
        BELOW_CHANCE if beyond else "",
    )
    header = ["metric", ALL_LABELS, head, tail, *(what.replace("_", " ") for what in sums)]
    return Section("tail", "Head against tail", caption, header=header, lines=lines)


def _summary(report: Report, metric: str, what: str) -> str:
    """Return a summary of the buckets of a metric with its interval; the gap between two places is one, too."""
    key, is_place = report.key(metric, what), metric in report.places and what == "gap"
    return with_interval(report.summaries.get(key, math.nan), report.intervals.get(key), is_place)


def _groups(report: Report) -> Iterator[Section]:
    """Yield a table of the values over all labels, with a line for all rows and for each group of rows."""
    metrics = dict.fromkeys(key.metric for key in report.parts if key.group and not key.bucket)
    if not metrics:
        return
    groups = [(ALL_ROWS, "", report.rows), *((group.name, group.name, group.rows) for group in report.row_groups)]
    lines = [
        [name, count(rows), *(report.text(report.key(metric, "", group)) for metric in metrics)]
        for name, group, rows in groups
    ]
    header = ["group", "rows", *metrics]
    yield Section("groups", "By group of rows", "Over all labels.", header=header, lines=lines, fixed=2)


def _stretches(report: Report) -> tuple[Tensor, list[int], list[str]]:
    """Return the training counts of seen labels, descending, and the end and the name of each bucket among them.

    Ends and names are empty if buckets do not follow the order of the counts, or are too many to be told apart.
    """
    assert report.label_counts is not None
    counts = report.label_counts.cpu().sort(descending=True).values
    seen, rows = counts[counts > 0], [row for row in report.buckets if row.occurrences]
    ends = list(accumulate(row.labels for row in rows))
    if not rows or ends[-1] != len(seen) or len(rows) > CURVE_POINTS // 4:
        return seen, [], []
    parts = zip(torch.split(seen, [row.labels for row in rows]), rows, strict=True)
    follow = all(int(part.sum()) == row.occurrences for part, row in parts)
    return (seen, ends, [row.name for row in rows]) if follow else (seen, [], [])


def _curves_of_labels(report: Report) -> Section:
    """Return the section of values of single labels as functions of the training count."""
    edges: list[tuple[float, str]] = []
    if report.label_counts is not None and report.curves:
        seen, ends, names = _stretches(report)
        # between the counts on both sides of an edge
        counts = (math.sqrt(int(seen[end - 1]) * int(seen[end])) if end < len(seen) else math.nan for end in ends)
        edges = list(zip(counts, names, strict=True))
    curves = {metric: {"": points} for metric, points in report.curves.items()}
    return curve_section("As a function of the training count", curves, edges)


def _labels(report: Report, brief: bool) -> Iterator[Section]:
    """Yield a table of the labels most often missed, and a table of the labels most often wrongly predicted."""
    table = report.labels
    if table is None:
        return
    at, each, by_bucket = table.cuts[-1], 1 if brief else MISSED, table.buckets is not None
    of_cut = f" at k = {at.removeprefix('@')}" if at else ""
    limit = f"at most {each} of each bucket" if by_bucket else f"the first {WRONG}"
    for name, often, said, most in (
        ("missed", "missed", f"relevant and not predicted; {limit}", each if by_bucket else WRONG),
        ("wrong", "suggested wrongly", f"predicted and not relevant; the first {WRONG}", WRONG),
    ):
        cells = table.cells(table.most(name, most, of_each=name == "missed"))
        stems = {column: column.partition("@")[0] for column in cells}
        shown = BRIEF_COLUMNS[name] if brief else (*stems.values(),)
        left_out = {*BRIEF_COLUMNS, *TESTED} - {name}
        columns = [column for column, stem in stems.items() if stem in shown and stem not in left_out]
        texts = sum(column in ("label", "name", "bucket") for column in columns)
        more: tuple[str, ...] = ()
        if name == "missed" and not table.blind_spots:
            none = (NO_BLIND_SPOT, table.rows_left_out(), table.too_few_rows()) if table.tests is not None else ()
            more = (BLIND_IN_CLUSTERS,) if table.clustered else none
        caption = sentences(report.of_rows, f"{name}: {said}", *more)
        title = f"Labels most often {often}{of_cut}"
        values = zip(*(cells[column] for column in columns), strict=True)
        lines = [[_cell(value, place < texts) for place, value in enumerate(line)] for line in values]
        yield Section(name, title, caption, header=columns, lines=lines, fixed=texts, texts=texts)


def _blind_spots(report: Report, brief: bool) -> Iterator[Section]:
    """Yield the table of the labels that are found significantly less often than the others of their bucket."""
    if report.labels is None or not report.blind_spots:
        return
    shown, lines = report.blind_spots[: BLIND_SPOTS if brief else None], []
    named = [name for name in ("name", "bucket", "instead") if any(getattr(one, name) for one in shown)]
    for one in shown:
        names = (f"{cut(str(of['name'] or of['label']), NAME_LETTERS)} ({of['rows']:,})" for of in one.instead)
        texts = {"name": one.name, "bucket": one.bucket, "instead": ", ".join(names) or "–"}
        counts = count(one.support), count(one.hits), f"{one.expected:,.1f}", p_value(one.q)
        lines.append([str(one.label), *(texts[name] for name in named), *counts])
    at = report.labels.cuts[-1].removeprefix("@")
    caption = sentences(
        f"{BLIND_SPOT}{f' at k = {at}' if at else ''}, {len(report.blind_spots):,} in all",
        "instead: the labels most often listed in its place, and in how many rows" if "instead" in named else "",
        "expected: the hits if it were found as often as the others, or as half of the labels, whichever is less",
        report.labels.rows_left_out(),
        "q: p of the binomial test, corrected by Benjamini and Hochberg for all labels that have rows",
        report.labels.too_few_rows(),
    )
    header = ["label", *named, "support", "hits", "expected", "q"]
    fixed = 1 + len(named)
    section = Section("blind_spots", "Blind spots", caption, header=header, lines=lines, fixed=fixed, texts=fixed)
    yield replace(section, orders=_orders_of(shown, report) if len(shown) > 1 else {})


def _orders_of(spots: Sequence[BlindSpot], report: Report) -> dict[str, list[int]]:
    """Return the place of each blind spot by q, from head to tail, and by its numbers of rows, the largest first."""
    buckets = [row.name for row in report.buckets]
    values = {
        "q": [*range(len(spots))],
        "bucket": [buckets.index(one.bucket) if one.bucket in buckets else 0 for one in spots],
        "support": [-one.support for one in spots],
        "expected − hits": [one.hits - one.expected for one in spots],
    }
    places = torch.tensor([*values.values()], dtype=torch.float64).argsort(stable=True).argsort() + 1
    return dict(zip(values, places.tolist(), strict=True))


def _cell(value: Any, is_text: bool) -> str:
    return str(value) if is_text else number(value) if isinstance(value, float) else f"{value:,}"
