"""Turn flat queries, the form of ``torchmetrics.retrieval``, into rows of scored candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, check_ids_in_range, shape_of
from tailmetrics.ranking._inputs import OF_ROWS, OTHERS, Batch, Context, per_row


def rows_of_documents(context: Context, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Turn flat queries into rows of scored candidates, one row for each query, by ascending index of the query.

    Args:
        context: The settings of the batch.
        batch: Tensors. ``preds``, shape (n,), floating: the score of each document; ``target``, shape (n,), bool or
            gains of at least 0; ``indexes``, shape (n,), integers: the query of each document; ``ids``, shape (n,),
            integers: the label of each document; None numbers the documents of a query in the given order. The row
            mask, groups and weights have one value for each document, shape (n,), or for each query in ascending order
            of its index, shape (N,). The rows are written into the batch.

    Returns:
        The index of the query of each row, shape (N,), and the number of its documents, shape (N,); None instead of the
        number if ``ids`` are given.
    """
    columns = {name: getattr(batch, name) for name in ("preds", "target", *OTHERS) if getattr(batch, name) is not None}
    _check_documents(context.caller, columns)
    queries, row = torch.unique(columns["indexes"], return_inverse=True)
    for name in OF_ROWS:
        if name in columns:
            columns[name] = _per_document(context.caller, name, columns[name], queries, row)

    row_mask = _documents_that_count(context, columns)
    if row_mask is not None:
        columns = {name: value[row_mask] for name, value in columns.items()}
        row = row[row_mask]
        has_documents = torch.bincount(row, minlength=len(queries)) > 0
        queries, row = queries[has_documents], (has_documents.cumsum(0) - 1)[row]
    batch.documents = columns["preds"], columns["target"]

    order = row.argsort(stable=True)
    counts = torch.bincount(row, minlength=len(queries))
    starts = counts.cumsum(0) - counts
    for name in ("row_groups", "row_weights"):
        if name in columns:
            value = columns[name][order[starts]]
            if context.validate and bool((value[row] != columns[name]).any()):
                raise ValueError(
                    f"{context.caller}: {name} differs between documents of one query; pass one value per query, or "
                    "the same for each of its documents."
                )
            setattr(batch, name, per_row(context.caller, name, value, len(value), value.device))

    row = row[order]
    column = torch.arange(len(row), device=row.device) - starts[row]
    labels = column
    if batch.ids is not None:
        labels = columns["ids"][order].to(torch.int64)
    width = int(counts.max()) if len(counts) else 0

    def in_rows(values: Tensor, fill: float) -> Tensor:
        return values.new_full((len(counts), width), fill).index_put_((row, column), values)

    ids = in_rows(labels, -1)
    batch.gains = in_rows(columns["target"][order].to(torch.float64), 0.0)
    if batch.ids is None:
        context.num_labels = None  # documents have no labels that could be out of range
    elif context.validate:
        check_ids_in_range(context.caller, "ids", ids, context.num_labels, None)
    batch.preds, batch.row_mask = (in_rows(columns["preds"][order], -torch.inf), ids), None
    batch.target = ids
    context.row_mask, context.of_documents = None, True
    return queries, counts if batch.ids is None else None


def _per_document(caller: str, name: str, value: Tensor, queries: Tensor, row: Tensor) -> Tensor:
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
            f"{caller}: {name} is {shape_of(value)}, but there are {len(row)} documents of {len(queries)} "
            "queries; pass one value per query, in ascending order of its index, or one per document."
        )
    value = value.to(row.device)
    if len(queries) < len(row):
        return value if len(value) == len(row) else value[row]
    if not torch.equal(value[row], value):
        raise ValueError(
            f"{caller}: {name} holds {len(value)} values, and there are as many queries as documents, so that they may "
            "be one per query, in ascending order of its index, or one per document. Sort the documents by indexes, "
            "where both are the same: order = indexes.argsort(), then preds[order] and so on."
        )
    return value


def _documents_that_count(context: Context, columns: dict[str, Tensor]) -> Tensor | None:
    """Return which documents count, shape (n,), bool; None for all. The row mask is taken out of ``columns``."""
    row_mask = columns.pop("row_mask", None)
    if row_mask is not None and row_mask.dtype != torch.bool:
        raise ValueError(f"{context.caller}: row_mask is {shape_of(row_mask)}; pass bool, True for what counts.")
    if context.ignore_index is None:
        return row_mask
    is_counted = columns["target"] != context.ignore_index
    return is_counted if row_mask is None else row_mask & is_counted


def _check_documents(caller: str, documents: dict[str, Tensor]) -> None:
    scores, labels = documents["preds"], documents.get("ids")
    if isinstance(scores, tuple):
        raise TypeError(
            f"{caller}: preds is a pair, but with indexes= it is the score of each document, shape [n]; ids= takes "
            "their labels."
        )
    for name, value in documents.items():
        if name not in OF_ROWS and (value.ndim != 1 or len(value) != len(scores)):
            raise ValueError(
                f"{caller}: {name} is {shape_of(value)}, but with indexes= preds, target and ids have one number per "
                f"document: shape [n], like preds, {shape_of(scores)}."
            )
    if not scores.is_floating_point() or documents["indexes"].dtype not in INTEGERS:
        raise TypeError(
            f"{caller}: preds is {shape_of(scores)}, indexes is {shape_of(documents['indexes'])}; pass floating scores "
            "and the query of each document as integers; preds come first, target second."
        )
    if labels is not None and labels.dtype not in INTEGERS:
        raise TypeError(f"{caller}: ids is {shape_of(labels)}; labels are integers.")
