"""Figures and tables are logged to TensorBoard, to an offline run of W&B and to the
store of MLflow.
"""

import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from numbered_rows import ROWS, Model, loader, report, trainer
from pytorch_lightning.loggers import CSVLogger

from tailmetrics import RecallAtK, evaluate
from tailmetrics.lightning.logged import show_in_loggers

pytestmark = pytest.mark.filterwarnings("ignore")
PNG = b"\x89PNG\r\n\x1a\n"


def fitted(folder: Path, logger: Any, **arguments: Any) -> Any:
    """Return a Trainer after a fit of two epochs and a test."""
    run = trainer(folder, report(**arguments), logger=logger, max_epochs=2)
    run.fit(Model(), loader(), loader())
    run.test(Model(), loader(), verbose=False)
    return run


@pytest.mark.slow
@pytest.mark.drawn
def test_tensorboard_has_a_picture_and_a_text_of_each_stage(tmp_path: Path) -> None:
    """TensorBoard has a picture of each validation at its step, and a picture and a
    text of the test.

    The files are in its log directory.
    """
    pytest.importorskip("tensorboard")
    from pytorch_lightning.loggers import TensorBoardLogger
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = fitted(tmp_path, TensorBoardLogger(tmp_path))
    events = EventAccumulator(run.logger.log_dir).Reload()
    assert {*events.Tags()["images"]} == {"report_val", "report_test"}
    assert [image.step for image in events.Images("report_val")] == [5, 10]
    assert all(
        image.encoded_image_string.startswith(PNG)
        for image in events.Images("report_val")
    )
    (text,) = events.Tensors("report_test/text_summary")
    assert "| decile_1 |" in text.tensor_proto.string_val[0].decode()
    assert (Path(run.logger.log_dir) / "report_val.md").exists()


@pytest.mark.slow
def test_wandb_has_the_tables_and_pictures_of_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An offline run of W&B has the tables and a picture of each of three reports, and
    the files are in a folder of the run.
    """
    pytest.importorskip("wandb")
    from pytorch_lightning.loggers import WandbLogger

    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.chdir(tmp_path)
    logger = WandbLogger(project="tail", offline=True, save_dir=tmp_path)
    fitted(tmp_path, logger)
    media = Path(logger.experiment.dir) / "media"
    logger.experiment.finish()
    tables = [
        json.loads(path.read_text()) for path in sorted(media.rglob("*.table.json"))
    ]
    columns = [
        "bucket",
        "labels",
        "positives",
        "rows with a relevant label",
        "recall@1",
    ]
    by_bucket = [table for table in tables if table["columns"] == columns]
    assert [(len(table["data"]), table["data"][1]) for table in by_bucket] == [
        (12, ["decile_10", "2", "2", "2", "0.5000"])
    ] * 3
    assert [table["data"][0] for table in by_bucket] == [
        ["all", *[str(ROWS)] * 3, f"{1 / ROWS:.4f}"]
    ] * 3
    overall = [
        table["data"]
        for table in tables
        if table["columns"] == ["metric", "value", "over"]
    ]
    over = f"{ROWS} rows"
    assert (
        overall
        == [
            [
                ["recall@2", f"{2 / ROWS:.4f}", over],
                ["recall@1", f"{1 / ROWS:.4f}", over],
            ]
        ]
        * 3
    )
    pictures = sorted((media / "images").rglob("*.png"))
    assert len(pictures) == 3
    assert all(picture.read_bytes().startswith(PNG) for picture in pictures)
    assert list(tmp_path.glob("tail/*/report_val.md"))
    assert not list(tmp_path.glob("report*"))


@pytest.mark.slow
def test_key_format_keeps_keys_that_mlflow_would_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_messages: list[str]
) -> None:
    """MLflow removes "@" from keys with a warning for each.

    With `key_format` the store has the keys that it returns, without warnings.
    """
    pytest.importorskip("mlflow")
    from pytorch_lightning.loggers import MLFlowLogger

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    logger = MLFlowLogger("tail", tracking_uri=f"file:{tmp_path / 'store'}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted(
            tmp_path,
            logger,
            figures=False,
            key_format=lambda key: key.replace("@", "_at_"),
        )
    keys = logger.experiment.get_run(logger.run_id).data.metrics.keys()
    assert "val/recall_at_2" in keys
    assert not [key for key in keys if key.startswith("val/recall2")]
    texts = [str(warning.message) for warning in caught] + log_messages
    assert not [text for text in texts if "recall" in text and "haracters" in text]


def test_key_format_must_return_a_unique_text_for_each_key(tmp_path: Path) -> None:
    """A key_format that returns the same text for two keys, or no text, is refused."""
    for key_format, error in (
        (lambda key: "value", ValueError),
        (lambda key: 1, TypeError),
    ):
        run = trainer(tmp_path, report(files=False, key_format=key_format))
        with pytest.raises(
            error, match=r"HeadToTailReport: key_format returned .* for 'val/recall@"
        ):
            run.validate(Model(), loader(), verbose=False)


@pytest.mark.slow
def test_mlflow_has_a_picture_and_a_text_of_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow has a picture and a text of each step as artifacts, and the files are in a
    folder of the run.
    """
    pytest.importorskip("mlflow")
    from pytorch_lightning.loggers import MLFlowLogger

    # a database needs more packages
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    logger = MLFlowLogger("tail", tracking_uri=f"file:{tmp_path / 'store'}")
    fitted(tmp_path, logger)
    artifacts = {
        item.path
        for item in logger.experiment.list_artifacts(logger.run_id, "report_val")
    }
    assert artifacts == {
        f"report_val/step_{step:08d}.{form}"
        for step in (5, 10)
        for form in ("md", "png")
    }
    assert (
        next(tmp_path.rglob("report_val/step_00000010.png"))
        .read_bytes()
        .startswith(PNG)
    )
    assert (
        "| decile_1 |"
        in next(tmp_path.rglob("report_test/step_00000010.md")).read_text()
    )


def test_a_logger_without_figures_is_supported(tmp_path: Path) -> None:
    """A fit and a test with a logger that takes no figures, such as CSVLogger, raise no
    error.
    """
    fitted(tmp_path, CSVLogger(tmp_path))


def test_a_report_by_group_of_rows_has_a_figure() -> None:
    """A logger gets the figure of a report by group of rows, too; a report without
    breakdown has none.
    """

    class Experiment:
        def __init__(self) -> None:
            self.figures: list[str] = []

        def add_text(self, name: str, text: str, step: int) -> None:
            """Take a text."""

        def add_figure(self, name: str, figure: Any, step: int) -> None:
            """Take a figure."""
            self.figures.append(name)

    scores, target = torch.eye(4), torch.arange(4)
    metrics = [RecallAtK(k=1)]
    by_group = evaluate(
        scores, target, metrics=metrics, row_groups=["a", "a", "b", "b"]
    )
    experiment = Experiment()
    show_in_loggers([SimpleNamespace(experiment=experiment)], by_group, "by_group", 0)
    show_in_loggers(
        [SimpleNamespace(experiment=experiment)],
        evaluate(scores, target, metrics=metrics),
        "overall",
        0,
    )
    assert experiment.figures == ["by_group"]


def test_figures_false_logs_only_values(tmp_path: Path) -> None:
    """With figures=False only values are logged."""
    pytest.importorskip("tensorboard")
    from pytorch_lightning.loggers import TensorBoardLogger
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = fitted(tmp_path, TensorBoardLogger(tmp_path), figures=False)
    tags = EventAccumulator(run.logger.log_dir).Reload().Tags()
    assert not tags["images"]
    assert "val/recall@2" in tags["scalars"]
