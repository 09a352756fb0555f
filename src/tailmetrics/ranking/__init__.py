"""Floor 1: a batch ranked once, and where its relevant labels stand."""

from tailmetrics.ranking._hits import EVERYTHING, NOT_RANKED
from tailmetrics.ranking._placement import Placement, discounts
from tailmetrics.ranking._ranking import DEFAULT_DEPTH, Ranking, rank

__all__ = ["DEFAULT_DEPTH", "EVERYTHING", "NOT_RANKED", "Placement", "Ranking", "discounts", "rank"]
