"""Floor 0: which argument of a call has a type that its annotation does not allow, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from tailmetrics._checks import shape_of, whole_number

LOOKED_AT: Final = 1000
"""Elements of a list whose types are looked at."""
WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    NoneType: "None",
    bytes: "bytes",
}
PYTHONS: Final = ("collections.abc", "builtins")
"""Modules of the collections that Python has."""
OURS: Final = re.compile(r"[A-Za-z_][\w.]*( \([^)]*\))?(, [^:]*)?: ")
"""How messages of this library begin: with who was called."""


def is_ours(error: BaseException) -> bool:
    """Whether an error says who was called and what arrived, as those of this library do."""
    return type(error).__module__.startswith("tailmetrics") or OURS.match(str(error)) is not None


def wrong_type(
    caller: str, function: Callable[..., Any], shape: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> TypeError | None:
    """Return the error that names the first argument whose type its annotation does not allow; None if all fit.

    Args:
        caller: Opens the message.
        function: What is called; its annotations say what fits.
        shape: Its signature.
        args: Arguments by position, with ``self``.
        kwargs: Arguments by name.
    """
    try:
        bound, hints = shape.bind(*args, **kwargs), get_type_hints(function)
    except (TypeError, NameError):
        return None
    for name, value in bound.arguments.items():
        kind, hint = shape.parameters[name].kind, hints.get(name, Any)
        if kind is Parameter.VAR_KEYWORD:
            (inner,) = get_args(hint) or (hint,)
            known = get_type_hints(inner) if is_typeddict(inner) else {}
            wrong = [misfit(caller, one, known.get(one, Any), of) for one, of in value.items()]
        else:
            wrong = [] if kind is Parameter.VAR_POSITIONAL else [misfit(caller, name, hint, value)]
        found = next((error for error in wrong if error is not None), None)
        if found is not None:
            return found
    return None


def check_types(caller: str, function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise if the type of an argument is none that its annotation allows, before anything is done with it.

    Args:
        caller: Opens the message.
        function: What is called; its annotations say what fits.
        given: The arguments to look at.
    """
    hints = get_type_hints(function)
    for name, value in given.items():
        wrong = misfit(caller, name, hints[name], value)
        if wrong is not None:
            raise wrong


def misfit(caller: str, argument: str, hint: Any, value: Any) -> TypeError | None:
    """Return the error of a value whose type an annotation does not allow; None if it fits."""
    if fits(value, hint):
        return None
    return TypeError(f"{caller}: {argument}{_shown(value)}; pass {' or '.join(_needed(hint))}.")


def fits(value: Any, hint: Any) -> bool:
    """Whether an annotation allows a value; what is not known of it does."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if hint is Any:
        return True
    if hint is None or hint is NoneType:
        return value is None
    if hint is bool:
        return isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"
    if hint is int:
        return whole_number(value) is not None
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    kind = origin or hint
    if not isinstance(kind, type):
        return True
    if _is_a_collection(kind):
        return _is_many(value, kind) and _elements_fit(value, get_args(hint))
    return isinstance(value, kind)


def _is_a_collection(kind: type) -> bool:
    """Whether a type is one of Python's own for many values, or stands for several of them."""
    many = issubclass(kind, Iterable) and not issubclass(kind, (str, bytes, Iterator, PurePath))
    return many and kind.__module__ in PYTHONS


def _is_many(value: Any, kind: type) -> bool:
    """Whether a value is what a kind of collection stands for; an array stands for a list."""
    if issubclass(kind, Mapping):
        return isinstance(value, Mapping)
    if isinstance(value, Mapping):
        return kind in (Iterable, Collection)
    if isinstance(value, (str, bytes, type)):
        return False
    try:
        iter(value)
    except (TypeError, NotImplementedError):
        return False
    return not issubclass(kind, Sequence) or hasattr(value, "__getitem__")


def _elements_fit(value: Any, hints: tuple[Any, ...]) -> bool:
    if str(getattr(value, "dtype", "object"))[0] not in "<>|Uo" and hints[:1] == (str,):
        return False  # an array of numbers
    if not hints or not isinstance(value, (list, tuple)):
        return True
    return all(fits(one, hints[0]) for one in value[:LOOKED_AT])


def _shown(value: Any) -> str:
    """Return a value for a message: short ones as they are, of others what they are."""
    text = "" if value is None or hasattr(value, "dtype") or callable(value) else repr(value)
    return f"={text} is {_a(value)}" if 0 < len(text) <= 40 else f" is {_a(value)}"


def _a(value: Any) -> str:
    word = shape_of(value)
    return "None" if value is None else f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _needed(hint: Any) -> list[str]:
    """Return in words what an annotation allows."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return list(dict.fromkeys(word for one in inside for word in _needed(one)))
    if origin is Literal:
        return list(map(repr, inside))
    if hint in WORDS:
        return [WORDS[hint]]
    kind: Any = origin or hint
    if kind is Callable:
        return ["a function"]
    if not isinstance(kind, type):
        return ["a value of another type"]
    if issubclass(kind, Mapping):
        return ["a dict"]
    if kind.__module__ in PYTHONS and inside:
        return [f"a list of {_plural(inside[0])}"]
    return ["a path" if issubclass(kind, PurePath) else f"a {kind.__name__}"]


def _plural(hint: Any) -> str:
    return {str: "texts", int: "whole numbers", float: "numbers"}.get(hint, getattr(hint, "__name__", "values"))
