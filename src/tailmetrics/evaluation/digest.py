"""SHA-256 digests of targets, buckets, counts and options of a run. Runs can be compared if their digests are equal.

    digest = RunDigest(metrics, options={...}, label_names=None)   # before the first batch; metrics are bound
    digest.update(rows, ranking)                                   # numbers of a batch's rows, and its ranking
    digest.entries() -> dict                                       # "targets", "buckets", "counts", "options", "keys",
                                                                   # "cuts", "version": plain data
    merged([entries, entries, ...]) -> dict                        # one of each process, for its share of the rows

A table of values per row stores the entries after its last row, when all targets are known. :func:`compare
<tailmetrics.significance.compare>` takes the entries of each run as ``identities``, and refuses runs that differ.
"""

from __future__ import annotations

import json
import re
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

VERSION: Final = "4"
"""The version of the digests. Digests of different versions cannot be compared."""

LEFT_OUT: Final = ("k", "threshold", "buckets", "label_counts", "num_labels", "row_groups")
"""Settings that the digest of a metric leaves out: other entries hold them, and no value depends on ``num_labels``."""

Ints = NDArray[np.int64]
_MODULUS: Final = 2**256
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,17}")


class RunDigest:
    """SHA-256 digests of the targets, buckets, training counts and options of one run.

    The digests do not depend on the size and order of batches or on the number of processes. With ``label_names`` they
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
        self._row_codes = None if row_names is None else np.fromiter(map(_code, row_names), np.int64)
        self._targets = 0
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
        self._targets = (self._targets + _sum_over_rows(numbers, ranking, self._codes)) % _MODULUS

    def entries(self) -> dict[str, Any]:
        """Return the digests in hex as plain data; None for buckets or counts that no metric has.

        ``"targets"``: numbers of the rows, their relevant labels and gains. ``"buckets"``: names of the buckets, and
        the bucket of each label that is not ``unseen``. ``"counts"``: training counts in metrics that use them.
        ``"options"``: the given options, so that an error can name the option that differs. ``"keys"``: for each key a
        digest of the metric's other arguments. ``"cuts"``: for each key ``"k=5"`` or ``"threshold=0.5"``.
        ``"version"``: version of the digests.
        """
        return {"targets": f"{self._targets:064x}", **self._fixed}


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries of a whole run from the entries of its processes, each of which had a share of the rows.

    Args:
        parts: The result of ``RunDigest.entries`` in each process.

    Raises:
        ValueError: If the processes had different buckets, counts, options or metrics.
    """
    first, *others = parts
    for place, other in enumerate(others, start=1):
        wrong = [name for name in (first.keys() | other.keys()) - {"targets"} if first.get(name) != other.get(name)]
        if wrong:
            raise ValueError(
                f"merged: parts 0 and {place} differ in {', '.join(sorted(wrong))}; evaluate all shares of the rows "
                "with the same metrics, training labels and options."
            )
    total = sum(int(part["targets"], 16) for part in parts) % _MODULUS
    return {**first, "targets": f"{total:064x}"}


def _sum_over_rows(numbers: Ints, ranking: Ranking, codes: _Codes | None) -> int:
    """Return the sum of the digests of all rows: the order of rows makes no difference, and partial sums can be added.

    A row is hashed as pairs of integers: first the row number and the number of its labels, then each label and the
    bits of its gain.
    """
    targets = ranking.targets
    rows, ids = _array(targets.entries.rows), _array(targets.entries.ids)
    given = targets.entries.gains
    gains = np.ones(len(ids)) if given is None else given.detach().cpu().numpy().astype("<f8")
    relevant = ids >= 0
    rows, gains = rows[relevant], gains[relevant]
    labels = _coded(ids[relevant], codes)
    order = np.lexsort((labels, rows))
    rows, labels, gains = rows[order], labels[order], gains[order]
    lengths = np.bincount(rows, minlength=len(numbers))
    cells = np.empty((len(numbers) + len(rows), 2), dtype="<i8")
    heads = np.arange(len(numbers)) + np.cumsum(lengths) - lengths
    cells[heads] = np.stack([numbers, lengths], axis=1)
    cells[np.arange(len(rows)) + rows + 1] = np.stack([labels, gains.view("<i8")], axis=1)
    counted = np.ones(len(numbers), bool) if targets.row_mask is None else targets.row_mask.cpu().numpy()
    starts = (heads[counted] * 16).tolist()
    stops = ((heads + lengths + 1)[counted] * 16).tolist()
    data = memoryview(cells.tobytes())
    digests = (sha256(data[start:stop]).digest() for start, stop in zip(starts, stops, strict=True))
    return sum(int.from_bytes(digest, "little") for digest in digests)


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
    """The codes of labels by their ids, each made when it is first asked for: a catalogue may name millions."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._known = names, np.zeros(len(names), bool)
        self._codes = np.zeros(len(names), np.int64)

    def __getitem__(self, ids: Ints) -> Ints:
        new = np.unique(ids[~self._known[ids]])
        self._codes[new] = [_code(self._names[label]) for label in new.tolist()]
        self._known[new] = True
        return self._codes[ids]


def _code(name: str) -> int:
    """Return a number for a name, independent of other names: the integer that it spells, or a negative digest."""
    if _WHOLE.fullmatch(name):
        return int(name)
    return -1 - (int.from_bytes(sha256(name.encode()).digest()[:8], "little") >> 1)


def _coded(ids: Ints, codes: Ints | _Codes | None) -> Ints:
    return ids if codes is None else codes[ids]


def _array(values: ArrayLike | Tensor) -> Ints:
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, dtype=np.int64)
