"""NumPy and torch files of scores, ids and targets."""

import numpy as np
import pytest
import torch

from tailmetrics import AccuracyAtK
from tailmetrics.io import DataFileError, read, read_target

SCORES = np.array(
    [[0.5, -np.inf, 0.0], [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.0, 0.0, 0.0]],
    np.float32,
)
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
def test_arrays_are_read_as_saved(tmp_path, suffix, rows_of, batch_rows):
    """Dense scores, ranked ids, class indices, padded ids and gains are read as they
    were saved, in batches of any size.
    """
    preds = (
        save(tmp_path / f"scores{suffix}", SCORES),
        save(tmp_path / f"ids{suffix}", IDS),
    )
    target = (
        save(tmp_path / f"classes{suffix}", CLASSES),
        save(tmp_path / f"gains{suffix}", SCORES.clip(min=0)),
    )
    rows = rows_of(read(preds[0], target[1], batch_rows=batch_rows))
    scores = [dict(enumerate(row)) for row in SCORES.tolist()]
    gains = [dict(enumerate(row)) for row in SCORES.clip(min=0).tolist()]
    assert rows == dict(enumerate(zip(scores, gains, strict=True)))
    rows = rows_of(read(preds[1], target[0], batch_rows=batch_rows))
    assert rows == {0: ([2, 0], [2]), 1: ([1], []), 2: ([], [0]), 3: ([0, 1, 2], [1])}


def test_every_number_type_and_byte_order_is_read(tmp_path, suffix, targets_of):
    """Targets of bool, unsigned or half-precision numbers, of big-endian bytes and in
    Fortran order are read with the values that they hold.
    """
    assert targets_of(read_target(save(tmp_path / f"a{suffix}", SCORES > 0)))[1] == {
        0: True,
        1: True,
        2: True,
    }
    assert targets_of(
        read_target(
            save(tmp_path / f"b{suffix}", IDS.clip(min=0)[:, :1].astype(np.uint8))
        )
    )[0] == [2]
    half = targets_of(
        read_target(save(tmp_path / f"c{suffix}", np.float16([[0.5, 2]])))
    )
    assert half == {0: {0: 0.5, 1: 2.0}}
    np.save(tmp_path / "d.npy", np.asfortranarray(IDS.astype(">i4")))
    assert targets_of(read_target(tmp_path / "d.npy", batch_rows=3)) == {
        0: [0, 2],
        1: [1],
        2: [],
        3: [0, 1, 2],
    }


def test_torch_pairs_csr_and_bfloat16_are_read(tmp_path, rows_of):
    """A torch file may hold a pair (scores, ids), a CSR tensor or bfloat16, and may be
    of torch's old file format.
    """
    scores, ids = (
        torch.tensor([[0.5, 0.25], [1.0, 0.0]]),
        torch.tensor([[3, 1], [2, -1]]),
    )
    torch.save((scores, ids), tmp_path / "pair.pt")
    torch.save(
        torch.eye(4, dtype=torch.bfloat16)[:2],
        tmp_path / "gains.pt",
        _use_new_zipfile_serialization=False,
    )
    rows = rows_of(
        read(tmp_path / "pair.pt", tmp_path / "gains.pt", num_labels=4, batch_rows=1)
    )
    one_hot = [dict.fromkeys(range(4), 0.0) | {row: 1.0} for row in range(2)]
    assert rows == {0: ({3: 0.5, 1: 0.25}, one_hot[0]), 1: ({2: 1.0}, one_hot[1])}
    torch.save(torch.eye(4)[[1, 3]].to_sparse_csr(), tmp_path / "csr.pt")
    rows = rows_of(read(tmp_path / "csr.pt", tmp_path / "gains.pt", batch_rows=1))
    assert rows == {0: ({1: 1.0}, one_hot[0]), 1: ({3: 1.0}, one_hot[1])}


def test_tensors_with_a_gradient_are_read(tmp_path, rows_of):
    """Logits that were saved without ``detach()`` are read, alone and as the pair that
    ``torch.topk`` returns.
    """
    logits = torch.tensor([[0.5, 2.0], [1.0, 0.0]], requires_grad=True)
    torch.save(logits, tmp_path / "p.pt")
    torch.save(torch.topk(logits * 1, 2), tmp_path / "pair.pt")
    target = save(tmp_path / "y.npy", np.array([1, 0]))
    assert rows_of(read(tmp_path / "p.pt", target)) == {
        0: ({0: 0.5, 1: 2.0}, [1]),
        1: ({0: 1.0, 1: 0.0}, [0]),
    }
    pairs = rows_of(read(tmp_path / "pair.pt", target, num_labels=2))
    assert pairs == {0: ({0: 0.5, 1: 2.0}, [1]), 1: ({0: 1.0, 1: 0.0}, [0])}


def test_arrays_that_torch_lacks_are_refused(tmp_path):
    """Numbers of more than 64 bits and sparse tensors in the layout COO are refused,
    and the hint names what is read.
    """
    target = save(tmp_path / "y.npy", np.array([1, 0]))
    np.save(tmp_path / "p.npy", np.ones((2, 2), np.longdouble))
    with pytest.raises(
        DataFileError,
        match=r"holds float\d+ \[2, 2\], which cannot be predictions; .*at most 64 bits",
    ):
        list(read(tmp_path / "p.npy", target))
    torch.save(torch.eye(2).to_sparse(), tmp_path / "p.pt")
    with pytest.raises(
        DataFileError,
        match=r"in the layout torch\.sparse_coo.*tensor\.to_sparse_csr\(\)",
    ):
        list(read(tmp_path / "p.pt", target))


def test_whole_numbers_as_wide_as_the_scores_are_multi_hot(tmp_path, rows_of):
    """Beside scores [N, L], whole numbers [N, L] are multi-hot, as for metric.update;
    narrower ones are label ids.
    """
    scores = save(tmp_path / "scores.npy", SCORES)
    hot = save(
        tmp_path / "hot.npy", np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 2, 0]])
    )
    (batch,) = read(scores, hot)
    assert batch.target.tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 2, 0]]
    ids = save(tmp_path / "ids.npy", np.array([[0, 1], [2, -1], [-1, -1], [1, 2]]))
    assert rows_of(read(scores, ids))[3][1] == [1, 2]


def test_padded_ids_as_wide_as_the_labels_get_one_more_column(tmp_path):
    """Padded ids that have as many columns as there are labels get one more column of
    padding, so that no metric takes them for multi-hot. Without predictions beside them
    they are refused, and the hint asks for that column.
    """
    (batch,) = read(
        save(tmp_path / "ids.npy", IDS), save(tmp_path / "ids2.npy", IDS), num_labels=3
    )
    assert batch.target.shape == (4, 4)
    with pytest.raises(DataFileError, match="row 0: holds the gain -1") as caught:
        # LabelFrequency(3) would read these ids as multi-hot
        list(read_target(tmp_path / "ids2.npy", num_labels=3))
    assert "one more column of -1" in caught.value.hint


@pytest.mark.parametrize("num_labels", [None, 2])
def test_targets_that_may_be_ids_or_multi_hot_are_refused(
    tmp_path, rows_of, num_labels
):
    """Whole numbers 0 and 1 in two columns are refused beside ids or pairs, because
    they may be label ids or a multi-hot matrix. The same numbers as bool are multi-hot,
    and with -1 among them they are ids, also where only another part has -1.
    """
    hot = np.array([[0, 1], [1, 0], [0, 1], [0, 1]])
    pair = tmp_path / "pair.pt"
    torch.save((torch.tensor([[0.5, 0.25]] * 4), torch.tensor([[1, 0]] * 4)), pair)
    for preds in (pair, save(tmp_path / "p.npy", 1 - hot)):
        with pytest.raises(
            DataFileError,
            match=r"y\.npy: holds whole numbers that may be label ids or a matrix",
        ) as caught:
            read(preds, save(tmp_path / "y.npy", hot), num_labels=num_labels)
        assert "as bool or float" in caught.value.hint
    assert rows_of(read(pair, save(tmp_path / "y.npy", hot == 1)))[0][1] == {
        0: False,
        1: True,
    }
    padded = save(tmp_path / "ids.npy", np.array([[0, 1], [1, -1], [-1, -1], [0, -1]]))
    assert [
        row[1] for row in rows_of(read(pair, padded, num_labels=num_labels)).values()
    ] == [[0, 1], [1], [], [0]]
    assert rows_of(read(pair, tmp_path / "y.npy", num_labels=2))[0][1] == {
        0: False,
        1: True,
    }
    (tmp_path / "parts").mkdir()
    (
        save(tmp_path / "parts" / "0.npy", hot[:3]),
        save(tmp_path / "parts" / "1.npy", np.array([[0, -1]])),
    )
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
        (
            np.zeros((4, 3), bool),
            "bool \\[4, 3\\], which cannot be predictions.*decisions are floats 0 and 1",
        ),
        (np.zeros((4, 3), complex), "complex128 \\[4, 3\\]"),
        (
            np.array([[0, 1], [0, 1], [-1, 1], [0, 1]]),
            "row 2: holds -1 before a label id",
        ),
        (np.array([[0, 1], [0, 1], [0, 1], [2, 2]]), "row 3: holds the label 2 twice"),
        (
            np.array([[0, 1], [0, 3], [0, 1], [0, 2]]),
            "row 1: holds the label id 3, but there are 3 labels",
        ),
        (np.array([[0, 1], [0, -2], [0, 1], [0, 2]]), "row 1: holds the label id -2"),
        (
            np.array([[0, 1.0, 2], [0, 1, 2], [0, np.nan, 1], [0, 1, 1]]),
            "row 2: holds the score nan",
        ),
        (np.zeros((0, 3)), "holds no rows"),
    ],
)
def test_errors_in_predictions_name_file_and_row(tmp_path, suffix, preds, problem):
    """An array that cannot be predictions raises an error that names the file, and one
    with a gap, a repeated or unknown id or NaN an error that names the row as well.
    """
    target = save(tmp_path / "y.npy", CLASSES)
    with pytest.raises(DataFileError, match=rf"p\{suffix}.*{problem}") as caught:
        list(
            read(
                save(tmp_path / f"p{suffix}", preds), target, num_labels=3, batch_rows=3
            )
        )
    assert caught.value.hint


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (
            np.array([[0.0, 1, 2], [0, -1, 2], [0, 0, 1], [0, 1, 1]]),
            "row 1: holds the gain -1",
        ),
        (
            np.array([[0.0, 1, 2], [0, 1, 2], [0, 0, 1], [0, 1, np.inf]]),
            "row 3: holds the gain inf",
        ),
        (
            np.array([[0.0, 1, 2], [0, 1, 2], [0, 0, np.nan], [0, 1, 1]]),
            "row 2: holds the gain nan",
        ),
        (
            np.array([[0.0, 1, 2], [0, 1e31, 2], [0, 0, 1], [0, 1, 1]]),
            "row 1: holds the gain 1e\\+31",
        ),
        (
            np.array([[0.0, 1, 2], [0, 1, 2], [0, 1e-31, 1], [0, 1, 1]]),
            "row 2: holds the gain 1e-31",
        ),
        (np.zeros(4), "float64 \\[4\\], which cannot be targets"),
        (np.array([0, 1, 2, 5]), "row 3: holds the label id 5"),
        (np.array([0, 1, 2]), "holds 3 rows, but .*p.npy holds 4"),
        (np.zeros((4, 2)), "target has 2 columns, but preds has 3"),
    ],
)
def test_errors_in_targets_name_file_and_row(tmp_path, suffix, target, problem):
    """Gains that are negative, infinite, NaN, or too large or small to be added up
    exactly, and unknown ids raise an error that names file and row; other numbers of
    rows or columns than the predictions have raise one that names the file.
    """
    with pytest.raises(DataFileError, match=rf"y\{suffix}.*{problem}"):
        list(
            read(
                save(tmp_path / "p.npy", SCORES),
                save(tmp_path / f"y{suffix}", target),
                batch_rows=3,
            )
        )


def test_damaged_and_foreign_files_are_refused_by_name(tmp_path, suffix):
    """A file that is cut short, empty, absent or of other content, and a folder of
    unlike files raise an error that names the file. For a list of batches the error
    advises torch.cat.
    """
    good = save(tmp_path / f"good{suffix}", SCORES)
    wrong = tmp_path / f"wrong{suffix}"
    contents = [good.read_bytes()[:-8], b"not an array at all"]
    for content in contents:
        wrong.write_bytes(content)
        with pytest.raises(
            DataFileError, match=rf"wrong\{suffix}: cannot be read as"
        ) as caught:
            list(read(wrong, good))
        assert "unsafely" not in str(caught.value)
    np.save(tmp_path / "objects.npy", np.array([{}, []], object), allow_pickle=True)
    torch.save({"scores": torch.zeros(2)}, tmp_path / "dict.pt")
    torch.save(
        (torch.zeros(4, 2), torch.zeros(4, 2), torch.zeros(4, 2)), tmp_path / "three.pt"
    )
    for name in ("objects.npy", "dict.pt", "three.pt"):
        with pytest.raises(DataFileError, match=name):
            read(tmp_path / name, good)
    for batches in ([], [torch.zeros(4, 2)], [torch.zeros(4, 2)] * 3):
        torch.save(batches, tmp_path / "batches.pt")
        with pytest.raises(
            DataFileError,
            match=rf"holds a sequence of {len(batches)}.*\n?.*torch.cat\(batches\)",
        ):
            read(tmp_path / "batches.pt", good)
    with pytest.raises(DataFileError, match="there is no such file"):
        read(tmp_path / "absent.npy", good)
    with pytest.raises(
        DataFileError, match=r"is pt, but .* is npy|is npy, but .* is pt"
    ):
        read(tmp_path, good)
    wrong.write_bytes(b"")
    with pytest.raises(DataFileError, match="is empty"):
        read(good, wrong)


def test_a_metric_ignores_rows_of_a_file_with_its_ignore_index(tmp_path, suffix):
    """A metric leaves out rows whose label in a file of targets [N] is its
    ignore_index, as if the file lacked them; a label of -1 is a miss, so that 1 of 3
    rows is a hit. Read alone, a file with such a label is refused, because padding is
    -1.
    """
    labels = np.array([2, -100, 0, -1])
    metric, expected = AccuracyAtK(k=1, ignore_index=-100), AccuracyAtK(k=1)
    for batch in read(
        save(tmp_path / f"p{suffix}", SCORES),
        save(tmp_path / f"y{suffix}", labels),
        batch_rows=3,
    ):
        metric.update(batch.preds, batch.target)
    expected.update(torch.from_numpy(SCORES[[0, 2, 3]]), torch.tensor([2, 0, -1]))
    assert (
        metric.compute()
        == expected.compute()
        == torch.tensor(1 / 3, dtype=torch.float64)
    )
    with pytest.raises(DataFileError, match="row 1: holds the label id -100") as caught:
        list(read_target(tmp_path / f"y{suffix}"))
    assert "an array holds -1" in caught.value.hint


@pytest.mark.parametrize("batch_rows", [1, 4, 6])
def test_sequences_are_read_as_rows(tmp_path, suffix, batch_rows):
    """Scores (B, T, L) with labels (B, T) are read as B x T rows, in batches of any
    size and on each rank.
    """
    scores = np.random.default_rng(0).random((2, 3, 4), np.float32)
    labels = np.array([[3, -100, 0], [1, 2, -100]])
    paths = save(tmp_path / f"p{suffix}", scores), save(tmp_path / f"y{suffix}", labels)
    shares = [
        read(*paths, batch_rows=batch_rows, rank=rank, world_size=2) for rank in (0, 1)
    ]
    batches = [batch for share in shares for batch in share]
    assert torch.equal(
        torch.cat([batch.preds for batch in batches]),
        torch.from_numpy(scores).reshape(6, 4),
    )
    assert (
        torch.cat([batch.target for batch in batches]).tolist()
        == labels.reshape(-1).tolist()
    )
    assert (shares[0].num_rows, shares[0].num_labels) == (6, 4)


def test_integer_targets_alone_are_label_ids(tmp_path):
    """Integer targets that are read without predictions are label ids.

    Where a label comes twice they are refused, and the hint speaks of a multi-hot
    matrix only where all numbers are 0 or 1.
    """
    np.save(tmp_path / "y.npy", np.array([[0, 0, 1], [1, 0, 0]], dtype=np.uint8))
    with pytest.raises(DataFileError, match="row 0: holds the label 0 twice") as caught:
        [*read_target(tmp_path / "y.npy")]
    assert caught.value.hint.endswith(
        "if 0 and 1 are a multi-hot matrix, save it as bool."
    )
    np.save(tmp_path / "y.npy", np.array([[2, 0, 2], [1, 0, 0]], dtype=np.uint8))
    with pytest.raises(DataFileError, match="row 0: holds the label 2 twice") as caught:
        [*read_target(tmp_path / "y.npy")]
    assert "duplicates='first' counts it once" in caught.value.hint


@pytest.mark.parametrize(
    ("columns", "values"), [(10, 64 * 10), (2**17, 2**20), (2**21, 2**21)]
)
def test_first_values_are_of_few_rows_where_rows_are_wide(tmp_path, columns, values):
    """The first values, from which the scale of scores is guessed, are those of 64
    rows, or of as many as hold 2^20 scores, but at least of one.
    """
    np.lib.format.open_memmap(tmp_path / "p.npy", "w+", np.float32, (70, columns))
    np.save(tmp_path / "y.npy", np.arange(70) % 10)
    assert read(tmp_path / "p.npy", tmp_path / "y.npy").preds.first_values().shape == (
        values,
    )
