"""TorchMetrics' own test of a metric, for every metric: values of a batch and of all,
copies, checkpoints, reset.
"""

import copy
import io
import pickle
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch

from cases import NUM_LABELS, Case, data
from exactness.bits import ONE_OF_EACH, bits, bits_of, states
from tailmetrics import (
    LabelBuckets,
    LabelFrequency,
    PrecisionAtK,
    RecallAtK,
    TopKCollection,
    rank,
)
from tailmetrics.metrics import TopKMetric

BATCHES = [
    data(seed=seed, num_rows=rows, graded=True, ties=False)
    for seed, rows in ((51, 5), (52, 12), (53, 2))
]
CONSTANTS = (
    "higher_is_better",
    "is_differentiable",
    "full_state_update",
    "plot_lower_bound",
    "plot_upper_bound",
)


@dataclass(frozen=True)
class Counts(Case):
    """A case of LabelFrequency, which is used as metrics are, and reads targets
    alone.
    """

    def metric(self, **arguments: Any) -> Any:
        return LabelFrequency(NUM_LABELS, **arguments)


COUNTS = Counts("LabelFrequency")
every_metric = pytest.mark.parametrize("case", [COUNTS, *ONE_OF_EACH], ids=str)


def update_arguments(metric: Any, batch: Any) -> tuple[torch.Tensor, ...]:
    """Return the arguments of an update with a batch."""
    return (
        (batch.target,)
        if isinstance(metric, LabelFrequency)
        else (batch.scores, batch.target)
    )


def fed(metric: Any, batches: Any = BATCHES) -> Any:
    """Return the metric after the batches."""
    for batch in batches:
        metric.update(*update_arguments(metric, batch))
    return metric


BITS: dict[str, Any] = {}


def bits_of_every_batch(case: Case) -> Any:
    """Return the bits of a new metric after all batches, computed once for each
    case.
    """
    if str(case) not in BITS:
        BITS[str(case)] = bits(fed(case.metric()))
    return BITS[str(case)]


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_forward_gives_the_value_of_each_batch_and_compute_that_of_all(
    case: Case,
) -> None:
    """forward returns the value of a batch and compute that of all batches, as float64
    of shape (), (len(k),), (G,) or (len(k), G) in the order of keys. compute is
    repeatable, and later batches count.
    """
    metric = case.metric()
    for number, batch in enumerate(BATCHES):
        assert bits_of(metric(batch.scores, batch.target)) == bits(
            fed(case.metric(), [batch])
        )
        before = bits(fed(case.metric(), BATCHES[: number + 1]))
        assert bits(metric) == before == bits(metric)
    assert metric._update_count == len(BATCHES)
    cutoff_axes = (
        [len(case.arguments["k"])] if isinstance(case.arguments.get("k"), list) else []
    )
    expected = cutoff_axes + ([11] if case.by is not None else [])
    value, scalars = metric.compute(), metric.scalars()
    assert list(value.shape) == ([] if expected == [1] else expected)
    assert (value.dtype, value.requires_grad) == (torch.float64, False)
    assert all(scalar.shape == () for scalar in scalars.values())
    assert list(scalars) == metric.keys()


@every_metric
def test_pickled_cloned_and_deep_copied_metrics_go_on_alone(case: Case) -> None:
    """Copies of a metric and metrics that load its state share nothing with it, and
    count further batches as it would.

    This also holds for what ``torch.multiprocessing`` sends to a process
    (``ForkingPickler``), which shares memory.
    """
    metric = fed(case.metric(), BATCHES[:2])
    assert metric.state_dict() == {}, "nothing is saved unless it is asked for"
    before, loaded, buffer = (
        states(metric),
        fed(case.metric(), BATCHES[2:]),
        io.BytesIO(),
    )
    loaded.compute()
    for holder in (metric, loaded):
        holder.persistent(True)
    assert set(metric.state_dict()) == set(metric.metric_state)
    torch.save(metric.state_dict(), buffer)
    buffer.seek(0)
    # what it had counted is gone
    loaded.load_state_dict(torch.load(buffer, weights_only=True))
    pickled = [
        pickle.loads(pickler.dumps(metric)) for pickler in (pickle, ForkingPickler)
    ]
    for metric_copy in (*pickled, metric.clone(), copy.deepcopy(metric)):
        assert type(metric_copy) is type(metric) and metric_copy is not metric
        assert states(metric_copy) == before
        assert bits(fed(metric_copy, BATCHES[2:])) == bits_of_every_batch(case)
        assert states(metric) == before
    assert bits(fed(loaded, BATCHES[2:])) == bits_of_every_batch(case)
    assert states(metric) == before


@every_metric
def test_a_value_changed_in_place_changes_no_metric(case: Case) -> None:
    """Changing a computed value in place does not change what the metric computes
    next.
    """
    metric = fed(case.metric())
    metric.compute().add_(100)
    assert bits(metric) == bits_of_every_batch(case)


def test_counts_changed_in_place_change_no_bucket() -> None:
    """Changing computed training counts in place does not change buckets: counts 2, 1,
    0 that a user smooths by adding 1 leave the third label unseen.
    """
    frequency = LabelFrequency(num_labels=3)
    frequency.update(torch.tensor([[0, 1], [0, -1]]))
    frequency.compute().add_(1)
    assert frequency.thresholds([1]).assignment.tolist() == [0, 0, 1]
    assert LabelBuckets.thresholds(frequency, [1]).assignment.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("case", "inference"),
    [
        pytest.param(case, at % 2 > 0, id=str(case))
        for at, case in enumerate([COUNTS, *ONE_OF_EACH])
    ],
)
def test_reset_leaves_no_trace(case: Case, inference: bool) -> None:
    """After reset a metric has the states of a new one, also in inference mode, in
    which Lightning validates before it trains.
    """
    metric, new = fed(case.metric()), case.metric()
    metric.compute()
    with torch.inference_mode(inference):
        metric.reset()
        assert states(metric) == states(new)
        fed(metric, BATCHES[:1])
    assert bits(fed(metric, BATCHES[1:])) == bits_of_every_batch(case)
    fed(metric.clone(), BATCHES[:1])


@every_metric
def test_constants_and_hash(case: Case) -> None:
    """Class constants cannot be assigned.

    The hash of a metric survives updates and resets, and differs between objects.
    """
    metric = case.metric()
    for name in CONSTANTS:
        with pytest.raises(RuntimeError, match="Can't change const"):
            setattr(metric, name, True)
    before = hash(metric)
    assert before == hash(fed(metric)) != hash(case.metric())
    metric.reset()
    assert hash(metric) == before
    assert type(metric).higher_is_better in (True, False, None)
    assert metric.full_state_update is False and metric.is_differentiable is False


def invalid_states(state: torch.Tensor) -> list[Any]:
    """Return states of another shape or type."""
    return [
        torch.cat([state, state]),
        state[:0],
        state.double(),
        state.unsqueeze(0),
        state.tolist(),
    ]


@every_metric
def test_a_state_of_the_wrong_shape_or_type_is_not_loaded(case: Case) -> None:
    """A state of the wrong shape or type is neither loaded nor merged; the error names
    the state, its shape and the shape needed. The metric is unchanged.
    """
    metric = fed(case.metric())
    metric.persistent(True)
    saved, before = metric.state_dict(), states(metric)
    name = next(iter(saved))
    for other in invalid_states(saved[name]):
        with pytest.raises(
            RuntimeError, match=rf"{case.name}.load_state_dict: {name} is .*is needed"
        ):
            metric.load_state_dict({**saved, name: other})
        with pytest.raises(
            ValueError,
            match=rf"{case.name}.merge_state: .* other states: {name} is .*is needed",
        ):
            metric.merge_state({**metric.metric_state, name: other})
    without = {key: value for key, value in saved.items() if key != name}
    for loaded, message in (
        (without, name),
        ({}, "holds no state"),
        ({**saved, "other": saved[name]}, "Unexpected key"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=message):
            metric.clone().load_state_dict(loaded)
    with pytest.raises(
        ValueError, match=f"{case.name}.merge_state: .*: {name} is missing"
    ):
        metric.merge_state({})
    for other in ("text", None, RecallAtK(k=[77]), LabelFrequency(3)):
        with pytest.raises(
            (TypeError, ValueError),
            match="merge_state: (got a|the metric to be merged)",
        ):
            metric.merge_state(other)
    assert states(metric) == before


@every_metric
def test_a_failed_update_or_forward_leaves_the_metric_as_before(case: Case) -> None:
    """A failed update or forward leaves the states, the update count and what forward
    sets aside unchanged, and the metric usable.
    """
    metric = fed(case.metric())
    before = states(metric)
    batch = (
        (torch.tensor([NUM_LABELS]),)
        if case is COUNTS
        else (torch.full((2, 40), torch.nan), torch.tensor([0, 1]))
    )
    message = "target holds the id 40" if case is COUNTS else "preds holds NaN in row 0"
    for fail in (metric.update, metric):
        with pytest.raises(ValueError, match=f"{case.name}: {message}"):
            fail(*batch)
        assert states(metric) == before
    assert (
        metric._to_sync
        and metric._should_unsync
        and not metric._is_synced
        and not metric.compute_on_cpu
    )
    assert bits(metric) == bits_of_every_batch(case)


NOT_DEFAULT = {
    "dist_sync_on_step": True,
    "sync_on_compute": False,
    "compute_on_cpu": True,
    "compute_with_cache": False,
}


@every_metric
def test_keywords_of_torchmetrics_change_no_value(case: Case) -> None:
    """Keywords of torchmetrics.Metric, all together and each alone, do not change the
    values of forward and compute in one process.
    """
    options = [NOT_DEFAULT]
    options += (
        [{name: value} for name, value in NOT_DEFAULT.items()]
        if case is ONE_OF_EACH[0]
        else []
    )
    for option in options:
        metric = case.metric(**option)
        fed(metric, BATCHES[:1])
        value = metric(*update_arguments(metric, BATCHES[1]))
        assert bits(fed(metric, BATCHES[2:])) == bits_of_every_batch(case)
        assert bits_of(value) == bits(fed(case.metric(), BATCHES[1:2]))


def test_training_counts_are_those_of_the_batches() -> None:
    """LabelFrequency counts the labels of a batch in forward and of all batches in
    compute. merge_state refuses another number of labels.
    """
    frequency = LabelFrequency(NUM_LABELS)
    values = [frequency(batch.target) for batch in BATCHES]
    assert [value.tolist() for value in values] == [
        (batch.target > 0).sum(dim=0).tolist() for batch in BATCHES
    ]
    assert frequency.compute().tolist() == torch.stack(values).sum(dim=0).tolist()
    for other in (NUM_LABELS + 1, 1):
        with pytest.raises(
            ValueError,
            match="LabelFrequency.merge_state: .*: num_labels is 40 here and .* there",
        ):
            frequency.merge_state(LabelFrequency(other))


def test_bound_metric_equals_the_metric_made_with_the_buckets() -> None:
    """A metric with buckets="deciles" and bind has the bits of the metric made with
    these buckets.

    Before bind an update is a clear error; after an update bind is refused until reset.
    """
    frequency = LabelFrequency(NUM_LABELS)
    frequency.update(BATCHES[1].target)
    early = RecallAtK(k=[1, 3], buckets=frequency.deciles())
    late = RecallAtK(k=[1, 3], buckets="deciles")
    for call in (
        lambda: fed(late),
        late.compute,
        lambda: late(BATCHES[0].scores, BATCHES[0].target),
    ):
        with pytest.raises(
            ValueError,
            match="RecallAtK: buckets='deciles' has no label counts yet; call bind",
        ):
            call()
    assert late._update_count == 0
    late.persistent(True)
    assert late.bind(frequency) is late
    assert bits(fed(late)) == bits(fed(early))
    assert set(late.state_dict()) == set(late.metric_state), (
        "persistent(True) before bind holds after it"
    )
    with pytest.raises(ValueError, match="RecallAtK: bind after 3 updates"):
        late.bind(frequency)
    late.reset()
    assert bits(fed(late.bind(LabelBuckets.deciles(frequency.compute())))) == bits(
        fed(early)
    )


def test_states_of_other_buckets_are_refused() -> None:
    """States that were counted in other buckets are neither loaded nor merged, although
    their shape is the same.
    """
    metric_of_halves = RecallAtK(
        k=1, buckets=LabelBuckets.from_assignment([0] * 20 + [1] * 20, ["head", "tail"])
    )
    other = RecallAtK(
        k=1, buckets=LabelBuckets.from_assignment([0] * 21 + [1] * 19, ["head", "tail"])
    )
    for metric in (metric_of_halves, other):
        metric.persistent(True)
    with pytest.raises(
        ValueError, match="states are of a metric with other arguments or other buckets"
    ):
        other.load_state_dict(metric_of_halves.state_dict())
    with pytest.raises(
        ValueError, match="buckets is LabelBuckets .* here and LabelBuckets .* there"
    ):
        other.merge_state(metric_of_halves)


def test_a_collection_is_saved_and_renamed() -> None:
    """A checkpoint of a collection loads into another one, which continues with the
    same values. clone with another prefix changes the keys, and forward returns the
    values of the batch.
    """
    members: list[TopKMetric] = [
        case.metric()
        for case in ONE_OF_EACH
        if case.name in ("GiniAtK", "MRR") and not case.by
    ]
    new = TopKCollection([RecallAtK(k=[1, 3]), *members], prefix="val/")
    whole, loaded = new.clone(), fed(new.clone(), BATCHES[:1])
    for batch in BATCHES:
        assert str(whole(batch.scores, batch.target)) == str(
            fed(new.clone(), [batch]).compute()
        )
    for holder in (whole, loaded):
        holder.persistent(True)
    loaded.load_state_dict(whole.state_dict())
    assert str(fed(loaded).compute()) == str(fed(whole).compute())
    assert [
        key.replace("test/", "val/") for key in whole.clone(prefix="test/").compute()
    ] == list(whole.compute())


@pytest.mark.parametrize(
    "invalid_ids", [[1, 2, 7, 7], [1, 2, 7, -2], [1, 2, 7, NUM_LABELS], [1, 2, -1, 7]]
)
def test_ids_beyond_the_cutoff_are_checked_in_every_batch(
    invalid_ids: list[int],
) -> None:
    """A metric at k=2 refuses an invalid third or fourth id, whatever batches came
    before.
    """
    metric = PrecisionAtK(2, num_labels=NUM_LABELS)
    target = torch.tensor([[1]])
    for valid_ids in ([1, 2, 7, 8], [3, 4, 7, -1]):
        with pytest.raises(ValueError, match="preds"):
            metric.update(torch.tensor([invalid_ids]), target)
        metric.update(torch.tensor([valid_ids]), target)
    with pytest.raises(ValueError, match="preds"):
        metric.update(torch.tensor([invalid_ids]), target)
    assert float(metric.compute()) == 0.25


@pytest.mark.parametrize(
    "name", ["ids", "values", "targets", "complete", "row_mask", "num_rows"]
)
def test_a_ranking_is_frozen(name: str) -> None:
    """Fields of a ranking cannot be assigned, because a list replaced after its targets
    would give wrong values in silence.
    """
    ranking = rank(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([2]))
    with pytest.raises(AttributeError, match=f"cannot assign to field '{name}'"):
        setattr(ranking, name, None)
    metric = RecallAtK(k=1)
    metric.update(ranking)
    assert float(metric.compute()) == 0
