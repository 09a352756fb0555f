"""Floor 0: what is said of a call with arguments that a function does not take, in place of Python's own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Final, ParamSpec, TypeVar

from tailmetrics._wrong_types import is_ours, wrong_type

P = ParamSpec("P")
Value = TypeVar("Value")

TARGETS: Final = "update(Ranking.from_scores(preds, {}=...)), which takes a target by its form"
MEANT: Final[Mapping[str, str]] = {
    "sample_weight": "row_weights=, with metrics made with weighted=True",
    "sample_weights": "row_weights=, with metrics made with weighted=True",
    "weight": "row_weights=, with metrics made with weighted=True",
    "weights": "row_weights=, with metrics made with weighted=True",
    "groups": "row_groups=, with metrics made with row_groups=[names]",
    "group_ids": "indexes=",
    "query_ids": "indexes=",
    "qid": "indexes=",
    "mask": "row_mask=",
    "input": "preds=",
    "inputs": "preds=",
    "output": "preds=",
    "outputs": "preds=",
    "logits": "preds=",
    "scores": "preds=",
    "predictions": "preds=",
    "y_pred": "preds=",
    "y_score": "preds=",
    "y_true": "target=",
    "label": "target=",
    "labels": "target=",
    "targets": "target=",
    "target_ids": TARGETS.format("target_ids"),
    "target_mask": TARGETS.format("target_mask"),
    "target_gains": TARGETS.format("target_gains"),
    "k": "k= where the metric is made",
    "top_k": "k= where the metric is made",
}
"""What arguments of other libraries, or of another call of this one, are here."""


def in_words(function: Callable[P, Value]) -> Callable[P, Value]:
    """Let a call that Python itself refuses be refused in the words of :func:`wrong_call`.

    So is one that fails inside because of an argument whose type its annotation does not allow (:func:`wrong_type`).
    """
    shape = signature(function)
    is_method = next(iter(shape.parameters), "") in ("self", "cls")

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> Value:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if is_ours(error):
                raise
            owner = _owner(function, args) if is_method else ""
            problem = wrong_call(owner, function.__name__, shape, args, kwargs)
            if problem is None and not _is_of_a_base(called, args):
                problem = wrong_type(owner or function.__name__, function, shape, args, kwargs)
            if problem is None:
                raise
        raise problem

    return called


def _is_of_a_base(called: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Whether a constructor runs for a class derived from its own, which may hand it other arguments than a user."""
    return called.__name__ == "__init__" and type(args[0]).__init__ is not called


def _owner(function: Callable[..., Any], args: Sequence[Any]) -> str:
    if not args:
        return function.__qualname__.partition(".")[0]
    return args[0].__name__ if isinstance(args[0], type) else type(args[0]).__name__


def wrong_call(
    owner: str, name: str, shape: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> TypeError | None:
    """Return the error that says what a call lacks, or has too much of; None where the arguments can be bound.

    Args:
        owner: The class whose method is called; "" for a function.
        name: The name of the function.
        shape: The signature, with ``self``.
        args: Arguments by position, with ``self``.
        kwargs: Arguments by name.
    """
    try:
        shape.bind(*args, **kwargs)
    except TypeError:
        pass
    else:
        return None
    parameters = [one for one in shape.parameters.values() if one.name not in ("self", "cls")]
    args = args[len(shape.parameters) - len(parameters) :]
    caller, call = (owner, owner if name == "__init__" else name) if owner else (name, name)
    by_position = [
        one.name for one in parameters if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.POSITIONAL_ONLY)
    ]
    named = [one.name for one in parameters if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]
    unknown = [one for one in kwargs if one not in named]
    if unknown:
        takes = f"{call} takes {', '.join(named) or 'no argument'}"
        return TypeError(
            f"{caller}: {' and '.join(unknown)} {_is(unknown)} taken here; {takes}{_hint(unknown, named)}."
        )
    if len(args) > len(by_position):
        more = [one for one in named if one not in by_position]
        rest = f", the others by name: {', '.join(f'{one}=' for one in more)}" if more else ""
        return TypeError(
            f"{caller}: {len(args)} arguments stand side by side; {call} takes at most {len(by_position)}, "
            f"{call}({', '.join(by_position)}){rest}."
        )
    twice = [one for one in by_position[: len(args)] if one in kwargs]
    if twice:
        return TypeError(
            f"{caller}: {' and '.join(twice)} {_is(twice, 'given')} by position and by name; pass it once."
        )
    filled = {*by_position[: len(args)], *kwargs}
    missing = [one.name for one in parameters if one.default is Parameter.empty and one.name not in filled]
    missing = [one for one in missing if one in named]
    return TypeError(
        f"{caller}: {' and '.join(missing)} {_is(missing, 'missing')}; pass {call}({', '.join(by_position)})."
    )


def _is(names: Sequence[str], what: str = "not") -> str:
    return f"{'is' if len(names) == 1 else 'are'} {what}"


def _hint(unknown: Sequence[str], named: Sequence[str]) -> str:
    meant = [f"{one}=" if one in named else MEANT.get(name) for name in unknown for one in [_close(name, named)]]
    said = list(dict.fromkeys(one for one in meant if one))
    return f"; pass {' and '.join(said)} instead" if said else ""


def _close(name: str, named: Sequence[str]) -> str:
    return "" if name in MEANT else next(iter(get_close_matches(name, named)), "")
