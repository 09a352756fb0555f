"""A bucket with scope="global" equals trec_eval with the judgements of the bucket
alone.
"""

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
    [
        ("recall.5", RecallAtK),
        ("ndcg_cut.5", NDCGAtK),
        ("map_cut.5", MAP),
        ("map", MAP),
        ("recip_rank", MRR),
    ],
)
def test_global_bucket_equals_trec_eval_with_the_judgements_of_the_bucket(
    measure: str, metric: type[TopKMetric]
) -> None:
    """scope="global" leaves the list unchanged and judges the labels of the bucket
    alone, as trec_eval does with the judgements of the bucket.
    """
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
        judged = pytrec_eval.RelevanceEvaluator(
            {query: docs for query, docs in qrels.items() if docs}, {measure}
        )
        values = [
            next(iter(measures.values())) for measures in judged.evaluate(run).values()
        ]
        assert len(values) > 1
        assert bucket == pytest.approx(math.fsum(values) / len(values), rel=0, abs=1e-9)
