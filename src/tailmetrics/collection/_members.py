"""The members of a collection by name, with their states and alternatives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from operator import attrgetter
from re import sub
from typing import Any, cast

from torch import Tensor
from torchmetrics import MetricCollection
from typing_extensions import Self

from tailmetrics._exact_metric import (
    ExactMetric,
    Mergeable,
    sent_together,
)
from tailmetrics._logged import LoggedCollection
from tailmetrics._transfer import MetricStates
from tailmetrics.collection._alternatives import (
    AlternativeStates,
    OtherOrders,
    ReferenceModels,
)
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._references import Reference
from tailmetrics.metrics._ties import Ties
from tailmetrics.ranking._batch import BATCH_DEFAULTS

IS_SYNCED = attrgetter("_is_synced")
"""Whether a metric holds the states of all processes.

Each update reads this of all members, with no Python call per member.
"""


class MemberCollection(Mergeable, LoggedCollection):
    """Metrics by name that share states.

    They are moved, saved, copied and combined over processes as one.

    Beside the members it holds the states of their alternatives: of reference models
    and of other orders of ties.
    """

    _references: tuple[Reference, ...] = ()
    _orders: tuple[Ties, ...] = ()
    _reference_models: ReferenceModels | None = None
    _other_orders: OtherOrders | None = None
    _training_counts: Tensor | None = None
    """The training counts from :meth:`bind`; None without them."""

    def members(self) -> dict[str, TopKMetric]:
        """Return the metrics by member name, without prefix and postfix."""
        return cast("dict[str, TopKMetric]", dict(self._modules))

    def named(self, key: str) -> str:
        """Return a key of a member with prefix and postfix."""
        return self._set_name(key)

    @property
    def is_bound(self) -> bool:
        """Whether all metrics are complete, so that :meth:`bind` is not needed."""
        return all(metric.is_bound for metric in self.members().values())

    @property
    def training_counts(self) -> Tensor | None:
        """The training counts of the collection or a member, shape (L,).

        None if they are unknown.
        """
        if self._training_counts is not None:
            return self._training_counts
        for metric in self.members().values():
            counts: Tensor | None = metric.settings().get("label_counts")
            if counts is None and metric.bound_buckets is not None:
                counts = metric.bound_buckets.counts
            if counts is not None:
                return counts
        return None

    def _add_member(self, name: str, metric: TopKMetric) -> None:
        # a member is stored under its name
        if not isinstance(name, str) or not name or "." in name or hasattr(self, name):
            raise ValueError(
                f"TopKCollection: name={name!r} cannot be the name of a metric, "
                "because a collection has something else of this name, or it is empty "
                "or holds a dot; pass another one."
            )
        self.add_module(name, metric)
        vars(metric).update(_warns_of_ties=False, _warns_of_cutoffs=False)

    def add_metrics(self, metrics: Any, *additional_metrics: Any) -> None:
        """Raise TypeError: members share states, so the constructor takes them all."""
        if metrics or additional_metrics:
            raise TypeError(
                "TopKCollection: members cannot be added later; make a new collection "
                "of all of them."
            )

    def __setitem__(self, key: str, module: Any) -> None:
        """Refuse, as :meth:`add_metrics` does."""
        self.add_metrics([module])

    def clear(self) -> None:
        """Raise an error: make a new collection, because members share states."""
        raise TypeError(
            "TopKCollection: members cannot be removed; make a new collection of "
            "those that stay."
        )

    def __delitem__(self, key: str) -> None:
        """Refuse, as :meth:`clear` does; ``pop`` calls this method."""
        self.clear()

    @property
    def reference_models(self) -> ReferenceModels:
        """The members under the rankings of reference models.

        Empty until all members are bound.
        """
        if self._reference_models is None:
            if not self.is_bound:  # later, all members may be
                return ReferenceModels(self.members(), (), None)
            self._reference_models = ReferenceModels(
                self.members(), self._references, self.training_counts
            )
        return self._reference_models

    @property
    def other_orders(self) -> OtherOrders:
        """The members under other orders of equal scores.

        Empty until all members are bound.
        """
        if self._other_orders is None:
            if not self.is_bound:
                return OtherOrders(self.members(), ())
            self._other_orders = OtherOrders(self.members(), self._orders)
        return self._other_orders

    def _alternative_states(self) -> dict[str, AlternativeStates]:
        """Return the states of references and of other orders by attribute path.

        ``torch.distributed.checkpoint`` follows these paths.
        """
        states = {}
        if self._references and self.reference_models:
            states["reference_models.states"] = self.reference_models.states
        if self._orders and self.other_orders:
            states["other_orders.states"] = self.other_orders.states
        return states

    def _share_states(self) -> None:
        """Group the members whose states the first of the group also has.

        Only the first member of a group is updated; all are read. States are the same
        where their names are.
        """
        members = self.members()
        groups: list[list[str]] = []
        states_of_groups: list[set[str]] = []
        for name in sorted(members, key=lambda name: -len(members[name].metric_state)):
            metric = members[name]
            states = set(metric.metric_state)
            if not metric.shares_states:
                states = {f"those of {name}"}
            for group, group_states in zip(groups, states_of_groups, strict=True):
                if states <= group_states:
                    group.append(name)
                    break
            else:
                groups.append([name])
                states_of_groups.append(states)
        self._enable_compute_groups = groups
        self._init_compute_groups()

    def _share_again(self) -> None:
        """Let a group refer to the states of its first member if they are equal."""
        self._compute_groups_create_state_ref()

    def _compute_groups_create_state_ref(self, copy: bool = False) -> None:
        """Let the members of a group refer to one state, or take copies of it."""
        separate_members(self)
        refer_to_leaders(self, copy)

    @property
    def _is_synced(self) -> bool:
        return True in map(IS_SYNCED, self._modules.values())

    def _parts(self) -> Mapping[str, ExactMetric]:
        return {**self.members(), **self._alternative_states()}

    def _metric_states(self) -> list[MetricStates]:
        self._share_again()
        return super()._metric_states()

    def _sent_together(
        self, members: Iterable[TopKMetric]
    ) -> AbstractContextManager[None]:
        """Send the states of several members over processes at once.

        Inside the context their ``compute`` uses them.
        """
        sending = [metric for metric in members if metric.will_send]
        if sending:
            self._share_again()
        return sent_together("TopKCollection", sending)

    def persistent(self, mode: bool = False) -> None:
        """Set whether ``state_dict`` includes the states of members and references."""
        for metric in self._parts().values():
            metric.persistent(mode)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Add the states of references, which are no modules of the collection."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, metric in self._alternative_states().items():
            metric.state_dict(
                destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
            )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *others: Any
    ) -> None:
        """Load the states of references, and of the collection itself none."""
        for name, metric in self._alternative_states().items():
            metric._load_from_state_dict(state_dict, f"{prefix}{name}.", *others)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Move the metrics of references with the others."""
        for states in self._alternative_states().values():
            states._apply(fn)
        return super()._apply(fn, *args, **kwargs)  # type: ignore[no-untyped-call]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy of all metrics as they are between two batches."""
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        copy.__setstate__(deepcopy(self.__getstate__(), memo))  # type: ignore[no-untyped-call]
        return copy


def separate_members(collection: MemberCollection) -> None:
    """Give each member its own states if one that shares states was changed alone.

    This holds until the next reset.
    """
    groups = collection._groups
    if len(groups) == len(collection._modules) or collection._is_synced:
        return
    members = collection.members()
    for leader, *others in groups.values():
        for name in others:
            if not members[name].holds_states_of(members[leader]):
                collection._groups = dict(enumerate([name] for name in members))
                for metric in members.values():
                    metric.copy_states()
                return


def refer_to_leaders(collection: MemberCollection, copy: bool = False) -> None:
    """Let the members of each group refer to the states of the first one.

    This runs several times a batch, and does nothing where no members share states.
    While a member holds the states of all processes, each keeps its own.

    Args:
        collection: The collection. No member of a group holds a batch that the first
            one lacks.
        copy: Whether each member takes a copy instead.
    """
    groups = collection._groups
    if len(groups) == len(collection._modules) or collection._is_synced:
        return
    if not copy:
        collection._state_is_copy = False
    MetricCollection._compute_groups_create_state_ref(collection, copy)
    for group in groups.values():
        shares_tensors = len(group) > 1 and not copy
        for name in group:
            vars(collection._modules[name])["_shares_tensors"] = shares_tensors


def check_batch_arguments(metrics: Sequence[TopKMetric]) -> None:
    """Raise if metrics read batches in different ways: they share one ranking."""
    for argument in BATCH_DEFAULTS:
        values = dict.fromkeys(repr(getattr(metric, argument)) for metric in metrics)
        if len(values) > 1:
            raise ValueError(
                f"TopKCollection: members have {argument}={' and '.join(values)}, but "
                f"share one ranking; give the collection {argument}=, or make two "
                "collections."
            )
    groupings = dict.fromkeys(
        metric.row_groups for metric in metrics if metric.row_groups
    )
    if len(groupings) > 1:
        names = " and ".join(str(list(grouping)) for grouping in groupings)
        raise ValueError(
            f"TopKCollection: members have row_groups={names}, but share the group "
            "numbers of a batch; give all of them the same names in the same order, "
            "or make two collections."
        )


def named_members(
    metrics: Sequence[TopKMetric] | Mapping[str, TopKMetric] | TopKMetric,
) -> dict[str, TopKMetric]:
    """Return the members by name; those of a list are named after their keys."""
    if isinstance(metrics, (TopKMetric, type)):
        metrics = [metrics]
    if (
        not isinstance(metrics, (Mapping, Sequence))
        or isinstance(metrics, str)
        or not metrics
    ):
        raise ValueError(
            f"TopKCollection: metrics is {metrics!r}; pass a list or dict of metrics, "
            "at least one."
        )
    if isinstance(metrics, Mapping):
        for metric in metrics.values():
            _check_member(metric)
        for name, metric in metrics.items():
            metric.take_name(name)
        return dict(metrics)

    members: dict[str, TopKMetric] = {}
    for number, metric in enumerate(metrics):
        _check_member(metric)
        name = sub(r"\W+", "_", "_".join(dict.fromkeys(metric.cutoff_keys())))
        if metric.buckets is not None:
            name += "_by_bucket"
        # such as two sets of buckets, or values of labels
        if name in members or not metric.keys():
            name += f"_{number}"
        members[name] = metric
    return members


def _check_member(metric: Any) -> None:
    if not isinstance(metric, TopKMetric):
        raise TypeError(
            f"TopKCollection: {metric!r} is no metric of tailmetrics; pass metrics "
            "with their arguments, such as [RecallAtK(k=5)], and put others into a "
            "torchmetrics.MetricCollection beside this one."
        )
    if type(metric).update is not TopKMetric.update:
        raise TypeError(
            f"TopKCollection: {type(metric).__name__} overrides update(), which no "
            "collection calls: it ranks a batch once for all members; override "
            "_row_value, or update the metric by itself."
        )
