"""Reads the command line and configs.

Options are set in the order in which they are written; a config or preset sets several at once. The metrics of a
config are dicts with ``class_path`` and ``init_args``, and become objects at the end.
"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from os.path import expanduser
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import yaml

from tailmetrics._arguments import check_number
from tailmetrics.cli.configs import preset_paths, read_config, yaml_value
from tailmetrics.cli.messages import HELP, CommandError, did_you_mean
from tailmetrics.cli.metrics import MetricSpec, description_of, ignored_label_of, metric_objects, specs_of
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
TEXTS = {
    "config": "YAML file with a list of metrics, and other options, but no preset. Later options override it.",
    "metrics": "The metrics as YAML: a list, each with class_path and init_args.",
    "metrics+": "Add a metric by class; --metrics.NAME=VALUE sets an argument: --metrics+=RecallAtK --metrics.k=5.",
    "metrics.help": "Print the arguments of a class of metrics, such as RecallAtK, and exit.",
    "without": "Metrics of the preset or config to leave out, by key or class, such as cross_entropy.",
    "print-config": "Print the options that are given as a config, and exit.",
    "tables": "Folders of reports, or tables of values per row, one for each run. Commas join runs of one model.",
}

COMMAND_LINE = "the command line"
"""The source of options and metrics that no config gives."""
EXPECTED: Mapping[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
"""What a value of a type is, in words."""

Options = TypeVar("Options", DataOptions, ResamplingOptions, OutputOptions, EvaluateOptions, CompareOptions)


@dataclass(frozen=True)
class Request:
    """A parsed command line.

    Attributes:
        command: ``"evaluate"`` or ``"compare"``.
        data: The files, and how they are read.
        resampling: How intervals and tests draw.
        output: What is shown and written.
        metrics: The metrics.
        without: Metrics to leave out, by key or class.
        preset: The preset; None without one.
        configs: The config files that were read.
        evaluation: The options of ``evaluate``.
        comparison: The options of ``compare``.
        tables: The tables and folders that are compared.
        sources: For each option that is given, and for ``metrics``, the command line, config or preset that gives it.
    """

    command: str
    data: DataOptions
    resampling: ResamplingOptions
    output: OutputOptions
    metrics: list[TopKMetric]
    without: list[str]
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
            raise CommandError(problem, "write two words with a comma between them, such as 'users, items'.")
        return words[0], words[1]

    def check_needs(self, **needs: str) -> None:
        """Raise if the command line gives an option that changes nothing; those of configs may be for other commands.

        ``--figures`` always needs ``--out``.

        Args:
            needs: For each further option that changes nothing, what it needs, such as ``--intervals``.

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
        """Return the metric that the results are about; None if a preset names a metric that was left out."""
        headline = self.output.headline
        if self.preset is None or headline != read_config(preset_paths()[self.preset]).get("headline"):
            return headline
        if metrics and not any(headline in metric.cutoff_keys() for metric in metrics):
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
    if not words or words[0] not in ("evaluate", "compare"):
        problem = "there is no command"
        if words:
            problem = f"{words[0]}: is no command"
        hint = did_you_mean(words[:1], ["evaluate", "compare", "--help", "--version"])
        raise CommandError(problem, f"{hint}begin with evaluate or compare. {HELP}")
    command = words[0]
    parser = _parser(command)
    state = _State()
    flags = [name for name, option in parser.options.items() if option.is_flag]
    unknown = parser.parse_known_args(_plain_words(words[1:], flags), state)[1]
    if unknown:
        raise _unknown_words(unknown, [f"--{name.replace('_', '-')}" for name in [*parser.options, *TEXTS]])
    if state.prints_config:
        print(yaml.safe_dump(state.as_config(), allow_unicode=True, sort_keys=False, default_flow_style=None), end="")
        raise SystemExit(0)
    return _request(command, state)


class _State(Namespace):
    """The options set so far.

    Attributes:
        values: The values of options by name, such as ``num_labels`` or ``columns.query``.
        sources: The command line, config or preset that set each value, by the name of the option.
        named_options: The options of one value that the command line has named.
        configs: The config files that were read.
        preset: The preset.
        specs: The metrics of the last config.
        added_specs: The metrics that ``--metrics+`` added.
        tables: The tables that are compared.
        prints_config: Whether the options are printed as a config.
    """

    def __init__(self) -> None:
        super().__init__()
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
        if opposite in self.values and value is not False and self.sources[opposite] != source:
            del self.values[opposite]
        self.values[name] = value
        self.sources[name] = source

    def options(self, kind: type[Options]) -> Options:
        """Return the options of one dataclass."""
        values: dict[str, Any] = {}
        for option in fields(kind):
            columns = self._columns(option.name)
            if columns:
                values[option.name] = Columns(**columns)
            elif option.name in self.values:
                values[option.name] = self.values[option.name]
        return kind(**values)

    def _columns(self, name: str) -> dict[str, Any]:
        """Return the names of columns by role that an option such as ``columns`` or ``preds_columns`` gives."""
        columns = {}
        for value_name, value in self.values.items():
            group, _, role = value_name.partition(".")
            if group == name and role:
                columns[role] = value
        return columns

    def as_config(self) -> dict[str, Any]:
        """Return the options as a config."""
        config: dict[str, Any] = {}
        for name, value in self.values.items():
            group, _, column = name.partition(".")
            if column:
                config.setdefault(group, {})[column] = value
            else:
                config[name] = value
        specs = [*self.specs, *self.added_specs]
        if specs:
            config["metrics"] = [spec.as_dict() for spec in specs]
        return config


def _paths(name: str, value: str | list[str]) -> str | list[str]:
    """Return the value of an option that names files, with the home folder in place of ``~``, as shells do.

    Shells leave it in ``--out=~/report``, and configs pass no shell.
    """
    paths = [value] if isinstance(value, str) else value
    if not all(paths):
        hint = "give a path, or leave the option out; a variable of the shell may be empty."
        raise CommandError(f"--{name.replace('_', '-')}: is empty", hint)
    paths = [expanduser(path) for path in paths]
    if isinstance(value, str):
        return paths[0]
    return paths


def _request(command: str, state: _State) -> Request:
    """Return the request, with metrics as objects."""
    data = state.options(DataOptions)
    resampling = state.options(ResamplingOptions)
    check_number(command, "confidence", resampling.confidence, 0.5, 0.9999)
    output = state.options(OutputOptions)
    if output.quiet and output.verbose:
        raise CommandError("--quiet and --verbose are both given", "leave one of them out.")
    specs = [*state.specs, *state.added_specs]
    metrics = metric_objects(specs, data)
    sources = dict(state.sources)
    if specs:
        sources["metrics"] = specs[0].source
    evaluation, comparison = EvaluateOptions(), CompareOptions()
    if command == "evaluate":
        evaluation = state.options(EvaluateOptions)
    else:
        comparison = state.options(CompareOptions)
    return Request(
        command=command,
        data=replace(data, ignore_index=ignored_label_of(metrics)),  # a config may name it
        resampling=resampling,
        output=output,
        metrics=metrics,
        without=state.values.get("without", []),
        preset=state.preset,
        configs=state.configs,
        evaluation=evaluation,
        comparison=comparison,
        tables=state.tables,
        sources=sources,
    )


# -- words ----------------------------------------------------------------------------------------------------------


def _check_encoding(words: Sequence[str]) -> None:
    """Raise if a word holds bytes that are no text in the encoding of the system."""
    for word in words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):  # Python writes such bytes as surrogates
            problem = f"{word}: holds bytes that are no text in the encoding {sys.getfilesystemencoding()}"
            raise CommandError(problem, "set PYTHONUTF8=1 in the environment, or rename the file.")


def _plain_words(words: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return the words as argparse reads them.

    ``--row_groups`` becomes ``--row-groups``. ``--metrics.k 5`` and ``--metrics.k=5`` become ``--metrics. k=5``.
    ``--quiet=false`` becomes ``--flag. quiet=false``.

    Args:
        words: The words after the command.
        flags: The names of the options that need no value.
    """
    plain: list[str] = []
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if not word.startswith("--"):
            plain.append(word)
            continue
        name, equals, value = word.partition("=")
        if name.startswith("--metrics.") and name != "--metrics.help":
            if not equals:
                if place == len(words):
                    raise CommandError(f"{name}: has no value", f"write {name}=VALUE.")
                value = words[place]
                place += 1
            plain += ["--metrics.", f"{name.removeprefix('--metrics.')}={value}"]
        elif equals and name[2:].replace("-", "_") in flags:
            plain += ["--flag.", f"{name[2:].replace('-', '_')}={value}"]
        else:
            plain.append(name.replace("_", "-") + equals + value)
    return plain


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


# -- options --------------------------------------------------------------------------------------------------------


class _Parser(ArgumentParser):
    """A parser that raises errors, and takes options by their whole names alone.

    Attributes:
        options: The options that a config can set, by name.
    """

    def __init__(self, **texts: Any) -> None:
        super().__init__(formatter_class=_HelpFormatter, allow_abbrev=False, argument_default=SUPPRESS, **texts)
        self.options: dict[str, _SetOption] = {}

    def error(self, message: str) -> NoReturn:
        """Raise the error that argparse would print."""
        raise CommandError(message, HELP)


class _HelpFormatter(RawDescriptionHelpFormatter):
    """Shows the default of an option behind its text."""

    def _get_help_string(self, action: Action) -> str | None:
        text = action.help or ""
        default = getattr(action, "shown_default", None)
        if default in (None, False):
            return text
        return f"{text} (default: {default})"


@cache
def _parser(command: str) -> _Parser:
    """Return the parser of a command."""
    width = max(len(name) for name in FORMATS)
    formats = "\n".join(f"  {form.name.ljust(width)}  {form.content}" for form in FORMATS.values())
    epilog = f"formats (--format), named by the suffix of a file:\n{formats}"
    groups: dict[str, type] = {"data": DataOptions, "resampling": ResamplingOptions, "output": OutputOptions}
    if command == "evaluate":
        usage = "tailmetrics evaluate --preds FILE --target FILE --preset NAME [options]"
        parser = _Parser(description=EVALUATE, usage=usage, epilog=epilog)
        groups = {"evaluation": EvaluateOptions, **groups}
    else:
        usage = "tailmetrics compare FOLDER FOLDER ... [options]"
        parser = _Parser(description=COMPARE, usage=usage, epilog=epilog)
        parser.add_argument("tables", nargs="*", help=TEXTS["tables"])
        groups = {"comparison": CompareOptions, **groups}
    presets = f"A config that comes with the library: {', '.join(preset_paths())}."
    calls: dict[str, tuple[Callable[[_State, Any], None], str, str]] = {
        "preset": (partial(_set_preset, parser), "NAME", presets),
        "config": (partial(_set_config, parser), "FILE", TEXTS["config"]),
        "metrics": (_set_metrics, "YAML", TEXTS["metrics"]),
        "metrics+": (_add_metric, "CLASS", TEXTS["metrics+"]),
        "metrics.": (_set_argument_of_metric, "NAME=VALUE", SUPPRESS),
        "flag.": (_set_flag, "NAME=VALUE", SUPPRESS),
        "metrics.help": (_print_help_of_metric, "CLASS", TEXTS["metrics.help"]),
    }
    for name, (call, metavar, text) in calls.items():
        parser.add_argument(f"--{name}", action=_Call, call=call, metavar=metavar, help=text)
    parser.add_argument("--print-config", action="store_true", dest="prints_config", help=TEXTS["print-config"])
    _add_option(parser, parser, "without", list[str], TEXTS["without"], None)
    for title, kind in groups.items():
        group = parser.add_argument_group(title)
        types = get_type_hints(kind, include_extras=True)
        for option in fields(kind):
            annotated_type, text = get_args(types[option.name])
            value_type = _without_none(annotated_type)
            if value_type is Columns:
                for role in _column_roles(option.name):
                    _add_option(parser, group, f"{option.name}.{role}", str, text.format(field=role), None)
            else:
                _add_option(parser, group, option.name, value_type, text, option.default)
    return parser


def _column_roles(option: str) -> Sequence[str]:
    """Return the roles of columns that an option names: those of one kind of file, or of all."""
    for file_role, column_roles in COLUMN_ROLES.items():
        if option == f"{file_role}_columns":
            return column_roles
    return [column.name for column in fields(Columns)]


def _add_option(parser: _Parser, group: Any, name: str, value_type: Any, text: str, default: Any) -> None:
    """Add one option to a group of a parser."""
    arguments: dict[str, Any] = {"metavar": name.rpartition(".")[2].upper()}
    if value_type is bool and default is False:
        arguments = {"nargs": 0}
    elif value_type == list[str]:
        arguments["nargs"] = "+"
    elif get_origin(value_type) is Literal:
        arguments["metavar"] = "|".join(get_args(value_type))
    action = group.add_argument(
        f"--{name.replace('_', '-')}",
        action=_SetOption,
        dest=name,
        help=text.replace("``", "").replace("%", "%%"),
        **arguments,
    )
    action.value_type = value_type
    action.shown_default = default
    parser.options[name.replace("-", "_")] = action


def _without_none(value_type: Any) -> Any:
    """Return a type without None: ``str`` of ``str | None``."""
    members = [member for member in get_args(value_type) if member is not NoneType]
    if NoneType in get_args(value_type) and len(members) == 1:
        return members[0]
    return value_type


def converted(source: str, value_type: Any, value: Any) -> Any:
    """Return the value of an option from its text on the command line, or from a value of YAML.

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
            raise CommandError(f"{source}: is none of {', '.join(choices)}", f"choose one of {', '.join(choices)}.")
        return value
    if value_type == list[str]:
        if isinstance(value, str):
            return [value]
        return [converted(source, str, item) for item in value]
    try:
        return _number_or_text(value_type, value)
    except (KeyError, ValueError):
        raise CommandError(f"{source}: is not {EXPECTED[value_type]}", f"give {EXPECTED[value_type]}.") from None


def _number_or_text(value_type: Any, value: Any) -> Any:
    """Return a value as bool, int, float or str; raise KeyError or ValueError if it is something else."""
    text = str(value)
    if value_type is bool:
        return {"true": True, "false": False}[text.lower()]
    if isinstance(value, (bool, list, dict)):
        raise ValueError(value)
    return value_type(text)


class _SetOption(Action):
    """Sets one option from the command line."""

    value_type: Any
    shown_default: Any

    @property
    def is_flag(self) -> bool:
        """Whether the option needs no value."""
        return self.nargs == 0

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if self.is_flag:
            namespace.set_option(self.dest, True, COMMAND_LINE)
            return
        if self.value_type == list[str]:
            earlier_values = []
            if namespace.sources.get(self.dest) == COMMAND_LINE:
                earlier_values = namespace.values[self.dest]
            namespace.set_option(self.dest, [*earlier_values, *values], COMMAND_LINE)
            return
        if self.dest in namespace.named_options:
            hint = "give it once; for several files, give a pattern in quotes: 'part_*.csv'."
            raise CommandError(f"{option_string} is given twice, and takes one value", hint)
        namespace.named_options.add(self.dest)
        value = converted(f"{option_string} {values}", self.value_type, values)
        namespace.set_option(self.dest, value, COMMAND_LINE)


# -- configs and metrics --------------------------------------------------------------------------------------------


class _Call(Action):
    """Calls a function with the options set so far and the value of an option."""

    def __init__(self, *arguments: Any, call: Callable[[_State, Any], None], **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.call = call

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        self.call(namespace, values)


def _set_preset(parser: _Parser, state: _State, name: str) -> None:
    """Set the options of a config that comes with the library."""
    presets = preset_paths()
    if name not in presets:
        hint = f"{did_you_mean([name], presets)}choose one of {', '.join(presets)}."
        raise CommandError(f"--preset {name}: there is no such preset", hint)
    if state.preset is not None:
        problem = f"--preset {name}: --preset {state.preset} is given already"
        raise CommandError(problem, "leave one of them out; --metrics+= adds single metrics.")
    state.preset = name
    _set_config(parser, state, presets[name], f"--preset {name}")


def _set_flag(state: _State, word: str) -> None:
    """Set an option that needs no value from ``NAME=VALUE``, such as ``quiet=false``."""
    name, _, text = word.partition("=")
    value = converted(f"--{name.replace('_', '-')} {text}", bool, text)
    state.set_option(name, value, COMMAND_LINE)


def _set_metrics(state: _State, text: str) -> None:
    """Set the metrics from a list in YAML."""
    state.specs = specs_of("--metrics", yaml_value("--metrics", text))


def _add_metric(state: _State, class_path: str) -> None:
    """Add a metric by its class."""
    state.added_specs.append(MetricSpec(class_path, source=f"--metrics+={class_path}"))


def _set_argument_of_metric(state: _State, word: str) -> None:
    """Set an argument of the metric that was added last, from ``NAME=VALUE``."""
    name, _, text = word.partition("=")
    specs = state.added_specs or state.specs
    if not specs:
        raise CommandError(f"--metrics.{name}: there is no metric before it", "add --metrics+=CLASS before it.")
    specs[-1].init_args[name] = yaml_value(f"--metrics.{name}", text)


def _print_help_of_metric(_: _State, class_path: str) -> None:
    """Print the arguments of a class of metrics, and exit."""
    print(description_of(class_path))
    raise SystemExit(0)


def _set_config(parser: _Parser, state: _State, path: str | Path, source: str = "") -> None:
    """Set the options of a config; a list of metrics replaces the list of an earlier config.

    Args:
        parser: The parser, which knows the options.
        state: The options set so far.
        path: The config.
        source: The preset that the config is, as an option; by default the config, as an option.

    Raises:
        CommandError: If the file cannot be read, or holds an unknown option or a wrong value.
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
            action = parser.options.get(str(option_name).replace("-", "_"))
            if option_name == "preset":
                hint = f"leave it out, and give --preset {setting} before --config {path}."
                raise CommandError(f"{path}: preset: a config names no preset", hint)
            if action is None:
                hint = did_you_mean([str(option_name)], [*parser.options, "metrics"])
                raise CommandError(f"{path}: {option_name}: there is no such option", hint + HELP)
            value_of_option = converted(f"{path}: {option_name}: {setting}", action.value_type, setting)
            state.set_option(action.dest, value_of_option, source)
