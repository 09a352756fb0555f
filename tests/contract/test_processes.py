"""Three gloo processes with uneven batches, the last with none, have the bits of one
process; if they differ, all raise an error.
"""

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
Results = dict[str, Any]
COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_to_all", "barrier", "broadcast",
    "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter",
)  # fmt: skip
MISS = (torch.tensor([[0, 1, 2]]), torch.tensor([[5, 6]]))
HIT = (torch.tensor([[5, 1, 2]]), torch.tensor([[5, 6]]))


def batches_of_rank(rank: int) -> list[Batch]:
    """Return the batches of a process: many and uneven for the first, none for the
    last.
    """
    rows = data(seed=101, num_rows=31, graded=True)
    parts = list(
        zip(
            rows.scores.split([5, 1, 3, 22]),
            rows.target.split([5, 1, 3, 22]),
            strict=True,
        )
    )
    return [parts[:3], parts[3:], []][rank]


def step(rank: int) -> Batch:
    """Return one batch for every process."""
    rows = data(seed=102 + rank, num_rows=1 + rank, graded=True)
    return rows.scores, rows.target


def fed(metric: Any, batches: list[Batch]) -> Any:
    """Return the metric after the batches."""
    for batch in batches:
        metric.update(*batch)
    return metric


def bits(values: Any) -> Any:
    """Return the bits of a value, or of each value of a dict."""
    return (
        {key: bits_of(value) for key, value in values.items()}
        if isinstance(values, dict)
        else bits_of(values)
    )


ALL = [batch for rank in range(WORLD) for batch in batches_of_rank(rank)]
STEPS = [step(rank) for rank in range(WORLD)]
PATTERNS = [[HIT, MISS], [MISS, HIT, HIT], []]
"""First batches: hits on one process, misses on another, none on a third."""


def by_bucket() -> tm.TopKCollection:
    """Return metrics at three cut-offs in eleven buckets."""
    classes = (
        tm.PrecisionAtK,
        tm.RecallAtK,
        tm.F1AtK,
        tm.HitRateAtK,
        tm.NDCGAtK,
        tm.MAP,
        tm.MRR,
    )
    psp = tm.PropensityScoredPrecisionAtK(
        k=3, buckets=BUCKETS, label_counts=COUNTS, num_train=NUM_TRAIN
    )
    return tm.TopKCollection(
        [*(kind([1, 3, 5], buckets=BUCKETS) for kind in classes), psp]
    )


def per_label() -> tm.TopKCollection:
    """Return metrics with counts per label, shared and not, and with flags per
    label.
    """
    arguments: dict[str, Any] = {"k": 3, "num_labels": NUM_LABELS}
    return tm.TopKCollection([
        tm.CatalogCoverageAtK(**arguments),
        tm.GiniAtK(**arguments),
        tm.EntropyAtK(**arguments),
        tm.PositiveCoverageAtK(**arguments),
        tm.F1AtK(average="macro", **arguments),
        tm.RecallAtK(average="none", **arguments),
        tm.KForRecall(min_recall=0.5, buckets=BUCKETS),
    ])  # fmt: skip


def sharing_states() -> tm.TopKCollection:
    """Return two members that hold one state."""
    return tm.TopKCollection(
        {
            "coverage": tm.CatalogCoverageAtK(k=3, num_labels=NUM_LABELS),
            "gini": tm.GiniAtK(k=3, num_labels=NUM_LABELS),
        }
    )


COLLECTIONS = {"by bucket": by_bucket, "per label": per_label}


def torchmetrics_collections() -> list[MetricCollection]:
    """Return collections whose members must not be merged, however the first batches of
    the processes differ.
    """
    members = {
        "p": tm.PrecisionAtK(k=1),
        "r": tm.RecallAtK(k=1),
        "r3": tm.RecallAtK(k=3),
        "a": tm.AccuracyAtK(k=1),
        "m": tm.MRR(k=3),
    }
    members |= {
        "gini": tm.GiniAtK(k=1, num_labels=8),
        "coverage": tm.CatalogCoverageAtK(k=1, num_labels=8),
    }
    return [
        MetricCollection(members),
        MetricCollection(members, compute_groups=False),
        tm.TopKCollection(members),
    ]


def gather(tensor: Tensor, group: Any = None) -> list[Tensor]:
    """Return the tensor of each process, as a function of the user does."""
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
    "a custom gather function": (
        lambda: tm.RecallAtK(k=1, dist_sync_fn=gather),
        lambda: tm.RecallAtK(
            k=2, average="macro", num_labels=NUM_LABELS, dist_sync_fn=gather
        ),
        "k is 1 on process 0 and 2 on process 2, average is 'samples' on process 0 and 'macro' on process",
    ),
    "training counts": (
        lambda: tm.LabelFrequency(12),
        lambda: tm.LabelFrequency(13),
        "num_labels is 12 on process 0 and 13 on process",
    ),
}
"""Different metrics on two processes, and what the error says; test_every_argument.py
has each argument.
"""


@contextmanager
def recorded_collectives() -> Iterator[list[tuple[str, str, int]]]:
    """Record each collective: its name, and for a reduction the type and the number of
    elements.
    """
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
                patched.setattr(
                    distributed, name, recording(name, getattr(distributed, name))
                )
        yield calls


def results_of_process(rank: int, world: int) -> Results:
    """Run every check on one process; the tests compute what a single process gives."""
    results: Results = {}
    for check in (
        results_of_metrics,
        results_of_collections,
        results_of_differences,
        results_of_options,
        results_of_groups,
    ):
        results |= check(rank)
    return results


def results_of_metrics(rank: int) -> Results:
    """Return results of every metric: compute, synced states, unsynchronised values,
    and synchronised forward.
    """
    results = {}
    for case in ONE_OF_EACH:
        metric = fed(case.metric(), batches_of_rank(rank))
        results[f"{case}"] = bits(metric.compute())
    for case in ONE_OF_EACH[::6]:
        metric = fed(case.metric(), batches_of_rank(rank))
        before = bits(metric.metric_state)
        metric.sync()
        results[f"{case} by hand"] = bits(metric.metric_state)
        metric.unsync()
        assert bits(metric.metric_state) == before
        metric.compute()
        metric.update(*step(rank))
        results[f"{case} later"] = bits(metric.compute())
        results[f"{case} local"] = bits(
            fed(case.metric(sync_on_compute=False), [step(rank)]).compute()
        )
        results[f"{case} step"] = bits(case.metric(dist_sync_on_step=True)(*step(rank)))
    return results


def results_of_collections(rank: int) -> Results:
    """Return values of collections, also after later batches on one process, values of
    labels, training counts and collectives.
    """
    results: Results = {}
    for name, factory in COLLECTIONS.items():
        collection = fed(factory(), batches_of_rank(rank))
        # ties the states of members that were never updated
        collection.items(keep_base=True, copy_state=False)
        state_ids = [
            id(state)
            for metric in collection.members().values()
            for state in metric.metric_state.values()
        ]
        with recorded_collectives() as calls:
            results[name] = bits(collection.compute())
        state_ids_after_compute = [
            id(state)
            for metric in collection.members().values()
            for state in metric.metric_state.values()
        ]
        assert state_ids == state_ids_after_compute, (
            "compute gives back the very states, so that members still share them"
        )
        results[f"{name}, calls"] = calls
        # the others have computed since their last batch, and do not know of this one
        if rank == 0:
            collection.update(*step(0))
        results[f"{name}, later"] = bits(collection.compute())
    for number, collection in enumerate(torchmetrics_collections()):
        results[f"pattern {number}"] = bits(fed(collection, PATTERNS[rank]).compute())
    results["values of labels"] = bits(
        fed(per_label(), batches_of_rank(rank)).per_label()
    )
    collection = fed(sharing_states(), batches_of_rank(rank))
    if rank == 0:
        collection.members()["gini"].update(*step(0))
    results["used alone"] = bits(collection.compute())
    collection = fed(sharing_states(), batches_of_rank(rank))
    collection.members()["gini"].reset()
    collection.members()["gini"].update(*step(rank))
    results["reset alone"] = bits(collection.compute())
    frequency = fed(
        tm.LabelFrequency(NUM_LABELS),
        [(target,) for _, target in batches_of_rank(rank)],
    )  # type: ignore[misc]
    with recorded_collectives() as calls:
        results["counts"] = bits(frequency.compute())
    bound = tm.TopKCollection([tm.RecallAtK(k=[1, 3], buckets="deciles")]).bind(
        frequency
    )
    results["bound"] = bits(fed(bound, batches_of_rank(rank)).compute())
    return results | {"counts, calls": len(calls), "rows": frequency.num_rows}


def results_of_differences(rank: int) -> Results:
    """Return the errors if the last process holds something else; assert that metrics
    are unchanged.
    """
    results: Results = {}
    for name, (usual, other, _) in DIFFERENT.items():
        metric = (other if rank == WORLD - 1 else usual)()
        members = (
            list(metric.members().values())
            if isinstance(metric, tm.TopKCollection)
            else [metric]
        )
        before = [bits(member.metric_state) for member in members]
        try:
            results[name] = f"no error, but {metric.compute()}"
        except ValueError as error:
            results[name] = str(error)
        assert [bits(member.metric_state) for member in members] == before
        assert not any(member._is_synced for member in members), name
    return results | {
        "agreed": bits(fed(tm.RecallAtK(k=3), batches_of_rank(rank)).compute())
    }


def results_of_options(rank: int) -> Results:
    """Return results of options of TorchMetrics: a custom gather function, no
    synchronisation, no cache; and of a compute that fails.
    """
    results: Results = {}
    gathered: list[int] = []

    def counting_gather(tensor: Any, group: Any = None) -> Any:
        gathered.append(1)
        return gather_all_tensors(tensor, group)

    metric = fed(tm.RecallAtK(k=3, dist_sync_fn=counting_gather), batches_of_rank(rank))
    results["own function"] = (
        bits(metric.compute()),
        len(gathered),
        len(metric.metric_state),
    )
    collection = tm.TopKCollection(
        [tm.RecallAtK(k=3, dist_sync_fn=counting_gather), tm.PrecisionAtK(k=3)]
    )
    results["own function in a collection"] = (
        bits(fed(collection, batches_of_rank(rank)).compute()),
        len(gathered),
    )
    for option in (
        {"sync_on_compute": False},
        {"distributed_available_fn": lambda: False},
    ):
        with recorded_collectives() as calls:
            value = bits(fed(tm.RecallAtK(k=3, **option), [step(rank)]).compute())
            together = fed(
                tm.TopKCollection([tm.RecallAtK(k=3, **option)]), [step(rank)]
            ).compute()
        assert calls == []
        results[f"not {next(iter(option))}"] = value, bits(together["recall@3"])
    metric = tm.RecallAtK(k=3)
    metric.sync_on_compute = False
    with recorded_collectives() as calls:
        results["sync_on_compute set later"] = bits(fed(metric, [step(rank)]).compute())
    assert calls == []
    metric = fed(tm.RecallAtK(k=3, compute_with_cache=False), batches_of_rank(rank))
    with recorded_collectives() as calls:
        results["not cached"] = bits(metric.compute()), len(calls)
        metric.compute()
    # in each of three processes: the largest limb is 2^25 times as large
    for rows in (2**35, 2**36):
        metric = fed(tm.RecallAtK(k=1), [HIT])
        for state in metric.metric_state.values():
            state.mul_(rows)
        before = bits(metric.metric_state)
        try:
            results[f"{rows} rows"] = float(metric.compute())
        except ValueError as error:
            results[f"{rows} rows"] = str(error)
        assert bits(metric.metric_state) == before
    unbound = tm.RecallAtK(k=3, buckets="deciles")
    with pytest.raises(
        ValueError, match="RecallAtK: buckets='deciles' has no label counts yet"
    ):
        unbound.compute()
    return results | {"not cached, calls": len(calls), "unbound": unbound._is_synced}


def results_of_groups(rank: int) -> Results:
    """Return values of members of different process groups, in another order on each
    process.
    """
    groups = [distributed.new_group([0, 1]), distributed.new_group([2])]
    group, ranks = (groups[0], [0, 1]) if rank < 2 else (groups[1], [2])
    members = {
        "all": tm.RecallAtK(k=3, name="all"),
        "mine": tm.RecallAtK(k=3, name="mine", process_group=group),
    }
    names = sorted(members, reverse=bool(rank % 2))
    collection = fed(tm.TopKCollection([members[name] for name in names]), [step(rank)])
    with recorded_collectives() as calls:
        values = collection.compute()
    with pytest.raises(
        ValueError,
        match="is not in process_group; compute in the processes of the group only",
    ):
        tm.RecallAtK(k=3, process_group=groups[1] if rank < 2 else groups[0]).compute()
    return {
        "all": bits(values["all"]),
        "mine": bits(values["mine"]),
        "ranks": ranks,
        "group calls": len(calls),
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Results]:
    """Return the results of each process; the processes start once for all tests."""
    return processes.run_on_ranks(
        results_of_process, WORLD, tmp_path_factory.mktemp("ranks")
    )


def bits_of_one_process(metric: Any, batches: list[Batch]) -> Any:
    """Return the bits of the value that one process computes."""
    metric.reset()
    return bits(fed(metric, batches).compute())


@pytest.mark.slow
def test_uneven_batches_and_a_rank_without_any(results: list[Results]) -> None:
    """compute, sync and forward on every process give the bits of one process, with
    uneven batches and a process without any. Between them each process keeps its own
    rows.
    """
    for rank, rank_results in enumerate(results):
        for case in ONE_OF_EACH:
            assert rank_results[str(case)] == bits_of_one_process(case.metric(), ALL), (
                case
            )
        for case in ONE_OF_EACH[::6]:
            metric = case.metric()
            assert rank_results[f"{case} later"] == bits_of_one_process(
                metric, [*ALL, *STEPS]
            ), case
            assert rank_results[f"{case} local"] == bits_of_one_process(
                metric, [step(rank)]
            ), case
            assert rank_results[f"{case} step"] == bits_of_one_process(metric, STEPS), (
                case
            )
            metric.reset()
            assert rank_results[f"{case} by hand"] == bits(
                fed(metric, ALL).metric_state
            ), case


@pytest.mark.slow
def test_collections_give_the_bits_of_one_process(results: list[Results]) -> None:
    """Collections on three processes give the bits of one process: after more rows on
    one of them, for values of labels, for bound buckets, and whatever their first
    batches hit.
    """
    frequency = fed(tm.LabelFrequency(NUM_LABELS), [(target,) for _, target in ALL])  # type: ignore[misc]
    bound = tm.TopKCollection([tm.RecallAtK(k=[1, 3], buckets="deciles")]).bind(
        frequency
    )
    pattern_batches = [batch for batches in PATTERNS for batch in batches]
    for rank_results in results:
        for name, factory in COLLECTIONS.items():
            assert rank_results[name] == bits_of_one_process(factory(), ALL)
            assert rank_results[f"{name}, later"] == bits_of_one_process(
                factory(), [*ALL, step(0)]
            )
        for number, collection in enumerate(torchmetrics_collections()):
            members = collection.items(keep_base=True)
            values = {
                key: fed(metric.clone(), pattern_batches).compute()
                for key, metric in members
            }
            assert list(rank_results[f"pattern {number}"].values()) == list(
                bits(values).values()
            )
        assert rank_results["values of labels"] == bits(
            fed(per_label(), ALL).per_label()
        )
        assert (rank_results["counts"], rank_results["rows"]) == (
            bits(frequency.compute()),
            frequency.num_rows,
        )
        assert rank_results["bound"] == bits_of_one_process(bound, ALL)


@pytest.mark.slow
def test_members_used_alone_on_some_processes_are_added_up(
    results: list[Results],
) -> None:
    """Members that share states give the bits of one process, also after one of them
    was updated alone on one process, or reset alone on all of three processes, of which
    one has had no batch.
    """
    coverage = bits_of_one_process(sharing_states(), ALL)["coverage"]
    gini = bits_of_one_process(sharing_states(), [*ALL, step(0)])["gini"]
    gini_after_reset = bits_of_one_process(sharing_states(), STEPS)["gini"]
    for rank_results in results:
        assert rank_results["used alone"] == {"coverage": coverage, "gini": gini}
        assert rank_results["reset alone"] == {
            "coverage": coverage,
            "gini": gini_after_reset,
        }


@pytest.mark.slow
def test_a_collection_takes_at_most_four_collectives(results: list[Results]) -> None:
    """compute of a collection takes at most four collectives: one to agree, and one for
    each reduction and type.

    They carry as many numbers as the states, and one to check sums.
    """
    sizes = {}
    for name, factory in COLLECTIONS.items():
        collection = fed(factory(), ALL)
        # ties the states that members share
        collection.items(keep_base=True, copy_state=False)
        metrics = [metric for metric in collection.members().values() if metric.keys()]
        states = {
            id(state): state.numel()
            for metric in metrics
            for state in metric.metric_state.values()
        }
        sizes[name] = sum(states.values())
    for rank_results in results:
        assert [call[:2] for call in rank_results["by bucket, calls"]] == [
            ("all_reduce", "torch.int64")
        ] * 2
        types = [call[:2] for call in rank_results["per label, calls"]]
        assert len(types) <= 4
        assert sorted(set(types)) == [
            ("all_reduce", f"torch.{kind}") for kind in ("int64", "uint8")
        ]
        for name, size in sizes.items():
            assert (
                sum(numel for _, _, numel in rank_results[f"{name}, calls"][1:])
                == size + 1
            )
        assert rank_results["counts, calls"] == 2


@pytest.mark.slow
def test_processes_that_differ_raise_everywhere(results: list[Results]) -> None:
    """Processes with different metrics all raise an error that names the metric and the
    difference, and can compute equal metrics afterwards.
    """
    for rank, rank_results in enumerate(results):
        for name, (usual, other, difference) in DIFFERENT.items():
            caller = type((other if rank == WORLD - 1 else usual)()).__name__
            start = f"{caller}: processes do not hold the same metrics, so nothing was added up: "
            assert rank_results[name].startswith(start), rank_results[name]
            assert difference in rank_results[name]
            assert f"on process {WORLD - 1}" in rank_results[name]
            assert "Make the same metrics" in rank_results[name]
        assert rank_results["agreed"] == bits_of_one_process(tm.RecallAtK(k=3), ALL)


@pytest.mark.slow
def test_options_of_torchmetrics_for_synchronisation_are_obeyed(
    results: list[Results],
) -> None:
    """Options of TorchMetrics for synchronisation are obeyed: a custom gather function,
    none, no cache, and process groups of members.
    """
    expected = bits_of_one_process(tm.RecallAtK(k=3), ALL)
    for rank, rank_results in enumerate(results):
        value, calls, states = rank_results["own function"]
        assert (value, calls) == (expected, states + 1), (
            "one call by which processes agree what they add up"
        )
        values = bits_of_one_process(
            tm.TopKCollection([tm.RecallAtK(k=3), tm.PrecisionAtK(k=3)]), ALL
        )
        assert rank_results["own function in a collection"] == (
            values,
            2 * (states + 1),
        )
        local = bits_of_one_process(tm.RecallAtK(k=3), [step(rank)])
        assert (
            rank_results["not sync_on_compute"]
            == rank_results["not distributed_available_fn"]
            == (local, local)
        )
        assert rank_results["sync_on_compute set later"] == local
        assert (rank_results["not cached"], rank_results["not cached, calls"]) == (
            (expected, 2),
            4,
        )
        assert not rank_results["unbound"]
        assert rank_results[f"{2**35} rows"] == 0.5
        assert rank_results[f"{2**36} rows"].startswith(
            "RecallAtK: a state would hold a number of up to 6,9"
        )
        assert rank_results["all"] == bits_of_one_process(tm.RecallAtK(k=3), STEPS)
        assert rank_results["mine"] == bits_of_one_process(
            tm.RecallAtK(k=3), [step(rank) for rank in rank_results["ranks"]]
        )
        assert rank_results["group calls"] == 4
