"""What a reader of a report should know before trusting its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from tailmetrics.report.breakdowns import UNSEEN
from tailmetrics.report.data import ReportData
from tailmetrics.report.references import TIES

MANY_TIES = 0.01
"""Share of rows cut inside a tie above which a report warns and shows other orders."""


def warnings_of(report: ReportData, with_orders: bool) -> list[str]:
    """Return the warnings of a report.

    Args:
        report: The report.
        with_orders: Whether the reader also sees the section on other orders of equal
            scores, if there is one.
    """
    return [
        *_on_ties(report, with_orders),
        *_on_buckets_without_labels(report),
        *_on_buckets_without_positives(report),
        *_on_unseen(report),
        *report.notes,
    ]


def _on_ties(report: ReportData, with_orders: bool) -> Iterator[str]:
    shares = {}
    for k, share in report.ties.items():
        if share > MANY_TIES:
            shares[k] = f"{share:.1%}"
    share_of_hits = shares.pop(None, "")
    hint = ""
    if with_orders and report.tie_bounds:
        hint = f' "{TIES}" has the values of other orders.'

    if shares:
        cuts = ", ".join(f"{share} at rank {k}" for k, share in shares.items())
        yield (
            f"Rows are cut inside a tie ({cuts}): there {report.tie_winner} is shown, "
            f"whatever the model.{hint}"
        )
    if share_of_hits:
        yield (
            f"In {share_of_hits} of the rows a relevant label has the score of another "
            f"label: of these {report.tie_winner} is first, whatever the model.{hint}"
        )


def _on_buckets_without_labels(report: ReportData) -> Iterator[str]:
    names = []
    for bucket in report.buckets:
        if bucket.name != UNSEEN and not bucket.labels:
            names.append(bucket.name)
    if not names:
        return
    reason = "none belongs there"
    if all(name.startswith(("decile_", "quantile_")) for name in names):
        reason = (
            "there are too few labels for so many buckets, or one label fills several"
        )
    elif report.label_counts is not None:
        reason = "none occurs as often in training"
    yield f"No label in {', '.join(names)}: {reason}."


def _on_buckets_without_positives(report: ReportData) -> Iterator[str]:
    if not report.rows:
        return
    names = []
    for bucket in report.buckets:
        if bucket.labels and not bucket.positives:
            names.append(bucket.name)
    if names:
        yield (
            f"No positive in {', '.join(names)}: metrics that need one are NaN there."
        )


def _on_unseen(report: ReportData) -> Iterator[str]:
    unseen = report.unseen_positives
    if unseen and report.positives:
        percent = f"{100 * unseen / report.positives:.3g}"
        yield (
            f"{unseen:,} of {report.positives:,} positives ({percent} %) are of "
            "labels that training never showed."
        )
