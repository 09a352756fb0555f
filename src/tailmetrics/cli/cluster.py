"""Evaluates shares of the files on a cluster of Ray, Spark or Dask.

Each task opens the files and reads its share.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from tailmetrics._arguments import check_count
from tailmetrics.cli.inputs import Share, forms_of
from tailmetrics.cli.messages import CommandError, Messages
from tailmetrics.cli.options import DataOptions, EvaluateOptions
from tailmetrics.engines.cluster import Work
from tailmetrics.io.files import DataFileError
from tailmetrics.io.opening import open_input

ERROR_LENGTH = 300
"""The most characters that are shown of an engine's error."""
SHARES_PER_CORE = 2
"""Default number of shares per core.

A repeated share delays the result half as much as with one share per core.
"""
PACKAGES = {"ray": "ray", "spark": "pyspark", "dask": "distributed"}
"""The package that each engine needs."""


class Engine:
    """The cluster of Ray, Spark or Dask.

    Args:
        options: The options that name the engine and the number of shares.
        data: The options that name the files.
        messages: Where warnings of the engine go, which say nothing of the numbers.

    Raises:
        CommandError: If the engine is not installed, or if options ask for results that
            an engine cannot give.
    """

    def __init__(
        self, options: EvaluateOptions, data: DataOptions, messages: Messages
    ) -> None:
        self._name = str(options.engine)
        self._shares = options.shares
        self._messages = messages
        _check_options(options)
        _check_rows_are_numbered(str(options.preds), data)
        if options.shares is not None:
            check_count("--shares", "shares", options.shares)
        try:
            import_module(PACKAGES[self._name])
        except ModuleNotFoundError as error:
            problem = (
                f"--engine {self._name}: the package {error.name} is not installed"
            )
            raise CommandError(
                problem, f"pip install 'tailmetrics[{self._name}]'."
            ) from error
        self._cluster = import_module(f"tailmetrics.engines.{self._name}").CLUSTER

    def count(self, counter: Any, add: Callable[[Any, Share], None]) -> Any:
        """Return the counter with the sums of all tasks.

        Args:
            counter: An evaluation or label counts, which have counted nothing.
            add: Function that adds one share to a counter; it must be picklable.
        """
        try:
            with self._messages.captured(as_notes=True):
                cores = self._cluster.connect()
                shares = self._shares or SHARES_PER_CORE * cores
                add_shares = partial(_add_shares, add=add, shares=shares)
                work = Work(
                    counter,
                    ("id",),
                    add_shares,
                    (CommandError, DataFileError, *Work.refusals),
                )
                result = self._cluster.run_tasks(self._cluster.numbers(shares), work)
        except Exception as error:
            lines = list(filter(None, map(str.strip, str(error).splitlines())))
            text = " ".join(lines[:2])[:ERROR_LENGTH]
            problem = f"--engine {self._name}: {type(error).__name__}: {text}"
            raise CommandError(
                problem, f"see the log of {self._name}, or leave --engine out."
            ) from error
        return work.counter_with(result)


def _check_options(options: EvaluateOptions) -> None:
    """Raise if an option needs values of rows or a GPU.

    Tasks return sums, and compute on CPUs.
    """
    impossible = {
        "--per-row": options.per_row,
        "--intervals": options.intervals,
        "--clusters": options.clusters,
        "--device cuda": options.device != "cpu",
    }
    for name, value in impossible.items():
        if value:
            problem = (
                "--engine returns sums, no values per row, and computes on CPUs: "
                f"{name} is not possible"
            )
            raise CommandError(problem, f"leave {name} out, or leave --engine out.")


def _check_rows_are_numbered(preds: str, data: DataOptions) -> None:
    """Raise if the lines of the predictions name their query.

    Rows of one query could then be in several shares.
    """
    if open_input("--engine", "preds", preds, forms_of(data)).lines is not None:
        problem = (
            f"{preds}: lines name their query, so that no share of them can be "
            "evaluated alone"
        )
        raise CommandError(
            problem,
            ("leave --engine out, or write one row per query with list columns."),
        )


def _add_shares(
    counter: Any, batch: Any, *, add: Callable[[Any, Share], None], shares: int
) -> None:
    for number in batch["id"].to_pylist():
        add(counter, Share(number, shares))
