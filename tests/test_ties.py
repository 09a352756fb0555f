"""Equal scores: means, worst and best over all their orders, held to every order one by one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from itertools import chain, permutations, product
from math import comb
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from tailmetrics import Ranking, functional
from tailmetrics.metrics import _rows, _ties
from tailmetrics.metrics._ties import ExpectedRanks, in_order
from tailmetrics.ranking._device import force_plain

KS = tuple(range(1, 8))
WEIGHTS = torch.tensor([1.0, 2.5, 4.0, 1.5, 3.0, 9.0, 2.0], dtype=torch.float64)
OF_RANKS: dict[str, Callable[..., Any]] = {
    "hit_rate_at_k": functional.hit_rate_at_k,
    "recall_at_k": functional.recall_at_k,
    "normalized_recall_at_k": functional.normalized_recall_at_k,
    "precision_at_k": functional.precision_at_k,
    "precision_k": lambda ranks, k: functional.precision_at_k(ranks, k, denominator="k"),
    "f1_at_k": functional.f1_at_k,
    "f_beta_at_k": lambda ranks, k: functional.f_beta_at_k(ranks, k, beta=0.5),
    "fall_out_at_k": lambda ranks, k: functional.fall_out_at_k(ranks, k, 8),
    "relevance_at_k": functional.relevance_at_k,
    "cg_at_k": functional.cg_at_k,
    "dcg_at_k": functional.dcg_at_k,
    "ndcg_at_k": functional.ndcg_at_k,
    "ndcg_exponential": lambda ranks, k: functional.ndcg_at_k(ranks, k, gain="exponential"),
    "mrr": functional.reciprocal_rank,
    "map": functional.average_precision,
    "map_attainable": lambda ranks, k: functional.average_precision(ranks, k, denominator="attainable"),
    "rbp_at_k": functional.rbp_at_k,
    "psp": lambda ranks, k: functional.propensity_scored_precision_at_k(ranks, k, WEIGHTS)[0],
    "psr": lambda ranks, k: functional.propensity_scored_recall_at_k(ranks, k, WEIGHTS)[0],
    "psndcg": lambda ranks, k: functional.propensity_scored_ndcg_at_k(ranks, k, WEIGHTS)[0],
}
WHOLE: dict[str, Callable[..., Any]] = {
    "mrr": functional.reciprocal_rank,
    "map": functional.average_precision,
    "r_precision": functional.r_precision,
}
ORDERED = {**OF_RANKS, "err": lambda ranks, k: functional.err_at_k(ranks, k, max_gain=3.0)}


def rows(count: int, graded: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Scores of 7 labels, few distinct ones, some not retrieved; gains of 1 to 3 relevant labels."""
    source = Random(int(graded))
    for _ in range(count):
        levels = source.choice([1, 2, 3, 7])
        scores = [source.choice([float(source.randrange(levels))] * 6 + [-torch.inf]) for _ in range(7)]
        gains = [0.0] * 7
        for label in source.sample(range(7), source.randint(1, 3)):
            gains[label] = float(source.randint(1, 3)) if graded else 1.0
        yield torch.tensor([scores], dtype=torch.float64), torch.tensor([gains], dtype=torch.float64)


def all_orders(scores: Tensor) -> Tensor:
    """Every list there can be, a row each."""
    values = scores[0].tolist()
    levels = sorted({value for value in values if value > -torch.inf}, reverse=True)
    spans = [[label for label in range(7) if values[label] == level] for level in levels]
    lists = [list(chain(*parts)) for parts in product(*map(permutations, spans))]
    return torch.tensor(lists, dtype=torch.int64).view(len(lists), -1)


def brute(scores: Tensor, gains: Tensor, formula: Callable[..., Any]) -> Tensor:
    """The values of a formula for every order."""
    lists = all_orders(scores)
    if not lists.shape[1]:
        lists = torch.full((1, 1), -1)
    every = Ranking.from_ids(lists, target_gains=gains.expand(len(lists), 7), num_labels=7)
    return formula(every).double()


def counted(scores: Tensor, gains: Tensor) -> tuple[Any, Tensor, Tensor]:
    """Ranks of the relevant labels, and by counting how many score more, and the same."""
    ranks = Ranking.from_scores(scores, target_gains=gains).exact
    own = scores[0][ranks.target_ids.clamp(min=0)]
    above, equal = ((compare(scores[0], own.unsqueeze(-1))).sum(-1) for compare in (torch.gt, torch.eq))
    return ranks, above, equal


@pytest.mark.parametrize("graded", [False, True])
def test_expected_is_the_mean_over_all_orders(graded: bool) -> None:
    """Every formula with every cut-off, and without, of 50 random rows, to 1e-12."""
    for scores, gains in rows(50, graded):
        ranks = ExpectedRanks(*counted(scores, gains))
        for name, formula in OF_RANKS.items():
            found = torch.as_tensor(formula(ranks, KS)).double()
            wanted = brute(scores, gains, lambda every, formula=formula: formula(every, KS)).mean(dim=1)
            assert found[:, 0].tolist() == pytest.approx(wanted.tolist(), abs=1e-12), (name, scores, gains)
            assert [float(formula(ranks, k)) for k in KS] == found[:, 0].tolist(), name
        for name, formula in WHOLE.items():
            wanted = brute(scores, gains, formula).mean()
            assert float(formula(ranks)) == pytest.approx(float(wanted), abs=1e-12), (name, scores, gains)


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("ties", ["worst", "best"])
def test_worst_and_best_are_those_of_all_orders(ties: Any, graded: bool) -> None:
    """Of 50 random rows; propensity-scored metrics order by what a label weighs."""
    for scores, gains in rows(50, graded):
        ranks, above, equal = counted(scores, gains)
        for name, formula in ORDERED.items():
            if name == "relevance_at_k":
                continue  # of one rank alone no order is the best
            weighs = WEIGHTS[ranks.target_ids.clamp(min=0)] if name.startswith("ps") else ranks.target_gains
            found = torch.as_tensor(formula(in_order(ranks, above, equal, weighs, ties), KS)).double()
            every = brute(scores, gains, lambda every, formula=formula: formula(every, KS))
            largest = (ties == "best") != (name == "fall_out_at_k")
            wanted = every.amax(dim=1) if largest else every.amin(dim=1)
            assert found[:, 0].tolist() == pytest.approx(wanted.tolist(), abs=1e-12), (name, scores, gains)


def test_where_nothing_ties_the_values_are_those_of_the_ranks() -> None:
    """To the last bits of float64: a span of one place is that place."""
    scores, gains = next(iter(rows(1, True)))[0], torch.tensor([[0.0, 2.0, 0.0, 1.0, 3.0, 0.0, 0.0]])
    scores = torch.tensor([[0.5, 0.1, 0.7, 0.3, 0.2, 0.9, 0.8]], dtype=torch.float64)
    ranks, above, equal = counted(scores, gains)
    assert equal.tolist() == [[1, 1, 1]]
    for name, formula in OF_RANKS.items():
        plain = torch.as_tensor(formula(ranks, KS)).double().view(-1).tolist()
        for other in (ExpectedRanks(ranks, above, equal), in_order(ranks, above, equal, ranks.target_gains, "worst")):
            assert torch.as_tensor(formula(other, KS)).double().view(-1).tolist() == pytest.approx(plain, abs=1e-15), (
                name
            )


def test_peers_that_average_over_ties_agree() -> None:
    """scikit-learn's ndcg_score and dcg_score, and TorchMetrics' nDCG, of scores rounded until they tie."""
    peers, torchmetrics = (
        pytest.importorskip("sklearn.metrics"),
        pytest.importorskip("torchmetrics.functional.retrieval"),
    )
    generator = torch.Generator().manual_seed(1)
    for _ in range(50):
        scores = torch.randint(0, 4, (1, 12), generator=generator).double()
        gains = torch.randint(0, 4, (1, 12), generator=generator).double()
        gains[0, 0] = 1
        ranks = Ranking.from_scores(scores, target_gains=gains).exact
        own = scores[0][ranks.target_ids]
        above, equal = (compare(scores[0], own.unsqueeze(-1)).sum(-1) for compare in (torch.gt, torch.eq))
        expected = ExpectedRanks(ranks, above, equal)
        for k in (1, 3, 12):
            assert float(functional.dcg_at_k(expected, k)) == pytest.approx(peers.dcg_score(gains, scores, k=k))
            found = float(functional.ndcg_at_k(expected, k))
            assert found == pytest.approx(peers.ndcg_score(gains, scores, k=k))
            peer = torchmetrics.retrieval_normalized_dcg(scores[0], gains[0].long(), top_k=k)
            assert found == pytest.approx(float(peer), abs=1e-6)


@pytest.mark.parametrize("tied", [1, 2, 5])
def test_long_spans_are_read_in_parts(tied: int) -> None:
    """The mean reciprocal rank of ``tied`` relevant labels among 9,000 equal ones, added up in exact fractions."""
    size, above = 9000, 3
    scores = torch.zeros(1, size + above)
    scores[0, :above] = 1
    gains = torch.zeros_like(scores)
    gains[0, above : above + tied] = 1
    ranks = Ranking.from_scores(scores, target_gains=gains).exact
    expected = ExpectedRanks(
        ranks, torch.full_like(ranks.target_ranks, above), torch.full_like(ranks.target_ranks, size)
    )
    whole = comb(size, tied)
    wanted = sum(float(Fraction(comb(size - j, tied - 1), whole)) / (above + j) for j in range(1, size - tied + 2))
    assert float(functional.reciprocal_rank(expected)) == pytest.approx(wanted, rel=1e-12)


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
    knowing = {name for name, metric in tailmetrics.REGISTRY.items() if "expected" in getattr(metric, "tie_rules", ())}
    assert knowing == {name for name, _ in METRICS + UNBOUNDED}


CUT = {"buckets": BUCKETS, "depth": 4}


@pytest.mark.parametrize("by", [{}, {"buckets": BUCKETS}, {"buckets": BUCKETS, "scope": "global"}, CUT], ids=str)
@pytest.mark.parametrize(("name", "given"), METRICS + UNBOUNDED)
def test_metrics_are_means_over_all_orders(name: str, given: dict[str, Any], by: dict[str, Any]) -> None:
    """Overall and in both scopes, of dense scores, candidates and CSR, in any batches: to 1e-12, and the same bits."""
    batch = [row for row in rows(40, True) if row[0].isfinite().any()]
    scores, gains = (torch.cat(side) for side in zip(*batch, strict=True))
    rule = {"empty_target_action": "neg", "num_labels": None if by else 7, **given, **by}
    listed = getattr(tailmetrics, name)(weighted=True, **rule)
    for own, relevant in batch:
        lists = all_orders(own)
        weights = torch.full((len(lists),), 1 / len(lists), dtype=torch.float64)
        listed.update(lists, relevant.expand(len(lists), 7), row_weights=weights)
    order = torch.rand(scores.shape, generator=torch.Generator().manual_seed(0)).argsort(dim=1)
    shuffled = scores.gather(1, order)
    candidates = (shuffled, order.masked_fill(shuffled == -torch.inf, -1))
    values = []
    for preds in (scores, candidates):
        metric = getattr(tailmetrics, name)(ties="expected", **rule)
        for part in (slice(0, 7), slice(7, None)):
            some = preds[part] if preds is scores else (preds[0][part], preds[1][part])
            metric.update(some, gains[part])
        values.append(metric.compute())
    assert values[0].flatten().tolist() == pytest.approx(listed.compute().flatten().tolist(), abs=1e-12)
    assert values[0].tolist() == values[1].tolist()


@pytest.mark.parametrize("depth", [2, 4, 7])
@pytest.mark.parametrize("ties", ["worst", "best"])
@pytest.mark.parametrize(("name", "given"), [one for one in METRICS if one[0] != "RelevanceAtK"])
def test_worst_and_best_of_lists_that_are_cut(name: str, given: dict[str, Any], ties: Any, depth: int) -> None:
    """Of each row and bucket the least and the largest value of all orders, also where a list ends among equal scores."""
    if name.startswith("Propensity"):
        return  # no value of a row
    rule = {**given, "buckets": BUCKETS, "depth": depth, "empty_target_action": "neg"}
    listed, metric = (getattr(tailmetrics, name)(**rule, **more) for more in ({}, {"ties": ties}))
    for scores, gains in rows(30, True):
        if not scores.isfinite().any():
            continue
        lists = all_orders(scores)
        every = listed.row_values(Ranking.from_ids(lists, target_gains=gains.expand(len(lists), 7), num_labels=7))
        found = metric.row_values(Ranking.from_scores(scores, target_gains=gains, depth=7))
        for key, one in zip(every, found.values(), strict=True):
            wanted = every[key].max() if ties == "best" else every[key].min()
            assert float(one) == pytest.approx(float(wanted), abs=1e-12), (key, scores, gains)


def test_ranks_are_those_of_pykeen() -> None:
    """Optimistic 1 + #better, pessimistic #at least as good, realistic their mean: PyKEEN 1.11, ``Ranks.from_scores``."""
    generator = torch.Generator().manual_seed(4)
    for levels in (1, 2, 5, 1000):
        scores = torch.randint(0, levels, (50, 20), generator=generator).float()
        target = torch.randint(0, 20, (50,), generator=generator)
        own = scores.gather(1, target[:, None])
        optimistic, pessimistic = 1 + (scores > own).sum(dim=1), (scores >= own).sum(dim=1)
        found = {}
        for ties in ("best", "worst", "expected"):  # the mean rank is the sum over k of the chance to be beyond k
            hits = tailmetrics.HitRateAtK(list(range(1, 21)), ties=ties)
            values = hits.row_values(Ranking.from_scores(scores, target_ids=target, depth=20)).values()
            found[ties] = 1 + sum(1 - of_k for of_k in values)
        assert torch.equal(found["best"], optimistic.double())
        assert torch.equal(found["worst"], pessimistic.double())
        torch.testing.assert_close(found["expected"], (optimistic + pessimistic).double() / 2, rtol=0, atol=1e-12)


def test_the_numbering_of_labels_makes_no_difference() -> None:
    """A model whose scores saturate: by id the curve turns around with the numbering, expected it does not."""
    generator = torch.Generator().manual_seed(6)
    counts = (2000 / torch.arange(1, 201)).long()
    scores = (2 * torch.randn(100, 200, generator=generator) + counts.log()).bfloat16().sigmoid()
    assert int((scores == 1).sum()) > 1000
    target = torch.multinomial(counts.double(), 100, replacement=True, generator=generator)
    curves: dict[str, list[list[float]]] = {}
    deciles = tailmetrics.LabelBuckets.deciles(counts)
    turned = tailmetrics.LabelBuckets.from_assignment(deciles.assignment.flip(0), deciles.names)
    for given in ((scores, target, deciles), (scores.flip(1), 199 - target, turned)):
        for ties in ("id", "expected", "worst", "best"):
            metric = tailmetrics.RecallAtK(10, buckets=given[2], scope="global", ties=ties)
            metric.update(given[0], given[1])
            curves.setdefault(ties, []).append(metric.compute().nan_to_num(-1).tolist())
            assert next(iter(metric.scalars())).startswith(f"global_recall{'' if ties == 'id' else f'_{ties}'}@10/")
    for ties in ("expected", "worst", "best"):
        assert curves[ties][0] == curves[ties][1]
    assert curves["id"][0] != curves["id"][1]
    for number in (0, 1):
        inside = zip(curves["worst"][0], curves["id"][number], curves["expected"][0], curves["best"][0], strict=True)
        assert all(worst <= min(by_id, mean) and max(by_id, mean) <= best for worst, by_id, mean, best in inside)


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


def odd_inputs() -> dict[str, tuple[Any, Any]]:
    """Predictions and targets at their edges: types, layouts, nothing retrieved, nothing relevant, no row."""
    generator = torch.Generator().manual_seed(8)
    scores = torch.randint(0, 3, (9, 7), generator=generator).float()
    gains = torch.randint(0, 3, (9, 7), generator=generator).float()
    ids = torch.arange(7).expand(9, 7).contiguous()
    return {
        "dense": (scores, gains),
        "bfloat16": (scores.bfloat16(), gains > 0),
        "class indices": (scores, torch.arange(9) % 7),
        "transposed": (scores.T.contiguous().T, gains),
        "CSR": (scores.to_sparse_csr(), gains),
        "candidates": ((scores, ids), gains),
        "few candidates": ((scores[:, :3], ids[:, :3].contiguous()), gains),
        "no candidates": ((scores[:, :0], ids[:, :0]), gains),
        "some retrieved": (scores.masked_fill(scores == 0, -torch.inf), gains),
        "none retrieved": (torch.full((9, 7), -torch.inf), gains),
        "void targets": (scores, torch.full((9, 2), -1)),
        "targets of width 0": (scores, torch.zeros(9, 0, dtype=torch.int64)),
        "no row": (scores[:0], gains[:0]),
    }


@pytest.mark.parametrize("name", odd_inputs())
def test_odd_inputs_have_values_within_bounds_in_both_forms(name: str) -> None:
    """Every metric that takes ``ties``, overall and by bucket: worst, expected and best in this order."""
    preds, target = odd_inputs()[name]
    for metric, given in METRICS:
        for by in ({}, {"buckets": BUCKETS}, {"buckets": BUCKETS, "scope": "global"}):
            rule = {"num_labels": None if by else 7, **given, **by}
            values = []
            for plain in (False, True):
                with force_plain() if plain else nullcontext():
                    of_form = {}
                    for ties in ("worst", "expected", "best"):
                        made = getattr(tailmetrics, metric)(ties=ties, **rule)
                        made.update(preds, target)
                        of_form[ties] = made.compute().flatten().nan_to_num(0.5).tolist()
                    values.append(of_form)
            assert values[0] == values[1]
            if metric != "RelevanceAtK":
                rising = zip(*(values[0][ties] for ties in ("worst", "expected", "best")), strict=True)
                assert all(0 <= low <= mean + 1e-12 <= high + 2e-12 <= 1 + 3e-12 for low, mean, high in rising)


@pytest.mark.parametrize("by", [{}, {"buckets": "b"}, {"buckets": "b", "scope": "global"}], ids=str)
def test_only_tied_rows_are_read_again(by: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 rows 7 have a first place that three labels share; no other row is ranked twice, and values are the same.

    Of rows without equal scores none is, and no score is compared again.
    """
    read: list[int] = []
    some_rows, spans = _ties._some_rows, _ties.spans
    monkeypatch.setattr(
        _ties, "_some_rows", lambda ranking, scores, rows: read.append(len(rows)) or some_rows(ranking, scores, rows)
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
                        whole.setattr(_rows, "spans", lambda *given: spans(*given[:4], True))
                        metric.update(scores, target)
                else:
                    metric.update(scores, target)
                values.append(metric.compute().tolist())
            assert values[0] == pytest.approx(values[1], abs=1e-15)
    assert max(read) <= 7
    assert read
    for name in ("_some_rows", "_all_spans", "_counts"):
        monkeypatch.setattr(_ties, name, None)
    metric.reset()
    metric.update(distinct, target)


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
    batch = [scores for scores, _ in rows(60, True)]
    scores, target = torch.cat(batch), torch.arange(60) % 7
    depth = by.get("depth")
    cuts = [1, 3] if depth is None else [1, 3, depth]
    cut = torch.tensor([[cut_inside_a_tie(one, cut) for cut in cuts] for one in scores], dtype=torch.float64)
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
    return [str(one.message) for one in caught if "equal scores" in str(one.message)]


def test_equal_scores_are_told_once_and_where_it_helps() -> None:
    """Once for a metric or a collection, by compute and not by forward; never with ties=, of ids, or up to 1 %."""
    distinct, target = torch.arange(400.0).view(100, 4), torch.zeros(100, dtype=torch.int64)
    tied = distinct.clone()
    tied[0, 1:3] = 1.0
    more = tied.clone()
    more[1, 1:3] = 5.0
    for make, caller in (
        (lambda: tailmetrics.RecallAtK(2), "RecallAtK"),
        (lambda: tailmetrics.TopKCollection([tailmetrics.RecallAtK(2), tailmetrics.MRR()]), "TopKCollection"),
    ):
        made = make()
        made.update(more, target)
        (said,) = told_of_ties(made.compute)
        assert said.startswith(f"{caller}: 2.0% of the rows")
        assert "ties='expected'" in said
        made.reset()
        made.update(more, target)
        assert not told_of_ties(made.compute)
        for few in (distinct, tied):
            made = make()
            assert not told_of_ties(lambda made=made, few=few: made(few, target))
            assert not told_of_ties(made.compute)
        made = make()
        assert not told_of_ties(lambda made=made: made(more, target))
        assert told_of_ties(made.compute)
    for metric, preds in (
        (tailmetrics.RecallAtK(2, ties="worst"), more),
        (tailmetrics.MRR(), more),
        (tailmetrics.RecallAtK(2, num_labels=4), torch.arange(4).expand(100, 4)),
    ):
        metric.update(preds, target)
        assert not told_of_ties(metric.compute)
    metric = tailmetrics.RecallAtK(2, average="macro", num_labels=4)
    metric.update(more, target)
    assert "float32" in told_of_ties(metric.compute)[0]
