"""`tailmetrics compare` refuses tables that are not about the same data, and says in
what they differ.
"""

import json

import numpy as np
import pytest

from cli.long_tail import write_lists

METRICS = [
    ("RecallAtK", "{k: 3}"),
    ("RecallAtK", "{k: 3, buckets: deciles, scope: global}"),
]


@pytest.fixture(scope="module")
def files(data_set, tmp_path_factory):
    """Return other predictions and targets of the same rows, reversed counts, and a
    filter.
    """
    folder = tmp_path_factory.mktemp("identity")
    np.save(folder / "reversed.npy", np.load(data_set.counts)[::-1])
    (folder / "filter.txt").write_text("0 3\n1 4\n")
    return {
        "preds": write_lists(
            folder / "p.parquet", ids=data_set.candidates, scores=data_set.scores[::-1]
        ),
        "target": write_lists(folder / "y.parquet", labels=data_set.relevant[::-1]),
        "label_counts": folder / "reversed.npy",
        "filter": folder / "filter.txt",
    }


@pytest.fixture
def table(data_set, files, config, tailmetrics, tmp_path):
    """Return a function that evaluates into a table of values per row.

    Options replace those of the data set, and None leaves one out.
    """

    def table(name, metrics=METRICS, **changed):
        path = tmp_path / f"{name}.parquet"
        options = {
            "preds": data_set.preds,
            "target": data_set.target,
            "label_counts": data_set.counts,
            "num_train": 240,
        }
        options |= {"filter": files["filter"], **changed}
        pairs = (
            (f"--{name.replace('_', '-')}", value)
            for name, value in options.items()
            if value is not None
        )
        words = [
            *(word for pair in pairs for word in pair),
            "--config",
            config(*metrics),
            "--per-row",
            path,
            "--quiet",
        ]
        assert tailmetrics("evaluate", *words)[0] == 0
        return path

    return table


def test_runs_with_other_predictions_and_batches_are_compared(
    files, table, tailmetrics, tmp_path
):
    """Tables of other predictions for the same targets, evaluated in other batches, are
    compared without a message.
    """
    first, second = table("one"), table("other", preds=files["preds"], batch_rows=7)
    assert tailmetrics("compare", first, second, "--quiet")[::2] == (0, "")


@pytest.mark.parametrize(
    ("difference", "option"),
    [
        ("targets", "target"),
        ("buckets", "label_counts"),
        ("options (filter)", "filter"),
    ],
)
def test_tables_of_other_targets_buckets_or_filters_are_refused(
    files, table, tailmetrics, tmp_path, difference, option
):
    """Tables with other targets, buckets or filters are refused: the error names the
    difference, and no value is printed or written.
    """
    metrics = [*METRICS, ("HitRateAtK", "{k: 1}")]
    changed = {option: None if option == "filter" else files[option]}
    first, second = (
        table("one", metrics),
        table("other", metrics, preds=files["preds"], **changed),
    )
    status, out, err = tailmetrics(
        "compare", first, second, "--out", tmp_path / "compared"
    )
    assert (status, out) == (2, "")
    assert f"error: compare: 'one' and 'other' have different {difference}" in err
    assert "hint: evaluate both on the same targets" in err
    assert not (tmp_path / "compared").exists()


def test_tables_with_missing_queries_skipped_and_counted_are_refused(
    write_files, evaluated, compared, tailmetrics, tmp_path
):
    """If a query lacks predictions, a table of --missing skip and one of --missing zero
    have different rows and are refused. A run with all queries has the same table with
    both, and is compared.
    """
    skip, zero, full = (
        tmp_path / f"{name}.parquet" for name in ("skip", "zero", "full")
    )
    words = [
        *write_files(target="query,item\na,x\nb,x\n"),
        "--metrics",
        "[{class_path: MRR}]",
    ]
    words += write_files(preds="query,item,score\na,x,1\n")
    for table in (skip, zero):
        evaluated(*words, "--missing", table.stem, "--per-row", table)
    status, _, err = tailmetrics("compare", skip, zero)
    assert (status, "skip lacks 1 of the 2 queries" in err) == (2, True)
    assert "averages over labels also by the number of rows" in err
    assert (
        "; evaluate --missing zero --per-row counts queries that a run lacks as 0."
        in err
    )
    write_files(preds="query,item,score\na,x,1\nb,x,1\n")
    for missing in ("skip", "zero"):
        evaluated(*words, "--missing", missing, "--per-row", full)
        compared(full, zero, "--resamples", 100)


@pytest.mark.parametrize(
    "arguments", ["k: 3, empty_target_action: skip", "k: 2", "k: 3, ties: expected"]
)
def test_metrics_of_one_name_and_other_arguments_are_refused(
    table, tailmetrics, arguments
):
    """Two metrics of the same name that differ in an argument are refused, and the
    error gives the values of k if these differ.
    """
    first = table("one", [("RecallAtK", "{k: 3, name: mine}")])
    second = table("two", [("RecallAtK", f"{{{arguments}, name: mine}}")])
    status, _, err = tailmetrics("compare", first, second)
    assert status == 2
    assert "different arguments of 'mine'" in err
    assert (" (k=3, k=2)" in err) == (arguments == "k: 2")


@pytest.mark.filterwarnings("always:compare. the threshold")
def test_runs_with_different_thresholds_are_compared_with_a_warning(
    write_files, evaluated, tailmetrics, tmp_path
):
    """Two runs with different thresholds are compared.

    A warning on the terminal and in the report gives the threshold of each.
    """
    words = write_files(
        preds=np.array([[0.9, 0.7], [0.1, 0.7]]),
        target=np.array([[True, False], [False, True]]),
    )
    tables = [tmp_path / f"{name}.parquet" for name in ("low", "high")]
    for table, cut in zip(tables, (0.6, 0.8), strict=True):
        metric = [
            "--metrics+=F1AtThreshold",
            f"--metrics.threshold={cut}",
            "--metrics.name=f1",
        ]
        evaluated(*words, *metric, "--per-row", table)
    status, _, err = tailmetrics("compare", *tables, "--out", tmp_path / "compared")
    problem = "the threshold of 'f1' is 0.6 in 'low', 0.8 in 'high'"
    assert (status, f"warning: compare: {problem}" in err) == (0, True), err
    assert (
        problem
        in json.loads((tmp_path / "compared" / "compare.json").read_text())["warnings"][
            0
        ]
    )


def test_runs_that_number_labels_differently_are_compared(
    write_files, config, evaluated, compared, tmp_path
):
    """Two runs whose labels have the same names and other numbers, because one run has
    an additional label, are compared.
    """
    words = [
        *write_files(
            target="query,item\na,x\nb,y\n", label_counts="label,count\nx,5\ny,2\n"
        ),
        "--num-labels",
        9,
    ]
    tables = [tmp_path / f"{name}.parquet" for name in ("one", "two")]
    for table, lines in zip(
        tables, ("a,x,1\nb,x,1\n", "a,a new one,2\na,x,1\nb,y,1\n"), strict=True
    ):
        further_options = [
            *write_files(preds=f"query,item,score\n{lines}"),
            "--string-ids",
            "true",
            "--config",
            config(*METRICS),
        ]
        evaluated(*words, *further_options, "--per-row", table)
    compared(*tables)
