"""Turn the arguments of an update into tensors, once, with one axis of rows.

Arrays, sparse matrices and columns of Arrow or pandas become tensors; sequences and
flat queries become rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from typing_extensions import TypedDict

from tailmetrics._arguments import INTEGERS, check_choice, check_count, shape_of
from tailmetrics._parameters import SHARED_PARAMETERS
from tailmetrics.ranking._hits import Padding
from tailmetrics.ranking._kernels import PLAIN, Kernels
from tailmetrics.ranking._kernels_cpu import kernels_for

Array: TypeAlias = "np.ndarray[Any, Any]"
Duplicates: TypeAlias = Literal["error", "first"]


class BatchArguments(TypedDict, total=False):
    """Keyword arguments that say how a batch is read, of every metric;
    SHARED_PARAMETERS describes them.
    """

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


ROW_ARGUMENTS = ("row_mask", "row_groups", "row_weights")
OPTIONAL_ARGUMENTS = (*ROW_ARGUMENTS, "indexes", "ids")
"""The optional arguments, all but ``preds`` and ``target``. Most batches have none of
them.
"""


@dataclass(eq=False)
class Context:
    """The settings with which one batch is read; each batch gets a new context.

    Attributes:
        caller: The name that errors begin with.
        num_labels: L; None as long as it is unknown.
        validate: Whether values are checked; the checks make a GPU wait.
        duplicates: ``"error"`` refuses an id that stands twice in a row of preds;
            ``"first"`` counts its later places as misses.
        ignore_index: The label of target ids that is none, such as padding; None if all
            are labels.
        warns: Whether to warn if the values look like another form than the one that
            was guessed, such as ranks. True for a first batch.
        scored: True if ``preds`` must be scores, False if they must be ids, None for
            either.
        counts_repeats: Whether a label may stand twice in a row of target ids, as in
            training data, where labels are counted.
        has_documents: Whether the rows are made of flat queries. A label may then stand
            twice in a row of the target.
        has_tokens: Whether preds and target are ids of one shape, as predicted and true
            labels of tokens are.
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
    has_documents: bool = False
    has_tokens: bool = False
    row_mask: Tensor | None = None
    kernels: Kernels = PLAIN
    notes: list[str] = field(default_factory=list)

    @classmethod
    def for_call(
        cls,
        caller: str,
        num_labels: Any,
        validate: bool,
        duplicates: Any,
        ignore_index: Any = None,
        **settings: Any,
    ) -> Context:
        """Return the settings of a call of a public function, after checks; a metric
        checks them when it is made.
        """
        if num_labels is not None:
            check_count(caller, "num_labels", num_labels)
        check_batch_argument(caller, "duplicates", duplicates)
        check_batch_argument(caller, "ignore_index", ignore_index)
        return cls(caller, num_labels, validate, duplicates, ignore_index, **settings)

    def counted(self, ids: Tensor) -> Tensor:
        """Return ``ids`` (N, K) with -1 in the rows that do not count."""
        return ids if self.row_mask is None else ids.where(self.row_mask[:, None], -1)


@dataclass(eq=False)
class Batch:
    """The arguments of an update, first as the caller gave them; :func:`as_tensors`
    turns them into tensors.

    Attributes:
        preds: Scores, ids or CSR; or a pair of scores and ids.
        target: The relevant labels, in any form.
        row_mask: The rows that count, bool; None for all.
        row_groups: The row group of each row.
        row_weights: The weight of each row.
        indexes: The query of each document; only for flat queries.
        ids: The label of each document; only for flat queries.
        form: The form of ``target``: ``"target_ids"``, ``"target_mask"`` or
            ``"target_gains"``; ``"target"`` if the form follows from its type and
            shape; ``"ids"`` for the labels of documents.
        gains: The gains of a target of ids; None if all are 1.
        has_names: Whether labels have names, so that ids are places of names and
            nothing that could be numbers.
        tokens: The number of rows of each sequence (B, T, ...); 1 for rows that are no
            tokens.
        queries: Shape (N,): the index of the query of each row; None if the rows are
            not made of flat queries.
        num_documents: Shape (N,): the number of documents of each query, if they have
            no labels.
        documents: Scores and gains of the documents that count, shape (n,) each.
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
    has_names: bool = False
    tokens: int = 1
    queries: Tensor | None = None
    num_documents: Tensor | None = None
    documents: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True)
class ExplicitTarget:
    """The target in an explicit form: ids, a mask, gains, or ids with gains. The other
    attributes are None.
    """

    ids: Any = None
    mask: Any = None
    gains: Any = None


def as_tensors(context: Context, batch: Batch) -> None:
    """Turn each argument into a tensor with one axis of rows, and choose the kernels
    that read the batch.

    Scores (B, T, L) and a target (B, T) become B·T rows, the documents of a query
    become a row of candidates. The row mask also excludes the rows that hold nothing
    but ``ignore_index``.
    """
    caller = context.caller
    has_optional = _arguments_as_tensors(caller, batch)
    preds = batch.preds
    first = preds[0] if isinstance(preds, tuple) else preds
    if batch.indexes is not None:
        _documents_in_rows(context, batch)
    else:
        if has_optional or first.ndim != 2:
            _in_rows(caller, batch, first)
        if context.ignore_index is not None:
            without_ignored(caller, batch, context.ignore_index)
        if isinstance(batch.preds, tuple):
            check_pair(caller, "preds", *batch.preds)
    context.row_mask = batch.row_mask
    context.kernels = kernels_for(first.device)


def _arguments_as_tensors(caller: str, batch: Batch) -> bool:
    """Turn each argument of a batch into a tensor; return whether it has any of the
    optional arguments.
    """
    preds = batch.preds
    if not (isinstance(preds, Tensor) and isinstance(batch.target, Tensor)):
        check_indexes(
            caller,
            {
                name: getattr(batch, name)
                for name in ("preds", "target", *OPTIONAL_ARGUMENTS)
            },
        )
    if isinstance(preds, (tuple, list)) and len(preds) == 2:
        scores, ids = _pair_of_arrays(
            caller, "preds[0]", preds[0], "preds[1]", preds[1]
        )
        batch.preds = (
            as_tensor(caller, "preds[0]", scores),
            as_tensor(caller, "preds[1]", ids),
        )
    else:
        batch.preds = as_tensor(caller, "preds", preds)

    if isinstance(batch.target, Tensor):
        batch.target = as_tensor(caller, "target", batch.target)
    else:
        batch.form, batch.target, batch.gains = target_as_tensor(caller, batch.target)

    has_optional = False
    for name in OPTIONAL_ARGUMENTS:
        value = getattr(batch, name)
        if value is not None:
            setattr(batch, name, as_tensor(caller, name, value))
            has_optional = True
    return has_optional


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


def _explicit_target(
    caller: str, target: ExplicitTarget
) -> tuple[str, Tensor, Tensor | None]:
    """Return ``form``, ``target`` and ``gains`` of :class:`Batch` of a target in an
    explicit form.
    """
    target_ids, target_gains = _pair_of_arrays(
        caller, "target_ids", target.ids, "target_gains", target.gains
    )
    values = {
        "target_ids": target_ids,
        "target_mask": target.mask,
        "target_gains": target_gains,
    }
    tensors = {}
    for argument, value in values.items():
        if value is not None:
            tensors[argument] = as_tensor(caller, argument, value)

    forms = list(tensors)
    if forms not in (
        ["target_ids"],
        ["target_mask"],
        ["target_gains"],
        ["target_ids", "target_gains"],
    ):
        raise TypeError(
            f"{caller}: got {' and '.join(forms) or 'no target'}; pass one of "
            "target_ids, target_mask, target_gains (or target_gains beside "
            "target_ids, one gain per id)."
        )
    form = forms[0]
    if form == "target_mask" and tensors[form].dtype != torch.bool:
        raise TypeError(
            f"{caller}: target_mask is {shape_of(tensors[form])}; pass bool of "
            "shape [N, L]."
        )
    gains = None
    if len(forms) == 2:
        gains = tensors["target_gains"]
    return form, tensors[form], gains


# one axis of rows


def _in_rows(caller: str, batch: Batch, first: Tensor) -> None:
    """Reshape the tensors of a batch to one axis of rows, and check the arguments per
    row.
    """
    leading = first.shape[:-1]
    if len(leading) > 1 and not first.is_sparse_csr:
        batch.tokens = leading[-1]
        if isinstance(batch.preds, tuple):
            batch.preds = tuple(
                side.reshape(prod(side.shape[:-1]), side.shape[-1])
                for side in batch.preds
            )
        else:
            batch.preds = first.flatten(0, -2)
        for name in ("target", "gains", *ROW_ARGUMENTS):
            value = getattr(batch, name)
            if value is not None:
                setattr(
                    batch, name, _without_leading_axes(caller, name, value, leading)
                )
    num_rows = prod(leading)
    for name in ROW_ARGUMENTS:
        setattr(
            batch,
            name,
            per_row(caller, name, getattr(batch, name), num_rows, first.device),
        )


def _without_leading_axes(
    caller: str, name: str, value: Tensor, leading: torch.Size
) -> Tensor:
    """Return an argument with one axis of rows in place of the ``leading`` axes of
    preds.
    """
    if name in ROW_ARGUMENTS and value.shape == leading[:1]:  # one value per sequence
        value = value.reshape(-1, *[1] * (len(leading) - 1)).expand(leading)
    if value.shape[: len(leading)] != leading:
        raise ValueError(
            f"{caller}: {name} is of shape {list(value.shape)}, but preds has the "
            f"axes {list(leading)} in "
            f"front of its labels; pass {name} with the same axes in front."
        )
    return value.flatten(0, len(leading) - 1)


NEEDED = {
    "row_mask": "a bool, True for a row that counts",
    "row_groups": (
        "the number of its group as an integer, -1 for a row that counts only overall"
    ),
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


def per_row(
    caller: str,
    argument: str,
    value: Tensor | None,
    num_rows: int,
    device: torch.device,
) -> Tensor | None:
    """Return the row mask, row groups (int64) or row weights (float64), shape (N,), on
    the device of preds.
    """
    if value is None:
        return None
    dtype, accepted = ROW_TYPES[argument]
    if value.dtype not in accepted or value.shape != (num_rows,):
        raise ValueError(
            f"{caller}: {argument} is {shape_of(value)} for {num_rows} rows; pass for "
            f"each row {NEEDED[argument]}, shape [{num_rows}]."
        )
    return value.to(device, dtype)


def without_ignored(caller: str, batch: Batch, ignored: int) -> None:
    """Take the label ``ignored`` out of target ids, by -1, and the rows that then have
    no label out of the row mask.
    """
    target = batch.target
    # beside ids of one shape, ids may be lists or tokens, and beside scores of one
    # shape they may be gains
    is_alike = (
        isinstance(batch.preds, Tensor)
        and target.ndim == 2
        and batch.preds.shape == target.shape
    )
    if (
        target.ndim not in (1, 2)
        or target.dtype not in INTEGERS
        or target.is_sparse_csr
        or is_alike
    ):
        as_wide = ", as wide as preds" if is_alike else ""
        remedy = (
            "pass label ids, row_mask, or -1 in the place of padding, "
            f"target.masked_fill(target == {ignored}, -1). "
            "Beside a target [B, T], preds are [B, T, K]: of one predicted label for "
            "each token, preds[..., None]"
        )
        if is_alike and batch.preds.is_floating_point():
            remedy = (
                f"if {ignored} marks not known cells of a multi-hot target, leave them "
                f"out: preds.masked_fill(target == {ignored}, -torch.inf) beside "
                f"target.masked_fill(target == {ignored}, 0); label ids of this width "
                "go to Ranking.from_scores(..., target_ids=)"
            )
        raise ValueError(
            f"{caller}: ignore_index={ignored} leaves out ids of labels, but target is "
            f"{shape_of(target)}{as_wide}; {remedy}."
        )
    batch.target, is_counted = labels_without(target, ignored)
    if batch.row_mask is not None:
        is_counted = is_counted & batch.row_mask
    batch.row_mask = is_counted


def labels_without(ids: Tensor, ignored: int) -> tuple[Tensor, Tensor]:
    """Return label ids, (N,) or (N, M), with -1 in the place of a label, and a mask of
    the rows that count, (N,).

    A row that held nothing else does not count; a row without labels does.
    """
    ids = ids.to(torch.int64)  # in uint8, -100 would be the label 156
    is_label = ids.ne(ignored)
    labels = torch.where(is_label, ids, -1)
    if ids.ndim == 1:
        return labels, is_label
    return labels, is_label.all(dim=1) | labels.ne(-1).any(dim=1)


def check_pair(caller: str, argument: str, scores: Tensor, ids: Tensor) -> None:
    """Raise unless scores and ids of candidates are matrices of one shape on one
    device.
    """
    if scores.device != ids.device:
        raise ValueError(
            f"{caller}: {argument} is a pair on {scores.device} and {ids.device}; "
            "move both to one device."
        )
    has_types = scores.is_floating_point() and ids.dtype in INTEGERS
    is_dense = scores.layout == ids.layout == torch.strided
    if has_types and is_dense and scores.ndim == 2 and scores.shape == ids.shape:
        return
    remedy = ""
    if (
        ids.is_floating_point()
        and scores.shape == ids.shape
        and scores.shape[1:] == (2,)
    ):
        remedy = f" But {STACKED}."
    raise ValueError(
        f"{caller}: {argument} is the pair ({shape_of(scores)}, {shape_of(ids)}); pass "
        f"dense floating scores [N, C] and integer ids [N, C] of one shape.{remedy}"
    )


# flat queries, the form of ``torchmetrics.retrieval``


def _documents_in_rows(context: Context, batch: Batch) -> None:
    """Turn flat queries into rows of scored candidates, one row for each query, by
    ascending index of the query.

    Args:
        context: The settings of the batch.
        batch: Tensors. ``preds``, shape (n,), floating: the score of each document;
            ``target``, shape (n,), bool or gains of at least 0; ``indexes``, shape
            (n,), integers: the query of each document; ``ids``, shape (n,), integers:
            the label of each document; None numbers the documents of a query in the
            given order. The row mask, groups and weights have one value for each
            document, shape (n,), or for each query in ascending order of its index,
            shape (N,). The rows are written into the batch.
    """
    documents, queries, row = _documents_that_count(context, batch)
    batch.queries = queries
    batch.documents = documents["preds"], documents["target"]

    given_order = torch.arange(len(row), device=row.device)
    table = Padding(
        row, (len(queries),), len(row), can_read_values=True, order=given_order
    )
    if batch.ids is None:
        context.num_labels = None  # documents have no labels that could be out of range
        batch.num_documents = table.filled.sum(dim=1)
        number = torch.arange(table.filled.shape[1], device=row.device)
        ids = torch.where(table.filled, number, -1)
    else:
        ids = table.place(documents["ids"].to(torch.int64), -1)
    gains = documents["target"]
    if not gains.is_floating_point():
        gains = gains.to(torch.float64)
    target_ids = ids
    if batch.ids is not None and context.duplicates == "first":
        is_first, gains = _gains_of_labels(row, documents["ids"], gains)
        target_ids = table.place(
            documents["ids"].to(torch.int64).where(is_first, -1), -1
        )
    batch.preds = table.place(documents["preds"], -torch.inf), ids
    batch.form, batch.target = "ids", target_ids
    batch.gains = table.place(gains, 0.0)

    batch.row_mask = None
    for name in ("row_groups", "row_weights"):
        if name in documents:
            setattr(
                batch,
                name,
                _per_query(
                    context, name, table.place(documents[name], 0), table.filled
                ),
            )
    context.has_documents = True


def _documents_that_count(
    context: Context, batch: Batch
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Return the documents that count: arguments by name, shape (n,) each, their
    queries (N,), and the place of each.

    The row mask is no longer among the arguments.
    """
    documents = {}
    for name in ("preds", "target", *OPTIONAL_ARGUMENTS):
        if getattr(batch, name) is not None:
            documents[name] = getattr(batch, name)
    _check_documents(context.caller, documents)
    queries, row = torch.unique(documents["indexes"], return_inverse=True)
    for name in ROW_ARGUMENTS:
        if name in documents:
            documents[name] = _per_document(
                context.caller, name, documents[name], queries, row
            )

    is_counted = documents.pop("row_mask", None)
    if is_counted is not None and is_counted.dtype != torch.bool:
        raise ValueError(
            f"{context.caller}: row_mask is {shape_of(is_counted)}; pass bool, True "
            "for what counts."
        )
    if context.ignore_index is not None:
        is_label = documents["target"] != context.ignore_index
        is_counted = is_label if is_counted is None else is_counted & is_label
    if is_counted is not None:
        documents = {name: value[is_counted] for name, value in documents.items()}
        queries, row = torch.unique(documents["indexes"], return_inverse=True)
    return documents, queries, row


def _gains_of_labels(
    row: Tensor, labels: Tensor, gains: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the first documents of the labels of each query, and the highest gain of
    the documents of each label.

    A gain below 0 is not hidden by a higher one, so that it is refused.

    Args:
        row: Shape (n,), int64: the row of each document.
        labels: Shape (n,), integers: its label.
        gains: Shape (n,), floating: its gain.

    Returns:
        Shape (n,), bool, whether a document is the first one of its label; and shape
        (n,), floating.
    """
    pairs, pair = torch.unique(
        torch.stack([row, labels.to(torch.int64)]), dim=1, return_inverse=True
    )
    number = torch.arange(len(row), device=row.device)
    first = number.new_full((pairs.shape[1],), len(row)).scatter_reduce_(
        0, pair, number, "amin"
    )
    lowest = gains.new_full((pairs.shape[1],), torch.inf).scatter_reduce_(
        0, pair, gains, "amin"
    )
    highest = gains.new_full((pairs.shape[1],), -torch.inf).scatter_reduce_(
        0, pair, gains, "amax"
    )
    return first[pair] == number, lowest.where(lowest < 0, highest)[pair]


def _per_query(
    context: Context, name: str, values: Tensor, is_document: Tensor
) -> Tensor | None:
    """Return row groups or row weights with one value per query, shape (N,).

    Args:
        context: The settings of the batch.
        name: The argument.
        values: Shape (N, W): the value of each document of a query.
        is_document: Shape (N, W), bool: False for padding.
    """
    first = values[:, 0]
    if context.validate and bool(((values != first[:, None]) & is_document).any()):
        raise ValueError(
            f"{context.caller}: {name} differs between documents of one query; pass "
            "one value per query, or the same for each of its documents."
        )
    return per_row(context.caller, name, first, len(first), first.device)


def _per_document(
    caller: str, name: str, value: Tensor, queries: Tensor, row: Tensor
) -> Tensor:
    """Return the row mask, groups or weights with one value per document, shape (n,).

    Args:
        caller: The name that errors begin with.
        name: The argument.
        value: One value per query, or per document.
        queries: Shape (N,), ascending: the index of each query.
        row: Shape (n,): the place of the query of each document in ``queries``.
    """
    if value.shape not in ((len(row),), (len(queries),)):
        raise ValueError(
            f"{caller}: {name} is {shape_of(value)}, but there are {len(row)} "
            f"documents of {len(queries)} queries; pass one value per query, in "
            "ascending order of its index, or one per document."
        )
    value = value.to(row.device)
    if len(value) < len(row):
        return value[row]
    if len(queries) == len(row) and not torch.equal(value[row], value):
        raise ValueError(
            f"{caller}: {name} holds {len(value)} values, and there are as many "
            "queries as documents, so that they may be one per query, in ascending "
            "order of its index, or one per document. Sort the documents by indexes, "
            "where both are the same: order = indexes.argsort(), then preds[order] "
            "and so on."
        )
    return value


def _check_documents(caller: str, documents: dict[str, Tensor]) -> None:
    scores, indexes, labels = (
        documents["preds"],
        documents["indexes"],
        documents.get("ids"),
    )
    if isinstance(scores, tuple):
        raise TypeError(
            f"{caller}: preds is a pair, but with indexes= it is the score of each "
            "document, shape [n]; ids= takes their labels."
        )
    for name, value in documents.items():
        if name not in ROW_ARGUMENTS and (value.ndim != 1 or len(value) != len(scores)):
            raise ValueError(
                f"{caller}: {name} is {shape_of(value)}, but with indexes= preds, "
                "target and ids have one number per document: shape [n], like preds, "
                f"{shape_of(scores)}."
            )
    if not scores.is_floating_point() or indexes.dtype not in INTEGERS:
        raise TypeError(
            f"{caller}: preds is {shape_of(scores)}, indexes is {shape_of(indexes)}; "
            "pass floating scores and the query of each document as integers; preds "
            "come first, target second."
        )
    if labels is not None and labels.dtype not in INTEGERS:
        raise TypeError(f"{caller}: ids is {shape_of(labels)}; labels are integers.")


# tensors, arrays and sparse matrices

ACCEPTED = frozenset((torch.bool, *INTEGERS, *FLOATS))
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)

STACKED = (
    "if it is the predict_proba of one binary output for each label, pass "
    "np.stack([p[:, 1] for p in preds], 1), one column per label"
)
"""The remedy for the list of arrays that scikit-learn returns for several binary
outputs.
"""


def as_tensor(caller: str, argument: str, value: Any) -> Tensor:
    """Return a tensor, an array, a column or a scipy sparse matrix as a tensor without
    a gradient; refuse others.
    """
    if (
        type(value) is Tensor
        and value.layout == torch.strided
        and value.dtype in ACCEPTED
        and not value.is_nested
    ):
        plain: Tensor = value.detach() if value.requires_grad else value
        # some steps use NumPy, which does not know the negative bit
        return plain.resolve_neg()
    if isinstance(value, Tensor):
        return _accepted(caller, argument, value)
    if is_column(value):
        value = from_column(caller, argument, value)[0]
    if isinstance(value, np.ndarray):
        return _accepted(caller, argument, _from_numpy(caller, argument, value))
    if hasattr(value, "tocsr"):
        return _accepted(caller, argument, _from_scipy(caller, argument, value))
    if argument in ROW_ARGUMENTS:
        return _accepted(caller, argument, _from_list(caller, argument, value))
    raise _no_tensor(caller, argument, value)


def _from_list(caller: str, argument: str, value: Any) -> Tensor:
    """Return a list with an entry for each row as a tensor."""
    try:
        return torch.as_tensor(value, device=getattr(value, "device", "cpu"))
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{caller}: {argument} is a {type(value).__name__}; pass for each row "
            f"{NEEDED[argument]}, as a tensor, an array or a list."
        ) from None


def _no_tensor(caller: str, argument: str, value: Any) -> TypeError:
    """Return the error for a value that is no tensor, array, matrix or column."""
    if (
        isinstance(value, (list, tuple))
        and value
        and all(_is_output_of_two_classes(part) for part in value)
    ):
        return TypeError(f"{caller}: {argument} is a list of arrays [N, 2]; {STACKED}.")
    hint = ""
    if argument == "target" and isinstance(value, tuple):
        hint = " A pair of scores and ids goes first, as preds."
    return TypeError(
        f"{caller}: {argument} is a {type(value).__name__}; pass a tensor, such as "
        "torch.tensor(...), a numpy array, a sparse matrix or a column of Arrow or "
        "pandas (tailmetrics.rank documents all forms). Lists of different lengths "
        "are padded with -1: torch.nn.utils.rnn.pad_sequence(tensors, "
        f"batch_first=True, padding_value=-1).{hint}"
    )


def _is_output_of_two_classes(value: Any) -> bool:
    """Whether a value is an array of the probabilities of two classes, shape (N, 2)."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind == "f"
        and value.ndim == 2
        and value.shape[1] == 2
    )


def _accepted(caller: str, argument: str, value: Tensor) -> Tensor:
    """Return a tensor without a gradient; raise if its layout or type is not
    supported.
    """
    if hasattr(value, "full_tensor"):
        raise TypeError(
            f"{caller}: {argument} is a DTensor; pass {argument}.full_tensor(), or "
            "the rows of one process."
        )
    if value.is_nested:
        raise TypeError(
            f"{caller}: {argument} is a nested tensor; pad it: "
            f"{argument}.to_padded_tensor(-1)."
        )
    if value.layout not in (torch.strided, torch.sparse_csr):
        raise TypeError(
            f"{caller}: {argument} has the layout {value.layout}; convert it with "
            ".to_sparse_csr()."
        )
    if value.dtype in UNSIGNED:
        return value.to(torch.int64)
    if value.dtype not in ACCEPTED:
        raise TypeError(
            f"{caller}: {argument} is {shape_of(value)}; pass bool, integers, or "
            "float16 to float64 or bfloat16."
        )
    if value.is_sparse_csr:
        return value.detach()
    return value.detach().resolve_neg()


def _from_numpy(caller: str, argument: str, array: Array) -> Tensor:
    """Return an array as a tensor. They share their memory if torch can read it;
    otherwise it is copied.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{caller}: {argument} is a masked array, whose mask would be lost; fill "
            f"it: {argument}.filled(-np.inf) for scores that are not retrieved, "
            ".filled(-1) for ids, .filled(0) for gains."
        )
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if not native.flags.writeable or min(native.strides, default=0) < 0:
        native = native.copy()
    try:
        return torch.from_numpy(native)
    except TypeError:
        raise TypeError(
            f"{caller}: {argument} is an array of {array.dtype}; pass bool, integers "
            "or floats of at most 64 bits, rows of different lengths padded with -1."
        ) from None


def _from_scipy(caller: str, argument: str, matrix: Any) -> Tensor:
    """Return a scipy sparse matrix as torch CSR, of copied arrays."""
    if len(matrix.shape) != 2:
        raise ValueError(
            f"{caller}: {argument} is sparse of shape {list(matrix.shape)}; pass "
            "shape [N, L]."
        )
    # stored zeros of a target do no harm
    if matrix.format in ("bsr", "dia") and not argument.startswith("target"):
        raise TypeError(
            f"{caller}: {argument} is in the {matrix.format.upper()} format, whose "
            "blocks store zeros that were never given, and a stored zero counts as a "
            f"score; pass {argument}.tocsr() after eliminate_zeros(), or make the "
            "matrix in CSR, CSC or COO."
        )
    matrix = matrix.tocsr()
    if len(matrix.indices) != len(matrix.data):
        raise ValueError(
            f"{caller}: {argument} stores {len(matrix.indices)} columns but "
            f"{len(matrix.data)} values; rebuild it."
        )
    if matrix.shape[0] * matrix.shape[1] >= 2**63:
        raise ValueError(
            f"{caller}: {argument} is sparse of shape {list(matrix.shape)}, 2^63 cells "
            "or more; number the labels from 0 without gaps."
        )
    with warnings.catch_warnings():
        # torch warns once per process
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            _from_numpy(caller, argument, np.array(matrix.data)),
            size=matrix.shape,
            # csr_entries checks them, and its errors name the caller
            check_invariants=False,
            device="cpu",
        )


# columns of Arrow and pandas


@dataclass
class Column:
    """The numbers of a column.

    Attributes:
        numbers: Shape (n,): the numbers, of lists one list behind the other.
        nulls: Shape (n,) or (1,), bool: which numbers are missing.
        lengths: Shape (N,): the number of entries of each list; None for a column of
            numbers.
        any_length: Whether lists may have any length.
    """

    numbers: Array
    nulls: Array
    lengths: Array | None = None
    any_length: bool = True


def is_column(value: Any) -> bool:
    """Whether a value is an Arrow array, chunked or not, or a pandas Series."""
    library = type(value).__module__.partition(".")[0]
    if library == "pandas":
        return hasattr(value, "array") and value.ndim == 1
    return library == "pyarrow" and hasattr(value, "null_count")


def from_column(caller: str, argument: str, column: Any) -> tuple[Array, bool]:
    """Return a column as an array: a column of numbers as (N,), a column of lists as
    (N, longest list), padded.

    Ids are padded with -1, scores of candidates with minus infinity, gains of ids with
    0. A missing list is empty.

    Args:
        caller: The name that errors begin with.
        argument: The name of the argument.
        column: An Arrow array or a pandas Series, see :func:`is_column`.

    Returns:
        The array, and whether its rows are lists of any length. Integers are then ids,
        never one number per label.
    """
    content = _content_of(caller, argument, column)
    return _array_of(
        caller, argument, content
    ), content.lengths is not None and content.any_length


def _array_of(caller: str, argument: str, content: Column) -> Array:
    """Return the numbers of a column as an array, as :func:`from_column` does."""
    if content.nulls.any():
        row = int(content.nulls.argmax())
        if content.lengths is not None:
            row = int(np.searchsorted(np.cumsum(content.lengths), row, side="right"))
        raise ValueError(
            f"{caller}: {argument} holds a null in row {row}; remove it from its list, "
            "or, in a column of single ids, put -1 in its place."
        )
    if content.lengths is None:
        return content.numbers
    return _padded(caller, argument, content.numbers, content.lengths)


def _pair_of_arrays(
    caller: str, name: str, column: Any, other_name: str, other_column: Any
) -> tuple[Any, Any]:
    """Return two columns of lists, of ids and of a number for each, as arrays; return
    other values unchanged.

    Raises:
        ValueError: If one of them has more entries in a row.
    """
    if not (is_column(column) and is_column(other_column)):
        return column, other_column
    content = _content_of(caller, name, column)
    other_content = _content_of(caller, other_name, other_column)
    _check_lengths(caller, name, content.lengths, other_name, other_content.lengths)
    return _array_of(caller, name, content), _array_of(
        caller, other_name, other_content
    )


def _check_lengths(
    caller: str,
    name: str,
    lengths: Array | None,
    other_name: str,
    other_lengths: Array | None,
) -> None:
    """Raise if a list has another length than the list of the other column in its
    row.
    """
    if lengths is None or other_lengths is None or len(lengths) != len(other_lengths):
        return  # the shapes are checked later
    differs = lengths != other_lengths
    if differs.any():
        row = int(differs.argmax())
        raise ValueError(
            f"{caller}: row {row} has {lengths[row]} entries in {name} and "
            f"{other_lengths[row]} in {other_name}; pass a number for each id."
        )


def _content_of(caller: str, argument: str, column: Any) -> Column:
    """Return the numbers of an Arrow array or a pandas Series."""
    if hasattr(column, "array") and hasattr(column.dtype, "pyarrow_dtype"):
        column = column.array.__arrow_array__()
    if not hasattr(column, "array"):
        return _from_arrow(column)
    if column.dtype == object:
        return _from_objects(caller, argument, column)
    if column.dtype.kind == "f":
        return Column(column.to_numpy(), np.zeros(1, bool))
    return Column(column.to_numpy(), column.isna().to_numpy())


def _from_arrow(column: Any) -> Column:
    """Return the numbers of an Arrow array of numbers or lists."""
    values, lengths, any_length = column, None, True
    if hasattr(values, "combine_chunks"):
        values = values.combine_chunks()
    if hasattr(values, "flatten") and hasattr(values.type, "value_type"):
        any_length = not hasattr(values.type, "list_size")
        lengths = (
            values.value_lengths()
            .fill_null(0)
            .to_numpy(zero_copy_only=False)
            .astype(np.int64)
        )
        values = values.flatten()
    numbers = values.to_numpy(zero_copy_only=False)
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    return Column(numbers, nulls, lengths, any_length)


def _from_objects(caller: str, argument: str, column: Any) -> Column:
    """Return the numbers of a pandas Series of lists."""
    rows = []
    for number, value in enumerate(column.array):
        if value is None or value is np.nan:
            value = ()
        row = np.asarray(value)
        if row.ndim != 1:
            raise TypeError(
                f"{caller}: {argument} holds a {type(value).__name__} in row "
                f"{number}; pass one flat list per row."
            )
        rows.append(row)
    lengths = np.array([len(row) for row in rows], np.int64)
    numbers = np.concatenate([row for row in rows if row.size] or [np.zeros(0)])
    nulls = np.zeros(1, bool)
    if numbers.dtype == object:
        nulls = np.array([value is None for value in numbers])
    return Column(numbers, nulls, lengths)


def _padded(caller: str, argument: str, numbers: Array, lengths: Array) -> Array:
    """Return a matrix (N, longest list) of lists that stand one behind the other;
    shorter lists are padded.
    """
    are_ids = argument not in ("target_gains", "preds[0]")
    if not len(numbers):  # the type of an empty column says nothing
        numbers = np.zeros(0, np.int64 if are_ids else np.float32)
    if numbers.dtype.kind not in "iufb":
        raise TypeError(
            f"{caller}: {argument} is a column of lists of {numbers.dtype}; pass lists "
            "of integers: number the labels from 0."
        )
    width = int(lengths.max(initial=0))
    is_shorter = lengths != width
    if not is_shorter.any():
        return numbers.reshape(len(lengths), width)

    is_whole = numbers.dtype.kind in "iu"
    if are_ids and not is_whole:
        row = int(is_shorter.argmax())
        raise ValueError(
            f"{caller}: {argument} holds {lengths[row]} numbers in row {row} and "
            f"{width} in the longest row; pass one number per label in each row, or "
            "lists of ids with lists of their scores as a pair (scores, ids)."
        )
    padding: float = -np.inf
    if argument == "target_gains":
        padding = 0
    elif is_whole:
        padding = -1
    rows = np.full(
        (len(lengths), width), padding, np.int64 if is_whole else numbers.dtype
    )
    rows[np.arange(width) < lengths[:, None]] = numbers
    return rows


def check_indexes(caller: str, arguments: Mapping[str, Any]) -> None:
    """Raise if two pandas Series of the same length have different indexes.

    The library matches rows by position, but different indexes suggest another order.
    Series of different lengths are left to the checks of shapes, because flat queries
    may have one weight per document or one per query.

    Raises:
        ValueError: If two indexes differ. The message names the first row where they
            differ.
    """
    first_of_length: dict[int, tuple[str, Any]] = {}
    for there, value in _single_arguments(arguments).items():
        if not is_column(value) or not hasattr(getattr(value, "index", None), "equals"):
            continue
        other_index = value.index
        here, index = first_of_length.setdefault(len(other_index), (there, other_index))
        if index.equals(other_index):
            continue
        names, other_names = index.tolist(), other_index.tolist()
        row = 0
        while row < len(names) - 1 and names[row] == other_names[row]:
            row += 1
        raise ValueError(
            f"{caller}: {here} and {there} are Series whose indexes differ: row {row} "
            f"is {names[row]!r} of {here} and {other_names[row]!r} of {there}; pass "
            f"{there}.loc[{here}.index], or {here}.to_numpy() and {there}.to_numpy() "
            "if row i of both belong together."
        )


def _single_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by name, with the parts of an explicit target and of a pair by
    names of their own.
    """
    single: dict[str, Any] = {}
    for argument, value in arguments.items():
        if isinstance(value, ExplicitTarget):
            single |= {
                "target_ids": value.ids,
                "target_mask": value.mask,
                "target_gains": value.gains,
            }
        elif isinstance(value, (tuple, list)) and len(value) == 2:
            single |= {f"{argument}[0]": value[0], f"{argument}[1]": value[1]}
        else:
            single[argument] = value
    return single
