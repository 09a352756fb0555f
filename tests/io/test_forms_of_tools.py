"""Files as annotation tools, searches and rankers write them: read, or refused with a conversion that gives the number."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix

from tailmetrics import RecallAtK, evaluate
from tailmetrics.io import Columns, DataFileError, DataFileNote, read

pytestmark = pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")

BEST = [["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]]
"""The ranked labels of three texts."""
GOLD = [["b", "a"], ["b"], ["b", "c"]]
SCORES = [{label: (3 - place) / 4 for place, label in enumerate(row)} for row in BEST]
RECALL = np.mean([len({*best[:2]} & {*gold}) / len(gold) for best, gold in zip(BEST, GOLD, strict=True)])
"""At 2: 1, 0 and 1."""


def recall(preds, target, k=2, **options):
    """Return recall at k."""
    metric = RecallAtK(k=k)
    for batch in read(preds, target, **options):
        metric.update(batch.preds, batch.target)
    return float(metric.compute())


def refused(preds, target, **options):
    """Return the problem and the hint of the error."""
    with pytest.raises(DataFileError) as caught:
        recall(preds, target, **options)
    assert len(str(caught.value)) <= 400
    return caught.value.problem, caught.value.hint


def chosen(labels, **more):
    """Return choices as Label Studio writes them: an object with an id around them."""
    return [{"id": 9, "result": [{"value": {"choices": labels}, "type": "choices"}], "at": "2025-01-01T00:00Z", **more}]


def texts(make):
    """Return an object for each text."""
    return [{"id": f"t{row}", **make(*both)} for row, both in enumerate(zip(BEST, GOLD, strict=True))]


TOOLS = {
    "Label Studio": (
        texts(lambda best, gold: {"annotations": chosen(gold), "predictions": chosen(best, score=0.5)}),
        ["row['predictions'][0]['result'][0]['value']['choices']", "row['annotations'][0]['result'][0]['value']['choices']"],
    ),
    "Argilla": (
        texts(lambda best, gold: {"suggestions": {"topic": {"value": best}}, "responses": {"topic": [{"value": gold}]}}),
        ["row['suggestions']['topic']['value']", "row['responses']['topic'][0]['value']"],
    ),
    "Argilla, columns": (
        texts(lambda best, gold: {"topic.suggestion": best, "topic.responses": [gold], "users": ["x"]}),
        ["row['topic.suggestion']", "row['topic.responses'][0]"],
    ),
    "one choice is text": (
        texts(lambda best, gold: {"best": {"choices": best}, "y": {"choices": gold} if len(gold) > 1 else gold[0]}),
        ["row['best']['choices']", "row['y']['choices'] if isinstance(row['y'], dict) else [row['y']]"],
    ),
}  # fmt: skip
"""Tool -> its objects, and where the predictions and the targets lie."""


def converted(hint, path, rows):
    """Return the dict that a hint says, with a path in it."""
    return eval(re.search(r"\{.*\}", hint)[0].replace("PATH", path), {"rows": rows})


@pytest.mark.parametrize("form", ["json", "jsonl", "objects"])
@pytest.mark.parametrize("tool", TOOLS)
def test_labels_that_lie_deeper(tmp_path, tool, form):
    """The refusal says where they lie; the dict of its hint gives the number, as a file and in Python."""
    rows, paths = TOOLS[tool]
    source = tmp_path / f"x.{form}"
    source.write_text(json.dumps(rows) if form == "json" else "".join(json.dumps(row) + "\n" for row in rows))
    if form == "objects":
        with pytest.raises(DataFileError, match="its labels may lie deeper") as caught:
            evaluate(rows, rows, metrics=[RecallAtK(k=2)])
        problem, hint = caught.value.problem, caught.value.hint
    else:
        problem, hint = refused(source, source)
    assert all(path in problem for path in paths)
    runs = [converted(hint, path, rows) for path in paths]
    assert evaluate(*runs, metrics=[RecallAtK(k=2)]).scalars["recall@2"] == RECALL
    for name, run in zip("py", runs, strict=True):
        (tmp_path / f"{name}.json").write_text(json.dumps(run))
    assert recall(tmp_path / "p.json", tmp_path / "y.json") == RECALL


def test_a_number_for_each_label(tmp_path):
    """The categories of spaCy and Prodigy: a dict from label to score, and to 0 or 1; without an id rows are counted."""
    files = tmp_path / "p.jsonl", tmp_path / "y.jsonl"
    flags = [{label: int(label in gold) for label in "abc"} for gold in GOLD]
    rows = [[{"text": "t", "cats": cats} for cats in some] for some in (SCORES, flags)]
    for path, some in zip(files, rows, strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in some))
    for columns in (None, Columns(item="cats")):
        problem, hint = refused(*files, columns=columns)
        assert problem == "its labels may lie deeper, at row['cats']"
    runs = [converted(hint, "row['cats']", some) for some in rows]
    assert evaluate(*runs, metrics=[RecallAtK(k=2)]).scalars["recall@2"] == RECALL


def test_a_list_of_the_other_role(tmp_path):
    """Predictions beside targets: each file takes its own; a list with a name of predictions is no target."""
    path = tmp_path / "x.jsonl"

    def write(*names):
        lists = {
            "prediction": [[{"label": one, "score": run[one]} for one in run] for run in SCORES],
            "annotation": GOLD,
        }
        pd.DataFrame({name: lists[name] for name in names}).to_json(path, orient="records", lines=True)

    write("prediction", "annotation")
    assert recall(path, path) == RECALL
    write("prediction")
    problem, hint = refused(path, path)
    assert problem == "column 'prediction' may be the predictions, not the lists of targets"
    assert hint == "columns=Columns(labels='prediction') reads it as targets."


def test_numbers_of_predictions_are_no_gains(tmp_path):
    """Beside two lists of labels a list of numbers may be the scores of the predictions."""
    path = tmp_path / "x.jsonl"
    scores = [list(run.values()) for run in SCORES]
    frame = pd.DataFrame({"predictions": BEST, "annotations": [[*"abc"], [*"abc"], [*"abc"]], "scores": scores})
    frame.to_json(path, orient="records", lines=True)
    assert [one.value for one in read(path, path).readings if one.role == "target"] == [None]


def test_times_with_a_zone(tmp_path):
    """A column of times beside lists is text."""
    path = tmp_path / "x.jsonl"
    rows = [
        {"preds": best, "labels": gold, "at": "2025-01-01T00:00:00Z"} for best, gold in zip(BEST, GOLD, strict=True)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert recall(path, path) == RECALL


# -- distances --------------------------------------------------------------------------------------------------------

IDS = np.array([[3, 1, 2, 0], [2, 0, 3, 1], [1, 0, 3, 2], [3, 0, 1, 2], [0, 3, 2, 1], [2, 1, 0, 3]])
DISTANCES = np.array([[0.1, 0.2, 0.3, 0.5]] * 6)
NEAREST = np.array([[3], [2], [3], [0], [0], [1]])
"""A half of the rows has its label in the first place, and none in the last."""


def written(folder, form):
    """Write the result of a search, and its targets."""
    target = folder / "y.parquet"
    pd.DataFrame({"query": range(6), "labels": NEAREST.tolist()}).to_parquet(target)
    path = folder / f"p.{form}"
    if form == "pt":
        torch.save((torch.tensor(DISTANCES), torch.tensor(IDS)), path)
        np.save(folder / "y.npy", NEAREST)
        return path, folder / "y.npy"
    lists = pd.DataFrame({"query": range(6), "ids": IDS.tolist(), "scores": DISTANCES.tolist()})
    if form == "parquet":
        lists.to_parquet(path)
    else:
        lists.explode(["ids", "scores"]).rename(columns={"ids": "item", "scores": "score"}).to_csv(path, index=False)
    return path, target


@pytest.mark.parametrize("form", ["parquet", "csv", "pt"])
def test_scores_that_rise_in_each_row(tmp_path, form):
    """The result of a search has the least distance first: said where it is read as scores; as a rank it is right."""
    files = written(tmp_path, form)
    with pytest.warns(UserWarning, match="rise from the first place of each row to the last, as distances do"):
        assert recall(*files, k=1) == 0
    if form != "pt":
        rank = Columns(rank="scores" if form == "parquet" else "score")
        assert recall(*files, k=1, columns=(rank, None)) == 0.5


def test_scores_that_rise_in_tensors():
    """Pairs and CSR alike; descending scores, few of them, and ids in ascending order say nothing."""
    rises = "rise from the first place"
    offsets, target = torch.arange(0, 25, 4), torch.tensor(NEAREST)
    pair = torch.tensor(DISTANCES), torch.tensor(IDS)
    with pytest.warns(UserWarning, match=rises):
        RecallAtK(k=1).update(pair, target)
    with pytest.warns(UserWarning, match=rises):
        RecallAtK(k=1).update(
            torch.sparse_csr_tensor(offsets, *(one.reshape(-1) for one in pair[::-1]), (6, 4)), target
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scores, ids in ((-pair[0], pair[1]), (pair[0], pair[1].sort().values), (pair[0][:5], pair[1][:5])):
            RecallAtK(k=1).update((scores, ids), target[: len(ids)])
        RecallAtK(k=1).update(csr_matrix(np.tile([[0.1, 0.2, 0.3, 0.5]], (6, 1))), target)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_score_with_the_name_of_a_distance(tmp_path, form):
    """In any order of lines, and of lists: what the user names is read, and what it may be is said."""
    lists = form == "parquet"
    frame = pd.DataFrame({"query": ["q", "q"], "item": ["a", "b"], "distance": [0.5, 0.25]})
    frame = frame.groupby("query").agg(list).reset_index() if lists else frame
    target = tmp_path / "y.csv"
    target.write_text("query,item\nq,b\n")
    path = tmp_path / f"p.{form}"
    if lists:
        frame.to_parquet(path)
    elif form == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)
    named = {"ids": "item", "scores": "distance"} if lists else {"score": "distance"}
    with pytest.warns(UserWarning, match=r"columns=Columns\(rank='distance'\) reads it so"):
        assert recall(path, target, k=1, columns=(Columns(**named), None)) == 0
    named = {"ids": "item", "rank": "distance"} if lists else {"rank": "distance"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", category=DataFileNote)
        assert recall(path, target, k=1, columns=(Columns(**named), None)) == 1


def test_arrays_of_a_search(tmp_path):
    """Two arrays in one file: the one to write is named."""
    np.savez(tmp_path / "p.npz", D=DISTANCES, I=IDS)
    np.save(tmp_path / "y.npy", NEAREST)
    assert refused(tmp_path / "p.npz", tmp_path / "y.npy")[1] == "numpy.save writes one, such as the ids, best first."
    np.save(tmp_path / "p.npy", np.load(tmp_path / "p.npz")["I"])
    assert recall(tmp_path / "p.npy", tmp_path / "y.npy", k=1) == 0.5


# -- learning to rank -------------------------------------------------------------------------------------------------


def test_scores_of_lines_in_any_spelling(tmp_path):
    """A column of scores with or without its name, and targets with a comment, whatever the suffix."""
    lines = ["1 qid:1 1:0.5", "0 qid:1 1:0.25", "0 qid:2 1:0.5", "2 qid:2 1:0.75"]
    for name, comment in (("y.txt", ""), ("y.dat", "# made by a program\n")):
        (tmp_path / name).write_text(comment + "\n".join(lines) + "\n")
        for suffix in ("csv", "txt"):
            for header in ("", "score\n"):
                (tmp_path / f"p.{suffix}").write_text(header + "0.5\n0.25\n0.75\n0.5\n")
                assert recall(tmp_path / f"p.{suffix}", tmp_path / name, k=1) == 0.5
    np.save(tmp_path / "p.npy", np.array([0.5, 0.25, 0.75, 0.5]))
    assert refused(tmp_path / "p.npy", tmp_path / "y.txt")[1].endswith(
        "Scores of the lines of LETOR are text: numpy.savetxt."
    )


def test_lines_without_an_item(tmp_path):
    """Query, grade and score in one table: the numbered lines are the items."""
    table = pd.DataFrame({"qid": [1, 1, 2, 2], "label": [1, 0, 0, 2], "pred": [0.5, 0.25, 0.75, 0.5]})
    path = tmp_path / "x.csv"
    table.to_csv(path, index=False)
    problem, hint = refused(path, path)
    assert problem == "no column can be the item"
    eval(re.search(r"table\.assign\(.*\)\)\)", hint)[0], {"table": table}).to_csv(path, index=False)
    assert recall(path, path, k=1) == 0.5


def test_pairs_without_labels_before_them(tmp_path):
    """Lines of label:score name no number of labels; what stands before predictions is left out."""
    preds, target = tmp_path / "p.svm", tmp_path / "y.svm"
    preds.write_text("2:0.9 0:0.3\n1:0.8\n")
    target.write_text("0:1 2:1\n0:1\n")
    assert refused(preds, target)[1] == "num_labels=L reads ids up to L - 1."
    assert recall(preds, target, num_labels=3) == 0.5
    preds.write_text("7 2:0.9 0:0.3\n7 1:0.8\n")
    assert refused(preds, target, num_labels=3)[1].endswith("leave out what stands before the first of them.")


def test_text_of_fasttext(tmp_path):
    """The hint followed as it stands."""
    (tmp_path / "p.txt").write_text("".join(" ".join(f"__label__{one} 0.5" for one in row) + "\n" for row in BEST))
    assert refused(tmp_path / "p.txt", tmp_path / "p.txt")[1].startswith("write {id: [labels, best first]} as JSON")
    for name, lists in (("p", BEST), ("y", GOLD)):
        (tmp_path / f"{name}.json").write_text(json.dumps(dict(enumerate(lists))))
    assert recall(tmp_path / "p.json", tmp_path / "y.json") == RECALL


def test_decisions_beside_logits_in_one_table(tmp_path):
    """A table of logits and of lists of 0 and 1, as trainers write it, is refused once, with calls that give the number."""
    gold = [[int(label in row) for label in "abc"] for row in GOLD]
    logits = [[SCORES[row][label] for label in "abc"] for row in range(len(GOLD))]
    frame = pd.DataFrame({"id": ["t0", "t1", "t2"], "labels": gold, "logits": logits})
    frame.to_parquet(tmp_path / "eval.parquet")
    frame.to_json(tmp_path / "eval.jsonl", orient="records", lines=True)
    for given in (tmp_path / "eval.parquet", tmp_path / "eval.jsonl"):
        problem, hint = refused(given, given)
        assert "column 'labels' may be the targets" in problem
        calls = re.findall(r"numpy\.save\('(\w+)\.npy', (.*?)\) if ", hint)
        assert [name for name, _ in calls] == ["preds", "target"]
        for name, call in calls:
            np.save(tmp_path / f"{name}.npy", eval(call, {"numpy": np, "table": frame}))
        assert recall(tmp_path / "preds.npy", tmp_path / "target.npy") == RECALL


def test_decisions_named_as_lists_of_predictions(tmp_path):
    """Lists of 0 and 1 that are called predictions are said to be no ids, before a hint to drop what stands twice."""
    pd.DataFrame({"labels": [[0, 1, 1], [0, 0, 1]]}).to_parquet(tmp_path / "p.parquet")
    problem, hint = refused(tmp_path / "p.parquet", tmp_path / "p.parquet", columns=(Columns(ids="labels"), None))
    assert "holds the label 1 twice" in problem
    assert hint == "whole numbers are label ids here; if 0 and 1 are a multi-hot matrix, save it as bool."


# -- text, and JSON, whose first lines mislead -------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["VideoId,LabelConfidencePairs\n", ""])
def test_labels_and_scores_in_turn(tmp_path, header):
    """Lists of pairs, as competitions of videos and of landmarks ask for, are refused; as named, words are labels."""
    scores = [{f"{one}1": score for one, score in row.items()} for row in SCORES]
    gold = [" ".join(f"{one}1" for one in row) for row in GOLD]
    files = tmp_path / "p.csv", tmp_path / "y.csv"
    pairs = [" ".join(f"{one} {score}" for one, score in row.items()) for row in scores]
    for path, first, rows in zip(files, (header, "id,labels\n"), (pairs, gold), strict=True):
        path.write_text(first + "".join(f"{n},{row}\n" for n, row in enumerate(rows)))
    problem, hint = refused(*files, **({} if header else {"format": "lists"}))
    assert problem == "labels and numbers stand in turn, as scores behind labels do"
    assert hint.endswith("with scores write {query: {label: score}} as JSON.")
    named = eval(re.search(r"Columns\(.*?\)", hint)[0], {"Columns": Columns})
    assert recall(*files, columns=(named, None)) == np.mean([0.5, 0, 0.5])
    (tmp_path / "p.json").write_text(json.dumps({str(n): row for n, row in enumerate(scores)}))
    assert recall(tmp_path / "p.json", files[1]) == RECALL


@pytest.mark.parametrize("cells", ["401.9 38.93 428.0", "401 38.93 428.0", "7 8 9"])
def test_codes_with_a_point_are_labels(tmp_path, cells):
    """Numbers with a decimal point in other places than each second one are codes."""
    (tmp_path / "x.csv").write_text(f"id,codes\nu,{cells}\nv,{cells}\n")
    assert recall(tmp_path / "x.csv", tmp_path / "x.csv", k=3) == 1


@pytest.mark.parametrize("first", ["t9", "t9|c"])
@pytest.mark.parametrize(("name", "options"), [("psv", {}), ("txt", {"delimiter": "|"})])
def test_lists_of_which_the_first_is_short(tmp_path, first, name, options):
    """Predicted codes of CAML: a row without a code, or with one, may stand before longer rows."""
    text = {"p": BEST, "y": GOLD}
    for one, lists in text.items():
        rows = [first, *("|".join([str(row), *some]) for row, some in enumerate(lists))]
        (tmp_path / f"{one}.{name}").write_text("\n".join(rows).replace("t9", "9") + "\n")
    files = tmp_path / f"p.{name}", tmp_path / f"y.{name}"
    found = 1 if "|" in first else 0
    assert recall(*files, format="lists", **options) == pytest.approx((3 * RECALL + found) / 4)


def test_a_rank_and_a_score_without_names(tmp_path):
    """The ranking of ColBERT, 'query passage rank score': the hint names the score, not the rank."""
    rows = [
        f"{n}\t{10 + 'abc'.index(one)}\t{place}\t{5 - place / 3}"
        for n, row in enumerate(BEST)
        for place, one in enumerate(row, 1)
    ]
    (tmp_path / "p.tsv").write_text("\n".join(rows) + "\n")
    lines = [f"{n}\t0\t{10 + 'abc'.index(one)}\t1" for n, gold in enumerate(GOLD) for one in gold]
    (tmp_path / "y.tsv").write_text("\n".join(lines) + "\n")
    files = tmp_path / "p.tsv", tmp_path / "y.tsv"
    columns = eval(re.search(r"Columns\(.*?\)", refused(*files)[1])[0], {"Columns": Columns})
    assert columns.score == "3"
    assert recall(*files, columns=columns) == RECALL


@pytest.mark.parametrize("key", ["doc", "id", ""])
def test_a_column_for_each_label_beside_a_key(tmp_path, key):
    """Rows in another order: the hint joins by the key, also if it is an index without a name."""
    labels = [*"abc", "other"]
    scores = pd.DataFrame([{**row, "other": 0.0} for row in SCORES], columns=labels, index=["r", "s", "t"])
    flags = pd.DataFrame([[int(one in gold) for one in labels] for gold in GOLD], columns=labels, index=["r", "s", "t"])
    for name, table in (("p", scores), ("y", flags[::-1])):
        table.to_csv(tmp_path / f"{name}.csv", index_label=key or None)
    files = tmp_path / "p.csv", tmp_path / "y.csv"
    problem, hint = refused(*files)
    assert problem == "looks like a table with a column for each label"
    assert "columns=" not in hint  # the command line would write it as an option
    for path in files:
        call = re.match(r"table.*?index=False\)", hint)[0].replace("FILE", "path")
        eval(call, {"table": pd.read_csv(path), "path": path})
    assert recall(*files) == RECALL


def test_lists_alone_in_json(tmp_path):
    """A list for each row, of labels or of objects as searches and pipelines give: the hint writes JSON Lines."""
    objects = [[{"label": one, "score": score} for one, score in row.items()] for row in SCORES]
    paths = {name: tmp_path / f"{name}.json" for name in "py"}
    for preds in (BEST, objects):
        for name, rows in (("p", preds), ("y", GOLD)):
            paths[name].write_text(json.dumps(rows))
        for name, rows in (("y", GOLD), ("p", preds)):
            problem, hint = refused(*paths.values())
            assert problem == "holds a list, but no dict and no list of objects"
            field = re.search(r'JSON Lines, \{"(\w+)": list\}', hint)[1]
            paths[name] = tmp_path / f"{name}.jsonl"
            paths[name].write_text("".join(json.dumps({field: row}) + "\n" for row in rows))
        assert recall(*paths.values()) == RECALL
        paths = {name: tmp_path / f"{name}.json" for name in "py"}


def test_hits_within_a_dict_of_queries(tmp_path):
    """Results of a retriever in JSON, ``{query: {question, answers, contexts: [hits]}}``: the hint takes out the hits."""
    hits = [[{"docid": one, "score": score} for one, score in row.items()] for row in SCORES]
    rows = {str(n): {"question": "why?", "answers": ["x"], "contexts": some} for n, some in enumerate(hits)}
    path, target = tmp_path / "p.json", tmp_path / "y.json"
    path.write_text(json.dumps(rows))
    target.write_text(json.dumps({str(n): gold for n, gold in enumerate(GOLD)}))
    problem, hint = refused(path, target)
    assert problem == "its labels may lie deeper, in 'answers' or 'contexts'"
    path.write_text(json.dumps(eval(re.search(r"\{.*\}", hint)[0], {"rows": rows, "NAME": "contexts"})))
    assert recall(path, target) == RECALL


def test_pairs_in_a_dict_of_queries(tmp_path):
    """Pairs of item and score in a list: the hint makes a dict of them."""
    pairs = {str(n): [*row.items()] for n, row in enumerate(SCORES)}
    target = {str(n): gold for n, gold in enumerate(GOLD)}
    with pytest.raises(DataFileError, match="make pairs a dict"):
        recall(pairs, target)
    assert recall({query: dict(some) for query, some in pairs.items()}, target) == RECALL


def test_ranks_of_candidates(tmp_path):
    """The files of MIND, ranks and clicks in the order of candidates: the hint followed as it stands."""
    ranks, clicks = [[2, 1, 3], [1, 3, 2]], [[1, 0, 0], [1, 0, 0]]
    for name, rows in (("p", ranks), ("y", clicks)):
        text = [f"{n} [{','.join(map(str, row))}]" for n, row in enumerate(rows, 1)]
        (tmp_path / f"{name}.txt").write_text("\n".join(text) + "\n")
        _, hint = refused(tmp_path / f"{name}.txt", tmp_path / f"{name}.txt")
    made = re.search(r"\{str.*?\}", hint)[0]
    for name, rows, call in (("p", ranks, made), ("y", clicks, made.replace("-", ""))):
        run = {n: eval(call, {"row": row}) for n, row in enumerate(rows)}
        (tmp_path / f"{name}.json").write_text(json.dumps(run))
    assert recall(tmp_path / "p.json", tmp_path / "y.json", k=1) == 0.5
