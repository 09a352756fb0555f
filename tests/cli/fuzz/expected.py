"""The numbers of an evaluation by plain loops, from the contents of its files and what was asked for."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

from cli.fuzz.content import Data, Keyed, RefusedError, Rows

STEMS = {
    "PrecisionAtK": "precision_k",
    "RecallAtK": "recall",
    "NDCGAtK": "ndcg",
    "HitRateAtK": "hit_rate",
    "MRR": "mrr",
    "MAP": "map",
}
WHOLE = re.compile(r"0|[1-9][0-9]{0,17}")


@dataclass
class Asked:
    """What a command line asks for beside its files.

    Attributes:
        metrics: Class and arguments of every metric.
        num_labels: ``--num-labels``.
        string_ids: ``--string-ids``.
        missing: ``--missing``.
        duplicates: ``--duplicates``.
        cut: ``--cut``.
        min_gain: ``--min-gain``.
        filtered: Pairs of query or row and item that do not count.
        trec: Whether one of the files is TREC.
    """

    metrics: list[tuple[str, dict[str, object]]]
    num_labels: int | None = None
    string_ids: bool | None = None
    missing: str = "skip"
    duplicates: str = "error"
    cut: int | None = None
    min_gain: float | None = None
    filtered: list[tuple[str, str]] = field(default_factory=list)
    trec: bool = False


@dataclass
class Evaluated:
    """Rows as they are evaluated, labels by their ids.

    Attributes:
        lists: Ranked label ids of each row, -1 where a label stands again.
        preds: Label and score of each entry of a row, before it is ranked; None for lists that came ranked.
        gains: Gain of each relevant label of a row.
        num_labels: Number of labels; None when nothing tells.
        counts: Training count of each label; None without training.
        num_train: Number of training rows.
    """

    lists: list[list[int]]
    preds: list[list[tuple[int, float | None]]]
    gains: list[dict[int, float]]
    num_labels: int | None
    counts: list[int] | None
    num_train: int | None


def evaluated(data: Data, asked: Asked) -> Evaluated:
    """Return the rows, ranked, or raise RefusedError where the files do not go together."""
    found = _of_queries(data, asked) if isinstance(data.target, Keyed) else _of_rows(data, asked)
    if (asked.min_gain or 0) > 1 and not data.target.graded:
        raise RefusedError("no gains")
    return found


def _numbering(data: Data, asked: Asked) -> tuple[dict[str, int], int | None]:
    """Return the label id of every item, and the number of labels."""
    files = [one for one in (data.preds, data.target, data.train) if one is not None]
    met = {item for one in files for _, item, _ in one.lines if item is not None}
    met |= set(data.counts or ())
    by_number = asked.string_ids is False or (
        asked.num_labels is not None and not asked.trec and asked.string_ids is None
    )
    all_whole = all(map(WHOLE.fullmatch, met))
    if by_number:
        if not all_whole:
            raise RefusedError("not whole numbers")
        limit = asked.num_labels
        if limit is None and data.counts:
            limit = 1 + max(map(int, data.counts))
        if limit is not None and any(int(item) >= limit for item in met):
            raise RefusedError("out of range")
        if limit is None and (data.train is not None or any(name == "CatalogCoverageAtK" for name, _ in asked.metrics)):
            raise RefusedError("the number of labels is not known")
        return {item: int(item) for item in met}, limit
    by_value = all_whole and not asked.trec
    order = sorted(met, key=int) if by_value else sorted(met, reverse=asked.trec)
    if asked.num_labels is not None and asked.num_labels < len(order):
        raise RefusedError("more names than labels")
    return {item: place for place, item in enumerate(order)}, asked.num_labels or len(order)


def _of_queries(data: Data, asked: Asked) -> Evaluated:
    assert isinstance(data.preds, Keyed)
    assert isinstance(data.target, Keyed)
    ids, num_labels = _numbering(data, asked)
    queries = data.target.queries
    answered = set(data.preds.queries)
    if not answered & set(queries):
        raise RefusedError("no query in common")
    kept = [query for query in queries if asked.missing == "zero" or query in answered]
    dropped = set(asked.filtered)
    preds, gains = [], []
    for query in kept:
        preds.append([(ids[item], value) for item, value in data.preds.of(query) if (query, item) not in dropped])
        _check_row([item for item, _ in data.preds.of(query)], asked.duplicates)
        listed = data.target.of(query)
        _check_row([item for item, _ in listed], "error")
        gains.append({ids[item]: _gain(value) for item, value in listed if (query, item) not in dropped})
    counts, num_train = None, data.num_train
    if data.counts is not None:
        counts = [0] * (num_labels or 0)
        for item, count in data.counts.items():
            counts[ids[item]] = count
    if data.train is not None:
        counts, num_train = _count(_lists_of_queries(data.train, ids), num_labels or 0, asked)
    return Evaluated(_ranked(preds, asked), preds, gains, num_labels, counts, num_train)


def _lists_of_queries(train: Keyed | Rows, ids: dict[str, int]) -> list[list[tuple[int, float | None]]]:
    assert isinstance(train, Keyed)
    for query in train.queries:
        _check_row([item for item, _ in train.of(query)], "error")
    return [[(ids[item], value) for item, value in train.of(query)] for query in train.queries]


def _count(rows: list[list[tuple[int, float | None]]], num_labels: int, asked: Asked) -> tuple[list[int], int]:
    counts = [0] * num_labels
    for row in rows:
        for label, value in row:
            if _gain(value) > 0 and (value is None or asked.min_gain is None or value >= asked.min_gain):
                counts[label] += 1
    return counts, len(rows)


def _of_rows(data: Data, asked: Asked) -> Evaluated:
    assert isinstance(data.preds, Rows)
    assert isinstance(data.target, Rows)
    train = data.train
    assert train is None or isinstance(train, Rows)
    if len(data.preds.rows) != len(data.target.rows) or not data.preds.rows:
        raise RefusedError("number of rows")
    known = {one.num_labels for one in (data.preds, data.target, train) if one is not None} | {asked.num_labels}
    if data.counts is not None:
        known.add(len(data.counts))
    if len(known - {None}) > 1:
        raise RefusedError("number of labels")
    num_labels = next(iter(known - {None}), None)
    preds, gains = [], []
    dropped = {(row, label) for row, label in asked.filtered}
    for number, (row, target) in enumerate(zip(data.preds.rows, data.target.rows, strict=True)):
        _check_row([label for label, _ in row], asked.duplicates)
        _check_row([label for label, _ in target], "error")
        if any(int(label) < 0 or (num_labels is not None and int(label) >= num_labels) for label, _ in [*row, *target]):
            raise RefusedError("out of range")
        preds.append([(int(label), value) for label, value in row if (str(number), label) not in dropped])
        gains.append({int(label): _gain(value) for label, value in target if (str(number), label) not in dropped})
    counts, num_train = None, data.num_train
    if data.counts is not None:
        counts = [data.counts[str(label)] for label in range(len(data.counts))]
    if train is not None:
        if num_labels is None:
            raise RefusedError("number of labels not known")
        for row in train.rows:
            _check_row([label for label, _ in row], "error")
        rows = [[(int(label), value) for label, value in row] for row in train.rows]
        if any(not 0 <= label < num_labels for row in rows for label, _ in row):
            raise RefusedError("out of range")
        counts, num_train = _count(rows, num_labels, asked)
    return Evaluated(_ranked(preds, asked), preds, gains, num_labels, counts, num_train)


def _check_row(labels: list[str], duplicates: str) -> None:
    if duplicates == "error" and len(set(labels)) < len(labels):
        raise RefusedError("a label twice")


def _gain(value: float | None) -> float:
    if value is None:
        return 1.0
    if not 0 <= value < math.inf:
        raise RefusedError("gain")
    return value


def _ranked(preds: list[list[tuple[int, float | None]]], asked: Asked) -> list[list[int]]:
    """Return the lists best first, cut, -1 where a label stands again."""
    lists = []
    for row in preds:
        if any(value is not None and math.isnan(value) for _, value in row):
            raise RefusedError("NaN")
        scored = any(value is not None for _, value in row)
        order = sorted(row, key=lambda pair: (-(pair[1] or 0.0), pair[0])) if scored else row
        order = order[: asked.cut]
        seen: set[int] = set()
        listed = []
        for label, value in order:
            if value != -math.inf:
                listed.append(-1 if label in seen else label)
                seen.add(label)
        lists.append(listed)
    return lists


def values(found: Evaluated, asked: Asked) -> dict[str, float]:
    """Return every metric by its definition; keys are those without a level of relevance."""
    level = asked.min_gain
    relevant = [
        {one for one, gain in row.items() if gain > 0 and (level is None or gain >= level)} for row in found.gains
    ]
    made = {}
    for name, arguments in asked.metrics:
        k = int(str(arguments.get("k", 0)))
        if "buckets" in arguments:
            made |= _by_decile(found, relevant, k)
        elif name in ("CatalogCoverageAtK", "PopularityAtK"):
            made |= _of_what_is_shown(name, found, k)
        else:
            rows = [_ROW[name](*row, k) for row in zip(found.lists, relevant, found.gains, strict=True)]
            made[STEMS[name] + (f"@{k}" if k else "")] = math.fsum(rows) / len(rows)
    return made


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


def _of_what_is_shown(name: str, found: Evaluated, k: int) -> dict[str, float]:
    shown = Counter(label for listed in found.lists for label in listed[:k])
    if name == "CatalogCoverageAtK":
        assert found.num_labels is not None
        return {f"catalog_coverage@{k}": len(shown) / found.num_labels}
    assert found.counts is not None
    total = sum(shown.values())
    mean = sum(found.counts[label] * times for label, times in shown.items()) / total if total else math.nan
    return {f"popularity@{k}": mean}


def deciles(counts: list[int]) -> list[int]:
    """Return the decile of each label, 0 the most frequent, 10 never seen: a bucket closes once its mass m has m b >= R."""
    order = sorted((label for label in range(len(counts)) if counts[label]), key=lambda label: (-counts[label], label))
    bucket_of = [10] * len(counts)
    left, bucket, mass = sum(counts), 0, 0
    for label in order:
        bucket_of[label] = bucket
        mass += counts[label]
        if mass * (10 - bucket) >= left:
            left, mass, bucket = left - mass, 0, bucket + 1
    return bucket_of


def _by_decile(found: Evaluated, relevant: list[set[int]], k: int) -> dict[str, float]:
    assert found.counts is not None
    bucket_of = deciles(found.counts)
    made = {}
    for bucket in range(11):
        name = "unseen" if bucket == 10 else f"decile_{10 - bucket}"
        rows = []
        for listed, wanted in zip(found.lists, relevant, strict=True):
            inside = {label for label in wanted if bucket_of[label] == bucket}
            if inside:
                rows.append(sum(label in inside for label in listed[:k]) / len(inside))
        made[f"global_recall@{k}/{name}"] = math.fsum(rows) / len(rows) if rows else math.nan
    return made
