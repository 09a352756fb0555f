"""Labels grouped from most to least frequent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from math import inf
from typing import Any, Final, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from tailmetrics._arguments import (
    check_choice,
    check_count,
    check_counts,
    check_names,
    shape_of,
    whole_numbers_by_label,
)

QuantileBy: TypeAlias = Literal["mass", "labels"]
EqualCounts: TypeAlias = Literal["split", "together"]


class LabelBuckets:
    """An assignment of every label to one bucket, usually from head to tail.

    It is immutable, and any number of metrics share it.

    :meth:`deciles`, :meth:`quantiles`, :meth:`thresholds`, :meth:`from_assignment` and
    :meth:`from_tree` make one. Copies of a metric share one object, and each device
    holds one table of the buckets for all metrics.

    Attributes:
        assignment: Shape (L,), int64; the bucket of each label, an index into
            ``names``. Each access returns a copy.
        names: Bucket names from the most frequent labels to the rarest.
        counts: Shape (L,), int64 training counts, or None when unknown. Each access
            returns a copy.
        num_labels: L, all labels in all buckets.
        sizes: How many labels each bucket holds.
        ordered: Whether buckets go from head to tail; chapters do not, and have no gap.
        digest: SHA-256 of names and assignment; equal buckets have equal digests in
            every process.

    >>> buckets = LabelBuckets.quantiles([4, 2, 1, 1, 0], 2)
    >>> buckets.names
    ('quantile_2', 'quantile_1', 'unseen')
    >>> buckets.assignment.tolist()
    [0, 1, 1, 1, 2]
    """

    def __init__(
        self,
        assignment: Tensor,
        names: Sequence[str],
        counts: Tensor | None,
        ordered: bool = True,
    ) -> None:
        self._assignment = assignment
        self._counts = counts
        self.names = tuple(names)
        self.ordered = ordered
        self.num_labels = assignment.numel()
        self.digest = sha256(
            repr(self.names).encode() + assignment.contiguous().numpy().tobytes()
        ).hexdigest()
        self.sizes: tuple[int, ...] = tuple(
            torch.bincount(assignment, minlength=len(self.names)).tolist()
        )
        self._tables: dict[object, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse changes after construction.

        The digest, the tables and the names of states depend on the attributes.
        """
        if "_tables" in vars(self):
            raise AttributeError(
                f"LabelBuckets: {name} cannot be set; make other buckets, such as "
                "from_assignment(…)."
            )
        super().__setattr__(name, value)

    @property
    def assignment(self) -> Tensor:
        """The bucket of each label, shape (L,), int64: a copy."""
        return self._assignment.clone()

    @property
    def counts(self) -> Tensor | None:
        """The training counts, shape (L,), int64: a copy; None when unknown."""
        if self._counts is None:
            return None
        return self._counts.clone()

    @classmethod
    def deciles(cls, counts: Any, names: Sequence[str] | None = None) -> LabelBuckets:
        """Return ten buckets, each of about a tenth of the occurrences, and ``unseen``.

        ``decile_10`` holds the most frequent labels, ``decile_1`` the rarest.

        Args:
            counts: Shape (L,), whole numbers: how often each label occurs in training;
                or a ``LabelFrequency``.
            names: Names of the buckets of seen labels, the most frequent first; None
                for ``decile_10`` to ``decile_1``.
        """
        return cls._quantiles(
            "LabelBuckets.deciles", "decile", counts, 10, "mass", "split", names
        )

    @classmethod
    def quantiles(
        cls,
        counts: Any,
        n: int,
        by: QuantileBy = "mass",
        ties: EqualCounts = "split",
        names: Sequence[str] | None = None,
    ) -> LabelBuckets:
        """Return ``n`` buckets of about equal size, and ``unseen``.

        ``unseen`` holds the labels that never occur.

        Labels are placed from the most to the least frequent one (equal counts: lower
        id first). When a bucket opens, R is the mass of the labels not yet placed, and
        b the number of buckets left, this bucket included. The bucket closes as soon as
        its mass m has m·b >= R. So no bucket is empty as long as labels remain, even if
        one label holds more than the share of a bucket.

        Args:
            counts: Shape (L,), whole numbers: how often each label occurs in training;
                or a ``LabelFrequency``.
            n: Number of buckets.
            by: What is equal in size: ``"mass"``, the sum of the counts; ``"labels"``,
                the number of seen labels.
            ties: ``"split"``: a boundary may fall between labels of equal count; their
                ids then decide on which side they are, and :meth:`labels_by_id` counts
                them. ``"together"`` moves the boundary behind them.
            names: Names of the buckets of seen labels, the most frequent first, such as
                ``("popular", "rare")``; None for ``quantile_n`` to ``quantile_1``.
        """
        return cls._quantiles(
            "LabelBuckets.quantiles", "quantile", counts, n, by, ties, names
        )

    @classmethod
    def _quantiles(
        cls,
        caller: str,
        stem: str,
        counts: Any,
        n: int,
        by: QuantileBy,
        ties: EqualCounts,
        names: Sequence[str] | None,
    ) -> LabelBuckets:
        """Return the buckets of :meth:`quantiles`, with names that begin with ``stem``.

        Errors begin with ``caller``.
        """
        counts = check_counts(caller, "counts", counts)
        n = check_count(caller, "n", n)
        check_choice(caller, "by", by, QuantileBy)
        check_choice(caller, "ties", ties, EqualCounts)
        usual_names = [f"{stem}_{number}" for number in range(n, 0, -1)]
        all_names = _names_of_buckets(caller, names, usual_names, [])
        return cls.from_assignment(
            _quantile_of_label(counts, n, by, ties), all_names, counts
        )

    @classmethod
    def thresholds(
        cls, counts: Any, edges: Sequence[int], names: Sequence[str] | None = None
    ) -> LabelBuckets:
        """Return one bucket for each edge, the least training count of its labels.

        Seen labels that reach no edge share a bucket below the first one; labels never
        seen are ``unseen``.

        Args:
            counts: Shape (L,), whole numbers: how often each label occurs in training;
                or a ``LabelFrequency``.
            edges: Ascending counts of at least 1, in a sequence or an array;
                ``(1, 5, 100)`` gives ``100+``, ``5-99``, ``1-4`` and ``unseen``. An
                edge is the least count of its bucket: "more than 100" is the edge 101.
            names: Names of the buckets of seen labels, such as
                ``("many", "medium", "few")``. Edges ascend, names go from the most
                frequent to the rarest.
        """
        caller = "LabelBuckets.thresholds"
        counts = check_counts(caller, "counts", counts)
        lows = _lowest_counts(caller, edges)
        usual_names = [f"{lows[-1]}+"]
        for low, high in reversed(list(pairwise(lows))):
            usual_names.append(f"{low}-{high - 1}" if high - 1 > low else f"{low}")
        all_names = _names_of_buckets(caller, names, usual_names, lows)
        num_reached = torch.bucketize(counts, counts.new_tensor(lows), right=True)
        return cls.from_assignment(len(lows) - num_reached, all_names, counts)

    @classmethod
    def from_assignment(
        cls, assignment: Any, names: Sequence[str], counts: Any = None
    ) -> LabelBuckets:
        """Return buckets as given.

        Args:
            assignment: Shape (L,), whole numbers: the bucket of each label, 0 <= bucket
                < len(names).
            names: One distinct name per bucket, in the order in which results are to be
                listed.
            counts: Shape (L,), training counts, if known.
        """
        caller = "LabelBuckets.from_assignment"
        needed = "whole numbers: the number of each label's bucket, from 0"
        assignment = whole_numbers_by_label(caller, "assignment", assignment, needed)
        names = _distinct_names(caller, check_names(caller, "names", names))
        if assignment.numel() and int(assignment.min()) < 0:
            raise ValueError(
                f"{caller}: assignment holds {int(assignment.min())}, but buckets are "
                "numbered from 0; give labels "
                "that belong to none a bucket of their own."
            )
        if assignment.numel() and int(assignment.max()) >= len(names):
            raise ValueError(
                f"{caller}: assignment holds {int(assignment.max())}, but there are "
                f"{len(names)} names; pass one name per bucket."
            )
        if counts is not None:
            counts = check_counts(caller, "counts", counts)
            if counts.shape != assignment.shape:
                raise ValueError(
                    f"{caller}: counts is {shape_of(counts)}, but assignment is "
                    f"{shape_of(assignment)}; pass one count per label."
                )
        return cls(assignment, names, counts)

    @classmethod
    def from_tree(
        cls,
        tree: Any,
        level: int = 0,
        names: Sequence[str] | None = None,
        counts: Any = None,
    ) -> LabelBuckets:
        """Return one bucket for each ancestor at a level of a tree, such as chapters.

        Args:
            tree: A :class:`tailmetrics.LabelTree`.
            level: The depth of the ancestors, 0 for the roots. A label that is not that
                deep is a bucket of its own.
            names: One name per bucket, in the order of the ancestors' ids; None takes
                the names of the tree.
            counts: Shape (L,), training counts, if known.
        """
        if not hasattr(tree, "at_level"):
            raise TypeError(
                f"LabelBuckets.from_tree: tree={tree!r} is no tree; pass "
                "LabelTree(parents)."
            )
        level_of_tree = tree.at_level(level)
        if names is None:
            names = level_of_tree.tree.label_names
        buckets = cls.from_assignment(level_of_tree.places, names, counts)
        return cls(buckets._assignment, buckets.names, buckets._counts, ordered=False)

    def labels_by_id(self) -> int:
        """Return how many labels are separated from another bucket only by ids.

        These labels have the training count of a label in another bucket.

        0 if counts are not known, or do not order the buckets.
        """
        if self._counts is None:
            return 0
        counts, place = torch.unique(self._counts, return_inverse=True)
        zeros = torch.zeros_like(counts)
        first = zeros.scatter_reduce(
            0, place, self._assignment, "amin", include_self=False
        )
        last = zeros.scatter_reduce(
            0, place, self._assignment, "amax", include_self=False
        )
        is_ordered_by_count = bool((first[:-1] >= last[1:]).all())
        if not is_ordered_by_count:
            return 0
        return int((first != last)[place].sum())

    @property
    def labels(self) -> tuple[Tensor, ...]:
        """The label ids of each bucket, ascending."""
        return torch.split(self._assignment.argsort(stable=True), list(self.sizes))

    @property
    def label_counts(self) -> Tensor:
        """Number of labels in each bucket, shape (G,), int64."""
        return self._assignment.new_tensor(self.sizes)

    def of(self, ids: Tensor) -> Tensor:
        """Return the bucket of each id, in the shape of ``ids``, int64.

        The bucket of the padding id -1 is ``len(buckets)``.

        Reads a table of one byte per label: with a few hundred thousand labels it fits
        into the cache, where 8 bytes per label do not. The id -1 reads its last entry.

        Args:
            ids: int64 or int32, from -1 to L - 1; for speed, this is not checked.
        """
        return self.table_on(ids.device)[ids].to(torch.int64)

    def table_on(self, device: torch.device) -> Tensor:
        """Return the bucket of each label on a device, as a table of a small type.

        The last entry, ``len(buckets)``, is for the id -1.
        """
        table: Tensor | None = self._tables.get(device)
        if table is None:
            if device.type != "cpu":
                dtype = torch.int64  # on a GPU a conversion costs more than memory
            elif len(self) < 255:
                dtype = torch.uint8
            else:
                dtype = torch.int32
            padding = self._assignment.new_tensor([len(self)])
            table = torch.cat([self._assignment, padding]).to(dtype).to(device)
            self._tables[device] = table
        return table

    def totals(self, ids: Tensor) -> Tensor:
        """Return how many ids of each row (N, K) lie in each bucket, (N, G), int64.

        Args:
            ids: As for :meth:`of`.
        """
        bucket = self.of(ids)
        counts = bucket.new_zeros(len(bucket), len(self) + 1)
        return counts.scatter_add_(1, bucket, torch.ones_like(bucket))[:, :-1]

    def remembered(self, key: object, make: Callable[[], Any]) -> Any:
        """Return the table stored under ``key``, which the first call makes."""
        if key not in self._tables:
            self._tables[key] = make()
        return self._tables[key]

    def __len__(self) -> int:
        """Return the number of buckets G."""
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        """Return whether both assign the same labels to the same names."""
        return isinstance(other, LabelBuckets) and self.digest == other.digest

    def __hash__(self) -> int:
        """Return a hash of the assignment."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """Return the numbers of labels and buckets, and the names of buckets.

        Of many buckets, only the first and the last names are shown.
        """
        names = self.names
        if len(self) >= 5:
            names = (f"{names[0]} … {names[-2]}", names[-1])
        plural = "bucket" if len(self) == 1 else "buckets"
        return (
            f"LabelBuckets({self.num_labels} labels in {len(self)} {plural}: "
            f"{', '.join(names)})"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> LabelBuckets:
        """Return itself: immutable, so that the copies of a metric keep one table."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the tables of the devices."""
        return LabelBuckets, (self._assignment, self.names, self._counts, self.ordered)


def _quantile_of_label(
    counts: Tensor, n: int, by: QuantileBy, ties: EqualCounts
) -> Tensor:
    """Return the quantile of each label.

    It is 0 for the most frequent labels, and ``n`` for those that never occur.
    """
    sorted_counts, order = torch.sort(counts, descending=True, stable=True)
    num_seen = int((counts > 0).sum())
    sizes = sorted_counts[:num_seen]
    if by == "labels":
        sizes = torch.ones_like(sizes)
    # of the labels in front of each place
    mass = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])

    quantiles = torch.full_like(counts, n)
    start = 0
    for quantile in range(n):
        if start == num_seen:
            break
        left = int(mass[-1]) - int(mass[start])
        # + the least whole m with m·b >= R
        needed = int(mass[start]) - (-left) // (n - quantile)
        stop = int(torch.searchsorted(mass, needed))
        if ties == "together":
            stop += int((sorted_counts[stop:num_seen] == sorted_counts[stop - 1]).sum())
        quantiles[order[start:stop]] = quantile
        start = stop
    return quantiles


def _lowest_counts(caller: str, edges: Any) -> list[int]:
    """Return the least training count of each bucket of seen labels, from 1 upwards."""
    if hasattr(edges, "tolist"):  # an array, a tensor or a column of a table
        edges = edges.tolist()
    if not isinstance(edges, Sequence) or isinstance(edges, str):
        raise TypeError(
            f"{caller}: edges={edges!r} is no sequence; pass ascending counts such as "
            "(1, 5, 100)."
        )
    lows = [check_count(caller, "edges", edge) for edge in edges]
    if not lows or sorted(set(lows)) != lows:
        raise ValueError(
            f"{caller}: edges={list(edges)} must ascend without repeats; pass edges "
            "such as (1, 5, 100)."
        )
    if lows[0] > 1:
        lows.insert(0, 1)
    return lows


# -- buckets as a text -----------------------------------------------------------------


def buckets_of_kind(
    kind: str, counts: Any, order: Tensor | None = None
) -> LabelBuckets:
    """Return the buckets that a text such as ``"quantiles:5"`` names.

    Args:
        kind: The name of a method of :class:`LabelBuckets`, and its arguments, each
            behind a colon: ``"quantiles:10:labels"``, ``"quantiles:10:mass:together"``,
            ``"quantiles:2:popular,rare"``, ``"thresholds:1,20,101:many,medium,few"``.
        counts: Shape (L,), whole numbers: how often each label occurs in training.
        order: Shape (L,), int64, every label id once: labels of equal counts are taken
            in this order. None takes the lower id first.

    Raises:
        ValueError: If the text names no kind of buckets.

    >>> buckets_of_kind("thresholds:1,5", [9, 3, 0]).names
    ('5+', '1-4', 'unseen')
    """
    if order is not None:
        counts = check_counts("LabelBuckets", "counts", counts)
        sorted_buckets = buckets_of_kind(kind, counts[order])
        assignment = torch.empty_like(order).scatter_(
            0, order, sorted_buckets.assignment
        )
        return LabelBuckets(assignment, sorted_buckets.names, counts)
    name, *parts = kind.split(":")
    try:
        arguments = ARGUMENT_READERS[name](parts)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"LabelBuckets: buckets={kind!r} cannot be read; pass 'deciles', "
            "'quantiles:5' for five quantiles, 'quantiles:5:labels' for five buckets "
            "of equally many labels, 'thresholds:1,5,100' for edges at these training "
            "counts, or 'thresholds:1,20,101:many,medium,few' and "
            "'quantiles:2:popular,rare' to name them."
        ) from None
    buckets: LabelBuckets = getattr(LabelBuckets, name)(counts, **arguments)
    return buckets


def digest_of_buckets(buckets: LabelBuckets | None) -> str | None:
    """Return the digest of buckets, a key of tables; None without buckets."""
    if buckets is None:
        return None
    return buckets.digest


def number_of_buckets(buckets: LabelBuckets | None) -> int:
    """Return the number of buckets; 1 without buckets: all labels are together."""
    if buckets is None:
        return 1
    return len(buckets)


def names_of_kind(kind: str) -> tuple[str, ...]:
    """Return the names of the buckets of a kind, which need no training counts."""
    return buckets_of_kind(kind, torch.zeros(0, dtype=torch.int64, device="cpu")).names


def _arguments_of_deciles(parts: list[str]) -> dict[str, Any]:
    if not parts:
        return {}
    (names,) = parts
    if "," not in names:
        raise ValueError(parts)
    return {"names": names.split(",")}


def _arguments_of_quantiles(parts: list[str]) -> dict[str, Any]:
    """Read the number of buckets, then optional ``by``, ``ties`` and names."""
    number, *options = parts
    arguments: dict[str, Any] = {"n": int(number)}
    for argument, choices in (
        ("by", get_args(QuantileBy)),
        ("ties", get_args(EqualCounts)),
    ):
        if options and options[0] in choices:
            arguments[argument] = options.pop(0)
    if options:
        (names,) = options
        if "," not in names and arguments["n"] > 1:
            raise ValueError(parts)
        arguments["names"] = names.split(",")
    return arguments


def _arguments_of_thresholds(parts: list[str]) -> dict[str, Any]:
    edges, *options = parts
    arguments: dict[str, Any] = {"edges": [int(edge) for edge in edges.split(",")]}
    if options:
        (names,) = options
        arguments["names"] = names.split(",")
    return arguments


ARGUMENT_READERS: Final[dict[str, Callable[[list[str]], dict[str, Any]]]] = {
    "deciles": _arguments_of_deciles,
    "quantiles": _arguments_of_quantiles,
    "thresholds": _arguments_of_thresholds,
}
"""Method of :class:`LabelBuckets` -> reader of its arguments from parts of a text.

The names of the buckets depend on these arguments only, so metrics can name states
before any label is counted.
"""


# -- names -----------------------------------------------------------------------------

RESERVED_NAMES: Final = frozenset(("", "gap", "adjusted_gap", "spread"))
"""Ends of keys that name no bucket: recall@10 itself, and values over all buckets."""
FREQUENT_WORDS: Final = frozenset(("head", "frequent", "many", "popular", "common"))
"""Words in names of buckets that mean frequent labels."""
RARE_WORDS: Final = frozenset(("tail", "rare", "few", "infrequent", "niche"))
"""Words in names of buckets that mean rare labels."""
RANGE: Final = re.compile(r"([<>≤≥]?)=? ?(\d+)(?: ?(?:-|–|to) ?(\d+)| ?(\+))?")
"""A range of training counts in a name: ``1-19``, ``>100``, ``101+`` or ``<20``."""


def _names_of_buckets(
    caller: str, names: Any, usual_names: Sequence[str], lows: Sequence[int]
) -> list[str]:
    """Return the names of all buckets, with ``unseen`` last.

    Raises ValueError unless there is a fitting name for each bucket of seen labels.

    Args:
        caller: The name that errors begin with.
        names: The names of the buckets of seen labels; None takes the usual ones.
        usual_names: The usual names, the most frequent bucket first.
        lows: The least count of each bucket, ascending; empty for quantiles, whose
            names may state no counts.
    """
    if names is None:
        return [*usual_names, "unseen"]
    checked = check_names(caller, "names", names)
    if len(checked) != len(usual_names):
        raise ValueError(
            f"{caller}: names={list(names)} are {len(names)} for the buckets "
            f"{', '.join(usual_names)}; name each seen bucket, the most frequent first."
        )
    all_names = [*checked, "unseen"]
    _distinct_names(caller, all_names)

    wrong = _contradicting_name(checked, lows)
    if wrong is not None:
        fitting_names: Sequence[str] = checked[::-1]
        if _contradicting_name(fitting_names, lows) is not None:
            fitting_names = usual_names
        order = ", also where edges ascend" if lows else ""
        raise ValueError(
            f"{caller}: names={list(names)} gives the name {checked[wrong]!r} to the "
            f"bucket {usual_names[wrong]}; names begin with the most frequent "
            f"labels{order}: pass {','.join(fitting_names)}."
        )
    return all_names


def _distinct_names(caller: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return names as plain texts; raise ValueError for repeated or reserved ones."""
    plain_names = tuple(map(str, names))  # also for NumPy's
    if not plain_names or len(set(plain_names)) != len(plain_names):
        raise ValueError(
            f"{caller}: names={plain_names} must be one distinct name per bucket."
        )
    reserved = RESERVED_NAMES.intersection(plain_names)
    if reserved:
        raise ValueError(
            f"{caller}: a bucket cannot be called {min(reserved)!r}, as a value over "
            "all buckets is; give it another name."
        )
    return plain_names


def _contradicts_by_words(names: Sequence[str]) -> bool:
    """Return whether a name for rare labels comes before one for frequent labels.

    Names begin with the most frequent labels.
    """
    has_rare_name = False
    for name in names:
        words = set(re.split(r"[\W_]+", name.lower()))
        is_rare = not words.isdisjoint(RARE_WORDS)
        is_frequent = not words.isdisjoint(FREQUENT_WORDS)
        if has_rare_name and is_frequent and not is_rare:
            return True
        if is_rare and not is_frequent:
            has_rare_name = True
    return False


def _contradicting_name(names: Sequence[str], lows: Sequence[int]) -> int | None:
    """Return the place of the first name that contradicts its bucket, or None.

    A name contradicts its bucket by a word or by a range of counts.

    "few" contradicts the most frequent bucket, and "1-19" the counts 20 to 100. Bounds
    that differ by 1 agree: "more than 100" is the edge 101, and some write it as 100+.

    Args:
        names: One per bucket, the most frequent first.
        lows: The least count of each bucket, ascending; empty for quantiles.
    """
    if _contradicts_by_words(names):
        return 0
    if not lows:
        return None
    highs = [inf, *(low - 1 for low in lows[:0:-1])]
    for place, (name, low, high) in enumerate(
        zip(names, lows[::-1], highs, strict=True)
    ):
        if _states_other_counts(name, low, high):
            return place
    return None


def _states_other_counts(name: str, low: int, high: float) -> bool:
    """Return whether a name states a range of counts other than ``low`` to ``high``.

    The end of the most frequent bucket is free.
    """
    match = RANGE.search(name)
    if match is None:
        return False
    sign, first, last, plus = match.groups()
    least, most = low, high
    if sign in ("<", "≤"):
        most = int(first)
    elif last:
        least, most = int(first), int(last)
    elif sign or plus:  # a number alone is no range
        least = int(first)

    if abs(least - low) > 1:
        return True
    if high == inf:
        return most < low
    return abs(most - high) > 1
