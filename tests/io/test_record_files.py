"""JSON Lines and CSV files of (query, item, score)."""

import json

import pytest

from tailmetrics.io import Columns, DataFileError, lines, read, read_label_names, read_target

PREDS = [("u1", 7, 0.5), ("u2", 3, 1), ("u1", 0, -1.0), ("u3", 7, 2.5)]
TARGET = [("u2", 3), ("u1", 7), ("u4", 2), ("u1", 5)]
EXPECTED = {0: ({3: 1.0}, [3]), 1: ({7: 0.5, 0: -1.0}, [5, 7])}


def jsonl(rows, fields=("query", "item", "score")):
    return "".join(json.dumps(dict(zip(fields, row, strict=False))) + "\n" for row in rows)


def table(rows, fields=("query", "item", "score"), delimiter=","):
    width = max(map(len, rows))
    return "".join(delimiter.join(map(str, row)) + "\n" for row in [fields[:width], *rows])


def tsv(rows, fields=("query", "item", "score")):
    return table(rows, fields, "\t")


FORMATS = {"jsonl": jsonl, "csv": table, "tsv": tsv}


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.mark.parametrize("preds", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("block", [40, 2**23])
def test_lines_are_joined_by_query(write, rows_of, monkeypatch, preds, target, block):
    """Lines in any order and of either format come together by query; whole numbers are label ids as they are."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    paths = write(f"p.{preds}", FORMATS[preds](PREDS)), write(f"y.{target}", FORMATS[target](TARGET))
    dataset = read(*paths, batch_rows=1)
    assert (dataset.row_names, dataset.label_names, dataset.num_labels) == (["u2", "u1"], None, None)
    assert (dataset.missing_queries, dataset.unmatched_queries) == (1, 1)
    assert rows_of(dataset) == EXPECTED


@pytest.mark.parametrize("kind", FORMATS)
def test_names_ascend_and_cover_both_files(write, rows_of, kind):
    """Items that are not all whole numbers are names, numbered in ascending order over both files."""
    preds = write(f"p.{kind}", FORMATS[kind]([("1", "x", 0.5), ("1", "7", 0.25)]))
    target = write(f"y.{kind}", FORMATS[kind]([("1", "b"), ("1", "x")]))
    dataset = read(preds, target)
    assert (dataset.label_names, dataset.num_labels) == (("7", "b", "x"), 3)
    assert rows_of(dataset) == {0: ({2: 0.5, 0: 0.25}, [1, 2])}
    assert read_label_names(preds, target) == ("7", "b", "x")
    assert rows_of(read(preds, target, label_names=["x", "b", "7", "q"])) == {0: ({0: 0.5, 2: 0.25}, [0, 1])}


def test_whole_numbers_are_ids_unless_said_otherwise(write, rows_of):
    """string_ids=True makes names of numbers, False refuses names; so does num_labels, which only ids go with."""
    preds, target = write("p.csv", table(PREDS)), write("y.csv", table(TARGET))
    assert read_label_names(preds, target) is None
    dataset = read(preds, target, string_ids=True)
    assert dataset.label_names == ("0", "2", "3", "5", "7")
    assert rows_of(dataset) == {0: ({2: 1.0}, [2]), 1: ({4: 0.5, 0: -1.0}, [3, 4])}
    assert read(preds, target, num_labels=9).num_labels == 9
    odd = write("odd.csv", table([*TARGET, ("u1", "07")]))
    for options in ({"string_ids": False}, {"num_labels": 9}):
        with pytest.raises(DataFileError, match=r"the item '07' .* is not a whole number"):
            read(preds, odd, **options)
    assert read(preds, odd).label_names == ("0", "07", "2", "3", "5", "7")


@pytest.mark.parametrize("kind", FORMATS)
def test_gains_and_field_names(write, rows_of, kind):
    """Graded targets become gains; the fields can have any name."""
    preds = write(f"p.{kind}", FORMATS[kind](PREDS, ("user", "poi", "value")))
    target = write(f"y.{kind}", FORMATS[kind]([("u1", 7, 2), ("u1", 5, 0.5)], ("user", "poi", "weight")))
    columns = Columns(query="user", item="poi", score="value", gain="weight")
    assert rows_of(read(preds, target, columns=columns)) == {0: ({7: 0.5, 0: -1.0}, {7: 2.0, 5: 0.5})}


def test_targets_alone(write, targets_of):
    """Targets alone are rows in the order in which their queries are first met, shared by ranks."""
    path = write("y.jsonl", jsonl(TARGET))
    assert targets_of(read_target(path)) == {0: [3], 1: [5, 7], 2: [2]}
    assert [targets_of(read_target(path, rank=rank, world_size=2)) for rank in (0, 1)] == [
        {0: [3]},
        {1: [5, 7], 2: [2]},
    ]


def test_quotes_blank_lines_and_byte_order_marks(write, rows_of):
    """Quoted fields with delimiters and line ends, blank lines, a byte order mark and other columns are read right."""
    preds = write("p.csv", '\ufeffrank,query,item,score\n1,"q,1","a\nb",0.5\n\n2,"q,1",c,+1\n')
    target = write("y.jsonl", '\n{"item": "a\\nb", "query": "q,1"}\n  \n')
    dataset = read(preds, target)
    assert (dataset.label_names, dataset.row_names) == (("a\nb", "c"), ["q,1"])
    assert rows_of(dataset) == {0: ({0: 0.5, 1: 1.0}, [0])}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("p.jsonl", jsonl(PREDS) + "{]\n", "line 5: is not JSON"),
        ("p.jsonl", jsonl(PREDS) + "3\n", "line 5: is not a JSON object"),
        ("p.jsonl", "{}, {}\n" + jsonl(PREDS), "line 1: is not JSON"),
        ("p.jsonl", jsonl(PREDS) + '\n{"query": 1, "score": 2}\n', "line 6: 'item' is missing"),
        ("p.jsonl", jsonl([*PREDS, ("u1", 0.5, 1)]), "line 5: 'item' is 0.5, not a string or a whole number"),
        ("p.jsonl", jsonl([*PREDS, ("u1", True, 1)]), "line 5: 'item' is true"),
        ("p.jsonl", jsonl([*PREDS, ("u1", 1, "1")]), "line 5: 'score' is \"1\", not a number"),
        ("p.jsonl", jsonl([*PREDS, ("u1", 1, float("nan"))]), "query 'u1': holds the score nan"),
        ("p.jsonl", jsonl([*PREDS, ("u1", 7, 1)]), "query 'u1': holds the label 7 twice"),
        ("p.jsonl", jsonl([*PREDS, ("", 7, 1)]), "line 5: the query is empty"),
        ("p.jsonl", "\n", "holds no rows"),
        ("p.csv", "query,item\nu1,7\n", "line 1: there is no column 'score'"),
        ("p.csv", "u1,7,0.5\n", "line 1: there is no column 'query'"),
        ("p.csv", table(PREDS) + "u1,8\n", "line 6: CSV parse error"),
        ("p.csv", 'query,item,score\n"u\n1",7,1\n\nu1,7,high\n', "line 5: score 'high' is not a number"),
        ("p.csv", table([*PREDS, ("u1", "", 1)]), "line 6: the item is empty"),
        ("p.csv", table([*PREDS, ("u1", 7, 1)]), "query 'u1': holds the label 7 twice"),
        ("p.csv", "query,item,score\n", "holds no rows"),
    ],
)
def test_errors_name_the_line_or_the_query(write, name, text, problem):
    """Malformed lines, missing fields, other types, NaN and repeated items are errors that name line or query."""
    with pytest.raises(DataFileError, match=rf"{name}.*{problem}") as caught:
        list(read(write(name, text), write("y.csv", table(TARGET))))
    assert caught.value.hint


def test_only_some_lines_with_a_gain(write, monkeypatch):
    """A gain on some lines only is an error naming the line, or, where the lines lie far apart, the file."""
    target = write("y.jsonl", '{"query": "u1", "item": 7, "gain": 1}\n{"query": "u1", "item": 5}\n')
    with pytest.raises(DataFileError, match=r"y\.jsonl, line 2: 'gain' is missing"):
        read(write("p.csv", table(PREDS)), target)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 40)
    with pytest.raises(DataFileError, match=r"y\.jsonl: only some lines have a gain"):
        read(write("p.jsonl", jsonl(PREDS)), target)


def test_names_that_do_not_fit(write):
    """Fewer labels than names, and a name given twice, are errors that name the argument or the file."""
    preds, target = write("p.csv", table(PREDS)), write("y.csv", table(TARGET))
    with pytest.raises(DataFileError, match="there are 5 names for 4 labels"):
        read(preds, target, num_labels=4, string_ids=True)
    with pytest.raises(ValueError, match="label_names: 1 names are repeated"):
        read(preds, target, label_names=["a", "b", "a"])


def test_files_of_rows_and_files_of_queries_do_not_mix(write, tmp_path):
    """Predictions by query and targets by row cannot be matched, which the error says."""
    with pytest.raises(DataFileError, match=r"y\.txt: is xmc, which cannot be matched with .*p\.csv \(csv\)"):
        read(write("p.csv", table(PREDS)), write("y.txt", "1 2\n0:1\n"))
