"""Under every precision of a Trainer the metrics of a model are those of its scores, and epochs do not leak."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from exactness.bits import bits_of
from tailmetrics import GiniAtK, LabelFrequency, NDCGAtK, PrecisionAtK, RecallAtK, TopKCollection

ROWS, LABELS = 12, 20


def collection() -> TopKCollection:
    """Counts, reals, per-label counts, and buckets to be bound."""
    return TopKCollection(
        [PrecisionAtK(k=[1, 5]), RecallAtK(k=5), NDCGAtK(k=5, buckets="deciles"), GiniAtK(k=5, num_labels=LABELS)],
        prefix="val/",
    )


class Model(LightningModule):
    """Counts training labels, evaluates, logs what compute returns, and resets."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, LABELS)
        self.frequency, self.metrics = LabelFrequency(LABELS), collection()
        self.metrics.bind(LabelFrequency.from_counts([1] * ROWS + [0] * (LABELS - ROWS), ROWS))
        self.seen: list[tuple[Tensor, Tensor]] = []
        self.computed: list[dict[str, Tensor]] = []
        self.wanted: list[dict[str, Tensor]] = []

    def training_step(self, batch: Any) -> Tensor:
        self.frequency.update(batch[1])
        return nn.functional.cross_entropy(self.layer(batch[0]).float(), batch[1])

    def validation_step(self, batch: Any) -> None:
        preds = self.layer(batch[0])
        self.seen.append((preds, batch[1]))
        self.metrics.update(preds, batch[1])

    def on_validation_epoch_end(self) -> None:
        self.computed.append(self.metrics.compute())
        self.log_dict(self.computed[-1])
        self.metrics.reset()
        alone = self.metrics.clone()
        for preds, target in self.seen:
            alone.update(preds, target)
        self.wanted.append(alone.compute())
        self.seen.clear()

    def on_train_epoch_end(self) -> None:
        assert int(self.frequency.compute().sum()) == ROWS
        self.frequency.reset()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.parametrize("precision", ["64-true", "bf16-true", "16-mixed"])
def test_every_precision_gives_the_metrics_of_the_scores(precision: Any, tmp_path: Any) -> None:
    """Sanity check, two epochs of training and validation in inference mode; each epoch by itself."""
    loader = DataLoader(TensorDataset(torch.randn(ROWS, 4), torch.arange(ROWS)), batch_size=5)
    model = Model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(
            accelerator="cpu",
            max_epochs=2,
            precision=precision,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(model, loader, loader)
        trainer.validate(model, loader, verbose=False)
    assert len(model.computed) == 4
    for found, wanted in zip(model.computed, model.wanted, strict=True):
        assert {key: bits_of(value) for key, value in found.items()} == {
            key: bits_of(value) for key, value in wanted.items()
        }
    logged = {key: float(value) for key, value in trainer.callback_metrics.items()}
    last = {key: float(value) for key, value in model.computed[-1].items()}
    assert set(logged) == set(last)
    coarse = 2**-8 if precision == "bf16-true" else 2**-23  # what Lightning's own log keeps
    for key, value in last.items():
        assert logged[key] == pytest.approx(value, rel=coarse, nan_ok=True)
