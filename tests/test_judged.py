"""``JudgedAtK`` is the share of the top k with a judgement, relevant or not."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import tailmetrics as tm
from tailmetrics.ranking._device import force_plain

DRAW = np.random.default_rng(0)
NUM_ROWS, NUM_LABELS = 40, 12
SCORES = DRAW.normal(size=(NUM_ROWS, NUM_LABELS))
JUDGED = DRAW.random((NUM_ROWS, NUM_LABELS)) < 0.4
GAINS = JUDGED * DRAW.integers(0, 3, (NUM_ROWS, NUM_LABELS)).astype(float)
RETRIEVED = DRAW.random((NUM_ROWS, NUM_LABELS)) < 0.7
RETRIEVED[7] = False
LISTS = [
    [int(label) for label in np.argsort(-row, kind="stable") if is_retrieved[label]]
    for row, is_retrieved in zip(SCORES, RETRIEVED, strict=True)
]
ASSIGNMENT = [0] * 5 + [1] * 7
BUCKETS = tm.LabelBuckets.from_assignment(ASSIGNMENT, ["head", "tail"])
KS = [1, 3, 10]


def _csr() -> Any:
    """Return the judgments with their zeros stored."""
    rows, columns = JUDGED.nonzero()
    return sparse.csr_matrix((GAINS[rows, columns], (rows, columns)), shape=GAINS.shape)


def _padded() -> dict[str, torch.Tensor]:
    """Return the judgments as ids with gains, padded with -1."""
    ids = np.full((NUM_ROWS, NUM_LABELS), -1)
    gains = np.zeros((NUM_ROWS, NUM_LABELS))
    for row in range(NUM_ROWS):
        labels = JUDGED[row].nonzero()[0]
        ids[row, : len(labels)] = labels
        gains[row, : len(labels)] = GAINS[row, labels]
    return {"target_ids": torch.tensor(ids), "target_gains": torch.tensor(gains)}


def _shares(k: int, labels: Any = None, scope: str = "global") -> list[float]:
    """Return the share of each list by a loop; within a bucket rows without a list are
    left out.
    """
    shares = []
    for row, ranked in enumerate(LISTS):
        listed = [
            label
            for label in ranked
            if labels is None or scope == "global" or label in labels
        ][:k]
        judged = [
            label
            for label in listed
            if JUDGED[row, label] and (labels is None or label in labels)
        ]
        if listed or labels is None:
            shares.append(len(judged) / len(listed) if listed else 0.0)
    return shares


def _preds() -> torch.Tensor:
    return torch.tensor(np.where(RETRIEVED, SCORES, -np.inf))


@pytest.mark.parametrize("form", ["csr", "ids", "flat"])
@pytest.mark.parametrize("plain", [False, True])
def test_judged_labels_are_those_with_an_entry(form: str, plain: bool) -> None:
    """A label is judged if the target has an entry for it: a stored zero of CSR, an id
    with a gain of 0, or any document of a flat query.
    """
    metric = tm.JudgedAtK(KS)
    expected = [np.mean(_shares(k)) for k in KS]
    if plain:
        with force_plain():
            metric.update(_preds(), _csr())
    elif form == "csr":
        metric.update(_preds(), _csr())
    elif form == "ids":
        metric.update(tm.Ranking.from_scores(_preds(), **_padded()))
    else:
        rows, columns = JUDGED.nonzero()
        metric.update(SCORES[rows, columns], GAINS[rows, columns], indexes=rows)
        expected = [1.0, 1.0, 1.0]
    assert metric.compute().tolist() == pytest.approx(expected)


@pytest.mark.parametrize("scope", ["bucket", "global"])
def test_judged_share_by_bucket(scope: Any) -> None:
    """By bucket, JudgedAtK is the share of listed labels that are judged and in the
    bucket: of the bucket's own list, or with scope="global" of the whole list.
    """
    metric = tm.JudgedAtK(3, buckets=BUCKETS, scope=scope)
    metric.update(_preds(), _csr())
    expected = [
        np.mean(_shares(3, range(5), scope)),
        np.mean(_shares(3, range(5, 12), scope)),
    ]
    assert metric.compute().tolist() == pytest.approx(expected)


def test_judged_share_of_run_and_qrels() -> None:
    """evaluate of a run and qrels has JudgedAtK as in ir_measures: a list shorter than
    k divides by its length.
    """
    run = {
        f"q{row}": {f"d{label}": SCORES[row, label] for label in ranked}
        for row, ranked in enumerate(LISTS)
        if ranked
    }
    qrels = {
        f"q{row}": {
            f"d{label}": int(GAINS[row, label]) for label in JUDGED[row].nonzero()[0]
        }
        for row in range(NUM_ROWS)
    }
    report = tm.evaluate(
        run, qrels, metrics=[tm.JudgedAtK(KS), tm.RecallAtK(3)], intervals=False
    )
    for k in KS:
        shares = []
        for query, scores in run.items():
            top = sorted(scores, key=lambda document: -scores[document])[:k]
            shares.append(sum(document in qrels[query] for document in top) / len(top))
        assert report.scalars[f"judged@{k}"] == pytest.approx(
            np.sum(shares) / report.rows
        )


def test_relevance_does_not_depend_on_judgments_of_other_metrics() -> None:
    """Beside JudgedAtK other metrics have the values that they have alone, also with
    min_gain.
    """
    metrics = [tm.RecallAtK(3), tm.RecallAtK(3, min_gain=2), tm.NDCGAtK(3)]
    alone = []
    for metric in metrics:
        copy = metric.clone()
        copy.update(_preds(), _csr())
        alone.append(float(copy.compute()))
    collection = tm.TopKCollection([tm.JudgedAtK(3), *metrics])
    collection.update(_preds(), _csr())
    assert [float(value) for value in collection.compute().values()][1:] == alone


def test_judged_share_of_a_matrix_counts_relevant_labels_with_a_warning() -> None:
    """A dense target does not say which labels were judged: JudgedAtK counts its
    relevant labels, with a warning in the first batch. The function of CSR gives the
    shares of the loop.
    """
    metric = tm.JudgedAtK(3)
    with pytest.warns(
        UserWarning,
        match="target is a matrix, which does not tell labels that were judged",
    ):
        metric.update(_preds(), torch.tensor(GAINS))
    precision = tm.functional.precision_at_k(_preds(), torch.tensor(GAINS), k=3)
    assert float(metric.compute()) == pytest.approx(float(precision.mean()))
    torch.testing.assert_close(
        tm.functional.judged_at_k(_preds(), _csr(), k=3),
        torch.tensor(_shares(3), dtype=torch.float64),
    )
