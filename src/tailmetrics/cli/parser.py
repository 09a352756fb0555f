"""The parser of the command line, made by jsonargparse: configs name metrics by class, and are checked against it."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action, ArgumentError, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from pydoc import locate
from typing import Any, TypeVar, get_type_hints

import numpy as np
import torch
import yaml
from docstring_parser import parse as parse_docstring
from jsonargparse import (  # type: ignore[attr-defined] # exported without saying so
    ActionConfigFile,
    ArgumentParser,
    DefaultHelpFormatter,
    set_dumper,
)

import tailmetrics
from tailmetrics._arguments import arguments
from tailmetrics.buckets import names_of
from tailmetrics.cli.messages import HELP, CommandError, did_you_mean, usage_error
from tailmetrics.cli.options import (
    CompareOptions,
    DataOptions,
    EvaluateOptions,
    OutputOptions,
    ResamplingOptions,
)
from tailmetrics.evaluation.description import by_bucket
from tailmetrics.io import FORMATS
from tailmetrics.io.files import check_file, reading
from tailmetrics.io.reading import only_given
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking._inputs import BATCH_DEFAULTS
from tailmetrics.significance.estimating import Resample

EVALUATE = """Evaluate a file of predictions against a file of targets.

Prints the metrics, overall and from the most frequent labels to the rarest, and writes a report. A first try:

  tailmetrics evaluate --preset recsys --preds scores.csv --target test.csv --train-target train.csv --out report

Row i of the predictions belongs to row i of the targets. Where lines name their query (TREC, JSON Lines, CSV), lines of
one query belong together, in any order. Files may be compressed (.gz, .bz2, .zst). In the place of a file may stand a
folder of parts, a pattern in quotes, or an address (s3://)."""
COMPARE = """Compare runs row by row.

  tailmetrics compare old_report new_report --out comparison

It takes folders that tailmetrics evaluate --out wrote, or tables that --per-row wrote; or files of predictions
(--preds), with one --target, and one --preset or --config."""
METRICS = (
    "The metrics, each with class_path and init_args; --metrics+=RecallAtK --metrics.k=5 adds one. "
    "--metrics.help RecallAtK lists the arguments of a class."
)

DEEPEST, MOST_NODES = 50, 10**5
"""Bounds of a config: how deep it is nested, and how many values it holds."""

HELPS_OF_JSONARGPARSE = {
    "print_config": "Print all options as a config, and exit. --print_config=skip_default prints those that are given.",
    "columns": "YAML file of these names.",
}
"""Help texts by the name of an option, in plainer words than the texts of jsonargparse."""

Options = TypeVar("Options")


@dataclass(frozen=True)
class Request:
    """A parsed command line.

    Attributes:
        command: ``"evaluate"`` or ``"compare"``.
        options: The values of all options; metrics and columns are objects.
    """

    command: str
    options: Any

    @property
    def configs(self) -> list[Path]:
        """The config files that were given."""
        return [Path(path.absolute) for path in self.options.config or []]

    def get(self, kind: type[Options]) -> Options:
        """Return the options of one group."""
        return kind(**{one.name: self.options[one.name] for one in fields(kind)})  # type: ignore[arg-type]

    def words(self, usual: tuple[str, str]) -> tuple[str, str]:
        """Return what rows and labels are called; ``usual`` if nobody says it."""
        if self.options.words is None:
            return usual
        said = [word.strip() for word in self.options.words.split(",")]
        if len(said) != 2 or not all(said):
            problem = f"--words {self.options.words!r} is not one word for rows and one for labels"
            raise CommandError(problem, "write two words with a comma between them, such as 'users, items'.")
        return said[0], said[1]

    def headline(self, metrics: Sequence[TopKMetric] = ()) -> str | None:
        """Return the metric that the results are to be about; None for that of a preset which is not among metrics."""
        wanted, preset = self.options.headline, self.options.preset
        of_preset = preset and f"headline: {wanted}" in preset_paths()[preset].read_text(encoding="utf-8").splitlines()
        lacking = all(wanted not in metric.cutoff_keys() for metric in metrics)
        return None if of_preset and lacking else wanted


def parse(argv: Sequence[str] | None) -> Request:
    """Return the parsed command line, with its metrics as objects.

    Raises:
        CommandError: If a command, an option or a config does not fit.
    """
    words = sys.argv[1:] if argv is None else argv
    parser, options_of = _parser()
    if words and words[0] not in (*options_of, "-h", "--help", "--version"):
        known = did_you_mean(words[:1], [*options_of, "--help", "--version"])
        raise CommandError(f"{words[0]}: is no command", f"{known}begin with evaluate or compare. {HELP}")
    _check_repeated(words)
    _check_yaml(words)
    try:
        parsed = parser.parse_args(argv)
        _override(parsed[parsed.command].metrics or [], parsed[parsed.command])
        # `instantiate` is the name since jsonargparse 4.49, where the older name warns
        objects = parser.instantiate(parsed) if hasattr(parser, "instantiate") else parser.instantiate_classes(parsed)
    except ArgumentError as error:
        raise usage_error(error, options_of[words[0]]) from error
    options = objects[objects.command]
    if not 0 < options.confidence < 1:
        raise CommandError(f"--confidence {options.confidence:g} is not between 0 and 1", "give a share such as 0.95.")
    if options.buckets is not None:
        options.metrics = [*(options.metrics or []), *by_bucket(options.metrics or [], options.buckets)]
    ignored = (one.ignore_index for one in options.metrics or [] if one.ignore_index is not None)
    options.ignore_index = next(ignored, None)  # also from a config
    for metric in options.metrics or [] if options.ignore_index is not None else []:  # also metrics beside a preset
        metric.complete(ignore_index=options.ignore_index)
    return Request(objects.command, options)


def _as_yaml(config: Any) -> str:
    """Return what ``--print_config`` prints, without the names of columns that nobody gave."""
    return str(yaml.safe_dump(only_given(config), default_flow_style=False, allow_unicode=True, sort_keys=False))


@cache
def _parser() -> tuple[ArgumentParser, dict[str, list[str]]]:
    """Return the parser, and the options of each command."""
    set_dumper("yaml", _as_yaml)
    parser = _empty_parser(prog="tailmetrics", version=tailmetrics.__version__)
    usage = "tailmetrics evaluate --preds FILE --target FILE --preset NAME [options]"
    evaluate = _command(EVALUATE, usage, {"evaluation": EvaluateOptions})
    compare = _command(COMPARE, "tailmetrics compare FOLDER FOLDER ... [options]", {"comparison": CompareOptions})
    text = "Folders of reports, or tables of values per row, one for each run. Commas join several runs of one model."
    compare.add_argument("tables", type=str, nargs="*", help=text)
    named = {"evaluate": evaluate, "compare": compare}
    commands = parser.add_subcommands(required=True, dest="command")
    for name, command in named.items():
        commands.add_subcommand(name, command, help=str(command.description).splitlines()[0])
    return parser, {name: [*command._option_string_actions] for name, command in named.items()}


def _check_repeated(words: Sequence[str]) -> None:
    """Raise if an option of one value is given twice: argparse takes the last value, and says nothing."""
    own = CompareOptions if words and words[0] == "compare" else EvaluateOptions
    kinds = DataOptions, ResamplingOptions, OutputOptions, own
    single = {name for kind in kinds for name, of in get_type_hints(kind).items() if of not in (bool, list[str] | None)}
    named = [word.partition("=")[0] for word in words if word.startswith("--")]
    for name, number in Counter(named).items():
        if number > 1 and name[2:].partition(".")[0].replace("-", "_") in single:
            problem = f"{name} is given {number} times, and takes one value"
            raise CommandError(problem, "give it once; for several files, give a pattern in quotes: 'part_*.csv'.")


def _check_yaml(words: Sequence[str]) -> None:
    """Raise if a file of YAML is nested too deep, or large once its aliases are written out: reading it has no end."""
    for word, next_word in zip(words, [*words[1:], ""], strict=False):
        name, _, value = word.partition("=")
        path = Path(value or next_word)
        if name not in ("--config", "--columns", "--preds-columns") or not path.is_file():
            continue
        sizes, anchors, counts = dict[str | None, int](), list[str | None](), [0]
        with suppress(yaml.YAMLError, UnicodeDecodeError):  # jsonargparse says what is wrong
            for event in yaml.parse(path.read_text(encoding="utf-8")):
                if isinstance(event, yaml.CollectionStartEvent):
                    anchors.append(event.anchor)
                    counts.append(0)
                elif isinstance(event, yaml.CollectionEndEvent):
                    sizes[anchors.pop()] = size = counts.pop()
                    counts[-1] += size
                else:
                    counts[-1] += sizes.get(event.anchor, 1) if isinstance(event, yaml.AliasEvent) else 1
                if len(anchors) > DEEPEST or counts[-1] > MOST_NODES:
                    problem = f"{name} {path}: is nested too deep, or too large once its aliases are written out"
                    raise CommandError(problem, "write the values that are meant; a config holds some hundred of them.")


def _command(description: str, usage: str, options: dict[str, type]) -> ArgumentParser:
    width = max(map(len, FORMATS))
    formats = "\n".join(f"  {form.name.ljust(width)}  {form.holds}" for form in FORMATS.values())
    epilog = f"formats (--format), found from the name or the first lines of a file:\n{formats}"
    parser = _empty_parser(description=description, usage=usage, epilog=epilog)
    parser.add_argument("--config", action=_Config, help="YAML file with a list of metrics, and any other option.")
    text = f"A config that comes with the library: {', '.join(preset_paths())}."
    parser.add_argument("--preset", action=_Preset, help=text)
    parser.add_argument("--metrics", type=list[TopKMetric], help=METRICS)
    text = "Metrics of the preset or config to leave out, by key or class, such as cross_entropy."
    parser.add_argument("--without", type=str, nargs="+", action="extend", help=text, metavar="METRIC")
    options = {**options, "output": OutputOptions, "data": DataOptions, "resampling": ResamplingOptions}
    for title, kind in options.items():
        group = parser.add_argument_group(title)
        types = get_type_hints(kind)
        helps = {one.arg_name: one.description for one in parse_docstring(kind.__doc__ or "").params}
        for one in fields(kind):
            of_one = types[one.name]
            more: dict[str, Any] = {"type": of_one} | ({} if one.default is MISSING else {"default": one.default})
            if of_one is Resample:  # argparse would write {rows,rows,labels}
                more["metavar"] = "rows|rows,labels"
            if of_one is bool:
                more = {"action": "store_true"}
            elif of_one == list[str] | None:
                more = {"type": str, "nargs": "+", "action": "extend"}
            group.add_argument(f"--{one.name.replace('_', '-')}", help=helps[one.name], **more)
    return parser


def _empty_parser(**words: Any) -> ArgumentParser:
    """Return a parser without arguments, which raises errors, and takes options by their whole names alone."""
    return ArgumentParser(formatter_class=_Help, exit_on_error=False, allow_abbrev=False, **words)


class _Help(RawDescriptionHelpFormatter, DefaultHelpFormatter):
    """Help that shows the meaning of an option and its default, but not its Python type."""

    def _get_help_string(self, action: Action) -> str:
        has_default = action.default not in (None, False, SUPPRESS) and action.option_strings
        said = HELPS_OF_JSONARGPARSE.get(action.dest, action.help or "").replace("``", "")
        return said + (" (default: %(default)s)" if has_default else "")


class _Config(ActionConfigFile):
    """Reads a config; the error names a file that is not UTF-8 text."""

    def __call__(self, parser: Any, cfg: Any, values: Any, option_string: str | None = None) -> None:
        try:
            super().__call__(parser, cfg, values, option_string)  # type: ignore[no-untyped-call]
        except UnicodeDecodeError as error:
            raise CommandError(f"--config {values}: is not UTF-8 text", "write the file again as UTF-8.") from error


class _Preset(Action):
    """Reads a config that comes with the library, as if ``--config`` named its path."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        presets = preset_paths()
        if values not in presets:
            problem = f"--preset {values}: there is no such preset"
            raise CommandError(problem, f"choose one of {', '.join(presets)}.")
        if getattr(namespace, self.dest):
            problem = f"--preset {values}: --preset {getattr(namespace, self.dest)} is given already"
            raise CommandError(problem, "leave one of them out; --metrics+= adds single metrics.")
        ActionConfigFile.apply_config(parser, namespace, "config", str(presets[values]))
        setattr(namespace, self.dest, values)


def preset_paths() -> dict[str, Path]:
    """Return the presets by name. A preset is a config of the library that has a list ``metrics:``."""
    package = Path(tailmetrics.__file__).parent
    # inside the package when installed, beside src in a checkout
    paths = sorted(package.glob("configs/*.yaml")) or sorted(package.parents[1].glob("configs/*.yaml"))
    return {path.stem: path for path in paths if "metrics:" in path.read_text(encoding="utf-8").splitlines()}


def _override(metrics: Sequence[Any], options: Any) -> None:
    """Write the options for all metrics into the arguments of the parsed metrics.

    An argument that a config gives to a metric stays. But ``--buckets`` replaces buckets given by name, and
    ``--ignore-index`` replaces any ignored label: the label that pads is a fact of the files, not of a preset.

    Args:
        metrics: The parsed metrics, each with ``class_path`` and ``init_args``.
        options: The options.
    """
    if options.buckets is not None:
        names_of(options.buckets)  # raises if no kind of buckets has this name
    for metric in metrics:
        kind: Any = locate(metric.class_path)
        known = () if kind is None else arguments(kind)
        if "init_args" not in metric:
            metric["init_args"] = type(metric)()
        given = metric.init_args
        if isinstance(path := given.get("threshold"), str) and path.endswith(".npy"):
            check_file(Path(path))
            with reading(path, ".npy array"):
                given["threshold"] = torch.from_numpy(np.load(path))
        for name, usual in {"min_gain": None, **BATCH_DEFAULTS}.items():
            is_open = name == "ignore_index" or given.get(name, usual) == usual
            if name in known and is_open and options[name] != usual:
                given[name] = options[name]
        if options.buckets is not None and "buckets" in known and isinstance(given.get("buckets"), str):
            given["buckets"] = options.buckets
