"""``Ranking``: a batch, ranked once, that every metric reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_count, check_ids_in_range, shape_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking import _inputs, _targets
from tailmetrics.ranking._counters import BucketCounters
from tailmetrics.ranking._device import reads_are_free, real_dtype
from tailmetrics.ranking._exact import exact_ranks, log_normaliser
from tailmetrics.ranking._hits import EVERYTHING, NOT_RANKED, Found, find, find_in_small
from tailmetrics.ranking._once import once
from tailmetrics.ranking._target_ranks import Placed, Slots, TargetRanks, placed, ranks_by_bucket
from tailmetrics.ranking._targets import Entries, Targets

DEFAULT_DEPTH = 500
"""How deep scores are ranked unless asked for otherwise, the thesis's top 500."""

Scope = Literal["bucket", "global"]


@dataclass(frozen=True, eq=False)
class Ranking(TargetRanks):
    """A batch of N rows ranked once, with what is relevant in each; made by :func:`rank` or the ``from_`` methods.

    Attributes:
        ids: Shape (N, K), int64; label ids, best first, -1 behind the end of a list.
        complete: Whether nothing retrieved is cut off: true of ids and candidates unless said otherwise, of scores
            only when all of them were ranked.
        num_labels: L, or None when no argument tells.
        values: The scores in the order of ``ids``, with one more behind the last where there is one; None for ids.
        scores: Shape (N, L), the dense scores it was made from; None otherwise.
    """

    ids: Tensor
    complete: bool
    num_labels: int | None
    values: Tensor | None = field(repr=False)
    scores: Tensor | None = field(repr=False)
    targets: Targets = field(repr=False)

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        *,
        depth: int = DEFAULT_DEPTH,
        target_ids: Any = None,
        target_mask: Any = None,
        target_gains: Any = None,
        row_mask: Any = None,
        validate_args: bool = True,
    ) -> Ranking:
        """Rank dense scores [N, L], or scored candidates ``(scores, ids)``, or CSR, down to ``depth``.

        The target goes in as ``target_ids`` ([N] or [N, M], -1 pads), ``target_mask`` (bool [N, L]) or
        ``target_gains`` ([N, L], dense or CSR; or [N, M] beside ``target_ids``).
        """
        target = _Explicit(target_ids, target_mask, target_gains)
        depth = check_count("Ranking.from_scores", "depth", depth)
        return _rank("Ranking.from_scores", scores, target, depth, row_mask, None, True, validate_args, scored=True)

    @classmethod
    def from_ids(
        cls,
        ids: Any,
        *,
        num_labels: int | None = None,
        target_ids: Any = None,
        target_mask: Any = None,
        target_gains: Any = None,
        complete: bool = True,
        row_mask: Any = None,
        validate_args: bool = True,
    ) -> Ranking:
        """Take label ids [N, K] that are ranked already, best first, -1 behind the end of a list.

        Args:
            ids: Shape (N, K), any integer type.
            num_labels: L; None when unknown.
            target_ids: Shape (N,) or (N, M), -1 pads.
            target_mask: Shape (N, L), bool.
            target_gains: Shape (N, L), dense or CSR; or (N, M) beside ``target_ids``.
            complete: False when the lists were cut and more was retrieved.
            row_mask: Shape (N,), bool; False drops a row.
            validate_args: False skips the checks that read values.
        """
        target = _Explicit(target_ids, target_mask, target_gains)
        return _rank("Ranking.from_ids", ids, target, None, row_mask, num_labels, complete, validate_args, scored=False)

    @property
    def num_rows(self) -> int:
        """N, rows that do not count included."""
        return len(self.ids)

    @property
    def depth(self) -> int:
        """K, the width of ``ids``."""
        return self.ids.shape[1]

    @property
    def max_k(self) -> int:  # type: ignore[override]
        """The deepest cut-off that the list can answer for."""
        return EVERYTHING if self.complete else self.depth

    @property
    def row_mask(self) -> Tensor | None:
        """Shape (N,), bool: the rows that count; None when all do."""
        return self.targets.row_mask

    @property
    def binary(self) -> bool:  # type: ignore[override]
        """Whether every relevant label has gain 1."""
        return self.targets.binary

    @property
    def n_relevant(self) -> Tensor:  # type: ignore[override]
        """Number of relevant labels per row, shape (N,), int64."""
        return self.targets.n_relevant

    @once
    def length(self) -> Tensor:
        """Number of labels in each list, shape (N,), int64."""
        return (self.ids >= 0).sum(dim=1)

    @once
    def gains(self) -> Tensor:
        """Gain of each listed label, 0 where it is not relevant, shape (N, K), float64."""
        found = self._found
        cells = torch.zeros(self.ids.numel() + 1, dtype=real_dtype(self.ids.device), device=self.ids.device)
        place = (found.rows * self.depth + found.ranks - 1).clamp(max=self.ids.numel())
        gains = torch.ones_like(place, dtype=cells.dtype) if found.gains is None else found.gains
        return cells.scatter_(0, place, gains)[:-1].view(self.ids.shape)

    @property
    def target_ranks(self) -> Tensor:  # type: ignore[override]
        """Ranks from 1 of the relevant labels in the list, ascending, shape (N, W), int64."""
        return self._hits[0]

    @property
    def target_ids(self) -> Tensor:  # type: ignore[override]
        """The labels at ``target_ranks``, shape (N, W), int64."""
        return self._hits[1]

    @once
    def target_gains(self) -> Tensor:
        """The gains at ``target_ranks``, shape (N, W), float64."""
        gains = None if self.binary else self._found.gains
        if gains is not None:
            return self._slots.place(gains, 0.0)
        one = torch.ones((), dtype=real_dtype(self.ids.device), device=self.ids.device)
        return one.expand(self.target_ranks.shape)

    def _keyed_entries(self) -> tuple[Tensor, int, Entries]:
        entries = self.targets.entries
        keys = entries.rows
        if not reads_are_free(keys.device):
            keys = torch.where(entries.ids >= 0, keys, self.num_rows)
        return keys, self.num_rows, entries

    @once
    def _found(self) -> Found:
        return find(self.targets, self.ids)

    @once
    def _hits(self) -> tuple[Tensor, Tensor]:
        """Ranks and labels of the hits."""
        small = find_in_small(self.targets, self.ids)
        if small is not None:
            return small
        return self._slots.place(self._found.ranks, NOT_RANKED), self._slots.place(self._found.ids, -1)

    @once
    def _slots(self) -> Slots:
        return Slots(self._found.rows, self.num_rows, self._found.width)

    @once
    def _found_anywhere(self) -> Found:
        """The relevant labels with their exact ranks among all labels, however deep."""
        if self.scores is None or self.complete:
            return self._found
        entries = self.targets.entries
        ranks = exact_ranks(self.scores, entries)
        order = ranks.argsort(stable=True)
        order = order[entries.rows[order].argsort(stable=True)]
        gains = None if entries.gains is None else entries.gains[order]
        return Found(entries.rows[order], entries.ids[order], ranks[order], gains, entries.width)

    @once
    def exact(self) -> TargetRanks:
        """The ranks with exact ranks among everything retrieved; needs scores or complete lists."""
        if self.scores is None or self.complete:
            return self
        args = self.n_relevant, self.length, self.num_labels, self._keyed_entries, EVERYTHING
        return placed(self._found_anywhere, self._found_anywhere.rows, *args)

    def by_bucket(
        self, buckets: LabelBuckets, scope: Scope = "bucket", depth: int = DEFAULT_DEPTH, exact: bool = False
    ) -> Placed:
        """Return the ranks restricted to each bucket's labels, with a bucket axis behind the row axis.

        Args:
            buckets: G buckets.
            scope: ``"bucket"`` ranks the labels of a bucket among themselves, within the top ``depth``; ``"global"``
                keeps the rank in the whole list, so that only what counts as relevant is restricted.
            depth: How much of the list ``scope="bucket"`` reads.
            exact: With ``scope="global"``: exact ranks, however deep.

        Raises:
            ValueError: If the list was cut above ``depth``.
        """
        if scope == "bucket" and depth > self.max_k:
            raise ValueError(
                f"Ranking.by_bucket: depth={depth} is deeper than the ranking ({self.depth} ids per row); "
                f"rank again with depth={depth}, or pass the depth there is."
            )
        memo = (buckets.digest, scope, depth if scope == "bucket" else None, exact)
        if memo not in self._by_bucket:
            found = self._found_anywhere if exact else self._found
            length = self.length[:, None].expand(-1, len(buckets))
            if scope == "bucket":
                counters = self._counters(buckets, depth)
                found, length = _within_buckets(self._found, counters, self.num_rows, min(depth, self.depth))
            max_k = EVERYTHING if scope == "bucket" or exact else self.max_k
            self._by_bucket[memo] = ranks_by_bucket(
                found, buckets, self.targets.entries, self.num_rows, length, self.num_labels, max_k
            )
        ranks: Placed = self._by_bucket[memo]
        return ranks

    @once
    def _by_bucket(self) -> dict[object, Any]:
        return {}

    def _counters(self, buckets: LabelBuckets, depth: int) -> BucketCounters:
        memo = (buckets.digest, depth)
        if memo not in self._by_bucket:
            self._by_bucket[memo] = BucketCounters(buckets.of(self.ids[:, :depth]), len(buckets))
        counters: BucketCounters = self._by_bucket[memo]
        return counters

    def listed_ranks(self, buckets: LabelBuckets | None, scope: Scope, depth: int) -> Tensor:
        """Return the rank that ``scope`` gives to each listed label, shape (N, K) or (N, depth), int64."""
        if buckets is None or scope == "global":
            return torch.arange(1, self.depth + 1, device=self.ids.device).expand(self.ids.shape)
        listed = self.ids[:, :depth]
        flat = torch.arange(listed.numel(), device=listed.device)
        return self._counters(buckets, depth).ranks(flat).view(listed.shape)

    @once
    def log_normaliser(self) -> Tensor:
        """Log Σ exp(score) over all labels of each row, shape (N,), float64; needs dense scores."""
        assert self.scores is not None
        return log_normaliser(self.scores)

    def check_ids_below(self, caller: str, num_labels: int) -> None:
        """Raise unless listed and relevant labels are below ``num_labels``, for lists that do not tell L."""
        if num_labels not in self._by_bucket:
            check_ids_in_range(caller, "preds", self.ids, num_labels, None)
            check_ids_in_range(caller, "target", self.targets.entries.ids, num_labels, None)
            self._by_bucket[num_labels] = True

    def tied_at(self, k: int) -> Tensor:
        """Whether the first label left out of the top ``k`` scores the same as the last one in it, shape (N,), bool.

        Only ids decide which of them is shown: many such rows mean a model that says little, whatever its metrics.
        """
        if self.values is None or self.values.shape[1] <= k:
            return self.ids.new_zeros(self.num_rows, dtype=torch.bool)
        tied = (self.values[:, k - 1] == self.values[:, k]) & (self.values[:, k] > -torch.inf)
        return tied if self.row_mask is None else tied & self.row_mask


def _within_buckets(found: Found, counters: BucketCounters, num_rows: int, depth: int) -> tuple[Found, Tensor]:
    """Return ``found`` with the ranks among the labels of the same bucket, and the length of each bucket's list."""
    inside = found.ranks <= depth
    if reads_are_free(found.ranks.device) and not bool(inside.all()):
        gains = None if found.gains is None else found.gains[inside]
        found = Found(found.rows[inside], found.ids[inside], found.ranks[inside], gains, found.width)
        inside = found.ranks <= depth
    place = torch.where(inside, found.rows * depth + found.ranks - 1, 0)
    ranks = counters.ranks(place) if num_rows * depth else found.ranks
    ranks = torch.where(inside, ranks, NOT_RANKED)
    return Found(found.rows, found.ids, ranks, found.gains, found.width), counters.totals()


@dataclass(frozen=True)
class _Explicit:
    """The target in one of the forms that leave nothing to guess."""

    ids: Any
    mask: Any
    gains: Any


def rank(
    preds: Any,
    target: Any,
    depth: int = DEFAULT_DEPTH,
    row_mask: Any = None,
    *,
    num_labels: int | None = None,
    validate_args: bool = True,
) -> Ranking:
    """Rank a batch once, for any number of metrics.

    Args:
        preds: Floating (N, L), scores, ``-inf`` for a label that is not retrieved; integer (N, K), label ids already
            ranked, best first, -1 behind the end; a pair of scores (N, C) and ids (N, C), scored candidates in any
            order; sparse CSR (N, L) of torch or scipy, stored entries are the candidates' scores.
        target: Integer (N,), one relevant label per row, -1 for none; integer (N, M), relevant label ids, -1 pads;
            bool (N, L), multi-hot; floating (N, L), gains, relevant where > 0; integer (N, L) of the shape of score
            ``preds``, multi-hot or gains, never ids; sparse CSR (N, L), stored values are gains.
        depth: How deep scores are ranked. Ids and candidates are kept whole.
        row_mask: Shape (N,), bool; False drops a row, such as a sampler's padding.
        num_labels: L, where neither ``preds`` nor ``target`` tells.
        validate_args: False skips the checks that read values; they make a GPU wait.

    Returns:
        The ranking; equal scores rank the lower label id first.

    Raises:
        TypeError: If an argument is of a kind that is not listed above.
        ValueError: If shapes do not fit, scores are NaN, ids repeat in a row or are out of range.
    """
    depth = check_count("rank", "depth", depth)
    return _rank("rank", preds, target, depth, row_mask, num_labels, True, validate_args)


def rank_for(
    caller: str,
    preds: Any,
    target: Any,
    depth: int,
    whole: bool,
    row_mask: Any,
    num_labels: int | None,
    validate: bool,
) -> Ranking:
    """Rank a batch for metrics that read the first ``depth`` labels, or whole lists of ids and candidates."""
    return _rank(caller, preds, target, depth, row_mask, num_labels, True, validate, cut=None if whole else depth)


def _rank(
    caller: str,
    preds: Any,
    target: Any,
    depth: int | None,
    row_mask: Any,
    num_labels: int | None,
    complete: bool,
    validate: bool,
    scored: bool | None = None,
    cut: int | None = None,
) -> Ranking:
    if num_labels is not None:
        check_count(caller, "num_labels", num_labels)
    pair, preds = _read_preds(caller, preds, scored)
    if preds.ndim != 2:
        raise ValueError(
            f"{caller}: preds is {shape_of(preds)}; pass shape [N, L] for scores or [N, K] for ranked ids "
            "(a single row needs a row axis: preds[None])."
        )
    num_rows = preds.shape[0]
    dense = pair is None and preds.is_floating_point() and preds.layout == torch.strided
    has_width = dense or _inputs.is_csr(preds)
    if has_width and num_labels is not None and preds.shape[1] != num_labels:
        raise ValueError(
            f"{caller}: preds has {preds.shape[1]} columns, but there are {num_labels} labels; pass one per label."
        )
    num_labels = preds.shape[1] if has_width else num_labels
    row_mask = _inputs.read_row_mask(caller, row_mask, preds)
    shape = preds.shape if has_width else None
    targets = _read_target(caller, target, num_rows, num_labels, shape, row_mask, validate, preds.device)
    num_labels = targets.num_labels if num_labels is None else num_labels
    if dense:
        lists = _inputs.lists_from_scores(caller, preds, depth or preds.shape[1], row_mask, validate)
    elif _inputs.is_csr(preds):
        lists = _inputs.lists_from_csr(caller, preds, depth if cut is not None else None, row_mask, validate)
    elif pair is not None:
        lists = _inputs.lists_from_candidates(caller, preds, pair, num_labels, row_mask, validate)
    else:
        lists = _inputs.lists_from_ids(caller, preds, num_labels, row_mask, complete, validate)
    lists = _inputs.cut(lists, cut)
    return Ranking(lists.ids, lists.complete, num_labels, lists.values, preds.detach() if dense else None, targets)


def read_training_target(
    caller: str, target: Any, target_ids: Any, row_mask: Any, num_labels: int, validate: bool
) -> Targets:
    """Read a target that comes without ``preds``; integers of width ``num_labels`` are a matrix."""
    if isinstance(target, Ranking) and target_ids is None and row_mask is None:
        return target.targets
    if (target is None) == (target_ids is None):
        got = "both target and target_ids" if target is not None else "neither target nor target_ids"
        raise TypeError(f"{caller}: got {got}; pass one of them.")
    argument, value = ("target", target) if target_ids is None else ("target_ids", target_ids)
    value = _inputs.as_tensor(caller, argument, value)
    given = value if target_ids is None else _Explicit(value, None, None)
    row_mask = _inputs.read_row_mask(caller, row_mask, value)
    num_rows = value.shape[0] if value.ndim else 0
    shape = torch.Size((num_rows, num_labels))
    return _read_target(caller, given, num_rows, num_labels, shape, row_mask, validate, value.device)


def _read_preds(caller: str, preds: Any, scored: bool | None) -> tuple[Tensor | None, Tensor]:
    """Return the ids of a pair (None otherwise) and the scores or ids."""
    if isinstance(preds, (tuple, list)) and len(preds) == 2 and scored is not False:
        scores = _inputs.as_tensor(caller, "preds[0]", preds[0])
        ids = _inputs.as_tensor(caller, "preds[1]", preds[1])
        if _inputs.is_csr(scores) or _inputs.is_csr(ids):
            raise TypeError(f"{caller}: preds is a pair with a CSR matrix; pass dense scores [N, C] and ids [N, C].")
        if scores.device != ids.device:
            raise ValueError(f"{caller}: preds is a pair on {scores.device} and {ids.device}; move both to one device.")
        return ids, scores
    preds = _inputs.as_tensor(caller, "preds", preds)
    if preds.dtype not in INTEGERS and not preds.is_floating_point():
        raise TypeError(f"{caller}: preds is {shape_of(preds)}; pass floating scores or integer ids.")
    if scored is False and preds.is_floating_point():
        raise TypeError(
            f"{caller}: ids is {shape_of(preds)}; label ids are integers. Scores go to Ranking.from_scores."
        )
    if scored is True and not preds.is_floating_point():
        raise TypeError(f"{caller}: scores is {shape_of(preds)}; scores are floating. Ids go to Ranking.from_ids.")
    return None, preds


def _read_target(
    caller: str,
    target: Any,
    num_rows: int,
    num_labels: int | None,
    scores_shape: torch.Size | None,
    row_mask: Tensor | None,
    validate: bool,
    device: torch.device,
) -> Targets:
    gains = None
    argument = "target"
    if isinstance(target, _Explicit):
        argument, target, gains = _choose(caller, target)
    target = _inputs.as_tensor(caller, argument, target)
    if target.device != device:
        raise ValueError(f"{caller}: {argument} is on {target.device}, preds on {device}; move both to one device.")
    if target.ndim not in (1, 2) or target.shape[0] != num_rows:
        raise ValueError(
            f"{caller}: {argument} is {shape_of(target)}, but preds has {num_rows} rows; pass one row of target per "
            "row of preds: [N], [N, M] or [N, L]."
        )
    if _inputs.is_csr(target):
        return _targets.targets_from_csr(caller, argument, target, num_labels, row_mask, validate)
    is_matrix = argument in ("target_mask", "target_gains") or (
        argument == "target" and target.ndim == 2 and (target.dtype not in INTEGERS or target.shape == scores_shape)
    )
    if is_matrix and target.ndim != 2:
        raise ValueError(f"{caller}: {argument} is {shape_of(target)}; pass shape [N, L], one column per label.")
    if is_matrix:
        return _targets.targets_from_matrix(caller, argument, target, num_labels, row_mask, validate)
    return _targets.targets_from_ids(caller, argument, target, num_labels, row_mask, gains, validate)


def _choose(caller: str, given: _Explicit) -> tuple[str, Any, Tensor | None]:
    """Return the name and value of the one target given, and the gains that go with ids."""
    named = {"target_ids": given.ids, "target_mask": given.mask, "target_gains": given.gains}
    present = [name for name, value in named.items() if value is not None]
    if present == ["target_ids", "target_gains"]:
        return "target_ids", given.ids, _inputs.as_tensor(caller, "target_gains", given.gains)
    if len(present) != 1:
        raise TypeError(
            f"{caller}: got {' and '.join(present) or 'no target'}; pass one of target_ids, target_mask, target_gains "
            "(or target_gains beside target_ids, one gain per id)."
        )
    if present == ["target_mask"]:
        mask = _inputs.as_tensor(caller, "target_mask", given.mask)
        if mask.dtype != torch.bool:
            raise TypeError(f"{caller}: target_mask is {shape_of(mask)}; pass bool of shape [N, L].")
    return present[0], named[present[0]], None
