"""What is demanded of the metrics that fields ask for: thresholds, groups of rows, flat queries, language models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torchmetrics.retrieval import RetrievalNormalizedDCG

from benchmarks.demands.verdict import Verdict
from benchmarks.measure import Call, Settings, compare
from benchmarks.memory import MEASURABLE, Job, peaks
from benchmarks.ours import ten_metrics, token_metrics
from benchmarks.workloads import Dense, label_counts
from tailmetrics import F1AtThreshold, LabelBuckets, NDCGAtK

HERE = "benchmarks.demands.fields"


def fields(settings: Settings) -> Iterator[Verdict]:
    """Yield the verdicts on time, then those on memory."""
    yield from _thresholds(settings)
    yield _row_groups(settings)
    yield _flat_queries(settings)
    if MEASURABLE:
        rows, tokens = (16, 256) if settings.quick else (1024, 4096)
        yield _memory("F1 of a threshold", f"[{rows}, 131072]", (f"{HERE}:threshold_job", (rows,)), settings)
        case = f"logits [{tokens}, 50257], bfloat16"
        yield _memory("accuracy, MRR, perplexity", case, (f"{HERE}:tokens_job", (tokens,)), settings)


def _thresholds(settings: Settings) -> Iterator[Verdict]:
    data = Dense.of(16 if settings.quick else 1024, 131_072)
    kinds: dict[str, dict[str, Any]] = {"micro": {}, "macro": {"average": "macro", "num_labels": 131_072}}
    calls = {"amax": Call(lambda: data.scores.amax(1))}
    for name, arguments in kinds.items():
        metric = F1AtThreshold(_high(data.scores), **arguments)
        calls[name] = Call(lambda metric=metric: metric.update(data.scores, data.targets))
    times = compare(calls, "amax", settings)
    for name, demand in {"micro": 3.0, "macro": None}.items():
        yield Verdict(f"{name} F1 of a threshold", data.name, times[name].ratio, demand, "× amax")


def _high(scores: torch.Tensor) -> float:
    """Return a threshold that about one score in a thousand is above."""
    return float(scores[0].topk(scores.shape[1] // 1000).values[-1])


def _row_groups(settings: Settings) -> Verdict:
    data = Dense.of(32 if settings.quick else 1024, 20_000)
    none, eight = ten_metrics(data.buckets), ten_metrics(data.buckets, row_groups=[f"group_{one}" for one in range(8)])
    groups = torch.arange(len(data.scores)) % 8
    calls = {
        "none": Call(lambda: none.update(data.scores, data.targets)),
        "eight": Call(lambda: eight.update(data.scores, data.targets, row_groups=groups)),
    }
    ratio = compare(calls, "none", settings)["eight"].ratio
    return Verdict("eight groups of rows, 10 metrics × 3 ks × 11 buckets", data.name, ratio, 1.3, "× no groups")


def _flat_queries(settings: Settings) -> Verdict:
    size = 2000 if settings.quick else 200_000
    generator = torch.Generator().manual_seed(0)
    indexes = torch.randint(0, size // 50, (size,), generator=generator)
    scores, target = torch.rand(size, generator=generator), torch.rand(size, generator=generator) < 0.1

    def update_and_compute(metric: Any) -> None:
        metric.update(scores, target, indexes=indexes)
        metric.compute()

    calls = {
        "torchmetrics": Call(lambda: update_and_compute(RetrievalNormalizedDCG(top_k=10))),
        "ours": Call(lambda: update_and_compute(NDCGAtK(k=10))),
    }
    ratio = compare(calls, "torchmetrics", settings)["ours"].ratio
    return Verdict("flat queries: nDCG@10", f"{size:,} of {size // 50:,} queries", ratio, 0.1, "× torchmetrics")


def _memory(step: str, case: str, task: Any, settings: Settings) -> Verdict:
    seen = peaks([task] * settings.processes)
    return Verdict(step, case, max(seen), 64.0, "MiB", f"largest of {len(seen)} processes; least {min(seen):.1f}")


def threshold_job(num_rows: int) -> tuple[Job, Job]:
    """Return a small update of micro F1 over a threshold, and the one that counts."""

    def job(rows: int) -> Job:
        data, metric = Dense.of(rows, 131_072), F1AtThreshold(3.0)
        return lambda: metric.update(data.scores, data.targets)

    return job(2), job(num_rows)


def tokens_job(num_tokens: int) -> tuple[Job, Job]:
    """Return updates with a few logits, and with those that count."""
    metrics = token_metrics(LabelBuckets.deciles(label_counts(50_257)))

    def job(rows: int) -> Job:
        data = Dense.of(rows, 50_257)
        logits = data.scores.to(torch.bfloat16).unsqueeze(0)
        return lambda: metrics.update(logits, data.target.unsqueeze(0))

    return job(2), job(num_tokens)
