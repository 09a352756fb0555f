"""Metrics of labels in a tree.

They are precision, recall and F1 of labels with their ancestors, and near misses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics.metrics._aggregations import RatioOfSums
from tailmetrics.metrics._arguments_of_metrics import (
    Cutoffs,
    LevelArguments,
    ListArguments,
)
from tailmetrics.metrics._formulas import Formula, takes_arrays
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._readings import Ranks, TopKHits
from tailmetrics.metrics._states import COUNT, divide
from tailmetrics.ranking import Cutoff, TargetRanks
from tailmetrics.ranking._hits import NOT_RANKED
from tailmetrics.ranking._orders import looked_up, neighbours, sums_by_key
from tailmetrics.ranking._target_ranks import listed_ids
from tailmetrics.tree import LabelTree

__all__ = [
    "HierarchicalF1AtK",
    "HierarchicalPrecisionAtK",
    "HierarchicalRecallAtK",
    "NearMissAtK",
]


class Nodes(NamedTuple):
    """Numbers of nodes of each row, or of each row and bucket.

    Nodes are labels with all their ancestors, each node once. Without a relevant label
    ``listed`` is 0, too: no value depends on it.

    Attributes:
        listed: Of the top k.
        relevant: Of the relevant labels.
        shared: Of both.
    """

    listed: Tensor
    relevant: Tensor
    shared: Tensor


def _nodes(ranks: TargetRanks, k: Cutoff, tree: LabelTree) -> Nodes:
    """Return the numbers of nodes.

    With several cut-offs, the first axis is the cut-offs.
    """
    ks = k if isinstance(k, tuple) else (k,)
    nodes = ranks.remembered(("nodes", ks, tree), lambda: _nodes_at(ranks, ks, tree))
    if isinstance(k, tuple):
        return nodes
    return Nodes(nodes.listed[0], nodes.relevant, nodes.shared[0])


def _nodes_at(ranks: TargetRanks, ks: tuple[int, ...], tree: LabelTree) -> Nodes:
    """Return the numbers of nodes at each cut-off."""
    present, n = ranks.relevant.present, ranks.n_relevant
    relevant = ranks.remembered(
        ("relevant nodes", tree), lambda: _RelevantNodes(ranks, tree)
    )

    # the nodes of each list by number, (R, S); of equal nodes the one of the best label
    # is first
    nodes = tree.on(n.device).paths_to(_lists_at(ranks, max(ks), present))
    nodes_per_label = nodes.shape[-1]
    nodes, order = nodes.flatten(1).sort(dim=1, stable=True)
    place = order // nodes_per_label
    is_node = (nodes >= 0) & _differs_from_previous(nodes)
    is_shared = is_node & relevant.hold(present[:, None], nodes)

    is_listed = place < torch.tensor(ks, device=n.device)[:, None, None]
    counts = torch.zeros(2, len(ks), n.numel(), dtype=torch.int64, device=n.device)
    counts[:, :, present] = torch.stack(
        [is_listed & is_node, is_listed & is_shared]
    ).sum(dim=-1)
    listed_count, shared_count = counts.view(2, len(ks), *n.shape)
    return Nodes(listed_count, relevant.count, shared_count)


def _lists_at(ranks: TargetRanks, k: int, places: Tensor) -> Tensor:
    """Return the first ``k`` labels (R, k) of the lists at ``places`` (R,).

    Places are flat indexes of rows, or of rows and buckets.
    """
    listed = listed_ids(ranks, k)
    if not len(places):
        return listed.new_empty(0, listed.shape[-1])

    shape = ranks.n_relevant.shape
    indices = []
    for size, inner_size in zip(shape, (*shape[1:], 1), strict=True):
        indices.append(places // inner_size % size)
    return listed.expand(*shape, -1)[tuple(indices)]


def _differs_from_previous(ascending: Tensor) -> Tensor:
    """Return whether each cell of sorted rows differs from the previous cell, bool.

    The first cell of a row counts as different.
    """
    differs = torch.ones_like(ascending, dtype=torch.bool)
    previous, following = neighbours(ascending)
    differs[..., 1:] = following != previous
    return differs


class _RelevantNodes:
    """The nodes of the relevant labels of each row, or row and bucket.

    Attributes:
        count: Number of different nodes, shape (...).
    """

    def __init__(self, ranks: TargetRanks, tree: LabelTree) -> None:
        ids, keys, n = ranks.relevant.ids, ranks.relevant.keys, ranks.n_relevant
        paths = tree.on(ids.device)
        self._num_nodes = paths.num_nodes
        nodes = paths.paths_to(ids)
        numbers = torch.where(
            nodes >= 0, self._numbers(keys[:, None], nodes), n.numel() * self._num_nodes
        )
        self._sorted = numbers.flatten().sort().values
        is_node = _differs_from_previous(self._sorted).to(torch.int64)
        self.count = sums_by_key(
            is_node, self._sorted // self._num_nodes, n.numel()
        ).view(n.shape)

    def _numbers(self, keys: Tensor, nodes: Tensor) -> Tensor:
        """Return a number for each node of each row, or row and bucket."""
        return keys * self._num_nodes + nodes

    def hold(self, keys: Tensor, nodes: Tensor) -> Tensor:
        """Return whether nodes are among the relevant nodes of their row, bool.

        The relevant nodes are by row, or by row and bucket, as ``keys`` are.
        """
        if not len(self._sorted):
            return torch.zeros_like(nodes, dtype=torch.bool)
        numbers = self._numbers(keys, nodes)
        places = torch.searchsorted(self._sorted, numbers).clamp(
            max=len(self._sorted) - 1
        )
        return looked_up(self._sorted, places) == numbers


@takes_arrays
def hierarchical_precision_at_k(
    ranks: TargetRanks, k: Cutoff, tree: LabelTree
) -> Tensor:
    """Share of the top k and ancestors that are relevant labels or their ancestors.

    Higher is better, in [0, 1]; 0 for an empty list.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        tree: The parents of the labels.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> hierarchical_precision_at_k(torch.tensor([[1]]), torch.tensor([2]), k=1, tree=LabelTree([-1, 0, 0])).tolist()
    [0.5]

    Source: Kiritchenko et al., Canadian AI 2006, "hierarchical precision".
    """
    nodes = _nodes(ranks, k, tree)
    return divide(nodes.shared, nodes.listed)


@takes_arrays
def hierarchical_recall_at_k(ranks: TargetRanks, k: Cutoff, tree: LabelTree) -> Tensor:
    """Share of relevant labels and ancestors that are in the top k or its ancestors.

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        tree: The parents of the labels.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> hierarchical_recall_at_k(torch.tensor([[0]]), torch.tensor([2]), k=1, tree=LabelTree([-1, 0, 0])).tolist()
    [0.5]

    Source: Kiritchenko et al., Canadian AI 2006, "hierarchical recall".
    """
    nodes = _nodes(ranks, k, tree)
    return divide(nodes.shared, nodes.relevant)


@takes_arrays
def hierarchical_f1_at_k(ranks: TargetRanks, k: Cutoff, tree: LabelTree) -> Tensor:
    """Harmonic mean of hierarchical precision and recall at k.

    Higher is better, in [0, 1]; 0 when both are 0.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        tree: The parents of the labels.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> hierarchical_f1_at_k(torch.tensor([[1]]), torch.tensor([2]), k=1, tree=LabelTree([-1, 0, 0])).tolist()
    [0.5]

    Source: Kosmopoulos et al., Data Mining and Knowledge Discovery 29 (2015), set-based
    measures.
    """
    nodes = _nodes(ranks, k, tree)
    return divide(2 * nodes.shared, nodes.listed + nodes.relevant)


@takes_arrays
def near_miss_at_k(
    ranks: TargetRanks, k: Cutoff, tree: LabelTree
) -> tuple[Tensor, Tensor]:
    """Numbers of near misses and of all missed labels.

    A missed label is relevant and not among the top k. It is a near miss if a sibling,
    the parent or a child is among the top k.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, both numbers have a first axis
            with one entry per cut-off.
        tree: The parents of the labels.

    Returns:
        How many of both, shape (...), int64.

    >>> import torch
    >>> near, missed = near_miss_at_k(torch.tensor([[1]]), torch.tensor([[0, 2]]), k=1, tree=LabelTree([-1, -1, 1]))
    >>> near.tolist(), missed.tolist()
    ([1], [2])

    Source: defined by this library.
    """
    ks = k if isinstance(k, tuple) else (k,)
    ids, keys, n = ranks.relevant.ids, ranks.relevant.keys, ranks.n_relevant
    num_lists = n.numel()
    lists = _lists_at(ranks, max(ks), keys.clamp(max=num_lists - 1)).T
    is_label, is_relative = _matches(ids, lists, tree.on(ids.device).parents)

    cutoffs = torch.tensor(ks, device=ids.device)[:, None]
    is_missed = _first_place(is_label) >= cutoffs
    is_near_miss = is_missed & (_first_place(is_relative) < cutoffs)
    flags = torch.stack([is_near_miss, is_missed]).to(torch.int64)
    near_misses, misses = sums_by_key(flags, keys, num_lists).view(2, len(ks), *n.shape)
    if isinstance(k, tuple):
        return near_misses, misses
    return near_misses[0], misses[0]


def _matches(ids: Tensor, listed: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
    """Return where lists (k, T) show the label of a column, and where a relative.

    The labels are (T,). A relative is a sibling, the parent or a child.
    """
    parent = looked_up(parents, ids.clamp(min=0))
    parent_of_listed = looked_up(parents, listed.clamp(min=0))
    is_sibling = (parent == parent_of_listed) & (parent >= 0)
    is_relative = (listed >= 0) & (
        (parent == listed) | (parent_of_listed == ids) | is_sibling
    )
    return listed == ids, is_relative


def _first_place(mask: Tensor) -> Tensor:
    """Return the place of the first True in each column, from 0.

    A column without True gets a number above any cut-off.
    """
    first = mask.new_full(mask.shape[1:], NOT_RANKED, dtype=torch.int64)
    for place in reversed(range(len(mask))):
        first = torch.where(mask[place], place, first)
    return first


class ListedRanks(Ranks):
    """The ranks of the relevant labels, beside the lists.

    The lists have no other order of equal scores.
    """

    takes = ("min_gain", "scope", "depth")


class _HierarchicalMetric(TopKMetric):
    """A metric of labels with their ancestors.

    Attributes:
        _function: The formula.
    """

    higher_is_better = True
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, k: Cutoffs, tree: LabelTree | None = None, **kwargs: Unpack[ListArguments]
    ) -> None:
        self.tree = _checked_tree(self._caller, tree)
        formula = Formula(type(self)._function, ignores_order=True)
        super().__init__(k, formula, reading=ListedRanks, needs=("tree",), **kwargs)


def _checked_tree(caller: str, tree: Any) -> LabelTree | None:
    """Return the tree, or None if it is not known yet; raise unless it is a tree."""
    if tree is not None and not isinstance(tree, LabelTree):
        raise TypeError(
            f"{caller}: tree={tree!r} is no tree; pass LabelTree(parents) or "
            "LabelTree.from_edges(edges, names)."
        )
    return tree


@final
class HierarchicalPrecisionAtK(_HierarchicalMetric):
    """Share of the top k and ancestors that are relevant labels or their ancestors.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when a wrong label near a relevant label is better than a far one, as with
    codes of diseases.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        tree: The parents of the labels; None if :func:`tailmetrics.evaluate` or the
            command line gives it.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = HierarchicalPrecisionAtK(k=1, tree=LabelTree([-1, 0, 0]))
    >>> metric.update(torch.tensor([[1], [1]]), torch.tensor([1, 2]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)

    Source: Kiritchenko et al., Canadian AI 2006.
    """

    _function = staticmethod(hierarchical_precision_at_k)


@final
class HierarchicalRecallAtK(_HierarchicalMetric):
    """Share of relevant labels and ancestors that are in the top k or its ancestors.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when a label near a missed label is a part of what was looked for, as with
    product categories.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        tree: The parents of the labels; None if :func:`tailmetrics.evaluate` or the
            command line gives it.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = HierarchicalRecallAtK(k=1, tree=LabelTree([-1, 0, 0]))
    >>> metric.update(torch.tensor([[0], [1]]), torch.tensor([1, 1]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)

    Source: Kiritchenko et al., Canadian AI 2006.
    """

    _function = staticmethod(hierarchical_recall_at_k)


@final
class HierarchicalF1AtK(_HierarchicalMetric):
    """Harmonic mean of hierarchical precision and recall of each row.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when labels form a tree, and lists and sets of relevant labels have about the
    same length.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        tree: The parents of the labels; None if :func:`tailmetrics.evaluate` or the
            command line gives it.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = HierarchicalF1AtK(k=1, tree=LabelTree([-1, 0, 0]))
    >>> metric.update(torch.tensor([[1], [1]]), torch.tensor([1, 2]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)

    Source: Kosmopoulos et al., Data Mining and Knowledge Discovery 29 (2015), set-based
    measures.
    """

    _function = staticmethod(hierarchical_f1_at_k)


class OverMisses(RatioOfSums):
    """The ratio of two sums over missed labels.

    A row without a relevant label adds nothing.
    """

    takes = ()
    divided_by = "missed labels"

    def caption(self, k: Any) -> str:
        """Return in words what a value by bucket is of."""
        return (
            "of the relevant labels of a bucket that are missed; near is a sibling, "
            "the parent or a child in the list"
        )


@final
class NearMissAtK(TopKMetric):
    """Share of the missed labels that are near misses.

    A missed label is relevant and not among the top k. It is a near miss if a sibling,
    the parent or a child is among the top k.

    Higher is better, in [0, 1]; NaN if no label is missed. By bucket, the share of the
    bucket's missed labels; the list is the one list of the row.

    Use it when you ask whether a model misses a label by little, as within a chapter of
    codes.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        tree: The parents of the labels; None if :func:`tailmetrics.evaluate` or the
            command line gives it.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = NearMissAtK(k=1, tree=LabelTree([-1, 0, 0, -1]))
    >>> metric.update(torch.tensor([[1], [3]]), torch.tensor([2, 2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: defined by this library.
    """

    higher_is_better = True

    def __init__(
        self,
        k: Cutoffs,
        tree: LabelTree | None = None,
        **kwargs: Unpack[LevelArguments],
    ) -> None:
        self.tree = _checked_tree(self._caller, tree)
        formula = Formula(near_miss_at_k, value_format=COUNT)
        super().__init__(
            k,
            formula,
            reading=TopKHits,
            aggregation=OverMisses,
            needs=("tree",),
            **kwargs,
        )
