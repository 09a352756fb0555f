"""Digests of targets, buckets, counts and options of a run. Runs can be compared if their digests are equal.

    digest = RunDigest(metrics, options={...}, label_names=None)   # before the first batch; metrics are bound
    digest.update(rows, ranking)                                   # numbers of a batch's rows, and its ranking
    digest.entries() -> dict                                       # "targets", "buckets", "counts", "options", "keys",
                                                                   # "cuts", "version": plain data

A table of values per row stores the entries after its last row, when all targets are known. :func:`compare
<tailmetrics.significance.compare>` takes the entries of each run as ``identities``, and refuses runs that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.evaluation.description import settings_of
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking import Ranking
from tailmetrics.significance.halves import mixed

VERSION: Final = "6"
"""The version of the digests. Digests of different versions cannot be compared."""

LEFT_OUT: Final = ("k", "threshold", "buckets", "label_counts", "num_labels", "row_groups")
"""Settings that the digest of a metric leaves out: other entries hold them, and no value depends on ``num_labels``."""

Ints = NDArray[np.int64]
MOST_DIGITS: Final = 18
"""An int64 holds each number of so many digits."""
_SEEDS: Final = -0x61C8864680B583EB, -0x2E4AB5CD2E6D12FD
"""Any two odd numbers. Each gives a sum of 64 bits; times an odd number, different labels stay different."""


class RunDigest:
    """Digests of the targets, buckets, training counts and options of one run.

    The digest of the targets is a sum of 128 bits over rows and their labels, so that the order of rows makes
    no difference. It shows mistakes. It does not protect against other targets that somebody makes on purpose to have
    the same digest. The other digests are SHA-256.

    The digests do not depend on the size and order of batches. With ``label_names`` they
    do not depend on label ids either: two runs may number the same names differently, because their predictions hold
    different names.

    Args:
        metrics: The metrics, which must have their buckets and counts.
        options: Further inputs that the values depend on, such as the digest of a filter file, in types of JSON.
        label_names: The name of each label id; None if ids have no names.
        row_names: The query of each row number, so that the digests do not depend on the order of rows; None if rows
            have no names.

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
        metrics = list(metrics)
        self._codes = None if label_names is None else _Codes(label_names)
        self._row_codes = None if row_names is None else _Codes(row_names)
        self._targets = np.zeros(len(_SEEDS), np.int64)
        buckets, counts = set(), set()
        for metric in metrics:
            if isinstance(metric.buckets, LabelBuckets):  # a catalogue with more unseen labels has the same digest
                names, assignment = metric.buckets.names, _array(metric.buckets.assignment)
                known = assignment != (names.index("unseen") if "unseen" in names else -1)
                buckets.add(_of_labels(assignment, known, self._codes, json.dumps(names).encode()))
            if isinstance(of_metric := getattr(metric, "label_counts", None), Tensor):
                counts.add(_of_labels(_array(of_metric), _array(of_metric) != 0, self._codes, b""))
        cuts = [
            (key, m, k)
            for m in metrics
            for k, of_cutoff in zip(m.cutoffs, m.cutoff_keys(), strict=True)
            for key in list(m.keys())
            if f"{key}/".startswith(f"{of_cutoff}/")
        ]
        self._fixed = {
            "buckets": _of_all(buckets),
            "counts": _of_all(counts),
            "options": dict(options or {}),
            "keys": {key: _of_arguments(m) for key, m, _ in cuts},
            "cuts": {key: m.reading.cut_text(k) for key, m, k in cuts},
            "version": VERSION,
        }

    def update(self, rows: ArrayLike | Tensor, ranking: Ranking) -> None:
        """Add the targets of a batch.

        Args:
            rows: Shape (N,), the number of each row in the data.
            ranking: The ranking of the batch; rows that its mask drops are left out.
        """
        numbers = _coded(_array(rows), self._row_codes)
        self._targets += _sums_over_rows(numbers, ranking, self._codes)

    def entries(self) -> dict[str, Any]:
        """Return the digests in hex as plain data; None for buckets or counts that no metric has.

        ``"targets"``: numbers of the rows, their relevant labels and gains. ``"buckets"``: names of the buckets, and
        the bucket of each label that is not ``unseen``. ``"counts"``: training counts in metrics that use them.
        ``"options"``: the given options, so that an error can name the option that differs. ``"keys"``: for each key a
        digest of the metric's other arguments. ``"cuts"``: for each key ``"k=5"`` or ``"threshold=0.5"``.
        ``"version"``: version of the digests.
        """
        return {"targets": _in_hex(self._targets), **self._fixed}


def _in_hex(sums: Ints) -> str:
    return sums.astype(">i8").tobytes().hex()


def _sums_over_rows(numbers: Ints, ranking: Ranking, codes: _Codes | None) -> Ints:
    """Return two sums of 64 bits over the rows and their relevant labels, modulo 2^64.

    m is the hash of a number. A label l whose gain has the bits g gives the word w = m(seed_1 l + g). A row r has the
    factors f_1 = m(r + seed_1) and f_2 = m(r + seed_2), made odd, so that a product loses no bit of a word. The row
    adds m(f_1) + f_1 * (sum of its w) to the first sum, and m(f_2) + f_2 * (sum of its w^2) to the second. The order of
    rows and of labels makes no difference.
    """
    targets = ranking.targets
    rows, ids = _array(targets.entries.rows), _array(targets.entries.ids)
    given = targets.entries.gains
    gains = np.ones(len(ids)) if given is None else given.detach().cpu().numpy().astype(np.float64)
    counted = np.ones(len(numbers), bool) if targets.row_mask is None else targets.row_mask.cpu().numpy()
    relevant = (ids >= 0) & counted[rows]
    rows, labels, bits = rows[relevant], _coded(ids[relevant], codes), gains[relevant].view(np.int64)
    words = mixed(labels * _SEEDS[0] + bits)
    factors = [mixed(numbers + seed) | 1 for seed in _SEEDS]
    of_labels = [one[rows] @ power for one, power in zip(factors, (words, words * words), strict=True)]
    of_rows = [mixed(one[counted]).sum() for one in factors]
    return np.array(of_labels, np.int64) + np.array(of_rows, np.int64)


def _of_labels(values: Ints, known: NDArray[np.bool_], codes: _Codes | None, more: bytes) -> str:
    labels = _coded(np.flatnonzero(known), codes)
    order = np.argsort(labels)
    pairs = np.stack([labels[order], values[known][order]], axis=1).astype("<i8")
    return sha256(more + b"\0" + pairs.tobytes()).hexdigest()


def _of_all(digests: set[str]) -> str | None:
    return sha256("".join(sorted(digests)).encode()).hexdigest() if digests else None


def _of_arguments(metric: TopKMetric) -> str:
    others = {name: value for name, value in settings_of(metric).items() if name not in LEFT_OUT}
    return sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


class _Codes:
    """The codes of names by their places, each made when it is first asked for: a catalogue may name millions."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._known = names, np.zeros(len(names), bool)
        self._codes = np.zeros(len(names), np.int64)

    def __getitem__(self, ids: Ints) -> Ints:
        asked = np.zeros_like(self._known)
        asked[ids] = True
        new = np.flatnonzero(asked & ~self._known)
        self._codes[new] = _codes([self._names[place] for place in new.tolist()])
        self._known[new] = True
        return self._codes[ids]


def _codes(names: Sequence[str]) -> Ints:
    """Return a number for each name, independent of other names: the integer that it spells, or a hash of its bytes.

    With the hash m of a number, that of a name is the sum of m(256 place + byte) over its bytes.
    """
    texts = [name.encode() for name in names]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    stops = np.cumsum(lengths)
    starts = stops - lengths
    data = np.frombuffer(b"".join(texts), np.uint8)
    places = np.arange(len(data)) - np.repeat(starts, lengths)
    sums = np.append(0, np.cumsum(mixed(places * 256 + data)))
    codes: Ints = sums[stops] - sums[starts]
    digits = np.append(0, np.cumsum((data >= ord("0")) & (data <= ord("9"))))
    may_be_whole = (digits[stops] - digits[starts] == lengths) & (lengths > 0) & (lengths <= MOST_DIGITS)
    whole = [place for place in np.flatnonzero(may_be_whole).tolist() if names[place] == "0" or names[place][0] != "0"]
    codes[whole] = [int(names[place]) for place in whole]
    return codes


def _coded(ids: Ints, codes: _Codes | None) -> Ints:
    return ids if codes is None else codes[ids]


def _array(values: ArrayLike | Tensor) -> Ints:
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, dtype=np.int64)
