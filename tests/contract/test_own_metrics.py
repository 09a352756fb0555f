"""Custom metrics in a file of the user are as safe as those of the library, or are
refused by name.
"""

import copy
import math
import pickle
import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import tailmetrics
from cases import OF_EACH_BASE, Case, registered
from tailmetrics import (
    LabelTree,
    RatioMetric,
    RecallAtK,
    RelevanceAtK,
    RowMeanMetric,
    TopKCollection,
    evaluate,
)
from tailmetrics.metrics import COUNT, REAL, REGISTRY, divide
from tailmetrics.ranking import Ranking, TargetRanks
from tailmetrics.testing import NUM_LABELS, check_metric

SCORES = torch.tensor(
    [[0.9, 0.8, 0.7, 0.1], [0.1, 0.7, 0.8, 0.9], [0.4, 0.3, 0.2, 0.1]]
)
TARGET = torch.tensor([[0, 3], [2, 1], [-1, -1]])
"""Hits among the top 2: 1 of 2, 1 of 2, 0 of 0."""


class Scaled(RowMeanMetric):
    """Precision times a factor."""

    higher_is_better = True
    stem = "scaled"
    fixed_point = REAL

    def __init__(self, k: int, factor: float = 1.0, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.factor = factor

    def _row_value(self, placement: TargetRanks, k: int) -> Tensor:
        return placement.hits_at(k).double() / k * self.factor


class Hidden(Scaled):
    """Takes the factor out of the keywords."""

    stem = "hidden"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        factor = kwargs.pop("factor", 1.0)
        super().__init__(*args, **kwargs)
        self.factor = factor


class Late(Scaled):
    """Sets the factor after construction."""

    stem = "late"


def late_metric(factor: float, name: str) -> Late:
    """Return a metric whose arguments do not tell what it computes."""
    metric = Late(2, name=name)
    metric.factor = factor
    return metric


@pytest.mark.parametrize(
    "factory",
    [lambda f, n: Scaled(2, f, name=n), lambda f, n: Scaled(k=2, factor=f, name=n),
     lambda f, n: Hidden(2, factor=f, name=n), late_metric],
)  # fmt: skip
def test_members_that_differ_in_a_custom_argument_keep_their_own_values(
    factory: Callable[..., Scaled],
) -> None:
    """Members that differ in a custom argument keep their own values, whether the class
    takes it by keyword or position, hides it, or sets it later: (1/2 + 1/2 + 0) / 3
    times the factor.
    """
    collection = TopKCollection(
        [factory(1.0, "one"), factory(0.0, "zero"), factory(3.0, "three")]
    )
    collection.update(SCORES, TARGET)
    values = {key: float(value) for key, value in collection.compute().items()}
    assert values == {"one": 1 / 3, "zero": 0.0, "three": 1.0}


def test_state_names_depend_on_the_arguments_alone() -> None:
    """Names of states are equal for equal arguments, by position or keyword and in
    copies, and differ for different arguments, values of tensors included.
    """
    metric = Scaled(2, 0.5)
    for copy_of_metric in (
        Scaled(k=2, factor=0.5),
        copy.deepcopy(metric),
        pickle.loads(pickle.dumps(metric)),
        metric.clone(),
    ):
        assert list(copy_of_metric._defaults) == list(metric._defaults)
    weights = [
        torch.zeros(2000),
        torch.zeros(2000).index_fill(0, torch.tensor([1000]), 1.0),
    ]
    names = [
        tuple(Scaled(2, factor)._defaults) for factor in (0.5, -0.5, 0.25, *weights)
    ]  # type: ignore[arg-type]
    assert len(set(names)) == 5


class GainShare(RowMeanMetric):
    """The gains found among the top k, as a share of the k largest gains of the row."""

    higher_is_better = True
    stem = "gain_share"

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        gain_of_hits = (ranks.target_gains * (ranks.target_ranks <= k)).sum(dim=-1)
        return divide(gain_of_hits, ranks.best(k).sum(dim=-1))


GRADED = torch.tensor(
    [[1.0, 0.0, 3.0, 2.0], [0.0, 2.0, 0.0, 5.0], [4.0, 0.0, 0.0, 0.0]]
)
COMPANIONS = {
    "none": list,
    "deeper": lambda: [RecallAtK(k=3)],
    "all the list": lambda: [
        tailmetrics.NDCGAtK(k=4),
        tailmetrics.MAP(),
        tailmetrics.MRR(),
    ],
}


@pytest.mark.parametrize("companions", COMPANIONS)
def test_custom_formula_does_not_depend_on_other_members(companions: str) -> None:
    """A custom formula at k = 2 sees the targets at ranks 1 and 2, however deep other
    members have the batch ranked.

    Scores are ranked 0 1 2 3, 2 1 0 3 and 1 3 0 2; found at 2 are gains of 1, 2 and 0
    of the two largest, 5, 7 and 4.
    """
    scores = torch.tensor(
        [[0.9, 0.8, 0.7, 0.6], [0.7, 0.8, 0.9, 0.6], [0.7, 0.9, 0.6, 0.8]]
    )
    collection = TopKCollection([GainShare(2), *COMPANIONS[companions]()])
    collection.update(scores, GRADED)
    assert float(collection.compute()["gain_share@2"]) == pytest.approx(
        (1 / 5 + 2 / 7 + 0 / 4) / 3, rel=1e-12
    )


def metric_with_row_values(
    values: Callable[[TargetRanks], Any], point: Any = None
) -> RowMeanMetric:
    """Return a metric whose rows have these values."""

    class Own(RowMeanMetric):
        higher_is_better = True
        stem = "own"

        def _row_value(self, placement: TargetRanks, k: int) -> Tensor:
            return values(placement)  # type: ignore[no-any-return]

    if point is None:
        return Own(2)
    return type("Own", (Own,), {"fixed_point": point})(2)


UNSUITABLE_VALUES: list[tuple[Callable[[TargetRanks], Any], Any, type[Exception], str]] = [
    (lambda p: p.hits_at(2) / 2, None, TypeError, r"Own: _row_value returned float32 \[3\]; return float64, such as div"),
    (lambda p: divide(p.hits_at(2) * 0.5, p.n_relevant), None, TypeError, r"divide: a part is float32 \[3\], which has los"),
    (lambda p: p.hits_at(2), None, TypeError, r"returned int64 \[3\]; .* whole numbers with fixed_point = COUNT"),
    (lambda p: p.hits_at(2).double(), COUNT, TypeError, r"returned float64 \[3\]; return bools or whole numbers"),
    (lambda p: p.hits_at(2).double().mean(), None, TypeError, r"returned float64 \[\]; .* shape of n_relevant, \[3\]"),
    (lambda p: 0.5, None, TypeError, "returned float; return one number per row"),
    (lambda p: p.hits_at(2).double() * 2, None, ValueError, "returned 2.0; .* at most 1, or larger with fixed_point = R"),
    (lambda p: p.hits_at(2).double() - 2, REAL, ValueError, r"returned -2.0; values are numbers of at least 0\."),
    (lambda p: p.hits_at(2) / p.n_relevant.double(), None, ValueError, "returned nan; values are numbers of at least 0"),
    (lambda p: (p.hits_at(2) == 0).double(), None, ValueError, "returned a value other than 0 for a row without"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "point", "error", "message"), UNSUITABLE_VALUES)
def test_row_values_that_cannot_be_summed_exactly_are_refused(
    values: Any, point: Any, error: type[Exception], message: str
) -> None:
    """Row values that cannot be summed without loss are refused, alone, in a collection
    and by row_values, and nothing is counted.
    """
    metric = metric_with_row_values(values, point)
    with pytest.raises(error, match=message):
        metric.update(SCORES, TARGET)
    assert (metric.update_count, int(metric.states_of_groups()[0]["rows"].sum())) == (
        0,
        0,
    )
    with pytest.raises(error, match=message):
        TopKCollection([metric]).update(SCORES, TARGET)
    with pytest.raises(error, match=message):
        metric.row_values(Ranking.from_scores(SCORES, target_ids=TARGET))


def test_row_values_that_can_be_summed_exactly_are_accepted() -> None:
    """Accepted row values are a quotient rounded to just above 1, and 10^30 as REAL;
    10^300 counts as infinite.
    """
    above_one = 1 + 2**-52
    assert (
        float(
            metric_with_row_values(lambda p: (p.n_relevant > 0).double() * above_one)(
                SCORES, TARGET
            )
        )
        == above_one * 2 / 3
    )
    assert (
        float(
            metric_with_row_values(lambda p: p.hits_at(2).double() * 1e30, REAL)(
                SCORES, TARGET
            )
        )
        == 2e30 / 3
    )
    assert float(
        metric_with_row_values(lambda p: p.hits_at(2).double() * 1e300, REAL)(
            SCORES, TARGET
        )
    ) == float("inf")


class Lift(RatioMetric):
    """The labels that are not found, as a multiple of those that are found."""

    higher_is_better = False

    def _row_terms(self, ranks: TargetRanks, k: int) -> tuple[Tensor, Tensor]:
        return 3 * (ranks.n_relevant - ranks.hits_at(k)).double(), ranks.hits_at(
            k
        ).double()


class Balance(RowMeanMetric):
    """The number of labels that are found minus that of the others."""

    higher_is_better = True
    fixed_point = COUNT

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return 2 * ranks.hits_at(k) - ranks.n_relevant


@pytest.mark.parametrize(
    ("metric", "k", "worst", "remedy", "value"),
    [
        (Lift, 2, "3", "(0.0, math.inf)", 3.0),
        (Balance, 1, "-2", "(-math.inf, math.inf)", -2 / 3),
        (Balance, 3, "2", "(0.0, math.inf)", 2 / 3),
    ],
)
def test_row_values_outside_the_bounds_of_the_class_are_refused(
    metric: type[RowMeanMetric | RatioMetric],
    k: int,
    worst: str,
    remedy: str,
    value: float,
) -> None:
    """Row values outside the bounds of the class are refused, and the error names the
    bounds that would hold them.

    By hand: of two labels each, the rows find 1 and 0 in the first place, 1 and 1 in
    two, 1 and 2 in three.
    """
    message = f"gives a row the value {worst}, outside of the bounds of the metric, 0 to 1; .* bounds = "
    with pytest.raises(ValueError, match=message + re.escape(remedy)):
        metric(k).update(SCORES, TARGET)
    unbounded = type(metric.__name__, (metric,), {"bounds": (-math.inf, math.inf)})
    assert float(unbounded(k)(SCORES, TARGET)) == value


def test_interval_of_real_values_may_end_above_1() -> None:
    """The interval of a metric with fixed_point = REAL has no upper bound: rows are 0
    and 1000 by turns.
    """
    scores, target = torch.eye(2).repeat(20, 1), torch.zeros(40, dtype=torch.int64)
    (record,) = evaluate(scores, target, metrics=[Scaled(1, factor=1000.0)]).records
    low, high = record.ends
    assert 1 < low < record.value == 500 < high


def test_terms_of_a_ratio_must_be_exact_as_row_values() -> None:
    """Terms of a ratio metric must be sums without loss, as row values: float32 in a
    denominator is refused.
    """

    class Own(RatioMetric):
        higher_is_better = True
        stem = "own"
        fixed_point = REAL
        denominator: ClassVar[Callable[[Tensor], Tensor]] = staticmethod(Tensor.double)

        def _row_terms(self, ranks: TargetRanks, k: int) -> tuple[Tensor, Tensor]:
            return ranks.hits_at(k).double(), type(self).denominator(ranks.n_relevant)

    assert float(Own(2)(SCORES, TARGET)) == 2 / 4
    Own.denominator = staticmethod(Tensor.float)
    with pytest.raises(
        TypeError, match=r"Own: _row_terms returned float32 \[3\]; return float64"
    ):
        Own(2).update(SCORES, TARGET)


class OneTerm(RatioMetric):
    """Returns no denominator."""

    higher_is_better = True

    def _row_terms(self, ranks: TargetRanks, k: int) -> tuple[Tensor, Tensor]:
        return ranks.hits_at(k).double()  # type: ignore[return-value]


class ThreeTerms(RatioMetric):
    """Returns a term too many."""

    higher_is_better = True

    def _row_terms(self, ranks: TargetRanks, k: int) -> tuple[Tensor, Tensor]:
        return (ranks.hits_at(k).double(),) * 3  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("metric", "returned"), [(OneTerm, r"float64 \[3\]"), (ThreeTerms, "a tuple of 3")]
)
def test_a_ratio_has_two_terms(metric: type[RatioMetric], returned: str) -> None:
    """A ratio metric that does not return two terms is refused by name."""
    message = f"{metric.__name__}: _row_terms returned {returned}; return two tensors, the terms of the numerator"
    with pytest.raises(TypeError, match=message):
        metric(2).update(SCORES, TARGET)


def test_fractions_as_counts_are_refused() -> None:
    """Fractions from a metric with fixed_point = COUNT are refused; the error offers
    whole numbers or another fixed_point, and not float64.
    """

    class Own(RowMeanMetric):
        higher_is_better = True
        fixed_point = COUNT

        def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
            return divide(ranks.hits_at(k), ranks.n_relevant)

    with pytest.raises(
        TypeError,
        match=r"returned float64 \[3\]; return bools or whole numbers, .* leave fixed_point",
    ):
        Own(2).update(SCORES, TARGET)


def test_a_class_without_a_stem_has_its_name_as_key() -> None:
    """A custom class without a stem has its name, in the style of the library, as key;
    a derived class keeps the stem of its base.
    """

    class FirstHitsAtK(RowMeanMetric):
        higher_is_better = True

        def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
            return divide(ranks.hits_at(k), ranks.n_relevant)

    class MyNDCGAtK(FirstHitsAtK):
        stem = "mine"

    class Derived(MyNDCGAtK):
        """Another formula."""

    assert [metric(k=2).keys() for metric in (FirstHitsAtK, MyNDCGAtK, Derived)] == [
        ["first_hits@2"],
        ["mine@2"],
        ["mine@2"],
    ]


# check_metric accepts metrics that keep its laws, and names the law that a metric
# breaks


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EACH_BASE)
def test_check_metric_accepts_a_metric_of_each_base(name: str) -> None:
    """check_metric accepts a metric of each base class of the library."""
    arguments = (
        {"min_recall": 0.5}
        if name == "KForRecall"
        else {"k": [1, 4]}
        if name.endswith("AtK")
        else {}
    )
    if "tree" in registered(name).settings():
        arguments["tree"] = LabelTree([-1, *range(NUM_LABELS - 1)])
    assert isinstance(registered(name), REGISTRY[name])
    check_metric(REGISTRY[name], **arguments)


class Forgetful(RowMeanMetric):
    """A custom metric with an argument, and nothing beyond its formula."""

    higher_is_better = True
    stem = "forgetful"

    def __init__(self, k: int, *, power: float = 1.0, **kwargs: Any) -> None:
        self.power = power
        super().__init__(k, **kwargs)

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return divide(ranks.hits_at(k), ranks.n_relevant) ** self.power


def test_custom_argument_is_in_states_key_repr_and_settings() -> None:
    """check_metric accepts a custom metric with an argument, and its states, key, repr
    and settings distinguish two values of the argument.
    """
    check_metric(Forgetful, k=3, power=2.0)
    plain, squared = Forgetful(3), Forgetful(3, power=2.0)
    assert set(plain.metric_state).isdisjoint(squared.metric_state)
    assert (plain.keys(), squared.keys()) == (["forgetful@3"], ["forgetful_power2@3"])
    assert (repr(plain), repr(squared)) == (
        "Forgetful(k=3)",
        "Forgetful(k=3, power=2.0)",
    )
    assert (plain.settings()["power"], squared.settings()["power"]) == (1.0, 2.0)


class Remembers(RowMeanMetric):
    """Depends on the size of the batch."""

    higher_is_better = True
    stem = "remembers"
    fixed_point = COUNT

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return (
            (ranks.n_relevant > 0)
            & (ranks.hits_at(k) > 0)
            & torch.tensor(len(ranks.n_relevant) > 20)
        )


def test_check_metric_names_the_broken_law() -> None:
    """check_metric names the law that a metric breaks: here the value depends on the
    size of the batch.
    """
    with pytest.raises(
        AssertionError,
        match="Remembers.*must: Have the same value, to the last bit, for one batch",
    ):
        check_metric(Remembers, k=2)


class HigherThanItSays(RowMeanMetric):
    """Returns 2, above the bound of 1."""

    higher_is_better = True

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return 2.0 * (ranks.n_relevant > 0).double()


class Rounded(RowMeanMetric):
    """Returns float32, which has lost digits."""

    higher_is_better = True

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return (ranks.hits_at(k) > 0).float()


class WrongDirection(RowMeanMetric):
    """Recall, of which a higher value is better."""

    higher_is_better = False

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return divide(ranks.hits_at(k), ranks.n_relevant)


class Raises(RowMeanMetric):
    """Raises an IndexError."""

    higher_is_better = True

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        values: list[Tensor] = []
        return values[k]


@pytest.mark.parametrize(
    ("metric", "law"),
    [
        (
            OneTerm,
            "Read valid batches, .* It raised TypeError: OneTerm: _row_terms returned",
        ),
        (
            Raises,
            "Read valid batches, .* It raised IndexError: list index out of range",
        ),
        (
            HigherThanItSays,
            "Read valid batches, .* within its bounds. It raised ValueError: .* returned 2",
        ),
        (Rounded, "Read valid batches, .* It raised TypeError: .* returned float32"),
        (
            WrongDirection,
            "at least as good as for the reverse, by its higher_is_better",
        ),
    ],
)
def test_check_metric_reports_wrong_declarations_as_broken_laws(
    metric: type[RowMeanMetric], law: str
) -> None:
    """check_metric raises an AssertionError that names the law, whatever error the
    metric itself raises.
    """
    with pytest.raises(AssertionError, match=f"{metric.__name__}.*must: .*{law}"):
        check_metric(metric, k=2)


def test_check_metric_says_that_a_class_in_a_function_cannot_be_pickled() -> None:
    """check_metric names the law about pickles for a class that stands in a function,
    as in a test.
    """

    class Local(WrongDirection):
        higher_is_better = True

    with pytest.raises(
        AssertionError,
        match="Local.*must: Be pickled: the class stands at the top of a module",
    ):
        check_metric(Local, k=2)


def test_check_metric_exempts_the_value_of_one_rank_from_the_perfect_order() -> None:
    """check_metric accepts a metric of one rank, at which a perfect order may have no
    relevant label left.
    """
    check_metric(RelevanceAtK, k=[1, 3])


def test_check_metric_refuses_instances() -> None:
    """check_metric refuses an object that is no class of metrics, such as an
    instance.
    """
    with pytest.raises(TypeError, match="check_metric: .* is no class of metrics"):
        check_metric(Case("MRR").metric())  # type: ignore[arg-type]
