"""What each of several processes does in test_chunks_and_shards.py; imported by the processes themselves."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

import cases
import tailmetrics
from wishes.rows import COUNTS, DECILES, NUM_LABELS, fed, graded

WORLDS = (3, 2)
DEPTH = 7
SHARES: dict[int, dict[str, tuple[tuple[int, int], ...]]] = {
    2: {"even": ((0, 9), (9, 18)), "uneven": ((0, 3), (3, 18)), "last labels first": ((17, 18), (0, 17))},
    3: {"even": ((0, 6), (6, 12), (12, 18)), "one without labels": ((7, 18), (7, 7), (0, 7))},
}
"""Which labels each process holds."""
METRICS: dict[str, dict[str, Any]] = {
    "RecallAtK": {"k": [1, 5]},
    "NDCGAtK": {"k": 5},
    "MAP": {"k": 5},
    "MRR": {},
    "PropensityScoredPrecisionAtK": {"k": 3, "label_counts": COUNTS, "num_train": int(COUNTS.sum())},
    "PopularityAtK": {"k": 3, "label_counts": COUNTS},
}
WAYS: dict[str, dict[str, Any]] = {"overall": {}, "deciles": {"buckets": DECILES, "depth": DEPTH}}
WRONG = ("nan", "rows", "overlap", "gap", "target", "depth", "type")


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


def depth_of(metric: Any) -> int:
    """A depth that a metric can read, and that cuts the list where it does not read all of it."""
    return min(metric.reads.scores or 1, cases.NUM_LABELS)


def every_metric(skipped: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """One of each metric and way of bucketing, but for those whose name begins with a skipped one."""
    for case in cases.FEW:
        if not (skipped and str(case).startswith(skipped)):
            yield str(case), case.metric(sync_on_compute=False)


REFUSED = ("LabelAUC", "LabelAP", "PrecisionAtThreshold", "RecallAtThreshold", "F1AtThreshold")
"""What reads the scores of all labels again, which no process holds; and pairs within buckets."""
PAIRS = ("RowAUC", "CoverageError", "RankingLoss")


def of_all_metrics(process: int, world: int) -> dict[str, Any]:
    """The value of every metric of one batch, or the error that it raises."""
    rows = cases.data(seed=3, graded=True)
    width = -(-cases.NUM_LABELS // world)
    first = process * width
    own = rows.scores[:, first : first + width].contiguous()
    found: dict[str, Any] = {}
    for name, of_name in every_metric():
        ranking = tailmetrics.rank_shards(own, first, rows.target, num_labels=cases.NUM_LABELS, depth=depth_of(of_name))
        try:
            found[name] = fed(of_name, ranking).compute()
        except ValueError as error:
            found[name] = str(error)
    return found


def wrong(process: int, what: str) -> str:
    """The error of a call whose arguments are wrong on the second process alone."""
    scores, gains = batch("plain")
    first, stop, depth = process * 9, process * 9 + 9, DEPTH
    if process == 1:
        first, stop = {"overlap": (8, 18), "gap": (10, 18)}.get(what, (first, stop))
        gains = gains * 2 if what == "target" else gains
        depth = depth + (what == "depth")
    own = scores[:, first:stop].clone()
    if process == 1:
        own[2, 1] = math.nan if what == "nan" else own[2, 1]
        own = own.double() if what == "type" else own
        own, gains = (own[1:], gains[1:]) if what == "rows" else (own, gains)
    try:
        tailmetrics.rank_shards(own, first, gains, num_labels=NUM_LABELS, depth=depth)
    except ValueError as error:
        return str(error)
    return "nothing was raised"


def collectives(process: int, num_rows: int) -> list[int]:
    """How many numbers each collective of one call sends."""
    sent: list[int] = []

    def counting(name: str) -> Any:
        original = getattr(distributed, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            sent.append(max(one.numel() for one in args if isinstance(one, Tensor)))
            return original(*args, **kwargs)

        setattr(distributed, name, call)
        return original

    originals = {name: counting(name) for name in ("all_gather", "all_reduce", "broadcast", "barrier")}
    scores = torch.randn(num_rows, 3000, generator=torch.Generator().manual_seed(process))
    tailmetrics.rank_shards(scores, process * 3000, torch.arange(num_rows), num_labels=6000, depth=DEPTH)
    for name, original in originals.items():
        setattr(distributed, name, original)
    return sent


def work(process: int, folder: str) -> None:
    """Rank every batch from this process's share of the labels; leave the results in a file."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for world in WORLDS:
        if process >= world:
            return
        meet = f"file://{folder}/meet-{world}"
        distributed.init_process_group("gloo", init_method=meet, rank=process, world_size=world)
        found: dict[str, Any] = {"all": of_all_metrics(process, world)}
        for share, ends in SHARES[world].items():
            first, stop = ends[process]
            for kind in KINDS:
                scores, gains = batch(kind)
                own = scores[:, first:stop].contiguous()
                ranking = tailmetrics.rank_shards(own, first, gains, num_labels=NUM_LABELS, depth=DEPTH)
                found[f"{share} {kind}"] = read(ranking)
        if world == 2:
            found |= {f"wrong {what}": wrong(process, what) for what in WRONG}
            found["collectives"] = collectives(process, num_rows=20)
        torch.save(found, Path(folder) / f"{world}-{process}.pt")
        distributed.destroy_process_group()
