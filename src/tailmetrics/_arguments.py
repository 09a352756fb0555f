"""Floor 0: what classes of metrics take by name, and what those of other packages were given."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any
from zlib import crc32

import numpy as np
from torch import Tensor
from torchmetrics import Metric

KEYWORDS = (
    "sync_on_compute",
    "dist_sync_on_step",
    "process_group",
    "compute_on_cpu",
    "compute_with_cache",
    "distributed_available_fn",
    "dist_sync_fn",
)
"""What every ``torchmetrics.Metric`` takes; a later version may take more."""

ELSEWHERE = {"num_classes": "num_labels", "num_items": "num_labels", "label_frequency": "buckets"}
"""What other libraries call arguments of this one."""


def arguments(metric: type[Metric]) -> dict[str, Parameter]:
    """Return what a class takes by name: its own arguments, and those of its bases that it hands on."""
    found: dict[str, Parameter] = {}
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    for base in metric.__mro__[: metric.__mro__.index(Metric)]:
        own = list(signature(vars(base)["__init__"]).parameters.values())[1:] if "__init__" in vars(base) else []
        new = (one for one in own if one.kind in named and one.name not in (*found, *getattr(metric, "withheld", ())))
        found |= {one.name: one for one in new}
        if own and all(one.kind != Parameter.VAR_KEYWORD for one in own):
            break
    return found


def is_outside(metric: type[Metric]) -> bool:
    """Whether a class is of another package or script."""
    return metric.__module__.partition(".")[0] != __name__.partition(".")[0]


def own_arguments(metric: type[Metric], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return name and arguments of a class outside this library, in a form that is the same in every process."""
    if not is_outside(metric):
        return ""
    inside = next(base for base in metric.__mro__ if issubclass(base, Metric) and not is_outside(base))
    shared = arguments(inside)
    parameters = list(signature(metric.__init__).parameters.values())[1:]
    positional = [one.name for one in parameters if one.kind == Parameter.POSITIONAL_OR_KEYWORD]
    given = {name: one.default for name, one in arguments(metric).items()} | {"*": args[len(positional) :]}
    given |= dict(zip(positional, args, strict=False)) | kwargs
    own = {name: value for name, value in given.items() if name not in (*shared, *KEYWORDS)}
    return " ".join([metric.__qualname__, *(f"{name}={_text(value)}" for name, value in sorted(own.items()))])


def _text(value: Any) -> str:
    """Return what tells values apart; of objects that nothing is known of, their type."""
    if isinstance(value, (str, int, float, type(None))):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(_text, value))})"
    if isinstance(value, (Tensor, np.ndarray)):
        array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        return f"{array.dtype}{array.shape}{crc32(array.tobytes()):08x}"
    return type(value).__qualname__


def could_call(metric: type[Metric], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether Python could call the class at all."""
    try:
        signature(metric.__init__).bind(None, *args, **kwargs)
    except TypeError:
        return False
    return True


def unknown_arguments(metric: type[Metric], unknown: Sequence[str]) -> ValueError:
    """Return the error that names what is not taken, what is, and what may have been meant."""
    known = [name for name in arguments(metric) if name != "convention"]
    are = "is not an argument" if len(unknown) == 1 else "are not arguments"
    problem = f"{metric.__name__}: {' and '.join(unknown)} {are} of this metric"
    if "top_k" in unknown and "k" in known:
        return ValueError(f"{problem}; pass k= for the cut-off.")
    meant = [ELSEWHERE.get(name) or next(iter(get_close_matches(name, known)), None) for name in unknown]
    hint = ", ".join(f"{name}=" for name in meant if name in known)
    takes = f"it takes {', '.join(known)}, and of torchmetrics.Metric {', '.join(KEYWORDS)}"
    return ValueError(f"{problem}; {takes}{f'; did you mean {hint}?' if hint else '.'}")
