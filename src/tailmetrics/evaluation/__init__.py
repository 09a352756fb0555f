"""Metrics run over data, with what a report says beside them; never imported by the package root.

>>> from tailmetrics.evaluation import Evaluation, compare_runs, evaluate
"""

from tailmetrics.evaluation.accumulating import Evaluation as Evaluation
from tailmetrics.evaluation.comparing import compare_runs as compare_runs
from tailmetrics.evaluation.evaluating import evaluate as evaluate

__all__ = ["Evaluation", "compare_runs", "evaluate"]
