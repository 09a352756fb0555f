"""What ``update`` is to understand of its arguments, read element by element: rows for the oracle, or a refusal.

A second reading of the documented forms of preds and target, in plain loops; it shares no line with the library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oracle import Row, rank_scores

INTEGERS = {"torch.int64", "torch.int32", "torch.int16", "torch.int8", "torch.uint8"}
UNSIGNED = {"torch.uint16", "torch.uint32", "torch.uint64"}
FLOATS = {"torch.float64", "torch.float32", "torch.float16", "torch.bfloat16"}


class Refused(Exception):
    """These arguments mean nothing: an error is the only right answer."""


class Unsure(Exception):
    """An answer and an error are both fine."""


@dataclass(frozen=True)
class Reading:
    """The rows that count, their scores best first (None for ids), and whether all labels were scored."""

    rows: list[Row]
    values: list[list[float]] | None
    dense: bool
    num_labels: int | None


def refuse(wrong: bool, reason: str) -> None:
    """Raise if something is wrong."""
    if wrong:
        raise Refused(reason)


def read(preds: Any, target: Any, row_mask: Any, num_labels: int | None) -> Reading:
    """Read a batch for a metric of ``num_labels`` labels, None when it does not know."""
    lists, dense, preds_shape = _lists(preds)
    if preds_shape is not None:
        refuse(num_labels not in (None, preds_shape[1]), "one score per label")
        num_labels = preds_shape[1]
    keep = _mask(row_mask, len(lists))
    relevant, target_width = _relevant(target, len(lists), preds_shape, num_labels, keep)
    num_labels = target_width if num_labels is None else num_labels
    kept = [number for number, kept in enumerate(keep) if kept]
    for number in kept:
        _check_list(lists[number], num_labels)
    rows = [Row(lists[number].ranked, relevant[number], lists[number].scores) for number in kept]
    scored = not lists or lists[0].values is not None
    values = [lists[number].values or [] for number in kept] if scored and not _is_ids(preds) else None
    return Reading(rows, values, dense, num_labels)


@dataclass(frozen=True)
class _List:
    """One row of preds: ids as given, ranked ids, their scores, all scores if dense."""

    given: list[int]
    ranked: list[int]
    values: list[float] | None
    scores: list[float] | None
    wrong: str | None = None


def _check_list(row: _List, num_labels: int | None) -> None:
    refuse(row.wrong is not None, row.wrong or "")
    ids = [label for label in row.given if label >= 0]
    refuse(len(set(ids)) < len(ids), "an id twice")
    refuse(any(label < -1 for label in row.given), "an id below -1")
    refuse(num_labels is not None and any(label >= num_labels for label in ids), "an id outside")


def _is_ids(preds: Any) -> bool:
    return not isinstance(preds, (tuple, list)) and str(getattr(_tensor(preds), "dtype", "")) in INTEGERS


def _tensor(value: Any) -> Any:
    """Tensors as they are; arrays as tensors without looking at how they lie in memory."""
    if isinstance(value, np.ndarray):
        try:
            return torch.tensor(np.ascontiguousarray(value).astype(value.dtype.newbyteorder("=")))
        except TypeError as error:
            raise Refused(str(error)) from error
    if hasattr(value, "tocsr"):
        matrix = value.tocsr()
        refuse(matrix.ndim != 2, "two axes")
        return _Csr(
            matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist(), matrix.shape, str(matrix.dtype)
        )
    if isinstance(value, Tensor) and value.layout == torch.sparse_csr:
        refuse(value.ndim != 2, "two axes")
        return _Csr(
            value.crow_indices().tolist(),
            value.col_indices().tolist(),
            value.values().detach().tolist() if value.dtype.itemsize <= 8 and not value.dtype.is_complex else [],
            tuple(value.shape),
            str(value.dtype).removeprefix("torch."),
        )
    refuse(not isinstance(value, Tensor), "a tensor")
    refuse(value.layout != torch.strided, "strided or CSR")
    return value.detach()


@dataclass(frozen=True)
class _Csr:
    crow: list[int]
    columns: list[int]
    values: list[Any]
    shape: tuple[int, ...]
    kind: str

    @property
    def dtype(self) -> str:
        return f"torch.{self.kind}"

    def rows(self) -> list[dict[int, float]]:
        """Column -> value of each row; refuses what is no CSR matrix."""
        steps = list(zip(self.crow, self.crow[1:], strict=False))
        broken = self.crow[0] != 0 or self.crow[-1] != len(self.columns) or any(a > b for a, b in steps)
        refuse(broken, "broken row pointers")
        refuse(any(not 0 <= column < self.shape[1] for column in self.columns), "a column outside")
        found = []
        for start, stop in steps:
            columns = self.columns[start:stop]
            refuse(len(set(columns)) < len(columns), "a column twice")
            found.append(dict(zip(columns, map(float, self.values[start:stop]), strict=True)))
        return found


def _kind(value: Any) -> str:
    """The number type; torch itself can hardly handle the unsigned ones beyond uint8."""
    if str(value.dtype) in UNSIGNED:
        raise Unsure("unsigned integers")
    return str(value.dtype)


def _lists(preds: Any) -> tuple[list[_List], bool, tuple[int, ...] | None]:
    """The rows of preds, whether dense, and the shape if it tells the number of labels."""
    if isinstance(preds, (tuple, list)):
        refuse(len(preds) != 2, "a pair")
        return _candidates(_tensor(preds[0]), _tensor(preds[1])), False, None
    preds = _tensor(preds)
    kind = _kind(preds)
    if isinstance(preds, _Csr):
        refuse(kind not in FLOATS, "floating scores")
        return [_scored(list(row), list(row.values())) for row in preds.rows()], False, preds.shape
    refuse(kind not in INTEGERS | FLOATS, "scores or ids")
    refuse(preds.ndim != 2, "two axes")
    if kind in FLOATS:
        rows = [_scored(list(range(len(row))), row, dense=True) for row in preds.tolist()]
        return rows, True, tuple(preds.shape)
    return [_ids(row) for row in preds.tolist()], False, None


def _candidates(scores: Any, ids: Any) -> list[_List]:
    refuse(not isinstance(scores, Tensor) or not isinstance(ids, Tensor), "two tensors")
    refuse(_kind(scores) not in FLOATS or _kind(ids) not in INTEGERS, "scores and ids")
    refuse(scores.ndim != 2 or scores.shape != ids.shape, "one shape [N, C]")
    return [_scored(row, own) for row, own in zip(ids.tolist(), scores.tolist(), strict=True)]


def _scored(ids: list[int], scores: list[float], dense: bool = False) -> _List:
    wrong = "NaN" if any(map(math.isnan, scores)) else None
    by_id = {label: score for label, score in zip(ids, scores, strict=True) if label >= 0 and score != -math.inf}
    ranked = [] if wrong else sorted(by_id, key=lambda label: (-by_id[label], label))
    if dense and not wrong:
        assert ranked == rank_scores(scores)
    return _List(ids, ranked, [by_id[label] for label in ranked], scores if dense else None, wrong)


def _ids(row: list[int]) -> _List:
    listed = [label for label in row if label != -1]
    wrong = "an id behind -1" if row[: len(listed)] != listed else None
    return _List(row, listed, None, None, wrong)


def _mask(row_mask: Any, num_rows: int) -> list[bool]:
    if row_mask is None:
        return [True] * num_rows
    if not isinstance(row_mask, (Tensor, np.ndarray, list)):
        raise Refused("a bool mask")
    refuse(getattr(row_mask, "ndim", 1) != 1, "one axis")
    listed = row_mask if isinstance(row_mask, list) else row_mask.tolist()
    refuse(not isinstance(listed, list) or len(listed) != num_rows, "one entry per row")
    refuse(any(not isinstance(entry, bool) for entry in listed), "bool entries")
    if num_rows == 0 and str(getattr(row_mask, "dtype", "")) not in ("torch.bool", "bool"):
        raise Unsure("an empty mask of another type")
    return listed


def _relevant(
    target: Any, num_rows: int, preds_shape: tuple[int, ...] | None, num_labels: int | None, keep: list[bool]
) -> tuple[list[dict[int, float]], int | None]:
    """The gain of each relevant label per row, and the number of labels if the form tells."""
    target = _tensor(target)
    kind = _kind(target)
    if isinstance(target, _Csr):
        refuse(kind not in INTEGERS | FLOATS | {"torch.bool"}, "gains")
        refuse(target.shape[0] != num_rows, "one row per row")
        refuse(num_labels not in (None, target.shape[1]), "one column per label")
        rows = target.rows()
        return [_gains(row, kept) for row, kept in zip(rows, keep, strict=True)], target.shape[1]
    refuse(kind not in INTEGERS | FLOATS | {"torch.bool"}, "a number type")
    refuse(target.ndim not in (1, 2) or target.shape[0] != num_rows, "one row per row")
    whole = kind in INTEGERS
    if not whole or (target.ndim == 2 and tuple(target.shape) == preds_shape):
        refuse(target.ndim != 2, "a matrix")
        refuse(num_labels not in (None, target.shape[1]), "one column per label")
        rows = [dict(enumerate(map(float, row))) for row in target.tolist()]
        return [_gains(row, kept) for row, kept in zip(rows, keep, strict=True)], target.shape[1]
    listed = [row if isinstance(row, list) else [row] for row in target.tolist()]
    return [_of_ids(row, num_labels, kept) for row, kept in zip(listed, keep, strict=True)], None


def _gains(row: dict[int, float], kept: bool) -> dict[int, float]:
    if not kept:
        return {}
    refuse(any(not gain >= 0 or math.isinf(gain) for gain in row.values()), "gains are finite and not negative")
    if any(gain > 1e30 for gain in row.values()):
        raise Unsure("gains may be bounded")
    return {label: gain for label, gain in row.items() if gain > 0}


def _of_ids(row: list[int], num_labels: int | None, kept: bool) -> dict[int, float]:
    if not kept:
        return {}
    ids = [label for label in row if label != -1]
    refuse(any(label < -1 for label in ids), "an id below -1")
    refuse(len(set(ids)) < len(ids), "an id twice")
    refuse(num_labels is not None and any(label >= num_labels for label in ids), "an id outside")
    return dict.fromkeys(ids, 1.0)
