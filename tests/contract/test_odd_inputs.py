"""One table of odd inputs that every second class passes by turns: alone, in a collection, and in both forms.

Each input stands beside the same rows written plainly. A class reads both alike, or refuses both; its value lies within
its bounds; and the form for devices (``force_plain``) gives the same bits.
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
from tailmetrics._arguments import arguments
from tailmetrics.metrics import REGISTRY, TopKMetric
from tailmetrics.ranking._device import force_plain

BATCH = data(seed=17, num_rows=12)
SCORES, RELEVANT, IDS = BATCH.scores[:5], BATCH.target[:5], BATCH.ids[:5]
FIRST = BATCH.scores[5:], BATCH.target[5:]
NOTHING = torch.zeros(5, 0)
NO_IDS = torch.zeros(5, 0, dtype=torch.int64)
NONE = torch.full((5, 1), -1)
NOBODY = torch.zeros(5, dtype=torch.bool)
HIGH = SCORES.index_fill(1, torch.tensor([3]), 50.0)
HUGE = 10**12
"""Ids of one label in a million million: nothing as long as the labels may be made."""


def rows_of_columns(matrix: Any) -> Any:
    """The same matrix, column by column in memory."""
    return matrix.t().contiguous().t()


def empty_csr() -> Tensor:
    """Five rows without a stored score."""
    return torch.sparse_csr_tensor(torch.zeros(6).long(), torch.zeros(0).long(), torch.zeros(0), size=SCORES.shape)


def empty_lists() -> tuple[Any, Any]:
    """Columns of pandas whose lists are all empty."""
    pandas = pytest.importorskip("pandas")
    return pandas.Series([[] for _ in range(5)]), pandas.Series([[] for _ in range(5)])


@dataclass(frozen=True)
class Odd:
    """An odd input, and the same rows written plainly; None where nothing else means the same."""

    given: Callable[[], tuple[Any, ...]]
    plain: Callable[[], tuple[Any, ...]] | None
    arguments: dict[str, Any] | None = None
    with_labels: bool = True


EMPTY_LISTS = (torch.zeros(5, 1), NONE), RELEVANT
TABLE: dict[str, Odd] = {
    "targets of width 0": Odd(lambda: (SCORES, NO_IDS), lambda: (SCORES, NONE)),
    "targets of width 0, left out": Odd(
        lambda: (SCORES, NO_IDS), lambda: (SCORES, NONE), {"empty_target_action": "skip"}
    ),
    "no rows, by row": Odd(
        lambda: (SCORES[:0], RELEVANT[:0]), lambda: (SCORES, RELEVANT, NOBODY), {"average": "samples"}
    ),
    "no relevant label": Odd(lambda: (SCORES, RELEVANT & False), lambda: (SCORES, NONE)),
    "no rows": Odd(lambda: (SCORES[:0], RELEVANT[:0]), lambda: (SCORES, RELEVANT, NOBODY)),
    "no rows of ids": Odd(lambda: (IDS[:0], RELEVANT[:0]), lambda: (IDS, RELEVANT, NOBODY)),
    "no row that counts": Odd(lambda: (SCORES, RELEVANT, NOBODY), lambda: (SCORES[:0], RELEVANT[:0])),
    "one row": Odd(lambda: (SCORES[:1], RELEVANT[:1]), lambda: (SCORES[[0]].clone(), RELEVANT[[0]].clone())),
    "candidates of width 0": Odd(lambda: ((NOTHING, NO_IDS), RELEVANT), lambda: EMPTY_LISTS),
    "ids of width 0": Odd(lambda: (NO_IDS, RELEVANT), lambda: (NONE, RELEVANT)),
    "CSR without an entry": Odd(lambda: (empty_csr(), RELEVANT), lambda: EMPTY_LISTS),
    "lists of pandas, all empty": Odd(lambda: (empty_lists(), RELEVANT), lambda: EMPTY_LISTS),
    "column by column": Odd(lambda: (rows_of_columns(SCORES), rows_of_columns(RELEVANT)), lambda: (SCORES, RELEVANT)),
    "gains column by column": Odd(lambda: (SCORES, rows_of_columns(RELEVANT.float())), lambda: (SCORES, RELEVANT)),
    "ids column by column": Odd(lambda: (rows_of_columns(IDS), RELEVANT), lambda: (IDS, RELEVANT)),
    "Fortran order": Odd(
        lambda: (np.asfortranarray(SCORES.numpy()), np.asfortranarray(RELEVANT.numpy())), lambda: (SCORES, RELEVANT)
    ),
    "backwards in memory": Odd(
        lambda: (SCORES.flip(1).numpy()[:, ::-1], RELEVANT.flip(1).numpy()[:, ::-1]), lambda: (SCORES, RELEVANT)
    ),
    "every second column": Odd(
        lambda: (SCORES.repeat_interleave(2, 1)[:, ::2], RELEVANT.repeat_interleave(2, 1)[:, ::2]),
        lambda: (SCORES, RELEVANT),
    ),
    "plus infinity": Odd(lambda: (HIGH.where(HIGH < 50, math.inf), RELEVANT), lambda: (HIGH, RELEVANT)),
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
        lambda: ((torch.arange(6.0).neg().expand(5, 6), IDS[:, [0, 0, 1, 0, 1, 2]]), RELEVANT),
        lambda: ((torch.arange(6.0).neg().repeat(5, 1), IDS[:, [0, 0, 1, 0, 1, 2]]), RELEVANT.float()),
        {"duplicates": "first"},
    ),
    "huge ids": Odd(
        lambda: (torch.tensor([[HUGE, 3, 2 * HUGE], [3, HUGE, -1]]), torch.tensor([[2 * HUGE, -1], [3, HUGE]])),
        lambda: (torch.tensor([[1, 0, 2], [0, 1, -1]]), torch.tensor([[2, -1], [0, 1]])),
        with_labels=False,
    ),
}
READ_AS_NUMBERS = ("CrossEntropy", "CalibrationErrorAtK", "LabelAUC")
"""Classes to which infinity is not what any other large number is."""


def metrics(odd: Odd, turn: int) -> dict[str, TopKMetric]:
    """Every second class by turns, where the input leaves it what it needs: overall, by bucket and in scope global."""
    metrics = {}
    for number, name in enumerate([*REGISTRY][turn % 2 :: 2]):
        by = ((None, "bucket", "global") if odd.with_labels else (None,))[
            (number + turn) % (3 if odd.with_labels else 1)
        ]
        options = {"min_recall": 0.5} if name == "KForRecall" else {"k": [1, 3]} if name.endswith("AtK") else {}
        if name in ("TieRateAtK", "PersonalizationAtK"):
            by = None
        further_arguments = odd.arguments or {}
        if not further_arguments.keys() <= arguments(REGISTRY[name]).keys() or (
            "average" in further_arguments and name.startswith("Label")
        ):
            continue
        if not odd.with_labels:
            if registered(name).needs or name in ("FallOutAtK", "PersonalizationAtK", "LabelAUC"):
                continue
            further_arguments = {**further_arguments, "num_labels": None}
            options |= {"miss_value": 9} if name == "KForRecall" else {}
        metrics[name] = Case(name, options, by).metric(**further_arguments)
    return metrics


def outcome(metric: TopKMetric, *batches: tuple[Any, ...]) -> Tensor | str:
    """The value after these batches alone, or what the last of them was refused with."""
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
    """Whether two outcomes are the same bits, or both a refusal."""
    if isinstance(value, str) or isinstance(other_value, str):
        return isinstance(value, str) and isinstance(other_value, str)
    return torch.equal(value.nan_to_num(-7.0), other_value.nan_to_num(-7.0))


FORMS: list[Callable[[], AbstractContextManager[None]]] = [nullcontext, force_plain]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.slow
def test_classes_read_an_odd_input_as_the_plain_one(name: str) -> None:
    """Alone and in a collection in both forms, behind an ordinary batch, within the bounds of the class."""
    odd = TABLE[name]
    before = [FIRST] if odd.with_labels else []
    classes = metrics(odd, [*TABLE].index(name))
    accepted: dict[str, tuple[TopKMetric, Tensor]] = {}
    for key, metric in classes.items():
        value = outcome(metric, *before, odd.given())
        if isinstance(value, str):
            with force_plain():
                assert isinstance(outcome(metric, *before, odd.given()), str), (key, value)
        if odd.plain is not None and not (name == "plus infinity" and key in READ_AS_NUMBERS):
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
            for batch in (*before, odd.given()):
                collection.update(*batch)
        for key, metric in collection.members().items():
            assert same(metric.compute(), accepted[key][1]), key
