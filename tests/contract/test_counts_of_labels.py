"""What averages over labels keep: the counts that they read, once for all members of a collection."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cases import NUM_LABELS, data
from exactness.bits import bits_of
from tailmetrics import F1AtK, PrecisionAtK, PrecisionAtThreshold, RecallAtK, RecallAtThreshold, TopKCollection
from tailmetrics.metrics import TopKMetric

MACRO: dict[str, Any] = {"average": "macro", "num_labels": NUM_LABELS}
THREE = (("hits", "predicted", "support"), ("hits", "support"), ("hits", "predicted"))


def kept(metric: TopKMetric) -> tuple[str, ...]:
    """The counts per label among the states, by the first word of their names."""
    return tuple(
        word for word in THREE[0] if any(f"_{word}_" in name for name, one in metric._tensors().items() if one.ndim > 1)
    )


@pytest.mark.parametrize(
    ("metric", "counts"),
    [
        (PrecisionAtK(k=3, **MACRO), THREE[0]),  # the labels in the targets are those with support
        (PrecisionAtK(k=3, labels="all", **MACRO), THREE[2]),
        (PrecisionAtK(k=3, labels="union", **MACRO), THREE[0]),
        (RecallAtK(k=3, **MACRO), THREE[1]),
        (RecallAtK(k=3, labels="union", **MACRO), THREE[0]),
        (RecallAtK(k=3, average="weighted", num_labels=NUM_LABELS), THREE[1]),
        (RecallAtK(k=3, average="none", num_labels=NUM_LABELS), THREE[0]),
        (F1AtK(k=3, labels="all", **MACRO), THREE[0]),
        (RecallAtThreshold(0.5, **MACRO), THREE[1]),
        (PrecisionAtThreshold(0.5, labels="all", **MACRO), THREE[2]),
    ],
)
def test_averages_keep_the_counts_that_they_read(metric: TopKMetric, counts: tuple[str, ...]) -> None:
    """``average="none"`` keeps all, which ``per_label()`` names."""
    assert kept(metric) == counts


def members() -> list[TopKMetric]:
    return [RecallAtK(k=3, **MACRO), PrecisionAtK(k=3, **MACRO), F1AtK(k=3, **MACRO), RecallAtK(k=3, num_labels=None)]


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    rows = data(seed=4)
    return rows.scores, rows.target


def test_a_member_that_reads_less_shares_the_states_of_one_that_reads_more() -> None:
    """Whichever comes first; values are those of the members alone."""
    shared = TopKCollection(members())
    shared.update(*batch())
    held = {id(state): state for metric in shared.members().values() for state in metric._tensors().values()}
    assert sum(state.numel() == NUM_LABELS for state in held.values()) == 3
    values = shared.compute()
    for alone in members():
        alone.update(*batch())
        for key, value in alone.scalars().items():
            assert bits_of(values[key]) == bits_of(value)
