"""One evaluation, small enough to follow, that has everything a report can say."""

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

COUNTS = torch.tensor([400, 150, 90, 60, 40, 25, 15, 10, 6, 4, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0])


def metrics():
    """Metrics overall and by bucket, of which less is better and more."""
    buckets = LabelBuckets.deciles(COUNTS)
    return [
        PrecisionAtK(k=[1, 5]),
        CrossEntropy(),
        RecallAtK(k=5, buckets=buckets),
        NDCGAtK(k=5, buckets=buckets),
        KForRecall(min_recall=0.8, buckets=buckets),
    ]


def batch():
    """Scores with ties in a tenth of the rows, and targets of which some are unseen and none is in decile_9."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(60, len(COUNTS), generator=generator) + COUNTS.add(1).log() / 2
    scores[:6] = 0
    target = torch.randint(2, len(COUNTS), (60, 1), generator=generator)
    return scores, target


def over_all():
    """What a report adds: the metrics by bucket, over all labels."""
    return [RecallAtK(k=5), NDCGAtK(k=5), KForRecall(min_recall=0.8)]


@pytest.fixture(scope="session")
def values():
    """Return what the metrics themselves compute, and what the report adds."""
    collection = TopKCollection([*metrics(), *over_all()])
    collection.update(*batch())
    return {key: float(value) for key, value in collection.compute().items()}


@pytest.fixture(scope="session")
def report():
    """Return the report of the same."""
    return evaluate(*batch(), metrics=metrics(), intervals=False, title="Tails & <heads> of 100 %")
