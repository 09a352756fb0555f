"""What the values of a metric by bucket are of, in words."""

from __future__ import annotations

from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._rows import RelevanceMetric
from tailmetrics.metrics._shown import ShownMetric
from tailmetrics.metrics.areas import LabelAP, LabelAUC, RowAUC
from tailmetrics.metrics.decisions import ThresholdMetric
from tailmetrics.metrics.probabilities import CrossEntropy


def captions_of(metric: TopKMetric) -> dict[str, str]:
    """Return what the values of each stem are of: scope, cut-off, and rows if some are left out.

    >>> from tailmetrics import LabelBuckets, RecallAtK
    >>> captions_of(RecallAtK(k=10, buckets="deciles", scope="global"))
    {'global_recall@10': 'in the one list of 10 that a row shows (scope global); rows with a relevant label there'}
    """
    left_out = isinstance(metric, RelevanceMetric) and metric.empty_target_action == "skip"
    rows = "; rows with a relevant label there" if left_out else ""
    return {metric._key(k): f"{_caption(metric, k)}{rows}" for k in metric.cutoffs}


def _caption(metric: TopKMetric, k: object) -> str:
    scope = getattr(metric, "scope", None)
    if isinstance(metric, ThresholdMetric):
        return (
            f"labels with a score above {k:g}" if isinstance(k, float) else "labels with a score above their threshold"
        )
    if isinstance(metric, RowAUC):
        pairs = "all irrelevant labels" if scope == "global" else "the irrelevant labels of the bucket"
        return f"relevant labels of the bucket against {pairs} (scope {scope})"
    if isinstance(metric, (LabelAUC, LabelAP)):
        return "rows of each label of the bucket against all other rows"
    if isinstance(metric, CrossEntropy):
        return "relevant labels of the bucket, under the softmax of the scores of all labels"
    places = f" of {k}" if isinstance(k, int) else ""
    if isinstance(metric, RelevanceMetric) and scope == "global":
        return f"in the one list{places} that a row shows (scope global)"
    if isinstance(metric, RelevanceMetric):
        each = f", {k} place{'' if k == 1 else 's'} for each bucket" if isinstance(k, int) else ""
        return f"the labels of a bucket ranked among themselves{each} (scope bucket)"
    if isinstance(metric, ShownMetric):
        return f"of the list{places} that a row shows"
    return ""
