"""A folder for every run."""

from pathlib import Path
from typing import Any

import pytest
from counted import Model, loader, report, trainer
from pytorch_lightning.loggers import CSVLogger, Logger

pytestmark = pytest.mark.filterwarnings("ignore:::pytorch_lightning", "ignore:::lightning")


class Elsewhere(Logger):
    """A logger without a log directory, as those of services are; its run begins with the first look at it."""

    def __init__(self, save_dir: Any, version: Any = "run-7") -> None:
        super().__init__()
        self._save_dir, self._version, self._begun = save_dir, version, False

    @property
    def experiment(self) -> Any:
        self._begun = True

    save_dir = property(lambda self: self._save_dir)
    name = property(lambda self: "project")
    version = property(lambda self: self._version if self._begun else None)

    def log_metrics(self, metrics: Any, step: Any = None) -> None:
        pass

    def log_hyperparams(self, params: Any) -> None:
        pass


def written(folder: Path) -> list[str]:
    """Where the Markdown of reports is."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("report*.md"))


@pytest.mark.slow
def test_a_run_without_logger_has_a_folder_of_reports(tmp_path: Path) -> None:
    """Validation and test of two callbacks side by side; nothing beside them."""
    run = trainer(tmp_path, report(), report(name="b"))
    run.fit(Model(), loader(), loader())
    run.test(Model(), loader(), verbose=False)
    names = ("report_b_test", "report_b_val", "report_test", "report_val")
    assert written(tmp_path) == [f"reports/{name}.md" for name in names]
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]


@pytest.mark.parametrize(("version", "folder"), [("run-7", "project/run-7"), (3, "project/version_3")])
def test_the_run_of_a_service_has_the_folder_of_its_checkpoints(version: Any, folder: str, tmp_path: Path) -> None:
    """Name and version within save_dir, where Lightning keeps the checkpoints."""
    run = trainer(tmp_path / "root", report(), logger=Elsewhere(tmp_path / "saved", version), enable_checkpointing=True)
    run.fit(Model(), loader(), loader())
    assert written(tmp_path) == [f"saved/{folder}/report_val.md"]
    assert Path(run.checkpoint_callback.dirpath).parent == tmp_path / "saved" / folder


@pytest.mark.parametrize(
    ("logger", "folder"),
    [(lambda _: Elsewhere(None), "project/run-7"), (lambda path: CSVLogger(path, "a", "b"), "a/b")],
)
def test_a_logger_has_a_folder_or_uses_the_default_one(logger: Any, folder: str, tmp_path: Path) -> None:
    """One that saves nowhere, as a tracking server does; one with a folder of its own, as that of TensorBoard."""
    trainer(tmp_path, report(), logger=logger(tmp_path)).validate(Model(), loader(), verbose=False)
    assert written(tmp_path) == [f"{folder}/report_val.md"]


def test_a_folder_that_is_not_local_is_said(tmp_path: Path) -> None:
    """Reports are files of this machine; the run goes on."""
    run = trainer(tmp_path, report(), logger=Elsewhere("s3://bucket/runs"))
    with pytest.warns(UserWarning, match="reports are not written, because s3://bucket/runs is no local folder; give"):
        run.validate(Model(), loader(), verbose=False)
    assert not written(tmp_path)


def test_the_title_says_what_was_evaluated_and_when(tmp_path: Path) -> None:
    """Stage, model, name of the callback and, while fitting, the epoch."""
    callback = report(files=False)
    run = trainer(tmp_path, callback, max_epochs=2)
    run.fit(Model(), loader(), loader())
    assert callback.report.title == "Validation of Model, epoch 1"
    run.test(Model(), loader(), verbose=False)
    assert callback.report.title == "Test of Model"
    named = report(files=False, name="b")
    trainer(tmp_path, named).validate(Model(), loader(), verbose=False)
    assert named.report.title == "Validation of Model (b)"
