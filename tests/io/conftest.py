"""Batches as plain Python rows, so that expected values can be written down."""

import pytest
import torch


def _csr_row(matrix, row):
    start, stop = matrix.crow_indices()[row : row + 2].tolist()
    return dict(
        zip(
            matrix.col_indices()[start:stop].tolist(),
            matrix.values()[start:stop].tolist(),
            strict=True,
        )
    )


def _dense_row(row):
    return dict(enumerate(row.tolist()))


def _preds_row(preds, row):
    """Return ranked ids as a list, and scores as a dict from label to score."""
    if isinstance(preds, tuple):
        scores, ids = (part[row].tolist() for part in preds)
        return {
            label: score for label, score in zip(ids, scores, strict=True) if label >= 0
        }
    if preds.layout == torch.sparse_csr:
        return _csr_row(preds, row)
    if preds.is_floating_point():
        return _dense_row(preds[row])
    return [label for label in preds[row].tolist() if label >= 0]


def _target_row(target, row):
    """Return label ids as a sorted list, gains as a dict from label to gain, and dense
    values as they are.
    """
    if target.layout == torch.sparse_csr:
        return _csr_row(target, row)
    if target.is_floating_point() or target.dtype == torch.bool:
        return _dense_row(target[row])
    return sorted(label for label in target[row].reshape(-1).tolist() if label >= 0)


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a text file and returns its path."""

    def write(name, text):
        (tmp_path / name).write_bytes(text.encode())
        return tmp_path / name

    return write


@pytest.fixture
def rows_of():
    """Return a function from a dataset to {row number: (preds, target)}; a row that
    comes twice is an error.
    """

    def rows_of(dataset):
        rows = {}
        for preds, target, numbers in dataset:
            for index, row in enumerate(numbers.tolist()):
                assert row not in rows
                rows[row] = (_preds_row(preds, index), _target_row(target, index))
        return rows

    return rows_of


@pytest.fixture
def targets_of():
    """Return a function from a target dataset to {row number: target}."""

    def targets_of(dataset):
        return {
            row: _target_row(target, index)
            for target, rows in dataset
            for index, row in enumerate(rows.tolist())
        }

    return targets_of
