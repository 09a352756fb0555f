"""Plots of the values of one metric; matplotlib is imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def plot_metric(metric: Any, val: Tensor | Sequence[Tensor] | None, ax: Any) -> Any:
    """Plot a value of a metric, bars from head to tail if it has buckets, or several values over steps.

    Returns:
        Figure (None when ``ax`` was given) and axes.
    """
    if val is None:
        val = metric.compute()
    if isinstance(val, Tensor):
        steps = [metric.scalars(val)]
        if metric.buckets is not None:
            return _bars(metric, val, ax)
    elif isinstance(val, Sequence) and val:
        steps = [metric.scalars(step) for step in val]
    else:
        raise ValueError(
            f"{type(metric).__name__}.plot: val is {val!r}; pass a value of compute or forward, or a sequence of them."
        )

    keys = list(steps[0])
    plotted: list[Any] = list(steps)  # a legend names several values
    label = metric.stem
    if len(keys) == 1:
        plotted = [step[keys[0]] for step in steps]
        label = keys[0]
    figure, ax = metric._plot(plotted[0] if isinstance(val, Tensor) else plotted, ax)
    ax.set_ylabel(label)
    return figure, ax


def _bars(metric: Any, val: Tensor, ax: Any) -> Any:
    """Draw a group of bars per bucket, head first, with a bar per cut-off."""
    import matplotlib.pyplot as plt  # imported only for plots

    figure, ax = plt.subplots() if ax is None else (None, ax)
    stems = metric.cutoff_keys()
    names = [key.removeprefix(f"{stems[0]}/") for key in metric.keys()[: val.numel() // len(stems)]]
    places = torch.arange(len(names), dtype=torch.float64, device="cpu")
    width = 0.8 / len(stems)
    for number, (stem, values) in enumerate(zip(stems, val.detach().cpu().view(len(stems), -1), strict=True)):
        shift = (number - (len(stems) - 1) / 2) * width
        heights = values.where(values.isfinite(), torch.nan)  # no bar for NaN or infinity
        ax.bar((places + shift).numpy(), heights.numpy(), width, label=stem)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_ylabel(stems[0] if len(stems) == 1 else metric.stem)
    if len(stems) > 1:
        ax.legend()
    return figure, ax
