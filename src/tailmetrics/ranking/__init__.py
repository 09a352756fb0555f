"""Layer 1: rank a batch once, and find the ranks of its relevant labels."""

from tailmetrics.ranking._hits import EVERYTHING, NOT_RANKED, LabelWeights
from tailmetrics.ranking._ranking import DEFAULT_DEPTH, Ranking, rank
from tailmetrics.ranking._target_ranks import Cutoff, TargetRanks, discounts

__all__ = [
    "DEFAULT_DEPTH",
    "EVERYTHING",
    "NOT_RANKED",
    "Cutoff",
    "LabelWeights",
    "Ranking",
    "TargetRanks",
    "discounts",
    "rank",
]
