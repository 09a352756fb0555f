"""What a report says, in a few sentences about its headline."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from tailmetrics._arguments import cut
from tailmetrics.report.breakdowns import UNSEEN, BucketRow
from tailmetrics.report.data import ReportData
from tailmetrics.report.formatting import counted
from tailmetrics.report.records import MetricFacts, Record
from tailmetrics.report.tail import head_and_tail

NAMED = 3
"""How many of the labels most often missed an answer names."""
NAME_LETTERS = 40
"""The most letters of a label's name in an answer."""


def answer(report: ReportData) -> str:
    """Return what a report says, in a few sentences.

    The text is empty if the report has no value over all labels.

    The sentences are about one metric, the headline: over all labels, in the first and
    the last bucket that was measured, for labels that training never showed, and in the
    groups of rows with the lowest and the highest value. The last one names the labels
    that are most often missed.
    """
    if report.rows == 0:
        return "No row was evaluated: there is none, or all are left out."
    whole = report.whole(report.about)
    if not whole.is_measured:
        return ""

    facts = report.facts(report.about)
    phrases = _Phrases(facts)
    if facts.is_share_of_labels:
        phrases = _SharePhrases(facts)
    texts = [
        f"{phrases.whole(whole, _over(report, whole))}"
        f"{_head_and_tail_clauses(report, phrases)}.",
        _unseen_sentence(report, phrases),
        _groups_sentence(report, whole, phrases),
        _missed_sentence(report),
    ]
    return " ".join(text for text in texts if text)


def share(value: float) -> str:
    """Return a share in percent; no share but 0 and 1 is rounded to 0 % or 100 %.

    >>> share(0.5874), share(0.0001), share(0.99999), share(1.0)
    ('58.7 %', 'less than 0.1 %', 'more than 99.9 %', '100 %')
    """
    if 0 < value < 0.0005:
        return "less than 0.1 %"
    if 0.9995 <= value < 1:
        return "more than 99.9 %"
    return f"{100 * value:.1f}".removesuffix(".0") + " %"


class _Phrases:
    """Puts the values of a metric into words."""

    def __init__(self, facts: MetricFacts) -> None:
        self.facts = facts

    def value(self, record: Record) -> str:
        """Return a value."""
        return record.short

    def whole(self, record: Record, over: str) -> str:
        """Return the start of the sentence on the value over all labels."""
        direction = ", where lower is better," if self.facts.lower_is_better else ""
        return f"{self.facts.metric}{direction} is {record.short}{over}"

    def bucket(self, record: Record, bucket: str) -> str:
        """Return the clause on the value in a bucket."""
        verb = "come from" if self.facts.is_additive else "for"
        return f"{record.short} {verb} {bucket}"

    def unseen(self, record: Record) -> str:
        """Return the clause on the value for labels that training never showed."""
        if self.facts.is_among_themselves:
            return (
                f"if these are ranked among themselves, {self.facts.metric} is "
                f"{record.short}"
            )
        return f"for these {self.facts.metric} is {record.short}"


class _SharePhrases(_Phrases):
    """Puts values that are shares of the relevant labels into words.

    Recall has such values if a row has one list.
    """

    def __init__(self, facts: MetricFacts) -> None:
        super().__init__(facts)
        self.places = f"the first {facts.k} places hold"
        if facts.k == 1:
            self.places = "the first place holds"

    def value(self, record: Record) -> str:
        return share(record.value)

    def whole(self, record: Record, over: str) -> str:
        return (
            f"On average{over}, {self.places} {share(record.value)} of the "
            "relevant labels"
        )

    def bucket(self, record: Record, bucket: str) -> str:
        return f"{share(record.value)} of those among {bucket}"

    def unseen(self, record: Record) -> str:
        if self.facts.is_among_themselves:
            return (
                f"if these are ranked among themselves, {self.places} "
                f"{share(record.value)} of them"
            )
        return f"{self.places} {share(record.value)} of these"


def _over(report: ReportData, whole: Record) -> str:
    """Return over how many rows a value is, in words.

    An example is ``over 20 rows (10 without a relevant label count as 0)``.

    Rows that are left out are not among these rows.
    """
    if report.rows is None:
        return ""
    text = f" over {counted(report.rows - whole.facts.rows_left_out, 'row')}"
    if whole.facts.empty_rows:
        text += f" ({whole.facts.empty_rows:,} {whole.facts.empty_rows_treatment})"
    return text


def _head_and_tail_clauses(report: ReportData, phrases: _Phrases) -> str:
    """Return the values of the first and the last measured bucket, in words."""
    metric = report.about
    names = []
    for record in report.bucket_records(metric):
        if record.bucket != UNSEEN and report.bucket(record.bucket).labels:
            names.append(record.bucket)

    clauses = []
    for record in head_and_tail(report, metric):
        clauses.append(
            phrases.bucket(
                record, _bucket_in_words(report.bucket(record.bucket), names)
            )
        )
    if not clauses:
        return ""

    facts = report.facts(metric)
    if facts.is_additive:
        return f". Of it, {' and '.join(clauses)}"
    if facts.is_among_themselves:
        return (
            ". If the labels of each bucket are ranked among themselves, it is "
            f"{' and '.join(clauses)}"
        )
    return f": {', '.join(clauses)}"


def _bucket_in_words(bucket: BucketRow, names: Sequence[str]) -> str:
    """Return a bucket in words, such as ``the 66 most frequent labels (decile 10)``.

    Args:
        bucket: The bucket.
        names: The names of all buckets, from head to tail.
    """
    rank = ""
    if bucket.name.startswith(("decile_", "quantile_")):
        rank = {names[-1]: "rarest", names[0]: "most frequent"}.get(bucket.name, "")
    *number, noun = counted(bucket.labels, "label").removeprefix("1 ").split()
    if rank:
        return (
            f"{' '.join(['the', *number, rank, noun])} "
            f"({bucket.name.replace('_', ' ')})"
        )
    return f"{' '.join(['the', *number, noun])} of {bucket.name!r}"


def _unseen_sentence(report: ReportData, phrases: _Phrases) -> str:
    """Return the sentence on relevant labels never seen in training; empty if none."""
    if not report.unseen_positives or not report.positives:
        return ""
    text = (
        f"{share(report.unseen_positives / report.positives)} of the relevant labels "
        "never occur in training"
    )
    record = report.record(report.about, UNSEEN)
    if record.is_measured:
        text += f"; {phrases.unseen(record)}"
    return f"{text}."


def _groups_sentence(report: ReportData, whole: Record, phrases: _Phrases) -> str:
    """Return the sentence on the groups of rows with the lowest and highest values."""
    records = [
        record for record in report.group_records(whole.metric) if record.is_measured
    ]
    if len(records) < 2:
        return ""
    lowest = min(records, key=attrgetter("value"))
    highest = max(records, key=attrgetter("value"))
    if lowest.value == highest.value:
        return (
            f"By group of rows it is {phrases.value(lowest)} in each of "
            f"{len(records):,} groups."
        )

    ends = []
    for record in (lowest, highest):
        rows = _rows_of_group(report, record)
        text = phrases.value(record)
        if rows is not None:
            text += f", {counted(rows, 'row')}"
        ends.append(f"in {record.row_group} ({text})")
    return f"By group of rows it is lowest {ends[0]} and highest {ends[1]}."


def _rows_of_group(report: ReportData, record: Record) -> int | None:
    """Return how many rows the value of a group is a mean over.

    For other values, return the number of all rows of the group.
    """
    if record.facts.counts_rows and record.count is not None:
        return int(record.count)
    return report.group(record.row_group).rows


def _missed_sentence(report: ReportData) -> str:
    """Return the sentence on the labels most often missed.

    The sentence names k unless the headline has the same k.
    """
    table = report.labels
    if table is None or not table.cuts:
        return ""
    cells = table.cells(table.most("missed", NAMED))
    names = cells.get("name", cells["label"])
    texts = []
    for name, missed, support in zip(
        names, cells[f"missed{table.cuts[-1]}"], cells["support"], strict=True
    ):
        texts.append(f"{cut(str(name), NAME_LETTERS)} ({missed:,} of {support:,})")
    if not texts:
        return ""

    cutoff = ""
    if table.k not in ("", str(report.facts(report.about).k)):
        cutoff = f" at k = {table.k}"
    return f"Most often missed{cutoff}: {'; '.join(texts)}."
