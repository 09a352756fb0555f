"""Three gloo processes with uneven batches, the last with none: the bits of one process; what differs raises everywhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, distributed
from torchmetrics import MetricCollection
from torchmetrics.utilities.distributed import gather_all_tensors

import processes
import tailmetrics as tm
from cases import BUCKETS, NUM_LABELS, NUM_TRAIN, data, training_counts
from exactness.bits import ONE_OF_EACH, bits_of

WORLD = 3
COUNTS = training_counts()
Batch = tuple[Tensor, Tensor]
Found = dict[str, Any]
COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_to_all", "barrier", "broadcast",
    "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter",
)  # fmt: skip
MISS = (torch.tensor([[0, 1, 2]]), torch.tensor([[5, 6]]))
HIT = (torch.tensor([[5, 1, 2]]), torch.tensor([[5, 6]]))


def dealt(rank: int) -> list[Batch]:
    """The batches of a process: many and uneven for the first, none for the last."""
    rows = data(seed=101, num_rows=31, graded=True)
    parts = list(zip(rows.scores.split([5, 1, 3, 22]), rows.target.split([5, 1, 3, 22]), strict=True))
    return [parts[:3], parts[3:], []][rank]


def step(rank: int) -> Batch:
    """One batch for every process."""
    rows = data(seed=102 + rank, num_rows=1 + rank, graded=True)
    return rows.scores, rows.target


def fed(metric: Any, batches: list[Batch]) -> Any:
    """The metric after the batches."""
    for batch in batches:
        metric.update(*batch)
    return metric


def bits(values: Any) -> Any:
    """The bits of a value, or of each value of a dict."""
    return {key: bits_of(value) for key, value in values.items()} if isinstance(values, dict) else bits_of(values)


ALL = [batch for rank in range(WORLD) for batch in dealt(rank)]
STEPS = [step(rank) for rank in range(WORLD)]
PATTERNS = [[HIT, MISS], [MISS, HIT, HIT], []]
"""First batches that hit on one process, miss on another, and are lacking on a third."""


def ten() -> tm.TopKCollection:
    """Metrics at three cut-offs in eleven buckets."""
    classes = (tm.PrecisionAtK, tm.RecallAtK, tm.F1AtK, tm.HitRateAtK, tm.NDCGAtK, tm.MAP, tm.MRR)
    psp = tm.PropensityScoredPrecisionAtK(k=3, buckets=BUCKETS, label_counts=COUNTS, num_train=NUM_TRAIN)
    return tm.TopKCollection([*(kind([1, 3, 5], buckets=BUCKETS) for kind in classes), psp])


def per_label() -> tm.TopKCollection:
    """Counts per label, shared and not, and flags per label."""
    many: dict[str, Any] = {"k": 3, "num_labels": NUM_LABELS}
    return tm.TopKCollection([
        tm.CatalogCoverageAtK(**many),
        tm.GiniAtK(**many),
        tm.EntropyAtK(**many),
        tm.PositiveCoverageAtK(**many),
        tm.F1AtK(average="macro", **many),
        tm.RecallAtK(average="none", **many),
        tm.KForRecall(min_recall=0.5, buckets=BUCKETS),
    ])  # fmt: skip


COLLECTIONS = {"ten": ten, "per label": per_label}


def of_torchmetrics() -> list[MetricCollection]:
    """Collections whose members must not be merged, however the first batches of the processes differ."""
    members = {
        "p": tm.PrecisionAtK(k=1),
        "r": tm.RecallAtK(k=1),
        "r3": tm.RecallAtK(k=3),
        "a": tm.AccuracyAtK(k=1),
        "m": tm.MRR(k=3),
    }
    members |= {"gini": tm.GiniAtK(k=1, num_labels=8), "coverage": tm.CatalogCoverageAtK(k=1, num_labels=8)}
    return [MetricCollection(members), MetricCollection(members, compute_groups=False), tm.TopKCollection(members)]


def gathered_by_hand(tensor: Tensor, group: Any = None) -> list[Tensor]:
    """The tensor of each process, as a user's function returns it."""
    return gather_all_tensors(tensor, group)


DIFFERENT: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "not bound": (
        lambda: tm.RecallAtK(k=1, buckets=BUCKETS),
        lambda: tm.RecallAtK(k=1, buckets="deciles"),
        f"buckets is LabelBuckets {BUCKETS.digest[:8]}… on process 0 and 'deciles' on process",
    ),
    "a member": (
        lambda: tm.TopKCollection([tm.PrecisionAtK(k=1), tm.RecallAtK(k=1)]),
        lambda: tm.TopKCollection([tm.PrecisionAtK(k=1), tm.RecallAtK(k=2)]),
        "member 2, RecallAtK: k is 1 on process 0 and 2 on process",
    ),
    "a collection and a metric": (
        lambda: tm.TopKCollection([tm.PrecisionAtK(k=1), tm.RecallAtK(k=1)]),
        lambda: tm.PrecisionAtK(k=1),
        "there are PrecisionAtK, RecallAtK on process 0 and PrecisionAtK on process",
    ),
    "what a function of one's own gathers": (
        lambda: tm.RecallAtK(k=1, dist_sync_fn=gathered_by_hand),
        lambda: tm.RecallAtK(k=2, average="macro", num_labels=NUM_LABELS, dist_sync_fn=gathered_by_hand),
        "k is 1 on process 0 and 2 on process 2, average is 'samples' on process 0 and 'macro' on process",
    ),
    "training counts": (
        lambda: tm.LabelFrequency(12),
        lambda: tm.LabelFrequency(13),
        "num_labels is 12 on process 0 and 13 on process",
    ),
}
"""What two processes may hold by mistake, and what the error says; test_every_argument.py has each argument."""


@contextmanager
def counted() -> Iterator[list[tuple[str, str, int]]]:
    """Record each collective within: its name, and of a reduction the type and the number of elements."""
    calls: list[tuple[str, str, int]] = []

    def recording(name: str, original: Any) -> Callable[..., Any]:
        def record(*args: Any, **kwargs: Any) -> Any:
            tensor = args[0] if args and isinstance(args[0], Tensor) else torch.empty(0)
            calls.append((name, str(tensor.dtype), tensor.numel()))
            return original(*args, **kwargs)

        return record

    with pytest.MonkeyPatch.context() as patched:
        for name in COLLECTIVES:
            if hasattr(distributed, name):
                patched.setattr(distributed, name, recording(name, getattr(distributed, name)))
        yield calls


def of_one_process(rank: int, world: int) -> Found:
    """Run every check; what one process alone would find is computed by the tests."""
    found: Found = {}
    for check in (of_each_metric, of_collections, of_what_differs, of_options, of_groups):
        found |= check(rank)
    return found


def of_each_metric(rank: int) -> Found:
    """Every metric: compute; states by hand; a value that is not synchronised; forward that is."""
    found = {}
    for case in ONE_OF_EACH:
        metric = fed(case.metric(), dealt(rank))
        found[f"{case}"] = bits(metric.compute())
    for case in ONE_OF_EACH[::6]:
        metric = fed(case.metric(), dealt(rank))
        before = bits(metric.metric_state)
        metric.sync()
        found[f"{case} by hand"] = bits(metric.metric_state)
        metric.unsync()
        assert bits(metric.metric_state) == before
        metric.compute()
        metric.update(*step(rank))
        found[f"{case} later"] = bits(metric.compute())
        found[f"{case} local"] = bits(fed(case.metric(sync_on_compute=False), [step(rank)]).compute())
        found[f"{case} step"] = bits(case.metric(dist_sync_on_step=True)(*step(rank)))
    return found


def of_collections(rank: int) -> Found:
    """Values, also of later batches of one process alone, of labels and training counts; and each collective."""
    found: Found = {}
    for name, make in COLLECTIONS.items():
        collection = fed(make(), dealt(rank))
        collection.items(keep_base=True, copy_state=False)  # ties the states of members that were never updated
        own = [id(state) for metric in collection.members().values() for state in metric.metric_state.values()]
        with counted() as calls:
            found[name] = bits(collection.compute())
        again = [id(state) for metric in collection.members().values() for state in metric.metric_state.values()]
        assert own == again, "compute gives back the very states, so that members still share them"
        found[f"{name}, calls"] = calls
        if rank == 0:  # the others cannot know of it, and have computed since their last batch
            collection.update(*step(0))
        found[f"{name}, later"] = bits(collection.compute())
    for number, collection in enumerate(of_torchmetrics()):
        found[f"pattern {number}"] = bits(fed(collection, PATTERNS[rank]).compute())
    found["values of labels"] = bits(fed(per_label(), dealt(rank)).per_label())
    frequency = fed(tm.LabelFrequency(NUM_LABELS), [(target,) for _, target in dealt(rank)])  # type: ignore[misc]
    with counted() as calls:
        found["counts"] = bits(frequency.compute())
    bound = tm.TopKCollection([tm.RecallAtK(k=[1, 3], buckets="deciles")]).bind(frequency)
    found["bound"] = bits(fed(bound, dealt(rank)).compute())
    return found | {"counts, calls": len(calls), "rows": frequency.num_rows}


def of_what_differs(rank: int) -> Found:
    """The last process holds something else: the error of each, and whether the metric is as before."""
    found: Found = {}
    for name, (one, other, _) in DIFFERENT.items():
        metric = (other if rank == WORLD - 1 else one)()
        members = list(metric.members().values()) if isinstance(metric, tm.TopKCollection) else [metric]
        before = [bits(member.metric_state) for member in members]
        try:
            found[name] = f"no error, but {metric.compute()}"
        except ValueError as error:
            found[name] = str(error)
        assert [bits(member.metric_state) for member in members] == before
        assert not any(member._is_synced for member in members), name
    return found | {"agreed": bits(fed(tm.RecallAtK(k=3), dealt(rank)).compute())}


def of_options(rank: int) -> Found:
    """TorchMetrics' own ways: a function of one's own, no synchronisation, no cache; a compute that fails."""
    found: Found = {}
    gathered: list[int] = []

    def own(tensor: Any, group: Any = None) -> Any:
        gathered.append(1)
        return gather_all_tensors(tensor, group)

    metric = fed(tm.RecallAtK(k=3, dist_sync_fn=own), dealt(rank))
    found["own function"] = bits(metric.compute()), len(gathered), len(metric.metric_state)
    collection = tm.TopKCollection([tm.RecallAtK(k=3, dist_sync_fn=own), tm.PrecisionAtK(k=3)])
    found["own function in a collection"] = bits(fed(collection, dealt(rank)).compute()), len(gathered)
    for option in ({"sync_on_compute": False}, {"distributed_available_fn": lambda: False}):
        with counted() as calls:
            alone = bits(fed(tm.RecallAtK(k=3, **option), [step(rank)]).compute())
            together = fed(tm.TopKCollection([tm.RecallAtK(k=3, **option)]), [step(rank)]).compute()
        assert calls == []
        found[f"not {next(iter(option))}"] = alone, bits(together["recall@3"])
    metric = tm.RecallAtK(k=3)
    metric.sync_on_compute = False
    with counted() as calls:
        found["sync_on_compute set later"] = bits(fed(metric, [step(rank)]).compute())
    assert calls == []
    metric = fed(tm.RecallAtK(k=3, compute_with_cache=False), dealt(rank))
    with counted() as calls:
        found["not cached"] = bits(metric.compute()), len(calls)
        metric.compute()
    for rows in (2**35, 2**36):  # in each of three processes: the largest limb is 2^25 times as large
        metric = fed(tm.RecallAtK(k=1), [HIT])
        for state in metric.metric_state.values():
            state.mul_(rows)
        before = bits(metric.metric_state)
        try:
            found[f"{rows} rows"] = float(metric.compute())
        except ValueError as error:
            found[f"{rows} rows"] = str(error)
        assert bits(metric.metric_state) == before
    unbound = tm.RecallAtK(k=3, buckets="deciles")
    with pytest.raises(ValueError, match="RecallAtK: buckets='deciles' has no label counts yet"):
        unbound.compute()
    return found | {"not cached, calls": len(calls), "unbound": unbound._is_synced}


def of_groups(rank: int) -> Found:
    """Members of different process groups, in the order that each process likes."""
    made = [distributed.new_group([0, 1]), distributed.new_group([2])]
    mine, ranks = (made[0], [0, 1]) if rank < 2 else (made[1], [2])
    members = {"all": tm.RecallAtK(k=3, name="all"), "mine": tm.RecallAtK(k=3, name="mine", process_group=mine)}
    names = sorted(members, reverse=bool(rank % 2))
    collection = fed(tm.TopKCollection([members[name] for name in names]), [step(rank)])
    with counted() as calls:
        values = collection.compute()
    with pytest.raises(ValueError, match="is not in process_group; compute in the processes of the group only"):
        tm.RecallAtK(k=3, process_group=made[1] if rank < 2 else made[0]).compute()
    return {"all": bits(values["all"]), "mine": bits(values["mine"]), "ranks": ranks, "group calls": len(calls)}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    """What each process found; one start of processes for all."""
    return processes.run_on_ranks(of_one_process, WORLD, tmp_path_factory.mktemp("ranks"))


def alone(metric: Any, batches: list[Batch]) -> Any:
    """What one process computes."""
    metric.reset()
    return bits(fed(metric, batches).compute())


@pytest.mark.slow
def test_uneven_batches_and_a_rank_without_any(results: list[Found]) -> None:
    """compute, sync and forward on every rank give what one process gives; ranks keep their own rows in between."""
    for rank, found in enumerate(results):
        for case in ONE_OF_EACH:
            assert found[str(case)] == alone(case.metric(), ALL), case
        for case in ONE_OF_EACH[::6]:
            metric = case.metric()
            assert found[f"{case} later"] == alone(metric, [*ALL, *STEPS]), case
            assert found[f"{case} local"] == alone(metric, [step(rank)]), case
            assert found[f"{case} step"] == alone(metric, STEPS), case
            metric.reset()
            assert found[f"{case} by hand"] == bits(fed(metric, ALL).metric_state), case


@pytest.mark.slow
def test_collections_give_the_bits_of_one_process(results: list[Found]) -> None:
    """Also after one of them was given more rows; of labels, of buckets that are bound, and whatever hits first."""
    frequency = fed(tm.LabelFrequency(NUM_LABELS), [(target,) for _, target in ALL])  # type: ignore[misc]
    bound = tm.TopKCollection([tm.RecallAtK(k=[1, 3], buckets="deciles")]).bind(frequency)
    of_patterns = [batch for batches in PATTERNS for batch in batches]
    for found in results:
        for name, make in COLLECTIONS.items():
            assert found[name] == alone(make(), ALL)
            assert found[f"{name}, later"] == alone(make(), [*ALL, step(0)])
        for number, collection in enumerate(of_torchmetrics()):
            named = collection.items(keep_base=True)
            values = {key: fed(metric.clone(), of_patterns).compute() for key, metric in named}
            assert list(found[f"pattern {number}"].values()) == list(bits(values).values())
        assert found["values of labels"] == bits(fed(per_label(), ALL).per_label())
        assert (found["counts"], found["rows"]) == (bits(frequency.compute()), frequency.num_rows)
        assert found["bound"] == alone(bound, ALL)


@pytest.mark.slow
def test_a_collection_takes_at_most_four_collectives(results: list[Found]) -> None:
    """One to agree, one per kind of reduction and type; as many numbers as states, and one by which sums are checked."""
    sizes = {}
    for name, make in COLLECTIONS.items():
        collection = fed(make(), ALL)
        collection.items(keep_base=True, copy_state=False)  # ties the states that members share
        metrics = [metric for metric in collection.members().values() if metric.keys()]
        states = {id(state): state.numel() for metric in metrics for state in metric.metric_state.values()}
        sizes[name] = sum(states.values())
    for found in results:
        assert [call[:2] for call in found["ten, calls"]] == [("all_reduce", "torch.int64")] * 2
        types = [call[:2] for call in found["per label, calls"]]
        assert len(types) <= 4
        assert sorted(set(types)) == [("all_reduce", f"torch.{kind}") for kind in ("int64", "uint8")]
        for name, size in sizes.items():
            assert sum(numel for _, _, numel in found[f"{name}, calls"][1:]) == size + 1
        assert found["counts, calls"] == 2


@pytest.mark.slow
def test_processes_that_differ_raise_everywhere(results: list[Found]) -> None:
    """Each names the metric and says what differs; then processes that agree still meet."""
    for rank, found in enumerate(results):
        for name, (one, other, words) in DIFFERENT.items():
            caller = type((other if rank == WORLD - 1 else one)()).__name__
            said = f"{caller}: processes do not hold the same metrics, so nothing was added up: "
            assert found[name].startswith(said), found[name]
            assert words in found[name]
            assert f"on process {WORLD - 1}" in found[name]
            assert "Make the same metrics" in found[name]
        assert found["agreed"] == alone(tm.RecallAtK(k=3), ALL)


@pytest.mark.slow
def test_how_to_synchronise_is_said_as_to_torchmetrics(results: list[Found]) -> None:
    """A function of one's own for each state; none at all; without a cache each time; members in groups of their own."""
    wanted = alone(tm.RecallAtK(k=3), ALL)
    for rank, found in enumerate(results):
        value, calls, states = found["own function"]
        assert (value, calls) == (wanted, states + 1), "one call by which processes agree what they add up"
        both = alone(tm.TopKCollection([tm.RecallAtK(k=3), tm.PrecisionAtK(k=3)]), ALL)
        assert found["own function in a collection"] == (both, 2 * (states + 1))
        local = alone(tm.RecallAtK(k=3), [step(rank)])
        assert found["not sync_on_compute"] == found["not distributed_available_fn"] == (local, local)
        assert found["sync_on_compute set later"] == local
        assert (found["not cached"], found["not cached, calls"]) == ((wanted, 2), 4)
        assert not found["unbound"]
        assert found[f"{2**35} rows"] == 0.5
        assert found[f"{2**36} rows"].startswith("RecallAtK: a state would hold a number of up to 6,9")
        assert found["all"] == alone(tm.RecallAtK(k=3), STEPS)
        assert found["mine"] == alone(tm.RecallAtK(k=3), [step(rank) for rank in found["ranks"]])
        assert found["group calls"] == 4
