"""The steps of a ranking on the CPU that read many values, in C.

Each call runs on several threads, without Python's lock.

``_native.c`` is compiled when the package is installed, if there is a C compiler.
Without it, or with ``TAILMETRICS_NATIVE=0`` in the environment, steps in torch give the
same results. All tensors are on the CPU. N is the number of rows, L of labels, K of
places of a list, M of relevant labels of a row, T of relevant labels of all rows, G of
buckets, W of cells for the hits of a row.
"""

from __future__ import annotations

import os
import sys
from array import array
from ctypes import CDLL, c_int64, c_void_p
from functools import cache
from hashlib import sha256
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from tailmetrics.ranking._hits import BestLabels, Hits, ListCheck
from tailmetrics.ranking._threads import PROGRAM_THREADS

SCORE_TYPES = {torch.float16: (0, "float"), torch.bfloat16: (1, "float")}
SCORE_TYPES |= {torch.float32: (2, "float"), torch.float64: (3, "double")}
"""For each type of scores: its number in C, and the C type that compares scores."""

NO_MEMORY = 1
"""The return code of a C function if a thread gets no memory.

The code 2 says that an id is no label.
"""

NONE = 2**63 - 1
"""The number that the C file writes if there is no row or no id to report."""

FOLDER = Path(__file__).parent
LIBRARY = FOLDER / ("_native.dll" if sys.platform == "win32" else "_native.so")


@cache
def _loaded() -> tuple[CDLL | None, str]:
    """Return the compiled library, or None, and a description of the code that runs."""
    if os.environ.get("TAILMETRICS_NATIVE") == "0":
        return None, "torch (TAILMETRICS_NATIVE=0)"
    return load(LIBRARY)


FUNCTIONS = (
    "top_k_float",
    "top_k_double",
    "rank_counts_float",
    "rank_counts_double",
    "largest_float",
    "largest_double",
    "hits",
    "check_lists",
    "within_buckets",
    "add_up",
)
"""The functions of the C file.

Each takes the address of a task and a number of threads.
"""


def load(path: Path) -> tuple[CDLL | None, str]:
    """Return the library at ``path``, or None, and a description of the code that runs.

    The library is None if it cannot be used.

    The build has left a digest of the library and its source beside it: half a library
    would end the process.
    """
    if not path.exists():
        return None, "torch (installed without a C compiler)"
    digest = path.with_suffix(".sha256")
    try:
        found_digest = (
            sha256(path.read_bytes() + (FOLDER / "_native.c").read_bytes())
            .hexdigest()
            .encode()
        )
        if not digest.exists() or digest.read_bytes() != found_digest:
            return (
                None,
                (
                    f"torch ({path.name} is damaged, or of another _native.c: install "
                    "again, or make native)"
                ),
            )
        library = CDLL(str(path))
    except OSError as error:
        return None, f"torch ({error})"
    for name in FUNCTIONS:
        getattr(library, f"tailmetrics_{name}").argtypes = [c_void_p, c_int64]
    return library, f"C ({path})"


def available() -> bool:
    """Return whether the functions below can be called."""
    return _loaded()[0] is not None


def is_missing() -> bool:
    """Return whether the C library cannot be used, and the user did not choose torch.

    ``TAILMETRICS_NATIVE=0`` in the environment chooses torch.
    """
    return not available() and os.environ.get("TAILMETRICS_NATIVE") != "0"


def description() -> str:
    """Return which code runs on the CPU, C or torch, and the reason for torch."""
    return _loaded()[1]


def _run(name: str, *task: int | Tensor | array[int] | None) -> None:
    """Call a C function on up to as many threads as the program gave to torch.

    Args:
        name: The function.
        task: The fields of its struct in order: numbers, tensors and arrays, of which
            the address is passed; None for no tensor.
    """
    fields = array("q")
    try:
        for field in task:
            if isinstance(field, Tensor):
                address = field.data_ptr()
                if not address and field.numel():
                    raise RuntimeError("a fake tensor has the address 0")
                fields.append(address)
            elif isinstance(field, array):
                fields.append(field.buffer_info()[0])
            else:
                fields.append(field or 0)
    except RuntimeError as error:
        raise TypeError(
            "tailmetrics: a tensor holds no numbers, as within torch.func, "
            "FakeTensorMode and torch.export; let the function return predictions and "
            "targets, and update metrics outside of it."
        ) from error

    code = getattr(_loaded()[0], f"tailmetrics_{name}")(
        fields.buffer_info()[0], PROGRAM_THREADS.number or torch.get_num_threads()
    )
    if code == NO_MEMORY:
        raise MemoryError(
            f"{name}: no memory for what a thread needs beside its rows; rank fewer "
            "rows at once."
        )
    if code:
        raise IndexError(
            f"{name}: an id is larger than the labels that there are; check ids, or "
            "leave validate=True."
        )


def top_k(scores: Tensor, k: int) -> BestLabels:
    """Return the ``k`` best labels of each row; ties go to the lower id.

    The scores are read about once.

    NaN counts as the largest score. Labels with -inf are behind all others, by id.

    Args:
        scores: Shape (N, L), float16, bfloat16, float32 or float64; L < 2^32.
        k: At most L.

    Returns:
        The labels. Scores are float64 for float64 and float32 otherwise, 0.0 for -0.0;
        ``distinct`` and ``filled`` are True wherever they hold.
    """
    if scores.stride(1) != 1:
        scores = scores.contiguous()
    num_rows, width = scores.shape
    depth = min(k + 1, width)
    values_dtype = torch.float64 if scores.dtype == torch.float64 else torch.float32
    values = torch.empty(num_rows, depth, dtype=values_dtype, device="cpu")
    ids = torch.empty(num_rows, k, dtype=torch.int64, device="cpu")
    flags = array("q", [0])
    if num_rows and k:
        number, real = SCORE_TYPES[scores.dtype]
        matrix = scores, number, scores.stride(0), num_rows, width
        _run(f"top_k_{real}", *matrix, k, depth, values, ids, flags)
    return BestLabels(values, ids, not flags[0] & 1, not flags[0] & 2)


def hits(
    ids: Tensor,
    target: Tensor,
    most: int,
    starts: Tensor | None = None,
    gains: Tensor | None = None,
) -> Hits:
    """Return the hits of each list, in one pass over the lists.

    Args:
        ids: Shape (N, K), int64: lists, -1 for no label. If an id repeats, its first
            place is the hit; if ``target`` is a mask, each of its places is a hit.
        target: Labels (N, M), int64, -1 for no label; or labels (T,), int64, of rows
            that begin at ``starts``; or a mask (N, L), bool.
        most: No row has more relevant labels.
        starts: Shape (N + 1,), int64, ascending from 0 to T.
        gains: Gains of labels, float64, in the shape of ``target``; None if each gain
            is 1.

    Returns:
        Hits of shape (N, W); W is the largest number of hits of a list, and at least 1.
        Columns are contiguous.

    Raises:
        IndexError: If an id is no column of the mask, or a row has too many labels.
    """
    ids, target = ids.contiguous(), target.contiguous()
    num_rows, length = ids.shape
    row_stride, width = 0, 0
    if starts is None:
        row_stride, width = target.stride(0), target.shape[1]
    else:
        starts = starts.contiguous()
    if gains is not None:
        gains = gains.contiguous()

    relevant: tuple[Tensor | int | None, ...] = None, target, row_stride, width, most
    if target.dtype == torch.bool:  # a mask needs no table of labels
        relevant = target, None, row_stride, width, 0
    shape = num_rows, max(1, min(most, length))
    task = ids, length, num_rows, length, *relevant, starts, gains
    return _written_hits("hits", shape, (1, num_rows), gains is not None, *task)


def _written_hits(
    name: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    with_gains: bool,
    *task: int | Tensor | None,
) -> Hits:
    """Call a C function that writes hits, and return them as a narrow table.

    The table is as wide as the largest number of hits of a row, and at least 1.

    Args:
        name: The function.
        shape: (N, W) or (N, G, W); no row has more than W hits.
        strides: The strides of tensors of this shape. Columns are contiguous.
        with_gains: Whether the function writes gains.
        task: The first fields of the task. Behind them this function appends W, the
            hits, and the largest number of hits.
    """
    width, largest_count = shape[-1], array("q", [0])
    ranks = torch.empty_strided(shape, strides, dtype=torch.int64, device="cpu")
    ids = torch.empty_strided(shape, strides, dtype=torch.int64, device="cpu")
    gains = None
    if with_gains:
        gains = torch.empty_strided(shape, strides, dtype=torch.float64, device="cpu")
    if shape[0]:
        _run(name, *task, width, strides[-1], ranks, ids, gains, largest_count)

    most = max(1, -largest_count[0])  # C writes the negative number
    if most < width:
        ranks, ids = ranks[..., :most], ids[..., :most]
        if gains is not None:
            gains = gains[..., :most]
    return Hits(ranks, ids, gains)


def check_lists(ids: Tensor) -> ListCheck:
    """Find the lowest and highest id, and the first rows with a gap and a repeated id.

    Args:
        ids: Shape (N, K), int64: the lists.
    """
    if not ids.numel():
        return ListCheck(0, -1, None, None)
    ids = ids.contiguous()
    answers = array("q", [NONE] * 4)
    _run("check_lists", ids, ids.shape[1], *ids.shape, answers)
    lowest, below_highest, gap, repeat = answers
    gap_row = None if gap == NONE else gap
    repeat_row = None if repeat == NONE else repeat
    return ListCheck(lowest, ~below_highest, gap_row, repeat_row)


def within_buckets(
    ids: Tensor | None, bucket_of: Tensor, num_buckets: int, hits: Hits
) -> tuple[Hits, Tensor]:
    """Return the hits of each row and bucket, with ranks within their bucket.

    A rank counts the listed labels of the bucket.

    Args:
        ids: Shape (N, D), int64: lists, cut to the depth that is read, -1 for no label.
            If None, hits keep their ranks.
        bucket_of: Shape (L,) or longer, contiguous, uint8 or int32: the bucket of each
            label.
        num_buckets: G.
        hits: Shape (N, W). Hits with ranks above D are left out.

    Returns:
        Hits of shape (N, G, W'); W' is the largest number of hits of a row and bucket,
        and at least 1. The number of labels of each bucket in ``ids``, shape (N, G),
        int64, 0 without ``ids``.

    Raises:
        IndexError: If an id or a bucket is too large.
    """
    num_rows, width = hits.ranks.shape
    ranks, labels, gains = (
        hits.ranks.t().contiguous(),
        hits.ids.t().contiguous(),
        hits.gains,
    )
    if gains is not None:
        gains = gains.t().contiguous()
    lengths = torch.empty(num_rows, num_buckets, dtype=torch.int64, device="cpu")
    lists: tuple[Tensor | int | None, ...] = None, 0, num_rows, 0
    if ids is not None:
        ids = ids.contiguous()
        lists = ids, ids.shape[1], *ids.shape
    table = bucket_of, bucket_of.element_size(), len(bucket_of), num_buckets
    task = *lists, *table, ranks, labels, gains, lengths
    shape, strides = (
        (num_rows, num_buckets, width),
        (num_buckets, 1, num_rows * num_buckets),
    )
    return _written_hits(
        "within_buckets", shape, strides, gains is not None, *task
    ), lengths


def largest(scores: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """Return the largest score of each group of labels, shape (N, num_groups).

    NaN if a score of the group is NaN, -inf for a group without a label.

    Args:
        scores: Shape (N, L), float32 or float64.
        groups: Shape (L,), int64, below ``num_groups``: the group of each label.
        num_groups: The number of groups.

    Raises:
        IndexError: If there is not one group for each column.
    """
    if scores.stride(1) != 1:
        scores = scores.contiguous()
    if len(groups) != scores.shape[1]:
        raise IndexError(
            f"largest: {scores.shape[1]} columns of scores, but {len(groups)} "
            "labels in groups."
        )
    maxima = scores.new_empty(len(scores), num_groups)
    if maxima.numel():
        number, real = SCORE_TYPES[scores.dtype]
        matrix = scores, number, scores.stride(0), *scores.shape
        _run(f"largest_{real}", *matrix, groups.to(torch.int32), num_groups, maxima)
    return maxima


def rank_counts(scores: Tensor, starts: Tensor, labels: Tensor, own: Tensor) -> Tensor:
    """Count, for each given label, higher scores, equal ones, and equal ones before.

    Equal scores are before the given label if their column is lower. Only scores of the
    same row count.

    Args:
        scores: Shape (N, C), the types of :func:`top_k`; NaN never counts.
        starts: Shape (N + 1,), int64, ascending from 0 to T: the place of the first
            given label of each row.
        labels: Shape (T,), int64: columns. Below 0, the label is lower than all
            columns; from C on, it is higher.
        own: Shape (T,), float64: the scores of the labels. All counts of NaN are 0.

    Returns:
        The three counts, shape (3, T), int64. A given label that is one of the columns
        counts as equal to itself.
    """
    if scores.stride(1) != 1:
        scores = scores.contiguous()
    starts, labels, own = starts.contiguous(), labels.contiguous(), own.contiguous()
    counts = torch.zeros(3, len(labels), dtype=torch.int64, device="cpu")
    if len(labels):
        number, real = SCORE_TYPES[scores.dtype]
        matrix = scores, number, scores.stride(0), *scores.shape
        _run(f"rank_counts_{real}", *matrix, starts, labels, own, *counts)
    return counts


def add_up(values: Tensor, dim: int, limbs: int, lowest: int, bounded: bool) -> Tensor:
    """Add up real numbers over an axis as whole numbers.

    See :class:`tailmetrics.metrics._states.FixedPoint`.

    Args:
        values: Shape (..., N, ...), float64.
        dim: The axis that is added up.
        limbs: The number of limbs, of 26 bits each, of a number.
        lowest: The exponent of the last limb.
        bounded: Whether every value is known to fit into the limbs.

    Returns:
        Shape (..., limbs + 1), int64: the sums of the limbs, and the number of values
        that are too large for the limbs.
    """
    values, before, behind = (
        values.contiguous(),
        values.shape[:dim],
        values.shape[dim + 1 :],
    )
    sums = torch.zeros(*before, *behind, limbs + 1, dtype=torch.int64, device="cpu")
    if sums.numel():
        shape = prod(before), values.shape[dim], prod(behind)
        _run("add_up", values, *shape, limbs, lowest, bounded, sums)
    return sums
