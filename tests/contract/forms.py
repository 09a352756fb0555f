"""The same rows in every form that ``update`` accepts, for laws that hold for every
form.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

import tailmetrics
from cases import Data, padded_ids

Feed: TypeAlias = tuple[Any, ...]
"""Arguments of ``update``: preds and target, or a ranking."""


def scores_in_another_layout(scores: Tensor) -> Tensor:
    """Return the same numbers, column by column in memory."""
    return scores.t().contiguous().t()


def candidates(batch: Data, seed: int = 3) -> tuple[Tensor, Tensor]:
    """Return the retrieved labels of each row with their scores, shuffled, with -1 in
    between.
    """
    ids = batch.ids
    scores = torch.where(ids >= 0, batch.scores.gather(1, ids.clamp(min=0)), 0.5)
    order = torch.rand(
        ids.shape, generator=torch.Generator().manual_seed(seed)
    ).argsort(dim=1)
    return scores.gather(1, order), ids.gather(1, order)


def csr_scores(batch: Data, seed: int = 4) -> Tensor:
    """Return the retrieved labels of each row as CSR, with columns in no order and
    scores of 0 stored.
    """
    scores, ids = candidates(batch, seed)
    stored = ids >= 0
    crow = torch.cat([torch.zeros(1, dtype=torch.int64), stored.sum(dim=1).cumsum(0)])
    return torch.sparse_csr_tensor(
        crow,
        ids[stored],
        scores[stored],
        size=batch.scores.shape,
        check_invariants=False,
    )


def csr_target(target: Tensor, seed: int = 5) -> Tensor:
    """Return a dense target as CSR, with columns in no order and explicit zeros."""
    generator = torch.Generator().manual_seed(seed)
    stored = (target > 0) | (torch.rand(target.shape, generator=generator) < 0.1)
    order = torch.rand(target.shape, generator=generator).argsort(dim=1)
    shuffled = stored.gather(1, order)
    crow = torch.cat([torch.zeros(1, dtype=torch.int64), stored.sum(dim=1).cumsum(0)])
    values = target.double().gather(1, order)[shuffled]
    return torch.sparse_csr_tensor(
        crow, order[shuffled], values, size=target.shape, check_invariants=False
    )


def scipy_csr(matrix: Tensor) -> scipy.sparse.csr_matrix:
    """Return a copy of a torch CSR matrix as a scipy matrix."""
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    return scipy.sparse.csr_matrix(
        tuple(part.clone().numpy() for part in parts), shape=tuple(matrix.shape)
    )


def padded_gains(target: Tensor) -> tuple[Tensor, Tensor]:
    """Return label ids and their gains, padded; the gains of the padding are
    arbitrary.
    """
    ids = padded_ids(target)
    gains = (
        target.double().gather(1, ids.clamp(min=0)) if ids.shape[1] else ids.double()
    )
    return ids, torch.where(ids >= 0, gains, 7.0)


def read_only(scores: Tensor) -> np.ndarray:
    """Return the scores as a read-only array."""
    array = scores.numpy().copy()
    array.flags.writeable = False
    return array


SCORE_FORMS: dict[str, Callable[[Data], Any]] = {
    "float64": lambda batch: batch.scores.double(),
    "column by column": lambda batch: scores_in_another_layout(batch.scores),
    "requires grad": lambda batch: batch.scores.clone().requires_grad_(),
    "float16": lambda batch: batch.scores.half(),
    "bfloat16": lambda batch: batch.scores.bfloat16(),
    "a view that is negated": lambda batch: (
        torch.complex(batch.scores, -batch.scores).conj().imag
    ),
    "numpy, read only": lambda batch: read_only(batch.scores),
}
"""Scores of quarters up to 4 in size, which all of these hold exactly."""

LIST_FORMS: dict[str, Callable[[Data], Any]] = {
    "candidates": candidates,
    "candidates, differently shuffled": lambda batch: list(candidates(batch, seed=9)),
    "CSR": csr_scores,
    "scipy CSR": lambda batch: scipy_csr(csr_scores(batch)),
    "ids": lambda batch: batch.ids,
    "int32 ids": lambda batch: batch.ids.int(),
    "int8 ids": lambda batch: batch.ids.to(torch.int8),
    "strided ids": lambda batch: batch.ids.repeat_interleave(2, dim=1)[:, ::2],
}

TARGET_FORMS: dict[str, Callable[[Tensor], Any]] = {
    "float": lambda target: target.float(),
    "float64, column by column": lambda target: scores_in_another_layout(
        target.double()
    ),
    "bfloat16": lambda target: target.bfloat16(),
    "CSR": csr_target,
    "scipy CSR": lambda target: scipy_csr(csr_target(target, seed=6)),
    "requires grad": lambda target: target.float().clone().requires_grad_(),
    "numpy": lambda target: target.numpy(),
}
"""Targets of one column per label, multi-hot or gains of halves."""

INTEGER_FORMS: dict[str, Callable[[Tensor], Any]] = {
    "integer multi-hot": lambda target: target.int(),
    "uint8 multi-hot": lambda target: target.to(torch.uint8),
}
"""Multi-hot beside dense scores of the same shape; beside lists they would be ids."""

MULTI_HOT_FORMS: dict[str, Callable[[Tensor], Any]] = {
    "expanded": lambda target: target[:, :, None].expand(-1, -1, 2)[:, :, 1],
    "odd offset in memory": lambda target: torch.cat(
        [target.new_zeros(3), target.flatten()]
    )[3:].view(target.shape),
    "padded ids": padded_ids,
    "int16 ids": lambda target: padded_ids(target).short(),
    "padded ids, pads first": lambda target: padded_ids(target).flip(1),
}


def explicit_forms(batch: Data) -> dict[str, dict[str, tailmetrics.Ranking]]:
    """Return rankings made by the explicit methods of Ranking, by what they are made
    from.
    """
    ids, gains = padded_gains(batch.target)
    from_scores, from_ids = (
        tailmetrics.Ranking.from_scores,
        tailmetrics.Ranking.from_ids,
    )
    size = batch.scores.shape[1]
    return {
        "dense": {
            "scores, gains": from_scores(
                batch.scores, target_gains=batch.target.float()
            ),
            "scores, ids and gains": from_scores(
                batch.scores, target_ids=ids, target_gains=gains
            ),
        },
        "scored": {
            "candidates, CSR gains": from_scores(
                candidates(batch), target_gains=csr_target(batch.target)
            )
        },
        "ids": {
            "ids, gains": from_ids(
                batch.ids, target_gains=batch.target.double(), num_labels=size
            ),
            "ids, ids and gains": from_ids(
                batch.ids, target_ids=ids, target_gains=gains, num_labels=size
            ),
        },
    }
