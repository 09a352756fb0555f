"""What the callback counts and costs on two processes: one run of two_processes.py."""

import json
from pathlib import Path
from typing import Any

import pytest
import test_callback
import test_log_dict
import torch
from counted import ROWS

import processes
from written import values_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the first process saw."""
    script = "import two_processes; two_processes.main()"
    first, _ = processes.printed_by_ranks(script, tmp_path_factory.mktemp("two"))
    return json.loads(first.splitlines()[-1])


def test_two_processes_report_the_numbers_of_one(outcomes: Any) -> None:
    """41 rows do not divide: the sampler repeats one on the last process, and the callback leaves it out by itself."""
    report = outcomes["report"]
    test_callback.same(values_of(report), test_callback.expected())
    assert report["rows"] == 41
    for process in (0, 1):  # what Lightning keeps is loaded as weights only
        values = torch.load(Path(report["folder"]) / f"values_{process}.pt", weights_only=True)
        assert {type(key) for key in values} == {str}
        assert float(values["test/precision@1"]) == pytest.approx(values_of(report)["precision@1"], rel=2**-23)


@pytest.mark.parametrize(
    ("loader", "labels"),
    [
        ("shuffled", range(ROWS)),
        ("subset", range(15)),
        ("given", [1, 1, 2, 2, 3]),
        ("subset on both", range(15)),
        ("subset in batches on both", range(15)),
        ("not divisible", range(13)),
        ("limited", range(8)),
        ("given on both", [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]),
        ("batches on each", [1, 2, 4, 5, 7, 7, 7, 7]),
    ],
)
def test_two_processes_count_an_epoch_of_both(loader: str, labels: Any, outcomes: Any) -> None:
    """Rows that a distributed sampler repeats are left out; a sampler of torch that both show whole is counted once.

    A sampler of another kind may show each process its own rows: what both show counts, and a warning says so.
    """
    assert outcomes["counted"][loader] == list(labels)


def test_logging_many_values_takes_hardly_any_collective(outcomes: Any) -> None:
    """405 values that both processes have: at most ten collectives beside those in which the metrics add up.

    Two scopes of 15 cut-offs in 10 buckets (no label is unseen), 15 values over all labels, a gap and a spread of each scope and cut-off,
    and an adjusted gap of each cut-off of a scope.
    """
    assert outcomes["collectives"]["logged"] == 2 * 15 * 10 + 15 + 3 * 2 * 15
    assert len(outcomes["collectives"]["collectives"]) <= 10, outcomes["collectives"]["collectives"]
    assert outcomes["collectives"]["recall@5"] == 1.0  # labels 2 and 3 are among the first five, on both processes


def test_metrics_with_a_process_group_are_copied_and_logged_alike(outcomes: Any) -> None:
    """Over both processes labels 0 to 3 of 20 are found; over the first alone labels 0 and 2 of its 10, everywhere logged."""
    assert outcomes["in groups"] == {"all": [pytest.approx(0.2)] * 2, "first": [pytest.approx(0.2)] * 2}


def test_scalars_of_a_collection_are_logged_over_both_processes(outcomes: Any) -> None:
    """Every key of two loaders, on each process what one process computes of all rows, to float32."""
    for place in (0, 1):
        for key, value in test_log_dict.expected(place).items():
            logged = outcomes["logged"][f"{key}/dataloader_idx_{place}"]
            assert logged == [pytest.approx(value, rel=2**-23, nan_ok=True)] * 2, key
    assert len(outcomes["logged"]) == 2 * len(test_log_dict.expected(0))


@pytest.mark.parametrize(
    ("kind", "is_unsplit"),
    [
        ("unsplit", True),
        ("unsplit in random order", True),
        ("unsplit stream", True),
        ("split stream", False),
        ("split data set", False),
        ("split data set in random order", False),
        ("split data set of equal values", False),
        ("split by a sampler", False),
        ("rows of the first process alone", False),
    ],
)
def test_a_report_says_that_both_processes_ranked_the_same_rows(kind: str, is_unsplit: bool, outcomes: Any) -> None:
    """Each row would count twice; rows that are split by a sampler, by a stream or by the data set are not noted.

    Neither are they where both halves have the same values: two of nine labels are among the first five in each.
    """
    assert outcomes["unsplit"][kind] == [is_unsplit] * 2


def test_an_endless_stream_is_read_as_far_as_training_reads_it(outcomes: Any) -> None:
    """Each process reads the batches of three steps, or two batches, and Lightning one ahead; of unknown steps this one alone."""
    assert outcomes["streamed"]["max_steps"] <= 3 * 4 + 4
    assert outcomes["streamed"]["limit_train_batches"] <= 2 * 4 + 4
    assert outcomes["streamed"]["max_time"].startswith("4 HeadToTailReport: the training loader has no length")
