"""One evaluation per loader, from the start of a validation or test to its end."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.row_groups import group_numbers
from tailmetrics.lightning._loaders import evaluated_loaders
from tailmetrics.lightning._repeats import Repeats
from tailmetrics.lightning._steps import Keys
from tailmetrics.lightning._training_labels import TrainingLabels
from tailmetrics.report import Report


class Running:
    """The validation or test under way.

    Args:
        collection: Metrics, of which each loader gets copies.
        keys: Names in what a step returns.
        more: What else :class:`Evaluation` takes.
    """

    def __init__(self, collection: TopKCollection, keys: Keys, **more: Any) -> None:
        self._collection, self._keys, self._more = collection, keys, more
        self._evaluations: list[Evaluation] = []
        self._repeats: list[Repeats] = []
        self._device: torch.device | str = "cpu"

    def forget(self) -> None:
        """Make new copies at the next start: the metrics were bound anew."""
        self._evaluations = []

    def start(self, trainer: Any, device: torch.device | str, **names: Sequence[str] | None) -> None:
        """Start from nothing, with one evaluation per loader, or one for loaders whose batches come together."""
        each = evaluated_loaders(trainer)
        if len(self._evaluations) != len(each):
            more: dict[str, Any] = {**self._more, **names}
            self._evaluations = [Evaluation(_copy(self._collection), **more) for _ in each]
        self._repeats, self._device = [Repeats(loader) for loader in each], device
        for evaluation in self._evaluations:
            evaluation.start(device)

    def add(self, outputs: Any, index: int, step: str, labels: TrainingLabels) -> None:
        """Add what a step returned for a batch of the loader ``index``, but for repeated rows."""
        preds, target, mask, groups, rows = self._keys.read(outputs, step)
        first = preds[0] if isinstance(preds, (tuple, list)) else preds
        if first is preds and isinstance(preds, Tensor):
            labels.check_width(preds)
        once = self._repeats[index].once(first.shape[0], step, mask is not None)
        if once is not None:
            mask = once.to(first.device) if mask is None else once.to(first.device) & mask
        groups = self._groups(groups, index, step)
        self._evaluations[index].update(preds, target, mask, row_groups=groups, rows=rows)

    def _groups(self, groups: Any, index: int, step: str) -> Any:
        """Return the number of the group of each row; what a step returns beside is left out where no metric asks."""
        names = self._evaluations[index].row_groups
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
        several, found = len(self._evaluations) > 1, []
        for index, evaluation in enumerate(self._evaluations):
            report = evaluation.report(f"{title} {index}{of}" if several else f"{title}{of}")
            found.append(replace(report, notes=(*report.notes, *notes)))
            evaluation.start(self._device)
        return found


def _copy(collection: TopKCollection) -> TopKCollection:
    """Return a copy with the same process groups: those cannot be copied."""
    groups = (metric.process_group for metric in collection.members().values())
    return deepcopy(collection, {id(group): group for group in groups if group is not None})
