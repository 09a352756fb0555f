"""Notes on data that look like a mistake: the two swapped, predictions that are the targets, queries found first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._warnings import FEWEST_QUERIES
from tailmetrics.significance.influence import Array

FIRST_ROWS = 64
"""Rows that are compared, to tell whether predictions are the targets."""
ARE_THEY = "Are these predictions, or the targets themselves?"
LEAST_ROWS = 3
"""The fewest rows that are compared: a model may well be right in two."""
LARGEST_GRADE = 10
"""Largest number that counts as a grade: relevance grades reach 4, ratings 10; whole scores are mostly larger."""


def notes_on_likely_mistakes(dataset: Any, preds: str = "preds", target: str = "target") -> tuple[str, ...]:
    """Return all notes of this file on a :class:`~tailmetrics.io.Dataset`.

    Args:
        dataset: The predictions and targets.
        preds: What notes call the predictions.
        target: What notes call the targets.
    """
    notes = _note_on_swapped(dataset, preds, target)
    if dataset.stop - dataset.start < LEAST_ROWS:
        return notes
    preds_rows, target_rows = _first_rows(dataset.preds, dataset), _first_rows(dataset.target, dataset)
    notes += _note_on_equal(preds_rows, target_rows, preds, target)
    notes += _note_on_self_retrieval(dataset, preds_rows, target_rows, preds)
    return notes


def note_on_equal_tensors(preds: Any, target: Tensor) -> tuple[str, ...]:
    """Return a note that the predictions are the targets, of at least ``LEAST_ROWS`` rows."""
    if isinstance(preds, tuple) or preds.shape != target.shape or len(preds) < LEAST_ROWS:
        return ()
    if not preds.layout == target.layout == torch.strided:
        return ()
    # almost all data differ in the first rows, so that not all scores have to be compared
    for rows in (slice(FIRST_ROWS), slice(None)):
        if not bool((preds[rows] == target[rows]).all()):
            return ()
    return (f"preds equals target in each row. {ARE_THEY}",)


def _note_on_swapped(dataset: Any, preds: str, target: str) -> tuple[str, ...]:
    """Return a note that predictions and targets may be swapped, if they look like grades and like scores."""
    grades = dataset.preds.first_values()
    # scores that were read from ranks are whole numbers below 0
    if not len(grades) or not 0 < grades.max() <= LARGEST_GRADE or bool((grades != grades.round()).any()):
        return ()
    scores = dataset.target.first_values()
    if bool((scores == scores.round()).all()):
        return ()
    return (
        f"{preds} holds only whole numbers up to {grades.max():g}, as grades are, and {target} holds fractions, as "
        "scores are. If the two are swapped: predictions come first here, unlike in ranx and pytrec_eval.",
    )


def _note_on_equal(preds_rows: Any, target_rows: Any, preds: str, target: str) -> tuple[str, ...]:
    """Return a note that the predictions are the targets, if each of the first rows holds the same labels in both.

    Where both have numbers, these are the same, too: a score for each judged label is no target.
    """
    if _is_listed(preds_rows) != _is_listed(target_rows):
        return ()
    if _is_listed(preds_rows):
        is_equal = _are_equal_lists(preds_rows, target_rows)
    else:
        is_equal = np.array_equal(preds_rows, target_rows)
    if not is_equal:
        return ()
    return (
        f"{preds} holds the labels of {target}, and no others, in each of the first {len(preds_rows):,} rows. "
        f"{ARE_THEY}",
    )


def _note_on_self_retrieval(dataset: Any, preds_rows: Any, target_rows: Any, preds: str) -> tuple[str, ...]:
    """Return a note that each query finds itself first, as where embeddings are searched in themselves.

    Each of the first rows has its own name among its best labels. Nothing is said if no other label is relevant in
    them, as in pairs. Where labels have the numbers of the rows, :func:`tailmetrics.rank` warns instead.
    """
    if dataset.row_names is None or dataset.stop - dataset.start < FEWEST_QUERIES:
        return ()
    if not (_is_listed(preds_rows) and _is_listed(target_rows)):
        return ()

    num_queries = 0
    has_other_targets = False
    has_other_numbers = False
    lists = zip(_best_labels(preds_rows), _relevant_labels(target_rows), strict=True)
    for number, (best, relevant) in enumerate(lists, dataset.start):
        own = [label for label in best if _label_name(dataset, label) == dataset.row_names[number]]
        if best and not own:
            return ()
        if own:
            num_queries += 1
            has_other_targets |= not set(relevant) <= set(own)
            has_other_numbers |= own != [number]
    if num_queries < FEWEST_QUERIES or not has_other_targets or not has_other_numbers:
        return ()
    return (
        f"{preds}: each query finds itself first, as where it is searched in a collection that holds it. It counts as "
        "a miss, or, where it is relevant, as a hit of any model. Leave the item out that has the name of its query; "
        "if queries and items of one name are different things, ignore this warning.",
    )


def _first_rows(table: Any, dataset: Any) -> Any:
    """Return the first rows of predictions or targets: lists of labels, or an array with a column per label."""
    return next(table.all_batches(dataset.start, min(dataset.stop, dataset.start + FIRST_ROWS), FIRST_ROWS))


def _is_listed(rows: Any) -> bool:
    return hasattr(rows, "ids")


def _label_name(dataset: Any, label: int) -> str:
    if dataset.label_names is None:
        return str(label)
    return str(dataset.label_names[label])


def _best_labels(rows: Any) -> Iterator[list[int]]:
    """Yield the labels of the highest score in each row; of lists without scores the first."""
    scores = -np.arange(len(rows.ids), dtype=np.float64)
    if rows.values is not None:
        scores = rows.values
    for labels, label_scores in _by_row(rows, scores):
        yield labels[label_scores == label_scores.max(initial=-np.inf)].tolist()


def _relevant_labels(rows: Any) -> Iterator[list[int]]:
    """Yield the labels of each row whose gain is above 0."""
    gains = np.ones(len(rows.ids))
    if rows.values is not None:
        gains = rows.values
    for labels, label_gains in _by_row(rows, gains):
        yield labels[label_gains > 0].tolist()


def _are_equal_lists(preds_rows: Any, target_rows: Any) -> bool:
    """Whether rows hold the same labels in any order, with the same numbers if both have numbers."""
    if not np.array_equal(preds_rows.offsets, target_rows.offsets):
        return False
    preds_values, target_values = preds_rows.values, target_rows.values
    if preds_values is None or target_values is None:
        preds_values = target_values = np.zeros(len(preds_rows.ids))
    rows = zip(_by_row(preds_rows, preds_values), _by_row(target_rows, target_values), strict=True)
    return all(_entries(*preds_row) == _entries(*target_row) for preds_row, target_row in rows)


def _entries(labels: Array, numbers: Array) -> list[tuple[int, float]]:
    """Return the labels of a row in ascending order, each with its number."""
    return sorted(zip(labels.tolist(), numbers.tolist(), strict=True))


def _by_row(rows: Any, numbers: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the labels of each row with their numbers."""
    for start, stop in pairwise(rows.offsets):
        yield rows.ids[start:stop], numbers[start:stop]
