"""TorchMetrics' own way of testing a metric, for every metric: per batch, over batches, pickled, cloned, reset, reused."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from cases import NUM_LABELS, Case, data
from exactness.bits import ONE_OF_EACH, bits, bits_of, states
from oracle import evaluate
from tailmetrics import LabelBuckets, LabelFrequency, PrecisionAtK, RecallAtK, TopKCollection, rank
from tailmetrics.metrics import TopKMetric

BATCHES = [data(seed=seed, num_rows=rows, graded=True, ties=False) for seed, rows in ((51, 5), (52, 12), (53, 2))]
CONSTANTS = ("higher_is_better", "is_differentiable", "full_state_update", "plot_lower_bound", "plot_upper_bound")

every_metric = pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)


def fed(metric: Any, batches: Any = BATCHES) -> Any:
    """The metric after the batches."""
    for batch in batches:
        metric.update(batch.scores, batch.target)
    return metric


BITS: dict[str, Any] = {}


def bits_of_every_batch(case: Case) -> Any:
    """The bits of a new metric after all batches, found once for each case."""
    if str(case) not in BITS:
        BITS[str(case)] = bits(fed(case.metric()))
    return BITS[str(case)]


def reference(case: Case, rows: list[Any]) -> torch.Tensor:
    """What plain loops say."""
    return torch.tensor([evaluate(case.name, rows, case.setting(k)) for k in case.cutoffs()], dtype=torch.float64)


def assert_is_reference(case: Case, found: torch.Tensor, rows: list[Any]) -> None:
    """Compare with plain loops; where there is nothing to average over, 0 and NaN are both read so."""
    wanted = reference(case, rows)
    found = found.reshape(wanted.shape)
    if case.arguments.get("average") in ("macro", "weighted"):
        found, wanted = found.nan_to_num(0.0), wanted.nan_to_num(0.0)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("case", [case for case in ONE_OF_EACH if case.name != "TieRateAtK"], ids=str)
def test_forward_gives_the_value_of_each_batch_and_compute_that_of_all(case: Case) -> None:
    """TorchMetrics' per-batch and accumulated comparison with a reference; ties are compared in test_fuzz.py."""
    metric = case.metric()
    for batch in BATCHES:
        assert_is_reference(case, metric(batch.scores, batch.target), batch.rows)
    assert_is_reference(case, metric.compute(), [row for batch in BATCHES for row in batch.rows])
    assert metric._update_count == len(BATCHES)


@every_metric
def test_output_shape_and_type(case: Case) -> None:
    """float64, (), (len(k),), (G,) or (len(k), G), in step with the keys, without a gradient."""
    metric = fed(case.metric())
    value = metric.compute()
    several = [len(case.arguments["k"])] if isinstance(case.arguments.get("k"), list) else []
    wanted = several + ([11] if case.by is not None else [])
    assert list(value.shape) == ([] if wanted == [1] else wanted)
    assert value.dtype == torch.float64
    assert not value.requires_grad
    scalars = metric.scalars()
    assert all(scalar.shape == () for scalar in scalars.values())
    assert list(scalars) == metric.keys()


@every_metric
def test_pickled_cloned_and_deep_copied_metrics_go_on_alone(case: Case) -> None:
    """A copy has the same state, shares none of it, and is updated as the original would be."""
    metric = fed(case.metric(), BATCHES[:2])
    for copy in (pickle.loads(pickle.dumps(metric)), metric.clone()):
        assert type(copy) is type(metric) and copy is not metric
        assert states(copy) == states(metric)
        before = states(metric)
        copy.update(BATCHES[2].scores, BATCHES[2].target)
        assert states(metric) == before
        assert bits(copy) == bits_of_every_batch(case)


@every_metric
def test_reset_leaves_no_trace(case: Case) -> None:
    """After a reset a metric is as new, state by state; used again it gives what a new one gives."""
    metric, new = fed(case.metric()), case.metric()
    metric.compute()
    metric.reset()
    assert states(metric) == states(new)
    assert bits(fed(metric, BATCHES[1:])) == bits(fed(new, BATCHES[1:]))


@every_metric
def test_states_are_accumulated_not_overwritten(case: Case) -> None:
    """Two updates are one update with both batches, and differ from the last one alone in some state."""
    first, second = BATCHES[:2]
    both, at_once, last = fed(case.metric(), [first, second]), case.metric(), fed(case.metric(), [second])
    at_once.update(torch.cat([first.scores, second.scores]), torch.cat([first.target, second.target]))
    assert {**states(at_once), "updates": 2} == states(both)
    assert {**states(last), "updates": 2} != states(both)


@every_metric
def test_compute_is_repeatable_and_forgets_nothing(case: Case) -> None:
    """compute twice is the same; an update after it counts; forward in between counts too."""
    metric = fed(case.metric(), BATCHES[:1])
    assert bits(metric) == bits(metric) == bits(fed(case.metric(), BATCHES[:1]))
    metric(BATCHES[1].scores, BATCHES[1].target)
    metric.compute()
    metric.update(BATCHES[2].scores, BATCHES[2].target)
    assert bits(metric) == bits_of_every_batch(case)


@every_metric
def test_constants_and_hash(case: Case) -> None:
    """Declarations cannot be assigned; the hash survives updates and resets, and differs between objects."""
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


@every_metric
def test_state_dict_round_trip(case: Case) -> None:
    """Nothing is saved by default; with persistent(True) everything is, as own tensors, through a file."""
    metric = fed(case.metric(), BATCHES[:2])
    assert metric.state_dict() == {}
    metric.persistent(True)
    saved = metric.state_dict()
    assert set(saved) == set(metric.metric_state)
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    buffer.seek(0)
    other = case.metric()
    other.persistent(True)
    loaded = torch.load(buffer, weights_only=True)
    other.load_state_dict(loaded)
    other.update(BATCHES[2].scores, BATCHES[2].target)
    assert bits(other) == bits_of_every_batch(case)
    assert {name: bits_of(value) for name, value in saved.items()} == {
        name: bits_of(value) for name, value in loaded.items()
    }
    assert metric.state_dict().keys() == saved.keys()


def wrong(state: torch.Tensor) -> list[Any]:
    """States that look like this one and are not."""
    return [torch.cat([state, state]), state[:0], state.double(), state.unsqueeze(0), state.tolist()]


@every_metric
def test_a_state_of_the_wrong_shape_or_type_is_not_loaded(case: Case) -> None:
    """The error says which state has which shape and which is needed; the metric keeps what it has."""
    metric = fed(case.metric())
    metric.persistent(True)
    saved, before = metric.state_dict(), states(metric)
    name = next(iter(saved))
    for other in wrong(saved[name]):
        with pytest.raises(RuntimeError, match=rf"{case.name}.load_state_dict: {name} is .*is needed"):
            metric.load_state_dict({**saved, name: other})
        assert states(metric) == before
    with pytest.raises(RuntimeError, match=name):
        metric.load_state_dict({key: value for key, value in saved.items() if key != name})
    assert states(metric) == before
    with pytest.raises(RuntimeError, match="Missing key"):
        metric.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        metric.load_state_dict({**saved, "other": saved[name]})


@every_metric
def test_a_state_of_the_wrong_shape_is_not_merged(case: Case) -> None:
    """merge_state refuses states of other shapes, missing ones and other objects, and leaves the metric as it was."""
    metric = fed(case.metric())
    before = states(metric)
    name = next(iter(metric.metric_state))
    for other in wrong(metric.metric_state[name]):
        with pytest.raises(ValueError, match=rf"{case.name}.merge_state: .* other states: {name} is .*is needed"):
            metric.merge_state({**metric.metric_state, name: other})
    with pytest.raises(ValueError, match=f"{case.name}.merge_state: .*: {name} is missing"):
        metric.merge_state({})
    for other in ("text", None, RecallAtK(k=[77]), LabelFrequency(3)):
        with pytest.raises((TypeError, ValueError), match="merge_state: (got a|what is to be merged)"):
            metric.merge_state(other)
    assert states(metric) == before


@every_metric
def test_merging_adds_and_drops_a_cached_value(case: Case) -> None:
    """A merge after compute shows in the next compute, and in the number of updates."""
    metric = fed(case.metric(), BATCHES[:1])
    metric.compute()
    metric.merge_state(fed(case.metric(), BATCHES[1:]))
    assert bits(metric) == bits_of_every_batch(case)
    assert metric._update_count == 3


@every_metric
def test_a_failed_update_or_forward_leaves_the_metric_as_before(case: Case) -> None:
    """State, update count, and what forward keeps aside: all as before, and usable."""
    metric = fed(case.metric())
    before = states(metric)
    nan = torch.full((2, NUM_LABELS), torch.nan)
    for fail in (metric.update, metric):
        with pytest.raises(ValueError, match=f"{case.name}: preds holds NaN in row 0"):
            fail(nan, torch.tensor([0, 1]))
        assert states(metric) == before
    assert metric._to_sync and metric._should_unsync and not metric._is_synced and not metric.compute_on_cpu
    assert bits(metric) == bits_of_every_batch(case)


NOT_DEFAULT = {
    "dist_sync_on_step": True,
    "sync_on_compute": False,
    "compute_on_cpu": True,
    "compute_with_cache": False,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "options"),
    [pytest.param(case, NOT_DEFAULT, id=f"{case}-all") for case in ONE_OF_EACH]
    + [
        pytest.param(case, {name: value}, id=f"{case}-{name}")
        for case in ONE_OF_EACH
        if case.name in ("F1AtK", "NDCGAtK", "GiniAtK", "KForRecall")
        for name, value in NOT_DEFAULT.items()
    ],
)
def test_keywords_of_torchmetrics_change_no_value(case: Case, options: dict[str, bool]) -> None:
    """All together, and one by one where states differ; alone in its process a metric gives the same values."""
    metric = case.metric(**options)
    metric.update(BATCHES[0].scores, BATCHES[0].target)
    value = metric(BATCHES[1].scores, BATCHES[1].target)
    metric.update(BATCHES[2].scores, BATCHES[2].target)
    assert bits(metric) == bits_of_every_batch(case)
    assert bits_of(value) == bits(fed(case.metric(), BATCHES[1:2]))


@every_metric
def test_what_a_reset_in_inference_mode_leaves_can_be_updated(case: Case) -> None:
    """Lightning validates, and resets, in inference mode; sanity checks come before training does."""
    metric = fed(case.metric())
    with torch.inference_mode():
        metric.reset()
        fed(metric, BATCHES[:1])
    fed(metric, BATCHES[1:])
    assert bits(metric) == bits_of_every_batch(case)
    with torch.inference_mode():
        fed(metric)
    clone = metric.clone()
    clone.update(BATCHES[0].scores, BATCHES[0].target)


@every_metric
def test_a_metric_within_a_module_is_checkpointed_with_it(case: Case) -> None:
    """Under its name, only when persistent, next to the parameters; strict loading of both works."""
    model, other = nn.Module(), nn.Module()
    for module in (model, other):
        module.layer = nn.Linear(2, 2)
        module.metric = case.metric()
    fed(model.metric)
    assert set(model.state_dict()) == {"layer.weight", "layer.bias"}
    other.load_state_dict(model.state_dict())
    for module in (model, other):
        module.metric.persistent(True)
    other.load_state_dict(model.state_dict())
    assert bits(other.metric) == bits(model.metric)


def test_training_counts_live_like_a_metric() -> None:
    """LabelFrequency: forward, clone, pickle, reset, checkpoint, merge, wrong shapes, errors."""
    frequency = LabelFrequency(NUM_LABELS)
    values = [frequency(batch.target) for batch in BATCHES]
    assert [value.tolist() for value in values] == [(batch.target > 0).sum(dim=0).tolist() for batch in BATCHES]
    counts = frequency.compute().tolist()
    assert counts == torch.stack(values).sum(dim=0).tolist()
    for copy in (frequency.clone(), pickle.loads(pickle.dumps(frequency))):
        copy.update(BATCHES[0].target)
        assert frequency.compute().tolist() == counts != copy.compute().tolist()
    before = states(frequency)
    for fail in (frequency.update, frequency):
        with pytest.raises(ValueError, match="LabelFrequency: target holds the id 40"):
            fail(torch.tensor([NUM_LABELS]))
        assert states(frequency) == before
    frequency.persistent(True)
    other = LabelFrequency(NUM_LABELS + 1)
    other.persistent(True)
    with pytest.raises(RuntimeError, match="LabelFrequency.load_state_dict: counts is int64 .40., but int64 .41."):
        other.load_state_dict(frequency.state_dict())
    for wrong_length in (NUM_LABELS + 1, 1):
        with pytest.raises(ValueError, match="LabelFrequency.merge_state: .*: num_labels is 40 here and .* there"):
            frequency.merge_state(LabelFrequency(wrong_length))
    assert states(frequency) == before
    with torch.inference_mode():
        frequency.reset()
    frequency.update(BATCHES[0].target)
    assert frequency.compute().tolist() == values[0].tolist()
    assert hash(frequency) == hash(frequency)


def test_completed_late_a_metric_is_the_same_metric() -> None:
    """buckets='deciles' and bind give the bits of the buckets themselves; before that an update is a clear error."""
    frequency = LabelFrequency(NUM_LABELS)
    frequency.update(BATCHES[1].target)
    early = RecallAtK(k=[1, 3], buckets=frequency.deciles())
    late = RecallAtK(k=[1, 3], buckets="deciles")
    for call in (lambda: fed(late), late.compute, lambda: late(BATCHES[0].scores, BATCHES[0].target)):
        with pytest.raises(ValueError, match="RecallAtK: buckets='deciles' has no label counts yet; call bind"):
            call()
    assert late._update_count == 0
    late.persistent(True)
    assert late.bind(frequency) is late
    assert bits(fed(late)) == bits(fed(early))
    assert set(late.state_dict()) == set(late.metric_state), "persistent(True) before bind holds after it"
    with pytest.raises(ValueError, match="RecallAtK: bind after 3 updates"):
        late.bind(frequency)
    late.reset()
    assert bits(fed(late.bind(LabelBuckets.deciles(frequency.compute())))) == bits(fed(early))


def test_a_checkpoint_of_an_unbound_metric_and_of_other_buckets_is_refused() -> None:
    """States carry the buckets they were counted in: those of others do not load, whatever their shape."""
    one = RecallAtK(k=1, buckets=LabelBuckets.from_assignment([0] * 20 + [1] * 20, ["head", "tail"]))
    other = RecallAtK(k=1, buckets=LabelBuckets.from_assignment([0] * 21 + [1] * 19, ["head", "tail"]))
    for metric in (one, other):
        metric.persistent(True)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict(one.state_dict())
    with pytest.raises(ValueError, match="buckets is LabelBuckets .* here and LabelBuckets .* there"):
        other.merge_state(one)


@pytest.mark.parametrize("members", [{"k": [1, 3]}, {"k": 1, "by": True}], ids=["several k", "buckets"])
def test_a_collection_with_a_dict_for_output_goes_through_the_same(members: dict[str, Any]) -> None:
    """TopKCollection: batch values, accumulated values, pickle, clone, reset, checkpoint."""
    buckets = LabelBuckets.from_assignment([0] * 20 + [1] * 20, ["head", "tail"]) if members.pop("by", None) else None

    def made() -> TopKCollection:
        return TopKCollection([RecallAtK(**members, buckets=buckets), *extra()], prefix="val/")

    def extra() -> list[TopKMetric]:
        return [
            case.metric() for case in ONE_OF_EACH if case.name in ("GiniAtK", "EntropyAtK", "MRR") and case.by is None
        ]

    def values(collection: TopKCollection) -> dict[str, Any]:
        return {key: bits_of(value) for key, value in collection.compute().items()}

    collection, whole = made(), fed(made())
    for batch in BATCHES:
        of_batch = {key: bits_of(value) for key, value in collection(batch.scores, batch.target).items()}
        assert of_batch == values(fed(made(), [batch]))
    assert values(collection) == values(whole)
    for copy in (pickle.loads(pickle.dumps(whole)), whole.clone()):
        assert values(copy) == values(whole)
        fed(copy, BATCHES[:1])
        assert values(collection) == values(whole) != values(copy)
    renamed = whole.clone(prefix="test/")
    assert [key.replace("test/", "val/") for key in renamed.compute()] == list(whole.compute())
    whole.persistent(True)
    other = made()
    other.persistent(True)
    fed(other, BATCHES[:1])
    other.load_state_dict(whole.state_dict())
    assert values(other) == values(whole)
    assert values(fed(other)) == values(fed(fed(made())))
    whole.reset()
    assert values(fed(whole, BATCHES[1:])) == values(fed(made(), BATCHES[1:]))


def test_ids_behind_what_is_read_are_checked_in_the_first_batch_alone() -> None:
    """A metric at 2 refuses a repeated third id at first; later it counts the two that it reads, and checks those."""
    metric = PrecisionAtK(2)
    target = torch.tensor([[1]])
    with pytest.raises(ValueError, match="names the label 7 twice in row 0"):
        metric.update(torch.tensor([[1, 2, 7, 7]]), target)
    metric.update(torch.tensor([[1, 2, 7, 8]]), target)
    metric.update(torch.tensor([[3, 4, 7, 7]]), target)
    assert float(metric.compute()) == 0.25
    with pytest.raises(ValueError, match="names the label 1 twice in row 0"):
        metric.update(torch.tensor([[1, 1, 7, 8]]), target)
    with pytest.raises(ValueError, match="names the label 7 twice in row 0"):
        rank(torch.tensor([[3, 4, 7, 7]]), target)
