"""Small random batches that the tests of this folder share, as tensors and as plain rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from tailmetrics import LabelBuckets

NUM_LABELS = 18
COUNTS = torch.tensor([90, 41, 33, 20, 12, 9, 7, 5, 5, 4, 3, 2, 2, 1, 1, 1, 0, 0])
THREE = LabelBuckets.from_assignment(torch.tensor([0, 1, 2] * 6), ["head", "body", "tail"])
DECILES = LabelBuckets.deciles(COUNTS)

Relevant = list[set[int]]


def drawn(seed: int, num_rows: int = 40, num_labels: int = NUM_LABELS, ties: bool = False) -> tuple[Tensor, Tensor]:
    """Scores [N, L] that know something of the multi-hot target [N, L]; every ninth row has nothing to find."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(num_rows, num_labels, generator=generator) < 0.25
    target[::9] = False
    scores = torch.randn(num_rows, num_labels, generator=generator, dtype=torch.float64) + target
    return (scores * 2).round() / 2 if ties else scores, target


def graded(seed: int, num_rows: int = 40, num_labels: int = NUM_LABELS) -> tuple[Tensor, Tensor]:
    """The same with gains 1 to 4 instead of True."""
    scores, target = drawn(seed, num_rows, num_labels)
    grades = torch.randint(1, 5, target.shape, generator=torch.Generator().manual_seed(seed + 1000))
    return scores, target * grades.double()


def sets(mask: Tensor) -> Relevant:
    """Labels with a value above 0, row by row."""
    return [{label for label, value in enumerate(row) if value > 0} for row in mask.tolist()]


def members(buckets: LabelBuckets) -> list[set[int]]:
    """Labels of each bucket."""
    assignment = buckets.assignment.tolist()
    return [{label for label, own in enumerate(assignment) if own == number} for number in range(len(buckets))]


def ranked(scores: Iterable[Sequence[float]]) -> list[list[int]]:
    """Retrieved labels of each row, best first; of equal scores the lower label first."""
    return [
        [label for _, label in sorted((-score, label) for label, score in enumerate(row) if score != -math.inf)]
        for row in scores
    ]


def padded_ids(rows: Iterable[Iterable[int]]) -> Tensor:
    """Label ids, padded by -1 to one more than the longest row, so that no width is taken for a multi-hot one."""
    listed = [list(row) for row in rows]
    width = 1 + max((len(row) for row in listed), default=0)
    return torch.tensor([row + [-1] * (width - len(row)) for row in listed], dtype=torch.int64).view(len(listed), width)


def csr(dense: Tensor, stored: Tensor) -> Tensor:
    """The stored cells of a matrix as CSR, zeros among them kept."""
    crow = torch.cat([torch.zeros(1, dtype=torch.int64), stored.sum(dim=1).cumsum(0)])
    columns = stored.nonzero()[:, 1]
    return torch.sparse_csr_tensor(crow, columns, dense[stored], size=dense.shape, check_invariants=False)


def candidates(scores: Tensor, seed: int = 5) -> tuple[Tensor, Tensor]:
    """Every finite score with its label, in an order of its own per row; -1 where nothing is retrieved."""
    order = torch.rand(scores.shape, generator=torch.Generator().manual_seed(seed)).argsort(dim=1)
    shuffled = scores.gather(1, order)
    return shuffled.masked_fill(shuffled.isinf(), 9.0), order.masked_fill(shuffled.isinf(), -1)


def fed(metric: Any, *batch: Any, **more: Any) -> Any:
    """The metric after one update."""
    metric.update(*batch, **more)
    return metric


def floats(value: Tensor) -> list[float]:
    """Every value of a tensor of any shape, as a flat list."""
    return [float(one) for one in value.reshape(-1).tolist()]


def bits(value: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    """Type, shape and every bit of a tensor, comparable with ==."""
    return str(value.dtype), tuple(value.shape), value.detach().cpu().contiguous().numpy().tobytes()


def halves(batch: Sequence[Any], at: int) -> list[list[Any]]:
    """The first rows of every part of a batch, then the others."""
    return [[part[:at] for part in batch], [part[at:] for part in batch]]
