"""Documents of many queries one below the other, as ``torchmetrics.retrieval`` takes them, made rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_ids_in_range, shape_of
from tailmetrics.ranking._ambiguity import warn_of_scores, warn_outside
from tailmetrics.ranking._batch_rows import BatchRows, read_batch_rows
from tailmetrics.ranking._context import Context
from tailmetrics.ranking._device import is_compiling
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._lists import Lists, lists_from_candidates
from tailmetrics.ranking._sequences import Batch
from tailmetrics.ranking._targets import Targets
from tailmetrics.ranking._tensors import as_tensor
from tailmetrics.ranking._validation import check_gains

QUERIES_REMEMBERED = 2**16
"""Queries of earlier updates that are remembered, to notice one that returns: half a megabyte."""


@dataclass(frozen=True, eq=False)
class FlatQueries:
    """Flat queries as rows.

    Attributes:
        lists: Ranked lists of N queries.
        targets: What is relevant in them.
        rows: Their row groups and weights.
        queries: Shape (N,), ascending: the index of each.
        documents: Shape (N,), int64: the number of documents of each; None where they have labels.
    """

    lists: Lists
    targets: Targets
    rows: BatchRows
    queries: Tensor
    documents: Tensor | None


@dataclass(frozen=True, eq=False)
class QueriesSeen:
    """The queries that updates have held: one that returns was cut in two, and counts twice. That is said once.

    Attributes:
        known: Shape (Q,): the last of them; None where there were none.
        said: Whether a query has returned.
    """

    known: Tensor | None = None
    said: bool = False

    def and_those_of(self, caller: str, queries: Tensor | None) -> QueriesSeen:
        """Return the same with the queries of a batch, shape (N,); None where its rows are no flat queries."""
        if queries is None or self.said or is_compiling():
            return self
        known = queries[:0] if self.known is None else self.known.to(queries.device, queries.dtype)
        back = queries[torch.isin(queries, known)]
        if len(back):
            warn_outside(
                f"{caller}: the query {int(back[0])} of indexes stood in an earlier update too. Its documents there "
                "count as a query of their own: pass all documents of a query in one update. If it is another query, "
                "number the queries of all batches differently."
            )
        return QueriesSeen(torch.cat([known, queries])[-QUERIES_REMEMBERED:], bool(len(back)))


def read_flat(context: Context, batch: Batch, indexes: Any, ids: Any) -> FlatQueries:
    """Return ranked lists and targets, one row for each query in ascending order of its index.

    Args:
        context: Who asks.
        batch: ``preds``, shape (n,), floating: the score of each document; ``target``, shape (n,), bool or gains of at
            least 0. The others, one for each document or, shape (N,), for each query in ascending order of its index.
        indexes: Shape (n,), integers: the query of each document.
        ids: Shape (n,), integers: the label of each document; None numbers the documents of a query as they stand.
    """
    caller = context.caller
    named = {"preds": batch.preds, "target": batch.target, "indexes": indexes} | ({} if ids is None else {"ids": ids})
    documents = {name: as_tensor(caller, name, value).detach() for name, value in named.items()}
    _check(caller, documents)
    context = replace(context, kernels=kernels_for(documents["preds"].device))
    others = {"row_mask": batch.row_mask, "row_groups": batch.row_groups, "row_weights": batch.row_weights}
    queries, row = torch.unique(documents["indexes"], return_inverse=True)
    for name, value in others.items():
        if value is not None:
            documents[name] = _of_documents(caller, name, value, row, len(queries))
    return _rows_of_queries(context, _kept(context, documents))


def _of_documents(caller: str, name: str, value: Any, row: Tensor, num_queries: int) -> Tensor:
    """Return what is known of each document, or of the query of each, as one value per document."""
    vector = as_tensor(caller, name, value).detach() if hasattr(value, "shape") else torch.as_tensor(value)
    if vector.shape not in ((len(row),), (num_queries,)):
        raise ValueError(
            f"{caller}: {name} is {shape_of(vector)}, but there are {len(row)} documents of {num_queries} queries; "
            "pass one value per query, in ascending order of its index, or one per document."
        )
    vector = vector.to(row.device)
    return vector if len(vector) == len(row) else vector[row]


def _kept(context: Context, documents: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the documents that neither ``row_mask`` nor ``ignore_index`` leaves out."""
    mask = documents.pop("row_mask", None)
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"{context.caller}: row_mask is {shape_of(mask)}; pass bool, True for what counts.")
    if context.ignore_index is not None:
        counted = documents["target"] != context.ignore_index
        mask = counted if mask is None else mask & counted
    return documents if mask is None else {name: value[mask] for name, value in documents.items()}


def _rows_of_queries(context: Context, documents: dict[str, Tensor]) -> FlatQueries:
    scores, gains, labels = documents["preds"], documents["target"], documents.get("ids")
    if context.validate:
        check_gains(context.caller, "target", gains, None, of_documents=True)
    if context.warns:
        warn_of_scores(context, scores, gains)
    queries, row = torch.unique(documents["indexes"], return_inverse=True)
    order = row.argsort(stable=True)
    counts = torch.bincount(row, minlength=len(queries))
    starts = counts.cumsum(0) - counts
    of_queries = [
        None if name not in documents else _of_queries(context, name, documents[name], row, order[starts])
        for name in ("row_groups", "row_weights")
    ]
    row = row[order]
    column = torch.arange(len(row), device=row.device) - starts[row]
    label = column if labels is None else labels[order].to(torch.int64)
    shape = len(counts), int(counts.max()) if len(counts) else 0
    listed = label.new_full(shape, -1).index_put_((row, column), label)
    score = scores.new_full(shape, -torch.inf).index_put_((row, column), scores[order])
    if labels is not None and context.validate:
        check_ids_in_range(context.caller, "ids", listed, context.num_labels, None)
    lists = lists_from_candidates(context, score, listed, complete=True)
    gain = gains[order].to(torch.float64)
    inside = gain > 0
    entries = context.kernels.without_void(Entries(row[inside], label[inside], gain[inside], shape[1]))
    targets = Targets(shape[0], context.num_labels, None, context.kernels, given=entries)
    rows = read_batch_rows(context, len(queries), queries.device, *of_queries)
    return FlatQueries(lists, targets, rows, queries, counts if labels is None else None)


def _of_queries(context: Context, name: str, value: Tensor, row: Tensor, first: Tensor) -> Tensor:
    """Return the one value that all documents of each query have, shape (N,)."""
    of_query = value[first]
    if context.validate and bool((of_query[row] != value).any()):
        raise ValueError(
            f"{context.caller}: {name} differs between documents of one query; pass one value per query, or the same "
            "for each of its documents."
        )
    return of_query


def _check(caller: str, documents: dict[str, Tensor]) -> None:
    scores, labels = documents["preds"], documents.get("ids")
    for name, value in documents.items():
        if value.ndim != 1 or len(value) != len(scores):
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
