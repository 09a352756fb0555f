r"""Readers of prediction and target files: batches for ``metric.update``, in bounded memory, divided among ranks.

>>> from pathlib import Path
>>> from tempfile import mkdtemp
>>> folder = Path(mkdtemp())
>>> _ = (folder / "scores.txt").write_text("2 4\n0:0.9 3:0.5\n1:0.7\n")
>>> _ = (folder / "labels.txt").write_text("2 4\n3:1\n1:1 2:1\n")
>>> dataset = read(folder / "scores.txt", folder / "labels.txt")
>>> dataset.num_rows, dataset.num_labels
(2, 4)
>>> [batch.preds[1].tolist() for batch in dataset]
[[[0, 3], [1, -1]]]
"""

from tailmetrics.io.dataset import Batch, Dataset, TargetBatch, TargetDataset
from tailmetrics.io.files import DataFileError, DataFileNote
from tailmetrics.io.formats import FORMATS, Format, register_format
from tailmetrics.io.labels import read_label_counts
from tailmetrics.io.loading import read, read_label_names, read_target
from tailmetrics.io.reading import Columns

__all__ = [
    "FORMATS",
    "Batch",
    "Columns",
    "DataFileError",
    "DataFileNote",
    "Dataset",
    "Format",
    "TargetBatch",
    "TargetDataset",
    "read",
    "read_label_counts",
    "read_label_names",
    "read_target",
    "register_format",
]
