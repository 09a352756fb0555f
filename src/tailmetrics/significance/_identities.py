"""Whether runs are about the same thing: the same targets, buckets, training counts and options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

Identities: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Run -> what its values depend on, the entries that ``tailmetrics.evaluation.digest`` makes."""

MEANT: Final = {
    "version": "versions of their digests",
    "targets": "targets",
    "buckets": "buckets",
    "counts": "training counts",
    "options": "options",
}


def check_identities(caller: str, identities: Identities | None, runs: Collection[str], keys: Collection[str]) -> None:
    """Refuse runs that are not about the same thing.

    An entry that is None or missing says nothing: that run has no buckets or counts, or does not know.

    Args:
        caller: Opens messages.
        identities: What is known of each run; None if nothing is.
        runs: Their names.
        keys: What is compared.

    Raises:
        ValueError: If an entry of two runs differs, or a run has none.
    """
    if identities is None:
        return
    if lacking := [name for name in runs if name not in identities]:
        raise ValueError(
            f"{caller}: identities holds nothing of {', '.join(map(repr, lacking))}; pass the entries of every run, or "
            "an empty dict for one of which nothing is known."
        )
    for place, name in enumerate(runs):
        for other in list(runs)[:place]:
            wrong = _differing(identities[other], identities[name], keys)
            if wrong:
                raise ValueError(
                    f"{caller}: {other!r} and {name!r} have different {' and '.join(wrong)}; evaluate both on the same "
                    "targets, with the same buckets, training labels, metrics and options."
                )


def _differing(one: Mapping[str, Any], other: Mapping[str, Any], keys: Collection[str]) -> list[str]:
    """Return in words what differs; digests of different versions are not held against one another."""
    found = [words for entry, words in MEANT.items() if _differ(one.get(entry), other.get(entry))]
    if MEANT["version"] in found:
        return [MEANT["version"]]
    arguments, others = one.get("keys") or {}, other.get("keys") or {}
    changed = [key for key in keys if _differ(arguments.get(key), others.get(key))]
    return [*found, *([f"arguments of {', '.join(map(repr, changed))}"] if changed else [])]


def _differ(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one != other
