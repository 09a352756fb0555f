"""A batch ranked whose scores are split over processes: each holds those of some labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from struct import unpack
from typing import Any

import torch
from torch import Tensor, distributed

from tailmetrics._checks import check_count, check_row_mask, shape_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._inputs import FLOATS, Batch, Context, as_tensor, is_csr, rows_of_sequences
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._pieces import Best, Beyond, Standings, best_of, count_piece, merged, own_scores
from tailmetrics.ranking._ranking import DEFAULT_DEPTH, Ranking
from tailmetrics.ranking._reading import retrieved
from tailmetrics.ranking._scores import log_of, shift_of, terms_added_up
from tailmetrics.ranking._targets import Targets, read_batch_rows, read_target
from tailmetrics.ranking._validation import check_not_nan

CALLER = "rank_shards"
FAILED = -1
"""What a process says of itself whose arguments were refused."""


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
    """Rank a batch whose labels are split over processes, as by a tensor-parallel head; call it in each of them.

    Three collectives: what each process holds, a few numbers; its best labels and its scores of the relevant ones;
    and how many of its labels score more than those. None is as large as the scores.

    Every process gets the ranking of all labels. Add it in one process of the group, or make the metrics with
    ``sync_on_compute=False``, or with a ``process_group`` of processes that hold different rows: else a row counts
    once for every process.

    Args:
        scores: Shape (N, C), floating: the scores of the labels from ``first_label`` on, of the same rows everywhere.
        first_label: The first label that this process holds; together the processes hold each label once.
        target: What is relevant among all labels, as in :func:`rank`; the same on every process.
        depth: How many labels are ranked.
        row_mask: Shape (N,), bool; False drops a row.
        num_labels: L.
        group: The process group; None for all processes.
        ignore_index: Rows with this label do not count.
        row_groups: Shape (N,), integers: the row group of each row, -1 for none.
        row_weights: Shape (N,), numbers of at least 0: what each row weighs.
        validate_args: False skips the checks that read values.

    Returns:
        The ranking, with the bits that :func:`rank` gives for the whole matrix. What needs the scores themselves again
        is refused when it is asked for: thresholds, areas per label, areas by bucket with ``scope="bucket"``.

    Raises:
        TypeError: If an argument is of a kind that is not accepted.
        ValueError: On every process, if one of them has wrong arguments, or others than the rest.
    """
    group = distributed.group.WORLD if group is None else group
    try:
        given = Batch(scores, target, row_mask, row_groups, row_weights)
        context = Context(CALLER, num_labels, validate_args, ignore_index=ignore_index)
        shard = _read(context, given, first_label, depth)
    except Exception:
        _agree(None, depth, group)
        raise
    ends = _agree(shard, depth, group)
    best, own, largest = _exchange(shard, ends, depth, group)
    beyond = _BeyondShards(shard.targets.entries, num_labels, *_counted(shard, own, largest, group))
    ids = retrieved(shard.context, best.values[:, :depth], best.ids[:, :depth])
    rows = read_batch_rows(shard.context, len(ids), ids.device, shard.batch.row_groups, shard.batch.row_weights)
    complete = depth >= num_labels
    return Ranking(
        ids, complete, num_labels, best.values, None, shard.targets, rows, beyond=beyond, ignore_index=ignore_index
    )


@dataclass(frozen=True, eq=False)
class _Shard:
    """What one process holds."""

    context: Context
    batch: Batch
    scores: Tensor
    first: int
    targets: Targets

    @property
    def num_labels(self) -> int:
        assert self.context.num_labels is not None
        return self.context.num_labels


def _read(context: Context, given: Batch, first_label: int, depth: int) -> _Shard:
    """Read the arguments of one process."""
    caller = context.caller
    check_count(caller, "depth", depth)
    num_labels = check_count(caller, "num_labels", context.num_labels)
    first = check_count(caller, "first_label", first_label, minimum=0)
    scores = as_tensor(caller, "scores", given.preds).detach()
    if not scores.is_floating_point() or is_csr(scores) or scores.ndim < 2:
        raise TypeError(f"{caller}: scores is {shape_of(scores)}; pass dense floating scores [N, C].")
    if first + scores.shape[-1] > num_labels:
        raise ValueError(
            f"{caller}: scores hold the labels {first} to {first + scores.shape[-1] - 1}, but there are {num_labels}; "
            "check first_label and num_labels."
        )
    batch = rows_of_sequences(context, replace(given, preds=scores))
    scores = batch.preds
    row_mask = check_row_mask(caller, batch.row_mask, len(scores), scores.device)
    context = replace(context, row_mask=row_mask, kernels=kernels_for(scores.device))
    shape = torch.Size((len(scores), num_labels))
    targets = read_target(context, batch.target, len(scores), shape, scores.device).without_void()
    if context.validate and scores.shape[1]:
        check_not_nan(context, scores.amax(dim=1, keepdim=True))  # which NaN passes through
    return _Shard(context, batch, scores, first, targets)


def _agree(shard: _Shard | None, depth: int, group: Any) -> list[tuple[int, int]]:
    """Return the labels that each process holds, if all hold pieces of one batch; raise on all if they do not."""
    device = _device_of(group) if shard is None else shard.scores.device
    said = [FAILED] * 10
    if shard is not None:
        kind = FLOATS.index(shard.scores.dtype)
        entries = len(shard.targets.entries.ids)
        sizes = [len(shard.scores), entries, shard.num_labels, depth, kind, *_digest(shard)]
        said = [shard.first, shard.first + shard.scores.shape[1], *sizes]
    sent = torch.tensor(said, device=device)
    received = [torch.empty_like(sent) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(received, sent, group=group)
    if shard is None:
        return []
    first, *others = (one.tolist() for one in received)
    ends = [(start, stop) for start, stop, *_ in (first, *others)]
    for place, one in enumerate((first, *others)):
        if one[0] == FAILED:
            raise ValueError(f"{CALLER}: process {place} of the group refused its arguments, so nothing was ranked.")
        if one[2:] != first[2:]:
            _raise_different(first, one, place)
    held = sorted(end for end in ends if end[0] < end[1])
    gaps = zip([0, *(stop for _, stop in held)], [*(start for start, _ in held), shard.num_labels], strict=True)
    if any(stop != start for stop, start in gaps):
        listed = ", ".join(f"{start} to {stop - 1}" for start, stop in ends)
        raise ValueError(
            f"{CALLER}: the processes hold the labels {listed} of {shard.num_labels}; together they must hold each "
            "label once."
        )
    return ends


def _raise_different(first: list[int], other: list[int], place: int) -> None:
    names = ("number of rows", "number of relevant labels", "num_labels", "depth", "type of scores")
    for name, one, two in zip(names, first[2:7], other[2:7], strict=True):
        if one != two:
            one, two = (FLOATS[value] if name == "type of scores" else value for value in (one, two))  # type: ignore[assignment]
            raise ValueError(f"{CALLER}: the {name} is {one} on process 0 of the group and {two} on process {place}.")
    raise ValueError(
        f"{CALLER}: target or row_mask differ between process 0 of the group and process {place}; every process needs "
        "those of the same rows, over all labels."
    )


def _digest(shard: _Shard) -> tuple[int, ...]:
    """Return numbers that tell one target from another."""
    entries = shard.targets.entries
    found = sha256()
    if shard.context.validate:
        for part in (entries.rows, entries.ids, entries.gains, shard.context.row_mask):
            found.update(b"-" if part is None else part.cpu().contiguous().numpy().tobytes())
    return unpack(">3q", found.digest()[:24])


def _device_of(group: Any) -> torch.device:
    """Return a device whose tensors the group can send, for a process that knows of no other."""
    on_gpu = "nccl" in str(distributed.get_backend(group))
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def _exchange(shard: _Shard, ends: list[tuple[int, int]], depth: int, group: Any) -> tuple[Best, Tensor, Tensor]:
    """Return the best labels of all processes, the scores of the relevant ones, and the largest score of each row."""
    num_rows, entries = len(shard.scores), shard.targets.entries
    width = min(depth + 1, max(stop - start for start, stop in ends))
    values = shard.scores.new_full((num_rows, width), -torch.inf, dtype=torch.float64)
    ids = torch.full(values.shape, shard.num_labels, device=values.device)
    if shard.scores.shape[1]:
        best = best_of(shard.context.kernels, shard.scores, shard.first, width)
        values[:, : best.ids.shape[1]], ids[:, : best.ids.shape[1]] = best.values.to(values.dtype), best.ids
    own = shard.scores.new_full((len(entries.ids),), -torch.inf)
    own_scores(entries, shard.scores, shard.first, own)
    real = torch.cat([values.view(-1), own.to(torch.float64)])
    sent = torch.cat([real.view(torch.int64), ids.view(-1)])
    received = [torch.empty_like(sent) for _ in ends]
    distributed.all_gather(received, sent, group=group)
    lists, found = zip(*_unpacked(received, num_rows, width, shard.scores.dtype), strict=True)
    order = sorted(range(len(ends)), key=lambda place: ends[place])
    ordered = [lists[place] for place in order]
    best = merged(shard.context.kernels, ordered, min(depth + 1, shard.num_labels), in_order=True)
    return best, torch.stack(found).amax(dim=0), shift_of(best.values[:, 0])


def _unpacked(received: list[Tensor], num_rows: int, width: int, dtype: torch.dtype) -> Iterator[tuple[Best, Tensor]]:
    """Yield the best labels of each process, and its scores of the relevant labels."""
    cells = num_rows * width
    for one in received:
        real, ids = one[:-cells].view(torch.float64), one[len(one) - cells :]
        values = real[:cells].view(num_rows, width).to(torch.promote_types(dtype, torch.float32))
        yield Best(values, ids.view(num_rows, width)), real[cells:].to(dtype)


def _counted(shard: _Shard, own: Tensor, largest: Tensor, group: Any) -> tuple[Standings, tuple[Tensor, Tensor]]:
    """Return where the relevant labels stand among the labels of all processes, and the log-normaliser's parts."""
    counts = count_piece(shard.targets.entries, own, shard.scores, shard.first)
    _, sums = terms_added_up(shard.scores, largest, shard.num_labels)
    sent = torch.cat([counts.view(-1), sums.to(torch.int64).view(-1)])  # whole numbers below 2^53
    distributed.all_reduce(sent, group=group)
    counts, whole = sent[: counts.numel()].view(counts.shape), sent[counts.numel() :].view(sums.shape)
    return Standings(own, *counts), (largest, log_of(whole.to(sums.dtype), shard.num_labels))


class _BeyondShards(Beyond):
    """What the processes have told one another."""

    def __init__(self, entries: Entries, num_labels: int, standings: Standings, log_sum: tuple[Tensor, Tensor]) -> None:
        super().__init__(entries, num_labels)
        self._standings = standings
        self._log_sum = log_sum

    @property
    def standings(self) -> Standings:
        return self._standings

    @property
    def log_sum(self) -> tuple[Tensor, Tensor]:
        return self._log_sum

    def pieces(self) -> Iterator[tuple[int, Tensor]]:
        raise self._refused("thresholds")

    def standings_within(self, entries: Entries, buckets: LabelBuckets) -> Standings:
        raise self._refused("pairs within buckets (scope='bucket')")

    def _refused(self, what: str) -> ValueError:
        return ValueError(
            f"{CALLER}: {what} read the scores of all labels, which no process holds; use rank_chunks, or metrics of "
            "ranks, or scope='global'."
        )
