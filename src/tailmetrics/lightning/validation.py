"""The validation or test under way: one evaluation per loader, and the values of those that are over."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.data import group_numbers
from tailmetrics.evaluation.evaluating import ALIKE
from tailmetrics.lightning.trainer import SamplerPadding, evaluated_loaders
from tailmetrics.report import Report


def outline(value: Any) -> str:
    """Return what a batch or output is, for a message."""
    return f"a {type(value).__name__}" + (f" with {', '.join(map(repr, value))}" if isinstance(value, dict) else "")


class Evaluations:
    """One evaluation per loader, from the start of a validation or test to its end.

    Args:
        collection: Metrics, of which each loader gets copies.
        keys: Names in what a step returns: of predictions, target, row mask, row groups and numbers of rows.
        more: What else :class:`Evaluation` takes.
    """

    def __init__(self, collection: TopKCollection, keys: Mapping[str, str], **more: Any) -> None:
        self._collection, self._keys, self._more = collection, keys, more
        self._each: list[Evaluation] = []
        self._padding: list[SamplerPadding] = []
        self._device: torch.device | str = "cpu"
        self._of_sequences = False

    def forget(self) -> None:
        """Make new copies at the next start: the metrics were bound anew."""
        self._each = []

    def start(self, trainer: Any, device: torch.device | str, **names: Sequence[str] | None) -> None:
        """Start from nothing, with one evaluation per loader, or one for loaders whose batches come together."""
        loaders = evaluated_loaders(trainer)
        if len(self._each) != len(loaders):
            more: dict[str, Any] = {**self._more, **names}
            self._each = [Evaluation(_copy(self._collection), **more) for _ in loaders]
        self._padding, self._device = [SamplerPadding(loader) for loader in loaders], device
        for evaluation in self._each:
            evaluation.start(device)

    def add(self, outputs: Any, index: int, step: str) -> None:
        """Add what a step returned for a batch of the loader ``index``, but for repeated rows."""
        needed = [self._keys["preds"], self._keys["target"]]
        if not isinstance(outputs, dict) or not {*needed} <= outputs.keys():
            raise ValueError(
                f"HeadToTailReport: {step} returned {outline(outputs)}; return a dict with {needed[0]!r} and "
                f"{needed[1]!r} (the names are arguments of the callback)."
            )
        preds, target, mask, groups, rows = (outputs.get(name) for name in self._keys.values())
        first: Any = preds[0] if isinstance(preds, (tuple, list)) else preds
        kept = self._padding[index].first_seen(first.shape[0], step, mask is not None)
        if kept is not None:
            kept = kept.to(first.device)
            mask = kept if mask is None else kept.reshape(-1, *[1] * (mask.ndim - 1)) & mask  # of rows, or sequences
        self._of_sequences |= first.ndim > 2
        names = self._each[index].row_groups
        if names and groups is None:
            raise ValueError(
                f"HeadToTailReport: {step} returned no {self._keys['row_groups']!r}; return the group of each row "
                f"under this key, a name or number of {', '.join(names)}, None or -1 for none (row_groups= is its "
                "name)."
            )
        groups = group_numbers("HeadToTailReport", groups, names) if names else None
        self._each[index].update(preds, target, mask, row_groups=groups, rows=rows)

    def reports(self, title: str, of: str, notes: tuple[str, ...]) -> list[Report]:
        """Return a report per loader, over all processes, and forget what was added; on every process."""
        several, found = len(self._each) > 1, []
        for index, evaluation in enumerate(self._each):
            report = evaluation.report(f"{title} {index}{of}" if several else f"{title}{of}")
            alike = (
                [f"{ALIKE} The callback does not: save the logits, and evaluate them."]
                if self._of_sequences and report.intervals
                else []
            )
            found.append(replace(report, notes=(*report.notes, *alike, *notes)))
            evaluation.start(self._device)
        return found


def _copy(collection: TopKCollection) -> TopKCollection:
    """Return a copy with the same process groups: those cannot be copied."""
    groups = (metric.process_group for metric in collection.members().values())
    return deepcopy(collection, {id(group): group for group in groups if group is not None})


def write_history(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a table with one line per validation and loader, as a whole or not at all; NaN is an empty cell."""
    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("w", encoding="utf-8", newline="") as file:
        columns = dict.fromkeys(name for row in history for name in row)
        table = csv.DictWriter(file, list(columns), lineterminator="\n")
        table.writeheader()
        table.writerows({name: "" if cell != cell else cell for name, cell in row.items()} for row in history)
    os.replace(unfinished, path)
