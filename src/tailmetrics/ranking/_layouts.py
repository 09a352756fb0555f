"""Batches that come in another layout: documents of many queries one below the other, and lists of index shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_count, check_ids_in_range, shape_of
from tailmetrics.ranking._device import is_compiling
from tailmetrics.ranking._inputs import Batch, Context, as_tensor, per_row
from tailmetrics.ranking._reading import check_pair
from tailmetrics.ranking._validation import check_gains, warn_of_scores, warn_outside


def rows_of_documents(context: Context, batch: Batch) -> tuple[Batch, Tensor, Tensor | None]:
    """Return flat queries as rows of candidates, one for each query in ascending order of its index.

    Args:
        context: Who asks.
        batch: Tensors. ``preds``, shape (n,), floating: the score of each document; ``target``, shape (n,), bool or
            gains of at least 0; ``indexes``, shape (n,), integers: the query of each document; ``ids``, shape (n,),
            integers: the label of each document; None numbers the documents of a query as they stand. The row mask,
            groups and weights, one for each document or, shape (N,), for each query in ascending order of its index.

    Returns:
        A batch of N rows, the index of each, and the number of documents of each; None where they have labels.
    """
    caller, names = context.caller, ("preds", "target", "indexes", "ids", "row_mask", "row_groups", "row_weights")
    documents = {name: getattr(batch, name) for name in names if getattr(batch, name) is not None}
    _check_documents(caller, documents)
    queries, row = torch.unique(documents["indexes"], return_inverse=True)
    for name, value in documents.items():
        if name.startswith("row_"):
            documents[name] = _of_documents(caller, name, value, row, len(queries))
    row_mask = documents.pop("row_mask", None)
    if row_mask is not None and row_mask.dtype != torch.bool:
        raise ValueError(f"{caller}: row_mask is {shape_of(row_mask)}; pass bool, True for what counts.")
    if context.ignore_index is not None:
        counted = documents["target"] != context.ignore_index
        row_mask = counted if row_mask is None else row_mask & counted
    if row_mask is not None:
        documents, row = {name: value[row_mask] for name, value in documents.items()}, row[row_mask]
        left = torch.bincount(row, minlength=len(queries)) > 0
        queries, row = queries[left], (left.cumsum(0) - 1)[row]
    scores, gains = documents["preds"], documents["target"]
    order = row.argsort(stable=True)
    counts = torch.bincount(row, minlength=len(queries))
    starts = counts.cumsum(0) - counts
    of_queries = {
        name: _of_queries(context, name, documents[name], row, order[starts])
        for name in ("row_groups", "row_weights")
        if name in documents
    }
    if context.validate:
        check_gains(caller, "target", gains, None, of_documents=True)
    if context.warns:
        warn_of_scores(context, scores, gains)
    row = row[order]
    column = torch.arange(len(row), device=row.device) - starts[row]
    label = column if batch.ids is None else documents["ids"][order].to(torch.int64)
    shape = len(counts), int(counts.max()) if len(counts) else 0

    def in_rows(values: Tensor, fill: float) -> Tensor:
        return values.new_full(shape, fill).index_put_((row, column), values)

    ids, gain = in_rows(label, -1), in_rows(gains[order].to(torch.float64), 0.0)
    if batch.ids is not None and context.validate:
        check_ids_in_range(caller, "ids", ids, context.num_labels, None)
    preds = in_rows(scores[order], -torch.inf), ids
    rows = Batch(preds, ids.where(gain > 0, -1), **of_queries, form="target_ids", gains=gain)
    return rows, queries, counts if batch.ids is None else None


def _of_documents(caller: str, name: str, value: Tensor, row: Tensor, num_queries: int) -> Tensor:
    """Return what is known of each document, or of the query of each, as one value per document."""
    if value.shape not in ((len(row),), (num_queries,)):
        raise ValueError(
            f"{caller}: {name} is {shape_of(value)}, but there are {len(row)} documents of {num_queries} queries; "
            "pass one value per query, in ascending order of its index, or one per document."
        )
    value = value.to(row.device)
    return value if len(value) == len(row) else value[row]


def _of_queries(context: Context, name: str, value: Tensor, row: Tensor, firsts: Tensor) -> Tensor | None:
    """Return the one value that all documents of each query have, shape (N,)."""
    of_query = value[firsts]
    if context.validate and bool((of_query[row] != value).any()):
        raise ValueError(
            f"{context.caller}: {name} differs between documents of one query; pass one value per query, or the same "
            "for each of its documents."
        )
    return per_row(context.caller, name, of_query, len(of_query), of_query.device)


def _check_documents(caller: str, documents: dict[str, Tensor]) -> None:
    scores, labels = documents["preds"], documents.get("ids")
    for name, value in documents.items():
        if name.startswith("row_"):
            continue
        if not isinstance(value, Tensor) or value.ndim != 1 or len(value) != len(scores):
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


QUERIES_REMEMBERED = 2**16
"""Queries of earlier updates that are remembered, to notice one that returns: half a megabyte."""


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


def side_by_side(
    context: Context, shards: Any, first_labels: Sequence[int] | None, row_mask: Any
) -> tuple[Tensor, Tensor, int]:
    """Return scores and ids (N, C) of the shards of an index, and how long the shortest list is, padding left out.

    Args:
        context: Who asks.
        shards: Pairs of scores (N, C) and ids (N, C).
        first_labels: What is added to the ids of each shard; None where they are labels already.
        row_mask: Shape (N,), bool; the rows that count, None for all.
    """
    caller = context.caller
    given = list(shards) if isinstance(shards, Iterable) and not isinstance(shards, Tensor) else []
    firsts = [0] * len(given) if first_labels is None else list(first_labels)
    if not given or any(not isinstance(one, (tuple, list)) or len(one) != 2 for one in given):
        raise TypeError(f"{caller}: shards is {shape_of(shards)}; pass a list of pairs of scores and ids [N, C].")
    if len(firsts) != len(given):
        raise ValueError(f"{caller}: there are {len(given)} shards and {len(firsts)} first_labels; pass one for each.")
    pairs: list[tuple[Tensor, Tensor]] = []
    for number, (pair, first) in enumerate(zip(given, firsts, strict=True)):
        scores, ids = (as_tensor(caller, f"shards[{number}][{side}]", one) for side, one in enumerate(pair))
        check_pair(caller, f"shard {number}", scores, ids)
        like = pairs[0][0] if pairs else scores
        if (len(scores), scores.dtype, scores.device) != (len(like), like.dtype, like.device):
            raise ValueError(
                f"{caller}: shard {number} has {shape_of(scores)} on {scores.device}, shard 0 {shape_of(like)} on "
                f"{like.device}; pass the same rows of all shards."
            )
        first = check_count(caller, "first_labels", first, minimum=0)
        pairs.append((scores, torch.where(ids >= 0, ids.to(torch.int64) + first, -1)))
    lengths = torch.stack([((ids >= 0) & (scores > -torch.inf)).sum(dim=1) for scores, ids in pairs], dim=1)
    mask = None if row_mask is None else as_tensor(caller, "row_mask", row_mask)
    mask = per_row(caller, "row_mask", mask, len(lengths), lengths.device)
    lengths = lengths if mask is None else lengths[mask]
    scores, ids = (torch.cat(side, dim=1) for side in zip(*pairs, strict=True))
    return scores, ids, int(lengths.min()) if lengths.numel() else 0
