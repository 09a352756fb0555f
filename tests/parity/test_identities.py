"""A bucket in scope "global" is what trec_eval says of the bucket's judgements alone."""

import math

import pytest
import pytrec_eval

from cases import BUCKETS, Data
from parity.compare import GRADED
from tailmetrics import MAP, MRR, NDCGAtK, RecallAtK
from tailmetrics.metrics import TopKMetric


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
        values = [next(iter(measures.values())) for measures in judged.evaluate(run).values()]
        assert len(values) > 1
        assert bucket == pytest.approx(math.fsum(values) / len(values), rel=0, abs=1e-9)
