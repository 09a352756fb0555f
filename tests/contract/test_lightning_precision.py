"""Under every precision of a Trainer the metrics of a model are those of its scores, and epochs do not leak."""

import copy
from typing import Any

import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from exactness.bits import bits_of
from tailmetrics import GiniAtK, LabelFrequency, NDCGAtK, PrecisionAtK, TopKCollection

ROWS, LABELS = 12, 20


class Model(LightningModule):
    """Evaluates, logs what compute returns, and resets; keeps what a metric of its own says of the same scores."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, LABELS)
        self.metrics = TopKCollection(
            [PrecisionAtK(k=[1, 5]), NDCGAtK(k=5, buckets="deciles"), GiniAtK(k=5, num_labels=LABELS)]
        )
        self.metrics.bind(LabelFrequency.from_counts([1] * ROWS + [0] * (LABELS - ROWS), ROWS))
        self.alone = self.metrics.clone()
        self.seen: list[Any] = []

    def training_step(self, batch: Any) -> Tensor:
        return nn.functional.cross_entropy(self.layer(batch[0]).float(), batch[1])

    def validation_step(self, batch: Any) -> None:
        self.seen.append((self.layer(batch[0]), batch[1]))
        self.metrics.update(*self.seen[-1])

    def on_validation_epoch_end(self) -> None:
        values, alone = self.metrics.compute(), copy.deepcopy(self.alone)
        for batch in self.seen:
            alone.update(*batch)
        assert {key: bits_of(value) for key, value in values.items()} == {
            key: bits_of(value) for key, value in alone.compute().items()
        }
        self.log_dict(values)
        self.metrics.reset()
        self.seen.clear()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", ["64-true", "bf16-true", "16-mixed"])
def test_every_precision_gives_the_metrics_of_the_scores(precision: Any, tmp_path: Any) -> None:
    """Sanity check, two epochs of training and validation in inference mode; each epoch by itself, logged under its keys."""
    loader = DataLoader(TensorDataset(torch.randn(ROWS, 4), torch.arange(ROWS)), batch_size=5)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="cpu", max_epochs=2, precision=precision, default_root_dir=tmp_path, **quiet)
    model = Model()
    trainer.fit(model, loader, loader)
    trainer.validate(model, loader, verbose=False)
    assert trainer.callback_metrics.keys() == set(model.alone.compute())
