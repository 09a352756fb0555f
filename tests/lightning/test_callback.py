"""The Lightning callback in runs of a real Trainer."""

import csv
import functools
import gc
import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numbered_rows
import pytest
import torch
from lightning_toy import NUM_LABELS, ByHeart, Data, scores_and_targets
from pytorch_lightning import Trainer
from pytorch_lightning.loggers import CSVLogger

import tailmetrics
from tailmetrics import (
    LabelFrequency,
    PositiveCoverageAtK,
    RecallAtK,
    TopKCollection,
    rank,
)
from tailmetrics.lightning import HeadToTailReport
from written import values_of

warnings.filterwarnings("ignore")


def metrics(buckets: Any = "deciles") -> list[tailmetrics.metrics.TopKMetric]:
    """Return a metric of each kind of state."""
    return [
        tailmetrics.PrecisionAtK(k=[1, 3]),
        tailmetrics.NDCGAtK(k=5, buckets=buckets),
        tailmetrics.RecallAtK(k=5, buckets=buckets),
        tailmetrics.KForRecall(min_recall=0.8, buckets=buckets),
        tailmetrics.PositiveCoverageAtK(k=5, buckets=buckets),
        tailmetrics.PropensityScoredPrecisionAtK(k=3),
        tailmetrics.RecallAtK(k=5, average="macro"),
    ]


def over_all() -> list[tailmetrics.metrics.TopKMetric]:
    """Return the metrics that a report adds: those by bucket, over all labels."""
    return [
        tailmetrics.NDCGAtK(k=5),
        tailmetrics.RecallAtK(k=5),
        tailmetrics.KForRecall(min_recall=0.8),
        tailmetrics.PositiveCoverageAtK(k=5),
    ]


@functools.cache
def expected() -> dict[str, float]:
    """Return the values of plain PyTorch for all rows in one batch."""
    frequency = LabelFrequency(NUM_LABELS)
    frequency.update(scores_and_targets(seed=1)[1])
    collection = TopKCollection([*metrics(), *over_all()]).bind(frequency)
    collection.update(*scores_and_targets())
    return {key: float(value) for key, value in collection.compute().items()}


def silent_callback(**arguments: Any) -> HeadToTailReport:
    """Return a callback that neither writes files, which take most of its time, nor
    prints.
    """
    return HeadToTailReport(metrics(), files=False, table=False, **arguments)


def trainer(folder: Path, *callbacks: HeadToTailReport, **arguments: Any) -> Trainer:
    """Return a Trainer of two epochs that prints nothing."""
    return numbered_rows.trainer(
        folder,
        *callbacks,
        **{
            "max_epochs": 2,
            "logger": CSVLogger(folder),
            "enable_checkpointing": True,
            **arguments,
        },
    )


def same(values: dict[str, float | None], expected_values: dict[str, float]) -> None:
    """Check that values are equal to the last bit, NaN included."""
    assert values.keys() == expected_values.keys()
    for key, value in expected_values.items():
        assert values[key] == value or (
            math.isnan(value) and (values[key] is None or math.isnan(values[key]))
        ), key


def test_fit_and_test_give_the_values_of_plain_pytorch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fit and a test have the values of plain PyTorch, with counts of the training
    labels.

    The callback logs them once an epoch, unrounded, prints a table and writes the
    reports of both stages.
    """
    callback = HeadToTailReport(metrics())
    run = trainer(tmp_path, callback)
    run.fit(ByHeart(), datamodule=Data())
    same(callback.report.scalars, expected())
    run.test(ByHeart(), datamodule=Data(), verbose=False)
    same(callback.report.scalars, expected())
    names = {path.name for path in Path(run.log_dir).iterdir()}
    forms = {
        f"report_{stage}.{form}"
        for stage in ("val", "test")
        for form in ("md", "json", "csv", "html", "tex", "png")
    }
    rows = {f"rows_{stage}.parquet" for stage in ("val", "test")}
    assert names - {"hparams.yaml"} == forms | rows | {"metrics.csv", "checkpoints"}
    report = json.loads((Path(run.log_dir) / "report_val.json").read_text())
    same(values_of(report), expected())
    assert sum(row["positives"] for row in report["buckets"]) == int(
        (scores_and_targets()[1] >= 0).sum()
    )
    printed = capsys.readouterr().out
    assert "decile_10" in printed
    assert "unseen" in printed
    logged = list(csv.DictReader((Path(run.log_dir) / "metrics.csv").open()))
    epochs = [row["epoch"] for row in logged if row.get("val/precision@1")]
    assert epochs == ["0", "1"]
    assert {row["val/precision@1"] for row in logged if row.get("val/precision@1")} == {
        str(expected()["precision@1"])
    }


def test_the_sanity_check_does_not_change_the_values(tmp_path: Path) -> None:
    """NaN scores in the two batches of Lightning's sanity check raise no error and do
    not change the values.
    """
    callback = silent_callback()
    trainer(tmp_path, callback, num_sanity_val_steps=2, max_epochs=1).fit(
        ByHeart(sanity_nan=True), datamodule=Data()
    )
    same(callback.report.scalars, expected())


@pytest.mark.parametrize("has_counts", [False, True])
def test_a_test_without_a_fit_counts_training_labels(
    has_counts: bool, tmp_path: Path
) -> None:
    """trainer.test without a fit counts the training labels of the data module; with
    label_counts= it needs no training data.
    """
    frequency = LabelFrequency(NUM_LABELS)
    frequency.update(scores_and_targets(seed=1)[1])
    counts = (
        {"label_counts": frequency.compute(), "num_train": frequency.num_rows}
        if has_counts
        else {}
    )
    data = (
        {"dataloaders": Data().test_dataloader()}
        if has_counts
        else {"datamodule": Data()}
    )
    callback = silent_callback(**counts)
    trainer(tmp_path, callback).test(ByHeart(), **data, verbose=False)
    same(callback.report.scalars, expected())
    assert not list(tmp_path.rglob("report.*"))


def test_warnings_of_metrics_are_in_the_last_report_of_a_fit(tmp_path: Path) -> None:
    """A warning of a metric, here of probabilities instead of logits, is once in the
    last report of a fit and in its files.
    """
    model = ByHeart()
    model.scores.data = model.scores.softmax(dim=1)
    callback = HeadToTailReport(
        [tailmetrics.CrossEntropy()], table=False, figures=False
    )
    trainer(tmp_path, callback).fit(model, Data())
    assert callback.report is not None
    assert callback.folder is not None
    written_warnings = json.loads((callback.folder / "report_val.json").read_text())[
        "warnings"
    ]
    for texts in (callback.report.warnings, written_warnings):
        assert sum("as probabilities do" in text for text in texts) == 1


@pytest.mark.slow
def test_a_resumed_run_gives_the_values_of_one_run(tmp_path: Path) -> None:
    """A checkpoint holds the training counts, and a run that is resumed from it gives
    the values of one run.
    """
    first = trainer(tmp_path, silent_callback(), max_epochs=1)
    first.fit(ByHeart(), datamodule=Data())
    first.save_checkpoint(tmp_path / "one.ckpt")
    saved = torch.load(tmp_path / "one.ckpt", weights_only=True)["HeadToTailReport"]
    assert saved["label_counts"].sum() > 0
    callback = silent_callback()
    second = trainer(tmp_path, callback, max_epochs=2)
    second.fit(ByHeart(), datamodule=Data(), ckpt_path=tmp_path / "one.ckpt")
    same(callback.report.scalars, expected())


@pytest.mark.parametrize("precision", ["bf16-true", "bf16-mixed", "16-true"])
@pytest.mark.slow
def test_the_precision_of_the_model_does_not_round_the_metrics(
    precision: str, tmp_path: Path
) -> None:
    """The precision of a Trainer does not round the metrics: scores that each precision
    represents exactly give the values of float32.
    """
    callback = silent_callback()
    model = ByHeart()
    # whole numbers below 2^8, all different in a row, are the same in every precision
    model.scores.data = model.scores.data.argsort(1).argsort(1).float()
    trainer(tmp_path, callback, precision=precision).test(
        model, datamodule=Data(), verbose=False
    )
    same(callback.report.scalars, expected())


def test_the_callback_runs_in_lightning_pytorch(tmp_path: Path) -> None:
    """The callback is a callback of `lightning.pytorch` as well and runs in its Trainer
    with the same values.
    """
    lightning = pytest.importorskip("lightning.pytorch")
    callback = silent_callback(train_target=1)
    assert isinstance(callback, lightning.Callback)

    class Unified(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def test_step(self, batch: Any) -> Any:
            return {"preds": scores_and_targets()[0][batch[0]], "target": batch[1]}

        def train_dataloader(self) -> Any:
            return Data().train_dataloader()

        num_labels = NUM_LABELS

    run = lightning.Trainer(
        accelerator="cpu",
        callbacks=[callback],
        logger=False,
        enable_progress_bar=False,
        default_root_dir=tmp_path,
    )
    run.test(Unified(), Data().test_dataloader(), verbose=False)
    same(callback.report.scalars, expected())


def test_a_missing_key_of_the_step_is_refused(tmp_path: Path) -> None:
    """A key that the output of the step lacks is refused, and the error lists the keys
    that it has.
    """
    message = (
        "test_step returned a dict with 'preds', 'target'; return a dict with 'logits'"
    )
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, HeadToTailReport(metrics(), preds="logits")).test(
            ByHeart(), datamodule=Data()
        )


@pytest.mark.parametrize(
    ("as_ranking", "kind"), [(True, "a Ranking"), (False, "a NoneType")]
)
def test_predictions_of_no_known_form_are_refused(
    as_ranking: bool, kind: str, tmp_path: Path
) -> None:
    """A step that returns a ranking or nothing as predictions is refused, and the error
    says what to return.
    """

    class Ranked(ByHeart):
        def test_step(
            self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
        ) -> dict[str, Any]:
            output = super().test_step(batch)
            output["preds"] = (
                rank(output["preds"], output["target"], depth=5) if as_ranking else None
            )
            return output

    with pytest.raises(
        TypeError,
        match=f"test_step returned {kind} as 'preds'; return scores, ids or candidates",
    ):
        trainer(tmp_path, HeadToTailReport(metrics())).test(Ranked(), datamodule=Data())


@pytest.mark.parametrize(
    ("num_labels", "counts", "coverage_labels", "message"),
    [
        (
            30,
            [1] * 20,
            None,
            "label_counts holds 20 labels, but num_labels holds 30; pass a count for every label",
        ),
        (
            30,
            None,
            40,
            "PositiveCoverageAtK was made for 40 labels, but num_labels holds 30; leave its num_labels out",
        ),
        (
            None,
            [1] * 20,
            40,
            "PositiveCoverageAtK was made for 40 labels, but label_counts holds 20; leave its",
        ),
    ],
)
def test_contradictory_numbers_of_labels_are_refused(
    num_labels: int | None,
    counts: list[int] | None,
    coverage_labels: int | None,
    message: str,
) -> None:
    """Arguments that give different numbers of labels are refused when the callback is
    created.
    """
    all_metrics = [*metrics(), PositiveCoverageAtK(1, num_labels=coverage_labels)]
    with pytest.raises(ValueError, match=f"HeadToTailReport: {message}"):
        HeadToTailReport(all_metrics, num_labels=num_labels, label_counts=counts)


@pytest.mark.parametrize("name", ["counts.csv", "counts.npy"])
def test_a_file_of_counts_without_an_array_is_refused(
    tmp_path: Path, name: str
) -> None:
    """A file of label counts that holds no array is refused with an error of the
    callback, not of torch or numpy.
    """
    (tmp_path / name).write_text("label,count\na,1\n")
    with pytest.raises(
        ValueError,
        match=f"{name}' is no file of an array or a tensor; pass the counts, or the path",
    ):
        HeadToTailReport(metrics(), label_counts=str(tmp_path / name))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_labels": "x"}, "num_labels='x' is not a whole number"),
        ({"num_train": 2.5}, r"num_train=2\.5 is not a whole number"),
        ({"label_names": 3}, r"label_names=3 is of type int; pass a list of texts\."),
        (
            {"label_names": "abc"},
            r"label_names='abc' is of type str; pass a list of texts\.",
        ),
        ({"row_names": [1]}, r"row_names holds 1 of type int; pass a list of texts\."),
        (
            {"label_names": [None, "a"]},
            r"label_names holds None of type NoneType; pass a list of texts\.",
        ),
        ({"labels": ["a"]}, r"labels=\['a'\] is no bool; pass True or False"),
        ({"name": 3}, "name=3 is no part of a file name"),
        (
            {"headline": "recall@7"},
            r"headline='recall@7' is no metric here; choose one of 'recall@1'\.",
        ),
        (
            {"label_counts": {"a": 1}},
            "label_counts is dict; pass whole numbers, one per label",
        ),
    ],
)
def test_wrong_arguments_are_refused_when_the_callback_is_created(
    arguments: Mapping[str, Any], message: str
) -> None:
    """Arguments of a wrong type or value are refused when the callback is created, not
    in the middle of a run.
    """
    with pytest.raises((TypeError, ValueError), match=f"HeadToTailReport: {message}"):
        HeadToTailReport([RecallAtK(k=1)], **arguments)


@pytest.mark.parametrize("owner", ["data module", "model"])
def test_wrong_attributes_of_model_and_data_module_are_refused_by_owner(
    owner: str,
) -> None:
    """If num_labels or label_names of the data module or the model have a wrong type,
    the error names the attribute and its owner.
    """
    callback = HeadToTailReport([RecallAtK(k=1)])
    wrong = SimpleNamespace(num_labels="many", label_names=3)
    module = wrong if owner == "model" else SimpleNamespace()
    trainer = SimpleNamespace(datamodule=wrong if owner == "data module" else None)
    with pytest.raises(
        TypeError,
        match=f"HeadToTailReport: num_labels of the {owner}='many' is not a whole number",
    ):
        callback._training_labels._stated_num_labels(trainer, module)
    with pytest.raises(
        TypeError,
        match=f"HeadToTailReport: label_names of the {owner}=3 is of type int; pass a list of te",
    ):
        callback._names("label_names", trainer, module)


def test_a_bucket_without_labels_is_not_logged(tmp_path: Path) -> None:
    """The key of a bucket without labels is not logged, but is in the report. Of 30
    labels none or one is unseen.
    """
    for unseen in (0, 1):
        counts = [1] * (NUM_LABELS - unseen) + [0] * unseen
        report = HeadToTailReport(
            [RecallAtK(k=5, buckets="deciles")],
            label_counts=counts,
            files=False,
            table=False,
        )
        run = trainer(tmp_path, report)
        run.validate(ByHeart(), datamodule=Data(), verbose=False)
        keys = run.callback_metrics.keys()
        assert "val/recall@5/decile_1" in keys
        assert ("val/recall@5/unseen" in keys) == bool(unseen)
        assert report.report is not None
        assert "recall@5/unseen" in report.report.scalars


def test_headline_chooses_the_headline_of_the_report(tmp_path: Path) -> None:
    """headline= chooses the headline of the report; by default it is recall by
    bucket.
    """
    for headline in (None, "precision@3"):
        report = silent_callback(headline=headline, labels=True)
        trainer(tmp_path, report).validate(ByHeart(), datamodule=Data(), verbose=False)
        assert report.report is not None
        assert report.report.headline == (headline or "recall@5")


def test_temporary_files_are_removed_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary folder of the table of rows is removed at the end of a run.

    That of a failed run is removed with the evaluation, without a warning.
    """
    folders = tmp_path / "temporary"
    folders.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folders))
    callback = HeadToTailReport(metrics(), table=False, figures=False)
    run = trainer(tmp_path, callback)
    run.validate(ByHeart(), datamodule=Data(), verbose=False)
    assert list(tmp_path.rglob("rows_val.parquet"))
    assert not list(folders.iterdir())

    class Broken(ByHeart):
        def validation_step(
            self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
        ) -> Any:
            return "scores"

    with pytest.raises(ValueError, match="validation_step returned a str"):
        run.validate(Broken(), datamodule=Data(), verbose=False)
    assert list(folders.iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        callback._loader_evaluations.clear()
        gc.collect()
    assert not list(folders.iterdir())
