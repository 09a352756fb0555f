"""How many of the labels shown the target judges at all, relevant or not."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics.metrics._aggregations import MeanOfRows
from tailmetrics.metrics._arguments_of_metrics import (
    Cutoffs,
    EmptyTargetAction,
    TopKArguments,
)
from tailmetrics.metrics._formulas import Formula, takes_arrays
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._mistakes import warn_once
from tailmetrics.metrics._readings import Ranks
from tailmetrics.metrics._states import divide
from tailmetrics.ranking import Cutoff, Ranking, TargetRanks
from tailmetrics.ranking._ranking import Scope

__all__ = ["JudgedAtK"]


class JudgedArguments(TopKArguments, total=False):
    """Keyword arguments of a metric of judged labels."""

    scope: Scope
    depth: int
    empty_target_action: EmptyTargetAction | None


class JudgedRanks(Ranks):
    """The ranks of the judged labels of each row, or of each row and bucket."""

    takes = ("scope", "depth")

    def relevant(self, ranking: Ranking) -> Ranking:
        """Return the ranking with all judged labels in place of the relevant ones."""
        return ranking.judged

    def read(self, ranking: Ranking) -> TargetRanks:
        """Return the ranks of the judged labels."""
        return super().read(ranking.judged)

    def warn_of(self, metric: Any, ranking: Ranking) -> None:
        """Warn of a target that does not show labels judged as not relevant."""
        super().warn_of(metric, ranking)
        if ranking.targets.judgments is None and ranking.targets.padded is None:
            warn_once(
                ranking,
                "no judgments",
                f"{self.caller}: target is a matrix, which does not tell labels that "
                "were judged and are not relevant from labels that nobody judged; the "
                "relevant labels alone count as judged. Pass CSR with stored zeros, "
                "qrels, or target_ids with target_gains of 0.",
            )


class JudgedShare(MeanOfRows):
    """The mean over rows of the share of a list that is judged.

    This does not say how good the list is.
    """

    is_quality = False


def _judged_share(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Return the share of the top k that is judged, from ranks of judged labels."""
    return divide(ranks.real_hits_at(k), ranks.length_at(k))


@takes_arrays
def judged_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Share of the top k that is judged.

    A label is judged if the target has an entry for it, even with a gain of 0.

    Higher says that values rest on more judgments, in [0, 1]; 0 for an empty list.

    Args:
        ranks: A ranking whose target tells judged labels: CSR with stored zeros, or ids
            with gains. Or the ranks of the judged labels, such as
            ``ranking.judged.by_bucket(buckets)``.
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> from tailmetrics import Ranking
    >>> judged = {"target_ids": torch.tensor([[2, 1]]), "target_gains": torch.tensor([[1.0, 0.0]])}
    >>> judged_at_k(Ranking.from_ids(torch.tensor([[0, 1, 2]]), **judged), k=2).tolist()
    [0.5]

    Source: ir_measures, "Judged".
    """
    judged = ranks.judged if isinstance(ranks, Ranking) else ranks
    return _judged_share(judged, k)


def _has_list(_: Ranking, ranks: TargetRanks) -> Tensor:
    """Return whether a row lists a label."""
    return ranks.length > 0


@final
class JudgedAtK(TopKMetric):
    """Share of the labels among the top k that were judged.

    A judged label has an entry in the target, relevant or not.

    Higher says that values rest on more judgments, in [0, 1]; NaN before the first row.
    A row without a list counts as 0, and within buckets it is left out.

    Use it when few documents were judged, as other metrics count what nobody judged as
    not relevant.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L). ``target``
    is CSR (N, L) with stored zeros, qrels, or ids with gains: a matrix (N, L) does not
    tell which labels were judged.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        empty_target_action: Value of a row without a list: ``"neg"`` is 0, ``"pos"`` is
            1; with ``"skip"`` the row does not count; ``"error"`` raises an error. None
            means ``"neg"`` overall, and ``"skip"`` within buckets.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = JudgedAtK(k=2)
    >>> target = torch.tensor([[1.0, 0.0, 3.0]]).to_sparse_csr()
    >>> metric.update(torch.tensor([[0.5, 0.9, 0.1]]), target)
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: ir_measures, "Judged"; trec_eval ``-J`` leaves unjudged documents out.
    """

    higher_is_better = True

    def __init__(self, k: Cutoffs, **kwargs: Unpack[JudgedArguments]) -> None:
        formula = Formula(
            _judged_share,
            zero_without_hits=True,
            ignores_order=True,
            answered=_has_list,
            lacking="no listed label",
        )
        super().__init__(
            k, formula, reading=JudgedRanks, aggregation=JudgedShare, **kwargs
        )
