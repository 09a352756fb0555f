"""The validation or test under way: one evaluation per loader, and the values of those that are over."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.evaluating import group_numbers
from tailmetrics.lightning.trainer import SamplerPadding, evaluated_loaders
from tailmetrics.report import Report


@dataclass(frozen=True)
class Keys:
    """Names under which a step returns predictions, target and, where it has them, what is known of rows."""

    preds: str
    target: str
    row_mask: str
    row_groups: str
    row_ids: str

    def read(self, outputs: Any, step: str) -> tuple[Any, Any, Any, Any, Any]:
        """Return predictions, target, row mask, row groups and numbers of rows (None where there are none)."""
        if not isinstance(outputs, dict) or self.preds not in outputs or self.target not in outputs:
            raise ValueError(
                f"HeadToTailReport: {step} returned {outline(outputs)}; return a dict with {self.preds!r} and "
                f"{self.target!r} (the names are arguments of the callback)."
            )
        beside = (outputs.get(name) for name in (self.row_mask, self.row_groups, self.row_ids))
        return outputs[self.preds], outputs[self.target], *beside


def outline(value: Any) -> str:
    """Return what a batch or output is, for a message."""
    if isinstance(value, dict):
        return f"a dict with {', '.join(map(repr, value)) or 'nothing in it'}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "nothing" if value is None else f"a {type(value).__name__}"


class Evaluations:
    """One evaluation per loader, from the start of a validation or test to its end.

    Args:
        collection: Metrics, of which each loader gets copies.
        keys: Names in what a step returns.
        more: What else :class:`Evaluation` takes.
    """

    def __init__(self, collection: TopKCollection, keys: Keys, **more: Any) -> None:
        self._collection, self._keys, self._more = collection, keys, more
        self._each: list[Evaluation] = []
        self._padding: list[SamplerPadding] = []
        self._device: torch.device | str = "cpu"

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

    def add(self, outputs: Any, index: int, step: str, check_width: Callable[[Tensor], None]) -> None:
        """Add what a step returned for a batch of the loader ``index``, but for repeated rows."""
        preds, target, mask, groups, rows = self._keys.read(outputs, step)
        first = preds[0] if isinstance(preds, (tuple, list)) else preds
        if first is preds and isinstance(preds, Tensor):
            check_width(preds)
        kept = self._padding[index].first_seen(first.shape[0], step, mask is not None)
        if kept is not None:
            mask = kept.to(first.device) if mask is None else kept.to(first.device) & mask
        groups = self._groups(groups, index, step)
        self._each[index].update(preds, target, mask, row_groups=groups, rows=rows)

    def _groups(self, groups: Any, index: int, step: str) -> Any:
        """Return the number of the group of each row; what a step returns beside is left out where no metric asks."""
        names = self._each[index].row_groups
        if not names:
            return None
        if groups is None:
            raise ValueError(
                f"HeadToTailReport: {step} returned no {self._keys.row_groups!r}; return the group of each row under "
                f"this key, a name or number of {', '.join(names)}, None or -1 for none (row_groups= is its name)."
            )
        return group_numbers("HeadToTailReport", groups, names)

    def reports(self, title: str, of: str, notes: tuple[str, ...]) -> list[Report]:
        """Return a report per loader, over all processes, and forget what was added; on every process."""
        several, found = len(self._each) > 1, []
        for index, evaluation in enumerate(self._each):
            report = evaluation.report(f"{title} {index}{of}" if several else f"{title}{of}")
            found.append(replace(report, notes=(*report.notes, *notes)))
            evaluation.start(self._device)
        return found


def _copy(collection: TopKCollection) -> TopKCollection:
    """Return a copy with the same process groups: those cannot be copied."""
    groups = (metric.process_group for metric in collection.members().values())
    return deepcopy(collection, {id(group): group for group in groups if group is not None})


class History:
    """The values of every validation of a fit: rows of epoch, step, number of the loader and values, oldest first."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, epoch: int, step: int, loader: int, values: Mapping[str, float]) -> None:
        """Add a validation; it replaces one of the same loader at the same step."""
        self.rows = [row for row in self.rows if (row["step"], row["loader"]) != (step, loader)]
        self.rows.append({"epoch": epoch, "step": step, "loader": loader, **values})

    def forget_after(self, step: int) -> None:
        """Leave out what lies ahead of where training stands: all of it where training starts anew."""
        self.rows = [row for row in self.rows if row["step"] <= step]

    def write(self, path: Path) -> None:
        """Write a table with one line per validation and loader, as a whole or not at all; NaN is an empty cell."""
        unfinished = path.with_name(f".{path.name}")
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, self._columns(), lineterminator="\n")
            table.writeheader()
            table.writerows({name: "" if cell != cell else cell for name, cell in row.items()} for row in self.rows)
        os.replace(unfinished, path)

    def _columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def state_dict(self) -> dict[str, Any]:
        """Return the history as plain values: names once, then rows."""
        columns = self._columns()
        return {"columns": columns, "rows": [[row.get(name) for name in columns] for row in self.rows]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from the history of a checkpoint."""
        named = (zip(state["columns"], row, strict=True) for row in state["rows"])
        self.rows = [{name: cell for name, cell in row if cell is not None} for row in named]
