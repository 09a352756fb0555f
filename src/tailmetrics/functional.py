"""The formulas of the metrics, without state.

They give values per row of a :class:`tailmetrics.Ranking`.
"""

# Written by `python -m docs.make_functional` from the files of metrics.

from tailmetrics.metrics.catalogue import (
    catalog_coverage as catalog_coverage,
    entropy as entropy,
    gini as gini,
    novelty as novelty,
    personalization as personalization,
    popularity as popularity,
)
from tailmetrics.metrics.gains import (
    cg_at_k as cg_at_k,
    dcg_at_k as dcg_at_k,
    err_at_k as err_at_k,
    ideal_dcg_at_k as ideal_dcg_at_k,
    ndcg_at_k as ndcg_at_k,
    rbp_at_k as rbp_at_k,
)
from tailmetrics.metrics.hits import (
    f1_at_k as f1_at_k,
    f_beta_at_k as f_beta_at_k,
    fall_out_at_k as fall_out_at_k,
    hit_rate_at_k as hit_rate_at_k,
    normalized_recall_at_k as normalized_recall_at_k,
    precision_at_k as precision_at_k,
    r_precision as r_precision,
    recall_at_k as recall_at_k,
    relevance_at_k as relevance_at_k,
)
from tailmetrics.metrics.judgments import (
    judged_at_k as judged_at_k,
)
from tailmetrics.metrics.probabilities import (
    cross_entropy as cross_entropy,
)
from tailmetrics.metrics.propensity import (
    inverse_popularity as inverse_popularity,
    inverse_propensities as inverse_propensities,
    propensity_scored_ndcg_at_k as propensity_scored_ndcg_at_k,
    propensity_scored_precision_at_k as propensity_scored_precision_at_k,
    propensity_scored_recall_at_k as propensity_scored_recall_at_k,
)
from tailmetrics.metrics.ranks import (
    average_precision as average_precision,
    k_for_recall as k_for_recall,
    reciprocal_rank as reciprocal_rank,
)
from tailmetrics.metrics.tree import (
    hierarchical_f1_at_k as hierarchical_f1_at_k,
    hierarchical_precision_at_k as hierarchical_precision_at_k,
    hierarchical_recall_at_k as hierarchical_recall_at_k,
    near_miss_at_k as near_miss_at_k,
)
