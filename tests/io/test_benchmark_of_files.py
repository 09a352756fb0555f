"""The benchmark of files compares like with like, and its table says what was measured."""

from pathlib import Path

import pytest

from benchmarks.files import __main__ as benchmark
from benchmarks.files import data, rivals
from tailmetrics import NDCGAtK, RecallAtK, TopKCollection
from tailmetrics.io import read


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return files of thirty queries."""
    where = tmp_path_factory.mktemp("files")
    data.write(where, 30)
    return where


@pytest.mark.parametrize("form", [form for form in rivals.SUFFIXES if form != "Parquet lists"])
def test_everybody_finds_the_same_numbers(form: str, folder: Path) -> None:
    """tailmetrics, one statement of SQL and pytrec_eval, in every format; the ten items were made so that some miss."""
    metrics = TopKCollection([RecallAtK(k=10), NDCGAtK(k=10)])
    for batch in read(*rivals.files(form, folder)):
        metrics.update(batch.preds, batch.target)
    found = [float(value) for value in metrics.compute().values()]
    assert 0 < found[0] < 1
    for who in (benchmark.DUCKDB, benchmark.PYTREC_EVAL):
        assert list(rivals.WHO[who](form, *rivals.files(form, folder))) == pytest.approx(found, rel=1e-6)


def test_list_columns_can_be_evaluated(folder: Path) -> None:
    """Items of a row are distinct, and half of the relevant ones are retrieved."""
    (batch,) = read(*rivals.files("Parquet lists", folder), num_labels=data.ITEMS)
    retrieved = RecallAtK(k=data.DEPTH)
    retrieved.update(batch.preds, batch.target)
    assert 0 < float(retrieved.compute()) < 1


def used(seconds: dict[str, float]) -> dict[benchmark.Key, benchmark.Used]:
    """Return a measurement in which everybody has the same start-up of 2 s, and these seconds beyond it per × 1."""
    sizes = {"start": 0.0, "1/10 ×": 0.1, "1 ×": 1.0, "4 ×": 4.0, "16 ×": 16.0}
    return {
        (who, form, size): benchmark.Used(2 + seconds.get(who, 1.0) * times, 500 + 10 * times)
        for size, times in sizes.items()
        for form in rivals.SUFFIXES
        for who in benchmark._who(form, size)
    }


def test_the_table_takes_start_up_off() -> None:
    """3 s beyond start-up are thrice 1 s; the ranx of a tenth is held against a tenth."""
    found = used({benchmark.OURS: 3.0, benchmark.RANX: 30.0})
    lines = benchmark._table(found, benchmark.SIZES).splitlines()
    assert lines[2] == "| TREC | 12,800,000 | 48 | 660 | 3 | 3 | 0.1 | – |"
