"""Warnings of inputs whose values look like another form (decisions, ranks, padding), and of slow reading."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TypeVar
from warnings import warn

import torch
from torch import Tensor

from tailmetrics._arguments import shape_of
from tailmetrics.ranking import native
from tailmetrics.ranking._device import is_compiling
from tailmetrics.ranking._inputs import Context

Value = TypeVar("Value")

FIRST_CELLS = 64
"""This many cells of the first row are read first. More cells are read only if all of these are whole numbers."""

SAMPLED_CELLS = 2**16
"""At most this many cells are read, in whole rows, but at least one row. This takes a tenth of a millisecond."""

FEWEST_ROWS, CANDIDATES = 20, range(20, 1002)
"""Sampled negatives are 19 to 1,000. Of 20 shuffled rows of so many classes hardly all have one and the same class."""

FEWEST_RISES = 16
"""Steps of scores that all go up say that rows are in ascending order; by chance, once in 65,536."""

SWAPPED = "if preds and target are swapped, pass the scores first: update(preds, target)"


def warn_of_scores(context: Context, scores: Tensor, target: Tensor) -> None:
    """Warn if dense scores look like decisions or a target (only 0 and 1), or like ranks (0 to L - 1 or 1 to L).

    Args:
        context: The settings of the batch.
        scores: Shape (N, L), or (n,) of flat queries.
        target: The target of the batch.
    """
    sample = first_rows(context, scores)
    if sample is None or not _is_whole(sample[:1, :FIRST_CELLS]) or not _is_whole(sample):
        return
    retrieved = sample[sample > -torch.inf]
    ones = retrieved == 1
    if bool((ones | (retrieved == 0)).all()) and bool(ones.any()) and not bool(ones.all()):  # both, and only these
        known = first_rows(context, target)
        if known is None or known.shape != sample.shape or bool((sample != known).any()):  # else a perfect prediction
            warn_outside(
                f"{context.caller}: preds, {shape_of(scores)}, hold only 0 and 1, so that the labels of a row are tied "
                "and the lower id is ranked first. If these are decisions, pass the scores behind them, or "
                f"preds.bool() to a metric with a threshold, such as F1AtThreshold; {SWAPPED}."
            )
    elif scores.ndim == 2 and _is_permutation(sample):
        warn_outside(
            f"{context.caller}: preds, {shape_of(scores)}, hold each number from {int(sample.min())} to "
            f"{int(sample.max())} once in a row, as ranks do, and are read as scores: the largest is best. If these "
            "are ranks of the labels, pass -preds; if they are label ids, best first, pass preds.long(); if they are "
            "scores, Ranking.from_scores(preds, ...) takes them as such."
        )


def warn_of_ids(context: Context, ids: Tensor) -> None:
    """Warn if each row of ids holds the numbers 0 to K - 1 or 1 to K, as the ranks of all labels would."""
    sample = first_rows(context, ids) if ids.shape[1] > 1 else None
    if sample is None or context.num_labels not in (None, ids.shape[1]) or not _is_permutation(sample):
        return
    if context.num_labels is not None or bool((sample != sample[0]).any()):
        warn_outside(
            f"{context.caller}: preds, {shape_of(ids)}, hold each number from {int(sample.min())} to "
            f"{int(sample.max())} once in a row and are read as label ids, best first. If these are ranks of the "
            "labels, pass -preds.float(); if they are scores, pass preds.float(); if they are ids, "
            "Ranking.from_ids(preds, ...) takes them as such."
        )


def warn_of_no_common_id(context: Context, ids: Tensor, target: Tensor) -> None:
    """Warn if whole numbers of one shape (N, K) on both sides have no id in common in any row.

    Scores and grades of all labels look like this. Where the number of labels is known and is not K, they cannot be.
    """
    alike = ids.shape == target.shape and ids.shape[1] > 1 and not target.is_floating_point()
    if not alike or context.num_labels not in (None, ids.shape[1]):
        return
    sample, known = first_rows(context, ids), first_rows(context, target)
    if sample is None or known is None or int(known.min()) < 0 or int(sample.min()) < 0:  # padded lists are ids
        return
    ordered = torch.cat([sample.to(torch.int64), known.to(torch.int64)], dim=1).sort(dim=1).values
    if not bool((ordered[:, 1:] == ordered[:, :-1]).any()):  # each side holds an id once in a row
        warn_outside(
            f"{context.caller}: preds and target, {shape_of(ids)}, are both read as label ids, and no row has an id in "
            "common. If these are scores and grades of all labels, pass preds.float() and target.float(); if they are "
            "ids, look whether both number the same labels."
        )


def warn_of_distances(context: Context, scores: Tensor, ids: Tensor | None) -> None:
    """Warn if the scores of each row are in ascending order and its ids are not, as in the result of a search.

    Args:
        context: The settings of the batch.
        scores: Shape (N, C), the scores of candidates; CSR without ``ids``.
        ids: Shape (N, C), -1 for none.
    """
    if ids is None:
        if not context.kernels.reads:
            return
        values, labels = (one[:SAMPLED_CELLS] for one in (scores.values(), scores.col_indices()))
        row = torch.searchsorted(scores.crow_indices()[1:], torch.arange(len(values)), right=True)
        inside = row.diff() == 0
        steps, turns = values.diff()[inside], labels.diff()[inside]
    else:
        sample, listed = first_rows(context, scores), first_rows(context, ids)
        if sample is None or listed is None:
            return
        inside = listed[:, 1:] >= 0
        steps, turns = sample.diff(dim=1)[inside], listed.diff(dim=1)[inside]
    if int((steps > 0).sum()) >= FEWEST_RISES and not bool((steps < 0).any()) and bool((turns < 0).any()):
        warn_outside(
            f"{context.caller}: the scores of preds, {shape_of(scores)}, rise from the first place of each row to the "
            "last, as distances do, and are read as scores: the largest is best. If they are distances, pass their "
            "negative; columns=Columns(rank=NAME) reads those of a file."
        )


def warn_of_sampled_negatives(context: Context, scores: Tensor, target: Tensor) -> None:
    """Warn if the relevant label of every row is the first or the last of few columns, as beside sampled negatives.

    Args:
        context: The settings of the batch.
        scores: Shape (N, L).
        target: Shape (N,) or (N, 1), label ids; or (N, L), a matrix.
    """
    sample = first_rows(context, target)
    if scores.ndim != 2 or scores.shape[1] not in CANDIDATES or sample is None or target.shape[:1] != scores.shape[:1]:
        return
    last = scores.shape[1] - 1
    rows = sample.reshape(-1) if target.ndim == 1 or target.shape[1] == 1 else None
    if rows is None and target.shape == scores.shape:
        relevant = sample > 0
        rows = relevant.to(torch.uint8).argmax(dim=1).where(relevant.sum(dim=1) == 1, -1)
    if rows is None or len(rows) < FEWEST_ROWS or int(rows[0]) not in (0, last) or bool((rows != rows[0]).any()):
        return
    warn_outside(
        f"{context.caller}: the relevant label of each row is {'0' if int(rows[0]) == 0 else f'the last, {last}'}, as "
        f"where it stands beside {last} sampled negatives. Such values are higher than among all labels, and may turn "
        "the order of two models around: pass the scores of all labels. If rows are sorted by class, nothing is wrong."
    )


def warn_of_padding(caller: str, labels: Tensor, tokens: int, row_mask: Tensor | None, ignored: int | None) -> None:
    """Warn if a label looks like padding: most sequences end in a run of it, and it is rare elsewhere.

    Args:
        caller: The name that the warning begins with.
        labels: Shape (B·T,), the label of each token. Other shapes, and labels on a GPU, are not checked.
        tokens: T.
        row_mask: Shape (B·T,), bool: the tokens that count; None for all.
        ignored: The label of tokens that do not count.
    """
    known = labels.is_cpu and (row_mask is None or row_mask.is_cpu)
    if labels.ndim != 1 or labels.is_floating_point() or not known or is_compiling() or tokens < 2:
        return
    labels = labels if row_mask is None else labels.where(row_mask, -1)
    label = _label_at_ends(labels[: len(labels) // tokens * tokens].reshape(-1, tokens), shortest=2)
    if label not in (None, ignored):
        warn_outside(
            f"{caller}: most sequences end in a run of label {label}, which is hardly anywhere else, as padding is. It "
            "counts as a label that was to be predicted. If it is padding, write -100 there (padding_value=-100) and "
            f"make the metrics with ignore_index=-100; ignore_index={label} would leave out every row of label {label}."
        )


def warn_of_padded_lists(caller: str, lists: Tensor, instead: str) -> None:
    """Warn if a label looks like padding of lists (N, M): most lists end in it, and it is rare elsewhere.

    Args:
        caller: The name that the warning begins with.
        lists: Label ids, -1 for none. Lists on a GPU are not checked.
        instead: Says what to do if the label ``{label}`` is padding.
    """
    if lists.ndim != 2 or lists.shape[1] < 2 or len(lists) < FEWEST_ROWS or not lists.is_cpu or is_compiling():
        return
    if bool((lists < 0).any()) or (lists.shape[1] > 2 and not bool((lists[:, -1] == lists[:, -2]).any())):
        return  # padded by -1, or wide enough for the padding to stand twice, and it does not
    label = _label_at_ends(lists, shortest=1)
    if label is not None:
        warn_outside(
            f"{caller}: most rows of target end in label {label}, which is hardly anywhere else, as padding is. It "
            f"counts as a label. If it is padding, {instead.format(label=label)}. If it is a label, nothing is wrong."
        )


def _label_at_ends(sequences: Tensor, shortest: int) -> int | None:
    """Return the label of which most sequences end in a run, if it is rare elsewhere; None if there is none.

    Args:
        sequences: Shape (N, T), whole numbers.
        shortest: The least length of a run.
    """
    sequences = sequences[: max(1, SAMPLED_CELLS // sequences.shape[1])]
    if len(sequences) < 4:  # two or three may end alike by chance
        return None
    label = int(sequences[:, -1].mode().values)
    same = sequences == label
    run = same.flip(1).cumprod(1).sum(1)  # the length of the run at the end of each sequence
    inside, others = int(same.sum() - run.sum()), int(sequences.numel() - run.sum())
    is_rare = 100 * inside <= others  # at most 1 % of all others: a frequent class, such as "no entity", is everywhere
    return label if label >= 0 and 2 * int((run >= shortest).sum()) > len(run) and is_rare and others else None


class SpeedWarning(UserWarning):
    """Batches are read more slowly than they could be. The values are the same, so reports do not repeat it."""


@cache
def warn_of_speed() -> None:
    """Warn, once in a process, if torch reads batches on the CPU although nobody asked for it."""
    if native.is_missing():
        warn_outside(
            f"tailmetrics: batches on the CPU are read in {native.description()}. The C file of the library gives the "
            "same values up to 8 times as fast. Install a C compiler (on Windows: gcc of MinGW), then tailmetrics "
            "again: pip install --force-reinstall --no-deps --no-binary tailmetrics tailmetrics, or in a clone make "
            "native. To stay with torch, set TAILMETRICS_NATIVE=0 in the environment.",
            SpeedWarning,
        )


def first_rows(context: Context, value: Tensor) -> Tensor | None:
    """Return the first rows that count, as a sample for checks of values. A vector is one row.

    The sample is None if no row counts, if the value is not dense, or if reading it would make a device wait.
    """
    if value.ndim not in (1, 2) or value.layout != torch.strided or not context.kernels.reads:
        return None
    value = value[None] if value.ndim == 1 else value
    sample, row_mask = value[: max(1, SAMPLED_CELLS // max(1, value.shape[1]))], context.row_mask
    if row_mask is not None and len(row_mask) == len(value):
        sample = sample[row_mask[: len(sample)]]
    return sample if sample.numel() else None


def _is_whole(sample: Tensor) -> bool:
    return not sample.is_floating_point() or bool((sample == sample.round()).all())


def _is_permutation(sample: Tensor) -> bool:
    """Whether there are two columns or more, and all rows hold the numbers 0 to L - 1, or all rows 1 to L."""
    if sample.shape[1] < 2:
        return False
    ordered = sample.sort(dim=1).values.to(torch.int64)
    return bool((ordered - ordered[:1, :1] == torch.arange(sample.shape[1])).all()) and int(ordered[0, 0]) in (0, 1)


READ_FROM: ContextVar[str] = ContextVar("READ_FROM", default="preds")
"""The name of the scores of a batch in warnings: the argument ``preds``, or the file that they were read from."""


@contextmanager
def with_value(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Give a variable of the context a value within the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


KEPT_WARNINGS: ContextVar[list[str] | None] = ContextVar("KEPT_WARNINGS", default=None)
"""A list that also receives the warnings of a batch, so that a report can show them; None if no report is made."""


INSIDE = ("tailmetrics.", "torch", "functools")


def warn_outside(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the first caller outside of the library, torch and functools."""
    kept = KEPT_WARNINGS.get()
    if kept is not None and category is not SpeedWarning:
        kept.append(text)
    frame, levels = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, levels = frame.f_back, levels + 1
    warn(text, category, stacklevel=levels)
