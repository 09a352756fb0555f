"""Layer 0: what a class of metrics takes by name, and what a metric was given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from inspect import Parameter, Signature, signature
from types import MappingProxyType
from typing import Any, Final

from torchmetrics import Metric
from typing_extensions import TypedDict


class TorchMetricsArguments(TypedDict, total=False):
    """What every ``torchmetrics.Metric`` takes by name; a later version may take more."""

    sync_on_compute: bool
    dist_sync_on_step: bool
    process_group: Any
    compute_on_cpu: bool
    compute_with_cache: bool
    distributed_available_fn: Callable[[], bool] | None
    dist_sync_fn: Callable[..., Any] | None


NAMED: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

ARGUMENT: Final = re.compile(r"^ {8}(\w+): (.*\n(?: {12}.*\n)*)", re.MULTILINE)
"""An argument in a docstring of a class, and what is said of it."""

KEYWORDS: Final[Mapping[str, Any]] = dict.fromkeys(TorchMetricsArguments.__annotations__) | {
    "sync_on_compute": True,
    "dist_sync_on_step": False,
    "compute_on_cpu": False,
    "compute_with_cache": True,
}
"""The names of these arguments, and their defaults."""

PRESENTATION = ("name", "validate_args")
"""Arguments that no number depends on."""

ELSEWHERE = {
    "top_k": "k",
    "num_classes": "num_labels",
    "num_items": "num_labels",
    "label_frequency": "buckets",
    "sample_weight": "weighted",
    "groups": "row_groups",
}
"""What other libraries call arguments of this one."""


@cache
def arguments(metric: type[Metric]) -> Mapping[str, Parameter]:
    """Return what a class takes by name: its own arguments, and those of its bases that it hands on."""
    found: dict[str, Parameter] = {}
    withheld, by_name = getattr(metric, "withheld", ()), False
    for base in metric.__mro__[: metric.__mro__.index(Metric)]:
        own = list(signature(vars(base)["__init__"]).parameters.values())[1:] if "__init__" in vars(base) else []
        for one in own:
            if one.kind in NAMED and one.name not in (*found, *withheld):
                found[one.name] = one.replace(kind=Parameter.KEYWORD_ONLY) if by_name else one
        kinds = {one.kind for one in own}
        if own and Parameter.VAR_KEYWORD not in kinds:
            break
        by_name = by_name or (bool(own) and Parameter.VAR_POSITIONAL not in kinds)
    return MappingProxyType(found)


class ClassSignature:
    """What ``inspect.signature`` and ``help`` show of a class of metrics: every argument, in place of ``**kwargs``."""

    def __get__(self, metric: Metric | None, owner: type[Metric]) -> Signature:
        """Return the signature of the class."""
        if metric is not None:
            raise AttributeError("__signature__")  # that of an object is another one
        keywords = {
            name: Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in KEYWORDS.items()
        }
        return Signature(sorted({**arguments(owner), **keywords}.values(), key=lambda one: one.kind))


def described(metric: type[Metric]) -> tuple[str | None, dict[str, str]]:
    """Return the docstring of a class with what its bases say of each argument, and by name what it says itself.

    The section ``Args:`` ends in ``kwargs: See ...``. The arguments of the bases take the place of this line.
    """
    text = vars(metric).get("__doc__")
    own = dict(ARGUMENT.findall(text or ""))
    if text is None or "kwargs" not in own:
        return text, own
    see, known = own.pop("kwargs"), dict[str, str]()
    for base in reversed(metric.__mro__):
        known |= vars(base).get("_described", {})
    more = "".join(f"        {name}: {known[name]}" for name in arguments(metric) if name in known and name not in own)
    keywords = "        kwargs: Those of :class:`torchmetrics.Metric`.\n"
    return text.replace(f"        kwargs: {see}", more + keywords), own


def given(metric: type[Metric], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was passed to a class, by name; positional arguments without a name are numbered.

    Raises:
        TypeError: If an argument is missing, or there are too many.
        ValueError: If the class does not take an argument; the message says what may have been meant.
    """
    if not args and not kwargs:
        return {}  # a copy is made without arguments, and Python itself says what a constructor lacks
    shape, withheld = signature(metric.__init__), {*getattr(metric, "withheld", ())}
    # a config passes every argument of the bases, those that a class withholds as None
    passed = {name for name, value in kwargs.items() if value is not None or name not in withheld}
    unknown = [name for name in kwargs if name in passed and name not in arguments(metric) and name not in KEYWORDS]
    try:
        shape.bind(None, *args, **kwargs)
    except TypeError as error:
        if unknown:
            raise unknown_arguments(metric, unknown) from None
        takes = ", ".join(arguments(metric))
        raise TypeError(f"{metric.__name__}: {error}; it takes {takes}, most of them by name only.") from None
    if not withheld.isdisjoint(unknown):
        raise unknown_arguments(metric, unknown)
    parameters = list(shape.parameters.values())[1:]
    names = [one.name for one in parameters if one.kind == Parameter.POSITIONAL_OR_KEYWORD]
    names += [f"*{number}" for number in range(len(args) - len(names))]
    named = dict(zip(names, args, strict=False)) | dict(kwargs)
    return {name: value for name, value in named.items() if name not in KEYWORDS}


@cache
def settled_arguments(metric: type[Metric]) -> frozenset[str]:
    """Return the attributes that cannot be set once a metric is made: states, keys and names follow from them.

    They are the arguments of this library's classes. What a class derived from one does with its own, it knows.
    """
    of_library = next(base for base in metric.__mro__ if base.__module__.startswith("tailmetrics."))
    withheld = getattr(metric, "withheld", ())
    return frozenset({*arguments(of_library), *withheld, "k", "cutoffs", "ks"} - {"validate_args"})


def number_text(value: float) -> str:
    """Return a number for a key: in six digits where they tell it from all others, in full otherwise."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def unknown_arguments(metric: type[Metric], unknown: Sequence[str]) -> ValueError:
    """Return the error that names what is not taken, what is, and what may have been meant."""
    known = list(arguments(metric))
    are = "is not an argument" if len(unknown) == 1 else "are not arguments"
    problem = f"{metric.__name__}: {' and '.join(unknown)} {are} of this metric"
    if "task" in unknown:
        return ValueError(f"{problem}; the form of target says it, and num_labels= where nothing else tells L.")
    meant = [ELSEWHERE.get(name) or next(iter(get_close_matches(name, known)), None) for name in unknown]
    hint = ", ".join(f"{name}=" for name in meant if name in known)
    takes = f"it takes {', '.join(known)}, and of torchmetrics.Metric {', '.join(KEYWORDS)}"
    return ValueError(f"{problem}; {takes}{f'; did you mean {hint}?' if hint else '.'}")
