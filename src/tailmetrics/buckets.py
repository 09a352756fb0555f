"""Labels grouped from most to least frequent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from math import inf
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import Tensor

from tailmetrics._arguments import check_choice, check_count, check_counts, shape_of

QuantileBy: TypeAlias = Literal["mass", "labels"]
EqualCounts: TypeAlias = Literal["split", "together"]


class LabelBuckets:
    """An assignment of every label to one bucket, head first; immutable, shared by any number of metrics.

    Made by :meth:`deciles`, :meth:`quantiles`, :meth:`thresholds` or :meth:`from_assignment`. Copies of a metric share
    one object, and each device holds one table of the buckets for all metrics.

    Attributes:
        assignment: Shape (L,), int64; the bucket of each label, an index into ``names``.
        names: Bucket names from the most frequent labels to the rarest.
        counts: Shape (L,), int64 training counts, or None when unknown.
        num_labels: L, all labels in all buckets.
        sizes: How many labels each bucket holds.
        ordered: Whether buckets go from head to tail; chapters do not, and have no gap.
        digest: SHA-256 of names and assignment; equal buckets have equal digests in every process.

    >>> buckets = LabelBuckets.quantiles([4, 2, 1, 1, 0], 2)
    >>> buckets.names
    ('quantile_2', 'quantile_1', 'unseen')
    >>> buckets.assignment.tolist()
    [0, 1, 1, 1, 2]
    """

    def __init__(self, assignment: Tensor, names: Sequence[str], counts: Tensor | None, ordered: bool = True) -> None:
        self.assignment, self.ordered = assignment, ordered
        self.names = tuple(names)
        self.counts = counts
        self.num_labels = assignment.numel()
        self.digest = sha256(repr(self.names).encode() + assignment.contiguous().numpy().tobytes()).hexdigest()
        self.sizes: tuple[int, ...] = tuple(torch.bincount(assignment, minlength=len(self.names)).tolist())
        self._tables: dict[object, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse changes after construction: the digest, tables and names of states depend on the attributes."""
        if "_tables" in vars(self):
            raise AttributeError(f"LabelBuckets: {name} cannot be set; make other buckets, such as from_assignment(…).")
        super().__setattr__(name, value)

    @classmethod
    def deciles(cls, counts: Any) -> LabelBuckets:
        """Return ten buckets, each with about a tenth of the label occurrences, and ``unseen``.

        ``decile_10`` holds the most frequent labels, ``decile_1`` the rarest.

        Args:
            counts: Shape (L,), whole numbers: how often each label occurs in training; or a ``LabelFrequency``.
        """
        return cls.quantiles(check_counts("LabelBuckets.deciles", "counts", counts), 10)

    @classmethod
    def quantiles(cls, counts: Any, n: int, by: QuantileBy = "mass", ties: EqualCounts = "split") -> LabelBuckets:
        """Return ``n`` buckets of about equal size, and ``unseen`` for labels that never occur.

        Labels are placed from the most to the least frequent one (equal counts: lower id first). When a bucket opens, R
        is the mass of the labels not yet placed, and b the number of buckets left, this bucket included. The bucket
        closes as soon as its mass m has m·b >= R. So no bucket is empty as long as labels remain, even if one label
        holds more than the share of a bucket.

        Args:
            counts: Shape (L,), whole numbers: how often each label occurs in training; or a ``LabelFrequency``.
            n: Number of buckets.
            by: What is equal in size: ``"mass"``, the sum of the counts; ``"labels"``, the number of seen labels.
            ties: ``"split"``: a boundary may fall between labels of equal count; their ids then decide on which side
                they are, and :meth:`labels_by_id` counts them. ``"together"`` moves the boundary behind them.
        """
        caller = "LabelBuckets.quantiles"
        counts = check_counts(caller, "counts", counts)
        n = check_count(caller, "n", n)
        check_choice(caller, "by", by, QuantileBy)
        check_choice(caller, "ties", ties, EqualCounts)
        ordered, order = torch.sort(counts, descending=True, stable=True)
        seen = int((counts > 0).sum())
        mass = (ordered if by == "mass" else torch.ones_like(ordered))[:seen].cumsum(0)
        assignment = torch.full_like(counts, n)
        start = 0
        for bucket in range(n):
            stop = start
            if start < seen:
                placed = int(mass[start - 1]) if start else 0
                needed = placed - (placed - int(mass[-1])) // (n - bucket)  # + the least whole m with m·b >= R
                stop = int(torch.searchsorted(mass, needed)) + 1
            if ties == "together" and start < stop < seen:
                stop += int((ordered[stop:seen] == ordered[stop - 1]).sum())
            assignment[order[start:stop]] = bucket
            start = stop
        stem = "decile" if n == 10 else "quantile"
        return cls(assignment, [*(f"{stem}_{number}" for number in range(n, 0, -1)), "unseen"], counts)

    @classmethod
    def thresholds(cls, counts: Any, edges: Sequence[int], names: Sequence[str] | None = None) -> LabelBuckets:
        """Return one bucket per edge: a label belongs to the largest edge that its count reaches.

        Seen labels that reach no edge share a bucket below the first one; labels never seen are ``unseen``.

        Args:
            counts: Shape (L,), whole numbers: how often each label occurs in training; or a ``LabelFrequency``.
            edges: Ascending counts of at least 1, in a sequence or an array; ``(1, 5, 100)`` gives ``100+``, ``5-99``,
                ``1-4`` and ``unseen``. An edge is the least count of its bucket: "more than 100" is the edge 101.
            names: What to call the buckets of seen labels, such as ``("many", "medium", "few")``. Edges ascend, names
                go from the most frequent to the rarest.
        """
        caller = "LabelBuckets.thresholds"
        counts = check_counts(caller, "counts", counts)
        edges = edges.tolist() if hasattr(edges, "tolist") else edges  # an array, a tensor or a column of a table
        if not isinstance(edges, Sequence) or isinstance(edges, str):
            raise TypeError(f"{caller}: edges={edges!r} is no sequence; pass ascending counts such as (1, 5, 100).")
        ascending = [check_count(caller, "edges", edge) for edge in edges]
        if not ascending or sorted(set(ascending)) != ascending:
            raise ValueError(
                f"{caller}: edges={list(edges)} must ascend without repeats; pass edges such as (1, 5, 100)."
            )
        lows = ascending if ascending[0] == 1 else [1, *ascending]
        reached = torch.bucketize(counts, torch.tensor(lows), right=True)
        ranges = [f"{low}-{high - 1}" if high - 1 > low else f"{low}" for low, high in pairwise(lows)]
        own = [f"{lows[-1]}+", *reversed(ranges)]
        if names is not None and len(names) != len(own):
            raise ValueError(
                f"{caller}: names={list(names)} are {len(names)} for the buckets {', '.join(own)}; name each seen "
                "bucket, the most frequent first."
            )
        wrong = None if names is None else _contradiction(names, lows)
        if names is not None and wrong is not None:
            right = names[::-1] if _contradiction(names[::-1], lows) is None else own
            raise ValueError(
                f"{caller}: names={list(names)} gives the name {names[wrong]!r} to the bucket {own[wrong]}; edges "
                f"ascend, but names begin with the most frequent labels: pass {','.join(right)}."
            )
        return cls.from_assignment(len(lows) - reached, [*(own if names is None else names), "unseen"], counts)

    @classmethod
    def from_assignment(cls, assignment: Any, names: Sequence[str], counts: Any = None) -> LabelBuckets:
        """Return buckets as given.

        Args:
            assignment: Shape (L,), whole numbers: the bucket of each label, 0 <= bucket < len(names).
            names: One distinct name per bucket, in the order in which results are to be listed.
            counts: Shape (L,), training counts, if known.
        """
        caller = "LabelBuckets.from_assignment"
        assignment = check_counts(caller, "assignment", assignment)
        if not isinstance(names, Sequence) or isinstance(names, str):
            raise TypeError(f"{caller}: names={names!r} is no sequence; pass one name per bucket.")
        names = tuple(str(name) for name in names)
        if not names or len(set(names)) != len(names):
            raise ValueError(f"{caller}: names={names} must be one distinct name per bucket.")
        if taken := {*names} & TAKEN:
            raise ValueError(
                f"{caller}: a bucket cannot be called {min(taken)!r}, as a value over all buckets is; give it another "
                "name."
            )
        if assignment.numel() and int(assignment.max()) >= len(names):
            raise ValueError(
                f"{caller}: assignment holds {int(assignment.max())}, but there are {len(names)} names; "
                "pass one name per bucket."
            )
        if counts is not None:
            counts = check_counts(caller, "counts", counts)
            if counts.shape != assignment.shape:
                raise ValueError(
                    f"{caller}: counts is {shape_of(counts)}, but assignment is {shape_of(assignment)}; "
                    "pass one count per label."
                )
        return cls(assignment, names, counts)

    @classmethod
    def from_tree(
        cls, tree: Any, level: int = 0, names: Sequence[str] | None = None, counts: Any = None
    ) -> LabelBuckets:
        """Return one bucket for each ancestor at a level of a tree, such as a chapter of codes.

        Args:
            tree: A :class:`tailmetrics.LabelTree`.
            level: The depth of the ancestors, 0 for the roots. A label that is not that deep is a bucket of its own.
            names: One name per bucket, in the order of the ancestors' ids; None takes the names of the tree.
            counts: Shape (L,), training counts, if known.
        """
        if not hasattr(tree, "at_level"):
            raise TypeError(f"LabelBuckets.from_tree: tree={tree!r} is no tree; pass LabelTree(parents).")
        top, assignment = tree.at_level(level)
        made = cls.from_assignment(assignment, top.label_names if names is None else names, counts)
        return cls(made.assignment, made.names, made.counts, ordered=False)

    def labels_by_id(self) -> int:
        """Return how many labels have the training count of a label in another bucket: only ids separate these labels.

        0 if counts are not known, or do not order the buckets.
        """
        if self.counts is None:
            return 0
        counts, place = torch.unique(self.counts, return_inverse=True)
        first, last = (
            torch.zeros_like(counts).scatter_reduce(0, place, self.assignment, reduce, include_self=False)
            for reduce in ("amin", "amax")
        )
        descending = bool((first[:-1] >= last[1:]).all())
        return int((first != last)[place].sum()) if descending else 0

    @property
    def labels(self) -> tuple[Tensor, ...]:
        """The label ids of each bucket, ascending."""
        return torch.split(self.assignment.argsort(stable=True), list(self.sizes))

    @property
    def label_counts(self) -> Tensor:
        """Number of labels in each bucket, shape (G,), int64."""
        return torch.tensor(self.sizes, dtype=torch.int64)

    def of(self, ids: Tensor) -> Tensor:
        """Return the bucket of each id, in the shape of ``ids``, int64; ``len(buckets)`` for the padding id -1.

        Reads a table of one byte per label: with a few hundred thousand labels it fits into the cache, where 8 bytes
        per label do not. The id -1 reads its last entry.
        """
        return self.table_on(ids.device)[ids].to(torch.int64)

    def table_on(self, device: torch.device) -> Tensor:
        """Return the bucket of each label, and ``len(buckets)`` at the end for the id -1, on a device; a small type."""
        table: Tensor | None = self._tables.get(device)
        if table is None:
            small = torch.uint8 if len(self) < 255 else torch.int32
            small = small if device.type == "cpu" else torch.int64  # on a GPU a conversion costs more than memory
            table = torch.cat([self.assignment, torch.tensor([len(self)])]).to(small).to(device)
            self._tables[device] = table
        return table

    def totals(self, ids: Tensor) -> Tensor:
        """Return how many ids of each row lie in each bucket: ids (N, K) give counts (N, G), int64."""
        bucket = self.of(ids)
        counts = bucket.new_zeros(len(bucket), len(self) + 1)
        return counts.scatter_add_(1, bucket, torch.ones_like(bucket))[:, :-1]

    def kept(self, key: object, make: Callable[[], Any]) -> Any:
        """Return the table stored under ``key``; ``make`` makes it when the key is first asked for."""
        if key not in self._tables:
            self._tables[key] = make()
        return self._tables[key]

    def __len__(self) -> int:
        """Return the number of buckets G."""
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        """Whether both assign the same labels to the same names."""
        return isinstance(other, LabelBuckets) and self.digest == other.digest

    def __hash__(self) -> int:
        """Return a hash of the assignment."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """Return numbers of labels and buckets, and the names; of many buckets the first and the last ones."""
        names = self.names if len(self) < 5 else (f"{self.names[0]} … {self.names[-2]}", self.names[-1])
        plural = "bucket" if len(self) == 1 else "buckets"
        return f"LabelBuckets({self.num_labels} labels in {len(self)} {plural}: {', '.join(names)})"

    def __deepcopy__(self, memo: dict[int, Any]) -> LabelBuckets:
        """Return itself: immutable, so that the copies of a metric keep one table."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the tables of the devices."""
        return LabelBuckets, (self.assignment, self.names, self.counts, self.ordered)


KINDS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "deciles": dict,
    "quantiles": lambda n, by="mass", ties="split": {"n": int(n), "by": by, "ties": ties},
    "thresholds": lambda edges, *names: {
        "edges": [int(edge) for edge in edges.split(",")],
        **({"names": names[0].split(",")} if names else {}),
    },
}
"""For each method of :class:`LabelBuckets` that a text can name: the arguments, made from the parts behind colons.

The names of the buckets depend on these arguments only, so metrics can name states before any label is counted.
"""


def buckets_of(kind: str, counts: Any, order: Tensor | None = None) -> LabelBuckets:
    """Return the buckets that a text names, such as ``"deciles"``, ``"quantiles:5"`` or ``"thresholds:1,5,100"``.

    Args:
        kind: The name of a method of :class:`LabelBuckets`, and its arguments, each behind a colon:
            ``"quantiles:10:labels"``, ``"quantiles:10:mass:together"``, ``"thresholds:1,20,101:many,medium,few"``.
        counts: Shape (L,), whole numbers: how often each label occurs in training.
        order: Shape (L,), int64, every label id once: labels of equal counts are taken in this order. None takes the
            lower id first.

    Raises:
        ValueError: If the text names no kind of buckets.

    >>> buckets_of("thresholds:1,5", [9, 3, 0]).names
    ('5+', '1-4', 'unseen')
    """
    if order is not None:
        made = buckets_of(kind, torch.as_tensor(counts)[order])
        assignment = torch.empty_like(made.assignment).scatter_(0, order, made.assignment)
        return LabelBuckets(assignment, made.names, torch.as_tensor(counts))
    name, *parts = kind.split(":")
    try:
        given = KINDS[name](*parts)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"LabelBuckets: buckets={kind!r} cannot be read; pass 'deciles', 'quantiles:5' for five quantiles, "
            "'quantiles:5:labels' for five buckets of equally many labels, 'thresholds:1,5,100' for edges at these "
            "training counts, or 'thresholds:1,20,101:many,medium,few' to name them."
        ) from None
    found: LabelBuckets = getattr(LabelBuckets, name)(counts, **given)
    return found


def names_of(kind: str) -> tuple[str, ...]:
    """Return the names of the buckets of a kind; they do not depend on training counts."""
    return buckets_of(kind, torch.zeros(0, dtype=torch.int64)).names


TAKEN = {"", "gap", "adjusted_gap", "spread"}
"""Ends of keys that mean something else than a bucket: recall@10 itself, and what a report says of all its buckets."""
FREQUENT, RARE = {"head", "frequent", "many", "popular", "common"}, {"tail", "rare", "few", "infrequent", "niche"}
"""Words in names of buckets that mean frequent labels, and words that mean rare labels."""


RANGE: Final = re.compile(r"([<>≤≥]?)=? ?(\d+)(?: ?(?:-|–|to) ?(\d+)| ?(\+))?")
"""A range of training counts in the name of a bucket, such as ``1-19``, ``>100``, ``101+`` or ``<20``."""


def _contradiction(names: Sequence[str], lows: Sequence[int]) -> int | None:
    """Return the place of the first name that contradicts its bucket, by a word or by a range of counts; None if none.

    "few" contradicts the most frequent bucket, and "1-19" the counts 20 to 100. Bounds that differ by 1 agree: "more
    than 100" is the edge 101, and some write it as 100+.

    Args:
        names: One per bucket, the most frequent first.
        lows: The least count of each bucket, ascending.
    """
    words = [set(re.split(r"[\W_]+", str(name).lower())) for name in names]
    rare = [place for place, said in enumerate(words) if said & RARE and not said & FREQUENT]
    frequent = [place for place, said in enumerate(words) if said & FREQUENT and not said & RARE]
    if rare and frequent and rare[0] < frequent[-1]:
        return 0
    for place, (name, low, above) in enumerate(zip(names, lows[::-1], [inf, *lows[:0:-1]], strict=True)):
        found = RANGE.search(str(name))
        sign, first, last, plus = found.groups() if found else ("", "", None, None)
        if not (sign or last or plus):
            continue
        least, most = (None, first) if sign in ("<", "≤") else (first, last)
        if least and abs(int(least) - low) > 1:
            return place
        if most and (abs(int(most) - above + 1) > 1 if above < inf or not least else int(most) < low):
            return place
    return None
