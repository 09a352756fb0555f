"""JSON Lines and CSV files of (query, item, score)."""

import csv
import json
import re
import warnings

import pandas as pd
import pytest

from tailmetrics.io import Columns, DataFileError, DataFileNote, read, read_label_names, read_target
from tailmetrics.io.database import Database, KeyedFile
from tailmetrics.io.files import HEAD_BYTES, head
from tailmetrics.io.reading import Opening
from tailmetrics.io.text import read_jsonl

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


@pytest.mark.parametrize("preds", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_lines_are_joined_by_query(write, rows_of, preds, target):
    """Lines in any order and of either format come together by query; with num_labels whole numbers are label ids."""
    paths = write(f"p.{preds}", FORMATS[preds](PREDS)), write(f"y.{target}", FORMATS[target](TARGET))
    dataset = read(*paths, batch_rows=1, num_labels=9)
    assert (dataset.row_names, dataset.label_names, dataset.num_labels) == (["u2", "u1"], None, 9)
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


def test_whole_numbers_are_names_unless_the_number_of_labels_is_given(write, rows_of):
    """Ids with gaps make one label for each item, by value, which is said; num_labels or string_ids=False keep the ids.

    With a label for every number up to the largest, coverage and Gini would count ids that nobody has.
    """
    preds, target = write("p.csv", table([*PREDS, ("u1", 10, 3)])), write("y.csv", table(TARGET))
    renumbered = {0: ({2: 1.0}, [2]), 1: ({4: 0.5, 0: -1.0, 5: 3.0}, [3, 4])}
    with pytest.warns(
        DataFileNote, match=r"p\.csv: the items of all files are 6 whole numbers from 0 to 10, each a label"
    ):
        dataset = read(preds, target)
    assert (dataset.label_names, dataset.num_labels) == (("0", "2", "3", "5", "7", "10"), 6)
    assert rows_of(dataset) == renumbered
    with pytest.warns(DataFileNote, match="6 whole numbers"):
        assert read_label_names(preds, target) == dataset.label_names
    kept = {0: ({3: 1.0}, [3]), 1: ({7: 0.5, 0: -1.0, 10: 3.0}, [5, 7])}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows_of(read(preds, target, string_ids=True)) == renumbered
        assert rows_of(read(preds, target, num_labels=11)) == kept
        assert rows_of(read(preds, target, string_ids=False)) == kept
        assert read_label_names(preds, target, num_labels=11) is None
        assert read_label_names(preds, target, string_ids=False) is None
    odd = write("odd.csv", table([*TARGET, ("u1", "07")]))
    for options in ({"string_ids": False}, {"num_labels": 11}):
        with pytest.raises(DataFileError, match=r"the item '07' .* is not a whole number"):
            read(preds, odd, **options)
    assert read(preds, odd).label_names == ("0", "07", "10", "2", "3", "5", "7")


def test_whole_numbers_without_gaps_are_ids_either_way(write, rows_of):
    """Items 0 to L - 1 keep their numbers as names, so that nothing needs to be said."""
    preds, target = write("p.csv", table([("u", 2, 1), ("u", 0, 2)])), write("y.csv", table([("u", 1), ("u", 2)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = read(preds, target)
    assert (dataset.num_labels, rows_of(dataset)) == (3, {0: ({2: 1.0, 0: 2.0}, [1, 2])})


@pytest.mark.parametrize("kind", FORMATS)
def test_gains_and_field_names(write, rows_of, kind):
    """Graded targets become gains; the fields can have any name."""
    preds = write(f"p.{kind}", FORMATS[kind](PREDS, ("user", "poi", "value")))
    target = write(f"y.{kind}", FORMATS[kind]([("u1", 7, 2), ("u1", 5, 0.5)], ("user", "poi", "weight")))
    columns = Columns(query="user", item="poi", score="value", gain="weight")
    found = rows_of(read(preds, target, columns=columns, num_labels=8))
    assert found == {0: ({7: 0.5, 0: -1.0}, {7: 2.0, 5: 0.5})}


def test_targets_alone(write, targets_of):
    """Targets alone are rows in the order in which their queries are first met, shared by ranks."""
    path = write("y.jsonl", jsonl(TARGET))
    assert targets_of(read_target(path, num_labels=9)) == {0: [3], 1: [5, 7], 2: [2]}
    assert [targets_of(read_target(path, rank=rank, world_size=2, num_labels=9)) for rank in (0, 1)] == [
        {0: [3]},
        {1: [5, 7], 2: [2]},
    ]


def test_quotes_blank_lines_and_byte_order_marks(write, rows_of):
    """Quoted fields with delimiters and quotes, blank lines, a byte order mark and other columns are read right."""
    preds = write("p.csv", '\ufeffrank,query,item,score\r\n1,"q,1","a""b",0.5\r\n\r\n \n2,"q,1",12" disc,+1\n')
    target = write("y.jsonl", '\ufeff\n{"item": "a\\"b", "query": "q,1"}\n  \n')
    dataset = read(preds, target)
    assert (dataset.label_names, dataset.row_names) == (('12" disc', 'a"b'), ["q,1"])
    assert rows_of(dataset) == {0: ({1: 0.5, 0: 1.0}, [1])}


QUOTED = {
    "one quote in a column that is not read": (['"Weird', "b", "c", "d"], 0),
    "every second title begins with a quote": (['"a', "b", '"c', "d"], 0),
    "two titles that are a quote": (["a", '"', "c", '"'], 1),
    "text behind a closed quote": (["a", "b", '"c" d', "d"], 2),
}


@pytest.mark.parametrize("what", QUOTED)
@pytest.mark.parametrize("place", [0, 3])
def test_a_quote_never_swallows_lines(write, rows_of, what, place):
    """In TSV a quote is a character; in CSV one that does not close on its line is refused with that line.

    Quotes that reach over line ends hide the rows between them, and what is left gives a number that looks right.
    """
    titles, line = QUOTED[what]
    rows = [[f"u{number}", number, 0.5] for number in range(4)]
    for row, title in zip(rows, titles, strict=True):
        row.insert(place, title)
    names = ["query", "item", "score"]
    names.insert(place, "title")
    target = write("y.csv", table([(f"u{number}", number) for number in range(4)]))
    with pytest.raises(DataFileError, match=rf"p\.csv, line {line + 2}: has a quote that does not close") as caught:
        read(write("p.csv", table(rows, names)), target)
    assert "TSV" in caught.value.hint
    found = rows_of(read(write("p.tsv", tsv(rows, names)), target))
    assert found == {number: ({number: 0.5}, [number]) for number in range(4)}


PIPES = {"user_id": ["u1", "u1", "u2"], "item_id": ['5" pipe', "a\tb", "saw"], "score": [0.9, 0.5, 0.8]}


@pytest.mark.parametrize("form", ["tsv", "inter", "csv"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("options", [{}, {"format": "csv"}, {"format": "csv", "delimiter": "\t"}])
def test_tabs_with_the_quotes_of_csv(tmp_path, rows_of, form, quoting, options):
    """As pandas writes them, also in the names: the quotes are none of the label."""
    preds, target = tmp_path / "p.csv", tmp_path / f"y.{form}"
    pd.DataFrame(PIPES).to_csv(preds, index=False)
    pd.DataFrame(PIPES).iloc[[0, 2], :2].to_csv(target, sep="\t", index=False, quoting=quoting)
    dataset = read(preds, target, **options)
    assert dataset.label_names == ('5" pipe', "a\tb", "saw")
    assert [target for _, target in rows_of(dataset).values()] == [[0], [2]]


def test_tabs_with_quotes_that_csv_does_not_know(write):
    """A file named as CSV is refused; the hint reads the quotes as characters."""
    text = tsv([("u1", '"Up" 2'), ("u2", "saw")], ["query", "item"])
    with pytest.raises(DataFileError, match=r"y\.csv, line 2: has a quote that does not close") as caught:
        read_target(write("y.csv", text))
    assert "name the file .tsv and leave out its format" in caught.value.hint
    assert read_target(write("y.tsv", text)).label_names == ('"Up" 2', "saw")


def test_tabs_with_quotes_behind_the_first_rows(write, rows_of):
    """The first 64 kB hold no quote; with a quote that CSV does not know, all quotes are characters."""
    rows = [*((f"u{number}", "saw") for number in range(9000)), ("v", '"5"" pipe"')]
    for name, more in (('5" pipe', []), ('"5"" pipe"', [("w", '5" bar')])):
        path = write("y.tsv", tsv([*rows, *more], ["query", "item"]))
        assert set(read_target(path).label_names) == {name, "saw", *(item for _, item in more)}


def test_lists_with_tabs_and_quotes(write, rows_of):
    """A list that is quoted because it holds a comma, as spreadsheets write it."""
    preds, target = write("p.tsv", 'id\tcodes\nn1\t"b,a"\nn2\tc\n'), write("y.csv", 'id,codes\nn1,"b,a"\nn2,c\n')
    found = rows_of(read(preds, target))
    assert found == {0: ({1: 0.0, 0: -1.0}, [0, 1]), 1: ({2: 0.0}, [2])}


def test_a_quote_in_a_target(write, rows_of):
    """The same holds for targets, and for the names of columns."""
    preds = write("p.csv", table([("u1", 0, 1), ("u2", 1, 1)]))
    with pytest.raises(DataFileError, match=r"y\.csv, line 2: has a quote that does not close"):
        read(preds, write("y.csv", 'query,item,title\nu1,0,"x\nu2,1,y\n'))
    with pytest.raises(DataFileError, match=r"y\.csv, line 1: has a quote that does not close"):
        read(preds, write("y.csv", 'query,item,"title\nu1,0,x\nu2,1,y"\n'))
    assert rows_of(read(preds, write("y.tsv", 'query\titem\ttitle\nu1\t0\t"x\nu2\t1\ty"\n')))[1][1] == [1]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("p.jsonl", jsonl([*PREDS, ("u1", 1, float("nan"))]), "query 'u1': holds the score nan"),
        ("p.jsonl", jsonl([*PREDS, ("u1", 7, 1)]), "query 'u1': holds the label 7 twice"),
        ("p.jsonl", jsonl([*PREDS, ("", 7, 1)]), "line 5: the query is empty"),
        ("p.jsonl", "\n", "holds no rows"),
        ("p.csv", "query,item\nu1,7\n", "line 1: there is no column 'score'"),
        ("p.csv", "u1,a,b\n", "line 1: 'u1' and 'a' and 'b' may be names of columns, or data without names"),
        ("p.csv", table(PREDS) + "u1,8\n", "line 6: there are 2 fields, but 3 names of columns"),
        ("p.csv", table(PREDS) + "u1,8,1,2\n", "line 6: there are 4 fields, but 3 names of columns"),
        ("p.tsv", tsv(PREDS) + "u1\t8\n", "line 6: there are 2 fields, but 3 names of columns"),
        ("p.csv", 'query,item,score\n"u1",7,1\n\nu1,7,high\n', "line 4: score 'high' is not a number"),
        ("p.csv", "query,item,score\nu1,7,1_0\n", "line 2: score '1_0' is not a number"),
        ("p.csv", "query,item,score,score\nu1,7,1,2\n", "line 1: there are several columns 'score'"),
        ("p.csv", "query,item,rating,rating\nu1,7,1,2\n", "line 1: there are several columns 'rating'"),
        (
            "p.csv",
            "user_id,qid,item,score\nu1,u1,7,1\n",
            "line 1: the columns 'user_id' and 'qid' could both be the query",
        ),
        ("p.csv", table([*PREDS, ("u1", "", 1)]), "line 6: the item is empty"),
        ("p.csv", table([*PREDS, ("u1", 7, 1)]), "query 'u1': holds the label 7 twice"),
        ("p.csv", "query,item,score\n", "holds no rows"),
    ],
)
def test_errors_name_the_line_or_the_query(write, name, text, problem):
    """Malformed lines, missing fields, other types, NaN and repeated items are errors that name line or query."""
    with pytest.raises(DataFileError, match=rf"{name}.*{problem}") as caught:
        list(read(write(name, text), write("y.csv", table(TARGET)), num_labels=9))
    assert caught.value.hint


def test_only_some_lines_with_a_gain(write):
    """A gain on some lines only is an error that names the first line which differs, however far away."""
    lines_of = {"y": '{"query": "u1", "item": 7, "gain": 1}\n', "n": '{"query": "u1", "item": 5}\n'}
    preds = write("p.jsonl", jsonl(PREDS))
    with pytest.raises(DataFileError, match=r"y\.jsonl, line 2: 'gain' is missing"):
        read(preds, write("y.jsonl", lines_of["y"] + lines_of["n"]))
    with pytest.raises(DataFileError, match=r"y\.jsonl, line 1: 'gain' is missing"):
        read(preds, write("y.jsonl", lines_of["n"] + lines_of["y"]))


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


ODD = [
    '{"query": "u1", "item": "7", "score": 0.5}',
    '{"score": 1, "item": "\\u00e9", "query": "u1", "more": {"a": [1, {"b": null}]}}',
    '{"query": "u2", "item": "7", "score": -1e-300}',
    '{"query": "2020-01-01", "item": "x y", "score": 123456789012345678901}',
    '{"query": "u1", "item": 8, "score": 1e400}',
]
WRONG = [
    ('{"query": "u1", "item": "9",', "is not JSON"),
    ("{}, {}", "is not JSON"),
    ('{"query": 1\n"item": 7, "score": 2}', "is not JSON"),
    ('{"query": 1, "item": [{}\n{}], "score": 2}', "is not JSON"),
    # two records on one line and one on two lines are as many as there are lines
    ('{"query": "u1", "item": "b",\n"score": 1}{"query": "u1", "item": "c", "score": 1}', "is not JSON"),
    ('{"query": "u1", "item": "9", "score": 1}{"query": "u1", "item": "9", "score": 1}', "is not JSON"),
    ('{"query": "u1", "item": "9", "score": true}', "'score' is true, not a number"),
    ('{"query": "u1", "item": "9", "score": "1"}', "'score' is \"1\", not a number"),
    ('{"query": "u1", "item": true, "score": 1}', "'item' is true"),
    ('{"query": "u1", "item": 9.0, "score": 1}', "'item' is 9.0, not a string or a whole number"),
    ('{"query": "u1", "score": 1}', "'item' is missing"),
    ('{"query": null, "item": "9", "score": 1}', "'query' is null"),
    ('[{"query": "u1", "item": "9", "score": 1}]', "is not a JSON object"),
    ('{"query": "u1", "query": "u2", "item": "9", "score": 1}', "holds the key 'query' 2 times"),
]


def triples(path):
    """Return the lines of a file as Python has them."""
    database = Database()
    KeyedFile(path, [(path, lambda: read_jsonl(Opening(path, "preds", Columns())))]).load(database, "lines_of")
    found = database.arrays("SELECT * FROM lines_of ORDER BY rowid")
    return list(zip(*(found[name].tolist() for name in ("query", "item", "value")), strict=True))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n \n"])
def test_lines_mean_the_same_however_they_are_parsed(write, end):
    """Blocks that Arrow parses, and those that it leaves to Python, hold what ``json.loads`` finds in each line."""
    plain = jsonl([("u1", f"a{number}", number / 7) for number in range(20)]).splitlines()
    text = [*plain, *ODD, *plain[::-1]]
    expected = [json.loads(line) for line in text]
    found = triples(write("p.jsonl", end.join(text)))
    assert found == [(one["query"], str(one["item"]), float(one["score"])) for one in expected]


@pytest.mark.parametrize(("line", "problem"), WRONG)
def test_a_wrong_line_is_named_wherever_it_stands(write, line, problem):
    """Whatever DuckDB makes of it, the line is named that ``json.loads`` refuses."""
    plain = jsonl([("u1", f"a{number}", 0.5) for number in range(40)]).splitlines()
    path = write("p.jsonl", "\n".join([*plain[:30], line, *plain[30:]]) + "\n")
    with pytest.raises(DataFileError, match=rf"p\.jsonl, line 31: .*{problem}"):
        triples(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[{"query": "u1", "item": "x"}, {"query": "u2", "item": "y", "gain": 5}]', "object 1: 'gain' is missing"),
        ('[{"query": "u1", "item": "x"}, {"item": "y"}]', "object 2: 'query' is missing"),
        ('[{"query": "u1", "item": 2.5}]', "object 1: 'item' is 2.5, not a string or a whole number"),
        ('[{"query": "u1", "item": "x", "gain": "abc"}]', "object 1: 'gain' is \"abc\", not a number"),
        (f'[{{"query": "u1", "item": "x", "gain": 1{"0" * 400}}}]', "cannot be read as JSON: int too large"),
        ('[{"query": "u1", "query": "u2", "item": "x"}]', "holds the key 'query' 2 times in one object"),
        ('{"u1": ["x", null]}', "query 'u1': 'item' is null, not a string"),
        ('{"u1": ["x", true]}', "query 'u1': 'item' is true"),
        ('{"u1": ["x", 2.5]}', "query 'u1': 'item' is 2.5"),
        ('{"u1": ["x", ["y", 1]]}', "query 'u1': 'item' is [\"y\", 1]"),
        ('{"u1": {"x": null}}', "query 'u1': 'value' is null, not a number"),
        ('{"u1": {"x": "1"}}', "query 'u1': 'value' is \"1\""),
        ('{"u1": {"x": true}}', "query 'u1': 'value' is true"),
        ('{"u1": {"x": 1}, "u2": {"y": 1}, "u1": {"x": 1}}', "holds the key 'u1' 2 times in one object"),
        ('{"u1": {"x": 1, "y": 1, "x": 5}}', "holds the key 'x' 2 times in one object"),
    ],
)
def test_json_of_every_form_is_checked_as_json_lines_are(write, text, problem):
    """Missing gains, labels and gains of other types and repeated keys are refused, not dropped or made names."""
    with pytest.raises(DataFileError, match=rf"y\.json.*{re.escape(problem)}") as caught:
        read_target(write("y.json", text))
    assert caught.value.hint


ENDED = {
    "p.run": ["u1 Q0 a 1 2 t", "u1 Q0 b 2 1 t", "u2 Q0 a 1 3 t", "u2 Q0 b 2 high t"],
    "p.csv": ["query,item,score", '"u1","a",2', '"u1","b",1', '"u2","a",high'],
    "p.tsv": ["query\titem\tscore", "u1\ta\t2", "u1\tb\t1", "u2\ta\thigh"],
    "p.jsonl": [jsonl([("u1", "a", 2)]).strip(), jsonl([("u1", "b", 1)]).strip(), '{"query": "u1", "item": "a"}'],
}


@pytest.mark.parametrize("name", ENDED)
@pytest.mark.parametrize("ends", ["\r", "\n\r", "\r\n\r", "\n\r\n\r"])
@pytest.mark.slow
def test_a_carriage_return_ends_a_line(write, rows_of, name, ends):
    """LF, CR LF and CR end a line, mixed or not: no line is swallowed by the one above, and wrong ones are counted."""
    *right, wrong = ENDED[name]
    *some, last = ends.replace("\r\n", "N")
    every = [(some or [last])[number % max(1, len(some))] for number in range(len(right) - 1)] + [last]
    text = "".join(line + end for line, end in zip(right, every, strict=True)).replace("N", "\r\n")
    target = write("y.csv", "query,item\nu1,a\n")
    lists = [preds for preds, _ in rows_of(read(write(name, text), target)).values()]
    assert lists[0] == ({0: 2.0, 1: 1.0} if name != "p.run" else {1: 2.0, 0: 1.0})
    with pytest.raises(DataFileError, match=f"line {len(right) + 1}: "):
        read(write(name, text + wrong + "\n"), target)


def test_a_first_line_longer_than_what_formats_are_told_by(write, rows_of):
    """A record may hold a long text beside what is read: 70 kB in one line, with a line end behind it or at the end."""
    target = write("y.csv", "query,item\nu1,a\n")
    assert len(head(write("cr.csv", "query,item,score\r" + "u1,a,1\r" * 20_000))) == HEAD_BYTES
    for end in ("\n", ""):
        preds = write("p.jsonl", json.dumps({"query": "u1", "item": "a", "score": 2.0, "text": "t" * 70_000}) + end)
        assert rows_of(read(preds, target)) == {0: ({0: 2.0}, [0])}


def test_json_of_dicts_and_lists_is_refused(write):
    """Of a dict a list would have gain 1 without a word; the query is named. What is empty may be either."""
    mixed = write("y.json", '{"q1": {"x": 3}, "q2": ["x"]}')
    with pytest.raises(DataFileError, match="query 'q2': holds a list, but the queries above hold a dict"):
        read_target(mixed)
    assert read_target(write("y.json", '{"q1": {"x": 3}, "q2": []}')).num_rows == 2
