"""Values of each label (``per_label``), and summaries of head and tail, in a
collection.

Gap and spread are over the buckets that have a value and were seen in training: first
minus last, and the population's standard deviation over the mean (PopREO, PopRSP).
"""

import math
import statistics
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics as tm
from cases import BUCKETS, NUM_LABELS, data, fed, floats, training_counts
from exactness.bits import bits_of
from parity.compare import top
from tailmetrics.metrics import REGISTRY, TopKMetric

BATCH = data(seed=9, num_rows=80)
MEASURES = {"precision": "PrecisionAtK", "recall": "RecallAtK", "f1": "F1AtK"}
NO_AVERAGE: dict[str, Any] = {"average": "none", "num_labels": NUM_LABELS}
THREE = tm.LabelBuckets.from_assignment(
    torch.arange(NUM_LABELS) % 3, ["head", "body", "tail"]
)


def expected_of_labels(is_predicted: Tensor) -> dict[str, Tensor]:
    """Return counts and values of each label, from matrices of 0 and 1."""
    hits, predicted, support = (
        (is_predicted & BATCH.target).sum(0),
        is_predicted.sum(0),
        BATCH.target.sum(0),
    )
    values = {
        "precision": hits / predicted,
        "recall": hits / support,
        "f1": 2 * hits / (predicted + support),
    }
    counts = {"support": support, "predicted": predicted, "hits": hits}
    return counts | {
        name: value.double().nan_to_num(0.0) for name, value in values.items()
    }


@pytest.mark.filterwarnings("ignore:.*as logits are")
@pytest.mark.parametrize(
    "threshold",
    [None, 0.25, torch.linspace(-1, 1, NUM_LABELS)],
    ids=["k", "one", "per label"],
)
def test_per_label_gives_counts_and_values(threshold: Any) -> None:
    """per_label() returns support, predictions and hits as integers, training counts,
    and the values, for cut-offs and thresholds. compute() of the collection leaves
    these metrics out.
    """
    expected = expected_of_labels(
        top(BATCH, 3) if threshold is None else BATCH.scores > threshold
    )
    kind, cut, sign = (
        ("AtK", 3, "@3") if threshold is None else ("AtThreshold", threshold, "@t")
    )
    members = [
        REGISTRY[name.replace("AtK", kind)](cut, **NO_AVERAGE)
        for name in MEASURES.values()
    ]
    collection = tm.TopKCollection([*members, tm.MRR()])
    collection.bind(tm.LabelFrequency.from_counts(training_counts(), 200))
    columns = fed(collection, BATCH.scores, BATCH.target).per_label()
    for key in ("support", "predicted", "hits"):
        assert columns[key].dtype == torch.int64
        assert columns[key].tolist() == expected[key].tolist(), key
    assert columns["count"].tolist() == training_counts().tolist()
    for name, metric in zip(MEASURES, members, strict=True):
        (key,) = (key for key in columns if key.startswith(f"{name}{sign}"))
        assert floats(columns[key]) == pytest.approx(floats(expected[name]), abs=1e-7)
        assert floats(metric.compute()) == floats(columns[key])
    assert list(collection.compute()) == ["mrr"], (
        "values of labels are no scalars to log"
    )
    with pytest.raises(ValueError, match=r"Precision.*(compute|per_label)"):
        members[0].scalars()


def test_compute_without_average_has_a_row_for_each_cutoff() -> None:
    """compute() with average="none" has shape (len(k), L), or (L,) for a single k.

    A macro mean is the mean of the values of labels.
    """
    assert fed(
        tm.RecallAtK(4, **NO_AVERAGE), BATCH.scores, BATCH.target
    ).compute().shape == (NUM_LABELS,)
    several = fed(
        tm.RecallAtK([1, 4, 9], **NO_AVERAGE), BATCH.scores, BATCH.target
    ).compute()
    assert several.shape == (3, NUM_LABELS)
    for row, k in zip(several, (1, 4, 9), strict=True):
        assert floats(row) == pytest.approx(
            floats(expected_of_labels(top(BATCH, k))["recall"]), abs=1e-7
        )
    columns = fed(
        tm.RecallAtK([1, 4], **NO_AVERAGE), BATCH.scores, BATCH.target
    ).per_label()
    for k in (1, 4):
        assert (
            columns[f"hits@{k}"].tolist()
            == expected_of_labels(top(BATCH, k))["hits"].tolist()
        )
    macro = tm.F1AtK(2, average="macro", labels="all", num_labels=NUM_LABELS)
    collection = fed(tm.TopKCollection([macro]), BATCH.scores, BATCH.target)
    values = collection.per_label()["f1@2"]
    assert float(values.mean()) == pytest.approx(
        float(collection.compute()["macro_f1_all@2"]), abs=1e-12
    )


@pytest.mark.parametrize(
    "factory",
    [lambda **by: tm.RecallAtK(2, **by), lambda **by: tm.LabelAUC(**by)],
    ids=["@2", "auc"],
)
def test_values_of_labels_have_no_axis_of_buckets_and_no_summary(factory: Any) -> None:
    """Values of labels with buckets are those without buckets, also for buckets without
    labels or without relevant ones. They have no gap and no spread.
    """
    scores, target = (
        BATCH.scores[:, :3],
        BATCH.target[:, :3] & torch.tensor([True, True, False]),
    )
    buckets = tm.LabelBuckets.from_assignment([0, 0, 1], ["head", "tail", "empty"])
    scope = (
        {} if isinstance(factory(num_labels=3), tm.LabelAUC) else {"scope": "global"}
    )
    alone = fed(factory(average="none", num_labels=3), scores, target)
    collection = tm.TopKCollection(
        [
            factory(average="none", buckets=buckets, **scope),
            tm.RecallAtK(1, buckets=buckets),
        ]
    )
    labels_metric, _ = fed(collection, scores, target).members().values()
    assert bits_of(labels_metric.compute()) == bits_of(alone.compute())
    assert list(collection.summaries()) == ["recall@1/gap", "recall@1/spread"]


@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
def test_an_average_over_labels_is_right_after_any_number_of_rows(average: Any) -> None:
    """Averages over labels keep their value for any number of rows: a metric of five
    rows, merged with its copy forty times, has the value of 5 * 2^40 rows.
    """
    metric = fed(
        tm.F1AtK(1, average=average, num_labels=3),
        torch.tensor([[0], [0], [1], [2], [1]]),
        torch.tensor([0, 1, 1, 2, 2]),
    )
    value = float(metric.compute())
    for _ in range(40):
        metric.merge_state(metric.clone())
    assert float(metric.compute()) == pytest.approx(value, rel=1e-15)


def test_per_label_without_label_counts_is_refused() -> None:
    """per_label() raises an error that says what to add if no member counts labels."""
    with pytest.raises(ValueError, match=r"TopKCollection.*average"):
        fed(tm.TopKCollection([tm.MRR()]), BATCH.scores, BATCH.target).per_label()


def test_two_members_of_one_kind_keep_their_own_columns() -> None:
    """Two members of one class have their own columns in per_label().

    Each label is hit once, and with min_gain=2 never.
    """
    collection = tm.TopKCollection(
        [tm.PrecisionAtK(1, **NO_AVERAGE), tm.PrecisionAtK(1, min_gain=2, **NO_AVERAGE)]
    )
    gains = torch.zeros(2, NUM_LABELS)
    gains[0, 0] = gains[1, 1] = 1.0
    columns = fed(collection, torch.tensor([[0], [1]]), gains).per_label()
    for key in ("precision@1", "hits"):
        assert floats(columns[key])[:3] == [1, 1, 0]
        assert floats(columns[f"{key} (none_precision_min2@1)"])[:3] == [0, 0, 0]


def test_per_label_keeps_the_hits_of_each_scope_apart() -> None:
    """per_label() has the hits of the same list as the values, for each scope.

    The lists by bucket show labels 0 and 3, the list of the row shows 0: label 3 is a
    hit in the former alone.
    """
    buckets = tm.LabelBuckets.from_assignment(
        [0] * 3 + [1] * (NUM_LABELS - 3), ["head", "tail"]
    )
    members = [
        tm.RecallAtK(1, buckets=buckets, **NO_AVERAGE),
        tm.PrecisionAtK(1, **NO_AVERAGE),
    ]
    columns = fed(
        tm.TopKCollection(members), torch.tensor([[0, 3]]), torch.tensor([[0, 3]])
    ).per_label()
    assert (
        floats(columns["hits"])[:4]
        == floats(columns["precision@1"])[:4]
        == [1, 0, 0, 0]
    )
    suffix = "(none_recall@1, scope bucket)"
    assert (
        floats(columns[f"hits {suffix}"])[:4]
        == floats(columns[f"recall@1 {suffix}"])[:4]
        == [1, 0, 0, 1]
    )
    assert "recall@1" not in columns


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_a_bucket_without_a_relevant_label_is_no_end_of_a_gap(average: Any) -> None:
    """A bucket without a relevant label has the value 0, as in scikit-learn, and is no
    end of a gap; a bucket without labels is NaN. A model that finds everything has a
    gap of 0, not 1.
    """
    # no label has 1 to 9
    buckets = tm.LabelBuckets.thresholds([500, 400, 300, 50, 40, 30], (1, 10, 35, 101))
    target = torch.arange(5).repeat(3)  # no row has label 5, the only one of 10 to 34
    options = {"average": average, "buckets": buckets, "scope": "global"}
    metrics = [
        tm.RecallAtK(1, **options),
        tm.PrecisionAtK(1, **options),
        tm.PredictionProportionAtK(1, buckets=buckets),
    ]
    collection = fed(tm.TopKCollection(metrics), torch.eye(6)[target] + 0.5, target)
    values, summaries = collection.compute(), collection.summaries()
    names = [f"global_{average}_recall@1", f"global_{average}_precision@1"]
    assert {key for key, value in values.items() if math.isnan(value)} == {
        f"{name}/{bucket}"
        for name in (*names, "prediction_proportion@1")
        for bucket in ("1-9", "unseen")
    }
    assert [float(values[f"{name}/10-34"]) for name in names] == [0, 0]
    assert [float(summaries[f"{name}/gap"]) for name in names] == [0, 0]
    # of 101+, minus that of label 5: nobody has it
    assert float(summaries["prediction_proportion@1/gap"]) == 3 / 5


@pytest.mark.parametrize("buckets", [THREE, BUCKETS], ids=["three", "deciles"])
def test_gap_and_spread_of_every_key(buckets: tm.LabelBuckets) -> None:
    """summaries() holds gap and spread of each metric and cut-off with buckets, over
    the buckets that training has seen, under the prefix and postfix of the collection.
    """
    members = [
        tm.RecallAtK(k=[2, 5], buckets=buckets),
        tm.NDCGAtK(k=5, buckets=buckets, scope="global"),
        tm.MRR(),
    ]
    collection = fed(
        tm.TopKCollection(members, prefix="val/", postfix="_x"),
        BATCH.scores,
        BATCH.target,
    )
    values, summaries, expected = collection.compute(), collection.summaries(), {}
    for stem in ("recall@2", "recall@5", "global_ndcg@5"):
        by_bucket = [
            float(values[f"val/{stem}/{name}_x"])
            for name in buckets.names
            if name != "unseen"
        ]
        values_of_buckets = [value for value in by_bucket if not math.isnan(value)]
        expected[f"val/{stem}/gap_x"] = values_of_buckets[0] - values_of_buckets[-1]
        expected[f"val/{stem}/spread_x"] = statistics.pstdev(
            values_of_buckets
        ) / statistics.fmean(values_of_buckets)
    assert {key: float(value) for key, value in summaries.items()} == pytest.approx(
        expected, rel=1e-12
    )
    assert (
        fed(tm.TopKCollection([tm.MRR()]), BATCH.scores, BATCH.target).summaries() == {}
    )


# states: the counts that averages need, once for all members

MACRO: dict[str, Any] = {"average": "macro", "num_labels": NUM_LABELS}
COUNTS = (("hits", "predicted", "support"), ("hits", "support"), ("hits", "predicted"))


def names_of_counts(metric: TopKMetric) -> tuple[str, ...]:
    """Return the counts per label among the states, by the first word of their
    names.
    """
    return tuple(
        word
        for word in COUNTS[0]
        if any(
            f"_{word}_" in name
            for name, state in metric.metric_state.items()
            if state.ndim > 1
        )
    )


@pytest.mark.parametrize(
    ("metric", "counts"),
    [
        # the labels in the targets are those with support
        (tm.PrecisionAtK(k=3, **MACRO), COUNTS[0]),
        (tm.PrecisionAtK(k=3, labels="all", **MACRO), COUNTS[2]),
        (tm.PrecisionAtK(k=3, labels="union", **MACRO), COUNTS[0]),
        (tm.RecallAtK(k=3, **MACRO), COUNTS[1]),
        (tm.RecallAtK(k=3, labels="union", **MACRO), COUNTS[0]),
        (tm.RecallAtK(k=3, average="weighted", num_labels=NUM_LABELS), COUNTS[1]),
        (tm.RecallAtK(k=3, average="none", num_labels=NUM_LABELS), COUNTS[0]),
        (tm.F1AtK(k=3, labels="all", **MACRO), COUNTS[0]),
        (tm.RecallAtThreshold(0.5, **MACRO), COUNTS[1]),
        (tm.PrecisionAtThreshold(0.5, labels="all", **MACRO), COUNTS[2]),
    ],
)
def test_averages_keep_only_the_counts_that_they_need(
    metric: TopKMetric, counts: tuple[str, ...]
) -> None:
    """An average keeps only the counts per label that it needs; ``average="none"``
    keeps all, which ``per_label()`` shows.
    """
    assert names_of_counts(metric) == counts


def members() -> list[TopKMetric]:
    return [
        tm.RecallAtK(k=3, **MACRO),
        tm.PrecisionAtK(k=3, **MACRO),
        tm.F1AtK(k=3, **MACRO),
        tm.RecallAtK(k=3, num_labels=None),
    ]


def test_members_that_need_fewer_counts_share_the_states_of_those_that_need_more() -> (
    None
):
    """A member that needs fewer counts shares the states of a member that needs more,
    in any order, and its values are those that it has alone.
    """
    shared = fed(tm.TopKCollection(members()), BATCH.scores, BATCH.target)
    states = {
        id(state): state
        for metric in shared.members().values()
        for state in metric.metric_state.values()
    }
    assert sum(state.numel() == NUM_LABELS for state in states.values()) == 3
    values = shared.compute()
    for alone in members():
        fed(alone, BATCH.scores, BATCH.target)
        for key, value in alone.scalars().items():
            assert bits_of(values[key]) == bits_of(value)


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
def test_per_label_of_an_average_of_areas_is_refused(average: str) -> None:
    """per_label() of an average of areas is refused and names average="none", which
    alone computes the area of each label.
    """
    metric = tm.LabelAUC(num_labels=2, average=average)
    metric.update(
        torch.tensor([[0.9, 0.1], [0.2, 0.8]]),
        torch.tensor([[True, False], [False, True]]),
    )
    with pytest.raises(
        ValueError, match="keeps no counts per label; use average='none'"
    ):
        metric.per_label()
