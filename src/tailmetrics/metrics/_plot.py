"""What a metric plots: values as TorchMetrics does, values by bucket as bars from head to tail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import shape_of


def plot_metric(metric: Any, val: Tensor | Sequence[Tensor], ax: Any) -> Any:
    """Plot one value of ``compute`` or ``forward``, or a sequence of them over steps; return figure and axes."""
    if ax is not None and not hasattr(ax, "get_xaxis"):
        raise TypeError(f"{type(metric).__name__}.plot: ax is a {shape_of(ax)}; pass axes of matplotlib, or None.")
    one = isinstance(val, Tensor)
    if not one and (not isinstance(val, Sequence) or not val):
        raise ValueError(
            f"{type(metric).__name__}.plot: val is {val!r}; pass a value of compute or forward, or a sequence of them."
        )
    steps = [metric.scalars(step) for step in ([val] if one else val)]
    if isinstance(val, Tensor) and metric.buckets is not None:
        return _bars(metric, val, ax)
    keys = list(steps[0])
    named = steps if len(keys) > 1 else [step[keys[0]] for step in steps]  # a legend names several values
    figure, ax = metric._plot(named[0] if one else named, ax)
    ax.set_ylabel(keys[0] if len(keys) == 1 else metric.stem)
    return figure, ax


def _bars(metric: Any, val: Tensor, ax: Any) -> Any:
    """Draw a group of bars per bucket, head first, with a bar per cut-off."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots() if ax is None else (None, ax)
    stems = [metric._key(k) for k in metric.cutoffs]
    names = [key.removeprefix(f"{stems[0]}/") for key in metric.keys()[: val.numel() // len(stems)]]
    places = torch.arange(len(names), dtype=torch.float64)
    width = 0.8 / len(stems)
    for number, (stem, values) in enumerate(zip(stems, val.detach().cpu().view(len(stems), -1), strict=True)):
        shift = (number - (len(stems) - 1) / 2) * width
        heights = values.where(values.isfinite(), math.nan)  # no bar where there is no value, and none without end
        ax.bar((places + shift).numpy(), heights.numpy(), width, label=stem)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_ylabel(stems[0] if len(stems) == 1 else metric.stem)
    if len(stems) > 1:
        ax.legend()
    return figure, ax
