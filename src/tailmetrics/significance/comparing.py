"""Comparisons of models on the same rows: differences, intervals, tests and effects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from math import copysign, inf, isnan, nan
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tailmetrics._arguments import check_choice, check_count, check_number
from tailmetrics._extras import names_missing_extra
from tailmetrics.significance.estimating import (
    Estimate,
    Resample,
    resamples_needed,
    with_draws,
)
from tailmetrics.significance.identities import Identities, check_identities
from tailmetrics.significance.influence import Array
from tailmetrics.significance.interval import (
    FEW,
    Gaps,
    Interval,
    decimals_that_hold,
    first_decimal,
)
from tailmetrics.significance.moments import ROUNDING
from tailmetrics.significance.pair_tests import PairTest
from tailmetrics.significance.planning import least_difference
from tailmetrics.significance.resampling import total
from tailmetrics.significance.rows import (
    Clusters,
    KeyRows,
    Kind,
    ModelRows,
    check_names,
    covers,
    keys_of,
    read_models,
)

CALLER = "compare"

Correction: TypeAlias = Literal["max-t", "holm", "bonferroni", "bh", "none"]


@dataclass(frozen=True)
class PValues:
    """Two-sided p-values of "no difference", in [0, 1]; NaN where no test applies.

    Attributes:
        randomisation: Of the test that swaps rows or clusters between the models. It is
            exact where few differ. Except for medians it is a mid-p: swaps that differ
            exactly as much as the models count half, because results of hits or counts
            are discrete. NaN if a model has several runs, or if labels are drawn and
            there is only one.
        total: Of Student's t test, whose variance adds the variance between runs or
            labels to the variance between rows; NaN if each model has one run and no
            labels are drawn.
    """

    randomisation: float
    total: float = nan

    @property
    def decisive(self) -> float:
        """The p-value that decides: ``total``, or ``randomisation`` without it."""
        if isnan(self.total):
            return self.randomisation
        return self.total

    def with_decisive(self, p: float) -> PValues:
        """Return ``p`` as the p-value that decides, without the other."""
        if isnan(self.total):
            return PValues(p)
        return PValues(nan, p)


@dataclass(frozen=True)
class Comparison:
    """The comparison of a model with a baseline by one key, on rows that count in both.

    Attributes:
        key: The key, as in the values of rows.
        run: Name of the model.
        baseline: Name of the baseline, the other model.
        statistic: ``"mean"``, ``"ratio"`` (of sums), ``"median"``, ``"labels"``
            (average over labels) or ``"gap"``.
        value: The statistic of the model.
        baseline_value: The statistic of the baseline.
        interval: The difference from the baseline, with its confidence interval.
        p: p-values of this comparison alone.
        p_corrected: p-values corrected for the number of comparisons.
        wins: Number of rows in which the model is better; for an average over labels,
            number of labels; 0 for a gap.
        ties: Number of rows, or labels, in which both models have equal values.
        losses: Number of rows, or labels, in which the model is worse.
        cohens_dz: Mean of the row differences, divided by their standard deviation; NaN
            if no mean is compared.
        relative_difference: The difference, divided by ``baseline_value``; NaN if
            ``baseline_value`` is 0.
        least_difference: The smallest true difference that the test finds on this many
            rows with a power of 0.8, if rows vary as they do here. The level is
            corrected for the number of comparisons; NaN where the standard error is
            unknown or 0, with fewer than 10 rows or clusters, and where no swap of so
            few can reach the level.
        bin_error: Upper bound of the error of the difference that bins cause: scores of
            areas that share a bin count as equal. No smaller difference is significant.
        swaps: Number of random swaps in the randomisation test; 0 where the test went
            through all swaps.
        lower_is_better: Whether a lower value is better, as :func:`compare` was told.
        tested: Whether the comparison was to be tested. An untested one has an
            interval, and no p-value.
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
    tested: bool = True

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
        """Whether more swaps could lower the p-value.

        That is so if no random swap differs as much as the models.
        """
        # without such a swap the p-value is 1 / (swaps + 1); with one it is at least
        # 1.5 times as large (mid-p)
        return (
            self.swaps > 0
            and isnan(self.p.total)
            and self.p.randomisation * (self.swaps + 1) < 1.25
        )

    @property
    def decimals(self) -> int:
        """The number of decimals of values and difference that hold, at least 1.

        A significant difference has as many as it takes not to be rounded to 0.
        """
        decimals = decimals_that_hold(self.bin_error)
        if self.significant:
            decimals = max(decimals, first_decimal(self.difference))
        return decimals

    @property
    def significant(self) -> bool:
        """Whether the corrected decisive p-value is at most 1 - confidence.

        False where bins leave the sign uncertain.
        """
        return (
            self.p_corrected.decisive <= 1 - self.interval.confidence
            and abs(self.difference) >= self.bin_error
        )


class Contrast(Estimate):
    """The difference of two models by one key, on the rows that count in both models.

    Args:
        key: The key, as in the values of rows.
        models: The values of the model, and of the baseline.
        clusters: Clusters of rows that are drawn and swapped together; None where rows
            are drawn alone.
        resample: Whether labels are drawn, too.
    """

    def __init__(
        self,
        key: str,
        models: tuple[KeyRows, KeyRows],
        clusters: Clusters | None,
        resample: Resample,
    ) -> None:
        super().__init__(models, clusters, resample)
        self.key = key

    @property
    def values(self) -> tuple[float, float]:
        """The value of the model, and of the baseline."""
        if self.kind in ("mean", "ratio", "median") and self.has_row_values:
            first, second = self.model_statistics  # of the rows that count in both
            return total(first), total(second)
        model, baseline = self.models
        return float(np.mean(model.runs)), float(np.mean(baseline.runs))

    def p_of_student(self) -> float:
        """Return the p-value of Student's t test; NaN if no runs or labels vary."""
        error, degrees = self.error()
        if not self.extra_variances or isnan(error):
            return nan
        if not error:
            return 1.0
        # importing tailmetrics.significance needs no scipy
        from scipy.special import stdtr

        return float(2 * stdtr(degrees, -abs(self.value) / error))

    def effect(self) -> float:
        """Return Cohen's d of the row differences; NaN if no mean is compared."""
        if self.kind != "mean" or self.n < 2:
            return nan
        mean, deviation = (
            float(self.row_values.mean()),
            float(self.row_values.std(ddof=1)),
        )
        rounding = ROUNDING * max(
            float(np.abs(side.values[self.rows]).max()) for side in self.models
        )
        if not deviation <= rounding:
            return mean / deviation
        if abs(mean) > rounding:
            return copysign(inf, mean)
        return 0.0

    def precision(self, draws: Array | None) -> Precision:
        """Return how exactly the rows tell the difference, given resampled values."""
        error, degrees = self.error(draws)
        if self.facts.refusal is not None:
            error = nan
        return Precision(
            error,
            degrees,
            self.facts.units,
            self.size_of_change,
            self.bin_error,
            bool(self.extra_variances),
        )

    def outcomes(self, lower_is_better: bool) -> tuple[int, int, int]:
        """Return in how many rows, or labels, the model is better, equal and worse."""
        if self.kind == "gap":
            return 0, 0, 0
        if self.influences:
            first, second = [influence.label_values for influence in self.influences]
        else:
            first, second = [side.values[self.rows] for side in self.models]
        if first.shape != second.shape:  # files whose labels are numbered differently
            return 0, 0, 0
        if lower_is_better:
            first, second = second, first
        is_rounding = np.abs(first - second) <= ROUNDING * np.maximum(
            np.abs(first), np.abs(second)
        )
        ties = (first == second) | (is_rounding & np.isfinite(first))
        return (
            int((~ties & (first > second)).sum()),
            int(ties.sum()),
            int((~ties & (first < second)).sum()),
        )


@dataclass(frozen=True)
class Precision:
    """How exactly the rows tell a difference.

    Attributes:
        error: The standard error; NaN if it is unknown.
        degrees: Its degrees of freedom.
        units: The number of rows or clusters that contribute.
        size_of_change: The size of one change of a row; 0 if nothing is known about it.
        bin_error: Upper bound of the error that bins cause.
        by_student: Whether Student's t test decides.
    """

    error: float
    degrees: float
    units: int
    size_of_change: float
    bin_error: float
    by_student: bool

    def least_difference(self, level: float) -> float:
        """Return the smallest true difference that a test at this level finds.

        The test finds it with the probability ``POWER``.
        """
        # a mid-p of rows that all differ in one direction is 2^-units: no difference
        # makes it smaller
        no_swap_reaches_level = not self.by_student and 0.5**self.units > level
        if (
            isnan(self.error)
            or self.error == 0
            or self.units < FEW
            or no_swap_reaches_level
        ):
            return nan
        least = least_difference(
            self.error, self.degrees, self.units, self.size_of_change, level
        )
        return least + self.bin_error


@names_missing_extra
def compare(
    runs: Mapping[str, ModelRows],
    baseline: str | None = None,
    *,
    clusters: ArrayLike | None = None,
    identities: Identities | None = None,
    medians: Collection[str] = (),
    lower_is_better: Collection[str] = (),
    unbounded: Collection[str] = (),
    gaps: Gaps | None = None,
    parts: Collection[str] = (),
    only: Collection[str] | None = None,
    resample: Resample = "rows",
    correction: Correction = "max-t",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Comparison]:
    """Return a comparison of every pair of models by every key, row by row.

    Rows, or whole clusters of rows, are assumed to be independent. The randomisation
    test swaps the results of the two models within each row or cluster, and computes
    the statistic of each side again. Numerator and denominator of a ratio are swapped
    together, and so are the labels of a row in an average over labels. The bootstrap
    draws rows or clusters with the results of both models. Intervals are computed as in
    :func:`tailmetrics.significance.intervals`; the interval of an average over labels
    is at least as wide as the test asks. docs/significance.md reports the error rates
    in simulations.

    Args:
        runs: Name of a model -> key -> values of rows, as for
            :func:`tailmetrics.significance.intervals`. A list of dicts holds several
            runs of one model, such as seeds. All runs have the same keys and the same
            rows, in the same order.
        baseline: The model with which all others are compared. None compares all pairs;
            the baseline of a pair is then the earlier model.
        clusters: Shape (N,), the cluster of each row, such as its user or patient. Rows
            of one cluster may depend on one another, so they are drawn and swapped
            together. None if all rows are independent.
        identities: Model -> the entries that ``tailmetrics.evaluation.digest`` makes.
            Models that differ in targets, buckets, training counts, options or
            arguments of a key are refused.
        medians: Keys, with or without their bucket, whose statistic is the median
            instead of the mean.
        lower_is_better: Keys, with or without their bucket, of which less is better.
        unbounded: Keys, with or without their bucket, whose values can lie outside [0,
            1], such as DCG or ranks, even if no value of these rows does.
        gaps: Name of a gap -> the keys of its buckets, head first. The gap is the value
            of the first bucket that all models have measured, minus the value of the
            last one. Models are compared by it.
        parts: Keys that only gaps read; they are not compared themselves.
        only: The questions that are tested, as keys or patterns: ``"precision@5"`` is
            this key alone, ``"recall@10/*"`` all its buckets and its gap. Other keys
            are compared without a test, and do not count in the correction. None tests
            all but the gaps of ``parts``, which ask the same question as other gaps.
            Such a gap is tested if ``only`` holds its whole name.
        resample: ``"rows"`` if rows are a random sample; ``"rows,labels"`` if labels
            are one, too.
        correction: How p-values are corrected for the number of tested keys and pairs.
            ``"max-t"`` compares each key with the largest difference of all keys under
            the same swaps (Westfall and Young), times the number of pairs; where runs
            or labels vary, it is ``"holm"``. Others: ``"holm"``, ``"bonferroni"``,
            ``"bh"`` or ``"none"``, see :func:`correct`.
        confidence: Confidence of each interval, from 0.5 to 0.9999; 1 - confidence is
            the level of the tests.
        resamples: Number of bootstrap resamples and of random swaps. More are drawn
            where the level, corrected for the number of comparisons, needs smaller
            p-values. Long tests of averages over labels end early where no key is near
            the level.
        seed: The same seed gives the same result.

    Returns:
        The comparisons, pair by pair, with keys in the order of the first model.

    Raises:
        ValueError: If models differ in keys, rows, kind of value or identity, if there
            is not one cluster per row, or if an argument names an unknown key or model.

    >>> better, worse = [1, 1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 1, 0]
    >>> (comparison,) = compare({"old": {"recall@5": worse}, "new": {"recall@5": better}})
    >>> comparison.difference, comparison.p.randomisation
    (0.75, 0.015625)
    >>> comparison.wins, comparison.ties, comparison.losses
    (6, 2, 0)

    Source: Smucker, Allan and Carterette, CIKM 2007, for the randomisation test beside
    others; see also ``tailmetrics.significance.swapping``.
    """
    check_choice(CALLER, "correction", correction, Correction)
    check_choice(CALLER, "resample", resample, Resample)
    check_number(CALLER, "confidence", confidence, 0.5, 0.9999)
    check_count(CALLER, "seed", seed, minimum=0)
    gaps = gaps or {}
    pairs = _pairs(tuple(runs), baseline)
    input_keys = keys_of(next(iter(runs.values())))
    lower_keys = check_names(
        CALLER, "lower_is_better", lower_is_better, (*input_keys, *gaps)
    )
    check_identities(CALLER, identities, list(runs), input_keys)
    models, row_clusters, num_rows = read_models(
        CALLER, runs, clusters, medians, unbounded, gaps, parts
    )
    (first_model, *_) = models.values()
    keys = [key for key in first_model if key not in parts]
    if not keys:
        raise ValueError(
            f"{CALLER}: nothing is left to compare, because parts holds all keys and "
            "no gap is measured; leave a key out of parts."
        )
    untested_gaps = set()
    for name, gap_keys in gaps.items():
        if not set(gap_keys).isdisjoint(parts):
            untested_gaps.add(name)
    tested = _tested_keys(only, keys, untested_gaps)
    resamples = resamples_needed(CALLER, resamples, confidence)
    num_corrected = {"none": 1, "max-t": len(pairs)}.get(
        correction, len(pairs) * max(len(tested), 1)
    )
    swaps = resamples_needed(CALLER, resamples, confidence, num_corrected)

    comparisons: list[Comparison] = []
    precisions: list[Precision] = []
    tests: list[PairTest] = []
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for run, other in pairs:
            sides = {key: (models[run][key], models[other][key]) for key in keys}
            test = PairTest.of_pair(sides, row_clusters, tested, swaps, seed)
            tests.append(test)
            contrasts = (
                Contrast(key, key_sides, row_clusters, resample)
                for key, key_sides in sides.items()
            )
            for contrast, draws in with_draws(contrasts, num_rows, resamples, seed):
                key = contrast.key
                interval = test.widened(
                    key, contrast, contrast.interval(draws, confidence)
                )
                comparison = _comparison(
                    contrast, run, other, interval, covers(lower_keys, key)
                )
                comparison = replace(
                    comparison, swaps=test.num_swaps(key), tested=key in tested
                )
                if key in tested and contrast.facts.refusal is None:
                    comparison = replace(
                        comparison,
                        p=PValues(test.p_value(key), contrast.p_of_student()),
                    )
                comparisons.append(comparison)
                precisions.append(contrast.precision(draws))
    return _corrected(comparisons, precisions, tests, correction)


def _tested_keys(
    only: Collection[str] | None, keys: Sequence[str], untested_gaps: Collection[str]
) -> frozenset[str]:
    """Return the keys that a pattern of ``only`` matches; all keys without ``only``.

    Args:
        only: Keys or patterns.
        keys: All keys.
        untested_gaps: Gaps that are tested only if ``only`` holds their whole name.

    Raises:
        ValueError: If a pattern matches no key, or there is no pattern.
    """
    if only is None:
        return frozenset(keys).difference(untested_gaps)
    if isinstance(only, str):
        raise TypeError(
            f"{CALLER}: only={only!r} is one string; pass a list of keys or patterns, "
            f"such as [{only!r}]."
        )
    if not only:
        raise ValueError(
            f"{CALLER}: only={only!r} is empty, so that nothing would be tested; pass "
            "keys or patterns, such as "
            f"{keys[0]!r}, or leave only out, which tests all."
        )
    tested = set()
    for pattern in only:
        matches = set()
        for key in keys:
            if matches_pattern(key, pattern, untested_gaps):
                matches.add(key)
        if not matches:
            raise ValueError(
                f"{CALLER}: only holds {pattern!r}, which matches no key; the keys "
                f"are {', '.join(keys)}."
            )
        tested |= matches
    return frozenset(tested)


def matches_pattern(
    key: str, pattern: str, untested_gaps: Collection[str] = ()
) -> bool:
    """Whether a pattern names a key.

    Only its whole name names a gap in ``untested_gaps``.
    """
    return key == pattern or (key not in untested_gaps and fnmatchcase(key, pattern))


def _comparison(
    contrast: Contrast,
    run: str,
    baseline: str,
    interval: Interval,
    lower_is_better: bool,
) -> Comparison:
    """Return the comparison by one key, without p-values."""
    value, baseline_value = contrast.values
    wins, ties, losses = contrast.outcomes(lower_is_better)
    relative_difference = nan
    if baseline_value:
        relative_difference = contrast.value / baseline_value
    return Comparison(
        key=contrast.key,
        run=run,
        baseline=baseline,
        statistic=contrast.kind,
        value=value,
        baseline_value=baseline_value,
        interval=interval,
        p=PValues(nan),
        p_corrected=PValues(nan),
        wins=wins,
        ties=ties,
        losses=losses,
        cohens_dz=contrast.effect(),
        relative_difference=relative_difference,
        bin_error=contrast.bin_error,
        lower_is_better=lower_is_better,
    )


def _corrected(
    comparisons: Sequence[Comparison],
    precisions: Sequence[Precision],
    tests: Sequence[PairTest],
    correction: Correction,
) -> list[Comparison]:
    """Return the comparisons with corrected p-values and least differences.

    The least differences are of the corrected level.
    """
    level = 1 - comparisons[0].interval.confidence
    if correction == "max-t" and all(
        isnan(comparison.p.total) for comparison in comparisons
    ):
        corrected, levels = _corrected_by_swaps(comparisons, tests, level)
    else:
        if correction == "max-t":
            correction = "holm"
        decisive = [comparison.p.decisive for comparison in comparisons]
        corrected = correct(decisive, correction)
        if correction in ("holm", "bonferroni"):
            num_tested = sum(not isnan(p) for p in decisive)
            level /= max(1, num_tested)
        levels = [level] * len(comparisons)

    result = []
    for comparison, precision, p, comparison_level in zip(
        comparisons, precisions, corrected, levels, strict=True
    ):
        p_corrected = comparison.p.with_decisive(p)
        least = precision.least_difference(comparison_level)
        result.append(
            replace(comparison, p_corrected=p_corrected, least_difference=least)
        )
    return result


def _corrected_by_swaps(
    comparisons: Sequence[Comparison], tests: Sequence[PairTest], level: float
) -> tuple[list[float], list[float]]:
    """Return p-values corrected by swaps, and the level of each.

    The swaps of each pair correct them; they are multiplied by the number of pairs.
    """
    corrected: list[float] = []
    levels: list[float] = []
    num_keys = len(comparisons) // len(tests)
    for number, test in enumerate(tests):
        pair = comparisons[number * num_keys : (number + 1) * num_keys]
        keys = []
        for comparison in pair:
            if not isnan(comparison.p.randomisation):
                keys.append(comparison.key)
        p_values = test.corrected_p_values(keys)
        for comparison in pair:
            p = len(tests) * p_values.get(comparison.key, nan)
            corrected.append(min(p, 1.0))  # NaN stays NaN
        levels += [test.single_level(keys, level / len(tests))] * num_keys
    return corrected, levels


@names_missing_extra
def correct(
    p_values: Sequence[float],
    correction: Literal["holm", "bonferroni", "bh", "none"] = "holm",
) -> list[float]:
    """Return the corrected p-values, which can all be compared with one level.

    A corrected p-value lies in [0, 1], and is never below the p-value itself. NaN stays
    NaN, and is not counted.

    Args:
        p_values: The p-values of all comparisons.
        correction: ``"holm"`` and ``"bonferroni"`` bound the chance of any false
            discovery under any dependence; ``"bh"`` (Benjamini-Hochberg) bounds the
            expected share of false discoveries among all discoveries.

    Raises:
        ValueError: If a p-value does not lie in [0, 1].

    >>> correct([0.5, 0.25, 0.0625])
    [0.5, 0.5, 0.1875]

    Source: Holm, Scandinavian Journal of Statistics 6 (1979); Benjamini and Hochberg,
    JRSS B 57 (1995).
    """
    check_choice(
        "correct", "correction", correction, ("holm", "bonferroni", "bh", "none")
    )
    try:
        corrected = np.array(p_values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            "correct: p_values holds other things than numbers; pass a list "
            "of p-values."
        ) from None
    if corrected.ndim != 1:
        raise TypeError(
            f"correct: p_values is of shape {list(corrected.shape)}; pass a list "
            "of p-values."
        )
    is_tested = ~np.isnan(corrected)
    p = corrected[is_tested]
    outside = p[(p < 0) | (p > 1)]
    if outside.size:
        raise ValueError(
            f"correct: p_values holds {outside[0]:g}; a p-value lies between 0 and 1."
        )
    if correction == "bonferroni":
        p = np.minimum(1, p * p.size)
    elif correction == "holm":
        order = np.argsort(p)
        steps = p[order] * np.arange(p.size, 0, -1)
        p[order] = np.minimum(1, np.maximum.accumulate(steps))
    elif correction == "bh":
        # importing tailmetrics.significance needs no scipy
        from scipy.stats import false_discovery_control

        p = false_discovery_control(p, method="bh")
    corrected[is_tested] = p
    values: list[float] = corrected.tolist()
    return values


def alike(comparisons: Iterable[Comparison], key: str) -> list[list[str]]:
    """Return groups of models in which no two models differ significantly by one key.

    A model can be in several groups. Two models differ significantly if no group has
    both of them.

    Args:
        comparisons: The result of :func:`compare` for all pairs of models.
        key: The key.

    Raises:
        ValueError: If not all pairs of models were compared, and tested, by the key.

    >>> rows = {"a": [0.0] * 20, "b": [0.0] * 19 + [1.0], "c": [1.0] * 20}
    >>> alike(compare({name: {"hit": row} for name, row in rows.items()}, resamples=999), "hit")
    [['a', 'b'], ['c']]

    Source: Piepho, An algorithm for a letter-based representation of all-pairwise
    comparisons, JCGS 13 (2004).
    """
    comparisons = list(comparisons)
    key_comparisons = [
        comparison for comparison in comparisons if comparison.key == key
    ]
    if not key_comparisons:
        keys = ", ".join(dict.fromkeys(comparison.key for comparison in comparisons))
        raise ValueError(
            f"alike: {key!r} was not compared; the keys are {keys or 'none'}."
        )
    names: dict[str, None] = {}
    for comparison in key_comparisons:
        names[comparison.baseline] = names[comparison.run] = None
        if not comparison.tested:
            raise ValueError(
                f"alike: {key!r} was compared, but not tested; add it to only=, or "
                "leave only= out."
            )
    if len(key_comparisons) < len(names) * (len(names) - 1) // 2:
        raise ValueError(
            f"alike: of the models {', '.join(names)} only some pairs were compared; "
            "call compare without baseline."
        )

    model_groups = [frozenset(names)]
    for comparison in key_comparisons:
        if comparison.significant:
            model_groups = _split(model_groups, comparison.run, comparison.baseline)
    order = list(names)
    ordered_groups = [sorted(group, key=order.index) for group in model_groups]
    return sorted(ordered_groups, key=lambda group: order.index(group[0]))


def _split(
    model_groups: Sequence[frozenset[str]], first: str, second: str
) -> list[frozenset[str]]:
    """Return the groups, with each group that holds both models split into two.

    One part is without the first model, the other without the second.
    """
    parts: dict[frozenset[str], None] = {}
    for group in model_groups:
        if {first, second} <= group:
            parts[group - {first}] = parts[group - {second}] = None
        else:
            parts[group] = None
    largest = []
    for group in parts:
        if not any(group < other for other in parts):
            largest.append(group)
    return largest


def _pairs(names: Sequence[str], baseline: str | None) -> list[tuple[str, str]]:
    """Return the pairs that are compared: each model with its baseline."""
    if len(names) < 2:
        raise ValueError(
            f"{CALLER}: {len(names)} run(s) given; pass at least two runs of the "
            "same rows."
        )
    if baseline is None:
        return [(later, earlier) for earlier, later in combinations(names, 2)]
    check_choice(CALLER, "baseline", baseline, names)
    return [(name, baseline) for name in names if name != baseline]
