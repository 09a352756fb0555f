"""Scores and ids that can be read, but may mean something else: said once, with what to pass instead.

Only a sample of the first batch is read, never on a device.
"""

from __future__ import annotations

import sys
from typing import Any
from warnings import warn

import numpy as np
import torch
from torch import Tensor

from tailmetrics._checks import shape_of
from tailmetrics.ranking._context import Context
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._tensors import as_tensor

FIRST_CELLS = 64
"""Cells of the first row that are read of any scores; more are read only if these are all whole numbers."""

SAMPLED_CELLS = 2**16
"""Cells that are read at most, in whole rows, but at least one row: a tenth of a millisecond."""

SWAPPED = "if preds and target are swapped, pass the scores first: update(preds, target)"


def warn_of_scores(context: Context, scores: Tensor, target: Any) -> None:
    """Warn if dense scores are 0 and 1, as decisions and targets are, or the numbers 0 to L - 1, as ranks are.

    Args:
        context: Who asks.
        scores: Shape (N, L), or (n,) of flat queries.
        target: As it was given.
    """
    sample = _first_rows(context.caller, scores, context.row_mask)
    if sample is None or not _is_whole(sample[:1, :FIRST_CELLS]) or not _is_whole(sample):
        return
    if _holds_zeros_and_ones(sample[sample > -torch.inf]):
        known = _first_rows(context.caller, target, context.row_mask)
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
    sample = _first_rows(context.caller, ids, context.row_mask) if ids.shape[1] > 1 else None
    if sample is None or context.num_labels not in (None, ids.shape[1]) or not _is_permutation(sample):
        return
    if context.num_labels is not None or bool((sample != sample[0]).any()):
        warn_outside(
            f"{context.caller}: preds, {shape_of(ids)}, hold each number from {int(sample.min())} to "
            f"{int(sample.max())} once in a row and are read as label ids, best first. If these are ranks of the "
            "labels, pass -preds.float(); if they are scores, pass preds.float(); if they are ids, "
            "Ranking.from_ids(preds, ...) takes them as such."
        )


def warn_of_probabilities(caller: str, scores: Tensor, row_mask: Tensor | None) -> None:
    """Warn if dense scores (N, L), to which softmax is applied, are its result."""
    sample = _first_rows(caller, scores, row_mask)
    if sample is None or sample.shape[1] < 2:
        return
    allowed = 1e-3 if sample.dtype in (torch.float32, torch.float64) else 2e-2  # sums of 16-bit numbers are rough
    inside = bool(((sample >= 0) & (sample <= 1)).all())
    if inside and bool(((sample.sum(dim=1, dtype=torch.float64) - 1).abs() < allowed).all()):
        warn_outside(
            f"{caller}: preds, {shape_of(scores)}, lie between 0 and 1 and add up to 1 in each row, as probabilities "
            "do, but are read as scores, whose softmax are the probabilities. If these are probabilities, pass "
            "preds.log()."
        )


def warn_of_logits(caller: str, scores: Tensor, row_mask: Tensor | None, thresholds: list[float | Tensor]) -> None:
    """Warn if scores (N, L) or (N, C) lie outside of [0, 1], but thresholds inside of it."""
    limits = torch.cat([torch.as_tensor(threshold).reshape(-1).to(torch.float64) for threshold in thresholds])
    sample = _first_rows(caller, scores, row_mask)
    if sample is None or sample.dtype == torch.bool or not bool(((limits > 0) & (limits < 1)).any()):
        return
    if bool(((sample < 0) | (sample > 1))[sample.isfinite()].any()):
        warn_outside(
            f"{caller}: preds, {shape_of(scores)}, hold scores below 0 or above 1, as logits are, but a threshold lies "
            "between. Scores are compared as they are. If the threshold is a probability, pass preds.sigmoid()."
        )


def _first_rows(caller: str, value: Any, row_mask: Tensor | None) -> Tensor | None:
    """Return the first rows that count, a vector as one row; None where there are none, or none may be read."""
    if not (isinstance(value, (Tensor, np.ndarray)) and value.ndim in (1, 2)):
        return None
    if isinstance(value, Tensor) and (value.layout != torch.strided or not kernels_for(value.device).reads):
        return None
    value = value[None] if value.ndim == 1 else value
    rows = max(1, SAMPLED_CELLS // max(1, value.shape[1]))
    sample = as_tensor(caller, "target", value[:rows]).detach()
    if row_mask is not None and len(row_mask) == len(value):
        sample = sample[row_mask[:rows]]
    return sample if sample.numel() else None


def _is_whole(sample: Tensor) -> bool:
    return not sample.is_floating_point() or bool((sample == sample.round()).all())


def _holds_zeros_and_ones(values: Tensor) -> bool:
    """Whether there are both, and nothing else."""
    ones = values == 1
    return bool((ones | (values == 0)).all()) and bool(ones.any()) and not bool(ones.all())


def _is_permutation(sample: Tensor) -> bool:
    """Whether there are several columns, and each row holds 0 to L - 1, or each row 1 to L."""
    if sample.shape[1] < 2:
        return False
    ordered = sample.sort(dim=1).values.to(torch.int64)
    return bool((ordered - ordered[:1, :1] == torch.arange(sample.shape[1])).all()) and int(ordered[0, 0]) in (0, 1)


def warn_outside(text: str) -> None:
    """Warn at the line of the first caller outside the library and torch."""
    warn(text, stacklevel=_levels_inside())


def _levels_inside() -> int:
    """Return how many frames lie between :func:`warn_outside` and the first caller outside the library and torch."""
    frame, levels = sys._getframe(2), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("tailmetrics.", "torch")):
        frame, levels = frame.f_back, levels + 1
    return levels
