"""A small model for short texts: one hidden layer over a bag of hashed features."""

import math

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.nn import functional as F

from .data import Batch


class BagOfFeatures(LightningModule):
    """Sum of feature embeddings, ReLU, one logit per label.

    The model is trained on the binary cross-entropy of every label.

    Args:
        num_features: Number of feature ids.
        num_labels: Number of label ids.
        hidden: Width of the embedding.
        learning_rate: Step size of Adam.
    """

    def __init__(
        self,
        num_features: int,
        num_labels: int,
        hidden: int = 128,
        learning_rate: float = 5e-3,
    ) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.embedding = nn.EmbeddingBag(num_features, hidden, mode="sum")
        # An instance sums about 45 embeddings: at their default deviation of 1 the
        # noise would outlast the training.
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.output = nn.Linear(hidden, num_labels)
        # Nearly all of a row's labels are irrelevant: from a bias of 0 the first epochs
        # would learn only that.
        nn.init.constant_(self.output.bias, -math.log(num_labels))

    def forward(self, features: Tensor, offsets: Tensor) -> Tensor:
        """Return logits [N, L] of bags of features.

        Bags lie end to end and start at `offsets` [N].
        """
        logits: Tensor = self.output(self.embedding(features, offsets).relu())
        return logits

    def training_step(self, batch: Batch) -> Tensor:
        """Loss summed over labels, averaged over rows."""
        logits = self(batch["features"], batch["offsets"])
        target = multi_hot(batch["target"], logits)
        loss = F.binary_cross_entropy_with_logits(
            logits, target, reduction="sum"
        ) / len(logits)
        self.log("train_loss", loss, prog_bar=True, batch_size=len(logits))
        return loss

    def validation_step(self, batch: Batch) -> dict[str, Tensor]:
        """Return what `HeadToTailReport` reads: logits, padded label ids, row numbers.

        The padding is -1.
        """
        logits = self(batch["features"], batch["offsets"])
        return {"preds": logits, "target": batch["target"], "row_ids": batch["row_ids"]}

    def test_step(self, batch: Batch) -> dict[str, Tensor]:
        """The same as in validation."""
        return self.validation_step(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam at a constant step size.

        It is fused, because a plain step takes as long as the backward pass.
        """
        return torch.optim.Adam(self.parameters(), self.learning_rate, fused=True)


def multi_hot(label_ids: Tensor, logits: Tensor) -> Tensor:
    """Ones at the label ids of each row, shaped as `logits`; -1 sets nothing."""
    present = label_ids >= 0
    return torch.zeros_like(logits).scatter_add_(
        1, label_ids.clamp(min=0), present.to(logits.dtype)
    )
