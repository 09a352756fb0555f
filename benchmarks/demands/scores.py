"""What is demanded of dense scores: selection, ties, exact ranks, counts, buckets, many metrics."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.demands.verdict import Verdict
from benchmarks.measure import Call, Settings, compare
from benchmarks.ours import ten_metrics
from benchmarks.workloads import TINY, Dense
from tailmetrics import RecallAtK, rank
from tailmetrics.ranking._kernels_cpu import CPU

TOP_K = {
    10_000: {1: 0.45, 10: 1.0, 100: 1.1, 500: 1.1},
    131_072: {10: 0.45, 100: 0.70, 500: 0.90},
    670_000: {10: 0.30, 100: 0.45, 500: 0.70},
}
"""Share of ``torch.topk``'s time, by number of labels and k."""

OF_TOPK = "× topk"
OF_AMAX = "× amax"


def dense(settings: Settings) -> Iterator[Verdict]:
    """Yield the verdicts on all dense workloads, one workload in memory at a time."""
    for shape in Dense.all(settings):
        data = Dense.of(*shape)
        yield from _selection(data, settings)
        yield from _ties(data, settings)
        yield from _readings(data, settings)
        yield from _buckets(data, settings)


def _selection(data: Dense, settings: Settings) -> Iterator[Verdict]:
    for k, demand in TOP_K[data.scores.shape[1]].items():
        calls = {
            "topk": Call(lambda k=k: torch.topk(data.scores, k)),
            "ours": Call(lambda k=k: rank(data.scores, data.targets, depth=k)),
        }
        times = compare(calls, "topk", settings)
        yield Verdict(
            "rank: top k, ties to the lower id", f"{data.name}, k = {k}", times["ours"].ratio, demand, OF_TOPK
        )


def _ties(data: Dense, settings: Settings) -> Iterator[Verdict]:
    calls = {
        "amax": Call(lambda: data.scores.amax(1)),
        "ours": Call(lambda: CPU.top_k(data.scores, 10)),
    }
    ratio = compare(calls, "amax", settings)["ours"].ratio
    yield Verdict("lowest-id ties, few", f"{data.name}, k = 10", ratio, 1.6, OF_AMAX)
    if data.scores.shape[1] > 131_072:
        return
    for name, tied in (("rounded to halves", (data.scores * 2).round()), ("constant", torch.zeros(data.scores.shape))):
        calls = {"topk": Call(lambda: torch.topk(tied, 10)), "ours": Call(lambda: CPU.top_k(tied, 10))}  # noqa: B023
        ratio = compare(calls, "topk", settings)["ours"].ratio
        yield Verdict("lowest-id ties, all rows", f"{data.name}, {name}, k = 10", ratio, 3.5, OF_TOPK)


def _readings(data: Dense, settings: Settings) -> Iterator[Verdict]:
    entries = rank(data.scores, data.target, depth=10).targets.entries
    calls = {
        "amax": Call(lambda: data.scores.amax(1)),
        "exact": Call(lambda: CPU.exact_ranks(data.scores, entries)),
        "count": Call(lambda: CPU.count_true(data.mask)),
    }
    times = compare(calls, "amax", settings)
    yield Verdict("rank of one target, ties looked for", data.name, times["exact"].ratio, 4.0, OF_AMAX)
    yield Verdict("n_relevant of a bool target", data.name, times["count"].ratio, 1.2, OF_AMAX)


def _buckets(data: Dense, settings: Settings) -> Iterator[Verdict]:
    ranking = rank(data.scores, data.targets, depth=500)
    ranking.by_bucket(data.buckets)
    collection = ten_metrics(data.buckets)

    def by_bucket() -> None:
        vars(ranking).pop("_memo", None)
        ranking.by_bucket(data.buckets)

    calls = {
        "topk": Call(lambda: torch.topk(data.scores, 500)),
        "by bucket": Call(by_bucket),
        "metrics": Call(lambda: collection.update(data.scores, data.targets)),
    }
    times = compare(calls, "topk", settings)
    step = "rank within the bucket, K = 500, 11 buckets"
    nanoseconds = times["by bucket"].chosen * 1e9 / ranking.ids.numel()
    yield Verdict(step, data.name, nanoseconds, 35.0, "ns per prediction")
    share = {10_000: 0.20, 131_072: 0.06}.get(data.scores.shape[1])
    yield Verdict(step, data.name, times["by bucket"].ratio, share, OF_TOPK)
    yield Verdict("10 metrics × 3 ks × 11 buckets", data.name, times["metrics"].ratio, 2.0, OF_TOPK)


def tiny(settings: Settings) -> Iterator[Verdict]:
    """Yield the verdicts on batches so small that calls are what costs."""
    data = Dense.of(*TINY)
    plain, bucketed = RecallAtK(k=10), RecallAtK(k=10, buckets=data.buckets)
    pairs = {"plain": (plain, 10, 2.0), "buckets": (bucketed, 500, 8.0)}
    for name, (metric, depth, demand) in pairs.items():
        calls = {
            "topk": Call(lambda depth=depth: torch.topk(data.scores, depth)),
            "update": Call(lambda metric=metric: metric.update(data.scores, data.target)),
        }
        times = compare(calls, "topk", settings)
        note = f"{times['update'].chosen * 1e6:.0f} µs; topk, k = {depth}: {times['topk'].chosen * 1e6:.0f} µs"
        yield Verdict(f"update of one metric, {name}", data.name, times["update"].ratio, demand, OF_TOPK, note)
