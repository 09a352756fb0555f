"""Arguments of all metrics: checked, completed by ``bind``, and written in ``repr``, keys and names of states."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import Parameter
from re import sub
from typing import Any, ClassVar, Final, TypeAlias
from warnings import warn

from torch import Tensor
from typing_extensions import Self, Unpack

from tailmetrics._arguments import (
    TorchMetricsArguments,
    arguments,
    check_choice,
    check_count,
    check_counts,
    check_cutoffs,
    check_names,
    check_number,
    number_text,
    shape_of,
)
from tailmetrics._exact_metric import ExactMetric
from tailmetrics._transfer import digest_of, identity
from tailmetrics.buckets import LabelBuckets, buckets_of, names_of
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics._states import COUNT, SUMS_OF_WEIGHTS, FixedPoint
from tailmetrics.ranking import EVERYTHING
from tailmetrics.ranking._device import once
from tailmetrics.ranking._inputs import Duplicates
from tailmetrics.ranking._warnings import warn_outside


@dataclass(frozen=True)
class Training:
    """Facts of the training data, which ``bind`` gives to metrics.

    Attributes:
        num_labels: Number of labels L.
        counts: Shape (L,), int64 training counts; None if buckets without counts were bound.
        num_rows: Number of training rows; None if buckets were bound, which do not hold this number.
        given_buckets: The buckets that were bound; None if a ``LabelFrequency`` was bound.
        order: The order of labels with equal counts, as for :func:`buckets_of`.
        made: The buckets made from the counts so far, by kind: metrics with one kind get the same object.
    """

    num_labels: int
    counts: Tensor | None
    num_rows: int | None
    given_buckets: LabelBuckets | None = None
    order: Tensor | None = None
    made: dict[str, LabelBuckets] = field(default_factory=dict)

    @cached_property
    def rows_of_counts(self) -> int | None:
        """The number of training rows, by which metrics divide counts; warns if the count of a label is larger."""
        if self.counts is not None and len(self.counts) and self.num_rows:
            highest, label = self.counts.max(dim=0)
            if int(highest) > self.num_rows:
                warn_outside(
                    f"bind: label {int(label)} occurs {int(highest):,} times in {self.num_rows:,} training rows, so "
                    "that shares of the rows, in novelty and propensities, are wrong. If each token is a row, say so: "
                    "ignore_index=-100, or whatever pads; LabelFrequency.update() takes it, or tokens.flatten()."
                )
        return self.num_rows

    @classmethod
    def of(cls, caller: str, frequency: Any) -> Training:
        """Return the facts of a :class:`LabelFrequency`, added up over processes, or of :class:`LabelBuckets`."""
        if isinstance(frequency, LabelFrequency):
            counts, num_rows = frequency.compute().reshape(-1).cpu(), frequency.num_rows
            if not num_rows:
                warn(
                    f"{caller}: the LabelFrequency has counted no rows, so that every label is unseen; update it with "
                    "the training targets before bind.",
                    stacklevel=3,
                )
            return cls(frequency.num_labels, counts, num_rows)
        if isinstance(frequency, LabelBuckets):
            return cls(frequency.num_labels, frequency.counts, None, frequency)
        raise TypeError(
            f"{caller}: bind takes a LabelFrequency or LabelBuckets, not {shape_of(frequency)}; make one of counts "
            "with LabelFrequency.from_counts(counts, num_rows) or LabelBuckets.deciles(counts)."
        )

    def buckets(self, kind: str) -> LabelBuckets:
        """Return the buckets of a kind such as ``"deciles"``; for this kind, bound buckets of any kind are returned."""
        if self.given_buckets is not None and (kind == "deciles" or self.given_buckets.names == names_of(kind)):
            return self.given_buckets
        if self.counts is None:
            assert self.given_buckets is not None
            raise ValueError(
                f"bind: the buckets {', '.join(self.given_buckets.names)} hold no training counts, of which {kind!r} "
                "are made; bind a LabelFrequency."
            )
        if kind not in self.made:
            self.made[kind] = buckets_of(kind, self.counts, self.order)
        return self.made[kind]


FACTS: Final[dict[str, Callable[[Training, Any], Any]]] = {
    "num_labels": lambda training, _: training.num_labels,
    "buckets": lambda training, kind: kind if kind is None else training.buckets(kind),
    "label_counts": lambda training, _: training.counts,
    "num_train": lambda training, _: training.rows_of_counts,
}
"""Arguments of metrics that ``bind`` completes: a function of the bound facts and the metric's own value for each."""

Cutoffs: TypeAlias = int | Sequence[int]
Buckets: TypeAlias = LabelBuckets | str

DATA: Final = ("k", *FACTS, "row_groups", "weighted", "duplicates", "ignore_index")
"""Arguments that describe the data, not the convention of a metric: they are not in the key as settings."""


class TopKArguments(TorchMetricsArguments, total=False):
    """Keyword arguments of every metric."""

    buckets: Buckets | None
    num_labels: int | None
    row_groups: Sequence[str] | None
    weighted: bool
    duplicates: Duplicates
    ignore_index: int | None
    min_gain: float | None
    name: str | None
    validate_args: bool


class Stem:
    """The key without its cut-off: the class name in lower case, with underscores, unless a class sets another stem."""

    def __get__(self, metric: Any, owner: type) -> str:
        """Return ``normalized_recall`` for ``NormalizedRecallAtK``, and ``f_beta`` for ``FBetaAtK``."""
        name = owner.__name__.removesuffix("AtK").removesuffix("AtThreshold")
        return sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class ConfiguredMetric(ExactMetric):
    """A metric with the arguments that all metrics share: passed to the constructor, or completed by :meth:`bind`.

    The signature of a class defines its arguments. ``repr``, keys, the names of states and the settings of a report
    follow from the signature.
    """

    stem: ClassVar[str] = Stem()  # type: ignore[assignment] # a text, of each class
    optional_k: ClassVar[bool] = False
    can_be_weighted: ClassVar[bool] = False
    key_words: ClassVar[Mapping[str, str]] = {"min_gain": "min"}
    """The words for arguments in the key, if not their names; "" keeps an argument out of the key."""
    usual_settings: Mapping[str, Any] = {}
    """The actual defaults of arguments whose default in the signature is None."""
    row_groups: tuple[str, ...] | None
    duplicates: Duplicates
    ignore_index: int | None
    label_counts: Tensor | None
    """Training counts (L,), of metrics that take them."""
    bound_buckets: LabelBuckets | None
    """The label buckets, once they are known; None without buckets."""
    _num_buckets: int
    """G, or 1 without buckets."""
    _counts: FixedPoint
    """The format of numbers of rows in a state, or, with row weights, of sums of weights."""
    needs: tuple[str, ...] = ()
    """The facts that must be known before an update: some of ``num_labels``, ``label_counts``, ``num_train``."""

    def __init__(
        self,
        k: Cutoffs | None,
        *,
        buckets: Buckets | None = None,
        num_labels: int | None = None,
        row_groups: Sequence[str] | None = None,
        weighted: bool = False,
        duplicates: Duplicates = "error",
        ignore_index: int | None = None,
        min_gain: float | None = None,
        name: str | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[TorchMetricsArguments],
    ) -> None:
        super().__init__(**kwargs)
        caller = self._caller
        if weighted and not self.can_be_weighted:
            raise ValueError(
                f"{caller}: weighted=True means nothing here, where no mean over rows is taken; leave it out."
            )
        if not isinstance(name, str | None):
            raise TypeError(f"{caller}: name={name!r} is no text; pass a string to be used as key, or None.")
        self.cutoffs = self._check_cutoffs(k)
        # an array is several cut-offs, or a single cut-off if the metric takes an array of thresholds per label
        several = isinstance(k, Sequence) or (bool(getattr(k, "ndim", 0)) and len(self.cutoffs) == len(k))  # type: ignore[arg-type]
        self.k = self.cutoffs if several else self.cutoffs[0]
        if isinstance(buckets, str):
            names_of(buckets)  # raises where no kind has this name
        elif not isinstance(buckets, LabelBuckets | None):
            raise TypeError(
                f"{caller}: buckets is {shape_of(buckets)}; pass LabelBuckets, such as frequency.deciles() or "
                "LabelBuckets.deciles(counts), or 'deciles', and call bind(frequency) later."
            )
        self.buckets = buckets
        self.num_labels = None if num_labels is None else check_count(caller, "num_labels", num_labels)
        self.weighted = bool(weighted)
        self._counts = SUMS_OF_WEIGHTS if weighted else COUNT
        rows = {"row_groups": row_groups, "duplicates": duplicates, "ignore_index": ignore_index}
        vars(self).update(_check_rows_of(caller, **rows, bucket_names=self._bucket_names))
        self.min_gain = None if min_gain is None else check_number(caller, "min_gain", min_gain, 1e-30, 1e30)
        self.name = name
        self.validate_args = validate_args
        facts = {name: value for name, value in vars(self).items() if name in FACTS}
        # bind completes buckets that are given by kind, and other facts that are None
        self._left_open = {
            name: value
            for name, value in facts.items()
            if (isinstance(value, str) if name == "buckets" else value is None)
        }
        self._settle({})

    def _check_cutoffs(self, k: Any) -> tuple[Any, ...]:
        """Return the cut-offs as a tuple, given one or several."""
        return check_cutoffs(self._caller, k, self.optional_k)

    @abstractmethod
    def _facts_settled(self) -> None:
        """Make the states, which depend on facts of training; called by the constructor and by ``bind``."""

    # one source for arguments

    def unusual_settings(self) -> dict[str, Any]:
        """Return the settings that are not the default."""
        usual = {name: one.default for name, one in arguments(type(self)).items()} | {**self.usual_settings}
        return {name: one for name, one in self.settings().items() if identity(one) != identity(usual.get(name))}

    @property
    def _identity(self) -> str:
        """A name that is equal for two metrics only if their classes and settings are; the same in all processes.

        TorchMetrics merges metrics of a collection whose states have the same names and, after the first batch, equal
        values. With this name in the states, precision and recall are not merged after a batch of misses.
        """
        # the shapes of states depend on the number of labels
        unusual = self.unusual_settings()
        unusual.pop("num_labels", None)
        return f"{self.stem}_{digest_of((type(self).__qualname__, unusual))}"

    def extra_repr(self) -> str:
        """Return the arguments that are not the default, for ``repr``."""
        unusual = self.unusual_settings()
        if isinstance(self.buckets, LabelBuckets):
            unusual.pop("num_labels", None)
        if self.name is not None:
            unusual["name"] = self.name
        by_name = {name for name, one in arguments(type(self)).items() if one.kind == Parameter.KEYWORD_ONLY}
        names = sorted(unusual, key=lambda name: (name in by_name, name != "buckets"))
        return ", ".join(_shown(name, unusual[name]) for name in names)

    @property
    def _caller(self) -> str:
        return type(self).__name__

    # keys

    def keys(self) -> list[str]:
        """Return the keys of the values: ``precision@5``, ``precision@5/decile_10``, ``precision@5/en/decile_10``."""
        return [key for group in self.group_keys() for key in self.row_keys(group)]

    def group_keys(self) -> list[str]:
        """Return the part of a key for each row group: empty for all rows, ``/en`` for the rows of a group."""
        return ["", *(f"/{name}" for name in self.row_groups or ())]

    def row_keys(self, group: str = "") -> list[str]:
        """Return a key for each cut-off and bucket: over all rows, or, with ``/en`` as ``group``, over its rows."""
        buckets = [f"/{name}" for name in self._bucket_names] or [""]
        return [f"{stem}{group}{bucket}" for stem in map(self._key, self.cutoffs) for bucket in buckets]

    def _key(self, k: int | None) -> str:
        cutoff = "" if k is None else f"@{self._cut_name(k)}"
        if self.name is not None:
            return f"{self.name}{cutoff}" if len(self.cutoffs) > 1 else self.name
        return f"{self._prefix}{self.stem}{self._convention}{cutoff}"

    def _cut_name(self, k: Any) -> str:
        """Return a cut-off as it is written in keys."""
        return str(k)

    @property
    def _prefix(self) -> str:
        return ""

    @cached_property  # bind completes no argument of the key, and keys are made at each compute
    def _convention(self) -> str:
        """The part of the key for arguments that are not the default: a text alone, a number after its name."""
        unusual = {name: value for name, value in self.unusual_settings().items() if self._enters_key(name)}
        return "".join(_in_key(self.key_words.get(name, name), value) for name, value in unusual.items())

    def _enters_key(self, name: str) -> bool:
        """Whether an argument that is not the default shows in the key."""
        return name not in DATA and name.isidentifier() and bool(self.key_words.get(name, name))

    @property
    def _bucket_names(self) -> tuple[str, ...]:
        if self.buckets is None:
            return ()
        return names_of(self.buckets) if isinstance(self.buckets, str) else self.buckets.names

    # completion

    @property
    def is_bound(self) -> bool:
        """Whether the metric has all that it needs, so that :meth:`bind` need not be called."""
        return not self._missing()

    def _missing(self) -> list[str]:
        missing = ["buckets"] if isinstance(self.buckets, str) else []
        known = ("num_labels",) if missing else ()  # the buckets tell it
        return missing + [name for name in self.needs if getattr(self, name) is None and name not in known]

    def _check_bound(self, when: str, advice: str = "") -> None:
        """Raise if an argument is missing that the states need; ``advice`` replaces "call bind"."""
        if self._defaults or self.is_bound:
            return
        missing = self._missing()
        lacking = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not known yet"
        if "buckets" in missing:
            lacking = f"buckets={self.buckets!r} has no label counts yet"
        passed = " and ".join(f"{name}=" for name in missing)
        raise ValueError(
            f"{self._caller}: {lacking}; {advice or f'call bind(frequency) with a LabelFrequency {when}'}, or pass "
            f"{passed} to the metric."
        )

    def bind(self, frequency: LabelFrequency | LabelBuckets) -> Self:
        """Set what the constructor left open: ``buckets="deciles"``, the number of labels, the training counts.

        To bind to other counts, call :meth:`reset` first. A ``LabelFrequency`` adds up the counts of all processes, so
        call ``bind`` in every process.

        Args:
            frequency: Training counts, or buckets.

        Returns:
            The metric itself.
        """
        return self._bind(Training.of(self._caller, frequency))

    def _bind(self, training: Training) -> Self:
        if self._update_count:
            raise ValueError(
                f"{self._caller}: bind after {self._update_count} updates would mix two meanings; reset first."
            )
        self._settle({name: FACTS[name](training, given) for name, given in self._left_open.items()})
        return self

    def _settle(self, facts: Mapping[str, Any]) -> None:
        """Set arguments, and make new states, which depend on them."""
        self._is_made = False
        vars(self).update(facts, _known_fingerprint=None)
        self._settle_facts()
        self._facts_settled()
        self._is_made = True

    def _complete(self, caller: str, given: Mapping[str, Any]) -> None:
        """Take the arguments that a collection gives to its members, except arguments that the metric was given."""
        taken = {name: value for name, value in given.items() if self._given.get(name) is None}
        if taken:
            self._settle(_check_rows_of(caller, **taken, bucket_names=self._bucket_names))

    def _settle_facts(self) -> None:
        """Take number of labels and training counts from the buckets, and raise if two facts do not agree."""
        self.bound_buckets = buckets = self.buckets if isinstance(self.buckets, LabelBuckets) else None
        self._num_buckets = 1 if buckets is None else len(buckets)
        if buckets is not None:
            self._take_num_labels("buckets", buckets.num_labels)
        if "label_counts" in vars(self):
            if self.label_counts is None and buckets is not None:
                self.label_counts = buckets.counts
            if self.label_counts is not None:
                self.label_counts = check_counts(self._caller, "label_counts", self.label_counts)
                self._take_num_labels("label_counts", len(self.label_counts))

    def _take_num_labels(self, argument: str, number: int) -> None:
        """Set the number of labels to that of an argument with a value per label; raise if another number is known."""
        if self.num_labels not in (None, number):
            raise ValueError(
                f"{self._caller}: {argument} is for {number} labels, but there are {self.num_labels}; pass what was "
                "made for the same labels, and leave num_labels out."
            )
        self.num_labels = number

    @once
    def ks(self) -> tuple[int, ...]:
        """The cut-offs; None becomes a number larger than any rank."""
        return tuple(EVERYTHING if k is None else k for k in self.cutoffs)


def _check_rows_of(caller: str, bucket_names: Sequence[str], **given: Any) -> dict[str, Any]:
    """Return the given arguments about the rows of a batch, after a check of each."""
    checks: dict[str, Callable[[Any], Any]] = {
        "row_groups": lambda value: _check_row_groups(caller, value, bucket_names),
        "duplicates": lambda value: check_choice(caller, "duplicates", value, Duplicates),
        "ignore_index": lambda value: value if value is None else check_count(caller, "ignore_index", value, -(2**62)),
    }
    return {name: checks[name](value) for name, value in given.items()}


def _check_row_groups(caller: str, row_groups: Any, bucket_names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of row groups as a tuple; raise unless they are distinct, and differ from names of buckets."""
    if row_groups is None:
        return None
    names = check_names(caller, "row_groups", row_groups)
    if not all(names) or len(set(names)) != len(names) or not names:
        raise ValueError(f"{caller}: row_groups={list(names)} must be distinct names, at least one.")
    taken = sorted({*names} & {*bucket_names})
    if taken:
        raise ValueError(
            f"{caller}: row_groups names {', '.join(map(repr, taken))}, which is a bucket too; give the group another "
            "name, so that keys tell them apart."
        )
    return names


def _in_key(word: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"_{word}" if value else f"_no_{word}"
    if isinstance(value, str):
        return f"_{value}"
    return f"_{word}{number_text(value)}" if isinstance(value, (int, float)) else f"_{word}"


def _shown(name: str, value: Any) -> str:
    if isinstance(value, LabelBuckets):
        return f"{len(value)} buckets"
    if isinstance(value, Tensor):
        return f"{name}={shape_of(value)}"
    return f"{name}={list(value) if isinstance(value, tuple) else value!r}"
