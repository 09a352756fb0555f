"""The values of a collection under other rankings of the same rows: of reference models, and of tied labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from torch import Tensor

from tailmetrics._exact_metric import sent_together
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._references import REFERENCES, RankedCounts, Reference, ReferenceRanking
from tailmetrics.metrics._states import Addition, Prepared
from tailmetrics.metrics._ties import Ties
from tailmetrics.ranking import Ranking

ORDERS: Final[tuple[Ties, ...]] = ("worst", "expected", "best")
"""The orders of equal scores that :meth:`tailmetrics.TopKCollection.orders` has values of."""


class Alternatives:
    """Metrics like the members of a collection, of reference models and of other orders of equal scores.

    Args:
        members: The members, by name; all bound.
        names: References and orders.
        counts: Training counts, shape (L,); None if they are unknown, and then there is no ``"popularity"``.

    Attributes:
        metrics: By reference or order, and name of the member: the metric. Members that cannot tell are left out.
    """

    def __init__(
        self, members: Mapping[str, TopKMetric], names: Sequence[Reference | Ties], counts: Tensor | None
    ) -> None:
        self._members = members
        self._counts = None if counts is None else RankedCounts(counts)
        known = [one for one in names if one != "popularity" or counts is not None]
        self.metrics = {one: {name: self._alike(member, one) for name, member in self._can(one)} for one in known}

    def _can(self, name: Reference | Ties) -> list[tuple[str, TopKMetric]]:
        ties = "expected" if name in REFERENCES else name
        can = [(key, metric) for key, metric in self._members.items() if ties in metric.aggregation.tie_rules]
        # of what is lower for better lists, such as fall-out, the best list begins with no relevant label of the bucket
        return [one for one in can if name != "attainable" or one[1].higher_is_better]

    @staticmethod
    def _alike(metric: TopKMetric, name: Reference | Ties) -> TopKMetric:
        ties = "expected" if name in REFERENCES else name
        return metric.again(ties=ties, buckets=metric.bound_buckets).to(metric.device)

    def by_name(self) -> dict[str, TopKMetric]:
        """Return all metrics by a name."""
        return {f"{one} of {name}": metric for one, some in self.metrics.items() for name, metric in some.items()}

    def of_orders(self) -> list[TopKMetric]:
        """Return the metrics of other orders of equal scores."""
        return [metric for name, some in self.metrics.items() if name not in REFERENCES for metric in some.values()]

    def note_in(self, addition: Addition, ranking: Ranking, prepared: Mapping[str, Prepared]) -> list[TopKMetric]:
        """Note what a batch adds to the metrics; return those to which it adds.

        Args:
            addition: Where it is noted.
            ranking: The batch.
            prepared: What the batch adds to members, as far as that is known.
        """
        read: list[TopKMetric] = []
        usual = {name: one.increments for name, one in prepared.items()}
        for name, metrics in self.metrics.items():
            rows, is_order = ranking, name not in REFERENCES
            if not is_order:
                rows = self._ranked_by(cast("Reference", name), ranking)
            elif not (ranking.complete or ranking.scores_all):
                continue  # labels below the end of the list may tie with its last label
            for key, metric in metrics.items():
                reading: Any = metric.reading
                if is_order and reading.has_no_ties(ranking):
                    member: Any = self._members[key].aggregation
                    if key not in usual:
                        usual[key] = member.increments(ranking)
                    own: Any = metric.aggregation
                    metric.note_in(addition, Prepared(own.of_other_order(member, usual[key]), ranking.rows))
                else:
                    metric.note_in(addition, metric.prepared(rows))
                read.append(metric)
        return read

    def _ranked_by(self, reference: Reference, ranking: Ranking) -> ReferenceRanking:
        """Return the rows of a ranking as a reference ranks them."""
        key = ("reference", reference, self._counts)
        return ranking.remembered(
            key, lambda: ReferenceRanking.of_rows(ranking, reference, self._width(ranking), self._counts)
        )

    def _width(self, ranking: Ranking) -> int:
        """Return the number of labels that references rank."""
        buckets = next((one.bound_buckets for one in self._members.values() if one.bound_buckets is not None), None)
        num_labels = ranking.num_labels if buckets is None else buckets.num_labels
        if ranking.documents is not None and ranking.num_rows:
            num_labels = int(ranking.documents.max())
        if num_labels is None:
            raise ValueError(
                "TopKCollection: references= needs the number of labels, which ids do not tell; make a member with "
                "num_labels=, or leave references out."
            )
        return num_labels

    def values(self, names: Sequence[Reference | Ties], named: Callable[[str], str]) -> dict[str, dict[str, Tensor]]:
        """Return values by reference or order, and key, over all processes."""
        chosen = {one: metrics for one, metrics in self.metrics.items() if one in names}
        sending = [metric for metrics in chosen.values() for metric in metrics.values() if metric.will_send]
        with sent_together("TopKCollection", sending):
            return {
                one: {
                    named(key): value
                    for name, metric in metrics.items()
                    for key, value in zip(self._members[name].keys(), metric.scalars().values(), strict=True)
                    if metric.update_count == self._members[name]._update_count
                }
                for one, metrics in chosen.items()
            }

    @property
    def adjusted(self) -> list[str]:
        """Names of the members that have :meth:`above_chance`: means over rows with buckets."""
        means = (
            name
            for name, one in self._members.items()
            if one.buckets is not None and one.aggregation.row_terms == "mean"
        )
        sides: tuple[Reference, Reference] = "chance", "attainable"
        return [name for name in means if all(name in self.metrics.get(side, {}) for side in sides)]

    def above_chance(self, name: str, ranking: Ranking) -> dict[str, tuple[Tensor, Tensor]]:
        """Return by key, for each row, (value - chance) and (attainable - chance), shape (N,) each.

        ``adjusted_gap`` is computed from the sum of the first divided by the sum of the second. NaN in rows that do not
        count. The dict is empty for a metric that is not in :attr:`adjusted`.
        """
        if name not in self.adjusted:
            return {}
        values = self._members[name].row_values(ranking)
        sides: tuple[Reference, Reference] = "chance", "attainable"
        least, most = (self.metrics[side][name].row_values(self._ranked_by(side, ranking)).values() for side in sides)
        triples = zip(values.items(), least, most, strict=True)
        return {key: (value - chance, best - chance) for (key, value), chance, best in triples}
