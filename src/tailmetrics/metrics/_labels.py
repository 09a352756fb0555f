"""Averages over labels: micro, macro and weighted, from true positives, predictions and support of each label."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tailmetrics._arguments import check_choice
from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._aggregations import Aggregation, Facts, MeanOfRows, Values, by_weight, with_bucket_axis
from tailmetrics.metrics._arguments_of_metrics import EmptyTargetAction, LabelSet, MacroOf
from tailmetrics.metrics._readings import Reading
from tailmetrics.metrics._states import (
    COUNT,
    REAL,
    UNIT,
    FixedPoint,
    Increment,
    Increments,
    PerRow,
    State,
    at_targets,
    divide,
)
from tailmetrics.ranking import Ranking, TargetRanks
from tailmetrics.ranking._device import real_dtype

LabelRatio: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

BLOCK_LABELS = 2**18
"""Number of labels averaged at once, to bound the memory at millions of labels."""

AVERAGED = {"present": "labels with rows", "union": "labels with rows or predictions", "all": "labels"}
"""The labels that a macro average counts."""
OVER = {
    "present": "the mean over the labels that are relevant in some row",
    "union": "the mean over the labels that are relevant or predicted in some row",
    "all": "the mean over all labels",
}


@dataclass(frozen=True)
class CountRatio:
    """A ratio of true positives TP, predictions P and support S, of a row, of all rows, or of a label.

    The ratio is ``hits`` TP / (``predicted`` P + ``support`` S). Precision is 1, 1, 0; recall is 1, 0, 1; F-beta is
    1 + beta^2, 1, beta^2.
    Source: van Rijsbergen, Information Retrieval (1979); scikit-learn's ``fbeta_score``.
    """

    hits: float
    predicted: float
    support: float

    def __call__(self, hits: Tensor, predicted: Any, support: Tensor) -> tuple[Tensor, Tensor]:
        """Return numerator and denominator; whole numbers for precision and recall, else float64."""
        if not self.predicted:
            return hits, support
        if not self.support:
            return hits, predicted
        real = real_dtype(hits.device)
        if self.predicted != 1:
            predicted = self.predicted * torch.as_tensor(predicted, dtype=real, device=hits.device)
        return self.hits * hits.to(real), predicted + self.support * support.to(real)

    @property
    def reads(self) -> frozenset[str]:
        """The counts that the ratio reads beside hits."""
        return frozenset({*(["predicted"] if self.predicted else []), *(["support"] if self.support else [])})

    @property
    def of(self) -> str:
        """What the ratio divides by, in words."""
        names = (("predictions", self.predicted), ("relevant labels", self.support))
        return " and ".join(name for name, factor in names if factor)


PRECISION, RECALL = CountRatio(1, 1, 0), CountRatio(1, 0, 1)


LARGEST_BETA = 2.0**27
"""For a larger beta, 1 + beta^2 is beta^2 in float64; beta^2 itself may be more than float64 holds."""


def f_beta(beta: float) -> CountRatio:
    """Return the ratio of counts of F-beta; for a huge beta with all three numbers divided by beta^2."""
    if beta > LARGEST_BETA:
        return CountRatio(1.0, beta**-2, 1.0)
    return CountRatio(1 + beta**2, 1, beta**2)


@dataclass(frozen=True)
class ByAverage:
    """Makes the aggregation of a ratio of counts by ``average``: of each row, of all rows, or of each label.

    Attributes:
        ratio: The ratio.
        averages: The averages that the metric takes.
        up_to_k: Whether the support of a row is at most k, the largest possible number of hits.
    """

    ratio: CountRatio
    averages: tuple[str, ...] = ("samples", "micro", "macro", "weighted", "none")
    up_to_k: bool = False
    takes: tuple[str, ...] = ("average", "empty_target_action", "labels", "macro")

    def __call__(
        self,
        caller: str,
        reading: Reading,
        weighted: bool,
        *,
        average: str = "samples",
        labels: LabelSet = "present",
        macro: MacroOf | None = None,
        empty_target_action: EmptyTargetAction | None = None,
    ) -> Aggregation:
        """Return the aggregation; arguments that say something about another average are an error."""
        check_choice(caller, "average", average, self.averages, " to this metric")
        check_choice(caller, "labels", labels, LabelSet)
        of_macro = {"macro": macro, "labels": None if labels == "present" else labels}
        if macro is not None:
            check_choice(caller, "macro", macro, MacroOf)
        for name, value in of_macro.items():
            if value is not None and average != "macro":
                over = " over" if name == "labels" else ""
                raise ValueError(
                    f"{caller}: {name}={value!r} says what average='macro' is{over}; average is {average!r}."
                )
        over_labels: Callable[..., Aggregation] = partial(OverLabels, ratio=self.ratio, labels=labels, macro=macro)
        of_rows: dict[str, Callable[..., Aggregation]] = {
            "samples": MeanOfRows,
            "micro": partial(RatioOfCounts, ratio=self.ratio, up_to_k=self.up_to_k),
        }
        own: dict[str, Any] = {"average": average, "empty_target_action": empty_target_action}
        return of_rows.get(average, over_labels)(caller, reading, weighted, **own)


class _CountAggregation(Aggregation):
    """An aggregation of hits, predictions and support."""

    actions = ("neg", "skip", "error")
    reading: Any

    tie_rules = ("id",)  # of labels, the counts in another order are not known

    def __init__(self, caller: str, reading: Reading, weighted: bool, *, ratio: CountRatio, **arguments: Any) -> None:
        super().__init__(caller, reading, weighted, **arguments)
        self.ratio = ratio

    def _usual_action(self, reading: Reading) -> str:
        """Return ``"neg"``, also within buckets.

        Averages over labels do not skip rows without a relevant label of a bucket: most false positives of the bucket
        are in such rows, so that the value of a bucket would look better, the rarer its labels are.
        """
        return "neg"

    def counted(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Return whether each row counts, shape (N,) or (N, G), bool."""
        if self.empty_target_action == "skip":
            return ranks.n_relevant > 0
        row_mask = ranking.row_mask
        row_mask = torch.ones_like(ranking.n_relevant, dtype=torch.bool) if row_mask is None else row_mask
        return row_mask if ranks.n_relevant.ndim == 1 else row_mask[:, None].expand_as(ranks.n_relevant)


class RatioOfCounts(_CountAggregation):
    """The ratio of hits, predictions and support of all rows: ``average="micro"``.

    Args:
        up_to_k: Whether the support of a row is at most k.
        other_arguments: See :class:`Aggregation`.
    """

    averages = ("micro",)
    row_terms = "ratio"

    def __init__(self, *arguments: Any, up_to_k: bool = False, **other_arguments: Any) -> None:
        super().__init__(*arguments, **other_arguments)
        self._up_to_k = up_to_k

    def states(self) -> dict[str, State]:
        """Return the three counts, and the number of rows that count."""
        size, columns = self.num_buckets, self.row_format.columns
        return {
            "counts": State((len(self.reading.cutoffs), size, 3, columns)),
            "counted": State((size, columns)),
        }

    def _row_counts(self, ranking: Ranking) -> tuple[Tensor, Tensor]:
        """Return hits, predictions and support of each row, (N, K, G, 3), 0 in rows that do not count; and which do."""
        reading = self.reading
        ranks, ranking = reading.of(ranking), reading.relevant(ranking)
        counted = self.counted(ranking, ranks)
        hits, predicted = reading.counts(ranking, ranks)
        support = ranks.n_relevant.view(-1, 1, self.num_buckets).expand_as(hits)
        if self._up_to_k:
            support = torch.stack([support[:, at].clamp(max=k) for at, k in enumerate(reading.ks)], dim=1)
        counts = torch.stack([hits, predicted, support], dim=-1)
        return counts * counted.view(-1, 1, self.num_buckets, 1), counted

    def increments(self, ranking: Ranking) -> Increments:
        """Return the counts of the rows of a batch."""
        counts, counted = self._row_counts(ranking)
        return {"counts": PerRow(counts), "counted": PerRow(with_bucket_axis(counted))}

    def values(self, states: Mapping[str, Tensor]) -> Values:
        """Return the ratios. If no row has a prediction, precision is 0; if there are no rows, it is NaN."""
        counted = self.row_format.totals(states["counted"])
        top, bottom = self._terms(states)
        return [
            [a / b if b else (0.0 if some else float("nan")) for a, b, some in zip(tops, bottoms, counted, strict=True)]
            for tops, bottoms in zip(top.tolist(), bottom.tolist(), strict=True)
        ]

    def _terms(self, states: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return numerator and denominator by cut-off and bucket, (K, G) each, in the format of numbers of rows."""
        shape = states["counts"].shape[:-1]
        counts = torch.tensor(self.row_format.totals(states["counts"]), dtype=torch.float64, device="cpu").view(shape)
        return self.ratio(*counts.unbind(-1))

    def denominators(self, states: Mapping[str, Tensor]) -> tuple[str, Sequence[Sequence[float]]]:
        """Return the predictions, the relevant labels, the attainable hits, or for F-scores their weighted sum."""
        found: list[list[float]] = (self._terms(states)[1] / self.row_format.unit).tolist()
        what = self.ratio.of
        if self._up_to_k:
            what = "attainable hits"
        return by_weight(what, self.weighted), found

    def not_measured(self, states: Mapping[str, Tensor]) -> Sequence[Sequence[bool]]:
        """Return by cut-off and bucket whether no label is relevant in any row."""
        has_support = states["counts"][:, :, 2].any(dim=-1)
        empty: list[list[bool]] = has_support.logical_not().tolist()
        return empty

    def of_rows(self, ranking: Ranking) -> Tensor:
        """Return both terms of each row by cut-off and bucket, (2, K * G, N)."""
        counts, _ = self._row_counts(ranking)
        return torch.stack(self.ratio(*counts.to(torch.float64).unbind(-1))).flatten(2).movedim(1, -1)


class OverLabels(_CountAggregation):
    """The mean over labels of the ratio of each label, plain or weighted by support, or the ratios themselves.

    Args:
        labels: The labels of a macro average.
        macro: How the macro average of an F-score is computed.
        other_arguments: See :class:`Aggregation`.
    """

    takes = ("average", "empty_target_action", "labels", "macro")
    averages = ("macro", "weighted", "none")
    needs = ("num_labels",)

    def __init__(
        self, *arguments: Any, labels: LabelSet = "present", macro: MacroOf | None = None, **other_arguments: Any
    ) -> None:
        super().__init__(*arguments, **other_arguments)
        if self.reading.formula.arguments.get("denominator") == "k":
            raise ValueError(
                f"{self.caller}: denominator='k' means nothing per label; use average='samples' or 'micro'."
            )
        self.labels: LabelSet = labels
        self.macro: MacroOf | None = macro
        sets: dict[LabelSet, tuple[str, ...]] = {"present": ("support",), "union": ("predicted", "support"), "all": ()}
        kept = {"none": ("predicted", "support"), "weighted": ("support",), "macro": sets[labels]}[self.average]
        self._kept = frozenset({*self.ratio.reads, *kept})
        """The counts of each label that the average reads, besides hits."""

    # states

    def states(self) -> dict[str, State]:
        """Return the counts of each label that the average reads, and the number of rows that count."""
        reading = self.reading
        columns = (self.row_format.columns,) if self.weighted else ()
        names = [f"{what}_at_{k}" for k in reading.ks for what in ("hits", *(["predicted"] if self._predicts else []))]
        names += ["support"] if "support" in self._kept else []
        of_labels = State((self.reading.known_num_labels, *columns), shared=True, key=self._state_key(False))
        of_buckets = State((self.num_buckets, self.row_format.columns), shared=True, key=self._state_key(True))
        return {**dict.fromkeys(names, of_labels), "counted": of_buckets}

    def _state_key(self, of_buckets: bool) -> str:
        """Return the suffix of a state's name, by which metrics with equal counts share them.

        Buckets change the counts of a label only if each bucket has its own list, or rows are skipped by bucket.
        ``of_buckets`` is true for counts that are kept by bucket.
        """
        action, weighted = self.empty_target_action, "_weighted" if self.weighted else ""
        return f"_{action}{weighted}{self.reading.key_of_counts(of_buckets or action == 'skip')}"

    @property
    def _predicts(self) -> bool:
        return "predicted" in self._kept

    def increments(self, ranking: Ranking) -> Increments:
        """Return the labels that the rows of a batch hit, predict and hold."""
        reading = self.reading
        ranks, ranking = reading.of(ranking), reading.relevant(ranking)
        counted = self.counted(ranking, ranks)
        found: dict[str, Increment] = {}
        for k in reading.ks:
            found[f"hits_at_{k}"] = reading.hit_labels(ranking, ranks, k, counted)
            if self._predicts:
                found[f"predicted_at_{k}"] = reading.predicted_labels(ranking, k, counted)
        found |= {"support": at_targets(ranking)} if "support" in self._kept else {}
        return {**found, "counted": PerRow(with_bucket_axis(counted))}

    # values

    def values(self, states: Mapping[str, Tensor]) -> Values:
        """Return the mean over the labels of each bucket, or the value of each label."""
        ks = self.reading.ks
        if self.has_value_per_label:
            return torch.stack([divide(*self.ratio(*self._of_labels(states, k))) for k in ks])
        if self.macro is None:
            return [self._mean(states, k, self.ratio) for k in ks]
        sides = [[self._mean(states, k, side) for side in (PRECISION, RECALL)] for k in ks]
        return [[self._of_averages(*pair) for pair in zip(*of_k, strict=True)] for of_k in sides]

    def _of_averages(self, precision: float, recall: float) -> float:
        """Return the F-score of a precision and a recall."""
        # one hit, 1 / precision predictions and a support of 1 / recall have this precision and recall
        if not (precision and recall):
            return precision * recall  # 0, or NaN without rows
        one, predicted, support = (
            torch.tensor(part, dtype=torch.float64, device="cpu") for part in (1, 1 / precision, 1 / recall)
        )
        top, bottom = self.ratio(one, predicted, support)
        return float(top / bottom)

    def _of_labels(self, states: Mapping[str, Tensor], k: int) -> list[Tensor]:
        """Return true positives, predictions and support of each label, shape (..., L) each; float64 if weighted.

        A count that is not kept is 0, and takes no memory.
        """
        kept = [states.get(name) for name in (f"hits_at_{k}", f"predicted_at_{k}", "support")]
        counts = [count if count is None or not self.weighted else self.row_format.floats(count) for count in kept]
        hits = counts[0]
        assert hits is not None
        return [hits.new_zeros(()).expand(hits.shape) if count is None else count for count in counts]

    def _mean(self, states: Mapping[str, Tensor], k: int, ratio_of: LabelRatio) -> list[float]:
        """Return the mean over the labels of each bucket."""
        # without a label to average the value is 0; without a counted row it is NaN
        counted = self.row_format.totals(states["counted"])
        return [
            (float(top / bottom) if bottom else 0.0) if some else float("nan")
            for (top, bottom), some in zip(self._sums(states, k, ratio_of), counted, strict=True)
        ]

    def _sums(self, states: Mapping[str, Tensor], k: int, ratio_of: LabelRatio) -> list[tuple[Fraction, Fraction]]:
        """Return the weighted sum over the labels of each bucket, and the sum of their weights, both exact."""
        counts, buckets = self._of_labels(states, k), self.reading.buckets
        real = self.weighted or self.weighs_by_support
        of_values, of_weights = REAL if real else UNIT, REAL if self.weighted else COUNT
        sums, weights = (
            torch.zeros(self.num_buckets, one.columns, dtype=torch.int64, device="cpu")
            for one in (of_values, of_weights)
        )
        for start in range(0, len(counts[0]), BLOCK_LABELS):
            hits, predicted, support = (count[start : start + BLOCK_LABELS].cpu() for count in counts)
            weight = self._weights(predicted, support)
            weighed, found = (amount.nonzero().squeeze(1) for amount in (weight, hits))
            _add_by_bucket(weights, of_weights, buckets, weighed + start, weight[weighed])
            # only labels with hits are read: others have the value 0, as do most of millions of labels
            ratio = ratio_of(*(count[found] for count in (hits, predicted, support)))
            values = divide(*ratio) * weight[found]
            _add_by_bucket(sums, of_values, buckets, found + start, values)
        tops, bottoms = of_values.totals(sums), of_weights.totals(weights)
        return [
            (Fraction(int(top), of_values.unit), Fraction(int(bottom), of_weights.unit))
            for top, bottom in zip(tops, bottoms, strict=True)
        ]

    def denominators(self, states: Mapping[str, Tensor]) -> tuple[str, Sequence[Sequence[float]]] | None:
        """Return the labels that are averaged; of a weighted average, their relevant rows."""
        if self.has_value_per_label:
            return None
        what = by_weight("relevant labels", self.weighted) if self.weighs_by_support else AVERAGED[self.labels]
        return what, [[float(weights) for _, weights in self._sums(states, k, RECALL)] for k in self.reading.ks]

    def _weights(self, predicted: Tensor, support: Tensor) -> Tensor:
        """Return the weight of each label in the average."""
        if self.weighs_by_support:
            return support
        if self.labels == "all":
            return torch.ones_like(support)
        counts = support if self.labels == "present" else support + predicted
        return (counts > 0).to(torch.int64)

    def _labels_with_rows(self, states: Mapping[str, Tensor]) -> list[int]:
        """Return how many labels of each bucket are relevant in some row, as far as the support is kept."""
        support, buckets = states.get("support"), self.reading.buckets
        some = slice(None) if support is None else support.cpu().reshape(len(support), -1).any(dim=1)
        of_one = torch.zeros(self.reading.known_num_labels, dtype=torch.int64, device="cpu")
        inside = of_one if buckets is None else buckets.assignment
        counts: list[int] = torch.bincount(inside[some], minlength=self.num_buckets).tolist()
        return counts

    def not_measured(self, states: Mapping[str, Tensor]) -> Sequence[Sequence[bool]] | None:
        """Return by cut-off and bucket whether there is no label to average.

        Of the labels ``"present"`` there is none where nothing is relevant; of their ``"union"`` with the predicted
        ones there is none where nothing is predicted either; ``"all"`` are always some, and 0 / 0 is 0 for each.
        """
        if self.has_value_per_label:
            return None
        return [[not weight for _, weight in self._sums(states, k, RECALL)] for k in self.reading.ks]

    def facts(self, states: Mapping[str, Tensor]) -> Facts:
        """Return how many labels are relevant in some row, of a macro average that knows it."""
        known = bool(self.mean_over()) and "support" in self._kept
        return Facts(labels_with_rows=self._labels_with_rows(states) if known else None)

    # what intervals, comparisons and captions ask

    @property
    def keeps_labels(self) -> bool:
        """Whether the states hold counts of single labels."""
        return True

    def per_label(
        self, states: Mapping[str, Tensor], names: Sequence[str], several: bool, zero_division: float
    ) -> dict[str, Tensor]:
        """Return support, predictions, true positives and value of each label, as far as they are kept."""
        found: dict[str, Tensor] = {}
        reading = self.reading
        for k, cut, name in zip(reading.ks, reading.cutoffs, names, strict=True):
            hits, predicted, support = self._of_labels(states, k)
            at = f"@{self.cut_name(cut)}" if several or len(reading.ks) > 1 else ""
            known = {"support": support, "predicted": predicted}
            found |= {what if what == "support" else f"{what}{at}": known[what] for what in sorted(self._kept)}
            found[f"hits{at}"] = hits
            top, bottom = self.ratio(hits, predicted, support)
            found[name] = divide(top, bottom).masked_fill(bottom == 0, zero_division)
        return found

    @property
    def keeps_all_counts(self) -> bool:  # type: ignore[override] # decided by arguments here
        """Whether the states hold predictions and support of each label, beside hits."""
        return self._kept == {"predicted", "support"}

    def label_terms(self) -> dict[str, Any] | None:
        """Return the weights of the counts in the ratio, and of the labels in the mean."""
        if self.has_value_per_label or self.weighted:
            return None
        ratio = {"top": float(self.ratio.hits), "below": [float(self.ratio.predicted), float(self.ratio.support)]}
        of_averages = {} if self.macro is None else {"of_averages": True}
        return {**ratio, "over": self.labels, "weighted": self.weighs_by_support, **of_averages}

    def label_cells(self, ranking: Ranking) -> list[tuple[Increment | None, Increment | None, Increment | None]]:
        """Return for each cut-off the cells of labels that each row hits, predicts and holds."""
        found = self.increments(ranking)
        return [(found[f"hits_at_{k}"], found.get(f"predicted_at_{k}"), found.get("support")) for k in self.reading.ks]

    def mean_over(self) -> str:
        """Return in words the labels of which a macro average is the mean; empty for other averages."""
        if self.average != "macro":
            return ""
        said = OVER[self.labels]
        return said if self.macro is None else f"the F-score of precision and recall, each {said}"

    def of_rows(self, ranking: Ranking) -> Tensor:
        """Raise: only labels have values."""
        raise ValueError(f"{self.caller}: average={self.average!r} is over labels; a row has no value of its own.")

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket is of."""
        mean = f"; {self.mean_over()} of the bucket" if self.mean_over() else ""
        mean += ", those without a relevant row with 0" if mean and self.labels == "all" else ""
        return super().caption(k) + mean


def _add_by_bucket(
    sums: Tensor, fixed_point: FixedPoint, buckets: LabelBuckets | None, labels: Tensor, values: Tensor
) -> None:
    """Add the values of some labels to sums over the labels of each bucket (G, columns), exact in any order."""
    exact = values if fixed_point.limbs == 0 else values.to(torch.float64)
    bucket = torch.zeros_like(labels) if buckets is None else buckets.assignment[labels]
    sums.index_add_(0, bucket, fixed_point.digits(exact))
