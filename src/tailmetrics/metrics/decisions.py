"""Metrics of the labels whose score is above a threshold: precision, recall and F1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from typing import Any, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import number_text, real_number, shape_of
from tailmetrics._transfer import digest_of
from tailmetrics.metrics._arguments_of_metrics import (
    Average,
    MacroOf,
    OverLabelsArguments,
)
from tailmetrics.metrics._formulas import Formula
from tailmetrics.metrics._labels import PRECISION, RECALL, ByAverage, CountRatio, f_beta
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._readings import Reading
from tailmetrics.metrics._states import AtCells, InBlocks, Increment, divide
from tailmetrics.ranking import NOT_RANKED, Ranking, TargetRanks
from tailmetrics.ranking._batch import Context
from tailmetrics.ranking._matrices import above
from tailmetrics.ranking._orders import row_of_each
from tailmetrics.ranking._reading import Depth
from tailmetrics.ranking._warnings import first_rows, warn_of_batch

__all__ = ["F1AtThreshold", "PrecisionAtThreshold", "RecallAtThreshold"]

Thresholds: TypeAlias = "float | Sequence[float] | Tensor | NDArray[np.floating[Any]]"


def _predictions(
    ranking: Ranking, thresholds: list[float | Tensor]
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield the labels of each row whose score is above each threshold.

    A threshold is a number, or one number per label (L,). Dense scores are read once, a
    block of rows at a time; scores are compared in their own type. Labels that are not
    stored, and candidates that are not listed, are not predicted; decisions (N, L) are
    taken as they are.

    Yields:
        For one threshold and some of the rows: the place of the threshold in
        ``thresholds``, and the rows and ids of the predicted labels, both (S,), int64;
        id -1 where nothing is predicted.
    """
    row_mask, kernels = ranking.row_mask, ranking.targets.kernels
    if not ranking.scores_all:
        yield from _predictions_of_lists(ranking, thresholds)
        return
    assert ranking.scores is not None
    for number, rows, ids in kernels.above(ranking.scores, thresholds):
        if row_mask is not None:
            ids = torch.where(row_mask[rows], ids, -1)
        yield number, rows, ids


def _predicted_per_row(ranking: Ranking, thresholds: list[float | Tensor]) -> Tensor:
    """Return how many dense scores of each row exceed each threshold, (N, T), int64."""
    assert ranking.scores is not None
    kernels, scores = ranking.targets.kernels, ranking.scores
    counts = torch.stack(
        [kernels.num_above(scores, threshold) for threshold in thresholds], dim=1
    )
    if ranking.row_mask is None:
        return counts
    return counts * ranking.row_mask[:, None]


def _targets_above(
    ranking: Ranking, threshold: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Return rows and ids (T,) of relevant labels above a threshold; id -1 is void."""
    if ranking.scores_all:
        entries = ranking.targets.entries
        is_above = _is_above(ranking.scores_of_targets, threshold, entries.ids) & (
            entries.ids >= 0
        )
        return entries.rows, torch.where(is_above, entries.ids, -1)

    assert ranking.values is not None
    hits = ranking.hits
    rows, ranks, ids = (
        row_of_each(hits.ids).reshape(-1),
        hits.ranks.reshape(-1),
        hits.ids.reshape(-1),
    )
    if not ranking.values.shape[1]:  # nothing is listed
        return rows, torch.full_like(ids, -1)
    is_listed = ranks < NOT_RANKED
    scores = ranking.values[rows, torch.where(is_listed, ranks - 1, 0)]
    is_above = _is_above(scores, threshold, ids) & is_listed
    return rows, torch.where(is_above, ids, -1)


def _is_above(scores: Tensor, threshold: float | Tensor, ids: Tensor) -> Tensor:
    """Return whether scores are above a number or one per label, shape of ``ids``."""
    if isinstance(threshold, Tensor):
        threshold = threshold.to(scores.device)[ids.clamp(min=0)]
    return above(scores, threshold)


def _predictions_of_lists(
    ranking: Ranking, thresholds: list[float | Tensor]
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield what :func:`_predictions` yields, of candidates and CSR."""
    assert ranking.values is not None
    ids, values = ranking.ids, ranking.values[:, : ranking.depth]
    rows = row_of_each(ids).reshape(-1)
    for number, threshold in enumerate(thresholds):
        predicted = _is_above(values, threshold, ids) & (ids >= 0)
        yield number, rows, torch.where(predicted, ids, -1).reshape(-1)


class Decisions(Reading):
    """The labels whose score is above a threshold, and which of them are relevant.

    A label that a CSR matrix or a list of candidates does not hold is not predicted.
    Scores are compared as they are. The threshold is rounded to the type of the scores:
    a bfloat16 score of 0.3 is not above 0.3. ``scope="global"`` changes only values of
    rows: precision of a bucket then divides by the predictions of all buckets. k is the
    threshold or thresholds.
    """

    takes = ("min_gain", "scope")
    needs_scores = True

    def _checked_cutoffs(self, k: Any) -> tuple[Any, ...]:
        """Return the thresholds as numbers; ``("",)`` for a threshold per label."""
        if (
            isinstance(k, Tensor)
            and k.ndim == 1
            and len(k)
            and k.is_floating_point()
            and not k.isnan().any()
        ):
            self.limits: list[float | Tensor] = [k.detach().to("cpu", copy=True)]
            return ("",)
        thresholds = [k]
        if isinstance(k, Sequence) and not isinstance(k, str):
            thresholds = list(k)
        numbers = []
        for threshold in thresholds:
            number = real_number(threshold)
            if number is not None and not isnan(number):
                numbers.append(number)
        if (
            not thresholds
            or len(numbers) != len(thresholds)
            or len(set(numbers)) != len(numbers)
        ):
            raise ValueError(
                f"{self.caller}: threshold={_shown(k, len(thresholds))}; pass a "
                "number, a list of distinct numbers, or a floating tensor or array "
                "(L,), in options a .npy file, with one threshold for each label; "
                "none may be NaN."
            )
        self.limits = list(numbers)
        return tuple(self.limits)

    @property
    def ks(self) -> tuple[int, ...]:
        """The number of each threshold, from 0, in place of the k of other metrics."""
        return tuple(range(len(self.cutoffs)))

    @property
    def required_depth(self) -> Depth:
        """How deep a batch has to be ranked."""
        return Depth(0, decisions=True)

    def warn_of(self, metric: Any, ranking: Ranking) -> None:
        """Warn of scores that look like logits beside thresholds in [0, 1]."""
        scores = ranking.values if ranking.scores is None else ranking.scores
        if scores is not None:
            # once for all members of a collection
            key = "logits warned of", self.cutoffs
            ranking.remembered(
                key,
                lambda: _warn_of_logits(
                    ranking.context(self.caller), scores, self.limits
                ),
            )

    def cut_name(self, k: Any) -> str:
        """Return a threshold as it is written in keys, behind @."""
        if isinstance(k, float):
            return f"t{number_text(k)}"
        return "t"

    def cut_text(self, k: Any) -> str:
        """Return a threshold as text for digests of arguments.

        For one threshold per label, the text is their range and a digest.
        """
        (limits, *others) = self.limits
        if others or not isinstance(limits, Tensor):
            return f"threshold={k}"
        low, high = limits.aminmax()
        return (
            f"threshold={float(low):g} to {float(high):g}, one for each label, "
            f"{digest_of(limits)}"
        )

    def places(self, k: Any) -> int:
        """Return 0: all scores are read."""
        return 0

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket looks at."""
        if isinstance(k, float):
            return f"labels with a score above {k:g}"
        return "labels with a score above their threshold"

    def values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Return the ratio of each row, shape (K, N) or (K, N, G)."""
        hits, predicted = self.counts(self.relevant(ranking), ranks)
        if self.scope == "global":
            predicted = predicted.sum(dim=2, keepdim=True).expand_as(hits)
        support = ranks.n_relevant.view(-1, 1, self.num_buckets)
        values = torch.where(
            support > 0, divide(*self.formula.function(hits, predicted, support)), 0.0
        )
        return values.movedim(1, 0).reshape(len(self.ks), *ranks.n_relevant.shape)

    def counts(self, ranking: Ranking, ranks: TargetRanks) -> tuple[Tensor, Tensor]:
        """Return the numbers of hits and of predictions, each of shape (N, K, G).

        K is the number of thresholds.
        """
        shape = ranking.num_rows, len(self.ks), self.num_buckets
        # the last cell takes entries without a label (id -1)
        cells = shape[0] * shape[1] * shape[2] + 1
        hits, predicted = torch.zeros(
            2, cells, dtype=torch.int64, device=ranking.ids.device
        )
        if self.buckets is None and ranking.scores is not None:
            predicted[:-1] = _predicted_per_row(ranking, self.limits).view(-1)
        else:
            for number, rows, ids in _predictions(ranking, self.limits):
                self._count(predicted, rows, ids, number)
        for number, threshold in enumerate(self.limits):
            self._count(hits, *_targets_above(ranking, threshold), number)
        return hits[:-1].view(shape), predicted[:-1].view(shape)

    def _count(self, counts: Tensor, rows: Tensor, ids: Tensor, threshold: int) -> None:
        cell = (rows * len(self.ks) + threshold) * self.num_buckets + self._bucket_of(
            ids
        )
        counts.scatter_add_(
            0, torch.where(ids >= 0, cell, len(counts) - 1), torch.ones_like(ids)
        )

    def _bucket_of(self, ids: Tensor) -> Tensor:
        """Return the bucket of each id; for the id -1 the number of buckets."""
        if self.buckets is None:
            return torch.where(ids >= 0, 0, 1)
        return self.buckets.of(ids)

    def hit_labels(
        self, ranking: Ranking, ranks: TargetRanks, k: int, counted: Tensor
    ) -> Increment:
        """Return an amount for each relevant label above a threshold.

        Only rows that count have amounts.
        """
        return self._in_rows_counted(*_targets_above(ranking, self.limits[k]), counted)

    def predicted_labels(self, ranking: Ranking, k: int, counted: Tensor) -> Increment:
        """Return an amount for each label above a threshold, in rows that count.

        The amounts come for a few rows at a time: with a low threshold, half of all
        labels have one.
        """

        def blocks() -> Iterator[AtCells]:
            for _, rows, ids in _predictions(ranking, [self.limits[k]]):
                yield self._in_rows_counted(rows, ids, counted)

        return InBlocks(blocks)

    def _in_rows_counted(self, rows: Tensor, ids: Tensor, counted: Tensor) -> AtCells:
        if counted.ndim == 1:
            row_counts = counted[rows]
        else:
            row_counts = counted[
                rows, self._bucket_of(ids).clamp(max=self.num_buckets - 1)
            ]
        return AtCells(ids.clamp(min=0), (ids >= 0) & row_counts, rows)

    def key_of_counts(self, by_bucket: bool) -> str:
        """Return the suffix for the name of a state of counts.

        Readings whose counts are equal have the same suffix.
        """
        suffix = self.key_of_level
        if self.buckets is not None and by_bucket:
            suffix += f"_{self.buckets.digest[:16]}"
        return f"{suffix}_above_{digest_of(self.limits)}"


def _shown(threshold: Any, count: int) -> str:
    """Return a threshold as an error shows it; a long list as its length."""
    if isinstance(threshold, Tensor):
        return shape_of(threshold)
    text = repr(threshold)
    if len(text) < 80:
        return text
    return f"{count} values"


class ThresholdArguments(OverLabelsArguments, total=False):
    """Keyword arguments of metrics with a threshold."""


class _ThresholdMetric(TopKMetric):
    """A metric that predicts a label if its score is above the threshold."""

    def __init__(self, threshold: Thresholds, ratio: CountRatio, **kwargs: Any) -> None:
        self.threshold = threshold = _plain(threshold)
        formula = Formula(ratio)
        super().__init__(
            threshold,
            formula,
            reading=Decisions,
            aggregation=ByAverage(ratio),
            **kwargs,
        )

    def _reconcile_facts(self) -> None:
        super()._reconcile_facts()
        limits = vars(self.reading)["limits"][0]
        if isinstance(limits, Tensor):
            self._take_num_labels("threshold", len(limits))


def _plain(threshold: Any) -> Any:
    """Return a threshold without types of NumPy.

    A number becomes a number of Python, a floating array (L,) a tensor; anything else
    stays as it is. A tensor of 16-bit numbers becomes float32, which NumPy knows, with
    the same values.
    """
    if (
        isinstance(threshold, Tensor)
        and threshold.is_floating_point()
        and threshold.element_size() < 4
    ):
        return threshold.float()
    if (
        isinstance(threshold, np.ndarray)
        and threshold.ndim == 1
        and threshold.dtype.kind == "f"
    ):
        return torch.tensor(threshold, device="cpu")
    if isinstance(threshold, np.number) or (
        isinstance(threshold, np.ndarray) and threshold.ndim == 0
    ):
        return threshold.item()
    if isinstance(threshold, (list, tuple)):
        return [_plain(number) for number in threshold]
    return threshold


@final
class PrecisionAtThreshold(_ThresholdMetric):
    """Share of the predicted labels that is relevant.

    A label is predicted where its score is above the threshold.

    Higher is better, in [0, 1]; 0 where nothing is predicted. NaN before the first row.

    Use it when a model decides for each label by itself, as in medical coding or
    tagging.

    ``preds`` are scores or bool (N, L), candidates (N, C) or CSR (N, L); ``target`` is
    (N,), (N, M) or (N, L).

    Args:
        threshold: A number, a list of numbers, or a tensor or array (L,) with one
            threshold for each label.
        average: ``"micro"``, ``"macro"``, ``"weighted"``, ``"samples"`` or ``"none"``,
            as in :class:`PrecisionAtK`.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PrecisionAtThreshold(0.4)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``precision_score``.
    """

    higher_is_better = True

    def __init__(
        self,
        threshold: Thresholds = 0.5,
        *,
        average: Average = "micro",
        **kwargs: Unpack[ThresholdArguments],
    ) -> None:
        super().__init__(threshold, PRECISION, average=average, **kwargs)


@final
class RecallAtThreshold(_ThresholdMetric):
    """Share of the relevant labels that is predicted.

    A label is predicted where its score is above the threshold.

    Higher is better, in [0, 1]; 0 where nothing is relevant. NaN before the first row.

    Use it when a model decides for each label by itself, and a missed label is the
    costly error.

    ``preds`` are scores or bool (N, L), candidates (N, C) or CSR (N, L); ``target`` is
    (N,), (N, M) or (N, L).

    Args:
        threshold: A number, a list of numbers, or a tensor or array (L,) with one
            threshold for each label.
        average: ``"micro"``, ``"macro"``, ``"weighted"``, ``"samples"`` or ``"none"``,
            as in :class:`PrecisionAtK`.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = RecallAtThreshold([0.05, 0.4])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor([1.0000, 0.5000], dtype=torch.float64)

    Source: scikit-learn, ``recall_score``.
    """

    higher_is_better = True

    def __init__(
        self,
        threshold: Thresholds = 0.5,
        *,
        average: Average = "micro",
        **kwargs: Unpack[ThresholdArguments],
    ) -> None:
        super().__init__(threshold, RECALL, average=average, **kwargs)


@final
class F1AtThreshold(_ThresholdMetric):
    """Harmonic mean of precision and recall of the predicted labels.

    A label is predicted where its score is above the threshold.

    Higher is better, in [0, 1]; 0 where nothing is predicted or nothing is relevant.
    NaN before the first row.

    Use it when you compare with the micro and macro F1 of papers on medical coding or
    product tagging.

    ``preds`` are scores or bool (N, L), candidates (N, C) or CSR (N, L); ``target`` is
    (N,), (N, M) or (N, L).

    Args:
        threshold: A number, a list of numbers, or a tensor or array (L,) with one
            threshold for each label.
        average: ``"micro"``, ``"macro"``, ``"weighted"``, ``"samples"`` or ``"none"``,
            as in :class:`PrecisionAtK`.
        macro: How ``average="macro"`` is computed: None, the mean of the labels'
            F-scores; ``"of_averages"``, the F-score of their mean precision and mean
            recall, as medical coding reports it.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = F1AtThreshold(0.4)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``f1_score``.
    """

    higher_is_better = True

    def __init__(
        self,
        threshold: Thresholds = 0.5,
        *,
        average: Average = "micro",
        macro: MacroOf | None = None,
        **kwargs: Unpack[ThresholdArguments],
    ) -> None:
        super().__init__(threshold, f_beta(1.0), average=average, macro=macro, **kwargs)


def _warn_of_logits(
    context: Context, scores: Tensor, thresholds: list[float | Tensor]
) -> None:
    """Warn if scores (N, L) or (N, C) lie outside [0, 1], but thresholds inside it."""
    limits = torch.cat([_as_vector(threshold) for threshold in thresholds])
    sample = first_rows(context, scores)
    if (
        sample is None
        or sample.dtype == torch.bool
        or not bool(((limits > 0) & (limits < 1)).any())
    ):
        return
    if not bool(((sample < 0) | (sample > 1))[sample.isfinite()].any()):
        return

    logits = "s instead"
    if limits.numel() == 1:
        logits = f": {context.caller}({float(limits.logit()):.4g})"
    warn_of_batch(
        context.notes,
        f"{context.caller}: preds, {shape_of(scores)}, hold scores below 0 or above 1, "
        "as logits are, but a threshold lies between. Scores are compared as they "
        "are. If the threshold is a probability, pass preds.sigmoid(), or its "
        f"logit{logits}.",
    )


def _as_vector(threshold: float | Tensor) -> Tensor:
    """Return a threshold, or one for each label, as a vector of float64."""
    device = getattr(threshold, "device", "cpu")
    return torch.as_tensor(threshold, device=device).reshape(-1).to(torch.float64)
