"""What each of two processes does in test_chunks_and_shards.py; imported by the processes themselves."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

import tailmetrics
from wishes.rows import COUNTS, DECILES, NUM_LABELS, fed, graded

WORLD = 2
DEPTH = 7
SHARES = {"even": (9, 9), "uneven": (3, 15), "fewer than depth": (17, 1)}
METRICS: dict[str, dict[str, Any]] = {
    "RecallAtK": {"k": [1, 5]},
    "NDCGAtK": {"k": 5},
    "MAP": {"k": 5},
    "MRR": {},
    "PropensityScoredPrecisionAtK": {"k": 3, "label_counts": COUNTS, "num_train": int(COUNTS.sum())},
    "PopularityAtK": {"k": 3, "label_counts": COUNTS},
}
WAYS: dict[str, dict[str, Any]] = {"overall": {}, "deciles": {"buckets": DECILES, "depth": DEPTH}}


def batch(kind: str) -> tuple[Tensor, Tensor]:
    """Scores of all labels with gains: without ties, with ties across every edge, with labels that are not retrieved."""
    scores, gains = graded(seed=1, num_rows=30)
    if kind == "ties":
        scores = scores.round()
    if kind == "missing":
        hidden = torch.rand(scores.shape, generator=torch.Generator().manual_seed(2)) < 0.5
        hidden[3] = True
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.float(), gains


KINDS = ("plain", "ties", "missing")


def metric(name: str, way: str) -> Any:
    """A metric that is not synchronised: every process ranks all rows."""
    given = {**METRICS[name], **WAYS[way]}
    if name == "PopularityAtK":
        given.pop("depth", None)
    return getattr(tailmetrics, name)(num_labels=NUM_LABELS, sync_on_compute=False, **given)


def read(ranking: tailmetrics.Ranking) -> dict[str, Tensor]:
    """Everything that is compared: the list itself, and what metrics make of it."""
    found = {"ids": ranking.ids, "gains": ranking.gains, "n_relevant": ranking.n_relevant}
    for name in METRICS:
        for way in WAYS:
            found[f"{name} {way}"] = fed(metric(name, way), ranking).compute()
    return {key: value.clone() for key, value in found.items()}


def work(process: int, folder: str) -> None:
    """Rank every batch from this process's share of the labels; leave the results in a file."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=process, world_size=WORLD)
    found = {}
    for share, widths in SHARES.items():
        first = sum(widths[:process])
        for kind in KINDS:
            scores, gains = batch(kind)
            own = scores[:, first : first + widths[process]].contiguous()
            ranking = tailmetrics.rank_shards(own, first, gains, num_labels=NUM_LABELS, depth=DEPTH)
            found[f"{share} {kind}"] = read(ranking)
    torch.save(found, Path(folder) / f"{process}.pt")
    distributed.destroy_process_group()
