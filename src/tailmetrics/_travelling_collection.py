"""Floor 3: a collection whose states go to other processes, collections and machines, those of all members at once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

from torchmetrics import MetricCollection
from typing_extensions import Self

from tailmetrics._meaning import difference
from tailmetrics._packed_sync import Share
from tailmetrics._travelling_metric import properties_of, sent_together
from tailmetrics._travelling_states import from_bytes, to_bytes
from tailmetrics.metrics._metric import TopKMetric


class TravellingCollection(MetricCollection):
    """Members that share a state send it once; what differs in any member is refused before any of them changes."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep TorchScript away from properties, as in the members."""
        super().__init_subclass__(**kwargs)
        cls.__jit_unused_properties__ = properties_of(cls)

    def members(self) -> dict[str, TopKMetric]:
        """Return the metrics by member name, without prefix and postfix."""
        return cast("dict[str, TopKMetric]", dict(self._modules))

    def _shares(self, members: Mapping[str, TopKMetric]) -> dict[str, Share]:
        """Return what each of some members holds; those of one group hold one tensor for each state."""
        shares: dict[str, Share] = {}
        for group in self._groups.values():
            present = {name: members[name]._tensors() for name in group if name in members}
            first = {name: state for held in reversed(present.values()) for name, state in held.items()}
            shares |= {one: members[one]._share({name: first[name] for name in held}) for one, held in present.items()}
        return {name: shares[name] for name in members}

    def _sent_together(self, members: Mapping[str, TopKMetric]) -> AbstractContextManager[None]:
        """Send the states of members over processes at once, to be used by their ``compute``."""
        sending = {name: metric for name, metric in members.items() if metric._will_send}
        shares = self._shares(sending)
        return sent_together("TopKCollection", [(metric, shares[name]) for name, metric in sending.items()])

    def merge_state(self, other: Self) -> None:
        """Add the states of a collection of the same metrics, which may have counted in another process.

        Args:
            other: A collection of the same metrics, with the same arguments, buckets and counts, in the same order.

        Raises:
            TypeError: If ``other`` is no such collection.
            ValueError: If a member differs; the message says which one, and in what. No member is changed.
        """
        if not isinstance(other, TravellingCollection):
            raise TypeError(f"TopKCollection.merge_state: other is a {type(other).__name__}; pass a TopKCollection.")
        own, others = self.members(), other.members()
        here, there = ([metric._meaning() for metric in members.values()] for members in (own, others))
        differs = difference(here, there, "here", "in other", list(own))
        if differs is not None:
            raise ValueError(
                f"TopKCollection.merge_state: other holds other metrics: {differs}. Merge collections of the same "
                "metrics, with the same arguments, buckets and counts, in the same order."
            )
        self._check_not_synced("merge_state")
        for metric, more in zip(own.values(), others.values(), strict=True):
            metric.merge_state(more)
        self._share_again()

    def state_bytes(self) -> bytes:
        """Return the states of all members as bytes, for :meth:`load_state_bytes` of a collection of the same metrics.

        They hold no tables of buckets or counts, only digests that tell whether the reader has the same ones: some
        kilobytes at any number of labels, unless a member counts labels.

        Raises:
            ValueError: Before :meth:`bind` has completed the members.
        """
        members = self.members()
        for metric in members.values():
            metric._check_has_states("state_bytes")
        return to_bytes(list(self._shares(members).values()), [metric.update_count for metric in members.values()])

    def load_state_bytes(self, data: bytes) -> None:
        """Replace the states of all members by those that :meth:`state_bytes` returned on another machine.

        Args:
            data: Bytes of a collection of the same metrics, with the same arguments, buckets and counts.

        Raises:
            TypeError: If ``data`` is not bytes.
            ValueError: If they are damaged, or a member differs; the message says which one, and in what.
        """
        members = self.members()
        for metric in members.values():
            metric._check_has_states("load_state_bytes")
        shares = list(self._shares(members).values())
        loaded = from_bytes("TopKCollection.load_state_bytes", data, shares, list(members))
        for metric, (states, updates) in zip(members.values(), loaded, strict=True):
            metric._take(states, updates)
        self._share_again()

    def _check_not_synced(self, method: str) -> None:
        for name, metric in self.members().items():
            if metric._is_synced:
                raise ValueError(
                    f"TopKCollection.{method}: member {name!r} holds the states of all processes; call unsync() first."
                )

    def _share_again(self) -> None:
        """Let the members of a group refer to the states of the first of them."""
        self._state_is_copy = False
        self._compute_groups_create_state_ref()
