"""What each of several processes does in tests/contract/test_distributed.py; imported by the processes themselves."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torchmetrics import MetricCollection

from cases import NUM_LABELS, data
from exactness.bits import ONE_OF_EACH
from tailmetrics import (
    MRR,
    AccuracyAtK,
    CatalogCoverageAtK,
    GiniAtK,
    LabelFrequency,
    PrecisionAtK,
    RecallAtK,
    TopKCollection,
)
from tailmetrics.metrics import TopKMetric

Batch = tuple[Tensor, Tensor]
Found = dict[str, Tensor]

MISS = (torch.tensor([[0, 1, 2]]), torch.tensor([[5, 6]]))
HIT = (torch.tensor([[5, 1, 2]]), torch.tensor([[5, 6]]))


def dealt(world: int) -> list[list[Batch]]:
    """Batches per rank: many and uneven for the first, none for the last."""
    rows = data(seed=101, num_rows=31, graded=True)
    cuts = {2: [[5, 1, 25], []], 4: [[5, 1, 3], [7], [2, 13], []]}[world]
    start, dealt = 0, []
    for sizes in cuts:
        batches = []
        for size in sizes:
            batches.append((rows.scores[start : start + size], rows.target[start : start + size]))
            start += size
        dealt.append(batches)
    return dealt


def steps(world: int) -> list[list[Batch]]:
    """As many batches for every rank, of uneven size."""
    rows = data(seed=102, num_rows=20, graded=True)
    sizes = [1 + (rank + step) % 3 for step in range(2) for rank in range(world)]
    scores, target = rows.scores[: sum(sizes)].split(sizes), rows.target[: sum(sizes)].split(sizes)
    return [[(scores[step * world + rank], target[step * world + rank]) for step in range(2)] for rank in range(world)]


def metrics(world: int, part: int = 0, of: int = 1, **options: Any) -> dict[str, TopKMetric]:
    """Every metric, or every so many, by the text of its case; four processes take a third of what two take."""
    return {str(case): case.metric(**options) for case in ONE_OF_EACH[part :: of if world == 2 else of * 3]}


def collections() -> dict[str, MetricCollection]:
    """Collections whose members must not be merged, however the first batches of the ranks differ."""
    members = {"p": PrecisionAtK(k=1), "r": RecallAtK(k=1), "r3": RecallAtK(k=3), "a": AccuracyAtK(k=1), "m": MRR(k=3)}
    shared = {"gini": GiniAtK(k=1, num_labels=8), "coverage": CatalogCoverageAtK(k=1, num_labels=8)}
    both = {**members, **shared}
    return {
        "grouped": MetricCollection({name: metric.clone() for name, metric in both.items()}),
        "not grouped": MetricCollection({name: metric.clone() for name, metric in both.items()}, compute_groups=False),
        "top-k": TopKCollection({name: metric.clone() for name, metric in both.items()}),
    }


def patterns(rank: int) -> list[Batch]:
    """First batches with hits on the first rank only; the last rank of four sees nothing."""
    return [[HIT, MISS], [MISS, HIT, HIT], [MISS], []][rank]


def uneven(rank: int, world: int) -> Found:
    """Every metric over uneven batches; then more rows, to see that each rank still has its own."""
    found = {}
    for name, metric in metrics(world).items():
        for batch in dealt(world)[rank]:
            metric.update(*batch)
        found[name] = metric.compute()
    for name, metric in metrics(world, 0, 4).items():
        for batch in dealt(world)[rank]:
            metric.update(*batch)
        metric.compute()
        metric.update(*steps(world)[rank][0])
        found[f"{name}, one batch later"] = metric.compute()
    return found


def synchronised_steps(rank: int, world: int) -> Found:
    """dist_sync_on_step: forward returns the value of the batches of all ranks."""
    found = {}
    for name, metric in metrics(world, 1, 4, dist_sync_on_step=True).items():
        for number, batch in enumerate(steps(world)[rank]):
            found[f"{name}, step {number}"] = metric(*batch)
        found[name] = metric.compute()
    return found


def local(rank: int, world: int) -> Found:
    """sync_on_compute=False: each rank its own value; forward is local as well unless told otherwise."""
    found = {}
    for name, metric in metrics(world, 2, 4, sync_on_compute=False).items():
        for batch in steps(world)[rank]:
            found[f"{name}, forward"] = metric(*batch)
        found[name] = metric.compute()
    return found


def grouped(rank: int, world: int) -> Found:
    """Collections whose first batches hit on one rank and miss on another."""
    found = {}
    for name, collection in collections().items():
        for batch in patterns(rank):
            collection.update(*batch)
        found |= {f"{name} {key}": value for key, value in collection.compute().items()}
        collection.update(*HIT)
        found |= {f"{name} {key}, later": value for key, value in collection.compute().items()}
        collection.reset()
        collection.update(*HIT)
        found |= {f"{name} {key}, again": value for key, value in collection.compute().items()}
    return found


def training(rank: int, world: int) -> Found:
    """Training counts, buckets made of them on every rank, and a collection bound to them."""
    frequency = LabelFrequency(NUM_LABELS)
    for _, target in dealt(world)[rank]:
        frequency.update(target)
    collection = TopKCollection([RecallAtK(k=[1, 3], buckets="deciles"), PrecisionAtK(k=1, buckets="deciles")])
    collection.bind(frequency)
    for batch in dealt(world)[rank]:
        collection.update(*batch)
    return {
        "counts": frequency.compute(),
        "rows": torch.tensor(frequency.num_rows),
        "assignment": frequency.deciles().assignment,
        "thresholds": frequency.thresholds([1, 3]).assignment,
        **collection.compute(),
    }


def by_hand(rank: int, world: int) -> Found:
    """sync, compute and unsync called one by one, and the state in between."""
    found = {}
    for name, metric in metrics(world, 3, 4).items():
        for batch in dealt(world)[rank]:
            metric.update(*batch)
        before = {key: value.clone() for key, value in metric.metric_state.items()}
        metric.sync()
        found |= {f"{name} {key}": value for key, value in metric.metric_state.items()}
        metric.unsync()
        assert all(torch.equal(value, metric.metric_state[key]) for key, value in before.items()), name
        with metric.sync_context():
            found |= {f"{name} {key} in context": value for key, value in metric.metric_state.items()}
    return found


CHECKS = {check.__name__: check for check in (uneven, synchronised_steps, local, grouped, training, by_hand)}


def work(rank: int, folder: str) -> None:
    """Run every check among 4 processes, then among the first 2 of them; leave the results in files."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for world in (4, 2):
        if rank >= world:
            continue
        distributed.init_process_group("gloo", init_method=f"file://{folder}/meet{world}", rank=rank, world_size=world)
        found = {name: check(rank, world) for name, check in CHECKS.items()}
        torch.save(found, Path(folder) / f"{world}-{rank}.pt")
        distributed.destroy_process_group()
