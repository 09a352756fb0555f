"""Whatever comes in: a right answer or a clear error, inputs untouched, and after an error the metric as before."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cases import CASES, NUM_LABELS, Case, data
from contract.malformed import batches, row_masks, targets, wide_batches
from contract.reading import Reading, Refused, Unsure, read
from exactness.bits import states
from oracle import evaluate
from tailmetrics import LabelFrequency, TopKCollection
from tailmetrics.metrics import TopKMetric

pytestmark = pytest.mark.slow

BEFORE = data(seed=31, num_rows=4, graded=True, ties=False)
FUZZED = [*{(case.name, case.by, case.arguments.get("average")): case for case in CASES}.values()]
FREE = [Case(name, {"k": [1, 3, 100]}) for name in ("PrecisionAtK", "NDCGAtK", "MAP", "TieRateAtK")] + [
    Case("MRR"),
    Case("RPrecision"),
    Case("CrossEntropy"),
    Case("KForRecall", {"min_recall": 0.5, "miss_value": 3}),
]
"""Metrics that need not be told the number of labels."""

run = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def snapshot(value: Any) -> Any:
    """Every number of an argument, comparable with ==."""
    if isinstance(value, (tuple, list)):
        return [snapshot(part) for part in value]
    if hasattr(value, "tocsr"):
        return (
            [value.data.tobytes(), value.indices.tobytes(), value.indptr.tobytes()] if hasattr(value, "indptr") else 0
        )
    if not isinstance(value, torch.Tensor):
        return value.tobytes() if hasattr(value, "tobytes") else None
    if value.layout == torch.sparse_csr:
        return [snapshot(part) for part in (value.crow_indices(), value.col_indices(), value.values())]
    if value.layout != torch.strided:
        return None
    wide = value.detach().cfloat() if value.is_complex() else value.detach().double()
    return [value.requires_grad, value.stride(), wide.contiguous().numpy().tobytes()]


def assert_clear(error: Exception) -> None:
    """A TypeError or ValueError that names a caller, says what arrived, and what to do instead."""
    assert type(error) in (TypeError, ValueError), f"{type(error).__name__}: {error}"
    assert re.match(r"[A-Z]\w+(\.\w+)?: \S.*[;(] ?.*\S\.$", str(error), re.DOTALL), str(error)
    assert len(str(error)) > 50, str(error)


def outcome(metric: Any, arguments: tuple[Any, ...], by_forward: bool) -> Exception | None:
    """Feed the metric; return the error, after which inputs and metric must be as before."""
    before, given_before = states(metric), snapshot(arguments)
    try:
        metric(*arguments) if by_forward else metric.update(*arguments)
    except Exception as error:
        assert states(metric) == before, error
        assert snapshot(arguments) == given_before, error
        return error
    assert snapshot(arguments) == given_before
    return None


def refusal(case: Case, reading: Reading) -> bool:
    """Whether the metric itself cannot read a batch that is right in form."""
    if case.arguments.get("gain") == "exponential":
        return any(gain > 100 for row in reading.rows for gain in row.relevant.values())
    if case.name != "CrossEntropy":
        return False
    return not reading.dense or any(float("inf") in (row.scores or []) for row in reading.rows)


def expected(case: Case, rows: list[Any], values: list[list[float]] | None, num_labels: int | None) -> list[Any]:
    """What the oracle says, cut-off by cut-off."""
    if case.name == "TieRateAtK":
        return [_tie_rate(values, k) for k in case.cutoffs()]
    settings_of = [replace(case.setting(k), num_labels=num_labels) for k in case.cutoffs()]
    return [evaluate(case.name, rows, setting) for setting in settings_of]


def _tie_rate(values: list[list[float]] | None, k: int | None) -> float:
    assert k is not None
    tied = [len(row) > k and row[k - 1] == row[k] for row in values or []]
    return sum(tied) / len(tied) if tied else float("nan")


def check(case: Case, metric: TopKMetric, arguments: tuple[Any, ...], by_forward: bool, known: bool) -> None:
    """Compare with the second reading of the arguments."""
    reading: Reading | None = None
    sure = True
    try:
        reading = read(*arguments, NUM_LABELS if known else None)
    except Refused:
        pass
    except Unsure:
        sure = False
    error = outcome(metric, arguments, by_forward)
    if error is not None:
        assert_clear(error)
        assert not sure or reading is None or refusal(case, reading), f"{case}: {error}"
        return
    assert reading is not None or not sure, f"{case}: accepted"
    if reading is None:
        return
    assert not refusal(case, reading), f"{case}: accepted"
    rows = [*BEFORE.rows, *reading.rows] if known else reading.rows
    if not rows:
        return
    values = reading.values
    if known:
        values = [*_values_before(), *(values or [])]
    wanted = torch.tensor(expected(case, rows, values, reading.num_labels), dtype=torch.float64)
    found = metric.compute().reshape(wanted.shape)
    if case.arguments.get("average") in (
        "macro",
        "weighted",
    ):  # a mean over no label at all: 0 and NaN are both read so
        found, wanted = found.nan_to_num(0.0), wanted.nan_to_num(0.0)
    torch.testing.assert_close(
        found, wanted, rtol=1e-12, atol=1e-12, equal_nan=True, msg=lambda m: f"{case}: {found} {wanted} {m}"
    )


def _values_before() -> list[list[float]]:
    return [[row.scores[label] for label in row.ranked] for row in BEFORE.rows if row.scores]


@given(batches(), st.data(), st.booleans())
@run
def test_metrics_of_a_known_number_of_labels(
    batch: tuple[Any, Any, Any], choice: st.DataObject, by_forward: bool
) -> None:
    """Three metrics at a time, overall and by bucket, that have seen rows before."""
    for case in choice.draw(st.lists(st.sampled_from(FUZZED), min_size=3, max_size=3, unique_by=str)):
        metric = case.metric()
        metric.update(BEFORE.scores, BEFORE.target)
        check(case, metric, batch, by_forward, known=True)


@given(batches(), st.booleans())
@run
def test_metrics_that_are_told_nothing(batch: tuple[Any, Any, Any], by_forward: bool) -> None:
    """Widths from 0 to 41, ids without an upper end."""
    for case in FREE:
        check(case, case.metric(num_labels=None), batch, by_forward, known=False)


@given(wide_batches(), st.booleans())
@settings(run, max_examples=60)
def test_metrics_of_many_labels(batch: tuple[Any, Any, Any], by_forward: bool) -> None:
    """Hundreds of labels and long lists, where rankings are found by other means."""
    for case in FREE:
        check(case, case.metric(num_labels=None), batch, by_forward, known=False)


def collection() -> TopKCollection:
    """A third of the metrics that are not bound to dense scores: each kind of state, by bucket and overall."""
    members = [case for case in FUZZED if case.name != "CrossEntropy"][::3]
    return TopKCollection({str(number): case.metric() for number, case in enumerate(members)})


COLLECTION = collection()
COLLECTION.update(BEFORE.scores, BEFORE.target)


@given(batches(), st.booleans())
@settings(run, max_examples=50)
def test_a_collection_is_updated_as_a_whole_or_not_at_all(batch: tuple[Any, Any, Any], by_forward: bool) -> None:
    """No member has seen a batch that another one refuses."""
    before = {name: states(metric) for name, metric in COLLECTION.items(keep_base=True, copy_state=False)}
    given_before = snapshot(batch)
    whole = COLLECTION.clone()
    try:
        whole(*batch) if by_forward else whole.update(*batch)
    except Exception as error:
        assert_clear(error)
        assert {name: states(metric) for name, metric in whole.items(keep_base=True, copy_state=False)} == before
    assert snapshot(batch) == given_before


@given(st.data(), st.sampled_from([0, 1, 3]), st.sampled_from([40, 40, 5, 41]), st.booleans())
@run
def test_training_counts(choice: st.DataObject, num_rows: int, width: int, by_forward: bool) -> None:
    """LabelFrequency reads targets like a metric beside 40 scores per row, and counts them; ids may repeat."""
    target, row_mask = choice.draw(targets(num_rows, width)), choice.draw(row_masks(num_rows))
    frequency = LabelFrequency(NUM_LABELS)
    frequency.update(BEFORE.target)
    sure, reading = True, None
    scores = torch.zeros([*getattr(target, "shape", []), 0][0], NUM_LABELS)
    try:
        reading = read(scores, target, row_mask, NUM_LABELS)
    except Refused as refused:
        sure = str(refused) != "an id twice"  # counted as often as it stands there, as items of a sequence are
    except Unsure:
        sure = False
    error = outcome(frequency, (target, row_mask), by_forward)
    if error is not None:
        assert_clear(error)
        assert not sure or reading is None, str(error)
        return
    assert reading is not None or not sure, "accepted"
    if reading is not None:
        rows = [*BEFORE.rows, *reading.rows]
        wanted = [sum(label in row.relevant for row in rows) for label in range(NUM_LABELS)]
        assert frequency.compute().tolist() == wanted
        assert frequency.num_rows == len(rows)


@pytest.mark.parametrize("arguments", [(), (1, 2, 3, 4)], ids=len)
@pytest.mark.parametrize("by_forward", [False, True])
def test_a_call_with_the_wrong_number_of_arguments_counts_nothing(arguments: tuple[Any, ...], by_forward: bool) -> None:
    """Python's own TypeError leaves the update count alone."""
    for metric in (FREE[0].metric(), LabelFrequency(3)):
        with pytest.raises(TypeError):
            metric(*arguments) if by_forward else metric.update(*arguments)
        assert metric._update_count == 0
