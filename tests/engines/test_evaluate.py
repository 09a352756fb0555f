"""`Cluster.evaluate` gives the report of all rows at once from the parts of a data set,
and does not retry errors.
"""

import pickle
import sys
import zlib
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch

import tailmetrics
from tailmetrics import F1AtK, LabelBuckets, LabelFrequency, NDCGAtK, RecallAtK
from tailmetrics.engines.cluster import Work
from tailmetrics.engines.dask import DaskCluster

ROWS, LABELS = 700, 30


def table():
    """Return rows of different lengths: ids with scores in any order, relevant labels
    with gains, and a group or none.
    """
    rng = np.random.default_rng(0)
    ids = [rng.permutation(LABELS)[: rng.integers(0, 9)].tolist() for _ in range(ROWS)]
    labels = [
        rng.permutation(LABELS)[: rng.integers(0, 4)].tolist() for _ in range(ROWS)
    ]
    return pa.table(
        {
            "ids": pa.array(ids, pa.list_(pa.int64())),
            "scores": pa.array([rng.integers(0, 4, len(row)).astype(float).tolist() for row in ids], pa.list_(pa.float64())),
            "labels": pa.array(labels, pa.list_(pa.int32())),
            "gains": pa.array([(1.0 + np.arange(len(row)) % 3).tolist() for row in labels], pa.list_(pa.float64())),
            "language": [["en", "de", None][number % 3] for number in range(ROWS)],
        }
    )  # fmt: skip


TABLE = table()
METRICS = [
    RecallAtK(k=[1, 5], buckets="deciles"),
    NDCGAtK(k=5, row_groups=["de", "en"]),
    F1AtK(k=3, average="macro"),
]
COUNTS = LabelFrequency(LABELS)
COUNTS.update(TABLE["labels"])


def padded(column, fill):
    """Return a column of lists as a padded matrix."""
    lists = TABLE[column].to_pylist()
    width = max(map(len, lists))
    return torch.tensor([ids + [fill] * (width - len(ids)) for ids in lists])


def gains():
    """Return the gains as a matrix of all labels."""
    matrix = torch.zeros(ROWS, LABELS, dtype=torch.float64)
    for row, (ids, values) in enumerate(
        zip(TABLE["labels"].to_pylist(), TABLE["gains"].to_pylist(), strict=True)
    ):
        matrix[row, ids] = torch.tensor(values, dtype=torch.float64)
    return matrix


def parts(size, form="arrow"):
    """Return the rows in parts of a size, with a part without rows after the first."""
    tables = [TABLE.slice(start, size) for start in range(0, ROWS, size)]
    tables.insert(1, TABLE.slice(0, 0))
    return [part.to_pandas() for part in tables] if form == "pandas" else tables


@pytest.mark.parametrize(
    ("form", "size"), [("arrow", 50), ("pandas", 300), ("arrow", ROWS)]
)
def test_parts_of_any_size_give_the_report_of_all_rows(alone, form, size):
    """Parts of any size, of Arrow or pandas, give the values, counts, settings and
    notes of ``tailmetrics.evaluate`` of tensors, to the last bit.
    """
    names = {"scores": "scores", "gains": "gains", "row_groups": "language"}
    report = alone.evaluate(
        parts(size, form), METRICS, label_counts=COUNTS, labels=True, **names
    )
    groups = [
        "none" if language is None else language
        for language in TABLE["language"].to_pylist()
    ]
    numbers = torch.tensor([{"de": 0, "en": 1, "none": -1}[group] for group in groups])
    preds = padded("scores", float("-inf")), padded("ids", -1)
    expected = tailmetrics.evaluate(
        preds,
        gains(),
        metrics=METRICS,
        label_counts=COUNTS,
        labels=True,
        row_groups=numbers,
    )
    assert report.as_dict() == expected.as_dict()
    assert [row.rows for row in report.row_groups] == [
        int((numbers == number).sum()) for number in (0, 1)
    ]


def test_ids_without_scores_are_ranked_best_first(alone):
    """Without scores the first id of a row is the best, and without gains every label
    has a gain of 1.

    The columns have default names.
    """
    report = alone.evaluate(parts(100), METRICS[:1], label_counts=COUNTS)
    expected = tailmetrics.evaluate(
        padded("ids", -1),
        padded("labels", -1),
        metrics=METRICS[:1],
        label_counts=COUNTS,
    )
    assert report.as_dict() == expected.as_dict()


def test_a_report_holds_a_warning_of_several_parts_once(alone):
    """A warning that several parts bring, here of lists that hold all labels, is in the
    report once, in the words of one process.
    """
    ids = [np.roll(range(LABELS), row).tolist() for row in range(64)]
    rows = pa.table({"ids": ids, "labels": [[row % LABELS] for row in range(64)]})
    tables = [rows.slice(start, 24) for start in range(0, 64, 24)]
    report = alone.evaluate(tables, METRICS[:1], label_counts=COUNTS)
    expected = tailmetrics.evaluate(
        rows["ids"], rows["labels"], metrics=METRICS[:1], label_counts=COUNTS
    )
    assert report.as_dict() == expected.as_dict()
    assert (
        sum(
            "preds, int64 [N, 30], hold each number from 0 to 29 once" in text
            for text in report.warnings
        )
        == 1
    )


def test_training_counts_of_parts_equal_those_of_one_pass(alone):
    """Training labels that are counted by parts give the counts, rows and deciles of
    one pass.
    """
    frequency = alone.count_labels(parts(90), LABELS)
    assert torch.equal(frequency.compute(), COUNTS.compute())
    assert (frequency.num_rows, frequency.deciles()) == (ROWS, COUNTS.deciles())


def test_a_data_set_without_rows_gives_a_report_of_no_rows(alone):
    """A data set without rows gives a report of 0 rows."""
    assert alone.evaluate([TABLE.slice(0, 0)], METRICS, label_counts=COUNTS).rows == 0


@pytest.mark.parametrize(
    "names", [{"preds": "pred"}, {"scores": "score"}, {"target": "label"}]
)
def test_a_missing_column_is_refused_before_any_task(alone, names):
    """A column that the data set lacks is refused before any task starts, and the error
    lists the columns.
    """
    (wrong,) = names.values()
    with pytest.raises(
        ValueError,
        match=f"evaluate: there is no column '{wrong}'; name one of 'ids', 'scores'",
    ):
        alone.evaluate(parts(100), METRICS, label_counts=COUNTS, **names)
    assert alone.tasks == 0


def test_an_error_of_a_part_is_raised_unchanged(alone):
    """An error in a part is raised unchanged.

    The task returns it as a result, so that all three tasks run once and no engine
    tries it again.
    """
    wrong = TABLE.set_column(2, "labels", pa.array([[LABELS]] * ROWS))
    with pytest.raises(
        ValueError, match="target_ids holds the id 30, but there are 30 labels"
    ):
        alone.evaluate([TABLE, wrong, TABLE], METRICS[:1], label_counts=COUNTS)
    assert alone.tasks == 3
    with pytest.raises(ValueError, match="row_groups holds 'en', which is none of de"):
        alone.evaluate(
            [TABLE], [NDCGAtK(k=5, row_groups=["de"])], row_groups="language"
        )


def results_of(alone, parts, metrics, **arguments):
    """Return the results of the tasks, and the report."""
    results = []

    class Watched(type(alone)):
        def _task(self, pickled_work):
            work = super()._task(pickled_work)
            return lambda batches: results.append(work(batches)) or results[-1]

    return results, Watched().evaluate(parts, metrics, **arguments)


def test_task_results_are_small_at_a_million_labels(alone):
    """At a million labels the result of a task with recall, ties and counts has less
    than 3,400 bytes.
    """
    labels = 1_000_000
    counts = torch.arange(labels).flip(0) // 100
    # distinct, as the factor is coprime
    ids = (torch.arange(40_000) * 48_611 % labels).reshape(2000, 20)
    rows = pa.table({"ids": ids.tolist(), "labels": ids[:, ::7].tolist()})
    (result,), report = results_of(
        alone,
        [rows],
        [RecallAtK(k=5)],
        buckets=LabelBuckets.deciles(counts),
        intervals=False,
    )
    assert len(result) < 3_400
    assert report.positives == 2000 * 3


def test_task_results_hold_no_pickled_objects(alone):
    """The result of a task is loaded with weights_only=True, so that a result with a
    pickled collection is refused.
    """
    (result, *_), _ = results_of(
        alone, parts(300), METRICS, label_counts=COUNTS, row_groups="language"
    )
    content = torch.load(BytesIO(zlib.decompress(result)), weights_only=True)
    assert {type(value) for value in content["states"].values()} == {
        torch.Tensor,
        str,
        list,
    }

    file = BytesIO()
    torch.save({"states": tailmetrics.TopKCollection(METRICS)}, file)
    with pytest.raises(pickle.UnpicklingError, match="weights_only|Weights only"):
        Work(LabelFrequency(LABELS), [], print).merged([zlib.compress(file.getvalue())])


@pytest.mark.parametrize("form", ["arrow", "pandas"])
def test_lists_converted_to_text_are_refused(alone, form):
    """A column of lists that Dask has converted to text is refused, and the error names
    the setting of Dask that does this.
    """
    text = TABLE.set_column(
        0, "ids", pa.array([str(ids) for ids in TABLE["ids"].to_pylist()])
    )
    if form == "pandas":
        text = text.to_pandas().astype({"ids": "string"})
    message = r"column 'ids' holds text, such as '\[.*\]'; it needs lists of numbers. Dask .*dataframe.convert-string"
    with pytest.raises(ValueError, match=message):
        alone.evaluate([text], METRICS, label_counts=COUNTS)


def test_dask_gets_tasks_before_workers_join(monkeypatch):
    """A Dask cluster whose workers have not yet joined gets at least one task, so that
    a cluster that grows on demand starts.
    """
    distributed = SimpleNamespace(get_client=lambda: SimpleNamespace(nthreads=dict))
    monkeypatch.setitem(sys.modules, "distributed", distributed)
    assert DaskCluster().connect() > 0
