"""What would pass for a number of the model, and is one of the data: said once, and in reports."""

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
SOME = CLASSES.masked_fill(CLASSES == 3, -1)
COUNTS = torch.arange(20) + 1


def test_what_a_collection_gives_its_members_holds_for_those_that_evaluate_adds() -> None:
    """The row of ``ignore_index`` counts neither in the whole nor in the buckets that evaluate adds."""
    metrics = tm.TopKCollection([tm.PrecisionAtK(k=1)], ignore_index=-1)
    report = evaluate(SCORES, SOME, label_counts=COUNTS, metrics=metrics)
    kept = SOME >= 0
    without = evaluate(SCORES[kept], SOME[kept], label_counts=COUNTS, metrics=[tm.PrecisionAtK(k=1)])
    assert report.rows == 9
    torch.testing.assert_close(report.scalars, without.scalars, equal_nan=True, rtol=0, atol=0)


def test_rows_without_a_class_are_said_to_count_as_misses_once() -> None:
    """With what to write instead; not where the caller has said what they are."""
    metric, collection = tm.AccuracyAtK(k=1), tm.TopKCollection([tm.AccuracyAtK(k=1), tm.MRR()])
    for counter in (metric, collection):
        with pytest.warns(
            UserWarning, match="some rows have -1 as target.*ignore_index=-1.* are misses, .*too high"
        ) as caught:
            counter.update(SCORES, SOME)
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update(SCORES, SOME)
        tm.AccuracyAtK(k=1, ignore_index=-1).update(SCORES, SOME)
        tm.AccuracyAtK(k=1, empty_target_action="neg").update(SCORES, SOME)
        tm.AccuracyAtK(k=1).update(SCORES, CLASSES)
        tm.AccuracyAtK(k=1).update(SCORES, SOME, row_mask=SOME >= 0)
        tm.RecallAtK(k=1).update(SCORES, torch.stack([SOME, SOME + 10], dim=1).masked_fill(SOME[:, None] < 0, -1))
        tm.CrossEntropy().update(SCORES.log(), SOME)  # leaves such rows out


PADDED = torch.tensor([[5, 3, 0, 0, 0], [2, 7, 1, 4, 6], [1, 0, 0, 0, 0], [9, 8, 7, 0, 0]])
"""Labels of four sequences, padded by 0 as ``pad_sequence`` does by default."""


def test_lists_padded_by_a_label_are_told() -> None:
    """Two of three rows end in 0, which stands nowhere else: a hit if a list holds 0. Sorted labels are not told."""
    scores = torch.rand(30, 10, generator=torch.Generator().manual_seed(0))
    padded = torch.tensor([[1, 0], [1, 2], [3, 0]]).repeat(10, 1)
    for add in (tm.RecallAtK(k=3).update, tm.TopKCollection([tm.RecallAtK(k=3)]).update):
        with pytest.warns(
            UserWarning, match=r"most rows of target end in label 0,.* ignore_index=0\. If it is a label"
        ):
            add(scores, padded)
    with pytest.warns(
        UserWarning, match=r"LabelFrequency: most rows of target end in label 0,.* as target_ids, and ignore_index=0"
    ):
        tm.LabelFrequency(10).update(padded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_order = torch.tensor([[0, 1], [0, 2], [0, 3]]).repeat(10, 1)
        tm.RecallAtK(k=3).update(scores, in_order)
        tm.RecallAtK(k=3).update(scores, padded.masked_fill(padded == 0, -1))
        frequency = tm.LabelFrequency(10)
        frequency.update(target_ids=padded, ignore_index=0)
    assert (frequency.compute().tolist()[:4], frequency.num_rows) == ([0, 20, 10, 10], 30)


def test_tokens_and_lists_are_not_taken_for_each_other() -> None:
    """With ignore_index each token is a row, and target_ids are lists: a row each. What may be either is refused."""
    tokens = torch.tensor([[1, 0, 1], [2, 1, -100]])
    token_frequency, list_frequency, row_frequency = (tm.LabelFrequency(3) for _ in range(3))
    token_frequency.update(tokens, ignore_index=-100)
    list_frequency.update(target_ids=tokens, ignore_index=-100)
    row_frequency.update(tokens, row_mask=torch.tensor([True, False]), ignore_index=-100)
    assert (token_frequency.compute().tolist(), token_frequency.num_rows) == ([1, 3, 1], 5)
    assert (list_frequency.compute().tolist(), list_frequency.num_rows) == ([1, 3, 1], 2)
    assert (row_frequency.compute().tolist(), row_frequency.num_rows) == ([1, 2, 0], 3)
    with pytest.raises(ValueError, match="holds only 0 and 1: with ignore_index=-100 these may be tokens or a matrix"):
        token_frequency.update(tokens[:1], ignore_index=-100)
    assert token_frequency.num_rows == 5
    with pytest.warns(UserWarning, match="each place of it is a row of its own"):
        tm.LabelFrequency(9).update(torch.tensor([[1, -1]]), ignore_index=-100)


def test_padding_that_a_list_holds_is_told() -> None:
    """Item 0 has the best score and is in no target: it takes the one place of each list, and no item is found."""
    scores, target = torch.tensor([[9.0, 5.0, 1.0], [9.0, 1.0, 5.0]]), torch.tensor([1, 1])
    metric = tm.RecallAtK(k=1, ignore_index=0)
    with pytest.warns(
        UserWarning, match=r"a list holds the label .* preds\[:, 0\] = -inf, .* preds\[:, 1:\] beside target - 1"
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
        for preds, labels, ignored in ((masked, target, 0), (scores[:, 1:], target - 1, None)):
            metric = tm.RecallAtK(k=1, ignore_index=ignored)
            metric.update(preds, labels)
            assert float(metric.compute()) == 0.5


def test_sequences_padded_by_a_label_are_told_in_loops_and_reports(tmp_path: Path) -> None:
    """All but the second end in zeros, and 0 is nowhere else: nine places where a model of the padding is right."""
    logits = torch.rand(4, 5, 10, generator=torch.Generator().manual_seed(0))
    for metric in (tm.MRR(), tm.TopKCollection([tm.MRR(), tm.AccuracyAtK(k=1)])):
        for target in (PADDED, PADDED.numpy()):
            with pytest.warns(UserWarning, match="end in a run of label 0,.* padding.* ignore_index=-100; ") as caught:
                metric.clone().update(logits, target)
            assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="end in a run of label 0"):
        report = evaluate(logits, PADDED, metrics=tm.MRR())
    assert sum("end in a run of label 0" in note for note in report.notes) == 1
    np.save(tmp_path / "p.npy", logits), np.save(tmp_path / "y.npy", PADDED)
    words = ["--preds", tmp_path / "p.npy", "--target", tmp_path / "y.npy", "--metrics+=MRR", "--out", tmp_path / "out"]
    assert main(["evaluate", *map(str, words), "--quiet"]) == 0
    assert "end in a run of label 0" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("buckets", "start"),
    [
        ("deciles", "decile_10 is label 0 (pad) alone: 50% of all labels in training, and relevant in no row."),
        ("thresholds:1,10:many,few", "Label 0 (pad) of many is frequent: 50% of all labels in training"),
    ],
)
def test_training_targets_padded_by_a_label_are_told_in_a_report(buckets: str, start: str) -> None:
    """Half of the training labels are 0, which no row asks for; not where a row does, or the metrics leave 0 out."""
    counts, generator = torch.tensor([190, *[10] * 19]), torch.Generator().manual_seed(1)
    target = torch.randint(1, 20, (60,), generator=generator)
    metric, scores = tm.RecallAtK(3, buckets=buckets, scope="global"), torch.randn(60, 20, generator=generator)
    names = ["pad", *(f"item {label}" for label in range(1, 20))]

    def notes(target: torch.Tensor, **more: object) -> list[str]:
        report = evaluate(
            scores[: len(target)], target, label_counts=counts, metrics=[metric], label_names=names, **more
        )
        return [warning for warning in report.warnings if "relevant in no row" in warning]

    (note,) = notes(target)
    assert note.startswith(start)
    assert "make the metrics with ignore_index=0" in note
    assert notes(target.masked_fill(torch.arange(60) == 7, 0)) == notes(target, ignore_index=0) == []
    assert notes(target[:39]) == []  # half of 39 labels: 20 would be expected


def test_sequences_that_end_alike_without_padding_are_not_told() -> None:
    """Ignored or masked padding, a frequent class that is anywhere, ends that differ, labels of no sequences."""
    logits = torch.rand(4, 5, 10, generator=torch.Generator().manual_seed(0))
    ignored = PADDED.masked_fill(PADDED == 0, -100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tm.MRR(ignore_index=-100).update(logits, ignored)
        tm.MRR(ignore_index=0).update(logits, PADDED)
        tm.MRR().update(logits, PADDED, row_mask=PADDED > 0)
        tm.MRR().update(logits, torch.tensor([[0, 3, 0, 0, 0], [0, 7, 1, 4, 6], [1, 0, 0, 0, 0], [9, 8, 7, 0, 0]]))
        tm.MRR().update(logits, torch.tensor([[5, 3, 0, 0, 0], [2, 7, 1, 1, 1], [1, 2, 2, 2, 2], [9, 8, 7, 4, 4]]))
        tm.MRR().update(logits, torch.zeros(4, 5, dtype=torch.int64))
        tm.MRR().update(logits.flatten(0, 1), PADDED.flatten())
        evaluate(logits, PADDED, metrics=tm.MRR(), ignore_index=0)


def test_a_recall_of_one_label_per_row_is_said_to_be_its_rank() -> None:
    """By a plain sort: whatever min_recall, the value is the median rank; the list that finds 80 % is much longer."""
    own = SCORES.gather(1, CLASSES[:, None])
    ranks = (own < SCORES).sum(dim=1) + 1
    said_once = "each row has one relevant label, so that min_recall=0.8 makes no difference.* 80% .*AccuracyAtK"
    metric = tm.KForRecall(min_recall=0.8)
    with pytest.warns(UserWarning, match=said_once) as caught:
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
        tm.KForRecall(min_recall=0.8).update(SCORES, torch.stack([CLASSES, CLASSES + 10], dim=1))
        evaluate(SCORES, CLASSES, metrics=[tm.KForRecall(min_recall=1.0)], label_counts=COUNTS)


def test_a_least_gain_above_those_of_a_target_without_gains_is_said_once() -> None:
    """Nothing is relevant then, which coverage error counts as perfect; not where some gain is higher, or all count."""
    members = [tm.CoverageError(min_gain=2), tm.RecallAtK(k=1, min_gain=2)]
    for counter in (members[0].clone(), tm.TopKCollection(members)):
        with pytest.warns(
            UserWarning, match="no label is relevant with min_gain=2: each gain of the first batch is 1"
        ) as caught:
            counter.update(SCORES, CLASSES)
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric in (tm.RecallAtK(k=1, min_gain=1), tm.NDCGAtK(k=1, min_gain=2)):
            metric.update(SCORES, CLASSES)
        tm.RecallAtK(k=1, min_gain=2).update(SCORES, 3.0 * (SCORES > 0.5))


def test_lists_that_end_before_a_cut_off_are_said_to_once() -> None:
    """With the cut-off; not where a list holds all labels, or few lists are short."""
    ids = SCORES.argsort(dim=1, descending=True)
    for metric, cut in (
        (tm.RecallAtK(k=[1, 8]), "k=8"),
        (tm.MRR(num_labels=20), "k=None, all 20 labels"),
        (tm.RecallAtK(k=1, buckets=LabelBuckets.deciles(COUNTS), depth=500), "depth=500"),
    ):
        with pytest.warns(UserWarning, match=f"{cut}: most lists end before that") as caught:
            metric.update(ids[:, :5], CLASSES)
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            metric.update(ids[:, :5], CLASSES)
            type(metric)(**metric._given).update(Ranking.from_ids(ids, target_ids=CLASSES[:, None], num_labels=20))
            type(metric)(**metric._given).update(SCORES, CLASSES)
    few = ids[:, :10].clone()
    few[0, 2:] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tm.RecallAtK(k=5).update(few, CLASSES)
        tm.MRR().update(ids[:, :5], CLASSES)  # nothing tells how many labels there are
    with pytest.warns(UserWarning, match="lists end before") as caught:
        report = evaluate(ids[:, :5], CLASSES, metrics=[tm.RecallAtK(k=8), tm.PrecisionAtK(k=10)])
    assert len(caught) == 1
    assert [note for note in report.notes if "RecallAtK, k=8: most lists end before that" in note]


def test_nobody_is_warned_of_a_depth_that_nobody_asked_for() -> None:
    """A run of 100 candidates per query, as files of TREC have, beside the default depth of 500: each call is quiet."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.rand(8, 300, generator=generator).argsort(dim=1)[:, :100]
    scores = torch.rand(8, 100, generator=generator).sort(descending=True).values
    target, counts = ids[:, 40:41], torch.arange(300, 0, -1)
    run, qrels = {}, {}
    for query, row in enumerate(ids.tolist()):
        run[f"q{query}"] = {f"d{label}": score for label, score in zip(row, scores[query].tolist(), strict=True)}
        qrels[f"q{query}"] = {f"d{target[query].item()}": 1}
    catalogue = [f"d{label}" for label in range(300)]
    metrics = [tm.RecallAtK(k=10, buckets="deciles"), tm.NDCGAtK(k=5, buckets="deciles")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate((scores, ids), target, metrics=metrics, label_counts=counts, intervals=False)
        evaluate(run, qrels, label_counts=counts, label_names=catalogue, intervals=False)
        collection = tm.TopKCollection(metrics).bind(tm.LabelFrequency.from_counts(counts, num_rows=9))
        collection.update((scores, ids), target)


def test_lists_that_are_longer_than_the_depth_are_said_to_be_cut_once() -> None:
    """In the report, too, whose value by bucket is that of the cut list; not where none is longer, or in scope global."""
    ids = SCORES.argsort(dim=1, descending=True)

    def found(length: int, **options: int | str) -> Report:
        metrics = [make(k=3, buckets="thresholds:11", **options) for make in (tm.RecallAtK, tm.HitRateAtK)]
        lists = [dict(zip(row[:length], range(length, 0, -1), strict=True)) for row in ids.tolist()]
        targets = {f"q{row}": {f"d{label}": 1} for row, label in enumerate(CLASSES.tolist())}
        runs = {f"q{row}": {f"d{label}": score for label, score in scores.items()} for row, scores in enumerate(lists)}
        return evaluate(
            runs, targets, metrics=metrics, label_counts={f"d{label}": int(COUNTS[label]) for label in range(20)}
        )

    sentence = "RecallAtK, depth=6: some lists are longer"
    with pytest.warns(UserWarning, match=sentence) as warned:
        cut = found(20, depth=6)
    assert len([warning for warning in warned if "some lists are longer" in str(warning.message)]) == 1
    assert len([note for note in cut.notes if sentence in note]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = found(6, depth=6)
        assert found(20, depth=20).scalars != cut.scalars
        found(20, scope="global")
    assert {key: value for key, value in whole.scalars.items() if "/" in key} == pytest.approx(
        {key: value for key, value in cut.scalars.items() if "/" in key}, nan_ok=True
    )


def test_labels_that_ids_put_into_a_bucket_are_counted() -> None:
    """Those of a count of which there are labels in two buckets; none with thresholds, ``together`` or a free choice."""
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
    report = evaluate(torch.eye(9), target, label_counts=counts, metrics=[tm.RecallAtK(k=1, buckets="quantiles:2")])
    assert [note for note in report.notes if note.startswith("2 of 9 labels are in their bucket only by their id")]


def test_calibration_by_bucket_says_which_rows_it_is_of() -> None:
    """A row counts where its predicted label is."""
    metric = tm.CalibrationErrorAtK(buckets=LabelBuckets.from_assignment([0, 0, 1], ["head", "tail"]))
    metric.update(torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([2]))
    assert metric.compute().isnan().tolist() == [False, True]
    (caption,) = captions_of(metric).values()
    assert caption == "of the predicted labels that are in the bucket, whatever label is right"


def test_a_comparison_of_scores_with_a_cut_list_names_the_run_that_is_cut(tmp_path: Path) -> None:
    """Once, and nothing is said of rows that the command line makes up to see which metrics can be answered."""
    np.save(tmp_path / "a.npy", SCORES.numpy())
    np.save(tmp_path / "b.npy", SCORES.argsort(dim=1, descending=True)[:, :12].numpy())
    np.save(tmp_path / "t.npy", CLASSES.numpy())
    np.save(tmp_path / "train.npy", torch.arange(20).repeat_interleave(COUNTS).numpy())
    paths = {name: str(tmp_path / f"{name}.npy") for name in ("a", "b", "t", "train")}
    files = ["--preds", paths["a"], paths["b"], "--target", paths["t"], "--train-target", paths["train"]]
    options = ["--preset", "next_location", "--without", "cross_entropy", "--out", str(tmp_path / "out"), "--quiet"]
    assert main(["compare", *files, *options]) == 0
    notes = [
        note for note in json.loads((tmp_path / "out" / "compare.json").read_text())["warnings"] if "lists" in note
    ]
    assert [note.partition(" that.")[0] for note in notes] == ["b: MRR, k=None, all 20 labels: most lists end before"]


def test_weights_that_are_all_zero_are_told() -> None:
    """The value is NaN, of one metric and of a collection; one row that weighs is enough."""
    metric = tm.RecallAtK(k=1, weighted=True)
    scores, target = torch.tensor([[0.9, 0.1], [0.8, 0.3]]), torch.tensor([0, 1])
    for holder in (metric, tm.TopKCollection([tm.MRR(weighted=True)])):
        holder.update(scores, target, row_weights=torch.zeros(2))
        with pytest.warns(
            UserWarning, match=r"(RecallAtK|MRR): no row with a weight above 0 counts, so the value is NaN"
        ):
            holder.compute()
    metric.update(scores, target, row_weights=torch.tensor([0.0, 2.0]))
    assert float(metric.compute()) == 0.0


@pytest.mark.parametrize("name", ["LabelAUC", "LabelAP", "RowAUC"])
@pytest.mark.filterwarnings("always:.*rows list")
def test_an_area_of_the_best_labels_alone(name: str) -> None:
    """Two of five labels listed: once a loop is told, and a report; nothing is said of lists of all labels."""
    scores, ids = torch.rand(4, 5, generator=torch.Generator().manual_seed(0)).sort(descending=True)
    kind, target = partial(getattr(tm, name), num_labels=5), torch.tensor([0, 1, 2, 3])
    metric = kind()
    with pytest.warns(UserWarning, match=f"{name}: rows list 2 of 5 labels"):
        metric.update((scores[:, :2], ids[:, :2]), target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update((scores[:, :2], ids[:, :2]), target)
    (note,) = tm.evaluate((scores[:, :2], ids[:, :2]), target, metrics=kind(), intervals=False).notes
    assert note.startswith(f"{name}: rows list 2 of 5 labels")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for preds in ((scores, ids), scores):
            kind().update(preds, target)
