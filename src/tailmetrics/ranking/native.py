"""The steps of a ranking on the CPU that read much, in C: rows over threads, in one call that lets go of Python's lock.

``_native.c`` is compiled when the package is installed, where a compiler is; elsewhere the forms of torch do the same.
``TAILMETRICS_NATIVE=0`` in the environment does without it. Tensors are on the CPU. Rows N, labels L, places of a list
K, relevant labels of a row M, or T of all rows one below the other, buckets G, cells of hits W.
"""

from __future__ import annotations

import os
from array import array
from ctypes import CDLL, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import torch
from torch import Tensor

NOT_RANKED = 2**62
"""The rank behind the last hit of a row."""

SCORE_TYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}
"""Types of scores, as the C file numbers them."""

NO_MEMORY = 1
"""What a function of the C file returns where a thread gets no memory; 2 where a label is none."""

FOLDER = Path(__file__).parent


@cache
def _loaded() -> tuple[CDLL | None, str]:
    """Return the library, or None, and which form of the steps runs, in words."""
    if os.environ.get("TAILMETRICS_NATIVE") == "0":
        return None, "torch (TAILMETRICS_NATIVE=0)"
    return load(FOLDER / "_native.so")


def load(path: Path) -> tuple[CDLL | None, str]:
    """Return the library at ``path``, or None where it cannot be used, and which form of the steps runs, in words."""
    if not path.exists():
        return None, "torch (installed without a C compiler)"
    try:
        library = CDLL(str(path))
        current = library.tailmetrics_source() == source_number()
    except (OSError, AttributeError) as error:
        return None, f"torch ({error})"
    if not current:
        return None, "torch (_native.c has changed since it was compiled: make native)"
    for name in ("top_k", "rank_counts", "hits", "check_lists", "within_buckets", "count_true"):
        getattr(library, f"tailmetrics_{name}").argtypes = [c_void_p, c_int64]
    return library, f"C ({path})"


def source_number() -> int:
    """Return a number that changes with the C file; a library that was compiled of another text is not used."""
    return crc32((FOLDER / "_native.c").read_bytes()) & 0x7FFFFFFF


def available() -> bool:
    """Whether the functions below can be called."""
    return _loaded()[0] is not None


def description() -> str:
    """Return which form of the steps runs on the CPU, and why, for ``show_versions``."""
    return _loaded()[1]


def _run(name: str, threads: int, *task: int) -> None:
    """Call a function of the C file; ``task`` are the words of its struct, in order."""
    words = array("q", task)
    code = getattr(_loaded()[0], f"tailmetrics_{name}")(words.buffer_info()[0], threads)
    if code == NO_MEMORY:
        raise MemoryError(f"{name}: no memory for what a thread needs beside its rows; rank fewer rows at once.")
    if code:
        raise IndexError(f"{name}: an id is larger than the labels that there are; check ids, or leave validate=True.")


def _buckets(bucket_of: Tensor | None, num_buckets: int) -> tuple[int, ...]:
    if bucket_of is None:
        return 0, 0, NOT_RANKED, num_buckets
    assert bucket_of.dtype in (torch.uint8, torch.int32)
    return bucket_of.data_ptr(), bucket_of.element_size(), len(bucket_of), num_buckets


def top_k(scores: Tensor, k: int, threads: int) -> tuple[Tensor, Tensor, bool]:
    """Return the ``k`` best labels per row, ties to the lower id, in about one reading of the scores.

    NaN counts as the largest score. Labels with -inf are behind the others, by id.

    Args:
        scores: Shape (N, L), float16, bfloat16, float32 or float64; L < 2^32.
        k: At most L.
        threads: How many to use at most; small matrices are done by the calling one.

    Returns:
        Values, best first, of shape (N, min(k + 1, L)), float64 for float64 and float32 otherwise, 0.0 for -0.0. Ids of
        shape (N, k), int64. Whether every row of values falls from place to place, which leaves no tie and no NaN.
    """
    scores = scores if scores.stride(1) == 1 else scores.contiguous()
    num_rows, width = scores.shape
    depth = min(k + 1, width)
    real = torch.float64 if scores.dtype == torch.float64 else torch.float32
    values = torch.empty(num_rows, depth, dtype=real)
    ids = torch.empty(num_rows, k, dtype=torch.int64)
    tied = array("q", [0])
    if num_rows and k:
        of_scores = scores.data_ptr(), SCORE_TYPES[scores.dtype], scores.stride(0), num_rows, width
        _run("top_k", threads, *of_scores, k, depth, values.data_ptr(), ids.data_ptr(), tied.buffer_info()[0])
    return values, ids, not tied[0]


def hits(
    ids: Tensor,
    target: Tensor,
    width: int,
    threads: int,
    starts: Tensor | None = None,
    gains: Tensor | None = None,
    most: int | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return where the relevant labels of each row stand in its list, in one pass over the list.

    Args:
        ids: Shape (N, K), int64: lists, -1 for no label. Of an id that repeats the first place counts; where ``target``
            is a mask, every place.
        target: Labels (N, M), int64, -1 for none; or labels (T,), int64, of rows that begin at ``starts``; or a mask
            (N, L), bool.
        width: W, at least the hits of any row: what goes beyond is left out.
        threads: How many to use at most.
        starts: Shape (N + 1,), int64, ascending from 0 to T.
        gains: Gains of labels, float64, in the shape of ``target``; None where each is 1.
        most: The largest number of labels of a row, where it is known, with ``starts``.

    Returns:
        Ranks from 1, ascending, and ``NOT_RANKED`` behind the last, shape (N, W), int64. Their labels, then -1, shape
        (N, W), int64. Their gains, then 0, shape (N, W), float64; None without ``gains``.

    Raises:
        IndexError: If an id is no column of the mask.
    """
    ids = ids if ids.stride(1) == 1 else ids.contiguous()
    num_rows = len(ids)
    target = target if target.stride(-1) == 1 else target.contiguous()
    if starts is not None:
        starts, stride, wide = starts.contiguous(), 0, 0
        most = int(starts.diff().max()) if most is None and num_rows else most
    else:
        stride, wide = target.stride(0), target.shape[1]
    ranks, labels = torch.empty(2, num_rows, width, dtype=torch.int64)
    gains = None if gains is None else gains.contiguous()
    found = None if gains is None else torch.empty(num_rows, width, dtype=torch.float64)
    if num_rows:
        address = target.data_ptr()
        mask, wanted, most = (
            (address, 0, 0) if target.dtype == torch.bool else (0, address, wide if most is None else most)
        )
        first = 0 if starts is None else starts.data_ptr()
        worth, reached = (0, 0) if gains is None or found is None else (gains.data_ptr(), found.data_ptr())
        lists = ids.data_ptr(), ids.stride(0), *ids.shape
        result = width, ranks.data_ptr(), labels.data_ptr(), reached
        _run("hits", threads, *lists, mask, wanted, stride, wide, most, first, worth, *result)
    return ranks, labels, found


class ListCheck(NamedTuple):
    """What :func:`check_lists` found.

    Attributes:
        lowest: The lowest id; 0 without any.
        highest: The highest id; -1 without any.
        gap_row: The first row with an id behind a -1; None for none.
        repeat_row: The first row that names an id >= 0 twice; None for none.
        repeated: Shape (N, K), bool: the later places of ids that repeat; None where it was not asked for.
    """

    lowest: int
    highest: int
    gap_row: int | None
    repeat_row: int | None
    repeated: Tensor | None


def check_lists(ids: Tensor, threads: int, mark: bool = False) -> ListCheck:
    """Look through lists (N, K), int64, for what they must not hold; with ``mark``, for all places of repeated ids."""
    ids = ids if ids.stride(1) == 1 else ids.contiguous()
    none = 2**63 - 1
    found = array("q", [none] * 4)
    repeated = torch.empty(ids.shape, dtype=torch.bool) if mark else None
    if ids.numel():
        _run(
            "check_lists",
            threads,
            ids.data_ptr(),
            ids.stride(0),
            *ids.shape,
            0 if repeated is None else repeated.data_ptr(),
            found.buffer_info()[0],
        )
    lowest, below_highest, gap, repeat = found
    if lowest == none:
        return ListCheck(0, -1, None, None, repeated)
    return ListCheck(
        lowest, -1 - below_highest, None if gap == none else gap, None if repeat == none else repeat, repeated
    )


def within_buckets(
    ids: Tensor | None,
    bucket_of: Tensor | None,
    num_buckets: int,
    ranks: Tensor,
    labels: Tensor,
    gains: Tensor | None,
    width: int,
    threads: int,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Return the hits of each row by bucket, with their ranks among the listed labels of their bucket.

    Args:
        ids: Shape (N, D), int64: lists, cut to the depth that is read, -1 for no label. None: hits keep the ranks that
            they have.
        bucket_of: Shape (L,) or longer, contiguous, uint8 or int32: the bucket of each label; None where
            all are in bucket 0.
        num_buckets: G.
        ranks: Shape (N, W), int64: ranks of hits, ascending, then ``NOT_RANKED``. Those behind ``ids`` are left out.
        labels: Shape (N, W), int64.
        gains: Shape (N, W), float64; None where each is 1.
        width: W', at least the hits of any row and bucket: what goes beyond is left out.
        threads: How many to use at most.

    Returns:
        Ranks, labels and gains as of :func:`hits`, of shape (N, G, W'), and how many labels of each bucket ``ids``
        holds, shape (N, G), int64, 0 without ``ids``.

    Raises:
        IndexError: If an id or a bucket is too large.
    """
    num_rows, given = ranks.shape
    ids = ids if ids is None or ids.stride(1) == 1 else ids.contiguous()
    ranks, labels = ranks.contiguous(), labels.contiguous()
    gains = None if gains is None else gains.contiguous()
    new_ranks, new_labels = torch.empty(2, num_rows, num_buckets, width, dtype=torch.int64)
    new_gains = None if gains is None else torch.empty(num_rows, num_buckets, width, dtype=torch.float64)
    lengths = torch.empty(num_rows, num_buckets, dtype=torch.int64)
    if num_rows:
        lists = (0, 0, num_rows, 0) if ids is None else (ids.data_ptr(), ids.stride(0), *ids.shape)
        worth, new_worth = (0 if part is None else part.data_ptr() for part in (gains, new_gains))
        given_hits = ranks.data_ptr(), labels.data_ptr(), worth, given
        result = width, new_ranks.data_ptr(), new_labels.data_ptr(), new_worth, lengths.data_ptr()
        _run("within_buckets", threads, *lists, *_buckets(bucket_of, num_buckets), *given_hits, *result)
    return new_ranks, new_labels, new_gains, lengths


def rank_counts(
    scores: Tensor, starts: Tensor, wanted: Tensor, threads: int, own: Tensor | None = None, first: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Count the scores of a row that are above each wanted label of the row, and equal to it. NaN never counts.

    Args:
        scores: Shape (N, C): the scores of the labels from ``first`` on; the types of :func:`top_k`.
        starts: Shape (N + 1,), int64, ascending from 0 to T: where the wanted labels of each row begin.
        wanted: Shape (T,), int64, -1 for none: their counts are 0.
        threads: How many to use at most.
        own: Shape (T,), float64: the scores of the wanted labels; None where all of them stand in ``scores``.
        first: The first label of this piece of the labels.

    Returns:
        How many scores are above, how many equal ones have a lower id, and how many are equal, the label's own included
        where it stands in ``scores``; each of shape (T,), int64.

    Raises:
        IndexError: If a wanted label is no column, without ``own``.
    """
    scores = scores if scores.stride(1) == 1 else scores.contiguous()
    starts, wanted = starts.contiguous(), wanted.contiguous()
    own = None if own is None else own.contiguous()
    above, before, equal = counts = torch.zeros(3, len(wanted), dtype=torch.int64)
    if len(wanted):
        most = int(starts.diff().max())
        given = starts.data_ptr(), wanted.data_ptr(), 0 if own is None else own.data_ptr(), first, most
        of_scores = scores.data_ptr(), SCORE_TYPES[scores.dtype], scores.stride(0), *scores.shape
        _run("rank_counts", threads, *of_scores, *given, *(part.data_ptr() for part in counts))
    return above, before, equal


def count_true(mask: Tensor, threads: int) -> Tensor:
    """Return how many cells of each row of ``mask`` (N, L), bool, are true, shape (N,), int64."""
    return count_by_bucket(mask, None, 1, threads).squeeze(1)


def count_by_bucket(labels: Tensor, bucket_of: Tensor | None, num_buckets: int, threads: int) -> Tensor:
    """Return how many relevant labels of each row are in each bucket, shape (N, G), int64.

    Args:
        labels: Labels (N, M), int64, -1 for none; or a mask (N, L), bool.
        bucket_of: As of :func:`within_buckets`.
        num_buckets: G.
        threads: How many to use at most.

    Raises:
        IndexError: If a label or a bucket is too large.
    """
    if labels.dtype != torch.bool:  # as a list without hits
        nothing = torch.empty(len(labels), 0, dtype=torch.int64)
        return within_buckets(labels, bucket_of, num_buckets, nothing, nothing, None, 0, threads)[3]
    labels = labels if labels.stride(1) == 1 else labels.contiguous()
    counts = torch.empty(len(labels), num_buckets, dtype=torch.int64)
    if counts.numel():
        mask = labels.data_ptr(), labels.stride(0), *labels.shape
        _run("count_true", threads, *mask, *_buckets(bucket_of, num_buckets), counts.data_ptr())
    return counts
