"""The query column of a table of rows."""

import pyarrow as pa
import pytest

from tailmetrics.evaluation.row_tables import _queries


@pytest.mark.parametrize(
    ("queries", "kind"),
    [
        (["7", "-3", "0"], pa.int64()),
        (["7", "007"], pa.string()),
        (["u1"], pa.string()),
        (["9" * 19], pa.string()),
    ],
)
def test_queries_that_are_whole_numbers_are_stored_as_integers(queries, kind):
    """Queries that are whole numbers are stored as 64-bit integers.

    If one has a leading zero or exceeds 64 bits, all are stored as text.
    """
    stored = _queries(pa.array(queries))
    assert stored.type == kind
    assert stored.cast(pa.string()).to_pylist() == queries
