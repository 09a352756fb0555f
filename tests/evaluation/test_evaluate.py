"""``tailmetrics.evaluate``: the same values as the metrics, from any form of input, in
batches of any size.
"""

import warnings
from inspect import signature
from math import e, inf, isnan, log, nan
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import torch

import processes
import tailmetrics as tm
from cases import BUCKETS, NUM_LABELS, registered, training_counts
from tailmetrics._exact_metric import ExactMetric
from tailmetrics.evaluation import Evaluation, compare_runs
from tailmetrics.evaluation.added_metrics import with_label_values
from tailmetrics.metrics import REGISTRY

N = 50


def data():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(N, NUM_LABELS, generator=generator)
    mask = torch.rand(N, NUM_LABELS, generator=generator) < 0.1
    return scores, mask


def computed(metrics, *batch):
    collection = tm.TopKCollection(metrics)
    collection.update(*batch)
    return {key: float(value) for key, value in collection.compute().items()}


def metrics():
    return [tm.PrecisionAtK(k=[1, 5]), tm.RecallAtK(k=5, buckets=BUCKETS)]


def expected_metrics():
    """Return the metrics of a report of `metrics()`: those by bucket are
    expected_metrics over all labels, too.
    """
    return [*metrics(), tm.RecallAtK(k=5)]


@pytest.mark.slow
def test_importing_the_package_does_not_import_reports():
    """Importing the package imports neither reports nor their dependencies; reading
    ``tailmetrics.evaluate`` imports reports, and still no plotting or statistics. An
    unknown attribute raises AttributeError.
    """
    code = (
        "import sys, torch, torchmetrics; before = set(sys.modules); import tailmetrics; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "assert not new & {'rich', 'matplotlib', 'jinja2', 'scipy'}, new; "
        "assert not {'tailmetrics.evaluation', 'tailmetrics.report'} & set(sys.modules); assert 'evaluate' in dir(tailmetrics); "
        "from tailmetrics import evaluate; assert 'tailmetrics.evaluation' in sys.modules; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "assert not new & {'rich', 'matplotlib', 'jinja2', 'scipy'}, new; result = new"
    )
    assert "tailmetrics" in processes.run_in_process(code)
    with pytest.raises(AttributeError, match="evaluations"):
        tm.evaluations


@pytest.mark.slow
def test_every_form_of_input_gives_the_same_report():
    """Dense scores, sparse scores, ids and candidates have the same values to the last
    bit, and the same counts, in batches of any size.
    """
    scores, mask = data()
    expected = computed(expected_metrics(), scores, mask)
    ids = scores.argsort(dim=1, descending=True)
    relevant = [row.nonzero()[:, 0].tolist() for row in mask]
    width = max(map(len, relevant))
    target_ids = torch.tensor([row + [-1] * (width - len(row)) for row in relevant])
    candidates = (scores.gather(1, ids), ids)
    sparse = mask.float().to_sparse_csr()
    forms = [
        (scores.numpy(), mask.numpy()),
        (scores, target_ids),
        (scores, sparse),
        (scores, scipy.sparse.coo_matrix(mask.numpy())),
        (scores.to_sparse_csr(), sparse),
        (scipy.sparse.csr_matrix(scores.numpy()), mask),
        (ids, target_ids),
        (candidates, mask),
        ([part.numpy() for part in candidates], target_ids),
    ]
    for preds, target in forms:
        for size in (1, 8, 1000) if preds is scores else (8,):
            report = tm.evaluate(preds, target, metrics=metrics(), batch_rows=size)
            assert report.scalars == pytest.approx(expected, abs=0, nan_ok=True)
            assert (report.rows, report.positives) == (N, int(mask.sum()))


def test_row_mask_drops_rows():
    """Rows that row_mask drops are neither in the values nor in the number of rows,
    with buckets and without.
    """
    scores, mask = data()
    keep = torch.arange(N) % 3 > 0
    for chosen, whole in (
        (metrics(), expected_metrics()),
        ([tm.PrecisionAtK(k=1)], [tm.PrecisionAtK(k=1)]),
    ):
        report = tm.evaluate(scores, mask, metrics=chosen, row_mask=keep, batch_rows=8)
        assert report.scalars == pytest.approx(
            computed(whole, scores[keep], mask[keep]), abs=0, nan_ok=True
        )
        assert report.rows == int(keep.sum())


def test_evaluate_leaves_the_metrics_unchanged():
    """evaluate neither changes the state of a metric nor binds its open arguments."""
    scores, mask = data()
    metric, open_metric = tm.PrecisionAtK(k=1), tm.RecallAtK(k=5, buckets="deciles")
    metric.update(scores[:1], mask[:1])
    before = float(metric.compute())
    tm.evaluate(
        scores, mask, metrics=[metric, open_metric], label_counts=training_counts()
    )
    assert float(metric.compute()) == before
    assert metric._update_count == 1
    assert not open_metric.is_bound


def test_default_metrics():
    """Without metrics, evaluate reports precision and nDCG overall.

    With buckets or training counts it adds recall@10 and four metrics by bucket.
    """
    scores, mask = data()
    overall = ["precision@1", "precision@3", "precision@5", "ndcg@10"]
    assert list(tm.evaluate(scores, mask).scalars) == overall
    by_bucket = [
        "global_recall@10",
        "global_precision@1",
        "global_ndcg@10",
        "prediction_proportion@10",
    ]
    frequency = tm.LabelFrequency(NUM_LABELS)
    frequency.update(torch.arange(NUM_LABELS))
    for training in (
        {"buckets": BUCKETS},
        {"label_counts": training_counts()},
        {"label_counts": frequency},
    ):
        report = tm.evaluate(scores, mask, **training)
        assert list(report.overall) == [*overall, "recall@10"]
        assert list(report.by_bucket) == by_bucket
        assert list(report.by_bucket["global_recall@10"]) == list(BUCKETS.names)


def test_buckets_argument_adds_metrics_by_bucket():
    """The buckets argument adds each metric by bucket that has no buckets of its own;
    label counts alone add none.
    """
    scores, mask = data()
    metrics = [
        tm.PrecisionAtK(k=1),
        tm.RecallAtK(k=5, buckets="deciles"),
        tm.RecallAtK(k=5),
    ]
    counts = training_counts()
    for arguments, added_metrics in (
        ({"label_counts": counts}, []),
        (
            {"buckets": "deciles", "label_counts": counts},
            [tm.PrecisionAtK(k=1, buckets=BUCKETS, scope="global")],
        ),
    ):
        report = tm.evaluate(scores, mask, metrics=metrics, **arguments)
        expected = [
            tm.PrecisionAtK(k=1),
            tm.RecallAtK(k=5, buckets=BUCKETS),
            tm.RecallAtK(k=5),
            *added_metrics,
        ]
        assert report.scalars == pytest.approx(
            computed(expected, scores, mask), abs=0, nan_ok=True
        )


def test_values_by_bucket_use_the_one_list_of_a_row():
    """Values by bucket count hits in the one list of a row, in evaluate and
    compare_runs.

    The two labels of the tail never come first, so the tail has the value 0.
    """
    scores, target = (
        torch.tensor([[3.0, 2.0, 1.0]]).repeat(4, 1),
        torch.tensor([0, 0, 1, 2]),
    )
    arguments = {
        "metrics": [tm.AccuracyAtK(k=1)],
        "buckets": "thresholds:1,5:head,tail",
        "label_counts": [9, 1, 1],
    }
    report = tm.evaluate(scores, target, **arguments)
    assert report.by_bucket == {
        "global_accuracy@1": {
            "head": 1.0,
            "tail": 0.0,
            "unseen": pytest.approx(nan, nan_ok=True),
        }
    }
    compared = compare_runs(
        {"one": scores, "other": scores}, target, **arguments, resamples=10
    )
    assert compared.values["global_accuracy@1/tail"] == {"one": 0.0, "other": 0.0}


def test_propensities_use_the_number_of_training_rows_beside_buckets():
    """Propensities use the number of training rows, however buckets are passed: the
    value is that of the metric bound to the LabelFrequency.
    """
    scores, target = torch.eye(4), torch.tensor([0, 1, 2, 3])
    trained = torch.tensor([0, 0, 1, 2, 3])
    frequency = tm.LabelFrequency(4)
    frequency.update(trained)
    metric = tm.PropensityScoredRecallAtK(1)
    expected = computed(
        [tm.PropensityScoredRecallAtK(1).bind(frequency)], scores, target
    )
    for training in ({"train_target": trained}, {"label_counts": frequency}):
        for buckets in (None, "quantiles:2", frequency.deciles()):
            report = tm.evaluate(
                scores, target, metrics=[metric], buckets=buckets, **training
            )
            assert report.scalars["psr@1"] == expected["psr@1"]


def test_label_counts_beside_buckets_are_in_the_report():
    """With buckets and label_counts, the report holds the counts, for the frequency
    curve.
    """
    scores, mask = data()
    plain = tm.LabelBuckets.from_assignment(BUCKETS.assignment, BUCKETS.names)
    report = tm.evaluate(scores, mask, buckets=plain, label_counts=training_counts())
    assert torch.equal(report.label_counts, training_counts())


WHOLE = ("TieRateAtK", "PersonalizationAtK")
"""Metrics of whole rows or lists, which refuse buckets."""


def test_reports_keep_warnings_of_metrics_across_merges_and_states():
    """A warning of a metric is in its report after a merge, after a state is loaded,
    and after a new start.

    Here the metric warns that its scores look like probabilities.
    """
    scores, target = torch.full((4, 5), 0.2), torch.tensor([0, 1, 2, 3])
    first, second, third = (
        Evaluation([tm.CrossEntropy(num_labels=5)]) for _ in range(3)
    )
    first.update(scores, target)
    second.update(scores.log(), target)
    assert not second.report("").notes
    second.merge_state(first)
    third.load_state_dict(second.state_dict())
    first.start()  # as at the next validation
    first.update(scores, target)
    for evaluation in (first, second, third):
        (note,) = evaluation.report("").notes
        assert note.startswith(
            "CrossEntropy: preds, float32 [4, 5], lie between 0 and 1 and add up to 1 in each row"
        )


def test_states_of_another_evaluation_are_refused_and_change_nothing():
    """load_state_dict refuses states that are of other metrics, empty, incomplete or of
    another shape, and leaves the evaluation unchanged.
    """
    scores, mask = data()
    evaluation, other = (
        Evaluation(
            [
                tm.RecallAtK(k=3),
                tm.RecallAtK(k=k, average="macro", num_labels=NUM_LABELS),
            ]
        )
        for k in (1, 2)
    )
    evaluation.update(scores, mask)
    other.update(scores, mask)
    states, scalars = evaluation.state_dict(), evaluation.report("").scalars
    counts = states["counts.counts"]
    without_counts = {
        name: state for name, state in states.items() if name != "counts.counts"
    }
    for wrong_states, message in (
        (other.state_dict(), "of other metrics, buckets or counts"),
        ({}, "of other metrics, buckets or counts"),
        (without_counts, "of counts counts is missing|of counts counts is a?n? ?None"),
        ({**states, "counts.counts": counts[:-1]}, "of counts counts is"),
    ):
        with pytest.raises(
            ValueError, match=rf"^Evaluation.load_state_dict: .*({message})"
        ):
            evaluation.load_state_dict(wrong_states)
        assert evaluation.report("").scalars == scalars
    assert all(
        torch.equal(evaluation.state_dict()[name], state)
        for name, state in states.items()
        if torch.is_tensor(state)
    )


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        (
            torch.tensor([[0.6, 0.3, 0.1, 0.0]]),
            " and add up to 1 in each row, as probabilities do",
        ),
        # sigmoid, cosine, a rounded softmax
        (torch.tensor([[0.9, 0.8, 0.1, 0.0]]), ", as probabilities do"),
        (torch.zeros(1, 4), None),  # a model that has learnt nothing
        (torch.tensor([[0.9, 0.8, 0.1, 1.5]]), None),
    ],
)
@pytest.mark.parametrize("caller", ["class", "function"])
def test_cross_entropy_warns_of_scores_that_look_like_probabilities(
    scores, text, caller
):
    """Metrics and functions that take a softmax of scores warn if the scores lie
    between 0 and 1, and say whether they add up to 1. The largest probability that such
    scores can have is in the text: of 1 beside three 0 it is e / (e + 3). Equal scores
    and scores beyond 1 bring no warning.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (
            tm.CalibrationErrorAtK(k=1).update
            if caller == "class"
            else tm.functional.cross_entropy
        )(scores, torch.tensor([0]))
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == (text is not None)
    highest = f"each at most {e / (e + 3):.2g}."
    assert (
        not texts
        if text is None
        else (f"lie between 0 and 1{text}" in texts[0] and highest in texts[0])
    )


def test_cross_entropy_and_values_of_labels_are_in_one_report():
    """A report holds the cross-entropy, which is ln L of equal scores, beside the
    values of each label.
    """
    report = tm.evaluate(
        torch.zeros(12, 4),
        torch.arange(12) % 4,
        metrics=[tm.CrossEntropy()],
        labels=True,
    )
    assert report.scalars["cross_entropy"] == pytest.approx(log(4))
    assert report.labels.columns["support"].tolist() == [3, 3, 3, 3]


def test_infinite_values_of_two_buckets_have_no_interval():
    """Infinite values of two buckets have no interval, and neither has their gap, which
    is no number.

    The relevant labels have a score of -inf, so that the loss is infinite.
    """
    scores, target = torch.zeros(24, 4), torch.arange(24) % 4
    scores[torch.arange(24), target] = -inf
    report = tm.evaluate(
        scores,
        target,
        label_counts=[9, 8, 1, 1],
        buckets="thresholds:1,5",
        metrics=[tm.CrossEntropy()],
    )
    assert report.by_bucket["global_cross_entropy"] == pytest.approx(
        {"5+": inf, "1-4": inf, "unseen": nan}, nan_ok=True
    )
    assert {interval.reason for interval in report.intervals.values()} == {
        "no finite value"
    }


@pytest.mark.parametrize("validate_args", [True, False])
def test_evaluate_warns_of_padding_once(validate_args):
    """evaluate warns once of sequences that end in label 0, which occurs nowhere else,
    also if they come in two batches, and if metrics do not check values.
    """
    ids, target = torch.arange(1, 4).expand(8, 5, 3), torch.randint(1, 30, (8, 5))
    target[:, 3:] = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric = tm.AccuracyAtK(k=1, validate_args=validate_args)
        report = tm.evaluate(ids, target, metrics=[metric], batch_rows=20)
    start = "target: most sequences end in a run of label 0"
    messages = [str(warning.message) for warning in caught]
    assert sum(message.startswith(start) for message in messages) == 1
    assert sum(note.startswith(start) for note in report.notes) == 1


@pytest.mark.parametrize(
    "form",
    [
        lambda mask: mask,
        lambda mask: mask.float(),
        lambda mask: mask.nonzero()[:, 1:].view(20, 2),
    ],
)
def test_evaluate_notes_relevant_labels_with_a_score_of_minus_infinity(form):
    """A note gives the share of relevant labels with a score of -inf, here 6 of 40,
    15.0%.

    Without such labels there is no note.
    """
    scores, mask = (
        torch.rand(20, 9, generator=torch.Generator().manual_seed(1)),
        torch.zeros(20, 9, dtype=torch.bool),
    )
    mask[:, [2, 5]] = True
    scores[:, 0] = -torch.inf  # not relevant
    for filtered, share in (
        (6, "15.0% of the relevant labels have a score of -inf and count as missed"),
        (0, ""),
    ):
        scores[:, 2] = torch.rand(20)
        scores[:filtered, 2] = -torch.inf
        notes = tm.evaluate(
            scores, form(mask), metrics=[tm.RecallAtK(k=9)], batch_rows=7
        ).notes
        assert any("have a score of -inf" in note for note in notes) == bool(share)
        assert not share or any(share in note for note in notes)


def test_train_target_beside_label_counts_is_refused():
    """train_target and label_counts together are refused, because one of the two would
    be ignored.
    """
    with pytest.raises(
        ValueError,
        match="^evaluate: both train_target= and label_counts= are given; pass",
    ):
        tm.evaluate(
            torch.rand(2, 3),
            torch.tensor([0, 1]),
            label_counts=[3, 2, 1],
            train_target=torch.tensor([0, 2]),
        )


@pytest.mark.parametrize("name", [name for name in REGISTRY if name not in WHOLE])
def test_buckets_argument_breaks_down_every_metric(name):
    """With the buckets argument, a metric without buckets also has the values of the
    same metric made with these buckets and scope="global".
    """
    scores, mask = data()
    arguments = (
        {"scope": "global"} if "scope" in signature(REGISTRY[name]).parameters else {}
    )
    report = tm.evaluate(
        scores, mask, metrics=[registered(name), tm.TieRateAtK(k=1)], buckets=BUCKETS
    )
    expected = computed(
        [
            registered(name),
            tm.TieRateAtK(k=1),
            registered(name, buckets=BUCKETS, **arguments),
        ],
        scores,
        mask,
    )
    assert report.scalars == pytest.approx(expected, abs=0, nan_ok=True)


@pytest.mark.parametrize("name", WHOLE)
def test_metrics_without_bucket_values_are_reported_overall(name):
    """With buckets, a metric whose class refuses buckets is reported overall, beside
    the other metrics by bucket.
    """
    scores, mask = data()
    report = tm.evaluate(
        scores, mask, metrics=[registered(name), tm.PrecisionAtK(k=1)], buckets=BUCKETS
    )
    assert list(report.by_bucket) == ["global_precision@1"]
    assert list(report.overall) == [*registered(name).keys(), "precision@1"]


def test_a_comparison_shows_the_values_of_the_reports():
    """A comparison shows the values of the reports to the last bit, overall and by
    bucket, although sums of fractions depend on the order of rows.
    """
    generator = torch.Generator().manual_seed(1)
    target = torch.rand(300, 40, generator=generator) < 0.1
    runs = {name: torch.randn(300, 40, generator=generator) + target for name in "ab"}
    metrics = [tm.RecallAtK(k=[1, 3, 5]), tm.NDCGAtK(k=5), tm.RBPAtK(k=5)]
    arguments = {"metrics": metrics, "label_counts": target.sum(0)}
    compared = compare_runs(runs, target, **arguments, resamples=9)
    for name, preds in runs.items():
        scalars = tm.evaluate(preds, target, **arguments).scalars
        values_of_run = {
            key: values[name]
            for key, values in compared.values.items()
            if key in scalars
        }
        assert len(values_of_run) > 30
        assert repr(values_of_run) == repr({key: scalars[key] for key in values_of_run})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"target": torch.zeros(51, dtype=torch.int64)},
            "one row of target per row of preds",
        ),
        ({"preds": torch.zeros(50)}, "a single row needs a row axis"),
        (
            {"preds": "scores.npy"},
            "evaluate: preds is the path 'scores.npy', not data in memory",
        ),
        ({"target": torch.tensor(1)}, "one row of target"),
        ({"row_mask": torch.ones(49, dtype=torch.bool)}, "row_mask"),
        ({"buckets": training_counts()}, "a text such as 'deciles'"),
        (
            {"label_counts": [1, 2, 3]},
            f"evaluate: label_counts holds 3 labels, but the data have {NUM_LABELS}; pass a count",
        ),
        (
            {"buckets": tm.LabelBuckets.deciles([3, 2])},
            "evaluate: buckets holds 2 labels",
        ),
        (
            {"preds": scipy.sparse.csr_matrix((N, 5)), "label_counts": [1, 2, 3]},
            "but the data have 5; pass a count",
        ),
        ({"batch_rows": 0}, "batch_rows=0"),
        ({"metrics": []}, "at least one"),
        (
            {"metrics": "recall@5"},
            r"metrics holds 'recall@5', which is no metric of tailmetrics; pass .*RecallAtK\(k=5",
        ),
        (
            {"metrics": [tm.RecallAtK]},
            "metrics holds <class .*, which is no metric of tailmetrics",
        ),
        (
            {"metrics": {"a": tm.RecallAtK(k=1)}},
            r"metrics is a dict; pass TopKCollection\(metrics\)",
        ),
        (
            {"missing": "neg"},
            "missing='neg' is not known; choose one of 'skip', 'zero'",
        ),
        ({"labels": ["a"]}, r"labels=\['a'\] is no bool"),
        ({"intervals": 0.9}, "intervals=0.9 is not a whole number"),
    ],
)
def test_evaluate_refuses_wrong_arguments(change, message):
    """evaluate raises an error that names the wrong argument and says what to pass."""
    scores, _ = data()
    arguments = {
        "preds": scores,
        "target": torch.zeros(50, dtype=torch.int64),
        "batch_rows": 50,
        **change,
    }
    with pytest.raises((TypeError, ValueError), match=message):
        tm.evaluate(**arguments)


def test_evaluate_without_rows_has_nan_values():
    """A report of no rows has 0 rows, and its values are NaN."""
    report = tm.evaluate(
        torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64), metrics=[tm.NDCGAtK(k=2)]
    )
    assert report.rows == 0
    assert str(report.scalars["ndcg@2"]) == "nan"


def test_positives_count_gains_of_at_least_min_gain():
    """Positives, in all and by bucket, count gains of at least min_gain if all metrics
    have the same min_gain, and all gains otherwise. Of gains 3, 1 and 2 two reach
    min_gain=2.
    """
    gains = torch.tensor([[3.0, 0, 1], [0, 2, 0]])
    buckets = tm.LabelBuckets.from_assignment([0, 1, 1], ["head", "tail"])
    for levels, positives in (((2,), [1, 1]), ((None,), [1, 2]), ((2, None), [1, 2])):
        metrics = [
            tm.RecallAtK(k=1, buckets=buckets, min_gain=level) for level in levels
        ]
        report = tm.evaluate(torch.rand(2, 3), gains, metrics=metrics)
        assert [row.positives for row in report.buckets] == positives
        assert report.positives == sum(positives)


def test_evaluate_notes_rows_without_a_label_of_min_gain() -> None:
    """A warning counts the rows without a gain of min_gain, and says in which metrics
    they count as 0 and which leave them out. One of three rows has a gain of 4: recall
    is 1/3, or 1 with skip; nDCG counts every gain and is 2/3.
    """
    scores, gains = torch.eye(3), torch.diag(torch.tensor([4.0, 3.0, 0.0]))
    level = {"k": 1, "min_gain": 4}
    metrics = [
        tm.RecallAtK(**level),
        tm.HitRateAtK(**level),
        tm.RecallAtK(**level, empty_target_action="skip"),
        tm.NDCGAtK(**level),
    ]
    report = tm.evaluate(scores, gains, metrics=metrics)
    assert report.scalars["recall_min4@1"] == pytest.approx(1 / 3)
    assert report.scalars["recall_skip_min4@1"] == 1
    assert report.scalars["ndcg@1"] == pytest.approx(2 / 3)
    text = "2 of 3 rows have no relevant label at min_gain=4, and "
    assert [warning for warning in report.warnings if "min_gain" in warning] == [
        f"{text}count as 0 in recall_min4@1, hit_rate_min4@1; empty_target_action='skip' leaves them out.",
        f"{text}are left out of recall_skip_min4@1.",
    ]
    metrics = [tm.RecallAtK(k=1), tm.RecallAtK(k=1, min_gain=2)]
    assert not any(
        "min_gain" in warning
        for warning in tm.evaluate(scores[:2], gains[:2], metrics=metrics).warnings
    )


@pytest.mark.parametrize(
    ("num_empty", "has_warning"), [(0, False), (1, False), (2, True)]
)
def test_evaluate_warns_of_rows_without_a_relevant_label(
    num_empty: int, has_warning: bool
) -> None:
    """evaluate warns of rows without a relevant label if they are more than one in a
    hundred, and says for each metric whether they count as 0 or are left out.
    """
    target = torch.zeros(100, 1, dtype=torch.int64)
    target[:num_empty] = -1
    metrics = [tm.NDCGAtK(k=1, empty_target_action="skip"), tm.MRR(k=1)]
    report = tm.evaluate(
        torch.eye(3)[torch.zeros(100, dtype=torch.int64)], target, metrics=metrics
    )
    warnings = [
        warning
        for warning in report.warnings
        if "rows have no relevant label" in warning
    ]
    assert (
        warnings
        == [
            "2 of 100 rows have no relevant label, and are left out of ndcg_skip@1.",
            "2 of 100 rows have no relevant label, and count as 0 in mrr@1; empty_target_action='skip' leaves them out.",
        ]
        * has_warning
    )


def test_report_counts_rows_positives_and_groups_of_ids() -> None:
    """A report counts rows, positives and rows by group, also of ids without a number
    of labels.

    There are 3 rows with 4 labels; 2 rows are French, 1 has no language.
    """
    metrics = [tm.HitRateAtK(k=1, row_groups=["en", "fr"])]
    ids, target = (
        torch.tensor([[0], [1], [7]]),
        torch.tensor([[0, -1], [2, 3], [5, -1]]),
    )
    report = tm.evaluate(ids, target, metrics=metrics, row_groups=[1, 1, -1])
    assert (report.rows, report.positives) == (3, 4)
    assert [(group.name, group.rows) for group in report.row_groups] == [
        ("en", 0),
        ("fr", 2),
    ]


@pytest.mark.parametrize(
    "groups",
    [
        ["en", "de", "de", None],
        [0, 1, 1, -1],
        [0, 1, 1, None],
        pa.array(["en", "de", "de", None]),
        pd.Series(["en", "de", "de", pd.NA], dtype="string"),
        pd.Series([0, 1, 1, pd.NA], dtype="Int64"),
        {"a": "en", "b": "de", "c": "de"},
    ],
)
def test_values_by_row_group_do_not_depend_on_the_order_of_groups(groups: Any) -> None:
    """Values by row group are those of the group's rows, in any order in which a metric
    names the groups, and also for a metric that names none. Hits are 1 in English, 0
    and 1 in German, and 0 in no language.
    """
    metrics = [tm.RecallAtK(1), tm.HitRateAtK(1, row_groups=["en", "de"])]
    lists = {"a": ["x"], "b": ["x"], "c": ["y"], "d": ["y"]}
    target = {"a": ["x"], "b": ["y"], "c": ["y"], "d": ["x"]}
    if not isinstance(groups, dict):
        lists, target = list(lists.values()), list(target.values())
    scalars = tm.evaluate(lists, target, metrics=metrics, row_groups=groups).scalars
    for key in ("recall@1", "hit_rate@1"):
        assert [scalars[key], scalars[f"{key}/en"], scalars[f"{key}/de"]] == [
            0.5,
            1.0,
            0.5,
        ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["recall@2"],
            "metric='recall@2', bucket='', group=''; choose one of 'recall@1'",
        ),
        (
            ["recall@1", "head"],
            "metric='recall@1', bucket='head', group=''; choose one of 'global_recall@1'",
        ),
        (
            ["global_recall@1", "torso"],
            "metric='global_recall@1', bucket='torso', group=''; choose names of report.by_b",
        ),
        (
            ["recall@1", "", "en"],
            "metric='recall@1', bucket='', group='en'; choose names of report.by_bucket",
        ),
    ],
)
def test_report_value_refuses_unknown_names(arguments: list[str], problem: str) -> None:
    """Report.value raises an error for a key, bucket or group that the report does not
    have, and names the choices.

    It does not return NaN, which is the value of a bucket in which nothing is relevant.
    """
    halves = tm.LabelBuckets.from_assignment([0, 0, 1], ["head", "tail"])
    report = tm.evaluate(
        torch.eye(3), torch.tensor([0, 1, 0]), buckets=halves, metrics=[tm.RecallAtK(1)]
    )
    assert [report.value("recall@1"), report.value("global_recall@1", "head")] == [
        2 / 3,
        2 / 3,
    ]
    assert isnan(report.value("global_recall@1", "tail"))
    with pytest.raises(
        ValueError, match=f"Report.value: there is no value of {problem}"
    ):
        report.value(*arguments)


def test_buckets_argument_is_refused_if_every_metric_has_buckets() -> None:
    """The buckets argument is refused if every metric has other buckets of its own,
    because it would have no effect.

    Equal buckets, and a metric without buckets beside them, are accepted.
    """
    halves = tm.LabelBuckets.from_assignment([0, 0, 1], ["head", "tail"])
    other_buckets = tm.LabelBuckets.from_assignment([0, 1, 1], ["first", "rest"])
    scores, target, metric_with_buckets = (
        torch.eye(3),
        torch.tensor([0, 1, 2]),
        tm.RecallAtK(1, buckets=other_buckets),
    )
    with pytest.raises(
        ValueError, match="buckets= is given, but each metric has buckets of its own"
    ):
        tm.evaluate(scores, target, buckets=halves, metrics=[metric_with_buckets])
    arguments = {
        "metrics": [tm.RecallAtK(1, buckets="thresholds:1,3")],
        "label_counts": [9, 2, 1],
    }
    with pytest.raises(
        ValueError, match="buckets= is given, but each metric has buckets of its own"
    ):
        tm.evaluate(scores, target, buckets="deciles", **arguments)
    assert (
        tm.evaluate(scores, target, buckets="thresholds:1,3", **arguments)
        .buckets[0]
        .name
        == "3+"
    )
    for metrics in ([tm.RecallAtK(1, buckets=halves)], [metric_with_buckets, tm.MRR()]):
        assert tm.evaluate(scores, target, buckets=halves, metrics=metrics).scalars


def test_a_group_that_a_metric_does_not_name_is_refused() -> None:
    """A row group that a metric with named groups does not name is refused, because its
    rows would count in another group.
    """
    metrics = [tm.RecallAtK(1), tm.HitRateAtK(1, row_groups=["en", "de"])]
    with pytest.raises(
        ValueError, match="row_groups holds 'fr', which is none of en, de"
    ):
        tm.evaluate(
            [["x"], ["y"]], [["x"], ["x"]], metrics=metrics, row_groups=["en", "fr"]
        )


@pytest.mark.parametrize("name", ["gap", "adjusted_gap", "spread", "decile_1"])
def test_groups_are_not_called_as_what_keys_name_otherwise(name: str) -> None:
    """recall@1/gap is the gap of all buckets, not the recall of a group called gap."""
    message = (
        f"row_groups names '{name}', which is also the name of a bucket, or of the gap "
        "or spread over buckets; give the group another name."
    )
    with pytest.raises(ValueError, match=message):
        tm.RecallAtK(1, buckets="deciles", row_groups=["en", name])
    with pytest.raises(ValueError, match=message):
        tm.evaluate(
            [["x"], ["y"]],
            [["x"], ["x"]],
            metrics=[tm.RecallAtK(1)],
            label_counts={"x": 2, "y": 1},
            row_groups=["en", name],
        )
    with pytest.raises(ValueError, match=message):
        tm.evaluate(
            [["x"], ["y"]],
            [["x"], ["x"]],
            metrics=[tm.RecallAtK(1, row_groups=["en", name])],
            label_counts={"x": 2, "y": 1},
            buckets="deciles",
            row_groups=["en", name],
        )


@pytest.mark.parametrize("name", ["gap", "adjusted_gap", "spread", "decile_1"])
def test_without_buckets_groups_have_any_name(name: str) -> None:
    """Without buckets, recall@1/gap is the recall of a group called gap: here 0, and 1
    in the group of the other row.
    """
    report = tm.evaluate(
        [["x"], ["y"]],
        [["x"], ["x"]],
        metrics=[tm.RecallAtK(1, row_groups=["en", name])],
        row_groups=["en", name],
    )
    assert report.scalars["recall@1/en"] == 1.0
    assert report.scalars[f"recall@1/{name}"] == 0.0
    assert f"recall@1/{name}" in [record.key for record in report.records]


@pytest.mark.parametrize("arguments", [{}, {"label_counts": [9, 3, 2, 1]}])
def test_scores_have_references_with_and_without_training_counts(
    arguments: dict[str, Any],
) -> None:
    """The number of columns is enough for chance, which shows one of four labels, and
    for what is attainable.
    """
    report = tm.evaluate(
        torch.eye(4), torch.tensor([0, 2, 1, 3]), metrics=[tm.RecallAtK(1)], **arguments
    )
    assert report.references["chance"]["recall@1"] == 0.25
    assert report.references["attainable"]["recall@1"] == 1.0


def test_numbers_that_may_be_names_or_places_of_groups_are_refused() -> None:
    """The number 1 is the place of the second group, but the name of the first: texts
    tell, numbers do not.
    """
    metrics = [tm.RecallAtK(1, row_groups=["1", "2"])]
    lists, target = [["x"], ["y"]], [["x"], ["x"]]
    with pytest.raises(
        ValueError,
        match="may be names of the groups 1, 2 or their places from 0; pass names as texts",
    ):
        tm.evaluate(lists, target, metrics=metrics, row_groups=[1, 1])
    assert (
        tm.evaluate(lists, target, metrics=metrics, row_groups=["1", "1"]).scalars[
            "recall@1/1"
        ]
        == 0.5
    )
    metrics = [tm.RecallAtK(1, row_groups=["0", "1"])]
    assert (
        tm.evaluate(lists, target, metrics=metrics, row_groups=[0, 0]).scalars[
            "recall@1/0"
        ]
        == 0.5
    )


def test_evaluate_warns_of_areas_from_bins_with_their_error_bound() -> None:
    """A warning states how far an area may be off because scores share a bin.

    Two rows in one bin have no order: the area of one label is off by up to 0.5. Scores
    in different bins bring no warning.
    """
    target = torch.tensor([[True, True], [False, False]])
    metrics = [
        tm.LabelAUC(num_labels=2),
        tm.LabelAUC(num_labels=2, buckets=tm.LabelBuckets.deciles([9, 1])),
    ]
    for second, has_warning in ((0.5002, True), (4.0, False)):
        report = tm.evaluate(
            torch.tensor([[0.5001, 1.0], [second, 9.0]]), target, metrics=metrics
        )
        text = "values may be off by up to 0.5 (macro_auc/decile_10). error_bounds()"
        assert any(text in warning for warning in report.warnings) is has_warning


@pytest.mark.parametrize("fault", ["numbers", "order", "nothing"])
def test_evaluate_warns_of_values_worse_than_chance(fault):
    """A warning names the metrics that are worse than with equal scores for all labels:
    ln L for the cross-entropy, k / L for a list of k. Targets numbered from 1 and
    distances in place of scores make a sure model worse than that; equal scores bring
    no warning.
    """
    target = torch.arange(200) % (NUM_LABELS - 1)
    noise = torch.rand(200, NUM_LABELS, generator=torch.Generator().manual_seed(0))
    scores = 30 * torch.nn.functional.one_hot(target, NUM_LABELS) + noise * 0.1
    batches = {
        "numbers": (scores, target + 1),
        "order": (-scores, target),
        "nothing": (torch.zeros_like(scores), target),
    }
    metrics = [
        tm.AccuracyAtK(k=5),
        tm.CrossEntropy(),
        tm.RecallAtK(k=5, buckets="deciles"),
    ]
    groups = ["a", "b"] * 100
    report = tm.evaluate(
        *batches[fault],
        metrics=metrics,
        label_counts=training_counts(),
        row_groups=groups,
    )
    assert (report.scalars["cross_entropy"] > log(NUM_LABELS) + 1e-6) == (
        fault != "nothing"
    )
    notes = [
        warning.partition(". Look")[0]
        for warning in report.warnings
        if "Look whether preds and target number" in warning
    ]
    worse = {
        "numbers": "cross_entropy",
        "order": "accuracy@5, cross_entropy, recall@5",
    }.get(fault)
    assert notes == (
        [f"Worse than with equal scores for all labels: {worse}"] if worse else []
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_evaluate_warns_of_swapped_token_and_label_axes(swapped):
    """Logits [B, V, T] with T = V bring a note that asks whether the last axis is that
    of labels, because a sure model is then worse than ln V. The note survives the
    transfer of states; without the swap there is none.
    """
    tokens = torch.randint(9, (4, 9), generator=torch.Generator().manual_seed(0))
    logits = 5.0 * torch.nn.functional.one_hot(tokens, 9)
    evaluation = Evaluation(tm.CrossEntropy())
    evaluation.update(logits.transpose(1, 2) if swapped else logits, tokens)
    copy = Evaluation(tm.CrossEntropy())
    copy.load_state_dict(evaluation.state_dict())
    has_note = any(
        "whether the last axis of scores is that of labels" in note
        for note in copy.report("").notes
    )
    assert has_note is swapped


def test_k_for_recall_warns_of_rows_that_do_not_reach_the_recall() -> None:
    """A warning states the share of rows whose list does not reach the recall, and the
    number they count as.

    Of four lists of two labels three end before half of the relevant ones; they count
    as 100 // 2. Label 9, the only one of decile_10, is relevant in rows 1 to 3 and
    never listed; label 0 in row 0, where it is.
    """
    preds = torch.tensor([[0, 1], [2, 1], [3, 1], [4, 1]])
    target = torch.tensor([[0], [9], [9], [9]])
    counts = [1] + [0] * 8 + [5] + [0] * 90
    metrics = [
        tm.KForRecall(0.5, num_labels=100),
        tm.KForRecall(0.5, statistic="mean", num_labels=100),
    ]
    report = tm.evaluate(preds, target, metrics=metrics, intervals=False)
    assert report.scalars == {
        "median_k_for_recall@0.5": 50.0,
        "mean_k_for_recall@0.5": (1 + 3 * 50) / 4,
    }
    (note,) = [warning for warning in report.warnings if "do not reach" in warning]
    assert note == (
        "median_k_for_recall@0.5, mean_k_for_recall@0.5: 75.0% of the rows do not reach the recall within their list "
        "and count as 50, which is no rank. Compare runs only if this number is the same."
    )
    by_bucket = [tm.KForRecall(0.5, buckets="deciles")]
    (note,) = [
        warning
        for warning in tm.evaluate(
            preds, target, metrics=by_bucket, label_counts=counts
        ).warnings
        if "do not reach" in warning
    ]
    assert note.startswith("median_k_for_recall@0.5: 75.0% of the rows do not reach")
    comparison = compare_runs(
        {"part": preds, "all": target}, target, metrics=metrics, resamples=100
    )
    assert [
        warning
        for warning in comparison.warnings
        if warning.startswith("part: median_k_for_recall@0.5, mean_k")
    ]


def test_comparison_and_reports_have_the_same_values_of_empty_buckets():
    """Values of reports and comparisons agree, also where they are a convention.

    They are NaN where nothing is relevant or a bucket has no label, and 0 for 0 / 0 of
    all labels.

    Label 0 (head) is relevant in eight rows, label 2 (mid) in four; nothing is relevant
    in the tail, and the last bucket has no label. One run shows label 0 alone, the
    other the relevant label.
    """
    target = torch.tensor([0] * 8 + [2] * 4)
    runs = {"one": torch.zeros_like(target)[:, None], "right": target[:, None]}
    buckets = tm.LabelBuckets.from_assignment(
        [0, 0, 1, 1, 2, 2], ["head", "mid", "tail", "empty"]
    )
    alike = {"scope": "global", "buckets": buckets}
    metrics = [
        tm.PrecisionAtK(
            k=1, denominator="k", empty_target_action="neg", name="share", **alike
        ),
        tm.PrecisionAtK(k=1, average="micro", name="micro", **alike),
        tm.F1AtK(k=1, average="macro", labels="all", name="macro", **alike),
    ]
    f1 = 2 * 8 / (12 + 8) / 2  # of label 0, over two labels
    expected = {
        "one": {
            "share": [2 / 3, 0, 0, nan],
            "micro": [2 / 3, 0, nan, nan],
            "macro": [f1, 0, 0, nan],
        },
        "right": {
            "share": [2 / 3, 1 / 3, 0, nan],
            "micro": [1, 1, nan, nan],
            "macro": [0.5, 0.5, 0, nan],
        },
    }
    gaps = {"one": [2 / 3, 2 / 3, f1], "right": [2 / 3, 0, 0.5]}
    names = ["share", "micro", "macro"]
    for run, run_values in expected.items():
        run_values |= {
            f"{name}/gap": gap for name, gap in zip(names, gaps[run], strict=True)
        }
        run_values |= {
            f"{name}/{b}": v
            for name in names
            for b, v in zip(buckets.names, run_values.pop(name), strict=True)
        }
        report = tm.evaluate(runs[run], target, metrics=metrics, intervals=100)
        values = {
            key: value
            for key, value in {**report.scalars, **report.summaries}.items()
            if key in run_values
        }
        assert values == pytest.approx(run_values, nan_ok=True)
        assert 0 < report.intervals["share/gap"].low < 2 / 3
    comparisons = {
        comparison.key: comparison
        for comparison in compare_runs(
            runs, target, metrics=metrics, resamples=100, baseline="one"
        ).comparisons
    }
    for key, value in expected["right"].items():
        assert (
            comparisons[key].baseline_value,
            comparisons[key].value,
        ) == pytest.approx((expected["one"][key], value), nan_ok=True)
        assert (comparisons[key].n == 0) == (value != value)
    row_values = metrics[0].row_values(
        tm.rank(runs["one"], target, depth=1, num_labels=6)
    )
    assert row_values["share/tail"].tolist() == [0.0] * 12
    assert bool(row_values["share/empty"].isnan().all())


def test_added_metrics_use_the_ignore_index_of_the_collection():
    """Metrics that evaluate adds, by bucket or over all labels, use the ignore_index of
    the collection: they leave out the same row.
    """
    scores, target = torch.eye(6), torch.tensor([0, 1, 2, -1, 4, 5])
    for arguments in ({}, {"buckets": "deciles", "scope": "global"}):
        collection = tm.TopKCollection(
            [tm.AccuracyAtK(k=1, **arguments)], ignore_index=-1
        )
        report = tm.evaluate(
            scores, target, metrics=collection, label_counts=[6, 5, 4, 3, 2, 1]
        )
        assert report.rows == 5


@pytest.mark.parametrize("macro", [None, "of_averages"])
def test_macro_average_states_the_value_of_a_perfect_model(macro):
    """A report of a macro average over all labels says how many labels have no row and
    count 0, and what a perfect model can reach. Each bucket shows how many of its
    labels have rows. Over present labels a perfect model reaches 1.
    """
    counts = (200 / torch.arange(1, 41)).long()
    target = torch.multinomial(
        counts.float(), 60, replacement=True, generator=torch.Generator().manual_seed(0)
    )
    perfect = torch.nn.functional.one_hot(target, 40)
    buckets = tm.LabelBuckets.quantiles(counts, 3)
    kinds = {
        kind: [
            tm.F1AtThreshold(
                0.5, average="macro", labels=kind, macro=macro, num_labels=40
            ),
            tm.F1AtThreshold(
                0.5, average="macro", labels=kind, macro=macro, buckets=buckets
            ),
        ]
        for kind in ("all", "present")
    }
    reports = {
        kind: tm.evaluate(perfect.float(), perfect.bool(), metrics=metrics_of_kind)
        for kind, metrics_of_kind in kinds.items()
    }
    relevant = set(target.tolist())
    for report in reports.values():
        with_rows = [
            sum(buckets.names[buckets.assignment[label]] == name for label in relevant)
            for name in buckets.names
        ]
        assert [bucket.labels_with_rows for bucket in report.buckets] == with_rows
        (table,) = (
            table for table in report.document().tables if table.name == "buckets"
        )
        column = table.header.index("labels with rows")
        assert [line[column] for line in table.lines] == [
            str(len(relevant)),
            *map(str, with_rows),
        ]
    assert [
        max(report.overall.values()) for report in reports.values()
    ] == pytest.approx([len(relevant) / 40, 1.0])
    start = "the F-score of precision and recall, each " if macro else ""
    (meaning,) = (facts.meaning for facts in reports["all"].metrics if facts.meaning)
    assert meaning == (
        f"{start}the mean over all labels, of which {40 - len(relevant)} of 40 have no relevant row and count 0, so that it can "
        f"reach {len(relevant) / 40:.4f}"
    )
    (meaning,) = (
        facts.meaning for facts in reports["present"].metrics if facts.meaning
    )
    assert meaning == f"{start}the mean over the labels that are relevant in some row"


def test_calibration_caption_states_mean_probability_and_share_right():
    """The caption of a calibration error states, by bucket, the number of predictions,
    their mean probability and the share that is right; the meaning says over- or
    under-confident. By hand: five predictions of e^2 / (e^2 + 3), two of them right; a
    prediction counts in the bucket of its label.
    """
    scores, target = 2 * torch.eye(4)[[0, 0, 1, 3, 0]], torch.tensor([0, 1, 2, 3, 3])
    buckets = tm.LabelBuckets.from_assignment([0, 0, 1, 1], ["head", "tail"])
    probability = e**2 / (e**2 + 3)
    report = tm.evaluate(
        scores, target, metrics=[tm.CalibrationErrorAtK(k=[1, 4], buckets=buckets)]
    )
    for stem, text in (
        (
            "calibration_error@1",
            f"head 4 ({probability:.4f}, 0.2500), tail 1 ({probability:.4f}, 1.0000)",
        ),
        (
            "calibration_error@4",
            f"head 10 ({(4 * probability + 6 * (1 - probability) / 3) / 10:.4f}, 0.2000), tail 10 ",
        ),
    ):
        assert (
            f"; predictions (their mean probability, the share that is right): {text}"
            in report.facts(stem).caption
        )
    text = f"over-confident on average: predictions have a mean probability of {probability:.4f}, and 0.4000 of them are right"
    assert report.facts("calibration_error@1").meaning == text
    report = tm.evaluate(scores / 9 - 1, target, metrics=[tm.CalibrationErrorAtK()])
    assert report.facts("calibration_error@1").meaning.startswith(
        "under-confident on average"
    )


def test_calibration_without_bias_or_predictions():
    """A calibration error without bias is called neither over- nor under-confident; a
    bucket without predictions shows dashes, and without rows there is no meaning. Two
    rows of two equal scores, one right: 0.5 and 0.5.
    """
    buckets = tm.LabelBuckets.from_assignment([0, 1], ["head", "tail"])
    metrics = [tm.CalibrationErrorAtK(), tm.CalibrationErrorAtK(buckets=buckets)]
    report = tm.evaluate(torch.zeros(2, 2), torch.tensor([0, 1]), metrics=metrics)
    assert report.facts("calibration_error@1").meaning.startswith(
        "neither over- nor under-confident on average"
    )
    assert report.facts("calibration_error@1").caption.endswith(
        "head 2 (0.5000, 0.5000), tail 0 (–, –)"
    )
    assert (
        Evaluation([tm.CalibrationErrorAtK()])
        .report("no rows")
        .facts("calibration_error@1")
        .meaning
        == ""
    )


def test_rows_left_out_by_ignore_index_are_counted_once_per_accepted_batch():
    """A report counts the rows that ignore_index leaves out, with the tokens of
    sequences as rows, and counts none of a batch that a metric refuses.
    """
    evaluation = Evaluation(
        [tm.RecallAtK(1, num_labels=4, ignore_index=-100, empty_target_action="error")]
    )
    evaluation.update(torch.eye(4)[:3], torch.tensor([0, -100, 2]))
    with pytest.raises(ValueError, match="no relevant label"):
        evaluation.update(torch.eye(4)[:3], torch.tensor([-100, -100, -1]))
    assert (
        "1 of 3 rows are left out by ignore_index=-100."
        in evaluation.report("a").warnings
    )
    evaluation.update(
        torch.eye(4)[None, :2], torch.tensor([[0, -100]]), torch.tensor([True])
    )
    assert (
        "2 of 5 rows are left out by ignore_index=-100."
        in evaluation.report("b").warnings
    )


def test_repeated_label_of_a_query_is_refused_with_a_hint():
    """A label that a query holds twice is refused.

    The hint says how to keep all visits of a user, because dropping one would count
    users.
    """
    pd = pytest.importorskip("pandas")
    visits = pd.DataFrame({"query": ["u", "u", "u"], "item": ["a", "b", "a"]})
    preds = visits.drop_duplicates().assign(score=[1.0, 0.5])
    with pytest.raises(
        ValueError, match=r"^target, .*: holds the label 'a' twice"
    ) as caught:
        tm.evaluate(preds, visits, metrics=tm.RecallAtK(k=1))
    assert (
        "such as a visit of a user, drop none: make each a row, by a column 'query'"
        in caught.value.hint
    )
    for arguments in (
        {"preds": [["a", "a"]], "target": [["a"]]},
        {"preds": [["a"]], "target": [["a", "a"]]},
    ):
        with pytest.raises(ValueError, match="row 0: holds the label 'a' twice"):
            tm.evaluate(**arguments, metrics=tm.RecallAtK(k=1))


def test_short_lists_bring_no_warning_of_values_worse_than_chance():
    """A cut-off beyond the end of the lists brings no warning of values worse than
    chance; one within the lists does.

    Half of the rows find their document in lists of 20; equal scores of all 150
    documents would find 100 / 150 within 100.
    """
    documents = [f"d{number}" for number in range(150)]
    qrels = {f"q{row}": {documents[row]: 1} for row in range(100)}
    lists = {
        f"q{row}": {
            documents[(row + place + (row % 10 > 4)) % 150]: 1.0 - place / 20
            for place in range(20)
        }
        for row in range(100)
    }
    metrics = [tm.RecallAtK(k=[20, 100], num_labels=150), tm.MRR()]
    report = tm.evaluate(lists, qrels, metrics=metrics, label_names=documents)
    assert report.scalars["recall@100"] == pytest.approx(0.5)
    assert report.references["chance"]["recall@100"] == pytest.approx(2 / 3)
    assert not [warning for warning in report.warnings if "Worse than" in warning]
    worst = {
        query: {
            documents[(int(query[1:]) + 40 + place) % 150]: 1.0 - place / 20
            for place in range(20)
        }
        for query in lists
    }
    (note,) = [
        warning
        for warning in tm.evaluate(
            worst, qrels, metrics=metrics, label_names=documents
        ).warnings
        if "Worse than" in warning
    ]
    assert note == (
        "Worse than with equal scores for all labels: recall@20. Look whether preds and target number the labels alike, "
        "from 0, or call them by the same names; whether the last axis of scores is that of labels; and whether the "
        "largest score, or the first place of a list, is the best."
    )


REPEATED = {"names": [["a", "b", "a"], ["b", "c"]], "ids": [[0, 1, 0], [1, 2]]}


@pytest.mark.parametrize("form", ["names", "ids", "table"])
def test_duplicates_first_accepts_repeated_labels(form):
    """A list that repeats a label is refused with the advice duplicates='first', which
    evaluate, compare_runs and metrics take. By hand: 1 of 3 places and 1 of 2 are hits,
    and the second place of a label is a miss.
    """
    relevant = {
        "names": [["a"], ["c"]],
        "ids": [[0], [2]],
        "table": {"q": {"a": 1}, "r": {"c": 1}},
    }[form]
    queries, items = zip(
        *[
            (query, item)
            for query, row in zip("qr", REPEATED["names"], strict=True)
            for item in row
        ],
        strict=True,
    )
    table = {"query": queries, "item": items, "score": [0.9, 0.8, 0.7, 0.9, 0.8]}
    lists = pa.table(table).to_pandas() if form == "table" else REPEATED[form]
    with pytest.raises(ValueError, match="duplicates='first'"):
        tm.evaluate(lists, relevant, metrics=[tm.PrecisionAtK(3)])
    for metric, arguments in (
        (tm.PrecisionAtK(3), {"duplicates": "first"}),
        (tm.PrecisionAtK(3, duplicates="first"), {}),
    ):
        report = tm.evaluate(lists, relevant, metrics=metric, **arguments)
        assert report.scalars["precision@3"] == pytest.approx((1 / 3 + 1 / 2) / 2)
        runs = compare_runs(
            {"one": lists, "two": lists},
            relevant,
            metrics=[metric],
            resamples=99,
            **arguments,
        )
        assert runs.values["precision@3"] == {
            "one": pytest.approx(5 / 12),
            "two": pytest.approx(5 / 12),
        }


def test_headline_is_a_metric_of_which_more_is_better() -> None:
    """The headline of a report is a metric of which more is better: accuracy, also
    after a calibration error.
    """
    scores, target = torch.eye(4).repeat(5, 1) * 3, torch.arange(20) % 4
    metrics = [tm.CalibrationErrorAtK(k=1), tm.AccuracyAtK(k=1)]
    report = tm.evaluate(
        scores,
        target,
        metrics=metrics,
        label_counts=[9, 5, 2, 1],
        buckets="thresholds:1,3,6",
    )
    assert report.headline == "global_accuracy@1"


@pytest.mark.parametrize(
    ("metrics", "headline"),
    [
        ([tm.MRR(), tm.LabelAUC(num_labels=4)], "mrr"),
        ([tm.CrossEntropy(), tm.RowAUC(), tm.LabelAP(num_labels=4)], "row_auc"),
        ([tm.NDCGAtK(k=2), tm.RecallAtK(k=2)], "recall@2"),
    ],
)
def test_headline_over_all_labels_is_recall_or_the_first_good_value(
    metrics, headline
) -> None:
    """Without buckets the headline is recall, or else the first metric of quality of
    which a higher value is better.
    """
    scores, target = torch.eye(4).repeat(5, 1) * 3, torch.arange(20) % 4
    assert (
        tm.evaluate(scores, target, metrics=metrics, intervals=False).headline
        == headline
    )


def test_label_values_are_added_if_members_lack_a_count():
    """Metrics of each label are added unless a member counts hits, predictions and
    support of each label, as F1 does.

    Recall alone lacks predictions. They are added once: the callback makes an
    evaluation of a collection that has them.
    """
    f1, recall = (
        kind(k=[2, 3], average="macro", num_labels=4)
        for kind in (tm.F1AtK, tm.RecallAtK)
    )
    collection = tm.TopKCollection([f1])
    assert with_label_values(collection) is collection
    for metrics in ([recall], [recall, f1]):
        collection = with_label_values(tm.TopKCollection(metrics))
        assert list(with_label_values(collection).members()) == list(
            collection.members()
        )
        _, *added = list(collection.members().values())[len(metrics) - 1 :]
        assert [(type(metric), metric.cutoffs, metric.average) for metric in added] == [
            (kind, (2, 3), "none") for kind in (tm.PrecisionAtK, tm.RecallAtK, tm.F1AtK)
        ]


def test_evaluate_creates_few_metric_objects(monkeypatch):
    """evaluate of three metrics creates at most 16 metric objects: the three, their
    copies, one by bucket of each, sums, counts and references are 13.
    """
    created = []
    new = ExactMetric.__new__

    def counting(cls, *args, **kwargs):
        created.append(cls.__name__)
        return new(cls, *args, **kwargs)

    scores, mask = data()
    monkeypatch.setattr(ExactMetric, "__new__", staticmethod(counting))
    metrics = [tm.PrecisionAtK(k=5), tm.RecallAtK(k=10), tm.NDCGAtK(k=10)]
    tm.evaluate(scores, mask, metrics=metrics, label_counts=training_counts())
    assert len(created) <= 16, sorted(created)


@pytest.mark.parametrize("kind", ["list", "collection"])
def test_evaluate_keeps_the_states_of_used_metrics(kind):
    """evaluate of metrics that have been updated reports only its own rows, and leaves
    the states of the metrics unchanged.
    """
    scores, mask = data()
    metrics = [
        tm.RecallAtK(3, num_labels=NUM_LABELS),
        tm.LabelAUC(num_labels=NUM_LABELS),
    ]
    used = metrics if kind == "list" else tm.TopKCollection(metrics)
    for metric in metrics:
        metric.update(scores, mask)
    states = [
        {name: state.clone() for name, state in metric.metric_state.items()}
        for metric in metrics
    ]
    report = tm.evaluate(
        scores.flip(1), mask, metrics=used, label_counts=training_counts()
    )
    rows = tm.functional.recall_at_k(scores.flip(1), mask, k=3)
    assert report.scalars["recall@3"] == pytest.approx(float(rows.nan_to_num().mean()))
    for metric, states_of_metric in zip(metrics, states, strict=True):
        assert all(
            torch.equal(metric.metric_state[name], state)
            for name, state in states_of_metric.items()
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["scores", "candidates", "dicts", "flat"])
def test_rows_of_one_grade_are_counted_in_a_note(form):
    """A note counts the rows in which all labels have one grade, because any order of
    them has the nDCG 1.

    In two of four queries all documents have grade 2; a query of one document does not
    count. Recall alone brings no note.
    """
    grades = {"q0": [2, 2], "q1": [2, 1], "q2": [2, 2], "q3": [1]}
    run = {
        query: {f"{query}-{place}": 1.0 - place for place in range(len(row_grades))}
        for query, row_grades in grades.items()
    }
    qrels = {
        query: {f"{query}-{place}": grade for place, grade in enumerate(row_grades)}
        for query, row_grades in grades.items()
    }
    metrics = [tm.NDCGAtK(k=2), tm.RecallAtK(k=1)]
    if form == "dicts":
        report = tm.evaluate(run, qrels, metrics=metrics)
    elif form == "flat":
        flat = [
            (row, grade, -place)
            for row, row_grades in enumerate(grades.values())
            for place, grade in enumerate(row_grades)
        ]
        indexes, target, preds = (
            torch.tensor(column) for column in zip(*flat, strict=True)
        )
        report = tm.evaluate(
            tm.Ranking.from_flat(preds.float(), target.float(), indexes),
            metrics=metrics,
        )
    elif form == "candidates":
        ids = torch.tensor([[0, 1], [0, 1], [0, 1], [0, -1]])
        scores = torch.tensor([[0.9, 0.5]] * 4)
        target = torch.tensor([[2.0, 2, 0], [2, 1, 0], [2, 2, 0], [1, 0, 0]])
        report = tm.evaluate((scores, ids), target, metrics=metrics)
    else:
        target = torch.tensor([[2.0, 2], [2, 1], [2, 2], [1, 0]])
        report = tm.evaluate(torch.rand(4, 2), target, metrics=metrics)
    (note,) = [note for note in report.notes if "one grade" in note]
    assert note.startswith(
        "In 2 of 4 rows all labels have one grade: every order of them has the value 1 in ndcg@2"
    )
    assert not any(
        "one grade" in note
        for note in tm.evaluate(run, qrels, metrics=metrics[1:]).notes
    )


@pytest.mark.parametrize(
    "metric",
    [
        tm.RecallAtK(2, buckets="quantiles:2"),
        tm.PropensityScoredPrecisionAtK(2),
        tm.PopularityAtK(2),
        tm.LabelAUC(buckets="quantiles:2"),
    ],
    ids=lambda metric: type(metric).__name__,
)
@pytest.mark.parametrize("as_collection", [False, True])
def test_a_bound_metric_stays_bound_in_evaluate(metric, as_collection):
    """A metric that ``bind`` has completed has the same values in ``evaluate`` as by
    itself.
    """
    frequency = tm.LabelFrequency.from_counts([50, 20, 3, 1], num_rows=60)
    generator = torch.Generator().manual_seed(0)
    scores, target = (
        torch.randn(40, 4, generator=generator),
        torch.randint(0, 4, (40,), generator=generator),
    )
    bound = metric.empty_copy().bind(frequency)
    metrics = tm.TopKCollection([bound]) if as_collection else [bound]
    report = tm.evaluate(scores, target, metrics=metrics, intervals=False)
    bound.update(scores, target)
    expected = {key: float(value) for key, value in bound.scalars().items()}
    assert {key: report.scalars[key] for key in expected} == pytest.approx(
        expected, nan_ok=True
    )


def test_counts_of_evaluate_replace_bound_counts_by_bucket_too():
    """With ``label_counts=``, the popularity of a shown label is its count there, also
    by bucket, whatever the metric was bound to.
    """
    bound = tm.PopularityAtK(1).bind(
        tm.LabelFrequency.from_counts([50, 20, 3, 1], num_rows=60)
    )
    report = tm.evaluate(
        torch.eye(4),
        torch.arange(4),
        metrics=bound,
        label_counts=[1, 3, 20, 50],
        intervals=False,
    )
    assert report.scalars["popularity@1"] == (1 + 3 + 20 + 50) / 4
    by_bucket = [
        report.scalars[f"popularity@1/decile_{number}"] for number in (10, 9, 8, 7)
    ]
    assert by_bucket == [50, 20, 3, 1]
