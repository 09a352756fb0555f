"""TREC runs and qrels; tests/cli/test_trec.py compares their values with trec_eval
itself.
"""

import random
import re

import duckdb
import pytest

from tailmetrics.io import DataFileError, read, read_label_names, read_target
from tailmetrics.io.text import _sql_of_words

RUN = """q1 Q0 d2 1 0.5 me
q1 Q0 d10 2 0.5 me
q2 Q0 d1 1 3 me
q1\tQ0   d3 3 0.75 me

q3 Q0 d1 1 -2e0 me
"""
QRELS = """q2 0 d1 0
q1 0 d2 2
q4 0 d9 1
q1 0 d3 -1
q1 0 d7 1
"""


def test_documents_are_numbered_in_descending_order_of_names(write):
    """Documents are numbered in descending order of the bytes of their names, so that
    the lower id wins a tie, as the last name does in trec_eval.
    """
    dataset = read(write("a.run", RUN), write("a.qrels", QRELS))
    assert dataset.label_names == ("d9", "d7", "d3", "d2", "d10", "d1")
    assert dataset.num_labels == 6


def test_documents_are_names_also_with_num_labels(write):
    """Documents are names also with num_labels, and a note says so if they look like
    label ids.

    With string_ids=False they are label ids.
    """
    paths = (
        write("a.run", "q Q0 1 1 0.5 me\nq Q0 77 2 0.25 me\n"),
        write("a.qrels", "q 0 77 1\n"),
    )
    dataset = read(*paths, num_labels=3)
    assert dataset.label_names == ("77", "1")
    assert (
        "items of TREC are names, also with --num-labels; --string-ids false takes"
        in dataset.notes[0]
    )
    (batch,) = read(*paths, num_labels=78, string_ids=False)
    assert batch.preds[1].tolist() == [[1, 77]]


@pytest.mark.parametrize(
    ("words", "places", "may_go_on"),
    [("q-i-v-", (0, 2, 4), True), ("q-iv", (0, 2, 3), False)],
)
def test_words_of_a_line_do_not_depend_on_its_blanks(words, places, may_go_on):
    """A line has the words of a split by Python, whichever and however many blanks
    separate them.

    A line with too few words has none, and a line of qrels with too many has none
    either.
    """
    rng = random.Random(0)
    lines, expected = [], []
    for number in range(2000):
        blanks = [" "] if number % 2 else [" ", "  ", "\t", "\f ", "\r"]
        line = "".join(
            f"{rng.choice(('a', 'é1', '-0.5'))}{rng.choice(blanks)}"
            for _ in range(rng.randint(2, 8))
        )
        line = rng.choice(("", "", " ", "\t")) + rng.choice(
            (line, line[:-1], line.rstrip())
        )
        parts = re.findall(r"[^ \t\f\r]+", line)
        has_words = len(parts) == len(words) or (may_go_on and len(parts) > len(words))
        lines.append(line)
        expected.append(tuple(parts[place] if has_words else "" for place in places))

    split_lines = (
        "SELECT line, string_split(line, ' ') AS parts FROM (SELECT unnest(?) AS line)"
    )
    statement = f"SELECT w.q, w.i, w.v FROM (SELECT {_sql_of_words(words, may_go_on)} AS w FROM ({split_lines}))"
    assert duckdb.execute(statement, [lines]).fetchall() == expected
    assert 200 < sum(line.count(" ") == len(words) - 1 for line in lines) < 1800


def test_rows_are_the_queries_of_both_files(write, rows_of):
    """Rows are the queries that are in both files; those of one file only are left out
    and counted.

    A negative grade is a gain of 0.
    """
    dataset = read(write("a.run", RUN), write("a.qrels", QRELS))
    assert dataset.row_names == ["q2", "q1"]
    assert (dataset.num_rows, dataset.missing_queries, dataset.unmatched_queries) == (
        2,
        1,
        1,
    )
    assert rows_of(dataset) == {
        0: ({5: 3.0}, {5: 0.0}),
        1: ({3: 0.5, 4: 0.5, 2: 0.75}, {3: 2.0, 2: 0.0, 1: 1.0}),
    }


def test_missing_queries_may_count_as_zero(write, rows_of):
    """With missing='zero', a query without predictions has a row with an empty list."""
    dataset = read(write("a.run", RUN), write("a.qrels", QRELS), missing="zero")
    assert dataset.row_names == ["q2", "q1", "q4"]
    assert dataset.missing_queries == 1
    assert rows_of(dataset)[2] == ({}, {0: 1.0})


@pytest.mark.parametrize("missing", ["skip", "zero"])
@pytest.mark.slow
def test_ranks_share_the_queries(write, rows_of, missing):
    """Each query is read by one rank, and has the row number that it has without
    ranks.
    """
    paths = write("a.run", RUN), write("a.qrels", QRELS)
    whole = rows_of(read(*paths, missing=missing))
    shared = [
        rows_of(read(*paths, missing=missing, rank=rank, world_size=3))
        for rank in range(3)
    ]
    assert sum(map(len, shared)) == len(whole)
    assert {row: value for part in shared for row, value in part.items()} == whole


def test_training_qrels_are_numbered_by_the_names_of_all_files(write, targets_of):
    """Training qrels that are read alone number their documents by the label names of
    all files, which are in descending order. A document that the names lack is refused.
    """
    paths = (
        write("a.run", RUN),
        write("a.qrels", QRELS),
        write("train.qrels", "t1 0 d8 1\nt2 0 d2 1\n"),
    )
    names = read_label_names([paths[0]], *paths[1:])
    assert names == ("d9", "d8", "d7", "d3", "d2", "d10", "d1")
    assert targets_of(read_target(paths[2], label_names=names)) == {
        0: {1: 1.0},
        1: {4: 1.0},
    }
    with pytest.raises(
        DataFileError, match=r"train\.qrels, query 't1': unknown label 'd8'"
    ):
        read_target(paths[2], label_names=["d2"])


@pytest.mark.parametrize(
    ("run", "qrels", "problem"),
    [
        (
            RUN + "q1 Q0 d5 0.1 me\n",
            QRELS,
            r"a\.run, line 7: 'q1 Q0 d5 0.1 me' is no line of a run",
        ),
        (
            RUN + "q1 Q0 d5 1 high me\n",
            QRELS,
            r"a\.run, line 7: score 'high' is not a number",
        ),
        (
            RUN + "q1 Q0 d2 1 0.1 me\n",
            QRELS,
            r"a\.run, query 'q1': holds the label 'd2' twice",
        ),
        (
            RUN + "q1 Q0 d5 1 nan me\n",
            QRELS,
            r"a\.run, query 'q1': holds the score nan",
        ),
        (
            RUN,
            QRELS + "q1 0 d8 0.5\n",
            r"a\.qrels, line 6: gain '0\.5' is not a grade, a whole number",
        ),
        (
            RUN,
            QRELS + "q1 0 d2 1\n",
            r"a\.qrels, query 'q1': holds the label 'd2' twice",
        ),
        (RUN, "x 0 d2 1\n", r"a\.qrels: has no query in common with a\.run"),
        ("\n", QRELS, r"a\.run: holds no rows"),
        (RUN, "\n \n", r"a\.qrels: holds no rows"),
    ],
)
def test_errors_in_trec_files_name_the_line_or_the_query(write, run, qrels, problem):
    """Malformed lines, repeated documents and NaN raise an error that names the line or
    the query; files without rows or without a common query raise one that names the
    file.
    """
    with pytest.raises(DataFileError, match=problem) as caught:
        list(read(write("a.run", run), write("a.qrels", qrels)))
    assert caught.value.hint
