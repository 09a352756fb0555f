"""Arguments that metrics share: their types, and a check of row groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from tailmetrics._arguments import check_names
from tailmetrics._signatures import TorchMetricsArguments
from tailmetrics.buckets import RESERVED_NAMES, LabelBuckets
from tailmetrics.metrics._ties import Ties
from tailmetrics.ranking._batch import BatchArguments
from tailmetrics.ranking._ranking import Scope

Cutoffs: TypeAlias = int | Sequence[int]

Buckets: TypeAlias = LabelBuckets | str

EmptyTargetAction: TypeAlias = Literal["neg", "pos", "skip", "error"]

Average: TypeAlias = Literal["samples", "micro", "macro", "weighted", "none"]

LabelSet: TypeAlias = Literal["present", "union", "all"]

MacroOf: TypeAlias = Literal["of_averages"]


class UnbucketedArguments(BatchArguments, TorchMetricsArguments, total=False):
    """Keyword arguments of every metric, also where buckets mean nothing."""

    num_labels: int | None
    row_groups: Sequence[str] | None
    weighted: bool
    name: str | None
    validate_args: bool


class TopKArguments(UnbucketedArguments, total=False):
    """Keyword arguments of metrics that can be broken down by bucket."""

    buckets: Buckets | None


class LevelArguments(TopKArguments, total=False):
    """Keyword arguments of metrics that ask which labels are relevant."""

    min_gain: float | None


class RowArguments(LevelArguments, total=False):
    """Keyword arguments of metrics that read each row."""

    scope: Scope
    empty_target_action: EmptyTargetAction | None


class RelevanceArguments(RowArguments, total=False):
    """Keyword arguments of metrics with a value for each row."""

    average: Average


class ListArguments(RelevanceArguments, total=False):
    """Keyword arguments of metrics that read the one list of each row."""

    depth: int


class RankArguments(ListArguments, total=False):
    """Keyword arguments of metrics that read the ranks of the relevant labels."""

    ties: Ties


class OverLabelsArguments(RowArguments, total=False):
    """Keyword arguments of metrics that can also be averaged over labels."""

    labels: LabelSet


class LabelArguments(RankArguments, OverLabelsArguments, total=False):
    """Keyword arguments of metrics of ranks that can also be averaged over labels."""


def check_row_groups(
    caller: str, row_groups: Any, bucket_names: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the names of row groups as a tuple.

    Raise ValueError unless the names are distinct and not empty and, for a metric with
    buckets, differ from the names of buckets and of values over all buckets, and give
    each value a key of its own.
    """
    if row_groups is None:
        return None
    names = check_names(caller, "row_groups", row_groups)
    if not all(names) or len(set(names)) != len(names) or not names:
        raise ValueError(
            f"{caller}: row_groups={list(names)} must be distinct names, at least one."
        )
    if not bucket_names:
        return names

    names_of_buckets = sorted({*names} & {*bucket_names, *RESERVED_NAMES})
    if names_of_buckets:
        raise ValueError(
            f"{caller}: row_groups names {names_of_buckets[0]!r}, which is also the "
            "name of a bucket, or of the gap or spread over buckets; give the group "
            "another name."
        )
    endings = Counter(bucket_names)
    for bucket in bucket_names:
        endings.update(f"{name}/{bucket}" for name in names)
    repeated = [ending for ending, times in endings.items() if times > 1]
    if repeated:
        raise ValueError(
            f"{caller}: the names of buckets and of row_groups give two values the key "
            f"that ends in {repeated[0]!r}; give the group or the bucket another name."
        )
    return names
