"""From files to numbers: what the readers yield is what the metrics take."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch

from tailmetrics import LabelFrequency, NDCGAtK, PrecisionAtK, RecallAtK, TopKCollection
from tailmetrics.io import read, read_target

NUM_ROWS, NUM_LABELS = 23, 12


def made_up_rows(seed):
    """Return per row the scores of some labels, full of ties, and the relevant labels."""
    source = random.Random(seed)
    labels = range(NUM_LABELS)
    scores = [{label: source.randrange(4) / 4 for label in source.sample(labels, source.randrange(9))}
              for _ in range(NUM_ROWS)]  # fmt: skip
    relevant = [sorted(source.sample(labels, source.randrange(5))) for _ in range(NUM_ROWS)]
    return scores, relevant


SCORES, RELEVANT = made_up_rows(3)


def expected_precision(k):
    """P@k with denominator k over all rows, by the definition."""
    hits = 0
    for scores, relevant in zip(SCORES, RELEVANT, strict=True):
        ranking = sorted(scores, key=lambda label: (-scores[label], label))
        hits += sum(label in relevant for label in ranking[:k])
    return hits / (k * NUM_ROWS)


def write_preds(folder, form):
    path = folder / f"preds.{form}"
    indptr = np.cumsum([0, *map(len, SCORES)])
    ids = [label for row in SCORES for label in row]
    values = np.array([score for row in SCORES for score in row.values()], np.float32)
    if form == "npz":
        sp.save_npz(path, sp.csr_matrix((values, ids, indptr), shape=(NUM_ROWS, NUM_LABELS)))
    elif form == "parquet":
        pq.write_table(pa.table({"ids": [[*row] for row in SCORES], "scores": [[*row.values()] for row in SCORES]}),
                       path, row_group_size=4)  # fmt: skip
    elif form == "txt":
        lines = [" ".join(f"{label}:{score}" for label, score in row.items()) for row in SCORES]
        path.write_text("\n".join([f"{NUM_ROWS} {NUM_LABELS}", *lines, ""]))
    elif form == "npy":
        dense = [[row.get(label, -np.inf) for label in range(NUM_LABELS)] for row in SCORES]
        np.save(path, np.array(dense, np.float32))
    else:
        lines = [f'{{"query": {row}, "item": {label}, "score": {score}}}\n' for row, scores in enumerate(SCORES)
                 for label, score in scores.items()]  # fmt: skip
        path.write_text("".join(lines))
    return path


def write_target(folder, form):
    path = folder / f"target.{form}"
    if form == "parquet":
        pq.write_table(pa.table({"labels": pa.array(RELEVANT, pa.list_(pa.int32()))}), path, row_group_size=5)
    elif form == "npy":
        hot = np.zeros((NUM_ROWS, NUM_LABELS), bool)
        for row, labels in enumerate(RELEVANT):
            hot[row, labels] = True
        np.save(path, hot)
    else:
        rows = [("query", "item"), *((row, label) for row, labels in enumerate(RELEVANT) for label in labels)]
        path.write_text("".join(f"{query},{item}\n" for query, item in rows))
    return path


def evaluated(*datasets):
    metrics = TopKCollection([PrecisionAtK(k=(1, 5), denominator="k"), RecallAtK(k=5), NDCGAtK(k=5)])
    for dataset in datasets:
        for batch in dataset:
            metrics.update(batch.preds, batch.target)
    return {key: float(value) for key, value in metrics.compute().items()}


@pytest.mark.parametrize("form", ["npz", "parquet", "txt", "npy"])
@pytest.mark.parametrize("target", ["parquet", "npy"])
def test_one_evaluation_whatever_the_format(tmp_path, form, target):
    """Every pair of formats gives the precision of a plain loop, and to the last bit the same recall and NDCG."""
    paths = write_preds(tmp_path, form), write_target(tmp_path, target)
    values = evaluated(read(*paths, num_labels=NUM_LABELS, batch_rows=6))
    assert values["precision_k@1"] == pytest.approx(expected_precision(1))
    assert values["precision_k@5"] == pytest.approx(expected_precision(5))
    reference = evaluated(read(write_preds(tmp_path, "npz"), write_target(tmp_path, "npy")))
    assert values == reference


@pytest.mark.parametrize("world_size", [2, 3, 30])
def test_ranks_together_give_what_one_gives(tmp_path, world_size):
    """The shares of all ranks put together give to the last bit what one process gives."""
    paths = write_preds(tmp_path, "parquet"), write_target(tmp_path, "parquet")
    shares = [read(*paths, rank=rank, world_size=world_size, batch_rows=4) for rank in range(world_size)]
    assert evaluated(*shares) == evaluated(read(*paths))


def test_queries_give_what_rows_give(tmp_path):
    """Lines by query and rows without a query give the same, the rows without a relevant label left out of both."""
    keyed = evaluated(read(write_preds(tmp_path, "jsonl"), write_target(tmp_path, "csv"), missing="zero"))
    hits = expected_precision(5) * NUM_ROWS
    assert keyed["precision_k@5"] == pytest.approx(hits / sum(map(bool, RELEVANT)))


@pytest.mark.parametrize("form", ["parquet", "npy", "csv"])
def test_training_counts(tmp_path, form):
    """LabelFrequency counts every relevant label, whatever the format of the training targets."""
    frequency = LabelFrequency(NUM_LABELS)
    for batch in read_target(write_target(tmp_path, form), num_labels=NUM_LABELS, batch_rows=4):
        frequency.update(batch.target)
    expected = [sum(label in labels for labels in RELEVANT) for label in range(NUM_LABELS)]
    assert torch.equal(frequency.compute(), torch.tensor(expected))
