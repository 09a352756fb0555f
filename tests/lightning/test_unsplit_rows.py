"""Processes that rank the same rows have the same checksum of rows, whatever the order
of the rows.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tailmetrics import rank
from tailmetrics.lightning.split_rows import UnsplitCheck

ROWS = 12
SCORES = torch.rand(ROWS, 7, generator=torch.Generator().manual_seed(0))
TARGET = torch.arange(ROWS) % 4
FORMS: dict[str, Callable[[Tensor, Tensor], tuple[Any, Tensor]]] = {
    "scores": lambda scores, target: (scores, target),
    "ids": lambda scores, target: (scores.argsort(dim=1), target),
    "candidates": lambda scores, target: (
        (scores[:, :3], torch.arange(3).expand(len(scores), 3)),
        target,
    ),
    "CSR": lambda scores, target: (scores.to_sparse_csr(), target),
    "multi-hot": lambda scores, target: (
        scores,
        torch.nn.functional.one_hot(target, 7).bool(),
    ),
    "tokens": lambda scores, target: (scores.unflatten(0, (-1, 1)), target[:, None]),
}


def checksum(
    form: str, rows: Tensor, batch_size: int, depth: int, mask: Tensor | None = None
) -> int:
    """Return the checksum of rows in batches, as a loader of random order yields
    them.
    """
    check = UnsplitCheck(DataLoader(range(1), shuffle=True), 2)  # type: ignore[arg-type]
    for batch in rows.split(batch_size):
        preds, target = FORMS[form](SCORES[batch], TARGET[batch])
        check.read_batch(
            rank(
                preds,
                target,
                depth=depth,
                row_mask=None if mask is None else mask[batch],
            )
        )
    assert check.number is not None
    return int(check.number)


@pytest.mark.filterwarnings("ignore:.*CSR")
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_the_checksum_depends_on_the_rows_alone(form: str, depth: int) -> None:
    """The checksum is the same for any order and any batches, and differs for other
    rows; masked rows count as absent.
    """
    rows = torch.arange(ROWS)
    all_rows = checksum(form, rows, 5, depth)
    assert checksum(form, rows.flip(0), 4, depth) == all_rows
    assert checksum(form, rows[1:], 5, depth) != all_rows
    assert checksum(form, rows, 5, depth, mask=rows > 0) == checksum(
        form, rows[1:], 4, depth
    )


def test_the_checksum_depends_on_which_list_has_which_target() -> None:
    """Two rows that swap their targets have another checksum, though the lists and the
    targets are the same.
    """
    lists, target = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 1])
    checksums = []
    for labels in (target, target.flip(0)):
        check = UnsplitCheck(None, 2)
        check.read_batch(rank(lists, labels, depth=2))
        checksums.append(int(check.number))  # type: ignore[arg-type]
    assert checksums[0] != checksums[1]
