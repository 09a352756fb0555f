"""Writing tables of values per row, as batches come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from tailmetrics.cli.row_table import DENOMINATOR, GROUP, IDENTITY, LABELS, METADATA, NUMERATOR, QUERY, ROW
from tailmetrics.evaluation.accumulating import bucket_rows
from tailmetrics.evaluation.captions import captions_of
from tailmetrics.evaluation.digest import RunDigest
from tailmetrics.evaluation.label_cells import MOST, LabelCells, has_label_cells, spec_of
from tailmetrics.evaluation.row_values import has_row_values, values_of_rows
from tailmetrics.io import Dataset
from tailmetrics.metrics import KForRecall, TopKMetric
from tailmetrics.ranking import Ranking
from tailmetrics.report.formatting import what_buckets_are

BUFFERED_CELLS = 2**21
"""Values collected before they are written, 16 MB: small batches would make many small row groups."""


class RowTableWriter:
    """A table of values per row, written as batches come.

    Leaving the context completes the file.

    Args:
        path: Parquet file to write.
        metrics: The metrics; those without values per row are left out.
        dataset: What is evaluated, for the names of the rows.
        over_all: For each metric by bucket the key of its value over all labels.
        options: What is kept as the identity of the run: the options that its values depend on; None keeps none.
    """

    def __init__(
        self,
        path: Path,
        metrics: Iterable[TopKMetric],
        dataset: Dataset,
        over_all: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._over_all = over_all or {}
        metrics = list(metrics)
        self._metrics: list[Any] = [metric for metric in metrics if has_row_values(metric)]
        averages: list[Any] = [metric for metric in metrics if has_label_cells(metric)]
        # an area reads the scores of all labels of a row
        fit = (one for one in averages if "area" not in spec_of(one) or dataset.num_rows * one.num_labels <= MOST)
        self._over_labels: list[Any] = list(fit)
        self._all: list[Any] = [*self._metrics, *self._over_labels]
        self._groups = next((metric.row_groups for metric in self._all if metric.row_groups), None)
        self._names = dataset.row_names
        self._num_rows = dataset.num_rows
        labels = _label_names(dataset, metrics)
        self._identity = None if options is None else RunDigest(self._all, options, labels, self._names)
        self._path = path
        self._file: Any = None
        self._pending: list[Any] = []
        self._cells = 0

    def __enter__(self) -> RowTableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
            if self._file is not None and self._identity is not None:
                self._file.add_key_value_metadata({IDENTITY: json.dumps(self._identity.entries())})
        if self._file is not None:
            self._file.close()

    def write(self, rows: Tensor, ranking: Ranking) -> None:
        """Add a batch: the numbers of its rows, and their ranking."""
        if self._identity is not None:
            self._identity.update(rows, ranking)
        columns: dict[str, Any] = {}
        if self._names is None:
            columns[ROW] = rows.numpy()
        else:
            columns[QUERY] = [self._names[row] for row in rows.tolist()]
        if self._groups:
            columns[GROUP] = _group_names(ranking, self._groups)
        for metric in self._metrics:
            for key, value in values_of_rows(metric, ranking).items():
                columns.update(_columns(key, value))
        for metric in self._over_labels:
            for k, (lengths, codes) in zip(metric.cutoffs, LabelCells(metric).lists(ranking), strict=True):
                ends = np.concatenate([[0], np.cumsum(lengths)])
                columns[LABELS + metric._key(k)] = pa.LargeListArray.from_arrays(ends, codes)
        table = pa.table(columns)
        self._pending.append(table)
        self._cells += table.num_rows * table.num_columns
        if self._cells >= BUFFERED_CELLS:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.concat_tables(self._pending).replace_schema_metadata({METADATA: json.dumps(self._metadata())})
        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema)
        self._file.write_table(table, row_group_size=table.num_rows)
        self._pending, self._cells = [], 0

    def _metadata(self) -> dict[str, Any]:
        """Return what columns do not tell: the statistic made of them, which way is better, the rows of all ranks."""
        medians = [m for m in self._metrics if isinstance(m, KForRecall) and m.statistic == "median"]
        lower = [m for m in self._metrics if m.higher_is_better is False]
        facts = {"medians": _keys(medians), "lower_is_better": _keys(lower), "num_rows": self._num_rows}
        by_bucket = [metric for metric in self._all if metric.buckets is not None]
        shown = {
            "buckets": self._buckets(),
            "captions": {stem: said for metric in by_bucket for stem, said in captions_of(metric).items()},
            "over_all": dict(self._over_all),
            "what_buckets_are": self._what_buckets_are(),
        }
        return {**facts, "of_groups": self._of_groups(), **shown, "labels": list(self._averages())}

    def _averages(self) -> Iterator[list[Any]]:
        """Yield for each average over labels its key, column, how it is made of codes, bucket and group of rows."""
        for metric in self._over_labels:
            spec = spec_of(metric)
            for name, group in zip((None, *(metric.row_groups or ())), metric.group_keys(), strict=True):
                keys = iter(metric.row_keys(group))
                for k in metric.cutoffs:
                    for bucket in range(len(spec["sizes"])):
                        yield [next(keys), LABELS + metric._key(k), spec, bucket, name]

    def _what_buckets_are(self) -> str:
        """Return the sentence of a report on its buckets; tables of several kinds of buckets have none."""
        kinds = dict.fromkeys(m.bound_buckets for m in self._all if m.bound_buckets is not None)
        found = {what_buckets_are(list(bucket_rows(buckets))) for buckets in kinds}
        return found.pop() if len(found) == 1 else ""

    def _of_groups(self) -> dict[str, list[str]]:
        """Return for each key of a group of rows the key over all rows and the name of the group."""
        found: dict[str, list[str]] = {}
        for metric in self._metrics:
            for name, group in zip(metric.row_groups or (), metric.group_keys()[1:], strict=True):
                pairs = zip(metric.row_keys(group), metric.row_keys(), strict=True)
                found |= {key: [whole, name] for key, whole in pairs}
        return found

    def _buckets(self) -> list[str]:
        """Return the names of all buckets, head first."""
        return list(dict.fromkeys(name for metric in self._all for name in metric._bucket_names))


def _label_names(dataset: Dataset, metrics: Iterable[TopKMetric]) -> Sequence[str] | None:
    """Return the name of each label of the metrics, where labels are names; labels that no file names have a number."""
    names = dataset.label_names
    if names is None:
        return None
    sizes = [len(names), *(metric.num_labels for metric in metrics if metric.num_labels is not None)]
    return [*names, *(f"label {number} of no file" for number in range(len(names), max(sizes)))]


def _keys(metrics: Iterable[TopKMetric]) -> list[str]:
    return [key for metric in metrics for key in list(metric.keys())]


def _columns(key: str, value: Tensor | tuple[Tensor, Tensor]) -> Mapping[str, Any]:
    """Return values as columns, null in rows that do not count."""
    if isinstance(value, tuple):
        return {key + NUMERATOR: _array(value[0]), key + DENOMINATOR: _array(value[1])}
    return {key: _array(value)}


def _group_names(ranking: Ranking, names: Sequence[str]) -> Any:
    """Return the group of each row by name, null for none."""
    assert ranking.rows.groups is not None
    numbers = ranking.rows.groups.cpu().numpy().astype(np.int32)
    indices = pa.array(numbers, pa.int32(), mask=numbers < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string())).cast(pa.string())


def _array(values: Tensor) -> Any:
    array = values.cpu().numpy()
    return pa.array(array, mask=np.isnan(array))
