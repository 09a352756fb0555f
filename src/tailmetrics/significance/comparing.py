"""Comparisons of models on the same rows: differences, intervals, tests, effect sizes, and a verdict in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import copysign, inf, isfinite, isnan, nan
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tailmetrics._arguments import check_choice, check_count, check_number, grouped, some_of
from tailmetrics.significance.estimating import FEW, Estimate, Interval, Resample, enough
from tailmetrics.significance.planning import least_difference
from tailmetrics.significance.resampling import ROUNDING, Swapped, bootstrap, groups, swap, total
from tailmetrics.significance.rows import (
    Array,
    Clusters,
    Identities,
    KeyRows,
    Kind,
    RowValues,
    check_identities,
    check_names,
    covers,
    keys_of,
    read_models,
)

CALLER = "compare"
EXACT_UNITS = 12
"""The most differing rows or clusters for which the randomisation test goes through all swaps, at most 4,096."""

Correction: TypeAlias = Literal["holm", "bonferroni", "bh", "none"]


@dataclass(frozen=True)
class PValues:
    """Two-sided p-values of the hypothesis "no difference", in [0, 1]; NaN where a test does not apply.

    Attributes:
        randomisation: Of the test that swaps rows or clusters between the models. It is exact where few differ. Except
            for medians it is a mid-p: swaps that differ exactly as much as the models count half, because results of
            hits or counts are discrete.
        total: Of Student's t test, whose variance adds the variance between runs or labels to the variance between
            rows; NaN if each model has one run and no labels are drawn.
    """

    randomisation: float
    total: float = nan

    @property
    def decisive(self) -> float:
        """The p-value that decides: ``total`` if it is known, else ``randomisation``."""
        return self.randomisation if isnan(self.total) else self.total


@dataclass(frozen=True)
class Comparison:
    """The comparison of a model with a baseline by one key, on the rows that count in both models.

    Attributes:
        key: The key, as in the values of rows.
        run: Name of the model.
        baseline: Name of the baseline, the other model.
        statistic: ``"mean"``, ``"ratio"`` (of sums), ``"median"``, ``"labels"`` (average over labels) or ``"gap"``.
        value: The statistic of the model.
        baseline_value: The statistic of the baseline.
        interval: The difference of the model from the baseline, with its confidence interval.
        p: p-values of this comparison alone.
        p_corrected: p-values corrected for the number of comparisons.
        wins: Number of rows in which the model is better; for an average over labels, number of labels; 0 for a gap.
        ties: Number of rows, or labels, in which both models have equal values.
        losses: Number of rows, or labels, in which the model is worse.
        cohens_dz: Mean of the row differences, divided by their standard deviation; NaN if no mean is compared.
        relative_difference: The difference, divided by ``baseline_value``; NaN if ``baseline_value`` is 0.
        least_difference: The smallest true difference that the test finds on this many rows with a power of 0.8. The
            level is 1 - confidence, divided by the number of comparisons for Holm and Bonferroni; NaN where the
            standard error is unknown or 0, with fewer than 10 rows or clusters, and where no swap of so few can reach
            the level.
        bin_error: Upper bound of the error of the difference that bins cause: scores of areas that share a bin count
            as equal. No smaller difference is significant.
        swaps: Number of random swaps in the randomisation test; 0 where the test went through all swaps.
        lower_is_better: Whether a lower value is better, as :func:`compare` was told.
    """

    key: str
    run: str
    baseline: str
    statistic: Kind
    value: float
    baseline_value: float
    interval: Interval
    p: PValues
    p_corrected: PValues
    wins: int
    ties: int
    losses: int
    cohens_dz: float
    relative_difference: float
    least_difference: float = nan
    bin_error: float = 0.0
    swaps: int = 0
    lower_is_better: bool = False

    @property
    def n(self) -> int:
        """The number of rows that count in both models."""
        return self.interval.n

    @property
    def difference(self) -> float:
        """The statistic of the model minus the statistic of the baseline."""
        return self.interval.value

    @property
    def p_is_upper_bound(self) -> bool:
        """Whether more swaps could lower the p-value, because no random swap differs as much as the models."""
        # without such a swap the p-value is 1 / (swaps + 1); with one it is at least 1.5 times as large (mid-p)
        return self.swaps > 0 and isnan(self.p.total) and self.p.randomisation * (self.swaps + 1) < 1.25

    @property
    def significant(self) -> bool:
        """Whether the corrected decisive p-value is at most 1 - confidence, and bins leave the sign certain."""
        return self.p_corrected.decisive <= 1 - self.interval.confidence and abs(self.difference) >= self.bin_error


class Contrast(Estimate):
    """The difference of two models by one key, on the rows that count in both models.

    Args:
        key: The key, as in the values of rows.
        sides: The values of the model, and of the baseline.
        clusters: Clusters of rows that are drawn and swapped together; None where rows are drawn alone.
        resample: Whether labels are drawn, too.
        lower_is_better: Whether a lower value is better.
    """

    def __init__(
        self,
        key: str,
        sides: tuple[KeyRows, KeyRows],
        clusters: Clusters | None,
        resample: Resample,
        lower_is_better: bool,
    ) -> None:
        super().__init__(sides, clusters, resample)
        self.key, self.lower_is_better = key, lower_is_better
        self.swapped = Swapped(*self.sides)
        self.differing = np.flatnonzero(np.any([column != 0 for column in self.swapped.columns], axis=0))
        # whether so few rows or clusters differ that the randomisation test needs no random numbers
        self.exact = self.differing.size <= EXACT_UNITS
        self.columns += len(self.swapped.columns)
        self.found_error: tuple[float, float] = nan, nan

    def all_swaps(self) -> Array:
        """Return the difference under every way to swap the rows or clusters that differ."""
        bits = np.arange(2**self.differing.size)[:, None] >> np.arange(self.differing.size) & 1
        return self.swapped.read(np.stack([bits @ column[self.differing] for column in self.swapped.columns], axis=1))

    def comparison(self, run: str, baseline: str, draws: Array | None, null: Array, confidence: float) -> Comparison:
        """Return the comparison, given the bootstrap ``draws`` of the difference, and the differences under swaps."""
        value, baseline_value = (float(np.mean(side.runs)) for side in self.models)
        if self.kind in ("mean", "ratio", "median") and self.plain:
            value, baseline_value = (total(side) for side in self.sides)  # of the rows that count in both
        self.found_error = error, degrees = self.error(draws)
        swapped, by_total = share_as_far(null, self.value, self.exact, mid=self.kind != "median"), nan
        if self.extra and not isnan(error):
            from scipy.special import stdtr  # importing tailmetrics.significance needs no scipy

            by_total = float(2 * stdtr(degrees, -abs(self.value) / error)) if error else 1.0
        effect = nan
        if self.kind == "mean" and self.n > 1:
            mean, deviation = float(self.row_values.mean()), float(self.row_values.std(ddof=1))
            effect = mean / deviation if deviation else copysign(inf, mean) if mean else 0.0
        if self.influences:  # influences are spread over all rows, but swaps of m rows alone reach no p below 2^-m
            swapped = max(swapped, 0.5**self.facts.units)
        p, interval = PValues(swapped, by_total), self.interval(draws, confidence)
        relative = self.value / baseline_value if baseline_value else nan
        of_runs = self.key, run, baseline, self.kind, value, baseline_value
        swaps = 0 if self.exact else null.size
        wins, error, less = self._wins(), self.bin_error, self.lower_is_better
        return Comparison(
            *of_runs, interval, p, p, *wins, effect, relative, bin_error=error, swaps=swaps, lower_is_better=less
        )

    def least_difference(self, level: float) -> float:
        """Return the smallest true difference that a test at this level finds with the probability ``POWER``."""
        error, degrees = self.found_error
        units = self.facts.units
        # a mid-p of rows that all differ in one direction is 2^-units: no difference makes it smaller
        if isnan(error) or error == 0 or units < FEW or (not self.extra and 0.5**units > level):
            return nan
        return least_difference(error, degrees, units, self.size_of_change, level) + self.bin_error

    def _wins(self) -> tuple[int, int, int]:
        if self.kind == "gap":
            return 0, 0, 0
        sides = [one.of_labels for one in self.influences] or [side.values[self.rows] for side in self.models]
        first, second = sides
        if first.shape != second.shape:  # files whose labels are numbered differently
            return 0, 0, 0
        outcomes = [int(found.sum()) for found in (first > second, first == second, first < second)]
        better, equal, worse = outcomes[::-1] if self.lower_is_better else outcomes
        return better, equal, worse


def share_as_far(null: Array, observed: float, exact: bool = False, mid: bool = True) -> float:
    """Return the share of the null distribution that is at least as far from zero as the observed difference.

    Distances that differ by rounding alone are equal. If ``mid``, a distance equal to the observed distance counts
    half. NaN counts as farther. Unless the distribution is ``exact``, the observed difference counts as one of it.

    Source: Lancaster, JASA 56 (1961), for mid-p; Phipson and Smyth, SAGMB 9 (2010), for the observed difference.
    """
    if not isfinite(observed):
        return nan
    far, rounding = np.abs(null), ROUNDING * max(abs(observed), float(np.nanmax(np.abs(null), initial=0)))
    if abs(observed) <= rounding:
        return 1.0
    as_far = float((~(far < abs(observed) - rounding)).sum())
    if mid:
        as_far -= float((np.abs(far - abs(observed)) <= rounding).sum()) / 2
    return as_far / null.size if exact else (as_far + 1) / (null.size + 1)


def compare(
    runs: Mapping[str, RowValues | Sequence[RowValues]],
    baseline: str | None = None,
    *,
    clusters: ArrayLike | None = None,
    identities: Identities | None = None,
    medians: Collection[str] = (),
    lower_is_better: Collection[str] = (),
    unbounded: Collection[str] = (),
    gaps: Mapping[str, Sequence[str]] | None = None,
    parts: Collection[str] = (),
    resample: Resample = "rows",
    correction: Correction = "holm",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Comparison]:
    """Return a comparison of every pair of models by every key, row by row.

    Rows, or whole clusters of rows, are assumed to be independent. The randomisation test swaps the results of the two
    models within each row or cluster, and computes the statistic of each side again. Numerator and denominator of a
    ratio are swapped together. For an average over labels, the test swaps the influences of the rows on it. The
    bootstrap draws rows or clusters with the results of both models. Intervals are computed as in
    :func:`tailmetrics.significance.intervals`. docs/significance.md reports the error rates in simulations.

    Args:
        runs: Name of a model -> key -> values of rows, as for :func:`tailmetrics.significance.intervals`. A list of
            dicts holds several runs of one model, such as seeds. All runs have the same keys and the same rows, in the
            same order.
        baseline: The model with which all others are compared. None compares all pairs; the baseline of a pair is then
            the earlier model.
        clusters: Shape (N,), the cluster of each row, such as its user or patient. Rows of one cluster may depend on
            one another, so they are drawn and swapped together. None if all rows are independent.
        identities: Model -> the entries that ``tailmetrics.evaluation.digest`` makes. Models that differ in targets,
            buckets, training counts, options or arguments of a key are refused.
        medians: Keys, with or without their bucket, whose statistic is the median instead of the mean.
        lower_is_better: Keys, with or without their bucket, for which a lower value is better.
        unbounded: Keys, with or without their bucket, whose values can lie outside [0, 1], such as DCG or ranks, even
            if no value of these rows does.
        gaps: Name of a gap -> the keys of its buckets, head first. The gap is the value of the first bucket that all
            models have measured, minus the value of the last one. Models are compared by it.
        parts: Keys that only gaps read; they are not compared themselves.
        resample: ``"rows"`` if rows are a random sample; ``"rows,labels"`` if labels are one, too.
        correction: Over all keys and pairs that have a p-value: ``"holm"``, ``"bonferroni"``, ``"bh"`` or ``"none"``.
        confidence: Confidence of each interval, from 0.5 to 0.9999; 1 - confidence is the level of the tests.
        resamples: Number of bootstrap resamples and of random swaps. More are drawn where the level, corrected for the
            number of comparisons, needs smaller p-values.
        seed: The same seed gives the same result.

    Returns:
        The comparisons, pair by pair, with keys in the order of the first model.

    Raises:
        ValueError: If models differ in keys, rows, kind of value or identity, if there is not one cluster per row, or
            if an argument names an unknown key or model.

    >>> better, worse = [1, 1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 1, 0]
    >>> (found,) = compare({"old": {"recall@5": worse}, "new": {"recall@5": better}})
    >>> found.difference, found.p.randomisation, (found.wins, found.ties, found.losses)
    (0.75, 0.015625, (6, 2, 0))

    Source: Noreen, Computer-intensive methods for testing hypotheses (1989), and Yeh, COLING 2000, for swapping under
    ratios; Smucker, Allan and Carterette, CIKM 2007, for the randomisation test beside others.
    """
    check_choice(CALLER, "correction", correction, Correction)
    check_choice(CALLER, "resample", resample, Resample)
    check_number(CALLER, "confidence", confidence, 0.5, 0.9999)
    check_count(CALLER, "seed", seed, minimum=0)
    pairs, gaps = _pairs(tuple(runs), baseline), gaps or {}
    keys = keys_of(next(iter(runs.values())))
    less = check_names(CALLER, "lower_is_better", lower_is_better, (*keys, *gaps))
    check_identities(CALLER, identities, list(runs), keys)
    read, together, num_rows = read_models(CALLER, runs, clusters, medians, unbounded, gaps, parts)
    keys = tuple(read[next(iter(runs))])
    resamples = enough(CALLER, resamples, confidence)
    swaps = enough(CALLER, resamples, confidence, 1 if correction == "none" else len(pairs) * len(keys))
    comparisons: list[Comparison] = []
    contrasts: list[Contrast] = []
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for run, other in pairs:
            made = (
                Contrast(key, (read[run][key], read[other][key]), together, resample, covers(less, key)) for key in keys
            )
            for group in groups(made, lambda one: one.columns, max(num_rows, swaps)):
                draws = bootstrap([one.drawn for one in group], resamples, seed)
                swapped = swap([None if one.exact else one.swapped for one in group], swaps, seed)
                for one, draw, found in zip(group, draws, swapped, strict=True):
                    null = one.all_swaps() if found is None else found
                    comparisons.append(one.comparison(run, other, draw, null, confidence))
                    contrasts.append(one)
    return _corrected(comparisons, contrasts, correction)


def _corrected(
    comparisons: Sequence[Comparison], contrasts: Sequence[Contrast], correction: Correction
) -> list[Comparison]:
    tested = max(1, sum(not isnan(one.p.decisive) for one in comparisons))
    level = (1 - comparisons[0].interval.confidence) / (tested if correction in ("holm", "bonferroni") else 1)
    names = ("randomisation", "total")
    by_test = [correct([getattr(one.p, name) for one in comparisons], correction) for name in names]
    return [
        replace(
            one,
            p_corrected=PValues(*(nan if isnan(value) else value for value in p)),
            least_difference=contrast.least_difference(level),
        )
        for one, contrast, *p in zip(comparisons, contrasts, *by_test, strict=True)
    ]


def correct(p_values: Sequence[float], correction: Correction = "holm") -> list[float]:
    """Return the corrected p-values, which can all be compared with one level.

    A corrected p-value lies in [0, 1], and is never below the p-value itself. NaN stays NaN, and is not counted.

    Args:
        p_values: The p-values of all comparisons.
        correction: ``"holm"`` and ``"bonferroni"`` bound the chance of any false discovery under any dependence;
            ``"bh"`` (Benjamini-Hochberg) bounds the expected share of false discoveries among all discoveries.

    >>> correct([0.5, 0.25, 0.0625])
    [0.5, 0.5, 0.1875]

    Source: Holm, Scandinavian Journal of Statistics 6 (1979); Benjamini and Hochberg, JRSS B 57 (1995).
    """
    check_choice("correct", "correction", correction, Correction)
    try:
        corrected = np.array(p_values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("correct: p_values holds other things than numbers; pass a list of p-values.") from None
    tested = ~np.isnan(corrected)
    p = corrected[tested]
    if p.size and correction == "bonferroni":
        p = np.minimum(1, p * p.size)
    elif p.size and correction == "holm":
        order = np.argsort(p)
        steps = p[order] * np.arange(p.size, 0, -1)
        p[order] = np.minimum(1, np.maximum.accumulate(steps))
    elif p.size and correction == "bh":
        from scipy.stats import false_discovery_control  # importing tailmetrics.significance needs no scipy

        p = false_discovery_control(p, method="bh")
    corrected[tested] = p
    return [float(value) for value in corrected]


def verdict(
    comparisons: Iterable[Comparison],
    buckets: Sequence[str] = (),
    lower_is_better: Collection[str] = (),
    headline: str = "",
    over_all: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the results of comparisons in words: one line for each pair of models.

    A line begins with one metric: with the outcome over all labels, and with the buckets in which the model is better,
    no difference is shown, and the model is worse. Buckets with fewer than 10 rows or clusters are named apart, and so
    are those in which all rows have equal values. Values, difference and interval are given over all labels, and for
    the buckets with the largest gain and loss. Then the line names other keys by which the model is worse, and says by
    how many keys it is better. If there are several pairs, it gives their numbers alone. Comparisons without a p-value
    are left out.

    Args:
        comparisons: The result of :func:`compare`.
        buckets: Names of the buckets, head first.
        lower_is_better: Further keys, with or without their bucket, for which a lower value is better, beside those
            that :func:`compare` was told.
        headline: The metric with which lines begin, as a key without bucket. If it was not compared, lines begin with
            the first metric by bucket. If no metric is by bucket, they are about all keys alike.
        over_all: For each metric by bucket, the key of its value over all labels, if that is another key.

    >>> better = {"recall@1/decile_1": [1.0] * 10, "recall@1/decile_2": [0.0, 1.0] * 5}
    >>> worse = {"recall@1/decile_1": [0.0] * 10, "recall@1/decile_2": [1.0, 0.0] * 5}
    >>> verdict(compare({"old": worse, "new": better}, resamples=999), ["decile_2", "decile_1"])
    'new against old: recall@1: better in decile 1 (.000 → 1.000, +1.000 [+.383, +1.000]), no difference shown in 2.'
    """
    pairs = grouped(((one.run, one.baseline), one) for one in comparisons)
    made = _Verdict(buckets, frozenset(lower_is_better), headline, over_all, named=SAID if len(pairs) == 1 else 0)
    lines = []
    for (run, other), found in pairs.items():
        tested = [one for one in found if not isnan(one.p_corrected.decisive)]
        lines.append(f"{run} against {other}: {made.of_pair(tested) if tested else UNTESTED}.")
    return "\n".join(lines)


BETTER, NOT_SHOWN, SAME, WORSE, TOO_FEW = OUTCOMES = (
    "better",
    "no difference shown",
    "the same in every row",
    "worse",
    "too few rows",
)
UNTESTED = "no value could be tested: a value is infinite, or too few rows count"
SPANS = 6
"""The most buckets, or ranges of deciles, that a verdict names for an outcome: ten deciles have five, beside unseen."""
SAID = 3
"""The most other keys that a verdict names as worse; it counts the remaining keys."""


@dataclass(frozen=True)
class _Verdict:
    """Makes the line of a pair of models: the arguments of :func:`verdict`, and how many other keys are named."""

    buckets: Sequence[str]
    less: frozenset[str]
    headline: str
    over_all: Mapping[str, str]
    named: int

    def of_pair(self, found: Sequence[Comparison]) -> str:
        """Return the line of one pair."""
        of_buckets: dict[str, dict[str, Comparison]] = {}
        for one in found:
            stem, _, bucket = one.key.rpartition("/")
            if bucket in self.buckets:
                of_buckets.setdefault(stem, {})[bucket] = one
        keys = {one.key: one for one in found if one.key.rpartition("/")[2] not in self.buckets}
        stem = self.headline if {self.headline} & {*of_buckets, *keys} else next(iter(of_buckets), "")
        stem = next(iter(keys)) if len(keys) == 1 and not of_buckets else stem
        if not stem:
            return self._in_buckets(keys)
        own, whole = of_buckets.pop(stem, {}), keys.pop(self.over_all.get(stem, stem), None)
        said = [f"{_outcome(whole, self.less)} over all labels ({_sizes(whole)})"] if whole and own else []
        said += [f"{_outcome(whole, self.less)} ({_sizes(whole)})"] if whole and not own else []
        said += [self._in_buckets(own)] if own else []
        others = {(key, False): {"": one} for key, one in keys.items() if one.statistic != "gap"}
        others |= {(key, True): of for key, of in of_buckets.items()}
        return ". ".join([f"{stem}: {', '.join(said)}", *self._elsewhere(others)])

    def _in_buckets(self, found: Mapping[str, Comparison]) -> str:
        """Return the buckets, or keys, of each outcome, with the sizes of the largest gain and the largest loss."""
        names: dict[str, list[str]] = {outcome: [] for outcome in OUTCOMES}
        for name, one in found.items():
            names[_outcome(one, self.less)].append(name)
        parts, said = [], not {*found} & {*self.buckets}
        for outcome, some in names.items():
            if some:
                parts.append(f"{outcome} in {_in_words(some, said, SPANS)}")
                said = said or any(name.startswith("decile_") for name in some)
                if outcome in (BETTER, WORSE):
                    most = max(some, key=lambda name: abs(found[name].difference))
                    which = "" if len(some) == 1 else f"{_in_words([most], most not in self.buckets)}: "
                    parts[-1] += f" ({which}{_sizes(found[most])})"
        return ", ".join(parts)

    def _elsewhere(self, others: Mapping[tuple[str, bool], Mapping[str, Comparison]]) -> Iterator[str]:
        """Yield the keys by which the model is worse, and the number of keys by which it is better."""
        for outcome, named in ((WORSE, self.named), (BETTER, 0)):
            found: list[tuple[str, str]] = []
            for (key, by_bucket), of in others.items():
                names = [name for name, one in of.items() if _outcome(one, self.less) == outcome]
                if names:
                    found.append(
                        (key, f"{key} in {_in_words(names, False)}" if by_bucket else f"{key} over all labels")
                    )
            more = len({key for key, _ in found[named:]})
            said = [text for _, text in found[:named]]
            said += [f"{more} {'more' if named else 'metrics' if more > 1 else 'metric'}"] if more else []
            if said:
                yield f"{outcome.capitalize()} elsewhere: {'; '.join(said)}"


def _sizes(one: Comparison) -> str:
    """Return both values, the difference and its interval, such as ``.397 → .523, +.126 [+.080, +.170]``.

    An interval is of this comparison alone; where it leaves out 0, and the correction finds no difference, it says so.
    """
    interval = one.interval
    ends = "" if isnan(interval.low) else f" [{_brief(interval.low, '+')}, {_brief(interval.high, '+')}]"
    ends += " before correction" if not one.significant and (interval.low > 0 or interval.high < 0) else ""
    return f"{_brief(one.baseline_value)} → {_brief(one.value)}, {_brief(one.difference, '+')}{ends}"


def _brief(value: float, sign: str = "") -> str:
    """Return a number with three decimals and without a leading zero, or, from 10 on, with four digits."""
    text = format(value, f"{sign}.3f" if abs(value) < 10 else f"{sign},.4g")
    return re.sub(r"^([+-]?)0\.", r"\1.", text)


def _outcome(one: Comparison, less: frozenset[str]) -> str:
    """Return the outcome of a comparison, one of :data:`OUTCOMES`."""
    if one.significant:
        return BETTER if (one.difference > 0) != (one.lower_is_better or covers(less, one.key)) else WORSE
    drawn = one.n if one.interval.clusters is None else one.interval.clusters
    return TOO_FEW if drawn < FEW else SAME if one.ties == one.n else NOT_SHOWN


def _in_words(names: Sequence[str], said: bool = True, most: int = 4) -> str:
    """Return names, ``most`` at most, in words. Deciles are numbers and ranges, after "deciles" unless ``said``."""
    found = [re.fullmatch(r"decile_(\d+)", name) for name in names]
    numbers = sorted(int(one[1]) for one in found if one)
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    shown = [f"{start}" if start == end else f"{start} to {end}" for start, end in zip(starts, ends, strict=True)]
    if shown and not said:
        shown[0] = f"{'decile' if len(numbers) == 1 else 'deciles'} {shown[0]}"
    shown += [name for name, one in zip(names, found, strict=True) if not one]
    shown = some_of(shown, most)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def alike(comparisons: Iterable[Comparison], key: str) -> list[list[str]]:
    """Return groups of models; within a group, no two models differ significantly by one key.

    A model can be in several groups. Two models differ significantly if no group holds both.

    Args:
        comparisons: The result of :func:`compare` for all pairs of models.
        key: The key.

    >>> rows = {"a": [0.0] * 20, "b": [0.0] * 19 + [1.0], "c": [1.0] * 20}
    >>> alike(compare({name: {"hit": row} for name, row in rows.items()}, resamples=999), "hit")
    [['a', 'b'], ['c']]

    Source: Piepho, An algorithm for a letter-based representation of all-pairwise comparisons, JCGS 13 (2004).
    """
    of_key = [one for one in comparisons if one.key == key]
    names = list(dict.fromkeys(name for one in of_key for name in (one.baseline, one.run)))
    found = [frozenset(names)]
    for one in of_key:
        if one.significant:
            both = {one.run, one.baseline}
            split = [
                part for group in found for part in ([group - {name} for name in both] if both <= group else [group])
            ]
            found = [group for group in dict.fromkeys(split) if not any(group < other for other in split)]
    ordered = ([name for name in names if name in group] for group in found)
    return sorted(ordered, key=lambda group: names.index(group[0]))


def _pairs(names: Sequence[str], baseline: str | None) -> list[tuple[str, str]]:
    if len(names) < 2:
        raise ValueError(f"{CALLER}: {len(names)} run(s) given; pass at least two runs of the same rows.")
    if baseline is None:
        return [(later, earlier) for earlier, later in combinations(names, 2)]
    check_choice(CALLER, "baseline", baseline, names)
    return [(name, baseline) for name in names if name != baseline]
