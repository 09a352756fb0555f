"""Two and four gloo processes, uneven batches, a rank with none: the bits of one process, on every rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import multiprocessing

import processes
from contract import ranks
from contract.ranks import Batch, Found, collections, dealt, metrics, patterns, steps
from exactness.bits import bits_of
from tailmetrics import LabelBuckets, LabelFrequency, PrecisionAtK, RecallAtK, TopKCollection

pytestmark = pytest.mark.slow

Results = dict[tuple[int, int], dict[str, Found]]

both_worlds = pytest.mark.parametrize("world", [2, 4])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What each rank of each world found, by (world, rank); one start of processes for all."""
    folder = tmp_path_factory.mktemp("ranks")
    start = processes.context().get_start_method()
    multiprocessing.start_processes(ranks.work, args=(str(folder),), nprocs=4, start_method=start)
    return {
        (world, rank): torch.load(Path(folder) / f"{world}-{rank}.pt", weights_only=True)
        for world in (2, 4)
        for rank in range(world)
    }


def differing(found: Found, wanted: Found) -> list[str]:
    """The keys under which the bits differ."""
    assert found.keys() == wanted.keys()
    return [key for key in found if bits_of(found[key]) != bits_of(wanted[key])]


def flat(batches: list[list[Batch]]) -> list[Batch]:
    """The batches of all ranks."""
    return [batch for of_rank in batches for batch in of_rank]


def alone(metric: Any, batches: list[Batch]) -> torch.Tensor:
    """The value of one process over the batches."""
    metric.reset()
    for batch in batches:
        metric.update(*batch)
    value: torch.Tensor = metric.compute()
    return value


@both_worlds
def test_uneven_batches_and_a_rank_without_any(results: Results, world: int) -> None:
    """compute on every rank gives what one process gives, twice in a row: ranks keep their own rows in between."""
    wanted: Found = {}
    for name, metric in metrics(world).items():
        wanted[name] = alone(metric, flat(dealt(world)))
    for name, metric in metrics(world, 0, 4).items():
        later = [of_rank[0] for of_rank in steps(world)]
        wanted[f"{name}, one batch later"] = alone(metric, flat(dealt(world)) + later)
    for rank in range(world):
        assert differing(results[world, rank]["uneven"], wanted) == []


@both_worlds
def test_forward_synchronised_at_every_step(results: Results, world: int) -> None:
    """dist_sync_on_step=True: the value of a step is that of the batches of all ranks."""
    wanted: Found = {}
    for name, metric in metrics(world, 1, 4).items():
        for number in range(2):
            wanted[f"{name}, step {number}"] = alone(metric, [of_rank[number] for of_rank in steps(world)])
        wanted[name] = alone(metric, flat(steps(world)))
    for rank in range(world):
        assert differing(results[world, rank]["synchronised_steps"], wanted) == []


@both_worlds
def test_no_synchronisation_where_none_is_wanted(results: Results, world: int) -> None:
    """sync_on_compute=False: every rank its own rows."""
    for rank in range(world):
        wanted: Found = {}
        for name, metric in metrics(world, 2, 4).items():
            wanted[f"{name}, forward"] = alone(metric, steps(world)[rank][-1:])
            wanted[name] = alone(metric, steps(world)[rank])
        assert differing(results[world, rank]["local"], wanted) == []


@both_worlds
def test_first_batches_with_different_hit_patterns(results: Results, world: int) -> None:
    """Hits on one rank, misses on another, nothing on a third: no member of a collection is merged with another."""
    wanted: Found = {}
    batches = [batch for rank in range(world) for batch in patterns(rank)]
    for name, collection in collections().items():
        members = dict(collection.items(keep_base=True))
        for key, metric in members.items():
            label = key if name != "top-k" else metric.keys()[0]
            wanted[f"{name} {label}"] = alone(metric.clone(), batches)
            wanted[f"{name} {label}, later"] = alone(metric.clone(), batches + [ranks.HIT] * world)
            wanted[f"{name} {label}, again"] = alone(metric.clone(), [ranks.HIT] * world)
    for rank in range(world):
        assert differing(results[world, rank]["grouped"], wanted) == []


@both_worlds
def test_training_counts_and_buckets_are_those_of_all_ranks(results: Results, world: int) -> None:
    """Counts, rows, deciles and thresholds, and the breakdown of a collection bound to them."""
    frequency = LabelFrequency(ranks.NUM_LABELS)
    for _, target in flat(dealt(world)):
        frequency.update(target)
    collection = TopKCollection([RecallAtK(k=[1, 3], buckets="deciles"), PrecisionAtK(k=1, buckets="deciles")])
    collection.bind(frequency)
    for batch in flat(dealt(world)):
        collection.update(*batch)
    wanted = {
        "counts": frequency.compute(),
        "rows": torch.tensor(31),
        "assignment": LabelBuckets.deciles(frequency.compute()).assignment,
        "thresholds": LabelBuckets.thresholds(frequency.compute(), [1, 3]).assignment,
        **collection.compute(),
    }
    for rank in range(world):
        assert differing(results[world, rank]["training"], wanted) == []


@both_worlds
def test_states_synchronised_by_hand(results: Results, world: int) -> None:
    """Between sync and unsync a rank holds the states of one process over all rows."""
    wanted: Found = {}
    for name, metric in metrics(world, 3, 4).items():
        alone(metric, flat(dealt(world)))
        wanted |= {f"{name} {key}": value for key, value in metric.metric_state.items()}
        wanted |= {f"{name} {key} in context": value for key, value in metric.metric_state.items()}
    for rank in range(world):
        assert differing(results[world, rank]["by_hand"], wanted) == []
