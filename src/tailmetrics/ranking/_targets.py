"""What is relevant in each row, and what rows weigh: every accepted form brought to one of three."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_row_mask, shape_of
from tailmetrics.ranking._hits import Entries, entries_of_ids
from tailmetrics.ranking._inputs import Context, as_tensor, is_column_of_ids
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._validation import check_gains, check_lists, csr_entries


@dataclass(frozen=True)
class ExplicitTarget:
    """The target in one of the forms that leave nothing to guess; None for the forms that were not given."""

    ids: Any = None
    mask: Any = None
    gains: Any = None


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
    if not is_matrix and target.layout == torch.strided:
        return _targets_from_ids(context, argument, target, gains)
    if target.ndim != 2:
        raise ValueError(f"{caller}: {argument} is {shape_of(target)}; pass shape [N, L], one column per label.")
    if context.num_labels not in (None, target.shape[1]):
        raise ValueError(
            f"{caller}: {argument} has {target.shape[1]} columns, but there are {context.num_labels} labels; "
            "pass one column per label, or label ids, which are integers."
        )
    return (_targets_from_csr if target.layout == torch.sparse_csr else _targets_from_matrix)(context, argument, target)


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


def _targets_from_ids(context: Context, argument: str, ids: Tensor, gains: Tensor | None) -> Targets:
    """Return targets given as label ids: shape [N] (one per row, -1 for none) or [N, M] padded with -1."""
    caller, row_mask = context.caller, context.row_mask
    if ids.dtype not in INTEGERS or ids.ndim not in (1, 2):
        raise TypeError(
            f"{caller}: {argument} is {shape_of(ids)}; label ids are integers of shape [N] (one per row) "
            "or [N, M] padded with -1: pass target.long()."
        )
    if gains is not None and gains.shape != ids.shape:
        raise ValueError(
            f"{caller}: target_gains is {shape_of(gains)}, but target_ids is {shape_of(ids)}; pass one gain per id."
        )
    ids, one_per_row = ids.detach().to(torch.int64), ids.ndim == 1
    ids = ids.unsqueeze(1) if one_per_row else ids
    ids = ids if row_mask is None else context.counted(ids)
    gains = None if gains is None else gains.detach().to(torch.float64).reshape(ids.shape)
    filled = False
    if context.validate:
        lowest = check_lists(context, argument, ids, distinct=not context.counts_repeats, one_per_row=one_per_row)
        filled = lowest >= 0 and row_mask is None and ids.shape[1] > 0
        if gains is not None:
            check_gains(caller, "target_gains", gains, row_mask)
    if gains is None:
        return Targets(len(ids), context.num_labels, row_mask, context.kernels, padded=ids, filled=filled)
    entries = context.kernels.without_void(entries_of_ids(torch.where(gains > 0, ids, -1), gains))
    return Targets(len(ids), context.num_labels, row_mask, context.kernels, given=entries)


def _targets_from_matrix(context: Context, argument: str, matrix: Tensor) -> Targets:
    """Return targets given as a dense [N, L] matrix: bool multi-hot, or gains of any number type."""
    row_mask = context.row_mask
    matrix, kernels = matrix.detach(), context.kernels
    targets = Targets(len(matrix), matrix.shape[1], row_mask, kernels, dense=matrix)
    if matrix.dtype == torch.bool:
        return targets
    targets = kernels.form_of_gains(targets)
    if context.validate:
        check_gains(context.caller, argument, matrix, row_mask, None if targets.given is None else targets.given.gains)
    return targets


def _targets_from_csr(context: Context, argument: str, matrix: Tensor) -> Targets:
    """Return targets given as CSR [N, L] whose stored values are gains; a stored zero is not relevant."""
    caller, row_mask = context.caller, context.row_mask
    num_rows, width = matrix.shape
    rows, ids, values = csr_entries(context, argument, matrix)
    if context.validate:
        check_gains(caller, argument, values, None if row_mask is None else row_mask[rows])
    relevant = values > 0 if row_mask is None else (values > 0) & row_mask[rows]
    gains = None if values.dtype == torch.bool else values.to(torch.float64)
    entries = context.kernels.without_void(Entries(rows, torch.where(relevant, ids, -1), gains, width))
    return Targets(num_rows, width, row_mask, context.kernels, given=entries)


LARGEST_WEIGHT = 2.0**40
"""Row weights up to this one add up exactly in the states of the metrics."""

SMALLEST_WEIGHT = 2.0**-40
"""Row weights from this one on, but for 0, keep at least 38 binary digits of a value in states that hold 2^-78."""


@dataclass(frozen=True, eq=False)
class BatchRows:
    """Row groups and row weights of N rows.

    Attributes:
        groups: Shape (N,), int64: the row group of each row, -1 for none; None where none were given.
        weights: Shape (N,), float64, >= 0; None where every row weighs 1.
    """

    groups: Tensor | None = None
    weights: Tensor | None = None

    @property
    def plain(self) -> bool:
        """Whether rows have neither groups nor weights."""
        return self.groups is None and self.weights is None


def read_batch_rows(
    context: Context, num_rows: int, device: torch.device, row_groups: Any, row_weights: Any
) -> BatchRows:
    """Read ``row_groups`` and ``row_weights`` of an update."""
    caller, row_mask, validate = context.caller, context.row_mask, context.validate
    groups = None if row_groups is None else _vector(caller, "row_groups", row_groups, num_rows)
    weights = None if row_weights is None else _vector(caller, "row_weights", row_weights, num_rows)
    if groups is not None:
        if groups.dtype not in INTEGERS:
            raise TypeError(
                f"{caller}: row_groups is {shape_of(groups)}; pass the number of each row's group as integers of shape "
                f"[{num_rows}], -1 for a row that counts only overall."
            )
        if validate and num_rows and int(groups.min()) < -1:
            raise ValueError(f"{caller}: row_groups holds {int(groups.min())}; numbers start at 0, and -1 is none.")
        groups = groups.to(device, torch.int64)
    if weights is not None:
        weights = weights.to(device, torch.float64)
        weights = weights if row_mask is None else torch.where(row_mask, weights, 0.0)
        inside = (weights == 0) | ((weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT))
        if validate and num_rows and not bool(inside.all()):
            wrong = float(weights[~inside][0])
            raise ValueError(
                f"{caller}: row_weights holds {wrong:g}; weights must be 0 or from {SMALLEST_WEIGHT:g} to "
                f"{LARGEST_WEIGHT:g}. Only their ratios matter: multiply all of them by one number."
            )
    return BatchRows(groups, weights)


def _vector(caller: str, argument: str, value: Any, num_rows: int) -> Tensor:
    """Return a vector of one number per row."""
    try:
        vector: Tensor = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{caller}: {argument} is a {type(value).__name__}; pass one number per row, shape [{num_rows}]."
        ) from None
    if vector.shape != (num_rows,) or vector.dtype == torch.bool or vector.is_complex():
        raise ValueError(
            f"{caller}: {argument} is {shape_of(vector)}, but there are {num_rows} rows; pass one number per row, "
            f"shape [{num_rows}]."
        )
    return vector.reshape(-1)
