"""Seeded data, the same in every run.

There are dense scores, ranked lists with CSR targets, and queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from benchmarks.measure import Settings
from tailmetrics import LabelBuckets

DENSE = ((4096, 10_000), (1024, 131_072), (256, 670_000))
TINY = (32, 1000)
NUM_TRAIN = 1_000_000
SCRAMBLE = 48_611
"""A prime: products with it, modulo the labels, are distinct ids in no order."""


def label_counts(num_labels: int) -> Tensor:
    """Return long-tailed training counts; the rarest labels were never seen."""
    return (NUM_TRAIN / 2 / torch.arange(1, num_labels + 1, dtype=torch.float64)).to(
        torch.int64
    )


@dataclass(frozen=True)
class Dense:
    """Scores of every label, and what is relevant.

    Attributes:
        scores: Shape (N, L), float32, normally distributed; relevant labels score
            higher by 3.
        target: Shape (N,): one relevant label per row.
        targets: Shape (N, 5): five of them.
    """

    scores: Tensor
    target: Tensor
    targets: Tensor

    @classmethod
    def of(cls, num_rows: int, num_labels: int, device: str = "cpu") -> Dense:
        """Draw the workload of that shape."""
        generator = torch.Generator().manual_seed(num_rows + num_labels)
        scores = torch.randn(num_rows, num_labels, generator=generator)
        first = torch.randint(num_labels, (num_rows, 1), generator=generator)
        targets = (first + torch.arange(5) * (num_labels // 7)) % num_labels
        scores.scatter_add_(1, targets, torch.full(targets.shape, 3.0))
        return cls(
            *(part.to(device) for part in (scores, targets[:, 0].contiguous(), targets))
        )

    @classmethod
    def all(cls, settings: Settings) -> list[tuple[int, int]]:
        """Return the shapes to measure."""
        return (
            [(rows // 64, labels) for rows, labels in DENSE]
            if settings.quick
            else list(DENSE)
        )

    @property
    def name(self) -> str:
        """The shape, as tables show it."""
        return f"[{self.scores.shape[0]}, {self.scores.shape[1]}]"

    @cached_property
    def mask(self) -> Tensor:
        """The five relevant labels as bool (N, L)."""
        mask = torch.zeros(
            self.scores.shape, dtype=torch.bool, device=self.scores.device
        )
        return mask.scatter_(1, self.targets, True)

    @cached_property
    def buckets(self) -> LabelBuckets:
        """Deciles and ``unseen``."""
        return LabelBuckets.deciles(label_counts(self.scores.shape[1]))


@dataclass(frozen=True)
class Lists:
    """Ranked ids with CSR targets, about half of them listed.

    Attributes:
        ids: Shape (N, K), int64, distinct within a row.
        relevant: Shape (N, M), int64, -1 padded.
        num_labels: L.
    """

    ids: Tensor
    relevant: Tensor
    num_labels: int

    @classmethod
    def of(
        cls,
        num_rows: int,
        depth: int,
        num_labels: int,
        most: int = 9,
        device: str = "cpu",
    ) -> Lists:
        """Draw lists of ``depth`` ids and 1 to ``most`` relevant labels per row."""
        rng = np.random.default_rng(num_rows + num_labels)
        gaps = rng.integers(
            1, num_labels // (depth + most), size=(num_rows, depth + most)
        )
        ids = gaps.cumsum(axis=1) * SCRAMBLE % num_labels
        steps = np.arange(most + 1)
        # one relevant label in each stretch of the list
        edges = np.maximum(steps, steps**2 * depth // most**2)
        places = edges[:-1] + (rng.random((num_rows, most)) * np.diff(edges)).astype(
            np.int64
        )
        listed = rng.random((num_rows, most)) < 0.5
        relevant = np.where(
            listed, np.take_along_axis(ids, places, axis=1), ids[:, depth:]
        )
        relevant[np.arange(most) >= rng.integers(1, most + 1, size=(num_rows, 1))] = -1
        first = torch.from_numpy(np.ascontiguousarray(ids[:, :depth]))
        return cls(first.to(device), torch.from_numpy(relevant).to(device), num_labels)

    @classmethod
    def xmc(cls, settings: Settings) -> Lists:
        """50,000 rows of 100 ids over 200,000 labels."""
        return cls.of(
            500 if settings.quick else 50_000, 100, 200_000, device=settings.device
        )

    @classmethod
    def queries(cls, settings: Settings) -> Lists:
        """20,000 queries of 100 documents, about five relevant."""
        return cls.of(
            200 if settings.quick else 20_000, 100, 100_000, device=settings.device
        )

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.ids)

    @cached_property
    def csr(self) -> sp.csr_matrix:
        """The relevant labels as scipy CSR with columns in order."""
        relevant = self.relevant.cpu().numpy()
        rows, _ = (relevant >= 0).nonzero()
        entries = np.ones(len(rows), dtype=np.float32), (rows, relevant[relevant >= 0])
        matrix = sp.csr_matrix(entries, shape=(len(self), self.num_labels))
        matrix.sort_indices()
        return matrix

    @cached_property
    def torch_csr(self) -> Tensor:
        """The same as a torch tensor."""
        parts = (
            torch.from_numpy(part.astype(np.int64))
            for part in (self.csr.indptr, self.csr.indices)
        )
        values = torch.from_numpy(self.csr.data)
        matrix = torch.sparse_csr_tensor(
            *parts, values, size=self.csr.shape, check_invariants=True
        )
        return matrix.to(self.ids.device)

    @cached_property
    def scores(self) -> np.ndarray:
        """Falling positive scores of listed ids, shape (N, K), for peers that rank."""
        depth = self.ids.shape[1]
        return np.broadcast_to(
            np.arange(depth, 0, -1, dtype=np.float64), self.ids.shape
        )
