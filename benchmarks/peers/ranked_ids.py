"""The well-known ways to score ranked ids against sparse targets with numpy alone.

This is what the fastest evaluation scripts of extreme classification do: flags of the
first five ids, then cumulative sums; the best attainable propensity-scored precision
from the sorted weights of each row's relevant labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from benchmarks.ours import Values
from benchmarks.workloads import NUM_TRAIN, Lists, label_counts
from tailmetrics.functional import inverse_propensities

KS = (1, 3, 5)


@dataclass(frozen=True)
class Judged:
    """What the kernels are given, prepared before anything is timed.

    Attributes:
        ids: Shape (N, K), best first.
        target: CSR (N, L) of ones.
        weights: Shape (L,), inverse propensities.
    """

    ids: np.ndarray
    target: sp.csr_matrix
    weights: np.ndarray

    @classmethod
    def of(cls, data: Lists) -> Judged:
        """Return ids and targets as numpy and scipy hold them."""
        weights = inverse_propensities(label_counts(data.num_labels), NUM_TRAIN).numpy()
        return cls(data.ids.cpu().numpy(), data.csr, weights)


def by_searching(judged: Judged) -> Values:
    """Search (row, id) as one number among those of the target."""
    num_rows, num_labels = judged.target.shape
    rows = np.repeat(np.arange(num_rows), np.diff(judged.target.indptr))
    keys = rows * num_labels + judged.target.indices
    top = judged.ids[:, : KS[-1]]
    wanted = np.arange(num_rows)[:, None] * num_labels + top
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return _values((keys[place] == wanted).astype(np.float64), top, judged)


def by_comparing(judged: Judged) -> Values:
    """Compare every relevant label with the first five ids of its row."""
    rows = np.repeat(np.arange(len(judged.ids)), np.diff(judged.target.indptr))
    top = judged.ids[:, : KS[-1]]
    entry, column = np.nonzero(top[rows] == judged.target.indices[:, None])
    flags = np.zeros(top.shape)
    flags[rows[entry], column] = 1
    return _values(flags, top, judged)


KERNELS = {"numpy, searching": by_searching, "numpy, comparing": by_comparing}


def _values(flags: np.ndarray, top: np.ndarray, judged: Judged) -> Values:
    """Return precision, nDCG and PSP at 1, 3 and 5 from flags of the first five ids."""
    counts = np.diff(judged.target.indptr)
    discounts = 1 / np.log2(np.arange(2, KS[-1] + 2))
    ideal = np.concatenate([[0.0], discounts.cumsum()])
    hits = flags.cumsum(axis=1)
    gains = (flags * discounts).cumsum(axis=1)
    scored = (flags * judged.weights[top]).sum(axis=0).cumsum()
    attainable = _largest_weights(judged, counts).sum(axis=0).cumsum()
    values = {}
    for k in KS:
        best = ideal[np.minimum(counts, k)]
        values[f"precision_k@{k}"] = float(hits[:, k - 1].mean() / k)
        values[f"ndcg@{k}"] = float(
            np.divide(
                gains[:, k - 1], best, out=np.zeros(len(best)), where=best > 0
            ).mean()
        )
        values[f"psp@{k}"] = float(scored[k - 1] / attainable[k - 1])
    return values


def _largest_weights(judged: Judged, counts: np.ndarray) -> np.ndarray:
    """Return the five largest weights of each row's relevant labels, shape (N, 5).

    The largest one comes first.
    """
    width = max(KS[-1], int(counts.max()))
    table = np.zeros((len(counts), width))
    table[np.arange(width) < counts[:, None]] = judged.weights[judged.target.indices]
    return -np.sort(-table, axis=1)[:, : KS[-1]]
