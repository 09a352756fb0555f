"""Random lists for the peers, and assertions of agreement: on every row, then on the
mean over two batches.
"""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

import tailmetrics
from cases import NUM_LABELS, Data, data, rows_of
from tailmetrics.metrics import TopKMetric

KS = [1, 3, 10]


def whole_gains(seed: int) -> Data:
    """Return rows with gains 1 to 4: trec_eval and ranx take whole numbers."""
    halves = data(seed=seed, graded=True, ties=False)
    gains = halves.target * 2
    return Data(halves.scores, gains, rows_of(halves.scores, gains))


def finite(batch: Data) -> Data:
    """Return the same rows with every label retrieved, for peers without short
    lists.
    """
    generator = torch.Generator().manual_seed(7)
    random_scores = torch.randn(batch.scores.shape, generator=generator)
    scores = torch.where(batch.scores.isinf(), random_scores, batch.scores)
    return Data(scores, batch.target, rows_of(scores, batch.target.float()))


BINARY = data(seed=11, ties=False)
"""61 rows, 9 of them without a relevant label, one without any retrieved label, most of
them short; no tied scores.
"""

GRADED = whole_gains(seed=12)
"""Rows as in BINARY, with gains."""

FULL = finite(data(seed=13, ties=False))
"""Rows as in BINARY, with all labels retrieved."""

FULL_GRADED = finite(whole_gains(seed=14))
"""Rows as in BINARY, with gains and all labels retrieved."""


def class_indices(
    seed: int, num_rows: int = 200, num_classes: int = 12
) -> tuple[Tensor, Tensor]:
    """Return scores [N, C] and one class per row; the last two classes never occur in
    the targets.
    """
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(
        num_rows, num_classes, generator=generator, dtype=torch.float64
    )
    target = (torch.rand(num_rows, generator=generator) ** 2 * (num_classes - 2)).long()
    scores[torch.arange(num_rows), target] += 1
    return scores, target


def assert_rows(
    metric: TopKMetric, batch: Data, expected: Sequence[float], tolerance: float = 1e-9
) -> None:
    """Assert that ``metric`` gives ``expected`` row by row, and its mean over a batch
    of scores and one of ids.
    """
    [values] = metric.row_values(
        tailmetrics.rank(batch.scores, batch.target, depth=NUM_LABELS)
    ).values()
    assert values.tolist() == pytest.approx(list(expected), rel=0, abs=tolerance)
    half = len(batch.rows) // 2
    metric.update(batch.scores[:half], batch.target[:half])
    metric.update(batch.ids[half:], batch.target[half:])
    assert float(metric.compute()) == pytest.approx(
        sum(expected) / len(expected), rel=0, abs=tolerance
    )


def assert_value(
    metric: TopKMetric, batch: Data, expected: Sequence[float], tolerance: float = 1e-9
) -> None:
    """Assert that ``metric`` gives ``expected``, one value per cut-off."""
    metric.update(batch.scores, batch.target)
    assert metric.compute().reshape(-1).tolist() == pytest.approx(
        list(expected), rel=0, abs=tolerance
    )


def top(batch: Data, k: int) -> Tensor:
    """Return the top k of each row as a bool matrix [N, L]."""
    is_listed = torch.zeros(batch.scores.shape, dtype=torch.bool)
    for row, listed in zip(is_listed, batch.rows, strict=True):
        row[listed.ranked[:k]] = True
    return is_listed
