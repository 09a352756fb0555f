"""The arguments of an update read: which form each has, whether they fit together, and what was predicted as lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_count, check_ids_in_range, check_row_mask, shape_of
from tailmetrics.ranking._device import constant, is_compiling
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._inputs import Batch, Context, as_tensor, is_csr
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._targets import BatchRows, read_batch_rows, read_target
from tailmetrics.ranking._validation import (
    check_gains,
    check_lists,
    check_not_nan,
    csr_entries,
    warn_of_ids,
    warn_of_scores,
    warn_outside,
)


@dataclass(frozen=True, eq=False)
class Lists:
    """Ranked lists, best first.

    Attributes:
        ids: Shape (N, K), int64, -1 behind the end of a list.
        values: Shape (N, K) or (N, K + 1), the scores in the order of the list and that of the first label left
            out; None when given as ids.
        complete: Whether the lists hold everything that was retrieved.
        repeated: Shape (N, K), bool: the places whose id stands before in the same row; None where there are none.
        scores: Shape (N, L), the dense scores it was made from; None otherwise.
    """

    ids: Tensor
    values: Tensor | None
    complete: bool
    repeated: Tensor | None = None
    scores: Tensor | None = None


@dataclass(frozen=True)
class Depth:
    """How much of a batch is to be ranked.

    Attributes:
        scores: How many labels of dense scores; None for all.
        lists: How many places of ids, candidates and CSR; None for all.
        complete: Whether ids and candidates hold everything that was retrieved.
        decisions: Whether ``preds`` may be bool (N, L), which have no order.
    """

    scores: int | None
    lists: int | None = None
    complete: bool = True
    decisions: bool = False


def read_batch(
    context: Context, preds: Any, target: Any, row_mask: Any, depth: Depth, scored: bool | None = None
) -> tuple[Context, Lists, Targets]:
    """Read and rank a batch; nothing is changed.

    Args:
        context: Who asks.
        preds: In any form.
        target: In any form, an :class:`ExplicitTarget` included.
        row_mask: Shape (N,), bool, or None.
        depth: How much is ranked.
        scored: True where ``preds`` must be scores, False where they must be ids, None for either.

    Returns:
        The context with what was learnt of it, ranked lists and targets.
    """
    caller = context.caller
    if context.num_labels is not None and type(context.num_labels) is not int:
        check_count(caller, "num_labels", context.num_labels)
    scores, ids = _read_predictions(context, preds, scored, depth.decisions)
    main = ids if scores is None else scores
    assert main is not None
    shape = main.shape if ids is None else None  # one column per label
    context = replace(
        context,
        num_labels=context.num_labels if shape is None else shape[1],
        row_mask=None if row_mask is None else check_row_mask(caller, row_mask, main.shape[0], main.device),
        kernels=kernels_for(main.device),
    )
    targets = read_target(context, target, main.shape[0], shape, main.device)
    if context.num_labels is None:
        context = replace(context, num_labels=targets.num_labels)
    if scores is None:
        # the first batch is checked whole, later ones as far as they are read: what stands behind changes no value
        read = main if depth.lists is None or context.warns else main[:, : depth.lists]
        lists = _lists_from_ids(context, read, depth.complete and read.shape[1] == main.shape[1])
    elif ids is not None:
        lists = _lists_from_candidates(context, scores, ids, depth.complete)
    elif scores.layout == torch.sparse_csr:
        lists = _lists_from_csr(context, scores, depth.lists)
    else:
        lists = _lists_from_scores(context, scores.detach(), scores.shape[1] if depth.scores is None else depth.scores)
    if depth.lists is not None and lists.ids.shape[1] > depth.lists:
        values = None if lists.values is None else lists.values[:, : depth.lists + 1]
        repeated = None if lists.repeated is None else lists.repeated[:, : depth.lists]
        lists = Lists(lists.ids[:, : depth.lists], values, False, repeated, lists.scores)
    if context.warns and context.validate and not depth.decisions:
        if scores is None:
            warn_of_ids(context, main)
        elif lists.scores is not None:
            warn_of_scores(context, main, target)
    return context, lists, targets


def _read_predictions(
    context: Context, preds: Any, scored: bool | None, decisions: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Tell which form ``preds`` have, and check it; return scores and ids, None for what they do not hold."""
    caller = context.caller
    if isinstance(preds, (tuple, list)) and len(preds) == 2 and scored is not False:
        scores, ids = as_tensor(caller, "preds[0]", preds[0]), as_tensor(caller, "preds[1]", preds[1])
        _check_pair(caller, "preds", scores, ids)
        return scores, ids
    preds = as_tensor(caller, "preds", preds)
    if decisions and preds.dtype == torch.bool and preds.ndim == 2:
        return preds, None
    floating = preds.is_floating_point()
    if preds.dtype not in INTEGERS and not floating:
        raise TypeError(
            f"{caller}: preds is {shape_of(preds)}; pass floating scores or integer ids. Decisions go to a metric with "
            "a threshold, and a target comes second."
        )
    if scored is not None and scored != floating:
        found = "label ids are integers. Scores go to Ranking.from_scores"
        found = "scores are floating. Ids go to Ranking.from_ids" if scored else found
        raise TypeError(f"{caller}: {'scores' if scored else 'ids'} is {shape_of(preds)}; {found}.")
    if preds.ndim != 2:
        raise ValueError(
            f"{caller}: preds is {shape_of(preds)}; pass shape [N, L] for scores or [N, K] for ranked ids "
            "(a single row needs a row axis: preds[None]; a target, such as class indices, comes second)."
        )
    if not floating and preds.layout == torch.strided:
        return None, preds
    if context.num_labels not in (None, preds.shape[1]):
        raise ValueError(
            f"{caller}: preds has {preds.shape[1]} columns, but there are {context.num_labels} labels; "
            "pass one per label."
        )
    return preds, None


def _check_pair(caller: str, argument: str, scores: Tensor, ids: Tensor) -> None:
    """Raise unless scores and ids of candidates are matrices of one shape on one device."""
    if scores.device != ids.device:
        raise ValueError(
            f"{caller}: {argument} is a pair on {scores.device} and {ids.device}; move both to one device."
        )
    fits = scores.is_floating_point() and ids.dtype in INTEGERS and scores.ndim == 2 and scores.shape == ids.shape
    if not fits or is_csr(scores) or is_csr(ids):
        raise ValueError(
            f"{caller}: {argument} is the pair ({shape_of(scores)}, {shape_of(ids)}); pass dense floating scores "
            "[N, C] and integer ids [N, C] of one shape."
        )


# preds as ranked lists


def _lists_from_scores(context: Context, scores: Tensor, depth: int) -> Lists:
    """Rank dense scores [N, L] down to ``depth``; decisions (bool) are not ranked."""
    num_labels = scores.shape[1]
    depth = min(depth, num_labels)
    if scores.dtype == torch.bool or (num_labels and not depth):
        # for metrics that read scores alone: what is left out first is the largest score
        values = scores.amax(dim=1, keepdim=True) if context.validate and scores.dtype != torch.bool else None
        if values is not None:
            check_not_nan(context, values)
        nothing = torch.empty(len(scores), 0, dtype=torch.int64, device=scores.device)
        return Lists(nothing, values, complete=False, scores=scores)
    values, ids, distinct = context.kernels.top_k(scores, depth)
    complete = depth == num_labels
    if distinct and context.row_mask is None and not complete:
        return Lists(ids, values, complete, None, scores)  # no NaN, and -inf at most behind the list
    if context.validate:
        check_not_nan(context, context.kernels.highest(scores, values))
    return Lists(retrieved(context, values[:, :depth], ids), values, complete, None, scores)


def _lists_from_ids(context: Context, ids: Tensor, complete: bool) -> Lists:
    """Take ids [N, K] that are ranked already."""
    ids = ids.detach().to(torch.int64)
    ids = ids if context.row_mask is None else context.counted(ids)
    if context.validate:
        check_lists(context, "preds", ids, distinct=context.duplicates == "error", padded_behind=True)
    return Lists(ids, None, complete, context.kernels.repeated(ids) if context.duplicates == "first" else None)


def _lists_from_candidates(context: Context, scores: Tensor, ids: Tensor, complete: bool) -> Lists:
    """Rank scored candidates (scores [N, C], ids [N, C]) in any order; id -1 or score -inf is no candidate."""
    scores, ids = scores.detach(), ids.detach().to(torch.int64)
    if context.validate:
        check_lists(context, "ids in preds", context.counted(ids), distinct=context.duplicates == "error")
        check_not_nan(context, scores)
    scores, ids = context.kernels.best_first(torch.where(ids >= 0, scores, -torch.inf), ids)
    repeated = context.kernels.repeated(ids) if context.duplicates == "first" else None
    return Lists(retrieved(context, scores, ids), scores, complete, repeated)


def _lists_from_csr(context: Context, matrix: Tensor, depth: int | None) -> Lists:
    """Rank the stored entries of CSR [N, L]; a stored zero is a score like any other."""
    num_rows, num_labels = matrix.shape
    rows, ids, values = csr_entries(context, "preds", matrix)
    if not values.is_floating_point():
        raise TypeError(
            f"{context.caller}: the CSR preds store {shape_of(values)}; scores are floating, and a target comes second."
        )
    if context.validate:
        check_not_nan(context, values[:, None], rows)
    order = ids.argsort(stable=True)
    order = order[values[order].argsort(descending=True, stable=True)]
    order = order[rows[order].argsort(stable=True)]
    width = num_labels if depth is None else min(depth + 1, num_labels)
    padding = context.kernels.padding(rows[order], num_rows, width)
    scores, listed = padding.place(values[order], -torch.inf), padding.place(ids[order], -1)
    return Lists(retrieved(context, scores, listed), scores, complete=True)


def retrieved(context: Context, values: Tensor, ids: Tensor) -> Tensor:
    """Return ``ids`` with -1 where the score says not retrieved, or where the row does not count."""
    row_mask = context.row_mask
    retrieved = values > -torch.inf if row_mask is None else (values > -torch.inf) & row_mask[:, None]
    return torch.where(retrieved, ids, constant(-1, ids.device))


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
        _check_pair(caller, f"shard {number}", scores, ids)
        like = pairs[0][0] if pairs else scores
        if (len(scores), scores.dtype, scores.device) != (len(like), like.dtype, like.device):
            raise ValueError(
                f"{caller}: shard {number} has {shape_of(scores)} on {scores.device}, shard 0 {shape_of(like)} on "
                f"{like.device}; pass the same rows of all shards."
            )
        first = check_count(caller, "first_labels", first, minimum=0)
        pairs.append((scores, torch.where(ids >= 0, ids.to(torch.int64) + first, -1)))
    lengths = torch.stack([((ids >= 0) & (scores > -torch.inf)).sum(dim=1) for scores, ids in pairs], dim=1)
    mask = check_row_mask(caller, row_mask, len(lengths), lengths.device)
    lengths = lengths if mask is None else lengths[mask]
    scores, ids = (torch.cat(side, dim=1) for side in zip(*pairs, strict=True))
    return scores, ids, int(lengths.min()) if lengths.numel() else 0


# flat queries


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


def read_flat(
    context: Context, batch: Batch, indexes: Any, ids: Any
) -> tuple[Context, Lists, Targets, BatchRows, Tensor, Tensor | None]:
    """Read flat queries as rows, one for each query in ascending order of its index.

    Args:
        context: Who asks.
        batch: ``preds``, shape (n,), floating: the score of each document; ``target``, shape (n,), bool or gains of at
            least 0. The others, one for each document or, shape (N,), for each query in ascending order of its index.
        indexes: Shape (n,), integers: the query of each document.
        ids: Shape (n,), integers: the label of each document; None numbers the documents of a query as they stand.

    Returns:
        The context with what was learnt of it, ranked lists of N queries, what is relevant in them, their row groups
        and weights, the index of each, and the number of documents of each; None where they have labels.
    """
    caller = context.caller
    named = {"preds": batch.preds, "target": batch.target, "indexes": indexes} | ({} if ids is None else {"ids": ids})
    documents = {name: as_tensor(caller, name, value).detach() for name, value in named.items()}
    _check_documents(caller, documents)
    context = replace(context, kernels=kernels_for(documents["preds"].device))
    queries, row = torch.unique(documents["indexes"], return_inverse=True)
    for name in ("row_mask", "row_groups", "row_weights"):
        value = getattr(batch, name)
        if value is not None:
            documents[name] = _of_documents(caller, name, value, row, len(queries))
    documents = _kept(context, documents)
    scores, gains = documents["preds"], documents["target"]
    if context.validate:
        check_gains(caller, "target", gains, None, of_documents=True)
    if context.warns:
        warn_of_scores(context, scores, gains)
    queries, row = torch.unique(documents["indexes"], return_inverse=True)
    order = row.argsort(stable=True)
    counts = torch.bincount(row, minlength=len(queries))
    firsts = order[counts.cumsum(0) - counts]
    groups, weights = (_of_queries(context, name, documents, row, firsts) for name in ("row_groups", "row_weights"))
    row = row[order]
    column = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    label = column if ids is None else documents["ids"][order].to(torch.int64)
    shape = len(counts), int(counts.max()) if len(counts) else 0
    listed = label.new_full(shape, -1).index_put_((row, column), label)
    score = scores.new_full(shape, -torch.inf).index_put_((row, column), scores[order])
    if ids is not None and context.validate:
        check_ids_in_range(caller, "ids", listed, context.num_labels, None)
    lists = _lists_from_candidates(context, score, listed, complete=True)
    gain = gains[order].to(torch.float64)
    inside = gain > 0
    entries = context.kernels.without_void(Entries(row[inside], label[inside], gain[inside], shape[1]))
    targets = Targets(shape[0], context.num_labels, None, context.kernels, given=entries)
    rows = read_batch_rows(context, len(queries), queries.device, groups, weights)
    return context, lists, targets, rows, queries, counts if ids is None else None


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


def _of_queries(
    context: Context, name: str, documents: dict[str, Tensor], row: Tensor, firsts: Tensor
) -> Tensor | None:
    """Return the one value that all documents of each query have, shape (N,); None where none was given."""
    if name not in documents:
        return None
    value = documents[name]
    of_query = value[firsts]
    if context.validate and bool((of_query[row] != value).any()):
        raise ValueError(
            f"{context.caller}: {name} differs between documents of one query; pass one value per query, or the same "
            "for each of its documents."
        )
    return of_query


def _check_documents(caller: str, documents: dict[str, Tensor]) -> None:
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
