"""What a metric plots: values as TorchMetrics does, values by bucket as bars from head to tail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torchmetrics.utilities.plot import plot_single_or_multi_val

from tailmetrics._checks import shape_of

TopKMetric: TypeAlias = Any
"""A metric: the module of metrics imports this one."""


def plot_metric(metric: TopKMetric, val: Tensor | Sequence[Tensor], ax: Any) -> Any:
    """Plot one value of ``compute`` or ``forward``, or a sequence of them over steps; return figure and axes."""
    if ax is not None and not hasattr(ax, "get_xaxis"):
        raise TypeError(f"{type(metric).__name__}.plot: ax is a {shape_of(ax)}; pass axes of matplotlib, or None.")
    if isinstance(val, Tensor):
        named = _named(metric, val)
        return _as_torchmetrics(metric, named, ax) if metric.buckets is None else _bars(metric, val, ax)
    if not isinstance(val, Sequence) or not val:
        raise ValueError(
            f"{type(metric).__name__}.plot: val is {val!r}; pass a value of compute or forward, or a sequence of them."
        )
    return _as_torchmetrics(metric, [_named(metric, step) for step in val], ax)


def plot_members(
    members: Sequence[TopKMetric],
    keys: Sequence[Sequence[str]],
    val: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    ax: Any,
    together: bool,
) -> Any:
    """Plot flat values of several metrics, given the keys of each, in a figure each or ``together``."""
    if together:
        return plot_single_or_multi_val(val, ax=ax)  # type: ignore[arg-type] # wants dict, reads any mapping
    axes = [None] * len(members) if ax is None else list(ax)
    if len(axes) != len(members):
        raise ValueError(f"TopKCollection.plot: ax holds {len(axes)} axes for {len(members)} metrics; pass one each.")
    steps = [val] if isinstance(val, Mapping) else val
    found = []
    for member, names, place in zip(members, keys, axes, strict=True):
        values = [torch.stack([step[key] for key in names]) for step in steps]
        found.append(plot_metric(member, values[0] if isinstance(val, Mapping) else values, place))
    return found


def _named(metric: TopKMetric, val: Tensor) -> Any:
    """Return several values by key, so that a legend can name them."""
    scalars = metric.scalars(val)
    return next(iter(scalars.values())) if len(scalars) == 1 else scalars


def _as_torchmetrics(metric: TopKMetric, val: Any, ax: Any) -> Any:
    low, high = (bound if math.isfinite(bound) else None for bound in metric.bounds)
    return plot_single_or_multi_val(
        val,
        ax=ax,
        higher_is_better=metric.higher_is_better,
        lower_bound=low,
        upper_bound=high,
        name=metric._key(metric.cutoffs[0]) if len(metric.cutoffs) == 1 else metric.stem,
    )


def _bars(metric: TopKMetric, val: Tensor, ax: Any) -> Any:
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
