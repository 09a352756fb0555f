"""`--label-names` numbers the labels of files that name them: values by label follow
its order, as in `tm.evaluate`.
"""

import csv
import json

import numpy as np
import pandas as pd
import pytest
import torch

import tailmetrics as tm
from written import by_bucket_of, values_of

RUN = {"q0": {"d1": 0.9, "d2": 0.5, "d0": 0.5}, "q1": {"d3": 0.8, "d0": 0.7, "d1": 0.1}}
QRELS = {"q0": {"d2": 1, "d0": 1}, "q1": {"d0": 1}}
TRAIN = {"t0": {"d1": 1, "d3": 1}, "t1": {"d1": 1}}
NAMES = ["d2", "d4", "d0", "d3", "d1"]
"""The names of all labels, in no sorted order; d4 is in no file."""
THRESHOLDS = {"d0": 0.6, "d1": 2.0, "d2": 0.4, "d3": 2.0, "d4": 0.0}
WEIGHTS = {"d0": 3.0, "d1": 1.0, "d2": 5.0, "d3": 7.0, "d4": 9.0}
COUNTS = {"d0": 1, "d1": 9, "d2": 8, "d3": 0, "d4": 0}


def in_order_of_names(values):
    return [values[name] for name in NAMES]


def lines(data, column):
    return pd.DataFrame(
        [
            (query, item, value)
            for query, items in data.items()
            for item, value in items.items()
        ],
        columns=["query", "item", column],
    )


def write(path, data, column):
    """Write a run or targets in the format that the suffix names."""
    table = lines(data, column)
    if path.suffix == ".json":
        path.write_text(json.dumps(data))
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix == ".run":
        path.write_text(
            "".join(
                f"{query} Q0 {item} 1 {score} me\n"
                for query, item, score in table.to_numpy()
            )
        )
    elif path.suffix == ".qrels":
        path.write_text(
            "".join(
                f"{query} 0 {item} {int(gain)}\n"
                for query, item, gain in table.to_numpy()
            )
        )
    else:
        table.to_csv(path, index=False)
    return path


def write_lists(path, data, column):
    """Write a Parquet file with lists of labels and numbers for each query."""
    rows = [
        {"query": query, "labels": [*items], f"{column}s": [*items.values()]}
        for query, items in data.items()
    ]
    pd.DataFrame(rows).rename(
        columns={"labels": "ids"} if column == "score" else {}
    ).to_parquet(path)
    return path


def labels_of_buckets(report):
    return {
        bucket["name"]: bucket["labels"]
        for bucket in report["buckets"]
        if bucket["name"]
    }


@pytest.fixture
def files(tmp_path):
    """Return a function that writes files in a format, and returns the options that
    name them.
    """
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    np.save(tmp_path / "thresholds.npy", in_order_of_names(THRESHOLDS))
    np.save(tmp_path / "counts.npy", in_order_of_names(COUNTS))

    def files(form):
        suffixes = ("run", "qrels") if form == "trec" else (form, form)
        writer = write
        if form == "lists":
            suffixes, writer = ("parquet", "parquet"), write_lists
        preds = writer(tmp_path / f"p.{suffixes[0]}", RUN, "score")
        target = writer(tmp_path / f"y.{suffixes[1]}", QRELS, "gain")
        return [
            "--preds",
            preds,
            "--target",
            target,
            "--label-names",
            tmp_path / "names.txt",
        ]

    return files


@pytest.fixture
def metrics(config, tmp_path):
    """Return the options of a config whose metrics have a threshold and a weight for
    each label.
    """
    label_metrics = [
        ("F1AtThreshold", f"{{threshold: {tmp_path / 'thresholds.npy'}}}"),
        (
            "PropensityScoredRecallAtK",
            f"{{k: 2, weights: {in_order_of_names(WEIGHTS)}}}",
        ),
        ("CatalogCoverageAtK", "{k: 1}"),
        ("PrecisionAtK", "{k: 2}"),
    ]
    return ["--config", config(*label_metrics)]


EXPECTED = {
    # d2 of q0 and d0 of q1 are above their thresholds, and relevant; d0 of q0 is missed
    "micro_f1@t": 4 / 5,
    "catalog_coverage@1": 2 / 5,  # d1 and d3 of five
}
FORMS = ["csv", "json", "trec", "parquet", "lists"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("memory", [[], ["--memory", "64MiB"]], ids=["", "bounded"])
def test_values_by_label_follow_label_names(
    files, metrics, evaluated, tmp_path, form, memory
):
    """Thresholds and weights of a config follow the order of --label-names in every
    format, with and without a limit on memory. Values, also of equal scores, are those
    of dicts or tables in memory, and labels.csv has the names.
    """
    report = evaluated(*files(form), *metrics, *memory, "--labels")
    values = values_of(report)
    assert {key: values[key] for key in EXPECTED} == pytest.approx(EXPECTED)

    in_memory = [
        tm.F1AtThreshold(torch.tensor(in_order_of_names(THRESHOLDS))),
        tm.PropensityScoredRecallAtK(k=2, weights=in_order_of_names(WEIGHTS)),
        tm.CatalogCoverageAtK(k=1),
        tm.PrecisionAtK(k=2),
    ]
    run, qrels = RUN, QRELS
    if form in ("csv", "parquet"):
        run, qrels = lines(RUN, "score"), lines(QRELS, "gain")
    expected = tm.evaluate(
        run, qrels, metrics=in_memory, label_names=NAMES, intervals=False
    )
    if form != "lists":
        assert values == expected.scalars
    with open(tmp_path / "out" / "labels.csv", newline="") as file:
        supports = {row["name"]: int(row["support"]) for row in csv.DictReader(file)}
    assert {name: support for name, support in supports.items() if support} == {
        "d0": 2,
        "d2": 1,
    }


def test_thresholds_of_the_command_line_follow_label_names(files, evaluated, tmp_path):
    """A file of thresholds for a metric of the command line follows the order of
    --label-names.
    """
    words = [
        "--metrics+=F1AtThreshold",
        f"--metrics.threshold={tmp_path / 'thresholds.npy'}",
    ]
    assert values_of(evaluated(*files("csv"), *words))["micro_f1@t"] == pytest.approx(
        4 / 5
    )


@pytest.mark.parametrize("form", FORMS)
def test_label_counts_follow_label_names(files, config, evaluated, tmp_path, form):
    """Label counts in the order of --label-names give the values of counts by name.

    The documents d0 and d2 have equal scores for q0: dicts and TREC rank the last name
    first, and other formats the first.
    """
    words = [
        "--config",
        config(("RecallAtK", "{k: 2, buckets: 'thresholds:1,5', scope: global}")),
        *files(form),
    ]
    (tmp_path / "counts.csv").write_text("label,count\nd0,1\nd1,9\nd2,8\n")
    # d2 is in the first bucket, d0 in the second
    recalls = {"5+": 0.0, "1-4": 1.0, "unseen": None}
    if form in ("json", "trec"):
        recalls |= {"5+": 1.0, "1-4": 0.5}
    for counts in ("counts.npy", "counts.csv"):
        report = evaluated(*words, "--label-counts", tmp_path / counts)
        assert by_bucket_of(report)["global_recall@2"] == recalls
        assert labels_of_buckets(report) == {"5+": 2, "1-4": 1, "unseen": 2}


def test_label_names_join_counts_by_name_to_columns(write_files, evaluated, tmp_path):
    """Counts by name belong to the columns of a matrix that --label-names names: labels
    2 and 0 are recommended, with counts of 1 and 9.
    """
    (tmp_path / "names.txt").write_text("a\nb\nc\n")
    (tmp_path / "counts.csv").write_text("label,count\nc,1\na,9\n")
    words = [
        *write_files(preds=np.eye(3)[[2, 0]], target=np.array([1, 0])),
        "--label-names",
        tmp_path / "names.txt",
    ]
    words += [
        "--metrics+=PopularityAtK",
        "--metrics.k=1",
        "--label-counts",
        tmp_path / "counts.csv",
    ]
    assert values_of(evaluated(*words))["popularity@1"] == (1 + 9) / 2


def test_training_targets_and_a_tree_follow_label_names(
    files, config, evaluated, tmp_path
):
    """Training targets and a label tree by name follow --label-names, as in
    `tm.evaluate`.

    The label d4, which no file holds, is unseen.
    """
    train = write(tmp_path / "train.csv", TRAIN, "gain")
    (tmp_path / "tree.csv").write_text("child,parent\nd2,d1\n")
    metrics = [("NearMissAtK", "{k: 1}"), ("CatalogCoverageAtK", "{k: 1}")]
    words = [
        "--config",
        config(*metrics),
        *files("csv"),
        "--train-target",
        train,
        "--label-tree",
        tmp_path / "tree.csv",
    ]
    report = evaluated(*words, "--buckets", "thresholds:1,2")
    tree = tm.LabelTree.from_edges({"d2": "d1"}, sorted(NAMES))
    expected = tm.evaluate(
        lines(RUN, "score"),
        lines(QRELS, "gain"),
        metrics=[tm.NearMissAtK(k=1), tm.CatalogCoverageAtK(k=1)],
        label_names=NAMES,
        label_tree=tree,
    )
    assert {key: values_of(report)[key] for key in expected.scalars} == pytest.approx(
        expected.scalars
    )
    assert labels_of_buckets(report) == {"2+": 1, "1": 1, "unseen": 3}


def test_runs_are_compared_by_label_names(files, metrics, compared, tmp_path):
    """`compare` with --label-names applies thresholds by label to both runs: the second
    has 1 hit of 1 prediction and 3 relevant labels.
    """
    words = files("csv")
    other = write(
        tmp_path / "other.csv", {"q0": {"d0": 0.5}, "q1": {"d0": 0.9}}, "score"
    )
    values = compared(
        *words[:2], other, *words[2:], *metrics, "--names", "a", "b", "--resamples", 200
    )["micro_f1@t"]
    # 1 hit of 1 prediction and 3 relevant labels
    assert (values["baseline_value"], values["value"]) == pytest.approx((4 / 5, 1 / 2))


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["d0"], "label_names lacks 'd1', 'd2', 'd3', which the data hold"),
        (["d0", "d1", "d2", "d3", "d0"], "label_names holds 'd0' twice"),
        (
            ["d0", "d1", "d2", "d3"],
            "label_counts holds 5 labels, but label_names holds 4; pass a count for every label",
        ),
    ],
)
def test_label_names_that_do_not_fit_are_refused(
    files, metrics, tailmetrics, tmp_path, names, problem
):
    """--label-names that lacks a label of the data, repeats a name or has another
    number of names than there are counts is refused.
    """
    words = files("csv")
    (tmp_path / "names.txt").write_text("\n".join(names))
    status, out, err = tailmetrics(
        "evaluate", *words, *metrics, "--label-counts", tmp_path / "counts.npy"
    )
    problem, _, hint = problem.partition("; ")
    assert (status, out) == (2, "")
    assert problem in err
    assert hint in err


def test_label_names_must_hold_the_labels_of_training(
    files, metrics, tailmetrics, tmp_path
):
    """--label-names must hold the labels that only training targets or counts have; the
    error lists some of the missing ones.
    """
    words = [*files("csv"), *metrics]
    train = write(
        tmp_path / "train.csv",
        {**TRAIN, "t2": {f"e{number}": 1 for number in range(5)}},
        "gain",
    )
    (tmp_path / "counts.csv").write_text("label,count\nd0,1\nx,3\n")
    for option, path, labels in (
        ("--train-target", train, "'e0', 'e1', 'e2' and 2 more"),
        ("--label-counts", tmp_path / "counts.csv", "'x'"),
    ):
        status, _, err = tailmetrics("evaluate", *words, option, path)
        assert (
            status,
            f"label_names lacks {labels}, which the data hold\n" in err,
        ) == (2, True), err


def test_thresholds_by_label_of_named_labels_need_label_names(
    files, metrics, tailmetrics, evaluated
):
    """Thresholds by label are refused for labels with names; with --label-names, which
    the hint offers, the value is right.
    """
    words = files("csv")
    status, _, err = tailmetrics("evaluate", *words[:4], *metrics)
    assert status == 2
    assert (
        "F1AtThreshold has threshold= by label id, but the labels of these data have names"
        in err
    )
    assert "hint: pass label_names=, in whose order it is read" in err
    assert values_of(evaluated(*words, *metrics))["micro_f1@t"] == pytest.approx(4 / 5)


def test_whole_numbers_beside_label_names_are_names_by_default(
    write_files, tailmetrics, evaluated, config, tmp_path
):
    """With --label-names, whole numbers in lines are names and must be among them.

    With --string-ids false or --num-labels they are label ids, and another number of
    labels than names is refused.
    """
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    files = write_files(
        preds="query,item,score\na,0,2\na,3,1\n", target="query,item\na,3\n"
    )
    words = [
        "--config",
        config(("CatalogCoverageAtK", "{k: 2}")),
        *files,
        "--label-names",
        tmp_path / "names.txt",
    ]
    status, _, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert "--string-ids false" in err
    for options in (["--string-ids", "false"], ["--num-labels", 5]):
        assert values_of(evaluated(*words, *options))["catalog_coverage@2"] == 2 / 5
    status, _, err = tailmetrics("evaluate", *words, "--num-labels", 6)
    assert (status, "num_labels says 6 labels, but label_names holds 5" in err) == (
        2,
        True,
    )


def test_label_names_give_the_number_of_labels_of_id_arrays(
    tmp_path, tailmetrics, evaluated, config
):
    """For arrays of ids, --label-names gives the number of labels, and a larger id is
    refused.
    """
    np.save(tmp_path / "p.npy", [[0, 3, -1], [1, 2, 3]])
    np.save(tmp_path / "y.npy", [[3], [1]])
    words = [
        "--preds",
        tmp_path / "p.npy",
        "--target",
        tmp_path / "y.npy",
        "--label-names",
        tmp_path / "names.txt",
    ]
    words += ["--config", config(("CatalogCoverageAtK", "{k: 1}"))]
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    assert values_of(evaluated(*words))["catalog_coverage@1"] == 2 / 5
    (tmp_path / "names.txt").write_text("\n".join(NAMES[:3]))
    status, _, err = tailmetrics("evaluate", *words)
    assert (status, "holds the label id 3, but there are 3 labels" in err) == (2, True)


def test_num_labels_of_one_metric_applies_to_all(
    tmp_path, tailmetrics, evaluated, config
):
    """num_labels of one metric applies to all, if the files do not tell the number of
    labels.

    Different numbers, of metrics or of --num-labels, are refused.
    """
    np.save(tmp_path / "p.npy", [[0, 3, -1], [1, 2, 3]])
    np.save(tmp_path / "y.npy", [[3], [1]])
    words = ["--preds", tmp_path / "p.npy", "--target", tmp_path / "y.npy"]
    coverage = [
        ("CatalogCoverageAtK", "{k: 1, num_labels: 5}"),
        ("CatalogCoverageAtK", "{k: 2}"),
    ]
    assert values_of(evaluated(*words, "--config", config(*coverage))) == {
        "catalog_coverage@1": 2 / 5,
        "catalog_coverage@2": 4 / 5,
    }
    coverage[1] = ("CatalogCoverageAtK", "{k: 2, num_labels: 6}")
    status, _, err = tailmetrics("evaluate", *words, "--config", config(*coverage))
    assert status == 2
    assert (
        "another CatalogCoverageAtK was made for 6 labels, but CatalogCoverageAtK holds 5"
        in err
    )
    status, _, err = tailmetrics(
        "evaluate", *words, "--config", config(coverage[0]), "--num-labels", 7
    )
    assert status == 2
    assert (
        "CatalogCoverageAtK was made for 5 labels, but the data have 7\nhint: leave its num_labels out."
        in err
    )
