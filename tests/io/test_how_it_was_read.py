"""What a file holds is said; two readings that would give different numbers are refused, and the hint gives the number."""

import json
import pickle
import sqlite3
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tailmetrics import RecallAtK, evaluate
from tailmetrics.cli import main
from tailmetrics.io import Columns, DataFileError, DataFileNote, read, read_target

FORMS = ["csv", "tsv", "jsonl", "parquet", "frame"]
PREDS = {"user_id": ["u1", "u1", "u2", "u2"], "item_id": ["a", "b", "a", "b"], "score": [0.9, 0.5, 0.4, 0.3]}
CLICKS = {"user_id": ["u1", "u1", "u2", "u2"], "item_id": ["a", "b", "a", "b"], "tapped": [0, 1, 1, 0]}
"""The first item of u1 was not tapped, that of u2 was: recall at 1 is a half, and .5 too where each line counts."""

pytestmark = pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")


def written(folder, form, name, table):
    """Write a table in a form, and return its path, or return a frame."""
    frame, path = pd.DataFrame(table), folder / f"{name}.{form}"
    if form == "frame":
        return frame
    if form == "parquet":
        frame.to_parquet(path)
    elif form == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="," if form == "csv" else "\t")
    return path


def recall(preds, target, k=1, **options):
    """Return recall at k."""
    metric = RecallAtK(k=k)
    for batch in read(preds, target, **options):
        metric.update(batch.preds, batch.target)
    return float(metric.compute())


def refused(*files, words, **options):
    """Return the hint of the error, whose text holds some words."""
    with pytest.raises(DataFileError) as caught:
        recall(*files, **options)
    assert words in str(caught.value)
    assert len(str(caught.value)) <= 400
    return caught.value.hint


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("cells", "holds"),
    [
        ([0, 1, 0, 0], "0 and 1"),
        ([False, True, False, False], "False and True"),
        ([1, 3, 1, 1], "1 and 3"),
        ([0.5, 0.25, 0.125, 0], "numbers from 0 to 0.5"),
    ],
)
def test_a_column_that_may_be_the_gain_is_refused(tmp_path, form, cells, holds):
    """Whatever its name and form; the gain makes u1's second item the relevant one, ``none`` makes all lines relevant."""
    preds = written(tmp_path, form, "p", {**PREDS, "score": [0.5, 0.9, 0.3, 0.4]})
    target = written(tmp_path, form, "y", {**CLICKS, "tapped": cells})
    hint = refused(preds, target, words=f"column 'tapped' ({holds}) may be the gain of each line")
    assert hint.startswith("columns=Columns(gain='tapped') reads it; columns=Columns(gain='none') takes each line")
    gains = {one: float(cell) for one, cell in zip([(0, 0), (0, 1), (1, 0), (1, 1)], cells, strict=True)}
    relevant = {row: [gains[row, item] > 0 for item in (0, 1)] for row in (0, 1)}
    expected = np.mean([first_two[1] / sum(first_two) if any(first_two) else 0 for first_two in relevant.values()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert recall(preds, target, columns=Columns(gain="tapped")) == expected
        assert recall(preds, target, columns=Columns(gain="none")) == 0.5


@pytest.mark.parametrize("form", FORMS)
def test_a_gain_that_the_first_rows_do_not_show(tmp_path, form):
    """Ones in the first 64 kB, and a 0 behind them, are a gain as well; ones alone are not."""
    ones = {"user_id": [f"u{row}" for row in range(9000)], "item_id": ["a"] * 9000, "tapped": [1] * 9000}
    assert read_target(written(tmp_path, form, "y", ones)).num_rows == 9000
    with pytest.raises(DataFileError, match=r"column 'tapped' \(0 and 1\) may be the gain"):
        read_target(written(tmp_path, form, "y", {**ones, "tapped": [1] * 8999 + [0]}))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("cells", "holds", "numbers"),
    [
        ([None, 1, 1, None], "1, or empty", [0, 1, 1, 0]),
        (["bad", "good", "good", "bad"], "bad and good", [0, 1, 1, 0]),
        (["not relevant", "exact", "partly", "not relevant"], "exact, not relevant, partly", [0, 3, 1, 0]),
        ([None, "good", "good", None], "good, or empty", [0, 1, 1, 0]),
    ],
)
def test_words_and_empty_cells_may_be_the_gain(tmp_path, form, cells, holds, numbers):
    """The number needs 0 for an empty cell, and numbers for words; the hint says so, and names ``none``."""
    several = {"user_id": CLICKS["user_id"], "item_id": CLICKS["item_id"], "flag": cells}
    preds, target = written(tmp_path, form, "p", PREDS), written(tmp_path, form, "y", several)
    hint = refused(preds, target, words=f"column 'flag' ({holds}) may be the gain of each line")
    if 1 in cells:
        assert hint.startswith("with 0 in empty cells, columns=Columns(gain='flag') reads it; ")
    else:
        assert hint.startswith("numbers for its letters or words make it the gain; ")
    assert hint.endswith("columns=Columns(gain='none') takes each line as relevant.")
    assert recall(preds, target, columns=Columns(gain="none")) == 0.5  # one of two relevant items comes first
    filled = written(tmp_path, form, "filled", {**several, "flag": numbers})
    assert recall(preds, filled, columns=Columns(gain="flag")) == 0.5  # the second of u1, and the first of u2


@pytest.mark.parametrize("form", FORMS)
def test_empty_cells_behind_the_first_rows(tmp_path, form):
    """Ones in the first 64 kB, and an empty cell behind them, are as open as ones and a 0."""
    table = {"user_id": [f"u{row}" for row in range(9000)], "item_id": ["a"] * 9000, "flag": [1] * 8999 + [None]}
    with pytest.raises(DataFileError, match=r"column 'flag' \(1, or empty\) may be the gain") as caught:
        read_target(written(tmp_path, form, "y", table))
    assert caught.value.hint.startswith("with 0 in empty cells, columns=Columns(gain='flag') reads it")
    assert read_target(written(tmp_path, form, "y", table), columns=Columns(gain="none")).num_rows == 9000


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("one", "other"), [("prediction", "score"), ("score", "bm25"), ("bm25", "rerank_score")])
def test_two_columns_of_scores(tmp_path, form, one, other):
    """Whether or not one of them is called score; each answer of the hint gives its own number."""
    best, worst = [0.9, 0.5, 0.4, 0.3], [0.5, 0.9, 0.3, 0.4]
    ids = {"user_id": PREDS["user_id"], "item_id": PREDS["item_id"]}
    preds = written(tmp_path, form, "p", {**ids, one: best, other: worst})
    target = written(tmp_path, form, "y", {"user_id": ["u1", "u2"], "item_id": ["a", "a"]})
    hint = refused(preds, target, words="could both be the score")
    assert all(f"columns=Columns(score={name!r})" in hint for name in (one, other))
    assert recall(preds, target, columns=Columns(score=one)) == 1
    assert recall(preds, target, columns=Columns(score=other)) == 0
    text = written(tmp_path, form, "p", {**ids, "score": best, "prediction": [*"abab"], "score_rank": [1, 2, 1, 2]})
    assert recall(text, target) == 1


@pytest.mark.parametrize("form", ["jsonl", "parquet", "frame"])
def test_two_scores_of_an_object(tmp_path, form):
    """The same within the objects of a list."""
    lists = [[{"id": "a", "score": 0.9, "bm25": 2.0}, {"id": "b", "score": 0.5, "bm25": 3.0}]]
    preds = written(tmp_path, form, "p", {"user_id": ["u1"], "recommendations": lists})
    target = written(tmp_path, form, "y", {"user_id": ["u1"], "item_id": ["a"]})
    hint = refused(preds, target, words="'recommendations' is a list of")
    assert hint.startswith("columns=Columns(ids='recommendations', item=NAME, score=NAME) says")
    for score, value in (("score", 1), ("bm25", 0)):
        assert (
            recall(preds, target, columns=(Columns(ids="recommendations", item="id", score=score), Columns())) == value
        )


@pytest.mark.parametrize("suffix", ["tsv", "csv", "inter"])
def test_times_without_names_are_no_gains(tmp_path, suffix):
    """As below a name: each line of targets is relevant; as predictions, lines need a score or the order of lines."""
    tab = "," if suffix == "csv" else "\t"
    lines = [("u1", "a", 978300760), ("u1", "b", 978300761), ("u2", "b", 978300762)]
    path = tmp_path / f"y.{suffix}"
    path.write_text("".join(tab.join(map(str, line)) + "\n" for line in lines))
    preds = written(tmp_path, "csv", "p", PREDS)
    assert recall(preds, path) == 0.25  # u1: one of two relevant items; u2: none of one
    for batch in read(preds, path):
        assert not batch.target.is_floating_point()
    refused(path, path, words="there is no column 'score'")
    assert recall(path, path, columns=Columns(query="0", item="1", rank="order")) == 0.75


def test_frames_in_evaluate_are_renamed():
    """A call without names of columns says what to rename, or what to leave out; both give the number."""
    preds, target = pd.DataFrame(PREDS), pd.DataFrame({**CLICKS, "tapped": [0, 1, 0, 1]})
    with pytest.raises(DataFileError, match=r"column 'tapped' \(0 and 1\) may be the gain") as caught:
        evaluate(preds, target, metrics=[RecallAtK(k=1)])
    assert caught.value.hint.startswith("the name 'gain' for 'tapped' reads it; a table without it takes each line")
    for table, expected in ((target.rename(columns={"tapped": "gain"}), 0), (target.drop(columns="tapped"), 0.5)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert evaluate(preds, table, metrics=[RecallAtK(k=1)]).scalars["recall@1"] == expected


def test_names_that_the_user_gives_hide_no_gain(tmp_path):
    """The other columns are named, and the one that is left may still be the gain."""
    preds = written(tmp_path, "csv", "p", dict(zip(["uuid", "sku", "score"], PREDS.values(), strict=True)))
    target = written(tmp_path, "csv", "y", dict(zip(["uuid", "sku", "tapped"], CLICKS.values(), strict=True)))
    refused(preds, target, words="column 'tapped' (0 and 1)", columns=Columns(query="uuid", item="sku"))
    named = Columns(query="uuid", item="sku", gain="tapped")
    assert recall(preds, target, columns=named) == 0.5


def test_scores_of_labels_are_no_lists(tmp_path):
    """A table of probabilities with the list of targets, given as predictions: how the scores are given is said."""
    notes = pd.DataFrame(
        {"_id": [1, 2], "A1": [0.1, 0.5], "B2": [0.2, 0.7], "C3": [0.9, 0.1], "target": [["A1"], ["B2"]]}
    )
    notes.to_parquet(tmp_path / "notes.parquet")
    for table in (notes, tmp_path / "notes.parquet"):
        hint = refused(table, table, words="column 'target' may be the targets")
        assert "numpy.save('preds.npy', table[labels]), and give label_names=NAMES" in hint
    labels = ["A1", "B2", "C3"]
    np.save(tmp_path / "preds.npy", notes[labels])
    notes[["target"]].to_parquet(tmp_path / "y.parquet")
    assert recall(tmp_path / "preds.npy", tmp_path / "y.parquet", label_names=labels) == 0.5  # best: C3, B2


@pytest.mark.parametrize("form", FORMS)
def test_a_query_of_several_columns(tmp_path, form):
    """The relation is a part of the query; without it the pairs of a head repeat, and the hint names it."""
    facts = {"head": ["h"] * 4, "relation": ["is", "is", "in", "in"], "tail": ["a", "b", "b", "a"]}
    preds = written(tmp_path, form, "p", {**facts, "score": [2.0, 1.0, 2.0, 1.0]})
    target = written(tmp_path, form, "y", {name: [cells[0], cells[2]] for name, cells in facts.items()})
    hint = refused(preds, target, words="twice", columns=Columns(query="head", item="tail"))
    assert "columns=Columns(query='head,relation')" in hint
    assert recall(preds, target, columns=Columns(query="head,relation", item="tail")) == 1


@pytest.mark.parametrize("cells", [["A1 B2", "A1 B2", "C3"], ["cat dog", "dog cat", "cat"], ["A1;B2", "A1;B2", ""]])
def test_a_named_column_of_lists(tmp_path, cells):
    """With or without digits, with or without equal rows, and with a row of no label, a list is a list."""
    path = tmp_path / "y.csv"
    path.write_text("note_id,text,codes\n" + "".join(f"n{row},well,{cell}\n" for row, cell in enumerate(cells)))
    found = read_target(path, columns=Columns(labels="codes"))
    names = found.label_names
    rows = [{names[one] for one in row if one >= 0} for part in found for row in part.target.tolist()]
    assert rows == [set(cell.replace(";", " ").split()) for cell in cells]


@pytest.mark.parametrize("names", ["id,label", "user_id,item_id", "kunde,ort"])
@pytest.mark.parametrize("blank", [" ", ";", ","])
def test_names_that_hold_blanks(tmp_path, names, blank):
    """Names in the predictions decide, and what the user says: ``item`` is one label in a line, ``labels`` a list."""
    query, item = names.split(",")
    preds, target = tmp_path / "p.json", tmp_path / "y.csv"
    preds.write_text(json.dumps({"a": {f"fast{blank}food": 2, "law": 1}, "b": {"law": 2, "tech": 1}}))
    target.write_text(f'{names}\na,"fast{blank}food"\nb,tech\n')
    for columns in (Columns(query=query), Columns(query=query, item=item)):
        assert recall(preds, target, columns=(None, columns)) == 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert recall(preds, target, columns=(None, Columns(query=query, labels=item))) == 0
    preds.write_text(json.dumps({"a": {"fast": 2, "food": 1}, "b": {"law": 2, "tech": 1}}))
    assert query == "user_id" or recall(preds, target, k=2, columns=(None, Columns(query=query))) == 1
    preds.write_text(json.dumps({"a": {f"fast{blank}food": 2, "fast": 1}, "b": {"law": 2, "tech": 1}}))
    target.write_text(f'{names}\na,"fast{blank}food"\nb,"fast{blank}tech"\n')
    if query != "user_id":
        hint = refused(
            preds, target, words="may hold lists, or one label in each", columns=(None, Columns(query=query))
        )
        assert f"columns=Columns(labels={item!r}) reads lists; columns=Columns(item={item!r}) reads one" in hint


LISTED = {"qid": ["q1", "q2"], "answers": [["a", "b"], ["c"]]}
OBJECTS = {
    "q1": [{"movieId": "z", "rating": 2.5}, {"movieId": "a", "rating": 1.5}],
    "q2": [{"movieId": "c", "rating": 3}],
}
"""Of q1 the first is wrong, the second right: recall at 2 is .75."""


@pytest.mark.parametrize("form", ["jsonl", "json", "objects", "dict", "dict.json", "parquet"])
def test_lists_of_objects_in_each_form(tmp_path, form):
    """JSON Lines, JSON and Python have the shapes of Parquet."""
    records = [{"qid": query, "recommendations": some} for query, some in OBJECTS.items()]
    path = tmp_path / f"p.{form.rpartition('.')[2]}"
    if form == "parquet":
        pd.DataFrame(records).to_parquet(path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
    else:
        path.write_text(json.dumps(records if form == "json" else OBJECTS))
    preds = {"objects": records, "dict": OBJECTS}.get(form, path)
    for target in (written(tmp_path, "jsonl", "y", LISTED), dict(zip(*LISTED.values(), strict=True))):
        assert recall(preds, target, k=2) == 0.75


def test_objects_of_each_row_in_python():
    """A pipeline of Hugging Face returns a list of dicts for each text: labels with scores, in any order."""
    scored = [[{"label": "a", "score": 0.3}, {"label": "b", "score": 0.4}], [{"label": "a", "score": 0.9}]]
    report = evaluate(scored, [["a"], ["a"]], metrics=[RecallAtK(k=1)])
    assert report.scalars["recall@1"] == 0.5
    assert report.readings[0].startswith(
        "preds (Table): column 'ids.label' holds the lists, column 'ids.score' is the score"
    )


def test_names_of_both_files_win(tmp_path):
    """PyTerrier's frame has the text of the query and numbers of documents, too: both files have qid and docno."""
    run = {"qid": ["1", "1"], "docid": [5, 6], "docno": ["a", "b"], "rank": [0, 1], "score": [2.0, 1.0]}
    run["query"] = ["what is it"] * 2
    target = {"qid": ["1", "1"], "docno": ["b", "a"], "label": [1, 0]}
    for form in FORMS:
        assert recall(*(written(tmp_path, form, *file) for file in (("p", run), ("y", target)))) == 0


def test_lines_in_the_order_of_ranks(tmp_path):
    """Without a score or a rank the hint names the option that takes lines as they stand; files and frames alike."""
    pairs, truth = {"query": ["q", "r", "q"], "item": ["z", "c", "a"]}, {"query": ["q", "r"], "item": ["z", "c"]}
    for form in FORMS:
        preds, target = written(tmp_path, form, "p", pairs), written(tmp_path, form, "y", truth)
        assert "columns=Columns(rank='order')" in refused(preds, target, words="there is no column 'score'")
        assert recall(preds, target, columns=Columns(rank="order")) == 1


def test_delimiters(tmp_path):
    """The delimiter comes before the separators of labels; the user may name it, also where no suffix tells it."""
    (tmp_path / "y.csv").write_text("query,item\n5,22\n6,22\n")
    (tmp_path / "p.csv").write_text("5;21,22,23\n6;22,21,24\n")
    for delimiter in (None, ";"):
        assert recall(tmp_path / "p.csv", tmp_path / "y.csv", delimiter=delimiter) == 0.5
    for name in ("p.txt", "p.psv"):
        (tmp_path / name).write_text("user_id|item_id|score\n5|22|.9\n6|21|.9\n")
        assert recall(tmp_path / name, tmp_path / "y.csv", delimiter="|" if name == "p.txt" else None) == 0.5


def test_pairs_and_ones_in_columns_of_tabs(tmp_path):
    """Leave-one-out targets: a gain of 1 in each line is no rank of MS MARCO."""
    (tmp_path / "y.tsv").write_text("u1\tb\t1\nu2\ta\t1\n")
    assert recall(written(tmp_path, "csv", "p", PREDS), tmp_path / "y.tsv") == 0.5


def test_lists_behind_the_query(tmp_path):
    """A line of a query and all its labels: the hint names the format, with which none of them is left out."""
    (tmp_path / "p.csv").write_text("7, a, b, c\n8, b, c\n")
    (tmp_path / "y.csv").write_text("query,item\n7,b\n8,b\n")
    files = tmp_path / "p.csv", tmp_path / "y.csv"
    assert "format='lists' takes all fields behind" in refused(*files, words="")
    for columns in (None, (Columns(query="0", item="1"), None)):
        assert [recall(*files, k=k, format=("lists", None), columns=columns) for k in (1, 2)] == [0.5, 1]


@pytest.mark.parametrize("form", [*FORMS, "run"])
def test_ranks_that_contradict_scores(tmp_path, form):
    """A distance read as a score is said, with the column of ranks and the option that reads them."""
    run = {**PREDS, "score": [0.1, 0.9, 0.2, 0.8], "rank": [1, 2, 1, 2]}
    target = written(tmp_path, "csv", "y", {"user_id": ["u1", "u2"], "item_id": ["a", "a"]})
    if form == "run":
        lines = zip(*(run[name] for name in ("user_id", "item_id", "rank", "score")), strict=True)
        (tmp_path / "p.run").write_text("".join(f"{u} Q0 {i} {r} {s} me\n" for u, i, r, s in lines))
    preds = tmp_path / "p.run" if form == "run" else written(tmp_path, form, "p", run)
    with pytest.warns(UserWarning, match="say.? the contrary"):
        assert recall(preds, target) == 0
    if form != "run":
        assert recall(preds, target, columns=Columns(rank="rank")) == 1


def test_notes_with_ends_of_lines(tmp_path):
    """As pandas writes them; a note without a code is an empty list, and a quote that stays open is still refused."""
    table = {
        "note_id": ["n1", "n2", "n3"],
        "text": ["bad\npain, 3\n", "well", 'he said "no"\nbye'],
        "codes": ["A1 B2", "", "B2"],
    }
    target = written(tmp_path, "csv", "y", table)
    found = read_target(target, columns=Columns(labels="codes"))
    assert [[found.label_names[one] for one in row if one >= 0] for part in found for row in part.target.tolist()] == [["A1", "B2"], [], ["B2"]]  # fmt: skip
    target.write_text(target.read_text() + 'n4,"open,A1\n')
    with pytest.raises(DataFileError, match=r"y\.csv, line 8: has a quote that does not close"):
        read_target(target, columns=Columns(labels="codes"))


def test_what_no_format_reads_is_named(tmp_path):
    """A pickle, a database, a spreadsheet, an array of objects and text of numilers say what they are."""
    files = {"p.pkl": pickle.dumps([1]), "p.xlsx": b"PK\x03\x04" + b"xl/workbook" * 9}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with sqlite3.connect(tmp_path / "p.db") as database:
        database.execute("create table a(b)")
    database.close()
    np.save(tmp_path / "p.npy", np.array([[1], [2, 3]], object), allow_pickle=True)
    np.savetxt(tmp_path / "p.txt", np.random.default_rng(0).random((3, 4)))
    target = written(tmp_path, "csv", "y", CLICKS)
    words = {"p.pkl": "a pickle", "p.xlsx": "a spreadsheet", "p.db": "SQLite", "p.npy": "Python objects"}
    for name, word in words.items():
        assert refused(tmp_path / name, target, words=word)
    assert "numpy.loadtxt" in refused(tmp_path / "p.txt", target, words="")


def test_predictions_that_are_the_targets(tmp_path, capsys):
    """Tables, files and arrays: said where each row holds the same labels in both."""
    same = {"query": ["a", "b", "c"], "item": ["x", "y", "z"]}
    with pytest.warns(UserWarning, match="Are these predictions, or the targets themselves"):
        report = evaluate(pd.DataFrame({**same, "score": [1.0] * 3}), pd.DataFrame(same), metrics=[RecallAtK(k=1)])
    assert any("or the targets themselves" in one for one in report.notes)
    with pytest.warns(UserWarning, match="preds equals target in each row"):
        evaluate(np.array([[1], [2], [3]]), np.array([[1], [2], [3]]), metrics=[RecallAtK(k=1)])
    path = written(tmp_path, "csv", "y", same)
    words = ["--metrics+=RecallAtK", "--metrics.k=1", "--preds-columns.rank", "order"]
    assert main(["evaluate", "--preds", str(path), "--target", str(path), *words]) == 0
    assert "holds the labels of y.csv, and no others" in capsys.readouterr().err


def test_scores_of_judged_documents_are_no_targets(tmp_path, capsys):
    """Predictions of LETOR have the documents of the targets; the same numbers, too, are said."""
    target, preds = tmp_path / "y.txt", tmp_path / "p.txt"
    target.write_text("".join(f"{grade} qid:{query} 1:0.5\n" for query in range(3) for grade in (2, 0)))
    words = ["evaluate", "--preds", str(preds), "--target", str(target), "--metrics+=RecallAtK", "--metrics.k=1"]
    for scores, is_said in (("0.5\n0.25\n", False), ("2\n0\n", True)):
        preds.write_text(scores * 3)
        assert main(words) == 0
        assert ("or the targets themselves" in capsys.readouterr().err) == is_said


def test_each_file_has_one_line(tmp_path, capsys, monkeypatch):
    """In the terminal, in report.json and on the page, with what is not read, and as options that give the same number."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "csv", "p", {**PREDS, "note": ["long text"] * 4})
    written(tmp_path, "parquet", "y", CLICKS)
    words = [
        "evaluate",
        "--preds",
        "p.csv",
        "--target",
        "y.parquet",
        "--metrics+=RecallAtK",
        "--metrics.k=1",
        "--overwrite",
    ]
    assert main([*words, "--columns.gain", "tapped", "--out", "out"]) == 0
    said = [line.removeprefix("read: ") for line in capsys.readouterr().err.splitlines() if line.startswith("read: ")]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert sorted(said) == sorted(report["readings"])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "How it was read" in page
    preds, target = sorted(said)
    assert preds.startswith(
        "p.csv: column 'user_id' is the query, column 'item_id' is the item, column 'score' is the score"
    )
    assert "not read: 'note' (text)" in preds
    options = [word for one in said for word in one.partition("said outright: ")[2].split()]
    assert "--columns.gain tapped" in target
    assert main([*words, *options, "--out", "again"]) == 0
    assert json.loads((tmp_path / "again" / "report.json").read_text())["metrics"] == report["metrics"]


def test_show_reading_stops_before_the_metrics(tmp_path, capsys, monkeypatch):
    """The line of each file and its first two rows as they are understood; no metric is needed."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "csv", "p", PREDS)
    (tmp_path / "y.csv").write_text("note_id,codes\nu1,a;b\nu2,b;c\n")
    np.save(tmp_path / "p.npy", np.array([[0.5, 0.25, 0.125], [0.1, 0.2, 0.3]]))
    assert main(["evaluate", "--preds", "p.csv", "--target", "y.csv", "--show-reading"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["p.csv, 'u1': 'a' 0.9, 'b' 0.5", "p.csv, 'u2': 'a' 0.4, 'b' 0.3", "y.csv, 'u1': 'a', 'b'", "y.csv, 'u2': 'b', 'c'"]  # fmt: skip
    assert [line.split(":")[1].strip() for line in err.splitlines()] == ["p.csv", "y.csv"]
    assert main(["evaluate", "--preds", "p.npy", "--target", "y.csv", "--show-reading"]) == 0
    assert capsys.readouterr().out.startswith("p.npy, row 0: 0.5, 0.25, 0.125\n")


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet", "msmarco"])
def test_show_reading_shows_ranks_as_the_file_holds_them(tmp_path, capsys, monkeypatch, form):
    """1 is the best, in every format; none shows the number by which lists are sorted."""
    monkeypatch.chdir(tmp_path)
    ranked = {"query": ["u1", "u1", "u2"], "item": ["a", "b", "a"], "rank": [1, 2, 1]}
    if form == "msmarco":
        (tmp_path / "p.tsv").write_text("u1\ta\t1\nu1\tb\t2\nu2\ta\t1\n")
    else:
        written(tmp_path, form, "p", ranked)
    preds = next(tmp_path.glob("p.*")).name
    (tmp_path / "y.csv").write_text("query,item\nu1,a\nu2,b\n")
    assert main(["evaluate", "--preds", preds, "--target", "y.csv", "--show-reading"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [f"{preds}, 'u1': 'a' 1, 'b' 2", f"{preds}, 'u2': 'a' 1"]


def test_a_name_is_for_the_files_that_have_it(tmp_path):
    """One name for both files, where one of them has another: the other keeps its usual name, and this is said."""
    preds = written(tmp_path, "csv", "p", PREDS)
    target = written(tmp_path, "csv", "y", {"who": ["u1", "u2"], "item_id": ["a", "b"]})
    refused(preds, target, words="there is no column 'query'; its columns are who, item_id")
    with pytest.warns(DataFileNote, match="column 'user_id' is the query"):
        assert recall(preds, target, columns=Columns(query="who")) == 0.5
    refused(preds, target, words="there is no column 'whom'", columns=Columns(query="whom"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["distance", "_dist", "val_loss"])
def test_a_distance_is_no_score(tmp_path, form, name):
    """Its order is asked for; as a rank the lowest is best."""
    run = {"user_id": ["u", "u", "u"], "item_id": ["a", "b", "c"], name: [0.5, 0.25, 0.75]}
    preds, target = (
        written(tmp_path, form, "p", run),
        written(tmp_path, form, "y", {"user_id": ["u"], "item_id": ["b"]}),
    )
    hint = refused(preds, target, words=f"column {name!r} (numbers from 0.25 to 0.75) may be a distance, the lowest")
    assert hint == f"columns=Columns(rank={name!r}) or columns=Columns(score={name!r}) decides."
    assert recall(preds, target, columns=(Columns(rank=name), None)) == 1
    with pytest.warns(UserWarning, match=rf"if it is a distance, the lowest is best: columns=Columns\(rank='{name}'\)"):
        assert recall(preds, target, columns=(Columns(score=name), None)) == 0


NESTED = {"u1": [("a", 0.9), ("b", 0.1)], "u2": [("a", 0.2), ("b", 0.7)]}
"""The best item of each query by its distance, b and a, is the relevant one; the order of lists and scores differ."""


def listed(folder, form, name, shape):
    """Write lists with numbers of some name in a form, as objects or as two lists, and return their path or table."""
    if shape == "objects":
        rows = [{"qid": one, "recs": [{"id": item, name: far} for item, far in NESTED[one]]} for one in NESTED]
    else:
        names = "neighbors", name
        rows = [
            {"qid": one, **dict(zip(names, map(list, zip(*NESTED[one], strict=True)), strict=True))} for one in NESTED
        ]
    path = folder / f"p.{form}"
    if form == "list":
        return rows
    if form == "dict":
        return {row["qid"]: row["recs"] for row in rows}
    if form == "json":
        path.write_text(json.dumps({row["qid"]: row["recs"] for row in rows}))
    elif form == "arrow":
        return pa.Table.from_pylist(rows)
    else:
        return written(folder, form, "p", rows)
    return path


@pytest.mark.parametrize("name", ["distance", "value", "weight", "logprob", "relevance_score"])
@pytest.mark.parametrize(
    ("form", "shape"),
    [(form, "objects") for form in ("jsonl", "json", "parquet", "frame", "arrow", "dict", "list")]
    + [(form, "lists") for form in ("jsonl", "parquet", "frame", "arrow", "list")],
)
def test_numbers_beside_the_labels_of_lists_are_asked_for(tmp_path, form, shape, name):
    """A score picks a and b at the first place, a distance b and a, the order a and a: 0, 1 and a half are relevant."""
    preds = listed(tmp_path, form, name, shape)
    target = written(tmp_path, "csv", "y", {"qid": ["u1", "u2"], "item": ["b", "a"]})
    column, score = (name, "scores") if shape == "lists" else (f".{name}", "score")
    hint = refused(preds, target, words=f"{column}' (numbers from 0.1 to 0.9) may be the score")
    said = [f"columns=Columns({one})" for one in (f"{score}={name!r}", f"rank={name!r}", "rank='order'")]
    assert hint == f"{' or '.join(said)} decides."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert recall(preds, target, columns=(Columns(**{score: name}), None)) == 0
        assert recall(preds, target, columns=(Columns(rank=name), None)) == 1
        assert recall(preds, target, columns=(Columns(rank="order"), None)) == 0.5
    with pytest.raises(DataFileError):
        recall(preds, target, columns=(Columns(rank="far"), None))


def test_ranks_beside_the_labels_of_lists_are_read():
    """A list with a usual name of ranks is their rank, as in objects and in lines; names of scores need no s."""
    target = pd.DataFrame({"qid": ["u1", "u2"], "item": ["b", "a"]})
    ranks = pd.DataFrame({"qid": ["u1", "u2"], "ids": [["a", "b"], ["a", "b"]], "ranks": [[2, 1], [1, 2]]})
    assert recall(ranks, target) == 1
    probs = ranks.rename(columns={"ranks": "probs"}).assign(probs=[[0.1, 0.9], [0.7, 0.3]])
    assert recall(probs, target) == 1
    assert recall(probs, target, columns=(Columns(score="probs"), None)) == 1
    assert recall(probs, target, columns=(Columns(rank="order"), None)) == 0.5


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ([0.0, 1.0], "'weights' (0 and 1) may be the gain"),
        ([0.25, 0.5], "'weights' (numbers 0.25 and 0.5) may be the gain"),
    ],
)
def test_numbers_beside_the_labels_of_targets_are_asked_for(gains, words):
    """The gains of two labels beside them: in the list of u1 they may leave one out."""
    preds = pd.DataFrame({"qid": ["u1"], "ids": [["a", "b"]]})
    target = pd.DataFrame({"qid": ["u1"], "labels": [["a", "b"]], "weights": [gains]})
    hint = refused(preds, target, words=words)
    assert hint == "columns=Columns(gains='weights') or columns=Columns(gain='none') decides."
    assert recall(preds, target, columns=(None, Columns(gains="weights"))) == (0.5 if gains[0] else 0)
    assert recall(preds, target, columns=(None, Columns(gain="none"))) == 0.5


def test_what_objects_say_in_words():
    """Flags of objects are gains, whatever their type; scores in text are refused, and never the order in silence."""
    preds = pd.DataFrame({"qid": ["u1"], "ids": [["a", "b"]]})
    target = [{"qid": "u1", "gold": [{"id": "a", "relevant": False}, {"id": "b", "relevant": True}]}]
    assert recall(preds, target) == 0
    assert recall(preds, target, columns=(None, Columns(gain="none"))) == 0.5
    scores = [{"qid": "u1", "recs": [{"id": "a", "score": "0.1"}, {"id": "b", "score": "0.9"}]}]
    hint = refused(scores, target, words="the field 'score' of column 'recs' is text")
    assert hint.endswith("columns=Columns(rank='order') reads none.")
    assert recall(scores, target, columns=(Columns(rank="order"), None)) == 0


def test_the_order_of_lists_is_said_outright():
    """The options that a reading names are all that it needs, also where numbers beside the labels are not read."""
    target = pd.DataFrame({"qid": ["u1", "u2"], "item": ["b", "a"]})
    preds = [{"qid": one, "recs": [{"id": item, "weight": far} for item, far in NESTED[one]]} for one in NESTED]
    options = read(preds, target, columns=(Columns(rank="order"), None)).readings[0].options
    assert options == "columns=Columns(query='qid', ids='recs', item='id', rank='order')"
    assert recall(preds, target, columns=(eval(options.removeprefix("columns=")), None)) == 0.5


def test_whole_numbers_may_be_distances():
    """A distance of bits, named as the rank, need not count from 1, in lines and in lists."""
    target = pd.DataFrame({"qid": ["u1"], "item": ["b"]})
    lines = pd.DataFrame({"qid": ["u1", "u1", "u1"], "item": [*"abc"], "distance": [7, 3, 7]})
    objects = [{"qid": "u1", "recs": lines[["item", "distance"]].to_dict("records")}]
    for preds in (lines, objects):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert recall(preds, target, columns=(Columns(rank="distance"), None)) == 1


def test_numbers_of_lists_in_text_are_refused(tmp_path):
    """Lists of scores in text are not read, and never left out in silence: JSON Lines gives 1, the order a half."""
    preds, target = tmp_path / "p.csv", tmp_path / "y.csv"
    preds.write_text("qid,ids,scores\nu1,a b,0.1 0.9\nu2,a b,0.7 0.2\n")
    target.write_text("qid,item\nu1,b\nu2,a\n")
    for more in ({}, {"scores": "scores"}, {"score": "scores"}, {"rank": "scores"}):
        hint = refused(preds, target, words="column 'scores' may hold", columns=(Columns(ids="ids", **more), None))
        assert hint.endswith("columns=Columns(ids='ids', rank='order') reads no scores.")
    assert recall(preds, target, columns=(Columns(ids="ids", rank="order"), None)) == 0.5
    rows = [{"query": "u1", "ids": ["a", "b"], "scores": [0.1, 0.9]}, {"query": "u2", "ids": ["a"], "scores": [0.5]}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    target.write_text("query,item\nu1,b\nu2,a\n")
    assert recall(tmp_path / "p.jsonl", target) == 1


def test_gains_of_lists_in_text_are_refused(tmp_path):
    """Of two labels the second counts by its gain; as a list alone both do."""
    preds, target = tmp_path / "p.csv", tmp_path / "y.csv"
    preds.write_text("qid,item,score\nu1,a,0.9\nu2,a,0.9\n")
    target.write_text("qid,labels,gains\nu1,a b,0 1\nu2,a b,0 1\n")
    hint = refused(preds, target, words="column 'gains' may hold", columns=(None, Columns(labels="labels")))
    assert hint.endswith("columns=Columns(labels='labels', gain='none') reads no gains.")
    assert recall(preds, target, columns=(None, Columns(labels="labels", gain="none"))) == 0.5


@pytest.mark.parametrize("number", [2, 6])
@pytest.mark.parametrize("form", FORMS)
def test_pairs_over_columns(tmp_path, form, number):
    """Items and scores in turn: a line for each item, which the hint writes, has the highest score first."""
    scores = {"u1": [0.1, 0.9, 0.05, 0.04, 0.03, 0.02], "u2": [0.7, 0.2, 0.05, 0.04, 0.03, 0.02]}
    table = {"qid": [*scores]}
    for place in range(number):
        table |= {
            f"item_{place + 1}": ["abcdef"[place]] * 2,
            f"score_{place + 1}": [one[place] for one in scores.values()],
        }
    preds = written(tmp_path, form, "p", table)
    target = written(tmp_path, form, "y", {"qid": ["u1", "u2"], "item": ["b", "a"]})
    for named in ({}, {"ids": "item_1"}, {"query": "qid", "ids": "item_1"}):
        hint = refused(preds, target, words="may hold an item and its number each", columns=(Columns(**named), None))
    call = "pandas.wide_to_long(table, ['item_', 'score_'], i='qid', j='place').reset_index()"
    assert hint == f"{call} makes a line for each item."
    assert recall(eval(call, {"pandas": pd, "table": pd.DataFrame(table)}), target) == 1


@pytest.mark.parametrize("cells", [[0, 0, 1, 1], ["a", "a", "b", "b"], [10, 10, 11, 11]])
def test_two_seeds_in_one_file(tmp_path, cells):
    """A repeated pair names the column that tells the copies apart, whatever it holds, and both ways out."""
    run = {"user_id": ["u"] * 4, "item_id": ["a", "b"] * 2, "score": [4.0, 2.0, 1.0, 3.0], "seed": cells}
    preds, target = (
        written(tmp_path, "csv", "p", run),
        written(tmp_path, "csv", "y", {"user_id": ["u"], "item_id": ["b"]}),
    )
    hint = refused(preds, target, words="holds the label 'a' twice")
    assert hint.startswith("if 'seed' tells its lines apart, columns=Columns(query='user_id,seed')")
    assert hint.endswith("give a file for each of its values.")


def test_made_up_names_are_asked_for_at_once(tmp_path):
    """No column is offered as the query because it is first; one refusal names all that is open in both files."""
    preds = written(tmp_path, "csv", "p", {"bar": [2.5, 1.5], "foo": ["a", "b"], "baz": ["u", "u"]})
    target = written(tmp_path, "csv", "y", {"foo": ["b"], "baz": ["u"]})
    with pytest.raises(DataFileError, match="there is no column 'query', 'item', 'score'; its columns") as caught:
        recall(preds, target)
    assert "'foo' and 'baz' may be names of columns" in str(caught.value)
    assert "Columns(query=NAME or query='0', item=NAME or item='1'))" in caught.value.hint
    assert recall(preds, target, columns=Columns(query="baz", item="foo", score="bar")) == 0


def test_triples_without_names(tmp_path):
    """Of three words in a line two are the query; places say so, and names for the predictions."""
    facts = {"head": ["h"] * 3, "relation": ["is", "is", "in"], "tail": ["a", "b", "a"], "score": [2.0, 1.0, 1.0]}
    preds, target = written(tmp_path, "tsv", "p", facts), tmp_path / "y.tsv"
    target.write_text("h\tis\tb\nh\tin\ta\n")
    with pytest.raises(DataFileError, match="may be names of columns, or data") as caught:
        read_target(target)
    assert caught.value.hint.endswith("if not, columns=Columns(query='0,1', item='2').")
    named = Columns(query="head,relation", item="tail"), Columns(query="0,1", item="2")
    assert recall(preds, target, columns=named) == 0.5


@pytest.mark.parametrize("form", FORMS)
def test_a_list_over_columns(tmp_path, form):
    """Columns of one stem and consecutive numbers are one list in CSV, in their order; one of them alone is refused."""
    places = {"top1": ["a", "b"], "top10": ["j", "j"], **{f"top{one}": [f"x{one}"] * 2 for one in range(2, 10)}}
    preds = written(tmp_path, form, "p", {"user_id": ["u", "v"], **places})
    target = written(tmp_path, form, "y", {"user_id": ["u", "v"], "item_id": ["x3", "j"]})
    named = Columns(item="top1", rank="order")
    hint = refused(preds, target, words="'top1' to 'top10' may be a list over columns", columns=(named, None))
    assert "columns=Columns(query=NAME, ids='top1') reads all of them" in hint
    if form in ("csv", "tsv"):
        for columns in (None, (Columns(query="user_id", ids="top1"), None)):
            assert [recall(preds, target, k=k, columns=columns) for k in (2, 3, 9, 10)] == [0, 0.5, 0.5, 1]
    else:
        refused(preds, target, words="may be a list over columns")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cells", [[0.5, 0.25], [1, 0], [True, False]])
def test_a_column_for_each_label(tmp_path, form, cells):
    """One sentence says what the table looks like and what to do, beside an array too; what it says is right."""
    labels = ["law", "fast food", "tech", "film"]
    table = {"note_id": ["u", "v"], **{name: cells[:: 1 if place % 2 else -1] for place, name in enumerate(labels)}}
    wide, array = written(tmp_path, form, "p", table), tmp_path / "array.npy"
    np.save(array, pd.DataFrame(table)[labels].to_numpy())
    for files in ((wide, {"u": ["law"], "v": ["tech"]}), *(((wide, array),) if form != "frame" else ())):
        hint = refused(*files, words="looks like a table with a column for each label")
        assert hint.startswith("numpy.save('array.npy', table[labels].to_numpy()) writes their numbers")
    if cells[0] == 0.5:
        target = written(
            tmp_path, "csv", "y", {"query": ["u", "v"], "labels": ["film", "law"]}
        )  # the best: fast food, law
        assert recall(array, target, label_names=labels) == 0.5


def test_names_of_rows_in_the_same_order(tmp_path):
    """Lists that both name their query keep its names, whatever their order."""
    codes = {"query": ["a", "b"], "labels": [["x"], ["y"]]}
    target = written(tmp_path, "jsonl", "y", codes)
    for order in (1, -1):
        preds = written(tmp_path, "jsonl", "p", {"query": ["a", "b"][::order], "ids": [["x"], ["z"]][::order]})
        assert list(read(preds, target).row_names) == ["a", "b"]
        assert recall(preds, target) == 0.5


def test_another_name_for_the_query(tmp_path):
    """Names of rows in another order, and under another name: joined by them, or refused, never row by row."""
    target = written(tmp_path, "jsonl", "y", {"id": ["a", "b", "c"], "labels": [["x"], ["y"], ["z"]]})
    preds = written(tmp_path, "jsonl", "p", {"note": ["b", "a", "c"], "ids": [["y"], ["x"], ["z"]]})
    hint = refused(preds, target, words="column 'note' may be the query: 3 of its values are in 'id' of")
    assert hint.startswith("columns=(Columns(query='note'), Columns(query='id')) joins by it.")
    assert recall(preds, target, columns=(Columns(query="note"), Columns(query="id"))) == 1
    same = written(tmp_path, "jsonl", "p", {"note": ["a", "b", "c"], "ids": [["x"], ["y"], ["z"]]})
    assert recall(same, target) == 1


def test_predictions_without_a_known_label(tmp_path, capsys):
    """They are refused, whether or not a third file shares labels with the targets."""
    lists = {"p": ("ids", [[" a1"], [" b2"]]), "y": ("labels", [["A1"], ["B2"]]), "t": ("labels", [["A1"], ["B2"]])}
    files = {name: written(tmp_path, "jsonl", name, {column: cells}) for name, (column, cells) in lists.items()}
    words = [
        "evaluate",
        "--preds",
        str(files["p"]),
        "--target",
        str(files["y"]),
        "--metrics+=RecallAtK",
        "--metrics.k=1",
    ]
    for more in ([], ["--train-target", str(files["t"])]):
        assert main([*words, *more]) == 2
        assert "has no label in common with" in capsys.readouterr().err


def test_lists_of_names_with_blanks(tmp_path):
    """A comma alone separates names that the predictions hold whole; without them two separators are refused."""
    target, preds = tmp_path / "y.csv", tmp_path / "p.json"
    target.write_text('query,tags\na,"sci fi, drama"\nb,"film noir, war"\n')
    with pytest.raises(DataFileError, match="may be separated by ',' and blanks"):
        list(read_target(target, columns=Columns(labels="tags")))
    preds.write_text(json.dumps({"a": {"sci fi": 2, "war": 1}, "b": {"drama": 2, "war": 1}}))
    assert recall(preds, target, k=2) == 0.5


def test_a_bar_between_known_names(tmp_path):
    """A first line of usual names tells the bar as the delimiter."""
    (tmp_path / "p.csv").write_text("user_id|item_id|score\nu|a, b|2\nu|c|1\n")
    target = written(tmp_path, "csv", "y", {"user_id": ["u"], "item_id": ["a, b"]})
    assert recall(tmp_path / "p.csv", target) == 1


@pytest.mark.parametrize("form", FORMS)
def test_words_of_the_field(tmp_path, form):
    """A note and its codes, a file and its label: known where the table holds nothing else, or both files have them."""
    for query, item in (("note", "code"), ("filename", "label"), ("id", "category")):
        run = {query: ["n1", "n1"], item: ["a b", "c"], "score": [2.0, 1.0]}
        target = written(tmp_path, form, "y", {query: ["n1"], item: ["a b"]})
        assert recall(written(tmp_path, form, "p", run), target) == 1


def test_the_name_of_the_other_file_in_another_spelling(tmp_path):
    """The text of a query is not the query where the other file has its number."""
    run = {"query_id": ["1"], "query": ["what is it"], "results": [[{"corpus_id": "a", "score": 1.0}]]}
    preds = written(tmp_path, "jsonl", "p", run)
    assert recall(preds, written(tmp_path, "tsv", "y", {"query-id": ["1"], "corpus-id": ["a"], "score": [1]})) == 1


def test_class_indices_in_parquet(tmp_path):
    """One whole number in each row is the class beside scores, as in CSV; lists of numbers are scores to be stacked."""
    np.save(tmp_path / "p.npy", np.array([[0.5, 0.25], [0.1, 0.2]]))
    frame = pd.DataFrame({"text": ["t", "u"], "label": [0, 0]})
    frame.to_parquet(tmp_path / "y.parquet")
    assert recall(tmp_path / "p.npy", tmp_path / "y.parquet") == 0.5
    frame.assign(logits=[[0.5, 0.25], [0.1, 0.2]]).to_parquet(tmp_path / "p.parquet")
    for columns in (None, Columns(scores="logits"), Columns(ids="logits")):
        hint = refused(tmp_path / "p.parquet", tmp_path / "y.parquet", words="", columns=(columns, None))
        assert "numpy.save('preds.npy', numpy.stack(table['logits']))" in hint


def test_equal_scores_that_a_rank_orders(tmp_path):
    """The option that reads the rank is named, and gives its order."""
    run = {"user_id": ["u", "u"], "item_id": ["b", "a"], "score": [1.0, 1.0], "rank": [1, 2]}
    preds, target = (
        written(tmp_path, "csv", "p", run),
        written(tmp_path, "csv", "y", {"user_id": ["u"], "item_id": ["b"]}),
    )
    with pytest.warns(UserWarning, match=r"columns=Columns\(rank='rank'\) reads it"):
        assert recall(preds, target) == 0
    assert recall(preds, target, columns=(Columns(rank="rank"), None)) == 1


def test_what_stands_in_the_place_of_a_format(tmp_path, capsys):
    """svmlight, LZ4, fastText, a decimal comma and a format for one file alone say what they are, ready to be pasted."""
    np.save(tmp_path / "p.npy", np.eye(2))
    (tmp_path / "y.svm").write_text("1,0 2:0.5\n0 1:0.25\n")
    assert "as svmlight and LIBSVM have them" in refused(tmp_path / "p.npy", tmp_path / "y.svm", words="has no header")
    with pa.CompressedOutputStream(str(tmp_path / "y.lz4"), "lz4") as opened:
        opened.write(b"\x04\x22\x4d\x18abc")
    assert "save it as JSON" in refused(tmp_path / "p.npy", tmp_path / "y.lz4", words="is compressed twice as LZ4")
    (tmp_path / "y.txt").write_text("__label__a __label__b some words\n")
    refused(tmp_path / "p.npy", tmp_path / "y.txt", words="is text of fastText")
    (tmp_path / "y.txt").write_text("2 2\n0:1\n1:1\n")
    words = ["evaluate", "--preds", str(tmp_path / "p.npy"), "--target", str(tmp_path / "y.txt"), "--format", "xmc"]
    assert main([*words, "--metrics+=MRR"]) == 2
    assert "add --preds-format npy for predictions alone" in capsys.readouterr().err
    assert main([*words, "--metrics+=MRR", "--preds-format", "npy"]) == 0
    (tmp_path / "p.csv").write_text("query;item;my score\nu;a;1,5\n")
    (tmp_path / "y.csv").write_text("query,item\nu,a\n")
    hint = refused(tmp_path / "p.csv", tmp_path / "y.csv", words="", columns=(Columns(score="my score"), None))
    assert hint.endswith("with a decimal point.")
    (tmp_path / "p.csv").write_text("query,item,my distance\nu,a,1.5\nu,b,2.5\n")
    capsys.readouterr()
    assert main(["evaluate", "--preds", str(tmp_path / "p.csv"), "--target", str(tmp_path / "y.csv"), "--metrics+=MRR"])
    assert "hint: --columns.rank 'my distance' or --columns.score 'my distance' decides." in capsys.readouterr().err


def test_a_name_with_a_blank_behind_the_first_rows(tmp_path):
    """The first 64 kB show no blank: the first cell that has one is refused, and each option reads it."""
    target = tmp_path / "y.csv"
    target.write_text("id,label\n" + "".join(f"u{row},town{row % 9}\n" for row in range(9000)) + "u,new york\n")
    with pytest.raises(DataFileError, match=r"line 9002: column 'label' may hold lists, or one label") as caught:
        read_target(target)
    assert "columns=Columns(item='label') reads one label" in caught.value.hint
    assert read_target(target, columns=Columns(item="label")).num_labels == 10
    assert read_target(target, columns=Columns(labels="label")).num_labels == 11
