"""Warnings of likely mistakes: in a metric's first batch, and of repeated queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tailmetrics._compiling import is_compiling
from tailmetrics.ranking import EVERYTHING, Ranking
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._warnings import warn_of_batch, warn_outside

QUERIES_REMEMBERED = 2**16
"""Number of earlier queries kept to find repeated queries: half a megabyte."""


@dataclass(frozen=True, eq=False)
class QueriesSeen:
    """The queries of earlier updates.

    A repeated query was split over two updates, and counts twice. Only the first
    repeated query causes a warning.

    Attributes:
        earlier: Shape (Q,), the latest queries; None before the first query.
        warned: Whether the warning was given.
    """

    earlier: Tensor | None = None
    warned: bool = False

    def with_queries(self, caller: str, queries: Tensor | None) -> QueriesSeen:
        """Return these queries and the queries of a batch; warn of a repeated query.

        Args:
            caller: Name of the class with which the warning begins.
            queries: Shape (N,), the number of each query; None if ``indexes`` did not
                give queries.
        """
        if queries is None or self.warned or is_compiling():
            return self

        earlier = queries[:0]
        if self.earlier is not None:
            earlier = self.earlier.to(queries.device, queries.dtype)
        repeated = queries[torch.isin(queries, earlier)]
        if len(repeated):
            warn_outside(
                f"{caller}: the query {int(repeated[0])} of indexes was in an earlier "
                "update, too. Its documents there count as another query: pass all "
                "documents of a query in one update. If it is another query, number "
                "the queries of all batches differently."
            )
        latest = torch.cat([earlier, queries])[-QUERIES_REMEMBERED:]
        return QueriesSeen(latest, bool(len(repeated)))


# no numbers of a batch in these texts: the parts of a data set give the same warning
OF_NO_CLASS = (
    "some rows have -1 or an empty list as target: no label, and nothing that could be "
    "found there. If it marks rows that do not count, such as padding, make the "
    "metrics with ignore_index=-1; if it marks labels that preds have no column for, "
    "they are misses, and without them values are too high: give the metrics "
    "empty_target_action='neg'."
)

OF_IGNORED = (
    "a list holds the label that ignore_index takes out of the target. There it is a "
    "label that is never relevant, and takes a place from another one. If it is "
    "padding, give it the score -inf, preds[:, {label}] = -inf, or leave it out of the "
    "lists; of padding 0, pass preds[:, 1:] beside target - 1, without ignore_index."
)

OF_GAINS = (
    "no label is relevant with min_gain={min_gain:g}: each gain of the first batch is "
    "1, as in a target without gains. If the target has none, leave min_gain out."
)

OF_SHORT_LISTS = (
    "most lists end before that. A metric that reads beyond the end of a list, this "
    "one or another, takes the list as complete: what it leaves out is a miss, and a "
    "precision divides by what is listed. Compare models by lists of one length, or "
    "with a k that all lists reach."
)


def warn_of_gains(metric: Any, ranking: Ranking) -> None:
    """Warn if ``min_gain`` is above 1 although all gains of the batch are 1."""
    min_gain = metric.min_gain
    if min_gain is None or min_gain <= 1 or metric.formula.reads_gains:
        return
    entries = ranking.targets.entries
    if entries.gains is None and len(entries.ids):
        warn_once(
            ranking,
            "gains",
            f"{type(metric).__name__}: {OF_GAINS.format(min_gain=min_gain)}",
        )


def warn_of_ranks(metric: Any, ranking: Ranking) -> None:
    """Warn of likely mistakes in the batch of a metric that reads ranks.

    These are rows without a class, an ignored label in a list, a k that reaches the
    number of labels, and lists that are too short or too long.
    """
    caller = type(metric).__name__
    if _has_rows_without_class(metric, ranking):
        warn_once(ranking, "no class", f"{caller}: {OF_NO_CLASS}")
    if _lists_ignored_label(metric, ranking):
        warn_once(
            ranking,
            "ignored",
            f"{caller}: {OF_IGNORED.format(label=metric.ignore_index)}",
        )
    if metric._warns_of_cutoffs:
        for text in warnings_of_small_buckets([metric], str):
            warn_of_batch(ranking.notes, f"{caller}: {text}")
    warn_of_whole_lists(metric, ranking)
    if not metric.reading.needs_scores:
        _warn_of_short_lists(metric, ranking)

    depth = _depth_read(metric)
    if depth and is_listed(ranking) and bool((ranking.length > depth).any()):
        warn_once(
            ranking,
            ("long lists", depth),
            f"{caller}, depth={depth}: some lists are longer. A value by bucket "
            "(scope 'bucket') reads "
            f"the first {depth:,} places alone; a larger depth reads more.",
        )


def warn_of_whole_lists(metric: Any, ranking: Ranking) -> None:
    """Warn if the top k of every list shows all labels.

    A collection or a report warns for its metrics.
    """
    if metric._warns_of_cutoffs:
        for text in warnings_of_whole_lists(
            [metric], str, labels_in_each_list(metric.num_labels, ranking)
        ):
            warn_of_batch(ranking.notes, f"{type(metric).__name__}: {text}")


def _has_rows_without_class(metric: Any, ranking: Ranking) -> bool:
    """Whether counted rows have no class, and nobody said how they count.

    Only targets with one class per row are checked.
    """
    padded = ranking.targets.padded
    is_class_target = padded is not None and padded.shape[1] == 1
    counts_as_miss = (
        metric.empty_target_action == "neg"
        and "empty_target_action" not in metric._given
    )
    if not is_class_target or not counts_as_miss:
        return False
    is_missing = ranking.in_counted_rows(ranking.n_relevant == 0)
    return bool(is_missing.any())


def _lists_ignored_label(metric: Any, ranking: Ranking) -> bool:
    """Whether a top k holds the label that ``ignore_index`` takes out of targets."""
    ignored = metric.ignore_index
    if ignored is None or ignored < 0:
        return False
    deepest = max((k or 0 for k in metric.cutoffs), default=0)
    return bool(deepest) and bool((ranking.ids[:, :deepest] == ignored).any())


def _depth_read(metric: Any) -> int:
    """Return the depth to which a metric reads lists; 0 if its cut-offs decide."""
    depth: int = metric.reading.places(None) if metric.reading.uses_depth else 0
    return depth


def _warn_of_short_lists(metric: Any, ranking: Ranking) -> None:
    """Warn if most lists end before a cut-off, or before ``depth`` if it was given."""
    num_labels = metric.num_labels or ranking.num_labels or EVERYTHING
    cutoffs: dict[str, int] = {}
    for k in metric.cutoffs:
        if k:
            cutoffs[f"k={k}"] = k
        else:
            cutoffs[f"k=None, all {num_labels:,} labels"] = num_labels
    depth = _depth_read(metric)
    if depth and "depth" in metric._given:
        cutoffs = {f"depth={depth}": depth}

    for text, cutoff in cutoffs.items():
        if short_lists(ranking, min(cutoff, num_labels)) is not None:
            warn_once(
                ranking,
                "short lists",
                f"{type(metric).__name__}, {text}: {OF_SHORT_LISTS}",
            )
            return


def rows_of_one_grade(ranking: Ranking) -> Tensor:
    """Return the number of rows whose ranked labels are all relevant, with one gain.

    No others are relevant, so every order of such a row has the same value, 1 in nDCG.
    A row with a single label has one order, and is left out.
    """
    n_relevant = ranking.n_relevant
    if ranking.documents is not None:
        length = ranking.documents
    elif ranking.scores_all and ranking.num_labels is not None:
        length = torch.full_like(n_relevant, ranking.num_labels)
    else:
        length = ranking.length
    has_one_grade = ranking.in_counted_rows((n_relevant == length) & (length > 1))
    if not ranking.scores_all:
        hits = (ranking.hits.ranks <= ranking.depth).sum(dim=-1)
        has_one_grade = has_one_grade & (hits == length)
    if not ranking.targets.binary:
        has_one_grade = has_one_grade & _have_one_gain(ranking.targets)
    return has_one_grade.sum()


def _have_one_gain(targets: Targets) -> Tensor:
    """Return whether the relevant labels of each row have one gain, shape (N,).

    The targets must have gains.
    """
    # entries for all cells would take several times as much memory
    if targets.dense is not None:
        highest = targets.dense.amax(dim=1)
        lowest = targets.dense.where(targets.dense > 0, highest[:, None]).amin(dim=1)
        return lowest == highest

    entries = targets.entries
    assert entries.gains is not None
    is_label = entries.ids >= 0
    lowest = torch.full(
        (targets.num_rows,),
        torch.inf,
        dtype=entries.gains.dtype,
        device=entries.gains.device,
    )
    highest = torch.zeros_like(lowest)
    lowest.scatter_reduce_(
        0, entries.rows, entries.gains.where(is_label, torch.inf), "amin"
    )
    highest.scatter_reduce_(0, entries.rows, entries.gains.where(is_label, 0), "amax")
    return lowest == highest


def warn_once(ranking: Ranking, what: object, text: str) -> None:
    """Warn once for a batch, even if several metrics have the same reason ``what``."""
    ranking.remembered(("warned of", what), lambda: warn_of_batch(ranking.notes, text))


def is_listed(ranking: Ranking) -> bool:
    """Whether rows are lists of ids or candidates, not scores of all labels."""
    return ranking.scores is None and ranking.documents is None and ranking.complete


def short_lists(ranking: Ranking, cut: int) -> Tensor | None:
    """Return the lengths of lists if most of them end before ``cut``; else None.

    Rows that do not count are left out.
    """
    if not is_listed(ranking) or cut >= EVERYTHING or not ranking.num_rows:
        return None
    lengths = ranking.length
    if ranking.row_mask is not None:
        lengths = lengths[ranking.row_mask]
    # in any data some rows have few candidates
    if 2 * int((lengths < cut).sum()) > len(lengths):
        return lengths
    return None


def warn_of_partial_lists(caller: str, ranking: Ranking, num_labels: int) -> None:
    """Warn once if most lists lack labels.

    An area counts all missing labels of a row as one tie.
    """
    length = short_lists(ranking, num_labels)
    if length is not None:
        warn_once(
            ranking,
            "partial lists",
            f"{caller}: rows list {int(length.median()):,} of {num_labels:,} labels "
            "(median). An area, this one or another, counts all others of a row as "
            "one tie at its end. Compare it with areas of lists of one length alone, "
            "not with areas of the scores of all labels.",
        )


def warnings_of_small_buckets(
    metrics: Iterable[Any],
    named: Callable[[str], str],
    among: Collection[str] | None = None,
) -> Iterator[str]:
    """Yield a warning if buckets have at most k labels.

    A hit there says nothing about the model.

    Args:
        metrics: The metrics to check.
        named: Adds prefix and postfix to a key.
        among: Names of the buckets that matter; None for all.
    """
    keys_by_buckets: dict[str, list[str]] = {}
    for metric in metrics:
        buckets = metric.bound_buckets
        if (
            buckets is None
            or metric.reading.scope == "global"
            or metric.formula.reads_one_rank
        ):
            continue
        for k, key in zip(metric.cutoffs, metric.cutoff_keys(), strict=True):
            names = []
            for name, size in zip(buckets.names, buckets.sizes, strict=True):
                if (
                    isinstance(k, int)
                    and 0 < size <= k
                    and (among is None or name in among)
                ):
                    names.append(name)
            if names:
                keys_by_buckets.setdefault(", ".join(names), []).append(named(key))
    if not keys_by_buckets:
        return

    parts = [f"{', '.join(keys)} in {names}" for names, keys in keys_by_buckets.items()]
    yield (
        f"k reaches the number of labels for {'; '.join(parts)}: every relevant label "
        "there that is ranked within depth is a hit, whatever the model; "
        "scope='global' asks for the row's overall top k."
    )


def warnings_of_whole_lists(
    metrics: Iterable[Any], named: Callable[[str], str], num_labels: int
) -> Iterator[str]:
    """Yield a warning if the top k is the whole list of all labels.

    Metrics that read the order of the list are left out.

    Args:
        metrics: The metrics to check.
        named: Adds prefix and postfix to a key.
        num_labels: The number of labels if every list holds all of them; else 0.
    """
    if not num_labels:
        return
    keys: dict[str, None] = {}
    for metric in metrics:
        has_own_lists = metric.buckets is not None and metric.reading.scope == "bucket"
        if not metric.reading.ignores_order or has_own_lists:
            continue
        for k, key in zip(metric.cutoffs, metric.cutoff_keys(), strict=True):
            if k is None or k >= num_labels:
                keys[named(key)] = None
    if keys:
        yield (
            f"k reaches the number of labels for {', '.join(keys)} ({num_labels:,} "
            "labels): k cuts nothing off, so that any model has the same value there; "
            "choose a smaller k."
        )


def labels_in_each_list(num_labels: int | None, ranking: Ranking) -> int:
    """Return the number of labels if each list holds all of them; else 0.

    Rows that do not count are left out.

    Args:
        num_labels: The number of labels of a metric; None takes that of the ranking.
        ranking: The ranking of a batch.
    """
    num_labels = num_labels or ranking.num_labels
    if (
        not num_labels
        or ranking.documents is not None
        or not ranking.num_rows
        or ranking.depth < num_labels
    ):
        return 0
    lengths = ranking.length
    if ranking.row_mask is not None:
        lengths = lengths.where(ranking.row_mask, num_labels)
    if bool((lengths < num_labels).any()):
        return 0
    return num_labels
