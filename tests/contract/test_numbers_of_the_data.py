"""Numbers that describe the data rather than the model bring one warning, and a note in
reports.
"""

import json
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import tailmetrics as tm
from tailmetrics import LabelBuckets, Ranking, evaluate
from tailmetrics.cli import main
from tailmetrics.evaluation.description import captions_of
from tailmetrics.report import Report

SCORES = torch.rand(10, 20, generator=torch.Generator().manual_seed(0))
CLASSES = torch.arange(10)
CLASSES_WITH_GAP = CLASSES.masked_fill(CLASSES == 3, -1)
COUNTS = torch.arange(20) + 1


def test_metrics_that_evaluate_adds_use_the_ignore_index_of_the_collection() -> None:
    """The row with ignore_index counts neither overall nor in the buckets that evaluate
    adds to a collection.
    """
    metrics = tm.TopKCollection([tm.PrecisionAtK(k=1)], ignore_index=-1)
    report = evaluate(SCORES, CLASSES_WITH_GAP, label_counts=COUNTS, metrics=metrics)
    is_kept = CLASSES_WITH_GAP >= 0
    expected = evaluate(
        SCORES[is_kept],
        CLASSES_WITH_GAP[is_kept],
        label_counts=COUNTS,
        metrics=[tm.PrecisionAtK(k=1)],
    )
    assert report.rows == 9
    torch.testing.assert_close(
        report.scalars, expected.scalars, equal_nan=True, rtol=0, atol=0
    )


def test_metrics_warn_once_that_rows_of_class_minus_one_are_misses() -> None:
    """A metric or collection warns once that rows with the class -1 count as misses,
    and says what to write instead.

    It does not warn if ignore_index, empty_target_action or row_mask decides it.
    """
    metric, collection = (
        tm.AccuracyAtK(k=1),
        tm.TopKCollection([tm.AccuracyAtK(k=1), tm.MRR()]),
    )
    for counter in (metric, collection):
        with pytest.warns(
            UserWarning,
            match="some rows have -1 or an empty list as target.*ignore_index=-1.* are misses, .*too high",
        ) as caught:
            counter.update(SCORES, CLASSES_WITH_GAP)
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update(SCORES, CLASSES_WITH_GAP)
        tm.AccuracyAtK(k=1, ignore_index=-1).update(SCORES, CLASSES_WITH_GAP)
        tm.AccuracyAtK(k=1, empty_target_action="neg").update(SCORES, CLASSES_WITH_GAP)
        tm.AccuracyAtK(k=1).update(SCORES, CLASSES)
        tm.AccuracyAtK(k=1).update(
            SCORES, CLASSES_WITH_GAP, row_mask=CLASSES_WITH_GAP >= 0
        )
        tm.RecallAtK(k=1).update(
            SCORES,
            torch.stack([CLASSES_WITH_GAP, CLASSES_WITH_GAP + 10], dim=1).masked_fill(
                CLASSES_WITH_GAP[:, None] < 0, -1
            ),
        )
        tm.CrossEntropy().update(SCORES.log(), CLASSES_WITH_GAP)  # leaves such rows out


PADDED = torch.tensor(
    [[5, 3, 0, 0, 0], [2, 7, 1, 4, 6], [1, 0, 0, 0, 0], [9, 8, 7, 0, 0]]
)
"""Labels of four sequences, padded with 0, the default of ``pad_sequence``."""


def test_metrics_and_counts_warn_of_lists_padded_with_a_label() -> None:
    """Metrics and LabelFrequency warn if most rows of target end in label 0, which
    occurs nowhere else, because it would be a hit. Labels in ascending order and lists
    padded with -1 bring no warning.
    """
    scores = torch.rand(30, 10, generator=torch.Generator().manual_seed(0))
    padded = torch.tensor([[1, 0], [1, 2], [3, 0]]).repeat(10, 1)
    for add in (
        tm.RecallAtK(k=3).update,
        tm.TopKCollection([tm.RecallAtK(k=3)]).update,
    ):
        with pytest.warns(
            UserWarning,
            match=r"most rows of target end in label 0,.* ignore_index=0\. If it is a label",
        ):
            add(scores, padded)
    with pytest.warns(
        UserWarning,
        match=r"LabelFrequency: most rows of target end in label 0,.* as target_ids, and ignore_index=0",
    ):
        tm.LabelFrequency(10).update(padded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_order = torch.tensor([[0, 1], [0, 2], [0, 3]]).repeat(10, 1)
        tm.RecallAtK(k=3).update(scores, in_order)
        tm.RecallAtK(k=3).update(scores, padded.masked_fill(padded == 0, -1))
        frequency = tm.LabelFrequency(10)
        frequency.update(target_ids=padded, ignore_index=0)
    assert (frequency.compute().tolist()[:4], frequency.num_rows) == (
        [0, 20, 10, 10],
        30,
    )


def test_label_frequency_distinguishes_tokens_and_lists() -> None:
    """With ignore_index each token is a row of LabelFrequency; with target_ids each
    list is one.

    A matrix of 0 and 1 with ignore_index, which may be tokens or multi-hot, is refused.
    """
    tokens = torch.tensor([[1, 0, 1], [2, 1, -100]])
    token_frequency, list_frequency, row_frequency = (
        tm.LabelFrequency(3) for _ in range(3)
    )
    token_frequency.update(tokens, ignore_index=-100)
    list_frequency.update(target_ids=tokens, ignore_index=-100)
    row_frequency.update(
        tokens, row_mask=torch.tensor([True, False]), ignore_index=-100
    )
    assert (token_frequency.compute().tolist(), token_frequency.num_rows) == (
        [1, 3, 1],
        5,
    )
    assert (list_frequency.compute().tolist(), list_frequency.num_rows) == (
        [1, 3, 1],
        2,
    )
    assert (row_frequency.compute().tolist(), row_frequency.num_rows) == ([1, 2, 0], 3)
    with pytest.raises(
        ValueError,
        match="holds only 0 and 1: with ignore_index=-100 these may be tokens or a matrix",
    ):
        token_frequency.update(tokens[:1], ignore_index=-100)
    assert token_frequency.num_rows == 5
    with pytest.warns(UserWarning, match="each place of it is a row of its own"):
        tm.LabelFrequency(9).update(torch.tensor([[1, -1]]), ignore_index=-100)


def test_metrics_warn_of_padding_in_lists() -> None:
    """A warning, once and in reports, says that lists hold the ignored label.

    Item 0 has the best score and is in no target: it takes the one place of each list,
    so that recall is 0; with item 0 masked or removed it is 0.5.
    """
    scores, target = (
        torch.tensor([[9.0, 5.0, 1.0], [9.0, 1.0, 5.0]]),
        torch.tensor([1, 1]),
    )
    metric = tm.RecallAtK(k=1, ignore_index=0)
    with pytest.warns(
        UserWarning,
        match=r"a list holds the label .* preds\[:, 0\] = -inf, .* preds\[:, 1:\] beside target - 1",
    ):
        metric.update(scores, target)
    assert float(metric.compute()) == 0.0
    with pytest.warns(UserWarning, match="a list holds the label"):
        report = evaluate(scores, target, metrics=[tm.RecallAtK(k=1, ignore_index=0)])
    assert sum("a list holds the label" in note for note in report.notes) == 1
    masked = scores.clone()
    masked[:, 0] = -torch.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for preds, labels, ignore_index in (
            (masked, target, 0),
            (scores[:, 1:], target - 1, None),
        ):
            metric = tm.RecallAtK(k=1, ignore_index=ignore_index)
            metric.update(preds, labels)
            assert float(metric.compute()) == 0.5


def test_metrics_and_reports_warn_of_sequences_padded_with_a_label(
    tmp_path: Path,
) -> None:
    """Metrics, collections, evaluate and the command line warn if most sequences end in
    a run of label 0, which occurs nowhere else.
    """
    logits = torch.rand(4, 5, 10, generator=torch.Generator().manual_seed(0))
    for metric in (tm.MRR(), tm.TopKCollection([tm.MRR(), tm.AccuracyAtK(k=1)])):
        for target in (PADDED, PADDED.numpy()):
            with pytest.warns(
                UserWarning,
                match="end in a run of label 0,.* padding.* ignore_index=-100; ",
            ) as caught:
                metric.clone().update(logits, target)
            assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="end in a run of label 0"):
        report = evaluate(logits, PADDED, metrics=tm.MRR())
    assert sum("end in a run of label 0" in note for note in report.notes) == 1
    np.save(tmp_path / "p.npy", logits), np.save(tmp_path / "y.npy", PADDED)
    words = [
        "--preds",
        tmp_path / "p.npy",
        "--target",
        tmp_path / "y.npy",
        "--metrics+=MRR",
        "--out",
        tmp_path / "out",
    ]
    assert main(["evaluate", *map(str, words), "--quiet"]) == 0
    assert "end in a run of label 0" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("buckets", "start"),
    [
        (
            "deciles",
            "decile_10 is label 0 (pad) alone: 50% of all labels in training, and relevant in no row.",
        ),
        (
            "thresholds:1,10:many,few",
            "Label 0 (pad) of many is frequent: 50% of all labels in training",
        ),
    ],
)
def test_report_notes_training_targets_padded_with_a_label(
    buckets: str, start: str
) -> None:
    """A report notes a label that is half of the training labels and relevant in no
    row.

    It does not if a row has the label, if ignore_index leaves it out, or if there are
    too few rows to tell.
    """
    counts, generator = (
        torch.tensor([190, *[10] * 19]),
        torch.Generator().manual_seed(1),
    )
    target = torch.randint(1, 20, (60,), generator=generator)
    metric, scores = (
        tm.RecallAtK(3, buckets=buckets, scope="global"),
        torch.randn(60, 20, generator=generator),
    )
    names = ["pad", *(f"item {label}" for label in range(1, 20))]

    def notes(target: torch.Tensor, **arguments: object) -> list[str]:
        report = evaluate(
            scores[: len(target)],
            target,
            label_counts=counts,
            metrics=[metric],
            label_names=names,
            **arguments,
        )
        return [
            warning for warning in report.warnings if "relevant in no row" in warning
        ]

    (note,) = notes(target)
    assert note.startswith(start)
    assert "make the metrics with ignore_index=0" in note
    assert (
        notes(target.masked_fill(torch.arange(60) == 7, 0))
        == notes(target, ignore_index=0)
        == []
    )
    assert notes(target[:39]) == []  # half of 39 labels: 20 would be expected


def test_sequences_without_padding_bring_no_warning() -> None:
    """No warning comes for ignored or masked padding, a frequent class that is
    anywhere, ends that differ, or labels without sequences.
    """
    logits = torch.rand(4, 5, 10, generator=torch.Generator().manual_seed(0))
    ignored = PADDED.masked_fill(PADDED == 0, -100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tm.MRR(ignore_index=-100).update(logits, ignored)
        tm.MRR(ignore_index=0).update(logits, PADDED)
        tm.MRR().update(logits, PADDED, row_mask=PADDED > 0)
        tm.MRR().update(
            logits,
            torch.tensor(
                [[0, 3, 0, 0, 0], [0, 7, 1, 4, 6], [1, 0, 0, 0, 0], [9, 8, 7, 0, 0]]
            ),
        )
        tm.MRR().update(
            logits,
            torch.tensor(
                [[5, 3, 0, 0, 0], [2, 7, 1, 1, 1], [1, 2, 2, 2, 2], [9, 8, 7, 4, 4]]
            ),
        )
        tm.MRR().update(logits, torch.zeros(4, 5, dtype=torch.int64))
        tm.MRR().update(logits.flatten(0, 1), PADDED.flatten())
        evaluate(logits, PADDED, metrics=tm.MRR(), ignore_index=0)


def test_k_for_recall_warns_that_one_label_per_row_gives_the_median_rank() -> None:
    """KForRecall warns once if each row of a batch has one relevant label, because its
    value is then the median rank for any min_recall; the accuracy by k gives the length
    at which 80 % are found. By a plain sort.
    """
    scores = SCORES.gather(1, CLASSES[:, None])
    ranks = (scores < SCORES).sum(dim=1) + 1
    message = "each row of a batch has one relevant label. If all rows do, min_recall=0.8 makes no .* 80% .*AccuracyAtK"
    metric = tm.KForRecall(min_recall=0.8)
    with pytest.warns(UserWarning, match=message) as caught:
        metric.update(SCORES, CLASSES)
    assert len(caught) == 1
    middle = ranks.sort().values
    assert metric.compute() == (middle[4] + middle[5]) / 2
    shares = {k: float((ranks <= k).double().mean()) for k in range(1, 21)}
    accuracy = tm.TopKCollection([tm.AccuracyAtK(k=[*shares])])
    accuracy.update(SCORES, CLASSES)
    assert {f"accuracy@{k}": share for k, share in shares.items()} == accuracy.compute()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update(SCORES, CLASSES)
        tm.KForRecall(min_recall=1.0).update(SCORES, CLASSES)
        tm.KForRecall(min_recall=0.8).update(
            SCORES, torch.stack([CLASSES, CLASSES + 10], dim=1)
        )
        evaluate(
            SCORES,
            CLASSES,
            metrics=[tm.KForRecall(min_recall=1.0)],
            label_counts=COUNTS,
        )


def test_metrics_warn_once_of_min_gain_above_a_target_without_gains() -> None:
    """A metric or collection warns once if min_gain is above 1 and every gain is 1, so
    that no label is relevant.

    It does not if a gain is higher, if min_gain is 1, or if the metric counts all
    gains.
    """
    members = [tm.CoverageError(min_gain=2), tm.RecallAtK(k=1, min_gain=2)]
    for counter in (members[0].clone(), tm.TopKCollection(members)):
        with pytest.warns(
            UserWarning,
            match="no label is relevant with min_gain=2: each gain of the first batch is 1",
        ) as caught:
            counter.update(SCORES, CLASSES)
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric in (tm.RecallAtK(k=1, min_gain=1), tm.NDCGAtK(k=1, min_gain=2)):
            metric.update(SCORES, CLASSES)
        tm.RecallAtK(k=1, min_gain=2).update(SCORES, 3.0 * (SCORES > 0.5))


def test_metrics_warn_once_of_lists_shorter_than_the_cutoff() -> None:
    """A metric, and a report, warns once if most lists end before the cut-off.

    It does not if lists hold all labels, if few lists are short, or if nothing tells
    the number of labels.
    """
    ids = SCORES.argsort(dim=1, descending=True)
    for metric, cutoff in (
        (tm.RecallAtK(k=[1, 8]), "k=8"),
        (tm.MRR(num_labels=20), "k=None, all 20 labels"),
        (
            tm.RecallAtK(k=1, buckets=LabelBuckets.deciles(COUNTS), depth=500),
            "depth=500",
        ),
    ):
        with pytest.warns(
            UserWarning, match=f"{cutoff}: most lists end before that"
        ) as caught:
            metric.update(ids[:, :5], CLASSES)
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            metric.update(ids[:, :5], CLASSES)
            type(metric)(**metric._given).update(
                Ranking.from_ids(ids, target_ids=CLASSES[:, None], num_labels=20)
            )
            type(metric)(**metric._given).update(SCORES, CLASSES)
    ids_with_short_list = ids[:, :10].clone()
    ids_with_short_list[0, 2:] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tm.RecallAtK(k=5).update(ids_with_short_list, CLASSES)
        tm.MRR().update(ids[:, :5], CLASSES)  # nothing tells how many labels there are
    with pytest.warns(UserWarning, match="lists end before") as caught:
        report = evaluate(
            ids[:, :5], CLASSES, metrics=[tm.RecallAtK(k=8), tm.PrecisionAtK(k=10)]
        )
    assert len(caught) == 1
    assert [
        note
        for note in report.notes
        if "RecallAtK, k=8: most lists end before that" in note
    ]


def test_default_depth_brings_no_warning() -> None:
    """Lists shorter than the default depth of 500 bring no warning, such as 100
    candidates per query of TREC.
    """
    generator = torch.Generator().manual_seed(0)
    ids = torch.rand(8, 300, generator=generator).argsort(dim=1)[:, :100]
    scores = torch.rand(8, 100, generator=generator).sort(descending=True).values
    target, counts = ids[:, 40:41], torch.arange(300, 0, -1)
    run, qrels = {}, {}
    for query, row in enumerate(ids.tolist()):
        run[f"q{query}"] = {
            f"d{label}": score
            for label, score in zip(row, scores[query].tolist(), strict=True)
        }
        qrels[f"q{query}"] = {f"d{target[query].item()}": 1}
    catalogue = [f"d{label}" for label in range(300)]
    metrics = [
        tm.RecallAtK(k=10, buckets="deciles"),
        tm.NDCGAtK(k=5, buckets="deciles"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(
            (scores, ids), target, metrics=metrics, label_counts=counts, intervals=False
        )
        evaluate(
            run, qrels, label_counts=counts, label_names=catalogue, intervals=False
        )
        collection = tm.TopKCollection(metrics).bind(
            tm.LabelFrequency.from_counts(counts, num_rows=9)
        )
        collection.update((scores, ids), target)


def test_metrics_warn_once_of_lists_longer_than_the_depth() -> None:
    """A warning, once and in the report, says that lists longer than the depth are cut;
    values by bucket are those of the cut lists. Shorter lists and scope="global" bring
    no warning.
    """
    ids = SCORES.argsort(dim=1, descending=True)

    def report_of(length: int, **options: int | str) -> Report:
        metrics = [
            metric(k=3, buckets="thresholds:11", **options)
            for metric in (tm.RecallAtK, tm.HitRateAtK)
        ]
        lists = [
            dict(zip(row[:length], range(length, 0, -1), strict=True))
            for row in ids.tolist()
        ]
        targets = {
            f"q{row}": {f"d{label}": 1} for row, label in enumerate(CLASSES.tolist())
        }
        runs = {
            f"q{row}": {f"d{label}": score for label, score in scores.items()}
            for row, scores in enumerate(lists)
        }
        return evaluate(
            runs,
            targets,
            metrics=metrics,
            label_counts={f"d{label}": int(COUNTS[label]) for label in range(20)},
        )

    sentence = "RecallAtK, depth=6: some lists are longer"
    with pytest.warns(UserWarning, match=sentence) as warned:
        cut = report_of(20, depth=6)
    assert (
        len(
            [
                warning
                for warning in warned
                if "some lists are longer" in str(warning.message)
            ]
        )
        == 1
    )
    assert len([note for note in cut.notes if sentence in note]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = report_of(6, depth=6)
        assert report_of(20, depth=20).scalars != cut.scalars
        report_of(20, scope="global")
    assert {
        key: value for key, value in whole.scalars.items() if "/" in key
    } == pytest.approx(
        {key: value for key, value in cut.scalars.items() if "/" in key}, nan_ok=True
    )


def test_labels_by_id_counts_labels_whose_bucket_depends_on_their_id() -> None:
    """labels_by_id() is the number of labels that share a count with a label of another
    bucket, so that only the id decides; a note of the report gives it. It is 0 for
    thresholds, ties="together" and a custom assignment.
    """
    counts = [4, 2, 2, 1, 1, 1, 1, 0, 0]
    split = LabelBuckets.quantiles(counts, 3)
    assert split.assignment.tolist() == [0, 1, 1, 2, 2, 2, 2, 3, 3]
    assert split.labels_by_id() == 0
    halves = LabelBuckets.quantiles(counts, 2)
    assert halves.assignment.tolist() == [0, 0, 1, 1, 1, 1, 1, 2, 2]
    assert halves.labels_by_id() == 2
    for other in (
        LabelBuckets.quantiles(counts, 2, ties="together"),
        LabelBuckets.thresholds(counts, (1, 2)),
        LabelBuckets.from_assignment([1, 0, 1, 0, 1, 0, 1, 0, 1], ["a", "b"], counts),
        LabelBuckets.from_assignment([0, 0, 1], ["a", "b"]),
        LabelBuckets.deciles(torch.zeros(0, dtype=torch.int64)),
    ):
        assert other.labels_by_id() == 0
    target = torch.arange(9)
    report = evaluate(
        torch.eye(9),
        target,
        label_counts=counts,
        metrics=[tm.RecallAtK(k=1, buckets="quantiles:2")],
    )
    assert [
        note
        for note in report.notes
        if note.startswith("2 of 9 labels are in their bucket only by their id")
    ]


def test_calibration_by_bucket_counts_rows_by_predicted_label() -> None:
    """A calibration error by bucket counts a row in the bucket of its predicted label,
    as its caption says.
    """
    metric = tm.CalibrationErrorAtK(
        buckets=LabelBuckets.from_assignment([0, 0, 1], ["head", "tail"])
    )
    metric.update(torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([2]))
    assert metric.compute().isnan().tolist() == [False, True]
    (caption,) = captions_of(metric).values()
    assert (
        caption
        == "of the predicted labels that are in the bucket, whatever label is right"
    )


def test_comparison_names_the_run_with_short_lists(tmp_path: Path) -> None:
    """A comparison of scores with lists warns once of short lists, and names the run.

    Rows that the command line makes up to test which metrics apply bring no warning.
    """
    np.save(tmp_path / "a.npy", SCORES.numpy())
    np.save(tmp_path / "b.npy", SCORES.argsort(dim=1, descending=True)[:, :12].numpy())
    np.save(tmp_path / "t.npy", CLASSES.numpy())
    np.save(tmp_path / "train.npy", torch.arange(20).repeat_interleave(COUNTS).numpy())
    paths = {name: str(tmp_path / f"{name}.npy") for name in ("a", "b", "t", "train")}
    files = [
        "--preds",
        paths["a"],
        paths["b"],
        "--target",
        paths["t"],
        "--train-target",
        paths["train"],
    ]
    options = [
        "--preset",
        "next_location",
        "--without",
        "cross_entropy",
        "--out",
        str(tmp_path / "out"),
        "--quiet",
    ]
    assert main(["compare", *files, *options]) == 0
    notes = [
        note
        for note in json.loads((tmp_path / "out" / "compare.json").read_text())[
            "warnings"
        ]
        if "lists" in note
    ]
    assert [note.partition(" that.")[0] for note in notes] == [
        "b: MRR, k=None, all 20 labels: most lists end before"
    ]


def test_weights_of_zero_bring_a_warning_and_nan() -> None:
    """If all weights are 0, the value is NaN, with a warning of the metric or
    collection; one row with a weight is enough for a value.
    """
    metric = tm.RecallAtK(k=1, weighted=True)
    scores, target = torch.tensor([[0.9, 0.1], [0.8, 0.3]]), torch.tensor([0, 1])
    for holder in (metric, tm.TopKCollection([tm.MRR(weighted=True)])):
        holder.update(scores, target, row_weights=torch.zeros(2))
        with pytest.warns(
            UserWarning,
            match=r"(RecallAtK|MRR): no row with a weight above 0 counts, so the value is NaN",
        ):
            holder.compute()
    metric.update(scores, target, row_weights=torch.tensor([0.0, 2.0]))
    assert float(metric.compute()) == 0.0


@pytest.mark.parametrize("name", ["LabelAUC", "LabelAP", "RowAUC"])
@pytest.mark.filterwarnings("always:.*rows list")
def test_areas_warn_if_rows_list_only_some_labels(name: str) -> None:
    """Areas warn once, and reports note, that rows list only some of the labels, here 2
    of 5.

    Lists of all labels bring no warning.
    """
    scores, ids = torch.rand(4, 5, generator=torch.Generator().manual_seed(0)).sort(
        descending=True
    )
    kind, target = partial(getattr(tm, name), num_labels=5), torch.tensor([0, 1, 2, 3])
    metric = kind()
    with pytest.warns(UserWarning, match=f"{name}: rows list 2 of 5 labels"):
        metric.update((scores[:, :2], ids[:, :2]), target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update((scores[:, :2], ids[:, :2]), target)
    (note,) = tm.evaluate(
        (scores[:, :2], ids[:, :2]), target, metrics=kind(), intervals=False
    ).notes
    assert note.startswith(f"{name}: rows list 2 of 5 labels")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for preds in ((scores, ids), scores):
            kind().update(preds, target)
