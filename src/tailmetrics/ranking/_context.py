"""What travels beside the data while a batch is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import Tensor

from tailmetrics.ranking._kernels import PLAIN, Kernels

Duplicates: TypeAlias = Literal["error", "first"]


@dataclass(frozen=True)
class Context:
    """Who asks for a batch to be read, and what holds for each of its arguments.

    Attributes:
        caller: The name that errors begin with.
        num_labels: L, or None when nothing has told it yet.
        validate: Whether values are checked; the checks make a GPU wait.
        row_mask: Shape (N,), bool; the rows that count, None for all.
        duplicates: ``"error"`` refuses an id that stands twice in a row of preds; ``"first"`` keeps its later places
            as misses.
        ignore_index: The label of rows that do not count; None for no such label.
        warns: Whether to warn of a batch that may mean something else: of the first one, in a form that is guessed.
        counts_repeats: Whether a label may stand twice in a row of target ids, as in training data, which are counted.
        kernels: The form in which the batch is read.
    """

    caller: str
    num_labels: int | None = None
    validate: bool = True
    row_mask: Tensor | None = None
    duplicates: Duplicates = "error"
    ignore_index: int | None = None
    warns: bool = False
    counts_repeats: bool = False
    kernels: Kernels = PLAIN

    def counted(self, ids: Tensor) -> Tensor:
        """Return ``ids`` (N, ...) with -1 in the rows that do not count."""
        return ids if self.row_mask is None else ids.where(self.row_mask[:, None], -1)
