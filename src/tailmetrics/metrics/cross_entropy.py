"""Cross-entropy of the relevant labels under the softmax of the scores."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._arithmetic import divide, ordered_sum
from tailmetrics.metrics._fixed_point import REAL
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._relevance import RelevanceArguments
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.metrics._shown import check_finite
from tailmetrics.ranking import Cutoff, Ranking, TargetRanks
from tailmetrics.ranking._ambiguity import warn_of_probabilities
from tailmetrics.ranking._hits import Padding
from tailmetrics.ranking._reading import Depth


@formula
def cross_entropy(ranking: Ranking, buckets: LabelBuckets | None = None) -> Tensor:
    """-log softmax(scores)[label], natural log over all L labels; the mean over a row's relevant labels.

    Lower is better, in [0, inf]; inf where a relevant label scores -inf, 0 without a relevant label.

    Args:
        ranking: Made from dense scores.
        buckets: Take the mean over the relevant labels of each of G buckets instead.

    Returns:
        Shape (N,), or (N, G) with buckets; float64.

    >>> import torch
    >>> round(float(cross_entropy(torch.tensor([[0.5, 0.5]]), torch.tensor([0]))), 4)
    0.6931

    Source: PyTorch, ``torch.nn.CrossEntropyLoss``.
    """
    entries = ranking.targets.entries
    if not ranking.scores_all:
        raise ValueError("cross_entropy: the ranking was made from ids or candidates; rank dense scores [N, L].")
    own = ranking.scores_of_targets
    # both -inf: a row without any retrieved label
    loss = torch.where(own > -torch.inf, -ranking.log_probabilities(own, entries.rows), torch.inf).clamp(min=0.0)
    groups = 1 if buckets is None else len(buckets)
    keys = entries.rows if buckets is None else entries.rows * groups + buckets.of(entries.ids)
    keys = torch.where(entries.ids >= 0, keys, ranking.num_rows * groups)
    order = entries.ids.argsort(stable=True)
    order = order[keys[order].argsort(stable=True)]
    padding = Padding(keys[order], ranking.num_rows * groups, entries.width, ranking.targets.kernels.reads)
    losses = padding.place(loss[order], 0.0)
    n = padding.place((entries.ids[order] >= 0).to(torch.int64), 0).sum(dim=-1)
    value = torch.where(losses.isinf().any(dim=-1), torch.inf, divide(ordered_sum(losses), n))
    return value if buckets is None else value.view(ranking.num_rows, groups)


@final
class CrossEntropy(RowMeanMetric):
    """Mean over rows of the cross-entropy of the relevant labels under the softmax of dense scores.

    Lower is better, in [0, inf]; NaN before any row. A row without a relevant label counts 0 overall, as in every
    metric: pass ``empty_target_action="skip"`` where targets hold -1 for "unknown".

    Use it when probabilities are what the model is trained for, or are used as such.

    Scores are logits: probabilities are their softmax. Of probabilities, pass the logarithm.

    ``preds`` are scores of all labels (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`; the scope makes no difference.

    >>> import torch
    >>> metric = CrossEntropy()
    >>> metric.update(torch.zeros(1, 2), torch.tensor([1]))
    >>> metric.compute()
    tensor(0.6931, dtype=torch.float64)

    Source: PyTorch, ``torch.nn.CrossEntropyLoss``.
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))
    tie_rules = ("id",)
    stem = "cross_entropy"
    optional_k = True
    withheld = ("k",)
    fixed_point = REAL

    def __init__(self, **kwargs: Unpack[RelevanceArguments]) -> None:
        super().__init__(None, **kwargs)

    @property
    def reads(self) -> Depth:
        """How much of a batch has to be ranked."""
        return Depth(0, 1)

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        if not ranking.scores_all:
            raise ValueError(
                f"{self._caller}: preds are ids or candidates, which say nothing of the other labels; pass dense "
                "scores [N, L]."
            )
        check_finite(self._caller, ranking, self.validate_args)

    def _warn_of(self, ranking: Ranking) -> None:
        scores = ranking.scores
        if scores is not None:
            key = "probabilities warned of"  # once for all members of a collection
            ranking.remembered(key, lambda: warn_of_probabilities(self._caller, scores, ranking.row_mask))

    def _ranks_of(self, ranking: Ranking) -> TargetRanks:
        ranking = self._relevant(ranking)
        return ranking if self.bound_buckets is None else ranking.by_bucket(self.bound_buckets, "global")

    def _row_values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        return cross_entropy(self._relevant(ranking), self.bound_buckets).unsqueeze(0)

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        raise NotImplementedError("cross-entropy is a function of the scores, not of ranks")
