"""Formulas: pure functions of what a reading gives.

A formula also states the facts about its values that states and ties need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import Parameter, signature
from math import inf, nan
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, check_choice, check_cutoffs, shape_of
from tailmetrics._compiling import is_compiling
from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._states import REAL, UNIT, FixedPoint
from tailmetrics.ranking import EVERYTHING, Ranking, TargetRanks
from tailmetrics.ranking._batch import Batch, Context
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import LabelWeights
from tailmetrics.ranking._ranking import rank_batch
from tailmetrics.ranking._reading import Depth
from tailmetrics.tree import LabelTree

Value = TypeVar("Value")

TABLES_OF_LABELS: Final[dict[str, tuple[type[Any], str]]] = {
    "weights": (LabelWeights, "a tensor of shape [L], a weight for each label"),
    "tree": (LabelTree, "a LabelTree"),
    "buckets": (LabelBuckets, "LabelBuckets"),
}
"""Arguments of formulas with an entry for each label: their types and forms."""


def takes_arrays(
    function: Callable[..., Value],
    depth: Depth | None = None,
    warns: Callable[[Ranking], None] | None = None,
    check: Callable[..., None] | None = None,
    row_axis: int = -1,
) -> Callable[..., Value]:
    """Return ``function`` as one that takes a ranking, or ``preds, target``.

    Both are taken by position or keyword. Metrics call the function itself: they check
    their arguments when they are made.

    Args:
        function: A formula, whose first argument is a ranking.
        depth: How deep arrays are ranked; None for as deep as the argument ``k`` asks.
        warns: Looks at a ranking of arrays first.
        check: Raises unless the arguments can be used:
            ``check(caller, ranks, arguments)``.
        row_axis: The axis of the rows in the value: 0 or -1.
    """
    public = _PublicFormula(function, depth, warns, check)

    @wraps(function)
    def either(*args: Any, **kwargs: Any) -> Value:
        if "ranking" in kwargs:
            kwargs[public.ranking_name] = kwargs.pop("ranking")
        has_ranks = public.ranking_name in kwargs or (
            len(args) > 0 and isinstance(args[0], TargetRanks)
        )
        # torch.compile follows neither signatures nor checks
        if has_ranks and is_compiling():
            ranks = args[0] if args else kwargs[public.ranking_name]
            value = function(*args, **kwargs)
        else:
            ranks, arguments = public.ranks_and_arguments(args, kwargs)
            value = function(ranks, **arguments)
        masked: Value = _without_masked_rows(value, ranks, row_axis)
        return masked

    return either


def _without_masked_rows(value: Any, ranks: TargetRanks, row_axis: int) -> Any:
    """Return values with NaN in the rows that the row mask of a ranking drops.

    Only floating values change: bools, whole numbers and the two terms of a ratio stay
    as they are.
    """
    row_mask = ranks.row_mask if isinstance(ranks, Ranking) else None
    if (
        row_mask is None
        or not isinstance(value, Tensor)
        or not value.is_floating_point()
    ):
        return value
    return value.movedim(row_axis, -1).masked_fill(~row_mask, nan).movedim(-1, row_axis)


class _PublicFormula:
    """A formula with checked arguments, of a ranking or of arrays.

    The arguments are those of :func:`takes_arrays`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        depth: Depth | None,
        warns: Callable[[Ranking], None] | None,
        check: Callable[..., None] | None,
    ) -> None:
        self.name = function.__name__
        self.depth = depth
        self.warns = warns
        self.check = check
        self.signature = signature(function)
        ranking, *others = self.signature.parameters.values()
        self.ranking_name = ranking.name
        arrays = [
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD)
            for name in ("preds", "target")
        ]
        self.array_signature = self.signature.replace(parameters=[*arrays, *others])
        self.choices = _choices_of(function)

    def ranks_and_arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[TargetRanks, dict[str, Any]]:
        """Return the ranks and the other arguments of a call, all checked.

        The ranks are passed, or made from the arrays ``preds`` and ``target``.
        """
        has_ranks = self.ranking_name in kwargs or (
            args and isinstance(args[0], TargetRanks)
        )
        called = self.signature if has_ranks else self.array_signature
        try:
            bound = called.bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(called.parameters)
            raise TypeError(
                f"{self.name}: {error}; pass {self.name}({names})."
            ) from None
        bound.apply_defaults()
        arguments = bound.arguments
        for name, texts in self.choices.items():
            check_choice(self.name, name, arguments[name], texts)
        if "k" in arguments:
            arguments["k"] = self._cutoffs(arguments["k"])

        num_labels = _number_of_labels(self.name, arguments)
        if has_ranks:
            ranks = arguments.pop(self.ranking_name)
            if isinstance(ranks, Ranking):
                self._check_labels(ranks, num_labels)
        else:
            ranks = self._ranked(
                arguments.pop("preds"),
                arguments.pop("target"),
                arguments.get("k"),
                num_labels,
            )
        if self.check is not None:
            self.check(self.name, ranks, arguments)
        return ranks, arguments

    def _cutoffs(self, k: Any) -> Any:
        """Return k as an int, a tuple of ints, or None for whole lists.

        Raise unless k is a cut-off or several cut-offs.
        """
        cutoffs = check_cutoffs(
            self.name, k, optional=self.signature.parameters["k"].default is None
        )
        num_axes = getattr(k, "ndim", 0)
        if isinstance(k, Sequence) or num_axes:
            return cutoffs
        return cutoffs[0]

    def _check_labels(self, ranking: Ranking, num_labels: int | None) -> None:
        """Raise if a ranking has another number of labels than other arguments."""
        if num_labels is not None and ranking.num_labels not in (None, num_labels):
            raise ValueError(
                f"{self.name}: the ranking is of {ranking.num_labels} labels, the "
                f"other arguments of {num_labels}; make both for the same labels."
            )

    def _ranked(
        self, preds: Any, target: Any, cutoffs: Any, num_labels: int | None
    ) -> Ranking:
        """Return the ranking of arrays, as deep as the formula needs it."""
        depth = self.depth or Depth(0)
        if cutoffs is not None:
            deepest = max(cutoffs) if isinstance(cutoffs, tuple) else cutoffs
            depth = Depth(deepest, deepest)
        ranking = rank_batch(
            Context(self.name, num_labels, warns=True), Batch(preds, target), depth
        )
        if self.warns is not None and not is_compiling():
            self.warns(ranking)
        return ranking


def _number_of_labels(caller: str, arguments: Mapping[str, Any]) -> int | None:
    """Return the number of labels of weights, a tree or buckets; None without them.

    A formula has at most one of them. Raise TypeError if it has another form.
    """
    for name, (table_type, form) in TABLES_OF_LABELS.items():
        table = arguments.get(name)
        if table is None:
            continue
        if name == "weights" and isinstance(table, Tensor) and table.ndim == 1:
            return len(table)
        if not isinstance(table, table_type):
            raise TypeError(f"{caller}: {name} is {shape_of(table)}; pass {form}.")
        return int(table.num_labels)
    return None


def _choices_of(function: Callable[..., Any]) -> dict[str, tuple[str, ...]]:
    """Return the allowed texts of each argument whose type is a Literal."""
    choices = {}
    for name, kind in get_type_hints(function).items():
        if get_origin(kind) is Literal:
            choices[name] = get_args(kind)
    return choices


@dataclass(frozen=True, eq=False)
class Formula:
    """A function of the ranks of the relevant labels, and facts about its values.

    Attributes:
        function: Called as ``function(ranks, k, **arguments)``, k an int, or a tuple
            whose cut-offs are the first axis of the value. It returns one value per
            row, shape (...), or for a ratio of sums two of them.
        arguments: Further arguments of the function.
        value_format: The format in which values are added up. With ``COUNT``, a value
            is a whole number, divided by ``per_one(k)``.
        per_one: How many counts make a value of 1 at a cut-off.
        check: Raises unless the function can read a ranking,
            ``check(caller, ranking)``; None if it can read any. It looks at values, and
            is called only if arguments are validated.
        reads_cutoff: Whether the function takes ``k``; if not, it reads the list that
            the reading gives.
        optional_k: Whether k may be None, for whole lists.
        zero_without_hits: Whether the value of a row without a hit is 0.
        is_averaged: Whether ``ties="expected"`` is possible: whether the mean over all
            orders of equal scores is known.
        reads_counts_alone: Whether a value without gains depends only on ranks, the
            length of the list, and the numbers of relevant labels and of all labels.
        reads_gains: Whether the function reads gains, so ``min_gain`` has no effect.
        reads_one_rank: Whether the function reads a single rank: no order is then the
            worst or the best of all ranks.
        reads_first: Whether the function reads the best relevant label alone.
        ignores_order: Whether a value depends only on which labels are in the top k, in
            any order.
        depends_on_catalogue: Whether a value depends on how many labels there are, seen
            in the data or not.
        unit: What a value counts, such as ``"places"`` of a list; empty for shares,
            sums and means of them.
        is_of_softmax: Whether scores are taken for logits, so that runs with
            probabilities cannot be compared with it.
        is_additive: Whether the values of all buckets in the one list of a row add up
            to the value over all labels.
        answered: A function of a ranking, the ranks and the arguments: whether a row
            has a value, to which ``empty_target_action`` does not apply; None if it is
            whether a row has a relevant label.
        lacking: What is the matter with a row to which ``empty_target_action`` applies.
        usual_action: The default of ``empty_target_action`` overall; within buckets
            it is ``"skip"``.
        is_own: Whether a user wrote it: what it returns is checked.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    value_format: FixedPoint = UNIT
    per_one: Callable[[int], int] | None = None
    check: Callable[[str, Ranking], None] | None = None
    reads_cutoff: bool = True
    optional_k: bool = False
    zero_without_hits: bool = False
    is_averaged: bool = False
    reads_counts_alone: bool = False
    reads_gains: bool = False
    reads_one_rank: bool = False
    reads_first: bool = False
    ignores_order: bool = False
    depends_on_catalogue: bool = False
    unit: str = ""
    is_of_softmax: bool = False
    is_additive: bool = False
    answered: Callable[..., Any] | None = None
    lacking: str = "no relevant label"
    usual_action: str = "neg"
    is_own: bool = False

    def with_arguments(self, **arguments: Any) -> Formula:
        """Return the formula with other or further arguments."""
        return replace(self, arguments={**self.arguments, **arguments})

    @property
    def weights(self) -> LabelWeights | None:
        """The worth of each label as a hit.

        None if all labels are worth the same, or their gain.
        """
        return self.arguments.get("weights")

    def counts_per_one(self, k: int) -> int:
        """Return the sum that one row of value 1 adds at a cut-off."""
        if self.per_one is None:
            return 1
        return self.per_one(k)

    def at(self, ranks: TargetRanks, ks: tuple[int, ...]) -> Tensor:
        """Return the value of each row at each cut-off, shape (K, ...).

        A ratio has a numerator and a denominator, (2, K, ...).
        """
        # without what takes_arrays adds for users
        function = getattr(self.function, "__wrapped__", self.function)
        if not self.reads_cutoff:
            value = function(ranks, **self.arguments)
        elif len(ks) > 1:
            value = function(ranks, ks, **self.arguments)
        else:
            value = function(ranks, ks[0], **self.arguments)

        axis_of_cutoffs = 0
        if isinstance(value, tuple):
            value = torch.stack(value)
            axis_of_cutoffs = 1
        if len(ks) == 1:
            value = value.unsqueeze(axis_of_cutoffs)
        row_values: Tensor = value
        return row_values


def hit_formula(
    function: Callable[..., Any],
    arguments: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Formula:
    """Return a formula of hits.

    Its value is 0 without a hit and depends on counts alone, and its mean over all
    orders of equal scores is known.
    """
    hit_facts = {
        "zero_without_hits": True,
        "is_averaged": True,
        "reads_counts_alone": True,
        **facts,
    }
    return Formula(function, arguments or {}, **hit_facts)


def _no_value(*_: Any) -> Tensor:
    raise NotImplementedError("a row has no value of its own")


NO_FORMULA = Formula(_no_value)
"""The formula of aggregations that read lists themselves."""


@dataclass(frozen=True, eq=False)
class OwnFormula(Formula):
    """A formula that a user wrote for one cut-off.

    It is called once for each cut-off, and what it returns is checked.

    Attributes:
        num_terms: How many tensors the function returns: 2 for the numerator and the
            denominator of a ratio.
        caller: Name of the metric, for errors.
        validate: Whether the values are checked, and not only their shape and type.
        bounds: The least and the largest value of a row, which intervals rely on.
    """

    num_terms: int = 1
    caller: str = ""
    validate: bool = True
    bounds: tuple[float, float] = (0.0, inf)
    is_own: bool = True

    def at(self, ranks: TargetRanks, ks: tuple[int, ...]) -> Tensor:
        """Return the values as :meth:`Formula.at` does.

        The function sees no rank after the last cut-off, even if another metric asks
        for more.
        """
        if max(ks) < EVERYTHING:
            ranks = ranks.first(max(ks))
        values = []
        for k in ks:
            terms = self._terms(self.function(ranks, k, **self.arguments))
            for term in terms:
                self._check_type(term, ranks.n_relevant)
                if self.validate and term.numel():
                    self._check_values(term, ranks.n_relevant)
            if self.validate:
                self._check_bounds(terms, k)
            values.append(torch.stack(terms))
        stacked = torch.stack(values, dim=1)
        if len(stacked) > 1:
            return stacked
        return stacked[0]

    def _terms(self, value: Any) -> tuple[Any, ...]:
        """Return what the function returned as a tuple of ``num_terms`` tensors.

        Raises:
            TypeError: If a ratio has not two of them.
        """
        if self.num_terms == 1:
            return (value,)
        if isinstance(value, tuple) and len(value) == self.num_terms:
            return value
        returned = shape_of(value)
        if isinstance(value, tuple):
            returned = f"a tuple of {len(value)}"
        raise TypeError(
            f"{self.caller}: {self.function.__name__} returned {returned}; return two "
            "tensors, the terms of the "
            "numerator and of the denominator: return hits, total."
        )

    def _check_bounds(self, terms: tuple[Tensor, ...], k: int) -> None:
        """Raise if the value of a row is outside the bounds that the class states.

        A quotient may be a little above the upper bound, by rounding.

        Raises:
            ValueError: If there is such a value.
        """
        values = terms[0].to(real_dtype(terms[0].device)) / self.counts_per_one(k)
        if len(terms) > 1:
            values = (values / terms[1])[terms[1] > 0]
        if not values.numel():
            return
        low, high = self.bounds
        least, most = (float(end) for end in torch.aminmax(values))
        if least < low:
            worst, remedy = least, "(-math.inf, math.inf)"
        elif most > high * (1 + 1e-9):
            worst, remedy = most, f"({low}, math.inf)"
        else:
            return
        raise ValueError(
            f"{self.caller}: {self.function.__name__} gives a row the value {worst:g}, "
            f"outside of the bounds of the metric, {low:g} to {high:g}; if the value "
            f"is right, write bounds = {remedy} in the class."
        )

    def _check_type(self, values: Any, n: Tensor) -> None:
        """Raise TypeError unless the function returned one value per row.

        Values must add up without loss: float64, or with ``COUNT`` bools or integers.
        """
        returned = f"{self.caller}: {self.function.__name__} returned"
        if not isinstance(values, Tensor) or values.shape != n.shape:
            raise TypeError(
                f"{returned} {shape_of(values)}; return one number per row: a tensor "
                f"of the shape of n_relevant, {list(n.shape)}."
            )
        is_whole = values.dtype in (torch.bool, *INTEGERS)
        needs_whole = self.value_format.limbs == 0
        if needs_whole and not is_whole:
            raise TypeError(
                f"{returned} {shape_of(values)}; return bools or whole numbers, such "
                "as hits_at(k), or leave fixed_point = COUNT out for fractions."
            )
        if not needs_whole and values.dtype != real_dtype(values.device):
            raise TypeError(
                f"{returned} {shape_of(values)}; return float64, such as divide(hits, "
                "n) or hits.double(), so that no digit is lost, or bools or whole "
                "numbers with fixed_point = COUNT."
            )

    def _check_values(self, values: Tensor, n: Tensor) -> None:
        """Raise ValueError unless states can hold the values.

        Rows without a relevant label must have the value 0.
        """
        returned = f"{self.caller}: {self.function.__name__} returned"
        if values.is_floating_point():
            low, high = (float(bound) for bound in torch.aminmax(values))
            largest = self.value_format.largest
            # a quotient of sums may be rounded to a little more than 1
            if not 0 <= low <= high <= largest * (1 + 1e-9):
                limit = ""
                if self.value_format != REAL:
                    limit = (
                        f" and at most {largest:g}, or larger with fixed_point = REAL"
                    )
                worst = low if low < 0 else high
                raise ValueError(
                    f"{returned} {worst}; values are numbers of at least 0{limit}."
                )
        if bool((values[n == 0] != 0).any()):
            raise ValueError(
                f"{returned} a value other than 0 for a row without a relevant label; "
                "return 0 there."
            )
