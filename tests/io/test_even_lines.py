"""Lines that are cut by Arrow's reader of CSV give what cutting at blanks gives; all others are left to that."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailmetrics.io import DataFileError, trec
from tailmetrics.io.lines import read_lines

LINES = st.sampled_from(
    [
        *("q1 Q0 d1 1 0.5 me", "q1\tQ0\td1\t1\t0.5\tme", "q1 Q0  d1 1 2", "q1 Q0 d1 1 0.5 ", " q1 Q0 d1 1 0.5 me"),
        *("# no", "q1 Q0 d1 1 nan me", 'q"1 Q0 d,1 1 1e-3 me', "q1 Q0 d1 1 0.5 me too", "q1 Q0 d1 1 0.5\rme"),
        *("q1 Q0 d1 1 x me", "", "q1 Q0 NA 1 +1 me", "q1 Q0 null 1 1_0 me", "q1 Q0 d\u00a01 1 -0 me"),
        *("q1 Q0 d1 1 inf me\r", "q1 Q0 d1  0.5 m"),
    ]
)


def parsed(path: Path, layout: trec.Layout) -> list[object]:
    """Return the fields of every block, or the error."""
    try:
        blocks = [trec._fields(lines, layout) for lines in read_lines(path)]
    except DataFileError as error:
        return [str(error)]
    return [
        [*zip(block.query.to_pylist(), block.item.to_pylist(), map(str, block.numbers.tolist()), strict=True)]
        + [block.place(index) for index in range(len(block.query))]
        for block in blocks
    ]


@pytest.mark.slow
@given(st.lists(LINES, min_size=1, max_size=4), st.sampled_from([trec.RUN, trec.QRELS, trec.MSMARCO]), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
def test_both_ways_agree(tmp_path: Path, lines: list[str], layout: trec.Layout, ends: bool) -> None:
    """Fields, numbers, places of lines and errors, whatever the lines hold."""
    width = len(layout.names)
    path = tmp_path / "lines"
    path.write_text("\n".join(" ".join(line.split(" ")[-width:]) for line in lines) + "\n" * ends)
    with pytest.MonkeyPatch.context() as patch:
        fast = parsed(path, layout)
        patch.setattr(trec, "even_columns", lambda *_: None)
        assert fast == parsed(path, layout)


def test_even_lines_are_cut_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One blank or one tab between fields is what programs write."""
    monkeypatch.setattr(trec, "_words", lambda *_: pytest.fail("the slow way was taken"))
    for blank in (" ", "\t"):
        path = tmp_path / "lines"
        path.write_text("\n".join(blank.join(("q1", "Q0", f"d{i}", "1", f"{i / 4}", "me")) for i in range(5)) + "\n")
        (block,) = (trec._fields(lines, trec.RUN) for lines in read_lines(path))
        assert block.item.to_pylist() == ["d0", "d1", "d2", "d3", "d4"]
        assert block.numbers.tolist() == [0, 0.25, 0.5, 0.75, 1]
