"""Rank a batch whose labels are split into chunks, which are read one after the other, or over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import chain
from math import prod
from typing import Any, NoReturn, TypeAlias

import torch
from torch import Tensor, distributed

from tailmetrics._arguments import check_count, shape_of
from tailmetrics.ranking._device import program_threads
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._inputs import Batch, Context, as_tensor, as_tensors
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._pieces import ScoresInPieces, log_of, shift_of, terms_added_up
from tailmetrics.ranking._ranking import DEFAULT_DEPTH, Ranking
from tailmetrics.ranking._reading import Lists, check_not_nan, read_rows, read_target, retrieved

Chunk: TypeAlias = "Tensor | tuple[int, Tensor]"
Chunks: TypeAlias = "Iterable[Chunk] | Callable[[], Iterable[Chunk]]"


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a batch, with scores of some labels or of no label.

    Attributes:
        context: The settings of the batch.
        batch: The arguments. ``preds`` are scores (N, C) of C labels; C may be 0.
        targets: The relevant labels among all labels, without void entries.
        num_labels: L.
    """

    context: Context
    batch: Batch
    targets: Targets
    num_labels: int

    @classmethod
    def read(cls, context: Context, batch: Batch) -> Rows:
        """Read the arguments; ``preds`` are scores (..., C) of C labels; C may be 0."""
        as_tensors(context, batch)
        num_rows, num_labels = len(batch.preds), context.num_labels
        assert num_labels is not None
        targets = read_target(context, batch, num_rows, torch.Size((num_rows, num_labels)), batch.preds.device)
        return cls(context, batch, targets.without_void(), num_labels)

    def nowhere(self) -> Tensor:
        """Return a vector (T,) of -inf, one for each relevant label, into which their scores are written later."""
        scores: Tensor = self.batch.preds.new_full((len(self.targets.entries.ids),), -torch.inf)
        return scores

    def best_of(self, scores: Tensor, first: int, depth: int) -> tuple[Tensor, Tensor]:
        """Return the best of ``scores`` (N, C), at least float32, and their labels; ``first`` is the first column."""
        depth = min(depth, scores.shape[1])
        values, ids, *_ = self.context.kernels.top_k(scores, depth)
        return values[:, :depth].to(torch.promote_types(scores.dtype, torch.float32)), ids + first

    def merged(self, parts: list[tuple[Tensor, Tensor]], depth: int, in_order: bool) -> tuple[Tensor, Tensor]:
        """Merge the best labels of several parts; ``in_order`` if all labels of a part are below the next part."""
        values, ids = (torch.cat(side, dim=1) for side in zip(*parts, strict=True))
        if not in_order:
            ids, order = ids.sort(dim=1, stable=True)
            values = values.gather(1, order)
        depth = min(depth, ids.shape[1])
        values, places, *_ = self.context.kernels.top_k(values, depth)  # ties keep the order of their labels
        return values[:, :depth], ids.gather(1, places)

    def check(self, scores: Tensor) -> None:
        """Raise if scores hold NaN."""
        if self.context.validate and scores.shape[1]:
            check_not_nan(self.context, scores.amax(dim=1, keepdim=True))  # the maximum of a row with NaN is NaN

    def counted(self, own: Tensor, scores: Tensor, first: int, largest: Tensor) -> tuple[Tensor, Tensor]:
        """Return the counts (3, T) of higher and equal scores in a piece of the labels, and sums of exponentials."""
        entries = self.targets.entries
        counts = self.context.kernels.counts_above(scores, entries.rows, own, entries.ids - first)
        return counts, terms_added_up(scores, largest, self.num_labels)[1]

    def ranking(self, best: tuple[Tensor, Tensor], depth: int, in_pieces: ScoresInPieces) -> Ranking:
        """Return the ranking of the best ``depth`` labels; ``best`` has one label more, to detect ties at the end."""
        context, (values, ids) = self.context, best
        ids = retrieved(context, values[:, :depth], ids[:, :depth])
        rest = self.targets, self.num_labels, read_rows(context, self.batch)
        lists = Lists(ids, values, depth >= self.num_labels)
        return Ranking(*lists, *rest, in_pieces=in_pieces, ignore_index=context.ignore_index)


def own_scores(entries: Entries, scores: Tensor, first: int, own: Tensor) -> None:
    """Copy the scores of relevant labels from ``scores`` (N, C), the labels from ``first`` on, to ``own`` (T,)."""
    inside = ((entries.ids >= first) & (entries.ids < first + scores.shape[1])).nonzero().squeeze(1)
    own[inside] = scores[entries.rows[inside], entries.ids[inside] - first]


def _dense_scores(caller: str, argument: str, value: Any) -> Tensor:
    """Return scores (..., C) as a tensor; raise unless they are dense floating numbers."""
    scores = as_tensor(caller, argument, value)
    if not scores.is_floating_point() or scores.is_sparse_csr or scores.ndim < 2:
        raise TypeError(f"{caller}: {argument} is {shape_of(scores)}; pass dense floating scores [N, C].")
    return scores


class ChunkReader:
    """Reads chunks, more than once if the caller can make them again, and checks that they form one matrix."""

    def __init__(self, caller: str, num_labels: int, chunks: Chunks) -> None:
        self._caller, self._num_labels = caller, num_labels
        self._chunks = chunks
        self.like: Tensor | None = None
        """The first chunk without its columns, with its number of rows, type and device."""
        self._readings = 0
        if not callable(chunks) and (isinstance(chunks, Tensor) or not hasattr(chunks, "__iter__")):
            raise TypeError(
                f"{caller}: chunks is {shape_of(chunks)}; pass an iterable of scores [N, C] or of pairs of a "
                "first label and scores, or a callable that makes one."
            )

    def read(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the first label and the scores (N, C) of each chunk."""
        caller, num_labels = self._caller, self._num_labels
        with program_threads():
            made: Any = self._chunks() if callable(self._chunks) else self._chunks
        if self._readings and iter(made) is made and made is self._chunks:
            raise ValueError(
                f"{caller}: chunks can be read only once, but ranks without a cut-off, cross-entropy, calibration, "
                "thresholds and areas need another reading; pass a callable that makes the chunks anew, such as "
                "rank_chunks(lambda: make_chunks(), ...)."
            )
        self._readings += 1
        seen: list[tuple[int, int]] = []
        end = 0
        for number, chunk in enumerate(_made_by_the_program(made)):
            first, scores = self._chunk(number, chunk, end)
            end = first + scores.shape[-1]
            if first < 0 or end > num_labels or any(first < stop and start < end for start, stop in seen):
                raise ValueError(
                    f"{caller}: chunk {number} holds the labels {first} to {end - 1}, some of which stand in another "
                    f"chunk or are none of the {num_labels} labels; pass each label once."
                )
            seen += [(first, end)] if end > first else []
            yield first, scores.reshape(prod(scores.shape[:-1]), scores.shape[-1])
        held = sum(stop - start for start, stop in seen)
        if held < num_labels:
            raise ValueError(
                f"{caller}: the chunks hold {held} labels, but there are {num_labels}; pass the scores of all labels "
                "(-inf for those that are not retrieved)."
            )

    def _chunk(self, number: int, chunk: Any, end: int) -> tuple[int, Tensor]:
        """Return the first label and the scores (..., C) of a chunk; ``end`` is the label behind the last chunk."""
        caller = self._caller
        first, given = chunk if isinstance(chunk, (tuple, list)) and len(chunk) == 2 else (end, chunk)
        first = check_count(caller, f"the first label of chunk {number}", first, minimum=0)
        scores = _dense_scores(caller, f"chunk {number}", given)
        if self.like is None:
            self.like = scores[..., :0]
        like = self.like
        if (scores.shape[:-1], scores.dtype, scores.device) != (like.shape[:-1], like.dtype, like.device):
            raise ValueError(
                f"{caller}: chunk {number} is {shape_of(scores)} on {scores.device}, but the first chunk has "
                f"{str(like.dtype).removeprefix('torch.')} scores of {list(like.shape[:-1])} rows on {like.device}; "
                "pass columns of one matrix."
            )
        return first, scores


def _made_by_the_program(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield chunks. The caller's code that makes them, such as a model, runs on all threads of the program."""
    iterator, end = iter(chunks), object()
    while True:
        with program_threads():
            chunk = next(iterator, end)
        if chunk is end:
            return
        yield chunk  # type: ignore[misc]


def rank_chunks(
    chunks: Chunks,
    target: Any,
    depth: int = DEFAULT_DEPTH,
    row_mask: Any = None,
    *,
    num_labels: int,
    ignore_index: int | None = None,
    row_groups: Any = None,
    row_weights: Any = None,
    validate_args: bool = True,
) -> Ranking:
    """Rank a batch whose scores come in chunks of labels. The ranking equals the ranking of the whole matrix.

    Only one chunk and the lists are in memory. Metrics with a cut-off read the chunks once. Ranks without a cut-off,
    cross-entropy and calibration read them a second time, to count the labels with higher scores than the relevant
    labels. Each metric of thresholds or areas reads them once more.

    Args:
        chunks: Pairs of the first label of a chunk and its scores (N, C); or scores alone if each chunk continues the
            chunk before. A list, or a callable that makes the chunks anew, can be read more than once; a generator
            allows only metrics with a cut-off. Pairs may come in any order.
        target: The relevant labels, as in :func:`rank`; each process passes the whole target.
        depth: The number of labels that are ranked.
        row_mask: Shape (N,), bool; False drops a row.
        num_labels: L; the chunks hold each label once.
        ignore_index: Rows with this label do not count.
        row_groups: Shape (N,), integers: the row group of each row, -1 for none.
        row_weights: Shape (N,), numbers of at least 0: the weight of each row.
        validate_args: False skips the checks that read values.

    Returns:
        The ranking, with the bits that :func:`rank` gives for the whole matrix.

    Raises:
        TypeError: If chunks are no floating tensors of one type, or no iterable.
        ValueError: If chunks overlap, leave labels out, differ in rows, or hold NaN.
    """
    caller = "rank_chunks"
    check_count(caller, "depth", depth)
    reader = ChunkReader(caller, check_count(caller, "num_labels", num_labels), chunks)
    readings = reader.read()
    first_chunk = next(readings)
    context = Context(caller, num_labels, validate_args, ignore_index=ignore_index)
    rows = Rows.read(context, Batch(reader.like, target, row_mask, row_groups, row_weights))
    own, entries = rows.nowhere(), rows.targets.entries
    best, end = None, 0
    for first, scores in chain([first_chunk], readings):
        if not scores.shape[1]:
            continue
        new = rows.best_of(scores, first, depth + 1)
        rows.check(scores)
        own_scores(entries, scores, first, own)
        best = new if best is None else rows.merged([best, new], depth + 1, in_order=first >= end)
        end = max(end, first + scores.shape[1])
    assert best is not None
    count = partial(_second_reading, rows, reader, own, shift_of(best[0][:, 0]))
    return rows.ranking(best, depth, ScoresInPieces(entries, num_labels, own, count, reader.read))


def _second_reading(
    rows: Rows, reader: ChunkReader, own: Tensor, largest: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Count the labels above the scores of the relevant labels, and add up exponentials, in a second reading."""
    again, totals = rows.nowhere(), None
    for first, scores in reader.read():
        own_scores(rows.targets.entries, scores, first, again)
        counts, sums = rows.counted(own, scores, first, largest)
        totals = (counts, sums) if totals is None else (totals[0] + counts, totals[1] + sums)
    if not torch.equal(again, own):
        raise ValueError(
            "rank_chunks: a second reading of the chunks has other scores than the first, so ranks cannot be "
            "counted; make the same chunks each time: model.eval(), and no buffer that is written over."
        )
    assert totals is not None
    return totals[0], (largest, log_of(totals[1], rows.num_labels))


CALLER = "rank_shards"


def rank_shards(
    scores: Any,
    first_label: int,
    target: Any,
    depth: int = DEFAULT_DEPTH,
    row_mask: Any = None,
    *,
    num_labels: int,
    group: Any = None,
    ignore_index: int | None = None,
    row_groups: Any = None,
    row_weights: Any = None,
    validate_args: bool = True,
) -> Ranking:
    """Rank a batch whose labels are split over processes, as by a tensor-parallel head; call it in each process.

    Each process sends data three times: a few numbers about the labels it holds; its best labels, and its scores of
    relevant labels; and the number of its labels with higher scores. All are much smaller than the scores.

    Every process gets the ranking of all labels. To count each row once, update the metrics in one process of the
    group; or make the metrics with ``sync_on_compute=False``, or with a ``process_group`` of processes that hold
    different rows.

    Args:
        scores: Shape (N, C), floating: the scores of the labels from ``first_label`` on. All processes pass the same
            rows.
        first_label: The first label of this process. Together the processes hold each label once.
        target: The relevant labels among all labels, as in :func:`rank`; the same on every process.
        depth: The number of labels that are ranked.
        row_mask: Shape (N,), bool; False drops a row.
        num_labels: L.
        group: The process group; None for all processes.
        ignore_index: Rows with this label do not count.
        row_groups: Shape (N,), integers: the row group of each row, -1 for none.
        row_weights: Shape (N,), numbers of at least 0: the weight of each row.
        validate_args: False skips the checks that read values.

    Returns:
        The ranking, with the bits that :func:`rank` gives for the whole matrix. Metrics that read the scores again
        raise an error: metrics with a threshold, areas per label, areas by bucket with ``scope="bucket"``.

    Raises:
        TypeError: If an argument has a type that is not accepted.
        ValueError: On every process, if one process has wrong arguments, or other arguments than the rest.
    """
    group = distributed.group.WORLD if group is None else group
    try:
        context = Context(CALLER, num_labels, validate_args, ignore_index=ignore_index)
        batch = Batch(scores, target, row_mask, row_groups, row_weights)
        shard = _read_shard(context, batch, first_label, depth)
    except Exception:
        _agree(None, 0, depth, group)
        raise
    ends = _agree(shard, first_label, depth, group)
    best, own = _exchange(shard, first_label, ends, depth, group)
    largest = shift_of(best[0][:, 0])
    counts, sums = shard.counted(own, shard.batch.preds, first_label, largest)
    sent = torch.cat([counts.view(-1), sums.to(torch.int64).view(-1)])  # whole numbers below 2^53
    distributed.all_reduce(sent, group=group)
    counts, whole = sent[: counts.numel()].view(counts.shape), sent[counts.numel() :].view(sums.shape)
    known = counts, (largest, log_of(whole.to(sums.dtype), num_labels))
    return shard.ranking(best, depth, ScoresInPieces(shard.targets.entries, num_labels, own, lambda: known, _refused))


def _refused() -> NoReturn:
    raise ValueError(
        f"{CALLER}: thresholds, and pairs within buckets (scope='bucket'), read the scores of all labels, which no "
        "process holds; use rank_chunks, or metrics of ranks, or scope='global'."
    )


def _read_shard(context: Context, batch: Batch, first_label: int, depth: int) -> Rows:
    """Read and check the arguments of one process."""
    caller = context.caller
    check_count(caller, "depth", depth)
    num_labels = check_count(caller, "num_labels", context.num_labels)
    first = check_count(caller, "first_label", first_label, minimum=0)
    scores = _dense_scores(caller, "scores", batch.preds)
    if first + scores.shape[-1] > num_labels:
        raise ValueError(
            f"{caller}: scores hold the labels {first} to {first + scores.shape[-1] - 1}, but there are {num_labels}; "
            "check first_label and num_labels."
        )
    batch.preds = scores
    rows = Rows.read(context, batch)
    rows.check(rows.batch.preds)
    return rows


def _agree(shard: Rows | None, first_label: int, depth: int, group: Any) -> list[tuple[int, int]]:
    """Return the first label of each process and the label behind its last; raise on all processes if they disagree.

    A process whose arguments were refused passes None as its shard.
    """
    held = None
    if shard is not None:
        scores, entries, digest = shard.batch.preds, shard.targets.entries, sha256()
        context = shard.context
        for part in (entries.rows, entries.ids, entries.gains, context.row_mask) if context.validate else ():
            digest.update(b"-" if part is None else part.cpu().contiguous().numpy().tobytes())
        held = (
            (first_label, first_label + scores.shape[1]),
            {
                "number of rows": len(scores),
                "number of relevant labels": len(entries.ids),
                "num_labels": shard.num_labels,
                "depth": depth,
                "type of scores": scores.dtype,
                "digest of target and row_mask": digest.hexdigest()[:16],
            },
        )
    received: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(received, held, group=group)
    if shard is None:
        return []
    for place, other in enumerate(received):
        if other is None:
            raise ValueError(f"{CALLER}: process {place} of the group refused its arguments, so nothing was ranked.")
        for name, one in received[0][1].items():
            if other[1][name] != one:
                raise ValueError(
                    f"{CALLER}: the {name} is {one} on process 0 of the group and {other[1][name]} on process {place}; "
                    "every process needs target and row_mask of the same rows, over all labels."
                )
    ends: list[tuple[int, int]] = [end for end, _ in received]
    some = sorted(end for end in ends if end[0] < end[1])
    gaps = zip([0, *(stop for _, stop in some)], [*(start for start, _ in some), shard.num_labels], strict=True)
    if any(stop != start for stop, start in gaps):
        listed = ", ".join(f"{start} to {stop - 1}" for start, stop in ends)
        raise ValueError(
            f"{CALLER}: the processes hold the labels {listed} of {shard.num_labels}; together they must hold each "
            "label once."
        )
    return ends


def _exchange(
    shard: Rows, first_label: int, ends: list[tuple[int, int]], depth: int, group: Any
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return the best labels of all processes, and the scores of the relevant labels (T,)."""
    scores = shard.batch.preds
    num_rows, dtype = len(scores), scores.dtype
    width = min(depth + 1, max(stop - start for start, stop in ends))
    values = scores.new_full((num_rows, width), -torch.inf, dtype=torch.float64)
    ids = torch.full(values.shape, shard.num_labels, device=values.device)
    if scores.shape[1]:
        best, labels = shard.best_of(scores, first_label, width)
        values[:, : best.shape[1]], ids[:, : best.shape[1]] = best.to(values.dtype), labels
    own = shard.nowhere()
    own_scores(shard.targets.entries, scores, first_label, own)
    real = torch.cat([values.view(-1), own.to(torch.float64)])
    sent = torch.cat([real.view(torch.int64), ids.view(-1)])
    received = [torch.empty_like(sent) for _ in ends]
    distributed.all_gather(received, sent, group=group)
    lists, found = [], []
    for place in sorted(range(len(ends)), key=lambda place: ends[place]):
        real, of_process = received[place][: -ids.numel()].view(torch.float64), received[place][len(real) :]
        best = real[: ids.numel()].view(values.shape).to(torch.promote_types(dtype, torch.float32))
        lists.append((best, of_process.view(values.shape)))
        found.append(real[ids.numel() :].to(dtype))
    merged = shard.merged(lists, min(depth + 1, shard.num_labels), in_order=True)
    return merged, torch.stack(found).amax(dim=0)
