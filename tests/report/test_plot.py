"""``metric.plot()``: TorchMetrics' convention for values and steps, bars from head to tail for buckets."""

import math

import matplotlib as mpl
import pytest
import torch
from torchmetrics.classification import MulticlassAccuracy

from cases import BUCKETS, NUM_LABELS, registered
from tailmetrics import CrossEntropy, DCGAtK, KForRecall, PrecisionAtK, RecallAtK, TopKCollection
from tailmetrics.metrics import REGISTRY


@pytest.fixture(autouse=True)
def _no_window():
    mpl.use("Agg")
    yield
    mpl.pyplot.close("all")


def batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(20, NUM_LABELS, generator=generator), torch.randint(NUM_LABELS, (20,), generator=generator)


def updated(metric):
    metric.update(*batch())
    return metric


def drawn(ax):
    """Return the numbers of each line that has markers."""
    return [line.get_ydata() for line in ax.lines if line.get_marker() == "o"]


def test_one_value_is_a_point_as_in_torchmetrics():
    """One value: figure and axes of the same kinds, with the same limits, as a metric of TorchMetrics makes."""
    metric = updated(PrecisionAtK(k=5))
    peer = MulticlassAccuracy(num_classes=NUM_LABELS)
    peer.update(*batch())
    figure, ax = metric.plot()
    peer_figure, peer_ax = peer.plot()
    assert (type(figure), type(ax)) == (type(peer_figure), type(peer_ax))
    assert ax.get_ylim() == peer_ax.get_ylim()
    assert [float(y) for (y,) in drawn(ax)] == [float(metric.compute())]
    assert ax.get_ylabel() == "precision@5"


def test_values_over_steps_are_lines():
    """What forward returned in each step becomes one line per key, over the steps."""
    for metric in (PrecisionAtK(k=5), PrecisionAtK(k=[1, 5])):
        steps = [metric(*batch(seed)) for seed in range(4)]
        _, ax = metric.plot(steps)
        expected = torch.stack(steps).view(4, -1).T.tolist()
        assert [[float(y) for y in line] for line in drawn(ax)] == expected
        assert ax.get_xlabel() == "Step"


def test_axes_that_are_given_are_drawn_in():
    """As in TorchMetrics, no figure comes back then."""
    figure, ax = mpl.pyplot.subplots()
    peer = MulticlassAccuracy(num_classes=NUM_LABELS)
    peer.update(*batch())
    for metric in (peer, updated(PrecisionAtK(k=1)), updated(PrecisionAtK(k=1, buckets=BUCKETS))):
        assert metric.plot(ax=ax) == (None, ax)
    assert mpl.pyplot.get_fignums() == [figure.number]


def test_no_value_and_an_endless_one_have_no_bar():
    """NaN is no bar of height 0, and an infinite cross-entropy does not stretch the axis."""
    metric = CrossEntropy(buckets=BUCKETS)
    values = torch.full((len(BUCKETS),), 2.0, dtype=torch.float64)
    values[0], values[1] = math.nan, math.inf
    _, ax = metric.plot(values)
    assert [bar.get_height() for bar in ax.patches][2:] == [2.0] * (len(BUCKETS) - 2)
    assert all(math.isnan(bar.get_height()) for bar in ax.patches[:2])
    assert ax.get_ylim()[1] < 3


def test_buckets_are_bars_from_head_to_tail():
    """One bar per bucket in the order of the buckets, as high as its value, 0 where there is none, named below."""
    metric = updated(RecallAtK(k=5, buckets=BUCKETS))
    _, ax = metric.plot()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(BUCKETS.names)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(metric.compute().tolist(), nan_ok=True, abs=0)
    middles = [bar.get_x() + bar.get_width() / 2 for bar in ax.patches]
    assert middles == pytest.approx(range(len(BUCKETS)))
    assert ax.get_ylabel() == "recall@5"


def test_cutoffs_stand_side_by_side_in_each_bucket():
    """Several cut-offs by bucket: a bar each, that meet in the middle of the bucket, told apart by a legend."""
    metric = updated(RecallAtK(k=[1, 5], buckets=BUCKETS))
    _, ax = metric.plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["recall@1", "recall@5"]
    first, second = ax.containers
    for bars, values in zip((first, second), metric.compute().tolist(), strict=True):
        assert [bar.get_height() for bar in bars] == pytest.approx(values, nan_ok=True, abs=0)
    assert [bar.get_x() + bar.get_width() for bar in first] == pytest.approx(range(len(BUCKETS)))
    assert [bar.get_x() for bar in second] == pytest.approx(range(len(BUCKETS)))


def test_no_upper_end_where_there_is_none():
    """Values without an upper bound are drawn without one."""
    metric = updated(DCGAtK(k=5))
    assert metric.bounds[1] == math.inf
    _, ax = metric.plot()
    assert len(ax.collections[0].get_segments()) == 1


@pytest.mark.parametrize("name", REGISTRY)
def test_every_metric_plots(name):
    """No metric lacks what a plot needs."""
    figure, _ = updated(registered(name)).plot()
    assert figure.axes


@pytest.mark.parametrize(
    ("val", "message"),
    [
        (torch.zeros(3), r"RecallAtK: value is float32 \[3\]; pass what compute\(\) .* returned, 2 numbers"),
        ([torch.zeros(2), torch.zeros(3)], "2 numbers"),
        ([0.5, 0.5], "value is float; pass"),
        ([], r"val is \[\]"),
        (0.5, "pass a value of compute"),
    ],
)
def test_what_is_no_value_is_refused(val, message):
    """The message says what is needed."""
    with pytest.raises(ValueError, match=message):
        RecallAtK(k=[1, 5]).plot(val)


def collection(**arguments):
    members = [PrecisionAtK(k=[1, 5]), RecallAtK(k=5, buckets=BUCKETS), KForRecall(min_recall=0.5, num_labels=40)]
    return TopKCollection(members, **arguments)


def test_a_collection_plots_each_member():
    """A figure per member, from compute(), a flat dict, or one per step; the prefix makes no difference."""
    metrics = updated(collection(prefix="val/"))
    for val in (None, metrics.compute(), [metrics.compute(), metrics.compute()]):
        plots = metrics.plot(val)
        assert len(plots) == 3
        assert len({id(figure) for figure, _ in plots}) == 3
    (_, points), (_, bars), _ = metrics.plot()
    assert [float(y[0]) for y in drawn(points)] == [
        float(metrics.compute()["val/precision@1"]),
        float(metrics.compute()["val/precision@5"]),
    ]
    assert len(bars.patches) == len(BUCKETS)


def test_a_collection_plots_together():
    """All values in one figure, by key."""
    metrics = updated(TopKCollection([PrecisionAtK(k=[1, 5]), RecallAtK(k=5)]))
    _, ax = metrics.plot(together=True)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["precision@1", "precision@5", "recall@5"]


def test_a_collection_wants_one_axes_per_member():
    """Axes that do not go with the members are refused; those that do are drawn in."""
    metrics = updated(collection())
    _, axes = mpl.pyplot.subplots(3)
    assert [ax for _, ax in metrics.plot(ax=axes)] == list(axes)
    with pytest.raises(ValueError, match="ax holds 2 axes for 3 metrics"):
        metrics.plot(ax=axes[:2])
