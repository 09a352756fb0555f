"""``TopKMetric``: a reading, a formula and an aggregation with states and keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self

from tailmetrics._arguments import check_count, check_counts, check_flag, shape_of
from tailmetrics._compiling import outside_of_graph
from tailmetrics._exact_metric import ExactMetric
from tailmetrics._signatures import arguments, settled_arguments
from tailmetrics._transfer import identity
from tailmetrics.buckets import LabelBuckets, names_of_kind
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics._aggregations import Aggregation, MeanOfRows, Values
from tailmetrics.metrics._arguments_of_metrics import Buckets, check_row_groups
from tailmetrics.metrics._checks import Check, check_batch, checks_of
from tailmetrics.metrics._formulas import Formula
from tailmetrics.metrics._keys import Stem, arguments_text, keys_of, names_of_states
from tailmetrics.metrics._mistakes import QueriesSeen
from tailmetrics.metrics._plots import plot_metric
from tailmetrics.metrics._readings import Ranks, Reading
from tailmetrics.metrics._results import Result, not_measured, result_of, tied_shares
from tailmetrics.metrics._states import (
    Addition,
    AtCells,
    Increments,
    PerRow,
    State,
    check_cells,
)
from tailmetrics.metrics._tie_counts import MANY_TIED, TieCount, ties_in_words
from tailmetrics.metrics._training import FROM_TRAINING, Training
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._batch import (
    BATCH_DEFAULTS,
    Batch,
    Context,
    Duplicates,
    check_batch_argument,
)
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._ranking import rank_rows
from tailmetrics.ranking._reading import BatchRows
from tailmetrics.ranking._stages import enter_stage
from tailmetrics.ranking._threads import one_thread
from tailmetrics.ranking._warnings import warn_outside

ROW_SETTINGS = {"row_weights": "weighted", "row_groups": "row_groups"}
"""Argument of ``update`` -> the argument of the constructor that it requires."""


class TopKMetric(ExactMetric):
    """A metric of ranked labels: a reading, a formula and an aggregation.

    Values are over all labels or by bucket.

    ``update`` ranks a batch (once for all metrics of a
    :class:`tailmetrics.TopKCollection`), computes what the batch adds, and changes the
    states last: after an error, the states are as before. States are whole numbers, so
    results do not depend on batch size, order or number of processes.

    ``update`` takes ``preds`` as scores (N, L), ranked ids (N, K), a pair of scores and
    ids (N, C) or CSR (N, L), and ``target`` as class indices (N,), padded label ids (N,
    M), multi-hot or gains (N, L) or CSR (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        formula: The formula of a value, with its arguments.
        reading: Makes the part of a ranking that the formula reads.
        aggregation: Makes the aggregation that turns rows into a number.
        needs: Facts of training, beside those that the aggregation needs, that must be
            known before an update.
        kwargs: See :class:`torchmetrics.Metric`.
    """

    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    stem: ClassVar[str] = Stem()  # type: ignore[assignment] # a text, of each class
    usual_settings: Mapping[str, Any] = MappingProxyType({})
    """The actual defaults of arguments whose default in the signature is None."""
    reading: Reading
    aggregation: Aggregation
    row_groups: tuple[str, ...] | None
    duplicates: Duplicates
    ignore_index: int | None
    label_counts: Tensor | None
    """Training counts (L,), of metrics that take them."""
    ties: str = "id"
    empty_target_action: str = "neg"
    min_gain: float | None = None
    _warns = True
    """Whether the next batch is checked for likely mistakes; only the first one is."""
    _warns_of_ties = True
    """Whether ``compute`` warns of equal scores, once; False in a collection."""
    _warns_of_cutoffs = True
    """Whether the first batch warns of buckets of at most k labels.

    A collection or a report warns for its metrics.
    """
    _warns_of_stages = True
    """Whether an update warns of batches of another stage, such as training, once."""
    _enter_stage = enter_stage
    _keep_states = False
    _shares_tensors = False
    """Whether this metric and other members of a collection hold the same tensors."""
    _tie_count: TieCount | None = None
    _queries_seen = QueriesSeen()

    def __init__(
        self,
        k: Any,
        formula: Formula,
        *,
        reading: Any = Ranks,
        aggregation: Any = MeanOfRows,
        needs: Sequence[str] = (),
        buckets: Buckets | None = None,
        num_labels: int | None = None,
        row_groups: Sequence[str] | None = None,
        weighted: bool = False,
        name: str | None = None,
        validate_args: bool = True,
        duplicates: Duplicates = "error",
        ignore_index: int | None = None,
        **kwargs: Any,
    ) -> None:
        caller = self._caller
        reading_arguments = _pop_arguments_of(reading, kwargs)
        aggregation_arguments = _pop_arguments_of(aggregation, kwargs)
        super().__init__(**kwargs)

        if not isinstance(name, str | None):
            raise TypeError(
                f"{caller}: name={name!r} is no text; pass a string to be used as "
                "key, or None."
            )
        _check_buckets(caller, buckets)
        self.formula = formula
        self.name = name
        self.validate_args = validate_args
        self.buckets = buckets
        self.weighted = check_flag(caller, "weighted", weighted)
        self.num_labels = num_labels
        if num_labels is not None:
            self.num_labels = check_count(caller, "num_labels", num_labels)
        self.row_groups = check_row_groups(caller, row_groups, self.bucket_names)
        self.duplicates = check_batch_argument(caller, "duplicates", duplicates)
        self.ignore_index = check_batch_argument(caller, "ignore_index", ignore_index)

        self.reading = reading(
            caller, k, formula, buckets is not None, **reading_arguments
        )
        self.aggregation = aggregation(
            caller, self.reading, self.weighted, **aggregation_arguments
        )
        if self.weighted and not self.aggregation.can_be_weighted:
            raise ValueError(
                f"{caller}: weighted=True means nothing here, where no mean over rows "
                "is taken; leave it out."
            )
        self._take_arguments_of_parts()
        self.cutoffs = self.reading.cutoffs
        self.k = self.cutoffs if self.reading.has_several_cutoffs else self.cutoffs[0]
        self.usual_settings = {
            **type(self).usual_settings,
            "empty_target_action": self.aggregation.usual_action,
        }
        self.needs = (*self.aggregation.needs, *needs)
        # bind completes buckets that are a kind such as "deciles", and facts that are
        # None
        self._left_open: dict[str, str | None] = {}
        for argument, value in vars(self).items():
            if argument in FROM_TRAINING and (value is None or isinstance(value, str)):
                self._left_open[argument] = value
        self._rebuild({})

    def _take_arguments_of_parts(self) -> None:
        """Set the arguments of the reading, aggregation and metric as attributes.

        Arguments of the metric are set where no part has set them.
        """
        attributes = vars(self)
        for part in (self.reading, self.aggregation):
            for argument in part.takes:
                attributes[argument] = getattr(part, argument)
        settled = settled_arguments(type(self))
        for argument, parameter in arguments(type(self)).items():
            if argument in settled and argument not in attributes:
                attributes[argument] = self._given.get(argument, parameter.default)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Set the range of values for TorchMetrics' plots."""
        super().__init_subclass__(**kwargs)
        low, high = (bound if isfinite(bound) else None for bound in cls.bounds)
        plot_attributes = {
            "plot_lower_bound": low,
            "plot_upper_bound": high,
            "plot_legend_name": cls.stem,
        }
        for attribute in plot_attributes.keys() - vars(cls).keys():
            setattr(cls, attribute, plot_attributes[attribute])

    @property
    def bucket_names(self) -> tuple[str, ...]:
        """The names of the buckets, known or to be made; none without buckets."""
        if isinstance(self.buckets, str):
            return names_of_kind(self.buckets)
        if self.buckets is None:
            return ()
        return self.buckets.names

    @property
    def _caller(self) -> str:
        return type(self).__name__

    # facts of training

    @property
    def is_bound(self) -> bool:
        """Whether all facts that an update needs are known; else call :meth:`bind`."""
        return not self.missing()

    def missing(self) -> list[str]:
        """Return the names of unknown facts that an update needs ("label_counts")."""
        names = []
        if isinstance(self.buckets, str):
            names.append("buckets")
        for name in self.needs:
            comes_with_buckets = bool(names) and name == "num_labels"
            if getattr(self, name) is None and not comes_with_buckets:
                names.append(name)
        return names

    def check_bound(self, when: str, advice: str = "") -> None:
        """Raise ValueError if the states need a fact that is not known.

        The message says ``when`` to call ``bind``, or gives ``advice`` instead.
        """
        if self._defaults:
            return
        missing = self.missing()
        if not missing:
            return

        verb = "is" if len(missing) == 1 else "are"
        problem = f"{' and '.join(missing)} {verb} not known yet"
        if "buckets" in missing:
            problem = f"buckets={self.buckets!r} has no label counts yet"
        if missing == ["tree"]:  # a LabelFrequency knows of no parents
            raise ValueError(
                f"{self._caller}: {problem}; "
                f"{advice or 'pass tree=LabelTree(parents) to the metric'}."
            )
        passed = " and ".join(f"{name}=" for name in missing)
        remedy = advice or f"call bind(frequency) with a LabelFrequency {when}"
        raise ValueError(
            f"{self._caller}: {problem}; {remedy}, or pass {passed} to the metric."
        )

    def bind(self, frequency: LabelFrequency | LabelBuckets | Training) -> Self:
        """Set what the constructor left open, from the counts of the training labels.

        Such facts are the buckets of ``buckets="deciles"``, the number of labels and
        the training counts.

        Arguments that were passed to the constructor stay.

        Args:
            frequency: The counted training labels, added up over all processes: call
                ``bind`` in each of them. Or buckets, which replace
                ``buckets="deciles"``.

        Raises:
            TypeError: If ``frequency`` is neither.
            ValueError: If the metric has been updated since its last reset, or the
                facts do not agree.
        """
        self.check_own_states("bind")
        if isinstance(frequency, Training):
            training = frequency
        else:
            training = Training.from_frequency(self._caller, frequency)
        if self._update_count:
            raise ValueError(
                f"{self._caller}: bind after {self._update_count} updates would mix "
                "two meanings; reset first."
            )
        facts = {}
        for argument, value in self._left_open.items():
            facts[argument] = FROM_TRAINING[argument](training, value)
        if any(vars(self)[argument] is not value for argument, value in facts.items()):
            self._rebuild(facts)
        return self

    @property
    def left_open(self) -> tuple[str, ...]:
        """The names of the arguments that ``bind`` sets."""
        return tuple(self._left_open)

    def take_shared_arguments(self, **shared_arguments: Any) -> None:
        """Take arguments of a collection that were not passed to the metric itself."""
        arguments_to_take = {}
        for name, value in shared_arguments.items():
            if self._given.get(name) is None:
                arguments_to_take[name] = self._checked_shared_argument(name, value)
        if arguments_to_take:
            self._rebuild(arguments_to_take)

    def _checked_shared_argument(self, name: str, value: Any) -> Any:
        """Return an argument of a collection after a check."""
        if name == "row_groups":
            return check_row_groups("TopKCollection", value, self.bucket_names)
        if name in BATCH_DEFAULTS:
            return check_batch_argument("TopKCollection", name, value)
        return value  # a tree, which evaluate has checked

    def _rebuild(self, facts: Mapping[str, Any]) -> None:
        """Set facts and build parts, keys and new states; an error changes nothing."""
        with unchanged_after_errors([self]):
            self._build(facts)

    def _build(self, facts: Mapping[str, Any]) -> None:
        """Set facts, and build what depends on them."""
        self._is_locked = False
        vars(self).update(facts, _fingerprint=None)
        self._reconcile_facts()
        reading = self.reading.with_facts(
            self.formula, self.bound_buckets, self.num_labels
        )
        self.reading = reading
        self.aggregation = self.aggregation.with_reading(reading)
        self._keys = keys_of(self)
        self.batch_checks: tuple[Check, ...] = checks_of(self)
        self._make_states()
        self._is_locked = True

    def _reconcile_facts(self) -> None:
        """Take the number of labels and the training counts from other facts.

        Raises ValueError if two facts do not agree.
        """
        self.bound_buckets: LabelBuckets | None = None
        if isinstance(self.buckets, LabelBuckets):
            self.bound_buckets = self.buckets
        buckets = self.bound_buckets
        if buckets is not None:
            self._take_num_labels("buckets", buckets.num_labels)

        tree = vars(self).get("tree")
        if tree is not None:
            self._take_num_labels("tree", tree.num_labels)
            self.formula = self.formula.with_arguments(tree=tree)
        if "label_counts" in vars(self):
            if (
                self.label_counts is None
                and buckets is not None
                and "label_counts" in self.needs
            ):
                self.label_counts = buckets.counts
            if self.label_counts is not None:
                self.label_counts = check_counts(
                    self._caller, "label_counts", self.label_counts
                )
                self._take_num_labels("label_counts", len(self.label_counts))

    def _take_num_labels(self, argument: str, number: int) -> None:
        """Set the number of labels; raise ValueError if another number is known.

        ``number`` is the length of ``argument``, which has a value for each label.
        """
        if self.num_labels not in (None, number):
            raise ValueError(
                f"{self._caller}: {argument} is for {number} labels, but there are "
                f"{self.num_labels}; pass what was made for the same labels, and leave "
                "num_labels out."
            )
        self.num_labels = number

    # names

    def unusual_settings(self) -> dict[str, Any]:
        """Return the settings that are not the default."""
        usual = {
            name: parameter.default for name, parameter in arguments(type(self)).items()
        }
        usual |= self.usual_settings
        unusual = {}
        for name, value in self.settings().items():
            if identity(value) != identity(usual.get(name)):
                unusual[name] = value
        return unusual

    def empty_copy(self, without: Sequence[str] = (), **changed: Any) -> Self:
        """Return a metric without batches and with the arguments of this one.

        Args:
            without: Names of arguments that are left out, so that they have their
                defaults.
            changed: Arguments that replace those of this metric.
        """
        passed = dict(self._given)
        for name in (*FROM_TRAINING, "row_groups", *BATCH_DEFAULTS):
            value = vars(self).get(name)
            if value not in (None, BATCH_DEFAULTS.get(name)):
                passed[name] = value
        for name in without:
            passed.pop(name, None)
        passed |= changed
        by_place = [
            passed.pop(name) for name in list(passed) if not name.isidentifier()
        ]
        return type(self)(*by_place, **passed)

    def extra_repr(self) -> str:
        """Return the arguments that are not the default, for ``repr``."""
        return arguments_text(self)

    def keys(self) -> list[str]:
        """Return the keys of the values, such as ``precision@5/en/decile_10``.

        A key names the cut-off, then the row group and the bucket, where there are any.
        """
        return [key for group in self.group_keys() for key in self.row_keys(group)]

    def group_keys(self) -> list[str]:
        """Return the part of a key for each row group: empty for all rows, ``/en``."""
        return list(self._keys.groups)

    def row_keys(self, group: str = "") -> list[str]:
        """Return a key for each cut-off and bucket, over all rows or over a row group.

        ``group`` is the part of a key for a row group, such as ``/en``.
        """
        if self.aggregation.has_value_per_label:
            return []
        return self._keys.row_keys(group)

    def cutoff_keys(self) -> tuple[str, ...]:
        """Return the key of each cut-off, without row group and bucket."""
        return self._keys.by_cutoff

    def take_name(self, name: str) -> None:
        """Take a name from a collection; a name passed to the metric stays.

        The keys change with the name.
        """
        if self.name is None:
            vars(self).update(name=name, _given={**self._given, "name": name})
            self._keys = keys_of(self)

    # states

    def _make_states(self) -> None:
        """Remove the old states; register new ones if all facts are known."""
        for name in list(self._defaults):
            delattr(self, name)
        self._defaults, self._persistent, self._reductions = {}, {}, {}
        self._declared: dict[str, State] = {}
        self._names: dict[str, str] = {}
        if not self.is_bound:
            return

        self._declared = dict(self.aggregation.states())
        self._tie_count = None
        if isinstance(self.reading, Ranks) and self.ties == "id":
            self._tie_count = TieCount(self.reading, self.weighted)
            shape = 1 + len(self._tie_count.cuts), self.aggregation.row_format.columns
            self._declared[self._tie_count.name] = State(
                shape, shared=not self.formula.is_own
            )
        self._names = names_of_states(self, self._declared)
        num_groups = 1 + len(self.row_groups or ())
        for name, state in self._declared.items():
            full_name = self._names[name]
            zero = torch.zeros((), dtype=state.dtype, device=self.device)
            self.add_state(
                full_name, zero, state.reduction, persistent=self._keep_states
            )
            setattr(
                self,
                full_name,
                torch.zeros(
                    (num_groups, *state.shape), dtype=state.dtype, device=self.device
                ),
            )
        self._expand_defaults()

    def _expand_defaults(self) -> None:
        """Give each default the shape of its state and the memory of one number.

        TorchMetrics copies defaults.
        """
        for name, state in self.metric_state.items():
            self._defaults[name] = state.new_zeros(()).expand(state.shape)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Self:
        self._defaults.update(
            {name: state.new_zeros(()) for name, state in self.metric_state.items()}
        )
        try:
            return super()._apply(fn, *args, **kwargs)
        finally:
            self._expand_defaults()

    @property
    def shares_states(self) -> bool:
        """Whether metrics whose states have the same names may share the states."""
        return not (self.formula.is_own or self.aggregation.is_own) and bool(
            self._defaults
        )

    def holds_states_of(self, leader: TopKMetric) -> bool:
        """Whether the states hold the same numbers as those of ``leader``.

        False after different numbers of updates.
        """
        if self._update_count != leader._update_count:
            return False
        attributes, leader_attributes = vars(self), vars(leader)
        for name in self._defaults:
            state, leader_state = attributes[name], leader_attributes[name]
            if state is leader_state or state.is_meta:
                continue
            if not torch.equal(state, leader_state):
                return False
        return True

    def copy_states(self) -> None:
        """Replace the states by copies, to which no other metric refers."""
        attributes = vars(self)
        for name in self._defaults:
            attributes[name] = attributes[name].clone()
        attributes["_shares_tensors"] = False

    def persistent(self, mode: bool = False) -> None:
        """Set whether ``state_dict`` includes the states, also after :meth:`bind`."""
        self._keep_states = mode
        super().persistent(mode)

    # update

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
        """Add a batch.

        Args:
            preds: Scores, ids, candidates or CSR as in :func:`tailmetrics.rank`; or a
                :class:`Ranking`, alone.
            target: The relevant labels, as in :func:`tailmetrics.rank`.
            row_mask: Shape (N,), bool; False drops a row.
            row_groups: Shape (N,), integers: the index of each row's group in the names
                that the metric was given; -1 for a row that counts only overall.
            row_weights: Shape (N,), weights of at least 0; only for a metric with
                ``weighted=True``.
            indexes: Shape (n,), integers: the query of each document, if ``preds`` and
                ``target`` have one entry per document, as in :meth:`Ranking.from_flat`.
                Each query is a row. All documents of a query must be in one update.

        Raises:
            TypeError: If the type of an argument is not accepted.
            ValueError: If shapes or values do not fit; the metric is then unchanged.
        """
        with one_thread():
            ranking = _ranked(
                self, Batch(preds, target, row_mask, row_groups, row_weights, indexes)
            )
            check_batch(self, ranking)
            if self._shares_tensors:  # the other members do not get this batch
                self.copy_states()
            addition = Addition()
            self.note_increments(addition, self.prepare(ranking), ranking.rows)
            addition.carry_out()
        if ranking.queries is not None:
            self._queries_seen = self._queries_seen.with_queries(
                self._caller, ranking.queries
            )

    @torch.jit.unused
    @outside_of_graph
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return its value."""
        # TorchMetrics resets the metric to compute the value of a batch; Lightning has
        # read a value between loaders
        seen = self._queries_seen
        if self._was_logged:
            seen = QueriesSeen()
        # the share of tied rows in one batch says little
        warns, self._warns_of_ties = self._warns_of_ties, False
        try:
            value = super().forward(*args, **kwargs)
        finally:
            self._warns_of_ties = warns
        if seen.earlier is not None:
            self._queries_seen = seen.with_queries(
                self._caller, self._queries_seen.earlier
            )
        return value

    def reset(self) -> None:
        """Set all states to 0."""
        # frees the old states before new ones are made
        vars(self).update(self._defaults)
        super().reset()
        vars(self).pop("_queries_seen", None)

    def prepare(self, ranking: Ranking) -> Increments:
        """Return what a checked batch adds to the states, by short name."""
        increments = self.aggregation.increments(ranking)
        tie_count = self._tie_count
        if tie_count is not None:
            tied = tie_count.increment(ranking)
            if tied is not None:
                increments = {**increments, tie_count.name: tied}
        return increments

    def note_increments(
        self, addition: Addition, increments: Increments, rows: BatchRows
    ) -> None:
        """Note the increments of a batch in ``addition``.

        ``addition`` adds those of several metrics with few calls.

        Sums over all rows without weights or groups are noted here, for speed, the
        others by :meth:`Addition.note`.
        """
        attributes = vars(self)
        if rows.groups is not None or rows.weights is not None:
            rows = self.accepted_groups_and_weights(rows)
        for name, increment in increments.items():
            full_name = self._names[name]
            state = attributes[full_name]
            # after a reset under inference_mode a state cannot be changed in place
            if state.is_inference():
                state = attributes[full_name] = state.clone()
            if isinstance(increment, AtCells) and self.aggregation.is_own:
                check_cells(self._caller, name, increment.cells, state)
            if (
                isinstance(increment, PerRow)
                and rows.weights is None
                and state.shape[0] == 1
            ):
                addition.sums.append((state, increment))
            else:
                addition.note(state, increment, rows, self._declared[name].reduction)

    def accepted_groups_and_weights(self, rows: BatchRows) -> BatchRows:
        """Return the row groups and weights; None for what the metric ignores."""
        groups, weights = rows.groups, rows.weights
        if not self.row_groups:
            groups = None
        if not self.weighted:
            weights = None
        return BatchRows(groups, weights)

    # values

    def compute(self) -> Tensor:
        """Return the value over all batches and processes.

        Shape (), or (K,) for K cut-offs, (G,) for G buckets, (K, G) for both; row
        groups R add an axis of size 1 + R in front, all rows first. With
        ``average="none"``, the last axis is the labels, (L,). float64; float32 on a
        device without float64. One-element results have no axis, as TorchMetrics
        squeezes them.
        """
        group_states = self.states_of_groups()
        if self._warns_of_ties:
            shares = tied_shares(self, group_states[0])
            cut, largest_share = max(
                shares.items(), key=itemgetter(1), default=(None, 0.0)
            )
            if largest_share > MANY_TIED:
                self._warns_of_ties = False
                warn_outside(
                    ties_in_words(
                        self._caller, largest_share, cut, self.aggregation.tie_rules
                    )
                )

        value = self.shaped(
            [self.aggregation.values(states) for states in group_states]
        )
        if self.weighted and self._update_count and bool(value.isnan().all()):
            warn_outside(
                f"{self._caller}: no row with a weight above 0 counts, so the value "
                "is NaN; see row_weights."
            )
        return value

    def result(self) -> Result:
        """Return the values over all batches and processes, with facts about them.

        Call it in every process.
        """
        with self.over_all_processes():
            return result_of(self, self.states_of_groups())

    def tied_shares(self) -> dict[int | None, float]:
        """Return the share of rows with equal scores on both sides of each cut-off.

        The key None stands for equal scores around any relevant label.
        """
        with self.over_all_processes():
            return tied_shares(self, self.states_of_groups()[0])

    def not_measured(self) -> frozenset[str]:
        """Return the keys whose values are averages of no label, 0 by convention."""
        with self.over_all_processes():
            return not_measured(self, self.states_of_groups())

    def states_of_groups(self) -> list[dict[str, Tensor]]:
        """Return the states by short name: a dict for all rows, then one per group."""
        self.check_bound("first")
        states = {
            name: getattr(self, full_name) for name, full_name in self._names.items()
        }
        num_groups = len(self.group_keys())
        return [
            {name: state[number] for name, state in states.items()}
            for number in range(num_groups)
        ]

    def shaped(self, group_values: Sequence[Values]) -> Tensor:
        """Return values by row group, cut-off and bucket or label as one tensor.

        :meth:`compute` describes the shape. A bucket without labels has the value NaN.
        """
        real, per_label = real_dtype(self.device), self.aggregation.has_value_per_label
        value = torch.stack(
            [
                torch.as_tensor(values, dtype=real, device=self.device)
                for values in group_values
            ]
        )
        # a bucket without labels says nothing about the model
        if self.bound_buckets is not None and not per_label:
            is_empty = (self.bound_buckets.label_counts == 0).to(self.device)
            value = value.masked_fill(is_empty, torch.nan)
        if value.numel() == 1:
            return value.view(())

        has_axis = (
            self.row_groups,
            isinstance(self.k, tuple),
            self.bound_buckets or per_label,
        )
        return value.view(
            [
                size
                for size, is_kept in zip(value.shape, has_axis, strict=True)
                if is_kept
            ]
        )

    def row_values(self, ranking: Ranking) -> dict[str, Any]:
        """Return the value of each row by key, without row groups.

        Shape (N,), float64, NaN where a row does not count.

        Of a ratio of sums, two tensors (N,): numerator and denominator of each row.

        Args:
            ranking: A ranking that is deep enough, such as
                ``collection.rank(preds, target)``.

        Raises:
            ValueError: If rows have no value of their own, as in averages over labels,
                or the ranking cannot be read.
        """
        check_batch(self, ranking)
        return self.row_values_of(self.aggregation, ranking)

    def row_values_of(
        self, aggregation: Aggregation, ranking: Ranking
    ) -> dict[str, Any]:
        """Return :meth:`row_values` with another aggregation, such as a reference's."""
        values = aggregation.row_values(ranking)
        if ranking.row_mask is not None:
            values = torch.where(ranking.row_mask, values, torch.nan)
        # both terms of a ratio: they are 0 in a bucket without labels
        if values.ndim == 3:
            return dict(
                zip(self.row_keys(), zip(*values.unbind(0), strict=True), strict=True)
            )

        if self.bound_buckets is not None and 0 in self.bound_buckets.sizes:
            is_empty = (
                (self.bound_buckets.label_counts == 0)
                .to(values.device)
                .repeat(len(self.cutoffs))
            )
            values = values.masked_fill(is_empty[:, None], torch.nan)
        return dict(zip(self.row_keys(), values.unbind(0), strict=True))

    def per_label(
        self, with_cutoffs: bool = False, zero_division: float = 0.0
    ) -> dict[str, Tensor]:
        """Return counts and values of each label by name, shape (L,) each.

        They are over all rows and processes.

        With ``average="none"`` all counts are kept, otherwise only those that the
        average reads. Call it in every process.

        Args:
            with_cutoffs: Whether the names of counts include the cut-off even if there
                is only one.
            zero_division: The value that divides by 0, such as the recall of a label
                with support 0.

        Raises:
            ValueError: If the metric keeps nothing of single labels.
        """
        with self.over_all_processes():
            states = {
                name: state.clone()
                for name, state in self.states_of_groups()[0].items()
            }
        columns = self.aggregation.per_label(
            states, self._keys.by_label, with_cutoffs, zero_division
        )
        for name, column in columns.items():
            if column.is_floating_point():
                columns[name] = column.to(self.device, real_dtype(self.device))
        return columns

    def scalars(self, value: Tensor | None = None) -> dict[str, Tensor]:
        """Return ``compute()``, or a ``value`` of this metric, as a dict of scalars.

        ``value`` is what ``compute`` or ``forward`` returned; None calls ``compute``.

        Raises:
            ValueError: With ``average="none"``, whose values are vectors.
        """
        if self.aggregation.has_value_per_label:
            raise ValueError(
                f"{self._caller}: average='none' has a value for each label; compute() "
                "returns them, and per_label() of a TopKCollection names them. Use "
                "average='macro' for one number."
            )
        if value is None:
            value = self.compute()
        keys = self.keys()
        if not isinstance(value, Tensor) or value.numel() != len(keys):
            raise ValueError(
                f"{self._caller}: value is {shape_of(value)}; pass what compute() or "
                f"forward() of this metric returned, {len(keys)} numbers."
            )
        return dict(zip(keys, value.reshape(-1).unbind(), strict=True))

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Plot a value of ``compute`` or ``forward``, or several over steps.

        With buckets, one value is plotted as bars from head to tail.

        Args:
            val: The value, or a sequence of values; None plots ``compute()``.
            ax: Axes of matplotlib to draw in; None makes a figure.

        Returns:
            Figure (None when ``ax`` was given) and axes, as TorchMetrics' metrics do.
        """
        return plot_metric(self, val, ax)


def _pop_arguments_of(part: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Remove the arguments of a reading or aggregation from ``kwargs``; return them."""
    takes = getattr(part, "func", part).takes
    return {argument: kwargs.pop(argument) for argument in takes if argument in kwargs}


def _check_buckets(caller: str, buckets: Any) -> None:
    """Raise unless ``buckets`` is None, ``LabelBuckets`` or the name of a kind."""
    if isinstance(buckets, str):
        names_of_kind(buckets)  # raises where no kind has this name
    elif not isinstance(buckets, LabelBuckets | None):
        raise TypeError(
            f"{caller}: buckets is {shape_of(buckets)}; pass LabelBuckets, such as "
            "frequency.deciles() or LabelBuckets.deciles(counts), or 'deciles', and "
            "call bind(frequency) later."
        )


@contextmanager
def unchanged_after_errors(metrics: Iterable[TopKMetric]) -> Iterator[None]:
    """Restore the attributes of metrics if the block raises an error."""
    attributes_of_metrics = []
    for metric in metrics:
        attributes = {}
        for name, value in vars(metric).items():
            attributes[name] = dict(value) if type(value) is dict else value
        attributes_of_metrics.append((metric, attributes))
    try:
        yield
    except Exception:
        for metric, attributes in attributes_of_metrics:
            vars(metric).clear()
            vars(metric).update(attributes)
        raise


def _ranked(metric: TopKMetric, batch: Batch) -> Ranking:
    """Return the ranking of a batch, as deep as the metric needs it."""
    if not metric._defaults:  # there are no states until all facts are known
        metric.check_bound("before update")
    if not isinstance(batch.preds, Ranking):
        for argument, setting in ROW_SETTINGS.items():
            if getattr(batch, argument) is not None and not getattr(metric, setting):
                raise ValueError(
                    f"{type(metric).__name__}: {argument} need a metric that takes "
                    f"them; make it with {setting}=."
                )
    elif metric._warns and batch.preds.rows.weights is not None and not metric.weighted:
        # others may share it
        warn_outside(
            f"{type(metric).__name__}: the ranking has row_weights, which a metric "
            "reads only with weighted=True; here each row counts alike."
        )
    context = Context(
        type(metric).__name__,
        metric.num_labels,
        metric.validate_args,
        duplicates=metric.duplicates,
        ignore_index=metric.ignore_index,
        warns=metric._warns,
    )
    return rank_rows(context, batch, metric.reading.required_depth)
