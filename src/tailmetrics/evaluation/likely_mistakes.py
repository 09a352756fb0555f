"""Notes on data that look like a mistake.

The notes are on swapped arguments, queries that find themselves, and queries that only
predictions or only targets hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tailmetrics.evaluation.options import Missing
from tailmetrics.ranking._warnings import FEWEST_QUERIES
from tailmetrics.significance.influence import Array

if TYPE_CHECKING:
    from tailmetrics.io import Dataset

FIRST_ROWS = 64
"""Number of rows that are read to tell whether queries find themselves."""
LARGEST_GRADE = 10
"""Largest grade: relevance reaches 4, ratings 10; whole scores are mostly larger."""


def notes_on_likely_mistakes(
    dataset: Dataset, preds: str = "preds", target: str = "target"
) -> tuple[str, ...]:
    """Return notes on swapped arguments and on queries that find themselves.

    Args:
        dataset: The predictions and targets.
        preds: What notes call the predictions.
        target: What notes call the targets.
    """
    return _note_on_swapped(dataset, preds, target) + _note_on_self_retrieval(
        dataset, preds
    )


def notes_on_queries(
    dataset: Dataset, missing: Missing, preds: str = "preds", target: str = "target"
) -> tuple[str, ...]:
    """Return notes on queries that only predictions or only targets hold."""
    notes = []
    if dataset.missing_queries:
        outcome = "counted as empty lists"
        if missing == "skip":
            outcome = "left out; missing='zero' counts them as empty lists"
        subject = _queries_have(dataset.missing_queries, target)
        notes.append(f"{subject} no predictions in {preds}: {outcome}.")
    if dataset.unmatched_queries:
        notes.append(
            f"{_queries_have(dataset.unmatched_queries, preds)} no targets: left out."
        )
    return tuple(notes)


def _queries_have(count: int, source: str) -> str:
    """Return a number of queries with its verb, such as ``"1 query of preds has"``."""
    if count == 1:
        return f"1 query of {source} has"
    return f"{count:,} queries of {source} have"


def _note_on_swapped(dataset: Dataset, preds: str, target: str) -> tuple[str, ...]:
    """Return a note that predictions and targets may be swapped.

    There is a note if predictions look like grades, and targets like scores.
    """
    grades = dataset.preds.first_values()
    # scores that were read from ranks are whole numbers below 0
    if (
        not len(grades)
        or not 0 < grades.max() <= LARGEST_GRADE
        or bool((grades != grades.round()).any())
    ):
        return ()
    scores = dataset.target.first_values()
    if bool((scores == scores.round()).all()):
        return ()
    return (
        f"{preds} holds only whole numbers up to {grades.max():g}, as grades are, and "
        f"{target} holds fractions, as scores are. If the two are swapped: predictions "
        "come first here, unlike in ranx and pytrec_eval.",
    )


def _note_on_self_retrieval(dataset: Dataset, preds: str) -> tuple[str, ...]:
    """Return a note that each query finds itself first.

    There is a note if each of the first rows has its own name among its best labels, as
    where embeddings are searched in themselves. There is none if no other label is
    relevant in these rows, as in pairs. If labels have the numbers of the rows,
    :func:`tailmetrics.rank` warns instead.
    """
    if dataset.row_names is None or dataset.stop - dataset.start < FEWEST_QUERIES:
        return ()
    preds_rows, target_rows = (
        _first_rows(dataset.preds, dataset),
        _first_rows(dataset.target, dataset),
    )
    # scores of all labels, or a mask
    if not (hasattr(preds_rows, "ids") and hasattr(target_rows, "ids")):
        return ()

    num_queries = 0
    has_other_targets = False
    has_other_numbers = False
    lists = zip(_best_labels(preds_rows), _relevant_labels(target_rows), strict=True)
    for number, (best, relevant) in enumerate(lists, dataset.start):
        own = [
            label
            for label in best
            if _label_name(dataset, label) == dataset.row_names[number]
        ]
        if best and not own:
            return ()
        if own:
            num_queries += 1
            has_other_targets |= not set(relevant) <= set(own)
            has_other_numbers |= own != [number]
    if num_queries < FEWEST_QUERIES or not has_other_targets or not has_other_numbers:
        return ()
    return (
        f"{preds}: each query finds itself first, as where it is searched in a "
        "collection that holds it. It counts as a miss, or, where it is relevant, as "
        "a hit of any model. Leave the item out that has the name of its query; if "
        "queries and items of one name are different things, ignore this warning.",
    )


def _first_rows(table: Any, dataset: Dataset) -> Any:
    """Return the first rows of predictions or targets.

    They are lists of labels, or an array with a column per label.
    """
    return next(
        table.all_batches(
            dataset.start, min(dataset.stop, dataset.start + FIRST_ROWS), FIRST_ROWS
        )
    )


def _label_name(dataset: Dataset, label: int) -> str:
    if dataset.label_names is None:
        return str(label)
    return str(dataset.label_names[label])


def _best_labels(rows: Any) -> Iterator[list[int]]:
    """Yield the labels with the highest score in each row; without scores the first."""
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


def _by_row(rows: Any, numbers: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the labels of each row with their numbers."""
    for start, stop in pairwise(rows.offsets):
        yield rows.ids[start:stop], numbers[start:stop]
