"""Every run writes its reports into a folder of its own."""

from pathlib import Path
from typing import Any

import pytest
from numbered_rows import Model, loader, report, trainer
from pytorch_lightning.loggers import CSVLogger, Logger

pytestmark = pytest.mark.filterwarnings(
    "ignore:::pytorch_lightning", "ignore:::lightning"
)


class Elsewhere(Logger):
    """A logger without a log directory, like those of services, whose run starts when
    `experiment` is first read.
    """

    def __init__(self, save_dir: Any, version: Any = "run-7") -> None:
        super().__init__()
        self._save_dir, self._version, self._started = save_dir, version, False

    @property
    def experiment(self) -> Any:
        self._started = True

    save_dir = property(lambda self: self._save_dir)
    name = property(lambda self: "project")
    version = property(lambda self: self._version if self._started else None)

    def log_metrics(self, metrics: Any, step: Any = None) -> None:
        pass

    def log_hyperparams(self, params: Any) -> None:
        pass


def report_files(folder: Path) -> list[str]:
    """Return the relative paths of the Markdown reports."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("report*.md")
    )


@pytest.mark.slow
def test_a_run_without_a_logger_writes_into_reports(tmp_path: Path) -> None:
    """Without a logger, the reports of validation and test of two callbacks are in the
    folder reports, and nothing is beside it.
    """
    run = trainer(tmp_path, report(), report(name="b"))
    run.fit(Model(), loader(), loader())
    run.test(Model(), loader(), verbose=False)
    names = ("report_b_test", "report_b_val", "report_test", "report_val")
    assert report_files(tmp_path) == [f"reports/{name}.md" for name in names]
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]


@pytest.mark.parametrize(
    ("version", "folder"), [("run-7", "project/run-7"), (3, "project/version_3")]
)
def test_a_run_of_a_service_writes_beside_its_checkpoints(
    version: Any, folder: str, tmp_path: Path
) -> None:
    """With the logger of a service, reports are in the folder of name and version
    within save_dir, where Lightning keeps the checkpoints.
    """
    run = trainer(
        tmp_path / "root",
        report(),
        logger=Elsewhere(tmp_path / "saved", version),
        enable_checkpointing=True,
    )
    run.fit(Model(), loader(), loader())
    assert report_files(tmp_path) == [f"saved/{folder}/report_val.md"]
    assert Path(run.checkpoint_callback.dirpath).parent == tmp_path / "saved" / folder


@pytest.mark.parametrize(
    ("logger", "folder"),
    [
        (lambda _: Elsewhere(None), "project/run-7"),
        (lambda path: CSVLogger(path, "a", "b"), "a/b"),
    ],
)
def test_a_logger_without_save_dir_uses_the_default_folder(
    logger: Any, folder: str, tmp_path: Path
) -> None:
    """A logger that saves nothing, like that of a tracking server, has its reports in
    the default folder; a logger with a log directory has them there.
    """
    trainer(tmp_path, report(), logger=logger(tmp_path)).validate(
        Model(), loader(), verbose=False
    )
    assert report_files(tmp_path) == [f"{folder}/report_val.md"]


def test_a_remote_folder_brings_a_warning_and_no_reports(tmp_path: Path) -> None:
    """If the folder of the logger is remote, no report is written, a warning says so,
    and the run continues.
    """
    run = trainer(tmp_path, report(), logger=Elsewhere("s3://bucket/runs"))
    with pytest.warns(
        UserWarning,
        match="reports are not written, because s3://bucket/runs is no local folder; give",
    ):
        run.validate(Model(), loader(), verbose=False)
    assert not report_files(tmp_path)


def test_the_title_gives_stage_model_and_epoch(tmp_path: Path) -> None:
    """The title of a report gives the stage, the model, the name of the callback and,
    during a fit, the epoch.
    """
    callback = report(files=False)
    run = trainer(tmp_path, callback, max_epochs=2)
    run.fit(Model(), loader(), loader())
    assert callback.report.title == "Validation of Model, epoch 1"
    run.test(Model(), loader(), verbose=False)
    assert callback.report.title == "Test of Model"
    named_callback = report(files=False, name="b")
    trainer(tmp_path, named_callback).validate(Model(), loader(), verbose=False)
    assert named_callback.report.title == "Validation of Model (b)"
