"""The well-known ways to score ranked ids against sparse targets with numpy and scipy alone.

This is what evaluation scripts of extreme classification do: flags of the first five ids, then cumulative sums; the
best attainable propensity-scored precision from the sorted weights of each row's relevant labels. pyxclib is not in the
package registry: :func:`by_three_calls` does what its precision, ndcg and psprecision do, each on its own, with its
compiled selection of the largest weights replaced by one in numpy.
"""

from __future__ import annotations

from collections.abc import Callable
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
        scores: Shape (N, K), falling.
        target: CSR (N, L) of ones.
        weights: Shape (L,), inverse propensities.
    """

    ids: np.ndarray
    scores: np.ndarray
    target: sp.csr_matrix
    weights: np.ndarray

    @classmethod
    def of(cls, data: Lists) -> Judged:
        """Return ids and targets as numpy and scipy hold them."""
        weights = inverse_propensities(label_counts(data.num_labels), NUM_TRAIN).numpy()
        return cls(data.ids.cpu().numpy(), np.ascontiguousarray(data.scores), data.csr, weights)


def by_indexing(judged: Judged) -> Values:
    """Read the target at (row, id)."""
    rows = np.repeat(np.arange(len(judged.ids)), KS[-1])
    top = judged.ids[:, : KS[-1]]
    flags = np.asarray(judged.target[rows, top.ravel()]).reshape(top.shape)
    return _values(flags, top, judged)


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


def by_multiplying(judged: Judged) -> Values:
    """Hold the lists as a sparse matrix of ranks and multiply it, entry by entry, with the target."""
    num_rows, depth = judged.ids.shape
    starts = np.arange(0, judged.ids.size + 1, depth)
    ranks = np.broadcast_to(np.arange(1.0, depth + 1), judged.ids.shape)
    listed = sp.csr_matrix((ranks.ravel(), judged.ids.ravel(), starts), shape=judged.target.shape)
    found = listed.multiply(judged.target).tocoo()
    flags = np.zeros((num_rows, KS[-1]))
    within = found.data <= KS[-1]
    flags[found.row[within], found.data[within].astype(np.int64) - 1] = 1
    return _values(flags, judged.ids[:, : KS[-1]], judged)


def by_three_calls(judged: Judged) -> Values:
    """Read the target at (row, id) for each of three measures, and at the best labels, found by a diagonal product."""
    num_rows, num_labels = judged.target.shape
    padded = sp.csr_matrix(
        (judged.target.data, judged.target.indices, judged.target.indptr), shape=(num_rows, num_labels + 1)
    )
    weights = np.append(judged.weights, 0.0)
    top = judged.ids[:, : KS[-1]]
    precision = _flags(padded, top).cumsum(axis=1).mean(axis=0) / np.arange(1, KS[-1] + 1)
    discounts = 1 / np.log2(np.arange(2, KS[-1] + 2))
    total = np.minimum(np.asarray(padded.sum(axis=1)).ravel().astype(np.int64), KS[-1])
    gains = (_flags(padded, top) * discounts).cumsum(axis=1)
    ideal = np.concatenate([[1.0], discounts.cumsum()])
    best = _best_labels(judged.target @ sp.diags(judged.weights, format="csr"), num_labels)
    scored = (_flags(padded, top) * weights[top]).cumsum(axis=1).mean(axis=0)
    attainable = (_flags(padded, best) * weights[best]).cumsum(axis=1).mean(axis=0)
    values = {}
    for k in KS:
        values[f"precision_k@{k}"] = float(precision[k - 1])
        values[f"ndcg@{k}"] = float((gains[:, k - 1] / ideal[np.minimum(total, k)]).mean())
        values[f"psp@{k}"] = float(scored[k - 1] / attainable[k - 1])
    return values


def _flags(target: sp.csr_matrix, ids: np.ndarray) -> np.ndarray:
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    return np.asarray(target[rows, ids.ravel()]).reshape(ids.shape)


def _best_labels(weighted: sp.csr_matrix, pad: int) -> np.ndarray:
    """Return the labels of the five largest stored values of each row, shape (N, 5), padded with ``pad``."""
    counts = np.diff(weighted.indptr)
    width = max(KS[-1], int(counts.max()))
    stored = np.arange(width) < counts[:, None]
    table, labels = np.zeros(stored.shape), np.full(stored.shape, pad)
    table[stored], labels[stored] = weighted.data, weighted.indices
    return np.take_along_axis(labels, np.argsort(-table, axis=1)[:, : KS[-1]], axis=1)


PYXCLIB = "scipy, three calls as pyxclib's"

KERNELS: dict[str, Callable[[Judged], Values]] = {
    "numpy, searching": by_searching,
    "numpy, comparing": by_comparing,
    "scipy, indexing": by_indexing,
    "scipy, sparse × sparse": by_multiplying,
    PYXCLIB: by_three_calls,
}


def _values(flags: np.ndarray, top: np.ndarray, judged: Judged) -> Values:
    """Return precision, nDCG and propensity-scored precision at 1, 3 and 5 from the flags of the first five ids."""
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
        values[f"ndcg@{k}"] = float(np.divide(gains[:, k - 1], best, out=np.zeros(len(best)), where=best > 0).mean())
        values[f"psp@{k}"] = float(scored[k - 1] / attainable[k - 1])
    return values


def _largest_weights(judged: Judged, counts: np.ndarray) -> np.ndarray:
    """Return the five largest weights of each row's relevant labels, largest first, shape (N, 5)."""
    width = max(KS[-1], int(counts.max()))
    table = np.zeros((len(counts), width))
    table[np.arange(width) < counts[:, None]] = judged.weights[judged.target.indices]
    return -np.sort(-table, axis=1)[:, : KS[-1]]
