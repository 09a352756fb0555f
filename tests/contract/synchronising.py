"""What each of several processes does in tests/contract/test_synchronisation.py; imported by the processes themselves."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torchmetrics.utilities.distributed import gather_all_tensors

from cases import BUCKETS, NUM_LABELS, NUM_TRAIN, data, training_counts
from exactness.bits import bits_of
from tailmetrics import (
    MAP,
    MRR,
    CatalogCoverageAtK,
    DCGAtK,
    EntropyAtK,
    F1AtK,
    F1AtThreshold,
    GiniAtK,
    HitRateAtK,
    KForRecall,
    LabelBuckets,
    LabelFrequency,
    NDCGAtK,
    NormalizedRecallAtK,
    NoveltyAtK,
    PopularityAtK,
    PositiveCoverageAtK,
    PrecisionAtK,
    PropensityScoredPrecisionAtK,
    RecallAtK,
    TopKCollection,
)

Found = dict[str, Any]

WORLDS = (4, 3, 2)
COUNTS = training_counts()
OTHER_BUCKETS = LabelBuckets.deciles(COUNTS.flip(0))
COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_to_all", "barrier", "broadcast",
    "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter",
)  # fmt: skip


def psp(**more: Any) -> PropensityScoredPrecisionAtK:
    """A metric that reads training counts."""
    return PropensityScoredPrecisionAtK(**{"k": 3, "label_counts": COUNTS, "num_train": NUM_TRAIN, **more})


def ten(k: Any = (1, 3, 5)) -> TopKCollection:
    """Ten metrics at three cut-offs in eleven buckets."""
    classes = (PrecisionAtK, RecallAtK, F1AtK, HitRateAtK, NormalizedRecallAtK, NDCGAtK, DCGAtK, MAP, MRR)
    return TopKCollection([*(one(k, buckets=BUCKETS) for one in classes), psp(k=k, buckets=BUCKETS)])


def per_label() -> TopKCollection:
    """Counts per label, shared and not, and flags per label."""
    return TopKCollection([
        CatalogCoverageAtK(k=3, num_labels=NUM_LABELS),
        GiniAtK(k=3, num_labels=NUM_LABELS),
        EntropyAtK(k=3, num_labels=NUM_LABELS),
        PositiveCoverageAtK(k=(1, 3), num_labels=NUM_LABELS),
        F1AtK(k=3, average="macro", num_labels=NUM_LABELS),
        RecallAtK(k=3, average="none", num_labels=NUM_LABELS),
        KForRecall(min_recall=0.5, buckets=BUCKETS),
    ])  # fmt: skip


Pair = tuple[Callable[[], Any], Callable[[], Any]]

DIFFERENT: dict[str, tuple[Pair, str]] = {
    "class": (
        (lambda: PrecisionAtK(k=5), lambda: RecallAtK(k=5)),
        "it is PrecisionAtK on process 0 and RecallAtK on process",
    ),
    "k": ((lambda: RecallAtK(k=1), lambda: RecallAtK(k=5)), "k is 1 on process 0 and 5 on process"),
    "several k": ((lambda: RecallAtK(k=5), lambda: RecallAtK(k=[5])), "k is 5 on process 0 and (5) on process"),
    "scope": (
        (lambda: RecallAtK(k=1, buckets=BUCKETS), lambda: RecallAtK(k=1, buckets=BUCKETS, scope="global")),
        "scope is 'bucket' on process 0 and 'global' on process",
    ),
    "deciles": (
        (lambda: RecallAtK(k=1, buckets=BUCKETS), lambda: RecallAtK(k=1, buckets=OTHER_BUCKETS)),
        f"buckets is LabelBuckets {BUCKETS.digest[:8]}… on process 0 and LabelBuckets {OTHER_BUCKETS.digest[:8]}… on",
    ),
    "no buckets": (
        (lambda: RecallAtK(k=1), lambda: RecallAtK(k=1, buckets=BUCKETS)),
        "buckets is None on process 0 and LabelBuckets",
    ),
    "not bound": (
        (lambda: RecallAtK(k=1, buckets=BUCKETS), lambda: RecallAtK(k=1, buckets="deciles")),
        "on process 0 and 'deciles' on process",
    ),
    "labels": (
        (lambda: CatalogCoverageAtK(k=1, num_labels=12), lambda: CatalogCoverageAtK(k=1, num_labels=13)),
        "num_labels is 12 on process 0 and 13 on process",
    ),
    "counts that states do not show": (
        (lambda: PopularityAtK(k=1, label_counts=COUNTS), lambda: PopularityAtK(k=1, label_counts=COUNTS + 1)),
        "label_counts is int64(40,)",
    ),
    "counts": ((lambda: psp(), lambda: psp(label_counts=COUNTS.flip(0))), "label_counts is int64(40,)"),
    "a number": ((lambda: psp(a=0.5), lambda: psp(a=0.6)), "a is 0.5 on process 0 and 0.6 on process"),
    "training rows": (
        (
            lambda: NoveltyAtK(k=1, label_counts=COUNTS, num_train=200),
            lambda: NoveltyAtK(k=1, label_counts=COUNTS, num_train=201),
        ),
        "num_train is 200 on process 0 and 201 on process",
    ),
    "empty targets": (
        (lambda: RecallAtK(k=1), lambda: RecallAtK(k=1, empty_target_action="skip")),
        "empty_target_action is",
    ),
    "average": (
        (
            lambda: F1AtK(k=1, average="macro", num_labels=NUM_LABELS),
            lambda: F1AtK(k=1, average="weighted", num_labels=NUM_LABELS),
        ),
        "average is 'macro' on process 0 and 'weighted' on process",
    ),
    "gain": (
        (lambda: NDCGAtK(k=1), lambda: NDCGAtK(k=1, gain="exponential")),
        "gain is 'linear' on process 0 and 'exp",
    ),
    "least gain": (
        (lambda: RecallAtK(k=1), lambda: RecallAtK(k=1, min_gain=2.0)),
        "min_gain is None on process 0 and 2.0",
    ),
    "ignored rows": (
        (lambda: RecallAtK(k=1), lambda: RecallAtK(k=1, ignore_index=-100)),
        "ignore_index is None on process 0 and -100 on process",
    ),
    "repeated ids": (
        (lambda: RecallAtK(k=1), lambda: RecallAtK(k=1, duplicates="first")),
        "duplicates is 'error' on process 0 and 'first' on process",
    ),
    "threshold": (
        (lambda: F1AtThreshold(0.5), lambda: F1AtThreshold([0.5, 0.6])),
        "threshold is 0.5 on process 0 and (0.5,0.6) on process",
    ),
    "buckets of other counts and one size": (
        (
            lambda: RecallAtK(k=1, buckets=LabelBuckets.thresholds(COUNTS, [1, 5])),
            lambda: RecallAtK(k=1, buckets=LabelBuckets.thresholds(COUNTS, [1, 6])),
        ),
        "buckets is LabelBuckets",
    ),
    "groups of rows": (
        (lambda: RecallAtK(k=1, row_groups=["a", "b"]), lambda: RecallAtK(k=1, row_groups=["b", "a"])),
        "row_groups is ('a','b') on process 0 and ('b','a') on process",
    ),
    "weights": ((lambda: RecallAtK(k=1), lambda: RecallAtK(k=1, weighted=True)), "weighted is False on process 0"),
    "order of members": (
        (
            lambda: TopKCollection([PrecisionAtK(k=1), RecallAtK(k=1)]),
            lambda: TopKCollection([RecallAtK(k=1), PrecisionAtK(k=1)]),
        ),
        "member 1: it is PrecisionAtK on process 0 and RecallAtK on process",
    ),
    "a member": (
        (
            lambda: TopKCollection([PrecisionAtK(k=1), RecallAtK(k=1)]),
            lambda: TopKCollection([PrecisionAtK(k=1), RecallAtK(k=2)]),
        ),
        "member 2, RecallAtK: k is 1 on process 0 and 2 on process",
    ),
    "number of members": (
        (lambda: TopKCollection([PrecisionAtK(k=1), RecallAtK(k=1)]), lambda: TopKCollection([PrecisionAtK(k=1)])),
        "there are PrecisionAtK, RecallAtK on process 0 and PrecisionAtK on process",
    ),
    "a collection and a metric": (
        (lambda: TopKCollection([PrecisionAtK(k=1), RecallAtK(k=1)]), lambda: PrecisionAtK(k=1)),
        "there are PrecisionAtK, RecallAtK on process 0 and PrecisionAtK on process",
    ),
    "training counts": (
        (lambda: LabelFrequency(12), lambda: LabelFrequency(13)),
        "num_labels is 12 on process 0 and 13 on process",
    ),
}
"""What two processes may hold by mistake, and what the error says of it."""


def share(rank: int, world: int) -> Iterator[tuple[Any, Any]]:
    """The batches of a process, of uneven size; the last process has none."""
    rows = data(seed=107, num_rows=29, graded=True)
    for start in range(rank, 29, world - 1) if rank < world - 1 else ():
        yield rows.scores[start : start + 1], rows.target[start : start + 1]


def fed(metric: Any, rank: int, world: int) -> Any:
    """The metric with the rows of a process."""
    for batch in share(rank, world):
        metric.update(*batch)
    return metric


@contextmanager
def counted() -> Iterator[list[tuple[str, str, int]]]:
    """Record each collective within: its name, and of a reduction the type and the number of elements."""
    calls: list[tuple[str, str, int]] = []
    kept = {name: getattr(distributed, name) for name in COLLECTIVES if hasattr(distributed, name)}

    def recording(name: str) -> Callable[..., Any]:
        def record(*args: Any, **kwargs: Any) -> Any:
            tensor = args[0] if args and isinstance(args[0], torch.Tensor) else torch.empty(0)
            calls.append((name, str(tensor.dtype), tensor.numel()))
            return kept[name](*args, **kwargs)

        return record

    for name in kept:
        setattr(distributed, name, recording(name))
    try:
        yield calls
    finally:
        for name, function in kept.items():
            setattr(distributed, name, function)


def bits(values: Any) -> Any:
    """The bits of a value, or of each value of a dict."""
    return {key: bits_of(value) for key, value in values.items()} if isinstance(values, dict) else bits_of(values)


def different(rank: int, world: int) -> Found:
    """The last process holds something else: the error of each process, and whether the metric is as before."""
    found: Found = {}
    for name, ((one, other), _) in DIFFERENT.items():
        metric = (other if rank == world - 1 else one)()
        members = list(metric.members().values()) if isinstance(metric, TopKCollection) else [metric]
        before = [{key: state.clone() for key, state in member.metric_state.items()} for member in members]
        try:
            found[name] = f"no error, but {metric.compute()}"
        except ValueError as error:
            found[name] = str(error)
        for member, states in zip(members, before, strict=True):
            assert not member._is_synced, name
            assert all(torch.equal(getattr(member, key), state) for key, state in states.items()), name
    metric = fed(RecallAtK(k=3), rank, world)  # and then processes that agree still meet
    return found | {"agreed": bits(metric.compute())}


def collectives(rank: int, world: int) -> Found:
    """The values of collections, and each collective that they took."""
    found: Found = {}
    for name, make in (("ten", ten), ("per label", per_label)):
        collection = fed(make(), rank, world)
        collection.items(keep_base=True, copy_state=False)  # ties the states of members that were never updated
        own = {
            key: [id(state) for state in metric.metric_state.values()] for key, metric in collection.members().items()
        }
        with counted() as calls:
            found[name] = bits(collection.compute())
        again = {
            key: [id(state) for state in metric.metric_state.values()] for key, metric in collection.members().items()
        }
        assert own == again, "compute gives back the very states, so that members still share them"
        with counted() as repeated:
            collection.compute()
        found |= {f"{name}, calls": calls, f"{name}, repeated": repeated}
        if rank == 0:  # the others cannot know of it, and have computed since their last batch
            collection.update(*next(share(0, world)))
        found[f"{name}, later"] = bits(collection.compute())
    frequency = LabelFrequency(NUM_LABELS)
    for _, target in share(rank, world):
        frequency.update(target)
    with counted() as calls:
        found["counts"] = bits(frequency.compute())
    collection = fed(per_label(), rank, world)
    found["values of labels"] = bits(collection.per_label())
    return found | {"counts, calls": calls}


def options(rank: int, world: int) -> Found:
    """TorchMetrics' own ways: a function of one's own, no synchronisation, by hand, cached or not, within forward."""
    found: Found = {}
    gathered: list[int] = []

    def own(tensor: Any, group: Any = None) -> Any:
        gathered.append(1)
        return gather_all_tensors(tensor, group)

    metric = fed(RecallAtK(k=3, dist_sync_fn=own), rank, world)
    found["own function"] = bits(metric.compute()), len(gathered), len(metric.metric_state)
    collection = TopKCollection([RecallAtK(k=3, dist_sync_fn=own), PrecisionAtK(k=3)])
    found["own function in a collection"] = bits(fed(collection, rank, world).compute()), len(gathered)
    for name, option in (
        ("not asked", {"sync_on_compute": False}),
        ("not available", {"distributed_available_fn": not_available}),
    ):
        for kind, metric in (
            ("", RecallAtK(k=3, **option)),
            (" in a collection", TopKCollection([RecallAtK(k=3, **option)])),
        ):
            with counted() as calls:
                found[name + kind] = bits(fed(metric, rank, world).compute())
            assert calls == [], name
    metric = fed(RecallAtK(k=3, compute_with_cache=False), rank, world)
    with counted() as calls:
        found["not cached"] = bits(metric.compute())
        once = len(calls)
        metric.compute()
    found["not cached, calls"] = once, len(calls)
    unbound = RecallAtK(k=3, buckets="deciles")
    for _ in range(2):
        try:
            unbound.compute()
        except ValueError as error:
            found["unbound"] = str(error), unbound._is_synced
    return found


def not_available() -> bool:
    """What a user says who wants no synchronisation."""
    return False


def groups(rank: int, world: int) -> Found:
    """Members of different process groups, in the order that each process likes."""
    first, last = list(range(world // 2)), list(range(world // 2, world))
    made = [distributed.new_group(first), distributed.new_group(last)]
    mine, ranks = (made[0], first) if rank in first else (made[1], last)
    members = {"all": RecallAtK(k=3, name="all"), "mine": RecallAtK(k=3, name="mine", process_group=mine)}
    names = sorted(members, reverse=bool(rank % 2))
    collection = fed(TopKCollection([members[name] for name in names]), rank, world)
    with counted() as calls:
        values = collection.compute()
    other = RecallAtK(k=3, process_group=made[1] if rank in first else made[0])
    try:
        error = str(other.compute())
    except ValueError as raised:
        error = str(raised)
    by_hand = fed(RecallAtK(k=3), rank, world)
    by_hand.sync(process_group=mine)
    states = {name: state.clone() for name, state in by_hand.metric_state.items()}
    by_hand.unsync()
    return {
        "all": bits(values["all"]), "mine": bits(values["mine"]), "ranks": ranks, "calls": len(calls), "error": error,
        "by hand": bits(states),
    }  # fmt: skip


CHECKS = {check.__name__: check for check in (different, collectives, options, groups)}


def work(rank: int, folder: str) -> None:
    """Run every check among 4, 3 and 2 processes; leave what was found in files."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for world in WORLDS:
        if rank >= world:
            continue
        distributed.init_process_group(
            "gloo",
            init_method=f"file://{folder}/meet{world}",
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=90),
        )
        found = {name: check(rank, world) for name, check in CHECKS.items()}
        (Path(folder) / f"{world}-{rank}.pickle").write_bytes(pickle.dumps(found))
        distributed.destroy_process_group()
