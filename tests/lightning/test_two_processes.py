"""Values, counts and costs of the callback on two processes, from one run of
two_processes.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import test_callback
import test_log_dict
import torch
from numbered_rows import ROWS

import processes
from written import values_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the outcomes of the first process."""
    script = "import two_processes; two_processes.main()"
    first, _ = processes.printed_by_ranks(script, tmp_path_factory.mktemp("two"))
    return json.loads(first.splitlines()[-1])


def test_two_processes_give_the_values_of_one(outcomes: Any) -> None:
    """41 rows on two processes give the values of one process: the sampler repeats a
    row on the last process, and the callback leaves it out. The logged values can be
    loaded with weights_only=True.
    """
    report = outcomes["report"]
    test_callback.same(values_of(report), test_callback.expected())
    assert report["rows"] == 41
    for process in (0, 1):  # the saved values are loaded with weights_only=True
        values = torch.load(
            Path(report["folder"]) / f"values_{process}.pt", weights_only=True
        )
        assert {type(key) for key in values} == {str}
        assert float(values["test/precision@1"]) == pytest.approx(
            values_of(report)["precision@1"], rel=2**-23
        )


@pytest.mark.parametrize(
    ("loader", "labels"),
    [
        ("shuffled", range(ROWS)),
        ("subset", range(15)),
        ("fixed order", [1, 1, 2, 2, 3]),
        ("subset on both", range(15)),
        ("subset in batches on both", range(15)),
        ("not divisible", range(13)),
        ("limited", range(8)),
        ("fixed order on both", [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]),
        ("batches on each", [1, 2, 4, 5, 7, 7, 7, 7]),
    ],
)
def test_two_processes_count_the_training_rows_of_both(
    loader: str, labels: Any, outcomes: Any
) -> None:
    """Rows that a distributed sampler repeats are counted once, and so are those of a
    torch sampler on both processes.

    A custom sampler may yield different rows on each process, so that the rows of both
    are counted.
    """
    assert outcomes["counted"][loader] == list(labels)


def test_logging_many_values_takes_few_collectives(outcomes: Any) -> None:
    """Logging 405 values takes at most ten collectives beside those of the metrics.

    The values are those of two scopes, 15 cut-offs and 10 buckets, 15 values over all
    labels, and three gaps of each scope and cut-off.
    """
    assert outcomes["collectives"]["logged"] == 2 * 15 * 10 + 15 + 3 * 2 * 15
    assert len(outcomes["collectives"]["collectives"]) <= 10, outcomes["collectives"][
        "collectives"
    ]
    # labels 2 and 3 are among the first five, on both processes
    assert outcomes["collectives"]["recall@5"] == 1.0


def test_metrics_with_a_process_group_are_logged_on_all_processes(
    outcomes: Any,
) -> None:
    """Metrics with a process group log the value of their group on both processes: 4 of
    20 labels are hits over both, and 2 of 10 on the first alone.
    """
    assert outcomes["in groups"] == {
        "all": [pytest.approx(0.2)] * 2,
        "first": [pytest.approx(0.2)] * 2,
    }


def test_scalars_of_a_collection_are_logged_over_both_processes(outcomes: Any) -> None:
    """Each key of two loaders has on both processes the value of one process over all
    rows, to float32.
    """
    for index in (0, 1):
        for key, value in test_log_dict.expected(index).items():
            logged = outcomes["logged"][f"{key}/dataloader_idx_{index}"]
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
def test_a_note_says_if_both_processes_ranked_the_same_rows(
    kind: str, is_unsplit: bool, outcomes: Any
) -> None:
    """A note says if both processes rank the same rows, because each row would count
    twice.

    There is none if a sampler, a stream or the data set splits the rows, also if both
    halves have the same value: two of nine labels are among the first five in each.
    """
    assert outcomes["unsplit"][kind] == [is_unsplit] * 2


def test_an_endless_stream_is_counted_as_far_as_training_reads_it(
    outcomes: Any,
) -> None:
    """Each process reads the batches of three steps, or two batches, of an endless
    stream, and Lightning one more.

    If the number of steps is unknown, only that one is read, and the stream is refused.
    """
    assert outcomes["streamed"]["max_steps"] <= 3 * 4 + 4
    assert outcomes["streamed"]["limit_train_batches"] <= 2 * 4 + 4
    assert outcomes["streamed"]["max_time"].startswith(
        "4 HeadToTailReport: the training loader has no length"
    )
