"""Scores that come in chunks of labels, read as the columns of one matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any, TypeAlias

from torch import Tensor

from tailmetrics._checks import check_count, shape_of
from tailmetrics.ranking._context import Context
from tailmetrics.ranking._device import program_threads
from tailmetrics.ranking._tensors import as_tensor, is_csr

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
