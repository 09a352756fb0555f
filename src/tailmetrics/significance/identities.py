"""The identity of runs: what their values depend on, and which not to compare."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any, Final, TypeAlias

Identities: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Run -> entries that its values depend on, from ``tailmetrics.evaluation.digest``."""

VERSION: Final = "versions of their digests"
ENTRIES: Final = {
    "version": VERSION,
    "targets": "targets",
    "buckets": "buckets",
    "counts": "training counts",
    "options": "options",
}
"""The entries that must not differ, in words."""


def check_identities(
    caller: str,
    identities: Identities | None,
    runs: Collection[str],
    keys: Collection[str],
) -> None:
    """Raise ValueError if runs differ in what the values of keys depend on.

    That is targets, buckets, training counts, options and arguments of keys.

    An entry that is None or missing is not compared. Models may have different
    thresholds, each tuned on other rows: a warning names the thresholds.

    Args:
        caller: Name of the function with which error messages begin.
        identities: Entries of each run; None if there are none.
        runs: The names of the runs.
        keys: The keys that are compared.

    Raises:
        ValueError: If an entry differs between two runs, or if ``identities`` does not
            name a run.
    """
    if identities is None:
        return
    lacking = [name for name in runs if name not in identities]
    if lacking:
        raise ValueError(
            f"{caller}: identities has no entries of {', '.join(map(repr, lacking))}; "
            "pass the entries of every run, "
            "or an empty dict for a run without entries."
        )
    entries = {name: _without_none(identities[name]) for name in runs}
    for name, other in combinations(runs, 2):
        differences = _differences(entries[name], entries[other], keys)
        if not differences:
            continue
        remedy = (
            "on the same targets, with the same buckets, training labels, number of "
            "labels, metrics and options"
        )
        if differences == [VERSION]:
            remedy = "with the same version of tailmetrics"
        raise ValueError(
            f"{caller}: {name!r} and {other!r} have different "
            f"{' and '.join(differences)}; evaluate both {remedy}."
        )
    _warn_of_thresholds(caller, entries, keys)


def _without_none(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries to compare; those of keys are empty rather than missing."""
    compared: dict[str, Any] = {"cuts": {}, "keys": {}, "labels": {}}
    for entry, value in entries.items():
        if value is not None:
            compared[entry] = value
    return compared


def _warn_of_thresholds(
    caller: str, identities: Identities, keys: Collection[str]
) -> None:
    """Warn of keys whose thresholds differ between runs."""
    stems_by_thresholds: dict[str, dict[str, None]] = defaultdict(dict)
    for key in keys:
        thresholds = {}
        for name, entries in identities.items():
            cut = entries["cuts"].get(key)
            if cut is not None:
                thresholds[name] = cut.partition("=")[2]
        if len(set(thresholds.values())) > 1:
            text = ", ".join(
                f"{threshold} in {name!r}" for name, threshold in thresholds.items()
            )
            stems_by_thresholds[text][key.partition("/")[0]] = None

    for text, stems in stems_by_thresholds.items():
        message = (
            f"{caller}: the threshold of {', '.join(map(repr, stems))} is {text}. "
            "Tune no threshold on these rows."
        )
        warnings.warn(message, stacklevel=4)


def _differences(
    entries: Mapping[str, Any], other: Mapping[str, Any], keys: Collection[str]
) -> list[str]:
    """Return the entries that differ, in words.

    It is only the version if that differs, because the rest depends on it.
    """
    differences = []
    for entry, words in ENTRIES.items():
        if _differ(entries.get(entry), other.get(entry)):
            differences.append(words)
    if VERSION in differences:
        return [VERSION]

    if ENTRIES["options"] in differences:
        names = _differing_options(entries["options"], other["options"])
        if names:
            differences[differences.index(ENTRIES["options"])] = (
                f"options ({', '.join(names)})"
            )
    keys_text = _differing_keys(entries, other, keys)
    if keys_text:
        differences.append(f"arguments of {keys_text}")
    labels_text = _differing_labels(entries["labels"], other["labels"], keys)
    if labels_text:
        differences.append(f"numbers of labels in {labels_text}")
    return differences


def _differ(entry: Any, other: Any) -> bool:
    return entry is not None and other is not None and entry != other


def _differing_options(options: Any, other: Any) -> list[str]:
    """Return the names of the options that differ; none if options have no names."""
    if not (isinstance(options, Mapping) and isinstance(other, Mapping)):
        return []
    names = []
    for name in sorted({*options, *other}):
        if options.get(name) != other.get(name):
            names.append(name)
    return names


def _differing_keys(
    entries: Mapping[str, Any], other: Mapping[str, Any], keys: Collection[str]
) -> str:
    """Return the keys whose arguments differ, in words."""
    texts = []
    for key in keys:
        cut, other_cut = entries["cuts"].get(key), other["cuts"].get(key)
        if _differ(cut, other_cut) and not (
            _is_threshold(cut) and _is_threshold(other_cut)
        ):
            texts.append(f"{key!r} ({cut}, {other_cut})")
        elif _differ(entries["keys"].get(key), other["keys"].get(key)):
            texts.append(repr(key))
    return ", ".join(texts)


def _differing_labels(
    labels: Mapping[str, int], other: Mapping[str, int], keys: Collection[str]
) -> str:
    """Return the keys that depend on a number of labels that differs, in words."""
    texts = []
    for key in keys:
        if _differ(labels.get(key), other.get(key)):
            texts.append(f"{key!r} ({labels[key]:,}, {other[key]:,})")
    return ", ".join(texts)


def _is_threshold(cut: str) -> bool:
    return cut.startswith("threshold=")
