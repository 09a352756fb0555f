"""The evaluation of one loader: what steps return goes in, a report comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.notes import ON_SEQUENCES
from tailmetrics.evaluation.row_groups import group_numbers
from tailmetrics.lightning.split_rows import UNSPLIT, SamplerPadding, UnsplitCheck
from tailmetrics.lightning.trainer import outline
from tailmetrics.report import Report


@dataclass(frozen=True)
class StepKeys:
    """The keys of the parts of a batch in the output of a step."""

    preds: str
    target: str
    row_mask: str
    row_groups: str
    row_ids: str


class LoaderEvaluation:
    """The evaluation of one loader, from the start of a validation or test to its end.

    Args:
        evaluation: The evaluation, whose metrics are those of this loader alone.
        keys: The keys in the output of a step.
        loader: The loader; None if a step gets batches of several loaders.
        num_processes: The number of processes that evaluate.

    Attributes:
        unsplit_check: Finds out whether several processes rank the same rows.
        is_unsplit: Whether they do.
    """

    def __init__(
        self, evaluation: Evaluation, keys: StepKeys, loader: Any, num_processes: int
    ) -> None:
        self.evaluation = evaluation
        self.unsplit_check = UnsplitCheck(loader, num_processes)
        self.is_unsplit = False
        self._keys = keys
        self._padding = SamplerPadding(loader)
        self._rows: Any = None
        self._has_sequences = False
        self._has_output = False
        self._has_none = False

    def start(
        self,
        loader: Any,
        device: torch.device | str,
        *,
        writes_rows: bool = False,
        label_names: Sequence[str] | None = None,
        row_names: Sequence[str] | None = None,
    ) -> None:
        """Start without rows.

        Args:
            loader: The loader; None if a step gets batches of several loaders.
            device: The device of the states.
            writes_rows: Whether the values of each row are kept in a file of a
                temporary folder.
            label_names: The name of each label.
            row_names: The name of each row by its number.
        """
        self._padding = SamplerPadding(loader)
        self._has_output = False
        self._has_none = False
        self.evaluation.label_names = label_names
        self.evaluation.start(device)
        self.discard_rows()
        if writes_rows:
            from tailmetrics.lightning.rows import LoaderRows  # needs pyarrow

            self._rows = LoaderRows(self.evaluation, loader, row_names)

    def add(self, output: Any, step: str) -> None:
        """Add the output of a step, without rows that a distributed sampler repeats.

        Args:
            output: A dict with the keys of the callback; None ranks nothing.
            step: The name of the step, for errors.
        """
        if output is None:
            self._padding.skip(step)
            self._has_none = True
            return
        keys = self._keys
        if (
            not isinstance(output, dict)
            or keys.preds not in output
            or keys.target not in output
        ):
            raise ValueError(
                f"HeadToTailReport: {step} returned {outline(output)}; return a dict "
                f"with {keys.preds!r} and {keys.target!r} (the names are arguments of "
                "the callback), or None to rank nothing."
            )
        preds, target = output[keys.preds], output[keys.target]
        scores: Any = preds
        # scores and ids of candidates
        if isinstance(preds, (tuple, list)) and hasattr(preds[0], "shape"):
            scores = preds[0]
        if not hasattr(scores, "shape") and not hasattr(scores, "__len__"):
            raise TypeError(
                f"HeadToTailReport: {step} returned {outline(scores)} as "
                f"{keys.preds!r}; return scores, ids or candidates, as "
                "tailmetrics.rank takes them."
            )
        row_mask = self._row_mask(scores, output.get(keys.row_mask), step)
        row_groups = self._row_groups(output.get(keys.row_groups), step)

        ranking = self.evaluation.update(preds, target, row_mask, row_groups=row_groups)
        self._has_output = True
        self._has_sequences |= getattr(scores, "ndim", 1) > 2
        self.unsplit_check.read_batch(ranking)
        if self._rows is not None and ranking.num_rows:
            self._rows.add(ranking, output.get(keys.row_ids))

    def _row_mask(self, scores: Any, row_mask: Any, step: str) -> Any:
        """Return a mask that is False for rows that a distributed sampler repeats.

        Rows that the step masks are False too. The mask is None if every row counts.
        With a table of rows, each batch has a mask: all need the same columns.
        """
        num_rows = scores.shape[0] if hasattr(scores, "shape") else len(scores)
        device = getattr(scores, "device", "cpu")
        is_first = self._padding.first_seen(num_rows, step, row_mask is not None)
        if is_first is None:
            if row_mask is None and self._rows is not None:
                return torch.ones(num_rows, dtype=torch.bool, device=device)
            return row_mask
        is_first = is_first.to(device)
        if row_mask is None:
            return is_first
        # a mask of sequences may be one of their tokens
        token_axes = [1] * (row_mask.ndim - 1)
        return is_first.reshape(-1, *token_axes) & row_mask

    def _row_groups(self, row_groups: Any, step: str) -> Any:
        names = self.evaluation.row_groups
        if not names:
            return None
        if row_groups is None:
            raise ValueError(
                f"HeadToTailReport: {step} returned no {self._keys.row_groups!r}; "
                "return the group of each row under this key, a name or number of "
                f"{', '.join(names)}, None or -1 for none (row_groups= is its name)."
            )
        return group_numbers("HeadToTailReport", row_groups, names)

    @property
    def was_left_out(self) -> bool:
        """Whether each step of this process returned None."""
        return self._has_none and not self._has_output

    def report(self, title: str, notes: Sequence[str]) -> Report:
        """Return the report over all processes, and close the table of rows.

        Call this method in every process.
        """
        report = self.evaluation.report(title)
        own_notes: list[str] = []
        if self._has_sequences and report.intervals:
            own_notes.append(
                f"{ON_SEQUENCES} The callback does not: save the logits, and "
                "evaluate them."
            )
        if self.is_unsplit:
            own_notes.append(UNSPLIT)
        report = replace(report, notes=(*report.notes, *own_notes, *notes))
        if self._rows is not None:
            self._rows.close(report)
        return report

    def write_rows(self, path: Path) -> None:
        """Copy the table of rows to a path, if there is one."""
        if self._rows is not None:
            self._rows.write(path)

    def discard_rows(self) -> None:
        """Delete the table of rows."""
        if self._rows is not None:
            self._rows.discard()
        self._rows = None


def find_unsplit_loaders(
    trainer: Any, evaluations: Sequence[LoaderEvaluation]
) -> list[int]:
    """Return the indexes of loaders of which several processes ranked the same rows.

    Call this function in every process. It takes one collective, and closes the checks
    of the loaders that several processes have ranked.
    """
    checks = [evaluation.unsplit_check for evaluation in evaluations]
    if not any(check.is_open for check in checks):
        return []
    device = trainer.strategy.root_device
    pairs = torch.zeros(len(checks), 2, dtype=torch.int64, device=device)
    for index, check in enumerate(checks):
        if check.is_open and check.number is not None:
            pairs[index, 0] = 1
            pairs[index, 1] = check.number.to(device)

    gathered = trainer.strategy.all_gather(pairs).tolist()
    unsplit = []
    for index, check in enumerate(checks):
        numbers = [process[index][1] for process in gathered if process[index][0]]
        if len(set(numbers)) < len(numbers):
            unsplit.append(index)
        if len(numbers) > 1:
            check.is_open = False
    return unsplit
