"""Checks of the values of a batch; each reads values, so that a device waits."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmetrics._arguments import LARGEST_GAIN, check_ends, check_ids_in_range
from tailmetrics.ranking._hits import ListCheck
from tailmetrics.ranking._inputs import Context

REMEDIES = {
    "preds": (
        ", or pass duplicates='first' to count later places as misses. Integers are ids here: pass scores as floats, "
        "preds.float(), and a target second"
    ),
    "target": (
        ": remove the repetition; if it pads, write -1, target.masked_fill(target == {label}, -1), or make the metrics "
        "with ignore_index={label}. Integers are ids here: pass a multi-hot target as bool, target.bool(), and grades "
        "as floats, target.float(), beside preds.float()"
    ),
}
"""The remedies for a repeated id that the error message suggests, by argument."""


def csr_entries(context: Context, argument: str, matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows, columns and values of the stored entries of a CSR matrix, shape (nnz,) each.

    Raises:
        ValueError: If the matrix is invalid, or a column is out of range or stored twice in a row.
    """
    values = matrix.values().detach()
    if context.validate:
        _check_row_pointers(context.caller, argument, matrix)
    rows = torch.arange(matrix.shape[0], device=matrix.device)
    rows = rows.repeat_interleave(matrix.crow_indices().diff().to(torch.int64), output_size=values.numel())
    columns = matrix.col_indices().to(torch.int64)
    if context.validate:
        _check_columns(context.caller, argument, rows, columns, matrix.shape[-1])
    return rows, columns, values


def _check_row_pointers(caller: str, argument: str, matrix: Tensor) -> None:
    """Raise unless the row pointers of a CSR matrix ascend from 0 to the number of its entries."""
    pointers, values = matrix.crow_indices(), matrix.values()
    stored = values.numel()
    if matrix.ndim == 2 and values.ndim == 1 and pointers.numel() == matrix.shape[0] + 1:
        starts_and_ends = int(pointers[0]) == 0 and int(pointers[-1]) == stored
        if starts_and_ends and not bool((pointers.diff() < 0).any()):
            return
    raise ValueError(
        f"{caller}: {argument} is no valid CSR matrix of shape [N, L]: its row pointers must ascend from 0 to the "
        f"number of stored entries, {stored}; rebuild it with torch.sparse_csr_tensor(..., check_invariants=True)."
    )


def _check_columns(caller: str, argument: str, rows: Tensor, columns: Tensor, width: int) -> None:
    """Raise if a column of the entries of a CSR matrix is out of range, or stored twice in a row."""
    check_ids_in_range(caller, argument, columns, width, None)
    if columns.numel() and int(columns.min()) < 0:
        raise ValueError(f"{caller}: {argument} stores the column {int(columns.min())}; columns start at 0.")
    keys = rows * width + columns
    if bool((keys[1:] > keys[:-1]).all()):  # most matrices are in order, and then no column repeats
        return
    keys = keys.sort().values
    repeated = (keys[1:] == keys[:-1]).nonzero()
    if repeated.numel():
        row, column = divmod(int(keys[repeated[0, 0]]), width)
        raise ValueError(
            f"{caller}: {argument} stores column {column} twice in row {row}; "
            "add the entries up first (scipy: matrix.sum_duplicates())."
        )


def check_not_nan(context: Context, scores: Tensor, rows: Tensor | None = None) -> None:
    """Raise if a row that counts has a score NaN. If ``scores`` (N, ...) are entries, ``rows`` (N,) are their rows."""
    if not scores.numel() or not bool(scores.amax().isnan()):  # amax passes NaN on, and is 30 times as fast as isnan
        return
    is_wrong = scores.isnan().flatten(1).any(dim=1)
    if rows is None:
        rows = torch.arange(len(scores), device=scores.device)
    if context.row_mask is not None:
        is_wrong = is_wrong & context.row_mask[rows]
    if bool(is_wrong.any()):
        row = int(rows[is_wrong.nonzero()[0, 0]])
        raise ValueError(
            f"{context.caller}: preds holds NaN in row {row}; a score must be a number (-inf for a label that is not "
            "retrieved)."
        )


def check_gains(
    context: Context, argument: str, gains: Tensor, row_mask: Tensor | None, positive: Tensor | None = None
) -> None:
    """Raise unless all gains are numbers that add up exactly.

    Args:
        context: The settings of the batch.
        argument: The name of the gains in error messages.
        gains: Shape (N, ...).
        row_mask: Shape (N,), bool: the gains that count; None for all.
        positive: Shape (T,): the gains above 0 of the rows that count, if known. They are few, so the check is faster.
    """
    if row_mask is not None:
        gains = gains[row_mask]
    if not gains.numel() or gains.dtype == torch.bool:
        return
    low, high = (float(bound) for bound in torch.aminmax(gains))
    if low < 0:
        raise ValueError(
            f"{context.caller}: {argument} of this shape holds gains, and one is {low:g}; a gain cannot be negative; "
            f"{_remedy_for_negative_gains(context, gains, low)}."
        )
    if not high <= LARGEST_GAIN:  # True also for NaN, which aminmax passes on
        raise ValueError(
            f"{context.caller}: {argument} holds the gain {high}; gains are numbers of at most {LARGEST_GAIN:g}."
        )
    if low < 1 / LARGEST_GAIN and gains.is_floating_point():
        if positive is None:
            positive = gains[gains > 0]
        if bool((positive < 1 / LARGEST_GAIN).any()):
            raise ValueError(
                f"{context.caller}: {argument} holds a gain below {1 / LARGEST_GAIN:g} that is not 0; scale the gains "
                "up."
            )


def _remedy_for_negative_gains(context: Context, gains: Tensor, low: float) -> str:
    """Return what to do about gains below 0, of which the least is ``low``."""
    if context.of_documents:
        return f"documents that do not count are left out by ignore_index={low:g}"
    remedy = "look whether preds and target are swapped"
    if not gains.is_floating_point():
        remedy = "label ids of this width go to Ranking.from_scores(..., target_ids=) or from_ids"
    if low == -1 and bool((gains == 0).any()) and bool(((gains == 0) | (gains.abs() == 1)).all()):
        return (
            "if -1 marks not known cells of a multi-hot target, leave them out: preds.masked_fill(target < 0, "
            f"-torch.inf) beside target.clamp(min=0); else {remedy}"
        )
    return remedy


def check_lists(
    context: Context,
    argument: str,
    ids: Tensor,
    *,
    distinct: bool,
    padded_behind: bool = False,
    one_per_row: bool = False,
) -> int:
    """Raise unless lists of ids (N, K) hold only labels and -1; return the lowest id, or 0 if there are no ids.

    Args:
        context: The settings of the batch.
        argument: The name of the lists in error messages.
        ids: Shape (N, K), int64, -1 in the rows that do not count.
        distinct: Whether a label may stand in a row only once.
        padded_behind: Whether -1 may stand only behind the last label.
        one_per_row: Whether the ids were given as one label per row.
    """
    caller = context.caller
    if context.looked_through and ids.numel():
        lowest, highest = torch.aminmax(ids)
        ends = ListCheck(int(lowest), int(highest), None, None)
    else:
        ends = context.kernels.look_through(ids)

    if ends.lowest < -1 or (context.num_labels is not None and ends.highest >= context.num_labels):
        check_ends(caller, argument, ends.lowest, ends.highest, context.num_labels, one_per_row=one_per_row)
    if padded_behind and ends.gap_row is not None:
        raise ValueError(
            f"{caller}: {argument} has an id behind a -1; -1 can only pad the end of a row. An answer that is no label "
            "keeps its place under an id of its own: num_labels=L + 1, the id L, and duplicates='first' where it "
            "may repeat."
        )
    if distinct and ends.repeat_row is not None:
        raise _repetition(context, argument.removeprefix("ids in "), ids, ends.repeat_row)
    return ends.lowest


def _repetition(context: Context, argument: str, ids: Tensor, row: int) -> ValueError:
    """Return the error for a row that holds a label twice."""
    labels, counts = torch.unique(ids[row], return_counts=True)
    label = int(labels[(counts > 1) & (labels >= 0)][0])
    remedy = REMEDIES.get(argument, "").format(label=label)
    if context.of_tokens:
        remedy = (
            ". If preds and target are one predicted and one true label of each token, pass preds[..., None]: then "
            f"each token is a row. If they are lists{remedy}"
        )
    return ValueError(
        f"{context.caller}: {argument} names the label {label} twice in row {row}; each label can stand in a row "
        f"once{remedy}."
    )
