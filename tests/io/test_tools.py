"""Files as other programs write them: each row of the table in docs/inputs.md, and no file is read as another kind."""

import gzip
import json
import os
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch

from tailmetrics import RecallAtK
from tailmetrics.cli import main
from tailmetrics.io import read

PAGE = Path(__file__).parents[2] / "docs" / "inputs.md"
RUN = {"1": {"11": 0.9, "12": 0.5}, "2": {"13": 0.7, "11": 0.2}}
QRELS = {"1": {"12": 1}, "2": {"13": 1}}
"""Recall at 1 is a half: 13 comes first for 2, 12 second for 1."""
ENTRIES = [(query, item, score) for query, by in RUN.items() for item, score in by.items()]
RELEVANT = [(query, item) for query, by in QRELS.items() for item in by]
JUDGED = [*((query, item, 1) for query, item in RELEVANT), ("1", "11", 0)]
RANKS = [(query, item, rank) for query, by in RUN.items() for rank, item in enumerate(by, 1)]


def lines(rows, separator, header=None):
    return "".join(separator.join(map(str, row)) + "\n" for row in ([header] if header else []) + list(rows))


def text(content):
    return lambda path: path.write_text(content)


def frame(rows, names):
    return pd.DataFrame(rows, columns=list(names))


def parquet(rows, names):
    return lambda path: frame(rows, names).to_parquet(path)


def lists(rows, names):
    return lambda path: pq.write_table(
        pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), path
    )


def torch_topk(path):
    torch.save(torch.topk(torch.tensor([[0.1, 0.9, 0.5, 0.0], [0.2, 0.0, 0.1, 0.7]]), 2), path)


def csr(rows):
    def write(path):
        matrix = sp.lil_matrix((2, 14))
        for query, item, value in rows:
            matrix[int(query) - 1, int(item)] = value
        sp.save_npz(path, matrix.tocsr())

    return write


NESTED = [(query, [{"item_id": int(item), "score": score} for item, score in by.items()]) for query, by in RUN.items()]
TIMED = [(query, item, 5, 881250949) for query, item in RELEVANT]
XMC_RUN = "2 14\n" + "".join(" ".join(f"{item}:{score}" for item, score in by.items()) + "\n" for by in RUN.values())
XMC_TARGET = "2 14\n" + "".join(" ".join(f"{item}:1" for item in by) + "\n" for by in QRELS.values())

PREDS = {
    "trec_eval": ("run.txt", text(lines(((q, "Q0", i, 1, s, "me") for q, i, s in ENTRIES), " "))),
    "ir_datasets": ("run.trec", text(lines(((q, "Q0", i, 1, s, "me") for q, i, s in ENTRIES), "\t"))),
    "MS MARCO": ("run.tsv", text(lines(RANKS, "\t"))),
    "ranx": ("run.json", text(json.dumps(RUN))),
    "ranx, gzip": ("run.json.gz", lambda path: path.write_bytes(gzip.compress(json.dumps(RUN).encode()))),
    "pytrec_eval": ("run.json", text(json.dumps(RUN, indent=2))),
    "items by query": ("run.json", text(json.dumps({query: list(by) for query, by in RUN.items()}))),
    "JSON Lines": (
        "run.jsonl",
        text("".join(json.dumps({"query_id": q, "doc_id": i, "score": s}) + "\n" for q, i, s in ENTRIES)),
    ),
    "MTEB": ("m_predictions.json", text(json.dumps({"mteb_model_meta": {}, "default": {"test": RUN}}))),
    "LensKit": ("recs.parquet", parquet([(int(q), int(i), r) for q, i, r in RANKS], ("user_id", "item_id", "rank"))),
    "LensKit, lists": ("recs.parquet", lists([(int(q), one) for q, one in NESTED], ("user_id", "items"))),
    "RecTools": (
        "reco.csv",
        text(
            lines(
                ((*one, r) for one, (_, _, r) in zip(ENTRIES, RANKS, strict=True)),
                ",",
                ("user_id", "item_id", "score", "rank"),
            )
        ),
    ),
    "RecTools, rank": ("reco.csv", text(lines(RANKS, ",", ("user_id", "item_id", "rank")))),
    "Elliot": ("recs.tsv", text(lines(ENTRIES, "\t"))),
    "recommenders": ("pred.csv", text(lines(ENTRIES, ",", ("userID", "itemID", "prediction")))),
    "semicolons": ("pred.csv", text(lines(ENTRIES, ";", ("user", "item", "score")))),
    "Kaggle": (
        "sub.csv",
        text(lines(((q, " ".join(by)) for q, by in RUN.items()), ",", ("customer_id", "prediction"))),
    ),
    "polars, lists": (
        "recs.parquet",
        lists([(q, list(map(int, by))) for q, by in RUN.items()], ("user_id", "item_ids")),
    ),
}
TARGETS = {
    "trec_eval": ("qrels.txt", text(lines(((q, 0, i, gain) for q, i, gain in JUDGED), " "))),
    "ir_datasets": ("qrels", text(lines(((q, 0, i, gain) for q, i, gain in JUDGED), " "))),
    "MS MARCO": ("qrels.dev.tsv", text(lines(((q, 0, i, gain) for q, i, gain in JUDGED), "\t"))),
    "pytrec_eval": ("qrels.json", text(json.dumps(QRELS, indent=2))),
    "items by query": ("truth.json", text(json.dumps({query: list(by) for query, by in QRELS.items()}))),
    "JSON Lines": ("y.jsonl", text("".join(json.dumps({"query_id": q, "doc_id": i}) + "\n" for q, i in RELEVANT))),
    "recommenders": ("test.csv", text(lines(TIMED, ",", ("userID", "itemID", "rating", "timestamp")))),
    "Kaggle": ("solution.csv", text(lines(RELEVANT, ",", ("customer_id", "labels")))),
    "BEIR": ("test.tsv", text(lines(JUDGED, "\t", ("query-id", "corpus-id", "score")))),
    "ranx": ("qrels.json", text(json.dumps(QRELS))),
    "MovieLens 100k": ("u.data", text(lines(TIMED, "\t"))),
    "MovieLens 1M": ("ratings.dat", text(lines(TIMED, "::"))),
    "MovieLens 25M": ("ratings.csv", text(lines(TIMED, ",", ("userId", "movieId", "rating", "timestamp")))),
    "RecBole": (
        "ml.inter",
        text(lines(TIMED, "\t", ("user_id:token", "item_id:token", "rating:float", "timestamp:float"))),
    ),
    "Elliot": ("test.tsv", text(lines(TIMED, "\t"))),
    "RecTools": (
        "inter.csv",
        text(lines(((*one, 1, "2024-01-01") for one in RELEVANT), ",", ("user_id", "item_id", "weight", "datetime"))),
    ),
    "Hugging Face": ("test.parquet", parquet([(int(q), int(i)) for q, i in RELEVANT], ("user_id", "item_id"))),
    "lists": ("truth.parquet", lists([(q, list(map(int, by))) for q, by in QRELS.items()], ("user_id", "items"))),
}
ROWS = {
    "XMC repository": (("score.txt", text(XMC_RUN)), ("tst.txt", text(XMC_TARGET))),
    "napkinXC": (("pred.txt", text(XMC_RUN.split("\n", 1)[1])), ("tst.txt", text(XMC_TARGET))),
    "pyxclib, PECOS": (("pred.npz", csr(ENTRIES)), ("tst.npz", csr([(q, i, 1) for q, i in RELEVANT]))),
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
"""Files without names of queries, row i belonging to row i."""


def written(folder, file):
    name, write = file
    write(folder / name)
    return folder / name


def value(folder, *words):
    """Return recall at 1 of a command line."""
    metric = ["--metrics+=RecallAtK", "--metrics.k=1", "--quiet", "--overwrite", "--out", str(folder / "out")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status = main(["evaluate", *metric, *map(str, words)])
    return status, json.loads((folder / "out" / "report.json").read_text())["metrics"][
        "recall@1"
    ] if not status else None


@pytest.mark.parametrize("tool", PREDS)
@pytest.mark.slow
def test_predictions_as_a_tool_writes_them(tmp_path, tool):
    """Beside TREC's qrels each gives a half, without an option."""
    (tmp_path / "y").mkdir()
    files = written(tmp_path, PREDS[tool]), written(tmp_path / "y", TARGETS["trec_eval"])
    assert value(tmp_path, "--preds", files[0], "--target", files[1]) == (0, 0.5)


@pytest.mark.parametrize("tool", TARGETS)
@pytest.mark.slow
def test_targets_as_a_tool_writes_them(tmp_path, tool):
    """Beside a run of TREC each gives a half, without an option."""
    (tmp_path / "y").mkdir()
    files = written(tmp_path, PREDS["trec_eval"]), written(tmp_path / "y", TARGETS[tool])
    assert value(tmp_path, "--preds", files[0], "--target", files[1]) == (0, 0.5)


@pytest.mark.parametrize("tool", ROWS)
def test_rows_as_a_tool_writes_them(tmp_path, tool):
    """The same of files of which row i belongs to row i."""
    preds, target = (written(tmp_path, file) for file in ROWS[tool])
    assert value(tmp_path, "--preds", preds, "--target", target, "--num-labels", 14)[1] in (0.5, None)
    status, found = value(tmp_path, "--preds", preds, "--target", target)
    assert (status, found) == (0, 0.5)


EVERY = 1 if "TAILMETRICS_FUZZ_CASES" in os.environ else 3
"""One pair of files of so many is tried, by turns; with TAILMETRICS_FUZZ_CASES all of them are."""


@pytest.fixture(scope="module")
def truths(tmp_path_factory):
    """Every file of targets, and every file of predictions as targets."""
    files = [*TARGETS.items(), *((tool, pair[1]) for tool, pair in ROWS.items()), *PREDS.items()]
    return [(tool, written(tmp_path_factory.mktemp("y"), file)) for tool, file in files]


@pytest.mark.parametrize("preds", [*PREDS, *ROWS])
@pytest.mark.slow
def test_all_pairs(tmp_path, preds, truths):
    """Each file of predictions against each target is right, or refused in a sentence."""
    run = written(tmp_path, PREDS[preds] if preds in PREDS else ROWS[preds][0])
    for target, truth in truths[[*PREDS, *ROWS].index(preds) % EVERY :: EVERY]:
        metric = RecallAtK(k=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                for batch in read(run, truth):
                    metric.update(batch.preds, batch.target)
            except ValueError as error:
                assert len(str(error)) < 500
                continue
        assert preds in ROWS or target in ROWS or float(metric.compute()) == 0.5, (preds, target)


def test_the_table_of_the_page():
    """Every tool that is tried here has a row, and every row is of a tool that is tried."""
    page = PAGE.read_text()
    rows = re.findall(
        r"^\| ([^|]+) \| (preds|target|both) \|", page[page.index("## Files of other tools") :], re.MULTILINE
    )
    expected = (
        [(tool, "preds") for tool in PREDS] + [(tool, "target") for tool in TARGETS] + [(t, "both") for t in ROWS]
    )
    assert sorted(rows) == sorted(expected)
