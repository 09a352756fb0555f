"""What a report says, in a few sentences about its headline."""

from __future__ import annotations

from tailmetrics._arguments import cut
from tailmetrics.report.breakdowns import UNSEEN
from tailmetrics.report.data import ReportData
from tailmetrics.report.formatting import brief, counted, without_zero
from tailmetrics.report.records import Record
from tailmetrics.report.tail import ends_of

NAMED = 3
"""How many of the labels most often missed an answer names."""
NAME_LETTERS = 40
"""The most letters of a label's name in an answer."""
AMONG_THEMSELVES = "(scope bucket)"
"""The words of a caption of values for which the labels of each bucket are ranked among themselves."""


def answer(report: ReportData) -> str:
    """Return what a report says, in a few sentences; empty if it has no value over all labels.

    The sentences are about one metric, the headline: over all labels, in the first and the last bucket that was
    measured, for labels that training never showed, and in the groups of rows with the lowest and the highest value.
    The last one names the labels that are most often missed.
    """
    metric = report.about
    if report.rows == 0:
        return "No row was evaluated: there is none, or all are left out."
    whole = report.whole(metric)
    if whole is None or not whole.is_measured:
        return ""

    texts = [
        _whole_sentence(report, metric, whole),
        _unseen_sentence(report, metric),
        _groups_sentence(report, metric, whole),
        _missed_sentence(report, metric),
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


def short_value(value: float) -> str:
    """Return a value as a sentence shows it."""
    return without_zero(brief(value))


def _whole_sentence(report: ReportData, metric: str, whole: Record) -> str:
    """Return the sentence on the value over all labels, and on the first and the last measured bucket."""
    places = _places_of_recall(report, metric)
    over = _over(report, whole)
    if places:
        start = f"On average{over}, {places} {share(whole.value)} of the relevant labels"
    elif report.facts(metric).higher_is_better is False:
        start = f"{metric}, where lower is better, is {short_value(whole.value)}{over}"
    else:
        start = f"{metric} is {short_value(whole.value)}{over}"
    return f"{start}{_ends(report, metric, in_percent=bool(places))}."


def _over(report: ReportData, whole: Record) -> str:
    """Return over how many rows a value is, such as ``over 20 rows (10 without a relevant label count as 0)``."""
    if report.rows is None:
        return ""
    facts = report.facts(whole.metric)
    text = f" over {counted(report.rows, 'row')}"
    if facts.empty_rows:
        text += f" ({facts.empty_rows:,} {facts.empty_rows_treatment})"
    return text


def _places_of_recall(report: ReportData, metric: str) -> str:
    """Return the words for the list that the headline reads, if it is the recall of the one list of a row; or ""."""
    facts = report.facts(metric)
    if not facts.is_recall_of_list:
        return ""
    return "the first place holds" if facts.k == 1 else f"the first {facts.k} places hold"


def _ends(report: ReportData, metric: str, in_percent: bool) -> str:
    """Return the values of the first and the last bucket that was measured, in words."""
    names = [bucket.name for bucket in report.buckets if bucket.labels and bucket.name != UNSEEN]
    names = [name for name in names if report.record(metric, name) is not None]
    clauses = []
    for record in ends_of(report, metric):
        rank = ""
        if record.bucket == names[0]:
            rank = "most frequent"
        elif record.bucket == names[-1]:
            rank = "rarest"
        bucket = _bucket_in_words(report, record.bucket, rank)
        if in_percent:
            clauses.append(f"{share(record.value)} of those among {bucket}")
        elif report.facts(metric).is_additive:
            clauses.append(f"{short_value(record.value)} come from {bucket}")
        else:
            clauses.append(f"{short_value(record.value)} for {bucket}")
    if not clauses:
        return ""

    if report.facts(metric).is_additive:
        return f". Of it, {' and '.join(clauses)}"
    if AMONG_THEMSELVES in report.facts(metric).caption:
        return f". If the labels of each bucket are ranked among themselves, it is {' and '.join(clauses)}"
    return f": {', '.join(clauses)}"


def _bucket_in_words(report: ReportData, name: str, rank: str) -> str:
    """Return a bucket in words, such as ``the 66 most frequent labels (decile 10)``; ``rank`` may be empty."""
    labels = report.bucket(name).labels
    if rank and name.startswith(("decile_", "quantile_")):
        spaced = name.replace("_", " ")
        return f"the {labels:,} {rank} labels ({spaced})" if labels > 1 else f"the {rank} label ({spaced})"
    return f"the {counted(labels, 'label')} of {name!r}" if labels != 1 else f"the label of {name!r}"


def _unseen_sentence(report: ReportData, metric: str) -> str:
    """Return the sentence on the labels that training never showed, if any is relevant."""
    positives = sum(bucket.positives for bucket in report.buckets if bucket.name == UNSEEN)
    if not positives or not report.positives:
        return ""

    text = f"{share(positives / report.positives)} of the relevant labels never occur in training"
    record = report.record(metric, UNSEEN)
    places = _places_of_recall(report, metric)
    if record is not None and record.is_measured and places:
        text += f"; {places} {share(record.value)} of these"
    elif record is not None and record.is_measured:
        text += f"; for these {metric} is {short_value(record.value)}"
    return f"{text}."


def _groups_sentence(report: ReportData, metric: str, whole: Record) -> str:
    """Return the sentence on the groups of rows with the lowest and the highest value."""
    records = [record for record in report.group_records(whole.metric) if record.is_measured]
    if len(records) < 2:
        return ""

    lowest = min(records, key=lambda record: record.value)
    highest = max(records, key=lambda record: record.value)
    if lowest.value == highest.value:
        return f"By group of rows it is {_group_value(report, metric, lowest)} in each of {len(records):,} groups."
    ends = []
    for record in (lowest, highest):
        rows = report.group(record.row_group).rows
        number_of_rows = "" if rows is None else f", {counted(rows, 'row')}"
        ends.append(f"in {record.row_group} ({_group_value(report, metric, record)}{number_of_rows})")
    return f"By group of rows it is lowest {ends[0]} and highest {ends[1]}."


def _group_value(report: ReportData, metric: str, record: Record) -> str:
    return share(record.value) if _places_of_recall(report, metric) else short_value(record.value)


def _missed_sentence(report: ReportData, metric: str) -> str:
    """Return the sentence on the labels most often missed; it names k where that is not the one of ``metric``."""
    table = report.labels
    if table is None or not table.cuts:
        return ""

    cells = table.cells(table.most("missed", NAMED))
    names = cells.get("name", cells["label"])
    texts = []
    for name, missed, support in zip(names, cells[f"missed{table.cuts[-1]}"], cells["support"], strict=True):
        texts.append(f"{cut(str(name), NAME_LETTERS)} ({missed:,} of {support:,})")
    if not texts:
        return ""

    k = report.facts(metric).k
    is_same = table.k in ("", str(k))
    return f"Most often missed{'' if is_same else f' at k = {table.k}'}: {'; '.join(texts)}."
