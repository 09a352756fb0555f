"""The metrics of the command line and of configs.

Metrics are given by a class and its arguments, and become objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from inspect import Parameter, getdoc, signature
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any

import numpy as np
import torch

from tailmetrics.buckets import names_of_kind
from tailmetrics.cli.messages import HELP, REPORTED, CommandError, did_you_mean
from tailmetrics.cli.options import DataOptions
from tailmetrics.evaluation.added_metrics import by_bucket
from tailmetrics.io.files import check_file, file_errors
from tailmetrics.metrics import REGISTRY, TopKMetric

SHARED_ARGUMENTS = ("min_gain", "duplicates", "ignore_index")
"""Arguments of metrics that an option sets for all metrics."""


@dataclass
class MetricSpec:
    """A metric of a config: the path of its class and its arguments.

    Attributes:
        class_path: The class, as ``RecallAtK`` or ``module.Class``.
        init_args: The arguments of the class.
        source: The config, preset or option that names the metric, as an option.
    """

    class_path: str
    init_args: dict[str, Any] = field(default_factory=dict)
    source: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the entry of a config."""
        return {"class_path": self.class_path, "init_args": dict(self.init_args)}


def specs_of(source: str, entries: Any) -> list[MetricSpec]:
    """Return the metrics of a list in YAML.

    Args:
        source: The config or option, with which errors begin.
        entries: The value in YAML: a list of dicts with ``class_path`` and, optionally,
            ``init_args``.

    Raises:
        CommandError: If the value has another form.
    """
    hint = (
        "write a list of metrics, each with class_path and init_args, such as "
        "{class_path: MRR}."
    )
    if not isinstance(entries, list):
        raise CommandError(
            f"{source}: metrics holds {type(entries).__name__}, not a list", hint
        )
    specs = []
    for entry in entries:
        if isinstance(entry, str):
            entry = {"class_path": entry}
        if not isinstance(entry, dict) or not isinstance(entry.get("class_path"), str):
            raise CommandError(f"{source}: an entry of metrics has no class_path", hint)
        arguments = entry.get("init_args") or {}
        if entry.keys() - {"class_path", "init_args"} or not isinstance(
            arguments, dict
        ):
            problem = (
                f"{source}: {entry['class_path']} has more than a class_path and a "
                "dict of init_args"
            )
            raise CommandError(problem, hint)
        specs.append(MetricSpec(entry["class_path"], dict(arguments), source))
    return specs


def metric_class(path: str) -> type[TopKMetric]:
    """Return a class of metrics.

    Args:
        path: ``RecallAtK`` for a class of the library, or ``module.Class``.

    Raises:
        CommandError: If the module cannot be imported, or there is no such class of
            metrics.
    """
    if path in REGISTRY:
        return REGISTRY[path]
    module_name, _, name = path.rpartition(".")
    value = None
    if module_name:
        value = getattr(_imported_module(path, module_name), name, None)
    if not isinstance(value, type) or not issubclass(value, TopKMetric):
        raise CommandError(
            f"there is no class {path}", did_you_mean([name or path], REGISTRY) + HELP
        )
    return value


def _imported_module(path: str, module_name: str) -> ModuleType:
    """Return the module of a class.

    Raises:
        CommandError: If there is no such module, or its import raises an error.
    """
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            problem = f"{path}: there is no module {error.name}"
            hint = (
                "modules are sought among installed packages, in PYTHONPATH and in "
                f"this folder, {Path.cwd()}."
            )
            raise CommandError(problem, hint) from error
        problem = f"{path}: the module {module_name} needs the package {error.name}"
        raise CommandError(
            problem, f"install {error.name}, or correct its import."
        ) from error
    except Exception as error:
        problem = (
            f"{path}: the import of {module_name} raised "
            f"{type(error).__name__}: {error}"
        )
        raise CommandError(
            problem,
            f"correct the module; python -c 'import {module_name}' shows the error.",
        ) from error


def description_of(path: str) -> str:
    """Return the signature and the documentation of a class of metrics."""
    kind = metric_class(path)
    return f"{kind.__name__}{signature(kind)}\n\n{getdoc(kind)}"


def metric_objects(
    specs: Sequence[MetricSpec], options: DataOptions
) -> list[TopKMetric]:
    """Return the metrics, to which the options for all metrics apply.

    An argument that a config gives to a metric stays. But ``--buckets`` replaces
    buckets given by name, and ``--ignore-index`` replaces any ignored label: the label
    that pads is a fact of the files, not of a preset.

    Raises:
        CommandError: If a class is unknown, or refuses its arguments.
    """
    if options.buckets is not None:
        names_of_kind(options.buckets)  # raises if no kind of buckets has this name
    metrics = [_metric_object(spec, options) for spec in specs]
    if options.buckets is not None:
        metrics += by_bucket(metrics, options.buckets)
    ignored_label = ignored_label_of(metrics)
    if ignored_label is not None:
        for metric in metrics:
            metric.take_shared_arguments(ignore_index=ignored_label)
    return metrics


def ignored_label_of(metrics: Iterable[TopKMetric]) -> int | None:
    """Return the label that metrics leave out; None if no metric leaves one out."""
    for metric in metrics:
        if metric.ignore_index is not None:
            return metric.ignore_index
    return None


def error_of_own_metric(
    error: Exception, kinds: Iterable[type[TopKMetric]]
) -> CommandError | None:
    """Return an error of the user's own class as a CommandError; None for others."""
    for kind in kinds:
        name = kind.__name__
        modules = _own_modules(kind)
        if (
            modules
            and isinstance(error, TypeError)
            and str(error).startswith(f"{name}: ")
        ):
            problem, _, hint = str(error).partition("; ")
            return CommandError(problem, hint)
        place = _last_place_in(error, modules)
        if place:
            problem = f"{name}: {place} raised {type(error).__name__}: {error}"
            return CommandError(
                problem,
                (
                    f"correct the class; tailmetrics.testing.check_metric({name}, "
                    "...) tries it."
                ),
            )
    return None


def _own_modules(kind: type[TopKMetric]) -> set[str]:
    """Return the modules of the user that define a class of metrics and its bases."""
    modules = set()
    for base in kind.__mro__:
        if issubclass(base, TopKMetric) and not base.__module__.startswith(
            "tailmetrics."
        ):
            modules.add(base.__module__)
    return modules


def _last_place_in(error: Exception, modules: Collection[str]) -> str:
    """Return the last file and line in ``modules`` before an error, or ``""``."""
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__") in modules:
            place = f"{Path(frame.f_code.co_filename).name}, line {line}"
    return place


def _metric_object(spec: MetricSpec, options: DataOptions) -> TopKMetric:
    kind = metric_class(spec.class_path)
    called = signature(kind)
    arguments = _with_shared_arguments(spec.init_args, called.parameters, options)
    threshold = arguments.get("threshold")
    if isinstance(threshold, str) and threshold.endswith(".npy"):
        arguments["threshold"] = _array(threshold)
    takes_others = any(
        parameter.kind is Parameter.VAR_KEYWORD
        for parameter in called.parameters.values()
    )
    unknown = [name for name in arguments if name not in called.parameters]
    if unknown and not takes_others:
        hint = (
            f"{did_you_mean(unknown, called.parameters)}--metrics.help "
            f"{kind.__name__} lists its arguments."
        )
        raise CommandError(
            f"{spec.source}: {kind.__name__} takes no argument {unknown[0]}", hint
        )
    try:
        called.bind(**arguments)
    except TypeError as error:
        hint = (
            "set arguments by --metrics.NAME=VALUE behind --metrics+=, or as "
            f"init_args in a config. {HELP}"
        )
        raise CommandError(f"{spec.source}: {kind.__name__}: {error}", hint) from None
    try:
        return kind(**arguments)
    except TypeError as error:
        problem, _, hint = str(error).partition("; ")
        raise CommandError(problem, hint or HELP) from error
    except REPORTED:
        raise
    except Exception as error:
        own_error = error_of_own_metric(error, [kind])
        if own_error is None:
            raise
        raise own_error from error


def _with_shared_arguments(
    init_args: Mapping[str, Any],
    parameters: Mapping[str, Parameter],
    options: DataOptions,
) -> dict[str, Any]:
    """Return the arguments of a metric with those that options set for all metrics."""
    arguments = dict(init_args)
    for name in SHARED_ARGUMENTS:
        value = getattr(options, name)
        default = getattr(DataOptions, name)
        is_open = name == "ignore_index" or arguments.get(name, default) == default
        if name in parameters and is_open and value != default:
            arguments[name] = value
    if options.buckets is not None and isinstance(arguments.get("buckets"), str):
        arguments["buckets"] = options.buckets
    return arguments


def _array(path: str) -> torch.Tensor:
    """Return the numbers of a .npy file."""
    check_file(Path(path))
    with file_errors(path, ".npy array"):
        return torch.from_numpy(np.load(path))
