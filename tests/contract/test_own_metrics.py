"""A metric of one's own, in a file of one's own: as safe as those of the library, or refused by name."""

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

SCORES = torch.tensor([[0.9, 0.8, 0.7, 0.1], [0.1, 0.7, 0.8, 0.9], [0.4, 0.3, 0.2, 0.1]])
TARGET = torch.tensor([[0, 3], [2, 1], [-1, -1]])
"""Hits among the top 2: 1 of 2, 1 of 2, none of none."""


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
    """The factor taken out of the keywords."""

    stem = "hidden"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        factor = kwargs.pop("factor", 1.0)
        super().__init__(*args, **kwargs)
        self.factor = factor


class Late(Scaled):
    """The factor set after construction."""

    stem = "late"


def late(factor: float, name: str) -> Late:
    """A metric whose arguments do not tell what it is."""
    metric = Late(2, name=name)
    metric.factor = factor
    return metric


@pytest.mark.parametrize(
    "make",
    [lambda f, n: Scaled(2, f, name=n), lambda f, n: Scaled(k=2, factor=f, name=n),
     lambda f, n: Hidden(2, factor=f, name=n), late],
)  # fmt: skip
def test_members_that_differ_in_an_argument_of_their_own_keep_their_own_values(make: Callable[..., Scaled]) -> None:
    """Whether the class says so, by keyword or position, hides it, or is told later: (1/2 + 1/2 + 0) / 3 times factor."""
    collection = TopKCollection([make(1.0, "one"), make(0.0, "zero"), make(3.0, "three")])
    collection.update(SCORES, TARGET)
    values = {key: float(value) for key, value in collection.compute().items()}
    assert values == {"one": 1 / 3, "zero": 0.0, "three": 1.0}


def test_states_are_named_after_the_arguments_wherever_they_are_made() -> None:
    """The same by position and keyword, after pickling and copying; another for another argument, a tensor's values too."""
    metric = Scaled(2, 0.5)
    for same in (Scaled(k=2, factor=0.5), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()):
        assert list(same._defaults) == list(metric._defaults)
    weights = [torch.zeros(2000), torch.zeros(2000).index_fill(0, torch.tensor([1000]), 1.0)]
    names = [tuple(Scaled(2, factor)._defaults) for factor in (0.5, -0.5, 0.25, *weights)]  # type: ignore[arg-type]
    assert len(set(names)) == 5


class GainShare(RowMeanMetric):
    """The gains found among the top k, as a share of the k largest gains of the row."""

    higher_is_better = True
    stem = "gain_share"

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        gain_of_hits = (ranks.target_gains * (ranks.target_ranks <= k)).sum(dim=-1)
        return divide(gain_of_hits, ranks.best(k).sum(dim=-1))


GRADED = torch.tensor([[1.0, 0.0, 3.0, 2.0], [0.0, 2.0, 0.0, 5.0], [4.0, 0.0, 0.0, 0.0]])
COMPANIONS = {
    "none": list,
    "deeper": lambda: [RecallAtK(k=3)],
    "all the list": lambda: [tailmetrics.NDCGAtK(k=4), tailmetrics.MAP(), tailmetrics.MRR()],
}


@pytest.mark.parametrize("companions", COMPANIONS)
def test_what_a_formula_reads_does_not_depend_on_its_companions(companions: str) -> None:
    """At k = 2 a formula sees the targets found at ranks 1 and 2, however deep its companions had the batch ranked.

    Scores are ranked 0 1 2 3, 2 1 0 3 and 1 3 0 2 below; found at 2 are gains of 1, 2 and 0 of the two largest, 5, 7, 4.
    """
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.6], [0.7, 0.8, 0.9, 0.6], [0.7, 0.9, 0.6, 0.8]])
    collection = TopKCollection([GainShare(2), *COMPANIONS[companions]()])
    collection.update(scores, GRADED)
    assert float(collection.compute()["gain_share@2"]) == pytest.approx((1 / 5 + 2 / 7 + 0 / 4) / 3, rel=1e-12)


def returning(values: Callable[[TargetRanks], Any], point: Any = None) -> RowMeanMetric:
    """A metric whose rows have these values."""

    class Own(RowMeanMetric):
        higher_is_better = True
        stem = "own"

        def _row_value(self, placement: TargetRanks, k: int) -> Tensor:
            return values(placement)  # type: ignore[no-any-return]

    if point is None:
        return Own(2)
    return type("Own", (Own,), {"fixed_point": point})(2)


WRONG: list[tuple[Callable[[TargetRanks], Any], Any, type[Exception], str]] = [
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


@pytest.mark.parametrize(("values", "point", "error", "message"), WRONG)
def test_what_cannot_be_added_up_without_loss_is_refused(
    values: Any, point: Any, error: type[Exception], message: str
) -> None:
    """Alone, in a collection and per row; nothing is counted."""
    metric = returning(values, point)
    with pytest.raises(error, match=message):
        metric.update(SCORES, TARGET)
    assert (metric.update_count, int(metric.states_of_groups()[0]["rows"].sum())) == (0, 0)
    with pytest.raises(error, match=message):
        TopKCollection([metric]).update(SCORES, TARGET)
    with pytest.raises(error, match=message):
        metric.row_values(Ranking.from_scores(SCORES, target_ids=TARGET))


def test_what_can_be_added_up_is_not_refused() -> None:
    """A quotient rounded to just above 1; 10^30 as REAL, and 10^300, which counts as infinite."""
    above = 1 + 2**-52
    assert float(returning(lambda p: (p.n_relevant > 0).double() * above)(SCORES, TARGET)) == above * 2 / 3
    assert float(returning(lambda p: p.hits_at(2).double() * 1e30, REAL)(SCORES, TARGET)) == 2e30 / 3
    assert float(returning(lambda p: p.hits_at(2).double() * 1e300, REAL)(SCORES, TARGET)) == float("inf")


class Lift(RatioMetric):
    """Labels that are not found, as a multiple of those that are."""

    higher_is_better = False

    def _row_terms(self, ranks: TargetRanks, k: int) -> tuple[Tensor, Tensor]:
        return 3 * (ranks.n_relevant - ranks.hits_at(k)).double(), ranks.hits_at(k).double()


class Balance(RowMeanMetric):
    """Labels that are found less those that are not."""

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
def test_values_of_a_row_are_within_the_bounds_of_the_class(
    metric: type[RowMeanMetric | RatioMetric], k: int, worst: str, remedy: str, value: float
) -> None:
    """By hand: the rows find 1 and 0 labels in the first place, 1 and 1 in two, 1 and 2 in three, of two labels each."""
    message = f"gives a row the value {worst}, outside of the bounds of the metric, 0 to 1; .* bounds = "
    with pytest.raises(ValueError, match=message + re.escape(remedy)):
        metric(k).update(SCORES, TARGET)
    unbounded = type(metric.__name__, (metric,), {"bounds": (-math.inf, math.inf)})
    assert float(unbounded(k)(SCORES, TARGET)) == value


def test_an_interval_of_real_numbers_ends_beyond_1() -> None:
    """REAL states no upper bound: rows are worth 0 and 1000 in turn, 500 on average, and never 1 at most."""
    scores, target = torch.eye(2).repeat(20, 1), torch.zeros(40, dtype=torch.int64)
    (record,) = evaluate(scores, target, metrics=[Scaled(1, factor=1000.0)]).records
    low, high = record.ends
    assert 1 < low < record.value == 500 < high


def test_terms_of_a_ratio_are_held_to_the_same() -> None:
    """float32 in a denominator, and a term per row."""

    class Own(RatioMetric):
        higher_is_better = True
        stem = "own"
        fixed_point = REAL
        denominator: ClassVar[Callable[[Tensor], Tensor]] = staticmethod(Tensor.double)

        def _row_terms(self, ranks: TargetRanks, k: int) -> tuple[Tensor, Tensor]:
            return ranks.hits_at(k).double(), type(self).denominator(ranks.n_relevant)

    assert float(Own(2)(SCORES, TARGET)) == 2 / 4
    Own.denominator = staticmethod(Tensor.float)
    with pytest.raises(TypeError, match=r"Own: _row_terms returned float32 \[3\]; return float64"):
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


@pytest.mark.parametrize(("metric", "returned"), [(OneTerm, r"float64 \[3\]"), (ThreeTerms, "a tuple of 3")])
def test_a_ratio_has_two_terms(metric: type[RatioMetric], returned: str) -> None:
    """Another number of terms is refused by name."""
    message = f"{metric.__name__}: _row_terms returned {returned}; return two tensors, the terms of the numerator"
    with pytest.raises(TypeError, match=message):
        metric(2).update(SCORES, TARGET)


def test_fractions_are_no_counts() -> None:
    """The remedy is whole numbers, or no counts, and not float64 again."""

    class Own(RowMeanMetric):
        higher_is_better = True
        fixed_point = COUNT

        def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
            return divide(ranks.hits_at(k), ranks.n_relevant)

    with pytest.raises(TypeError, match=r"returned float64 \[3\]; return bools or whole numbers, .* leave fixed_point"):
        Own(2).update(SCORES, TARGET)


def test_a_class_without_a_stem_has_its_name_as_key() -> None:
    """In small letters, as the metrics of the library have it; a stem of its base stays."""

    class FirstHitsAtK(RowMeanMetric):
        higher_is_better = True

        def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
            return divide(ranks.hits_at(k), ranks.n_relevant)

    class MyNDCGAtK(FirstHitsAtK):
        stem = "mine"

    class Derived(MyNDCGAtK):
        """Another formula."""

    assert [kind(k=2).keys() for kind in (FirstHitsAtK, MyNDCGAtK, Derived)] == [
        ["first_hits@2"],
        ["mine@2"],
        ["mine@2"],
    ]


# check_metric holds what is lawful, and names the law that a metric breaks


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EACH_BASE)
def test_a_metric_of_each_base_is_lawful(name: str) -> None:
    """Of the library, with arguments that do for it."""
    arguments = {"min_recall": 0.5} if name == "KForRecall" else {"k": [1, 4]} if name.endswith("AtK") else {}
    if "tree" in registered(name).settings():
        arguments["tree"] = LabelTree([-1, *range(NUM_LABELS - 1)])
    assert isinstance(registered(name), REGISTRY[name])
    check_metric(REGISTRY[name], **arguments)


class Forgetful(RowMeanMetric):
    """A metric with an argument of its own, by someone who wrote the formula and forgot everything else."""

    higher_is_better = True
    stem = "forgetful"

    def __init__(self, k: int, *, power: float = 1.0, **kwargs: Any) -> None:
        self.power = power
        super().__init__(k, **kwargs)

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return divide(ranks.hits_at(k), ranks.n_relevant) ** self.power


def test_a_metric_of_ones_own_is_lawful_and_its_argument_is_everywhere() -> None:
    """State, key, repr and settings tell one power from another."""
    check_metric(Forgetful, k=3, power=2.0)
    plain, squared = Forgetful(3), Forgetful(3, power=2.0)
    assert set(plain.metric_state).isdisjoint(squared.metric_state)
    assert (plain.keys(), squared.keys()) == (["forgetful@3"], ["forgetful_power2@3"])
    assert (repr(plain), repr(squared)) == ("Forgetful(k=3)", "Forgetful(k=3, power=2.0)")
    assert (plain.settings()["power"], squared.settings()["power"]) == (1.0, 2.0)


class Remembers(RowMeanMetric):
    """Depends on the batches it saw."""

    higher_is_better = True
    stem = "remembers"
    fixed_point = COUNT

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return (ranks.n_relevant > 0) & (ranks.hits_at(k) > 0) & torch.tensor(len(ranks.n_relevant) > 20)


def test_the_law_that_is_broken_is_named() -> None:
    """A value that depends on the size of the batch."""
    with pytest.raises(AssertionError, match="Remembers.*must: Have the same value, to the last bit, for one batch"):
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
    """Looks up what is not there."""

    higher_is_better = True

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        values: list[Tensor] = []
        return values[k]


@pytest.mark.parametrize(
    ("metric", "law"),
    [
        (OneTerm, "Read valid batches, .* It raised TypeError: OneTerm: _row_terms returned"),
        (Raises, "Read valid batches, .* It raised IndexError: list index out of range"),
        (HigherThanItSays, "Read valid batches, .* within its bounds. It raised ValueError: .* returned 2"),
        (Rounded, "Read valid batches, .* It raised TypeError: .* returned float32"),
        (WrongDirection, "at least as good as for the reverse, by its higher_is_better"),
    ],
)
def test_what_a_metric_declares_wrongly_is_a_broken_law(metric: type[RowMeanMetric], law: str) -> None:
    """An AssertionError with the law, whatever the metric raises itself."""
    with pytest.raises(AssertionError, match=f"{metric.__name__}.*must: .*{law}"):
        check_metric(metric, k=2)


def test_the_law_of_the_perfect_order_is_not_about_one_rank() -> None:
    """At rank 3 a perfect order may have run out of relevant labels."""
    check_metric(RelevanceAtK, k=[1, 3])


def test_what_is_no_class_of_metrics_is_refused() -> None:
    """An instance, or something else."""
    with pytest.raises(TypeError, match="check_metric: .* is no class of metrics"):
        check_metric(Case("MRR").metric())  # type: ignore[arg-type]
