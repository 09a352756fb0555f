"""Labels listed twice, grades too low to count, whole numbers taken for names."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tailmetrics import DCGAtK, LabelFrequency, evaluate
from tailmetrics.io import DataFileError, read, read_label_names, read_target

LISTS = [[3, 5, 3, 7], [1, 1, 1, 1], [2, 4, 6, 0]]


@pytest.fixture
def files(tmp_path):
    """Return a function that writes lists, with scores if given, and returns their path and that of a target."""

    def files(form, lists=LISTS, scores=None):
        preds = tmp_path / f"p.{form}"
        if form == "parquet":
            columns = {"ids": lists} if scores is None else {"ids": lists, "scores": scores}
            pq.write_table(pa.table(columns), preds)
        elif form == "npy":
            np.save(preds, np.array(lists))
        else:
            torch.save((torch.tensor(scores), torch.tensor(lists)), preds)
        np.save(tmp_path / "y.npy", np.arange(len(lists)))
        return preds, tmp_path / "y.npy"

    return files


@pytest.mark.parametrize("form", ["parquet", "npy"])
def test_lists_with_repeated_ids_keep_their_places(files, form):
    """With duplicates='first' a list comes out as it was written, for rank to count later ones as misses."""
    with pytest.raises(DataFileError, match="row 0: holds the label 3 twice") as caught:
        list(read(*files(form)))
    assert caught.value.hint.startswith("duplicates='first' leaves the later one in its place as a miss")
    (batch,) = read(*files(form), duplicates="first")
    assert batch.preds.tolist() == LISTS
    with pytest.raises(ValueError, match="read: duplicates='last' is not known; choose one of 'error', 'first'"):
        read(*files(form), duplicates="last")


@pytest.mark.parametrize("form", ["parquet", "pt"])
def test_candidates_with_repeated_ids_stay_a_pair(files, form):
    """Scored candidates come out as scores and ids, never as a sparse matrix, which could not hold a label twice."""
    scores = [[0.5, 0.25, 1.0, 0.0]] * 3
    (batch,) = read(*files(form, scores=scores), num_labels=10_000, duplicates="first")
    assert (batch.preds[0].tolist(), batch.preds[1].tolist()) == (scores, LISTS)


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "frame", "lists", "npy"])
def test_a_target_that_repeats_a_label(tmp_path, form):
    """It is refused, also where a file repeats it for good reason, as purchases do; 'first' counts it once, at first."""
    bought = pd.DataFrame({"user_id": ["u", "u", "u", "v"], "item_id": ["a", "b", "b", "b"], "rating": [3, 2, 5, 1]})
    scored = pd.DataFrame({"user_id": ["u", "u", "u", "v"], "item_id": ["c", "b", "a", "b"], "score": [3, 2, 1, 1]})
    preds, target = scored, tmp_path / f"y.{form}"
    if form == "csv":
        bought.to_csv(target, index=False)
    elif form == "jsonl":
        target.write_text(bought.to_json(orient="records", lines=True))
    elif form == "parquet":
        bought.to_parquet(target)
    elif form == "frame":
        target = bought
    elif form == "lists":
        preds, target = {"u": ["c", "b", "a"], "v": ["b"]}, {"u": ["a", "b", "b"], "v": ["b"]}
    else:
        preds = tmp_path / "p.npy"
        np.save(preds, [[2, 1, 0], [1, -1, -1]])
        np.save(target, [[0, 5, 5], [1, -1, -1]])
    with pytest.raises(DataFileError, match=r"holds the label .* twice; .*duplicates='first' counts it once"):
        list(read(preds, target))
    metric = DCGAtK(k=3)
    for batch in read(preds, target, duplicates="first"):
        metric.update(batch.preds, batch.target)
    graded = form in ("csv", "jsonl", "parquet", "frame")
    b, a = (2, 3) if graded else (1, 1)  # not 5: the later line does not count
    ranked = {"npy": a / np.log2(4) + 1}.get(form, b / np.log2(3) + a / np.log2(4) + 1)
    assert float(metric.compute()) == pytest.approx(ranked / 2)
    if form == "frame":
        report = evaluate(preds, target, metrics=[DCGAtK(k=3)], duplicates="first")
        assert report.overall["dcg@3"] == pytest.approx(ranked / 2)


def test_a_matrix_or_an_id_that_repeats(tmp_path):
    """Whole numbers that may be a multi-hot matrix are refused although they repeat: 0 and 1 twice are no label ids."""
    np.save(tmp_path / "p.npy", [[0, 1]])
    for rows, problem in (([[1, 1]], "may be label ids or a matrix"), ([[1, 1, -1]], "holds the label 1 twice; whole")):
        np.save(tmp_path / "y.npy", rows)
        with pytest.raises(DataFileError, match=problem):
            list(read(tmp_path / "p.npy", tmp_path / "y.npy", duplicates="first"))


def test_training_targets_may_repeat_a_label(tmp_path):
    """Ids, and gains as ids of what is relevant; rows of 0 and 1 alone may be a matrix, which is not guessed."""
    pq.write_table(pa.table({"labels": [[5, 2, 5], [1]]}), tmp_path / "y.parquet")
    assert [batch.target.tolist() for batch in read_target(tmp_path / "y.parquet")] == [[[5, 2, 5], [1, -1, -1]]]
    gains = pa.table({"labels": [[5, 2, 5], [5], [3] * 50, [0]], "gains": [[1, 3, 2], [4], [3] * 49 + [0], [1]]})
    pq.write_table(gains, tmp_path / "g.parquet")
    for least, counts in ((None, [1, 0, 1, 49, 0, 3]), (2, [0, 0, 1, 49, 0, 2])):
        frequency = LabelFrequency(6)
        for batch in read_target(tmp_path / "g.parquet", num_labels=6, min_gain=least):
            frequency.update(batch.target)
        assert (frequency.compute().tolist(), frequency.num_rows) == (counts, 4)
    np.save(tmp_path / "a.npy", [[5, 2, 5], [1, -1, -1]])
    assert [batch.target.tolist() for batch in read_target(tmp_path / "a.npy")] == [[[5, 2, 5], [1, -1, -1]]]
    pq.write_table(pa.table({"labels": [[0, 1, 1], [1, 0, 0]]}), tmp_path / "b.parquet")
    with pytest.raises(DataFileError, match="row 0: holds the label 1 twice; .* save it as bool"):
        list(read_target(tmp_path / "b.parquet"))


def test_the_least_gain_of_training_targets(tmp_path):
    """Matrices and lists of gains lose what is below; where there are none, what is listed is relevant."""
    gains = np.array([[0.5, 2, 1], [3, 0, 1.5]])
    np.save(tmp_path / "gains.npy", gains)
    pq.write_table(pa.table({"labels": [[0, 1], [2]], "gains": [[0.5, 2.0], [3.0]]}), tmp_path / "gains.parquet")
    (batch,) = read_target(tmp_path / "gains.npy", min_gain=1.5)
    assert batch.target.tolist() == [[0, 2, 0], [3, 0, 1.5]]
    (batch,) = read_target(tmp_path / "gains.parquet", min_gain=1, num_labels=3)
    assert batch.target.to_dense().tolist() == [[0, 2, 0], [0, 0, 3]]
    np.save(tmp_path / "hot.npy", gains > 0)
    np.save(tmp_path / "ids.npy", [0, 1])
    for name in ("hot", "ids"):
        (batch,) = read_target(tmp_path / f"{name}.npy", min_gain=2)
        assert torch.equal(batch.target, next(iter(read_target(tmp_path / f"{name}.npy"))).target)
    for wrong in (0, -1, float("inf"), "2"):
        with pytest.raises(ValueError, match="is not a gain; pass a number above 0"):
            read_target(tmp_path / "gains.npy", min_gain=wrong)


@pytest.mark.parametrize("form", ["parquet", "npy", "pt"])
def test_whole_numbers_as_names(files, form, tmp_path, rows_of):
    """string_ids=True numbers the ids of lists by value, placeholders such as -100 and ids with gaps included."""
    lists = [[30, -100], [7, 9_000_000_000], [30, 7]]
    scores = None if form == "npy" else [[1.0, 0.5]] * 3
    preds, _ = files(form, lists, scores)
    target = tmp_path / "t.parquet"
    pq.write_table(pa.table({"labels": [[30], [8], [7]]}), target)
    with pytest.raises(DataFileError, match="row 0: holds the label id -100") as caught:
        list(read(preds, target))
    assert "string_ids=True" in caught.value.hint
    dataset = read(preds, target, string_ids=True, batch_rows=2)
    assert dataset.label_names == ("-100", "30", "7", "8", "9000000000")  # not all whole: by text
    names = dataset.label_names
    found = {
        row: ([names[label] for label in preds], [names[label] for label in target])
        for row, (preds, target) in rows_of(dataset).items()
    }
    assert found == {row: ([str(label) for label in lists[row]], [one]) for row, one in enumerate(["30", "8", "7"])}
    assert read_label_names(preds, target, string_ids=True) == names
    positive = read(files(form, [[30, 7]] * 3, scores)[0], target, string_ids=True)
    assert positive.label_names == ("7", "8", "30")
    with pytest.raises(DataFileError, match="holds the unknown label '30'"):
        list(read(files(form, [[30, 7]] * 3, scores)[0], target, string_ids=True, label_names=["7", "8"]))


def test_columns_are_never_names(tmp_path):
    """Where a label id is a column, string_ids=True has no meaning and is refused."""
    np.save(tmp_path / "p.npy", np.zeros((2, 3)))
    np.save(tmp_path / "y.npy", [0, 1])
    with pytest.raises(DataFileError, match=r"p\.npy: numbers its labels itself, so that they cannot be names"):
        read(tmp_path / "p.npy", tmp_path / "y.npy", string_ids=True)


def test_ids_near_the_end_of_64_bits(tmp_path, rows_of):
    """Ids up to 2^63 - 1 are compared within their rows without overflow, in checks and in filters."""
    big = 2**63 - 1
    lists = [[big, big - 1], [big], *[[big - 1, 5, big - row] for row in range(2, 40)]]
    pq.write_table(pa.table({"ids": pa.array(lists, pa.list_(pa.int64()))}), tmp_path / "p.parquet")
    pq.write_table(pa.table({"labels": pa.array([[big]] * 40, pa.list_(pa.int64()))}), tmp_path / "y.parquet")
    (tmp_path / "f.txt").write_text(f"0 {big}\n39 5\n")
    found = rows_of(read(tmp_path / "p.parquet", tmp_path / "y.parquet", filter=tmp_path / "f.txt"))
    expected = [
        [label for label in row if (number, label) not in {(0, big), (39, 5)}] for number, row in enumerate(lists)
    ]
    assert [found[row][0] for row in range(40)] == expected
    assert found[0][1] == []
    assert found[1][1] == [big]
    lists[20] = [big - 1, 5, big - 1, 4, 3, 2]
    pq.write_table(pa.table({"ids": pa.array(lists, pa.list_(pa.int64()))}), tmp_path / "p.parquet")
    with pytest.raises(DataFileError, match=rf"row 20: holds the label {big - 1} twice"):
        list(read(tmp_path / "p.parquet", tmp_path / "y.parquet"))
    np.save(tmp_path / "p.npy", np.array([[2**63]], np.uint64))
    np.save(tmp_path / "y.npy", [0])
    with pytest.raises(DataFileError, match=rf"row 0: holds the label id {2**63}"):
        list(read(tmp_path / "p.npy", tmp_path / "y.npy"))
