"""CoverageError and RankingLoss: plain loops over labels and pairs, and scikit-learn to 1e-9.

Readings: overall every row counts, with 0 where nothing is relevant (and, for the loss, where everything is), as in
scikit-learn; within buckets rows without a relevant label of the bucket are skipped, as everywhere here; "pos" is
not tested (1 is no best value of a depth). Equal scores count against the row in both, as in scikit-learn. With scope
"global" the depth is that in the whole list, and the loss looks at pairs with all irrelevant labels of the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes import pairs
from wishes.rows import DECILES, NUM_LABELS, THREE, bits, drawn, fed, floats, members, sets

METRICS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "CoverageError": (pairs.cover_depth, "coverage_error", "coverage_error"),
    "RankingLoss": (pairs.loss, "label_ranking_loss", "ranking_loss"),
}

every_metric = pytest.mark.parametrize("name", METRICS)


def batch(seed: int, ties: bool) -> tuple[Tensor, Tensor]:
    """Some rows with nothing relevant, some with everything."""
    scores, target = drawn(seed, ties=ties)
    target[5::13] = True
    return scores, target


def oracle(
    name: str, rows: Sequence[Sequence[float]], relevant: Sequence[set[int]], inside: set[int], scope: str, empty: str
) -> float:
    """Mean over the rows that count."""
    per_row = METRICS[name][0]
    pairs_of_rows = zip(rows, relevant, strict=True)
    values = [per_row(row, own, inside, scope) for row, own in pairs_of_rows if own & inside or empty == "neg"]
    return float(Fraction(sum(values)) / len(values)) if values else math.nan


@every_metric
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("empty", [None, "neg", "skip"])
def test_overall_equals_the_plain_loop(name: str, ties: bool, empty: str | None) -> None:
    """By default rows with nothing to find count 0; "skip" leaves them out."""
    scores, target = batch(1, ties)
    chosen = {} if empty is None else {"empty_target_action": empty}
    found = fed(getattr(tailmetrics, name)(**chosen), scores, target).compute()
    wanted = oracle(name, scores.tolist(), sets(target), set(range(NUM_LABELS)), "bucket", empty or "neg")
    assert float(found) == pytest.approx(wanted, rel=0, abs=1e-12)


@every_metric
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("scope", ["bucket", "global"])
@pytest.mark.parametrize("buckets", [THREE, DECILES], ids=["three", "deciles"])
def test_by_bucket_equals_the_plain_loop(name: str, ties: bool, scope: str, buckets: Any) -> None:
    """Among the bucket's labels, or the bucket's relevant labels among all."""
    scores, target = batch(2, ties)
    found = fed(getattr(tailmetrics, name)(buckets=buckets, scope=scope), scores, target).compute()
    wanted = [oracle(name, scores.tolist(), sets(target), inside, scope, "skip") for inside in members(buckets)]
    assert floats(found) == pytest.approx(wanted, rel=0, abs=1e-12, nan_ok=True)


@every_metric
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_scikit_learn(name: str, ties: bool, seed: int) -> None:
    """coverage_error and label_ranking_loss, rows without a pair included."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = batch(10 + seed, ties)
    expected = getattr(peers, METRICS[name][1])(target, scores)
    assert float(fed(getattr(tailmetrics, name)(), scores, target).compute()) == pytest.approx(
        expected, rel=0, abs=1e-9
    )


@every_metric
@pytest.mark.parametrize("ties", [False, True])
def test_the_oracle_is_scikit_learn(name: str, ties: bool) -> None:
    """The plain loops that the tests above use."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = batch(20, ties)
    wanted = oracle(name, scores.tolist(), sets(target), set(range(NUM_LABELS)), "bucket", "neg")
    assert getattr(peers, METRICS[name][1])(target, scores) == pytest.approx(wanted, rel=0, abs=1e-12)


def test_worked_examples() -> None:
    """Relevant at ranks 1 and 3 of 4: depth 3, one of 4 pairs wrong. All four tied: depth 4, every pair wrong."""
    target = torch.tensor([[True, False, True, False]])
    for scores, depth, loss in (([4.0, 3.0, 2.0, 1.0], 3, 1 / 4), ([0.0] * 4, 4, 1)):
        assert float(fed(tailmetrics.CoverageError(), torch.tensor([scores]), target).compute()) == depth
        assert float(fed(tailmetrics.RankingLoss(), torch.tensor([scores]), target).compute()) == loss


@every_metric
def test_keys_and_direction(name: str) -> None:
    """coverage_error and ranking_loss, by bucket with its name; lower is better."""
    given = batch(5, ties=False)
    key = METRICS[name][2]
    assert list(fed(getattr(tailmetrics, name)(), *given).scalars()) == [key]
    by_bucket = fed(getattr(tailmetrics, name)(buckets=THREE), *given)
    assert list(by_bucket.scalars()) == [f"{key}/{bucket}" for bucket in ("head", "body", "tail")]
    assert by_bucket.higher_is_better is False


@every_metric
def test_a_shallow_ranking_of_scores_is_enough_and_a_cut_one_is_not(name: str) -> None:
    """A ranking made from scores answers exactly; a list that was cut before is refused."""
    scores, target = batch(6, ties=True)
    shallow = fed(getattr(tailmetrics, name)(), tailmetrics.rank(scores, target, depth=1)).compute()
    assert bits(shallow) == bits(fed(getattr(tailmetrics, name)(), scores, target).compute())
    ids = scores.topk(5).indices
    cut = tailmetrics.Ranking.from_ids(ids, target_mask=target, num_labels=NUM_LABELS, complete=False)
    with pytest.raises(ValueError, match=f"{name}: "):
        getattr(tailmetrics, name)().update(cut)
