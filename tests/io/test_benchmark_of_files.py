"""The benchmark of files compares equal work, and its table shows what was measured."""

from pathlib import Path

import pytest

from benchmarks.files import __main__ as benchmark, data, rivals
from tailmetrics import NDCGAtK, RecallAtK, TopKCollection
from tailmetrics.io import read


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return files of thirty queries."""
    path = tmp_path_factory.mktemp("files")
    data.write(path, 30)
    return path


@pytest.mark.parametrize(
    "form", [form for form in rivals.SUFFIXES if form != "Parquet lists"]
)
def test_all_libraries_of_the_benchmark_give_equal_values(
    form: str, folder: Path
) -> None:
    """tailmetrics, one statement of SQL and pytrec_eval give equal values in every
    format.

    A recall between 0 and 1 shows that the ten items are neither all relevant nor all
    irrelevant.
    """
    metrics = TopKCollection([RecallAtK(k=10), NDCGAtK(k=10)])
    for batch in read(*rivals.files(form, folder)):
        metrics.update(batch.preds, batch.target)
    values = [float(value) for value in metrics.compute().values()]
    assert 0 < values[0] < 1
    for library in (benchmark.DUCKDB, benchmark.PYTREC_EVAL):
        assert list(
            rivals.WHO[library](form, *rivals.files(form, folder))
        ) == pytest.approx(values, rel=1e-6)


def test_list_columns_can_be_evaluated(folder: Path) -> None:
    """The benchmark's Parquet lists are valid input: the items of a row are distinct,
    and some but not all relevant items are retrieved.
    """
    (batch,) = read(*rivals.files("Parquet lists", folder), num_labels=data.ITEMS)
    retrieved = RecallAtK(k=data.DEPTH)
    retrieved.update(batch.preds, batch.target)
    assert 0 < float(retrieved.compute()) < 1


def measurement(seconds: dict[str, float]) -> dict[benchmark.Key, benchmark.Used]:
    """Return a measurement in which every library starts up in 2 s, and needs the
    seconds given for each multiple of the size.
    """
    sizes = {"start": 0.0, "1/10 ×": 0.1, "1 ×": 1.0, "4 ×": 4.0, "16 ×": 16.0}
    return {
        (library, form, size): benchmark.Used(
            2 + seconds.get(library, 1.0) * factor, 500 + 10 * factor
        )
        for size, factor in sizes.items()
        for form in rivals.SUFFIXES
        for library in benchmark._who(form, size)
    }


def test_the_table_subtracts_start_up_times() -> None:
    """The table compares times without start-up: 3 s beyond it are three times 1 s, and
    ranx, which runs on a tenth of the data, is compared with a tenth.
    """
    measured = measurement({benchmark.OURS: 3.0, benchmark.RANX: 30.0})
    lines = benchmark._table(measured, benchmark.SIZES).splitlines()
    assert lines[2] == "| TREC | 12,800,000 | 48 | 660 | 3 | 3 | 0.1 | – |"
