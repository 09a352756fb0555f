"""`--engine`: tasks of Ray, Spark or Dask evaluate shares of the rows; each opens the files by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tailmetrics._checks import check_count
from tailmetrics.cli.errors import CommandError
from tailmetrics.cli.inputs import Inputs, Share
from tailmetrics.cli.options import DataOptions, EvaluateOptions
from tailmetrics.cli.ranks import Ranks
from tailmetrics.cli.row_groups import read_row_groups
from tailmetrics.cli.streaming import stream
from tailmetrics.cli.training import count_labels
from tailmetrics.engines.cluster import Cluster, Work, list_of
from tailmetrics.evaluation import Evaluation
from tailmetrics.frequency import LabelFrequency
from tailmetrics.io.files import find, is_address
from tailmetrics.io.formats import format_of_parts

SAID = 300
"""Characters of an engine's error that are shown."""
SHARES_PER_CORE = 2
"""One more than one: a share that is done again holds up half as much."""


class OnEngine:
    """An evaluation on the machines of an engine.

    Args:
        options: Which engine, and in how many shares.
        data: The files.
        ranks: This process, which has to be the only one.

    Raises:
        CommandError: If the engine is not installed, or something else is asked for that it does not give.
    """

    def __init__(self, options: EvaluateOptions, data: DataOptions, ranks: Ranks) -> None:
        self._name = str(options.engine)
        self._options, self._data = options, data
        _check(options, data, ranks)
        self._cluster = _cluster(self._name)
        if options.shares is not None:
            check_count("--shares", "shares", options.shares)

    def count(self, inputs: Inputs) -> LabelFrequency:
        """Return how often each training label occurs."""
        assert inputs.num_labels is not None
        found: LabelFrequency = self._total(LabelFrequency(inputs.num_labels), _count, inputs)
        return found

    def evaluate(self, evaluation: Evaluation, inputs: Inputs) -> Evaluation:
        """Return the evaluation after all rows."""
        found: Evaluation = self._total(evaluation, _evaluate, inputs)
        return found

    def _share(self, inputs: Inputs) -> Share:
        return Share(
            _everywhere(str(self._options.preds)), _absolute(self._data), inputs.runs[0].label_names, inputs.num_labels
        )

    def _total(self, counter: Any, add: Callable[..., None], inputs: Inputs) -> Any:
        try:
            cores = self._cluster.connect()
            shares = self._options.shares or SHARES_PER_CORE * cores
            add = partial(add, share=self._share(inputs), shares=shares)
            work = Work(counter, ("id",), add, (TypeError, ValueError, CommandError))
            result = self._cluster.total(self._cluster.numbers(shares), work)
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            problem = f"--engine {self._name}: {type(error).__name__}: {' '.join(lines[:2])[:SAID]}"
            raise CommandError(problem, f"see the log of {self._name}, or leave --engine out.") from error
        return work.counted(result)


def _evaluate(evaluation: Evaluation, batch: Any, *, share: Share, shares: int) -> None:
    """Evaluate the shares that a batch names by number, each as one process of several would."""
    for number in list_of(batch["id"]):
        ranks = Ranks(number, shares, torch.device("cpu"))
        dataset = share.rows(ranks)
        groups = read_row_groups(share.options, dataset)
        stream(
            dataset,
            evaluation.collection,
            ranks,
            lambda rows, ranking: evaluation.update(ranking, rows=rows),
            "evaluating",
            groups,
        )


def _count(frequency: LabelFrequency, batch: Any, *, share: Share, shares: int) -> None:
    """Count the training labels of the shares that a batch names by number."""
    for number in list_of(batch["id"]):
        ranks = Ranks(number, shares, torch.device("cpu"))
        frequency.merge_state(count_labels(share.train(ranks), frequency.num_labels, ranks))


def _cluster(name: str) -> Cluster:
    try:
        import_module({"spark": "pyspark", "dask": "distributed"}.get(name, name))
    except ModuleNotFoundError as error:
        problem = f"--engine {name}: the package {error.name} is not installed"
        raise CommandError(problem, f"pip install 'tailmetrics[{name}]'.") from error
    found: Cluster = import_module(f"tailmetrics.engines.{name}").CLUSTER
    return found


def _check(options: EvaluateOptions, data: DataOptions, ranks: Ranks) -> None:
    if ranks.world_size > 1:
        raise CommandError("--engine runs in one process, but torchrun started several", "leave torchrun out.")
    kept = {"--per-row": options.per_row, "--intervals": options.intervals, "--device cuda": options.device == "cuda"}
    asked = next((name for name, value in kept.items() if value), None)
    if asked is not None:
        problem = f"--engine returns sums, no values per row, and computes on CPUs: {asked} is not possible"
        raise CommandError(problem, f"leave {asked} out, or run it under torchrun.")
    path = str(options.preds)
    if format_of_parts("--engine", find(path).parts, data.format, data.columns).lines:
        problem = f"{path}: lines name their query, so that no share of them can be evaluated alone"
        raise CommandError(problem, "leave --engine out, or write one row per query with list columns.")


def _absolute(data: DataOptions) -> DataOptions:
    """Return the options with paths that hold in any folder."""
    named: dict[str, Any] = {name: getattr(data, name) for name in ("target", "train_target", "filter")}
    if data.row_groups is not None and Path(data.row_groups).is_file():
        named["row_groups"] = data.row_groups
    named = {name: _everywhere(path) for name, path in named.items() if path is not None}
    return replace(data, **named)


def _everywhere(path: str) -> str:
    return path if is_address(path) else str(Path(path).absolute())
