"""The keys of values: ``precision@5``, ``precision@5/decile_10``, ``precision@5/en/decile_10``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from re import sub
from typing import Any, Final

from tailmetrics._arguments import PRESENTATION, number_text
from tailmetrics.metrics._arguments_of_metrics import FACTS
from tailmetrics.ranking._inputs import BATCH_DEFAULTS

DATA: Final = ("k", *FACTS, *PRESENTATION, "row_groups", "weighted", *BATCH_DEFAULTS)
"""Arguments that describe the data, not the convention of a metric: they are not in the key."""

WORDS: Final[Mapping[str, str]] = {
    "min_gain": "min",
    "miss_value": "miss",
    # these have a place of their own in the key, or decide nothing that a key has to tell
    **dict.fromkeys(("scope", "average", "threshold", "min_recall", "statistic", "preset"), ""),
}
"""The words for arguments in a key, where they are not the names; "" keeps an argument out of the key."""

LAST: Final = ("denominator", "labels", "macro", "depth", "empty_target_action", "ties", "min_gain")
"""The order of arguments that many metrics take; in a key they stand behind those of one metric."""


class Stem:
    """The key without its cut-off: the class name in lower case, with underscores, unless a class sets another stem."""

    def __get__(self, metric: Any, owner: type) -> str:
        """Return ``normalized_recall`` for ``NormalizedRecallAtK``, and ``f_beta`` for ``FBetaAtK``."""
        name = owner.__name__.removesuffix("AtK").removesuffix("AtThreshold")
        return sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@dataclass(frozen=True)
class Keys:
    """The keys of the values of one metric.

    Attributes:
        by_cutoff: The key of each cut-off, without row group and bucket: ``precision@1``, ``precision@5``.
        groups: The part of a key for each row group: empty for all rows, then such as ``/en``.
        buckets: The part of a key for each bucket, such as ``/decile_10``; one empty part without buckets.
        plain: The key without its cut-off.
    """

    by_cutoff: tuple[str, ...]
    groups: tuple[str, ...]
    buckets: tuple[str, ...]
    plain: str

    def of_rows(self, group: str = "") -> list[str]:
        """Return a key for each cut-off and bucket: over all rows, or, with ``/en`` as ``group``, over its rows."""
        return [f"{key}{group}{bucket}" for key in self.by_cutoff for bucket in self.buckets]


def convention(unusual: Mapping[str, Any]) -> str:
    """Return the part of a key for arguments that are not the default: a text alone, a number after its name."""
    parts = []
    for name in sorted(unusual, key=_place_in_key):
        word = WORDS.get(name, name)
        if name not in DATA and word.isidentifier():
            parts.append(_key_part(word, unusual[name]))
    return "".join(parts)


def _place_in_key(name: str) -> int:
    """Return where an argument stands in a key: those of one metric come first."""
    return LAST.index(name) if name in LAST else -1


def _key_part(word: str, value: Any) -> str:
    """Return an argument as it is written in a key."""
    if isinstance(value, bool):
        return f"_{word}" if value else f"_no_{word}"
    if isinstance(value, str):
        return f"_{value}"
    if isinstance(value, (int, float)):
        return f"_{word}{number_text(value)}"
    return f"_{word}"
