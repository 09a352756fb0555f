"""Metrics of the softmax of dense scores: cross-entropy and calibration error."""

from __future__ import annotations

from functools import partial
from math import e
from typing import Any, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import check_count, shape_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._aggregations import (
    Aggregation,
    Denominators,
    ValueFacts,
    Values,
)
from tailmetrics.metrics._arguments_of_metrics import (
    Cutoffs,
    LevelArguments,
    RelevanceArguments,
)
from tailmetrics.metrics._formulas import NO_FORMULA, Formula, takes_arrays
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._readings import Reading
from tailmetrics.metrics._states import (
    REAL,
    UNIT,
    AtCells,
    Increments,
    State,
    States,
    divide,
    in_limbs,
    ratios,
)
from tailmetrics.ranking import Ranking, TargetRanks
from tailmetrics.ranking._once import made_once
from tailmetrics.ranking._orders import row_of_each
from tailmetrics.ranking._ranking import LARGEST_OF_LABELS
from tailmetrics.ranking._reading import Depth
from tailmetrics.ranking._sums import ordered_sum
from tailmetrics.ranking._warnings import first_rows, warn_of_batch

__all__ = ["CalibrationErrorAtK", "CrossEntropy"]

AS_PROBABILITIES = "as probabilities do, but are read as scores"
"""Part of a warning of scores in [0, 1], by which comparisons find the warned runs."""


class Probabilities(Reading):
    """The probabilities of relevant labels, by the softmax of scores of all labels."""

    takes: tuple[str, ...] = ("min_gain", "scope")

    @property
    def required_depth(self) -> Depth:
        """How deep a batch has to be ranked."""
        return Depth(0, 1)

    def check(self, ranking: Ranking, validate: bool) -> None:
        """Raise unless a softmax over the scores of all labels is defined."""
        if not ranking.scores_all:
            raise ValueError(
                f"{self.caller}: preds are ids or candidates, whose probabilities over "
                "all labels nothing tells; pass dense scores [N, L]."
            )
        if ranking.remembered(LARGEST_OF_LABELS, lambda: False):
            raise ValueError(
                f"{self.caller}: the scores of a level of a tree are the largest of "
                "its labels, of which a softmax is no probability; leave the metric "
                "out, or rank torch.logsumexp of the labels of each ancestor."
            )
        # no state could take an undefined softmax
        if validate and ranking.values is not None:
            is_infinite = ranking.in_counted_rows(ranking.values[:, :1] == torch.inf)
            if bool(is_infinite.any()):
                raise ValueError(
                    f"{self.caller}: preds holds inf, for which softmax is undefined; "
                    "pass finite scores."
                )

    def warn_of(self, metric: Any, ranking: Ranking) -> None:
        """Warn of scores in [0, 1], once for all members of a collection."""
        ranking.remembered(
            "probabilities warned of",
            lambda: _warn_of_probabilities(ranking, self.caller),
        )

    def values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Return the formula's value of each row, shape (1, N) or (1, N, G)."""
        return self.formula.with_arguments(buckets=self.buckets).at(
            self.relevant(ranking), self.ks
        )

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket looks at."""
        return (
            "relevant labels of the bucket, under the softmax of the scores of "
            "all labels"
        )


class ShownProbabilities(Probabilities):
    """The top k of each list with probabilities, and which labels are relevant."""

    takes = ("min_gain",)

    @property
    def required_depth(self) -> Depth:
        """How deep a batch has to be ranked."""
        return Depth(max(self.ks), max(self.ks))

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket looks at."""
        return "of the predicted labels that are in the bucket, whatever label is right"


class CalibrationBins(Aggregation):
    """Predictions in bins of their probability, with the share that is right.

    The value is the mean distance of this share from the probability.

    Args:
        bins: Number of bins of equal width; each bin includes its lower end.
        other_arguments: See :class:`Aggregation`.
    """

    takes = ()
    can_be_weighted = False

    def __init__(self, *arguments: Any, bins: int, **other_arguments: Any) -> None:
        super().__init__(*arguments, **other_arguments)
        self._bins = bins

    def states(self) -> dict[str, State]:
        """Return predictions, right predictions and sum of probabilities, by bin."""
        bins = len(self.reading.cutoffs), self.num_buckets, self._bins
        return {
            "shown": State(bins),
            "right": State(bins),
            "confidence": State((*bins, UNIT.columns)),
        }

    def increments(self, ranking: Ranking) -> Increments:
        """Return the predictions of a batch as cells of the bins."""
        ks, buckets = self.reading.ks, self.reading.buckets
        deepest = max(ks)
        ranking = self.reading.relevant(ranking)
        assert ranking.values is not None
        ids = ranking.ids[:, :deepest]
        rows = row_of_each(ids)

        probabilities = (
            ranking.log_probabilities(ranking.values[:, : ids.shape[1]], rows)
            .exp()
            .clamp(max=1)
        )
        probabilities = torch.where(ids >= 0, probabilities, 0.0)
        bins = torch.bucketize(
            probabilities, _edges(self._bins, ids.device), right=True
        )
        if buckets is None:
            bucket = torch.zeros_like(ids)
        else:
            bucket = buckets.of(ids).clamp(max=len(buckets) - 1)

        # each tensor has the shape (K, N, deepest) from here on
        numbers, cutoffs = torch.tensor([*enumerate(ks)], device=ids.device).T[
            ..., None, None
        ]
        shown = (ids >= 0) & (torch.arange(ids.shape[1], device=ids.device) < cutoffs)
        hits = shown & (ranking.gains[:, :deepest] > 0)
        cells = ((numbers * self.num_buckets + bucket) * self._bins + bins).reshape(-1)
        row = rows.expand(shown.shape).reshape(-1)
        return {
            "shown": AtCells(cells, shown.reshape(-1), row),
            "right": AtCells(cells, hits.reshape(-1), row),
            "confidence": in_limbs(
                UNIT, cells, torch.where(shown, probabilities, 0.0).reshape(-1), row
            ),
        }

    def values(self, states: States) -> Values:
        """Return the mean over predictions of |accuracy - mean probability|.

        Accuracy and mean probability are of the bin. NaN without a prediction.
        """
        num_right = states["right"].flatten().tolist()
        sums_of_probabilities = UNIT.totals(states["confidence"])
        predictions = [
            number * UNIT.unit
            for number in states["shown"].sum(dim=-1).flatten().tolist()
        ]
        distances = [0] * len(predictions)
        for place, (number, probabilities) in enumerate(
            zip(num_right, sums_of_probabilities, strict=True)
        ):
            distances[place // self._bins] += abs(
                number * UNIT.unit - int(probabilities)
            )
        return self.by_cutoff(ratios(distances, predictions))

    def denominators(self, states: States) -> Denominators:
        """Return the predictions."""
        return "predictions", states["shown"].sum(dim=-1).tolist()

    def facts(self, states: States) -> ValueFacts:
        """Return the number of predictions, their mean probability and accuracy."""
        shown = states["shown"].sum(dim=-1)
        confidence = UNIT.floats(states["confidence"]).sum(dim=-1) / shown
        accuracy = states["right"].sum(dim=-1) / shown

        calibration = []
        for sides in zip(shown, confidence, accuracy, strict=True):
            calibration.append([side.tolist() for side in sides])
        return ValueFacts(calibration=calibration)


@final
class CalibrationErrorAtK(TopKMetric):
    """Expected calibration error: weighted mean of |accuracy - mean probability|.

    The mean is over bins of probability, weighted by their number of labels.

    Lower is better, in [0, 1]; NaN when nothing is shown. The probabilities are the
    softmax of a row's scores over all labels; if ``preds`` are probabilities, pass
    their logarithm. The labels among the top k go into bins by their probability. With
    buckets, a prediction counts in the bucket of the predicted label, not in the bucket
    of the relevant label.

    Use it when scores are read as probabilities, such as a confidence beside a
    suggestion.

    ``preds`` are scores of all labels (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        bins: Number of bins of equal width; each bin includes its lower end.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = CalibrationErrorAtK(bins=2)
    >>> metric.update(torch.zeros(4, 4), torch.tensor([0, 0, 0, 3]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Guo, Pleiss, Sun and Weinberger, ICML 2017; TorchMetrics,
    ``MulticlassCalibrationError(norm="l1")``.
    """

    higher_is_better = False

    def __init__(
        self, k: Cutoffs = 1, *, bins: int = 15, **kwargs: Unpack[LevelArguments]
    ) -> None:
        self.bins = check_count(self._caller, "bins", bins)
        binned = partial(CalibrationBins, bins=self.bins)
        super().__init__(
            k, NO_FORMULA, reading=ShownProbabilities, aggregation=binned, **kwargs
        )


@made_once
def _edges(bins: int) -> Tensor:
    """Return the lower ends of all bins but the first."""
    return torch.tensor(
        [number / bins for number in range(1, bins)], dtype=torch.float64, device="cpu"
    )


def _warn_of_probabilities(ranking: Ranking, caller: str = "cross_entropy") -> None:
    """Warn if dense scores lie in [0, 1], as if softmax or sigmoid returned them."""
    scores = ranking.scores
    if scores is None:
        return
    sample = first_rows(ranking.context(caller), scores)
    if (
        sample is None
        or sample.shape[1] < 2
        or not bool(((sample >= 0) & (sample <= 1)).all() & sample.any())
    ):
        return

    # sums of 16-bit numbers are rough
    tolerance = 1e-3 if sample.dtype in (torch.float32, torch.float64) else 2e-2
    sums = sample.sum(dim=1, dtype=torch.float64)
    sums_to_one = bool(((sums - 1).abs() < tolerance).all())
    if sums_to_one:
        sign, remedy = "between 0 and 1 and add up to 1 in each row", "."
    else:
        sign, remedy = "between 0 and 1", "; otherwise pass the logits behind them."
    # of one score of 1 beside scores of 0
    highest = 1 / (1 + (sample.shape[1] - 1) / e)
    warn_of_batch(
        ranking.notes,
        f"{caller}: preds, {shape_of(scores)}, lie {sign}, {AS_PROBABILITIES}, whose "
        f"softmax are the probabilities, each at most {highest:.2g}. If these are "
        f"probabilities, pass preds.log(), on the command line --probabilities{remedy}",
    )


@partial(takes_arrays, warns=_warn_of_probabilities, row_axis=0)
def cross_entropy(ranking: Ranking, buckets: LabelBuckets | None = None) -> Tensor:
    """Mean of -log softmax(scores)[label] over the relevant labels of a row.

    The log is natural, and the softmax is over all L labels.

    Lower is better, in [0, inf]; inf if the score of a relevant label is -inf, 0
    without a relevant label.

    Args:
        ranking: A ranking of dense scores.
        buckets: If given, the mean is over the relevant labels of each of G buckets.

    Returns:
        Shape (N,), or (N, G) with buckets; float64.

    >>> import torch
    >>> round(float(cross_entropy(torch.tensor([[0.5, 0.5]]), torch.tensor([0]))), 4)
    0.6931

    Source: PyTorch, ``torch.nn.CrossEntropyLoss``.
    """
    entries = ranking.targets.entries
    if not ranking.scores_all:
        raise ValueError(
            "cross_entropy: the ranking was made from ids or candidates; rank dense "
            "scores [N, L]."
        )
    scores = ranking.scores_of_targets
    # both -inf: a row without any retrieved label
    log_probabilities = ranking.log_probabilities(scores, entries.rows)
    loss = torch.where(scores > -torch.inf, -log_probabilities, torch.inf).clamp(
        min=0.0
    )

    shape: tuple[int, ...] = (ranking.num_rows,)
    if buckets is not None:
        shape = (ranking.num_rows, len(buckets))
    keys, order = ranking.targets.keys(buckets), entries.ids.argsort(stable=True)
    padding = ranking.targets.kernels.padding(keys, shape, entries.width, order)
    losses = padding.place(loss, 0.0)
    n = padding.place((entries.ids >= 0).to(torch.int64), 0).sum(dim=-1)
    return torch.where(
        losses.isinf().any(dim=-1), torch.inf, divide(ordered_sum(losses), n)
    )


@final
class CrossEntropy(TopKMetric):
    """Mean over rows of the cross-entropy of the relevant labels.

    The probabilities are the softmax of dense scores.

    Lower is better, in [0, inf]; NaN before the first row. A row without a relevant
    label, such as a padded token, is left out: the value 0 would mean that the model is
    certain and right.

    Use it when the model is trained for probabilities, or when its probabilities are
    used.

    Scores are logits: the metric takes their softmax. If ``preds`` are probabilities,
    pass their logarithm.

    ``preds`` are scores of all labels (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = CrossEntropy()
    >>> metric.update(torch.zeros(1, 2), torch.tensor([1]))
    >>> metric.compute()
    tensor(0.6931, dtype=torch.float64)

    Source: PyTorch, ``torch.nn.CrossEntropyLoss``.
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))

    def __init__(self, **kwargs: Unpack[RelevanceArguments]) -> None:
        formula = Formula(
            cross_entropy,
            value_format=REAL,
            optional_k=True,
            reads_cutoff=False,
            usual_action="skip",
            is_of_softmax=True,
        )
        super().__init__(None, formula, reading=Probabilities, **kwargs)
