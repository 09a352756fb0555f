"""Edge cases of formulas: infinities, counts as large as data can be, threads, and
vectors of weights that change.
"""

import math
import sys
from contextlib import nullcontext
from fractions import Fraction
from itertools import accumulate
from operator import mul
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch

from tailmetrics import (
    CrossEntropy,
    F1AtThreshold,
    FBetaAtK,
    GiniAtK,
    LabelAUC,
    LabelFrequency,
    PersonalizationAtK,
    PopularityAtK,
    PropensityScoredRecallAtK,
    Ranking,
    RecallAtK,
    TopKCollection,
    evaluate,
    functional,
    rank,
)
from tailmetrics.ranking import LabelWeights
from tailmetrics.ranking._device import force_plain
from tailmetrics.ranking._target_ranks import weights_at_targets


def test_row_without_weight_does_not_count() -> None:
    """A row of weight 0 does not count, even if its loss is infinite: the other row has
    ln 2.
    """
    metric = CrossEntropy(weighted=True)
    scores = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    metric.update(scores, torch.tensor([1, 1]), row_weights=torch.tensor([0.0, 1.0]))
    assert float(metric.compute()) == pytest.approx(float(np.log(2)))


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("rows", [10, 10**6, 10**10, 7 * 10**11])
def test_label_areas_are_exact_for_the_largest_counts(average: str, rows: int) -> None:
    """Areas and their bounds equal exact fractions for states of up to 10^12 cells,
    Amazon-3M's 2.8 million labels times 700,000 rows.
    """
    relevant = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1], [0, 0, 0, 0]]) * (rows // 10)
    counts = relevant + torch.tensor([[rows, rows // 2, rows // 3, 1]])
    metric = LabelAUC(average=average, bins=4, num_labels=3)
    for name, state in (("scores", counts), ("relevant", relevant)):
        metric.states_of_groups()[0][name].copy_(state)
    metric._update_count = 1
    positives, negatives = relevant.tolist(), (counts - relevant).tolist()
    if average == "micro":
        positives, negatives = (
            [[sum(column) for column in zip(*side, strict=True)]]
            for side in (positives, negatives)
        )
    areas, weights = [], []
    for positive, negative in zip(positives, negatives, strict=True):
        if not sum(positive):
            continue
        below = [0, *accumulate(negative)][:-1]
        right, tied, pairs = (
            sum(map(mul, positive, below)),
            sum(map(mul, positive, negative)),
            sum(positive) * sum(negative),
        )
        areas.append(
            [
                Fraction(right, pairs),
                Fraction(2 * right + tied, 2 * pairs),
                Fraction(right + tied, pairs),
            ]
        )
        weights.append(sum(positive) if average == "weighted" else 1)
    low, middle, high = (
        float(sum(map(mul, side, weights)) / sum(weights))
        for side in map(list, zip(*areas, strict=True))
    )
    assert float(metric.compute()) == pytest.approx(middle, rel=1e-14)
    assert [float(bound) for bound in metric.error_bounds()] == pytest.approx(
        [low, high], rel=1e-14
    )


def test_products_of_large_counts_do_not_overflow() -> None:
    """Products of large counts do not overflow: a label with 10^8 training rows, shown
    10^11 times, has the popularity 10^8.
    """
    exposure, counts = torch.tensor([10**11, 0]), torch.tensor([10**8, 5])
    assert functional.popularity(exposure, counts) == 10**8
    metric = PopularityAtK(k=1, label_counts=counts)
    metric.update(torch.tensor([[0]]), torch.tensor([0]))
    metric.states_of_groups()[0]["shown_at_1"].mul_(10**11)
    assert float(metric.compute()) == 10**8


@pytest.mark.parametrize("form", ["ids", "candidates"])
def test_two_lists_share_a_label_once_however_often_they_show_it(form: str) -> None:
    """The lists 1, 1 and 1, 2 share one label of two places: the overlap is 1/2, and
    the lists 1, 1 and 1, 1 overlap as much.
    """
    overlaps = []
    for second_list in ([1, 2], [1, 1]):
        ids = torch.tensor([[1, 1], second_list])
        preds = ids if form == "ids" else (torch.tensor([[0.9, 0.8]] * 2), ids)
        metric = PersonalizationAtK(k=2, num_labels=3, duplicates="first")
        metric.update(preds, torch.tensor([0, 0]))
        overlaps.append(1 - float(metric.compute()))
    assert overlaps == [0.5, 0.5]


@pytest.mark.parametrize("names", [("overlap", "gini"), ("gini", "overlap")])
def test_overlap_shares_no_state_with_metrics_that_count_places(
    names: tuple[str, str],
) -> None:
    """The lists 1, 1 and 1, 2 share one label of two places, and show label 1 in three
    places of four: the Gini coefficient of the counts 0, 3, 1 is 1/2, in a collection
    as alone.
    """
    metrics = {
        "overlap": PersonalizationAtK(k=2, num_labels=3),
        "gini": GiniAtK(k=2, num_labels=3),
    }
    collection = TopKCollection(
        {name: metrics[name] for name in names}, duplicates="first"
    )
    collection.update(torch.tensor([[1, 1], [1, 2]]), torch.tensor([0, 0]))
    assert collection.compute() == {"overlap": 0.5, "gini": 0.5}


def test_threads_lose_no_row() -> None:
    """Four threads of 300 batches of 5 rows count 6,000 rows and their labels."""
    frequency = LabelFrequency(4, validate_args=False)
    batch = torch.tensor([0, 1, 1, 2, 3])

    def count() -> None:
        for _ in range(300):
            frequency.update(batch)

    threads = [Thread(target=count) for _ in range(4)]
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch_interval)
    assert (frequency.num_rows, frequency.compute().tolist()) == (
        6000,
        [1200, 2400, 1200, 1200],
    )


@pytest.mark.parametrize("form", [nullcontext, force_plain])
def test_weights_are_read_anew_from_each_vector(form: Any) -> None:
    """Weights are read anew from each vector, also if it has the memory of an earlier
    one or its numbers changed.
    """
    with form():
        ranking = rank(torch.eye(2, 4), torch.tensor([0, 1]))
        reused = torch.ones(4)
        for weight in (1.0, 5.0, 7.0):
            reused.fill_(weight)
            for vector in (torch.full((4,), weight), reused):
                weights = LabelWeights.of(vector)
                assert ranking.best(1, weights).tolist() == [[weight], [weight]]
                assert weights_at_targets(ranking, weights)[:, 0].tolist() == [
                    weight,
                    weight,
                ]


PROPENSITY_SCORED = [
    functional.propensity_scored_precision_at_k,
    functional.propensity_scored_recall_at_k,
    functional.propensity_scored_ndcg_at_k,
]


@pytest.mark.parametrize("formula", PROPENSITY_SCORED)
def test_weighted_hits_never_exceed_the_attainable_ones(formula: Any) -> None:
    """Weighted hits of 3,000 random lists never exceed the attainable ones, and a list
    that begins with all relevant labels attains them to the last bit.
    """
    draw = torch.Generator().manual_seed(0)
    weights = 1 + 9 * torch.rand(30, generator=draw, dtype=torch.float64)
    scores = torch.rand(3000, 30, generator=draw)
    relevant = torch.rand(3000, 30, generator=draw) < 0.3
    hits, best = formula(scores, relevant, k=(3, 10), weights=weights)
    assert bool((hits <= best).all())

    order = weights if formula is functional.propensity_scored_ndcg_at_k else scores
    for k in (3, 30):
        n = relevant.sum(dim=1)
        hits, best = formula(relevant * (20 + order), relevant, k=k, weights=weights)
        attains_all = (n <= k) | (order is weights)
        if formula is functional.propensity_scored_recall_at_k:
            attains_all = n <= k
        assert torch.equal(hits[attains_all], best[attains_all])


def test_entropy_of_equal_shares_is_at_most_the_logarithm_of_labels() -> None:
    """The entropy of 1 to 300 labels shown equally often is ln L, to 2e-15 and never
    above.
    """
    for num_labels in range(1, 301):
        exposure = torch.full((num_labels,), 7)
        assert functional.entropy(exposure) <= math.log(num_labels)
        assert functional.entropy(exposure) == pytest.approx(
            math.log(num_labels), abs=2e-15
        )


@pytest.mark.parametrize("beta", [1e9, 1.3e154, 1e155, 1e300])
def test_f_beta_of_a_huge_beta_is_recall(beta: float) -> None:
    """F-beta of a huge beta is recall: 1/2 for 1 of 2 relevant labels among 3
    predictions, as every average and in the formula alone.
    """
    scores, target = torch.tensor([[0.9, 0.5, 0.4, 0.1]]), torch.tensor([[0, 3]])
    for average, expected in (("samples", 0.5), ("micro", 0.5), ("macro", 0.5)):
        metric = FBetaAtK(k=3, beta=beta, average=average, num_labels=4)
        metric.update(scores, target)
        assert float(metric.compute()) == pytest.approx(expected)
    assert float(
        functional.f_beta_at_k(scores, target, k=3, beta=beta)
    ) == pytest.approx(0.5)


GRADES = torch.tensor([[3.0, 0.0]])
INVALID_NUMBERS: list[tuple[Any, str]] = [
    (
        lambda: functional.err_at_k(torch.rand(1, 2), GRADES, k=1, max_gain=2),
        "holds the gain 3, above max_gain=2",
    ),
    (
        lambda: functional.err_at_k(rank(torch.rand(1, 2), GRADES), 1, 2),
        "holds the gain 3, above max_gain=2",
    ),
    (
        lambda: functional.rbp_at_k(torch.rand(1, 2), GRADES, k=1, persistence=1.5),
        "persistence=1.5 is out of range",
    ),
    (
        lambda: functional.rbp_at_k(rank(torch.rand(1, 2), GRADES), 1, persistence=-1),
        "persistence=-1 is out of range",
    ),
    (
        lambda: functional.f_beta_at_k(torch.rand(1, 2), GRADES, k=1, beta=0),
        "beta=0 is out of range",
    ),
    (
        lambda: functional.k_for_recall(torch.rand(1, 2), GRADES, min_recall=2),
        "min_recall=2 is out of range",
    ),
    (
        lambda: functional.inverse_propensities([1, 2], num_train=2),
        "num_train=2 is too small",
    ),
    (
        lambda: functional.inverse_propensities([1, 2], num_train=9, b=-2),
        "b=-2 is out of range",
    ),
    (
        lambda: functional.inverse_propensities([1, -2], num_train=9),
        "label_counts holds -2",
    ),
    (
        lambda: functional.inverse_popularity([1, 2], gamma=-3),
        "gamma=-3 is out of range",
    ),
    (
        lambda: functional.novelty(torch.tensor([1]), torch.tensor([1]), num_train=0),
        "num_train=0 is too small",
    ),
    (
        lambda: functional.propensity_scored_precision_at_k(
            torch.rand(1, 2), GRADES, 1, torch.tensor([1.0, -1.0])
        ),
        "weights holds -1 to 1",
    ),
]


@pytest.mark.parametrize(("call", "message"), INVALID_NUMBERS)
def test_formulas_check_the_numbers_that_metrics_check(call: Any, message: str) -> None:
    """Formulas of arrays and of rankings refuse the numbers that metrics refuse."""
    with pytest.raises(ValueError, match=message):
        call()


def test_weights_of_labels_win_over_training_counts() -> None:
    """Weights of labels win over training counts, in a metric, in a bound metric, and
    in evaluate: 2 of 2 + 1.
    """
    scores, target = torch.tensor([[0.1, 0.9]]), torch.tensor([[True, True]])
    weights = torch.tensor([1.0, 2.0], dtype=torch.float64)
    metrics = [
        PropensityScoredRecallAtK(
            k=1, weights=weights, label_counts=[5, 3], num_train=9
        ),
        PropensityScoredRecallAtK(k=1, weights=weights).bind(
            LabelFrequency.from_counts([5, 3], 9)
        ),
    ]
    for metric in metrics:
        metric.update(scores, target)
        assert float(metric.compute()) == pytest.approx(2 / 3)
    report = evaluate(
        scores,
        target,
        metrics=[PropensityScoredRecallAtK(k=1, weights=weights)],
        label_counts=[5, 3],
    )
    assert report.scalars["psr_weights@1"] == pytest.approx(2 / 3)


def test_thresholds_of_labels_may_be_made_under_a_16_bit_default() -> None:
    """Thresholds of labels may be made under a 16-bit default type.

    Of three labels with thresholds of 0.5 the first is predicted, and relevant with
    another: 2/3.
    """
    torch.set_default_dtype(torch.bfloat16)
    try:
        metric = F1AtThreshold(torch.tensor([0.5, 0.5, 0.5]))
    finally:
        torch.set_default_dtype(torch.float32)
    metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    assert float(metric.compute()) == pytest.approx(2 / 3)


@pytest.mark.parametrize("labels", ["present", "union", "all"])
def test_a_macro_average_of_no_counted_row_is_nan(labels: str) -> None:
    """A macro average without a counted row is NaN, also over all labels; with one
    counted row and no hit it is 0.
    """
    metric = RecallAtK(
        k=1, average="macro", labels=labels, num_labels=3, empty_target_action="skip"
    )
    metric.update(torch.rand(2, 3), torch.tensor([-1, -1]))
    assert metric.compute().isnan()
    metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([2]))
    assert float(metric.compute()) == 0.0


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
@pytest.mark.parametrize("level", [0.1, 0.3, 0.7, 0.9])
def test_a_gain_that_equals_min_gain_is_relevant_in_every_type(
    level: float, dtype: torch.dtype, plain: bool
) -> None:
    """A gain that equals min_gain is relevant in every type and form, because min_gain
    is rounded to the type of the gains.
    """
    scores = torch.tensor([[0.9, 0.1]])
    gains = torch.tensor([[level, 0.0]], dtype=dtype)
    with force_plain() if plain else nullcontext():
        inputs = [
            rank(scores, gains),
            rank(scores, gains.to_sparse_csr()),
            Ranking.from_scores(
                scores, target_ids=torch.tensor([[0]]), target_gains=gains[:, :1]
            ),
            Ranking.from_flat(scores[0], gains[0], torch.tensor([0, 0])),
        ]
        for ranking in inputs:
            metric = RecallAtK(k=1, min_gain=level)
            metric.update(ranking)
            assert float(metric.compute()) == 1
            above = RecallAtK(k=1, min_gain=level * 1.1)
            above.update(ranking)
            assert float(above.compute()) == 0
