"""Equal scores: means, worst and best over all their orders, held to every order one by one."""

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
    """Scores of 7 labels, few distinct ones, some not retrieved; gains of 1 to 3 relevant labels."""
    source, batches = Random(1), []
    for _ in range(count):
        levels = source.choice([1, 2, 3, 7])
        scores = [source.choice([float(source.randrange(levels))] * 6 + [-torch.inf]) for _ in range(7)]
        gains = [0.0] * 7
        for label in source.sample(range(7), source.randint(1, 3)):
            gains[label] = float(source.randint(1, 3))
        batches.append((torch.tensor([scores], dtype=torch.float64), torch.tensor([gains], dtype=torch.float64)))
    return batches


@cache
def all_orders(*values: float) -> Tensor:
    """Every list there can be of labels with these scores, a row each."""
    levels = sorted({value for value in values if value > -torch.inf}, reverse=True)
    spans = [[label for label in range(7) if values[label] == level] for level in levels]
    lists = [list(chain(*parts)) for parts in product(*map(permutations, spans))]
    return torch.tensor(lists, dtype=torch.int64).view(len(lists), -1)


@pytest.mark.parametrize("tied", [1, 2, 5])
def test_long_spans_are_read_in_parts(tied: int) -> None:
    """The mean reciprocal rank of ``tied`` relevant labels among 9,000 equal ones, added up in exact fractions."""
    size, above = 9000, 3
    scores = torch.zeros(1, size + above)
    scores[0, :above] = 1
    whole = comb(size, tied)
    wanted = sum(float(Fraction(comb(size - j, tied - 1), whole)) / (above + j) for j in range(1, size - tied + 2))
    value = tailmetrics.MRR(ties="expected")(scores, torch.arange(above, above + tied)[None])
    assert float(value) == pytest.approx(wanted, rel=1e-12)


BUCKETS = tailmetrics.LabelBuckets.from_assignment([0, 1, 0, 1, 1, 0, 1], ["a", "b"])
METRICS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"k": KS}) for name in ("HitRateAtK", "RecallAtK", "PrecisionAtK", "F1AtK", "NDCGAtK", "RBPAtK")),
    *((name, {"k": KS}) for name in ("AccuracyAtK", "NormalizedRecallAtK", "FBetaAtK", "MRR", "MAP", "RelevanceAtK")),
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


def test_every_metric_that_knows_its_mean_is_tried() -> None:
    """A metric of the registry that takes ``ties="expected"`` is among those held to all orders."""
    knowing = {name for name in tailmetrics.REGISTRY if "expected" in registered(name).reading.tie_rules}
    assert knowing == {name for name, _ in METRICS + UNBOUNDED}


CUT = {"buckets": BUCKETS, "depth": 4}


@pytest.mark.parametrize("by", [{}, {"buckets": BUCKETS}, {"buckets": BUCKETS, "scope": "global"}, CUT], ids=str)
@pytest.mark.parametrize(("name", "arguments"), METRICS + UNBOUNDED)
def test_metrics_are_means_over_all_orders(name: str, arguments: dict[str, Any], by: dict[str, Any]) -> None:
    """Overall and in both scopes, of dense scores, candidates and CSR, in any batches: to 1e-12, and the same bits."""
    batch = [row for row in rows(25) if row[0].isfinite().any()]
    scores, gains = (torch.cat(side) for side in zip(*batch, strict=True))
    rule = {"empty_target_action": "neg", "num_labels": None if by else 7, **arguments, **by}
    listed = getattr(tailmetrics, name)(weighted=True, **rule)
    for own, relevant in batch:
        lists = all_orders(*own[0].tolist())
        weights = torch.full((len(lists),), 1 / len(lists), dtype=torch.float64)
        listed.update(lists, relevant.expand(len(lists), 7), row_weights=weights)
    order = torch.rand(scores.shape, generator=torch.Generator().manual_seed(0)).argsort(dim=1)
    shuffled = scores.gather(1, order)
    candidates = (shuffled, order.masked_fill(shuffled == -torch.inf, -1))
    values = []
    for preds in (scores, candidates):
        metric = getattr(tailmetrics, name)(ties="expected", **rule)
        for part in (slice(0, 7), slice(7, None)):
            part_preds = preds[part] if preds is scores else (preds[0][part], preds[1][part])
            metric.update(part_preds, gains[part])
        values.append(metric.compute())
    assert values[0].flatten().tolist() == pytest.approx(listed.compute().flatten().tolist(), abs=1e-12)
    assert values[0].tolist() == values[1].tolist()


@cache
def in_every_order(number: int) -> Ranking:
    """All lists of a row with its gains."""
    scores, gains = rows(28)[number]
    lists = all_orders(*scores[0].tolist())
    return Ranking.from_ids(lists, target_gains=gains.expand(len(lists), 7), num_labels=7)


DEPTHS = [{}, *({"buckets": BUCKETS, "depth": depth} for depth in (2, 4, 7))]


@pytest.mark.parametrize("ties", ["worst", "best"])
@pytest.mark.parametrize(("name", "arguments"), [*METRICS, *UNBOUNDED, ("ERRAtK", {"k": KS, "max_gain": 3.0})])
@pytest.mark.slow
def test_worst_and_best_are_those_of_all_orders(name: str, arguments: dict[str, Any], ties: Any) -> None:
    """Of each row and bucket the least and the largest value of all orders, also where a list ends among equal scores."""
    rules = [{"empty_target_action": "neg", **({} if by else {"num_labels": 7}), **arguments, **by} for by in DEPTHS]
    pairs = [[getattr(tailmetrics, name)(**rule, **order) for order in ({}, {"ties": ties})] for rule in rules]
    for number, (scores, gains) in enumerate(rows(28)):
        if not scores.isfinite().any():
            continue
        listed, metric = pairs[number % len(DEPTHS)]
        every = listed.row_values(in_every_order(number))
        row_values = metric.row_values(Ranking.from_scores(scores, target_gains=gains, depth=7))
        largest = (ties == "best") == metric.higher_is_better
        for key, own_values in zip(every, row_values.values(), strict=True):
            ours, orders = (two[0] if isinstance(two, tuple) else two for two in (own_values, every[key]))
            wanted = float(orders.max() if largest else orders.min())
            assert float(ours) == pytest.approx(wanted, abs=1e-12), (key, scores, gains)


@pytest.mark.parametrize("by", [{}, {"buckets": BUCKETS}], ids=str)
def test_values_lie_between_worst_and_best_and_below_what_is_attainable(by: dict[str, Any]) -> None:
    """In the metric's own sense of better, for each row: worst <= listed <= best <= attainable, and chance too.

    Where less is better, nothing is said of what is attainable.
    """
    metrics = []
    for number, (name, arguments) in enumerate(METRICS + UNBOUNDED):
        metrics.append(getattr(tailmetrics, name)(name=f"{name}{number}", **arguments, **by))
    collection = tailmetrics.TopKCollection(metrics, references=["chance", "attainable"]).with_orders()
    signs = {key: 1 if metric.higher_is_better else -1 for metric in metrics for key in list(metric.keys())}
    for scores, gains in rows(12):
        collection.reset()
        collection.update(scores.clamp(min=-1), gains)
        listed, orders, references = collection.compute(), collection.orders(), collection.references()
        for key, value in listed.items():
            most = references["attainable"].get(key, torch.tensor(signs[key] * math.inf))
            low, own, high, most = (
                signs[key] * float(number) for number in (orders["worst"][key], value, orders["best"][key], most)
            )
            assert (most == math.inf) == (signs[key] < 0)
            if own == own:
                assert low - 1e-12 <= own <= high + 1e-12 <= most + 2e-12, (key, scores, gains)
                assert signs[key] * float(references["chance"][key]) <= most + 1e-12, key


def test_a_relevant_label_is_at_one_rank_in_some_order_or_in_all() -> None:
    """Two equal scores, one of them relevant: at rank 2 in one of two orders; two relevant ones: in both."""
    for target, wanted in ([[0, -1]], [0, 0.5, 1, 1]), ([[0, 1]], [1, 1, 1, 1]), ([[2, -1]], [0, 0, 0, 1]):
        collection = tailmetrics.TopKCollection(
            [tailmetrics.RelevanceAtK(k=2)], references=["attainable"]
        ).with_orders()
        collection.update(torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor(target))
        scalars = [*(collection.orders()[name] for name in ("worst", "expected", "best"))]
        scalars.append(collection.references()["attainable"])
        assert [float(values["relevance@2"]) for values in scalars] == wanted


def test_a_list_without_an_error_has_a_mean_of_one() -> None:
    """Relevant labels alone are tied at the top: rounding does not lift the nDCG of any depth above 1."""
    for n in range(2, 40):
        target = torch.arange(2 * n) < n
        value = tailmetrics.NDCGAtK(k=list(range(1, n + 1)), ties="expected")(target[None].float(), target[None])
        assert value.max() <= 1
        assert value.tolist() == pytest.approx([1] * n, abs=1e-15)


def test_what_has_no_order_or_no_closed_form_is_refused() -> None:
    """Ids, averages over labels, ERR and KForRecall's expectation."""
    with pytest.raises(ValueError, match="preds are ids"):
        tailmetrics.RecallAtK(2, ties="expected").update(torch.tensor([[0, 1]]), torch.tensor([0]))
    for make in (
        lambda: tailmetrics.RecallAtK(2, average="micro", ties="expected"),
        lambda: tailmetrics.ERRAtK(2, ties="expected"),
        lambda: tailmetrics.KForRecall(0.5, ties="expected"),
        lambda: tailmetrics.F1AtThreshold(0.5, ties="worst"),
    ):
        with pytest.raises((ValueError, TypeError), match="ties"):
            make()
    scores = torch.zeros(1, 5)
    for ties, wanted in (("worst", 5.0), ("best", 1.0)):
        metric = tailmetrics.KForRecall(1.0, ties=ties)
        metric.update(scores, torch.tensor([2]))
        assert float(metric.compute()) == wanted


@pytest.mark.parametrize("name", ["RecallAtK", "NDCGAtK", "MAP", "MRR"])
@pytest.mark.parametrize("by", [{}, {"buckets": BUCKETS}, {"buckets": BUCKETS, "scope": "global"}], ids=str)
def test_odd_inputs_have_values_in_order_and_in_both_forms(name: str, by: dict[str, Any]) -> None:
    """Few candidates or none, nothing retrieved, nothing relevant, no row: worst, expected and best, each in [0, 1]."""
    generator = torch.Generator().manual_seed(8)
    scores, gains = (torch.randint(0, 3, (9, 7), generator=generator).float() for _ in range(2))
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
            metrics = [getattr(tailmetrics, name)(k=KS, ties=ties, **by) for ties in ("worst", "expected", "best")]
            with form():
                values.append([fed(metric, *batch).compute().flatten().nan_to_num(0.5).tolist() for metric in metrics])
        assert values[0] == values[1]
        for low, mean, high in zip(*values[0], strict=True):
            assert 0 <= low <= mean + 1e-12 <= high + 2e-12 <= 1 + 3e-12


@pytest.mark.parametrize("by", [{}, {"buckets": "b"}, {"buckets": "b", "scope": "global"}], ids=str)
def test_only_tied_rows_are_read_again(by: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 rows 7 have a first place that three labels share; no other row is ranked twice, and values are the same.

    Of rows without equal scores none is, and no score is compared again.
    """
    read: list[int] = []
    ranking_of_rows, spans_of = _spans._ranking_of_rows, _spans.spans_of
    monkeypatch.setattr(
        _spans, "_ranking_of_rows", lambda ranking, rows: read.append(len(rows)) or ranking_of_rows(ranking, rows)
    )
    generator = torch.Generator().manual_seed(9)
    scores = torch.rand(60, 40, generator=generator).argsort(dim=1).double()
    distinct = scores.clone()
    scores[:7] = scores[:7].clamp(max=37)
    target = torch.rand(60, 40, generator=generator) < 0.1
    buckets = tailmetrics.LabelBuckets.from_assignment([label % 3 for label in range(40)], list("abc"))
    rule = {**by, "buckets": buckets} if by else {"num_labels": 40}
    if by.get("scope") != "global" and by:
        rule["depth"] = 9
    for name in ("RecallAtK", "NDCGAtK", "MRR", "MAP"):
        for ties in ("expected", "worst"):
            values = []
            for everything in (False, True):
                metric = getattr(tailmetrics, name)(k=4, ties=ties, **rule)
                if everything:
                    with monkeypatch.context() as whole:
                        whole.setattr(_readings, "spans_of", lambda *arguments: spans_of(*arguments[:4], True))
                        metric.update(scores, target)
                else:
                    metric.update(scores, target)
                values.append(metric.compute().tolist())
            assert values[0] == pytest.approx(values[1], abs=1e-15)
    assert max(read) <= 7
    assert read
    for name in ("_ranking_of_rows", "_spans_by_counting", "_counts"):
        monkeypatch.setattr(_spans, name, None)
    metric.reset()
    metric.update(distinct, target)


def part_of(argument: Any, part: slice) -> Any:
    """The rows of one argument of an update; of a pair, those of both of its tensors."""
    if isinstance(argument, tuple):
        return tuple(side[part] for side in argument)
    return argument[part]


@pytest.mark.parametrize("turn", range(4))
def test_orders_of_a_collection_are_metrics_of_these_orders(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of batches with and without equal scores, dense and listed, in one piece and in several, every second metric by turns: the same bits.

    Where no scores are equal, no order is looked at.
    """
    generator = torch.Generator().manual_seed(3)
    tied, gains = (torch.cat(side) for side in zip(*(row for row in rows(25) if row[0].isfinite().any()), strict=True))
    distinct = torch.rand(30, 7, generator=generator).argsort(dim=1).double()
    relevant = torch.rand(30, 7, generator=generator) < 0.4
    listed = distinct.sort(dim=1, descending=True)
    padded = torch.where(torch.arange(7) < torch.arange(30)[:, None] % 8, listed.indices, -1)
    row_mask = torch.arange(30) % 3 > 0
    batches = [(tied, gains), (distinct, relevant), ((listed.values, padded), relevant), (distinct, relevant, row_mask)]
    by = [{}, {"buckets": BUCKETS}, {"buckets": BUCKETS, "scope": "global"}, CUT][turn]
    turn_metrics = (METRICS + UNBOUNDED)[turn % 2 :: 2]
    rule = by or {"num_labels": 7}
    metrics = []
    for number, (name, arguments) in enumerate(turn_metrics):
        metrics.append(getattr(tailmetrics, name)(name=f"{name}{number}", **arguments, **rule))
    collection, in_parts = (
        tailmetrics.TopKCollection([metric.clone() for metric in metrics]).with_orders() for _ in range(2)
    )
    for batch in batches:
        collection.update(*batch)
        for part in (slice(0, 1), slice(1, 2), slice(2, 9), slice(9, None)):
            in_parts.update(*(part_of(argument, part) for argument in batch))
    assert str(in_parts.orders()) == str(collection.orders())
    for order, values in collection.orders().items():
        wanted: dict[str, float] = {}
        for metric in (metric for metric in metrics if order in metric.reading.tie_rules):
            settings = metric.settings() | {"ties": order}
            if settings.get("weights") is not None:  # these stand in the place of a and b
                del settings["a"], settings["b"]
            alone = type(metric)(**settings)
            for batch in batches:
                alone.update(*batch)
            wanted |= zip(metric.keys(), map(float, alone.scalars().values()), strict=True)
        assert {key: float(value) for key, value in values.items()} == pytest.approx(wanted, nan_ok=True, abs=0, rel=0)
    shallow = tailmetrics.TopKCollection([metric for metric in metrics if metric.k is not None]).with_orders()
    for name in ("spans_of", "in_order"):
        monkeypatch.setattr(_readings, name, None)
    for batch in batches[1:]:
        shallow.update(*batch)


def cut_inside_a_tie(scores: Tensor, cut: int) -> bool:
    """Whether equal scores stand on both sides of a cut-off of one row, by a loop over its list."""
    retrieved = sorted((float(score) for score in scores if score > -torch.inf), reverse=True)
    return cut < len(retrieved) and retrieved[cut - 1] == retrieved[cut]


TIED_BY: list[dict[str, Any]] = [
    {},
    {"buckets": BUCKETS, "scope": "global"},
    {"buckets": BUCKETS, "depth": 5},
    {"buckets": BUCKETS, "depth": 7},
]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("by", TIED_BY, ids=str)
def test_rows_with_equal_scores_at_a_cut_off_are_counted(by: dict[str, Any], plain: bool) -> None:
    """As a loop over each list counts them; in batches, merged, masked and weighted; without the scores themselves.

    The share is that of the cut-off with most of them, among rows that list something.
    """
    batch = [scores for scores, _ in rows(60)]
    scores, target = torch.cat(batch), torch.arange(60) % 7
    depth = by.get("depth")
    cuts = [1, 3] if depth is None else [1, 3, depth]
    flags = [[cut_inside_a_tie(row_scores, cut) for cut in cuts] for row_scores in scores]
    cut = torch.tensor(flags, dtype=torch.float64)
    mask, weights = torch.arange(60) % 4 > 0, 1.0 + torch.arange(60) % 3
    with force_plain() if plain else nullcontext():
        metrics = [tailmetrics.NDCGAtK([1, 3], **by) for _ in range(2)]
        for metric, half in zip(metrics, (slice(0, 25), slice(25, 60)), strict=True):
            ranking = tailmetrics.rank(scores[half], target[half], depth or 3, mask[half])
            metric.update(ranking if plain else replace(ranking, scores=None))  # the list alone knows
        metrics[0].merge_state(metrics[1])
        with pytest.warns(UserWarning, match=f"{float(cut[mask].mean(dim=0).max()):.1%} of the rows have equal scores"):
            metrics[0].compute()
        weighted = tailmetrics.NDCGAtK([1, 3], weighted=True, **by)
        weighted.update(scores, target, mask, row_weights=weights)
    share = float((weights[:, None] * cut)[mask].sum(dim=0).max() / weights[mask].sum())
    with pytest.warns(UserWarning, match=f"{share:.1%} of the rows have equal scores"):
        weighted.compute()


def told_of_ties(compute: Callable[[], Any]) -> list[str]:
    """What is said of equal scores meanwhile."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compute()
    return [str(warning.message) for warning in caught if "equal scores" in str(warning.message)]


def ties_with_another(scores: Tensor, relevant: Tensor, first: bool) -> bool:
    """Whether a relevant label, or the best of them, has the score of another label, by a loop over the row."""
    own = [float(score) for score in scores[relevant] if score > -torch.inf]
    return any(
        sum(float(other) == score for other in scores) > 1 for score in ([max(own, default=0.5)] if first else own)
    )


@pytest.mark.filterwarnings("ignore:.*most lists end before that")
@pytest.mark.parametrize("form", ["dense", "ids", "lists"])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", ["MRR", "MAP", "NDCGAtK", "RPrecision", "KForRecall"])
def test_rows_are_counted_in_which_a_relevant_label_ties(name: str, plain: bool, form: str) -> None:
    """Metrics without a cut-off, as a loop counts them.

    In batches, merged and masked, at the scores of all labels, at lists of them, and by bucket: of the same rows in
    every form, those that list a label. A matrix of relevant labels on a device is looked at for their best alone.
    """
    scores, gains = (torch.cat(side) for side in zip(*rows(60), strict=True))
    scores[[3, 8, 41]] = -torch.inf
    relevant, mask = gains > 0, torch.arange(60) % 5 > 0
    ids = torch.where(relevant, torch.arange(7), -1).sort(dim=1, descending=True).values[:, :4]
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
        messages = told_of_ties(metrics[0].compute)
    looked = [row for row in range(60) if mask[row] and scores[row].max() > -torch.inf]
    if plain and form == "dense" and not first and not listed:
        assert not messages
        return
    share = sum(ties_with_another(scores[row], relevant[row], first) for row in looked) / len(looked)
    assert [warning.split(": ")[1].split(" of the rows")[0] for warning in messages] == [f"{share:.1%}"]
    assert "a relevant label and another label" in messages[0]


def test_by_bucket_the_list_is_looked_at_to_its_depth() -> None:
    """Scores 4, 2, 2, 1, 1 and depth 3: a tie below the list changes no value, and no tie stands across its end."""
    buckets = tailmetrics.LabelBuckets.from_assignment([0, 0, 1, 1, 1], ["head", "tail"])
    scores = torch.tensor([[4.0, 2, 2, 1, 1]]).expand(40, 5)
    target = torch.tensor([0, 3, 4, 1]).repeat(10)
    for make in (tailmetrics.MAP, tailmetrics.MRR, lambda **options: tailmetrics.KForRecall(1.0, **options)):
        metric = make(buckets=buckets, depth=3)
        metric.update(scores, target)
        (message,) = told_of_ties(metric.compute)
        assert ": 25.0% of the rows have equal scores for a relevant label" in message
        metric = make(buckets=buckets, depth=4)
        metric.update(scores, target)
        (message,) = told_of_ties(metric.compute)
        assert ": 100.0% of the rows have equal scores on both sides of a cut-off" in message


def test_equal_scores_are_told_once_and_where_it_helps() -> None:
    """Once for a metric or a collection, by compute and not by forward; never with ties=, of ids, or up to 1 %."""
    distinct, target = torch.arange(400.0).view(100, 4), torch.zeros(100, dtype=torch.int64)
    tied = distinct.clone()
    tied[0, 1:3] = 1.0
    two_tied = tied.clone()
    two_tied[1, 1:3] = 5.0
    for make, caller in (
        (lambda: tailmetrics.RecallAtK(2), "RecallAtK"),
        (lambda: tailmetrics.TopKCollection([tailmetrics.RecallAtK(2), tailmetrics.MRR()]), "TopKCollection"),
    ):
        metric = make()
        metric.update(two_tied, target)
        (message,) = told_of_ties(metric.compute)
        assert message.startswith(f"{caller}: 2.0% of the rows")
        assert "ties='expected'" in message
        metric.reset()
        metric.update(two_tied, target)
        assert not told_of_ties(metric.compute)
        for few in (distinct, tied):
            metric = make()
            assert not told_of_ties(lambda metric=metric, few=few: metric(few, target))
            assert not told_of_ties(metric.compute)
        metric = make()
        assert not told_of_ties(lambda metric=metric: metric(two_tied, target))
        assert told_of_ties(metric.compute)
    for metric, preds in (
        (tailmetrics.RecallAtK(2, ties="worst"), two_tied),
        (tailmetrics.MRR(), two_tied),
        (tailmetrics.RecallAtK(2, num_labels=4), torch.arange(4).expand(100, 4)),
    ):
        metric.update(preds, target)
        assert not told_of_ties(metric.compute)
    for average in ("macro", "none"):
        metric = tailmetrics.RecallAtK(2, average=average, num_labels=4)  # type: ignore[arg-type]
        metric.update(two_tied, target)
        assert "float32" in told_of_ties(metric.compute)[0]


def test_the_last_label_of_a_whole_list_ties_with_none_behind_it() -> None:
    """Its score is that of no other label, although other labels of its row tie."""
    candidates = torch.tensor([[0.9, 0.9, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 2], [0, 1, 2]])
    metric = fed(tailmetrics.MRR(), candidates, torch.tensor([2, 2]))
    assert metric.result().tied_shares == {None: 0.0}
    metric = fed(tailmetrics.MRR(), candidates, torch.tensor([0, 2]))
    assert metric.result().tied_shares == {None: 0.5}


@pytest.mark.parametrize("name", ["MRR", "MAP", "RPrecision", "NDCGAtK", "DCGAtK", "CGAtK"])
def test_the_share_of_ties_depends_on_no_split_into_batches(name: str) -> None:
    """In the plain form, 64 rows of which a quarter ties: batches of 1, 8 and 64, and rows in another order, say 25.0 %."""
    draw = torch.Generator().manual_seed(1)
    scores = torch.rand(64, 12, generator=draw).argsort(dim=1).float()
    scores[1::4] = 1.0
    target = torch.arange(64) % 12
    shares = set()
    with force_plain():
        for size, shift in ((1, 0), (8, 0), (64, 0), (8, 1), (64, 3)):
            metric = getattr(tailmetrics, name)()
            for start in range(0, 64, size):
                metric.update(scores.roll(shift, 0)[start : start + size], target[start : start + size])
            shares |= set(metric.tied_shares().values())
    assert shares == {0.25}


def test_ties_of_many_relevant_labels_are_counted_in_the_plain_form() -> None:
    """Of 40 relevant labels among 50, the last one ties in every second row."""
    scores = torch.arange(50.0).expand(6, 50).clone()
    scores[::2, 0] = scores[::2, 39]
    target = torch.arange(40).expand(6, 40).contiguous()
    with force_plain():
        metric = fed(tailmetrics.MAP(), scores, target)
    assert list(metric.tied_shares().values()) == [0.5]
