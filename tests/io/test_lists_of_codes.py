"""Text columns of labels: one separator for all cells of a file, found by their content."""

import itertools
import warnings

import pytest
import torch

from tailmetrics import RecallAtK
from tailmetrics.io import Columns, DataFileError, DataFileNote, read, read_target

QUERIES = {"n1": ["A00.0", "X83.0", "B20"], "n2": ["X83.0"], "n3": [], "n4": ["B20", "A00.0"]}


def labels_of(dataset):
    """Return the names of the labels of each row of targets."""
    names = dataset.label_names
    return [[names[label] for label in row if label >= 0] for part in dataset for row in part.target.tolist()]


def recall(preds, target):
    """Return recall in the first place."""
    metric = RecallAtK(k=1)
    for batch in read(preds, target):
        metric.update(batch.preds, batch.target)
    return float(metric.compute())


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize(
    ("separator", "header"),
    zip([" ", ";", "; ", " ; ", "|", " | ", ",", ", "], itertools.cycle(["note_id,codes", "query,item", "id,labels"])),
)
def test_labels_are_separated_by_what_stands_between_them(tmp_path, named, header, suffix, separator):
    """Cells of several codes, of one and of none are lists, of targets, training targets and predictions alike."""
    quote, tab = ('"', ",") if suffix == "csv" else ("", "\t")
    rows = [f"{query}{tab}{quote}{separator.join(codes)}{quote}" for query, codes in QUERIES.items()]
    path = tmp_path / f"y.{suffix}"
    path.write_text("\n".join([header.replace(",", tab), *rows]) + "\n")
    expected = [sorted(codes) for codes in QUERIES.values()]
    assert [sorted(row) for row in labels_of(read_target(path))] == expected
    dataset = read(path, path)
    assert dataset.label_names == ("A00.0", "B20", "X83.0")
    ranked = {query: sorted(codes, key=codes.get, reverse=True) for query, (codes, _) in named(dataset).items()}
    assert ranked == QUERIES


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
@pytest.mark.parametrize("columns", [None, Columns(query="0", labels="1")])
@pytest.mark.parametrize(
    "lines",
    [
        ["17,C41;C10", "18,C31", "19,"],
        ["17,C41;C10;C31", "18,C31", "19,C10"],
        ["n17,C41;C10", "n18,C31", "n19,C10"],
        ["17,C41", "18,C31;C10;C41", "19,C10"],
        ["17;C41 C10", "18;C31", "19;C10"],
    ],
)
def test_lists_without_names_of_columns(tmp_path, lines, columns):
    """A number or a list in the first line is data: the first column is the query, the second its labels."""
    path = tmp_path / "y.csv"
    path.write_text("\n".join(lines) + "\n")
    found = read_target(path, columns=columns)
    pairs = [line.replace(";", ",", 1).split(",") if lines[0][2] == ";" else line.split(",") for line in lines]
    assert dict(zip(found.row_names, labels_of(found), strict=True)) == {
        query: cell.replace(";", " ").split() for query, cell in pairs
    }


CAML = 'SUBJECT_ID,HADM_ID,TEXT,LABELS,length\n7,101,"chest pain, 3 days",401.9;38.93,4\n7,102,well,V30.00,1\n'


def test_a_column_of_lists_among_others(tmp_path):
    """The notes of CAML: the column that --columns.labels names is split as one of two columns is."""
    path = tmp_path / "y.csv"
    path.write_text(CAML)
    found = read_target(path, columns=Columns(query="HADM_ID", labels="LABELS"))
    said = "column 'HADM_ID' is the query, column 'LABELS' is the list of its labels, separated by ';'"
    assert said in found.readings[0].sentence
    assert list(found.row_names) == ["101", "102"]
    assert labels_of(found) == [["401.9", "38.93"], ["V30.00"]]
    with pytest.raises(DataFileError, match=r"y\.csv, line 1: has no column of lists 'CODES'") as caught:
        read_target(path, columns=Columns(query="HADM_ID", labels="CODES"))
    assert caught.value.hint.startswith("its columns are SUBJECT_ID, HADM_ID, TEXT, LABELS, length;")


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("hadm_id,LABELS", "a,A00;B20\nb,C10"),
        ("hadm_id,icd_code", "a,A00\na,B20\nb,C10"),
        ("image,class", "a,cat\nb,dog"),
    ],
)
def test_columns_of_medical_codes_and_of_classes_are_known(tmp_path, header, cells):
    """No option is needed for the names that MIMIC and lists of images have."""
    path = tmp_path / "y.csv"
    path.write_text(f"{header}\n{cells}\n")
    with pytest.warns(DataFileNote, match=f"column '{header.partition(',')[0]}' is the query"):
        found = read_target(path)
    assert list(found.row_names) == ["a", "b"]
    assert labels_of(found) == ([["cat"], ["dog"]] if "class" in header else [["A00", "B20"], ["C10"]])


@pytest.mark.parametrize(("separator", "said"), [(" ", "labels; "), ("; ", "labels, separated by ';'; ")])
def test_a_note_says_what_separates_labels(tmp_path, separator, said):
    """The note names it; blanks, the usual form, are not named."""
    path = tmp_path / "y.csv"
    path.write_text(f"note_id,codes\nn1,A00.0{separator}B20\nn2,B20\n")
    with pytest.warns(DataFileNote, match=f"'codes' is the list of its {said}"):
        assert labels_of(read_target(path)) == [["A00.0", "B20"], ["B20"]]


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
@pytest.mark.parametrize(
    ("cells", "line", "problem"),
    [
        (["A1 B2", "A1;B2 C3"], 2, "';' and blanks: 'A1 B2'"),
        (["A1;B2", "A1 B2"], 3, "';' and blanks"),
        (["A1;B2", "A1|B2"], 3, r"';' and '\|'"),
        (["Alien", "Kill Bill; Vol 1"], 3, "';' and blanks"),
        (['"A1,B2;C3"', "A1"], 2, "';' and ','"),
        (["['A1', 'B2']", "['A1']"], 2, "list as Python prints it"),
        (["[7 8]", "[]"], 2, "list as Python prints it"),
    ],
)
def test_what_separates_labels_cannot_be_told(tmp_path, cells, line, problem):
    """Two kinds of separators, blanks included, in one column are refused with their line, and nothing is guessed."""
    path = tmp_path / "y.csv"
    quoted = [cell if '"' in cell else f'"{cell}"' for cell in cells]
    path.write_text("note_id,codes\n" + "".join(f"n{row},{cell}\n" for row, cell in enumerate(quoted)))
    with pytest.raises(DataFileError, match=rf"y\.csv, line {line}: .*{problem}"):
        list(read_target(path, format="lists"))


def test_hint_of_labels_that_hold_separators(tmp_path):
    """One label in each line, read as CSV, as the hint says: a label keeps its ';'."""
    path = tmp_path / "y.csv"
    path.write_text("query,item\nn1,Kill Bill; Vol 1\nn1,A;B\nn2,Alien\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_target(path, format="csv").label_names == ("A;B", "Alien", "Kill Bill; Vol 1")


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("query,item,gain\nn1,A1;B2,1\nn2,C3,1\n", None),
        ("query,code,gain\nn1,A1;B2,1\nn2,C3,1\n", Columns(item="code")),
        ("n1,A1;B2,1\nn2,C3,1\n", Columns(query="0", item="1", gain="2")),
    ],
)
def test_a_cell_beside_a_gain_is_one_label(tmp_path, text, columns):
    """A list has no gain, so that a column of gains says that each line is one label."""
    (tmp_path / "y.csv").write_text(text)
    assert read_target(tmp_path / "y.csv", columns=columns).label_names == ("A1;B2", "C3")


@pytest.mark.parametrize(("cell", "told"), [("A1;B2", True), ("A1 | B2", True), ("A9;B2", False)])
@pytest.mark.parametrize("form", ["csv", "dict"])
def test_several_labels_in_the_cell_of_an_item(tmp_path, cell, told, form):
    """In tables of query, item and gain a cell is one label; a note says so where its first part is a label, too."""
    preds, target = tmp_path / "p.csv", tmp_path / "y.csv"
    preds.write_text("query,item,score\nn1,A1,2\nn1,B2,1\n")
    target.write_text(f"query,item,gain\nn1,{cell},1\nn1,A1,1\n")
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        read(preds, target if form == "csv" else {"n1": {cell: 1, "A1": 1}})
    assert [f"the item '{cell}' is one label" in str(one.message) for one in notes] == [True] * told


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
def test_a_code_that_a_row_repeats(tmp_path):
    """The error says what helps, for files and for lists of ids."""
    preds, target = tmp_path / "p.csv", tmp_path / "y.csv"
    preds.write_text("id,codes\nn1,A1;B2\nn2,B2\n")
    target.write_text("id,codes\nn1,B2;A1;B2\nn2,A1\n")
    with pytest.raises(DataFileError, match=r"y\.csv, query 'n1': holds the label 'B2' twice") as caught:
        recall(preds, target)
    assert "duplicates='first' counts it once." in caught.value.hint
    with pytest.raises(ValueError, match=r"names the label 1 twice in row 0; .*: remove the repetition; if it pads"):
        RecallAtK(k=1).update(torch.tensor([[0, 1]]), torch.tensor([[1, 1]]))
    target.write_text("id,codes\nn1,B2;A1\nn2,A1\n")
    assert recall(preds, target) == 0.25
