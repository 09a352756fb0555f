"""References of small catalogues equal loops over all orders of their labels."""

from itertools import pairwise, permutations
from math import isnan, log2, nan
from typing import Any

import pytest
import torch

import tailmetrics as tm

NUM_LABELS = 5
COUNTS = [9, 4, 4, 4, 1]
ASSIGNMENT = [0, 0, 1, 1, 1]
BUCKETS = tm.LabelBuckets.from_assignment(ASSIGNMENT, ["head", "tail"], COUNTS)
ORDERS = list(permutations(range(NUM_LABELS)))
POPULAR_ORDERS = [
    order for order in ORDERS if all(COUNTS[a] >= COUNTS[b] for a, b in pairwise(order))
]
SCORES = torch.tensor(
    [
        [0.9, 0.1, 0.5, 0.4, 0.2],
        [0.2, 0.8, 0.1, 0.3, 0.6],
        [-torch.inf, 0.9, -torch.inf, 0.1, -torch.inf],
        [0.3, -torch.inf, -torch.inf, -torch.inf, -torch.inf],
        [0.5, 0.4, 0.3, 0.2, 0.1],
    ]
)
GAINS = {
    "ones": torch.tensor(
        [
            [1, 0, 0, 1, 0],
            [0, 1, 1, 0, 0],
            [0, 0, 1, 0, 0],
            [1, 1, 1, 0, 1],
            [0, 0, 0, 0, 0],
        ]
    ).float(),
    "twos": torch.tensor(
        [
            [2, 0, 0, 0, 0],
            [1, 0, 0, 1, 0],
            [0, 2, 0, 0, 0],
            [2, 0, 2, 2, 0],
            [0, 0, 0, 0, 1],
        ]
    ).float(),
    "grades": torch.tensor(
        [
            [3, 0, 1, 0, 2],
            [1, 1, 0, 0, 0],
            [0, 0, 0, 2, 1],
            [1, 2, 3, 1, 2],
            [0, 0, 0, 0, 2],
        ]
    ).float(),
}


def _dcg(gains: list[float], k: int) -> float:
    return sum(gain / log2(place + 2) for place, gain in enumerate(gains[:k]))


def _average_precision(hits: list[bool], k: int, n: int) -> float:
    precisions = [
        sum(hits[: place + 1]) / (place + 1)
        for place in range(min(k, len(hits)))
        if hits[place]
    ]
    return sum(precisions) / n if n else 0.0


def _row_value(
    name: str, ranked: list[int], gains: dict[int, float], k: int, size: int
) -> float:
    """Return the value of one list, by the table of docs/definitions.md; ``size`` is
    the number of labels.
    """
    hits = [label in gains for label in ranked]
    num_hits, n, length = sum(hits[:k]), len(gains), min(k, len(ranked))
    listed_gains = [gains.get(label, 0.0) for label in ranked]
    if name == "precision":
        return num_hits / length if length else 0.0
    if name == "precision_k":
        return num_hits / k
    if name == "recall":
        return num_hits / n if n else 0.0
    if name == "normalized_recall":
        return num_hits / min(k, n) if n else 0.0
    if name == "f1":
        return 2 * num_hits / (length + n) if length + n else 0.0
    if name == "hit_rate":
        return float(num_hits > 0)
    if name == "relevance":
        return float(len(hits) >= k and hits[k - 1])
    if name == "mrr":
        return 1 / (hits.index(True) + 1) if num_hits else 0.0
    if name == "map":
        return _average_precision(hits, k, n)
    if name == "r_precision":
        return sum(hits[:n]) / n if n else 0.0
    if name == "fall_out":
        return (length - num_hits) / (size - n) if size > n else 0.0
    if name == "rbp":
        return sum(0.2 * 0.8**place for place in range(length) if hits[place])
    if name == "dcg":
        return _dcg(listed_gains, k)
    if name == "ndcg":
        ideal = _dcg(sorted(gains.values(), reverse=True), k)
        return _dcg(listed_gains, k) / ideal if ideal else 0.0
    raise ValueError(name)


METRICS: dict[str, Any] = {
    "precision": lambda **arguments: tm.PrecisionAtK(2, **arguments),
    "precision_k": lambda **arguments: tm.PrecisionAtK(2, denominator="k", **arguments),
    "recall": lambda **arguments: tm.RecallAtK(2, **arguments),
    "normalized_recall": lambda **arguments: tm.NormalizedRecallAtK(2, **arguments),
    "f1": lambda **arguments: tm.F1AtK(2, **arguments),
    "hit_rate": lambda **arguments: tm.HitRateAtK(2, **arguments),
    "relevance": lambda **arguments: tm.RelevanceAtK(2, **arguments),
    "mrr": lambda **arguments: tm.MRR(2, **arguments),
    "map": lambda **arguments: tm.MAP(2, **arguments),
    "r_precision": lambda **arguments: tm.RPrecision(**arguments),
    "fall_out": lambda **arguments: tm.FallOutAtK(2, **arguments),
    "rbp": lambda **arguments: tm.RBPAtK(2, **arguments),
    "dcg": lambda **arguments: tm.DCGAtK(2, **arguments),
    "ndcg": lambda **arguments: tm.NDCGAtK(2, **arguments),
}
READS_GAINS = ("dcg", "ndcg")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else nan


def _row_references(
    name: str,
    scores: list[float],
    relevant: dict[int, float],
    inside: list[int],
    scope: str | None,
    depth: int,
) -> dict[str, float]:
    """Return chance, popularity and the attainable value of one row, for the labels
    ``inside`` a bucket.
    """
    within = inside if scope == "bucket" else list(range(NUM_LABELS))

    def cut(order: Any) -> list[int]:
        return [label for label in order[:depth] if label in within]

    def value(ranked: Any) -> float:
        if name == "fall_out" and len(within) == len(relevant):
            return 1.0  # a row without an irrelevant label
        return _row_value(name, ranked, relevant, 2, len(within))

    retrieved = [label for label in range(NUM_LABELS) if scores[label] > -torch.inf]
    length = max(
        len(cut(sorted(retrieved, key=lambda label: -scores[label]))),
        min(len(relevant), depth),
    )
    return {
        "chance": _mean([value(cut(order)) for order in ORDERS]),
        "popularity": _mean([value(cut(order)) for order in POPULAR_ORDERS]),
        "attainable": max(map(value, permutations(within, length))),
    }


def _expected(
    name: str,
    gains: torch.Tensor,
    min_gain: float | None,
    scope: str | None,
    depth: int,
) -> dict[str, list[float]]:
    """Return the references of each bucket, or over all labels, by loops over all
    orders of the labels.
    """
    least = 0.0 if min_gain is None or name in READS_GAINS else min_gain
    references: dict[str, list[float]] = {
        "chance": [],
        "popularity": [],
        "attainable": [],
    }
    for bucket in [None] if scope is None else [0, 1]:
        rows = []
        inside = [
            label for label in range(NUM_LABELS) if bucket in (None, ASSIGNMENT[label])
        ]
        for row_scores, row_gains in zip(SCORES.tolist(), gains.tolist(), strict=True):
            relevant = {
                label: row_gains[label] for label in inside if row_gains[label] > 0
            }
            relevant = {
                label: gain for label, gain in relevant.items() if gain >= least
            }
            size = len(inside) if scope == "bucket" else NUM_LABELS
            has_value = len(relevant) < size if name == "fall_out" else bool(relevant)
            if has_value or scope is None:  # other rows are skipped within buckets
                rows.append(
                    _row_references(name, row_scores, relevant, inside, scope, depth)
                )
        for reference, values in references.items():
            values.append(_mean([row[reference] for row in rows]))
    return references


@pytest.mark.parametrize(
    ("scope", "depth"),
    [(None, NUM_LABELS), ("bucket", NUM_LABELS), ("bucket", 3), ("global", 5)],
)
@pytest.mark.parametrize("kind", GAINS)
def test_references_are_those_of_all_orders(
    kind: str, scope: str | None, depth: int
) -> None:
    """References equal loops over all orders of labels, for every metric and
    ``min_gain``, by bucket and over all labels, in batches of any size, with all
    metrics in one collection.
    """
    arguments: dict[str, Any] = {"num_labels": NUM_LABELS}
    if scope is not None:
        arguments = {"buckets": BUCKETS, "scope": scope, "depth": depth}
    metrics, expected = {}, {}
    for min_gain in (2, None, 1, 3):
        for name, factory in METRICS.items():
            member = f"{name}_{min_gain}"
            metrics[member] = factory(min_gain=min_gain, **arguments)
            expected[member] = _expected(name, GAINS[kind], min_gain, scope, depth)

    references_of_batches = []
    for size in (1, 2, len(SCORES)):
        collection = tm.TopKCollection(
            metrics, references=["chance", "popularity", "attainable"]
        )
        collection.bind(tm.LabelFrequency.from_counts(COUNTS, 20))
        for start in range(0, len(SCORES), size):
            collection.update(
                SCORES[start : start + size], GAINS[kind][start : start + size]
            )
        references_of_batches.append(collection.references())
        metrics = {name: metric.clone() for name, metric in metrics.items()}
        for metric in metrics.values():
            metric.reset()

    for name, metric in metrics.items():
        for reference, values in expected[name].items():
            for key, value in zip(metric.keys(), values, strict=True):
                if reference == "attainable" and not metric.higher_is_better:
                    assert key not in references_of_batches[0][reference]
                    continue
                for references in references_of_batches:
                    actual = float(references[reference][key])
                    assert actual == pytest.approx(value, abs=1e-12, nan_ok=True), (
                        reference,
                        key,
                    )
                    assert isnan(actual) or actual == float(
                        references_of_batches[0][reference][key]
                    )


def test_attainable_relevance_at_a_rank_beyond_a_short_list_is_zero() -> None:
    """The attainable relevance at rank 2 is 0 for a list of one place and one relevant
    label; with two relevant labels the best list has two places.
    """
    collection = tm.TopKCollection(
        [tm.RelevanceAtK(k=[1, 2])], references=["attainable"]
    )
    collection.update(
        torch.tensor([[1, -torch.inf, -torch.inf]]), torch.tensor([[0, 1, 0]])
    )
    assert [
        float(value) for value in collection.references()["attainable"].values()
    ] == [1.0, 0.0]
    collection.reset()
    collection.update(
        torch.tensor([[1, -torch.inf, -torch.inf]]), torch.tensor([[0, 1, 1]])
    )
    assert [
        float(value) for value in collection.references()["attainable"].values()
    ] == [1.0, 1.0]
