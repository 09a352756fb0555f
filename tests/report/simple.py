"""Reports that are built from values by key, for tests of what they show."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tailmetrics.report import BucketRow, GroupRow, MetricFacts, Record, Report
from tailmetrics.report.formatting import split
from tailmetrics.report.records import SUMMARIES
from tailmetrics.significance import Interval


def report_of_values(
    title: str,
    values: Mapping[str, float],
    *,
    buckets: Sequence[BucketRow] = (),
    row_groups: Sequence[GroupRow] = (),
    intervals: Mapping[str, Interval] | None = None,
    beside: Mapping[str, Mapping[str, float]] | None = None,
    counts: Mapping[str, tuple[float, str]] | None = None,
    places: Iterable[str] = (),
    lower: Iterable[str] = (),
    captions: Mapping[str, str] | None = None,
    **arguments: Any,
) -> Report:
    """Return a report of values and summaries by key.

    Args:
        title: The title.
        values: Values and summaries by key.
        buckets: The buckets.
        row_groups: The groups of rows.
        intervals: Intervals by key.
        beside: References and values of other orders of ties, by name and key.
        counts: The number by which a value is divided and what it counts, by key.
        places: Metrics whose values are ranks.
        lower: Metrics of which a lower value is better.
        captions: Captions by metric.
        arguments: Further arguments of the report.
    """
    groups = [group.name for group in row_groups]
    names = [*(bucket.name for bucket in buckets), *SUMMARIES]
    facts = {}
    records = []
    for key, value in values.items():
        metric, group, bucket = split(key, groups, names)
        facts[metric] = MetricFacts(
            metric,
            higher_is_better=metric not in lower,
            is_place=metric in places,
            caption=(captions or {}).get(metric, ""),
        )
        is_summary = bucket in SUMMARIES
        number, count_name = (counts or {}).get(key, (None, ""))
        records.append(
            Record(
                key,
                metric,
                value,
                bucket="" if is_summary else bucket,
                row_group=group,
                summary=bucket if is_summary else "",
                interval=(intervals or {}).get(key),
                count=number,
                count_of=count_name,
                facts=facts[metric],
                **{
                    name: values[key]
                    for name, values in (beside or {}).items()
                    if key in values
                },
            )
        )
    return Report(
        title,
        records,
        list(facts.values()),
        buckets=buckets,
        row_groups=row_groups,
        **arguments,
    )
