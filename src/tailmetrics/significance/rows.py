"""The values of rows that comparisons read.

Each row has a value, a numerator and denominator, or counts of labels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import sub
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from tailmetrics.ranking._tensors import check_indexes
from tailmetrics.significance.influence import Array, Flags, Influence, Ints
from tailmetrics.significance.interval import Gaps
from tailmetrics.significance.labels import OverLabels

RowValues: TypeAlias = (
    "Mapping[str, ArrayLike | tuple[ArrayLike, ArrayLike] | OverLabels]"
)
"""Key -> values of its rows, in one of three forms.

Values are of shape (N,). A ratio is a pair (numerator, denominator), each of shape
(N,). An average over labels is an object with the contributions of rows to the counts
of labels. A row that does not count has NaN.
"""

ModelRows: TypeAlias = "RowValues | Sequence[RowValues]"
"""The values of the rows of a model, or of each of its runs."""

Kind: TypeAlias = Literal["mean", "ratio", "median", "labels", "gap"]


class Term(NamedTuple):
    """A ratio of sums over rows, with its sign; NaN in rows that do not count.

    Attributes:
        sign: 1 or -1.
        top: The numerators, shape (N,).
        bottom: The denominators, shape (N,).
    """

    sign: int
    top: Array
    bottom: Array

    @property
    def counted(self) -> Flags:
        """Which rows count, shape (N,)."""
        return ~(np.isnan(self.top) | np.isnan(self.bottom))

    def negative(self) -> Term:
        """Return the same ratio with the other sign."""
        return self._replace(sign=-self.sign)


@dataclass(frozen=True, eq=False)
class KeyRows:
    """The values of the rows of one model for one key.

    Attributes:
        kind: Which statistic is computed from the rows.
        terms: Each term is a ratio: the sum of its numerators over rows, divided by the
            sum of its denominators. The value is the sum of these ratios with their
            signs. A mean has denominators of 1. A median has one term, whose numerators
            are the values of rows.
        runs: The value of each run of the model.
        influence: The influence of rows and labels on an average over labels; None for
            other keys. Of several runs of a model, it is the influence on the first.
        label_rows: The labels of the rows of an average over labels: one for a bucket,
            two for a gap; else empty.
        are_shares: Whether every value lies in [0, 1].
        bin_error: Upper bound of the distance from the exact value, which is lost where
            scores share bins.
    """

    kind: Kind
    terms: tuple[Term, ...]
    runs: tuple[float, ...]
    influence: Influence | None = None
    label_rows: tuple[OverLabels, ...] = ()
    are_shares: bool = True
    bin_error: float = 0.0

    @property
    def has_row_values(self) -> bool:
        """Whether ``terms`` hold the values of rows.

        False for an average over labels and for several runs.
        """
        return self.influence is None and len(self.runs) == 1

    @property
    def num_rows(self) -> int:
        """N."""
        return self.terms[0].top.size

    @property
    def values(self) -> Array:
        """The value of each row, shape (N,), of a key with one term.

        The value is 0 where the denominator is 0.
        """
        (term,) = self.terms
        return np.divide(
            term.top, term.bottom, out=np.zeros_like(term.top), where=term.bottom != 0
        )


def value_of(kind: Kind, term: Term) -> float:
    """Return the statistic of a key with one term, over all rows that count.

    NaN if no row counts.
    """
    rows = term.counted
    top, bottom = term.top[rows], term.bottom[rows]
    if not top.size:
        return float("nan")
    if kind == "median":
        return float(np.median(top))
    total = float(bottom.sum())
    if not total:
        return float("nan")
    return float(top.sum()) / total


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of rows; the rows of one cluster are drawn and swapped together.

    Attributes:
        codes: Shape (N,), int64; the cluster of each row, from 0.
        number: Number of clusters.
    """

    codes: Ints
    number: int

    def sums(self, column: Array) -> Array:
        """Return the sum of a column, shape (N,), by cluster, shape (number,)."""
        return np.asarray(
            np.bincount(self.codes, weights=column, minlength=self.number),
            dtype=np.float64,
        )


def read_clusters(
    caller: str, clusters: ArrayLike | None, num_rows: int
) -> Clusters | None:
    """Return the clusters as numbers; None if rows are independent.

    Args:
        caller: Name of the function with which error messages begin.
        clusters: Shape (N,), the name or number of each row's cluster, in any order.
        num_rows: N.

    Raises:
        ValueError: If there is not one cluster for each row.
    """
    if clusters is None:
        return None
    names: Any = clusters
    # NumPy alone would turn ["u", 1] into texts, and [1, 2**63] into floats
    if isinstance(clusters, (list, tuple)):
        names = np.empty(len(clusters), dtype=object)
        for place, name in enumerate(clusters):
            names[place] = name
            if hasattr(name, "item"):
                names[place] = name.item()
    names = np.asarray(names)
    if names.shape != (num_rows,):
        raise ValueError(
            f"{caller}: clusters is of shape {list(names.shape)} for {num_rows} rows; "
            "pass the cluster of each row, such as its user."
        )
    codes: dict[object, int] = {}
    numbers = np.empty(num_rows, dtype=np.int64)
    for row, name in enumerate(names):
        if not _is_name(name):
            raise ValueError(
                f"{caller}: clusters holds {name!r} in row {row}; pass a cluster for "
                "each row, one of its own for a row that stands alone."
            )
        numbers[row] = codes.setdefault(name, len(codes))
    return Clusters(numbers, len(codes))


def cluster_codes(caller: str, clusters: ArrayLike, num_rows: int) -> Ints:
    """Return the clusters as numbers, shape (N,); see :func:`read_clusters`."""
    row_clusters = read_clusters(caller, clusters, num_rows)
    assert row_clusters is not None
    return row_clusters.codes


def _is_name(name: object) -> bool:
    """Whether a cluster may have this name.

    None and NaN are no names. Nor are lists, which have no hash, and pandas.NA, which
    has no truth.
    """
    try:
        hash(name)
        return name is not None and bool(name == name)
    except TypeError:
        return False


def keys_of(rows: ModelRows) -> tuple[str, ...]:
    """Return the keys of a model, or of its first run."""
    return tuple(next(iter(_runs_of(rows)), {}))


def _runs_of(rows: ModelRows) -> list[RowValues]:
    """Return the runs of a model; values alone are its only run."""
    if isinstance(rows, Mapping):
        return [rows]
    return list(rows)


def _num_rows(rows: ModelRows) -> int:
    """Return the number of rows of the first key; 0 without keys, which are refused."""
    for run in _runs_of(rows):
        for value in run.values():
            if isinstance(value, OverLabels):
                return value.inside.size
            if isinstance(value, tuple):
                value = value[0]
            return np.asarray(value).size
    return 0


def read_models(
    caller: str,
    runs: Mapping[str, ModelRows],
    clusters: ArrayLike | None = None,
    medians: Collection[str] = (),
    unbounded: Collection[str] = (),
    gaps: Gaps | None = None,
    parts: Collection[str] = (),
) -> tuple[dict[str, dict[str, KeyRows]], Clusters | None, int]:
    """Return the keys and gaps of each model, the clusters, and the number of rows.

    Args:
        caller: Name of the function with which error messages begin.
        runs: Name of a model -> its values of rows, or a list with the values of each
            of its runs.
        clusters: Shape (N,), the cluster of each row; None if rows are independent.
        medians: Keys, with or without their bucket, whose value is a median.
        unbounded: Keys, with or without bucket, whose values can lie outside [0, 1].
        gaps: Name of a gap -> the keys of its buckets, head first. Buckets that a model
            has not measured are skipped. The gap is the value of the first measured
            bucket minus the value of the last. Medians have no gap.
        parts: Keys that only gaps read.

    Raises:
        ValueError: If an argument names an unknown key, or if models or runs differ in
            keys, rows or kinds of values.
    """
    gaps = gaps or {}
    keys = keys_of(next(iter(runs.values())))
    median_keys = check_names(caller, "medians", medians, keys)
    unbounded_keys = check_names(caller, "unbounded", unbounded, (*keys, *gaps))
    check_names(caller, "parts", parts, keys, whole=True)
    for name, gap_keys in gaps.items():
        check_names(caller, "gaps", gap_keys, keys, whole=True)
        if name in keys:
            raise ValueError(
                f"{caller}: gaps names a gap {name!r}, which is a key; choose "
                "another name."
            )

    _check_series(caller, runs, clusters)
    row_clusters = None
    if clusters is not None:
        row_clusters = read_clusters(
            caller, clusters, _num_rows(next(iter(runs.values())))
        )
    models = {}
    for name, rows in runs.items():
        models[name] = _read_rows(
            caller, name, rows, median_keys, unbounded_keys, row_clusters
        )
    _check_alike(caller, models)
    num_rows = models[next(iter(runs))][keys[0]].num_rows
    for name, gap_keys in gaps.items():
        ends = gap_ends(list(models.values()), gap_keys)
        if ends is not None:
            first, last = ends
            for model in models.values():
                model[name] = _gap(
                    model[first], model[last], not covers(unbounded_keys, name)
                )
    return models, row_clusters, num_rows


def _check_series(
    caller: str, runs: Mapping[str, ModelRows], clusters: ArrayLike | None
) -> None:
    """Refuse pandas Series whose indexes name other rows than that of the first one."""
    values: dict[str, Any] = {}
    for name, rows in runs.items():
        for number, run in enumerate(_runs_of(rows)):
            place = name
            if not isinstance(rows, Mapping):
                place = f"{name}[{number}]"
            for key, value in run.items():
                values[f"{place}[{key!r}]"] = value
    check_indexes(caller, {**values, "clusters": clusters})


def gap_ends(
    models: Sequence[Mapping[str, KeyRows]], keys: Sequence[str]
) -> tuple[str, str] | None:
    """Return the keys of the first and the last bucket that all models have measured.

    None without a gap. The kind of a key is the same in all models.
    """
    measured = []
    for key in keys:
        values = np.concatenate([model[key].runs for model in models])
        if not np.isnan(values).any():
            measured.append(key)
    if len(measured) < 2:
        return None
    first, last = measured[0], measured[-1]
    if "median" in (models[0][first].kind, models[0][last].kind):
        return None
    return first, last


def _read_rows(
    caller: str,
    name: str,
    rows: ModelRows,
    medians: frozenset[str],
    unbounded: frozenset[str],
    clusters: Clusters | None,
) -> dict[str, KeyRows]:
    """Return the keys of a model as float64 arrays of one length."""
    runs: dict[str, dict[str, KeyRows]] = {}
    for number, run in enumerate(_runs_of(rows), 1):
        key_rows = {}
        for key, value in run.items():
            key_rows[key] = _read_key(
                caller, name, key, value, covers(medians, key), clusters
            )
        runs[f"run {number} of {name}"] = key_rows
    if not runs or not all(runs.values()):
        raise ValueError(
            f"{caller}: {name} has no keys; pass a dict of key -> values per row."
        )
    first_run, *other_runs = runs.values()
    _check_lengths(caller, name, first_run)
    _check_alike(caller, runs)

    model = {}
    for key, first_rows in first_run.items():
        if other_runs:
            if first_rows.kind == "median":
                raise ValueError(
                    f"{caller}: {key!r} is a median, which cannot be computed over "
                    "several runs of a model; leave it out, or name each run of "
                    f"{name} as a model of its own."
                )
            first_rows = _join_runs([run[key] for run in runs.values()])
        model[key] = replace(first_rows, are_shares=not covers(unbounded, key))
    return model


def _check_lengths(caller: str, name: str, run: Mapping[str, KeyRows]) -> None:
    """Refuse keys that differ in their number of rows."""
    (first, first_rows), *others = run.items()
    for key, key_rows in others:
        if key_rows.num_rows != first_rows.num_rows:
            raise ValueError(
                f"{caller}: {name} has {first_rows.num_rows} rows for {first!r}, but "
                f"{key_rows.num_rows} for {key!r}; pass one value per row for every "
                "key, NaN where a row does not count."
            )


def _check_alike(caller: str, runs: Mapping[str, Mapping[str, KeyRows]]) -> None:
    """Refuse runs that differ in keys, in number of rows or in the kind of a key."""
    (first_name, first), *others = runs.items()
    for name, run in others:
        missing = sorted(first.keys() ^ run.keys())
        if missing:
            raise ValueError(
                f"{caller}: only one of {first_name} and {name} has "
                f"{', '.join(map(repr, missing))}; evaluate both with the same metrics "
                "and buckets."
            )
        for key, rows in run.items():
            if rows.num_rows != first[key].num_rows:
                raise ValueError(
                    f"{caller}: {key!r} has {first[key].num_rows} rows in "
                    f"{first_name}, but {rows.num_rows} in {name}; pass the same rows "
                    "for all runs."
                )
            if rows.kind != first[key].kind:
                raise ValueError(
                    f"{caller}: {key!r} is a {first[key].kind} in {first_name}, but a "
                    f"{rows.kind} in {name}; evaluate both with the same metrics."
                )


def covers(names: frozenset[str], key: str) -> bool:
    """Whether ``names`` holds the key, or the key without its bucket."""
    return not names.isdisjoint(_key_and_stems(key))


def check_names(
    caller: str,
    argument: str,
    names: Collection[str],
    keys: Iterable[str],
    whole: bool = False,
) -> frozenset[str]:
    """Return ``names`` if each is a key, or a key without its bucket.

    With ``whole`` each must be a key.
    """
    if isinstance(names, str):
        raise TypeError(
            f"{caller}: {argument}={names!r} is one string; pass a list of keys, such "
            f"as [{names!r}]."
        )
    keys = tuple(keys)
    accepted = set(keys)
    if not whole:
        for key in keys:
            accepted.update(_key_and_stems(key))
    for name in names:
        if name not in accepted:
            raise ValueError(
                f"{caller}: {argument} holds {name!r}, which is no key; the keys are "
                f"{', '.join(keys)}."
            )
    return frozenset(names)


def _key_and_stems(key: str) -> Iterable[str]:
    """Return the part of the key before each of its slashes, and the key."""
    return accumulate(key.split("/"), "{}/{}".format)


def _read_key(
    caller: str,
    run: str,
    key: str,
    value: Any,
    median: bool,
    clusters: Clusters | None = None,
) -> KeyRows:
    """Return the values of one key as arrays."""
    if median and isinstance(value, (tuple, OverLabels)):
        raise ValueError(
            f"{caller}: {key!r} in {run} is a ratio or an average, which has no "
            "median; leave it out."
        )
    if isinstance(value, OverLabels):
        return _read_labels(value, clusters)
    if isinstance(value, tuple):
        return _read_ratio(caller, run, key, value)
    top = _read_array(caller, run, key, value)
    kind: Kind = "mean"
    if median:
        kind = "median"
    return _key_rows(kind, Term(1, top, np.broadcast_to(1.0, top.shape)))


def _read_ratio(caller: str, run: str, key: str, value: tuple[Any, ...]) -> KeyRows:
    """Return the numerators and denominators of one key as arrays."""
    if len(value) != 2:
        raise ValueError(
            f"{caller}: {key!r} in {run} has {len(value)} parts; pass a pair "
            "(numerator, denominator)."
        )
    top = _read_array(caller, run, key, value[0])
    bottom = _read_array(caller, run, key, value[1])
    if top.shape != bottom.shape:
        raise ValueError(
            f"{caller}: {key!r} in {run} has {top.size} numerators and {bottom.size} "
            "denominators; pass one of each per row."
        )
    return _key_rows("ratio", Term(1, top, bottom))


def _key_rows(kind: Kind, term: Term) -> KeyRows:
    return KeyRows(kind, (term,), (value_of(kind, term),))


def _read_labels(label_rows: OverLabels, clusters: Clusters | None) -> KeyRows:
    """Return an average over labels as numbers of rows, of which it is the mean.

    The number of a row is value + N * influence.
    """
    codes = None
    # other numbers of rows are refused
    if clusters is not None and clusters.codes.size == label_rows.inside.size:
        codes = clusters.codes
    influence = label_rows.influence(codes)
    denominators = np.where(influence.inside, 1.0, np.nan)
    values = (
        influence.value + influence.inside.sum() * influence.rows + 0 * denominators
    )
    return KeyRows(
        "labels",
        (Term(1, values, denominators),),
        (influence.value,),
        influence=influence,
        label_rows=(label_rows,),
        bin_error=influence.bin_error,
    )


def _read_array(caller: str, run: str, key: str, value: Any) -> Array:
    """Return the numbers of one key, shape (N,).

    Raises:
        TypeError: If they are no numbers, or a masked array.
        ValueError: If there is not one number per row.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{caller}: {key!r} in {run} is a masked array, whose mask would be lost; "
            "fill it with NaN, which stands for a row that does not count: "
            "values.astype(float).filled(numpy.nan)."
        )
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        if value.is_floating_point():
            value = value.double()  # NumPy has no bfloat16
    try:
        are_numbers = np.asarray(value).dtype.kind in "biufO"
        array = np.asarray(value, dtype=np.float64 if are_numbers else None)
    except (TypeError, ValueError):
        are_numbers = False
    if not are_numbers:
        raise TypeError(
            f"{caller}: {key!r} in {run} {_fault(value)}; pass one number per row, as "
            "an array, a tensor, a column or a list."
        )
    if array.ndim != 1:
        raise ValueError(
            f"{caller}: {key!r} in {run} is of shape {list(array.shape)}; "
            "pass one number per row, or for a ratio a tuple (numerator, denominator)."
        )
    return array


def _fault(value: Any) -> str:
    """Return what is wrong with values that are no numbers."""
    if hasattr(value, "dtype"):
        return f"is of type {value.dtype}"
    if isinstance(value, list):
        return "is a list that does not hold numbers alone"
    return f"is a {type(value).__name__}"


def _join_runs(runs: Sequence[KeyRows]) -> KeyRows:
    """Return several runs of a model as one key: the mean over runs of each row.

    Only rows that count in all runs count. The rows of a ratio have no ratio of their
    own: each takes the ratio + N * its influence, of which the mean is the ratio.
    """
    inside = np.logical_and.reduce([run.terms[0].counted for run in runs])
    row_values, values = [], []
    for run in runs:
        top = np.where(inside, run.terms[0].top, np.nan)
        bottom = np.where(inside, run.terms[0].bottom, np.nan)
        value = value_of(run.kind, Term(1, top, bottom))
        values.append(value)
        if run.kind == "ratio":
            influences = (top - value * bottom) / max(bottom[inside].sum(), 1e-300)
            top = value + inside.sum() * influences
        row_values.append(top)
    term = Term(1, np.mean(row_values, axis=0), np.where(inside, 1.0, np.nan))
    bin_error = float(np.mean([run.bin_error for run in runs]))
    return replace(runs[0], terms=(term,), runs=tuple(values), bin_error=bin_error)


def _gap(first: KeyRows, last: KeyRows, are_shares: bool) -> KeyRows:
    """Return the value of the first bucket minus the value of the last bucket."""
    negative_terms = [term.negative() for term in last.terms]
    influence = None
    if first.influence is not None and last.influence is not None:
        influence = first.influence.minus(last.influence)
    return KeyRows(
        "gap",
        (*first.terms, *negative_terms),
        tuple(map(sub, first.runs, last.runs)),
        influence=influence,
        label_rows=(*first.label_rows, *last.label_rows),
        are_shares=are_shares,
        bin_error=first.bin_error + last.bin_error,
    )
