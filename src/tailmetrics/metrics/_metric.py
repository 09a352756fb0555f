"""The base class of all metrics: its states, an update in two steps, its values and their keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import itemgetter
from typing import Any, ClassVar, TypeAlias
from warnings import warn

import torch
from torch import Tensor
from typing_extensions import Self

from tailmetrics._arguments import check_ids_in_range, shape_of
from tailmetrics._transfer import digest_of
from tailmetrics.metrics._arguments_of_metrics import ConfiguredMetric
from tailmetrics.metrics._states import (
    Addition,
    Alike,
    AtCells,
    Increments,
    PerRow,
    Prepared,
    State,
    check_cells,
)
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import is_compiling, one_thread, real_dtype
from tailmetrics.ranking._inputs import Batch, Context
from tailmetrics.ranking._ranking import rank_rows
from tailmetrics.ranking._reading import BatchRows, Depth
from tailmetrics.ranking._warnings import warn_outside

Values: TypeAlias = "list[list[float]] | Tensor"
"""Values by cut-off and bucket, (K, G), or by cut-off and label, (K, L)."""

MANY_TIED = 0.01
"""``compute`` warns if a larger share of rows has equal scores at a cut-off: ids may decide 0.01 of a value."""


QUERIES_REMEMBERED = 2**16
"""Number of queries of earlier updates that are kept, to find repeated queries: half a megabyte."""


@dataclass(frozen=True, eq=False)
class QueriesSeen:
    """The queries of earlier updates. A repeated query was split over two updates, and counts twice.

    Only the first repeated query causes a warning.

    Attributes:
        known: Shape (Q,), the latest queries; None before the first query.
        warned: Whether the warning was given.
    """

    known: Tensor | None = None
    warned: bool = False

    def with_queries(self, caller: str, queries: Tensor | None) -> QueriesSeen:
        """Return these queries and the queries of a batch; warn if a query is among both.

        Args:
            caller: Name of the class with which the warning begins.
            queries: Shape (N,), the number of each query; None if ``indexes`` did not give queries.
        """
        if queries is None or self.warned or is_compiling():
            return self
        known = queries[:0] if self.known is None else self.known.to(queries.device, queries.dtype)
        back = queries[torch.isin(queries, known)]
        if len(back):
            warn_outside(
                f"{caller}: the query {int(back[0])} of indexes was in an earlier update, too. Its documents there "
                "count as another query: pass all documents of a query in one update. If it is another query, "
                "number the queries of all batches differently."
            )
        return QueriesSeen(torch.cat([known, queries])[-QUERIES_REMEMBERED:], bool(len(back)))


class TopKMetric(ConfiguredMetric):
    """A metric of ranked labels, overall or by bucket.

    ``update`` ranks a batch (once for all metrics of a :class:`tailmetrics.TopKCollection`), computes what the batch
    adds, and changes the states last: after an error, the states are as before. States are whole numbers, so results do
    not depend on batch size, order or number of processes.

    ``update`` takes ``preds`` as scores (N, L), ranked ids (N, K), a pair of scores and ids (N, C) or CSR (N, L), and
    ``target`` as class indices (N,), padded label ids (N, M), multi-hot or gains (N, L) or CSR (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        buckets: Label buckets, or a text such as ``"deciles"``, ``"quantiles:5"`` or ``"thresholds:1,5,100"``, from
            which :meth:`bind` makes the buckets.
        num_labels: Number of labels L; needed only if neither the buckets nor ``preds`` show it.
        row_groups: Names of groups of rows, such as languages. ``update`` then takes the group of each row, and each
            value is computed over all rows and over the rows of each group.
        weighted: Whether ``update`` takes a weight for each row; a mean over rows is then a weighted mean.
        duplicates: What happens if an id stands twice in a row of ``preds``: ``"error"`` raises an error; ``"first"``
            counts the first place, and the later places are misses.
        ignore_index: Rows with this label in ``target`` do not count; language models use -100.
        min_gain: Smallest gain with which a label is relevant; None: every label with a gain above 0 is relevant.
        name: Key of the value in :meth:`scalars`, in place of the usual key.
        validate_args: False skips the checks of values in tensors, for which the CPU waits for the GPU.
        kwargs: See :class:`torchmetrics.Metric`.
    """

    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    empty_target_action: str = "neg"
    ties: str = "id"
    needs_scores: ClassVar[bool] = False
    """Whether ids without scores are refused."""
    in_registry: ClassVar[bool] = False
    """Whether the library tests the formula; a user's formula is checked at each update, and shares no state."""
    _warns = True
    """Whether the next batch is checked for likely mistakes, with warnings; only the first batch is."""
    _tells_ties = True
    """Whether ``compute`` warns of equal scores; it warns once, and a collection warns in place of its members."""
    _tie_state = ""
    """Short name of the state that counts rows with equal scores on both sides of a cut-off; empty if none does."""
    _cuts: tuple[int | None, ...] = ()
    """The cut-offs at which lists are checked for equal scores; None: each relevant label is checked."""
    _tied_shares: Mapping[int | None, float] = {}
    """For each of these cut-offs, the share of rows with such equal scores in the last ``compute``."""
    _not_measured: frozenset[str] = frozenset()
    """Keys without a relevant label in the last ``compute``; their values are 0 by convention."""
    _queries_seen = QueriesSeen()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Set the range of values for TorchMetrics' plots; a derived class has another formula, not in the registry."""
        super().__init_subclass__(**kwargs)
        cls.in_registry = False
        low, high = (bound if isfinite(bound) else None for bound in cls.bounds)
        said = {"plot_lower_bound": low, "plot_upper_bound": high, "plot_legend_name": cls.stem}
        for name in said.keys() - vars(cls).keys():
            setattr(cls, name, said[name])

    # what a derived class defines

    @abstractmethod
    def _states(self) -> dict[str, State]:
        """Return the states by short name; called once all arguments are known."""

    @abstractmethod
    def _prepare(self, ranking: Ranking) -> Increments:
        """Return the amounts that a batch adds to each state, by short name; must not change the metric."""

    @abstractmethod
    def _values(self, states: Mapping[str, Tensor]) -> Values:
        """Return the values by cut-off and bucket (one if the metric has none), given the states by short name."""

    @property
    @abstractmethod
    def reads(self) -> Depth:
        """How deep a batch has to be ranked."""

    def _tie_states(self) -> dict[str, State]:
        """Return the state named :attr:`_tie_state`, by this name; empty if rows with equal scores are not counted."""
        return {}

    # states

    def _facts_settled(self) -> None:
        """Remove the old states, and register new ones if all facts that they depend on are known."""
        for name in list(self._defaults):
            delattr(self, name)
        self._defaults, self._persistent, self._reductions = {}, {}, {}
        self._declared: dict[str, State] = {}
        self._names: dict[str, str] = {}
        if not self.is_bound:
            return
        keep = getattr(self, "_keep_states", False)
        self._declared = {**self._states(), **self._tie_states()}
        self._names = self._full_names()
        for name, state in self._declared.items():
            zero = torch.zeros((), dtype=state.dtype, device=self.device)
            self.add_state(self._names[name], zero, state.reduce, persistent=keep)
            shape = 1 + len(self.row_groups or ()), *state.shape
            setattr(self, self._names[name], torch.zeros(shape, dtype=state.dtype, device=self.device))
        self._expand_defaults()

    def _expand_defaults(self) -> None:
        """Give each default the shape of its state, but the memory of one number; TorchMetrics copies defaults."""
        for name, state in self._tensors().items():
            self._defaults[name] = state.new_zeros(()).expand(state.shape)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Self:
        self._defaults.update({name: state.new_zeros(()) for name, state in self._tensors().items()})
        try:
            return super()._apply(fn, *args, **kwargs)
        finally:
            self._expand_defaults()

    def _full_names(self) -> dict[str, str]:
        bases = type(self).__mro__
        owner, preparer = (next(one for one in bases if method in vars(one)) for method in ("_states", "_prepare"))
        own, unusual = self._identity, self.unusual_settings()
        groups = f"_of_{len(self.row_groups)}_groups" if self.row_groups else ""
        # these two arguments decide which rows and ids count: metrics that differ in them add different amounts
        unusual = {key: value for key, value in unusual.items() if key in ("duplicates", "ignore_index")}
        told_apart = f"_of_{self.num_labels}{groups}" + (f"_{digest_of(unusual)}" if unusual else "")
        return {
            name: f"{owner.__name__}_{name}{state.key}{told_apart}"
            if state.shared and owner is preparer
            else f"{own}_{name}{state.key}"
            for name, state in self._declared.items()
        }

    @property
    def shares_states(self) -> bool:
        """Whether a collection may keep one state for this metric and others whose states have the same names."""
        return self.in_registry and bool(self._defaults)

    def persistent(self, mode: bool = False) -> None:
        """Set whether ``state_dict`` includes the states, also the states that :meth:`bind` makes later."""
        self._keep_states = mode
        super().persistent(mode)

    def _state(self, name: str) -> Tensor:
        """Return a state by its short name, with its axis of row groups."""
        state = getattr(self, self._names[name])
        assert isinstance(state, Tensor)
        return state

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
            preds: Scores, ids, candidates or CSR as in :func:`tailmetrics.rank`; or a :class:`Ranking`, alone.
            target: The relevant labels, as in :func:`tailmetrics.rank`.
            row_mask: Shape (N,), bool; False drops a row.
            row_groups: Shape (N,), integers: the index of each row's group in the names that the metric was given; -1
                for a row that counts only overall.
            row_weights: Shape (N,), weights of at least 0; only for a metric with ``weighted=True``.
            indexes: Shape (n,), integers: the query of each document, if ``preds`` and ``target`` have one entry per
                document, as in :meth:`Ranking.from_flat`. Each query is a row. All documents of a query must be in one
                update.

        Raises:
            TypeError: If the type of an argument is not accepted.
            ValueError: If shapes or values do not fit; the metric is then unchanged.
        """
        prepared, queries = preds, None
        with one_thread():
            if not isinstance(preds, Prepared):
                ranking = self._rank(Batch(preds, target, row_mask, row_groups, row_weights, indexes))
                self._check(ranking)
                prepared, queries = self._prepared(ranking), ranking.queries
            addition = Addition()
            self._note_in(addition, prepared)
            addition.carry_out()
        if queries is not None:
            self._queries_seen = self._queries_seen.with_queries(self._caller, queries)

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return its value."""
        # TorchMetrics resets the metric to compute the value of a batch; Lightning has read a value between loaders
        seen = QueriesSeen() if self._was_logged else self._queries_seen
        tells, self._tells_ties = self._tells_ties, False  # the share of tied rows in one batch says little
        try:
            value = super().forward(*args, **kwargs)
        finally:
            self._tells_ties = tells
        if seen.known is not None:
            self._queries_seen = seen.with_queries(self._caller, self._queries_seen.known)
        return value

    def reset(self) -> None:
        """Set all states to 0."""
        vars(self).update(self._defaults)  # frees the old states before new ones are made
        super().reset()
        vars(self).pop("_queries_seen", None)

    def _rank(self, batch: Batch) -> Ranking:
        """Rank a batch as deep as the metric reads it."""
        if not self._defaults:  # there are no states until all arguments are known
            self._check_bound("before update")
        if not isinstance(batch.preds, Ranking):
            for argument, asked in (("row_weights", "weighted"), ("row_groups", "row_groups")):
                if getattr(batch, argument) is not None and not getattr(self, asked):
                    raise ValueError(
                        f"{self._caller}: {argument} need a metric that takes them; make it with {asked}=."
                    )
        facts = self.num_labels, self.validate_args, self.duplicates, self.ignore_index, self._warns
        return rank_rows(Context(type(self).__name__, *facts), batch, self.reads)

    def _warn_of(self, ranking: Ranking) -> None:
        """Warn if a batch is accepted but looks like a mistake, such as lists that end before a cut-off."""

    def prepare(self, ranking: Ranking) -> Prepared:
        """Return what a batch would add to the states, without changing them; ``update(prepared)`` adds it later.

        Raises:
            ValueError: If the metric cannot read the ranking.
        """
        self._check(ranking)
        with one_thread():
            return self._prepared(ranking)

    def _prepared(self, ranking: Ranking) -> Prepared:
        """Return the amounts that a checked batch adds to the states."""
        return Prepared(self._prepare(ranking), ranking.rows)

    def _note_in(self, addition: Addition, prepared: Prepared) -> None:
        """Note the prepared amounts in ``addition``, for the states of this metric."""
        rows, held = prepared.rows, vars(self)
        if (rows.groups is not None and not self.row_groups) or (rows.weights is not None and not self.weighted):
            rows = BatchRows(rows.groups if self.row_groups else None, rows.weights if self.weighted else None)
        for name, increment in prepared.increments.items():
            full = self._names[name]
            state = held[full]
            if state.is_inference():  # after a reset under inference_mode a state cannot be changed in place
                state = held[full] = state.clone()
            if isinstance(increment, PerRow) and rows.weights is None and state.shape[0] == 1:
                if isinstance(increment, Alike):
                    addition.states.append(state)
                    addition.amounts.append(increment.total)
                else:
                    addition.sums.append((state, increment))
                continue
            if isinstance(increment, AtCells) and not self.in_registry:
                check_cells(self._caller, name, increment.cells, state)
            addition.note(state, increment, rows, self._declared[name].reduce)

    def _relevant(self, ranking: Ranking) -> Ranking:
        """Return the ranking with only the relevant labels whose gain is at least ``min_gain``."""
        return ranking.at_least(self.min_gain)

    def _check(self, ranking: Ranking) -> None:
        """Raise unless the metric can read ``ranking``."""
        if not isinstance(ranking, Ranking):
            raise TypeError(
                f"{self._caller}: ranking is {shape_of(ranking)}; pass a Ranking, such as "
                "tailmetrics.rank(preds, target)."
            )
        reads, scores = self.reads, ranking.scores
        if scores is not None and scores.dtype == torch.bool:
            if not reads.decisions:
                raise ValueError(f"{self._caller}: preds are decisions (bool) without an order; pass scores or ids.")
        elif reads.scores is not None and not ranking.complete and ranking.depth < reads.scores:
            name = "depth" if self._uses_depth else "k"
            raise ValueError(
                f"{self._caller}: {name}={reads.scores} is deeper than the ranking ({ranking.depth} ids "
                f"per row); rank again with depth={reads.scores}."
            )
        if self.needs_scores and scores is None and ranking.values is None:
            raise ValueError(f"{self._caller}: preds are ranked ids, which have no scores; pass scores.")
        if reads.lists is None and not ranking.complete and not ranking.scores_all:
            raise ValueError(
                f"{self._caller}: k=None reads whole lists, but the ranking was cut at {ranking.depth}; "
                "rank the scores or whole lists."
            )
        if ranking.documents is not None and self.reads_labels:
            raise ValueError(
                f"{self._caller}: the documents of flat queries have no labels here, which this metric reads; pass "
                "update(Ranking.from_flat(preds, target, indexes, ids=labels))."
            )
        num_labels = self.num_labels
        if num_labels is not None and ranking.num_labels not in (None, num_labels):
            raise ValueError(
                f"{self._caller}: the ranking is of {ranking.num_labels} labels, the metric of {self.num_labels}; "
                "make both for the same labels."
            )
        if num_labels is not None and ranking.num_labels is None and ranking.documents is None and self.validate_args:
            ranking.remembered(("ids below", num_labels), lambda: self._check_ids_below(ranking, num_labels))
        if self.row_groups is not None or self.weighted:
            self._check_rows(ranking.rows)
        if self._device != ranking.ids.device:
            raise ValueError(
                f"{self._caller}: the batch is on {ranking.ids.device}, the metric on {self._device}; "
                f"move the metric with .to({str(ranking.ids.device)!r})."
            )
        if self.ties != "id" or self.empty_target_action == "error":
            self._check_relevance(ranking)
        if self._warns and not is_compiling():  # only the first batch is checked for likely mistakes
            self._warns = False
            if self.validate_args:
                self._warn_of(ranking)

    def _check_ids_below(self, ranking: Ranking, num_labels: int) -> None:
        """Raise unless listed and relevant ids are below ``num_labels``, for lists without a number of labels."""
        check_ids_in_range(self._caller, "preds", ranking.ids, num_labels, None)
        check_ids_in_range(self._caller, "target", ranking.targets.entries.ids, num_labels, None)

    def _check_rows(self, rows: BatchRows) -> None:
        """Raise unless a batch has the row groups and weights that the metric asks for."""
        names, groups = self.row_groups, rows.groups
        if self.weighted and rows.weights is None:
            raise ValueError(
                f"{self._caller}: row_weights is missing; the metric is weighted: pass update(…, row_weights=weights)."
            )
        if names is None:
            return
        if groups is None:
            raise ValueError(
                f"{self._caller}: row_groups is missing; the metric has the groups {', '.join(names)}: pass "
                "update(preds, target, row_groups=ids), the group of each row from 0, -1 for none."
            )
        largest = int(groups.max()) if self.validate_args and groups.numel() else -1
        if largest >= len(names):
            raise ValueError(
                f"{self._caller}: row_groups holds {largest}, but there are {len(names)} groups "
                f"({', '.join(names)}); numbers of groups start at 0."
            )

    @property
    def reads_labels(self) -> bool:
        """Whether values depend on label ids, not only on ranks."""
        return self.buckets is not None or bool(self.needs)

    def _check_relevance(self, ranking: Ranking) -> None:
        """Raise if ``ties`` needs scores that are missing, or ``empty_target_action="error"`` refuses a row."""

    @property
    def _uses_depth(self) -> bool:
        """Whether lists are read only up to ``depth``."""
        return False

    # values

    def compute(self) -> Tensor:
        """Return the value over all batches and processes.

        Returns:
            float64: shape () for one k, (len(k),) for several, (G,) with buckets, (len(k), G) with both. Row groups
            add a first axis: all rows at index 0, then each group. NaN where no row counts, and for a bucket without a
            label. With ``average="none"`` there are L labels in place of the buckets.
        """
        of_groups = self._states_of_groups()
        self._look_at_ties()
        vars(self)["_not_measured"] = frozenset(
            key
            for group, of_group in zip(self.group_keys(), of_groups, strict=True)
            for bucket in self._buckets_without_labels(of_group)
            for key in self.row_keys(group)[bucket :: self._num_buckets]
        )
        value = self._shaped([self._values(of_group) for of_group in of_groups])
        if self.weighted and self._update_count and bool(value.isnan().all()):
            warn_outside(f"{self._caller}: no row with a weight above 0 counts, so the value is NaN; see row_weights.")
        return value

    def _states_of_groups(self) -> list[dict[str, Tensor]]:
        """Return the states by short name: a dict for all rows, then a dict for each row group."""
        self._check_bound("first")
        states = {name: self._state(name) for name in self._names}
        return [{name: state[number] for name, state in states.items()} for number in range(len(self.group_keys()))]

    def _shaped(self, values: Sequence[Values]) -> Tensor:
        """Return values by row group, cut-off and bucket or label in the shape of :meth:`compute`."""
        real, average = real_dtype(self.device), vars(self).get("average")
        found = torch.stack([torch.as_tensor(of_group, dtype=real, device=self.device) for of_group in values])
        if self.bound_buckets is not None and average != "none":  # a bucket without labels says nothing about the model
            found = found.masked_fill((self.bound_buckets.label_counts == 0).to(self.device), torch.nan)
        several = (self.row_groups, isinstance(self.k, tuple), self.bound_buckets or average == "none")
        return found.view([size for size, asked in zip(found.shape, several, strict=True) if asked])

    def _by_cutoff(self, flat: Sequence[Any]) -> list[list[Any]]:
        """Return a list of the values of each cut-off, given all values ordered by cut-off, then by bucket."""
        return [list(flat[first : first + self._num_buckets]) for first in range(0, len(flat), self._num_buckets)]

    def _buckets_without_labels(self, states: Mapping[str, Tensor]) -> list[int]:
        """Return the buckets whose values are 0 by convention, because no row has a relevant label of the bucket.

        Without buckets, the only one has number 0.
        """
        return []

    def _look_at_ties(self) -> None:
        """Store for each cut-off the share of rows with equal scores on both sides; warn once if it is large."""
        if self._tie_state:
            rows, *tied = self._counts.totals(self._state(self._tie_state)[0])
            shares = {cut: of_cut / rows if rows else 0.0 for cut, of_cut in zip(self._cuts, tied, strict=True)}
            cut, most = max(shares.items(), key=itemgetter(1))
            tells = self._tells_ties and most > MANY_TIED
            vars(self).update(_tied_shares=shares, _tells_ties=self._tells_ties and not tells)
            if tells:
                warn(ties_in_words(self._caller, most, cut, self._tie_remedies()), stacklevel=6)

    def _tie_remedies(self) -> tuple[str, ...]:
        """Return the values of ``ties`` that a warning proposes in place of ``"id"``."""
        return ()

    def row_values(self, ranking: Ranking) -> dict[str, Any]:
        """Return the value of each row by key, without row groups: shape (N,), float64, NaN where a row does not count.

        For a ratio of sums, the value is a pair: what the row adds to the numerator and to the denominator, shape (N,)
        each.

        Raises:
            ValueError: If the metric averages over labels: such a value is no sum over rows.
        """
        self._check(ranking)
        found = self._of_rows(ranking)
        found = found if ranking.row_mask is None else torch.where(ranking.row_mask, found, torch.nan)
        if found.ndim == 2 and self.bound_buckets is not None and 0 in self.bound_buckets.sizes:
            # the mean over rows is NaN, too; both terms of a ratio are 0
            empty = (self.bound_buckets.label_counts == 0).to(found.device).repeat(len(self.cutoffs))
            found = found.masked_fill(empty[:, None], torch.nan)
        if found.ndim == 3:
            return dict(zip(self.row_keys(), zip(*found.unbind(0), strict=True), strict=True))
        return dict(zip(self.row_keys(), found.unbind(0), strict=True))

    def _of_rows(self, ranking: Ranking) -> Tensor:
        """Return the value of each row by cut-off and bucket, (K * G, N), or both terms of a ratio, (2, K * G, N)."""
        raise NotImplementedError(f"{self._caller}: no row has a value of its own")

    def scalars(self, value: Tensor | None = None) -> dict[str, Tensor]:
        """Return ``compute()``, or a ``value`` from ``compute`` or ``forward``, as a flat dict of scalars."""
        value, keys = self.compute() if value is None else value, self.keys()
        if not isinstance(value, Tensor) or value.numel() != len(keys):
            raise ValueError(
                f"{self._caller}: value is {shape_of(value)}; pass what compute() or forward() of this metric "
                f"returned, {len(keys)} numbers."
            )
        return dict(zip(keys, value.reshape(-1).unbind(), strict=True))

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Plot a value of ``compute`` or ``forward`` (with buckets, bars from head to tail), or several over steps.

        Args:
            val: The value, or a sequence of values; None plots ``compute()``.
            ax: Axes of matplotlib to draw in; None makes a figure.

        Returns:
            Figure (None when ``ax`` was given) and axes, as TorchMetrics' metrics do.
        """
        val = self.compute() if val is None else val
        one = isinstance(val, Tensor)
        if not one and (not isinstance(val, Sequence) or not val):
            raise ValueError(
                f"{self._caller}.plot: val is {val!r}; pass a value of compute or forward, or a sequence of them."
            )
        steps = [self.scalars(step) for step in ([val] if isinstance(val, Tensor) else val)]
        if isinstance(val, Tensor) and self.buckets is not None:
            return _bars(self, val, ax)
        keys = list(steps[0])
        named: Any = steps if len(keys) > 1 else [step[keys[0]] for step in steps]  # a legend names several values
        figure, ax = self._plot(named[0] if one else named, ax)
        ax.set_ylabel(keys[0] if len(keys) == 1 else self.stem)
        return figure, ax


class ShownMetric(TopKMetric):
    """A metric of the top k labels that a user is shown.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`.
    """

    @property
    def reads(self) -> Depth:
        """How deep a batch has to be ranked."""
        return Depth(max(self.ks), max(self.ks))

    def _no_value(self) -> list[list[float]]:
        """Return NaN for every cut-off and bucket."""
        return [[float("nan")] * self._num_buckets for _ in self.ks]


def ties_in_words(caller: str, share: float, cut: int | None, remedies: Sequence[str]) -> str:
    """Return the text of the warning of equal scores; ``remedies`` are the values of ``ties`` that it proposes."""
    where = "for a relevant label and another label" if cut is None else "on both sides of a cut-off"
    what = f"ties={remedies[0]!r}, the mean over all orders of equal scores" if "expected" in remedies else ""
    bounds = "ties='worst' and ties='best' for bounds" if remedies else "scores of more digits, such as float32"
    return (
        f"{caller}: {share:.1%} of the rows have equal scores {where}. The list has the lower label "
        "id first there: if labels are numbered by frequency, that favours the head. Pass "
        f"{', or '.join(part for part in (what, bounds) if part)}."
    )


def _bars(metric: TopKMetric, val: Tensor, ax: Any) -> Any:
    """Draw a group of bars per bucket, head first, with a bar per cut-off."""
    import matplotlib.pyplot as plt  # imported only for plots

    figure, ax = plt.subplots() if ax is None else (None, ax)
    stems = [metric._key(k) for k in metric.cutoffs]
    names = [key.removeprefix(f"{stems[0]}/") for key in metric.keys()[: val.numel() // len(stems)]]
    places = torch.arange(len(names), dtype=torch.float64)
    width = 0.8 / len(stems)
    for number, (stem, values) in enumerate(zip(stems, val.detach().cpu().view(len(stems), -1), strict=True)):
        shift = (number - (len(stems) - 1) / 2) * width
        heights = values.where(values.isfinite(), torch.nan)  # no bar for NaN or infinity
        ax.bar((places + shift).numpy(), heights.numpy(), width, label=stem)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_ylabel(stems[0] if len(stems) == 1 else metric.stem)
    if len(stems) > 1:
        ax.legend()
    return figure, ax
