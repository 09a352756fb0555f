"""States of a metric in checkpoints, merges, copies, TorchScript and on devices; states
that do not fit are refused with a clear error.
"""

import copy
import functools
import pickle
import zlib
from io import BytesIO
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

import tailmetrics as tm
from cases import NUM_LABELS, OF_EACH_BASE, data, fed_with, registered, training_counts
from exactness.bits import CASES_OF_A_KIND, bits, states

BATCHES = [data(seed=seed, num_rows=7, graded=True) for seed in (201, 202, 203)]
SOME_CASES = [case for number, case in enumerate(CASES_OF_A_KIND) if number % 7 == 0]


def collection_of_all_states() -> tm.TopKCollection:
    """Return a bound collection with members of each kind of state, overall and by
    bucket.
    """
    members = [
        tm.NDCGAtK(k=[1, 5], buckets="deciles"),
        *(
            kind(k=5, average="macro", num_labels=NUM_LABELS)
            for kind in (tm.F1AtK, tm.RecallAtK, tm.PrecisionAtK)
        ),
        tm.KForRecall(min_recall=0.5, num_labels=NUM_LABELS),
        tm.PropensityScoredPrecisionAtK(k=3),
        tm.GiniAtK(k=5, buckets="deciles"),
    ]
    return tm.TopKCollection(members).bind(
        tm.LabelFrequency.from_counts(training_counts(), 200)
    )


def packed(metric: Any) -> bytes:
    """Return the states of a metric or collection as a task sends them."""
    file = BytesIO()
    torch.save(metric.state_dict(), file)
    return zlib.compress(file.getvalue())


def unpacked(data: bytes) -> dict[str, Tensor]:
    """Return the states that :func:`packed` packed; loading them runs no code."""
    states_by_name: dict[str, Tensor] = torch.load(
        BytesIO(zlib.decompress(data)), weights_only=True
    )
    return states_by_name


@pytest.mark.parametrize("through_checkpoint", [False, True])
def test_collections_of_several_workers_have_the_bits_of_one(
    through_checkpoint: bool,
) -> None:
    """Collections of several workers, merged in any order into an empty one, directly
    or through a checkpoint, have the bits of one worker. No earlier value is kept.
    """
    parts, whole, merged = (
        [fed_with(collection_of_all_states(), [batch]) for batch in BATCHES],
        fed_with(collection_of_all_states(), BATCHES),
        collection_of_all_states(),
    )
    for part in reversed(parts):
        received = part
        if through_checkpoint:
            part.persistent(True)
            received = fed_with(collection_of_all_states(), BATCHES)
            # what it had counted is gone
            received.load_state_dict(unpacked(packed(part)))
        merged.merge_state(received)
        merged.compute()
    for collection, other in (
        (merged, whole),
        (parts[0], fed_with(collection_of_all_states(), [BATCHES[0]])),
    ):
        for name, metric in collection.members().items():
            assert bits(metric) == bits(other.members()[name])
    fed_with(merged, [BATCHES[0]])
    assert {key: float(value) for key, value in merged.compute().items()} != {
        key: float(value) for key, value in whole.compute().items()
    }


BY_DECILE = tm.LabelBuckets.deciles(training_counts())
BY_OTHERS = tm.LabelBuckets.deciles(training_counts().flip(0))


@pytest.mark.parametrize(
    ("here", "there", "message"),
    [
        (tm.RecallAtK(k=1), tm.PrecisionAtK(k=1), "it is RecallAtK here and PrecisionAtK {there}"),
        (tm.RecallAtK(k=1), tm.RecallAtK(k=2, scope="global"), "k is 1 here and 2 {there}, scope is 'bucket' here and 'global' {there}"),
        (tm.RecallAtK(k=1, buckets=BY_DECILE), tm.RecallAtK(k=1, buckets=BY_OTHERS), "buckets is LabelBuckets .* here and LabelBuckets .* {there}"),
        (tm.RecallAtK(k=1, num_labels=12), tm.RecallAtK(k=1, num_labels=13), "num_labels is 12 here and 13 {there}"),
        (
            tm.PopularityAtK(k=1, label_counts=training_counts()),
            tm.PopularityAtK(k=1, label_counts=training_counts() + 1),
            r"label_counts is int64\(40,\)\w{{8}}… here and int64\(40,\)\w{{8}}… {there}",
        ),
    ],
    ids=["class", "arguments", "buckets", "labels", "counts"],
)  # fmt: skip
def test_merge_of_different_metrics_is_refused_with_the_differences(
    here: Any, there: Any, message: str
) -> None:
    """merge_state refuses a metric with other arguments and names each difference; for
    a collection it names the member. No state changes.
    """
    metric, other = (
        tm.TopKCollection({"first": tm.MRR(), "second": here}),
        tm.TopKCollection({"first": tm.MRR(), "second": there}),
    )
    before = states(here)
    for place, refuse in (
        ("there", lambda: here.merge_state(there)),
        ("there", lambda: metric.merge_state(other)),
    ):
        with pytest.raises(ValueError, match=message.format(there=place)):
            refuse()
    with pytest.raises(
        ValueError, match=r"TopKCollection.merge_state: .* member 2 \('second'\)"
    ):
        metric.merge_state(other)
    assert states(here) == before


def test_a_task_sends_few_bytes_whatever_the_number_of_labels() -> None:
    """The states that a task sends take less than 5 kB for a million labels by decile,
    and give the same values.

    A pickle would hold the buckets, 24 MB.
    """
    counts = torch.arange(1_000_000).flip(0) // 1000
    collection = tm.TopKCollection(
        [
            tm.RecallAtK(k=[1, 5, 10], buckets="deciles"),
            tm.NDCGAtK(k=[1, 5, 10], buckets="deciles"),
            tm.PrecisionAtK(k=[1, 5, 10], buckets="deciles"),
        ]
    ).bind(tm.LabelFrequency.from_counts(counts, 10**6))
    collection.persistent(True)
    ids = torch.randint(
        1_000_000, (1000, 20), generator=torch.Generator().manual_seed(0)
    )
    collection.update(ids, ids[:, ::7])
    data = packed(collection)
    assert len(data) < 5000
    received = collection.clone()
    received.reset()
    received.load_state_dict(unpacked(data))
    assert str(received.compute()) == str(collection.compute())


@pytest.mark.parametrize(
    "factory",
    [lambda: tm.RecallAtK(k=1), collection_of_all_states],
    ids=["metric", "collection"],
)
@pytest.mark.parametrize("strict", [True, False])
def test_a_checkpoint_without_states_is_refused(factory: Any, strict: bool) -> None:
    """load_state_dict refuses a checkpoint without states and names
    ``persistent(True)``, because the rows of a task would be lost in silence. The
    metric is unchanged.
    """
    sent, received = fed_with(factory(), BATCHES[:1]), fed_with(factory(), BATCHES[1:])
    before = str(received.compute())
    with pytest.raises(
        ValueError,
        match=r"load_state_dict: state_dict holds no state of .*call persistent\(True\)",
    ):
        received.load_state_dict(sent.state_dict(), strict=strict)
    assert str(received.compute()) == before


def test_model_loads_a_checkpoint_without_states_of_its_metrics() -> None:
    """A model loads a checkpoint without states of its metrics, which hold none unless
    they are asked for.
    """
    model = nn.ModuleDict(
        {
            "layer": nn.Linear(2, 2),
            "metric": tm.RecallAtK(k=1),
            "metrics": collection_of_all_states(),
        }
    )
    model.load_state_dict(model.state_dict())


def test_states_are_loaded_after_bind() -> None:
    """States load only into a bound metric with the same number of labels; otherwise
    the error says which of the two is missing, also within a model.
    """
    frequency = tm.LabelFrequency.from_counts(training_counts(), 200)
    bound = tm.RecallAtK(k=1).bind(frequency)
    bound.persistent(True)
    saved = bound.state_dict()
    for metric, words in (
        (
            tm.RecallAtK(k=1),
            r"It is not bound, and knows no number of labels: call bind\(frequency\) first",
        ),
        (
            tm.RecallAtK(k=1, num_labels=7),
            r"another number of labels: .*_of_40, and not .*_of_7\.",
        ),
        (
            tm.RecallAtK(k=1, buckets="deciles"),
            r"is not bound yet, and has no states; call bind\(frequency\) before",
        ),
    ):
        with pytest.raises(ValueError, match=rf"RecallAtK.load_state_dict: .*{words}"):
            metric.load_state_dict(saved)
        with pytest.raises(
            RuntimeError, match=rf"RecallAtK.load_state_dict: .*{words}"
        ):
            nn.ModuleDict({"metric": metric}).load_state_dict(
                {f"metric.{name}": state for name, state in saved.items()}
            )


def test_a_checkpoint_of_a_collection_holds_its_references() -> None:
    """A checkpoint of a collection holds the values of its reference models."""

    def make_collection() -> tm.TopKCollection:
        return tm.TopKCollection(
            [tm.RecallAtK(k=1)], references=["chance", "attainable"]
        )

    sent, received = make_collection(), make_collection()
    sent.persistent(True)
    sent.update(BATCHES[0].scores, BATCHES[0].target)
    received.load_state_dict(sent.state_dict())
    assert str(received.references()) == str(sent.references())


def test_names_in_a_checkpoint_are_paths_of_attributes() -> None:
    """Each name in the state_dict of a collection leads from attribute to attribute to
    its tensor: torch.distributed.checkpoint follows these names.
    """
    collection = tm.TopKCollection(
        [tm.RecallAtK(k=1), tm.NDCGAtK(k=3, buckets=BY_DECILE)], references=["chance"]
    ).with_orders()
    collection.persistent(True)
    fed_with(collection, BATCHES[:1])
    for name, saved in collection.state_dict().items():
        state = functools.reduce(getattr, name.split("."), collection)
        assert torch.equal(cast("Tensor", state), saved)


def test_no_orders_are_returned_wherever_the_states_of_a_cut_list_are() -> None:
    """After a cut list, which may separate equal scores, a collection returns no other
    orders; nor does one that loads its states or merges them.
    """

    def make_collection() -> tm.TopKCollection:
        return tm.TopKCollection([tm.RecallAtK(k=1)]).with_orders()

    ids = torch.arange(NUM_LABELS).expand(len(BATCHES[1].scores), -1)
    cut_list = tm.rank(
        (BATCHES[1].scores, ids), BATCHES[1].target, depth=3, complete=False
    )
    nothing: dict[str, Any] = {"worst": {}, "expected": {}, "best": {}}
    sent, received, merged = (make_collection() for _ in range(3))
    sent.persistent(True)
    for collection in (sent, merged):
        fed_with(collection, BATCHES[:1])
        assert all(collection.orders().values())
    sent.update(cut_list)
    assert sent.orders() == nothing

    received.load_state_dict(sent.state_dict())
    merged.merge_state(received)
    assert received.orders() == nothing
    assert merged.orders() == nothing
    merged.reset()
    assert all(fed_with(merged, BATCHES[:1]).orders().values())


def test_only_orders_count_batches_that_they_leave_out() -> None:
    """A checkpoint counts cut lists for other orders alone: reference models have values
    of every batch.
    """
    collection = tm.TopKCollection(
        [tm.RecallAtK(k=1)], references=["chance"]
    ).with_orders()
    collection.persistent(True)
    counts = [name for name in collection.state_dict() if name.endswith("left_out")]
    assert counts == ["other_orders.states.batches_left_out"]


def test_references_and_orders_add_up_processes_as_members_do() -> None:
    """References and orders are those of all processes if members have a
    ``dist_sync_fn`` and a ``distributed_available_fn``; a last member that adds up no
    processes has no part in it.
    """

    def make_collection() -> tm.TopKCollection:
        members = [
            tm.RecallAtK(k=1, buckets=BY_DECILE),
            tm.PrecisionAtK(k=1, sync_on_compute=False),
        ]
        return tm.TopKCollection(members, references=["attainable"]).with_orders()

    def gather_with(process_states: Any) -> Any:
        """Return a function that gathers states of this process and of another one."""
        answers = iter([None, *process_states.metric_state.values()])

        def gather(tensor: Tensor, group: Any = None) -> list[Tensor]:
            answer = next(answers)
            return [tensor, tensor if answer is None else answer]  # first a digest

        return gather

    here, there, whole = (
        fed_with(make_collection(), batches)
        for batches in (BATCHES[:1], BATCHES[1:], BATCHES)
    )
    member, _ = here.members().values()
    member.distributed_available_fn = lambda: True
    member.dist_sync_fn = gather_with(there.reference_models.states)
    assert str(here.references()) == str(whole.references())
    member.dist_sync_fn = gather_with(there.other_orders.states)
    assert str(here.orders()) == str(whole.orders())


TWICE: dict[str, Any] = {
    "dist_sync_fn": lambda tensor, group: [tensor, tensor],
    "distributed_available": lambda: True,
}
"""Arguments of sync with a process that has the same states."""


def calls_on_own_states(metric: Any) -> dict[str, Any]:
    """Return, by name, the calls that need the states of this process alone."""
    other, batch = metric.clone(), (BATCHES[0].scores, BATCHES[0].target)
    other.persistent(True)
    saved = other.state_dict()
    return {
        "update": lambda: metric.update(*batch),
        "forward": lambda: metric(*batch),
        "load_state_dict": lambda: metric.load_state_dict(saved),
        "merge_state": lambda: metric.merge_state(other),
        "bind": lambda: metric.bind(BY_DECILE),
    }


@pytest.mark.parametrize("member_number", [None, 0, 1, 2])
def test_synced_metric_refuses_every_change_of_its_states(
    member_number: int | None,
) -> None:
    """A metric that holds the states of all processes refuses update, forward,
    load_state_dict, merge_state and bind until unsync, after which all is as before. So
    does a collection with one such member, whether it shares states or not.
    """
    by_label: dict[str, Any] = {"k": 3, "num_labels": NUM_LABELS, "average": "macro"}
    recall = tm.RecallAtK(k=3)
    whole = (
        recall
        if member_number is None
        else tm.TopKCollection([recall, tm.F1AtK(**by_label), tm.RecallAtK(**by_label)])
    )
    whole.persistent(True)
    fed_with(whole, BATCHES[:2])
    values, data, calls = (
        whole.scalars() if member_number is None else whole.compute(),
        str(whole.state_dict()),
        calls_on_own_states(whole),
    )
    metric = (
        recall
        if member_number is None
        else list(whole.members().values())[member_number]
    )
    metric.sync(**TWICE)
    for name, call in calls.items():
        with pytest.raises(
            ValueError,
            match=rf"{name}: the states are those of all processes; call unsync\(\) first",
        ):
            call()
    if member_number is not None:
        assert str(whole.compute()) == str(values), (
            "each row counts twice, in one member"
        )
    receiver = fed_with(whole.clone(), [])
    receiver.reset()
    with pytest.raises(
        ValueError,
        match=r"merge_state: the states are those of all processes; call unsync\(\) first",
    ):
        receiver.merge_state(whole)
    metric.unsync()
    assert str(whole.state_dict()) == data
    fed_with(whole, BATCHES[2:])
    assert (
        str(whole.state_dict()) == str(fed_with(whole.clone(), []).state_dict()) != data
    )


def gather_with_misses(tensor: Tensor, group: Any) -> list[Tensor]:
    """Gather states from a process that has seen ten rows without a hit, beside the two
    rows of this one.
    """
    return [tensor, torch.where(tensor == 2, 10, 0) if tensor.ndim > 1 else tensor]


@pytest.mark.parametrize("sync_on_compute", [True, False])
def test_compute_uses_the_states_of_all_processes_between_sync_and_unsync(
    sync_on_compute: bool,
) -> None:
    """compute is over the rows of all processes between sync and unsync, and over those
    of this process before and after: one hit in two rows, and in twelve.
    """
    metric = tm.RecallAtK(k=1, sync_on_compute=sync_on_compute)
    metric.update(torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([0, 1]))
    for _ in range(2):
        assert float(metric.compute()) == 1 / 2
        metric.sync(**TWICE | {"dist_sync_fn": gather_with_misses})
        assert [float(metric.compute()) for _ in range(2)] == [1 / 12] * 2
        metric.unsync()


def metric_of_rows(rows: int, **arguments: Any) -> tm.RecallAtK:
    """Return a metric that has seen this number of rows, half of them hits."""
    metric = fed_with(tm.RecallAtK(k=1, **arguments), [])
    metric.update(torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([0, 1]))
    for state in metric.metric_state.values():
        state.mul_(rows // 2)
    return metric


def test_sums_that_states_have_no_room_for_are_refused_with_the_number() -> None:
    """Sums that exceed a state are refused with the number, in merge_state, sync and
    load_state_dict, and change nothing. The largest limb is 2^25 for each row, half of
    which are hits, so that 2^37 rows fit.
    """
    metric, large_metric = metric_of_rows(2**35), metric_of_rows(3 * 2**35)
    metric.merge_state(metric_of_rows(2**35))
    assert float(metric.compute()) == 0.5
    before = states(metric)
    metric.sync(**TWICE | {"dist_sync_fn": lambda tensor, group: [tensor]})
    metric.unsync()
    too_large = torch.full_like(next(iter(metric.metric_state.values())), 2**62 + 1)
    metric.persistent(True)
    name = next(iter(metric.metric_state))
    with pytest.raises(
        ValueError,
        match=r"RecallAtK.merge_state: a state would hold .* up to 5,764,607,523,034,234,880",
    ):
        metric.merge_state(large_metric)
    with pytest.raises(
        ValueError,
        match=r"RecallAtK: a state would hold .* up to 6,917,529,027,641,081,856; it has room",
    ):
        large_metric.sync(**TWICE)
    for refuse in (
        lambda: metric.load_state_dict({**metric.state_dict(), name: too_large}),
        lambda: metric.merge_state({**metric.metric_state, name: too_large}),
    ):
        with pytest.raises(
            (ValueError, RuntimeError),
            match=f"{name} holds 4,611,686,018,427,387,905, .* room",
        ):
            refuse()
    assert states(metric) == before
    assert not large_metric._is_synced


@pytest.mark.parametrize("as_collection", [False, True])
def test_an_update_of_states_that_are_nearly_full_is_refused(
    as_collection: bool,
) -> None:
    """An update that would overflow a state is refused and changes nothing, in a metric
    and in a collection.
    """
    batch = torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([0, 1])
    metric = tm.RecallAtK(k=1)
    holder = tm.TopKCollection([metric]) if as_collection else metric
    for _ in range(2):
        holder.update(*batch)
    for state in metric.metric_state.values():
        state.mul_(2**36 - 1)
    before = states(metric)
    with pytest.raises(
        ValueError,
        match=r"RecallAtK.update: a state would hold .* up to 9,2.*Nothing was changed",
    ):
        holder.update(*batch)
    assert states(metric) == before


def test_after_an_error_within_sync_context_the_states_are_those_of_this_process() -> (
    None
):
    """After an error within sync_context the states are those of this process again,
    and later batches count once.
    """
    metric = fed_with(tm.RecallAtK(k=3), [BATCHES[0]])
    before = states(metric)

    def fail_in_context() -> None:
        with metric.sync_context(**TWICE):
            assert states(metric) != before
            raise ArithmeticError("between sync and unsync")

    with pytest.raises(ArithmeticError):
        fail_in_context()
    assert states(metric) == before
    fed_with(metric, [BATCHES[1]])
    assert states(metric) == states(fed_with(tm.RecallAtK(k=3), BATCHES[:2]))


# copies


class Group:
    """A stand-in for a process group: it belongs to its process, and can neither be
    copied nor pickled.
    """

    def __array__(self, *args: Any) -> Any:
        raise TypeError("cannot be read")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("cannot pickle a group")


def test_copies_share_the_process_group() -> None:
    """clone and deepcopy keep the same process group, alone and within a collection or
    module, and have states of their own.
    """
    group = Group()
    metric = fed_with(tm.RecallAtK(k=3, process_group=group), [BATCHES[0]])
    module = nn.Module()
    module.metrics = tm.TopKCollection([metric])
    module.same = metric
    for metric_copy in (
        metric.clone(),
        copy.deepcopy(metric),
        copy.deepcopy(module).same,
    ):
        assert metric_copy.process_group is group
        assert states(metric_copy) == states(metric)
        before = states(metric)
        fed_with(metric_copy, [BATCHES[1]])
        assert states(metric) == before != states(metric_copy)
    copied = copy.deepcopy(module)
    assert copied.same is next(iter(copied.metrics.members().values()))


def test_pickling_warns_that_the_process_group_is_lost() -> None:
    """Pickling a metric with a process group warns that the group is lost, and says how
    to set it again.
    """
    with pytest.warns(
        UserWarning,
        match="RecallAtK: process_group is not pickled.* set metric.process_group = group",
    ):
        data = pickle.dumps(
            fed_with(tm.RecallAtK(k=3, process_group=Group()), [BATCHES[0]])
        )
    loaded = pickle.loads(data)
    assert loaded.process_group is None
    assert states(fed_with(loaded, [BATCHES[1]])) == states(
        fed_with(tm.RecallAtK(k=3), BATCHES[:2])
    )


# TorchScript, memory, plots


class Model(nn.Module):
    """A model that holds a metric, as a LightningModule does."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.metric = metric

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OF_EACH_BASE, "LabelFrequency", "TopKCollection"])
def test_a_model_that_holds_a_metric_can_be_scripted(name: str) -> None:
    """A model that holds a metric, a LabelFrequency or a collection can be scripted,
    and computes what the model computes.
    """
    others = {
        "LabelFrequency": tm.LabelFrequency(3),
        "TopKCollection": collection_of_all_states(),
    }
    model = Model(others[name] if name in others else registered(name))
    scripted = torch.jit.script(model)
    x = torch.ones(1, 2)
    assert torch.equal(scripted(x), model(x))


COUNTS = training_counts()
WITHOUT_COUNTS = [
    case
    for case in SOME_CASES
    if not case.name.startswith(("Propensity", "Popularity", "Novelty"))
]
FACTORIES = [
    *(case.metric for case in WITHOUT_COUNTS[::4]),
    lambda: tm.PopularityAtK(k=3, label_counts=COUNTS),
]


@pytest.mark.parametrize("factory", FACTORIES)
def test_states_moved_from_meta_are_zero(factory: Any) -> None:
    """A metric made on the meta device and moved by to_empty has states of zero, at
    once and after a reset, and counts as any other.
    """
    with torch.device("meta"):
        module = nn.Module()
        module.inner, single = factory(), factory()
    for metric in (module.to_empty(device="cpu").inner, single.to_empty(device="cpu")):
        assert all(not state.any() for state in metric.metric_state.values())
        for state in metric._defaults.values():
            assert not state.any()
        metric.reset()
        assert states(fed_with(metric, BATCHES)) == states(fed_with(factory(), BATCHES))


def test_plot_bounds_follow_from_bounds_and_stem() -> None:
    """plot_lower_bound, plot_upper_bound and plot_legend_name follow from the bounds
    and the stem of a metric, unless a class defines its own.
    """
    assert (
        tm.NDCGAtK.plot_lower_bound,
        tm.NDCGAtK.plot_upper_bound,
        tm.NDCGAtK.plot_legend_name,
    ) == (0.0, 1.0, "ndcg")
    assert (tm.DCGAtK(k=3).plot_lower_bound, tm.DCGAtK(k=3).plot_upper_bound) == (
        0.0,
        None,
    )

    class Own(tm.RecallAtK):  # type: ignore[misc]
        bounds = (0.0, 0.5)
        plot_legend_name = "own"

    assert (Own.plot_lower_bound, Own.plot_upper_bound, Own.plot_legend_name) == (
        0.0,
        0.5,
        "own",
    )
