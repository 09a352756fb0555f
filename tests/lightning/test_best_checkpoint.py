"""The report of the checkpoint that is kept as the best one, beside that of the last validation."""

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
"""The share of the stored scores in what each epoch returns: epoch 1 is the best one."""


class Fading(ByHeart):
    """Is best in the middle of its training."""

    def validation_step(self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0) -> dict[str, Any]:
        output = super().validation_step(batch)
        share = BETTER_THEN_WORSE[self.current_epoch]
        generator = torch.Generator().manual_seed(batch_idx)
        noise = torch.randn(output["preds"].shape, generator=generator)
        return {**output, "preds": share * output["preds"] + (1 - share) * 5 * noise}


@pytest.mark.parametrize("late", [False, True])
def test_the_report_of_the_kept_checkpoint_is_written_beside_the_last_one(tmp_path: Path, late: bool) -> None:
    """``report_best`` has the value that was logged in the best epoch, whenever ModelCheckpoint saves; ``report_val`` the last."""
    report = HeadToTailReport([RecallAtK(k=5)], label_counts=[1] * 30, table=False, figures=False)
    kept = ModelCheckpoint(
        tmp_path / "kept", monitor="val/recall@5", mode="max", save_on_train_epoch_end=late, filename="kept"
    )
    trainer = Trainer(
        max_epochs=3, logger=False, default_root_dir=tmp_path, accelerator="cpu", enable_progress_bar=False,
        enable_model_summary=False, callbacks=[report, kept], num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(Fading(), datamodule=Data())
    assert report.best_report is not None
    best, last = (json.loads((tmp_path / "reports" / f"report_{name}.json").read_text()) for name in ("best", "val"))
    assert kept.best_model_score is not None
    assert values_of(best)["recall@5"] == pytest.approx(float(kept.best_model_score))
    assert values_of(last)["recall@5"] < values_of(best)["recall@5"] == report.best_report.scalars["recall@5"]
    assert ("epoch 1" in best["title"], "epoch 2" in last["title"]) == (True, True)
    assert "kept as the best one, kept" in best["warnings"][0]


def test_without_a_monitored_value_no_checkpoint_is_the_best(tmp_path: Path) -> None:
    """The default checkpoint is that of the last epoch: one report is enough."""
    report = HeadToTailReport([RecallAtK(k=5)], label_counts=[1] * 30, table=False, figures=False)
    trainer = Trainer(
        max_epochs=1, logger=False, default_root_dir=tmp_path, accelerator="cpu", enable_progress_bar=False,
        enable_model_summary=False, callbacks=[report],
    )  # fmt: skip
    trainer.fit(ByHeart(), datamodule=Data())
    assert report.best_report is None
    assert not list(tmp_path.rglob("report_best*"))


def test_a_fit_resumed_in_another_folder_goes_on(tmp_path: Path) -> None:
    """Lightning then restores the path of the best checkpoint without its score, as it does in a new version of a run."""
    paths = []
    for epochs in (1, 2):
        report = HeadToTailReport([RecallAtK(k=5)], label_counts=[1] * 30, table=False, figures=False)
        kept = ModelCheckpoint(monitor="val/recall@5", mode="max")
        trainer = Trainer(
            max_epochs=epochs, logger=CSVLogger(tmp_path), accelerator="cpu", enable_progress_bar=False,
            enable_model_summary=False, callbacks=[report, kept], num_sanity_val_steps=0,
        )  # fmt: skip
        trainer.fit(Fading(), datamodule=Data(), ckpt_path=paths[-1] if paths else None)
        paths.append(kept.best_model_path)
        trainer.validate(Fading(), datamodule=Data(), verbose=False)
    assert paths[0] != paths[1]
    assert report.best_report is not None
    assert "epoch 1" in report.best_report.title
