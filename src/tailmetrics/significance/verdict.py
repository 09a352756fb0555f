"""The verdict: results of comparisons in a line of words for each pair of models."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isinf, isnan
from types import MappingProxyType

from tailmetrics._arguments import grouped, some_of
from tailmetrics.significance.comparing import Comparison
from tailmetrics.significance.estimating import ONE_LABEL, TWO_RUNS
from tailmetrics.significance.interval import FEW, first_decimal
from tailmetrics.significance.rows import check_names, covers

(
    BETTER,
    HIGHER,
    NOT_SHOWN,
    SAME,
    LOWER,
    WORSE,
    TOO_FEW_ROWS,
    TOO_FEW_CLUSTERS,
    INFINITE,
) = OUTCOMES = (
    "better",
    "higher",
    "no difference shown",
    "the same in every row",
    "lower",
    "worse",
    "too few rows",
    "too few clusters",
    "infinite",
)
UNTESTED = "no value could be tested: a value is infinite, or too few rows count"
ONLY_GAPS = "only gaps were tested, and a smaller gap is no gain by itself"
NAMED_BUCKETS = 6
"""The most buckets, or ranges of deciles, that a verdict names for an outcome.

Ten deciles have five, and unseen.
"""
NAMED_KEYS = 3
"""The most other keys that a verdict names as worse, and as better.

It counts the remaining keys.
"""


def verdict(
    comparisons: Iterable[Comparison],
    buckets: Sequence[str] = (),
    lower_is_better: Collection[str] = (),
    headline: str = "",
    over_all: Mapping[str, str] = MappingProxyType({}),
    without_direction: Collection[str] = (),
) -> str:
    """Return the results of comparisons in words: one line for each pair of models.

    A line begins with one metric: with the outcome over all labels, and with the
    buckets in which the model is better, no difference is shown, and the model is
    worse, the rarest buckets first. Buckets with fewer than 10 rows or clusters are
    named apart, and so are those in which all rows have equal values. Values,
    difference and interval are given over all labels, and for the buckets with the
    largest gain and loss. Then the line names other keys by which the model is worse,
    and by which it is better: three at most of each, those of the rarest buckets first.
    It leaves out comparisons without a p-value, except those of infinite values, which
    it names.

    The change of a gap is never part of a verdict: a smaller gap is no gain by itself,
    because a model that misses head and tail alike has one.

    Args:
        comparisons: The result of :func:`compare`.
        buckets: Names of the buckets, head first.
        lower_is_better: Further keys, with or without their bucket, for which a lower
            value is better, in addition to those that :func:`compare` was told.
        headline: The metric with which lines begin, as a key without bucket. If it was
            not compared, lines begin with the first metric by bucket. If no metric is
            by bucket, they are about all keys alike.
        over_all: For each metric by bucket, the key of its value over all labels, if
            that is another key.
        without_direction: Keys, with or without their bucket, for which neither a
            higher nor a lower value is better: the line then says "higher" and "lower".

    Raises:
        ValueError: If an argument names a key that was not compared.

    >>> from tailmetrics.significance import compare
    >>> better = {"recall@1/decile_1": [1.0] * 10, "recall@1/decile_2": [0.0, 1.0] * 5}
    >>> worse = {"recall@1/decile_1": [0.0] * 10, "recall@1/decile_2": [1.0, 0.0] * 5}
    >>> verdict(compare({"old": worse, "new": better}, resamples=999), ["decile_2", "decile_1"])
    'new against old: recall@1: better in decile 1 (.000 → 1.000, +1.000 [+.383, +1.000]), no difference shown in 2.'
    """
    comparisons = list(comparisons)
    keys = list(dict.fromkeys(comparison.key for comparison in comparisons))
    lower_keys = check_names("verdict", "lower_is_better", lower_is_better, keys)
    keys_without_direction = check_names(
        "verdict", "without_direction", without_direction, keys
    )
    writer = VerdictWriter(
        buckets, lower_keys, headline, over_all, keys_without_direction
    )
    pairs = grouped(
        ((comparison.run, comparison.baseline), comparison)
        for comparison in comparisons
    )
    lines = []
    for (run, baseline), pair in pairs.items():
        tested = [
            comparison
            for comparison in pair
            if not isnan(comparison.p_corrected.decisive)
        ]
        infinite = [comparison for comparison in pair if _is_infinite(comparison)]
        sentence = UNTESTED
        if any(comparison.statistic != "gap" for comparison in tested):
            values = [
                comparison
                for comparison in (*tested, *infinite)
                if comparison.statistic != "gap"
            ]
            sentence = writer.line(values)
        elif tested:
            sentence = ONLY_GAPS
        else:
            reasons = {
                comparison.interval.reason
                for comparison in pair
                if isfinite(comparison.difference)
            }
            if len(reasons) == 1 and not reasons.isdisjoint((TWO_RUNS, ONE_LABEL)):
                sentence = f"no value could be tested: {reasons.pop()}"
        lines.append(f"{run} against {baseline}: {sentence}.")
    return "\n".join(lines)


@dataclass(frozen=True)
class VerdictWriter:
    """Writes the line of a pair of models; see :func:`verdict` for the arguments."""

    buckets: Sequence[str]
    lower_is_better: frozenset[str]
    headline: str
    over_all: Mapping[str, str]
    without_direction: frozenset[str] = frozenset()

    def line(self, comparisons: Sequence[Comparison]) -> str:
        """Return the line of one pair."""
        by_bucket: dict[str, dict[str, Comparison]] = {}
        whole: dict[str, Comparison] = {}
        for comparison in comparisons:
            stem, _, bucket = comparison.key.rpartition("/")
            if bucket in self.buckets:
                by_bucket.setdefault(stem, {})[bucket] = comparison
            else:
                whole[comparison.key] = comparison

        stem = self._first_metric(by_bucket, whole)
        if not stem:
            return self._outcomes(whole)
        stem_buckets = by_bucket.pop(stem, {})
        name = self.over_all.get(stem, stem)
        stem_whole = whole.pop(name, None)
        clauses, place = [], ""
        if stem_buckets:
            name, place = stem, " over all labels"
            clauses.append(self._outcomes(stem_buckets))
        if stem_whole is not None:
            clauses.insert(
                0, f"{self._outcome(stem_whole)}{place} ({_sizes(stem_whole)})"
            )
        sentences = [f"{name}: {', '.join(clauses)}"]
        for outcome in (INFINITE, WORSE, BETTER, HIGHER, LOWER):
            names = self._names_elsewhere(outcome, by_bucket, whole)
            if names:
                sentences.append(
                    f"{outcome.capitalize()} elsewhere: "
                    f"{'; '.join(some_of(names, NAMED_KEYS))}"
                )
        return ". ".join(sentences)

    def _first_metric(
        self, by_bucket: Mapping[str, object], whole: Mapping[str, object]
    ) -> str:
        """Return the metric with which a line begins.

        The text is empty if the line is about all keys alike.
        """
        if len(whole) == 1 and not by_bucket:
            return next(iter(whole))
        if (
            self.headline in by_bucket
            or self.over_all.get(self.headline, self.headline) in whole
        ):
            return self.headline
        return next(iter(by_bucket), "")

    def _outcome(self, comparison: Comparison) -> str:
        """Return the outcome of a comparison, one of :data:`OUTCOMES`."""
        if _is_infinite(comparison):
            return INFINITE
        if comparison.significant:
            if covers(self.without_direction, comparison.key):
                return HIGHER if comparison.difference > 0 else LOWER
            lower_is_better = comparison.lower_is_better or covers(
                self.lower_is_better, comparison.key
            )
            if (comparison.difference > 0) == lower_is_better:
                return WORSE
            return BETTER
        if comparison.interval.units < FEW:
            if comparison.interval.clusters is None:
                return TOO_FEW_ROWS
            return TOO_FEW_CLUSTERS
        if comparison.ties == comparison.n:
            return SAME
        return NOT_SHOWN

    def _outcomes(self, comparisons: Mapping[str, Comparison]) -> str:
        """Return the buckets, or keys, of each outcome.

        The text gives the sizes of the largest gain and the largest loss.
        """
        names_by_outcome: dict[str, list[str]] = {outcome: [] for outcome in OUTCOMES}
        for name, comparison in comparisons.items():
            names_by_outcome[self._outcome(comparison)].append(name)

        are_buckets = any(name in self.buckets for name in comparisons)
        clauses, name_deciles = [], are_buckets
        for outcome, names in names_by_outcome.items():
            if not names:
                continue
            if are_buckets:
                names = self._tail_first(names)
            clause = f"{outcome} in {_names_text(names, name_deciles, NAMED_BUCKETS)}"
            if any(name.startswith("decile_") for name in names):
                name_deciles = False
            if outcome in (BETTER, WORSE, HIGHER, LOWER):
                largest = max(names, key=lambda name: abs(comparisons[name].difference))
                which = ""
                if len(names) > 1:
                    which = f"{_names_text([largest], largest in self.buckets)}: "
                clause += f" ({which}{_sizes(comparisons[largest])})"
            clauses.append(clause)
        return ", ".join(clauses)

    def _names_elsewhere(
        self,
        outcome: str,
        by_bucket: Mapping[str, Mapping[str, Comparison]],
        whole: Mapping[str, Comparison],
    ) -> list[str]:
        """Return the other keys of an outcome in words.

        Those of the rarest buckets come first, those of all labels last.
        """
        ranked: list[tuple[int, str]] = []
        for key, comparisons in by_bucket.items():
            names = []
            for name, comparison in comparisons.items():
                if self._outcome(comparison) == outcome:
                    names.append(name)
            if names:
                names = self._tail_first(names)
                rarest = self.buckets.index(names[0])
                ranked.append((-rarest, f"{key} in {_names_text(names)}"))
        for key, comparison in whole.items():
            if self._outcome(comparison) == outcome:
                ranked.append((1, f"{key} over all labels"))
        return [text for _, text in sorted(ranked, key=lambda entry: entry[0])]

    def _tail_first(self, names: Iterable[str]) -> list[str]:
        """Return the names of buckets, the rarest first.

        So a text with some of them names the tail.
        """
        return sorted(names, key=self.buckets.index, reverse=True)


def _is_infinite(comparison: Comparison) -> bool:
    """Whether a comparison could not be tested because a value is infinite."""
    return comparison.tested and (
        isinf(comparison.value) or isinf(comparison.baseline_value)
    )


def _sizes(comparison: Comparison) -> str:
    """Return both values, the difference and its interval as text.

    An example is ``.397 → .523, +.126 [+.080, +.170]``. An interval is of this
    comparison alone. The text says so where it leaves out 0, and the test finds no
    difference; and where the test finds one, and the interval holds 0.
    """
    interval = comparison.interval
    decimals = min(3, comparison.decimals)
    if comparison.significant:
        decimals = max(decimals, first_decimal(comparison.difference))
    baseline_text, text = (
        _brief(value, decimals)
        for value in (comparison.baseline_value, comparison.value)
    )
    text = f"{baseline_text} → {text}, {_brief(comparison.difference, decimals, '+')}"
    if interval.ends:
        text += (
            f" [{_brief(interval.low, decimals, '+')}, "
            f"{_brief(interval.high, decimals, '+')}]"
        )
    if comparison.significant and interval.low <= 0 <= interval.high:
        text += " by the test alone"
    elif not comparison.significant and (interval.low > 0 or interval.high < 0):
        is_corrected = comparison.p_corrected.decisive != comparison.p.decisive
        text += " before correction" if is_corrected else " by the interval alone"
    return text


def _brief(value: float, decimals: int, sign: str = "") -> str:
    """Return a number with some decimals and without a leading zero.

    From 10 on, it has four digits.
    """
    form = f"{sign},.4g"
    if abs(value) < 10:
        form = f"{sign}.{decimals}f"
    return re.sub(r"^([+-]?)0\.", r"\1.", format(value, form))


def _names_text(names: Sequence[str], name_deciles: bool = True, most: int = 4) -> str:
    """Return names, ``most`` at most, in words.

    Deciles are numbers and ranges, after "deciles" if ``name_deciles``.
    """
    deciles, others = [], []
    for name in names:
        match = re.fullmatch(r"decile_(\d+)", name)
        if match:
            deciles.append(int(match[1]))
        else:
            others.append(name)
    ranges = _ranges(sorted(deciles))
    if len(deciles) == 1 and name_deciles:
        ranges[0] = f"decile {ranges[0]}"
    elif ranges and name_deciles:
        ranges[0] = f"deciles {ranges[0]}"
    texts = some_of([*ranges, *others], most)
    if len(texts) == 1:
        return texts[0]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _ranges(numbers: Sequence[int]) -> list[str]:
    """Return ascending numbers as texts, with ranges such as ``"3 to 5"``.

    Consecutive numbers make a range.
    """
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    texts = []
    for start, end in zip(starts, ends, strict=True):
        text = str(start)
        if start != end:
            text += f" to {end}"
        texts.append(text)
    return texts
