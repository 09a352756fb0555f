"""Digests of targets, buckets, counts and options of a run.

Runs can be compared if their digests are equal.

    # before the first batch; metrics are bound
    digest = RunDigest(metrics, options={...}, label_names=None)
    # the numbers of the rows of a batch, and its ranking
    digest.update(rows, ranking)
    # plain data: "targets", "buckets", "counts", "options", "keys", "cuts", "labels",
    # "version"
    digest.entries() -> dict

A table of values per row stores the entries after its last row, when all targets are
known. :func:`compare <tailmetrics.significance.compare>` takes the entries of each run
as ``identities``, and refuses runs that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import UNSEEN
from tailmetrics.evaluation.description import labels_by_key, settings_of
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking import Ranking
from tailmetrics.significance.halves import mixed

VERSION: Final = "7"
"""The version of the digests. Digests of different versions cannot be compared."""

LEFT_OUT: Final = (
    "k",
    "threshold",
    "buckets",
    "label_counts",
    "num_labels",
    "row_groups",
)
"""Settings that the digest of a metric leaves out, because other entries hold them."""

Ints = NDArray[np.int64]
MOST_DIGITS: Final = 18
"""The number of digits up to which int64 holds every whole number."""
_SEEDS: Final = -0x61C8864680B583EB, -0x2E4AB5CD2E6D12FD
"""Any two odd numbers, one for each sum: products with them keep labels distinct."""


class RunDigest:
    """Digests of the targets, buckets, training counts and options of one run.

    The digest of the targets is a sum of 128 bits over rows and their labels, so that
    the order of rows makes no difference. It shows mistakes. It does not protect
    against other targets that somebody makes on purpose to have the same digest. The
    other digests are SHA-256.

    The digests do not depend on the size and order of batches. With ``label_names``
    they do not depend on label ids either: two runs may number the same names
    differently, because their predictions hold different names.

    Args:
        metrics: The metrics, which must have their buckets and counts.
        options: Further inputs that the values depend on, such as the digest of a
            filter file, in types of JSON.
        label_names: The name of each label id; None if ids have no names.
        row_names: The query of each row number, so that the digests do not depend on
            the order of rows; None if rows have no names.

    >>> from tailmetrics import RecallAtK, rank
    >>> metrics = [RecallAtK(k=1)]
    >>> whole, parts = RunDigest(metrics), RunDigest(metrics)
    >>> preds, target = np.array([[0, 1], [2, 0], [1, 2]]), np.array([[0, 2], [2, -1], [0, -1]])
    >>> whole.update([0, 1, 2], rank(preds, target))
    >>> parts.update([2], rank(preds[2:], target[2:]))
    >>> parts.update([0, 1], rank(preds[:2], target[:2, ::-1].copy()))
    >>> whole.entries() == parts.entries()
    True
    """

    def __init__(
        self,
        metrics: Iterable[TopKMetric],
        options: Mapping[str, Any] | None = None,
        label_names: Sequence[str] | None = None,
        row_names: Sequence[str] | None = None,
    ) -> None:
        self._label_codes = Codes(label_names)
        self._row_codes = Codes(row_names)
        self._targets = np.zeros(len(_SEEDS), np.int64)

        metrics = list(metrics)
        bucket_digests, count_digests = set[str](), set[str]()
        arguments: dict[str, str] = {}
        cuts: dict[str, str] = {}
        for metric in metrics:
            if isinstance(metric.buckets, LabelBuckets):
                bucket_digests.add(
                    _digest_of_buckets(metric.buckets, self._label_codes)
                )
            label_counts = getattr(metric, "label_counts", None)
            if isinstance(label_counts, Tensor):
                counts = _array(label_counts)
                count_digests.add(
                    _digest_of_labels(counts, counts != 0, self._label_codes)
                )
            for key, cutoff in _cutoffs_by_key(metric):
                arguments[key] = _digest_of_arguments(metric)
                cuts[key] = metric.reading.cut_text(cutoff)
        self._fixed = {
            "buckets": _digest_of_all(bucket_digests),
            "counts": _digest_of_all(count_digests),
            "options": dict(options or {}),
            "keys": arguments,
            "cuts": cuts,
            "labels": labels_by_key(metrics),
            "version": VERSION,
        }

    def update(self, rows: ArrayLike | Tensor, ranking: Ranking) -> None:
        """Add the targets of a batch.

        Args:
            rows: Shape (N,), the number of each row in the data.
            ranking: The ranking of the batch; rows that its mask drops are left out.
        """
        numbers = self._row_codes[_array(rows)]
        self._targets += _sums_over_rows(numbers, ranking, self._label_codes)

    def entries(self) -> dict[str, Any]:
        """Return the digests in hex, as plain data.

        ``"targets"``: numbers of the rows, their relevant labels and gains.
        ``"buckets"``: names of the buckets, and the bucket of each label that is not
        ``unseen``; None without buckets. ``"counts"``: training counts in metrics that
        use them; None without counts. ``"options"``: the given options, so that an
        error can name the option that differs. ``"keys"``: for each key a digest of the
        metric's other arguments. ``"cuts"``: for each key ``"k=5"`` or
        ``"threshold=0.5"``. ``"labels"``: the number of labels for each key that
        depends on it. ``"version"``: the version of the digests.
        """
        return {"targets": _in_hex(self._targets), **self._fixed}


def _in_hex(sums: Ints) -> str:
    return sums.astype(">i8").tobytes().hex()


def _sums_over_rows(numbers: Ints, ranking: Ranking, codes: Codes) -> Ints:
    """Return two sums of 64 bits over the rows and their relevant labels, modulo 2^64.

    m is the hash of a number. A label l whose gain has the bits g gives the word w =
    m(seed_1 l + g). A row r has the factors f_1 = m(r + seed_1) and f_2 = m(r +
    seed_2), made odd, so that a product loses no bit of a word. The row adds m(f_1) +
    f_1 * (sum of its w) to the first sum, and m(f_2) + f_2 * (sum of its w^2) to the
    second. The order of rows and of labels makes no difference.
    """
    targets = ranking.targets
    entries = targets.entries
    rows, ids = _array(entries.rows), _array(entries.ids)
    gains = np.ones(len(ids))
    if entries.gains is not None:
        gains = entries.gains.detach().cpu().numpy().astype(np.float64)
    counted = np.ones(len(numbers), bool)
    if targets.row_mask is not None:
        counted = targets.row_mask.cpu().numpy()

    relevant = (ids >= 0) & counted[rows]
    rows, labels, bits = (
        rows[relevant],
        codes[ids[relevant]],
        gains[relevant].view(np.int64),
    )
    words = mixed(labels * _SEEDS[0] + bits)
    sums_of_labels, sums_of_rows = [], []
    for seed, powers in zip(_SEEDS, (words, words * words), strict=True):
        factors = mixed(numbers + seed) | 1
        sums_of_labels.append(factors[rows] @ powers)
        sums_of_rows.append(mixed(factors[counted]).sum())
    # arrays wrap around without a warning
    return np.array(sums_of_labels, np.int64) + np.array(sums_of_rows, np.int64)


def _cutoffs_by_key(metric: TopKMetric) -> Iterator[tuple[str, Any]]:
    """Yield each key of a metric with its cut-off."""
    keys = list(metric.keys())
    for cutoff, stem in zip(metric.cutoffs, metric.cutoff_keys(), strict=True):
        for key in keys:
            if f"{key}/".startswith(f"{stem}/"):
                yield key, cutoff


def _digest_of_buckets(buckets: LabelBuckets, codes: Codes) -> str:
    """Return the digest of the bucket of each label that is not unseen.

    A catalogue with more unseen labels has the same digest.
    """
    assignment = _array(buckets.assignment)
    seen = np.ones(len(assignment), bool)
    if UNSEEN in buckets.names:
        seen = assignment != buckets.names.index(UNSEEN)
    return _digest_of_labels(
        assignment, seen, codes, json.dumps(buckets.names).encode()
    )


def _digest_of_labels(
    values: Ints, counted: NDArray[np.bool_], codes: Codes, prefix: bytes = b""
) -> str:
    """Return the digest of the values of the counted labels, in the order of codes."""
    labels = codes[np.flatnonzero(counted)]
    order = np.argsort(labels)
    pairs = np.stack([labels[order], values[counted][order]], axis=1).astype("<i8")
    return sha256(prefix + b"\0" + pairs.tobytes()).hexdigest()


def _digest_of_all(digests: set[str]) -> str | None:
    """Return one digest of several; None of none."""
    if not digests:
        return None
    return sha256("".join(sorted(digests)).encode()).hexdigest()


def _digest_of_arguments(metric: TopKMetric) -> str:
    """Return the digest of the arguments that no other entry holds."""
    settings = {
        name: value
        for name, value in settings_of(metric).items()
        if name not in LEFT_OUT
    }
    return sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


class Codes:
    """The codes of labels or rows: their numbers, or the codes of their names.

    The code of a name is computed when the name occurs: a catalogue may name millions.

    Args:
        names: The name of each number; None if numbers have no names.
    """

    def __init__(self, names: Sequence[str] | None) -> None:
        self._names = names
        self._codes: dict[int, int] = {}

    def __getitem__(self, ids: Ints) -> Ints:
        if self._names is None:
            return ids
        distinct_ids, places = np.unique(ids, return_inverse=True)
        codes = np.zeros(len(distinct_ids), np.int64)
        for place, number in enumerate(distinct_ids.tolist()):
            if number not in self._codes:
                self._codes[number] = code_of_name(self._names[number])
            codes[place] = self._codes[number]
        return codes[places]


def code_of_name(name: str) -> int:
    """Return a number of 64 bits for a name, independent of other names.

    This is the integer that the name spells, or else a hash of its bytes.

    >>> code_of_name("12"), code_of_name("012") == code_of_name("12")
    (12, False)
    """
    if (
        name.isascii()
        and name.isdigit()
        and len(name) <= MOST_DIGITS
        and str(int(name)) == name
    ):
        return int(name)
    return int.from_bytes(sha256(name.encode()).digest()[:8], "little", signed=True)


def _array(values: ArrayLike | Tensor) -> Ints:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
    return np.asarray(values, dtype=np.int64)
