"""Metrics equal pytrec_eval, row by row, to 1e-9; each deviation of trec_eval has a
test.
"""

from functools import cache
from typing import Any

import pytest
import pytrec_eval
import torch

from cases import Data
from parity.compare import BINARY, GRADED, KS, assert_rows
from tailmetrics import (
    MAP,
    MRR,
    F1AtK,
    HitRateAtK,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
    RPrecision,
)
from tailmetrics.metrics import TopKMetric

BATCHES = {"binary": BINARY, "graded": GRADED}


def doc(label: int) -> str:
    """Return a document id whose order as a string is that of the label."""
    return f"{label:04d}"


def trec_eval(
    qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]], *measures: str
) -> dict[str, Any]:
    """Return the values of trec_eval for each query."""
    return pytrec_eval.RelevanceEvaluator(qrels, set(measures)).evaluate(run)


@cache
def trec_eval_values(
    name: str, cut: int | None = None, level: int = 1
) -> dict[str, list[float]]:
    """Return every measure of every row; a row without a relevant label has one judged,
    irrelevant document.
    """
    batch: Data = BATCHES[name]
    qrels = {
        str(number): {doc(label): int(gain) for label, gain in row.relevant.items()}
        or {doc(0): 0}
        for number, row in enumerate(batch.rows)
    }
    run = {
        str(number): {
            doc(label): (row.scores or [])[label] for label in row.ranked[:cut]
        }
        for number, row in enumerate(batch.rows)
    }
    cutoffs = ",".join(map(str, KS))
    at_k = [
        f"{measure}.{cutoffs}"
        for measure in ("P", "recall", "success", "map_cut", "ndcg_cut")
    ]
    whole = ("map", "recip_rank", "Rprec", "ndcg", "set_P", "set_recall", "set_F")
    values = pytrec_eval.RelevanceEvaluator(
        qrels, {*at_k, *whole}, relevance_level=level
    ).evaluate(run)
    return {
        measure: [values[query][measure] for query in qrels] for measure in values["0"]
    }


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize(
    ("measure", "metric", "arguments"),
    [
        ("P", PrecisionAtK, {"denominator": "k"}),
        ("recall", RecallAtK, {}),
        ("success", HitRateAtK, {}),
        ("map_cut", MAP, {}),
        ("ndcg_cut", NDCGAtK, {}),
    ],
)
def test_metrics_at_k_equal_trec_eval(
    measure: str, metric: type[TopKMetric], arguments: dict[str, Any], k: int, name: str
) -> None:
    """P with denominator="k", recall, success, map_cut and ndcg_cut equal the metrics
    at k.
    """
    assert_rows(
        metric(k, **arguments), BATCHES[name], trec_eval_values(name)[f"{measure}_{k}"]
    )


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize(
    ("measure", "metric"),
    [
        ("map", MAP()),
        ("recip_rank", MRR()),
        ("Rprec", RPrecision()),
        ("ndcg", NDCGAtK(k=None)),
    ],
)
def test_metrics_of_whole_lists_equal_trec_eval(
    measure: str, metric: TopKMetric, name: str
) -> None:
    """map, recip_rank, Rprec and ndcg equal the metrics with k=None, which use the
    whole list.
    """
    assert_rows(metric.clone(), BATCHES[name], trec_eval_values(name)[measure])


@pytest.mark.parametrize("level", [2, 3])
@pytest.mark.parametrize(
    ("measure", "metric"),
    [
        ("P_3", PrecisionAtK(3, denominator="k", min_gain=1)),
        ("recall_3", RecallAtK(3)),
        ("success_3", HitRateAtK(3)),
        ("map_cut_3", MAP(3)),
        ("map", MAP()),
        ("recip_rank", MRR()),
        ("Rprec", RPrecision()),
        ("ndcg_cut_3", NDCGAtK(3)),
    ],
)
def test_min_gain_equals_relevance_level_of_trec_eval(
    measure: str, metric: TopKMetric, level: int
) -> None:
    """min_gain=2 equals ``-l 2`` of trec_eval. nDCG keeps its gains at every level,
    also for rows without a label of the level.
    """
    arguments = {
        name: value
        for name, value in metric.settings().items()
        if name in ("k", "denominator")
    }
    assert_rows(
        type(metric)(min_gain=level, **arguments),
        GRADED,
        trec_eval_values("graded", level=level)[measure],
    )


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize(
    ("measure", "metric"),
    [("set_P", PrecisionAtK), ("set_recall", RecallAtK), ("set_F", F1AtK)],
)
def test_metrics_equal_set_measures_of_trec_eval(
    measure: str, metric: type[TopKMetric], k: int
) -> None:
    """set_P, set_recall and set_F of a run cut at k equal the metrics at k; precision
    divides by the length of the list, the default.
    """
    assert_rows(metric(k), BINARY, trec_eval_values("binary", cut=k)[measure])


def test_deviation_ties_go_to_the_higher_document_id() -> None:
    """trec_eval ranks the last id first among documents of one score; numbering them
    backwards gives its value.
    """
    run = {"q": {doc(0): 1.0, doc(1): 1.0, doc(2): 1.0, doc(3): 1.0}}
    assert trec_eval({"q": {doc(0): 1}}, run, "recip_rank")["q"]["recip_rank"] == 1 / 4
    scores = torch.ones(1, 4)
    forwards, backwards = MRR(), MRR()
    forwards.update(scores, torch.tensor([0]))
    backwards.update(scores, torch.tensor([4 - 1 - 0]))
    assert (float(forwards.compute()), float(backwards.compute())) == (1, 1 / 4)


def test_deviation_queries_without_judgement_or_run_are_left_out() -> None:
    """trec_eval counts a query as 0 if all its judged documents are irrelevant, and
    leaves it out if it has no judgement or no run. The library counts every row of
    arrays without a mask.
    """
    qrels: dict[str, dict[str, int]] = {
        "hit": {doc(0): 1},
        "irrelevant": {doc(0): 0},
        "unjudged": {},
        "absent": {doc(0): 1},
    }
    run = {query: {doc(0): 1.0} for query in ("hit", "irrelevant", "unjudged")}
    values = trec_eval(qrels, run, "recip_rank")
    assert {query: value["recip_rank"] for query, value in values.items()} == {
        "hit": 1,
        "irrelevant": 0,
    }
    metric = MRR()
    metric.update(
        torch.tensor([[0], [0], [0]]),
        torch.tensor([0, -1, -1]),
        row_mask=torch.tensor([True, True, False]),
    )
    assert float(metric.compute()) == 1 / 2
