"""Floor 0: fingerprints, what the numbers of a metric depend on, as text; and in words, how two of them differ."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from torch import Tensor


def identity(value: Any) -> str:
    """Return a text that differs where values differ, the same in every process; of unknown objects, their type."""
    if isinstance(value, (str, int, float, type(None))):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(identity, value))})"
    if isinstance(value, Mapping):
        return f"({','.join(f'{identity(name)}:{identity(one)}' for name, one in sorted(value.items()))})"
    if isinstance(value, (Tensor, np.ndarray)):
        array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        return f"{array.dtype}{array.shape}{sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}"
    return f"{type(value).__qualname__} {getattr(value, 'digest', '')}"


@dataclass(frozen=True)
class Fingerprint:
    """What two metrics must have in common before their states may be put together.

    Attributes:
        metric: The name of the class.
        arguments: The value of each argument that numbers depend on, as :func:`identity` writes it: of buckets and
            counts a SHA-256.
        states: What each state is, in their order: type, shape and reduction, by name.
    """

    metric: str
    arguments: Mapping[str, str]
    states: Mapping[str, str]


def as_text(fingerprints: Sequence[Fingerprint]) -> str:
    """Return fingerprints as JSON, the same text in every process where they are the same."""
    return json.dumps([vars(one) for one in fingerprints], separators=(",", ":"))


def from_text(text: str) -> list[Fingerprint]:
    """Return the fingerprints that :func:`as_text` wrote.

    Raises:
        ValueError: If it did not write them.
    """
    try:
        return [Fingerprint(**one) for one in json.loads(text)]
    except TypeError as error:
        raise ValueError("no fingerprints") from error


def difference(
    first: Sequence[Fingerprint],
    second: Sequence[Fingerprint],
    of_first: str,
    of_second: str,
    names: Sequence[str] = (),
) -> str | None:
    """Return in words in what the members of two collections differ; None where they do not.

    Args:
        first: The fingerprint of each member.
        second: The same of the other.
        of_first: Where ``first`` was found: ``"here"``, ``"on process 0"``.
        of_second: Where ``second`` was found.
        names: What the members of ``first`` are called, where they have names.
    """
    if len(first) == len(second) == 1:
        return _difference(first[0], second[0], of_first, of_second)
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        found = _difference(one, other, of_first, of_second)
        if found is not None:
            name = f" ({names[number]!r})" if names else ""
            kind = f", {one.metric}" if one.metric == other.metric else ""
            return f"member {number + 1}{name}{kind}: {found}"
    if len(first) != len(second):
        listed = (", ".join(one.metric for one in some) or "no metric" for some in (first, second))
        return f"there are {next(listed)} {of_first} and {next(listed)} {of_second}"
    return None


def _difference(one: Fingerprint, other: Fingerprint, of_one: str, of_other: str) -> str | None:
    if one.metric != other.metric:
        return f"it is {one.metric} {of_one} and {other.metric} {of_other}"
    kinds = (("", one.arguments, other.arguments), ("the state ", one.states, other.states))
    for what, ours, theirs in kinds:
        different = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        if different:
            parts = (
                f"{what}{name} is {_short(ours.get(name))} {of_one} and {_short(theirs.get(name))} {of_other}"
                for name in different
            )
            return ", ".join(parts)
    if list(one.states) != list(other.states):
        return f"the states stand in another order {of_other}"
    return None


def _short(value: str | None) -> str:
    """Return a value for a message; of a digest the beginning."""
    return "missing" if value is None else re.sub(r"\b([0-9a-f]{8})[0-9a-f]{56}\b", r"\1…", value)
