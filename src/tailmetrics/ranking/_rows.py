"""Give the tensors of a batch one axis of rows.

A batch may hold sequences of tokens, or the flat queries of
``torchmetrics.retrieval``, which become rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, shape_of
from tailmetrics.ranking._batch import OPTIONAL_ARGUMENTS, ROW_ARGUMENTS, Batch, Context
from tailmetrics.ranking._hits import Padding
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._tensors import FLOATS, NEEDED, STACKED

ROW_TYPES: Final[Mapping[str, tuple[torch.dtype, Sequence[torch.dtype]]]] = {
    "row_mask": (torch.bool, (torch.bool,)),
    "row_groups": (torch.int64, INTEGERS),
    "row_weights": (torch.float64, (*INTEGERS, *FLOATS)),
}
"""The type in which each argument per row is read, and the types that it may have."""


def as_rows(context: Context, batch: Batch) -> None:
    """Give a batch one axis of rows, and choose the kernels that read the batch.

    Scores (B, T, L) and a target (B, T) become B·T rows, the documents of a query
    become a row of candidates. The row mask also excludes the rows that hold nothing
    but ``ignore_index``.
    """
    first = batch.preds[0] if isinstance(batch.preds, tuple) else batch.preds
    if batch.indexes is not None:
        _documents_in_rows(context, batch)
    else:
        leading = first.shape[:-1]
        if len(leading) > 1 and not first.is_sparse_csr:
            _tokens_in_rows(context.caller, batch, leading)
        for name in ROW_ARGUMENTS:
            value = getattr(batch, name)
            if value is not None:
                value = per_row(
                    context.caller, name, value, prod(leading), first.device
                )
                setattr(batch, name, value)
        if context.ignore_index is not None:
            without_ignored(context.caller, batch, context.ignore_index)
        if isinstance(batch.preds, tuple):
            _check_pair(context.caller, "preds", *batch.preds)
    context.row_mask = batch.row_mask
    context.kernels = kernels_for(first.device)


def _tokens_in_rows(caller: str, batch: Batch, leading: torch.Size) -> None:
    """Reshape the ``leading`` axes of a batch, such as (B, T), to one axis of rows."""
    batch.tokens = leading[-1]
    if isinstance(batch.preds, tuple):
        batch.preds = tuple(
            side.reshape(prod(side.shape[:-1]), side.shape[-1]) for side in batch.preds
        )
    else:
        batch.preds = batch.preds.flatten(0, -2)
    for name in ("target", "gains", *ROW_ARGUMENTS):
        value = getattr(batch, name)
        if value is not None:
            value = _without_leading_axes(caller, name, value, leading)
            setattr(batch, name, value)


def _without_leading_axes(
    caller: str, name: str, value: Tensor, leading: torch.Size
) -> Tensor:
    """Return an argument with one axis of rows in place of the ``leading`` axes.

    Raise ValueError unless the argument has the same ``leading`` axes as ``preds``; row
    arguments may have one value per sequence.
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


def per_row(
    caller: str,
    argument: str,
    value: Tensor,
    num_rows: int,
    device: torch.device,
) -> Tensor:
    """Return row mask, row groups (int64) or row weights (float64), shape (N,).

    The result is on the device of ``preds``.
    """
    dtype, accepted = ROW_TYPES[argument]
    if value.dtype not in accepted or value.shape != (num_rows,):
        raise ValueError(
            f"{caller}: {argument} is {shape_of(value)} for {num_rows} rows; pass for "
            f"each row {NEEDED[argument]}, shape [{num_rows}]."
        )
    return value.to(device, dtype)


def without_ignored(caller: str, batch: Batch, ignored: int) -> None:
    """Replace the label ``ignored`` in target ids by -1.

    Rows that then have no label are taken out of the row mask.
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
    """Return ids without the label ``ignored``, and which rows count, (N,).

    The ids have the shape (N,) or (N, M), with -1 in the place of the label.

    A row that held nothing else does not count; a row without labels does.
    """
    ids = ids.to(torch.int64)  # in uint8, -100 would be the label 156
    is_label = ids.ne(ignored)
    labels = torch.where(is_label, ids, -1)
    if ids.ndim == 1:
        return labels, is_label
    return labels, is_label.all(dim=1) | labels.ne(-1).any(dim=1)


def _check_pair(caller: str, argument: str, scores: Tensor, ids: Tensor) -> None:
    """Raise unless scores and ids are matrices of one shape on one device."""
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


# flat queries


def _documents_in_rows(context: Context, batch: Batch) -> None:
    """Turn flat queries into rows of scored candidates, one row for each query.

    The rows are in ascending order of the index of the query.

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
    """Return the documents that count, their queries (N,), and the row of each.

    The documents are arguments by name, shape (n,) each.

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
    """Return the first document and the highest gain of each label of a query.

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
