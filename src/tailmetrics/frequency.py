"""How often each label occurs in training, counted while streaming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import INTEGERS, check_count, check_counts, shape_of
from tailmetrics._exact_metric import ExactMetric, writable
from tailmetrics._signatures import TorchMetricsArguments
from tailmetrics.buckets import EqualCounts, LabelBuckets, QuantileBy
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._batch import Batch, Context, ExplicitTarget
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._matrices import any_by_row
from tailmetrics.ranking._reading import read_target
from tailmetrics.ranking._rows import per_row, without_ignored
from tailmetrics.ranking._tensors import as_tensor, target_as_tensor
from tailmetrics.ranking._warnings import warn_outside, warning_of_padded_lists


@final
class LabelFrequency(ExactMetric):
    """Training count of every label, shape (L,), int64.

    It is streamed, merged, synchronised and checkpointed as any metric. Metrics read
    from it which labels are head and which are tail. ``compute`` and the methods that
    make buckets add up the counts of all ranks, so call them on every rank.

    Args:
        num_labels: L.
        validate_args: False skips the checks of values in tensors, for which the CPU
            waits for the GPU.
        kwargs: See :class:`torchmetrics.Metric`.

    >>> frequency = LabelFrequency(num_labels=4)
    >>> frequency.update(torch.tensor([[0, 2], [0, -1]]))
    >>> frequency.compute()
    tensor([2, 0, 1, 0])
    >>> frequency.deciles().names[0]
    'decile_10'
    """

    counts: Tensor
    rows: Tensor

    def __init__(
        self,
        num_labels: int,
        *,
        validate_args: bool = True,
        **kwargs: Unpack[TorchMetricsArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.validate_args = validate_args
        self.num_labels = check_count("LabelFrequency", "num_labels", num_labels)
        self.add_state(
            "counts",
            torch.zeros(self.num_labels, dtype=torch.int64),
            dist_reduce_fx="sum",
        )
        self.add_state("rows", torch.zeros(1, dtype=torch.int64), dist_reduce_fx="sum")
        self._is_locked = True

    @classmethod
    def from_counts(cls, counts: Any, num_rows: int, **kwargs: Any) -> LabelFrequency:
        """Return a ``LabelFrequency`` of training counts that were counted elsewhere.

        The counts must be those of all ranks together: every rank passes the same
        counts, and they are not added up.

        Args:
            counts: Shape (L,), whole numbers: training count of every label.
            num_rows: Number of training rows.
            kwargs: See :class:`LabelFrequency`.

        >>> LabelFrequency.from_counts([5, 0, 1], num_rows=6).compute()
        tensor([5, 0, 1])
        """
        counts = check_counts("LabelFrequency.from_counts", "counts", counts)
        num_rows = check_count(
            "LabelFrequency.from_counts", "num_rows", num_rows, minimum=0
        )
        frequency = cls(len(counts), **{"sync_on_compute": False, **kwargs})
        frequency.counts = counts
        frequency.rows = counts.new_tensor([num_rows])
        frequency._update_count = 1
        return frequency

    def extra_repr(self) -> str:
        """Return the number of labels, for ``repr``."""
        return f"num_labels={self.num_labels}"

    def update(
        self,
        target: Any = None,
        row_mask: Any = None,
        *,
        target_ids: Any = None,
        ignore_index: int | None = None,
    ) -> None:
        """Count the labels of a batch.

        Args:
            target: Integer (N,) or (N, M) label ids, -1 pads, each counted as often as
                it stands there. They are N rows: of tokens (B, T), each of which is a
                row, say ``ignore_index`` or pass them flattened. Or bool or floating
                (N, L), relevant where > 0; integer (N, L) of 0 and 1; sparse CSR (N,
                L). Or a :class:`Ranking`, alone.
            row_mask: Shape (N,), bool; False drops a row. Of tokens (B, T) it is (B,)
                or (B, T).
            target_ids: Label ids (N,) or (N, M) in place of ``target``, which are N
                rows in any case; use it for lists of labels whose width M may equal L,
                or beside ``ignore_index``.
            ignore_index: A label that does not count, nor a row that holds nothing
                else. Each label id of ``target`` is then a row: tokens (B, T) are B·T
                rows.

        Raises:
            ValueError: If integers (N, L) may be ids as well as a matrix: they hold
                numbers other than 0 and 1, or ``ignore_index`` is given.
        """
        if isinstance(target, Ranking) and target_ids is None and row_mask is None:
            targets = target.targets
            if ignore_index is not None:
                targets = _without_label(targets, ignore_index)
        else:
            targets = self._targets(target, target_ids, row_mask, ignore_index)
        if targets.device != self.counts.device:
            raise ValueError(
                f"LabelFrequency: target is {shape_of(target)} on {targets.device}, "
                f"the counts are on {self.counts.device}; move the metric with "
                f".to({str(targets.device)!r})."
            )
        self.counts = writable(self.counts)
        self.rows = writable(self.rows)
        self.counts.scatter_add_(0, *targets.kernels.occurrences(targets))
        if targets.row_mask is None:
            self.rows += targets.num_rows
        else:
            self.rows += targets.row_mask.sum()

    def _targets(
        self, target: Any, target_ids: Any, row_mask: Any, ignore_index: int | None
    ) -> Targets:
        """Return the labels of a batch.

        Warn if padded lists of the first batch look like labels.
        """
        if target is None and target_ids is None:
            raise TypeError(
                "LabelFrequency: got neither target nor target_ids; pass one of them."
            )
        if target is not None and target_ids is not None:
            raise TypeError(
                "LabelFrequency: got both target and target_ids; pass one of them."
            )
        if target_ids is not None:
            target = ExplicitTarget(ids=target_ids)
        context = Context(
            "LabelFrequency", validate=self.validate_args, ignore_index=ignore_index
        )
        targets = _targets_without_preds(
            context, Batch(None, target, row_mask), self.num_labels
        )

        is_first_batch = self._update_count == 1
        if is_first_batch and self.validate_args and targets.padded is not None:
            remedy = "pass the lists as target_ids, and ignore_index={label}"
            text = warning_of_padded_lists("LabelFrequency", targets.padded, remedy)
            if text is not None:
                warn_outside(text)
        return targets

    def compute(self) -> Tensor:
        """Return the counts over all ranks, shape (L,), int64."""
        return self.counts.clone()

    @property
    def num_rows(self) -> int:
        """Number of rows counted over all ranks.

        Reading it synchronises, so read it on every rank.
        """
        with self.over_all_processes():
            return int(self.rows)

    def deciles(self, names: Sequence[str] | None = None) -> LabelBuckets:
        """Return :meth:`LabelBuckets.deciles` of the counts over all ranks."""
        return LabelBuckets.deciles(self.compute(), names)

    def quantiles(
        self,
        n: int,
        by: QuantileBy = "mass",
        ties: EqualCounts = "split",
        names: Sequence[str] | None = None,
    ) -> LabelBuckets:
        """Return :meth:`LabelBuckets.quantiles` of the counts over all ranks."""
        return LabelBuckets.quantiles(self.compute(), n, by=by, ties=ties, names=names)

    def thresholds(
        self, edges: Sequence[int], names: Sequence[str] | None = None
    ) -> LabelBuckets:
        """Return :meth:`LabelBuckets.thresholds` of the counts over all ranks."""
        return LabelBuckets.thresholds(self.compute(), edges, names)


def _targets_without_preds(context: Context, batch: Batch, num_labels: int) -> Targets:
    """Return the labels of a batch that comes without ``preds``.

    Integers of width ``num_labels`` are a matrix. With an ``ignore_index`` each label
    of ``target`` is a row.

    Raises:
        ValueError: If integers of width ``num_labels`` may be ids as well as gains.
    """
    batch.form, batch.target, batch.gains = target_as_tensor(
        context.caller, batch.target
    )
    if batch.row_mask is not None:
        batch.row_mask = as_tensor(context.caller, "row_mask", batch.row_mask)
    ignore_index, holds_ids = context.ignore_index, False
    if ignore_index is not None or context.validate:
        # raises for what may be either
        holds_ids = _holds_ids(context, batch, num_labels)
        if ignore_index is not None and holds_ids:
            if batch.form == "target":
                _flatten_tokens(context, batch, ignore_index)
            without_ignored(context.caller, batch, ignore_index)

    target = batch.target
    if not target.ndim:
        raise ValueError(
            f"{context.caller}: {batch.form} is {shape_of(target)}, one number without "
            "an axis of rows; pass an id or a list of ids per row, such as "
            f"{batch.form}.reshape(1)."
        )
    num_rows = target.shape[0]
    if batch.row_mask is not None:
        context.row_mask = per_row(
            context.caller, "row_mask", batch.row_mask, num_rows, target.device
        )
    context.num_labels = num_labels
    context.kernels = kernels_for(target.device)
    context.counts_repeats = True
    targets = read_target(
        context, batch, num_rows, torch.Size((num_rows, num_labels)), target.device
    )
    if ignore_index is not None and not holds_ids:
        targets = _without_label(targets, ignore_index)
    return targets


def _without_label(targets: Targets, label: int) -> Targets:
    """Return targets without a label.

    A row that holds nothing else does not count; a row without labels does.
    """
    # as -100: no column of a matrix has this number, and its entries need not be read
    if label < 0:
        return targets
    entries = targets.entries
    is_label = entries.ids == label
    is_other = (entries.ids >= 0) & ~is_label
    holds_label = any_by_row(is_label, entries.rows, targets.num_rows)
    row_mask = any_by_row(is_other, entries.rows, targets.num_rows) | ~holds_label
    if targets.row_mask is not None:
        row_mask &= targets.row_mask
    void = replace(entries, ids=torch.where(is_label, -1, entries.ids))
    return replace(
        targets.with_entries(targets.kernels.without_void(void)), row_mask=row_mask
    )


def _holds_ids(context: Context, batch: Batch, num_labels: int) -> bool:
    """Return whether a target holds ids of labels rather than a matrix.

    Raises:
        ValueError: If integers of width ``num_labels`` may be either.
    """
    target = batch.target
    if (
        batch.form not in ("target", "target_ids")
        or target.dtype not in INTEGERS
        or target.is_sparse_csr
    ):
        return False
    has_width_of_labels = (
        batch.form == "target"
        and target.shape[1:] == (num_labels,)
        and target.numel() > 0
    )
    return not (has_width_of_labels and _is_multi_hot(context, target))


def _flatten_tokens(context: Context, batch: Batch, ignore_index: int) -> None:
    """Make each token of a target (B, T) a row.

    The row mask is of texts (B,) or of tokens (B, T).
    """
    target: Tensor = batch.target
    if (
        context.validate
        and target.ndim == 2
        and ignore_index != -1
        and bool((target == -1).any())
    ):
        warn_outside(
            f"{context.caller}: target holds -1, as padded lists do, but beside "
            "ignore_index each place of it is a row of its own, so that num_rows is "
            "too large for lists. Pass lists as target_ids=."
        )
    batch.target = target.reshape(-1)
    row_mask: Tensor | None = batch.row_mask
    if row_mask is None:
        return
    if target.ndim == 2 and row_mask.shape == target.shape[:1]:
        row_mask = row_mask[:, None]
    if row_mask.ndim == target.ndim:
        row_mask = row_mask.expand_as(target)
    batch.row_mask = row_mask.reshape(-1)


def _is_multi_hot(context: Context, target: Tensor) -> bool:
    """Return whether integers (N, L) are only 0 and 1.

    Raises:
        ValueError: If they may be ids as well as gains.
    """
    low, high = (int(end) for end in torch.aminmax(target))
    is_multi_hot = low >= 0 and high <= 1
    if context.ignore_index is None and not is_multi_hot:
        wrong = low if low < 0 else high
        hint = f" ignore_index={low} leaves out the label {low}." if low < -1 else ""
        raise ValueError(
            f"{context.caller}: target is {shape_of(target)}, as wide as there are "
            f"labels, and holds {wrong}: these may be label ids or gains. Pass tokens "
            "flattened, so that each is a row, target.reshape(-1); lists of ids as "
            f"target_ids=; a matrix as target > 0.{hint}"
        )
    if context.ignore_index is not None and is_multi_hot and target.shape[1] > 1:
        raise ValueError(
            f"{context.caller}: target is {shape_of(target)}, as wide as there are "
            f"labels, and holds only 0 and 1: with ignore_index={context.ignore_index} "
            "these may be tokens or a matrix. Pass tokens flattened, "
            "target.reshape(-1); lists of ids as target_ids=; a matrix as target > 0."
        )
    return is_multi_hot
