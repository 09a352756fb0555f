"""A batch ranked whose scores come in chunks of labels, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tailmetrics._checks import check_count, check_row_mask, shape_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._device import once, program_threads
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._inputs import Batch, Context, as_tensor, is_csr, rows_of_sequences
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._pieces import Best, Beyond, Standings, best_of, count_piece, merged, own_scores
from tailmetrics.ranking._ranking import DEFAULT_DEPTH, Ranking
from tailmetrics.ranking._reading import retrieved
from tailmetrics.ranking._scores import log_of, shift_of, terms_added_up
from tailmetrics.ranking._targets import read_batch_rows, read_target
from tailmetrics.ranking._validation import check_not_nan

Chunk: TypeAlias = "Tensor | tuple[int, Tensor]"
Chunks: TypeAlias = "Iterable[Chunk] | Callable[[], Iterable[Chunk]]"


class ChunkReader:
    """Reads chunks, as often as they can be read, and checks that they are the columns of one matrix."""

    def __init__(self, context: Context, chunks: Chunks) -> None:
        self._context = context
        self._chunks = chunks
        self.like: Tensor | None = None
        """The first chunk without its columns."""
        self._readings = 0
        if not callable(chunks) and (isinstance(chunks, Tensor) or not hasattr(chunks, "__iter__")):
            raise TypeError(
                f"{context.caller}: chunks is {shape_of(chunks)}; pass an iterable of scores [N, C] or of pairs of a "
                "first label and scores, or a callable that makes one."
            )

    def read(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the first label and the scores (N, C) of each chunk."""
        caller, num_labels = self._context.caller, self._context.num_labels
        assert num_labels is not None
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
        """Return the first label and the scores of a chunk, in rows."""
        caller = self._context.caller
        first, given = chunk if isinstance(chunk, (tuple, list)) and len(chunk) == 2 else (end, chunk)
        first = check_count(caller, f"the first label of chunk {number}", first, minimum=0)
        scores = as_tensor(caller, f"chunk {number}", given).detach()
        if not scores.is_floating_point() or is_csr(scores) or scores.ndim < 2:
            raise TypeError(f"{caller}: chunk {number} is {shape_of(scores)}; pass dense floating scores [N, C].")
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
    """Yield chunks; each is made on all threads of the program, such as by a model that scores some labels."""
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
    """Rank a batch whose scores come in chunks of labels: the ranking of the whole matrix, without ever holding it.

    The memory is that of one chunk and of the lists. Metrics with a cut-off need one reading of the chunks. Ranks
    without a cut-off, cross-entropy and calibration need a second one, in which labels are counted against the
    scores that the first has found; thresholds and areas need one more for each metric.

    Args:
        chunks: Pairs of the first label of a chunk and its scores (N, C), or scores alone where each chunk goes on
            behind the last. A list, or a callable that makes the chunks anew, can be read more than once; of a
            generator only metrics with a cut-off can be computed. Chunks may come in any order.
        target: What is relevant, as in :func:`rank`; every process and every reading has the whole of it.
        depth: How many labels are ranked.
        row_mask: Shape (N,), bool; False drops a row.
        num_labels: L; the chunks hold each label once.
        ignore_index: Rows with this label do not count.
        row_groups: Shape (N,), integers: the row group of each row, -1 for none.
        row_weights: Shape (N,), numbers of at least 0: what each row weighs.
        validate_args: False skips the checks that read values.

    Returns:
        The ranking, with the bits that :func:`rank` gives for the whole matrix.

    Raises:
        TypeError: If chunks are no floating tensors of one type, or no iterable.
        ValueError: If chunks overlap, leave labels out, differ in rows, or hold NaN.
    """
    caller = "rank_chunks"
    check_count(caller, "depth", depth)
    context = Context(caller, check_count(caller, "num_labels", num_labels), validate_args, ignore_index=ignore_index)
    reader = ChunkReader(context, chunks)
    readings = reader.read()
    first = next(readings)
    batch = rows_of_sequences(context, Batch(reader.like, target, row_mask, row_groups, row_weights))
    num_rows, device = len(batch.preds), batch.preds.device
    row_mask = check_row_mask(caller, batch.row_mask, num_rows, device)
    context = replace(context, row_mask=row_mask, kernels=kernels_for(device))
    shape = torch.Size((num_rows, num_labels))
    targets = read_target(context, batch.target, num_rows, shape, device).without_void()
    own = batch.preds.new_full((len(targets.entries.ids),), -torch.inf)
    best = _first_reading(context, chain([first], readings), targets.entries, own, depth)
    complete = depth >= num_labels
    ids = retrieved(context, best.values[:, :depth], best.ids[:, :depth])
    beyond = _BeyondChunks(reader, targets.entries, num_labels, own, best.values[:, 0])
    rows = read_batch_rows(context, num_rows, device, batch.row_groups, batch.row_weights)
    return Ranking(
        ids, complete, num_labels, best.values, None, targets, rows, beyond=beyond, ignore_index=ignore_index
    )


def _first_reading(
    context: Context, chunks: Iterable[tuple[int, Tensor]], entries: Entries, own: Tensor, depth: int
) -> Best:
    """Return the best labels, one more than asked for, and write the scores of the relevant ones into ``own``."""
    best, end = None, 0
    for first, scores in chunks:
        if not scores.shape[1]:
            continue
        new = best_of(context.kernels, scores, first, depth + 1)
        if context.validate:
            check_not_nan(context, scores.amax(dim=1, keepdim=True))  # which NaN passes through
        own_scores(entries, scores, first, own)
        best = new if best is None else merged(context.kernels, [best, new], depth + 1, in_order=first >= end)
        end = max(end, first + scores.shape[1])
    assert best is not None
    return best


class _BeyondChunks(Beyond):
    """What further readings of the chunks tell, which are made when it is first asked for."""

    def __init__(self, reader: ChunkReader, entries: Entries, num_labels: int, own: Tensor, largest: Tensor) -> None:
        super().__init__(entries, num_labels)
        self._reader = reader
        self._own = own
        self._largest = shift_of(largest)

    def pieces(self) -> Iterator[tuple[int, Tensor]]:
        return self._reader.read()

    @once
    def _second_reading(self) -> tuple[Standings, Tensor]:
        """Count against the scores that the first reading has found, and add up the exponentials."""
        entries, own = self.entries, self._own
        counts = own.new_zeros(3, len(own), dtype=torch.int64)
        sums: Tensor | None = None
        again = torch.full_like(own, -torch.inf)
        for first, scores in self.pieces():
            own_scores(entries, scores, first, again)
            counts += count_piece(entries, own, scores, first)
            added = terms_added_up(scores, self._largest, self.num_labels)[1]
            sums = added if sums is None else sums + added
        self._check_same(again)
        assert sums is not None
        return Standings(own, *counts), log_of(sums, self.num_labels)

    def _check_same(self, again: Tensor) -> None:
        if not torch.equal(again, self._own):
            raise ValueError(
                "rank_chunks: a second reading of the chunks has other scores than the first, so no rank could be "
                "told; make the same chunks each time: model.eval(), and no buffer that is written over."
            )

    @property
    def standings(self) -> Standings:
        return self._second_reading[0]

    @property
    def log_sum(self) -> tuple[Tensor, Tensor]:
        return self._largest, self._second_reading[1]

    def standings_within(self, entries: Entries, buckets: LabelBuckets) -> Standings:
        places = [(buckets.of(entries.ids) == number).nonzero().squeeze(1) for number in range(len(buckets))]
        own = self.standings_of(entries).own
        counts, kernels = own.new_zeros(2, len(own), dtype=torch.int64), kernels_for(own.device)
        for first, scores in self.pieces():
            assigned = buckets.of(torch.arange(first, first + scores.shape[1], device=own.device))
            for number, place in enumerate(places):
                inside = scores[:, assigned == number]
                labels = torch.zeros_like(place)
                counts[:, place] += kernels.counts_above(inside, entries.rows[place], own[place], labels)[:2]
        above, same = counts
        return Standings(own, above, same - 1, torch.zeros_like(same))
