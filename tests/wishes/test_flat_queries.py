"""Flat queries, ``update(preds, target, indexes=ids)``: plain loops, torchmetrics.retrieval, and a loop moved over.

Readings of the contract where it leaves a choice:

- A query's documents may stand anywhere in the batch; ids of queries need no order and may have gaps; negative ids are
  ids like any other and are not tested. A query in two batches counts as two, and a warning says so.
- Of equal scores the document that stands first comes first, or with ``ids=`` the lower label.
- Positive scores only are compared with TorchMetrics, which takes others for "not retrieved" in some metrics; here any
  finite score is one, -inf is "not retrieved".
- Without ``ids=`` there are no labels: metrics by bucket, per label or of what is shown need ``Ranking.from_flat`` with
  ids. There ``n`` counts the query's relevant documents.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes.reference import ROWS, Seen
from wishes.rows import COUNTS, DECILES, NUM_LABELS, bits, candidates, fed, floats, graded

Flat = tuple[Tensor, Tensor, Tensor]

PAIRS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    *(("RetrievalPrecision", {"top_k": k}, "PrecisionAtK", {"k": k, "denominator": "k"}) for k in (1, 3, 10)),
    *(("RetrievalPrecision", {"top_k": k, "adaptive_k": True}, "PrecisionAtK", {"k": k}) for k in (1, 3, 10)),
    *(("RetrievalRecall", {"top_k": k}, "RecallAtK", {"k": k}) for k in (1, 3, 10)),
    *(("RetrievalHitRate", {"top_k": k}, "HitRateAtK", {"k": k}) for k in (1, 3, 10)),
    *(("RetrievalMRR", {"top_k": k}, "MRR", {"k": k}) for k in (1, 3, 10, None)),
    ("RetrievalMAP", {}, "MAP", {}),
    *(("RetrievalNormalizedDCG", {"top_k": k}, "NDCGAtK", {"k": k}) for k in (1, 3, 10, None)),
    ("RetrievalRPrecision", {}, "RPrecision", {}),
]
PLAIN: list[tuple[str, dict[str, Any]]] = [
    *((name, {"k": k}) for name in ("PrecisionAtK", "RecallAtK", "F1AtK", "HitRateAtK") for k in (1, 3, 10)),
    *(("NDCGAtK", {"k": k, "gain": gain}) for k in (3, None) for gain in ("linear", "exponential")),
    ("MAP", {"k": 3, "denominator": "attainable"}),
    ("MRR", {}),
    ("RPrecision", {}),
]


def flat(seed: int, queries: int = 40, largest: int = 30, grades: int = 1, negative: bool = False) -> Flat:
    """Queries of 1 to ``largest`` documents, in disorder, with ids that have gaps; some have nothing relevant."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, largest + 1, (queries,), generator=generator)
    ids = torch.randperm(queries * 3, generator=generator)[:queries].repeat_interleave(sizes)
    ids = ids[torch.randperm(len(ids), generator=generator)]
    preds = torch.rand(len(ids), generator=generator) - (0.5 if negative else -0.01)
    target = torch.rand(len(ids), generator=generator) < 0.2
    return preds, target * torch.randint(1, grades + 1, target.shape, generator=generator), ids


def split(batch: Flat, parts: int) -> list[Flat]:
    """Batches in which every query is whole."""
    preds, target, ids = batch
    return [
        (preds[ids % parts == part], target[ids % parts == part], ids[ids % parts == part]) for part in range(parts)
    ]


def by_query(batch: Flat) -> list[Seen]:
    """Documents of each query by their place in it, best first, with the gains above 0."""
    found: dict[int, list[tuple[float, float]]] = {}
    for score, gain, query in zip(*(part.tolist() for part in batch), strict=True):
        found.setdefault(query, []).append((score, gain))
    rows = []
    for documents in found.values():
        order = sorted((-score, place) for place, (score, _) in enumerate(documents) if score != -math.inf)
        gains = {place: float(gain) for place, (_, gain) in enumerate(documents) if gain > 0}
        rows.append(Seen([place for _, place in order], gains))
    return rows


def oracle(name: str, options: dict[str, Any], batch: Flat) -> float:
    rows = by_query(batch)
    values = [float(ROWS[name](row, options, options.get("k"))) if row.gains else 0.0 for row in rows]
    return math.fsum(values) / len(values)


# --- values


@pytest.mark.parametrize(("name", "options"), PLAIN)
@pytest.mark.parametrize("negative", [False, True], ids=["positive", "any sign"])
def test_queries_equal_the_plain_loop(name: str, options: dict[str, Any], negative: bool) -> None:
    """Of any number of documents, scores of any sign, in one batch or in several."""
    batch = flat(1, grades=3, negative=negative)
    whole, parts = (getattr(tailmetrics, name)(**options) for _ in range(2))
    whole.update(*batch[:2], indexes=batch[2])
    for preds, target, ids in split(batch, 4):
        parts.update(preds, target, indexes=ids)
    assert float(whole.compute()) == pytest.approx(oracle(name, options, batch), rel=0, abs=1e-12)
    assert bits(whole.compute()) == bits(parts.compute())


@pytest.mark.parametrize(("peer", "theirs", "name", "ours"), PAIRS)
@pytest.mark.parametrize("action", ["neg", "pos", "skip"])
def test_torchmetrics_retrieval(
    peer: str, theirs: dict[str, Any], name: str, ours: dict[str, Any], action: str
) -> None:
    """The value of the peer on positive scores, as far as its float32 goes; empty_target_action means the same."""
    peers = pytest.importorskip("torchmetrics.retrieval")
    batch = flat(2)
    expected = getattr(peers, peer)(empty_target_action=action, **theirs)
    found = getattr(tailmetrics, name)(empty_target_action=action, **ours)
    for preds, target, ids in split(batch, 3):
        expected.update(preds, target, indexes=ids)
        found.update(preds, target, indexes=ids)
    assert float(found.compute()) == pytest.approx(float(expected.compute()), rel=0, abs=1e-6)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_torchmetrics_fall_out(k: int) -> None:
    """RetrievalFallOut of queries that have an irrelevant document: each query's own documents are all there are."""
    peers = pytest.importorskip("torchmetrics.retrieval")
    preds, target, ids = with_irrelevant(flat(12))
    expected, found = peers.RetrievalFallOut(top_k=k), tailmetrics.FallOutAtK(k=k)
    expected.update(preds, target, indexes=ids)
    found.update(preds, target, indexes=ids)
    assert float(found.compute()) == pytest.approx(float(expected.compute()), rel=0, abs=1e-6)


def with_irrelevant(batch: Flat) -> Flat:
    """The queries that have an irrelevant document."""
    preds, target, ids = batch
    has = {query for query, gain in zip(ids.tolist(), target.tolist(), strict=True) if gain == 0}
    kept = torch.tensor([query in has for query in ids.tolist()])
    return preds[kept], target[kept], ids[kept]


@pytest.mark.parametrize("k", [3, None])
def test_torchmetrics_graded_ndcg(k: int | None) -> None:
    """RetrievalNormalizedDCG of whole gains."""
    peers = pytest.importorskip("torchmetrics.retrieval")
    preds, target, ids = flat(3, grades=4)
    expected, found = peers.RetrievalNormalizedDCG(top_k=k), tailmetrics.NDCGAtK(k=k)
    expected.update(preds, target, indexes=ids)
    found.update(preds, target, indexes=ids)
    assert float(found.compute()) == pytest.approx(float(expected.compute()), rel=0, abs=1e-6)


def test_torchmetrics_retrieval_auroc() -> None:
    """RowAUC of queries that have both kinds of documents: the pairs of the query's own documents."""
    peers = pytest.importorskip("torchmetrics.retrieval")
    preds, target, ids = with_irrelevant(flat(4))
    relevant = set(ids[target > 0].tolist())
    kept = torch.tensor([query in relevant for query in ids.tolist()])
    expected = peers.RetrievalAUROC()
    expected.update(preds[kept], target[kept], indexes=ids[kept])
    found = tailmetrics.RowAUC()
    found.update(preds, target, indexes=ids)
    assert float(found.compute()) == pytest.approx(float(expected.compute()), rel=0, abs=1e-6)


@pytest.mark.parametrize("how", ["update", "forward", "collection"])
def test_a_query_that_returns_is_another_query_and_is_warned_of(how: str) -> None:
    """The same number in two batches, with other documents: two rows, and one warning; none after a reset."""
    made = tailmetrics.TopKCollection([tailmetrics.MRR()]) if how == "collection" else tailmetrics.MRR()
    add = made if how == "forward" else made.update
    for _ in range(2):
        add(torch.tensor([0.9, 0.1]), torch.tensor([1, 0]), indexes=torch.tensor([7, 7]))
        add(torch.tensor([0.9, 0.1]), torch.tensor([1, 0]), indexes=torch.tensor([8, 8]))
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
    metric = tailmetrics.RowAUC(weighted=True, row_groups=["a", "b"])
    if source == "update":
        metric.update(preds, target, indexes=queries, **rows)
    else:
        metric.update(tailmetrics.Ranking.from_flat(preds, target, queries, **rows))
    assert floats(metric.compute()) == [1 / 4, 0.0, 1.0]


def test_weights_that_differ_within_a_query_are_refused() -> None:
    """One row has one weight."""
    metric = tailmetrics.RowAUC(weighted=True)
    with pytest.raises(ValueError, match="row_weights differs between documents of one query"):
        metric.update(
            torch.tensor([0.9, 0.1]), torch.tensor([1, 0]), indexes=torch.zeros(2).long(), row_weights=[1.0, 2.0]
        )


@pytest.mark.parametrize("ignored", [0, -100])
@pytest.mark.parametrize("action", ["neg", "skip"])
def test_ignored_documents_are_left_out_as_torchmetrics_leaves_them_out(ignored: int, action: str) -> None:
    """A query of which nothing is left is no query."""
    peers = pytest.importorskip("torchmetrics.retrieval")
    preds, target, ids = flat(12)
    target[::5] = ignored
    expected = peers.RetrievalMAP(empty_target_action=action, ignore_index=ignored)
    found = tailmetrics.MAP(empty_target_action=action, ignore_index=ignored)
    expected.update(preds, target, indexes=ids)
    found.update(preds, target, indexes=ids)
    assert float(found.compute()) == pytest.approx(float(expected.compute()), rel=0, abs=1e-6)
    assert float(found.compute()) < 1 or ignored == 0


def test_ties_and_documents_that_are_not_retrieved() -> None:
    """Of equal scores the first document comes first; -inf is not retrieved but counts for n."""
    preds = torch.tensor([0.5, 0.5, -math.inf, 0.5])
    metric = tailmetrics.MRR()
    metric.update(preds, torch.tensor([0, 1, 0, 1]), indexes=torch.zeros(4, dtype=torch.int64))
    assert float(metric.compute()) == 1 / 2
    recall = tailmetrics.RecallAtK(k=4)
    recall.update(preds, torch.tensor([0, 1, 1, 0]), indexes=torch.zeros(4, dtype=torch.int64))
    assert float(recall.compute()) == 1 / 2


# --- the loop of a user


def user_loop(metrics: Any, batches: list[Flat]) -> float:
    """A loop written for torchmetrics.retrieval: forward on each batch, compute, reset, once more."""
    metric = metrics.RetrievalMRR()
    for preds, target, indexes in batches:
        on_batch = metric(preds, target, indexes=indexes)
        assert 0 <= float(on_batch) <= 1
    metric.reset()
    for preds, target, indexes in batches:
        metric.update(preds=preds, target=target, indexes=indexes)
    return float(metric.compute())


def test_a_loop_runs_after_changing_the_import() -> None:
    """Only the name of the class changes: RetrievalMRR is MRR here."""
    peers = pytest.importorskip("torchmetrics.retrieval")

    class Moved:
        RetrievalMRR = tailmetrics.MRR

    batches = split(flat(5), 3)
    assert user_loop(Moved, batches) == pytest.approx(user_loop(peers, batches), rel=0, abs=1e-6)


@pytest.mark.parametrize("collection", ["MetricCollection", "TopKCollection"])
def test_collections_take_indexes(collection: str) -> None:
    """Both the plain collection of TorchMetrics and the one here."""
    peers = pytest.importorskip("torchmetrics")
    members: dict[str, Any] = {"mrr": tailmetrics.MRR(), "recall": tailmetrics.RecallAtK(k=3)}
    made = peers.MetricCollection(members) if collection == "MetricCollection" else None
    whole = made if made is not None else tailmetrics.TopKCollection(list(members.values()))
    batch = flat(6)
    for preds, target, ids in split(batch, 2):
        whole.update(preds, target, indexes=ids)
    values = [float(value) for value in whole.compute().values()]
    assert values == pytest.approx([oracle("MRR", {}, batch), oracle("RecallAtK", {"k": 3}, batch)], abs=1e-12)


@pytest.mark.parametrize("wrong", ["lengths", "float ids", "two axes", "nan", "negative gain", "missing"])
def test_wrong_queries_are_refused_and_count_nothing(wrong: str) -> None:
    """Clear errors; the metric is as before."""
    preds, target, ids = flat(8)
    metric = tailmetrics.MRR()
    metric.update(preds, target, indexes=ids)
    before = bits(metric.compute())
    given: dict[str, tuple[Any, Any, Any]] = {
        "lengths": (preds, target[1:], ids),
        "float ids": (preds, target, ids.float()),
        "two axes": (preds[None], target, ids),
        "nan": (preds.index_fill(0, torch.tensor([3]), math.nan), target, ids),
        "negative gain": (preds, target.index_fill(0, torch.tensor([3]), -1), ids),
        "missing": (preds, target, None),
    }
    bad, own, queries = given[wrong]
    with pytest.raises((TypeError, ValueError), match=r"MRR: "):
        metric.update(bad, own, indexes=queries)
    assert bits(metric.compute()) == before


# --- Ranking.from_flat


@pytest.mark.parametrize("scope", ["bucket", "global"])
@pytest.mark.parametrize(
    ("name", "options"), [("RecallAtK", {"k": [1, 3]}), ("NDCGAtK", {"k": 3}), ("MRR", {}), ("PrecisionAtK", {"k": 2})]
)
def test_documents_with_labels_are_candidates(name: str, options: dict[str, Any], scope: str) -> None:
    """``ids=`` says which label each document is: the bits of the same scored candidates, by decile."""
    scores, gains = graded(10)
    scores = scores.masked_fill(scores < -0.8, -math.inf)
    gains = gains.masked_fill(scores.isinf(), 0.0)
    rows, labels = (~scores.isinf()).nonzero().unbind(1)
    shuffled = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))
    rows, labels = rows[shuffled], labels[shuffled]
    ranking = tailmetrics.Ranking.from_flat(scores[rows, labels], gains[rows, labels], rows, ids=labels)
    present = sorted(set(rows.tolist()))
    make = {"buckets": DECILES, "scope": scope, **options}
    found = fed(getattr(tailmetrics, name)(**make), ranking).compute()
    listed = fed(getattr(tailmetrics, name)(**make), candidates(scores[present]), gains[present]).compute()
    assert bits(found) == bits(listed)


def test_what_is_shown_of_documents_with_labels() -> None:
    """Coverage and popularity read the labels of the documents."""
    preds = torch.tensor([0.9, 0.8, 0.7, 0.6])
    ranking = tailmetrics.Ranking.from_flat(
        preds, torch.tensor([1, 0, 0, 1]), torch.tensor([4, 4, 9, 9]), ids=torch.tensor([0, 3, 3, 1])
    )
    popularity = fed(tailmetrics.PopularityAtK(k=1, label_counts=COUNTS, num_labels=NUM_LABELS), ranking)
    assert floats(popularity.compute()) == [float(COUNTS[0] + COUNTS[3]) / 2]


def test_buckets_need_the_labels_of_documents() -> None:
    """Documents without labels belong to no decile: an error that says ids=."""
    preds, target, ids = flat(11)
    metric = tailmetrics.RecallAtK(k=3, buckets=DECILES)
    with pytest.raises(ValueError, match=r"RecallAtK: .*ids="):
        metric.update(preds, target, indexes=ids)
