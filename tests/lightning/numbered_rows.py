"""Training data in which row i has label i, so that counts show which rows are counted,
and how often.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from lightning_toy import Trained
from pytorch_lightning import Trainer
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    get_worker_info,
)

import tailmetrics
from tailmetrics.lightning import HeadToTailReport

ROWS = 20


class Numbered(Dataset[dict[str, int]]):
    """A data set in which row i has the input i and the label i, and the worker that
    reads it.
    """

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> dict[str, int]:
        worker = get_worker_info()
        return {"x": row, "target": row, "worker": -1 if worker is None else worker.id}


class Stream(IterableDataset[dict[str, int]]):
    """The same rows again and again as a stream, without an end or with one; it counts
    the rows that are read.
    """

    def __init__(self, end: float = math.inf) -> None:
        self.end, self.rows_read = end, 0

    def __iter__(self) -> Iterator[dict[str, int]]:
        row = 0
        while row < self.end:
            self.rows_read += 1
            yield {"x": row % ROWS, "target": row % ROWS}
            row += 1


class FixedOrder(Sampler[Any]):
    """A sampler, or a batch sampler, that yields fixed rows or batches."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class Model(Trained):
    """A model that learns nothing and keeps the rows that it is trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.rows_seen: list[Any] = []

    def training_step(self, batch: Any) -> Tensor:
        """Return any loss."""
        self.rows_seen.append(
            batch["x"].tolist() if isinstance(batch, dict) and "x" in batch else batch
        )
        return super().training_step(batch)

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> dict[str, Tensor]:
        """Predict label 0 for every row."""
        return {
            "preds": -torch.arange(float(ROWS)).expand(len(batch["x"]), ROWS),
            "target": batch["target"],
        }

    test_step = validation_step


def callback(metrics: Any = None, **arguments: Any) -> HeadToTailReport:
    """Return a callback that must count labels, and writes no files and no table."""
    metrics = metrics or [tailmetrics.RecallAtK(k=5, buckets="deciles")]
    return HeadToTailReport(
        metrics, **{"num_labels": ROWS, "files": False, "table": False, **arguments}
    )


def report(**arguments: Any) -> HeadToTailReport:
    """Return a callback with one metric overall and one by bucket."""
    metrics = [
        tailmetrics.RecallAtK(k=2),
        tailmetrics.RecallAtK(k=1, buckets="deciles"),
    ]
    return HeadToTailReport(
        metrics, **{"label_counts": [1] * ROWS, "table": False, **arguments}
    )


def trainer(folder: Path, *callbacks: HeadToTailReport, **arguments: Any) -> Trainer:
    """Return a Trainer that prints and saves nothing."""
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    settings = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 1,
        "default_root_dir": folder,
    }
    return Trainer(callbacks=list(callbacks), **{**quiet, **settings, **arguments})


def counts_of_fit(
    loaders: Any, folder: Path, train_target: Any = "target", **arguments: Any
) -> list[int]:
    """Return how often each row is counted when a fit on `loaders` starts."""
    report = callback(train_target=train_target)
    trainer(folder, report, **arguments).fit(Model(), loaders)
    counts: list[int] = report.frequency.counts.tolist()
    assert sum(counts) == report.frequency.num_rows
    return counts


def counts_of_rows(*rows: int) -> list[int]:
    """Return a count of 1 for these rows and of 0 for the others."""
    return [int(row in rows) for row in range(ROWS)]


def loader(**arguments: Any) -> DataLoader[Any]:
    """Return a loader of the numbered rows."""
    return DataLoader(
        Numbered(),
        **{
            "batch_size": 4,
            **({} if "batch_sampler" not in arguments else {"batch_size": 1}),
            **arguments,
        },
    )
