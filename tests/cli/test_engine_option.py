"""`--engine`: what it does not give is refused before anything is read."""

import pytest


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--per-row", "rows.parquet"], "--per-row is not possible"),
        (["--intervals"], "--intervals is not possible"),
    ],
)
def test_what_needs_values_per_row(tailmetrics, tmp_path, monkeypatch, words, problem):
    """Values per row stay where the rows are."""
    monkeypatch.chdir(tmp_path)
    files = ["--preds", "p.parquet", "--target", "y.parquet", "--preset", "recsys", "--engine", "ray"]
    status, _, err = tailmetrics("evaluate", *files, *words)
    assert (status, problem in err, "hint: leave" in err) == (2, True, True)


def test_lines_that_name_their_query(tailmetrics, tmp_path, monkeypatch):
    """A share of such lines cannot be evaluated alone."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.run").write_text("q Q0 d 1 1 me\n")
    status, _, err = tailmetrics(
        "evaluate", "--preds", "p.run", "--target", "y", "--preset", "retrieval", "--engine", "dask"
    )
    assert (status, "p.run: lines name their query" in err) == (2, True)
