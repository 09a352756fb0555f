"""Groups of rows, such as languages or segments, and weights of rows, held against what a metric expects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailmetrics.ranking import Ranking


def check_row_groups(caller: str, row_groups: Any, bucket_names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of row groups as a tuple if they are distinct, and no bucket has one of them."""
    if row_groups is None:
        return None
    if not isinstance(row_groups, Sequence) or isinstance(row_groups, str):
        raise TypeError(f"{caller}: row_groups={row_groups!r} is no sequence; pass names such as ['en', 'de'].")
    names = tuple(row_groups)
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise ValueError(f"{caller}: row_groups={list(names)} must be distinct names, at least one.")
    taken = sorted({*names} & {*bucket_names})
    if taken:
        raise ValueError(
            f"{caller}: row_groups names {', '.join(map(repr, taken))}, which is a bucket too; give the group another "
            "name, so that keys tell them apart."
        )
    return names


def check_rows(
    caller: str, row_groups: tuple[str, ...] | None, weighted: bool, ranking: Ranking, validate: bool
) -> None:
    """Raise unless a batch has the row groups and weights that a metric asks for, and no others."""
    rows = ranking.rows
    if row_groups is not None and rows.groups is None:
        raise ValueError(
            f"{caller}: row_groups is missing; the metric has the groups {', '.join(row_groups)}: pass "
            "update(preds, target, row_groups=ids), the group of each row from 0, -1 for none."
        )
    if weighted and rows.weights is None:
        raise ValueError(
            f"{caller}: row_weights is missing; the metric is weighted: pass update(…, row_weights=weights)."
        )
    if row_groups is not None and rows.groups is not None and validate and rows.groups.numel():
        largest = int(rows.groups.max())
        if largest >= len(row_groups):
            raise ValueError(
                f"{caller}: row_groups holds {largest}, but there are {len(row_groups)} groups "
                f"({', '.join(row_groups)}); groups count from 0."
            )
