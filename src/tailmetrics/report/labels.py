"""Counts and values of single labels, and labels missed for more than bad luck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tailmetrics.report.curves import CurvePoint, local_means
from tailmetrics.report.document import CsvTable
from tailmetrics.report.text import csv_text

if TYPE_CHECKING:
    from tailmetrics.significance.blind_spots import BlindSpots

COUNTS = ("count", "support", "predicted", "hits")
"""The columns of ``TopKCollection.per_label`` with counts; the others hold values."""
TEST_COLUMNS = ("expected", "q")
"""The columns of the tests for blind spots."""


@dataclass(frozen=True)
class BlindSpot:
    """A label that is found significantly less often than others of its bucket.

    Attributes:
        label: The id of the label.
        support: The number of rows in which it is relevant.
        hits: The number of these rows that list it.
        expected: The hits if it were found as often as the other labels of its bucket.
        q: The p-value, corrected for the number of labels.
        name: The name of the label; empty where labels are numbers.
        bucket: The bucket of the label; empty without buckets.
        instead: At most three labels that are most often listed in its place: label,
            name, and number of rows.
    """

    label: int
    support: int
    hits: int
    expected: float
    q: float
    name: str = ""
    bucket: str = ""
    instead: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The counts and values of each label, as of ``TopKCollection.per_label()``.

    Attributes:
        columns: Vectors (L,): ``count`` in training; ``support``, ``predicted`` and
            ``hits`` in the evaluation (the last two end in ``@k`` if there are several
            cut-offs); and the values by key.
        names: Name of each label; None where labels are numbers.
        buckets: Shape (L,): the bucket of each label, an index into ``bucket_names``;
            None without buckets.
        bucket_names: Names of the buckets, head first.
        instead: Blind spot -> labels most often listed in its place, with row counts.
        crowded_support: Shape (L,): how often each label is relevant in rows with more
            than k relevant labels, of which no list finds all. The test for blind spots
            leaves these rows out. None if they were not counted.
        crowded_hits: Shape (L,): how often each label is found in these rows.
        crowded_rows: The number of these rows.
        clustered: Whether rows are drawn in clusters. The test for blind spots takes
            rows as independent, and is not made then.
    """

    columns: Mapping[str, Tensor]
    names: Sequence[str] | None = None
    buckets: Tensor | None = None
    bucket_names: Sequence[str] = ()
    instead: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    clustered: bool = False
    crowded_support: Tensor | None = None
    crowded_hits: Tensor | None = None
    crowded_rows: int = 0

    @cached_property
    def cuts(self) -> list[str]:
        """The endings of the columns ``hits``: "", or ``@5`` and so on.

        With several cut-offs, the deepest is the last.
        """
        cuts = []
        for name in self.columns:
            cut = name.removeprefix("hits")
            if (
                _stem(name) == "hits"
                and " (" not in name
                and f"predicted{cut}" in self.columns
            ):
                cuts.append(cut)
        return sorted(cuts, key=_depth)

    @cached_property
    def k(self) -> str:
        """The cut-off of the last of :attr:`cuts`, as in names of values.

        It is empty if the names have no cut-off, or several.
        """
        deepest = self.cuts[-1].removeprefix("@")
        if deepest:
            return deepest
        cutoffs = set()
        for name in self.columns:
            if _stem(name) not in COUNTS and " (" not in name:
                cutoffs.add(name.partition("@")[2])
        if len(cutoffs) != 1:
            return ""
        return cutoffs.pop()

    @cached_property
    def all_columns(self) -> dict[str, Tensor]:
        """The columns in the order of the table, with ``missed`` and ``wrong``.

        ``missed`` is support - hits, and ``wrong`` is predicted - hits.
        """
        columns = {
            name: self.columns[name]
            for name in ("count", "support")
            if name in self.columns
        }
        for cut in self.cuts:
            predicted, hits = (
                self.columns[f"predicted{cut}"],
                self.columns[f"hits{cut}"],
            )
            columns[f"predicted{cut}"] = predicted
            columns[f"hits{cut}"] = hits
            columns[f"missed{cut}"] = self.columns["support"] - hits
            columns[f"wrong{cut}"] = predicted - hits
        for name, column in self.columns.items():
            if _stem(name) not in COUNTS:
                columns[name] = column
        if self.tests is not None:
            for name in TEST_COLUMNS:
                columns[name] = torch.from_numpy(getattr(self.tests, name))
        return columns

    @cached_property
    def tests(self) -> BlindSpots | None:
        """The tests for blind spots, at the deepest cut-off.

        None without counts of hits, with clustered rows, or without SciPy.
        """
        if not self.cuts or "support" not in self.columns:
            return None
        hits = self.columns[f"hits{self.cuts[-1]}"]
        if hits.is_floating_point() or self.clustered:
            return None  # weighted rows, and rows that are alike, are no trials
        if find_spec("scipy") is None:
            return None
        from tailmetrics.significance.blind_spots import blind_spots

        hits, support = self._trials()
        return blind_spots(hits, support, self.buckets)

    @cached_property
    def bucket_places(self) -> Tensor:
        """The bucket of each label, an index into the names.

        Without buckets, the index is 0 for all labels.
        """
        if self.buckets is None:
            return torch.zeros_like(self.columns["support"], dtype=torch.int64)
        return self.buckets

    def _trials(self) -> tuple[Tensor, Tensor]:
        """Return hits and support of each label, without crowded rows.

        A list cannot find all relevant labels of a crowded row.
        """
        hits, support = self.columns[f"hits{self.cuts[-1]}"], self.columns["support"]
        if self.crowded_support is None or self.crowded_hits is None:
            return hits, support
        return hits - self.crowded_hits, support - self.crowded_support

    @cached_property
    def blind_spots(self) -> list[BlindSpot]:
        """The labels found significantly less often than others of their bucket.

        The label with the least q is first.
        """
        if self.tests is None:
            return []
        return [self._blind_spot(label) for label in self.tests.listed.tolist()]

    def _blind_spot(self, label: int) -> BlindSpot:
        columns = self.all_columns
        hits, support = self._trials()
        bucket = [*self.bucket_names, ""][int(self.bucket_places[label])]
        instead = []
        for other, rows in self.instead.get(label, ()):
            instead.append({"label": other, "name": self._name(other), "rows": rows})
        return BlindSpot(
            label,
            support=int(support[label]),
            hits=int(hits[label]),
            expected=float(columns["expected"][label]),
            q=float(columns["q"][label]),
            name=self._name(label),
            bucket=bucket,
            instead=instead,
        )

    def _name(self, label: int) -> str:
        return "" if self.names is None else self.names[label]

    def rows_left_out(self) -> str:
        """Return in words how many rows tests for blind spots omit; empty if none."""
        if not self.crowded_rows:
            return ""
        return (
            f"{self.crowded_rows:,} rows with more than {self.k} relevant labels are "
            f"left out, because no list of {self.k} holds them all"
        )

    def too_few_rows(self) -> str:
        """Return in words how many labels have too few rows to be blind spots.

        The numbers are by bucket, and empty if no label has too few rows.

        A label that is alone in its bucket does not lack rows: there is no other label
        to compare it with.
        """
        if self.tests is None:
            return ""
        buckets = self.bucket_places.numpy()
        texts = []
        for place, name in enumerate(self.bucket_names or ("all",)):
            few = self.tests.too_few_rows[buckets == place]
            if len(few) > 1 and few.any():
                texts.append(f"{few.sum():,} of {len(few):,} labels in {name}")
        if not texts:
            return ""
        return f"too few rows to tell: {', '.join(texts)}"

    @cached_property
    def by_misses(self) -> list[int]:
        """The labels that were relevant or predicted, the most often missed first.

        Of labels missed equally often, the lower id is first.
        """
        counts = [self.columns["support"]]
        counts += [self.columns[f"predicted{cut}"] for cut in self.cuts]
        occurs = torch.stack(counts).any(0)
        order = (
            self.all_columns[f"missed{self.cuts[-1]}"]
            .sort(descending=True, stable=True)
            .indices
        )
        labels: list[int] = order[occurs[order]].tolist()
        return labels

    def most(self, what: str, number: int, from_each_bucket: bool = False) -> list[int]:
        """Return the ``number`` labels most often ``"missed"`` or ``"wrong"``.

        If ``from_each_bucket``, return so many of each bucket.
        """
        column = self.all_columns[f"{what}{self.cuts[-1]}"]
        order = column.sort(descending=True, stable=True).indices

        order = order[column[order] > 0]
        if not from_each_bucket:
            return list(order[:number].tolist())

        labels = []
        buckets = self.bucket_places[order]
        for bucket in sorted(set(buckets.tolist())):
            labels += order[buckets == bucket][:number].tolist()
        return labels

    def cells(self, labels: Sequence[int]) -> dict[str, list[Any]]:
        """Return the columns of the table for some labels."""
        places = torch.tensor(labels, dtype=torch.int64)
        columns: dict[str, list[Any]] = {"label": list(labels)}
        if self.names is not None:
            columns["name"] = [self.names[label] for label in labels]
        if self.buckets is not None:
            columns["bucket"] = [
                self.bucket_names[bucket] for bucket in self.buckets[places].tolist()
            ]
        for name, column in self.all_columns.items():
            columns[name] = column[places].tolist()
        return columns

    def csv_table(self) -> CsvTable:
        """Return a line for each label that was relevant or predicted.

        The most often missed label is first.
        """
        columns = self.cells(self.by_misses)
        return list(columns), zip(*columns.values(), strict=True)

    def csv(self) -> str:
        """Return :meth:`csv_table` as text."""
        return csv_text(self.csv_table())

    def curves(self, counts: Tensor | None = None) -> dict[str, list[CurvePoint]]:
        """Return local means of each value by training count, weighted by positives.

        Args:
            counts: Training counts, shape (L,), for a table without counts. Without any
                counts there are no curves.
        """
        counts = self.columns.get("count", counts)
        if counts is None:
            return {}
        curves = {}
        for name, column in self.columns.items():
            if _stem(name) in COUNTS:
                continue
            points = local_means(counts, column, self.columns["support"])
            if points:
                curves[name] = points
        return curves


def _depth(cut: str) -> int:
    """Return the cut-off at the end of a column's name; 0 for a threshold or none."""
    number = cut.removeprefix("@")
    if number.isdigit():
        return int(number)
    return 0


def _stem(name: str) -> str:
    """Return a column's name without cut-off and metric, such as ``hits``.

    ``hits@5`` and ``hits (recall_min_gain2@5)`` have this stem.
    """
    return name.partition("@")[0].partition(" (")[0]
