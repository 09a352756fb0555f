"""Flat queries, ``update(preds, target, indexes=ids)``.

parity/test_torchmetrics_retrieval.py compares them with a peer.

A query's documents may stand anywhere in the batch; ids of queries need no order and
may have gaps. Of equal scores the document that stands first comes first, or with
``ids=`` the lower label. Without ``ids=`` there are no labels.
"""

import math
import warnings
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from cases import BUCKETS, CASES, Case, data, fed, floats, training_counts
from contract.forms import candidates
from exactness.bits import bits_of
from oracle import ROW_METRICS
from tailmetrics import MRR, CoverageError, RecallAtK, RowAUC, TopKCollection
from tailmetrics.ranking import _kernels_cpu
from tailmetrics.ranking._device import force_plain
from tailmetrics.ranking._kernels_cpu import CpuKernels

NEED_LABELS = ("FallOutAtK", "CrossEntropy", "RowAUC", "CoverageError", "RankingLoss")
OF_LISTS = [
    case for case in CASES
    if case.by is None and case.name in ROW_METRICS and case.name not in NEED_LABELS and "average" not in case.arguments
]  # fmt: skip
BATCH = data(seed=10, graded=True)
IS_LISTED = (
    torch.rand(BATCH.scores.shape, generator=torch.Generator().manual_seed(2)) < 0.7
)
IS_LISTED[:, 0] = True
PREDS, TARGET, IDS = (
    part.T[IS_LISTED.T]
    for part in (
        BATCH.scores,
        BATCH.target,
        torch.arange(len(IS_LISTED))[:, None].mul(3).expand_as(IS_LISTED),
    )
)
"""Listed cells of each row are the documents of a query; queries alternate, and their
ids have gaps.
"""


@pytest.mark.parametrize("case", OF_LISTS, ids=str)
def test_queries_have_the_bits_of_rows(case: Case) -> None:
    """Flat queries have the bits of the same rows, for any number of documents, in one
    batch or several, with any rule for queries without a relevant document.
    """
    expected = fed(
        case.metric(),
        BATCH.scores.masked_fill(~IS_LISTED, -math.inf),
        BATCH.target * IS_LISTED,
    )
    whole, parts = (case.metric(num_labels=None) for _ in range(2))
    whole.update(PREDS, TARGET, indexes=IDS)
    for part in range(4):
        in_part = part == IDS % 4
        parts.update(PREDS[in_part], TARGET[in_part], indexes=IDS[in_part])
    assert (
        bits_of(whole.compute())
        == bits_of(parts.compute())
        == bits_of(expected.compute())
    )


@pytest.mark.parametrize("caller", ["update", "forward", "collection"])
def test_repeated_query_in_a_later_batch_counts_again_with_one_warning(
    caller: str,
) -> None:
    """A query whose number comes again in a later batch counts as another row, with one
    warning.

    After a reset the number is new.
    """
    metric = TopKCollection([MRR()]) if caller == "collection" else MRR()
    add: Any = metric if caller == "forward" else metric.update
    for _ in range(2):
        for query in (7, 8):
            add(
                torch.tensor([0.9, 0.1]),
                torch.tensor([1, 0]),
                indexes=torch.tensor([query, query]),
            )
        with pytest.warns(
            UserWarning, match="the query 7 of indexes was in an earlier update"
        ):
            add(
                torch.tensor([0.9, 0.1]),
                torch.tensor([0, 1]),
                indexes=torch.tensor([7, 7]),
            )
        values = metric.compute()
        assert float(
            values["mrr"] if caller == "collection" else values
        ) == pytest.approx((1 + 1 + 1 / 2) / 3)
        metric.reset()


@pytest.mark.parametrize("caller", ["update", "forward"])
def test_reading_values_starts_new_queries(caller: str) -> None:
    """After the values are read, as Lightning does between loaders, query numbers may
    come again without a warning.
    """
    collection = TopKCollection([MRR()])
    add: Any = collection if caller == "forward" else collection.update
    batch = (torch.tensor([0.9, 0.1]), torch.tensor([1, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            add(*batch, indexes=torch.tensor([7, 7]))
            assert [
                float(scalar.compute())
                for _, scalar in collection.items(copy_state=False)
            ] == [1.0]
    add(*batch, indexes=torch.tensor([7, 7]))
    with pytest.warns(
        UserWarning, match="the query 7 of indexes was in an earlier update"
    ):
        add(*batch, indexes=torch.tensor([7, 7]))


@pytest.mark.parametrize("form", ["per query", "per document"])
@pytest.mark.parametrize("source", ["update", "from_flat"])
def test_rows_of_queries_are_masked_grouped_and_weighted(
    form: str, source: str
) -> None:
    """Masks, groups and weights of flat queries may be per query or per document, in
    update and from_flat.

    The value is the mean of the queries' areas by weight (GAUC); weights that differ
    within a query are refused.
    """
    preds, target = (
        torch.tensor([0.9, 0.1, 0.8, 0.2, 0.7, 0.3]),
        torch.tensor([1, 0, 0, 1, 1, 0]),
    )
    # areas 1, 0 and 1; in ascending order 0, 1 and 1
    queries = torch.tensor([5, 5, 2, 2, 9, 9])
    weights, mask, groups = (
        torch.tensor([3.0, 1.0, 2.0]),
        torch.tensor([True, True, False]),
        torch.tensor([0, 1, 0]),
    )
    rows = {"row_weights": weights, "row_mask": mask, "row_groups": groups}
    if form == "per document":
        rows = {
            name: value[torch.tensor([1, 1, 0, 0, 2, 2])]
            for name, value in rows.items()
        }
    metric = RowAUC(weighted=True, row_groups=["a", "b"])
    if source == "update":
        metric.update(preds, target, indexes=queries, **rows)
    else:
        metric.update(tailmetrics.Ranking.from_flat(preds, target, queries, **rows))
    assert floats(metric.compute()) == [1 / 4, 0.0, 1.0]
    with pytest.raises(
        ValueError, match="row_weights differs between documents of one query"
    ):
        metric.update(
            preds,
            target,
            indexes=queries,
            row_weights=torch.arange(6.0),
            row_groups=groups,
        )


def test_a_query_has_no_more_places_than_documents() -> None:
    """A query is ranked over its own documents: a short query has no further places,
    with which documents of -inf could tie. Queries have three, two and two documents.
    """
    preds = torch.tensor([0.9, 0.1, 0.2, 0.5, -math.inf, -math.inf, -math.inf])
    target, queries = (
        torch.tensor([1, 0, 0, 0, 1, 0, 1]),
        torch.tensor([0, 0, 0, 1, 1, 2, 2]),
    )
    areas, errors = RowAUC(), CoverageError()
    for metric in (areas, errors):
        metric.update(preds, target, indexes=queries)
    assert float(areas.compute()) == pytest.approx((1 + 0 + 1 / 2) / 3)
    assert float(errors.compute()) == pytest.approx((1 + 2 + 2) / 3)


def test_documents_to_ignore_are_left_out() -> None:
    """Documents with the ignore_index as target are left out, and a query without other
    documents does not count.
    """
    preds, target, ids = PREDS, TARGET.long(), IDS
    ignored = torch.arange(len(ids)) % 5 == 0
    ignored |= ids == ids[1]
    metric = MRR(ignore_index=-100)
    metric.update(preds, target.masked_fill(ignored, -100), indexes=ids)
    expected = MRR()
    expected.update(preds[~ignored], target[~ignored], indexes=ids[~ignored])
    assert bits_of(metric.compute()) == bits_of(expected.compute())


WRONG: dict[str, tuple[Any, Any, Any]] = {
    "lengths": (PREDS, TARGET[1:], IDS),
    "float ids": (PREDS, TARGET, IDS.float()),
    "two axes": (PREDS[None], TARGET, IDS),
    "nan": (PREDS.index_fill(0, torch.tensor([3]), math.nan), TARGET, IDS),
    "negative gain": (PREDS, TARGET.index_fill(0, torch.tensor([3]), -1), IDS),
    "missing": (PREDS, TARGET, None),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_queries_are_refused_and_count_nothing(fault: str) -> None:
    """Invalid flat queries raise a clear error and leave the metric unchanged.

    Buckets without the labels of documents are refused.
    """
    metric = MRR()
    metric.update(PREDS, TARGET, indexes=IDS)
    before = bits_of(metric.compute())
    preds, target, queries = WRONG[fault]
    with pytest.raises((TypeError, ValueError), match=r"MRR: "):
        metric.update(preds, target, indexes=queries)
    assert bits_of(metric.compute()) == before
    with pytest.raises(ValueError, match=r"RecallAtK: .*ids="):
        RecallAtK(k=3, buckets=BUCKETS).update(PREDS, TARGET, indexes=IDS)


@pytest.mark.parametrize("case", [Case(name, arguments, by) for by in ("bucket", "global") for name, arguments in
                                  (("RecallAtK", {"k": [1, 3]}), ("NDCGAtK", {"k": 3}), ("MRR", {}))]
                         + [Case("PopularityAtK", {"k": 1})], ids=str)  # fmt: skip
def test_documents_with_labels_are_candidates(case: Case) -> None:
    """Documents with labels, ``ids=`` of ``Ranking.from_flat``, have the bits of the
    same scored candidates.
    """
    batch = data(seed=10, graded=True)
    rows, labels = (~batch.scores.isinf()).nonzero().unbind(1)
    shuffled = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))
    rows, labels = rows[shuffled], labels[shuffled]
    gains = batch.target.masked_fill(batch.scores.isinf(), 0.0)
    ranking = tailmetrics.Ranking.from_flat(
        batch.scores[rows, labels], gains[rows, labels], rows, ids=labels
    )
    present = sorted(set(rows.tolist()))
    listed = tuple(part[present] for part in candidates(batch))
    assert len(training_counts()) == batch.scores.shape[1]
    assert bits_of(fed(case.metric(), ranking).compute()) == bits_of(
        fed(case.metric(), listed, gains[present]).compute()
    )


@pytest.mark.parametrize("name", ["row_mask", "row_groups", "row_weights"])
@pytest.mark.parametrize("as_update", [False, True])
def test_row_values_that_may_be_per_query_or_per_document_are_refused(
    name: str, as_update: bool
) -> None:
    """Row values are refused if there are as many queries as documents and the order
    decides: they may be per query, by ascending index, or per document. Sorted
    documents and equal values are accepted.
    """
    values: dict[str, Tensor] = {
        "row_mask": torch.tensor([True, True, False]),
        "row_groups": torch.tensor([0, 1, 1]),
        "row_weights": torch.tensor([1.0, 2.0, 3.0]),
    }
    preds, target, indexes = (
        torch.rand(3),
        torch.tensor([1, 0, 1]),
        torch.tensor([9, 5, 2]),
    )

    def rank_documents(order: Tensor, value: Tensor) -> Any:
        documents: Any = preds[order], target[order]
        if as_update:
            metric = tailmetrics.HitRateAtK(
                k=1,
                row_groups=["a", "b"] if name == "row_groups" else None,
                weighted=name == "row_weights",
            )
            metric.update(*documents, indexes=indexes[order], **{name: value})
            return metric
        return tailmetrics.Ranking.from_flat(
            *documents, indexes[order], **{name: value}
        )

    with pytest.raises(
        ValueError,
        match=rf"{name} holds 3 values, .* one per query, .* Sort the documents by indexes",
    ):
        rank_documents(torch.arange(3), values[name])
    rank_documents(torch.arange(3), values[name][:1].expand(3))
    rank_documents(indexes.argsort(), values[name])


def _values_by_hand(
    documents: list[tuple[float, int, float]], k: int
) -> tuple[float, float]:
    """Return recall and DCG of the first k documents, given as score, label and
    gain.
    """
    gains: dict[int, float] = {}
    for _, label, gain in documents:
        gains[label] = max(gain, gains.get(label, 0.0))
    listed: set[int] = set()
    hits, dcg = 0, 0.0
    best_first = sorted(documents, key=lambda document: (-document[0], document[1]))
    for rank, (_, label, _) in enumerate(best_first[:k], 1):
        if label not in listed and gains[label] > 0:
            hits += 1
            dcg += gains[label] / math.log2(rank + 1)
        listed.add(label)
    num_relevant = sum(gain > 0 for gain in gains.values())
    return (hits / num_relevant if num_relevant else 0.0), dcg


@pytest.mark.parametrize("kernels", ["usual", "plain", "without C"])
def test_a_label_of_several_documents_counts_once_with_its_highest_gain(
    kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With duplicates="first" the best document of a label counts once, with the
    highest gain of the label, and its other documents are misses. All forms of the
    computation agree with a plain loop.
    """
    if kernels == "without C":
        monkeypatch.setattr(_kernels_cpu, "CPU", CpuKernels())
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        num_documents = int(torch.randint(2, 40, (1,), generator=generator))
        scores = torch.rand(num_documents, generator=generator)
        labels = torch.randint(0, 6, (num_documents,), generator=generator)
        gains = torch.randint(0, 4, (num_documents,), generator=generator).double()
        query = torch.zeros(num_documents, dtype=torch.int64)
        with force_plain() if kernels == "plain" else nullcontext():
            ranking = tailmetrics.Ranking.from_flat(
                scores, gains, query, labels, num_labels=6, duplicates="first"
            )
            recall, dcg = (
                fed(RecallAtK(k=5), ranking).compute(),
                fed(tailmetrics.DCGAtK(k=5), ranking).compute(),
            )
        documents = list(
            zip(scores.tolist(), labels.tolist(), gains.tolist(), strict=True)
        )
        assert (float(recall), float(dcg)) == pytest.approx(
            _values_by_hand(documents, k=5), abs=1e-12
        )
