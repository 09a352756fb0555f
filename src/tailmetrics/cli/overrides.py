"""Options that stand for an argument of every metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pydoc import locate
from typing import Any

from tailmetrics._arguments import arguments
from tailmetrics.buckets import names_of
from tailmetrics.cli.errors import CommandError


def override(metrics: Sequence[Any], options: Any) -> None:
    """Write ``--duplicates``, ``--min-gain`` and ``--buckets`` into the arguments of parsed metrics.

    An argument that a config gives to a metric of its own stays; ``--buckets`` takes the place of any that are named.

    Args:
        metrics: What the parser found, each with ``class_path`` and ``init_args``.
        options: The options.

    Raises:
        CommandError: If buckets are asked for, but no metric is by bucket.
    """
    if options.duplicates != "error":
        for arguments_of_one in _taking("duplicates", metrics):
            arguments_of_one["duplicates"] = options.duplicates
    if options.min_gain is not None:
        for arguments_of_one in _taking("min_gain", metrics):
            if arguments_of_one.get("min_gain") is None:
                arguments_of_one["min_gain"] = options.min_gain
    if options.buckets is not None:
        names_of(options.buckets)  # raises where no kind has this name
        named = [one for one in _taking("buckets", metrics) if isinstance(one.get("buckets"), str)]
        if not named:
            problem = f"--buckets {options.buckets}: no metric is by bucket"
            raise CommandError(problem, "add --preset xmc, or a config with metrics of buckets: deciles.")
        for arguments_of_one in named:
            arguments_of_one["buckets"] = options.buckets


def _taking(name: str, metrics: Sequence[Any]) -> Iterator[Any]:
    """Yield the arguments of the metrics whose class takes one of this name."""
    for metric in metrics:
        kind: Any = locate(metric.class_path)
        if kind is not None and name in arguments(kind):
            if "init_args" not in metric:
                metric["init_args"] = type(metric)()
            yield metric.init_args
