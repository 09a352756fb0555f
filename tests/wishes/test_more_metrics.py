"""RBP, F-beta, ERR, fall-out, personalization and calibration: formulas in plain loops, and the peers that have them.

Readings of the contract where it leaves a choice:

- ``RBPAtK``, ``FBetaAtK`` and ``ERRAtK`` are 0 for a row with nothing to find ("neg"), and treat buckets, scopes and
  empty rows as precision does. ``FBetaAtK`` takes the four averages of F1; ``beta=1`` is F1 to the last bit.
- ``ERRAtK(max_gain=None)`` is tested on binary targets alone, where every reading of None is 1. A gain above
  ``max_gain`` is refused.
- ``FallOutAtK`` counts rows with nothing relevant as TorchMetrics does (their fall-out is the share that is shown of
  all their labels); rows in which everything is relevant are not tested. By bucket, rows without a relevant label of
  the bucket are skipped, as everywhere.
- ``PersonalizationAtK`` divides an overlap by k, also in short lists; one row alone is NaN. Its value by bucket is not
  tested.
- ``CalibrationErrorAtK``: bins of equal width, closed at their lower end as TorchMetrics has them; softmax over the
  row's scores in float64; by bucket, what is shown of the bucket's labels within the row's top k.
- Only keys with default arguments are tested.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes.rows import (
    DECILES,
    NUM_LABELS,
    THREE,
    bits,
    drawn,
    fed,
    floats,
    graded,
    members,
    ranked,
    sets,
)

EVERYTHING = set(range(NUM_LABELS))
Formula = Callable[[list[int], dict[int, float], int], float]
Gains = dict[int, float]


# --- formulas of one row


def rbp(shown: list[int], gains: Gains, k: int, persistence: float = 0.8) -> float:
    """(1 - p) sum p^(j-1) hit(j)."""
    return (1 - persistence) * math.fsum(persistence**place for place, label in enumerate(shown[:k]) if label in gains)


def f_beta(shown: list[int], gains: Gains, k: int, beta: float = 2.0) -> float:
    """Weighted harmonic mean of precision and recall, recall weighing beta squared."""
    hits = sum(label in gains for label in shown[:k])
    precision = hits / len(shown[:k]) if shown[:k] else 0.0
    recall = hits / len(gains)
    below = beta**2 * precision + recall
    return (1 + beta**2) * precision * recall / below if below else 0.0


def err(shown: list[int], gains: Gains, k: int, max_gain: float = 4.0) -> float:
    """Sum over ranks of the chance that the reader stops there, over the rank (Chapelle et al. 2009)."""
    reaches, total = 1.0, 0.0
    for rank, label in enumerate(shown[:k], start=1):
        stops = (2 ** gains.get(label, 0.0) - 1) / 2**max_gain
        total += reaches * stops / rank
        reaches *= 1 - stops
    return total


def fall_out(shown: list[int], gains: Gains, k: int, size: int = NUM_LABELS) -> float:
    """Share of the irrelevant labels that the top k shows."""
    wrong = sum(label not in gains for label in shown[:k])
    return wrong / (size - len(gains))


# --- means over rows


def of_rows(
    formula: Callable[..., float],
    scores: Tensor,
    gains: Tensor,
    k: int,
    inside: set[int] | None = None,
    scope: str = "bucket",
    skip: bool = False,
    **more: Any,
) -> float:
    """The mean of a formula over rows, cut to a bucket in either scope."""
    values = []
    own = EVERYTHING if inside is None else inside
    for order, row in zip(ranked(scores.tolist()), gains.double().tolist(), strict=True):
        relevant = {label: gain for label, gain in enumerate(row) if gain > 0 and label in own}
        shown = [label for label in order if label in own or scope == "global"]
        if relevant:
            values.append(formula(shown, relevant, k, **more))
        elif not skip:
            values.append(0.0)
    return math.fsum(values) / len(values) if values else math.nan


def short(seed: int) -> tuple[Tensor, Tensor]:
    """Graded rows of which some are short lists, one of them empty."""
    scores, gains = graded(seed)
    hidden = torch.rand(scores.shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    hidden[1::2] = False
    hidden[4] = True
    return scores.masked_fill(hidden, -math.inf), gains


ROW_FORMULAS: list[tuple[str, Callable[..., float], dict[str, Any]]] = [
    ("RBPAtK", rbp, {}),
    ("RBPAtK", rbp, {"persistence": 0.95}),
    ("RBPAtK", rbp, {"persistence": 0.5}),
    ("FBetaAtK", f_beta, {}),
    ("FBetaAtK", f_beta, {"beta": 0.5}),
    ("FBetaAtK", f_beta, {"beta": 1}),
    ("ERRAtK", err, {"max_gain": 4}),
    ("ERRAtK", err, {"max_gain": 6}),
]
row_formulas = pytest.mark.parametrize(("name", "formula", "options"), ROW_FORMULAS)


@row_formulas
def test_overall_equals_the_formula(name: str, formula: Formula, options: dict[str, Any]) -> None:
    """At several cut-offs, in short lists, with 0 for rows with nothing to find."""
    scores, gains = short(1)
    metric = getattr(tailmetrics, name)(k=[1, 3, 10, 40], **options)
    found = floats(fed(metric, scores, gains).compute())
    wanted = [of_rows(formula, scores, gains, k, **options) for k in (1, 3, 10, 40)]
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12)


@row_formulas
@pytest.mark.parametrize("scope", ["bucket", "global"])
@pytest.mark.parametrize("buckets", [THREE, DECILES], ids=["three", "deciles"])
def test_by_bucket_equals_the_formula(
    name: str, formula: Formula, options: dict[str, Any], buckets: Any, scope: str
) -> None:
    """The list of the bucket's labels, or the row's list with only the bucket's labels relevant."""
    scores, gains = short(2)
    metric = getattr(tailmetrics, name)(k=4, buckets=buckets, scope=scope, **options)
    found = floats(fed(metric, scores, gains).compute())
    wanted = [of_rows(formula, scores, gains, 4, inside, scope, skip=True, **options) for inside in members(buckets)]
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12, nan_ok=True)


# --- rank-biased precision


def test_a_worked_rbp() -> None:
    """Hits at ranks 1 and 3 with p = .8: .2 (1 + .64) = .328; all of k = 10: 1 - .8^10."""
    ids = torch.arange(10)[None]
    target = torch.tensor([[0, 2]])
    assert float(fed(tailmetrics.RBPAtK(k=5), ids, target).compute()) == pytest.approx(0.328, rel=1e-12)
    assert float(fed(tailmetrics.RBPAtK(k=10), ids, ids).compute()) == pytest.approx(1 - 0.8**10, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("persistence", [0.5, 0.8, 0.95])
@pytest.mark.filterwarnings("ignore")
def test_ranx_rbp(persistence: float) -> None:
    """ranx's rank_biased_precision of the list cut at k, on binary judgements, row by row in the mean."""
    peers, numpy = pytest.importorskip("ranx.metrics"), pytest.importorskip("numpy")
    typed = pytest.importorskip("numba.typed")
    scores, target = drawn(4)
    orders = ranked(scores.tolist())
    kept = [row for row, own in enumerate(sets(target)) if own]
    for k in (1, 5, NUM_LABELS):
        runs = typed.List(
            [numpy.array([(label, -j) for j, label in enumerate(orders[row][:k])], float) for row in kept]
        )
        asked = typed.List([numpy.array([(label, 1) for label in sorted(sets(target)[row])], float) for row in kept])
        expected = peers.rank_biased_precision(asked, runs, persistence)
        metric = tailmetrics.RBPAtK(k=k, persistence=persistence, empty_target_action="skip")
        assert float(fed(metric, scores, target).compute()) == pytest.approx(float(expected.mean()), rel=0, abs=1e-9)


def test_rbp_key_and_wrong_persistence() -> None:
    """rbp@10; a persistence outside (0, 1) is refused."""
    assert list(fed(tailmetrics.RBPAtK(k=10), *drawn(5)).scalars()) == ["rbp@10"]
    for wrong in (0, 1, -0.5, 1.5, math.nan):
        with pytest.raises(ValueError, match="persistence"):
            tailmetrics.RBPAtK(k=10, persistence=wrong)


# --- F-beta


def decisions(scores: Tensor, k: int) -> Tensor:
    shown = torch.zeros(scores.shape, dtype=torch.bool)
    for row, order in zip(shown, ranked(scores.tolist()), strict=True):
        row[order[:k]] = True
    return shown


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("average", ["samples", "micro", "macro", "weighted"])
def test_scikit_learn_fbeta_score(average: str, beta: float) -> None:
    """fbeta_score of the top k as a 0/1 matrix, in the four averages; of one row in the mean over rows."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, gains = short(6)
    target = gains > 0
    labels = {"labels": "all"} if average == "macro" else {}
    for k in (1, 5):
        expected = peers.fbeta_score(target, decisions(scores, k), beta=beta, average=average, zero_division=0)
        metric = tailmetrics.FBetaAtK(k=k, beta=beta, average=average, num_labels=NUM_LABELS, **labels)
        assert float(fed(metric, scores, target).compute()) == pytest.approx(expected, rel=0, abs=1e-9)


def test_scikit_learn_on_the_decisions_of_one_row() -> None:
    """Each row's value is fbeta_score of its own decisions."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = drawn(7)
    decided = decisions(scores, 4)
    for row in range(0, len(scores), 5):
        expected = peers.fbeta_score(target[row], decided[row], beta=2.0, zero_division=0)
        metric = fed(tailmetrics.FBetaAtK(k=4), scores[[row]], target[[row]])
        assert float(metric.compute()) == pytest.approx(expected, rel=0, abs=1e-9)


@pytest.mark.parametrize("way", [{}, {"buckets": DECILES}, {"average": "micro"}, {"denominator": "k"}])
def test_beta_of_one_is_f1(way: dict[str, Any]) -> None:
    """To the last bit."""
    batch = short(8)
    ours, f1 = tailmetrics.FBetaAtK(k=5, beta=1, **way), tailmetrics.F1AtK(k=5, **way)
    assert bits(fed(ours, *batch).compute()) == bits(fed(f1, *batch).compute())


def test_wrong_beta() -> None:
    """A beta that is not above 0 is refused."""
    for wrong in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match="beta"):
            tailmetrics.FBetaAtK(k=5, beta=wrong)


# --- expected reciprocal rank


def test_a_worked_err() -> None:
    """Grades 3 2 4 of at most 4: R = 7/16, 3/16, 15/16; ERR = 7/16 + 9/16 3/16 / 2 + 9/16 13/16 15/16 / 3."""
    stops = [Fraction(7, 16), Fraction(3, 16), Fraction(15, 16)]
    wanted = stops[0] + (1 - stops[0]) * stops[1] / 2 + (1 - stops[0]) * (1 - stops[1]) * stops[2] / 3
    metric = tailmetrics.ERRAtK(k=3, max_gain=4)
    metric.update(torch.tensor([[0, 1, 2]]), torch.tensor([[3.0, 2.0, 4.0]]))
    assert float(metric.compute()) == pytest.approx(float(wanted), rel=1e-12)


def test_err_of_binary_targets_needs_no_largest_gain() -> None:
    """R is 1/2 at each hit: a hit at rank 1 is worth 1/2, the next at rank 2 a half of a half of a half."""
    metric = fed(tailmetrics.ERRAtK(k=5), torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1]]))
    assert float(metric.compute()) == pytest.approx(1 / 2 + 1 / 8, rel=1e-12)
    scores, target = drawn(9)
    found = fed(tailmetrics.ERRAtK(k=5), scores, target).compute()
    assert float(found) == pytest.approx(of_rows(err, scores, target.double(), 5, max_gain=1.0), rel=1e-12)


def test_err_key_and_wrong_gains() -> None:
    """err@5; a gain above max_gain would make a stop more than certain."""
    metric = tailmetrics.ERRAtK(k=5, max_gain=3)
    with pytest.raises(ValueError, match="max_gain"):
        metric.update(torch.tensor([[0, 1]]), torch.tensor([[4.0, 1.0]]))
    assert list(fed(tailmetrics.ERRAtK(k=5), *drawn(9)).scalars()) == ["err@5"]


# --- fall-out


def test_fall_out_equals_the_formula() -> None:
    """Of rows that have relevant labels, at several cut-offs, in short lists; by bucket in its own list."""
    scores, gains = short(10)
    some = gains.gt(0).any(1)
    scores, gains = scores[some], gains[some]
    found = floats(fed(tailmetrics.FallOutAtK(k=[1, 5, 40], num_labels=NUM_LABELS), scores, gains).compute())
    assert found == pytest.approx([of_rows(fall_out, scores, gains, k) for k in (1, 5, 40)], rel=1e-12)
    by_bucket = floats(fed(tailmetrics.FallOutAtK(k=2, buckets=THREE), scores, gains).compute())
    wanted = [own_fall_out(scores, gains, inside) for inside in members(THREE)]
    assert by_bucket == pytest.approx(wanted, rel=1e-12)


def own_fall_out(scores: Tensor, gains: Tensor, inside: set[int]) -> float:
    """At 2, within a bucket, over the rows with an irrelevant label of it, those without a relevant one included."""
    values = []
    for row, own in zip(scores.tolist(), gains.tolist(), strict=True):
        irrelevant = [label for label in inside if own[label] <= 0]
        listed = [label for label in inside if row[label] > -math.inf]
        shown = sorted(listed, key=lambda label: (-row[label], label))[:2]
        if irrelevant:
            values.append(len(set(shown) & set(irrelevant)) / len(irrelevant))
    return sum(values) / len(values)


def test_fall_out_of_rows_in_which_every_label_is_relevant() -> None:
    """They count as TorchMetrics counts them, 1 by default; a list that shows a label twice is refused."""
    peers = pytest.importorskip("torchmetrics.retrieval")
    scores = torch.tensor([[0.9, 0.5, 0.1], [0.3, 0.2, 0.1]])
    target = torch.tensor([[True, True, True], [False, True, False]])
    for action in (None, "neg", "pos", "skip"):
        peer = peers.RetrievalFallOut(top_k=1, **({} if action is None else {"empty_target_action": action}))
        peer.update(scores, target.long(), indexes=torch.arange(2)[:, None].expand(2, 3))
        found = fed(tailmetrics.FallOutAtK(k=1, empty_target_action=action), scores, target).compute()
        assert float(found) == pytest.approx(float(peer.compute()))
    twice = tailmetrics.FallOutAtK(k=3, num_labels=2, duplicates="first")
    with pytest.raises(ValueError, match="a label twice"):
        twice.update(torch.tensor([[0, 0, 0]]), torch.tensor([1]))


@pytest.mark.parametrize("k", [1, 3, 50])
def test_torchmetrics_retrieval_fall_out(k: int) -> None:
    """RetrievalFallOut, rows without anything relevant included; in its float32."""
    peers = pytest.importorskip("torchmetrics.retrieval")
    scores, target = drawn(11)
    peer = peers.RetrievalFallOut(top_k=k)
    queries = torch.arange(len(scores))[:, None].expand_as(scores)
    peer.update(scores.exp().float(), target.long(), indexes=queries)
    found = fed(tailmetrics.FallOutAtK(k=k, num_labels=NUM_LABELS), scores, target).compute()
    assert float(found) == pytest.approx(float(peer.compute()), rel=0, abs=1e-6)


def test_fall_out_key_and_direction() -> None:
    """fall_out@5, lower is better."""
    metric = fed(tailmetrics.FallOutAtK(k=5, num_labels=NUM_LABELS), *drawn(12))
    assert list(metric.scalars()) == ["fall_out@5"]
    assert metric.higher_is_better is False


# --- personalization


def personalization(tops: Sequence[Sequence[int]], k: int) -> float:
    """One minus the mean overlap of two rows' lists, by looking at every two rows."""
    pairs = list(itertools.combinations(map(set, tops), 2))
    return float(1 - Fraction(sum(len(one & other) for one, other in pairs), k * len(pairs))) if pairs else math.nan


@pytest.mark.parametrize("k", [1, 5, 12, [1, 5, 30]])
def test_personalization_equals_the_mean_over_all_pairs_of_rows(k: Any) -> None:
    """From counts of labels as from every two rows, in short lists too."""
    scores, gains = short(13)
    ks = k if isinstance(k, list) else [k]
    orders = ranked(scores.tolist())
    found = floats(fed(tailmetrics.PersonalizationAtK(k=k, num_labels=NUM_LABELS), scores, gains).compute())
    assert found == pytest.approx([personalization([order[:one] for order in orders], one) for one in ks], rel=1e-12)


def test_personalization_at_its_ends() -> None:
    """The same list for everybody is 0, lists without a common label 1, one row alone NaN."""
    none = torch.tensor([-1, -1, -1])
    for ids, wanted in (([[0, 1]] * 3, 0), ([[0, 1], [2, 3], [4, 5]], 1), ([[0, 1], [0, 2], [0, 3]], 1 / 2)):
        metric = fed(tailmetrics.PersonalizationAtK(k=2, num_labels=6), torch.tensor(ids), none)
        assert float(metric.compute()) == wanted
    alone = fed(tailmetrics.PersonalizationAtK(k=2, num_labels=6), torch.tensor([[0, 1]]), none[:1])
    assert math.isnan(float(alone.compute()))


# --- calibration


def calibration(
    scores: Tensor, relevant: list[set[int]], k: int = 1, bins: int = 15, inside: set[int] | None = None
) -> float:
    """Mean over bins, by how much is in them, of |share right - mean probability| of what is shown."""
    shown: list[tuple[float, bool]] = []
    for row, own in zip(scores.double().tolist(), relevant, strict=True):
        top = max(row)
        below = math.fsum(math.exp(score - top) for score in row)
        for label in ranked([row])[0][:k]:
            if inside is None or label in inside:
                shown.append((math.exp(row[label] - top) / below, label in own))
    if not shown:
        return math.nan
    edges = [number / bins for number in range(1, bins)]
    total = 0.0
    for number in range(bins):
        here = [pair for pair in shown if sum(pair[0] >= edge for edge in edges) == number]
        total += abs(sum(right for _, right in here) - math.fsum(chance for chance, _ in here))
    return total / len(shown)


def confident(seed: int, num_rows: int = 300) -> tuple[Tensor, Tensor]:
    """Class scores from unsure to very sure, right more often where sure."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(num_rows, NUM_LABELS, generator=generator, dtype=torch.float64)
    scores *= torch.linspace(0.5, 6, num_rows)[:, None]
    classes = (torch.rand(num_rows, generator=generator) * NUM_LABELS).long()
    right = torch.rand(num_rows, generator=generator) < 0.5
    return scores, torch.where(right, scores.argmax(1), classes)


@pytest.mark.parametrize("bins", [1, 10, 15])
@pytest.mark.parametrize("k", [1, 3])
def test_calibration_error_equals_the_plain_loop(k: int, bins: int) -> None:
    """Of the k labels shown, overall and by the bucket of the label shown."""
    scores, classes = confident(15)
    relevant = [{label} for label in classes.tolist()]
    found = fed(tailmetrics.CalibrationErrorAtK(k=k, bins=bins), scores, classes).compute()
    assert float(found) == pytest.approx(calibration(scores, relevant, k, bins), rel=1e-9)
    by_bucket = fed(tailmetrics.CalibrationErrorAtK(k=k, bins=bins, buckets=THREE), scores, classes).compute()
    wanted = [calibration(scores, relevant, k, bins, inside) for inside in members(THREE)]
    assert floats(by_bucket) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("bins", [10, 15])
def test_torchmetrics_multiclass_calibration_error(bins: int) -> None:
    """MulticlassCalibrationError(norm="l1") at k = 1, whose sums are float64 here when its scores are."""
    peers = pytest.importorskip("torchmetrics.classification")
    scores, classes = confident(16)
    peer = peers.MulticlassCalibrationError(NUM_LABELS, n_bins=bins, norm="l1")
    expected = float(peer(scores.softmax(1), classes))
    found = fed(tailmetrics.CalibrationErrorAtK(bins=bins), scores, classes).compute()
    assert float(found) == pytest.approx(expected, rel=0, abs=1e-6)


def test_calibration_by_bucket_of_the_label_shown() -> None:
    """A bucket sees the rows whose first label is its own: TorchMetrics on those rows."""
    peers = pytest.importorskip("torchmetrics.classification")
    scores, classes = confident(17)
    found = floats(fed(tailmetrics.CalibrationErrorAtK(buckets=THREE), scores, classes).compute())
    for value, inside in zip(found, members(THREE), strict=True):
        own = torch.tensor([label in inside for label in scores.argmax(1).tolist()])
        peer = peers.MulticlassCalibrationError(NUM_LABELS, n_bins=15, norm="l1")
        assert value == pytest.approx(float(peer(scores[own].softmax(1), classes[own])), rel=0, abs=1e-6)


def test_calibration_of_several_relevant_labels() -> None:
    """A shown label is right where it is one of the relevant ones."""
    scores, target = drawn(18, num_rows=100)
    found = fed(tailmetrics.CalibrationErrorAtK(k=2), scores * 2, target).compute()
    assert float(found) == pytest.approx(calibration(scores * 2, sets(target), 2), rel=1e-9)


def test_worked_calibration_errors() -> None:
    """Sure and right is 0, sure and wrong 1; one half of two equal scores is right half of the time: 0."""
    sure = torch.tensor([[50.0, -50.0], [50.0, -50.0]], dtype=torch.float64)
    unsure = torch.zeros(2, 2)
    for scores, classes, wanted in ((sure, [0, 0], 0), (sure, [1, 1], 1), (unsure, [0, 1], 0), (unsure, [0, 0], 1 / 2)):
        metric = fed(tailmetrics.CalibrationErrorAtK(), scores, torch.tensor(classes))
        assert float(metric.compute()) == pytest.approx(wanted, abs=1e-12)
