"""Averages over labels: micro, macro and weighted, from true positives, predictions and support of each label."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import check_choice
from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._arguments_of_metrics import Cutoffs
from tailmetrics.metrics._metric import TopKMetric, Values
from tailmetrics.metrics._rows import Average, RelevanceArguments, TieAwareMetric, with_bucket_axis
from tailmetrics.metrics._states import (
    COUNT,
    REAL,
    UNIT,
    FixedPoint,
    Increment,
    Increments,
    PerRow,
    State,
    at_labels,
    at_targets,
    divide,
)
from tailmetrics.ranking import Ranking, TargetRanks
from tailmetrics.ranking._device import real_dtype

Denominator: TypeAlias = Literal["predicted", "k"]
LabelSet: TypeAlias = Literal["present", "union", "all"]
LabelRatio: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
MacroOf: TypeAlias = Literal["of_averages"]

BLOCK_LABELS = 2**18
"""Number of labels averaged at once, to bound the memory at millions of labels."""


class LabelArguments(RelevanceArguments, total=False):
    """Keyword arguments of metrics with averages over labels."""

    denominator: Denominator
    labels: LabelSet
    macro: MacroOf | None


class LabelValues(TopKMetric):
    """A metric that with ``average="none"`` returns a vector, one value per label; this vector has no key."""

    average: Average

    @property
    def keeps_labels(self) -> bool:
        """Whether :meth:`per_label` has values of single labels."""
        return self.average == "none"

    @abstractmethod
    def per_label(self, several: bool = False, zero_division: float = 0.0) -> dict[str, Tensor]:
        """Return counts and values of each label over all rows and processes, by name, shape (L,) each."""

    def cut_names(self) -> list[str]:
        """Return the cut-offs as they are written in keys."""
        return [self._cut_name(k) for k in self.cutoffs if k is not None]

    def row_keys(self, group: str = "") -> list[str]:
        """Return the keys of the values over all rows; none if there is a value per label."""
        return [] if self.average == "none" else super().row_keys(group)

    def scalars(self, value: Tensor | None = None) -> dict[str, Tensor]:
        """Return the values as a flat dict of scalars.

        Raises:
            ValueError: With ``average="none"``, whose values are vectors.
        """
        if self.average == "none":
            raise ValueError(
                f"{self._caller}: average='none' has a value for each label; compute() returns them, and per_label() "
                "of a TopKCollection names them. Use average='macro' for one number."
            )
        return super().scalars(value)


class LabelAveragedMetric(LabelValues, TieAwareMetric):
    """A ratio of counts: of each row (``average="samples"``), of all rows, or of each label.

    Averages over labels count the predictions of every row, also within buckets: the values are those of scikit-learn
    on the columns of the bucket. With ``empty_target_action="skip"``, a row without a relevant label (of the bucket)
    adds nothing, not even its wrong predictions; the key then contains ``skip``.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        average: ``"samples"``, the mean over rows; ``"micro"``, the ratio of the sums over all labels; ``"macro"``,
            the mean over labels; ``"weighted"``, that mean weighted by support; ``"none"``, the value of each label.
        denominator: What precision divides by: ``"predicted"``, the number of labels in the top k; ``"k"``, always k,
            also if a list is shorter.
        labels: The labels over which ``average="macro"`` takes the mean: ``"present"``, those in the targets;
            ``"union"``, those in the targets or the predictions; ``"all"``, all labels.
        macro: How ``average="macro"`` of an F-score is computed: None, the mean of the labels' F-scores;
            ``"of_averages"``, the F-score of their mean precision and mean recall, as medical coding reports it.
        kwargs: See :class:`RelevanceMetric`.
    """

    averages: ClassVar[tuple[Average, ...]] = ("samples", "micro", "macro", "weighted", "none")
    ratio_reads: ClassVar[tuple[str, ...]] = ("predicted", "support")
    """The counts that the ratio reads besides hits: predictions for precision, support for recall, both for F."""
    beta: float = 1.0
    """The weight of recall relative to precision in an F-score."""

    def __init__(
        self,
        k: Cutoffs,
        *,
        denominator: Denominator = "predicted",
        labels: LabelSet = "present",
        macro: MacroOf | None = None,
        **kwargs: Unpack[RelevanceArguments],
    ) -> None:
        caller, average = self._caller, kwargs.get("average", "samples")
        self.denominator: Denominator = check_choice(caller, "denominator", denominator, Denominator)
        self.labels: LabelSet = check_choice(caller, "labels", labels, LabelSet)
        self.macro: MacroOf | None = None if macro is None else check_choice(caller, "macro", macro, MacroOf)
        if macro is not None and average != "macro":
            raise ValueError(f"{caller}: macro={macro!r} says what average='macro' is; average is {average!r}.")
        if average in ("macro", "weighted", "none"):
            self.needs = ("num_labels",)
            if denominator == "k":
                raise ValueError(
                    f"{caller}: denominator='k' means nothing per label; use average='samples' or 'micro'."
                )
        if labels != "present" and average != "macro":
            raise ValueError(f"{caller}: labels={labels!r} says what average='macro' is over; average is {average!r}.")
        if average != "samples" and kwargs.get("empty_target_action") == "pos":
            raise ValueError(
                f"{caller}: empty_target_action='pos' means nothing for average={average!r}, which adds up counts; "
                "choose 'neg', 'skip' or 'error'."
            )
        super().__init__(k, **kwargs)

    def _label_ratio(self, hits: Tensor, predicted: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        """Return numerator and denominator of the metric in terms of true positives, predictions and support."""
        if len(self.ratio_reads) == 2:
            return f_terms(hits, predicted, support, self.beta)
        return hits, predicted if self.ratio_reads == ("predicted",) else support

    def _state_key(self, of_buckets: bool) -> str:
        """Return the suffix of a state's name: metrics whose arguments give equal counts have one, and share a state.

        Precision, recall and F1 share their counts. Buckets change the counts of a label only if each bucket has its
        own list, or rows are skipped by bucket. ``of_buckets`` is true for counts that are kept by bucket.
        """
        buckets = self.bound_buckets
        alike = self.empty_target_action != "skip" and not self._uses_depth and not of_buckets
        by = "" if buckets is None or alike else f"_{self.scope}{self.depth}_{buckets.digest[:16]}"
        level = "" if self.min_gain is None else f"_min{self.min_gain!r}".replace(".", "_")
        weighted = "_weighted" if self.weighted else ""
        return f"_{self.empty_target_action}{level}{weighted}{by}"

    def _states(self) -> dict[str, State]:
        if self.average == "samples":
            return super()._states()
        if self.average == "micro":
            shape = (len(self.cutoffs), self._num_buckets, 3, self._counts.columns)
            return {"counts": State(shape), "counted": State((self._num_buckets, self._counts.columns))}
        assert self.num_labels is not None
        columns = (self._counts.columns,) if self.weighted else ()
        at_k = ("hits", "predicted") if "predicted" in self._counts_kept else ("hits",)
        names = [f"{what}_at_{k}" for k in self.ks for what in at_k]
        names += ["support"] if "support" in self._counts_kept else []
        counted = State((self._num_buckets, self._counts.columns), shared=True, key=self._state_key(True))
        return {
            **dict.fromkeys(names, State((self.num_labels, *columns), shared=True, key=self._state_key(False))),
            "counted": counted,
        }

    @property
    def _counts_kept(self) -> frozenset[str]:
        """The counts per label that the average reads, besides true positives."""
        if self.average == "none":
            return frozenset({"predicted", "support"})
        sets: dict[LabelSet, tuple[str, ...]] = {"present": ("support",), "union": ("predicted", "support"), "all": ()}
        weights = ("support",) if self.average == "weighted" else sets[self.labels]
        return frozenset({*self.ratio_reads, *weights})

    def _prepare(self, ranking: Ranking) -> Increments:
        if self.average == "samples":
            return super()._prepare(ranking)
        ranks, ranking = self._ranks_of(ranking), self._relevant(ranking)
        counted = self._counted(ranking, ranks)
        if self.average == "micro":
            increments: dict[str, Increment] = {"counts": PerRow(self._row_counts(ranking, ranks, counted))}
        else:
            increments = self._label_increments(ranking, ranks, counted)
            increments |= {"support": at_targets(ranking)} if "support" in self._counts_kept else {}
        return {**increments, "counted": PerRow(with_bucket_axis(counted))}

    def _label_increments(self, ranking: Ranking, ranks: TargetRanks, counted: Tensor) -> dict[str, Increment]:
        """Return the amounts that a batch adds to true positives and predictions of each label."""
        increments: dict[str, Increment] = {}
        for k in self.ks:
            hits = ranks.within(k) & counted.unsqueeze(-1)
            increments[f"hits_at_{k}"] = at_labels(ranks.target_ids, hits)
            if "predicted" in self._counts_kept:
                increments[f"predicted_at_{k}"] = at_labels(*self._shown(ranking, k, counted))
        return increments

    def _counted(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Whether a row counts, shape (N,) or (N, G), bool."""
        if self.empty_target_action == "skip":
            return ranks.n_relevant > 0
        row_mask = ranking.row_mask
        row_mask = torch.ones_like(ranking.n_relevant, dtype=torch.bool) if row_mask is None else row_mask
        return row_mask if ranks.n_relevant.ndim == 1 else row_mask[:, None].expand_as(ranks.n_relevant)

    def _shown(self, ranking: Ranking, k: int, counted: Tensor) -> tuple[Tensor, Tensor]:
        """Return the listed ids, and whether each is among the top k of its list in a row that counts."""
        ranks = ranking.listed_ranks(self.bound_buckets, self.scope, self.depth)
        ids = ranking.ids[:, : ranks.shape[1]]
        shown = (ranks <= k) & (ids >= 0)
        if self.bound_buckets is None:
            return ids, shown & counted[:, None]
        bucket = self.bound_buckets.of(ids).clamp(max=self._num_buckets - 1)
        return ids, shown & counted.gather(1, bucket)

    def _row_counts(self, ranking: Ranking, ranks: TargetRanks, counted: Tensor) -> Tensor:
        """Return hits, predictions and support of each row, shape (N, K, G, 3), 0 for rows that do not count."""
        hits, predicted = self._hits_and_predicted(ranking, ranks)
        support = ranks.n_relevant.view(-1, 1, self._num_buckets).expand_as(hits)
        return torch.stack([hits, predicted, support], dim=-1) * counted.view(-1, 1, self._num_buckets, 1)

    def _hits_and_predicted(self, ranking: Ranking, ranks: TargetRanks) -> tuple[Tensor, Tensor]:
        """Return the number of hits and of predictions of each row, cut-off and bucket, shape (N, K, G) each."""
        shape = ranking.num_rows, len(self.ks), self._num_buckets
        pairs = zip(*((ranks.hits_at(k), self._predicted(ranking, ranks, k)) for k in self.ks), strict=True)
        hits, predicted = (torch.stack(side, dim=1).view(shape) for side in pairs)
        return hits, predicted

    def _predicted(self, ranking: Ranking, ranks: TargetRanks, k: int) -> Tensor:
        """Return the number of predictions in the top k of each row, or of each row and bucket."""
        if self.denominator == "k":
            return torch.full_like(ranks.n_relevant, k)
        if self.bound_buckets is not None and self.scope == "global":
            return self.bound_buckets.totals(ranking.ids[:, :k])
        return ranks.length.clamp(max=k)

    def _values(self, states: Mapping[str, Tensor]) -> Values:
        if self.average == "samples":
            return super()._values(states)
        if self.average == "micro":
            return self._micro(states)
        if self.average == "none":
            return torch.stack([divide(*self._label_ratio(*self._label_counts(states, k))) for k in self.ks])
        if self.macro is None:
            return [self._mean_over_labels(states, k, self._label_ratio) for k in self.ks]
        ratios: tuple[LabelRatio, LabelRatio] = (lambda hits, made, _: (hits, made), lambda hits, _, own: (hits, own))
        sides = [[self._mean_over_labels(states, k, side) for side in ratios] for k in self.ks]
        return [[self._of_averages(*pair) for pair in zip(*of_k, strict=True)] for of_k in sides]

    def _of_averages(self, precision: float, recall: float) -> float:
        """Return the F-score of a precision and a recall."""
        # one hit, 1 / precision predictions and a support of 1 / recall have this precision and recall
        if not (precision and recall):
            return precision * recall  # 0, or NaN without rows
        one, predicted, support = (torch.tensor(part, dtype=torch.float64) for part in (1, 1 / precision, 1 / recall))
        top, bottom = self._label_ratio(one, predicted, support)
        return float(top / bottom)

    def _micro(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        shape = states["counts"].shape[:-1]
        counts = torch.tensor(self._counts.totals(states["counts"]), dtype=torch.float64).view(shape)
        counted = self._counts.totals(states["counted"])
        top, bottom = self._label_ratio(*counts.unbind(-1))
        # if no row has a prediction, precision is 0; if there are no rows, it is NaN
        return [
            [a / b if b else (0.0 if some else float("nan")) for a, b, some in zip(tops, bottoms, counted, strict=True)]
            for tops, bottoms in zip(top.tolist(), bottom.tolist(), strict=True)
        ]

    def _label_counts(self, states: Mapping[str, Tensor], k: int) -> list[Tensor]:
        """Return true positives, predictions and support of each label, shape (..., L) each; float64 if weighted.

        A count that is not kept is 0, and takes no memory.
        """
        kept = [states.get(name) for name in (f"hits_at_{k}", f"predicted_at_{k}", "support")]
        counts = [count if count is None or not self.weighted else self._counts.floats(count) for count in kept]
        hits = counts[0]
        assert hits is not None
        return [hits.new_zeros(()).expand(hits.shape) if count is None else count for count in counts]

    def _buckets_without_labels(self, states: Mapping[str, Tensor]) -> list[int]:
        buckets = self.bound_buckets
        if self.average in ("samples", "none"):
            return []
        if self.average == "micro":
            relevant = states["counts"][0, :, 2].any(dim=-1)
        else:
            support = states.get("support")
            some = slice(None) if support is None else support.cpu().reshape(len(support), -1).any(dim=1)
            assignment = torch.zeros(self.num_labels or 0, dtype=torch.int64) if buckets is None else buckets.assignment
            relevant = torch.bincount(assignment[some], minlength=self._num_buckets) > 0
        return relevant.logical_not().nonzero().squeeze(1).tolist()

    def _mean_over_labels(self, states: Mapping[str, Tensor], k: int, ratio_of: LabelRatio) -> list[float]:
        counts = self._label_counts(states, k)
        real = self.weighted or self.average == "weighted"
        of_values, of_weights = REAL if real else UNIT, REAL if self.weighted else COUNT
        sums, weights = (
            torch.zeros(self._num_buckets, one.columns, dtype=torch.int64) for one in (of_values, of_weights)
        )
        for start in range(0, len(counts[0]), BLOCK_LABELS):
            hits, predicted, support = (count[start : start + BLOCK_LABELS].cpu() for count in counts)
            weight = self._label_weight(predicted, support)
            weighed, found = (amount.nonzero().squeeze(1) for amount in (weight, hits))
            _add_by_bucket(weights, of_weights, self.bound_buckets, weighed + start, weight[weighed])
            # only labels with hits are read: others have the value 0, as do most of millions of labels
            ratio = ratio_of(*(count[found] for count in (hits, predicted, support)))
            values = divide(*ratio) * weight[found]
            _add_by_bucket(sums, of_values, self.bound_buckets, found + start, values)
        # without a label to average the value is 0; without a counted row it is NaN
        counted = self._counts.totals(states["counted"])
        tops, bottoms = of_values.totals(sums), of_weights.totals(weights)
        return [
            (int(top) * of_weights.unit / (int(bottom) * of_values.unit) if bottom else 0.0) if some else float("nan")
            for top, bottom, some in zip(tops, bottoms, counted, strict=True)
        ]

    def _label_weight(self, predicted: Tensor, support: Tensor) -> Tensor:
        if self.average == "weighted":
            return support
        if self.labels == "all":
            return torch.ones_like(support)
        counts = support if self.labels == "present" else support + predicted
        return (counts > 0).to(torch.int64)

    # values per label

    def per_label(self, several: bool = False, zero_division: float = 0.0) -> dict[str, Tensor]:
        """Return support, predictions, true positives and value of each label over all rows, as far as they are kept.

        With ``average="none"`` all counts are kept, otherwise only those that the average reads. Shape (L,) each.

        Counts are summed over all processes: call ``per_label`` in every process.

        Args:
            several: Whether the names of counts include the cut-off even if there is only one.
            zero_division: The value that divides by 0, such as the recall of a label with support 0.

        Raises:
            ValueError: If the average keeps no counts per label.
        """
        if not self.keeps_labels:
            raise ValueError(f"{self._caller}: average={self.average!r} keeps no counts per label; use average='none'.")
        with self._over_all_processes():
            states = {name: state.clone() for name, state in self._states_of_groups()[0].items()}
        found: dict[str, Tensor] = {}
        for k, cut, name in zip(self.ks, self.cutoffs, self.cut_names(), strict=True):
            hits, predicted, support = self._label_counts(states, k)
            at = f"@{name}" if several or len(self.ks) > 1 else ""
            known = {"support": support, "predicted": predicted}
            found |= {what if what == "support" else f"{what}{at}": known[what] for what in sorted(self._counts_kept)}
            found[f"hits{at}"] = hits
            top, bottom = self._label_ratio(hits, predicted, support)
            found[self._label_key(cut)] = divide(top, bottom).masked_fill(bottom == 0, zero_division)
        return found

    @property
    def keeps_labels(self) -> bool:
        """Whether the metric keeps counts per label."""
        return self.average in ("macro", "weighted", "none")

    def _label_key(self, k: int | None) -> str:
        """Return the name of the values per label at a cut-off: the key without average and conventions."""
        if self.name is not None:
            return self._key(k)
        scope = "global_" if self.scope == "global" and self.buckets is not None else ""
        return f"{scope}{self._key(k).replace(self._key(None), self.stem)}"

    def _of_rows(self, ranking: Ranking) -> Tensor:
        if self.average == "samples":
            return super()._of_rows(ranking)
        if self.average != "micro":
            raise ValueError(f"{self._caller}: average={self.average!r} is over labels; a row has no value of its own.")
        ranks = self._ranks_of(ranking)
        counts = self._row_counts(ranking, ranks, self._counted(ranking, ranks))
        return torch.stack(self._label_ratio(*counts.to(torch.float64).unbind(-1))).flatten(2).movedim(1, -1)


def f_terms(hits: Tensor, predicted: Tensor | int, support: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """Return numerator and denominator of F-beta, (1 + beta^2) hits and predicted + beta^2 support, as float64."""
    real = real_dtype(hits.device)
    return (1 + beta**2) * hits.to(real), predicted + beta**2 * support.to(real)


def _add_by_bucket(
    sums: Tensor, fixed_point: FixedPoint, buckets: LabelBuckets | None, labels: Tensor, values: Tensor
) -> None:
    """Add the values of some labels to sums over the labels of each bucket (G, columns), exact in any order."""
    exact = values if fixed_point.limbs == 0 else values.to(torch.float64)
    bucket = torch.zeros_like(labels) if buckets is None else buckets.assignment[labels]
    sums.index_add_(0, bucket, fixed_point.digits(exact))
