"""Files of pairs of row and label that do not count."""

import numpy as np
import pytest

from tailmetrics.io import DataFileError, read

SCORES = "3 5\n0:0.5 3:0.25\n1:1 4:2\n2:1\n"
LABELS = "3 5\n3:1 0:1\n4:1\n2:1\n"
EXPECTED = {0: ({0: 0.5}, {0: 1}), 1: ({1: 1.0, 4: 2.0}, {4: 1}), 2: ({}, {})}


@pytest.mark.parametrize("batch_rows", [1, 2, 10])
@pytest.mark.parametrize("world_size", [1, 2])
def test_filtered_labels_leave_predictions_and_targets(
    write, rows_of, batch_rows, world_size
):
    """The label of a filtered pair is removed from the predictions and the targets of
    its row, in batches of any size and on each rank. `filtered` counts the pairs, the
    predictions and the targets removed.
    """
    pairs = write("filter.txt", "2 2\n0 3\n1 0\n")
    paths = write("p.xmc", SCORES), write("y.xmc", LABELS)
    rows, counts = {}, []
    for rank in range(world_size):
        data = read(
            *paths,
            filter=pairs,
            batch_rows=batch_rows,
            rank=rank,
            world_size=world_size,
        )
        rows |= rows_of(data)
        counts.append(data.filtered())
    assert rows == EXPECTED
    assert [*map(sum, zip(*counts, strict=True))] == [4, 2, 1]


def test_a_filter_of_blank_lines_removes_nothing(write, rows_of):
    """A filter file of blank lines removes nothing."""
    paths = write("p.xmc", SCORES), write("y.xmc", LABELS)
    assert rows_of(read(*paths, filter=write("none.txt", "\n"))) == rows_of(
        read(*paths)
    )


def test_ranked_ids_move_up_and_dense_scores_become_minus_infinity(
    tmp_path, rows_of, write
):
    """The ids that follow a filtered id move up a rank.

    A filtered dense score becomes minus infinity and its target is not relevant; the
    array in the file is unchanged.
    """
    pairs = write("filter.txt", "0 3\n1 1\n")
    np.save(tmp_path / "ids.npy", [[3, 0, 2], [2, 1, 0]])
    np.save(tmp_path / "classes.npy", [3, 0])
    assert rows_of(
        read(tmp_path / "ids.npy", tmp_path / "classes.npy", filter=pairs)
    ) == {
        0: ([0, 2], []),
        1: ([2, 0], [0]),
    }
    scores = np.arange(8.0).reshape(2, 4)
    np.save(tmp_path / "scores.npy", scores)
    np.save(tmp_path / "hot.npy", scores > 2)
    data = read(tmp_path / "scores.npy", tmp_path / "hot.npy", filter=pairs)
    assert data.filtered() == (5, 2, 1)
    rows = rows_of(data)
    assert rows[0] == ({0: 0, 1: 1, 2: 2, 3: -np.inf}, dict.fromkeys(range(4), False))
    assert rows[1] == (
        {0: 4, 1: -np.inf, 2: 6, 3: 7},
        {0: True, 1: False, 2: True, 3: True},
    )
    assert np.load(tmp_path / "scores.npy").tolist() == scores.tolist()


def test_filter_pairs_may_be_names(write, rows_of):
    """Beside files that name their queries, the pairs of a filter are names; pairs of
    unknown queries or items remove nothing.
    """
    run = write("a.run", "q1 Q0 a 1 2 x\nq1 Q0 b 2 1 x\nq2 Q0 b 1 1 x\n")
    qrels = write("a.qrels", "q1 0 a 1\nq2 0 b 1\n")
    pairs = write("pairs.txt", "q1 a\nq9 b\nq2 z\n")
    assert rows_of(read(run, qrels, filter=pairs)) == {
        0: ({0: 1.0}, {}),
        1: ({0: 1.0}, {0: 1.0}),
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.csv", 'user,item,rating\nu 1,"Up, Down ""x""",3\nu 9,Alien,1\n'),
        (
            "train.inter",
            'user_id:token\titem_id:token\trating:float\nu 1\tUp, Down "x"\t3\n',
        ),
        ("train.tsv", 'rating\titem\tuser\n3\tUp, Down "x"\tu 1\n'),
    ],
)
def test_a_table_of_interactions_may_be_the_filter(write, rows_of, name, text):
    """A table of interactions may be the filter: its names may hold blanks, commas and
    quotes, and other columns are ignored.
    """
    run = write("a.csv", 'user,item,score\nu 1,"Up, Down ""x""",2\nu 1,Alien,1\n')
    target = write("y.csv", "user,item\nu 1,Alien\n")
    assert rows_of(read(run, target, filter=write(name, text))) == {0: ({0: 1.0}, [0])}


def test_a_filter_may_be_several_files(write, rows_of, tmp_path):
    """A filter may be a pattern of several files, whose columns are found by name in
    each.
    """
    run, target = (
        write("a.csv", "user,item,score\nu,a,3\nu,b,2\nu,c,1\n"),
        write("y.csv", "user,item\nu,c\n"),
    )
    write("seen_1.csv", "item,user\na,u\n")
    write("seen_2.csv", "user,item,time\nu,b,3\n")
    assert rows_of(read(run, target, filter=str(tmp_path / "seen_*.csv"))) == {
        0: ({2: 1.0}, [2])
    }


def test_a_filter_that_matches_nothing_is_an_error(write):
    """A filter of which no pair is of an evaluated query and item is an error, because
    the file belongs to other data.
    """
    run, qrels = write("a.run", "q1 Q0 a 1 2 x\n"), write("a.qrels", "q1 0 a 1\n")
    with pytest.raises(
        DataFileError,
        match=r"none\.txt: none of its pairs .* such as 'nouser' and 'nofilm'",
    ):
        read(run, qrels, filter=write("none.txt", "nouser nofilm\nq1 z\n"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0 3\n0\n", "line 2: '0' is no line of a row and a label"),
        ("0 x\n", "pair 1: label 'x' is not a whole number"),
        ("0 3\n3 0\n", "pair 2: names the row 3, but there are 3 rows"),
        ("0 5\n", "pair 1: names the label 5, but there are 5 labels"),
        ("0 -1\n", "pair 1: names the label -1"),
    ],
)
def test_errors_in_a_filter_name_file_and_pair(write, text, problem):
    """A malformed line and a pair outside the data raise an error that names the file
    and the line or pair.
    """
    with pytest.raises(DataFileError, match=rf"filter\.txt, {problem}") as caught:
        read(
            write("p.xmc", SCORES),
            write("y.xmc", LABELS),
            filter=write("filter.txt", text),
        )
    assert caught.value.hint
