"""Lines on disk by row: in whatever order they come, a row is read back as it lay in its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailmetrics.io import grouped_lines
from tailmetrics.io.grouped_lines import GroupedLines

TYPES = {"label": np.dtype(np.int64), "value": np.dtype(np.float32)}
Blocks = list[dict[str, np.ndarray]]


def blocks_of(rows: np.ndarray, order: np.ndarray, size: int) -> Blocks:
    """Return lines in an order, some at a time; line i has the label 7 i and the value i / 2."""
    return [
        {"row": rows[part], "place": part, "label": part * 7, "value": part / 2}
        for part in (order[first : first + size] for first in range(0, len(order), size))
    ]


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_any_order_gives_the_lines_of_each_row(tmp_path: Path, data: st.DataObject) -> None:
    """Blocks of any size and order, places that nobody has, rows without a line, any first and last row."""
    num_rows = data.draw(st.integers(1, 8))
    files_order = data.draw(st.permutations(range(num_rows)))
    rows = np.array([row for row in files_order for _ in range(data.draw(st.integers(0, 4)))], np.int64)
    dropped = data.draw(st.integers(0, num_rows - 1))
    order = np.array([line for line in data.draw(st.permutations(range(len(rows)))) if rows[line] != dropped], np.int64)
    lines = GroupedLines(tmp_path, "preds", num_rows, TYPES)
    assert lines.write(blocks_of(rows, order, data.draw(st.integers(1, 9))), len(rows))
    first = data.draw(st.integers(0, num_rows))
    stop = data.draw(st.integers(first, num_rows))
    expected = [[line for line in range(len(rows)) if rows[line] == row != dropped] for row in range(first, stop)]
    found = lines.read(first, stop)
    assert found.lengths.tolist() == [len(one) for one in expected]
    assert found.ids.tolist() == [7 * line for one in expected for line in one]
    assert found.values is not None and found.values.tolist() == [line / 2 for one in expected for line in one]
    assert lines.width == max((int((rows == row).sum()) for row in range(num_rows) if row != dropped), default=0)


def test_rows_that_lie_apart_are_told(tmp_path: Path) -> None:
    """A row that goes on behind another cannot be read as it lies; sorted, with new places, it can."""
    rows = np.array([0, 1, 0, 1, 2])
    lines = GroupedLines(tmp_path, "preds", 3, TYPES)
    blocks = blocks_of(rows, np.arange(5), 2)
    assert not lines.write(blocks, 5)
    order = np.argsort(rows, kind="stable")
    together = [{"row": rows[order], "place": np.arange(5), "label": order * 7, "value": order / 2}]
    assert lines.write(together, 5)
    assert lines.read(0, 3).ids.tolist() == [0, 14, 7, 21, 28]


def test_shuffled_lines_are_told_early(tmp_path: Path) -> None:
    """Not all of a large file is joined before it is seen that its lines have to be sorted."""
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(100), 100))
    blocks = iter(blocks_of(rows, np.arange(len(rows)), 1000))
    assert not GroupedLines(tmp_path, "preds", 100, TYPES).write(blocks, len(rows))
    assert len(list(blocks)) == 9


def test_lines_far_apart_are_not_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block whose places span more than may be mapped is refused, and sorted instead."""
    monkeypatch.setattr(grouped_lines, "SPAN", 3)
    lines = GroupedLines(tmp_path, "preds", 5, TYPES)
    assert lines.write(blocks_of(np.arange(5), np.arange(5), 3), 5)
    assert not lines.write(blocks_of(np.arange(5), np.array([0, 4]), 2), 5)


def test_a_file_that_was_cut_is_named(tmp_path: Path) -> None:
    """What deletes files beneath TMPDIR gives an error, never other labels."""
    lines = GroupedLines(tmp_path, "preds", 2, TYPES)
    assert lines.write(blocks_of(np.array([0, 0, 1]), np.arange(3), 3), 3)
    (tmp_path / "preds.label").write_bytes(b"")
    with pytest.raises(OSError, match=r"preds\.label ends early"):
        lines.read(0, 2)
