"""The formulas of the metrics: values per row of a :class:`tailmetrics.Ranking`, without any state."""

# Written by `python -m docs.make_functional` from the files of metrics.

from tailmetrics.metrics.cross_entropy import cross_entropy
from tailmetrics.metrics.err import err_at_k
from tailmetrics.metrics.exposure import catalog_coverage, entropy, gini
from tailmetrics.metrics.f1 import f1_at_k
from tailmetrics.metrics.f_beta import f_beta_at_k
from tailmetrics.metrics.fall_out import fall_out_at_k
from tailmetrics.metrics.hit_rate import hit_rate_at_k, relevance_at_k
from tailmetrics.metrics.k_for_recall import k_for_recall
from tailmetrics.metrics.map import average_precision
from tailmetrics.metrics.mrr import reciprocal_rank
from tailmetrics.metrics.ndcg import cg_at_k, dcg_at_k, ideal_dcg_at_k, ndcg_at_k
from tailmetrics.metrics.personalization import personalization
from tailmetrics.metrics.popularity import novelty, popularity
from tailmetrics.metrics.precision import precision_at_k
from tailmetrics.metrics.propensity import (
    inverse_propensities,
    propensity_scored_ndcg_at_k,
    propensity_scored_precision_at_k,
    propensity_scored_recall_at_k,
)
from tailmetrics.metrics.r_precision import r_precision
from tailmetrics.metrics.rbp import rbp_at_k
from tailmetrics.metrics.recall import normalized_recall_at_k, recall_at_k

__all__ = [
    "average_precision",
    "catalog_coverage",
    "cg_at_k",
    "cross_entropy",
    "dcg_at_k",
    "entropy",
    "err_at_k",
    "f1_at_k",
    "f_beta_at_k",
    "fall_out_at_k",
    "gini",
    "hit_rate_at_k",
    "ideal_dcg_at_k",
    "inverse_propensities",
    "k_for_recall",
    "ndcg_at_k",
    "normalized_recall_at_k",
    "novelty",
    "personalization",
    "popularity",
    "precision_at_k",
    "propensity_scored_ndcg_at_k",
    "propensity_scored_precision_at_k",
    "propensity_scored_recall_at_k",
    "r_precision",
    "rbp_at_k",
    "recall_at_k",
    "reciprocal_rank",
    "relevance_at_k",
]
