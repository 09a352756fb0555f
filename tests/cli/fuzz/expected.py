"""The rows of an evaluation by plain loops, from the contents of its files and what was asked for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from cli.fuzz.content import Data, Keyed, RefusedError, Rows

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
        min_gain: ``--min-gain``.
        filtered: Pairs of query or row and item that do not count.
        trec: Whether one of the files is TREC.
        buckets: ``--buckets``.
        grouped: Whether ``--row-groups`` is said.
        lacks_gains: Whether a column of gains is named that a file does not have.
    """

    metrics: list[tuple[str, dict[str, object]]]
    num_labels: int | None = None
    string_ids: bool | None = None
    missing: str = "skip"
    duplicates: str = "error"
    min_gain: float | None = None
    filtered: list[tuple[str, str]] = field(default_factory=list)
    trec: bool = False
    buckets: str = "deciles"
    grouped: bool = False
    lacks_gains: bool = False


@dataclass
class Evaluated:
    """Rows as they are evaluated, labels by their ids.

    Attributes:
        lists: Ranked label ids of each row, ``~label`` where a label stands again.
        preds: Label and score of each entry of a row, before it is ranked; None for lists that came ranked.
        gains: Gain of each relevant label of a row.
        num_labels: Number of labels; None when nothing tells.
        counts: Training count of each label; None without training.
        num_train: Number of training rows.
        rows: What each row is called: its query, or its number.
        groups: The group of each row, None for none.
    """

    lists: list[list[int]]
    preds: list[list[tuple[int, float | None]]]
    gains: list[dict[int, float]]
    num_labels: int | None
    counts: list[int] | None
    num_train: int | None
    rows: list[str | int]
    groups: list[str | None]

    @property
    def group_names(self) -> list[str]:
        """Names of the groups."""
        return sorted({name for name in self.groups if name is not None})


def evaluated(data: Data, asked: Asked) -> Evaluated:
    """Return the rows, ranked, or raise RefusedError where the files do not go together."""
    found = _of_queries(data, asked) if isinstance(data.target, Keyed) else _of_rows(data, asked)
    if (asked.min_gain or 0) > 1 and not data.target.graded:
        raise RefusedError("no gains")
    if asked.lacks_gains:
        raise RefusedError("no column of gains")
    if asked.grouped and not found.group_names:
        raise RefusedError("no groups")
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
    if not by_number:
        _check_common([{item for _, item, _ in one.lines if item is not None} for one in files], set(data.counts or ()))
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


def _check_common(files: list[set[str]], counted: set[str]) -> None:
    """Refuse predictions and targets without a label in common, and training without one of theirs."""
    preds, target, *train = files
    if not preds & target or any(not one & (preds | target | counted) for one in train):
        raise RefusedError("no label in common")


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
    groups = [data.groups.get(query) or None if isinstance(data.groups, dict) else None for query in kept]
    return Evaluated(_ranked(preds, asked), preds, gains, num_labels, counts, num_train, list(kept), groups)


def _lists_of_queries(train: Keyed | Rows, ids: dict[str, int]) -> list[list[tuple[int, float | None]]]:
    assert isinstance(train, Keyed)
    for query in train.queries:
        _check_row([item for item, _ in train.of(query)], "error")
    return [[(ids[item], value) for item, value in train.of(query)] for query in train.queries]


def _count(rows: list[list[tuple[int, float | None]]], num_labels: int, asked: Asked) -> tuple[list[int], int]:
    counts = [0] * num_labels
    for row in rows:
        for label, value in row:
            if _gain(value) > 0:
                counts[label] += 1
    return counts, len(rows)


def _of_rows(data: Data, asked: Asked) -> Evaluated:
    assert isinstance(data.preds, Rows)
    assert isinstance(data.target, Rows)
    train = data.train
    assert train is None or isinstance(train, Rows)
    if len(data.preds.rows) != len(data.target.rows) or not data.preds.rows:
        raise RefusedError("number of rows")
    num_labels = asked.num_labels
    assert num_labels is not None
    preds, gains = [], []
    dropped = {(row, label) for row, label in asked.filtered}
    for number, (row, target) in enumerate(zip(data.preds.rows, data.target.rows, strict=True)):
        _check_row([label for label, _ in row], asked.duplicates)
        _check_row([label for label, _ in target], "error")
        preds.append([(int(label), value) for label, value in row if (str(number), label) not in dropped])
        gains.append({int(label): _gain(value) for label, value in target if (str(number), label) not in dropped})
    counts, num_train = None, data.num_train
    if data.counts is not None:
        counts = [data.counts[str(label)] for label in range(len(data.counts))]
    if train is not None:
        counts, num_train = _count(
            [[(int(label), value) for label, value in row] for row in train.rows], num_labels, asked
        )
    groups = [name or None for name in data.groups] if isinstance(data.groups, list) else [None] * len(preds)
    return Evaluated(
        _ranked(preds, asked), preds, gains, num_labels, counts, num_train, list(range(len(preds))), groups
    )


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
    """Return the lists best first, ``~label`` where a label stands again."""
    lists = []
    for row in preds:
        if any(value is not None and math.isnan(value) for _, value in row):
            raise RefusedError("NaN")
        scored = any(value is not None for _, value in row)
        order = sorted(row, key=lambda pair: (-(pair[1] or 0.0), pair[0])) if scored else row
        seen: set[int] = set()
        listed = []
        for label, value in order:
            if value != -math.inf:
                listed.append(~label if label in seen else label)
                seen.add(label)
        lists.append(listed)
    return lists
