"""The keys of values, such as ``precision@5/en/decile_10``, and names of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter
from itertools import product
from re import sub
from typing import Any, Final, cast

from torch import Tensor

from tailmetrics._arguments import number_text, shape_of
from tailmetrics._signatures import PRESENTATION, arguments
from tailmetrics._transfer import digest_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._states import State
from tailmetrics.metrics._training import FROM_TRAINING
from tailmetrics.ranking._batch import BATCH_DEFAULTS

DATA: Final = (
    "k",
    *FROM_TRAINING,
    *PRESENTATION,
    "row_groups",
    "weighted",
    *BATCH_DEFAULTS,
)
"""Arguments that describe the data, not the convention: they are not in the key."""

WORDS: Final[Mapping[str, str]] = {
    "min_gain": "min",
    "miss_value": "miss",
    # these have a place of their own in the key, or decide nothing that a key has to
    # tell
    **dict.fromkeys(
        ("scope", "average", "threshold", "min_recall", "statistic", "preset"), ""
    ),
}
"""Words for arguments in a key, in place of names; "" keeps an argument out of it."""

LAST: Final = (
    "denominator",
    "labels",
    "macro",
    "depth",
    "empty_target_action",
    "ties",
    "min_gain",
)
"""The order of the arguments that many metrics take, which stand last in a key."""


class Stem:
    """The key without its cut-off.

    It is the class name in lower case with underscores, unless a class sets a stem.
    """

    def __get__(self, metric: Any, owner: type) -> str:
        """Return the stem, such as ``f_beta`` for ``FBetaAtK``."""
        name = owner.__name__.removesuffix("AtK").removesuffix("AtThreshold")
        return sub(
            r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name
        ).lower()


@dataclass(frozen=True)
class Keys:
    """The keys of the values of one metric.

    Attributes:
        by_cutoff: The key of each cut-off, without row group and bucket:
            ``precision@1``, ``precision@5``.
        groups: The part of a key for each row group: empty for all rows, then ``/en``.
        buckets: The part of a key for each bucket, such as ``/decile_10``; one empty
            part without buckets.
        by_label: The name of the values of labels at each cut-off: its key without
            average and conventions.
    """

    by_cutoff: tuple[str, ...]
    groups: tuple[str, ...]
    buckets: tuple[str, ...]
    by_label: tuple[str, ...]

    def row_keys(self, group: str = "") -> list[str]:
        """Return a key for each cut-off and bucket.

        The keys are over all rows, or over the rows of a ``group`` such as ``/en``.
        """
        return [
            f"{key}{group}{bucket}"
            for key, bucket in product(self.by_cutoff, self.buckets)
        ]


def keys_of(metric: Any) -> Keys:
    """Return the keys of a metric, from the arguments that are not the default."""
    if metric.name is not None:
        by_cutoff = by_label = _at_cutoffs(metric, metric.name)
    else:
        prefix, convention = metric.reading.prefix, _convention(metric)
        by_cutoff = _at_cutoffs(
            metric, f"{prefix}{metric.aggregation.prefix}{metric.stem}{convention}"
        )
        by_label = _at_cutoffs(metric, f"{prefix}{metric.stem}")

    groups = [""]
    for group in metric.row_groups or ():
        groups.append(f"/{group}")
    buckets = [f"/{bucket}" for bucket in metric.bucket_names]
    return Keys(by_cutoff, tuple(groups), tuple(buckets or [""]), by_label)


def _at_cutoffs(metric: Any, key: str) -> tuple[str, ...]:
    """Return a key with each cut-off behind it.

    The name of a metric with one cut-off stays as it is.
    """
    if metric.name is not None and len(metric.cutoffs) == 1:
        return (key,)
    keys = []
    for k in metric.cutoffs:
        cut_name = metric.aggregation.cut_name(k)
        keys.append(f"{key}@{cut_name}" if cut_name else key)
    return tuple(keys)


def _convention(metric: Any) -> str:
    """Return the part of a key for arguments that are not the default.

    A text stands alone, a number behind the name of its argument.
    """
    hidden = {*DATA, *metric.aggregation.not_in_key}
    if not metric.reading.uses_depth:
        hidden.add("depth")
    if metric.formula.reads_gains:
        hidden.add("min_gain")
    if metric.empty_target_action == "error":
        hidden.add("empty_target_action")

    unusual = metric.unusual_settings()
    parts = []
    for name in sorted(unusual, key=_place_in_key):
        word = WORDS.get(name, name)
        if name not in hidden and word.isidentifier():
            parts.append(_key_part(word, unusual[name]))
    return "".join(parts)


def arguments_text(metric: Any) -> str:
    """Return the arguments of a metric that are not the default as text.

    Arguments that may stand without a name come first.
    """
    unusual = metric.unusual_settings()
    if isinstance(metric.buckets, LabelBuckets):
        unusual.pop("num_labels", None)
    if metric.name is not None:
        unusual["name"] = metric.name

    parameters = arguments(cast("Any", type(metric)))
    by_place: list[str] = []
    by_name: list[str] = []
    for name, value in unusual.items():
        text = _argument_text(name, value)
        if name == "buckets":
            by_name.insert(0, text)
        elif name in parameters and parameters[name].kind == Parameter.KEYWORD_ONLY:
            by_name.append(text)
        else:
            by_place.append(text)
    return ", ".join([*by_place, *by_name])


def _argument_text(name: str, value: Any) -> str:
    """Return an argument as ``repr`` shows it."""
    if isinstance(value, LabelBuckets):
        return f"{len(value)} buckets"
    if isinstance(value, Tensor):
        return f"{name}={shape_of(value)}"
    if isinstance(value, tuple):
        return f"{name}={list(value)}"
    return f"{name}={value!r}"


def names_of_states(metric: Any, states: Mapping[str, State]) -> dict[str, str]:
    """Return the name of each state.

    Two metrics have equal names only if they add equal amounts, in all processes.
    """
    unusual = metric.unusual_settings()
    # metrics that read a batch in different ways add different amounts
    batch_settings = {
        name: value for name, value in unusual.items() if name in BATCH_DEFAULTS
    }
    suffix = f"_of_{metric.num_labels}"
    if metric.row_groups:
        suffix += f"_of_{len(metric.row_groups)}_groups"
    if batch_settings:
        suffix += f"_{digest_of(batch_settings)}"
    unusual.pop("num_labels", None)  # the shapes of states depend on it
    own = f"{metric.stem}_{digest_of((type(metric).__qualname__, unusual))}"
    aggregation = _class_with_states(metric.aggregation)

    names = {}
    for name, state in states.items():
        if state.shared:
            names[name] = f"{aggregation}_{name}{state.key}{suffix}"
        else:
            names[name] = f"{own}_{name}{state.key}"
    return names


def _class_with_states(aggregation: Any) -> str:
    """Return the name of the class that declares the states of an aggregation."""
    return next(
        base.__name__ for base in type(aggregation).__mro__ if "states" in vars(base)
    )


def _place_in_key(name: str) -> int:
    """Return where an argument stands in a key: those of one metric come first."""
    if name in LAST:
        return LAST.index(name)
    return -1


def _key_part(word: str, value: Any) -> str:
    """Return an argument as it is written in a key."""
    if isinstance(value, bool):
        if value:
            return f"_{word}"
        return f"_no_{word}"
    if isinstance(value, str):
        return f"_{value}"
    if isinstance(value, (int, float)):
        return f"_{word}{number_text(value)}"
    return f"_{word}"
