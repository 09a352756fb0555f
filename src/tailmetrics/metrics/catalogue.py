"""What is shown, whatever is relevant: coverage, evenness, popularity, novelty, overlap of lists, ties at the cut."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from math import fsum
from operator import mul
from typing import Any, ClassVar, Literal, TypeAlias, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import check_choice, check_count
from tailmetrics.metrics._arguments_of_metrics import Cutoffs, TopKArguments
from tailmetrics.metrics._metric import ShownMetric
from tailmetrics.metrics._states import Increments, PerRow, State, at_labels, at_targets, ratios
from tailmetrics.ranking import Ranking


class ExposureMetric(ShownMetric):
    """Base of metrics of how often each label is shown among the top k; a new metric defines the function.

    The counts are one state, which all such metrics share within a collection.
    """

    withheld: ClassVar[tuple[str, ...]] = ("min_gain",)
    needs: tuple[str, ...] = ("num_labels",)
    exposure: ClassVar[str] = ""
    """How the value is made of what rows show, as :class:`tailmetrics.significance.labels.ShownRows` names it."""

    @abstractmethod
    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        """Return the value, called at ``compute`` for every cut-off and bucket.

        Args:
            shown: Shape (L_b,), int64 on the CPU: how often each label (of the bucket) was shown; float64, the
                weight of the rows that it was shown in, if the metric is weighted.
            inside: Shape (L_b,), int64: the labels of the bucket; None for all.
        """

    def _states(self) -> dict[str, State]:
        assert self.num_labels is not None
        columns = (self._counts.columns,) if self.weighted else ()
        shown = {f"shown_at_{k}": State((self.num_labels, *columns), shared=not columns) for k in self.ks}
        return {**shown, "rows": State((1, self._counts.columns), shared=not columns)}

    def _prepare(self, ranking: Ranking) -> Increments:
        shown = {f"shown_at_{k}": at_labels(ranking.ids[:, :k], ranking.ids[:, :k] >= 0) for k in self.ks}
        return {**shown, "rows": _rows_of(ranking)}

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        if not self._counts.totals(states["rows"])[0]:
            return self._no_value()
        shown = (states[f"shown_at_{k}"].cpu() for k in self.ks)
        return [self._of_buckets(self._counts.floats(of_k) if self.weighted else of_k) for of_k in shown]

    def _of_buckets(self, counts: Tensor) -> list[float]:
        """Return the value of counts (L,), for each bucket where there are buckets."""
        buckets = self.bound_buckets
        if buckets is None:
            return [self._of_exposure(counts, None)]
        return [self._of_exposure(counts[inside], inside) for inside in buckets.labels]


def _exposure_value(formula: Callable[..., float], *facts: str) -> Any:
    """Return the method ``_of_exposure`` of a formula of counts, and of the facts of training that it reads."""

    def _of_exposure(self: Any, shown: Tensor, inside: Tensor | None) -> float:
        known = [getattr(self, name) for name in facts]
        known = [one[inside] if isinstance(one, Tensor) and inside is not None else one for one in known]
        return formula(shown, *known)

    return _of_exposure


def _rows_of(ranking: Ranking) -> PerRow:
    """Return, for each row, whether it counts, shape (N, 1)."""

    def make() -> PerRow:
        every = torch.ones(ranking.num_rows, 1, dtype=torch.bool, device=ranking.ids.device)
        return PerRow(every if ranking.row_mask is None else ranking.row_mask[:, None])

    return ranking.remembered("rows", make)


def _total(counts: Tensor) -> int:
    """Return the sum of whole numbers."""
    return int(counts.sum(dtype=torch.int64))


def catalog_coverage(shown: Tensor) -> float:
    """Share of the labels that are shown at all.

    Higher is better, in [0, 1]; NaN without labels.

    Args:
        shown: Shape (L,), int64, how often each label is shown.

    >>> import torch
    >>> catalog_coverage(torch.tensor([2, 0, 1, 0]))
    0.5

    Source: Ge, Delgado-Battenfeld and Jannach, RecSys 2010, "catalog coverage".
    """
    return _total(shown > 0) / len(shown) if len(shown) else float("nan")


def gini(shown: Tensor) -> float:
    """Gini index of exposure: sum of (2i - L - 1) c_(i) over L times the sum of c, with c ascending.

    Lower is more even, in [0, 1); NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown, zeros included.

    >>> import torch
    >>> gini(torch.tensor([0, 4]))
    0.5

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011), "Gini index".
    """
    counts = shown[shown > 0].sort().values.tolist()
    num_labels = len(shown)
    unseen = num_labels - len(counts)
    weighted = sum((2 * i - num_labels - 1) * count for i, count in enumerate(counts, start=unseen + 1))
    return weighted / (num_labels * sum(counts)) if counts else float("nan")


def entropy(shown: Tensor) -> float:
    """Entropy of exposure, -sum of p ln p, in nats.

    Higher is more even, in [0, ln L]; NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown.

    >>> import torch
    >>> round(entropy(torch.tensor([2, 2])), 4)
    0.6931

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011), "Shannon entropy".
    """
    counts = shown[shown > 0].double()
    if not len(counts):
        return float("nan")
    p = counts / _total(shown)
    return max(0.0, -fsum((p * p.log()).tolist()))


@final
class CatalogCoverageAtK(ExposureMetric):
    """Share of the labels that at least one row shows among its top k.

    Higher is better, in [0, 1]; NaN for a bucket without labels.

    Use it when a label that is never shown is a loss, such as an item of a shop.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        num_labels: Number of labels L; if not given, taken from the buckets or from ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = CatalogCoverageAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)

    Source: Ge, Delgado-Battenfeld and Jannach, RecSys 2010.
    """

    exposure = "coverage"
    higher_is_better = True

    _of_exposure = _exposure_value(catalog_coverage)


@final
class GiniAtK(ExposureMetric):
    """Gini index of how often each label is shown among the top k, labels never shown included.

    Lower is more even, in [0, 1); NaN when nothing is shown.

    Use it when a few labels must not take all the exposure.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        num_labels: Number of labels L; if not given, taken from the buckets or from ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = GiniAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011).
    """

    exposure = "gini"
    higher_is_better = False

    _of_exposure = _exposure_value(gini)


@final
class EntropyAtK(ExposureMetric):
    """Entropy, in nats, of how often each label is shown among the top k.

    Higher is more even, in [0, ln L]; NaN when nothing is shown.

    Use it when exposure should be spread over many labels. exp(entropy) is the effective number of labels shown.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        num_labels: Number of labels L; if not given, taken from the buckets or from ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = EntropyAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [3]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.6931, dtype=torch.float64)

    Source: Shani and Gunawardana, Recommender Systems Handbook (2011).
    """

    exposure = "entropy"
    higher_is_better = True
    bounds = (0.0, float("inf"))

    _of_exposure = _exposure_value(entropy)


def popularity(shown: Tensor, label_counts: Tensor) -> float:
    """Mean training count of the labels shown.

    Higher is more popular, in [0, inf); NaN when nothing is shown.

    Args:
        shown: Shape (L,), int64, how often each label is shown; with row weights float64, the sum of the weights of the
            rows that show it.
        label_counts: Shape (L,), int64, how often each label occurs in training.

    >>> import torch
    >>> popularity(torch.tensor([1, 1]), torch.tensor([6, 3]))
    4.5

    Source: Yin et al., PVLDB 5 (2012), average recommendation popularity.
    """
    if shown.is_floating_point():
        seen = fsum(shown.tolist())
        return fsum((shown * label_counts).tolist()) / seen if seen else float("nan")
    some, times = shown > 0, _total(shown)
    total = sum(map(mul, shown[some].tolist(), label_counts[some].tolist()))  # exact, however large it is
    return total / times if times else float("nan")


def novelty(shown: Tensor, label_counts: Tensor, num_train: int) -> float:
    """Mean of -log2(training count / training rows) of the labels shown; an unseen label has training count 1.

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
    return fsum((bits * shown[seen]).tolist()) / _total(shown) if bool(seen.any()) else float("nan")


class _TrainingMetric(ExposureMetric):
    """A metric that knows the training counts.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets or from ``bind``.
        kwargs: See :class:`TopKMetric`.
    """

    needs: tuple[str, ...] = ("num_labels", "label_counts")

    def __init__(self, k: Cutoffs, *, label_counts: Any = None, **kwargs: Unpack[TopKArguments]) -> None:
        self.label_counts = label_counts
        super().__init__(k, **kwargs)


@final
class PopularityAtK(_TrainingMetric):
    """Mean training count of the labels shown among the top k.

    Higher is more popular, in [0, inf); NaN when nothing is shown.

    Use it when the question is how much a model leans on frequent labels.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets or from ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PopularityAtK(k=1, label_counts=[5, 3, 1])
    >>> metric.update(torch.tensor([[0], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(3., dtype=torch.float64)

    Source: Yin et al., PVLDB 5 (2012).
    """

    exposure = "mean"
    higher_is_better = False
    bounds = (0.0, float("inf"))
    can_be_weighted = True

    _of_exposure = _exposure_value(popularity, "label_counts")


@final
class PopularityLiftAtK(_TrainingMetric):
    """Mean training count of the labels shown, divided by the mean training count of the relevant labels.

    In [0, inf). Above 1, the labels shown are more frequent in training than the relevant labels; below 1, they are
    rarer. NaN when nothing is shown, or when no relevant label occurs in training.

    Use it when you want the popularity bias of a model as one number.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets or from ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PopularityLiftAtK(k=1, label_counts=[6, 3, 1])
    >>> metric.update(torch.tensor([[0], [0]]), torch.tensor([0, 1]))
    >>> round(float(metric.compute()), 4)
    1.3333

    Source: Abdollahpouri et al., FLAIRS 2019, with the relevant labels in place of the users' profiles.
    """

    exposure = "lift"
    higher_is_better = False
    bounds = (0.0, float("inf"))
    withheld = ()

    def _states(self) -> dict[str, State]:
        assert self.num_labels is not None
        return {**super()._states(), "relevant": State((self.num_labels,), shared=self.min_gain is None)}

    def _prepare(self, ranking: Ranking) -> Increments:
        return {**super()._prepare(ranking), "relevant": at_targets(self._relevant(ranking))}

    _of_exposure = _exposure_value(popularity, "label_counts")

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        relevant = self._of_buckets(states["relevant"].cpu())
        shown = super()._values(states)
        nan = float("nan")
        return [[top / bottom if bottom else nan for top, bottom in zip(of_k, relevant, strict=True)] for of_k in shown]


@final
class NoveltyAtK(_TrainingMetric):
    """Mean of -log2(share of training rows that hold the label) over the labels shown among the top k.

    Higher is more novel, in [0, inf); NaN when nothing is shown.

    Use it when users already know the frequent labels, so that rare labels tell them more.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        label_counts: Shape (L,), training counts; if not given, taken from the buckets or from ``bind``.
        num_train: Number of training rows; if not given, taken from ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = NoveltyAtK(k=1, label_counts=[4, 2, 1], num_train=4)
    >>> metric.update(torch.tensor([[0], [2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: Zhou et al., PNAS 107 (2010).
    """

    exposure = "mean"
    higher_is_better = True
    bounds = (0.0, float("inf"))

    needs = ("num_labels", "label_counts", "num_train")

    def __init__(
        self, k: Cutoffs, *, label_counts: Any = None, num_train: int | None = None, **kwargs: Unpack[TopKArguments]
    ) -> None:
        self.num_train = None if num_train is None else check_count(self._caller, "num_train", num_train)
        super().__init__(k, label_counts=label_counts, **kwargs)

    def _settle_facts(self) -> None:
        super()._settle_facts()
        self.num_train = self.num_train or None  # counts of no row tell nothing

    _of_exposure = _exposure_value(novelty, "label_counts", "num_train")


def personalization(shown: Tensor, num_rows: int, k: int) -> float:
    """One minus the mean overlap of the top k of two rows: 1 - sum of c (c - 1) / (k R (R - 1)).

    Higher is more personal, in [0, 1]; NaN with fewer than two rows.

    Args:
        shown: Shape (L,), int64, c: how often each label is shown.
        num_rows: R, number of rows.
        k: Length of the lists. The overlap of two lists is the number of labels that they share, divided by k.

    >>> import torch
    >>> personalization(torch.tensor([2, 1, 1]), num_rows=2, k=2)
    0.5

    Source: the recommender library recmetrics, "personalization", with overlap in place of cosine similarity.
    """
    shared = sum(count * (count - 1) for count in shown[shown > 1].tolist())
    pairs = num_rows * (num_rows - 1)
    return (k * pairs - shared) / (k * pairs) if pairs else float("nan")


@final
class PersonalizationAtK(ExposureMetric):
    """One minus the mean overlap of the top k of two rows.

    Higher is more personal, in [0, 1]; NaN with fewer than two rows.

    Use it when you ask whether a recommender shows different labels to different users.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        num_labels: Number of labels L; needed only if ``preds`` do not show it, as with ids.
        kwargs: See :class:`TopKMetric`; an overlap is of whole lists, so there are no buckets.

    >>> import torch
    >>> metric = PersonalizationAtK(k=2, num_labels=4)
    >>> metric.update(torch.tensor([[0, 1], [0, 2]]), torch.tensor([0, 0]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: the recommender library recmetrics, "personalization".
    """

    exposure = "personalization"
    higher_is_better = True
    withheld = (*ExposureMetric.withheld, "buckets")

    _of_exposure = _exposure_value(personalization)  # of rows and k too: see _values

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        rows = int(states["rows"].sum())
        return [[personalization(states[f"shown_at_{k}"].cpu(), rows, k)] for k in self.ks]


LabelDenominator: TypeAlias = Literal["observed", "known"]


@final
class PositiveCoverageAtK(ShownMetric):
    """Share of the labels that are a hit at least once: relevant in a row, and among the top k of that row.

    Higher is better, in [0, 1]; NaN if the denominator is 0.

    Use it when every label should be found at least once, as in coding with many rare classes.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        denominator: Labels that are counted: ``"observed"``, those in the targets; ``"known"``, all labels (of the
            bucket).
        num_labels: Number of labels L; if not given, taken from the buckets or from ``bind``.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = PositiveCoverageAtK(k=1, num_labels=4)
    >>> metric.update(torch.tensor([[2], [2]]), torch.tensor([2, 1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: napkinXC, ``coverage_at_k``.
    """

    higher_is_better = True
    needs = ("num_labels",)

    def __init__(
        self, k: Cutoffs, *, denominator: LabelDenominator = "observed", **kwargs: Unpack[TopKArguments]
    ) -> None:
        self.denominator: LabelDenominator = check_choice(self._caller, "denominator", denominator, LabelDenominator)
        super().__init__(k, **kwargs)

    def _states(self) -> dict[str, State]:
        assert self.num_labels is not None
        flags = State((self.num_labels,), reduce="max", dtype=torch.uint8, shared=self.min_gain is None)
        names = [*(f"hit_at_{k}" for k in self.ks), "observed"]
        return {**dict.fromkeys(names, flags), "rows": State((1,), shared=True)}

    def _prepare(self, ranking: Ranking) -> Increments:
        ranking = self._relevant(ranking)
        hits = {f"hit_at_{k}": at_labels(ranking.target_ids, ranking.within(k)) for k in self.ks}
        return {**hits, "observed": at_targets(ranking), "rows": _rows_of(ranking)}

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        if not int(states["rows"].sum()):
            return self._no_value()
        observed = states["observed"].cpu()
        known = self._by_bucket(observed if self.denominator == "observed" else torch.ones_like(observed))
        return [ratios(self._by_bucket(states[f"hit_at_{k}"].cpu()), known) for k in self.ks]

    def _by_bucket(self, flags: Tensor) -> list[int]:
        buckets = self.bound_buckets
        return [_total(part) for part in ([flags] if buckets is None else [flags[own] for own in buckets.labels])]


@final
class PredictionProportionAtK(ShownMetric):
    """Share of the places in all top k lists (k per row) that show a label of the bucket.

    Neither direction is better, in [0, 1]; NaN before the first row. Without buckets: the share of places that show any
    label.

    Use it with buckets when the question is how many places head labels and tail labels take.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> from tailmetrics import LabelBuckets
    >>> buckets = LabelBuckets.from_assignment([0, 0, 1], ["head", "tail"])
    >>> metric = PredictionProportionAtK(k=2, buckets=buckets)
    >>> metric.update(torch.tensor([[0, 1], [0, 2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor([0.7500, 0.2500], dtype=torch.float64)

    Source: Abdollahpouri, Burke and Mobasher, FLAIRS 2019, "APLT", for each bucket.
    """

    higher_is_better = None
    can_be_weighted = True
    withheld = ("min_gain",)

    def _states(self) -> dict[str, State]:
        columns = self._counts.columns
        return {"shown": State((len(self.cutoffs), self._num_buckets, columns)), "rows": State((1, columns))}

    def _prepare(self, ranking: Ranking) -> Increments:
        shown = torch.stack([self._shown_of(ranking, k) for k in self.ks], dim=1)
        return {"shown": PerRow(shown), "rows": _rows_of(ranking)}

    def _shown_of(self, ranking: Ranking, k: int) -> Tensor:
        """Return how many labels of each bucket each row shows among its top k, shape (N, G)."""
        ids, buckets = ranking.ids[:, :k], self.bound_buckets
        if buckets is None:
            return (ids >= 0).sum(dim=1, keepdim=True)
        return buckets.totals(ids)

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        (rows,), shown = self._counts.totals(states["rows"]), self._counts.totals(states["shown"])
        places = ([k * int(rows)] * self._num_buckets for k in self.ks)
        return [ratios(*pair) for pair in zip(self._by_cutoff(shown), places, strict=True)]

    def _of_rows(self, ranking: Ranking) -> Tensor:
        return torch.cat([self._shown_of(ranking, k).T.to(torch.float64) / k for k in self.ks])


@final
class TieRateAtK(ShownMetric):
    """Share of rows in which the last label of the top k has the same score as the next label.

    Lower is better, in [0, 1]; NaN without a row that has scores. Of equal scores, the label with the lower id is
    shown. If ids are sorted by frequency, a model that gives every label the same score therefore looks good on head
    labels.

    Use it when scores may be equal, as in a model of low precision or a model that has learnt little.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L), but not ids, which have no scores; ``target`` is (N,),
    (N, M) or (N, L), and is not read.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`; a tie is of a row, so there are no buckets.

    >>> import torch
    >>> metric = TieRateAtK(k=1)
    >>> metric.update(torch.tensor([[0.5, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([0, 0]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: defined by this library: in other libraries, a model with constant scores looks good on head labels.
    """

    higher_is_better = False
    withheld = ("min_gain", "buckets")

    def _states(self) -> dict[str, State]:
        return {"tied": State((len(self.cutoffs),)), "rows": State((1,))}

    def _prepare(self, ranking: Ranking) -> Increments:
        tied = torch.stack([ranking.tied_at(k) for k in self.ks], dim=1)
        rows = _rows_of(ranking)
        return {"tied": PerRow(tied), "rows": rows if ranking.values is not None else PerRow(rows.values & False)}

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        rows = int(states["rows"])
        return [ratios([tied], [rows]) for tied in states["tied"].tolist()]

    def _of_rows(self, ranking: Ranking) -> Tensor:
        tied = torch.stack([ranking.tied_at(k) for k in self.ks]).to(torch.float64)
        return tied if ranking.values is not None else torch.full_like(tied, torch.nan)
