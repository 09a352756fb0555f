"""Flat queries, ``update(preds, target, indexes=ids)``; parity/test_torchmetrics_retrieval.py compares them with a peer.

A query's documents may stand anywhere in the batch; ids of queries need no order and may have gaps. Of equal scores the
document that stands first comes first, or with ``ids=`` the lower label. Without ``ids=`` there are no labels.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from cases import BUCKETS, CASES, Case, data, fed, floats, training_counts
from contract.forms import candidates
from exactness.bits import bits_of
from oracle import ROW_METRICS, Row, evaluate
from tailmetrics import MRR, RecallAtK, RowAUC, TopKCollection

Flat = tuple[Tensor, Tensor, Tensor]

NEED_LABELS = ("FallOutAtK", "CrossEntropy", "RowAUC", "CoverageError", "RankingLoss")
OF_LISTS = [
    case for case in CASES
    if case.by is None and case.name in ROW_METRICS and case.name not in NEED_LABELS and "average" not in case.arguments
]  # fmt: skip


def flat(seed: int, queries: int = 30, grades: int = 1) -> Flat:
    """Queries of 1 to 20 documents, in disorder, with ids that have gaps; ties; some have nothing relevant."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randperm(queries * 3, generator=generator)[:queries]
    ids = ids.repeat_interleave(torch.randint(1, 21, (queries,), generator=generator))
    ids = ids[torch.randperm(len(ids), generator=generator)]
    preds = torch.randn(len(ids), generator=generator).mul(4).round() / 4
    preds[torch.rand(len(ids), generator=generator) < 0.1] = -math.inf
    target = torch.rand(len(ids), generator=generator) < 0.2
    return preds, target * torch.randint(1, grades + 1, target.shape, generator=generator), ids


def by_query(batch: Flat) -> list[Row]:
    """Documents of each query by their place in it, best first, with the gains above 0."""
    found: dict[int, list[tuple[float, float]]] = {}
    for score, gain, query in zip(*(part.tolist() for part in batch), strict=True):
        found.setdefault(query, []).append((score, gain))
    rows = []
    for documents in found.values():
        order = sorted((-score, place) for place, (score, _) in enumerate(documents) if score != -math.inf)
        gains = {place: float(gain) for place, (_, gain) in enumerate(documents) if gain > 0}
        rows.append(Row([place for _, place in order], gains))
    return rows


@pytest.mark.parametrize("case", OF_LISTS, ids=str)
def test_queries_equal_the_plain_loop(case: Case) -> None:
    """Of any number of documents, in one batch or in several, with any rule for queries with nothing to find."""
    batch = flat(1, grades=3)
    wanted = [evaluate(case.name, by_query(batch), case.setting(cut)) for cut in case.cutoffs()]
    whole, parts = case.metric(num_labels=None), case.metric(num_labels=None)
    whole.update(*batch[:2], indexes=batch[2])
    for part in range(4):
        preds, target, ids = (one[batch[2] % 4 == part] for one in batch)
        parts.update(preds, target, indexes=ids)
    assert floats(whole.compute()) == pytest.approx(wanted, rel=0, abs=1e-12)
    assert bits_of(whole.compute()) == bits_of(parts.compute())


@pytest.mark.parametrize("how", ["update", "forward", "collection"])
def test_a_query_that_returns_is_another_query_and_is_warned_of(how: str) -> None:
    """The same number in two batches, with other documents: two rows, and one warning; none after a reset."""
    made = TopKCollection([MRR()]) if how == "collection" else MRR()
    add: Any = made if how == "forward" else made.update
    for _ in range(2):
        for query in (7, 8):
            add(torch.tensor([0.9, 0.1]), torch.tensor([1, 0]), indexes=torch.tensor([query, query]))
        with pytest.warns(UserWarning, match="the query 7 of indexes stood in an earlier update"):
            add(torch.tensor([0.9, 0.1]), torch.tensor([0, 1]), indexes=torch.tensor([7, 7]))
        values = made.compute()
        assert float(values["mrr"] if how == "collection" else values) == pytest.approx((1 + 1 + 1 / 2) / 3)
        made.reset()


@pytest.mark.parametrize("form", ["per query", "per document"])
@pytest.mark.parametrize("source", ["update", "from_flat"])
def test_rows_of_queries_are_masked_grouped_and_weighted(form: str, source: str) -> None:
    """GAUC: the mean of the queries' areas by weight; a mask drops a query, groups split them."""
    preds, target = torch.tensor([0.9, 0.1, 0.8, 0.2, 0.7, 0.3]), torch.tensor([1, 0, 0, 1, 1, 0])
    queries = torch.tensor([5, 5, 2, 2, 9, 9])  # areas 1, 0 and 1; in ascending order 0, 1 and 1
    weights, mask, groups = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([True, True, False]), torch.tensor([0, 1, 0])
    rows = {"row_weights": weights, "row_mask": mask, "row_groups": groups}
    if form == "per document":
        rows = {name: value[torch.tensor([1, 1, 0, 0, 2, 2])] for name, value in rows.items()}
    metric = RowAUC(weighted=True, row_groups=["a", "b"])
    if source == "update":
        metric.update(preds, target, indexes=queries, **rows)
    else:
        metric.update(tailmetrics.Ranking.from_flat(preds, target, queries, **rows))
    assert floats(metric.compute()) == [1 / 4, 0.0, 1.0]
    with pytest.raises(ValueError, match="row_weights differs between documents of one query"):
        metric.update(preds, target, indexes=queries, row_weights=torch.arange(6.0), row_groups=groups)


def test_documents_to_ignore_are_left_out() -> None:
    """As a query of the others alone; -100 as TorchMetrics' ignore_index; a query of which nothing is left is none."""
    preds, target, ids = flat(12)
    ignored = torch.arange(len(ids)) % 5 == 0
    ignored |= ids == ids[1]
    found = MRR(ignore_index=-100)
    found.update(preds, target.masked_fill(ignored, -100), indexes=ids)
    wanted = MRR()
    wanted.update(preds[~ignored], target[~ignored], indexes=ids[~ignored])
    assert bits_of(found.compute()) == bits_of(wanted.compute())


PREDS, TARGET, IDS = flat(8)
WRONG: dict[str, tuple[Any, Any, Any]] = {
    "lengths": (PREDS, TARGET[1:], IDS),
    "float ids": (PREDS, TARGET, IDS.float()),
    "two axes": (PREDS[None], TARGET, IDS),
    "nan": (PREDS.index_fill(0, torch.tensor([3]), math.nan), TARGET, IDS),
    "negative gain": (PREDS, TARGET.index_fill(0, torch.tensor([3]), -1), IDS),
    "missing": (PREDS, TARGET, None),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_queries_are_refused_and_count_nothing(wrong: str) -> None:
    """Clear errors; the metric is as before. Buckets need the labels of documents."""
    metric = MRR()
    metric.update(PREDS, TARGET, indexes=IDS)
    before = bits_of(metric.compute())
    preds, target, queries = WRONG[wrong]
    with pytest.raises((TypeError, ValueError), match=r"MRR: "):
        metric.update(preds, target, indexes=queries)
    assert bits_of(metric.compute()) == before
    with pytest.raises(ValueError, match=r"RecallAtK: .*ids="):
        RecallAtK(k=3, buckets=BUCKETS).update(PREDS, TARGET, indexes=IDS)


@pytest.mark.parametrize("case", [Case(name, given, by) for by in ("bucket", "global") for name, given in
                                  (("RecallAtK", {"k": [1, 3]}), ("NDCGAtK", {"k": 3}), ("MRR", {}))]
                         + [Case("PopularityAtK", {"k": 1})], ids=str)  # fmt: skip
def test_documents_with_labels_are_candidates(case: Case) -> None:
    """``ids=`` of ``Ranking.from_flat`` says which label each document is: the bits of the same scored candidates."""
    batch = data(seed=10, graded=True)
    rows, labels = (~batch.scores.isinf()).nonzero().unbind(1)
    shuffled = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))
    rows, labels = rows[shuffled], labels[shuffled]
    gains = batch.target.masked_fill(batch.scores.isinf(), 0.0)
    ranking = tailmetrics.Ranking.from_flat(batch.scores[rows, labels], gains[rows, labels], rows, ids=labels)
    present = sorted(set(rows.tolist()))
    listed = tuple(part[present] for part in candidates(batch))
    assert len(training_counts()) == batch.scores.shape[1]
    assert bits_of(fed(case.metric(), ranking).compute()) == bits_of(
        fed(case.metric(), listed, gains[present]).compute()
    )
