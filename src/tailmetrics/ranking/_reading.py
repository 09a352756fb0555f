"""Read the tensors of a batch, in all their forms.

They become ranked lists, relevant labels, row groups and row weights.

The checks of values stand behind; each reads values, so that a device waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from tailmetrics._arguments import (
    INTEGERS,
    LARGEST_GAIN,
    check_ends,
    shape_of,
)
from tailmetrics.ranking._batch import Batch, Context
from tailmetrics.ranking._hits import EVERYTHING, Entries
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._once import constant

LARGEST_WEIGHT = 2.0**40
"""The largest row weight. The states of metrics add up weights up to this exactly."""

SMALLEST_WEIGHT = 2.0**-40
"""The smallest row weight above 0.

With this limit, states with digits down to 2^-78 keep 38 binary digits of a value.
"""


class Lists(NamedTuple):
    """Ranked lists, best first.

    Attributes:
        ids: Shape (N, K), int64, -1 behind the end of a list.
        values: Shape (N, K) or (N, K + 1): the scores in the order of the list, and the
            score of the first label behind it; None if ids were given.
        complete: Whether the lists hold all retrieved labels.
        repeated: Shape (N, K), bool: True for an id that already stands at an earlier
            place of its row; None if ids cannot repeat.
        scores: Shape (N, L): the dense scores that were ranked; None for other forms.
        distinct: Whether it is known that no list is empty and no two values of a row
            are equal.
        filled: Whether every place is known to hold a label.
    """

    ids: Tensor
    values: Tensor | None
    complete: bool
    repeated: Tensor | None = None
    scores: Tensor | None = None
    distinct: bool = False
    filled: bool = False


@dataclass(frozen=True)
class Depth:
    """The depth to which a batch is ranked.

    Attributes:
        ranked: At most this many labels of dense scores are ranked.
        kept: At most this many places of a list are kept.
        complete: Whether ids and candidates hold all retrieved labels.
        decisions: Whether ``preds`` may be bool (N, L), which are not ranked.
        candidates: At most this many places of candidates and CSR are kept.
    """

    ranked: int = EVERYTHING
    kept: int = EVERYTHING
    complete: bool = True
    decisions: bool = False
    candidates: int = EVERYTHING


@dataclass(frozen=True, eq=False)
class BatchRows:
    """Row groups and row weights of N rows.

    Attributes:
        groups: Shape (N,), int64: the row group of each row, -1 for none; None if no
            groups were given.
        weights: Shape (N,), float64, >= 0; None if every row weighs 1.
    """

    groups: Tensor | None = None
    weights: Tensor | None = None


PLAIN_ROWS = BatchRows()
"""Rows of weight 1 without row groups."""


def read_batch(
    context: Context, batch: Batch, depth: Depth
) -> tuple[Lists, Targets, BatchRows]:
    """Read and rank tensors with one axis of rows.

    If ``context.num_labels`` was unknown and the tensors tell L, set it.

    Args:
        context: The settings of the batch.
        batch: The tensors, from :func:`tailmetrics.ranking._rows.as_rows`.
        depth: The depth of the ranking.

    Returns:
        Ranked lists, relevant labels, and row groups with row weights.
    """
    preds = batch.preds
    if context.kind is not None:
        _check_kind(context, preds)
    if isinstance(preds, tuple):
        scores, ids = preds
        targets = read_target(context, batch, scores.shape[0], None, scores.device)
        lists = _lists_from_candidates(context, scores, ids, depth)
    elif _are_ids(context, batch, depth.decisions):
        context.has_tokens = (
            batch.form == "target" and preds.shape == batch.target.shape
        )
        targets = read_target(context, batch, preds.shape[0], None, preds.device)
        lists = _lists_from_ids(context, preds, depth)
    else:  # one column per label
        context.num_labels = preds.shape[1]
        targets = read_target(context, batch, preds.shape[0], preds.shape, preds.device)
        if preds.is_sparse_csr:
            lists = _lists_from_csr(context, preds, depth)
        else:
            lists = lists_from_scores(context, preds, min(depth.ranked, depth.kept))

    if batch.row_groups is None and batch.row_weights is None:
        return lists, targets, PLAIN_ROWS
    return lists, targets, _read_rows(context, batch.row_groups, batch.row_weights)


def _read_rows(
    context: Context, groups: Tensor | None, weights: Tensor | None
) -> BatchRows:
    """Return the row groups and row weights of a batch.

    Raises:
        ValueError: If a group is below -1, or weights cannot be added up exactly.
    """
    if weights is not None and context.row_mask is not None:
        weights = torch.where(context.row_mask, weights, 0.0)
    if context.validate and groups is not None and groups.numel():
        lowest = int(groups.min())
        if lowest < -1:
            raise ValueError(
                f"{context.caller}: row_groups holds {lowest}; numbers start at 0, "
                "and -1 is none."
            )
    if context.validate and weights is not None:
        is_wrong = (weights != 0) & ~(
            (weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT)
        )
        if bool(is_wrong.any()):
            raise ValueError(
                f"{context.caller}: row_weights holds {float(weights[is_wrong][0]):g}; "
                f"weights must be 0 or from {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}. "
                "Only their ratios matter: multiply all of them by one number."
            )
    return BatchRows(groups, weights)


# the predicted lists


def _are_ids(context: Context, batch: Batch, decisions: bool) -> bool:
    """Return whether ``preds`` are ids rather than one column per label.

    Raise TypeError or ValueError if type or shape fits neither.
    """
    caller = context.caller
    preds = batch.preds
    if decisions and preds.dtype == torch.bool and preds.ndim == 2:
        return False

    is_floating = preds.is_floating_point()
    if preds.dtype not in INTEGERS and not is_floating:
        raise TypeError(
            f"{caller}: preds is {shape_of(preds)}; pass floating scores or integer "
            "ids. Decisions go to a metric with "
            "a threshold, and a target comes second."
        )
    if preds.ndim != 2:
        raise wrong_axes(caller, preds, batch.target)
    if not is_floating and not preds.is_sparse_csr:
        return True
    if context.num_labels not in (None, preds.shape[1]):
        raise ValueError(
            f"{caller}: preds has {preds.shape[1]} columns, but there are "
            f"{context.num_labels} labels; pass one per label."
        )
    return False


def _check_kind(context: Context, preds: Tensor | tuple[Tensor, Tensor]) -> None:
    """Raise if ids were passed as scores, or scores as ids."""
    if context.kind == "scores":
        if isinstance(preds, Tensor) and preds.dtype in INTEGERS:
            raise TypeError(
                f"{context.caller}: scores is {shape_of(preds)}; scores are floating. "
                "Ids go to Ranking.from_ids."
            )
    elif isinstance(preds, tuple):
        raise TypeError(
            f"{context.caller}: ids is a pair; label ids are integers. Scores go to "
            "Ranking.from_scores."
        )
    elif preds.is_floating_point():
        raise TypeError(
            f"{context.caller}: ids is {shape_of(preds)}; label ids are integers. "
            "Scores go to Ranking.from_scores."
        )


def wrong_axes(caller: str, preds: Tensor, target: Tensor) -> ValueError:
    """Return the error for predictions that are no matrix."""
    are_whole_numbers = not preds.is_floating_point() and not target.is_floating_point()
    if are_whole_numbers and preds.ndim == 1 and preds.shape == target.shape[:1]:
        return ValueError(
            f"{caller}: preds is {shape_of(preds)}, and target {shape_of(target)}; one "
            "predicted class of each row is a list of one label: pass preds[:, None]."
        )
    return ValueError(
        f"{caller}: preds is {shape_of(preds)}; pass shape [N, L] for scores or [N, K] "
        "for ranked ids (a single row needs a row axis: preds[None]; a target, such "
        "as class indices, comes second)."
    )


def _first_places(lists: Lists, kept: int, next_value: bool) -> Lists:
    """Return the first places of ranked lists.

    Args:
        lists: The lists.
        kept: At most this many places are returned.
        next_value: Whether to keep the score behind the last place. Of lists that were
            merged from parts it may be the score of a label that is not the next one.
    """
    if lists.ids.shape[1] <= kept:
        return lists
    values, repeated = lists.values, lists.repeated
    if values is not None:
        values = values[:, : kept + next_value]
    if repeated is not None:
        repeated = repeated[:, :kept]
    return Lists(
        lists.ids[:, :kept], values, False, repeated, lists.scores, lists.distinct
    )


def lists_from_scores(context: Context, scores: Tensor, depth: int) -> Lists:
    """Rank dense scores (N, L) down to ``depth``; decisions (bool) are not ranked."""
    num_labels = scores.shape[1]
    depth = min(depth, num_labels)
    if scores.dtype == torch.bool or (num_labels and not depth):
        return _unranked(context, scores)

    values, ids, distinct, filled = context.kernels.top_k(scores, depth)
    complete = depth == num_labels
    if filled and context.row_mask is None:
        return Lists(
            ids, values, complete, scores=scores, distinct=distinct, filled=True
        )
    if context.validate:
        best = values[:, :1]  # the CPU kernels rank NaN first
        if not context.kernels.can_read_values:  # a device sorts NaN by its bits
            best = scores.amax(dim=1, keepdim=True)
        _check_not_nan(context, best)
    ids = _retrieved(context, values[:, :depth], ids)
    return Lists(ids, values, complete, scores=scores)


def _unranked(context: Context, scores: Tensor) -> Lists:
    """Return empty lists, for metrics that read only scores.

    The value behind an empty list is the score of the best label.
    """
    values = None
    if context.validate and scores.dtype != torch.bool:
        values = scores.amax(dim=1, keepdim=True)
        _check_not_nan(context, values)
    ids = torch.empty(len(scores), 0, dtype=torch.int64, device=scores.device)
    return Lists(ids, values, complete=False, scores=scores)


def _lists_from_ids(context: Context, ids: Tensor, depth: Depth) -> Lists:
    """Return the lists of ids (N, K) that are ranked already."""
    ids = context.counted(ids.to(torch.int64))
    filled = False
    if context.validate:
        lowest = _check_lists(
            context,
            "preds",
            ids,
            distinct=context.duplicates == "error",
            padded_behind=True,
        )
        filled = lowest >= 0
    repeated = None
    if context.duplicates == "first":
        repeated = context.kernels.repeated(ids)
    lists = Lists(ids, None, depth.complete, repeated, filled=filled)
    return _first_places(lists, depth.kept, next_value=depth.complete)


def _lists_from_candidates(
    context: Context, scores: Tensor, ids: Tensor, depth: Depth
) -> Lists:
    """Rank scored candidates in any order: scores (N, C) and ids (N, C).

    An entry with id -1 or score -inf is no candidate.
    """
    kernels, row_mask = context.kernels, context.row_mask
    ids, lowest = ids.to(torch.int64), -1
    if context.validate:
        lowest = _check_lists(
            context,
            "ids in preds",
            context.counted(ids),
            distinct=context.duplicates == "error",
        )
    elif kernels.can_read_values and row_mask is None and ids.numel():
        lowest = int(ids.min())

    values = scores
    if lowest < 0:
        values = torch.where(ids >= 0, scores, -torch.inf)
    values, ids, distinct = kernels.best_first(values, ids)
    # NaN is neither above nor below another score
    if context.validate and not (distinct and lowest >= 0):
        _check_not_nan(context, scores)

    repeated = None
    if context.duplicates == "first":
        repeated = kernels.repeated(ids)
    filled = lowest >= 0 and bool((values[:, -1:] > -torch.inf).all())
    if not filled:
        ids = _retrieved(context, values, ids)
    distinct = distinct and row_mask is None
    lists = Lists(
        ids, values, depth.complete, repeated, distinct=distinct, filled=filled
    )
    return _first_places(
        lists, min(depth.kept, depth.candidates), next_value=depth.complete
    )


def _lists_from_csr(context: Context, matrix: Tensor, depth: Depth) -> Lists:
    """Rank the stored entries of a CSR matrix (N, L); a stored zero is a score."""
    stored = _csr_entries(context, "preds", matrix)
    ids, scores = stored.columns, stored.values
    if not scores.is_floating_point():
        raise TypeError(
            f"{context.caller}: the CSR preds store {shape_of(scores)}; pass floating "
            "scores as preds, and the target behind them."
        )
    if context.validate:
        _check_not_nan(context, scores[:, None], stored.rows)

    order = ids.argsort(stable=True)
    order = order[scores[order].argsort(descending=True, stable=True)]
    kept = min(depth.kept, depth.candidates)
    width = min(kept + 1, matrix.shape[1])
    padding = context.kernels.padding(stored.rows, matrix.shape[:1], width, order)
    values = padding.place(scores, -torch.inf)
    lists = Lists(
        _retrieved(context, values, padding.place(ids, -1)), values, complete=True
    )
    return _first_places(lists, kept, next_value=depth.complete)


def _retrieved(context: Context, values: Tensor, ids: Tensor) -> Tensor:
    """Return ``ids`` with -1 for labels not retrieved and rows that do not count.

    A label with score -inf is not retrieved.
    """
    is_retrieved = values > -torch.inf
    if context.row_mask is not None:
        is_retrieved = is_retrieved & context.row_mask[:, None]
    return torch.where(is_retrieved, ids, constant(-1, ids.device))


# the relevant labels


def read_target(
    context: Context,
    batch: Batch,
    num_rows: int,
    scores_shape: torch.Size | None,
    device: torch.device,
) -> Targets:
    """Return the relevant labels of a batch, after checks against ``preds``.

    The form of the target follows from ``batch.form``, or from its type and shape.

    Args:
        context: The settings of the batch.
        batch: Tensors.
        num_rows: N.
        scores_shape: The shape of ``preds`` if they have a column for each label; None
            otherwise.
        device: The device of ``preds``.
    """
    caller, form = context.caller, batch.form
    target = batch.target
    if target.device != device:
        raise ValueError(
            f"{caller}: {form} is on {target.device}, preds on {device}; move both to "
            "one device."
        )
    if target.ndim not in (1, 2) or target.shape[0] != num_rows:
        raise ValueError(
            f"{caller}: {form} is {shape_of(target)}, but preds has {num_rows} rows; "
            "pass one row of target per row of preds: [N], [N, M] or [N, L]."
        )
    is_matrix = form in ("target_mask", "target_gains") or target.is_sparse_csr
    if form == "target" and target.ndim == 2:
        is_matrix = (
            is_matrix or target.dtype not in INTEGERS or target.shape == scores_shape
        )
    if not is_matrix:
        return _targets_from_ids(context, form, target, batch.gains)

    if target.ndim != 2:
        raise ValueError(
            f"{caller}: {form} is {shape_of(target)}; pass shape [N, L], one "
            "column per label."
        )
    if context.num_labels not in (None, target.shape[1]):
        raise ValueError(
            f"{caller}: {form} has {target.shape[1]} columns, but there are "
            f"{context.num_labels} labels; pass one column per label, or label ids, "
            "which are integers."
        )
    context.num_labels = target.shape[1]
    if target.is_sparse_csr:
        return _targets_from_csr(context, form, target)
    return _targets_from_matrix(context, form, target)


def _targets_from_ids(
    context: Context, form: str, ids: Tensor, gains: Tensor | None
) -> Targets:
    """Return the targets of label ids.

    One id per row has shape (N,), -1 for none; several are (N, M), padded with -1.
    """
    row_mask = context.row_mask
    if ids.dtype not in INTEGERS or ids.ndim not in (1, 2):
        raise _no_label_ids(context.caller, form, ids)
    if gains is not None and gains.shape != ids.shape:
        raise ValueError(
            f"{context.caller}: target_gains is {shape_of(gains)}, but target_ids is "
            f"{shape_of(ids)}; pass one gain per id."
        )
    one_per_row = ids.ndim == 1
    ids = ids.to(torch.int64)
    if one_per_row:
        ids = ids.unsqueeze(1)
    if row_mask is not None:
        ids = context.counted(ids)

    filled = False
    if context.validate:
        distinct = not (context.counts_repeats or context.has_documents)
        lowest = _check_lists(
            context, form, ids, distinct=distinct, one_per_row=one_per_row
        )
        filled = lowest >= 0 and row_mask is None and ids.shape[1] > 0
    if gains is not None:
        return _targets_with_gains(context, form, ids, gains)
    return Targets(
        ids.shape[0],
        context.num_labels,
        row_mask,
        context.kernels,
        padded=ids,
        filled=filled,
    )


def _targets_with_gains(
    context: Context, form: str, ids: Tensor, gains: Tensor
) -> Targets:
    """Return the targets of label ids (N, M) with a gain for each."""
    gain_dtype = _floating_type(gains)
    gains = gains.to(torch.float64).reshape(ids.shape)
    if context.validate:
        _check_gains(
            context,
            "target_gains" if form == "target_ids" else "target",
            gains,
            context.row_mask,
        )
    num_rows, width = ids.shape
    rows = torch.arange(num_rows, device=ids.device)[:, None].expand(num_rows, width)
    targets = _targets_from_entries(
        context,
        num_rows,
        width,
        rows.reshape(-1),
        ids.reshape(-1),
        gains.reshape(-1),
    )
    return replace(targets, gain_dtype=gain_dtype)


def _targets_from_entries(
    context: Context,
    num_rows: int,
    width: int,
    rows: Tensor,
    ids: Tensor,
    values: Tensor,
) -> Targets:
    """Return the targets of entries with a gain each.

    A gain of 0 is judged, but not relevant.

    Args:
        context: The settings of the batch.
        num_rows: N.
        width: A row has at most this many entries.
        rows: Shape (T,), int64, ascending: the row of each entry.
        ids: Shape (T,), int64: its label, -1 for none.
        values: Shape (T,): its gain; bool for gains of 1 and 0.
    """
    gains = None
    if values.dtype != torch.bool:
        gains = values.to(torch.float64)
    relevant = Entries(rows, torch.where(values > 0, ids, -1), gains, width)
    return Targets(
        num_rows,
        context.num_labels,
        context.row_mask,
        context.kernels,
        flat=context.kernels.without_void(relevant),
        judgments=Entries(rows, ids, None, width),
        gain_dtype=_floating_type(values),
    )


def _floating_type(gains: Tensor) -> torch.dtype:
    """Return the type of gains; float64 for whole numbers and flags.

    Float64 holds them without rounding.
    """
    if gains.is_floating_point():
        return gains.dtype
    return torch.float64


def _no_label_ids(caller: str, form: str, target: Tensor) -> TypeError:
    """Return the error for a target without label ids or a column for each label."""
    if target.dtype == torch.bool and target.ndim == 1:
        return TypeError(
            f"{caller}: {form} is {shape_of(target)}, one column of a multi-hot "
            "target; pass target[:, None] beside scores of one label, or the whole "
            "multi-hot [N, L]."
        )
    return TypeError(
        f"{caller}: {form} is {shape_of(target)}; label ids are integers of shape [N] "
        "(one per row) or [N, M] padded with -1: pass target.long()."
    )


def _targets_from_matrix(context: Context, form: str, matrix: Tensor) -> Targets:
    """Return the targets of a dense matrix (N, L).

    The matrix is bool multi-hot, or holds gains of any number type.
    """
    targets = Targets(
        len(matrix), matrix.shape[1], context.row_mask, context.kernels, dense=matrix
    )
    if matrix.dtype == torch.bool:
        return targets
    targets = context.kernels.form_of_gains(
        replace(targets, gain_dtype=_floating_type(matrix))
    )
    if context.validate:
        positive = None if targets.flat is None else targets.flat.gains
        _check_gains(context, form, matrix, context.row_mask, positive)
    return targets


def _targets_from_csr(context: Context, form: str, matrix: Tensor) -> Targets:
    """Return the targets of a CSR matrix (N, L) of gains; 0 is not relevant."""
    stored = _csr_entries(context, form, matrix)
    ids, is_counted = stored.columns, None
    if context.row_mask is not None:
        is_counted = context.row_mask[stored.rows]
        ids = torch.where(is_counted, ids, -1)
    if context.validate:
        _check_gains(context, form, stored.values, is_counted)
    num_rows, num_labels = matrix.shape
    return _targets_from_entries(
        context, num_rows, num_labels, stored.rows, ids, stored.values
    )


# checks of values

REMEDIES = {
    "preds": (
        ", or pass duplicates='first' to count later places as misses. Integers are "
        "ids here: pass scores as floats, preds.float(), and a target second"
    ),
    "target": (
        ": remove the repetition; if it pads, write -1, target.masked_fill(target == "
        "{label}, -1), or make the metrics with ignore_index={label}. Integers are ids "
        "here: pass a multi-hot target as bool, target.bool(), and grades as floats, "
        "target.float(), beside preds.float()"
    ),
}
"""The remedies for a repeated id that the error message suggests, by argument."""


class StoredEntries(NamedTuple):
    """The rows, columns and values of CSR entries, shape (nnz,) each."""

    rows: Tensor
    columns: Tensor
    values: Tensor


def _csr_entries(context: Context, argument: str, matrix: Tensor) -> StoredEntries:
    """Return the stored entries of a CSR matrix.

    Raises:
        ValueError: If the matrix is invalid, or a column is out of range or stored
            twice in a row.
    """
    values = matrix.values().detach()
    if context.validate:
        _check_row_pointers(context.caller, argument, matrix)
    rows = torch.arange(matrix.shape[0], device=matrix.device)
    rows = rows.repeat_interleave(
        matrix.crow_indices().diff().to(torch.int64), output_size=values.numel()
    )
    columns = matrix.col_indices().to(torch.int64)
    if context.validate:
        _check_columns(context.caller, argument, rows, columns, matrix.shape[1])
    return StoredEntries(rows, columns, values)


def _check_row_pointers(caller: str, argument: str, matrix: Tensor) -> None:
    """Raise unless CSR row pointers ascend from 0 to the number of entries."""
    pointers, values = matrix.crow_indices(), matrix.values()
    stored = values.numel()
    if (
        matrix.ndim == 2
        and values.ndim == 1
        and pointers.numel() == matrix.shape[0] + 1
    ):
        starts_and_ends = int(pointers[0]) == 0 and int(pointers[-1]) == stored
        if starts_and_ends and not bool((pointers.diff() < 0).any()):
            return
    raise ValueError(
        f"{caller}: {argument} is no valid CSR matrix of shape [N, L]: its row "
        f"pointers must ascend from 0 to the number of stored entries, {stored}; "
        "rebuild it with torch.sparse_csr_tensor(..., check_invariants=True)."
    )


def _check_columns(
    caller: str, argument: str, rows: Tensor, columns: Tensor, num_columns: int
) -> None:
    """Raise if a column of CSR entries is out of range, or stored twice in a row."""
    if not len(columns):
        return
    lowest, highest = map(int, torch.aminmax(columns))
    if lowest < 0 or highest >= num_columns:
        column = lowest if lowest < 0 else highest
        raise ValueError(
            f"{caller}: {argument} stores the column {column}; columns go from 0 to "
            f"{num_columns - 1}."
        )
    cells = rows * num_columns + columns
    # most matrices are in order, and then no column repeats
    if bool((cells.diff() > 0).all()):
        return
    cells = cells.sort().values
    repeated = cells[1:][cells.diff() == 0]
    if len(repeated):
        row, column = divmod(int(repeated[0]), num_columns)
        raise ValueError(
            f"{caller}: {argument} stores column {column} twice in row {row}; "
            "add the entries up first (scipy: matrix.sum_duplicates())."
        )


def _check_not_nan(
    context: Context, scores: Tensor, rows: Tensor | None = None
) -> None:
    """Raise if a row that counts has a score NaN.

    If ``scores`` (N, ...) are entries, ``rows`` (N,) are their rows.
    """
    # amax passes NaN on, and is 30 times as fast as isnan
    if not scores.numel() or not bool(scores.amax().isnan()):
        return
    is_wrong = scores.isnan().flatten(1).any(dim=1)
    if rows is None:
        rows = torch.arange(len(scores), device=scores.device)
    if context.row_mask is not None:
        is_wrong = is_wrong & context.row_mask[rows]
    if bool(is_wrong.any()):
        row = int(rows[is_wrong.nonzero()[0, 0]])
        raise ValueError(
            f"{context.caller}: preds holds NaN in row {row}; a score must be a number "
            "(-inf for a label that is not retrieved)."
        )


def _check_gains(
    context: Context,
    argument: str,
    gains: Tensor,
    row_mask: Tensor | None,
    positive: Tensor | None = None,
) -> None:
    """Raise unless all gains are numbers that add up exactly.

    Args:
        context: The settings of the batch.
        argument: The name of the gains in error messages.
        gains: Shape (N, ...).
        row_mask: Shape (N,), bool: the gains that count; None for all.
        positive: Shape (T,): the gains above 0 of the rows that count, if known. They
            are few, so the check is faster.
    """
    if row_mask is not None:
        gains = gains[row_mask]
    if not gains.numel() or gains.dtype == torch.bool:
        return
    low, high = (float(bound) for bound in torch.aminmax(gains))
    if low < 0:
        raise ValueError(
            f"{context.caller}: {argument} of this shape holds gains, and one is "
            f"{low:g}; a gain cannot be negative; "
            f"{_remedy_for_negative_gains(context, gains, low)}."
        )
    if not high <= LARGEST_GAIN:  # True also for NaN, which aminmax passes on
        raise ValueError(
            f"{context.caller}: {argument} holds the gain {high}; gains are numbers "
            f"of at most {LARGEST_GAIN:g}."
        )
    if low < 1 / LARGEST_GAIN and gains.is_floating_point():
        if positive is None:
            positive = gains[gains > 0]
        if bool((positive < 1 / LARGEST_GAIN).any()):
            raise ValueError(
                f"{context.caller}: {argument} holds a gain below {1 / LARGEST_GAIN:g} "
                "that is not 0; scale the gains up."
            )


def _remedy_for_negative_gains(context: Context, gains: Tensor, low: float) -> str:
    """Return what to do about gains below 0, of which the least is ``low``."""
    if context.has_documents:
        return f"documents that do not count are left out by ignore_index={low:g}"
    remedy = "look whether preds and target are swapped"
    if not gains.is_floating_point():
        remedy = (
            "label ids of this width go to Ranking.from_scores(..., target_ids=) "
            "or from_ids"
        )
    if (
        low == -1
        and bool((gains == 0).any())
        and bool(((gains == 0) | (gains.abs() == 1)).all())
    ):
        return (
            "if -1 marks not known cells of a multi-hot target, leave them out: "
            "preds.masked_fill(target < 0, -torch.inf) beside target.clamp(min=0); "
            f"else {remedy}"
        )
    return remedy


def _check_lists(
    context: Context,
    argument: str,
    ids: Tensor,
    *,
    distinct: bool,
    padded_behind: bool = False,
    one_per_row: bool = False,
) -> int:
    """Raise unless lists of ids (N, K) hold only labels and -1; return the lowest id.

    Return 0 if there are no ids.

    Args:
        context: The settings of the batch.
        argument: The name of the lists in error messages.
        ids: Shape (N, K), int64, -1 in the rows that do not count.
        distinct: Whether a label may stand in a row only once.
        padded_behind: Whether -1 may stand only behind the last label.
        one_per_row: Whether the ids were given as one label per row.
    """
    caller = context.caller
    list_check = context.kernels.check_lists(ids)
    if list_check.lowest < -1 or (
        context.num_labels is not None and list_check.highest >= context.num_labels
    ):
        check_ends(
            caller,
            argument,
            list_check.lowest,
            list_check.highest,
            context.num_labels,
            one_per_row=one_per_row,
        )
    if padded_behind and list_check.gap_row is not None:
        raise ValueError(
            f"{caller}: {argument} has an id behind a -1; -1 can only pad the end of a "
            "row. An answer that is no label keeps its place under an id of its own: "
            "num_labels=L + 1, the id L, and duplicates='first' where it may repeat."
        )
    if distinct and list_check.repeat_row is not None:
        raise _repetition(
            context, argument.removeprefix("ids in "), ids, list_check.repeat_row
        )
    return list_check.lowest


def _repetition(context: Context, argument: str, ids: Tensor, row: int) -> ValueError:
    """Return the error for a row that holds a label twice."""
    labels, counts = torch.unique(ids[row], return_counts=True)
    label = int(labels[(counts > 1) & (labels >= 0)][0])
    remedy = REMEDIES.get(argument, "").format(label=label)
    if context.has_tokens:
        remedy = (
            ". If preds and target are one predicted and one true label of each "
            "token, pass preds[..., None]: then each token is a row. If they are "
            f"lists{remedy}"
        )
    return ValueError(
        f"{context.caller}: {argument} names the label {label} twice in row {row}; "
        f"each label can stand in a row once{remedy}."
    )
