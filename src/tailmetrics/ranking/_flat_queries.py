"""Flat queries, the form of ``torchmetrics.retrieval``, as rows of scored candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, shape_of
from tailmetrics.ranking._batch import OPTIONAL_ARGUMENTS, ROW_ARGUMENTS, Batch, Context
from tailmetrics.ranking._hits import Padding
from tailmetrics.ranking._tensors import per_row


def documents_in_rows(context: Context, batch: Batch) -> None:
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
