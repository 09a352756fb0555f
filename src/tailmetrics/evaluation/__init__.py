"""Evaluations of data and comparisons of runs, which return reports; ``import tailmetrics`` alone does not load them.

>>> from tailmetrics.evaluation import Evaluation, compare_runs, evaluate
"""

from tailmetrics.evaluation.accumulating import Evaluation as Evaluation
from tailmetrics.evaluation.comparing import compare_runs as compare_runs
from tailmetrics.evaluation.evaluating import evaluate as evaluate

__all__ = ["Evaluation", "compare_runs", "evaluate"]
