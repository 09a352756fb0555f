"""Files as other tools write them: each row of the tables in docs/inputs.md, with the
options given there.
"""

import gzip
import json
import re
import shlex
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch

from tailmetrics.cli import main
from written import values_of

PAGE = Path(__file__).parents[2] / "docs" / "inputs.md"
RUN = {"1": {"11": 0.9, "12": 0.5}, "2": {"13": 0.7, "11": 0.2}}
QRELS = {"1": {"12": 1}, "2": {"13": 1}}
"""Recall at 1 is a half: the relevant item 13 is first for query 2, and 12 is second
for query 1.
"""
ENTRIES = [
    (query, item, score) for query, by in RUN.items() for item, score in by.items()
]
RELEVANT = [(query, item) for query, by in QRELS.items() for item in by]
JUDGED = [*((query, item, 1) for query, item in RELEVANT), ("1", "11", 0)]
RANKS = [
    (query, item, rank) for query, by in RUN.items() for rank, item in enumerate(by, 1)
]


def lines(rows, separator, header=None):
    return "".join(
        separator.join(map(str, row)) + "\n"
        for row in ([header] if header else []) + list(rows)
    )


def text(content):
    return lambda path: path.write_text(content)


def frame(rows, names):
    return pd.DataFrame(rows, columns=list(names))


def parquet(rows, names):
    return lambda path: frame(rows, names).to_parquet(path)


def lists(rows, names):
    return lambda path: pq.write_table(
        pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))),
        path,
    )


def torch_topk(path):
    torch.save(
        torch.topk(torch.tensor([[0.1, 0.9, 0.5, 0.0], [0.2, 0.0, 0.1, 0.7]]), 2), path
    )


def csr(rows):
    def write(path):
        matrix = sp.lil_matrix((2, 14))
        for query, item, value in rows:
            matrix[int(query) - 1, int(item)] = value
        sp.save_npz(path, matrix.tocsr())

    return write


NESTED = [
    (query, [{"item_id": int(item), "score": score} for item, score in by.items()])
    for query, by in RUN.items()
]
TIMED = [(query, item, 5, 881250949) for query, item in RELEVANT]
XMC_RUN = "2 14\n" + "".join(
    " ".join(f"{item}:{score}" for item, score in by.items()) + "\n"
    for by in RUN.values()
)
XMC_TARGET = "2 14\n" + "".join(
    " ".join(f"{item}:1" for item in by) + "\n" for by in QRELS.values()
)

PREDS = {
    "trec_eval": (
        "run.txt",
        text(lines(((q, "Q0", i, 1, s, "me") for q, i, s in ENTRIES), " ")),
    ),
    "ir_datasets": (
        "run.trec",
        text(lines(((q, "Q0", i, 1, s, "me") for q, i, s in ENTRIES), "\t")),
    ),
    "MS MARCO": ("run.tsv", text(lines(RANKS, "\t"))),
    "ranx": ("run.json", text(json.dumps(RUN))),
    "ranx, gzip": (
        "run.json.gz",
        lambda path: path.write_bytes(gzip.compress(json.dumps(RUN).encode())),
    ),
    "pytrec_eval": ("run.json", text(json.dumps(RUN, indent=2))),
    "items by query": (
        "run.json",
        text(json.dumps({query: list(by) for query, by in RUN.items()})),
    ),
    "JSON Lines": (
        "run.jsonl",
        text(
            "".join(
                json.dumps({"query_id": q, "doc_id": i, "score": s}) + "\n"
                for q, i, s in ENTRIES
            )
        ),
    ),
    "MTEB": (
        "m_predictions.json",
        text(json.dumps({"mteb_model_meta": {}, "default": {"test": RUN}})),
    ),
    "LensKit": (
        "recs.parquet",
        parquet(
            [(int(q), int(i), r) for q, i, r in RANKS], ("user_id", "item_id", "rank")
        ),
    ),
    "LensKit, lists": (
        "recs.parquet",
        lists([(int(q), objects) for q, objects in NESTED], ("user_id", "items")),
    ),
    "RecTools": (
        "reco.csv",
        text(
            lines(
                (
                    (*entry, rank)
                    for entry, (_, _, rank) in zip(ENTRIES, RANKS, strict=True)
                ),
                ",",
                ("user_id", "item_id", "score", "rank"),
            )
        ),
    ),
    "RecTools, rank": (
        "reco.csv",
        text(lines(RANKS, ",", ("user_id", "item_id", "rank"))),
    ),
    "Elliot": ("recs.tsv", text(lines(ENTRIES, "\t"))),
    "recommenders": (
        "pred.csv",
        text(lines(ENTRIES, ",", ("userID", "itemID", "prediction"))),
    ),
    "semicolons": ("pred.csv", text(lines(ENTRIES, ";", ("user", "item", "score")))),
    "Kaggle": (
        "sub.csv",
        text(
            lines(
                ((q, " ".join(by)) for q, by in RUN.items()),
                ",",
                ("customer_id", "prediction"),
            )
        ),
    ),
    "polars, lists": (
        "recs.parquet",
        lists(
            [(q, list(map(int, by))) for q, by in RUN.items()], ("user_id", "item_ids")
        ),
    ),
}
TARGETS = {
    "trec_eval": (
        "qrels.txt",
        text(lines(((q, 0, i, gain) for q, i, gain in JUDGED), " ")),
    ),
    "ir_datasets": (
        "qrels",
        text(lines(((q, 0, i, gain) for q, i, gain in JUDGED), " ")),
    ),
    "MS MARCO": (
        "qrels.dev.tsv",
        text(lines(((q, 0, i, gain) for q, i, gain in JUDGED), "\t")),
    ),
    "pytrec_eval": ("qrels.json", text(json.dumps(QRELS, indent=2))),
    "items by query": (
        "truth.json",
        text(json.dumps({query: list(by) for query, by in QRELS.items()})),
    ),
    "JSON Lines": (
        "y.jsonl",
        text(
            "".join(
                json.dumps({"query_id": q, "doc_id": i}) + "\n" for q, i in RELEVANT
            )
        ),
    ),
    "recommenders": (
        "test.csv",
        text(lines(TIMED, ",", ("userID", "itemID", "rating", "timestamp"))),
    ),
    "Kaggle": ("solution.csv", text(lines(RELEVANT, ",", ("customer_id", "labels")))),
    "BEIR": ("test.tsv", text(lines(JUDGED, "\t", ("query-id", "corpus-id", "score")))),
    "ranx": ("qrels.json", text(json.dumps(QRELS))),
    "MovieLens 100k": ("u.data", text(lines(TIMED, "\t"))),
    "MovieLens 1M": ("ratings.dat", text(lines(TIMED, "::"))),
    "MovieLens 25M": (
        "ratings.csv",
        text(lines(TIMED, ",", ("userId", "movieId", "rating", "timestamp"))),
    ),
    "RecBole": (
        "ml.inter",
        text(
            lines(
                TIMED,
                "\t",
                ("user_id:token", "item_id:token", "rating:float", "timestamp:float"),
            )
        ),
    ),
    "Elliot": ("test.tsv", text(lines(TIMED, "\t"))),
    "RecTools": (
        "inter.csv",
        text(
            lines(
                ((*pair, 1, "2024-01-01") for pair in RELEVANT),
                ",",
                ("user_id", "item_id", "weight", "datetime"),
            )
        ),
    ),
    "Hugging Face": (
        "test.parquet",
        parquet([(int(q), int(i)) for q, i in RELEVANT], ("user_id", "item_id")),
    ),
    "lists": (
        "truth.parquet",
        lists(
            [(q, list(map(int, by))) for q, by in QRELS.items()], ("user_id", "items")
        ),
    ),
}
ROWS = {
    "XMC repository": (("score.txt", text(XMC_RUN)), ("tst.txt", text(XMC_TARGET))),
    "napkinXC": (
        ("pred.txt", text(XMC_RUN.split("\n", 1)[1])),
        ("tst.txt", text(XMC_TARGET)),
    ),
    "pyxclib, PECOS": (
        ("pred.npz", csr(ENTRIES)),
        ("tst.npz", csr([(q, i, 1) for q, i in RELEVANT])),
    ),
    "FAISS": (
        ("I.npy", lambda path: np.save(path, np.array([[11, 12], [13, 11]]))),
        ("y.npy", lambda path: np.save(path, np.array([12, 13]))),
    ),
    "SVMrank, LightGBM": (
        ("p.txt", text("0.9\n0.5\n0.7\n0.2\n")),
        ("y.txt", text("0 qid:1 1:0\n1 qid:1 1:0\n1 qid:2 1:0\n0 qid:2 1:0\n")),
    ),
    "torch.topk": (
        ("topk.pt", torch_topk),
        ("y.npy", lambda path: np.save(path, np.array([2, 3]))),
    ),
}
"""Files without names of queries, of which row i belongs to row i."""


def written(folder, file):
    name, write = file
    write(folder / name)
    return folder / name


def value(folder, *words):
    """Return the exit status of a command line, and recall at 1 if it succeeds."""
    metric = [
        "--metrics+=RecallAtK",
        "--metrics.k=1",
        "--quiet",
        "--overwrite",
        "--out",
        str(folder / "out"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status = main(["evaluate", *metric, *map(str, words)])
    if status:
        return status, None
    report = json.loads((folder / "out" / "report.json").read_text())
    return status, values_of(report)["recall@1"]


SECTION = (
    PAGE.read_text().partition("### Files of other tools")[2].partition("\n### ")[0]
)
READ_AS_THEY_ARE = {
    (tool, kind)
    for kind, tools in re.findall(
        r"^\| (preds|target|both) \| (.*) \|$", SECTION, re.MULTILINE
    )
    for tool in re.sub(r" \([^)]*\)", "", tools).split("; ")
}
"""(Tool, kind of file) that needs no option."""
OPTIONS = {key: list[str]() for key in READ_AS_THEY_ARE} | {
    (tool, kind): shlex.split(options)
    for tool, kind, options in re.findall(
        r"^\| ([^|]+) \| (preds|target|both) \| .* \| `(.*)` \|$", SECTION, re.MULTILINE
    )
}
"""(Tool, kind of file) -> the options that its row names."""


@pytest.mark.parametrize("tool", PREDS)
def test_predictions_of_each_tool_are_read(tmp_path, tool):
    """The predictions that each tool writes are read with the options of its row:
    recall at 1 beside TREC qrels is 0.5.
    """
    (tmp_path / "y").mkdir()
    files = (
        written(tmp_path, PREDS[tool]),
        written(tmp_path / "y", TARGETS["trec_eval"]),
    )
    options = [*OPTIONS[tool, "preds"], *OPTIONS["trec_eval", "target"]]
    assert value(tmp_path, "--preds", files[0], "--target", files[1], *options) == (
        0,
        0.5,
    )


@pytest.mark.parametrize("tool", TARGETS)
def test_targets_of_each_tool_are_read(tmp_path, tool):
    """The targets that each tool writes are read with the options of its row: recall at
    1 beside a TREC run is 0.5.
    """
    (tmp_path / "y").mkdir()
    files = (
        written(tmp_path, PREDS["ir_datasets"]),
        written(tmp_path / "y", TARGETS[tool]),
    )
    assert value(
        tmp_path, "--preds", files[0], "--target", files[1], *OPTIONS[tool, "target"]
    ) == (0, 0.5)


@pytest.mark.parametrize("tool", ROWS)
def test_files_without_queries_of_each_tool_are_read(tmp_path, tool):
    """Predictions and targets of tools that write no queries are read row by row with
    the options of their row: recall at 1 is 0.5.
    """
    preds, target = (written(tmp_path, file) for file in ROWS[tool])
    labels = ["--num-labels", 14] if tool == "napkinXC" else []
    assert value(
        tmp_path, "--preds", preds, "--target", target, *labels, *OPTIONS[tool, "both"]
    ) == (0, 0.5)


def test_the_page_lists_every_tested_tool():
    """Every tool that is tested here is in a table of docs/inputs.md, and every tool in
    a table is tested.
    """
    tools = (
        [(tool, "preds") for tool in PREDS]
        + [(tool, "target") for tool in TARGETS]
        + [(tool, "both") for tool in ROWS]
    )
    assert sorted(OPTIONS) == sorted(tools)
    assert len(READ_AS_THEY_ARE) == 27


@pytest.mark.parametrize("tool", [tool for tool in PREDS if OPTIONS[tool, "preds"]])
def test_the_hint_for_a_tool_names_an_option_of_its_row(tmp_path, tool, capsys):
    """Predictions of a tool that needs options are refused without them, and the hint
    names the first option of its row.
    """
    (tmp_path / "y").mkdir()
    files = written(tmp_path, PREDS[tool]), written(tmp_path / "y", TARGETS["BEIR"])
    assert value(tmp_path, "--preds", files[0], "--target", files[1])[0] == 2
    hint = capsys.readouterr().err.partition("hint: ")[2]
    first = OPTIONS[tool, "preds"][0].replace("--preds-", "--")
    assert first in hint.replace("--preds-", "--")


# -- conversions -----------------------------------------------------------------------

LINES = dict(
    re.findall(
        r"^\| ([^|]+?) \| `(.*)` \|$",
        PAGE.read_text().partition("### Forms that need a conversion")[2],
        re.MULTILINE,
    )
)
"""Form -> the line of Python that converts it."""
RAW = {
    "items in columns `top1` … `top10`": {
        "table": pd.DataFrame({"user": [1, 2], "top1": [11, 13], "top2": [12, 11]})
    },
    "a column of scores for each label": {
        "table": pd.DataFrame(
            {"user": [1, 2], "11": [0.9, 0.2], "12": [0.5, 0.0], "13": [0.0, 0.7]}
        )
    },
    "lines `id,a,b,c` without names": {"lines": [["1", "11", "12"], ["2", "13", "11"]]},
    "label and score in turn, `id,a .9 b .5`": {
        "lines": [["1", "12 .5 11 .9"], ["2", "13 .7 11 .2"]]
    },
    "grades in words": {
        "table": pd.DataFrame(
            {"user": [1, 1, 2], "item": [12, 11, 13], "answer": ["yes", "no", "yes"]}
        )
    },
    "folders `day=3` that are a column": {},
    "nested objects of annotation tools": {
        "rows": [
            {
                "id": query,
                "annotations": [
                    {"result": [{"value": {"choices": [item]}, "type": "choices"}]}
                ],
            }
            for query, item in RELEVANT
        ]
    },
    "numbers with a decimal comma": {
        "table": pd.DataFrame(
            {"user": [1, 1, 2], "item": [11, 12, 13], "score": ["0,9", "0,5", "0,7"]}
        )
    },
    "lists of lists": {
        "table": pd.DataFrame({"user": [1, 2], "labels": [[[12], []], [[13]]]})
    },
}


@pytest.mark.parametrize("form", RAW)
def test_each_conversion_of_the_page_gives_a_readable_file(tmp_path, monkeypatch, form):
    """The line of Python that docs/inputs.md gives for a form that is not read makes a
    file that is: recall at 1 is 0.5.
    """
    monkeypatch.chdir(tmp_path)
    for query, items in ((1, [12]), (2, [13])):
        (tmp_path / "parts" / f"query={query}").mkdir(parents=True)
        pq.write_table(
            pa.table({"item": items}),
            tmp_path / "parts" / f"query={query}" / "0.parquet",
        )
    exec(LINES[form], {"json": json, "duckdb": duckdb, "pd": pd, **RAW[form]})
    (converted,) = (path for path in tmp_path.iterdir() if path.stem in "py")
    if converted.stem == "y":
        (tmp_path / "p.json").write_text(json.dumps(RUN))
    else:
        (tmp_path / "y.json").write_text(json.dumps(QRELS))
    files = {path.stem: path for path in tmp_path.iterdir() if path.stem in "py"}
    assert value(tmp_path, "--preds", files["p"], "--target", files["y"]) == (0, 0.5)


def test_every_conversion_of_the_page_is_tested():
    """docs/inputs.md has exactly the conversions that are tested here."""
    assert sorted(LINES) == sorted(RAW)
