"""Values of single labels: which labels a model misses, and which it suggests wrongly."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from typing import Any

import torch
from torch import Tensor

from tailmetrics.report.inert import in_cell

COUNTS = ("count", "support", "predicted", "hits")
"""What ``TopKCollection.per_label`` counts; the other columns are values."""


@dataclass(frozen=True, eq=False)
class LabelTable:
    """What is known of each label, as ``TopKCollection.per_label()`` returns it.

    Attributes:
        columns: Vectors (L,): ``count`` in training, ``support``, ``predicted`` and ``hits`` in what was evaluated
            (behind the last two ``@k`` where there are several cut-offs), and the values by key.
        names: Name of each label; None where labels are numbers.
        buckets: Shape (L,): the bucket of each label, an index into ``bucket_names``; None without buckets.
        bucket_names: Head first.
    """

    columns: Mapping[str, Tensor]
    names: Sequence[str] | None = None
    buckets: Tensor | None = None
    bucket_names: Sequence[str] = ()

    @property
    def cuts(self) -> list[str]:
        """What stands behind ``hits``: nothing, or ``@5`` and so on for several cut-offs."""
        return [name.removeprefix("hits") for name in self.columns if name.partition("@")[0] == "hits"]

    @property
    def values(self) -> list[str]:
        """Keys of the values, such as ``recall@10``."""
        return [name for name in self.columns if name.partition("@")[0] not in COUNTS]

    def missed(self, cut: str) -> Tensor:
        """Return how often each label was relevant and not predicted, shape (L,)."""
        return self.columns["support"] - self.columns[f"hits{cut}"]

    def wrong(self, cut: str) -> Tensor:
        """Return how often each label was predicted and not relevant, shape (L,)."""
        return self.columns[f"predicted{cut}"] - self.columns[f"hits{cut}"]

    @property
    def deepest(self) -> str:
        """The cut-off by which labels are ordered: the last one."""
        return self.cuts[-1]

    @cached_property
    def by_misses(self) -> list[int]:
        """The labels that were relevant or predicted, the most often missed first, then the lower id."""
        met = self.columns["support"] > 0
        for cut in self.cuts:
            met = met | (self.columns[f"predicted{cut}"] > 0)
        order = self.missed(self.deepest).sort(descending=True, stable=True).indices
        found: list[int] = order[met[order]].tolist()
        return found

    def most_missed(self, number: int) -> list[int]:
        """Return the labels that were missed most often: at most ``number`` of each bucket, or of all without one."""
        missed = self.missed(self.deepest)
        found: dict[int, list[int]] = {}
        for label in self.by_misses:
            if missed[label] > 0:
                found.setdefault(self._bucket(label), []).append(label)
        return [label for bucket in sorted(found) for label in found[bucket][:number]]

    def most_wrong(self, number: int) -> list[int]:
        """Return the labels that were suggested most often where they are not relevant."""
        wrong = self.wrong(self.deepest)
        order = wrong.sort(descending=True, stable=True).indices[:number]
        found: list[int] = order[wrong[order] > 0].tolist()
        return found

    def header(self) -> list[str]:
        """Return the names of the cells of a line."""
        counts = [f"{what}{cut}" for cut in self.cuts for what in ("predicted", "hits", "missed", "wrong")]
        name = ["name"] if self.names is not None else []
        bucket = ["bucket"] if self.buckets is not None else []
        count = ["count"] if "count" in self.columns else []
        return ["label", *name, *bucket, *count, "support", *counts, *self.values]

    def record(self, label: int) -> dict[str, Any]:
        """Return what is known of a label, by the names of the columns."""
        found: dict[str, Any] = {"label": label}
        if self.names is not None:
            found["name"] = self.names[label]
        if self.buckets is not None:
            found["bucket"] = self.bucket_names[self._bucket(label)]
        for cut in self.cuts:
            found |= {
                f"missed{cut}": _number(self.missed(cut)[label]),
                f"wrong{cut}": _number(self.wrong(cut)[label]),
            }
        found |= {name: _number(column[label]) for name, column in self.columns.items()}
        return {name: found[name] for name in self.header()}

    def csv(self) -> str:
        """Return a line for each label that was relevant or predicted, the most often missed first."""
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        header = self.header()
        writer.writerow(header)
        writer.writerows(zip(*(self._cells(name) for name in header), strict=True))
        return text.getvalue()

    def _cells(self, name: str) -> Iterator[object]:
        """Yield the cells of a column of the whole table."""
        labels = self.by_misses
        if name == "label":
            yield from labels
        elif name == "name" and self.names is not None:
            yield from (in_cell(self.names[label]) for label in labels)
        elif name == "bucket":
            yield from (in_cell(self.bucket_names[self._bucket(label)]) for label in labels)
        else:
            stem, at, cut = name.partition("@")
            derived = {"missed": self.missed, "wrong": self.wrong}.get(stem)
            column = self.columns[name] if derived is None else derived(at + cut)
            found = column[torch.tensor(labels, dtype=torch.int64)].tolist()
            yield from ("" if isinstance(value, float) and math.isnan(value) else _number(value) for value in found)

    def _bucket(self, label: int) -> int:
        return 0 if self.buckets is None else int(self.buckets[label])


def _number(value: Any) -> int | float:
    """Return a count as a whole number where it is one, a value as it is."""
    found = value.item() if isinstance(value, Tensor) else value
    return found if isinstance(found, int) else float(found)
