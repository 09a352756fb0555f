"""How common in training what is shown is: popularity and novelty."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import Any, final

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._checks import check_count, check_counts
from tailmetrics.metrics._arguments_of_metrics import Cutoffs, TopKArguments
from tailmetrics.metrics._shown import ExposureMetric, total
from tailmetrics.metrics._states import AtCells, Increments, State
from tailmetrics.metrics._training_counts import check_counts_fit
from tailmetrics.ranking import Ranking


def popularity(shown: Tensor, label_counts: Tensor) -> float:
    """Mean training count of the labels shown.

    Higher is more popular, in [0, inf); NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown; float64, how much weight saw it.
        label_counts: Shape (L,), int64, how often each label occurs in training.

    >>> import torch
    >>> popularity(torch.tensor([1, 1]), torch.tensor([6, 3]))
    4.5

    Source: Yin et al., PVLDB 5 (2012), average recommendation popularity.
    """
    if shown.is_floating_point():
        seen = fsum(shown.tolist())
        return fsum((shown * label_counts).tolist()) / seen if seen else float("nan")
    times = total(shown)
    return _exact_product_sum(shown, label_counts) / times if times else float("nan")


def _exact_product_sum(shown: Tensor, label_counts: Tensor) -> int:
    """Return the sum of the products of two vectors of whole numbers, however large it is."""
    if float((shown.double() * label_counts).sum()) < 2**62:
        return int((shown * label_counts).sum())
    seen = (shown > 0) & (label_counts > 0)
    return sum(times * count for times, count in zip(shown[seen].tolist(), label_counts[seen].tolist(), strict=True))


def novelty(shown: Tensor, label_counts: Tensor, num_train: int) -> float:
    """Mean of -log2(training count / training rows) of the labels shown, labels never seen counted once.

    Higher is more novel, in [0, inf); NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown.
        label_counts: Shape (L,), int64, how often each label occurs in training.
        num_train: Number of training rows.

    >>> import torch
    >>> novelty(torch.tensor([1, 1]), torch.tensor([4, 2]), num_train=8)
    1.5

    Source: Zhou et al., PNAS 107 (2010), self-information of what is recommended.
    """
    seen = shown > 0
    bits = -(label_counts[seen].clamp(min=1, max=num_train).double() / num_train).log2()
    return fsum((bits * shown[seen]).tolist()) / total(shown) if bool(seen.any()) else float("nan")


class _TrainingMetric(ExposureMetric):
    """A metric that knows the training counts.

    Args:
        k: Cut-off, or several.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        kwargs: See :class:`TopKMetric`.
    """

    needs: tuple[str, ...] = ("num_labels", "label_counts")

    def __init__(self, k: Cutoffs, *, label_counts: Any = None, **kwargs: Unpack[TopKArguments]) -> None:
        self.label_counts = None if label_counts is None else check_counts(self._caller, "label_counts", label_counts)
        if self.label_counts is not None:
            kwargs.setdefault("num_labels", len(self.label_counts))
        super().__init__(k, **kwargs)

    def _settle_facts(self) -> None:
        super()._settle_facts()
        self.label_counts = check_counts_fit(self, self.label_counts)

    def _counts_of(self, inside: Tensor | None) -> Tensor:
        assert self.label_counts is not None
        return self.label_counts if inside is None else self.label_counts[inside]


@final
class PopularityAtK(_TrainingMetric):
    """Mean training count of the labels shown among the top k.

    Higher is more popular, in [0, inf); NaN when nothing is shown.

    Use it when the question is how much a model leans on frequent labels.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PopularityAtK(k=1, label_counts=[5, 3, 1])
    >>> metric.update(torch.tensor([[0], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(3., dtype=torch.float64)

    Source: Yin et al., PVLDB 5 (2012).
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))
    stem = "popularity"
    can_be_weighted = True

    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        return popularity(shown, self._counts_of(inside))


@final
class PopularityLiftAtK(_TrainingMetric):
    """Mean training count of the labels shown, divided by that of the relevant labels.

    1 is even; above 1 the model shows more popular labels than are relevant, below 1 rarer ones; in [0, inf); NaN
    when nothing is shown, or nothing seen in training is relevant.

    Use it when the popularity bias of a model is asked for in one number.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PopularityLiftAtK(k=1, label_counts=[6, 3, 1])
    >>> metric.update(torch.tensor([[0], [0]]), torch.tensor([0, 1]))
    >>> round(float(metric.compute()), 4)
    1.3333

    Source: Abdollahpouri et al., FLAIRS 2019, with the relevant labels in place of the users' profiles.
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))
    stem = "popularity_lift"
    withheld = ()

    def _states(self) -> dict[str, State]:
        assert self.num_labels is not None
        return {**super()._states(), "relevant": State((self.num_labels,), shared=self.min_gain is None)}

    def _prepare(self, ranking: Ranking) -> Increments:
        entries = self._relevant(ranking).targets.entries
        relevant = AtCells(entries.ids.clamp(min=0), entries.ids >= 0, entries.rows)
        return {**super()._prepare(ranking), "relevant": relevant}

    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        return popularity(shown, self._counts_of(inside))

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        relevant = self._of_buckets(states["relevant"].cpu())
        shown = super()._values(states)
        return [[_lift(top, bottom) for top, bottom in zip(of_k, relevant, strict=True)] for of_k in shown]


def _lift(shown: float, relevant: float) -> float:
    return shown / relevant if relevant else float("nan")


@final
class NoveltyAtK(_TrainingMetric):
    """Mean of -log2 of the share of training rows that have a label, over the labels shown among the top k.

    Higher is more novel, in [0, inf); NaN when nothing is shown.

    Use it when users know the frequent labels without being shown them.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        label_counts: Shape (L,), training counts; from the buckets, or left to ``bind``, if not given.
        num_train: Number of training rows; left to ``bind`` if not given.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = NoveltyAtK(k=1, label_counts=[4, 2, 1], num_train=4)
    >>> metric.update(torch.tensor([[0], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: Zhou et al., PNAS 107 (2010).
    """

    higher_is_better = True
    bounds = (0.0, float("inf"))
    stem = "novelty"

    needs = ("num_labels", "label_counts", "num_train")

    def __init__(
        self, k: Cutoffs, *, label_counts: Any = None, num_train: int | None = None, **kwargs: Unpack[TopKArguments]
    ) -> None:
        self.num_train = None if num_train is None else check_count(self._caller, "num_train", num_train)
        super().__init__(k, label_counts=label_counts, **kwargs)

    def _settle_facts(self) -> None:
        super()._settle_facts()
        self.num_train = self.num_train or None  # counts of no row tell nothing

    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        assert self.num_train is not None
        return novelty(shown, self._counts_of(inside), self.num_train)
