"""Dense scores: torcheval, TorchMetrics and scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from benchmarks.measure import Settings
from benchmarks.ours import one_batch
from benchmarks.peers.contest import Contest, Peer
from benchmarks.workloads import TINY, Dense
from tailmetrics import MRR, HitRateAtK, NDCGAtK, PrecisionAtK

K = 10


def contests(settings: Settings) -> Iterator[Contest]:
    """Yield the tasks on dense scores, one workload in memory at a time."""
    for shape in Dense.all(settings):
        data = Dense.of(*shape, settings.device)
        yield _hit_rate(data)
        yield _reciprocal_rank(data)
        yield _graded(data)
    data = Dense.of(*TINY, settings.device)
    yield _hit_rate(data)
    yield _graded(data)
    yield _updates_of_small_batches(data)


def _references(scores: Tensor) -> dict[str, Any]:
    return {
        f"torch.topk, k = {K}": lambda: torch.topk(scores, K),
        "amax": lambda: scores.amax(1),
    }


def _some(data: Dense, elements: int) -> int:
    """Return how many rows make up so many scores, for peers that are slow."""
    num_rows, num_labels = data.scores.shape
    return min(num_rows, max(2, elements // num_labels))


def _hit_rate(data: Dense) -> Contest:
    from torcheval.metrics.functional import hit_rate, multiclass_accuracy
    from torchmetrics.functional.classification import multiclass_accuracy as accuracy

    num_labels = data.scores.shape[1]
    key = f"hit_rate@{K}"
    many, num_rows = _some(data, 2**26), _some(data, 2**21)
    scores, target = data.scores[:many], data.target[:many]
    part, few = scores[:num_rows], target[:num_rows]
    peers = [
        Peer(
            "torcheval hit_rate",
            lambda: {key: float(hit_rate(scores, target, k=K).mean())},
            many,
        ),
        Peer(
            "torcheval multiclass_accuracy",
            lambda: {key: float(multiclass_accuracy(scores, target, k=K))},
            many,
        ),
        Peer(
            "TorchMetrics multiclass_accuracy",
            lambda: {
                key: float(accuracy(part, few, num_labels, average="micro", top_k=K))
            },
            num_rows,
        ),
    ]
    if data.scores.device.type == "cpu":
        peers.append(_top_k_accuracy(data, _some(data, 2**19), key))
    ours = one_batch([HitRateAtK(K)], data.scores, data.target)
    return Contest(
        data.name,
        f"hit rate at {K}, one target",
        num_rows,
        ours,
        peers,
        _references(data.scores),
    )


def _top_k_accuracy(data: Dense, rows: int, key: str) -> Peer:
    from sklearn.metrics import top_k_accuracy_score

    scores, target = data.scores[:rows].numpy(), data.target[:rows].numpy()
    labels = np.arange(scores.shape[1])
    name = "scikit-learn top_k_accuracy_score"
    return Peer(
        name,
        lambda: {key: float(top_k_accuracy_score(target, scores, k=K, labels=labels))},
        rows,
    )


def _reciprocal_rank(data: Dense) -> Contest:
    from torcheval.metrics.functional import reciprocal_rank

    many = _some(data, 2**26)
    scores, target = data.scores[:many], data.target[:many]
    peer = Peer(
        "torcheval reciprocal_rank",
        lambda: {"mrr": float(reciprocal_rank(scores, target).mean())},
        many,
    )
    ours = one_batch([MRR()], data.scores, data.target)
    references = dict(reversed(_references(data.scores).items()))
    return Contest(
        data.name, "MRR of exact ranks", len(data.scores), ours, [peer], references
    )


def _graded(data: Dense) -> Contest:
    num_rows = len(data.scores)
    peers = [_retrieval(data, _some(data, 2**18)), _retrieval_precision(data)]
    if data.scores.device.type == "cpu":
        peers.append(_ndcg_score(data, _some(data, 2**19)))
    ours = one_batch(
        [PrecisionAtK(K, denominator="k"), NDCGAtK(K)], data.scores, data.mask
    )
    task = f"precision and nDCG at {K}, bool targets"
    return Contest(data.name, task, num_rows, ours, peers, _references(data.scores))


def _retrieval(data: Dense, rows: int) -> Peer:
    from torchmetrics import MetricCollection
    from torchmetrics.retrieval import RetrievalNormalizedDCG, RetrievalPrecision

    collection = MetricCollection(
        [RetrievalPrecision(top_k=K), RetrievalNormalizedDCG(top_k=K)]
    )
    collection = collection.to(data.scores.device)
    preds, target = data.scores[:rows].sigmoid().flatten(), data.mask[:rows].flatten()
    indexes = torch.arange(rows, device=preds.device).repeat_interleave(
        data.scores.shape[1]
    )

    def run() -> dict[str, float]:
        collection.reset()
        collection.update(preds, target, indexes=indexes)
        values = collection.compute()
        precision, ndcg = values["RetrievalPrecision"], values["RetrievalNormalizedDCG"]
        return {f"precision_k@{K}": float(precision), f"ndcg@{K}": float(ndcg)}

    return Peer(
        "TorchMetrics RetrievalPrecision, RetrievalNormalizedDCG",
        run,
        rows,
        "flattened beforehand",
    )


def _retrieval_precision(data: Dense) -> Peer:
    from torcheval.metrics.functional import retrieval_precision

    rows = _some(data, 2**25)
    scores, mask = data.scores[:rows], data.mask[:rows].long()

    def run() -> dict[str, float]:
        return {
            f"precision_k@{K}": float(
                retrieval_precision(scores, mask, k=K, num_tasks=rows).mean()
            )
        }

    return Peer("torcheval retrieval_precision", run, rows, "precision only")


def _ndcg_score(data: Dense, rows: int) -> Peer:
    from sklearn.metrics import ndcg_score

    scores, target = (
        data.scores[:rows].numpy(),
        data.mask[:rows].numpy().astype(np.int64),
    )

    def run() -> dict[str, float]:
        return {f"ndcg@{K}": float(ndcg_score(target, scores, k=K, ignore_ties=True))}

    return Peer("scikit-learn ndcg_score", run, rows, "nDCG only, ignore_ties=True")


def _updates_of_small_batches(data: Dense) -> Contest:
    from torcheval.metrics import HitRate, MulticlassAccuracy
    from torchmetrics.classification import MulticlassAccuracy as Accuracy

    num_rows, num_labels = data.scores.shape
    ours = HitRateAtK(K)
    listed = HitRate(k=K)
    counted = MulticlassAccuracy(k=K, device=data.scores.device)
    accuracy = Accuracy(num_labels, average="micro", top_k=K).to(data.scores.device)

    def update(metric: Any) -> Any:
        def run(rows: int = num_rows) -> dict[str, float]:
            metric.update(data.scores[:rows], data.target[:rows])
            return {}

        return run

    idle = Idle().to(data.scores.device)

    def update_listed() -> dict[str, float]:
        # it keeps every row; thousands of rounds would measure a growing list
        listed.reset()
        return update(listed)()

    peers = [
        Peer("torcheval HitRate.update", update_listed),
        Peer("torcheval MulticlassAccuracy.update", update(counted)),
        Peer("TorchMetrics MulticlassAccuracy.update", update(accuracy)),
    ]
    task = f"hit rate at {K}: update alone"
    references = _references(data.scores)
    references["nothing, as a TorchMetrics update"] = lambda: idle.update(
        data.scores, data.target
    )
    return Contest(data.name, task, num_rows, update(ours), peers, references)


class Idle(Metric):
    """What any metric of TorchMetrics pays before it does anything."""

    full_state_update = False

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Do nothing."""

    def compute(self) -> Tensor:
        """Return 0."""
        return torch.zeros(())
