"""Read the tensors of a batch, in all their forms: ranked lists, relevant labels, row groups and row weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, LARGEST_GAIN, check_count, check_ends, check_ids_in_range, shape_of
from tailmetrics.ranking._device import constant
from tailmetrics.ranking._hits import Entries, ListCheck, entries_of_ids
from tailmetrics.ranking._inputs import Batch, Context
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._likely_mistakes import (
    looks_at_distances,
    looks_at_gains,
    looks_at_ids,
    looks_at_no_common_id,
    looks_at_padded_lists,
    looks_at_sampled_negatives,
    looks_at_scores,
    looks_at_self_retrieval,
    looks_at_tokens,
)
from tailmetrics.ranking._warnings import warn_of_batch, warn_of_speed


class Lists(NamedTuple):
    """Ranked lists, best first.

    Attributes:
        ids: Shape (N, K), int64, -1 behind the end of a list.
        values: Shape (N, K) or (N, K + 1): the scores in the order of the list, and the score of the first label behind
            it; None if ids were given.
        complete: Whether the lists hold all retrieved labels.
        repeated: Shape (N, K), bool: True for an id that already stands at an earlier place of its row; None if ids
            cannot repeat.
        scores: Shape (N, L): the dense scores that were ranked; None for other forms.
        distinct: Whether it is known that no list is empty and no two values of a row are equal.
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
        ranked: The number of labels of dense scores that are ranked; None for all.
        kept: The number of places of ids, candidates and CSR that are kept; None for all.
        candidates: The number of places of candidates and CSR that are kept, where ids are kept whole; None for all.
        complete: Whether ids and candidates hold all retrieved labels.
        decisions: Whether ``preds`` may be bool (N, L), which are not ranked.
    """

    ranked: int | None
    kept: int | None = None
    complete: bool = True
    decisions: bool = False
    candidates: int | None = None


@dataclass(frozen=True, eq=False)
class BatchRows:
    """Row groups and row weights of N rows.

    Attributes:
        groups: Shape (N,), int64: the row group of each row, -1 for none; None if no groups were given.
        weights: Shape (N,), float64, >= 0; None if every row weighs 1.
    """

    groups: Tensor | None = None
    weights: Tensor | None = None


PLAIN_ROWS = BatchRows()
"""Rows of weight 1 without row groups."""


LARGEST_WEIGHT = 2.0**40
"""The largest row weight. Weights up to it add up exactly in the states of the metrics."""

SMALLEST_WEIGHT = 2.0**-40
"""The smallest row weight above 0. With it, states with digits down to 2^-78 keep 38 binary digits of a value."""


def read_batch(context: Context, batch: Batch, depth: Depth) -> tuple[Lists, Targets, BatchRows]:
    """Read and rank tensors with one axis of rows. If L was unknown, set ``context.num_labels`` where they tell it.

    Args:
        context: The settings of the batch.
        batch: The tensors, from :func:`as_tensors`.
        depth: The depth of the ranking.

    Returns:
        Ranked lists, relevant labels, and row groups with row weights.
    """
    scores, ids = _scores_or_ids(context, batch, depth.decisions)
    main = ids if scores is None else scores
    assert main is not None
    context.of_tokens = scores is None and batch.form == "target" and main.shape == batch.target.shape
    shape = None
    if ids is None:  # one column per label
        shape = main.shape
        context.num_labels = shape[1]
    targets = read_target(context, batch, main.shape[0], shape, main.device)
    if context.num_labels is None:
        context.num_labels = targets.num_labels
    kept = depth.kept
    if scores is not None and depth.candidates is not None:
        kept = depth.candidates
    if scores is None:
        lists = _lists_from_ids(context, main, depth.complete)
    elif ids is not None:
        lists = _lists_from_candidates(context, scores, ids, depth.complete)
    elif scores.is_sparse_csr:
        lists = _lists_from_csr(context, scores, kept)
    else:
        lists = lists_from_scores(context, scores, scores.shape[1] if depth.ranked is None else depth.ranked)
    if kept is not None and lists.ids.shape[1] > kept:
        lists = first_places(lists, kept, next_value=depth.complete)
    if context.warns:
        if context.kernels.reads:
            warn_of_speed()
        if context.validate:
            for text in likely_mistakes(context, batch, lists, targets, depth):
                warn_of_batch(context.notes, text)
    plain = batch.row_groups is None and batch.row_weights is None
    return lists, targets, PLAIN_ROWS if plain else read_rows(context, batch)


def likely_mistakes(context: Context, batch: Batch, lists: Lists, targets: Targets, depth: Depth) -> list[str]:
    """Return what a first batch looks like, where it is probably a mistake, as sentences of warnings."""
    preds, target = batch.preds, batch.target
    texts = []
    if targets.padded is not None and batch.documents is None:
        texts.append(looks_at_padded_lists(context.caller, targets.padded, PADDED))

    if depth.decisions:
        pass  # decisions hold only 0 and 1
    elif batch.documents is not None:
        texts.append(looks_at_scores(context, *batch.documents))
    elif isinstance(preds, tuple):
        texts.append(looks_at_distances(context, *preds))
    elif preds.is_sparse_csr:
        texts.append(looks_at_distances(context, preds, None))
    elif lists.scores is None:
        texts.append(looks_at_ids(context, preds))
        if batch.form == "target":
            texts.append(looks_at_no_common_id(context, preds, target))
            texts.append(looks_at_tokens(context, preds, target))
    else:
        texts.append(looks_at_scores(context, preds, target))
        if batch.form == "target":
            texts.append(looks_at_sampled_negatives(context, preds, target))
            texts.append(looks_at_gains(context, preds, target))
    if batch.documents is None:
        texts.append(looks_at_self_retrieval(context, lists.ids, targets))
    return [text for text in texts if text is not None]


def first_places(lists: Lists, kept: int, next_value: bool) -> Lists:
    """Return the first places of ranked lists.

    Args:
        lists: The lists, longer than ``kept``.
        kept: The number of places.
        next_value: Whether to keep the score behind the last place. Of lists that were merged from parts it may be the
            score of a label that is not the next one.
    """
    values, repeated = lists.values, lists.repeated
    if values is not None:
        values = values[:, : kept + next_value]
    if repeated is not None:
        repeated = repeated[:, :kept]
    return Lists(lists.ids[:, :kept], values, False, repeated, lists.scores, lists.distinct)


def read_rows(context: Context, batch: Batch) -> BatchRows:
    """Return the row groups and row weights of a batch.

    Raises:
        ValueError: If a group is below -1, or weights cannot be added up exactly.
    """
    groups, weights = batch.row_groups, batch.row_weights
    if groups is None and weights is None:
        return PLAIN_ROWS
    if weights is not None and context.row_mask is not None:
        weights = torch.where(context.row_mask, weights, 0.0)
    if context.validate and groups is not None and groups.numel() and int(groups.min()) < -1:
        raise ValueError(f"{context.caller}: row_groups holds {int(groups.min())}; numbers start at 0, and -1 is none.")
    if context.validate and weights is not None:
        wrong = (weights != 0) & ~((weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT))
        if bool(wrong.any()):
            raise ValueError(
                f"{context.caller}: row_weights holds {float(weights[wrong][0]):g}; weights must be 0 or from "
                f"{SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}. Only their ratios matter: multiply all of them by one "
                "number."
            )
    return BatchRows(groups, weights)


# the predicted lists


def _scores_or_ids(context: Context, batch: Batch, decisions: bool) -> tuple[Tensor | None, Tensor | None]:
    """Tell the form of ``preds`` by type and shape, and return scores and ids; None for the one that is not given."""
    caller, scored, num_labels = context.caller, context.scored, context.num_labels
    preds = batch.preds
    if num_labels is not None and type(num_labels) is not int:
        check_count(caller, "num_labels", num_labels)
    if isinstance(preds, tuple):
        if scored is False:
            raise TypeError(f"{caller}: ids is a pair; pass label ids [N, K]. Scores go to Ranking.from_scores.")
        return preds
    if decisions and preds.dtype == torch.bool and preds.ndim == 2:
        return preds, None
    floating = preds.is_floating_point()
    if preds.dtype not in INTEGERS and not floating:
        raise TypeError(
            f"{caller}: preds is {shape_of(preds)}; pass floating scores or integer ids. Decisions go to a metric with "
            "a threshold, and a target comes second."
        )
    if scored is not None and scored != floating:
        found = "label ids are integers. Scores go to Ranking.from_scores"
        found = "scores are floating. Ids go to Ranking.from_ids" if scored else found
        raise TypeError(f"{caller}: {'scores' if scored else 'ids'} is {shape_of(preds)}; {found}.")
    if preds.ndim == 1 and not floating and batch.target.ndim == 1 and len(preds) == len(batch.target):
        raise ValueError(
            f"{caller}: preds is {shape_of(preds)}, and target too; one predicted class of each row is a list of one "
            "label: pass preds[:, None]."
        )
    if preds.ndim != 2:
        raise ValueError(
            f"{caller}: preds is {shape_of(preds)}; pass shape [N, L] for scores or [N, K] for ranked ids "
            "(a single row needs a row axis: preds[None]; a target, such as class indices, comes second)."
        )
    if not floating and not preds.is_sparse_csr:
        return None, preds
    if num_labels not in (None, preds.shape[1]):
        raise ValueError(
            f"{caller}: preds has {preds.shape[1]} columns, but there are {num_labels} labels; pass one per label."
        )
    return preds, None


def lists_from_scores(context: Context, scores: Tensor, depth: int) -> Lists:
    """Rank dense scores (N, L) down to ``depth``; decisions (bool) are not ranked."""
    num_labels = scores.shape[1]
    depth = min(depth, num_labels)
    if scores.dtype == torch.bool or (num_labels and not depth):
        # for metrics that read scores only; the first label behind the empty list is the best one
        values = scores.amax(dim=1, keepdim=True) if context.validate and scores.dtype != torch.bool else None
        if values is not None:
            check_not_nan(context, values)
        nothing = torch.empty(len(scores), 0, dtype=torch.int64, device=scores.device)
        return Lists(nothing, values, complete=False, scores=scores)
    values, ids, distinct, filled = context.kernels.top_k(scores, depth)
    complete = depth == num_labels
    if filled and context.row_mask is None:
        return Lists(ids, values, complete, None, scores, distinct, filled=True)
    if context.validate:
        # the CPU kernels rank NaN first; a device sorts a negative NaN last, by its bits
        check_not_nan(context, values[:, :1] if context.kernels.reads else scores.amax(dim=1, keepdim=True))
    return Lists(retrieved(context, values[:, :depth], ids), values, complete, None, scores)


def _lists_from_ids(context: Context, ids: Tensor, complete: bool) -> Lists:
    """Return the lists of ids (N, K) that are ranked already."""
    ids = ids.to(torch.int64)
    ids = ids if context.row_mask is None else context.counted(ids)
    filled = False
    if context.validate:
        lowest = check_lists(context, "preds", ids, distinct=context.duplicates == "error", padded_behind=True)
        filled = lowest >= 0
    repeated = context.kernels.repeated(ids) if context.duplicates == "first" else None
    return Lists(ids, None, complete, repeated, filled=filled)


def _lists_from_candidates(context: Context, scores: Tensor, ids: Tensor, complete: bool) -> Lists:
    """Rank scored candidates, scores (N, C) and ids (N, C), in any order; id -1 or score -inf is no candidate."""
    ids, lowest = ids.to(torch.int64), -1
    if context.validate:
        lowest = check_lists(context, "ids in preds", context.counted(ids), distinct=context.duplicates == "error")
    elif context.kernels.reads and context.row_mask is None and ids.numel():
        lowest = int(ids.min())
    values = scores if lowest >= 0 else torch.where(ids >= 0, scores, -torch.inf)
    values, ids, distinct = context.kernels.best_first(values, ids)
    if context.validate and not (distinct and lowest >= 0):  # NaN is neither above nor below another score
        check_not_nan(context, scores)
    repeated = context.kernels.repeated(ids) if context.duplicates == "first" else None
    filled = lowest >= 0 and bool((values[:, -1:] > -torch.inf).all())
    ids = ids if filled else retrieved(context, values, ids)
    return Lists(ids, values, complete, repeated, distinct=distinct and context.row_mask is None, filled=filled)


def _lists_from_csr(context: Context, matrix: Tensor, depth: int | None) -> Lists:
    """Rank the stored entries of a CSR matrix (N, L); a stored zero is a score like any other."""
    num_rows, num_labels = matrix.shape
    rows, ids, values = csr_entries(context, "preds", matrix)
    if not values.is_floating_point():
        raise TypeError(
            f"{context.caller}: the CSR preds store {shape_of(values)}; pass floating scores as preds, and "
            "the target behind them."
        )
    if context.validate:
        check_not_nan(context, values[:, None], rows)
    order = ids.argsort(stable=True)
    order = order[values[order].argsort(descending=True, stable=True)]
    width = num_labels if depth is None else min(depth + 1, num_labels)
    padding = context.kernels.padding(rows, (num_rows,), width, order)
    scores, listed = padding.place(values, -torch.inf), padding.place(ids, -1)
    return Lists(retrieved(context, scores, listed), scores, complete=True)


def retrieved(context: Context, values: Tensor, ids: Tensor) -> Tensor:
    """Return ``ids`` with -1 where the score is -inf (not retrieved), and in rows that do not count."""
    row_mask = context.row_mask
    retrieved = values > -torch.inf if row_mask is None else (values > -torch.inf) & row_mask[:, None]
    return torch.where(retrieved, ids, constant(-1, ids.device))


# the relevant labels


def read_target(
    context: Context, batch: Batch, num_rows: int, scores_shape: torch.Size | None, device: torch.device
) -> Targets:
    """Tell the form of the target of a batch, check it against ``preds``, and return the relevant labels.

    Args:
        context: The settings of the batch.
        batch: Tensors.
        num_rows: N.
        scores_shape: The shape of ``preds`` if they have a column for each label; None otherwise.
        device: The device of ``preds``.
    """
    caller, form, target = context.caller, batch.form, batch.target
    if target.device != device:
        raise ValueError(f"{caller}: {form} is on {target.device}, preds on {device}; move both to one device.")
    if target.ndim not in (1, 2) or target.shape[0] != num_rows:
        raise ValueError(
            f"{caller}: {form} is {shape_of(target)}, but preds has {num_rows} rows; pass one row of target per "
            "row of preds: [N], [N, M] or [N, L]."
        )
    is_matrix = form in ("target_mask", "target_gains") or (
        form == "target" and target.ndim == 2 and (target.dtype not in INTEGERS or target.shape == scores_shape)
    )
    if not is_matrix and not target.is_sparse_csr:
        return _targets_from_ids(context, form, target, batch.gains)
    if target.ndim != 2:
        raise ValueError(f"{caller}: {form} is {shape_of(target)}; pass shape [N, L], one column per label.")
    if context.num_labels not in (None, target.shape[1]):
        raise ValueError(
            f"{caller}: {form} has {target.shape[1]} columns, but there are {context.num_labels} labels; "
            "pass one column per label, or label ids, which are integers."
        )
    return (_targets_from_csr if target.is_sparse_csr else _targets_from_matrix)(context, form, target)


def _targets_from_ids(context: Context, form: str, ids: Tensor, gains: Tensor | None) -> Targets:
    """Return the targets of label ids: shape (N,), one per row, -1 for none; or (N, M), padded with -1."""
    caller, row_mask = context.caller, context.row_mask
    if ids.dtype == torch.bool and ids.ndim == 1:
        raise TypeError(
            f"{caller}: {form} is {shape_of(ids)}, one column of a multi-hot target; pass target[:, None] beside "
            "scores of one label, or the whole multi-hot [N, L]."
        )
    if ids.dtype not in INTEGERS or ids.ndim not in (1, 2):
        raise TypeError(
            f"{caller}: {form} is {shape_of(ids)}; label ids are integers of shape [N] (one per row) "
            "or [N, M] padded with -1: pass target.long()."
        )
    if gains is not None and gains.shape != ids.shape:
        raise ValueError(
            f"{caller}: target_gains is {shape_of(gains)}, but target_ids is {shape_of(ids)}; pass one gain per id."
        )
    one_per_row, ids = ids.ndim == 1, ids if ids.dtype == torch.int64 else ids.to(torch.int64)
    ids = ids.unsqueeze(1) if one_per_row else ids
    ids = ids if row_mask is None else context.counted(ids)
    gains = None if gains is None else gains.to(torch.float64).reshape(ids.shape)
    filled = False
    if context.validate:
        lowest = check_lists(
            context, form, ids, distinct=not (context.counts_repeats or context.of_documents), one_per_row=one_per_row
        )
        filled = lowest >= 0 and row_mask is None and ids.shape[1] > 0
        if gains is not None:
            check_gains(context, "target_gains" if form == "target_ids" else form, gains, row_mask)
    if gains is None:
        return Targets(ids.shape[0], context.num_labels, row_mask, context.kernels, padded=ids, filled=filled)
    entries = context.kernels.without_void(entries_of_ids(torch.where(gains > 0, ids, -1), gains))
    return Targets(len(ids), context.num_labels, row_mask, context.kernels, given=entries)


def _targets_from_matrix(context: Context, form: str, matrix: Tensor) -> Targets:
    """Return the targets of a dense matrix (N, L): bool multi-hot, or gains of any number type."""
    row_mask = context.row_mask
    targets = Targets(len(matrix), matrix.shape[1], row_mask, context.kernels, dense=matrix)
    if matrix.dtype == torch.bool:
        return targets
    targets = context.kernels.form_of_gains(targets)
    if context.validate:
        check_gains(context, form, matrix, row_mask, None if targets.given is None else targets.given.gains)
    return targets


def _targets_from_csr(context: Context, form: str, matrix: Tensor) -> Targets:
    """Return the targets of a CSR matrix (N, L) of gains; a stored zero is not relevant."""
    (num_rows, width), row_mask = matrix.shape, context.row_mask
    rows, ids, values = csr_entries(context, form, matrix)
    if context.validate:
        check_gains(context, form, values, None if row_mask is None else row_mask[rows])
    relevant = values > 0 if row_mask is None else (values > 0) & row_mask[rows]
    gains = None if values.dtype == torch.bool else values.to(torch.float64)
    entries = context.kernels.without_void(Entries(rows, torch.where(relevant, ids, -1), gains, width))
    return Targets(num_rows, width, row_mask, context.kernels, given=entries)


# checks


def csr_entries(context: Context, argument: str, matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows, columns and values of the stored entries of a CSR matrix, shape (nnz,) each.

    Raises:
        ValueError: If the matrix is invalid, or a column is out of range or stored twice in a row.
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
    if not bool((keys[1:] > keys[:-1]).all()):  # most matrices are in order, and then no column repeats
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
    """Raise if a row that counts has a score NaN. If ``scores`` (N, ...) are entries, ``rows`` (N,) are their rows."""
    if not scores.numel() or not bool(scores.amax().isnan()):  # amax passes NaN on, and is 30 times as fast as isnan
        return
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
    gains = gains if row_mask is None else gains[row_mask]
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
    some = gains if positive is None else positive
    if low < 1 / LARGEST_GAIN and gains.is_floating_point() and bool(((some > 0) & (some < 1 / LARGEST_GAIN)).any()):
        raise ValueError(
            f"{context.caller}: {argument} holds a gain below {1 / LARGEST_GAIN:g} that is not 0; scale the gains up."
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
        found = ListCheck(int(lowest), int(highest), None, None)
    else:
        found = context.kernels.look_through(ids)
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
        remedy = REMEDIES.get(argument.removeprefix("ids in "), "").format(label=label)
        if context.of_tokens:
            remedy = (
                ". If preds and target are one predicted and one true label of each token, pass preds[..., None]: then "
                f"each token is a row. If they are lists{remedy}"
            )
        raise ValueError(
            f"{caller}: {argument.removeprefix('ids in ')} names the label {label} twice in row {found.repeat_row}; "
            f"each label can stand in a row once{remedy}."
        )
    return found.lowest


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

PADDED = "make the metrics with ignore_index={label}"
"""The remedy for target lists that seem to be padded by a label."""
