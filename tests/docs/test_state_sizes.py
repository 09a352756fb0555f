"""The table of docs/distributed.md gives the sizes of states that the benchmark
measures.
"""

import re

import pytest

from benchmarks.states import PAGE, lines

COUNTS_LABELS = {"F1AtK", "CatalogCoverageAtK", "GiniAtK"}


@pytest.mark.slow
def test_the_table_of_states_has_the_measured_sizes():
    """In the table the bytes of a state equal the measured ones, and the bytes sent
    differ by at most a tenth or 200 bytes. Metrics without counts of labels send less
    than 10 kB and hold less than 100 kB.
    """
    text = (
        PAGE.read_text()
        .split("<!-- written by python -m benchmarks.states -->")[1]
        .split("<!-- until here -->")[0]
    )
    cells_of_page = [
        re.findall(r"[\w,]+(?: \w+)?", line) for line in text.strip().splitlines()[2:]
    ]
    measured_sizes = list(lines())
    assert len(cells_of_page) == len(measured_sizes)
    for (name, by, held_on_page, sent_on_page), (
        metric,
        bucket_scope,
        bytes_held,
        bytes_sent,
    ) in zip(cells_of_page, measured_sizes, strict=True):
        assert (name, by, int(held_on_page.replace(",", ""))) == (
            metric,
            bucket_scope,
            bytes_held,
        )
        assert abs(int(sent_on_page.replace(",", "")) - bytes_sent) <= max(
            bytes_sent / 10, 200
        )
        assert bytes_sent < 10_000 or metric in COUNTS_LABELS, metric
        assert bytes_held < 100_000 or metric in COUNTS_LABELS, metric
