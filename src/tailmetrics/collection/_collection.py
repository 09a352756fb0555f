"""``TopKCollection``: many metrics, one ranking per batch, one flat dict of scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torchmetrics.utilities.plot import plot_single_or_multi_val

from tailmetrics._arguments import check_choice
from tailmetrics._compiling import is_compiling, outside_of_graph
from tailmetrics._exact_metric import (
    CHECKED_AFTER,
    ExactMetric,
    check_room,
    end_batch,
    start_batch,
    value_of_batch,
    with_keywords,
)
from tailmetrics._signatures import names_unknown_keywords
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection._alternatives import ORDERS
from tailmetrics.collection._members import (
    IS_SYNCED,
    MemberCollection,
    check_batch_arguments,
    named_members,
    refer_to_leaders,
    separate_members,
)
from tailmetrics.collection._summaries import labels_of, stacked, summaries_of
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics._checks import check_batch
from tailmetrics.metrics._metric import ROW_SETTINGS, TopKMetric, unchanged_after_errors
from tailmetrics.metrics._mistakes import (
    QueriesSeen,
    labels_in_each_list,
    warnings_of_small_buckets,
    warnings_of_whole_lists,
)
from tailmetrics.metrics._references import REFERENCES, Reference
from tailmetrics.metrics._results import Result
from tailmetrics.metrics._states import Addition, Increments
from tailmetrics.metrics._tie_counts import MANY_TIED, ties_in_words
from tailmetrics.metrics._training import Training
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._batch import BATCH_DEFAULTS, Batch, Context, Duplicates
from tailmetrics.ranking._ranking import rank_rows
from tailmetrics.ranking._reading import Depth
from tailmetrics.ranking._stages import enter_stage
from tailmetrics.ranking._threads import one_thread
from tailmetrics.ranking._warnings import warn_of_batch, warn_outside

VALIDATES_ARGUMENTS = attrgetter("validate_args")
"""Whether a metric checks the values of tensors."""


class TopKCollection(MemberCollection):
    """Metrics that share one ranking per batch, and the states that several need.

    ``compute()`` returns a flat dict of scalars with unique keys; Lightning's
    ``self.log_dict(collection)`` logs each scalar. If ``update`` fails for one metric,
    it changes no metric. ``row_groups``, ``duplicates`` and ``ignore_index`` hold for
    every metric that does not set its own.

    Args:
        metrics: Metrics of this library, as a list or as a dict. The names of a dict
            replace the keys of its metrics: ``{"p": PrecisionAtK([1, 5])}`` has the
            keys ``p@1`` and ``p@5``. A metric with a ``name`` of its own keeps it. A
            name must not contain ".".
        prefix: Text in front of every key.
        postfix: Text behind every key.
        row_groups: Names of groups of rows.
        references: What :meth:`references` returns beside the values: ``"chance"``,
            ``"popularity"``, ``"attainable"``.
        duplicates: What happens if an id stands twice in a row of ``preds``:
            ``"error"`` raises an error; ``"first"`` counts the first place, and the
            later places are misses.
        ignore_index: An id in ``target`` that is no label, such as padding, or the -100
            of language models. A row that holds nothing else does not count. In a list
            of ``preds`` such an id, from 0 on, is a miss.

    Raises:
        TypeError: If a member is no metric of this library, or overrides ``update``.
        ValueError: If two metrics have the same key, or treat repeated ids differently.

    >>> import torch
    >>> from tailmetrics import PrecisionAtK, RecallAtK
    >>> collection = TopKCollection([PrecisionAtK(k=[1, 2]), RecallAtK(k=2)], prefix="val/")
    >>> collection.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> {key: float(value) for key, value in collection.compute().items()}
    {'val/precision@1': 1.0, 'val/precision@2': 0.5, 'val/recall@2': 0.5}
    """

    _warns = True  # of the first batch
    _warns_of_ties = True  # in the first ``compute`` that has seen many
    _warns_of_cutoffs = True  # of buckets within k, in the first batch
    _enter_stage = enter_stage
    # of batches of a second stage, such as validation after training
    _warns_of_stages = True
    num_labels: int | None = None
    """The number of labels for batches of ids if no member has one.

    An evaluation sets this.
    """
    _queries_seen = QueriesSeen()
    _batch_reading: tuple[dict[str, Any], Depth] | None = None
    """The arguments of all batches and their depth; None before the first batch."""

    @names_unknown_keywords
    def __init__(
        self,
        metrics: Sequence[TopKMetric] | Mapping[str, TopKMetric] | TopKMetric,
        *more_metrics: Any,
        prefix: str | None = None,
        postfix: str | None = None,
        row_groups: Sequence[str] | None = None,
        references: Sequence[Reference] = (),
        duplicates: Duplicates = "error",
        ignore_index: int | None = None,
    ) -> None:
        if more_metrics:
            metrics = [metrics, *more_metrics]  # type: ignore[list-item] # named_members looks at each
        members = named_members(metrics)
        super().__init__({}, prefix=prefix, postfix=postfix, compute_groups=False)
        shared_arguments: dict[str, Any] = {}
        if duplicates != "error":
            shared_arguments["duplicates"] = duplicates
        if ignore_index is not None:
            shared_arguments["ignore_index"] = ignore_index
        if row_groups is not None:
            shared_arguments["row_groups"] = row_groups

        class_of_key: dict[str, str] = {}
        for name, metric in members.items():
            metric.take_shared_arguments(**shared_arguments)
            for key in list(metric.keys()):
                if key in class_of_key:
                    raise ValueError(
                        f"TopKCollection: {class_of_key[key]} and "
                        f"{type(metric).__name__} both have the key {key!r}; give one "
                        "of them another name=."
                    )
                class_of_key[key] = type(metric).__name__
            self._add_member(name, metric)
        check_batch_arguments(list(members.values()))
        self._share_states()
        self.with_references(references)

    def with_members(
        self, metrics: Sequence[TopKMetric], **arguments: Any
    ) -> TopKCollection:
        """Return a collection of these metrics that is otherwise like this one.

        Prefix, postfix, references and training counts are those of this collection.
        """
        collection = TopKCollection(
            metrics, prefix=self.prefix, postfix=self.postfix, **arguments
        )
        collection._training_counts = self._training_counts
        return collection.with_references(self._references)

    def with_references(self, names: Sequence[Reference]) -> TopKCollection:
        """Accumulate these references from now on; return the collection.

        The names are those of the argument ``references``.
        """
        for name in names:
            check_choice("TopKCollection", "references", name, REFERENCES)
        self._references = tuple(names)
        self._reference_models = None
        return self

    def with_orders(self) -> TopKCollection:
        """Accumulate from now on what :meth:`orders` returns; return the collection."""
        self._orders = ORDERS
        self._other_orders = None
        self._batch_reading = None
        return self

    def leave_warnings(self) -> None:
        """Do not warn of ties, of buckets within k, or of bins.

        A report says these things with all that it knows.
        """
        self._warns_of_ties = False
        self._warns_of_cutoffs = False
        for metric in self.members().values():
            vars(metric.aggregation)["_warns_of_bins"] = False

    def skip_checks_of_first_batch(self) -> None:
        """Do not look for likely mistakes in the next batch.

        Call this if the next batch is not the first one of the data.
        """
        self._warns = False
        for metric in self.members().values():
            vars(metric)["_warns"] = False

    def bind(
        self, frequency: LabelFrequency | LabelBuckets | Training
    ) -> TopKCollection:
        """Set what the metrics left open, such as ``buckets="deciles"``.

        All metrics share one table of buckets.

        A ``LabelFrequency`` adds up the counts of all processes, so call ``bind`` in
        every process.

        Args:
            frequency: Training counts, or buckets.

        Returns:
            The collection itself.
        """
        self.check_own_states("bind")
        training = frequency
        if not isinstance(training, Training):
            training = Training.from_frequency("TopKCollection", training)
        members = self.members().values()
        with unchanged_after_errors(members):
            for metric in members:
                metric.bind(training)
        self._training_counts = training.counts
        self._share_states()
        self._reference_models = None
        self._other_orders = None
        self._batch_reading = None
        return self

    @with_keywords
    def rank(
        self,
        preds: Any,
        target: Any = None,
        row_mask: Any = None,
        *,
        row_groups: Any = None,
        row_weights: Any = None,
        indexes: Any = None,
    ) -> Ranking:
        """Rank a batch as deep as the members need.

        The arguments are those of :meth:`update`.
        """
        with one_thread():
            return self._rank(
                Batch(preds, target, row_mask, row_groups, row_weights, indexes)
            )

    def _rank(self, batch: Batch, is_offline: bool = False) -> Ranking:
        """Return the ranking of a batch for all members.

        ``is_offline`` says whether an evaluation reads the batch.
        """
        members = list(self.members().values())
        row_arguments = {
            "row_weights": batch.row_weights,
            "row_groups": batch.row_groups,
        }
        if isinstance(batch.preds, Ranking):
            rows = batch.preds.rows
            row_arguments = {"row_weights": rows.weights, "row_groups": rows.groups}
        for argument, setting in ROW_SETTINGS.items():
            if row_arguments[argument] is not None and not any(
                getattr(metric, setting) for metric in members
            ):
                raise ValueError(
                    f"TopKCollection: no member takes {argument}; pass {setting}= to "
                    "the metrics that should take them."
                )
        if self._batch_reading is None:
            self._batch_reading = self._reading_of(members)
        arguments, depth = self._batch_reading
        context = Context(
            "TopKCollection", **arguments, warns=self._warns, is_offline=is_offline
        )
        context.validate = any(map(VALIDATES_ARGUMENTS, members))
        ranking = rank_rows(context, batch, depth)
        if self._warns and not is_compiling():
            self._warns = False
            if self._warns_of_cutoffs:
                num_labels = labels_in_each_list(arguments["num_labels"], ranking)
                sentences = [
                    *warnings_of_small_buckets(members, self.named),
                    *warnings_of_whole_lists(members, self.named, num_labels),
                ]
                for sentence in sentences:
                    warn_of_batch(ranking.notes, f"TopKCollection: {sentence}")
        return ranking

    def _reading_of(
        self, members: Sequence[TopKMetric]
    ) -> tuple[dict[str, Any], Depth]:
        """Return the arguments of all batches, and how deep they are read."""
        for metric in members:
            metric.check_bound("before update")
        # equal in all members
        arguments = {name: getattr(members[0], name) for name in BATCH_DEFAULTS}
        arguments["num_labels"] = self.num_labels
        for metric in reversed(members):
            if metric.num_labels is not None:
                arguments["num_labels"] = metric.num_labels

        depths = [
            metric.reading.required_depth for metric in members
        ] + self.other_orders.depths()
        deepest = max(depth.ranked for depth in depths)
        longest = max(depth.kept for depth in depths)
        return arguments, Depth(
            deepest, longest, decisions=all(depth.decisions for depth in depths)
        )

    @with_keywords
    def update(
        self,
        preds: Any,
        target: Any = None,
        row_mask: Any = None,
        *,
        row_groups: Any = None,
        row_weights: Any = None,
        indexes: Any = None,
    ) -> None:
        """Rank a batch once and add it to every member.

        Args:
            preds: Scores, ids, candidates or CSR as in :func:`tailmetrics.rank`; or a
                :class:`Ranking`, alone.
            target: What is relevant, as in :func:`tailmetrics.rank`.
            row_mask: Shape (N,), bool; False drops a row.
            row_groups: Shape (N,), integers: the index of each row's group in the names
                of the groups; -1 for a row without a group.
            row_weights: Shape (N,), weights of at least 0; read by the metrics with
                ``weighted=True``.
            indexes: Shape (n,), integers: the query of each document of flat queries.
        """
        with one_thread():
            ranking = self._rank(
                Batch(preds, target, row_mask, row_groups, row_weights, indexes)
            )
            self._add(ranking)

    def _add(self, ranking: Ranking) -> None:
        """Add a ranking to all members, or to none if one of them refuses it."""
        members = cast("dict[str, TopKMetric]", self._modules)
        if True in map(IS_SYNCED, members.values()):
            self.check_own_states("update")
        batch = self._prepared(ranking, members)
        self._carry_out(ranking, batch.increments, members)
        vars(self)["_queries_seen"] = batch.queries_seen

    def _prepared(
        self, ranking: Ranking, members: Mapping[str, TopKMetric]
    ) -> PreparedBatch:
        """Return what a ranking adds to each group; raise if a member refuses it.

        States are reset if Lightning has read their values.
        """
        separate_members(self)
        leaders = [group[0] for group in self._groups.values()]
        for name in leaders:
            check_batch(members[name], ranking)
        increments = {name: members[name].prepare(ranking) for name in leaders}

        queries_seen = self._queries_seen
        if self._were_logged:
            queries_seen = QueriesSeen()
        if ranking.queries is not None:
            queries_seen = queries_seen.with_queries("TopKCollection", ranking.queries)
        self._before_adding()
        for name in leaders:
            if members[name].update_count in CHECKED_AFTER:
                check_room(members[name])
        self._note_stage()
        return PreparedBatch(increments, queries_seen)

    def _carry_out(
        self,
        ranking: Ranking,
        increments_by_member: Mapping[str, Increments],
        members: Mapping[str, TopKMetric],
    ) -> None:
        """Add a prepared ranking to the states of all members and alternatives."""
        addition = Addition()
        updated: list[ExactMetric] = []
        for name, increments in increments_by_member.items():
            members[name].note_increments(addition, increments, ranking.rows)
            updated.append(members[name])
        if self._references:
            updated += self.reference_models.note_increments(addition, ranking)
        if self._orders:
            updated += self.other_orders.note_increments(
                addition, ranking, increments_by_member
            )
        addition.carry_out()
        for metric in updated:
            vars(metric).update(_computed=None, _update_count=metric.update_count + 1)
        if len(increments_by_member) < len(members):
            for metric in members.values():
                vars(metric)["_computed"] = None
            refer_to_leaders(self)

    @torch.jit.unused
    @outside_of_graph
    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Add a batch, as :meth:`update` does; return the values of this batch alone.

        The values form a flat dict, as :meth:`compute` returns it.
        """
        self.check_own_states("forward")
        ranking = self.rank(*args, **kwargs)
        members = self.members()
        with one_thread():
            batch = self._prepared(ranking, members)
        before = {metric: dict(vars(metric)) for metric in self._parts().values()}
        try:
            for metric in before:
                start_batch(metric)
            self._carry_out(ranking, batch.increments, members)
            values = {name: value_of_batch(metric) for name, metric in members.items()}
            for metric, attributes in before.items():
                end_batch(metric, attributes)
            refer_to_leaders(self)
        except BaseException:
            for metric, attributes in before.items():
                # the states that were, which no batch has changed
                vars(metric).update(attributes)
            raise
        vars(self)["_queries_seen"] = batch.queries_seen
        scalars: dict[str, Any] = {}
        for name, metric in members.items():
            if metric.keys():
                for key, value in metric.scalars(values[name]).items():
                    scalars[self.named(key)] = value
        return scalars

    def reset(self) -> None:
        """Reset all members; they may then be bound anew."""
        super().reset()
        self._init_compute_groups()  # members may share states again
        for states in self._alternative_states().values():
            states.reset()
        self._batch_reading = None
        vars(self)["_stage"] = None
        vars(self).pop("_queries_seen", None)

    @outside_of_graph
    def compute(self) -> dict[str, Any]:
        """Return the scalars of all members in one flat dict.

        Processes send the states of all members at once.
        """
        members = cast(
            "list[tuple[str, TopKMetric]]", self.items(keep_base=True, copy_state=False)
        )
        metrics = [metric for _, metric in members if metric.keys()]
        scalars: dict[str, Any] = {}
        most_ties = TiedShare(0.0, None, ())
        with self._sent_together(metrics):
            for metric in metrics:
                with metric.over_all_processes():
                    for key, scalar in metric.scalars().items():
                        scalars[self.named(key)] = scalar
                    value = metric._computed
                    for cutoff, share in metric.tied_shares().items():
                        if share > most_ties.share:
                            most_ties = TiedShare(
                                share, cutoff, metric.aggregation.tie_rules
                            )
                # leaving the states of all processes has dropped it
                vars(metric)["_computed"] = value
        if self._warns_of_ties and most_ties.share > MANY_TIED:
            self._warns_of_ties = False
            warn_outside(
                ties_in_words(
                    "TopKCollection", most_ties.share, most_ties.cutoff, most_ties.rules
                )
            )
        return scalars

    def results(self) -> dict[str, Result]:
        """Return each member's values and what is known of them, by member name.

        The values are over all processes.
        """
        members = self.members()
        with self._sent_together(members.values()):
            return {name: metric.result() for name, metric in members.items()}

    def references(self) -> dict[str, dict[str, Tensor]]:
        """Return the values of reference models on the same rows, by name and key.

        They are over all processes.

        ``"chance"`` gives all labels the same score, and ``"popularity"`` scores a
        label by its training count: each value is the mean over all orders of equal
        scores. ``"attainable"`` is the value of the best list: it begins with the
        relevant labels, in a bucket with those of this bucket, and is as long as the
        list of the row, or longer if the relevant labels need more places. Metrics
        without a formula for such means are left out. ``"popularity"`` is left out if
        training counts are unknown, and ``"attainable"`` for metrics of which a lower
        value is better.

        >>> import torch
        >>> from tailmetrics import RecallAtK
        >>> collection = TopKCollection([RecallAtK(k=1)], references=["chance", "attainable"])
        >>> collection.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[0, 2]]))
        >>> {name: float(values["recall@1"]) for name, values in collection.references().items()}
        {'chance': 0.25, 'attainable': 0.5}
        """
        return self.reference_models.values(self.named)

    def orders(self) -> dict[str, dict[str, Tensor]]:
        """Return the values under other orders of equal scores, by name and key.

        Call :meth:`with_orders` first.

        ``"worst"`` ranks relevant labels behind other labels of the same score,
        ``"best"`` before them; ``"expected"`` is the mean over all orders. Lists of ids
        have one order. After a batch of cut lists, in whatever process, there are no
        values, because the cut may separate equal scores.
        """
        return self.other_orders.values(self.named)

    def per_label(self, zero_division: float = 0.0) -> dict[str, Tensor]:
        """Return counts and values of each label over all rows: a dict of vectors (L,).

        ``count`` is the training count of a label, ``support`` the number of rows in
        which it is relevant, ``predicted`` how often it is predicted, and ``hits`` how
        often it is predicted and relevant. With several cut-offs, ``predicted`` and
        ``hits`` end in ``@`` and the cut-off. Values have their key, such as
        ``precision@5``. Metrics with ``average="none"``, ``"macro"`` or ``"weighted"``
        hold these vectors. If a later metric counts differently, as with ``min_gain=2``
        or in the lists of buckets, its key follows the name of its columns:
        ``hits (none_precision_min2@5)``.

        Counts are those of all processes: call this in every process.

        Args:
            zero_division: The value that divides by 0, such as the recall of a label
                with support 0.

        Raises:
            ValueError: If no member keeps counts per label.
        """
        metrics = [
            metric
            for metric in self.members().values()
            if metric.aggregation.keeps_labels
        ]
        if not metrics:
            raise ValueError(
                "TopKCollection: no member keeps counts per label; add one with "
                "average='none', such as RecallAtK(k=10, average='none')."
            )
        with self._sent_together(metrics):
            return labels_of(metrics, self.training_counts, zero_division)

    def summaries(
        self,
        scalars: Mapping[str, Tensor] | None = None,
        references: Mapping[str, Mapping[str, Tensor]] | None = None,
    ) -> dict[str, Tensor]:
        """Return a gap and a spread for each cut-off of each member by bucket.

        ``recall@10/gap`` is the value of the most frequent bucket minus that of the
        rarest one; ``recall@10/spread`` is the standard deviation of the buckets'
        values divided by their mean (Elliot's PopREO). Both read only buckets whose
        labels occur in training and that have a value. A mean over rows has none where
        no row counts; with ``empty_target_action="neg"`` or ``"pos"`` all rows count.
        An average over labels has none where it averages no label, although its value
        is 0 there. With fewer than two such buckets they are NaN. With
        ``references=["chance", "attainable"]`` there is ``recall@10/adjusted_gap``, the
        gap of (value - chance) / (attainable - chance), which is 0 for random scores,
        however many labels the buckets hold (Hubert and Arabie, J. Classification 2,
        1985, adjust a value for chance like this).

        Args:
            scalars: What :meth:`compute` returned; None computes it.
            references: What :meth:`references` returned; None computes it.
        """
        if scalars is None:
            scalars = self.compute()
        values = dict(scalars)
        metrics = [
            metric for metric in self.members().values() if metric.buckets is not None
        ]
        with self._sent_together(metrics):
            for metric in metrics:
                for key in map(self.named, metric.not_measured()):
                    values[key] = torch.full_like(values[key], torch.nan)
        if references is None:
            references = self.references() if self._references else {}
        return summaries_of(metrics, values, references, self.named)

    def plot(
        self,
        val: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]] | None = None,
        ax: Any = None,
        together: bool = False,
    ) -> Any:
        """Plot every member as its own ``plot`` does, or all values in one figure.

        Members with ``average="none"``, which have no keys, are left out.

        Args:
            val: What ``compute`` or ``forward`` returned, or a sequence of that over
                steps; None is ``compute()``.
            ax: Axes of matplotlib to draw in: one per member, or one if ``together``.
            together: Whether all values go into one figure.

        Returns:
            Figure and axes of each member, or of all of them if ``together``, as
            TorchMetrics does.
        """
        if val is None:
            val = self.compute()
        if together:
            return plot_single_or_multi_val(val, ax=ax)  # type: ignore[arg-type] # wants dict, reads any mapping
        members = [metric for metric in self.members().values() if metric.keys()]
        axes = [None] * len(members) if ax is None else list(ax)
        if len(axes) != len(members):
            raise ValueError(
                f"TopKCollection.plot: ax holds {len(axes)} axes for {len(members)} "
                "metrics; pass one each."
            )

        figures = []
        for metric, axis in zip(members, axes, strict=True):
            keys = [self._set_name(key) for key in list(metric.keys())]
            if isinstance(val, Mapping):
                values: Any = stacked(val, keys)
            else:
                values = [stacked(step, keys) for step in val]
            figures.append(metric.plot(values, axis))
        return figures


class PreparedBatch(NamedTuple):
    """What a batch adds to a collection.

    Attributes:
        increments: What is added to the states of each group, by the name of the
            member that holds them.
        queries_seen: The queries of all batches, this one included.
    """

    increments: dict[str, Increments]
    queries_seen: QueriesSeen


class TiedShare(NamedTuple):
    """The largest share of rows with ties at a cut-off, and the metric's tie rules."""

    share: float
    cutoff: int | None
    rules: Any
