"""Queries with a hundred ranked documents: ranx and pytrec_eval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.measure import Settings
from benchmarks.ours import Values, evaluate, query_metrics
from benchmarks.peers.contest import Contest, Peer
from benchmarks.workloads import Lists

Judgements = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]

RANX = {
    "precision@10": "precision_k@10",
    "recall@10": "recall@10",
    "ndcg@10": "ndcg@10",
    "map@10": "map@10",
}
RANX |= {"mrr": "mrr"}
TREC = {
    "P_10": "precision_k@10",
    "recall_10": "recall@10",
    "ndcg_cut_10": "ndcg@10",
    "map_cut_10": "map@10",
}
TREC |= {"recip_rank": "mrr"}


def contests(settings: Settings) -> Iterator[Contest]:
    """Yield the task on queries, only on the CPU, whose memory the peers read."""
    if settings.device != "cpu":
        return
    data = Lists.queries(settings)
    collection = query_metrics()

    def ours(rows: int) -> Values:
        return evaluate(collection, data.ids[:rows], data.relevant[:rows])

    qrels, run = _dicts(data)
    num_queries = min(len(data), 500)
    peers = [*_ranx(data, qrels, run, num_queries), *_trec_eval(qrels, run)]
    task = "precision, recall, nDCG, MAP at 10 and MRR"
    yield Contest(f"{len(data)} queries × 100", task, len(data), ours, peers)


def _dicts(data: Lists) -> tuple[Judgements, Run]:
    """Return judgements and run as dicts by query and document, as read from files."""
    relevant, ids, scores = (
        data.relevant.tolist(),
        data.ids.tolist(),
        data.scores.tolist(),
    )
    qrels = {
        f"q{row}": {f"d{label}": 1 for label in labels if label >= 0}
        for row, labels in enumerate(relevant)
    }
    pairs = enumerate(zip(ids, scores, strict=True))
    run = {
        f"q{row}": {f"d{i}": s for i, s in zip(*lists, strict=True)}
        for row, lists in pairs
    }
    return qrels, run


def _ranx(data: Lists, qrels: Judgements, run: Run, num_queries: int) -> list[Peer]:
    from numba.typed import List
    from ranx import Qrels, Run as RanxRun, evaluate

    judged = [
        [(label, 1) for label in labels if label >= 0]
        for labels in data.relevant.tolist()
    ]
    arrays = List([np.array(row, dtype=np.float64) for row in judged])
    lists = np.stack([data.ids.numpy().astype(np.float64), data.scores], axis=2)

    def by_arrays() -> Values:
        return _renamed(evaluate(arrays, lists, list(RANX)), RANX)

    few = list(qrels)[:num_queries]

    def by_dicts() -> Values:
        qrels_and_run = (
            Qrels({query: qrels[query] for query in few}),
            RanxRun({query: run[query] for query in few}),
        )
        return _renamed(
            evaluate(*qrels_and_run, list(RANX), save_results_in_run=False), RANX
        )

    return [
        Peer(
            "ranx, arrays",
            by_arrays,
            note="arrays made beforehand, compiled beforehand",
        ),
        Peer(
            "ranx, Qrels and Run from dicts",
            by_dicts,
            num_queries,
            "compiled beforehand",
        ),
    ]


def _trec_eval(qrels: Judgements, run: Run) -> list[Peer]:
    from pytrec_eval import RelevanceEvaluator

    measures = {"P.10", "recall.10", "ndcg_cut.10", "map_cut.10", "recip_rank"}
    evaluator = RelevanceEvaluator(qrels, measures)

    def means(values: dict[str, dict[str, float]]) -> Values:
        return {
            key: float(np.mean([query[name] for query in values.values()]))
            for name, key in TREC.items()
        }

    def from_lists() -> Values:
        run_of_dicts = {query: dict(listed.items()) for query, listed in run.items()}
        judged = {query: dict(listed.items()) for query, listed in qrels.items()}
        return means(RelevanceEvaluator(judged, measures).evaluate(run_of_dicts))

    return [
        Peer(
            "pytrec_eval, evaluator made",
            lambda: means(evaluator.evaluate(run)),
            note="dicts made beforehand",
        ),
        Peer("pytrec_eval, dicts built", from_lists),
    ]


def _renamed(values: dict[str, Any], names: dict[str, str]) -> Values:
    return {names[name]: float(value) for name, value in values.items()}
