"""Short operations run on one thread, so that an update beside a busy program does not
wait for its own threads.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import tailmetrics as tm
from benchmarks.ours import query_metrics, ten_metrics
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.row_values import RowValues
from tailmetrics.ranking._threads import one_thread

SPLIT = 2**15
"""The number of elements from which torch splits an operation over threads
(``at::internal::GRAIN_SIZE``).
"""

LABELS = 1000

VIEWS = (
    "view",
    "slice",
    "select",
    "expand",
    "squeeze",
    "alias",
    "detach",
    "as_strided",
    "split",
    "empty",
    "lift",
)
VIEWS += ("::values", "crow_indices", "col_indices", "sparse_compressed")


class SplitOperations(TorchDispatchMode):
    """Lists the operations that torch may split over threads: large ones while there
    are several threads.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        largest = max(
            (value.numel() for value in (*args, out) if isinstance(value, Tensor)),
            default=0,
        )
        if (
            torch.get_num_threads() > 1
            and largest >= SPLIT
            and not any(view in func.name() for view in VIEWS)
        ):
            self.operations.append(f"{func.name()} of {largest}")
        return out


@pytest.fixture
def threads() -> Iterator[int]:
    """Use two threads, which most machines have at least."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


def _distinct(rows: int, labels: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(rows)
    return torch.rand(rows, labels, generator=generator).topk(width).indices


Update = tuple[Any, tuple[Any, ...], dict[str, Any]]
DECILES = tm.LabelBuckets.deciles(torch.arange(LABELS, 0, -1))


def update_with_scores(
    metric: Any, kind: str, rows: int = 70, labels: int = LABELS
) -> Update:
    """Return an update with a matrix of scores and five relevant labels a row, in one
    of their forms.
    """
    scores = torch.rand(rows, labels, generator=torch.Generator().manual_seed(2))
    ids = _distinct(rows, labels, 5)
    mask = torch.zeros(rows, labels, dtype=torch.bool).scatter_(1, ids, True)
    return (
        metric,
        (
            scores,
            {"class": ids[:, 0], "ids": ids, "mask": mask, "gains": mask * 2.0}[kind],
        ),
        {},
    )


def update_of_ten(rows: int, labels: int) -> Update:
    """Return an update of ten metrics at three cut-offs in eleven buckets."""
    deciles = tm.LabelBuckets.deciles(torch.arange(labels, 0, -1))
    return update_with_scores(
        ten_metrics(deciles, depth=min(500, labels)), "ids", rows, labels
    )


def update_with_sparse_targets() -> Update:
    """Return an update of 40,000 rows, whose row pointers exceed what torch leaves to
    one thread.
    """
    rows = 40_000
    parts = torch.arange(rows + 1), torch.arange(rows) % 50, torch.ones(rows)
    target = torch.sparse_csr_tensor(*parts, size=(rows, 60), check_invariants=False)
    return (
        tm.RecallAtK(3),
        (torch.arange(rows)[:, None] % 50 + torch.arange(3), target),
        {},
    )


def update_of_flat_queries() -> Update:
    """Return an update of 40,000 documents of 400 queries."""
    preds, target = torch.rand(
        2, 40_000, generator=torch.Generator().manual_seed(3)
    ).unbind()
    return (
        tm.RecallAtK(5),
        (preds, target > 0.9),
        {"indexes": torch.arange(40_000) % 400},
    )


class EvaluationWithRows:
    """An evaluation with ties, positives and intervals, and a table of rows."""

    def __init__(self) -> None:
        buckets = tm.LabelBuckets.deciles(torch.arange(60, 0, -1))
        metrics = [kind(5, buckets=buckets) for kind in (tm.RecallAtK, tm.MRR)]
        metrics.append(tm.PrecisionAtK(5, buckets=buckets, average="micro"))
        self.evaluation = Evaluation(metrics, confidence=0.95)
        self.rows = RowValues(self.evaluation.collection)

    def update(self, scores: Tensor, target: Tensor) -> None:
        """Add a batch to both."""
        self.evaluation.update(scores, target)
        self.rows.add(self.evaluation.collection.rank(scores, target))


UPDATES: dict[str, Callable[[], Update]] = {
    "ranked lists": lambda: (
        query_metrics(),
        (_distinct(4000, 100, 50), _distinct(4000, 100, 8)),
        {},
    ),
    "sparse targets": update_with_sparse_targets,
    "one part of the selection": lambda: update_of_ten(512, 2000),
    "two parts that are joined": lambda: update_of_ten(4500, 1000),
    "many rows": lambda: update_of_ten(40_000, 40),
    "exact ranks of one label": lambda: update_with_scores(tm.MRR(), "class"),
    "exact ranks of several": lambda: update_with_scores(tm.MAP(), "ids"),
    "a mask": lambda: update_with_scores(tm.RecallAtK(5), "mask"),
    "gains": lambda: update_with_scores(tm.NDCGAtK(5), "gains"),
    "decisions by label": lambda: update_with_scores(
        tm.F1AtThreshold(0.99, average="macro", num_labels=LABELS), "ids"
    ),
    "decisions by bucket": lambda: update_with_scores(
        tm.F1AtThreshold(0.99, buckets=DECILES), "ids"
    ),
    "pairs": lambda: update_with_scores(tm.RowAUC(), "ids"),
    "histograms": lambda: update_with_scores(tm.LabelAUC(num_labels=LABELS), "ids"),
    "cross-entropy": lambda: update_with_scores(tm.CrossEntropy(), "class"),
    "calibration": lambda: update_with_scores(tm.CalibrationErrorAtK(5), "class"),
    "flat queries": update_of_flat_queries,
    "a whole evaluation": lambda: update_with_scores(
        EvaluationWithRows(), "ids", 5000, 60
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", UPDATES)
def test_no_operation_after_the_selection_is_split(name: str) -> None:
    """After the selection of the best labels no operation of an update is split over
    threads: reading, looking up, formulas, sums, and the sums of reports.
    """
    metric, batch, keywords = UPDATES[name]()
    metric.update(*batch, **keywords)
    with SplitOperations() as recorder:
        metric.update(*batch, **keywords)
    assert recorder.operations == []


def test_update_restores_the_number_of_threads(threads: int) -> None:
    """An update leaves the number of threads of the program as it was, also if it
    fails.
    """
    metric = tm.RecallAtK(5)
    metric.update(torch.rand(3, 40), torch.tensor([1, 2, 3]))
    assert torch.get_num_threads() == threads
    with pytest.raises(ValueError, match="twice"):
        metric.update(torch.zeros(3, 2, dtype=torch.int64), torch.tensor([1, 2, 3]))
    assert torch.get_num_threads() == threads
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == threads
