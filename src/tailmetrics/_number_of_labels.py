"""The number of labels of an evaluation, from data in memory or from files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PROBLEMS: Final = {
    "label_names": ("holds", "pass a name for every label"),
    "label_counts": ("holds", "pass a count for every label"),
    "buckets": ("holds", "pass a bucket for every label"),
    "label_tree": (
        "holds",
        (
            "pass a parent for every label, and num_labels= to LabelTree if there are "
            "further nodes"
        ),
    ),
    "num_labels": ("says", "leave it out"),
}
"""How an argument states the number of labels, and what to do about another number."""
REMEDY_OF_METRICS = "leave its num_labels out"
REMEDY_OF_NAMES = f"{REMEDY_OF_METRICS}, and pass all names as label_names="


def number_of_labels(
    caller: str,
    columns: Mapping[str, int],
    stated: Mapping[str, int],
    remedy_of_metrics: str = REMEDY_OF_NAMES,
) -> int | None:
    """Return the number of labels L; None if nothing tells it.

    It is the number of columns of scores or targets, else what other arguments state.

    Args:
        caller: The name that errors begin with.
        columns: The number of columns by argument: of predictions, of targets, and of
            training targets.
        stated: The numbers of
            :func:`tailmetrics.evaluation.options.Options.stated_numbers`.
        remedy_of_metrics: What to do if a metric was made for another number.

    Raises:
        ValueError: If two numbers differ.

    >>> number_of_labels("evaluate", {"target": 11}, {"label_counts": 11})
    11
    """
    number: int | None = None
    source = ""
    for argument, width in columns.items():
        if number is None:
            number, source = width, f"{argument} has"
        elif width != number:
            raise ValueError(
                f"{caller}: {argument} has {width:,} columns, but {source} {number:,}; "
                "pass a column for every label in both."
            )

    if columns:
        source = "the data have"
    for argument, size in stated.items():
        if number is None:
            number, source = size, f"{argument} holds"
        elif size != number:
            verb, remedy = PROBLEMS.get(argument, ("was made for", remedy_of_metrics))
            raise ValueError(
                f"{caller}: {argument} {verb} {size:,} labels, but {source} "
                f"{number:,}; {remedy}."
            )
    return number
