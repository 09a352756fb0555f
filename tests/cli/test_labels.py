"""Items become labels by one numbering of predictions, targets, training and counts,
without labels that no file holds.
"""

import json
import random
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from written import values_of

QUERIES, LISTED, CATALOGUE = 40, 5, 30


class Logs:
    """Interactions of users with items whose ids have gaps, in three files of scores,
    targets and training.
    """

    def __init__(self, folder, seed=0):
        source = random.Random(seed)
        items = [*sorted(source.sample(range(1, 5000), CATALOGUE - 1)), 163949]
        self.train = [
            (user, item)
            for user in range(QUERIES)
            for item in source.sample(items[::-1], 6)
        ]
        self.scores = {
            user: {item: source.random() for item in source.sample(items, LISTED)}
            for user in range(QUERIES)
        }
        self.target = {user: source.sample(items, 3) for user in range(QUERIES)}
        self.items = {item for _, item in self.train}
        self.items |= {
            item
            for listed in (*self.scores.values(), *self.target.values())
            for item in listed
        }
        self.folder = folder

    def lines(self, name):
        """Return the lines of a file: tuples of user, item and, for predictions,
        score.
        """
        if name == "p":
            return [
                (user, item, score)
                for user, by in self.scores.items()
                for item, score in by.items()
            ]
        return (
            self.train
            if name == "train"
            else [(user, item) for user, by in self.target.items() for item in by]
        )

    def write(self, form):
        """Write the three files and return the options that name them."""
        paths = {name: self.folder / f"{name}.{form}" for name in ("p", "y", "train")}
        for name, path in paths.items():
            rows = self.lines(name)
            if form == "jsonl":
                names = ("query", "item", "score")
                path.write_text(
                    "".join(
                        json.dumps(dict(zip(names, row, strict=False))) + "\n"
                        for row in rows
                    )
                )
            elif form == "csv":
                header = "query,item,score\n" if name == "p" else "query,item\n"
                path.write_text(
                    header + "".join(",".join(map(str, row)) + "\n" for row in rows)
                )
            elif form == "trec":
                pattern = "{0} Q0 {1} 0 {2} me\n" if name == "p" else "{0} 0 {1} 1\n"
                path.write_text("".join(pattern.format(*row) for row in rows))
            else:
                self.write_lists(name, path)
        return [
            "--preds",
            paths["p"],
            "--target",
            paths["y"],
            "--train-target",
            paths["train"],
        ]

    def write_lists(self, name, path):
        """Write a file as Parquet, one row for each user."""
        by_user = {
            user: [row[1] for row in self.lines(name) if row[0] == user]
            for user in range(QUERIES)
        }
        columns = {"ids" if name == "p" else "labels": list(by_user.values())}
        if name == "p":
            columns["scores"] = [list(self.scores[user].values()) for user in by_user]
        pq.write_table(pa.table(columns), path)


METRICS = [
    ("CatalogCoverageAtK", "{k: 2}"),
    ("GiniAtK", "{k: 2}"),
    ("PopularityAtK", "{k: 2}"),
    ("RecallAtK", "{k: 2, buckets: deciles, scope: global}"),
]


def recommended(logs):
    """Return the two best items of each user."""
    return [
        item
        for by in logs.scores.values()
        for item in sorted(by, key=by.get, reverse=True)[:2]
    ]


def expected(logs):
    """Return coverage, Gini and popularity by their definitions."""
    counts = Counter(recommended(logs))
    ascending = sorted(counts.get(item, 0) for item in logs.items)
    total, n = sum(ascending), len(ascending)
    gini = sum(
        (2 * (place + 1) - n - 1) * count for place, count in enumerate(ascending)
    ) / (n * total)
    trained = Counter(item for _, item in logs.train)
    popularity = sum(trained[item] for item in recommended(logs)) / (2 * QUERIES)
    return {
        "catalog_coverage@2": len(counts) / n,
        "gini@2": gini,
        "popularity@2": popularity,
    }


@pytest.mark.parametrize(
    ("form", "strings"), [("csv", []), ("jsonl", []), ("csv", ["--string-ids", "true"]), ("trec", []),
                          ("trec", ["--string-ids", "true"]), ("parquet", ["--string-ids", "true"])]
)  # fmt: skip
@pytest.mark.slow
def test_ids_with_gaps_become_labels_only_if_a_file_holds_them(
    tmp_path, config, tailmetrics, form, strings
):
    """Coverage, Gini, popularity and the sizes of buckets are those of the 30 items in
    the files, whatever their ids.

    With a label for every number up to 163,949, coverage would be 5,000 times smaller.
    A note says how whole numbers are read if neither the user nor the format decides.
    """
    logs = Logs(tmp_path)
    words = ["--config", config(*METRICS), *logs.write(form), *strings]
    status, _, err = tailmetrics("evaluate", *words, "--out", tmp_path / "out")
    note = "each a label of its own, as --string-ids true says; --num-labels L alone makes them label ids from 0 to L - 1"
    assert (status, note in err) == (0, not strings and form != "trec")
    content = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {key: values_of(content)[key] for key in expected(logs)} == pytest.approx(
        expected(logs), abs=1e-12
    )
    assert sum(bucket["labels"] for bucket in content["buckets"]) == CATALOGUE


def test_label_ids_with_gaps_bring_a_warning(tmp_path, config, evaluated):
    """Lists of whole numbers are label ids. If most of them never occur in training, a
    warning offers --string-ids.
    """
    warning = (
        f"{163950 - CATALOGUE:,} of 163,950 labels never occur in training. If the numbers of labels have gaps, each "
        "number met should be one label: add --string-ids true; --num-labels is then the size of the catalogue."
    )
    evaluated(
        "--config",
        config(*METRICS),
        *Logs(tmp_path).write("parquet"),
        "--num-labels",
        163950,
        warns=[warning],
    )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_counts_by_name_give_the_report_of_training_targets(
    tmp_path, config, evaluated, form
):
    """With --string-ids true, --label-counts by name gives the report of
    --train-target, in whatever order the file lists the labels.
    """
    logs = Logs(tmp_path)
    files = logs.write(form)
    counts = Counter(item for _, item in logs.train)
    lines = [
        f"{item},{count}\n"
        for item, count in sorted(counts.items(), key=lambda pair: -pair[0])
    ]
    (tmp_path / "counts.csv").write_text("label,count\n" + "".join(lines))
    common = ["--config", config(*METRICS), *files[:4], "--string-ids", "true"]
    report = evaluated(*common, *files[4:], warns=())
    counted_report = evaluated(
        *common, "--label-counts", tmp_path / "counts.csv", warns=()
    )
    # counts are not among the readings, and have no queries that a filter could use
    notes = [warning for warning in report["warnings"] if "--filter" not in warning]
    assert counted_report == {
        **report,
        "readings": report["readings"][:2],
        "warnings": notes,
    }
    assert values_of(report)["popularity@2"] == pytest.approx(
        expected(logs)["popularity@2"], abs=1e-12
    )


@pytest.mark.parametrize(
    ("form", "suffix"), [("csv", "npy"), ("trec", "txt"), ("parquet", "csv")]
)
def test_counts_in_the_order_of_ids_are_refused_for_named_labels(
    tmp_path, config, tailmetrics, form, suffix
):
    """Counts in the order of label ids are refused if labels have names, because names
    have no agreed order.

    The hint offers --label-names, --train-target and counts by name.
    """
    counts = [3] * CATALOGUE
    path = tmp_path / f"counts.{suffix}"
    if suffix == "npy":
        np.save(path, counts)
    else:
        path.write_text(
            ("count\n" if suffix == "csv" else "") + "\n".join(map(str, counts)) + "\n"
        )
    words = [
        "--config",
        config(METRICS[2]),
        *Logs(tmp_path).write(form)[:4],
        "--label-counts",
        path,
    ]
    status, out, err = tailmetrics("evaluate", *words, "--string-ids", "true")
    assert (status, out) == (2, "")
    assert (
        f"counts.{suffix}: holds counts in the order of label ids, but the labels are names, such as '"
        in err
    )
    assert (
        "hint: give --label-names in this order, or --train-target, or counts as CSV with the columns label and count."
    ) in err


def test_the_hint_on_counts_by_id_names_their_file(tmp_path, tailmetrics):
    """Counts by label id make items label ids, so that files with names are refused.

    The hint names the file of counts and asks for a CSV file by name, which gives the
    value.
    """
    (tmp_path / "preds.csv").write_text("query,item,score\nq,tea,.9\nq,jam,.5\n")
    (tmp_path / "target.csv").write_text("query,item\nq,jam\n")
    files = ["--preds", tmp_path / "preds.csv", "--target", tmp_path / "target.csv"]
    words = [
        "evaluate",
        *files,
        "--metrics+=PopularityAtK",
        "--metrics.k=1",
        "--label-counts",
    ]
    np.save(tmp_path / "counts.npy", [1, 3])
    status, out, err = tailmetrics(*words, tmp_path / "counts.npy")
    assert (status, out) == (2, "")
    assert (
        "counts.npy has counts by label id; write them as CSV with the columns label and count."
        in err
    )
    (tmp_path / "counts.csv").write_text("label,count\njam,1\ntea,3\n")
    status, out, _ = tailmetrics(*words, tmp_path / "counts.csv")
    assert status == 0 and re.search(r"popularity@1 +3\b", out)


def test_counts_in_the_order_of_ids_make_items_label_ids(
    write_files, config, evaluated
):
    """The number of counts is the number of labels, so that whole numbers in a CSV file
    are label ids: item 3 has a count of 7.
    """
    files = write_files(
        preds="query,item,score\na,0,1\na,3,2\n",
        target="query,item\na,3\n",
        label_counts=[5, 1, 1, 7],
    )
    report = evaluated(
        "--config",
        config(("PopularityAtK", "{k: 1}")),
        *files,
        "--num-train",
        9,
        warns=(),
    )
    assert values_of(report)["popularity@1"] == 7


def test_the_catalogue_is_label_names_or_num_labels(
    tmp_path, write_files, config, evaluated
):
    """The catalogue of named items is given by --label-names or by --num-labels: 2 of 8
    items are recommended.
    """
    (tmp_path / "all.txt").write_text(
        "".join(f"{number}\n" for number in range(0, 80, 10))
    )
    files = write_files(
        preds="query,item,score\na,70,1\na,30,2\n", target="query,item\na,30\n"
    )
    words = ["--config", config(("CatalogCoverageAtK", "{k: 2}")), *files]
    for options in (
        ["--label-names", tmp_path / "all.txt"],
        ["--string-ids", "true", "--num-labels", 8],
    ):
        report = evaluated(*words, *options, warns=())
        assert values_of(report)["catalog_coverage@2"] == 0.25


@pytest.mark.parametrize(
    ("files", "options", "error"),
    [
        (
            {},
            ["--num-labels", 4],
            "target.csv, query 'a': has the label id 9, but --num-labels says 4\n",
        ),
        (
            {"label_counts": [5, 1, 1, 7]},
            [],
            "target.csv, query 'a': has the label id 9, but label_counts.npy has 4\n",
        ),
        (
            {"label_names": "x\ny\n"},
            ["--string-ids", "false"],
            "label_names.csv has 2\n",
        ),
    ],
)
def test_the_error_for_a_too_large_label_id_names_the_source_of_the_limit(
    write_files, config, tailmetrics, files, options, error
):
    """The error for a label id that is too large names what gives the number of labels:
    --num-labels, the file of counts or that of names.
    """
    lines = {"preds": "query,item,score\na,0,1\na,3,2\n", "target": "query,item\na,9\n"}
    words = write_files(**lines, **files)
    status, _, err = tailmetrics(
        "evaluate", "--config", config(("MRR", "{}")), *words, *options
    )
    assert status == 2
    assert error in err


def test_training_targets_with_other_columns_are_refused(
    write_files, config, tailmetrics
):
    """Training targets with another number of columns than the predictions are refused,
    and the error names both.
    """
    words = write_files(
        preds=[[0.5, 0.2, 0.1]],
        target=[[True, False, True]],
        train_target=[[True, False]],
    )
    status, _, err = tailmetrics("evaluate", "--config", config(("MRR", "{}")), *words)
    assert (
        status,
        "train_target has 2 columns, but preds has 3; pass a column for every"
        in err.replace("\nhint: ", "; "),
    ) == (2, True)


def test_a_comparison_numbers_the_items_of_all_files_together(
    tmp_path, config, tailmetrics
):
    """`compare` numbers the items of all files together, so that two runs that list
    different items have the same catalogue, and one note describes it.
    """
    files = Logs(tmp_path).write("csv")
    (tmp_path / "q.csv").write_text(
        "query,item,score\n" + "".join(f"{user},163949,1\n" for user in range(QUERIES))
    )
    words = [
        "--config",
        config(METRICS[3]),
        "--preds",
        files[1],
        tmp_path / "q.csv",
        *files[2:],
        "--resamples",
        400,
    ]
    status, _, err = tailmetrics("compare", *words)
    assert (status, err.count("each a label of its own")) == (0, 1), err
    assert "30 whole numbers from" in err


def test_hints_on_ids_with_gaps_lead_to_a_value(tmp_path, tailmetrics):
    """The hints on ids with gaps lead to a value, for lists beside tables and for
    tables with --num-labels: recall of 2 of 3 users is 0.6667.
    """
    (tmp_path / "y.csv").write_text("userId,movieId\n1,38\n2,50\n3,199926\n")
    (tmp_path / "p.csv").write_text(
        "userId,movieId,score\n1,38,2\n2,77,1\n3,199926,1\n"
    )
    columns = {
        "user_id": [1, 2, 3],
        "item_id": [[38], [77], [199926]],
        "score": [[0.5], [0.4], [0.3]],
    }
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    common = [
        "--target",
        tmp_path / "y.csv",
        "--metrics",
        "[{class_path: PrecisionAtK, init_args: {k: 1}}]",
    ]
    lists = [
        "evaluate",
        "--preds",
        tmp_path / "p.parquet",
        "--train-target",
        tmp_path / "y.csv",
        *common,
    ]
    table = ["evaluate", "--preds", tmp_path / "p.csv", "--num-labels", 5000, *common]
    _, _, error_of_lists = tailmetrics(*lists)
    assert "y.csv: has names of labels, but" in error_of_lists
    assert (
        "hint: if both mean the same labels, --string-ids true takes numbers for names, too."
        in error_of_lists
    )
    assert "note: " not in error_of_lists
    _, _, error_of_table = tailmetrics(*table)
    assert (
        f"error: {tmp_path / 'y.csv'}, query '3': has the label id 199926, but --num-labels says 5000\n"
        in error_of_table
    )
    assert (
        "hint: --string-ids true takes numbers for names: each that the files hold is one label"
        in error_of_table
    )
    for words in (lists, table):
        status, out, _ = tailmetrics(*words, "--string-ids", "true")
        assert (status, "0.6667" in out) == (0, True)
