"""Reads the command line and configs.

Options are set in the order in which they are written; a config or preset sets several
at once. The metrics of a config are dicts with ``class_path`` and ``init_args``, and
become objects at the end.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from os.path import expanduser
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import yaml

from tailmetrics._arguments import check_number
from tailmetrics.cli.configs import preset_paths, read_config, yaml_value
from tailmetrics.cli.messages import HELP, CommandError, did_you_mean
from tailmetrics.cli.metrics import (
    MetricSpec,
    description_of,
    ignored_label_of,
    metric_objects,
    specs_of,
)
from tailmetrics.cli.options import (
    OPPOSITES,
    PATHS,
    CompareOptions,
    DataOptions,
    EvaluateOptions,
    OutputOptions,
    ResamplingOptions,
)
from tailmetrics.io import FORMATS, Columns
from tailmetrics.io.forms import COLUMN_ROLES
from tailmetrics.metrics import TopKMetric

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
USAGE = {
    "evaluate": (
        "tailmetrics evaluate --preds FILE --target FILE --preset NAME [options]"
    ),
    "compare": "tailmetrics compare FOLDER FOLDER ... [options]",
}
TABLES = (
    "Folders of reports, or tables of values per row, one for each run. Commas join "
    "runs of one model."
)
PRINT_CONFIG = "Print the options that are given as a config, and exit."

COMMAND_LINE = "the command line"
"""The source of options and metrics that no config gives."""
EXPECTED: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
}
"""What a value of a type is, in words."""

Options = TypeVar(
    "Options",
    DataOptions,
    ResamplingOptions,
    OutputOptions,
    EvaluateOptions,
    CompareOptions,
)


@dataclass(frozen=True)
class Request:
    """A parsed command line.

    Attributes:
        command: ``"evaluate"`` or ``"compare"``.
        data: The files, and how they are read.
        resampling: How intervals and tests draw.
        output: What is shown and written.
        metrics: The metrics.
        preset: The preset; None without one.
        configs: The config files that were read.
        evaluation: The options of ``evaluate``.
        comparison: The options of ``compare``.
        tables: The tables and folders that are compared.
        sources: For each option that is given, and for ``metrics``, the command line,
            config or preset that gives it.
    """

    command: str
    data: DataOptions
    resampling: ResamplingOptions
    output: OutputOptions
    metrics: list[TopKMetric]
    preset: str | None
    configs: list[Path]
    evaluation: EvaluateOptions
    comparison: CompareOptions
    tables: list[str]
    sources: Mapping[str, str]

    def words(self, default: tuple[str, str]) -> tuple[str, str]:
        """Return what rows and labels are called."""
        text = self.output.words
        if text is None:
            return default
        words = [word.strip() for word in text.split(",")]
        if len(words) != 2 or not all(words):
            problem = f"--words {text!r} is not one word for rows and one for labels"
            raise CommandError(
                problem,
                "write two words with a comma between them, such as 'users, items'.",
            )
        return words[0], words[1]

    def check_needs(self, **needs: str) -> None:
        """Raise if the command line gives an option that changes nothing.

        Options of configs may be for other commands.

        ``--figures`` always needs ``--out``.

        Args:
            needs: For each further option that changes nothing, what it needs, such as
                ``--intervals``.

        Raises:
            CommandError: If there is such an option.
        """
        if self.output.out is None:
            needs["figures"] = "--out FOLDER"
        for name, needed in needs.items():
            if self.sources.get(name) == COMMAND_LINE:
                problem = f"--{name} would change nothing without {needed.split()[0]}"
                raise CommandError(problem, f"add {needed}, or leave --{name} out.")

    def headline(self, metrics: Sequence[TopKMetric] = ()) -> str | None:
        """Return the metric that the results are about, or None.

        None means that no metric is named, or that a preset's metric was left out.
        """
        headline = self.output.headline
        is_of_preset = self.sources.get("headline") == f"--preset {self.preset}"
        if (
            is_of_preset
            and metrics
            and not any(headline in metric.cutoff_keys() for metric in metrics)
        ):
            return None
        return headline


def parse(words: Sequence[str]) -> Request:
    """Return the parsed command line, with its metrics as objects.

    Args:
        words: The words of the command line, without the program's name.

    Raises:
        CommandError: If a command, an option or a config does not fit.
    """
    _check_encoding(words)
    if not words or words[0] not in USAGE:
        problem = "there is no command"
        if words:
            problem = f"{words[0]}: is no command"
        hint = did_you_mean(words[:1], [*USAGE, "--help", "--version"])
        raise CommandError(problem, f"{hint}begin with evaluate or compare. {HELP}")
    command = words[0]
    state = _State(options_of(command))
    unknown = _read_words(words[1:], command, state)
    if unknown:
        names = [
            f"--{name.replace('_', '-')}"
            for name in (*state.options, *CALLS, "print_config")
        ]
        raise _unknown_words(unknown, names)
    if state.prints_config:
        print(
            yaml.safe_dump(
                state.as_config(),
                allow_unicode=True,
                sort_keys=False,
                default_flow_style=None,
            ),
            end="",
        )
        raise SystemExit(0)
    return _request(command, state)


def _read_words(words: Sequence[str], command: str, state: _State) -> list[str]:
    """Set the options that words give, and return words that belong to no option."""
    unknown = []
    waiting = deque(words)
    while waiting:
        word = waiting.popleft()
        name = word.partition("=")[0]
        option = name.removeprefix("--").replace("-", "_")
        if word in ("-h", "--help"):
            print(_help_of(command), end="")
            raise SystemExit(0)
        if not word.startswith("-") and command == "compare":
            state.tables.append(word)
        elif not word.startswith("--"):
            unknown.append(word)
        elif word.replace("_", "-") == "--print-config":
            state.prints_config = True
        elif option in state.options:
            _set_option(state, word, waiting)
        elif option in CALLS:
            CALLS[option].call(state, _value(word, waiting))
        elif option.startswith("metrics."):
            _set_argument_of_metric(
                state, option.removeprefix("metrics."), _value(word, waiting)
            )
        else:
            unknown.append(word)
    return unknown


class _State:
    """The options set so far.

    Attributes:
        options: The options that a config can set, by name.
        values: The values of options by name, such as ``num_labels``; dicts of names by
            column for ``columns``.
        sources: The command line, config or preset that set each value, by the name of
            the option.
        named_options: The options of one value that the command line has named.
        configs: The config files that were read.
        preset: The preset.
        specs: The metrics of the last config.
        added_specs: The metrics that ``--metrics+`` added.
        tables: The tables that are compared.
        prints_config: Whether the options are printed as a config.
    """

    def __init__(self, options: Mapping[str, Option]) -> None:
        self.options = options
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.named_options: set[str] = set()
        self.configs: list[Path] = []
        self.preset: str | None = None
        self.specs: list[MetricSpec] = []
        self.added_specs: list[MetricSpec] = []
        self.tables: list[str] = []
        self.prints_config = False

    def set_option(self, name: str, value: Any, source: str) -> None:
        """Set an option; it replaces its opposite if another source has set that.

        Raises:
            CommandError: If the option names a file, and is empty.
        """
        if name in PATHS:
            value = _paths(name, value)
        opposite = OPPOSITES.get(name)
        if (
            opposite in self.values
            and value is not False
            and self.sources[opposite] != source
        ):
            del self.values[opposite]
        self.sources[name] = source
        group, _, column = name.partition(".")
        if column:
            self.values.setdefault(group, {})[column] = value
        else:
            self.values[name] = value

    def options_of_kind(self, kind: type[Options]) -> Options:
        """Return the options of one dataclass."""
        values: dict[str, Any] = {}
        for option in fields(kind):
            if option.name in self.values:
                value = self.values[option.name]
                values[option.name] = (
                    Columns(**value) if isinstance(value, dict) else value
                )
        return kind(**values)

    def as_config(self) -> dict[str, Any]:
        """Return the options as a config."""
        specs = [*self.specs, *self.added_specs]
        if not specs:
            return self.values
        return {**self.values, "metrics": [spec.as_dict() for spec in specs]}


def _paths(name: str, value: str | list[str]) -> str | list[str]:
    """Return the paths of an option, with the home folder in place of ``~``.

    Shells leave ``~`` in ``--out=~/report``, and configs pass no shell.
    """
    paths = [value] if isinstance(value, str) else value
    if not all(paths):
        hint = (
            "give a path, or leave the option out; a variable of the shell may "
            "be empty."
        )
        raise CommandError(f"--{name.replace('_', '-')}: is empty", hint)
    paths = [expanduser(path) for path in paths]
    if isinstance(value, str):
        return paths[0]
    return paths


def _request(command: str, state: _State) -> Request:
    """Return the request, with metrics as objects."""
    data = state.options_of_kind(DataOptions)
    resampling = state.options_of_kind(ResamplingOptions)
    check_number(command, "confidence", resampling.confidence, 0.5, 0.9999)
    output = state.options_of_kind(OutputOptions)
    if output.quiet and output.verbose:
        raise CommandError(
            "--quiet and --verbose are both given", "leave one of them out."
        )
    specs = [*state.specs, *state.added_specs]
    metrics = metric_objects(specs, data)
    sources = dict(state.sources)
    if specs:
        sources["metrics"] = specs[0].source
    evaluation, comparison = EvaluateOptions(), CompareOptions()
    if command == "evaluate":
        evaluation = state.options_of_kind(EvaluateOptions)
    else:
        comparison = state.options_of_kind(CompareOptions)
    return Request(
        command=command,
        # a config may name it
        data=replace(data, ignore_index=ignored_label_of(metrics)),
        resampling=resampling,
        output=output,
        metrics=metrics,
        preset=state.preset,
        configs=state.configs,
        evaluation=evaluation,
        comparison=comparison,
        tables=state.tables,
        sources=sources,
    )


# -- words -----------------------------------------------------------------------------


def _check_encoding(words: Sequence[str]) -> None:
    """Raise if a word holds bytes that are no text in the encoding of the system."""
    for word in words:
        # Python writes such bytes as surrogates
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            problem = (
                f"{word}: holds bytes that are no text in the encoding "
                f"{sys.getfilesystemencoding()}"
            )
            raise CommandError(
                problem, "set PYTHONUTF8=1 in the environment, or rename the file."
            )


def _value(word: str, waiting: deque[str]) -> str:
    """Return the value of an option: the text after ``=``, or else the next word."""
    name, equals, value = word.partition("=")
    if equals:
        return value
    if not waiting or waiting[0].startswith("--") or waiting[0] == "-h":
        raise CommandError(f"{name}: has no value", f"write {name}=VALUE.")
    return waiting.popleft()


def _set_option(state: _State, word: str, waiting: deque[str]) -> None:
    """Set an option from a word, such as ``--seed=1``, and the words after it."""
    name, equals, _ = word.partition("=")
    option_name = name.removeprefix("--").replace("-", "_")
    option = state.options[option_name]
    if option.is_flag and not equals:
        state.set_option(option_name, True, COMMAND_LINE)
        return

    value = _value(word, waiting)
    if option.value_type == list[str]:
        values = [value]
        while not equals and waiting and not waiting[0].startswith("-"):
            values.append(waiting.popleft())
        if state.sources.get(option_name) == COMMAND_LINE:
            values = [*state.values[option_name], *values]
        state.set_option(option_name, values, COMMAND_LINE)
        return

    if option_name in state.named_options and not option.is_flag:
        hint = (
            "give it once; for several files, give a pattern in quotes: 'part_*.csv'."
        )
        raise CommandError(f"{name} is given twice, and takes one value", hint)
    state.named_options.add(option_name)
    state.set_option(
        option_name,
        converted(f"{name} {value}", option.value_type, value),
        COMMAND_LINE,
    )


def _unknown_words(words: Sequence[str], option_names: Iterable[str]) -> CommandError:
    """Return the error on words that no option takes."""
    names = []
    for word in words:
        if word.startswith("-") and not word[1:2].isdigit():
            names.append(word.partition("=")[0])
    if names:
        problem = f"{' and '.join(names)}: there is no such option"
        return CommandError(problem, did_you_mean(names, option_names) + HELP)
    hint = f"name files by their options, such as --preds FILE --target FILE. {HELP}"
    return CommandError(f"{' '.join(words)}: belongs to no option", hint)


# -- options ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """An option that a config can set.

    Attributes:
        value_type: The type of its value.
        text: The sentence of the help.
        default: Its default.
        group: The title of its group in the help.
    """

    value_type: Any
    text: str
    default: Any
    group: str

    @property
    def is_flag(self) -> bool:
        """Whether the option needs no value."""
        return self.value_type is bool and self.default is False


@cache
def options_of(command: str) -> dict[str, Option]:
    """Return the options of a command that a config can set, by name."""
    groups: dict[str, type] = {"evaluation": EvaluateOptions}
    if command == "compare":
        groups = {"comparison": CompareOptions}
    groups |= {
        "data": DataOptions,
        "resampling": ResamplingOptions,
        "output": OutputOptions,
    }
    options = {}
    for group, kind in groups.items():
        types = get_type_hints(kind, include_extras=True)
        for option in fields(kind):
            annotated_type, text = get_args(types[option.name])
            value_type = _without_none(annotated_type)
            if value_type is Columns:
                for role in _column_roles(option.name):
                    options[f"{option.name}.{role}"] = Option(
                        str, text.format(field=role), None, group
                    )
            else:
                options[option.name] = Option(value_type, text, option.default, group)
    return options


def _column_roles(option: str) -> Sequence[str]:
    """Return the roles of columns that an option names, of one kind of file or all."""
    for file_role, column_roles in COLUMN_ROLES.items():
        if option == f"{file_role}_columns":
            return column_roles
    return [column.name for column in fields(Columns)]


def _help_of(command: str) -> str:
    """Return the help of a command."""
    width = max(len(name) for name in FORMATS)
    formats = "\n".join(
        f"  {form.name.ljust(width)}  {form.content}" for form in FORMATS.values()
    )
    parser = ArgumentParser(
        description=EVALUATE if command == "evaluate" else COMPARE,
        usage=USAGE[command],
        epilog=f"formats (--format), named by the suffix of a file:\n{formats}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    if command == "compare":
        parser.add_argument("tables", nargs="*", help=TABLES)
    for name, call in CALLS.items():
        parser.add_argument(f"--{name}", metavar=call.metavar, help=call.text)
    parser.add_argument("--print-config", action="store_true", help=PRINT_CONFIG)
    groups: dict[str, Any] = {}
    for name, option in options_of(command).items():
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        _add_to_help(groups[option.group], name, option)
    return parser.format_help()


def _add_to_help(group: Any, name: str, option: Option) -> None:
    """Add an option to a group of the help."""
    arguments: dict[str, Any] = {"metavar": name.rpartition(".")[2].upper()}
    if option.is_flag:
        arguments = {"action": "store_true"}
    elif option.value_type == list[str]:
        arguments["nargs"] = "+"
    elif get_origin(option.value_type) is Literal:
        arguments["metavar"] = "|".join(get_args(option.value_type))
    text = option.text.replace("``", "").replace("%", "%%")
    if option.default not in (None, False):
        text += f" (default: {option.default})"
    group.add_argument(f"--{name.replace('_', '-')}", help=text, **arguments)


def _without_none(value_type: Any) -> Any:
    """Return a type without None: ``str`` of ``str | None``."""
    members = [member for member in get_args(value_type) if member is not NoneType]
    if NoneType in get_args(value_type) and len(members) == 1:
        return members[0]
    return value_type


def converted(source: str, value_type: Any, value: Any) -> Any:
    """Return the value of an option from its text or from a value of YAML.

    Args:
        source: The option with its value, with which the error begins.
        value_type: The type of the option.
        value: The text or value.

    Raises:
        CommandError: If the value has another type.
    """
    if get_origin(value_type) is Literal:
        choices = get_args(value_type)
        if value not in choices:
            raise CommandError(
                f"{source}: is none of {', '.join(choices)}",
                f"choose one of {', '.join(choices)}.",
            )
        return value
    if value_type == list[str]:
        if isinstance(value, str):
            return [value]
        return [converted(source, str, item) for item in value]
    try:
        return _number_or_text(value_type, value)
    except (KeyError, ValueError):
        raise CommandError(
            f"{source}: is not {EXPECTED[value_type]}", f"give {EXPECTED[value_type]}."
        ) from None


def _number_or_text(value_type: Any, value: Any) -> Any:
    """Return a value as bool, int, float or str.

    Raise KeyError or ValueError if the value is something else.
    """
    text = str(value)
    if value_type is bool:
        return {"true": True, "false": False}[text.lower()]
    if isinstance(value, (bool, list, dict)):
        raise ValueError(value)
    return value_type(text)


# -- configs and metrics ---------------------------------------------------------------


def _set_preset(state: _State, name: str) -> None:
    """Set the options of a config that comes with the library."""
    presets = preset_paths()
    if name not in presets:
        hint = f"{did_you_mean([name], presets)}choose one of {', '.join(presets)}."
        raise CommandError(f"--preset {name}: there is no such preset", hint)
    if state.preset is not None:
        problem = f"--preset {name}: --preset {state.preset} is given already"
        raise CommandError(
            problem, "leave one of them out; --metrics+= adds single metrics."
        )
    state.preset = name
    _set_config(state, presets[name], f"--preset {name}")


def _set_metrics(state: _State, text: str) -> None:
    """Set the metrics from a list in YAML."""
    state.specs = specs_of("--metrics", yaml_value("--metrics", text))


def _add_metric(state: _State, class_path: str) -> None:
    """Add a metric by its class."""
    state.added_specs.append(MetricSpec(class_path, source=f"--metrics+={class_path}"))


def _set_argument_of_metric(state: _State, name: str, text: str) -> None:
    """Set an argument of the metric that was added last from its value in YAML."""
    specs = state.added_specs or state.specs
    if not specs:
        raise CommandError(
            f"--metrics.{name}: there is no metric before it",
            "add --metrics+=CLASS before it.",
        )
    specs[-1].init_args[name] = yaml_value(f"--metrics.{name}", text)


def _print_help_of_metric(_: _State, class_path: str) -> None:
    """Print the arguments of a class of metrics, and exit."""
    print(description_of(class_path))
    raise SystemExit(0)


def _set_config(state: _State, path: str | Path, source: str = "") -> None:
    """Set the options of a config.

    A list of metrics replaces the list of an earlier config.

    Args:
        state: The options set so far.
        path: The config.
        source: The preset that the config is, as an option; by default the config, as
            an option.

    Raises:
        CommandError: If the file cannot be read, or holds an unknown option or a wrong
            value.
    """
    path = Path(expanduser(path))
    source = source or f"--config {path}"
    config = read_config(path)
    state.configs.append(path)
    for name, value in config.items():
        if value is None:
            continue
        if name == "metrics":
            state.specs = specs_of(source, value)
            continue
        settings = {name: value}
        if isinstance(value, dict):
            settings = {f"{name}.{column}": text for column, text in value.items()}
        for option_name, setting in settings.items():
            option = str(option_name).replace("-", "_")
            if option == "preset":
                hint = (
                    f"leave it out, and give --preset {setting} before --config {path}."
                )
                raise CommandError(f"{path}: preset: a config names no preset", hint)
            if option not in state.options:
                hint = did_you_mean([str(option_name)], [*state.options, "metrics"])
                raise CommandError(
                    f"{path}: {option_name}: there is no such option", hint + HELP
                )
            value_of_option = converted(
                f"{path}: {option_name}: {setting}",
                state.options[option].value_type,
                setting,
            )
            state.set_option(option, value_of_option, source)


@dataclass(frozen=True)
class Call:
    """An option of the command line alone.

    Attributes:
        call: Function that takes the options set so far and the value of the option.
        metavar: What the value is, for the help.
        text: The sentence of the help.
    """

    call: Callable[[_State, str], None]
    metavar: str
    text: str


CALLS = {
    "preset": Call(
        _set_preset,
        "NAME",
        f"A config that comes with the library: {', '.join(preset_paths())}.",
    ),
    "config": Call(
        _set_config,
        "FILE",
        (
            "YAML file with a list of metrics, and other options, but no preset. "
            "Later options override it."
        ),
    ),
    "metrics": Call(
        _set_metrics,
        "YAML",
        "The metrics as YAML: a list, each with class_path and init_args.",
    ),
    "metrics+": Call(
        _add_metric,
        "CLASS",
        (
            "Add a metric by class; --metrics.NAME=VALUE sets an argument: "
            "--metrics+=RecallAtK --metrics.k=5."
        ),
    ),
    "metrics.help": Call(
        _print_help_of_metric,
        "CLASS",
        "Print the arguments of a class of metrics, such as RecallAtK, and exit.",
    ),
}
"""The options of the command line alone, by name."""
