"""Layer 0: the checks of arguments, the wording of their errors, and what a class of
metrics takes by name.

A message names the caller, the argument with its value or shape, what is needed and the
remedy, in one string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, wraps
from inspect import Parameter, Signature, cleandoc, signature
from operator import index
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast, get_args, get_type_hints

import torch
from torch import Tensor
from torchmetrics import Metric
from typing_extensions import TypedDict

from tailmetrics._parameters import SHARED_PARAMETERS

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

LARGEST_COUNT = 2**62
"""The sum of two smaller counts fits into int64."""

LARGEST_CUTOFF = 2**31 - 1
"""Deeper than any list; the product of two cut-offs fits into int64."""

LARGEST_GAIN = 1e30
"""The states of metrics add up gains exactly if each lies between 1 / LARGEST_GAIN and
LARGEST_GAIN.
"""

LONGEST_ERROR = 400
"""Characters of an error at most: five lines of a terminal."""
LONGEST_VALUE = 80
"""Characters of a quoted value at most: one line of a terminal."""
LEAST_PROBLEM = 60
"""Characters that are kept for the problem, whatever the length of the remedy."""
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|(?<!\w)\"[^\"]*\"(?!\w)|\S{81,}")
"""A quoted value, or a word that is longer than a line; an apostrophe inside a word is
no quote.
"""


Key = TypeVar("Key")
Member = TypeVar("Member")
Function = TypeVar("Function", bound=Callable[..., Any])


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
    """Return the first texts, ``most`` at most, and the number of the remaining
    ones.
    """
    if len(texts) <= most:
        return list(texts)
    return [*texts[:most], f"{len(texts) - most} more"]


def cut(text: str, most: int, from_end: bool = False) -> str:
    """Return a text, or its start (or end) with an ellipsis where it has more
    characters than ``most``.
    """
    if len(text) <= most:
        return text
    if from_end:
        return f"…{text[1 - most :]}"
    return f"{text[: most - 1]}…"


def short_values(text: str) -> str:
    """Return a text on one line, in which each quoted value and each word has at most
    80 characters.
    """

    def shorter(match: re.Match[str]) -> str:
        # of a path the end
        return cut(match[0], LONGEST_VALUE, from_end="/" in match[0])

    return _QUOTED.sub(shorter, " ".join(text.splitlines()))


def fitted(problem: str, hint: str, used: int = 0) -> tuple[str, str]:
    """Return problem and remedy, cut so that both fit into an error of which ``used``
    characters are taken.

    >>> problem, hint = fitted("a word " * 130, "pass k=5.")
    >>> len(problem) + len("; ") + len(hint), hint
    (400, 'pass k=5.')
    """
    hint = cut(short_values(hint), LONGEST_ERROR - used - LEAST_PROBLEM)
    return cut(
        short_values(problem), LONGEST_ERROR - used - len(hint) - len("; ")
    ), hint


def shape_of(value: Any) -> str:
    """Return dtype and shape of a tensor, or the type of anything else, for use in a
    message.
    """
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
    """Return ``value`` as int if it is a whole number from ``minimum`` to
    ``maximum``.
    """
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
    """Return the cut-offs as a tuple, given one int, a sequence of distinct ints, or,
    if ``optional``, None.
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
    """Return a number, NumPy's and tensors without axes included, as float; None for
    anything else, a bool included.
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
    """Return ``value`` as a float if it lies between ``low`` and ``high``; ``inside``
    excludes both ends.
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
    """The numbers that an argument takes, between ``low`` and ``high``; ``inside``
    excludes both ends.
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
    """Return a copy of a read-only array, because torch warns about such arrays; return
    any other value unchanged.
    """
    if getattr(getattr(value, "flags", None), "writeable", True):
        return value
    return value.copy()


def check_counts(caller: str, argument: str, counts: Any) -> Tensor:
    """Return training counts per label as an int64 vector of shape [L] on the CPU; a
    metric is computed first.
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
    """Return whole numbers as :func:`whole_numbers` does; those of a pandas Series in
    the order of labels.
    """
    if hasattr(values, "index") and hasattr(values, "sort_index"):
        values = _by_label(caller, argument, values)
    return whole_numbers(caller, argument, values, needed)


def whole_numbers(caller: str, argument: str, values: Any, needed: str) -> Tensor:
    """Return a copy of whole numbers as an int64 vector on the CPU, because the caller
    may change the values later.

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
    """Raise unless all ``ids`` lie in [-1, num_labels); return the lowest id, 0 without
    ids.
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


class TorchMetricsArguments(TypedDict, total=False):
    """Keyword arguments of every ``torchmetrics.Metric``; a later version may take
    more.
    """

    sync_on_compute: bool
    dist_sync_on_step: bool
    process_group: Any
    compute_on_cpu: bool
    compute_with_cache: bool
    distributed_available_fn: Callable[[], bool] | None
    dist_sync_fn: Callable[..., Any] | None


NAMED: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

KEYWORDS: Final[Mapping[str, Any]] = dict.fromkeys(
    TorchMetricsArguments.__annotations__
) | {
    "sync_on_compute": True,
    "dist_sync_on_step": False,
    "compute_on_cpu": False,
    "compute_with_cache": True,
}
"""The arguments that every ``torchmetrics.Metric`` takes by name, with their defaults.
"""

PRESENTATION = ("name", "validate_args")
"""Arguments that change no value of a metric."""

SYNONYMS = {
    "top_k": ("k",),
    "num_classes": ("num_labels",),
    "num_items": ("num_labels",),
    "label_frequency": ("buckets",),
    "sample_weight": ("weighted", "row_weights"),
    "groups": ("row_groups",),
}
"""Names of arguments in other libraries, and the names of the same argument here: of a
class, of ``update``.
"""


def keyword_defaults(constructor: Callable[..., None]) -> dict[str, Any]:
    """Return the keys of the typed dict of ``**kwargs: Unpack[...]`` with their
    defaults, in the order of signatures.

    Those of TorchMetrics are left out. Keys that are no shared parameter have the
    default None, and stand first.
    """
    names: set[str] = set()
    for typed_dict in get_args(get_type_hints(constructor).get("kwargs")):
        names = get_type_hints(typed_dict).keys() - KEYWORDS.keys()
    defaults = dict.fromkeys(sorted(names - SHARED_PARAMETERS.keys()))
    for name, parameter in SHARED_PARAMETERS.items():
        if name in names:
            defaults[name] = parameter.default
    return defaults


@cache
def arguments(metric: type[Metric]) -> Mapping[str, Parameter]:
    """Return the arguments that a class takes by name: its own, and those that its
    constructor passes on.

    ``**kwargs: Unpack[T]`` passes on the keys of a typed dict T, whose defaults are in
    the table of shared parameters; other ``**kwargs`` the arguments of the next base.
    """
    parameters: dict[str, Parameter] = {}
    by_name = False
    for base in metric.__mro__[: metric.__mro__.index(Metric)]:
        constructor = vars(base).get("__init__")
        if constructor is None:
            continue
        own = list(signature(constructor).parameters.values())[1:]
        for parameter in own:
            if by_name and parameter.kind == Parameter.POSITIONAL_OR_KEYWORD:
                parameter = parameter.replace(kind=Parameter.KEYWORD_ONLY)
            if parameter.kind in NAMED:
                parameters.setdefault(parameter.name, parameter)

        defaults = keyword_defaults(constructor)
        if defaults:
            for name, default in defaults.items():
                parameters.setdefault(
                    name, Parameter(name, Parameter.KEYWORD_ONLY, default=default)
                )
            break

        kinds = {parameter.kind for parameter in own}
        if Parameter.VAR_KEYWORD not in kinds:
            break
        by_name = by_name or Parameter.VAR_POSITIONAL not in kinds
    return MappingProxyType(parameters)


class ClassSignature:
    """What ``inspect.signature`` and ``help`` show of a class of metrics: every
    argument, in place of ``**kwargs``.
    """

    def __get__(self, metric: Metric | None, owner: type[Metric]) -> Signature:
        """Return the signature of the class."""
        if metric is not None:
            # the signature of an object is that of its __call__
            raise AttributeError("__signature__")
        parameters = dict(arguments(owner))
        for name, default in KEYWORDS.items():
            parameters[name] = Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        return Signature(
            sorted(parameters.values(), key=lambda parameter: parameter.kind)
        )


def documentation(metric: type[Metric]) -> str | None:
    """Return the docstring of a class, with a line for each shared parameter in place
    of the line ``kwargs: ...``.
    """
    text: str | None = vars(metric).get("__doc__")
    # Python 3.13 drops the common indentation of docstrings, earlier ones keep it
    before, line, behind = cleandoc(text or "").partition("    kwargs: ")
    if not line:
        return text

    accepted = arguments(metric)
    shared = []
    for name, parameter in SHARED_PARAMETERS.items():
        if name in accepted and f"\n    {name}: " not in before:
            shared.append(parameter.described())

    behind = behind.partition("\n")[2]
    return (
        before
        + "".join(shared)
        + "    kwargs: Those of :class:`torchmetrics.Metric`.\n"
        + behind
    )


def passed_arguments(
    metric: type[Metric], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments that were passed to a class, by name; positional arguments
    without a name get a number.

    Raises:
        TypeError: If an argument is missing, or there are too many.
        ValueError: If the class does not take an argument; the message says what may
            have been meant.
    """
    if not args and not kwargs:
        # copies are made without arguments; Python itself reports arguments that are
        # missing
        return {}
    constructor = _constructor(metric)
    accepted = arguments(metric)
    unknown = [name for name in kwargs if name not in accepted and name not in KEYWORDS]
    if unknown and not _takes_any_keyword(metric):
        raise unknown_arguments(metric, unknown)
    try:
        constructor.bind(None, *args, **kwargs)
    except TypeError as error:
        names_text = ", ".join(accepted)
        raise TypeError(
            f"{metric.__name__}: {error}; it takes {names_text}, most of them by "
            "name only."
        ) from None

    parameters = constructor.parameters.items()
    names = [
        name
        for name, parameter in parameters
        if parameter.kind == Parameter.POSITIONAL_OR_KEYWORD
    ]
    names += [f"*{number}" for number in range(len(args))]
    passed = dict(zip(names[1:], args, strict=False)) | dict(kwargs)
    return {name: value for name, value in passed.items() if name not in KEYWORDS}


def _takes_any_keyword(metric: type[Metric]) -> bool:
    """Whether a constructor has ``**kwargs`` of any names, as that of a user's class
    may have.
    """
    kinds = {parameter.kind for parameter in _constructor(metric).parameters.values()}
    has_typed_keywords = get_args(get_type_hints(metric.__init__).get("kwargs")) != ()
    return Parameter.VAR_KEYWORD in kinds and not has_typed_keywords


@cache
def _constructor(metric: type[Metric]) -> Signature:
    """Return the signature of a class, which takes longer to find than to use."""
    return signature(metric.__init__)


@cache
def settled_arguments(metric: type[Metric]) -> frozenset[str]:
    """Return the attributes that cannot be set after construction, because states, keys
    and names depend on them.

    They are the arguments of this library's classes. A derived class decides whether
    its own arguments can be set.
    """
    library_classes = []
    for base in metric.__mro__:
        if base.__module__.startswith("tailmetrics."):
            library_classes.append(base)
    return frozenset(
        {*arguments(library_classes[0]), "k", "cutoffs"} - {"validate_args"}
    )


def number_text(value: float) -> str:
    """Return a number as text for a key: with six digits if they give the number
    exactly, else with all digits.
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def unknown_arguments(metric: type[Metric], unknown: Sequence[str]) -> ValueError:
    """Return the error for unknown arguments. It lists the known ones, and those that
    may have been meant.
    """
    accepted = list(arguments(metric))
    are = "is not an argument" if len(unknown) == 1 else "are not arguments"
    problem = f"{metric.__name__}: {' and '.join(unknown)} {are} of this metric"
    if "task" in unknown:
        return ValueError(
            f"{problem}; leave it out, because the form of target tells the task."
        )
    names_text = (
        f"it takes {', '.join(accepted)}, and of torchmetrics.Metric "
        f"{', '.join(KEYWORDS)}"
    )
    return ValueError(f"{problem}; {names_text}{_meant(unknown, accepted)}")


def check_keywords(caller: str, called: Signature, passed: Iterable[str]) -> None:
    """Raise if a call passes an argument that a method does not take; the message says
    what may have been meant.
    """
    unknown = [name for name in passed if name not in called.parameters]
    if not unknown:
        return
    accepted = [name for name in called.parameters if name != "self"]
    are = "is" if len(unknown) == 1 else "are"
    problem = f"{caller}: {' and '.join(unknown)} {are} not taken"
    raise TypeError(
        f"{problem}; it takes {', '.join(accepted)}{_meant(unknown, accepted)}"
    ) from None


def names_unknown_keywords(function: Function) -> Function:
    """Return a function that says of an unknown argument which one may have been
    meant.
    """
    shape = signature(function)
    caller = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_keywords(caller, shape, kwargs)
        return function(*args, **kwargs)

    return cast("Function", call)


def _meant(unknown: Sequence[str], accepted: Sequence[str]) -> str:
    """Return the end of the message: the accepted argument that may be meant by each
    unknown one.
    """
    hints = []
    for name in unknown:
        synonyms = [
            synonym for synonym in SYNONYMS.get(name, ()) if synonym in accepted
        ]
        candidates = [*synonyms, *get_close_matches(name, accepted)]
        hints += [f"{candidate}=" for candidate in candidates[:1]]
    if not hints:
        return "."
    return f"; did you mean {', '.join(hints)}?"
