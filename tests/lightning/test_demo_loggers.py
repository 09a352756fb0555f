"""The demo with each logger: its figures and tables are in TensorBoard's events, an offline run of W&B, MLflow's store."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"
KINDS = {"overall", "by_bucket", "figure", "tail", "missed", "wrong", "examples"}
SHORT = {
    "trainer.max_epochs": 1,
    "trainer.check_val_every_n_epoch": 1,
    "trainer.enable_progress_bar": "false",
    "data.num_features": 512,
    "model.hidden": 4,
}


@pytest.fixture(scope="module")
def terms() -> list[Any]:
    """One disease name of ten; the catalogue is read for two seconds, for which no worker that runs other tests waits."""
    from examples.icd10 import data

    return data.read_terms()[::10]


@pytest.fixture
def run_demo(terms: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run the demo as `make demo` does, on a tenth of its data; ``compare=False`` without the other models."""
    from examples.icd10 import __main__ as demo
    from examples.icd10 import compared, data

    def run(logger: str, compare: bool = False, **options: Any) -> None:
        if not compare:
            monkeypatch.setattr(demo, "write_comparison", lambda *_: [])
        given = SHORT | {f"trainer.logger.{name}": value for name, value in options.items()}
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        start = ["demo", "--config", str(ROOT / "configs" / "icd10.yaml"), "--trainer.logger", logger]
        monkeypatch.setattr(sys, "argv", [*start, *words])
        demo.main()

    monkeypatch.setattr(data, "read_terms", lambda: terms)
    monkeypatch.setattr(compared, "RESAMPLES", 50)
    monkeypatch.chdir(tmp_path)
    return run


@pytest.mark.drawn
def test_tensorboard(run_demo: Callable[..., None], tmp_path: Path, capsys: Any) -> None:
    """Picture and text of validation and test, which the report in the folder of the run holds too."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run_demo("TensorBoardLogger", compare=True, save_dir=tmp_path)
    folder = tmp_path / "icd10" / "version_0"
    events = accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0, "images": 0}).Reload()
    assert {*events.Tags()["images"]} == {"report_val", "report_test"}
    assert all(one.encoded_image_string.startswith(PNG) for one in events.Images("report_test"))
    (text,) = events.Tensors("report_test/text_summary")
    shown = text.tensor_proto.string_val[0].decode()
    assert all(title in shown for title in ("Example rows", "Labels most often missed", "Head against tail", "±"))
    assert {path.name for path in folder.glob("*.html")} == {
        "report_val.html", "report_test.html", "report.html", "compare.html",
    }  # fmt: skip
    assert "Its list of ten holds" in capsys.readouterr().out


def test_weights_and_biases(run_demo: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables with all values and a picture, in the folder of the offline run."""
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run_demo("WandbLogger", save_dir=tmp_path, offline="true", project="demo")
    wandb.finish()
    media = next(tmp_path.glob("wandb/offline-run-*/files/media"))
    for stage in ("report_val", "report_test"):
        names = {path.name for path in media.glob(f"*/{stage}/*")}
        assert {kind for kind in KINDS if any(name.startswith(kind) for name in names)} == KINDS
    by_bucket = next(media.rglob("report_test/by_bucket*.table.json"))
    table = json.loads(by_bucket.read_text())
    assert [line[0] for line in table["data"]] == [
        "all",
        *(f"decile_{number}" for number in range(10, 0, -1)),
        "unseen",
    ]
    (picture,) = media.rglob("images/report_test/figure*.png")
    assert picture.read_bytes().startswith(PNG)
    (report,) = tmp_path.rglob("report_test.json")
    assert report.parent.parent.name == "demo"
    assert (report.parent / "results.json").exists()


def test_mlflow(run_demo: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Picture, text and the table of labels as artifacts of the run."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more packages
    store = f"file:{tmp_path / 'store'}"
    run_demo("MLFlowLogger", experiment_name="demo", tracking_uri=store)
    client = mlflow.MlflowClient(store)
    (experiment,) = [one for one in client.search_experiments() if one.name == "demo"]
    (run,) = client.search_runs([experiment.experiment_id])
    for stage in ("report_val", "report_test"):
        kinds = {
            Path(one.path).name.removeprefix("step_00000005") for one in client.list_artifacts(run.info.run_id, stage)
        }
        assert kinds == {".md", ".png", "_labels.csv"}
    (report,) = tmp_path.rglob("report_test.json")
    assert (report.parent / "results.json").exists()
