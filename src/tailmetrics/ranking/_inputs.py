"""Turn the arguments of an update into tensors, once, with one axis of rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from typing_extensions import TypedDict

from tailmetrics._arguments import INTEGERS, check_choice, check_count, shape_of
from tailmetrics._parameters import SHARED_PARAMETERS
from tailmetrics.ranking._columns import from_column, is_column
from tailmetrics.ranking._kernels import PLAIN, Kernels
from tailmetrics.ranking._kernels_cpu import kernels_for

Duplicates: TypeAlias = Literal["error", "first"]


class BatchArguments(TypedDict, total=False):
    """Keyword arguments that say how a batch is read, of every metric; SHARED_PARAMETERS describes them."""

    duplicates: Duplicates
    ignore_index: int | None


BATCH_DEFAULTS: Final[Mapping[str, Any]] = {
    name: SHARED_PARAMETERS[name].default for name in ("duplicates", "ignore_index")
}
"""Every argument of :class:`BatchArguments` with its default."""


def check_batch_argument(caller: str, name: str, value: Any) -> Any:
    """Return an argument of :class:`BatchArguments` after a check."""
    if name == "duplicates":
        return check_choice(caller, name, value, Duplicates)
    if value is None:
        return None
    return check_count(caller, name, value, -(2**62))


OF_ROWS = ("row_mask", "row_groups", "row_weights")
OTHERS = (*OF_ROWS, "indexes", "ids")
"""The optional arguments, all but ``preds`` and ``target``. Most batches have none of them."""


@dataclass(eq=False)
class Context:
    """The settings with which one batch is read; each batch gets a new context.

    Attributes:
        caller: The name that errors begin with.
        num_labels: L; None as long as it is unknown.
        validate: Whether values are checked; the checks make a GPU wait.
        duplicates: ``"error"`` refuses an id that stands twice in a row of preds; ``"first"`` counts its later places
            as misses.
        ignore_index: The label of target ids that is none, such as padding; None if all are labels.
        warns: Whether to warn if the values look like another form than the one that was guessed, such as ranks. True
            for a first batch.
        scored: True if ``preds`` must be scores, False if they must be ids, None for either.
        counts_repeats: Whether a label may stand twice in a row of target ids, as in training data, where labels are
            counted.
        of_documents: Whether the rows were made of flat queries. A label may then stand twice in a row of the target.
        of_tokens: Whether preds and target are ids of one shape, as predicted and true labels of tokens are.
        looked_through: Whether all lists are known to hold no label twice, and no label behind -1.
        row_mask: Shape (N,), bool: the rows that count; None for all.
        kernels: The kernels that read the batch.
        notes: The warnings about the batch that were issued.
    """

    caller: str
    num_labels: int | None = None
    validate: bool = True
    duplicates: Duplicates = "error"
    ignore_index: int | None = None
    warns: bool = False
    scored: bool | None = None
    counts_repeats: bool = False
    of_documents: bool = False
    of_tokens: bool = False
    looked_through: bool = False
    row_mask: Tensor | None = None
    kernels: Kernels = PLAIN
    notes: list[str] = field(default_factory=list)

    def counted(self, ids: Tensor) -> Tensor:
        """Return ``ids`` (N, K) with -1 in the rows that do not count."""
        return ids if self.row_mask is None else ids.where(self.row_mask[:, None], -1)


@dataclass(eq=False)
class Batch:
    """The arguments of an update, first as the caller gave them; :func:`as_tensors` turns them into tensors.

    Attributes:
        preds: Scores, ids or CSR; or a pair of scores and ids.
        target: The relevant labels, in any form.
        row_mask: The rows that count, bool; None for all.
        row_groups: The row group of each row.
        row_weights: The weight of each row.
        indexes: The query of each document; only for flat queries.
        ids: The label of each document; only for flat queries.
        form: The form of ``target``: ``"target_ids"``, ``"target_mask"`` or ``"target_gains"``; ``"target"`` if the
            form follows from its type and shape.
        gains: The gains of a target of ids; None if all are 1.
        documents: Scores and gains of the documents of flat queries that count, shape (n,) each.
    """

    preds: Any
    target: Any = None
    row_mask: Any = None
    row_groups: Any = None
    row_weights: Any = None
    indexes: Any = None
    ids: Any = None
    form: str = "target"
    gains: Tensor | None = None
    documents: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True)
class ExplicitTarget:
    """The target in an explicit form: ids, a mask, gains, or ids with gains. The other attributes are None."""

    ids: Any = None
    mask: Any = None
    gains: Any = None


def as_tensors(context: Context, batch: Batch) -> None:
    """Turn each argument into a tensor, and choose the kernels that read the batch.

    The tensors have one axis of rows: scores (B, T, L) and a target (B, T) become B·T rows. Flat queries keep their
    form. The row mask also excludes the rows that hold nothing but ``ignore_index``.
    """
    for name, default in BATCH_DEFAULTS.items():
        if getattr(context, name) is not default:
            check_batch_argument(context.caller, name, getattr(context, name))
    caller, preds = context.caller, batch.preds
    if not (isinstance(preds, Tensor) and isinstance(batch.target, Tensor)):
        check_indexes(caller, {name: getattr(batch, name) for name in ("preds", "target", *OTHERS)})

    if isinstance(preds, (tuple, list)) and len(preds) == 2:
        first = as_tensor(caller, "preds[0]", preds[0])
        batch.preds = first, as_tensor(caller, "preds[1]", preds[1])
    else:
        batch.preds = first = as_tensor(caller, "preds", preds)
    if isinstance(batch.target, Tensor):
        batch.target = as_tensor(caller, "target", batch.target)
    else:
        batch.form, batch.target, batch.gains = target_as_tensor(caller, batch.target)

    has_others = False
    for name in OTHERS:
        value = getattr(batch, name)
        if value is not None:
            setattr(batch, name, as_tensor(caller, name, value))
            has_others = True

    if batch.indexes is None:
        if has_others or first.ndim != 2:
            _in_rows(caller, batch, first)
        if context.ignore_index is not None:
            without_ignored(caller, batch, context.ignore_index)
        if isinstance(batch.preds, tuple):
            check_pair(caller, "preds", *batch.preds)
    context.row_mask, context.kernels = batch.row_mask, kernels_for(first.device)


def target_as_tensor(caller: str, target: Any) -> tuple[str, Tensor, Tensor | None]:
    """Return ``form``, ``target`` and ``gains`` of :class:`Batch`."""
    if isinstance(target, ExplicitTarget):
        return _explicit_target(caller, target)
    any_length = False
    if is_column(target):
        target, any_length = from_column(caller, "target", target)
    value = as_tensor(caller, "target", target)
    if any_length and value.dtype in INTEGERS:
        return "target_ids", value, None
    return "target", value, None


def _explicit_target(caller: str, target: ExplicitTarget) -> tuple[str, Tensor, Tensor | None]:
    """Return ``form``, ``target`` and ``gains`` of :class:`Batch` of a target in an explicit form."""
    tensors = {}
    for form, value in (("target_ids", target.ids), ("target_mask", target.mask), ("target_gains", target.gains)):
        if value is not None:
            tensors[form] = as_tensor(caller, form, value)
    if list(tensors) == ["target_ids", "target_gains"]:
        return "target_ids", tensors["target_ids"], tensors["target_gains"]
    if len(tensors) != 1:
        raise TypeError(
            f"{caller}: got {' and '.join(tensors) or 'no target'}; pass one of target_ids, target_mask, target_gains "
            "(or target_gains beside target_ids, one gain per id)."
        )
    ((form, tensor),) = tensors.items()
    if form == "target_mask" and tensor.dtype != torch.bool:
        raise TypeError(f"{caller}: target_mask is {shape_of(tensor)}; pass bool of shape [N, L].")
    return form, tensor, None


def _in_rows(caller: str, batch: Batch, first: Tensor) -> None:
    """Reshape the tensors of a batch to one axis of rows, and check the arguments per row."""
    leading = first.shape[:-1]
    num_rows = prod(leading)
    if first.ndim > 2 and not first.is_sparse_csr:
        if isinstance(batch.preds, tuple):
            batch.preds = tuple(side.reshape(prod(side.shape[:-1]), side.shape[-1]) for side in batch.preds)
        else:
            batch.preds = batch.preds.reshape(num_rows, first.shape[-1])
        for name in ("target", "gains", *OF_ROWS):
            value = getattr(batch, name)
            if value is None:
                continue
            if name in OF_ROWS and value.shape == leading[:1]:  # one value per sequence
                value = value.reshape(-1, *[1] * (len(leading) - 1)).expand(leading)
            if value.shape[: len(leading)] != leading:
                raise ValueError(
                    f"{caller}: {name} is of shape {list(value.shape)}, but preds has the axes {list(leading)} in "
                    f"front of its labels; pass {name} with the same axes in front."
                )
            setattr(batch, name, value.reshape(num_rows, *value.shape[len(leading) :]))
    for name in OF_ROWS:
        setattr(batch, name, per_row(caller, name, getattr(batch, name), num_rows, first.device))


NEEDED = {
    "row_mask": "a bool, True for a row that counts",
    "row_groups": "the number of its group as an integer, -1 for a row that counts only overall",
    "row_weights": "a number",
}
"""The value that each row needs, by argument; a part of error messages."""

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

ROW_TYPES: Final[Mapping[str, tuple[torch.dtype, Sequence[torch.dtype]]]] = {
    "row_mask": (torch.bool, (torch.bool,)),
    "row_groups": (torch.int64, INTEGERS),
    "row_weights": (torch.float64, (*INTEGERS, *FLOATS)),
}
"""The type in which each argument per row is read, and the types that it may have."""


def per_row(caller: str, argument: str, value: Tensor | None, num_rows: int, device: torch.device) -> Tensor | None:
    """Return the row mask, row groups (int64) or row weights (float64), shape (N,), on the device of preds."""
    if value is None:
        return None
    dtype, accepted = ROW_TYPES[argument]
    if value.dtype not in accepted or value.shape != (num_rows,):
        raise ValueError(
            f"{caller}: {argument} is {shape_of(value)} for {num_rows} rows; pass {NEEDED[argument]} for "
            f"each row, shape [{num_rows}]."
        )
    return value.to(device, dtype)


def without_ignored(caller: str, batch: Batch, ignored: int) -> None:
    """Take the label ``ignored`` out of target ids, by -1, and the rows that then have no label out of the row mask."""
    target, preds = batch.target, batch.preds
    # beside ids of one shape, ids may be lists or tokens, and beside scores of one shape they may be gains
    is_alike = isinstance(preds, Tensor) and target.ndim == 2 and preds.shape == target.shape
    if target.ndim not in (1, 2) or target.dtype not in INTEGERS or target.is_sparse_csr or is_alike:
        as_wide = ", as wide as preds" if is_alike else ""
        raise ValueError(
            f"{caller}: ignore_index={ignored} leaves out ids of labels, but target is {shape_of(target)}{as_wide}; "
            f"pass label ids, row_mask, or -1 in the place of padding, target.masked_fill(target == {ignored}, -1). "
            "Beside a target [B, T], preds are [B, T, K]: of one predicted label for each token, preds[..., None]."
        )
    batch.target, is_counted = labels_without(target, ignored)
    batch.row_mask = is_counted if batch.row_mask is None else is_counted & batch.row_mask


def labels_without(ids: Tensor, ignored: int) -> tuple[Tensor, Tensor]:
    """Return label ids, (N,) or (N, M), with -1 in the place of a label, and a mask of the rows that count, (N,).

    A row that held nothing else does not count; a row without labels does.
    """
    ids = ids.to(torch.int64)  # in uint8, -100 would be the label 156
    is_label = ids.ne(ignored)
    labels = torch.where(is_label, ids, -1)
    if ids.ndim == 1:
        return labels, is_label
    return labels, is_label.all(dim=1) | labels.ne(-1).any(dim=1)


ACCEPTED = frozenset((torch.bool, *INTEGERS, *FLOATS))
UNSIGNED = tuple(getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name))  # torch 2.3


def as_tensor(caller: str, argument: str, value: Any) -> Tensor:
    """Return a tensor, an array, a column or a scipy sparse matrix as a tensor without a gradient; refuse others."""
    if type(value) is Tensor and value.layout == torch.strided and value.dtype in ACCEPTED and not value.is_nested:
        plain: Tensor = value.detach() if value.requires_grad else value
        return plain.resolve_neg()  # some steps use NumPy, which does not know the negative bit
    if is_column(value):
        value = from_column(caller, argument, value)[0]
    if isinstance(value, np.ndarray):
        value = _from_numpy(caller, argument, value)
    elif hasattr(value, "tocsr"):
        value = _from_scipy(caller, argument, value)
    elif argument.startswith("row_") and not isinstance(value, Tensor):
        try:
            value = torch.as_tensor(value, device=getattr(value, "device", "cpu"))
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"{caller}: {argument} is a {type(value).__name__}; pass {NEEDED[argument]} for each row, as a tensor, "
                "an array or a list."
            ) from None
    if isinstance(value, Tensor):
        return _accepted(caller, argument, value)
    if isinstance(value, (list, tuple)) and all(_is_output_of_two_classes(part) for part in value):
        raise TypeError(f"{caller}: {argument} is a list of arrays [N, 2]; {STACKED}.")
    hint = ""
    if argument == "target" and isinstance(value, tuple):
        hint = " A pair of scores and ids goes first, as preds."
    raise TypeError(
        f"{caller}: {argument} is a {type(value).__name__}; pass a tensor, such as torch.tensor(...), a numpy array, a "
        "sparse matrix or a column of Arrow or pandas (tailmetrics.rank documents all forms). Lists of different "
        "lengths are padded with -1: "
        f"torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=-1).{hint}"
    )


STACKED = (
    "if it is the predict_proba of one binary output for each label, pass np.stack([p[:, 1] for p in preds], 1), one "
    "column per label"
)
"""The remedy for the list of arrays that scikit-learn returns for several binary outputs."""


def _is_output_of_two_classes(value: Any) -> bool:
    """Whether a value is an array of the probabilities of two classes, shape (N, 2)."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim == 2 and value.shape[1] == 2


def _accepted(caller: str, argument: str, value: Tensor) -> Tensor:
    """Return a tensor without a gradient; raise if its layout or type is not supported."""
    if hasattr(value, "full_tensor"):
        raise TypeError(
            f"{caller}: {argument} is a DTensor; pass {argument}.full_tensor(), or the rows of one process."
        )
    if value.is_nested:
        raise TypeError(f"{caller}: {argument} is a nested tensor; pad it: {argument}.to_padded_tensor(-1).")
    if value.layout not in (torch.strided, torch.sparse_csr):
        raise TypeError(f"{caller}: {argument} has the layout {value.layout}; convert it with .to_sparse_csr().")
    dtype = value.values().dtype if value.is_sparse_csr else value.dtype
    if dtype in UNSIGNED:
        return value.to(torch.int64)
    if dtype not in ACCEPTED:
        raise TypeError(
            f"{caller}: {argument} is {shape_of(value)}; pass bool, integers, or float16 to float64 or bfloat16."
        )
    return value.detach() if value.is_sparse_csr else value.detach().resolve_neg()


def _from_numpy(caller: str, argument: str, array: np.ndarray[Any, Any]) -> Tensor:
    """Return an array as a tensor. They share their memory if torch can read it; otherwise it is copied."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{caller}: {argument} is a masked array, whose mask would be lost; fill it: {argument}.filled(-np.inf) "
            "for scores that are not retrieved, .filled(-1) for ids, .filled(0) for gains."
        )
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if not native.flags.writeable or any(stride < 0 for stride in native.strides):
        native = native.copy()
    try:
        return torch.from_numpy(native)
    except TypeError:
        raise TypeError(
            f"{caller}: {argument} is an array of {array.dtype}; pass bool, integers or floats of at most 64 bits, "
            "rows of different lengths padded with -1."
        ) from None


def _from_scipy(caller: str, argument: str, matrix: Any) -> Tensor:
    """Return a scipy sparse matrix as torch CSR, of copied arrays."""
    if len(matrix.shape) != 2:
        raise ValueError(f"{caller}: {argument} is sparse of shape {list(matrix.shape)}; pass shape [N, L].")
    if matrix.format in ("bsr", "dia") and not argument.startswith("target"):  # stored zeros of a target do no harm
        raise TypeError(
            f"{caller}: {argument} is in the {matrix.format.upper()} format, whose blocks store zeros that were never "
            f"given, and a stored zero counts as a score; pass {argument}.tocsr() after eliminate_zeros(), or make the "
            "matrix in CSR, CSC or COO."
        )
    if matrix.format != "csr":
        matrix = matrix.tocsr()
    if len(matrix.indices) != len(matrix.data):
        raise ValueError(
            f"{caller}: {argument} stores {len(matrix.indices)} columns but {len(matrix.data)} values; rebuild it."
        )
    if matrix.shape[0] * matrix.shape[1] >= 2**63:
        raise ValueError(
            f"{caller}: {argument} is sparse of shape {list(matrix.shape)}, 2^63 cells or more; number the labels "
            "from 0 without gaps."
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")  # torch warns once per process
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            _from_numpy(caller, argument, np.array(matrix.data)),
            size=matrix.shape,
            check_invariants=False,  # csr_entries checks them, and its errors name the caller
            device="cpu",
        )


def check_indexes(caller: str, arguments: Mapping[str, Any]) -> None:
    """Raise if two pandas Series of the same length have different indexes.

    The library matches rows by position, but different indexes suggest another order. Series of different lengths are
    left to the checks of shapes, because flat queries may have one weight per document or one per query.

    Raises:
        ValueError: If two indexes differ. The message names the first row where they differ.
    """
    indexes = {}
    for argument, value in _single_arguments(arguments).items():
        if is_column(value) and hasattr(getattr(value, "index", None), "equals"):
            indexes[argument] = value.index
    for (here, index), (there, other_index) in combinations(indexes.items(), 2):
        if len(index) != len(other_index) or index.equals(other_index):
            continue
        pairs = enumerate(zip(index, other_index, strict=True))
        row = next((row for row, (name, other_name) in pairs if name != other_name), 0)
        raise ValueError(
            f"{caller}: {here} and {there} are Series whose indexes differ: row {row} is {index[row]!r} of {here} and "
            f"{other_index[row]!r} of {there}; pass {there}.loc[{here}.index], or {here}.to_numpy() and "
            f"{there}.to_numpy() if row i of both belong together."
        )


def _single_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by name, with the parts of an explicit target and of a pair by names of their own."""
    single: dict[str, Any] = {}
    for argument, value in arguments.items():
        if isinstance(value, ExplicitTarget):
            single |= {"target_ids": value.ids, "target_mask": value.mask, "target_gains": value.gains}
        elif isinstance(value, (tuple, list)) and len(value) == 2:
            single |= {f"{argument}[0]": value[0], f"{argument}[1]": value[1]}
        else:
            single[argument] = value
    return single


def check_pair(caller: str, argument: str, scores: Tensor, ids: Tensor) -> None:
    """Raise unless scores and ids of candidates are matrices of one shape on one device."""
    if scores.device != ids.device:
        raise ValueError(
            f"{caller}: {argument} is a pair on {scores.device} and {ids.device}; move both to one device."
        )
    fits = scores.is_floating_point() and ids.dtype in INTEGERS and scores.ndim == 2 and scores.shape == ids.shape
    if not fits or scores.is_sparse_csr or ids.is_sparse_csr:
        are_outputs = ids.is_floating_point() and scores.shape == ids.shape and scores.shape[1:] == (2,)
        remedy = f" But {STACKED}." if are_outputs else ""
        raise ValueError(
            f"{caller}: {argument} is the pair ({shape_of(scores)}, {shape_of(ids)}); pass dense floating scores "
            f"[N, C] and integer ids [N, C] of one shape.{remedy}"
        )
