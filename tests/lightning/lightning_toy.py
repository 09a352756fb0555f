"""A model that returns stored scores, for tests of the callback."""

from typing import Any

import torch
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

NUM_LABELS, ROWS = 30, 41


def scores_and_targets(rows: int = ROWS, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return scores that favour frequent labels, and up to two labels a row; some rows
    have none.
    """
    generator = torch.Generator().manual_seed(seed)
    head = 1.0 / torch.arange(1, NUM_LABELS + 1)
    scores = torch.randn(rows, NUM_LABELS, generator=generator) + 3 * head
    target = torch.multinomial(
        head, rows * 2, replacement=True, generator=generator
    ).view(rows, 2)
    target[target[:, 0] == target[:, 1], 1] = -1
    target[::9] = -1
    return scores, target


class Data(LightningDataModule):
    """A data module of row numbers and targets."""

    num_labels = NUM_LABELS

    def __init__(self, batch_size: int = 4, rows: int = ROWS) -> None:
        super().__init__()
        self.batch_size, self.rows = batch_size, rows

    def _loader(self, seed: int, shuffle: bool = False) -> DataLoader[Any]:
        _, target = scores_and_targets(self.rows, seed)
        return DataLoader(
            TensorDataset(torch.arange(self.rows), target),
            self.batch_size,
            shuffle=shuffle,
        )

    def train_dataloader(self) -> DataLoader[Any]:
        """Return targets of seed 1."""
        return self._loader(1, shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        """Return targets of seed 0, to which the scores belong."""
        return self._loader(0)

    test_dataloader = val_dataloader


class Trained(LightningModule):
    """A model with a weight to train, which does not affect what is evaluated."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def training_step(self, batch: Any) -> Tensor:
        """Return any loss."""
        return (self.weight - 1) ** 2

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return plain SGD."""
        return torch.optim.SGD([self.weight], 0.1)


class ByHeart(Trained):
    """A model that returns the stored scores of its rows."""

    def __init__(self, sanity_nan: bool = False) -> None:
        super().__init__()
        self.scores = torch.nn.Parameter(scores_and_targets()[0], requires_grad=False)
        self.sanity_nan = sanity_nan

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> dict[str, Tensor]:
        """Return predictions and targets; during the sanity check the scores are NaN if
        `sanity_nan` is true.
        """
        rows, target = batch
        scores = self.scores[rows]
        if self.trainer.sanity_checking and self.sanity_nan:
            scores = scores * torch.nan
        return {"preds": scores, "target": target}

    test_step = validation_step
