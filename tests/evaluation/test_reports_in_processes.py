"""``evaluate`` and ``compare_runs`` in one of several gloo processes read the rows that
they are passed, and no others.
"""

from pathlib import Path
from typing import Any

import torch

import processes
import tailmetrics as tm
from tailmetrics.evaluation import Evaluation, compare_runs, evaluate

SCORES = torch.rand(12, 8, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor([[0, 3], [1, -1], [2, 7], [4, 0]]).repeat(3, 1)
TRAINING = torch.arange(8).repeat_interleave(torch.arange(8, 0, -1))
NOTE = "the rows are those that this process passed, one of 2: unlike metrics, a report adds nothing up over processes."


def numbers() -> dict[str, Any]:
    """Return what reports on all rows hold: values that depend on how often a row
    counts, intervals, differences.
    """
    metrics: list[Any] = [
        tm.PersonalizationAtK(k=3, num_labels=8),
        tm.PropensityScoredPrecisionAtK(k=3),
        tm.F1AtK(k=2, average="macro"),
    ]
    report = evaluate(
        SCORES, TARGET, metrics=metrics, train_target=TRAINING, labels=True
    )
    resampled = evaluate(SCORES, TARGET, metrics=[tm.RecallAtK(k=3)], intervals=50)
    runs = {"up": SCORES, "down": -SCORES}
    comparison = compare_runs(
        runs, TARGET, metrics=[tm.RecallAtK(k=3)], resamples=50
    ).comparisons[0]
    return {
        "rows": report.rows,
        "values": str(report.scalars),
        "intervals": str(report.intervals),
        "positives": report.positives,
        "resampled": str(resampled.intervals),
        "difference": (comparison.difference, comparison.p.randomisation),
    }


def reports_of_process(rank: int, world: int) -> dict[str, Any]:
    """Return reports of the second process alone, for which no other process waits, and
    of each process.
    """
    results: dict[str, Any] = {}
    if rank == 1:
        results["alone"] = numbers()
    results["together"] = numbers()
    results["notes"] = [
        note for note in evaluate(SCORES, TARGET).notes if "process" in note
    ]

    own = slice(rank, None, 3)
    for adds_up in (True, False):
        evaluation = Evaluation([tm.RecallAtK(k=1, sync_on_compute=adds_up)])
        evaluation.update(SCORES[own], TARGET[own])
        results[f"rows, {adds_up}"] = evaluation.report("").rows
        recall = tm.RecallAtK(k=1, sync_on_compute=adds_up)
        collection = tm.TopKCollection([recall], references=["attainable"])
        collection.update(SCORES[own][: rank + 1], TARGET[own][: rank + 1])
        results[f"attainable, {adds_up}"] = float(
            collection.references()["attainable"]["recall@1"]
        )
    return results


def test_reports_read_the_rows_that_they_are_passed(tmp_path: Path) -> None:
    """Each of two processes that pass all rows has the report of one process, also if
    the other passes none. A note says so. An ``Evaluation`` and references of metrics
    add up over processes if the metrics do: 4 + 4 rows, and the best list of one label
    finds 1/2 of the first row of one process, and 1 and 1/2 of two rows of the other.
    """
    expected = numbers()
    results = processes.run_on_ranks(reports_of_process, 2, tmp_path)
    assert results[1]["alone"] == expected
    for result in results:
        assert result["together"] == expected
        assert result["notes"] == [NOTE]
        assert result["rows, True"] == 8
        assert result["rows, False"] == 4
        assert result["attainable, True"] == (1 / 2 + 1 + 1 / 2) / 3
    assert [result["attainable, False"] for result in results] == [
        1 / 2,
        (1 + 1 / 2) / 2,
    ]
