"""What all metrics share: arguments, completion by ``bind``, integer states, one update in two steps, keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from re import sub
from typing import Any, ClassVar, Literal, TypeAlias
from warnings import warn
from zlib import crc32

import torch
from torch import Tensor
from torchmetrics.utilities import dim_zero_sum

from tailmetrics._arguments import arguments
from tailmetrics._checks import check_choice, check_count, check_cutoffs, shape_of
from tailmetrics._exact_metric import ExactMetric, writable
from tailmetrics.buckets import LabelBuckets
from tailmetrics.frequency import LabelFrequency
from tailmetrics.ranking import EVERYTHING, Ranking
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._ranking import rank_for

DECILES = LabelBuckets.deciles(torch.zeros(0, dtype=torch.int64)).names
UNTOLD = {
    "label_counts": "these buckets hold no training counts",
    "num_train": "buckets do not tell the number of training rows",
}
"""Why a metric that was bound to buckets may need more."""
Cutoffs: TypeAlias = int | Sequence[int]
Buckets: TypeAlias = LabelBuckets | Literal["deciles"]


@dataclass(frozen=True)
class State:
    """A state tensor of whole numbers, 0 at first.

    Attributes:
        shape: Its shape.
        reduce: How ranks and batches are put together.
        dtype: int64 for sums, uint8 for flags under ``max``.
    """

    shape: tuple[int, ...]
    reduce: Literal["sum", "max"] = "sum"
    dtype: torch.dtype = torch.int64


@dataclass(frozen=True)
class PerLabel:
    """What a batch adds to a state of one number per label: ``weights`` at ``ids``, added up or, as flags, marked."""

    ids: Tensor
    weights: Tensor


Increments: TypeAlias = Mapping[str, "Tensor | PerLabel"]


@dataclass(frozen=True)
class Prepared:
    """What a batch adds to the states of one metric, computed but not yet added."""

    increments: Increments


class TopKMetric(ExactMetric):
    """A metric of ranked labels, overall or by bucket.

    A batch is ranked (once for all metrics, in a :class:`tailmetrics.TopKCollection`), what it adds to the states is
    computed, and only then are the states touched: after an error everything is as before. States are whole numbers,
    so that results do not depend on batch size, order or number of ranks.

    Args:
        k: Cut-off, or several.
        buckets: Label buckets; ``"deciles"`` leaves them to :meth:`bind`.
        num_labels: L, where neither buckets nor data tell.
        name: Replaces the key under which :meth:`scalars` lists the value.
        validate_args: False skips the checks that read values; they make a GPU wait.
        convention: What non-default arguments of the metric add to its key.
        kwargs: See :class:`torchmetrics.Metric`.
    """

    stem: ClassVar[str]
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    optional_k: ClassVar[bool] = False
    needs_num_labels: ClassVar[bool] = False

    def __init__(
        self,
        k: Cutoffs | None,
        *,
        buckets: Buckets | None = None,
        num_labels: int | None = None,
        name: str | None = None,
        validate_args: bool = True,
        convention: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(getattr(type(self), "stem", None), str):
            raise TypeError(f"{self._caller}: stem is missing; set it in the class, to what is to be its key.")
        self.cutoffs = check_cutoffs(self._caller, k, self.optional_k)
        self._several = isinstance(k, Sequence)
        if isinstance(buckets, str):
            check_choice(self._caller, "buckets", buckets, ("deciles",))
        elif buckets is not None and not isinstance(buckets, LabelBuckets):
            raise TypeError(
                f"{self._caller}: buckets is {shape_of(buckets)}; pass LabelBuckets, such as frequency.deciles() or "
                "LabelBuckets.deciles(counts), or 'deciles' to be completed by bind."
            )
        self.buckets: Buckets | None = buckets
        self.num_labels = None if num_labels is None else check_count(self._caller, "num_labels", num_labels)
        if not isinstance(name, str | None):
            raise TypeError(f"{self._caller}: name={name!r} is no text; pass a string to be used as key, or None.")
        self.name = name
        self.validate_args = validate_args
        self._convention = convention
        self._keep_states = False
        self._left_open = (buckets == "deciles", num_labels is None)
        self._told_by_buckets = isinstance(buckets, LabelBuckets)
        self._adopt_num_labels()

    def _complete(self) -> None:
        """Register the states if everything they depend on is known; the last line of each abstract ``__init__``."""
        self._names: dict[str, str] = {}
        if self.is_bound:
            for name, state in self._states().items():
                self._names[name] = self._full_name(name)
                zeros = torch.zeros(state.shape, dtype=state.dtype)
                self.add_state(self._names[name], zeros, state.reduce, persistent=self._keep_states)

    def persistent(self, mode: bool = False) -> None:
        """Say whether states go into the ``state_dict``, also those that :meth:`bind` is still to make."""
        self._keep_states = mode
        super().persistent(mode)

    def extra_repr(self) -> str:
        """Return the arguments that are not the default, for ``repr``."""
        return ", ".join(self._given())

    def _given(self) -> Iterator[str]:
        if self.cutoffs != (None,):
            yield f"k={list(self.cutoffs) if self._several else self.cutoffs[0]}"
        taken = arguments(type(self))
        for name in sorted(taken, key=lambda name: (taken[name].kind == Parameter.KEYWORD_ONLY, name != "buckets")):
            value = getattr(self, name, None)
            if isinstance(value, LabelBuckets):
                yield f"{len(value)} buckets"
            elif type(value) in (str, int, float) and not self._is_default(name, value, taken[name].default):
                yield f"{name}={value!r}"

    def _is_default(self, name: str, value: Any, default: Any) -> bool:
        """Whether the value of an argument goes without saying."""
        return bool(value == default) or (name == "num_labels" and self._bound_buckets is not None)

    @property
    def _caller(self) -> str:
        return type(self).__name__

    @property
    def ks(self) -> tuple[int, ...]:
        """The cut-offs, with a number beyond any rank for None."""
        return tuple(EVERYTHING if k is None else k for k in self.cutoffs)

    # -- completion ---------------------------------------------------------------------------------------------

    @property
    def is_bound(self) -> bool:
        """Whether nothing is left open that :meth:`bind` would have to complete."""
        return not self._missing()

    def _missing(self) -> list[str]:
        missing = ["buckets"] if isinstance(self.buckets, str) else []
        return missing + (["num_labels"] if self.needs_num_labels and self.num_labels is None else [])

    def _still_open(self, when: str) -> str:
        missing = self._missing()
        still_open = f"{self._caller}: {' and '.join(missing)} still open"
        passed = " and ".join(f"{name}=" for name in missing)
        if not self._told_by_buckets or not set(missing) <= set(UNTOLD):
            return f"{still_open}; call bind(frequency) {when}, or pass {passed} to the metric."
        untold = " and ".join(UNTOLD[name] for name in missing)
        return f"{still_open}: {untold}; pass {passed} or bind a LabelFrequency."

    def bind(self, frequency: LabelFrequency | LabelBuckets) -> TopKMetric:
        """Complete what was left open: ``buckets="deciles"``, the number of labels, the training counts.

        Binding again, to other counts, needs a :meth:`reset` first. A ``LabelFrequency`` synchronises: call this on
        every rank.

        Args:
            frequency: Training counts, or buckets.

        Returns:
            The metric itself.
        """
        return self._bind(Training.of(self._caller, frequency))

    def _bind(self, training: Training) -> TopKMetric:
        if self._update_count:
            raise ValueError(
                f"{self._caller}: bind after {self._update_count} updates would mix two meanings; reset first."
            )
        self._told_by_buckets = training.num_rows is None
        left_open_buckets, left_open_labels = self._left_open
        if left_open_labels:
            self.num_labels = training.num_labels
        if left_open_buckets:
            self.buckets = training.buckets
        self._adopt_num_labels()
        for name in list(self._defaults):
            delattr(self, name)
        self._defaults, self._persistent, self._reductions = {}, {}, {}
        self._complete()
        device = self.device
        return self if device.type == "cpu" else self.to(device)

    def _adopt_num_labels(self) -> None:
        if not isinstance(self.buckets, LabelBuckets):
            return
        if self.num_labels is not None and self.num_labels != self.buckets.num_labels:
            raise ValueError(
                f"{self._caller}: num_labels={self.num_labels}, but the buckets are of {self.buckets.num_labels} "
                "labels; leave num_labels out."
            )
        self.num_labels = self.buckets.num_labels

    @property
    def _groups(self) -> int:
        """G, or 1 without buckets."""
        return 1 if self._bound_buckets is None else len(self._bound_buckets)

    @property
    def _bound_buckets(self) -> LabelBuckets | None:
        return self.buckets if isinstance(self.buckets, LabelBuckets) else None

    # -- what a family of metrics says --------------------------------------------------------------------------

    @abstractmethod
    def _states(self) -> dict[str, State]:
        """Return the states by short name; called once all arguments are known.

        A name that starts with ``labels_`` only gets the number of labels behind it, so that metrics that need the
        same numbers per label share one state within a collection; any other gets the metric and its arguments put in
        front.
        """

    @abstractmethod
    def _prepare(self, ranking: Ranking) -> Increments:
        """Return what a batch adds to each state; must not change anything."""

    @abstractmethod
    def _values(self) -> list[list[float]]:
        """Return the value for each cut-off and bucket (one without buckets) from the states."""

    @property
    @abstractmethod
    def reads(self) -> tuple[int, bool]:
        """How much of a ranking is read: the first so many labels, and whether anything beyond them too."""

    # -- the life of a metric -----------------------------------------------------------------------------------

    def update(self, preds: Any, target: Any = None, row_mask: Any = None) -> None:
        """Add a batch.

        Args:
            preds: Scores, ids, candidates or CSR as in :func:`tailmetrics.rank`; or a :class:`Ranking`, alone.
            target: What is relevant, as in :func:`tailmetrics.rank`.
            row_mask: Shape (N,), bool; False drops a row.

        Raises:
            TypeError: If an argument is of a kind that is not accepted.
            ValueError: If shapes or values do not fit; the metric is then as before.
        """
        prepared = preds if isinstance(preds, Prepared) else self.prepare(preds, target, row_mask)
        for name, increment in prepared.increments.items():
            self._add(name, increment)

    def prepare(self, preds: Any, target: Any = None, row_mask: Any = None) -> Prepared:
        """Return what a batch would add, for a later ``update(prepared)``; the first of its two steps."""
        if not self.is_bound:
            raise ValueError(self._still_open("before update"))
        ranking = self._rank(preds, target, row_mask)
        self._check(ranking)
        return Prepared({self._names[name]: value for name, value in self._prepare(ranking).items()})

    def _rank(self, preds: Any, target: Any, row_mask: Any) -> Ranking:
        if isinstance(preds, Ranking):
            if target is not None or row_mask is not None:
                raise TypeError(f"{self._caller}: a Ranking holds target and row_mask already; pass it alone.")
            return preds
        if target is None:
            raise TypeError(f"{self._caller}: target is missing; pass update(preds, target) or update(ranking).")
        depth, whole = self.reads
        return rank_for(self._caller, preds, target, depth, whole, row_mask, self.num_labels, self.validate_args)

    def _check(self, ranking: Ranking) -> None:
        """Raise unless the metric can read ``ranking``."""
        depth, whole = self.reads
        if not ranking.complete and ranking.depth < depth:
            raise ValueError(
                f"{self._caller}: {self._depth_name}={depth} is deeper than the ranking ({ranking.depth} ids per row); "
                f"rank again with depth={depth}."
            )
        if whole and not ranking.complete and ranking.scores is None:
            raise ValueError(
                f"{self._caller}: k=None reads whole lists, but the ranking was cut at {ranking.depth}; "
                "rank the scores or whole lists."
            )
        if self.num_labels is not None and ranking.num_labels not in (None, self.num_labels):
            raise ValueError(
                f"{self._caller}: the ranking is of {ranking.num_labels} labels, the metric of {self.num_labels}; "
                "make both for the same labels."
            )
        if self.num_labels is not None and ranking.num_labels is None and self.validate_args:
            ranking.check_ids_below(self._caller, self.num_labels)
        state = next((getattr(self, name) for name in self._defaults), None)
        if state is not None and state.device != ranking.ids.device:
            raise ValueError(
                f"{self._caller}: the batch is on {ranking.ids.device}, the metric on {state.device}; "
                f"move the metric with .to({str(ranking.ids.device)!r})."
            )

    @property
    def _depth_name(self) -> str:
        return "k"

    def _full_name(self, name: str) -> str:
        if name.startswith("labels_"):
            return f"{name}_of_{self.num_labels}"
        return sub(r"\W", "_", f"{self._identity}_{name}")

    def _state(self, name: str) -> Tensor:
        state = getattr(self, self._names[name])
        assert isinstance(state, Tensor)
        return state

    def _add(self, name: str, increment: Tensor | PerLabel) -> None:
        given = getattr(self, name)
        state = writable(given)
        is_sum = self._reductions[name] == dim_zero_sum
        if isinstance(increment, PerLabel):
            weights = increment.weights.to(state.dtype)
            if is_sum:
                state.scatter_add_(0, increment.ids, weights)
            else:
                state.scatter_reduce_(0, increment.ids, weights, reduce="amax")
        elif is_sum:
            state += increment
        else:
            torch.maximum(state, increment, out=state)
        if state is not given:
            setattr(self, name, state)

    def compute(self) -> Tensor:
        """Return the value over all batches and ranks.

        Returns:
            float64: shape () for one k, (len(k),) for several, (G,) with buckets, (len(k), G) with both. NaN where
            no row counts.
        """
        if not self.is_bound:
            raise ValueError(self._still_open("first"))
        values = torch.tensor(self._values(), dtype=real_dtype(self.device), device=self.device)
        values = values if self._several else values.squeeze(0)
        return values if self._bound_buckets is not None else values.squeeze(-1)

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Plot a value of ``compute`` or ``forward``, by bucket as bars from head to tail, or several over steps.

        Args:
            val: The value, or a sequence of values; None plots ``compute()``.
            ax: Axes of matplotlib to draw in; None makes a figure.

        Returns:
            Figure (None when ``ax`` was given) and axes, as TorchMetrics' metrics do.
        """
        from tailmetrics.metrics._plot import plot_metric  # what it takes to plot is imported by who plots

        return plot_metric(self, self.compute() if val is None else val, ax)

    def scalars(self, value: Tensor | None = None) -> dict[str, Tensor]:
        """Return ``compute()``, or a ``value`` from ``compute`` or ``forward``, as a flat dict of scalars."""
        value = self.compute() if value is None else value
        return dict(zip(self.keys(), value.reshape(-1), strict=True))

    def keys(self) -> list[str]:
        """Return the keys of :meth:`scalars`: ``precision@5``, with buckets ``precision@5/decile_10`` and so on."""
        stems = [self._key(k) for k in self.cutoffs]
        if self.buckets is None:
            return stems
        names = DECILES if isinstance(self.buckets, str) else self.buckets.names
        return [f"{stem}/{name}" for stem in stems for name in names]

    def _key(self, k: int | None) -> str:
        cutoff = "" if k is None else f"@{k}"
        if self.name is not None:
            return f"{self.name}{cutoff}" if len(self.cutoffs) > 1 else self.name
        return f"{self._prefix}{self.stem}{self._convention}{cutoff}"

    @property
    def _prefix(self) -> str:
        return ""

    @property
    def _identity(self) -> str:
        """The metric and every argument that its numbers depend on; states of two metrics agree only if this does.

        TorchMetrics merges metrics of a collection whose states have the same names and, after the first batch,
        equal values: without this, precision and recall would become one after a batch of misses.
        """
        cutoffs = "_".join("all" if k is None else str(k) for k in self.cutoffs)
        buckets = f"_by_{self._bound_buckets.digest}" if self._bound_buckets is not None else ""
        own = f"_{crc32(self._own_arguments.encode()):08x}" if self._own_arguments else ""
        return f"{self._prefix}{self.stem}{self._convention}_at_{cutoffs}{buckets}{self._identity_more}{own}"

    @property
    def _identity_more(self) -> str:
        """What the numbers depend on beside what the key says."""
        return ""


@dataclass(frozen=True)
class Training:
    """What binding hands on: buckets, counts and numbers of the training labels."""

    buckets: LabelBuckets
    num_labels: int
    counts: Tensor | None
    num_rows: int | None

    @classmethod
    def of(cls, caller: str, frequency: Any) -> Training:
        """Read it off a :class:`LabelFrequency` (synchronises) or :class:`LabelBuckets`."""
        if isinstance(frequency, LabelFrequency):
            counts, num_rows = frequency.compute().reshape(-1).cpu(), frequency.num_rows
            if not num_rows:
                warn(
                    f"{caller}: the LabelFrequency has counted no rows, so that every label is unseen; update it with "
                    "the training targets before bind.",
                    stacklevel=3,
                )
            return cls(LabelBuckets.deciles(counts), frequency.num_labels, counts, num_rows)
        if isinstance(frequency, LabelBuckets):
            return cls(frequency, frequency.num_labels, frequency.counts, None)
        raise TypeError(
            f"{caller}: bind takes a LabelFrequency or LabelBuckets, not {shape_of(frequency)}; make one of counts "
            "with LabelFrequency.from_counts(counts, num_rows) or LabelBuckets.deciles(counts)."
        )
