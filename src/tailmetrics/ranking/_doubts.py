"""Batches that can be read, but may mean something else: said once, with what to pass instead.

Only forms that are guessed are doubted, and only a sample of the first batch is read, never on a device.
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
"""Cells that are read at most, in whole rows, but at least one row."""

LONGEST_LIST = 100
"""Whole numbers in wider rows are rather counts than a list of ids."""

SWAPPED = "if preds and target are swapped, pass the scores first: update(preds, target)"


def doubt_scores(context: Context, scores: Tensor, target: Any, order_matters: bool = True) -> None:
    """Warn if dense scores look like decisions, a target or ids.

    Args:
        context: Who asks.
        scores: Shape (N, L), or (n,) of flat queries.
        target: As it was given.
        order_matters: False where scores are only compared with a threshold.
    """
    sample = _sample(context, scores)
    if sample is None or not _is_whole(sample[:1, :FIRST_CELLS]) or not _is_whole(sample):
        return
    if _holds_zeros_and_ones(sample[sample > -torch.inf]):
        if order_matters and not _explained(sample, _sample(context, target)):
            _warn(
                context,
                f"preds, {shape_of(scores)}, hold only 0 and 1, so that the labels of a row are tied and the lower id "
                "is ranked first. If these are decisions, pass the scores behind them, or preds.bool() to a metric "
                f"with a threshold, such as F1AtThreshold; {SWAPPED}.",
            )
    elif _looks_like_ids(sample) and (not _tells_labels(target) or _is_permutation(sample)):
        _warn(
            context,
            f"preds, {shape_of(scores)}, are whole numbers that stand once in a row, as ids and ranks do, but are read "
            "as a score for each label. If these are label ids, best first, pass preds.long(); if they are ranks of "
            "the labels, pass -preds; if they are scores, Ranking.from_scores(preds, ...) takes them as such.",
        )


def doubt_ids(context: Context, ids: Tensor) -> None:
    """Warn if ranked ids look like a rank or a score for each label."""
    width, num_labels = ids.shape[1], context.num_labels
    sample = _sample(context, ids) if width > 1 else None
    if sample is None:
        return
    if context.duplicates == "first" and _repeats_mostly(sample):
        _warn(
            context,
            f"preds, {shape_of(ids)}, are read as label ids, but most of them stand in their row before. If these are "
            f"scores, pass preds.float(); if they are decisions, pass the scores behind them; {SWAPPED}.",
        )
    elif num_labels not in (None, width):
        return  # neither a rank nor a score for each label
    elif ids.element_size() == 1 and num_labels is None:
        _warn(
            context,
            f"preds, {shape_of(ids)}, are read as label ids, best first, but have the type of quantised scores. If "
            "these are scores, pass preds.float(); if they are ids, pass preds.long().",
        )
    elif _is_permutation(sample) and (num_labels is not None or bool((sample != sample[0]).any())):
        _warn(
            context,
            f"preds, {shape_of(ids)}, hold each number from {int(sample.min())} to {int(sample.max())} once in a row "
            "and are read as label ids, best first. If these are ranks of the labels, pass -preds.float(); if they are "
            "scores, pass preds.float(); if they are ids, Ranking.from_ids(preds, ...) takes them as such.",
        )


def doubt_stored_scores(context: Context, scores: Tensor) -> None:
    """Warn if the stored scores of CSR preds are all 1."""
    sample = _sample(context, scores.values()[:SAMPLED_CELLS])
    if sample is not None and sample.numel() > 1 and bool((sample == 1).all()):
        _warn(
            context,
            f"preds, CSR {shape_of(scores)}, store nothing but ones, so that the labels of a row are tied and the "
            f"lower id is ranked first. If these are decisions, pass the scores behind them; {SWAPPED}.",
        )


def doubt_gains(context: Context, argument: str, matrix: Tensor) -> None:
    """Warn if a target (N, L) that is read as gains looks like scores or ids."""
    sample = _sample(context, matrix) if argument == "target" and matrix.dtype != torch.bool else None
    if sample is None:
        return
    if _holds_real_numbers(sample):
        _warn(
            context,
            f"target, {shape_of(matrix)}, is read as gains, but most of its values are no whole numbers, as scores "
            "are. If these are probabilities, say which labels are relevant, such as target > 0.5; if these are gains, "
            f"Ranking.from_scores(preds, target_gains=target) takes them as such; {SWAPPED}.",
        )
    elif sample.shape[1] > 2 and _is_whole(sample) and _looks_like_ids(sample):
        _warn(
            context,
            f"target, {shape_of(matrix)}, is read as a gain for each label, but its whole numbers stand once in a row, "
            "as ids do. If these are label ids, Ranking.from_scores(preds, target_ids=target.long()) takes them as "
            "such; if these are gains, pass target_gains=target there.",
        )


def doubt_probabilities(caller: str, scores: Tensor, row_mask: Tensor | None) -> None:
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


def doubt_logits(caller: str, scores: Tensor, row_mask: Tensor | None, thresholds: list[float | Tensor]) -> None:
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


def _sample(context: Context, value: Any) -> Tensor | None:
    """Return the first rows that count, a vector as one row; None where nothing is doubted or may be read."""
    if not (context.doubts and context.validate):
        return None
    return _first_rows(context.caller, value, context.row_mask)


def _first_rows(caller: str, value: Any, row_mask: Tensor | None) -> Tensor | None:
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


def _explained(sample: Tensor, target: Tensor | None) -> bool:
    """Whether the target tells why scores are 0 and 1: it predicts itself, or holds real numbers and is doubted."""
    if target is None:
        return False
    return _holds_real_numbers(target) or (target.shape == sample.shape and bool((sample == target).all()))


def _holds_real_numbers(sample: Tensor) -> bool:
    """Whether more than half of the values are no whole numbers; gains are whole numbers, or few."""
    return sample.is_floating_point() and bool((sample != sample.round()).sum() * 2 > sample.numel())


def _tells_labels(target: Any) -> bool:
    """Whether a target has one column per label, so that lists of ids of that width would hold all labels."""
    return getattr(target, "ndim", 1) == 2 and not str(target.dtype).removeprefix("torch.").startswith(("int", "uint"))


def _looks_like_ids(sample: Tensor) -> bool:
    """Whether whole numbers stand once in each row, -1 aside, in lists that differ from row to row."""
    if not 1 < sample.shape[1] <= LONGEST_LIST or len(sample) < 2 or bool((sample < -1).any()):
        return False
    ordered = sample.sort(dim=1).values
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return not bool(repeated.any()) and bool((sample != sample[0]).any()) and bool((sample >= 0).any())


def _repeats_mostly(sample: Tensor) -> bool:
    """Whether more than half of the ids stand in their row before, -1 aside."""
    ordered = sample.sort(dim=1).values
    return bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).sum() * 2 > sample.numel())


def _is_permutation(sample: Tensor) -> bool:
    """Whether each row holds 0 to L - 1, or each row 1 to L."""
    ordered = sample.sort(dim=1).values.to(torch.int64)
    return bool((ordered - ordered[:1, :1] == torch.arange(sample.shape[1])).all()) and int(ordered[0, 0]) in (0, 1)


def _warn(context: Context, doubt: str) -> None:
    warn_outside(f"{context.caller}: {doubt}")


def warn_outside(text: str) -> None:
    """Warn at the line of the first caller outside the library and torch."""
    warn(text, stacklevel=_levels_inside())


def _levels_inside() -> int:
    """Return how many frames lie between :func:`warn_outside` and the first caller outside the library and torch."""
    frame, levels = sys._getframe(2), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("tailmetrics.", "torch")):
        frame, levels = frame.f_back, levels + 1
    return levels
