"""What is warned of: inputs that may mean something else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from warnings import warn

import torch
from torch import Tensor

from tailmetrics._arguments import shape_of
from tailmetrics.ranking._device import is_compiling
from tailmetrics.ranking._inputs import Context

FIRST_CELLS = 64
"""Cells of the first row that are read of any scores; more are read only if these are all whole numbers."""

SAMPLED_CELLS = 2**16
"""Cells that are read at most, in whole rows, but at least one row: a tenth of a millisecond."""

SWAPPED = "if preds and target are swapped, pass the scores first: update(preds, target)"


def warn_of_scores(context: Context, scores: Tensor, target: Tensor) -> None:
    """Warn if dense scores are 0 and 1, as decisions and targets are, or the numbers 0 to L - 1, as ranks are.

    Args:
        context: Whose ids.
        scores: Shape (N, L), or (n,) of flat queries.
        target: The target that came with them.
    """
    sample = first_rows(context, scores)
    if sample is None or not _is_whole(sample[:1, :FIRST_CELLS]) or not _is_whole(sample):
        return
    retrieved = sample[sample > -torch.inf]
    ones = retrieved == 1
    if bool((ones | (retrieved == 0)).all()) and bool(ones.any()) and not bool(ones.all()):  # both, and nothing else
        known = first_rows(context, target)
        if known is None or known.shape != sample.shape or bool((sample != known).any()):  # not predicted by itself
            warn_outside(
                f"{context.caller}: preds, {shape_of(scores)}, hold only 0 and 1, so that the labels of a row are tied "
                "and the lower id is ranked first. If these are decisions, pass the scores behind them, or "
                f"preds.bool() to a metric with a threshold, such as F1AtThreshold; {SWAPPED}."
            )
    elif scores.ndim == 2 and _is_permutation(sample):
        warn_outside(
            f"{context.caller}: preds, {shape_of(scores)}, hold each number from {int(sample.min())} to "
            f"{int(sample.max())} once in a row, as ranks do, and are read as scores: the largest is best. If these "
            "are ranks of the labels, pass -preds; if they are label ids, best first, pass preds.long(); if they are "
            "scores, Ranking.from_scores(preds, ...) takes them as such."
        )


def warn_of_ids(context: Context, ids: Tensor) -> None:
    """Warn if ranked ids are the numbers 0 to K - 1 in each row, as a rank for each label is."""
    sample = first_rows(context, ids) if ids.shape[1] > 1 else None
    if sample is None or context.num_labels not in (None, ids.shape[1]) or not _is_permutation(sample):
        return
    if context.num_labels is not None or bool((sample != sample[0]).any()):
        warn_outside(
            f"{context.caller}: preds, {shape_of(ids)}, hold each number from {int(sample.min())} to "
            f"{int(sample.max())} once in a row and are read as label ids, best first. If these are ranks of the "
            "labels, pass -preds.float(); if they are scores, pass preds.float(); if they are ids, "
            "Ranking.from_ids(preds, ...) takes them as such."
        )


def warn_of_padding(caller: str, labels: Tensor, tokens: int, row_mask: Tensor | None, ignored: int | None) -> None:
    """Warn if most sequences end in a run of one same label, of which there is hardly any elsewhere, as padding does.

    Args:
        caller: The name that the warning begins with.
        labels: Shape (B·T,), the label of each token; other shapes, and labels on a GPU, are not looked at.
        tokens: T.
        row_mask: Shape (B·T,), bool; the tokens that count, None for all.
        ignored: The label of tokens that do not count.
    """
    known = labels.is_cpu and (row_mask is None or row_mask.is_cpu)
    if labels.ndim != 1 or labels.is_floating_point() or not known or is_compiling() or tokens < 2:
        return
    labels = labels if row_mask is None else labels.where(row_mask, -1)
    sequences = labels[: len(labels) // tokens * tokens].reshape(-1, tokens)[: max(1, SAMPLED_CELLS // tokens)]
    if len(sequences) < 4:  # two or three may end alike by chance
        return
    label = int(sequences[:, -1].mode().values)
    same = sequences == label
    run = same.flip(1).cumprod(1).sum(1)  # at the end of each sequence
    inside, others = int(same.sum() - run.sum()), int(sequences.numel() - run.sum())
    # at most 1 % of all other tokens: a frequent class, such as "no entity", is anywhere
    if label < 0 or label == ignored or 2 * int((run > 1).sum()) <= len(run) or 100 * inside > others or not others:
        return
    warn_outside(
        f"{caller}: most sequences end in a run of label {label}, which is hardly anywhere else, as padding is. It "
        "counts as a label that was to be predicted. If it is padding, write -100 there (padding_value=-100) and make "
        f"the metrics with ignore_index=-100; ignore_index={label} would leave out every row of label {label}."
    )


def first_rows(context: Context, value: Tensor) -> Tensor | None:
    """Return the first rows that count, for a check of values; a vector is one row.

    None if no row counts, or if reading values would make a device wait.
    """
    if value.ndim not in (1, 2) or value.layout != torch.strided or not context.kernels.reads:
        return None
    value = value[None] if value.ndim == 1 else value
    sample, row_mask = value[: max(1, SAMPLED_CELLS // max(1, value.shape[1]))], context.row_mask
    if row_mask is not None and len(row_mask) == len(value):
        sample = sample[row_mask[: len(sample)]]
    return sample if sample.numel() else None


def _is_whole(sample: Tensor) -> bool:
    return not sample.is_floating_point() or bool((sample == sample.round()).all())


def _is_permutation(sample: Tensor) -> bool:
    """Whether there are several columns, and each row holds 0 to L - 1, or each row 1 to L."""
    if sample.shape[1] < 2:
        return False
    ordered = sample.sort(dim=1).values.to(torch.int64)
    return bool((ordered - ordered[:1, :1] == torch.arange(sample.shape[1])).all()) and int(ordered[0, 0]) in (0, 1)


READ_FROM: ContextVar[str] = ContextVar("READ_FROM", default="preds")
"""What warnings call the scores of a batch: the argument, or the file that they were read from."""


@contextmanager
def read_from(source: str) -> Iterator[None]:
    """Call the scores by the name of their source in warnings."""
    token = READ_FROM.set(source)
    try:
        yield
    finally:
        READ_FROM.reset(token)


KEPT_WARNINGS: ContextVar[list[str] | None] = ContextVar("KEPT_WARNINGS", default=None)
"""Where warnings of a batch are kept, too, so that a report can say them."""


INSIDE = ("tailmetrics.", "torch", "functools")


def warn_outside(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the first caller outside the library, torch and the properties of functools."""
    kept = KEPT_WARNINGS.get()
    if kept is not None:
        kept.append(text)
    frame, levels = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, levels = frame.f_back, levels + 1
    warn(text, category, stacklevel=levels)
