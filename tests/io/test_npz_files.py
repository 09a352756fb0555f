"""scipy CSR files."""

import gc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from tailmetrics.io import DataFileError, read, read_target

SCORES = [{0: 0.5, 3: 0.25}, {}, {4: -1.0}, {1: 0.0, 2: 2.0, 0: 1.0}]
GAINS = [{3: 1.0}, {0: 2.0}, {}, {1: 1.0, 4: 0.0}]


def csr(rows, num_labels=5, dtype=np.float32):
    indptr = np.cumsum([0, *map(len, rows)])
    indices = [label for row in rows for label in row]
    data = np.array([value for row in rows for value in row.values()], dtype)
    return sp.csr_matrix((data, indices, indptr), shape=(len(rows), num_labels))


@pytest.fixture
def paths(tmp_path):
    sp.save_npz(tmp_path / "preds.npz", csr(SCORES))
    sp.save_npz(tmp_path / "target.npz", csr(GAINS))
    return tmp_path / "preds.npz", tmp_path / "target.npz"


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 10])
def test_every_stored_entry_is_read(paths, rows_of, batch_rows):
    """Every stored entry of a CSR matrix is read with its row, in batches of any size;
    rows may be empty, columns unsorted and stored values zero.
    """
    dataset = read(*paths, batch_rows=batch_rows)
    assert rows_of(dataset) == dict(enumerate(zip(SCORES, GAINS, strict=True)))
    assert (
        dataset.num_rows,
        dataset.num_labels,
        dataset.label_names,
        dataset.row_names,
    ) == (4, 5, None, None)


def test_sparse_arrays_and_bool_and_int_gains_are_read(tmp_path, targets_of):
    """Sparse arrays of scipy are read like sparse matrices, and values of bool or int
    are gains.
    """
    for dtype in (bool, np.int8):
        sp.save_npz(
            tmp_path / "y.npz", sp.csr_array(csr([{1: 1}, {0: 1}], dtype=dtype))
        )
        assert targets_of(read_target(tmp_path / "y.npz")) == {0: {1: 1}, 1: {0: 1}}


def test_very_uneven_rows_stay_sparse(tmp_path, rows_of):
    """A batch with one long row among short ones is CSR, so that the short rows are not
    padded.
    """
    rows = [{label: float(label) for label in range(400)}, *[{7: 1.0}] * 40]
    sp.save_npz(tmp_path / "preds.npz", csr(rows, 1000))
    sp.save_npz(tmp_path / "target.npz", csr([{7: 1.0}] * 41, 1000))
    dataset = read(tmp_path / "preds.npz", tmp_path / "target.npz")
    (batch,) = dataset
    assert batch.preds.shape == (41, 1000)
    assert rows_of(dataset) == {
        row: (preds, {7: 1.0}) for row, preds in enumerate(rows)
    }


def test_other_layouts_are_refused(tmp_path, paths):
    """A CSC matrix and an archive of plain arrays are refused with a hint."""
    sp.save_npz(tmp_path / "csc.npz", csr(SCORES).tocsc())
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
    for name, problem in (
        ("csc", "format csc, not csr"),
        ("arrays", "holds the arrays .*, and no matrix of scipy"),
    ):
        with pytest.raises(DataFileError, match=problem) as caught:
            read(tmp_path / f"{name}.npz", paths[1])
        assert caught.value.hint


@pytest.mark.slow
def test_a_damaged_file_is_refused_and_closed(tmp_path, paths):
    """A file that is cut short is refused, and no handle of it stays open."""
    (tmp_path / "cut.npz").write_bytes(paths[0].read_bytes()[:-30])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(DataFileError, match=r"cut\.npz: cannot be read as npz"):
            read(tmp_path / "cut.npz", paths[1])
        gc.collect()
    assert not [warning for warning in warned if warning.category is ResourceWarning]


def test_inconsistent_arrays_are_refused(tmp_path, paths):
    """Row boundaries that do not fit the shape or the entries, and complex values are
    refused.
    """
    matrix = csr(SCORES)
    parts = {
        "data": matrix.data,
        "indices": matrix.indices,
        "shape": [4, 5],
        "format": b"csr",
    }
    np.savez(tmp_path / "a.npz", indptr=[0, 2, 2], **parts)
    np.savez(tmp_path / "b.npz", indptr=[0, 2, 1, 3, 6], **parts)
    np.savez(tmp_path / "c.npz", indptr=[0, 2, 2, 3, 7], **parts)
    np.savez(
        tmp_path / "d.npz", indptr=matrix.indptr, **(parts | {"data": matrix.data * 1j})
    )
    for name, problem in (("a", "cannot be read"), ("b", "describe 4 rows"), ("c", "cannot be read"),
                          ("d", "holds torch.complex64")):  # fmt: skip
        with pytest.raises(DataFileError, match=problem):
            list(read(tmp_path / f"{name}.npz", paths[1]))


def test_errors_in_values_name_the_row(tmp_path, paths):
    """A column out of range, a repeated column, a NaN score and a negative gain raise
    an error that names the row.
    """
    matrix = csr(SCORES)
    matrix.indices[2] = 5
    repeated = csr(SCORES)
    repeated.indices[3:] = [1, 2, 1]
    nan = csr(SCORES)
    nan.data[2] = np.nan
    for wrong, problem in ((matrix, "row 2: holds the label id 5"), (repeated, "row 3: holds the label 1 twice"),
                           (nan, "row 2: holds the score nan")):  # fmt: skip
        np.savez(tmp_path / "p.npz", data=wrong.data, indices=wrong.indices, indptr=wrong.indptr, shape=wrong.shape,
                 format=b"csr")  # fmt: skip
        with pytest.raises(DataFileError, match=problem):
            list(read(tmp_path / "p.npz", paths[1], batch_rows=2))
    sp.save_npz(tmp_path / "y.npz", csr([{3: 1.0}, {0: -2.0}, {}, {}]))
    with pytest.raises(DataFileError, match=r"y\.npz, row 1: holds the gain -2"):
        list(read(paths[0], tmp_path / "y.npz"))


def test_a_repeated_entry_of_a_matrix_is_no_padding_of_ids(tmp_path, paths):
    """The hint on an entry of column 0 that stands twice speaks of repeated labels, not
    of whole numbers as ids.
    """
    sp.save_npz(
        tmp_path / "p.npz",
        sp.csr_matrix(([1.0, 2.0, 3.0], [0, 0, 1], [0, 2, 3, 3, 3]), shape=(4, 5)),
    )
    with pytest.raises(
        DataFileError, match="row 0: holds the label 0 twice; duplicates='first'"
    ):
        list(read(tmp_path / "p.npz", paths[1]))
