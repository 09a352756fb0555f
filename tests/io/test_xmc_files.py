"""Text files of the Extreme Classification Repository."""

import pytest

from tailmetrics.io import DataFileError, read, read_target, xmc

SCORES = "4 6\n0:0.5 3:-0.25\n\n5:1e-3\n1:2 2:.5 0:1\n"
LABELS = "4 6\n3:1 \n0:1 5:2\n\n1:1\n"


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 10])
@pytest.mark.parametrize("parsed", [1024, 1, 2])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_scores_and_labels_are_read(
    write, rows_of, monkeypatch, batch_rows, parsed, line_end
):
    """Lines of label:value are read as written, and an empty line is an empty row, in
    batches of any size, however many lines are parsed at once and whatever ends a line.
    """
    monkeypatch.setattr(xmc, "PARSED_ROWS", parsed)
    preds = write("p.xmc", SCORES.replace("\n", line_end))
    target = write("y.xmc", LABELS.replace("\n", line_end))
    dataset = read(preds, target, batch_rows=batch_rows)
    assert dataset.num_labels == 6
    assert rows_of(dataset) == {
        0: ({0: 0.5, 3: -0.25}, {3: 1}),
        1: ({}, {0: 1, 5: 2}),
        2: ({5: 0.001}, {}),
        3: ({1: 2, 2: 0.5, 0: 1}, {1: 1}),
    }


def test_data_files_give_their_labels(write, targets_of):
    """The labels of a data file of 'labels features' lines are read; a line without
    labels starts with a blank or a feature.
    """
    path = write("trn.xmc", "5 3 9\n1,8 0:0.5 2:1\n 1:0.5\n4\n0:1 2:3\n\n")
    dataset = read_target(path)
    assert (dataset.num_rows, dataset.num_labels) == (5, 9)
    assert targets_of(dataset) == {0: [1, 8], 1: [], 2: [4], 3: [], 4: []}


def test_a_rank_parses_only_its_lines(write, rows_of):
    """A broken line is an error on the rank that reads its row, and on no other."""
    preds = write("p.xmc", SCORES.replace("5:1e-3", "5:x"))
    target = write("y.xmc", LABELS)
    assert rows_of(read(preds, target, rank=0, world_size=4)) == {
        0: ({0: 0.5, 3: -0.25}, {3: 1})
    }
    assert rows_of(read(preds, target, rank=1, world_size=4)) == {1: ({}, {0: 1, 5: 2})}
    assert rows_of(read(preds, target, rank=3, world_size=4)) == {
        3: ({1: 2, 2: 0.5, 0: 1}, {1: 1})
    }
    with pytest.raises(DataFileError, match="line 4: value 'x' is not a number"):
        list(read(preds, target, rank=2, world_size=4))


def test_the_last_line_may_lack_its_end(write, rows_of):
    """A file without a newline at its end and one with blank lines after its rows are
    read in full.
    """
    for ending in ("", "\n\n  \n"):
        rows = rows_of(
            read(write("p.xmc", SCORES[:-1] + ending), write("y.xmc", LABELS))
        )
        assert rows[3][0] == {1: 2, 2: 0.5, 0: 1}


def test_the_first_rows_may_be_empty_without_a_header(write, rows_of):
    """A file without a header may start with empty rows."""
    pairs = SCORES.split("\n", 1)[1]
    rows = rows_of(
        read(
            write("p.xmc", "\n \n" + pairs),
            write("y.xmc", "6 6\n\n1:1\n" + LABELS.split("\n", 1)[1]),
        )
    )
    assert rows[0] == ({}, {})
    assert rows[1] == ({}, {1: 1})
    assert rows[2] == ({0: 0.5, 3: -0.25}, {3: 1})
    assert rows[5] == ({1: 2, 2: 0.5, 0: 1}, {1: 1})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0:1 2:3\n", "y.xmc: holds 4 rows, but .*p.xmc holds 1"),
        ("4 six\n0:1\n", "line 1: has no header"),
        (SCORES.replace("5:1e-3", "5=1"), "line 4: '5=1' is not label:value"),
        (SCORES.replace("5:1e-3", "5:1:2"), "line 4: '5:1:2' is not label:value"),
        (
            SCORES.replace("5:1e-3", "5.5:1"),
            "line 4: label '5.5' is not a whole number",
        ),
        (
            SCORES.replace("5:1e-3", "+5:1"),
            r"line 4: label '\+5' is not a whole number",
        ),
        (
            SCORES.replace("5:1e-3", "0x5:1"),
            "line 4: label '0x5' is not a whole number",
        ),
        (
            SCORES.replace("5:1e-3", "6:1"),
            r"line 4 \(row 2\): holds the label id 6, but there are 6 labels",
        ),
        (SCORES.replace("5:1e-3", "5:nan"), r"line 4 \(row 2\): holds the score nan"),
        (
            SCORES.replace("1:2 2:.5", "2:2 2:.5"),
            r"line 5 \(row 3\): holds the label 2 twice",
        ),
        (SCORES.replace("1:2 2:.5 0:1\n", ""), "holds 3 rows, but its header says 4"),
        (SCORES + "1:1\n", "line 6: there are more rows than the 4 of the header"),
        (
            "4 3 6\n1 2:3\n\n\n\n",
            "line 1: is a data file with features, not predictions",
        ),
        ("3 6\n\n\n\n", "y.xmc: holds 4 rows, but .*p.xmc holds 3"),
        ("4 7\n\n\n\n\n", "y.xmc: target has 6 columns, but preds has 7"),
    ],
)
def test_errors_in_xmc_files_name_the_line(write, text, problem):
    """Malformed lines, wrong headers and wrong values raise an error that names the
    line; wrong numbers of rows or columns raise one that names the file.
    """
    with pytest.raises(DataFileError, match=problem) as caught:
        list(read(write("p.xmc", text), write("y.xmc", LABELS), batch_rows=2))
    assert caught.value.hint


def test_bytes_that_are_not_utf8_are_refused(write, tmp_path):
    """Bytes that are not UTF-8 raise an error that names the line."""
    (tmp_path / "p.xmc").write_bytes(b"2 3\n1:1\n\xff:1\n")
    with pytest.raises(DataFileError, match="line 3: is not UTF-8 text"):
        list(read(tmp_path / "p.xmc", write("y.xmc", "2 3\n\n\n")))


def test_malformed_labels_of_a_data_file_are_refused(write):
    """A list of labels with an entry that is empty or no whole number raises an error,
    and is not read as a row without labels.
    """
    for labels in ("1,,2", "a,2", "1,2:x", "+1,2", "0x1"):
        with pytest.raises(
            DataFileError, match=r"line 3: label .* is not a whole number"
        ):
            list(read_target(write("trn.xmc", f"2 3 9\n1 0:1\n{labels} 0:1\n")))
