"""The values of a collection when other rankings order the same rows.

Other rankings are those of reference models, and other orders of tied labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Final, cast

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric, sent_together, writable
from tailmetrics._transfer import identity
from tailmetrics.metrics._aggregations import Aggregation
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._readings import Ranks
from tailmetrics.metrics._references import (
    AttainableRanking,
    ChanceRanking,
    PopularityRanking,
    RankedCounts,
    Reference,
    ReferenceRanking,
    ReferenceRanks,
)
from tailmetrics.metrics._states import Addition, Increments, State
from tailmetrics.metrics._ties import Ties
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._reading import Depth

ORDERS: Final[tuple[Ties, ...]] = ("worst", "expected", "best")
"""The orders of equal scores in :meth:`tailmetrics.TopKCollection.orders`."""

LEFT_OUT: Final = "batches_left_out"
"""The state of other orders that counts the batches without values under them."""


def adds_up_processes(members: Iterable[TopKMetric]) -> bool:
    """Return whether any member adds up its states over processes."""
    return any(metric.sync_on_compute for metric in members)


class AlternativeStates(ExactMetric):
    """The states of all members of a collection under other rankings.

    Args:
        declared: Each state by name, with the axis of row groups.
        depends_on: What the numbers depend on, beside the arguments of the members.
        kwargs: See :class:`torchmetrics.Metric`.
    """

    def __init__(
        self, declared: Mapping[str, State], depends_on: str, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        for name, state in declared.items():
            self.add_state(
                name,
                torch.zeros(state.shape, dtype=torch.int64),
                dist_reduce_fx=state.reduction,
            )

    def settings(self) -> dict[str, Any]:
        """Return what the numbers depend on, beside the names and shapes of states."""
        return {"depends_on": self._given["depends_on"]}

    def make_writable(self) -> None:
        """Copy states that cannot be changed in place.

        A reset under ``inference_mode`` makes such tensors.
        """
        for name, tensor in self.metric_state.items():
            vars(self)[name] = writable(tensor)

    def update(self) -> None:
        """Raise: a collection adds batches to the states."""
        raise NotImplementedError(
            "AlternativeStates: the collection adds batches to these states."
        )

    def compute(self) -> dict[str, Tensor]:
        """Return all states over all processes, by name."""
        return {name: state.clone() for name, state in self.metric_state.items()}


@dataclass(frozen=True, eq=False)
class Alternative:
    """A member of a collection under another ranking of its rows.

    Attributes:
        ranking_name: The name of the ranking.
        member_name: The name of the member.
        member: The member, which is bound.
        aggregation: Its aggregation, reading that ranking.
    """

    ranking_name: str
    member_name: str
    member: TopKMetric
    aggregation: Aggregation

    @cached_property
    def states(self) -> dict[str, State]:
        """The states of the aggregation by short name."""
        return self.aggregation.states()

    def full_name(self, state_name: str) -> str:
        """Return the name of a state among those of all alternatives."""
        return f"{self.ranking_name} {self.member_name} {state_name}"


class Alternatives:
    """Other rankings of a collection's rows, and the members' values under each.

    Args:
        members: The members, by name; all bound.
        ranking_names: The names of the rankings.
        alternatives: The members under these rankings; those that have no value there
            are left out.
        depends_on: What numbers depend on beside the members.
        further_states: States beside those of the alternatives, by name.

    Attributes:
        states: The states of all alternatives.
    """

    def __init__(
        self,
        members: Mapping[str, TopKMetric],
        ranking_names: Sequence[str],
        alternatives: Sequence[Alternative],
        depends_on: str = "",
        further_states: Mapping[str, State] | None = None,
    ) -> None:
        self._members = members
        self._ranking_names = ranking_names
        self._alternatives = alternatives
        declared = dict(further_states or {})
        for alternative in alternatives:
            num_groups = len(alternative.member.group_keys())
            for state_name, state in alternative.states.items():
                full_name = alternative.full_name(state_name)
                declared[full_name] = State((num_groups, *state.shape), state.reduction)

        self.states = AlternativeStates(declared, depends_on)
        # the states, all zero, may be on the device "meta", even where an older
        # torchmetrics says "cpu"
        devices = {state.device for state in self.states.metric_state.values()}
        for member in members.values():
            if devices - {member.device}:
                self.states.to_empty(device=member.device)

    def __bool__(self) -> bool:
        """Return whether there is a value to accumulate."""
        return bool(self._alternatives)

    def note(
        self,
        addition: Addition,
        alternative: Alternative,
        increments: Increments,
        rows: Any,
    ) -> None:
        """Note what a batch adds to the states of an alternative."""
        rows = alternative.member.accepted_groups_and_weights(rows)
        for state_name, declared in alternative.states.items():
            addition.note(
                self._state(alternative, state_name),
                increments[state_name],
                rows,
                declared.reduction,
            )

    def has_left_out_batches(self) -> bool:
        """Return whether a batch, in any process, has no values: never here."""
        return False

    def _state(self, alternative: Alternative, name: str) -> Tensor:
        """Return the state of an alternative with a short name."""
        return cast("Tensor", vars(self.states)[alternative.full_name(name)])

    def values(self, named: Callable[[str], str]) -> dict[str, dict[str, Tensor]]:
        """Return values by ranking and key, over all processes.

        A member that was updated alone is left out. If any process was given a batch
        without values under these rankings, nothing is returned.
        """
        values: dict[str, dict[str, Tensor]] = {
            ranking_name: {} for ranking_name in self._ranking_names
        }
        if not self:
            return values

        states = self.states
        states.sync_on_compute = adds_up_processes(self._members.values())
        for member in self._members.values():
            if not member.sync_on_compute:
                continue
            states.process_group = member.process_group
            states.dist_sync_fn = member.dist_sync_fn
            states.distributed_available_fn = member.distributed_available_fn
        sending = []
        if states.will_send:
            sending.append(states)
        with sent_together("TopKCollection", sending), states.over_all_processes():
            if self.has_left_out_batches():
                return values
            for alternative in self._alternatives:
                member = alternative.member
                if member._update_count != states._update_count:
                    continue
                group_values = []
                for group in range(len(member.group_keys())):
                    group_states = {
                        name: self._state(alternative, name)[group]
                        for name in alternative.states
                    }
                    group_values.append(alternative.aggregation.values(group_states))
                for key, scalar in member.scalars(member.shaped(group_values)).items():
                    values[alternative.ranking_name][named(key)] = scalar
        return values


class OtherOrders(Alternatives):
    """The members of a collection under other orders of equal scores.

    Args:
        members: The members, by name; all bound.
        orders: The orders.
    """

    def __init__(
        self, members: Mapping[str, TopKMetric], orders: Sequence[Ties]
    ) -> None:
        alternatives = []
        for order, (name, member) in product(orders, members.items()):
            if order in member.aggregation.tie_rules:
                reading = cast("Ranks", member.reading).with_ties(order)
                alternatives.append(
                    Alternative(
                        order, name, member, member.aggregation.with_reading(reading)
                    )
                )
        super().__init__(
            members,
            orders,
            alternatives,
            further_states={LEFT_OUT: State((1,), "sum")},
        )

    def leave_out_batch(self, addition: Addition) -> None:
        """Note that a batch has no values under other orders.

        The number of such batches is a state, so that it is known wherever the states
        are: in other processes, and after they were loaded.
        """
        batches_left_out = self.states.metric_state[LEFT_OUT]
        addition.states.append(batches_left_out)
        addition.amounts.append(torch.ones_like(batches_left_out))

    def has_left_out_batches(self) -> bool:
        """Return whether a batch, in any process, has no values under other orders."""
        return bool(self.states.metric_state[LEFT_OUT])

    def depths(self) -> list[Depth]:
        """Return how deep the aggregations read a batch."""
        return [
            alternative.aggregation.reading.required_depth
            for alternative in self._alternatives
        ]

    def note_increments(
        self,
        addition: Addition,
        ranking: Ranking,
        increments_by_member: Mapping[str, Increments],
    ) -> list[ExactMetric]:
        """Note a batch in ``addition``; return the metrics whose states it changes.

        Args:
            addition: The addition of the batch.
            ranking: The batch.
            increments_by_member: The increments that members have computed already.
        """
        if not self:
            return []
        self.states.make_writable()
        is_whole = ranking.complete or ranking.scores_all
        if not is_whole:  # labels below the end of the list may tie with its last label
            self.leave_out_batch(addition)
            return [self.states]

        member_increments = dict(increments_by_member)
        for alternative in self._alternatives:
            name, aggregation = alternative.member_name, alternative.aggregation
            if cast("Ranks", aggregation.reading).has_no_ties(ranking):
                if name not in member_increments:
                    member_aggregation = alternative.member.aggregation
                    member_increments[name] = member_aggregation.increments(ranking)
                increments = aggregation.increments_without_ties(
                    member_increments[name]
                )
            else:
                increments = aggregation.increments(ranking)
            self.note(addition, alternative, increments, ranking.rows)
        return [self.states]


class ReferenceModels(Alternatives):
    """The members of a collection, read from the rankings of reference models.

    Args:
        members: The members, by name; all bound.
        references: The references.
        counts: Training counts, shape (L,); None if they are unknown, and then there is
            no ``"popularity"``.
    """

    def __init__(
        self,
        members: Mapping[str, TopKMetric],
        references: Sequence[Reference],
        counts: Tensor | None,
    ) -> None:
        self._counts: RankedCounts | None = None
        if counts is None:
            references = [
                reference for reference in references if reference != "popularity"
            ]
        else:
            self._counts = RankedCounts(counts)
        alternatives = []
        for reference, (name, member) in product(references, members.items()):
            if _has_value(member, reference):
                reading = ReferenceRanks(cast("Ranks", member.reading))
                alternatives.append(
                    Alternative(
                        reference,
                        name,
                        member,
                        member.aggregation.with_reading(reading),
                    )
                )
        super().__init__(members, references, alternatives, identity(counts))

    def note_increments(
        self, addition: Addition, ranking: Ranking
    ) -> list[ExactMetric]:
        """Note a batch in ``addition``; return the metrics whose states it changes."""
        if not self:
            return []

        self.states.make_writable()
        for alternative in self._alternatives:
            reference_ranking = self.ranked_by(
                cast("Reference", alternative.ranking_name), ranking
            )
            self.note(
                addition,
                alternative,
                alternative.aggregation.increments(reference_ranking),
                ranking.rows,
            )
        return [self.states]

    def ranked_by(self, reference: Reference, ranking: Ranking) -> ReferenceRanking:
        """Return the rows of a ranking as a reference ranks them."""
        key = ("reference", reference, self._counts)
        return ranking.remembered(key, lambda: self._ranked_by(reference, ranking))

    def _ranked_by(self, reference: Reference, ranking: Ranking) -> ReferenceRanking:
        num_labels = self._num_labels_of(ranking)
        if reference == "chance":
            return ChanceRanking.for_rows(ranking, num_labels)
        if reference == "popularity":
            return PopularityRanking.for_rows(ranking, num_labels, counts=self._counts)
        return AttainableRanking.for_rows(ranking, num_labels)

    def _num_labels_of(self, ranking: Ranking) -> int:
        """Return the number of labels that references rank."""
        if ranking.documents is not None:
            return 0  # each row has its own number of documents
        for member in self._members.values():
            if member.bound_buckets is not None:
                return member.bound_buckets.num_labels
        if ranking.num_labels is None:
            raise ValueError(
                "TopKCollection: references= needs the number of labels, which ids do "
                "not tell; make a member with num_labels=, or leave references out."
            )
        return ranking.num_labels

    @property
    def adjusted(self) -> list[str]:
        """The names of the members that :meth:`above_chance` covers.

        They are the means over rows with buckets.
        """
        names = []
        for name, member in self._members.items():
            has_mean_by_bucket = (
                member.buckets is not None and member.aggregation.row_terms == "mean"
            )
            if has_mean_by_bucket and self._by_reference(name).keys() >= {
                "chance",
                "attainable",
            }:
                names.append(name)
        return names

    def _by_reference(self, name: str) -> dict[str, Aggregation]:
        """Return the aggregations of a member by reference."""
        return {
            alternative.ranking_name: alternative.aggregation
            for alternative in self._alternatives
            if alternative.member_name == name
        }

    def above_chance(
        self, name: str, ranking: Ranking
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Return (value - chance) and (attainable - chance) of each row, by key.

        Each has shape (N,), with NaN in rows that do not count. ``adjusted_gap`` is
        computed from the sum of the first divided by the sum of the second. The dict is
        empty for a metric that is not in :attr:`adjusted`.
        """
        if name not in self.adjusted:
            return {}
        member, aggregations = self._members[name], self._by_reference(name)
        values = member.row_values(ranking)
        chance = member.row_values_of(
            aggregations["chance"], self.ranked_by("chance", ranking)
        )
        best = member.row_values_of(
            aggregations["attainable"], self.ranked_by("attainable", ranking)
        )
        return {
            key: (value - chance[key], best[key] - chance[key])
            for key, value in values.items()
        }


def _has_value(member: TopKMetric, reference: Reference) -> bool:
    """Return whether a metric has a value for a reference.

    The metric needs a formula for the mean over all orders of equal scores.
    """
    if "expected" not in member.aggregation.tie_rules:
        return False
    # the best list does not begin with relevant labels for a metric whose lower values
    # are better, such as fall-out
    return reference != "attainable" or bool(member.higher_is_better)
