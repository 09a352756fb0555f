"""The arguments of an update read: which form each has, and whether they fit together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_count, check_row_mask, shape_of
from tailmetrics.ranking._inputs import Context, as_tensor, is_column_of_ids, is_csr
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._lists import (
    Lists,
    first_of,
    lists_from_candidates,
    lists_from_csr,
    lists_from_ids,
    lists_from_scores,
)
from tailmetrics.ranking._targets import Targets, targets_from_csr, targets_from_ids, targets_from_matrix
from tailmetrics.ranking._validation import warn_of_ids, warn_of_scores


@dataclass(frozen=True)
class ExplicitTarget:
    """The target in one of the forms that leave nothing to guess; None for the forms that were not given."""

    ids: Any = None
    mask: Any = None
    gains: Any = None


class Predictions(NamedTuple):
    """What a model predicted, in one of the accepted forms.

    Attributes:
        main: The tensor that says how many rows there are: scores, or ids where there are no scores.
        scores: Shape (N, L), dense; (N, C), of candidates; CSR (N, L); None for ranked ids.
        ids: Shape (N, K), ranked; (N, C), of candidates; None for dense scores and CSR.
        num_columns: L where the form has one column per label, else None.
        dense: Dense scores of all labels, None for any other form.
    """

    main: Tensor
    scores: Tensor | None = None
    ids: Tensor | None = None
    num_columns: int | None = None
    dense: Tensor | None = None


@dataclass(frozen=True)
class Depth:
    """How much of a batch is to be ranked.

    Attributes:
        scores: How many labels of dense scores; None for all.
        lists: How many places of ids, candidates and CSR; None for all.
        complete: Whether ids and candidates hold everything that was retrieved.
        decisions: Whether ``preds`` may be bool (N, L), which have no order.
    """

    scores: int | None
    lists: int | None = None
    complete: bool = True
    decisions: bool = False


def read_batch(
    context: Context, preds: Any, target: Any, row_mask: Any, depth: Depth, scored: bool | None = None
) -> tuple[Context, Predictions, Lists, Targets]:
    """Read and rank a batch; nothing is changed.

    Args:
        context: Who asks.
        preds: In any form.
        target: In any form, an :class:`ExplicitTarget` included.
        row_mask: Shape (N,), bool, or None.
        depth: How much is ranked.
        scored: True where ``preds`` must be scores, False where they must be ids, None for either.

    Returns:
        The context with what was learnt of it, the predictions, ranked lists and targets.
    """
    if context.num_labels is not None and type(context.num_labels) is not int:
        check_count(context.caller, "num_labels", context.num_labels)
    predictions = read_predictions(context, preds, scored, depth.decisions)
    main = predictions.main
    context = replace(
        context,
        num_labels=context.num_labels if predictions.num_columns is None else predictions.num_columns,
        row_mask=None if row_mask is None else check_row_mask(context.caller, row_mask, main.shape[0], main.device),
        kernels=kernels_for(main.device),
    )
    shape = main.shape if predictions.num_columns is not None else None
    targets = read_target(context, target, main.shape[0], shape, main.device)
    if context.num_labels is None:
        context = replace(context, num_labels=targets.num_labels)
    lists = _ranked(context, predictions, depth)
    if context.warns and context.validate and not depth.decisions:
        if predictions.scores is None:
            warn_of_ids(context, main)
        elif predictions.dense is not None:
            warn_of_scores(context, main, target)
    return context, predictions, lists, targets


def read_training_target(context: Context, target: Any, target_ids: Any, row_mask: Any) -> Targets:
    """Read a target that comes without ``preds``; integers of width ``num_labels`` are a matrix."""
    caller, context = context.caller, replace(context, counts_repeats=True)
    if (target is None) == (target_ids is None):
        got = "both target and target_ids" if target is not None else "neither target nor target_ids"
        raise TypeError(f"{caller}: got {got}; pass one of them.")
    argument, value = ("target", target) if target_ids is None else ("target_ids", target_ids)
    ids_only = target_ids is not None or is_column_of_ids(value)
    value = as_tensor(caller, argument, value)
    given = ExplicitTarget(ids=value) if ids_only else value
    num_rows = value.shape[0] if value.ndim else 0
    row_mask = check_row_mask(caller, row_mask, num_rows, value.device)
    context = replace(context, row_mask=row_mask, kernels=kernels_for(value.device))
    assert context.num_labels is not None
    shape = torch.Size((num_rows, context.num_labels))
    return read_target(context, given, num_rows, shape, value.device)


def read_predictions(context: Context, preds: Any, scored: bool | None, decisions: bool = False) -> Predictions:
    """Tell which form ``preds`` have, and check it."""
    caller = context.caller
    if isinstance(preds, (tuple, list)) and len(preds) == 2 and scored is not False:
        return _read_pair(caller, *preds)
    preds = as_tensor(caller, "preds", preds)
    if decisions and preds.dtype == torch.bool and preds.ndim == 2:
        return Predictions(preds, preds, None, preds.shape[1], preds)
    if preds.dtype not in INTEGERS and not preds.is_floating_point():
        raise TypeError(
            f"{caller}: preds is {shape_of(preds)}; pass floating scores or integer ids. Decisions go to a metric with "
            "a threshold, and a target comes second."
        )
    if scored is False and preds.is_floating_point():
        raise TypeError(
            f"{caller}: ids is {shape_of(preds)}; label ids are integers. Scores go to Ranking.from_scores."
        )
    if scored is True and not preds.is_floating_point():
        raise TypeError(f"{caller}: scores is {shape_of(preds)}; scores are floating. Ids go to Ranking.from_ids.")
    if preds.ndim != 2:
        raise ValueError(
            f"{caller}: preds is {shape_of(preds)}; pass shape [N, L] for scores or [N, K] for ranked ids "
            "(a single row needs a row axis: preds[None]; a target, such as class indices, comes second)."
        )
    if not preds.is_floating_point() and not is_csr(preds):
        return Predictions(preds, None, preds)
    if context.num_labels not in (None, preds.shape[1]):
        raise ValueError(
            f"{caller}: preds has {preds.shape[1]} columns, but there are {context.num_labels} labels; "
            "pass one per label."
        )
    return Predictions(preds, preds, None, preds.shape[1], preds if preds.layout == torch.strided else None)


def _read_pair(caller: str, scores: Any, ids: Any) -> Predictions:
    scores, ids = as_tensor(caller, "preds[0]", scores), as_tensor(caller, "preds[1]", ids)
    if is_csr(scores) or is_csr(ids):
        raise TypeError(f"{caller}: preds is a pair with a CSR matrix; pass dense scores [N, C] and ids [N, C].")
    if scores.device != ids.device:
        raise ValueError(f"{caller}: preds is a pair on {scores.device} and {ids.device}; move both to one device.")
    if scores.ndim != 2:
        raise ValueError(
            f"{caller}: preds is the pair ({shape_of(scores)}, {shape_of(ids)}); pass floating scores [N, C] and "
            "integer ids [N, C] of one shape."
        )
    return Predictions(scores, scores, ids)


def _ranked(context: Context, predictions: Predictions, depth: Depth) -> Lists:
    scores, ids = predictions.scores, predictions.ids
    if scores is None:
        assert ids is not None
        # the first batch is checked whole, later ones as far as they are read: what stands behind changes no value
        read = ids if depth.lists is None or context.warns else ids[:, : depth.lists]
        lists = lists_from_ids(context, read, depth.complete and read.shape[1] == ids.shape[1])
    elif ids is not None:
        lists = lists_from_candidates(context, scores, ids, depth.complete)
    elif scores.dtype == torch.bool:
        nothing = torch.zeros(len(scores), 0, dtype=torch.int64, device=scores.device)
        lists = Lists(nothing, None, complete=False)
    elif scores.layout == torch.sparse_csr:
        lists = lists_from_csr(context, scores, depth.lists)
    else:
        lists = lists_from_scores(context, scores, scores.shape[1] if depth.scores is None else depth.scores)
    return lists if depth.lists is None or lists.ids.shape[1] <= depth.lists else first_of(lists, depth.lists)


def read_target(
    context: Context, target: Any, num_rows: int, scores_shape: torch.Size | None, device: torch.device
) -> Targets:
    """Tell which form ``target`` has, check it against ``preds``, and bring it to what a ranking reads."""
    caller, gains, argument = context.caller, None, "target"
    if not isinstance(target, (Tensor, ExplicitTarget)) and is_column_of_ids(target):
        target = ExplicitTarget(ids=target)
    if isinstance(target, ExplicitTarget):
        argument, target, gains = _choose(caller, target)
    target = as_tensor(caller, argument, target)
    if target.device != device:
        raise ValueError(f"{caller}: {argument} is on {target.device}, preds on {device}; move both to one device.")
    if target.ndim not in (1, 2) or target.shape[0] != num_rows:
        raise ValueError(
            f"{caller}: {argument} is {shape_of(target)}, but preds has {num_rows} rows; pass one row of target per "
            "row of preds: [N], [N, M] or [N, L]."
        )
    is_matrix = argument in ("target_mask", "target_gains") or (
        argument == "target" and target.ndim == 2 and (target.dtype not in INTEGERS or target.shape == scores_shape)
    )
    if target.layout == torch.sparse_csr:
        return targets_from_csr(context, argument, target)
    if not is_matrix:
        return targets_from_ids(context, argument, target, gains)
    if target.ndim == 2:
        return targets_from_matrix(context, argument, target)
    raise ValueError(f"{caller}: {argument} is {shape_of(target)}; pass shape [N, L], one column per label.")


def _choose(caller: str, given: ExplicitTarget) -> tuple[str, Any, Tensor | None]:
    """Return the name and value of the one target given, and the gains that go with ids."""
    named = {"target_ids": given.ids, "target_mask": given.mask, "target_gains": given.gains}
    present = [name for name, value in named.items() if value is not None]
    if present == ["target_ids", "target_gains"]:
        return "target_ids", given.ids, as_tensor(caller, "target_gains", given.gains)
    if len(present) != 1:
        raise TypeError(
            f"{caller}: got {' and '.join(present) or 'no target'}; pass one of target_ids, target_mask, target_gains "
            "(or target_gains beside target_ids, one gain per id)."
        )
    if present == ["target_mask"]:
        mask = as_tensor(caller, "target_mask", given.mask)
        if mask.dtype != torch.bool:
            raise TypeError(f"{caller}: target_mask is {shape_of(mask)}; pass bool of shape [N, L].")
    return present[0], named[present[0]], None
