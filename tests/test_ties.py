"""Equal scores: the mean, the worst and the best over all their orders equal those of
every order one by one.
"""

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain, permutations, product
from math import comb
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from cases import fed, registered
from tailmetrics import Ranking
from tailmetrics.metrics import _readings, _spans
from tailmetrics.ranking._device import force_plain

KS = tuple(range(1, 8))
WEIGHTS = torch.tensor([1.0, 2.5, 4.0, 1.5, 3.0, 9.0, 2.0], dtype=torch.float64)


@cache
def rows(count: int) -> list[tuple[Tensor, Tensor]]:
    """Return scores of 7 labels, with few distinct values and some not retrieved, and
    gains of 1 to 3 labels.
    """
    source, batches = Random(1), []
    for _ in range(count):
        levels = source.choice([1, 2, 3, 7])
        scores = [
            source.choice([float(source.randrange(levels))] * 6 + [-torch.inf])
            for _ in range(7)
        ]
        gains = [0.0] * 7
        for label in source.sample(range(7), source.randint(1, 3)):
            gains[label] = float(source.randint(1, 3))
        batches.append(
            (
                torch.tensor([scores], dtype=torch.float64),
                torch.tensor([gains], dtype=torch.float64),
            )
        )
    return batches


@cache
def all_orders(*values: float) -> Tensor:
    """Return every list of labels with these scores, a row each."""
    levels = sorted({value for value in values if value > -torch.inf}, reverse=True)
    spans = [
        [label for label in range(7) if values[label] == level] for level in levels
    ]
    lists = [list(chain(*parts)) for parts in product(*map(permutations, spans))]
    return torch.tensor(lists, dtype=torch.int64).view(len(lists), -1)


@pytest.mark.parametrize("tied", [1, 2, 5])
def test_expected_reciprocal_rank_of_long_ties_is_exact(tied: int) -> None:
    """The expected reciprocal rank of ``tied`` relevant labels among 9,000 equal ones
    equals exact fractions.
    """
    size, above = 9000, 3
    scores = torch.zeros(1, size + above)
    scores[0, :above] = 1
    whole = comb(size, tied)
    expected = sum(
        float(Fraction(comb(size - j, tied - 1), whole)) / (above + j)
        for j in range(1, size - tied + 2)
    )
    value = tailmetrics.MRR(ties="expected")(
        scores, torch.arange(above, above + tied)[None]
    )
    assert float(value) == pytest.approx(expected, rel=1e-12)


BUCKETS = tailmetrics.LabelBuckets.from_assignment([0, 1, 0, 1, 1, 0, 1], ["a", "b"])
METRICS: list[tuple[str, dict[str, Any]]] = [
    *(
        (name, {"k": KS})
        for name in (
            "HitRateAtK",
            "RecallAtK",
            "PrecisionAtK",
            "F1AtK",
            "NDCGAtK",
            "RBPAtK",
        )
    ),
    *(
        (name, {"k": KS})
        for name in (
            "AccuracyAtK",
            "NormalizedRecallAtK",
            "FBetaAtK",
            "MRR",
            "MAP",
            "RelevanceAtK",
        )
    ),
    ("PrecisionAtK", {"k": KS, "denominator": "k"}),
    ("MAP", {"k": KS, "denominator": "attainable"}),
    *((name, {}) for name in ("NDCGAtK", "MRR", "MAP", "RPrecision")),
    ("PropensityScoredPrecisionAtK", {"k": KS, "weights": WEIGHTS}),
    ("PropensityScoredRecallAtK", {"k": KS, "weights": WEIGHTS}),
    ("PropensityScoredNDCGAtK", {"k": KS, "weights": WEIGHTS}),
]
UNBOUNDED: list[tuple[str, dict[str, Any]]] = [
    ("FallOutAtK", {"k": KS}),
    ("CGAtK", {"k": KS}),
    ("DCGAtK", {"k": KS, "gain": "exponential"}),
]


def test_every_metric_with_expected_ties_is_tested_here() -> None:
    """The tables of this file hold every metric that takes ``ties="expected"``."""
    names = {
        name
        for name in tailmetrics.REGISTRY
        if "expected" in registered(name).reading.tie_rules
    }
    assert names == {name for name, _ in METRICS + UNBOUNDED}


CUT = {"buckets": BUCKETS, "depth": 4}


@pytest.mark.parametrize(
    "by",
    [{}, {"buckets": BUCKETS}, {"buckets": BUCKETS, "scope": "global"}, CUT],
    ids=str,
)
@pytest.mark.parametrize(("name", "arguments"), METRICS + UNBOUNDED)
def test_expected_ties_are_means_over_all_orders(
    name: str, arguments: dict[str, Any], by: dict[str, Any]
) -> None:
    """ties="expected" gives the mean over all orders to 1e-12, overall and in both
    scopes.

    Dense scores and candidates have the same bits, in any batches.
    """
    batch = [row for row in rows(25) if row[0].isfinite().any()]
    scores, gains = (torch.cat(side) for side in zip(*batch, strict=True))
    rule = {
        "empty_target_action": "neg",
        "num_labels": None if by else 7,
        **arguments,
        **by,
    }
    listed = getattr(tailmetrics, name)(weighted=True, **rule)
    for row_scores, relevant in batch:
        lists = all_orders(*row_scores[0].tolist())
        weights = torch.full((len(lists),), 1 / len(lists), dtype=torch.float64)
        listed.update(lists, relevant.expand(len(lists), 7), row_weights=weights)
    order = torch.rand(
        scores.shape, generator=torch.Generator().manual_seed(0)
    ).argsort(dim=1)
    shuffled = scores.gather(1, order)
    candidates = (shuffled, order.masked_fill(shuffled == -torch.inf, -1))
    values = []
    for preds in (scores, candidates):
        metric = getattr(tailmetrics, name)(ties="expected", **rule)
        for part in (slice(0, 7), slice(7, None)):
            part_preds = (
                preds[part] if preds is scores else (preds[0][part], preds[1][part])
            )
            metric.update(part_preds, gains[part])
        values.append(metric.compute())
    assert values[0].flatten().tolist() == pytest.approx(
        listed.compute().flatten().tolist(), abs=1e-12
    )
    assert values[0].tolist() == values[1].tolist()


@cache
def all_orders_of_row(number: int) -> Ranking:
    """Return all lists of a row with its gains."""
    scores, gains = rows(28)[number]
    lists = all_orders(*scores[0].tolist())
    return Ranking.from_ids(
        lists, target_gains=gains.expand(len(lists), 7), num_labels=7
    )


DEPTHS = [{}, *({"buckets": BUCKETS, "depth": depth} for depth in (2, 4, 7))]


@pytest.mark.parametrize("ties", ["worst", "best"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [*METRICS, *UNBOUNDED, ("ERRAtK", {"k": KS, "max_gain": 3.0})],
)
@pytest.mark.slow
def test_worst_and_best_are_those_of_all_orders(
    name: str, arguments: dict[str, Any], ties: Any
) -> None:
    """ties="worst" and ties="best" give the worst and the best value of all orders, for
    each row and bucket, also if a list ends among equal scores.
    """
    rules = [
        {
            "empty_target_action": "neg",
            **({} if by else {"num_labels": 7}),
            **arguments,
            **by,
        }
        for by in DEPTHS
    ]
    pairs = [
        [getattr(tailmetrics, name)(**rule, **order) for order in ({}, {"ties": ties})]
        for rule in rules
    ]
    for number, (scores, gains) in enumerate(rows(28)):
        if not scores.isfinite().any():
            continue
        listed, metric = pairs[number % len(DEPTHS)]
        every = listed.row_values(all_orders_of_row(number))
        row_values = metric.row_values(
            Ranking.from_scores(scores, target_gains=gains, depth=7)
        )
        is_largest = (ties == "best") == metric.higher_is_better
        for key, own_values in zip(every, row_values.values(), strict=True):
            ours, orders = (
                two[0] if isinstance(two, tuple) else two
                for two in (own_values, every[key])
            )
            expected = float(orders.max() if is_largest else orders.min())
            assert float(ours) == pytest.approx(expected, abs=1e-12), (
                key,
                scores,
                gains,
            )


@pytest.mark.parametrize("by", [{}, {"buckets": BUCKETS}], ids=str)
def test_values_lie_between_worst_and_best_and_below_the_attainable_value(
    by: dict[str, Any],
) -> None:
    """For each row, worst <= value <= best <= attainable in the metric's own direction,
    and chance <= attainable.

    Metrics of which less is better have no attainable value.
    """
    metrics = []
    for number, (name, arguments) in enumerate(METRICS + UNBOUNDED):
        metrics.append(
            getattr(tailmetrics, name)(name=f"{name}{number}", **arguments, **by)
        )
    collection = tailmetrics.TopKCollection(
        metrics, references=["chance", "attainable"]
    ).with_orders()
    signs = {
        key: 1 if metric.higher_is_better else -1
        for metric in metrics
        for key in list(metric.keys())
    }
    for scores, gains in rows(12):
        collection.reset()
        collection.update(scores.clamp(min=-1), gains)
        listed, orders, references = (
            collection.compute(),
            collection.orders(),
            collection.references(),
        )
        for key, value in listed.items():
            attainable = references["attainable"].get(
                key, torch.tensor(signs[key] * math.inf)
            )
            low, middle, high, attainable = (
                signs[key] * float(number)
                for number in (
                    orders["worst"][key],
                    value,
                    orders["best"][key],
                    attainable,
                )
            )
            assert (attainable == math.inf) == (signs[key] < 0)
            if middle == middle:
                assert low - 1e-12 <= middle <= high + 1e-12 <= attainable + 2e-12, (
                    key,
                    scores,
                    gains,
                )
                assert (
                    signs[key] * float(references["chance"][key]) <= attainable + 1e-12
                ), key


def test_orders_of_relevance_at_a_rank() -> None:
    """Relevance at rank 2 of two equal scores, one of them relevant, is 0 in the worst
    order, 1/2 expected and 1 in the best; with two relevant ones it is 1 in every
    order.
    """
    for target, expected in (
        ([[0, -1]], [0, 0.5, 1, 1]),
        ([[0, 1]], [1, 1, 1, 1]),
        ([[2, -1]], [0, 0, 0, 1]),
    ):
        collection = tailmetrics.TopKCollection(
            [tailmetrics.RelevanceAtK(k=2)], references=["attainable"]
        ).with_orders()
        collection.update(torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor(target))
        scalars = [
            *(collection.orders()[name] for name in ("worst", "expected", "best"))
        ]
        scalars.append(collection.references()["attainable"])
        assert [float(values["relevance@2"]) for values in scalars] == expected


def test_expected_ndcg_of_relevant_ties_is_one() -> None:
    """The expected nDCG is 1, and never more by rounding, if only relevant labels are
    tied at the top, at any depth.
    """
    for n in range(2, 40):
        target = torch.arange(2 * n) < n
        value = tailmetrics.NDCGAtK(k=list(range(1, n + 1)), ties="expected")(
            target[None].float(), target[None]
        )
        assert value.max() <= 1
        assert value.tolist() == pytest.approx([1] * n, abs=1e-15)


def test_ties_argument_is_refused_without_scores_or_a_closed_form() -> None:
    """ties= is refused for ids, and for metrics without a closed form: averages over
    labels, ERR, thresholds, and the expected KForRecall. KForRecall has a worst and a
    best value.
    """
    with pytest.raises(ValueError, match="preds are ids"):
        tailmetrics.RecallAtK(2, ties="expected").update(
            torch.tensor([[0, 1]]), torch.tensor([0])
        )
    for factory in (
        lambda: tailmetrics.RecallAtK(2, average="micro", ties="expected"),
        lambda: tailmetrics.ERRAtK(2, ties="expected"),
        lambda: tailmetrics.KForRecall(0.5, ties="expected"),
        lambda: tailmetrics.F1AtThreshold(0.5, ties="worst"),
    ):
        with pytest.raises((ValueError, TypeError), match="ties"):
            factory()
    scores = torch.zeros(1, 5)
    for ties, expected in (("worst", 5.0), ("best", 1.0)):
        metric = tailmetrics.KForRecall(1.0, ties=ties)
        metric.update(scores, torch.tensor([2]))
        assert float(metric.compute()) == expected


@pytest.mark.parametrize("name", ["RecallAtK", "NDCGAtK", "MAP", "MRR"])
@pytest.mark.parametrize(
    "by", [{}, {"buckets": BUCKETS}, {"buckets": BUCKETS, "scope": "global"}], ids=str
)
def test_odd_inputs_have_values_in_order_and_in_both_forms(
    name: str, by: dict[str, Any]
) -> None:
    """Worst, expected and best values are in order and in [0, 1], with the same bits in
    both forms, for few candidates or none, nothing retrieved, nothing relevant, and no
    row.
    """
    generator = torch.Generator().manual_seed(8)
    scores, gains = (
        torch.randint(0, 3, (9, 7), generator=generator).float() for _ in range(2)
    )
    ids = torch.arange(7).expand(9, 7).contiguous()
    inputs: list[tuple[Any, Any]] = [
        (scores.bfloat16().T.contiguous().T, torch.arange(9) % 7),
        (scores.to_sparse_csr(), gains),
        ((scores[:, :3], ids[:, :3].contiguous()), gains > 0),
        ((scores[:, :0], ids[:, :0]), gains),
        (scores.masked_fill(scores == 0, -torch.inf), gains),
        (torch.full((9, 7), -torch.inf), gains),
        (scores, torch.full((9, 2), -1)),
        (scores, ids[:, :0]),
        (scores[:0], gains[:0]),
    ]
    for batch in inputs:
        values = []
        for form in (nullcontext, force_plain):
            metrics = [
                getattr(tailmetrics, name)(k=KS, ties=ties, **by)
                for ties in ("worst", "expected", "best")
            ]
            with form():
                values.append(
                    [
                        fed(metric, *batch).compute().flatten().nan_to_num(0.5).tolist()
                        for metric in metrics
                    ]
                )
        assert values[0] == values[1]
        for low, mean, high in zip(*values[0], strict=True):
            assert 0 <= low <= mean + 1e-12 <= high + 2e-12 <= 1 + 3e-12


@pytest.mark.parametrize(
    "by", [{}, {"buckets": "b"}, {"buckets": "b", "scope": "global"}], ids=str
)
def test_only_tied_rows_are_ranked_again(
    by: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only rows with equal scores are ranked again: 7 of 60, with the values of ranking
    all rows again.

    Without equal scores no row is, and no score is compared again.
    """
    num_ranked_rows: list[int] = []
    ranking_of_rows, spans_of = _spans._ranking_of_rows, _spans.spans_of
    monkeypatch.setattr(
        _spans,
        "_ranking_of_rows",
        lambda ranking, rows: (
            num_ranked_rows.append(len(rows)) or ranking_of_rows(ranking, rows)
        ),
    )
    generator = torch.Generator().manual_seed(9)
    scores = torch.rand(60, 40, generator=generator).argsort(dim=1).double()
    distinct = scores.clone()
    scores[:7] = scores[:7].clamp(max=37)
    target = torch.rand(60, 40, generator=generator) < 0.1
    buckets = tailmetrics.LabelBuckets.from_assignment(
        [label % 3 for label in range(40)], list("abc")
    )
    rule = {**by, "buckets": buckets} if by else {"num_labels": 40}
    if by.get("scope") != "global" and by:
        rule["depth"] = 9
    for name in ("RecallAtK", "NDCGAtK", "MRR", "MAP"):
        for ties in ("expected", "worst"):
            values = []
            for ranks_all_rows in (False, True):
                metric = getattr(tailmetrics, name)(k=4, ties=ties, **rule)
                if ranks_all_rows:
                    with monkeypatch.context() as patched:
                        patched.setattr(
                            _readings,
                            "spans_of",
                            lambda *arguments: spans_of(*arguments[:2], True),
                        )
                        metric.update(scores, target)
                else:
                    metric.update(scores, target)
                values.append(metric.compute().tolist())
            assert values[0] == pytest.approx(values[1], abs=1e-15)
    assert max(num_ranked_rows) <= 7
    assert num_ranked_rows
    for name in ("_ranking_of_rows", "_spans_by_counting", "_counts"):
        monkeypatch.setattr(_spans, name, None)
    metric.reset()
    metric.update(distinct, target)


def part_of(argument: Any, part: slice) -> Any:
    """Return the rows of one argument of an update; of a pair, those of both of its
    tensors.
    """
    if isinstance(argument, tuple):
        return tuple(side[part] for side in argument)
    return argument[part]


@pytest.mark.parametrize("turn", range(4))
def test_orders_of_a_collection_are_metrics_of_these_orders(
    turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """with_orders() of a collection has the bits of metrics with ties=, in any parts.

    Batches have equal scores or none, and are dense or listed. Every second metric is
    tested by turns. Without equal scores no order is computed.
    """
    generator = torch.Generator().manual_seed(3)
    tied, gains = (
        torch.cat(side)
        for side in zip(
            *(row for row in rows(25) if row[0].isfinite().any()), strict=True
        )
    )
    distinct = torch.rand(30, 7, generator=generator).argsort(dim=1).double()
    relevant = torch.rand(30, 7, generator=generator) < 0.4
    listed = distinct.sort(dim=1, descending=True)
    padded = torch.where(
        torch.arange(7) < torch.arange(30)[:, None] % 8, listed.indices, -1
    )
    row_mask = torch.arange(30) % 3 > 0
    batches = [
        (tied, gains),
        (distinct, relevant),
        ((listed.values, padded), relevant),
        (distinct, relevant, row_mask),
    ]
    by = [{}, {"buckets": BUCKETS}, {"buckets": BUCKETS, "scope": "global"}, CUT][turn]
    turn_metrics = (METRICS + UNBOUNDED)[turn % 2 :: 2]
    rule = by or {"num_labels": 7}
    metrics = []
    for number, (name, arguments) in enumerate(turn_metrics):
        metrics.append(
            getattr(tailmetrics, name)(name=f"{name}{number}", **arguments, **rule)
        )
    collection, in_parts = (
        tailmetrics.TopKCollection([metric.clone() for metric in metrics]).with_orders()
        for _ in range(2)
    )
    for batch in batches:
        collection.update(*batch)
        for part in (slice(0, 1), slice(1, 2), slice(2, 9), slice(9, None)):
            in_parts.update(*(part_of(argument, part) for argument in batch))
    assert str(in_parts.orders()) == str(collection.orders())
    for order, values in collection.orders().items():
        expected: dict[str, float] = {}
        for metric in (
            metric for metric in metrics if order in metric.reading.tie_rules
        ):
            settings = metric.settings() | {"ties": order}
            if settings.get("weights") is not None:  # weights replace a and b
                del settings["a"], settings["b"]
            metric_with_order = type(metric)(**settings)
            for batch in batches:
                metric_with_order.update(*batch)
            expected |= zip(
                metric.keys(),
                map(float, metric_with_order.scalars().values()),
                strict=True,
            )
        assert {key: float(value) for key, value in values.items()} == pytest.approx(
            expected, nan_ok=True, abs=0, rel=0
        )
    shallow = tailmetrics.TopKCollection(
        [metric for metric in metrics if metric.k is not None]
    ).with_orders()
    for name in ("spans_of", "in_order"):
        monkeypatch.setattr(_readings, name, None)
    for batch in batches[1:]:
        shallow.update(*batch)


def is_cut_inside_a_tie(scores: Tensor, cut: int) -> bool:
    """Return whether equal scores are on both sides of a cut-off of one row, by a loop
    over its list.
    """
    retrieved = sorted(
        (float(score) for score in scores if score > -torch.inf), reverse=True
    )
    return cut < len(retrieved) and retrieved[cut - 1] == retrieved[cut]


TIED_BY: list[dict[str, Any]] = [
    {},
    {"buckets": BUCKETS, "scope": "global"},
    {"buckets": BUCKETS, "depth": 5},
    {"buckets": BUCKETS, "depth": 7},
]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("by", TIED_BY, ids=str)
def test_rows_with_equal_scores_at_a_cut_off_are_counted(
    by: dict[str, Any], plain: bool
) -> None:
    """The warning states the share of rows with equal scores on both sides of a
    cut-off.

    It equals a loop: in batches, merged, masked and weighted, and without the scores
    themselves. The share is that of the cut-off with most of them, among rows that list
    something.
    """
    batch = [scores for scores, _ in rows(60)]
    scores, target = torch.cat(batch), torch.arange(60) % 7
    depth = by.get("depth")
    cuts = [1, 3] if depth is None else [1, 3, depth]
    flags = [
        [is_cut_inside_a_tie(row_scores, cut) for cut in cuts] for row_scores in scores
    ]
    is_tied = torch.tensor(flags, dtype=torch.float64)
    mask, weights = torch.arange(60) % 4 > 0, 1.0 + torch.arange(60) % 3
    with force_plain() if plain else nullcontext():
        metrics = [tailmetrics.NDCGAtK([1, 3], **by) for _ in range(2)]
        for metric, half in zip(metrics, (slice(0, 25), slice(25, 60)), strict=True):
            ranking = tailmetrics.rank(
                scores[half], target[half], depth or 3, mask[half]
            )
            # only the list
            metric.update(ranking if plain else replace(ranking, scores=None))
        metrics[0].merge_state(metrics[1])
        with pytest.warns(
            UserWarning,
            match=f"{float(is_tied[mask].mean(dim=0).max()):.1%} of the rows have equal scores",
        ):
            metrics[0].compute()
        weighted = tailmetrics.NDCGAtK([1, 3], weighted=True, **by)
        weighted.update(scores, target, mask, row_weights=weights)
    share = float(
        (weights[:, None] * is_tied)[mask].sum(dim=0).max() / weights[mask].sum()
    )
    with pytest.warns(UserWarning, match=f"{share:.1%} of the rows have equal scores"):
        weighted.compute()


def warnings_of_ties(compute: Callable[[], Any]) -> list[str]:
    """Return the warnings of equal scores that a call gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compute()
    return [
        str(warning.message)
        for warning in caught
        if "equal scores" in str(warning.message)
    ]


def ties_with_another(scores: Tensor, relevant: Tensor, first: bool) -> bool:
    """Return whether a relevant label, or the best of them, has the score of another
    label, by a loop over the row.
    """
    relevant_scores = [float(score) for score in scores[relevant] if score > -torch.inf]
    return any(
        sum(float(other) == score for other in scores) > 1
        for score in ([max(relevant_scores, default=0.5)] if first else relevant_scores)
    )


@pytest.mark.filterwarnings("ignore:.*most lists end before that")
@pytest.mark.parametrize("form", ["dense", "ids", "lists"])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", ["MRR", "MAP", "NDCGAtK", "RPrecision", "KForRecall"])
def test_rows_are_counted_in_which_a_relevant_label_ties(
    name: str, plain: bool, form: str
) -> None:
    """The warning of metrics without a cut-off states the share of rows in which a
    relevant label ties.

    It equals a loop, of all rows that count, in every form: in batches, merged and
    masked, for scores of all labels, for lists, and for targets as ids. KForRecall
    reads lists, and takes the share of rows that list a label. A matrix of relevant
    labels on a device is only tested for the best one.
    """
    scores, gains = (torch.cat(side) for side in zip(*rows(60), strict=True))
    scores[[3, 8, 41]] = -torch.inf
    relevant, mask = gains > 0, torch.arange(60) % 5 > 0
    ids = (
        torch.where(relevant, torch.arange(7), -1)
        .sort(dim=1, descending=True)
        .values[:, :4]
    )
    target = ids if form == "ids" else relevant
    rule: dict[str, Any] = {"min_recall": 0.5} if name == "KForRecall" else {}
    listed = form == "lists" or name == "KForRecall"
    first = name == "MRR"
    with force_plain() if plain else nullcontext():
        metrics = [getattr(tailmetrics, name)(num_labels=7, **rule) for _ in range(2)]
        for metric, half in zip(metrics, (slice(0, 24), slice(24, 60)), strict=True):
            preds: Any = scores[half]
            if form == "lists":
                preds = scores[half], torch.arange(7).expand(preds.shape)
            metric.update(preds, target[half], mask[half])
        metrics[0].merge_state(metrics[1])
        messages = warnings_of_ties(metrics[0].compute)
    counted_rows = [row for row in range(60) if mask[row]]
    if name == "KForRecall":
        counted_rows = [row for row in counted_rows if scores[row].max() > -torch.inf]
    if plain and form == "dense" and not first and not listed:
        assert not messages
        return
    share = sum(
        ties_with_another(scores[row], relevant[row], first) for row in counted_rows
    ) / len(counted_rows)
    assert [
        warning.split(": ")[1].split(" of the rows")[0] for warning in messages
    ] == [f"{share:.1%}"]
    assert "a relevant label and another label" in messages[0]


def test_ties_by_bucket_are_counted_down_to_the_depth() -> None:
    """By bucket, ties are counted down to the depth of the list.

    Scores 4, 2, 2, 1, 1: at depth 3 no tie is across the end and 25 % of rows have a
    tied relevant label; at depth 4 all rows are cut inside a tie.
    """
    buckets = tailmetrics.LabelBuckets.from_assignment(
        [0, 0, 1, 1, 1], ["head", "tail"]
    )
    scores = torch.tensor([[4.0, 2, 2, 1, 1]]).expand(40, 5)
    target = torch.tensor([0, 3, 4, 1]).repeat(10)
    for factory in (
        tailmetrics.MAP,
        tailmetrics.MRR,
        lambda **options: tailmetrics.KForRecall(1.0, **options),
    ):
        metric = factory(buckets=buckets, depth=3)
        metric.update(scores, target)
        (message,) = warnings_of_ties(metric.compute)
        assert ": 25.0% of the rows have equal scores for a relevant label" in message
        metric = factory(buckets=buckets, depth=4)
        metric.update(scores, target)
        (message,) = warnings_of_ties(metric.compute)
        assert (
            ": 100.0% of the rows have equal scores on both sides of a cut-off"
            in message
        )


def test_warning_of_equal_scores_comes_once_above_one_percent() -> None:
    """A metric or collection warns of equal scores once, in compute and not in forward.

    It does not warn with ties=, for ids, or up to 1 % of the rows.
    """
    distinct, target = (
        torch.arange(400.0).view(100, 4),
        torch.zeros(100, dtype=torch.int64),
    )
    tied = distinct.clone()
    tied[0, 1:3] = 1.0
    two_tied = tied.clone()
    two_tied[1, 1:3] = 5.0
    for factory, caller in (
        (lambda: tailmetrics.RecallAtK(2), "RecallAtK"),
        (
            lambda: tailmetrics.TopKCollection(
                [tailmetrics.RecallAtK(2), tailmetrics.MRR()]
            ),
            "TopKCollection",
        ),
    ):
        metric = factory()
        metric.update(two_tied, target)
        (message,) = warnings_of_ties(metric.compute)
        assert message.startswith(f"{caller}: 2.0% of the rows")
        assert "ties='expected'" in message
        metric.reset()
        metric.update(two_tied, target)
        assert not warnings_of_ties(metric.compute)
        for scores in (distinct, tied):
            metric = factory()
            assert not warnings_of_ties(
                lambda metric=metric, scores=scores: metric(scores, target)
            )
            assert not warnings_of_ties(metric.compute)
        metric = factory()
        assert not warnings_of_ties(lambda metric=metric: metric(two_tied, target))
        assert warnings_of_ties(metric.compute)
    for metric, preds in (
        (tailmetrics.RecallAtK(2, ties="worst"), two_tied),
        (tailmetrics.MRR(), two_tied),
        (tailmetrics.RecallAtK(2, num_labels=4), torch.arange(4).expand(100, 4)),
    ):
        metric.update(preds, target)
        assert not warnings_of_ties(metric.compute)
    for average in ("macro", "none"):
        metric = tailmetrics.RecallAtK(2, average=average, num_labels=4)  # type: ignore[arg-type]
        metric.update(two_tied, target)
        assert "float32" in warnings_of_ties(metric.compute)[0]


def test_last_label_of_a_whole_list_does_not_tie() -> None:
    """The last label of a whole list does not tie, although other labels of the row
    do.
    """
    candidates = (
        torch.tensor([[0.9, 0.9, 0.1], [0.9, 0.5, 0.1]]),
        torch.tensor([[0, 1, 2], [0, 1, 2]]),
    )
    metric = fed(tailmetrics.MRR(), candidates, torch.tensor([2, 2]))
    assert metric.result().tied_shares == {None: 0.0}
    metric = fed(tailmetrics.MRR(), candidates, torch.tensor([0, 2]))
    assert metric.result().tied_shares == {None: 0.5}


@pytest.mark.parametrize(
    "name", ["MRR", "MAP", "RPrecision", "NDCGAtK", "DCGAtK", "CGAtK"]
)
def test_share_of_ties_does_not_depend_on_batches(name: str) -> None:
    """The share of ties does not depend on batches or the order of rows, in the plain
    form: 25 % of 64 rows.
    """
    draw = torch.Generator().manual_seed(1)
    scores = torch.rand(64, 12, generator=draw).argsort(dim=1).float()
    scores[1::4] = 1.0
    target = torch.arange(64) % 12
    shares = set()
    with force_plain():
        for size, shift in ((1, 0), (8, 0), (64, 0), (8, 1), (64, 3)):
            metric = getattr(tailmetrics, name)()
            for start in range(0, 64, size):
                metric.update(
                    scores.roll(shift, 0)[start : start + size],
                    target[start : start + size],
                )
            shares |= set(metric.tied_shares().values())
    assert shares == {0.25}


def test_ties_of_many_relevant_labels_are_counted_in_the_plain_form() -> None:
    """The plain form counts ties of many relevant labels: of 40 among 50, the last one
    ties in every second row.
    """
    scores = torch.arange(50.0).expand(6, 50).clone()
    scores[::2, 0] = scores[::2, 39]
    target = torch.arange(40).expand(6, 40).contiguous()
    with force_plain():
        metric = fed(tailmetrics.MAP(), scores, target)
    assert list(metric.tied_shares().values()) == [0.5]
