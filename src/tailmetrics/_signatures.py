"""Layer 0: signatures and help of metric classes, and errors for unknown arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, wraps
from inspect import Parameter, Signature, cleandoc, signature
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast, get_args, get_type_hints

from torchmetrics import Metric
from typing_extensions import TypedDict

from tailmetrics._parameters import SHARED_PARAMETERS

Function = TypeVar("Function", bound=Callable[..., Any])


class TorchMetricsArguments(TypedDict, total=False):
    """Keyword arguments of every ``torchmetrics.Metric``; later versions take more."""

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
"""The arguments by name of every ``torchmetrics.Metric``, with their defaults."""

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
"""Names of arguments in other libraries, and here: of a class, of ``update``."""


def keyword_defaults(constructor: Callable[..., None]) -> dict[str, Any]:
    """Return the keys, with defaults, of the typed dict of ``**kwargs: Unpack[...]``.

    The order is that of signatures. Those of TorchMetrics are left out. Keys that are
    no shared parameter have the default None, and stand first.

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
    """Return the arguments a class takes by name: its own, and those it passes on.

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
    """The signature of a class of metrics: every argument in place of ``**kwargs``."""

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
    """Return the docstring of a class with a line for each shared parameter.

    These lines take the place of the line ``kwargs: ...``.
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
    """Return the arguments that were passed to a class, by name.

    Positional arguments without a name get a number.

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
    """Whether a constructor takes keywords of any names, as a user's class may do."""
    kinds = {parameter.kind for parameter in _constructor(metric).parameters.values()}
    has_typed_keywords = get_args(get_type_hints(metric.__init__).get("kwargs")) != ()
    return Parameter.VAR_KEYWORD in kinds and not has_typed_keywords


@cache
def _constructor(metric: type[Metric]) -> Signature:
    """Return the signature of a class, which takes longer to find than to use."""
    return signature(metric.__init__)


@cache
def settled_arguments(metric: type[Metric]) -> frozenset[str]:
    """Return the names of attributes that cannot be set after construction.

    States, keys and names of the metric depend on them.

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


def unknown_arguments(metric: type[Metric], unknown: Sequence[str]) -> ValueError:
    """Return the error for unknown arguments.

    It lists the known ones, and those that may have been meant.
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
    """Raise TypeError if a call passes an argument that a method does not take.

    The message says what may have been meant.
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
    """Return a function whose error for an unknown argument suggests the right one."""
    shape = signature(function)
    caller = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_keywords(caller, shape, kwargs)
        return function(*args, **kwargs)

    return cast("Function", call)


def _meant(unknown: Sequence[str], accepted: Sequence[str]) -> str:
    """Return the end of the message: the accepted arguments that may be meant."""
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
