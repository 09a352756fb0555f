"""Short steps run on one thread, so that an update beside a busy program does not wait for its own threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.ours import query_metrics, ten_metrics
from tailmetrics import (
    MAP,
    MRR,
    CalibrationErrorAtK,
    CrossEntropy,
    F1AtThreshold,
    LabelAUC,
    LabelBuckets,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
    RowAUC,
)
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.row_values import RowValues
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking._device import one_thread

SPLIT = 2**15
"""Elements from which torch splits an operation over threads (``at::internal::GRAIN_SIZE``)."""

LABELS = 1000

VIEWS = ("view", "slice", "select", "expand", "squeeze", "alias", "detach", "as_strided", "split", "empty", "lift")
VIEWS += ("::values", "crow_indices", "col_indices", "sparse_compressed")


class SplitSteps(TorchDispatchMode):
    """Lists the operations that torch may split over threads: large ones while there are several."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        largest = max((one.numel() for one in (*args, out) if isinstance(one, Tensor)), default=0)
        if torch.get_num_threads() > 1 and largest >= SPLIT and not any(view in func.name() for view in VIEWS):
            self.found.append(f"{func.name()} of {largest}")
        return out


@pytest.fixture
def threads() -> Iterator[int]:
    """Two threads, as on most machines at least."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


def _distinct(rows: int, labels: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(rows)
    return torch.rand(rows, labels, generator=generator).topk(width).indices


@pytest.mark.usefixtures("threads")
def test_ranked_lists_are_evaluated_without_a_step_that_is_split() -> None:
    """4,000 lists of 50 ids: reading, looking up, formulas and sums."""
    ids, target = _distinct(4000, 100, 50), _distinct(4000, 100, 8)
    metrics = query_metrics()
    metrics.update(ids, target)
    with SplitSteps() as steps:
        metrics.update(ids, target)
    assert steps.found == []


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.usefixtures("threads")
def test_sparse_targets_are_read_without_a_step_that_is_split() -> None:
    """40,000 rows, more than torch leaves to one thread: their row pointers are looked at, too."""
    rows = 40_000
    ids = torch.arange(rows)[:, None] % 50 + torch.arange(3)
    parts = torch.arange(rows + 1), torch.arange(rows) % 50, torch.ones(rows)
    target = torch.sparse_csr_tensor(*parts, size=(rows, 60), check_invariants=False)
    metric = RecallAtK(3)
    metric.update(ids, target)
    with SplitSteps() as steps:
        metric.update(ids, target)
    assert steps.found == []
    assert metric.compute() == 1


@pytest.mark.parametrize(("rows", "labels"), [(512, 2000), (4500, 1000), (40_000, 40)])
@pytest.mark.usefixtures("threads")
def test_scores_are_evaluated_without_a_step_that_is_split_behind_the_selection(rows: int, labels: int) -> None:
    """Ten metrics at three cut-offs in eleven buckets: one part of the selection, two that are joined, many rows."""
    scores = torch.rand(rows, labels, generator=torch.Generator().manual_seed(1))
    target = _distinct(rows, labels, 5)
    metrics = ten_metrics(LabelBuckets.deciles(torch.arange(labels, 0, -1)), depth=min(500, labels))
    metrics.update(scores, target)
    with SplitSteps() as steps:
        metrics.update(scores, target)
    assert steps.found == []


FORMS: dict[str, tuple[TopKMetric, str]] = {
    "exact ranks of one label": (MRR(), "class"),
    "exact ranks of several": (MAP(), "ids"),
    "a mask": (RecallAtK(5), "mask"),
    "gains": (NDCGAtK(5), "gains"),
    "decisions by label": (F1AtThreshold(0.99, average="macro", num_labels=LABELS), "ids"),
    "decisions by bucket": (F1AtThreshold(0.99, buckets=LabelBuckets.deciles(torch.arange(LABELS, 0, -1))), "ids"),
    "pairs": (RowAUC(), "ids"),
    "histograms": (LabelAUC(num_labels=LABELS), "ids"),
    "cross-entropy": (CrossEntropy(), "class"),
    "calibration": (CalibrationErrorAtK(5), "class"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("threads")
def test_scores_are_evaluated_without_a_split_step_whatever_is_asked(form: str) -> None:
    """All that metrics read of a matrix of scores beside its best labels: 70 rows of 1,000."""
    metric, kind = FORMS[form]
    scores = torch.rand(70, LABELS, generator=torch.Generator().manual_seed(2))
    ids = _distinct(70, LABELS, 5)
    mask = torch.zeros(70, LABELS, dtype=torch.bool).scatter_(1, ids, True)
    target = {"class": ids[:, 0], "ids": ids, "mask": mask, "gains": mask * 2.0}[kind]
    metric.update(scores, target)
    with SplitSteps() as steps:
        metric.update(scores, target)
    assert steps.found == []


@pytest.mark.usefixtures("threads")
def test_flat_queries_are_read_without_a_step_that_is_split() -> None:
    """40,000 documents of 400 queries."""
    generator = torch.Generator().manual_seed(3)
    preds, target = torch.rand(40_000, generator=generator), torch.rand(40_000, generator=generator) > 0.9
    indexes = torch.arange(40_000) % 400
    metric = RecallAtK(5)
    metric.update(preds, target, indexes=indexes)
    with SplitSteps() as steps:
        metric.update(preds, target, indexes=indexes)
    assert steps.found == []


@pytest.mark.usefixtures("threads")
def test_a_whole_evaluation_and_its_values_per_row_take_no_step_that_is_split() -> None:
    """5,000 rows, three metrics by bucket: ties, positives, intervals and examples of a report, and a table of rows."""
    scores = torch.rand(5000, 60, generator=torch.Generator().manual_seed(4))
    target, buckets = _distinct(5000, 60, 5), LabelBuckets.deciles(torch.arange(60, 0, -1))
    metrics = [
        RecallAtK(5, buckets=buckets),
        MRR(5, buckets=buckets),
        PrecisionAtK(5, buckets=buckets, average="micro"),
    ]
    evaluation = Evaluation(metrics, intervals=0.95, examples=True)
    rows = RowValues(evaluation.collection)

    def add() -> None:
        evaluation.update(scores, target)
        rows.add(evaluation.collection.rank(scores, target))

    add()
    with SplitSteps() as steps:
        add()
    assert steps.found == []


def test_the_number_of_threads_is_as_before_behind_the_steps_and_after_an_error(threads: int) -> None:
    """An update that fails leaves the program its threads."""
    metric = RecallAtK(5)
    metric.update(torch.rand(3, 40), torch.tensor([1, 2, 3]))
    assert torch.get_num_threads() == threads
    with pytest.raises(ValueError, match="twice"):
        metric.update(torch.zeros(3, 2, dtype=torch.int64), torch.tensor([1, 2, 3]))
    assert torch.get_num_threads() == threads
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == threads
