"""Runs compared on the same rows: differences, their intervals, tests and effect sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import combinations
from math import ceil
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike

from tailmetrics._checks import check_choice, check_count, check_number
from tailmetrics.significance._clusters import read_clusters
from tailmetrics.significance._contrast import Contrast
from tailmetrics.significance._estimate import drawn_for
from tailmetrics.significance._identities import Identities, check_identities
from tailmetrics.significance._resampling import groups, swap
from tailmetrics.significance._row_values import KeyRows, RowValues, check_names, covers, read_rows
from tailmetrics.significance.comparison import Comparison, PValues
from tailmetrics.significance.corrections import CORRECTIONS, Correction, correct

CALLER = "compare"


def compare(
    runs: Mapping[str, RowValues],
    baseline: str | None = None,
    *,
    clusters: ArrayLike | None = None,
    identities: Identities | None = None,
    medians: Collection[str] = (),
    lower_is_better: Collection[str] = (),
    unbounded: Collection[str] = (),
    correction: Correction = "holm",
    confidence: float = 0.95,
    resamples: int | None = None,
    seed: int = 0,
) -> list[Comparison]:
    """Return every key of every pair of runs, compared row by row.

    Rows, or whole clusters of rows, are taken for independent of one another. The randomisation test swaps the runs'
    results within each row or cluster, for a ratio numerator and denominator together, and takes the statistic of each
    side anew; p = (b + 1) / (m + 1) with b of m random swaps at least as far from zero. The bootstrap draws rows or
    clusters, both runs' results together; intervals are made as in :func:`tailmetrics.significance.intervals`, and the
    bootstrap p-value from the same draws. How often tests and intervals err in simulation: docs/significance.md.

    Args:
        runs: Name -> key -> values of shape (N,), or a tuple (numerator, denominator) of shape (N,) each; NaN in rows
            that do not count. All runs have the same keys, and the same rows in the same order.
        baseline: The run that all others are held against; None compares all pairs, the later one held against the
            earlier.
        clusters: Shape (N,), the cluster of each row, such as its user or patient, where several rows of one are not
            independent: these are drawn and swapped together. None where every row stands alone.
        identities: Run -> what its values depend on, as ``tailmetrics.evaluation.digest`` makes entries;
            runs that differ in targets, buckets, training counts, options or arguments of a key are refused.
        medians: Keys, with or without their bucket, whose statistic is the median instead of the mean.
        lower_is_better: Keys, with or without their bucket, where the lower value wins.
        unbounded: Keys, with or without their bucket, whose values can lie outside [0, 1], such as DCG or ranks, even
            if none of these rows' does.
        correction: Over all keys and pairs: ``"holm"``, ``"bonferroni"``, ``"bh"`` or ``"none"``.
        confidence: Of each interval, between 0.5 and 0.9999; 1 - confidence is the level of the tests.
        resamples: m; None takes 10,000, or more where many comparisons need smaller p-values.
        seed: Same seed, same result.

    Returns:
        Pair by pair, keys in the order of the first run.

    Raises:
        ValueError: If runs differ in keys, rows, kind of value or identity, if there is not one cluster per row, or if
            an argument names a key or run there is not.

    >>> better, worse = [1, 1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 1, 0]
    >>> (found,) = compare({"old": {"recall@5": worse}, "new": {"recall@5": better}})
    >>> found.difference, found.p.randomisation, (found.wins, found.ties, found.losses)
    (0.75, 0.03125, (6, 2, 0))

    Source: Noreen, Computer-intensive methods for testing hypotheses (1989), and Yeh, COLING 2000, for swapping under
    ratios; Phipson and Smyth, SAGMB 9 (2010), for b + 1; Davison and Hinkley, Bootstrap methods and their application
    (1997), section 4.4, for the studentised bootstrap test; Smucker, Allan and Carterette, CIKM 2007, for the three
    tests side by side.
    """
    check_choice(CALLER, "correction", correction, CORRECTIONS)
    check_number(CALLER, "confidence", confidence, 0.5, 0.9999)
    check_count(CALLER, "seed", seed, minimum=0)
    pairs = _pairs(tuple(runs), baseline)
    keys = tuple(next(iter(runs.values())))
    medians = check_names(CALLER, "medians", medians, keys)
    lower_is_better = check_names(CALLER, "lower_is_better", lower_is_better, keys)
    unbounded = check_names(CALLER, "unbounded", unbounded, keys)
    check_identities(CALLER, identities, list(runs), keys)
    read = {name: read_rows(CALLER, name, rows, medians) for name, rows in runs.items()}
    _check_alike(read)
    resamples = _enough_resamples(resamples, len(pairs) * len(keys), correction, confidence)
    num_rows = next(iter(read[pairs[0][0]].values())).numerator.size
    together = read_clusters(CALLER, clusters, num_rows)

    def contrast(run: str, other: str, key: str) -> Contrast:
        lower, shares = covers(lower_is_better, key), not covers(unbounded, key)
        return Contrast(key, read[run][key], read[other][key], together, lower_is_better=lower, shares=shares)

    comparisons = []
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for run, other in pairs:
            contrasts = (contrast(run, other, key) for key in keys)
            for group in groups(contrasts, lambda one: one.columns, max(num_rows, resamples)):
                comparisons += _compare_pair(run, other, group, confidence, resamples, seed)
    return _corrected(comparisons, correction)


def _compare_pair(
    run: str, baseline: str, contrasts: Sequence[Contrast], confidence: float, resamples: int, seed: int
) -> list[Comparison]:
    draws = drawn_for([contrast.estimate for contrast in contrasts], resamples, seed)
    random = iter(swap([contrast.swapped for contrast in contrasts if not contrast.exact], resamples, seed))
    swaps = [contrast.all_swaps() if contrast.exact else next(random) for contrast in contrasts]
    return [
        contrast.comparison(run, baseline, draw, swapped, confidence)
        for contrast, draw, swapped in zip(contrasts, draws, swaps, strict=True)
    ]


def _corrected(comparisons: Sequence[Comparison], correction: Correction) -> list[Comparison]:
    by_test = zip(*(astuple(comparison.p) for comparison in comparisons), strict=True)
    by_comparison = zip(*(correct(p_values, correction) for p_values in by_test), strict=True)
    return [
        replace(comparison, p_corrected=PValues(*p)) for comparison, p in zip(comparisons, by_comparison, strict=True)
    ]


def _pairs(names: Sequence[str], baseline: str | None) -> list[tuple[str, str]]:
    if len(names) < 2:
        raise ValueError(f"{CALLER}: {len(names)} run(s) given; pass at least two runs of the same rows.")
    if baseline is None:
        return [(later, earlier) for earlier, later in combinations(names, 2)]
    check_choice(CALLER, "baseline", baseline, names)
    return [(name, baseline) for name in names if name != baseline]


def _check_alike(runs: Mapping[str, Mapping[str, KeyRows]]) -> None:
    (first_name, first), *others = runs.items()
    for name, run in others:
        if missing := sorted(first.keys() ^ run.keys()):
            raise ValueError(
                f"{CALLER}: only one of {first_name} and {name} has {', '.join(map(repr, missing))}; "
                "evaluate both with the same metrics and buckets."
            )
        for key, rows in run.items():
            if (rows.kind, rows.numerator.size) != (first[key].kind, first[key].numerator.size):
                raise ValueError(
                    f"{CALLER}: {key!r} is a {first[key].kind} of {first[key].numerator.size} rows in {first_name}, "
                    f"but a {rows.kind} of {rows.numerator.size} rows in {name}; pass the same rows for all runs."
                )


def _enough_resamples(resamples: int | None, comparisons: int, correction: Correction, confidence: float) -> int:
    needed = ceil(comparisons / (1 - confidence)) - 1 if correction in ("holm", "bonferroni") else 0
    if resamples is None:
        return max(10_000, 2 * needed)
    check_count(CALLER, "resamples", resamples)
    if resamples < needed:
        warn(
            f"{CALLER}: resamples={resamples} cannot give a corrected p-value of {1 - confidence:.3g} for "
            f"{comparisons} comparisons; pass at least {needed}, or None.",
            stacklevel=3,
        )
    return resamples
