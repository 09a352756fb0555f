"""`--label-names` names the columns of a matrix, so that targets, training targets and
counts may hold names.
"""

import numpy as np
import pytest

from tailmetrics.cli import main

VOCAB = ["C9", "A1", "B2"]
SCORES = np.array([[0.9, 0.5, 0.1], [0.1, 0.2, 0.7], [0.3, 0.8, 0.6]], np.float32)
"""The best columns of the rows are C9, B2 and A1."""
COMMON = [
    "--metrics",
    "[{class_path: PrecisionAtK, init_args: {k: 1}}]",
    "--no-intervals",
    "--columns.query",
    "note_id",
    "--list-delimiter",
    ";",
    "--target-columns.labels",
    "codes",
    "--train-columns.labels",
    "codes",
]


@pytest.fixture
def call(tmp_path, capsys, monkeypatch):
    """Return a function that evaluates with options that name files of one folder, and
    returns exit status and output.
    """
    monkeypatch.chdir(tmp_path)
    np.save("p.npy", SCORES)
    np.save("counts.npy", np.array([1, 2, 3]))
    np.save("visits.npy", np.array([0, 2, 1, 1, 0]))
    files = {
        # two of three best columns are right
        "y.csv": "note_id,codes\nn1,C9;A1\nn2,A1\nn3,A1;B2\n",
        "numbers.csv": "note_id,codes\nn1,0;1\nn2,1\nn3,1;2\n",
        "train.csv": "note_id,codes\nt1,A1;B2\nt2,A1\n",
        "c.csv": "code,count\nA1,2\nB2,1\n",
        "uses.csv": "year,icd,uses\n1999,A1,2\n1998,B2,1\n",
        "numbered.csv": "label,count\n1,2\n2,1\n",
        "short.csv": "note_id,codes\nn1,C9;A1\n",
        "unknown.csv": "note_id,codes\nn1,C9;A1\nn2,A1;Q9\nn3,B2\n",
        "more.txt": "C9\nA1\nB2\nQ9",
        "vocab.txt": "\n".join(VOCAB),
        "few.txt": "C9\nA1",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def run(*options):
        status = main(["evaluate", "--preds", "p.npy", *COMMON, *options])
        return status, "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize(
    "options",
    [
        ("--target", "y.csv"),
        ("--target", "y.csv", "--train-target", "train.csv"),
        ("--target", "y.csv", "--label-counts", "c.csv"),
        (
            "--target",
            "y.csv",
            "--label-counts",
            "uses.csv",
            "--train-columns.item",
            "icd",
            "--train-columns.gain",
            "uses",
        ),
        ("--target", "y.csv", "--label-counts", "counts.npy"),
        ("--target", "y.csv", "--label-counts", "numbered.csv"),
    ],
)
def test_label_names_are_the_columns_of_a_matrix(call, options):
    """With --label-names, targets, training targets and counts by name belong to the
    columns of the matrix in the order of the file: 2 of 3 best columns are relevant.
    Counts by label id are read in the same order.
    """
    over_all = (
        "--metrics+=F1AtThreshold",
        "--metrics.threshold=0.5",
        "--metrics.average=macro",
        "--metrics.labels=all",
    )
    status, printed = call(
        *options,
        *over_all,
        "--metrics.macro=of_averages",
        "--label-names",
        "vocab.txt",
        "--verbose",
    )
    assert status == 0
    assert "0.6667" in printed
    assert (
        "the F-score of precision and recall, each the mean over all labels"
        in " ".join(printed.split())
    )
    assert "The catalogue is" not in printed  # the catalogue is that of --label-names
    assert "row i belongs to row i of y.csv" in printed


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--train-target", "train.csv"),
        ("--label-counts", "c.csv"),
        ("--num-labels", "3"),
    ],
)
def test_hints_for_names_beside_a_matrix_lead_to_a_value(call, options):
    """Targets with names beside a matrix are refused without --label-names.

    The hint offers it or numbers, and both lead to the right value.
    """
    status, printed = call("--target", "y.csv", *options)
    assert status != 0
    assert (
        "--label-names NAMES says the name of each label of the other file, in its order; or write numbers for names"
        in printed
    )
    assert (
        "a column of label ids as an array, numpy.save('labels.npy', column)."
        in printed
    )
    if not options:  # the test above follows the hint on names
        status, printed = call("--target", "numbers.csv")
        assert (status, "0.6667" in printed) == (0, True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ("--target", "y.csv", "--label-names", "few.txt"),
            "p.npy: label_names holds 2 labels, but the data have 3",
        ),
        (
            ("--target", "short.csv", "--label-names", "vocab.txt"),
            "short.csv: holds 1 rows, but p.npy holds 3",
        ),
        (("--target", "y.csv", "--string-ids", "true"), "hint: leave --string-ids out"),
        (
            ("--target", "unknown.csv", "--label-names", "vocab.txt"),
            "unknown.csv, row 1: holds the unknown label 'Q9'\nhint: label_names lacks it: add it there and, where",
        ),
        (
            (
                "--target",
                "y.csv",
                "--label-names",
                "more.txt",
                "--train-target",
                "train.csv",
            ),
            "p.npy: label_names holds 4 labels, but the data have 3\nhint: pass a name for every label.",
        ),
        (
            ("--target", "numbers.csv", "--label-counts", "visits.npy"),
            "p.npy: label_counts holds 5 labels, but the data have 3\nhint: pass a count for every label.",
        ),
    ],
)
def test_label_names_that_do_not_fit_the_matrix_are_refused(call, options, problem):
    """Another number of names, rows or counts than the matrix has, an unknown label and
    --string-ids for a matrix are refused with a hint.
    """
    status, printed = call(*options)
    assert status != 0
    assert problem in printed


def test_preds_columns_add_to_columns_of_all_files(write_files, tailmetrics):
    """--preds-columns adds to the names of --columns and replaces none."""
    words = write_files(preds="stay,code,prob\na,x,1\n", target="stay,code\na,x\n")
    words += ["--columns.query", "stay", "--columns.item", "code", "--metrics+=MRR"]
    status, _, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert (
        "hint: --columns.score NAME (or .rank, .distance, --columns.rank order)" in err
    )
    assert tailmetrics("evaluate", *words, "--preds-columns.score", "prob")[0] == 0


def test_training_targets_need_no_query_column(write_files, tailmetrics):
    """Training targets need no query column, because their labels are only counted.

    A column that may be the gain is refused until the user says what it is.
    """
    words = write_files(
        preds="stay,item,score\na,x,1\n",
        target="stay,item\na,x\n",
        train_target="who,item\nu1,x\nv1,x\nv1,y\n",
    )
    words += [
        "--columns.query",
        "stay",
        "--metrics+=RecallAtK",
        "--metrics.k=1",
        "--buckets",
        "thresholds:2",
    ]
    status, _, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert "hint: --train-columns.gain none or --train-columns.gain who" in err
    for answer in (["--train-columns.gain", "none"], ["--train-columns.query", "who"]):
        status, _, err = tailmetrics("evaluate", *words, *answer)
        assert status == 0, err


def test_training_lists_may_hold_another_separator(evaluated, write_files):
    """--train-list-delimiter says what separates the labels of training lists although
    they hold another usual separator: y is in both rows, "x,1" in one of them.
    """
    words = write_files(
        preds='query,item,score\na,"x,1",0.5\nb,y,0.4\n',
        target='query,item\na,"x,1"\nb,y\n',
        train_target='query,labels\na,"x,1;y"\nb,y\n',
    )
    words += ["--train-list-delimiter", ";", "--buckets", "thresholds:1,2"]
    report = evaluated(*words, "--metrics+=RecallAtK", "--metrics.k=1")
    labels = {
        record["bucket"]: (record["labels"], record["occurrences"])
        for record in report["records"]
        if record["metric"] == "global_recall@1" and record["bucket"]
    }
    assert labels == {"2+": (1, 2), "1": (1, 1), "unseen": (0, 0)}


def test_errors_of_all_files_are_reported_together(write_files, tailmetrics):
    """Two files that cannot be read are reported together, with one hint each.

    With the names that the hints ask for both are read: a is first and b was clicked,
    so that recall is 0.
    """
    words = write_files(
        preds="session,aid\n11,a\n11,b\n", target="session,aid,hot\n11,a,0\n11,b,1\n"
    )
    words += ["--metrics+=RecallAtK", "--metrics.k=1"]
    status, _, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert [line for line in err.splitlines() if line.startswith("hint")] == [
        "hint: --preds-columns.item NAME (of lists --preds-columns.ids NAME --preds-list-delimiter C) "
        "--preds-columns.score NAME (or .rank, .distance, --preds-columns.rank order)",
        "hint: --target-columns.item NAME (of lists --target-columns.labels NAME --target-list-delimiter C) "
        "--target-columns.gain NAME (or --target-columns.gain none)",
    ]
    answers = [
        "--preds-columns.item",
        "aid",
        "--columns.rank",
        "order",
        "--target-columns.item",
        "aid",
    ]
    status, out, _ = tailmetrics("evaluate", *words, *answers, "--columns.gain", "hot")
    assert status == 0
    assert "0.0000" in out  # a is first, and b was clicked
