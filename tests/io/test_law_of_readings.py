"""The law of readings: a file is read as its author meant it, or it is refused; never as anything else.

Files are made up here, and what they mean is known before they are written. Nothing here looks at how a file is read.
"""

import csv
import json
import math
import os
import re
import warnings
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from itertools import product
from random import Random

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailmetrics import NDCGAtK, evaluate
from tailmetrics.cli import main
from tailmetrics.io import Columns, read

USUAL = {
    "query": "query query_id qid query-id topic topic_id user user_id userId userID uid session session_id customer_id "
    "visitor_id reviewerID hadm_id note_id question_id request_id search_id patient_id member_id account_id basket_id "
    "order_id client_id image_id household_id person_id",
    "item": "item item_id itemId itemID iid doc doc_id docid docno document_id corpus-id passage_id pid product_id movieId "
    "movie_id article_id asin track_id song_id book_id isbn poi_id location_id icd_code video_id venue_id artist_id "
    "news_id course_id",
    "score": "score scores rating prediction predicted pred probability prob similarity estimate sim confidence proba "
    "y_score y_pred logit logits bm25 cosine pred_score model_score rating_pred r_hat predicted_rating weight "
    "likelihood ranking_score est yhat value",
    "rank": "rank ranking position pos place order rnk rank_position item_rank slot top_k rank_order nr ranked ranks Rank "
    "RANK Position position_id ord rk placement pos_in_list list_position rank_in_query rank_id final_rank rank_no "
    "display_position row_rank",
    "gain": "gain relevance rel grade label rating score relevant is_relevant clicked purchased target y_true hit judgment "
    "judgement relevance_label click clicks purchases liked y truth ground_truth quality is_hit converted bought "
    "relevance_grade qrel",
    "list": "items item_ids labels codes predictions prediction preds recommendations recommended retrieved ranking topk "
    "target targets groundtruth ground_truth positives articles relevant relevant_items icd_codes true_labels y_true "
    "y_pred top_items doc_ids documents product_ids movie_ids candidates",
}
MADE_UP = {
    role: [first + last for first, last in product(starts.split(), ["xa", "zet", "qi", "vok", "nik", "gam"])]
    for role, starts in {
        "query": "ba ke li mo nu",
        "item": "da fe gi jo ku",
        "score": "la me ni po ru",
        "rank": "sa te vi wo zu",
        "gain": "ha je ki lo mu",
        "list": "na pe ri so tu",
    }.items()
}
FORMATS = ["csv", "tsv", "jsonl", "parquet", "frame"]
STRAYS = ["zero_one", "bool", "grades", "letters", "text", "id", "float", "rank"]
QUERIES, ITEMS, SHOWN = 4, 9, 5
SHARE = 5
"""Every fifth case also runs through ``evaluate`` in Python, or through the command line."""
RUNS, SAMPLE = int(os.environ.get("TAILMETRICS_FUZZ_CASES", "150")), 60
"""Each run reads two files, so that 1500 runs, which take a minute, read 3,000 files: each name in each format."""
METRIC = NDCGAtK(k=3)


@dataclass
class File:
    """A table as its author meant it: cells by column, and the column of each role, in the words of ``Columns``."""

    cells: dict[str, list] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    separator: str = " "

    def put(self, role, name, cells):
        if name in self.cells:
            name += "_2"
        self.cells[name], self.columns[role] = cells, name


@dataclass
class Case:
    """Predictions and targets, the format of both, and nDCG@3 as plain loops say."""

    form: str
    preds: File
    target: File
    truth: float


def ndcg(scores, gains, k=3):
    """The mean over queries of DCG, divided by that of the best order."""
    values = []
    for query in gains:
        order = sorted(scores[query], key=lambda item: -scores[query][item])
        listed = [[gains[query].get(item, 0) for item in order], sorted(gains[query].values(), reverse=True)]
        dcg, best = (sum(gain / math.log2(place + 2) for place, gain in enumerate(some[:k])) for some in listed)
        values.append(dcg / best)
    return sum(values) / len(values)


def stray(kind, queries, rng):
    """Return cells of a column that means nothing here."""
    rows, seen = len(queries), Counter()
    few = {"zero_one": [0, 1], "bool": [False, True], "grades": [0, 1, 2, 3], "letters": ["E", "S", "C"]}
    if kind in few:
        return [*few[kind], *rng.choices(few[kind], k=rows)][:rows]
    if kind == "rank":
        return [seen.update([query]) or seen[query] for query in queries]
    make = {
        "text": lambda: " ".join(rng.choices(["red", "blue", "old", "new", "small", "large", "shoe", "coat"], k=4)),
        "id": lambda: f"{rng.getrandbits(40):010x}",
        "float": lambda: round(rng.random(), 4),
    }[kind]
    return [make() for _ in range(rows)]


def gains_of(kind, count, rng):
    """Return gains of one query: each kind has a relevant item, and items that are less relevant or not at all."""
    low, high = {"zero_one": ([0], [1]), "bool": ([False], [True]), "grades": ([0, 1, 2], [3]), "float": ([0.2, 0.5], [0.9])}[kind]  # fmt: skip
    return [rng.choice(high), rng.choice(low), *rng.choices(low + high, k=count - 2)]


def make(role, name, form, number):
    """Return a case in which ``name`` is the name of the column of a role; all else is drawn."""
    rng = Random(number)
    side = {"score": "preds", "rank": "preds", "gain": "target"}.get(role, rng.choice(["preds", "target"]))
    names = {one: rng.choice(USUAL[one].split()[:3]) for one in USUAL}
    alone = role == "list" and form not in ("csv", "tsv") and rng.random() < 0.5  # lists that name no query
    objects = role == "list" and form not in ("csv", "tsv") and rng.random() < 0.3  # [{"item_id": 7, "score": 0.5}]
    kinds = ["C{}1", "{}", "a{}"]
    item_of = (kinds[1] if alone else rng.choice(kinds)).format
    items = [item_of(10 + 7 * one) for one in range(ITEMS)]
    queries = [f"{'u' if number % 2 else ''}{100 + 3 * query}" for query in range(QUERIES)]
    scores = {q: {i: round(rng.random(), 5) for i in rng.sample(items, SHOWN)} for q in queries}
    gain = rng.choice(["zero_one", "bool", "grades", "float"]) if role == "gain" or rng.random() < 0.4 else None
    judged = {q: rng.sample(items, 4) for q in queries}
    listed = {"preds": False, "target": False} | ({"preds": True, "target": True} if alone else {side: role == "list"})
    gain = None if listed["target"] else gain
    gains = {q: dict(zip(some, gains_of(gain, 4, rng) if gain else [1] * 4, strict=True)) for q, some in judged.items()}
    case = Case(form, File(), File(), ndcg(scores, gains))
    for which, rows in (("preds", scores), ("target", gains)):
        file = getattr(case, which)
        file.separator = rng.choice([" ", ";", "|"])
        mine = names | ({role: name} if which == side or (role in ("query", "item") and rng.random() < 0.5) else {})
        if listed[which]:
            lists = [sorted(some, key=some.get, reverse=True) for some in rows.values()]
            lists = [[int(one) for one in some] for some in lists] if alone else lists
            if objects:
                keys = "item_id", {"preds": "score", "target": "rating"}[which]
                lists = [[dict(zip(keys, (i, by[str(i)]), strict=True)) for i in some] for some, by in zip(lists, rows.values(), strict=True)]  # fmt: skip
            lined = queries
            if not alone:
                file.put("query", mine["query"], queries)
            file.put("list", mine["list"], lists)
        else:
            lines = [(q, i, value) for q, some in rows.items() for i, value in some.items()]
            rng.shuffle(lines)
            lined = [q for q, _, _ in lines]
            file.put("query", mine["query"], lined)
            file.put("item", mine["item"], [i for _, i, _ in lines])
            values = [value for _, _, value in lines]
            if which == "preds" and role == "rank":
                values = [1 + sum(other > value for other in scores[q].values()) for q, _, value in lines]
                file.put("rank", mine["rank"], values)
            elif which == "preds" or gain:
                file.put("score" if which == "preds" else "gain", mine["score" if which == "preds" else "gain"], values)
        place, kind = number % len(STRAYS), STRAYS[number % len(STRAYS)]
        if which == ("preds", "target")[number // len(STRAYS) % 2]:
            file.put("stray", f"{['bo', 'ce', 'di', 'fu', 'ga', 'hi', 'ju', 'ko'][place]}rem", stray(kind, lined, rng))
        if rng.random() < 0.3:
            file.cells = dict(sorted(file.cells.items(), key=lambda _: rng.random()))
    return case


def written(file, form, path):
    """Write a file, or return a frame."""
    if form == "frame":
        return pd.DataFrame(file.cells)
    path = path.with_suffix(f".{form}")
    if form == "parquet":
        pq.write_table(pa.table(file.cells), path)
        return path
    rows = list(zip(*file.cells.values(), strict=True))
    with path.open("w", newline="") as opened:
        if form == "jsonl":
            opened.writelines(json.dumps(dict(zip(file.cells, row, strict=True))) + "\n" for row in rows)
        else:
            writer = csv.writer(opened, delimiter="," if form == "csv" else "\t", lineterminator="\n")
            cells = ([file.separator.join(one) if isinstance(one, list) else one for one in row] for row in rows)
            writer.writerows([list(file.cells), *cells])
    return path


def value(preds, target, **options):
    """Return nDCG@3, or what an error says; the error itself would keep a database open."""
    METRIC.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for batch in read(preds, target, **options):
                METRIC.update(batch.preds, batch.target)
        except (ValueError, TypeError) as error:
            return str(error)
        return float(METRIC.compute())


BOTH = re.compile(r"columns=\((None|Columns\([^()]*\)), (None|Columns\([^()]*\))\)")
EITHER = re.compile(r"columns=Columns\(([^()]*)\)")
PAIR = re.compile(r"(\w+)=('[^']*'|\"[^\"]*\"|\w+)")
OTHER = re.compile(r"\b(format|delimiter|duplicates|string_ids)=('[^']*'|\w+)")


def meant(file, role):
    """Return what an author writes for a role: the name of its column, ``none`` for a gain that the file lacks."""
    listed = {"ids": "list", "labels": "list", "item": "list" if "list" in file.columns else "item"}
    return file.columns.get(listed.get(role, role), "none" if role == "gain" else None)


def named(text, file):
    """Return the columns that a text names rightly for a file; a placeholder stands in capitals."""
    pairs = ((role, word.strip("'\""), meant(file, role)) for role, word in PAIR.findall(text))
    return {role: right for role, word, right in pairs if right is not None and (word.isupper() or word == right)}


def followed(said, case, of_preds):
    """Return the columns of both files and the other arguments that a hint names; of two choices the right one."""
    file = case.preds if of_preds else case.target
    both = [[named(text, one) for text, one in zip(pair, (case.preds, case.target), strict=True)] for pair in BOTH.findall(said)]  # fmt: skip
    both += [[found, found] for text in EITHER.findall(said) if (found := named(text, file))]
    other = {name: word.strip("'") for name, word in OTHER.findall(said)}
    columns = [{role: name for some in both for role, name in some[place].items()} for place in (0, 1)]
    return columns, other if not any(columns) else {}


@dataclass
class Outcome:
    """What came of a case: the value or error at first, and after the hint."""

    case: Case
    found: list

    @property
    def hints(self):
        return len(self.found) - 1

    @property
    def is_right(self):
        return isinstance(self.found[-1], float) and math.isclose(self.found[-1], self.case.truth, abs_tol=1e-9)

    def __str__(self):
        files = (f"{which} {list(getattr(self.case, which).columns.items())}" for which in ("preds", "target"))
        return (
            f"{self.case.form}: {'; '.join(files)}: {self.case.truth:.4f}, not {', then '.join(map(str, self.found))}"
        )


def tried(folder, number, role, name, form):
    """Evaluate a case; where it is refused, again by the hint."""
    case = make(role, name, form, number)
    files = written(case.preds, form, folder / "p"), written(case.target, form, folder / "y")
    outcome = Outcome(case, [value(*files)])
    if isinstance(outcome.found[0], str):
        said = outcome.found[0]
        columns, other = followed(said, case, said.startswith(("preds", str(folder / "p."))))
        outcome.found.append(value(*files, columns=tuple(Columns(**one) for one in columns), **other))
    return outcome


def reported(preds, target):
    """Return nDCG@3 of ``evaluate`` in Python, or what its error says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(evaluate(preds, target, metrics=[METRIC.clone()]).values["ndcg@3"].value)
        except (ValueError, TypeError) as error:
            return str(error)


RENAMED = re.compile(r"the name '(\w+)'(?: for '([^']*)')?|(a table without it)")


def renamed(frame, said, file):
    """Return a frame whose columns have the names that a hint gives them; of two choices the right one."""
    for role, old, without in RENAMED.findall(said):
        right = meant(file, role or "gain")
        if without and right == "none":
            frame = frame.drop(
                columns=[name for name in re.findall("'([^']*)'", said) if name == file.columns.get("stray")]
            )
        elif role and right in frame and old in ("", right):
            frame = frame.rename(columns={right: role})
    return frame


def tried_in_python(preds, target, case):
    """Evaluate two frames; where they are refused, again with the names of columns that the hint gives."""
    found = [reported(preds, target)]
    if isinstance(found[0], str):
        said = found[0]
        parts = re.search(r"in preds (.*), in target (.*)", said)
        of_preds, of_target = parts.groups() if parts else (said, said)
        if parts is None and "in both" not in said:
            of_preds, of_target = (said, "") if said.startswith("preds") else ("", said)
        found.append(reported(renamed(preds, of_preds, case.preds), renamed(target, of_target and said, case.target)))
    return Outcome(case, found)


OPTION = re.compile(r"--((?:preds-)?columns\.(\w+)|format|delimiter|duplicates|string-ids) (\S+?)(?=[\s,;.]|$)")


def printed(folder, files, options):
    """Return nDCG@3 of the command line, or what it prints to stderr."""
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    files = ["--preds", str(files[0]), "--target", str(files[1])]
    metric = ["--metrics+=NDCGAtK", "--metrics.k=3", "--out", str(folder / "out"), "--overwrite"]
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["evaluate", *files, *metric, *words])
    if code:
        return "error: " + err.getvalue().partition("error: ")[2]
    return json.loads((folder / "out" / "report.json").read_text())["metrics"]["ndcg@3"]


def tried_in_a_terminal(folder, files, case):
    """Evaluate two files; where they are refused, again with the options that the hint gives, as they are written."""
    found, options = [printed(folder, files, {})], {}
    if isinstance(found[0], str):
        of_preds = found[0].startswith(f"error: {files[0]}")
        for name, role, word in OPTION.findall(found[0].partition("hint: ")[2]):
            file = case.preds if name.startswith("preds-") or (of_preds and "--preds-" not in found[0]) else case.target
            right = meant(file, role) if role else word
            if right is not None and (word == "NAME" or word == right):
                options[name] = right
        found.append(printed(folder, files, options))
    return Outcome(case, found)


def test_the_same_through_evaluate_and_the_command_line(outcomes, tmp_path):
    """A share of the cases is right, or refused in 400 letters, and right with what the hint says."""
    found, drawn = [], outcomes[::SHARE]
    for one in drawn:
        files = (
            written(one.case.preds, one.case.form, tmp_path / "p"),
            written(one.case.target, one.case.form, tmp_path / "y"),
        )
        is_frame = one.case.form == "frame"
        found.append(tried_in_python(*files, one.case) if is_frame else tried_in_a_terminal(tmp_path, files, one.case))
    refused = [one for one in found if one.hints]
    print(f"\n{len(found)} runs by evaluate and the command line: {len(refused)} refused")
    wrong = [one for one in found if not one.is_right]
    assert not wrong, shown(wrong)
    for one in refused:
        problem, _, hint = one.found[0].removeprefix("error: ").partition("\nhint: ")
        assert len(problem + hint) <= 401, one.found[0]


@pytest.fixture(scope="module", params=["sample", pytest.param("the others", marks=pytest.mark.slow)])
def outcomes(request, tmp_path_factory):
    """A sample of the cases, or the others: each name of each role in each format, with a column that means nothing."""
    cases = [(r, n, f) for r in USUAL for n in [*USUAL[r].split(), *MADE_UP[r]] for f in FORMATS]
    Random(0).shuffle(cases)
    cases = cases[:SAMPLE] if request.param == "sample" else cases[SAMPLE:RUNS]
    folder = tmp_path_factory.mktemp("files")
    return [tried(folder, number, *case) for number, case in enumerate(cases)]


def shown(wrong):
    return f"{len(wrong)} wrong, such as\n" + "\n".join(map(str, wrong[:8]))


def test_30_names_of_each_kind():
    """Each role has 30 usual and 30 made-up names, all different."""
    assert {(role, len({*USUAL[role].split()}), len({*MADE_UP[role]})) for role in USUAL} == {
        (r, 30, 30) for r in USUAL
    }


def test_right_or_refused(outcomes):
    """The value is that of plain loops, or the run is refused in at most 400 letters that name a column."""
    refused = [one for one in outcomes if isinstance(one.found[0], str)]
    print(f"\n{2 * len(outcomes):,} files: {len(outcomes) - len(refused):,} runs read, {len(refused):,} refused")
    wrong = [one for one in outcomes if isinstance(one.found[-1], float) and not one.is_right]
    assert not wrong, shown(wrong)
    for one in refused:
        said, names = one.found[0], [*one.case.preds.cells, *one.case.target.cells]
        assert len(said) <= 400, said
        assert any(name in said for name in names), said


def test_hints(outcomes):
    """What an error names gives the right number at the next try."""
    refused = [one for one in outcomes if isinstance(one.found[0], str)]
    wrong = [one for one in refused if not one.is_right]
    print(f"\nright after a hint: {sum(one.is_right for one in refused):,} of {len(refused):,}")
    assert not wrong, shown(wrong)


LONG = st.text(st.sampled_from("aé7 ,;|\t:\"'[]{}\\"), max_size=30).flatmap(
    lambda text: st.sampled_from([text, text * 99])
)
DEEP = st.builds(lambda start, times, end: start * times + end, st.sampled_from(["[", '{"a":', '[{"q":']), st.integers(1, 3000), LONG)  # fmt: skip
RECORD = st.dictionaries(LONG, st.one_of(LONG, st.lists(LONG, max_size=3), st.dictionaries(LONG, LONG, max_size=2)), max_size=4)  # fmt: skip
LINES = st.lists(st.one_of(LONG, DEEP, RECORD.map(json.dumps)), min_size=1, max_size=4).map("\n".join)


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["csv", "tsv", "jsonl", "json", "txt"]), LINES, st.booleans())
def test_no_error_is_long(tmp_path, suffix, text, is_target):
    """However long the values and deep the nests of a file, its error has at most 400 letters."""
    usual, odd = tmp_path / "usual.csv", tmp_path / f"odd.{suffix}"
    usual.write_text("query,item,score\nq1,d1,0.5\nq1,d2,0.25\n")
    odd.write_text(text)
    found = value(usual, odd) if is_target else value(odd, usual)
    assert not isinstance(found, str) or len(found) <= 400, found[:500]
