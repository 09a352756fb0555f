"""RowAUC: every pair of a row looked at, scikit-learn's samples average, TorchMetrics' and RecBole's formula.

Readings of the contract where it leaves a choice:

- n and L are the row's own: within a bucket (scope "bucket") its relevant labels and its size. With scope "global" a
  row counts if the bucket has a relevant label and the row any irrelevant one.
- Rows outside 0 < n < L are left out whatever ``empty_target_action`` says.
- A label that is not retrieved (-inf, not stored, no candidate) ties with the others that are not, below all scores.
- ``depth`` cuts nothing; what was cut before (a ranking of a top k) is refused. Ranked ids have no scores, but an order
  without ties: where they name every label they may be read; that is not tested here.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import tailmetrics
from wishes import pairs
from wishes.rows import DECILES, NUM_LABELS, THREE, bits, drawn, fed, floats, members, sets

EVERYTHING = set(range(NUM_LABELS))


def with_full_rows(seed: int, ties: bool) -> tuple[Any, Any]:
    """Rows with nothing relevant, and rows with nothing else."""
    scores, target = drawn(seed, ties=ties)
    target[4::11] = True
    return scores, target


def oracle(scores: Any, target: Any, inside: set[int], scope: str = "bucket") -> float:
    return pairs.mean(
        [pairs.area(row, own, inside, scope) for row, own in zip(scores.tolist(), sets(target), strict=True)]
    )


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_overall_equals_the_plain_loop(seed: int, ties: bool) -> None:
    """The mean over rows with both kinds of labels of the share of pairs in the right order."""
    scores, target = with_full_rows(seed, ties)
    found = fed(tailmetrics.RowAUC(), scores, target).compute()
    assert found.shape == ()
    assert float(found) == pytest.approx(oracle(scores, target, EVERYTHING), rel=0, abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("scope", ["bucket", "global"])
@pytest.mark.parametrize("buckets", [THREE, DECILES], ids=["three", "deciles"])
def test_by_bucket_equals_the_plain_loop(buckets: Any, scope: str, ties: bool) -> None:
    """Pairs within the bucket, or the bucket's relevant labels against all irrelevant ones."""
    scores, target = with_full_rows(7, ties)
    found = fed(tailmetrics.RowAUC(buckets=buckets, scope=scope), scores, target).compute()
    wanted = [oracle(scores, target, inside, scope) for inside in members(buckets)]
    assert floats(found) == pytest.approx(wanted, rel=0, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("ties", [False, True])
def test_scikit_learn_samples_average(ties: bool) -> None:
    """roc_auc_score(average="samples") on the rows where it is defined."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = with_full_rows(8, ties)
    both = target.any(1) & ~target.all(1)
    expected = peers.roc_auc_score(target[both], scores[both], average="samples")
    assert float(fed(tailmetrics.RowAUC(), scores, target).compute()) == pytest.approx(expected, rel=0, abs=1e-9)


def test_torchmetrics_retrieval_auroc() -> None:
    """RetrievalAUROC over rows with both kinds of labels, in its float32."""
    peers = pytest.importorskip("torchmetrics.retrieval")
    scores, target = with_full_rows(9, ties=True)
    both = target.any(1) & ~target.all(1)
    peer = peers.RetrievalAUROC()
    queries = torch.arange(int(both.sum()))[:, None].expand(-1, NUM_LABELS)
    peer.update(scores[both].float(), target[both].long(), indexes=queries)
    found = float(fed(tailmetrics.RowAUC(), scores, target).compute())
    assert found == pytest.approx(float(peer.compute()), rel=0, abs=1e-6)


def recbole_area(scores: list[float], relevant: set[int]) -> float:
    """AUC(u) of RecBole's documentation: (R (n + 1) - R (R + 1) / 2 - sum of ranks) / (R (n - R)), mean ranks in ties."""
    n, size = len(scores), len(relevant)
    ranks = [
        sum(other > scores[label] for other in scores) + (1 + sum(other == scores[label] for other in scores)) / 2
        for label in relevant
    ]
    return (size * (n + 1) - size * (size + 1) / 2 - sum(ranks)) / (size * (n - size))


@pytest.mark.parametrize("ties", [False, True])
def test_recbole_gauc_weights_rows_by_their_positives(ties: bool) -> None:
    """GAUC = sum R(u) AUC(u) / sum R(u): RowAUC with the number of relevant labels as row weights."""
    scores, target = with_full_rows(10, ties)
    rows = [(row, own) for row, own in zip(scores.tolist(), sets(target), strict=True) if 0 < len(own) < NUM_LABELS]
    gauc = sum(len(own) * recbole_area(row, own) for row, own in rows) / sum(len(own) for _, own in rows)
    metric = tailmetrics.RowAUC(weighted=True)
    metric.update(scores, target, row_weights=target.sum(1))
    assert float(metric.compute()) == pytest.approx(gauc, rel=0, abs=1e-9)


def test_recbole_area_of_each_row() -> None:
    """Its area of one user is the share of pairs in the right order, ties one half."""
    scores, target = with_full_rows(11, ties=True)
    for row, own in zip(scores.tolist(), sets(target), strict=True):
        if 0 < len(own) < NUM_LABELS:
            assert recbole_area(row, own) == pytest.approx(float(pairs.area(row, own, EVERYTHING) or 0), abs=1e-12)


def test_worked_examples() -> None:
    """Of pairs (.9, .5) and (.4, .5) one is right: 1/2; a tie is 1/2; all right 1; all wrong 0."""
    for scores, target, wanted in (
        ([0.9, 0.5, 0.4], [True, False, True], 1 / 2),
        ([0.5, 0.5, 0.0], [True, False, False], 3 / 4),
        ([3.0, 2.0, 1.0], [True, True, False], 1),
        ([3.0, 2.0, 1.0], [False, False, True], 0),
    ):
        metric = fed(tailmetrics.RowAUC(), torch.tensor([scores]), torch.tensor([target]))
        assert float(metric.compute()) == wanted


@pytest.mark.parametrize(("action", "wanted"), [(None, math.nan), ("skip", math.nan), ("neg", 1 / 3), ("pos", 1.0)])
def test_a_row_without_a_pair_counts_as_told(action: Any, wanted: float) -> None:
    """Nothing relevant, everything relevant: no area; beside a row with area 1 both are left out, count 0, or count 1."""
    metric = tailmetrics.RowAUC(empty_target_action=action)
    metric.update(torch.randn(2, 4), torch.tensor([[False] * 4, [True] * 4]))
    assert float(metric.compute()) == pytest.approx({"neg": 0.0, "pos": 1.0}.get(action, math.nan), nan_ok=True)
    metric.update(torch.tensor([[2.0, 1.0, 0.0, 0.0]]), torch.tensor([0]))
    assert float(metric.compute()) == (1.0 if math.isnan(wanted) else pytest.approx(wanted))


def test_an_error_says_what_the_row_lacks() -> None:
    """A row in which every label is relevant has relevant labels, but no pair."""
    metric = tailmetrics.RowAUC(empty_target_action="error")
    with pytest.raises(ValueError, match="row 1 has no pair of a relevant and an irrelevant label"):
        metric.update(torch.randn(2, 3), torch.tensor([[True, False, True], [True] * 3]))


def test_a_cut_list_is_refused() -> None:
    """A top k of more scores, as candidates or ids, hides pairs; the message says what is needed."""
    scores, target = drawn(13)
    best = scores.topk(5)
    ranking = tailmetrics.Ranking.from_ids(best.indices, target_mask=target, num_labels=NUM_LABELS, complete=False)
    with pytest.raises(ValueError, match="RowAUC: "):
        tailmetrics.RowAUC().update(ranking)


def test_a_shallow_ranking_of_scores_is_enough() -> None:
    """A ranking made from scores answers exactly, however deep its list is."""
    scores, target = with_full_rows(14, ties=True)
    shallow = fed(tailmetrics.RowAUC(), tailmetrics.rank(scores, target, depth=1)).compute()
    assert bits(shallow) == bits(fed(tailmetrics.RowAUC(), scores, target).compute())


def test_keys() -> None:
    """row_auc, by bucket row_auc/head, and global_row_auc/head."""
    batch = drawn(17)
    names = ["head", "body", "tail"]
    assert list(fed(tailmetrics.RowAUC(), *batch).scalars()) == ["row_auc"]
    assert list(fed(tailmetrics.RowAUC(buckets=THREE), *batch).scalars()) == [f"row_auc/{name}" for name in names]
    wide = fed(tailmetrics.RowAUC(buckets=THREE, scope="global"), *batch)
    assert list(wide.scalars()) == [f"global_row_auc/{name}" for name in names]
