"""The metrics of 0.1.0 once more, in plain loops written from the definitions alone, for the differential fuzz.

``tests/oracle.py`` is another reading. Neither shares a line with the other or with the library: a slip would have
to be made twice, in two ways of writing, to go unseen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

NAN = math.nan
Number = Fraction | float


@dataclass(frozen=True)
class Line:
    """One row: all scores (-inf: not retrieved) and the gain of each relevant label."""

    scores: list[float]
    gains: dict[int, float]

    def order(self) -> list[int]:
        """Retrieved labels, best first; of equal scores the lower label first."""
        found = [(-score, label) for label, score in enumerate(self.scores) if score != -math.inf]
        return [label for _, label in sorted(found)]


@dataclass(frozen=True)
class Facts:
    """What is known beside the rows: labels, training counts, buckets as a list of sets (None: overall)."""

    num_labels: int
    counts: list[int]
    num_train: int
    buckets: list[set[int]] | None = None


@dataclass
class Seen:
    """One row as one bucket sees it: what is shown, the gains that count, the row's whole list for scores."""

    shown: list[int]
    gains: dict[int, float]
    scores: list[float] = field(default_factory=list)

    def hits(self, k: int | None) -> int:
        return sum(1 for label in self.shown[:k] if label in self.gains)


def values(name: str, lines: list[Line], facts: Facts, options: dict[str, Any], k: int | None) -> list[float]:
    """The value overall, as a list of one, or the value of each bucket."""
    groups: list[set[int] | None] = [None] if facts.buckets is None else list(facts.buckets)
    return [one_value(name, lines, facts, options, k, group) for group in groups]


def one_value(
    name: str, lines: list[Line], facts: Facts, options: dict[str, Any], k: int | None, group: set[int] | None
) -> float:
    if name == "TieRateAtK":
        return tie_rate(lines, k or 0)
    inside = set(range(facts.num_labels)) if group is None else group
    if name in SHOWN:
        return SHOWN[name](lines, inside, facts, options, k or 0) if lines else NAN
    seen = [see(line, inside, options, by_bucket=group is not None, cut=name == "KForRecall") for line in lines]
    if name == "KForRecall":
        return depth_needed(seen, facts, options)
    over_rows = options.get("average", "samples") == "samples"
    empty = options.get("empty_target_action") or ("skip" if group is not None and over_rows else "neg")
    counted = [row for row in seen if row.gains or empty != "skip"]
    if not counted:
        return NAN
    if not over_rows:
        return over_labels(name, counted, inside, options, k)
    if name in RATIOS:
        sums = [RATIOS[name](row, facts, options, k or 0) if row.gains else (0.0, 0.0) for row in counted]
        below = math.fsum(pair[1] for pair in sums)
        return math.fsum(pair[0] for pair in sums) / below if below else NAN
    missing = Fraction(int(empty == "pos"))
    return mean([ROWS[name](row, options, k) if row.gains else missing for row in counted])


def see(line: Line, inside: set[int], options: dict[str, Any], by_bucket: bool, cut: bool) -> Seen:
    """Cut a row to a bucket: scope "bucket" takes its labels out of the top depth, "global" leaves the list whole."""
    shown = line.order()
    own = by_bucket and options.get("scope", "bucket") == "bucket"
    if own or cut:
        shown = shown[: options.get("depth", 500)]
    if own:
        shown = [label for label in shown if label in inside]
    return Seen(shown, {label: gain for label, gain in line.gains.items() if label in inside}, line.scores)


def mean(parts: list[Number]) -> float:
    if all(isinstance(part, Fraction) for part in parts):
        return float(sum(parts, Fraction(0)) / len(parts))
    return math.fsum(parts) / len(parts)


def precision(row: Seen, options: dict[str, Any], k: int | None) -> Fraction:
    below = k if options.get("denominator") == "k" else len(row.shown[:k])
    return Fraction(row.hits(k), below) if below else Fraction(0)


def recall(row: Seen, options: dict[str, Any], k: int | None) -> Fraction:
    return Fraction(row.hits(k), len(row.gains))


def f1(row: Seen, options: dict[str, Any], k: int | None) -> Fraction:
    below = (k if options.get("denominator") == "k" else len(row.shown[:k])) or 0
    return Fraction(2 * row.hits(k), below + len(row.gains))


def hit_rate(row: Seen, options: dict[str, Any], k: int | None) -> Fraction:
    return Fraction(int(row.hits(k) > 0))


def relevance(row: Seen, options: dict[str, Any], k: int | None) -> Fraction:
    return Fraction(row.hits(k) - row.hits((k or 1) - 1))


def normalized_recall(row: Seen, options: dict[str, Any], k: int | None) -> Fraction:
    return Fraction(row.hits(k), min(k or 1, len(row.gains)))


def reciprocal(row: Seen, options: dict[str, Any], k: int | None) -> Fraction:
    for place in range(len(row.shown[:k])):
        if row.shown[place] in row.gains:
            return Fraction(1, place + 1)
    return Fraction(0)


def average_precision(row: Seen, options: dict[str, Any], k: int | None) -> Fraction:
    total = Fraction(0)
    for place, label in enumerate(row.shown[:k], start=1):
        if label in row.gains:
            total += Fraction(row.hits(place), place)
    n = len(row.gains)
    return total / (min(k, n) if options.get("denominator") == "attainable" and k is not None else n)


def r_precision(row: Seen, options: dict[str, Any], k: int | None) -> Fraction:
    return Fraction(row.hits(len(row.gains)), len(row.gains))


def worth(gain: float, options: dict[str, Any]) -> float:
    return math.expm1(gain * math.log(2)) if options.get("gain") == "exponential" else gain


def discounted(parts: list[float]) -> float:
    return math.fsum(part / math.log2(place + 2) for place, part in enumerate(parts))


def cg(row: Seen, options: dict[str, Any], k: int | None) -> float:
    return math.fsum(worth(row.gains.get(label, 0.0), options) for label in row.shown[:k])


def dcg(row: Seen, options: dict[str, Any], k: int | None) -> float:
    return discounted([worth(row.gains.get(label, 0.0), options) for label in row.shown[:k]])


def ndcg(row: Seen, options: dict[str, Any], k: int | None) -> float:
    best = sorted((worth(gain, options) for gain in row.gains.values()), reverse=True)[:k]
    return dcg(row, options, k) / discounted(best)


def cross_entropy(row: Seen, options: dict[str, Any], k: int | None) -> float:
    if any(row.scores[label] == -math.inf for label in row.gains):
        return math.inf
    top = max(row.scores)
    others = math.fsum(math.exp(score - top) for score in row.scores)
    return math.fsum(top - row.scores[label] + math.log(others) for label in row.gains) / len(row.gains)


ROWS: dict[str, Any] = {
    "PrecisionAtK": precision,
    "RecallAtK": recall,
    "F1AtK": f1,
    "HitRateAtK": hit_rate,
    "AccuracyAtK": hit_rate,
    "RelevanceAtK": relevance,
    "NormalizedRecallAtK": normalized_recall,
    "MRR": reciprocal,
    "MAP": average_precision,
    "RPrecision": r_precision,
    "CGAtK": cg,
    "DCGAtK": dcg,
    "NDCGAtK": ndcg,
    "CrossEntropy": cross_entropy,
}


def depth_needed(seen: list[Seen], facts: Facts, options: dict[str, Any]) -> float:
    """Smallest k whose share of hits, both as float64, reaches the recall; a row that never does counts the miss value."""
    miss = options.get("miss_value")
    needed = []
    for row in seen:
        if row.gains:
            n = len(row.gains)
            depths = [
                place for place in range(1, len(row.shown) + 1) if row.hits(place) / n >= options.get("min_recall", 0.8)
            ]
            needed.append(depths[0] if depths else (facts.num_labels // 2 if miss is None else miss))
    if not needed:
        return NAN
    needed.sort()
    half = len(needed) // 2
    middle = needed[half : half + 1] if len(needed) % 2 else needed[half - 1 : half + 1]
    chosen = needed if options.get("statistic") == "mean" else middle
    return float(Fraction(sum(chosen), len(chosen)))


def weight(label: int, facts: Facts, options: dict[str, Any]) -> float:
    a, b = options.get("a", 0.55), options.get("b", 1.5)
    c = (math.log(facts.num_train) - 1) * (b + 1) ** a
    return 1 + c / (facts.counts[label] + b) ** a


def gained(row: Seen, facts: Facts, options: dict[str, Any], k: int) -> list[float]:
    return [weight(label, facts, options) if label in row.gains else 0.0 for label in row.shown[:k]]


def best_first(row: Seen, facts: Facts, options: dict[str, Any]) -> list[float]:
    return sorted((weight(label, facts, options) for label in row.gains), reverse=True)


def psp(row: Seen, facts: Facts, options: dict[str, Any], k: int) -> tuple[float, float]:
    return math.fsum(gained(row, facts, options, k)) / k, math.fsum(best_first(row, facts, options)[:k]) / k


def psr(row: Seen, facts: Facts, options: dict[str, Any], k: int) -> tuple[float, float]:
    return math.fsum(gained(row, facts, options, k)), math.fsum(best_first(row, facts, options))


def psndcg(row: Seen, facts: Facts, options: dict[str, Any], k: int) -> tuple[float, float]:
    best = best_first(row, facts, options)[:k]
    scale = 1.0 if options.get("normalization") == "sum" else discounted([1.0] * len(best))
    return discounted(gained(row, facts, options, k)) / scale, discounted(best) / scale


RATIOS: dict[str, Any] = {
    "PropensityScoredPrecisionAtK": psp,
    "PropensityScoredRecallAtK": psr,
    "PropensityScoredNDCGAtK": psndcg,
}


def over_labels(name: str, counted: list[Seen], inside: set[int], options: dict[str, Any], k: int | None) -> float:
    """Micro, macro and weighted means from each label's true positives, predictions and support."""
    true = dict.fromkeys(inside, 0)
    shown, support = dict(true), dict(true)
    for row in counted:
        for label in row.gains:
            support[label] += 1
        for label in row.shown[:k]:
            if label in inside:
                shown[label] += 1
                true[label] += int(label in row.gains)
    average = options["average"]
    if average == "micro":
        predicted = (k or 0) * len(counted) if options.get("denominator") == "k" else sum(shown.values())
        return float(of_label(name, sum(true.values()), predicted, sum(support.values())))
    each = {label: of_label(name, true[label], shown[label], support[label]) for label in inside}
    if average == "weighted":
        below = sum(support.values())
        return float(sum((each[label] * support[label] for label in inside), Fraction(0)) / below) if below else 0.0
    which = options.get("labels", "present")
    kept = [
        label for label in inside if which == "all" or support[label] > 0 or (which == "union" and shown[label] > 0)
    ]
    return float(sum((each[label] for label in kept), Fraction(0)) / len(kept)) if kept else 0.0


def of_label(name: str, true: int, shown: int, support: int) -> Fraction:
    above, below = {
        "PrecisionAtK": (true, shown),
        "RecallAtK": (true, support),
        "F1AtK": (2 * true, shown + support),
    }[name]
    return Fraction(above, below) if below else Fraction(0)


def tops(lines: list[Line], inside: set[int], k: int) -> list[int]:
    """The bucket's labels among every row's overall top k, one entry for each time they are shown."""
    return [label for line in lines for label in line.order()[:k] if label in inside]


def proportion(lines: list[Line], inside: set[int], facts: Facts, options: dict[str, Any], k: int) -> float:
    return float(Fraction(len(tops(lines, inside, k)), k * len(lines)))


def coverage(lines: list[Line], inside: set[int], facts: Facts, options: dict[str, Any], k: int) -> float:
    return float(Fraction(len(set(tops(lines, inside, k))), len(inside))) if inside else NAN


def positive_coverage(lines: list[Line], inside: set[int], facts: Facts, options: dict[str, Any], k: int) -> float:
    asked = {label for line in lines for label in line.gains if label in inside}
    found = {label for line in lines for label in line.order()[:k] if label in line.gains and label in inside}
    below = inside if options.get("denominator") == "known" else asked
    return float(Fraction(len(found), len(below))) if below else NAN


def exposures(lines: list[Line], inside: set[int], k: int) -> list[int]:
    times = dict.fromkeys(inside, 0)
    for label in tops(lines, inside, k):
        times[label] += 1
    return sorted(times.values())


def gini(lines: list[Line], inside: set[int], facts: Facts, options: dict[str, Any], k: int) -> float:
    times = exposures(lines, inside, k)
    size, total = len(times), sum(times)
    apart = sum(abs(one - other) for one in times for other in times)
    return float(Fraction(apart, 2 * size * total)) if total else NAN


def entropy(lines: list[Line], inside: set[int], facts: Facts, options: dict[str, Any], k: int) -> float:
    times = [count for count in exposures(lines, inside, k) if count]
    total = sum(times)
    return -math.fsum(count / total * math.log(count / total) for count in times) if total else NAN


def popularity(lines: list[Line], inside: set[int], facts: Facts, options: dict[str, Any], k: int) -> float:
    shown = tops(lines, inside, k)
    return float(Fraction(sum(facts.counts[label] for label in shown), len(shown))) if shown else NAN


def novelty(lines: list[Line], inside: set[int], facts: Facts, options: dict[str, Any], k: int) -> float:
    shown = tops(lines, inside, k)
    parts = [-math.log2(max(facts.counts[label], 1) / facts.num_train) for label in shown]
    return math.fsum(parts) / len(shown) if shown else NAN


SHOWN: dict[str, Any] = {
    "PredictionProportionAtK": proportion,
    "CatalogCoverageAtK": coverage,
    "PositiveCoverageAtK": positive_coverage,
    "GiniAtK": gini,
    "EntropyAtK": entropy,
    "PopularityAtK": popularity,
    "NoveltyAtK": novelty,
}


def tie_rate(lines: list[Line], k: int) -> float:
    tied = 0
    for line in lines:
        order = line.order()
        tied += int(len(order) > k and line.scores[order[k - 1]] == line.scores[order[k]])
    return tied / len(lines) if lines else NAN
