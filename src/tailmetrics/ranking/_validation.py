"""What is refused, and what is warned of: ids that repeat, gains that do not add up, inputs of two meanings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from warnings import warn

import torch
from torch import Tensor

from tailmetrics._checks import LARGEST_GAIN, check_ends, check_ids_in_range, shape_of
from tailmetrics.ranking._inputs import Context


def csr_entries(context: Context, argument: str, matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and values of the stored entries of a CSR matrix, each of shape (nnz,).

    Raises:
        ValueError: If it is no valid matrix, or its columns are out of range or stand twice in a row.
    """
    caller, crow, values = context.caller, matrix.crow_indices(), matrix.values().detach()
    stored, rows, width = values.numel(), torch.arange(matrix.shape[0], device=matrix.device), matrix.shape[-1]
    if context.validate:
        shaped = matrix.ndim == 2 and values.ndim == 1 and crow.numel() == len(rows) + 1
        if not shaped or int(crow[0]) != 0 or int(crow[-1]) != stored or bool((crow.diff() < 0).any()):
            raise ValueError(
                f"{caller}: {argument} is no valid CSR matrix of shape [N, L]: its row pointers must ascend from 0 to "
                f"the number of stored entries, {stored}; rebuild it with torch.sparse_csr_tensor(..., "
                "check_invariants=True)."
            )
    rows = rows.repeat_interleave(crow.diff().to(torch.int64), output_size=stored)
    columns = matrix.col_indices().to(torch.int64)
    if not context.validate:
        return rows, columns, values
    check_ids_in_range(caller, argument, columns, width, None)
    if columns.numel() and int(columns.min()) < 0:
        raise ValueError(f"{caller}: {argument} stores the column {int(columns.min())}; columns start at 0.")
    keys = rows * width + columns
    if not bool((keys[1:] > keys[:-1]).all()):  # else in order, as most are: nothing can repeat
        keys = keys.sort().values
        repeated = (keys[1:] == keys[:-1]).nonzero()
        if repeated.numel():
            row, column = divmod(int(keys[repeated[0, 0]]), width)
            raise ValueError(
                f"{caller}: {argument} stores column {column} twice in row {row}; "
                "add the entries up first (scipy: matrix.sum_duplicates())."
            )
    return rows, columns, values


def check_not_nan(context: Context, scores: Tensor, rows: Tensor | None = None) -> None:
    """Raise if scores (N, ...) of a row that counts hold NaN; ``rows`` tell the row of each where they are entries."""
    wrong, row_mask = scores.isnan().flatten(1).any(dim=1), context.row_mask
    if row_mask is not None:
        wrong = wrong & (row_mask if rows is None else row_mask[rows])
    if bool(wrong.any()):
        place = wrong.nonzero()[0, 0]
        raise ValueError(
            f"{context.caller}: preds holds NaN in row {int(place if rows is None else rows[place])}; a score must be "
            "a number (-inf for a label that is not retrieved)."
        )


def check_gains(
    caller: str,
    argument: str,
    gains: Tensor,
    row_mask: Tensor | None,
    positive: Tensor | None = None,
    of_documents: bool = False,
) -> None:
    """Raise unless all gains are numbers that add up exactly.

    Args:
        caller: The name that errors begin with.
        argument: The name of the gains.
        gains: Shape (N, ...).
        row_mask: Shape (N,), bool; the rows that count, None for all.
        positive: Shape (T,), the gains above 0 of the rows that count, where they are known: few of many cells.
        of_documents: Whether they are those of flat queries, one for each document.
    """
    gains = gains if row_mask is None else gains[row_mask]
    if not gains.numel() or gains.dtype == torch.bool:
        return
    low, high = (float(bound) for bound in torch.aminmax(gains))
    if low < 0:
        meant = "look whether preds and target are swapped"
        if of_documents:
            meant = f"documents that do not count are left out by ignore_index={low:g}"
        elif not gains.is_floating_point():
            meant = "label ids of this width go to Ranking.from_scores(..., target_ids=) or from_ids"
        raise ValueError(
            f"{caller}: {argument} of this shape holds gains, and one is {low:g}; a gain cannot be negative; {meant}."
        )
    if not high <= LARGEST_GAIN:  # also NaN, which aminmax passes on
        raise ValueError(f"{caller}: {argument} holds the gain {high}; gains are numbers of at most {LARGEST_GAIN:g}.")
    some = gains if positive is None else positive
    if gains.is_floating_point() and bool(((some > 0) & (some < 1 / LARGEST_GAIN)).any()):
        raise ValueError(
            f"{caller}: {argument} holds a gain below {1 / LARGEST_GAIN:g} that is not 0; scale the gains up."
        )


LARGEST_WEIGHT = 2.0**40
"""Row weights up to this one add up exactly in the states of the metrics."""

SMALLEST_WEIGHT = 2.0**-40
"""Row weights from this one on, but for 0, keep at least 38 binary digits of a value in states that hold 2^-78."""


def check_weights(caller: str, row_groups: Tensor | None, row_weights: Tensor | None) -> None:
    """Raise unless row groups are numbers from -1 on, and row weights can be added up exactly."""
    if row_groups is not None and row_groups.numel() and int(row_groups.min()) < -1:
        raise ValueError(f"{caller}: row_groups holds {int(row_groups.min())}; numbers start at 0, and -1 is none.")
    if row_weights is None:
        return
    inside = (row_weights == 0) | ((row_weights >= SMALLEST_WEIGHT) & (row_weights <= LARGEST_WEIGHT))
    if not bool(inside.all()):
        raise ValueError(
            f"{caller}: row_weights holds {float(row_weights[~inside][0]):g}; weights must be 0 or from "
            f"{SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}. Only their ratios matter: multiply all of them by one number."
        )


def check_lists(
    context: Context,
    argument: str,
    ids: Tensor,
    *,
    distinct: bool,
    padded_behind: bool = False,
    one_per_row: bool = False,
) -> int:
    """Raise unless lists of ids (N, K) hold nothing but labels, and -1; return the lowest id, or 0 without any.

    Args:
        context: Who asks.
        argument: The name of the lists.
        ids: Shape (N, K), int64, -1 in the rows that do not count.
        distinct: Whether a label may stand in a row only once.
        padded_behind: Whether -1 may stand only behind the last label.
        one_per_row: Whether the ids were given as one label per row.
    """
    caller, found = context.caller, context.kernels.look_through(ids)
    if found.lowest < -1 or (context.num_labels is not None and found.highest >= context.num_labels):
        check_ends(caller, argument, found.lowest, found.highest, context.num_labels, one_per_row=one_per_row)
    if padded_behind and found.gap_row is not None:
        raise ValueError(
            f"{caller}: {argument} has an id behind a -1; -1 can only pad the end of a row. An answer that is no label "
            "keeps its place under an id of its own: num_labels=L + 1, the id L, and duplicates='first' where it "
            "may repeat."
        )
    if distinct and found.repeat_row is not None:
        labels, times = torch.unique(ids[found.repeat_row], return_counts=True)
        label = int(labels[(times > 1) & (labels >= 0)][0])
        raise ValueError(
            f"{caller}: {argument.removeprefix('ids in ')} names the label {label} twice in row {found.repeat_row}; "
            f"each label can stand in a row once{REMEDIES.get(argument.removeprefix('ids in '), '')}."
        )
    return found.lowest


REMEDIES = {
    "preds": (
        ", or pass duplicates='first' to count later places as misses. Integers are ids here: pass scores as floats, "
        "preds.float(), and a target second"
    ),
    "target": ": remove the repetition. Integers are ids here: pass a multi-hot target as bool, target.bool()",
}
"""What whoever repeats an id may have meant, by the argument."""


FIRST_CELLS = 64
"""Cells of the first row that are read of any scores; more are read only if these are all whole numbers."""

SAMPLED_CELLS = 2**16
"""Cells that are read at most, in whole rows, but at least one row: a tenth of a millisecond."""

SWAPPED = "if preds and target are swapped, pass the scores first: update(preds, target)"


def warn_of_scores(context: Context, scores: Tensor, target: Tensor) -> None:
    """Warn if dense scores are 0 and 1, as decisions and targets are, or the numbers 0 to L - 1, as ranks are.

    Args:
        context: Who asks.
        scores: Shape (N, L), or (n,) of flat queries.
        target: The target that came with them.
    """
    sample = _first_rows(context, scores)
    if sample is None or not _is_whole(sample[:1, :FIRST_CELLS]) or not _is_whole(sample):
        return
    retrieved = sample[sample > -torch.inf]
    ones = retrieved == 1
    if bool((ones | (retrieved == 0)).all()) and bool(ones.any()) and not bool(ones.all()):  # both, and nothing else
        known = _first_rows(context, target)
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
    sample = _first_rows(context, ids) if ids.shape[1] > 1 else None
    if sample is None or context.num_labels not in (None, ids.shape[1]) or not _is_permutation(sample):
        return
    if context.num_labels is not None or bool((sample != sample[0]).any()):
        warn_outside(
            f"{context.caller}: preds, {shape_of(ids)}, hold each number from {int(sample.min())} to "
            f"{int(sample.max())} once in a row and are read as label ids, best first. If these are ranks of the "
            "labels, pass -preds.float(); if they are scores, pass preds.float(); if they are ids, "
            "Ranking.from_ids(preds, ...) takes them as such."
        )


def warn_of_probabilities(context: Context, scores: Tensor) -> None:
    """Warn if dense scores (N, L), to which softmax is applied, are its result."""
    sample = _first_rows(context, scores)
    if sample is None or sample.shape[1] < 2:
        return
    allowed = 1e-3 if sample.dtype in (torch.float32, torch.float64) else 2e-2  # sums of 16-bit numbers are rough
    inside = bool(((sample >= 0) & (sample <= 1)).all())
    if inside and bool(((sample.sum(dim=1, dtype=torch.float64) - 1).abs() < allowed).all()):
        warn_outside(
            f"{context.caller}: {READ_FROM.get()}, {shape_of(scores)}, lie between 0 and 1 and add up to 1 in each "
            "row, as probabilities do, but are read as scores, whose softmax are the probabilities. If these are "
            "probabilities, pass preds.log()."
        )


def warn_of_logits(context: Context, scores: Tensor, thresholds: list[float | Tensor]) -> None:
    """Warn if scores (N, L) or (N, C) lie outside of [0, 1], but thresholds inside of it."""
    limits = torch.cat([torch.as_tensor(threshold).reshape(-1).to(torch.float64) for threshold in thresholds])
    sample = _first_rows(context, scores)
    if sample is None or sample.dtype == torch.bool or not bool(((limits > 0) & (limits < 1)).any()):
        return
    if bool(((sample < 0) | (sample > 1))[sample.isfinite()].any()):
        instead = f": {context.caller}({float(limits.logit()):.4g})" if limits.numel() == 1 else "s instead"
        warn_outside(
            f"{context.caller}: {READ_FROM.get()}, {shape_of(scores)}, hold scores below 0 or above 1, as logits are, "
            "but a threshold lies between. Scores are compared as they are. If the threshold is a probability, pass "
            f"preds.sigmoid(), or its logit{instead}."
        )


def _first_rows(context: Context, value: Tensor) -> Tensor | None:
    """Return the first rows that count, a vector as one row; None where there are none, or none may be read."""
    if value.ndim not in (1, 2) or value.layout != torch.strided:
        return None
    value = value[None] if value.ndim == 1 else value
    sample = context.kernels.rows_to_warn_of(value, max(1, SAMPLED_CELLS // max(1, value.shape[1])))
    row_mask = context.row_mask
    if sample is not None and row_mask is not None and len(row_mask) == len(value):
        sample = sample[row_mask[: len(sample)]]
    return sample if sample is not None and sample.numel() else None


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


TOLD: ContextVar[list[str] | None] = ContextVar("TOLD", default=None)
"""Where warnings of a batch are kept, too, so that a report can say them."""


def warn_outside(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the first caller outside the library and torch."""
    told = TOLD.get()
    if told is not None:
        told.append(text)
    frame, levels = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("tailmetrics.", "torch")):
        frame, levels = frame.f_back, levels + 1
    warn(text, category, stacklevel=levels)
