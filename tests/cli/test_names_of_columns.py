"""`--label-names` names the columns of a matrix, so that targets, training targets and counts can be text."""

import numpy as np
import pytest

from tailmetrics.cli import main

VOCAB = ["C9", "A1", "B2"]
SCORES = np.array([[0.9, 0.5, 0.1], [0.1, 0.2, 0.7], [0.3, 0.8, 0.6]], np.float32)
"""Best columns: C9, B2, A1."""
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
    """Return the exit status and what the command line says, of options that name files of one folder."""
    monkeypatch.chdir(tmp_path)
    np.save("p.npy", SCORES)
    np.save("counts.npy", np.array([1, 2, 3]))
    np.save("visits.npy", np.array([0, 2, 1, 1, 0]))
    files = {
        "y.csv": "note_id,codes\nn1,C9;A1\nn2,A1\nn3,A1;B2\n",  # two of three best columns are right
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
def test_text_beside_a_matrix(call, options):
    """The columns are in the order of the file of names."""
    over_all = (
        "--metrics+=F1AtThreshold",
        "--metrics.threshold=0.5",
        "--metrics.average=macro",
        "--metrics.labels=all",
    )
    status, printed = call(
        *options, *over_all, "--metrics.macro=of_averages", "--label-names", "vocab.txt", "--verbose"
    )
    assert status == 0
    assert "0.6667" in printed
    assert "the F-score of precision and recall, each the mean over all labels" in " ".join(printed.split())
    assert "The catalogue is" not in printed  # it is that of --label-names
    assert "row i belongs to row i of y.csv" in printed


@pytest.mark.parametrize(
    "options", [(), ("--train-target", "train.csv"), ("--label-counts", "c.csv"), ("--num-labels", "3")]
)
def test_hints_lead_to_a_number(call, options):
    """Without names the error says what is missing; either half of its hint gives the right number."""
    status, printed = call("--target", "y.csv", *options)
    assert status != 0
    assert (
        "--label-names NAMES says the name of each label of the other file, in its order; or write numbers for names"
        in printed
    )
    assert "a column of label ids as an array, numpy.save('labels.npy', column)." in printed
    if not options:  # with names, it is the test above
        status, printed = call("--target", "numbers.csv")
        assert (status, "0.6667" in printed) == (0, True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--target", "y.csv", "--label-names", "few.txt"), "p.npy: label_names holds 2 labels, but the data have 3"),
        (("--target", "short.csv", "--label-names", "vocab.txt"), "short.csv: holds 1 rows, but p.npy holds 3"),
        (("--target", "y.csv", "--string-ids", "true"), "hint: leave --string-ids out"),
        (
            ("--target", "unknown.csv", "--label-names", "vocab.txt"),
            "unknown.csv, row 1: holds the unknown label 'Q9'\nhint: label_names lacks it: add it there and, where",
        ),
        (
            ("--target", "y.csv", "--label-names", "more.txt", "--train-target", "train.csv"),
            "p.npy: label_names holds 4 labels, but the data have 3\nhint: pass a name for every label.",
        ),
        (
            ("--target", "numbers.csv", "--label-counts", "visits.npy"),
            "p.npy: label_counts holds 5 labels, but the data have 3\nhint: pass a count for every label.",
        ),
    ],
)
def test_what_does_not_fit(call, options, problem):
    """Another number of names or of rows is refused, and so are names of numbers."""
    status, printed = call(*options)
    assert status != 0
    assert problem in printed


def test_columns_of_predictions_are_added(write_files, tailmetrics):
    """A name for predictions alone leaves the names for all files as they are."""
    words = write_files(preds="stay,code,prob\na,x,1\n", target="stay,code\na,x\n")
    words += ["--columns.query", "stay", "--columns.item", "code", "--metrics+=MRR"]
    status, _, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert "hint: --columns.score NAME (or .rank, .distance, --columns.rank order)" in err
    assert tailmetrics("evaluate", *words, "--preds-columns.score", "prob")[0] == 0


def test_training_rows_may_have_another_name(write_files, tailmetrics):
    """Training labels are only counted: they need no query, and a column that may be the gain is asked about."""
    words = write_files(
        preds="stay,item,score\na,x,1\n", target="stay,item\na,x\n", train_target="who,item\nu1,x\nv1,x\nv1,y\n"
    )
    words += ["--columns.query", "stay", "--metrics+=RecallAtK", "--metrics.k=1", "--buckets", "thresholds:2"]
    status, _, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert "hint: --train-columns.gain none or --train-columns.gain who" in err
    for answer in (["--train-columns.gain", "none"], ["--train-columns.query", "who"]):
        status, _, err = tailmetrics("evaluate", *words, *answer)
        assert status == 0, err


def test_one_error_for_each_file(write_files, tailmetrics):
    """A session file in the order of its ranks, and clicks: what the hints say, with names filled in, is read."""
    words = write_files(preds="session,aid\n11,a\n11,b\n", target="session,aid,hot\n11,a,0\n11,b,1\n")
    words += ["--metrics+=RecallAtK", "--metrics.k=1"]
    status, _, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert [line for line in err.splitlines() if line.startswith("hint")] == [
        "hint: --preds-columns.item NAME (of lists --preds-columns.ids NAME --list-delimiter C) "
        "--preds-columns.score NAME (or .rank, .distance, --preds-columns.rank order)",
        "hint: --target-columns.item NAME (of lists --target-columns.labels NAME --list-delimiter C) "
        "--target-columns.gain NAME (or --target-columns.gain none)",
    ]
    answers = ["--preds-columns.item", "aid", "--columns.rank", "order", "--target-columns.item", "aid"]
    status, out, _ = tailmetrics("evaluate", *words, *answers, "--columns.gain", "hot")
    assert status == 0
    assert "0.0000" in out  # a is first, and b was clicked
