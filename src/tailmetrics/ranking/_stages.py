"""Warn if one metric or collection gets the batches of two stages.

Such stages are training and validation.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

from tailmetrics.ranking._warnings import warn_outside

Stage: TypeAlias = tuple[bool, bool, bool]
"""Whether gradients are recorded, inference mode is on, and the metric is training.

A metric has the mode of the model that it is part of. Training and validation differ in
at least one of the three.
"""


def enter_stage(owner: Any, stage: Stage) -> None:
    """Note the stage of a batch; warn once if the owner holds batches of another.

    Args:
        owner: The metric or collection; ``_stage`` is the stage that was noted,
            ``_warns_of_stages`` whether to warn.
        stage: The stage of the batch. Call this only where it differs from ``_stage``.
    """
    earlier = owner._stage
    vars(owner)["_stage"] = stage
    if (
        earlier is None
        or not owner._warns_of_stages
        or _are_one_evaluation(earlier, stage)
    ):
        return
    vars(owner)["_warns_of_stages"] = False
    if isinstance(owner, torch.nn.ModuleDict):
        remedy = "val_metrics = train_metrics.clone(prefix='val/')"
    else:
        remedy = (
            "val_metric = train_metric.clone(), or of a TopKCollection "
            "clone(prefix='val/')"
        )
    warn_outside(
        f"{type(owner).__name__}: it holds batches {_description(earlier)}, and gets a "
        f"batch {_description(stage)} without a reset in between, as if training and "
        "validation shared one object: its value covers both, and the reset after one "
        f"of them drops the other. Give each stage an object of its own: {remedy}."
    )


def _are_one_evaluation(stage: Stage, other_stage: Stage) -> bool:
    """Return whether both stages record no gradients and have one mode of the model."""
    records_gradients, _, is_training = stage
    other_records_gradients, _, other_is_training = other_stage
    return (
        not records_gradients
        and not other_records_gradients
        and is_training == other_is_training
    )


def _description(stage: Stage) -> str:
    records_gradients, is_inference, is_training = stage
    if records_gradients:
        gradients = "with gradients"
    elif is_inference:
        gradients = "in inference mode"
    else:
        gradients = "without gradients"
    mode = "train()" if is_training else "eval()"
    return f"{gradients} after {mode}"
