"""The values of an evaluation at several strengths τ, and what a τ chosen on half of the rows gives on the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import nan, sqrt
from typing import Any

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric
from tailmetrics.collection import UNSEEN, HeadTailTradeOff, TopKCollection
from tailmetrics.evaluation.row_moments import has_moments
from tailmetrics.metrics._arguments_of_metrics import Training
from tailmetrics.metrics._states import UNIT
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._adjusting import ScoreKind
from tailmetrics.report.report import Report
from tailmetrics.report.trade_off import TauChoice
from tailmetrics.significance.estimating import FEW, Interval, Sums, quick_interval, student
from tailmetrics.significance.labels import mixed

WITHIN_LISTS = (
    "The trade-off ranks the labels of each list anew. No label from outside of a list can come in, so that the scores "
    "of all labels may gain more for the tail."
)
LISTED = 10
"""The places of a list that decide to which half of the rows a row belongs, beside its relevant labels."""


class TradeOff:
    """Accumulates the values at each τ above 0; those at 0 are the values of the evaluation.

    Args:
        collection: The metrics of the evaluation, all bound.
        pair: The keys of the headline: by bucket, and over all labels.
        taus: The strengths.
        scores: What the scores are.
        confidence: Confidence of intervals; None for no intervals, and no choice of τ.
        device: The device of the states.

    Raises:
        ValueError: If training counts are unknown.
    """

    def __init__(
        self,
        collection: TopKCollection,
        pair: tuple[str, str | None],
        taus: Sequence[float],
        scores: ScoreKind,
        confidence: float | None,
        device: torch.device | str,
    ) -> None:
        counts = collection.training_counts
        if counts is None:
            raise ValueError(
                "trade_off reads how often labels occur in training, which is not known; pass label_counts= or "
                "train_target=."
            )
        members = [one for one in collection.members().values() if one.reading.reads_order_alone and one.keys()]
        if not members:
            raise ValueError(
                "trade_off ranks labels anew, but every metric here reads the scores themselves; add a metric of "
                "ranks, such as RecallAtK(k=10)."
            )
        self.values = HeadTailTradeOff([one.again() for one in members], sorted({*taus} - {0}) or [1.0], scores)
        self.values.bind(Training(len(counts), counts, None)).to(device)
        self.values.leave_warnings()
        self.taus, self._named, self.halves = (0.0, *self.values.taus), collection.named, None
        # by bucket or not: recall@10 is the key of a metric over all labels, and the stem of a metric by bucket
        places = {
            (self._named(key), one.buckets is not None): (one, at)
            for one in members
            for at, key in enumerate(one.cutoff_keys())
        }
        ends = [places[key] for key in ((pair[0], True), (pair[1], False)) if key in places]
        if confidence is not None and len(ends) == 2 and all(_has_shares(one, device) for one, _ in ends):
            self.halves = Halves(ends, self.taus, collection.named, confidence).to(device)

    @property
    def parts(self) -> list[Any]:
        """All parts that have states."""
        return [self.values, *([] if self.halves is None else [self.halves])]

    def update(self, ranking: Ranking) -> None:
        """Add a batch."""
        self.values.update(ranking)
        if self.halves is not None:
            self.halves.update(ranking, {0.0: ranking, **self.values.by_tau(ranking)})

    def added_to(self, report: Report) -> Report:
        """Return a report with the values, intervals and the choice of τ, over all processes; call it in every one."""
        found = {tau: dict[str, float]() for tau in self.taus}
        for key, value in self.values.compute().items():
            tau, _, plain = key.removeprefix("tau=").partition("/")
            found[0.0][self._named(plain)] = report.scalars[self._named(plain)]
            found[float(tau)][self._named(plain)] = float(value)
        report = replace(report, trade_off=found)
        if self.halves is None:
            return report
        intervals, choice = self.halves.found()
        return replace(report, tau_choice=choice, intervals={**report.intervals, **intervals})


def _has_shares(metric: Any, device: torch.device | str) -> bool:
    """Whether a value is a mean over rows of values from 0 to 1, of which a higher one is better."""
    means = metric.aggregation.row_terms == "mean" and metric.bounds == (0.0, 1.0)
    return means and bool(metric.higher_is_better) and has_moments(metric, device)


class Halves(ExactMetric):
    """Sums over each half of the rows, of the values at each τ and of products of two of them, as whole numbers.

    A row belongs to a half by a hash of its list and its relevant labels, so that batches, processes and the order of
    rows change nothing.

    Args:
        ends: The headline by bucket, and over all labels: a metric whose values of rows lie in [0, 1], and the place of
            the cut-off.
        taus: The strengths, ascending, from 0 on.
        named: Adds prefix and postfix to a key.
        confidence: Confidence of intervals.
    """

    sums: Tensor
    rows: Tensor
    _metrics: Any
    _taus: tuple[float, ...]
    _named: Any
    _confidence: float

    def __init__(
        self,
        ends: Sequence[tuple[Any, int]],
        taus: Sequence[float],
        named: Callable[[str], str],
        confidence: float,
    ) -> None:
        super().__init__()
        (by_bucket, place), (whole, of_whole) = ends
        self._buckets, size = by_bucket.bucket_names, len(by_bucket.bucket_names)
        self._keys = [*by_bucket.row_keys()[size * place : size * (place + 1)], whole.row_keys()[of_whole]]
        # no submodules: they would be moved and sent again
        vars(self).update(_metrics=(by_bucket, whole), _taus=tuple(taus), _named=named, _confidence=confidence)
        shape = 2, len(taus), size + 1, 7, UNIT.columns
        self.add_state("sums", torch.zeros(shape, dtype=torch.int64), "sum")
        self.add_state("rows", torch.zeros(2, size + 1, dtype=torch.int64), "sum")

    def update(self, ranking: Ranking, by_tau: Mapping[float, Ranking]) -> None:
        """Add the rows of a batch, which is ranked at each τ."""
        half = content_hashes(ranking, LISTED) & 1
        values = torch.stack([self._values(by_tau[tau]) for tau in self._taus])  # (T, G + 1, N)
        counted = ~values[0].isnan()
        values = values.nan_to_num()
        first, whole = values[:1], values[:, -1:]
        # t, tt, t t(0), t a, t a(0), t(0) a, and a in rows that count in the bucket; t in a bucket, a over all labels
        terms = [values, values * values, values * first, values * whole, values * whole[:1], first * whole]
        table = torch.stack([*terms, counted * whole], dim=2)
        inside = torch.stack([half == 0, half == 1])
        self.rows = self.rows + (counted & inside[:, None]).sum(dim=2)
        self.sums = self.sums + torch.stack([UNIT.add_up(torch.where(one, table, 0.0), dim=3) for one in inside])

    def _values(self, ranking: Ranking) -> Tensor:
        """Return the values of rows by bucket, and over all labels, shape (G + 1, N)."""
        found = [one.row_values(ranking) for one in self._metrics]
        return torch.stack([*(found[0][key] for key in self._keys[:-1]), found[1][self._keys[-1]]])

    def compute(self) -> dict[str, Tensor]:
        """Return the states over all processes."""
        return {"sums": self.sums.clone(), "rows": self.rows.clone()}

    def found(self) -> tuple[dict[str, Interval], TauChoice | None]:
        """Return intervals by key, and what is gained by a τ chosen on other rows; None with too few rows to choose."""
        self._update_count = max(1, self._update_count)  # a process without rows computes, too
        states = self.compute()
        sums, rows = UNIT.floats(states["sums"]).cpu(), states["rows"].cpu()
        intervals = {
            f"tau={tau:g}/{self._named(key)}": self._of_value(sums[:, number, place], int(rows[:, place].sum()))
            for number, tau in enumerate(self._taus)
            for place, key in enumerate(self._keys)
        }
        known = [place for place, name in enumerate(self._buckets) if name != UNSEEN and int(rows[:, place].sum())]
        if not known or int(rows[:, known[-1]].min()) < FEW:
            return intervals, None
        return intervals, self._choice(sums, rows.tolist(), known[-1])

    def _of_value(self, sums: Tensor, n: int) -> Interval:
        """Return a mean of rows with its interval; ``sums`` has the sums of each half, (2, 7)."""
        total, squares = (Fraction(one) for one in sums[:, :2].sum(dim=0).tolist())
        value = float(total / n) if n else nan
        agree = n > 0 and squares * n == total * total
        return quick_interval(
            Sums(value, n, (total, squares), (value, value) if agree else (0.0, 1.0), shares=True), self._confidence
        )

    def _choice(self, sums: Tensor, rows: Sequence[Sequence[int]], tail: int) -> TauChoice:
        """Choose τ on each half, and measure it on the other; both ways together are of all rows."""
        means = [[sums[half, :, place, 0] / rows[half][place] for place in (tail, -1)] for half in (0, 1)]
        chosen = [int((of_tail - of_tail[0] + whole - whole[0]).argmax()) for of_tail, whole in means]
        changed = [_changes(sums[1 - half].tolist(), rows[1 - half], at, tail) for half, at in enumerate(chosen)]
        of_bucket, of_all, squares, squares_of_all, products = map(sum, zip(*changed, strict=True))
        n, n_all = (sum(of[place] for of in rows) for place in (tail, -1))
        changes = of_bucket / n, of_all / n_all
        of_tail, of_whole = squares / n**2, squares_of_all / n_all**2
        both = of_tail + of_whole + 2 * products / (n * n_all)

        def interval(value: float, variance: float, rows: int, bound: float) -> Interval:
            ends = student(value, sqrt(max(0.0, variance)), n - 2, (-bound, bound), self._confidence)
            found = Interval(value, ends.low, ends.high, rows, self._confidence, ends.method)
            return found if variance > 0 else found.without_ends("all rows of a half change alike")

        return TauChoice(
            (self._taus[chosen[0]], self._taus[chosen[1]]),
            self._buckets[tail],
            interval(changes[0], of_tail, n, 1.0),
            interval(changes[1], of_whole, n_all, 1.0),
            interval(sum(changes), both, n_all, 2.0),
        )


def _changes(sums: Any, rows: Sequence[int], number: int, tail: int) -> tuple[float, ...]:
    """Return what changes on one half of the rows from τ = 0 to another τ, in the rarest bucket and over all labels.

    These are the two sums of changes, the two sums of squares, and the sum of products. ``sums`` has for each τ,
    bucket and all labels the terms of :class:`Halves`.
    """
    (of_tail, of_whole), (tail_0, whole_0) = ((of[tail], of[-1]) for of in (sums[number], sums[0]))
    n, n_all = rows[tail], rows[-1]
    tails, wholes = of_tail[0] - tail_0[0], of_whole[0] - whole_0[0]
    squares = [of[1] - 2 * of[2] + zero[1] for of, zero in ((of_tail, tail_0), (of_whole, whole_0))]
    products = of_tail[3] - of_tail[4] - of_tail[5] + tail_0[3]
    # in rows that count in the bucket, of which all labels have another mean
    products -= tails / n * (of_tail[6] - tail_0[6])
    spread = [
        max(0.0, (of - change * change / size) * size / (size - 1))
        for of, change, size in ((squares[0], tails, n), (squares[1], wholes, n_all))
    ]
    return tails, wholes, *spread, products


def content_hashes(ranking: Ranking, k: int) -> Tensor:
    """Return a hash >= 0 of the first ``k`` places of each row's list and of its relevant labels, shape (N,), int64."""
    entries = ranking.targets.without_void().entries
    return _mixed(_hashes(ranking.ids[:, :k], entries.rows, entries.ids))


def _hashes(shown: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
    """Return a hash of each row's list and of the set of its relevant labels, shape (N,), int64."""
    places = torch.arange(1, 1 + shown.shape[1], device=shown.device)
    found = torch.where(shown >= 0, _mixed(shown * 1_000_003 + places), 0).sum(dim=1)
    return found.scatter_add(0, rows, _mixed(_mixed(labels + 1)))


def _mixed(values: Tensor) -> Tensor:
    """Return hashes >= 0, of which every bit depends on every bit of the given number."""
    return torch.from_numpy(mixed(values.cpu().numpy())).to(values.device) & torch.iinfo(torch.int64).max
