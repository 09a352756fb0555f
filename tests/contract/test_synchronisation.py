"""Two, three and four gloo processes: what differs raises everywhere, what agrees takes few calls and gives the bits of one."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from torch import multiprocessing

import processes
from cases import CASES, NUM_LABELS
from contract import synchronising
from contract.synchronising import DIFFERENT, WORLDS, bits, fed, per_label, share, ten
from tailmetrics import LabelFrequency, PrecisionAtK, RecallAtK, TopKCollection
from tailmetrics._fingerprint import as_text

Results = dict[tuple[int, int], dict[str, dict[str, Any]]]

pytestmark = pytest.mark.slow
every_world = pytest.mark.parametrize("world", WORLDS)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What each process of each world found, by (world, rank); one start of processes for all."""
    folder = tmp_path_factory.mktemp("synchronising")
    start = processes.context().get_start_method()
    multiprocessing.start_processes(synchronising.work, args=(str(folder),), nprocs=max(WORLDS), start_method=start)
    return {
        (world, rank): pickle.loads((Path(folder) / f"{world}-{rank}.pickle").read_bytes())
        for world in WORLDS
        for rank in range(world)
    }


def of_all(results: Results, world: int, check: str) -> list[dict[str, Any]]:
    """What each process of a world found in a check."""
    return [results[world, rank][check] for rank in range(world)]


def alone(metric: Any, ranks: Any, world: int) -> Any:
    """What one process computes of the rows of several."""
    for rank in ranks:
        fed(metric, rank, world)
    return bits(metric.compute())


@every_world
@pytest.mark.parametrize("name", DIFFERENT)
def test_processes_that_differ_raise_everywhere(results: Results, world: int, name: str) -> None:
    """One process of several holds something else: each raises, names the metric, and says what differs."""
    (one, other), wanted = DIFFERENT[name]
    for rank, found in enumerate(of_all(results, world, "different")):
        caller = type((other if rank == world - 1 else one)()).__name__
        assert found[name].startswith(f"{caller}: processes do not hold the same metrics, so nothing was added up: ")
        assert wanted in found[name]
        assert f"on process {world - 1}" in found[name]
        assert "Make the same metrics" in found[name]


@every_world
def test_after_an_error_processes_that_agree_still_meet(results: Results, world: int) -> None:
    """The next compute of all is right."""
    wanted = alone(RecallAtK(k=3), range(world), world)
    assert [found["agreed"] for found in of_all(results, world, "different")] == [wanted] * world


def test_metrics_that_are_written_differently_have_different_meanings() -> None:
    """Of all cases, with all their arguments: as many meanings as ways to write them that are not the same metric."""
    by_repr: dict[str, set[str]] = {}
    for case in CASES:
        metric = case.metric()
        by_repr.setdefault(repr(metric), set()).add(as_text([metric.fingerprint()]))
    assert all(len(texts) == 1 for texts in by_repr.values())
    assert len({text for texts in by_repr.values() for text in texts}) == len(by_repr) > 300


@every_world
@pytest.mark.parametrize(("name", "make"), [("ten", ten), ("per label", per_label)])
def test_collections_give_the_bits_of_one_process(results: Results, world: int, name: str, make: Any) -> None:
    """Also a second time, after one of them was given more rows: none returns the value that it computed before."""
    for found in of_all(results, world, "collectives"):
        collection = make()
        assert found[name] == alone(collection, range(world), world)
        collection.update(*next(share(0, world)))
        assert found[f"{name}, later"] == bits(collection.compute())


@every_world
def test_values_of_labels_are_those_of_all_processes(results: Results, world: int) -> None:
    """Support, predictions, hits and values of each label, and training counts."""
    collection = per_label()
    for rank in range(world):
        fed(collection, rank, world)
    frequency = LabelFrequency(NUM_LABELS)
    for rank in range(world):
        for _, target in share(rank, world):
            frequency.update(target)
    for found in of_all(results, world, "collectives"):
        assert found["values of labels"] == bits(collection.per_label())
        assert found["counts"] == bits(frequency.compute())


@every_world
def test_a_collection_takes_at_most_three_collectives(results: Results, world: int) -> None:
    """One to agree, one per kind of reduction and type; as many numbers as there are states, whatever the processes."""
    sizes = {}
    for name, make in (("ten", ten), ("per label", per_label)):
        metrics = [metric for metric in make().members().values() if metric.keys()]
        states = {key: state.numel() for metric in metrics for key, state in metric.metric_state.items()}
        sizes[name] = sum(states.values())
    assert sizes["per label"] > 7 * NUM_LABELS
    for found in of_all(results, world, "collectives"):
        assert [call[:2] for call in found["ten, calls"]] == [("all_reduce", "torch.int64")] * 2
        types = [call[:2] for call in found["per label, calls"]]
        assert len(types) <= 4
        assert sorted(set(types)) == [("all_reduce", f"torch.{kind}") for kind in ("int64", "uint8")]
        for name, size in sizes.items():
            assert sum(numel for _, _, numel in found[f"{name}, calls"][1:]) == size
            assert found[f"{name}, repeated"] == found[f"{name}, calls"]
        assert len(found["counts, calls"]) == 2


@every_world
def test_a_function_of_ones_own_synchronises_as_ever(results: Results, world: int) -> None:
    """dist_sync_fn is called for each state; members beside it are sent together."""
    wanted = alone(RecallAtK(k=3), range(world), world)
    both = alone(TopKCollection([RecallAtK(k=3), PrecisionAtK(k=3)]), range(world), world)
    for found in of_all(results, world, "options"):
        value, calls, states = found["own function"]
        assert (value, calls) == (wanted, states)
        assert found["own function in a collection"] == (both, 2 * states)


@every_world
def test_what_is_not_to_be_synchronised_is_not(results: Results, world: int) -> None:
    """sync_on_compute=False and distributed_available_fn: each process its own value, without a collective."""
    for rank, found in enumerate(of_all(results, world, "options")):
        wanted = alone(RecallAtK(k=3), [rank], world)
        for name in ("not asked", "not available"):
            assert found[name] == wanted
            assert found[f"{name} in a collection"] == {"recall@3": wanted}


@every_world
def test_without_a_cache_each_compute_synchronises(results: Results, world: int) -> None:
    """compute_with_cache=False; and a compute that fails leaves no metric synchronised."""
    for found in of_all(results, world, "options"):
        assert found["not cached"] == alone(RecallAtK(k=3), range(world), world)
        assert found["not cached, calls"] == (2, 4)
        message, is_synced = found["unbound"]
        assert message.startswith("RecallAtK: buckets='deciles' has no label counts yet")
        assert not is_synced


@every_world
def test_members_may_have_process_groups_of_their_own(results: Results, world: int) -> None:
    """Each member is added up over its own group, though processes list the members in another order."""
    for found in of_all(results, world, "groups"):
        assert found["all"] == alone(RecallAtK(k=3), range(world), world)
        assert found["mine"] == alone(RecallAtK(k=3), found["ranks"], world)
        assert found["calls"] == 4
        assert "is not in process_group; compute in the processes of the group only" in found["error"]
        whole = RecallAtK(k=3)
        for rank in found["ranks"]:
            fed(whole, rank, world)
        assert found["by hand"] == bits(whole.metric_state)
