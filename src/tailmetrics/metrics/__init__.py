"""Floor 2: one file per family of metrics; a new metric is a file and one line here."""

from inspect import isabstract
from typing import Final

from tailmetrics.metrics._arithmetic import divide as divide
from tailmetrics.metrics._arithmetic import ordered_sum as ordered_sum
from tailmetrics.metrics._fixed_point import COUNT as COUNT
from tailmetrics.metrics._fixed_point import REAL as REAL
from tailmetrics.metrics._fixed_point import UNIT as UNIT
from tailmetrics.metrics._metric import TopKMetric as TopKMetric
from tailmetrics.metrics._rows import RatioMetric as RatioMetric
from tailmetrics.metrics._rows import RowMeanMetric as RowMeanMetric
from tailmetrics.metrics.areas import LabelAP as LabelAP
from tailmetrics.metrics.areas import LabelAUC as LabelAUC
from tailmetrics.metrics.calibration import CalibrationErrorAtK as CalibrationErrorAtK
from tailmetrics.metrics.cross_entropy import CrossEntropy as CrossEntropy
from tailmetrics.metrics.err import ERRAtK as ERRAtK
from tailmetrics.metrics.exposure import CatalogCoverageAtK as CatalogCoverageAtK
from tailmetrics.metrics.exposure import EntropyAtK as EntropyAtK
from tailmetrics.metrics.exposure import GiniAtK as GiniAtK
from tailmetrics.metrics.f1 import F1AtK as F1AtK
from tailmetrics.metrics.f_beta import FBetaAtK as FBetaAtK
from tailmetrics.metrics.fall_out import FallOutAtK as FallOutAtK
from tailmetrics.metrics.hit_rate import AccuracyAtK as AccuracyAtK
from tailmetrics.metrics.hit_rate import HitRateAtK as HitRateAtK
from tailmetrics.metrics.hit_rate import RelevanceAtK as RelevanceAtK
from tailmetrics.metrics.k_for_recall import KForRecall as KForRecall
from tailmetrics.metrics.map import MAP as MAP
from tailmetrics.metrics.mrr import MRR as MRR
from tailmetrics.metrics.ndcg import CGAtK as CGAtK
from tailmetrics.metrics.ndcg import DCGAtK as DCGAtK
from tailmetrics.metrics.ndcg import NDCGAtK as NDCGAtK
from tailmetrics.metrics.personalization import PersonalizationAtK as PersonalizationAtK
from tailmetrics.metrics.popularity import NoveltyAtK as NoveltyAtK
from tailmetrics.metrics.popularity import PopularityAtK as PopularityAtK
from tailmetrics.metrics.popularity import PopularityLiftAtK as PopularityLiftAtK
from tailmetrics.metrics.positive_coverage import PositiveCoverageAtK as PositiveCoverageAtK
from tailmetrics.metrics.precision import PrecisionAtK as PrecisionAtK
from tailmetrics.metrics.prediction_proportion import PredictionProportionAtK as PredictionProportionAtK
from tailmetrics.metrics.propensity import PropensityScoredNDCGAtK as PropensityScoredNDCGAtK
from tailmetrics.metrics.propensity import PropensityScoredPrecisionAtK as PropensityScoredPrecisionAtK
from tailmetrics.metrics.propensity import PropensityScoredRecallAtK as PropensityScoredRecallAtK
from tailmetrics.metrics.r_precision import RPrecision as RPrecision
from tailmetrics.metrics.rbp import RBPAtK as RBPAtK
from tailmetrics.metrics.recall import NormalizedRecallAtK as NormalizedRecallAtK
from tailmetrics.metrics.recall import RecallAtK as RecallAtK
from tailmetrics.metrics.row_auc import CoverageError as CoverageError
from tailmetrics.metrics.row_auc import RankingLoss as RankingLoss
from tailmetrics.metrics.row_auc import RowAUC as RowAUC
from tailmetrics.metrics.thresholds import F1AtThreshold as F1AtThreshold
from tailmetrics.metrics.thresholds import PrecisionAtThreshold as PrecisionAtThreshold
from tailmetrics.metrics.thresholds import RecallAtThreshold as RecallAtThreshold
from tailmetrics.metrics.tie_rate import TieRateAtK as TieRateAtK

REGISTRY: Final[dict[str, type[TopKMetric]]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, TopKMetric) and not isabstract(value)
}
"""Every metric by name; its class says ``stem`` (the key without cut-off), ``higher_is_better`` and ``bounds``."""

for _registered in REGISTRY.values():
    _registered.in_registry = True
