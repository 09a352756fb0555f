"""Rows that belong together: several of one user, patient or document."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmetrics.significance._statistics import Array


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which rows are drawn and swapped together.

    Attributes:
        codes: Shape (N,), int64; the cluster of each row, from 0.
        number: Number of clusters.
    """

    codes: NDArray[np.int64]
    number: int

    def sums(self, column: Array) -> Array:
        """Return the sum of a column, shape (N,), over the rows of each cluster, shape (number,)."""
        return np.asarray(np.bincount(self.codes, weights=column, minlength=self.number), dtype=np.float64)

    def among(self, counted: NDArray[np.bool_]) -> int:
        """Return the number of clusters that have a row that counts."""
        return int(np.unique(self.codes[counted]).size)


def read_clusters(caller: str, clusters: ArrayLike | None, num_rows: int) -> Clusters | None:
    """Return the clusters as numbers; None where each row stands alone.

    Args:
        caller: Opens messages.
        clusters: Shape (N,), the name or number of each row's cluster, in any order.
        num_rows: N.

    Raises:
        ValueError: If there is not one cluster for each row.
    """
    if clusters is None:
        return None
    try:
        names = np.asarray(clusters)
    except ValueError:
        raise ValueError(f"{caller}: clusters holds lists of several lengths; pass one cluster for each row.") from None
    if names.shape != (num_rows,):
        raise ValueError(
            f"{caller}: clusters is of shape {list(names.shape)} for {num_rows} rows; pass the cluster of each row, "
            "such as its user."
        )
    codes: dict[object, int] = {}
    numbers = np.array([codes.setdefault(name, len(codes)) for name in names.tolist()], dtype=np.int64)
    nameless = [name for name in codes if name is None or name != name]
    if nameless:
        row = next(row for row, name in enumerate(names.tolist()) if name is None or name != name)
        raise ValueError(
            f"{caller}: clusters has no value in row {row}; pass a cluster for each row, one of its own for a row that "
            "stands alone."
        )
    return Clusters(numbers, len(codes))
