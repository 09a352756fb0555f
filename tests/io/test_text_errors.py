"""Text files that cannot be read: each error names the cause, and its hint leads to a
file that is read.
"""

import pytest

from tailmetrics.io import Columns, DataFileError, read

PREDS = "query,item,score\nu,a,0.9\nu,b,0.5\n"
TARGET = "query,item\nu,a\n"


@pytest.fixture
def refusal(write):
    """Return a function that reads predictions beside targets, and returns the
    error.
    """

    def refusal(preds, target=TARGET, name="p.csv", target_name="y.csv", **options):
        paths = write(name, ""), write(target_name, target)
        paths[0].write_bytes(preds if isinstance(preds, bytes) else preds.encode())
        with pytest.raises(DataFileError) as caught:
            list(read(*paths, **options))
        return caught.value

    return refusal


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_other_encodings_than_utf_8_are_named(refusal, encoding):
    """A line of names in another encoding is refused as such; its bytes are not shown
    as names of columns.
    """
    error = refusal(PREDS.replace("item", "itém").encode(encoding))
    assert str(error).endswith(
        "p.csv, line 1: is not UTF-8 text; convert the file to UTF-8, or name its format."
    )


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_lines_that_end_in_different_ways_are_named(refusal, rows_of, write, suffix):
    """Lines that end like those of Windows beside others are refused, and the hint
    makes all ends alike.
    """
    text = PREDS
    if suffix == "tsv":
        text = PREDS.replace(",", "\t")
    name = f"p.{suffix}"
    error = refusal(text.replace("\n", "\r\n", 1), name=name)
    assert error.problem == "has lines that end in different ways"
    assert (
        error.hint
        == "give all lines the same end; dos2unix writes a file of text with the end of Linux."
    )
    assert rows_of(read(write(name, text), write("y.csv", TARGET)))


@pytest.mark.parametrize("delimiter", ["", '"', "\n"])
def test_what_cannot_separate_fields_is_refused(refusal, delimiter):
    """A quote, the end of a line and nothing are no separators."""
    assert f"--delimiter {delimiter!r} cannot separate fields" in str(
        refusal(PREDS, delimiter=delimiter)
    )


def test_a_tab_may_be_given_as_two_letters(write, rows_of):
    r"""A shell passes the two letters \t on, which stand for a tab."""
    paths = write("p.csv", PREDS.replace(",", "\t")), write("y.csv", TARGET)
    assert len(rows_of(read(*paths, preds_delimiter=r"\t"))[0][0]) == 2


def test_tsv_has_no_other_separator_of_its_own(refusal, write, rows_of):
    """A separator for one TSV file alone is refused. One for all files is for the
    others.
    """
    error = refusal(PREDS, preds_format="tsv", preds_delimiter=",")
    assert (error.problem, error.hint) == (
        "is tsv, which ',' does not separate",
        "--preds-format csv reads other separators.",
    )
    paths = (
        write("p.tsv", PREDS.replace(",", "\t")),
        write("y.csv", TARGET.replace(",", ";")),
    )
    assert rows_of(read(*paths, delimiter=";"))


def test_two_columns_of_one_name_are_refused(refusal):
    """No option can tell two columns of one name apart."""
    error = refusal(PREDS.replace("score", "item"))
    assert (error.problem, error.hint) == (
        "has 2 columns 'item'",
        "give every column a name of its own.",
    )


def test_a_place_beside_a_name_is_refused(refusal):
    """Places of columns are no names, and the hint says that all columns need one."""
    error = refusal(PREDS, columns=Columns(query="0", item="item"))
    assert error.hint.endswith("places need all columns to be given by place")


@pytest.mark.parametrize(
    ("scores", "problem"),
    [("1\n2\n", "line 3: has no 'score'"), ("1\n2\n3\n4\n", "line 4: '4'")],
)
def test_scores_of_letor_need_the_lines_of_the_targets(refusal, scores, problem):
    """Fewer or more scores than lines of the targets are refused, and the hint says
    what belongs together.
    """
    target = "1 qid:1 1:0\n0 qid:1 1:0\n1 qid:2 1:0\n"
    error = refusal(scores, target, "p.letor", "y.letor")
    assert problem in str(error)
    assert "predictions a score for each of these lines" in error.hint


def test_an_empty_list_of_objects_holds_no_rows(refusal):
    """An empty list of objects is no damaged file."""
    assert refusal("[]", name="p.json").problem == "holds no rows"
