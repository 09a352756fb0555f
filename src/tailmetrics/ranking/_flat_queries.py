"""Documents of many queries one below the other, as ``torchmetrics.retrieval`` takes them, made rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_ids_in_range, shape_of
from tailmetrics.ranking._context import Context
from tailmetrics.ranking._device import one_thread
from tailmetrics.ranking._doubts import doubt_gains, doubt_scores
from tailmetrics.ranking._lists import Lists, lists_from_candidates
from tailmetrics.ranking._targets import Entries, Targets
from tailmetrics.ranking._tensors import as_tensor
from tailmetrics.ranking._validation import check_gains


def read_flat(context: Context, preds: Any, target: Any, indexes: Any, ids: Any) -> tuple[Lists, Targets, Tensor]:
    """Return ranked lists, targets and numbers of documents, one row for each query in ascending order of its index.

    Args:
        context: Who asks.
        preds: Shape (n,), floating: the score of each document.
        target: Shape (n,), bool or gains of at least 0.
        indexes: Shape (n,), integers: the query of each document.
        ids: Shape (n,), integers: the label of each document; None numbers the documents of a query as they stand.
    """
    caller = context.caller
    scores, gains, queries = (
        as_tensor(caller, name, value) for name, value in (("preds", preds), ("target", target), ("indexes", indexes))
    )
    labels = None if ids is None else as_tensor(caller, "ids", ids)
    _check(caller, scores, gains, queries, labels)
    with one_thread(scores.device):
        return _rows_of_queries(context, scores, gains, queries, labels)


def _rows_of_queries(
    context: Context, scores: Tensor, gains: Tensor, queries: Tensor, labels: Tensor | None
) -> tuple[Lists, Targets, Tensor]:
    if context.validate:
        check_gains(context.caller, "target", gains, None)
        doubt_scores(context, scores, gains)
        doubt_gains(context, "target", gains)
    _, row = torch.unique(queries.detach(), return_inverse=True)
    order = row.argsort(stable=True)
    counts = torch.bincount(row)
    starts = counts.cumsum(0) - counts
    row = row[order]
    column = torch.arange(len(row), device=row.device) - starts[row]
    label = column if labels is None else labels.detach()[order].to(torch.int64)
    shape = len(counts), int(counts.max()) if len(counts) else 0
    listed = label.new_full(shape, -1).index_put_((row, column), label)
    score = scores.new_full(shape, -torch.inf).index_put_((row, column), scores.detach()[order])
    if labels is not None and context.validate:
        check_ids_in_range(context.caller, "ids", listed, context.num_labels, None)
    lists = lists_from_candidates(context, score, listed, complete=True)
    gain = gains.detach()[order].to(torch.float64)
    inside = gain > 0
    entries = Entries(row[inside], label[inside], None if bool((gain[inside] == 1).all()) else gain[inside], shape[1])
    return lists, Targets(shape[0], context.num_labels, None, given=entries), counts


def _check(caller: str, scores: Tensor, gains: Tensor, queries: Tensor, labels: Tensor | None) -> None:
    named = {"preds": scores, "target": gains, "indexes": queries} | ({} if labels is None else {"ids": labels})
    for name, value in named.items():
        if value.ndim != 1 or len(value) != len(scores):
            raise ValueError(
                f"{caller}: {name} is {shape_of(value)}, but with indexes= every argument has one number per document: "
                f"shape [n], like preds, {shape_of(scores)}."
            )
    if not scores.is_floating_point() or queries.dtype not in INTEGERS:
        raise TypeError(
            f"{caller}: preds is {shape_of(scores)}, indexes is {shape_of(queries)}; pass floating scores and the "
            "query of each document as integers; preds come first, target second."
        )
    if labels is not None and labels.dtype not in INTEGERS:
        raise TypeError(f"{caller}: ids is {shape_of(labels)}; labels are integers.")
