"""`evaluate` and `TopKCollection(references=…)` against plain loops, written from
docs/definitions.md alone.

    python tests/evaluation/test_law_of_reports.py 3000    # that many random cases, with other seeds

The oracle orders lists, enumerates orders of equal scores, and divides; it imports
nothing of the library.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from dataclasses import dataclass, field

import pytest
import torch

import tailmetrics as tm

CASES = 60
"""Cases in a run of the suite; a run by hand takes any number."""
TOLERANCE = 1e-9


# ------------------------------------------------------------------------------------------------
# formulas of one row


def hits_of(listed: list[int], relevant: dict[int, float], k: int) -> int:
    """Return how many of the first k ids are relevant."""
    return sum(1 for label in listed[:k] if label in relevant)


def dcg(gains: list[float]) -> float:
    """Return Σ gain(j) / log₂(j + 1)."""
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def row_value(
    kind: str, listed: list[int], relevant: dict[int, float], k: int
) -> float:
    """Return the value of one row that has relevant labels, from its list, best
    first.
    """
    n = len(relevant)
    hits = hits_of(listed, relevant, k)
    length = min(k, len(listed))
    if kind == "precision":
        return hits / length if length else 0.0
    if kind == "precision_k":
        return hits / k
    if kind == "recall":
        return hits / n
    if kind == "normalized_recall":
        return hits / min(k, n)
    if kind == "f1":
        return 2 * hits / (length + n)
    if kind == "hit_rate":
        return 1.0 if hits else 0.0
    if kind == "relevance":
        return 1.0 if len(listed) >= k and listed[k - 1] in relevant else 0.0
    if kind == "mrr":
        for place, label in enumerate(listed[:k], start=1):
            if label in relevant:
                return 1 / place
        return 0.0
    if kind == "map":
        precisions = [
            hits_of(listed, relevant, place) / place
            for place, label in enumerate(listed[:k], start=1)
            if label in relevant
        ]
        return sum(precisions) / n
    gains = [relevant.get(label, 0.0) for label in listed[:k]]
    ideal = sorted(relevant.values(), reverse=True)[:k]
    if kind == "dcg":
        return dcg(gains)
    assert kind == "ndcg"
    return dcg(gains) / dcg(ideal)


METRICS = {
    "precision": (tm.PrecisionAtK, {}),
    "precision_k": (tm.PrecisionAtK, {"denominator": "k"}),
    "recall": (tm.RecallAtK, {}),
    "normalized_recall": (tm.NormalizedRecallAtK, {}),
    "f1": (tm.F1AtK, {}),
    "hit_rate": (tm.HitRateAtK, {}),
    "relevance": (tm.RelevanceAtK, {}),
    "mrr": (tm.MRR, {}),
    "map": (tm.MAP, {}),
    "dcg": (tm.DCGAtK, {}),
    "ndcg": (tm.NDCGAtK, {}),
}
GRADED = {"dcg", "ndcg"}


# ------------------------------------------------------------------------------------------------
# a case and its truth


@dataclass
class Case:
    """One random data set, one metric, and how both are passed."""

    num_labels: int
    lists: list[list[tuple[int, float]]]
    """For each row the listed labels with their scores, in order of label id unless
    ``form`` is "ids".
    """
    gains: list[dict[int, float]]
    counts: list[int]
    buckets: list[int] | None
    scope: str
    kind: str
    k: int
    min_gain: float | None
    form: str
    target_form: str
    batch_rows: int
    names: list[str] = field(default_factory=list)

    def ordered(self, row: int) -> list[int]:
        """Return the list of a row, best first; ties go to the lower id."""
        if self.form == "ids":
            return [label for label, _ in self.lists[row]]
        return [
            label
            for label, _ in sorted(
                self.lists[row], key=lambda pair: (-pair[1], pair[0])
            )
        ]

    def relevant(self, row: int) -> dict[int, float]:
        """Return the relevant labels of a row with their gains."""
        smallest = (
            self.min_gain
            if self.min_gain is not None and self.kind not in GRADED
            else None
        )
        return {
            label: gain
            for label, gain in self.gains[row].items()
            if gain > 0 and (smallest is None or gain >= smallest)
        }

    def value_of(self, listed: list[int], row: int, bucket: int | None) -> float | None:
        """Return the value of a row within a bucket; None where the row does not count
        there.
        """
        relevant = self.relevant(row)
        if bucket is not None:
            assert self.buckets is not None
            relevant = {
                label: gain
                for label, gain in relevant.items()
                if self.buckets[label] == bucket
            }
            if self.scope == "bucket":
                listed = [label for label in listed if self.buckets[label] == bucket]
        if relevant:
            return row_value(self.kind, listed, relevant, self.k)
        return None if bucket is not None else 0.0


def mean(values: list[float]) -> float:
    """Return the mean; NaN of no values."""
    return sum(values) / len(values) if values else math.nan


def orders_of_equal(scores: dict[int, float]) -> list[list[int]]:
    """Return every order of labels, best first, in which only equal scores change
    places.
    """
    groups = [
        [label for label in scores if scores[label] == score]
        for score in sorted(set(scores.values()), reverse=True)
    ]
    return [
        [label for part in parts for label in part]
        for parts in itertools.product(
            *(itertools.permutations(group) for group in groups)
        )
    ]


def reference_lists(
    case: Case, reference: str, row: int, bucket: int | None
) -> list[list[int]]:
    """Return all lists, equally likely, of a reference model for a row."""
    labels = range(case.num_labels)
    if reference == "chance":
        return [list(order) for order in itertools.permutations(labels)]
    if reference == "popularity":
        return orders_of_equal({label: float(case.counts[label]) for label in labels})
    relevant = case.relevant(row)
    if bucket is not None:
        assert case.buckets is not None
        relevant = {
            label: gain
            for label, gain in relevant.items()
            if case.buckets[label] == bucket
        }
    best_first = sorted(relevant, key=lambda label: -relevant[label])
    others = [label for label in labels if label not in relevant]
    # labels of other buckets do not take the places that the list has
    if bucket is not None:
        assert case.buckets is not None
        others.sort(key=lambda label: case.buckets[label] != bucket)
    # the value of one place: the best list has a relevant label there
    if case.kind == "relevance" and best_first:
        last, *others = best_first[:1] + best_first[1:] + others
        return [[*others[: case.k - 1], last, *others[case.k - 1 :]]]
    return [best_first + others]


def expected_value(case: Case, bucket: int | None, reference: str | None) -> float:
    """Return the mean over rows of the metric, of the model or of a reference."""
    values = []
    for row in range(len(case.lists)):
        lists = (
            [case.ordered(row)]
            if reference is None
            else reference_lists(case, reference, row, bucket)
        )
        row_values = [case.value_of(listed, row, bucket) for listed in lists]
        if row_values[0] is not None:
            values.append(mean([value for value in row_values if value is not None]))
    return mean(values)


def random_case(seed: int) -> Case:
    """Return a small random case."""
    draw = random.Random(seed)
    num_labels, num_rows = draw.randint(2, 5), draw.randint(1, 5)
    form = draw.choice(["scores", "scores", "ids", "candidates", "csr"])
    lists, gains = [], []
    for _ in range(num_rows):
        labels = list(range(num_labels))
        if form == "ids":
            draw.shuffle(labels)
        lists.append(
            [
                (label, draw.choice([0.0, 0.5, 1.0, -2.0, draw.random()]))
                for label in labels
            ]
        )
        gains.append(
            {
                label: float(draw.randint(1, 3))
                for label in range(num_labels)
                if draw.random() < 0.4
            }
        )
    target_form = draw.choice(["gains", "csr", "bool", "ids"])
    if target_form in ("bool", "ids"):
        gains = [dict.fromkeys(row, 1.0) for row in gains]
    kind = draw.choice(list(METRICS))
    return Case(
        num_labels=num_labels,
        lists=lists,
        gains=gains,
        counts=[draw.choice([0, 1, 1, 2, 5, 9]) for _ in range(num_labels)],
        buckets=[draw.randint(0, 1) for _ in range(num_labels)]
        if draw.random() < 0.7
        else None,
        scope=draw.choice(["bucket", "global"]),
        kind=kind,
        k=draw.randint(1, num_labels + 1),
        min_gain=draw.choice([None, None, 2.0, 3.0]) if kind not in GRADED else None,
        form=form,
        target_form=target_form,
        batch_rows=draw.randint(1, num_rows),
    )


# ------------------------------------------------------------------------------------------------
# the library


def predictions(case: Case) -> object:
    """Return the predictions in their form."""
    if case.form == "ids":
        return torch.tensor([[label for label, _ in row] for row in case.lists])
    scores = torch.tensor(
        [[score for _, score in row] for row in case.lists], dtype=torch.float64
    )
    if case.form == "candidates":
        places = torch.randperm(
            case.num_labels, generator=torch.manual_seed(len(case.lists))
        )
        return scores[:, places], places.expand(len(case.lists), -1)
    if case.form == "csr":
        rows, columns = len(case.lists), case.num_labels
        starts = torch.arange(0, rows * columns + 1, columns)
        return torch.sparse_csr_tensor(
            starts,
            torch.arange(columns).repeat(rows),
            scores.flatten(),
            (rows, columns),
        )
    return scores


def targets(case: Case) -> torch.Tensor:
    """Return the targets in their form."""
    dense = torch.zeros(len(case.gains), case.num_labels, dtype=torch.float64)
    for row, gains in enumerate(case.gains):
        for label, gain in gains.items():
            dense[row, label] = gain
    if case.target_form == "bool":
        return dense > 0
    if case.target_form == "csr":
        return dense.to_sparse_csr()
    if case.target_form == "ids":
        width = max(1, *(len(gains) for gains in case.gains)) if case.gains else 1
        if width in (case.num_labels, 1):
            width = case.num_labels + 1  # never the width of a matrix of scores
        padded = torch.full((len(case.gains), width), -1)
        for row, gains in enumerate(case.gains):
            padded[row, : len(gains)] = torch.tensor(list(gains), dtype=torch.int64)
        return padded
    return dense


def metric_of(case: Case) -> tuple[tm.metrics.TopKMetric, list[str]]:
    """Return the metric of a case, and the names of its values: overall, or by
    bucket.
    """
    metric_class, arguments = METRICS[case.kind]
    options = dict(arguments)
    if case.min_gain is not None:
        options["min_gain"] = case.min_gain
    if case.buckets is None:
        return metric_class(k=case.k, **options), [""]
    buckets = tm.LabelBuckets.from_assignment(
        case.buckets, ["head", "tail"], case.counts
    )
    return metric_class(k=case.k, buckets=buckets, scope=case.scope, **options), [
        "head",
        "tail",
    ]


def differences(case: Case, through: str) -> list[str]:
    """Return the differences between the library and the oracle, through ``evaluate``
    or a collection.
    """
    metric, names = metric_of(case)
    frequency = tm.LabelFrequency.from_counts(
        case.counts, num_rows=max(3, sum(case.counts))
    )
    references = ("chance", "popularity", "attainable")
    if through == "evaluate":
        report = tm.evaluate(
            predictions(case),
            targets(case),
            metrics=[metric],
            label_counts=frequency,
            batch_rows=case.batch_rows,
            intervals=False,
        )
        values, by_reference = report.scalars, report.references
        assert report.rows == len(case.lists)
    else:
        # another member, with another smallest gain, never changes the references of
        # this one
        neighbour = tm.HitRateAtK(
            k=1, min_gain=2, num_labels=case.num_labels, name="neighbour"
        )
        collection = tm.TopKCollection([neighbour, metric], references=references).bind(
            frequency
        )
        preds, target = predictions(case), targets(case)
        if case.form in ("scores", "ids"):
            for start in range(0, len(case.lists), case.batch_rows):
                rows = slice(start, start + case.batch_rows)
                part = (
                    target.to_dense()[rows]
                    if target.layout != torch.strided
                    else target[rows]
                )
                collection.update(preds[rows], part)
        else:
            collection.update(preds, target)
        values = {key: float(value) for key, value in collection.compute().items()}
        by_reference = {
            name: {key: float(value) for key, value in scalars.items()}
            for name, scalars in collection.references().items()
        }
    texts = []
    for key, name in zip(metric.keys(), names, strict=True):
        bucket = names.index(name) if name else None
        for reference in (None, *references):
            expected = expected_value(case, bucket, reference)
            value = (
                values[key]
                if reference is None
                else by_reference[reference].get(key, math.nan)
            )
            equal = math.isclose(value, expected, rel_tol=0, abs_tol=TOLERANCE)
            if not equal and not (math.isnan(value) and math.isnan(expected)):
                texts.append(
                    f"{through} {reference or 'value'} {key}: {value}, expected {expected}"
                )
    return texts


@pytest.mark.parametrize("through", ["evaluate", "collection"])
def test_values_and_references_equal_plain_loops(through: str) -> None:
    """Values and their references (chance over all orders, popularity, attainable)
    equal plain loops, for any form, batch size, min_gain and bucket.
    """
    for seed in range(CASES):
        case = random_case(seed)
        assert differences(case, through) == [], case


if __name__ == "__main__":
    failures = 0
    for number in range(int(sys.argv[1])):
        for caller in ("evaluate", "collection"):
            try:
                texts = differences(random_case(1_000_000 + number), caller)
            except Exception as error:
                texts = [f"{caller} {type(error).__name__}: {error}"]
            if texts:
                failures += 1
                if failures <= 12:
                    print(number, *texts, random_case(1_000_000 + number), sep="\n  ")
    print(f"{sys.argv[1]} cases, {failures} differ")
