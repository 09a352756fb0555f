"""The parser of the command line, made by jsonargparse: configs name metrics by class and are checked against it."""

from __future__ import annotations

from argparse import Action
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from jsonargparse import ActionConfigFile, ArgumentParser  # type: ignore[attr-defined] # exported without saying so

import tailmetrics
from tailmetrics.cli.front import COMPARE, EVALUATE, PROGRAM
from tailmetrics.cli.help import UserHelp, formats
from tailmetrics.cli.options import (
    CompareOptions,
    DataOptions,
    EvaluateOptions,
    Options,
    ResamplingOptions,
    add_options,
)
from tailmetrics.cli.overrides import override
from tailmetrics.cli.presets import preset_path, preset_paths
from tailmetrics.metrics import TopKMetric

METRICS = (
    "The metrics, each with class_path and init_args; --metrics+=RecallAtK --metrics.k=5 adds one. "
    "--metrics.help RecallAtK lists the arguments of a class."
)


class Request(NamedTuple):
    """A command line, parsed.

    Attributes:
        command: ``"evaluate"`` or ``"compare"``.
        options: Value of every option; metrics and columns are objects.
    """

    command: str
    options: Any

    @property
    def configs(self) -> list[Path]:
        """Files that options were read from."""
        return [Path(path.absolute) for path in self.options.config or []]

    def get(self, kind: type[Options]) -> Options:
        """Return the options of one group."""
        return kind(**{one.name: self.options[one.name] for one in fields(kind)})  # type: ignore[arg-type]


class _Preset(Action):
    """Reads a config that comes with the library, as if ``--config`` named its path."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        ActionConfigFile.apply_config(parser, namespace, "config", str(preset_path(values)))
        setattr(namespace, self.dest, values)


def parse(argv: Sequence[str] | None) -> Request:
    """Return what the command line asks for, its metrics made.

    Raises:
        ArgumentError: If an option or a config does not fit.
    """
    parser = _parser()
    parsed = parser.parse_args(argv)
    override(parsed[parsed.command].metrics or [], parsed[parsed.command])
    # the name since jsonargparse 4.49; the older one warns there
    objects = parser.instantiate(parsed) if hasattr(parser, "instantiate") else parser.instantiate_classes(parsed)
    return Request(objects.command, objects[objects.command])


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="tailmetrics",
        description=PROGRAM,
        formatter_class=UserHelp,
        version=tailmetrics.__version__,
        exit_on_error=False,
        allow_abbrev=False,
    )
    commands = parser.add_subcommands(required=True, dest="command")
    evaluate = _command(EVALUATE, "tailmetrics evaluate --preds FILE --target FILE --preset NAME [options]")
    add_options(evaluate, EvaluateOptions, "evaluation")
    commands.add_subcommand("evaluate", evaluate, help=EVALUATE.splitlines()[0])
    compare = _command(COMPARE, "tailmetrics compare TABLE TABLE ... [options]")
    compare.add_argument(
        "tables",
        type=str,
        nargs="*",
        help="Tables of values per row, one for each run; runs of one model with commas between.",
    )
    add_options(compare, CompareOptions, "comparison")
    commands.add_subcommand("compare", compare, help=COMPARE.splitlines()[0])
    for command in (evaluate, compare):
        add_options(command, DataOptions, "data")
        add_options(command, ResamplingOptions, "resampling")
    return parser


def _command(description: str, usage: str) -> ArgumentParser:
    parser = ArgumentParser(
        description=description,
        usage=usage,
        epilog=formats(),
        formatter_class=UserHelp,
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("--config", action="config", help="YAML file with a list of metrics, and any other option.")
    parser.add_argument("--preset", action=_Preset, help=f"A config of the library: {', '.join(preset_paths())}.")
    parser.add_argument("--metrics", type=list[TopKMetric], help=METRICS)
    text = "Metrics of the preset or config to leave out, by key or class, such as cross_entropy."
    parser.add_argument("--without", type=str, nargs="+", action="extend", help=text, metavar="METRIC")
    return parser
