r"""Readers of prediction and target files.

They yield batches for ``metric.update``, in bounded memory, divided among ranks.

The suffix or ``format`` names the format, the names of columns and the user name the
roles; no value decides.

>>> from pathlib import Path
>>> from tempfile import mkdtemp
>>> folder = Path(mkdtemp())
>>> _ = (folder / "scores.xmc").write_text("2 4\n0:0.9 3:0.5\n1:0.7\n")
>>> _ = (folder / "labels.xmc").write_text("2 4\n3:1\n1:1 2:1\n")
>>> dataset = read(folder / "scores.xmc", folder / "labels.xmc")
>>> dataset.num_rows, dataset.num_labels
(2, 4)
>>> [batch.preds[1].tolist() for batch in dataset]
[[[0, 3], [1, -1]]]
"""

from tailmetrics._extras import extra_hint

try:
    from tailmetrics.io.columns import ALIASES
    from tailmetrics.io.dataset import Batch, Dataset, TargetBatch, TargetDataset
    from tailmetrics.io.files import DataFileError
    from tailmetrics.io.formats import FORMATS, Format, register_format
    from tailmetrics.io.forms import Columns, Forms
    from tailmetrics.io.label_files import read_label_counts
    from tailmetrics.io.loading import read, read_label_names, read_target
except ModuleNotFoundError as error:
    hint = extra_hint(error)
    if hint is None:
        raise
    raise ModuleNotFoundError(
        f"tailmetrics.io needs {hint}", name=error.name
    ) from error

__all__ = [
    "ALIASES",
    "FORMATS",
    "Batch",
    "Columns",
    "DataFileError",
    "Dataset",
    "Format",
    "Forms",
    "TargetBatch",
    "TargetDataset",
    "read",
    "read_label_counts",
    "read_label_names",
    "read_target",
    "register_format",
]
