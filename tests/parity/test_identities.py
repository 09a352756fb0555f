"""What must hold between metrics, and between a bucket and the whole, whatever the data."""

from __future__ import annotations

import math

import pytest
import pytrec_eval
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import BUCKETS, CASES, Case, Data, data, rows_of
from parity.compare import GRADED
from tailmetrics import (
    MAP,
    MRR,
    NDCGAtK,
    RecallAtK,
)
from tailmetrics.metrics import REGISTRY, TopKMetric
from tailmetrics.metrics._rows import RelevanceMetric

SEEDS = st.integers(0, 2**31)


def value(metric: TopKMetric, batch: Data) -> list[float]:
    """Return the values of a batch, flat."""
    metric.update(batch.scores, batch.target)
    flat: list[float] = metric.compute().reshape(-1).tolist()
    return flat


@pytest.mark.parametrize(
    ("measure", "metric"),
    [("recall.5", RecallAtK), ("ndcg_cut.5", NDCGAtK), ("map_cut.5", MAP), ("map", MAP), ("recip_rank", MRR)],
)
def test_a_bucket_is_the_peer_with_the_targets_cut_to_it(measure: str, metric: type[TopKMetric]) -> None:
    """scope='global' leaves the list alone and judges the bucket's labels alone, as trec_eval on shorter qrels."""
    k = 5 if "." in measure else None
    computed = value(metric(k=k, buckets=BUCKETS, scope="global"), GRADED)
    run = {
        str(number): {f"{label:04d}": -rank for rank, label in enumerate(row.ranked)}
        for number, row in enumerate(GRADED.rows)
    }
    for assigned, bucket in enumerate(computed):
        qrels = {
            str(number): {
                f"{label:04d}": int(gain)
                for label, gain in row.relevant.items()
                if BUCKETS.assignment[label] == assigned
            }
            for number, row in enumerate(GRADED.rows)
        }
        judged = pytrec_eval.RelevanceEvaluator({query: docs for query, docs in qrels.items() if docs}, {measure})
        values = [next(iter(of_query.values())) for of_query in judged.evaluate(run).values()]
        assert len(values) > 1
        assert bucket == pytest.approx(math.fsum(values) / len(values), rel=0, abs=1e-9)


def _monotone(case: Case) -> bool:
    """Whether the law holds: not for one rank alone, nor for a miss that may cost less than a late hit."""
    reads_relevance = issubclass(REGISTRY[case.name], RelevanceMetric) or case.name == "PositiveCoverageAtK"
    return reads_relevance and case.name not in ("RelevanceAtK", "KForRecall")


MONOTONE = {(case.name, case.by, case.arguments.get("average")): case.metric() for case in CASES if _monotone(case)}


def improved(batch: Data, seed: int) -> Data:
    """Return the batch with, in each row, a relevant label in the place of an irrelevant one of its bucket above it."""
    scores = batch.scores.clone()
    bucket = BUCKETS.assignment.tolist()
    for own, row in zip(scores, batch.rows, strict=True):
        pairs = [
            (label, above)
            for label in row.relevant
            for above in row.ranked
            if above not in row.relevant and bucket[above] == bucket[label] and own[above] > own[label]
        ]
        if pairs:
            pair = torch.tensor(pairs[seed % len(pairs)])
            own[pair] = own[pair.flip(0)]
    return Data(scores, batch.target, rows_of(scores, batch.target.float()))


@pytest.mark.slow
@given(seed=SEEDS, graded=st.booleans())
@settings(max_examples=4, deadline=None)
def test_a_better_ranking_never_scores_worse(seed: int, graded: bool) -> None:
    """A relevant label that changes places with an irrelevant one above it makes no metric worse."""
    batch = data(seed=seed, num_rows=20, graded=graded, ties=False)
    better = improved(batch, seed)
    for case, metric in MONOTONE.items():
        sign = 1 if metric.higher_is_better else -1
        found = []
        for rows in (batch, better):
            metric.reset()
            found.append(value(metric, rows))
        for before, after in zip(*found, strict=True):
            assert math.isnan(before) or sign * after >= sign * before - 1e-12, case
