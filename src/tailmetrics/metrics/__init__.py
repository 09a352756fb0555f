"""Layer 2: one file per family of metrics; a new metric is a file and one line here."""

from typing import Final

from tailmetrics.metrics._metric import TopKMetric as TopKMetric
from tailmetrics.metrics._own import RatioMetric as RatioMetric
from tailmetrics.metrics._own import RowMeanMetric as RowMeanMetric
from tailmetrics.metrics._states import COUNT as COUNT
from tailmetrics.metrics._states import REAL as REAL
from tailmetrics.metrics._states import UNIT as UNIT
from tailmetrics.metrics._states import divide as divide
from tailmetrics.metrics.areas import CoverageError as CoverageError
from tailmetrics.metrics.areas import LabelAP as LabelAP
from tailmetrics.metrics.areas import LabelAUC as LabelAUC
from tailmetrics.metrics.areas import RankingLoss as RankingLoss
from tailmetrics.metrics.areas import RowAUC as RowAUC
from tailmetrics.metrics.catalogue import CatalogCoverageAtK as CatalogCoverageAtK
from tailmetrics.metrics.catalogue import EntropyAtK as EntropyAtK
from tailmetrics.metrics.catalogue import GiniAtK as GiniAtK
from tailmetrics.metrics.catalogue import NoveltyAtK as NoveltyAtK
from tailmetrics.metrics.catalogue import PersonalizationAtK as PersonalizationAtK
from tailmetrics.metrics.catalogue import PopularityAtK as PopularityAtK
from tailmetrics.metrics.catalogue import PopularityLiftAtK as PopularityLiftAtK
from tailmetrics.metrics.catalogue import PositiveCoverageAtK as PositiveCoverageAtK
from tailmetrics.metrics.catalogue import PredictionProportionAtK as PredictionProportionAtK
from tailmetrics.metrics.catalogue import TieRateAtK as TieRateAtK
from tailmetrics.metrics.decisions import F1AtThreshold as F1AtThreshold
from tailmetrics.metrics.decisions import PrecisionAtThreshold as PrecisionAtThreshold
from tailmetrics.metrics.decisions import RecallAtThreshold as RecallAtThreshold
from tailmetrics.metrics.gains import CGAtK as CGAtK
from tailmetrics.metrics.gains import DCGAtK as DCGAtK
from tailmetrics.metrics.gains import ERRAtK as ERRAtK
from tailmetrics.metrics.gains import NDCGAtK as NDCGAtK
from tailmetrics.metrics.gains import RBPAtK as RBPAtK
from tailmetrics.metrics.hits import AccuracyAtK as AccuracyAtK
from tailmetrics.metrics.hits import F1AtK as F1AtK
from tailmetrics.metrics.hits import FallOutAtK as FallOutAtK
from tailmetrics.metrics.hits import FBetaAtK as FBetaAtK
from tailmetrics.metrics.hits import HitRateAtK as HitRateAtK
from tailmetrics.metrics.hits import NormalizedRecallAtK as NormalizedRecallAtK
from tailmetrics.metrics.hits import PrecisionAtK as PrecisionAtK
from tailmetrics.metrics.hits import RecallAtK as RecallAtK
from tailmetrics.metrics.hits import RelevanceAtK as RelevanceAtK
from tailmetrics.metrics.hits import RPrecision as RPrecision
from tailmetrics.metrics.probabilities import CalibrationErrorAtK as CalibrationErrorAtK
from tailmetrics.metrics.probabilities import CrossEntropy as CrossEntropy
from tailmetrics.metrics.propensity import PropensityScoredNDCGAtK as PropensityScoredNDCGAtK
from tailmetrics.metrics.propensity import PropensityScoredPrecisionAtK as PropensityScoredPrecisionAtK
from tailmetrics.metrics.propensity import PropensityScoredRecallAtK as PropensityScoredRecallAtK
from tailmetrics.metrics.ranks import MAP as MAP
from tailmetrics.metrics.ranks import MRR as MRR
from tailmetrics.metrics.ranks import KForRecall as KForRecall
from tailmetrics.metrics.tree import HierarchicalF1AtK as HierarchicalF1AtK
from tailmetrics.metrics.tree import HierarchicalPrecisionAtK as HierarchicalPrecisionAtK
from tailmetrics.metrics.tree import HierarchicalRecallAtK as HierarchicalRecallAtK
from tailmetrics.metrics.tree import NearMissAtK as NearMissAtK
from tailmetrics.ranking._device import ordered_sum as ordered_sum

REGISTRY: Final[dict[str, type[TopKMetric]]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type)
    and issubclass(value, TopKMetric)
    and not value.__module__.rpartition(".")[2].startswith("_")
}
"""Every metric by name; its class says ``stem`` (the key without cut-off), ``higher_is_better`` and ``bounds``."""
