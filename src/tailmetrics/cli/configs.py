"""Reads configs, YAML files with metrics and options, and the library's presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import tailmetrics
from tailmetrics.cli.messages import CommandError

DEEPEST = 50
"""The deepest nesting of a config."""
MOST_VALUES = 10**5
"""The most values in a config, once its aliases are written out."""


class _RepeatedKeyError(Exception):
    """A mapping of YAML has two values under one key."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types
    """A loader of plain values that refuses a key that a mapping holds twice.

    YAML would drop the first value of such a key.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return a mapping; raise if a key is repeated."""
        mapping: yaml.MappingNode = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            name = (key.tag, key.value)
            if name in lines:
                raise _RepeatedKeyError(
                    f"line {line} repeats the key {key.value!r} of line {lines[name]}"
                )
            lines[name] = line
        return mapping


def preset_paths() -> dict[str, Path]:
    """Return the presets by name.

    A preset is a config of the library that has a list ``metrics:``.
    """
    package = Path(tailmetrics.__file__).parent
    # inside the package when installed, beside src in a checkout
    paths = sorted(package.glob("configs/*.yaml")) or sorted(
        package.parents[1].glob("configs/*.yaml")
    )
    presets = {}
    for path in paths:
        if "metrics:" in path.read_text(encoding="utf-8").splitlines():
            presets[path.stem] = path
    return presets


def read_config(path: Path) -> dict[str, Any]:
    """Return a config.

    Raises:
        CommandError: If the file is not there, is no YAML in UTF-8, or is too large.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(
            f"--config {path}: is not UTF-8 text", "write the file again as UTF-8."
        ) from error
    except OSError as error:
        raise CommandError(
            f"--config {path}: {error.strerror}", "check the path and its permissions."
        ) from error
    config = yaml_value(f"--config {path}", text)
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise CommandError(
            f"--config {path}: holds no options",
            "write lines 'option: value', such as 'seed: 1'.",
        )
    return config


def yaml_value(source: str, text: str) -> Any:
    """Return the value of a text in YAML.

    Raises:
        CommandError: If the text is no YAML, is nested too deep, or holds too many
            values.
    """
    try:
        if _is_too_deep(text):
            raise _too_large(source)
        value = _plain_value(text)
    except _RepeatedKeyError as error:
        hint = "give each key once; several metrics are entries of one list."
        raise CommandError(f"{source}: {error}", hint) from None
    except yaml.YAMLError as error:
        raise CommandError(
            f"{source}: is no YAML: {error}", "check brackets, colons and indentation."
        ) from error
    if _is_too_large(value):
        raise _too_large(source)
    return value


def _plain_value(text: str) -> Any:
    """Return the value of a text in YAML; raise if a key is repeated."""
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _too_large(source: str) -> CommandError:
    problem = (
        f"{source}: is nested too deep, or too large once its aliases are written out"
    )
    return CommandError(
        problem,
        ("write the values that are meant; a config holds some hundred of them."),
    )


def _is_too_deep(text: str) -> bool:
    """Whether a text in YAML is nested deeper than :data:`DEEPEST`.

    The text is read only up to that depth.
    """
    depth = 0
    for event in yaml.parse(text):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            return True
    return False


def _is_too_large(value: Any) -> bool:
    """Whether YAML with aliases written out exceeds :data:`MOST_VALUES` values."""
    num_values = 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        num_values += 1
        if num_values > MOST_VALUES:
            return True
        if isinstance(part, dict):
            waiting.extend(part.keys())
            waiting.extend(part.values())
        if isinstance(part, list):
            waiting.extend(part)
    return False
