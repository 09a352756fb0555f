"""Base classes for metrics of users: a formula of one cut-off as a method."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics.metrics._aggregations import MeanOfRows, RatioOfSums
from tailmetrics.metrics._arguments_of_metrics import Cutoffs, RankArguments
from tailmetrics.metrics._formulas import OwnFormula
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._states import REAL, UNIT, FixedPoint
from tailmetrics.ranking import TargetRanks


class RowMeanMetric(TopKMetric):
    """Mean over rows of one value per row.

    A metric of yours defines ``_row_value(ranks, k)``, which returns a tensor in the
    shape of ``ranks.n_relevant``, 0 for a row without a relevant label.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`.
    """

    fixed_point: FixedPoint = UNIT
    """The format in which values are added up."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Set the bounds of real numbers unless the class or a base states bounds."""
        own_classes = cls.__mro__[: cls.__mro__.index(RowMeanMetric)]
        if cls.fixed_point == REAL and not any(
            "bounds" in vars(own_class) for own_class in own_classes
        ):
            cls.bounds = (0.0, inf)
        super().__init_subclass__(**kwargs)

    def __init__(self, k: Cutoffs, **kwargs: Unpack[RankArguments]) -> None:
        formula = _formula_of(self, self._row_value, kwargs, per_one=self._per_one)
        super().__init__(k, formula, aggregation=MeanOfRows, **kwargs)

    @abstractmethod
    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        """Return the value of each row, shape (...).

        This is called for every batch and cut-off. The value is 0 for a row without a
        relevant label. It is float64 within ``bounds``; or, with
        ``fixed_point = COUNT``, an integer or a bool: the row's value is then the
        integer divided by ``_per_one(k)``.
        """

    def _per_one(self, k: int) -> int:
        return 1


class RatioMetric(TopKMetric):
    """One sum over rows divided by another sum over rows.

    This is the ratio of means, not the mean of ratios.

    A metric of yours defines ``_row_terms(ranks, k)``, which returns the terms of each
    row: two float64 tensors in the shape of ``ranks.n_relevant``, both 0 for a row
    without a relevant label.

    Args:
        k: Cut-off, or a sequence of cut-offs.
        kwargs: See :class:`TopKMetric`.
    """

    fixed_point: FixedPoint = REAL
    """The format in which terms are added up."""

    def __init__(self, k: Cutoffs, **kwargs: Unpack[RankArguments]) -> None:
        super().__init__(
            k,
            _formula_of(self, self._row_terms, kwargs, num_terms=2),
            aggregation=RatioOfSums,
            **kwargs,
        )

    @abstractmethod
    def _row_terms(self, ranks: TargetRanks, k: int) -> tuple[Tensor, Tensor]:
        """Return the numerator and the denominator of each row, shape (...).

        This is called per batch and cut-off. Both are 0 for rows that do not count.
        """


def _formula_of(
    metric: RowMeanMetric | RatioMetric,
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    **facts: Any,
) -> OwnFormula:
    """Return a method of a metric as a formula, given the arguments of the metric."""
    validate = arguments.get("validate_args", True)
    return OwnFormula(
        function,
        value_format=metric.fixed_point,
        caller=metric._caller,
        validate=validate,
        bounds=metric.bounds,
        **facts,
    )
