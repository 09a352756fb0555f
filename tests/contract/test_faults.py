"""A batch with a fault, in every form of preds and target, raises a clear error and
changes no input or state.

Batches without a fault have the values of plain loops: exactness/test_forms.py,
contract/test_odd_inputs.py.
"""

import pickle
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import Tensor

import tailmetrics as tm
from cases import CASES, NUM_LABELS, fed
from contract.test_all_or_nothing import states as states_of_members
from exactness.bits import states

ROWS = 5
JUNK: list[Any] = [
    None,
    "text",
    object(),
    3,
    1.5,
    True,
    [],
    [[0.1, 0.2]],
    [[1], [2]],
    (),
    {},
    b"x",
    {1},
    range(3),
]
KINDS = [
    *{
        (case.name, case.by, case.arguments.get("average")): case for case in CASES
    }.values()
]


def with_value(values: Tensor, value: float) -> Tensor:
    """Return the values with another one in the second row, in the first place, which
    every metric reads.
    """
    values = values.clone()
    values[1, 0] = value
    return values


def with_column_twice(values: Tensor) -> Tensor:
    """Return the values with the first column in place of the second."""
    return values[:, [0, 0, *range(2, values.shape[1])]]


def valid_batch(width: int) -> SimpleNamespace:
    """Return a batch in its forms: scores, ids, listed scores, gains, relevant ids,
    classes, parts of a CSR matrix.
    """
    generator = torch.Generator().manual_seed(width)
    scores = torch.randn(ROWS, width, generator=generator)
    listed = scores.topk(width // 8)
    gains = (torch.rand(ROWS, width, generator=generator) < 0.2).float()
    targets = torch.rand(ROWS, width, generator=generator).argsort(dim=1)[:, :4]
    crow = torch.arange(ROWS + 1) * listed.indices.shape[1]
    parts = crow, listed.indices.sort(dim=1).values.flatten(), listed.values.flatten()
    return SimpleNamespace(
        width=width, scores=scores, ids=listed.indices, of_ids=listed.values, gains=gains, asked=targets,
        classes=targets[:, 0], csr=lambda crow=parts[0], columns=parts[1], values=parts[2]: torch.sparse_csr_tensor(
            crow, columns, values, size=(ROWS, width), check_invariants=False
        ), crow=parts[0], columns=parts[1],
    )  # fmt: skip


def broken_csr(b: Any) -> dict[str, Any]:
    """Return invalid CSR matrices by fault."""
    second = torch.tensor([1])
    return {
        "a column twice": b.csr(columns=b.columns.index_copy(0, second, b.columns[:1])),
        "a column outside": b.csr(columns=b.columns.index_fill(0, second, b.width)),
        "a column below 0": b.csr(columns=b.columns.index_fill(0, second, -1)),
        "pointers that fall": b.csr(
            crow=b.crow.index_fill(0, second, int(b.crow[2]) + 1)
        ),
        "pointers that start late": b.csr(crow=b.crow.index_fill(0, second - 1, 1)),
        "pointers that end early": b.csr(crow=b.crow.clamp(max=int(b.crow[-1]) - 1)),
    }


def faults_of_preds(b: Any) -> dict[str, Any]:
    """Return invalid preds by fault."""
    nan, dense = float("nan"), b.scores
    pairs = {
        f"pair, {fault}": (b.of_ids, ids)
        for fault, ids in {
            "an id twice": with_column_twice(b.ids), "below -1": with_value(b.ids, -2), "outside": with_value(b.ids, b.width), "ids of floats": b.ids.float(),
            "widths": b.ids[:, 1:], "rows": b.ids[1:], "three axes": b.ids[None]
        }.items()
    }  # fmt: skip
    return pairs | {f"CSR, {fault}": matrix for fault, matrix in broken_csr(b).items()} | {
        "NaN": with_value(dense, nan), "NaN in float16": with_value(dense, nan).half(), "pair, NaN": (with_value(b.of_ids, nan), b.ids),
        "CSR, NaN": b.csr(values=with_value(b.of_ids, nan).flatten()), "CSR of whole numbers": b.csr(values=b.columns),
        "scipy, NaN": scipy.sparse.csr_matrix(with_value(dense, nan).numpy()),
        "an id twice": with_column_twice(b.ids), "an id below -1": with_value(b.ids, -2), "an id outside": with_value(b.ids, b.width),
        "a huge id": with_value(b.ids, 10**15), "an id behind -1": with_value(b.ids, -1), "one axis": dense[0], "three axes": dense[..., None],
        "no axis": dense[0, 0], "a row too many": torch.cat([dense, dense[:1]]), "no row": dense[:0], "complex": dense.to(torch.complex64),
        "float8": dense.to(torch.float8_e4m3fn), "decisions": dense > 0, "COO": dense.to_sparse(), "CSC": dense.to_sparse_csc(),
        "objects": dense.numpy().astype(object), "a list of lists": dense.tolist(), "a list of a pair and more": (b.of_ids, b.ids, b.ids),
        "a pair with a CSR matrix": (b.csr(), b.ids), "whole scores in a pair": (b.ids, b.ids),
    }  # fmt: skip


def faults_of_target(b: Any) -> dict[str, Any]:
    """Return invalid targets by fault."""
    return {f"CSR, {fault}": matrix for fault, matrix in broken_csr(b).items()} | {
        "CSR, a negative gain": b.csr(values=with_value(b.of_ids.abs(), -1).flatten()),
        "NaN": with_value(b.gains, float("nan")), "inf": with_value(b.gains, float("inf")), "a negative gain": with_value(b.gains, -1),
        "an id below -1": with_value(b.asked, -2), "an id outside": with_value(b.asked, b.width), "an id twice": with_column_twice(b.asked),
        "a class below -1": b.classes.index_fill(0, torch.tensor([1]), -2), "a class outside": b.classes.index_fill(0, torch.tensor([1]), b.width),
        "classes of floats": b.classes.float(), "columns": b.gains[:, 1:], "rows": b.gains[1:], "rows of ids": b.asked[1:],
        "three axes": b.asked[None], "no axis": b.classes[0], "complex": b.gains.to(torch.complex64), "COO": b.gains.to_sparse(),
        "float8": b.gains.to(torch.float8_e4m3fn), "objects": b.gains.numpy().astype(object), "a list": b.asked.tolist(),
    }  # fmt: skip


MASK = torch.ones(ROWS, dtype=torch.bool)
FAULTS_OF_MASK = [
    MASK.int(),
    MASK[1:],
    MASK[:, None],
    "text",
    1,
    object(),
    [[True], [False, True]],
    MASK.float(),
    np.ones(ROWS),
]


def batches(width: int) -> dict[str, tuple[Any, ...]]:
    """Return batches with one fault each; the other argument is valid."""
    b = valid_batch(width)
    batches: dict[str, tuple[Any, ...]] = {
        f"preds: {name}": (preds, b.asked) for name, preds in faults_of_preds(b).items()
    }
    for form, preds in (("scores", b.scores), ("ids", b.ids), ("CSR", b.csr())):
        batches |= {
            f"target beside {form}: {name}": (preds, faulty)
            for name, faulty in faults_of_target(b).items()
        }
        batches |= {
            f"mask beside {form}: {number}": (preds, b.asked, faulty)
            for number, faulty in enumerate(FAULTS_OF_MASK)
        }
        batches |= {
            f"junk beside {form}: {number}": (preds, faulty)
            for number, faulty in enumerate(JUNK)
        }
    return batches | {
        f"junk: {number}": (faulty, b.asked) for number, faulty in enumerate(JUNK)
    }


CLEAR = re.compile(r"[A-Z]\w+(\.\w+)?: \S.*[;(] ?.*\S\.$", re.DOTALL)
"""The caller, what arrived, and after a semicolon what to do instead."""


def problems_of_batch(
    metric: Any, read_states: Callable[[Any], Any], name: str, batch: tuple[Any, ...]
) -> list[str]:
    """Return what is wrong with how a metric refuses a batch, by update and by
    forward.
    """
    before, problems = read_states(metric), []
    for call in (metric.update, metric):
        try:
            call(*batch)
            problems.append("accepted")
        except Exception as error:
            is_clear = (
                type(error) in (TypeError, ValueError)
                and CLEAR.match(str(error))
                and len(str(error)) > 50
            )
            problems += [] if is_clear else [f"{type(error).__name__}: {error}"]
    problems += [] if read_states(metric) == before else ["states changed"]
    return [f"{metric!r}, {name}: {problem}" for problem in problems]


@pytest.mark.parametrize("width", [NUM_LABELS, 2000])
def test_a_batch_with_a_fault_is_refused_and_changes_nothing(width: int) -> None:
    """A batch with a fault raises a clear error and changes neither inputs nor states.

    This holds for metrics with and without a number of labels, and for a collection as
    a whole.
    """
    ordinary = valid_batch(width)
    metrics: list[Any] = [
        tm.NDCGAtK([1, 3, 100]),
        tm.MAP(),
        tm.MRR(),
        tm.RPrecision(),
        tm.PrecisionAtK(2),
        tm.KForRecall(0.5, miss_value=3),
    ]
    metrics += [
        case.metric()
        for case in (KINDS[::12] if width == NUM_LABELS else [])
        if case.name != "CrossEntropy"
    ]
    collection = tm.TopKCollection(
        {str(number): metric.clone() for number, metric in enumerate(metrics[::3])}
    )
    for metric in (*metrics, collection):
        fed(metric, ordinary.scores, ordinary.gains)
    holders = [(metric, states, metric.num_labels is not None) for metric in metrics]
    holders.append((collection, states_of_members, width == NUM_LABELS))
    problems = []
    for name, batch in batches(width).items():
        pickled = pickle.dumps(batch)
        for metric, read_states, has_num_labels in holders:
            if has_num_labels or not re.search(
                "(id|class|pair,) outside|huge|beside ids: columns", name
            ):
                problems += problems_of_batch(metric, read_states, name, batch)
        problems += (
            [] if pickle.dumps(batch) == pickled else [f"{name}: inputs changed"]
        )
    assert problems == []


def test_label_frequency_refuses_faulty_targets() -> None:
    """LabelFrequency refuses the faulty targets and masks that metrics refuse.

    It accepts a repeated item, which counts each time.
    """
    b, frequency = valid_batch(40), fed(tm.LabelFrequency(40), valid_batch(40).gains)
    faulty = {
        name: (target,)
        for name, target in faults_of_target(b).items()
        if name not in ("an id twice", "rows", "rows of ids")
    }
    faulty |= {f"junk {number}": (target,) for number, target in enumerate(JUNK)}
    faulty |= {
        f"mask {number}": (b.gains, mask) for number, mask in enumerate(FAULTS_OF_MASK)
    }
    assert [
        problem
        for name, batch in faulty.items()
        for problem in problems_of_batch(frequency, states, name, batch)
    ] == []


@pytest.mark.parametrize("arguments", [(), (1, 2, 3, 4)], ids=len)
def test_a_call_with_the_wrong_number_of_arguments_counts_nothing(
    arguments: tuple[Any, ...],
) -> None:
    """A call with the wrong number of arguments raises TypeError and does not count as
    an update.

    CrossEntropy of ids raises an error that says what to pass.
    """
    for metric in (tm.MRR(), tm.LabelFrequency(3)):
        for call in (metric, metric.update):
            with pytest.raises(TypeError):
                call(*arguments)
        assert metric._update_count == 0
    with pytest.raises(ValueError, match="CrossEntropy: .*pass"):
        tm.CrossEntropy().update(torch.tensor([[0, 1]]), torch.tensor([0]))
