"""Mistakes that libraries in use were measured to make, one test each."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import scipy.sparse
import torch

import tailmetrics
from cases import Case, data
from exactness.bits import CASES_OF_A_KIND, bits
from tailmetrics import (
    MAP,
    CatalogCoverageAtK,
    HitRateAtK,
    KForRecall,
    LabelBuckets,
    LabelFrequency,
    NDCGAtK,
    PredictionProportionAtK,
    RecallAtK,
    RelevanceAtK,
    TopKCollection,
    functional,
    rank,
)

HALVES = LabelBuckets.from_assignment([0] * 4 + [1] * 4, ["head", "tail"])


def value(metric: Any, *batches: Any) -> Any:
    """The value after the batches, as float or list."""
    for batch in batches:
        metric.update(*batch)
    return metric.compute().tolist()


# TorchMetrics and Lightning


def test_member_names_hold_no_dot() -> None:
    """A "." in a member name is a KeyError in MetricCollection: names made from keys have none, given ones are refused."""
    collection = TopKCollection([KForRecall(0.8), RecallAtK(k=1)], prefix="val/")
    assert all("." not in name for name in collection.keys(keep_base=True))  # type: ignore[operator]
    for name in collection:
        assert collection[name] is not None
    with pytest.raises(ValueError, match="TopKCollection: name='a.b' cannot be the name of a metric"):
        TopKCollection({"a.b": RecallAtK(k=1)})


def test_one_element_results_are_scalars_whose_keys_still_fit() -> None:
    """[1 cut-off] and [1 bucket] come squeezed, as TorchMetrics does, and scalars() pairs them with their key."""
    one = LabelBuckets.from_assignment([0, 0, 0], ["all"])
    for metric in (RecallAtK(k=[1]), RecallAtK(k=1, buckets=one), RecallAtK(k=[1], buckets=one)):
        metric.update(torch.tensor([[0]]), torch.tensor([0]))
        assert metric.compute().shape == ()
        assert [float(scalar) for scalar in metric.scalars().values()] == [1.0]


# Peers


def test_padding_as_an_index_does_not_read_the_last_label() -> None:
    """-1 hits neither a relevant last label nor a relevant first one, is not shown, and has no bucket."""
    preds = torch.tensor([[0, -1]])
    for relevant in ([False] * 7 + [True], [True] + [False] * 7):
        target = torch.tensor([relevant])
        for metric in (RecallAtK(k=2), HitRateAtK(k=2), RelevanceAtK(k=2), NDCGAtK(k=2), MAP()):
            assert value(metric, (torch.tensor([[1, -1]]), target)) == 0
    target = torch.tensor([[False] * 7 + [True]])
    assert value(RecallAtK(k=2, buckets=HALVES), (preds, target))[1] == 0
    assert value(PredictionProportionAtK(k=2, buckets=HALVES), (preds, target)) == [0.5, 0.0]
    assert value(CatalogCoverageAtK(k=2, num_labels=8), (preds, target)) == 1 / 8


def test_input_is_not_reordered_in_place() -> None:
    """scipy and torch CSR with columns in no order keep them so."""
    parts = (torch.tensor([3.0, 1.0, 2.0]).numpy(), torch.tensor([2, 0, 1]).numpy(), torch.tensor([0, 3]).numpy())
    matrix = scipy.sparse.csr_matrix(parts, shape=(1, 4))
    ours = torch.sparse_csr_tensor(
        torch.tensor([0, 3]), torch.tensor([2, 0, 1]), torch.tensor([3.0, 1, 2]), size=(1, 4)
    )
    assert value(RecallAtK(k=1), (matrix, matrix), (ours, ours)) == 1 / 3
    assert matrix.indices.tolist() == ours.col_indices().tolist() == [2, 0, 1]
    assert matrix.data.tolist() == ours.values().tolist() == [3, 1, 2]


def test_a_nan_score_does_not_rank_best() -> None:
    """It is an error wherever it stands, in dense scores, candidates and CSR."""
    scores = torch.tensor([[0.1, torch.nan, 0.3]])
    for preds in (scores, (scores, torch.tensor([[0, 1, 2]])), scores.to_sparse_csr()):
        with pytest.raises(ValueError, match=r"RecallAtK: preds holds NaN in row 0"):
            RecallAtK(k=1).update(preds, torch.tensor([1]))


def test_labels_are_put_into_buckets_by_integers() -> None:
    """Masses beyond 2^53, where float sums lose ones: the walk in whole numbers, label by label."""
    counts = [2**55 + 3, 2**55 + 1, 2**55 - 1, 2**54 + 1, 2**54 - 1, 7, 5, 3, 1, 1, 1]
    assignment, bucket, mass, rest = [], 0, 0, sum(counts)
    opened = rest
    for count in counts:
        assignment.append(bucket)
        mass += count
        rest -= count
        if Fraction(mass) * (10 - bucket) >= opened:
            bucket, mass, opened = bucket + 1, 0, rest
    assert LabelBuckets.deciles(counts).assignment.tolist() == assignment
    ids = torch.tensor([2**24 + 1, 2**24])
    many = torch.zeros(2**24 + 2, dtype=torch.int64)
    many[ids[0]] = 1
    assert LabelBuckets.from_assignment(many, ["a", "b"]).of(ids).tolist() == [1, 0]


def test_padded_ids_as_wide_as_the_labels_do_not_pass_for_multi_hot() -> None:
    """Beside scores of that shape integers are a matrix: with a -1 an error that names target_ids=."""
    scores = torch.tensor([[0.1, 0.2, 0.3]])
    with pytest.raises(ValueError, match="target_ids="):
        RecallAtK(k=1).update(scores, torch.tensor([[2, -1, -1]]))
    with pytest.raises(ValueError, match="target_ids="):
        LabelFrequency(3).update(torch.tensor([[2, -1, -1]]))
    metric = RecallAtK(k=1)
    metric.update(tailmetrics.Ranking.from_scores(scores, target_ids=torch.tensor([[2, -1, -1]])))
    assert metric.compute() == 1
    assert value(RecallAtK(k=1), (scores, torch.tensor([[0, 0, 1]]))) == 1


# torch on the CPU


@pytest.mark.parametrize("num_labels", [7, 300, 5000])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.float64], ids=str)
def test_ties_go_to_the_lower_id(num_labels: int, kind: torch.dtype) -> None:
    """torch.topk breaks ties arbitrarily: here every tie, at the cut and above it, is in order of ids."""
    scores = torch.randint(3, (20, num_labels), generator=torch.Generator().manual_seed(num_labels)).to(kind)
    scores[3] = 1
    scores[4, : num_labels // 2] = -torch.inf
    for k in (1, 3, num_labels - 1):
        found = rank(scores, torch.zeros(20, dtype=torch.int64), depth=k).ids.tolist()
        for row, ids in zip(scores.tolist(), found, strict=True):
            wanted = sorted(
                (label for label in range(num_labels) if row[label] > -math.inf), key=lambda one: (-row[one], one)
            )
            assert ids == (wanted[:k] + [-1] * k)[:k]


def test_minus_zero_ties_with_zero() -> None:
    """-0.0 equals 0.0, so the lower id comes first whichever is which."""
    for scores in ([-0.0, 0.0, -0.0], [0.0, -0.0, 0.0]):
        assert rank(torch.tensor([scores]), torch.tensor([0])).ids.tolist() == [[0, 1, 2]]
        pair = (torch.tensor([scores]), torch.tensor([[2, 0, 1]]))
        assert rank(pair, torch.tensor([0])).ids.tolist() == [[0, 1, 2]]


# ranks alone


@pytest.mark.usefixtures("both_forms")
@pytest.mark.parametrize("case", [case for case in CASES_OF_A_KIND if not case.needs_scores], ids=str)
def test_negative_scores_score_as_their_positive_twins(case: Case) -> None:
    """All-negative logits, the same shifted to positive, and stretched: only the order counts, never the sign."""
    batch, values = data(7), []
    for scores in (batch.scores - 100, batch.scores + 100, batch.scores * 8):
        metric = case.metric()
        metric.update(scores, batch.target)
        values.append(bits(metric))
    assert values[0] == values[1] == values[2]


@pytest.mark.usefixtures("both_forms")
def test_recall_just_reached_is_reached() -> None:
    """For every recall .01 … .99 and every n up to 100: the smallest c with c/n >= recall, not ceil of a product."""
    n = torch.arange(1, 101)
    ids = torch.arange(100).expand(100, 100)
    ranking = rank(ids, torch.where(ids < n[:, None], ids, -1))
    for percent in range(1, 100):
        wanted = [next(c for c in range(1, size + 1) if c / size >= percent / 100) for size in n.tolist()]
        assert functional.k_for_recall(ranking, percent / 100).tolist() == wanted
