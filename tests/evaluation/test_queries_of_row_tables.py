"""Queries in the table of rows."""

import pyarrow as pa
import pytest

from tailmetrics.evaluation.row_tables import _queries


@pytest.mark.parametrize(
    ("queries", "kind"),
    [(["7", "-3", "0"], pa.int64()), (["7", "007"], pa.string()), (["u1"], pa.string()), (["9" * 19], pa.string())],
)
def test_whole_numbers_stay_whole_numbers(queries, kind):
    """``007`` and what exceeds 64 bits stay text."""
    stored = _queries(pa.array(queries))
    assert stored.type == kind
    assert stored.cast(pa.string()).to_pylist() == queries
