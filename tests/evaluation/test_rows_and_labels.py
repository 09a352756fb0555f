"""Row groups by the activity of rows, beside buckets of labels, have the values of
plain loops.
"""

from collections import defaultdict

import numpy as np
import pytest
import torch
from torch import Tensor

import tailmetrics as tm
from tailmetrics.report import Report

L, N, K = 12, 400, 3
COUNTS = (200 / torch.arange(1, L + 1)).long()
LABELS = tm.LabelBuckets.quantiles(COUNTS, 3)
KEY = f"global_recall@{K}"


def data() -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, one relevant label a row, and the activity of rows: inactive rows
    find rare labels less often.
    """
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(L, (N,), generator=generator)
    activity = torch.randint(0, 9, (N,), generator=generator)
    scores = torch.randn(N, L, generator=generator)
    scores[torch.arange(N), target] += 2.0 - 1.5 * ((activity < 5) & (target > 3))
    return scores, target, activity


def report_by_activity(
    scores: Tensor, target: Tensor, activity: Tensor, row_mask: Tensor | None = None
) -> Report:
    """Return the report of the recipe in docs/tail.md."""
    groups = tm.LabelBuckets.quantiles(activity, 3, ties="together")
    names = [f"users_{name}" for name in groups.names]
    metric = tm.RecallAtK(K, buckets=LABELS, scope="global", row_groups=names)
    return tm.evaluate(
        scores,
        target,
        metrics=[metric],
        row_groups=groups.assignment,
        row_mask=row_mask,
    )


def test_values_by_activity_and_bucket_are_those_of_plain_loops() -> None:
    """Values by activity and bucket are those of plain loops and lie within their
    intervals; each group has its number of rows.
    """
    scores, target, activity = data()
    groups = tm.LabelBuckets.quantiles(activity, 3, ties="together")
    lists = scores.argsort(dim=1, descending=True, stable=True)[:, :K].tolist()
    hits = defaultdict(list)
    for row, label in enumerate(target.tolist()):
        group = groups.names[groups.assignment[row]]
        bucket = LABELS.names[LABELS.assignment[label]]
        hits[group, bucket].append(label in lists[row])

    report = report_by_activity(scores, target, activity)
    for (group, bucket), values in hits.items():
        assert report.value(KEY, bucket, f"users_{group}") == pytest.approx(
            np.mean(values)
        )
        interval = report.record(KEY, bucket, f"users_{group}").interval
        assert interval.low <= np.mean(values) <= interval.high
    rows = torch.bincount(groups.assignment, minlength=len(groups)).tolist()
    assert [group.rows for group in report.row_groups] == rows


def test_masked_rows_of_activity_0_do_not_move_the_groups() -> None:
    """Masked rows of activity 0 do not change the groups: values equal those of an
    evaluation without these rows.
    """
    scores, target, activity = data()
    activity = activity.clamp(min=1)
    mask = torch.arange(N) >= 20
    whole = report_by_activity(scores, target, activity.where(mask, 0), mask)
    expected = report_by_activity(scores[mask], target[mask], activity[mask])
    assert {
        key: value for key, value in whole.scalars.items() if "unseen" not in key
    } == pytest.approx(
        {key: value for key, value in expected.scalars.items() if "unseen" not in key},
        nan_ok=True,
    )
