"""Plots of the values of one metric; matplotlib is imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor


def plot_metric(metric: Any, val: Tensor | Sequence[Tensor] | None, ax: Any) -> Any:
    """Plot a value of a metric, or several values over steps.

    A value by bucket becomes bars from head to tail.

    Returns:
        Figure (None when ``ax`` was given) and axes.
    """
    if val is None:
        val = metric.compute()
    if isinstance(val, Tensor) and metric.buckets is not None:
        return _bars(metric, val, ax)

    plotted: Any
    if isinstance(val, Tensor):
        plotted = _plotted(metric, val)
    elif isinstance(val, Sequence) and val:
        plotted = [_plotted(metric, step) for step in val]
    else:
        raise ValueError(
            f"{type(metric).__name__}.plot: val is {val!r}; pass a value of compute "
            "or forward, or a sequence of them."
        )
    figure, ax = metric._plot(plotted, ax)
    keys = metric.keys()
    ax.set_ylabel(keys[0] if len(keys) == 1 else metric.stem)
    return figure, ax


def _plotted(metric: Any, value: Tensor) -> Any:
    """Return a value as TorchMetrics plots it.

    This is a number alone, or several numbers by their keys for a legend.
    """
    scalars = metric.scalars(value)
    if len(scalars) == 1:
        return value.reshape(())
    return scalars


def _bars(metric: Any, val: Tensor, ax: Any) -> Any:
    """Draw a group of bars per bucket, head first, with a bar per cut-off."""
    import matplotlib.pyplot as plt  # imported only for plots

    scalars = metric.scalars(val.detach().cpu())
    figure = None
    if ax is None:
        figure, ax = plt.subplots()
    stems = metric.cutoff_keys()
    names = [
        f"{group}/{bucket}"
        for group, bucket in product(metric.group_keys(), metric.bucket_names)
    ]
    places = torch.arange(len(names), dtype=torch.float64, device="cpu")
    width = 0.8 / len(stems)
    for number, stem in enumerate(stems):
        shift = (number - (len(stems) - 1) / 2) * width
        values = torch.stack([scalars[f"{stem}{name}"] for name in names])
        # no bar for NaN or infinity
        heights = values.where(values.isfinite(), torch.nan)
        ax.bar((places + shift).numpy(), heights.numpy(), width, label=stem)
    labels = [name.removeprefix("/") for name in names]
    ax.set_xticks(range(len(labels)), labels, rotation=45, ha="right")
    ax.set_ylabel(stems[0])
    if len(stems) > 1:
        ax.set_ylabel(metric.stem)
        ax.legend()
    return figure, ax
