"""Okapi BM25 over bags of words, and runs in TREC's format."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer

Scores = NDArray[np.float64]


class BM25:
    """Scores of all documents for a query, by the words of both.

    Arguments and examples are words like any other.

    Source: Robertson and Zaragoza, The probabilistic relevance framework, 2009,
    equation 3.15.
    """

    def __init__(
        self, documents: Iterable[str], k1: float = 1.2, b: float = 0.75
    ) -> None:
        self.words = CountVectorizer()
        counts = csr_array(self.words.fit_transform(documents), dtype=np.float64)
        length = counts.sum(1)
        rows = np.repeat(np.arange(len(length)), np.diff(counts.indptr))
        counts.data *= (k1 + 1) / (
            counts.data + k1 * (1 - b + b * length[rows] / length.mean())
        )
        occurs = np.bincount(counts.indices, minlength=counts.shape[1])
        self.inverse_frequency = np.log1p((len(length) - occurs + 0.5) / (occurs + 0.5))
        self.weights = counts.T.tocsr()

    def __call__(self, query: str) -> Scores:
        """Return the scores of all documents, shape (D,)."""
        number = self.words.vocabulary_
        words = [
            number[word]
            for word in self.words.build_analyzer()(query)
            if word in number
        ]
        return self.weights[words].T @ self.inverse_frequency[words]


def write_run(
    path: Path,
    queries: dict[str, str],
    documents: list[str],
    score: Callable[[str], Scores],
) -> None:
    """Write the best thousand documents for each query, without the query's own."""
    with path.open("w") as lines:
        for name, text in queries.items():
            scores = score(text)
            best = [
                place
                for place in np.argsort(-scores, kind="stable")[:1001]
                if documents[place] != name
            ][:1000]
            for rank, place in enumerate(best, 1):
                lines.write(
                    f"{name} Q0 {documents[place]} {rank} {scores[place]:.6f} "
                    f"{path.stem}\n"
                )


def write_qrels(path: Path, links: dict[str, list[str]]) -> None:
    """Write one line per relevant document."""
    path.write_text(
        "".join(
            f"{name} 0 {link} 1\n" for name, named in links.items() for link in named
        )
    )
