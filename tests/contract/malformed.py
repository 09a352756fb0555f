"""Batches as a careless caller might pass them: right ones, slightly wrong ones and nonsense, drawn by Hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
import torch
from hypothesis import strategies as st
from torch import Tensor

Edit: TypeAlias = Callable[[Tensor, torch.Generator], Any]
Draw: TypeAlias = Callable[[Any], Any]

WIDTHS = [40] * 22 + [0, 1, 5, 16, 39, 41]
JUNK: list[Any] = [None, "text", object(), 3, 1.5, True, [], [[0.1, 0.2]], [[1], [2]], (), {}, b"x", {1}, range(3)]


def _at(value: float) -> Edit:
    """Put a value into one cell, if there is one."""

    def edit(values: Tensor, generator: torch.Generator) -> Tensor:
        values = values.clone()
        if values.numel():
            values.view(-1)[int(torch.randint(values.numel(), (1,), generator=generator))] = value
        return values

    return edit


def _twice(values: Tensor, generator: torch.Generator) -> Tensor:
    """Copy the first column over the last one."""
    values = values.clone()
    if values.ndim == 2 and values.shape[1] > 1:
        values[:, -1] = values[:, 0]
    return values


VALUES: list[Edit] = [
    _at(float("nan")),
    _at(float("inf")),
    _at(-float("inf")),
    _at(-0.0),
    _at(-1.0),
    lambda values, _: values * 0 - 0.0,
    lambda values, _: torch.full_like(values, -float("inf")),
    lambda values, _: torch.ones_like(values),
    lambda values, _: values.sign() * 0.0,
    _twice,
]
IDS: list[Edit] = [
    _at(-1),
    _at(-2),
    _at(40),
    _at(39),
    _at(41),
    _at(2**31),
    _at(10**15),
    _at(0),
    _twice,
    lambda ids, _: ids.flip(-1),
]
FLOAT_TYPES: list[Edit] = [
    lambda values, _: values.double(),
    lambda values, _: values.half(),
    lambda values, _: values.bfloat16(),
    lambda values, _: values.to(torch.float8_e4m3fn),
    lambda values, _: values.to(torch.complex64),
    lambda values, _: values > 0,
    lambda values, _: values.nan_to_num().to(torch.int64),
    lambda values, _: values.nan_to_num().to(torch.int8),
    lambda values, _: values.nan_to_num().abs().to(torch.uint16),
]
ID_TYPES: list[Edit] = [
    lambda ids, _: ids.int(),
    lambda ids, _: ids.short(),
    lambda ids, _: ids.to(torch.int8),
    lambda ids, _: ids.to(torch.uint8),
    lambda ids, _: ids.clamp(min=0).to(torch.uint16),
    lambda ids, _: ids.clamp(min=0).to(torch.uint32),
    lambda ids, _: ids.float(),
    lambda ids, _: ids.bool(),
]
SHAPES: list[Edit] = [
    lambda values, _: values[0] if len(values) else values.flatten(),
    lambda values, _: values[None],
    lambda values, _: values[..., None],
    lambda values, _: values[:, :-1] if values.ndim > 1 else values,
    lambda values, _: torch.cat([values, values[:1]]),
    lambda values, _: values[1:],
    lambda values, _: values.t() if values.ndim == 2 else values,
    lambda values, _: values.flatten()[0] if values.numel() else values,
    lambda values, _: values[:, :0] if values.ndim > 1 else values[:0],
]
LAYOUTS: list[Edit] = [
    lambda values, _: values.t().contiguous().t() if values.ndim == 2 else values,
    lambda values, _: torch.stack([values, values], dim=-1)[..., 0],
    lambda values, _: values[:1].expand(values.shape),
    lambda values, _: torch.cat([values.new_zeros(3), values.flatten()])[3:].view(values.shape),
    lambda values, _: torch.cat([values, values], dim=-1)[..., : values.shape[-1]] if values.ndim else values,
    lambda values, _: values.clone().requires_grad_() if values.is_floating_point() else values,
    lambda values, _: _numpy(values),
    lambda values, _: _numpy(values)[::-1],
    lambda values, _: _numpy(values).astype(object),
    lambda values, _: _read_only(_numpy(values)),
    lambda values, _: values.tolist(),
    lambda values, _: values.to_sparse() if values.ndim == 2 else values,
    lambda values, _: values.to_sparse_csc() if values.ndim == 2 else values,
]


def _numpy(values: Tensor) -> Any:
    known = values.dtype not in (torch.bfloat16, torch.float8_e4m3fn)
    return (values if known else values.float()).numpy()


def _read_only(values: Any) -> Any:
    values = np.ascontiguousarray(values)
    values.flags.writeable = False
    return values


def _edited(draw: Draw, value: Tensor, kinds: list[list[Edit]], often: int, generator: torch.Generator) -> Any:
    """Apply no, one or two of the edits; one that does not apply is left out."""
    for _ in range(draw(st.sampled_from([0] * often + [1, 1, 1, 2]))):
        edit = draw(st.sampled_from(draw(st.sampled_from(kinds))))
        if isinstance(value, Tensor) and not value.is_complex():
            try:
                value = edit(value, generator)
            except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
                continue
    return value


def _permutations(num_rows: int, width: int, length: int, generator: torch.Generator) -> Tensor:
    """Distinct ids per row, -1 behind the end."""
    ids = torch.rand(num_rows, width, generator=generator).argsort(dim=1)[:, :length]
    lengths = torch.randint(length + 1, (num_rows, 1), generator=generator)
    return torch.where(torch.arange(ids.shape[1]) < lengths, ids, -1)


def _csr(draw: Draw, matrix: Tensor, generator: torch.Generator) -> Any:
    """A matrix with about a third of its cells stored, whole or with broken structure."""
    stored = torch.rand(matrix.shape, generator=generator) < 0.3
    crow = torch.cat([torch.zeros(1, dtype=torch.int64), stored.sum(dim=1).cumsum(0)])
    columns, values = stored.nonzero()[:, 1], matrix[stored]
    values = _edited(draw, values, [VALUES, FLOAT_TYPES], 24, generator)
    if not isinstance(values, Tensor):
        return matrix
    wrong = draw(st.sampled_from([""] * 6 + ["twice", "outside", "below", "pointers", "unsorted", "unsorted"]))
    if wrong == "unsorted" and len(columns):
        parts = torch.arange(len(columns)).split(stored.sum(dim=1).tolist())
        order = torch.cat([part.flip(0) for part in parts])
        columns, values = columns[order], values[order]
    if wrong in ("twice", "outside", "below") and len(columns) > 1:
        columns = columns.clone()
        columns[1] = {"twice": int(columns[0]), "outside": matrix.shape[1], "below": -1}[wrong]
    if wrong == "pointers" and len(crow) > 1:
        crow = crow.flip(0) if draw(st.booleans()) else crow + 1
    form = draw(st.sampled_from(["torch", "torch", "int32", "scipy", "scipy csc"]))
    whole = wrong in ("", "twice", "unsorted") and values.dtype in (torch.float32, torch.float64)
    if form.startswith("scipy") and whole:
        parts = (values.detach().numpy(), columns.numpy().astype(np.int32), crow.numpy().astype(np.int32))
        made = scipy.sparse.csr_matrix(parts, shape=tuple(matrix.shape))
        return made if form == "scipy" or wrong else made.tocsc()
    kind = torch.int32 if form == "int32" else torch.int64
    return torch.sparse_csr_tensor(crow.to(kind), columns.to(kind), values, size=matrix.shape, check_invariants=False)


@st.composite
def preds(draw: Draw, num_rows: int, width: int, longest: int = 6) -> Any:
    """Predictions in one of the forms, or something like it."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    scores = (torch.randn(num_rows, width, generator=generator) * 2).round() / 2
    scores = torch.where(torch.rand(scores.shape, generator=generator) < 0.1, -torch.inf, scores)
    form = draw(st.sampled_from(["scores"] * 5 + ["ids"] * 4 + ["pair"] * 3 + ["csr"] * 3 + ["junk"]))
    if form == "junk":
        return draw(st.sampled_from(JUNK))
    if form == "scores":
        return _edited(draw, scores, [*[VALUES] * 4, FLOAT_TYPES, SHAPES, LAYOUTS], 3, generator)
    if form == "csr":
        return _csr(draw, scores, generator)
    ids = _permutations(num_rows, width, draw(st.integers(0, longest)), generator)
    if form == "ids":
        return _edited(draw, ids, [*[IDS] * 4, ID_TYPES, SHAPES, LAYOUTS], 3, generator)
    shuffled = ids[:, torch.randperm(ids.shape[1], generator=generator)]
    found = scores.gather(1, ids.clamp(min=0)) if width else ids.float()
    pair = [
        _edited(draw, found, [*[VALUES] * 4, FLOAT_TYPES, SHAPES, LAYOUTS], 6, generator),
        _edited(draw, shuffled, [*[IDS] * 4, ID_TYPES, SHAPES, LAYOUTS], 6, generator),
    ]
    others = [pair, (*pair, pair[0]), (found.to_sparse(), pair[1]), (found.to_sparse_csr(), pair[1])]
    return draw(st.sampled_from([tuple(pair)] * 8 + others))


@st.composite
def targets(draw: Draw, num_rows: int, width: int, longest: int = 5) -> Any:
    """A target in one of the forms, or something like it."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    form = draw(
        st.sampled_from(["label"] * 3 + ["ids"] * 3 + ["bool"] * 3 + ["gains"] * 3 + ["integers", "csr", "csr", "junk"])
    )
    if form == "junk":
        return draw(st.sampled_from(JUNK))
    if form == "label":
        label = torch.randint(-1, max(1, width), (num_rows,), generator=generator).clamp(max=width - 1)
        return _edited(draw, label, [IDS, ID_TYPES, SHAPES, LAYOUTS], 4, generator)
    if form == "ids":
        ids = _permutations(num_rows, width, draw(st.integers(0, longest)), generator)
        return _edited(draw, ids, [*[IDS] * 4, ID_TYPES, SHAPES, LAYOUTS], 4, generator)
    relevant = torch.rand(num_rows, width, generator=generator) < 0.15
    if form == "bool":
        return _edited(draw, relevant, [SHAPES, LAYOUTS], 4, generator)
    gains = relevant * torch.randint(1, 5, relevant.shape, generator=generator) / 2
    if form == "gains":
        return _edited(draw, gains, [*[VALUES] * 4, FLOAT_TYPES, SHAPES, LAYOUTS], 4, generator)
    if form == "integers":
        return _edited(draw, (gains * 2).long(), [IDS, ID_TYPES, SHAPES], 4, generator)
    return _csr(draw, gains, generator)


@st.composite
def row_masks(draw: Draw, num_rows: int) -> Any:
    """No mask, a mask, or something like one."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    mask = torch.rand(num_rows, generator=generator) < 0.6
    right = [None] * 40 + [mask] * 20 + [mask.numpy(), mask.tolist(), ~mask & mask]
    wrong = [mask.int(), mask[1:], mask[:, None], "text", 1, object(), [[True], [False, True]], mask.float()]
    return draw(st.sampled_from(right + wrong))


@st.composite
def batches(draw: Draw) -> tuple[Any, Any, Any]:
    """preds, target and row_mask."""
    num_rows, width = draw(st.sampled_from([0, 1, 2, 2, 3, 5])), draw(st.sampled_from(WIDTHS))
    return draw(preds(num_rows, width)), draw(targets(num_rows, width)), draw(row_masks(num_rows))


@st.composite
def wide_batches(draw: Draw) -> tuple[Any, Any, Any]:
    """The same over hundreds of labels, where other forms are fast."""
    num_rows, width = draw(st.sampled_from([1, 2, 7, 20])), draw(st.sampled_from([64, 72, 300, 1000, 2048]))
    longest = draw(st.sampled_from([3, 20, 120]))
    return draw(preds(num_rows, width, longest)), draw(targets(num_rows, width, longest)), draw(row_masks(num_rows))
