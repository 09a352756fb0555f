"""Random batches and the forms that ``update`` takes them in, drawn from a seed by Python's own generator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import scipy.sparse
import torch
from torch import Tensor

from wishes.reference import Line

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
PREDS = ("dense", "numpy", "candidates", "csr", "scipy", "ids")
SCORED = PREDS[:-1]
TARGETS = ("mask", "ids", "gains", "csr", "integers", "classes")


@dataclass(frozen=True)
class Batch:
    """Rows with their scores and gains; ``keep`` says which of them count (None: all)."""

    lines: list[Line]
    num_labels: int
    dtype: torch.dtype
    keep: list[bool] | None = None

    def counted(self) -> list[Line]:
        return [line for line, kept in zip(self.lines, self.keep or [True] * len(self.lines), strict=True) if kept]

    def split(self, cuts: list[int]) -> list[Batch]:
        """Consecutive parts, some of them possibly without a row."""
        edges = [0, *cuts, len(self.lines)]
        return [
            Batch(self.lines[a:b], self.num_labels, self.dtype, self.keep and self.keep[a:b])
            for a, b in pairwise(edges)
        ]


def draw_batch(rng: Random, num_labels: int, most_rows: int = 12) -> Batch:
    """Tied, missing, huge and tiny scores; rows without anything retrieved or relevant; binary, graded or class targets."""
    num_rows = rng.choice([0, 1, 2, 3, 5, 8, most_rows, most_rows])
    dtype = rng.choice(DTYPES)
    kind = rng.choice(["quarters", "quarters", "wide", "signs"] if dtype in DTYPES[:2] else ["quarters", "signs"])
    relevance = rng.choice(["binary", "graded", "classes"])
    missing, density = rng.choice([0, 0, 0.2, 0.9]), rng.choice([0.05, 0.2, 0.6, 1])
    lines = []
    for _ in range(num_rows):
        absent = 1.0 if rng.random() < 0.05 else missing
        scores = [-math.inf if rng.random() < absent else draw_score(rng, kind) for _ in range(num_labels)]
        lines.append(Line(scores, draw_gains(rng, num_labels, relevance, density)))
    keep = [rng.random() < 0.8 for _ in lines] if rng.random() < 0.3 else None
    return Batch(lines, num_labels, dtype, keep)


def draw_score(rng: Random, kind: str) -> float:
    """A number that float32 holds; quarters and signs are held by every type."""
    if kind == "quarters":
        return rng.randrange(-16, 17) / 4
    if kind == "signs":
        return rng.choice([-0.0, 0.0, 1.0, -1.0])
    return rng.choice([2.0**99, -(2.0**99), 2.0**-140, 2.0**-130, 0.0, -0.0, rng.randrange(-(2**20), 2**20) / 1024])


def draw_gains(rng: Random, num_labels: int, relevance: str, density: float) -> dict[int, float]:
    if rng.random() < 0.15:
        return {}
    if relevance == "classes":
        return {rng.randrange(num_labels): 1.0}
    chosen = [label for label in range(num_labels) if rng.random() < density]
    return {label: rng.choice([0.5, 1.0, 2.0, 3.5]) if relevance == "graded" else 1.0 for label in chosen}


def dense(batch: Batch) -> Tensor:
    rows = [line.scores for line in batch.lines]
    return torch.tensor(rows, dtype=batch.dtype).reshape(len(rows), batch.num_labels)


def as_preds(batch: Batch, form: str, rng: Random) -> Any:
    """The same rows in one of the forms of preds."""
    if form == "dense":
        return dense(batch)
    if form == "numpy":
        return (dense(batch) if batch.dtype != torch.bfloat16 else dense(batch).float()).numpy()
    if form == "ids":
        return padded([line.order() for line in batch.lines], -1, torch.int64)
    if form == "candidates":
        return as_candidates(batch, rng)
    stored = [
        {label: score for label, score in enumerate(line.scores) if score != -math.inf or rng.random() < 0.1}
        for line in batch.lines
    ]
    # scipy knows no half types; quarters, signs and what else is drawn for them are the same in float32
    dtype = batch.dtype if form == "csr" and batch.dtype in DTYPES[:2] else torch.float32
    dtype = torch.float64 if batch.dtype == torch.float64 else dtype
    return sparse(stored, batch.num_labels, dtype, rng, scipy_form=form == "scipy")


def as_candidates(batch: Batch, rng: Random) -> tuple[Tensor, Tensor]:
    """Retrieved labels in any order, with -1 and a score that means nothing in between."""
    scores, ids = [], []
    for line in batch.lines:
        pairs = [(score, label) for label, score in enumerate(line.scores) if score != -math.inf]
        pairs += [(9.0, -1)] * rng.randrange(3)
        rng.shuffle(pairs)
        scores.append([score for score, _ in pairs])
        ids.append([label for _, label in pairs])
    return padded(scores, 7.0, batch.dtype), padded(ids, -1, torch.int64)


def padded(rows: list[list[Any]], pad: float, dtype: torch.dtype, at_least: int = 0) -> Tensor:
    width = max([at_least, *(len(row) for row in rows)])
    filled = [row + [pad] * (width - len(row)) for row in rows]
    return torch.tensor(filled, dtype=dtype).reshape(len(rows), width)


def sparse(rows: list[dict[int, float]], width: int, dtype: torch.dtype, rng: Random, scipy_form: bool) -> Any:
    """CSR with columns in no order."""
    crow, columns, entries = [0], [], []
    for row in rows:
        items = list(row.items())
        rng.shuffle(items)
        columns += [label for label, _ in items]
        entries += [entry for _, entry in items]
        crow.append(len(columns))
    parts = torch.tensor(crow), torch.tensor(columns, dtype=torch.int64), torch.tensor(entries, dtype=dtype)
    if scipy_form:
        return scipy.sparse.csr_matrix((parts[2].numpy(), parts[1].numpy(), parts[0].numpy()), shape=(len(rows), width))
    return torch.sparse_csr_tensor(*parts, size=(len(rows), width), check_invariants=False)


def target_forms(batch: Batch, preds: str) -> list[str]:
    """The forms that can hold these gains beside this form of preds."""
    gains = [gain for line in batch.lines for gain in line.gains.values()]
    forms = ["gains", "csr"]
    if all(gain == 1 for gain in gains):
        forms += ["mask", "ids"] + (["integers"] if preds in ("dense", "numpy") else [])
        if all(len(line.gains) <= 1 for line in batch.lines):
            forms.append("classes")
    return forms


def as_target(batch: Batch, form: str, rng: Random) -> Any:
    """The same gains in one of the forms of target."""
    rows = [line.gains for line in batch.lines]
    if form == "csr":
        zeros = {label: 0.0 for label in range(batch.num_labels) if rng.random() < 0.05}
        return sparse([{**zeros, **row} for row in rows], batch.num_labels, torch.float64, rng, rng.random() < 0.5)
    if form == "classes":
        return torch.tensor([next(iter(row), -1) for row in rows], dtype=torch.int64)
    if form == "ids":
        listed = [list(row) for row in rows]
        for ids in listed:
            rng.shuffle(ids)
        width = max(map(len, listed), default=0)
        # integers as wide as the scores would be read as multi-hot
        return padded(listed, -1, torch.int64, at_least=width + 1 if width == batch.num_labels else width)
    filled = [[row.get(label, 0.0) for label in range(batch.num_labels)] for row in rows]
    kinds = {"mask": torch.bool, "gains": rng.choice(DTYPES), "integers": rng.choice([torch.int64, torch.uint8])}
    return torch.tensor(filled, dtype=kinds[form]).reshape(len(rows), batch.num_labels)


def as_mask(batch: Batch) -> dict[str, Tensor]:
    """The keyword that ``update`` takes, if rows are dropped at all."""
    return {} if batch.keep is None else {"row_mask": torch.tensor(batch.keep, dtype=torch.bool)}
