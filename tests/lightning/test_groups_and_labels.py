"""Groups of rows, values of labels and intervals of the callback equal plain loops and
`evaluate`.
"""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from lightning_toy import NUM_LABELS, ROWS, ByHeart, Data, scores_and_targets
from numbered_rows import trainer
from pytorch_lightning.loggers import CSVLogger
from scipy.sparse import csr_array
from torch.utils.data import DataLoader, DistributedSampler

from tailmetrics import (
    AccuracyAtK,
    F1AtK,
    LabelAUC,
    PrecisionAtK,
    RecallAtK,
    TopKCollection,
    evaluate,
)
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.row_groups import group_numbers
from tailmetrics.lightning import HeadToTailReport
from tailmetrics.lightning.loader_evaluation import LoaderEvaluation, StepKeys
from written import by_key

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = ("en", "de")
K = 3


class InLanguages(ByHeart):
    """A model that also returns the language of each row, as a name or a number."""

    by_name = True

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> dict[str, Any]:
        """Return the output with languages: rows are in turn English, German and of no
        language.
        """
        output: dict[str, Any] = super().validation_step(batch, batch_idx)
        numbers = [int(row) % 3 if row % 3 < 2 else -1 for row in batch[0]]
        names = [None if number < 0 else NAMES[number] for number in numbers]
        return {**output, "language": names if self.by_name else torch.tensor(numbers)}

    test_step = validation_step


def metrics(averages: bool = False) -> list[Any]:
    """Return one metric overall and one by bucket, and averages over labels if asked
    for.
    """
    label_averages = [
        F1AtK(K, average="macro"),
        F1AtK(K, average="macro", buckets="deciles"),
        LabelAUC(buckets="deciles"),
    ]
    row_means = [
        PrecisionAtK(K, denominator="k"),
        RecallAtK(K, buckets="deciles", scope="global"),
    ]
    return row_means + (label_averages if averages else [])


def after_test(
    folder: Path, model: ByHeart, data: Data, **arguments: Any
) -> tuple[HeadToTailReport, Path]:
    """Return a callback after a test, and the folder of the run."""
    callback = HeadToTailReport(
        metrics("intervals" in arguments), table=False, **arguments
    )
    run = trainer(folder, callback, logger=CSVLogger(folder))
    run.test(model, datamodule=data, verbose=False)
    return callback, Path(run.log_dir)


def top_labels(k: int) -> list[list[int]]:
    """Return the k best labels of each row, the lower id first among equals."""
    scores, _ = scores_and_targets()
    return [
        sorted(range(NUM_LABELS), key=lambda label: (-float(row[label]), label))[:k]
        for row in scores
    ]


def relevant() -> list[list[int]]:
    """Return the relevant labels of each row."""
    return [
        [int(label) for label in row if label >= 0] for row in scores_and_targets()[1]
    ]


@pytest.mark.parametrize(
    "mask", [None, torch.tensor([True, True]), torch.ones(2, 3, dtype=torch.bool)]
)
def test_sequences_that_a_distributed_sampler_repeats_are_left_out(mask: Any) -> None:
    """A sequence that a distributed sampler repeats is left out.

    The second of two processes reads sequence 1 of three, and 0 again: the two tokens
    of 1 count, in group 1.
    """
    rows = DistributedSampler(range(3), num_replicas=2, rank=1, shuffle=False)
    loader = DataLoader(range(3), batch_size=2, sampler=rows)
    collection = TopKCollection([AccuracyAtK(1, ignore_index=-100)], row_groups=NAMES)
    keys = StepKeys("preds", "target", "row_mask", "row_groups", "row_ids")
    loader_evaluation = LoaderEvaluation(
        Evaluation(collection, confidence=0.95), keys, loader, 1
    )
    loader_evaluation.start(loader, "cpu")
    target = torch.tensor([[0, 1, -100], [2, 3, 4]])
    scores = torch.nn.functional.one_hot(target.clamp(min=0), 9) + 0.5
    output = {
        "preds": scores,
        "target": target,
        "row_groups": ["de", "en"],
        "row_mask": mask,
    }
    loader_evaluation.add(
        {name: value for name, value in output.items() if value is not None},
        "validation_step",
    )
    report = loader_evaluation.report("", ())
    assert (
        report.rows,
        report.scalars["accuracy@1"],
        report.scalars["accuracy@1/de"],
    ) == (2, 1.0, 1.0)
    assert [group.rows for group in report.row_groups] == [0, 2]
    (warning_of_sequences,) = (
        warning
        for warning in report.warnings
        if "Rows of one sequence are taken for independent" in warning
    )
    assert warning_of_sequences.endswith(
        "The callback does not: save the logits, and evaluate them."
    )
    assert "1 of 3 rows are left out by ignore_index=-100." in report.warnings


@pytest.mark.parametrize("by_name", [True, False])
def test_row_groups_give_values_of_plain_loops(tmp_path: Path, by_name: bool) -> None:
    """Names or numbers of groups that the step returns give values for each group,
    logged and in the report, which equal plain loops.
    """
    model = InLanguages()
    model.by_name = by_name
    callback, folder = after_test(
        tmp_path, model, Data(), row_groups="language", group_names=NAMES
    )
    report = callback.report
    assert report is not None
    pairs = list(zip(top_labels(K), relevant(), strict=True))
    for number, name in enumerate(NAMES):
        rows = [row for row in range(ROWS) if row % 3 == number]
        hits = sum(len({*pairs[row][0]} & {*pairs[row][1]}) for row in rows)
        assert report.scalars[f"precision_k@3/{name}"] == pytest.approx(
            hits / (K * len(rows)), abs=1e-12
        )
        assert [group.rows for group in report.row_groups if group.name == name] == [
            len(rows)
        ]
    logged = next(csv.DictReader((folder / "metrics.csv").open()))
    assert float(logged["test/precision_k@3/de"]) == pytest.approx(
        report.scalars["precision_k@3/de"], abs=1e-6
    )
    assert "test/global_recall@3/en/decile_10" in logged
    assert "By group of rows" in (folder / "report_test.html").read_text()


def test_a_step_that_returns_no_groups_is_refused(tmp_path: Path) -> None:
    """A step that does not return the groups is refused, and the error names the key.
    group_names for a collection without row groups is refused when the callback is
    created.
    """
    with pytest.raises(
        ValueError,
        match="test_step returned no 'row_groups'; return the group of each row",
    ):
        after_test(tmp_path, ByHeart(), Data(), group_names=NAMES)
    with pytest.raises(ValueError, match="pass row_groups= to the collection"):
        HeadToTailReport(TopKCollection(metrics()), group_names=NAMES)


class Numbered(ByHeart):
    """A model that also returns row numbers, and has the names of rows and labels."""

    row_names = tuple(f"patient {row}" for row in range(ROWS))
    label_names = tuple(f"label {label}" for label in range(NUM_LABELS))

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> dict[str, Any]:
        """Return predictions, targets and row numbers."""
        return {**super().validation_step(batch, batch_idx), "row_ids": batch[0]}

    test_step = validation_step


def test_intervals_and_labels_equal_those_of_evaluate(tmp_path: Path) -> None:
    """Intervals, values of labels and their file equal those of `evaluate` on the same
    tensors.

    Without intervals=True there are none. tests/cli/test_row_groups.py compares values
    of labels with plain loops.
    """
    callback, folder = after_test(
        tmp_path / "callback", Numbered(), Data(), intervals=True, labels=True
    )
    report = callback.report
    assert report is not None
    _, training = scores_and_targets(seed=1)
    names = {"label_names": Numbered.label_names}
    counts = torch.bincount(training[training >= 0], minlength=NUM_LABELS)
    expected = evaluate(
        *scores_and_targets(),
        metrics=metrics(True),
        label_counts=counts,
        labels=True,
        **names,
    )
    assert repr(dict(report.intervals)) == repr(dict(expected.intervals))
    assert {"macro_f1@3", "macro_auc"} <= report.intervals.keys()
    assert callback.folder == folder
    written_report = json.loads((folder / "report_test.json").read_text())
    assert by_key(written_report)
    assert written_report["worst_labels"] == expected.as_dict()["worst_labels"]
    callback_without_intervals, folder = after_test(
        tmp_path / "plain", Numbered(), Data(), labels=True
    )
    expected = evaluate(
        *scores_and_targets(),
        metrics=metrics(),
        label_counts=counts,
        labels=True,
        **names,
    )
    lines = (folder / "labels_test.csv").read_text().splitlines()
    assert lines == expected.labels.csv().splitlines()
    assert any(",label 0," in line for line in lines)
    assert not callback_without_intervals.report.intervals


def test_rows_without_a_group_count_only_overall() -> None:
    """Rows without a group count only overall, also in a batch of which no row has a
    group, as on a process whose share has none. A note says it, as that of evaluate.
    """
    collection = TopKCollection([AccuracyAtK(1)], row_groups=NAMES)
    keys = StepKeys("preds", "target", "row_mask", "row_groups", "row_ids")
    loader_evaluation = LoaderEvaluation(
        Evaluation(collection, confidence=0.95), keys, None, 1
    )
    loader_evaluation.start(None, "cpu")
    for groups in (["de", None], [None, None]):
        output = {
            "preds": torch.eye(9)[:2],
            "target": torch.tensor([0, 1]),
            "row_groups": groups,
        }
        loader_evaluation.add(output, "validation_step")
    report = loader_evaluation.report("", ())
    assert report.rows == 4
    preds, target = torch.eye(9)[[0, 1, 0, 1]], torch.tensor([0, 1, 0, 1])
    expected = evaluate(
        preds, target, metrics=collection, row_groups=["de", None, None, None]
    )
    assert "3 of 4 rows have no group and count only overall." in {*report.notes} & {
        *expected.notes
    }
    assert group_numbers("", np.array([[0, -1]]), NAMES).tolist() == [
        [0, -1]
    ]  # numbers of sequences are returned unchanged
    assert [(group.name, group.rows) for group in report.row_groups] == [
        (name, int(name == "de")) for name in NAMES
    ]


def test_steps_return_any_form_that_rank_takes() -> None:
    """A step may return columns of Arrow and sparse matrices; lists are refused as rank
    refuses them.
    """
    keys = StepKeys("preds", "target", "row_mask", "row_groups", "row_ids")
    target = torch.tensor([0, 1])
    for preds in (pa.array([[0, 1], [0]]), csr_array([[0.9, 0.1], [0.8, 0.0]])):
        loader_evaluation = LoaderEvaluation(
            Evaluation([AccuracyAtK(1)]), keys, None, 1
        )
        loader_evaluation.add({"preds": preds, "target": target}, "validation_step")
        assert loader_evaluation.report("", ()).scalars["accuracy@1"] == 0.5
    with pytest.raises(TypeError, match="preds is a list; pass a tensor"):
        loader_evaluation.add(
            {"preds": [[0, 1], [0], [1]], "target": target}, "validation_step"
        )


def test_a_batch_without_rows_may_have_an_empty_list_of_groups() -> None:
    """A batch without rows may have an empty list of groups; the two rows of the other
    batch count.
    """
    collection = TopKCollection([AccuracyAtK(1)], row_groups=NAMES)
    keys = StepKeys("preds", "target", "row_mask", "row_groups", "row_ids")
    loader_evaluation = LoaderEvaluation(Evaluation(collection), keys, None, 1)
    loader_evaluation.start(None, "cpu")
    target = torch.tensor([0, 1])
    output = {"preds": torch.eye(2), "target": target, "row_groups": ["de", "de"]}
    loader_evaluation.add(
        {"preds": torch.eye(2)[:0], "target": target[:0], "row_groups": []},
        "validation_step",
    )
    loader_evaluation.add(output, "validation_step")
    assert loader_evaluation.report("", ()).rows == 2
