"""Files of training counts."""

import numpy as np
import pytest
import torch

from tailmetrics.io import Columns, DataFileError, read_label_counts


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        if isinstance(content, str):
            path.write_text(content)
        elif path.suffix == ".npy":
            np.save(path, content)
        else:
            torch.save(content, path)
        return path

    return write


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.npy", np.array([3, 0, 7], np.int32)),
        ("c.pt", torch.tensor([3, 0, 7])),
        ("c.txt", "3\n0\n\n7\n"),
        ("c.csv", "count\n3\n0\n7\n"),
        ("c.csv", "label,count\n2,7\n0,3\n"),
        ("c.tsv", "count\tlabel\tname\n7\t2\tx\n3\t0\ty\n"),
    ],
)
def test_counts_are_read_in_the_order_of_label_ids(write, name, content):
    """Training counts in every format are read in the order of label ids, with 0 for a
    label that the file leaves out.
    """
    counts = read_label_counts(write(name, content), num_labels=3)
    assert counts.tolist() == [3, 0, 7]
    assert counts.dtype == torch.int64


def test_counts_of_named_labels_follow_the_label_names(write):
    """Counts of named labels are read in the order of label_names; a label that
    label_names lacks is an error that names the line.
    """
    path = write("c.csv", "label,count\nb,7\na,3\n")
    assert read_label_counts(path, label_names=["b", "c", "a"]).tolist() == [7, 0, 3]
    with pytest.raises(DataFileError, match="line 2: unknown label 'b'"):
        read_label_counts(path, label_names=["a"])


@pytest.mark.parametrize("name", ["item_id", "code", "label", "Doc-ID", "class"])
def test_the_column_beside_the_counts_holds_the_labels(write, name):
    """In a file of two columns, the one that is not the counts holds the labels,
    whatever its name.
    """
    assert read_label_counts(
        write("c.csv", f"{name},count\nb,7\na,3\n"), label_names=["a", "b"]
    ).tolist() == [3, 7]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("docid,clicks\nb,7\na,3\n", None),
        ("day,page,clicks\n1,b,7\n2,a,3\n", Columns(item="page", gain="clicks")),
        ("b,2,7\na,1,3\n", Columns(item="0", gain="2")),
        ("doc,count,clicks\nb,1,7\na,2,3\n", Columns(gain="clicks")),
        ("page,clicks\nb,7\na,3\n", Columns(item="page")),
    ],
)
def test_known_or_named_columns_are_label_and_count(write, text, columns):
    """Of two columns, one with a known name, or one that the user names, decides which
    is the label and which the count. Among more columns the user names both.
    """
    counts = read_label_counts(
        write("c.csv", text), label_names=["a", "b"], columns=columns
    )
    assert counts.tolist() == [3, 7]


@pytest.mark.parametrize("labels", [{"num_labels": 2}, {"label_names": ["0", "1"]}])
def test_a_label_with_a_no_break_space_is_another_label(write, labels):
    """A label with a no-break space behind it is refused as unknown, although int() of
    Python reads it as the number 0.
    """
    with pytest.raises(DataFileError, match="line 2: .*label '0\\\\xa0'"):
        read_label_counts(write("c.csv", "label,count\n0\u00a0,5\n1,1\n"), **labels)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("c.npy", np.array([3.5, 0, 7]), "holds float64"),
        ("c.npy", np.zeros((2, 2), int), "holds int64 \\[2, 2\\]"),
        ("c.pt", {"a": 1}, "holds dict"),
        ("c.npy", np.array([3, -1, 7]), "label 1: holds the count -1"),
        ("c.npy", np.array([3, 7]), "holds the counts of 2 labels, but there are 3"),
        ("c.npy", "no array", "cannot be read as a .npy array"),
        ("c.pt", "no array", "cannot be read as a .pt array"),
        ("c.txt", "3\n0 1\n7\n", "line 2: count '0 1' is not a whole number"),
        ("c.txt", "3\n\nx\n", "line 3: count 'x' is not a whole number"),
        ("c.csv", "label,count\n0,3\n0,4\n", "counts the label 0 twice"),
        ("c.csv", "label,count\n3,3\n", "counts the label 3"),
        (
            "c.csv",
            "label,count\n1,many\n",
            "line 2: count 'many' is not a whole number",
        ),
        (
            "c.csv",
            "first,last\n1,3\n",
            "no columns are the label and its count; its columns are 'first', 'last'",
        ),
        ("c.csv", "label,x,y\n1,3,5\n", "no columns are the label and its count"),
        ("c.csv", "label,label,count\n2,2,7\n", "has two columns 'label'"),
        (
            "c.csv",
            "label,count\n1000000000000000,7\n",
            "counts the label 1000000000000000",
        ),
        (
            "c.npy",
            np.array([2**63, 1, 1], np.uint64),
            "label 0: holds the count 9223372036854775808",
        ),
        ("c.txt", "", "is empty"),
        ("c.csv", "label,count\n", "holds no rows"),
        ("c.md", "3", "is of no format for label counts"),
    ],
)
def test_errors_in_counts_name_file_and_line(write, name, content, problem):
    """Counts that are no whole numbers, too few, repeated or unreadable raise an error
    that names the file, and the line or label where there is one.
    """
    with pytest.raises(DataFileError, match=rf"{name}.*{problem}") as caught:
        read_label_counts(write(name, content), num_labels=3)
    assert caught.value.hint
