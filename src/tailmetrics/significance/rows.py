"""The values of rows that comparisons read: a value, a numerator and denominator, or counts of labels for each row."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmetrics.significance.labels import Influence, OverLabels

Array: TypeAlias = NDArray[np.float64]
RowValues: TypeAlias = "Mapping[str, ArrayLike | tuple[ArrayLike, ArrayLike] | OverLabels]"
"""Key -> values of its rows, in one of three forms.

Values are of shape (N,). A ratio is a pair (numerator, denominator), each of shape (N,). An average over labels is an
object with the contributions of rows to the counts of labels. A row that does not count has NaN.
"""

Kind: TypeAlias = Literal["mean", "ratio", "median", "labels", "gap"]
Term: TypeAlias = "tuple[int, Array, Array]"
"""Sign, numerators (N,), denominators (N,); NaN in rows that do not count."""

Identities: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Run -> entries on which its values depend. ``tailmetrics.evaluation.digest`` makes the entries."""

MEANT: Final = {
    "version": "versions of their digests",
    "targets": "targets",
    "buckets": "buckets",
    "counts": "training counts",
    "options": "options",
}


@dataclass(frozen=True, eq=False)
class KeyRows:
    """The values of the rows of one model for one key.

    Attributes:
        kind: Which statistic is computed from the rows.
        terms: Each term is a ratio: the sum of its numerators over rows, divided by the sum of its denominators. The
            value is the sum of these ratios with their signs. A mean has denominators of 1. A median has one term,
            whose numerators are the values of rows.
        runs: The value of each run of the model.
        influence: The influence of rows and labels on an average over labels; None for other keys. Where a model has
            several runs, it is the influence on the first.
        shares: Whether every value lies in [0, 1].
        bin_error: Upper bound of the distance from the exact value, which is lost where scores share bins.
    """

    kind: Kind
    terms: tuple[Term, ...]
    runs: tuple[float, ...]
    influence: Influence | None = None
    shares: bool = True
    bin_error: float = 0.0

    @property
    def plain(self) -> bool:
        """Whether ``terms`` hold the values of rows; False for an average over labels and for several runs."""
        return self.influence is None and len(self.runs) == 1

    @property
    def num_rows(self) -> int:
        """N."""
        return self.terms[0][1].size

    @property
    def values(self) -> Array:
        """The value of each row, shape (N,), of a key with one term; 0 where the denominator is 0."""
        ((_, top, bottom),) = self.terms
        return np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)


def counted(term: Term) -> NDArray[np.bool_]:
    """Return which rows count in a term, shape (N,)."""
    return ~(np.isnan(term[1]) | np.isnan(term[2]))


def value_of(kind: Kind, term: Term) -> float:
    """Return the statistic of a key with one term, over all rows that count."""
    top, bottom = (column[counted(term)] for column in term[1:])
    if kind == "median":
        return float(np.median(top)) if top.size else float("nan")
    total = float(bottom.sum())
    return float(top.sum()) / total if total else float("nan")


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of rows; the rows of one cluster are drawn and swapped together.

    Attributes:
        codes: Shape (N,), int64; the cluster of each row, from 0.
        number: Number of clusters.
    """

    codes: NDArray[np.int64]
    number: int

    def sums(self, column: Array) -> Array:
        """Return the sum of a column, shape (N,), over the rows of each cluster, shape (number,)."""
        return np.asarray(np.bincount(self.codes, weights=column, minlength=self.number), dtype=np.float64)


def read_clusters(caller: str, clusters: ArrayLike | None, num_rows: int) -> Clusters | None:
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
    given: Any = clusters
    if isinstance(clusters, (list, tuple)):  # NumPy alone would turn ["u", 1] into texts, and [1, 2**63] into floats
        given = np.empty(len(clusters), dtype=object)
        given[:] = [one.item() if hasattr(one, "item") else one for one in clusters]
    names = np.asarray(given)
    if names.shape != (num_rows,):
        raise ValueError(
            f"{caller}: clusters is of shape {list(names.shape)} for {num_rows} rows; pass the cluster of each row, "
            "such as its user."
        )
    codes: dict[object, int] = {}
    numbers = np.empty(num_rows, dtype=np.int64)
    for row, name in enumerate(names):
        try:
            numbers[row] = codes.setdefault(name, len(codes))
            is_name = name is not None and bool(name == name)
        except TypeError:  # a list has no hash, and pandas.NA has no truth value
            is_name = False
        if not is_name:
            raise ValueError(
                f"{caller}: clusters holds {name!r} in row {row}; pass a cluster for each row, one of its own for a "
                "row that stands alone."
            )
    return Clusters(numbers, len(codes))


def keys_of(rows: RowValues | Sequence[RowValues]) -> tuple[str, ...]:
    """Return the keys of a model, or of its first run."""
    return tuple(rows if isinstance(rows, Mapping) else next(iter(rows), {}))


def read_models(
    caller: str,
    runs: Mapping[str, RowValues | Sequence[RowValues]],
    clusters: ArrayLike | None,
    medians: Collection[str],
    unbounded: Collection[str],
    gaps: Mapping[str, Sequence[str]],
    parts: Collection[str],
) -> tuple[dict[str, dict[str, KeyRows]], Clusters | None, int]:
    """Return the keys and gaps of each model, the clusters, and the number of rows.

    Args:
        caller: Name of the function with which error messages begin.
        runs: Name of a model -> its values of rows, or a list with the values of each of its runs.
        clusters: Shape (N,), the cluster of each row; None if rows are independent.
        medians: Keys, with or without their bucket, whose value is the median of the rows.
        unbounded: Keys, with or without their bucket, whose values can lie outside [0, 1].
        gaps: Name of a gap -> the keys of its buckets, head first. Buckets that a model has not measured are skipped.
            The gap is the value of the first measured bucket minus the value of the last. Medians have no gap.
        parts: Keys that are left out after the gaps have been computed.

    Raises:
        ValueError: If an argument names an unknown key, or if models or runs differ in keys, rows or kinds of values.
    """
    keys = keys_of(next(iter(runs.values())))
    of_median = check_names(caller, "medians", medians, keys)
    free = check_names(caller, "unbounded", unbounded, (*keys, *gaps))
    check_names(caller, "parts", parts, keys, whole=True)
    check_names(caller, "gaps", [key for of_gap in gaps.values() for key in of_gap], keys, whole=True)
    models = {name: _read_rows(caller, name, rows, of_median, free) for name, rows in runs.items()}
    _check_alike(caller, models)
    for name, of_gap in gaps.items():
        buckets = [[model[key] for model in models.values()] for key in of_gap]
        measured = [one for one in buckets if not any(np.isnan(key.runs).any() for key in one)]
        if len(measured) > 1 and all(key.kind != "median" for one in (measured[0], measured[-1]) for key in one):
            for model, first, last in zip(models.values(), measured[0], measured[-1], strict=True):
                model[name] = _gap(first, last, not covers(free, name))
    num_rows = next(iter(models[next(iter(runs))].values())).num_rows
    models = {name: {key: of for key, of in model.items() if key not in parts} for name, model in models.items()}
    return models, read_clusters(caller, clusters, num_rows), num_rows


def _read_rows(
    caller: str, name: str, given: RowValues | Sequence[RowValues], medians: frozenset[str], unbounded: frozenset[str]
) -> dict[str, KeyRows]:
    """Return the keys of a model as float64 arrays of one length."""
    runs = [given] if isinstance(given, Mapping) else list(given)
    if not runs or not all(runs):
        raise ValueError(f"{caller}: {name} has no keys; pass a dict of key -> values per row.")
    read = [{key: _read_key(caller, name, key, one[key], covers(medians, key)) for key in one} for one in runs]
    (first, rows), *others = read[0].items()
    for key, other in others:
        if other.num_rows != rows.num_rows:
            raise ValueError(
                f"{caller}: {name} has {rows.num_rows} rows for {first!r}, but {other.num_rows} for {key!r}; "
                "pass one value per row for every key, NaN where a row does not count."
            )
    _check_alike(caller, {f"run {number} of {name}": one for number, one in enumerate(read, 1)})
    if several := [key for key, rows in read[0].items() if rows.kind == "median" and len(read) > 1]:
        raise ValueError(
            f"{caller}: {several[0]!r} is a median, which cannot be computed over several runs of a model; leave "
            f"it out, or name each run of {name} as a model of its own."
        )
    found = {key: _of_runs([one[key] for one in read]) for key in read[0]}
    return {key: replace(one, shares=not covers(unbounded, key)) for key, one in found.items()}


def _check_alike(caller: str, runs: Mapping[str, Mapping[str, KeyRows]]) -> None:
    (first_name, first), *others = runs.items()
    for name, run in others:
        if missing := sorted(first.keys() ^ run.keys()):
            raise ValueError(
                f"{caller}: only one of {first_name} and {name} has {', '.join(map(repr, missing))}; "
                "evaluate both with the same metrics and buckets."
            )
        for key, rows in run.items():
            if rows.num_rows != first[key].num_rows:
                raise ValueError(
                    f"{caller}: {key!r} has {first[key].num_rows} rows in {first_name}, but {rows.num_rows} in {name}; "
                    "pass the same rows for all runs."
                )
            if rows.kind != first[key].kind:
                raise ValueError(
                    f"{caller}: {key!r} is a {first[key].kind} in {first_name}, but a {rows.kind} in {name}; evaluate "
                    "both with the same metrics."
                )


def covers(names: frozenset[str], key: str) -> bool:
    """Whether ``names`` holds the key, or the key without its bucket."""
    return not names.isdisjoint(_itself_and_stems(key))


def check_names(
    caller: str, argument: str, names: Collection[str], keys: Iterable[str], whole: bool = False
) -> frozenset[str]:
    """Return ``names`` if each is a key, or a key without its bucket; with ``whole`` each must be a key."""
    if isinstance(names, str):
        raise TypeError(f"{caller}: {argument}={names!r} is one string; pass a list of keys, such as [{names!r}].")
    keys = tuple(keys)
    known = {*keys} if whole else {stem for key in keys for stem in _itself_and_stems(key)}
    for name in names:
        if name not in known:
            raise ValueError(f"{caller}: {argument} holds {name!r}, which is no key; the keys are {', '.join(keys)}.")
    return frozenset(names)


def check_identities(caller: str, identities: Identities | None, runs: Collection[str], keys: Collection[str]) -> None:
    """Refuse runs whose targets, buckets, training counts, options or arguments of keys differ.

    An entry that is None or missing is not compared. Models may have different thresholds, each tuned on other rows: a
    warning names the thresholds.

    Args:
        caller: Name of the function with which error messages begin.
        identities: Entries of each run; None if there are none.
        runs: The names of the runs.
        keys: The keys that are compared.

    Raises:
        ValueError: If an entry differs between two runs, or if ``identities`` does not name a run.
    """
    if identities is None:
        return
    if lacking := [name for name in runs if name not in identities]:
        raise ValueError(
            f"{caller}: identities has no entries of {', '.join(map(repr, lacking))}; pass the entries of every run, "
            "or an empty dict for a run without entries."
        )
    for place, name in enumerate(runs):
        for other in list(runs)[:place]:
            wrong = _differing(identities[other], identities[name], keys)
            if wrong:
                same = "on the same targets, with the same buckets, training labels, metrics and options"
                same = "with the same version of tailmetrics" if wrong == [MEANT["version"]] else same
                raise ValueError(
                    f"{caller}: {other!r} and {name!r} have different {' and '.join(wrong)}; evaluate both {same}."
                )
    cuts = {name: identities[name].get("cuts") or {} for name in runs}
    said: dict[str, dict[str, None]] = {}
    for key in keys:
        of_key = {name: cut[key].partition("=")[2] for name, cut in cuts.items() if key in cut}
        if len({*of_key.values()}) > 1:
            thresholds = ", ".join(f"{cut} in {name!r}" for name, cut in of_key.items())
            said.setdefault(thresholds, {})[key.partition("/")[0]] = None
    for thresholds, stems in said.items():
        of = ", ".join(map(repr, stems))
        text = f"{caller}: the threshold of {of} is {thresholds}. Tune no threshold on these rows."
        warnings.warn(text, stacklevel=3)


def _differing(one: Mapping[str, Any], other: Mapping[str, Any], keys: Collection[str]) -> list[str]:
    """Return the entries that differ, in words; only the version if it differs, because the rest depends on it."""

    def differ(mine: Any, its: Any) -> bool:
        return mine is not None and its is not None and mine != its

    found = [words for entry, words in MEANT.items() if differ(one.get(entry), other.get(entry))]
    if MEANT["version"] in found:
        return [MEANT["version"]]
    mine, its = one.get("options"), other.get("options")
    if isinstance(mine, Mapping) and isinstance(its, Mapping):
        named = ", ".join(name for name in sorted({*mine, *its}) if mine.get(name) != its.get(name))
        found = [f"{words} ({named})" if words == MEANT["options"] else words for words in found]
    arguments, others = one.get("keys") or {}, other.get("keys") or {}
    changed = {key: "" for key in keys if differ(arguments.get(key), others.get(key))}
    cuts, its_cuts = one.get("cuts") or {}, other.get("cuts") or {}
    for key in keys:
        cut, its_cut = cuts.get(key), its_cuts.get(key)
        if differ(cut, its_cut) and not (_is_threshold(cut) and _is_threshold(its_cut)):
            changed[key] = f" ({cut}, {its_cut})"
    said = ", ".join(f"{key!r}{how}" for key, how in changed.items())
    return [*found, *([f"arguments of {said}"] if changed else [])]


def _is_threshold(cut: str | None) -> bool:
    return cut is not None and cut.startswith("threshold=")


def _itself_and_stems(key: str) -> Iterator[str]:
    """Yield the key, and the part of the key before each of its slashes."""
    yield key
    yield from (key[:place] for place, letter in enumerate(key) if letter == "/")


def _read_key(caller: str, run: str, key: str, value: Any, median: bool) -> KeyRows:
    if median and isinstance(value, (tuple, OverLabels)):
        raise ValueError(f"{caller}: {key!r} in {run} is a ratio or an average, which has no median; leave it out.")
    if isinstance(value, OverLabels):
        found = value.influence()
        ones = np.where(found.inside, 1.0, np.nan)
        # one number per row, value + N * influence of the row: their mean is the value
        term = 1, found.value + found.inside.sum() * found.rows + 0 * ones, ones
        return KeyRows("labels", (term,), (found.value,), found, bin_error=found.bin_error)
    parts = value if isinstance(value, tuple) else (value,)
    if len(parts) != 1 + isinstance(value, tuple):
        raise ValueError(f"{caller}: {key!r} in {run} has {len(parts)} parts; pass a pair (numerator, denominator).")
    top, *rest = (_read_array(caller, run, key, part) for part in parts)
    bottom = rest[0] if rest else np.broadcast_to(1.0, top.shape)
    if top.shape != bottom.shape:
        raise ValueError(
            f"{caller}: {key!r} in {run} has {top.size} numerators and {bottom.size} denominators; "
            "pass one of each per row."
        )
    kind: Kind = "ratio" if rest else "median" if median else "mean"
    return KeyRows(kind, ((1, top, bottom),), (value_of(kind, (1, top, bottom)),))


def _read_array(caller: str, run: str, key: str, value: Any) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(
            f"{caller}: {key!r} in {run} is of shape {list(array.shape)}; "
            "pass one number per row, or for a ratio a tuple (numerator, denominator)."
        )
    return array


def _of_runs(runs: Sequence[KeyRows]) -> KeyRows:
    """Return several runs of a model as one key: the mean over runs of each row that counts in all of them."""
    if len(runs) == 1:
        return runs[0]
    inside = np.logical_and.reduce([counted(one.terms[0]) for one in runs])
    worth, values = [], []
    for one in runs:
        ((sign, *sides),) = one.terms
        top, bottom = (np.where(inside, side, np.nan) for side in sides)
        values.append(value_of(one.kind, (sign, top, bottom)))
        # rows have no ratio of their own: take the ratio + N * influence of the row; the mean of these is the ratio
        is_ratio = one.kind == "ratio"
        changed = inside.sum() * (top - values[-1] * bottom) / max(bottom[inside].sum(), 1e-300)
        worth.append(values[-1] + changed if is_ratio else top)
    term = 1, np.mean(worth, axis=0), np.where(inside, 1.0, np.nan)
    error = float(np.mean([one.bin_error for one in runs]))
    return replace(runs[0], terms=(term,), runs=tuple(values), bin_error=error)


def _gap(first: KeyRows, last: KeyRows, shares: bool) -> KeyRows:
    terms = (*first.terms, *((-sign, top, bottom) for sign, top, bottom in last.terms))
    runs = tuple(a - b for a, b in zip(first.runs, last.runs, strict=True))
    mine, its = first.influence, last.influence
    difference = mine.minus(its) if mine is not None and its is not None else None
    return KeyRows("gap", terms, runs, difference, shares, first.bin_error + last.bin_error)
