"""Odd inputs have the values of the same rows written plainly, or both are refused.

Every second class is tested by turns, alone, in a collection, and in the form for
devices (``force_plain``), which gives the same bits. Values lie within the bounds of
the class.
"""

import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import Case, data, registered
from tailmetrics import TopKCollection
from tailmetrics._signatures import arguments
from tailmetrics.metrics import REGISTRY, TopKMetric
from tailmetrics.ranking._device import force_plain

BATCH = data(seed=17, num_rows=12)
SCORES, RELEVANT, IDS = BATCH.scores[:5], BATCH.target[:5], BATCH.ids[:5]
FIRST_BATCH = BATCH.scores[5:], BATCH.target[5:]
NO_SCORES = torch.zeros(5, 0)
NO_IDS = torch.zeros(5, 0, dtype=torch.int64)
PADDING = torch.full((5, 1), -1)
NO_ROWS = torch.zeros(5, dtype=torch.bool)
HIGH = SCORES.index_fill(1, torch.tensor([3]), 50.0)
HUGE = 10**12
"""Label ids up to 10^12, for which no vector over all labels may be allocated."""


def rows_of_columns(matrix: Any) -> Any:
    """Return the same matrix, column by column in memory."""
    return matrix.t().contiguous().t()


def empty_csr() -> Tensor:
    """Return five rows without a stored score."""
    return torch.sparse_csr_tensor(
        torch.zeros(6).long(), torch.zeros(0).long(), torch.zeros(0), size=SCORES.shape
    )


def empty_lists() -> tuple[Any, Any]:
    """Return columns of pandas whose lists are all empty."""
    pandas = pytest.importorskip("pandas")
    return pandas.Series([[] for _ in range(5)]), pandas.Series([[] for _ in range(5)])


@dataclass(frozen=True)
class Odd:
    """An odd input, and the same rows written plainly; None if there is no other
    form.
    """

    batch: Callable[[], tuple[Any, ...]]
    plain: Callable[[], tuple[Any, ...]] | None
    arguments: dict[str, Any] | None = None
    with_labels: bool = True


EMPTY_LISTS = (torch.zeros(5, 1), PADDING), RELEVANT
TABLE: dict[str, Odd] = {
    "targets of width 0": Odd(lambda: (SCORES, NO_IDS), lambda: (SCORES, PADDING)),
    "targets of width 0, left out": Odd(
        lambda: (SCORES, NO_IDS),
        lambda: (SCORES, PADDING),
        {"empty_target_action": "skip"},
    ),
    "no rows, by row": Odd(
        lambda: (SCORES[:0], RELEVANT[:0]),
        lambda: (SCORES, RELEVANT, NO_ROWS),
        {"average": "samples"},
    ),
    "no relevant label": Odd(
        lambda: (SCORES, RELEVANT & False), lambda: (SCORES, PADDING)
    ),
    "no rows": Odd(
        lambda: (SCORES[:0], RELEVANT[:0]), lambda: (SCORES, RELEVANT, NO_ROWS)
    ),
    "no rows of ids": Odd(
        lambda: (IDS[:0], RELEVANT[:0]), lambda: (IDS, RELEVANT, NO_ROWS)
    ),
    "no row that counts": Odd(
        lambda: (SCORES, RELEVANT, NO_ROWS), lambda: (SCORES[:0], RELEVANT[:0])
    ),
    "one row": Odd(
        lambda: (SCORES[:1], RELEVANT[:1]),
        lambda: (SCORES[[0]].clone(), RELEVANT[[0]].clone()),
    ),
    "candidates of width 0": Odd(
        lambda: ((NO_SCORES, NO_IDS), RELEVANT), lambda: EMPTY_LISTS
    ),
    "ids of width 0": Odd(lambda: (NO_IDS, RELEVANT), lambda: (PADDING, RELEVANT)),
    "CSR without an entry": Odd(lambda: (empty_csr(), RELEVANT), lambda: EMPTY_LISTS),
    "lists of pandas, all empty": Odd(
        lambda: (empty_lists(), RELEVANT), lambda: EMPTY_LISTS
    ),
    "column by column": Odd(
        lambda: (rows_of_columns(SCORES), rows_of_columns(RELEVANT)),
        lambda: (SCORES, RELEVANT),
    ),
    "gains column by column": Odd(
        lambda: (SCORES, rows_of_columns(RELEVANT.float())), lambda: (SCORES, RELEVANT)
    ),
    "ids column by column": Odd(
        lambda: (rows_of_columns(IDS), RELEVANT), lambda: (IDS, RELEVANT)
    ),
    "Fortran order": Odd(
        lambda: (
            np.asfortranarray(SCORES.numpy()),
            np.asfortranarray(RELEVANT.numpy()),
        ),
        lambda: (SCORES, RELEVANT),
    ),
    "backwards in memory": Odd(
        lambda: (SCORES.flip(1).numpy()[:, ::-1], RELEVANT.flip(1).numpy()[:, ::-1]),
        lambda: (SCORES, RELEVANT),
    ),
    "every second column": Odd(
        lambda: (
            SCORES.repeat_interleave(2, 1)[:, ::2],
            RELEVANT.repeat_interleave(2, 1)[:, ::2],
        ),
        lambda: (SCORES, RELEVANT),
    ),
    "plus infinity": Odd(
        lambda: (HIGH.where(HIGH < 50, math.inf), RELEVANT), lambda: (HIGH, RELEVANT)
    ),
    "minus infinity alone": Odd(
        lambda: (torch.full_like(SCORES, -math.inf), RELEVANT),
        lambda: (torch.full_like(SCORES, -math.inf).clone(), RELEVANT.float()),
    ),
    "too large for half": Odd(lambda: ((HIGH * 2000).half(), RELEVANT), None),
    "repeats": Odd(
        lambda: (IDS[:, [0, 0, 1, 0, 1, 2]], RELEVANT),
        lambda: (IDS[:, [0, 0, 1, 0, 1, 2]].int(), RELEVANT.float()),
        {"duplicates": "first"},
    ),
    "candidates that repeat": Odd(
        lambda: (
            (torch.arange(6.0).neg().expand(5, 6), IDS[:, [0, 0, 1, 0, 1, 2]]),
            RELEVANT,
        ),
        lambda: (
            (torch.arange(6.0).neg().repeat(5, 1), IDS[:, [0, 0, 1, 0, 1, 2]]),
            RELEVANT.float(),
        ),
        {"duplicates": "first"},
    ),
    "huge ids": Odd(
        lambda: (
            torch.tensor([[HUGE, 3, 2 * HUGE], [3, HUGE, -1]]),
            torch.tensor([[2 * HUGE, -1], [3, HUGE]]),
        ),
        lambda: (
            torch.tensor([[1, 0, 2], [0, 1, -1]]),
            torch.tensor([[2, -1], [0, 1]]),
        ),
        with_labels=False,
    ),
}
INFINITY_MATTERS = ("CrossEntropy", "CalibrationErrorAtK", "LabelAUC")
"""Classes for which infinity differs from a large number."""


def metrics(odd: Odd, turn: int) -> dict[str, TopKMetric]:
    """Return every second class by turns, overall, by bucket and in scope global, if
    the input fits it.
    """
    metrics = {}
    for number, name in enumerate([*REGISTRY][turn % 2 :: 2]):
        by = ((None, "bucket", "global") if odd.with_labels else (None,))[
            (number + turn) % (3 if odd.with_labels else 1)
        ]
        options = (
            {"min_recall": 0.5}
            if name == "KForRecall"
            else {"k": [1, 3]}
            if name.endswith("AtK")
            else {}
        )
        if name in ("TieRateAtK", "PersonalizationAtK"):
            by = None
        further_arguments = odd.arguments or {}
        if not further_arguments.keys() <= arguments(REGISTRY[name]).keys() or (
            "average" in further_arguments and name.startswith("Label")
        ):
            continue
        if not odd.with_labels:
            if registered(name).needs or name in (
                "FallOutAtK",
                "PersonalizationAtK",
                "LabelAUC",
            ):
                continue
            further_arguments = {**further_arguments, "num_labels": None}
            options |= {"miss_value": 9} if name == "KForRecall" else {}
        metrics[name] = Case(name, options, by).metric(**further_arguments)
    return metrics


def outcome(metric: TopKMetric, *batches: tuple[Any, ...]) -> Tensor | str:
    """Return the value after these batches alone, or the text of the error of the last
    one.
    """
    metric.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for batch in batches:
                metric.update(*batch)
        except (TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return metric.compute()


def same(value: Any, other_value: Any) -> bool:
    """Return whether two outcomes have the same bits, or are both errors."""
    if isinstance(value, str) or isinstance(other_value, str):
        return isinstance(value, str) and isinstance(other_value, str)
    return torch.equal(value.nan_to_num(-7.0), other_value.nan_to_num(-7.0))


FORMS: list[Callable[[], AbstractContextManager[None]]] = [nullcontext, force_plain]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.slow
def test_classes_read_an_odd_input_as_the_plain_one(name: str) -> None:
    """A class gives an odd input the value of the plain one, or refuses both, alone and
    in a collection, in both forms, after an ordinary batch. Values lie within the
    bounds of the class.
    """
    odd = TABLE[name]
    before = [FIRST_BATCH] if odd.with_labels else []
    classes = metrics(odd, [*TABLE].index(name))
    accepted: dict[str, tuple[TopKMetric, Tensor]] = {}
    for key, metric in classes.items():
        value = outcome(metric, *before, odd.batch())
        if isinstance(value, str):
            with force_plain():
                assert isinstance(outcome(metric, *before, odd.batch()), str), (
                    key,
                    value,
                )
        if odd.plain is not None and not (
            name == "plus infinity" and key in INFINITY_MATTERS
        ):
            plain = outcome(metric, *before, odd.plain())
            assert same(value, plain), (key, value, plain)
        if isinstance(value, Tensor):
            low, high = metric.bounds
            numbers = value[~value.isnan()]
            assert bool(((numbers >= low) & (numbers <= high)).all()), (key, value)
            accepted[key] = metric, value
    assert len(accepted) > 4
    collection = TopKCollection({key: metric for key, (metric, _) in accepted.items()})
    for form in FORMS:
        collection.reset()
        with form():
            for batch in (*before, odd.batch()):
                collection.update(*batch)
        for key, metric in collection.members().items():
            assert same(metric.compute(), accepted[key][1]), key
