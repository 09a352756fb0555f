"""Every accepted form of ``preds``, flat queries and shards of an index among them, brought to ranked lists of ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_count, check_ids_in_range, check_row_mask, shape_of
from tailmetrics.ranking._device import constant, is_compiling, whole_numbers
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._inputs import Batch, Context, as_tensor, csr_entries
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._targets import BatchRows, Targets, read_batch_rows
from tailmetrics.ranking._validation import check_csr, check_gains, check_lists, warn_of_scores, warn_outside


@dataclass(frozen=True, eq=False)
class Lists:
    """Ranked lists, best first.

    Attributes:
        ids: Shape (N, K), int64, -1 behind the end of a list.
        values: Shape (N, K) or (N, K + 1), the scores in the order of the list and that of the first label left
            out; None when given as ids.
        complete: Whether the lists hold everything that was retrieved.
        repeated: Shape (N, K), bool: the places whose id stands before in the same row; None where there are none.
    """

    ids: Tensor
    values: Tensor | None
    complete: bool
    repeated: Tensor | None = None


def lists_from_scores(context: Context, scores: Tensor, depth: int) -> Lists:
    """Rank dense scores [N, L] down to ``depth``."""
    scores = scores.detach()
    num_labels = scores.shape[1]
    depth = min(depth, num_labels)
    if num_labels and not depth:
        return _not_ranked(context, scores)
    values, ids, distinct = context.kernels.top_k(scores, depth)
    complete = depth == num_labels
    if distinct and context.row_mask is None and not complete:
        return Lists(ids, values, complete)  # no NaN, and -inf at most behind the list
    if context.validate:  # NaN sorts first, but for a negative one on a device, where its bits are sorted
        check_not_nan(context, values[:, :1] if context.kernels.reads else scores.amax(dim=1, keepdim=True))
    return Lists(retrieved(context, values[:, :depth], ids), values, complete)


def _not_ranked(context: Context, scores: Tensor) -> Lists:
    """Return empty lists, for metrics that read scores alone; what is left out first is the largest score."""
    values = None
    if context.validate:
        values = scores.amax(dim=1, keepdim=True)
        check_not_nan(context, values)
    nothing = torch.empty(len(scores), 0, dtype=torch.int64, device=scores.device)
    return Lists(nothing, values, complete=False)


def first_of(lists: Lists, depth: int | None) -> Lists:
    """Return the first ``depth`` of each list."""
    if depth is None or lists.ids.shape[1] <= depth:
        return lists
    values = None if lists.values is None else lists.values[:, : depth + 1]
    repeated = None if lists.repeated is None else lists.repeated[:, :depth]
    return Lists(lists.ids[:, :depth], values, complete=False, repeated=repeated)


def lists_from_ids(context: Context, ids: Tensor, complete: bool) -> Lists:
    """Take ids [N, K] that are ranked already."""
    ids = ids.detach().to(torch.int64)
    ids = ids if context.row_mask is None else context.counted(ids)
    if context.validate:
        check_lists(context, "preds", ids, distinct=context.duplicates == "error", padded_behind=True)
    return Lists(ids, None, complete, context.kernels.repeated(ids) if context.duplicates == "first" else None)


def lists_from_candidates(context: Context, scores: Tensor, ids: Tensor, complete: bool) -> Lists:
    """Rank scored candidates (scores [N, C], ids [N, C]) in any order; id -1 or score -inf is no candidate."""
    caller = context.caller
    if scores.ndim != 2 or scores.shape != ids.shape or not scores.is_floating_point() or ids.dtype not in INTEGERS:
        raise ValueError(
            f"{caller}: preds is the pair ({shape_of(scores)}, {shape_of(ids)}); pass floating scores [N, C] and "
            "integer ids [N, C] of one shape."
        )
    scores, ids = scores.detach(), ids.detach().to(torch.int64)
    if context.validate:
        check_lists(context, "ids in preds", context.counted(ids), distinct=context.duplicates == "error")
    rows = _rows_to_rank(context, scores, ids)
    if len(rows) == len(ids):
        scores, ids = _ranked(context, scores, ids, rows)
    elif len(rows):
        scores, ids = scores.clone(), ids.clone()
        scores[rows], ids[rows] = _ranked(context, scores[rows], ids[rows], rows)
    return Lists(ids, scores, complete, context.kernels.repeated(ids) if context.duplicates == "first" else None)


def _rows_to_rank(context: Context, scores: Tensor, ids: Tensor) -> Tensor:
    """Return the rows that hold a tie, a score out of order or NaN, or what is not retrieved; all, where looking waits.

    Most files and indexes give lists: nothing but their order has to be looked at.
    """
    every = whole_numbers(len(ids), ids.device)
    if not context.kernels.reads or context.row_mask is not None or not ids.numel():
        return every
    all_retrieved = bool((scores[:, -1] > -torch.inf).all()) and bool((ids >= 0).all())
    falling = scores[:, :-1] > scores[:, 1:]
    if all_retrieved and bool(falling.all()):
        return every[:0]
    are_lists = falling.all(dim=1)
    if not all_retrieved:
        are_lists &= (scores[:, -1] > -torch.inf) & (ids >= 0).all(dim=1)
    return are_lists.logical_not().nonzero().squeeze(1)


def _ranked(context: Context, scores: Tensor, ids: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return candidates of these ``rows`` of a batch, best first, -1 for what is not retrieved."""
    if context.validate:
        check_not_nan(context, scores, rows)
    scores = torch.where(ids >= 0, scores, -torch.inf)
    scores, ids = _in_order(scores, ids) if context.kernels.reads else _sorted(scores, ids)
    return scores, retrieved(context, scores, ids)


def _in_order(scores: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return what :func:`_sorted` does, but for the order of what is not retrieved, and sort only rows out of order."""
    ahead, behind = scores[:, :-1], scores[:, 1:]
    sorted_rows = ((ahead > behind) | (behind == -torch.inf)).all(dim=1)
    if bool(sorted_rows.all()):
        return scores, ids
    rows = sorted_rows.logical_not().nonzero().squeeze(1)
    scores, ids = scores.clone(), ids.clone()
    scores[rows], ids[rows] = _sorted(scores[rows], ids[rows])
    return scores, ids


def _sorted(scores: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return candidates, best first, equal scores by id."""
    order = ids.argsort(dim=1, stable=True)
    order = order.gather(1, scores.gather(1, order).argsort(dim=1, descending=True, stable=True))
    return scores.gather(1, order), ids.gather(1, order)


def lists_from_csr(context: Context, matrix: Tensor, depth: int | None) -> Lists:
    """Rank the stored entries of CSR [N, L]; a stored zero is a score like any other."""
    caller, row_mask = context.caller, context.row_mask
    num_rows, num_labels = matrix.shape
    rows, ids, values = csr_entries(matrix)
    if not values.is_floating_point():
        raise TypeError(
            f"{caller}: the CSR preds store {shape_of(values)}; scores are floating, and a target comes second."
        )
    if context.validate:
        check_csr(caller, "preds", matrix, rows)
        wrong = values.isnan() if row_mask is None else values.isnan() & row_mask[rows]
        if bool(wrong.any()):
            _raise_nan(caller, int(rows[wrong.nonzero()[0, 0]]))
    order = ids.argsort(stable=True)
    order = order[values[order].argsort(descending=True, stable=True)]
    order = order[rows[order].argsort(stable=True)]
    per_row = matrix.crow_indices().diff()
    longest = (int(per_row.max()) if num_rows else 0) if context.kernels.reads else num_labels
    width = longest if depth is None else min(depth + 1, longest)
    column = torch.arange(len(rows), device=rows.device) - matrix.crow_indices()[:-1][rows]
    place = torch.where(column < width, rows * width + column, num_rows * width)
    listed = ids.new_full((num_rows * width + 1,), -1).scatter_(0, place, ids[order])[:-1].view(num_rows, width)
    scores = values.new_full((num_rows * width + 1,), -torch.inf).scatter_(0, place, values[order])[:-1]
    scores = scores.view(num_rows, width)
    depth = width if depth is None else min(depth, width)
    return Lists(retrieved(context, scores[:, :depth], listed[:, :depth]), scores, complete=depth >= longest)


def retrieved(context: Context, values: Tensor, ids: Tensor) -> Tensor:
    """Return ``ids`` with -1 where the score says not retrieved, or where the row does not count."""
    row_mask = context.row_mask
    retrieved = values > -torch.inf if row_mask is None else (values > -torch.inf) & row_mask[:, None]
    if context.kernels.reads and bool(retrieved.all()):
        return ids
    return torch.where(retrieved, ids, constant(-1, ids.device))


def check_not_nan(context: Context, values: Tensor, rows: Tensor | None = None) -> None:
    """Raise if a row that counts holds NaN; ``rows`` are the numbers of the rows, where they are not all."""
    wrong = values.isnan().any(dim=1) if values.shape[1] else values.new_zeros(len(values), dtype=torch.bool)
    wrong = wrong if context.row_mask is None else wrong & context.row_mask
    if bool(wrong.any()):
        first = wrong.nonzero()[0, 0]
        _raise_nan(context.caller, int(first if rows is None else rows[first]))


def _raise_nan(caller: str, row: int) -> None:
    raise ValueError(
        f"{caller}: preds holds NaN in row {row}; a score must be a number (-inf for a label that is not retrieved)."
    )


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
        scores, ids = (as_tensor(caller, f"shards[{number}][{side}]", one).detach() for side, one in enumerate(pair))
        like = pairs[0][0] if pairs else scores
        fits = scores.is_floating_point() and ids.dtype in INTEGERS and scores.ndim == 2 and scores.shape == ids.shape
        if not fits or (len(scores), scores.dtype, scores.device) != (len(like), like.dtype, like.device):
            raise ValueError(
                f"{caller}: shard {number} is ({shape_of(scores)}, {shape_of(ids)}) on {scores.device}; pass floating "
                f"scores [N, C] and integer ids [N, C] of one shape, of the same rows, like {shape_of(like)} on "
                f"{like.device}."
            )
        first = check_count(caller, "first_labels", first, minimum=0)
        pairs.append((scores, torch.where(ids >= 0, ids.to(torch.int64) + first, -1)))
    lengths = torch.stack([((ids >= 0) & (scores > -torch.inf)).sum(dim=1) for scores, ids in pairs], dim=1)
    mask = check_row_mask(caller, row_mask, len(lengths), lengths.device)
    lengths = lengths if mask is None else lengths[mask]
    scores, ids = (torch.cat(side, dim=1) for side in zip(*pairs, strict=True))
    return scores, ids, int(lengths.min()) if lengths.numel() else 0


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
