"""``LabelTree``: the parent of each label, as in ICD, MeSH or product categories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tailmetrics._arguments import check_count, check_names, whole_numbers
from tailmetrics.ranking import DEFAULT_DEPTH, Ranking, rank
from tailmetrics.ranking._batch import Context
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._ranking import LARGEST_OF_LABELS
from tailmetrics.ranking._reading import Lists, lists_from_scores

CPU: Final = torch.device("cpu")
"""Where the tables of a tree are made, whatever the default device is."""


class Paths(NamedTuple):
    """The tables of a tree on a device.

    Attributes:
        nodes: Shape (L, 1 + H), int64: each label and its ancestors, -1 behind roots.
        parents: Shape (L,), int64: the parent of each label, -1 without one.
        num_nodes: Number of all nodes M.
    """

    nodes: Tensor
    parents: Tensor
    num_nodes: int

    def paths_to(self, ids: Tensor) -> Tensor:
        """Return labels with their ancestors, shape (..., 1 + H).

        -1 stands behind the root and for the id -1.
        """
        nodes = self.nodes.index_select(0, ids.clamp(min=0).flatten()).view(
            *ids.shape, self.nodes.shape[1]
        )
        return nodes.masked_fill(ids[..., None] < 0, -1)


class LabelTree:
    """The parent of every label; immutable, shared by any number of metrics.

    Nodes behind the labels are groups, such as chapters, that are ancestors of labels
    but no labels themselves.

    Args:
        parents: Shape (M,), whole numbers: the parent of each node, -1 for a root.
        names: The name of each node, for messages and reports; None for no names.
        num_labels: Number of labels L, the first L nodes; None for all M nodes.

    Attributes:
        parents: Shape (M,), int64. Each access returns a copy, as of the other tensors.
        names: The name of each node; None without names.
        num_labels: L.
        ancestors: Shape (L, H), int64: the parent of each label, its parent, and so on;
            -1 behind the root.
        depths: Shape (L,), int64: the number of ancestors of each label.
        digest: SHA-256 of parents and number of labels.

    Raises:
        ValueError: If a parent is no node, or if parents form a circle.

    >>> tree = LabelTree([-1, 0, 0, 2])
    >>> tree.ancestors.tolist()
    [[-1, -1], [0, -1], [0, -1], [2, 0]]
    >>> tree.level(1).tolist()
    [0, 1, 2, 2]
    """

    def __init__(
        self,
        parents: Any,
        names: Sequence[str] | None = None,
        *,
        num_labels: int | None = None,
    ) -> None:
        self._parents = _checked_parents(parents)
        num_nodes = len(self._parents)
        self.names: tuple[str, ...] | None = None
        if names is not None:
            self.names = _distinct_names("LabelTree", names)
            if len(self.names) != num_nodes:
                raise ValueError(
                    f"LabelTree: names holds {len(self.names)} names for {num_nodes} "
                    "parents; pass one for each."
                )
        self.num_labels = num_nodes
        if num_labels is not None:
            self.num_labels = check_count(
                "LabelTree", "num_labels", num_labels, maximum=num_nodes
            )
        self._check_circles()
        self._ancestors = _ancestors_of(
            self._parents, torch.arange(self.num_labels, device=CPU)
        )
        self._depths = (self._ancestors >= 0).sum(dim=1)
        self.digest = sha256(
            f"{self.num_labels} ".encode() + self._parents.numpy().tobytes()
        ).hexdigest()
        labels = torch.arange(self.num_labels, device=CPU)
        nodes = torch.cat([labels[:, None], self._ancestors], dim=1)
        self._tables = {CPU: Paths(nodes, self._parents[: self.num_labels], num_nodes)}

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse changes after construction: digest and tables depend on attributes."""
        if "_tables" in vars(self):
            raise AttributeError(f"LabelTree: {name} cannot be set; make another tree.")
        super().__setattr__(name, value)

    @property
    def parents(self) -> Tensor:
        """The parent of each node, shape (M,), int64: a copy."""
        return self._parents.clone()

    @property
    def ancestors(self) -> Tensor:
        """A copy of the ancestors of each label, shape (L, H), int64.

        The parent comes first; -1 stands behind the root.
        """
        return self._ancestors.clone()

    @property
    def depths(self) -> Tensor:
        """The number of ancestors of each label, shape (L,), int64: a copy."""
        return self._depths.clone()

    @classmethod
    def from_edges(cls, edges: Any, names: Sequence[str]) -> LabelTree:
        """Return the tree of pairs of names, each a child and its parent.

        Names that are no label become further nodes. A label that no pair names as a
        child is a root.

        Args:
            edges: Pairs of child and parent; or a dict from child to parent. A parent
                that is empty or None is none.
            names: The name of each label, in the order of label ids.

        Raises:
            ValueError: If a child has two parents, or if no pair names a label.

        >>> tree = LabelTree.from_edges([("cat", "animal"), ("dog", "animal")], ["cat", "dog", "car"])
        >>> tree.parents.tolist(), tree.names
        ([3, 3, -1, -1], ('cat', 'dog', 'car', 'animal'))
        """
        labels = _distinct_names("LabelTree.from_edges", names)
        parents = _parents_by_name(edges)
        nodes = {name: number for number, name in enumerate(labels)}
        names_in_edges = dict.fromkeys([*parents, *filter(None, parents.values())])
        if labels and names_in_edges and nodes.keys().isdisjoint(names_in_edges):
            raise ValueError(
                "LabelTree.from_edges: no pair names a label: edges hold names such "
                f"as {next(iter(names_in_edges))!r}, labels are called such as "
                f"{labels[0]!r}; write both alike."
            )
        for name in names_in_edges:
            nodes.setdefault(name, len(nodes))

        parent_ids = [-1] * len(nodes)
        for child, parent in parents.items():
            if parent is not None:
                parent_ids[nodes[child]] = nodes[parent]
        parent_vector = torch.tensor(parent_ids, dtype=torch.int64, device=CPU)
        return cls(parent_vector, tuple(nodes), num_labels=len(labels))

    def of_labels(self, names: Sequence[str]) -> LabelTree:
        """Return the tree with the labels ``names`` in this order.

        Raise ValueError if the tree has no names.
        """
        if self.names is None:
            raise ValueError(
                "LabelTree: the tree has numbers, but labels have names; make it with "
                "LabelTree.from_edges(edges, names)."
            )
        if self.label_names == tuple(names):
            return self
        return LabelTree.from_edges(self.edges, names)

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of the labels alone; None without names."""
        if self.names is None:
            return None
        return self.names[: self.num_labels]

    @property
    def edges(self) -> list[tuple[str, str]]:
        """The names of every node and of its parent, which is empty for a root."""
        names = [self.name_of(node) for node in range(len(self._parents))]
        parent_names = [*names, ""]  # the last is for -1
        return [
            (name, parent_names[parent])
            for name, parent in zip(names, self._parents.tolist(), strict=True)
        ]

    @property
    def digest_of_edges(self) -> str:
        """A SHA-256 that does not depend on the order of labels if they have names."""
        if self.names is None:
            return self.digest
        return sha256(repr(sorted(self.edges)).encode()).hexdigest()

    def name_of(self, node: int) -> str:
        """Return the name of a node; without names its number."""
        if self.names is None:
            return str(node)
        return self.names[node]

    def level(self, n: int) -> Tensor:
        """Return the ancestor of each label at depth ``n``, shape (L,), int64.

        Depth 0 is the root. A label that is not that deep is returned itself.
        """
        n = check_count("LabelTree.level", "n", n, minimum=0)
        nodes = self._tables[CPU].nodes
        steps_up = (self._depths - n).clamp(min=0)
        return nodes.gather(1, steps_up[:, None])[:, 0]

    def at_level(self, n: int) -> Level:
        """Return the labels of :meth:`level`, in ascending order, as a tree."""
        labels, places = torch.unique(self.level(n), return_inverse=True)
        ancestors = torch.unique(_ancestors_of(self._parents, labels))
        ancestors = ancestors[(ancestors >= 0) & ~torch.isin(ancestors, labels)]
        nodes = torch.cat([labels, ancestors])
        # the last is for -1
        number_of_node = self._parents.new_full((len(self._parents) + 1,), -1)
        number_of_node[nodes] = torch.arange(len(nodes), device=CPU)
        parents = number_of_node[self._parents[nodes]]
        names = [self.name_of(node) for node in nodes.tolist()]
        return Level(LabelTree(parents, names, num_labels=len(labels)), places)

    def roll_up(
        self,
        preds: Any,
        target: Any = None,
        *,
        level: int = 0,
        depth: int = DEFAULT_DEPTH,
        **arguments: Any,
    ) -> Ranking:
        """Return a batch in which each label is its ancestor at a ``level``.

        Any metric of those labels takes the batch.

        A list keeps the first label of each ancestor, and dense scores the largest one;
        targets keep the largest gain. The labels are those of :meth:`at_level`, whose
        tree names them.

        Args:
            preds: A ranking; or scores, ids or candidates as in
                :func:`tailmetrics.rank`.
            target: The relevant labels, as in :func:`tailmetrics.rank`; not with a
                ranking in ``preds``.
            level: The depth of the ancestors, 0 for the roots.
            depth: The depth to which scores are ranked.
            arguments: Further arguments of :func:`tailmetrics.rank`.

        Raises:
            ValueError: If the batch has another number of labels, or of documents
                without labels.

        >>> tree = LabelTree([-1, -1, 0, 0, 1])
        >>> tree.roll_up(torch.tensor([[2, 3, 4]]), torch.tensor([3])).ids.tolist()
        [[0, 1, -1]]
        """
        if isinstance(preds, Ranking):
            ranking, depth = preds, preds.depth
        else:
            ranking = rank(preds, target, num_labels=self.num_labels, **arguments)
        if ranking.num_labels not in (None, self.num_labels):
            raise ValueError(
                f"LabelTree.roll_up: the ranking is of {ranking.num_labels} labels, "
                f"the tree of {self.num_labels}; make both for the same labels."
            )
        return self.at_level(level).of(ranking, depth)

    def on(self, device: torch.device) -> Paths:
        """Return the tables of the tree on a device."""
        if device not in self._tables:
            nodes, parents, num_nodes = self._tables[CPU]
            self._tables[device] = Paths(
                nodes.to(device), parents.to(device), num_nodes
            )
        return self._tables[device]

    def _check_circles(self) -> None:
        """Raise ValueError if a node is its own ancestor.

        After as many steps as there are nodes, every walk to a root has ended.
        """
        reached = self._parents
        for _ in range(len(reached).bit_length()):
            reached = _parents_of(reached, reached)
        nodes_in_circles = reached[reached >= 0].tolist()
        if not nodes_in_circles:
            return

        circle = [max(nodes_in_circles)]
        node = int(self._parents[circle[0]])
        while node != circle[0]:
            circle.append(node)
            node = int(self._parents[node])
        names = [
            repr(self.name_of(node)) for node in [*circle[:CIRCLE_SHOWN], circle[0]]
        ]
        raise ValueError(
            f"LabelTree: parents form a circle, {' → '.join(names)}; a root has the "
            "parent -1, or in edges none."
        )

    def __eq__(self, other: object) -> bool:
        """Return whether both give the same labels the same parents."""
        return isinstance(other, LabelTree) and self.digest == other.digest

    def __hash__(self) -> int:
        """Return a hash of the parents."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """Return numbers of labels, other nodes and levels."""
        num_others = len(self._parents) - self.num_labels
        others = f" and {num_others} other nodes" if num_others else ""
        return (
            f"LabelTree({self.num_labels} labels{others} in "
            f"{1 + self._ancestors.shape[1]} levels)"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> LabelTree:
        """Return itself, which does not change."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the tables of the devices."""
        return partial(LabelTree, num_labels=self.num_labels), (
            self._parents,
            self.names,
        )


class Level(NamedTuple):
    """The labels of a tree one or more levels up.

    Attributes:
        tree: These labels as a tree, whose other nodes are their ancestors.
        places: Shape (L,): the label that each label of the whole tree becomes.
    """

    tree: LabelTree
    places: Tensor

    def of(self, ranking: Ranking, depth: int) -> Ranking:
        """Return a ranking of these labels; dense scores are ranked to ``depth``."""
        if ranking.documents is not None:
            raise ValueError(
                "LabelTree.roll_up: documents have no labels; pass scores of all "
                "labels, ids or candidates."
            )
        num_labels = self.tree.num_labels
        places = self.places.to(ranking.ids.device)
        targets = self._targets(ranking.targets, places)
        if ranking.scores is None:
            lists = self._lists(ranking, places)
        else:
            context = Context(
                "LabelTree.roll_up",
                num_labels,
                row_mask=targets.row_mask,
                kernels=targets.read_by,
            )
            scores = targets.kernels.largest(
                ranking.scores.detach(), places, num_labels
            )
            lists = lists_from_scores(context, scores, depth)
        rolled_up = Ranking(
            *lists,
            targets=targets,
            num_labels=num_labels,
            rows=ranking.rows,
            queries=ranking.queries,
            ignore_index=ranking.ignore_index,
            notes=ranking.notes,
        )
        rolled_up.remembered(LARGEST_OF_LABELS, lambda: True)
        return rolled_up

    def _lists(self, ranking: Ranking, places: Tensor) -> Lists:
        """Return the lists with the first label of each ancestor.

        If lists were cut, they are as long as the shortest one.
        """
        ids = torch.where(ranking.ids >= 0, places[ranking.ids.clamp(min=0)], -1)
        is_first = (ids >= 0) & ~ranking.targets.kernels.repeated(ids)
        order = (~is_first).to(torch.int8).argsort(dim=1, stable=True)
        ids = torch.where(is_first, ids, -1).gather(1, order)
        values = None
        if ranking.values is not None:
            values = torch.where(
                is_first, ranking.values[:, : ranking.depth], -torch.inf
            ).gather(1, order)
        if ranking.complete:
            return Lists(ids, values, True)

        lengths = is_first.sum(dim=1)
        if ranking.row_mask is not None:
            lengths = lengths.where(ranking.row_mask, ranking.depth)
        shortest = ranking.depth
        if len(lengths):
            shortest = int(lengths.min())
        if values is not None:
            values = values[:, :shortest]
        return Lists(ids[:, :shortest], values, False)

    def _targets(self, targets: Targets, places: Tensor) -> Targets:
        """Return the relevant labels, each once with its largest gain."""
        num_labels = self.tree.num_labels
        padded = targets.padded
        if padded is not None and padded.shape[1] == 1:  # a class of each row stays one
            padded = torch.where(padded >= 0, places[padded.clamp(min=0)], -1)
            return replace(targets, padded=padded, num_labels=num_labels)

        entries = targets.without_void().entries
        cells = entries.rows * num_labels + places[entries.ids]
        cells, place = torch.unique(cells, return_inverse=True)
        gains = None
        if entries.gains is not None:
            gains = entries.gains.new_zeros(len(cells)).scatter_reduce_(
                0, place, entries.gains, "amax"
            )
        rows, ids = cells // num_labels, cells % num_labels
        distinct = Entries(rows, ids, gains, min(entries.width, num_labels))
        return replace(targets.with_entries(distinct), num_labels=num_labels)


CIRCLE_SHOWN = 8
"""The most labels of a circle that an error names."""


def _distinct_names(caller: str, names: Any) -> tuple[str, ...]:
    """Return names as a tuple; raise if a name stands twice."""
    names = check_names(caller, "names", names)
    if len(set(names)) < len(names):
        raise ValueError(
            f"{caller}: names holds a name twice; pass one name for each label."
        )
    return tuple(names)


def _checked_parents(parents: Any) -> Tensor:
    """Return parents as an int64 vector on the CPU.

    Raise ValueError unless each is a node or -1.
    """
    nodes = whole_numbers(
        "LabelTree",
        "parents",
        parents,
        "a whole number per label, the id of its parent or -1",
    )
    wrong = ((nodes < -1) | (nodes >= len(nodes))).nonzero()
    if len(wrong):
        label = int(wrong[0])
        raise ValueError(
            f"LabelTree: the parent of label {label} is {int(nodes[label])}, but "
            f"there are {len(nodes)} labels, from 0 "
            "on; pass ids below this number, or -1 for a root."
        )
    return nodes


def _parents_by_name(edges: Any) -> dict[str, str | None]:
    """Return the parent of each child by name, None for a root.

    Raise ValueError if a child has two.
    """
    if hasattr(edges, "to_numpy"):
        edges = edges.to_numpy()
    pairs: Iterable[Any] = edges.items() if isinstance(edges, Mapping) else edges
    parents: dict[str, str | None] = {}
    for pair in pairs:
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise TypeError(
                f"LabelTree.from_edges: edges hold {pair!r}; pass pairs of a child "
                "and its parent."
            )
        child = str(pair[0])
        parent = _parent_name(pair[1])
        earlier = parents.setdefault(child, parent)
        if earlier != parent:
            raise ValueError(
                f"LabelTree.from_edges: {child!r} has two parents, {earlier or ''!r} "
                f"and {parent or ''!r}; keep one of them, as in a tree."
            )
    return parents


def _parent_name(parent: Any) -> str | None:
    """Return the name of a parent; None for None, an empty text and NaN."""
    is_nan = parent != parent
    if parent is None or is_nan or str(parent) == "":
        return None
    return str(parent)


def _parents_of(parents: Tensor, nodes: Tensor) -> Tensor:
    """Return the parent of each node; -1 for -1."""
    return torch.where(nodes >= 0, parents[nodes.clamp(min=0)], -1)


def _ancestors_of(parents: Tensor, nodes: Tensor) -> Tensor:
    """Return the ancestors of nodes (n,), shape (n, H).

    The parent comes first; -1 stands behind the root.
    """
    columns = []
    ancestors = _parents_of(parents, nodes)
    while bool((ancestors >= 0).any()):
        columns.append(ancestors)
        ancestors = _parents_of(parents, ancestors)
    if not columns:
        return nodes.new_empty(len(nodes), 0)
    return torch.stack(columns, dim=1)
