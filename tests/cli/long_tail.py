"""A small data set with a long tail of labels, in files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from tailmetrics.evaluation.row_tables import METADATA

NUM_ROWS, NUM_LABELS, LISTED = 60, 30, 12


def write_lists(path, **columns):
    """Write lists as Parquet in row groups of seven rows."""
    kinds = {"ids": pa.int32(), "labels": pa.int32(), "scores": pa.float64()}
    table = {
        name: pa.array(rows, pa.list_(kinds[name])) for name, rows in columns.items()
    }
    pq.write_table(pa.table(table), path, row_group_size=7)
    return str(path)


def rewrite(table, like, path):
    """Write a changed table of values per row, with the metadata of the file `like`."""
    metadata = {METADATA: pq.read_metadata(like).metadata[METADATA]}
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata)


def padded(rows):
    """Return lists as ids (N, M), padded with -1 at the end."""
    width = max(map(len, rows))
    return torch.tensor([row + [-1] * (width - len(row)) for row in rows])


class LongTailFiles:
    """Random relevant labels, training labels and scored candidates of rows, and the
    files that hold them.
    """

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        share = 1 / np.arange(1, NUM_LABELS + 1)
        share /= share.sum()
        self.relevant, self.trained = (
            [
                sorted(
                    set(rng.choice(NUM_LABELS, rng.integers(0, 5), p=share).tolist())
                )
                for _ in range(rows)
            ]
            for rows in (NUM_ROWS, 4 * NUM_ROWS)
        )
        self.candidates = []
        for relevant in self.relevant:
            hits = [label for label in relevant if rng.random() < 0.6]
            others = [
                label
                for label in rng.permutation(NUM_LABELS).tolist()
                if label not in relevant
            ]
            self.candidates.append((hits + others)[:LISTED])
        self.scores = [
            rng.permutation(LISTED).astype(float).tolist() for _ in range(NUM_ROWS)
        ]
        self.preds = write_lists(
            folder / "preds.parquet", ids=self.candidates, scores=self.scores
        )
        self.target = write_lists(folder / "target.parquet", labels=self.relevant)
        self.train = write_lists(folder / "train.parquet", labels=self.trained)
        self.counts = str(folder / "counts.npy")
        np.save(
            self.counts,
            np.bincount(np.concatenate(self.trained).astype(int), minlength=NUM_LABELS),
        )

    @property
    def options_with_training(self) -> list[str]:
        """Return the options that name the files of this data set, training targets
        included.
        """
        return [
            *self.options,
            "--train-target",
            self.train,
            "--num-labels",
            str(NUM_LABELS),
        ]

    @property
    def options(self) -> list[str]:
        """Return the options that name predictions and targets."""
        return ["--preds", self.preds, "--target", self.target]
