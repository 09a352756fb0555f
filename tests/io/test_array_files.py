"""NumPy and torch files."""

import numpy as np
import pytest
import torch

from tailmetrics import AccuracyAtK
from tailmetrics.io import DataFileError, read, read_target

SCORES = np.array([[0.5, -np.inf, 0.0], [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.0, 0.0, 0.0]], np.float32)
IDS = np.array([[2, 0, -1], [1, -1, -1], [-1, -1, -1], [0, 1, 2]])
CLASSES = np.array([2, -1, 0, 1])


def save(path, array):
    if path.suffix == ".npy":
        np.save(path, array)
    else:
        torch.save(torch.from_numpy(array), path)
    return path


@pytest.fixture(params=[".npy", ".pt"])
def suffix(request):
    return request.param


@pytest.mark.parametrize("batch_rows", [1, 3, 4])
def test_scores_ids_and_targets_come_back(tmp_path, suffix, rows_of, batch_rows):
    """Dense scores, ranked ids, class indices, padded ids, multi-hot and gains come back as they were saved."""
    preds = save(tmp_path / f"scores{suffix}", SCORES), save(tmp_path / f"ids{suffix}", IDS)
    target = save(tmp_path / f"classes{suffix}", CLASSES), save(tmp_path / f"gains{suffix}", SCORES.clip(min=0))
    plain = rows_of(read(preds[0], target[1], batch_rows=batch_rows))
    scores = [dict(enumerate(row)) for row in SCORES.tolist()]
    gains = [dict(enumerate(row)) for row in SCORES.clip(min=0).tolist()]
    assert plain == dict(enumerate(zip(scores, gains, strict=True)))
    plain = rows_of(read(preds[1], target[0], batch_rows=batch_rows))
    assert plain == {0: ([2, 0], [2]), 1: ([1], []), 2: ([], [0]), 3: ([0, 1, 2], [1])}


def test_bool_targets_and_number_types(tmp_path, suffix, targets_of):
    """Multi-hot bool, unsigned and half-precision arrays, big-endian and Fortran order read as what they hold."""
    assert targets_of(read_target(save(tmp_path / f"a{suffix}", SCORES > 0)))[1] == {0: True, 1: True, 2: True}
    assert targets_of(read_target(save(tmp_path / f"b{suffix}", IDS.clip(min=0)[:, :1].astype(np.uint8))))[0] == [2]
    half = targets_of(read_target(save(tmp_path / f"c{suffix}", np.float16([[0.5, 2]]))))
    assert half == {0: {0: 0.5, 1: 2.0}}
    np.save(tmp_path / "d.npy", np.asfortranarray(IDS.astype(">i4")))
    assert targets_of(read_target(tmp_path / "d.npy", batch_rows=3)) == {0: [0, 2], 1: [1], 2: [], 3: [0, 1, 2]}


def test_torch_only_forms(tmp_path, rows_of):
    """A pair (scores, ids), a CSR tensor, bfloat16 and the old file format are read, too."""
    scores, ids = torch.tensor([[0.5, 0.25], [1.0, 0.0]]), torch.tensor([[3, 1], [2, -1]])
    torch.save((scores, ids), tmp_path / "pair.pt")
    torch.save(torch.eye(4, dtype=torch.bfloat16)[:2], tmp_path / "gains.pt", _use_new_zipfile_serialization=False)
    rows = rows_of(read(tmp_path / "pair.pt", tmp_path / "gains.pt", num_labels=4, batch_rows=1))
    one_hot = [dict.fromkeys(range(4), 0.0) | {row: 1.0} for row in range(2)]
    assert rows == {0: ({3: 0.5, 1: 0.25}, one_hot[0]), 1: ({2: 1.0}, one_hot[1])}
    torch.save(torch.eye(4)[[1, 3]].to_sparse_csr(), tmp_path / "csr.pt")
    rows = rows_of(read(tmp_path / "csr.pt", tmp_path / "gains.pt", batch_rows=1))
    assert rows == {0: ({1: 1.0}, one_hot[0]), 1: ({3: 1.0}, one_hot[1])}


def test_whole_numbers_as_wide_as_the_scores_are_multi_hot(tmp_path, rows_of):
    """Beside scores [N, L], whole numbers [N, L] are multi-hot, as for metric.update; narrower ones are ids."""
    scores = save(tmp_path / "scores.npy", SCORES)
    hot = save(tmp_path / "hot.npy", np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 2, 0]]))
    (batch,) = read(scores, hot)
    assert batch.target.tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 2, 0]]
    ids = save(tmp_path / "ids.npy", np.array([[0, 1], [2, -1], [-1, -1], [1, 2]]))
    assert rows_of(read(scores, ids))[3][1] == [1, 2]


def test_ids_never_look_like_multi_hot(tmp_path):
    """Padded ids that happen to be as wide as there are labels get a column of padding more."""
    (batch,) = read(save(tmp_path / "ids.npy", IDS), save(tmp_path / "ids2.npy", IDS), num_labels=3)
    assert batch.target.shape == (4, 4)
    with pytest.raises(DataFileError, match="row 0: holds the gain -1") as caught:
        list(read_target(tmp_path / "ids2.npy", num_labels=3))  # as LabelFrequency(3) would read it
    assert "one more column of -1" in caught.value.hint


@pytest.mark.parametrize("num_labels", [None, 2])
def test_whole_numbers_that_may_be_ids_or_a_matrix_are_refused(tmp_path, rows_of, num_labels):
    """Beside ids or pairs a multi-hot matrix of two labels reads as ids, too: all labels would be relevant everywhere."""
    hot = np.array([[0, 1], [1, 0], [0, 1], [0, 1]])
    pair = tmp_path / "pair.pt"
    torch.save((torch.tensor([[0.5, 0.25]] * 4), torch.tensor([[1, 0]] * 4)), pair)
    for preds in (pair, save(tmp_path / "p.npy", 1 - hot)):
        with pytest.raises(
            DataFileError, match=r"y\.npy: holds whole numbers that may be label ids or a matrix"
        ) as caught:
            read(preds, save(tmp_path / "y.npy", hot), num_labels=num_labels)
        assert "as bool or float" in caught.value.hint
    assert rows_of(read(pair, save(tmp_path / "y.npy", hot == 1)))[0][1] == {0: False, 1: True}
    padded = save(tmp_path / "ids.npy", np.array([[0, 1], [1, -1], [-1, -1], [0, -1]]))
    assert [row[1] for row in rows_of(read(pair, padded, num_labels=num_labels)).values()] == [[0, 1], [1], [], [0]]
    assert rows_of(read(pair, tmp_path / "y.npy", num_labels=2))[0][1] == {0: False, 1: True}
    (tmp_path / "parts").mkdir()
    save(tmp_path / "parts" / "0.npy", hot[:3]), save(tmp_path / "parts" / "1.npy", np.array([[0, -1]]))
    assert rows_of(read(pair, tmp_path / "parts", num_labels=num_labels))[3][1] == [0]


def test_wide_rows_come_in_small_batches(tmp_path):
    """A batch holds at most 2^24 numbers: rows of 2^22 scores come four at a time."""
    scores = np.lib.format.open_memmap(tmp_path / "p.npy", "w+", np.float16, (9, 2**22))
    scores.flush()
    target = save(tmp_path / "y.npy", np.zeros(9, np.int64))
    assert [len(batch.rows) for batch in read(tmp_path / "p.npy", target)] == [4, 4, 1]


@pytest.mark.parametrize(
    ("preds", "problem"),
    [
        (np.zeros(4, np.int64), "int64 \\[4\\], which cannot be predictions"),
        (np.zeros((4, 3), bool), "bool \\[4, 3\\], which cannot be predictions.*Decisions can be floats, 0 and 1"),
        (np.zeros((4, 3), complex), "complex128 \\[4, 3\\]"),
        (np.array([[0, 1], [0, 1], [-1, 1], [0, 1]]), "row 2: holds -1 before a label id"),
        (np.array([[0, 1], [0, 1], [0, 1], [2, 2]]), "row 3: holds the label 2 twice"),
        (np.array([[0, 1], [0, 3], [0, 1], [0, 2]]), "row 1: holds the label id 3, but there are 3 labels"),
        (np.array([[0, 1], [0, -2], [0, 1], [0, 2]]), "row 1: holds the label id -2"),
        (np.array([[0, 1.0, 2], [0, 1, 2], [0, np.nan, 1], [0, 1, 1]]), "row 2: holds the score nan"),
        (np.zeros((0, 3)), "holds no rows"),
    ],
)
def test_wrong_predictions_name_file_and_row(tmp_path, suffix, preds, problem):
    """Other shapes or types, gaps, repeated and unknown ids and NaN are errors naming the file, and the row."""
    target = save(tmp_path / "y.npy", CLASSES)
    with pytest.raises(DataFileError, match=rf"p\{suffix}.*{problem}") as caught:
        list(read(save(tmp_path / f"p{suffix}", preds), target, num_labels=3, batch_rows=3))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (np.array([[0.0, 1, 2], [0, -1, 2], [0, 0, 1], [0, 1, 1]]), "row 1: holds the gain -1"),
        (np.array([[0.0, 1, 2], [0, 1, 2], [0, 0, 1], [0, 1, np.inf]]), "row 3: holds the gain inf"),
        (np.array([[0.0, 1, 2], [0, 1, 2], [0, 0, np.nan], [0, 1, 1]]), "row 2: holds the gain nan"),
        (np.array([[0.0, 1, 2], [0, 1e31, 2], [0, 0, 1], [0, 1, 1]]), "row 1: holds the gain 1e\\+31"),
        (np.array([[0.0, 1, 2], [0, 1, 2], [0, 1e-31, 1], [0, 1, 1]]), "row 2: holds the gain 1e-31"),
        (np.zeros(4), "float64 \\[4\\], which cannot be targets"),
        (np.array([0, 1, 2, 5]), "row 3: holds the label id 5"),
        (np.array([0, 1, 2]), "holds 3 rows, but .*p.npy holds 4"),
        (np.zeros((4, 2)), "target has 2 columns, but preds has 3"),
    ],
)
def test_wrong_targets_name_file_and_row(tmp_path, suffix, target, problem):
    """Negative, infinite and NaN gains, gains that no state adds up exactly, unknown ids and other numbers of rows or labels are errors."""
    with pytest.raises(DataFileError, match=rf"y\{suffix}.*{problem}"):
        list(read(save(tmp_path / "p.npy", SCORES), save(tmp_path / f"y{suffix}", target), batch_rows=3))


def test_damaged_and_foreign_files(tmp_path, suffix):
    """Files cut short, of other content, with objects inside, absent, empty, or a folder of unlike files are errors naming the file."""
    good = save(tmp_path / f"good{suffix}", SCORES)
    wrong = tmp_path / f"wrong{suffix}"
    contents = [good.read_bytes()[:-8], b"not an array at all"]
    for content in contents:
        wrong.write_bytes(content)
        with pytest.raises(DataFileError, match=rf"wrong\{suffix}: cannot be read as") as caught:
            list(read(wrong, good))
        assert "unsafely" not in str(caught.value)
    np.save(tmp_path / "objects.npy", np.array([{}, []], object), allow_pickle=True)
    torch.save({"scores": torch.zeros(2)}, tmp_path / "dict.pt")
    torch.save((torch.zeros(4, 2), torch.zeros(4, 2), torch.zeros(4, 2)), tmp_path / "three.pt")
    for name in ("objects.npy", "dict.pt", "three.pt"):
        with pytest.raises(DataFileError, match=name):
            read(tmp_path / name, good)
    for batches in ([], [torch.zeros(4, 2)], [torch.zeros(4, 2)] * 3):
        torch.save(batches, tmp_path / "batches.pt")
        with pytest.raises(DataFileError, match=rf"holds a sequence of {len(batches)}.*\n?.*torch.cat\(batches\)"):
            read(tmp_path / "batches.pt", good)
    with pytest.raises(DataFileError, match="there is no such file"):
        read(tmp_path / "absent.npy", good)
    with pytest.raises(DataFileError, match=r"is pt, but .* is npy|is npy, but .* is pt"):
        read(tmp_path, good)
    wrong.write_bytes(b"")
    with pytest.raises(DataFileError, match="is empty"):
        read(good, wrong)


def test_labels_with_the_ignore_index_of_metrics(tmp_path, suffix):
    """Of targets [N] the rows that hold ignore_index are left out, as if they were not in the files; -1 is a miss."""
    labels = np.array([2, -100, 0, -1])
    found, kept = AccuracyAtK(k=1, ignore_index=-100), AccuracyAtK(k=1)
    for batch in read(save(tmp_path / f"p{suffix}", SCORES), save(tmp_path / f"y{suffix}", labels), batch_rows=3):
        found.update(batch.preds, batch.target)
    kept.update(torch.from_numpy(SCORES[[0, 2, 3]]), torch.tensor([2, 0, -1]))
    assert found.compute() == kept.compute() == torch.tensor(1 / 3, dtype=torch.float64)
    with pytest.raises(DataFileError, match="row 1: holds the label id -100") as caught:
        list(read_target(tmp_path / f"y{suffix}"))
    assert "an array holds -1" in caught.value.hint


@pytest.mark.parametrize("batch_rows", [1, 4, 6])
def test_sequences_are_rows(tmp_path, suffix, batch_rows):
    """Scores (B, T, L) with labels (B, T) are B x T rows, in any batches and on any rank."""
    scores = np.random.default_rng(0).random((2, 3, 4), np.float32)
    labels = np.array([[3, -100, 0], [1, 2, -100]])
    paths = save(tmp_path / f"p{suffix}", scores), save(tmp_path / f"y{suffix}", labels)
    shares = [read(*paths, batch_rows=batch_rows, rank=rank, world_size=2) for rank in (0, 1)]
    batches = [batch for share in shares for batch in share]
    assert torch.equal(torch.cat([batch.preds for batch in batches]), torch.from_numpy(scores).reshape(6, 4))
    assert torch.cat([batch.target for batch in batches]).tolist() == labels.reshape(-1).tolist()
    assert (shares[0].num_rows, shares[0].num_labels) == (6, 4)


def test_a_multi_hot_matrix_of_integers_by_itself(tmp_path):
    """Without scores beside it whole numbers are label ids; 0 and 1 in them bring the hint on multi-hot matrices."""
    np.save(tmp_path / "y.npy", np.array([[0, 0, 1], [1, 0, 0]], dtype=np.uint8))
    with pytest.raises(DataFileError, match="row 0: holds the label 0 twice") as caught:
        [*read_target(tmp_path / "y.npy")]
    assert caught.value.hint.endswith("if 0 and 1 are a multi-hot matrix, save it as bool.")
    np.save(tmp_path / "y.npy", np.array([[2, 0, 2], [1, 0, 0]], dtype=np.uint8))
    with pytest.raises(DataFileError, match="row 0: holds the label 2 twice") as caught:
        [*read_target(tmp_path / "y.npy")]
    assert "duplicates='first' counts it once" in caught.value.hint


@pytest.mark.parametrize(("columns", "values"), [(10, 64 * 10), (2**17, 2**20), (2**21, 2**21)])
def test_the_scale_of_wide_rows_is_read_from_few(tmp_path, columns, values):
    """64 rows, or of wide ones as many as hold 2^20 scores, but one at least."""
    np.lib.format.open_memmap(tmp_path / "p.npy", "w+", np.float32, (70, columns))
    np.save(tmp_path / "y.npy", np.arange(70) % 10)
    assert read(tmp_path / "p.npy", tmp_path / "y.npy").preds.first_values().shape == (values,)
