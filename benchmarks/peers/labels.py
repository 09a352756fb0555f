"""Ranked ids over many labels with CSR targets: napkinXC, and kernels in numpy."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Settings
from benchmarks.ours import Values, evaluate, xmc_metrics
from benchmarks.peers.contest import Contest, Peer
from benchmarks.peers.ranked_ids import KERNELS, KS, Judged
from benchmarks.workloads import Lists


def contests(settings: Settings) -> Iterator[Contest]:
    """Yield the task on ranked ids, only on the CPU, whose memory the peers read."""
    if settings.device != "cpu":
        return
    data = Lists.xmc(settings)
    judged = Judged.of(data)
    metrics = xmc_metrics(data.num_labels)

    def ours(rows: int) -> Values:
        return evaluate(
            metrics, data.ids[:rows], data.csr if rows == len(data) else data.csr[:rows]
        )

    num_rows = min(len(data), 1000)
    kernels = [
        Peer(name, lambda kernel=kernel: kernel(judged))
        for name, kernel in KERNELS.items()
    ]
    workload = f"{len(data)} × 100 ids, {data.num_labels:,} labels"
    task = "precision, nDCG, PSP at 1, 3, 5"
    peers = [*kernels, _napkinxc(judged, num_rows)]
    yield Contest(workload, task, len(data), ours, peers)


def _napkinxc(judged: Judged, rows: int) -> Peer:
    from napkinxc import metrics

    ranked = judged.ids[:rows].tolist()
    target = judged.target[:rows]

    def run() -> Values:
        values = {
            "precision_k": metrics.precision_at_k(target, ranked, k=KS[-1]),
            "ndcg": metrics.ndcg_at_k(target, ranked, k=KS[-1]),
            "psp": metrics.psprecision_at_k(target, ranked, judged.weights, k=KS[-1]),
        }
        return {
            f"{name}@{k}": float(value[k - 1])
            for name, value in values.items()
            for k in KS
        }

    return Peer("napkinXC", run, rows, "lists made beforehand")
