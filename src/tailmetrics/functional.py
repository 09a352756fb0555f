"""The formulas of the metrics: values per row of a :class:`tailmetrics.Ranking`, without any state."""

# Written by `python -m docs.make_functional` from the files of metrics.

from tailmetrics.metrics.catalogue import catalog_coverage, entropy, gini, novelty, personalization, popularity
from tailmetrics.metrics.gains import cg_at_k, dcg_at_k, err_at_k, ideal_dcg_at_k, ndcg_at_k, rbp_at_k
from tailmetrics.metrics.hits import (
    f1_at_k,
    f_beta_at_k,
    fall_out_at_k,
    hit_rate_at_k,
    normalized_recall_at_k,
    precision_at_k,
    r_precision,
    recall_at_k,
    relevance_at_k,
)
from tailmetrics.metrics.probabilities import cross_entropy
from tailmetrics.metrics.propensity import (
    inverse_propensities,
    propensity_scored_ndcg_at_k,
    propensity_scored_precision_at_k,
    propensity_scored_recall_at_k,
)
from tailmetrics.metrics.ranks import average_precision, k_for_recall, reciprocal_rank

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
