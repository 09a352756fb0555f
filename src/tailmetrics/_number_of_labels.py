"""The number of labels of an evaluation, from data in memory or from files."""

from __future__ import annotations

from collections.abc import Mapping

VALUE_OF_LABEL = {"label_names": "a name", "label_counts": "a count", "buckets": "a bucket", "label_tree": "a parent"}
"""What an argument holds for each label."""
REMEDY_OF_METRICS = "leave its num_labels out"
REMEDY_OF_NAMES = f"{REMEDY_OF_METRICS}, and pass all names as label_names="


def number_of_labels(
    caller: str, columns: Mapping[str, int], stated: Mapping[str, int], remedy_of_metrics: str = REMEDY_OF_NAMES
) -> int | None:
    """Return the number of labels L; None if nothing tells it.

    It is the number of columns of scores or targets, or else what the other arguments state.

    Args:
        caller: The name that errors begin with.
        columns: The number of columns by argument, of predictions, targets and training targets.
        stated: The numbers of :func:`tailmetrics.evaluation.labels.stated_numbers`.
        remedy_of_metrics: What to do if a metric was made for another number.

    Raises:
        ValueError: If two numbers differ.

    >>> number_of_labels("evaluate", {"target": 11}, {"label_counts": 11})
    11
    """
    number: int | None = None
    source = ""
    for argument, width in columns.items():
        if number is not None and width != number:
            raise ValueError(
                f"{caller}: {argument} has {width:,} columns, but {source} {number:,}; pass a column for every label "
                "in both."
            )
        if number is None:
            number, source = width, f"{argument} has"

    if columns:
        source = "the data have"
    for argument, size in stated.items():
        if number is not None and size != number:
            if argument in VALUE_OF_LABEL:
                problem, remedy = "holds", f"pass {VALUE_OF_LABEL[argument]} for every label"
            elif argument == "num_labels":
                problem, remedy = "says", "leave it out"
            else:
                problem, remedy = "was made for", remedy_of_metrics
            raise ValueError(f"{caller}: {argument} {problem} {size:,} labels, but {source} {number:,}; {remedy}.")
        if number is None:
            number, source = size, f"{argument} holds"
    return number
