"""Layer 0: the checks of arguments, and the wording of their errors.

A message names the caller, the argument with its value or shape, what is needed and the
remedy, in one string.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import index
from typing import Any, TypeVar, get_args

import torch
from torch import Tensor
from torchmetrics import Metric

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

LARGEST_COUNT = 2**62
"""The sum of two smaller counts fits into int64."""

LARGEST_CUTOFF = 2**31 - 1
"""Deeper than any list; the product of two cut-offs fits into int64."""

LARGEST_GAIN = 1e30
"""States of metrics add up gains exactly from 1 / LARGEST_GAIN to LARGEST_GAIN."""

LONGEST_ERROR = 400
"""Characters of an error at most: five lines of a terminal."""

LONGEST_VALUE = 80
"""Characters of a quoted value at most: one line of a terminal."""

LEAST_PROBLEM = 60
"""Characters that are kept for the problem, whatever the length of the remedy."""

_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|(?<!\w)\"[^\"]*\"(?!\w)|\S{81,}")
"""A quoted value, or a word longer than a line; an apostrophe in a word is no quote."""

Key = TypeVar("Key")

Member = TypeVar("Member")


def grouped(pairs: Iterable[tuple[Key, Member]]) -> dict[Key, list[Member]]:
    """Return the members of each key, in the order in which they are met.

    >>> grouped([("a", 1), ("b", 2), ("a", 3)])
    {'a': [1, 3], 'b': [2]}
    """
    groups: dict[Key, list[Member]] = {}
    for key, member in pairs:
        groups.setdefault(key, []).append(member)
    return groups


def some_of(texts: Sequence[str], most: int) -> list[str]:
    """Return the first ``most`` texts and the number of the remaining ones."""
    if len(texts) <= most:
        return list(texts)
    return [*texts[:most], f"{len(texts) - most} more"]


def cut(text: str, most: int, from_end: bool = False) -> str:
    """Return a text, cut with an ellipsis if it exceeds ``most`` characters.

    The start of the text is kept, or the end if ``from_end``.
    """
    if len(text) <= most:
        return text
    if from_end:
        return f"…{text[1 - most :]}"
    return f"{text[: most - 1]}…"


def short_values(text: str) -> str:
    """Return a text on one line, each quoted value and word cut to 80 characters."""

    def shorter(match: re.Match[str]) -> str:
        # of a path the end
        return cut(match[0], LONGEST_VALUE, from_end="/" in match[0])

    return _QUOTED.sub(shorter, " ".join(text.splitlines()))


def fitted(problem: str, hint: str, used: int = 0) -> tuple[str, str]:
    """Return problem and remedy, cut to fit into an error.

    ``used`` characters of the error are already taken.

    >>> problem, hint = fitted("a word " * 130, "pass k=5.")
    >>> len(problem) + len("; ") + len(hint), hint
    (400, 'pass k=5.')
    """
    hint = cut(short_values(hint), LONGEST_ERROR - used - LEAST_PROBLEM)
    return cut(
        short_values(problem), LONGEST_ERROR - used - len(hint) - len("; ")
    ), hint


def shape_of(value: Any) -> str:
    """Return dtype and shape of a tensor, or the type of anything else, as text."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return type(value).__name__


def check_choice(
    caller: str, argument: str, value: Any, choices: Any, to: str = ""
) -> Any:
    """Return ``value`` if it is one of ``choices``.

    Args:
        caller: The name that errors begin with.
        argument: Name of the argument.
        value: What was passed.
        choices: Texts, or a ``Literal`` of texts.
        to: What the error says behind "is not known", such as " to this metric".
    """
    choices = list(get_args(choices) or choices)
    if isinstance(value, str) and value in choices:
        return choices[choices.index(value)]  # a plain text, also for NumPy's
    names_text = ", ".join(map(repr, choices))
    raise ValueError(
        f"{caller}: {argument}={value!r} is not known{to}; choose one of {names_text}."
    )


def check_count(
    caller: str,
    argument: str,
    value: Any,
    minimum: int = 1,
    maximum: int = LARGEST_COUNT,
) -> int:
    """Return ``value`` as int if it is a whole number in [``minimum``, ``maximum``]."""
    number = None
    if not _is_bool(value):
        with suppress(TypeError):
            number = index(value)  # NumPy's numbers are included
    if number is None:
        raise TypeError(
            f"{caller}: {argument}={value!r} is not a whole number; pass an int of at "
            f"least {minimum}."
        )
    if number < minimum:
        raise ValueError(
            f"{caller}: {argument}={number} is too small; pass an int of at "
            f"least {minimum}."
        )
    if number > maximum:
        raise ValueError(
            f"{caller}: {argument}={number} is too large; pass an int of at "
            f"most {maximum}."
        )
    return number


def _is_bool(value: Any) -> bool:
    """Whether a value is a bool, of Python, NumPy or torch."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) in (
        "bool",
        "torch.bool",
    )


def check_flag(caller: str, argument: str, value: Any) -> bool:
    """Return ``value`` as bool if it is one, of Python or NumPy."""
    num_axes = getattr(value, "ndim", 0)
    if num_axes or not _is_bool(value):
        raise TypeError(
            f"{caller}: {argument}={cut(repr(value), 60)} is no bool; pass True "
            "or False."
        )
    return bool(value)


def check_cutoffs(caller: str, k: Any, optional: bool) -> tuple[int | None, ...]:
    """Return the cut-offs, one int or a sequence of distinct ints, as a tuple.

    None, the whole ranking, is a cut-off only if ``optional``.
    """
    if k is None:
        if optional:
            return (None,)
        raise ValueError(
            f"{caller}: k=None, the whole ranking, means nothing here; pass an int "
            "such as k=10."
        )
    cutoffs = k
    if hasattr(k, "tolist"):  # an array, a tensor or a column of a table
        cutoffs = k.tolist()
    if isinstance(cutoffs, str) or not isinstance(cutoffs, Iterable):
        cutoffs = [cutoffs]
    if not isinstance(cutoffs, Sequence):
        raise TypeError(
            f"{caller}: k is a {type(k).__name__}; pass one int or a list of them, "
            "such as k=(1, 5, 10)."
        )
    if not cutoffs:
        raise ValueError(
            f"{caller}: k={k!r} holds no cut-off; pass at least one, such as k=(1, "
            "5, 10)."
        )
    checked = tuple(
        check_count(caller, "k", cutoff, maximum=LARGEST_CUTOFF) for cutoff in cutoffs
    )
    if len(set(checked)) != len(checked):
        raise ValueError(f"{caller}: k={k!r} repeats a cut-off; pass each once.")
    return checked


def check_names(caller: str, argument: str, value: Any) -> tuple[str, ...]:
    """Return names as a tuple, from a list of texts, or an array of them."""
    if isinstance(value, (str, Mapping)) or not hasattr(value, "__getitem__"):
        raise TypeError(
            f"{caller}: {argument}={value!r} is of type {type(value).__name__}; pass "
            "a list of texts."
        )
    names = tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"{caller}: {argument} holds {name!r} of type {type(name).__name__}; "
                "pass a list of texts."
            )
    # a table yields the names of its columns, and has the length of its rows
    if len(names) != len(value):
        raise TypeError(
            f"{caller}: {argument} is of type {type(value).__name__}; pass a list "
            "of texts."
        )
    return names


def real_number(value: Any) -> float | None:
    """Return a number as float; None for anything else, a bool included.

    Numbers of NumPy and tensors without axes are numbers too.
    """
    is_number = isinstance(value, (int, float)) or getattr(value, "ndim", None) == 0
    # a text of NumPy has no axes, too
    if not is_number or isinstance(value, (str, bytes)) or _is_bool(value):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def check_number(
    caller: str,
    argument: str,
    value: Any,
    low: float,
    high: float,
    inside: bool = False,
) -> float:
    """Return ``value`` as a float if it lies between ``low`` and ``high``.

    ``inside`` excludes both ends.
    """
    number = real_number(value)
    if number is None:
        raise TypeError(
            f"{caller}: {argument}={value!r} is not a number; pass one between {low} "
            f"and {high}."
        )
    if not low <= number <= high or (inside and number in (low, high)):
        needed = (
            f"above {low} and below {high}" if inside else f"between {low} and {high}"
        )
        raise ValueError(
            f"{caller}: {argument}={value} is out of range; pass a number {needed}."
        )
    return number


@dataclass(frozen=True)
class NumberRange:
    """The numbers that an argument takes, between ``low`` and ``high``.

    ``inside`` excludes both ends.
    """

    argument: str
    low: float
    high: float
    inside: bool = False

    def checked(self, caller: str, value: Any) -> float:
        """Return ``value`` as a float if it lies in the range."""
        return check_number(
            caller, self.argument, value, self.low, self.high, self.inside
        )

    def check(self, caller: str, _: Any, arguments: Mapping[str, Any]) -> None:
        """Raise unless the argument of a formula lies in the range."""
        self.checked(caller, arguments[self.argument])


def writable_array(value: Any) -> Any:
    """Return a copy of a read-only array, and any other value unchanged.

    torch warns about read-only arrays.
    """
    if getattr(getattr(value, "flags", None), "writeable", True):
        return value
    return value.copy()


def check_counts(caller: str, argument: str, counts: Any) -> Tensor:
    """Return training counts per label as an int64 vector of shape [L] on the CPU.

    A metric is computed first.
    """
    if isinstance(counts, Metric):
        counts = counts.compute()
    needed = "whole numbers, one per label, such as LabelFrequency.compute()"
    tensor = whole_numbers_by_label(caller, argument, counts, needed)
    if tensor.numel() and int(tensor.min()) < 0:
        raise ValueError(
            f"{caller}: {argument} holds {int(tensor.min())}; counts cannot "
            "be negative."
        )
    total = float(tensor.to(torch.float64).sum())  # a float sum cannot overflow
    if total > LARGEST_COUNT:
        raise ValueError(
            f"{caller}: {argument} adds up to {total:.3g}, more than "
            f"{LARGEST_COUNT:.3g}, the most that 64-bit sums of counts hold safely: "
            "divide all counts by the same number."
        )
    return tensor


def whole_numbers_by_label(
    caller: str, argument: str, values: Any, needed: str
) -> Tensor:
    """Return whole numbers as :func:`whole_numbers` does, a pandas Series by label."""
    if hasattr(values, "index") and hasattr(values, "sort_index"):
        values = _by_label(caller, argument, values)
    return whole_numbers(caller, argument, values, needed)


def whole_numbers(caller: str, argument: str, values: Any, needed: str) -> Tensor:
    """Return a copy of whole numbers as an int64 vector on the CPU.

    It is a copy because the caller may change the values later.

    Args:
        caller: The name that errors begin with.
        argument: Name of the argument.
        values: What was passed.
        needed: What the error says to pass.
    """
    if isinstance(values, (list, tuple)) and not values:
        # torch would make floats of no numbers
        return torch.zeros(0, dtype=torch.int64, device="cpu")
    vector = values
    # not torch's default device
    device = values.device if isinstance(values, Tensor) else "cpu"
    with suppress(TypeError, ValueError, RuntimeError):
        vector = torch.as_tensor(writable_array(values), device=device).detach().cpu()
    if (
        not isinstance(vector, Tensor)
        or vector.dtype not in INTEGERS
        or vector.ndim > 1
    ):
        raise TypeError(f"{caller}: {argument} is {shape_of(vector)}; pass {needed}.")
    return vector.to(torch.int64, copy=True).reshape(-1)


def _by_label(caller: str, argument: str, series: Any) -> Any:
    """Return the values of a pandas Series in the order of labels, which are its index.

    ``value_counts()`` sorts by frequency, and leaves labels out that never occur.

    Raises:
        ValueError: If the index does not hold each label from 0 on once.
    """
    sorted_series = series.sort_index()
    labels = list(sorted_series.index)
    if labels != list(range(len(labels))):
        raise ValueError(
            f"{caller}: {argument} is a {type(series).__name__} whose index is not the "
            f"labels 0 to {len(labels) - 1}; pass "
            f"{argument}.reindex(range(num_labels), fill_value=0), or "
            f"{argument}.to_numpy() if its values are in the order of labels."
        )
    return sorted_series.to_numpy()


def check_ids_in_range(
    caller: str, argument: str, ids: Tensor, num_labels: int | None
) -> int:
    """Raise unless all ``ids`` lie in [-1, num_labels); return the lowest id.

    Without ids, the result is 0.
    """
    if not ids.numel():
        return 0
    lowest, highest = torch.aminmax(ids)
    check_ends(
        caller,
        argument,
        int(lowest),
        int(highest),
        num_labels,
        one_per_row=ids.ndim == 1,
    )
    return int(lowest)


def check_ends(
    caller: str,
    argument: str,
    low: int,
    high: int,
    num_labels: int | None,
    *,
    one_per_row: bool,
) -> None:
    """Raise unless the lowest and the highest of some ids lie in [-1, num_labels)."""
    if low < -1:
        raise ValueError(
            f"{caller}: {argument} holds the id {low}; ids start at 0, and -1 pads a "
            f"row.{_hint_for_low_id(argument, low, one_per_row)}"
        )
    if num_labels is not None and high >= num_labels:
        remedy = "check num_labels or the ids"
        if high == num_labels == 1:
            remedy += (
                "; 0 and 1 of one label are target[:, None], and documents of queries "
                "need indexes="
            )
        elif high == num_labels:
            remedy += "; ids that start at 1 need - 1"
        if argument == "preds":
            remedy += ", and pass integer scores as floats, preds.float()"
        raise ValueError(
            f"{caller}: {argument} holds the id {high}, but there are {num_labels} "
            f"labels (ids 0 to {num_labels - 1}); {remedy}."
        )


def _hint_for_low_id(argument: str, low: int, one_per_row: bool) -> str:
    """Return what an id below -1 may mean, and what to do."""
    if argument == "preds":
        return (
            f" Integers are ids here: if {low} pads lists, pass preds.clamp(min=-1); "
            "if they are scores, pass them as floats, preds.float()."
        )
    if not argument.startswith("target"):
        return ""
    where = (
        f"ignore_index={low}, which metrics, evaluate() and "
        "LabelFrequency.update() take"
    )
    if one_per_row:
        return (
            f" If {low} marks rows that do not count, leave them out with "
            f"row_mask={argument} != {low}, or {where}."
        )
    return (
        f" If {low} marks tokens that do not count, leave them out with {where}; if it "
        f"pads rows of several labels, pass {argument}.clamp(min=-1)."
    )


def number_text(value: float) -> str:
    """Return a number as text for a key: six digits if they are exact, else all."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))
