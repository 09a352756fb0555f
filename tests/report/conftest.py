"""A small evaluation that has everything that a report shows, and a comparison of three
runs.
"""

import pytest
import torch

from tailmetrics import (
    CrossEntropy,
    KForRecall,
    LabelBuckets,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
    TopKCollection,
    evaluate,
)
from tailmetrics.evaluation import compare_runs

COUNTS = torch.tensor(
    [400, 150, 90, 60, 40, 25, 15, 10, 6, 4, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0]
)


def metrics():
    """Return metrics overall and by bucket, of which higher or lower values are
    better.
    """
    buckets = LabelBuckets.deciles(COUNTS)
    return [
        PrecisionAtK(k=[1, 5]),
        CrossEntropy(),
        RecallAtK(k=5, buckets=buckets),
        NDCGAtK(k=5, buckets=buckets),
        KForRecall(min_recall=0.8, buckets=buckets),
    ]


def batch():
    """Return scores with ties in a tenth of the rows, and targets of which some are
    unseen and none is in decile_9.
    """
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(60, len(COUNTS), generator=generator) + COUNTS.add(1).log() / 2
    scores[:6] = 0
    target = torch.randint(2, len(COUNTS), (60, 1), generator=generator)
    return scores, target


def over_all():
    """Return the metrics that a report adds: those by bucket, over all labels."""
    return [RecallAtK(k=5), NDCGAtK(k=5), KForRecall(min_recall=0.8)]


@pytest.fixture(scope="session")
def values():
    """Return the values of the metrics and of those that a report adds."""
    collection = TopKCollection([*metrics(), *over_all()])
    collection.update(*batch())
    return {key: float(value) for key, value in collection.compute().items()}


@pytest.fixture(scope="session")
def report():
    """Return the report of the same metrics and batch."""
    return evaluate(
        *batch(), metrics=metrics(), intervals=False, title="Tails & <heads> of 100 %"
    )


NAMES = ("plain", "better <b>", "other")


@pytest.fixture(scope="session")
def compared():
    """Return a comparison of three runs on 80 rows, targets and runs.

    The second run puts the right label first in every second row, and otherwise has the
    scores of the first.
    """
    generator = torch.Generator().manual_seed(0)
    counts = (400 / torch.arange(1, 31)).long()
    target = torch.multinomial(
        counts.float(), 80, replacement=True, generator=generator
    )
    scores = torch.randn(80, 30, generator=generator)
    better = scores.clone()
    better[::2].scatter_(1, target[::2, None], 9.0)
    metrics = [PrecisionAtK(k=1), RecallAtK(k=3, buckets="deciles", scope="global")]
    runs = dict(zip(NAMES, (scores, better, -scores), strict=True))
    report = compare_runs(
        runs,
        target,
        metrics=metrics,
        label_counts=counts,
        baseline="plain",
        resamples=2000,
    )
    return report, target, runs


@pytest.fixture(params=["report", "comparison"])
def either(request, report, compared):
    """Return a report or a comparison."""
    return report if request.param == "report" else compared[0]
