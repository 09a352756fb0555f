"""The report of the best checkpoint is written beside that of the last validation."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_toy import ByHeart, Data
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

from tailmetrics import RecallAtK
from tailmetrics.lightning import HeadToTailReport
from written import values_of

pytestmark = pytest.mark.filterwarnings("ignore")
BETTER_THEN_WORSE = [0.2, 0.9, 0.5]
"""The weight of the stored scores in the predictions of each epoch: epoch 1 is the
best.
"""


class Fading(ByHeart):
    """A model that is best in the middle of its training."""

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> dict[str, Any]:
        output = super().validation_step(batch)
        share = BETTER_THEN_WORSE[self.current_epoch]
        generator = torch.Generator().manual_seed(batch_idx)
        noise = torch.randn(output["preds"].shape, generator=generator)
        return {**output, "preds": share * output["preds"] + (1 - share) * 5 * noise}


@pytest.mark.parametrize("late", [False, True])
def test_the_report_of_the_best_checkpoint_is_written(
    tmp_path: Path, late: bool
) -> None:
    """``report_best`` has the value and the epoch of the best checkpoint, whether
    ModelCheckpoint saves after validation or at the end of the epoch. ``report_val``
    has those of the last epoch.
    """
    report = HeadToTailReport(
        [RecallAtK(k=5)], label_counts=[1] * 30, table=False, figures=False
    )
    checkpoint = ModelCheckpoint(
        tmp_path / "kept",
        monitor="val/recall@5",
        mode="max",
        save_on_train_epoch_end=late,
        filename="kept",
    )
    trainer = Trainer(
        max_epochs=3, logger=False, default_root_dir=tmp_path, accelerator="cpu", enable_progress_bar=False,
        enable_model_summary=False, callbacks=[report, checkpoint], num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(Fading(), datamodule=Data())
    assert report.best_report is not None
    best, last = (
        json.loads((tmp_path / "reports" / f"report_{name}.json").read_text())
        for name in ("best", "val")
    )
    assert checkpoint.best_model_score is not None
    assert values_of(best)["recall@5"] == pytest.approx(
        float(checkpoint.best_model_score)
    )
    assert (
        values_of(last)["recall@5"]
        < values_of(best)["recall@5"]
        == report.best_report.scalars["recall@5"]
    )
    assert ("epoch 1" in best["title"], "epoch 2" in last["title"]) == (True, True)
    assert "kept as the best one, kept" in best["warnings"][0]


def test_without_a_monitor_there_is_no_report_of_the_best(tmp_path: Path) -> None:
    """If no checkpoint monitors a value, there is no report of the best one."""
    report = HeadToTailReport(
        [RecallAtK(k=5)], label_counts=[1] * 30, table=False, figures=False
    )
    trainer = Trainer(
        max_epochs=1, logger=False, default_root_dir=tmp_path, accelerator="cpu", enable_progress_bar=False,
        enable_model_summary=False, callbacks=[report],
    )  # fmt: skip
    trainer.fit(ByHeart(), datamodule=Data())
    assert report.best_report is None
    assert not list(tmp_path.rglob("report_best*"))


def test_a_fit_resumed_in_another_folder_writes_the_best_report(tmp_path: Path) -> None:
    """A fit that is resumed in another folder, where Lightning restores the path of the
    best checkpoint without its score, continues and has a report of the best epoch.
    """
    paths = []
    for epochs in (1, 2):
        report = HeadToTailReport(
            [RecallAtK(k=5)], label_counts=[1] * 30, table=False, figures=False
        )
        checkpoint = ModelCheckpoint(monitor="val/recall@5", mode="max")
        trainer = Trainer(
            max_epochs=epochs, logger=CSVLogger(tmp_path), accelerator="cpu", enable_progress_bar=False,
            enable_model_summary=False, callbacks=[report, checkpoint], num_sanity_val_steps=0,
        )  # fmt: skip
        trainer.fit(Fading(), datamodule=Data(), ckpt_path=paths[-1] if paths else None)
        paths.append(checkpoint.best_model_path)
        trainer.validate(Fading(), datamodule=Data(), verbose=False)
    assert paths[0] != paths[1]
    assert report.best_report is not None
    assert "epoch 1" in report.best_report.title
