"""Read the tensors of a batch, in all their forms: ranked lists, relevant labels, row groups and row weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, check_count, shape_of
from tailmetrics.ranking._checks import check_gains, check_lists, check_not_nan, csr_entries
from tailmetrics.ranking._device import constant
from tailmetrics.ranking._hits import Entries, entries_of_ids
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

PADDED = "make the metrics with ignore_index={label}"
"""The remedy for target lists that seem to be padded by a label."""

LARGEST_WEIGHT = 2.0**40
"""The largest row weight. Weights up to it add up exactly in the states of the metrics."""

SMALLEST_WEIGHT = 2.0**-40
"""The smallest row weight above 0. With it, states with digits down to 2^-78 keep 38 binary digits of a value."""


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
        complete: Whether ids and candidates hold all retrieved labels.
        decisions: Whether ``preds`` may be bool (N, L), which are not ranked.
        candidates: The number of places of candidates and CSR that are kept, where ids are kept whole; None for all.
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
    scores_shape = None
    if ids is None:  # one column per label
        scores_shape = main.shape
        context.num_labels = scores_shape[1]

    targets = read_target(context, batch, main.shape[0], scores_shape, main.device)
    if context.num_labels is None:
        context.num_labels = targets.num_labels
    if ids is None and not main.is_sparse_csr:
        ranked = main.shape[1] if depth.ranked is None else depth.ranked
        lists = lists_from_scores(context, main, ranked if depth.kept is None else min(ranked, depth.kept))
    else:
        lists = _shorter_lists(context, scores, ids, depth)

    if context.warns:
        if context.kernels.reads:
            warn_of_speed()
        if context.validate:
            for text in likely_mistakes(context, batch, lists, targets, depth):
                warn_of_batch(context.notes, text)
    if batch.row_groups is None and batch.row_weights is None:
        return lists, targets, PLAIN_ROWS
    return lists, targets, read_rows(context, batch)


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


def read_rows(context: Context, batch: Batch) -> BatchRows:
    """Return the row groups and row weights of a batch.

    Raises:
        ValueError: If a group is below -1, or weights cannot be added up exactly.
    """
    groups, weights = batch.row_groups, batch.row_weights
    if weights is not None and context.row_mask is not None:
        weights = torch.where(context.row_mask, weights, 0.0)
    if context.validate and groups is not None and groups.numel():
        lowest = int(groups.min())
        if lowest < -1:
            raise ValueError(f"{context.caller}: row_groups holds {lowest}; numbers start at 0, and -1 is none.")
    if context.validate and weights is not None:
        is_wrong = (weights != 0) & ~((weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT))
        if bool(is_wrong.any()):
            raise ValueError(
                f"{context.caller}: row_weights holds {float(weights[is_wrong][0]):g}; weights must be 0 or from "
                f"{SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}. Only their ratios matter: multiply all of them by one "
                "number."
            )
    return BatchRows(groups, weights)


# the predicted lists


def _scores_or_ids(context: Context, batch: Batch, decisions: bool) -> tuple[Tensor | None, Tensor | None]:
    """Tell the form of ``preds`` by type and shape, and return scores and ids; None for the one that is not given."""
    caller, num_labels, preds = context.caller, context.num_labels, batch.preds
    if num_labels is not None and type(num_labels) is not int:
        check_count(caller, "num_labels", num_labels)
    if isinstance(preds, tuple):
        if context.scored is False:
            raise TypeError(f"{caller}: ids is a pair; pass label ids [N, K]. Scores go to Ranking.from_scores.")
        return preds
    if decisions and preds.dtype == torch.bool and preds.ndim == 2:
        return preds, None

    is_floating = preds.is_floating_point()
    if preds.dtype not in INTEGERS and not is_floating:
        raise TypeError(
            f"{caller}: preds is {shape_of(preds)}; pass floating scores or integer ids. Decisions go to a metric with "
            "a threshold, and a target comes second."
        )
    if context.scored is not None and context.scored != is_floating:
        raise _wrong_kind(context, preds)
    if preds.ndim != 2:
        raise _wrong_axes(caller, batch)
    if not is_floating and not preds.is_sparse_csr:
        return None, preds
    if num_labels not in (None, preds.shape[1]):
        raise ValueError(
            f"{caller}: preds has {preds.shape[1]} columns, but there are {num_labels} labels; pass one per label."
        )
    return preds, None


def _wrong_kind(context: Context, preds: Tensor) -> TypeError:
    """Return the error for ids that were passed as scores, or scores that were passed as ids."""
    if context.scored:
        remedy = "scores are floating. Ids go to Ranking.from_ids"
        return TypeError(f"{context.caller}: scores is {shape_of(preds)}; {remedy}.")
    remedy = "label ids are integers. Scores go to Ranking.from_scores"
    return TypeError(f"{context.caller}: ids is {shape_of(preds)}; {remedy}.")


def _wrong_axes(caller: str, batch: Batch) -> ValueError:
    """Return the error for predictions that are no matrix."""
    preds, target = batch.preds, batch.target
    if preds.ndim == 1 and not preds.is_floating_point() and target.ndim == 1 and len(preds) == len(target):
        return ValueError(
            f"{caller}: preds is {shape_of(preds)}, and target too; one predicted class of each row is a list of one "
            "label: pass preds[:, None]."
        )
    return ValueError(
        f"{caller}: preds is {shape_of(preds)}; pass shape [N, L] for scores or [N, K] for ranked ids "
        "(a single row needs a row axis: preds[None]; a target, such as class indices, comes second)."
    )


def _shorter_lists(context: Context, scores: Tensor | None, ids: Tensor | None, depth: Depth) -> Lists:
    """Return the lists of ids, candidates or CSR, cut to the places that are kept."""
    kept = depth.kept
    if scores is None:
        assert ids is not None
        lists = _lists_from_ids(context, ids, depth.complete)
    else:
        if depth.candidates is not None:
            kept = depth.candidates
        if ids is None:
            lists = _lists_from_csr(context, scores, kept)
        else:
            lists = _lists_from_candidates(context, scores, ids, depth.complete)
    if kept is not None and lists.ids.shape[1] > kept:
        return first_places(lists, kept, next_value=depth.complete)
    return lists


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


def lists_from_scores(context: Context, scores: Tensor, depth: int) -> Lists:
    """Rank dense scores (N, L) down to ``depth``; decisions (bool) are not ranked."""
    num_labels = scores.shape[1]
    depth = min(depth, num_labels)
    if scores.dtype == torch.bool or (num_labels and not depth):
        return _unranked(context, scores)

    values, ids, distinct, filled = context.kernels.top_k(scores, depth)
    complete = depth == num_labels
    if filled and context.row_mask is None:
        return Lists(ids, values, complete, None, scores, distinct, filled=True)
    if context.validate:
        # the CPU kernels rank NaN first; a device sorts a negative NaN last, by its bits
        best = values[:, :1] if context.kernels.reads else scores.amax(dim=1, keepdim=True)
        check_not_nan(context, best)
    return Lists(retrieved(context, values[:, :depth], ids), values, complete, None, scores)


def _unranked(context: Context, scores: Tensor) -> Lists:
    """Return empty lists, for metrics that read scores only; the first label behind an empty list is the best one."""
    values = None
    if context.validate and scores.dtype != torch.bool:
        values = scores.amax(dim=1, keepdim=True)
        check_not_nan(context, values)
    ids = torch.empty(len(scores), 0, dtype=torch.int64, device=scores.device)
    return Lists(ids, values, complete=False, scores=scores)


def _lists_from_ids(context: Context, ids: Tensor, complete: bool) -> Lists:
    """Return the lists of ids (N, K) that are ranked already."""
    ids = ids.to(torch.int64)
    if context.row_mask is not None:
        ids = context.counted(ids)
    filled = False
    if context.validate:
        lowest = check_lists(context, "preds", ids, distinct=context.duplicates == "error", padded_behind=True)
        filled = lowest >= 0
    repeated = None
    if context.duplicates == "first":
        repeated = context.kernels.repeated(ids)
    return Lists(ids, None, complete, repeated, filled=filled)


def _lists_from_candidates(context: Context, scores: Tensor, ids: Tensor, complete: bool) -> Lists:
    """Rank scored candidates, scores (N, C) and ids (N, C), in any order; id -1 or score -inf is no candidate."""
    kernels, row_mask = context.kernels, context.row_mask
    ids, lowest = ids.to(torch.int64), -1
    if context.validate:
        lowest = check_lists(context, "ids in preds", context.counted(ids), distinct=context.duplicates == "error")
    elif kernels.reads and row_mask is None and ids.numel():
        lowest = int(ids.min())

    values = scores
    if lowest < 0:
        values = torch.where(ids >= 0, scores, -torch.inf)
    values, ids, distinct = kernels.best_first(values, ids)
    if context.validate and not (distinct and lowest >= 0):  # NaN is neither above nor below another score
        check_not_nan(context, scores)

    repeated = None
    if context.duplicates == "first":
        repeated = kernels.repeated(ids)
    filled = lowest >= 0 and bool((values[:, -1:] > -torch.inf).all())
    if not filled:
        ids = retrieved(context, values, ids)
    return Lists(ids, values, complete, repeated, distinct=distinct and row_mask is None, filled=filled)


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
    is_retrieved = values > -torch.inf
    if context.row_mask is not None:
        is_retrieved = is_retrieved & context.row_mask[:, None]
    return torch.where(is_retrieved, ids, constant(-1, ids.device))


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
    has_columns = target.ndim == 2 and (target.dtype not in INTEGERS or target.shape == scores_shape)
    is_matrix = form in ("target_mask", "target_gains") or target.is_sparse_csr or (form == "target" and has_columns)
    if not is_matrix:
        return _targets_from_ids(context, form, target, batch.gains)

    if target.ndim != 2:
        raise ValueError(f"{caller}: {form} is {shape_of(target)}; pass shape [N, L], one column per label.")
    if context.num_labels not in (None, target.shape[1]):
        raise ValueError(
            f"{caller}: {form} has {target.shape[1]} columns, but there are {context.num_labels} labels; "
            "pass one column per label, or label ids, which are integers."
        )
    if target.is_sparse_csr:
        return _targets_from_csr(context, form, target)
    return _targets_from_matrix(context, form, target)


def _targets_from_ids(context: Context, form: str, ids: Tensor, gains: Tensor | None) -> Targets:
    """Return the targets of label ids: shape (N,), one per row, -1 for none; or (N, M), padded with -1."""
    caller, row_mask = context.caller, context.row_mask
    if ids.dtype not in INTEGERS or ids.ndim not in (1, 2):
        raise _no_label_ids(caller, form, ids)
    if gains is not None and gains.shape != ids.shape:
        raise ValueError(
            f"{caller}: target_gains is {shape_of(gains)}, but target_ids is {shape_of(ids)}; pass one gain per id."
        )
    one_per_row = ids.ndim == 1
    if ids.dtype != torch.int64:
        ids = ids.to(torch.int64)
    if one_per_row:
        ids = ids.unsqueeze(1)
    if row_mask is not None:
        ids = context.counted(ids)

    filled = False
    if context.validate:
        distinct = not (context.counts_repeats or context.of_documents)
        lowest = check_lists(context, form, ids, distinct=distinct, one_per_row=one_per_row)
        filled = lowest >= 0 and row_mask is None and ids.shape[1] > 0
    if gains is None:
        return Targets(ids.shape[0], context.num_labels, row_mask, context.kernels, padded=ids, filled=filled)

    gains = gains.to(torch.float64).reshape(ids.shape)
    if context.validate:
        argument = "target_gains" if form == "target_ids" else form
        check_gains(context, argument, gains, row_mask)
    entries = context.kernels.without_void(entries_of_ids(torch.where(gains > 0, ids, -1), gains))
    judgments = entries_of_ids(ids, None)
    return Targets(len(ids), context.num_labels, row_mask, context.kernels, given=entries, judgments=judgments)


def _no_label_ids(caller: str, form: str, target: Tensor) -> TypeError:
    """Return the error for a target that holds neither label ids nor a column for each label."""
    if target.dtype == torch.bool and target.ndim == 1:
        return TypeError(
            f"{caller}: {form} is {shape_of(target)}, one column of a multi-hot target; pass target[:, None] beside "
            "scores of one label, or the whole multi-hot [N, L]."
        )
    return TypeError(
        f"{caller}: {form} is {shape_of(target)}; label ids are integers of shape [N] (one per row) "
        "or [N, M] padded with -1: pass target.long()."
    )


def _targets_from_matrix(context: Context, form: str, matrix: Tensor) -> Targets:
    """Return the targets of a dense matrix (N, L): bool multi-hot, or gains of any number type."""
    row_mask = context.row_mask
    targets = Targets(len(matrix), matrix.shape[1], row_mask, context.kernels, dense=matrix)
    if matrix.dtype == torch.bool:
        return targets
    targets = context.kernels.form_of_gains(targets)
    if context.validate:
        positive = None if targets.given is None else targets.given.gains
        check_gains(context, form, matrix, row_mask, positive)
    return targets


def _targets_from_csr(context: Context, form: str, matrix: Tensor) -> Targets:
    """Return the targets of a CSR matrix (N, L) of gains; a stored zero is not relevant."""
    num_rows, width = matrix.shape
    rows, ids, values = csr_entries(context, form, matrix)
    is_counted = None if context.row_mask is None else context.row_mask[rows]
    if context.validate:
        check_gains(context, form, values, is_counted)
    is_relevant = values > 0
    if is_counted is not None:
        is_relevant = is_relevant & is_counted
    gains = None if values.dtype == torch.bool else values.to(torch.float64)
    entries = context.kernels.without_void(Entries(rows, torch.where(is_relevant, ids, -1), gains, width))
    counted_ids = ids if is_counted is None else torch.where(is_counted, ids, -1)
    judgments = Entries(rows, counted_ids, None, width)
    return Targets(num_rows, width, context.row_mask, context.kernels, given=entries, judgments=judgments)
