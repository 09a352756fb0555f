"""Files as the fields publish them: trec_eval's, BEIR's, MS MARCO's, Kaggle's, those of recommenders."""

import json
import re
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailmetrics.cli import main
from tailmetrics.io import Columns, DataFileError, DataFileNote, read, read_label_names, read_target


def test_what_trec_eval_ignores_is_ignored(write, named):
    """Fields behind the tag, lines that begin with # and names without a suffix: trec_eval's own files are read.

    Source: get_trec_results.c and get_qrels.c of trec_eval.
    """
    run = write("input.run1", "# made by hand\n1 Q0 a 1 2.5 me and more\n  # not indented ones\n1 Q0 #b 2 1.5 me 17\n")
    qrels = write("qrels.123", "# topics 1 to 3\n1 0 a 1\n#2 0 a 1\n1 0 #b 0\n")
    assert named(read(run, qrels)) == {"1": ({"a": 2.5, "#b": 1.5}, {"a": 1.0, "#b": 0.0})}
    assert read_label_names(run, qrels) == ("a", "#b")
    with pytest.raises(DataFileError, match=r"qrels\.long, line 2: there are 5 fields, not 4"):
        read(run, write("qrels.long", "1 0 a 1\n1 0 b 1 more\n"))
    with pytest.raises(DataFileError, match=r"run\.short, line 3: there are 5 fields, not 6"):
        read(write("run.short", "# x\n1 Q0 a 1 2.5 me\n1 Q0 b 1 2.5\n"), qrels)


@pytest.mark.parametrize("grade", ["100000000000000000000", "-100000000000000000000", "9223372036854775808"])
def test_a_grade_that_no_computer_holds_is_named(write, grade):
    """A whole number beyond 64 bits is an error of its line."""
    run = write("a.run", "1 Q0 a 1 2.5 me\n")
    with pytest.raises(
        DataFileError, match=rf"a\.qrels, line 2: grade '{grade}' is not a whole number of at most 9223"
    ):
        read(run, write("a.qrels", f"1 0 b 1\n1 0 a {grade}\n"))


def test_ms_marco(write, named):
    """Its ranked list 'query passage rank' needs no score, its qrels.tsv are qrels; a wrong rank is named."""
    run = write("run.dev.small.tsv", "2\t10\t1\n2\t9\t2\n2\t7\t3\n5\t7\t1\n")
    qrels = write("qrels.dev.small.tsv", "2\t0\t9\t1\n5\t0\t9\t1\n")
    with pytest.warns(DataFileNote, match=r"dev\.small\.tsv: column 2 is the rank; .* reads scores"):
        rows = named(read(run, qrels))
    assert rows == {"2": ({"10": -1.0, "9": -2.0, "7": -3.0}, {"9": 1.0}), "5": ({"7": -1.0}, {"9": 1.0})}
    with pytest.warns(DataFileNote), pytest.raises(DataFileError, match=r"bad\.tsv, line 2: holds the rank 0"):
        read(write("bad.tsv", "2\t10\t1\n2\t9\t0\n"), qrels, format=("msmarco", None))


@pytest.fixture
def evaluated(tmp_path):
    """Return a function from options to the values of the command line."""

    def evaluated(*words):
        given = ["--metrics+=RecallAtK", "--metrics.k=1", "--quiet", "--out", str(tmp_path / "out"), *map(str, words)]
        assert main(["evaluate", *given]) == 0
        return json.loads((tmp_path / "out" / "report.json").read_text())["metrics"]

    return evaluated


SHUFFLED = "".join(f"q{n % 7}\tx{n}\t{rank}\n" for n, rank in enumerate([3, 1, 2] * 7))


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
@pytest.mark.parametrize(
    "text",
    ["a\ty\t2\na\tx\t1\n", "a\tx\t0\na\ty\t1\n", "a\tx\t1\na\ty\t4\na\tz\t9\n", SHUFFLED.replace("\t", ",")],
)
def test_numbers_without_a_name_that_may_be_ranks(write, named, text):
    """Whole numbers that count a query's lines, in any order, or ascend, are refused; either can be asked for.

    Read as scores, the worst of a list of ranks would come first.
    """
    preds = write("p.csv" if "," in text else "p.tsv", text)
    query, item, number = re.split("[,\t]", text.splitlines()[0])
    target = write("y.csv", f"query,item\n{query},{item}\n")
    with pytest.raises(DataFileError, match="column 2 may hold ranks, 1 the best, or scores") as caught:
        read(preds, target)
    assert "rank='2'); if scores, columns=Columns(query='0', item='1', score='2')" in caught.value.hint
    for field, sign in (("rank", -1), ("score", 1)):
        columns = Columns(query="0", item="1", **{field: "2"})
        held = named(read(preds, target, columns=(columns, None)))[query][0]
        assert held[item] == sign * float(number)


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
def test_numbers_without_a_name_that_are_scores(write, named):
    """Fractions, and whole numbers that fall or repeat, stay scores; ranks in order can be asked for as scores."""
    target = write("y.csv", "query,item\na,x\n")
    for numbers in ([0.5, 1, 2], [9, 5, 3], [5, 5, 1], [1, 1, 1]):
        text = "".join(f"a,{item},{number}\n" for item, number in zip("xyz", numbers, strict=True))
        held = named(read(write("p.csv", text), target))["a"][0]
        assert held == dict(zip("xyz", map(float, numbers), strict=True))
    columns = Columns(query="0", item="1", score="2")
    held = named(read(write("p.tsv", "a\tx\t1\na\ty\t2\n"), target, columns=(columns, None)))["a"][0]
    assert held == {"x": 1.0, "y": 2.0}


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
@pytest.mark.parametrize(
    ("rank", "problem", "form"),
    [
        ("1", "1 twice", "csv"),
        ("-1", "-1", "jsonl"),
        ("1.5", r"1\.5", "json"),
        ("nan", "nan", "parquet"),
        ("inf", "inf", "structs"),
        ("1", "1 twice", "structs"),
        ("1.5", r"1\.5", "parquet"),
    ],
)
def test_ranks_that_are_no_order(tmp_path, write, rank, problem, form):
    """A rank that another item of the query has, a negative one and one between two are refused, with their query."""
    ranks = [1.0, float(rank)]
    preds = tmp_path / f"p.{'parquet' if form == 'structs' else form}"
    if form == "structs":
        listed = [[{"item": item, "rank": one} for item, one in zip("xy", ranks, strict=True)]]
        pq.write_table(pa.table({"query": ["a"], "items": listed}), preds)
    elif form == "parquet":
        pq.write_table(pa.table({"query": ["a", "a"], "item": ["x", "y"], "rank": ranks}), preds)
    elif form == "csv":
        preds.write_text(f"query,item,rank\na,x,1\na,y,{rank}\n")
    else:
        lines = [{"query": "a", "item": item, "rank": one} for item, one in zip("xy", ranks, strict=True)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        preds.write_text(text if form == "jsonl" else json.dumps(lines))
    with pytest.raises(DataFileError, match=f"holds the rank {problem};") as caught:
        list(read(preds, write("y.csv", "query,item\na,x\n")))
    assert caught.value.hint.startswith("ranks are whole numbers, 1 the best, each once in a list")


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
def test_kaggle(write, named):
    """A submission 'id,a b c' is a ranked list per line, an empty one included, in targets what is relevant."""
    preds = write("submission.csv", "id,predicted\n7,b a c\n8,\n9,c\n")
    target = write("solution.csv", "id,labels\n7,a x\n8,b\n9,c\n")
    dataset = read(preds, target)
    assert dataset.missing_queries == 0
    assert named(dataset) == {
        "7": ({"b": 0.0, "a": -1.0, "c": -2.0}, ["a", "x"]),
        "8": ({}, ["b"]),
        "9": ({"c": 0.0}, ["c"]),
    }
    headless = read(write("headless.csv", "7,b a c\n8,x\n"), target, format="lists")
    assert named(headless)["7"] == ({"b": 0.0, "a": -1.0, "c": -2.0}, ["a", "x"])
    with pytest.raises(DataFileError, match=r"headless\.csv, line 1: .* are no names of columns"):
        read(write("headless.csv", "id,b a c\n8,x\n"), target, format="lists")
    for form in ("lists", None):
        with pytest.raises(DataFileError, match=r"twice\.csv, line 4: has a second list of query '7'"):
            read(write("twice.csv", "id,predicted\n7,b a\n8,a\n7,c\n"), target, format=(form, None))


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("query,item", None),
        ("user_id,poi", None),
        ("id,poi", Columns(query="id")),
    ],
)
def test_pairs_whose_items_hold_blanks_are_not_taken_for_lists(write, header, columns):
    """A column that is known to hold one item per line is not cut at its blanks."""
    target = write("y.csv", f"{header}\na,New York\nb,Paris\n")
    assert read_target(target, columns=columns).label_names == ("New York", "Paris")


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
def test_words_of_a_named_column_may_be_labels_or_titles(write):
    """Words that come again in other cells are labels. Others are refused, and either half of the hint is followed."""
    columns = Columns(query="u")
    assert read_target(write("y.csv", "u,place\na,cat dog\nb,dog cat\nc,cat\n"), columns=columns).num_labels == 2
    target = write("y.csv", "u,place\na,New York\nb,Paris\n")
    with pytest.raises(
        DataFileError, match="'place' may hold lists, or one label in each line, such as 'New York'"
    ) as caught:
        read_target(target, columns=columns)
    assert "columns=Columns(labels='place') reads lists; columns=Columns(item='place') reads one" in caught.value.hint
    for named in (Columns(query="u", item="place"), Columns(item="place")):
        assert read_target(target, columns=named).label_names == ("New York", "Paris")
    assert read_target(target, columns=Columns(query="u", labels="place")).label_names == ("New", "Paris", "York")


@pytest.mark.parametrize("text", ["a,x\nb,y\n", "a,x\na,z\nb,y\n", "a,x\nb,y x\n", "a\tx\nb\ty\n", "u1,x1\nu2,x2 x3\n"])
def test_a_first_line_of_words_that_may_be_names_or_data(write, text):
    """Two columns of words without a known name are refused; places read the first line too, a name takes it as names."""
    target = write("y.tsv" if "\t" in text else "y.csv", text)
    with pytest.raises(DataFileError, match="line 1: '.*' and '.*' may be names of columns, or data") as caught:
        read_target(target)
    first, *others = text.splitlines()
    assert caught.value.hint.endswith("if not, columns=Columns(query='0', item='1').")
    queries = list(dict.fromkeys(re.split("[,\t]", line)[0] for line in (first, *others)))
    assert read_target(target, columns=Columns(query="0", item="1")).row_names == queries
    if "z" not in text and "y x" not in text:
        with pytest.warns(DataFileNote, match="is the list of its labels"):
            assert read_target(target, columns=Columns(query=queries[0])).row_names == queries[1:]


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
@pytest.mark.parametrize("text", ["query,item\na,x\nb,y\n", "user_id,labels\na,x\nb,y x\n", "a,x\nb,y\n"])
def test_places_that_are_given_for_both_files(write, named, text):
    """A file without names takes them as they are; of one whose first line names a query that line stays no data."""
    preds = write("p.csv", "query,item,score\na,x,3\na,y,2\nb,x,1\n")
    target = write("y.csv", text)
    listed = Columns(query="0", labels="1") if " " in text else Columns(query="0", item="1")
    dataset = read(preds, target, columns=(Columns(query="0", item="1"), listed))
    assert dataset.missing_queries == 0
    held = named(dataset)
    assert held["a"] == ({"x": 3.0, "y": 2.0}, ["x"])
    assert held["b"] == ({"x": 1.0}, ["x", "y"] if " " in text else ["y"])
    with pytest.raises(DataFileError, match="line 1: there is no column '7'"):
        read(preds, target, columns=(Columns(query="7", item="1"), Columns(query="0", item="1")))


def test_a_table_whose_second_column_is_the_query_holds_no_lists(write):
    """The first column is no query only because it stands where lists have theirs."""
    with pytest.raises(DataFileError, match="line 1: there is no column 'item'"):
        read_target(write("y.csv", "usr,user_id\n1 2,u1\n2,u2\n"))


USUAL = ["user_id,item_id,rating", "userId,movieId,rating", "query,doc,score", "qid,docid,score", "uid,iid,prediction"]


@pytest.mark.filterwarnings("ignore:.*y.csv:tailmetrics.io.DataFileNote")
@pytest.mark.parametrize("header", USUAL)
def test_usual_names_of_columns(write, named, header):
    """What recommenders and search engines call their columns is known, and a note says what was taken for what."""
    preds = write("p.csv", f"timestamp,{header}\n9,u1,x,0.5\n9,u1,y,0.25\n")
    target = write("y.csv", "user_id,item_id\nu1,y\n")
    with pytest.warns(DataFileNote, match=r"p\.csv: column '") as said:
        dataset = read(preds, target)
    assert named(dataset) == {"u1": ({"x": 0.5, "y": 0.25}, ["y"])}
    query, item, score = header.split(",")
    found = {"query": query, "item": item, "score": score}
    parts = [f"column {name!r} is the {field}" for field, name in found.items()]
    assert str(said[1].message).startswith(f"{preds}: {', '.join(parts)};")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        columns = Columns(query=query, item=item, score=score)
        write("y.csv", f"{query},{item}\nu1,y\n")
        assert named(read(preds, target, columns=columns)) == {"u1": ({"x": 0.5, "y": 0.25}, ["y"])}


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
def test_a_column_of_ratings_in_a_target_is_its_gain(write, named):
    """Ratings are gains, as the note says; a negative one is refused."""
    preds = write("p.csv", "user_id,item_id,rating\nu1,a,1\n")
    target = write("y.csv", "user_id,item_id,rating\nu1,a,5\nu1,b,2\n")
    assert named(read(preds, target))["u1"][1] == {"a": 5.0, "b": 2.0}
    with pytest.raises(DataFileError, match=r"y\.csv, query 'u1': holds the gain -1") as caught:
        list(read(preds, write("y.csv", "user_id,item_id,rating\nu1,a,5\nu1,c,-1\n")))
    assert "write 0 for what is not relevant. Scores belong to the predictions" in caught.value.hint


def test_a_column_that_was_named_has_to_be_there(write, tmp_path):
    """A name that was given and is wrong is an error, also of the gain and of the lists of Parquet, which may be absent.

    Without its gains every label would count the same; without its scores a row would be taken for ranked.
    """
    preds = write("p.csv", "query,item,score\nu1,a,1\n")
    target = write("y.csv", "query,item,grade\nu1,a,1\n")
    with pytest.raises(DataFileError, match=r"y\.csv, line 1: there is no column 'relevance'"):
        read(preds, target, columns=Columns(gain="relevance"))
    pq.write_table(pa.table({"ids": [[1, 0]], "score": [[1.0, 2.0]]}), tmp_path / "p.parquet")
    pq.write_table(pa.table({"labels": [[1]], "gain": [[1.0]]}), tmp_path / "y.parquet")
    for columns, path, lacking in (
        (Columns(scores="sc"), "p", "sc"),
        (Columns(gains="ga"), "y", "ga"),
    ):
        with pytest.raises(DataFileError, match=rf"{path}\.parquet: has no column '{lacking}'"):
            read(tmp_path / "p.parquet", tmp_path / "y.parquet", columns=columns, num_labels=2)


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
def test_columns_without_names_among_which_no_prediction_is(write):
    """Gains 0 and 1 in the order of the lines are no ranks, nor has a file of pairs any: labels are gathered of both."""
    target = write("t.tsv", "a\t1\t0\na\t2\t1\nb\t1\t0\nb\t3\t1\n")
    pairs = write("train.tsv", "a\t1\nb\t3\n")
    assert list(read_label_names(target, pairs, string_ids=True)) == ["1", "2", "3"]


MTEB = {"mteb_model_meta": {"model_name": "m"}, "default": {"test": {"1": {"11": 0.9, "12": 0.5}, "2": {"13": 0.7}}}}
OTHER = {"default": {"test": {"1": {"12": 0.9, "11": 0.5}, "2": {"11": 0.7}}, "dev": {"3": {"11": 1.0}}}}


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
def test_mteb(write, named, evaluated):
    """The one subset and split is read; of several one has to be chosen, and the error names all of them, in one line."""
    qrels, path = write("y.qrels", "1 0 12 1\n2 0 13 1\n"), write("p.json", json.dumps(MTEB))
    expected = {"1": ({"11": 0.9, "12": 0.5}, {"12": 1.0}), "2": ({"13": 0.7}, {"13": 1.0})}
    single = {query: (pytest.approx(preds), target) for query, (preds, target) in expected.items()}
    assert named(read(path, qrels)) == single
    assert named(read(MTEB, qrels)) == single
    several = write("several.json", json.dumps(OTHER | {"mteb_model_meta": {}}, indent=2))
    with pytest.raises(DataFileError, match="predictions for default/test, default/dev; part='default/test' chooses"):
        read(several, qrels)
    with pytest.raises(DataFileError, match=r"preds\['default'\]\['test'\]"):
        read(OTHER | {"mteb_model_meta": {}}, qrels)
    assert named(read(several, qrels, part="default/test"))["2"] == ({"11": pytest.approx(0.7)}, {"13": 1.0})
    with pytest.raises(DataFileError, match="has no part 'en/test'; its parts are default/test, default/dev"):
        read(several, qrels, part="en/test")
    with pytest.raises(DataFileError, match="is trec, which has no parts; leave part out"):
        read(write("p.run", "1 Q0 11 1 1 me\n"), qrels, part="default/test")
    assert read_label_names(several, qrels, part="default/test") == ("13", "12", "11")
    many = write("many.json", json.dumps({"mteb_model_meta": {}, **{f"s{n}": {"test": MTEB} for n in range(9999)}}))
    with pytest.raises(DataFileError, match="s0/test, .* …; part='s0/test' chooses one") as caught:
        read(many, qrels)
    assert len(str(caught.value)) <= 400
    found = evaluated("--preds", several, "--target", qrels, "--part", "default/test")
    assert found == {"recall@1": 0.5}  # 12 comes first for 1, and not 13 for 2


JUDGED = "# made\n2 qid:7 1:0.5 2:1 # docid = GX1\n0 qid:7 1:0.1 2:0 # no name\n1 qid:9 1:0.25\n"


def test_letor(write, named, evaluated):
    """A score on each line belongs to the document on the same line of the targets; a number of lines too few is named."""
    target, preds = write("y.txt", JUDGED), write("p.txt", "0.25\n1e-1\n-3\n")
    expected = {"7": ({"GX1": 0.25, "2": 0.1}, {"GX1": 2.0, "2": 0.0}), "9": ({"3": -3.0}, {"3": 1.0})}
    assert named(read(preds, target)) == expected
    assert named(read(preds, target, format="letor")) == expected
    assert read_label_names(preds, target) == ("2", "3", "GX1")
    assert named(read(write("p.run", "7 Q0 GX1 1 0.5 me\n9 Q0 3 1 1 me\n"), target))["9"] == ({"3": 1.0}, {"3": 1.0})
    for text, problem in (
        ("1\n2\n", "y.txt holds more lines than .*p.txt"),
        ("1\n2\n3\n4\n", "p.txt holds more lines"),
    ):
        with pytest.raises(DataFileError, match=problem):
            read(write("p.txt", text), target)
    with pytest.raises(DataFileError, match="line 2: score 'high' is not a number"):
        read(write("p.txt", "1\nhigh\n3\n"), target, format="letor")
    with pytest.raises(DataFileError, match="one score on each line, which belong to targets in LETOR"):
        read(write("p.txt", "1\n2\n3\n"), write("y.qrels", "7 0 GX1 1\n"))
    with pytest.raises(DataFileError, match="line 1: '3' names no grade and query; .*numpy.save writes it"):
        read(write("p.run", "7 Q0 GX1 1 0.5 me\n"), write("classes.txt", "3\n1\n"))
    found = evaluated("--preds", write("p.txt", "1\n2\n3\n"), "--target", target, "--format", "letor")
    assert found == {"recall@1": 0.5}
