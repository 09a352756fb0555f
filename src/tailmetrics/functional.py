"""The formulas of the metrics: values per row of a :class:`tailmetrics.Ranking`, without any state."""

# Written by `python -m docs.make_functional` from the files of metrics.

from tailmetrics.metrics.catalogue import catalog_coverage as catalog_coverage
from tailmetrics.metrics.catalogue import entropy as entropy
from tailmetrics.metrics.catalogue import gini as gini
from tailmetrics.metrics.catalogue import novelty as novelty
from tailmetrics.metrics.catalogue import personalization as personalization
from tailmetrics.metrics.catalogue import popularity as popularity
from tailmetrics.metrics.gains import cg_at_k as cg_at_k
from tailmetrics.metrics.gains import dcg_at_k as dcg_at_k
from tailmetrics.metrics.gains import err_at_k as err_at_k
from tailmetrics.metrics.gains import ideal_dcg_at_k as ideal_dcg_at_k
from tailmetrics.metrics.gains import ndcg_at_k as ndcg_at_k
from tailmetrics.metrics.gains import rbp_at_k as rbp_at_k
from tailmetrics.metrics.hits import f1_at_k as f1_at_k
from tailmetrics.metrics.hits import f_beta_at_k as f_beta_at_k
from tailmetrics.metrics.hits import fall_out_at_k as fall_out_at_k
from tailmetrics.metrics.hits import hit_rate_at_k as hit_rate_at_k
from tailmetrics.metrics.hits import normalized_recall_at_k as normalized_recall_at_k
from tailmetrics.metrics.hits import precision_at_k as precision_at_k
from tailmetrics.metrics.hits import r_precision as r_precision
from tailmetrics.metrics.hits import recall_at_k as recall_at_k
from tailmetrics.metrics.hits import relevance_at_k as relevance_at_k
from tailmetrics.metrics.judgments import judged_at_k as judged_at_k
from tailmetrics.metrics.probabilities import cross_entropy as cross_entropy
from tailmetrics.metrics.propensity import inverse_popularity as inverse_popularity
from tailmetrics.metrics.propensity import inverse_propensities as inverse_propensities
from tailmetrics.metrics.propensity import propensity_scored_ndcg_at_k as propensity_scored_ndcg_at_k
from tailmetrics.metrics.propensity import propensity_scored_precision_at_k as propensity_scored_precision_at_k
from tailmetrics.metrics.propensity import propensity_scored_recall_at_k as propensity_scored_recall_at_k
from tailmetrics.metrics.ranks import average_precision as average_precision
from tailmetrics.metrics.ranks import k_for_recall as k_for_recall
from tailmetrics.metrics.ranks import reciprocal_rank as reciprocal_rank
from tailmetrics.metrics.tree import hierarchical_f1_at_k as hierarchical_f1_at_k
from tailmetrics.metrics.tree import hierarchical_precision_at_k as hierarchical_precision_at_k
from tailmetrics.metrics.tree import hierarchical_recall_at_k as hierarchical_recall_at_k
from tailmetrics.metrics.tree import near_miss_at_k as near_miss_at_k
