"""Keys of scalars taken apart: metric, group of rows and bucket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Key(NamedTuple):
    """The parts of ``recall@10/en/decile_1``; group and bucket are "" where the value is over all rows or labels."""

    metric: str
    group: str
    bucket: str


def split(key: str, groups: Iterable[str], buckets: Iterable[str]) -> Key:
    """Return the parts of a key; names may hold "/" themselves, so that only known names tell.

    >>> split("val/recall@10/en/decile_1", ["en"], ["decile_1"])
    Key(metric='val/recall@10', group='en', bucket='decile_1')
    """
    rest, bucket = _without(key, buckets)
    metric, group = _without(rest, groups)
    return Key(metric, group, bucket)


def _without(key: str, names: Iterable[str]) -> tuple[str, str]:
    name = max((name for name in names if key.endswith(f"/{name}")), key=len, default="")
    return (key[: -len(name) - 1], name) if name else (key, "")


def nested(scalars: Mapping[str, float], groups: Iterable[str], buckets: Iterable[str]) -> dict[Key, float]:
    """Return the values by the parts of their keys."""
    groups, buckets = list(groups), list(buckets)
    return {split(key, groups, buckets): value for key, value in scalars.items()}
