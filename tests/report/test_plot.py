"""``metric.plot()`` follows TorchMetrics for values and steps, and draws bars from head
to tail for buckets.
"""

import math

import matplotlib as mpl
import pytest
import torch
from torchmetrics.classification import MulticlassAccuracy

from cases import BUCKETS, NUM_LABELS, registered
from tailmetrics import (
    CrossEntropy,
    DCGAtK,
    KForRecall,
    PrecisionAtK,
    RecallAtK,
    TopKCollection,
)
from tailmetrics.metrics import REGISTRY


@pytest.fixture(autouse=True)
def _no_window():
    mpl.use("Agg")
    yield
    mpl.pyplot.close("all")


def batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(20, NUM_LABELS, generator=generator), torch.randint(
        NUM_LABELS, (20,), generator=generator
    )


def updated(metric):
    metric.update(*batch())
    return metric


def marker_values(ax):
    """Return the values of each line with markers."""
    return [line.get_ydata() for line in ax.lines if line.get_marker() == "o"]


def test_one_value_is_a_point_as_in_torchmetrics():
    """A single value is drawn as a point, with figure, axes and limits as of a metric
    of TorchMetrics.
    """
    metric = updated(PrecisionAtK(k=5))
    peer = MulticlassAccuracy(num_classes=NUM_LABELS)
    peer.update(*batch())
    figure, ax = metric.plot()
    peer_figure, peer_ax = peer.plot()
    assert (type(figure), type(ax)) == (type(peer_figure), type(peer_ax))
    assert ax.get_ylim() == peer_ax.get_ylim()
    assert [float(y) for (y,) in marker_values(ax)] == [float(metric.compute())]
    assert ax.get_ylabel() == "precision@5"


def test_values_over_steps_are_lines():
    """The values that forward returns in each step become one line per key over the
    steps.
    """
    for metric in (PrecisionAtK(k=5), PrecisionAtK(k=[1, 5])):
        steps = [metric(*batch(seed)) for seed in range(4)]
        _, ax = metric.plot(steps)
        expected = torch.stack(steps).view(4, -1).T.tolist()
        assert [[float(y) for y in line] for line in marker_values(ax)] == expected
        assert ax.get_xlabel() == "Step"


def test_plot_draws_into_axes_that_are_passed():
    """plot(ax=) draws into these axes and returns None for the figure, as TorchMetrics
    does.
    """
    figure, ax = mpl.pyplot.subplots()
    peer = MulticlassAccuracy(num_classes=NUM_LABELS)
    peer.update(*batch())
    for metric in (
        peer,
        updated(PrecisionAtK(k=1)),
        updated(PrecisionAtK(k=1, buckets=BUCKETS)),
    ):
        assert metric.plot(ax=ax) == (None, ax)
    assert mpl.pyplot.get_fignums() == [figure.number]


def test_nan_and_infinite_values_have_no_bar():
    """NaN and infinite values have no bar, and an infinite value does not stretch the
    axis.
    """
    metric = CrossEntropy(buckets=BUCKETS)
    values = torch.full((len(BUCKETS),), 2.0, dtype=torch.float64)
    values[0], values[1] = math.nan, math.inf
    _, ax = metric.plot(values)
    assert [bar.get_height() for bar in ax.patches][2:] == [2.0] * (len(BUCKETS) - 2)
    assert all(math.isnan(bar.get_height()) for bar in ax.patches[:2])
    assert ax.get_ylim()[1] < 3


def test_buckets_are_bars_from_head_to_tail():
    """Each bucket has a bar with the height of its value, in the order of buckets and
    with its name below.
    """
    metric = updated(RecallAtK(k=5, buckets=BUCKETS))
    _, ax = metric.plot()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(BUCKETS.names)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(
        metric.compute().tolist(), nan_ok=True, abs=0
    )
    middles = [bar.get_x() + bar.get_width() / 2 for bar in ax.patches]
    assert middles == pytest.approx(range(len(BUCKETS)))
    assert ax.get_ylabel() == "recall@5"


def test_cutoffs_are_adjacent_bars_in_each_bucket():
    """Several cut-offs by bucket are adjacent bars that meet in the middle of the
    bucket, with a legend.
    """
    metric = updated(RecallAtK(k=[1, 5], buckets=BUCKETS))
    _, ax = metric.plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "recall@1",
        "recall@5",
    ]
    first, second = ax.containers
    for bars, values in zip((first, second), metric.compute().tolist(), strict=True):
        assert [bar.get_height() for bar in bars] == pytest.approx(
            values, nan_ok=True, abs=0
        )
    assert [bar.get_x() + bar.get_width() for bar in first] == pytest.approx(
        range(len(BUCKETS))
    )
    assert [bar.get_x() for bar in second] == pytest.approx(range(len(BUCKETS)))


def test_groups_of_rows_are_bars_beside_those_of_all_rows():
    """With groups of rows, each bar has the height of the value of its cut-off, group
    and bucket, all rows first: ``compute`` has groups in front of cut-offs.
    """
    metric = RecallAtK(k=[1, 5], buckets=BUCKETS, row_groups=["x", "y"])
    metric.update(*batch(), row_groups=torch.arange(20) % 2)
    values = metric.compute()

    _, ax = metric.plot()
    for number, bars in enumerate(ax.containers):
        heights = [bar.get_height() for bar in bars]
        expected = [group[number] for group in values]
        assert heights == pytest.approx(
            torch.cat(expected).tolist(), nan_ok=True, abs=0
        )
    names = list(BUCKETS.names)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [
        *names,
        *(f"x/{name}" for name in names),
        *(f"y/{name}" for name in names),
    ]


def test_an_unbounded_metric_has_no_upper_line():
    """The plot of a metric without an upper bound has no line at an upper end."""
    metric = updated(DCGAtK(k=5))
    assert metric.bounds[1] == math.inf
    _, ax = metric.plot()
    assert len(ax.collections[0].get_segments()) == 1


@pytest.mark.parametrize("name", REGISTRY)
def test_every_metric_can_be_plotted(name):
    """Every metric can be plotted."""
    figure, _ = updated(registered(name)).plot()
    assert figure.axes


@pytest.mark.parametrize(
    ("val", "message"),
    [
        (
            torch.zeros(3),
            r"RecallAtK: value is float32 \[3\]; pass what compute\(\) .* returned, 2 numbers",
        ),
        ([torch.zeros(2), torch.zeros(3)], "2 numbers"),
        ([0.5, 0.5], "value is float; pass"),
        ([], r"val is \[\]"),
        (0.5, "pass a value of compute"),
    ],
)
def test_plot_refuses_values_of_a_wrong_shape(val, message):
    """plot() refuses values that compute() does not return, and the error says which
    are needed.
    """
    with pytest.raises(ValueError, match=message):
        RecallAtK(k=[1, 5]).plot(val)


def collection(**arguments):
    members = [
        PrecisionAtK(k=[1, 5]),
        RecallAtK(k=5, buckets=BUCKETS),
        KForRecall(min_recall=0.5, num_labels=40),
    ]
    return TopKCollection(members, **arguments)


def test_a_collection_plots_each_member():
    """A collection plots a figure for each member from compute(), a dict, or a list of
    dicts, also with a prefix.
    """
    metrics = updated(collection(prefix="val/"))
    for val in (None, metrics.compute(), [metrics.compute(), metrics.compute()]):
        plots = metrics.plot(val)
        assert len(plots) == 3
        assert len({id(figure) for figure, _ in plots}) == 3
    (_, points), (_, bars), _ = metrics.plot()
    assert [float(y[0]) for y in marker_values(points)] == [
        float(metrics.compute()["val/precision@1"]),
        float(metrics.compute()["val/precision@5"]),
    ]
    assert len(bars.patches) == len(BUCKETS)


def test_a_collection_plots_no_values_of_single_labels():
    """A member with a value for each label is left out of the plots of a collection, as
    it is of its values.
    """
    by_label = RecallAtK(k=5, average="none", num_labels=NUM_LABELS)
    metrics = updated(TopKCollection([by_label, PrecisionAtK(k=5)]))
    ((_, ax),) = metrics.plot()
    assert ax.get_ylabel() == "precision@5"


def test_a_collection_plots_all_values_together():
    """With together=True a collection plots all values in one figure by key."""
    metrics = updated(TopKCollection([PrecisionAtK(k=[1, 5]), RecallAtK(k=5)]))
    _, ax = metrics.plot(together=True)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "precision@1",
        "precision@5",
        "recall@5",
    ]


def test_a_collection_needs_one_axes_per_member():
    """A collection draws into one axes per member, and refuses another number of
    axes.
    """
    metrics = updated(collection())
    _, axes = mpl.pyplot.subplots(3)
    assert [ax for _, ax in metrics.plot(ax=axes)] == list(axes)
    with pytest.raises(ValueError, match="ax holds 2 axes for 3 metrics"):
        metrics.plot(ax=axes[:2])
