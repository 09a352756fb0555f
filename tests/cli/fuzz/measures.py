"""Every metric by its definition: plain loops over rows, for all of them, by bucket, by group and by label."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cli.fuzz.expected import Asked, Evaluated

STEMS = {
    "PrecisionAtK": "precision_k",
    "RecallAtK": "recall",
    "NDCGAtK": "ndcg",
    "HitRateAtK": "hit_rate",
    "MRR": "mrr",
    "MAP": "map",
    "CatalogCoverageAtK": "catalog_coverage",
    "PopularityAtK": "popularity",
    "PredictionProportionAtK": "prediction_proportion",
}
OF_WHAT_IS_SHOWN = ("CatalogCoverageAtK", "PopularityAtK", "PredictionProportionAtK")
"""Metrics without values per row, and without a level of relevance."""
LABEL_K = 10
"""The cut-off of the values of labels that ``--labels`` adds."""

Cell = float | tuple[float, float] | None


@dataclass
class Measure:
    """One metric, of one bucket or of all labels.

    Attributes:
        stem: Its key without bucket and group.
        bucket: Name of the bucket; None for all labels.
        of: The value of some rows.
        cells: The value of each row, or its two sides, None where the row does not count; None without values per row.
    """

    stem: str
    bucket: str | None
    of: Callable[[list[int]], float]
    cells: list[Cell] | None = None

    def key(self, group: str | None = None) -> str:
        """Return the key of its value in a group of rows, or in all."""
        return "/".join([self.stem, *(one for one in (group, self.bucket) if one is not None)])


def values(found: Evaluated, asked: Asked, with_rows_alone: bool = False) -> dict[str, float]:
    """Return every value by its key; keys are those without a level of relevance.

    Metrics by bucket have their value over all labels beside them, and every metric a value for each group of rows.
    """
    made = {}
    for measure in measures(found, asked):
        if not with_rows_alone or measure.cells is not None:
            for group in (None, *found.group_names):
                made[measure.key(group)] = measure.of(rows_of(found, group))
    return made


def rows_of(found: Evaluated, group: str | None) -> list[int]:
    """Return the numbers of the rows of a group, or of all."""
    return [row for row, name in enumerate(found.groups) if group is None or name == group]


def measures(found: Evaluated, asked: Asked) -> Iterator[Measure]:
    """Yield every metric that was asked for, and those that the report adds."""
    met = {_stem(name, arguments) for name, arguments in asked.metrics if "buckets" not in arguments}
    for name, arguments in asked.metrics:
        yield from _measures(name, arguments, found, asked)
        whole = over_all(name, arguments)
        if whole is not None and _stem(name, whole) not in met:
            met.add(_stem(name, whole))
            yield from _measures(name, whole, found, asked)


def over_all(name: str, arguments: dict[str, object]) -> dict[str, object] | None:
    """Return the arguments of the same metric over all labels; None where it is that already, or says nothing."""
    if "buckets" not in arguments or name == "PredictionProportionAtK":
        return None
    return {key: value for key, value in arguments.items() if key not in ("buckets", "scope")}


def _stem(name: str, arguments: dict[str, object]) -> str:
    words = ["global"] if arguments.get("scope") == "global" else []
    words += ["micro"] if "average" in arguments else []
    return "_".join([*words, STEMS[name]]) + (f"@{arguments['k']}" if "k" in arguments else "")


def _measures(name: str, arguments: dict[str, object], found: Evaluated, asked: Asked) -> Iterator[Measure]:
    k = int(str(arguments.get("k", 0)))
    stem = _stem(name, arguments)
    if "buckets" not in arguments:
        yield _measure(name, stem, None, None, arguments, k, found, asked)
        return
    assert found.counts is not None
    names, bucket_of = buckets_of(asked.buckets, found.counts)
    for number, bucket in enumerate(names):
        inside = {label for label, own in enumerate(bucket_of) if own == number}
        yield _measure(name, stem, bucket, inside, arguments, k, found, asked)


def _measure(
    name: str,
    stem: str,
    bucket: str | None,
    inside: set[int] | None,
    arguments: dict[str, object],
    k: int,
    found: Evaluated,
    asked: Asked,
) -> Measure:
    if name in OF_WHAT_IS_SHOWN:
        return Measure(stem, bucket, lambda rows: _of_what_is_shown(name, found, k, inside, rows))
    cells: list[Cell] = []
    for listed, gains in zip(found.lists, found.gains, strict=True):
        own = gains if inside is None else {label: gain for label, gain in gains.items() if label in inside}
        places = listed
        if inside is not None and arguments.get("scope") != "global":
            places = [label for label in listed if _itself(label) in inside]
        level = None if name == "NDCGAtK" else asked.min_gain
        wanted = {label for label, gain in own.items() if gain > 0 and (level is None or gain >= level)}
        if "average" in arguments:
            cells.append((float(sum(label in wanted for label in places[:k])), float(len(wanted))))
        elif inside is not None and not wanted:
            cells.append(None)
        else:
            cells.append(_ROW[name](places, wanted, own, k))
    return Measure(stem, bucket, lambda rows: _mean([cells[row] for row in rows]), cells)


def _mean(cells: list[Cell]) -> float:
    """Return the mean of the rows that count, or the ratio of their sums, 0 where nothing is relevant."""
    counted = [cell for cell in cells if cell is not None]
    if not counted:
        return math.nan
    if isinstance(counted[0], tuple):
        over, below = (math.fsum(side) for side in zip(*counted, strict=True))  # type: ignore[arg-type]
        return over / below if below else 0.0
    return math.fsum(counted) / len(counted)  # type: ignore[arg-type]


def _precision(listed: list[int], relevant: set[int], gains: dict[int, float], k: int) -> float:
    return sum(label in relevant for label in listed[:k]) / k


def _recall(listed: list[int], relevant: set[int], gains: dict[int, float], k: int) -> float:
    return sum(label in relevant for label in listed[:k]) / len(relevant) if relevant else 0.0


def _hit(listed: list[int], relevant: set[int], gains: dict[int, float], k: int) -> float:
    return float(any(label in relevant for label in listed[:k]))


def _reciprocal(listed: list[int], relevant: set[int], gains: dict[int, float], k: int) -> float:
    return next((1 / rank for rank, label in enumerate(listed, 1) if label in relevant), 0.0)


def _average_precision(listed: list[int], relevant: set[int], gains: dict[int, float], k: int) -> float:
    hits = [rank for rank, label in enumerate(listed, 1) if label in relevant]
    return math.fsum(number / rank for number, rank in enumerate(hits, 1)) / len(relevant) if relevant else 0.0


def _ndcg(listed: list[int], relevant: set[int], gains: dict[int, float], k: int) -> float:
    ideal = sorted((gain for gain in gains.values() if gain > 0), reverse=True)[:k]
    best = math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(ideal, 1))
    dcg = math.fsum(gains.get(label, 0.0) / math.log2(rank + 1) for rank, label in enumerate(listed[:k], 1))
    return dcg / best if best else 0.0


_ROW = {
    "PrecisionAtK": _precision,
    "RecallAtK": _recall,
    "HitRateAtK": _hit,
    "MRR": _reciprocal,
    "MAP": _average_precision,
    "NDCGAtK": _ndcg,
}


def _of_what_is_shown(name: str, found: Evaluated, k: int, inside: set[int] | None, rows: list[int]) -> float:
    if not rows:
        return math.nan
    shown = Counter(_itself(label) for row in rows for label in found.lists[row][:k])
    if name == "PredictionProportionAtK":
        assert inside is not None
        return sum(times for label, times in shown.items() if label in inside) / (k * len(rows))
    if name == "CatalogCoverageAtK":
        assert found.num_labels is not None
        return len(shown) / found.num_labels
    assert found.counts is not None
    total = sum(shown.values())
    return sum(found.counts[label] * times for label, times in shown.items()) / total if total else math.nan


def _itself(label: int) -> int:
    """Return the label of a place: one that stands again is a miss, and is shown and predicted all the same."""
    return label if label >= 0 else ~label


def buckets_of(kind: str, counts: list[int]) -> tuple[list[str], list[int]]:
    """Return the names of the buckets, head first, and the number of the bucket of each label."""
    what, _, numbers = kind.partition(":")
    if what == "thresholds":
        edges = sorted({1, *map(int, numbers.split(","))})
        ends = [*(edge - 1 for edge in edges[1:]), None]
        names = [
            f"{low}+" if high is None else f"{low}" if low == high else f"{low}-{high}"
            for low, high in zip(edges, ends, strict=True)
        ]
        reached = [sum(count >= edge for edge in edges) for count in counts]
        return [*reversed(names), "unseen"], [len(edges) - number for number in reached]
    number = 10 if what == "deciles" else int(numbers)
    stem = "decile" if number == 10 else "quantile"
    names = [f"{stem}_{place}" for place in range(number, 0, -1)]
    return [*names, "unseen"], quantiles(counts, number)


def quantiles(counts: list[int], number: int) -> list[int]:
    """Return the bucket of each label, 0 the most frequent, the last one never seen.

    A bucket closes once its mass m has m b >= R, of the mass R that is left and the buckets b that are left.
    """
    order = sorted((label for label in range(len(counts)) if counts[label]), key=lambda label: (-counts[label], label))
    bucket_of = [number] * len(counts)
    left, bucket, mass = sum(counts), 0, 0
    for label in order:
        bucket_of[label] = bucket
        mass += counts[label]
        if mass * (number - bucket) >= left:
            left, mass, bucket = left - mass, 0, bucket + 1
    return bucket_of


def label_lines(found: Evaluated, asked: Asked) -> list[dict[str, object]]:
    """Return what is known of each label that was relevant or predicted, the most often missed first."""
    level, k = asked.min_gain, LABEL_K
    relevant = [
        {one for one, gain in row.items() if gain > 0 and (level is None or gain >= level)} for row in found.gains
    ]
    support = Counter(label for row in relevant for label in row)
    predicted = Counter(_itself(label) for listed in found.lists for label in listed[:k])
    rows = list(zip(found.lists, relevant, strict=True))
    hits = Counter(label for listed, row in rows for label in listed[:k] if label in row)
    met = sorted({*support, *predicted}, key=lambda label: (hits[label] - support[label], label))
    return [_line(label, support[label], predicted[label], hits[label], found) for label in met]


def _line(label: int, support: int, predicted: int, hits: int, found: Evaluated) -> dict[str, object]:
    line: dict[str, object] = {"label": label}
    if found.names is not None:
        name = found.names[label] if label < len(found.names) else ""
        line["name"] = f"{chr(39)}{name}" if name.startswith(("=", "+", "-", "@")) else name  # no formula
    line |= {"support": support, "predicted": predicted, "hits": hits}
    line |= {"missed": support - hits, "wrong": predicted - hits}
    line[f"precision@{LABEL_K}"] = hits / predicted if predicted else math.nan
    line[f"recall@{LABEL_K}"] = hits / support if support else math.nan
    line[f"f1@{LABEL_K}"] = 2 * hits / (support + predicted)
    return line
