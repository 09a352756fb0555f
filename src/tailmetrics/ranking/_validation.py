"""Checks that read the values of lists and targets: ids that repeat, gains that do not add up, CSR out of order."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tailmetrics._checks import LARGEST_GAIN, check_ends, check_ids_in_range
from tailmetrics.ranking._context import Context

SORTED_ELEMENTS = 2**16
"""Labels sorted together: half a megabyte, which stays in the cache."""


def check_csr(caller: str, argument: str, matrix: Tensor, rows: Tensor) -> None:
    """Raise unless the columns of a CSR matrix are in range and distinct within their row."""
    columns = matrix.col_indices().to(torch.int64)
    check_ids_in_range(caller, argument, columns, matrix.shape[1], None)
    if columns.numel() and int(columns.min()) < 0:
        raise ValueError(f"{caller}: {argument} stores the column {int(columns.min())}; columns start at 0.")
    keys = rows * matrix.shape[1] + columns
    if bool((keys[1:] > keys[:-1]).all()):  # in order, as most are: nothing can repeat
        return
    keys = _sorted(keys)
    repeated = (keys[1:] == keys[:-1]).nonzero()
    if repeated.numel():
        row, column = divmod(int(keys[repeated[0, 0]]), matrix.shape[1])
        raise ValueError(
            f"{caller}: {argument} stores column {column} twice in row {row}; "
            "add the entries up first (scipy: matrix.sum_duplicates())."
        )


def check_width(caller: str, argument: str, width: int, num_labels: int | None) -> None:
    """Raise unless a matrix has one column per label."""
    if num_labels is not None and width != num_labels:
        raise ValueError(
            f"{caller}: {argument} has {width} columns, but there are {num_labels} labels; "
            "pass one column per label, or label ids, which are integers."
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


def _sorted(values: Tensor) -> Tensor:
    """Return ``values`` sorted along the last axis; numpy's sort is several times faster than torch's on a CPU."""
    if values.device.type != "cpu":
        return values.sort(dim=-1).values
    return torch.from_numpy(np.sort(values.numpy(), axis=-1))


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
    "target": ". Integers are ids here: pass a multi-hot target as bool, target.bool()",
}
"""What whoever repeats an id may have meant, by the argument."""
